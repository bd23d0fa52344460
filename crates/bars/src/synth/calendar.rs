//! When bars are: sessions, weekends and a few holidays.
//!
//! Shares trade 09:30 to 16:00 New York on working days; currencies from 17:00 to 17:00 New York, Sunday evening to
//! Friday; coins always. Six US holidays are kept by shares, Christmas and New Year by currencies too. There are no
//! half days.

use super::{MarketKind, Synth};
use crate::Timeframe;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

const DAY: i64 = 86_400_000_000_000;
const LAST_DAY: i64 = 106_000; // in 2260; nanoseconds end two years later

/// The common calendar, and how much happens in each bar.
pub(super) struct Grid {
    pub(super) start: Vec<i64>,    // [T]
    pub(super) end: Vec<i64>,      // [T]
    pub(super) day: Vec<u32>,      // [T] trading days since the first, for regimes
    pub(super) variance: Vec<f64>, // [T] of log price from the close before to this close, in days
    pub(super) gap: Vec<f64>,      // [T] the part of it that lies before the open, 0..1
    pub(super) busy: Vec<f64>,     // [T] usual volume, in days
}

impl Grid {
    pub(super) fn new(synth: &Synth) -> Grid {
        let (n, step) = (synth.bars, synth.timeframe.ns());
        let column = || Vec::with_capacity(n);
        let (start, end, variance, gap, busy) =
            (Vec::with_capacity(n), Vec::with_capacity(n), column(), column(), column());
        let mut grid = Grid { start, end, day: Vec::with_capacity(n), variance, gap, busy };
        let night = |kind, rest: bool| match kind {
            MarketKind::Stocks => 0.25,
            MarketKind::Fx if rest => 0.05,
            MarketKind::Fx | MarketKind::Crypto => 0.0,
        };
        // A bar before the first one would be unlike the others: no day is begun in its middle.
        let first = synth.start.div_euclid(DAY) + i64::from(synth.start.rem_euclid(DAY) != 0);
        let mut trading_day = 0;
        match synth.timeframe {
            Timeframe::Fixed(DAY) => {
                let mut before = first - 1;
                for day in (first..LAST_DAY).filter(|&day| is_open(synth.kind, day)) {
                    if grid.start.len() == n {
                        break;
                    }
                    let gap = night(synth.kind, day > before + 1);
                    grid.push(day * DAY, (day + 1) * DAY, trading_day, 1.0, gap, 1.0);
                    (before, trading_day) = (day, trading_day + 1);
                }
            }
            Timeframe::Fixed(ns) if ns < DAY => {
                let zone = TimeZone::get("America/New_York").unwrap_or(TimeZone::UTC);
                let mut before = first - 1;
                for day in (first..LAST_DAY).filter(|&day| is_open(synth.kind, day)) {
                    if grid.start.len() == n {
                        break;
                    }
                    let (open, close) = trading_hours(synth.kind, day, &zone);
                    let overnight = night(synth.kind, day > before + 1);
                    grid.push_session(open, close, step, trading_day, overnight, synth.kind, n);
                    (before, trading_day) = (day, trading_day + 1);
                }
            }
            // Weeks from Monday (1970-01-05 was one), months from the first: one bar each, whatever lies inside.
            timeframe => {
                let mut from = match timeframe {
                    Timeframe::Months(_) => month_at(first, 0, true),
                    Timeframe::Fixed(ns) => {
                        let days = (ns / DAY).max(1);
                        first + (4 - first).rem_euclid(days)
                    }
                };
                while grid.start.len() < n && from < LAST_DAY {
                    let to = match timeframe {
                        Timeframe::Months(months) => month_at(from, months.clamp(1, 1200), false),
                        Timeframe::Fixed(ns) => from + (ns / DAY).max(1),
                    };
                    let open = (from..to).filter(|&day| is_open(synth.kind, day)).count().max(1) as u32;
                    let days = f64::from(open);
                    grid.push(from * DAY, to * DAY, trading_day, days, night(synth.kind, true) / days, days);
                    (from, trading_day) = (to, trading_day + open);
                }
            }
        }
        grid
    }

    pub(super) fn len(&self) -> usize {
        self.start.len()
    }

    fn push(&mut self, start: i64, end: i64, day: u32, variance: f64, gap: f64, busy: f64) {
        self.start.push(start);
        self.end.push(end);
        self.day.push(day);
        self.variance.push(variance);
        self.gap.push(gap);
        self.busy.push(busy);
    }

