//! The hyperbolic tangent in lanes of sixteen, without a division.
//!
//! `|x|` from 0 to 9.25 is cut into 30 intervals: of `v = |x| + ¾` the exponent and the three highest bits of the
//! mantissa name one, so they are narrow where the tangent bends. In each it is a polynomial of degree 4 in the
//! distance from the interval's beginning, through the tangent at the five Chebyshev nodes; the first goes through 0
//! and is fitted relative to `x`. A permutation looks a coefficient up. Within 2 units in the last place, NaN stays
//! NaN.

#![expect(unsafe_code, reason = "intrinsics, called only behind the detection of their features")]

use std::arch::x86_64::*;

/// Added to `|x|`, the largest that it can be, and the bits of `v` that name an interval.
const SHIFT: f32 = 0.75;
const LARGEST: f32 = 9.2;
const NAMES: i32 = 0xfff0_0000_u32 as i32;

/// A coefficient of each interval, by the lowest five bits of its name.
#[repr(C, align(64))]
struct Halves([f32; 32]);

/// `[degrees]` coefficients from the lowest degree on.
static COEFFICIENTS: [Halves; 5] = [
    Halves([
        0.848_283_65,
        0.905_148_27,
        0.941_375_55,
        0.964_027_6,
        0.978_026_1,
        0.986_614_3,
        0.991_859_73,
        0.995_054_8,
        0.996_997_65,
        0.998_894_45,
        0.999_593_14,
        0.999_850_33,
        0.999_944_9,
        0.999_979_73,
        0.999_992_55,
        0.999_997_26,
        0.999_999,
        0.999_999_9,
        0.0,
        0.0,
        0.0,
        0.062_418_748,
        0.124_353,
        0.185_333_2,
        0.244_918_66,
        0.358_357_4,
        0.462_117_17,
        0.554_599_7,
        0.635_148_94,
        0.703_905_6,
        0.761_594_2,
        0.809_301_1,
    ]),
    Halves([
        0.280_419_05,
        0.180_706_32,
        0.113_810_375,
        0.070_649_09,
        0.043_463_577,
        0.026_591_3,
        0.016_213_68,
        0.009_865_652,
        0.005_992_551_3,
        0.002_208_704,
        0.000_813_101_8,
        0.000_299_199_98,
        0.000_110_079_88,
        4.049753e-05,
        1.4898397e-05,
        5.4808397e-06,
        2.005431e-06,
        2.714058e-07,
        0.0,
        0.0,
        1.0,
        0.996_103_7,
        0.984_536_2,
        0.965_651_45,
        0.940_013_65,
        0.871_58,
        0.786_448_7,
        0.692_420_6,
        0.596_587_3,
        0.504_518_2,
        0.419_975_3,
        0.345_032_4,
    ]),
    Halves([
        -0.238_009_33,
        -0.163_557_71,
        -0.107_085_24,
        -0.068_053_64,
        -0.042_466_64,
        -0.026_206_352,
        -0.016_062_716,
        -0.009_804_828,
        -0.005_926_195_5,
        -0.002_188_086_7,
        -0.000_806_032_56,
        -0.000_296_669_17,
        -0.000_109_158_296,
        -4.0159775e-05,
        -1.4774319e-05,
        -5.435217e-06,
        -1.9179736e-06,
        -2.5956987e-07,
        0.0,
        0.0,
        8.1035105e-06,
        -0.062_151_756,
        -0.122_409_225,
        -0.178_950_62,
        -0.230_149_12,
        -0.312_338_74,
        -0.363_492_7,
        -0.384_107_86,
        -0.379_017_23,
        -0.355_215_22,
        -0.319_911_96,
        -0.279_275_24,
    ]),
    Halves([
        0.109_954_536,
        0.087_759_91,
        0.062_317_334,
        0.041_481_55,
        0.026_597_675,
        0.016_680_611,
        0.010_323_464,
        0.006_338_352,
        0.003_661_257_2,
        0.001_355_542_2,
        0.000_499_849_7,
        0.000_184_043_46,
        6.7727335e-05,
        2.4918409e-05,
        9.167365e-06,
        3.3725385e-06,
        1.042196e-06,
        1.410462e-07,
        0.0,
        0.0,
        -0.333_981_96,
        -0.329_223_7,
        -0.313_893_44,
        -0.289_470_6,
        -0.258_771_18,
        -0.178_626_24,
        -0.092_860_55,
        -0.015_777_243,
        0.043_972_89,
        0.083_681_05,
        0.105_011_56,
        0.111_902_185,
    ]),
    Halves([
        -0.021_138_016,
        -0.025_137_313,
        -0.020_851_444,
        -0.014_989_137,
        -0.010_021_766,
        -0.006_437_05,
        -0.004_039_929_7,
        -0.002_501_106,
        -0.001_210_162_2,
        -0.000_449_465_44,
        -0.000_165_929_64,
        -6.1120794e-05,
        -2.2495738e-05,
        -8.277162e-06,
        -3.045193e-06,
        -1.1202903e-06,
        -2.5787838e-07,
        -3.4900143e-08,
        0.0,
        0.0,
        0.016_623_922,
        0.060_921_974,
        0.097_147_33,
        0.127_294_59,
        0.157_763_9,
        0.169_694_98,
        0.153_285_79,
        0.119_452_335,
        0.079_891_17,
        0.043_346_398,
        0.014_457_828,
        -0.005_577_185,
    ]),
];

