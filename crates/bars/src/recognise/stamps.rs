//! What a stamp means: its zone, which end of the bar it marks, the timeframe, and the scale of the prices.
//!
//! Evidence decides, and is written down. Sessions are the best witness: a day whose first stamp is 09:31 and whose
//! last is 16:00 is labelled by the end of its bars; one that runs from 09:30 to 15:59 by their start. Without evidence
//! a stamp is the start of its bar and a wall clock is UTC, the first because it makes a bar known later, the second
//! because nothing better is known, and it is said aloud.

use super::{Evidence, Layout, StampMarks, TimeColumns, read_value, stamp_marks_set};
use crate::instrument::Hints;
use crate::{Class, Instrument, Timeframe};
use files::{Data, MISSING_TIME, time};
use jiff::tz::TimeZone;
use std::collections::HashMap;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The zone of stamps that do not state one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Zone {
    Utc,
    /// Nanoseconds east of UTC.
    Fixed(i64),
    Named(TimeZone),
    /// MetaTrader brokers: the day ends at 17:00 in New York, so clocks run seven hours ahead of it.
    NewYorkPlus7(TimeZone),
}

impl Zone {
    /// `UTC`, `America/New_York`, `+05:30`, `New_York+7`.
    pub(crate) fn parse(text: &str) -> Option<Zone> {
        if text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("gmt") || text == "Z" {
            return Some(Zone::Utc);
        }
        if text.eq_ignore_ascii_case("new_york+7") {
            return TimeZone::get("America/New_York").ok().map(Zone::NewYorkPlus7);
        }
        if text.starts_with(['+', '-']) {
            let stamp = time::parse(format!("2000-01-01 00:00:00{text}").as_bytes(), time::Order::Ymd)?;
            let noon = time::parse(b"2000-01-01 00:00:00", time::Order::Ymd)?;
            return stamp.zoned.then_some(Zone::Fixed(noon.ns - stamp.ns));
        }
        TimeZone::get(text).ok().map(Zone::Named)
    }

    /// The IANA name of an exchange's or a place's own clock.
    pub(crate) fn name(&self) -> Option<&str> {
        if let Zone::Named(zone) = self { zone.iana_name() } else { None }
    }

    /// Turns wall clocks into instants. In the hour that a zone repeats in autumn, the second pass is told from the
    /// first by the stamps going back; stamps inside the hour that spring skips are shifted forward.
    pub(crate) fn to_utc(&self, wall: &mut [i64]) {
        let (zone, ahead) = match self {
            Zone::Utc => return,
            Zone::Fixed(east) => return wall.iter_mut().for_each(|ns| *ns = ns.saturating_sub(*east)),
            Zone::Named(zone) => (zone, 0),
            Zone::NewYorkPlus7(zone) => (zone, 7 * HOUR),
        };
        let mut hour = i64::MIN;
        let mut offsets = (0, 0);
        let mut last = i64::MIN;
        for ns in wall.iter_mut().filter(|ns| **ns != MISSING_TIME) {
            let local = *ns - ahead;
            // Offsets change on quarter hours at the finest.
            if local.div_euclid(15 * MINUTE) != hour {
                hour = local.div_euclid(15 * MINUTE);
                offsets = offsets_at(zone, local);
            }
            let (first, second) = (local - offsets.0, local - offsets.1);
            *ns = if first <= last && second > last && second - last < 6 * HOUR { second } else { first };
            last = *ns;
        }
    }
}

/// The offsets (east of UTC, in nanoseconds) a wall clock can have: twice the same but where an hour repeats.
fn offsets_at(zone: &TimeZone, wall: i64) -> (i64, i64) {
    let Ok(stamp) = jiff::Timestamp::from_nanosecond(i128::from(wall)) else { return (0, 0) };
    let civil = TimeZone::UTC.to_datetime(stamp);
    let ambiguous = zone.to_ambiguous_timestamp(civil);
    let utc = |t: Result<jiff::Timestamp, jiff::Error>| {
        t.ok().and_then(|t| i64::try_from(t.as_nanosecond()).ok()).map_or(0, |t| wall - t)
    };
    (utc(ambiguous.earlier()), utc(ambiguous.later()))
}

