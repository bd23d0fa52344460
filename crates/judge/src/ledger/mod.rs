//! The ledger: every trial is written when it starts (docs/method.md, Ledger).
//!
//! A *trial* is a configuration with a root seed, never a fold or a seed inside a run. Its *family* is every trial
//! whose evaluated series and time overlap, whatever file they came from and whatever they are called there
//! (`series.rs`); a figure is deflated by the size of its family. So nothing may leave the ledger: rows are events
//! (started, finished, failed, holdout opened and judged, series seen, holdout locked and released), each is on the
//! disk before the call returns, each carries a hash of itself and of the row before, and the file refuses updates and
//! deletions. A trial that started and never ended counts as crashed.
//!
//! Every question reads the chain from its first row and checks it on the way: a ledger that was changed gives no
//! counts, only the row at which it is broken. What no chain can tell is that its end was cut off; [`StartedTrial`]
//! carries its row's hash, so a run finds out.

mod chain;
mod event;
mod file;
mod locks;
mod series;
#[cfg(test)]
mod tests;

pub use locks::{HoldoutLock, Known};
pub use series::Series;

use chain::Read;
use event::Event;
use features::Span;
use files::{Error, Kind, Result};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is about to be tried, and on what it will be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The hash of its configuration (features, label, learner, hyper-parameters, costs, universe), and behind `@` its
    /// root seed.
    pub id: String,
    /// Symbols it is judged on. Data without symbols are named by their fingerprint.
    pub symbols: Vec<String>,
    /// The time it is judged on.
    pub span: Span,
    /// Version of the program.
    pub code: String,
    /// Fingerprint of the data.
    pub data: String,
    /// How many folds.
    pub folds: u32,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The trial it was made from.
    pub parent: Option<String>,
    /// What it is, for people; none where an older version wrote it.
    #[serde(default)]
    pub what: Option<String>,
}

impl Trial {
    /// Its configuration: the id without the root seed.
    pub fn config(&self) -> &str {
        self.id.split('@').next().unwrap_or(&self.id)
    }
}

/// A trial that is in the ledger. Kept with the run, so that a resumed run ends the trial it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedTrial {
    /// Its row.
    pub row: u64,
    /// The trial's id.
    pub trial: String,
    /// The row's hash.
    pub hash: String,
}

/// One start of a trial and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRow {
    /// Row of the start.
    pub row: u64,
    /// When it started, in nanoseconds since 1970 UTC.
    pub time: i64,
    /// What was tried.
    pub trial: Trial,
    /// How it ended.
    pub outcome: Outcome,
    /// How often it opened a holdout.
    pub holdouts: usize,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With these metrics and, where it trades, the id of its series of returns.
    Finished {
        /// As they were handed in.
        metrics: Value,
        /// Where its returns are.
        returns: Option<String>,
    },
    /// With this reason.
    Failed {
        /// In words.
        why: String,
    },
    /// Nobody wrote its end: it crashed, was killed, or still runs.
    Crashed,
}

/// A look at a holdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Its row.
    pub row: u64,
    /// When, in nanoseconds since 1970 UTC.
    pub time: i64,
    /// What was looked at.
    pub span: Span,
    /// The run that looked, in words.
    pub by: String,
}

/// The file of all trials.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    db: Connection,
}

impl Ledger {
    /// Opens the ledger, or makes one where there is no file. Several processes may have it open.
    ///
    /// # Errors
    ///
    /// Where the file is not a ledger, is damaged, was written by a newer version or cannot be written. It is left as
    /// it is.
    pub fn open(path: &Path) -> Result<Ledger> {
        Ok(Ledger { path: path.to_path_buf(), db: file::open(path)? })
    }

