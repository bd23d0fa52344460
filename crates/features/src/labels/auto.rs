//! The horizon nobody has to choose: the shortest whose classes are balanced.
//!
//! The triple barrier of width 1 is tried on the first training span with each of [`HORIZONS`]; the shortest that gives
//! every class at least a fifth of the samples is taken, or, where none does, the one whose smallest class is the
//! largest. Only samples whose label was known inside the span count, so that nothing any fold validates or is judged
//! on has a say. Where the span ends is for those to say who split ([`TrainEnd`]): it lies before the first validation,
//! which lies before the first test, the embargo and the holdout.

use super::{Path, Rule, TrainEnd, triple};
use crate::class;
use std::ops::Range;

/// Horizons tried, in bars.
pub(super) const HORIZONS: [usize; 6] = [3, 6, 12, 24, 48, 96];

/// The moment at which the first training span ends; `None` where there is too little to have one.
pub(super) fn first_span(times: &[i64], first: TrainEnd) -> Option<i64> {
    match first {
        TrainEnd::Until(time) => times.first().is_some_and(|begin| *begin <= time).then_some(time),
        TrainEnd::Share(share) => {
            ((times.len() as f64 * share) as usize).checked_sub(1).and_then(|last| times.get(last).copied())
        }
    }
}

/// Classes of some rows of a symbol for each horizon, of samples whose label was known at `until`.
pub(super) fn count(path: &Path, runs: &[Range<usize>], rows: Range<usize>, until: i64) -> [[u64; 3]; HORIZONS.len()] {
    HORIZONS.map(|h| {
        let mut classes = [0; 3];
        path.each(
            runs,
            h,
            &rows,
            |t| triple::mark(path, t, h, 1.0),
            |_, mark| {
                if mark.t1 <= until {
                    classes[usize::from(class::index(mark.class, 3))] += 1;
                }
            },
        );
        classes
    })
}

/// The rule for what was seen.
pub(super) fn choose(tried: &[(usize, [u64; 3])]) -> Rule {
    // Shares, not counts: a longer horizon has fewer samples. Compared as products, so that nothing is rounded.
    let least = |classes: &[u64; 3]| classes[0].min(classes[1]).min(classes[2]) as u128;
    let all = |classes: &[u64; 3]| classes.iter().sum::<u64>() as u128;
    let balanced = tried.iter().find(|(_, classes)| all(classes) > 0 && 5 * least(classes) >= all(classes));
    let (horizon, _) = balanced.copied().unwrap_or_else(|| {
        tried.iter().copied().fold((HORIZONS[0], [0; 3]), |best, next| {
            let better = least(&next.1) * all(&best.1).max(1) > least(&best.1) * all(&next.1).max(1);
            if better { next } else { best }
        })
    });
    Rule::Triple { horizon, width: 1.0 }
}
