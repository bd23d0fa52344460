//! A recurrent layer's weights as its kernels read them, twice: for the way forward and for the way back.
//!
//! Forward `[units / 8][wide + units + 1][4][8]`: for eight units all inputs in order, for each the four gates, the
//! bias last. Back `[(wide + units) / 16][units / 8][4][8][16]`: for sixteen inputs all gates of all units in the order
//! in which the gates lie. The gradient lies as the weights for the way forward do.

#![expect(unsafe_code, reason = "a kernel on pointers, whose ranges are checked before its loops")]

use crate::cpu::plan::Plan;
use crate::cpu::simd::{Eight, LANES, eights};
use crate::net::{GATES, Recurrent};

/// Inputs whose gradients are summed together.
pub(in crate::cpu) const SPREAD: usize = 16;

/// Numbers of both forms.
pub(in crate::cpu) fn sizes(r: &Recurrent) -> (usize, usize) {
    (r.size(), (r.wide + r.units) * GATES * r.units)
}

/// Packs every recurrent layer; `params` are as they are held.
pub(in crate::cpu) fn pack(plan: &Plan, params: &[f32], packed: &mut [f32]) {
    for (l, r) in plan.layout.recurrents.iter().enumerate() {
        let (forward, back) = plan.packed(l);
        one(r, &params[r.weight..r.weight + r.size()], &mut packed[forward.start..back.end]);
    }
}

/// One of them: first the form for the way forward, then that for the way back.
pub(super) fn one(r: &Recurrent, w: &[f32], packed: &mut [f32]) {
    let (to, back) = packed.split_at_mut(sizes(r).0);
    ahead(r, w, to);
    behind(Behind { units: r.units, ahead: to, to: back });
}

fn ahead(r: &Recurrent, w: &[f32], to: &mut [f32]) {
    let inputs = r.wide + r.units + 1;
    let mut to = to.chunks_exact_mut(GATES * LANES);
    for block in 0..r.units / LANES {
        for (k, to) in (0..inputs).zip(&mut to) {
            let from = &w[(k * r.units + block * LANES) * GATES..][..GATES * LANES];
            for (unit, gates) in from.chunks_exact(GATES).enumerate() {
                for (gate, value) in gates.iter().enumerate() {
                    to[gate * LANES + unit] = *value;
                }
            }
        }
    }
}

/// What the way back reads, from what the way forward does.
#[derive(Debug)]
pub(in crate::cpu) struct Behind<'a> {
    units: usize,
    /// `[units / 8][inputs + 1][4][8]`
    ahead: &'a [f32],
    /// `[inputs / 16][units / 8][4][8][16]`
    to: &'a mut [f32],
}

eights! {
    /// Sixteen inputs side by side.
    fn behind(pack: Behind<'_>) = behind_by
}

#[inline(always)]
fn behind_by<V: Eight>(pack: Behind<'_>) {
    let sums = GATES * pack.units;
    let inputs = pack.ahead.len() / sums - 1;
    assert!(pack.units.is_multiple_of(LANES) && inputs.is_multiple_of(SPREAD));
    assert!(pack.ahead.len() == (inputs + 1) * sums && pack.to.len() == inputs * sums);
    for k in (0..inputs).step_by(LANES) {
        for n in (0..sums).step_by(LANES) {
            // SAFETY: eight inputs from `k` on and eight sums from `n` on are among all, and both lengths are checked.
            unsafe {
                let block = n / (GATES * LANES) * (inputs + 1) + k;
                let from = pack.ahead.as_ptr().add(block * GATES * LANES + n % (GATES * LANES));
                let to = pack.to.as_mut_ptr().add((k / SPREAD * sums + n) * SPREAD + k % SPREAD);
                let eight = V::transpose(std::array::from_fn(|i| V::load(from.add(i * GATES * LANES))));
                for (i, own) in eight.into_iter().enumerate() {
                    own.store(to.add(i * SPREAD));
                }
            }
        }
    }
}

/// The gradient of one recurrent layer, from the form of the way forward: added to `gradient`, or in its place.
pub(in crate::cpu) fn unpack(r: &Recurrent, dw: &[f32], gradient: &mut [f32], add: bool) {
    let inputs = r.wide + r.units + 1;
    let mut from = dw.chunks_exact(GATES * LANES);
    for block in 0..r.units / LANES {
        for (k, from) in (0..inputs).zip(&mut from) {
            let to = &mut gradient[(k * r.units + block * LANES) * GATES..][..GATES * LANES];
            for (unit, gates) in to.chunks_exact_mut(GATES).enumerate() {
                for (gate, to) in gates.iter_mut().enumerate() {
                    let own = from[gate * LANES + unit];
                    *to = if add { *to + own } else { own };
                }
            }
        }
    }
}
