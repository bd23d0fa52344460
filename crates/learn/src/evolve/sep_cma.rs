//! sep-CMA-ES (Ros and Hansen 2008, <https://hal.inria.fr/inria-00287367>): CMA-ES with a deviation for each parameter
//! and no correlations, so that a generation costs as much as its draws.
//!
//! Equations and constants are those of Hansen's tutorial (2016, <https://arxiv.org/abs/1604.00772>) without negative
//! weights; the rates of the covariance are `(d + 2) / 3` times as large, as the paper has them, because `d` numbers
//! are learned instead of `d²`.
//!
//! One term is not the tutorial's: h_σ, which holds the path of the covariance while that of σ is long, divides by the
//! root of `1 - (1 - c_σ)^(2 (g + 1))`, where `g` includes this generation; in the tutorial it does not. evosax
//! includes it too, and trajectories are tested against those of evosax. The two differ noticeably in the first
//! generations alone.

use super::fused_simd::perturb_each;
use super::ranks::weights_by_rank;
use super::strategy::{Normals, State, Strategy, length, restore_arrays, weighted_sums};

/// A normal distribution with a deviation for each parameter.
#[derive(Debug, Clone)]
pub struct SepCma {
    constants: Constants,
    sigma: f64,
    generation: u32,
    mean: Vec<f32>,
    /// Variance of each parameter, in units of σ².
    variance: Vec<f32>,
    /// Its root.
    deviation: Vec<f32>,
    path: Vec<f32>,
    sigma_path: Vec<f32>,
    moved: f64,
}

/// What follows from the number of parameters and of individuals.
#[derive(Debug, Clone, Default)]
pub(super) struct Constants {
    /// `[individuals]` from the fittest on.
    pub(super) weights: Vec<f64>,
    /// How many individuals the weights are worth.
    pub(super) effective: f64,
    pub(super) path_rate: f64,
    pub(super) rank_one: f64,
    pub(super) rank_many: f64,
    pub(super) sigma_rate: f64,
    pub(super) damping: f64,
    /// Expected length of a normal vector.
    pub(super) length: f64,
}

impl Constants {
    /// As sep-CMA-ES has them.
    pub(super) fn separable(parameters: usize, individuals: usize) -> Constants {
        Constants::new(parameters, individuals, (parameters as f64 + 2.0) / 3.0)
    }

    /// `faster` is how many times the rates of the covariance are those of CMA-ES.
    fn new(parameters: usize, individuals: usize, faster: f64) -> Constants {
        let (d, n) = (parameters as f64, individuals as f64);
        let raw: Vec<f64> = (1..=individuals).map(|i| (((n + 1.0) / 2.0).ln() - (i as f64).ln()).max(0.0)).collect();
        let sum: f64 = raw.iter().sum();
        let weights: Vec<f64> = raw.iter().map(|w| w / sum.max(f64::MIN_POSITIVE)).collect();
        let effective = 1.0 / weights.iter().map(|w| w * w).sum::<f64>().max(f64::MIN_POSITIVE);
        let rank_one = faster * 2.0 / ((d + 1.3).powi(2) + effective);
        let rank_many = faster * 2.0 * (effective + 1.0 / effective - 2.0) / ((d + 2.0).powi(2) + effective);
        let rank_one = rank_one.min(0.5);
        let sigma_rate = (effective + 2.0) / (d + effective + 5.0);
        Constants {
            weights,
            effective,
            path_rate: (4.0 + effective / d) / (d + 4.0 + 2.0 * effective / d),
            rank_one,
            rank_many: rank_many.min(1.0 - rank_one),
            sigma_rate,
            damping: 1.0 + 2.0 * (((effective - 1.0) / (d + 1.0)).sqrt() - 1.0).max(0.0) + sigma_rate,
            length: d.sqrt() * (1.0 - 1.0 / (4.0 * d) + 1.0 / (21.0 * d * d)),
        }
    }
}

