//! What a classifier's probabilities would have earned: calibrated and turned into positions by what validation says,
//! then walked through an account over all test blocks.

use super::classifier::predictions_of;
use super::test_blocks::{TestBlocks, Traded, seeds_of};
use crate::train::{Experiment, Ids};
use crate::{Settings, SplitKind};
use bars::Bars;
use features::labels::{Barriers, Rule};
use features::{Dataset, FoldKind, Span, class};
use files::{Error, Kind, Result};
use judge::backtest::{
    Beliefs, Calibration, Exit, Follower, PortfolioRule, SignalRule, Tried, Walked, choose_threshold, permute_scores,
    shift_positions, try_thresholds,
};
use judge::mean_probabilities;
use judge::split::{paths, pieces};
use learn::Trained;
use market::{Policy, PriceTable};
use std::sync::Arc;

/// A run's positions and what they earned.
pub(crate) struct TradedSignals {
    /// `[folds]` how each turns probabilities into positions; none where it has no members.
    pub(crate) rules: Vec<Option<SignalRule>>,
    pub(crate) traded: Traded,
    /// Bars that a decision looks ahead.
    pub(crate) horizon: usize,
    pub(crate) notes: Vec<String>,
}

/// A market that members are traded on, and which rows each fold is asked about.
pub(crate) struct Trading<'a> {
    at: TestBlocks<'a>,
    horizon: usize,
    /// Of one symbol's label.
    barriers: Option<Barriers>,
    /// `[rows]` how far they are; empty where positions end at the horizon alone.
    distances: Arc<Vec<f64>>,
    /// `[folds]` rows of its validation and of its test block.
    rows: Vec<(Vec<u32>, Vec<u32>)>,
}

/// What probabilities lead to.
struct Positions {
    rules: Vec<Option<SignalRule>>,
    /// Of test blocks; none where a fold never trades.
    beliefs: Arc<Beliefs>,
    policy: Box<dyn Policy>,
}

impl<'a> Trading<'a> {
    /// None for ready arrays, which have no prices.
    pub(crate) fn new(experiment: &'a Experiment) -> Result<Option<Trading<'a>>> {
        let Experiment { source, splits, settings, .. } = experiment;
        let Ids::Bars { data, usable, rule: Some(rule), .. } = &source.ids else { return Ok(None) };
        let at = TestBlocks::new(experiment, data)?;
        // Folds around their tests are asked about all groups that they test.
        let paths = paths_of(experiment);
        let tests = |fold: usize, time: i64| {
            let block = at.spans.iter().position(|span| span.contains(time));
            block.is_some_and(|block| match paths.is_empty() {
                true => block == fold,
                false => paths.iter().any(|path| path[block] == fold),
            })
        };
        let rows_of = |fold: usize| -> (Vec<u32>, Vec<u32>) {
            let valid = splits.folds[fold].valid.iter().map(|at| source.problem.samples.rows[*at as usize]).collect();
            let in_block = |row: &u32| usable[*row as usize] && tests(fold, data.clock.time(*row as usize));
            (valid, (0..usable.len() as u32).filter(in_block).collect())
        };
        let rows = (0..splits.folds.len()).map(rows_of).collect();
        let barriers = barriers_of(&data.base.market, *rule, settings);
        let distances = distances(data, settings.trading.exit, barriers)?;
        Ok(Some(Trading { at, horizon: horizon(*rule), barriers, distances, rows }))
    }

    /// Trades the test blocks with these members, each fold's of one config. None where there is nothing to walk
    /// through.
    pub(crate) fn trade(&self, members: &[&Trained]) -> Result<Option<TradedSignals>> {
        let Some(course) = self.at.whole() else { return Ok(None) };
        let settings = &self.at.experiment.settings;
        let predicted = self.predict(members)?;
        let all: Vec<(&Trained, &[f32])> = members.iter().copied().zip(predicted.iter().map(Vec::as_slice)).collect();
        let Positions { rules, beliefs, policy } = self.positions(&all)?;
        let (backtest, walked) = self.at.backtest(&course, &*policy)?;
        let notes = self.notes(&rules);
        let (seed, threads) = (settings.general.seed, settings.threads());
        let chance = match course.market {
            _ if walked.trades.is_empty() => Err("nothing was traded".to_string()),
            [_] => shift_positions(&course, &*policy, self.label_days(), seed, threads),
            _ => permute_scores(&course, &beliefs, &|beliefs| self.policy(beliefs), seed, threads),
        };
        let seeds = seeds_of(members);
        let alone = |seed: &u32| {
            let own: Vec<_> = all.iter().filter(|(m, _)| m.seed == *seed).copied().collect();
            self.at.sharpe(&course, &*self.positions(&own)?.policy)
        };
        let seeds = if seeds.len() > 1 { seeds.iter().map(alone).collect::<Result<_>>()? } else { Vec::new() };
        let traded = Traded { backtest, walked, chance, seeds };
        Ok(Some(TradedSignals { rules, traded, horizon: self.horizon, notes }))
    }

    /// What these members earn, without the record of it.
    pub(crate) fn walk_members(&self, members: &[&Trained]) -> Result<Option<Walked>> {
        let Some(course) = self.at.whole() else { return Ok(None) };
        let predicted = self.predict(members)?;
        let all: Vec<(&Trained, &[f32])> = members.iter().copied().zip(predicted.iter().map(Vec::as_slice)).collect();
        self.at.walk(&course, &*self.positions(&all)?.policy).map(Some)
    }

    /// Trading days that a label stays open, at most.
    fn label_days(&self) -> usize {
        let samples = &self.at.experiment.source.problem.samples;
        let longest = samples.t0.iter().zip(&samples.t1).map(|(t0, t1)| t1 - t0).max().unwrap_or(0);
        (longest / 86_400_000_000_000) as usize + 1
    }

    /// `[members][valid and test rows, classes]`
    fn predict(&self, members: &[&Trained]) -> Result<Vec<Vec<f32>>> {
        let ids = |fold: usize| [&self.rows[fold].0[..], &self.rows[fold].1[..]].concat();
        predictions_of(self.at.experiment, members, &ids)
    }

    fn follower(&self) -> Follower<'_> {
        let portfolio = self.at.experiment.settings.trading.rule();
        let (market, table, barriers) = (&self.at.data.base.market, Some(&self.at.table), self.distances.clone());
        Follower { market, table, horizon: self.horizon, portfolio, barriers }
    }

