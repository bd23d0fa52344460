//! The Sharpe ratio that is left when one counts how often it was tried (docs/method.md, Performance: many trials).
//!
//! The best of `N` trials without any skill is expected at `SR0`, which follows from `N` and from how widely their
//! ratios scatter; the deflated Sharpe ratio is the probability that the true one is above it (Bailey and López de
//! Prado 2014). Trials whose returns hang together count as fewer.

use crate::performance::{LARGEST_RETURN, SharpeRatio, check_finite, deviation, mean};
use files::{Error, Result};
use random::normal::quantile;
use serde::{Deserialize, Serialize};

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// With fewer ratios than this their variance is not trusted to be as small as it looks.
const FEW_TRIALS: usize = 10;

/// All trials that were made on the same data.
#[derive(Debug, Clone, Copy)]
pub struct TrialFamily<'a> {
    /// How many, with the one that is judged, and with those that crashed, were stopped or have no returns.
    pub trials: usize,
    /// Sharpe ratio of a day of every trial that has returns.
    pub sharpes: &'a [f64],
    /// Mean correlation between the returns of two trials ([`mean_correlation`]); `None` counts them as independent.
    pub correlation: Option<f64>,
}

/// A Sharpe ratio beside what the best of many trials reaches by chance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeflatedSharpe {
    /// Trials in all.
    pub trials: usize,
    /// As many independent ones would be as likely to find something by chance.
    pub effective_trials: usize,
    /// Variance of the trials' ratios of a day; null with one trial.
    pub sharpe_variance: Option<f64>,
    /// What the best of `effective_trials` is expected to reach by chance, as the ratio of a day: 0 for one.
    pub chance_sharpe_daily: f64,
    /// The deflated Sharpe ratio: the probability that the true ratio is above it. With one trial nothing is deflated,
    /// and this is the probability that it is above 0.
    pub probability: f64,
    /// The same as `chance_sharpe_daily`, every trial counted as independent.
    pub chance_sharpe_daily_all: f64,
    /// The same as `probability`, every trial counted as independent.
    pub probability_all: f64,
}

/// Deflates the ratio of one trial of a family; `None` where the ratio has no standard error.
///
/// # Errors
///
/// Where the family is empty or has more ratios than trials, or a number is not finite.
pub fn deflate(sharpe: &SharpeRatio, family: &TrialFamily<'_>) -> Result<Option<DeflatedSharpe>> {
    let TrialFamily { trials, sharpes, correlation } = *family;
    if trials == 0 || sharpes.len() > trials {
        return Err(Error::input(format!("{trials} trials with {} Sharpe ratios", sharpes.len())));
    }
    check_finite("Sharpe ratio of trial", sharpes, 1e100)?;
    check_finite("correlation", correlation.as_slice(), 1.0)?;
    let sharpe_variance = (trials > 1).then(|| variance(sharpes, sharpe.days));
    let effective_trials = effective_trials(trials, correlation.unwrap_or(0.0));
    let chance = |n: usize| sharpe_variance.unwrap_or(0.0).sqrt() * expected_maximum(n);
    let (some, all) = (chance(effective_trials), chance(trials));
    let deflated = |(probability, probability_all)| DeflatedSharpe {
        trials,
        effective_trials,
        sharpe_variance,
        chance_sharpe_daily: some,
        probability,
        chance_sharpe_daily_all: all,
        probability_all,
    };
    Ok(sharpe.probability_above(some).zip(sharpe.probability_above(all)).map(deflated))
}

/// The expected largest of `n` independent draws from a standard normal distribution, as approximated by Bailey and
/// López de Prado; 0 for up to one.
pub fn expected_maximum(n: usize) -> f64 {
    if n < 2 {
        return 0.0;
    }
    // -Φ⁻¹(p) is Φ⁻¹(1 - p) without the rounding of 1 - p.
    let n = n as f64;
    -(1.0 - EULER) * quantile(1.0 / n) - EULER * quantile(1.0 / (n * std::f64::consts::E))
}

