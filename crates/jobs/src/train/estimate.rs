//! How long a training would take, from a moment of real steps; and what is left out of it where that is too long.

use super::Experiment;
use crate::progress::{check_stop, stop_flag};
use compute::Opened;
use compute::net::Layout;
use files::{Result, format_plural, format_seconds};
use learn::{Hooks, Plan, RunEvent};
use machine::{StepKind, flops_per_sample};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A plan that lasts longer says so before it begins, or as soon as it can know.
const LONG: f64 = 1800.0;

/// Seconds that all units of all members would take, from real steps of the first group of each kind; none where
/// nothing could be timed. `most` is how many milliseconds a kind is timed for.
pub(super) fn estimate(experiment: &Experiment, most: u64) -> Result<Option<f64>> {
    let firsts = experiment.plan.firsts(&*experiment.learner);
    let each = Duration::from_millis((4 * most / firsts.len().max(1) as u64).clamp(100, most));
    let mut seconds = 0.0;
    for (first, samples) in firsts {
        let Some(rate) = measure_rate(experiment, &first, each)? else { return Ok(None) };
        seconds += samples as f64 / rate;
    }
    Ok(Some(seconds))
}

/// Whether all units may last for ten seconds or more, so that timing a moment of them is worth it: by the operations
/// that they take, at what a few cores or a card do in small nets.
pub(super) fn is_lengthy(experiment: &Experiment) -> bool {
    let Experiment { learner, plan, at, source, .. } = experiment;
    let each = |net| Layout::new(net).map_or(0.0, |layout| flops_per_sample(&layout, StepKind::Train));
    let operations = plan.samples(&**learner) as f64 * source.nets.iter().map(each).fold(0.0, f64::max);
    let a_second = if matches!(at.device, Opened::Cuda(_)) { 5e12 } else { 5e10 };
    operations > 10.0 * a_second
}

/// Samples a second, from a moment of real steps.
fn measure_rate(experiment: &Experiment, plan: &Plan, most: Duration) -> Result<Option<f64>> {
    let (meter, stop) = (RefCell::new(RateMeter::default()), stop_flag());
    let mut hooks = Hooks {
        event: &mut |event| meter.borrow_mut().observe(&event, Instant::now()),
        stop: &|| meter.borrow().is_enough(Instant::now(), most) || stop.load(Ordering::Relaxed),
        save: &mut |_| Ok(()),
        every: 0,
    };
    let learner = &*experiment.learner;
    // One unit of work may take minutes.
    let brief = learner.brief(&experiment.at.device, &plan.members);
    let outcome = learn::train(brief.as_deref().unwrap_or(learner), plan, &experiment.at, None, &mut hooks)?;
    check_stop()?;
    // Where only one chunk was done, it has to do.
    let busy = outcome.spent.train + outcome.spent.validate;
    let meter = meter.into_inner();
    Ok(meter.rate().or_else(|| meter.last.filter(|(_, n)| *n > 0 && busy > 0.0).map(|(_, n)| n as f64 / busy)))
}

/// The rate of a group. The clock runs from the first, behind which everything is warm, to the last: what comes
/// before a group's first step and behind its last belongs to no sample.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RateMeter {
    began: Option<Instant>, // the group
    first: Option<(Instant, u64)>,
    last: Option<(Instant, u64)>,
}

impl RateMeter {
    pub(super) fn observe(&mut self, event: &RunEvent<'_>, now: Instant) {
        match event {
            RunEvent::Group { .. } => *self = RateMeter { began: Some(now), ..RateMeter::default() },
            RunEvent::Samples(n) => {
                self.last = Some((now, *n));
                self.first = self.first.or(self.last);
            }
            _ => {}
        }
    }

    /// Whether the group has been looked at twice, and has trained for so long.
    pub(super) fn is_enough(&self, now: Instant, least: Duration) -> bool {
        self.rate().is_some() && self.began.is_some_and(|began| now.duration_since(began) > least)
    }

    /// Samples a second, if it was looked at twice.
    pub(super) fn rate(&self) -> Option<f64> {
        let (from, to) = self.first.zip(self.last)?;
        let seconds = to.0.duration_since(from.0).as_secs_f64();
        (to.1 > from.1 && seconds > 0.0).then(|| (to.1 - from.1) as f64 / seconds)
    }
}

/// That all units of work, called `unit`, take long, where they do.
pub(super) fn long(seconds: f64, unit: &str) -> Option<String> {
    (seconds > LONG).then(|| {
        format!(
            "all {unit}s would take up to {:.0} minutes; patience usually ends it sooner, <budget=10m> fits it into a time",
            seconds / 60.0
        )
    })
}

/// What a budget takes from: seeds, epochs with their patience, folds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scope {
    pub(super) seeds: usize,
    pub(super) epochs: usize,
    pub(super) patience: usize,
    pub(super) folds: usize,
}

/// Epochs that members keep while there are folds to be taken.
const EPOCHS_LEAST: usize = 10;

/// No budget takes folds below this: fewer say nothing.
const FOLDS_LEAST: usize = 3;

/// Below this many folds there is no verdict.
const FOLDS_JUDGED: usize = 5;

