//! Members of a group in two halves, each with a stream of its own on a card.
//!
//! Between two minibatches parts of gradients are added, norms taken and weights moved, and in a rollout accounts wait
//! for one step after another: most of the card is idle then. The minibatches of the other half fill it. No member knows
//! of another, so which half it is in changes none of its bits. Populations whose members adopt from each other
//! (`evolve/pbt.rs`) stay whole.

use super::Ppo;
use super::cuda;
use super::training::PpoTraining;
use crate::{DeviceBudget, MemberKey, Progress, Score, Snapshot, Training};
use compute::population::Pins;
use compute::{Error, Opened, Result, Tables};
use std::sync::Arc;

/// Both halves.
pub(super) struct Halves([PpoTraining; 2]);

/// The halves in which members train; none where they are better together.
pub(super) fn split<'a>(ppo: &Ppo, device: &Opened, members: &'a [MemberKey]) -> Option<[&'a [MemberKey]; 2]> {
    let Opened::Cuda(context) = device else { return None };
    let (first, second) = members.split_at(members.len().div_ceil(2));
    cuda::fills_a_card(context, ppo, second).then_some([first, second])
}

impl Halves {
    pub(super) fn new(
        ppo: &Ppo,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        [first, second]: [&[MemberKey]; 2],
        pins: &Pins,
    ) -> Result<Halves> {
        let half = |members| PpoTraining::new(ppo, at, tables, members, pins);
        Ok(Halves([half(first)?, half(second)?]))
    }

    /// The half that a member is in.
    fn of(&mut self, id: u32) -> Result<&mut PpoTraining> {
        let found = self.0.iter_mut().find(|half| half.progress().iter().any(|member| member.id == id));
        found.ok_or_else(|| Error::Invalid(format!("there is no member {id} in this group")))
    }
}

impl Training for Halves {
    fn memory(&self) -> u64 {
        self.0.iter().map(Training::memory).sum()
    }

    fn kernel_paths(&self) -> Vec<String> {
        self.0[0]
            .kernel_paths()
            .into_iter()
            .map(|path| format!("{path}; two halves of the members beside each other"))
            .collect()
    }

    fn pins(&self) -> Pins {
        let mut pins = self.0[0].pins();
        pins.0.extend(self.0[1].pins().0);
        pins
    }

    fn progress(&self) -> Vec<Progress> {
        self.0.iter().flat_map(Training::progress).collect()
    }

    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>> {
        for _ in 0..self.0[0].updates_in(at_most) {
            let mut begun = [false; 2];
            for (half, begun) in self.0.iter_mut().zip(&mut begun) {
                *begun = half.begin_update()?;
            }
            if begun == [false; 2] {
                break;
            }
            self.0.iter_mut().zip(begun).filter(|(_, begun)| *begun).try_for_each(|(half, _)| half.end_update())?;
        }
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        let [first, second] = &mut self.0;
        let mut scores = first.validate()?;
        scores.extend(second.validate()?);
        Ok(scores)
    }

    fn skip_validation(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Training::skip_validation)
    }

    fn weights(&mut self, id: u32) -> Result<Vec<f32>> {
        self.of(id)?.weights(id)
    }

    fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        self.of(id)?.snapshot(id)
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.of(snapshot.id)?.restore(snapshot)
    }

    /// From a member of the same half alone.
    fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        self.of(to)?.adopt(from, to)
    }

    fn stop(&mut self, id: u32) -> Result<()> {
        self.of(id)?.stop(id)
    }
}