    fn policy(&self, beliefs: Arc<Beliefs>) -> Box<dyn Policy> {
        self.follower().policy(beliefs)
    }

    /// Calibrates, chooses thresholds by validation and follows the signals of the test blocks.
    fn positions(&self, members: &[(&Trained, &[f32])]) -> Result<Positions> {
        let said = self.ask(members)?;
        let beliefs = Arc::new(beliefs_of(self.at.data, &said));
        let policy = self.policy(beliefs.clone());
        Ok(Positions { rules: said.into_iter().map(|block| block.rule).collect(), beliefs, policy })
    }

    /// `[folds]` what each says of its test rows, and how that becomes positions by what its validation says.
    fn ask(&self, members: &[(&Trained, &[f32])]) -> Result<Vec<Block>> {
        let Experiment { source, splits, .. } = self.at.experiment;
        let (data, horizon) = (self.at.data, self.horizon);
        let (classes, samples) = (source.problem.classes, &source.problem.samples);
        let (follower, exit, barriers) = (self.follower(), self.at.experiment.settings.trading.exit, self.barriers);
        let mut tried: Vec<Vec<Tried>> = Vec::new();
        let mut said: Vec<Block> = Vec::new();
        for (number, fold) in splits.folds.iter().enumerate() {
            let own = members.iter().filter(|(m, _)| m.fold == number).map(|(_, p)| *p);
            let own: Vec<&[f32]> = own.filter(|p| !p.is_empty() && p.iter().all(|x| x.is_finite())).collect();
            if own.is_empty() {
                said.push(Block::default());
                continue;
            }
            let mut mean = mean_probabilities(&own);
            let (valid, test) = &self.rows[number];
            let of_test = mean.split_off(valid.len() * classes);
            let truth: Vec<u8> = fold.valid.iter().map(|at| source.problem.class_index(*at)).collect();
            let calibration = Calibration::fit(&mean, &truth, classes);
            let mut validated: Beliefs = vec![None; data.base.rows()];
            believe(&mut validated, valid, &mean, &calibration, 0.0);
            let validated = Arc::new(validated);
            // Of what lies around a test each fold has its own; a walk knows earlier folds too.
            if fold.kind == FoldKind::Around {
                tried.clear();
            }
            for piece in pieces(&fold.valid, &[&fold.train, &fold.test]) {
                let piece = &fold.valid[piece];
                let from = samples.t0[piece[0] as usize];
                let reach = piece.iter().map(|at| samples.t1[*at as usize]).max().unwrap_or(from);
                if let Some(span) = Span::new(from, reach.saturating_add(1)) {
                    tried.push(try_thresholds(&self.at.course(span), &self.at.table.params, &validated, &follower)?);
                }
            }
            let threshold = choose_threshold(&tried);
            let portfolio = follower.portfolio;
            let rule = Some(SignalRule { calibration, threshold, horizon, portfolio, exit, barriers });
            said.push(Block { rows: test.clone(), probabilities: of_test, rule });
        }
        Ok(said)
    }

