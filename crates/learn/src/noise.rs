//! The gradient noise scale: how many rows a batch may have before more of them hardly help.
//!
//! McCandlish et al. 2018, "An empirical model of large-batch training": the gradient of a batch of `B` rows is the
//! true one `G` plus noise, so `E|g|² = |G|² + tr(Σ)/B`, and the simple noise scale is `tr(Σ)/|G|²`. Squared norms at
//! two sizes give both without bias. The small size is a batch; the large one is all batches of a look together, whose
//! gradient is the mean of theirs: the engine does nothing it does not do in a step, and the larger the large size is,
//! the less noise is left in `|G|²`.
//!
//! What is looked at is the loss as it is trained on, a weighted mean over the rows of a batch: to first order it has
//! the same `1/B`. Rows are drawn without replacement, for which the formulas hold as they stand. Weights are those
//! after a short training, since random ones have a large gradient and tell a far too small scale; during a long
//! training the scale grows.

/// How the noise scale is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseSpec {
    /// Steps of training before it.
    pub warm_up: u32,
    /// Rows of the small size; fewer where the data are few.
    pub batch: usize,
    /// Batches at most; never more than an epoch has.
    pub batches: u32,
    /// Learning rate of the short training.
    pub rate: f32,
}

/// Which part of the measurement is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoisePhase {
    /// The short training.
    WarmUp,
    /// The gradients.
    Gradients,
}

/// How gradients scatter.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Noise {
    /// `|G|²`, without bias: it may come out below 0 where there is little but noise.
    pub gradient_squared: f64,
    /// The standard error of that, from leaving out parts of the batches in turn.
    pub gradient_squared_error: f64,
    /// `tr(Σ)`: the variance of one row's gradient.
    pub variance: f64,
    /// Rows of the small size.
    pub batch: usize,
    /// Batches of each member.
    pub batches: u32,
    /// Members it is the mean of.
    pub members: usize,
    /// Steps of training before it.
    pub warm_up: u32,
}

impl Noise {
    /// The noise scale in rows, where the gradient can be told from nothing: it is above 0 by its standard error.
    pub fn scale(&self) -> Option<f64> {
        let distinguishable = self.gradient_squared > self.gradient_squared_error && self.variance > 0.0;
        distinguishable.then(|| self.variance / self.gradient_squared)
    }

    /// What the scale is at least, two standard errors away; none where nothing can be said.
    pub fn at_least(&self) -> Option<f64> {
        let most = self.gradient_squared.max(0.0) + 2.0 * self.gradient_squared_error;
        (most.is_finite() && most > 0.0 && self.variance > 0.0).then(|| self.variance / most)
    }
}

/// `|G|²` and `tr(Σ)` from mean squared norms of gradients at two sizes: `(rows, squared norm)` of the small one and of
/// the large one.
fn simple((small, of_small): (f64, f64), (large, of_large): (f64, f64)) -> (f64, f64) {
    let squared = (large * of_large - small * of_small) / (large - small);
    let variance = (of_small - of_large) / (1.0 / small - 1.0 / large);
    (squared, variance)
}

/// Parts of the batches that are left out in turn.
pub(crate) const PARTS: usize = 8;

/// Gradients of batches of one size, added up.
#[derive(Debug, Clone)]
pub(crate) struct Gradients {
    rows: usize,
    parts: Vec<Part>, // [PARTS] batches in turn
    seen: usize,
}

#[derive(Debug, Clone)]
struct Part {
    sum: Vec<f32>, // [params]
    squares: f64,
    n: f64,
}

impl Gradients {
    /// None yet, of batches of so many rows.
    pub(crate) fn new(rows: usize) -> Gradients {
        Gradients { rows, parts: vec![Part { sum: Vec::new(), squares: 0.0, n: 0.0 }; PARTS], seen: 0 }
    }

    /// One batch's.
    pub(crate) fn add(&mut self, gradient: &[f32]) {
        let part = &mut self.parts[self.seen % PARTS];
        part.sum.resize(gradient.len(), 0.0);
        part.sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
        part.squares += gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
        part.n += 1.0;
        self.seen += 1;
    }

