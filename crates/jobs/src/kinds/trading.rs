//! What a classifier's probabilities would have earned: calibrated and turned into positions by what validation says,
//! then walked through an account over all test blocks.

use super::classifier::predictions_of;
use crate::train::{Experiment, Ids};
use features::labels::Rule;
use features::{Dataset, Span, class};
use files::Result;
use judge::backtest::{
    Backtest, Beliefs, Calibration, ChanceTest, Course, SignalRule, Targets, Tried, Walked, backtest, choose_threshold,
    follow_signals, permute_scores, rank_portfolio, shift_positions, try_thresholds, walk,
};
use judge::mean_probabilities;
use judge::performance::{TrackRecord, performance, trading_days_per_year};
use learn::Trained;
use market::PriceTable;

/// A run's positions and what they earned.
pub(crate) struct Traded {
    /// `[folds]` how each turns probabilities into positions; none where it has no members.
    pub(crate) rules: Vec<Option<SignalRule>>,
    pub(crate) backtest: Backtest,
    pub(crate) walked: Walked,
    /// Bars that a decision looks ahead.
    pub(crate) horizon: usize,
    /// What chance earns, or why that was not judged.
    pub(crate) chance: std::result::Result<ChanceTest, String>,
    /// Net Sharpe ratio per year of each seed, traded alone; 0 where it never trades.
    pub(crate) seeds: Vec<f64>,
    pub(crate) notes: Vec<String>,
}

/// A market that members are traded on: prices, and which rows each fold is asked about.
pub(crate) struct Trading<'a> {
    experiment: &'a Experiment,
    data: &'a Dataset,
    table: PriceTable,
    horizon: usize,
    blocks: Vec<Span>,
    /// `[folds]` rows of its validation and of its test block.
    rows: Vec<(Vec<u32>, Vec<u32>)>,
}

/// What probabilities lead to.
struct Positions {
    rules: Vec<Option<SignalRule>>,
    /// Of test blocks; none where a fold never trades.
    beliefs: Beliefs,
    targets: Targets,
}

impl<'a> Trading<'a> {
    /// None for ready arrays, which have no prices.
    pub(crate) fn new(experiment: &'a Experiment) -> Result<Option<Trading<'a>>> {
        let Experiment { source, splits, settings, .. } = experiment;
        let Ids::Bars { data, usable, rule: Some(rule), .. } = &source.ids else { return Ok(None) };
        let funding = settings.account.funding.as_deref().map(crate::backtest::read_funding).transpose()?;
        let table = PriceTable::new(&data.base.market, &settings.account.options(), funding.as_ref())?;
        let blocks = blocks(experiment, data);
        let rows_of = |fold: usize| -> (Vec<u32>, Vec<u32>) {
            let valid = splits.folds[fold].valid.iter().map(|at| source.problem.samples.rows[*at as usize]).collect();
            let span = blocks[fold];
            let in_block = |row: &u32| usable[*row as usize] && span.contains(data.clock.time(*row as usize));
            (valid, (0..usable.len() as u32).filter(in_block).collect())
        };
        let rows = (0..splits.folds.len()).map(rows_of).collect();
        Ok(Some(Trading { experiment, data, table, horizon: horizon(*rule), blocks, rows }))
    }

    fn course(&self, span: Span) -> Course<'_> {
        Course {
            market: &self.data.base.market,
            clock: &self.data.clock,
            table: &self.table,
            span,
            delisting_return: self.experiment.settings.account.delisting_return,
        }
    }

