//! A member of the population of classifiers: what it is, what it has seen, when it ends.

use compute::population::Score;
use serde::{Deserialize, Serialize};

/// Seeds of one fold at most, folds of one config at most, configs at most: a member's id is `(config × FOLDS + fold) ×
/// SEEDS + seed`.
pub(crate) const SEEDS: u32 = 1 << 12;
pub(crate) const FOLDS: u32 = 1 << 10;
pub(crate) const CONFIGS: u32 = 1 << 10;

/// Which member: what all that it becomes depends on, beside data and settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who {
    /// Its set of hyper-parameters, from 0.
    pub config: usize,
    /// Its fold, from 0.
    pub fold: usize,
    /// Which of its fold's members, from 0.
    pub seed: u32,
}

impl Who {
    /// Whether there can be such a member: a number that came from a file may be anything.
    pub fn is_possible(self) -> bool {
        self.config < CONFIGS as usize && self.fold < FOLDS as usize && self.seed < SEEDS
    }

    /// Its name for life; the root of its random numbers.
    pub fn id(self) -> u32 {
        (self.config as u32 * FOLDS + self.fold as u32) * SEEDS + self.seed
    }
}

/// One classifier and its history.
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
    /// One for each epoch.
    pub history: Vec<Epoch>,
    /// The best epoch, if any score was a number.
    pub best: Option<Best>,
    /// Why it ended; none while it trains.
    pub stopped: Option<Stopped>,
    /// Its weights when it ended; none while it trains.
    #[serde(default)]
    pub last: Option<Last>,
}

/// The weights of a member's last epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// Which epoch.
    pub epoch: u32,
    /// A row of the arena; stored apart.
    #[serde(skip)]
    pub params: Vec<f32>,
}

/// What validation saw after an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 1.
    pub epoch: u32,
    /// Steps done so far.
    pub step: u32,
    /// Mean loss of the epoch while it was trained on.
    pub train_loss: Option<f64>,
    /// Weighted mean loss on the validation list.
    pub valid_loss: Option<f64>,
    /// What it is judged by; null where it is no number.
    pub worth: Option<f64>,
    /// Global norm of the last gradient, before clipping.
    pub norm: Option<f64>,
    /// `[true, guessed]`
    pub confusion: Vec<u64>,
}

/// The best epoch so far and its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Which.
    pub epoch: u32,
    /// What it is worth.
    pub worth: f64,
    /// A row of the arena; stored apart.
    #[serde(skip)]
    pub params: Vec<f32>,
}

/// Why a member ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// No better score for as many epochs as patience lasts.
    Patience,
    /// All epochs were done.
    Epochs,
    /// A number was not finite; which.
    Fault(String),
}

impl Trained {
    /// A member that has seen nothing.
    pub(crate) fn new(who: Who) -> Trained {
        let Who { config, fold, seed } = who;
        Trained { id: who.id(), config, fold, seed, history: Vec::new(), best: None, stopped: None, last: None }
    }

    /// Takes down what validation saw; whether it is the best so far.
    pub(crate) fn see(&mut self, score: &Score, step: u32, train_loss: f64, norm: f32, worth: f64) -> bool {
        let number = |x: f64| x.is_finite().then_some(x);
        self.history.push(Epoch {
            epoch: score.epoch,
            step,
            train_loss: number(train_loss),
            valid_loss: number(score.loss),
            worth: number(worth),
            norm: number(f64::from(norm)),
            confusion: score.confusion.first().cloned().unwrap_or_default(),
        });
        // A loss that is no number is never the best, whatever was guessed.
        let better = worth.is_finite() && score.loss.is_finite() && self.best.as_ref().is_none_or(|b| worth > b.worth);
        if better {
            self.best = Some(Best { epoch: score.epoch, worth, params: Vec::new() });
        }
        better
    }

    /// Whether patience has ended.
    pub(crate) fn impatient(&self, patience: u32) -> bool {
        let epoch = self.history.last().map_or(0, |e| e.epoch);
        epoch - self.best.as_ref().map_or(0, |b| b.epoch) >= patience
    }
}
