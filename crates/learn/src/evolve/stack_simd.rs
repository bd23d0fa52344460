//! The pass of the nets of a few individuals: outputs in lanes of sixteen, a few rows at a time in registers.
//!
//! A block is some rows and some lines of outputs: its sums stay in registers while it goes once through the weights,
//! and an input of a row is one number for all lanes. Sums run over the inputs in order from the bias on; of one line
//! alone there are four such sums (inputs 0, 4, 8, … and so on), added at the end, so that they do not wait for each
//! other. A head of few outputs has its inputs in lanes: sixteen sums of each output, added up at the end, and then the
//! bias.
//!
//! Layers run one behind the other for all individuals, so that the tangents of a block ([`Pending`]) are computed
//! while the products of the next block, of another individual, keep the multipliers busy.
//!
//! Compiled for AVX-512, for AVX2 and for everything else; which one runs is decided when it is called.

#![expect(unsafe_code, reason = "intrinsics, called only behind the detection of their features")]
#![expect(clippy::needless_range_loop, reason = "several arrays at once, without closures")]

use super::stack::{Dense, FEW, LANES, Line, Stack, ZEROS};
use compute::net::Activation;

/// Sixteen floats that every operation treats alike.
pub(super) trait Lanes: Copy {
    /// Lines of a block: what the registers hold for four rows.
    const WIDE: usize;
    fn load(from: &Line) -> Self;
    fn store(self, to: &mut Line);
    fn splat(x: f32) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `self × by + plus`
    fn mul_add(self, by: Self, plus: Self) -> Self;
    fn at_least(self, low: f32) -> Self;
    fn at_most(self, high: f32) -> Self;
    /// `[4]` the sum of the lanes of each: within quarters lane i and i + 2, then both; then quarters i and i + 2, then
    /// both.
    fn sums(four: [Self; FEW]) -> [f32; FEW];
    /// `2ⁿ`, where n is in the lowest bits, as adding 1.5 × 2²³ leaves it.
    fn power(self) -> Self;
    /// [`square`], apart from what is around it: all registers are its own.
    #[inline(always)]
    fn square(block: &Square<'_>, values: &mut [[Vec<Line>; 2]]) {
        square::<Self>(block, values);
    }
    /// [`heads`], the same way.
    #[inline(always)]
    fn heads(layer: &Dense, weights: &[Line], x: Inputs<'_>, out: Outputs<'_>, rows: usize) {
        heads::<Self>(layer, weights, x, out, rows);
    }
    /// The tangents of lines; within 4 units in the last place.
    #[inline(always)]
    fn tanh<const V: usize>(mut x: [Self; V]) -> [Self; V] {
        // All that is divided by comes first, then all divisions: they wait less for each other.
        for v in 0..V {
            x[v] = above(x[v]);
        }
        for v in 0..V {
            x[v] = x[v].div(x[v].add(Self::splat(2.0)));
        }
        x
    }
}

/// What a pass reads and writes, of each individual.
pub(super) struct Pass<'a> {
    /// `[individuals]` weights, as [`Stack::lay`] lays them.
    pub(super) weights: &'a [Vec<Line>],
    /// `[individuals]` memory; `[0]` are inputs, `[inputs, rows]` without padding.
    pub(super) values: &'a mut [[Vec<Line>; 2]],
    /// `[outputs, individuals, rows]`
    pub(super) out: &'a mut [f32],
    pub(super) rows: usize,
}

/// Runs the nets of individuals.
pub(super) fn forward(stack: &Stack, pass: &mut Pass<'_>) {
    let (rows, lines) = (pass.rows, pass.rows * stack.widest());
    assert!(
        pass.weights.len() >= pass.values.len()
            && pass.weights.iter().all(|own| own.len() >= stack.lines)
            && pass.values.iter().flatten().all(|own| own.len() >= lines)
            && pass.out.len() >= pass.values.len() * stack.outputs() * rows,
        "memory for a pass"
    );
    #[cfg(target_arch = "x86_64")]
    match wide::level() {
        // SAFETY: the features were detected.
        2 => return unsafe { wide::forward_avx512(stack, pass) },
        1 => return unsafe { wide::forward_avx2(stack, pass) },
        _ => {}
    }
    layers::<Plain>(stack, pass);
}

/// Lines as the floats that they are.
pub(super) fn floats(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is sixteen floats without padding.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<f32>(), lines.len() * LANES) }
}

