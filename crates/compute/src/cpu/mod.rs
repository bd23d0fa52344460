//! The CPU twin of a population.
//!
//! Work is spread over slots and, within a slot, over fixed parts of its batch; no product is spread over threads. What
//! a part is follows from net and recipe alone, and parts are added in order, so a seed gives the same bits for any
//! number of threads and members. Products of small layers are our own, those of recurrent layers fused with their
//! gates, those of large layers `gemm`'s; other loops are written for SIMD; all look at run time what the processor
//! has. After the first step nothing is allocated but what `gemm` packs its operands into.

mod block;
mod buffers;
mod curve;
mod data;
mod loops;
mod memory;
mod norm;
mod plan;
mod product;
mod recurrent;
mod score;
mod simd;
mod slot;
mod team;
#[cfg(test)]
mod tests;
mod tile;

use crate::error::{Error, Result};
use crate::net::{self, Layout, Net};
use crate::population::backend::{Arena, Backend, Sums, no_average};
use crate::population::{Data, Member, Pace, Recipe, State, check};
use crate::tables::Tables;
use data::Owned;
use memory::Floats;
use plan::{BLOCK, Plan};
use rayon::prelude::*;
pub use recurrent::stack::Stack;
use slot::{Lane, Scratch, Slot};
use std::sync::{Arc, Mutex, PoisonError};
use team::Team;

/// A population on this computer's processor.
#[derive(Debug)]
pub(crate) struct Engine {
    pool: rayon::ThreadPool,
    shared: Shared,
    slots: Vec<Slot>, // [P]
    lanes: Vec<Lane>, // at most one for each thread
}

/// What all threads read, and each one's scratch.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    data: Owned,
    members: Vec<Member>,
    scratch: Vec<Mutex<Scratch>>, // [threads]
    team: Team,
}

impl Shared {
    /// Works with this thread's scratch; `f` must not wait for other threads.
    fn scratch(&self, f: impl FnOnce(&mut Scratch)) {
        let thread = rayon::current_thread_index().unwrap_or(0);
        f(&mut self.scratch[thread].lock().unwrap_or_else(PoisonError::into_inner));
    }
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
    let (params, columns) = (layout.params as u64, plan.columns() as u64);
    let lanes = threads.min(members) as u64;
    let rows = 4 + u64::from(plan.round) + u64::from(recipe.average.is_some());
    let arenas = members as u64 * (rows * params + plan.all_packed() as u64);
    let wide = if plan.wide() { 2 * plan.slice as u64 * columns } else { 0 };
    let narrow = if plan.wide() { 0 } else { plan.block as u64 * columns };
    let scratch = threads as u64 * (BLOCK as u64 * columns + narrow + recurrent::floats(&plan) as u64);
    4 * (arenas + lanes * (plan.partials() as u64 * params + wide) + scratch) + Owned::need(data)
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
        if threads == 0 {
            return Err(Error::Asked("0 threads can do nothing; give at least 1".into()));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("compute-{i}")).build();
        let pool = pool.map_err(|e| Error::Device {
            what: format!("{threads} threads cannot be started: {e}"),
            remedy: "ask for fewer threads".into(),
        })?;
        let plan = Plan::new(net, layout, recipe, pace);
        let data = Owned::new(tables, data)?;
        let slots = members.iter().enumerate().map(|(index, member)| new_slot(&plan, &data, member, index)).collect();
        let lanes: Vec<_> = (0..threads.min(members.len())).map(|post| Lane::new(&plan, post)).collect();
        let scratch = (0..threads).map(|_| Mutex::new(Scratch::new(&plan))).collect();
        let team = Team::new(lanes.len());
        Ok(Engine { pool, shared: Shared { plan, data, members: members.to_vec(), scratch, team }, slots, lanes })
    }

    fn slot(&mut self, slot: usize) -> Result<&mut Slot> {
        let n = self.slots.len();
        self.slots.get_mut(slot).ok_or_else(|| Error::Asked(format!("there is no slot {slot} among {n}")))
    }

    fn enough(&self, slots: usize) -> Result<()> {
        if slots > self.slots.len() {
            return Err(Error::Asked(format!("{slots} slots were asked for and there are {}", self.slots.len())));
        }
        Ok(())
    }
}

fn next<T>(all: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    all.lock().unwrap_or_else(PoisonError::into_inner).next()
}

fn new_slot(plan: &Plan, data: &Owned, member: &Member, index: usize) -> Slot {
    let params = plan.layout.params;
    let list = data.list(member.train);
    let state = State::first(member, index, list.start, list.len(), plan.recipe.batch);
    let fresh = || Floats::new(params);
    let rounded = if plan.round { fresh() } else { Floats::default() };
    let packed = Floats::new(plan.all_packed());
    let average = if plan.recipe.average.is_some() { fresh() } else { Floats::default() };
    let [params, mean, square, gradient] = [fresh(), fresh(), fresh(), fresh()];
    let mut slot = Slot { state, params, mean, square, gradient, average, rounded, packed };
    let first = net::init(&plan.layout, plan.recipe.seed, member.id);
    if !slot.average.is_empty() {
        slot.average.copy_from_slice(&first);
    }
    slot.set_params(plan, &first);
    slot
}

