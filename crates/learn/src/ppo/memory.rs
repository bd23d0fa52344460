//! Policies that remember, on a processor: LSTM layers whose state is carried from step to step of an account. The twin
//! on a card is `cuda/recurrent.rs`.
//!
//! A state begins as zeros with every episode, in the step in which the one before it ended, and goes on from one
//! rollout to the next. A minibatch is some accounts with all their steps: it starts from the states that were kept
//! before the first step of the rollout, goes through time with the weights of now, and back, and no gradient passes
//! where an episode began. What is cut off is valued with what was remembered when it was.
//!
//! Blocks of accounts, and parts of minibatches, are of fixed sizes and are added in order, so threads change no bit.

use super::collect::{Block, Draw};
use super::cpu::Moments;
use super::loss::{LossSums, Taken, Terms};
use super::loss_simd::{Targets, losses};
use super::training::{Group, Member};
use super::{Ended, Hypers};
use compute::nets::{Hyper, Rows, SequenceGradient, Sequences, Stepper};
use compute::random::Permutation;
use compute::{Net, Result, Tables};
use market::OBSERVED;
use rayon::ThreadPool;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Values of rows that are asked for at once.
const CHUNK: usize = 64;

/// Numbers that a net remembers of an account; none of one without LSTM layers in its towers.
pub(super) fn state_of(net: &Net) -> usize {
    let padded = |units: &usize| units.next_multiple_of(compute::net::UNITS);
    2 * net.towers.iter().flat_map(|tower| &tower.recurrent).map(padded).sum::<usize>()
}

/// Accounts of a minibatch: as many as come nearest to its rows.
pub(super) fn accounts_of(hypers: &Hypers, batch: usize) -> usize {
    let steps = hypers.n_steps as usize;
    ((batch + steps / 2) / steps).clamp(1, hypers.n_envs as usize)
}

/// Accounts that go through a net together: a quarter of a minibatch, within limits.
fn part_of(accounts: usize) -> usize {
    accounts.div_ceil(4).next_multiple_of(8).min(SequenceGradient::MOST).min(accounts)
}

/// Bytes that members take beside their nets and rollouts.
pub(super) fn need(net: &Net, hypers: &Hypers, batch: usize, members: usize, threads: usize) -> Result<u64> {
    let accounts = accounts_of(hypers, batch);
    let part = part_of(accounts);
    let params = 4 * compute::net::Layout::new(net)?.params as u64;
    let each = SequenceGradient::need(net, part, hypers.n_steps as usize)? + 8 * params;
    let rows = (accounts * hypers.n_steps as usize) as u64 * 4 * (OBSERVED as u64 + 8);
    let parts = accounts.div_ceil(part) as u64;
    let states = 2 * u64::from(hypers.n_envs) * 4 * state_of(net) as u64;
    Ok(threads as u64 * (each + rows) + members as u64 * ((parts + 1) * params + states))
}

/// What threads work with.
pub(super) struct Memory {
    /// `[threads]`
    workers: Vec<Mutex<Worker>>,
    /// `[members, parts, params]` gradients of a minibatch.
    gradients: Vec<f32>,
    /// `[members][accounts]` block, and place in it.
    places: Vec<Vec<(usize, usize)>>,
    /// Accounts of a minibatch.
    accounts: usize,
}

struct Worker {
    stepper: Stepper,
    gradient: SequenceGradient,
}

/// Accounts of a member's minibatch that go through its net together.
struct Part<'a> {
    member: usize,
    accounts: Vec<u32>,
    /// What is taken off advantages, and what they are multiplied with.
    norm: [f32; 2],
    /// Rows of the minibatch.
    rows: usize,
    gradient: &'a mut [f32],
}

impl Memory {
    pub(super) fn new(group: &Group, blocks: &[Vec<Block>], threads: usize) -> Result<Memory> {
        let accounts = accounts_of(&group.shape, group.batch);
        let part = part_of(accounts);
        let rows = blocks.iter().flatten().map(Block::len).max().unwrap_or(1).max(CHUNK);
        let worker = |_| {
            Ok(Mutex::new(Worker {
                stepper: Stepper::new(&group.net, group.precision, rows)?,
                gradient: SequenceGradient::new(&group.net, group.precision, part, group.shape.n_steps as usize)?,
            }))
        };
        let of_member = |blocks: &Vec<Block>| {
            blocks.iter().enumerate().flat_map(|(b, block)| (0..block.len()).map(move |i| (b, i))).collect()
        };
        Ok(Memory {
            workers: (0..threads).map(worker).collect::<Result<_>>()?,
            gradients: Vec::new(),
            places: blocks.iter().map(of_member).collect(),
            accounts,
        })
    }

