//! Policies while they train: collect, estimate advantages, update.

use super::advantage::advantages;
use super::collect::{Block, Draw, block_sizes};
use super::entropy::Multipliers;
use super::loss::{LossSums, Taken, Terms, policy_loss, value_loss};
use super::walk::{Walk, mean_growth};
use super::{Ended, Hypers, Ppo};
use crate::{DeviceBudget, Learner, MemberKey, Metrics, Progress, Score, Snapshot, Training};
use compute::nets::{Batch, Forward, Hyper, Nets, Rows};
use compute::population::{Pins, Scale};
use compute::random::Permutation;
use compute::{Error, Net, Opened, Result, Tables};
use market::{OBSERVED, STATE};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::Arc;

/// Values of rows that are asked for at once, behind a rollout.
const CHUNK: usize = 256;

/// Policies of one group.
pub(super) struct PpoTraining {
    ppo: Ppo,
    tables: Arc<Tables>,
    nets: Nets,
    net: Net,
    shape: Hypers,
    batch: usize,
    seed: u64,
    members: Vec<Member>,
    every: u32,
    updates: u32,
    /// None on a card, where passes are the card's.
    threads: Option<ThreadPool>,
    memory: u64,
}

/// A policy.
struct Member {
    key: MemberKey,
    hypers: Hypers,
    scales: Vec<Option<Scale>>,
    blocks: Vec<Block>,
    /// Memory for passes on a processor, a block each.
    passes: Vec<Forward>,
    unit: u32,
    step: u32,
    active: bool,
    due: bool,
    fault: Option<String>,
    multipliers: Multipliers,
    returns: ReturnScale,
    seen: Seen,
}

/// The running deviation of discounted returns, by which rewards are divided.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ReturnScale {
    count: f64,
    mean: f64,
    squares: f64,
}

impl ReturnScale {
    /// Takes more returns in (Chan, Golub and LeVeque 1979).
    fn add(&mut self, count: f64, mean: f64, squares: f64) {
        let (all, apart) = (self.count + count, mean - self.mean);
        self.squares += squares + apart * apart * self.count * count / all;
        self.mean += apart * count / all;
        self.count = all;
    }

    fn deviation(&self) -> f64 {
        let variance = if self.count > 1.0 { self.squares / self.count } else { 1.0 };
        if variance > 0.0 { variance.sqrt() } else { 1.0 }
    }
}

/// What the last update saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    losses: LossSums,
    /// Mean growth of equity in a step.
    growth: f64,
    /// How much of the returns' variance the values explain.
    explained: f64,
    norm: f64,
    rate: f64,
}

impl PpoTraining {
    pub(super) fn new(
        ppo: &Ppo,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        keys: &[MemberKey],
        pins: &Pins,
    ) -> Result<PpoTraining> {
        let (config, shape) = ppo.shared(keys);
        let (net, recipe, shape) = (config.net.clone(), config.recipe, *shape);
        let (setup, setups) = (ppo.setup(keys), ppo.member_setups(keys));
        let nets = Nets::new(&at.device, at.budget, &net, tables, &setup, &setups, pins)?;
        let threads = match &at.device {
            Opened::Cpu { threads } => {
                let made = ThreadPoolBuilder::new().num_threads(*threads).build();
                Some(made.map_err(|e| Error::Invalid(format!("threads could not be started: {e}")))?)
            }
            Opened::Cuda(_) => None,
        };
        let member = |key: &MemberKey| -> Result<Member> {
            let hypers = ppo.spec.hypers[key.config];
            let seed = recipe.seed ^ u64::from(key.id()) << 32;
            let block = |accounts| Block::new(&ppo.folds.data, &ppo.folds.train[key.fold], accounts, &hypers, seed);
            let blocks: Vec<Block> = block_sizes(hypers.n_envs).into_iter().map(block).collect();
            let pass = |block: &Block| Forward::new(&net, recipe.precision, block.len().max(CHUNK));
            let passes = if threads.is_some() { blocks.iter().map(pass).collect::<Result<_>>()? } else { Vec::new() };
            Ok(Member {
                key: *key,
                hypers,
                scales: ppo.scales(key.fold),
                blocks,
                passes,
                unit: 0,
                step: 0,
                active: true,
                due: false,
                fault: None,
                multipliers: Multipliers::default(),
                returns: ReturnScale::default(),
                seen: Seen::default(),
            })
        };
        let members = keys.iter().map(member).collect::<Result<Vec<_>>>()?;
        Ok(PpoTraining {
            memory: ppo.needs(&at.device, keys, compute::population::Pace::default())?,
            every: ppo.validate_every(&shape),
            updates: ppo.spec.updates,
            ppo: ppo.clone(),
            tables: Arc::clone(tables),
            nets,
            net,
            batch: recipe.batch,
            seed: recipe.seed,
            shape,
            members,
            threads,
        })
    }

