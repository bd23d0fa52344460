//! Student's t distribution with whole degrees of freedom, by its finite sums (Abramowitz and Stegun 26.7.3, 26.7.4),
//! equal to the bit on every platform.

use crate::normal;

/// From here on the normal distribution with its first correction is nearer than 1e-8.
const MANY: usize = 2000;

/// The share below `t`, with `freedom` degrees of freedom; NaN with none.
pub fn cdf(t: f64, freedom: usize) -> f64 {
    if freedom == 0 || t.is_nan() {
        return f64::NAN;
    }
    if t.abs() > 1e100 {
        // Its square would overflow.
        return f64::from(u8::from(t > 0.0));
    }
    if freedom >= MANY {
        // Wallace's transformation to a normal variable.
        let n = freedom as f64;
        let z = (n * normal::ln(1.0 + t * t / n)).sqrt() * (8.0 * n + 1.0) / (8.0 * n + 3.0);
        return normal::cdf(z.copysign(t));
    }
    let n = freedom as f64;
    let square = n / (n + t * t); // cos²θ with tan θ = t/√n
    let sine = t / (n + t * t).sqrt();
    let inside = if freedom.is_multiple_of(2) {
        let (mut term, mut sum) = (1.0, 1.0);
        for k in (2..freedom).step_by(2) {
            term *= square * (k - 1) as f64 / k as f64;
            sum += term;
        }
        sine * sum
    } else {
        let (mut term, mut sum) = (square.sqrt(), 0.0);
        for k in (1..freedom).step_by(2) {
            sum += term;
            term *= square * (k + 1) as f64 / (k + 2) as f64;
        }
        (arctan(t / n.sqrt()) + sine * sum) * std::f64::consts::FRAC_2_PI
    };
    0.5 + 0.5 * inside
}

/// The value below which the share `p` lies, for p between 0 and 1; NaN elsewhere.
pub fn quantile(p: f64, freedom: usize) -> f64 {
    if !(p > 0.0 && p < 1.0) || freedom == 0 {
        return f64::NAN;
    }
    // Half of the distribution is searched: beyond it the share is 1 - p.
    let upper = p.max(1.0 - p);
    let mut high = 1.0;
    while cdf(high, freedom) < upper && high < 1e15 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if cdf(middle, freedom) < upper { low = middle } else { high = middle }
    }
    let found = 0.5 * (low + high);
    if p < 0.5 { -found } else { found }
}

/// By halving the angle three times and the series of what is left.
fn arctan(x: f64) -> f64 {
    let mut x = x;
    for _ in 0..3 {
        x = x / (1.0 + (1.0 + x * x).sqrt());
    }
    let square = x * x;
    let mut sum = 0.0;
    for k in (0..=30u32).rev() {
        sum = 1.0 / f64::from(2 * k + 1) - square * sum;
    }
    8.0 * x * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_quantiles_are_those_of_tables() {
        // scipy.stats.t, 1.17.
        for (p, freedom, t) in [
            (0.975, 1, 12.706204736432095),
            (0.975, 2, 4.302652729911275),
            (0.975, 9, 2.262157162798205),
            (0.975, 10, 2.2281388519649385),
            (0.975, 30, 2.0422724563012373),
            (0.95, 5, 2.015048372669157),
            (0.995, 100, 2.6258905214380173),
            (0.975, 2500, 1.960913344795567),
        ] {
            let found = quantile(p, freedom);
            assert!((found - t).abs() < 1e-8 * t, "{p} {freedom}: {found}");
            assert!((cdf(t, freedom) - p).abs() < 1e-9, "{t} {freedom}: {}", cdf(t, freedom));
            assert!(quantile(1.0 - p, freedom).is_sign_negative());
            assert!((cdf(-t, freedom) + cdf(t, freedom) - 1.0).abs() < 1e-14);
        }
        assert_eq!((cdf(0.0, 7), quantile(0.5, 7).abs() < 1e-15), (0.5, true));
        assert!(cdf(1.0, 0).is_nan() && quantile(1.0, 3).is_nan() && quantile(0.0, 3).is_nan());
        assert!((cdf(1e300, 3) - 1.0).abs() < 1e-15 && cdf(-1e300, 4).abs() < 1e-15);
    }
}
