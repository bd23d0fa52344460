//! Sixteen f32 in the registers of x86-64: one of AVX-512, two of AVX2.

#![expect(unsafe_code, reason = "intrinsics, called only behind the detection of their features")]
#![expect(clippy::needless_range_loop, reason = "several arrays at once, without closures")]

use super::heads_simd;
use super::lanes_simd::Lanes;
use super::stack::{Dense, FEW, LANES, Line, Stack};
use super::stack_simd::{self, Pass, Pending};
use super::tanh_simd::tanh_of;
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// 2: AVX-512, 1: AVX2 and FMA, 0: neither.
pub(super) fn level() -> u8 {
    static LEVEL: OnceLock<u8> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        if fused && is_x86_feature_detected!("avx512f") { 2 } else { u8::from(fused) }
    })
}

#[target_feature(enable = "avx512f,avx2,fma")]
pub(super) fn forward_avx512(stack: &Stack, pass: &mut Pass<'_>) {
    stack_simd::layers::<Sixteen>(stack, pass);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn forward_avx2(stack: &Stack, pass: &mut Pass<'_>) {
    stack_simd::layers::<Eights>(stack, pass);
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx2,fma")]
pub(super) fn squares(layer: &Dense, number: usize, pass: &mut Pass<'_>, pending: Option<Pending>) -> Option<Pending> {
    stack_simd::squares::<Sixteen>(layer, number, pass, pending)
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx2,fma")]
pub(super) fn heads(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
    heads_simd::heads::<Sixteen>(layer, number, pass);
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
pub(super) struct Sixteen(pub(super) __m512);

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
pub(super) struct Eights([__m256; 2]);

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
