//! Performance against numpy, by hand, and at the edges; `oracles/performance.py` compares it with empyrical.

use super::*;
use proptest::prelude::*;

/// 400 days that numpy was given too: a record and its benchmark.
fn example() -> (Vec<f64>, Vec<f64>) {
    let cycle = |t: i64, a: i64, b: i64, n: i64| ((t * t * a + t * b) % n - n / 2) as f64 / (n / 2) as f64;
    let record: Vec<f64> = (1..=400).map(|t| 0.0005 + 0.01 * cycle(t, 37, 11, 101)).collect();
    let benchmark = record.iter().zip(1..).map(|(r, t)| 0.0003 + 0.008 * cycle(t, 53, 29, 97) + 0.3 * r).collect();
    (record, benchmark)
}

fn near(a: impl Into<Option<f64>>, b: f64) {
    let a = a.into().expect("a figure");
    assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{a}, not {b}");
}

#[test]
fn figures_match_numpy() {
    let (returns, benchmark) = example();
    let plain = performance(&TrackRecord { benchmark: Some(&benchmark), ..TrackRecord::new(&returns, 252.0) }).unwrap();
    near(plain.total_return, 0.1315109282909157);
    near(plain.cagr, 0.08094852750587878);
    near(plain.volatility_annual, 0.08580489165297597);
    near(plain.sharpe_daily, 0.05984977308223497);
    near(plain.sharpe_daily_error, 0.05009842502122991);
    near(plain.sharpe_annual, 0.7812144662188916);
    near(plain.sharpe_annual_error, 0.6539308730141933);
    near(plain.sharpe_annual_uncorrected, 0.9500856935954486);
    near(plain.sortino_annual, 1.414892861344275);
    near(plain.sharpe_probability, 0.8838868866063857);
    assert_eq!(plain.minimum_track_days, Some(758));
    near(plain.skewness, -0.009755349403609552);
    near(plain.kurtosis, 1.9460293779617341);
    near(plain.drawdown.depth, 0.04493576473707517);
    near(plain.calmar, 0.08094852750587878 / 0.04493576473707517);
    let dates = (plain.drawdown.peak_day, plain.drawdown.trough_day, plain.drawdown.recovery_day);
    assert_eq!(dates, (72, 156, Some(167)));
    assert_eq!((plain.drawdown.duration_days, plain.drawdown.longest_days), (95, 95));

    let benchmark = Some(benchmark.as_slice());
    let record = TrackRecord { benchmark, risk_free: 0.0001, ..TrackRecord::new(&returns, 252.0) };
    let excess = performance(&record).unwrap();
    near(excess.sharpe_daily, 0.04134907042930302);
    near(excess.sharpe_annual, 0.5397262231836859);
    near(excess.sharpe_annual_error, 0.6537273410049104);
    let beside = excess.benchmark.expect("a benchmark");
    near(beside.beta, 0.3734895091860666);
    near(beside.alpha_annual, -0.03834324858151514);
    near(beside.information_ratio_annual, -2.065832007579336);
}

#[test]
fn correlated_days_make_a_year_less_certain() {
    // Every return comes twice: two days hang together, so a year has half as many independent ones.
    let mut random = random::SplitMix::new(1);
    let twice: Vec<f64> = (0..20_000).map(|_| random.unit() - 0.49).flat_map(|r| [0.02 * r; 2]).collect();
    let of = |returns: &[f64]| performance(&TrackRecord::new(returns, 250.0)).unwrap();
    let ratio = of(&twice).sharpe_annual.unwrap() / of(&twice).sharpe_annual_uncorrected.unwrap();
    assert!((ratio - 0.5f64.sqrt()).abs() < 0.03, "{ratio}");
    // Days that undo each other: the variance of a year is estimated at or below 0, and there is no figure of a year.
    let swings: Vec<f64> = (0..400).map(|t| 0.001 + if t % 2 == 0 { 0.01 } else { -0.01 }).collect();
    assert_eq!(of(&swings).sharpe_annual, None);
    assert!(of(&swings).sharpe_annual_uncorrected.is_some());
}