/// As many independent trials as `trials` with that mean correlation stand for: `ρ + (1 - ρ)·M`, rounded up, between 1
/// and `M`.
fn effective_trials(trials: usize, correlation: f64) -> usize {
    let count = correlation + (1.0 - correlation) * trials as f64;
    // A count that rounding puts just above a whole number is that number.
    ((count - 1e-9).ceil() as usize).clamp(1, trials)
}

/// Sample variance of the ratios; of few, at least what the ratio of `days` scatters by alone.
fn variance(sharpes: &[f64], days: usize) -> f64 {
    let n = sharpes.len() as f64;
    let mean = sharpes.iter().sum::<f64>() / n;
    let squares: f64 = sharpes.iter().map(|x| (x - mean) * (x - mean)).sum();
    let sample = if sharpes.len() > 1 { squares / (n - 1.0) } else { 0.0 };
    if sharpes.len() < FEW_TRIALS { sample.max(1.0 / days as f64) } else { sample }
}

/// The mean correlation between two of several trials, over their returns on common days, `[trials][days]`. Trials
/// whose returns do not vary are left out; `None` where fewer than two remain.
///
/// # Errors
///
/// Where trials have different numbers of days, or a return is not finite.
pub fn mean_correlation(trials: &[&[f64]]) -> Result<Option<f64>> {
    let days = check_columns(trials)?;
    // Of columns with mean 0 and length 1 the sum of all products is the square of the sum.
    let mut total = vec![0.0; days];
    let mut count = 0.0;
    for trial in trials {
        let Some(deviation) = deviation(trial) else { continue };
        let (mean, length) = (mean(trial), deviation * ((days - 1) as f64).sqrt());
        total.iter_mut().zip(*trial).for_each(|(sum, r)| *sum += (r - mean) / length);
        count += 1.0;
    }
    let square: f64 = total.iter().map(|sum| sum * sum).sum();
    Ok((count > 1.0).then(|| ((square - count) / (count * (count - 1.0))).clamp(-1.0, 1.0)))
}

