//! What a member does in an iteration: its accounts take their steps, each decided by a search, and every step becomes
//! a target.

use super::evaluator::UnitEvaluator;
use super::model::{ACTIONS, observation};
use super::replay::Target;
use super::returns::Course;
use super::training::Member;
use super::{Expert, Hypers};
use compute::Result;
use compute::random::{Stream, below, philox, uniform};
use market::OBSERVED;
use search::{Evaluate, InfoSet, Outcomes, Root};

/// A member's steps of one iteration.
pub(super) struct Rollout {
    hypers: Hypers,
    courses: Vec<Course>,
    targets: Vec<Target>,
    /// Episodes that were cut off, by account and step, and what is shown there.
    cut: Vec<(usize, usize)>,
    asked: Vec<(u32, [f32; OBSERVED])>,
    grown: f64,
    changed: usize,
    worth: f64,
}

impl Rollout {
    pub(super) fn new(hypers: &Hypers) -> Rollout {
        let n = hypers.n_envs as usize;
        Rollout {
            hypers: *hypers,
            courses: vec![Course::default(); n],
            targets: Vec::with_capacity(n * hypers.n_steps as usize),
            cut: Vec::new(),
            asked: Vec::new(),
            grown: 0.0,
            changed: 0,
            worth: 0.0,
        }
    }

    /// The step of a member's whole training.
    fn number(&self, member: &Member, t: u32) -> u32 {
        member.unit.wrapping_mul(self.hypers.n_steps).wrapping_add(t)
    }

    /// Where its accounts are, as roots.
    pub(super) fn roots(&self, expert: &Expert, member: &mut Member, t: u32) -> Vec<Root<InfoSet>> {
        let (id, step, n) = (member.key.id(), self.number(member, t), u64::from(self.hypers.n_envs));
        let horizon = Some(self.hypers.search.horizon);
        let view = member.environment.view();
        let (rows, observed) = (view.rows.to_vec(), view.observed.to_vec());
        let places = rows.iter().zip(observed.chunks_exact(OBSERVED)).zip(0u64..);
        places
            .map(|((row, observed), i)| Root {
                known: known(expert, member, *row, observed, horizon),
                counter: u64::from(id) << 40 ^ (u64::from(step) * n + i),
            })
            .collect()
    }

    /// Takes a step by what the search from these roots found, which begins at `first`.
    pub(super) fn step(
        &mut self,
        member: &mut Member,
        roots: &[Root<InfoSet>],
        found: &Outcomes,
        first: usize,
        t: u32,
        seed: u64,
    ) {
        let (id, unit, step) = (member.key.id(), member.market.unit, self.number(member, t));
        let view = member.environment.view();
        let mut wanted = Vec::with_capacity(roots.len());
        for (i, (root, legal)) in roots.iter().zip(view.legal.chunks_exact(3)).enumerate() {
            let at = first + i;
            let legal = legal.iter().enumerate().fold(0u8, |bits, (a, legal)| bits | u8::from(*legal) << a);
            let improved: [f32; ACTIONS] = std::array::from_fn(|a| found.policy[at * ACTIONS + a]);
            let bits = philox(seed, [i as u32, step, Stream::Action as u32, id]);
            // What a position is worth must not stand for what the market was like when it was taken.
            let action = match uniform(bits[1]) < self.hypers.explored {
                true => any_legal(legal, bits[2]),
                false => drawn(&improved, uniform(bits[0])),
            };
            wanted.push(action as f64 - 1.0);
            self.changed += usize::from(found.chosen[at] != found.held[at]);
            self.worth += f64::from(found.value[at] / unit);
            self.courses[i].values.push(f64::from(found.value[at]));
            self.targets.push(Target {
                row: view.rows[i],
                observed: view.observed[i * OBSERVED..(i + 1) * OBSERVED].try_into().expect("an observation"),
                legal,
                policy: without(&improved, &member.market.prior_of(&root.known)),
                value: 0.0,
            });
        }
        member.environment.step(&wanted);
        for (i, course) in self.courses.iter_mut().enumerate() {
            let reward = member.environment.rewards()[i];
            self.grown += reward;
            course.rewards.push(reward);
            let truncated = member.environment.truncated()[i];
            course.ends.push((truncated || member.environment.terminated()[i]).then_some(0.0));
            if truncated {
                let (row, observed) = member.environment.last(i);
                self.cut.push((i, t as usize));
                self.asked.push((row, observed.try_into().expect("an observation")));
            }
        }
    }

    /// What a net can learn from all steps.
    pub(super) fn finish(
        mut self,
        expert: &Expert,
        member: &mut Member,
        evaluator: &mut UnitEvaluator,
    ) -> Result<Vec<Target>> {
        let Hypers { n_envs, search: shape, realised, .. } = self.hypers;
        let (n, unit, gamma) = (n_envs as usize, member.market.unit, expert.gamma);
        let view = member.environment.view();
        let last = view.rows.iter().zip(view.observed.chunks_exact(OBSERVED));
        self.asked.extend(last.map(|(row, observed)| (*row, observed.try_into().expect("an observation"))));
        let values = valued(expert, member.key.fold, evaluator, &self.asked)?;
        let (of_cut, of_last) = values.split_at(self.cut.len());
        let (courses, targets) = (&mut self.courses, &mut self.targets);
        self.cut.iter().zip(of_cut).for_each(|((i, t), value)| courses[*i].ends[*t] = Some(f64::from(*value)));
        courses.iter_mut().zip(of_last).for_each(|(course, value)| course.behind = f64::from(*value));
        for (i, course) in courses.iter().enumerate() {
            let returns = course.returns(shape.horizon as usize, f64::from(gamma));
            for (t, (earned, root)) in returns.iter().zip(&course.values).enumerate() {
                let share = f64::from(realised);
                let value = share * earned + (1.0 - share) * root;
                targets[t * n + i].value = (value / f64::from(unit)) as f32;
            }
        }
        let rows = targets.len() as f64;
        let (growth, changed, value) = (self.grown / rows, self.changed as f64 / rows, self.worth / rows);
        member.seen = Seen { growth, changed, value, ..Seen::default() };
        Ok(self.targets)
    }
}

