//! Nets of individuals in bf16: weights, inputs and what layers hand on are rounded to bf16 (to nearest, ties to even),
//! biases, sums and outputs are f32.
//!
//! A word holds a pair of inputs, the first in its low half. Products of bf16 are exact in f32; a sum takes the second
//! of a pair, then the first, with a rounding each, and what is below the smallest normal number becomes zero: so does
//! `vdpbf16ps`. A processor without it does the same number by number and has the same bits, slowly. Where there are
//! tile registers (Intel's AMX) they compute the blocks of a pass, with sums in an order of their own ([`tiles_simd`]).

#![expect(unsafe_code, reason = "intrinsics, called only behind the detection of their features")]
#![expect(clippy::needless_range_loop, reason = "several arrays at once, without closures")]

use super::bf16_tanh_simd as tanh;
use super::format_simd::Format;
use super::lanes_simd::{Lanes, Plain};
use super::stack::{Dense, LANES, Line, Stack, ZEROS};
use super::stack_simd::{Pass, Pending, layers, words};
#[cfg(target_arch = "x86_64")]
use super::wide_simd::Sixteen;
use compute::bf16::round;

/// Runs the nets of individuals, as [`super::stack_simd::forward`] does.
pub(super) fn forward(stack: &Stack, pass: &mut Pass<'_>) {
    #[cfg(target_arch = "x86_64")]
    if native::is_here() {
        let held = if pass.tiles.is_none() { pass.scratch.hold_tiles(stack, pass.rows) } else { None };
        let Pass { weights, shared, rows, .. } = *pass;
        let (tiles, values, scratch, out) =
            (pass.tiles.or(held.as_ref()), &mut *pass.values, &mut *pass.scratch, &mut *pass.out);
        let mut pass = Pass { weights, shared, values, scratch, tiles, out, rows };
        // SAFETY: the features were detected.
        return unsafe { native::forward(stack, &mut pass) };
    }
    forward_emulated(stack, pass);
}

/// The same without tile registers.
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) fn forward_in_pairs(stack: &Stack, pass: &mut Pass<'_>) {
    assert!(pass.tiles.is_none());
    match native::is_here() {
        // SAFETY: the features were detected.
        true => unsafe { native::forward(stack, pass) },
        false => forward_emulated(stack, pass),
    }
}

/// The same without instructions for bf16.
pub(super) fn forward_emulated(stack: &Stack, pass: &mut Pass<'_>) {
    #[cfg(target_arch = "x86_64")]
    if super::wide_simd::level() > 0 {
        #[target_feature(enable = "avx2,fma")]
        fn avx2(stack: &Stack, pass: &mut Pass<'_>) {
            layers::<Pairs<Plain>>(stack, pass);
        }
        // SAFETY: the features were detected.
        return unsafe { avx2(stack, pass) };
    }
    layers::<Pairs<Plain>>(stack, pass);
}

/// Rounds two rows of numbers and puts those side by side into words, as many as there are.
pub(super) fn pair(first: &[f32], second: &[f32], to: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if native::is_here() {
        // SAFETY: the features were detected.
        return unsafe { native::pair(first, second, to) };
    }
    for ((first, second), to) in first.iter().zip(second).zip(to) {
        *to = word(*first, *second);
    }
}

/// Lays a layer's parameters `[inputs + 1, outputs]` into its lines, whose padding is zero and stays so: for each pair
/// of inputs a row of lines, then the biases. The place of inputs at `gap` has no input.
pub(super) fn lay(layer: &Dense, own: &[f32], gap: usize, lines: &mut [Line]) {
    #[cfg(target_arch = "x86_64")]
    if native::is_here() {
        // SAFETY: the features were detected.
        return unsafe { native::lay(layer, own, gap, lines) };
    }
    lay_by::<Plain>(layer, own, gap, lines);
}

/// The pair of two numbers.
#[inline(always)]
fn word(first: f32, second: f32) -> u32 {
    round(first).to_bits() >> 16 | round(second).to_bits()
}

