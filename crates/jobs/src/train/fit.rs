//! The training itself: reported to the folder and to the user, saved as it goes.

use super::estimate::{RateMeter, long};
use super::folder::Folder;
use super::phases::Phases;
use super::{Experiment, Teller, TrainEvent};
use crate::progress::{Update, stop_flag};
use files::{Error, Result, format_seconds};
use learn::{Hooks, Outcome, RunEvent, TrainState};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// It trains this long before it knows how long all of it takes.
const KNOWS: Duration = Duration::from_secs(2);

/// Seconds to go that are worth a line.
const WORTH_A_LINE: f64 = 10.0;

/// A line about a validation is shown no more often than this.
const SHOWN: Duration = Duration::from_secs(5);

/// What is known of the time that it takes.
pub(super) struct Timed {
    /// Whether it was estimated before.
    pub(super) before: bool,
    /// The time it was fitted into.
    pub(super) budget: Option<Duration>,
}

/// Trains all members, or goes on with them, and the samples it trained on a second. Where nothing was timed before, it
/// says as soon as it knows that it takes long.
pub(super) fn fit(
    experiment: &Experiment,
    folder: &mut Folder,
    from: Option<TrainState>,
    timed: Timed,
    phases: &mut Phases,
    notes: &mut Vec<String>,
    tell: Teller<'_>,
) -> Result<(Outcome, Option<f64>)> {
    let Experiment { learner, plan, at, settings, .. } = experiment;
    let (since, began) = (phases.seconds(), Instant::now());
    let total = plan.samples_left(&**learner, from.as_ref());
    let (stop, counted) = (stop_flag(), experiment.kind().info().counted());
    let (log, keeper) = folder.parts();
    let (mut shown, mut all, mut group_samples, mut wrong) = (None::<Instant>, 0u64, 0u64, None);
    // A checkpoint that could not be written, until it is reported.
    let unsaved = Cell::new(None::<Error>);
    let (mut missed, mut first_missed) = (0u64, None::<String>);
    let (mut meter, budget, mut timed) = (RateMeter::default(), timed.budget, timed.before);
    let event = &mut |event: RunEvent<'_>| {
        let now = Instant::now();
        meter.observe(&event, now);
        match &event {
            RunEvent::Samples(n) => {
                all += n - group_samples;
                group_samples = *n;
                tell(TrainEvent::Update(Update { phase: "training", done: all.min(total), total, unit: counted }));
            }
            RunEvent::Group { .. } => group_samples = 0,
            RunEvent::Saved => {
                if let Some(why) = unsaved.take() {
                    missed += 1;
                    first_missed.get_or_insert_with(|| why.to_string());
                    tell(TrainEvent::Line(&format!("{why}; training continues")));
                }
            }
            _ => {}
        }
        if !timed && meter.is_enough(now, KNOWS) {
            timed = true;
            let left = meter.rate().map_or(0.0, |rate| total.saturating_sub(all) as f64 / rate);
            if let Some(message) = long(left, learner.unit()) {
                wrong = log.note(&message).err().or(wrong.take());
                tell(TrainEvent::Line(&message));
            } else if left > WORTH_A_LINE {
                let (unit, left) = (learner.unit(), format_seconds(left));
                tell(TrainEvent::Line(&format!("at most {left} to go for all {unit}s; patience may end it sooner")));
            }
        }
        let rate = all as f64 / began.elapsed().as_secs_f64().max(1e-9);
        let at_once = matches!(event, RunEvent::LessMemory(_) | RunEvent::Note(_));
        match log.machine_row(|| phases.latest()).and_then(|()| log.event(&event, rate)) {
            Ok(Some(line)) if at_once || shown.is_none_or(|t| t.elapsed() > SHOWN) => {
                let spent = budget.map(|most| {
                    let [spent, most] = [began.elapsed(), most].map(|time| format_seconds(time.as_secs_f64()));
                    format!(", {spent} of the budget of {most}")
                });
                tell(TrainEvent::Line(&format!("{line}{}{}", busy(phases.latest()), spent.unwrap_or_default())));
                shown = Some(Instant::now());
            }
            Ok(_) => {}
            // Training goes on without that row; the end says so.
            Err(why) => wrong = Some(why),
        }
    };
    let mut save = |state: &TrainState| {
        unsaved.set(keeper.save(state, learner.configs())?);
        Ok(())
    };
    let every = settings.train.checkpoint as u32;
    let hooks = &mut Hooks { event, stop: &|| stop.load(Ordering::Relaxed), save: &mut save, every };
    let outcome = learn::train(&**learner, plan, at, from, hooks)?;
    keeper.wait()?;
    notes.extend(wrong.map(|why| format!("the log could not be written: {why}")));
    notes.extend(first_missed.map(|why| format!("{} failed: {why}", files::format_plural(missed, "checkpoint"))));
    let spent = outcome.spent;
    phases.end(
        since,
        &[("setup", spent.setup), ("train", spent.train), ("validate", spent.validate), ("save", spent.save)],
    );
    let rate = (spent.train > 0.0).then(|| all as f64 / spent.train);
    Ok((outcome, rate))
}

/// How full the machine is, to be put behind a line.
fn busy(sample: Option<machine::Sample>) -> String {
    let Some(sample) = sample else { return String::new() };
    let gpu = sample.gpus.first().and_then(|g| g.busy_percent).map_or(String::new(), |g| format!(", GPU {g:.0} %"));
    let (cores, mean) = (&sample.cpu_percent, sample.cpu_mean_percent());
    let [least, most] = [f32::min, f32::max].map(|of: fn(f32, f32) -> f32| cores.iter().copied().reduce(of));
    let each = least.zip(most).filter(|_| cores.len() > 1);
    let each = each.map_or(String::new(), |(least, most)| format!(" (cores {least:.0} to {most:.0} %)"));
    format!("{gpu}, CPU {mean:.0} %{each}")
}
