//! Probabilities against what happened: log-loss, Brier score, calibration.

use super::{fitting, most_likely, weight};
use files::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bins of the reliability table, equally wide, `(m/15, (m+1)/15]`.
pub const BINS: usize = 15;

/// What probabilities are worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Mean of -ln of the probability given to what happened. A probability counts at least 1.2e-7, the smallest step
    /// of an `f32` at 1.
    pub log_loss: f64,
    /// Mean squared distance to what happened, summed over classes: 0 to 2.
    pub brier: f64,
    /// Expected calibration error: mean |confidence - accuracy| over bins, by weight.
    pub calibration_error: f64,
    /// `[BINS]` the reliability table.
    pub reliability: Vec<Bin>,
}

/// One line of the reliability table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Samples whose most likely class has a probability in this bin.
    pub samples: u64,
    /// Their weight.
    pub weight: f64,
    /// The mean of that probability; 0 where there is none.
    pub confidence: f64,
    /// The share predicted right.
    pub accuracy: f64,
}

/// Judges probabilities `[n, classes]` against labels `[n]`, each with its weight if there are weights.
///
/// # Errors
///
/// Where lengths do not fit, a label is no class, a probability lies outside 0 to 1, or those of a sample do not add up
/// to 1 within 0.001.
pub fn scores(probabilities: &[f32], classes: usize, labels: &[u8], weights: Option<&[f32]>) -> Result<Scores> {
    fitting(probabilities, classes, labels, weights)?;
    let (mut total, mut log_loss, mut brier) = (0.0, 0.0, 0.0);
    let mut bins = [Bin::default(); BINS];
    for (at, (row, label)) in probabilities.chunks_exact(classes).zip(labels).enumerate() {
        let sum: f64 = row.iter().map(|p| f64::from(*p)).sum();
        if !row.iter().all(|p| (0.0..=1.0).contains(p)) || (sum - 1.0).abs() > 1e-3 {
            return Err(Error::input(format!(
                "the probabilities of sample {at} are {row:?}, which is not a distribution"
            ))
            .remedy("hand in the softmax of the outputs, not the outputs"));
        }
        let (w, label) = (weight(weights, at), usize::from(*label));
        total += w;
        log_loss -= w * f64::from(row[label].max(f32::EPSILON)).ln();
        let miss = |(k, p): (usize, &f32)| (f64::from(*p) - f64::from(u8::from(k == label))).powi(2);
        brier += w * row.iter().enumerate().map(miss).sum::<f64>();
        let best = most_likely(row);
        let confidence = f64::from(row[best]);
        let bin = &mut bins[((confidence * BINS as f64).ceil() as usize).clamp(1, BINS) - 1];
        bin.samples += 1;
        bin.weight += w;
        bin.confidence += w * confidence;
        bin.accuracy += w * f64::from(u8::from(best == label));
    }
    let mut calibration_error = 0.0;
    for bin in bins.iter_mut().filter(|bin| bin.weight > 0.0) {
        calibration_error += (bin.confidence - bin.accuracy).abs() / total;
        bin.confidence /= bin.weight;
        bin.accuracy /= bin.weight;
    }
    Ok(Scores { log_loss: log_loss / total, brier: brier / total, calibration_error, reliability: bins.to_vec() })
}
