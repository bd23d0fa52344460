//! One row a time, and stamps to bars: start, end, range, factors. The audit sees what comes out.

use super::SeriesFacts;
use crate::ingest::Rows;
use crate::recognise::StampMarks;
use crate::{Duplicates, Options, Timeframe};
use files::time::{civil, days, rfc3339};
use files::{Error, MISSING_TIME, Result};
use std::path::Path;

const DAY: i64 = 86_400_000_000_000;

/// Duplicates out, stamps to bars.
pub(super) struct Cleaner<'a> {
    pub options: &'a Options,
    pub seen: &'a mut SeriesFacts,
    pub file: String,
    pub held: Option<Rows>, // the last row of a window: its successor may repeat its time
}

impl Cleaner<'_> {
    /// Leaves one row a time.
    pub(super) fn dedupe(&mut self, rows: Rows, last: bool) -> Result<Rows> {
        let mut rows = match self.held.take() {
            Some(mut held) => {
                held.extend(&rows);
                held
            }
            None => rows,
        };
        let n = rows.len();
        let repeats = rows.stamp.windows(2).any(|w| w[0] == w[1]);
        if repeats {
            let mut keep: Vec<u32> = Vec::with_capacity(n);
            for i in 0..n {
                let Some(before) = keep.last().map(|k| *k as usize).filter(|k| rows.stamp[*k] == rows.stamp[i]) else {
                    keep.push(i as u32);
                    continue;
                };
                let same = rows.values.iter().all(|v| v[before] == v[i] || (v[before].is_nan() && v[i].is_nan()));
                let at = rfc3339(rows.stamp[i]);
                if same {
                    self.seen.duplicates += 1;
                    self.seen.duplicate_example.get_or_insert_with(|| format!("{} has {at} twice", self.seen.symbol));
                } else {
                    self.seen.conflicts += 1;
                    let (a, b) = (rows.values[3][before], rows.values[3][i]);
                    self.seen
                        .conflict_example
                        .get_or_insert_with(|| format!("{} has {at} with close {a} and with {b}", self.seen.symbol));
                }
                match self.options.repairs.duplicates {
                    Duplicates::First => {}
                    Duplicates::Last => {
                        if let Some(k) = keep.last_mut() {
                            *k = i as u32;
                        }
                    }
                    Duplicates::Refuse => {
                        return Err(Error::input(format!("{at} occurs twice for {}", self.seen.symbol))
                            .at(Path::new(&self.file))
                            .remedy("remove one of the rows, or set repair.duplicates = \"last\" or \"first\""));
                    }
                }
            }
            rows = rows.select_rows(&keep);
        }
        if !last && rows.len() > 0 {
            let n = rows.len() as u32;
            self.held = Some(rows.select_rows(&[n - 1]));
            rows.truncate(n as usize - 1);
        }
        Ok(rows)
    }

    /// Stamps become start and end; the range is cut; factors are applied; the audit sees the result.
    pub(super) fn finish(
        &mut self,
        mut rows: Rows,
        stamp: StampMarks,
        timeframe: Timeframe,
        symbol: &str,
        spans: Option<&[(i64, i64)]>,
    ) -> Option<Rows> {
        let given = std::mem::take(&mut rows.end);
        let mut end = Vec::with_capacity(rows.len());
        for (i, label) in rows.stamp.iter_mut().enumerate() {
            let stated = given.get(i).copied().filter(|e| *e != MISSING_TIME && *e > *label);
            let (start, stop) = bar_span(*label, stamp, timeframe);
            *label = start;
            end.push(stated.map_or(stop, next_midnight));
        }
        rows.end = end;
        if self.options.from.is_some() || self.options.to.is_some() {
            let (first, last) = (rows.stamp.first().copied(), rows.stamp.last().copied());
            let (first, last) = (first.unwrap_or(i64::MAX), last.unwrap_or(i64::MIN));
            self.seen.span = Some(self.seen.span.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
            let from = rows.stamp.partition_point(|t| self.options.from.is_some_and(|from| *t < from));
            let to = rows.stamp.partition_point(|t| self.options.to.is_none_or(|to| *t < to));
            if from > 0 || to < rows.len() {
                let kept: Vec<u32> = (from as u32..to.max(from) as u32).collect();
                rows = rows.select_rows(&kept);
            }
        }
        if rows.len() == 0 {
            return None;
        }
        if let Some(factors) = &self.options.factors {
            let [o, h, l, c, v] = &mut rows.values;
            factors.apply(symbol, &rows.stamp, [o, h, l, c], v);
        }
        if let Some(spans) = spans {
            let outside =
                rows.stamp.iter().filter(|t| !spans.iter().any(|(from, to)| (*from..*to).contains(*t))).count();
            *self.seen.outside.get_or_insert(0) += outside as u64;
        }
        self.seen.last_end = rows.end.last().copied().unwrap_or(0);
        self.seen.observer.push(&rows);
        Some(rows)
    }
}

/// Venues write the last millisecond (or microsecond) of a bar as its end; the bar is over one such unit later.
fn next_midnight(end: i64) -> i64 {
    let unit = [1_000_000, 1_000, 1].into_iter().find(|unit| (end + unit) % 1_000_000_000 == 0);
    end + unit.unwrap_or(0)
}

/// Start and end of the bar a stamp marks.
fn bar_span(label: i64, stamp: StampMarks, timeframe: Timeframe) -> (i64, i64) {
    match (stamp, timeframe) {
        (StampMarks::Start, Timeframe::Fixed(ns)) => (label, label + ns),
        (StampMarks::Start, Timeframe::Months(n)) => (label, add_months(label, n)),
        (StampMarks::End { add }, Timeframe::Fixed(ns)) => (label + add - ns, label + add),
        (StampMarks::End { add }, Timeframe::Months(n)) => (add_months(label + add, -n), label + add),
        (StampMarks::MonthEnd, timeframe) => {
            let end = (label.div_euclid(DAY) + 1) * DAY;
            let n = if let Timeframe::Months(n) = timeframe { n } else { 1 };
            (add_months(end, -n), end)
        }
    }
}

fn add_months(ns: i64, months: i64) -> i64 {
    let (year, month, day) = civil(ns.div_euclid(DAY));
    let at = year * 12 + month - 1 + months;
    let (year, month) = (at.div_euclid(12), at.rem_euclid(12) + 1);
    // The 31st of a shorter month is its last day.
    let days = (0..4).find_map(|back| days(year, month, day - back)).unwrap_or(0);
    days * DAY + ns.rem_euclid(DAY)
}
