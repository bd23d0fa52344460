//! What the maker promises: the same bits, bars that hold, a lifelike world, and a plant that pays exactly what it
//! says.

use super::*;
use jiff::Timestamp;
use proptest::prelude::*;

fn small() -> Synth {
    Synth { symbols: 20, bars: 600, ..Synth::default() }
}

fn returns(bars: &Bars) -> Vec<f64> {
    bars.close.windows(2).map(|w| (w[1] / w[0]).ln()).collect()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let (mx, my) = (mean(x), mean(y));
    let sum = |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(a, b)| f(a - mx, b - my)).sum::<f64>();
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

fn checksum(made: &SyntheticMarket) -> u64 {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    for bars in &made.market {
        hash.update(bars.symbol.as_bytes());
        bars.start.iter().chain(&bars.end).for_each(|t| hash.update(&t.to_le_bytes()));
        for column in [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume]
            .into_iter()
            .chain(bars.extras.iter().map(|e| &e.1))
        {
            column.iter().for_each(|x| hash.update(&x.to_le_bytes()));
        }
    }
    hash.digest()
}

fn check_bars(bars: &Bars) {
    let n = bars.len();
    let ticks = bars.instrument.tick;
    for column in [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume]
        .into_iter()
        .chain(bars.extras.iter().map(|e| &e.1))
    {
        assert_eq!(column.len(), n);
    }
    assert_eq!(bars.segments, [0]);
    for i in 0..n {
        let (o, h, l, c) = (bars.open[i], bars.high[i], bars.low[i], bars.close[i]);
        assert!(l > 0.0 && l <= o.min(c) && o.max(c) <= h && h.is_finite(), "{} bar {i}: {o} {h} {l} {c}", bars.symbol);
        assert!(bars.volume[i] >= 1.0 && bars.volume[i].is_finite());
        assert!(bars.start[i] < bars.end[i] && (i == 0 || bars.end[i - 1] <= bars.start[i]), "{} bar {i}", bars.symbol);
        if ticks > 0.0 {
            assert!((c / ticks - (c / ticks).round()).abs() < 1e-4, "{c} is not on a tick");
        }
    }
}

#[test]
fn same_bits_for_any_number_of_threads() {
    for synth in [small(), Synth { plant: Some(Plant::default()), ..small() }] {
        let one = synth.make_market(1);
        for threads in [0, 2, 16] {
            assert_eq!(checksum(&synth.make_market(threads)), checksum(&one));
            assert_eq!(synth.make_market(threads), one);
        }
        assert_ne!(checksum(&Synth { seed: 2, ..synth.clone() }.make_market(2)), checksum(&one));
        // A symbol does not depend on how many others there are, nor a bar on how many follow.
        let fewer = Synth { symbols: 12, ragged: false, ..synth.clone() }.make_market(2);
        let more = Synth { symbols: 20, ragged: false, bars: 700, ..synth }.make_market(2);
        for (a, b) in fewer.market.iter().zip(&more.market) {
            assert_eq!(a.close[..], b.close[..600]);
        }
    }
}

/// Changes only when the stream of draws or the model changes; then old results can no longer be made again.
#[test]
fn golden_checksums() {
    let tiny = |kind, timeframe, plant| {
        Synth { symbols: 3, bars: 50, kind, timeframe, plant, ..Synth::default() }.make_market(1)
    };
    let found = [
        checksum(&tiny(MarketKind::Stocks, Timeframe::D1, None)),
        checksum(&tiny(MarketKind::Crypto, Timeframe::H1, None)),
        checksum(&tiny(MarketKind::Fx, Timeframe::M5, None)),
        checksum(&tiny(MarketKind::Stocks, Timeframe::D1, Some(Plant::default()))),
    ];
    assert_eq!(found, [0x22b39924329e67d5, 0x95953370fa79ce72, 0xd963e291f189d05e, 0x52a99f9f6508e5ca], "{found:#x?}");
}

#[test]
fn default_market_is_a_stock_universe() {
    let made = Synth::default().make_market(2);
    assert_eq!(made.market.len(), 655);
    assert_eq!((made.market[0].symbol.as_str(), made.market[654].symbol.as_str()), ("SYN001", "SYN655"));
    assert!(made.market.is_sorted_by(|a, b| a.symbol < b.symbol));
    let (first, last) = (made.market[0].start[0], *made.market[0].start.last().unwrap());
    assert_eq!(made.market[0].len(), 1250);
    let late = made.market.iter().filter(|b| b.start[0] > first).count();
    let gone = made.market.iter().filter(|b| *b.start.last().unwrap() < last).count();
    assert!((50..150).contains(&late) && (30..110).contains(&gone), "{late} late, {gone} gone");
    assert!(made.market.iter().all(|b| b.len() >= 250));
    for bars in &made.market {
        check_bars(bars);
        assert_eq!(bars.instrument, Instrument::guess(&bars.symbol, &Default::default()).0);
    }
    // First prices spread over two decades.
    assert!(made.market.iter().filter(|b| b.open[0] < 25.0).count() > 150);
    assert!(made.market.iter().filter(|b| b.open[0] > 100.0).count() > 150);
    assert!(made.truth.to_string().contains("crisis"), "{}", made.truth);
    assert_eq!(made.truth.regimes.len(), 1250);
}

