//! Recurrent layers of some rows of one member, on one thread: all steps forward, all steps back.
//!
//! A step is one fused kernel: the sums of 32 rows for the four gates of 8 units go straight into their curves. `pack`
//! lays the weights out for it. Every sum has one order whatever the tile, so a row's bits do not depend on its place.
//! On the way back the gates are overwritten with their gradients, and the gradient of the weights is summed every few
//! steps, while all it needs is near.

pub(super) mod back;
pub(super) mod pack;
pub(super) mod stack;
pub(super) mod step;
pub(super) mod sums;

use super::data::Source;
use super::memory::Floats;
use super::plan::Plan;
use super::simd::LANES;
use crate::error::Result;
use crate::net::{GATES, Recurrent};
use back::Back;
use std::ops::Range;
use step::Forward;
use sums::{Spread, Weigh};

/// Numbers of a row in a block of units: four gates of eight.
const ROW: usize = GATES * LANES;
/// Rows that go through a window together when nothing is kept for the way back.
pub(super) const EVALUATED: usize = 32;
/// Rows of all steps whose part of the weights' gradient is summed at once: few enough that what they read is in the
/// nearest cache, many enough that the sums are worth fetching. Of 32 rows two steps take 5 % less time than one or
/// four.
const SUMMED: usize = 64;

/// What one recurrent layer goes through with some rows; a thread has one for each. `n` is the number of rows.
#[derive(Debug)]
pub(super) struct Sequence {
    xh: Floats, // [window + 1, n, wide + units] inputs of step t and h of the one before; 2 slots when nothing is kept
    gates: Floats, // [window, units / 8, n, 4, 8] i, f, g, o; then their gradients; 1 step when nothing is kept
    cells: Floats, // [window, n, units] as the way back sees them
    curved: Floats, // [window, n, units] their tangents
    carry: Floats, // [n, units] the cell between two steps
    dh: Floats, // [n, units] the gradient at h, from behind or from the step after
    dc: Floats, // [n, units] the gradient at the cell, from the step after
    above: Floats, // [n, units] the gradient at h, from the layer above
    dw: Floats, // [units / 8, wide + units + 1, 4, 8]
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
    pub(super) fn all(plan: &Plan) -> Result<Vec<Sequence>> {
        plan.layout.recurrents.iter().map(|r| Sequence::new(sizes(r, plan.block))).collect()
    }

    fn new(sizes: [usize; 9]) -> Result<Sequence> {
        let [xh, gates, cells, curved, carry, dh, dc, above, dw] = sizes;
        Ok(Sequence {
            xh: Floats::new(xh)?,
            gates: Floats::new(gates)?,
            cells: Floats::new(cells)?,
            curved: Floats::new(curved)?,
            carry: Floats::new(carry)?,
            dh: Floats::new(dh)?,
            dc: Floats::new(dc)?,
            above: Floats::new(above)?,
            dw: Floats::new(dw)?,
        })
    }

    /// One step forward of a layer. The lowest has its inputs in place; others are given the layer below, which has
    /// done this step.
    fn ahead(&mut self, r: &Recurrent, below: Option<(&Recurrent, &Sequence)>, step: Step, w: &[f32]) {
        let Step { t, n, keep, begun, round } = step;
        let row = r.wide + r.units;
        let (now, next) = (slot(t, keep) * n * row, slot(t + 1, keep) * n * row);
        if let Some((b, below)) = below {
            let read = b.wide + b.units;
            let from = &below.xh[slot(t + 1, keep) * n * read..][..n * read];
            for (to, from) in self.xh[now..][..n * row].chunks_exact_mut(row).zip(from.chunks_exact(read)) {
                to[..r.wide].copy_from_slice(&from[b.wide..]);
            }
        }
        let (low, high) = self.xh.split_at_mut(now.max(next));
        let (xh, h) = if now < next { (&low[now..], high) } else { (&*high, &mut low[next..]) };
        let kept = if keep { n * r.units } else { 0 };
        step::forward(Forward {
            rows: n,
            inputs: row,
            read: if begun { row } else { r.wide },
            units: r.units,
            xh: &xh[..n * row],
            w,
            carry: &mut self.carry[..n * r.units],
            cells: &mut self.cells[t * kept..(t + 1) * kept],
            curved: &mut self.curved[t * kept..(t + 1) * kept],
            gates: &mut self.gates[t * GATES * kept..][..GATES * n * r.units],
            h: &mut h[r.wide..n * row],
            round,
        });
    }

