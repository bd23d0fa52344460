//! The logarithm of a reward, written once so that every twin gives the same bits.

/// `ln(1 + x)` for x above -1, within about one unit in the last place; -∞ at -1, NaN below.
///
/// `1 + x = 2^k · m` with m near 1, and `ln m = 2·artanh(s)`, `s = (m - 1) / (m + 1)`, as a series in s². What rounding
/// `1 + x` lost is added to first order.
pub fn ln_1p(x: f64) -> f64 {
    let u = 1.0 + x;
    if u.is_nan() || u <= 0.0 {
        return if u == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    }
    if u == f64::INFINITY {
        return u;
    }
    // Exponent and mantissa; a mantissa above √2 is halved, so that |s| stays below 0.172.
    let bits = u.to_bits();
    let mut k = ((bits >> 52) as i64 - 1023) as f64;
    let mut m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if m > SQRT_2 {
        m *= 0.5;
        k += 1.0;
    }
    let lost = if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) } / u;
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut series = SERIES[0];
    for coefficient in &SERIES[1..] {
        series = series.mul_add(z, *coefficient);
    }
    // 2·artanh(s) = 2s + 2s·z·series, largest part last.
    let small = (2.0 * s * z).mul_add(series, k.mul_add(LN_2_LOW, lost));
    k.mul_add(LN_2_HIGH, 2.0 * s + small)
}

pub(crate) const SQRT_2: f64 = std::f64::consts::SQRT_2;

/// `1/(2i + 3)` for i from 11 down to 0: the series of artanh behind its first term.
pub(crate) const SERIES: [f64; 12] = [
    1.0 / 25.0,
    1.0 / 23.0,
    1.0 / 21.0,
    1.0 / 19.0,
    1.0 / 17.0,
    1.0 / 15.0,
    1.0 / 13.0,
    1.0 / 11.0,
    1.0 / 9.0,
    1.0 / 7.0,
    1.0 / 5.0,
    1.0 / 3.0,
];

/// ln 2 in two parts: the first ends with 20 zero bits, so that its product with an exponent is exact.
pub(crate) const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
pub(crate) const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix;

    #[test]
    fn ln_1p_is_within_two_units_of_the_library() {
        let mut random = SplitMix::new(1);
        let mut worst = 0.0f64;
        for i in 0..1_000_000 {
            let scale = 10f64.powi(i % 20 - 16);
            let x = (random.unit() * 2.0 - 1.0) * scale;
            if x <= -1.0 {
                continue;
            }
            let (own, library) = (ln_1p(x), x.ln_1p());
            let unit = f64::from_bits(library.abs().to_bits() + 1) - library.abs();
            worst = worst.max((own - library).abs() / unit);
        }
        assert!(worst <= 2.0, "{worst} units in the last place");
    }

    #[test]
    fn ln_1p_has_its_limits() {
        assert_eq!((ln_1p(0.0), ln_1p(-1.0)), (0.0, f64::NEG_INFINITY));
        assert!(ln_1p(-1.5).is_nan() && ln_1p(f64::NAN).is_nan() && ln_1p(f64::INFINITY).is_infinite());
        assert_eq!(ln_1p(1e-300), 1e-300);
        // The first part of ln 2 leaves room for an exponent.
        assert_eq!(LN_2_HIGH.to_bits() & 0xf_ffff, 0);
        assert_eq!(LN_2_HIGH + LN_2_LOW, std::f64::consts::LN_2);
    }
}