#[test]
fn bars_stay_inside_sessions() {
    let weekday = |ns: i64| (ns.div_euclid(86_400_000_000_000) + 3).rem_euclid(7);
    let daily = Synth { symbols: 1, ..Synth::default() }.make_market(1);
    let bars = &daily.market[0];
    assert!(bars.start.iter().all(|&t| weekday(t) < 5 && t % 86_400_000_000_000 == 0));
    let day = |text: &str| text.parse::<Timestamp>().unwrap().as_nanosecond() as i64;
    for holiday in
        ["2019-07-04", "2019-11-28", "2019-12-25", "2020-01-01", "2020-05-25", "2020-07-03", "2021-07-05", "2021-09-06"]
    {
        assert!(!bars.start.contains(&day(&format!("{holiday}T00:00:00Z"))), "{holiday}");
    }
    assert!(bars.start.contains(&day("2021-12-31T00:00:00Z")) && bars.start.contains(&day("2019-07-05T00:00:00Z")));

    let m5 =
        |kind| Synth { symbols: 1, bars: 30_000, timeframe: Timeframe::M5, kind, ..Synth::default() }.make_market(1);
    let stocks = &m5(MarketKind::Stocks).market[0];
    assert_eq!(stocks.start[0], day("2019-01-02T14:30:00Z"));
    assert_eq!(stocks.start[77] + 300_000_000_000, day("2019-01-02T21:00:00Z"));
    assert_eq!(stocks.start[78], day("2019-01-03T14:30:00Z"));
    assert!(stocks.start.contains(&day("2019-07-03T13:30:00Z"))); // summer
    let fx = &m5(MarketKind::Fx).market[0];
    assert!(fx.start.contains(&day("2019-01-06T22:00:00Z")) && !fx.start.contains(&day("2019-01-06T21:55:00Z")));
    assert!(fx.start.contains(&day("2019-01-04T21:55:00Z")) && !fx.start.contains(&day("2019-01-04T22:00:00Z")));
    let crypto = &m5(MarketKind::Crypto).market[0];
    assert!(crypto.start.windows(2).all(|w| w[1] - w[0] == 300_000_000_000));
    // Nobody's trading day is the weekend, and continuous markets open where they closed.
    assert!(fx.instrument.session.trading_days(&fx.start).iter().all(|&d| (d + 3).rem_euclid(7) < 5));
    assert!((1..crypto.len()).all(|i| crypto.open[i] == crypto.close[i - 1]));

    for (timeframe, count) in [
        (Timeframe::Fixed(7 * 86_400_000_000_000), 100),
        (Timeframe::Months(1), 100),
        (Timeframe::Fixed(14_400_000_000_000), 100),
    ] {
        for kind in [MarketKind::Stocks, MarketKind::Crypto, MarketKind::Fx] {
            let made =
                Synth { symbols: 2, bars: count, timeframe, kind, ragged: false, ..Synth::default() }.make_market(1);
            made.market.iter().for_each(check_bars);
            assert_eq!(made.market[1].len(), count);
        }
    }
    // The calendar ends before the bars do.
    let long = Synth { symbols: 1, bars: 100_000, timeframe: Timeframe::Months(12), ..Synth::default() }.make_market(1);
    assert!((200..260).contains(&long.market[0].len()));
}

