//! Policies that remember: kernels of `ppo.cu` and `ppo_memory.cu` between the steps of LSTM layers and the plain net
//! behind them.
//!
//! What the net remembers of an account lies on the card. A step of the rollout takes it on, and clears it where an
//! episode ends; what was remembered where one was cut off is kept until its value is known. A minibatch is some
//! accounts with all their steps, from what was remembered before the first. Accounts act by nets of their own, as in
//! [`passes`](super::passes), policy and value together: both remember.

use super::super::training::Group;
use super::super::{Ppo, memory};
use super::arguments::{
    AccountMoments, Act, ChooseAccounts, ChooseStates, Later, LaterSlot, LossArgs, Remember, Tick, Walk,
};
use super::arrays::{Arrays, SLICE, Sizes, counted};
use super::blocks;
use crate::{DeviceBudget, MemberKey};
use compute::cuda::{Array, Context, Grid, Image, Kernel, Module, Slab, Stream};
use compute::nets::{Nets, Segment, SequencePass, SequencesOnCard, Setup};
use compute::population::Pins;
use compute::{Opened, Result, image};
use market::OBSERVED;
use std::sync::Arc;

static PPO_MEMORY: Image = image!("ppo_memory");

/// Kernels and arrays of such updates.
pub(super) struct Recurrent {
    sizes: Sizes,
    acting: Nets,
    /// Passes of a step of all accounts, of a step of all walkers, and of a minibatch.
    stepping: SequencePass,
    walking: SequencePass,
    learning: SequencePass,
    segments: Vec<Segment>,
    act_all: Kernel<Act>,
    remembers: Kernel<Remember>,
    tick: Kernel<Tick>,
    later_rows: Kernel<Later>,
    take_later: Kernel<LaterSlot>,
    give_later: Kernel<LaterSlot>,
    order_accounts: Kernel<AccountMoments>,
    account_moments: Kernel<AccountMoments>,
    choose_accounts: Kernel<ChooseAccounts>,
    choose_states: Kernel<ChooseStates>,
    losses: Kernel<LossArgs>,
    walk_all: Kernel<Walk>,
    act: Act,
    value: Array<f32>, // [P, N]
    remember: Remember,
    later: Later,
    later_slot: LaterSlot,
    later_z: Array<f32>,     // [P, N, outputs]
    later_value: Array<f32>, // [P, N]
    moments: AccountMoments,
    rows: ChooseAccounts,
    states: ChooseStates,
    loss: LossArgs,
    walk: Walk,
    walk_states: Array<f32>,
    walk_value: Array<f32>, // [P, M]
    ids: Array<u32>,        // [P, N] rows at which accounts decide
    walk_ids: Array<u32>,   // [P, M]
    _slab: Slab,
}

/// Nets that act.
fn setup(ppo: &Ppo, keys: &[MemberKey]) -> Setup {
    let (config, shape) = ppo.shared(keys);
    Setup::inference(shape.n_envs as usize, config.recipe.precision)
}

/// Numbers of all arrays but those of passes: words, and bytes.
fn numbers(sizes: &Sizes, state: usize) -> (usize, usize) {
    let Sizes { p, n, later, pieces, batch, outputs, accounts, .. } = *sizes;
    let states = state * (p * n * (2 + later - 1) + p * accounts + p * pieces);
    let of_accounts = p * n * (2 * (outputs + 1) + 1 + OBSERVED);
    let of_batch = p * batch * (2 + OBSERVED + 2 * (outputs + 1));
    (states + of_accounts + of_batch + p * pieces * (outputs + 1) + 64, p * batch)
}

/// Arrays in that slab, at most.
const ARRAYS: usize = 32;

fn own_bytes(sizes: &Sizes, state: usize) -> u64 {
    let (words, bytes) = numbers(sizes, state);
    (4 * words + bytes + 256 * ARRAYS) as u64
}

/// Bytes of what such policies have beside the arrays of all policies and the nets that learn.
pub(super) fn need(context: &Arc<Context>, ppo: &Ppo, keys: &[MemberKey], sizes: &Sizes) -> Result<u64> {
    let (config, _) = ppo.shared(keys);
    let (net, precision) = (&config.net, config.recipe.precision);
    let acting = Nets::need(&Opened::Cuda(Arc::clone(context)), net, &setup(ppo, keys), &ppo.member_setups(keys))?;
    let Sizes { p, n, t, pieces, accounts, .. } = *sizes;
    let pass = |rows, steps, learns| SequencePass::need(context, net, precision, [p, rows, steps], learns);
    let passes = pass(n, 1, false)? + pass(pieces.max(1), 1, false)? + pass(accounts, t, true)?;
    Ok(acting + passes + own_bytes(sizes, memory::state_of(net)))
}

