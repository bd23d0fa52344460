//! The hyperbolic tangent of a sum that is rounded to bf16 behind it: the same bits with AVX-512 and without.
//!
//! `|x|` up to 3.875 is cut into intervals of an eighth around `k / 8`; in each it is a
//! polynomial of degree 2 in `|x|` through the tangent at the three Chebyshev nodes, the first goes through 0 and is
//! fitted relative to `x`, the last is 1. The error is below a quarter of that of the rounding behind it.

#![expect(unsafe_code, reason = "intrinsics, called only behind the detection of their features")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The largest magnitude that has an interval, and what brings the number of an interval into the lowest five bits.
const LARGEST: f32 = 3.875;
const NAMES: f32 = 1_048_576.0;

/// A coefficient of each interval.
#[repr(C, align(64))]
struct Halves([f32; 32]);

/// `[degrees]` coefficients from the lowest degree on.
static COEFFICIENTS: [Halves; 3] = [
    Halves([
        0.0,
        -0.000_508_882_7,
        -0.004_260_669,
        -0.012_142_171,
        -0.021_705_845,
        -0.027_977_614,
        -0.025_360_456,
        -0.009_517_653,
        0.021_548_029,
        0.067_380_905,
        0.125_637_22,
        0.192_912_88,
        0.265_513_8,
        0.340_011_2,
        0.413_554_73,
        0.483_988_02,
        0.549_832_05,
        0.610_196_53,
        0.664_662_66,
        0.713_164_6,
        0.755_884_9,
        0.793_167_23,
        0.825_45,
        0.853_216_65,
        0.876_960_7,
        0.897_162_3,
        0.914_273_7,
        0.928_710_3,
        0.940_847_46,
        0.951_019,
        0.959_518_85,
        1.0,
    ]),
    Halves([
        1.000_162_5,
        1.014_169_7,
        1.054_171_9,
        1.104_940_8,
        1.149_120_5,
        1.171_881_1,
        1.164_650_7,
        1.125_925_7,
        1.059_814_8,
        0.973_612_55,
        0.875_502_2,
        0.772_950_77,
        0.671_882_03,
        0.576_457_74,
        0.489_227_3,
        0.411_444_93,
        0.343_421_28,
        0.284_838_4,
        0.235_001_01,
        0.193_020_54,
        0.157_941_39,
        0.128_821_55,
        0.104_780_04,
        0.085_021_27,
        0.068_844_356,
        0.055_642_955,
        0.044_899_74,
        0.036_178_023,
        0.029_112_296,
        0.023_398_725,
        0.018_786_132,
        0.0,
    ]),
    Halves([
        -0.020_808_948,
        -0.122_196_846,
        -0.229_818_57,
        -0.311_845_2,
        -0.362_948_98,
        -0.383_611_68,
        -0.378_628_6,
        -0.354_954_06,
        -0.319_768_67,
        -0.279_224_84,
        -0.237_908_1,
        -0.198_819_7,
        -0.163_639_38,
        -0.133_077_89,
        -0.107_208_81,
        -0.085_732_13,
        -0.068_161_76,
        -0.053_947_22,
        -0.042_545_933,
        -0.033_461_433,
        -0.026_259_854,
        -0.020_573_473,
        -0.016_097_244,
        -0.012_582_01,
        -0.009_826_554,
        -0.007_669_761,
        -0.005_983_448,
        -0.004_666_131,
        -0.003_637_762_3,
        -0.002_835_384_6,
        -0.002_209_591_4,
        0.0,
    ]),
];

/// The tangent of a number.
#[inline(always)]
pub(super) fn of(x: f32) -> f32 {
    let size = if x.abs() > LARGEST { LARGEST } else { x.abs() };
    let name = ((size + NAMES).to_bits() & 31) as usize;
    let [a, b, c] = [0, 1, 2].map(|degree| COEFFICIENTS[degree].0[name]);
    c.mul_add(size, b).mul_add(size, a).copysign(x)
}

/// The tangents of sixteen numbers.
///
/// Only on processors with AVX-512.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "the empty block reads no memory, it hides which table it is")]
#[inline(always)]
pub(super) fn of_lanes(x: __m512) -> __m512 {
    let mut table = COEFFICIENTS.as_ptr();
    /// Coefficients of one degree for the intervals `$name`.
    macro_rules! coefficient {
        ($degree:expr, $name:expr) => {{
            let at = table.add($degree).cast::<f32>();
            _mm512_permutex2var_ps(_mm512_load_ps(at), $name, _mm512_load_ps(at.add(16)))
        }};
    }
    // SAFETY: the caller has the features; coefficients are two lines each.
    unsafe {
        // As in `tanh_simd`: coefficients are read where they are used.
        std::arch::asm!("/* {0} */", inout(reg) table, options(nomem, nostack, preserves_flags));
        let bits = _mm512_castps_si512(x);
        let size = _mm512_castsi512_ps(_mm512_and_epi32(bits, _mm512_set1_epi32(i32::MAX)));
        // Where one is NaN the second is taken.
        let size = _mm512_min_ps(_mm512_set1_ps(LARGEST), size);
        let name = _mm512_castps_si512(_mm512_add_ps(size, _mm512_set1_ps(NAMES)));
        let sum = _mm512_fmadd_ps(coefficient!(2, name), size, coefficient!(1, name));
        let sum = _mm512_fmadd_ps(sum, size, coefficient!(0, name));
        let sign = _mm512_set1_epi32(i32::MIN);
        _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xF8>(_mm512_castps_si512(sum), bits, sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compute::bf16::round;

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn tangents(x: [f32; 16]) -> [f32; 16] {
        let mut to = [0.0; 16];
        // SAFETY: sixteen floats each.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), of_lanes(_mm512_loadu_ps(x.as_ptr()))) };
        to
    }

    /// The rounding to bf16 adds four times as much, and lanes have the same bits.
    #[test]
    fn tangents_are_near_enough_for_the_rounding_behind_them() {
        for first in (1..10f32.to_bits() - 16 * 61).step_by(16 * 61) {
            let x: [f32; 16] = std::array::from_fn(|i| {
                let x = f32::from_bits(first + 61 * i as u32);
                if i % 2 == 0 { x } else { -x }
            });
            let found = x.map(of);
            for (x, found) in x.into_iter().zip(found) {
                let wanted = f64::from(x).tanh();
                let error = (f64::from(found) - wanted).abs();
                let near = error <= wanted.abs() / 2048.0 || round(found) == round(wanted as f32);
                assert!(near, "{x}: {found}, {wanted}");
            }
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the feature was detected.
                assert_eq!(unsafe { tangents(x) }.map(f32::to_bits), found.map(f32::to_bits));
            }
        }
        assert!(of(f32::NAN).is_nan());
        let ends = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e30, -9.0];
        assert_eq!(ends.map(of).map(f32::to_bits), [0.0, -0.0, 1.0, -1.0, 1.0, -1.0f32].map(f32::to_bits));
    }
}
