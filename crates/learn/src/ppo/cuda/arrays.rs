//! What lies on a card beside nets: accounts, rollouts, sums; and how it gets there and back.

use super::super::collect::block_sizes;
use super::super::training::{Group, Member, ReturnScale};
use super::super::{Actions, Hypers, Ppo, Reward, memory};
use super::arguments::{Decide, EpisodeTable, Members, Rollout, Standing, Walkers};
use super::{heads, passes, small};
use crate::MemberKey;
use crate::policies::Folds;
use account::{Account, Bar, Params};
use compute::cuda::{Array, Context, Plain, Slab, Stream};
use compute::{Error, Result};
use market::{Environment, OBSERVED, STATE, count_starts};
use std::ops::Range;
use std::sync::{Arc, PoisonError};

/// Numbers of an account on the card: all but what it paid.
const HELD: usize = 12;
/// Sums of an update, as `ppo.cu` has them.
pub(super) const TOTALS: usize = 9;
/// What is read behind an update: those, the scale of rewards, whether it still goes, the last norm.
pub(super) const REPORT: usize = TOTALS + 5;
/// Rows of a minibatch whose moments one block adds up.
pub(super) const SLICE: usize = 4096;
/// Arrays in the slab, at most: each begins on a border of 256 bytes.
const ARRAYS: usize = 80;

/// How much there is of everything.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) p: usize,
    pub(super) n: usize,
    pub(super) t: usize,
    /// Rows of an account whose value is needed behind a rollout.
    pub(super) later: usize,
    /// Pieces of a validation, at most.
    pub(super) pieces: usize,
    pub(super) walk_steps: usize,
    pub(super) outputs: usize,
    /// Rows of a minibatch.
    pub(super) batch: usize,
    /// Accounts of a minibatch, where it is all steps of some accounts; else 0.
    pub(super) accounts: usize,
    pub(super) epochs: usize,
    /// Minibatches of an epoch.
    pub(super) per_epoch: usize,
    /// Minibatches of an update.
    pub(super) minibatches: usize,
    /// Parts of a minibatch's losses.
    pub(super) loss_blocks: usize,
    /// Parts of a minibatch's gradient where one kernel makes it, else 0.
    pub(super) slices: usize,
    /// Numbers of the table as nets see it, where it is kept.
    pub(super) scaled: usize,
    /// Whether the policy acts alone, and values come behind the rollout in passes of the whole net.
    values_behind: bool,
    params: usize,
    features: usize,
}

impl Sizes {
    pub(super) fn new(context: &Context, ppo: &Ppo, keys: &[MemberKey]) -> Result<Sizes> {
        let (config, shape) = ppo.shared(keys);
        let (n, t) = (shape.n_envs as usize, shape.n_steps as usize);
        // A policy that remembers goes through whole accounts.
        let accounts = if config.net.has_memory() { memory::accounts_of(shape, config.recipe.batch) } else { 0 };
        let batch = if accounts > 0 { accounts * t } else { config.recipe.batch };
        let per_epoch = (n * t).div_ceil(batch);
        let minibatches = per_epoch * shape.n_epochs as usize;
        let folds = || keys.iter().map(|key| key.fold);
        let steps = |stretch: &Range<u32>| (stretch.len() - 1).min(shape.episode as usize);
        let shortest = folds().flat_map(|fold| ppo.folds.train[fold].iter().map(steps)).min().unwrap_or(1).max(1);
        let small = small::fits(context, ppo, keys);
        let slices = small.map_or(0, |shape| shape.slices(batch).0);
        Ok(Sizes {
            p: keys.len(),
            n,
            t,
            // The first may be cut off at once, each later one lasts.
            later: 2 + (t - 1) / shortest,
            pieces: folds().map(|fold| ppo.folds.valid[fold].len()).max().unwrap_or(0),
            walk_steps: folds().flat_map(|f| ppo.folds.valid[f].iter().map(|p| p.len() - 1)).max().unwrap_or(0),
            outputs: shape.actions.outputs(),
            batch,
            accounts,
            epochs: shape.n_epochs as usize,
            per_epoch,
            minibatches,
            loss_blocks: match heads::slice(&config.net, config.recipe.precision, batch) {
                _ if slices > 0 => slices,
                Some(rows) => batch.div_ceil(rows),
                None => batch.div_ceil(256),
            },
            slices,
            scaled: small.map_or(0, |shape| shape.scaled(ppo, keys)),
            values_behind: slices == 0 && passes::policy_alone(&config.net, n * t, batch).is_some(),
            params: config.params()?,
            features: config.net.inputs[0].features,
        })
    }

