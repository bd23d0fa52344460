//! Every operation, fast against plain, over empty, one, odd and large sizes.

use super::near;
#[cfg(target_arch = "x86_64")]
use crate::amx;

use crate::cpu::loops::{self, Columns, finish_tanh_by};
#[cfg(target_arch = "x86_64")]
use crate::cpu::pairs;
use crate::cpu::product::{self, LayerWeights, Matrix, MatrixMut};
use crate::cpu::recurrent::back::{self, Back};
use crate::cpu::recurrent::step::{self, Forward};
use crate::cpu::recurrent::sums::{self as products, Spread, Weigh};
use crate::cpu::simd::{Plain, eights};
use crate::cpu::tile::{self, Product, Right, Side, multiply_by};
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
    let held = |x: &f32| crate::bf16::held(*x, precision);
    let (x, bias) = (numbers(1, rows * x_stride + 8).iter().map(held).collect::<Vec<f32>>(), numbers(3, outputs));
    let w: Vec<f32> = numbers(2, outputs * inputs).iter().map(|w| held(&(w / (inputs as f32).sqrt()))).collect();
    let (mut fast, mut plain) = (vec![0.0; rows * y_stride], vec![0.0; rows * y_stride]);
    let matrix = |values, stride, width| Matrix { values, stride, width };
    fn out(values: &mut [f32], stride: usize, width: usize) -> MatrixMut<'_> {
        MatrixMut { values, stride, width }
    }
    let rows_of = LayerWeights::Rows(matrix(&w, inputs, inputs));
    product::forward(rows, matrix(&x, x_stride, inputs), rows_of, out(&mut fast, y_stride, outputs), round);
    let (mut strips, mut again) = (vec![0.0; w.len()], vec![0.0; fast.len()]);
    tile::strips(outputs, inputs, &w, &mut strips, round);
    let strips = LayerWeights::Strips(&strips);
    product::forward(rows, matrix(&x, x_stride, inputs), strips, out(&mut again, y_stride, outputs), round);
    assert_eq!(fast, again, "{what}: in strips");
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
        product::weights_back(
            rows,
            dz_of,
            matrix(&x, x_stride, inputs),
            out(&mut fast_dw, inputs, inputs),
            [add, round],
        );
        loops::sum_rows(&dz, at, &mut fast_db, add);
        linear::weights_back(shape, &x, &dz, &mut dw, &mut db);
        near(&format!("{what}: dw"), &fast_dw, &dw, 1e-5);
        near(&format!("{what}: dbias"), &fast_db, &db, 1e-5);
        let n = rows * x_stride;
        let (mut fast_dx, mut dx) = (start(n), start(n));
        product::input_back(rows, dz_of, matrix(&w, inputs, inputs), out(&mut fast_dx, x_stride, inputs), [add, round]);
        linear::input_back(shape, &dz, &w, &mut dx);
        near(&format!("{what}: dx"), &fast_dx, &dx, 1e-5);
    }
}

#[test]
fn layers_match_the_reference() {
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

eights! {
    #[expect(unsafe_code, reason = "a function compiled for instructions that were just found")]
    fn tanh_in_eights(y: &mut [f32], at: Columns, bias: &[f32], round: bool) = finish_tanh_by
}

#[test]
fn a_tangent_is_the_same_in_registers_of_any_width() {
    for (width, round) in [(8, false), (16, false), (24, true), (64, false), (72, true)] {
        let at = Columns { stride: width + 8, column: 8, width };
        let (mut found, bias) = (numbers(1, 5 * at.stride), numbers(2, width));
        found.iter_mut().for_each(|x| *x *= 4.0);
        let mut eights = found.clone();
        loops::finish(&mut found, at, &bias, Activation::Tanh, round);
        tanh_in_eights(&mut eights, at, &bias, round);
        assert_eq!(found, eights, "{width} columns, rounded {round}");
    }
}

/// By which instructions a product is made.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    /// Those found here, rows copied where that is worth it.
    Found,
    /// Those found here, rows copied.
    Copied,
    /// AVX2, where it is there.
    Eights,
    /// None.
    Plain,
}

