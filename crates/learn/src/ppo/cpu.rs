//! Policies on a processor: blocks of accounts on threads of their own.

use super::advantage::advantages;
use super::collect::{Block, Draw, member_blocks};
use super::loss::{LossSums, Taken, Terms, policy_loss, value_loss};
use super::training::{Group, Member, Seen};
use super::walk::Walk;
use super::{Ended, Hypers};
use compute::nets::{Batch, Forward, Hyper, Rows};
use compute::random::Permutation;
use compute::{Error, Result};
use market::OBSERVED;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Values of rows that are asked for at once, behind a rollout.
const CHUNK: usize = 256;

/// What members have on a processor.
pub(super) struct Cpu {
    threads: ThreadPool,
    /// `[members][blocks]` their accounts.
    pub(super) blocks: Vec<Vec<Block>>,
    /// `[members][blocks]` memory for passes.
    passes: Vec<Vec<Forward>>,
}

impl Cpu {
    pub(super) fn new(group: &Group, members: &[Member], threads: usize) -> Result<Cpu> {
        let made = ThreadPoolBuilder::new().num_threads(threads).build();
        let threads = made.map_err(|e| Error::Invalid(format!("threads could not be started: {e}")))?;
        let blocks: Vec<Vec<Block>> = members.iter().map(|m| member_blocks(&group.ppo, m)).collect();
        let pass = |block: &Block| Forward::new(&group.net, group.precision, block.len().max(CHUNK));
        let passes = blocks.iter().map(|blocks| blocks.iter().map(pass).collect()).collect::<Result<_>>()?;
        Ok(Cpu { threads, blocks, passes })
    }

    /// Collect, estimate advantages, update.
    pub(super) fn iterate(&mut self, group: &mut Group, members: &mut [Member]) -> Result<()> {
        self.collect(group, members)?;
        estimate(members, &mut self.blocks);
        update(group, members, &self.blocks, Some(&self.threads))
    }

    /// Every active member's accounts take their steps.
    fn collect(&mut self, group: &mut Group, members: &[Member]) -> Result<()> {
        let (actions, steps, seed) = (group.shape.actions, group.shape.n_steps, group.seed);
        let params = (0..members.len()).map(|at| group.nets.params(at)).collect::<Result<Vec<_>>>()?;
        let tables = &*group.tables;
        let Cpu { threads, blocks, passes } = self;
        let of_members = members.iter().zip(&params).zip(blocks.iter_mut().zip(passes));
        let tasks = of_members.filter(|((m, _), _)| m.active).flat_map(|((member, params), (blocks, passes))| {
            let (id, from, scales) = (member.key.id(), member.unit.wrapping_mul(steps), &member.scales);
            blocks.iter_mut().zip(passes).map(move |(block, pass)| (block, pass, params, scales, id, from))
        });
        let tasks: Vec<_> = tasks.collect();
        threads.install(|| {
            tasks.into_par_iter().try_for_each(|(block, pass, params, scales, member, from)| {
                let mut net = pass.with(params)?;
                let wide = actions.outputs() + 1;
                let mut out = vec![0.0; block.len().max(CHUNK) * wide];
                block.begin();
                for t in 0..steps {
                    let view = block.environment.view();
                    let rows = Rows { tables, scales, ids: view.rows, extras: view.observed };
                    let out = &mut out[..block.len() * wide];
                    net.run(rows, out)?;
                    block.step(actions, out, Draw { seed, member, step: from.wrapping_add(t) });
                }
                let (ids, observed) = block.unvalued();
                let mut values = Vec::with_capacity(ids.len());
                for (ids, extras) in ids.chunks(CHUNK).zip(observed.chunks(CHUNK * OBSERVED)) {
                    let out = &mut out[..ids.len() * wide];
                    net.run(Rows { tables, scales, ids, extras }, out)?;
                    values.extend(out.chunks_exact(wide).map(|z| z[wide - 1]));
                }
                block.value(&values);
                Ok(())
            })
        })
    }

    /// `[pieces]` what a member makes of its validation, taking what it prefers.
    pub(super) fn walk(&self, group: &mut Group, member: &Member, at: usize) -> Result<Vec<(f64, usize)>> {
        let (actions, folds) = (group.shape.actions, &group.ppo.folds);
        let wide = actions.outputs() + 1;
        let pieces = &folds.valid[member.key.fold];
        let params = group.nets.params(at)?;
        let (tables, net) = (&*group.tables, &group.net);
        let (scales, precision) = (&member.scales, group.precision);
        // Pieces that are as long as each other end together.
        let parts: Vec<_> = pieces.chunks(pieces.len().div_ceil(8).max(8)).collect();
        let grown = self.threads.install(|| {
            let part = |pieces: &&[std::ops::Range<u32>]| -> Result<Vec<(f64, usize)>> {
                let mut walk = Walk::new(&folds.data, pieces);
                let mut pass = Forward::new(net, precision, pieces.len())?;
                let mut ready = pass.with(&params)?;
                let mut out = vec![0.0; pieces.len() * wide];
                for _ in 0..walk.steps() {
                    let (ids, extras) = walk.view();
                    ready.run(Rows { tables, scales, ids, extras }, &mut out)?;
                    walk.step(actions, &out);
                }
                Ok(walk.growth())
            };
            parts.par_iter().map(part).collect::<Result<Vec<_>>>()
        })?;
        Ok(grown.concat())
    }
}

