//! The promise of a split, checked on the split itself; whoever made it.

use super::{Block, Splits};
use features::Samples;
use files::{Error, Kind, Result};

/// Whether folds keep their promise: parts in order of time with no label across a border, test blocks apart, the
/// holdout out of reach.
///
/// Every split made here has been through this, and so should one that was read from a file.
///
/// # Errors
///
/// The first promise that is broken.
pub fn check(samples: &Samples, ticks: &[i64], splits: &Splits) -> Result<()> {
    let mut tested_until = None;
    let mut last_label = i64::MIN;
    for (number, fold) in splits.folds.iter().enumerate() {
        let broken = |what: &str| broken(format!("fold {}: {what}", number + 1));
        if fold.number != number {
            return Err(broken("it has another number"));
        }
        let [train, valid, test] = [&fold.train, &fold.valid, &fold.test].map(|part| covered(samples, part));
        let (train, valid, test) = train
            .zip(valid)
            .zip(test)
            .map(|((a, b), c)| (a, b, c))
            .ok_or_else(|| broken("a part is empty or not in order"))?;
        if train.to >= valid.from {
            return Err(broken("a label of training reaches into validation"));
        }
        if train.to.max(valid.to) >= test.from {
            return Err(broken("a label of validation reaches into the test"));
        }
        let spans = [fold.spans.train, fold.spans.valid, fold.spans.test];
        if spans.map(Some) != [train, valid, test].map(Block::span) {
            return Err(broken("its spans are not those of its samples"));
        }
        // Two test blocks may share labels, but no moment: the same tick is not judged twice.
        if tested_until.is_some_and(|until| test.from <= until) {
            return Err(broken("its test begins before the test before it ends"));
        }
        tested_until = fold.test.last().map(|at| samples.t0[*at as usize]);
        last_label = last_label.max(test.to);
    }
    if let Some(holdout) = &splits.holdout {
        let held =
            covered(samples, &holdout.samples).ok_or_else(|| broken("the holdout is empty or not in order".into()))?;
        if Some(holdout.span) != held.span() {
            return Err(broken("the holdout's span is not that of its samples".into()));
        }
        let first = ticks.partition_point(|tick| *tick < held.from);
        let free = first.checked_sub(splits.embargo).and_then(|tick| ticks.get(tick));
        if !splits.folds.is_empty() && free.is_none_or(|free| last_label >= *free) {
            return Err(broken(match splits.embargo {
                0 => "a label reaches into the holdout".into(),
                bars => format!("a label ends less than {bars} bars before the holdout"),
            }));
        }
    }
    Ok(())
}

/// What a part covers; `None` unless it has samples, all there are, in rising order.
fn covered(samples: &Samples, part: &[u32]) -> Option<Block> {
    let rising = part.is_sorted_by(|a, b| a < b);
    let known = part.last().is_some_and(|last| (*last as usize) < samples.len());
    if rising && known { Block::of(samples, part) } else { None }
}

fn broken(what: String) -> Error {
    Error::new(Kind::State, format!("the split breaks its promise: {what}")).remedy(
        "if the split was read from a file, it belongs to other data; if it was made just now, please report this",
    )
}