#[test]
fn synthetic_returns_have_realistic_statistics() {
    let made = Synth { symbols: 40, bars: 2500, ragged: false, seed: 3, ..Synth::default() }.make_market(2);
    let all: Vec<Vec<f64>> = made.market.iter().map(returns).collect();
    let mut pairs = Vec::new();
    for i in 0..40 {
        for j in 0..i {
            pairs.push(correlation(&all[i], &all[j]));
        }
    }
    let positive = pairs.iter().filter(|c| **c > 0.0).count() as f64 / pairs.len() as f64;
    assert!(positive > 0.99 && (0.1..0.7).contains(&mean(&pairs)), "{positive} {}", mean(&pairs));
    // Sectors: symbols 11 apart share one.
    let same: Vec<f64> = (0..29).map(|i| correlation(&all[i], &all[i + 11])).collect();
    assert!(mean(&same) > mean(&pairs) + 0.02, "{} {}", mean(&same), mean(&pairs));
    for r in &all {
        let m = mean(r);
        let moment = |k: i32| r.iter().map(|x| (x - m).powi(k)).sum::<f64>() / r.len() as f64;
        let kurtosis = moment(4) / (moment(2) * moment(2));
        assert!(kurtosis > 3.5, "{kurtosis}");
        let size: Vec<f64> = r.iter().map(|x| x.abs()).collect();
        let lag = |k: usize| correlation(&size[k..], &size[..size.len() - k]);
        assert!(lag(1) > 0.03 && (1..20).map(lag).sum::<f64>() / 19.0 > 0.02, "{} {}", lag(1), lag(5));
        assert!(correlation(&r[1..], &r[..r.len() - 1]).abs() < 0.12);
        let year = (moment(2) * 252.0).sqrt();
        assert!((0.12..0.8).contains(&year), "{year}");
    }
    // Volume follows the size of the move.
    let volume: Vec<f64> = made.market[5].volume[1..].iter().map(|v| v.ln()).collect();
    assert!(correlation(&volume, &all[5].iter().map(|r| r.abs()).collect::<Vec<_>>()) > 0.15);
    let gaps = (1..2500).filter(|&i| made.market[0].open[i] != made.market[0].close[i - 1]).count();
    assert!(gaps > 2000);
}

#[test]
fn intraday_activity_is_u_shaped() {
    let made = Synth { symbols: 1, bars: 78 * 500, timeframe: Timeframe::M5, ..Synth::default() }.make_market(1);
    let bars = &made.market[0];
    let slot = |from: usize, to: usize| {
        let at: Vec<usize> = (0..bars.len()).filter(|i| (from..to).contains(&(i % 78))).collect();
        let range = at.iter().map(|&i| (bars.high[i] / bars.low[i]).ln()).sum::<f64>() / at.len() as f64;
        let volume = at.iter().map(|&i| bars.volume[i]).sum::<f64>() / at.len() as f64;
        (range, volume)
    };
    let (open, noon, close) = (slot(1, 7), slot(35, 45), slot(72, 78));
    assert!(open.0 > 1.2 * noon.0 && close.0 > 1.2 * noon.0, "{open:?} {noon:?} {close:?}");
    assert!(open.1 > 1.5 * noon.1 && close.1 > 1.5 * noon.1, "{open:?} {noon:?} {close:?}");
    // A year's volatility does not depend on how finely it is cut.
    let year = |bars: &Bars, per_year: f64| {
        (returns(bars).iter().map(|r| r * r).sum::<f64>() / bars.len() as f64 * per_year).sqrt()
    };
    let daily = Synth { symbols: 1, bars: 500, ..Synth::default() }.make_market(1);
    let ratio = year(bars, 78.0 * 252.0) / year(&daily.market[0], 252.0);
    assert!((0.6..1.6).contains(&ratio), "{ratio}");
}

/// Mean reward of the best policy by relative value iteration over position × signal.
fn best_by_dynamic_programming(mu: f64, cost: f64, stay: f64) -> f64 {
    let at = |position: i32, signal: i32| (position + 1) as usize * 2 + usize::from(signal > 0);
    let mut value = [0.0f64; 6];
    let mut gain = 0.0;
    for _ in 0..20_000 {
        let mut next = [0.0f64; 6];
        for position in -1..=1 {
            for signal in [-1, 1] {
                let q = |action: i32| {
                    let ahead = stay * value[at(action, signal)] + (1.0 - stay) * value[at(action, -signal)];
                    f64::from(action * signal) * mu - f64::from((action - position).abs()) * cost + ahead
                };
                // Staying still half of the time removes cycles and halves the gain.
                next[at(position, signal)] = 0.5 * q(-1).max(q(0)).max(q(1)) + 0.5 * value[at(position, signal)];
            }
        }
        gain = 2.0 * (next[2] - value[2]);
        let base = next[2];
        value = next.map(|v| v - base);
    }
    gain
}

#[test]
fn planted_optimum_equals_dynamic_programming() {
    for accuracy in [0.55, 0.8, 0.95] {
        for stay in [0.2, 0.5, 0.9, 0.99] {
            for cost_bp in [0.0, 2.0, 10.0, 40.0] {
                let optimum = Plant { accuracy, stay, cost_bp, sigma_bp: 20.0 }.optimum();
                let best = best_by_dynamic_programming(optimum.mu, optimum.cost, stay);
                assert!((best - optimum.value).abs() < 1e-9, "{accuracy} {stay} {cost_bp}: {best} {}", optimum.value);
            }
        }
    }
    let optimum = Plant::default().optimum();
    assert!((optimum.mu / optimum.sigma - 0.8416212335729143).abs() < 1e-12);
    assert!((optimum.mcc - 0.6).abs() < 1e-12);
}

