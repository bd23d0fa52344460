//! Samples: the rows a learner may see, each with when it was known and when its outcome was; and folds, which say who
//! learns from which.
//!
//! The outcome is a label, or the next bar: a sample without a class is a step of an account, known at the end of bar
//! `t`, filled at the open of bar `t+1`, and settled at the end of that bar. Splits, purge and scalers serve both.

use crate::Clock;
use crate::labels::{Labels, NONE};
use bars::Bars;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A piece of time, `[from, to)`; it starts before it ends. Written as `[from, to]`, and read back only if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(i64, i64)", into = "(i64, i64)")]
pub struct Span {
    from: i64,
    to: i64,
}

impl Span {
    /// `None` unless it starts before it ends.
    pub fn new(from: i64, to: i64) -> Option<Span> {
        (from < to).then_some(Span { from, to })
    }

    /// The first moment in it, in nanoseconds since 1970 UTC.
    pub fn from(self) -> i64 {
        self.from
    }

    /// The first moment after it.
    pub fn to(self) -> i64 {
        self.to
    }

    /// Whether a moment lies in it.
    pub fn contains(self, time: i64) -> bool {
        self.from <= time && time < self.to
    }

    /// Whether some moment lies in both.
    pub fn overlaps(self, other: Span) -> bool {
        self.from < other.to && other.from < self.to
    }
}

impl TryFrom<(i64, i64)> for Span {
    type Error = String;

    fn try_from((from, to): (i64, i64)) -> Result<Span, String> {
        Span::new(from, to).ok_or_else(|| format!("a span from {from} to {to} does not start before it ends"))
    }
}

impl From<Span> for (i64, i64) {
    fn from(span: Span) -> (i64, i64) {
        (span.from, span.to)
    }
}

/// Rows in the order of time (`t0`, then symbol).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// `[n]` rows of the market, counted through all symbols.
    pub rows: Vec<u32>,
    /// `[n]` when the row was known, rising.
    pub t0: Vec<i64>,
    /// `[n]` when its outcome was: its label, or the end of the next bar.
    pub t1: Vec<i64>,
    /// `[n]` -1, 0 or 1; empty where samples have no class.
    pub class: Vec<i8>,
    /// `[n]` average uniqueness of the label; 1 where samples have no class, since steps do not overlap.
    pub weight: Vec<f32>,
}

impl Samples {
    /// The labelled rows among those that are usable ([`Dataset::usable_rows`](crate::Dataset::usable_rows)).
    ///
    /// # Panics
    ///
    /// If the labels are those of another clock.
    pub fn new(clock: &Clock, labels: &Labels, usable: impl Fn(usize) -> bool) -> Samples {
        assert_eq!(clock.tick.len(), labels.class.len(), "labels belong to another market");
        let rows = in_order(clock, |row| labels.class[row] != NONE && usable(row));
        Samples {
            t0: rows.iter().map(|row| clock.time(*row)).collect(),
            t1: rows.iter().map(|row| labels.t1[*row]).collect(),
            class: rows.iter().map(|row| labels.class[*row]).collect(),
            weight: rows.iter().map(|row| labels.weight[*row]).collect(),
            rows: rows.into_iter().map(|row| row as u32).collect(),
        }
    }

    /// The usable rows at which an account can take a step, without a class: `t1` is when the next bar is known.
    ///
    /// The next bar must be of the same run (`runs` `[S]`, as [`Table::runs`](crate::Table::runs)) and must not open
    /// before the row is known: its open could not be traded. The same rows have a label of horizon 0.
    ///
    /// # Panics
    ///
    /// If the clock or the runs are those of another market.
    pub fn without_class(
        market: &[Bars],
        runs: &[Vec<Range<usize>>],
        clock: &Clock,
        usable: impl Fn(usize) -> bool,
    ) -> Samples {
        let mut has_next = vec![false; clock.tick.len()];
        for (symbol, (bars, runs)) in market.iter().zip(runs).enumerate() {
            let first = clock.rows(symbol).start;
            for t in runs.iter().flat_map(|run| run.start..run.end.saturating_sub(1)) {
                has_next[first + t] = bars.start[t + 1] >= clock.time(first + t);
            }
        }
        let rows = in_order(clock, |row| has_next[row] && usable(row));
        Samples {
            t0: rows.iter().map(|row| clock.time(*row)).collect(),
            t1: rows.iter().map(|row| clock.time(*row + 1)).collect(),
            class: Vec::new(),
            weight: vec![1.0; rows.len()],
            rows: rows.into_iter().map(|row| row as u32).collect(),
        }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The rows to keep, in the order of time, then symbol.
fn in_order(clock: &Clock, keep: impl Fn(usize) -> bool) -> Vec<usize> {
    clock.rows_by_tick().1.into_iter().map(|(_, row)| row as usize).filter(|row| keep(*row)).collect()
}

/// Who learns from what: sets of samples for training, validation and test. `judge::split` makes it, learners receive
/// it.
///
/// No label of one part reaches into another, and samples of one moment are all in the same part. What lies before
/// what is said by its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Which one, from 0, in the order of time.
    pub number: usize,
    /// What lies before what.
    #[serde(default)]
    pub kind: FoldKind,
    /// `[train]` positions in [`Samples`], rising: weights and scalers are fitted on these alone.
    pub train: Vec<u32>,
    /// `[valid]` positions, rising: early stopping, calibration, thresholds and hyper-parameters.
    pub valid: Vec<u32>,
    /// `[test]` positions, rising: only judged.
    pub test: Vec<u32>,
    /// When each part happened.
    pub spans: FoldSpans,
    /// How many samples were left out of training and validation because their labels reach into a later part.
    pub purged: usize,
    /// How many were left out of them because they follow a later part too closely; none where time only goes forward.
    pub embargoed: usize,
}

/// What lies before what in a [`Fold`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoldKind {
    /// Training, validation and test, in the order of time.
    #[default]
    Forward,
    /// Training and validation lie before and behind the test, which may be in pieces; what touches it is purged, and
    /// what follows it closely is under an embargo. It judges a recipe: no model comes out.
    Around,
    /// Training alone, on everything: no validation and no test. Their spans are the moment behind it.
    Whole,
}

