//! Normal distributions with a deviation for each parameter, whose middle goes to the weighted mean of their
//! individuals. Two ways to weigh them and to move deviations; sums over draws are those of [`super`].
//!
//! **SNES**, separable natural evolution strategies (Wierstra et al. 2014,
//! <https://www.jmlr.org/papers/v15/wierstra14a.html>), follows the natural gradient of the expected utility. Utilities
//! and rates are the paper's: `max(0, ln(n/2 + 1) - ln i) / Σ - 1/n` of the i-th fittest, a rate of 1 for the middle
//! and of `(3 + ln d) / (5 √d)` for the deviations.
//!
//! **The cross-entropy method** (de Boer et al. 2005, <https://doi.org/10.1007/s10479-005-5724-z>) becomes the
//! distribution of the fittest individuals. The fitter half counts, each the same. Deviations go a tenth of the way to
//! theirs *about the old middle*: about the new one a distribution that still moves contracts too early, which is why
//! CMA-ES and the simple strategy of evosax (`SimpleES`, which trajectories are tested against) do it so. Deviations
//! follow single parameters alone: in Rosenbrock's valley it contracts on its way and stays far from the optimum, where
//! SNES arrives.

use super::fused_simd::perturb_each;
use super::ranks::weights_by_rank;
use super::strategy::{Normals, State, Strategy, restore_arrays, weighted_sums};

/// How far deviations go in a generation of the cross-entropy method.
pub(super) const CEM_RATE: f32 = 0.1;

/// A normal distribution with a deviation for each parameter.
#[derive(Debug, Clone)]
pub struct Separable {
    /// `[individuals]` from the fittest on.
    weights: Vec<f64>,
    /// How fast deviations follow their gradient; none goes to those of the fittest.
    rate: Option<f64>,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    moved: f64,
}

impl Separable {
    /// SNES around a middle, for so many individuals a generation.
    pub fn snes(mean: Vec<f32>, sigma: f32, individuals: usize) -> Separable {
        let (weights, rate) = (snes_utilities(individuals), Some(snes_rate(mean.len())));
        Separable { weights, rate, deviation: vec![sigma; mean.len()], mean, moved: 0.0 }
    }

    /// The cross-entropy method around a middle, for so many individuals a generation.
    pub fn cem(mean: Vec<f32>, sigma: f32, individuals: usize) -> Separable {
        let weights = cem_weights(individuals);
        Separable { weights, rate: None, deviation: vec![sigma; mean.len()], mean, moved: 0.0 }
    }

    /// Moves the middle along the weighted draws, and each deviation to what it becomes of `Σ weight · z²`.
    fn go(&mut self, normals: &dyn Normals, weights: &[f32], becomes: impl Fn(f32, f32) -> f32) {
        let (mut z, mut z2) = (vec![0.0; self.mean.len()], vec![0.0; self.mean.len()]);
        weighted_sums(normals, weights, &mut z, Some(&mut z2));
        let mut moves = 0.0f64;
        let arrays = self.mean.iter_mut().zip(&mut self.deviation);
        for ((mean, deviation), (z, z2)) in arrays.zip(z.iter().zip(&z2)) {
            let moved = *deviation * z;
            *mean += moved;
            moves += f64::from(moved) * f64::from(moved);
            *deviation = becomes(*deviation, *z2).clamp(1e-12, 1e8);
        }
        self.moved = moves.sqrt();
    }
}

/// `[individuals]` what they count, from the fittest on.
pub(super) fn snes_utilities(individuals: usize) -> Vec<f64> {
    let n = individuals as f64;
    let raw: Vec<f64> = (1..=individuals).map(|i| ((n / 2.0 + 1.0).ln() - (i as f64).ln()).max(0.0)).collect();
    let sum: f64 = raw.iter().sum();
    raw.into_iter().map(|u| u / sum - 1.0 / n).collect()
}

/// How fast deviations of so many parameters move.
pub(super) fn snes_rate(parameters: usize) -> f64 {
    let d = parameters as f64;
    (3.0 + d.ln()) / (5.0 * d.sqrt())
}

/// `[individuals]` what they count, from the fittest on.
pub(super) fn cem_weights(individuals: usize) -> Vec<f64> {
    let elites = (individuals / 2).max(1);
    (0..individuals).map(|i| if i < elites { 1.0 / elites as f64 } else { 0.0 }).collect()
}

impl Strategy for Separable {
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
        let weights: Vec<f32> = weights_by_rank(fitness, &self.weights).into_iter().map(|w| w as f32).collect();
        match self.rate {
            Some(rate) => {
                // 0 but for rounding, and not where all are equal.
                let sum: f32 = weights.iter().sum();
                let half = 0.5 * rate as f32;
                self.go(normals, &weights, |deviation, z2| deviation * (half * (z2 - sum)).exp());
            }
            // Where all are equal there is no direction, and a step of the mean of all draws would be noise.
            None if fitness.iter().all(|f| *f == fitness[0]) => self.moved = 0.0,
            None => self.go(normals, &weights, |deviation, z2| {
                (1.0 - CEM_RATE) * deviation + CEM_RATE * (deviation * z2.max(0.0).sqrt())
            }),
        }
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
