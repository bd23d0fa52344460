//! Holdouts that are locked, by what the data is.
//!
//! A run writes the returns of its series once (`series`), under the name each has in this ledger, and locks the time
//! it holds out (`locked`). A later run on any of these series finds the lock, whatever its file and symbols are
//! called, and keeps that time out of training, validation and test, until it is released (`released`): then it is
//! ordinary data for ever.

use super::chain::Read;
use super::event::Event;
use super::{Ledger, Series};
use features::Span;
use files::Result;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What the ledger knows of the series of a data set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// `[series]` the name of each in this ledger: that of the data where it is new.
    pub names: Vec<String>,
    /// Locks on any of them that overlap the data.
    pub locks: Vec<HoldoutLock>,
    /// Behind the last moment that was released, if any was.
    pub released: Option<i64>,
    /// `[series]` whether its returns are still to be written.
    unwritten: Vec<bool>,
}

/// A time that stays out.
#[derive(Debug, Clone, PartialEq)]
pub struct HoldoutLock {
    /// Its row.
    pub row: u64,
    /// When it was locked, in nanoseconds since 1970 UTC.
    pub time: i64,
    /// What is locked.
    pub span: Span,
    /// Of which series, by their names in this ledger.
    pub names: Vec<String>,
    /// Whether a run has looked at it: then it is locked, but no holdout any more.
    pub is_opened: bool,
}

impl Known {
    /// Series of which nothing is written.
    pub fn unseen(series: &[Series]) -> Known {
        let names = series.iter().map(|own| own.symbol.clone()).collect();
        Known { names, unwritten: vec![true; series.len()], ..Known::default() }
    }

    /// Data that are known by name alone.
    pub fn named(names: &[String]) -> Known {
        Known { names: names.to_vec(), unwritten: vec![false; names.len()], ..Known::default() }
    }

    /// The first locked moment.
    pub fn locked_from(&self) -> Option<i64> {
        self.locks.iter().map(|lock| lock.span.from()).min()
    }

    /// The first moment of what is locked and was never opened.
    pub fn unopened_from(&self) -> Option<i64> {
        self.locks.iter().filter(|lock| !lock.is_opened).map(|lock| lock.span.from()).min()
    }

    /// The first locked moment of what is not over before a moment; without what was opened unless `opened_too`.
    pub fn locked_after(&self, time: i64, opened_too: bool) -> Option<i64> {
        let locks = self.locks.iter().filter(|lock| opened_too || !lock.is_opened).map(|lock| lock.span);
        locks.filter(|span| span.to() > time).map(Span::from).min()
    }

    /// Whether a moment of a series, by its place among those that were identified, is locked.
    pub fn is_locked(&self, series: usize, time: i64) -> bool {
        let of = |lock: &HoldoutLock| self.names.get(series).is_some_and(|name| lock.names.contains(name));
        self.locks.iter().any(|lock| lock.span.contains(time) && of(lock))
    }
}

impl Ledger {
    /// Which of the series the ledger knows, and what of their time (`span`) is locked.
    ///
    /// # Errors
    ///
    /// Where the ledger cannot be read or its chain is broken.
    pub fn identify(&self, series: &[Series], span: Span) -> Result<Known> {
        let rows = self.read()?;
        let written = written_series(&rows);
        let taken: BTreeSet<&str> = written.iter().map(|own| own.symbol.as_str()).collect();
        let mut known = Known::default();
        for own in series {
            // The same name first: mostly it is that one.
            let mut same: Vec<&Series> = written.iter().filter(|other| other.symbol == own.symbol).collect();
            same.retain(|other| own.is_same(other));
            if same.is_empty() {
                let first = written.iter().find(|other| own.is_same(other)).map(|other| other.symbol.as_str());
                same = written.iter().filter(|other| Some(other.symbol.as_str()) == first).collect();
            }
            known.unwritten.push(same.iter().all(|other| own.reaches_beyond(other)));
            known.names.push(match same.first() {
                Some(other) => other.symbol.clone(),
                None => free_name(&own.symbol, &taken),
            });
        }
        known.find_locks(&rows, span);
        Ok(known)
    }

    /// The same for data that are known by name alone.
    ///
    /// # Errors
    ///
    /// As [`Ledger::identify`].
    pub fn identify_by_name(&self, names: &[String], span: Span) -> Result<Known> {
        let mut known = Known::named(names);
        known.find_locks(&self.read()?, span);
        Ok(known)
    }

