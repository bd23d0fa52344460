//! Every operation, fast against plain, over empty, one, odd and large sizes.

use super::near;
use crate::cpu::loops::{self, Columns};
use crate::cpu::product::{self, Matrix, MatrixMut};
use crate::net::Activation;
use crate::ops::linear::{self, Shape};
use crate::ops::optimise::{self, Step};
use crate::ops::{loss, sums};
use crate::population::world::number;
use crate::population::{Optimiser, Precision, Rule};

fn numbers(seed: u64, n: usize) -> Vec<f32> {
    (0..n).map(|i| number(seed, i)).collect()
}

/// A layer forward and backward, in columns of wider buffers.
fn check_layer(rows: usize, inputs: usize, outputs: usize, activation: Activation, precision: Precision) {
    let what = format!("{rows} rows, {inputs} to {outputs}, {activation:?}, {precision:?}");
    let (x_stride, y_stride, round) = (inputs + 16, outputs + 8, precision == Precision::Bf16);
    let shape = Shape { rows, inputs, outputs, x_stride, y_stride };
    let (x, bias) = (numbers(1, rows * x_stride + 8), numbers(3, outputs));
    let w: Vec<f32> = numbers(2, outputs * inputs).iter().map(|w| w / (inputs as f32).sqrt()).collect();
    let (mut fast, mut plain) = (vec![0.0; rows * y_stride], vec![0.0; rows * y_stride]);
    let matrix = |values, stride, width| Matrix { values, stride, width };
    fn out(values: &mut [f32], stride: usize, width: usize) -> MatrixMut<'_> {
        MatrixMut { values, stride, width }
    }
    product::forward(rows, matrix(&x, x_stride, inputs), matrix(&w, inputs, inputs), out(&mut fast, y_stride, outputs));
    let at = Columns { stride: y_stride, column: 0, width: outputs };
    loops::finish(&mut fast, at, &bias, activation, round);
    linear::forward(shape, &x, &w, &bias, activation, precision, &mut plain);
    let tolerance = if round { 1e-2 } else { 1e-5 };
    near(&format!("{what}: y"), &fast, &plain, tolerance);

    // Both backward passes from the same output, so that a rounding that turned does not count twice.
    let dy = numbers(4, rows * y_stride);
    let mut fast_dz = dy.clone();
    loops::derive(&mut fast_dz, &plain, at, activation, round);
    let mut dz = dy.clone();
    for row in dz.chunks_exact_mut(y_stride).zip(plain.chunks_exact(y_stride)) {
        for (dz, y) in row.0[..outputs].iter_mut().zip(row.1) {
            *dz = crate::bf16::held(*dz * linear::derivative(*y, activation), precision);
        }
    }
    near(&format!("{what}: dz"), &fast_dz, &dz, 0.0);
    for add in [false, true] {
        let start = |n: usize| if add { numbers(5, n) } else { vec![0.0; n] };
        let (mut fast_dw, mut dw) = (start(w.len()), start(w.len()));
        let (mut fast_db, mut db) = (start(outputs), start(outputs));
        let dz_of = matrix(&dz, y_stride, outputs);
        product::weights_back(rows, dz_of, matrix(&x, x_stride, inputs), out(&mut fast_dw, inputs, inputs), add);
        loops::sum_rows(&dz, at, &mut fast_db, add);
        linear::weights_back(shape, &x, &dz, &mut dw, &mut db);
        near(&format!("{what}: dw"), &fast_dw, &dw, 1e-5);
        near(&format!("{what}: dbias"), &fast_db, &db, 1e-5);
        let n = rows * x_stride;
        let (mut fast_dx, mut dx) = (start(n), start(n));
        product::input_back(rows, dz_of, matrix(&w, inputs, inputs), out(&mut fast_dx, x_stride, inputs), add);
        linear::input_back(shape, &dz, &w, &mut dx);
        near(&format!("{what}: dx"), &fast_dx, &dx, 1e-5);
    }
}

#[test]
fn layers() {
    use Activation::{Identity, Relu, Tanh};
    for rows in [0, 1, 7, 256] {
        check_layer(rows, 8, 8, Identity, Precision::F32);
        check_layer(rows, 24, 136, Relu, Precision::F32);
        check_layer(rows, 136, 40, Tanh, Precision::F32);
        check_layer(rows, 40, 24, Tanh, Precision::Bf16);
        check_layer(rows, 16, 32, Relu, Precision::Bf16);
        check_layer(rows, 16, 8, Identity, Precision::Bf16);
    }
    check_layer(1000, 72, 24, Relu, Precision::F32);
    check_layer(7, 4096, 48, Tanh, Precision::F32);
    check_layer(7, 48, 4096, Relu, Precision::F32);
    check_layer(1, 4096, 4096, Identity, Precision::F32);
}

#[test]
fn sums_and_additions() {
    for n in [0, 1, 7, 8, 9, 1000, 100_001] {
        let values = numbers(6, n);
        let (fast, plain) = (loops::squares(&values), sums::squares(&values));
        assert!((fast - plain).abs() <= 1e-12 * plain, "{n}: {fast} is not {plain}");
        let (mut fast, mut plain) = (numbers(7, n), numbers(7, n));
        loops::add(&mut fast, &values);
        sums::add(&mut plain, &values);
        assert_eq!(fast, plain);
    }
}

#[test]
fn losses() {
    for classes in [2, 3, 7, 8, 255, 256] {
        for row in 0..20 {
            let z: Vec<f32> = numbers(8 + row, classes).iter().map(|x| x * (1 << row) as f32 / 64.0).collect();
            let label = (row as usize * 37 % classes) as u8;
            let (mut fast, mut plain) = (vec![0.0; classes], vec![0.0; classes]);
            let a = loops::softmax_cross_entropy(&z, label, 0.7, &mut fast);
            let b = loss::softmax_cross_entropy(&z, label, 0.7, &mut plain);
            assert!((a - b).abs() < 1e-5 * (1.0 + b), "{classes} classes: {a} is not {b}");
            for (fast, plain) in fast.iter().zip(&plain) {
                assert!((fast - plain).abs() < 2e-6, "{classes} classes: {fast} is not {plain}");
            }
        }
    }
}

#[test]
fn optimisers() {
    for rule in [Rule::Adam, Rule::AdamW] {
        for n in [0, 1, 7, 1000] {
            let step = Step::new(&Optimiser { rule, ..Optimiser::default() }, 1e-2, 3, 2.0, 5.0);
            let start = || (numbers(1, n), numbers(2, n), numbers(3, n).iter().map(|x| x * x).collect::<Vec<_>>());
            let ((mut p, mut m, mut s), (mut pp, mut mm, mut ss), g) = (start(), start(), numbers(4, n));
            loops::optimise(&step, &mut p, &mut m, &mut s, &g);
            optimise::optimise(&step, &mut pp, &mut mm, &mut ss, &g);
            assert_eq!((p, m, s), (pp, mm, ss), "{rule:?}, {n}");
        }
    }
}