/// The tangents of sixteen numbers.
///
/// Only on processors with AVX-512.
#[expect(clippy::pointers_in_nomem_asm_block, reason = "the empty block reads no memory, it hides which table it is")]
#[inline(always)]
pub(super) fn tanh_of(x: __m512) -> __m512 {
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
        // Nobody knows that it is the same table: coefficients are read where they are used, and take no registers from
        // the products around them.
        std::arch::asm!("/* {0} */", inout(reg) table, options(nomem, nostack, preserves_flags));
        let bits = _mm512_castps_si512(x);
        let size = _mm512_castsi512_ps(_mm512_and_epi32(bits, _mm512_set1_epi32(i32::MAX)));
        // Where one is NaN the second is taken.
        let size = _mm512_min_ps(_mm512_set1_ps(LARGEST), size);
        let v = _mm512_castps_si512(_mm512_add_ps(size, _mm512_set1_ps(SHIFT)));
        let name = _mm512_srli_epi32::<20>(v);
        let begins = _mm512_castsi512_ps(_mm512_and_epi32(v, _mm512_set1_epi32(NAMES)));
        let t = _mm512_sub_ps(size, _mm512_sub_ps(begins, _mm512_set1_ps(SHIFT)));
        let mut sum = coefficient!(4, name);
        sum = _mm512_fmadd_ps(sum, t, coefficient!(3, name));
        sum = _mm512_fmadd_ps(sum, t, coefficient!(2, name));
        sum = _mm512_fmadd_ps(sum, t, coefficient!(1, name));
        sum = _mm512_fmadd_ps(sum, t, coefficient!(0, name));
        // sum | (x & sign)
        let sign = _mm512_set1_epi32(i32::MIN);
        _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xF8>(_mm512_castps_si512(sum), bits, sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[target_feature(enable = "avx512f")]
    fn tangents(x: [f32; 16]) -> [f32; 16] {
        let mut to = [0.0; 16];
        // SAFETY: sixteen floats each.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), tanh_of(_mm512_loadu_ps(x.as_ptr()))) };
        to
    }

    #[test]
    fn the_tangent_is_within_two_units_in_the_last_place() {
        if !is_x86_feature_detected!("avx512f") {
            // There is nothing to hold to the definition on a processor without AVX-512.
            return;
        }
        // All magnitudes up to 10, in strides that meet every interval thousands of times.
        for first in (1..10f32.to_bits() - 16 * 61).step_by(16 * 61) {
            let x: [f32; 16] = std::array::from_fn(|i| {
                let x = f32::from_bits(first + 61 * i as u32);
                if i % 2 == 0 { x } else { -x }
            });
            // SAFETY: the feature was detected.
            let found = unsafe { tangents(x) };
            for (x, found) in x.into_iter().zip(found) {
                let wanted = f64::from(x).tanh();
                let near = (wanted as f32).abs();
                let unit = f64::from(f32::from_bits(near.to_bits() + 1) - near);
                assert!((f64::from(found) - wanted).abs() <= 2.0 * unit, "{x}: {found} and {wanted}");
            }
        }
        let mut x = [f32::NAN; 16];
        x[1..7].copy_from_slice(&[0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e30, -9.2]);
        // SAFETY: the feature was detected.
        let found = unsafe { tangents(x) };
        assert!(found[0].is_nan() && found[7].is_nan());
        assert_eq!(
            found[1..7].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            [0.0, -0.0, 1.0, -1.0, 1.0, -1.0f32].map(f32::to_bits)
        );
    }
}
