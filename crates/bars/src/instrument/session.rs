//! When an instrument trades, and when its day turns.

use crate::nearest;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// When an instrument trades, and when its day turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Session {
    /// IANA zone of `open` and `close`.
    pub timezone: String,
    /// First trade of the session.
    pub open: ClockTime,
    /// Last trade; at or before `open` means on the next calendar day.
    pub close: ClockTime,
    /// The trading days with a session.
    pub days: Weekdays,
    /// When one trading day ends and the next begins.
    pub trading_day: Rollover,
    /// Whether it trades (almost) without a break while it trades at all: coins all week, currencies all working week.
    pub round_the_clock: bool,
}

impl Session {
    /// The trading day an instant belongs to, in days since 1970.
    ///
    /// A rollover in the evening opens the next day: Sunday 17:00 New York is Monday for currencies. There, an instant
    /// on a day without a session (Friday 17:03) counts towards the next session's day. A rollover at midnight gives
    /// the local date as it is, because exchanges do hold special sessions at weekends.
    pub fn trading_day(&self, ns: i64) -> i32 {
        self.trading_days(&[ns])[0]
    }

    /// [`Session::trading_day`] of many instants, much faster when they are in order.
    pub fn trading_days(&self, ns: &[i64]) -> Vec<i32> {
        const DAY: i64 = 86_400;
        let mut local = LocalTime::new(&self.trading_day.timezone);
        let evening = self.trading_day.at.0 > 12 * 60;
        let turn = i64::from(self.trading_day.at.0) * 60 - if evening { DAY } else { 0 };
        let mut days = Vec::with_capacity(ns.len());
        for &t in ns {
            let mut day = (local.local_second(t) - turn).div_euclid(DAY) as i32;
            if evening {
                for _ in 0..6 {
                    if self.days.contains(day) {
                        break;
                    }
                    day += 1;
                }
            }
            days.push(day);
        }
        days
    }

    /// The time of day at the exchange, in whole minutes since midnight, 0 to 1439.
    pub fn clock_minutes(&self, ns: &[i64]) -> Vec<u16> {
        let mut local = LocalTime::new(&self.timezone);
        ns.iter().map(|t| (local.local_second(*t).rem_euclid(86_400) / 60) as u16).collect()
    }
}

/// Seconds of a wall clock. The zone's offset holds until its next change, so it is asked for once a season.
pub(crate) struct LocalTime {
    zone: TimeZone,
    from: i64,
    until: i64,
    offset: i64,
}

impl LocalTime {
    /// UTC where the zone is not known.
    pub(crate) fn new(name: &str) -> LocalTime {
        LocalTime { zone: find_zone(name).unwrap_or(TimeZone::UTC), from: 1, until: 0, offset: 0 }
    }

    /// Seconds since 1970 as the clock on the wall shows them.
    pub(crate) fn local_second(&mut self, ns: i64) -> i64 {
        let second = ns.div_euclid(1_000_000_000);
        if second < self.from || second >= self.until {
            let stamp = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
            self.offset = i64::from(self.zone.to_offset(stamp).seconds());
            self.from = second;
            self.until = self.zone.following(stamp).next().map_or(i64::MAX, |change| change.timestamp().as_second());
        }
        second + self.offset
    }
}

/// A time of day in minutes since midnight; reads and shows as `09:30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockTime(pub u16);

impl fmt::Display for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl FromStr for ClockTime {
    type Err = String;

    fn from_str(s: &str) -> Result<ClockTime, String> {
        let read = |s: &str| s.parse::<u16>().ok().filter(|_| s.bytes().all(|b| b.is_ascii_digit()));
        s.split_once(':')
            .and_then(|(h, m)| Some((read(h)?, read(m).filter(|_| m.len() == 2)?)))
            .filter(|&(h, m)| h < 24 && m < 60)
            .map(|(h, m)| ClockTime(h * 60 + m))
            .ok_or_else(|| format!("`{s}` is not a time of day (write 09:30)"))
    }
}

