//! Rollouts: blocks of accounts that act, and what was seen.
//!
//! On a processor a block takes all its steps on one thread, policy and account in turn, without waiting for others.

use super::loss::{log_density, normal, softmax};
use super::maths::{exp, tanh};
use super::reward::{Reward, RewardState};
use super::training::Member;
use super::{Actions, Ended, Hypers, Ppo, memory};
use compute::random::{Stream, normals, philox, uniform};
use market::{Environment, EpisodeData, OBSERVED, STATE};
use std::ops::Range;
use std::sync::Arc;

/// Accounts of a block, at most.
const LARGEST: u32 = 64;
/// And at least, where there are as many.
const SMALLEST: u32 = 16;

/// Bytes of a step of an account in a rollout, on a line of its own, and in the order of an epoch.
pub(super) const BLOCK_BYTES: u64 = (4 + 4 * OBSERVED as u64 + 1 + 1 + 6 * 4) + 64 + (4 + 4 * OBSERVED as u64 + 6 * 4);

/// Numbers of accounts of a member, block by block: whatever the number of threads.
pub(super) fn block_sizes(accounts: u32) -> Vec<Range<u32>> {
    let size = accounts.div_ceil(4).next_multiple_of(8).clamp(SMALLEST, LARGEST);
    (0..accounts).step_by(size as usize).map(|first| first..accounts.min(first + size)).collect()
}

/// A member's accounts, in blocks.
pub(super) fn member_blocks(ppo: &Ppo, member: &Member) -> Vec<Block> {
    let Member { key, hypers, .. } = member;
    let seed = ppo.spec.configs[key.config].recipe.seed ^ u64::from(key.id()) << 32;
    let state = memory::state_of(&ppo.spec.configs[key.config].net);
    let block = |accounts| Block::new(&ppo.folds.data, &ppo.folds.train[key.fold], accounts, hypers, seed, state);
    block_sizes(hypers.n_envs).into_iter().map(block).collect()
}

/// A draw of an action: a function of these and the account's number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub(super) seed: u64,
    pub(super) member: u32,
    pub(super) step: u32,
}

/// Some accounts of one member, and what they saw in the last rollout.
pub(super) struct Block {
    pub(super) accounts: Range<u32>,
    pub(super) environment: Environment,
    /// `[n]` discounted sum of rewards, for their scale.
    pub(super) carried: Vec<f64>,
    /// `[n]` what rewards remember.
    pub(super) remembered: Vec<RewardState>,
    pub(super) reward: Reward,
    /// Growth of equity in the steps of the last rollout, summed up.
    pub(super) grown: f64,
    pub(super) rollout: Rollout,
    /// `[n, state]` what a net remembers of each account; empty where it remembers nothing.
    pub(super) memory: Vec<f32>,
    targets: Vec<f64>,
}

/// What was seen, `[steps, n]`.
#[derive(Debug, Clone, Default)]
pub(super) struct Rollout {
    pub(super) rows: Vec<u32>,
    pub(super) observed: Vec<f32>, // [steps, n, OBSERVED]
    pub(super) legal: Vec<u8>,
    pub(super) action: Vec<f32>,
    pub(super) log_probability: Vec<f32>,
    pub(super) value: Vec<f32>,
    pub(super) reward: Vec<f32>,
    pub(super) ended: Vec<Ended>,
    /// Values of last observations of episodes that were cut off; 0 elsewhere.
    pub(super) cut: Vec<f32>,
    /// `[n]` values behind the last step.
    pub(super) last: Vec<f32>,
    pub(super) advantage: Vec<f32>,
    /// Where episodes were cut off, with the row and observation there.
    waiting: Vec<(usize, u32, [f32; OBSERVED])>,
    /// `[waiting, state]` what the net remembered there.
    waiting_memory: Vec<f32>,
    /// `[n, state]` what it remembered before the first step.
    pub(super) began: Vec<f32>,
}

impl Block {
    pub(super) fn new(
        data: &Arc<EpisodeData>,
        stretches: &[Range<u32>],
        accounts: Range<u32>,
        hypers: &Hypers,
        seed: u64,
        state: usize,
    ) -> Block {
        let n = accounts.len();
        let environment = Environment::new(data, stretches, accounts.clone(), hypers.episode, seed);
        Block {
            accounts,
            environment,
            carried: vec![0.0; n],
            remembered: vec![RewardState::default(); n],
            reward: hypers.reward,
            grown: 0.0,
            rollout: Rollout::default(),
            memory: vec![0.0; n * state],
            targets: vec![0.0; n],
        }
    }

    /// Accounts.
    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Forgets the last rollout.
    pub(super) fn begin(&mut self) {
        self.grown = 0.0;
        let r = &mut self.rollout;
        r.rows.clear();
        r.observed.clear();
        r.legal.clear();
        r.action.clear();
        r.log_probability.clear();
        r.value.clear();
        r.reward.clear();
        r.ended.clear();
        r.cut.clear();
        r.waiting.clear();
        r.waiting_memory.clear();
        r.began.clone_from(&self.memory);
    }

