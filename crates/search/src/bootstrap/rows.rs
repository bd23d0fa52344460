//! Training rows that a model owns, cut where its training ends.

use super::Drawn;
use crate::market::InfoSet;
use account::Bar;
use compute::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// One row beside its observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingRow {
    /// What the bar means for an account.
    pub bar: Bar,
    /// Time of day, and bars to a forced close.
    pub time: [f32; 2],
    /// The number of its clock time: rows of several symbols may share one.
    pub clock: u32,
    /// Whether the next row is the bar behind this one.
    pub continues: bool,
}

/// Rows with their observations.
#[derive(Debug)]
pub struct Rows {
    features: usize,
    observations: Vec<f32>, // [rows, features]
    rows: Vec<TrainingRow>,
    /// Somebody asked for a row behind the last.
    behind: AtomicBool,
    /// Somebody found no row that may be drawn.
    none_left: AtomicBool,
}

impl Rows {
    /// Copies the rows that a member trains on, in the order of their symbols and times: `keep` says of a row whether
    /// it lies before the end of the member's training. Nothing of the others is kept.
    ///
    /// # Errors
    ///
    /// Where there is not an observation for each row, or none is kept.
    pub fn cut(
        observations: &[f32],
        features: usize,
        rows: &[TrainingRow],
        keep: impl Fn(&TrainingRow) -> bool,
    ) -> Result<Rows> {
        if features == 0 || observations.len() != rows.len() * features {
            return Err(Error::Invalid(format!(
                "{} numbers for {} rows of {features} features; give an observation for each row",
                observations.len(),
                rows.len()
            )));
        }
        let [behind, none_left] = [false; 2].map(AtomicBool::new);
        let mut own = Rows { features, observations: Vec::new(), rows: Vec::new(), behind, none_left };
        let mut last_kept = None;
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| keep(row)) {
            // A row whose follower was left out has none here.
            if let Some(before) = own.rows.last_mut() {
                let before: &mut TrainingRow = before;
                before.continues &= last_kept == at.checked_sub(1);
            }
            own.rows.push(*row);
            own.observations.extend_from_slice(&observations[at * features..(at + 1) * features]);
            last_kept = Some(at);
        }
        match own.rows.last_mut() {
            None => {
                Err(Error::Invalid("no row lies before the end of the training; give a longer training part".into()))
            }
            Some(last) => {
                last.continues = false;
                Ok(own)
            }
        }
    }

    /// Numbers of an observation.
    pub fn features(&self) -> usize {
        self.features
    }

    /// `[rows, features]` what was observed at each.
    pub fn observations(&self) -> &[f32] {
        &self.observations
    }

    /// What each is beside its observation.
    pub fn all(&self) -> &[TrainingRow] {
        &self.rows
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes they take.
    pub fn bytes(&self) -> u64 {
        (self.observations.len() * 4 + self.rows.len() * size_of::<TrainingRow>()) as u64
    }

    /// The clock time that a model gets for a row: of one behind the last that of the last, which is then noted. For
    /// tests.
    pub fn probe(&self, row: u32) -> u32 {
        self.row(row).clock
    }

    /// Whether somebody asked for a row behind the last; it was then given the last.
    pub fn reached_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    /// Refuses what was found once somebody asked for a row behind the last, or found none that may be drawn.
    ///
    /// # Errors
    ///
    /// That.
    pub fn check_drawn(&self) -> Result<()> {
        if self.reached_behind() {
            return Err(reached_behind());
        }
        if self.none_left.load(Ordering::Relaxed) { Err(no_row_left()) } else { Ok(()) }
    }

    /// All rows lie within the horizon of a root: what is drawn all the same makes every search an error.
    pub(crate) fn note_none_left(&self) {
        self.none_left.store(true, Ordering::Relaxed);
    }

    fn inside(&self, row: u32) -> usize {
        let last = self.rows.len() - 1;
        if row as usize > last {
            self.behind.store(true, Ordering::Relaxed);
        }
        (row as usize).min(last)
    }

    pub(crate) fn row(&self, row: u32) -> &TrainingRow {
        &self.rows[self.inside(row)]
    }

    pub(crate) fn observation(&self, row: u32) -> &[f32] {
        let at = self.inside(row) * self.features;
        &self.observations[at..at + self.features]
    }

    /// Writes what is observed at a training row or the root; its time of day and its bars to a forced close.
    pub(crate) fn observe(&self, known: &InfoSet, at: &Drawn, to: &mut [f32]) -> [f32; 2] {
        match at.row {
            None => {
                to.copy_from_slice(&known.observation);
                known.time
            }
            Some(row) => {
                to.copy_from_slice(self.observation(row));
                self.row(row).time
            }
        }
    }

    /// Rows that have one behind them from which a move can be taken.
    pub(crate) fn predecessors(&self) -> Vec<u32> {
        let usable = |pair: &[TrainingRow]| {
            let (now, next) = (&pair[0].bar, &pair[1].bar);
            let prices = [now.close, next.open, next.high, next.low, next.close, now.fx_close];
            pair[0].continues && next.tradable != 0.0 && prices.iter().all(|p| p.is_finite() && *p > 0.0)
        };
        let pairs = self.rows.windows(2).enumerate();
        pairs.filter(|(_, pair)| usable(pair)).map(|(at, _)| at as u32).collect()
    }
}

/// A row behind the end of a model's training was asked for.
pub(crate) fn reached_behind() -> Error {
    Error::Invalid(
        "a search asked for a row behind the end of its model's training; this is a bug, please report it".into(),
    )
}

/// All rows of a model lie within the horizon of a root.
pub(crate) fn no_row_left() -> Error {
    Error::Invalid(
        "a search found no row to draw: all rows of its market model lie within the horizon of its root; use a smaller \
         horizon, or give more bars"
            .into(),
    )
}
