//! The blocks of time that the members of a run are tested on, the same for classifiers and policies: walking them,
//! what was traded there, and what is kept of it.

use crate::train::{Experiment, Ids};
use crate::{Settings, backtest};
use bars::Bars;
use features::{Dataset, Span};
use files::Result;
use judge::backtest::{Backtest, ChanceTest, Course, Walked, walk};
use judge::evidence::{Findings, seed_spread};
use judge::performance::{TrackRecord, performance, trading_days_per_year};
use learn::Trained;
use market::{Policy, PriceTable};
use std::path::Path;

/// A market that members are tested on: its prices, and its blocks in the order of time.
pub(super) struct TestBlocks<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) data: &'a Dataset,
    pub(super) table: PriceTable,
    pub(super) spans: Vec<Span>,
}

impl<'a> TestBlocks<'a> {
    pub(super) fn new(experiment: &'a Experiment, data: &'a Dataset) -> Result<TestBlocks<'a>> {
        let table = price_table(&data.base.market, &experiment.settings)?;
        Ok(TestBlocks { experiment, data, table, spans: spans(experiment, data) })
    }

    pub(super) fn market(&self) -> &'a [Bars] {
        &self.data.base.market
    }

    pub(super) fn course(&self, span: Span) -> Course<'_> {
        Course {
            market: self.market(),
            clock: &self.data.clock,
            table: &self.table,
            span,
            delisting_return: self.experiment.settings.account.delisting_return,
        }
    }

    /// All test blocks.
    pub(super) fn whole(&self) -> Option<Course<'_>> {
        let (first, last) = (self.spans.first()?, self.spans.last()?);
        Span::new(first.from(), last.to()).map(|span| self.course(span))
    }

    pub(super) fn walk(&self, course: &Course<'_>, policy: &dyn Policy) -> Result<Walked> {
        walk(course, &self.table.params, policy)
    }

    /// Net Sharpe ratio per year of a walk; 0 where nothing was traded.
    pub(super) fn sharpe(&self, course: &Course<'_>, policy: &dyn Policy) -> Result<f64> {
        let (days, returns) = self.walk(course, policy)?.daily_returns();
        let per_year = trading_days_per_year(&days).unwrap_or(252.0).clamp(1.0, 366.0);
        let found = performance(&TrackRecord::new(&returns, per_year)).ok();
        Ok(found.and_then(|p| p.sharpe_annual.or(p.sharpe_annual_uncorrected)).unwrap_or(0.0))
    }

    /// The record of what a policy earns on them.
    pub(super) fn backtest(&self, course: &Course<'_>, policy: &dyn Policy) -> Result<(Backtest, Walked)> {
        let starts: Vec<(usize, i64)> = self.spans.iter().enumerate().map(|(n, span)| (n + 1, span.from())).collect();
        judge::backtest::backtest(course, policy, &starts, self.experiment.settings.threads())
    }
}

/// What was traded on all test blocks, and what it earned.
pub(crate) struct Traded {
    pub(super) backtest: Backtest,
    pub(super) walked: Walked,
    /// What chance earns, or why that was not judged.
    pub(super) chance: std::result::Result<ChanceTest, String>,
    /// Net Sharpe ratio per year of each seed, traded alone; 0 where it never trades.
    pub(super) seeds: Vec<f64>,
}

impl Traded {
    /// What is known of it, for the verdict, and its daily returns.
    pub(super) fn findings(&self, mut found: Findings, settings: &Settings) -> (Findings, Vec<f64>) {
        match &self.chance {
            Ok(chance) => found.chance = Some(chance.clone()),
            Err(why) => found.chance_missing = Some(why.clone()),
        }
        found.seeds = seed_spread("net Sharpe ratio per year", &self.seeds, settings.general.seed);
        (found, self.walked.daily_returns().1)
    }

    /// Writes it into a run folder.
    pub(super) fn save(&self, folder: &Path, market: &[Bars], settings: &Settings) -> Result<()> {
        backtest::save(&folder.join("backtest"), market, &self.backtest, &self.walked, settings.threads())
    }
}

/// Keeps the daily returns of every config; of the only one they are what was traded, of several `walk` gives them.
pub(super) fn keep_returns(
    experiment: &Experiment,
    traded: Option<&Traded>,
    walk: impl Fn(usize) -> Result<Option<Walked>>,
) -> Result<Vec<Option<String>>> {
    let configs = experiment.learner.configs().len();
    if experiment.settings.refit.is_some() {
        return Ok(vec![None; configs]);
    }
    if configs == 1 {
        return Ok(vec![traded.map(|traded| backtest::keep_returns(&traded.walked)).transpose()?]);
    }
    (0..configs).map(|config| walk(config)?.as_ref().map(backtest::keep_returns).transpose()).collect()
}

/// The seeds of members, each once.
pub(super) fn seeds_of(members: &[&Trained]) -> Vec<u32> {
    let mut numbers: Vec<u32> = members.iter().map(|m| m.seed).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The members of the config that each fold takes.
pub(super) fn members_of<'a>(members: &'a [Trained], config_of: &dyn Fn(usize) -> usize) -> Vec<&'a Trained> {
    members.iter().filter(|m| m.config == config_of(m.fold)).collect()
}

/// What bars mean for money, by the settings of the account.
pub(crate) fn price_table(market: &[Bars], settings: &Settings) -> Result<PriceTable> {
    let funding = settings.account.funding.as_deref().map(crate::backtest::read_funding).transpose()?;
    PriceTable::new(market, &settings.account.options(), funding.as_ref())
}

/// The time that is tested, in its order: of a walk `[folds]` from the beginning of each test to that of the next, the
/// last up to the holdout or the end, or to where nothing can be decided any more (behind a split of the price, say);
/// else the groups.
fn spans(experiment: &Experiment, data: &Dataset) -> Vec<Span> {
    let splits = &experiment.splits;
    if !splits.groups.is_empty() {
        return splits.groups.windows(2).filter_map(|pair| Span::new(pair[0], pair[1])).collect();
    }
    let end = data.clock.times.last().map_or(i64::MAX, |last| last.saturating_add(1));
    let end = splits.holdout.as_ref().map_or(end, |holdout| holdout.span.from());
    let reach = splits.folds.last().map_or(end, |fold| reach_of(experiment, data, fold.spans.test, end));
    let end = end.min(reach);
    let from: Vec<i64> = splits.folds.iter().map(|fold| fold.spans.test.from()).collect();
    let ends = from.iter().skip(1).copied().chain([end]);
    from.iter().zip(ends).filter_map(|(from, to)| Span::new(*from, to)).collect()
}

/// Behind the bar at which the last decision before `end` is filled, and behind what a test's labels reach.
fn reach_of(experiment: &Experiment, data: &Dataset, test: Span, end: i64) -> i64 {
    let Ids::Bars { usable, .. } = &experiment.source.ids else { return end };
    let ticks = (0..usable.len()).filter(|row| usable[*row]).map(|row| data.clock.tick[row] as usize);
    let times = &data.clock.times;
    let last = ticks.filter(|tick| times[*tick] < end).max();
    let filled = last.map_or(end, |tick| times.get(tick + 1).map_or(end, |time| time.saturating_add(1)));
    filled.max(test.to())
}
