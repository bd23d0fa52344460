//! Members of a group in two halves, each with a stream of its own on a card.
//!
//! Between two minibatches parts of gradients are added, norms taken and weights moved, and in a rollout accounts wait
//! for one step after another: most of the card is idle then. The minibatches of the other half fill it. No member
//! knows of another, so which half it is in changes none of its bits. Populations whose members adopt from each other
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

    fn validate_all(&mut self) -> Result<Vec<Score>> {
        let [first, second] = &mut self.0;
        let mut scores = first.validate_all()?;
        scores.extend(second.validate_all()?);
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

#[cfg(test)]
mod tests {
    use super::super::card_tests::{HOPPER_CASES, card, ppo};
    use super::*;
    use crate::Learner;
    use compute::population::Pace;

    /// Members end with the same bits in halves as in a group that is too small for them, and the least group whose
    /// halves fill a card is split.
    #[test]
    fn halves_change_no_bit() {
        let Some(at) = card() else { return };
        let Opened::Cuda(context) = &at.device else { return };
        for case in HOPPER_CASES {
            let ppo = ppo(case, 512, 8192);
            let keys: Vec<MemberKey> = (0..32).map(|seed| MemberKey { config: 0, fold: 0, seed }).collect();
            let hopper = context.gpu().capability == (9, 0);
            assert_eq!(split(&ppo, &at.device, &keys).is_some(), hopper, "{case:?}");
            assert!(split(&ppo, &at.device, &keys[..30]).is_none(), "{case:?}");
            let tables = ppo.problem().tables(&at.device, at.budget).unwrap();
            let train = |keys: &[MemberKey]| {
                let mut training = ppo.begin(&at, &tables, keys, Pace::default(), &Pins::default()).unwrap();
                for _ in 0..2 {
                    training.advance(1).unwrap();
                    training.skip_validation().unwrap();
                }
                training
            };
            let (mut all, mut few) = (train(&keys), train(&keys[14..18]));
            assert!(all.memory() > few.memory());
            for key in &keys[14..18] {
                let [one, other] = [&mut all, &mut few].map(|training| training.snapshot(key.id()).unwrap());
                assert!(one.bytes == other.bytes, "{case:?}, member {}", key.seed);
            }
            // A member goes on from where another group left it.
            few.advance(1).unwrap();
            let at_end = few.snapshot(keys[16].id()).unwrap();
            all.restore(&at_end).unwrap();
            assert!(all.snapshot(keys[16].id()).unwrap().bytes == at_end.bytes);
            assert!(all.weights(99).is_err());
        }
    }
}
