//! Normals, four at a time, by Box and Muller (1958).
//!
//! `r = √(-2 ln u)`, then `r cos φ` and `r sin φ`, with `u` in `[2⁻³², 1]` from one word and the angle `φ` from
//! another. Logarithm, sine and cosine are our own polynomials in f32 (minimax by Remez' exchange, rounded), because
//! libraries differ in the last bit between devices. Only `+ - × √` with one rounding each, explicit fma and integers
//! are used: the same bits everywhere. The largest normal is 6.66 deviations; accuracy is within 4 units in the last
//! place.

/// Four normals with mean 0 and deviation 1, from four words: the first two make two, the others the other two.
pub fn normals(bits: [u32; 4]) -> [f32; 4] {
    let [a, b] = pair(bits[0], bits[1]);
    let [c, d] = pair(bits[2], bits[3]);
    [a, b, c, d]
}

#[inline(always)]
pub(super) fn pair(radius: u32, angle: u32) -> [f32; 2] {
    // Never 0; conversion keeps the resolution where u is small, that is in the tail.
    let u = (radius | 1) as f32 * (1.0 / 4_294_967_296.0);
    let r = (-2.0 * ln(u)).sqrt();
    let [cos, sin] = cos_sin(angle);
    [r * cos, r * sin]
}

/// ln x for normal x > 0: `x = m 2^e` with m from √½ to √2, then `e ln 2 + ln m`.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    // 0x3f3504f3 is √½: the exponent steps there instead of at 1.
    let shifted = x.to_bits().wrapping_sub(0x3f35_04f3);
    let e = (shifted as i32 >> 23) as f32;
    let f = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let p = polynomial(&LN, f);
    // ln m = f - f²/2 + f³ P(f); smallest first. ln 2 in two parts, the upper of 9 bits, so that e times it is exact.
    let square = f * f;
    let small = e.mul_add(-2.121_944_4e-4, square.mul_add(-0.5, square * f * p));
    e.mul_add(0.693_359_4, f + small)
}

/// Cosine and sine of `angle / 2³²` of a full turn: the nearest quarter exactly in integers, the rest at most an eighth
/// either way.
#[inline(always)]
fn cos_sin(angle: u32) -> [f32; 2] {
    let quarter = angle.wrapping_add(1 << 29) >> 30;
    let rest = angle.wrapping_sub(quarter << 30) as i32;
    let t = rest as f32 * (1.0 / 536_870_912.0);
    let z = t * t;
    let s = t.mul_add(f32::from_bits(0x3f49_0fdb), t * (z * polynomial(&SIN, z)));
    let c = polynomial(&COS, z);
    // 0: c, s; 1: -s, c; 2: -c, -s; 3: s, -c. Signs as bits, so that loops over it have no branch.
    let (x, y) = if quarter & 1 == 1 { (s, c) } else { (c, s) };
    let (turned, below) = ((quarter + 1) & 2, quarter & 2);
    [f32::from_bits(x.to_bits() ^ turned << 30), f32::from_bits(y.to_bits() ^ below << 30)]
}

/// By Horner's rule with fma. Coefficients are bits of f32, the highest first, so that no decimal stands between the
/// twins.
#[inline(always)]
fn polynomial(coefficients: &[u32], x: f32) -> f32 {
    let mut sum = 0.0_f32;
    for bits in coefficients {
        sum = sum.mul_add(x, f32::from_bits(*bits));
    }
    sum
}

