//! What cannot be split, and what to do about it.

use super::WalkForward;
use features::Samples;
use files::{Error, Kind, Result};

/// Refuses settings that make no sense on any data.
pub(super) fn check_settings(spec: &WalkForward) -> Result<()> {
    let inside = |share: f64| share > 0.0 && share < 1.0;
    let wrong = |what: &str, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy));
    if spec.folds == 0 || spec.test_days == Some(0) {
        return wrong("a split needs at least one fold and one day of test", "ask for 5 folds or more");
    }
    if !inside(spec.tested) || !inside(spec.validation) {
        return wrong(
            &format!("tested {} and validation {} must lie between 0 and 1", spec.tested, spec.validation),
            "0.6 and 0.15 are the defaults",
        );
    }
    if !(spec.holdout == 0.0 || inside(spec.holdout)) {
        return wrong(
            &format!("a holdout of {} must be 0 or lie between 0 and 1", spec.holdout),
            "0.15 is the default",
        );
    }
    if spec.embargo > 0 && spec.holdout == 0.0 {
        return wrong(
            &format!(
                "an embargo of {} bars has no effect: it lies before the holdout, and there is none",
                spec.embargo
            ),
            "leave the embargo to auto, or hold something out (0.15 is the default)",
        );
    }
    if spec.rolling.is_some_and(|ticks| ticks < 2) {
        return wrong("a rolling history needs at least two bars", "leave it out to use all history");
    }
    Ok(())
}

/// Refuses samples and ticks that are not in the order of time or do not belong together.
pub(super) fn in_order(samples: &Samples, ticks: &[i64], days: &[i32]) -> Result<()> {
    let bad = |what: String| Err(Error::input(what));
    let n = samples.len();
    if samples.t0.len() != n || samples.t1.len() != n || u32::try_from(n).is_err() {
        return bad(format!("{n} rows have {} t0 and {} t1", samples.t0.len(), samples.t1.len()));
    }
    if !ticks.is_sorted_by(|a, b| a < b) || days.len() != ticks.len() || !days.is_sorted() {
        return bad("the times of the bars do not rise, or their days do not match".into());
    }
    let mut tick = 0;
    for (i, (t0, t1)) in samples.t0.iter().zip(&samples.t1).enumerate() {
        if t1 < t0 {
            return bad(format!("the label of sample {i} ends ({t1}) before its row is known ({t0})"));
        }
        if i > 0 && *t0 < samples.t0[i - 1] {
            return bad(format!("sample {i} is not in the order of time"));
        }
        while ticks.get(tick).is_some_and(|time| time < t0) {
            tick += 1;
        }
        if ticks.get(tick) != Some(t0) || *t0 == i64::MAX {
            return bad(format!("sample {i} is known at {t0}, which is not the end of a bar"));
        }
    }
    Ok(())
}

/// About how many clock times with samples a split takes whose labels reach so many of them.
pub fn ticks_needed(labels: usize, spec: &WalkForward) -> usize {
    let (reach, folds) = ((labels + 1) as f64, if spec.test_days.is_some() { 1 } else { spec.folds } as f64);
    let tail = if spec.holdout > 0.0 { reach } else { 1.0 };
    let work =
        (reach / (1.0 - spec.tested) / spec.validation.min(1.0 - spec.validation)).max(folds * tail / spec.tested);
    ((work + spec.embargo as f64) / (1.0 - spec.holdout)).ceil() as usize
}

/// The most clock times that a label reaches over.
pub fn longest_label(samples: &Samples, ticks: &[i64]) -> usize {
    let tick = |time: i64| ticks.partition_point(|tick| *tick < time);
    samples.t0.iter().zip(&samples.t1).map(|(t0, t1)| tick(*t1) - tick(*t0)).max().unwrap_or(0)
}

/// The error for data that are too short, with what would do.
pub(super) fn too_short(what: String, samples: &Samples, ticks: &[i64], spec: &WalkForward) -> Error {
    let labels = longest_label(samples, ticks);
    let gap = if spec.embargo > 0 { format!(", an embargo of {}", spec.embargo) } else { String::new() };
    let mut known = samples.t0.clone();
    known.dedup();
    Error::input(format!(
        "{what}: there are samples on {} of {} bars, with labels of up to {labels} bars{gap}; about {} bars with \
         samples are needed",
        known.len(),
        ticks.len(),
        ticks_needed(labels, spec),
    ))
    .remedy("give more bars, fewer folds with <split.folds=3>, or a shorter label with <label.rule=\"triple(3)\">")
}
