//! The gradient noise scale of classifiers.

use super::Classify;
use crate::noise::{Gradients, PARTS};
use crate::{DeviceBudget, Learner, MemberKey, Noise, NoisePhase, NoiseSpec, failed};
use compute::population::{CHUNK, Pace, Pins, Recipe, Schedule};
use compute::{Error, Population};
use files::Result;

/// Measures the first and the last of some members: trains them for a moment, keeps their weights as they are, and
/// takes the gradients of one batch after the other. `enough` may end either part; a few batches are always taken.
/// What was trained is thrown away.
pub(super) fn noise(
    learner: &Classify,
    members: &[MemberKey],
    at: &DeviceBudget,
    spec: &NoiseSpec,
    enough: &dyn Fn(NoisePhase) -> bool,
) -> Result<Noise> {
    let members = match members {
        [first, .., last] => vec![*first, *last],
        few => few.to_vec(),
    };
    let fewest = members.iter().map(|key| learner.samples(*key)).min().unwrap_or(0) as usize;
    let batch = spec.batch.min(fewest / (2 * PARTS)).max(1);
    let seed = learner.shared(&members).recipe.seed;
    let tables = learner.problem().tables(&at.device, at.budget)?;
    let held = |rate: f32, seed: u64| {
        let mut configs = learner.spec.configs.clone();
        for config in &mut configs {
            config.rate = rate;
            config.recipe = Recipe { batch, schedule: Schedule::CONSTANT, average: None, seed, ..config.recipe };
        }
        learner
            .with_configs(configs, u32::MAX)
            .population(at, &tables, &members, Pace::default(), &Pins::default())
            .map_err(failed)
    };
    let (warm_up, params) = warmed(held(spec.rate, seed)?, spec.warm_up, enough)?;

    // Another order of the rows than that of the training, or the first batches would be those it has just seen.
    let mut population = held(0.0, seed ^ 0x6e6f_6973_6500_0000)?;
    for (id, row) in &params {
        population.set_params(*id, row).map_err(failed)?;
    }
    // Whole batches alone: the last one of an epoch may have fewer rows.
    let batches = spec.batches.min(u32::try_from(fewest / batch).unwrap_or(u32::MAX));
    let mut gradients = vec![Gradients::new(batch); params.len()];
    let mut taken = 0;
    while taken < batches && (taken < 2 * PARTS as u32 || !enough(NoisePhase::Gradients)) {
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
fn warmed(mut population: Population, steps: u32, enough: &dyn Fn(NoisePhase) -> bool) -> Result<(u32, Rows)> {
    let mut done = 0;
    while done < steps && !enough(NoisePhase::WarmUp) {
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
    Err(failed(why.unwrap_or_else(|| Error::Invalid("a member stopped".into()))))
}