    /// `[paths]` what every path through the groups of folds around their tests would have earned; the notes are with
    /// the first.
    pub(crate) fn trade_paths(&self, members: &[&Trained]) -> Result<Vec<TradedSignals>> {
        let Some(course) = self.at.whole() else { return Ok(Vec::new()) };
        let predicted = self.predict(members)?;
        let all: Vec<(&Trained, &[f32])> = members.iter().copied().zip(predicted.iter().map(Vec::as_slice)).collect();
        let said = self.ask(&all)?;
        let rules: Vec<Option<SignalRule>> = said.iter().map(|block| block.rule.clone()).collect();
        let classes = self.at.experiment.source.problem.classes;
        let part = |(group, fold): (&Span, &usize)| {
            let Block { rows, probabilities, rule } = &said[*fold];
            let inside = rows.iter().zip(probabilities.chunks_exact(classes));
            let inside = inside.filter(|(row, _)| group.contains(self.at.data.clock.time(**row as usize)));
            let (rows, p): (Vec<u32>, Vec<&[f32]>) = inside.map(|(row, p)| (*row, p)).unzip();
            Block { rows, probabilities: p.concat(), rule: rule.clone() }
        };
        let mut notes = self.notes(&rules);
        let walk = |path: &Vec<usize>| {
            let blocks: Vec<Block> = self.at.spans.iter().zip(path).map(part).collect();
            let policy = self.policy(Arc::new(beliefs_of(self.at.data, &blocks)));
            let (backtest, walked) = self.at.backtest(&course, &*policy)?;
            let chance = Err("paths through folds that train around their tests are no walk forward".to_string());
            let (rules, notes) = (rules.clone(), std::mem::take(&mut notes));
            let traded = Traded { backtest, walked, chance, seeds: Vec::new() };
            Ok(TradedSignals { rules, traded, horizon: self.horizon, notes })
        };
        paths_of(self.at.experiment).iter().map(walk).collect()
    }

    fn notes(&self, rules: &[Option<SignalRule>]) -> Vec<String> {
        let never = rules.iter().flatten().filter(|rule| rule.threshold.is_none()).count();
        let mut notes = self.at.table.notes.clone();
        let trading = &self.at.experiment.settings.trading;
        notes.extend(portfolio_notes(&self.at.data.base.market, &self.at.table, &trading.rule()));
        if never > 0 {
            notes.push(format!(
                "{never} of {} do not trade: no threshold earned more than its standard error on validation data",
                files::format_plural(rules.len() as u64, "fold")
            ));
        }
        notes
    }
}

/// `[paths][groups]` the fold that each path takes each group from; none in a walk forward.
pub(crate) fn paths_of(experiment: &Experiment) -> Vec<Vec<usize>> {
    let split = &experiment.settings.split;
    match experiment.splits.groups.len() {
        0 => Vec::new(),
        borders => paths(borders - 1, if split.kind == SplitKind::Cpcv { split.test_groups } else { 1 }),
    }
}

/// Rows, what is predicted for them, and how that becomes positions.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) rows: Vec<u32>,
    /// `[rows, classes]`
    pub(crate) probabilities: Vec<f32>,
    /// None where nobody predicts.
    pub(crate) rule: Option<SignalRule>,
}

/// Corrected probabilities of blocks that do not overlap, each less its own rule's threshold. Where a rule never trades
/// nothing is believed: what an earlier block holds runs out at its horizon.
pub(crate) fn beliefs_of(data: &Dataset, blocks: &[Block]) -> Beliefs {
    let mut beliefs: Beliefs = vec![None; data.base.rows()];
    for Block { rows, probabilities, rule } in blocks {
        if let Some(SignalRule { calibration, threshold: Some(threshold), .. }) = rule {
            believe(&mut beliefs, rows, probabilities, calibration, *threshold);
        }
    }
    beliefs
}