    fn member(&mut self, id: u32) -> Result<(usize, &mut Member)> {
        let found = self.members.iter_mut().enumerate().find(|(_, m)| m.key.id() == id);
        found.ok_or_else(|| Error::Invalid(format!("there is no member {id} in this group")))
    }

    /// Every active member's accounts take their steps.
    fn collect(&mut self) -> Result<()> {
        let (actions, steps, seed) = (self.shape.actions, self.shape.n_steps, self.seed);
        let Some(threads) = &self.threads else { return self.collect_on_card() };
        let params = (0..self.members.len()).map(|at| self.nets.params(at)).collect::<Result<Vec<_>>>()?;
        let tables = &*self.tables;
        let tasks = self.members.iter_mut().zip(&params).filter(|(m, _)| m.active).flat_map(|(member, params)| {
            let Member { key, unit, scales, blocks, passes, .. } = member;
            let (id, from, scales) = (key.id(), unit.wrapping_mul(steps), &*scales);
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

    /// The same with passes on the card, all members and accounts in one.
    fn collect_on_card(&mut self) -> Result<()> {
        let (actions, steps, seed) = (self.shape.actions, self.shape.n_steps, self.seed);
        let accounts = self.shape.n_envs as usize;
        self.members.iter_mut().flat_map(|m| &mut m.blocks).for_each(Block::begin);
        for t in 0..steps {
            let (mut ids, mut extras) = (Vec::new(), Vec::new());
            for block in self.members.iter().flat_map(|m| &m.blocks) {
                ids.extend_from_slice(block.environment.view().rows);
                extras.extend_from_slice(block.environment.view().observed);
            }
            let out = self.outputs(0..self.members.len(), accounts, &ids, &extras)?;
            let wide = actions.outputs() + 1;
            for (member, out) in self.members.iter_mut().zip(out.chunks_exact(accounts * wide)) {
                let step = member.unit.wrapping_mul(steps).wrapping_add(t);
                let draw = Draw { seed, member: member.key.id(), step };
                for block in &mut member.blocks {
                    let own = block.accounts.start as usize * wide..block.accounts.end as usize * wide;
                    block.step(actions, &out[own], draw);
                }
            }
        }
        for at in 0..self.members.len() {
            for number in 0..self.members[at].blocks.len() {
                let (ids, observed) = self.members[at].blocks[number].unvalued();
                let out = self.outputs(at..at + 1, ids.len(), &ids, &observed)?;
                let wide = actions.outputs() + 1;
                let values: Vec<f32> = out.chunks_exact(wide).map(|z| z[wide - 1]).collect();
                self.members[at].blocks[number].value(&values);
            }
        }
        Ok(())
    }

    /// `[members, rows, outputs]` of rows of some members, policy and value side by side.
    fn outputs(
        &mut self,
        members: std::ops::Range<usize>,
        rows: usize,
        ids: &[u32],
        extras: &[f32],
    ) -> Result<Vec<f32>> {
        let mut out = [Vec::new(), Vec::new()];
        self.nets.forward(members, Batch { rows, ids, extras }, &mut out)?;
        let wide = self.shape.actions.outputs();
        let rows = out[0].chunks_exact(wide).zip(&out[1]);
        Ok(rows.flat_map(|(z, value)| z.iter().copied().chain([*value])).collect())
    }

    /// Scales the rewards of what was seen, and estimates advantages.
    fn estimate(&mut self) {
        for member in self.members.iter_mut().filter(|m| m.active) {
            let Hypers { gamma, gae_lambda, .. } = member.hypers;
            // Discounted returns, with what earlier rollouts left.
            let (mut returns, mut grown) = (Vec::new(), 0.0);
            for block in &mut member.blocks {
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
            for block in &mut member.blocks {
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
    fn update(&mut self) -> Result<()> {
        let Hypers { n_envs, n_steps, n_epochs, actions, .. } = self.shape;
        let all = n_envs * n_steps;
        let per_epoch = (all as usize).div_ceil(self.batch);
        let total = self.updates * n_epochs * per_epoch as u32;
        let mut goes: Vec<bool> = self.members.iter().map(|m| m.active).collect();
        let wide = actions.outputs();
        let (mut ids, mut extras) = (Vec::new(), Vec::new());
        let mut out = [Vec::new(), Vec::new()];
        let configs = self.ppo.spec.configs.clone();
        for epoch in 0..n_epochs {
            let order = |m: &Member| Permutation::new(all, self.seed, m.key.id(), m.unit * n_epochs + epoch);
            let orders: Vec<Permutation> = self.members.iter().map(order).collect();
            for first in (0..all).step_by(self.batch) {
                if goes.iter().all(|goes| !goes) {
                    return Ok(());
                }
                let rows = (self.batch as u32).min(all - first);
                ids.clear();
                extras.clear();
                for (member, order) in self.members.iter().zip(&orders) {
                    for at in first..first + rows {
                        let (block, at) = member.place(order.at(at), n_envs);
                        ids.push(block.rollout.rows.get(at).copied().unwrap_or(block.environment.view().rows[0]));
                        match block.rollout.observed.get(at * OBSERVED..(at + 1) * OBSERVED) {
                            Some(observed) => extras.extend_from_slice(observed),
                            None => extras.extend_from_slice(&[0.0; OBSERVED]),
                        }
                    }
                }
                let batch = Batch { rows: rows as usize, ids: &ids, extras: &extras };
                self.nets.forward(0..self.members.len(), batch, &mut out)?;
                let mut d_out = [vec![0.0; out[0].len()], vec![0.0; out[1].len()]];
                let [d_policy, d_value] = &mut d_out;
                let rows = rows as usize;
                let mut heads = d_policy.chunks_exact_mut(rows * wide).zip(d_value.chunks_exact_mut(rows));
                let tasks = self.members.iter().zip(&orders).enumerate().map(|(at, (member, order))| {
                    let (d_z, d_value) = heads.next().expect("gradients of each member");
                    let z = &out[0][at * rows * wide..(at + 1) * rows * wide];
                    let value = &out[1][at * rows..(at + 1) * rows];
                    let places = (first..first + rows as u32).map(|i| member.place(order.at(i), n_envs)).collect();
                    Minibatch { member, places, z, value, d_z, d_value, goes: goes[at] }
                });
                let tasks: Vec<Minibatch<'_>> = tasks.collect();
                let sums: Vec<LossSums> = match &self.threads {
                    Some(threads) => threads.install(|| tasks.into_par_iter().map(Minibatch::losses).collect()),
                    None => tasks.into_iter().map(Minibatch::losses).collect(),
                };
                for ((member, sums), goes) in self.members.iter_mut().zip(&sums).zip(&mut goes) {
                    member.seen.losses.add(sums);
                    let moved = sums.mean(sums.kl);
                    *goes &= member.hypers.target_kl.is_none_or(|most| moved <= 1.5 * f64::from(most));
                }
                if goes.iter().all(|goes| !goes) {
                    return Ok(());
                }
                self.nets.backward(&[&d_out[0], &d_out[1]])?;
                let hypers: Vec<Hyper> = (self.members.iter_mut())
                    .map(|member| {
                        let config = &configs[member.key.config];
                        let done = (member.unit * n_epochs + epoch) * per_epoch as u32 + first / self.batch as u32;
                        let rate = f64::from(config.rate) * config.recipe.schedule.factor(done + 1, total);
                        member.seen.rate = rate;
                        let o = &config.recipe.optimiser;
                        let (beta1, beta2, eps, decay, clip) = (o.beta1, o.beta2, o.eps, o.decay, o.clip);
                        Hyper { rate: rate as f32, beta1, beta2, eps, decay, clip, weight: 1.0 }
                    })
                    .collect();
                let norms = self.nets.optimise(&hypers, Some(&goes))?;
                for ((member, norm), goes) in self.members.iter_mut().zip(norms).zip(&mut goes) {
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

    /// `[pieces]` what a member makes of its validation, taking what it prefers.
    fn walk(&mut self, at: usize) -> Result<Vec<(f64, usize)>> {
        let (actions, folds) = (self.shape.actions, Arc::clone(&self.ppo.folds));
        let wide = actions.outputs() + 1;
        let pieces = &folds.valid[self.members[at].key.fold];
        let Some(threads) = &self.threads else {
            let mut walk = Walk::new(&folds.data, pieces);
            for _ in 0..walk.steps() {
                let (ids, observed) = walk.view();
                let out = self.outputs(at..at + 1, ids.len(), ids, observed)?;
                walk.step(actions, &out);
            }
            return Ok(walk.growth());
        };
        let params = self.nets.params(at)?;
        let (tables, net) = (&*self.tables, &self.net);
        let (scales, precision) = (&self.members[at].scales, self.ppo.spec.configs[0].recipe.precision);
        // Pieces that are as long as each other end together.
        let parts: Vec<_> = pieces.chunks(pieces.len().div_ceil(8).max(8)).collect();
        let grown = threads.install(|| {
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

impl Member {
    /// Where a step of the rollout lies: its block, and its place there. Steps are numbered time by time.
    fn place(&self, step: u32, accounts: u32) -> (&Block, usize) {
        let (t, account) = (step / accounts, step % accounts);
        let size = self.blocks[0].len() as u32;
        let block = &self.blocks[(account / size) as usize];
        (block, t as usize * block.len() + (account % size) as usize)
    }
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

impl Training for PpoTraining {
    fn memory(&self) -> u64 {
        self.memory
    }

    fn kernel_paths(&self) -> Vec<String> {
        Vec::new()
    }

    fn pins(&self) -> Pins {
        self.nets.pins()
    }

    fn progress(&self) -> Vec<Progress> {
        let rows = u64::from(self.shape.n_envs) * u64::from(self.shape.n_steps);
        let member = |m: &Member| Progress {
            id: m.key.id(),
            active: m.active,
            due: m.due,
            unit: m.unit,
            step: m.step,
            samples: rows * u64::from(m.unit),
            fault: m.fault.clone(),
        };
        self.members.iter().map(member).collect()
    }

    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>> {
        // A chunk ends with an update, where a state can be kept.
        let each = self.shape.n_epochs * (self.shape.n_envs * self.shape.n_steps).div_ceil(self.batch as u32);
        for _ in 0..at_most.div_ceil(each.max(1)) {
            if self.members.iter().any(|m| m.due) || self.members.iter().all(|m| !m.active) {
                break;
            }
            self.collect()?;
            self.estimate();
            self.update()?;
            for member in self.members.iter_mut().filter(|m| m.active) {
                let entropy = member.seen.losses.mean(member.seen.losses.entropy) as f32;
                member.multipliers = member.multipliers.next(member.hypers.entropy, entropy);
                member.unit += 1;
                member.due = member.unit.is_multiple_of(self.every) || member.unit >= self.updates;
            }
        }
        Ok(self.progress())
    }

    fn validate(&mut self) -> Result<Vec<Score>> {
        let due: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].due).collect();
        let mut scores = Vec::new();
        for at in due {
            let (growth, error) = mean_growth(&self.walk(at)?);
            let member = &mut self.members[at];
            member.due = false;
            let Seen { losses, growth: grown, explained, norm, rate } = member.seen;
            let metrics = Metrics::new(&[
                ("train_growth", 1e4 * grown),
                ("valid_growth", 1e4 * growth),
                ("valid_error", 1e4 * error),
                ("entropy", losses.mean(losses.entropy)),
                ("entropy_weight", f64::from(member.multipliers.weight)),
                ("approx_kl", losses.mean(losses.kl)),
                ("clip_fraction", losses.mean(losses.clipped)),
                ("policy_loss", losses.mean(losses.policy)),
                ("value_loss", losses.mean(losses.value)),
                ("explained_variance", explained),
                ("norm", norm),
                ("learning_rate", rate),
            ]);
            scores.push(Score {
                id: member.key.id(),
                unit: member.unit,
                step: member.step,
                score: 1e4 * growth,
                metrics,
            });
        }
        Ok(scores)
    }

    fn skip_validation(&mut self) -> Result<()> {
        self.members.iter_mut().for_each(|m| m.due = false);
        Ok(())
    }

    fn weights(&mut self, id: u32) -> Result<Vec<f32>> {
        let (at, _) = self.member(id)?;
        self.nets.params(at)
    }

    fn snapshot(&mut self, id: u32) -> Result<Snapshot> {
        let (at, _) = self.member(id)?;
        let weights = self.nets.params(at)?;
        let (mean, square, optimised) = self.nets.optimiser(at)?;
        let member = &self.members[at];
        let mut bytes = Vec::new();
        let flags = u32::from(member.active) | u32::from(member.due) << 1;
        [id, member.unit, member.step, optimised, flags].iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        let Multipliers { least, most, weight } = member.multipliers;
        [least, most, weight].iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        let ReturnScale { count, mean: returns, squares } = member.returns;
        let of_block = |block: &Block| {
            let remembered: Vec<f64> = block.remembered.iter().flat_map(|state| state.0).collect();
            [block.carried.clone(), remembered, block.environment.state()].concat()
        };
        let numbers = [count, returns, squares].into_iter().chain(member.blocks.iter().flat_map(of_block));
        numbers.for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        weights.iter().chain(&mean).chain(&square).for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        Ok(Snapshot { id, weights, bytes })
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let (at, member) = self.member(snapshot.id)?;
        let bad = || Error::Invalid("the snapshot of a policy is not of this run".into());
        let accounts: usize = member.blocks.iter().map(Block::len).sum();
        let (head, rest) = snapshot.bytes.split_at_checked(HEAD).ok_or_else(bad)?;
        let (state, arrays) = rest.split_at_checked(8 * (3 + accounts * (3 + STATE))).ok_or_else(bad)?;
        let word = |at: usize| u32::from_le_bytes(head[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let numbers: Vec<f64> =
            state.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().expect("eight bytes"))).collect();
        (member.unit, member.step) = (word(1), word(2));
        (member.active, member.due) = (word(4) & 1 == 1, word(4) & 2 == 2);
        member.multipliers = Multipliers {
            least: f32::from_bits(word(5)),
            most: f32::from_bits(word(6)),
            weight: f32::from_bits(word(7)),
        };
        member.returns = ReturnScale { count: numbers[0], mean: numbers[1], squares: numbers[2] };
        let mut rest = &numbers[3..];
        for block in &mut member.blocks {
            let (carried, after) = rest.split_at(block.len());
            let (remembered, after) = after.split_at(2 * block.len());
            let (state, after) = after.split_at(block.len() * STATE);
            block.carried.copy_from_slice(carried);
            for (own, kept) in block.remembered.iter_mut().zip(remembered.chunks_exact(2)) {
                own.0 = [kept[0], kept[1]];
            }
            if !block.environment.restore(state) {
                return Err(bad());
            }
            rest = after;
        }
        let params = snapshot.weights.len();
        let floats: Vec<f32> =
            arrays.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))).collect();
        if floats.len() != 3 * params {
            return Err(bad());
        }
        self.nets.set_params(at, &floats[..params])?;
        self.nets.set_optimiser(at, &floats[params..2 * params], &floats[2 * params..], word(3))
    }

    fn adopt(&mut self, from: u32, to: u32) -> Result<()> {
        let (from, source) = self.member(from)?;
        let (returns, multipliers) = (source.returns, source.multipliers);
        let (to, target) = self.member(to)?;
        (target.returns, target.multipliers) = (returns, multipliers);
        self.nets.adopt(from, to)
    }

    fn stop(&mut self, id: u32) -> Result<()> {
        let (_, member) = self.member(id)?;
        (member.active, member.due) = (false, false);
        Ok(())
    }
}

/// Bytes in front of a snapshot's numbers.
const HEAD: usize = 8 * 4;

/// A snapshot from its bytes: the weights are the first of its three arrays.
pub(super) fn read_snapshot(ppo: &Ppo, bytes: &[u8]) -> Result<Snapshot> {
    let short = || Error::Invalid("the snapshot of a policy is shorter than its net".into());
    let id = u32::from_le_bytes(bytes.get(..4).ok_or_else(short)?.try_into().expect("four bytes"));
    let configs = 0..ppo.spec.configs.len();
    let of = |config: &usize| MemberKey { config: config + 1, fold: 0, seed: 0 }.id() > id;
    let config = configs.clone().find(of).ok_or_else(short)?;
    let params = ppo.spec.configs[config].params()?;
    let from = bytes.len().checked_sub(12 * params).filter(|from| *from >= HEAD).ok_or_else(short)?;
    let weights = bytes[from..from + 4 * params].chunks_exact(4);
    let weights = weights.map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))).collect();
    Ok(Snapshot { id, weights, bytes: bytes.to_vec() })
}
