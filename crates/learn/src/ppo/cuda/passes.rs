//! An update around a net of any shape: kernels of `ppo.cu` between the net's own passes.
//!
//! Accounts act by nets of their own with as many rows as a member has accounts, which take the parameters of those
//! that learn at the beginning of a rollout: passes of a minibatch's size would compute rows that nobody asked for.
//! Where the policy has a tower of its own they have nothing else, and values come behind the rollout, from the nets
//! that learn. Few accounts of a wide net take their steps in one kernel instead ([`wide`](super::wide)); the nets that
//! act then serve validations alone.

use super::super::Ppo;
use super::super::training::Group;
use super::arguments::{Act, Choose, Later, LossArgs, Tick, Walk};
use super::arrays::{Arrays, Sizes};
use super::blocks;
use super::heads::Heads;
use super::wide::Wide;
use crate::{DeviceBudget, MemberKey};
use compute::cuda::{Array, Context, Event, Kernel, Module, Stream};
use compute::net::{Branch, Layout, Tower};
use compute::nets::{Nets, OnCard, Setup};
use compute::population::Pins;
use compute::{Error, Net, Opened, Result};
use std::sync::Arc;

/// Kernels and arrays of such updates.
pub(super) struct Passes {
    sizes: Sizes,
    acting: Nets,
    /// The whole rollout in one kernel, where there is one.
    wide: Option<Wide>,
    /// Parameters of the nets that learn and where those that act have them, where they have the policy alone.
    alone: Option<Vec<Shared>>,
    /// Nets that find values behind a rollout, and what they share with those that learn, where they are others.
    valuing: Option<(Nets, Vec<Shared>)>,
    act_all: Kernel<Act>,
    later_rows: Kernel<Later>,
    tick: Kernel<Tick>,
    choose: Kernel<Choose>,
    losses: Kernel<LossArgs>,
    /// Heads and losses in one kernel, where there is one.
    heads: Option<Heads>,
    walk_all: Kernel<Walk>,
    act: Act,
    later: Later,
    rows: Choose,
    loss: LossArgs,
    walk: Walk,
    walk_value: Array<f32>, // [P, M]
    later_z: Array<f32>,    // [P, N, K, outputs]
    all_z: Array<f32>,      // [P, T, N, outputs] where values come behind the rollout, else empty
    ids: Array<u32>,        // [P, N] rows at which accounts decide
    walk_ids: Array<u32>,   // [P, M]
    /// What goes beside the way back, between two events.
    side: Stream,
    begun: Event,
    decided: Event,
    backed: Event,
    done: Event,
}

/// Parameters that two arenas share: where they begin in each, and how many they are.
pub(super) struct Shared {
    learning: usize,
    acting: usize,
    count: usize,
}

/// Nets of one tower become what that tower of those that learn is.
fn take_shared(stream: &Stream, to: &mut Nets, from: &mut Nets, shared: &[Shared], members: usize) -> Result<()> {
    let (own, all) = (to.layout().params, from.layout().params);
    let (params, learning) = (to.params_on_card()?, from.params_on_card()?);
    for p in 0..members {
        for Shared { learning: at, acting, count } in shared {
            let part = learning.part(p * all + at, *count)?;
            params.part(p * own + acting, *count)?.copy_from(stream, &part)?;
        }
    }
    to.params_changed_on(stream)
}

/// Passes that find the values of a rollout, at most: each is some nodes of a graph.
const VALUE_PASSES: usize = 128;

/// The policy of a net as a net of its own, and what it shares with the whole; none where it has no tower of its own,
/// or where minibatches are so small that values are found sooner in the rollout.
pub(super) fn policy_alone(net: &Net, rows: usize, batch: usize) -> Option<(Net, Vec<Shared>)> {
    if rows.div_ceil(batch) > VALUE_PASSES { None } else { tower_alone(net, 0) }
}

