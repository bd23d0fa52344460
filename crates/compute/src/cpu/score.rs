//! Evaluation: rows in fixed chunks of [`BLOCK`], the last one filled up, so that a row's logits do not depend on its
//! company.

#![expect(unsafe_code, reason = "threads write disjoint rows of the logits and sums")]

use super::block;
use super::memory::Split;
use super::plan::BLOCK;
use super::slot::{Scratch, Slot, each};
use super::{Shared, loops};
use crate::ops::loss::guess;
use crate::population::Member;
use crate::population::backend::Sums;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sums over the validation list of every slot that is due.
pub(super) fn score(shared: &Shared, slots: &[Slot]) -> Vec<Sums> {
    let mut work = Vec::new(); // (slot, the samples of a chunk)
    for (i, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.state.due == 1) {
        if let Some(list) = shared.members[slot.state.index as usize].valid {
            let samples = &shared.data.lists[shared.data.list(list)];
            work.extend(samples.chunks(BLOCK).map(|chunk| (i, chunk)));
        }
    }
    let classes: Vec<usize> = shared.plan.net.heads.iter().map(|h| h.classes).collect();
    let counts: Vec<Vec<Vec<AtomicU64>>> = slots
        .iter()
        .map(|slot| {
            let wanted = slot.state.due == 1 && shared.members[slot.state.index as usize].valid.is_some();
            let empty = |n: &usize| (0..n * n).map(|_| AtomicU64::new(0)).collect();
            if wanted { classes.iter().map(empty).collect() } else { vec![] }
        })
        .collect();
    let mut sums = vec![(0.0, 0.0); work.len()]; // loss and weight of each chunk
    let shares = Split::new(&mut sums);
    each(work.len(), 1, |i| {
        let (slot, samples) = work[i];
        // SAFETY: every chunk has its own sum.
        let sum = unsafe { shares.part(i..i + 1) };
        sum[0] = chunk(shared, &slots[slot], samples, &counts[slot]);
    });
    let whole = |confusion: Vec<Vec<AtomicU64>>| {
        confusion.into_iter().map(|c| c.into_iter().map(AtomicU64::into_inner).collect())
    };
    let mut out: Vec<Sums> =
        counts.into_iter().map(|c| Sums { loss: 0.0, weight: 0.0, confusion: whole(c).collect() }).collect();
    for ((slot, _), (loss, weight)) in work.iter().zip(sums) {
        out[*slot].loss += loss;
        out[*slot].weight += weight;
    }
    out
}

/// Loss and weight of a chunk; counts its guesses. Counts are whole numbers, so their order is free.
fn chunk(shared: &Shared, slot: &Slot, samples: &[u32], counts: &[Vec<AtomicU64>]) -> (f64, f64) {
    let Shared { plan, data, .. } = shared;
    let (mut loss, mut weight) = (0.0, 0.0);
    let mut spare = [0f32; 256];
    evaluate(shared, slot, samples, |member, h, i, z| {
        let label = data.labels[h][samples[i] as usize];
        let w = block::head_weight(data, member, h, samples[i], label);
        loss += loops::softmax_cross_entropy(z, label, w, 0.0, &mut spare[..z.len()]);
        if h == 0 {
            weight += f64::from(w);
        }
        counts[h][usize::from(label) * plan.net.heads[h].classes + guess(z)].fetch_add(1, Relaxed);
    });
    (loss, weight)
}

/// `[heads][rows, classes]` the logits of one slot.
pub(super) fn logits(shared: &Shared, slot: &Slot, rows: &[u32]) -> Vec<Vec<f32>> {
    let mut out: Vec<Vec<f32>> = shared.plan.net.heads.iter().map(|h| vec![0.0; rows.len() * h.classes]).collect();
    let heads: Vec<Split<'_, f32>> = out.iter_mut().map(|head| Split::new(head)).collect();
    each(rows.len().div_ceil(BLOCK), 1, |chunk| {
        let first = chunk * BLOCK;
        let samples = &rows[first..rows.len().min(first + BLOCK)];
        evaluate(shared, slot, samples, |_, h, i, z| {
            let to = (first + i) * z.len();
            // SAFETY: every row of every head is written by one chunk.
            unsafe { heads[h].part(to..to + z.len()) }.copy_from_slice(z);
        });
    });
    drop(heads);
    out
}

/// Hands the logits of each head and row to `f(member, head, row, logits)`, heads in order, rows in order.
fn evaluate(shared: &Shared, slot: &Slot, samples: &[u32], mut f: impl FnMut(&Member, usize, usize, &[f32])) {
    let plan = &shared.plan;
    let member = &shared.members[slot.state.index as usize];
    shared.scratch(|Scratch { values, sequences, samples: full, .. }| {
        full.fill(samples[0]);
        full[..samples.len()].copy_from_slice(samples);
        let mut values = values.first(BLOCK);
        let source = shared.data.source(member);
        block::forward(plan, source, slot.weights(), full, &mut values, sequences, None);
        for (h, head) in plan.layout.linears[plan.first_head()..].iter().enumerate() {
            let stride = plan.stride(head.output.buffer);
            let rows = values.read(plan, head.output.buffer).chunks_exact(stride).take(samples.len());
            rows.enumerate().for_each(|(i, z)| f(member, h, i, &z[..head.outputs]));
        }
    });
}
