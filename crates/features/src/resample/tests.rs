//! Slow bars against the plainest way to compute them, in one go, as a stream, and with a poisoned future.

use super::*;
use bars::synth::{MarketKind as Market, Synth};
use bars::{Hints, Instrument};
use proptest::prelude::*;

const MINUTE: i64 = 60_000_000_000;
const HOUR: i64 = 60 * MINUTE;

/// Bars of a symbol that start at those minutes; prices tell the row.
fn bars(symbol: &str, timeframe: &str, starts: impl IntoIterator<Item = i64>, segments: &[usize]) -> Bars {
    let timeframe: Timeframe = timeframe.parse().unwrap();
    let start: Vec<i64> = starts.into_iter().collect();
    let column = |add: f64| (0..start.len()).map(|i| 100.0 + (i as f64 * 0.7).sin() + add).collect::<Vec<f64>>();
    let gaps = |every: usize| move |(i, v): (usize, f64)| if i % every == 1 { f64::NAN } else { v };
    Bars {
        symbol: symbol.into(),
        instrument: Instrument::guess(symbol, &Hints::default()).0,
        timeframe,
        end: start.iter().map(|t| t + timeframe.ns()).collect(),
        open: column(0.0),
        high: column(0.5),
        low: column(-0.5),
        close: column(0.1),
        volume: column(7.0).into_iter().enumerate().map(gaps(3)).collect(),
        extras: vec![("rate".into(), column(1.0).into_iter().enumerate().map(gaps(4)).collect())],
        segments: segments.to_vec(),
        member: Vec::new(),
        start,
    }
}

fn same(a: &Bar, b: &Bar) -> bool {
    let bits = |b: &Bar| -> Vec<u64> {
        [b.open, b.high, b.low, b.close, b.volume].iter().chain(&b.extras).map(|v| v.to_bits()).collect()
    };
    (a.start, a.end, bits(a)) == (b.start, b.end, bits(b))
}

/// Everything that must hold of slow bars, held against the plainest way to compute it.
fn check(bars: &Bars, timeframe: Timeframe) -> (Bars, Vec<u32>) {
    let (slow, slow_of) = resample(bars, timeframe).unwrap();
    assert!(slow.start.is_sorted_by(|a, b| a < b) && slow.end.is_sorted_by(|a, b| a < b));
    assert_eq!(slow.segments[0], 0);
    let segment = |row: usize| bars.segments.partition_point(|s| *s <= row) - 1;
    // Each slow bar from all base bars of its bucket and segment.
    let mut buckets = bars.instrument.session.buckets(timeframe).unwrap();
    let mut expected: Vec<(usize, Bar)> = Vec::new();
    let mut rows = 0..bars.len();
    while let Some(first) = rows.next() {
        let bucket = buckets.bucket_at(bars.start[first]);
        let mut members = vec![first];
        while rows.start < bars.len()
            && buckets.bucket_at(bars.start[rows.start]) == bucket
            && segment(rows.start) == segment(first)
        {
            members.extend(rows.next());
        }
        let known = members.iter().map(|i| bars.end[*i]).fold(bucket.end, i64::max);
        let over = (first..bars.len()).any(|i| segment(i) == segment(first) && bars.end[i] >= known);
        if over {
            let of = |f: fn(&Bar) -> f64| members.iter().map(|i| f(&Bar::of(bars, *i))).collect::<Vec<_>>();
            let volumes: Vec<f64> = of(|b| b.volume).into_iter().filter(|v| !v.is_nan()).collect();
            let last = |k: usize| members.iter().map(|i| bars.extras[k].1[*i]).rfind(|v| !v.is_nan());
            let slow = Bar {
                start: bucket.start,
                end: known,
                open: of(|b| b.open)[0],
                high: of(|b| b.high).into_iter().fold(f64::MIN, f64::max),
                low: of(|b| b.low).into_iter().fold(f64::MAX, f64::min),
                close: of(|b| b.close)[members.len() - 1],
                volume: volumes.iter().copied().reduce(|a, b| a + b).unwrap_or(f64::NAN),
                extras: (0..bars.extras.len()).map(|k| last(k).unwrap_or(f64::NAN)).collect(),
            };
            expected.push((segment(first), slow));
        }
    }
    assert_eq!(slow.len(), expected.len());
    for (row, (_, wanted)) in expected.iter().enumerate() {
        assert!(same(&Bar::of(&slow, row), wanted), "{row}: {:?} {wanted:?}", Bar::of(&slow, row));
    }
    let borders: Vec<usize> = (0..expected.len()).filter(|i| *i == 0 || expected[*i].0 != expected[i - 1].0).collect();
    assert_eq!(slow.segments, if borders.is_empty() { vec![0] } else { borders });
    for (row, seen) in slow_of.iter().enumerate() {
        let wanted = expected.iter().rposition(|(s, b)| *s == segment(row) && b.end <= bars.end[row]);
        assert_eq!(*seen, wanted.map_or(u32::MAX, |i| i as u32), "{row}");
    }
    // The stream gives the same bars at the same rows, saved and taken up again in between.
    let mut stream = Resampler::new(&bars.instrument.session, timeframe).unwrap();
    let (mut given, mut last) = (Vec::new(), u32::MAX);
    for (row, seen) in slow_of.iter().enumerate() {
        if row > 0 && bars.segments.contains(&row) {
            stream.clear();
            last = u32::MAX;
        }
        let (before, bits) = (given.len(), stream.save());
        stream = Resampler::new(&bars.instrument.session, timeframe).unwrap();
        stream.load(&bits).unwrap();
        stream.push(&Bar::of(bars, row), &mut given);
        if given.len() > before {
            last = given.len() as u32 - 1;
        }
        assert_eq!(*seen, last);
    }
    assert!(given.iter().enumerate().all(|(i, b)| same(b, &Bar::of(&slow, i))) && given.len() == slow.len());
    (slow, slow_of)
}

