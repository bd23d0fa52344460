//! Which columns make rows alike: those that predict the distribution of the next move on rows held out.
//!
//! A distribution is scored by CRPS (Gneiting and Raftery 2007), the mean distance of the outcome from what was
//! predicted, less half the mean distance between predictions; the fair form, so that small cells have no handicap.
//! Columns join one after the other while the score improves by more than three standard errors.

use super::cells::{COLUMNS, Cells};
use super::rows::Rows;

/// Rows that columns are chosen with, and rows that score them, about.
const FITTED: usize = 12_000;
const HELD_OUT: usize = 4_000;
/// Share of the clock times that fits; the rest is held out.
const FIT_SHARE: f64 = 0.75;
/// Standard errors by which a column must improve the score. The best of dozens that know nothing is above two.
const SURE: f64 = 3.0;

/// How well a model predicts the next move, in deviations known before it, on rows held out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelScore {
    /// The columns that make rows alike, the most important first.
    pub columns: Vec<usize>,
    /// Mean CRPS of the model; smaller is better.
    pub crps: f64,
    /// The same of a model that draws from all rows alike.
    pub crps_of_all: f64,
    /// Share of outcomes inside the central 80 % of what was predicted.
    pub coverage: f64,
    /// Rows that were held out.
    pub rows: usize,
}

/// The columns, and the score of a model that has them.
pub(super) fn choose(rows: &Rows, before: &[u32]) -> (Vec<usize>, ModelScore) {
    let clock = |row: &u32| rows.row(row + 1).clock;
    let (first, last) = before.iter().map(clock).fold((u32::MAX, 0), |(a, b), clock| (a.min(clock), b.max(clock)));
    let end = first + (f64::from(last - first) * FIT_SHARE) as u32;
    let (fit, held): (Vec<u32>, Vec<u32>) = before.iter().partition(|row| clock(row) <= end);
    let (fit, held) = (thinned(&fit, FITTED), thinned(&held, HELD_OUT));
    if fit.len() < 2 || held.len() < 2 {
        return (Vec::new(), ModelScore::default());
    }
    let mut columns = Vec::new();
    let (of_all, mut inside) = scores(rows, &fit, &held, &columns);
    let mut own = of_all.clone();
    while columns.len() < COLUMNS {
        let mut best: Option<(f64, usize, Vec<f64>, f64)> = None;
        for column in (0..rows.features()).filter(|column| !columns.contains(column)) {
            let with: Vec<usize> = columns.iter().copied().chain([column]).collect();
            let (scored, inside) = scores(rows, &fit, &held, &with);
            let (gain, error) = mean(own.iter().zip(&scored).map(|(before, with)| before - with));
            if gain > SURE * error && best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                best = Some((gain, column, scored, inside));
            }
        }
        let Some((_, column, scored, covered)) = best else { break };
        columns.push(column);
        (own, inside) = (scored, covered);
    }
    let score = ModelScore {
        columns: columns.clone(),
        crps: mean(own.iter().copied()).0,
        crps_of_all: mean(of_all.iter().copied()).0,
        coverage: inside,
        rows: held.len(),
    };
    (columns, score)
}

/// `[held]` the score of each, and the share inside the central 80 %.
fn scores(rows: &Rows, fit: &[u32], held: &[u32], columns: &[usize]) -> (Vec<f64>, f64) {
    let cells = Cells::new(rows, fit, columns);
    let middle = [1 << 31; COLUMNS]; // moves nothing
    let mut known: std::collections::HashMap<usize, Sorted> = std::collections::HashMap::new();
    let (mut all, mut inside) = (Vec::with_capacity(held.len()), 0);
    for row in held {
        let near = cells.near(&cells.key(rows.observation(*row)), middle);
        // A cell is known by where it lies and how long it is.
        let place = (near.as_ptr() as usize).wrapping_mul(31).wrapping_add(near.len());
        let sorted = known.entry(place).or_insert_with(|| Sorted::new(near.iter().map(|row| outcome(rows, *row))));
        let y = outcome(rows, *row);
        all.push(sorted.crps(y));
        inside += usize::from((0.1..=0.9).contains(&sorted.below(y)));
    }
    (all, inside as f64 / held.len().max(1) as f64)
}

/// The move behind a row in deviations known at it.
pub(crate) fn outcome(rows: &Rows, row: u32) -> f64 {
    let (now, next) = (&rows.row(row).bar, &rows.row(row + 1).bar);
    let moved = next.close * next.split / now.close - 1.0;
    if now.sigma > 0.0 { moved / now.sigma } else { moved }
}

/// Outcomes in order, with their sums.
pub(crate) struct Sorted {
    values: Vec<f64>,
    sums: Vec<f64>, // [n + 1]
    /// Half the mean distance between two of them.
    spread: f64,
}

impl Sorted {
    pub(crate) fn new(values: impl Iterator<Item = f64>) -> Sorted {
        let mut values: Vec<f64> = values.collect();
        values.sort_unstable_by(f64::total_cmp);
        let mut sums = vec![0.0];
        values.iter().for_each(|v| sums.push(sums[sums.len() - 1] + v));
        let n = values.len() as f64;
        let pairs: f64 = values.iter().enumerate().map(|(i, v)| (2.0 * i as f64 - n + 1.0) * v).sum();
        Sorted { spread: pairs / (n * (n - 1.0).max(1.0)), values, sums }
    }

    pub(crate) fn crps(&self, y: f64) -> f64 {
        let (n, k) = (self.values.len(), self.values.partition_point(|v| *v <= y));
        let distance = y * (2.0 * k as f64 - n as f64) - (2.0 * self.sums[k] - self.sums[n]);
        distance / n as f64 - self.spread
    }

    /// Share of outcomes that are not above `y`.
    pub(crate) fn below(&self, y: f64) -> f64 {
        self.values.partition_point(|v| *v <= y) as f64 / self.values.len() as f64
    }
}

/// Mean, and its standard error.
fn mean(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let squares: f64 = values.map(|v| (v - mean) * (v - mean)).sum();
    (mean, (squares / (n - 1.0).max(1.0) / n).sqrt())
}

/// At most so many, evenly spread.
fn thinned(rows: &[u32], most: usize) -> Vec<u32> {
    let count = rows.len().min(most);
    (0..count).map(|i| rows[i * rows.len() / count]).collect()
}
