//! What becomes of a series that is short for the set, the net or the folds.
//!
//! What is short shrinks in this order, with a note each: columns that settle too late are left out, windows get
//! shorter, folds get fewer. The share that is held out never shrinks. What is still too short is refused with how many
//! bars there are, how many it takes, which column takes most of them, and the setting that relaxes it.

use super::problem::walk;
use super::source::{longest, nets};
use crate::{Settings, SplitKind};
use compute::Net;
use features::{CostlyColumn, Dataset, Input};
use files::{Error, Result, format_count, format_list, format_plural};
use judge::split::{WalkForward, ticks_needed};

/// A column is left out where its warm-up leaves less than this share of the rows, and where missing values do.
pub(super) const SETTLED_LEAST: f64 = 2.0 / 3.0;
pub(super) const PRESENT_LEAST: f64 = 0.5;

/// Windows get shorter while less than this share of the rows has whole ones.
const WHOLE_LEAST: f64 = 0.5;

/// No window of a default net gets shorter than this.
const WINDOW_LEAST: usize = 6;

/// Numbers of folds that are tried where none is set.
const FOLDS: [usize; 3] = [8, 5, 3];

/// Clock times that a test block has at least, unless there are no fewer folds to be had.
const TESTED_LEAST: usize = 20;

/// Which columns were left out, and why: a note for those that settle late and one for those that are missing.
pub(super) fn left_out(costly: &[CostlyColumn], bars: usize) -> Vec<String> {
    let named = |c: &CostlyColumn| c.timeframe.map_or(c.name.clone(), |timeframe| format!("{}@{timeframe}", c.name));
    let (missing, late): (Vec<_>, Vec<_>) = costly.iter().partition(|c| c.is_missing);
    let mut notes = Vec::new();
    if !late.is_empty() {
        let each: Vec<String> = late
            .iter()
            .map(|c| match c.settled {
                Some(bars) => format!("{} (needs {})", named(c), format_count(bars as u64)),
                None => format!("{} (never settles)", named(c)),
            })
            .collect();
        notes.push(format!(
            "left out because they settle too late for runs of up to {}: {}; <features.settle=0.01> needs fewer",
            format_plural(bars as u64, "bar"),
            each.join(", ")
        ));
    }
    if !missing.is_empty() {
        let each: Vec<String> = missing.iter().map(|c| format!("{} ({:.0} %)", named(c), 100.0 * c.share)).collect();
        notes.push(format!("left out because values are missing (share of rows that are left): {}", each.join(", ")));
    }
    notes
}

/// `[configs]` nets whose windows leave enough rows, and a note where they are shorter than usual. A net that was set
/// stays as it is.
pub(super) fn fit_windows(
    data: &Dataset,
    inputs: &mut [Input],
    settings: &Settings,
    classes: usize,
) -> Result<(Vec<Net>, Option<String>)> {
    let usual = nets(settings, inputs, classes)?;
    let is_set = settings.classify.net.is_some() || settings.has_candidates("net");
    let rows = data.base.rows().max(1) as f64;
    let mut fitted = usual.clone();
    loop {
        let windows = longest(&fitted);
        let whole = data.usable_rows(inputs, &windows).iter().filter(|usable| **usable).count() as f64;
        if is_set || whole >= WHOLE_LEAST * rows || windows.iter().all(|w| *w <= WINDOW_LEAST) {
            break;
        }
        for (input, window) in inputs.iter_mut().zip(&windows) {
            input.window = if *window > 1 { (window / 2).max(WINDOW_LEAST.min(*window)) } else { 0 };
        }
        fitted = nets(settings, inputs, classes)?;
        if longest(&fitted) == windows {
            break;
        }
    }
    // Rows of a table come in windows of any length; only the net had to know.
    inputs.iter_mut().for_each(|input| input.window = 0);
    let shown = |nets: &[Net]| {
        let windows: Vec<String> = longest(nets).iter().filter(|w| **w > 1).map(usize::to_string).collect();
        format_list(&windows, "and")
    };
    let note = (longest(&fitted) != longest(&usual)).then(|| {
        format!("windows of {} rows instead of {}, because the data are short", shown(&fitted), shown(&usual))
    });
    Ok((fitted, note))
}