/// Sums of four rows and four lines that are not activated yet.
#[derive(Clone, Copy)]
struct Pending {
    individual: usize,
    /// Which of its values, and the first line of each row.
    values: usize,
    first: usize,
    /// Lines of a row.
    lines: usize,
}

/// Rows and lines of a block whose activation is left for later.
const SQUARE: usize = 4;

impl Pending {
    /// Line `i` of all of them.
    fn at(self, i: usize) -> usize {
        self.first + i / SQUARE * self.lines + i % SQUARE
    }

    /// Activates all of them.
    #[inline(always)]
    fn activate_all<L: Lanes>(self, values: &mut [[Vec<Line>; 2]]) {
        let y = &mut values[self.individual][self.values];
        for i in 0..SQUARE * SQUARE {
            let line = &mut y[self.at(i)];
            let [x] = L::tanh([L::load(line)]);
            x.store(line);
        }
    }
}

#[inline(always)]
fn layers<L: Lanes>(stack: &Stack, pass: &mut Pass<'_>) {
    let (rows, mut pending) = (pass.rows, None::<Pending>);
    let apart = pass.values.len() * rows;
    for (number, layer) in stack.layers.iter().enumerate() {
        let from = number % 2;
        for individual in 0..pass.values.len() {
            // What it is about to read.
            if let Some(left) = pending.take_if(|left| left.individual == individual) {
                left.activate_all::<L>(pass.values);
            }
            let weights = &pass.weights[individual][layer.at..][..layer.weights()];
            if layer.turned {
                let x = inputs_of(layer, number, &pass.values[individual][from], rows);
                L::heads(layer, weights, x, Outputs { out: &mut *pass.out, first: individual * rows, apart }, rows);
                continue;
            }
            run::<L>(layer, number, weights, pass.values, individual, rows, &mut pending);
        }
    }
    if let Some(left) = pending {
        left.activate_all::<L>(pass.values);
    }
    let last = stack.layers[stack.layers.len() - 1];
    if !last.turned {
        for (individual, values) in pass.values.iter().enumerate() {
            let y = &values[stack.layers.len() % 2];
            for o in 0..last.outputs {
                for row in 0..rows {
                    let place = o * apart + individual * rows + row;
                    pass.out[place] = y[row * last.lines + o / LANES].0[o % LANES];
                }
            }
        }
    }
}

/// Where inputs lie: number k of row r at `k × apart + r × row`.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    x: &'a [f32],
    apart: usize,
    row: usize,
}

/// Where outputs go: number o of row r to `first + o × apart + r`.
pub(super) struct Outputs<'a> {
    out: &'a mut [f32],
    first: usize,
    apart: usize,
}

/// The inputs of a layer: those of the first have rows side by side, those of others are rows in whole lines.
#[inline(always)]
fn inputs_of<'a>(layer: &Dense, number: usize, x: &'a [Line], rows: usize) -> Inputs<'a> {
    let wide = layer.inputs.div_ceil(LANES) * LANES;
    // SAFETY: a line is sixteen floats without padding.
    let x = unsafe { std::slice::from_raw_parts(x.as_ptr().cast::<f32>(), x.len() * LANES) };
    let (apart, row) = if number == 0 { (rows, 1) } else { (1, wide) };
    assert!(x.len() > (layer.inputs - 1) * apart + (rows - 1) * row, "inputs of all rows");
    Inputs { x, apart, row }
}

/// One layer of all rows of an individual.
#[inline(always)]
fn run<L: Lanes>(
    layer: &Dense,
    number: usize,
    weights: &[Line],
    values: &mut [[Vec<Line>; 2]],
    individual: usize,
    rows: usize,
    pending: &mut Option<Pending>,
) {
    let (mut row, to) = (0, 1 - number % 2);
    while row < rows {
        let four = rows - row >= 4;
        let mut line = 0;
        while line < layer.lines {
            let left = layer.lines - line;
            let at = Place { row, line };
            if four && left >= 4 && L::WIDE >= 4 {
                let before = pending.take();
                L::square(&Square { layer, number, weights, individual, rows, at, before }, values);
                let first = row * layer.lines + line;
                match layer.activation {
                    Activation::Tanh => *pending = Some(Pending { individual, values: to, first, lines: layer.lines }),
                    activation => {
                        let own = Pending { individual, values: to, first, lines: layer.lines };
                        for i in 0..SQUARE * SQUARE {
                            let line = &mut values[individual][to][own.at(i)];
                            let [x] = activate(activation, [L::load(line)]);
                            x.store(line);
                        }
                    }
                }
                line += 4;
                continue;
            }
            let [a, b] = &mut values[individual];
            let (x, y) = if to == 1 { (&*a, b) } else { (&*b, a) };
            let x = inputs_of(layer, number, x, rows);
            line += match (four, left) {
                (true, 1) => one_line::<L, 4>(layer, weights, x, y, at),
                (false, 1) => one_line::<L, 1>(layer, weights, x, y, at),
                (false, 4..) if L::WIDE >= 4 => block::<L, 1, 4>(layer, weights, x, y, at),
                (true, 2..) if L::WIDE >= 2 => block::<L, 4, 2>(layer, weights, x, y, at),
                (false, 2..) if L::WIDE >= 2 => block::<L, 1, 2>(layer, weights, x, y, at),
                (true, _) => block::<L, 4, 1>(layer, weights, x, y, at),
                (false, _) => block::<L, 1, 1>(layer, weights, x, y, at),
            };
        }
        row += if four { 4 } else { 1 };
    }
}

