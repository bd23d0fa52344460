//! The normal distribution, and the exponential and logarithm it needs, equal to the bit on every platform: `exp` and
//! `ln` use only `+ - * /` and bits.

/// Φ(x), the share of a standard normal distribution below x, within 1e-15, and within 1e-13 of itself down to -37.
pub fn cdf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let far = x.abs();
    let density = exp(-0.5 * far * far) * 0.398_942_280_401_432_7;
    if far < 2.5 {
        // x + x³/3 + x⁵/(3·5) + ... (Marsaglia 2004); no term is negative, so nothing cancels.
        let (mut term, mut sum, mut odd) = (far, far, 1.0);
        while term > 1e-17 * sum {
            odd += 2.0;
            term *= far * far / odd;
            sum += term;
        }
        return 0.5 + (density * sum).copysign(x);
    }
    // The tail as Laplace's continued fraction: density / (x + 1/(x + 2/(x + 3/(x + ...)))).
    let tail = if far > 38.0 { 0.0 } else { density / (1..=80).rev().fold(far, |below, n| far + f64::from(n) / below) };
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Φ⁻¹(p) for p above 1e-300 and below 1 (Wichura 1988, AS 241); NaN elsewhere. Upper tails are exact only as far as
/// `1 - p` is: `-quantile(q)` is better than `quantile(1 - q)`.
#[rustfmt::skip]
#[expect(clippy::excessive_precision, reason = "as printed in AS 241")]
pub fn quantile(p: f64) -> f64 {
    if !(1e-300..1.0).contains(&p) {
        return f64::NAN;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        let top = polynomial(r, &[2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
            1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080]);
        let bottom = polynomial(r, &[5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
            5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0]);
        return q * top / bottom;
    }
    let r = (-ln(if q < 0.0 { p } else { 1.0 - p })).sqrt();
    let z = if r <= 5.0 { near_tail(r - 1.6) } else { far_tail(r - 5.0) };
    if q < 0.0 { -z } else { z }
}

#[rustfmt::skip]
#[expect(clippy::excessive_precision, reason = "as printed in AS 241")]
fn near_tail(r: f64) -> f64 {
    let top = polynomial(r, &[7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
        3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734]);
    let bottom = polynomial(r, &[1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0]);
    top / bottom
}

#[rustfmt::skip]
#[expect(clippy::excessive_precision, reason = "as printed in AS 241")]
fn far_tail(r: f64) -> f64 {
    let top = polynomial(r, &[2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
        2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720]);
    let bottom = polynomial(r, &[2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
        1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0]);
    top / bottom
}

/// Highest power first.
fn polynomial<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    let mut sum = coefficients[0];
    for c in &coefficients[1..] {
        sum = sum * x + c;
    }
    sum
}

/// eˣ for |x| up to 700: 2ᵏ times a Taylor series within ±ln 2 / 2.
pub fn exp(x: f64) -> f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238e-1; // its lower bits are 0, so that k · LN2_HI is exact
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    let x = x.clamp(-700.0, 700.0);
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = (x - k * LN2_HI) - k * LN2_LO;
    let mut sum = 1.0;
    for n in (1..=13).rev() {
        sum = 1.0 + sum * r * INVERSE[n];
    }
    sum * f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

#[rustfmt::skip]
const INVERSE: [f64; 14] = [
    0.0, 1.0, 1.0 / 2.0, 1.0 / 3.0, 1.0 / 4.0, 1.0 / 5.0, 1.0 / 6.0, 1.0 / 7.0, 1.0 / 8.0, 1.0 / 9.0, 1.0 / 10.0, 1.0 / 11.0, 1.0 / 12.0, 1.0 / 13.0,
];

/// ln x for normal positive x: the exponent, and 2·artanh((m - 1) / (m + 1)) of the mantissa.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 1023 << 52);
    if m > std::f64::consts::SQRT_2 {
        (m, exponent) = (0.5 * m, exponent + 1);
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for n in (0..12).rev() {
        sum = sum * square + 1.0 / f64::from(2 * n + 1);
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn functions_agree_with_the_library() {
        for i in -7000..=7000 {
            let x = f64::from(i) * 0.0997;
            assert!((exp(x) / x.exp() - 1.0).abs() < 2e-15, "exp {x}");
            let y = x.exp();
            assert!((ln(y) - y.ln()).abs() <= 4e-16 * (1.0 + y.ln().abs()), "ln {y}");
        }
        // Python's statistics.NormalDist().inv_cdf.
        for (p, z) in [
            (0.8, 0.8416212335729143), (0.5, 0.0), (0.975, 1.9599639845400534), (0.01, -2.3263478740408408), (1e-6, -4.753424308822899),
            (1e-9, -5.9978070150076865), (1e-12, -7.034483825301132), (1e-15, -7.941345326170995), (1e-100, -21.27345356096532),
        ] {
            assert!((quantile(p) - z).abs() < 1e-14 * (1.0 + z.abs()), "{p}: {}", quantile(p));
        }
        for bad in [0.0, 1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
            assert!(quantile(bad).is_nan(), "{bad}");
        }
    }

    /// From the series in 400 digits.
    #[test]
    #[rustfmt::skip]
    fn distribution_is_exact() {
        for (x, p) in [
            (-37.0, 5.725571222524577e-300), (-20.0, 2.7536241186062337e-89), (-8.0, 6.220960574271784e-16),
            (-5.5, 1.8989562465887718e-08), (-2.75, 0.002979763235054557), (-2.5, 0.006209665325776135),
            (-2.25, 0.012224472655044703), (-1.0, 0.15865525393145705), (-0.125, 0.4502617751698871), (0.0,
            0.5), (1e-10, 0.5000000000398942), (0.5, 0.6914624612740131), (1.75, 0.9599408431361829), (2.375,
            0.9912255249042616), (2.5, 0.9937903346742238), (3.0, 0.9986501019683699), (6.0,
            0.9999999990134123), (9.0, 1.0)
        ] {
            assert!((cdf(x) - p).abs() <= 1e-13 * p, "{x}: {} instead of {p}", cdf(x));
        }
        for i in -600..=600 {
            let x = f64::from(i) * 0.01;
            let low = -x.abs();
            assert!((quantile(cdf(low)) - low).abs() < 1e-12 && (cdf(x) + cdf(-x) - 1.0).abs() < 1e-15, "{x}");
        }
        assert_eq!((cdf(f64::NEG_INFINITY), cdf(-40.0), cdf(40.0), cdf(f64::INFINITY)), (0.0, 0.0, 1.0, 1.0));
        assert!(cdf(f64::NAN).is_nan());
    }
}