/// Settles zone, stamp, timeframe and scale of a layout from its sample.
pub(super) fn settle_stamps(layout: &mut Layout, given: &Evidence<'_>, only_end: bool) {
    let symbol = layout.groups[0].symbol.clone().unwrap_or_else(|| given.file.symbol.clone());
    let first = layout.symbol.and_then(|at| given.sample.columns[at].data.text(0).map(str::to_string));
    let hints = Hints { class: layout.class, words: path_words(given), ..Hints::default() };
    let traded = Instrument::guess(&first.unwrap_or(symbol), &hints).0;
    let class = traded.class;
    let (mut labels, stated) = sample_stamps(layout, given);
    if !stated {
        zone_from_evidence(layout, given);
        layout.zone.to_utc(&mut labels);
    }
    labels.retain(|ns| *ns != MISSING_TIME);
    labels.sort_unstable();
    labels.dedup();
    let step = most_common_step(labels.windows(2).map(|w| w[1] - w[0]));
    if let Some(step) = step {
        if let Some(named) = layout.timeframe
            && named != step
            && given.lean.is_none()
            && !given.file.stated
        {
            layout.warnings.push(format!("the file's name says {named}, its stamps say {step}; the stamps decide"));
        }
        // LEAN's folders state it; thin contracts would mislead.
        if given.lean.is_none() && !given.file.stated {
            layout.timeframe = Some(step);
        }
    }
    let saturday = labels.iter().filter(|ns| (ns.div_euclid(DAY) + 3).rem_euclid(7) == 5).count();
    layout.saturdays = saturday > 1 && saturday * 12 >= labels.len();
    // A day in Tel Aviv begins on Saturday evening, UTC: an exchange that is known stays one.
    let unknown = class == Class::Equity && traded.currency == "USD";
    let class = if layout.saturdays && unknown { Class::CryptoSpot } else { class };
    let sessions = ObservedSessions::observe(&labels, layout.timeframe.map_or(MINUTE, Timeframe::ns));
    decide_stamp_marks(layout, given, &labels, &sessions, only_end);
    if !stated && given.options.timezone.is_none() && layout.zone == Zone::Utc && given.lean.is_none() {
        guess_zone(layout, given, &Instrument { class, ..traded }, &sessions, &labels);
    }
    guess_price_scale(layout, given, class);
}

/// The labels of the sample (of its first symbol), and whether their zone is stated.
fn sample_stamps(layout: &Layout, given: &Evidence<'_>) -> (Vec<i64>, bool) {
    let columns = &given.sample.columns;
    let (mut labels, stated) = crate::ingest::read_stamps(layout.time, &|at| columns.get(at).map(|c| &c.data));
    if let Some(at) = layout.symbol {
        let same = |row: usize| match &columns[at].data {
            Data::I64(codes) => codes[row] == codes[0],
            text => text.text(row) == text.text(0),
        };
        let mut row = 0;
        labels.retain(|_| {
            row += 1;
            same(row - 1)
        });
    }
    (labels, stated)
}

fn path_words(given: &Evidence<'_>) -> Vec<String> {
    let mut words: Vec<String> = given.file.words.clone();
    // `nse50` is about `nse`.
    words.extend(given.file.words.iter().map(|w| w.trim_end_matches(|c: char| c.is_ascii_digit()).to_string()));
    words.extend(given.path.components().rev().take(6).map(|c| c.as_os_str().to_string_lossy().to_lowercase()));
    words
}