/// Lanes that add products of pairs.
pub(super) trait Paired: Lanes {
    /// Sixteen pairs.
    type Words: Copy;
    fn load_words(from: &Line) -> Self::Words;
    fn splat_word(word: u32) -> Self::Words;
    fn add_pairs(self, w: Self::Words, x: Self::Words) -> Self;
    /// Sixteen numbers, rounded, in the half of a line that begins at `to`.
    ///
    /// # Safety
    ///
    /// It is there.
    unsafe fn round(self, to: *mut u16);
    /// Thirty-two numbers, rounded, in a line.
    ///
    /// # Safety
    ///
    /// It is there.
    #[inline(always)]
    unsafe fn round_two(low: Self, high: Self, to: *mut Line) {
        // SAFETY: as above.
        unsafe {
            low.round(to.cast());
            high.round(to.cast::<u16>().add(LANES));
        }
    }
    /// Pairs of both.
    fn round_pairs(first: Self, second: Self, to: &mut Line);
    /// The tangents of sums, near enough for the rounding behind them.
    fn quick_tanh(self) -> Self;
    #[inline(always)]
    fn squares(layer: &Dense, number: usize, pass: &mut Pass<'_>, pending: Option<Pending>) -> Option<Pending> {
        super::stack_simd::squares::<Pairs<Self>>(layer, number, pass, pending)
    }
    #[inline(always)]
    fn heads(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
        super::heads_simd::heads::<Pairs<Self>>(layer, number, pass);
    }
}

/// A word is a pair of numbers in bf16.
#[derive(Clone, Copy)]
pub(super) struct Pairs<L>(std::marker::PhantomData<L>);

impl<L: Paired> Format for Pairs<L> {
    const PACKED: usize = 2;
    type Sums = L;
    type Words = L::Words;
    #[inline(always)]
    fn load(from: &Line) -> L::Words {
        L::load_words(from)
    }
    #[inline(always)]
    fn splat(word: u32) -> L::Words {
        L::splat_word(word)
    }
    #[inline(always)]
    fn add_products(sums: L, w: L::Words, x: L::Words) -> L {
        sums.add_pairs(w, x)
    }
    #[inline(always)]
    unsafe fn put<const V: usize>(sums: [L; V], row: *mut Line, line: usize) {
        // SAFETY: as above.
        unsafe {
            if V == 1 {
                let to = row.add(line / 2);
                match line % 2 {
                    0 => L::round_two(sums[0], L::splat(0.0), to),
                    _ => sums[0].round(to.cast::<u16>().add(LANES)),
                }
                return;
            }
            for v in 0..V / 2 {
                L::round_two(sums[2 * v], sums[2 * v + 1], row.add(line / 2 + v));
            }
        }
    }
    #[inline(always)]
    fn tanh<const V: usize>(mut x: [L; V]) -> [L; V] {
        for v in 0..V {
            x[v] = x[v].quick_tanh();
        }
        x
    }
    #[inline(always)]
    fn squares(layer: &Dense, number: usize, pass: &mut Pass<'_>, pending: Option<Pending>) -> Option<Pending> {
        L::squares(layer, number, pass, pending)
    }
    #[inline(always)]
    fn heads(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
        L::heads(layer, number, pass);
    }
}

/// [`lay`] on such lanes.
#[inline(always)]
fn lay_by<L: Paired>(layer: &Dense, own: &[f32], gap: usize, lines: &mut [Line]) {
    let (own, biases) = own.split_at(layer.inputs * layer.outputs);
    // What an input has of line `line`; nothing where there is no such input.
    let row = |place: usize, line: usize| -> Line {
        let input = place - usize::from(place > gap);
        if place == gap || input >= layer.inputs {
            return ZEROS;
        }
        let row = &own[input * layer.outputs..][..layer.outputs];
        let own = &row[line * LANES..layer.outputs.min((line + 1) * LANES)];
        match <&[f32; LANES]>::try_from(own) {
            Ok(whole) => Line(*whole),
            Err(_) => Line(std::array::from_fn(|i| own.get(i).copied().unwrap_or(0.0))),
        }
    };
    if layer.turned {
        let each = layer.words.div_ceil(LANES);
        for o in 0..layer.outputs {
            let to = words(&mut lines[o * each..][..each]);
            for k in 0..layer.words {
                to[k] = word(row(2 * k, 0).0[o], row(2 * k + 1, 0).0[o]);
            }
        }
        lines[layer.outputs * each].0[..layer.outputs].copy_from_slice(biases);
        return;
    }
    for (k, to) in lines.chunks_exact_mut(layer.lines).take(layer.words).enumerate() {
        for (line, to) in to.iter_mut().enumerate() {
            L::round_pairs(L::load(&row(2 * k, line)), L::load(&row(2 * k + 1, line)), to);
        }
    }
    let own = &mut lines[layer.words * layer.lines..][..layer.lines];
    for (biases, to) in biases.chunks(LANES).zip(own) {
        to.0[..biases.len()].copy_from_slice(biases);
    }
}

