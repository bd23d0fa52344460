//! Recurrent layers of some rows of one member, on one thread: all steps forward, all steps back.
//!
//! A step is one fused kernel: the sums of 32 rows for the four gates of 8 units go straight into their curves. `pack` lays the weights
//! out for it. Every sum has one order whatever the tile, so a row's bits do not depend on its place. On the way back the gates are
//! overwritten with their gradients, and the gradient of the weights is summed every few steps, while all it needs is near.

pub(super) mod back;
pub(super) mod pack;
pub(super) mod step;
pub(super) mod sums;

use super::data::Owned;
use super::memory::Floats;
use super::plan::Plan;
use super::simd::LANES;
use crate::net::{GATES, Recurrent};
use crate::population::Member;
use back::Back;
use std::ops::Range;
use step::Forward;
use sums::{Spread, Weigh};

/// Numbers of a row in a block of units: four gates of eight.
const ROW: usize = GATES * LANES;
/// Rows that go through a window together when nothing is kept for the way back.
pub(super) const EVALUATED: usize = 32;
/// Steps whose part of the weights' gradient is summed at once: few enough that they are still near, many enough that the sums are worth fetching.
const STEPS: usize = 4;

/// What one recurrent layer goes through with some rows; a thread has one for each. `n` is the number of rows.
#[derive(Debug)]
pub(super) struct Sequence {
    xh: Floats, // [window + 1, n, wide + units] what step t reads: its inputs and h of the step before; two slots when nothing is kept
    gates: Floats, // [window, units / 8, n, 4, 8] i, f, g, o; on the way back their gradients; one step when nothing is kept
    cells: Floats, // [window, n, units] as the way back sees them
    curved: Floats, // [window, n, units] their tangents
    carry: Floats, // [n, units] the cell between two steps
    dh: Floats,    // [n, units] the gradient at h, from behind or from the step after
    dc: Floats,    // [n, units] the gradient at the cell, from the step after
    above: Floats, // [n, units] the gradient at h, from the layer above
    dw: Floats,    // [units / 8, wide + units + 1, 4, 8]
}

/// Numbers of each part of a [`Sequence`] for so many rows of training, in the order of its fields.
fn sizes(r: &Recurrent, rows: usize) -> [usize; 9] {
    let most = rows.max(EVALUATED);
    let (read, one) = (r.wide + r.units, most * r.units);
    let slots = ((r.window + 1) * rows).max(2 * EVALUATED);
    let kept = r.window * rows * r.units;
    [slots * read, GATES * kept.max(EVALUATED * r.units), kept, kept, one, one, one, one, (read + 1) * GATES * r.units]
}

/// Numbers that the sequences of one thread take.
pub(super) fn floats(plan: &Plan) -> usize {
    plan.layout.recurrents.iter().map(|r| sizes(r, plan.block).iter().sum::<usize>()).sum()
}

impl Sequence {
    /// One for each recurrent layer.
    pub(super) fn all(plan: &Plan) -> Vec<Sequence> {
        plan.layout.recurrents.iter().map(|r| Sequence::new(sizes(r, plan.block))).collect()
    }

    fn new(sizes: [usize; 9]) -> Sequence {
        let [xh, gates, cells, curved, carry, dh, dc, above, dw] = sizes.map(Floats::new);
        Sequence { xh, gates, cells, curved, carry, dh, dc, above, dw }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let all =
            [&self.xh, &self.gates, &self.cells, &self.curved, &self.carry, &self.dh, &self.dc, &self.above, &self.dw];
        all.iter().map(|part| part.len()).sum()
    }
}

/// The recurrent layers of each branch that has some.
fn branches(plan: &Plan) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let all = &plan.layout.recurrents;
    let first = (0..all.len()).filter(|l| all[*l].below.is_none());
    first.map(|l| l..l + 1 + all[l + 1..].iter().take_while(|r| r.below.is_some()).count())
}

