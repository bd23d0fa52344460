//! The horizon nobody has to choose: the shortest whose classes are balanced.
//!
//! The triple barrier is tried on the first training span: the horizons from the shortest on, and for each the
//! [`WIDTHS`] in their order. The first that gives every class at least a fifth of the samples is taken, if its median
//! barrier is at least [`WORTH`] round-trip costs away: nearer ones ask for more hits than there are to be had. Where
//! no balanced one is that wide, the first balanced one is taken; where none is balanced, the one whose smallest class
//! is the largest. Only samples whose label was known inside the span count, so that nothing any fold validates or is
//! judged on has a say. Where the span ends is for those to say who split ([`TrainEnd`]): it lies before the first
//! validation, which lies before the first test and the holdout.

use super::{Path, Rule, TrainEnd, triple};
use crate::class;
use std::ops::Range;

/// Horizons tried, in bars.
pub(super) const HORIZONS: [usize; 6] = [3, 6, 12, 24, 48, 96];

/// Distances of the barriers tried for each, in standard deviations of a move over the horizon.
pub(super) const WIDTHS: [f64; 4] = [1.0, 0.75, 1.5, 0.5];

/// Round-trip costs that the median barrier is away at least.
const WORTH: f64 = 5.0;

/// One try: horizon, width, and labels of each class on the first training span.
pub(super) type Try = (usize, f64, [u64; 3]);

/// The moment at which the first training span ends; `None` where there is too little to have one.
pub(super) fn first_span(times: &[i64], first: TrainEnd) -> Option<i64> {
    match first {
        TrainEnd::Until(time) => times.first().is_some_and(|begin| *begin <= time).then_some(time),
        TrainEnd::Share(share) => {
            ((times.len() as f64 * share) as usize).checked_sub(1).and_then(|last| times.get(last).copied())
        }
    }
}

/// Classes of some rows of a symbol, of samples whose label was known at `until`.
pub(super) fn count(
    path: &Path,
    runs: &[Range<usize>],
    rows: Range<usize>,
    (horizon, width): (usize, f64),
    until: i64,
) -> [u64; 3] {
    let mut classes = [0; 3];
    path.each(
        runs,
        horizon,
        &rows,
        |t| triple::mark(path, t, horizon, width),
        |_, mark| {
            if mark.t1 <= until {
                classes[usize::from(class::index(mark.class, 3))] += 1;
            }
        },
    );
    classes
}

/// The median of σ over the cost of a round trip, of rows known before `until`; infinite where nothing costs.
pub(super) fn median_sigma(paths: &[Path], until: i64) -> f64 {
    let of = |path: &Path| {
        let known = path.known.partition_point(|known| *known < until);
        let cost = path.cost;
        path.sigma[..known].iter().filter(|sigma| sigma.is_finite()).map(|sigma| sigma / cost).collect::<Vec<f64>>()
    };
    let mut all: Vec<f64> = paths.iter().flat_map(of).filter(|ratio| !ratio.is_nan()).collect();
    let middle = all.len() / 2;
    if all.is_empty() { f64::INFINITY } else { *all.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

/// The rule for what `count` sees, and all that was tried for it: horizons of up to `longest` bars, the shortest
/// always. `sigma` is what [`median_sigma`] gives.
pub(super) fn choose(longest: usize, sigma: f64, mut count: impl FnMut(usize, f64) -> [u64; 3]) -> (Rule, Vec<Try>) {
    // Shares, not counts: a longer horizon has fewer samples. Compared as products, so that nothing is rounded.
    let least = |classes: &[u64; 3]| classes[0].min(classes[1]).min(classes[2]) as u128;
    let all = |classes: &[u64; 3]| classes.iter().sum::<u64>() as u128;
    let mut tried: Vec<Try> = Vec::new();
    let (mut narrow, mut best) = (None, (HORIZONS[0], WIDTHS[0], [0; 3]));
    for horizon in HORIZONS.into_iter().filter(|h| *h <= longest.max(HORIZONS[0])) {
        for width in WIDTHS {
            let wide = width * (horizon as f64).sqrt() * sigma >= WORTH;
            // A balanced one is known: only a wider one is of interest.
            if narrow.is_some() && !wide {
                continue;
            }
            let one = (horizon, width, count(horizon, width));
            tried.push(one);
            if all(&one.2) > 0 && 5 * least(&one.2) >= all(&one.2) {
                if wide {
                    return (Rule::Triple { horizon, width }, tried);
                }
                narrow = narrow.or(Some(one));
            }
            if least(&one.2) * all(&best.2).max(1) > least(&best.2) * all(&one.2).max(1) {
                best = one;
            }
        }
    }
    let (horizon, width, _) = narrow.unwrap_or(best);
    (Rule::Triple { horizon, width }, tried)
}
