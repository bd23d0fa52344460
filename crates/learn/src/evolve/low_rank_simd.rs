//! The pass of many individuals whose weights are shared ones and factors of their own (`low_rank`).
//!
//! A layer begins with what is each individual's own, `c + s σ z + s σ / √r · (x A) Bᵀ` row by row, and adds `x W` to
//! it, block of outputs by block of outputs for the rows of all individuals, so that a block of the shared weights is
//! read from memory once. Sums run over the inputs in order, as in `stack_simd`; dot products of `x A` are sixteen sums
//! side by side, added pairwise, then the inputs behind the last whole line one by one. So a row's bits do not depend
//! on who else is in its batch.

#![expect(unsafe_code, reason = "intrinsics, called only behind the detection of their features")]
#![expect(clippy::needless_range_loop, reason = "several arrays at once, without closures")]

use super::lanes_simd::{Lanes, Plain, activate};
use super::low_rank::{Factors, LayerFactors};
use super::stack::{Dense, LANES, Line, Stack};
#[cfg(target_arch = "x86_64")]
use super::wide_simd as wide;

/// What all individuals have in common.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    /// The weights of the middle, as [`Factors::lay_base`] lays them.
    pub(super) weights: &'a [Line],
    pub(super) factors: &'a Factors,
    pub(super) sigma: f32,
}

/// Runs a net for individuals `2 i` and `2 i + 1` on the two sides of draw `i`, whose factors are `laid`.
/// `values[..][0]` are `[rows]` inputs in whole lines; which of both holds the outputs, `[rows]` in whole lines.
pub(super) fn forward(
    stack: &Stack,
    base: Base<'_>,
    laid: &[Vec<Line>],
    values: &mut [[Vec<Line>; 2]],
    rows: usize,
) -> usize {
    assert!(
        base.weights.len() >= base.factors.base_lines
            && base.factors.layers.len() == stack.layers.len()
            && laid.iter().all(|own| own.len() >= base.factors.lines)
            && 2 * laid.len() >= values.len()
            && values.iter().flatten().all(|v| v.len() >= rows * stack.widest()),
        "memory for a pass"
    );
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx2,fma")]
        fn avx512(s: &Stack, b: Base<'_>, l: &[Vec<Line>], v: &mut [[Vec<Line>; 2]], rows: usize) -> usize {
            layers::<wide::Sixteen>(s, b, l, v, rows)
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2(s: &Stack, b: Base<'_>, l: &[Vec<Line>], v: &mut [[Vec<Line>; 2]], rows: usize) -> usize {
            layers::<wide::Eights>(s, b, l, v, rows)
        }
        match wide::level() {
            // SAFETY: the features were detected.
            2 => return unsafe { avx512(stack, base, laid, values, rows) },
            1 => return unsafe { avx2(stack, base, laid, values, rows) },
            _ => {}
        }
    }
    layers::<Plain>(stack, base, laid, values, rows)
}

// Loops below have no closures: one would be compiled without the instructions of its caller, and not be inlined.

#[inline(always)]
fn layers<L: Lanes>(
    stack: &Stack,
    base: Base<'_>,
    laid: &[Vec<Line>],
    values: &mut [[Vec<Line>; 2]],
    rows: usize,
) -> usize {
    let mut last = 0;
    for (layer, own) in stack.layers.iter().zip(&base.factors.layers) {
        let weights = &base.weights[own.base..][..(layer.inputs + 1) * layer.lines];
        for individual in 0..values.len() {
            let side = if individual % 2 == 0 { base.sigma } else { -base.sigma };
            let (x, y) = sides(&mut values[individual], last);
            begin::<L>(layer, own, base.factors, weights, &laid[individual / 2], side, x, y, rows);
        }
        let mut line = 0;
        while line < layer.lines {
            let left = layer.lines - line;
            let lines = if left >= 4 && L::WIDE >= 4 {
                4
            } else if left >= 2 && L::WIDE >= 2 {
                2
            } else {
                1
            };
            for individual in 0..values.len() {
                let (x, y) = sides(&mut values[individual], last);
                let mut row = 0;
                while row < rows {
                    let four = rows - row >= 4;
                    match (four, lines) {
                        (true, 4) => block::<L, 4, 4>(layer, weights, x, y, row, line),
                        (false, 4) => block::<L, 1, 4>(layer, weights, x, y, row, line),
                        (true, 2) => block::<L, 4, 2>(layer, weights, x, y, row, line),
                        (false, 2) => block::<L, 1, 2>(layer, weights, x, y, row, line),
                        (true, _) => head::<L, 4>(layer, weights, x, y, row, line),
                        (false, _) => head::<L, 1>(layer, weights, x, y, row, line),
                    }
                    row += if four { 4 } else { 1 };
                }
            }
            line += lines;
        }
        last = 1 - last;
    }
    last
}

/// What a layer reads and what it writes.
#[inline(always)]
fn sides(values: &mut [Vec<Line>; 2], from: usize) -> (&[Line], &mut [Line]) {
    let [a, b] = values;
    if from == 0 { (a, b) } else { (b, a) }
}

