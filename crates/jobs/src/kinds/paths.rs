//! Paths through folds that train around their tests, and how their results are spread (docs/method.md, Splits).

use judge::backtest::Backtest;
use serde::{Deserialize, Serialize};

/// What the paths are worth, and how their yearly Sharpe ratios are spread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PathsRecord {
    /// Folds: every choice of the groups that are tested at a time.
    pub splits: u64,
    /// Parts of the time.
    pub groups: u64,
    /// Clock times behind each test block that are not trained on.
    pub embargo: u64,
    /// Each path goes once through all of the time.
    pub paths: Vec<PathRecord>,
    /// Mean of the paths' Sharpe ratios; null where none has one, as what follows.
    pub sharpe_mean: Option<f64>,
    /// Their standard deviation; null of one path.
    pub sharpe_deviation: Option<f64>,
    /// The lowest.
    pub sharpe_least: Option<f64>,
    /// The highest.
    pub sharpe_most: Option<f64>,
    /// Share of the paths whose Sharpe ratio is not above 0.
    pub share_not_above_zero: Option<f64>,
}

/// One path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PathRecord {
    /// From 1.
    pub path: usize,
    /// Matthews' correlation of its predictions; null where there are none.
    pub mcc: Option<f64>,
    /// Net return over all of the time; null for ready arrays, as what follows.
    pub total_return: Option<f64>,
    /// Net, per year; null where nothing was traded.
    pub sharpe: Option<f64>,
    /// The same at twice the costs.
    pub sharpe_2x: Option<f64>,
    /// The largest loss from a peak.
    pub drawdown: Option<f64>,
    /// Round trips.
    pub trades: Option<u64>,
}

impl PathRecord {
    pub(super) fn new(path: usize, mcc: Option<f64>, traded: Option<&Backtest>) -> PathRecord {
        let at = |multiple: f64| {
            let traded = traded.filter(|record| record.costs.traded > 0.0)?;
            traded.multiples.iter().find(|m| m.multiple == multiple)?.sharpe_annual
        };
        PathRecord {
            path,
            mcc,
            total_return: traded.map(|record| record.net.total_return),
            sharpe: at(1.0),
            sharpe_2x: at(2.0),
            drawdown: traded.map(|record| record.net.drawdown.depth),
            trades: traded.map(|record| record.net.round_trips.count as u64),
        }
    }
}

impl PathsRecord {
    /// Paths that never traded have no ratio and are counted as not above 0.
    pub(super) fn new(splits: usize, groups: usize, embargo: usize, paths: Vec<PathRecord>) -> PathsRecord {
        let ratios: Vec<f64> = paths.iter().filter_map(|path| path.sharpe).collect();
        let n = ratios.len() as f64;
        let mean = (n > 0.0).then(|| ratios.iter().sum::<f64>() / n);
        let squares = |mean: f64| ratios.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let above = ratios.iter().filter(|x| **x > 0.0).count();
        let traded = paths.iter().any(|path| path.trades.is_some());
        PathsRecord {
            splits: splits as u64,
            groups: groups as u64,
            embargo: embargo as u64,
            sharpe_mean: mean,
            sharpe_deviation: mean.filter(|_| n > 1.0).map(|mean| (squares(mean) / (n - 1.0)).sqrt()),
            sharpe_least: ratios.iter().copied().reduce(f64::min),
            sharpe_most: ratios.iter().copied().reduce(f64::max),
            share_not_above_zero: traded.then(|| 1.0 - above as f64 / paths.len() as f64),
            paths,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_summed_up() {
        let path = |path, sharpe, trades| PathRecord { sharpe, trades, ..PathRecord::new(path, None, None) };
        let all = vec![path(1, Some(1.0), Some(9)), path(2, Some(-1.0), Some(7)), path(3, None, Some(0))];
        let record = PathsRecord::new(15, 6, 12, all);
        assert_eq!((record.sharpe_mean, record.sharpe_deviation), (Some(0.0), Some(2f64.sqrt())));
        assert_eq!((record.sharpe_least, record.sharpe_most), (Some(-1.0), Some(1.0)));
        assert!(record.share_not_above_zero.is_some_and(|share| (share - 2.0 / 3.0).abs() < 1e-12));
        // Arrays have no prices.
        let none = PathsRecord::new(5, 5, 1, vec![path(1, None, None)]);
        assert_eq!((none.sharpe_mean, none.share_not_above_zero), (None, None));
    }
}
