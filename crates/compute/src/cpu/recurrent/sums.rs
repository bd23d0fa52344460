//! What the gradient at the gates' sums becomes: the weights' gradient, and the gradient at what a step has read.
//!
//! As on the way forward every sum has one order, whatever the size of a tile.

#![expect(unsafe_code, reason = "kernels on pointers, whose ranges are checked before their loops")]

use super::ROW;
use super::pack::SPREAD;
use crate::cpu::simd::{Eight, LANES, eights};
use crate::net::GATES;

/// Some steps' part of the weights' gradient.
#[derive(Debug)]
pub(in crate::cpu) struct Weigh<'a> {
    pub(in crate::cpu) rows: usize,
    pub(in crate::cpu) inputs: usize,
    pub(in crate::cpu) units: usize,
    /// `[steps, rows, inputs]`
    pub(in crate::cpu) xh: &'a [f32],
    /// `[steps][units / 8][rows][4][8]`
    pub(in crate::cpu) dz: &'a [f32],
    /// `[units / 8][inputs + 1][4][8]`, added to all but what follows the inputs.
    pub(in crate::cpu) dw: &'a mut [f32],
}

eights! {
    /// `dw += [x, h]ᵀ dz`, the sum over steps and rows in order.
    fn weigh(step: Weigh<'_>) = weigh_by
}

#[inline(always)]
pub(in crate::cpu) fn weigh_by<V: Eight>(mut step: Weigh<'_>) {
    let Weigh { rows, inputs, units, .. } = step;
    let steps = step.xh.len() / (rows * inputs).max(1);
    assert!(units.is_multiple_of(LANES) && step.dw.len() == (inputs + 1) * units * GATES);
    assert!(step.xh.len() == steps * rows * inputs && step.dz.len() == steps * rows * units * GATES);
    for half in 0..units / LANES * 2 {
        let mut k = 0;
        while k < inputs {
            k += match inputs - k {
                1 => share::<V, 1>(&mut step, steps, half, k),
                2 => share::<V, 2>(&mut step, steps, half, k),
                3 => share::<V, 3>(&mut step, steps, half, k),
                4 | 7 | 8 => share::<V, 4>(&mut step, steps, half, k),
                // Ten sums keep the processor busy too, and then no smaller tile is left.
                n if n.is_multiple_of(5) => share::<V, 5>(&mut step, steps, half, k),
                _ => share::<V, 6>(&mut step, steps, half, k),
            };
        }
    }
}

/// `K` inputs of two gates of eight units; gives `K`.
#[inline(always)]
fn share<V: Eight, const K: usize>(step: &mut Weigh<'_>, steps: usize, half: usize, k: usize) -> usize {
    const VECTORS: usize = 2;
    let (rows, inputs, blocks) = (step.rows, step.inputs, step.units / LANES);
    let (block, gates) = (half / 2, half % 2 * VECTORS * LANES);
    // SAFETY: `k + K <= inputs`, `half` is one of the halves of `units / 8` blocks, and `weigh_by` has checked the
    // length of everything.
    unsafe {
        let dw = step.dw.as_mut_ptr().add((block * (inputs + 1) + k) * ROW + gates);
        // What was there is added last: nothing has to wait for it.
        let mut sums = [[V::splat(0.0); VECTORS]; K];
        for t in 0..steps {
            let mut xh = step.xh.as_ptr().add(t * rows * inputs + k);
            let mut dz = step.dz.as_ptr().add((t * blocks + block) * rows * ROW + gates);
            for _ in 0..rows {
                let own: [V; VECTORS] = std::array::from_fn(|v| V::load(dz.add(v * LANES)));
                for (k, sums) in sums.iter_mut().enumerate() {
                    let x = V::splat(*xh.add(k));
                    for (sum, own) in sums.iter_mut().zip(own) {
                        *sum = x.mul_add(own, *sum);
                    }
                }
                // Past the last row these only point behind what is read.
                (xh, dz) = (xh.wrapping_add(inputs), dz.wrapping_add(ROW));
            }
        }
        for (k, sums) in sums.into_iter().enumerate() {
            for (v, sum) in sums.into_iter().enumerate() {
                let to = dw.add(k * ROW + v * LANES);
                V::load(to).add(sum).store(to);
            }
        }
    }
    K
}

/// A step's product back.
#[derive(Debug)]
pub(in crate::cpu) struct Spread<'a> {
    pub(in crate::cpu) rows: usize,
    pub(in crate::cpu) units: usize,
    /// `[units / 8][rows][4][8]`
    pub(in crate::cpu) dz: &'a [f32],
    /// `[outputs / 16][units / 8][4][8][16]`
    pub(in crate::cpu) w: &'a [f32],
    /// `[rows, outputs]`
    pub(in crate::cpu) out: &'a mut [f32],
    pub(in crate::cpu) round: bool,
}

eights! {
    /// `out = dz Wᵀ`
    fn spread(step: Spread<'_>) = spread_by
}

#[inline(always)]
pub(in crate::cpu) fn spread_by<V: Eight>(mut step: Spread<'_>) {
    let Spread { rows, units, .. } = step;
    let outputs = step.w.len() / (GATES * units);
    assert!(outputs.is_multiple_of(SPREAD) && step.w.len() == outputs * GATES * units);
    assert!(units.is_multiple_of(LANES) && step.dz.len() == rows * GATES * units && step.out.len() == rows * outputs);
    for block in 0..outputs / SPREAD {
        let mut row = 0;
        while row < rows {
            // Twelve sums again; what is left is cut so that no tile is very small.
            row += match rows - row {
                1 => strip::<V, 1>(&mut step, outputs, block, row),
                2 => strip::<V, 2>(&mut step, outputs, block, row),
                3 => strip::<V, 3>(&mut step, outputs, block, row),
                4 | 7 | 8 => strip::<V, 4>(&mut step, outputs, block, row),
                5 => strip::<V, 5>(&mut step, outputs, block, row),
                _ => strip::<V, 6>(&mut step, outputs, block, row),
            };
        }
    }
}

/// `R` rows of sixteen outputs; gives `R`.
#[inline(always)]
fn strip<V: Eight, const R: usize>(step: &mut Spread<'_>, outputs: usize, block: usize, row: usize) -> usize {
    const VECTORS: usize = SPREAD / LANES;
    let (rows, units) = (step.rows, step.units);
    // SAFETY: `row + R <= rows` and the block is one of `outputs / 16`; `spread_by` has checked the length of
    // everything.
    unsafe {
        let w = step.w.as_ptr().add(block * units * GATES * SPREAD);
        let mut out = [[V::splat(0.0); VECTORS]; R];
        for eight in 0..units / LANES {
            let w = w.add(eight * ROW * SPREAD);
            let dz = step.dz.as_ptr().add((eight * rows + row) * ROW);
            for n in 0..ROW {
                let w: [V; VECTORS] = std::array::from_fn(|v| V::load(w.add(n * SPREAD + v * LANES)));
                for (r, out) in out.iter_mut().enumerate() {
                    let dz = V::splat(*dz.add(r * ROW + n));
                    for (out, w) in out.iter_mut().zip(w) {
                        *out = dz.mul_add(w, *out);
                    }
                }
            }
        }
        for (r, out) in out.into_iter().enumerate() {
            for (v, out) in out.into_iter().enumerate() {
                let out = if step.round { out.round() } else { out };
                out.store(step.out.as_mut_ptr().add((row + r) * outputs + block * SPREAD + v * LANES));
            }
        }
    }
    R
}
