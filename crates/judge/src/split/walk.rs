//! Walk-forward: where the borders lie, and what is left on each side of them.

use super::purge::{Rule, purge_by};
use super::refuse::{check_settings, in_order, too_short};
use super::{Block, Holdout, Splits, WalkForward, check, overlaps};
use features::{Fold, FoldKind, FoldSpans, Samples};
use files::Result;
use std::ops::Range;

/// Folds that walk forward through time. `ticks` `[T]` are the distinct moments at which anything became known, rising.
///
/// Time runs from the tick of the first sample to that of the last. Days (`test_days`) are UTC days here; see
/// [`walk_forward_on`].
///
/// # Errors
///
/// Where a setting makes no sense, where samples or ticks are not in order, and where a part of a fold would be empty:
/// the message says how many ticks it takes.
pub fn walk_forward(samples: &Samples, ticks: &[i64], spec: &WalkForward) -> Result<Splits> {
    let days: Vec<i32> = ticks.iter().map(|tick| utc_day(*tick)).collect();
    walk_forward_on(samples, ticks, &days, spec)
}

/// The same with the trading day of each tick (`[T]`, not falling), for `test_days`. A tick is the end of a bar: ask
/// for the day of the nanosecond before it.
///
/// # Errors
///
/// As [`walk_forward`].
pub fn walk_forward_on(samples: &Samples, ticks: &[i64], days: &[i32], spec: &WalkForward) -> Result<Splits> {
    let splits = plan_splits(samples, ticks, days, spec, overlaps)?;
    check(samples, ticks, &splits)?;
    Ok(splits)
}

pub(super) fn plan_splits(
    samples: &Samples,
    ticks: &[i64],
    days: &[i32],
    spec: &WalkForward,
    rule: Rule,
) -> Result<Splits> {
    check_settings(spec)?;
    in_order(samples, ticks, days)?;
    let short = |what: String| too_short(what, samples, ticks, spec);
    let (Some(first), Some(last)) = (samples.t0.first(), samples.t0.last()) else {
        return Err(short("there are no samples to split".into()));
    };
    let [begin, end] = [*first, *last + 1].map(|time| ticks.partition_point(|tick| *tick < time));
    let embargo = spec.embargo;

    let Work { ticks: work, limit, holdout } = hold_out(samples, ticks, begin..end, spec).map_err(&short)?;
    let usable = |range: Range<usize>| usable(samples, ticks, range, limit);

    let borders = match spec.test_days {
        Some(wanted) => last_days(samples, ticks, days, &usable(work.clone()), wanted).map(|from| vec![from, work.end]),
        None => borders(work, spec),
    };
    let borders = borders.map_err(&short)?;
    let count = borders.len() - 1;
    let mut folds = Vec::with_capacity(count);
    for (number, block) in borders.windows(2).enumerate() {
        let (history, valid) = history(begin, block[0], spec);
        let none = |part: &str| short(format!("fold {} of {count} has no samples for {part}", number + 1));
        let test = usable(block[0]..block[1]);
        let tested = Block::of(samples, &test).ok_or_else(|| none("its test"))?;
        let before = purge_by(rule, samples, &usable(valid..block[0]), tested, ticks, embargo);
        let valid_block = Block::of(samples, &before.kept).ok_or_else(|| none("validation"))?;
        let near = purge_by(rule, samples, &usable(history..valid), valid_block, ticks, embargo);
        let far = purge_by(rule, samples, &near.kept, tested, ticks, embargo);
        let train_block = Block::of(samples, &far.kept).ok_or_else(|| none("training"))?;
        let (Some(train), Some(valid), Some(test_span)) = (train_block.span(), valid_block.span(), tested.span())
        else {
            return Err(none("a span of time"));
        };
        folds.push(Fold {
            number,
            kind: FoldKind::Forward,
            train: far.kept,
            valid: before.kept,
            test,
            spans: FoldSpans { train, valid, test: test_span },
            purged: before.purged + near.purged + far.purged,
            embargoed: before.embargoed + near.embargoed + far.embargoed,
        });
    }
    Ok(Splits { folds, holdout, embargo, groups: Vec::new() })
}

/// What folds may use.
pub(super) struct Work {
    /// Ticks before what is held out.
    pub(super) ticks: Range<usize>,
    /// No label that any fold uses reaches it.
    pub(super) limit: i64,
    pub(super) holdout: Option<Holdout>,
}

/// Cuts off what is held out of a range of ticks.
pub(super) fn hold_out(
    samples: &Samples,
    ticks: &[i64],
    range: Range<usize>,
    spec: &WalkForward,
) -> Result<Work, String> {
    let Range { start: begin, end } = range;
    let embargo = spec.embargo;
    let from = holdout_from(ticks, begin..end, spec);
    if from >= end {
        return Ok(Work { ticks: begin..end, limit: i64::MAX, holdout: None });
    }
    let work = from.checked_sub(embargo).filter(|work| *work > begin).ok_or_else(|| {
        let gap = if embargo > 0 { format!(" and the embargo before it ({embargo})") } else { String::new() };
        format!("the holdout ({} bars){gap} leaves nothing to train on", end - from)
    })?;
    let limit = ticks[work];
    let (held, before) = (between(samples, ticks, from..end), between(samples, ticks, begin..from));
    let reach = |till: i64| before.iter().filter(|at| samples.t1[**at as usize] >= till).count();
    let span = Block::of(samples, &held).and_then(Block::span).ok_or("the holdout has no samples")?;
    let purged = reach(ticks[from]);
    let holdout = Some(Holdout { span, samples: held, purged, embargoed: reach(limit) - purged });
    Ok(Work { ticks: begin..work, limit, holdout })
}