    /// One step back of a layer, which hands its part to the one below. `above` says whether its own `above` counts;
    /// `before` is the cell before the step where that is not the one of the step before.
    fn back(
        &mut self,
        r: &Recurrent,
        below: Option<&mut Sequence>,
        step: Step,
        above: bool,
        before: Option<&[f32]>,
        w: &[f32],
    ) {
        let Step { t, n, begun, round, .. } = step;
        let (size, read, units) = (n * r.units, n * (r.wide + r.units), r.units);
        let dz = &mut self.gates[t * GATES * size..(t + 1) * GATES * size];
        back::back(Back {
            rows: n,
            units,
            gates: &mut *dz,
            curved: &self.curved[t * size..(t + 1) * size],
            before: match before {
                Some(before) => before,
                None if t > 0 => &self.cells[(t - 1) * size..t * size],
                None => &[],
            },
            above: if above { &self.above[..size] } else { &[] },
            dh: &self.dh[..size],
            dc: &mut self.dc[..size],
            dw: &mut self.dw,
            round,
        });
        let split = r.wide * GATES * units;
        let dz = &*dz;
        if begun {
            let out = &mut self.dh[..size];
            sums::spread(Spread { rows: n, units, dz, w: &w[split..], out, round: false });
        }
        if let Some(below) = below {
            let out = &mut below.above[..n * r.wide];
            sums::spread(Spread { rows: n, units, dz, w: &w[..split], out, round });
        }
        let together = SUMMED.div_ceil(n.next_multiple_of(16).max(1));
        if t % together == 0 {
            let steps = t..r.window.min(t + together);
            sums::weigh(Weigh {
                rows: n,
                inputs: r.wide + units,
                units,
                xh: &self.xh[steps.start * read..steps.end * read],
                dz: &self.gates[steps.start * GATES * size..steps.end * GATES * size],
                dw: &mut self.dw,
            });
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let all =
            [&self.xh, &self.gates, &self.cells, &self.curved, &self.carry, &self.dh, &self.dc, &self.above, &self.dw];
        all.iter().map(|part| part.len()).sum()
    }
}

/// One step of a layer.
#[derive(Debug, Clone, Copy)]
struct Step {
    t: usize,
    /// Rows.
    n: usize,
    /// Whether everything stays for the way back.
    keep: bool,
    /// Whether there is an h before it.
    begun: bool,
    round: bool,
}

/// Where the slot of a step begins, in slots.
fn slot(t: usize, keep: bool) -> usize {
    if keep { t } else { t % 2 }
}

/// The recurrent layers of each branch that has some.
fn branches(plan: &Plan) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let all = &plan.layout.recurrents;
    let first = (0..all.len()).filter(|l| all[*l].below.is_none());
    first.map(|l| l..l + 1 + all[l + 1..].iter().take_while(|r| r.below.is_some()).count())
}

/// All steps of all recurrent layers. `last(layer, h)` is handed the top layers' last h, `[n, wide + units]` from the
/// first unit on; with `keep` everything stays for [`backward`].
pub(super) fn forward(
    plan: &Plan,
    source: Source<'_>,
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
        let slot = |t: usize| slot(t, keep);
        for l in branch.clone() {
            let (r, s) = (&all[l], &mut sequences[l]);
            s.carry[..n * r.units].fill(0.0);
            s.xh[..n * (r.wide + r.units)].chunks_exact_mut(r.wide + r.units).for_each(|row| row[r.wide..].fill(0.0));
        }
        let gather = |s: &mut Sequence, steps: Range<usize>| {
            let r = &all[branch.start];
            let row = r.wide + r.units;
            let at = |sample: usize, t: usize| (slot(t) * n + sample) * row;
            source.walk(&plan.net, r.input, samples, steps, plan.round, &mut s.xh, r.wide, at);
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
                let (lower, own) = sequences.split_at_mut(l);
                let below = all[l].below.map(|below| (&all[below], &lower[below]));
                let step = Step { t, n, keep, begun: t > 0, round: plan.round };
                own[0].ahead(&all[l], below, step, &packed[plan.packed(l).0]);
            }
        }
        let r = &all[branch.end - 1];
        let row = r.wide + r.units;
        last(r, &sequences[branch.end - 1].xh[slot(window) * n * row + r.wide..][..(n * row).saturating_sub(r.wide)]);
    }
}

/// All steps back, after a [`forward`] that kept everything, and the weights' gradient: added to `gradient`, or in its
/// place. `behind(layer, dh)` brings the gradient at the top layers' last h, `[n, units]`.
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
                let (lower, own) = sequences.split_at_mut(l);
                let below = all[l].below.map(|below| &mut lower[below]);
                let step = Step { t, n, keep: true, begun: t > 0, round: plan.round };
                own[0].back(&all[l], below, step, l < top, None, &packed[plan.packed(l).1]);
            }
        }
        for l in branch {
            let r = &all[l];
            pack::unpack(r, &sequences[l].dw, &mut gradient[r.weight..r.weight + r.size()], add);
        }
    }
}
