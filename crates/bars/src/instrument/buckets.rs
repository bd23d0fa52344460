//! Bars of a higher timeframe: where each begins and when it is known.
//!
//! Below a day, markets that trade round the clock count from midnight UTC. Others count from the session's open, and
//! no bucket spans an open or a close: the last hour of US shares is 15:30 to 16:00. After the close they count from
//! the close until the trading day turns, then backwards from the next open. Days, weeks and months are made of trading
//! days. Buckets touch: every instant lies in exactly one, and Friday after 17:00 New York lies in Monday's where the
//! day turns then.

use super::hours::{DayRollovers, SessionClock};
use super::session::{Session, find_zone};
use crate::Timeframe;
use files::time::{civil, days};

const DAY: i64 = 86_400_000_000_000;

/// One bar of a higher timeframe: `[start, end)`, known at `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Its first instant, nanoseconds since 1970 UTC.
    pub start: i64,
    /// When it is over and may be used.
    pub end: i64,
}

/// Finds the bucket of an instant; remembers the last answer, so that instants in order are cheap.
#[derive(Debug, Clone)]
pub struct Buckets {
    rule: BucketRule,
    last: Bucket,
}

impl Session {
    /// The buckets of a timeframe, or why there are none.
    pub fn buckets(&self, timeframe: Timeframe) -> Result<Buckets, String> {
        find_zone(&self.timezone)?;
        find_zone(&self.trading_day.timezone)?;
        let rule = match DayGroup::from_timeframe(timeframe)? {
            Some(group) => BucketRule::Days { turns: DayRollovers::new(self), group },
            None if self.round_the_clock => {
                BucketRule::Within(IntradayGrid { from: i64::MIN, to: i64::MAX, anchor: 0, step: timeframe.ns() })
            }
            None => {
                let frame = IntradayGrid { from: 0, to: 0, anchor: 0, step: timeframe.ns() };
                BucketRule::Session { hours: Box::new(self.session_clock()), turns: DayRollovers::new(self), frame }
            }
        };
        Ok(Buckets { rule, last: Bucket { start: 0, end: 0 } })
    }

    /// The same for bars of a day or longer, which are grouped by their date (see [`Session::dates`]): asked for with
    /// midnight UTC of the date, and over at such a midnight. Shorter timeframes are refused.
    pub fn dated_buckets(&self, timeframe: Timeframe) -> Result<Buckets, String> {
        let group = DayGroup::from_timeframe(timeframe)?.ok_or_else(|| format!("daily bars hold no {timeframe}"))?;
        Ok(Buckets {
            rule: BucketRule::Days { turns: DayRollovers::dated(self), group },
            last: Bucket { start: 0, end: 0 },
        })
    }
}

impl Buckets {
    /// The bucket of an instant, in nanoseconds since 1970 UTC.
    #[inline]
    pub fn bucket_at(&mut self, ns: i64) -> Bucket {
        if ns < self.last.start || ns >= self.last.end {
            self.last = self.rule.bucket(ns);
        }
        self.last
    }
}

#[derive(Debug, Clone)]
enum BucketRule {
    Within(IntradayGrid),
    Session { hours: Box<SessionClock>, turns: DayRollovers, frame: IntradayGrid },
    Days { turns: DayRollovers, group: DayGroup },
}

impl BucketRule {
    fn bucket(&mut self, ns: i64) -> Bucket {
        match self {
            BucketRule::Within(frame) => frame.bucket(ns),
            BucketRule::Session { hours, turns, frame } => {
                if ns < frame.from || ns >= frame.to {
                    let it = hours.session_at(ns);
                    // The first turn at or after the close parts what follows it from what precedes the open.
                    let mut turn = turns.day_at(it.close);
                    if turns.day_start(turn) < it.close {
                        turn += 1;
                    }
                    let turn = turns.day_start(turn).min(it.next);
                    (frame.from, frame.to, frame.anchor) = if ns < it.close {
                        (it.open, it.close, it.open)
                    } else if ns < turn {
                        (it.close, turn, it.close)
                    } else {
                        (turn, it.next, it.next)
                    };
                }
                frame.bucket(ns)
            }
            BucketRule::Days { turns, group } => {
                let day = turns.day_at(ns);
                let number = group.group_number(turns.to_trading_day(day));
                let mut border = |number| {
                    let first = turns.first_calendar_day(group.first_day(number));
                    turns.day_start(first)
                };
                Bucket { start: border(number), end: border(number + 1) }
            }
        }
    }
}