/// Where a block begins.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    line: usize,
}

// Loops below have no closures: one would be compiled without the instructions of its caller, and not be inlined.

/// A block of four rows and four lines.
pub(super) struct Square<'a> {
    layer: &'a Dense,
    /// The layer's number, and its weights.
    number: usize,
    weights: &'a [Line],
    individual: usize,
    rows: usize,
    at: Place,
    /// The block whose activation is due.
    before: Option<Pending>,
}

/// Computes a block without its activation, and meanwhile that of the block before.
#[inline(always)]
fn square<L: Lanes>(block: &Square<'_>, values: &mut [[Vec<Line>; 2]]) {
    let Square { layer, number, weights, individual, rows, at, before } = *block;
    let (from, lines) = (number % 2, layer.lines);
    let bias = &weights[layer.inputs * lines + at.line..][..SQUARE];
    let mut sums = [[L::splat(0.0); SQUARE]; SQUARE];
    for v in 0..SQUARE {
        let bias = L::load(&bias[v]);
        for r in 0..SQUARE {
            sums[r][v] = bias;
        }
    }
    // The lines that are activated meanwhile.
    let (count, target) = match before {
        Some(before) => {
            let target = &mut values[before.individual][before.values];
            assert!(before.at(SQUARE * SQUARE - 1) < target.len(), "memory of the block before");
            (SQUARE * SQUARE, target.as_mut_ptr())
        }
        None => (0, std::ptr::null_mut()),
    };
    let x = inputs_of(layer, number, &values[individual][from], rows);
    let (apart, row) = (x.apart, x.row);
    assert!(at.row + SQUARE <= rows && at.line + SQUARE <= lines, "a block of the layer");
    let mut x = values[individual][from].as_ptr().cast::<f32>();
    assert!(weights.len() >= (layer.inputs + 1) * lines, "weights of the layer");
    // SAFETY: weights and inputs of all rows are there, and so are the lines of the block before. Those are not read
    // here: they are outputs of the same layer, or another individual's.
    unsafe {
        let mut w = weights.as_ptr().add(at.line);
        x = x.add(at.row * row);
        let mut k = 0;
        if let Some(before) = before {
            for i in 0..count {
                let upto = layer.inputs * (i + 1) / (SQUARE * SQUARE);
                while k < upto {
                    multiply::<L>(w, x, row, &mut sums);
                    (w, x, k) = (w.add(lines), x.add(apart), k + 1);
                }
                let line = target.add(before.at(i));
                let [activated] = L::tanh([L::load(&*line)]);
                activated.store(&mut *line);
            }
        }
        while k < layer.inputs {
            multiply::<L>(w, x, row, &mut sums);
            (w, x, k) = (w.add(lines), x.add(apart), k + 1);
        }
    }
    let y = &mut values[individual][1 - from];
    for r in 0..SQUARE {
        let to = &mut y[(at.row + r) * lines + at.line..][..SQUARE];
        for v in 0..SQUARE {
            sums[r][v].store(&mut to[v]);
        }
    }
}

/// One input of four rows, `row` numbers apart, times its four lines of weights.
///
/// # Safety
///
/// All of them are there.
#[inline(always)]
unsafe fn multiply<L: Lanes>(w: *const Line, x: *const f32, row: usize, sums: &mut [[L; SQUARE]; SQUARE]) {
    let mut lines = [L::splat(0.0); SQUARE];
    for v in 0..SQUARE {
        // SAFETY: as above.
        lines[v] = L::load(unsafe { &*w.add(v) });
    }
    for r in 0..SQUARE {
        // SAFETY: as above.
        let input = L::splat(unsafe { *x.add(r * row) });
        for v in 0..SQUARE {
            sums[r][v] = lines[v].mul_add(input, sums[r][v]);
        }
    }
}

