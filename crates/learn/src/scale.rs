//! Scaling: each fold's own mean and deviation, from its own training samples and nothing else (docs/method.md,
//! Scaling).
//!
//! It is fitted on the rows that training samples name: the last row of each window, or, where windows came ready made,
//! all of their rows. A column that does not vary there becomes 0. Sums are f64 in the order of the samples.
//!
//! **A scaler knows where it is from**: its split, its fold, its data, and until when it looked. Elsewhere it is
//! refused.

use crate::Problem;
use compute::Net;
use compute::population::Scale;
use features::Fold;
use files::{Error, Kind, Result};
use xxhash_rust::xxh3::Xxh3;

/// What a fold's inputs are scaled by.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaler {
    /// The fold it was fitted on; no other may use it.
    pub fold: usize,
    /// The split that fold is of, by [`split_id`].
    pub split: u64,
    /// The data it was fitted on, as [`Problem::data`] names them.
    pub data: String,
    /// What it was fitted on was known, labels too, before this, in nanoseconds.
    pub fit_to: i64,
    /// `[inputs]`
    pub scales: Vec<Scale>,
}

impl Scaler {
    /// Refuses to be used for another split or other data than it was fitted on.
    ///
    /// # Errors
    ///
    /// Says which of the two is another.
    pub fn belongs(&self, split: u64, data: &str) -> Result<()> {
        let other = if self.split != split {
            format!("the split {:016x}, not of {split:016x}", self.split)
        } else if self.data != data {
            format!("the data {}, not of {data}", self.data)
        } else {
            return Ok(());
        };
        Err(Error::new(Kind::State, format!("the scaler of fold {} is of {other}", self.fold + 1))
            .remedy("train again: a scaler is of one run and serves no other"))
    }

    /// `[inputs]` how a net's inputs are scaled; what an account is shown has fixed units.
    pub fn scales_of(&self, net: &Net) -> Vec<Option<Scale>> {
        let mut own = self.scales.iter().cloned();
        net.inputs.iter().map(|input| if input.dense { None } else { own.next() }).collect()
    }

    /// Refuses a test that begins before the fitting ended (docs/method.md, Scaling).
    ///
    /// # Errors
    ///
    /// Names the fold.
    pub fn precedes(&self, test_from: i64) -> Result<()> {
        if self.fit_to <= test_from {
            return Ok(());
        }
        let [fitted, tested] = [self.fit_to, test_from].map(files::time::rfc3339);
        Err(Error::new(
            Kind::State,
            format!("fold {}: what is fitted reaches to {fitted}, and its test begins at {tested}", self.fold + 1),
        )
        .remedy("training must end before the test begins"))
    }
}

/// A name for exactly these positions in these parts of these folds.
pub fn split_id(folds: &[Fold]) -> u64 {
    let mut hash = Xxh3::new();
    for part in folds.iter().flat_map(|fold| [&fold.train, &fold.valid, &fold.test]) {
        hash.update(&(part.len() as u64).to_le_bytes());
        part.iter().for_each(|position| hash.update(&position.to_le_bytes()));
    }
    hash.digest()
}

/// Fits a fold's scaler; `split` is the name of the split that the fold is of.
pub fn fit(problem: &Problem, fold: &Fold, split: u64) -> Scaler {
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
    let (data, fit_to) = (problem.data.clone(), fold.spans.train.to());
    Scaler { fold: fold.number, split, data, fit_to, scales: scales.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use features::{FoldKind, FoldSpans, Input, Samples, Span};

    /// Steps of accounts have no class, and are scaled as any sample: by the rows of training alone.
    #[test]
    fn samples_without_a_class_are_scaled() {
        let values = (0..10).flat_map(|row| [row as f32, 0.0, 0.0, 0.0]).collect();
        let input = Input { name: "row".into(), columns: vec!["a".into()], stride: 4, values, map: None, window: 0 };
        let samples = Samples {
            rows: (0..10).collect(),
            t0: (0..10).collect(),
            t1: (1..11).collect(),
            class: Vec::new(),
            weight: vec![1.0; 10],
        };
        let problem = Problem { inputs: vec![input], ids: 10, samples, data: "steps".into(), ..Problem::default() };
        let span = |from, to| Span::new(from, to).expect("it starts before it ends");
        let spans = FoldSpans { train: span(0, 6), valid: span(6, 9), test: span(9, 11) };
        let (train, valid, test) = ((0..5).collect(), (6..8).collect(), vec![9]);
        let (number, kind) = (0, FoldKind::Forward);
        let fold = Fold { number, kind, train, valid, test, spans, purged: 0, embargoed: 0 };
        let scaler = fit(&problem, &fold, split_id(std::slice::from_ref(&fold)));
        assert_eq!((scaler.scales[0].mean[0], scaler.scales[0].inverse[0]), (2.0, (1.0 / 2.0f64.sqrt()) as f32));
        assert!(scaler.precedes(fold.spans.test.from()).is_ok() && scaler.precedes(5).is_err());
    }
}