/// One of two towers that have a head each, as a net of its own, and what it shares with the whole.
fn tower_alone(net: &Net, number: usize) -> Option<(Net, Vec<Shared>)> {
    let [policy, value] = net.towers.as_slice() else { return None };
    let whole = |tower: &Tower| tower.reads.is_empty() && tower.heads == 1;
    let plain = net.branches.iter().all(|branch| *branch == Branch::default());
    if !whole(policy) || !whole(value) || !plain || net.has_memory() {
        return None;
    }
    let tower = &net.towers[number];
    let heads = vec![net.heads.get(number)?.clone()];
    let alone = Net { trunk: tower.layers.clone(), heads, towers: Vec::new(), ..net.clone() };
    let (all, own) = (Layout::new(net).ok()?, Layout::new(&alone).ok()?);
    let (layers, behind) = (tower.layers.len(), policy.layers.len() + value.layers.len());
    let first = if number == 0 { 0 } else { policy.layers.len() };
    let of_tower = all.linears.get(first..first + layers)?.iter().chain(all.linears.get(behind + number));
    let mut shared = Vec::new();
    for (from, to) in of_tower.zip(&own.linears) {
        let width = (from.input.width, from.output.width);
        if !from.plain() || !to.plain() || width != (to.input.width, to.output.width) {
            return None;
        }
        shared.push(Shared { learning: from.weight, acting: to.weight, count: width.0 * width.1 });
        shared.push(Shared { learning: from.bias, acting: to.bias, count: width.1 });
    }
    (own.linears.len() == layers + 1 && own.recurrents.is_empty()).then_some((alone, shared))
}

/// The net that accounts act by.
fn acting_net(ppo: &Ppo, keys: &[MemberKey]) -> (Net, Option<Vec<Shared>>) {
    let (config, shape) = ppo.shared(keys);
    match policy_alone(&config.net, (shape.n_envs * shape.n_steps) as usize, config.recipe.batch) {
        Some((net, shared)) => (net, Some(shared)),
        None => (config.net.clone(), None),
    }
}

/// Rows at once of nets that find values: enough for products to fill a card.
const VALUE_ROWS: usize = 8192;

/// The value's tower as a net of its own, and rows that it takes at once: where values come behind the rollout, and
/// minibatches are too small to find them fast.
fn value_net(ppo: &Ppo, keys: &[MemberKey]) -> Option<(Net, Vec<Shared>, Setup)> {
    let (config, shape) = ppo.shared(keys);
    let (rows, batch) = ((shape.n_envs * shape.n_steps) as usize, config.recipe.batch);
    policy_alone(&config.net, rows, batch)?;
    let (net, shared) = tower_alone(&config.net, 1)?;
    let at_once = rows.min(VALUE_ROWS);
    (batch < at_once).then(|| (net, shared, Setup::inference(at_once, config.recipe.precision)))
}

/// Nets that act.
fn setup(ppo: &Ppo, keys: &[MemberKey]) -> Setup {
    let (config, shape) = ppo.shared(keys);
    Setup::inference(shape.n_envs as usize, config.recipe.precision)
}

/// Bytes of the nets that act.
pub(super) fn need(context: &Arc<Context>, ppo: &Ppo, keys: &[MemberKey]) -> Result<u64> {
    let (device, setups) = (Opened::Cuda(Arc::clone(context)), ppo.member_setups(keys));
    let acting = Nets::need(&device, &acting_net(ppo, keys).0, &setup(ppo, keys), &setups)?;
    let valuing = value_net(ppo, keys).map(|(net, _, setup)| Nets::need(&device, &net, &setup, &setups));
    Ok(acting + valuing.transpose()?.unwrap_or(0))
}

