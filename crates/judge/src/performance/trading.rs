//! What single round trips gave, and how much was traded for it.

use super::{LARGEST_AMOUNT, check_finite, finite, ratio};
use files::{Error, Result};
use serde::{Deserialize, Serialize};

/// Two-sided 95 % of a normal distribution.
const Z95: f64 = 1.959_963_984_540_054;

/// Positions from their opening to their closing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// How many.
    pub count: usize,
    /// The share with a net profit; null of none.
    pub hit_rate: Option<f64>,
    /// Lower end of its 95 % interval (Wilson 1927).
    pub hit_rate_low: Option<f64>,
    /// Upper end.
    pub hit_rate_high: Option<f64>,
    /// Mean profit over mean loss; null without a profit or without a loss.
    pub payoff_ratio: Option<f64>,
    /// Sum of profits over sum of losses; null without a loss.
    pub profit_factor: Option<f64>,
}

impl RoundTrips {
    /// Of finite net results. One of exactly 0 counts, but neither as a profit nor as a loss.
    pub fn new(results: &[f64]) -> RoundTrips {
        let profits = results.iter().filter(|x| **x > 0.0);
        let losses = results.iter().filter(|x| **x < 0.0);
        let (won, lost) = (profits.clone().count(), losses.clone().count());
        let profit_factor = ratio(profits.sum::<f64>() + 0.0, -losses.sum::<f64>());
        let interval = wilson_interval(won, results.len());
        RoundTrips {
            count: results.len(),
            hit_rate: ratio(won as f64, results.len() as f64),
            hit_rate_low: interval.map(|(low, _)| low),
            hit_rate_high: interval.map(|(_, high)| high),
            payoff_ratio: profit_factor
                .filter(|_| won > 0)
                .and_then(|factor| finite(factor * lost as f64 / won as f64)),
            profit_factor,
        }
    }
}

/// The 95 % interval of a share, `hits` of `n` (Wilson 1927); `None` of none.
pub fn wilson_interval(hits: usize, n: usize) -> Option<(f64, f64)> {
    if n == 0 || hits > n {
        return None;
    }
    let (share, n, square) = (hits as f64 / n as f64, n as f64, Z95 * Z95);
    let middle = (share + square / (2.0 * n)) / (1.0 + square / n);
    let half = Z95 / (1.0 + square / n) * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
    Some(((middle - half).max(0.0), (middle + half).min(1.0)))
}

/// Sums over a track record, as whoever kept the account has them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// Σ over fills of |traded notional| / equity at the fill, purchases and sales alike.
    pub traded_sum: f64,
    /// Σ over bars of |position| / equity.
    pub exposure_sum: f64,
    /// How many bars that sum has, those without a position included.
    pub exposure_bars: usize,
    /// All costs, in money, not negative.
    pub costs: f64,
    /// The result before costs, in the same money.
    pub gross_profit: f64,
}

/// How much was traded and held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActivityRates {
    /// Times that the equity was traded in a year, purchases and sales alike.
    pub turnover_per_year: Option<f64>,
    /// Mean of |position| / equity over bars; null without a bar.
    pub exposure: Option<f64>,
    /// Costs over the result before costs; null where that is not a profit.
    pub cost_share: Option<f64>,
}

impl Activity {
    pub(super) fn check(&self) -> Result<()> {
        let sums = [self.traded_sum, self.exposure_sum, self.costs];
        check_finite("sum of activity", &sums, LARGEST_AMOUNT)?;
        check_finite("gross profit", &[self.gross_profit], LARGEST_AMOUNT)?;
        match sums.iter().find(|sum| **sum < 0.0) {
            Some(sum) => Err(Error::input(format!("a sum of trading, exposure or costs is {sum}, below 0"))),
            None => Ok(()),
        }
    }

    pub(super) fn rates(&self, days: usize, days_per_year: f64) -> ActivityRates {
        ActivityRates {
            turnover_per_year: finite(self.traded_sum * days_per_year / days as f64),
            exposure: ratio(self.exposure_sum, self.exposure_bars as f64),
            cost_share: ratio(self.costs, self.gross_profit),
        }
    }
}
