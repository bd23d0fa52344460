//! Sees the bars of one symbol go by, in order and each once, and remembers what an audit needs: a few kilobytes,
//! however many bars.

use super::Hole;
use super::jumps::{JumpBar, JumpWatch};
use crate::ingest::Rows;
use crate::instrument::LocalTime;
use crate::recognise::names;
use crate::{Class, Instrument, Timeframe, Weekdays};
use files::time::{civil, days, rfc3339};
use xxhash_rust::xxh3::Xxh3;

const MINUTE: i64 = 60_000_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// What was seen of one symbol.
pub(crate) struct BarObserver {
    timeframe: Timeframe,
    step: i64,
    all_week: bool,
    zone: String, // of the session
    pub bars: u64,
    pub first: i64,
    pub last: i64,
    pub close_first: f64,
    pub close_last: f64,
    pub low: f64,
    pub high: f64,
    pub stuck_bars: u64,
    pub spikes: u64,
    pub worst_spike: Option<(f64, i64)>,
    pub zero_volume: u64,
    pub with_volume: u64,
    largest_volume: (f64, i64),     // and when
    volume_logs: (f64, u64, usize), // sum and number of sampled logarithms; bars until the next one
    pub zone_jumps: Vec<i64>,
    pub jumps: JumpWatch,
    /// `[first bar, last bar]` starts around each stretch without bars
    gaps: Vec<(i64, i64)>,
    slots: [Vec<u32>; 2], // [season][slot of the week] bars seen
    season: Season,
    /// Dates (days since 1970) with a bar, ascending.
    pub active: Vec<i32>,
    hash: Xxh3,
    prev: Option<PreviousBar>,
    scale: f64, // typical absolute return
    stuck: u64,
    sessions: SessionStarts,
    adjusted: Option<usize>, // the extra column with adjusted closes
}

pub(super) struct PreviousBar {
    start: i64,
    pub close: f64,
    back: f64,  // return of the bar before
    scale: f64, // typical return before that
}

#[derive(Default)]
struct SessionStarts {
    usual: Option<i64>,
    other: Option<(i64, u8, i64)>, // time of day, sessions in a row, first date
}

/// New York's daylight saving splits the year into the two seasons of most sessions.
#[derive(Default)]
struct Season {
    year: i64,
    from: i64,
    to: i64,
}

impl Season {
    fn season_of(&mut self, day: i64) -> usize {
        let (year, ..) = civil(day);
        if year != self.year {
            self.year = year;
            // Second Sunday of March to first Sunday of November.
            self.from = sunday(year, 3, 8);
            self.to = sunday(year, 11, 1);
        }
        usize::from(day >= self.from && day < self.to)
    }
}

/// The first Sunday on or after a date.
fn sunday(year: i64, month: i64, day: i64) -> i64 {
    let from = days(year, month, day).unwrap_or(0);
    from + (3 - from).rem_euclid(7)
}

impl BarObserver {
    pub(crate) fn new(timeframe: Timeframe, instrument: &Instrument, extras: &[String]) -> BarObserver {
        let step = timeframe.ns();
        let slots = if step >= DAY { 7 } else { usize::try_from(WEEK / step.max(MINUTE)).unwrap_or(1).max(1) };
        BarObserver {
            timeframe,
            step,
            all_week: instrument.session.round_the_clock && instrument.session.days == Weekdays::ALL,
            zone: instrument.session.timezone.clone(),
            bars: 0,
            first: 0,
            last: 0,
            close_first: f64::NAN,
            close_last: f64::NAN,
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            stuck_bars: 0,
            spikes: 0,
            worst_spike: None,
            zero_volume: 0,
            with_volume: 0,
            largest_volume: (0.0, 0),
            volume_logs: (0.0, 0, 0),
            zone_jumps: Vec::new(),
            jumps: JumpWatch {
                splits_possible: matches!(instrument.class, Class::Equity | Class::Index | Class::Future),
                leap: if step <= DAY { 5.0 } else { 30.0 },
                ..JumpWatch::default()
            },
            gaps: Vec::new(),
            slots: [vec![0; slots], vec![0; slots]],
            season: Season::default(),
            active: Vec::new(),
            hash: Xxh3::new(),
            prev: None,
            scale: 0.0,
            stuck: 0,
            sessions: SessionStarts::default(),
            adjusted: extras.iter().position(|name| is_adjusted_close(name)),
        }
    }