/// Takes corrected probabilities of rows in, less a threshold.
fn believe(into: &mut Beliefs, rows: &[u32], p: &[f32], calibration: &Calibration, threshold: f64) {
    let classes = calibration.bias.len();
    let [down, up] = [-1, 1].map(|side| usize::from(class::index(side, classes)));
    for (row, p) in rows.iter().zip(p.chunks_exact(classes)) {
        let q = calibration.apply(p);
        into[*row as usize] = Some([q[down] - threshold, q[up] - threshold]);
    }
}

/// What a portfolio's rule does not say by itself: which side is missing, and what leverage leaves of it.
pub(crate) fn portfolio_notes(market: &[Bars], table: &PriceTable, rule: &PortfolioRule) -> Vec<String> {
    let mut notes = Vec::new();
    if market.len() < 2 {
        return notes;
    }
    let held: Vec<&str> = market.iter().filter(|b| !b.instrument.shortable).map(|b| b.symbol.as_str()).collect();
    let long_only = rule.long_only || !held.is_empty();
    let most = if long_only { rule.gross.min(rule.net) } else { rule.gross };
    if !rule.long_only && !held.is_empty() {
        let who = match held.len() == market.len() {
            true => "these symbols".to_string(),
            false => format!("{} of {} symbols ({}, …)", held.len(), market.len(), held[0]),
        };
        notes.push(format!(
            "nothing is sold short, because {who} cannot be: the long side holds {most} times equity, the smaller of \
             `trading.gross` and `trading.net`"
        ));
    } else if long_only && rule.net < rule.gross {
        notes.push(format!("the long side alone holds {most} times equity: `trading.net` is below `trading.gross`"));
    }
    let leverage = table.params[0].leverage;
    if most > leverage {
        notes.push(format!(
            "a portfolio of {most} times equity is cut to {leverage}, all that `account.leverage` allows: raise \
             <account.leverage> to hold it"
        ));
    }
    notes
}

/// Bars that a label looks ahead.
pub(crate) fn horizon(rule: Rule) -> usize {
    match rule {
        Rule::Auto => 1,
        Rule::Fixed { horizon } | Rule::Triple { horizon, .. } => horizon,
        Rule::Trend { longest } => longest,
    }
}

/// The barriers of a label; none where it has none, or for several symbols.
fn barriers_of(market: &[Bars], rule: Rule, settings: &Settings) -> Option<Barriers> {
    match (market, settings.labeling()) {
        ([bars], Some(labeling)) => Barriers::new(&labeling, rule, bars),
        _ => None,
    }
}

/// `[rows]` how far barriers lie where positions end there; empty where they end at the horizon alone.
pub(crate) fn distances(data: &Dataset, exit: Exit, barriers: Option<Barriers>) -> Result<Arc<Vec<f64>>> {
    match (exit, barriers, data.base.market.as_slice()) {
        (Exit::Horizon, ..) => Ok(Arc::default()),
        (Exit::Label, Some(barriers), [bars]) => Ok(Arc::new(barriers.distances(&bars.close, &data.base.runs[0]))),
        (Exit::Label, _, [_]) => {
            Err(Error::new(Kind::Usage, "this model keeps no barriers that positions could end at")
                .remedy("train again with <label.rule=\"triple(24)\">, or leave out <trading.exit=label>"))
        }
        (Exit::Label, _, market) => Err(for_one_symbol(market.len())),
    }
}

fn for_one_symbol(symbols: usize) -> Error {
    let many = format!("`trading.exit = \"label\"` is for one symbol, and there are {symbols}");
    Error::new(Kind::Usage, format!("{many}: a portfolio nets tranches, which have no stop of their own"))
        .remedy("choose one with <symbols>, or leave out <trading.exit=label>")
}

/// Refuses exits that a data set has not: barriers belong to one symbol and a triple label.
pub(crate) fn check_exit(market: &[Bars], rule: Rule, settings: &Settings) -> Result<()> {
    if settings.trading.exit == Exit::Horizon {
        return Ok(());
    }
    if market.len() > 1 {
        return Err(for_one_symbol(market.len()));
    }
    if barriers_of(market, rule, settings).is_none() {
        return Err(Error::new(Kind::Usage, format!("`trading.exit = \"label\"`: the label {rule} has no barriers"))
            .remedy("predict <label.rule=\"triple(24)\">, or leave out <trading.exit=label>"));
    }
    Ok(())
}
