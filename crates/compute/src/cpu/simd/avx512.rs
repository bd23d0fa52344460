//! Sixteen floats as one register.

#![expect(unsafe_code, reason = "instructions that were looked for before anything of this type is made")]

use super::{Avx2, Lanes};
use std::arch::x86_64::*;

/// Only made where AVX-512 F was found, and AVX2 and FMA beside it.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct Avx512(__m512);

// SAFETY of all blocks below: whoever uses this type has found AVX-512 F (the trait's promise), and memory is the
// caller's promise.
impl Lanes for Avx512 {
    const N: usize = 16;
    type Narrow = Avx2;
    #[inline(always)]
    fn splat(x: f32) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe { _mm512_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    fn add(self, other: Avx512) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe { _mm512_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Avx512) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe { _mm512_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Avx512) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe { _mm512_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: Avx512) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe { _mm512_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, by: Avx512, plus: Avx512) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe { _mm512_fmadd_ps(self.0, by.0, plus.0) })
    }
    #[inline(always)]
    fn neg_mul_add(self, by: Avx512, plus: Avx512) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe { _mm512_fnmadd_ps(self.0, by.0, plus.0) })
    }
    #[inline(always)]
    fn clamp(self, low: f32, high: f32) -> Avx512 {
        // Of two operands with a NaN among them the instruction gives the second.
        // SAFETY: see above.
        Avx512(unsafe { _mm512_max_ps(_mm512_set1_ps(low), _mm512_min_ps(_mm512_set1_ps(high), self.0)) })
    }
    #[inline(always)]
    fn power(self) -> Avx512 {
        // SAFETY: see above.
        Avx512(unsafe {
            let n = _mm512_add_epi32(_mm512_castps_si512(self.0), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(n))
        })
    }
    #[inline(always)]
    fn round(self) -> Avx512 {
        // As `bf16::round`: half a unit is added, ties to even; a NaN keeps its quiet bit.
        // SAFETY: see above.
        Avx512(unsafe {
            let bits = _mm512_castps_si512(self.0);
            let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let half = _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff));
            let near = _mm512_add_epi32(bits, half);
            let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x0040_0000));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
            let chosen = _mm512_mask_blend_epi32(nan, near, quiet);
            _mm512_castsi512_ps(_mm512_and_si512(chosen, _mm512_set1_epi32(0xffff_0000u32 as i32)))
        })
    }
}