    fn watch_volume(&mut self, volume: &[f64], stamps: &[i64]) {
        const EVERY: usize = 16;
        let most = volume.iter().fold(0.0f64, |a, b| a.max(*b));
        if most > self.largest_volume.0 {
            let at = volume.iter().position(|v| *v == most).unwrap_or(0);
            self.largest_volume = (most, stamps[at]);
        }
        let (sum, n, skip) = &mut self.volume_logs;
        for v in volume.iter().skip(*skip).step_by(EVERY).filter(|v| **v > 0.0) {
            *sum += v.ln();
            *n += 1;
        }
        *skip = (*skip + EVERY - volume.len() % EVERY) % EVERY;
    }

    /// How many times its usual volume the largest one is, and when, if no market does that.
    pub(crate) fn volume_burst(&self) -> Option<(f64, i64)> {
        let (sum, n, _) = self.volume_logs;
        let times = self.largest_volume.0 / (sum / n.max(1) as f64).exp();
        (n >= 10 && times > 1e6).then_some((times, self.largest_volume.1))
    }

    /// Sees the next bars.
    pub(crate) fn push(&mut self, rows: &Rows) {
        let [o, h, l, c, v] = &rows.values;
        self.low = l.iter().fold(self.low, |a, b| a.min(*b));
        self.high = h.iter().fold(self.high, |a, b| a.max(*b));
        self.with_volume += v.iter().filter(|v| !v.is_nan()).count() as u64;
        self.zero_volume += v.iter().filter(|v| **v == 0.0).count() as u64;
        self.watch_volume(v, &rows.stamp);
        let (Some(first), Some(last)) = (rows.stamp.first(), c.last()) else { return };
        let mut prev = match self.prev.take() {
            Some(prev) => prev,
            None => {
                self.first = *first;
                self.close_first = c[0];
                // As if a bar like it had come before; it is counted as nothing's successor.
                PreviousBar { start: *first, close: c[0], back: 0.0, scale: 0.0 }
            }
        };
        let wide = self.step + self.step / 2;
        let slots = self.slots[0].len();
        let mut local = LocalTime::new(&self.zone);
        let (mut day_end, mut season, mut slot) = (i64::MIN, 0, 0);
        for i in 0..rows.len() {
            let (start, open, high, low, close) = (rows.stamp[i], o[i], h[i], l[i], c[i]);
            let gap = start - prev.start;
            // Bars mostly follow one another within a day: then nothing has to be divided.
            if start >= day_end {
                day_end = self.local_day(start, &mut season);
                slot = self.slot_of_week(&mut local, start);
            } else if gap == self.step && self.step >= MINUTE {
                slot = if slot + 1 < slots { slot + 1 } else { 0 };
            } else {
                slot = self.slot_of_week(&mut local, start);
            }
            self.slots[season][slot] += 1;
            if self.bars > 0 {
                let back = close / prev.close - 1.0;
                if gap > wide {
                    self.note_gap(prev.start, start);
                }
                if high == low && close == prev.close {
                    self.stuck += 1;
                } else if self.stuck > 0 {
                    self.end_stuck_stretch();
                }
                let wick = (high - open.max(close)).max(open.min(close) - low);
                let odd =
                    wick > (25.0 * self.scale).max(0.03) * close || prev.back.abs() > (15.0 * prev.scale).max(0.01);
                if odd && self.bars >= 20 {
                    self.note_spike(start, wick / close, back, &prev);
                }
                let step = (open - prev.close).abs().max((close - prev.close).abs());
                let between = self.step >= DAY || gap > self.step;
                if step > 0.27 * prev.close {
                    let adjusted =
                        self.adjusted.filter(|_| i > 0).map(|at| rows.extras[at][i] / rows.extras[at][i - 1]);
                    let before = &v[i.saturating_sub(20)..i];
                    let volume_before =
                        before.iter().filter(|v| v.is_finite()).sum::<f64>() / before.len().max(1) as f64;
                    let bar = JumpBar {
                        start,
                        index: self.bars,
                        prices: [open, high, low, close],
                        scale: self.scale,
                        between,
                        adjusted: adjusted.filter(|a| a.is_finite()),
                        volume_before,
                    };
                    self.jumps.note(&bar, &prev);
                }
                if between && self.jumps.splits_possible && back.abs() > 0.05 {
                    self.jumps.far.push((start, back > 0.0));
                }
                let size = if self.scale > 0.0 { back.abs().min(10.0 * self.scale) } else { back.abs() };
                let rate = if self.bars < 20 { 1.0 / self.bars as f64 } else { 0.05 };
                prev = PreviousBar { start, close, back, scale: self.scale };
                self.scale += (size - self.scale) * rate;
            }
            if self.jumps.is_waiting() {
                self.jumps.confirm(close, v[i]);
            }
            self.bars += 1;
        }
        self.last = prev.start;
        self.close_last = *last;
        self.prev = Some(prev);
        let mut bytes = [0; 4096];
        for part in c.chunks(512) {
            for (place, value) in bytes.chunks_exact_mut(8).zip(part) {
                place.copy_from_slice(&value.to_le_bytes());
            }
            self.hash.update(&bytes[..part.len() * 8]);
        }
    }

