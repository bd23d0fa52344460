//! Temperature scaling (Guo et al. 2017): one number, fitted on validation, that makes confidence honest and changes no
//! prediction.
//!
//! The loss is convex in `1 / temperature`: its slope is the mean of (expected output - output of the true class), its
//! curvature the mean variance of the outputs. Newton's step, kept inside a bracket that halves where the step leaves
//! it.

use super::{fitting, weight};
use files::{Error, Result};
use serde::{Deserialize, Serialize};

/// Temperatures outside are not believed: a validation set without a single error would ask for 0.
const RANGE: [f64; 2] = [0.05, 20.0];

/// What was fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// Outputs are divided by it before the softmax; above 1 the net was too sure.
    pub value: f64,
    /// Log-loss on the fitted samples before.
    pub before: f64,
    /// And after; never more.
    pub after: f64,
    /// Whether it stands at the end of the range (0.05 to 20), because the best one lies beyond.
    pub bounded: bool,
}

/// Fits the temperature to outputs (or logarithms of probabilities) `[n, classes]` and labels `[n]`.
///
/// # Errors
///
/// Where lengths do not fit, a label is no class, or an output is not finite.
pub fn fit_temperature(outputs: &[f32], classes: usize, labels: &[u8], weights: Option<&[f32]>) -> Result<Temperature> {
    fitting(outputs, classes, labels, weights)?;
    if let Some(at) = outputs.iter().position(|z| !z.is_finite()) {
        return Err(Error::input(format!("output {} of sample {} is {}", at % classes, at / classes, outputs[at])));
    }
    let curve = |sharpness: f64| curve(outputs, classes, labels, weights, sharpness);
    let before = curve(1.0).loss;
    let [mut low, mut high] = [1.0 / RANGE[1], 1.0 / RANGE[0]];
    let done = |sharpness: f64, bounded: bool| {
        let after = curve(sharpness).loss;
        // At the best one to the last digits; the unscaled outputs may still be a rounding better.
        let (value, after) = if after <= before { (1.0 / sharpness, after) } else { (1.0, before) };
        Ok(Temperature { value, before, after, bounded })
    };
    // A slope of exactly 0 everywhere: outputs tell nothing, and every temperature is as good as 1.
    let (at_low, at_high) = (curve(low).slope, curve(high).slope);
    if at_low == 0.0 && at_high == 0.0 {
        return done(1.0, false);
    }
    if at_low >= 0.0 {
        return done(low, true);
    }
    if at_high <= 0.0 {
        return done(high, true);
    }
    let mut at = 1.0;
    for _ in 0..100 {
        let here = curve(at);
        if here.slope < 0.0 {
            low = at
        } else {
            high = at
        }
        let step = at - here.slope / here.curvature;
        let next = if step > low && step < high { step } else { 0.5 * (low + high) };
        if (next - at).abs() <= 1e-12 * at {
            break;
        }
        at = next;
    }
    done(at, false)
}

/// Makes probabilities `[n, classes]` what they are at that temperature.
///
/// # Errors
///
/// Unless the temperature is a number above 0.
pub fn cool(probabilities: &mut [f32], classes: usize, temperature: f64) -> Result<()> {
    if !(temperature.is_finite() && temperature > 0.0) {
        return Err(
            Error::input(format!("a temperature of {temperature}")).remedy("1 leaves probabilities as they are")
        );
    }
    for row in probabilities.chunks_exact_mut(classes.max(1)) {
        // By the largest, so that it is 1 before they are made to add up.
        let most = f64::from(row.iter().copied().fold(f32::MIN_POSITIVE, f32::max));
        let raised = |p: f32| (f64::from(p) / most).powf(1.0 / temperature);
        let sum: f64 = row.iter().map(|p| raised(*p)).sum();
        row.iter_mut().for_each(|p| *p = (raised(*p) / sum) as f32);
    }
    Ok(())
}

struct Curve {
    loss: f64,
    slope: f64,
    curvature: f64,
}

/// Mean loss and its derivatives by the sharpness `1 / temperature`.
fn curve(outputs: &[f32], classes: usize, labels: &[u8], weights: Option<&[f32]>, sharpness: f64) -> Curve {
    let (mut loss, mut slope, mut curvature, mut total) = (0.0, 0.0, 0.0, 0.0);
    for (at, (row, label)) in outputs.chunks_exact(classes).zip(labels).enumerate() {
        // Measured from the largest output: exponents are at most 0.
        let most = f64::from(row.iter().copied().fold(f32::MIN, f32::max));
        let (mut sum, mut mean, mut square) = (0.0, 0.0, 0.0);
        for z in row {
            let z = f64::from(*z) - most;
            let e = (sharpness * z).exp();
            sum += e;
            mean += e * z;
            square += e * z * z;
        }
        let (mean, square) = (mean / sum, square / sum);
        let truth = f64::from(row[usize::from(*label)]) - most;
        let w = weight(weights, at);
        total += w;
        loss += w * (sum.ln() - sharpness * truth);
        slope += w * (mean - truth);
        curvature += w * (square - mean * mean);
    }
    Curve { loss: loss / total, slope: slope / total, curvature: curvature / total }
}