/// A stretch of time in which buckets are counted from one anchor.
#[derive(Debug, Clone, Copy)]
struct IntradayGrid {
    from: i64,
    to: i64,
    anchor: i64,
    step: i64,
}

impl IntradayGrid {
    fn bucket(&self, ns: i64) -> Bucket {
        let gone = ns.saturating_sub(self.anchor).rem_euclid(self.step);
        // The ends of time lie in buckets that reach beyond it.
        let (start, end) = (ns.saturating_sub(gone), ns.saturating_add(self.step - gone));
        Bucket { start: start.max(self.from), end: end.min(self.to) }
    }
}

/// That many trading days, ISO weeks or calendar months, counted from 1970.
#[derive(Debug, Clone, Copy)]
enum DayGroup {
    Days(i64),
    Weeks(i64),
    Months(i64),
}

impl DayGroup {
    /// `None` below a day.
    fn from_timeframe(timeframe: Timeframe) -> Result<Option<DayGroup>, String> {
        match timeframe {
            Timeframe::Months(n) if (1..=100_000).contains(&n) => Ok(Some(DayGroup::Months(n))),
            Timeframe::Fixed(ns) if ns > 0 && ns < DAY => Ok(None),
            Timeframe::Fixed(ns) if ns > 0 && ns % (7 * DAY) == 0 => Ok(Some(DayGroup::Weeks(ns / (7 * DAY)))),
            Timeframe::Fixed(ns) if ns > 0 && ns % DAY == 0 => Ok(Some(DayGroup::Days(ns / DAY))),
            Timeframe::Fixed(ns) if ns > 0 => Err(format!("{timeframe} is longer than a day and not whole days")),
            _ => Err("a timeframe must be above zero and at most 100000 months".to_string()),
        }
    }

    /// Which one a trading day lies in.
    fn group_number(self, day: i64) -> i64 {
        match self {
            DayGroup::Days(n) => day.div_euclid(n),
            // 1970 began on a Thursday.
            DayGroup::Weeks(n) => (day + 3).div_euclid(7 * n),
            DayGroup::Months(n) => {
                let (year, month, _) = civil(day);
                ((year - 1970) * 12 + month - 1).div_euclid(n)
            }
        }
    }

