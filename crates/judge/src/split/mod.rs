//! Folds: who may learn from what (docs/method.md, Splits).
//!
//! Time is counted in ticks of the clock (moments at which something became known), never in samples, so a moment with
//! hundreds of symbols weighs as much as one with a single symbol, and all samples of a moment lie on the same side of
//! every border.
//!
//! The walk, from left to right: history, test block after test block, the holdout. Each fold learns from history
//! before its test block and uses the last part of that history for validation. *Purge*: a sample whose label reaches
//! into a later part is left out of the earlier one. Nothing behind a test block is learned from by its own fold, so
//! no border needs more than that; a window of features that reaches back over a border is no leak, since the same bars
//! are known live. An *embargo* before the holdout can be set all the same.
//!
//! [`walk_forward`] makes the folds, [`around`] those that train on both sides of their tests (k-fold and
//! combinatorial), [`whole`] the one that only trains. [`check`] holds any folds to the promise of their kind, and
//! every one made here is checked before it is handed out; [`Splits::picture`] draws them.

mod around;
mod check;
mod picture;
mod purge;
mod refuse;
#[cfg(test)]
mod tests;
mod walk;
mod whole;

pub use around::{around, paths};
pub use check::{check, pieces};
pub use purge::{Block, Purged, overlaps, purge};
pub use refuse::{longest_label, ticks_needed};
pub use walk::{held_out_from, walk_forward, walk_forward_on};
pub use whole::whole;

use features::{Fold, Span};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// How to walk forward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WalkForward {
    /// Test blocks, each with its fold; below 5 a result says little.
    pub folds: usize,
    /// The share of time that the test blocks cover, at its end (before the holdout).
    pub tested: f64,
    /// The share of the history before each test block that is kept for validation, at its end.
    pub validation: f64,
    /// Ticks of history (training and validation together) before each test block; `None`: all there is.
    pub rolling: Option<usize>,
    /// Ticks to keep free between the last label that a fold sees and the holdout, beside the purge; refused where
    /// there is no holdout.
    pub embargo: usize,
    /// The share of time held out, at the end; 0: none. With daily bars at least a year, where that leaves three years
    /// before it.
    pub holdout: f64,
    /// One fold whose test is the last so many days with samples before the holdout, instead of `folds` and `tested`.
    pub test_days: Option<u32>,
    /// What was held out of these data before.
    pub held: Held,
}

/// What the ledger says of the time that is held out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The first moment that is locked: it is held out, and so is everything after it.
    pub locked_from: Option<i64>,
    /// Behind the last moment that was released: nothing before it is held out for its share.
    pub released_to: Option<i64>,
}

impl Default for WalkForward {
    fn default() -> WalkForward {
        WalkForward {
            folds: 8,
            tested: 0.6,
            validation: 0.15,
            rolling: None,
            embargo: 0,
            holdout: 0.15,
            test_days: None,
            held: Held::default(),
        }
    }
}

/// Folds and what is held out of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Splits {
    /// In the order of their tests.
    pub folds: Vec<Fold>,
    /// What no fold sees.
    pub holdout: Option<Holdout>,
    /// The embargo, in ticks: before the holdout of a walk, behind each test block elsewhere.
    pub embargo: usize,
    /// `[groups + 1]` where the groups of folds that train around their tests begin, and where the last ends; empty in
    /// a walk.
    #[serde(default)]
    pub groups: Vec<i64>,
}

/// The end of the data, closed until it is opened through the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holdout {
    /// From its first `t0` up to and with its last `t1`.
    pub span: Span,
    /// `[n]` positions in the samples, rising.
    pub samples: Vec<u32>,
    /// How many samples before it were left out everywhere because their labels reach into it.
    pub purged: usize,
    /// How many more because their labels end within the embargo before it.
    pub embargoed: usize,
}

impl Splits {
    /// A name for exactly these positions in these parts and in what is held out; a run carries it and goes on with no
    /// other.
    pub fn id(&self) -> u64 {
        let mut hash = Xxh3::new();
        let mut take = |positions: &[u32]| {
            hash.update(&(positions.len() as u64).to_le_bytes());
            positions.iter().for_each(|position| hash.update(&position.to_le_bytes()));
        };
        for fold in &self.folds {
            [&fold.train, &fold.valid, &fold.test].into_iter().for_each(|part| take(part));
        }
        if let Some(holdout) = &self.holdout {
            take(&holdout.samples);
        }
        hash.digest()
    }
}
