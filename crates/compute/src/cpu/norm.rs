//! What may stand between a product and the next: layer norm and dropout, on some rows.
//!
//! A norm's buffer `[n, width + PAD]` holds the normalised values, behind them one over the deviation; on the way back
//! the same buffer holds the gradient at what gain and shift made. Sums over a row are eight side by side, then in
//! order: the same for any instructions.

use super::loops::Columns;
use crate::bf16;
use crate::net::{Activation, PAD};
use crate::ops::norm::EPS;
use crate::random::Dropout;

/// `y` is `W x`; it becomes `x̂ gain + shift`, and `normed` holds what [`backward`] needs. `learned` is gain and shift.
pub(super) fn forward(
    y: &mut [f32],
    at: Columns,
    normed: &mut [f32],
    bias: &[f32],
    learned: &[f32],
    outputs: usize,
    round: bool,
) {
    let (gain, shift) = learned.split_at(at.width);
    let n = outputs as f32;
    let stride = at.width + PAD;
    for (y, x) in y.chunks_exact_mut(at.stride).zip(normed.chunks_exact_mut(stride)) {
        let z = &mut y[at.column..at.column + outputs];
        z.iter_mut().zip(bias).for_each(|(z, bias)| *z += bias);
        let mean = sum(z, |z, _| z, &[]) / n;
        let inverse = 1.0 / (sum(z, |z, _| (z - mean) * (z - mean), &[]) / n + EPS as f32).sqrt();
        for (((z, x), gain), shift) in z.iter_mut().zip(&mut *x).zip(gain).zip(shift) {
            *x = (*z - mean) * inverse;
            if round {
                *x = bf16::round(*x);
            }
            *z = *x * gain + shift;
        }
        x[outputs..].fill(0.0);
        x[at.width] = inverse;
    }
}

/// `dn` becomes the gradient at the product, rounded if asked; what it was goes into `kept`.
pub(super) fn backward(
    dn: &mut [f32],
    at: Columns,
    kept: &mut [f32],
    normed: &[f32],
    gain: &[f32],
    outputs: usize,
    round: bool,
) {
    let n = outputs as f32;
    let stride = at.width + PAD;
    let rows = dn.chunks_exact_mut(at.stride).zip(kept.chunks_exact_mut(stride)).zip(normed.chunks_exact(stride));
    for ((dn, kept), x) in rows {
        let (d, inverse) = (&mut dn[at.column..at.column + at.width], x[at.width]);
        kept[..at.width].copy_from_slice(d);
        d.iter_mut().zip(gain).for_each(|(d, gain)| *d *= gain);
        let d = &mut d[..outputs];
        let mean = sum(d, |d, _| d, &[]) / n;
        let along = sum(d, |d, x| d * x, &x[..outputs]) / n;
        for (d, x) in d.iter_mut().zip(x) {
            *d = (*d - mean - x * along) * inverse;
            if round {
                *d = bf16::round(*d);
            }
        }
    }
}

/// Gradients of gains and shifts from what [`backward`] kept: rows in order, added to what is there or in its place.
pub(super) fn sums(kept: &[f32], normed: &[f32], at: Columns, (gain, shift): (&mut [f32], &mut [f32]), add: bool) {
    if !add {
        gain.fill(0.0);
        shift.fill(0.0);
    }
    let columns = at.column..at.column + at.width;
    for (dn, x) in kept.chunks_exact(at.stride).zip(normed.chunks_exact(at.stride)) {
        let each = gain.iter_mut().zip(&mut *shift).zip(&dn[columns.clone()]).zip(&x[columns.clone()]);
        for (((gain, shift), dn), x) in each {
            *gain += dn * x;
            *shift += dn;
        }
    }
}

/// `Σ f(a, b)`, `b` 0 where there is none.
fn sum(a: &[f32], f: impl Fn(f32, f32) -> f32, b: &[f32]) -> f32 {
    let mut sums = [0f32; 8];
    for (i, &a) in a.iter().enumerate() {
        sums[i % 8] += f(a, b.get(i).copied().unwrap_or(0.0));
    }
    sums.iter().sum()
}

/// What some rows of a step leave out of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub(super) dropout: Dropout,
    /// The first row's place in the batch.
    pub(super) first: u32,
    /// What is kept, as a share.
    pub(super) share: f32,
}

impl Left {
    /// Outputs, some of them left out and the others scaled up, rounded if asked.
    pub(super) fn forward(&self, y: &mut [f32], at: Columns, round: bool) {
        for (row, y) in (self.first..).zip(y.chunks_exact_mut(at.stride)) {
            for (y, factor) in y[at.column..at.column + at.width].iter_mut().zip(self.dropout.row(row)) {
                *y = if factor == 0.0 { 0.0 } else { *y * factor };
                if round {
                    *y = bf16::round(*y);
                }
            }
        }
    }

    /// The gradient before them and before the activation, which is told from the outputs; rounded if asked.
    pub(super) fn backward(&self, dy: &mut [f32], before: Option<(&[f32], Activation)>, at: Columns, round: bool) {
        let columns = at.column..at.column + at.width;
        for (i, dy) in dy.chunks_exact_mut(at.stride).enumerate() {
            let dy = &mut dy[columns.clone()];
            for (dy, factor) in dy.iter_mut().zip(self.dropout.row(self.first + i as u32)) {
                *dy = if factor == 0.0 { 0.0 } else { *dy * factor };
            }
            if let Some((y, activation)) = before {
                let y = &y[i * at.stride..][columns.clone()];
                dy.iter_mut().zip(y).for_each(|(dy, y)| *dy *= slope(y * self.share, activation));
            }
            if round {
                dy.iter_mut().for_each(|dy| *dy = bf16::round(*dy));
            }
        }
    }
}

/// The derivative, told from the output.
fn slope(y: f32, activation: Activation) -> f32 {
    match activation {
        Activation::Identity => 1.0,
        Activation::Relu if y > 0.0 => 1.0,
        Activation::Relu => 0.0,
        Activation::Tanh => 1.0 - y * y,
    }
}