impl Passes {
    pub(super) fn new(
        module: &Arc<Module>,
        group: &mut Group,
        at: &DeviceBudget,
        keys: &[MemberKey],
        a: &mut Arrays,
        pins: &Pins,
        wide: Option<Wide>,
    ) -> Result<Passes> {
        let Sizes { p, n, later, pieces, batch, outputs, per_epoch, .. } = a.sizes;
        let (setup, setups) = (setup(&group.ppo, keys), group.ppo.member_setups(keys));
        let (net, alone) = acting_net(&group.ppo, keys);
        let acting = Nets::new(&at.device, at.budget, &net, &group.tables, &setup, &setups, pins)?;
        let valuing = match value_net(&group.ppo, keys) {
            Some((net, shared, setup)) => {
                Some((Nets::new(&at.device, at.budget, &net, &group.tables, &setup, &setups, pins)?, shared))
            }
            None => None,
        };
        let slab = &mut a.slab;
        let act = Act {
            table: a.table.clone(),
            members: a.members.clone(),
            standing: a.standing.clone(),
            seen: a.seen.clone(),
            z: slab.array(p * n * outputs)?,
            value: if alone.is_some() { None } else { Some(slab.array(p * n)?) },
            clock: a.clock.clone(),
            offset: 0,
        };
        let rows = Choose {
            members: a.members.clone(),
            seen: a.seen.clone(),
            clock: a.clock.clone(),
            ids: slab.array(p * batch)?,
            observed: slab.array(p * batch * market::OBSERVED)?,
            places: slab.array(p * batch)?,
            per_epoch: per_epoch as u32,
        };
        let loss = LossArgs {
            members: a.members.clone(),
            seen: a.seen.clone(),
            clock: a.clock.clone(),
            places: rows.places.clone(),
            centre: a.centre.clone(),
            z: slab.array(p * batch * outputs)?,
            value: slab.array(p * batch)?,
            d_z: slab.array(p * batch * outputs)?,
            d_value: slab.array(p * batch)?,
            partial: a.loss_partial.clone(),
            per_epoch: per_epoch as u32,
        };
        let walk = Walk {
            table: a.table.clone(),
            walkers: a.walkers.clone(),
            z: slab.array(p * pieces * outputs)?,
            actions: a.members.actions,
            outputs: outputs as u32,
        };
        let Opened::Cuda(context) = &at.device else {
            return Err(Error::Invalid("policies on a card need one".into()));
        };
        let heads = Heads::new(context, group, &a.sizes, (&rows, &loss))?;
        let all_rows = if alone.is_some() && valuing.is_none() { p * a.sizes.t * n } else { 0 };
        Ok(Passes {
            sizes: a.sizes,
            acting,
            wide,
            alone,
            valuing,
            act_all: module.kernel("act_all")?,
            later_rows: module.kernel("later_rows")?,
            tick: module.kernel("tick")?,
            choose: module.kernel("choose")?,
            losses: module.kernel("losses")?,
            walk_all: module.kernel("walk_all")?,
            later: Later { members: a.members.clone(), standing: a.standing.clone(), seen: a.seen.clone() },
            walk_value: slab.array(p * pieces)?,
            later_z: slab.array(p * n * later * outputs)?,
            all_z: slab.array(all_rows * outputs)?,
            ids: a.standing.place.part(0, p * n)?,
            walk_ids: a.walkers.place.part(0, p * pieces)?,
            act,
            rows,
            loss,
            walk,
            heads,
            side: Stream::new(context)?,
            begun: Event::new(context, false)?,
            decided: Event::new(context, false)?,
            backed: Event::new(context, false)?,
            done: Event::new(context, false)?,
        })
    }

    pub(super) fn pins(&self) -> Pins {
        let mut pins = self.acting.pins();
        pins.0.extend(self.valuing.iter().flat_map(|(nets, _)| nets.pins().0));
        pins
    }

    /// Whether a rollout is one kernel.
    pub(super) fn has_rollout(&self) -> bool {
        self.wide.is_some()
    }

    /// What comes before the first step: all of the rollout, where it is one kernel.
    pub(super) fn begin(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        match &self.wide {
            Some(wide) => wide.rollout(stream),
            None => self.take_params(stream, nets),
        }
    }

    /// The nets that act become what those that learn are.
    pub(super) fn take_params(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        match &self.alone {
            Some(shared) => take_shared(stream, &mut self.acting, nets, shared, self.sizes.p),
            None => {
                self.acting.params_on_card()?.copy_from(stream, &nets.params_on_card()?)?;
                self.acting.params_changed_on(stream)
            }
        }
    }

    /// So many steps of the rollout.
    pub(super) fn steps(&mut self, stream: &Stream, steps: usize) -> Result<()> {
        let Passes { sizes, acting, act, act_all, ids, .. } = self;
        for offset in 0..steps {
            act.offset = offset as u32;
            let extras = Some(&act.standing.observed);
            let out: Vec<Array<f32>> = [Some(&act.z), act.value.as_ref()].into_iter().flatten().cloned().collect();
            acting.forward_on(stream, OnCard { rows: sizes.n, ids: Some(ids), extras }, &out)?;
            act_all.launch(stream, blocks(sizes.n.div_ceil(128), sizes.p, 128), act)?;
        }
        self.tick.launch(stream, blocks(1, 1, 1), &Tick { clock: self.act.clock.clone(), steps: steps as u32 })
    }