    /// Writes the returns of series that are new, and that this time of them is locked unless it is already.
    ///
    /// # Errors
    ///
    /// Where a row could not be written: then nothing may be tried.
    pub fn lock_holdout(&self, known: &Known, series: &[Series], span: Option<Span>) -> Result<()> {
        let new: Vec<(&String, &Series)> = known
            .names
            .iter()
            .zip(series)
            .zip(&known.unwritten)
            .filter(|(_, unwritten)| **unwritten)
            .map(|(pair, _)| pair)
            .collect();
        if !new.is_empty() {
            let event = Event {
                kind: "series".into(),
                symbols: Some(new.iter().map(|(name, _)| (*name).clone()).collect()),
                metrics: Some(new.iter().map(|(_, own)| own.to_json()).collect::<Value>().to_string()),
                ..Event::default()
            };
            self.append(event, |_| Ok(()))?;
        }
        let covers = |lock: &HoldoutLock, span: Span| lock.span.from() <= span.from() && span.to() <= lock.span.to();
        if let Some(span) = span.filter(|span| !known.locks.iter().any(|lock| covers(lock, *span))) {
            let event = Event {
                kind: "locked".into(),
                symbols: Some(known.names.clone()),
                span: Some(span),
                ..Event::default()
            };
            self.append(event, |_| Ok(()))?;
        }
        Ok(())
    }

    /// Writes that locked times are ordinary data from now on.
    ///
    /// # Errors
    ///
    /// Where a row could not be written: then they stay locked.
    pub fn release_holdouts(&self, known: &Known) -> Result<()> {
        for lock in &known.locks {
            let event = Event {
                kind: "released".into(),
                start: Some(lock.row),
                symbols: Some(known.names.clone()),
                span: Some(lock.span),
                ..Event::default()
            };
            self.append(event, |_| Ok(()))?;
        }
        Ok(())
    }
}

impl Known {
    fn find_locks(&mut self, rows: &[Read], span: Span) {
        let names: BTreeSet<&String> = self.names.iter().collect();
        let of = |event: &Event| event.symbols.iter().flatten().any(|name| names.contains(name));
        let mut locks: BTreeMap<u64, HoldoutLock> = BTreeMap::new();
        let starts: BTreeMap<u64, &[String]> =
            rows.iter().filter_map(|read| Some((read.row, read.event.symbols.as_deref()?))).collect();
        let mut released: Option<i64> = None;
        for Read { row, time, event } in rows {
            if let (Some(looked), "holdout") = (event.span, event.kind.as_str()) {
                let symbols = event.start.and_then(|row| starts.get(&row).copied()).unwrap_or_default();
                for lock in locks.values_mut().filter(|lock| lock.span.overlaps(looked)) {
                    lock.is_opened |= symbols.iter().any(|name| lock.names.contains(name));
                }
            }
            let Some(own) = event.span.filter(|own| own.overlaps(span) && of(event)) else { continue };
            match event.kind.as_str() {
                "locked" => {
                    let names = event.symbols.clone().unwrap_or_default();
                    let lock = HoldoutLock { row: *row, time: *time, span: own, names, is_opened: false };
                    locks.insert(*row, lock);
                }
                "released" => {
                    released = released.max(Some(own.to()));
                    event.start.and_then(|lock| locks.remove(&lock));
                }
                _ => {}
            }
        }
        self.released = released;
        self.locks = locks.into_values().collect();
    }
}

fn written_series(rows: &[Read]) -> Vec<Series> {
    let mut all = Vec::new();
    for Read { event, .. } in rows.iter().filter(|read| read.event.kind == "series") {
        let parts: Option<Vec<Value>> = event.metrics.as_deref().and_then(|text| serde_json::from_str(text).ok());
        for (name, part) in event.symbols.iter().flatten().zip(parts.iter().flatten()) {
            all.extend(Series::from_json(name, part));
        }
    }
    all
}

/// The symbol, or with a number behind it where another series has that name.
fn free_name(symbol: &str, taken: &BTreeSet<&str>) -> String {
    let name = |n: u32| if n == 1 { symbol.to_string() } else { format!("{symbol}~{n}") };
    (1..).map(name).find(|name| !taken.contains(name.as_str())).unwrap_or_else(|| symbol.to_string())
}
