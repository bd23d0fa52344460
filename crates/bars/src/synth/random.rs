//! Random numbers by counter, and the few functions they need, equal to the bit on every platform.
//!
//! Words are those of Philox. Normals by inversion (Wichura 1988, AS 241); a draw has 32 bits, so
//! a normal stays within 6.3 and the algorithm's far tail is never reached. `exp` and `ln` use only `+ - * /` and bits.

use random::philox;

/// One stream of draws; a draw is named by its step and index and can be asked for in any order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    seed: u64,
    id: u32,
}

impl Stream {
    pub(super) fn new(seed: u64, id: u32) -> Stream {
        Stream { seed, id }
    }

    /// Four 32-bit draws.
    pub(super) fn draw(&self, step: usize, index: u32) -> [u32; 4] {
        philox(self.seed, [step as u32, (step as u64 >> 32) as u32, index, self.id])
    }

    /// Four draws from (0, 1).
    pub(super) fn uniforms(&self, step: usize, index: u32) -> [f64; 4] {
        self.draw(step, index).map(uniform)
    }

    /// Four draws from N(0, 1).
    pub(super) fn normals(&self, step: usize, index: u32) -> [f64; 4] {
        self.draw(step, index).map(|bits| quantile(uniform(bits)))
    }
}

/// The middle of one of 2³² equal parts of (0, 1).
pub(super) fn uniform(bits: u32) -> f64 {
    (f64::from(bits) + 0.5) * (1.0 / 4_294_967_296.0)
}

/// Φ⁻¹(p), for p between 1e-10 and 1 - 1e-10.
#[rustfmt::skip]
#[expect(clippy::excessive_precision, reason = "as printed in AS 241")]
pub(super) fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        let top = polynomial(r, &[2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
            1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080]);
        let bottom = polynomial(r, &[5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
            5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0]);
        return q * top / bottom;
    }
    let r = (-ln(if q < 0.0 { p } else { 1.0 - p })).sqrt() - 1.6;
    let top = polynomial(r, &[7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
        3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734]);
    let bottom = polynomial(r, &[1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0]);
    if q < 0.0 { -top / bottom } else { top / bottom }
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
pub(super) fn exp(x: f64) -> f64 {
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
pub(super) fn ln(x: f64) -> f64 {
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
            (1e-9, -5.9978070150076865),
        ] {
            assert!((quantile(p) - z).abs() < 1e-14 * (1.0 + z.abs()), "{p}: {}", quantile(p));
        }
        assert!(quantile(uniform(0)) > -6.4 && quantile(uniform(u32::MAX)) < 6.4);
    }

    #[test]
    fn normal_draws_have_normal_moments() {
        let stream = Stream::new(7, 3);
        let n = 100_000;
        let (mut m1, mut m2, mut m4, mut lag) = (0.0, 0.0, 0.0, 0.0);
        for step in 0..n {
            for z in stream.normals(step, 0) {
                (m1, m2, m4) = (m1 + z, m2 + z * z, m4 + z * z * z * z);
            }
            lag += stream.normals(step, 0)[0] * stream.normals(step + 1, 0)[0];
        }
        let count = 4.0 * n as f64;
        assert!((m1 / count).abs() < 0.006 && (m2 / count - 1.0).abs() < 0.01 && (m4 / count - 3.0).abs() < 0.06);
        assert!((lag / n as f64).abs() < 0.012);
    }
}