/// The numbers of folds to try, the first that fits is taken.
pub(super) fn fold_counts(settings: &Settings) -> Vec<usize> {
    let split = &settings.split;
    match (split.kind, split.test_days, split.folds) {
        (SplitKind::Cpcv, ..) | (_, Some(_), _) => vec![1],
        (.., Some(folds)) => vec![folds],
        _ => FOLDS.to_vec(),
    }
}

/// Whether every test block has enough clock times; `t0` are those of all samples.
pub(super) fn is_roomy(folds: &[features::Fold], t0: &[i64]) -> bool {
    folds.iter().all(|fold| {
        let mut times: Vec<i64> = fold.test.iter().map(|at| t0[*at as usize]).collect();
        times.dedup();
        times.len() >= TESTED_LEAST
    })
}

/// That there are fewer folds than usual, where none was set.
pub(super) fn fewer_folds(settings: &Settings, folds: usize) -> Option<String> {
    let fewer = fold_counts(settings).len() > 1 && folds < FOLDS[0];
    fewer.then(|| format!("{folds} folds instead of {}, because the data are short", FOLDS[0]))
}

/// The error for bars that are too few whatever shrinks. `windows` are those of the inputs, the slower tables' in their
/// order; labels reach over `label` clock times. Where there are enough, and it is where they lie that left a part of
/// the split empty, `split` (what it said) stands.
pub(super) fn too_few(
    data: &Dataset,
    windows: &[(bool, usize)],
    label: usize,
    settings: &Settings,
    split: Option<Error>,
) -> Error {
    let bars = data.base.market.iter().map(|b| b.len()).max().unwrap_or(0);
    let window = |slow: bool| windows.iter().filter(|w| w.0 == slow).map(|w| w.1).max().unwrap_or(1);
    // Warm-up and window of each column, in base bars.
    let base = data.base.columns.iter().map(|c| (c.settled.unwrap_or(usize::MAX), window(false), 1, c.name.clone()));
    let slow = data.slow.iter().flat_map(|s| {
        let per_bar = data.base.rows().div_ceil(s.table.rows().max(1));
        let name = |name: &str| format!("{name}@{}", s.table.timeframe);
        s.table.columns.iter().map(move |c| (c.settled.unwrap_or(usize::MAX), window(true), per_bar, name(&c.name)))
    });
    let all = base.chain(slow).map(|(settled, window, per_bar, name)| {
        (settled.saturating_add(window - 1).saturating_mul(per_bar), settled, window, name)
    });
    let (warm, settled, window, column) = all.max().unwrap_or((0, 0, 1, String::new()));
    let fewest = fold_counts(settings).into_iter().min().unwrap_or(1);
    let spec = WalkForward { folds: fewest, ..walk(settings, data.clock.times.len()) };
    let needed = warm.saturating_add(ticks_needed(label, &spec));
    if let Some(error) = split.filter(|_| bars >= needed) {
        let runs = data.base.runs.iter().map(|runs| runs.len()).sum::<usize>();
        return if runs == data.base.market.len() {
            error
        } else {
            error.remedy(format!(
                "suspected splits or long holes cut the bars into {runs} runs, and each has to settle for {}: give the \
                 factors of splits with <universe.factors>, take splits for true moves with <repair.splits=keep>, or \
                 leave late columns out with <features.set>",
                format_plural(warm as u64, "bar"),
            ))
        };
    }
    let windows = if window > 1 { format!(" and fill a window of {window} rows") } else { String::new() };
    Error::input(format!(
        "{} are too few: about {} are needed, {} of them for `{column}` to settle ({}){windows}",
        format_plural(bars as u64, "bar"),
        format_count(needed as u64),
        format_count(warm as u64),
        format_count(settled as u64),
    ))
    .remedy(
        "give more bars, or relax it: <features.settle=0.01> settles sooner, <features.set> leaves columns out; fewer \
         <split.folds>, a shorter <label.rule> and a smaller <split.holdout> take fewer bars",
    )
}
