//! When a session opens and closes, and when the trading day turns, as instants.
//!
//! Zones are asked once a season; in between it is arithmetic. Every answer is a function of the question alone: what
//! was asked before only makes it faster. Where a clock shows a time twice the first counts; where it skips one, the
//! instant of the skip.

use super::session::{Session, find_zone};
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400; // in seconds, as everything local is

/// One session, and when the one after it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionHours {
    /// Its trading day, in days since 1970; holds no session where `Session::days` lacks it.
    pub day: i32,
    /// When it opens.
    pub open: i64,
    /// When it closes.
    pub close: i64,
    /// When the next calendar day's session opens.
    pub next: i64,
}

/// Finds the sessions of an instrument, one every calendar day.
#[derive(Debug, Clone)]
pub struct SessionClock {
    clock: LocalClock,
    open: i64,  // seconds of the local day
    close: i64, // the same, beyond a day where it closes on the next
    rollovers: DayRollovers,
}

impl Session {
    /// Its hours as instants. A zone that does not exist counts as UTC, as in [`Session::trading_days`].
    pub fn session_clock(&self) -> SessionClock {
        let open = i64::from(self.open.0) * 60;
        let close = i64::from(self.close.0) * 60;
        let close = if close <= open { close + DAY } else { close };
        SessionClock { clock: LocalClock::new(&self.timezone), open, close, rollovers: DayRollovers::new(self) }
    }
}

impl SessionClock {
    /// The session that opened last, at that instant or before.
    pub fn session_at(&mut self, ns: i64) -> SessionHours {
        let mut day = (self.clock.local_second(ns.div_euclid(SECOND)) - self.open).div_euclid(DAY);
        let (mut open, mut next) = (self.clock.instant(day, self.open), self.clock.instant(day + 1, self.open));
        // A clock that changes at the open may be a day off.
        for _ in 0..2 {
            if ns < open {
                (day, next) = (day - 1, open);
                open = self.clock.instant(day, self.open);
            } else if ns >= next {
                (day, open) = (day + 1, next);
                next = self.clock.instant(day + 1, self.open);
            }
        }
        let close = self.clock.instant(day, self.close).clamp(open, next.max(open));
        SessionHours { day: self.rollovers.day_at(open) as i32, open, close, next }
    }
}

/// Tells the trading date of a bar of a day or longer from its stamp.
#[derive(Debug, Clone)]
pub struct TradingDates(DayRollovers);

impl Session {
    /// The trading dates of daily bars. A zone that does not exist counts as UTC.
    pub fn trading_dates(&self) -> TradingDates {
        TradingDates(DayRollovers::new(self))
    }
}

impl TradingDates {
    /// Days since 1970 of the date a stamp stands for: midnight UTC is how files write a date; others stamp the
    /// session's open, the turn of the day or midnight there, and feeds that miss a clock change are an hour or two
    /// early.
    pub fn date_at(&mut self, ns: i64) -> i64 {
        if ns % (DAY * SECOND) == 0 {
            return ns / (DAY * SECOND);
        }
        let day = self.0.day_at(ns.saturating_add(3 * 3600 * SECOND));
        self.0.to_trading_day(day)
    }
}

/// When trading days turn. Days here run from turn to turn without regard for weekends; [`Turns::forward`] adds that.
#[derive(Debug, Clone)]
pub(super) struct DayRollovers {
    clock: LocalClock,
    at: i64, // seconds of the local day; below 0 for an evening that opens the next day
    days: super::Weekdays,
    skips: bool, // a day without a session counts towards the next one with
}

impl DayRollovers {
    pub(super) fn new(session: &Session) -> DayRollovers {
        let evening = session.trading_day.at.0 > 12 * 60;
        DayRollovers {
            clock: LocalClock::new(&session.trading_day.timezone),
            at: i64::from(session.trading_day.at.0) * 60 - if evening { DAY } else { 0 },
            days: session.days,
            skips: evening,
        }
    }

    /// For bars that carry their trading date as midnight UTC, whatever the market's hours.
    pub(super) fn dated(session: &Session) -> DayRollovers {
        DayRollovers {
            clock: LocalClock { zone: TimeZone::UTC, ..LocalClock::new("UTC") },
            at: 0,
            ..DayRollovers::new(session)
        }
    }

    /// The day an instant lies in.
    pub(super) fn day_at(&mut self, ns: i64) -> i64 {
        let mut day = (self.clock.local_second(ns.div_euclid(SECOND)) - self.at).div_euclid(DAY);
        for _ in 0..2 {
            if ns < self.day_start(day) {
                day -= 1;
            } else if ns >= self.day_start(day + 1) {
                day += 1;
            }
        }
        day
    }

    /// When a day begins.
    pub(super) fn day_start(&mut self, day: i64) -> i64 {
        self.clock.instant(day, self.at)
    }

    /// The trading day that day counts as.
    pub(super) fn to_trading_day(&self, day: i64) -> i64 {
        if !self.skips {
            return day;
        }
        (day..day + 6).find(|d| self.days.contains(*d as i32)).unwrap_or(day + 6)
    }

    /// The first day that counts as that trading day or a later one.
    pub(super) fn first_calendar_day(&self, trading_day: i64) -> i64 {
        let mut day = trading_day;
        while day > trading_day - 6 && self.to_trading_day(day - 1) >= trading_day {
            day -= 1;
        }
        day
    }
}

/// A zone's clock, its offset remembered while it holds.
#[derive(Debug, Clone)]
struct LocalClock {
    zone: TimeZone,
    from: i64, // seconds; the offset holds in [from, until)
    until: i64,
    offset: i64,
}

impl LocalClock {
    fn new(name: &str) -> LocalClock {
        LocalClock { zone: find_zone(name).unwrap_or(TimeZone::UTC), from: 1, until: 0, offset: 0 }
    }

    /// What the clock shows, in seconds since its 1970.
    fn local_second(&mut self, second: i64) -> i64 {
        if second < self.from || second >= self.until {
            let at = to_timestamp(second);
            self.offset = i64::from(self.zone.to_offset(at).seconds());
            self.from =
                self.zone.preceding(to_timestamp(second + 1)).next().map_or(i64::MIN, |t| t.timestamp().as_second());
            self.until = self.zone.following(at).next().map_or(i64::MAX, |t| t.timestamp().as_second());
        }
        second + self.offset
    }

    /// The first instant at which the clock shows that second of that day, or later; in nanoseconds.
    fn instant(&self, day: i64, second: i64) -> i64 {
        // Nanoseconds in 64 bits end within 110,000 days of 1970.
        let local = day.clamp(-200_000, 200_000) * DAY + second;
        let guess = local - self.offset;
        // A day after the last change no clock shows an hour for the second time.
        if guess > self.from.saturating_add(DAY) && guess < self.until {
            return guess.saturating_mul(SECOND);
        }
        let shown = Offset::UTC.to_datetime(to_timestamp(local));
        let seconds = |offset: Offset| i64::from(offset.seconds());
        let instant = match self.zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => local - seconds(offset),
            AmbiguousOffset::Fold { before, .. } => local - seconds(before),
            AmbiguousOffset::Gap { before, .. } => {
                let after = local - seconds(before);
                self.zone.preceding(to_timestamp(after + 1)).next().map_or(after, |t| t.timestamp().as_second())
            }
        };
        instant.saturating_mul(SECOND)
    }
}

fn to_timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}
