//! Time real work, choose the fastest that fits, remember it.
//!
//! [`Tuner::tune`] is given candidates in order (a batch that doubles, say) and a closure that does one candidate's
//! work. It begins where it is told, goes up while the rate grows, then down, and leaves a direction after two in a row
//! that are more than 5 % below the best. A candidate that needs more memory than the budget is never tried; one that
//! fails is a line of the table, not the end. It knows nothing of what it tunes, and the clock is handed in.

use crate::tuned_store::{self, TunedEntry};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// One thing to try.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate<C> {
    /// What the table and the memory call it: unique among its neighbours.
    pub label: String,
    /// Bytes it needs while it runs.
    pub bytes: u64,
    /// Handed to the closure.
    pub config: C,
}

/// What happened to a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateVerdict {
    /// The winner.
    Best,
    /// Measured, and slower.
    Slower,
    /// Not tried: the rate had stopped growing.
    Plateau,
    /// Not tried: it needs more memory than there is.
    TooLarge,
    /// It was tried and could not be measured.
    Failed,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateRow {
    /// The candidate's.
    pub label: String,
    /// The median, in the work's own units; null where nothing was measured.
    pub units_per_s: Option<f64>,
    /// Half of the repeats lie within this part of the median around it.
    pub spread: Option<f64>,
    /// Timed runs behind the rate.
    pub repeats: usize,
    /// What it needs.
    pub bytes: u64,
    /// What happened.
    pub verdict: CandidateVerdict,
    /// Why, where the verdict alone does not say it.
    pub why: Option<String>,
}

/// What was chosen, and what was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuneResult {
    /// Index of the winner; null where nothing fits or everything failed.
    pub winner: Option<usize>,
    /// In the order of the candidates, or as remembered.
    pub rows: Vec<CandidateRow>,
    /// Whether it comes from memory: then nothing was run.
    pub remembered: bool,
    /// What went wrong beside the measuring: a damaged memory, a full disk.
    pub warnings: Vec<String>,
}

/// A clock that runs forward.
pub trait Clock {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
}

/// The machine's own.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// How long to look at a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct TimingLimits {
    /// Runs that are not timed: they load, compile, fill caches.
    pub warm_ups: usize,
    /// Timed runs at least, unless the span is over.
    pub min_repeats: usize,
    /// Timed runs at most.
    pub max_repeats: usize,
    /// Enough once the spread is at most this.
    pub spread: f64,
    /// Enough after this time.
    pub max_time: Duration,
    /// A rate this part below the best is worse.
    pub worse_margin: f64,
    /// So many worse ones in a row end a direction.
    pub in_a_row: usize,
}

impl Default for TimingLimits {
    fn default() -> TimingLimits {
        TimingLimits {
            warm_ups: 2,
            min_repeats: 3,
            max_repeats: 30,
            spread: 0.03,
            max_time: Duration::from_secs(1),
            worse_margin: 0.05,
            in_a_row: 2,
        }
    }
}

/// Times one candidate's work, for the closure that does it.
pub struct Timer<'a> {
    clock: &'a dyn Clock,
    limits: &'a TimingLimits,
    rates: Vec<f64>, // [repeats] units per second
}

impl Timer<'_> {
    /// Runs the work until its rate is known. It gives the units it did (samples, steps), and must have ended when it
    /// returns: work on a device is waited for. What is prepared outside is not timed.
    pub fn time<E>(&mut self, mut work: impl FnMut() -> Result<f64, E>) -> Result<(), E> {
        for _ in 0..self.limits.warm_ups {
            work()?;
        }
        self.rates.clear();
        let begun = self.clock.now();
        loop {
            let before = self.clock.now();
            let units = work()?;
            let took = self.clock.now().saturating_sub(before).max(Duration::from_nanos(1));
            self.rates.push(units / took.as_secs_f64());
            let steady =
                self.rates.len() >= self.limits.min_repeats && median_and_spread(&self.rates).1 <= self.limits.spread;
            let over = self.clock.now().saturating_sub(begun) >= self.limits.max_time;
            if steady || over || self.rates.len() >= self.limits.max_repeats {
                return Ok(());
            }
        }
    }
}

/// Chooses by the clock, within a budget, and remembers.
pub struct Tuner<'a> {
    /// Where winners are remembered (`tuned.json` at home); `None` remembers nothing.
    pub memory: Option<PathBuf>,
    /// The machine's key.
    pub machine: String,
    /// Of whatever decides the rates: winners of another version are measured anew.
    pub version: String,
    /// Bytes a candidate may need.
    pub budget: u64,
    /// Whether to measure even what is remembered.
    pub fresh: bool,
    /// How long to look.
    pub limits: TimingLimits,
    /// What time it is.
    pub clock: &'a dyn Clock,
}

