//! A member of the population: what it is, what its validations saw, when it ends.

use crate::Score;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Seeds of one fold at most, folds of one config at most, configs at most: a member's id is `(config × FOLDS + fold) ×
/// SEEDS + seed`.
pub(crate) const SEEDS: u32 = 1 << 12;
pub(crate) const FOLDS: u32 = 1 << 10;
pub(crate) const CONFIGS: u32 = 1 << 10;

/// Which member: what all that it becomes depends on, beside data and settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberKey {
    /// Its set of hyper-parameters, from 0.
    pub config: usize,
    /// Its fold, from 0.
    pub fold: usize,
    /// Which of its fold's members, from 0.
    pub seed: u32,
}

impl MemberKey {
    /// Whether there can be such a member: a number that came from a file may be anything.
    pub fn is_possible(self) -> bool {
        self.config < CONFIGS as usize && self.fold < FOLDS as usize && self.seed < SEEDS
    }

    /// Its name for life; the root of its random numbers.
    pub fn id(self) -> u32 {
        (self.config as u32 * FOLDS + self.fold as u32) * SEEDS + self.seed
    }
}

/// How many members a config has and how long they train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Folds.
    pub folds: usize,
    /// Members of each fold.
    pub seeds: u32,
    /// Units of work at most.
    pub units: u32,
    /// A member ends after this many units without a better score.
    pub patience: u32,
}

impl Default for Extent {
    /// What a run has where nothing is set, on a single fold.
    fn default() -> Extent {
        Extent { folds: 1, seeds: 2, units: 500, patience: 50 }
    }
}

/// One member and its history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// Its name for life.
    pub id: u32,
    /// Its set of hyper-parameters, from 0.
    #[serde(default)]
    pub config: usize,
    /// Its fold, from 0.
    pub fold: usize,
    /// Which of its fold's members, from 0.
    pub seed: u32,
    /// One for each validation.
    pub history: Vec<Validation>,
    /// The best validation, if any score was a number.
    pub best: Option<Best>,
    /// Why it ended; none while it trains.
    pub stopped: Option<Stopped>,
    /// Its weights when it ended; none while it trains.
    #[serde(default)]
    pub last: Option<Last>,
}

/// The weights of a member's last unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// Which unit.
    #[serde(rename = "epoch")]
    pub unit: u32,
    /// Stored apart.
    #[serde(skip)]
    pub params: Vec<f32>,
}

/// What a validation saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Units of work done, from 1.
    #[serde(rename = "epoch")]
    pub unit: u32,
    /// Steps done so far.
    pub step: u32,
    /// What is selected by; null where it is no number.
    #[serde(rename = "worth")]
    pub score: Option<f64>,
    /// What else was seen.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// Named figures of a validation, in the learner's order; none where one is no number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics(pub Vec<(Cow<'static, str>, Option<f64>)>);

impl Metrics {
    /// Figures by name; what is not finite is none.
    pub fn new(all: &[(&'static str, f64)]) -> Metrics {
        Metrics(all.iter().map(|(name, x)| (Cow::Borrowed(*name), x.is_finite().then_some(*x))).collect())
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(own, _)| own == name).and_then(|(_, x)| *x)
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, x)| (name, x)))
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metrics, D::Error> {
        let all = Map::<String, Value>::deserialize(deserializer)?;
        // Older programs wrote counts of guesses beside the figures.
        let figures = all.into_iter().filter(|(_, x)| x.is_number() || x.is_null());
        Ok(Metrics(figures.map(|(name, x)| (name.into(), x.as_f64())).collect()))
    }
}

/// The best validation so far and its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// After which unit of work.
    #[serde(rename = "epoch")]
    pub unit: u32,
    /// Its score.
    #[serde(rename = "worth")]
    pub score: f64,
    /// Stored apart.
    #[serde(skip)]
    pub params: Vec<f32>,
}

/// Why a member ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// No better score for as many units as patience lasts.
    Patience,
    /// All units were done.
    #[serde(rename = "epochs")]
    Limit,
    /// A number was not finite; which.
    Fault(String),
}

impl Trained {
    /// A member that has seen nothing.
    pub(crate) fn new(key: MemberKey) -> Trained {
        let MemberKey { config, fold, seed } = key;
        Trained { id: key.id(), config, fold, seed, history: Vec::new(), best: None, stopped: None, last: None }
    }

    /// Which member.
    pub fn key(&self) -> MemberKey {
        MemberKey { config: self.config, fold: self.fold, seed: self.seed }
    }

    /// Units of work it was validated after.
    pub fn units(&self) -> u32 {
        self.history.last().map_or(0, |v| v.unit)
    }

    /// Adds a validation to its history; whether it is the best so far.
    pub(crate) fn validated(&mut self, score: Score) -> bool {
        let Score { unit, step, score, metrics, .. } = score;
        let number = score.is_finite().then_some(score);
        self.history.push(Validation { unit, step, score: number, metrics });
        let better = number.is_some() && self.best.as_ref().is_none_or(|b| score > b.score);
        if better {
            self.best = Some(Best { unit, score, params: Vec::new() });
        }
        better
    }

    /// Keeps its last weights as the best, for a member that is not validated: its score is no number.
    pub fn keep_last(&mut self) {
        self.best =
            self.last.as_ref().map(|last| Best { unit: last.unit, score: f64::NAN, params: last.params.clone() });
    }

    /// Whether patience has ended.
    pub(crate) fn is_out_of_patience(&self, patience: u32) -> bool {
        self.units() - self.best.as_ref().map_or(0, |b| b.unit) >= patience
    }
}
