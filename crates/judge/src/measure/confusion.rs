//! The confusion matrix and what can be read from it.

use features::class::{DOWN, UP};
use files::{Error, Result};
use serde::{Deserialize, Serialize};

/// How often each true class was predicted as each class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Confusion {
    classes: usize,
    /// `[true, predicted]`
    counts: Vec<u64>,
}

#[derive(Deserialize)]
struct Raw {
    classes: usize,
    counts: Vec<u64>,
}

impl TryFrom<Raw> for Confusion {
    type Error = Error;

    fn try_from(raw: Raw) -> Result<Confusion> {
        Confusion::new(raw.classes, raw.counts)
    }
}

/// How well one class is told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassScore {
    /// How many were predicted right among those predicted so; 0 where none was.
    pub precision: f64,
    /// How many were found among those that are so; 0 where there is none.
    pub recall: f64,
    /// Harmonic mean of the two; 0 where both are.
    pub f1: f64,
    /// How many there are.
    pub samples: u64,
}

impl Confusion {
    /// From counts `[true, predicted]`, as a device counts them.
    ///
    /// # Errors
    ///
    /// Where there are fewer than 2 or more than 256 classes, not as many counts as pairs of classes, or more than 2⁶⁰
    /// samples.
    pub fn new(classes: usize, counts: Vec<u64>) -> Result<Confusion> {
        if !(2..=256).contains(&classes) || counts.len() != classes * classes {
            return Err(Error::input(format!(
                "{} counts do not make a confusion matrix of {classes} classes",
                counts.len()
            )));
        }
        let total = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        if total > 1 << 60 {
            return Err(Error::input("a confusion matrix counts more than 2^60 samples; the counts are damaged"));
        }
        Ok(Confusion { classes, counts })
    }

    /// Counts pairs of true and predicted classes.
    ///
    /// # Errors
    ///
    /// Where the two have different lengths or hold a class that is not there.
    pub fn count(classes: usize, truth: &[u8], predicted: &[u8]) -> Result<Confusion> {
        let mut it = Confusion::new(classes, vec![0; classes.saturating_mul(classes).min(1 << 16)])?;
        if truth.len() != predicted.len() {
            return Err(Error::input(format!("{} labels, {} predictions", truth.len(), predicted.len())));
        }
        for (at, (t, p)) in truth.iter().zip(predicted).enumerate() {
            let (t, p) = (usize::from(*t), usize::from(*p));
            if t >= classes || p >= classes {
                return Err(Error::input(format!("sample {at} has class {t} and prediction {p} of {classes} classes")));
            }
            it.counts[t * classes + p] += 1;
        }
        Ok(it)
    }

    /// What these true classes (`[classes]` counts) give when one class is always predicted: the one most frequent in
    /// training (the first of equals).
    ///
    /// # Errors
    ///
    /// Where the two have different lengths.
    pub fn majority(training: &[u64], truth: &[u64]) -> Result<Confusion> {
        if training.len() != truth.len() {
            return Err(Error::input(format!("{} classes in training, {} in truth", training.len(), truth.len())));
        }
        let classes = truth.len();
        let most = (1..classes).fold(0, |best, k| if training[k] > training[best] { k } else { best });
        let mut counts = vec![0; classes * classes];
        truth.iter().enumerate().for_each(|(t, count)| counts[t * classes + most] = *count);
        Confusion::new(classes, counts)
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// How often that true class was predicted as that class.
    pub fn at(&self, truth: usize, predicted: usize) -> u64 {
        self.counts[truth * self.classes + predicted]
    }

    /// `[true, predicted]`
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Adds the counts of another one.
    ///
    /// # Errors
    ///
    /// Where it has other classes, or the sum is too large.
    pub fn add(&mut self, other: &Confusion) -> Result<()> {
        if self.classes != other.classes {
            return Err(Error::input(format!("{} classes cannot be added to {}", other.classes, self.classes)));
        }
        let sums = self.counts.iter().zip(&other.counts).map(|(a, b)| a.saturating_add(*b)).collect();
        *self = Confusion::new(self.classes, sums)?;
        Ok(())
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// `[classes]` how many there are of each.
    pub fn truth(&self) -> Vec<u64> {
        self.counts.chunks(self.classes).map(|row| row.iter().sum()).collect()
    }

    /// `[classes]` how often each was predicted.
    pub fn predicted(&self) -> Vec<u64> {
        (0..self.classes).map(|p| (0..self.classes).map(|t| self.at(t, p)).sum()).collect()
    }

    /// `[classes]` the share of each true class; zeros where there are no samples.
    pub fn balance(&self) -> Vec<f64> {
        self.truth().into_iter().map(|count| ratio(count, self.samples())).collect()
    }

    /// The share predicted right; 0 of none.
    pub fn accuracy(&self) -> f64 {
        ratio((0..self.classes).map(|k| self.at(k, k)).sum(), self.samples())
    }

    /// Matthews' correlation coefficient of K classes: from -1 over 0 (no better than chance, or nothing to tell) to 1.
    pub fn mcc(&self) -> f64 {
        // Whole numbers up to the root: no cancellation, the same on every machine. 2^60 samples squared fit into 127
        // bits.
        let wide = |count: u64| i128::from(count);
        let samples = wide(self.samples());
        let correct: i128 = (0..self.classes).map(|k| wide(self.at(k, k))).sum();
        let (truth, predicted) = (self.truth(), self.predicted());
        let product = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| wide(*a) * wide(*b)).sum::<i128>();
        let together = correct * samples - product(&predicted, &truth);
        let spread = |counts: &[u64]| (samples * samples - product(counts, counts)) as f64;
        let root = (spread(&predicted) * spread(&truth)).sqrt();
        if root == 0.0 { 0.0 } else { (together as f64 / root).clamp(-1.0, 1.0) }
    }

    /// Only samples whose true and predicted class are both not flat: down and up alone. `None` unless there are 2 or 3
    /// classes.
    pub fn directional(&self) -> Option<Confusion> {
        match self.classes {
            2 => Some(self.clone()),
            3 => {
                let [down, up] = [DOWN, UP].map(usize::from);
                let counts = vec![self.at(down, down), self.at(down, up), self.at(up, down), self.at(up, up)];
                Some(Confusion { classes: 2, counts })
            }
            _ => None,
        }
    }

    /// [`Confusion::mcc`] of [`Confusion::directional`]: volatility alone cannot raise it. `None` where truth and guess
    /// are never both not flat: nothing was said of direction, which is not the same as saying it no better than
    /// chance.
    pub fn directional_mcc(&self) -> Option<f64> {
        self.directional().filter(|both| both.samples() > 0).map(|both| both.mcc())
    }

    /// `[classes]` how well each is told.
    pub fn scores(&self) -> Vec<ClassScore> {
        let (truth, predicted) = (self.truth(), self.predicted());
        let score = |k: usize| ClassScore {
            precision: ratio(self.at(k, k), predicted[k]),
            recall: ratio(self.at(k, k), truth[k]),
            f1: ratio(2 * self.at(k, k), truth[k] + predicted[k]),
            samples: truth[k],
        };
        (0..self.classes).map(score).collect()
    }

    /// Mean F1 over classes, each counting alike; a class that neither is there nor was predicted counts 0.
    pub fn macro_f1(&self) -> f64 {
        self.scores().iter().map(|score| score.f1).sum::<f64>() / self.classes as f64
    }
}

/// 0 where there is nothing to divide by.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
