//! What a classifier's predictions are worth (docs/method.md, Measures).
//!
//! [`Confusion`] counts and everything made of counts; [`scores`] judges probabilities; [`persistence`],
//! [`VolatilityRule`] and [`Confusion::majority`] are what any result must beat, [`shift_test`] what chance would give;
//! [`estimate`] says how sure a figure is.
//!
//! Classes are numbers from 0 ([`features::class`]). Every sum is added in the order of the samples, so the same
//! input gives the same bits.

mod baseline;
mod bootstrap;
mod confusion;
mod jackknife;
mod logistic;
mod probability;
mod shift;
#[cfg(test)]
mod tests;
mod volatility;

pub use baseline::persistence;
pub(crate) use bootstrap::quantile as sorted_quantile;
pub use bootstrap::{Bootstrap, Interval, bootstrap, by_group};
pub use confusion::{ClassScore, Confusion};
pub use jackknife::{Estimate, LEAST_BLOCKS, WEEK, blocks, estimate};
pub use logistic::Logistic;
pub use probability::{BINS, Bin, Scores, scores};
pub use shift::{ShiftTest, shift_test};
pub use volatility::{VolatilityRule, volatility};

use files::{Error, Result};

/// The most likely class of each row of `[n, classes]`, the first of equals.
pub fn predicted(probabilities: &[f32], classes: usize) -> Vec<u8> {
    probabilities.chunks_exact(classes.max(1)).map(|row| most_likely(row) as u8).collect()
}

/// The most likely class of a row, the first of equals.
pub fn most_likely(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best })
}

/// Refuses arrays that do not belong together: `[n, classes]` numbers, `[n]` labels below `classes`, `[n]` weights, not
/// negative and not all 0.
fn fitting(numbers: &[f32], classes: usize, labels: &[u8], weights: Option<&[f32]>) -> Result<()> {
    let bad = |what: String| Err(Error::input(what));
    if !(2..=256).contains(&classes) {
        return bad(format!("{classes} classes; 2 to 256 can be judged"));
    }
    if Some(numbers.len()) != labels.len().checked_mul(classes) {
        return bad(format!("{} numbers for {} labels of {classes} classes", numbers.len(), labels.len()));
    }
    if labels.is_empty() {
        return bad("there is nothing to judge: no labels".into());
    }
    if let Some(at) = labels.iter().position(|label| usize::from(*label) >= classes) {
        return bad(format!("label {at} is {}, but there are {classes} classes", labels[at]));
    }
    if let Some(weights) = weights {
        if weights.len() != labels.len() {
            return bad(format!("{} weights for {} labels", weights.len(), labels.len()));
        }
        if let Some(at) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            return bad(format!("weight {at} is {}; weights are finite and not negative", weights[at]));
        }
        if weights.iter().all(|weight| *weight == 0.0) {
            return bad("all weights are 0".into());
        }
    }
    Ok(())
}

/// The weight of sample `at`.
fn weight(weights: Option<&[f32]>, at: usize) -> f64 {
    weights.map_or(1.0, |weights| f64::from(weights[at]))
}
