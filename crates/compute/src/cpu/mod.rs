//! The CPU twin of a population.
//!
//! Work is spread over slots and, within a slot, over fixed parts of its batch; no product is spread over threads. What
//! a part is follows from net and recipe alone, and parts are added in order, so a seed gives the same bits for any
//! number of threads and members. Products are our own, those of recurrent layers fused with their gates; other loops
//! are written for SIMD; all look at run time what the processor has. After the first step nothing is allocated.

mod block;
mod buffers;
mod curve;
mod data;
mod descent;
mod forward;
mod loops;
mod member_batch;
mod memory;
mod nets;
mod norm;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod plan;
mod product;
mod recurrent;
mod score;
mod sequence;
mod simd;
mod slot;
mod team;
#[cfg(test)]
mod tests;
mod tile;

use crate::error::{Error, Result};
use crate::host::filled;
use crate::net::{Head, Layout, Net, init_by};
use crate::ops::optimise::Step;
use crate::ops::step::advance;
use crate::population::backend::{Arena, Backend, Sums};
use crate::population::{Data, Member, Pace, Recipe, State, check};
use crate::tables::Tables;
use data::Owned;
pub(crate) use data::Source;
pub(crate) use descent::Descending;
pub use forward::{Forward, Packed, Ready, Rows};
use member_batch::MemberBatch;
use nets::Core;
pub(crate) use nets::{Given, Nets, Update, need as need_of};
#[cfg(target_arch = "x86_64")]
pub(crate) use pairs::is_here as multiplies_bf16;
pub(crate) use plan::Plan;
pub(crate) use product::square_product;
use rayon::prelude::*;
pub use recurrent::stack::Stack;
pub use sequence::{SequenceGradient, SequenceLoss, Sequences, Stepper};
use slot::{Lane, Slot};
use std::sync::Arc;

/// A population on this computer's processor: nets, with lists, cross-entropy and epochs.
#[derive(Debug)]
pub(crate) struct Engine {
    nets: Nets,
    states: Vec<State>, // [P]
    data: Owned,
    members: Vec<Member>,
}

/// Bytes an engine takes for these, the copy of the data included, without the tables.
pub(crate) fn need(
    net: &Net,
    layout: &Layout,
    data: &Data<'_>,
    recipe: &Recipe,
    members: usize,
    threads: usize,
    pace: Pace,
) -> u64 {
    let plan = Plan::new(net, layout, recipe, pace);
    nets::need(&plan, members, threads, recipe.average.is_some()) + Owned::need(data)
}

impl Engine {
    /// Members in slots of their order, with fresh parameters, ready for their first step.
    #[cfg(test)]
    pub(crate) fn new(
        net: &Net,
        layout: &Layout,
        tables: &Arc<Tables>,
        data: &Data<'_>,
        recipe: &Recipe,
        members: &[Member],
        threads: usize,
    ) -> Result<Engine> {
        Engine::paced(Pace::default(), net, layout, tables, data, recipe, members, threads)
    }

    /// The same at a pace that is given.
    #[expect(clippy::too_many_arguments, reason = "a population is these things")]
    pub(crate) fn paced(
        pace: Pace,
        net: &Net,
        layout: &Layout,
        tables: &Arc<Tables>,
        data: &Data<'_>,
        recipe: &Recipe,
        members: &[Member],
        threads: usize,
    ) -> Result<Engine> {
        check::check(net, tables, data, recipe, members)?;
        let plan = Plan::new(net, layout, recipe, pace);
        let data = Owned::new(tables, data)?;
        let first: Vec<Vec<f32>> =
            members.iter().map(|m| init_by(layout, recipe.seed, m.id, &[])).collect::<Result<_>>()?;
        let states = members.iter().enumerate().map(|(index, member)| {
            let list = data.list(member.train);
            State::first(member, index, list.start, list.len(), recipe.batch)
        });
        let states = states.collect();
        let nets = Nets::new(plan, &first, recipe.average.is_some(), threads)?;
        Ok(Engine { nets, states, data, members: members.to_vec() })
    }

    fn enough(&self, slots: usize) -> Result<()> {
        if slots > self.states.len() {
            return Err(Error::Invalid(format!("{slots} slots were asked for and there are {}", self.states.len())));
        }
        Ok(())
    }
}