impl Recurrent {
    pub(super) fn new(
        stream: &Stream,
        module: &Arc<Module>,
        group: &mut Group,
        at: &DeviceBudget,
        keys: &[MemberKey],
        a: &Arrays,
        pins: &Pins,
    ) -> Result<Recurrent> {
        let Sizes { p, n, t, later, pieces, batch, outputs, per_epoch, accounts, .. } = a.sizes;
        let (setup, setups) = (setup(&group.ppo, keys), group.ppo.member_setups(keys));
        let mut acting = Nets::new(&at.device, at.budget, &group.net, &group.tables, &setup, &setups, pins)?;
        let stepping = SequencePass::new(&mut acting, at.budget, n, 1)?;
        let walking = SequencePass::new(&mut acting, at.budget, pieces.max(1), 1)?;
        let learning = SequencePass::new(&mut group.nets, at.budget, accounts, t)?;
        let segments = stepping.segments();
        let mut slab = stream.context().slab(own_bytes(&a.sizes, memory::state_of(&group.net)))?;
        let s = &mut slab;
        let lengths: Vec<u32> = segments.iter().flat_map(|of| [of.before as u32, of.units as u32]).collect();
        let of_segments = super::arrays::put(s, stream, &lengths)?;
        let states: Array<f32> = super::arrays::zeros(s, stream, stepping.state())?;
        let began: Array<f32> = super::arrays::zeros(s, stream, stepping.state())?;
        let cut_states = super::arrays::zeros(s, stream, (later - 1) * stepping.state())?;
        let value: Array<f32> = s.array(p * n)?;
        let act = Act {
            table: a.table.clone(),
            members: a.members.clone(),
            standing: a.standing.clone(),
            seen: a.seen.clone(),
            z: s.array(p * n * outputs)?,
            value: Some(value.clone()),
            clock: a.clock.clone(),
            offset: 0,
        };
        let remember = Remember {
            members: a.members.clone(),
            seen: a.seen.clone(),
            segments: of_segments.clone(),
            states,
            cut_states,
            clock: a.clock.clone(),
            offset: 0,
            count: counted(p)?,
        };
        let later_value: Array<f32> = s.array(p * n)?;
        let later_slot = LaterSlot {
            seen: a.seen.clone(),
            ids: s.array(p * n)?,
            observed: s.array(p * n * OBSERVED)?,
            value: later_value.clone(),
            accounts: counted(n)?,
            slot: 0,
        };
        let moments = AccountMoments {
            members: a.members.clone(),
            advantage: a.seen.advantage.clone(),
            order: a.seen.order.clone(),
            partial: a.moment_partial.clone(),
            per_epoch: per_epoch as u32,
            accounts: counted(accounts)?,
        };
        let rows = ChooseAccounts {
            members: a.members.clone(),
            seen: a.seen.clone(),
            clock: a.clock.clone(),
            ids: s.array(p * batch)?,
            observed: s.array(p * batch * OBSERVED)?,
            places: s.array(p * batch)?,
            reset: s.array(p * batch)?,
            per_epoch: per_epoch as u32,
            accounts: counted(accounts)?,
        };
        let loss = LossArgs {
            members: a.members.clone(),
            seen: a.seen.clone(),
            clock: a.clock.clone(),
            places: rows.places.clone(),
            centre: a.centre.clone(),
            z: s.array(p * batch * outputs)?,
            value: s.array(p * batch)?,
            d_z: s.array(p * batch * outputs)?,
            d_value: s.array(p * batch)?,
            partial: a.loss_partial.clone(),
            per_epoch: per_epoch as u32,
        };
        let of_minibatch = ChooseStates {
            members: a.members.clone(),
            order: a.seen.order.clone(),
            clock: a.clock.clone(),
            segments: of_segments,
            began,
            states: s.array(learning.state())?,
            per_epoch: per_epoch as u32,
            accounts: counted(accounts)?,
            count: counted(p)?,
        };
        let walk = Walk {
            table: a.table.clone(),
            walkers: a.walkers.clone(),
            z: s.array(p * pieces * outputs)?,
            actions: a.members.actions,
            outputs: outputs as u32,
        };
        let own = Module::load(stream.context(), &PPO_MEMORY)?;
        Ok(Recurrent {
            sizes: a.sizes,
            act_all: module.kernel("act_all")?,
            later_rows: module.kernel("later_rows")?,
            tick: module.kernel("tick")?,
            losses: module.kernel("losses")?,
            walk_all: module.kernel("walk_all")?,
            remembers: own.kernel("remember")?,
            take_later: own.kernel("take_later")?,
            give_later: own.kernel("give_later")?,
            order_accounts: own.kernel("order_accounts")?,
            account_moments: own.kernel("account_moments")?,
            choose_accounts: own.kernel("choose_accounts")?,
            choose_states: own.kernel("choose_states")?,
            later: Later { members: a.members.clone(), standing: a.standing.clone(), seen: a.seen.clone() },
            later_z: s.array(p * n * outputs)?,
            walk_states: s.array(walking.state())?,
            walk_value: s.array(p * pieces)?,
            ids: a.standing.place.part(0, p * n)?,
            walk_ids: a.walkers.place.part(0, p * pieces)?,
            acting,
            stepping,
            walking,
            learning,
            segments,
            act,
            value,
            remember,
            later_slot,
            later_value,
            moments,
            rows,
            states: of_minibatch,
            loss,
            walk,
            _slab: slab,
        })
    }