impl Plain {
    /// What is below the smallest normal number is zero.
    #[inline(always)]
    fn flush(x: f32) -> f32 {
        if x.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(x) } else { x }
    }
}

impl Paired for Plain {
    type Words = [u32; LANES];
    #[inline(always)]
    fn load_words(from: &Line) -> [u32; LANES] {
        from.0.map(f32::to_bits)
    }
    #[inline(always)]
    fn splat_word(word: u32) -> [u32; LANES] {
        [word; LANES]
    }
    #[inline(always)]
    fn add_pairs(self, w: [u32; LANES], x: [u32; LANES]) -> Plain {
        let mut sums = self.0;
        for i in 0..LANES {
            for half in [|word: u32| f32::from_bits(word & 0xffff_0000), |word: u32| f32::from_bits(word << 16)] {
                let (w, x) = (Plain::flush(half(w[i])), Plain::flush(half(x[i])));
                sums[i] = Plain::flush(w.mul_add(x, Plain::flush(sums[i])));
            }
        }
        Plain(sums)
    }
    #[inline(always)]
    unsafe fn round(self, to: *mut u16) {
        for i in 0..LANES {
            // SAFETY: as above.
            unsafe { *to.add(i) = (round(Plain::flush(self.0[i])).to_bits() >> 16) as u16 };
        }
    }
    #[inline(always)]
    fn round_pairs(first: Plain, second: Plain, to: &mut Line) {
        for i in 0..LANES {
            to.0[i] = f32::from_bits(word(Plain::flush(first.0[i]), Plain::flush(second.0[i])));
        }
    }
    #[inline(always)]
    fn quick_tanh(self) -> Plain {
        Plain(self.0.map(tanh::of))
    }
}

#[cfg(target_arch = "x86_64")]
mod native {
    use super::super::tiles_simd;
    use super::*;
    use std::arch::x86_64::*;
    use std::mem::transmute;
    use std::sync::OnceLock;

    /// Whether this processor has products of bf16.
    pub(super) fn is_here() -> bool {
        static HERE: OnceLock<bool> = OnceLock::new();
        *HERE.get_or_init(|| super::super::wide_simd::level() == 2 && is_x86_feature_detected!("avx512bf16"))
    }

    #[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
    pub(super) fn forward(stack: &Stack, pass: &mut Pass<'_>) {
        layers::<Pairs<Sixteen>>(stack, pass);
    }

    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
    fn squares(layer: &Dense, number: usize, pass: &mut Pass<'_>, pending: Option<Pending>) -> Option<Pending> {
        if pass.tiles.is_some() {
            tiles_simd::squares(layer, number, pass);
            return None;
        }
        super::super::stack_simd::squares::<Pairs<Sixteen>>(layer, number, pass, pending)
    }

    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
    fn heads(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
        super::super::heads_simd::heads::<Pairs<Sixteen>>(layer, number, pass);
    }

    #[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
    pub(super) fn lay(layer: &Dense, own: &[f32], gap: usize, lines: &mut [Line]) {
        lay_by::<Sixteen>(layer, own, gap, lines);
    }