#[test]
fn a_longer_record_is_surer() {
    let of = |daily, days| SharpeRatio::from_moments(daily, days, Moments::NORMAL).unwrap();
    // At the minimum length the probability passes 95 %, and a day before it does not.
    let days = of(0.1, 100).minimum_days(0.02, 0.05).unwrap();
    assert!(of(0.1, days as usize).probability_above(0.02) >= Some(0.95));
    assert!(of(0.1, days as usize - 1).probability_above(0.02) < Some(0.95));
    assert_eq!(of(0.1, 100).probability_above(0.1), Some(0.5));
    assert_eq!((of(0.1, 100).minimum_days(0.1, 0.05), of(-0.1, 100).minimum_days(0.0, 0.05)), (None, None));
    // Fat tails and losses that are larger than profits make it less sure.
    let skewed = SharpeRatio::from_moments(0.1, 100, Moments { skewness: -3.0, kurtosis: 10.0 }).unwrap();
    assert!(skewed.probability_above(0.0) < of(0.1, 100).probability_above(0.0));
    assert!(skewed.minimum_days(0.0, 0.05) > of(0.1, 100).minimum_days(0.0, 0.05));
    // One day has no error; nor have two values in the proportion at which the variance of a ratio vanishes.
    assert_eq!(SharpeRatio::from_moments(0.1, 1, Moments::NORMAL), None);
    let certain = SharpeRatio::from_moments(1.0, 10, Moments { skewness: 2.0, kurtosis: 5.0 }).unwrap();
    assert_eq!((certain.error, certain.probability_above(0.0)), (0.0, None));
}

#[test]
fn drawdowns_have_days() {
    let of = |returns: &[f64]| performance(&TrackRecord::new(returns, 252.0)).unwrap().drawdown;
    let none = of(&[0.0, 0.1, 0.0, 0.1]);
    assert_eq!(none, Drawdown::default());
    // 1, 1.5, 0.75, 1.5, 1.5, 1.2, 1.125, 1.2: half is lost for two days, a quarter for good.
    let two = of(&[0.5, -0.5, 1.0, 0.0, -0.2, -0.0625, 1.0 / 15.0]);
    assert_eq!((two.depth, two.peak_day, two.trough_day, two.recovery_day), (0.5, 1, 2, Some(3)));
    assert_eq!((two.duration_days, two.longest_days), (2, 3));
    let first = of(&[-0.5, 0.5]);
    assert_eq!((first.peak_day, first.trough_day, first.recovery_day, first.duration_days), (0, 1, None, 2));
}

#[test]
fn round_trips_and_activity_by_hand() {
    let trips = RoundTrips::new(&[30.0, -10.0, 0.0, 15.0, -20.0]);
    assert_eq!((trips.count, trips.hit_rate), (5, Some(0.4)));
    near(trips.profit_factor, 1.5);
    near(trips.payoff_ratio, 1.5);
    near(RoundTrips::new(&[6.0, -1.0, -2.0]).payoff_ratio, 4.0);
    // Newcombe 1998 has the first of these.
    for (hits, n, low, high) in [
        (81, 263, 0.2552885198782742, 0.36620957698280004),
        (3, 5, 0.23072428127601285, 0.8823792257673521),
        (0, 10, 0.0, 0.2775327998628892),
        (10, 10, 0.7224672001371106, 1.0),
    ] {
        let interval = wilson_interval(hits, n).unwrap();
        near(interval.0, low);
        near(interval.1, high);
    }
    assert_eq!((wilson_interval(0, 0), wilson_interval(2, 1)), (None, None));
    let of = |trips: &[f64]| (RoundTrips::new(trips).payoff_ratio, RoundTrips::new(trips).profit_factor);
    assert_eq!((of(&[]), of(&[1.0]), of(&[-1.0])), ((None, None), (None, None), (None, Some(0.0))));
    assert_eq!(RoundTrips::new(&[]).hit_rate, None);

    let activity =
        Activity { traded_sum: 40.0, exposure_sum: 25.0, exposure_bars: 100, costs: 3.0, gross_profit: 12.0 };
    let rates = |activity| {
        let record = TrackRecord { activity: Some(activity), ..TrackRecord::new(&[0.01; 50], 250.0) };
        performance(&record).map(|it| it.activity.expect("given"))
    };
    let found = rates(activity).unwrap();
    assert_eq!(
        (found.turnover_per_year, found.exposure, found.cost_share),
        (Some(200.0), Some(0.25), Some(0.25)),
        "40 times the equity in a fifth of a year"
    );
    let idle = rates(Activity::default()).unwrap();
    assert_eq!((idle.turnover_per_year, idle.exposure, idle.cost_share), (Some(0.0), None, None));
    assert!(rates(Activity { costs: -1.0, ..activity }).is_err());
    assert!(rates(Activity { gross_profit: f64::NAN, ..activity }).is_err());
}