    /// Places of all epochs' orders: of steps, or of accounts.
    fn order(&self) -> usize {
        self.p * self.epochs * self.n * if self.accounts > 0 { 1 } else { self.t }
    }

    /// Bytes of everything, borders included.
    pub(super) fn bytes(&self) -> u64 {
        let Sizes { p, n, t, later, pieces, outputs, batch, minibatches, loss_blocks, slices, .. } = *self;
        let (accounts, rows, walkers) = (p * n, p * t * n, p * pieces);
        let doubles = accounts * (HELD + 2 + 1 + 1)
            + 4 * p * n.div_ceil(32)
            + 2 * walkers * (HELD + 1)
            + p * (3 + TOTALS + REPORT + 6 * loss_blocks)
            + 2 * p * minibatches * batch.div_ceil(SLICE)
            + p;
        let words = accounts * (4 + OBSERVED + 1 + later * (2 + OBSERVED))
            + rows * (1 + OBSERVED + 5)
            + self.order()
            + 2 * walkers * (4 + OBSERVED)
            + p * (2 * minibatches + 24);
        let of_path = if slices > 0 {
            p * (slices + 1) * self.params + 2 * p * self.features + self.scaled.div_ceil(2) + p
        } else if self.accounts > 0 {
            // They have a slab of their own.
            0
        } else {
            // Rows, places and outputs with their gradients; outputs of accounts, of later rows and of walkers.
            p * batch * (2 + OBSERVED + 2 * (outputs + 1))
                + accounts * (outputs + 1)
                + accounts * later * outputs
                + walkers * (outputs + 1)
                + if self.values_behind { rows * outputs } else { 0 }
        };
        (8 * doubles + 4 * (words + of_path) + 2 * rows + 256 * ARRAYS) as u64
    }
}

/// Bytes of what episodes are played on.
pub(crate) fn table_bytes(folds: &Folds) -> u64 {
    let table = folds.data.table();
    let stretches: usize = folds.train.iter().map(Vec::len).sum();
    let doubles = table.bars.len() * Bar::NUMBERS + table.params.len() * Params::NUMBERS + stretches;
    let words = 2 * table.bars.len() + table.offsets.len() + 2 * stretches + 2 * folds.train.len();
    (8 * doubles + 4 * words + 9 * 256) as u64
}

/// What episodes of a length are played on, once for all groups.
pub(crate) fn table(context: &Arc<Context>, stream: &Stream, all: &Folds, length: u32) -> Result<EpisodeTable> {
    let mut kept = all.on_card.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, table)) = kept.as_ref().filter(|(kept, _)| *kept == length) {
        return Ok(table.clone());
    }
    let data = &all.data;
    let (prices, (time_of_day, log_to_close)) = (data.table(), data.times());
    let mut slab = context.slab(table_bytes(all))?;
    let slab = &mut slab;
    let (mut from, mut to, mut starts, mut folds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for stretches in &all.train {
        folds.push(from.len() as u32);
        from.extend(stretches.iter().map(|s| s.start));
        to.extend(stretches.iter().map(|s| s.end));
        starts.extend(count_starts(stretches, length));
        folds.push(from.len() as u32);
    }
    let offsets: Vec<u32> = prices.offsets.iter().map(|at| *at as u32).collect();
    let made = EpisodeTable {
        bars: put(slab, stream, &prices.bars.iter().flat_map(Bar::numbers).collect::<Vec<f64>>())?,
        params: put(slab, stream, &prices.params.iter().flat_map(Params::numbers).collect::<Vec<f64>>())?,
        offsets: put(slab, stream, &offsets)?,
        time_of_day: put(slab, stream, &time_of_day)?,
        log_to_close: put(slab, stream, log_to_close)?,
        stretch_from: put(slab, stream, &from)?,
        stretch_to: put(slab, stream, &to)?,
        starts: put(slab, stream, &starts)?,
        folds: put(slab, stream, &folds)?,
    };
    *kept = Some((length, made.clone()));
    Ok(made)
}