impl Slot {
    fn set_params(&mut self, plan: &Plan, values: &[f32]) {
        self.params.copy_from_slice(values);
        self.renew(plan);
    }

    /// Rounds and packs the parameters anew.
    fn renew(&mut self, plan: &Plan) {
        if plan.round {
            slot::hold(plan, 0, &self.params, &mut self.rounded);
        }
        self.pack(plan);
    }

    /// Exchanges the parameters and their average: once before a score, once after it.
    fn exchange(&mut self, plan: &Plan) {
        if !self.average.is_empty() {
            std::mem::swap(&mut self.params, &mut self.average);
            self.renew(plan);
        }
    }
}

impl Backend for Engine {
    fn steps(&mut self, slots: usize, steps: u32) -> Result<()> {
        self.enough(slots)?;
        let Engine { pool, shared, slots: all, lanes } = self;
        // A thread with a lane takes one slot after the other through all steps; one that finds no more helps with
        // parts of others' batches.
        let n = lanes.len().min(slots);
        let lanes = Mutex::new(lanes[..n].iter_mut());
        let slots = Mutex::new(all[..slots].iter_mut());
        shared.team.begin(n);
        pool.broadcast(|_| {
            if let Some(lane) = next(&lanes) {
                let _worker = shared.team.worker();
                while let Some(slot) = next(&slots) {
                    (0..steps).for_each(|_| slot.step(shared, lane));
                }
            }
            shared.team.help();
        });
        Ok(())
    }

    fn states(&mut self) -> Result<Vec<State>> {
        Ok(self.slots.iter().map(|slot| slot.state).collect())
    }

    fn set_states(&mut self, states: &[State]) -> Result<()> {
        if states.len() != self.slots.len() {
            return Err(Error::Asked(format!(
                "{} states for {} slots; give one for each",
                states.len(),
                self.slots.len()
            )));
        }
        for state in states {
            let end = u64::from(state.list) + u64::from(state.samples);
            if state.index as usize >= self.shared.members.len() || end > self.shared.data.lists.len() as u64 {
                return Err(Error::Asked(format!("the state of member {} names data that is not there", state.id)));
            }
        }
        self.slots.iter_mut().zip(states).for_each(|(slot, state)| slot.state = *state);
        Ok(())
    }

    fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        self.slot(a)?;
        self.slot(b)?;
        self.slots.swap(a, b);
        Ok(())
    }

    fn score(&mut self, slots: usize) -> Result<Vec<Sums>> {
        self.enough(slots)?;
        let Engine { pool, shared, slots: all, .. } = self;
        let exchange = |slots: &mut [Slot]| {
            slots.par_iter_mut().filter(|slot| slot.state.due == 1).for_each(|slot| slot.exchange(&shared.plan));
        };
        Ok(pool.install(|| {
            exchange(&mut all[..slots]);
            let sums = score::score(shared, &all[..slots]);
            exchange(&mut all[..slots]);
            sums
        }))
    }

    fn logits(&mut self, slot: usize, rows: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.slot(slot)?;
        self.shared.data.check(&self.shared.plan.net, rows)?;
        self.slots[slot].exchange(&self.shared.plan);
        let logits = self.pool.install(|| score::logits(&self.shared, &self.slots[slot], rows));
        self.slots[slot].exchange(&self.shared.plan);
        Ok(logits)
    }

    fn read(&mut self, slot: usize, arena: Arena) -> Result<Vec<f32>> {
        let slot = self.slot(slot)?;
        let row = match arena {
            Arena::Params => &slot.params,
            Arena::Mean => &slot.mean,
            Arena::Square => &slot.square,
            Arena::Gradient => &slot.gradient,
            Arena::Average if slot.average.is_empty() => return Err(no_average()),
            Arena::Average => &slot.average,
        };
        Ok(row.to_vec())
    }

    fn write(&mut self, slot: usize, arena: Arena, values: &[f32]) -> Result<()> {
        let params = self.shared.plan.layout.params;
        if values.len() != params {
            return Err(Error::Asked(format!("{} numbers for a row of {params}; give the whole row", values.len())));
        }
        self.slot(slot)?;
        let slot = &mut self.slots[slot];
        match arena {
            Arena::Params => slot.set_params(&self.shared.plan, values),
            Arena::Mean => slot.mean.copy_from_slice(values),
            Arena::Square => slot.square.copy_from_slice(values),
            Arena::Gradient => slot.gradient.copy_from_slice(values),
            Arena::Average if slot.average.is_empty() => return Err(no_average()),
            Arena::Average => slot.average.copy_from_slice(values),
        }
        Ok(())
    }
}