/// A zone that the user, the layout or the file itself states.
fn zone_from_evidence(layout: &mut Layout, given: &Evidence<'_>) {
    if let Some(text) = &given.options.timezone {
        if let Some(zone) = Zone::parse(text) {
            layout.zone = zone;
            layout.why.push(format!("stamps without a time zone are {text}, as set"));
        }
        return;
    }
    if let Some(lean) = given.lean {
        if let Some(zone) = Zone::parse(lean.zone()) {
            layout.zone = zone;
            layout.why.push(format!("stamps are in {}, as LEAN stores this market", lean.zone()));
        }
        return;
    }
    let words = path_words(given);
    let has = |w: &str| words.iter().any(|x| x.contains(w));
    if (has("histdata") || (has("dat") && has("ascii"))) && matches!(layout.time, TimeColumns::Stamp(_)) {
        layout.zone = Zone::Fixed(-5 * HOUR);
        layout.why.push("HistData files are in EST without daylight saving: UTC-5".into());
    }
}

/// The first and last stamp of each session, as times of day, and how often each occurs.
pub(crate) struct ObservedSessions {
    first: HashMap<i64, usize>,
    last: HashMap<i64, usize>,
    count: usize,
    week_open: HashMap<(i64, i64), usize>, // (weekday from Monday, time of day) after a gap of more than a day
}

impl ObservedSessions {
    fn observe(labels: &[i64], step: i64) -> ObservedSessions {
        let mut found =
            ObservedSessions { first: HashMap::new(), last: HashMap::new(), count: 0, week_open: HashMap::new() };
        for pair in labels.windows(2) {
            let gap = pair[1] - pair[0];
            if gap >= (3 * step).max(30 * MINUTE) {
                *found.last.entry(pair[0].rem_euclid(DAY)).or_default() += 1;
                *found.first.entry(pair[1].rem_euclid(DAY)).or_default() += 1;
                found.count += 1;
            }
            if gap > DAY {
                // 1970-01-01 was a Thursday.
                let weekday = (pair[1].div_euclid(DAY) + 3).rem_euclid(7);
                *found.week_open.entry((weekday, pair[1].rem_euclid(DAY))).or_default() += 1;
            }
        }
        found
    }

    /// The commonest first and last times of day, where three of five sessions share them.
    fn edges(&self) -> Option<(i64, i64)> {
        if self.count < 3 {
            return None;
        }
        let common = |edges: &HashMap<i64, usize>| {
            let (at, n) = edges.iter().max_by_key(|(at, n)| (**n, -**at))?;
            (n * 5 >= self.count * 3).then_some(*at)
        };
        Some((common(&self.first)?, common(&self.last)?))
    }
}

fn format_clock(ns: i64) -> String {
    format!("{:02}:{:02}", ns / HOUR, ns / MINUTE % 60)
}

