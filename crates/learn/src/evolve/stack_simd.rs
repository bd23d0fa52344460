//! The pass of an individual's net: outputs in lanes of sixteen, a few rows at a time in registers.
//!
//! A block is some rows and some lines of outputs: its sums stay in registers while it goes once through the weights,
//! and an input of a row is one number for all lanes. Sums run over the inputs in order from the bias on; of one line
//! alone there are four such sums (inputs 0, 4, 8, … and so on), added at the end, so that they do not wait for each
//! other. A head of few outputs has its inputs in lanes: sixteen sums of each output, added in halves, and then the
//! bias. Compiled for AVX-512, for AVX2 and for everything else; which one runs is decided when it is called.

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
    /// `[4]` the sum of the lanes of each, in halves: lane i and i + 8, then i and i + 4, i and i + 2, the last two.
    fn sums(four: [Self; FEW]) -> [f32; FEW];
    /// `2ⁿ`, where n is in the lowest bits, as adding 1.5 × 2²³ leaves it.
    fn power(self) -> Self;
}

/// Runs a net: `values[0]` are `[rows]` inputs in whole lines. Which of both holds the outputs, `[rows]` in whole
/// lines.
pub(super) fn forward(stack: &Stack, weights: &[Line], values: &mut [Vec<Line>; 2], rows: usize) -> usize {
    assert!(
        weights.len() >= stack.lines && values.iter().all(|v| v.len() >= rows * stack.widest()),
        "memory for a pass"
    );
    #[cfg(target_arch = "x86_64")]
    match wide::level() {
        // SAFETY: the features were detected.
        2 => return unsafe { wide::forward_avx512(stack, weights, values, rows) },
        1 => return unsafe { wide::forward_avx2(stack, weights, values, rows) },
        _ => {}
    }
    layers::<Plain>(stack, weights, values, rows)
}

/// Lines as the floats that they are.
pub(super) fn floats(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is sixteen floats without padding.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<f32>(), lines.len() * LANES) }
}

#[inline(always)]
fn layers<L: Lanes>(stack: &Stack, weights: &[Line], values: &mut [Vec<Line>; 2], rows: usize) -> usize {
    let [a, b] = values;
    let (mut from, mut to, mut last) = (a, b, 0);
    for layer in &stack.layers {
        let weights = &weights[layer.at..][..layer.weights()];
        run::<L>(layer, weights, from, to, rows);
        (from, to, last) = (to, from, 1 - last);
    }
    last
}