    /// Which kernels do the work, for people.
    pub(super) fn describe(&self) -> String {
        let mut paths = self.learning.kernel_paths();
        paths.dedup();
        format!("accounts between the steps of LSTM layers, in captured graphs; minibatches: {}", paths.join(", "))
    }

    /// The algorithms of nets that act.
    pub(super) fn pins(&self) -> Pins {
        self.acting.pins()
    }

    /// Before the first step of a rollout: what the nets are, and what they remember.
    pub(super) fn begin(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        self.take_params(stream, nets)?;
        self.stepping.take_on(stream, &mut self.acting)?;
        self.states.began.copy_from(stream, &self.remember.states)
    }

    /// Before the first step of a validation: walkers remember nothing.
    pub(super) fn begin_walk(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        self.take_params(stream, nets)?;
        self.walking.take_on(stream, &mut self.acting)?;
        self.walk_states.fill(stream, 0)
    }

    /// The nets that act become what those that learn are.
    fn take_params(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        self.acting.params_on_card()?.copy_from(stream, &nets.params_on_card()?)?;
        self.acting.params_changed_on(stream)
    }

    /// So many steps of the rollout.
    pub(super) fn steps(&mut self, stream: &Stream, steps: usize) -> Result<()> {
        let Recurrent { sizes, acting, stepping, act, value, remember, ids, .. } = self;
        for offset in 0..steps {
            (act.offset, remember.offset) = (offset as u32, offset as u32);
            let given = SequencesOnCard {
                ids: Some(ids),
                extras: Some(&act.standing.observed),
                begin: &remember.states,
                reset: None,
                end: Some(&remember.states),
            };
            stepping.forward_on(stream, acting, given, &[act.z.clone(), value.clone()])?;
            self.act_all.launch(stream, blocks(sizes.n.div_ceil(128), sizes.p, 128), act)?;
            self.remembers.launch(stream, Grid::row(remember.states.len(), 256), remember)?;
        }
        self.tick.launch(stream, blocks(1, 1, 1), &Tick { clock: self.act.clock.clone(), steps: steps as u32 })
    }

    /// The values behind the last step, and those of episodes that were cut off.
    pub(super) fn value_later(&mut self, stream: &Stream) -> Result<()> {
        let Recurrent { sizes, acting, stepping, remember, later, later_slot, later_z, later_value, .. } = self;
        let accounts = blocks(sizes.n.div_ceil(128), sizes.p, 128);
        self.later_rows.launch(stream, accounts, later)?;
        let all = remember.states.len();
        for slot in 0..sizes.later {
            later_slot.slot = slot as u32;
            self.take_later.launch(stream, accounts, later_slot)?;
            let begin = match slot {
                0 => remember.states.clone(),
                _ => remember.cut_states.part((slot - 1) * all, all)?,
            };
            let given = SequencesOnCard {
                ids: Some(&later_slot.ids),
                extras: Some(&later_slot.observed),
                begin: &begin,
                reset: None,
                end: None,
            };
            stepping.forward_on(stream, acting, given, &[later_z.clone(), later_value.clone()])?;
            self.give_later.launch(stream, accounts, later_slot)?;
        }
        Ok(())
    }

