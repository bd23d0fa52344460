//! The holdout that stays locked: what the ledger knows of the data, whatever their file and symbols are called.
//!
//! Who trains on data of which a part was held out before keeps that part out of training, validation and test, however
//! the split is set. `--release-holdout` makes it ordinary data for ever, and that is written down first.

use super::ledger_path;
use crate::Settings;
use bars::Bars;
use features::Span;
use files::time::rfc3339;
use files::{Error, Kind, Result};
use judge::ledger::{Known, Ledger, Series};
use judge::split::{Held, Splits};
use std::path::Path;

/// What the ledger knows of a data set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holdings {
    /// `[symbols]` of bars; ready arrays have none.
    series: Vec<Series>,
    pub(crate) known: Known,
    /// What follows for the split.
    pub(crate) held: Held,
}

impl Holdings {
    /// Of bars. A run that goes on keeps to what it began with.
    pub(crate) fn of_bars(market: &[Bars], settings: &Settings) -> Result<Holdings> {
        let own = |bars: &Bars| Series::new(&bars.symbol, &bars.start, &bars.close, market.len());
        let series: Vec<Series> = market.iter().map(own).collect();
        let first = market.iter().filter_map(|bars| bars.start.first()).min();
        let last = market.iter().filter_map(|bars| bars.end.last()).max();
        let span = first.zip(last).and_then(|(first, last)| Span::new(*first, *last));
        let known = look_up(span, |ledger, span| ledger.identify(&series, span))?;
        let known = known.unwrap_or_else(|| Known::unseen(&series));
        Ok(Holdings::new(series, known, settings))
    }

    /// Of ready arrays, which are known by the names of their symbols, or by their bytes.
    pub(crate) fn of_arrays(names: &[String], t0: &[i64], settings: &Settings) -> Result<Holdings> {
        let span = t0.first().zip(t0.last()).and_then(|(first, last)| Span::new(*first, last.saturating_add(1)));
        let known = look_up(span, |ledger, span| ledger.identify_by_name(names, span))?;
        let known = known.unwrap_or_else(|| Known::named(names));
        Ok(Holdings::new(Vec::new(), known, settings))
    }

    fn new(series: Vec<Series>, known: Known, settings: &Settings) -> Holdings {
        // What trains on everything leaves out what nobody has looked at.
        let locked_from = if settings.refit.is_some() { known.unopened_from() } else { known.locked_from() };
        let found = Held { locked_from, released_to: known.released };
        Holdings { series, known, held: settings.held.unwrap_or(found) }
    }

    /// Why data cannot be split of which nearly all is locked; other errors stay as they are.
    pub(super) fn explain(&self, error: Error, path: &Path) -> Error {
        match self.held.locked_from {
            Some(from) if error.kind == Kind::Input => Error::new(
                Kind::State,
                format!(
                    "too little of these data is not locked: everything from {} on is the holdout of an earlier run",
                    day(from)
                ),
            )
            .at(path)
            .remedy("give more data from before it; <release-holdout> makes it ordinary data for ever"),
            _ => error,
        }
    }

    /// The name that the ledger has for a symbol.
    pub(crate) fn name_of(&self, symbol: &str) -> String {
        let at = self.series.iter().position(|series| series.symbol == symbol);
        at.and_then(|at| self.known.names.get(at)).map_or(symbol.to_string(), String::clone)
    }

    /// Writes what the data are and what of them is held out, before a run begins.
    pub(super) fn lock(&self, ledger: &Ledger, splits: &Splits) -> Result<()> {
        ledger.lock_holdout(&self.known, &self.series, splits.holdout.as_ref().map(|holdout| holdout.span))
    }

    /// The same for what has no folds: the time that is held out.
    pub(crate) fn lock_span(&self, ledger: &Ledger, span: Option<Span>) -> Result<()> {
        ledger.lock_holdout(&self.known, &self.series, span)
    }

    /// Writes that what is locked is ordinary data from now on; says whether anything was.
    pub(super) fn release(&self) -> Result<bool> {
        if self.known.locks.is_empty() {
            return Ok(false);
        }
        Ledger::open(&ledger_path()?)?.release_holdouts(&self.known)?;
        Ok(true)
    }

    /// What to say where the ledger changes the split: `plain` is the first moment held out without it.
    pub(super) fn note(&self, splits: &Splits, plain: Option<i64>) -> Option<String> {
        let from = splits.holdout.as_ref().map(|holdout| holdout.span.from());
        if from == plain {
            return None;
        }
        Some(match (from, self.known.locks.first()) {
            (Some(from), Some(lock)) => format!(
                "everything from {} on stays out of training, validation and test: an earlier run on these data locked \
                 it as its holdout on {} (<release-holdout> makes it ordinary data for ever)",
                day(from),
                day(lock.time)
            ),
            (Some(from), None) => {
                format!("held out is what was not released before: everything from {} on", day(from))
            }
            (None, _) => "nothing is held out: the end of these data was released before".into(),
        })
    }
}

/// Ready arrays may count rows instead of telling the time.
pub(super) fn day(time: i64) -> String {
    if time < 1_000_000_000_000 { time.to_string() } else { rfc3339(time).chars().take(10).collect() }
}

/// Asks the ledger, where there is one; what only looks makes none.
fn look_up(span: Option<Span>, ask: impl Fn(&Ledger, Span) -> Result<Known>) -> Result<Option<Known>> {
    let path = ledger_path()?;
    let Some(span) = span.filter(|_| path.exists()) else { return Ok(None) };
    ask(&Ledger::open(&path)?, span).map(Some)
}
