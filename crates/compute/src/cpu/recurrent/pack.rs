//! A recurrent layer's weights as its kernels read them, twice: for the way forward and for the way back.
//!
//! Forward `[units / 8][wide + units + 1][4][8]`: for eight units all inputs in order, for each the four gates, the bias last. Back
//! `[(wide + units) / 16][units / 8][4][8][16]`: for sixteen inputs all gates of all units in the order in which the gates lie. The gradient lies as the
//! weights for the way forward do.

use crate::cpu::plan::Plan;
use crate::cpu::simd::LANES;
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
        let w = &params[r.weight..r.weight + r.size()];
        let (forward, back) = plan.packed(l);
        ahead(r, w, &mut packed[forward]);
        behind(r, w, &mut packed[back]);
    }
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

fn behind(r: &Recurrent, w: &[f32], to: &mut [f32]) {
    let sums = GATES * r.units;
    for (block, to) in to.chunks_exact_mut(sums * SPREAD).enumerate() {
        for (k, from) in w[block * SPREAD * sums..][..SPREAD * sums].chunks_exact(sums).enumerate() {
            for (unit, gates) in from.chunks_exact(GATES).enumerate() {
                for (gate, value) in gates.iter().enumerate() {
                    to[((unit / LANES * GATES + gate) * LANES + unit % LANES) * SPREAD + k] = *value;
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