/// `R` rows of `V` lines; how many lines.
#[inline(always)]
fn block<L: Lanes, const R: usize, const V: usize>(
    layer: &Dense,
    weights: &[Line],
    x: Inputs<'_>,
    y: &mut [Line],
    at: Place,
) -> usize {
    let lines = layer.lines;
    let (own, bias) = weights.split_at(layer.inputs * lines);
    let mut sums = [[L::splat(0.0); V]; R];
    for v in 0..V {
        let bias = L::load(&bias[at.line + v]);
        for r in 0..R {
            sums[r][v] = bias;
        }
    }
    for (k, row) in own.chunks_exact(lines).enumerate() {
        let row = &row[at.line..at.line + V];
        let mut w = [L::splat(0.0); V];
        for v in 0..V {
            w[v] = L::load(&row[v]);
        }
        for r in 0..R {
            let input = L::splat(x.x[k * x.apart + (at.row + r) * x.row]);
            for v in 0..V {
                sums[r][v] = w[v].mul_add(input, sums[r][v]);
            }
        }
    }
    activate_rows(layer.activation, &mut sums);
    for r in 0..R {
        let to = &mut y[(at.row + r) * lines + at.line..][..V];
        for v in 0..V {
            sums[r][v].store(&mut to[v]);
        }
    }
    V
}

/// `R` rows of one line, in four sums each; one line.
#[inline(always)]
fn one_line<L: Lanes, const R: usize>(
    layer: &Dense,
    weights: &[Line],
    x: Inputs<'_>,
    y: &mut [Line],
    at: Place,
) -> usize {
    let lines = layer.lines;
    let mut first = [0; R];
    for r in 0..R {
        first[r] = (at.row + r) * x.row;
    }
    let (own, bias) = weights.split_at(layer.inputs * lines);
    let mut sums = [[L::splat(0.0); 4]; R];
    let bias = L::load(&bias[at.line]);
    for r in 0..R {
        sums[r][0] = bias;
    }
    let whole = layer.inputs / 4;
    for (four, w) in own.chunks_exact(4 * lines).enumerate() {
        for part in 0..4 {
            let w = L::load(&w[part * lines + at.line]);
            for r in 0..R {
                sums[r][part] = w.mul_add(L::splat(x.x[first[r] + (4 * four + part) * x.apart]), sums[r][part]);
            }
        }
    }
    for k in 4 * whole..layer.inputs {
        let w = L::load(&own[k * lines + at.line]);
        for r in 0..R {
            sums[r][k % 4] = w.mul_add(L::splat(x.x[first[r] + k * x.apart]), sums[r][k % 4]);
        }
    }
    let mut all = [[L::splat(0.0); 1]; R];
    for r in 0..R {
        let [a, b, c, d] = sums[r];
        all[r] = [a.add(b).add(c.add(d))];
    }
    activate_rows(layer.activation, &mut all);
    for r in 0..R {
        all[r][0].store(&mut y[(at.row + r) * lines + at.line]);
    }
    1
}

/// A head whose inputs are lanes, of all rows: `[outputs, rows]`.
#[inline(always)]
fn heads<L: Lanes>(layer: &Dense, weights: &[Line], x: Inputs<'_>, out: Outputs<'_>, rows: usize) {
    match layer.outputs {
        1 => heads_of::<L, 1>(layer, weights, x, out, rows),
        2 => heads_of::<L, 2>(layer, weights, x, out, rows),
        3 => heads_of::<L, 3>(layer, weights, x, out, rows),
        _ => heads_of::<L, FEW>(layer, weights, x, out, rows),
    }
}

