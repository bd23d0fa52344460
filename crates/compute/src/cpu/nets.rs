//! Nets on this computer's processor: parameters, optimiser and the threads that work on them, without a loss.
//!
//! A population is these with lists, cross-entropy and epochs ([`super::Engine`]); anyone else hands in the gradient at
//! the outputs. Rows that are only evaluated go in fixed chunks of [`BLOCK`], the last one filled up, so that a row's
//! outputs do not depend on its company.

#![expect(unsafe_code, reason = "threads write disjoint rows of the outputs")]

use super::block::{self, Pass};
use super::buffers::Rows;
use super::data::Source;
use super::descent::write_back;
use super::loops;
use super::memory::Split;
use super::plan::{BLOCK, Plan};
use super::recurrent;
use super::slot::{Lane, Scratch, Slot, Task, each};
use super::team::Team;
use crate::error::{Error, Result};
use crate::host::copied;
use crate::ops::optimise::Step;
use crate::population::Optimiser;
use crate::population::backend::Arena;
use crate::random::Turn;
use std::sync::{Mutex, PoisonError};

/// Nets of one shape.
#[derive(Debug)]
pub(crate) struct Nets {
    pub(super) pool: rayon::ThreadPool,
    pub(super) core: Core,
    pub(super) slots: Vec<Slot>, // [P]
    pub(super) lanes: Vec<Lane>, // at most one for each thread
}

/// What all threads read, and each one's scratch.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) plan: Plan,
    pub(super) scratch: Vec<Mutex<Scratch>>, // [threads]
    pub(super) team: Team,
}

