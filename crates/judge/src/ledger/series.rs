//! Which series a data set holds, whatever its file or its symbols are called.
//!
//! A series is known by its time-stamped returns: by day, and by hour where it is shorter than sixty days. Two are the
//! same where the returns that both have at equal times correlate at 0.99 or more, the largest 2 % of their differences
//! left out: a vendor that adjusts for splits and dividends again changes single days. Days are UTC days, since a
//! session follows from a symbol's name; where names differ they may lie a day apart.
//!
//! Of a long series those times are kept whose hash is smallest, so that two series keep the same ones where they
//! overlap.

use serde_json::{Value, json};
use std::cmp::Ordering;
use std::fmt::Write;

/// A symbol and its returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the data.
    pub symbol: String,
    daily: Returns,
    hourly: Returns,
}

/// Log returns by day or hour since 1970, in order of time.
type Returns = Vec<(i32, f32)>;

const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;

/// Times kept of a series, in sets of few symbols and of many.
const KEPT: [usize; 2] = [2048, 256];
const FEW: usize = 32;

impl Series {
    /// Of bars that start at these times. `symbols` is how many the data set has.
    pub fn new(symbol: &str, start: &[i64], close: &[f64], symbols: usize) -> Series {
        let most = KEPT[usize::from(symbols > FEW)];
        let short = start.last().zip(start.first()).is_some_and(|(last, first)| last - first < 60 * DAY);
        let hourly = if short { returns(start, close, HOUR, most) } else { Returns::new() };
        Series { symbol: symbol.into(), daily: returns(start, close, DAY, most), hourly }
    }

    /// Whether both are one series.
    pub fn is_same(&self, other: &Series) -> bool {
        [0, 1, -1].into_iter().any(|shift| agree(&self.daily, &other.daily, shift, 15))
            || agree(&self.hourly, &other.hourly, 0, 30)
    }

    /// Whether `self` has times before or behind those of `other`, so that it tells more.
    pub(super) fn reaches_beyond(&self, other: &Series) -> bool {
        let ends = |own: &Returns| own.first().zip(own.last()).map(|(first, last)| (first.0, last.0));
        match (ends(&self.daily), ends(&other.daily)) {
            (Some((first, last)), Some((other_first, other_last))) => first < other_first || last > other_last,
            (own, other) => own.is_some() && other.is_none(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!([to_hex(&self.daily), to_hex(&self.hourly)])
    }

    pub(super) fn from_json(symbol: &str, value: &Value) -> Option<Series> {
        let part = |at: usize| from_hex(value.get(at)?.as_str()?);
        Some(Series { symbol: symbol.into(), daily: part(0)?, hourly: part(1)? })
    }
}

/// The return of every period that has a bar, against the last close before it.
fn returns(start: &[i64], close: &[f64], period: i64, most: usize) -> Returns {
    let mut ends: Vec<(i32, f64)> = Vec::new();
    for (start, close) in start.iter().zip(close) {
        let at = i32::try_from(start.div_euclid(period)).unwrap_or(i32::MAX);
        match ends.last_mut() {
            Some(last) if last.0 == at => last.1 = *close,
            _ => ends.push((at, *close)),
        }
    }
    let mut all: Vec<(i32, f32)> = ends
        .windows(2)
        .map(|pair| (pair[1].0, (pair[1].1 / pair[0].1).ln() as f32))
        .filter(|(_, r)| r.is_finite())
        .collect();
    all.sort_by_key(|(at, _)| xxhash_rust::xxh3::xxh3_64(&at.to_le_bytes()));
    all.truncate(most);
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Common returns that a first look takes: most series differ already there, and a ledger has many.
const GLANCE: usize = 32;

/// Whether two agree where both have a return, one of them `shift` periods later, and at least so many are common.
fn agree(a: &Returns, b: &Returns, shift: i32, least: usize) -> bool {
    let mut both = Vec::with_capacity(GLANCE);
    let (mut i, mut j) = (0, 0);
    while let (Some((at, x)), Some((other, y))) = (a.get(i), b.get(j)) {
        match at.saturating_add(shift).cmp(other) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => {
                both.push((f64::from(*x), f64::from(*y)));
                (i, j) = (i + 1, j + 1);
                if both.len() == GLANCE && correlation(both.clone()) < 0.8 {
                    return false;
                }
            }
        }
    }
    both.len() >= least && correlation(both) >= 0.99
}

/// Of pairs, the largest 2 % of their differences left out; 0 where one of the two does not move.
fn correlation(mut pairs: Vec<(f64, f64)>) -> f64 {
    pairs.sort_by(|x, y| (x.0 - x.1).abs().total_cmp(&(y.0 - y.1).abs()));
    pairs.truncate(pairs.len() - (pairs.len() / 50).max(1));
    let n = pairs.len() as f64;
    let (mean_x, mean_y) = (pairs.iter().map(|p| p.0).sum::<f64>() / n, pairs.iter().map(|p| p.1).sum::<f64>() / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x - mean_x, y - mean_y);
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    if xx > 0.0 && yy > 0.0 { xy / (xx * yy).sqrt() } else { 0.0 }
}

/// Eight bytes a return, as hexadecimal text.
fn to_hex(returns: &Returns) -> String {
    returns.iter().fold(String::with_capacity(16 * returns.len()), |mut text, (at, r)| {
        let _ = write!(text, "{at:08x}{:08x}", r.to_bits());
        text
    })
}

fn from_hex(text: &str) -> Option<Returns> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok();
    let whole = text.len().is_multiple_of(16).then_some(text.len())?;
    (0..whole).step_by(16).map(|at| Some((word(at)? as i32, f32::from_bits(word(at + 8)?)))).collect()
}