/// The inputs of a row as so many floats.
#[inline(always)]
fn inputs<'a>(layer: &Dense, x: &'a [Line], row: usize) -> &'a [f32] {
    let lines = layer.inputs.div_ceil(LANES);
    let own = &x[row * lines..][..lines];
    // SAFETY: a line is sixteen floats without padding, and `lines` of them hold the inputs.
    unsafe { std::slice::from_raw_parts(own.as_ptr().cast::<f32>(), layer.inputs) }
}

/// What is an individual's own of all rows.
#[expect(clippy::too_many_arguments, reason = "inlined")]
#[inline(always)]
fn begin<L: Lanes>(
    layer: &Dense,
    own: &LayerFactors,
    factors: &Factors,
    weights: &[Line],
    laid: &[Line],
    side: f32,
    x: &[Line],
    y: &mut [Line],
    rows: usize,
) {
    let (lines, x_lines) = (layer.lines, layer.inputs.div_ceil(LANES));
    let [a, b, bias] = own.lines;
    let shared = &weights[layer.inputs * lines..][..lines];
    let (by, scale) = (L::splat(side), side * factors.scale());
    for row in 0..rows {
        let to = &mut y[row * lines..][..lines];
        for v in 0..lines {
            L::load(&laid[bias + v]).mul_add(by, L::load(&shared[v])).store(&mut to[v]);
        }
        let own = &x[row * x_lines..][..x_lines];
        for k in 0..factors.rank {
            let dot = dot::<L>(own, &laid[a + k * x_lines..][..x_lines], layer.inputs);
            let by = L::splat(dot * scale);
            for v in 0..lines {
                L::load(&laid[b + k * lines + v]).mul_add(by, L::load(&to[v])).store(&mut to[v]);
            }
        }
    }
}

/// `x · a` over so many inputs. Behind the last of them `x` holds anything.
#[inline(always)]
fn dot<L: Lanes>(x: &[Line], a: &[Line], inputs: usize) -> f32 {
    let whole = inputs / LANES;
    let mut sums = L::splat(0.0);
    for v in 0..whole {
        sums = L::load(&x[v]).mul_add(L::load(&a[v]), sums);
    }
    let mut line = Line([0.0; LANES]);
    sums.store(&mut line);
    let mut sums = line.0;
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
    }
    let mut sum = sums[0];
    for i in 0..inputs - whole * LANES {
        sum += x[whole].0[i] * a[whole].0[i];
    }
    sum
}

/// Adds the shared product to `R` rows of `V` lines, and activates them.
#[inline(always)]
fn block<L: Lanes, const R: usize, const V: usize>(
    layer: &Dense,
    weights: &[Line],
    x: &[Line],
    y: &mut [Line],
    row: usize,
    line: usize,
) {
    let lines = layer.lines;
    let mut rows: [&[f32]; R] = [&[]; R];
    let mut sums = [[L::splat(0.0); V]; R];
    for r in 0..R {
        rows[r] = inputs(layer, x, row + r);
        for v in 0..V {
            sums[r][v] = L::load(&y[(row + r) * lines + line + v]);
        }
    }
    for (k, own) in weights[..layer.inputs * lines].chunks_exact(lines).enumerate() {
        let own = &own[line..line + V];
        let mut w = [L::splat(0.0); V];
        for v in 0..V {
            w[v] = L::load(&own[v]);
        }
        for r in 0..R {
            let input = L::splat(rows[r][k]);
            for v in 0..V {
                sums[r][v] = w[v].mul_add(input, sums[r][v]);
            }
        }
    }
    for r in 0..R {
        let sums = activate(layer.activation, sums[r]);
        let to = &mut y[(row + r) * lines + line..][..V];
        for v in 0..V {
            sums[v].store(&mut to[v]);
        }
    }
}

/// The same of one line, in four sums each.
#[inline(always)]
fn head<L: Lanes, const R: usize>(
    layer: &Dense,
    weights: &[Line],
    x: &[Line],
    y: &mut [Line],
    row: usize,
    line: usize,
) {
    let lines = layer.lines;
    let mut rows: [&[f32]; R] = [&[]; R];
    let mut sums = [[L::splat(0.0); 4]; R];
    for r in 0..R {
        rows[r] = inputs(layer, x, row + r);
        sums[r][0] = L::load(&y[(row + r) * lines + line]);
    }
    let own = &weights[..layer.inputs * lines];
    let whole = layer.inputs / 4;
    for (four, w) in own.chunks_exact(4 * lines).enumerate() {
        for part in 0..4 {
            let w = L::load(&w[part * lines + line]);
            for r in 0..R {
                sums[r][part] = w.mul_add(L::splat(rows[r][4 * four + part]), sums[r][part]);
            }
        }
    }
    for k in 4 * whole..layer.inputs {
        let w = L::load(&own[k * lines + line]);
        for r in 0..R {
            sums[r][k % 4] = w.mul_add(L::splat(rows[r][k]), sums[r][k % 4]);
        }
    }
    for r in 0..R {
        let [a, b, c, d] = sums[r];
        let [sum] = activate(layer.activation, [a.add(b).add(c.add(d))]);
        sum.store(&mut y[(row + r) * lines + line]);
    }
}
