//! Steps through many minibatches, by the caller's loss.

use super::buffers::Rows;
use super::data::Source;
use super::loops;
use super::nets::Nets;
use super::plan::Plan;
use super::slot::{Slot, Task};
use crate::nets::Loss;
use crate::ops::optimise::Step;
use crate::population::Optimiser;
use crate::random::Turn;

/// One slot's minibatches.
pub(crate) struct Descending<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) ids: &'a [u32], // [all rows]
    /// Rows of a minibatch.
    pub(crate) rows: usize,
    pub(crate) member: usize,
    pub(crate) seed: u64,
    pub(crate) id: u32,
    pub(crate) go: bool,
    pub(crate) optimiser: Optimiser,
    pub(crate) rate: f32,
    pub(crate) weight: f64,
    /// Steps of the optimiser; counted on.
    pub(crate) done: u32,
    pub(crate) loss: &'a dyn Loss,
}

impl Nets {
    /// A task for each of the first slots.
    pub(crate) fn descend(&mut self, tasks: &mut [Descending<'_>]) {
        self.each(tasks, |core, slot, lane, task| {
            let all = task.ids.len();
            for (minibatch, first) in (0..if task.go { all } else { 0 }).step_by(task.rows).enumerate() {
                let rows = task.rows.min(all - first);
                slot.gradient(core, lane, &Minibatch { of: task, first, number: minibatch }, rows);
                if !task.loss.goes(task.member, minibatch) {
                    return;
                }
                let norm = Slot::squares(lane).sqrt() / task.weight;
                if norm.is_finite() {
                    task.done += 1;
                    let step = Step::new(&task.optimiser, f64::from(task.rate), task.done, norm, task.weight);
                    slot.optimise(core, lane, &step, 0.0);
                }
                if !task.loss.stepped(task.member, minibatch, norm as f32) {
                    return;
                }
            }
        });
    }
}

/// Rows from `first` on.
struct Minibatch<'a> {
    of: &'a Descending<'a>,
    first: usize,
    number: usize,
}

impl Task for Minibatch<'_> {
    fn ids(&self, at: usize, ids: &mut [u32]) {
        let from = self.first + at;
        ids.copy_from_slice(&self.of.ids[from..from + ids.len()]);
    }

    fn source(&self, at: usize) -> Source<'_> {
        let source = self.of.source;
        let each = source.extras.len() / self.of.ids.len().max(1);
        Source { extras: source.extras.get((self.first + at) * each..).unwrap_or_default(), ..source }
    }

    fn turn(&self) -> Turn {
        Turn { seed: self.of.seed, member: self.of.id, step: self.of.done }
    }

    fn loss(&self, plan: &Plan, at: usize, ids: &[u32], values: &Rows<'_>, back: &mut Rows<'_>) -> (f64, f64) {
        let heads = &plan.layout.linears[plan.first_head()..];
        let (mut out, mut d_out) = (Vec::with_capacity(heads.len()), Vec::with_capacity(heads.len()));
        for head in heads {
            let rows = values.read(plan, head.output.buffer).chunks_exact(plan.stride(head.output.buffer));
            let mut own = Vec::with_capacity(ids.len() * head.outputs);
            rows.take(ids.len()).for_each(|z| own.extend_from_slice(&z[..head.outputs]));
            d_out.push(vec![0.0; own.len()]);
            out.push(own);
        }
        self.of.loss.losses(self.of.member, self.number, at..at + ids.len(), &out, &mut d_out);
        for (head, given) in heads.iter().zip(&d_out) {
            write_back(plan, head, given, back);
        }
        (0.0, 1.0)
    }
}

/// The gradient at a head's outputs, `[rows, outputs]`, into its buffer; padding zero.
pub(super) fn write_back(plan: &Plan, head: &crate::net::Linear, given: &[f32], back: &mut Rows<'_>) {
    let dz = back.write(plan, head.output.buffer);
    let given = given.chunks_exact(head.outputs);
    for (dz, given) in dz.chunks_exact_mut(plan.stride(head.output.buffer)).zip(given) {
        let (dz, padding) = dz.split_at_mut(head.outputs);
        dz.copy_from_slice(given);
        padding.fill(0.0);
    }
    if plan.round {
        loops::round(dz);
    }
}
