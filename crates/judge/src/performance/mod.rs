//! What a series of daily returns earned, and how sure that is (docs/method.md, Performance).
//!
//! [`performance`] makes the [`Performance`] record of a [`TrackRecord`]. Returns are simple returns of a trading day,
//! net of all costs, as fractions of the equity that the day began with ([`daily_returns`] makes them of equity). How
//! many trading days a year has is measured ([`trading_days_per_year`]), never assumed.
//!
//! A figure that does not exist (the Sharpe ratio of one day, the profit factor without a loss) is `None`, and what
//! cannot be a track record (no days, a number that is not finite) is an error: no figure is ever NaN or infinite.
//! Sums are added in the order of the days, so the same returns give the same bits.

mod benchmark;
mod chance;
mod drawdown;
mod sharpe;
#[cfg(test)]
mod tests;
mod trading;

pub use benchmark::BenchmarkComparison;
pub use chance::ChanceBand;
pub use drawdown::Drawdown;
pub use sharpe::{Moments, SharpeRatio};
pub(crate) use sharpe::{deviation, mean};
pub use trading::{Activity, ActivityRates, RoundTrips, wilson_interval};

use files::{Error, Result};
use serde::{Deserialize, Serialize};

/// A deviation of daily returns up to this, at returns of up to 1, is what rounding leaves of none.
pub(crate) const NO_DEVIATION: f64 = 1e-12;

/// The largest return of a day that is believed, as a multiple of equity; beyond it sums would overflow.
pub(crate) const LARGEST_RETURN: f64 = 1e6;

/// The largest amount of money that is believed, so that no sum overflows.
const LARGEST_AMOUNT: f64 = 1e100;

/// What a track record consists of.
#[derive(Debug, Clone, Copy)]
pub struct TrackRecord<'a> {
    /// `[days]` net returns of trading days, as fractions of the equity each day began with.
    pub returns: &'a [f64],
    /// Trading days per year, as measured.
    pub days_per_year: f64,
    /// What money earns without risk, per day.
    pub risk_free: f64,
    /// The return per day below which a day counts as a loss in the Sortino ratio.
    pub minimum_return: f64,
    /// `[days]` the benchmark's returns of the same days.
    pub benchmark: Option<&'a [f64]>,
    /// Net result of every round trip, in money or as a fraction of equity.
    pub round_trips: &'a [f64],
    /// How much was traded and held.
    pub activity: Option<Activity>,
}

impl<'a> TrackRecord<'a> {
    /// Returns alone: nothing is earned without risk, and there are no benchmark, round trips or activity.
    pub fn new(returns: &'a [f64], days_per_year: f64) -> TrackRecord<'a> {
        TrackRecord {
            returns,
            days_per_year,
            risk_free: 0.0,
            minimum_return: 0.0,
            benchmark: None,
            round_trips: &[],
            activity: None,
        }
    }
}

/// What a track record is worth. Returns and drawdowns are fractions (0.1 is 10 %).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// Trading days.
    pub days: usize,
    /// Trading days per year.
    pub days_per_year: f64,
    /// Equity at the end over equity at the start, less 1.
    pub total_return: f64,
    /// Compound annual growth rate; -1 where everything was lost.
    pub cagr: Option<f64>,
    /// Standard deviation of daily returns times √(days per year).
    pub volatility_annual: Option<f64>,
    /// Mean over standard deviation of a day's excess return; null where returns do not vary, and so is what follows
    /// from it.
    pub sharpe_daily: Option<f64>,
    /// Its standard error, skewness and kurtosis included (Mertens 2002).
    pub sharpe_daily_error: Option<f64>,
    /// Per year, corrected for correlation between days (Lo 2002); null where the correction has no root.
    pub sharpe_annual: Option<f64>,
    /// Standard error of `sharpe_annual`, in its units.
    pub sharpe_annual_error: Option<f64>,
    /// Per year as if days were uncorrelated, the figure that most programs print: √(days per year) times the daily.
    pub sharpe_annual_uncorrected: Option<f64>,
    /// The probability that the true Sharpe ratio is above 0, one trial taken for granted (Bailey and López de Prado
    /// 2012).
    pub sharpe_probability: Option<f64>,
    /// Trading days after which a ratio like this one is above 0 at 95 %; null where it is not above 0.
    pub minimum_track_days: Option<u64>,
    /// Mean over downside deviation, per year; null without a day below the minimum return.
    pub sortino_annual: Option<f64>,
    /// `cagr` over the depth of the largest drawdown; null without a drawdown.
    pub calmar: Option<f64>,
    /// Third standardised moment of daily returns.
    pub skewness: Option<f64>,
    /// Fourth standardised moment of daily returns: 3 for a normal distribution.
    pub kurtosis: Option<f64>,
    /// The largest loss from a peak.
    pub drawdown: Drawdown,
    /// Against the benchmark, where there is one.
    pub benchmark: Option<BenchmarkComparison>,
    /// What round trips gave.
    pub round_trips: RoundTrips,
    /// How much was traded and held, where that is known.
    pub activity: Option<ActivityRates>,
}