impl Tuner<'_> {
    /// Chooses among ordered candidates for the workload `key`, from the candidate at `begin` on.
    pub fn tune<C, E: Display>(
        &self,
        key: &str,
        candidates: &[Candidate<C>],
        begin: usize,
        mut measure: impl FnMut(&C, &mut Timer<'_>) -> Result<(), E>,
    ) -> TuneResult {
        let mut warnings = Vec::new();
        if let Some(tuned) = self.recall(key, candidates, &mut warnings) {
            return tuned;
        }
        let mut rows: Vec<CandidateRow> = candidates.iter().map(|c| self.untried_row(c)).collect(); // [candidates]
        let begin = begin.min(candidates.len().saturating_sub(1));
        let mut best: Option<(usize, f64)> = None;
        let mut walk = |indices: &mut dyn Iterator<Item = usize>| {
            let mut worse = 0;
            for i in indices {
                if rows[i].verdict == CandidateVerdict::TooLarge {
                    continue;
                }
                let mut timer = Timer { clock: self.clock, limits: &self.limits, rates: Vec::new() };
                let outcome = measure(&candidates[i].config, &mut timer);
                rows[i] = timed_row(&candidates[i], &timer.rates, outcome.map_err(|e| e.to_string()));
                let Some(rate) = rows[i].units_per_s else { continue };
                match best {
                    Some((_, most)) if rate <= most => {
                        worse = if rate < most * (1.0 - self.limits.worse_margin) { worse + 1 } else { 0 };
                    }
                    _ => (best, worse) = (Some((i, rate)), 0),
                }
                if worse >= self.limits.in_a_row {
                    break;
                }
            }
        };
        walk(&mut (begin..candidates.len()));
        walk(&mut (0..begin).rev());
        let winner = best.map(|(i, _)| i);
        if let Some(i) = winner {
            rows[i].verdict = CandidateVerdict::Best;
            self.remember(key, &rows, i, &mut warnings);
        }
        TuneResult { winner, rows, remembered: false, warnings }
    }

    /// A line before anything was tried: what is too large stays so.
    fn untried_row<C>(&self, candidate: &Candidate<C>) -> CandidateRow {
        let fits = candidate.bytes <= self.budget;
        let row = CandidateRow {
            label: candidate.label.clone(),
            units_per_s: None,
            spread: None,
            repeats: 0,
            bytes: candidate.bytes,
            verdict: if fits { CandidateVerdict::Plateau } else { CandidateVerdict::TooLarge },
            why: None,
        };
        if fits {
            return row;
        }
        let (needs, budget) = (files::format_bytes(candidate.bytes), files::format_bytes(self.budget));
        CandidateRow { why: Some(format!("needs {needs}, the budget is {budget}")), ..row }
    }

    /// The winner of an earlier run, if it is still a candidate and still fits.
    fn recall<C>(&self, key: &str, candidates: &[Candidate<C>], warnings: &mut Vec<String>) -> Option<TuneResult> {
        let path = self.memory.as_deref()?;
        let entry =
            tuned_store::load_entry(path, &self.machine, key, &self.version, warnings).filter(|_| !self.fresh)?;
        let winner = candidates.iter().position(|c| c.label == entry.winner && c.bytes <= self.budget)?;
        Some(TuneResult {
            winner: Some(winner),
            rows: entry.rows,
            remembered: true,
            warnings: std::mem::take(warnings),
        })
    }

    /// A memory that cannot be written costs time later, not the result now.
    fn remember(&self, key: &str, rows: &[CandidateRow], winner: usize, warnings: &mut Vec<String>) {
        let Some(path) = &self.memory else { return };
        let entry = TunedEntry {
            machine: self.machine.clone(),
            workload: key.into(),
            version: self.version.clone(),
            winner: rows[winner].label.clone(),
            rows: rows.to_vec(),
            at: None,
            choice: serde_json::Value::Null,
        };
        if let Err(error) = tuned_store::save_entry(path, entry, warnings) {
            warnings.push(format!("the tuned values could not be saved: {error}"));
        }
    }
}

/// A line after the work: a rate, or why there is none.
fn timed_row<C>(candidate: &Candidate<C>, rates: &[f64], outcome: Result<(), String>) -> CandidateRow {
    let wrong = match outcome {
        Err(why) => Some(why),
        Ok(()) if rates.is_empty() => Some("nothing was timed".into()),
        Ok(()) if rates.iter().any(|r| !r.is_finite() || *r <= 0.0) => Some("a run did no work".into()),
        Ok(()) => None,
    };
    let measured = wrong.is_none().then(|| median_and_spread(rates));
    CandidateRow {
        label: candidate.label.clone(),
        units_per_s: measured.map(|m| m.0),
        spread: measured.map(|m| m.1),
        repeats: rates.len(),
        bytes: candidate.bytes,
        verdict: if wrong.is_some() { CandidateVerdict::Failed } else { CandidateVerdict::Slower },
        why: wrong,
    }
}

/// The median, and the distance between the quartiles as a part of it.
fn median_and_spread(rates: &[f64]) -> (f64, f64) {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let place = part * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        low + (high - low) * place.fract()
    };
    (at(0.5), (at(0.75) - at(0.25)) / at(0.5))
}

#[cfg(test)]
#[path = "tune_tests.rs"]
mod tests;