/// 2024-03-08, a Friday; the US clocks change two days later.
const FRIDAY: i64 = 19_790 * DAY;

#[test]
fn a_row_sees_the_last_completed_hour_only() {
    // 09:30 to 16:00 New York.
    let starts = (0..78).map(|i| FRIDAY + 14 * HOUR + 30 * MINUTE + i * 5 * MINUTE);
    let five = bars("AAPL", "5m", starts, &[0]);
    let (hours, of) = check(&five, Timeframe::H1);
    assert_eq!(hours.len(), 7);
    assert_eq!((of[10], of[11], of[22], of[23], of[24]), (u32::MAX, 0, 0, 1, 1));
    // 15:30 to 16:00 is known with the last bar.
    assert_eq!((of[76], of[77], hours.end[6]), (5, 6, FRIDAY + 21 * HOUR));
    assert_eq!((hours.open[1], hours.close[0]), (five.open[12], five.close[11]));
    // The day is over at midnight in New York, so no bar of the day sees it.
    let (days, of) = check(&five, Timeframe::D1);
    assert!(days.is_empty() && of.iter().all(|i| *i == u32::MAX));
}

#[test]
fn resampling_equals_brute_force_across_clock_changes() {
    for symbol in ["AAPL", "EURUSD", "XAUUSD", "BTCUSDT", "RELIANCE.NS", "ES=F", "CZCE_CF"] {
        for from in [19_785, 20_025] {
            // Three weeks around a change, with a hole now and then; the last two segments are short.
            let starts = (0..6000).filter(|i| i % 13 != 5 && i % 700 > 40).map(|i| from * DAY + i * 5 * MINUTE);
            let five = bars(symbol, "5m", starts, &[0, 1000, 1003, 2500, 5000, 5001]);
            for timeframe in ["15m", "1h", "4h", "1d", "2d", "1w", "1mo"] {
                check(&five, timeframe.parse().unwrap());
            }
            // Bars off the grid end after their bucket does, and make it known later.
            let odd = bars(symbol, "1h", (0..900).map(|i| from * DAY + i * HOUR + 7 * MINUTE), &[0]);
            for timeframe in ["4h", "1d", "1w"] {
                check(&odd, timeframe.parse().unwrap());
            }
        }
    }
}