/// Positions of the samples known in those ticks whose labels end before the limit.
pub(super) fn usable(samples: &Samples, ticks: &[i64], range: Range<usize>, limit: i64) -> Vec<u32> {
    let open = limit == i64::MAX;
    between(samples, ticks, range).into_iter().filter(|at| open || samples.t1[*at as usize] < limit).collect()
}

/// Positions of the samples known in those ticks.
fn between(samples: &Samples, ticks: &[i64], range: Range<usize>) -> Vec<u32> {
    let at = |tick: usize| match ticks.get(tick) {
        Some(time) => samples.t0.partition_point(|t0| t0 < time) as u32,
        None => samples.len() as u32,
    };
    (at(range.start)..at(range.end)).collect()
}

/// Where the last so many days start on which anything can be tested: days without a sample (behind a split of the
/// price nothing has settled yet) say nothing and do not count.
fn last_days(samples: &Samples, ticks: &[i64], days: &[i32], usable: &[u32], wanted: u32) -> Result<usize, String> {
    let tick = |at: &u32| ticks.partition_point(|tick| *tick < samples.t0[*at as usize]);
    let mut tested: Vec<i32> = usable.iter().map(|at| days[tick(at)]).collect();
    tested.dedup();
    let first = tested.len().checked_sub(wanted as usize).and_then(|at| tested.get(at));
    let day = first.ok_or_else(|| format!("there are fewer than {wanted} days with samples before the holdout"))?;
    Ok(days.partition_point(|other| other < day))
}

/// Where the test blocks start, and where the last one ends.
fn borders(work: Range<usize>, spec: &WalkForward) -> Result<Vec<usize>, String> {
    let tested = ((work.len() as f64 * spec.tested).round() as usize).min(work.len());
    if tested < spec.folds {
        return Err(format!("{tested} bars are to be tested in {} folds", spec.folds));
    }
    let start = work.end - tested;
    // Wide enough for any count: ticks times folds may leave 64 bits only on a clock nobody has.
    Ok((0..=spec.folds).map(|k| start + (tested as u128 * k as u128 / spec.folds as u128) as usize).collect())
}

/// Where the history before a test block starts, and where its validation does.
fn history(begin: usize, test: usize, spec: &WalkForward) -> (usize, usize) {
    let from = spec.rolling.map_or(begin, |ticks| test.saturating_sub(ticks).max(begin));
    (from, test - share(test - from, spec.validation))
}

/// That share of so many ticks, rounded up; a hair below a whole number is that number.
pub(super) fn share(ticks: usize, share: f64) -> usize {
    ((ticks as f64 * share - 1e-9).ceil().max(0.0) as usize).min(ticks)
}

/// The first moment that is held out of a clock without samples; `None` where nothing is.
pub fn held_out_from(ticks: &[i64], spec: &WalkForward) -> Option<i64> {
    if ticks.is_empty() {
        return None;
    }
    ticks.get(holdout_from(ticks, 0..ticks.len(), spec)).copied()
}

/// The first tick that is held out, or the end: by its share, but not what was released, and never behind what is
/// locked.
fn holdout_from(ticks: &[i64], all: Range<usize>, spec: &WalkForward) -> usize {
    let tick_of = |time: i64| ticks.partition_point(|tick| *tick < time).clamp(all.start, all.end);
    let mut from = all.end;
    if spec.holdout > 0.0 {
        from -= held_out(&ticks[all.clone()], spec.holdout);
        from = spec.held.released_to.map_or(from, |to| from.max(tick_of(to)));
    }
    spec.held.locked_from.map_or(from, |locked| from.min(tick_of(locked)))
}

/// Ticks held out: the share, and with daily bars (or slower) at least a year where that leaves three years before it.
fn held_out(ticks: &[i64], wanted: f64) -> usize {
    const YEAR: i64 = 365 * 86_400_000_000_000;
    let ticks_held = share(ticks.len(), wanted).max(1);
    let mut days: Vec<i32> = ticks.iter().map(|tick| utc_day(*tick)).collect();
    days.dedup();
    // A universe of several exchanges has several closes a day; bars of 8 hours have three.
    let daily = 2 * ticks.len() < 5 * days.len();
    let start = ticks[ticks.len() - 1].saturating_sub(YEAR);
    let year = ticks.len() - ticks.partition_point(|tick| *tick <= start);
    let is_long = start.saturating_sub(ticks[0]) >= 3 * YEAR;
    if daily && is_long { ticks_held.max(year) } else { ticks_held }
}

/// The UTC day that ends at or after a tick: midnight belongs to the day before, since a tick is the end of a bar.
fn utc_day(tick: i64) -> i32 {
    tick.saturating_sub(1).div_euclid(86_400_000_000_000) as i32
}
