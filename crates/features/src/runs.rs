//! Where indicators start afresh.
//!
//! A run is a stretch of bars without a segment border or a long hole in it; every indicator warms up anew at its
//! start. Whether a hole is long is decided from its two ends and the session's hours alone, so that a stream decides
//! as a batch does.
//!
//! Nights, weekends and up to five whole trading days in a row count nothing: there is no calendar of holidays, and
//! brokers print a few bars on them, so nine tenths of a day are a whole one. Neither does up to half a session before
//! a close or after an open, because shares close at 13:00 on some days and currencies open late on others. Coins never
//! close: with them everything counts.

use bars::{Bars, Session, SessionClock, Timeframe, TradingDates, Weekdays};
use std::ops::Range;

const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;

/// Whole trading days without a bar that pass for holidays: Chinese New Year takes a week.
const HOLIDAYS: usize = 5;

/// Rows that are looked at together.
const MANY: usize = 256;

/// The runs of a symbol: `[from, to)` row ranges, cut at segment borders and at holes of more than `longest` bars.
pub fn runs(bars: &Bars, longest: Option<usize>) -> Vec<Range<usize>> {
    let mut holes = Holes::new(&bars.instrument.session, bars.timeframe, self::longest(bars.timeframe, longest));
    let mut segments = bars.segments.iter().copied().skip_while(|s| *s == 0).peekable();
    let (mut runs, mut from) = (Vec::new(), 0);
    for row in (1..bars.len()).step_by(MANY) {
        // Nearly always there is nothing in many rows.
        let rows = row..bars.len().min(row + MANY);
        let (ends, starts) = (&bars.end[row - 1..rows.end - 1], &bars.start[rows.clone()]);
        if segments.peek().is_none_or(|border| *border >= rows.end) && !holes.any(ends, starts) {
            continue;
        }
        for row in rows {
            let border = segments.next_if_eq(&row).is_some();
            if border || holes.breaks(bars.end[row - 1], bars.start[row]) {
                runs.push(from..row);
                from = row;
            }
        }
    }
    if from < bars.len() {
        runs.push(from..bars.len());
    }
    runs
}

/// How many bars may be missing before indicators re-enter warm-up: what was asked for, or 10 bars of a day and longer,
/// and intraday the larger of 24 bars and two hours.
pub(crate) fn longest(timeframe: Timeframe, asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| {
        if timeframe.is_daily_or_longer() { 10 } else { 24.max(2 * HOUR / timeframe.ns().max(1)) as usize }
    })
}

/// Tells long holes from closures.
#[derive(Debug, Clone)]
pub(crate) struct Holes {
    rule: Rule,
    step: i64,
    longest: i64, // bars
    short: i64,   // nanoseconds in which not even that many bars fit
}

#[derive(Debug, Clone)]
enum Rule {
    /// Everything counts: coins, and bars of a week or more.
    Time,
    /// Days with a session count.
    Days { dates: TradingDates, days: Weekdays },
    /// Trading time counts, or only whole days of it where the breaks in a night session are not known.
    Hours { hours: Box<SessionClock>, days: Weekdays, whole_only: bool },
}

impl Holes {
    pub(crate) fn new(session: &Session, timeframe: Timeframe, longest: usize) -> Holes {
        let (step, days) = (timeframe.ns().max(1), session.days);
        let rule = if step >= 7 * DAY || (session.round_the_clock && days == Weekdays::ALL) {
            Rule::Time
        } else if step >= DAY {
            Rule::Days { dates: session.trading_dates(), days }
        } else {
            let whole_only = !session.round_the_clock && session.close <= session.open;
            Rule::Hours { hours: Box::new(session.session_clock()), days, whole_only }
        };
        let longest = longest as i64;
        Holes { rule, step, longest, short: longest.saturating_mul(step) }
    }

    /// Whether there may be a long hole between any end and the start beside it.
    fn any(&self, ends: &[i64], starts: &[i64]) -> bool {
        crate::simd::call(Apart, (ends, starts, self.short))
    }

    /// Whether more than the longest number of bars is missing between one that ended at `from` and the next, which
    /// starts at `to`.
    #[inline]
    pub(crate) fn breaks(&mut self, from: i64, to: i64) -> bool {
        to.saturating_sub(from) > self.short && self.missing(from, to) > self.longest
    }