/// Everything of a group.
pub(super) struct Arrays {
    pub(super) sizes: Sizes,
    pub(super) table: EpisodeTable,
    pub(super) members: Members,
    pub(super) standing: Standing,
    pub(super) seen: Rollout,
    pub(super) walkers: Walkers,
    first_walkers: Walkers,
    pub(super) carried: Array<f64>,        // [P, N]
    pub(super) partial: Array<f64>,        // [P, ceil(N / 32), 4]
    pub(super) returns: Array<f64>,        // [P, 3]
    pub(super) scale: Array<f32>,          // [P]
    pub(super) totals: Array<f64>,         // [P, TOTALS]
    pub(super) moment_partial: Array<f64>, // [P, minibatches, slices, 2]
    pub(super) centre: Array<f32>,         // [P, minibatches, 2]
    pub(super) loss_partial: Array<f64>,   // [P, blocks, 6]
    pub(super) clock: Array<u32>,          // [2]
    pub(super) goes: Array<u32>,           // [P]
    pub(super) norms: Array<f32>,          // [P]
    pub(super) words: Array<u32>,          // [P, 4]
    pub(super) report: Array<f64>,         // [P, REPORT]
    pub(super) slab: Slab,
}

impl Arrays {
    pub(super) fn new(
        context: &Arc<Context>,
        stream: &Stream,
        group: &Group,
        members: &[Member],
        sizes: Sizes,
        table: EpisodeTable,
    ) -> Result<Arrays> {
        let Sizes { p, n, t, later, pieces, batch, minibatches, loss_blocks, .. } = sizes;
        let (accounts, rows) = (p * n, p * t * n);
        let mut slab = context.slab(sizes.bytes())?;
        let own = member_arrays(&mut slab, stream, group, members, batch)?;
        let s = &mut slab;
        let standing = Standing {
            state: s.array(HELD * accounts)?,
            memory: zeros(s, stream, 2 * accounts)?,
            grown: zeros(s, stream, accounts)?,
            place: s.array(4 * accounts)?,
            observed: s.array(OBSERVED * accounts)?,
        };
        let seen = Rollout {
            rows: zeros(s, stream, rows)?,
            observed: zeros(s, stream, OBSERVED * rows)?,
            legal: zeros(s, stream, rows)?,
            ended: zeros(s, stream, rows)?,
            action: zeros(s, stream, rows)?,
            log_probability: zeros(s, stream, rows)?,
            value: zeros(s, stream, rows)?,
            reward: zeros(s, stream, rows)?,
            advantage: zeros(s, stream, rows)?,
            order: s.array(sizes.order())?,
            cuts: zeros(s, stream, accounts)?,
            later_rows: zeros(s, stream, accounts * later)?,
            later_observed: zeros(s, stream, accounts * later * OBSERVED)?,
            later_value: zeros(s, stream, accounts * later)?,
            later: later as u32,
        };
        let mut walkers = || -> Result<Walkers> {
            let all = p * pieces;
            Ok(Walkers {
                state: zeros(s, stream, HELD * all)?,
                place: zeros(s, stream, 4 * all)?,
                observed: zeros(s, stream, OBSERVED * all)?,
                equity: zeros(s, stream, all)?,
                pieces: pieces as u32,
            })
        };
        let (walkers, first_walkers) = (walkers()?, walkers()?);
        put_walkers(stream, group, members, &sizes, &first_walkers)?;
        let arrays = Arrays {
            members: own,
            standing,
            seen,
            walkers,
            first_walkers,
            carried: zeros(s, stream, accounts)?,
            partial: zeros(s, stream, 4 * p * n.div_ceil(32))?,
            returns: zeros(s, stream, 3 * p)?,
            scale: zeros(s, stream, p)?,
            totals: zeros(s, stream, TOTALS * p)?,
            moment_partial: zeros(s, stream, 2 * p * minibatches * batch.div_ceil(SLICE))?,
            centre: zeros(s, stream, 2 * p * minibatches)?,
            loss_partial: zeros(s, stream, 6 * p * loss_blocks)?,
            clock: zeros(s, stream, 2)?,
            goes: zeros(s, stream, p)?,
            norms: zeros(s, stream, p)?,
            words: zeros(s, stream, 4 * p)?,
            report: zeros(s, stream, REPORT * p)?,
            slab,
            sizes,
            table,
        };
        arrays.put_standing(stream, group, &members.iter().map(|m| first_state(group, m)).collect::<Vec<_>>())?;
        Ok(arrays)
    }

