//! The promise of a split, checked on the split itself; whoever made it.

use super::{Block, Splits};
use features::{Fold, FoldKind, Samples};
use files::{Error, Kind, Result};
use std::ops::Range;

/// Whether folds keep the promise of their kind: parts in order of time with no label across a border and test blocks
/// apart; or training around test blocks, purged and under embargo; or training alone. The holdout is out of reach of
/// all.
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
        last_label = last_label.max(reach(samples, fold));
        match fold.kind {
            FoldKind::Forward => {}
            FoldKind::Around => {
                check_around(samples, ticks, fold, splits.embargo).map_err(broken)?;
                continue;
            }
            FoldKind::Whole => {
                if covered(samples, &fold.train).is_none() || !(fold.valid.is_empty() && fold.test.is_empty()) {
                    return Err(broken("it is to train on everything and to do nothing else"));
                }
                continue;
            }
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
    }
    if let Some(holdout) = &splits.holdout {
        let held =
            covered(samples, &holdout.samples).ok_or_else(|| broken("the holdout is empty or not in order".into()))?;
        if Some(holdout.span) != held.span() {
            return Err(broken("the holdout's span is not that of its samples".into()));
        }
        let first = ticks.partition_point(|tick| *tick < held.from);
        // Around its tests a fold has the embargo behind them; before the holdout the purge is enough.
        let is_walk = splits.folds.iter().all(|fold| fold.kind == FoldKind::Forward);
        let embargo = if is_walk { splits.embargo } else { 0 };
        let free = first.checked_sub(embargo).and_then(|tick| ticks.get(tick));
        if !splits.folds.is_empty() && free.is_none_or(|free| last_label >= *free) {
            return Err(broken(match embargo {
                0 => "a label reaches into the holdout".into(),
                bars => format!("a label ends less than {bars} bars before the holdout"),
            }));
        }
    }
    Ok(())
}

/// When the last label of any part of a fold was known.
fn reach(samples: &Samples, fold: &Fold) -> i64 {
    let parts = [&fold.train, &fold.valid, &fold.test].into_iter().flatten();
    parts.filter_map(|at| samples.t1.get(*at as usize)).max().copied().unwrap_or(i64::MIN)
}

/// A part in pieces between which no sample of the others lies, as ranges of places in it. Positions rise.
pub fn pieces(part: &[u32], others: &[&[u32]]) -> Vec<Range<usize>> {
    let between = |a: u32, b: u32| {
        others.iter().any(|other| {
            let at = other.partition_point(|position| *position <= a);
            other.get(at).is_some_and(|position| *position < b)
        })
    };
    let mut all: Vec<Range<usize>> = Vec::new();
    for at in 0..part.len() {
        match all.last_mut() {
            Some(piece) if !between(part[at - 1], part[at]) => piece.end = at + 1,
            _ => all.push(at..at + 1),
        }
    }
    all
}

/// No interval of training or validation touches a test block or begins within the embargo behind one, and none of
/// training touches validation.
fn check_around(samples: &Samples, ticks: &[i64], fold: &Fold, embargo: usize) -> Result<(), &'static str> {
    let [train, valid, test] = [&fold.train, &fold.valid, &fold.test].map(|part| covered(samples, part));
    let (Some(train), Some(valid), Some(test)) = (train, valid, test) else {
        return Err("a part is empty or not in order");
    };
    let spans = [fold.spans.train, fold.spans.valid, fold.spans.test];
    if spans.map(Some) != [train, valid, test].map(Block::span) {
        return Err("its spans are not those of its samples");
    }
    let blocks = |part: &[u32], others: &[&[u32]]| -> Vec<Block> {
        pieces(part, others).into_iter().filter_map(|piece| Block::of(samples, &part[piece])).collect()
    };
    let touches = |at: &u32, block: &Block| {
        let (t0, t1) = (samples.t0[*at as usize], samples.t1[*at as usize]);
        t0 <= block.to && t1 >= block.from
    };
    for block in blocks(&fold.test, &[&fold.train, &fold.valid]) {
        let behind = ticks.partition_point(|tick| *tick <= block.to).saturating_add(embargo);
        let free = ticks.get(behind).copied().unwrap_or(i64::MAX);
        for at in fold.train.iter().chain(&fold.valid) {
            if touches(at, &block) {
                return Err("a label of training or validation touches its test");
            }
            if (block.to..free).contains(&samples.t0[*at as usize]) {
                return Err("training or validation follows its test within the embargo");
            }
        }
    }
    for block in blocks(&fold.valid, &[&fold.train, &fold.test]) {
        if fold.train.iter().any(|at| touches(at, &block)) {
            return Err("a label of training reaches into validation");
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
