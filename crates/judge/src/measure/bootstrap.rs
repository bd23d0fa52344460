//! How sure a figure is: resampling of days or blocks, never of single samples, because labels overlap and days hang
//! together.
//!
//! Groups (days, say) are drawn in runs of `block` neighbours, the first following the last, until there are as many as
//! before; the figure is taken of each draw, and the interval is what lies between the quantiles. A draw's numbers come
//! from the seed and its own number alone.

use super::Confusion;
use files::{Error, Kind, Result};
use random::{SplitMix, mix};
use serde::{Deserialize, Serialize};

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// How many draws.
    pub draws: usize,
    /// The share of draws inside the interval.
    pub level: f64,
    /// Neighbouring groups drawn together: 1 where groups do not hang together.
    pub block: usize,
    /// Same seed, same bits.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Bootstrap {
        Bootstrap { draws: 1000, level: 0.95, block: 1, seed: 0 }
    }
}

/// Where a figure lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Of the data as they are.
    pub point: f64,
    /// Below are half of the draws outside.
    pub low: f64,
    /// Above is the other half.
    pub high: f64,
}

/// The interval of a figure over `groups` groups; `figure` is handed the groups of a draw, `[groups]`.
///
/// # Errors
///
/// Where there are no groups, no draws, no block, or the level is not between 0 and 1.
pub fn bootstrap(groups: usize, spec: &Bootstrap, mut figure: impl FnMut(&[usize]) -> f64) -> Result<Interval> {
    if groups == 0 || spec.draws == 0 || spec.block == 0 || !(spec.level > 0.0 && spec.level < 1.0) {
        let what = format!("no interval from {groups} groups with {spec:?}");
        return Err(Error::new(Kind::Usage, what).remedy("1000 draws at level 0.95 in blocks of at least 1"));
    }
    let mut chosen: Vec<usize> = (0..groups).collect();
    let point = figure(&chosen);
    let mut figures = Vec::with_capacity(spec.draws);
    for draw in 0..spec.draws {
        let mut random = SplitMix::new(mix(spec.seed) ^ mix(!(draw as u64)));
        for run in chosen.chunks_mut(spec.block) {
            let start = random.below(groups);
            run.iter_mut().enumerate().for_each(|(i, group)| *group = (start + i) % groups);
        }
        figures.push(figure(&chosen));
    }
    figures.sort_by(f64::total_cmp);
    let outside = (1.0 - spec.level) / 2.0;
    Ok(Interval { point, low: quantile(&figures, outside), high: quantile(&figures, 1.0 - outside) })
}

/// One matrix for each run of equal values in `group` (`[n]`: the day of each sample, say).
///
/// # Errors
///
/// Where lengths differ or a class is not there.
pub fn by_group(classes: usize, truth: &[u8], predicted: &[u8], group: &[i32]) -> Result<Vec<Confusion>> {
    if truth.len() != predicted.len() || truth.len() != group.len() {
        let (t, p, g) = (truth.len(), predicted.len(), group.len());
        return Err(Error::input(format!("{t} labels, {p} predictions, {g} groups")));
    }
    let mut from = 0;
    let runs = group.chunk_by(|a, b| a == b).map(|run| {
        let here = from..from + run.len();
        from = here.end;
        Confusion::count(classes, &truth[here.clone()], &predicted[here])
    });
    runs.collect()
}

/// Between the two nearest of sorted figures.
pub(crate) fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = at * (sorted.len() - 1) as f64;
    let below = place as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}
