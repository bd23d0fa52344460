//! A track record beside its benchmark (buy and hold, say) over the same days.

use super::sharpe::{deviation, mean};
use super::{finite, ratio};
use serde::{Deserialize, Serialize};

/// What a record has beyond its benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkComparison {
    /// What the benchmark returned in all.
    pub total_return: Option<f64>,
    /// Slope of excess returns on the benchmark's; null where the benchmark does not vary, and so is `alpha_annual`.
    pub beta: Option<f64>,
    /// What that line leaves, per day, times the days of a year (not compounded).
    pub alpha_annual: Option<f64>,
    /// Mean over standard deviation of the differences to the benchmark, times √(days per year); null where they do not
    /// vary.
    pub information_ratio_annual: Option<f64>,
}

/// Of finite returns of the same days, at least one.
pub(super) fn compare(returns: &[f64], benchmark: &[f64], risk_free: f64, q: f64) -> BenchmarkComparison {
    let (own, other) = (mean(returns), mean(benchmark));
    let pairs = returns.iter().zip(benchmark);
    let covariance: f64 = pairs.clone().map(|(r, b)| (r - own) * (b - other)).sum();
    let variance: f64 = benchmark.iter().map(|b| (b - other) * (b - other)).sum();
    let beta = deviation(benchmark).and_then(|_| ratio(covariance, variance));
    let difference: Vec<f64> = pairs.map(|(r, b)| r - b).collect();
    BenchmarkComparison {
        total_return: finite(benchmark.iter().fold(1.0, |growth, b| growth * (1.0 + b)) - 1.0),
        beta,
        alpha_annual: beta.and_then(|beta| finite(q * (own - risk_free - beta * (other - risk_free)))),
        information_ratio_annual: deviation(&difference)
            .and_then(|deviation| finite(q.sqrt() * mean(&difference) / deviation)),
    }
}
