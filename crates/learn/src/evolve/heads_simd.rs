//! Heads of few outputs, whose inputs are lanes.

#![expect(unsafe_code, reason = "lines are read without checks that were made before")]
#![expect(clippy::needless_range_loop, reason = "several arrays at once, without closures")]

use super::format_simd::{Format, activate_rows};
use super::lanes_simd::Lanes;
use super::stack::{Dense, FEW, LANES, Line, ZEROS};
use super::stack_simd::{Inputs, Pass, inputs_of, words};
use compute::net::Activation;

/// A head whose inputs are lanes, of all rows of all individuals.
#[inline(always)]
pub(super) fn heads<F: Format>(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
    match layer.outputs {
        1 => heads_of::<F, 1>(layer, number, pass),
        2 => heads_of::<F, 2>(layer, number, pass),
        3 => heads_of::<F, 3>(layer, number, pass),
        _ => heads_of::<F, FEW>(layer, number, pass),
    }
}

/// The same for `O` outputs.
#[inline(always)]
fn heads_of<F: Format, const O: usize>(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
    let (rows, apart) = (pass.rows, pass.values.len() * pass.rows);
    // Rows of the first layer are side by side.
    if number > 0 && rows.is_multiple_of(FEW) && layer.activation == Activation::Identity {
        return fours::<F, O>(layer, number, pass);
    }
    for (individual, (weights, values)) in pass.weights.iter().zip(&*pass.values).enumerate() {
        let x = inputs_of(layer, number, &values[number % 2], rows);
        let out = Outputs { out: &mut *pass.out, first: individual * rows, apart };
        head::<F, O>(layer, &weights[layer.at..][..layer.weights()], x, out, rows);
    }
}

/// Where outputs go: number o of row r to `first + o × apart + r`.
struct Outputs<'a> {
    out: &'a mut [f32],
    first: usize,
    apart: usize,
}

/// The same where rows are whole fours in whole lines: without a choice on the way.
#[inline(always)]
fn fours<F: Format, const O: usize>(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
    let (rows, apart, each) = (pass.rows, pass.values.len() * pass.rows, layer.words.div_ceil(LANES));
    assert!(pass.out.len() >= O * apart && layer.weights() > O * each, "memory of a head");
    let mut to = pass.out.as_mut_ptr();
    for (weights, values) in pass.weights.iter().zip(&*pass.values) {
        let (weights, x) = (&weights[layer.at..], &values[number % 2]);
        assert!(weights.len() >= layer.weights() && x.len() >= rows * each, "weights and inputs of a head");
        let (w, mut x) = (weights.as_ptr(), x.as_ptr());
        for _ in 0..rows / FEW {
            let mut sums = [[F::Sums::splat(0.0); FEW]; O];
            // SAFETY: weights, rows and room for their outputs are there.
            unsafe {
                for v in 0..each {
                    let mut inputs = [F::splat(0); FEW];
                    for r in 0..FEW {
                        inputs[r] = F::load(&*x.add(r * each + v));
                    }
                    for o in 0..O {
                        let w = F::load(&*w.add(o * each + v));
                        for r in 0..FEW {
                            sums[o][r] = F::add_products(sums[o][r], w, inputs[r]);
                        }
                    }
                }
                let bias = &(*w.add(O * each)).0;
                for o in 0..O {
                    let [a, b, c, d] = F::Sums::sums(sums[o]);
                    *to.add(o * apart).cast::<[f32; FEW]>() = [a + bias[o], b + bias[o], c + bias[o], d + bias[o]];
                }
                (x, to) = (x.add(FEW * each), to.add(FEW));
            }
        }
    }
}

/// That of one individual.
#[inline(always)]
fn head<F: Format, const O: usize>(layer: &Dense, weights: &[Line], x: Inputs<'_>, out: Outputs<'_>, rows: usize) {
    let each = layer.words.div_ceil(LANES);
    let (own, bias) = weights.split_at(O * each);
    // Rows in whole lines are read where they are, those of the first layer are put together.
    let in_lines = x.apart == 1 && x.row == each * LANES;
    assert!(own.len() == O * each && (!in_lines || x.x.len() >= rows * x.row), "weights and inputs of a head");
    let mut row = 0;
    while row < rows {
        let (count, mut sums) = ((rows - row).min(FEW), [[F::Sums::splat(0.0); FEW]; O]);
        for v in 0..each {
            let mut inputs = [F::splat(0); FEW];
            for r in 0..FEW {
                let row = row + r.min(count - 1);
                inputs[r] = if in_lines {
                    // SAFETY: they are there, on borders of lines.
                    F::load(unsafe { &*x.x.as_ptr().add(row * x.row).cast::<Line>().add(v) })
                } else {
                    F::load(&line_of(layer, x, row, v))
                };
            }
            for o in 0..O {
                // SAFETY: there are as many.
                let w = F::load(unsafe { &*own.as_ptr().add(o * each + v) });
                for r in 0..FEW {
                    sums[o][r] = F::add_products(sums[o][r], w, inputs[r]);
                }
            }
        }
        for o in 0..O {
            let (sums, bias) = (F::Sums::sums(sums[o]), bias[0].0[o]);
            let mut found = [sums[0] + bias, sums[1] + bias, sums[2] + bias, sums[3] + bias];
            if layer.activation != Activation::Identity {
                let mut line = ZEROS;
                line.0[..FEW].copy_from_slice(&found);
                let mut x = [[F::Sums::load(&line)]];
                activate_rows::<F, 1, 1>(layer.activation, &mut x);
                x[0][0].store(&mut line);
                found.copy_from_slice(&line.0[..FEW]);
            }
            let to = &mut out.out[out.first + o * out.apart + row..][..count];
            // Whole fours are one store; anything else would be a call.
            match <&mut [f32; FEW]>::try_from(&mut *to) {
                Ok(whole) => *whole = found,
                Err(_) => to.copy_from_slice(&found[..count]),
            }
        }
        row += count;
    }
}

/// Line `v` of the inputs of a row that are not side by side; behind the last of them are zeros.
#[inline(never)]
fn line_of(layer: &Dense, x: Inputs<'_>, row: usize, v: usize) -> Line {
    let mut line = [ZEROS];
    let to = words(&mut line);
    for i in 0..LANES.min(layer.words - v * LANES) {
        to[i] = x.x[(v * LANES + i) * x.apart + row * x.row];
    }
    line[0]
}