/// One batch of one member, unless it is not its turn.
fn step(core: &Core, data: &Owned, members: &[Member], slot: &mut Slot, lane: &mut Lane, state: &mut State) {
    if state.slot.active == 0 || state.slot.due == 1 {
        return;
    }
    let plan = &core.plan;
    let left = state.epoch.samples.saturating_sub(state.epoch.cursor) as usize;
    let member_batch = MemberBatch::new(plan, data, &members[state.slot.index as usize], *state);
    let (loss, weight) = slot.gradient(core, lane, &member_batch, left.min(plan.recipe.batch));
    let norm = if weight == 0.0 { 0.0 } else { Slot::squares(lane).sqrt() / weight };
    if !norm.is_finite() {
        (state.slot.fault, state.slot.active) = (1, 0);
        return;
    }
    if weight != 0.0 {
        let t = state.slot.step + 1;
        let rate = f64::from(state.slot.rate) * plan.recipe.schedule.factor(t, state.slot.total);
        let memory = plan.recipe.average.filter(|_| t > 1).unwrap_or(0.0);
        slot.optimise(core, lane, &Step::new(&plan.recipe.optimiser, rate, t, norm, weight), memory);
    }
    advance(state, plan.recipe.batch, loss, weight, norm);
}

impl Backend for Engine {
    fn steps(&mut self, slots: usize, steps: u32) -> Result<()> {
        self.enough(slots)?;
        let Engine { nets, states, data, members } = self;
        nets.each(&mut states[..slots], |core, slot, lane, state| {
            (0..steps).for_each(|_| step(core, data, members, slot, lane, state));
        });
        Ok(())
    }

    fn states(&mut self) -> Result<Vec<State>> {
        Ok(self.states.clone())
    }

    fn set_states(&mut self, states: &[State]) -> Result<()> {
        if states.len() != self.states.len() {
            return Err(Error::Invalid(format!(
                "{} states for {} slots; give one for each",
                states.len(),
                self.states.len()
            )));
        }
        for state in states {
            let end = state.epoch.list.saturating_add(u64::from(state.epoch.samples));
            if state.slot.index as usize >= self.members.len() || end > self.data.lists.len() as u64 {
                return Err(Error::Invalid(format!(
                    "the state of member {} names data that is not there",
                    state.slot.id
                )));
            }
        }
        self.states.copy_from_slice(states);
        Ok(())
    }

    fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        self.nets.slot(a)?;
        self.nets.slot(b)?;
        self.nets.slots.swap(a, b);
        self.states.swap(a, b);
        Ok(())
    }

    fn adopt(&mut self, from: usize, to: usize) -> Result<()> {
        self.nets.adopt(from, to)
    }

    fn score(&mut self, slots: usize) -> Result<Vec<Sums>> {
        self.enough(slots)?;
        let Engine { nets: Nets { pool, core, slots: all, .. }, states, data, members } = self;
        let states = &states[..slots];
        let exchange = |slots: &mut [Slot]| {
            let due = slots.par_iter_mut().zip(states).filter(|(_, state)| state.slot.due == 1);
            due.for_each(|(slot, _)| slot.exchange(&core.plan));
        };
        Ok(pool.install(|| {
            exchange(&mut all[..slots]);
            let sums = score::score(core, data, members, &all[..slots], states);
            exchange(&mut all[..slots]);
            sums
        }))
    }

    fn logits(&mut self, slot: usize, rows: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.nets.slot(slot)?;
        let net = &self.nets.core.plan.net;
        self.data.check(net, rows)?;
        let out = |h: &Head| filled(0.0, rows.len() * h.classes, "outputs");
        let mut out: Vec<Vec<f32>> = net.heads.iter().map(out).collect::<Result<_>>()?;
        let Engine { nets, states, data, members } = self;
        nets.slots[slot].exchange(&nets.core.plan);
        let source = data.source(&members[states[slot].slot.index as usize]);
        nets.forward(&[(slot, source, rows)], None, &mut [out.iter_mut().map(Vec::as_mut_slice).collect()]);
        nets.slots[slot].exchange(&nets.core.plan);
        Ok(out)
    }

    fn read(&mut self, slot: usize, arena: Arena) -> Result<Vec<f32>> {
        self.nets.read(slot, arena)
    }

    fn write(&mut self, slot: usize, arena: Arena, values: &[f32]) -> Result<()> {
        self.nets.write(slot, arena, values)
    }
}
