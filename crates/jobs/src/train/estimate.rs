//! How long a training would take, from a moment of real steps; and what is left out of it where that is too long.

use super::Experiment;
use crate::Settings;
use crate::progress::{check_stop, stop_flag};
use files::Result;
use learn::{Hooks, Plan, RunEvent};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A plan that lasts longer says so before it begins, or as soon as it can know.
const LONG: f64 = 1800.0;

/// Seconds that all units of all members would take, from real steps of the first group of each kind; none where
/// nothing could be timed.
pub(super) fn estimate(experiment: &Experiment) -> Result<Option<f64>> {
    let firsts = experiment.plan.firsts(&*experiment.learner);
    let each = Duration::from_millis((2800 / firsts.len().max(1) as u64).clamp(100, 700));
    let mut seconds = 0.0;
    for (first, samples) in firsts {
        let Some(rate) = measure_rate(experiment, &first, each)? else { return Ok(None) };
        seconds += samples as f64 / rate;
    }
    Ok(Some(seconds))
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
    let outcome = learn::train(&*experiment.learner, plan, &experiment.at, None, &mut hooks)?;
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

/// Fewer units of work (epochs), then fewer seeds, then fewer folds, until the plan fits the time; what was changed, in
/// words.
pub(super) fn fit_into(most: f64, need: f64, unit: &str, settings: &mut Settings) -> Option<String> {
    if need <= most {
        return None;
    }
    let mut left = most / need;
    let train = &mut settings.train;
    let (epochs, seeds, folds) = (train.epochs, train.seeds, settings.split.folds);
    // Below 30 epochs a member has hardly begun; then members go, at last folds.
    train.epochs = ((epochs as f64 * left) as usize).max(30.min(epochs));
    left *= epochs as f64 / train.epochs as f64;
    train.patience = train.patience.min(train.epochs);
    if left < 1.0 {
        train.seeds = ((seeds as f64 * left) as usize).max(1);
        left *= seeds as f64 / train.seeds as f64;
    }
    if left < 1.0 {
        settings.split.folds = ((folds as f64 * left) as usize).max(1);
        left *= folds as f64 / settings.split.folds as f64;
    }
    if left < 1.0 {
        settings.train.epochs = ((settings.train.epochs as f64 * left) as usize).max(1);
        settings.train.patience = settings.train.patience.min(settings.train.epochs);
    }
    Some(format!(
        "to fit into {most:.0} s: {} {unit}s instead of {epochs}, {} seeds instead of {seeds}, {} folds instead of {folds}",
        settings.train.epochs, settings.train.seeds, settings.split.folds
    ))
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
    fn only_long_runs_are_called_long() {
        assert_eq!(long(1800.0, "epoch"), None);
        let text = long(72_000.0, "update").expect("long");
        assert!(text.starts_with("all updates") && text.contains("1200 minutes") && text.contains("<budget=10m>"));
    }
}
