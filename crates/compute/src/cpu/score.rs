//! Validation: losses, weights and guesses of lists, in fixed chunks of [`BLOCK`] rows.

#![expect(unsafe_code, reason = "threads write disjoint sums")]

use super::data::Owned;
use super::loops;
use super::member_batch::head_weight;
use super::memory::Split;
use super::nets::Core;
use super::plan::BLOCK;
use super::slot::{Slot, each};
use crate::ops::loss::guess;
use crate::population::backend::Sums;
use crate::population::{Member, State};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sums over the validation list of every slot that is due.
pub(super) fn score(core: &Core, data: &Owned, members: &[Member], slots: &[Slot], states: &[State]) -> Vec<Sums> {
    let mut work = Vec::new(); // (slot, the samples of a chunk)
    for (i, state) in states.iter().enumerate().filter(|(_, state)| state.slot.due == 1) {
        if let Some(list) = members[state.slot.index as usize].valid {
            let samples = &data.lists[data.list(list)];
            work.extend(samples.chunks(BLOCK).map(|chunk| (i, chunk)));
        }
    }
    let classes: Vec<usize> = core.plan.net.heads.iter().map(|h| h.classes).collect();
    let counts: Vec<Vec<Vec<AtomicU64>>> = states
        .iter()
        .map(|state| {
            let wanted = state.slot.due == 1 && members[state.slot.index as usize].valid.is_some();
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
        let member = &members[states[slot].slot.index as usize];
        sum[0] = chunk(core, data, member, &slots[slot], samples, &counts[slot]);
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
fn chunk(
    core: &Core,
    data: &Owned,
    member: &Member,
    slot: &Slot,
    samples: &[u32],
    counts: &[Vec<AtomicU64>],
) -> (f64, f64) {
    let (mut loss, mut weight) = (0.0, 0.0);
    let mut spare = [0f32; 256];
    core.evaluate(slot, data.source(member), samples, None, |h, i, z| {
        let label = data.labels[h][samples[i] as usize];
        let w = head_weight(data, member, h, samples[i], label);
        loss += loops::softmax_cross_entropy(z, label, w, 0.0, &mut spare[..z.len()]);
        if h == 0 {
            weight += f64::from(w);
        }
        counts[h][usize::from(label) * core.plan.net.heads[h].classes + guess(z)].fetch_add(1, Relaxed);
    });
    (loss, weight)
}