/// Which end of the bar a stamp marks.
fn decide_stamp_marks(
    layout: &mut Layout,
    given: &Evidence<'_>,
    labels: &[i64],
    sessions: &ObservedSessions,
    only_end: bool,
) {
    let step = layout.timeframe.map_or(0, Timeframe::ns);
    // `…:59.999` and `…:59` just before a bar's border.
    let before = |add: i64| {
        let hits = labels.iter().filter(|ns| (*ns + add).rem_euclid(step.max(1)) == 0).count();
        step >= MINUTE && !labels.is_empty() && hits * 10 >= labels.len() * 9
    };
    let add = [1_000_000, SECOND, 1_000, 1].into_iter().find(|add| before(*add) && !before(0));
    if let Some(marks) = stamp_marks_set(given.options.label) {
        layout.stamp =
            if let StampMarks::End { .. } = marks { StampMarks::End { add: add.unwrap_or(0) } } else { marks };
        layout.why.push(format!(
            "stamps mark the {} of a bar, as set",
            if marks == StampMarks::Start { "start" } else { "end" }
        ));
    } else if only_end || add.is_some() {
        layout.stamp = StampMarks::End { add: add.unwrap_or(0) };
        layout.why.push(
            if only_end {
                "the time column is named as the end of the bar"
            } else {
                "stamps lie just before the next bar: they mark the end"
            }
            .into(),
        );
    } else if matches!(layout.timeframe, Some(Timeframe::Months(_))) && are_month_ends(labels) {
        layout.stamp = StampMarks::MonthEnd;
        layout.why.push("stamps are the last days of months: they mark the end".into());
    } else if layout.end.is_some() {
        layout.why.push("start and end of each bar are columns of their own".into());
    } else if given.lean.is_some() {
        layout.why.push("LEAN stamps the start of a bar".into());
    } else if step >= DAY {
        layout.why.push("a daily stamp is its date; the bar is known when that day is over".into());
    } else if let Some((first, last)) = sessions.edges().filter(|_| step > 0 && step < 15 * MINUTE) {
        let grid = 15 * MINUTE;
        let (first_s, last_s) = (format_clock(first), format_clock(last));
        if first % grid == step && last % grid == 0 {
            layout.stamp = StampMarks::End { add: 0 };
            layout.why.push(format!("sessions run from {first_s} to {last_s}: stamps mark the end of a bar"));
        } else if first % grid == 0 && (last + step) % grid == 0 {
            layout.why.push(format!("sessions run from {first_s} to {last_s}: stamps mark the start of a bar"));
        } else {
            layout
                .why
                .push("stamps are read as bar start (no evidence; it makes a bar known later, never earlier)".into());
        }
    } else {
        layout.why.push("stamps are read as bar start (no evidence; it makes a bar known later, never earlier)".into());
    }
}

fn are_month_ends(labels: &[i64]) -> bool {
    let last = |ns: &i64| time::civil(ns.div_euclid(DAY) + 1).2 == 1;
    labels.len() >= 3 && labels.iter().filter(|ns| last(ns)).count() * 10 >= labels.len() * 9
}

/// A zone that the sessions betray; else UTC, said aloud.
fn guess_zone(
    layout: &mut Layout,
    given: &Evidence<'_>,
    traded: &Instrument,
    sessions: &ObservedSessions,
    labels: &[i64],
) {
    let class = traded.class;
    let step = layout.timeframe.map_or(0, Timeframe::ns);
    if step >= DAY {
        return;
    }
    let comment = given.header.iter().flatten().any(|c| c.to_lowercase().contains("utc"));
    let named = layout.time.columns().iter().any(|at| {
        let name = given.sample.columns.get(*at).map(|c| c.name.to_lowercase()).unwrap_or_default();
        name.contains("utc") || name.contains("gmt")
    });
    if comment || named {
        layout.why.push("the header says UTC".into());
        return;
    }
    let shift = if let StampMarks::End { .. } = layout.stamp { step } else { 0 };
    if let Some((first, last)) = sessions.edges() {
        let open = first - shift;
        let close = last - shift + step;
        let fits = |o: i64, c: i64| open == o && (close - c).abs() <= 15 * MINUTE;
        let zone = if matches!(class, Class::Equity | Class::Index)
            && fits(9 * HOUR + 15 * MINUTE, 15 * HOUR + 30 * MINUTE)
        {
            Some(("Asia/Kolkata", "09:15 to 15:30 are the hours of India's exchanges"))
        } else if matches!(class, Class::Equity | Class::Index) && fits(9 * HOUR + 30 * MINUTE, 16 * HOUR) {
            Some(("America/New_York", "09:30 to 16:00 are the hours of New York's exchanges"))
        } else if class == Class::Equity && traded.currency == "USD" && fits(4 * HOUR, 20 * HOUR) {
            Some(("America/New_York", "04:00 to 20:00 are New York's hours with pre-market and after-hours trading"))
        } else {
            None
        };
        if let Some((name, reason)) = zone
            && let Some(zone) = Zone::parse(name)
        {
            layout.zone = zone;
            layout.why.push(format!("stamps without a time zone are read as {name}: {reason}"));
            return;
        }
    }
    if exchange_hours(layout, given, traded, sessions, labels, shift) {
        return;
    }
    let weeks: usize = sessions.week_open.values().sum();
    let monday = sessions
        .week_open
        .iter()
        .filter(|((day, at), _)| *day == 0 && *at - shift < 10 * MINUTE)
        .map(|(_, n)| n)
        .sum::<usize>();
    if matches!(class, Class::Fx | Class::Metal | Class::Commodity)
        && weeks >= 2
        && monday * 10 >= weeks * 8
        && labels.len() > 100
    {
        if let Some(zone) = Zone::parse("New_York+7") {
            layout.zone = zone;
            layout.why.push(
                "weeks open on Monday at 00:00, so the clock is a broker's: New York + 7 hours (UTC+2, +3 in summer)"
                    .into(),
            );
        }
        return;
    }
    if matches!(class, Class::CryptoSpot | Class::CryptoPerp) {
        layout.why.push("no time zone is given; crypto venues use UTC".into());
        return;
    }
    layout.warnings.push("stamps have no time zone and are read as UTC; set bars.timezone if they are not".into());
}