#[test]
fn what_is_no_track_record_is_refused() {
    let check = |record: &TrackRecord<'_>, part: &str| {
        let error = performance(record).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    check(&TrackRecord::new(&[], 252.0), "no day");
    check(&TrackRecord::new(&[0.0, f64::NAN], 252.0), "return of day 2 is NaN");
    check(&TrackRecord::new(&[f64::INFINITY], 252.0), "return of day 1 is inf");
    check(&TrackRecord::new(&[1e6; 60], 252.0), "beyond");
    for q in [0.0, -1.0, f64::NAN, 400.0] {
        check(&TrackRecord::new(&[0.0], q), "days per year");
    }
    let plain = TrackRecord::new(&[0.01, -0.01], 252.0);
    check(&TrackRecord { benchmark: Some(&[0.01]), ..plain }, "2 days of returns, 1 of the benchmark");
    check(&TrackRecord { benchmark: Some(&[0.01, f64::NAN]), ..plain }, "benchmark's return of day 2");
    check(&TrackRecord { round_trips: &[f64::NAN], ..plain }, "round trip 1");
    check(&TrackRecord { risk_free: f64::NAN, ..plain }, "risk-free");
    check(&TrackRecord { minimum_return: f64::NAN, ..plain }, "minimum");
    check(&TrackRecord::new(&[0.1, -1.0, 0.1], 252.0), "day 3 returns 0.1 after everything was lost");
}

#[test]
fn what_does_not_exist_is_none() {
    let of = |returns: &[f64]| performance(&TrackRecord::new(returns, 252.0)).unwrap();
    let day = of(&[0.01]);
    assert_eq!((day.days, day.sharpe_daily, day.sharpe_annual, day.skewness), (1, None, None, None));
    assert_eq!((day.sharpe_probability, day.minimum_track_days), (None, None));
    assert_eq!((day.volatility_annual, day.sortino_annual, day.calmar), (None, None, None));
    near(day.total_return, 0.01);
    // Equity that grows evenly has returns that differ by rounding alone.
    let equity: Vec<f64> = (0..200).map(|t| 100_000.0 * 1.001f64.powi(t)).collect();
    for flat in [vec![0.0; 100], vec![0.001; 100], daily_returns(&equity).unwrap()] {
        let flat = of(&flat);
        assert_eq!((flat.sharpe_daily, flat.sharpe_annual_error, flat.kurtosis), (None, None, None));
    }
    let ruin = of(&[0.1, -1.0, 0.0]);
    assert_eq!((ruin.total_return, ruin.cagr, ruin.drawdown.depth), (-1.0, Some(-1.0), 1.0));
    // A gap can cost more than there was.
    let debt = of(&daily_returns(&[100.0, -20.0, -20.0]).unwrap());
    assert_eq!((debt.total_return, debt.cagr, debt.drawdown.depth), (-1.2, Some(-1.0), 1.2));
    let flat = TrackRecord { benchmark: Some(&[0.0; 3]), ..TrackRecord::new(&[0.01, 0.02, 0.0], 252.0) };
    let flat = performance(&flat).unwrap().benchmark.unwrap();
    assert_eq!((flat.beta, flat.alpha_annual), (None, None));
    assert!(flat.information_ratio_annual.is_some());
}

#[test]
fn returns_and_days_are_measured() {
    assert_eq!(daily_returns(&[100.0, 110.0, 99.0]).unwrap().len(), 2);
    near(daily_returns(&[100.0, 110.0]).unwrap()[0], 0.1);
    for bad in [&[][..], &[1.0], &[0.0, 1.0], &[1.0, f64::NAN], &[1.0, 0.0, 1.0], &[f64::NAN, 1.0]] {
        assert!(daily_returns(bad).is_err(), "{bad:?}");
    }
    let weekdays: Vec<i32> = (0..3653).filter(|day| (day + 3) % 7 < 5).collect();
    let measured = trading_days_per_year(&weekdays).unwrap();
    assert!((measured - 260.9).abs() < 0.2, "{measured}");
    assert_eq!(trading_days_per_year(&[5]).or(trading_days_per_year(&[])).or(trading_days_per_year(&[5, 5])), None);
}

proptest! {
    #[test]
    fn no_figure_is_ever_not_a_number(
        returns in prop::collection::vec(prop_oneof![-0.99..3.0f64, Just(0.0), Just(1e-300), Just(-1.0), Just(1e6)], 1..60),
        scale in prop_oneof![Just(1.0), Just(1e-150), Just(1e-9)],
        trips in prop::collection::vec(prop_oneof![-1e90..1e90f64, Just(0.0), Just(1e-320)], 0..20),
        q in 0.1..366.0f64,
    ) {
        let returns: Vec<f64> = returns.into_iter().map(|r| r * scale).collect();
        let benchmark: Vec<f64> = returns.iter().rev().copied().collect();
        let record = TrackRecord { benchmark: Some(&benchmark), round_trips: &trips, ..TrackRecord::new(&returns, q) };
        if let Ok(found) = performance(&record) {
            // JSON has no such numbers: what is not finite would come back as null.
            let text = serde_json::to_string(&found).unwrap();
            prop_assert_eq!(serde_json::from_str::<Performance>(&text).unwrap(), found);
        }
    }
}