    /// A fingerprint of all closes, to find one series under two names.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.hash.digest()
    }

    /// To be called after the last bar.
    pub(crate) fn finish(&mut self) {
        self.end_stuck_stretch();
        self.jumps.finish();
    }

    /// The slot of the week by the clock of the exchange, which keeps its hours when clocks change.
    fn slot_of_week(&self, local: &mut LocalTime, start: i64) -> usize {
        let week = (local.local_second(start) * 1_000_000_000).rem_euclid(WEEK);
        let slot = if self.step >= DAY { week / DAY } else { week / self.step.max(MINUTE) };
        (slot as usize).min(self.slots[0].len() - 1)
    }

    fn is_month_step(&self, gap: i64) -> bool {
        matches!(self.timeframe, Timeframe::Months(n) if gap <= n * 32 * DAY)
    }

    /// A new day: when it ends, and its season.
    fn local_day(&mut self, start: i64, season: &mut usize) -> i64 {
        let day = start.div_euclid(DAY);
        *season = self.season.season_of(day);
        if self.active.last() != Some(&(day as i32)) {
            self.active.push(day as i32);
        }
        (day + 1) * DAY
    }

    fn note_gap(&mut self, from: i64, to: i64) {
        let gap = to - from;
        if !self.is_month_step(gap) {
            self.gaps.push((from, to));
            if self.step < DAY && gap >= 4 * HOUR {
                self.note_session(to);
            }
        }
    }

    /// A run of motionless bars is over; short ones do not count.
    fn end_stuck_stretch(&mut self) {
        let least = if self.step >= DAY { 5 } else { 12 };
        if self.stuck >= least {
            self.stuck_bars += self.stuck;
        }
        self.stuck = 0;
    }

    /// The bar before went far out and this one brought it back; or a wick far beyond anything.
    fn note_spike(&mut self, start: i64, wick: f64, back: f64, prev: &PreviousBar) {
        let out = prev.back;
        let far = out.abs() > (15.0 * prev.scale).max(0.01)
            && out * back < 0.0
            && ((1.0 + out) * (1.0 + back) - 1.0).abs() < 0.3 * out.abs();
        let long = wick > (25.0 * self.scale).max(0.03);
        for (found, size, at) in [(far, out.abs(), prev.start), (long, wick, start)] {
            if found {
                self.spikes += 1;
                if self.worst_spike.is_none_or(|(worst, _)| size > worst) {
                    self.worst_spike = Some((size, at));
                }
            }
        }
    }

    /// The session now opens at another hour, and keeps to it.
    fn note_session(&mut self, start: i64) {
        let clock = start.rem_euclid(DAY);
        let Some(usual) = self.sessions.usual else {
            self.sessions.usual = Some(clock);
            return;
        };
        let moved = (clock - usual).abs().min(DAY - (clock - usual).abs());
        if moved == 0 {
            self.sessions.other = None;
        } else if moved % (30 * MINUTE) == 0 && moved <= 12 * HOUR {
            let (at, n, since) = self.sessions.other.filter(|(at, ..)| *at == clock).unwrap_or((clock, 0, start));
            self.sessions.other = Some((at, n + 1, since));
            if n + 1 >= 3 {
                self.zone_jumps.push(since);
                self.sessions.usual = Some(clock);
                self.sessions.other = None;
            }
        }
    }

    /// Tells closures from holes, with what the rest of the market shows; days that lost rows to a repair were open.
    pub(crate) fn gaps(&self, market: &dyn Fn(i32) -> Option<bool>, dropped: &[i32]) -> Gaps {
        let mut local = LocalTime::new(&self.zone);
        let mut found = Gaps::default();
        let open = Occupancy::from_observer(self);
        let round = self.all_week;
        let mut season = Season::default();
        for (from, to) in &self.gaps {
            let mut missing = 0u64;
            let mut first = None;
            if self.step >= 7 * DAY {
                missing = ((to - from) / self.step).saturating_sub(1) as u64;
                first = Some(from + self.step);
            } else {
                // Expected bars day by day: a day without any may be a holiday.
                let mut at = from + self.step;
                // Whole days without a bar are a holiday while they are few; otherwise all of them are missing.
                let (mut idle, mut idle_bars, mut idle_first) = (0, 0u64, None);
                let weekend = !round && self.step < DAY && covers_saturday(*from, *to);
                // Half a bar short of the next one: daylight saving moves daily stamps by an hour.
                let to = *to - self.step / 2;
                while at < to {
                    let day = at.div_euclid(DAY);
                    let of = season.season_of(day);
                    let (mut here, mut first_here) = (0u64, None);
                    while at < to && at.div_euclid(DAY) == day {
                        if open.is_usual(of, self.slot_of_week(&mut local, at)) && !(weekend && is_weekend(at)) {
                            here += 1;
                            first_here.get_or_insert(at);
                        }
                        at += self.step;
                    }
                    if here == 0 {
                        continue;
                    }
                    let whole = self.active.binary_search(&(day as i32)).is_err();
                    let shut = match market(day as i32) {
                        _ if dropped.contains(&(day as i32)) => false,
                        Some(others_open) if whole => !others_open,
                        _ if whole && !round => {
                            idle += 1;
                            idle_bars += here;
                            idle_first = idle_first.or(first_here);
                            true
                        }
                        _ => false,
                    };
                    if !shut {
                        missing += here;
                        first = first.or(first_here);
                    }
                }
                if idle > 4 {
                    missing += idle_bars;
                    first = idle_first.into_iter().chain(first).min();
                }
            }
            match first {
                None => found.closures += 1,
                Some(first) => {
                    found.holes += 1;
                    found.missing += missing;
                    if found.longest.as_ref().is_none_or(|h| missing > h.bars) {
                        found.longest = Some(Hole { from: rfc3339(first), to: rfc3339(*to), bars: missing });
                    }
                }
            }
        }
        found
    }
}

