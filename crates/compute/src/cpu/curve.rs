//! Powers of e and the hyperbolic tangent, without branches and calls, so that loops over them become SIMD.
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

/// `tanh x`; NaN stays NaN.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let size = x.abs();
    let inside = if size > 10.0 { 10.0 } else { size };
    let far = 1.0 - 2.0 / (exp(2.0 * inside) + 1.0);
    // Below 0.35 the line above loses digits; the series up to x¹³ does not.
    let square = x * x;
    let mut sum = 21844.0 / 6_081_075.0;
    for c in [-1382.0 / 155_925.0, 62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0] {
        sum = sum * square + c;
    }
    let value = if size < 0.35 { sum * size } else { far };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::{exp, tanh};

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
        check(tanh, f64::tanh, -12.0, 12.0);
        check(tanh, f64::tanh, -0.5, 0.5);
        check(tanh, f64::tanh, 1e-20, 1e-3);
    }

    #[test]
    fn curves_are_right_at_their_limits() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!((exp(f32::NEG_INFINITY), exp(-200.0)), (0.0, 0.0));
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan());
        assert_eq!((tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)), (1.0, -1.0));
        assert_eq!(tanh(0.0), 0.0);
    }
}
