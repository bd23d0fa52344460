//! Scaling: each fold's own mean and deviation, from its own training samples and nothing else (METHOD.md C4).
//!
//! It is fitted on the rows that training samples name: the last row of each window, or, where windows came ready made, all of their rows.
//! A column that does not vary there becomes 0. Sums are f64 in the order of the samples.

use crate::Problem;
use compute::population::Scale;
use features::Fold;

/// What a fold's inputs are scaled by.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaler {
    /// The fold it was fitted on; no other may use it.
    pub fold: usize,
    /// `[inputs]`
    pub scales: Vec<Scale>,
}

/// Fits a fold's scaler.
pub fn fit(problem: &Problem, fold: &Fold) -> Scaler {
    let ids = || fold.train.iter().map(|at| problem.samples.rows[*at as usize]);
    let scales = problem.inputs.iter().map(|input| {
        let (wide, stride) = (input.columns.len(), input.stride);
        // Ready windows lie one behind the other: each brings all of its rows.
        let back = if input.map.is_some() { input.window.max(1) - 1 } else { 0 };
        let (mut sum, mut square, mut n) = (vec![0.0; wide], vec![0.0; wide], 0u64);
        // About the first row, so that a large level does not drown a small deviation.
        let mut about: Option<Vec<f64>> = None;
        for id in ids() {
            let last = input.map.as_ref().map_or(id, |map| map[id as usize]) as usize;
            for row in last - back..=last {
                let row = &input.values[row * stride..row * stride + wide];
                let about = about.get_or_insert_with(|| row.iter().map(|x| f64::from(*x)).collect());
                for (((sum, square), about), x) in sum.iter_mut().zip(&mut square).zip(about.iter()).zip(row) {
                    let x = f64::from(*x) - about;
                    *sum += x;
                    *square += x * x;
                }
                n += 1;
            }
        }
        let about = about.unwrap_or_else(|| vec![0.0; wide]);
        let n = n.max(1) as f64;
        let (mut mean, mut inverse) = (Vec::with_capacity(wide), Vec::with_capacity(wide));
        for column in 0..wide {
            let shift = sum[column] / n;
            let deviation = (square[column] / n - shift * shift).max(0.0).sqrt();
            let level = about[column] + shift;
            mean.push(level as f32);
            // Rounding alone makes a constant column of large numbers vary a little.
            let varies = deviation > 1e-7 * level.abs().max(1e-30);
            inverse.push(if varies { (1.0 / deviation) as f32 } else { 0.0 });
        }
        Scale { mean, inverse }
    });
    Scaler { fold: fold.number, scales: scales.collect() }
}