    /// What says who goes on after a minibatch.
    pub(super) fn decide(&self) -> Decide {
        Decide {
            members: self.members.clone(),
            partial: self.loss_partial.clone(),
            norms: self.norms.clone(),
            totals: self.totals.clone(),
            goes: self.goes.clone(),
            clock: self.clock.clone(),
            blocks: self.sizes.loss_blocks as u32,
        }
    }

    /// Walkers stand at the beginnings of their pieces again.
    pub(super) fn begin_walk(&self, stream: &Stream) -> Result<()> {
        let (to, from) = (&self.walkers, &self.first_walkers);
        to.state.copy_from(stream, &from.state)?;
        to.place.copy_from(stream, &from.place)?;
        to.observed.copy_from(stream, &from.observed)?;
        to.equity.copy_from(stream, &from.equity)
    }

    /// Brings accounts to the card: `[P]` of `[N, STATE]` as environments have them.
    fn put_standing(&self, stream: &Stream, group: &Group, states: &[Vec<f64>]) -> Result<()> {
        let (accounts, data) = (self.sizes.p * self.sizes.n, &group.ppo.folds.data);
        let (mut held, mut place) = (vec![0.0; HELD * accounts], vec![0u32; 4 * accounts]);
        let mut observed = Vec::with_capacity(OBSERVED * accounts);
        for (i, own) in states.iter().flat_map(|state| state.chunks_exact(STATE)).enumerate() {
            let row = own[0] as u32;
            let words = [row, own[1] as u32, data.symbol(row) as u32, own[2] as u32];
            words.iter().enumerate().for_each(|(k, word)| place[k * accounts + i] = *word);
            own[4..4 + HELD].iter().enumerate().for_each(|(k, x)| held[k * accounts + i] = *x);
            let account = Account::from_numbers(own[4..].try_into().expect("an account"));
            observed.extend_from_slice(&data.observe(data.params(row), &(&account).into(), row as usize));
        }
        self.standing.state.put(stream, &held)?;
        self.standing.place.put(stream, &place)?;
        self.standing.observed.put(stream, &observed)
    }

    /// `[P]` of `[N, STATE]`.
    fn read_standing(&self, stream: &Stream) -> Result<Vec<Vec<f64>>> {
        let Sizes { p, n, .. } = self.sizes;
        let (held, place) = (self.standing.state.get(stream)?, self.standing.place.get(stream)?);
        let word = |k: usize, i: usize| f64::from(place[k * p * n + i]);
        let account = |i: usize| {
            let own = (0..HELD).map(move |k| held_at(k, i, p * n));
            [word(0, i), word(1, i), word(3, i), 0.0]
                .into_iter()
                .chain(own.map(|at| held[at]))
                .chain([0.0; STATE - 4 - HELD])
        };
        Ok((0..p).map(|at| (at * n..(at + 1) * n).flat_map(account).collect()).collect())
    }