eights! {
    #[expect(unsafe_code, reason = "a function compiled for instructions that were just found")]
    fn in_eights(product: Product<'_>, copy: &mut [f32]) = multiply_by
}

/// `[m, n]` in rows of `n + 8`.
fn tiles(m: usize, n: usize, k: usize, [down, across, add]: [bool; 3], by: By) -> Vec<f32> {
    let (left, right) = (numbers(1, m * k), numbers(2, k * n));
    let side = |values, rows, columns, turned| match turned {
        false => Side { values, row: columns, column: 1 },
        true => Side { values, row: 1, column: rows },
    };
    let (left, right, stride) = (side(&left, m, k, down), side(&right, k, n, across), n + 8);
    let mut to = numbers(3, m * stride);
    let product = Product { m, n, k, left, right: Right::Matrix(right), to: &mut to, stride, add, bf16: false };
    let mut copy = vec![0.0; tile::COPY];
    match by {
        By::Found => tile::multiply(product),
        By::Copied => tile::tiles(product, &mut copy),
        By::Eights => in_eights(product, &mut []),
        By::Plain => multiply_by::<Plain>(product, &mut copy),
    }
    to
}

#[test]
fn tiles_are_products_on_any_instructions() {
    let small = (1..=27).flat_map(|m| [2, 3, 8, 13, 128, 300].map(|k| (m, [8, 16, 24, 40, 48, 72, 136][m % 7], k)));
    for (m, n, k) in small.chain([(600, 64, 9), (40, 200, 520)]) {
        for case in 0..8 {
            let turned = [1, 2, 4].map(|bit| case & bit > 0);
            let [down, across, add] = turned;
            let what = format!("{m} × {n} × {k}, turned {down} {across}, added {add}");
            let (left, right, before) = (numbers(1, m * k), numbers(2, k * n), numbers(3, m * (n + 8)));
            let mut exact = before.clone();
            for (at, to) in exact.iter_mut().enumerate() {
                let (i, j) = (at / (n + 8), at % (n + 8));
                if j < n {
                    let left = |x: usize| f64::from(left[if down { x * m + i } else { i * k + x }]);
                    let right = |x: usize| f64::from(right[if across { j * k + x } else { x * n + j }]);
                    let sum: f64 = (0..k).map(|x| left(x) * right(x)).sum();
                    *to = (sum + if add { f64::from(before[at]) } else { 0.0 }) as f32;
                }
            }
            let found = tiles(m, n, k, turned, By::Found);
            near(&what, &found, &exact, 1e-5);
            near(&what, &tiles(m, n, k, turned, By::Plain), &exact, 1e-5);
            // A copy changes nothing, nor do the lanes of a register, as long as products are fused.
            assert_eq!(tiles(m, n, k, turned, By::Copied), found, "{what}, rows copied");
            assert_eq!(tiles(m, n, k, turned, By::Eights), found, "{what}, in eights");
            // A row alone is the row among others.
            if !down && !add && m > 1 {
                assert_eq!(tiles(1, n, k, turned, By::Found)[..n], found[..n], "{what}");
            }
        }
    }
}

/// Shapes of products, small and large.
fn shapes() -> impl Iterator<Item = (usize, usize, usize)> {
    let small =
        (1..=27).flat_map(|m| [1, 2, 3, 8, 13, 40, 128, 300].map(|k| (m, [8, 16, 24, 40, 48, 72, 136][m % 7], k)));
    small.chain([(600, 64, 9), (40, 200, 520), (530, 72, 260)])
}

#[cfg(target_arch = "x86_64")]
#[test]
fn rounded_numbers_have_the_same_bits_in_pairs() {
    use crate::population::tests::skip;
    if !pairs::is_here() {
        return skip("no products of bf16 in this processor");
    }
    if !amx::is_here() {
        skip("no tile registers in this processor");
    }
    for ((m, n, k), case) in shapes().flat_map(|shape| (0..8).map(move |case| (shape, case))) {
        let [down, across, add] = [1, 2, 4].map(|bit| case & bit > 0);
        let rounded = |seed, n| numbers(seed, n).iter().map(|x| crate::bf16::round(*x)).collect::<Vec<f32>>();
        let (left, right, stride) = (rounded(1, m * k), rounded(2, k * n), n + 8);
        let side = |values, rows, columns, turned| match turned {
            false => Side { values, row: columns, column: 1 },
            true => Side { values, row: 1, column: rows },
        };
        let found = |by: fn(Product<'_>), bf16| {
            let (left, right) = (side(&left, m, k, down), Right::Matrix(side(&right, k, n, across)));
            let (mut to, k) = (numbers(3, m * stride), k);
            let product = Product { m, n, k, left, right, to: &mut to, stride, add, bf16 };
            if bf16 && !pairs::can(&product) {
                return None;
            }
            by(product);
            Some(to)
        };
        let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        let what = format!("{m} × {n} × {k}, turned {down} {across}, added {add}");
        let one_by_one = found(tile::multiply, false).unwrap();
        let Some(in_pairs) = found(|product| pairs::multiply_by(product, false), true) else { continue };
        assert_eq!(bits(&one_by_one), bits(&in_pairs), "{what}");
        if !amx::is_here() {
            continue;
        }
        // In tiles: sums of 32 numbers, their even and their odd ones apart, added to what is there.
        let in_tiles = found(|product| pairs::multiply_by(product, true), true).unwrap();
        let (left, right) = (side(&left, m, k, down), side(&right, k, n, across));
        let mut wanted = numbers(3, m * stride);
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let of = |k: usize| {
                let [a, b] = [
                    left.values[row * left.row + k * left.column],
                    right.values[k * right.row + column * right.column],
                ];
                (a, b)
            };
            let sum = |from: usize, to: usize| {
                (from..to).step_by(2).fold(0.0f32, |sum, k| {
                    let (a, b) = of(k);
                    a.mul_add(b, sum)
                })
            };
            let began = if add { wanted[row * stride + column] } else { 0.0 };
            wanted[row * stride + column] = (0..k).step_by(32).fold(began, |all, first| {
                let last = k.min(first + 32);
                all + (sum(first, last) + sum(first + 1, last))
            });
        }
        assert_eq!(bits(&in_tiles), bits(&wanted), "in tiles, {what}");
    }
}