/// Computes every figure of a track record.
///
/// # Errors
///
/// Where there are no days, a number is not finite or not believable, days do not match, or a return follows the loss
/// of everything.
pub fn performance(record: &TrackRecord<'_>) -> Result<Performance> {
    check(record)?;
    let &TrackRecord { returns, days_per_year, risk_free, minimum_return, .. } = record;
    let days = returns.len();
    let (growth, drawdown) = drawdown::walk(returns)?;
    let cagr = finite(growth.max(0.0).powf(days_per_year / days as f64) - 1.0);

    let excess: Vec<f64> = returns.iter().map(|r| r - risk_free).collect();
    let sharpe = SharpeRatio::new(&excess);
    let moments = sharpe.map(|sharpe| sharpe.moments);
    let lo = sharpe.and_then(|sharpe| sharpe.annual_factor(&excess, days_per_year));
    let year = days_per_year.sqrt();

    let mean = returns.iter().sum::<f64>() / days as f64;
    let below = returns.iter().map(|r| (r - minimum_return).min(0.0).powi(2)).sum::<f64>() / days as f64;
    Ok(Performance {
        days,
        days_per_year,
        total_return: growth - 1.0,
        cagr,
        volatility_annual: sharpe::deviation(returns).map(|deviation| deviation * year),
        sharpe_daily: sharpe.map(|sharpe| sharpe.daily),
        sharpe_daily_error: sharpe.map(|sharpe| sharpe.error),
        sharpe_annual: sharpe.zip(lo).and_then(|(sharpe, lo)| finite(sharpe.daily * lo)),
        sharpe_annual_error: sharpe.zip(lo).and_then(|(sharpe, lo)| finite(sharpe.careful_error() * lo)),
        sharpe_annual_uncorrected: sharpe.and_then(|sharpe| finite(sharpe.daily * year)),
        sharpe_probability: sharpe.and_then(|sharpe| sharpe.probability_above(0.0)),
        minimum_track_days: sharpe.and_then(|sharpe| sharpe.minimum_days(0.0, 0.05)),
        sortino_annual: ratio(mean - minimum_return, below.sqrt()).and_then(|sortino| finite(sortino * year)),
        calmar: cagr.and_then(|cagr| ratio(cagr, drawdown.depth)),
        skewness: moments.map(|moments| moments.skewness),
        kurtosis: moments.map(|moments| moments.kurtosis),
        drawdown,
        benchmark: record.benchmark.map(|benchmark| benchmark::compare(returns, benchmark, risk_free, days_per_year)),
        round_trips: RoundTrips::new(record.round_trips),
        activity: record.activity.map(|activity| activity.rates(days, days_per_year)),
    })
}

/// Daily returns, `[n - 1]`, of equity at the start and at the end of each day, `[n]`. An account that has lost
/// everything returns 0 from then on.
///
/// # Errors
///
/// Where there are fewer than two values, one is not finite, the first is not above 0, or equity changes after
/// everything was lost.
pub fn daily_returns(equity: &[f64]) -> Result<Vec<f64>> {
    if equity.len() < 2 || equity[0] <= 0.0 {
        let what = format!("{} values of equity, the first {:?}, make no returns", equity.len(), equity.first());
        return Err(Error::input(what).remedy("equity above 0 at the start, and at the end of one day or more"));
    }
    check_finite("equity, value", equity, LARGEST_AMOUNT)?;
    let step = |(day, pair): (usize, &[f64])| match (pair[0], pair[1]) {
        (before, after) if before > 0.0 => Ok(after / before - 1.0),
        (before, after) if before == after => Ok(0.0),
        (before, after) => Err(Error::input(format!(
            "equity changes from {before} to {after} on day {}, after everything was lost",
            day + 1
        ))),
    };
    equity.windows(2).enumerate().map(step).collect()
}

/// Trading days per year, measured over trading days in ascending order (days since 1970). `None` of fewer than two.
/// Over less than some months the borders of the span weigh in: four days from Monday to Friday make 365.
pub fn trading_days_per_year(days: &[i32]) -> Option<f64> {
    let (first, last) = (f64::from(*days.first()?), f64::from(*days.last()?));
    let ascending = days.windows(2).all(|pair| pair[0] < pair[1]);
    (days.len() > 1 && ascending).then(|| (days.len() - 1) as f64 * 365.2425 / (last - first))
}

fn check(record: &TrackRecord<'_>) -> Result<()> {
    if record.returns.is_empty() {
        return Err(Error::input("there is no day to judge").remedy("a range with at least one trading day"));
    }
    if !(record.days_per_year > 0.0 && record.days_per_year <= 366.0) {
        return Err(Error::input(format!("{} trading days per year; 1 to 366 are possible", record.days_per_year)));
    }
    check_finite("return of day", record.returns, LARGEST_RETURN)?;
    check_finite("risk-free return", &[record.risk_free], LARGEST_RETURN)?;
    check_finite("minimum return", &[record.minimum_return], LARGEST_RETURN)?;
    check_finite("net result of round trip", record.round_trips, LARGEST_AMOUNT)?;
    if let Some(benchmark) = record.benchmark {
        if benchmark.len() != record.returns.len() {
            let (days, others) = (record.returns.len(), benchmark.len());
            return Err(Error::input(format!("{days} days of returns, {others} of the benchmark")));
        }
        check_finite("benchmark's return of day", benchmark, LARGEST_RETURN)?;
    }
    record.activity.as_ref().map_or(Ok(()), Activity::check)
}

/// Refuses numbers that are not finite or larger than believable, by their place from 1.
pub(crate) fn check_finite(what: &str, numbers: &[f64], largest: f64) -> Result<()> {
    match numbers.iter().position(|x| x.is_nan() || x.abs() > largest) {
        Some(at) => Err(Error::input(format!("{what} {} is {}", at + 1, numbers[at]))),
        None => Ok(()),
    }
}

/// `None` where there is nothing to divide by, or the quotient is not finite.
fn ratio(part: f64, whole: f64) -> Option<f64> {
    if whole > 0.0 { finite(part / whole) } else { None }
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}