/// All steps of all recurrent layers. `last(layer, h)` is handed the top layers' last h, `[n, wide + units]` from the first unit on; with
/// `keep` everything stays for [`backward`].
#[expect(clippy::too_many_arguments, reason = "rows of a member, and where everything of them lies")]
pub(super) fn forward(
    plan: &Plan,
    data: &Owned,
    member: &Member,
    packed: &[f32],
    samples: &[u32],
    sequences: &mut [Sequence],
    keep: bool,
    mut last: impl FnMut(&Recurrent, &[f32]),
) {
    let n = samples.len();
    let all = &plan.layout.recurrents;
    for branch in branches(plan) {
        let window = all[branch.start].window;
        // Where the slot of a step begins, in slots.
        let slot = |t: usize| if keep { t } else { t % 2 };
        for l in branch.clone() {
            let (r, s) = (&all[l], &mut sequences[l]);
            s.carry[..n * r.units].fill(0.0);
            s.xh[..n * (r.wide + r.units)].chunks_exact_mut(r.wide + r.units).for_each(|row| row[r.wide..].fill(0.0));
        }
        let gather = |s: &mut Sequence, steps: Range<usize>| {
            let r = &all[branch.start];
            let row = r.wide + r.units;
            let at = |sample: usize, t: usize| (slot(t) * n + sample) * row;
            data.walk(&plan.net, r.input, member, samples, steps, plan.round, &mut s.xh, r.wide, at);
        };
        if keep {
            // A sample's rows lie side by side in the table, so its whole window is read at once.
            gather(&mut sequences[branch.start], 0..window);
        }
        for t in 0..window {
            if !keep {
                gather(&mut sequences[branch.start], t..t + 1);
            }
            for l in branch.clone() {
                let r = &all[l];
                let row = r.wide + r.units;
                let (lower, own) = sequences.split_at_mut(l);
                let s = &mut own[0];
                if r.below.is_some() {
                    let below = &all[l - 1];
                    let read = below.wide + below.units;
                    let from = &lower[l - 1].xh[slot(t + 1) * n * read..][..n * read];
                    let to = &mut s.xh[slot(t) * n * row..][..n * row];
                    for (to, from) in to.chunks_exact_mut(row).zip(from.chunks_exact(read)) {
                        to[..r.wide].copy_from_slice(&from[below.wide..]);
                    }
                }
                let (now, next) = (slot(t) * n * row, slot(t + 1) * n * row);
                let (low, high) = s.xh.split_at_mut(now.max(next));
                let (xh, h) = if now < next { (&low[now..], high) } else { (&*high, &mut low[next..]) };
                let kept = if keep { n * r.units } else { 0 };
                step::forward(Forward {
                    rows: n,
                    inputs: row,
                    read: if t > 0 { row } else { r.wide },
                    units: r.units,
                    xh: &xh[..n * row],
                    w: &packed[plan.packed(l).0],
                    carry: &mut s.carry[..n * r.units],
                    cells: &mut s.cells[t * kept..(t + 1) * kept],
                    curved: &mut s.curved[t * kept..(t + 1) * kept],
                    gates: &mut s.gates[t * GATES * kept..][..GATES * n * r.units],
                    h: &mut h[r.wide..n * row],
                    round: plan.round,
                });
            }
        }
        let r = &all[branch.end - 1];
        let row = r.wide + r.units;
        last(r, &sequences[branch.end - 1].xh[slot(window) * n * row + r.wide..][..(n * row).saturating_sub(r.wide)]);
    }
}

/// All steps back, after a [`forward`] that kept everything, and the weights' gradient: added to `gradient`, or in its place. `behind(layer, dh)`
/// brings the gradient at the top layers' last h, `[n, units]`.
pub(super) fn backward(
    plan: &Plan,
    packed: &[f32],
    n: usize,
    sequences: &mut [Sequence],
    gradient: &mut [f32],
    add: bool,
    mut behind: impl FnMut(&Recurrent, &mut [f32]),
) {
    let all = &plan.layout.recurrents;
    for branch in branches(plan).rev() {
        let (window, top) = (all[branch.start].window, branch.end - 1);
        for l in branch.clone() {
            let (r, s) = (&all[l], &mut sequences[l]);
            s.dc[..n * r.units].fill(0.0);
            s.dh[..n * r.units].fill(0.0);
            s.dw.fill(0.0);
        }
        behind(&all[top], &mut sequences[top].dh[..n * all[top].units]);
        for t in (0..window).rev() {
            for l in branch.clone().rev() {
                let r = &all[l];
                let (size, read) = (n * r.units, n * (r.wide + r.units));
                let (lower, own) = sequences.split_at_mut(l);
                let s = &mut own[0];
                let dz = &mut s.gates[t * GATES * size..(t + 1) * GATES * size];
                back::back(Back {
                    rows: n,
                    units: r.units,
                    gates: &mut *dz,
                    curved: &s.curved[t * size..(t + 1) * size],
                    before: if t > 0 { &s.cells[(t - 1) * size..t * size] } else { &[] },
                    above: if l < top { &s.above[..size] } else { &[] },
                    dh: &s.dh[..size],
                    dc: &mut s.dc[..size],
                    dw: &mut s.dw,
                    round: plan.round,
                });
                let w = &packed[plan.packed(l).1];
                let split = r.wide * GATES * r.units;
                let (units, dz) = (r.units, &*dz);
                if t > 0 {
                    let out = &mut s.dh[..size];
                    sums::spread(Spread { rows: n, units, dz, w: &w[split..], out, round: false });
                }
                if let Some(below) = r.below {
                    let out = &mut lower[below].above[..n * r.wide];
                    sums::spread(Spread { rows: n, units, dz, w: &w[..split], out, round: plan.round });
                }
                if t % STEPS == 0 {
                    let steps = t..window.min(t + STEPS);
                    sums::weigh(Weigh {
                        rows: n,
                        inputs: r.wide + r.units,
                        units: r.units,
                        xh: &s.xh[steps.start * read..steps.end * read],
                        dz: &s.gates[steps.start * GATES * size..steps.end * GATES * size],
                        dw: &mut s.dw,
                    });
                }
            }
        }
        for l in branch {
            let r = &all[l];
            pack::unpack(r, &sequences[l].dw, &mut gradient[r.weight..r.weight + r.size()], add);
        }
    }
}