#[test]
fn sums_and_additions_match_the_reference() {
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
fn losses_match_the_reference() {
    for classes in [2, 3, 7, 8, 255, 256] {
        for row in 0..20 {
            let z: Vec<f32> = numbers(8 + row, classes).iter().map(|x| x * (1 << row) as f32 / 64.0).collect();
            let label = (row as usize * 37 % classes) as u8;
            let (mut fast, mut plain) = (vec![0.0; classes], vec![0.0; classes]);
            let smoothing = if row % 2 == 0 { 0.0 } else { 0.1 };
            let a = loops::softmax_cross_entropy(&z, label, 0.7, smoothing, &mut fast);
            let b = loss::softmax_cross_entropy(&z, label, 0.7, smoothing, &mut plain);
            assert!((a - b).abs() < 1e-5 * (1.0 + b), "{classes} classes: {a} is not {b}");
            for (fast, plain) in fast.iter().zip(&plain) {
                assert!((fast - plain).abs() < 2e-6, "{classes} classes: {fast} is not {plain}");
            }
        }
    }
}

#[test]
fn optimisers_match_the_reference() {
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

/// What a step of a recurrent layer writes, by the instructions found here or by none.
fn recurrent_step(rows: usize, wide: usize, units: usize, round: bool, plain: bool) -> Vec<Vec<f32>> {
    let (inputs, size) = (wide + units, rows * units);
    let (xh, w) = (numbers(1, rows * inputs), numbers(2, (inputs + 1) * units * 4));
    let (mut carry, mut cells, mut gates) = (numbers(3, size), vec![0.0; size], vec![0.0; 4 * size]);
    let mut curved = vec![0.0; size];
    let mut h = vec![0.0; rows * inputs];
    let keep = Forward {
        rows,
        inputs,
        read: inputs,
        units,
        xh: &xh,
        w: &w,
        carry: &mut carry,
        cells: &mut cells,
        curved: &mut curved,
        gates: &mut gates,
        h: &mut h,
        round,
    };
    if plain {
        step::forward_by::<Plain>(keep)
    } else {
        step::forward(keep)
    }
    // Without anything kept h is the same.
    let (mut carry_alone, mut h_alone) = (numbers(3, size), vec![0.0; rows * inputs]);
    let mut gates_alone = vec![0.0; 4 * size];
    let alone = Forward {
        rows,
        inputs,
        read: inputs,
        units,
        xh: &xh,
        w: &w,
        carry: &mut carry_alone,
        cells: &mut [],
        curved: &mut [],
        gates: &mut gates_alone,
        h: &mut h_alone,
        round,
    };
    if plain {
        step::forward_by::<Plain>(alone)
    } else {
        step::forward(alone)
    }
    assert_eq!((&carry_alone, &gates_alone, &h_alone), (&carry, &gates, &h));
    let forward = [carry, cells, curved.clone(), gates.clone(), h];

    let (before, above, dh) = (numbers(4, size), numbers(5, size), numbers(6, size));
    let (mut dc, mut dw) = (numbers(7, size), numbers(8, (inputs + 1) * 4 * units));
    let gates_back = Back {
        rows,
        units,
        gates: &mut gates,
        curved: &curved,
        before: &before,
        above: &above,
        dh: &dh,
        dc: &mut dc,
        dw: &mut dw,
        round,
    };
    if plain {
        back::back_by::<Plain>(gates_back)
    } else {
        back::back(gates_back)
    }
    let mut out = vec![0.0; rows * inputs];
    let spread = Spread { rows, units, dz: &gates, w: &w[..inputs * units * 4], out: &mut out, round };
    if plain {
        products::spread_by::<Plain>(spread)
    } else {
        products::spread(spread)
    }
    // Two steps at once.
    let (xh, dz) = ([xh.clone(), xh].concat(), [gates.clone(), numbers(9, gates.len())].concat());
    let weigh = Weigh { rows, inputs, units, xh: &xh, dz: &dz, dw: &mut dw };
    if plain {
        products::weigh_by::<Plain>(weigh)
    } else {
        products::weigh(weigh)
    }
    forward.into_iter().chain([gates, dc, dw, out]).collect()
}

#[test]
fn recurrent_steps_need_no_special_instructions() {
    for rows in [0, 1, 2, 3, 4, 5, 7, 8, 11, 32, 37] {
        for (wide, units) in [(16, 16), (32, 48), (64, 16)] {
            for round in [false, true] {
                let [fast, plain] = [false, true].map(|plain| recurrent_step(rows, wide, units, round, plain));
                for (part, (fast, plain)) in fast.iter().zip(&plain).enumerate() {
                    let what = format!("{rows} rows, {wide} to {units}, rounded {round}, part {part}");
                    near(&what, fast, plain, if round { 1e-2 } else { 1e-5 });
                }
            }
        }
    }
}