    /// Bars missing in between; where there are too many the count stops.
    fn missing(&mut self, from: i64, to: i64) -> i64 {
        let (step, enough) = (self.step, self.short.saturating_add(self.step));
        match &mut self.rule {
            Rule::Time => to.saturating_sub(from) / step,
            Rule::Days { dates, days } => {
                let missing = (dates.date_at(from)..dates.date_at(to)).filter(|d| days.contains(*d as i32)).count();
                missing as i64 / (step / DAY)
            }
            // A year is no holiday in any market, and too long to walk through.
            Rule::Hours { .. } if to.saturating_sub(from) > 366 * DAY => i64::MAX,
            Rule::Hours { hours, days, whole_only } => {
                let (mut time, mut idle, mut idle_time) = (0, 0, 0);
                let mut at = hours.session_at(from);
                while at.open < to && time < enough {
                    let (length, lost) = (at.close - at.open, at.close.min(to) - at.open.max(from));
                    let (begun, ended) = (from > at.open, to < at.close);
                    if !days.contains(at.day) || lost <= 0 {
                        // Closed all the time.
                    } else if begun && ended {
                        time += if *whole_only { 0 } else { lost };
                    } else if lost >= length / 10 * 9 {
                        (idle, idle_time) = (idle + 1, idle_time + lost);
                    } else if lost > length / 2 && !*whole_only {
                        time += lost;
                    }
                    let next = hours.session_at(at.next);
                    if next.open <= at.open {
                        break; // the end of time
                    }
                    at = next;
                }
                (time + if idle > HOLIDAYS { idle_time } else { 0 }) / step
            }
        }
    }
}

/// Whether any start is further behind its end; a distance that overflows may count as one.
struct Apart;