    /// The values behind the last step, those of episodes that were cut off, and those of all steps where the rollout
    /// left them open.
    pub(super) fn value_later(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        let Passes { sizes, acting, alone, valuing, later, later_rows, later_z, all_z, .. } = self;
        later_rows.launch(stream, blocks(sizes.n.div_ceil(128), sizes.p, 128), later)?;
        let seen = &later.seen;
        if let Some((valuing, shared)) = valuing {
            take_shared(stream, valuing, nets, shared, sizes.p)?;
            let all = OnCard { rows: sizes.n * sizes.t, ids: Some(&seen.rows), extras: Some(&seen.observed) };
            valuing.forward_on(stream, all, std::slice::from_ref(&seen.value))?;
            let rows = sizes.n * sizes.later;
            let behind = OnCard { rows, ids: Some(&seen.later_rows), extras: Some(&seen.later_observed) };
            return valuing.forward_on(stream, behind, std::slice::from_ref(&seen.later_value));
        }
        let mut value = |rows, ids, extras, out: [&Array<f32>; 2]| {
            let nets = if alone.is_some() { &mut *nets } else { &mut *acting };
            nets.forward_on(stream, OnCard { rows, ids: Some(ids), extras: Some(extras) }, &out.map(Array::clone))
        };
        if alone.is_some() {
            value(sizes.n * sizes.t, &seen.rows, &seen.observed, [all_z, &seen.value])?;
        }
        let behind = [&*later_z, &seen.later_value];
        value(sizes.n * sizes.later, &seen.later_rows, &seen.later_observed, behind)
    }

    /// The rows of the minibatch that the clock stands at.
    fn choose(&self, stream: &Stream) -> Result<()> {
        self.choose.launch(stream, blocks(self.sizes.batch.div_ceil(256), self.sizes.p, 256), &self.rows)
    }

    /// The rows of the first minibatch of an update, with their inputs where those are taken by themselves.
    pub(super) fn first_rows(&self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        self.choose(stream)?;
        self.take_inputs(stream, nets)
    }

    /// The inputs of the rows that are chosen, where the heads have a kernel of their own.
    fn take_inputs(&self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        if self.heads.is_some() { nets.rows_on(stream, self.chosen()) } else { Ok(()) }
    }

    fn chosen(&self) -> OnCard<'_> {
        OnCard { rows: self.sizes.batch, ids: Some(&self.rows.ids), extras: Some(&self.rows.observed) }
    }

    /// The losses of a minibatch whose rows are chosen, and the gradients at the outputs.
    fn losses(&self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        if let Some(heads) = &self.heads {
            nets.hidden_on(stream)?;
            return heads.launch(stream);
        }
        nets.forward_on(stream, self.chosen(), &[self.loss.z.clone(), self.loss.value.clone()])?;
        let grid = blocks(self.sizes.batch.div_ceil(256), self.sizes.p, 256);
        self.losses.launch(stream, grid, &self.loss)
    }

    /// One minibatch. `decide` and the choice of the next rows go beside the way back, their inputs beside the
    /// optimiser.
    pub(super) fn minibatch(
        &self,
        stream: &Stream,
        nets: &mut Nets,
        decide: impl FnOnce(&Stream) -> Result<()>,
        optimise: impl FnOnce(&mut Nets) -> Result<()>,
    ) -> Result<()> {
        let side = &self.side;
        self.losses(stream, nets)?;
        self.begun.record(stream)?;
        side.after(&self.begun)?;
        decide(side)?;
        self.decided.record(side)?;
        self.choose(side)?;
        match &self.heads {
            Some(_) => nets.backward_past_heads_on(stream)?,
            None => nets.backward_on(stream, &[self.loss.d_z.clone(), self.loss.d_value.clone()])?,
        }
        self.backed.record(stream)?;
        side.after(&self.backed)?;
        self.take_inputs(side, nets)?;
        self.done.record(side)?;
        stream.after(&self.decided)?;
        optimise(nets)?;
        stream.after(&self.done)
    }

    /// One step of a validation.
    pub(super) fn walk(&mut self, stream: &Stream) -> Result<()> {
        let Passes { sizes, acting, alone, walk, walk_all, walk_value, walk_ids, .. } = self;
        let (ids, extras) = (Some(&*walk_ids), Some(&walk.walkers.observed));
        let mut out = vec![walk.z.clone()];
        if alone.is_none() {
            out.push(walk_value.clone());
        }
        acting.forward_on(stream, OnCard { rows: sizes.pieces, ids, extras }, &out)?;
        walk_all.launch(stream, blocks(sizes.pieces.div_ceil(64), sizes.p, 64), walk)
    }

    /// The kernel of the heads, where they have one.
    #[cfg(test)]
    pub(super) fn heads(&self) -> Option<&Heads> {
        self.heads.as_ref()
    }

    /// What the last minibatch was: its rows, and its outputs with the gradients at them.
    #[cfg(test)]
    pub(super) fn last_minibatch(&self) -> (&Choose, &LossArgs) {
        (&self.rows, &self.loss)
    }
}