/// The same for `O` outputs.
#[inline(always)]
fn heads_of<L: Lanes, const O: usize>(layer: &Dense, weights: &[Line], x: Inputs<'_>, out: Outputs<'_>, rows: usize) {
    let each = layer.inputs.div_ceil(LANES);
    let (own, bias) = weights.split_at(O * each);
    let mut row = 0;
    while row < rows {
        let (count, mut sums) = ((rows - row).min(FEW), [[L::splat(0.0); FEW]; O]);
        for v in 0..each {
            let mut inputs = [L::splat(0.0); FEW];
            for r in 0..FEW {
                inputs[r] = head_inputs::<L>(layer, x, row + r.min(count - 1), v);
            }
            for o in 0..O {
                let w = L::load(&own[o * each + v]);
                for r in 0..FEW {
                    sums[o][r] = w.mul_add(inputs[r], sums[o][r]);
                }
            }
        }
        let mut found = [[0.0; FEW]; O];
        for o in 0..O {
            let (sums, bias) = (L::sums(sums[o]), bias[0].0[o]);
            for r in 0..FEW {
                found[o][r] = sums[r] + bias;
            }
        }
        if layer.activation != Activation::Identity {
            for o in 0..O {
                let mut line = ZEROS;
                line.0[..FEW].copy_from_slice(&found[o]);
                let [x] = activate(layer.activation, [L::load(&line)]);
                x.store(&mut line);
                found[o].copy_from_slice(&line.0[..FEW]);
            }
        }
        for o in 0..O {
            let to = &mut out.out[out.first + o * out.apart + row..][..count];
            // Whole fours are one store; anything else would be a call.
            match <&mut [f32; FEW]>::try_from(&mut *to) {
                Ok(whole) => *whole = found[o],
                Err(_) => to.copy_from_slice(&found[o][..count]),
            }
        }
        row += count;
    }
}

/// Line `v` of the inputs of a row; behind the last of them are zeros.
#[inline(always)]
fn head_inputs<L: Lanes>(layer: &Dense, x: Inputs<'_>, row: usize, v: usize) -> L {
    if x.apart == 1 && x.row >= LANES {
        let lines = &x.x[row * x.row + v * LANES..][..LANES];
        // SAFETY: sixteen floats, which a row of whole lines has on a border of their own.
        return L::load(unsafe { &*lines.as_ptr().cast::<Line>() });
    }
    let mut line = ZEROS;
    for i in 0..LANES.min(layer.inputs - v * LANES) {
        line.0[i] = x.x[(v * LANES + i) * x.apart + row * x.row];
    }
    L::load(&line)
}

/// The choice is made once for all sums of a block: inside of the rows it cost a tenth of a pass.
#[inline(always)]
fn activate_rows<L: Lanes, const R: usize, const V: usize>(activation: Activation, x: &mut [[L; V]; R]) {
    match activation {
        Activation::Identity => {}
        Activation::Relu => {
            for r in 0..R {
                for v in 0..V {
                    x[r][v] = x[r][v].at_least(0.0);
                }
            }
        }
        Activation::Tanh => {
            for r in 0..R {
                x[r] = L::tanh(x[r]);
            }
        }
    }
}

/// The same of one row.
#[inline(always)]
pub(super) fn activate<L: Lanes, const V: usize>(activation: Activation, x: [L; V]) -> [L; V] {
    let mut rows = [x];
    activate_rows(activation, &mut rows);
    rows[0]
}

/// `e^2x - 1`, of which `tanh x` is `a / (a + 2)`; within 4 units in the last place there.
#[inline(always)]
fn above<L: Lanes>(x: L) -> L {
    const WHOLE: f32 = 12_582_912.0;
    let x = x.add(x).at_most(20.0).at_least(-20.0);
    let shifted = x.mul_add(L::splat(std::f32::consts::LOG2_E), L::splat(WHOLE));
    let n = shifted.sub(L::splat(WHOLE));
    // ln 2 in two parts; the first has few bits.
    let r = n.mul_add(L::splat(2.121_944_4e-4), n.mul_add(L::splat(-0.693_359_4), x));
    // (e^r - 1 - r) / r² within 2e-8, |r| ≤ ln 2 / 2.
    let mut sum = L::splat(0.001_388_239_6);
    for c in [0.008_367_181, 0.041_667_223, 0.166_665_39, 0.499_999_97] {
        sum = sum.mul_add(r, L::splat(c));
    }
    let p = sum.mul_add(r.mul(r), r);
    let power = shifted.power();
    power.mul_add(p, power.sub(L::splat(1.0)))
}

