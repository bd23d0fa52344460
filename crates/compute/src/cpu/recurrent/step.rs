//! One step of a recurrent layer for some rows, forward.
//!
//! Sums run over the inputs in order, whatever the size of a tile, so that rows do not depend on each other.

#![expect(unsafe_code, reason = "kernels on pointers, whose ranges are checked before their loops")]

use super::ROW;
use crate::cpu::simd::{Eight, Half, LANES, eights, tanh};
use crate::net::GATES;
use std::ops::Range;

/// A step forward. `inputs` are those of the step and h of the one before.
#[derive(Debug)]
pub(in crate::cpu) struct Forward<'a> {
    pub(in crate::cpu) rows: usize,
    pub(in crate::cpu) inputs: usize,
    /// Inputs from here on are zero: before the first step there is no h.
    pub(in crate::cpu) read: usize,
    pub(in crate::cpu) units: usize,
    /// `[rows, inputs]`
    pub(in crate::cpu) xh: &'a [f32],
    /// `[units / 8][inputs + 1][4][8]`
    pub(in crate::cpu) w: &'a [f32],
    /// `[rows, units]`
    pub(in crate::cpu) carry: &'a mut [f32],
    /// `[rows, units]`, or nothing.
    pub(in crate::cpu) cells: &'a mut [f32],
    /// `[rows, units]` the tangents of `cells`, or nothing.
    pub(in crate::cpu) curved: &'a mut [f32],
    /// `[units / 8][rows][4][8]`
    pub(in crate::cpu) gates: &'a mut [f32],
    /// The first `units` of each row of `inputs`.
    pub(in crate::cpu) h: &'a mut [f32],
    pub(in crate::cpu) round: bool,
}

eights! {
    /// `z = W [x, h] + b`, the gates, the cells and h.
    fn forward(step: Forward<'_>) = forward_by
}

/// Rows whose sums are made before any gate is: enough to keep the processor busy, few enough for its nearest cache.
const TOGETHER: usize = 32;

#[inline(always)]
pub(in crate::cpu) fn forward_by<V: Eight>(mut step: Forward<'_>) {
    let Forward { rows, inputs, units, .. } = step;
    let kept = if step.cells.is_empty() { 0 } else { rows * units };
    assert!(step.read <= inputs && units.is_multiple_of(LANES) && units <= inputs);
    assert!(step.w.len() == (inputs + 1) * units * GATES);
    assert!(step.xh.len() == rows * inputs && step.carry.len() == rows * units);
    assert!(step.gates.len() == GATES * rows * units && step.cells.len() == kept && step.curved.len() == kept);
    assert!(rows == 0 || step.h.len() >= (rows - 1) * inputs + units);
    for block in 0..units / LANES {
        for first in (0..rows).step_by(TOGETHER) {
            let (mut row, end) = (first, rows.min(first + TOGETHER));
            while row < end {
                // Twelve sums fill the registers; of four rows two and two are better than three and one.
                row += match end - row {
                    1 => sums::<V, 1>(&mut step, block, row),
                    2 | 4 => sums::<V, 2>(&mut step, block, row),
                    _ => sums::<V, 3>(&mut step, block, row),
                };
            }
            curves::<V>(&mut step, block, first..end);
        }
    }
}

/// The gates' sums of eight units of `R` rows; gives `R`.
#[inline(always)]
fn sums<V: Eight, const R: usize>(step: &mut Forward<'_>, block: usize, row: usize) -> usize {
    let inputs = step.inputs;
    // SAFETY: `row + R <= rows` and `block` is one of `units / 8`, and `forward_by` has checked the length of
    // everything.
    unsafe {
        let w = step.w.as_ptr().add(block * (inputs + 1) * ROW);
        let xh = step.xh.as_ptr().add(row * inputs);
        let to = step.gates.as_mut_ptr().add((block * step.rows + row) * ROW);
        let mut z = [[V::splat(0.0); R]; GATES];
        for k in 0..step.read {
            let x: [V; R] = std::array::from_fn(|r| V::splat(*xh.add(r * inputs + k)));
            for (gate, z) in z.iter_mut().enumerate() {
                let w = V::load(w.add(k * ROW + gate * LANES));
                for (z, x) in z.iter_mut().zip(x) {
                    *z = x.mul_add(w, *z);
                }
            }
        }
        for (gate, z) in z.into_iter().enumerate() {
            let bias = V::load(w.add(inputs * ROW + gate * LANES));
            for (r, z) in z.into_iter().enumerate() {
                z.add(bias).store(to.add(r * ROW + gate * LANES));
            }
        }
    }
    R
}

/// From their sums to the gates, the cells and h of eight units. In four walks over the rows, each with little that
/// waits for each other: the powers of all gates, their divisions and the cells, the powers of the cells, their
/// divisions and h.
#[inline(always)]
fn curves<V: Eight>(step: &mut Forward<'_>, block: usize, rows: Range<usize>) {
    let (inputs, units, unit, keep) = (step.inputs, step.units, block * LANES, !step.cells.is_empty());
    // SAFETY: the rows are among all and `unit + 8 <= units`, and `forward_by` has checked the length of everything.
    unsafe {
        let gates = step.gates.as_mut_ptr().add(block * step.rows * ROW);
        let (carry, h) = (step.carry.as_mut_ptr().add(unit), step.h.as_mut_ptr().add(unit));
        for row in rows.clone() {
            let z = gates.add(row * ROW);
            let [i, f, g, o]: [V; GATES] = std::array::from_fn(|gate| V::load(z.add(gate * LANES)));
            let halves = [Half::sigmoid(i), Half::sigmoid(f), Half::tanh(g), Half::sigmoid(o)];
            for (gate, half) in halves.into_iter().enumerate() {
                half.store(z.add(gate * LANES));
            }
        }
        for row in rows.clone() {
            let (z, carry) = (gates.add(row * ROW), carry.add(row * units));
            let [i, f, g, o]: [V; GATES] = std::array::from_fn(|gate| V::load(z.add(gate * LANES)));
            let ((i, g), (f, o)) = (Half::end_sigmoid_and_tanh(i, g), Half::end_sigmoids(f, o));
            for (gate, value) in [i, f, g, o].into_iter().enumerate() {
                value.store(z.add(gate * LANES));
            }
            f.mul(V::load(carry)).add(i.mul(g)).store(carry);
        }
        for row in rows.clone() {
            Half::tanh(V::load(carry.add(row * units))).store(h.add(row * inputs));
        }
        for row in rows {
            let h = h.add(row * inputs);
            let mut curved = Half::end_tanh(V::load(h));
            let shown = V::load(gates.add(row * ROW + 3 * LANES)).mul(curved);
            let shown = if step.round { shown.round() } else { shown };
            shown.store(h);
            if keep {
                let mut cell = V::load(carry.add(row * units));
                if step.round {
                    cell = cell.round();
                    curved = tanh(cell);
                }
                cell.store(step.cells.as_mut_ptr().add(row * units + unit));
                curved.store(step.curved.as_mut_ptr().add(row * units + unit));
            }
        }
    }
}
