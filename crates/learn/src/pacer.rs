//! Real steps for a clock: what a tuner needs of a learner. None of it changes a bit of a training.

use crate::{DeviceBudget, Learner, MemberKey, Progress, Training, failed};
use compute::population::{Pace, Pins};
use files::{Error, Kind, Result};

/// Members that take real steps on the real data without a training: their weights are thrown away.
pub struct Pacer {
    training: Box<dyn Training>,
    tables: u64, // bytes
}

impl Pacer {
    /// Sets members up, as a training would. A clock wants all of them: they should have units enough not to end.
    pub fn new(learner: &dyn Learner, at: &DeviceBudget, members: &[MemberKey]) -> Result<Pacer> {
        let tables = learner.problem().tables(&at.device, at.budget)?;
        let training = learner.begin(at, &tables, members, Pace::default(), &Pins::default()).map_err(failed)?;
        Ok(Pacer { training, tables: tables.bytes() })
    }

    /// At least `steps` steps of some member, in chunks as in training and without validation; the samples that all
    /// trained on.
    pub fn advance(&mut self, steps: u32) -> Result<u64> {
        let mut now = self.training.progress();
        let before = samples(&now);
        let mut left = steps.max(1);
        while left > 0 {
            let was = most(&now);
            now = self.training.advance(left).map_err(failed)?;
            if let Some(why) = now.iter().find_map(|p| p.fault.clone()) {
                return Err(Error::new(Kind::Machine, why));
            }
            left = left.saturating_sub(most(&now).saturating_sub(was).max(1));
            if now.iter().any(|p| p.due) {
                self.training.skip_validation().map_err(failed)?;
            }
        }
        Ok(samples(&now) - before)
    }

    /// Bytes on the device, tables included.
    pub fn memory(&self) -> u64 {
        self.tables + self.training.memory()
    }
}

fn samples(progress: &[Progress]) -> u64 {
    progress.iter().map(|p| p.samples).sum()
}

fn most(progress: &[Progress]) -> u32 {
    progress.iter().map(|p| p.step).max().unwrap_or(0)
}