    #[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
    pub(super) fn pair(first: &[f32], second: &[f32], to: &mut [u32]) {
        let both = first.chunks(LANES).zip(second.chunks(LANES));
        for ((first, second), to) in both.zip(to.chunks_mut(LANES)) {
            let all = first.len().min(second.len()).min(to.len());
            let mask = u16::MAX >> (LANES - all);
            // SAFETY: no more is read or written than there is.
            unsafe {
                let first = _mm512_maskz_loadu_ps(mask, first.as_ptr());
                let second = _mm512_maskz_loadu_ps(mask, second.as_ptr());
                _mm512_mask_storeu_epi32(to.as_mut_ptr().cast(), mask, pairs_of(first, second));
            }
        }
    }

    /// Numbers side by side.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn pairs_of(first: __m512, second: __m512) -> __m512i {
        // SAFETY: sixteen bf16 each.
        let [first, second] = [first, second].map(|x| unsafe { transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(x)) });
        let second = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(second));
        _mm512_or_si512(_mm512_cvtepu16_epi32(first), second)
    }

    impl Paired for Sixteen {
        type Words = __m512bh;
        #[inline(always)]
        fn load_words(from: &Line) -> __m512bh {
            unsafe { transmute(_mm512_load_ps(from.0.as_ptr())) }
        }
        #[inline(always)]
        fn splat_word(word: u32) -> __m512bh {
            unsafe { transmute(_mm512_set1_epi32(word as i32)) }
        }
        #[inline(always)]
        fn add_pairs(self, w: __m512bh, x: __m512bh) -> Sixteen {
            Sixteen(unsafe { _mm512_dpbf16_ps(self.0, w, x) })
        }
        #[inline(always)]
        unsafe fn round(self, to: *mut u16) {
            unsafe { _mm256_store_si256(to.cast(), transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(self.0))) };
        }
        #[inline(always)]
        unsafe fn round_two(low: Sixteen, high: Sixteen, to: *mut Line) {
            unsafe { _mm512_store_ps(to.cast(), transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high.0, low.0))) };
        }
        #[inline(always)]
        fn round_pairs(first: Sixteen, second: Sixteen, to: &mut Line) {
            unsafe { _mm512_store_si512(to.0.as_mut_ptr().cast(), pairs_of(first.0, second.0)) };
        }
        #[inline(always)]
        fn quick_tanh(self) -> Sixteen {
            Sixteen(tanh::of_lanes(self.0))
        }
        #[inline(always)]
        fn squares(layer: &Dense, number: usize, pass: &mut Pass<'_>, pending: Option<Pending>) -> Option<Pending> {
            unsafe { squares(layer, number, pass, pending) }
        }
        #[inline(always)]
        fn heads(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
            unsafe { heads(layer, number, pass) }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::ppo::card_tests::skip;

    /// Products below the smallest normal number, and sums that end there, are zero in both.
    #[test]
    fn small_numbers_are_zero_on_all_lanes() {
        if !native::is_here() {
            return skip("no products of bf16 in this processor");
        }
        let mut random = random::SplitMix::new(9);
        let mut zeros = 0;
        for _ in 0..4000 {
            // Exponents around those whose products are not normal any more.
            let mut number = || {
                let exponent = random.below(150) as u32;
                (random.below(2) as u32) << 15 | exponent << 7 | random.below(128) as u32
            };
            let mut line = || {
                let mut line = [ZEROS];
                words(&mut line).fill_with(|| number() | number() << 16);
                line[0]
            };
            let (w, x, sums) = (line(), line(), line());
            let sums = Line(sums.0.map(|x| if x.is_finite() { x * 1e-30 } else { 0.0 }));
            let plain = <Plain as Lanes>::load(&sums).add_pairs(Plain::load_words(&w), Plain::load_words(&x)).0;
            let mut native = ZEROS;
            <Sixteen as Lanes>::load(&sums)
                .add_pairs(Sixteen::load_words(&w), Sixteen::load_words(&x))
                .store(&mut native);
            assert_eq!(plain.map(f32::to_bits), native.0.map(f32::to_bits));
            zeros += plain.iter().filter(|x| **x == 0.0).count();
        }
        assert!(zeros > 100, "{zeros}");
    }
}
