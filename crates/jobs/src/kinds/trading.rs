//! What a classifier's probabilities would have earned: calibrated and turned into positions by what validation says,
//! then walked through an account over all test blocks.

use super::classifier::predictions_of;
use crate::train::{Experiment, Ids};
use features::labels::Rule;
use features::{Dataset, Span, class};
use files::Result;
use judge::backtest::{
    Backtest, Beliefs, Calibration, Course, SignalRule, Targets, Tried, Walked, backtest, choose_threshold,
    follow_signals, rank_portfolio, try_thresholds,
};
use judge::mean_probabilities;
use learn::Trained;
use market::PriceTable;

/// A run's positions and what they earned.
pub(crate) struct Traded {
    /// `[folds]` how each turns probabilities into positions; none where it has no members.
    pub(crate) rules: Vec<Option<SignalRule>>,
    pub(crate) backtest: Backtest,
    pub(crate) walked: Walked,
    pub(crate) notes: Vec<String>,
}

/// Trades the test blocks; `selected` `[folds]` is the config of each fold. None for ready arrays, which have no
/// prices, and where there is nothing to walk through.
pub(crate) fn trade(experiment: &Experiment, members: &[Trained], selected: &[usize]) -> Result<Option<Traded>> {
    let Experiment { source, splits, settings, .. } = experiment;
    let Ids::Bars { data, usable, rule: Some(rule), .. } = &source.ids else { return Ok(None) };
    let horizon = horizon(*rule);
    let market = &data.base.market;
    let funding = settings.account.funding.as_deref().map(crate::backtest::read_funding).transpose()?;
    let table = PriceTable::new(market, &settings.account.options(), funding.as_ref())?;
    let course = |span: Span| Course {
        market,
        clock: &data.clock,
        table: &table,
        span,
        delisting_return: settings.account.delisting_return,
    };
    let blocks = blocks(experiment, data);
    let of_fold = |m: &Trained| selected.get(m.fold) == Some(&m.config);
    let chosen: Vec<&Trained> = members.iter().filter(|m| of_fold(m)).collect();
    let rows_of = |fold: usize| -> (Vec<u32>, Vec<u32>) {
        let valid = splits.folds[fold].valid.iter().map(|at| source.problem.samples.rows[*at as usize]).collect();
        let span = blocks[fold];
        let in_block = |row: &u32| usable[*row as usize] && span.contains(data.clock.time(*row as usize));
        (valid, (0..usable.len() as u32).filter(in_block).collect())
    };
    let parts: Vec<(Vec<u32>, Vec<u32>)> = (0..splits.folds.len()).map(rows_of).collect();
    let ids = |fold: usize| [&parts[fold].0[..], &parts[fold].1[..]].concat();
    let predicted = predictions_of(experiment, &chosen, &ids)?;

    let classes = source.problem.classes;
    let empty: Beliefs = market.iter().map(|bars| vec![None; bars.len()]).collect();
    let (mut rules, mut tried): (Vec<Option<SignalRule>>, Vec<Vec<Tried>>) = Default::default();
    let mut targets = Targets::none(market);
    let mut beliefs = empty.clone();
    let mut trading = vec![false; splits.folds.len()];
    for (number, fold) in splits.folds.iter().enumerate() {
        let own = chosen.iter().zip(&predicted).filter(|(m, _)| m.fold == number).map(|(_, p)| p.as_slice());
        let own: Vec<&[f32]> = own.filter(|p| !p.is_empty() && p.iter().all(|x| x.is_finite())).collect();
        if own.is_empty() {
            rules.push(None);
            continue;
        }
        let mean = mean_probabilities(&own);
        let (valid, test) = &parts[number];
        let (of_valid, of_test) = mean.split_at(valid.len() * classes);
        let truth: Vec<u8> = fold.valid.iter().map(|at| source.problem.class_index(*at)).collect();
        let calibration = Calibration::fit(of_valid, &truth, classes);
        let believe = |into: &mut Beliefs, rows: &[u32], p: &[f32]| {
            for (row, p) in rows.iter().zip(p.chunks_exact(classes)) {
                let q = calibration.apply(p);
                let (symbol, t) = data.base.place(*row as usize);
                let (down, up) = (class::index(-1, classes), class::index(1, classes));
                into[symbol][t] = Some([q[usize::from(down)], q[usize::from(up)]]);
            }
        };
        let mut validated = empty.clone();
        believe(&mut validated, valid, of_valid);
        tried.push(try_thresholds(&course(fold.spans.valid), &table.params, &validated, horizon));
        let threshold = choose_threshold(&tried);
        trading[number] = threshold.is_some();
        believe(&mut beliefs, test, of_test);
        rules.push(Some(SignalRule { calibration, threshold, horizon }));
    }
    // Where a fold never trades nothing is believed: what an earlier fold holds runs out at its horizon.
    for (symbol, own) in beliefs.iter_mut().enumerate() {
        for (row, belief) in data.clock.rows(symbol).zip(own) {
            let time = data.clock.time(row);
            if blocks.iter().zip(&trading).any(|(span, trades)| !trades && span.contains(time)) {
                *belief = None;
            }
        }
    }
    match market.as_slice() {
        [bars] => {
            targets.actions[0] = follow_folds(data, &beliefs, &rules, &blocks, horizon, bars.instrument.shortable)
        }
        _ => targets = rank_portfolio(market, &data.clock, &beliefs, horizon),
    }
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return Ok(None) };
    let Some(span) = Span::new(first.from(), last.to()) else { return Ok(None) };
    let starts: Vec<(usize, i64)> = blocks.iter().enumerate().map(|(n, span)| (n + 1, span.from())).collect();
    let never = rules.iter().flatten().filter(|rule| rule.threshold.is_none()).count();
    let mut notes = table.notes.clone();
    if never > 0 {
        notes.push(format!(
            "{never} of {} do not trade: no threshold earned more than its standard error on validation data",
            files::format_plural(rules.len() as u64, "fold")
        ));
    }
    let (backtest, walked) = backtest(&course(span), &targets, &starts, settings.threads())?;
    Ok(Some(Traded { rules, backtest, walked, notes }))
}