    /// Its first trading day.
    fn first_day(self, number: i64) -> i64 {
        match self {
            DayGroup::Days(n) => number * n,
            DayGroup::Weeks(n) => number * 7 * n - 3,
            DayGroup::Months(n) => {
                let (year, month) = (1970 + (number * n).div_euclid(12), (number * n).rem_euclid(12) + 1);
                // The calendar repeats every 400 years, and `days` knows the four centuries from 1700 on.
                let eras = (year - 1700).div_euclid(400);
                days(year - eras * 400, month, 1).unwrap_or(0) + eras * 146_097
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hints, Instrument, Weekdays};
    use jiff::Timestamp;

    fn session(symbol: &str) -> Session {
        Instrument::guess(symbol, &Hints::default()).0.session
    }

    fn ns(stamp: &str) -> i64 {
        format!("{stamp}:00Z").parse::<Timestamp>().unwrap().as_nanosecond() as i64
    }

    #[test]
    #[rustfmt::skip]
    fn bucket_bounds_follow_the_session() {
        for (symbol, timeframe, at, start, end) in [
            // US shares: 09:30 is 14:30 UTC in winter, 13:30 in summer; the clocks changed on 2024-03-10 and
            // 2024-11-03.
            ("AAPL", "1h", "2024-03-08T14:30", "2024-03-08T14:30", "2024-03-08T15:30"), ("AAPL", "1h", "2024-03-08T15:29", "2024-03-08T14:30", "2024-03-08T15:30"),
            ("AAPL", "1h", "2024-03-11T13:30", "2024-03-11T13:30", "2024-03-11T14:30"), ("AAPL", "1h", "2024-11-04T14:45", "2024-11-04T14:30", "2024-11-04T15:30"),
            // The last hour is half an hour; what follows counts from the close, what precedes backwards from the open.
            ("AAPL", "1h", "2024-03-08T20:55", "2024-03-08T20:30", "2024-03-08T21:00"), ("AAPL", "1h", "2024-03-08T21:00", "2024-03-08T21:00", "2024-03-08T22:00"),
            ("AAPL", "1h", "2024-03-08T14:00", "2024-03-08T13:30", "2024-03-08T14:30"), ("AAPL", "4h", "2024-03-08T20:59", "2024-03-08T18:30", "2024-03-08T21:00"),
            ("AAPL", "4h", "2024-03-08T13:00", "2024-03-08T10:30", "2024-03-08T14:30"), ("AAPL", "1h", "2024-03-08T05:10", "2024-03-08T05:00", "2024-03-08T05:30"),
            ("AAPL", "12h", "2024-03-08T20:00", "2024-03-08T14:30", "2024-03-08T21:00"), ("AAPL", "12h", "2024-03-08T23:00", "2024-03-08T21:00", "2024-03-09T05:00"),
            ("AAPL", "1d", "2024-03-08T20:59", "2024-03-08T05:00", "2024-03-09T05:00"), ("AAPL", "1d", "2024-03-11T13:30", "2024-03-11T04:00", "2024-03-12T04:00"),
            ("AAPL", "1d", "2024-03-10T13:30", "2024-03-10T05:00", "2024-03-11T04:00"), ("AAPL", "1d", "2024-11-03T13:30", "2024-11-03T04:00", "2024-11-04T05:00"),
            ("AAPL", "1w", "2024-03-08T20:59", "2024-03-04T05:00", "2024-03-11T04:00"), ("AAPL", "1mo", "2024-03-28T19:59", "2024-03-01T05:00", "2024-04-01T04:00"),
            ("AAPL", "1mo", "2024-12-31T20:00", "2024-12-01T05:00", "2025-01-01T05:00"), ("AAPL", "3mo", "2024-05-31T20:00", "2024-04-01T04:00", "2024-07-01T04:00"),
            ("RELIANCE.NS", "1h", "2024-01-10T03:45", "2024-01-10T03:45", "2024-01-10T04:45"), ("RELIANCE.NS", "1h", "2024-01-10T09:55", "2024-01-10T09:45", "2024-01-10T10:00"),
            // A Saturday session keeps the hours of other days.
            ("RELIANCE.NS", "1h", "2024-01-20T03:50", "2024-01-20T03:45", "2024-01-20T04:45"), ("RELIANCE.NS", "1d", "2024-01-20T03:50", "2024-01-19T18:30", "2024-01-20T18:30"),
            // Round the clock: from midnight UTC, days from 17:00 New York.
            ("EURUSD", "1h", "2024-03-11T13:59", "2024-03-11T13:00", "2024-03-11T14:00"), ("EURUSD", "4h", "2024-01-10T22:30", "2024-01-10T20:00", "2024-01-11T00:00"),
            ("EURUSD", "1d", "2024-01-10T21:59", "2024-01-09T22:00", "2024-01-10T22:00"), ("EURUSD", "1d", "2024-01-10T22:00", "2024-01-10T22:00", "2024-01-11T22:00"),
            // Friday's day ends on Friday; Sunday evening belongs to Monday, which the clock change shortens.
            ("EURUSD", "1d", "2024-03-08T21:59", "2024-03-07T22:00", "2024-03-08T22:00"), ("XAUUSD", "1d", "2024-03-10T21:00", "2024-03-08T22:00", "2024-03-11T21:00"),
            ("XAUUSD", "1d", "2024-11-03T22:30", "2024-11-01T21:00", "2024-11-04T22:00"), ("XAUUSD", "1d", "2024-03-08T22:03", "2024-03-08T22:00", "2024-03-11T21:00"),
            ("EURUSD", "1w", "2024-03-08T21:59", "2024-03-01T22:00", "2024-03-08T22:00"), ("EURUSD", "1w", "2024-03-10T21:05", "2024-03-08T22:00", "2024-03-15T21:00"),
            ("XAUUSD", "1mo", "2024-03-28T20:00", "2024-02-29T22:00", "2024-03-29T21:00"), ("EURUSD", "2d", "1970-01-01T12:00", "1969-12-31T22:00", "1970-01-02T22:00"),
            ("BTCUSDT", "1h", "2024-03-10T10:30", "2024-03-10T10:00", "2024-03-10T11:00"), ("BTCUSDT", "1d", "2024-03-10T23:59", "2024-03-10T00:00", "2024-03-11T00:00"),
            ("BTCUSDT", "1w", "2024-03-10T23:59", "2024-03-04T00:00", "2024-03-11T00:00"), ("BTCUSDT", "2w", "1970-01-01T00:00", "1969-12-29T00:00", "1970-01-12T00:00"),
            ("BTCUSDT", "3d", "1970-01-03T23:00", "1970-01-01T00:00", "1970-01-04T00:00"), ("BTCUSDT", "1mo", "2024-02-29T12:00", "2024-02-01T00:00", "2024-03-01T00:00"),
            // Chicago 17:00 is 23:00 UTC in winter, 22:00 in summer.
            ("ES=F", "1d", "2024-03-08T21:00", "2024-03-07T23:00", "2024-03-08T23:00"), ("ES=F", "1d", "2024-03-10T22:00", "2024-03-08T23:00", "2024-03-11T22:00"),
            ("ES=F", "1d", "2024-11-04T00:00", "2024-11-01T22:00", "2024-11-04T23:00"), ("ES=F", "1h", "2024-03-10T22:30", "2024-03-10T22:00", "2024-03-10T23:00"),
            // A Chinese night opens at 21:00 (13:00 UTC) and closes at 15:00; the day turns at 18:00.
            ("CZCE_CF", "4h", "2024-01-09T13:30", "2024-01-09T13:00", "2024-01-09T17:00"), ("CZCE_CF", "4h", "2024-01-10T06:30", "2024-01-10T05:00", "2024-01-10T07:00"),
            ("CZCE_CF", "4h", "2024-01-10T07:30", "2024-01-10T07:00", "2024-01-10T10:00"), ("CZCE_CF", "4h", "2024-01-10T12:00", "2024-01-10T10:00", "2024-01-10T13:00"),
            ("CZCE_CF", "1d", "2024-01-10T06:30", "2024-01-09T10:00", "2024-01-10T10:00"),
        ] {
            let found = session(symbol).buckets(timeframe.parse().unwrap()).unwrap().bucket_at(ns(at));
            assert_eq!([found.start, found.end].map(files::time::rfc3339), [ns(start), ns(end)].map(files::time::rfc3339), "{symbol} {timeframe} {at}");
        }
    }

    const SYMBOLS: [&str; 7] = ["AAPL", "EURUSD", "XAUUSD", "BTCUSDT", "RELIANCE.NS", "ES=F", "CZCE_CF"];
    const TIMEFRAMES: [&str; 9] = ["5m", "1h", "4h", "1d", "2d", "1w", "2w", "1mo", "5mo"];

    /// In order, backwards and from scratch; buckets hold their instant, touch, and agree with the trading day.
    #[test]
    fn bucket_of_an_instant_is_independent_of_query_order() {
        let mut zones: Vec<Session> = SYMBOLS.iter().map(|s| session(s)).collect();
        // Clocks that change at midnight, and a day that never was (Samoa, 2011-12-30).
        for name in ["America/Sao_Paulo", "America/Havana", "Pacific/Apia"] {
            let mut odd = session("AAPL");
            (odd.timezone, odd.trading_day.timezone) = (name.into(), name.into());
            zones.push(odd);
        }
        for (session, timeframe) in zones.iter().flat_map(|s| TIMEFRAMES.map(|t| (s, t))) {
            let fresh = session.buckets(timeframe.parse().unwrap()).unwrap();
            for from in ["1969-10-01T00:00", "2011-10-01T00:00", "2023-12-20T00:00"] {
                let times: Vec<i64> = (0..9000).map(|i| ns(from) + i * 2_703_000_000_000).collect();
                let mut buckets = fresh.clone();
                let forth: Vec<Bucket> = times.iter().map(|t| buckets.bucket_at(*t)).collect();
                let mut back: Vec<Bucket> = times.iter().rev().map(|t| buckets.bucket_at(*t)).collect();
                back.reverse();
                assert!(forth == back, "{session:?} {timeframe}");
                let days = session.trading_days(&times);
                for (i, (t, b)) in times.iter().zip(&forth).enumerate() {
                    assert!(b.start <= *t && *t < b.end, "{session:?} {timeframe} {t} {b:?}");
                    let before = forth[i.saturating_sub(1)];
                    assert!(before == *b || before.end <= b.start, "{session:?} {timeframe} {t} {before:?} {b:?}");
                    if i % 97 == 0 {
                        assert_eq!(fresh.clone().bucket_at(*t), *b);
                        assert_eq!(buckets.bucket_at(b.end).start, b.end, "{session:?} {timeframe} {b:?}");
                        assert_eq!(buckets.bucket_at(b.end - 1), *b);
                    }
                    if timeframe == "1d" {
                        assert_eq!(before == *b || i == 0, days[i] == days[i.saturating_sub(1)], "{session:?} {t}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        for (symbol, timeframe) in SYMBOLS.iter().flat_map(|s| TIMEFRAMES.map(|t| (s, t))) {
            let mut buckets = session(symbol).buckets(timeframe.parse().unwrap()).unwrap();
            for t in [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 0, ns("1678-01-01T00:00"), ns("2262-04-10T00:00")]
            {
                let b = buckets.bucket_at(t);
                assert!(b.start <= t && t <= b.end, "{symbol} {timeframe} {t} {b:?}");
            }
        }
        let mut none = session("EURUSD");
        none.days = Weekdays(0);
        none.buckets(Timeframe::D1).unwrap().bucket_at(0);
    }

    #[test]
    fn impossible_timeframes_are_refused() {
        let mut it = session("AAPL");
        for bad in [Timeframe::Fixed(0), Timeframe::Fixed(-5), Timeframe::Months(0), Timeframe::Months(i64::MAX)] {
            assert!(it.buckets(bad).is_err());
        }
        assert!(it.buckets(Timeframe::Fixed(36 * 3_600_000_000_000)).unwrap_err().contains("whole days"));
        assert!(it.dated_buckets(Timeframe::H1).unwrap_err().contains("1h"));
        it.timezone = "Mars/Phobos".into();
        assert!(it.buckets(Timeframe::H1).unwrap_err().contains("time zone"));
    }

    /// A daily file's dates are grouped as they stand, wherever the exchange is.
    #[test]
    fn midnight_dates_stay_in_their_week() {
        let mut monday = session("AAPL").dated_buckets("1w".parse().unwrap()).unwrap();
        let week = Bucket { start: ns("2024-03-04T00:00"), end: ns("2024-03-11T00:00") };
        assert_eq!((monday.bucket_at(week.start), monday.bucket_at(week.end - 1)), (week, week));
        // Brokers' Sunday bars of currencies open the week.
        let mut sunday = session("EURUSD").dated_buckets("1w".parse().unwrap()).unwrap();
        assert_eq!(sunday.bucket_at(ns("2024-03-10T00:00")), sunday.bucket_at(ns("2024-03-11T00:00")));
    }
}