    /// `|G|²`, its standard error (by the jackknife over the parts) and `tr(Σ)`; none with fewer than two batches.
    pub(crate) fn estimate(&self) -> Option<(f64, f64, f64)> {
        let (squared, variance) = self.without(None)?;
        let left: Option<Vec<f64>> = (0..PARTS).map(|part| Some(self.without(Some(part))?.0)).collect();
        // Few batches say nothing about their own error.
        let error = left.filter(|_| self.seen >= 2 * PARTS).map_or(f64::INFINITY, |left| {
            let mean = left.iter().sum::<f64>() / PARTS as f64;
            let spread: f64 = left.iter().map(|x| (x - mean).powi(2)).sum();
            (spread * (PARTS - 1) as f64 / PARTS as f64).sqrt()
        });
        Some((squared, error, variance))
    }

    /// The estimate without one part.
    fn without(&self, out: Option<usize>) -> Option<(f64, f64)> {
        let kept = || self.parts.iter().enumerate().filter(|(i, p)| Some(*i) != out && p.n > 0.0).map(|(_, p)| p);
        let n: f64 = kept().map(|p| p.n).sum();
        if n < 2.0 {
            return None;
        }
        let length = kept().map(|p| p.sum.len()).max().unwrap_or(0);
        let total = |i: usize| kept().map(|p| f64::from(p.sum[i])).sum::<f64>() / n;
        let of_large: f64 = (0..length).map(|i| total(i).powi(2)).sum();
        let of_small = kept().map(|p| p.squares).sum::<f64>() / n;
        let rows = self.rows as f64;
        Some(simple((rows, of_small), (n * rows, of_large)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Gradients, Noise, simple};
    use compute::random::{normals, philox};

    #[test]
    fn two_batch_sizes_recover_gradient_and_variance() {
        // |G|² = 4, tr Σ = 600, as they would be measured without any noise.
        let of = |rows: f64| (rows, 4.0 + 600.0 / rows);
        for (small, large) in [(1.0, 2.0), (32.0, 3072.0), (64.0, 100_000.0)] {
            let (squared, variance) = simple(of(small), of(large));
            assert!((squared - 4.0).abs() < 1e-9 && (variance - 600.0).abs() < 1e-6, "{squared} {variance}");
        }
    }

    /// Gradients of batches whose rows have the mean `g` and the deviation `sigma` in each of `d` places.
    fn made(seed: u64, batches: usize, rows: usize, d: usize, g: f32, sigma: f32) -> Gradients {
        let mut all = Gradients::new(rows);
        let deviation = sigma / (rows as f32).sqrt();
        for k in 0..batches {
            let noise = |i: usize| normals(philox(seed, [i as u32, k as u32, 0, 0]))[0];
            all.add(&(0..d).map(|i| g + deviation * noise(i)).collect::<Vec<f32>>());
        }
        all
    }

    #[test]
    fn a_known_noise_scale_is_found() {
        // |G|² = 50 · 0.01, tr Σ = 50 · 4: a scale of 400 rows.
        let (mut inside, mut sum) = (0, 0.0);
        for seed in 0..40 {
            let (squared, error, variance) = made(seed, 128, 16, 50, 0.1, 2.0).estimate().unwrap();
            assert!((variance / 200.0 - 1.0).abs() < 0.1, "{variance}");
            inside += usize::from((squared - 0.5).abs() < 2.0 * error);
            sum += squared;
        }
        assert!((sum / 40.0 - 0.5).abs() < 0.03, "no bias: {}", sum / 40.0);
        assert!(inside >= 33, "the error is one: {inside} of 40 lie within two of them");
    }

    #[test]
    fn pure_noise_has_no_noise_scale() {
        let mut found = 0;
        for seed in 0..40 {
            let (squared, error, variance) = made(100 + seed, 64, 32, 20, 0.0, 1.0).estimate().unwrap();
            let noise = Noise {
                gradient_squared: squared,
                gradient_squared_error: error,
                variance,
                batch: 32,
                batches: 64,
                members: 1,
                warm_up: 0,
            };
            // What it may be at least is no less than what was looked at allows.
            assert!(noise.at_least().unwrap() > 300.0, "{noise:?}");
            found += usize::from(noise.scale().is_some());
        }
        assert!(found < 14, "chance alone is taken for a gradient: {found} of 40");
    }

    #[test]
    fn too_few_batches_give_no_estimate() {
        assert_eq!(Gradients::new(8).estimate(), None);
        assert_eq!(made(1, 1, 8, 3, 1.0, 1.0).estimate(), None);
        let (_, error, _) = made(1, 9, 8, 3, 1.0, 1.0).estimate().unwrap();
        assert_eq!(error, f64::INFINITY);
    }
}