    /// A member's accounts: what is carried, what rewards remember, what the net remembers (`[N, numbers]`, or nothing)
    /// and where they stand, block by block.
    pub(super) fn state(&self, stream: &Stream, at: usize, remembered: &[f32]) -> Result<Vec<f64>> {
        let Sizes { p, n, .. } = self.sizes;
        let (carried, memory) = (self.carried.get(stream)?, self.standing.memory.get(stream)?);
        let standing = self.read_standing(stream)?.swap_remove(at);
        let numbers = remembered.len() / n;
        let mut state = Vec::with_capacity(n * (3 + STATE + numbers));
        for block in block_sizes(n as u32) {
            let (from, to) = (block.start as usize, block.end as usize);
            state.extend_from_slice(&carried[at * n + from..at * n + to]);
            state.extend((from..to).flat_map(|i| [memory[at * n + i], memory[p * n + at * n + i]]));
            state.extend(remembered[from * numbers..to * numbers].iter().map(|x| f64::from(*x)));
            state.extend_from_slice(&standing[from * STATE..to * STATE]);
        }
        Ok(state)
    }

    /// Sets them to it, and says what the net remembers, `numbers` of each account; nothing where it is no state of
    /// theirs.
    pub(super) fn restore(
        &self,
        stream: &Stream,
        group: &Group,
        (at, numbers): (usize, usize),
        returns: &ReturnScale,
        mut state: &[f64],
    ) -> Result<Option<Vec<f32>>> {
        let Sizes { p, n, .. } = self.sizes;
        if state.len() != n * (3 + STATE + numbers) {
            return Ok(None);
        }
        let mut kept = Vec::with_capacity(n * numbers);
        let (mut carried, mut memory) = (self.carried.get(stream)?, self.standing.memory.get(stream)?);
        let mut standing = self.read_standing(stream)?;
        let mut own = Vec::with_capacity(n * STATE);
        for block in block_sizes(n as u32) {
            let (from, len) = (at * n + block.start as usize, block.len());
            let (left, rest) = state.split_at(len);
            let (remembered, rest) = rest.split_at(2 * len);
            let (of_net, rest) = rest.split_at(numbers * len);
            kept.extend(of_net.iter().map(|x| *x as f32));
            let (accounts, rest) = rest.split_at(len * STATE);
            carried[from..from + len].copy_from_slice(left);
            for (i, both) in remembered.as_chunks::<2>().0.iter().enumerate() {
                (memory[from + i], memory[p * n + from + i]) = (both[0], both[1]);
            }
            own.extend_from_slice(accounts);
            state = rest;
        }
        let rows = group.ppo.folds.data.table().bars.len() as f64;
        let fits = |own: &[f64]| {
            own[..3].iter().all(|x| *x >= 0.0 && x.fract() == 0.0 && *x < f64::from(u32::MAX))
                && own[0] + 1.0 < own[1]
                && own[1] <= rows
        };
        if !own.chunks_exact(STATE).all(fits) {
            return Ok(None);
        }
        standing[at] = own;
        self.carried.put(stream, &carried)?;
        self.standing.memory.put(stream, &memory)?;
        self.put_standing(stream, group, &standing)?;
        self.returns.part(3 * at, 3)?.put(stream, &[returns.count, returns.mean, returns.squares])?;
        Ok(Some(kept))
    }
}

/// Where number `k` of account `i` lies, of `all`.
fn held_at(k: usize, i: usize, all: usize) -> usize {
    k * all + i
}

/// `[N, STATE]` a member's accounts at the start of their first episodes.
fn first_state(group: &Group, member: &Member) -> Vec<f64> {
    let Hypers { n_envs, episode, .. } = member.hypers;
    let folds = &group.ppo.folds;
    Environment::new(&folds.data, &folds.train[member.key.fold], 0..n_envs, episode, group.episode_seed(member)).state()
}