impl crate::simd::Inlined<(&[i64], &[i64], i64), bool> for Apart {
    #[inline(always)]
    fn call(self, (ends, starts, most): (&[i64], &[i64], i64)) -> bool {
        // One plain loop without a way out becomes lanes.
        let mut found = false;
        for (end, start) in ends.iter().zip(starts) {
            let apart = start.wrapping_sub(*end);
            found |= (apart > most) | ((start > end) & (apart < 0));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bars::{Hints, Instrument};
    use files::time::days;

    fn ns(stamp: &str) -> i64 {
        let n = |range: Range<usize>| stamp.get(range).unwrap().parse::<i64>().unwrap();
        days(n(0..4), n(5..7), n(8..10)).unwrap() * DAY + n(11..13) * HOUR + n(14..16) * HOUR / 60
    }

    #[test]
    #[rustfmt::skip]
    fn closures_do_not_break_runs() {
        for (symbol, timeframe, from, to, breaks) in [
            ("AAPL", "5m", "2024-01-10T21:00", "2024-01-11T14:30", false), ("AAPL", "5m", "2024-01-12T21:00", "2024-01-16T14:30", false), // a night; a weekend and a holiday
            ("AAPL", "1m", "2024-07-03T17:00", "2024-07-05T13:30", false), // closed at 13:00 for the 4th of July
            ("AAPL", "5m", "2024-01-10T15:00", "2024-01-10T17:00", false), ("AAPL", "5m", "2024-01-10T15:00", "2024-01-10T17:05", true), // 24 bars; 25
            ("AAPL", "1h", "2024-01-10T15:00", "2024-01-10T20:00", false), ("AAPL", "5m", "2024-01-10T16:00", "2024-01-11T14:30", true), // most of a day
            ("AAPL", "5m", "2024-01-08T21:00", "2024-01-16T14:30", false), ("AAPL", "5m", "2024-01-05T21:00", "2024-01-16T14:30", true), // 5 days; 6 days
            ("AAPL", "5m", "2020-01-05T21:00", "2024-01-16T14:30", true),
            ("XAUUSD", "5m", "2024-01-10T22:00", "2024-01-10T23:00", false), ("XAUUSD", "5m", "2024-01-15T18:00", "2024-01-15T23:00", false), // the daily break; a short day
            ("XAUUSD", "5m", "2024-01-12T22:00", "2024-01-14T23:05", false), ("XAUUSD", "5m", "2024-01-10T12:00", "2024-01-10T14:05", true),
            ("XAUUSD", "5m", "2014-04-17T21:15", "2014-04-20T22:00", false), // Good Friday, after a few stray bars
            ("EURUSD", "1m", "2023-12-22T22:00", "2023-12-25T22:00", false), ("EURUSD", "1h", "2024-01-10T00:00", "2024-01-10T20:00", false),
            ("BTCUSDT", "1h", "2018-02-08T00:00", "2018-02-09T10:00", true), ("BTCUSDT", "1h", "2018-02-08T00:00", "2018-02-09T00:00", false),
            ("BTCUSDT", "5m", "2024-01-06T00:00", "2024-01-06T02:05", true), ("BTCUSDT", "1d", "2024-01-01T00:00", "2024-01-12T00:00", true),
            ("RELIANCE.NS", "1m", "2021-05-12T10:00", "2021-05-14T03:45", false), ("RELIANCE.NS", "1m", "2021-05-12T04:00", "2021-05-12T06:01", true),
            ("CZCE_CF", "5m", "2024-01-09T15:00", "2024-01-10T01:00", false), ("CZCE_CF", "5m", "2024-01-05T15:00", "2024-01-08T01:00", false), // night to morning; to Monday
            ("CZCE_CF", "5m", "2024-02-08T07:00", "2024-02-19T01:00", true), // 6 days: longer than New Year
            ("AAPL", "1d", "2024-01-06T00:00", "2024-01-22T00:00", false), ("AAPL", "1d", "2024-01-06T00:00", "2024-01-23T00:00", true), // 10 working days; 11
            ("ES=F", "1d", "2024-01-05T23:00", "2024-01-21T23:00", false), ("ES=F", "1d", "2024-01-05T23:00", "2024-01-22T23:00", true),
            ("AAPL", "1w", "2024-01-08T00:00", "2024-03-18T00:00", false), ("AAPL", "1w", "2024-01-08T00:00", "2024-04-01T00:00", true),
        ] {
            let session = Instrument::guess(symbol, &Hints::default()).0.session;
            let timeframe = timeframe.parse().unwrap();
            let mut holes = Holes::new(&session, timeframe, longest(timeframe, None));
            assert_eq!(holes.breaks(ns(from), ns(to)), breaks, "{symbol} {timeframe} {from} {to}: {}", holes.missing(ns(from), ns(to)));
            assert!(!holes.breaks(ns(to), ns(from)) && !holes.breaks(ns(from), ns(from)));
            holes.breaks(i64::MIN, i64::MAX);
            holes.breaks(i64::MAX - HOUR, i64::MAX);
        }
        assert_eq!([Timeframe::M1, Timeframe::M5, Timeframe::H1, Timeframe::D1].map(|t| longest(t, None)), [120, 24, 24, 10]);
        assert_eq!(longest(Timeframe::M1, Some(3)), 3);
    }

    /// Many rows at a time, or one: the same runs.
    #[test]
    fn vectorised_hole_search_equals_row_by_row() {
        let mut bars = hours(&(0..1000).map(|i| i * HOUR).collect::<Vec<_>>());
        let cuts = [1, 2, MANY - 1, MANY, MANY + 1, 2 * MANY, 2 * MANY + 1, 3 * MANY - 1, 999];
        for (hole, border) in cuts.iter().flat_map(|hole| cuts.map(|border| (*hole, border))) {
            bars.start = (0..1000).map(|i| i as i64 * HOUR + if i < hole { 0 } else { 25 * HOUR }).collect();
            bars.end = bars.start.iter().map(|t| t + HOUR).collect();
            bars.segments = vec![0, border];
            let mut at = vec![0, hole, border, 1000];
            at.sort_unstable();
            at.dedup();
            let expected: Vec<Range<usize>> = at.windows(2).map(|w| w[0]..w[1]).collect();
            assert_eq!(runs(&bars, None), expected, "hole before {hole}, border before {border}");
        }
        // Times whose distance overflows are a hole, or none if they go back.
        bars.segments = vec![0];
        bars.start[500] = i64::MAX;
        bars.end[499] = i64::MIN;
        assert!(runs(&bars, None).iter().any(|run| run.start == 500));
        bars.start[500] = i64::MIN;
        bars.end[499] = i64::MAX;
        assert!(runs(&bars, None).iter().all(|run| run.start != 500));
    }

    #[test]
    fn runs_end_at_borders_and_holes() {
        let mut bars = hours(&(0..100).map(|i| i * HOUR + if i < 60 { 0 } else { 25 * HOUR }).collect::<Vec<_>>());
        bars.segments = vec![0, 20];
        assert_eq!(runs(&bars, None), [0..20, 20..60, 60..100]);
        assert_eq!(runs(&bars, Some(25)), [0..20, 20..100]);
        bars.start.clear();
        assert_eq!(runs(&bars, None), []);
    }

    /// Bars of an hour that start at these times.
    fn hours(start: &[i64]) -> Bars {
        let prices = vec![1.0; start.len()];
        Bars {
            symbol: "BTCUSDT".into(),
            instrument: Instrument::guess("BTCUSDT", &Hints::default()).0,
            timeframe: Timeframe::H1,
            start: start.to_vec(),
            end: start.iter().map(|t| t + HOUR).collect(),
            open: prices.clone(),
            high: prices.clone(),
            low: prices.clone(),
            close: prices,
            volume: Vec::new(),
            extras: Vec::new(),
            segments: vec![0],
            member: Vec::new(),
        }
    }
}
