//! The table: one row a bar, one column a feature, for one timeframe.
//!
//! Rows are a symbol's own bars, symbols one after another. A value that does not exist is NaN and its bit is 0;
//! nothing is ever filled.

use crate::plan::{Layer, Output};
use crate::values::Values;
use bars::{Bars, Timeframe};
use std::ops::Range;

/// Features of bars.
#[derive(Debug, Clone)]
pub struct Table {
    /// Length of a bar.
    pub timeframe: Timeframe,
    /// `[F]`
    pub columns: Vec<Feature>,
    /// Numbers from one row to the next: F rounded up to a multiple of 4.
    pub stride: usize,
    /// `[S]` the bars themselves: open time, availability, prices.
    pub market: Vec<Bars>,
    /// `[S + 1]` where each symbol's rows begin.
    pub offsets: Vec<usize>,
    /// `[S]` runs of rows, counted from the symbol's first: indicators start afresh at each.
    pub runs: Vec<Vec<Range<usize>>>,
    /// `[rows, stride]`; NaN where there is no value, 0 in the padding.
    pub values: Values,
    /// `[rows, words]` one bit a column.
    pub valid: Vec<u64>,
    /// `[rows]` whether every column is valid and no longer depends on where its run began.
    pub settled: Vec<bool>,
}

/// What a column is.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Feature {
    /// Given in the set, or its text.
    pub name: String,
    /// Its group in the set; empty: none.
    pub group: String,
    /// What is computed.
    pub text: String,
    /// Index of the first valid value of a run (for what waits for a session: the least it can be).
    pub first_valid: usize,
    /// Index from which the start of the run no longer matters ([`Plan::with_settle`](crate::Plan::with_settle));
    /// `None`: it always does.
    pub settled: Option<usize>,
    /// Bars before its own that a value looks back on: the finite part of its window, in bars of this table, slower
    /// values and the market included.
    pub reach: usize,
    /// Rows without a value.
    pub invalid: u64,
}

impl Feature {
    /// The column of an output on bars of that length. Without one, a value of a slower timeframe counts as settled
    /// when it is there, and as looking back on nothing.
    pub(crate) fn new(output: &Output, layer: &Layer, timeframe: Option<Timeframe>) -> Feature {
        let node = layer.graph.node(output.id);
        let settled =
            timeframe.map_or_else(|| layer.settled_alone(output.id), |timeframe| layer.settled(output.id, timeframe));
        let reach = timeframe.map_or(node.first, |timeframe| layer.reach(output.id, timeframe));
        let (name, group, text) = (output.name.clone(), output.group.clone(), output.text.clone());
        Feature { name, group, text, first_valid: node.first, settled, reach, invalid: 0 }
    }
}

impl Table {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// 64-bit words of validity a row.
    pub fn words(&self) -> usize {
        self.columns.len().div_ceil(64)
    }

    /// The values of a row, padding left out.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.stride..row * self.stride + self.columns.len()]
    }

    /// Whether a value exists.
    pub fn is_valid(&self, row: usize, column: usize) -> bool {
        self.valid[row * self.words() + column / 64] >> (column % 64) & 1 == 1
    }

    /// Symbol of a row, and which of its bars it is.
    pub fn place(&self, row: usize) -> (usize, usize) {
        let symbol = self.offsets.partition_point(|from| *from <= row) - 1;
        (symbol, row - self.offsets[symbol])
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// Columns that have no value on more than that share of the rows, with the share.
    pub fn sparse(&self, share: f64) -> Vec<(&str, f64)> {
        let rows = self.rows().max(1) as f64;
        let shares = self.columns.iter().map(|c| (c.name.as_str(), c.invalid as f64 / rows));
        shares.filter(|(_, s)| *s > share).collect()
    }

    /// Bytes of its values, bits and bars.
    pub fn bytes(&self) -> usize {
        let bars: usize =
            self.market.iter().map(|b| b.len() * 8 * (6 + usize::from(!b.volume.is_empty()) + b.extras.len())).sum();
        self.values.len() * 4 + self.valid.len() * 8 + self.settled.len() + bars
    }
}