/// One layer of all rows.
#[inline(always)]
fn run<L: Lanes>(layer: &Dense, weights: &[Line], x: &[Line], y: &mut [Line], rows: usize) {
    let x_lines = layer.inputs.div_ceil(LANES);
    let (x, y) = (&x[..rows * x_lines], &mut y[..rows * layer.lines]);
    let mut row = 0;
    while row < rows {
        let four = rows - row >= 4;
        if layer.turned {
            row += if four {
                turned::<L, 4>(layer, weights, x, y, row)
            } else {
                turned::<L, 1>(layer, weights, x, y, row)
            };
            continue;
        }
        let mut line = 0;
        while line < layer.lines {
            let left = layer.lines - line;
            let at = Place { row, line };
            line += match (four, left) {
                (true, 1) => one_line::<L, 4>(layer, weights, x, y, at),
                (false, 1) => one_line::<L, 1>(layer, weights, x, y, at),
                (true, 4..) if L::WIDE >= 4 => block::<L, 4, 4>(layer, weights, x, y, at),
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

/// The inputs of a row as so many floats.
#[inline(always)]
fn inputs<'a>(layer: &Dense, x: &'a [Line], row: usize) -> &'a [f32] {
    let lines = layer.inputs.div_ceil(LANES);
    let own = &x[row * lines..][..lines];
    // SAFETY: a line is sixteen floats without padding, and `lines` of them hold the inputs.
    unsafe { std::slice::from_raw_parts(own.as_ptr().cast::<f32>(), layer.inputs) }
}

// Loops below have no closures: one would be compiled without the instructions of its caller, and not be inlined.

/// `R` rows of `V` lines; how many lines.
#[inline(always)]
fn block<L: Lanes, const R: usize, const V: usize>(
    layer: &Dense,
    weights: &[Line],
    x: &[Line],
    y: &mut [Line],
    at: Place,
) -> usize {
    let lines = layer.lines;
    let mut rows: [&[f32]; R] = [&[]; R];
    for r in 0..R {
        rows[r] = inputs(layer, x, at.row + r);
    }
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
            let input = L::splat(rows[r][k]);
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
fn one_line<L: Lanes, const R: usize>(layer: &Dense, weights: &[Line], x: &[Line], y: &mut [Line], at: Place) -> usize {
    let lines = layer.lines;
    let mut rows: [&[f32]; R] = [&[]; R];
    for r in 0..R {
        rows[r] = inputs(layer, x, at.row + r);
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
                sums[r][part] = w.mul_add(L::splat(rows[r][4 * four + part]), sums[r][part]);
            }
        }
    }
    for k in 4 * whole..layer.inputs {
        let w = L::load(&own[k * lines + at.line]);
        for r in 0..R {
            sums[r][k % 4] = w.mul_add(L::splat(rows[r][k]), sums[r][k % 4]);
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

/// `R` rows of a head whose inputs are lanes; how many rows.
#[inline(always)]
fn turned<L: Lanes, const R: usize>(layer: &Dense, weights: &[Line], x: &[Line], y: &mut [Line], row: usize) -> usize {
    let each = layer.inputs.div_ceil(LANES);
    let (own, bias) = weights.split_at(layer.outputs * each);
    let x = &x[row * each..][..R * each];
    let mut sums = [[L::splat(0.0); FEW]; R];
    for (v, line) in (0..each).zip(x) {
        let mut inputs = [L::load(line); R];
        for r in 1..R {
            inputs[r] = L::load(&x[r * each + v]);
        }
        for o in 0..FEW {
            if o < layer.outputs {
                let w = L::load(&own[o * each + v]);
                for r in 0..R {
                    sums[r][o] = w.mul_add(inputs[r], sums[r][o]);
                }
            }
        }
    }
    for r in 0..R {
        let sums = L::sums(sums[r]);
        let to = &mut y[row + r];
        *to = ZEROS;
        for o in 0..FEW {
            to.0[o] = sums[o] + bias[0].0[o];
        }
        if layer.activation != Activation::Identity {
            let mut line = [[L::load(to)]];
            activate_rows(layer.activation, &mut line);
            line[0][0].store(to);
        }
    }
    R
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
        // All that is divided by comes first, then all divisions: they wait less for each other.
        Activation::Tanh => {
            for r in 0..R {
                for v in 0..V {
                    x[r][v] = above(x[r][v]);
                }
            }
            for r in 0..R {
                for v in 0..V {
                    x[r][v] = x[r][v].div(x[r][v].add(L::splat(2.0)));
                }
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
        four.map(|Plain(mut x)| {
            for half in [8, 4, 2, 1] {
                for i in 0..half {
                    x[i] += x[i + half];
                }
            }
            x[0]
        })
    }
    #[inline(always)]
    fn power(self) -> Plain {
        Plain(self.0.map(|x| f32::from_bits(x.to_bits().wrapping_add(127) << 23)))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod wide {
    use super::{FEW, LANES, Lanes, Line, Stack, layers};
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
    pub(super) fn forward_avx512(stack: &Stack, weights: &[Line], values: &mut [Vec<Line>; 2], rows: usize) -> usize {
        layers::<Sixteen>(stack, weights, values, rows)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn forward_avx2(stack: &Stack, weights: &[Line], values: &mut [Vec<Line>; 2], rows: usize) -> usize {
        layers::<Eights>(stack, weights, values, rows)
    }

    /// The sums of the lanes of four, in halves.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn sums_of([a, b, c, d]: [__m256; FEW]) -> [f32; FEW] {
        let quarter = |x: __m256| _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let [a, b, c, d] = [quarter(a), quarter(b), quarter(c), quarter(d)];
        // Lanes of both, one by one: a0 b0 a1 b1 and a2 b2 a3 b3.
        let ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        let sums = _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
        let mut to = [0.0; FEW];
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
            macro_rules! half {
                ($x:expr) => {{
                    let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd($x.0));
                    _mm256_add_ps(_mm512_castps512_ps256($x.0), _mm256_castpd_ps(high))
                }};
            }
            unsafe { sums_of([half!(a), half!(b), half!(c), half!(d)]) }
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
            macro_rules! half {
                ($x:expr) => {
                    _mm256_add_ps($x.0[0], $x.0[1])
                };
            }
            unsafe { sums_of([half!(a), half!(b), half!(c), half!(d)]) }
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
    /// lines, heads of few and many outputs.
    #[test]
    fn narrower_instructions_compute_the_same() {
        let level = wide::level();
        let mut random = random::SplitMix::new(4);
        for text in ["a:dense18 / 64t-64t / policy:3", "a:dense9 / 20-33t / policy:2", "a:dense40 / 100t / policy:5"] {
            let stack = Stack::new(&text.parse().unwrap()).unwrap();
            let x: Vec<f32> = (0..stack.parameters).map(|_| random.unit() as f32 - 0.5).collect();
            let mut weights = vec![ZEROS; stack.lines];
            stack.lay(&x, &mut weights);
            for rows in [1, 4, 7] {
                let mut values = [vec![ZEROS; rows * stack.widest()], vec![ZEROS; rows * stack.widest()]];
                floats(&mut values[0]).fill_with(|| random.unit() as f32 * 4.0 - 2.0);
                let mut found: Vec<(usize, Vec<f32>)> = Vec::new();
                for width in 0..=level {
                    let mut values = values.clone();
                    // SAFETY: the features were detected.
                    let last = match width {
                        0 => layers::<Plain>(&stack, &weights, &mut values, rows),
                        1 => unsafe { wide::forward_avx2(&stack, &weights, &mut values, rows) },
                        _ => unsafe { wide::forward_avx512(&stack, &weights, &mut values, rows) },
                    };
                    let lines = rows * stack.outputs().div_ceil(LANES);
                    found.push((last, floats(&mut values[last][..lines]).to_vec()));
                }
                for (last, out) in &found[1..] {
                    assert_eq!((*last, out.len()), (found[0].0, found[0].1.len()), "{text}, {rows} rows");
                    let close = out.iter().zip(&found[0].1).all(|(a, b)| (a - b).abs() < 2e-5);
                    assert!(close, "{text}, {rows} rows: {out:?} and {:?}", found[0].1);
                }
            }
        }
    }
}