impl Core {
    /// Works with this thread's scratch; `f` must not wait for other threads.
    pub(super) fn scratch(&self, f: impl FnOnce(&mut Scratch)) {
        let thread = rayon::current_thread_index().unwrap_or(0);
        f(&mut self.scratch[thread].lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Hands the outputs of each head and row of at most [`BLOCK`] rows to `f(head, row, outputs)`, heads in order,
    /// rows in order. In a pass of training some values are left out.
    pub(super) fn evaluate(
        &self,
        slot: &Slot,
        source: Source<'_>,
        ids: &[u32],
        pass: Option<Pass>,
        mut f: impl FnMut(usize, usize, &[f32]),
    ) {
        let plan = &self.plan;
        self.scratch(|Scratch { values, sequences, samples: full, .. }| {
            full.fill(ids[0]);
            full[..ids.len()].copy_from_slice(ids);
            let mut values = values.first(BLOCK);
            block::forward(plan, source, slot.weights(), full, &mut values, sequences, pass);
            for (h, head) in plan.layout.linears[plan.first_head()..].iter().enumerate() {
                let stride = plan.stride(head.output.buffer);
                let rows = values.read(plan, head.output.buffer).chunks_exact(stride).take(ids.len());
                rows.enumerate().for_each(|(i, z)| f(h, i, &z[..head.outputs]));
            }
        });
    }
}

/// Bytes that so many members take.
pub(crate) fn need(plan: &Plan, members: usize, threads: usize, average: bool) -> u64 {
    let (params, columns) = (plan.layout.params as u64, plan.columns() as u64);
    let lanes = threads.min(members) as u64;
    let rows = 4 + u64::from(plan.round) + u64::from(average);
    let arenas = members as u64 * (rows * params + plan.all_packed() as u64);
    let wide = if plan.wide() { 2 * plan.slice as u64 * columns } else { 0 };
    let narrow = if plan.wide() { 0 } else { plan.block as u64 * columns };
    let scratch = threads as u64 * (BLOCK as u64 * columns + narrow + recurrent::floats(plan) as u64);
    4 * (arenas + lanes * (plan.partials() as u64 * params + wide) + scratch)
}

fn next<T>(all: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    all.lock().unwrap_or_else(PoisonError::into_inner).next()
}

impl Nets {
    /// Members in slots of their order; `first` are their parameters.
    pub(crate) fn new(plan: Plan, first: &[Vec<f32>], average: bool, threads: usize) -> Result<Nets> {
        if threads == 0 {
            return Err(Error::Invalid("0 threads can do nothing; give at least 1".into()));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("compute-{i}")).build();
        let pool = pool.map_err(|e| Error::Device {
            what: format!("{threads} threads cannot be started: {e}"),
            remedy: "ask for fewer threads".into(),
        })?;
        let slots = first.iter().map(|first| Slot::new(&plan, first, average)).collect::<Result<_>>()?;
        let lanes = (0..threads.min(first.len())).map(|post| Lane::new(&plan, post)).collect::<Result<Vec<_>>>()?;
        let scratch = (0..threads).map(|_| Scratch::new(&plan).map(Mutex::new)).collect::<Result<_>>()?;
        let team = Team::new(lanes.len());
        Ok(Nets { pool, core: Core { plan, scratch, team }, slots, lanes })
    }

    pub(super) fn slot(&mut self, slot: usize) -> Result<&mut Slot> {
        let n = self.slots.len();
        self.slots.get_mut(slot).ok_or_else(|| Error::Invalid(format!("there is no slot {slot} among {n}")))
    }

    /// Works on some slots, each with something of its own. A thread with a lane takes one slot after the other; one
    /// that finds no more helps with parts of others' batches.
    pub(super) fn each<T: Send>(&mut self, own: &mut [T], f: impl Fn(&Core, &mut Slot, &mut Lane, &mut T) + Sync) {
        let Nets { pool, core, slots, lanes } = self;
        let n = lanes.len().min(own.len());
        let lanes = Mutex::new(lanes[..n].iter_mut());
        let work = Mutex::new(slots.iter_mut().zip(own));
        core.team.begin(n);
        pool.broadcast(|_| {
            if let Some(lane) = next(&lanes) {
                let _worker = core.team.worker();
                while let Some((slot, own)) = next(&work) {
                    f(core, slot, lane, own);
                }
            }
            core.team.help();
        });
    }

    /// The outputs of some rows, for each of `tasks` `(slot, source of its first row, ids)`, into
    /// `out[task][head][rows, outputs]`; `turns` `[tasks]` where values are left out as a step does.
    pub(crate) fn forward(
        &self,
        tasks: &[(usize, Source<'_>, &[u32])],
        turns: Option<&[Turn]>,
        out: &mut [Vec<&mut [f32]>],
    ) {
        let extras = self.core.plan.net.extras();
        let mut work = Vec::new(); // (task, first row)
        for (t, (_, _, ids)) in tasks.iter().enumerate() {
            work.extend((0..ids.len()).step_by(BLOCK).map(|first| (t, first)));
        }
        let out: Vec<Vec<Split<'_, f32>>> =
            out.iter_mut().map(|heads| heads.iter_mut().map(|head| Split::new(head)).collect()).collect();
        self.pool.install(|| {
            each(work.len(), 1, |w| {
                let (t, first) = work[w];
                let (slot, source, ids) = tasks[t];
                let ids = &ids[first..ids.len().min(first + BLOCK)];
                let source = Source { extras: source.extras.get(first * extras..).unwrap_or_default(), ..source };
                let pass = turns.map(|turns| Pass { turn: turns[t], first: first as u32, keep: false });
                self.core.evaluate(&self.slots[slot], source, ids, pass, |h, i, z| {
                    let to = (first + i) * z.len();
                    // SAFETY: every row of every head is written by one chunk.
                    unsafe { out[t][h].part(to..to + z.len()) }.copy_from_slice(z);
                });
            });
        });
    }

    /// The gradients of rows whose gradients at the outputs are given, a task for each of the first slots.
    pub(crate) fn backward(&mut self, tasks: &mut [Given<'_>]) {
        self.each(tasks, |core, slot, lane, task| {
            slot.gradient(core, lane, task, task.ids.len());
        });
    }

    /// One step of the optimiser for each of the first slots that has one.
    pub(crate) fn optimise(&mut self, steps: &mut [Update<'_>]) {
        self.each(steps, |core, slot, lane, update| {
            if !update.go {
                return;
            }
            let params = core.plan.layout.params;
            for (i, part) in update.parts.chunks_exact(params).enumerate() {
                if i == 0 {
                    slot.gradient.copy_from_slice(part);
                } else {
                    loops::add(&mut slot.gradient, part);
                }
            }
            slot.square(core, lane);
            let norm = Slot::squares(lane).sqrt() / update.weight;
            update.norm = norm;
            if norm.is_finite() {
                let step = Step::new(&update.optimiser, f64::from(update.rate), update.t, norm, update.weight);
                slot.optimise(core, lane, &step, 0.0);
            }
        });
    }

    /// One slot's row of an arena.
    pub(crate) fn read(&mut self, slot: usize, arena: Arena) -> Result<Vec<f32>> {
        copied(self.slot(slot)?.arena(arena)?, "parameters")
    }

    /// Replaces one slot's row of an arena.
    pub(crate) fn write(&mut self, slot: usize, arena: Arena, values: &[f32]) -> Result<()> {
        let params = self.core.plan.layout.params;
        if values.len() != params {
            return Err(Error::Invalid(format!("{} numbers for a row of {params}; give the whole row", values.len())));
        }
        self.slot(slot)?.arena(arena)?.copy_from_slice(values);
        if arena == Arena::Params {
            self.slots[slot].renew(&self.core.plan);
        }
        Ok(())
    }

    /// One slot's parameters and optimiser become another's.
    pub(crate) fn adopt(&mut self, from: usize, to: usize) -> Result<()> {
        self.slot(from)?;
        self.slot(to)?;
        if let Ok([from, to]) = self.slots.get_disjoint_mut([from, to]) {
            to.adopt(from);
        }
        Ok(())
    }
}

/// Rows of one slot and the gradients at their outputs.
#[derive(Debug)]
pub(crate) struct Given<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) ids: &'a [u32],        // [rows]
    pub(crate) d_out: Vec<&'a [f32]>, // [heads][rows, outputs]
    pub(crate) turn: Turn,
}

impl Task for Given<'_> {
    fn ids(&self, at: usize, ids: &mut [u32]) {
        ids.copy_from_slice(&self.ids[at..at + ids.len()]);
    }

    fn source(&self, at: usize) -> Source<'_> {
        let each = self.source.extras.len() / self.ids.len().max(1);
        Source { extras: self.source.extras.get(at * each..).unwrap_or_default(), ..self.source }
    }

    fn turn(&self) -> Turn {
        self.turn
    }

    fn loss(&self, plan: &Plan, at: usize, ids: &[u32], _: &Rows<'_>, back: &mut Rows<'_>) -> (f64, f64) {
        for (head, given) in plan.layout.linears[plan.first_head()..].iter().zip(&self.d_out) {
            let given = &given[at * head.outputs..(at + ids.len()) * head.outputs];
            write_back(plan, head, given, back);
        }
        (0.0, 1.0)
    }
}

/// One slot's step of the optimiser.
#[derive(Debug)]
pub(crate) struct Update<'a> {
    pub(crate) go: bool,
    pub(crate) optimiser: Optimiser,
    pub(crate) rate: f32,
    pub(crate) t: u32,
    pub(crate) weight: f64,
    pub(crate) parts: &'a [f32], // [parts, params] to be added in order first; empty: the gradient is there
    pub(crate) norm: f64,        // written
}
