//! Classifiers while they train: a population, counted in samples and scored by counts of guesses.

use crate::{Metrics, Progress, Score, Snapshot, Training};
use compute::population::{self, Pins, Status};
use compute::{Population, Result};
use std::collections::BTreeMap;

pub(super) struct ClassTraining {
    population: Population,
    samples: Vec<u64>, // [members] of an epoch
    batch: u64,
    score: fn(&population::Score) -> f64,
    /// Algorithms of predictions.
    predicting: Pins,
    faults: BTreeMap<u32, String>,
}

impl ClassTraining {
    pub(super) fn new(
        population: Population,
        samples: Vec<u64>,
        batch: usize,
        score: fn(&population::Score) -> f64,
        predicting: Pins,
    ) -> ClassTraining {
        ClassTraining { population, samples, batch: batch as u64, score, predicting, faults: BTreeMap::new() }
    }
}

impl Training for ClassTraining {
    fn memory(&self) -> u64 {
        self.population.memory()
    }

    fn kernel_paths(&self) -> Vec<String> {
        self.population.kernel_paths()
    }

    fn pins(&self) -> Pins {
        let mut pins = self.population.pins();
        pins.0.extend(self.predicting.0.clone());
        pins
    }

    fn progress(&self) -> Vec<Progress> {
        let member = |(status, samples): (Status, &u64)| Progress {
            id: status.id,
            active: status.active,
            due: status.due,
            unit: status.epoch,
            step: status.step,
            samples: trained(&status, *samples, self.batch),
            fault: self.faults.get(&status.id).cloned(),
        };
        self.population.statuses().into_iter().zip(&self.samples).map(member).collect()
    }

    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>> {
        for status in self.population.steps(at_most)?.into_iter().filter(|s| s.fault) {
            if !self.faults.contains_key(&status.id) {
                let why = self.population.fault(status.id)?.map_or_else(String::new, |why| why.to_string());
                self.faults.insert(status.id, why);
            }
        }
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        let statuses = self.population.statuses();
        let scored = |score: population::Score| {
            let status = statuses.iter().find(|s| s.id == score.id)?;
            // A loss that is no number is never the best, whatever was guessed.
            let value = if score.loss.is_finite() { (self.score)(&score) } else { f64::NAN };
            let figures = [("train_loss", status.loss), ("valid_loss", score.loss), ("norm", f64::from(status.norm))];
            let (id, unit, step) = (score.id, score.epoch, status.step);
            Some(Score { id, unit, step, score: value, metrics: Metrics::new(&figures) })
        };
        Ok(self.population.validate()?.into_iter().filter_map(scored).collect())
    }

    fn skip_validation(&mut self) -> Result<()> {
        self.population.stop_waiting()
    }

    fn weights(&mut self, id: u32) -> Result<Vec<f32>> {
        self.population.params(id)
    }

    fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        self.population.snapshot(id).map(snapshot)
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.population.restore(&population::Snapshot::from_bytes(&snapshot.bytes)?)
    }

    fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        self.population.adopt(from, to)
    }

    fn stop(&mut self, id: u32) -> Result<()> {
        self.population.stop(id)
    }
}

/// A member's snapshot as plain bytes beside its weights.
pub(super) fn snapshot(of: population::Snapshot) -> Snapshot {
    let bytes = of.to_bytes();
    Snapshot { id: of.state.slot.id, weights: of.average.unwrap_or(of.params), bytes }
}

/// Samples that a member has trained on; the last batch of an epoch has fewer than the others.
fn trained(status: &Status, samples: u64, batch: u64) -> u64 {
    let within = u64::from(status.step).saturating_sub(u64::from(status.epoch) * samples.div_ceil(batch));
    u64::from(status.epoch) * samples + (within * batch).min(samples)
}