impl SepCma {
    /// Around a middle, for so many individuals a generation.
    pub fn new(mean: Vec<f32>, sigma: f32, individuals: usize) -> SepCma {
        let constants = Constants::separable(mean.len(), individuals);
        SepCma::with(mean, sigma, constants)
    }

    /// With the rates of the covariance that CMA-ES has.
    pub fn slow(mean: Vec<f32>, sigma: f32, individuals: usize) -> SepCma {
        let d = mean.len();
        SepCma::with(mean, sigma, Constants::new(d, individuals, 1.0))
    }

    fn with(mean: Vec<f32>, sigma: f32, constants: Constants) -> SepCma {
        let d = mean.len();
        SepCma {
            constants,
            sigma: f64::from(sigma),
            generation: 0,
            mean,
            variance: vec![1.0; d],
            deviation: vec![1.0; d],
            path: vec![0.0; d],
            sigma_path: vec![0.0; d],
            moved: 0.0,
        }
    }
}

impl Strategy for SepCma {
    fn mean(&self) -> &[f32] {
        &self.mean
    }

    fn sides(&self) -> usize {
        1
    }

    fn ask(&self, side: f32, from: usize, z: &[f32], x: &mut [f32]) {
        let own = from..from + x.len();
        perturb_each(side * self.sigma as f32, &self.deviation[own.clone()], z, &self.mean[own], x);
    }

    fn tell(&mut self, fitness: &[f64], normals: &dyn Normals, _: f32) {
        let Constants { weights, effective, path_rate, rank_one, rank_many, sigma_rate, damping, length: expected } =
            &self.constants;
        // Where all are equal there is no direction, and a step of the mean of all draws would be noise.
        if fitness.iter().all(|f| *f == fitness[0]) {
            (self.generation, self.moved) = (self.generation + 1, 0.0);
            return;
        }
        let weights: Vec<f32> = weights_by_rank(fitness, weights).into_iter().map(|w| w as f32).collect();
        let (mut z, mut z2) = (vec![0.0; self.mean.len()], vec![0.0; self.mean.len()]);
        weighted_sums(normals, &weights, &mut z, Some(&mut z2));
        self.generation += 1;
        // Paths: of the middle in units of each deviation for σ, as it is for the covariance.
        let push = (sigma_rate * (2.0 - sigma_rate) * effective).sqrt() as f32;
        let keep = (1.0 - sigma_rate) as f32;
        self.sigma_path.iter_mut().zip(&z).for_each(|(path, z)| *path = keep * *path + push * z);
        let far = length(self.sigma_path.iter().copied());
        let begun = (1.0 - (1.0 - sigma_rate).powi(2 * (self.generation as i32 + 1))).sqrt();
        let d = self.mean.len() as f64;
        let is_short = far / begun < (1.4 + 2.0 / (d + 1.0)) * expected;
        let (push, keep) = ((path_rate * (2.0 - path_rate) * effective).sqrt() as f32, (1.0 - path_rate) as f32);
        let push = if is_short { push } else { 0.0 };
        let missing = if is_short { 0.0 } else { path_rate * (2.0 - path_rate) };
        let kept = (1.0 + rank_one * missing - rank_one - rank_many) as f32;
        let (one, many, sigma) = (*rank_one as f32, *rank_many as f32, self.sigma as f32);
        let mut moves = 0.0f64;
        let arrays = self.mean.iter_mut().zip(&mut self.path).zip(self.variance.iter_mut().zip(&mut self.deviation));
        for (((mean, path), (variance, deviation)), (z, z2)) in arrays.zip(z.iter().zip(&z2)) {
            let step = *deviation * z;
            let moved = sigma * step;
            *mean += moved;
            moves += f64::from(moved) * f64::from(moved);
            *path = keep * *path + push * step;
            let spread = *deviation * *deviation * z2;
            *variance = (kept * *variance + one * *path * *path + many * spread).clamp(0.0, 1e8) + 1e-8;
            *deviation = variance.sqrt();
        }
        self.moved = moves.sqrt();
        self.sigma = (self.sigma * ((sigma_rate / damping) * (far / expected - 1.0)).exp()).clamp(1e-12, 1e8);
    }