#[test]
#[expect(clippy::needless_range_loop, reason = "t, t+1 and t+2 are the point")]
fn best_policy_earns_the_stated_optimum() {
    let synth = Synth {
        symbols: 4,
        bars: 100_000,
        timeframe: Timeframe::M5,
        kind: MarketKind::Crypto,
        plant: Some(Plant::default()),
        seed: 11,
        ..Synth::default()
    };
    let made = synth.make_market(2);
    let truth = made.truth.plant.unwrap();
    let (mut rewards, mut growth, mut right, mut late) = (Vec::new(), Vec::new(), 0usize, 0usize);
    for bars in &made.market {
        check_bars(bars);
        let signal = &bars.extras[0].1;
        assert_eq!(bars.extras[0].0, "plant");
        let mut position = 0.0f64;
        for t in 0..bars.len() - 3 {
            // Known at close t, filled at open t+1, held to open t+2.
            let cost = truth.cost * (signal[t] - position).abs();
            position = signal[t];
            let r = bars.open[t + 2] / bars.open[t + 1] - 1.0;
            rewards.push(position * r - cost);
            growth.push((1.0 + position * r - cost).ln());
            right += usize::from((r > 0.0) == (signal[t] > 0.0));
            let r = bars.open[t + 3] / bars.open[t + 2] - 1.0;
            late += usize::from((r > 0.0) == (signal[t] > 0.0));
            assert_eq!(bars.open[t + 1], bars.close[t]);
        }
    }
    let error = |x: &[f64]| {
        let means: Vec<f64> = x.chunks(1000).map(mean).collect();
        let m = mean(&means);
        (means.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / (means.len() - 1) as f64 / means.len() as f64).sqrt()
    };
    let (earned, se) = (mean(&rewards), error(&rewards));
    assert!((earned - truth.value).abs() < 3.0 * se && se < 0.05 * truth.value, "{earned} {} ± {se}", truth.value);
    assert!((mean(&growth) - truth.log_growth).abs() < 3.0 * error(&growth), "{} {}", mean(&growth), truth.log_growth);
    let n = rewards.len() as f64;
    let accuracy = right as f64 / n;
    assert!((accuracy - truth.accuracy).abs() < 4.0 * (0.16 / n).sqrt(), "{accuracy}");
    // One bar late the signal is right where it stayed: ρ·0.8 + (1-ρ)·0.2.
    assert!((late as f64 / n - 0.74).abs() < 0.005, "{}", late as f64 / n);
    let instrument = &made.market[0].instrument;
    assert!(
        instrument.shortable
            && instrument.tick == 0.0
            && (instrument.costs.side_bp() * 1e-4 - truth.cost).abs() < 1e-15
    );
    for part in ["best net value 15.832 bp", "MCC 0.6000", "cost 5.000 bp"] {
        assert!(made.truth.to_string().contains(part), "{}", made.truth);
    }
}

#[test]
fn invalid_settings_are_named() {
    let plant = |change: fn(&mut Plant)| {
        let mut plant = Plant::default();
        change(&mut plant);
        Synth { plant: Some(plant), ..Synth::default() }.check().unwrap_err()
    };
    assert!(plant(|p| p.accuracy = 0.4).contains("plant.accuracy"));
    assert!(plant(|p| p.stay = f64::NAN).contains("plant.stay"));
    assert!(plant(|p| p.sigma_bp = 5000.0).contains("plant.sigma_bp"));
    assert!(Synth { symbols: 0, ..Synth::default() }.check().unwrap_err().contains("symbols"));
    assert!(Synth { bars: 0, ..Synth::default() }.check().unwrap_err().contains("bars"));
    assert!(Synth { start: i64::MIN, ..Synth::default() }.check().unwrap_err().contains("start"));
    assert!(Synth { timeframe: Timeframe::Fixed(0), ..Synth::default() }.check().unwrap_err().contains("timeframe"));
    assert_eq!(Synth::default().check(), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn bars_are_valid_for_any_seed(
        seed: u64,
        symbols in 1usize..6,
        bars in 1usize..400,
        kind in prop::sample::select(vec![MarketKind::Stocks, MarketKind::Crypto, MarketKind::Fx]),
        minutes in prop::sample::select(vec![1i64, 5, 7, 60, 90, 1440, 10_080]),
        planted: bool,
    ) {
        let timeframe = Timeframe::Fixed(minutes * 60_000_000_000);
        let plant = planted.then(|| Plant { sigma_bp: 800.0, accuracy: 0.9999, ..Plant::default() });
        let made = Synth { seed, symbols, bars, timeframe, kind, plant, ..Synth::default() }.make_market(2);
        prop_assert_eq!(made.market.len(), symbols);
        prop_assert_eq!(made.market[0].len(), bars);
        made.market.iter().for_each(check_bars);
    }
}
