//! Powers of e, without branches and calls, so that loops over them become SIMD.
//!
//! Only `+ - × ÷` and bits, nothing fused: the same bits on every processor. Within 4 units in the last place of the
//! true value.

/// `e^x`, up to `e^88`; 0 where it would be denormal; NaN stays NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Adding 1.5 × 2²³ leaves the nearest whole number in the lowest bits.
    const WHOLE: f32 = 12_582_912.0;
    let inside = if x > 88.0 { 88.0 } else { x };
    let inside = if inside < -87.3 { -87.3 } else { inside };
    let shifted = inside * std::f32::consts::LOG2_E + WHOLE;
    let n = shifted - WHOLE;
    // ln 2 in two parts; the first has few bits, so that n times it is exact.
    let r = inside - n * 0.693_359_4 - n * -2.121_944_4e-4;
    // The series of e^r up to r⁷ / 7!, |r| ≤ ln 2 / 2.
    let mut sum = 1.0 / 5040.0;
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * r + c;
    }
    // 2ⁿ: n lies in the lowest bits of `shifted`, an exponent begins at bit 23 and counts from 127.
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < -87.3 { 0.0 } else { sum * power }
}

#[cfg(test)]
mod tests {
    use super::exp;

    fn check(f: fn(f32) -> f32, truth: fn(f64) -> f64, from: f32, to: f32) {
        let mut worst = 0f64;
        for i in 0..=200_000 {
            let x = from + (to - from) * i as f32 / 200_000.0;
            let wanted = truth(f64::from(x));
            if wanted.abs() > 1e-37 {
                worst = worst.max(((f64::from(f(x)) - wanted) / wanted).abs());
            }
        }
        assert!(worst < 4.0 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn curves_are_near_the_exact_values() {
        check(exp, f64::exp, -87.0, 88.0);
        check(exp, f64::exp, -1.0, 1.0);
    }

    #[test]
    fn curves_are_right_at_their_limits() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!((exp(f32::NEG_INFINITY), exp(-200.0)), (0.0, 0.0));
        assert!(exp(f32::NAN).is_nan());
    }
}