/// Days of the week, bit 0 Monday to bit 6 Sunday; reads and shows as `Mon-Fri` or `Mon,Wed,Sun`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weekdays(pub u8);

impl Weekdays {
    /// Monday to Friday.
    pub const WORKING: Weekdays = Weekdays(0b001_1111);
    /// Every day.
    pub const ALL: Weekdays = Weekdays(0b111_1111);

    /// Whether the day with that number since 1970 (a Thursday) is one of them.
    pub fn contains(self, day: i32) -> bool {
        self.0 >> (day + 3).rem_euclid(7) & 1 == 1
    }
}

const WEEK: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl fmt::Display for Weekdays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |i: usize| i < 7 && self.0 >> i & 1 == 1;
        let (mut at, mut comma) = (0, "");
        while at < 7 {
            let mut end = at;
            while has(end) {
                end += 1;
            }
            match end - at {
                0 => end += 1,
                1 => write!(f, "{comma}{}", WEEK[at])?,
                2 => write!(f, "{comma}{},{}", WEEK[at], WEEK[end - 1])?,
                _ => write!(f, "{comma}{}-{}", WEEK[at], WEEK[end - 1])?,
            }
            if has(at) {
                comma = ",";
            }
            at = end;
        }
        Ok(())
    }
}

impl FromStr for Weekdays {
    type Err = String;

    fn from_str(s: &str) -> Result<Weekdays, String> {
        let bad = || format!("`{s}` names no days of the week (write Mon-Fri, or Mon,Wed,Sun)");
        let day = |name: &str| {
            let name = name.trim().to_ascii_lowercase();
            WEEK.iter().position(|d| name.starts_with(&d.to_ascii_lowercase())).ok_or_else(bad)
        };
        let mut days = 0;
        for part in s.split([',', ' ']).filter(|part| !part.is_empty()) {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to) = (day(from)?, day(to)?);
            // Sun-Thu runs over the end of the week.
            for i in 0..=(to + 7 - from) % 7 {
                days |= 1 << ((from + i) % 7);
            }
        }
        if days == 0 { Err(bad()) } else { Ok(Weekdays(days)) }
    }
}

/// When a trading day turns; reads and shows as `17:00 America/New_York`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollover {
    /// After noon: the new day carries the next date. Until noon: it carries the date it starts on.
    pub at: ClockTime,
    /// IANA zone of `at`.
    pub timezone: String,
}

impl fmt::Display for Rollover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.timezone)
    }
}

impl FromStr for Rollover {
    type Err = String;

    fn from_str(s: &str) -> Result<Rollover, String> {
        let (at, timezone) = s
            .trim()
            .split_once(' ')
            .ok_or_else(|| format!("`{s}` is not a rollover (write 17:00 America/New_York)"))?;
        find_zone(timezone.trim())?;
        Ok(Rollover { at: at.parse()?, timezone: timezone.trim().to_string() })
    }
}
macro_rules! serialize_as_shown {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    )*};
}
serialize_as_shown!(ClockTime, Weekdays, Rollover);

/// A session of working days, its rollover in its own zone. Only called with literals that are right.
pub(super) fn make_session(timezone: &str, open: &str, close: &str, rollover: &str, round_the_clock: bool) -> Session {
    let clock = |s: &str| s.parse().unwrap_or(ClockTime(0));
    Session {
        timezone: timezone.to_string(),
        open: clock(open),
        close: clock(close),
        days: Weekdays::WORKING,
        trading_day: Rollover { at: clock(rollover), timezone: timezone.to_string() },
        round_the_clock,
    }
}

