//! What there is to learn from, wherever it came from: tables, how a sample finds its rows in them, and the samples.
//!
//! A sample is an *id*. With bars an id is a row of the base table; with a ready array `[N, T, F]` it is `n`, and the
//! array is a table of `N · T` rows in which the window of sample `n` ends at row `n · T + T - 1`. Each input has a map
//! from ids to the last row of the window; none is needed where the id is that row. So there is one gather, and no
//! window is ever copied.

use features::Samples;

/// One input of the net: a table, how many rows of it a sample brings, and where they end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// `fast`, `slow`, `strategy`: names its branch.
    pub name: String,
    /// `[F]` what the columns are; numbers where nobody named them.
    pub columns: Vec<String>,
    /// Numbers from one row to the next: F rounded up to a multiple of 4.
    pub stride: usize,
    /// `[rows, stride]`, padding 0. Rows that no sample's window touches may hold anything, NaN too.
    pub values: Vec<f32>,
    /// `[ids]` the last row of each id's window; none: the id itself. Ids of no sample map to row 0.
    pub map: Option<Vec<u32>>,
    /// Rows of a window whose data is made for it; 0: any, the net decides.
    pub window: usize,
}

impl Input {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.stride).unwrap_or(0)
    }
}

/// What there is to learn from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Problem {
    /// What a sample brings, in the order of the net's inputs.
    pub inputs: Vec<Input>,
    /// How many ids there are.
    pub ids: usize,
    /// Classes of the labels, 2 or 3: down and up, or down, flat and up.
    pub classes: usize,
    /// `rows` are ids; in the order of time.
    pub samples: Samples,
    /// Names the data it was made of, by the hash of all that was read; what is fitted on it carries the name.
    pub data: String,
}
