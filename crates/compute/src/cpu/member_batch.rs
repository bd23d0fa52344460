//! What a population's member learns from a batch: rows of its list in the order of its epoch, and cross-entropy.

use super::buffers::Rows;
use super::data::{Owned, Source};
use super::loops;
use super::plan::Plan;
use super::slot::Task;
use crate::population::{Member, State};
use crate::random::{Permutation, Turn};

/// One batch of one member.
#[derive(Debug)]
pub(super) struct MemberBatch<'a> {
    data: &'a Owned,
    member: &'a Member,
    state: State,
    order: Permutation,
    turn: Turn,
}

impl<'a> MemberBatch<'a> {
    pub(super) fn new(plan: &Plan, data: &'a Owned, member: &'a Member, state: State) -> MemberBatch<'a> {
        let seed = plan.recipe.seed;
        let order = Permutation::new(state.epoch.samples, seed, state.slot.id, state.epoch.done);
        MemberBatch { data, member, state, order, turn: Turn { seed, member: state.slot.id, step: state.slot.step } }
    }
}

impl Task for MemberBatch<'_> {
    fn ids(&self, at: usize, ids: &mut [u32]) {
        for (i, id) in ids.iter_mut().enumerate() {
            let place = self.order.at(self.state.epoch.cursor + (at + i) as u32);
            *id = self.data.lists[self.state.epoch.list as usize + place as usize];
        }
    }

    fn source(&self, _at: usize) -> Source<'_> {
        self.data.source(self.member)
    }

    fn turn(&self) -> Turn {
        self.turn
    }

    fn loss(&self, plan: &Plan, _at: usize, ids: &[u32], values: &Rows<'_>, back: &mut Rows<'_>) -> (f64, f64) {
        let (mut loss, mut weight) = (0.0, 0.0);
        for (h, head) in plan.layout.linears[plan.first_head()..].iter().enumerate() {
            let stride = plan.stride(head.output.buffer);
            let z = values.read(plan, head.output.buffer).chunks_exact(stride);
            let dz = back.write(plan, head.output.buffer);
            for ((z, dz), &id) in z.zip(dz.chunks_exact_mut(stride)).zip(ids) {
                let label = self.data.labels[h][id as usize];
                let w = head_weight(self.data, self.member, h, id, label);
                let (dz, padding) = dz.split_at_mut(head.outputs);
                loss += loops::softmax_cross_entropy(&z[..head.outputs], label, w, plan.recipe.smoothing, dz);
                padding.fill(0.0);
                if h == 0 {
                    weight += f64::from(w);
                }
            }
            if plan.round {
                loops::round(dz);
            }
        }
        (loss, weight)
    }
}

/// A sample's weight at one head: its own times that of its class.
pub(super) fn head_weight(data: &Owned, member: &Member, head: usize, sample: u32, label: u8) -> f32 {
    let classes = &member.class_weights[head];
    data.weight(sample) * if classes.is_empty() { 1.0 } else { classes[usize::from(label)] }
}