    /// The order of accounts, and sums of the advantages of every minibatch.
    pub(super) fn moments(&self, stream: &Stream) -> Result<()> {
        let Sizes { p, n, epochs, batch, minibatches, .. } = self.sizes;
        let grid =
            |x: usize, y: usize| Grid { blocks: [x as u32, y as u32, p as u32], threads: [256, 1, 1], shared: 0 };
        self.order_accounts.launch(stream, grid(n.div_ceil(256), epochs), &self.moments)?;
        self.account_moments.launch(stream, grid(batch.div_ceil(SLICE), minibatches), &self.moments)
    }

    /// The losses of a minibatch, and the gradients at the outputs.
    pub(super) fn losses(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        let Recurrent { sizes, learning, rows, states, loss, .. } = self;
        let grid = blocks(sizes.batch.div_ceil(256), sizes.p, 256);
        self.choose_accounts.launch(stream, grid, rows)?;
        self.choose_states.launch(stream, Grid::row(states.states.len(), 256), states)?;
        learning.take_on(stream, nets)?;
        let given = SequencesOnCard {
            ids: Some(&rows.ids),
            extras: Some(&rows.observed),
            begin: &states.states,
            reset: Some(&rows.reset),
            end: None,
        };
        learning.forward_on(stream, nets, given, &[loss.z.clone(), loss.value.clone()])?;
        self.losses.launch(stream, grid, loss)
    }

    /// The gradient of the weights.
    pub(super) fn back(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        self.learning.backward_on(stream, nets, &[self.loss.d_z.clone(), self.loss.d_value.clone()])
    }

    /// One step of a validation.
    pub(super) fn walk(&mut self, stream: &Stream) -> Result<()> {
        let Recurrent { sizes, acting, walking, walk, walk_states, walk_value, walk_ids, .. } = self;
        let given = SequencesOnCard {
            ids: Some(walk_ids),
            extras: Some(&walk.walkers.observed),
            begin: walk_states,
            reset: None,
            end: Some(walk_states),
        };
        walking.forward_on(stream, acting, given, &[walk.z.clone(), walk_value.clone()])?;
        self.walk_all.launch(stream, blocks(sizes.pieces.div_ceil(64), sizes.p, 64), walk)
    }

    /// `[N, state]` what is remembered of a member's accounts, as blocks on a processor have it.
    pub(super) fn states(&self, stream: &Stream, at: usize) -> Result<Vec<f32>> {
        self.as_rows(&self.remember.states.get(stream)?, at)
    }

    /// The same before the first step of the last rollout.
    #[cfg(test)]
    pub(super) fn began(&self, stream: &Stream, at: usize) -> Result<Vec<f32>> {
        self.as_rows(&self.states.began.get(stream)?, at)
    }

    fn as_rows(&self, all: &[f32], at: usize) -> Result<Vec<f32>> {
        let numbers = self.numbers();
        let mut rows = vec![0.0; self.sizes.n * numbers];
        for segment in &self.segments {
            for (n, row) in rows.chunks_exact_mut(numbers).enumerate() {
                row[segment.column..segment.column + segment.units].copy_from_slice(&all[self.place(segment, at, n)]);
            }
        }
        Ok(rows)
    }

    /// Sets it.
    pub(super) fn set_states(&self, stream: &Stream, at: usize, rows: &[f32]) -> Result<()> {
        let mut all = self.remember.states.get(stream)?;
        for segment in &self.segments {
            for (n, row) in rows.chunks_exact(self.numbers()).enumerate() {
                all[self.place(segment, at, n)].copy_from_slice(&row[segment.column..segment.column + segment.units]);
            }
        }
        self.remember.states.put(stream, &all)
    }

    /// Numbers of an account's state.
    fn numbers(&self) -> usize {
        self.segments.iter().map(|segment| segment.units).sum()
    }

    /// Where those of a segment lie.
    fn place(&self, segment: &Segment, member: usize, account: usize) -> std::ops::Range<usize> {
        let Sizes { p, n, .. } = self.sizes;
        let first = segment.before * p * n + (member * n + account) * segment.units;
        first..first + segment.units
    }

    /// What the last minibatch was: its rows, and its outputs with the gradients at them.
    #[cfg(test)]
    pub(super) fn last_minibatch(&self) -> (&ChooseAccounts, &LossArgs) {
        (&self.rows, &self.loss)
    }
}