impl Scope {
    /// What is left of it for that share of its time: first fewer seeds, then fewer epochs with patience in proportion,
    /// at last fewer folds; never below one seed, one epoch and three folds.
    pub(super) fn shrink(self, share: f64) -> Scope {
        let (mut to, mut left) = (self, share);
        let cut = |from: usize, left: f64, least: usize| ((from as f64 * left) as usize).clamp(least.min(from), from);
        to.seeds = cut(self.seeds, left, 1);
        left *= self.seeds as f64 / to.seeds as f64;
        to.epochs = cut(self.epochs, left, EPOCHS_LEAST);
        left *= self.epochs as f64 / to.epochs as f64;
        if left < 1.0 {
            let fewer = [FOLDS_JUDGED, FOLDS_LEAST].into_iter().find(|folds| *folds as f64 <= self.folds as f64 * left);
            to.folds = fewer.unwrap_or(FOLDS_LEAST).min(self.folds);
            left *= self.folds as f64 / to.folds as f64;
            to.epochs = cut(to.epochs, left, 1);
        }
        to.patience = self.patience_of(to.epochs);
        to
    }

    /// The patience that goes with so many epochs, in proportion.
    pub(super) fn patience_of(self, epochs: usize) -> usize {
        (self.patience * epochs).div_ceil(self.epochs.max(1)).max(1)
    }

    /// What was taken to fit into that time, in words; epochs are called `unit`.
    pub(super) fn taken(self, to: Scope, most: f64, unit: &str) -> String {
        let mut words = Vec::new();
        if to.seeds < self.seeds {
            words.push(format!("{} instead of {}", format_plural(to.seeds as u64, "seed"), self.seeds));
        }
        if to.epochs < self.epochs {
            let units = format_plural(to.epochs as u64, unit);
            words.push(format!("{units} instead of {} with a patience of {}", self.epochs, to.patience));
        }
        if to.folds < self.folds {
            let no_verdict = if to.folds < FOLDS_JUDGED { " (too few for a verdict)" } else { "" };
            words.push(format!("{} instead of {}{no_verdict}", format_plural(to.folds as u64, "fold"), self.folds));
        }
        format!("to fit into {}: {}", format_seconds(most), words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> RunEvent<'static> {
        RunEvent::Group { number: 0, of: 1, members: 1, memory: 0, kernel_paths: Vec::new() }
    }

    #[test]
    fn the_rate_counts_only_time_between_updates() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut meter = RateMeter::default();
        // However long the group takes to be made, it is not stopped before it was looked at twice.
        assert!(!meter.is_enough(at(60_000), Duration::ZERO) && meter.rate().is_none());
        meter.observe(&group(), at(60_000));
        meter.observe(&RunEvent::Samples(512), at(61_000));
        assert!(!meter.is_enough(at(90_000), Duration::from_millis(700)) && meter.rate().is_none());
        meter.observe(&RunEvent::Samples(1536), at(61_500));
        assert_eq!(meter.rate(), Some(2048.0));
        // Until when it stopped for good, a checkpoint say, does not count.
        assert!(meter.is_enough(at(70_000), Duration::from_millis(700)));
        assert_eq!(meter.rate(), Some(2048.0));
        assert!(!meter.is_enough(at(61_500), Duration::from_secs(2)), "too short a moment");
        meter.observe(&group(), at(80_000));
        assert!(meter.rate().is_none(), "another group has a pace of its own");
    }

    #[test]
    fn a_budget_takes_seeds_then_epochs_then_folds() {
        let whole = Scope { seeds: 5, epochs: 100, patience: 20, folds: 8 };
        for (share, seeds, epochs, patience, folds) in [
            (0.5, 2, 100, 20, 8),
            (0.2, 1, 100, 20, 8),
            (0.1, 1, 50, 10, 8),
            (0.021, 1, 10, 2, 8),
            (0.0125, 1, 10, 2, 5),
            (0.01, 1, 10, 2, 3),
            (0.001, 1, 1, 1, 3),
            (1e-9, 1, 1, 1, 3),
        ] {
            let to = whole.shrink(share);
            assert_eq!(to, Scope { seeds, epochs, patience, folds }, "{share}");
            let work = |s: Scope| (s.seeds * s.epochs * s.folds) as f64;
            assert!(share < 0.001 || work(to) <= share * work(whole) * (1.0 + 1e-9), "{share} is kept");
        }
        // Folds that were set to fewer stay, and what cannot shrink does not.
        let least = Scope { seeds: 1, epochs: 1, patience: 1, folds: 2 };
        assert_eq!(least.shrink(0.01), least);
        let said = whole.taken(whole.shrink(0.01), 600.0, "epoch");
        assert_eq!(
            said,
            "to fit into 10 min 0 s: 1 seed instead of 5, 10 epochs instead of 100 with a patience of 2, 3 folds instead of 8 (too few for a verdict)"
        );
    }

    #[test]
    fn only_long_runs_are_called_long() {
        assert_eq!(long(1800.0, "epoch"), None);
        let text = long(72_000.0, "update").expect("long");
        assert!(text.starts_with("all updates") && text.contains("1200 minutes") && text.contains("<budget=10m>"));
    }
}