    /// Works with this thread's memory.
    fn with<T>(&self, f: impl FnOnce(&mut Worker) -> Result<T>) -> Result<T> {
        let thread = rayon::current_thread_index().unwrap_or(0);
        f(&mut self.workers[thread].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every active member's accounts take their steps.
    pub(super) fn collect(
        &self,
        group: &mut Group,
        members: &[Member],
        blocks: &mut [Vec<Block>],
        threads: &ThreadPool,
    ) -> Result<()> {
        let (actions, steps, seed) = (group.shape.actions, group.shape.n_steps, group.seed);
        let params = (0..members.len()).map(|at| group.nets.params(at)).collect::<Result<Vec<_>>>()?;
        let tables = &*group.tables;
        let active = members.iter().zip(&params).zip(blocks).filter(|((member, _), _)| member.active);
        let tasks: Vec<_> = active.flat_map(|(of, blocks)| blocks.iter_mut().map(move |block| (of, block))).collect();
        threads.install(|| {
            tasks.into_par_iter().try_for_each(|((member, params), block)| {
                self.with(|Worker { stepper, .. }| {
                    let (scales, from) = (&*member.scales, member.unit.wrapping_mul(steps));
                    stepper.take(params)?;
                    let wide = stepper.outputs();
                    let mut out = vec![0.0; block.len() * wide];
                    block.begin();
                    for t in 0..steps {
                        let Block { environment, memory, .. } = &mut *block;
                        let view = environment.view();
                        let rows = Rows { tables, scales, ids: view.rows, extras: view.observed };
                        stepper.step(rows, memory, &mut out)?;
                        let draw = Draw { seed, member: member.key.id(), step: from.wrapping_add(t) };
                        block.step(actions, &out, draw);
                    }
                    let ((ids, observed), mut states) = (block.unvalued(), block.unvalued_memory());
                    let mut out = vec![0.0; ids.len() * wide];
                    stepper.step(Rows { tables, scales, ids: &ids, extras: &observed }, &mut states, &mut out)?;
                    let values: Vec<f32> = out.chunks_exact(wide).map(|z| z[wide - 1]).collect();
                    block.value(&values);
                    Ok(())
                })
            })
        })
    }

    /// Goes through what was seen, accounts in an order of their own in each epoch.
    pub(super) fn update(
        &mut self,
        group: &mut Group,
        members: &mut [Member],
        blocks: &[Vec<Block>],
        threads: &ThreadPool,
    ) -> Result<()> {
        let Hypers { n_envs, n_epochs, n_steps, .. } = group.shape;
        let hypers: Vec<Hyper> = members.iter().map(|member| group.hyper(member)).collect();
        members.iter_mut().zip(&hypers).for_each(|(member, hyper)| member.seen.rate = f64::from(hyper.rate));
        let mut goes: Vec<bool> = members.iter().map(|member| member.active).collect();
        let mut gradients = std::mem::take(&mut self.gradients);
        for epoch in 0..n_epochs {
            let order = |m: &Member| {
                let order = Permutation::new(n_envs, group.seed, m.key.id(), m.unit * n_epochs + epoch);
                let mut accounts = vec![0; n_envs as usize];
                order.fill(0, &mut accounts);
                accounts
            };
            let orders: Vec<Vec<u32>> = members.iter().map(order).collect();
            for first in (0..n_envs as usize).step_by(self.accounts) {
                if goes.iter().all(|goes| !goes) {
                    break;
                }
                let minibatch = first..(first + self.accounts).min(n_envs as usize);
                let rows = minibatch.len() * n_steps as usize;
                let seen = self.descend(group, members, blocks, &orders, minibatch, &goes, &mut gradients, threads)?;
                for ((member, sums), goes) in members.iter_mut().zip(&seen).zip(&mut goes) {
                    member.seen.losses.add(sums);
                    let moved = sums.mean(sums.kl);
                    // A divergence that is no number is too far as well.
                    *goes &= member.hypers.target_kl.is_none_or(|most| moved <= 1.5 * f64::from(most));
                }
                debug_assert!(seen.iter().zip(&goes).all(|(sums, goes)| !goes || sums.rows as usize == rows));
                let norms = group.nets.optimise_parts(&gradients, &hypers, Some(&goes))?;
                let each = members.iter_mut().zip(norms).zip(&mut goes);
                for ((member, norm), goes) in each.filter(|(_, goes)| **goes) {
                    member.seen.norm = f64::from(norm);
                    member.step += u32::from(norm.is_finite());
                    if !norm.is_finite() {
                        member.fault = Some(format!("the gradient is not finite in update {}", member.unit + 1));
                        (member.active, *goes) = (false, false);
                    }
                }
            }
        }
        self.gradients = gradients;
        Ok(())
    }

    /// `[members]` the losses of a minibatch; its gradients are written in parts.
    #[expect(clippy::too_many_arguments, reason = "whose minibatch, of which accounts, and where to")]
    fn descend(
        &self,
        group: &mut Group,
        members: &[Member],
        blocks: &[Vec<Block>],
        orders: &[Vec<u32>],
        minibatch: Range<usize>,
        goes: &[bool],
        gradients: &mut Vec<f32>,
        threads: &ThreadPool,
    ) -> Result<Vec<LossSums>> {
        let params = (0..members.len()).map(|at| group.nets.params(at)).collect::<Result<Vec<_>>>()?;
        let size = group.nets.layout().params;
        let part = part_of(self.accounts);
        let parts = minibatch.len().div_ceil(part);
        gradients.resize(members.len() * parts * size, 0.0);
        let of_members = gradients.chunks_mut(parts * size).enumerate().filter(|(member, _)| goes[*member]);
        let tasks = of_members.flat_map(|(member, gradients)| {
            let own = &orders[member][minibatch.clone()];
            let norm = match members[member].hypers.normalize_advantage {
                true => self.norm(&blocks[member], member, own),
                false => [0.0, 1.0],
            };
            let rows = minibatch.len() * group.shape.n_steps as usize;
            own.chunks(part).zip(gradients.chunks_mut(size)).map(move |(accounts, gradient)| Part {
                member,
                accounts: accounts.to_vec(),
                norm,
                rows,
                gradient,
            })
        });
        let tasks: Vec<Part<'_>> = tasks.collect();
        let tables = &*group.tables;
        let done = |task: Part<'_>| {
            let own = task.member;
            let sums = self.with(|worker| {
                worker.gradient.take(&params[own])?;
                self.part(task, &members[own], &blocks[own], tables, worker)
            });
            sums.map(|sums| (own, sums))
        };
        let done = threads.install(|| tasks.into_par_iter().map(done).collect::<Result<Vec<_>>>())?;
        let mut all = vec![LossSums::default(); members.len()];
        done.iter().for_each(|(member, sums)| all[*member].add(sums));
        Ok(all)
    }

    /// What brings the advantages of some accounts to mean 0 and deviation 1.
    fn norm(&self, blocks: &[Block], member: usize, accounts: &[u32]) -> [f32; 2] {
        let mut moments = Moments::default();
        for account in accounts {
            let (block, i) = self.places[member][*account as usize];
            let (n, advantage) = (blocks[block].len(), &blocks[block].rollout.advantage);
            advantage.iter().skip(i).step_by(n).for_each(|x| moments.add(f64::from(*x)));
        }
        [moments.mean() as f32, (1.0 / (moments.sample_variance().sqrt() + 1e-8)) as f32]
    }

    /// The losses of some accounts' steps, and their gradient.
    fn part(
        &self,
        task: Part<'_>,
        member: &Member,
        blocks: &[Block],
        tables: &Tables,
        worker: &mut Worker,
    ) -> Result<LossSums> {
        let Member { hypers, multipliers, scales, .. } = member;
        let n = task.accounts.len();
        let places: Vec<(usize, usize)> =
            task.accounts.iter().map(|account| self.places[task.member][*account as usize]).collect();
        let all = hypers.n_steps as usize * n;
        let (mut ids, mut observed, mut reset) = (Vec::with_capacity(all), Vec::with_capacity(all * OBSERVED), vec![]);
        let (mut taken, mut values) = (Vec::with_capacity(all), Vec::with_capacity(all));
        for t in 0..hypers.n_steps as usize {
            for (block, i) in &places {
                let (r, wide) = (&blocks[*block].rollout, blocks[*block].len());
                let at = t * wide + i;
                ids.push(r.rows[at]);
                observed.extend_from_slice(&r.observed[at * OBSERVED..(at + 1) * OBSERVED]);
                reset.push(u8::from(t > 0 && r.ended[at - wide] != Ended::Not));
                taken.push(Taken {
                    action: r.action[at],
                    legal: r.legal[at],
                    log_probability: r.log_probability[at],
                    advantage: r.advantage[at],
                });
                values.push(Targets { old: r.value[at], wanted: r.advantage[at] + r.value[at] });
            }
        }
        let state = worker.gradient.state();
        let began = |(block, i): &(usize, usize)| &blocks[*block].rollout.began[i * state..(i + 1) * state];
        let begin: Vec<f32> = places.iter().flat_map(began).copied().collect();
        let terms = Terms {
            actions: hypers.actions,
            clip: hypers.clip,
            entropy_weight: multipliers.weight,
            value_weight: hypers.vf_coef,
            rows: task.rows as f32,
        };
        let mut sums = LossSums::default();
        let mut loss = |own: Range<usize>, out: &[Vec<f32>], d_out: &mut [Vec<f32>]| {
            let (d_policy, d_value) = d_out.split_at_mut(1);
            let policy = (&*out[0], &mut *d_policy[0], &taken[own.clone()]);
            losses(&terms, task.norm, policy, (&out[1], &mut d_value[0], &values[own]), &mut sums);
        };
        let rows = Rows { tables, scales, ids: &ids, extras: &observed };
        worker.gradient.gradient(Sequences { rows, begin: &begin, reset: &reset }, &mut loss, task.gradient)?;
        Ok(sums)
    }
}