#[test]
fn resampling_equals_brute_force_on_synthetic_markets() {
    for kind in [Market::Stocks, Market::Fx, Market::Crypto] {
        let synth = Synth { symbols: 1, bars: 20_000, timeframe: Timeframe::M5, kind, ..Synth::default() };
        let market = synth.make_market(1).market;
        for timeframe in ["1h", "1d", "1w"] {
            let (slow, _) = check(&market[0], timeframe.parse().unwrap());
            assert!(slow.len() > 5, "{kind:?} {timeframe}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn daily_bars_keep_their_week_however_they_are_stamped() {
    // Monday 2024-03-04 to Friday, five weeks; stamped with the date, the evening before, or midnight there. The second
    // number is from within the third week on: feeds change their stamps, and grains in Chicago open at midnight UTC in
    // one half of the year.
    let monday = FRIDAY - 4 * DAY;
    for (symbol, shift, then) in [
        ("AAPL", 0, 0), ("RELIANCE.NS", 0, 0), ("ES=F", -HOUR, -2 * HOUR), ("ES=F", 0, HOUR), ("ES=F", HOUR, 0), ("CZCE_CF", 0, 0),
        ("CZCE_CF", -8 * HOUR, -8 * HOUR), ("EURUSD", 0, 0), ("EURUSD", -2 * HOUR, -3 * HOUR), ("RELIANCE.NS", -11 * HOUR / 2, -11 * HOUR / 2),
    ] {
        let starts = (0..25).map(|i| monday + (i / 5 * 7 + i % 5) * DAY + if i < 12 { shift } else { then });
        let daily = bars(symbol, "1d", starts, &[0]);
        let (weeks, of) = resample(&daily, "1w".parse().unwrap()).unwrap();
        assert_eq!(weeks.open, (0..weeks.len()).map(|w| daily.open[5 * w]).collect::<Vec<_>>(), "{symbol} {shift}");
        assert_eq!(weeks.close, (0..weeks.len()).map(|w| daily.close[5 * w + 4]).collect::<Vec<_>>(), "{symbol} {shift}");
        assert!(weeks.len() >= 4);
        for (row, slow) in of.iter().enumerate().filter(|(_, s)| **s != u32::MAX) {
            assert!(weeks.end[*slow as usize] <= daily.end[row], "{symbol} {shift} {row}");
            assert!(*slow as usize * 5 + 4 <= row, "{symbol} {shift} {row}");
        }
    }
}

#[test]
fn unsuitable_timeframes_are_refused() {
    for (base, slow) in [
        ("1h", "1h"),
        ("1h", "5m"),
        ("4h", "6h"),
        ("1w", "1mo"),
        ("1mo", "1w"),
        ("1mo", "1mo"),
        ("7m", "1d"),
        ("1h", "36h"),
    ] {
        let error = resample(&bars("AAPL", base, [0], &[0]), slow.parse().unwrap()).unwrap_err();
        assert!(error.kind == Kind::Usage && error.remedy.is_some(), "{base} {slow}");
    }
    let (slow, of) = resample(&bars("AAPL", "5m", [], &[0]), Timeframe::H1).unwrap();
    assert!(slow.is_empty() && of.is_empty() && slow.segments == [0]);
    let mut none = bars("AAPL", "5m", (0..50).map(|i| i * 5 * MINUTE), &[0]);
    none.volume.clear();
    assert!(resample(&none, Timeframe::H1).unwrap().0.volume.is_empty());
}

#[test]
fn restored_resampler_continues_its_own_state() {
    let mut it = Resampler::new(&Instrument::guess("AAPL", &Hints::default()).0.session, Timeframe::H1).unwrap();
    assert!(it.load(&[]).is_none() && it.load(&[2; 12]).is_none() && it.load(&[1; 9]).is_none());
}

proptest! {
    /// What happens after an instant changes no slow bar known by then.
    #[test]
    fn later_bars_change_no_completed_bar(cut in 1usize..600, step in 1i64..4, which in 0usize..5) {
        let symbol = ["AAPL", "XAUUSD", "BTCUSDT", "RELIANCE.NS", "ES=F"][which];
        let mut five = bars(symbol, "5m", (0..600).map(|i| FRIDAY + i * step * 5 * MINUTE), &[0, 200]);
        for timeframe in ["1h", "1d"] {
            let timeframe = timeframe.parse().unwrap();
            let (before, of_before) = resample(&five, timeframe).unwrap();
            for row in cut..600 {
                (five.open[row], five.high[row], five.low[row], five.close[row]) = (-1.0, 1e9, -1e9, 3.0);
                (five.volume[row], five.extras[0].1[row]) = (1e12, -5.0);
            }
            let (after, of_after) = resample(&five, timeframe).unwrap();
            let known = before.end.partition_point(|end| *end <= five.end[cut - 1]);
            for row in 0..known {
                prop_assert!(same(&Bar::of(&before, row), &Bar::of(&after, row)));
            }
            prop_assert_eq!(&of_before[..cut], &of_after[..cut]);
            // Nor does cutting the data off there.
            let start = five.start[..cut].to_vec();
            let short = bars(symbol, "5m", start, &[0, 200]);
            let (short, of_short) = resample(&short, timeframe).unwrap();
            prop_assert_eq!(&of_short, &of_before[..cut]);
            prop_assert!(short.len() <= before.len());
        }
    }
}