/// Scales the rewards of what was seen, and estimates advantages.
pub(super) fn estimate(members: &mut [Member], blocks: &mut [Vec<Block>]) {
    for (member, blocks) in members.iter_mut().zip(blocks).filter(|(m, _)| m.active) {
        let Hypers { gamma, gae_lambda, .. } = member.hypers;
        // Discounted returns, with what earlier rollouts left.
        let (mut returns, mut grown) = (Vec::new(), 0.0);
        for block in blocks.iter_mut() {
            let n = block.len();
            grown += block.grown;
            for (at, (reward, ended)) in block.rollout.reward.iter().zip(&block.rollout.ended).enumerate() {
                let carried = &mut block.carried[at % n];
                *carried = f64::from(gamma).mul_add(*carried, f64::from(*reward));
                returns.push(*carried);
                if *ended != Ended::Not {
                    *carried = 0.0;
                }
            }
        }
        let count = returns.len() as f64;
        let mean = returns.iter().sum::<f64>() / count;
        let squares = returns.iter().map(|x| (x - mean) * (x - mean)).sum();
        member.returns.add(count, mean, squares);
        member.seen = Seen { growth: grown / count, ..Seen::default() };
        let scale = (1.0 / (member.returns.deviation() + 1e-8)) as f32;
        let (mut wanted, mut errors) = (Moments::default(), Moments::default());
        for block in blocks.iter_mut() {
            let r = &mut block.rollout;
            // An extreme reward is cut at ten deviations, as usual.
            r.reward.iter_mut().for_each(|reward| *reward = (*reward * scale).clamp(-10.0, 10.0));
            r.advantage = advantages(&r.reward, &r.value, &r.ended, &r.cut, &r.last, [gamma, gae_lambda]);
            for (advantage, value) in r.advantage.iter().zip(&r.value) {
                wanted.add(f64::from(advantage + value));
                errors.add(f64::from(*advantage));
            }
        }
        member.seen.explained = 1.0 - errors.variance() / wanted.variance().max(1e-12);
    }
}