fn is_adjusted_close(name: &str) -> bool {
    ["adjclose", "adjustedclose", "closeadj", "closeadjusted"].contains(&names::normalise_name(name).as_str())
}

/// Whether a gap holds a whole Saturday (1970-01-03 was one).
fn covers_saturday(from: i64, to: i64) -> bool {
    let saturday = (from.div_euclid(DAY) - 2).div_euclid(7) * 7 + 2;
    [saturday, saturday + 7].iter().any(|day| day * DAY >= from && (day + 1) * DAY <= to)
}

/// From Friday evening to Sunday evening, UTC: no market but that of coins is open all of it, and which hour is its
/// last cannot be told from a few weeks.
fn is_weekend(at: i64) -> bool {
    let (day, clock) = ((at.div_euclid(DAY) + 3).rem_euclid(7), at.rem_euclid(DAY));
    match day {
        4 => clock >= 20 * HOUR,
        5 => true,
        6 => clock < 23 * HOUR,
        _ => false,
    }
}

/// Stretches without bars, sorted out.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    pub closures: u64,
    pub holes: u64,
    pub missing: u64,
    pub longest: Option<Hole>,
}

/// In which slots of the week the market is usually open.
struct Occupancy {
    usual: [Vec<bool>; 2],
}

impl Occupancy {
    fn from_observer(watch: &BarObserver) -> Occupancy {
        let slots = watch.slots[0].len();
        if watch.all_week {
            // Coins never close, however few days show it.
            return Occupancy { usual: [vec![true; slots], vec![true; slots]] };
        }
        let weeks = ((watch.last - watch.first) as f64 / WEEK as f64).max(0.0);
        if weeks < 3.0 {
            // Too short for weeks: a time of day is usual if most active days have it, and weekends are shut.
            let per_day = (slots / 7).max(1);
            let active = watch.active.len().max(1) as u32;
            let both: Vec<u32> = (0..slots).map(|s| watch.slots[0][s] + watch.slots[1][s]).collect();
            // Slots count from Thursday, the weekday of 1970-01-01; two and three days later it is Saturday and Sunday.
            let weekday_seen: Vec<bool> = (0..7)
                .map(|d| {
                    !matches!(d, 2 | 3) && both[d * per_day..((d + 1) * per_day).min(slots)].iter().any(|n| *n > 0)
                })
                .collect();
            let usual = (0..slots)
                .map(|s| {
                    let of_day: u32 = (0..7).filter_map(|d| both.get(d * per_day + s % per_day)).sum();
                    of_day * 2 >= active && weekday_seen.get(s / per_day).copied().unwrap_or(false)
                })
                .collect::<Vec<bool>>();
            return Occupancy { usual: [usual.clone(), usual] };
        }
        let mut in_season = [0u32; 2];
        let mut season = Season::default();
        let mut day = watch.first.div_euclid(DAY);
        while day <= watch.last.div_euclid(DAY) {
            in_season[season.season_of(day)] += 1;
            day += 1;
        }
        let usual = [0, 1].map(|s| {
            let weeks = f64::from(in_season[s]) / 7.0;
            watch.slots[s].iter().map(|n| weeks > 0.0 && f64::from(*n) >= (weeks * 0.5).max(0.75)).collect()
        });
        Occupancy { usual }
    }

    fn is_usual(&self, season: usize, slot: usize) -> bool {
        self.usual[season][slot]
    }
}