    /// All test blocks.
    fn whole(&self) -> Option<Course<'_>> {
        let (first, last) = (self.blocks.first()?, self.blocks.last()?);
        Span::new(first.from(), last.to()).map(|span| self.course(span))
    }

    /// Trades the test blocks with these members, each fold's of one config. None where there is nothing to walk
    /// through.
    pub(crate) fn trade(&self, members: &[&Trained]) -> Result<Option<Traded>> {
        let Some(course) = self.whole() else { return Ok(None) };
        let settings = &self.experiment.settings;
        let predicted = self.predict(members)?;
        let all: Vec<(&Trained, &[f32])> = members.iter().copied().zip(predicted.iter().map(Vec::as_slice)).collect();
        let Positions { rules, beliefs, targets } = self.positions(&all);
        let starts: Vec<(usize, i64)> = self.blocks.iter().enumerate().map(|(n, span)| (n + 1, span.from())).collect();
        let (backtest, walked) = backtest(&course, &targets, &starts, settings.threads())?;
        let never = rules.iter().flatten().filter(|rule| rule.threshold.is_none()).count();
        let mut notes = self.table.notes.clone();
        if never > 0 {
            notes.push(format!(
                "{never} of {} do not trade: no threshold earned more than its standard error on validation data",
                files::format_plural(rules.len() as u64, "fold")
            ));
        }
        let (seed, threads) = (settings.general.seed, settings.threads());
        let chance = match course.market {
            _ if walked.trades.is_empty() => Err("nothing was traded".to_string()),
            [_] => shift_positions(&course, &targets, self.label_days(), seed, threads),
            _ => permute_scores(&course, &beliefs, &|beliefs| self.portfolio(beliefs), seed, threads),
        };
        let mut seeds: Vec<u32> = members.iter().map(|m| m.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let alone = |seed: &u32| {
            let own: Vec<_> = all.iter().filter(|(m, _)| m.seed == *seed).copied().collect();
            self.sharpe(&self.walk(&course, &self.positions(&own).targets))
        };
        let seeds = if seeds.len() > 1 { seeds.iter().map(alone).collect() } else { Vec::new() };
        Ok(Some(Traded { rules, backtest, walked, horizon: self.horizon, chance, seeds, notes }))
    }

    /// What these members earn, without the record of it.
    pub(crate) fn walk_members(&self, members: &[&Trained]) -> Result<Option<Walked>> {
        let Some(course) = self.whole() else { return Ok(None) };
        let predicted = self.predict(members)?;
        let all: Vec<(&Trained, &[f32])> = members.iter().copied().zip(predicted.iter().map(Vec::as_slice)).collect();
        Ok(Some(self.walk(&course, &self.positions(&all).targets)))
    }

    fn walk(&self, course: &Course<'_>, targets: &Targets) -> Walked {
        walk(course, &self.table.params, targets)
    }

    /// Per year; 0 where nothing was traded.
    fn sharpe(&self, walked: &Walked) -> f64 {
        let (days, returns) = walked.daily_returns();
        let per_year = trading_days_per_year(&days).unwrap_or(252.0).clamp(1.0, 366.0);
        let found = performance(&TrackRecord::new(&returns, per_year)).ok();
        found.and_then(|p| p.sharpe_annual.or(p.sharpe_annual_uncorrected)).unwrap_or(0.0)
    }

    /// Trading days that a label stays open, at most.
    fn label_days(&self) -> usize {
        let samples = &self.experiment.source.problem.samples;
        let longest = samples.t0.iter().zip(&samples.t1).map(|(t0, t1)| t1 - t0).max().unwrap_or(0);
        (longest / 86_400_000_000_000) as usize + 1
    }

    /// `[members][valid and test rows, classes]`
    fn predict(&self, members: &[&Trained]) -> Result<Vec<Vec<f32>>> {
        let ids = |fold: usize| [&self.rows[fold].0[..], &self.rows[fold].1[..]].concat();
        predictions_of(self.experiment, members, &ids)
    }

    fn portfolio(&self, beliefs: &Beliefs) -> Targets {
        rank_portfolio(&self.data.base.market, &self.data.clock, beliefs, self.horizon)
    }

    /// Calibrates, chooses thresholds by validation and follows the signals of the test blocks.
    fn positions(&self, members: &[(&Trained, &[f32])]) -> Positions {
        let Experiment { source, splits, .. } = self.experiment;
        let (data, horizon) = (self.data, self.horizon);
        let market = &data.base.market;
        let classes = source.problem.classes;
        let empty: Beliefs = market.iter().map(|bars| vec![None; bars.len()]).collect();
        let (mut rules, mut tried): (Vec<Option<SignalRule>>, Vec<Vec<Tried>>) = Default::default();
        let mut targets = Targets::none(market);
        let mut beliefs = empty.clone();
        let mut trading = vec![false; splits.folds.len()];
        for (number, fold) in splits.folds.iter().enumerate() {
            let own = members.iter().filter(|(m, _)| m.fold == number).map(|(_, p)| *p);
            let own: Vec<&[f32]> = own.filter(|p| !p.is_empty() && p.iter().all(|x| x.is_finite())).collect();
            if own.is_empty() {
                rules.push(None);
                continue;
            }
            let mean = mean_probabilities(&own);
            let (valid, test) = &self.rows[number];
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
            tried.push(try_thresholds(&self.course(fold.spans.valid), &self.table.params, &validated, horizon));
            let threshold = choose_threshold(&tried);
            trading[number] = threshold.is_some();
            believe(&mut beliefs, test, of_test);
            rules.push(Some(SignalRule { calibration, threshold, horizon }));
        }
        // Where a fold never trades nothing is believed: what an earlier fold holds runs out at its horizon.
        for (symbol, own) in beliefs.iter_mut().enumerate() {
            for (row, belief) in data.clock.rows(symbol).zip(own) {
                let time = data.clock.time(row);
                if self.blocks.iter().zip(&trading).any(|(span, trades)| !trades && span.contains(time)) {
                    *belief = None;
                }
            }
        }
        match market.as_slice() {
            [bars] => {
                let shortable = bars.instrument.shortable;
                targets.actions[0] = follow_folds(data, &beliefs, &rules, &self.blocks, horizon, shortable);
            }
            _ => targets = self.portfolio(&beliefs),
        }
        Positions { rules, beliefs, targets }
    }
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