/// Positions of one symbol, each block by its own fold's threshold.
fn follow_folds(
    data: &Dataset,
    beliefs: &Beliefs,
    rules: &[Option<SignalRule>],
    blocks: &[Span],
    horizon: usize,
    shortable: bool,
) -> Vec<account::Action> {
    // A belief that does not exceed its fold's threshold is one below any: one walk serves all folds.
    let fold_of = |time: i64| blocks.iter().position(|span| span.contains(time));
    let excess: Vec<Option<[f64; 2]>> = beliefs[0]
        .iter()
        .enumerate()
        .map(|(t, belief)| {
            let rule = fold_of(data.clock.time(t)).and_then(|fold| rules.get(fold)?.as_ref());
            let threshold = rule.and_then(|rule| rule.threshold)?;
            belief.map(|both| both.map(|p| p - threshold))
        })
        .collect();
    follow_signals(&excess, 0.0, horizon, shortable)
}

/// `[folds]` the time each is asked about: from the beginning of its test to that of the next, the last up to the
/// holdout or the end.
fn blocks(experiment: &Experiment, data: &Dataset) -> Vec<Span> {
    let splits = &experiment.splits;
    let end = data.clock.times.last().map_or(i64::MAX, |last| last.saturating_add(1));
    let end = splits.holdout.as_ref().map_or(end, |holdout| holdout.span.from());
    let from: Vec<i64> = splits.folds.iter().map(|fold| fold.spans.test.from()).collect();
    let ends = from.iter().skip(1).copied().chain([end]);
    from.iter().zip(ends).filter_map(|(from, to)| Span::new(*from, to)).collect()
}

/// Bars that a label looks ahead.
fn horizon(rule: Rule) -> usize {
    match rule {
        Rule::Auto => 1,
        Rule::Fixed { horizon } | Rule::Triple { horizon, .. } => horizon,
        Rule::Trend { longest } => longest,
    }
}
