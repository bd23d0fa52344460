//! The Sharpe ratio of a day, its standard error, and what it becomes over a year.
//!
//! With `m` the mean of `T` excess returns, `s` their standard deviation (divided by `T - 1`), `γ3` and `γ4` their
//! third and fourth standardised moments (divided by `T`):
//!
//! ```text
//! SR     = m / s
//! error  = √((1 - γ3·SR + (γ4 - 1)/4·SR²) / (T - 1))                  (Mertens 2002)
//! annual = η(q)·SR,  η(q) = q / √(q + 2·Σ_{k<q} (q - k)·ρ_k)          (Lo 2002)
//! annual error = η(q)·max(error, 1/√(T - 1))
//! PSR(x) = Φ((SR - x) / error)                                        (Bailey and López de Prado 2012)
//! MinTRL = 1 + (1 - γ3·SR + (γ4 - 1)/4·SR²) · (Φ⁻¹(1 - α) / (SR - x))²
//! ```
//!
//! A lucky day lifts ratio and skewness alike, and the formula then calls the ratio surer than it is; so the error of a
//! year, which intervals are made of, is never smaller than that of a ratio of 0. `ρ_k` is the correlation of returns
//! `k` days apart, up to `k = ⌊4·(T/100)^(2/9)⌋` and 0 beyond.

use super::{NO_DEVIATION, finite};
use random::normal::{cdf, quantile};

/// Third and fourth standardised moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// 0 for a symmetric distribution.
    pub skewness: f64,
    /// Raw: 3 for a normal distribution.
    pub kurtosis: f64,
}

impl Moments {
    /// Those of a normal distribution.
    pub const NORMAL: Moments = Moments { skewness: 0.0, kurtosis: 3.0 };
}

/// The Sharpe ratio of one observation (a day) and what its uncertainty follows from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharpeRatio {
    /// Mean over standard deviation.
    pub daily: f64,
    /// Standard error of `daily`.
    pub error: f64,
    /// Number of observations.
    pub days: usize,
    /// Moments of the returns.
    pub moments: Moments,
}

impl SharpeRatio {
    /// Of finite excess returns, `[days]`; `None` of fewer than two and of returns that do not vary.
    pub fn new(returns: &[f64]) -> Option<SharpeRatio> {
        let days = returns.len();
        let deviation = deviation(returns)?;
        let mean = mean(returns);
        let moment = |power: i32| returns.iter().map(|r| (r - mean).powi(power)).sum::<f64>() / days as f64;
        let variance = moment(2);
        let moments = Moments { skewness: moment(3) / variance.powf(1.5), kurtosis: moment(4) / (variance * variance) };
        SharpeRatio::from_moments(mean / deviation, days, moments)
    }

    /// With the standard error that follows from its moments; `None` where that is not a number.
    pub fn from_moments(daily: f64, days: usize, moments: Moments) -> Option<SharpeRatio> {
        let error = finite((variance_factor(daily, moments) / days.checked_sub(1)? as f64).sqrt())?;
        finite(daily).map(|daily| SharpeRatio { daily, error, days, moments })
    }

    /// PSR: the probability that the true ratio of a day is above `threshold`; `None` where there is no error.
    pub fn probability_above(&self, threshold: f64) -> Option<f64> {
        (self.error > 0.0).then(|| (self.daily - threshold) / self.error).filter(|z| !z.is_nan()).map(cdf)
    }

    /// MinTRL: the days after which a ratio like this one is above `threshold` at significance `alpha` (0.05, say);
    /// `None` where it is not above it, or where no number of days is enough.
    pub fn minimum_days(&self, threshold: f64, alpha: f64) -> Option<u64> {
        let z = -quantile(alpha) / (self.daily - threshold);
        let days = 1.0 + variance_factor(self.daily, self.moments) * z * z;
        (self.daily > threshold && days < 1e15).then(|| days.ceil() as u64)
    }

    /// Standard error of `daily` for intervals: never smaller than that of a ratio of 0.
    pub(super) fn careful_error(&self) -> f64 {
        self.error.max(1.0 / (self.days as f64 - 1.0).sqrt())
    }

    /// Lo's η: what turns the ratio of a day into that of a year of `q` days, given the returns it is of. `None` where
    /// the estimated variance of a year is not above 0, as estimated correlations may have it.
    pub(super) fn annual_factor(&self, returns: &[f64], q: f64) -> Option<f64> {
        let mean = mean(returns);
        let product =
            |lag: usize| returns[lag..].iter().zip(returns).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
        let all = product(0);
        let lags = lags(returns.len()).min(returns.len() - 1);
        let sum: f64 = (1..=lags).map(|k| (q - k as f64).max(0.0) * product(k) / all).sum();
        let year = q + 2.0 * sum;
        if year > 0.0 { finite(q / year.sqrt()) } else { None }
    }
}

/// `1 - γ3·SR + (γ4 - 1)/4·SR²`: the variance of an estimated Sharpe ratio, times `T - 1`.
fn variance_factor(sharpe: f64, moments: Moments) -> f64 {
    1.0 - moments.skewness * sharpe + (moments.kurtosis - 1.0) / 4.0 * sharpe * sharpe
}

/// Standard deviation (divided by `n - 1`); `None` of fewer than two and of numbers that do not vary beyond rounding.
pub(crate) fn deviation(numbers: &[f64]) -> Option<f64> {
    let mean = mean(numbers);
    let squares = numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
    let deviation = finite((squares / numbers.len().checked_sub(1).filter(|n| *n > 0)? as f64).sqrt())?;
    let largest = numbers.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
    (deviation > NO_DEVIATION * largest).then_some(deviation)
}

pub(crate) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// `⌊4·(T/100)^(2/9)⌋`
fn lags(days: usize) -> usize {
    (4.0 * (days as f64 / 100.0).powf(2.0 / 9.0)) as usize
}
