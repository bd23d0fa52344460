//! Losses from a peak: how deep, since when, for how long.

use files::{Error, Result};
use serde::{Deserialize, Serialize};

/// The largest drawdown, the first of equals. Day numbers count day ends: 0 is the start, `n` the end of the day of
/// `returns[n - 1]`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Drawdown {
    /// The largest loss from a peak, as a fraction of that peak: 0 where there is none, 1 where everything was lost.
    pub depth: f64,
    /// Where the peak was: the last day at that height before the fall.
    pub peak_day: usize,
    /// Where the low was.
    pub trough_day: usize,
    /// Where equity was at the peak again; null where it never was.
    pub recovery_day: Option<usize>,
    /// Days from the peak to the recovery, or to the end.
    pub duration_days: usize,
    /// The most days between any peak and its recovery, or the end.
    pub longest_days: usize,
}

/// Equity at the end (1 at the start), and the largest drawdown.
pub(super) fn walk(returns: &[f64]) -> Result<(f64, Drawdown)> {
    let (mut equity, mut peak, mut peak_day) = (1.0_f64, 1.0, 0);
    let mut worst = Drawdown::default();
    for (at, r) in returns.iter().enumerate() {
        let day = at + 1;
        if equity <= 0.0 && *r != 0.0 {
            return Err(Error::input(format!("day {day} returns {r} after everything was lost")));
        }
        equity *= 1.0 + r;
        if equity < peak {
            let depth = 1.0 - equity / peak;
            if depth > worst.depth {
                worst = Drawdown { depth, peak_day, trough_day: day, recovery_day: None, ..worst };
            }
            worst.longest_days = worst.longest_days.max(day - peak_day);
            continue;
        }
        // The day before was below the peak where the peak is not that day.
        if day - peak_day > 1 {
            worst.longest_days = worst.longest_days.max(day - peak_day);
            if worst.depth > 0.0 && worst.peak_day == peak_day {
                worst.recovery_day = Some(day);
            }
        }
        (peak, peak_day) = (equity, day);
    }
    if !equity.is_finite() {
        return Err(Error::input("equity grows beyond what a number can hold").remedy("check the returns"));
    }
    if worst.depth > 0.0 {
        worst.duration_days = worst.recovery_day.unwrap_or(returns.len()) - worst.peak_day;
    }
    Ok((equity, worst))
}