    fn sigma(&self) -> f64 {
        let d = self.deviation.len().max(1) as f64;
        self.sigma * self.deviation.iter().map(|x| f64::from(*x)).sum::<f64>() / d
    }

    fn moved(&self) -> f64 {
        self.moved
    }

    fn state(&self) -> State {
        let arrays = vec![
            self.mean.clone(),
            self.variance.clone(),
            self.deviation.clone(),
            self.path.clone(),
            self.sigma_path.clone(),
        ];
        State { numbers: vec![self.sigma, f64::from(self.generation), self.moved], arrays }
    }

    fn restore(&mut self, state: &State) -> bool {
        let [sigma, generation, moved] = state.numbers[..] else { return false };
        (self.sigma, self.generation, self.moved) = (sigma, generation as u32, moved);
        let SepCma { mean, variance, deviation, path, sigma_path, .. } = self;
        restore_arrays(state, &mut [mean, variance, deviation, path, sigma_path])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shipped: rates of the covariance `(d + 2) / 3` times those of CMA-ES, and their limits.
    #[test]
    fn rates_of_the_covariance_are_those_of_the_paper() {
        for (d, n) in [(4, 8), (10, 32), (100, 64), (5_000, 128)] {
            let search = SepCma::new(vec![0.0; d], 0.3, n);
            let Constants { weights, effective, path_rate, rank_one, rank_many, sigma_rate, damping, length } =
                search.constants;
            let d = d as f64;
            let raw: Vec<f64> = (1..=n / 2).map(|i| ((n as f64 + 1.0) / 2.0).ln() - (i as f64).ln()).collect();
            let sum: f64 = raw.iter().sum();
            let worth = sum * sum / raw.iter().map(|w| w * w).sum::<f64>();
            // Hansen 2016, table 1, with all covariances known to be 1; times (d + 2) / 3, Ros and Hansen 2008.
            let one = 2.0 / ((d + 1.3) * (d + 1.3) + worth) * (d + 2.0) / 3.0;
            let many = 2.0 * (worth - 2.0 + 1.0 / worth) / ((d + 2.0) * (d + 2.0) + worth) * (d + 2.0) / 3.0;
            let of_sigma = (worth + 2.0) / (d + worth + 5.0);
            let brake = 1.0 + 2.0 * f64::max(0.0, ((worth - 1.0) / (d + 1.0)).sqrt() - 1.0) + of_sigma;
            let mut wanted = vec![worth, (4.0 + worth / d) / (d + 4.0 + 2.0 * worth / d), one.min(0.5)];
            wanted.extend([many.min(1.0 - one.min(0.5)), of_sigma, brake]);
            wanted.push(d.sqrt() * (1.0 - 1.0 / (4.0 * d) + 1.0 / (21.0 * d * d)));
            let found = [effective, path_rate, rank_one, rank_many, sigma_rate, damping, length];
            for (found, wanted) in found.iter().zip(&wanted) {
                assert!(
                    (found - wanted).abs() < 1e-12 * wanted.abs(),
                    "{d} parameters, {n} individuals: {found}, {wanted}"
                );
            }
            assert!(weights.iter().zip(&raw).all(|(own, raw)| (own - raw / sum).abs() < 1e-15));
            assert!(weights[n / 2..].iter().all(|own| *own == 0.0) && weights.len() == n);
        }
        // In figures, of 10 parameters and 32 individuals.
        let own = SepCma::new(vec![0.0; 10], 0.3, 32).constants;
        assert!((own.rank_one - 0.058_450).abs() < 1e-6 && (own.rank_many - 0.380_615).abs() < 1e-6, "{own:?}");
    }
}