/// Without any special instructions.
#[derive(Clone, Copy)]
pub(super) struct Plain([f32; LANES]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Plain, f: impl Fn(f32, f32) -> f32) -> Plain {
        Plain(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Lanes for Plain {
    const WIDE: usize = 1;
    #[inline(always)]
    fn load(from: &Line) -> Plain {
        Plain(from.0)
    }
    #[inline(always)]
    fn store(self, to: &mut Line) {
        to.0 = self.0;
    }
    #[inline(always)]
    fn splat(x: f32) -> Plain {
        Plain([x; LANES])
    }
    #[inline(always)]
    fn add(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(self, by: Plain, plus: Plain) -> Plain {
        self.mul(by).add(plus)
    }
    #[inline(always)]
    fn at_least(self, low: f32) -> Plain {
        Plain(self.0.map(|x| if x < low { low } else { x }))
    }
    #[inline(always)]
    fn at_most(self, high: f32) -> Plain {
        Plain(self.0.map(|x| if x > high { high } else { x }))
    }
    #[inline(always)]
    fn sums(four: [Plain; FEW]) -> [f32; FEW] {
        four.map(|Plain(x)| {
            let mut quarters = [0.0; 4];
            for (quarter, x) in quarters.iter_mut().zip(x.chunks_exact(4)) {
                *quarter = (x[0] + x[2]) + (x[1] + x[3]);
            }
            (quarters[0] + quarters[2]) + (quarters[1] + quarters[3])
        })
    }
    #[inline(always)]
    fn power(self) -> Plain {
        Plain(self.0.map(|x| f32::from_bits(x.to_bits().wrapping_add(127) << 23)))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod wide {
    use super::super::tanh_simd::tanh_of;
    use super::{Dense, FEW, Inputs, LANES, Lanes, Line, Outputs, Pass, Square, Stack, heads, layers, square};
    use std::arch::x86_64::*;
    use std::sync::OnceLock;

    /// 2: AVX-512, 1: AVX2 and FMA, 0: neither.
    pub(in super::super) fn level() -> u8 {
        static LEVEL: OnceLock<u8> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if fused && is_x86_feature_detected!("avx512f") { 2 } else { u8::from(fused) }
        })
    }

    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(super) fn forward_avx512(stack: &Stack, pass: &mut Pass<'_>) {
        layers::<Sixteen>(stack, pass);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn forward_avx2(stack: &Stack, pass: &mut Pass<'_>) {
        layers::<Eights>(stack, pass);
    }

    #[inline(never)]
    #[target_feature(enable = "avx512f,avx2,fma")]
    fn square_avx512(block: &Square<'_>, values: &mut [[Vec<Line>; 2]]) {
        square::<Sixteen>(block, values);
    }

    #[inline(never)]
    #[target_feature(enable = "avx512f,avx2,fma")]
    fn heads_avx512(layer: &Dense, weights: &[Line], x: Inputs<'_>, out: Outputs<'_>, rows: usize) {
        heads::<Sixteen>(layer, weights, x, out, rows);
    }

    /// The sums of the lanes of four: of the first quarters of all four, of the second and so on.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn quarters([a, b, c, d]: [__m256; FEW]) -> __m256 {
        // Lanes of both, one by one: a0 b0 a1 b1 and a2 b2 a3 b3.
        let ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        let (ab, cd) = (_mm256_castps_pd(ab), _mm256_castps_pd(cd));
        let even = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd));
        _mm256_add_ps(even, _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)))
    }

    /// The sum of both halves.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn sum_halves(x: __m256) -> [f32; FEW] {
        let mut to = [0.0; FEW];
        let sums = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        // SAFETY: there is room for four.
        unsafe { _mm_storeu_ps(to.as_mut_ptr(), sums) };
        to
    }

    #[derive(Clone, Copy)]
    pub(in super::super) struct Sixteen(__m512);

    impl Lanes for Sixteen {
        const WIDE: usize = 4;
        #[inline(always)]
        fn load(from: &Line) -> Sixteen {
            Sixteen(unsafe { _mm512_load_ps(from.0.as_ptr()) })
        }
        #[inline(always)]
        fn store(self, to: &mut Line) {
            unsafe { _mm512_store_ps(to.0.as_mut_ptr(), self.0) }
        }
        #[inline(always)]
        fn splat(x: f32) -> Sixteen {
            Sixteen(unsafe { _mm512_set1_ps(x) })
        }
        #[inline(always)]
        fn add(self, other: Sixteen) -> Sixteen {
            Sixteen(unsafe { _mm512_add_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn sub(self, other: Sixteen) -> Sixteen {
            Sixteen(unsafe { _mm512_sub_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn mul(self, other: Sixteen) -> Sixteen {
            Sixteen(unsafe { _mm512_mul_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn div(self, other: Sixteen) -> Sixteen {
            Sixteen(unsafe { _mm512_div_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn mul_add(self, by: Sixteen, plus: Sixteen) -> Sixteen {
            Sixteen(unsafe { _mm512_fmadd_ps(self.0, by.0, plus.0) })
        }
        // Where one is NaN the second is taken, so NaN stays NaN.
        #[inline(always)]
        fn at_least(self, low: f32) -> Sixteen {
            Sixteen(unsafe { _mm512_max_ps(_mm512_set1_ps(low), self.0) })
        }
        #[inline(always)]
        fn at_most(self, high: f32) -> Sixteen {
            Sixteen(unsafe { _mm512_min_ps(_mm512_set1_ps(high), self.0) })
        }
        #[inline(always)]
        fn sums([a, b, c, d]: [Sixteen; FEW]) -> [f32; FEW] {
            // As in `quarters`, over all four of them.
            unsafe {
                let ab = _mm512_add_ps(_mm512_unpacklo_ps(a.0, b.0), _mm512_unpackhi_ps(a.0, b.0));
                let cd = _mm512_add_ps(_mm512_unpacklo_ps(c.0, d.0), _mm512_unpackhi_ps(c.0, d.0));
                let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
                let even = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
                let sums = _mm512_add_ps(even, _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
                let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(sums)));
                sum_halves(_mm256_add_ps(_mm512_castps512_ps256(sums), high))
            }
        }
        #[inline(always)]
        fn square(block: &Square<'_>, values: &mut [[Vec<Line>; 2]]) {
            unsafe { square_avx512(block, values) }
        }
        #[inline(always)]
        fn heads(layer: &Dense, weights: &[Line], x: Inputs<'_>, out: Outputs<'_>, rows: usize) {
            unsafe { heads_avx512(layer, weights, x, out, rows) }
        }
        #[inline(always)]
        fn tanh<const V: usize>(mut x: [Sixteen; V]) -> [Sixteen; V] {
            for v in 0..V {
                x[v] = Sixteen(tanh_of(x[v].0));
            }
            x
        }
        #[inline(always)]
        fn power(self) -> Sixteen {
            unsafe {
                let bits = _mm512_add_epi32(_mm512_castps_si512(self.0), _mm512_set1_epi32(127));
                Sixteen(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(bits)))
            }
        }
    }

    #[derive(Clone, Copy)]
    pub(in super::super) struct Eights([__m256; 2]);

    /// An operation of both halves.
    macro_rules! halves {
        ($operation:ident, $a:expr, $b:expr) => {
            Eights(unsafe { [$operation($a.0[0], $b.0[0]), $operation($a.0[1], $b.0[1])] })
        };
    }

    impl Lanes for Eights {
        const WIDE: usize = 1;
        #[inline(always)]
        fn load(from: &Line) -> Eights {
            let at = from.0.as_ptr();
            Eights(unsafe { [_mm256_load_ps(at), _mm256_load_ps(at.add(LANES / 2))] })
        }
        #[inline(always)]
        fn store(self, to: &mut Line) {
            let at = to.0.as_mut_ptr();
            unsafe {
                _mm256_store_ps(at, self.0[0]);
                _mm256_store_ps(at.add(LANES / 2), self.0[1]);
            }
        }
        #[inline(always)]
        fn splat(x: f32) -> Eights {
            Eights(unsafe { [_mm256_set1_ps(x); 2] })
        }
        #[inline(always)]
        fn add(self, other: Eights) -> Eights {
            halves!(_mm256_add_ps, self, other)
        }
        #[inline(always)]
        fn sub(self, other: Eights) -> Eights {
            halves!(_mm256_sub_ps, self, other)
        }
        #[inline(always)]
        fn mul(self, other: Eights) -> Eights {
            halves!(_mm256_mul_ps, self, other)
        }
        #[inline(always)]
        fn div(self, other: Eights) -> Eights {
            halves!(_mm256_div_ps, self, other)
        }
        #[inline(always)]
        fn mul_add(self, by: Eights, plus: Eights) -> Eights {
            let ([a, b], [c, d], [e, f]) = (self.0, by.0, plus.0);
            Eights(unsafe { [_mm256_fmadd_ps(a, c, e), _mm256_fmadd_ps(b, d, f)] })
        }
        #[inline(always)]
        fn at_least(self, low: f32) -> Eights {
            halves!(_mm256_max_ps, Eights::splat(low), self)
        }
        #[inline(always)]
        fn at_most(self, high: f32) -> Eights {
            halves!(_mm256_min_ps, Eights::splat(high), self)
        }
        #[inline(always)]
        fn sums([a, b, c, d]: [Eights; FEW]) -> [f32; FEW] {
            // Quarters 0 and 1 are in the first half, 2 and 3 in the second.
            unsafe {
                let low = quarters([a.0[0], b.0[0], c.0[0], d.0[0]]);
                let high = quarters([a.0[1], b.0[1], c.0[1], d.0[1]]);
                sum_halves(_mm256_add_ps(low, high))
            }
        }
        #[inline(always)]
        fn power(self) -> Eights {
            let mut powers = self.0;
            for x in &mut powers {
                let bits = unsafe { _mm256_add_epi32(_mm256_castps_si256(*x), _mm256_set1_epi32(127)) };
                *x = unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<23>(bits)) };
            }
            Eights(powers)
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// What a processor with wider instructions would not run gives the same within rounding: layers of one and several
    /// lines, heads of few and many outputs, one individual and several.
    #[test]
    fn narrower_instructions_compute_the_same() {
        let level = wide::level();
        let mut random = random::SplitMix::new(4);
        for text in [
            "a:dense18 / 64t-64t / policy:3",
            "a:dense9 / 20-33t / policy:2",
            "a:dense40 / 100t / policy:5",
            "a:dense7 / 130t-64 / policy:3",
            "a:dense5 / policy:3",
        ] {
            let stack = Stack::new(&text.parse().unwrap()).unwrap();
            for (individuals, rows) in [(1, 1), (2, 4), (1, 7), (3, 4), (4, 9)] {
                let mut weights = vec![vec![ZEROS; stack.lines]; individuals];
                for own in &mut weights {
                    let x: Vec<f32> = (0..stack.parameters).map(|_| random.unit() as f32 - 0.5).collect();
                    stack.lay(&x, own);
                }
                let memory = || vec![ZEROS; rows * stack.widest()];
                let mut values: Vec<[Vec<Line>; 2]> = (0..individuals).map(|_| [memory(), memory()]).collect();
                for own in &mut values {
                    floats(&mut own[0]).fill_with(|| random.unit() as f32 * 4.0 - 2.0);
                }
                let mut found: Vec<Vec<f32>> = Vec::new();
                for width in 0..=level {
                    let (mut values, mut out) = (values.clone(), vec![0.0; individuals * stack.outputs() * rows]);
                    let mut pass = Pass { weights: &weights, values: &mut values, out: &mut out, rows };
                    // SAFETY: the features were detected.
                    match width {
                        0 => layers::<Plain>(&stack, &mut pass),
                        1 => unsafe { wide::forward_avx2(&stack, &mut pass) },
                        _ => unsafe { wide::forward_avx512(&stack, &mut pass) },
                    }
                    found.push(out);
                }
                for out in &found[1..] {
                    let close = out.iter().zip(&found[0]).all(|(a, b)| (a - b).abs() < 2e-5);
                    assert!(close, "{text}, {individuals} × {rows} rows: {out:?} and {:?}", found[0]);
                }
            }
        }
    }

    /// An individual's outputs are the same whoever else is in the pass.
    #[test]
    fn neighbours_change_no_bit() {
        let mut random = random::SplitMix::new(5);
        let stack = Stack::new(&"a:dense18 / 64t-64t / policy:3".parse().unwrap()).unwrap();
        let rows = 4;
        let mut weights = vec![vec![ZEROS; stack.lines]; 4];
        for own in &mut weights {
            let x: Vec<f32> = (0..stack.parameters).map(|_| random.unit() as f32 - 0.5).collect();
            stack.lay(&x, own);
        }
        let memory = || vec![ZEROS; rows * stack.widest()];
        let mut values: Vec<[Vec<Line>; 2]> = (0..4).map(|_| [memory(), memory()]).collect();
        for own in &mut values {
            floats(&mut own[0]).fill_with(|| random.unit() as f32 * 4.0 - 2.0);
        }
        let each = stack.outputs() * rows;
        // Individual by individual.
        let run = |own: std::ops::Range<usize>| {
            let (mut values, mut out) = (values[own.clone()].to_vec(), vec![0.0; own.len() * each]);
            forward(&stack, &mut Pass { weights: &weights[own.clone()], values: &mut values, out: &mut out, rows });
            let of = |i: usize| out.chunks_exact(rows).skip(i).step_by(own.len()).flatten().copied();
            (0..own.len()).flat_map(of).collect::<Vec<f32>>()
        };
        let all = run(0..4);
        assert!(all.iter().any(|x| *x != 0.0));
        for i in 0..4 {
            assert_eq!(run(i..i + 1), all[i * each..(i + 1) * each], "individual {i}");
        }
        assert_eq!(run(1..3), all[each..3 * each]);
    }
}
