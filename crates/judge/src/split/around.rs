//! Purged k-fold and combinatorial purged cross-validation: training on both sides of what is tested
//! (docs/method.md, Splits).
//!
//! Time before the holdout is cut into groups. Every choice of some of them is the test of one fold, and everything
//! else is trained on, but for what is purged (its label touches a test block) and what is under embargo (it follows
//! one too closely). The last part of each stretch of training is for validation. K-fold tests one group at a time.
//!
//! Each group is tested in several folds, so that predictions of different folds make up several *paths* through all of
//! the time ([`paths`]): their Sharpe ratios are a distribution instead of one number.

use super::purge::{Rule, purge_by};
use super::refuse::{check_settings, in_order, longest_label, too_short};
use super::walk::{hold_out, share, usable};
use super::{Block, Splits, WalkForward, check, overlaps};
use features::{Fold, FoldKind, FoldSpans, Samples};
use files::{Error, Kind, Result};
use std::ops::Range;

/// No split has more folds.
const MOST: usize = 1000;

/// Folds for every choice of `tested` of `groups` parts of the time; `spec` says what is held out and how much of
/// training is for validation.
///
/// # Errors
///
/// Where a setting makes no sense, and where a part of a fold would be empty.
pub fn around(samples: &Samples, ticks: &[i64], spec: &WalkForward, groups: usize, tested: usize) -> Result<Splits> {
    let splits = plan_around(samples, ticks, spec, [groups, tested], overlaps)?;
    check(samples, ticks, &splits)?;
    Ok(splits)
}

/// `[paths][groups]` the fold that each path takes each group from: its first, second, … fold that tests it.
pub fn paths(groups: usize, tested: usize) -> Vec<Vec<usize>> {
    let folds = choices(groups, tested);
    let of = |group: usize| (0..folds.len()).filter(|fold| folds[*fold].contains(&group)).collect::<Vec<_>>();
    let each: Vec<Vec<usize>> = (0..groups).map(of).collect();
    (0..each.first().map_or(0, Vec::len)).map(|path| each.iter().map(|folds| folds[path]).collect()).collect()
}

/// Every choice of `tested` of `groups`, in order.
fn choices(groups: usize, tested: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for chosen in 0..tested {
        let longer = |some: &Vec<usize>| {
            let from = some.last().map_or(0, |last| last + 1);
            // So many must still come behind it.
            (from..groups - (tested - chosen - 1)).map(|next| [&some[..], &[next]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// How many choices there are; more than 64 bits hold are that many.
fn count(groups: usize, tested: usize) -> usize {
    (0..tested.min(groups - tested)).fold(1usize, |all, k| all.saturating_mul(groups - k) / (k + 1))
}

pub(super) fn plan_around(
    samples: &Samples,
    ticks: &[i64],
    spec: &WalkForward,
    [groups, tested]: [usize; 2],
    rule: Rule,
) -> Result<Splits> {
    check_settings(spec)?;
    in_order(samples, ticks, &vec![0; ticks.len()])?;
    if !(1..groups).contains(&tested) || count(groups, tested) > MOST {
        let what = format!("{tested} of {groups} groups cannot be tested at a time");
        let remedy = format!("test fewer than all of them, in at most {MOST} folds: 6 groups and 2 tested give 15");
        return Err(Error::new(Kind::Usage, what).remedy(remedy));
    }
    let choices = choices(groups, tested);
    let short = |what: String| too_short(what, samples, ticks, spec);
    let (Some(first), Some(last)) = (samples.t0.first(), samples.t0.last()) else {
        return Err(short("there are no samples to split".into()));
    };
    let [begin, end] = [*first, *last + 1].map(|time| ticks.partition_point(|tick| *tick < time));
    let work = hold_out(samples, ticks, begin..end, spec).map_err(&short)?;
    let (from, count) = (work.ticks.start, work.ticks.len());
    let border = |group: usize| from + (count as u128 * group as u128 / groups as u128) as usize;
    let embargo = share(count, 0.01).max(longest_label(samples, ticks)).max(spec.embargo);
    let usable = |range: Range<usize>| usable(samples, ticks, range, work.limit);

    let mut folds = Vec::with_capacity(choices.len());
    for (number, test_groups) in choices.iter().enumerate() {
        let none = |part: &str| short(format!("fold {} of {} has no samples for {part}", number + 1, choices.len()));
        let (mut train, mut valid, mut test) = (Vec::new(), Vec::new(), Vec::new());
        let (mut purged, mut embargoed) = (0, 0);
        // Neighbouring groups are one block.
        let stretches = stretches(groups, test_groups);
        let mut blocks = Vec::new();
        for (groups, _) in stretches.iter().filter(|(_, is_test)| *is_test) {
            let own = usable(border(groups.start)..border(groups.end));
            blocks.push(Block::of(samples, &own).ok_or_else(|| none("its test"))?);
            test.extend(own);
        }
        let mut apart = |candidates: Vec<u32>, blocks: &[Block], embargo: usize| {
            let purge = |kept: Vec<u32>, block: &Block| {
                let left = purge_by(rule, samples, &kept, *block, ticks, embargo);
                (purged, embargoed) = (purged + left.purged, embargoed + left.embargoed);
                left.kept
            };
            blocks.iter().fold(candidates, purge)
        };
        for (groups, _) in stretches.iter().filter(|(_, is_test)| !*is_test) {
            let (start, end) = (border(groups.start), border(groups.end));
            let middle = end - share(end - start, spec.validation);
            let validating = apart(usable(middle..end), &blocks, embargo);
            let near = Block::of(samples, &validating);
            let learning = apart(usable(start..middle), &blocks, embargo);
            train.extend(apart(learning, near.as_slice(), 0));
            valid.extend(validating);
        }
        let span = |part: &[u32]| Block::of(samples, part).and_then(Block::span);
        let spans = FoldSpans {
            train: span(&train).ok_or_else(|| none("training"))?,
            valid: span(&valid).ok_or_else(|| none("validation"))?,
            test: span(&test).ok_or_else(|| none("its test"))?,
        };
        folds.push(Fold { number, kind: FoldKind::Around, train, valid, test, spans, purged, embargoed });
    }
    let time = |group: usize| ticks.get(border(group)).copied().unwrap_or_else(|| ticks[ticks.len() - 1] + 1);
    let borders: Vec<i64> = (0..groups).map(time).chain([time(groups).min(work.limit)]).collect();
    Ok(Splits { folds, holdout: work.holdout, embargo, groups: borders })
}

/// Stretches of neighbouring groups that are all tested or all trained on.
fn stretches(groups: usize, tested: &[usize]) -> Vec<(Range<usize>, bool)> {
    let mut all: Vec<(Range<usize>, bool)> = Vec::new();
    for group in 0..groups {
        let is_test = tested.contains(&group);
        match all.last_mut() {
            Some((range, same)) if *same == is_test => range.end = group + 1,
            _ => all.push((group..group + 1, is_test)),
        }
    }
    all
}
