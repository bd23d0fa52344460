//! The bars of one symbol in columns, and a market of many.

use crate::{Instrument, Timeframe};
use std::ops::Range;

/// The bars of one symbol and timeframe, oldest first, each time once.
///
/// Bar `i` covers `[start[i], end[i])` and is known at `end[i]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// As the file or the user calls it.
    pub symbol: String,
    /// What is traded and what it costs.
    pub instrument: Instrument,
    /// Length of a bar.
    pub timeframe: Timeframe,
    /// `[n]` nanoseconds since 1970 UTC, strictly rising.
    pub start: Vec<i64>,
    /// `[n]` when the bar is complete and may be used.
    pub end: Vec<i64>,
    /// `[n]`
    pub open: Vec<f64>,
    /// `[n]`
    pub high: Vec<f64>,
    /// `[n]`
    pub low: Vec<f64>,
    /// `[n]`
    pub close: Vec<f64>,
    /// `[n]`, NaN where the file had none; empty where no bar has any.
    pub volume: Vec<f64>,
    /// Other numeric columns by name, each `[n]`, NaN where missing.
    pub extras: Vec<(String, Vec<f64>)>,
    /// Where segments begin; `segments[0] == 0`. No window may cross a border (a suspected split, say).
    pub segments: Vec<usize>,
    /// When the symbol belonged to the universe, `[from, to)` in nanoseconds; empty means always.
    pub member: Vec<(i64, i64)>,
}

impl Bars {
    /// Number of bars.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Some neighbours of the bars, as if the others had never been.
    ///
    /// # Panics
    ///
    /// If there are not as many.
    pub fn part(&self, rows: Range<usize>) -> Bars {
        let (from, to) = (rows.start, rows.end);
        let cut = |column: &[f64]| column[rows.clone()].to_vec();
        let mut segments = vec![0];
        segments.extend(self.segments.iter().filter(|s| **s > from && **s < to).map(|s| s - from));
        Bars {
            symbol: self.symbol.clone(),
            instrument: self.instrument.clone(),
            timeframe: self.timeframe,
            start: self.start[rows.clone()].to_vec(),
            end: self.end[rows.clone()].to_vec(),
            open: cut(&self.open),
            high: cut(&self.high),
            low: cut(&self.low),
            close: cut(&self.close),
            volume: if self.volume.is_empty() { Vec::new() } else { cut(&self.volume) },
            extras: self.extras.iter().map(|(name, column)| (name.clone(), cut(column))).collect(),
            segments,
            member: self.member.clone(),
        }
    }
}

/// The bars of many symbols.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Market {
    /// One entry a symbol and timeframe, sorted by symbol, then timeframe.
    pub bars: Vec<Bars>,
}