pub(super) fn find_zone(name: &str) -> Result<TimeZone, String> {
    if let Ok(zone) = TimeZone::get(name) {
        return Ok(zone);
    }
    let names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // People write the city alone, or with a blank.
    let city = name.replace(' ', "_").to_ascii_lowercase();
    let near = names.iter().find(|known| known.to_ascii_lowercase().rsplit('/').next() == Some(&city)).copied();
    match near.or_else(|| nearest(name, names.iter().copied())) {
        Some(near) => Err(format!("`{name}` is not a time zone; did you mean `{near}`?")),
        None => Err(format!("`{name}` is not a time zone (write an IANA name such as America/New_York, or UTC)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instrument;

    fn guess(symbol: &str) -> Instrument {
        Instrument::guess(symbol, &crate::instrument::Hints::default()).0
    }

    fn ns(stamp: &str) -> i64 {
        stamp.parse::<Timestamp>().unwrap().as_nanosecond() as i64
    }

    fn day(date: &str) -> i32 {
        (ns(&format!("{date}T00:00:00Z")) / 86_400_000_000_000) as i32
    }

    #[test]
    #[rustfmt::skip]
    fn trading_days_roll_over_at_the_market_time() {
        for (symbol, at, date) in [
            // Winter: 17:00 New York is 22:00 UTC; summer: 21:00 UTC.
            ("EURUSD", "2024-01-10T21:59:59Z", "2024-01-10"), ("EURUSD", "2024-01-10T22:00:00Z", "2024-01-11"),
            ("XAUUSD", "2024-07-10T20:59:59Z", "2024-07-10"), ("XAUUSD", "2024-07-10T21:00:00Z", "2024-07-11"),
            // Sunday evening is Monday, and so is Friday's late print.
            ("EURUSD", "2024-01-07T22:05:00Z", "2024-01-08"), ("EURUSD", "2024-01-05T22:03:00Z", "2024-01-08"),
            ("BTCUSDT", "2024-01-06T23:59:59Z", "2024-01-06"), ("BTCUSDT", "2024-01-07T00:00:00Z", "2024-01-07"),
            ("AAPL", "2024-01-11T01:00:00Z", "2024-01-10"), ("AAPL", "2024-01-10T14:30:00Z", "2024-01-10"),
            // 17:00 Chicago is 23:00 UTC in winter.
            ("ES=F", "2024-01-10T22:59:00Z", "2024-01-10"), ("ES=F", "2024-01-10T23:00:00Z", "2024-01-11"),
            // A Saturday session in Mumbai is a day of its own.
            ("RELIANCE.NS", "2024-01-20T04:00:00Z", "2024-01-20"), ("CZCE_CF", "2024-01-09T13:30:00Z", "2024-01-10"),
            ("EURUSD", "1969-12-31T23:00:00Z", "1970-01-01"),
        ] {
            assert_eq!(guess(symbol).session.trading_day(ns(at)), day(date), "{symbol} {at}");
        }
        // One by one and all at once, over clock changes and backwards.
        let session = guess("EURUSD").session;
        let many: Vec<i64> = (0..5000).rev().map(|h| ns("2024-01-01T00:30:00Z") + h * 3_600_000_000_000).collect();
        let single: Vec<i32> = many.iter().map(|&t| session.trading_day(t)).collect();
        assert_eq!(session.trading_days(&many), single);
        session.trading_days(&[i64::MIN, i64::MAX, 0]);
    }

    #[test]
    #[rustfmt::skip]
    fn clock_times_and_weekdays_round_trip() {
        for (text, shown) in [("Mon-Fri", "Mon-Fri"), ("mon,tue", "Mon,Tue"), ("Sun-Thu", "Mon-Thu,Sun"), ("Monday, Wed , sun", "Mon,Wed,Sun"), ("Mon-Sun", "Mon-Sun")] {
            assert_eq!(text.parse::<Weekdays>().unwrap().to_string(), shown);
        }
        assert!("".parse::<Weekdays>().is_err() && "Mo-Fr".parse::<Weekdays>().is_err());
        assert_eq!("9:30".parse::<ClockTime>().unwrap().to_string(), "09:30");
        for bad in ["24:00", "9", "9:5", "09:60", "-1:00", "+9:30", ""] {
            assert!(bad.parse::<ClockTime>().is_err(), "{bad}");
        }
    }
}