    /// One session cut into bars: variance and volume follow the time of day and add up to one day with the night.
    #[expect(clippy::too_many_arguments, reason = "one caller, and a struct would only rename its locals")]
    fn push_session(&mut self, open: i64, close: i64, step: i64, day: u32, overnight: f64, kind: MarketKind, n: usize) {
        let count = ((close - open + step - 1) / step).max(1);
        let bar = |i: i64| (open + i * step, (open + (i + 1) * step).min(close));
        let weight = |i: i64| {
            let (from, to) = bar(i);
            let middle = (from + to) as f64 * 0.5 - open as f64;
            intraday_activity(kind, middle / (close - open) as f64) * (to - from) as f64
        };
        let total: f64 = (0..count).map(weight).sum();
        for i in 0..count.min((n - self.len()) as i64) {
            let share = weight(i) / total;
            let night = if i == 0 { overnight } else { 0.0 };
            let variance = (1.0 - overnight) * share + night;
            let (from, to) = bar(i);
            self.push(from, to, day, variance, night / variance, share);
        }
    }
}

/// Variance and volume by the time of day, `u` from 0 to 1: a U for shares, London and New York's morning for the rest.
fn intraday_activity(kind: MarketKind, u: f64) -> f64 {
    let hump = |centre: f64, width: f64| (1.0 - ((u - centre) / width) * ((u - centre) / width)).max(0.0);
    match kind {
        MarketKind::Stocks => 0.6 + 1.6 * (2.0 * u - 1.0) * (2.0 * u - 1.0),
        MarketKind::Crypto => 0.8 + 0.8 * hump(0.62, 0.2),
        // The day starts at 17:00 New York, so London opens at 0.42 and New York at 0.65.
        MarketKind::Fx => 0.4 + 1.2 * hump(0.6, 0.25),
    }
}

/// Whether a trading day exists, by its number since 1970.
fn is_open(kind: MarketKind, day: i64) -> bool {
    let weekday = (day + 3).rem_euclid(7); // 0 is Monday
    match kind {
        MarketKind::Crypto => true,
        MarketKind::Fx => {
            weekday < 5
                && !matches!(to_date(day), d if (d.month(), d.day()) == (1, 1) || (d.month(), d.day()) == (12, 25))
        }
        MarketKind::Stocks => weekday < 5 && !is_us_holiday(to_date(day)),
    }
}

fn is_us_holiday(date: Date) -> bool {
    let (month, day, weekday) = (date.month(), date.day(), date.weekday());
    // A holiday on Sunday is kept on Monday, one on Saturday on Friday (New Year's is then not kept at all).
    let kept = |m: i8, d: i8| {
        month == m
            && (day == d || day == d + 1 && weekday == Weekday::Monday || day == d - 1 && weekday == Weekday::Friday)
    };
    match weekday {
        Weekday::Monday if month == 5 && day > 24 => true, // Memorial Day
        Weekday::Monday if month == 9 && day < 8 => true,  // Labor Day
        Weekday::Thursday if month == 11 && (22..=28).contains(&day) => true, // Thanksgiving
        _ => kept(1, 1) || kept(7, 4) || kept(12, 25),
    }
}

/// The session of a trading day.
fn trading_hours(kind: MarketKind, day: i64, zone: &TimeZone) -> (i64, i64) {
    let at = |date: Date, hour: i8, minute: i8| {
        let local =
            zone.to_ambiguous_timestamp(date.at(hour, minute, 0, 0)).compatible().unwrap_or(Timestamp::UNIX_EPOCH);
        local.as_second() * 1_000_000_000
    };
    match kind {
        MarketKind::Stocks => (at(to_date(day), 9, 30), at(to_date(day), 16, 0)),
        MarketKind::Fx => (at(to_date(day - 1), 17, 0), at(to_date(day), 17, 0)),
        MarketKind::Crypto => (day * DAY, (day + 1) * DAY),
    }
}

fn to_date(day: i64) -> Date {
    let date = Date::constant(1970, 1, 1).checked_add(Span::new().days(day.clamp(-100_000, 200_000)));
    date.unwrap_or(Date::constant(1970, 1, 1))
}

/// The first of the month `months` later; `up` rounds a day inside a month up to the next first.
fn month_at(day: i64, months: i64, up: bool) -> i64 {
    let from = to_date(day);
    let months = months + i64::from(up && from.day() > 1);
    let to = from.first_of_month().checked_add(Span::new().months(months)).unwrap_or(from);
    i64::from((to - Date::constant(1970, 1, 1)).get_days())
}
