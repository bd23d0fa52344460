//! What cannot be split, and what to do about it.

use super::{Embargo, WalkForward};
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
    if let (Embargo::Ticks(ticks @ 1..), 0.0) = (spec.embargo, spec.holdout) {
        return wrong(
            &format!("an embargo of {ticks} bars has no effect: it lies before the holdout, and there is none"),
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

/// The error for data that are too short, with what would do.
pub(super) fn too_short(what: String, samples: &Samples, ticks: &[i64], spec: &WalkForward) -> Error {
    let tick = |time: i64| ticks.partition_point(|tick| *tick < time);
    let labels = samples.t0.iter().zip(&samples.t1).map(|(t0, t1)| tick(*t1) - tick(*t0)).max().unwrap_or(0);
    let (reach, folds) = ((labels + 1) as f64, if spec.test_days.is_some() { 1 } else { spec.folds } as f64);
    let tail = if spec.holdout > 0.0 { reach } else { 1.0 };
    let work =
        (reach / (1.0 - spec.tested) / spec.validation.min(1.0 - spec.validation)).max(folds * tail / spec.tested);
    let needed = match spec.embargo {
        _ if spec.holdout == 0.0 => work,
        Embargo::Ticks(gap) => (work + gap as f64) / (1.0 - spec.holdout),
        Embargo::Auto { window } => {
            let rest = 1.0 - spec.holdout;
            ((work + window as f64) / rest).max(work / (rest - 0.01).max(0.001))
        }
    };
    Error::input(format!(
        "{what}: {} samples on {} bars, labels of up to {labels} bars, an embargo of {}; about {:.0} bars are needed",
        samples.len(),
        ticks.len(),
        spec.embargo.ticks(ticks.len()),
        needed.ceil(),
    ))
    .remedy("ask for fewer folds, a shorter label, a smaller embargo or holdout, or bring more data")
}
