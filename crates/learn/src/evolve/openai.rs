//! OpenAI-ES (Salimans et al. 2017, <https://arxiv.org/abs/1703.03864>): a gradient of the expected fitness, estimated
//! from mirrored draws and centred ranks, followed by Adam with decoupled weight decay.
//!
//! The gradient at the middle is `1 / (n σ) Σ (u⁺ - u⁻) z` over draws `z`, with `u` the centred ranks of the two
//! individuals. The deviation σ stays as it is.

use super::fused_simd::{AdamStep, climb, perturb};
use super::ranks::centred_ranks;
use super::strategy::{Normals, State, Strategy, length, restore_arrays, weighted_sums};
use compute::population::Optimiser;

/// A normal distribution of one deviation, whose middle moves by Adam.
#[derive(Debug, Clone)]
pub struct OpenAi {
    pub(super) sigma: f32,
    optimiser: Optimiser,
    mean: Vec<f32>,
    adam: Adam,
    moved: f64,
}

impl OpenAi {
    /// Around a middle; of the optimiser the memories, what is added to the root, and the decay are used.
    pub fn new(mean: Vec<f32>, sigma: f32, optimiser: Optimiser) -> OpenAi {
        let adam = Adam::new(mean.len());
        OpenAi { sigma, optimiser, mean, adam, moved: 0.0 }
    }

    /// Moves the middle along the gradient; `sum` writes, for each parameter, the weighted sum over draws.
    pub(super) fn climb(&mut self, fitness: &[f64], rate: f32, sum: impl FnOnce(&[f32], &mut [f32])) {
        let ranks = centred_ranks(fitness);
        let weights: Vec<f32> = ranks.chunks_exact(2).map(|pair| (pair[0] - pair[1]) as f32).collect();
        let mut gradient = vec![0.0; self.mean.len()];
        sum(&weights, &mut gradient);
        let scale = 1.0 / (fitness.len() as f32 * self.sigma);
        gradient.iter_mut().for_each(|g| *g *= scale);
        self.moved = self.adam.climb(&mut self.mean, &mut gradient, rate, &self.optimiser);
    }
}

impl Strategy for OpenAi {
    fn mean(&self) -> &[f32] {
        &self.mean
    }

    fn sides(&self) -> usize {
        2
    }

    fn ask(&self, side: f32, from: usize, z: &[f32], x: &mut [f32]) {
        perturb(side * self.sigma, z, &self.mean[from..from + x.len()], x);
    }

    fn tell(&mut self, fitness: &[f64], normals: &dyn Normals, rate: f32) {
        self.climb(fitness, rate, |weights, sums| weighted_sums(normals, weights, sums, None));
    }

    fn sigma(&self) -> f64 {
        f64::from(self.sigma)
    }

    fn moved(&self) -> f64 {
        self.moved
    }

    fn state(&self) -> State {
        let Adam { first, second, step } = &self.adam;
        let arrays = vec![self.mean.clone(), first.clone(), second.clone()];
        State { numbers: vec![f64::from(*step), self.moved], arrays }
    }

    fn restore(&mut self, state: &State) -> bool {
        let [step, moved] = state.numbers[..] else { return false };
        (self.adam.step, self.moved) = (step as u32, moved);
        restore_arrays(state, &mut [&mut self.mean, &mut self.adam.first, &mut self.adam.second])
    }
}

/// Adam (Kingma and Ba 2015, <https://arxiv.org/abs/1412.6980>) uphill, with weight decay beside the gradient
/// (Loshchilov and Hutter 2019, <https://arxiv.org/abs/1711.05101>).
#[derive(Debug, Clone)]
struct Adam {
    first: Vec<f32>,
    second: Vec<f32>,
    step: u32,
}

impl Adam {
    fn new(parameters: usize) -> Adam {
        Adam { first: vec![0.0; parameters], second: vec![0.0; parameters], step: 0 }
    }

    /// Moves `x` along a gradient, which becomes the move; how far.
    fn climb(&mut self, x: &mut [f32], gradient: &mut [f32], rate: f32, by: &Optimiser) -> f64 {
        let Optimiser { beta1, beta2, eps, decay, .. } = *by;
        self.step += 1;
        let left = |beta: f32| (1.0 - f64::from(beta).powi(self.step as i32)) as f32;
        let step = AdamStep { betas: [beta1, beta2], left: [left(beta1), left(beta2)], eps, decay, rate };
        climb(step, gradient, &mut self.first, &mut self.second, x);
        length(gradient.iter().copied())
    }
}
