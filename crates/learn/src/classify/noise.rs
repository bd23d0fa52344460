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

use super::Classify;
use crate::{DeviceBudget, Learner, MemberKey, failed};
use compute::population::{CHUNK, Pace, Pins, Recipe, Schedule};
use compute::{Error, Population};
use files::Result;

/// How to look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Steps of training before it.
    pub warm_up: u32,
    /// Rows of the small size; fewer where the data are few.
    pub batch: usize,
    /// Batches at most; never more than an epoch has.
    pub batches: u32,
    /// Learning rate of the short training.
    pub rate: f32,
}

/// Which part is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looking {
    /// The short training.
    WarmUp,
    /// The gradients.
    Gradients,
}

/// What was seen.
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
        let told = self.gradient_squared > self.gradient_squared_error && self.variance > 0.0;
        told.then(|| self.variance / self.gradient_squared)
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
const PARTS: usize = 8;

/// Gradients of batches of one size, added up.
#[derive(Debug, Clone)]
struct Gradients {
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
    fn new(rows: usize) -> Gradients {
        Gradients { rows, parts: vec![Part { sum: Vec::new(), squares: 0.0, n: 0.0 }; PARTS], seen: 0 }
    }

    /// One batch's.
    fn add(&mut self, gradient: &[f32]) {
        let part = &mut self.parts[self.seen % PARTS];
        part.sum.resize(gradient.len(), 0.0);
        part.sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
        part.squares += gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
        part.n += 1.0;
        self.seen += 1;
    }

    /// `|G|²`, its standard error (by the jackknife over the parts) and `tr(Σ)`; none with fewer than two batches.
    fn estimate(&self) -> Option<(f64, f64, f64)> {
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

/// Looks at the first and the last of some members: trains them for a moment, holds them still, and takes the
/// gradients of one batch after the other. `enough` may end either part; a few batches are always taken. What was
/// trained is thrown away.
pub fn noise(
    learner: &Classify,
    members: &[MemberKey],
    at: &DeviceBudget,
    look: &Look,
    enough: &dyn Fn(Looking) -> bool,
) -> Result<Noise> {
    let members = match members {
        [first, .., last] => vec![*first, *last],
        few => few.to_vec(),
    };
    let fewest = members.iter().map(|key| learner.samples(*key)).min().unwrap_or(0) as usize;
    let batch = look.batch.min(fewest / (2 * PARTS)).max(1);
    let seed = learner.shared(&members).recipe.seed;
    let tables = learner.problem().tables(&at.device, at.budget)?;
    let held = |rate: f32, seed: u64| {
        let mut spec = learner.spec().clone();
        spec.epochs = u32::MAX;
        for config in &mut spec.configs {
            config.rate = rate;
            config.recipe = Recipe { batch, schedule: Schedule::CONSTANT, average: None, seed, ..config.recipe };
        }
        learner.with(spec).population(at, &tables, &members, Pace::default(), &Pins::default()).map_err(failed)
    };
    let (warm_up, params) = warmed(held(look.rate, seed)?, look.warm_up, enough)?;

    // Another order of the rows than that of the training, or the first batches would be those it has just seen.
    let mut population = held(0.0, seed ^ 0x6e6f_6973_6500_0000)?;
    for (id, row) in &params {
        population.set_params(*id, row).map_err(failed)?;
    }
    // Whole batches alone: the last one of an epoch may have fewer rows.
    let batches = look.batches.min(u32::try_from(fewest / batch).unwrap_or(u32::MAX));
    let mut gradients = vec![Gradients::new(batch); params.len()];
    let mut taken = 0;
    while taken < batches && (taken < 2 * PARTS as u32 || !enough(Looking::Gradients)) {
        population.steps(1).map_err(failed)?;
        healthy(&mut population)?;
        for ((id, _), gradients) in params.iter().zip(&mut gradients) {
            gradients.add(&population.gradient(*id).map_err(failed)?);
        }
        taken += 1;
    }
    let seen: Vec<(f64, f64, f64)> = gradients.iter().filter_map(Gradients::estimate).collect();
    let n = seen.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64, f64)) -> f64| seen.iter().map(of).sum::<f64>() / n;
    let error = seen.iter().map(|s| s.1 * s.1).sum::<f64>().sqrt() / n;
    Ok(Noise {
        gradient_squared: mean(|s| s.0),
        gradient_squared_error: if seen.is_empty() { f64::INFINITY } else { error },
        variance: mean(|s| s.2),
        batch,
        batches: taken,
        members: params.len(),
        warm_up,
    })
}

/// `[members]` a member and its row of the arena.
type Rows = Vec<(u32, Vec<f32>)>;

/// A short training: the steps that were done, and everyone's weights after them.
fn warmed(mut population: Population, steps: u32, enough: &dyn Fn(Looking) -> bool) -> Result<(u32, Rows)> {
    let mut done = 0;
    while done < steps && !enough(Looking::WarmUp) {
        let chunk = (steps - done).min(if done == 0 { 1 } else { CHUNK / 4 });
        let statuses = population.steps(chunk).map_err(failed)?;
        healthy(&mut population)?;
        done = statuses.iter().map(|s| s.step).min().unwrap_or(steps);
        if statuses.iter().any(|s| s.due) {
            population.stop_waiting().map_err(failed)?;
        }
    }
    let ids: Vec<u32> = population.statuses().iter().map(|s| s.id).collect();
    let rows: Result<Rows> = ids.iter().map(|id| Ok((*id, population.params(*id).map_err(failed)?))).collect();
    Ok((done, rows?))
}

/// A number that is not finite is named.
fn healthy(population: &mut Population) -> Result<()> {
    let Some(bad) = population.statuses().into_iter().find(|s| s.fault) else { return Ok(()) };
    let why = population.fault(bad.id).map_err(failed)?;
    Err(failed(why.unwrap_or_else(|| Error::Asked("a member stopped".into()))))
}

#[cfg(test)]
mod tests {
    use super::{Gradients, Noise, simple};
    use compute::random::{normals, philox};

    #[test]
    fn two_sizes_give_both_parts_back() {
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
    fn nothing_but_noise_has_no_scale() {
        let mut told = 0;
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
            told += usize::from(noise.scale().is_some());
        }
        assert!(told < 14, "chance alone is taken for a gradient: {told} of 40");
    }

    #[test]
    fn too_few_batches_say_so() {
        assert_eq!(Gradients::new(8).estimate(), None);
        assert_eq!(made(1, 1, 8, 3, 1.0, 1.0).estimate(), None);
        let (_, error, _) = made(1, 9, 8, 3, 1.0, 1.0).estimate().unwrap();
        assert_eq!(error, f64::INFINITY);
    }
}
