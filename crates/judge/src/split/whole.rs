//! Training on everything: one fold without validation or test, for a recipe that was judged elsewhere.

use super::purge::Block;
use super::refuse::in_order;
use super::{Holdout, Splits, check};
use features::{Fold, FoldKind, FoldSpans, Samples, Span};
use files::{Error, Result};

/// One fold that trains on every sample whose label was known before `locked_from`, or on all of them.
///
/// # Errors
///
/// Where samples or ticks are not in order, and where nothing is left.
pub fn whole(samples: &Samples, ticks: &[i64], locked_from: Option<i64>) -> Result<Splits> {
    in_order(samples, ticks, &vec![0; ticks.len()])?;
    let limit = locked_from.unwrap_or(i64::MAX);
    let known = samples.t0.partition_point(|t0| *t0 < limit);
    let reaches = |at: &u32| locked_from.is_some() && samples.t1[*at as usize] >= limit;
    let (purged, train): (Vec<u32>, Vec<u32>) = (0..known as u32).partition(reaches);
    let block = Block::of(samples, &train).and_then(|block| Some((block.span()?, block.to.saturating_add(1))));
    let spans = block.and_then(|(train, end)| {
        let behind = Span::new(end, end.saturating_add(1))?;
        Some(FoldSpans { train, valid: behind, test: behind })
    });
    let spans = spans.ok_or_else(|| {
        Error::input("there is nothing to train on before what is locked").remedy("give more data from before it")
    })?;
    let held: Vec<u32> = (known as u32..samples.len() as u32).collect();
    let span = Block::of(samples, &held).and_then(Block::span);
    let holdout = span.map(|span| Holdout { span, samples: held, purged: purged.len(), embargoed: 0 });
    let kind = FoldKind::Whole;
    let fold = Fold { number: 0, kind, train, valid: vec![], test: vec![], spans, purged: purged.len(), embargoed: 0 };
    let splits = Splits { folds: vec![fold], holdout, embargo: 0, groups: Vec::new() };
    check(samples, ticks, &splits)?;
    Ok(splits)
}
