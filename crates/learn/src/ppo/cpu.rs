//! Policies on a processor: blocks of accounts on threads of their own.

use super::advantage::advantages;
use super::collect::{Block, Draw, block_sizes, member_blocks};
use super::loss::{LossSums, Taken, Terms};
use super::loss_simd::{Targets, losses};
use super::training::{Group, Member, Seen};
use super::walk::{Walker, walk_pieces};
use super::{Ended, Hypers, memory::Memory};
use compute::nets::{Batch, Forward, Hyper, Loss, Packed, Rows};
use compute::population::Precision;
use compute::random::Permutation;
use compute::{Error, Net, Result};
use market::OBSERVED;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values of rows that are asked for at once, behind a rollout.
const CHUNK: usize = 256;
/// Steps that are brought into an order without waking other threads: that takes as long.
const FEW: usize = 8 * 1024;

/// What members have on a processor.
pub(super) struct Cpu {
    threads: ThreadPool,
    /// `[members][blocks]` their accounts.
    pub(super) blocks: Vec<Vec<Block>>,
    way: Way,
}

/// How a net is gone through.
enum Way {
    /// Row by row, in any order: `[members][blocks]` memory for passes, and rollouts in the order of an epoch.
    Plain { passes: Vec<Vec<Forward>>, shuffled: Box<Shuffled> },
    /// Step by step, because it remembers.
    Memory(Box<Memory>),
}

/// Rows that go through the net of a block of so many accounts at once.
fn rows_of(accounts: usize) -> usize {
    accounts.max(CHUNK)
}

/// Bytes of the passes of a member that remembers nothing: each block has its own.
pub(super) fn passes_need(net: &Net, precision: Precision, n_envs: u32) -> Result<u64> {
    block_sizes(n_envs).iter().map(|block| Forward::need(net, precision, rows_of(block.len()))).sum()
}

impl Cpu {
    pub(super) fn new(group: &Group, members: &[Member], threads: usize) -> Result<Cpu> {
        let made = ThreadPoolBuilder::new().num_threads(threads).build();
        let threads = made.map_err(|e| Error::Invalid(format!("threads could not be started: {e}")))?;
        let blocks: Vec<Vec<Block>> = members.iter().map(|m| member_blocks(&group.ppo, m)).collect();
        let Hypers { n_envs, n_steps, .. } = group.shape;
        if group.net.has_memory() {
            let way = Way::Memory(Box::new(Memory::new(group, &blocks, threads.current_num_threads())?));
            return Ok(Cpu { threads, blocks, way });
        }
        let pass = |block: &Block| Forward::new(&group.net, group.precision, rows_of(block.len()));
        let passes = blocks.iter().map(|blocks| blocks.iter().map(pass).collect()).collect::<Result<_>>()?;
        let shuffled = Box::new(Shuffled::new(members.len(), (n_envs * n_steps) as usize, group.batch));
        Ok(Cpu { threads, blocks, way: Way::Plain { passes, shuffled } })
    }

    /// Collect, estimate advantages, update.
    pub(super) fn iterate(&mut self, group: &mut Group, members: &mut [Member]) -> Result<()> {
        let Cpu { threads, blocks, way } = self;
        match way {
            Way::Plain { passes, shuffled } => {
                collect(group, members, blocks, passes, threads)?;
                estimate(members, blocks);
                update(group, members, blocks, shuffled, threads)
            }
            Way::Memory(memory) => {
                memory.collect(group, members, blocks, threads)?;
                estimate(members, blocks);
                memory.update(group, members, blocks, threads)
            }
        }
    }

    /// An update from what blocks have already seen.
    #[cfg(test)]
    pub(super) fn update(&mut self, group: &mut Group, members: &mut [Member]) -> Result<()> {
        let Cpu { threads, blocks, way } = self;
        match way {
            Way::Plain { shuffled, .. } => update(group, members, blocks, shuffled, threads),
            Way::Memory(memory) => memory.update(group, members, blocks, threads),
        }
    }