    /// Writes that a trial starts. It is on the disk when this returns; only then may work begin.
    ///
    /// # Errors
    ///
    /// Where it has no id or no symbols, and where the row could not be written: then nothing may be tried.
    pub fn start(&self, trial: &Trial) -> Result<StartedTrial> {
        if trial.id.is_empty() || trial.symbols.is_empty() {
            return Err(Error::new(Kind::Usage, "a trial needs an id and at least one symbol"));
        }
        let event = Event::start(trial);
        let (row, hash) = self.append(event, |_| Ok(()))?;
        Ok(StartedTrial { row, trial: trial.id.clone(), hash })
    }

    /// Writes that a trial ended well, before anyone sees its result. `returns` is the id of its series of returns.
    ///
    /// # Errors
    ///
    /// Where the trial never started in this ledger or has finished already, and where the row could not be written.
    pub fn finish(&self, started: &StartedTrial, metrics: &Value, returns: Option<&str>) -> Result<()> {
        let event = Event {
            metrics: Some(metrics.to_string()),
            returns: returns.map(str::to_string),
            ..started.event("finished")
        };
        self.append(event, |db| self.is_open(db, started)).map(drop)
    }

    /// Whether the end of a trial is written: its run may have been killed between that and the end of its own folder.
    ///
    /// # Errors
    ///
    /// Where the ledger cannot be read or its chain is broken.
    pub fn finished(&self, started: &StartedTrial) -> Result<bool> {
        let ended = |read: &Read| read.event.start == Some(started.row) && read.event.kind == "finished";
        Ok(self.read()?.iter().any(ended))
    }

    /// Refuses a trial that did not start in this ledger.
    ///
    /// # Errors
    ///
    /// Where its row is another one, or cannot be read.
    pub fn expect_started(&self, started: &StartedTrial) -> Result<()> {
        self.holds(&self.db, started)
    }

    /// How a trial ended; none where it did not start in this ledger.
    ///
    /// # Errors
    ///
    /// Where the ledger cannot be read or its chain is broken.
    pub fn outcome(&self, started: &StartedTrial) -> Result<Option<Outcome>> {
        let rows = self.all()?;
        let held = self.expect_started(started).is_ok();
        Ok(rows.into_iter().find(|(row, _)| held && row.row == started.row).map(|(row, _)| row.outcome))
    }

    /// Writes that a trial failed, and why. It may be resumed and finish later.
    ///
    /// # Errors
    ///
    /// As [`Ledger::finish`].
    pub fn fail(&self, started: &StartedTrial, why: &str) -> Result<()> {
        let event = Event { reason: Some(why.to_string()), ..started.event("failed") };
        self.append(event, |db| self.is_open(db, started)).map(drop)
    }

    /// Writes that a trial looks at a holdout, and gives every opening of that holdout so far, this one last. More than
    /// one: it is a holdout no longer. `by` is the run that looks, in words.
    ///
    /// # Errors
    ///
    /// Where the trial is not in this ledger, and where the row could not be written: then the holdout stays closed.
    pub fn open_holdout(&self, started: &StartedTrial, span: Span, by: &str) -> Result<Vec<Opening>> {
        let event = Event { span: Some(span), reason: Some(by.to_string()), ..started.event("holdout") };
        self.append(event, |db| self.holds(db, started))?;
        let symbols = self.read()?.into_iter().find(|read| read.row == started.row).and_then(|read| read.event.trial());
        self.openings(&symbols.map_or(Vec::new(), |trial| trial.symbols), span)
    }

    /// Writes what an opening showed, before anyone sees it.
    ///
    /// # Errors
    ///
    /// Where the trial is not in this ledger, and where the row could not be written.
    pub fn judge_holdout(&self, started: &StartedTrial, metrics: &Value) -> Result<()> {
        let event = Event { metrics: Some(metrics.to_string()), ..started.event("holdout judged") };
        self.append(event, |db| self.holds(db, started)).map(drop)
    }