/// The number of days that all columns have.
pub(crate) fn check_columns(columns: &[&[f64]]) -> Result<usize> {
    let days = columns.first().map_or(0, |column| column.len());
    for (at, column) in columns.iter().enumerate() {
        if column.len() != days {
            let what = format!("{days} days of returns of the first, {} of number {}", column.len(), at + 1);
            return Err(Error::input(what).remedy("returns on the days that all have in common"));
        }
        check_finite(&format!("return of number {} on day", at + 1), column, LARGEST_RETURN)?;
    }
    Ok(days)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::performance::Moments;
    use random::SplitMix;

    fn near(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within, "{a}, not {b}");
    }

    /// Annual ratio 2.5 over five years of 250 days.
    fn of_the_paper(moments: Moments) -> SharpeRatio {
        SharpeRatio::from_moments(2.5 / 250f64.sqrt(), 1250, moments).unwrap()
    }

    #[test]
    fn golden_values_of_the_paper() {
        let spread = (0.5f64 / 250.0).sqrt();
        let skewed = of_the_paper(Moments { skewness: -3.0, kurtosis: 10.0 });
        for (sharpe, n, chance, probability) in [
            (skewed, 100, Some(0.1132), 0.9004),
            (skewed, 46, Some(0.1004), 0.9505),
            (of_the_paper(Moments::NORMAL), 88, None, 0.9505),
        ] {
            let found = spread * expected_maximum(n);
            chance.into_iter().for_each(|chance| near(found, chance, 5e-5));
            near(sharpe.probability_above(found).unwrap(), probability, 5e-5);
        }
        for (n, most) in [(10, 1.5746), (100, 2.5306), (1000, 3.2551), (10_000, 3.8607)] {
            near(expected_maximum(n), most, 5e-5);
        }
        assert_eq!((expected_maximum(0), expected_maximum(1)), (0.0, 0.0));
        assert!(expected_maximum(2) > 0.5 && expected_maximum(usize::MAX) < 10.0);
    }

    #[test]
    fn one_trial_is_not_deflated() {
        let sharpe = of_the_paper(Moments::NORMAL);
        let one = TrialFamily { trials: 1, sharpes: &[sharpe.daily], correlation: None };
        let one = deflate(&sharpe, &one).unwrap().unwrap();
        assert_eq!((one.sharpe_variance, one.chance_sharpe_daily), (None, 0.0));
        assert_eq!(Some(one.probability), sharpe.probability_above(0.0));
    }

    #[test]
    fn trials_count_by_the_rules() {
        let sharpe = of_the_paper(Moments::NORMAL);
        let deflated = |trials, sharpes: &[f64], correlation| {
            deflate(&sharpe, &TrialFamily { trials, sharpes, correlation }).unwrap().unwrap()
        };
        // Few ratios that lie close together: the variance is that of a ratio over 1,250 days. Many are believed.
        assert_eq!(deflated(9, &[0.1; 9], None).sharpe_variance, Some(1.0 / 1250.0));
        assert_eq!(deflated(10, &[0.1; 9], None).sharpe_variance, Some(1.0 / 1250.0));
        assert_eq!(deflated(50, &[], None).sharpe_variance, Some(1.0 / 1250.0));
        near(deflated(10, &[0.1; 10], None).sharpe_variance.unwrap(), 0.0, 1e-30);
        near(deflated(3, &[0.0, 0.3, 0.6], None).sharpe_variance.unwrap(), 0.09, 1e-15);
        // Crashed trials count.
        let (whole, crashed) = (deflated(20, &[0.0, 0.3], None), deflated(40, &[0.0, 0.3], None));
        assert!(crashed.probability < whole.probability && crashed.sharpe_variance == whole.sharpe_variance);
        for (trials, correlation, count) in [
            (100, Some(0.0), 100),
            (100, Some(1.0), 1),
            (100, Some(0.5), 51),
            (3, Some(0.5), 2),
            (100, Some(-0.3), 100),
            (100, Some(0.999), 2),
            (100, None, 100),
            (1, Some(0.5), 1),
        ] {
            let found = deflated(trials, &[], correlation);
            assert_eq!(found.effective_trials, count, "{trials} at {correlation:?}");
            assert!(found.probability >= found.probability_all);
        }
        for bad in [
            TrialFamily { trials: 0, sharpes: &[], correlation: None },
            TrialFamily { trials: 1, sharpes: &[0.1, 0.2], correlation: None },
            TrialFamily { trials: 2, sharpes: &[f64::NAN], correlation: None },
            TrialFamily { trials: 2, sharpes: &[], correlation: Some(1.5) },
            TrialFamily { trials: 2, sharpes: &[], correlation: Some(f64::NAN) },
        ] {
            assert!(deflate(&sharpe, &bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn correlation_is_the_mean_over_pairs() {
        let mut random = SplitMix::new(3);
        let market: Vec<f64> = (0..300).map(|_| random.unit() - 0.5).collect();
        let trials: Vec<Vec<f64>> = (0..5)
            .map(|k| market.iter().map(|m| 0.01 * (m + f64::from(k) * (random.unit() - 0.5))).collect())
            .collect();
        let pair = |a: &[f64], b: &[f64]| {
            let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
            let (p, q) = (mean(a), mean(b));
            let product =
                |a: &[f64], p: f64, b: &[f64], q: f64| a.iter().zip(b).map(|(x, y)| (x - p) * (y - q)).sum::<f64>();
            product(a, p, b, q) / (product(a, p, a, p) * product(b, q, b, q)).sqrt()
        };
        let all: Vec<f64> =
            (0..5).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| pair(&trials[i], &trials[j])).collect();
        let flat = vec![0.0; 300];
        let columns: Vec<&[f64]> = trials.iter().chain([&flat]).map(Vec::as_slice).collect();
        near(mean_correlation(&columns).unwrap().unwrap(), all.iter().sum::<f64>() / 10.0, 1e-12);
        assert_eq!(mean_correlation(&columns[4..]), Ok(None), "one of two does not vary");
        assert_eq!(mean_correlation(&[]), Ok(None));
        assert!(mean_correlation(&[&[0.1, 0.2], &[0.1]]).is_err());
        assert!(mean_correlation(&[&[0.1, f64::NAN]]).is_err());
    }
}