    /// `[pieces]` what a member makes of its validation, taking what it prefers, in the precision that it is deployed
    /// in.
    pub(super) fn walk(&self, group: &mut Group, member: &Member, at: usize) -> Result<Vec<(f64, usize)>> {
        let (params, folds) = (group.nets.params(at)?, &group.ppo.folds);
        let walker = Walker {
            net: &group.net,
            params: &params,
            precision: Precision::F32,
            tables: &group.tables,
            scales: &member.scales,
            actions: group.shape.actions,
        };
        self.threads.install(|| walk_pieces(walker, &folds.data, &folds.valid[member.key.fold]))
    }
}

/// Every active member's accounts take their steps.
fn collect(
    group: &mut Group,
    members: &[Member],
    blocks: &mut [Vec<Block>],
    passes: &mut [Vec<Forward>],
    threads: &ThreadPool,
) -> Result<()> {
    let (actions, steps, seed) = (group.shape.actions, group.shape.n_steps, group.seed);
    let tables = &*group.tables;
    let packed = |(at, passes): (usize, &Vec<Forward>)| passes[0].pack(&group.nets.params(at)?);
    let packed = passes.iter().enumerate().map(packed).collect::<Result<Vec<Packed>>>()?;
    let of_members = members.iter().zip(&packed).zip(blocks.iter_mut().zip(passes));
    let tasks = of_members.filter(|((m, _), _)| m.active).flat_map(|((member, packed), (blocks, passes))| {
        let (id, from, scales) = (member.key.id(), member.unit.wrapping_mul(steps), &member.scales);
        blocks.iter_mut().zip(passes).map(move |(block, pass)| (block, pass, packed, scales, id, from))
    });
    let tasks: Vec<_> = tasks.collect();
    threads.install(|| {
        tasks.into_par_iter().try_for_each(|(block, pass, packed, scales, member, from)| {
            let mut net = pass.with_packed(packed)?;
            let wide = actions.outputs() + 1;
            let mut out = vec![0.0; rows_of(block.len()) * wide];
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

/// Scales the rewards of what was seen, and estimates advantages.
fn estimate(members: &mut [Member], blocks: &mut [Vec<Block>]) {
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
fn update(
    group: &mut Group,
    members: &mut [Member],
    blocks: &[Vec<Block>],
    shuffled: &mut Shuffled,
    threads: &ThreadPool,
) -> Result<()> {
    let Hypers { n_envs, n_steps, n_epochs, .. } = group.shape;
    let all = (n_envs * n_steps) as usize;
    let hypers: Vec<Hyper> = members.iter().map(|member| group.hyper(member)).collect();
    members.iter_mut().zip(&hypers).for_each(|(member, hyper)| member.seen.rate = f64::from(hyper.rate));
    let mut goes: Vec<bool> = members.iter().map(|m| m.active).collect();
    let threads = Some(threads).filter(|_| shuffled.steps.len() > FEW);
    shuffled.take(blocks, &goes, threads);
    for epoch in 0..n_epochs {
        if goes.iter().all(|goes| !goes) {
            break;
        }
        let order = |m: &Member| Permutation::new(all as u32, group.seed, m.key.id(), m.unit * n_epochs + epoch);
        let orders: Vec<Permutation> = members.iter().map(order).collect();
        shuffled.fill(&orders, &goes, threads);
        let descents: Vec<Mutex<Descent>> = members.iter().map(|_| Mutex::default()).collect();
        let losses = MemberLosses { members, shuffled, descents: &descents };
        let batch = Batch { rows: all, ids: &shuffled.ids, extras: &shuffled.observed };
        group.nets.descend(batch, group.batch, &hypers, &goes, &losses)?;
        for ((member, descent), goes) in members.iter_mut().zip(descents).zip(&mut goes) {
            let descent = descent.into_inner().unwrap_or_else(PoisonError::into_inner);
            member.seen.losses.add(&descent.sums);
            member.step += descent.steps;
            if let Some(norm) = descent.norm {
                member.seen.norm = f64::from(norm);
                if !norm.is_finite() {
                    member.fault = Some(format!("the gradient is not finite in update {}", member.unit + 1));
                    member.active = false;
                }
            }
            *goes &= !descent.ended;
        }
    }
    Ok(())
}

/// A step of a rollout as an epoch reads it: on one cache line, because an epoch reads steps in any order.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Step {
    observed: [f32; OBSERVED],
    row: u32,
    legal: u8,
    action: f32,
    log_probability: f32,
    advantage: f32,
    value: f32,
}

/// Rollouts of all members in the order of an epoch, `[members, steps]`.
struct Shuffled {
    all: usize,
    /// Rows of a minibatch.
    batch: usize,
    /// `[members, steps]` as they were taken, time by time and account by account.
    steps: Vec<Step>,
    ids: Vec<u32>,
    observed: Vec<f32>, // [members, steps, OBSERVED]
    taken: Vec<Taken>,
    values: Vec<Targets>,
    /// `[members, minibatches]` what is taken off the advantages, and what they are multiplied with.
    norms: Vec<[f32; 2]>,
}

impl Shuffled {
    fn new(members: usize, all: usize, batch: usize) -> Shuffled {
        let taken = Taken { action: 0.0, legal: 7, log_probability: 0.0, advantage: 0.0 };
        let n = members * all;
        Shuffled {
            all,
            batch,
            steps: vec![Step::default(); n],
            ids: vec![0; n],
            observed: vec![0.0; n * OBSERVED],
            taken: vec![taken; n],
            values: vec![Targets::default(); n],
            norms: vec![[0.0, 1.0]; members * all.div_ceil(batch)],
        }
    }

    /// Takes the steps of members that go from their blocks. A member that does not go gets any row that there is.
    fn take(&mut self, blocks: &[Vec<Block>], goes: &[bool], threads: Option<&ThreadPool>) {
        for ((steps, blocks), goes) in self.steps.chunks_mut(self.all).zip(blocks).zip(goes) {
            let accounts: usize = blocks.iter().map(Block::len).sum();
            let row = blocks[0].environment.view().rows[0];
            on_each(threads, steps.chunks_mut(accounts).enumerate().collect(), |(t, steps)| {
                if !goes {
                    return steps.fill(Step { row, ..Step::default() });
                }
                let of_block = |block| (0..Block::len(block)).map(move |i| (&block.rollout, t * block.len() + i));
                for (step, (r, at)) in steps.iter_mut().zip(blocks.iter().flat_map(of_block)) {
                    let observed = &r.observed[at * OBSERVED..(at + 1) * OBSERVED];
                    step.observed.copy_from_slice(observed);
                    (step.row, step.legal, step.action) = (r.rows[at], r.legal[at], r.action[at]);
                    (step.log_probability, step.advantage, step.value) =
                        (r.log_probability[at], r.advantage[at], r.value[at]);
                }
            });
        }
    }

    /// Brings the steps into an order, minibatch by minibatch.
    fn fill(&mut self, orders: &[Permutation], goes: &[bool], threads: Option<&ThreadPool>) {
        let Shuffled { all, batch, steps, ids, observed, taken, values, norms } = self;
        let (all, batch) = (*all, *batch);
        let members = ids.chunks_mut(all).zip(observed.chunks_mut(all * OBSERVED)).zip(taken.chunks_mut(all));
        let members = members.zip(values.chunks_mut(all)).zip(norms.chunks_mut(all.div_ceil(batch)));
        let minibatches: Vec<_> = members
            .zip(steps.chunks(all).zip(orders).zip(goes))
            .flat_map(|(((((ids, observed), taken), values), norms), ((steps, order), goes))| {
                let parts =
                    ids.chunks_mut(batch).zip(observed.chunks_mut(batch * OBSERVED)).zip(taken.chunks_mut(batch));
                let parts = parts.zip(values.chunks_mut(batch)).zip(norms).enumerate();
                parts.map(move |(number, part)| (number, part, steps, order, *goes))
            })
            .collect();
        on_each(threads, minibatches, |(number, part, steps, order, goes)| {
            let ((((ids, observed), taken), values), norm) = part;
            if !goes {
                return ids.fill(steps[0].row);
            }
            let mut moments = Moments::default();
            order.fill((number * batch) as u32, ids);
            let rows = ids.iter_mut().zip(observed.chunks_exact_mut(OBSERVED)).zip(taken.iter_mut().zip(values));
            for ((id, observed), (taken, value)) in rows {
                let step = &steps[*id as usize];
                let Step { row, legal, action, log_probability, advantage, .. } = *step;
                *id = row;
                observed.copy_from_slice(&step.observed);
                *taken = Taken { action, legal, log_probability, advantage };
                *value = Targets { old: step.value, wanted: advantage + step.value };
                moments.add(f64::from(advantage));
            }
            let scale = 1.0 / (moments.sample_variance().sqrt() + 1e-8);
            *norm = if ids.len() > 1 { [moments.mean() as f32, scale as f32] } else { [0.0, 1.0] };
        });
    }
}

/// Does something with each, on threads if there are any.
fn on_each<T: Send>(threads: Option<&ThreadPool>, all: Vec<T>, f: impl Fn(T) + Send + Sync) {
    match threads {
        Some(threads) => threads.install(|| all.into_par_iter().for_each(f)),
        None => all.into_iter().for_each(f),
    }
}

/// What a member did in an epoch.
#[derive(Default)]
struct Descent {
    /// Of the minibatch under way: where its pieces begin, and their sums.
    pieces: Vec<(usize, LossSums)>,
    sums: LossSums,
    steps: u32,
    norm: Option<f32>,
    ended: bool,
}

/// The losses of all members.
struct MemberLosses<'a> {
    members: &'a [Member],
    shuffled: &'a Shuffled,
    descents: &'a [Mutex<Descent>],
}

impl MemberLosses<'_> {
    fn descent(&self, member: usize) -> MutexGuard<'_, Descent> {
        self.descents[member].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loss for MemberLosses<'_> {
    fn losses(&self, member: usize, minibatch: usize, rows: Range<usize>, out: &[Vec<f32>], d_out: &mut [Vec<f32>]) {
        let Member { hypers, multipliers, .. } = &self.members[member];
        let Shuffled { all, batch, taken, values, norms, .. } = self.shuffled;
        let first = minibatch * batch;
        let terms = Terms {
            actions: hypers.actions,
            clip: hypers.clip,
            entropy_weight: multipliers.weight,
            value_weight: hypers.vf_coef,
            rows: (*batch).min(all - first) as f32,
        };
        let [shift, scale] = match hypers.normalize_advantage {
            true => norms[member * all.div_ceil(*batch) + minibatch],
            false => [0.0, 1.0],
        };
        let own = member * all + first + rows.start..member * all + first + rows.end;
        let mut sums = LossSums::default();
        let (d_policy, d_value) = d_out.split_at_mut(1);
        let policy = (&*out[0], &mut *d_policy[0], &taken[own.clone()]);
        losses(&terms, [shift, scale], policy, (&out[1], &mut d_value[0], &values[own]), &mut sums);
        self.descent(member).pieces.push((rows.start, sums));
    }

    fn goes(&self, member: usize, _: usize) -> bool {
        let mut descent = self.descent(member);
        // Pieces come in any order, and are added in one.
        descent.pieces.sort_unstable_by_key(|piece| piece.0);
        let mut sums = LossSums::default();
        descent.pieces.drain(..).for_each(|piece| sums.add(&piece.1));
        descent.sums.add(&sums);
        let moved = sums.mean(sums.kl);
        // A divergence that is no number is too far as well.
        let near = |most: f32| moved <= 1.5 * f64::from(most);
        descent.ended = !self.members[member].hypers.target_kl.is_none_or(near);
        !descent.ended
    }

    fn stepped(&self, member: usize, _: usize, norm: f32) -> bool {
        let mut descent = self.descent(member);
        descent.steps += 1;
        descent.norm = Some(norm);
        descent.ended = !norm.is_finite();
        !descent.ended
    }
}

/// Count, sum and squares of numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    pub(super) fn add(&mut self, x: f64) {
        self.count += 1.0;
        self.sum += x;
        self.squares += x * x;
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn variance(&self) -> f64 {
        (self.squares / self.count.max(1.0) - self.mean() * self.mean()).max(0.0)
    }

    pub(super) fn sample_variance(&self) -> f64 {
        self.variance() * self.count / (self.count - 1.0).max(1.0)
    }
}