    /// Every opening of a holdout of any of these symbols that overlaps this time, the first one first.
    ///
    /// # Errors
    ///
    /// Where the ledger cannot be read or its chain is broken.
    pub fn openings(&self, symbols: &[String], span: Span) -> Result<Vec<Opening>> {
        let rows = self.read()?;
        let starts: BTreeMap<u64, Trial> =
            rows.iter().filter_map(|read| Some((read.row, read.event.trial()?))).collect();
        let wanted: BTreeSet<&String> = symbols.iter().collect();
        let opening = |Read { row, time, event }: Read| {
            let looked = event.span.filter(|looked| event.kind == "holdout" && looked.overlaps(span))?;
            let of = starts.get(&event.start?)?;
            let same = of.symbols.iter().any(|symbol| wanted.contains(symbol));
            same.then(|| Opening { row, time, span: looked, by: event.reason.unwrap_or(event.trial) })
        };
        Ok(rows.into_iter().filter_map(opening).collect())
    }

    /// Every start of a trial judged on any of these symbols in this time, or that looked at a holdout there, in the
    /// order of the rows.
    ///
    /// # Errors
    ///
    /// Where the ledger cannot be read or its chain is broken.
    pub fn family(&self, symbols: &[String], span: Span) -> Result<Vec<TrialRow>> {
        let wanted: BTreeSet<&String> = symbols.iter().collect();
        let mut judged = self.all()?;
        judged.retain(|(row, looked)| {
            row.trial.symbols.iter().any(|symbol| wanted.contains(symbol))
                && (row.trial.span.overlaps(span) || looked.iter().any(|looked| looked.overlaps(span)))
        });
        Ok(judged.into_iter().map(|(row, _)| row).collect())
    }

    /// How many trials that family has, each counted once however often it was started.
    ///
    /// # Errors
    ///
    /// As [`Ledger::family`].
    pub fn count(&self, symbols: &[String], span: Span) -> Result<usize> {
        Ok(self.family(symbols, span)?.iter().map(|row| &row.trial.id).collect::<BTreeSet<_>>().len())
    }

    /// When the first row was written, in nanoseconds since 1970 UTC; none while there is none.
    ///
    /// # Errors
    ///
    /// As [`Ledger::family`].
    pub fn since(&self) -> Result<Option<i64>> {
        Ok(self.read()?.first().map(|read| read.time))
    }

    /// Every start of a trial, in the order of the rows.
    ///
    /// # Errors
    ///
    /// As [`Ledger::family`].
    pub fn trials(&self) -> Result<Vec<TrialRow>> {
        Ok(self.all()?.into_iter().map(|(row, _)| row).collect())
    }

    /// Checks the file and the chain, and says how many rows there are.
    ///
    /// # Errors
    ///
    /// The first row that is broken is the error's line.
    pub fn verify(&self) -> Result<u64> {
        let rows = self.read()?.len() as u64;
        self.sound()?;
        Ok(rows)
    }

    /// Every start with its end, and where it looked at a holdout.
    fn all(&self) -> Result<Vec<(TrialRow, Vec<Span>)>> {
        let mut starts: BTreeMap<u64, (TrialRow, Vec<Span>)> = BTreeMap::new();
        for Read { row, time, event } in self.read()? {
            if let Some(trial) = event.trial() {
                starts.insert(row, (TrialRow { row, time, trial, outcome: Outcome::Crashed, holdouts: 0 }, Vec::new()));
                continue;
            }
            let Some((start, looked)) = event.start.and_then(|row| starts.get_mut(&row)) else { continue };
            match (event.kind.as_str(), event.span) {
                ("finished", _) => {
                    let metrics =
                        event.metrics.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
                    start.outcome = Outcome::Finished { metrics, returns: event.returns };
                }
                ("failed", _) => start.outcome = Outcome::Failed { why: event.reason.unwrap_or_default() },
                (_, Some(span)) => {
                    start.holdouts += 1;
                    looked.push(span);
                }
                _ => {}
            }
        }
        Ok(starts.into_values().collect())
    }
}
