//! Eight floats as one register.

#![expect(unsafe_code, reason = "instructions that were looked for before anything of this type is made")]

use super::{Eight, LANES, Lanes};
use std::arch::x86_64::*;

/// Only made where AVX2 and FMA were found.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct Avx2(__m256);

impl Avx2 {
    /// Eight words, whatever they hold.
    #[inline(always)]
    pub(in crate::cpu) fn of_bits(words: __m256i) -> Avx2 {
        // SAFETY: see below.
        Avx2(unsafe { _mm256_castsi256_ps(words) })
    }
}

// SAFETY of all blocks below: whoever uses this type has found AVX2 and FMA (the trait's promise), and memory is the
// caller's promise.
impl Lanes for Avx2 {
    const N: usize = LANES;
    type Narrow = Avx2;
    #[inline(always)]
    fn splat(x: f32) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe { _mm256_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe { _mm256_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    fn add(self, other: Avx2) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe { _mm256_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Avx2) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe { _mm256_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Avx2) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe { _mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: Avx2) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe { _mm256_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, by: Avx2, plus: Avx2) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe { _mm256_fmadd_ps(self.0, by.0, plus.0) })
    }
    #[inline(always)]
    fn neg_mul_add(self, by: Avx2, plus: Avx2) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe { _mm256_fnmadd_ps(self.0, by.0, plus.0) })
    }
    #[inline(always)]
    fn clamp(self, low: f32, high: f32) -> Avx2 {
        // Of two operands with a NaN among them the instruction gives the second.
        // SAFETY: see above.
        Avx2(unsafe { _mm256_max_ps(_mm256_set1_ps(low), _mm256_min_ps(_mm256_set1_ps(high), self.0)) })
    }
    #[inline(always)]
    fn power(self) -> Avx2 {
        // SAFETY: see above.
        Avx2(unsafe {
            let n = _mm256_add_epi32(_mm256_castps_si256(self.0), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(n))
        })
    }
    #[inline(always)]
    fn round(self) -> Avx2 {
        // As `bf16::round`: half a unit is added, ties to even; a NaN keeps its quiet bit.
        // SAFETY: see above.
        Avx2(unsafe {
            let bits = _mm256_castps_si256(self.0);
            let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let half = _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff));
            let near = _mm256_add_epi32(bits, half);
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0));
            let chosen = _mm256_blendv_epi8(near, quiet, nan);
            _mm256_castsi256_ps(_mm256_and_si256(chosen, _mm256_set1_epi32(0xffff_0000u32 as i32)))
        })
    }
}

impl Eight for Avx2 {
    #[inline(always)]
    fn transpose(rows: [Avx2; LANES]) -> [Avx2; LANES] {
        let [a, b, c, d, e, f, g, h] = rows.map(|row| row.0);
        // Pairs of numbers, then fours, then halves of the registers.
        // SAFETY: see above.
        unsafe {
            let pairs = |a, b| (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let ((ab0, ab1), (cd0, cd1), (ef0, ef1), (gh0, gh1)) = (pairs(a, b), pairs(c, d), pairs(e, f), pairs(g, h));
            let low = |a, b| _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
            let high = |a, b| _mm256_shuffle_ps::<0b11_10_11_10>(a, b);
            let upper = [low(ab0, cd0), high(ab0, cd0), low(ab1, cd1), high(ab1, cd1)]; // a to d of columns i and i + 4
            let lower = [low(ef0, gh0), high(ef0, gh0), low(ef1, gh1), high(ef1, gh1)]; // e to h
            std::array::from_fn(|i| {
                let (upper, lower) = (upper[i % 4], lower[i % 4]);
                Avx2(match i {
                    0..4 => _mm256_permute2f128_ps::<0x20>(upper, lower),
                    _ => _mm256_permute2f128_ps::<0x31>(upper, lower),
                })
            })
        }
    }
}
