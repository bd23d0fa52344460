//! The loops over single numbers, compiled for AVX-512 and for AVX2 beside the build's own instructions and chosen at
//! run time.
//!
//! Nothing in them is fused or reordered, so all versions give the same bits; but for the hyperbolic tangent, whose
//! products are fused where the processor can.

#![expect(unsafe_code, reason = "functions compiled for instructions that were just found, and loads of whole lanes")]

use super::curve;
use super::simd::{self, LANES, Lanes, lanes};
use crate::bf16;
use crate::net::Activation;
use crate::ops::optimise::Step;

/// A function that is compiled three times; its body may call what is inlined into it.
macro_rules! wide {
    ($(#[$about:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$about])*
        pub(super) fn $name($($arg: $kind),*) $(-> $out)? {
            #[inline(always)]
            fn body($($arg: $kind),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx2")]
                fn avx512($($arg: $kind),*) $(-> $out)? {
                    body($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $kind),*) $(-> $out)? {
                    body($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has both.
                    return unsafe { avx512($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    return unsafe { avx2($($arg),*) };
                }
            }
            body($($arg),*)
        }
    };
}

/// Some columns of a row-major buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) stride: usize,
    pub(super) column: usize,
    pub(super) width: usize,
}

/// `activation(y + bias)` on some columns, rounded to bf16 if asked.
pub(super) fn finish(y: &mut [f32], at: Columns, bias: &[f32], activation: Activation, round: bool) {
    match activation {
        Activation::Tanh => finish_tanh(y, at, bias, round),
        Activation::Relu | Activation::Identity => finish_line(y, at, bias, activation, round),
    }
}

wide! {
    fn finish_line(y: &mut [f32], at: Columns, bias: &[f32], activation: Activation, round: bool) {
        match (activation == Activation::Relu, round) {
            (false, false) => with_bias(y, at, bias, |y| y),
            (true, false) => with_bias(y, at, bias, relu),
            (false, true) => with_bias(y, at, bias, bf16::round),
            (true, true) => with_bias(y, at, bias, |y| bf16::round(relu(y))),
        }
    }
}

lanes! {
    /// `tanh(y + bias)` on some columns; their number is a multiple of 8.
    fn finish_tanh(y: &mut [f32], at: Columns, bias: &[f32], round: bool) = finish_tanh_by
}

#[inline(always)]
pub(super) fn finish_tanh_by<V: Lanes>(y: &mut [f32], at: Columns, bias: &[f32], round: bool) {
    assert!(at.width.is_multiple_of(LANES) && bias.len() == at.width);
    let whole = at.width / V::N * V::N;
    for row in y.chunks_exact_mut(at.stride) {
        let row = &mut row[at.column..at.column + at.width];
        for column in (0..whole).step_by(V::N) {
            // SAFETY: as many columns as lanes are left of the row, and of the bias.
            unsafe { tanh_of::<V>(row[column..].as_mut_ptr(), bias[column..].as_ptr(), round) }
        }
        if whole < at.width {
            // SAFETY: eight columns are left.
            unsafe { tanh_of::<V::Narrow>(row[whole..].as_mut_ptr(), bias[whole..].as_ptr(), round) }
        }
    }
}

/// # Safety
/// As many floats as lanes must lie at both.
#[inline(always)]
unsafe fn tanh_of<V: Lanes>(y: *mut f32, bias: *const f32, round: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        let x = simd::tanh(V::load(y).add(V::load(bias)));
        if round { x.round().store(y) } else { x.store(y) }
    }
}

/// `f(y + bias)` on some columns. A loop and no chain of iterators: what those call may stay outside of the function
/// that is compiled for AVX2, and then takes half of its width.
#[inline(always)]
fn with_bias(y: &mut [f32], at: Columns, bias: &[f32], f: impl Fn(f32) -> f32) {
    for row in y.chunks_exact_mut(at.stride) {
        map(&mut row[at.column..at.column + at.width], bias, |y, b| f(y + b));
    }
}

wide! {
    /// `dz = dy × derivative` on some columns, from the layer's output, rounded to bf16 if asked.
    fn derive(dy: &mut [f32], y: &[f32], at: Columns, activation: Activation, round: bool) {
        match (activation, round) {
            (Activation::Identity, false) => {}
            // As a factor: chosen between two values it becomes a masked store, which some processors do ten times
            // slower.
            (Activation::Relu, false) => with_output(dy, y, at, |d, y| d * if y > 0.0 { 1.0 } else { 0.0 }),
            (Activation::Tanh, false) => with_output(dy, y, at, |d, y| d * (1.0 - y * y)),
            (Activation::Identity, true) => with_output(dy, y, at, |d, _| bf16::round(d)),
            (Activation::Relu, true) => with_output(dy, y, at, |d, y| bf16::round(if y > 0.0 { d } else { d * 0.0 })),
            (Activation::Tanh, true) => with_output(dy, y, at, |d, y| bf16::round(d * (1.0 - y * y))),
        }
    }
}

/// `f(dy, y)` on some columns, in a loop as above.
#[inline(always)]
fn with_output(dy: &mut [f32], y: &[f32], at: Columns, f: impl Fn(f32, f32) -> f32) {
    let columns = at.column..at.column + at.width;
    for (dy, y) in dy.chunks_exact_mut(at.stride).zip(y.chunks_exact(at.stride)) {
        map(&mut dy[columns.clone()], &y[columns.clone()], &f);
    }
}

#[inline(always)]
fn map(to: &mut [f32], with: &[f32], f: impl Fn(f32, f32) -> f32) {
    for (to, &with) in to.iter_mut().zip(with) {
        *to = f(*to, with);
    }
}

/// NaN stays NaN, so that it is seen.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

wide! {
    /// `(x - mean) × inverse`, rounded to bf16 if asked: one row of a table.
    fn scale(to: &mut [f32], from: &[f32], mean: &[f32], inverse: &[f32], round: bool) {
        let n = to.len();
        let mut at = 0;
        while at + PIECE <= n {
            scale_piece(&mut to[at..], &from[at..], &mean[at..], &inverse[at..], round);
            at += PIECE;
        }
        if at < n && n >= PIECE {
            // The last numbers as a whole piece: some are written twice, none by itself.
            at = n - PIECE;
            return scale_piece(&mut to[at..], &from[at..], &mean[at..], &inverse[at..], round);
        }
        for at in at..n {
            let x = (from[at] - mean[at]) * inverse[at];
            to[at] = if round { bf16::round(x) } else { x };
        }
    }
}

/// Numbers that are scaled at once.
const PIECE: usize = 16;

/// The first [`PIECE`] numbers.
#[inline(always)]
fn scale_piece(to: &mut [f32], from: &[f32], mean: &[f32], inverse: &[f32], round: bool) {
    let (to, from, mean, inverse) = (&mut to[..PIECE], &from[..PIECE], &mean[..PIECE], &inverse[..PIECE]);
    for i in 0..PIECE {
        let x = (from[i] - mean[i]) * inverse[i];
        to[i] = if round { bf16::round(x) } else { x };
    }
}

wide! {
    /// Rounds to bf16.
    fn round(values: &mut [f32]) {
        values.iter_mut().for_each(|x| *x = bf16::round(*x));
    }
}

wide! {
    /// `sums[column] (+)= Σ rows`, rows in order.
    fn sum_rows(values: &[f32], at: Columns, sums: &mut [f32], add: bool) {
        if !add {
            sums.fill(0.0);
        }
        // As many columns at once as registers hold.
        let (together, rest) = sums[..at.width].as_chunks_mut::<64>();
        let behind = at.column + 64 * together.len();
        for (i, sums) in together.iter_mut().enumerate() {
            let mut own = *sums;
            for row in values.chunks(at.stride) {
                map(&mut own, &row[at.column + 64 * i..at.column + 64 * (i + 1)], |sum, x| sum + x);
            }
            *sums = own;
        }
        if rest.is_empty() {
            return;
        }
        for row in values.chunks(at.stride) {
            map(rest, &row[behind..at.column + at.width], |sum, x| sum + x);
        }
    }
}

wide! {
    /// `to += from`
    fn add(to: &mut [f32], from: &[f32]) {
        map(to, from, |to, from| to + from);
    }
}

wide! {
    /// `Σ x²` in f64: eight sums side by side, then added in order.
    fn squares(values: &[f32]) -> f64 {
        let mut sums = [0f64; 8];
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            for (sum, &x) in sums.iter_mut().zip(eight) {
                *sum += f64::from(x) * f64::from(x);
            }
        }
        for (sum, &x) in sums.iter_mut().zip(rest) {
            *sum += f64::from(x) * f64::from(x);
        }
        sums.iter().sum()
    }
}

wide! {
    /// Adam or AdamW on some parameters.
    fn optimise(step: &Step, params: &mut [f32], mean: &mut [f32], square: &mut [f32], sums: &[f32]) {
        for (((p, m), s), &g) in params.iter_mut().zip(mean).zip(square).zip(sums) {
            step.apply(p, m, s, g);
        }
    }
}

wide! {
    /// `memory × average + (1 - memory) × params`; without memory the parameters themselves.
    fn average(average: &mut [f32], params: &[f32], memory: f32) {
        if memory == 0.0 {
            average.copy_from_slice(params);
            return;
        }
        let fresh = (1.0 - f64::from(memory)) as f32;
        map(average, params, |a, p| memory * a + fresh * p);
    }
}

wide! {
    /// Softmax cross-entropy of one row, with a share of its label spread over all classes: the loss, and its gradient
    /// at the logits.
    fn softmax_cross_entropy(z: &[f32], label: u8, weight: f32, smoothing: f32, dz: &mut [f32]) -> f64 {
        let largest = z.iter().fold(z[0], |a, &b| if b > a { b } else { a });
        for (dz, &z) in dz.iter_mut().zip(z) {
            *dz = curve::exp(z - largest);
        }
        let sum: f32 = dz.iter().sum();
        let label = usize::from(label);
        let mut right = f64::from(z[label] - largest);
        let even = smoothing / z.len() as f32;
        if smoothing > 0.0 {
            let all: f64 = z.iter().map(|z| f64::from(z - largest)).sum();
            right = (1.0 - f64::from(smoothing)) * right + f64::from(even) * all;
        }
        for (class, dz) in dz.iter_mut().enumerate() {
            *dz = weight * (*dz / sum - if class == label { 1.0 - smoothing + even } else { even });
        }
        f64::from(weight) * (f64::from(sum).ln() - right)
    }
}