    /// Acts on the outputs `[n, outputs]` for what is shown now, the value behind the policy, and steps.
    pub(super) fn step(&mut self, actions: Actions, out: &[f32], draw: Draw) {
        let state = self.memory.len() / self.targets.len();
        let (wide, r, view) = (actions.outputs() + 1, &mut self.rollout, self.environment.view());
        r.rows.extend_from_slice(view.rows);
        r.observed.extend_from_slice(view.observed);
        for (i, (z, legal)) in out.chunks_exact(wide).zip(view.legal.chunks_exact(3)).enumerate() {
            let legal = legal.iter().enumerate().fold(0, |bits, (a, legal)| bits | u8::from(*legal) << a);
            let account = self.accounts.start + i as u32;
            let bits = philox(draw.seed, [account, draw.step, Stream::Action as u32, draw.member]);
            let (action, log_probability, target) = sample(actions, z, legal, bits);
            r.legal.push(legal);
            r.action.push(action);
            r.log_probability.push(log_probability);
            r.value.push(z[wide - 1]);
            self.targets[i] = target;
        }
        self.environment.step(&self.targets);
        for i in 0..self.targets.len() {
            let ended = match (self.environment.terminated()[i], self.environment.truncated()[i]) {
                (true, _) => Ended::Terminated,
                (_, true) => Ended::Truncated,
                _ => Ended::Not,
            };
            if ended == Ended::Truncated {
                let (row, observed) = self.environment.last(i);
                let observed = observed.try_into().expect("an observation");
                r.waiting.push((r.ended.len(), row, observed));
                r.waiting_memory.extend_from_slice(&self.memory[i * state..(i + 1) * state]);
            }
            let growth = self.environment.rewards()[i];
            self.grown += growth;
            r.reward.push(self.reward.step(&mut self.remembered[i], growth) as f32);
            if ended != Ended::Not {
                self.remembered[i] = RewardState::default();
                // The next episode begins in the same step, and knows nothing of this one.
                self.memory[i * state..(i + 1) * state].fill(0.0);
            }
            r.ended.push(ended);
            r.cut.push(0.0);
        }
    }

    /// Rows and observations whose values are still needed once all steps are taken.
    pub(super) fn unvalued(&self) -> (Vec<u32>, Vec<f32>) {
        let view = self.environment.view();
        let waiting = self.rollout.waiting.iter();
        let rows = view.rows.iter().copied().chain(waiting.clone().map(|(_, row, _)| *row)).collect();
        let observed = view.observed.iter().copied().chain(waiting.flat_map(|(.., observed)| *observed)).collect();
        (rows, observed)
    }

    /// What the net remembers at those, in that order.
    pub(super) fn unvalued_memory(&self) -> Vec<f32> {
        [&*self.memory, &*self.rollout.waiting_memory].concat()
    }

    /// Takes them, in that order.
    pub(super) fn value(&mut self, values: &[f32]) {
        let (last, cut) = values.split_at(self.targets.len());
        let r = &mut self.rollout;
        r.last = last.to_vec();
        for ((at, ..), value) in r.waiting.iter().zip(cut) {
            r.cut[*at] = *value;
        }
    }

    /// Numbers of [`state`](Block::state).
    pub(super) fn numbers(&self) -> usize {
        self.len() * (3 + STATE) + self.memory.len()
    }

    /// All that lasts from one rollout to the next: `3 + STATE` numbers of each account, and what is remembered of it.
    pub(super) fn state(&self) -> Vec<f64> {
        let remembered: Vec<f64> = self.remembered.iter().flat_map(|state| state.0).collect();
        let memory: Vec<f64> = self.memory.iter().map(|x| f64::from(*x)).collect();
        [self.carried.clone(), remembered, memory, self.environment.state()].concat()
    }

    /// Sets it; false where it is no such state.
    pub(super) fn restore(&mut self, state: &[f64]) -> bool {
        let (carried, state) = state.split_at(self.len());
        let (remembered, state) = state.split_at(2 * self.len());
        self.carried.copy_from_slice(carried);
        for (own, kept) in self.remembered.iter_mut().zip(remembered.chunks_exact(2)) {
            own.0 = [kept[0], kept[1]];
        }
        let (memory, state) = state.split_at(self.memory.len());
        self.memory.iter_mut().zip(memory).for_each(|(own, kept)| *own = *kept as f32);
        self.environment.restore(state)
    }
}

/// An action, the logarithm of its probability, and the target it means.
fn sample(actions: Actions, z: &[f32], legal: u8, bits: [u32; 4]) -> (f32, f32, f64) {
    match actions {
        Actions::Discrete => {
            let (p, log) = softmax(z, legal);
            let drawn = uniform(bits[0]);
            let last = (0..3).rev().find(|a| p[*a] > 0.0).unwrap_or(1);
            let mut sum = 0.0;
            let first = (0..3).find(|a| {
                sum += p[*a];
                p[*a] > 0.0 && drawn < sum
            });
            let action = first.unwrap_or(last);
            (action as f32, log[action], action as f64 - 1.0)
        }
        Actions::Continuous => {
            let (mean, log_deviation, _) = normal(z);
            let u = normals(bits)[0].mul_add(exp(log_deviation), mean);
            (u, log_density(z, u), continuous_target(u, legal))
        }
    }
}

/// What a continuous action means where not everything is legal.
pub(crate) fn continuous_target(u: f32, legal: u8) -> f64 {
    let target = f64::from(tanh(u));
    match (legal & 1 == 1, legal & 4 == 4) {
        (true, true) => target,
        (false, true) => target.max(0.0),
        (true, false) => target.min(0.0),
        (false, false) => 0.0,
    }
}

/// The target that a policy prefers: the most probable action, or the middle of a continuous one.
pub(super) fn greedy(actions: Actions, z: &[f32], legal: u8) -> f64 {
    match actions {
        Actions::Discrete => preferred(&softmax(z, legal).0),
        Actions::Continuous => continuous_target(normal(z).0, legal),
    }
}

/// The target of the most probable of short, flat and long; flat where it is as probable as another.
pub(crate) fn preferred(p: &[f32; 3]) -> f64 {
    let mut best = 1;
    for a in [0, 2] {
        if p[a] > p[best] {
            best = a;
        }
    }
    best as f64 - 1.0
}