/// P of ln(1 + f) = f - f²/2 + f³ P(f), f from √½ - 1 to √2 - 1: 0.0675 … 0.3333.
const LN: [u32; 9] = [
    0x3d8a_2bfb,
    0xbdef_1df4,
    0x3df3_7816,
    0xbdfe_1105,
    0x3e11_9bb6,
    0xbe2a_ae27,
    0x3e4c_d25a,
    0xbe80_0003,
    0x3eaa_aaa4,
];
/// (sin(π/4 t) / t - π/4) / t² in t², t from -1 to 1: 3.09e-7 … -0.0807; π/4 itself is added last, for its rounding.
const SIN: [u32; 4] = [0x34a5_e12b, 0xb819_6543, 0x3b23_35dd, 0xbda5_5de7];
/// cos(π/4 t) in t²: 3.53e-6 … 1.
const COS: [u32; 5] = [0x366c_cfaa, 0xb9aa_e275, 0x3c81_e0ed, 0xbe9d_e9e6, 0x3f80_0000];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Stream, philox};

    /// Distance in units in the last place of the expected value.
    fn ulps(got: f32, expected: f64) -> f64 {
        let near = (expected as f32).abs().max(f32::MIN_POSITIVE);
        let unit = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
        (f64::from(got) - expected).abs() / unit
    }

    #[test]
    fn ln_is_within_two_units() {
        let mut worst: f64 = 0.0;
        let (from, to) = (2f32.powi(-32).to_bits(), 1f32.to_bits());
        for bits in (from..=to).step_by(97).chain(to - 100_000..=to).chain(0x3f35_0000..0x3f35_1000) {
            let x = f32::from_bits(bits);
            worst = worst.max(ulps(ln(x), f64::from(x).ln()));
        }
        assert_eq!(ln(1.0), 0.0);
        assert!(worst <= 2.0, "{worst} ulp");
    }

    #[test]
    fn cosine_and_sine_are_within_two_units() {
        let mut worst: f64 = 0.0;
        let edges = (0..8u32).flat_map(|e| (0..2000).map(move |i| (e << 29).wrapping_sub(1000).wrapping_add(i)));
        for angle in (0..u32::MAX).step_by(1531).chain(edges) {
            // The quarter is taken out before the f64 functions, so that their argument is exact near zeros too.
            let quarter = angle.wrapping_add(1 << 29) >> 30;
            let rest = f64::from(angle.wrapping_sub(quarter << 30) as i32) * std::f64::consts::TAU / 4_294_967_296.0;
            let (s, c) = rest.sin_cos();
            let expected = [[c, s], [-s, c], [-c, -s], [s, -c]][quarter as usize];
            let got = cos_sin(angle);
            worst = worst.max(ulps(got[0], expected[0])).max(ulps(got[1], expected[1]));
        }
        assert_eq!(cos_sin(0), [1.0, 0.0]);
        assert!(worst <= 2.0, "{worst} ulp");
    }

    #[test]
    fn extremes_are_finite() {
        for a in [0, 1, 2, 255, 1 << 31, u32::MAX - 128, u32::MAX - 127, u32::MAX] {
            for b in [0, 1, 1 << 29, 1 << 30, 3 << 30, u32::MAX] {
                assert!(normals([a, b, b, a]).iter().all(|z| z.is_finite() && z.abs() < 6.67));
            }
        }
        assert!((normals([0, 0, 0, 0])[0] - 6.660).abs() < 1e-3);
    }

    #[test]
    fn a_million_normals_are_normal() {
        let mut drawn: Vec<f64> =
            (0..250_000).flat_map(|i| normals(philox(11, [i, 0, Stream::Noise as u32, 0]))).map(f64::from).collect();
        let n = drawn.len() as f64;
        let moment = |p: i32| drawn.iter().map(|z| z.powi(p)).sum::<f64>() / n;
        // Standard errors: 1, √2, √15, √96 over √n; five of each.
        for (p, expected, error) in [(1, 0.0, 0.005), (2, 1.0, 0.0071), (3, 0.0, 0.02), (4, 3.0, 0.05)] {
            assert!((moment(p) - expected).abs() < error, "moment {p}: {}", moment(p));
        }
        // Neighbours share a radius or follow each other; neither may correlate.
        for lag in 1..=4 {
            let r = drawn.windows(lag + 1).map(|w| w[0] * w[lag]).sum::<f64>() / n;
            assert!(r.abs() < 0.005, "lag {lag}: {r}");
        }
        drawn.sort_by(f64::total_cmp);
        let gap = |(i, z): (usize, &f64)| (cdf(*z) - (i as f64 + 0.5) / n).abs();
        let ks = drawn.iter().enumerate().map(gap).fold(0.0, f64::max);
        assert!(ks * n.sqrt() < 1.95, "Kolmogorov-Smirnov {}, 1.95 is one in a thousand", ks * n.sqrt());
    }

    /// The normal distribution: the series Σ z^(2k+1) / (1·3·…·(2k+1)) times the density (Marsaglia 2004).
    fn cdf(z: f64) -> f64 {
        let (mut sum, mut term, mut odd) = (z, z, 1.0);
        while term.abs() > 1e-17 * sum.abs() {
            odd += 2.0;
            term *= z * z / odd;
            sum += term;
        }
        0.5 + sum * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
    }
}
