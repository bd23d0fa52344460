//! The cross-entropy method (de Boer et al. 2005, <https://doi.org/10.1007/s10479-005-5724-z>): the distribution
//! becomes that of its fittest individuals.
//!
//! The fitter half counts, each the same. The middle goes to their mean. Deviations go a tenth of the way to theirs
//! *about the old middle*: about the new one a distribution that still moves contracts too early, which is why CMA-ES
//! and the simple strategy of evosax do it so. Sums over draws are those of [`super`].

use super::fused_simd::perturb_each;
use super::ranks::weights_by_rank;
use super::strategy::{Normals, State, Strategy, restore_arrays, weighted_sums};

/// How far deviations go in a generation.
pub(super) const RATE: f32 = 0.1;

/// A normal distribution with a deviation for each parameter.
#[derive(Debug, Clone)]
pub struct Cem {
    /// `[individuals]` from the fittest on.
    weights: Vec<f64>,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    moved: f64,
}

impl Cem {
    /// Around a middle, for so many individuals a generation.
    pub fn new(mean: Vec<f32>, sigma: f32, individuals: usize) -> Cem {
        Cem { weights: weights(individuals), deviation: vec![sigma; mean.len()], mean, moved: 0.0 }
    }
}

/// `[individuals]` what they count, from the fittest on.
pub(super) fn weights(individuals: usize) -> Vec<f64> {
    let elites = (individuals / 2).max(1);
    (0..individuals).map(|i| if i < elites { 1.0 / elites as f64 } else { 0.0 }).collect()
}

impl Strategy for Cem {
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
        // Where all are equal there is no direction, and a step of the mean of all draws would be noise.
        if fitness.iter().all(|f| *f == fitness[0]) {
            self.moved = 0.0;
            return;
        }
        let weights: Vec<f32> = weights_by_rank(fitness, &self.weights).into_iter().map(|w| w as f32).collect();
        let (mut z, mut z2) = (vec![0.0; self.mean.len()], vec![0.0; self.mean.len()]);
        weighted_sums(normals, &weights, &mut z, Some(&mut z2));
        let mut moves = 0.0f64;
        let arrays = self.mean.iter_mut().zip(&mut self.deviation);
        for ((mean, deviation), (z, z2)) in arrays.zip(z.iter().zip(&z2)) {
            let moved = *deviation * z;
            *mean += moved;
            moves += f64::from(moved) * f64::from(moved);
            *deviation = ((1.0 - RATE) * *deviation + RATE * (*deviation * z2.max(0.0).sqrt())).clamp(1e-12, 1e8);
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
