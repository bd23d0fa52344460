//! An update around a net of any shape: kernels of `ppo.cu` between the net's own passes.
//!
//! Accounts act by nets of their own with as many rows as a member has accounts, which take the parameters of those
//! that learn at the beginning of a rollout: passes of a minibatch's size would compute rows that nobody asked for.

use super::super::Ppo;
use super::super::training::Group;
use super::arguments::{Act, Choose, Later, LossArgs, Tick, Walk};
use super::arrays::{Arrays, Sizes};
use super::blocks;
use crate::{DeviceBudget, MemberKey};
use compute::cuda::{Array, Context, Kernel, Module, Stream};
use compute::nets::{Nets, OnCard, Setup};
use compute::population::Pins;
use compute::{Opened, Result};
use std::sync::Arc;

/// Kernels and arrays of such updates.
pub(super) struct Passes {
    sizes: Sizes,
    acting: Nets,
    act_all: Kernel<Act>,
    later_rows: Kernel<Later>,
    tick: Kernel<Tick>,
    choose: Kernel<Choose>,
    losses: Kernel<LossArgs>,
    walk_all: Kernel<Walk>,
    act: Act,
    later: Later,
    rows: Choose,
    loss: LossArgs,
    walk: Walk,
    walk_value: Array<f32>, // [P, M]
    later_z: Array<f32>,    // [P, N, K, outputs]
    ids: Array<u32>,        // [P, N] rows at which accounts decide
    walk_ids: Array<u32>,   // [P, M]
}

/// Nets that act.
fn setup(ppo: &Ppo, keys: &[MemberKey]) -> Setup {
    let (config, shape) = ppo.shared(keys);
    Setup::inference(shape.n_envs as usize, config.recipe.precision)
}

/// Bytes of the nets that act.
pub(super) fn need(context: &Arc<Context>, ppo: &Ppo, keys: &[MemberKey]) -> Result<u64> {
    let net = &ppo.shared(keys).0.net;
    Nets::need(&Opened::Cuda(Arc::clone(context)), net, &setup(ppo, keys), &ppo.member_setups(keys))
}

impl Passes {
    pub(super) fn new(
        module: &Arc<Module>,
        group: &mut Group,
        at: &DeviceBudget,
        keys: &[MemberKey],
        a: &mut Arrays,
        pins: &Pins,
    ) -> Result<Passes> {
        let Sizes { p, n, later, pieces, batch, outputs, per_epoch, .. } = a.sizes;
        let (setup, setups) = (setup(&group.ppo, keys), group.ppo.member_setups(keys));
        let acting = Nets::new(&at.device, at.budget, &group.net, &group.tables, &setup, &setups, pins)?;
        let slab = &mut a.slab;
        let act = Act {
            table: a.table.clone(),
            members: a.members.clone(),
            standing: a.standing.clone(),
            seen: a.seen.clone(),
            z: slab.array(p * n * outputs)?,
            value: slab.array(p * n)?,
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
        Ok(Passes {
            sizes: a.sizes,
            acting,
            act_all: module.kernel("act_all")?,
            later_rows: module.kernel("later_rows")?,
            tick: module.kernel("tick")?,
            choose: module.kernel("choose")?,
            losses: module.kernel("losses")?,
            walk_all: module.kernel("walk_all")?,
            later: Later { members: a.members.clone(), standing: a.standing.clone(), seen: a.seen.clone() },
            walk_value: slab.array(p * pieces)?,
            later_z: slab.array(p * n * later * outputs)?,
            ids: a.standing.place.part(0, p * n)?,
            walk_ids: a.walkers.place.part(0, p * pieces)?,
            act,
            rows,
            loss,
            walk,
        })
    }

    pub(super) fn pins(&self) -> Pins {
        self.acting.pins()
    }

    /// The nets that act become what those that learn are.
    pub(super) fn take_params(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        self.acting.params_on_card()?.copy_from(stream, &nets.params_on_card()?)?;
        self.acting.params_changed_on(stream)
    }

    /// So many steps of the rollout.
    pub(super) fn steps(&mut self, stream: &Stream, steps: usize) -> Result<()> {
        let Passes { sizes, acting, act, act_all, ids, .. } = self;
        for offset in 0..steps {
            act.offset = offset as u32;
            let extras = Some(&act.standing.observed);
            let out = [act.z.clone(), act.value.clone()];
            acting.forward_on(stream, OnCard { rows: sizes.n, ids: Some(ids), extras }, &out)?;
            act_all.launch(stream, blocks(sizes.n.div_ceil(128), sizes.p, 128), act)?;
        }
        self.tick.launch(stream, blocks(1, 1, 1), &Tick { clock: self.act.clock.clone(), steps: steps as u32 })
    }

    /// The values behind the last step, and those of episodes that were cut off.
    pub(super) fn value_later(&mut self, stream: &Stream) -> Result<()> {
        let Passes { sizes, acting, later, later_rows, later_z, .. } = self;
        later_rows.launch(stream, blocks(sizes.n.div_ceil(128), sizes.p, 128), later)?;
        let (ids, extras) = (Some(&later.seen.later_rows), Some(&later.seen.later_observed));
        let out = [later_z.clone(), later.seen.later_value.clone()];
        acting.forward_on(stream, OnCard { rows: sizes.n * sizes.later, ids, extras }, &out)
    }

    /// The losses of a minibatch, and the gradients at the outputs.
    pub(super) fn losses(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        let Passes { sizes, rows, choose, loss, losses, .. } = self;
        let grid = blocks(sizes.batch.div_ceil(256), sizes.p, 256);
        choose.launch(stream, grid, rows)?;
        let (ids, extras) = (Some(&rows.ids), Some(&rows.observed));
        nets.forward_on(stream, OnCard { rows: sizes.batch, ids, extras }, &[loss.z.clone(), loss.value.clone()])?;
        losses.launch(stream, grid, loss)
    }

    /// The gradient of the weights.
    pub(super) fn back(&mut self, stream: &Stream, nets: &mut Nets) -> Result<()> {
        nets.backward_on(stream, &[self.loss.d_z.clone(), self.loss.d_value.clone()])
    }

    /// One step of a validation.
    pub(super) fn walk(&mut self, stream: &Stream) -> Result<()> {
        let Passes { sizes, acting, walk, walk_all, walk_value, walk_ids, .. } = self;
        let (ids, extras) = (Some(&*walk_ids), Some(&walk.walkers.observed));
        let out = [walk.z.clone(), walk_value.clone()];
        acting.forward_on(stream, OnCard { rows: sizes.pieces, ids, extras }, &out)?;
        walk_all.launch(stream, blocks(sizes.pieces.div_ceil(64), sizes.p, 64), walk)
    }

    /// What the last minibatch was: its rows, and its outputs with the gradients at them.
    #[cfg(test)]
    pub(super) fn last_minibatch(&self) -> (&Choose, &LossArgs) {
        (&self.rows, &self.loss)
    }
}