fn put_walkers(stream: &Stream, group: &Group, members: &[Member], sizes: &Sizes, to: &Walkers) -> Result<()> {
    let (all, folds) = (sizes.p * sizes.pieces, &group.ppo.folds);
    let (mut held, mut place) = (vec![0.0; HELD * all], vec![0u32; 4 * all]);
    let (mut observed, mut equity) = (vec![0.0; OBSERVED * all], vec![1.0; all]);
    for (p, member) in members.iter().enumerate() {
        for m in 0..sizes.pieces {
            let (i, own) = (p * sizes.pieces + m, &folds.valid[member.key.fold]);
            // Places without a piece have arrived; their row is one that exists.
            let piece = own.get(m).unwrap_or(&own[0]);
            let params = folds.data.params(piece.start);
            let account = Account::new(params);
            let words = [piece.start, piece.end, folds.data.symbol(piece.start) as u32, u32::from(m >= own.len())];
            words.iter().enumerate().for_each(|(k, word)| place[k * all + i] = *word);
            account.numbers()[..HELD].iter().enumerate().for_each(|(k, x)| held[k * all + i] = *x);
            let shown = folds.data.observe(params, &(&account).into(), piece.start as usize);
            observed[i * OBSERVED..(i + 1) * OBSERVED].copy_from_slice(&shown);
            equity[i] = params.capital;
        }
    }
    to.state.put(stream, &held)?;
    to.place.put(stream, &place)?;
    to.observed.put(stream, &observed)?;
    to.equity.put(stream, &equity)
}

fn member_arrays(slab: &mut Slab, stream: &Stream, group: &Group, members: &[Member], batch: usize) -> Result<Members> {
    let Hypers { n_envs, n_steps, n_epochs, episode, actions, .. } = group.shape;
    let mut f32s = |of: &dyn Fn(&Hypers) -> f32| -> Result<Array<f32>> {
        put(slab, stream, &members.iter().map(|m| of(&m.hypers)).collect::<Vec<f32>>())
    };
    let (gamma, lambda) = (f32s(&|h| h.gamma)?, f32s(&|h| h.gae_lambda)?);
    let (clip, clip_value) = (f32s(&|h| h.clip.policy)?, f32s(&|h| h.clip.value.unwrap_or(-1.0))?);
    let (value_weight, target_kl) = (f32s(&|h| h.vf_coef)?, f32s(&|h| h.target_kl.unwrap_or(-1.0))?);
    let entropy_weight = f32s(&|_| 0.0)?;
    let reward_weight = f32s(&|h| if let Reward::Drawdown(weight) = h.reward { weight } else { 0.0 })?;
    let mut u32s = |of: &dyn Fn(&Member) -> u32| -> Result<Array<u32>> {
        put(slab, stream, &members.iter().map(of).collect::<Vec<u32>>())
    };
    let (id, fold) = (u32s(&|m| m.key.id())?, u32s(&|m| m.key.fold as u32)?);
    let unit = u32s(&|m| m.unit)?;
    let kind = |m: &Member| match m.hypers.reward {
        Reward::Growth => 0,
        Reward::Drawdown(_) => 1,
        Reward::Sharpe => 2,
    };
    let (reward, normalise) = (u32s(&kind)?, u32s(&|m| u32::from(m.hypers.normalize_advantage))?);
    let seed = put(slab, stream, &members.iter().map(|m| group.episode_seed(m)).collect::<Vec<u64>>())?;
    Ok(Members {
        id,
        fold,
        unit,
        seed,
        gamma,
        lambda,
        clip,
        clip_value,
        value_weight,
        target_kl,
        entropy_weight,
        reward_weight,
        reward,
        normalise,
        draws: group.seed,
        actions: match actions {
            Actions::Discrete => 0,
            Actions::Continuous => 1,
        },
        outputs: actions.outputs() as u32,
        episode,
        accounts: n_envs,
        steps: n_steps,
        epochs: n_epochs,
        batch: batch as u32,
    })
}

pub(super) fn put<T: Plain>(slab: &mut Slab, stream: &Stream, from: &[T]) -> Result<Array<T>> {
    let made = slab.array(from.len())?;
    made.put(stream, from)?;
    Ok(made)
}

pub(super) fn zeros<T: Plain>(slab: &mut Slab, stream: &Stream, len: usize) -> Result<Array<T>> {
    let made = slab.array(len)?;
    made.fill(stream, 0)?;
    Ok(made)
}

/// An error for lengths that do not fit into what kernels count in.
pub(super) fn counted(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::Invalid(format!("{n} rows at once; at most {} are possible", u32::MAX)))
}