/// When the parts of a [`Fold`] happened: from the first `t0` in it up to and with the last `t1` (a span's `to` is one
/// nanosecond later).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldSpans {
    /// Of training.
    pub train: Span,
    /// Of validation.
    pub valid: Span,
    /// Of the test.
    pub test: Span,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::tests::{random, walk, whole};
    use crate::labels::{Labeling, Rule, label};

    #[test]
    fn spans_must_start_before_they_end() {
        assert_eq!(Span::new(3, 3), None);
        assert_eq!(Span::new(4, 3), None);
        let span = Span::new(3, 5).unwrap();
        assert_eq!([2, 3, 4, 5].map(|time| span.contains(time)), [false, true, true, false]);
        assert_eq!((span.from(), span.to()), (3, 5));
        assert_eq!(Span::try_from(<(i64, i64)>::from(span)), Ok(span));
        assert!(Span::try_from((5, 5)).is_err());
        let other = |from, to| span.overlaps(Span::new(from, to).unwrap());
        assert_eq!([other(0, 3), other(0, 4), other(4, 9), other(5, 9), other(0, 9)], [false, true, true, false, true]);
    }

    #[test]
    fn samples_are_labelled_usable_and_in_time_order() {
        let mut draw = random(3);
        for symbols in [0, 1, 2, 5] {
            let market: Vec<Bars> = (0..symbols).map(|_| walk(&mut draw, 60)).collect();
            let spec = Labeling { rule: Rule::Fixed { horizon: 4 }, ..Labeling::default() };
            let labels = label(&market, &whole(&market), &spec, 1).unwrap();
            let usable = |row: usize| !row.is_multiple_of(3);
            let samples = Samples::new(&Clock::new(&market), &labels, usable);
            let t0: Vec<i64> = market.iter().flat_map(|bars| bars.end.iter().copied()).collect();
            let mut rows: Vec<usize> = (0..t0.len()).filter(|r| usable(*r) && labels.class[*r] != NONE).collect();
            rows.sort_by_key(|row| (t0[*row], *row));
            assert_eq!(samples.len(), rows.len());
            assert_eq!(samples.is_empty(), symbols == 0);
            for (i, row) in rows.into_iter().enumerate() {
                assert_eq!((samples.rows[i] as usize, samples.t0[i]), (row, t0[row]));
                assert_eq!((samples.t1[i], samples.class[i]), (labels.t1[row], labels.class[row]));
                assert_eq!(samples.weight[i], labels.weight[row]);
                assert!(samples.t0[i] < samples.t1[i]);
            }
        }
    }

    #[test]
    fn a_step_ends_with_the_next_bar_of_its_run() {
        let mut draw = random(5);
        let market: Vec<Bars> = (0..3).map(|_| walk(&mut draw, 60)).collect();
        let runs: Vec<Vec<Range<usize>>> = market.iter().map(|_| vec![0..20, 20..60]).collect();
        let clock = Clock::new(&market);
        let usable = |row: usize| !row.is_multiple_of(3);
        let samples = Samples::without_class(&market, &runs, &clock, usable);
        let end: Vec<i64> = market.iter().flat_map(|bars| bars.end.iter().copied()).collect();
        let mut rows: Vec<usize> = (0..180).filter(|row| usable(*row) && ![19, 59].contains(&(row % 60))).collect();
        rows.sort_by_key(|row| (end[*row], *row));
        assert_eq!(samples.rows.iter().map(|row| *row as usize).collect::<Vec<_>>(), rows);
        assert_eq!(samples.t0, rows.iter().map(|row| end[*row]).collect::<Vec<_>>());
        assert_eq!(samples.t1, rows.iter().map(|row| end[*row + 1]).collect::<Vec<_>>());
        assert!(samples.class.is_empty() && samples.weight == vec![1.0; rows.len()]);
    }

    #[test]
    fn step_needs_an_open_after_the_row_is_known() {
        let mut bars = walk(&mut random(7), 10);
        bars.start[4] = bars.end[3] - 1;
        let market = [bars];
        let samples = Samples::without_class(&market, &whole(&market), &Clock::new(&market), |_| true);
        assert_eq!(samples.rows, [0, 1, 2, 4, 5, 6, 7, 8]);
    }
}
