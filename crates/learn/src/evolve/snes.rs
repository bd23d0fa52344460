//! SNES, separable natural evolution strategies (Wierstra et al. 2014,
//! <https://www.jmlr.org/papers/v15/wierstra14a.html>): a normal distribution with a deviation for each parameter,
//! whose middle and deviations follow the natural gradient of the expected utility.
//!
//! Utilities and rates are the paper's: `max(0, ln(n/2 + 1) - ln i) / Σ - 1/n` of the i-th fittest, a rate of 1 for the
//! middle and of `(3 + ln d) / (5 √d)` for the deviations. Sums over draws are those of [`super`].

use super::fused_simd::perturb_each;
use super::ranks::weights_by_rank;
use super::strategy::{Normals, State, Strategy, restore_arrays, weighted_sums};

/// A normal distribution with a deviation for each parameter.
#[derive(Debug, Clone)]
pub struct Snes {
    /// `[individuals]` from the fittest on.
    utilities: Vec<f64>,
    rate: f64,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    moved: f64,
}

impl Snes {
    /// Around a middle, for so many individuals a generation.
    pub fn new(mean: Vec<f32>, sigma: f32, individuals: usize) -> Snes {
        let (utilities, rate) = (utilities(individuals), rate(mean.len()));
        Snes { utilities, rate, deviation: vec![sigma; mean.len()], mean, moved: 0.0 }
    }
}

/// `[individuals]` what they count, from the fittest on.
pub(super) fn utilities(individuals: usize) -> Vec<f64> {
    let n = individuals as f64;
    let raw: Vec<f64> = (1..=individuals).map(|i| ((n / 2.0 + 1.0).ln() - (i as f64).ln()).max(0.0)).collect();
    let sum: f64 = raw.iter().sum();
    raw.into_iter().map(|u| u / sum - 1.0 / n).collect()
}

/// How fast deviations of so many parameters move.
pub(super) fn rate(parameters: usize) -> f64 {
    let d = parameters as f64;
    (3.0 + d.ln()) / (5.0 * d.sqrt())
}

impl Strategy for Snes {
    fn mean(&self) -> &[f32] {
        &self.mean
    }

    fn sides(&self) -> usize {
        1
    }

    fn ask(&self, side: f32, from: usize, z: &[f32], x: &mut [f32]) {
        let own = from..from + x.len();
        perturb_each(side, &self.deviation[own.clone()], z, &self.mean[own], x);
    }

    fn tell(&mut self, fitness: &[f64], normals: &dyn Normals, _: f32) {
        let utilities: Vec<f32> = weights_by_rank(fitness, &self.utilities).into_iter().map(|u| u as f32).collect();
        let (mut z, mut z2) = (vec![0.0; self.mean.len()], vec![0.0; self.mean.len()]);
        weighted_sums(normals, &utilities, &mut z, Some(&mut z2));
        // 0 but for rounding, and not where all are equal.
        let sum: f32 = utilities.iter().sum();
        let half = 0.5 * self.rate as f32;
        let mut moves = 0.0f64;
        let arrays = self.mean.iter_mut().zip(&mut self.deviation);
        for ((mean, deviation), (z, z2)) in arrays.zip(z.iter().zip(&z2)) {
            let moved = *deviation * z;
            *mean += moved;
            moves += f64::from(moved) * f64::from(moved);
            *deviation = (*deviation * (half * (z2 - sum)).exp()).clamp(1e-12, 1e8);
        }
        self.moved = moves.sqrt();
    }

    fn sigma(&self) -> f64 {
        let d = self.deviation.len().max(1) as f64;
        self.deviation.iter().map(|x| f64::from(*x)).sum::<f64>() / d
    }

    fn moved(&self) -> f64 {
        self.moved
    }

    fn state(&self) -> State {
        State { numbers: vec![self.moved], arrays: vec![self.mean.clone(), self.deviation.clone()] }
    }

    fn restore(&mut self, state: &State) -> bool {
        let [moved] = state.numbers[..] else { return false };
        self.moved = moved;
        restore_arrays(state, &mut [&mut self.mean, &mut self.deviation])
    }
}
