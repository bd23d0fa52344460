//! One step of a recurrent layer for some rows, back: from the gradient at h to that at the gates' sums.

#![expect(unsafe_code, reason = "kernels on pointers, whose ranges are checked before their loops")]

use super::ROW;
use crate::cpu::simd::{Eight, LANES, eights};
use crate::net::GATES;

/// A step of the gates back.
#[derive(Debug)]
pub(in crate::cpu) struct Back<'a> {
    pub(in crate::cpu) rows: usize,
    pub(in crate::cpu) units: usize,
    /// `[units / 8][rows][4][8]` the gates; then the gradients at their sums.
    pub(in crate::cpu) gates: &'a mut [f32],
    /// `[rows, units]` the tangents of the cells.
    pub(in crate::cpu) curved: &'a [f32],
    /// `[rows, units]` the cells of the step before; nothing at the first.
    pub(in crate::cpu) before: &'a [f32],
    /// `[rows, units]` the gradient at h from the layer above, or nothing.
    pub(in crate::cpu) above: &'a [f32],
    /// `[rows, units]` the gradient at h from behind or from the step after.
    pub(in crate::cpu) dh: &'a [f32],
    /// `[rows, units]` that at the cell; then that for the step before.
    pub(in crate::cpu) dc: &'a mut [f32],
    /// `[units / 8][inputs + 1][4][8]`; the rows' sums are added to what follows the inputs.
    pub(in crate::cpu) dw: &'a mut [f32],
    pub(in crate::cpu) round: bool,
}

eights! {
    /// The gradient at the gates' sums, and their bias.
    fn back(step: Back<'_>) = back_by
}

#[inline(always)]
pub(in crate::cpu) fn back_by<V: Eight>(step: Back<'_>) {
    let Back { rows, units, .. } = step;
    let size = rows * units;
    let or_none = |values: &[f32]| values.is_empty() || values.len() == size;
    assert!(units.is_multiple_of(LANES) && step.gates.len() == GATES * size);
    assert!(step.dw.len().is_multiple_of(GATES * units) && step.dw.len() >= GATES * units);
    assert!(step.curved.len() == size && step.dh.len() == size && step.dc.len() == size);
    assert!(or_none(step.before) && or_none(step.above));
    let inputs = step.dw.len() / (GATES * units) - 1;
    let (zero, one) = (V::splat(0.0), V::splat(1.0));
    for block in 0..units / LANES {
        // SAFETY: all lengths are checked above, `row < rows` and the block is one of `units / 8`.
        unsafe {
            let dbias = step.dw.as_mut_ptr().add((block * (inputs + 1) + inputs) * ROW);
            let mut sums: [V; GATES] = std::array::from_fn(|gate| V::load(dbias.add(gate * LANES)));
            for row in 0..rows {
                let at = row * units + block * LANES;
                let gates = step.gates.as_mut_ptr().add((block * rows + row) * ROW);
                let [i, f, g, o]: [V; GATES] = std::array::from_fn(|gate| V::load(gates.add(gate * LANES)));
                let before = if step.before.is_empty() { zero } else { V::load(step.before.as_ptr().add(at)) };
                let tc = V::load(step.curved.as_ptr().add(at));
                let mut dh = V::load(step.dh.as_ptr().add(at));
                if !step.above.is_empty() {
                    dh = V::load(step.above.as_ptr().add(at)).add(dh);
                }
                let carried = step.dc.as_mut_ptr().add(at);
                let dho = dh.mul(o);
                let dc = dho.mul(tc.neg_mul_add(tc, one)).add(V::load(carried));
                let dci = dc.mul(i);
                let dz = [
                    dci.mul(g).mul(one.sub(i)),
                    dc.mul(before).mul(f).mul(one.sub(f)),
                    dci.mul(g.neg_mul_add(g, one)),
                    dho.mul(tc).mul(one.sub(o)),
                ];
                dc.mul(f).store(carried);
                for (gate, value) in dz.into_iter().enumerate() {
                    let value = if step.round { value.round() } else { value };
                    value.store(gates.add(gate * LANES));
                    sums[gate] = sums[gate].add(value);
                }
            }
            for (gate, sum) in sums.into_iter().enumerate() {
                sum.store(dbias.add(gate * LANES));
            }
        }
    }
}