/// Stamps that lie within the exchange's hours read as its own clock are in that clock: read as UTC they would be known
/// hours too early. Data that are in UTC miss those hours by the zone's offset.
fn exchange_hours(
    layout: &mut Layout,
    given: &Evidence<'_>,
    traded: &Instrument,
    sessions: &ObservedSessions,
    labels: &[i64],
    shift: i64,
) -> bool {
    let session = &traded.session;
    if !matches!(traded.class, Class::Equity | Class::Index) || session.round_the_clock || labels.len() < 20 {
        return false;
    }
    let step = layout.timeframe.map_or(0, Timeframe::ns);
    let (open, close) = (i64::from(session.open.0) * MINUTE, i64::from(session.close.0) * MINUTE);
    // A first stamp one bar after the opening and a last one at the close or behind it mark the ends of bars.
    let ends = shift == 0
        && given.options.label == crate::StampOption::Auto
        && layout.end.is_none()
        && sessions.edges().is_some_and(|(first, last)| first - step == open && last >= close);
    let shift = if ends { step } else { shift };
    let inside = |ns: &&i64| (open..=close).contains(&(ns.rem_euclid(DAY) - shift));
    if labels.iter().filter(inside).count() * 100 < labels.len() * 97 {
        return false;
    }
    let Some(zone) = Zone::parse(&session.timezone) else { return false };
    layout.zone = zone;
    layout.why.push(format!(
        "stamps without a time zone are read as {}: nearly all lie between {} and {}, its session",
        session.timezone, session.open, session.close
    ));
    if ends {
        layout.stamp = StampMarks::End { add: 0 };
        layout.why.push("the first stamp of a day is one bar after the opening: stamps mark the end of a bar".into());
    }
    true
}

/// FX quotes stored as whole points.
fn guess_price_scale(layout: &mut Layout, given: &Evidence<'_>, class: Class) {
    let super::Prices::Ohlc(at) = &layout.groups[0].prices else { return };
    if class != Class::Fx || given.lean.is_some() || given.sample.rows == 0 {
        return;
    }
    let data = &given.sample.columns[at[3]].data;
    let mut closes: Vec<f64> =
        (0..given.sample.rows).map(|row| read_value(data, row)).filter(|v| v.is_finite()).collect();
    closes.sort_by(f64::total_cmp);
    let Some(median) = closes.get(closes.len() / 2).copied() else { return };
    let whole = closes.iter().filter(|v| (*v - v.round()).abs() < 1e-6 * v.abs()).count();
    if median > 5_000.0 && whole * 100 >= closes.len() * 99 {
        let yen = layout.groups[0].symbol.as_deref().unwrap_or(&given.file.symbol).to_uppercase().contains("JPY");
        layout.scale = if yen { 1e3 } else { 1e5 };
        layout.why.push(format!(
            "whole numbers around {median:.0} are not plausible rates: prices are divided by {}",
            layout.scale
        ));
    }
}

