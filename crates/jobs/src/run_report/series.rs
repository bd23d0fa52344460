//! Day by day: equity beside what it is compared with, drawdown, rolling Sharpe ratio, exposure, months.

use super::gather::Columns;
use files::time::civil;
use judge::backtest::Backtest;
use judge::performance::ChanceBand;
use serde::Serialize;
use std::path::Path;

const DAY: i64 = 86_400_000_000_000;

/// Days of the rolling Sharpe ratio, and fewer where the record is short.
const WINDOWS: [usize; 3] = [126, 63, 21];

/// Series over the trading days of the test blocks. Growth is equity over the capital; all have `[days]` values.
#[derive(Debug, Serialize)]
pub(super) struct Daily {
    /// Nanoseconds since 1970.
    pub(super) day: Vec<i64>,
    pub(super) returns: Vec<f64>,
    pub(super) net: Vec<f64>,
    /// Empty in runs of earlier versions, as what follows.
    pub(super) gross: Vec<f64>,
    pub(super) hold: Vec<f64>,
    pub(super) long: Vec<f64>,
    pub(super) short: Vec<f64>,
    /// Loss from the last peak, at most 0.
    pub(super) drawdown: Vec<f64>,
    pub(super) hold_drawdown: Vec<f64>,
    /// What chance gives; null where nothing was traded.
    pub(super) chance: Option<ChanceBand>,
    /// Days of the rolling Sharpe ratio; null where there are too few.
    pub(super) window: Option<usize>,
    /// `[days]` per year; null before the first window is full, and where on half of its days nothing was held.
    pub(super) rolling_sharpe: Vec<Option<f64>>,
}

/// What a month earned.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Month {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: i64,
    pub(super) total_return: f64,
}

impl Daily {
    /// Reads `returns.parquet`; none where it is not there or empty.
    pub(super) fn read(path: &Path, backtest: &Backtest) -> Option<Daily> {
        let all = Columns::read(path).ok()?;
        let (day, equity) = (all.times.get("day")?.clone(), all.numbers.get("equity")?.clone());
        let returns = all.numbers.get("return")?.clone();
        if day.is_empty() || equity.len() != day.len() || returns.len() != day.len() {
            return None;
        }
        let number = |name: &str| all.numbers.get(name).filter(|v| v.len() == day.len()).cloned().unwrap_or_default();
        let growth = |equity: &[f64]| equity.iter().map(|e| e / backtest.capital).collect::<Vec<f64>>();
        let (net, hold) = (growth(&equity), growth(&number("hold_equity")));
        let window = WINDOWS.into_iter().find(|days| day.len() >= days + days / 2);
        let sharpe = |at: usize| {
            let days = window?;
            let own = returns.get((at + 1).checked_sub(days)?..=at)?;
            rolling_sharpe(own, backtest.net.days_per_year)
        };
        Some(Daily {
            gross: growth(&number("gross_equity")),
            long: number("long"),
            short: number("short"),
            drawdown: drawdown(&net),
            hold_drawdown: drawdown(&hold),
            chance: ChanceBand::new(&returns),
            window,
            rolling_sharpe: (0..day.len()).map(sharpe).collect(),
            day,
            returns,
            net,
            hold,
        })
    }

    /// Returns compounded month by month.
    pub(super) fn months(&self) -> Vec<Month> {
        let mut months: Vec<Month> = Vec::new();
        for (day, value) in self.day.iter().zip(&self.returns) {
            let (year, month, _) = civil(day.div_euclid(DAY));
            match months.last_mut() {
                Some(last) if (last.year, last.month) == (year, month) => {
                    last.total_return = (1.0 + last.total_return) * (1.0 + value) - 1.0;
                }
                _ => months.push(Month { year, month, total_return: *value }),
            }
        }
        months
    }
}

fn drawdown(growth: &[f64]) -> Vec<f64> {
    let mut peak = 1.0f64;
    let fall = |e: &f64| {
        peak = peak.max(*e);
        e / peak - 1.0
    };
    growth.iter().map(fall).collect()
}

/// Mean over deviation times √(days per year); none where on half of the days nothing was held.
fn rolling_sharpe(returns: &[f64], per_year: f64) -> Option<f64> {
    let n = returns.len() as f64;
    if returns.iter().filter(|r| **r == 0.0).count() * 2 > returns.len() {
        return None;
    }
    let mean = returns.iter().sum::<f64>() / n;
    let deviation = (returns.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    (deviation > 1e-9).then(|| mean / deviation * per_year.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawdown_and_rolling_sharpe_by_hand() {
        let fall = drawdown(&[1.1, 0.99, 1.21, 1.21]);
        assert!(fall.iter().zip([0.0, -0.1, 0.0, 0.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{fall:?}");
        assert_eq!(drawdown(&[0.9]), [-0.09999999999999998]);
        assert_eq!(rolling_sharpe(&[0.0; 21], 252.0), None);
        // Mean 0.01, deviation 0.01: 1 a day.
        let sharpe = rolling_sharpe(&[0.0, 0.01, 0.02], 256.0).expect("it varies");
        assert!((sharpe - 16.0).abs() < 1e-9, "{sharpe}");
    }
}