/// Goes through what was seen.
pub(super) fn update(
    group: &mut Group,
    members: &mut [Member],
    blocks: &[Vec<Block>],
    threads: Option<&ThreadPool>,
) -> Result<()> {
    let Hypers { n_envs, n_steps, n_epochs, actions, .. } = group.shape;
    let all = n_envs * n_steps;
    let hypers: Vec<Hyper> = members.iter().map(|member| group.hyper(member)).collect();
    members.iter_mut().zip(&hypers).for_each(|(member, hyper)| member.seen.rate = f64::from(hyper.rate));
    let mut goes: Vec<bool> = members.iter().map(|m| m.active).collect();
    let wide = actions.outputs();
    let (mut ids, mut extras) = (Vec::new(), Vec::new());
    let mut out = [Vec::new(), Vec::new()];
    for epoch in 0..n_epochs {
        let order = |m: &Member| Permutation::new(all, group.seed, m.key.id(), m.unit * n_epochs + epoch);
        let orders: Vec<Permutation> = members.iter().map(order).collect();
        for first in (0..all).step_by(group.batch) {
            if goes.iter().all(|goes| !goes) {
                return Ok(());
            }
            let rows = (group.batch as u32).min(all - first);
            ids.clear();
            extras.clear();
            for (blocks, order) in blocks.iter().zip(&orders) {
                for at in first..first + rows {
                    let (block, at) = place(blocks, order.at(at), n_envs);
                    ids.push(block.rollout.rows.get(at).copied().unwrap_or(block.environment.view().rows[0]));
                    match block.rollout.observed.get(at * OBSERVED..(at + 1) * OBSERVED) {
                        Some(observed) => extras.extend_from_slice(observed),
                        None => extras.extend_from_slice(&[0.0; OBSERVED]),
                    }
                }
            }
            let batch = Batch { rows: rows as usize, ids: &ids, extras: &extras };
            group.nets.forward(0..members.len(), batch, &mut out)?;
            let mut d_out = [vec![0.0; out[0].len()], vec![0.0; out[1].len()]];
            let [d_policy, d_value] = &mut d_out;
            let rows = rows as usize;
            let mut heads = d_policy.chunks_exact_mut(rows * wide).zip(d_value.chunks_exact_mut(rows));
            let tasks = members.iter().zip(blocks).zip(&orders).enumerate().map(|(at, ((member, blocks), order))| {
                let (d_z, d_value) = heads.next().expect("gradients of each member");
                let z = &out[0][at * rows * wide..(at + 1) * rows * wide];
                let value = &out[1][at * rows..(at + 1) * rows];
                let places = (first..first + rows as u32).map(|i| place(blocks, order.at(i), n_envs)).collect();
                Minibatch { member, places, z, value, d_z, d_value, goes: goes[at] }
            });
            let tasks: Vec<Minibatch<'_>> = tasks.collect();
            let sums: Vec<LossSums> = match threads {
                Some(threads) => threads.install(|| tasks.into_par_iter().map(Minibatch::losses).collect()),
                None => tasks.into_iter().map(Minibatch::losses).collect(),
            };
            for ((member, sums), goes) in members.iter_mut().zip(&sums).zip(&mut goes) {
                member.seen.losses.add(sums);
                let moved = sums.mean(sums.kl);
                *goes &= member.hypers.target_kl.is_none_or(|most| moved <= 1.5 * f64::from(most));
            }
            if goes.iter().all(|goes| !goes) {
                return Ok(());
            }
            group.nets.backward(&[&d_out[0], &d_out[1]])?;
            let norms = group.nets.optimise(&hypers, Some(&goes))?;
            for ((member, norm), goes) in members.iter_mut().zip(norms).zip(&mut goes) {
                if *goes {
                    member.step += 1;
                    member.seen.norm = f64::from(norm);
                    if !norm.is_finite() {
                        member.fault = Some(format!("the gradient is not finite in update {}", member.unit + 1));
                        (*goes, member.active) = (false, false);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Where a step of a member's rollout lies: its block, and its place there. Steps are numbered time by time.
fn place(blocks: &[Block], step: u32, accounts: u32) -> (&Block, usize) {
    let (t, account) = (step / accounts, step % accounts);
    let size = blocks[0].len() as u32;
    let block = &blocks[(account / size) as usize];
    (block, t as usize * block.len() + (account % size) as usize)
}

/// A member's part of a step: outputs of its rows, and the gradients at them.
struct Minibatch<'a> {
    member: &'a Member,
    places: Vec<(&'a Block, usize)>,
    z: &'a [f32],
    value: &'a [f32],
    d_z: &'a mut [f32],
    d_value: &'a mut [f32],
    goes: bool,
}

impl Minibatch<'_> {
    /// Writes the gradients; sums of the losses.
    fn losses(self) -> LossSums {
        let Minibatch { member: Member { hypers, multipliers, .. }, places, z, value, d_z, d_value, goes } = self;
        let mut sums = LossSums::default();
        if !goes {
            return sums;
        }
        let mut moments = Moments::default();
        places.iter().for_each(|(block, at)| moments.add(f64::from(block.rollout.advantage[*at])));
        let (shift, scale) = match hypers.normalize_advantage && places.len() > 1 {
            true => (moments.mean() as f32, (1.0 / (moments.sample_variance().sqrt() + 1e-8)) as f32),
            false => (0.0, 1.0),
        };
        let terms = Terms {
            actions: hypers.actions,
            clip: hypers.clip,
            entropy_weight: multipliers.weight,
            value_weight: hypers.vf_coef,
            rows: places.len() as f32,
        };
        let wide = hypers.actions.outputs();
        for (row, (block, at)) in places.into_iter().enumerate() {
            let r = &block.rollout;
            let taken = Taken {
                action: r.action[at],
                legal: r.legal[at],
                log_probability: r.log_probability[at],
                advantage: (r.advantage[at] - shift) * scale,
            };
            let own = row * wide..(row + 1) * wide;
            policy_loss(&terms, &z[own.clone()], &taken, &mut d_z[own], &mut sums);
            let wanted = r.advantage[at] + r.value[at];
            d_value[row] = value_loss(&terms, value[row], r.value[at], wanted, &mut sums);
        }
        sums
    }
}

/// Count, sum and squares of numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, x: f64) {
        self.count += 1.0;
        self.sum += x;
        self.squares += x * x;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn variance(&self) -> f64 {
        (self.squares / self.count.max(1.0) - self.mean() * self.mean()).max(0.0)
    }

    fn sample_variance(&self) -> f64 {
        self.variance() * self.count / (self.count - 1.0).max(1.0)
    }
}