/// The commonest step between stamps; months are told from days. `None` if no step is common.
pub(crate) fn most_common_step(steps: impl Iterator<Item = i64>) -> Option<Timeframe> {
    let mut counts: HashMap<i64, usize> = HashMap::new();
    let mut total = 0usize;
    for step in steps.filter(|s| *s > 0) {
        // Stamps drift by milliseconds on some venues.
        let rounded = if step > 10 * SECOND { (step + SECOND / 2) / SECOND * SECOND } else { step };
        if counts.len() < 4096 || counts.contains_key(&rounded) {
            *counts.entry(rounded).or_default() += 1;
        }
        total += 1;
    }
    let (step, n) = counts.iter().max_by_key(|(step, n)| (**n, -**step)).map(|(s, n)| (*s, *n))?;
    // Months, quarters and years have no fixed length.
    for (n, days) in [(1, 28..=31), (3, 89..=93), (12, 364..=367)] {
        let fits = |s: &i64| days.contains(&((s + DAY / 2) / DAY));
        let hits = counts.iter().filter(|(s, _)| fits(s)).map(|(_, n)| n).sum::<usize>();
        if hits * 5 >= total * 4 && fits(&step) {
            return Some(Timeframe::Months(n));
        }
    }
    (n * 10 >= total).then_some(Timeframe::Fixed(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_convert_to_utc() {
        let check = |zone: &str, wall: &[&str], utc: &[&str]| {
            let mut ns: Vec<i64> =
                wall.iter().filter_map(|w| time::parse(w.as_bytes(), time::Order::Ymd)).map(|s| s.ns).collect();
            Zone::parse(zone).unwrap().to_utc(&mut ns);
            let got: Vec<String> = ns.iter().map(|ns| time::rfc3339(*ns)).collect();
            assert_eq!(got, utc, "{zone}");
        };
        check(
            "America/New_York",
            &["2019-01-02 09:30", "2019-07-02 09:30"],
            &["2019-01-02T14:30:00Z", "2019-07-02T13:30:00Z"],
        );
        check("Asia/Kolkata", &["2019-01-02 09:15"], &["2019-01-02T03:45:00Z"]);
        check("-05:00", &["2010-11-15 02:00"], &["2010-11-15T07:00:00Z"]);
        check(
            "New_York+7",
            &["2022-01-03 00:00", "2022-07-04 00:00"],
            &["2022-01-02T22:00:00Z", "2022-07-03T21:00:00Z"],
        );
        // The hour that repeats on 2019-11-03: stamps that go back are in its second pass.
        check(
            "America/New_York",
            &[
                "2019-11-03 00:30",
                "2019-11-03 01:00",
                "2019-11-03 01:30",
                "2019-11-03 01:00",
                "2019-11-03 01:30",
                "2019-11-03 02:00",
            ],
            &[
                "2019-11-03T04:30:00Z",
                "2019-11-03T05:00:00Z",
                "2019-11-03T05:30:00Z",
                "2019-11-03T06:00:00Z",
                "2019-11-03T06:30:00Z",
                "2019-11-03T07:00:00Z",
            ],
        );
    }

    #[test]
    fn timeframe_is_the_most_common_step() {
        assert_eq!(most_common_step([DAY, DAY, 3 * DAY, DAY].into_iter()), Some(Timeframe::D1));
        assert_eq!(most_common_step([31 * DAY, 28 * DAY, 31 * DAY, 30 * DAY].into_iter()), Some(Timeframe::Months(1)));
        assert_eq!(
            most_common_step([8 * HOUR + 3_000_000, 8 * HOUR - 2_000_000, 8 * HOUR].into_iter()),
            Some(Timeframe::Fixed(8 * HOUR))
        );
        assert_eq!(most_common_step([].into_iter()), None);
    }

    #[test]
    fn unknown_time_zone_is_rejected() {
        assert_eq!(Zone::parse("Mars/Olympus"), None);
        assert_eq!(Zone::parse("+25:00"), None);
    }
}