/// What the last iteration saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Seen {
    /// Mean growth of equity in a step.
    pub(super) growth: f64,
    /// Share of roots at which the search would change the position.
    pub(super) changed: f64,
    /// Mean of what a root was worth to the search, in units of the market.
    pub(super) value: f64,
    pub(super) policy_loss: f64,
    pub(super) value_loss: f64,
    pub(super) entropy: f64,
    pub(super) norm: f64,
    pub(super) rate: f64,
}

/// Numbers of it in a snapshot.
pub(super) const SEEN: usize = 8;

impl Seen {
    pub(super) fn numbers(&self) -> [f64; SEEN] {
        let Seen { growth, changed, value, policy_loss, value_loss, entropy, norm, rate } = *self;
        [growth, changed, value, policy_loss, value_loss, entropy, norm, rate]
    }

    pub(super) fn of([growth, changed, value, policy_loss, value_loss, entropy, norm, rate]: [f64; SEEN]) -> Seen {
        Seen { growth, changed, value, policy_loss, value_loss, entropy, norm, rate }
    }
}

/// What is known at a row to an account that is shown this; rows within a horizon may not be drawn.
pub(super) fn known(expert: &Expert, member: &Member, row: u32, observed: &[f32], horizon: Option<u32>) -> InfoSet {
    let mut shown = Vec::new();
    observation(&expert.folds.problem.inputs, &expert.scalers[member.key.fold].scales, row, &mut shown);
    let excluded = horizon.map_or(0..0, |bars| expert.within(member.key.fold, row, bars));
    member.market.root(&expert.folds.data, row, shown, observed, excluded)
}

/// Values of rows that are asked for at once, behind a rollout.
const CHUNK: usize = 512;

/// Values of what is shown at rows, by the net alone.
fn valued(
    expert: &Expert,
    fold: usize,
    evaluator: &mut UnitEvaluator,
    asked: &[(u32, [f32; OBSERVED])],
) -> Result<Vec<f32>> {
    let mut values = Vec::with_capacity(asked.len());
    for part in asked.chunks(CHUNK) {
        let mut shown = Vec::new();
        for (row, observed) in part {
            observation(&expert.folds.problem.inputs, &expert.scalers[fold].scales, *row, &mut shown);
            shown.extend_from_slice(observed);
        }
        let (mut logits, mut own) = (vec![0.0; part.len() * ACTIONS], vec![0.0; part.len()]);
        evaluator.evaluate(&shown, &mut logits, &mut own)?;
        values.append(&mut own);
    }
    Ok(values)
}

/// The action that a policy takes where this was drawn, uniform in [0, 1).
fn drawn(policy: &[f32; ACTIONS], draw: f32) -> usize {
    let last = (0..ACTIONS).rev().find(|a| policy[*a] > 0.0).unwrap_or(1);
    let mut sum = 0.0;
    let first = (0..ACTIONS).find(|a| {
        sum += policy[*a];
        policy[*a] > 0.0 && draw < sum
    });
    first.unwrap_or(last)
}

/// One of the legal actions, each as likely.
fn any_legal(legal: u8, word: u32) -> usize {
    let number = below(word, legal.count_ones().max(1));
    (0..ACTIONS).filter(|action| legal >> action & 1 != 0).nth(number as usize).unwrap_or(1)
}

/// An improved policy without what a trend added: that guides a search, and is not learned, or it would be added again
/// in every iteration.
fn without(policy: &[f32; ACTIONS], prior: &[f32; ACTIONS]) -> [f32; ACTIONS] {
    let own: [f32; ACTIONS] = std::array::from_fn(|a| policy[a] * (-prior[a]).exp());
    let sum: f32 = own.iter().sum();
    own.map(|p| p / sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is learned is the improved policy of the same search whose root believed no trend.
    #[test]
    fn what_a_trend_added_is_not_learned() {
        let soft = |z: [f32; ACTIONS]| {
            let own = z.map(f32::exp);
            own.map(|p| p / own.iter().sum::<f32>())
        };
        let (own, prior) = ([0.3, -0.2, 1.1], [-0.75, 0.0, 0.75]);
        let improved = soft(std::array::from_fn(|a| own[a] + prior[a]));
        for (a, b) in without(&improved, &prior).into_iter().zip(soft(own)) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        // What is not legal stays at nothing.
        assert_eq!(without(&[0.0, 0.5, 0.5], &[-1.0, 0.0, 1.0])[0], 0.0);
    }

    #[test]
    fn any_action_is_a_legal_one() {
        for legal in 1..8u8 {
            let mut seen = [0; ACTIONS];
            (0..300u32).for_each(|i| seen[any_legal(legal, philox(1, [i, 0, 0, 0])[0])] += 1);
            let share = 300 / legal.count_ones();
            for (action, count) in seen.into_iter().enumerate() {
                match legal >> action & 1 != 0 {
                    true => assert!(count > share / 2 && count < 2 * share + 1, "{legal} {seen:?}"),
                    false => assert_eq!(count, 0, "{legal} {seen:?}"),
                }
            }
        }
    }
}
