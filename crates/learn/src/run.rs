//! The loop that trains any learner: group after group, steps, validation, best weights, patience, checkpoints.
//!
//! Members of a group go at their own pace: the training is asked for a chunk of steps, those that are due are
//! validated, and each is decided on alone. Members that have stopped free their place; groups follow one another where
//! the memory is not enough for all.

use crate::plan::{in_parts, own_pace, smaller};
use crate::{
    DeviceBudget, Extent, Last, Learner, Plan, Progress, Score, Stopped, TrainState, Trained, Training, Validation,
    failed,
};
use compute::Tables;
use compute::allocator::give_back_freed;
use compute::population::{Pace, Pins};
use files::Result;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A chunk has at most this many steps.
const STEPS: u32 = 32;

/// A chunk should not take longer than this, so that a stop is heard and progress is seen.
const CHUNK: Duration = Duration::from_millis(250);

/// A training is saved at least this often.
const SAVE_EVERY: Duration = Duration::from_secs(120);

/// Units between two checkpoints where nothing is set: [`Hooks::every`].
pub const CHECKPOINT_EVERY: u32 = 50;

/// What a training reports to and asks.
pub struct Hooks<'a> {
    /// Gets what happens.
    pub event: &'a mut dyn FnMut(RunEvent<'_>),
    /// Says when to stop; what was done is saved first.
    pub stop: &'a dyn Fn() -> bool,
    /// Keeps a state from which the run can go on.
    pub save: &'a mut dyn FnMut(&TrainState) -> Result<()>,
    /// A state is kept after every so many units; 0: only by time and at the end.
    pub every: u32,
}

/// What happens during a training, as it happens.
#[derive(Debug, Clone)]
pub enum RunEvent<'a> {
    /// A group begins.
    Group {
        /// From 0.
        number: usize,
        /// Groups in all.
        of: usize,
        /// Members in it.
        members: usize,
        /// Bytes it takes on the device.
        memory: u64,
        /// Which kernels do the work, for people.
        kernel_paths: Vec<String>,
    },
    /// The device had less memory than was planned with; what is done about it, in words.
    LessMemory(String),
    /// Something about its members that people should know, in words.
    Note(String),
    /// A member was validated after a unit of work.
    Validated {
        /// Whose.
        member: &'a Trained,
        /// What was seen; also the last of the member's history.
        validation: &'a Validation,
        /// Whether it is the best so far.
        best: bool,
    },
    /// A member ended; why is in it.
    Ended(&'a Trained),
    /// Between chunks: samples trained on so far by all members of the group in this process.
    Samples(u64),
    /// A checkpoint was handed over to be written.
    Saved,
}

/// Where the time of a training went, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spent {
    /// Setting up: memory, transfer, kernels.
    pub setup: f64,
    /// Steps.
    pub train: f64,
    /// Validation.
    pub validate: f64,
    /// Taking snapshots and handing them over.
    pub save: f64,
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// `[members]` config by config, fold by fold.
    pub members: Vec<Trained>,
    /// Where the time went.
    pub spent: Spent,
    /// Whether it was stopped before its end; what was done is saved.
    pub interrupted: bool,
    /// In how many parts batches went through the net at the end.
    pub pace: Pace,
    /// The algorithms of products that the run keeps to, for the first config of each kind.
    pub pins: BTreeMap<usize, Pins>,
}

/// Trains all members, or goes on where a saved state ended.
pub fn train(
    learner: &dyn Learner,
    plan: &Plan,
    at: &DeviceBudget,
    from: Option<TrainState>,
    hooks: &mut Hooks<'_>,
) -> Result<Outcome> {
    let fresh = || TrainState::new(plan.members.iter().map(|key| Trained::new(*key)).collect());
    let tables = learner.problem().tables(&at.device, at.budget)?;
    let mut run = Run {
        learner,
        tables,
        extent: learner.extent(),
        state: from.unwrap_or_else(fresh),
        spent: Spent::default(),
        number: 0,
        waiting: plan.groups.iter().map(|g| g.members.clone()).collect(),
        hooks,
    };
    // A run that goes on keeps to its parts, unless it needs more by now.
    run.state.pace.parts = run.state.pace.parts.max(plan.pace.parts);
    let mut interrupted = false;
    // Groups are pace: a run that goes on may have others, so a group is its members that have not ended.
    while let Some(group) = run.waiting.pop_front()
        && !interrupted
    {
        if run.state.members[group.clone()].iter().all(|m| m.stopped.is_some()) {
            run.number += 1;
        } else if let Some(mut training) = run.begin(at, group.clone())? {
            interrupted = !run.train_group(&mut *training, group.clone())?;
            run.save(&mut *training, group)?;
            run.number += 1;
        }
    }
    let Run { state: TrainState { members, pace, pins, .. }, spent, .. } = run;
    Ok(Outcome { members, spent, interrupted, pace, pins })
}

/// A training under way.
struct Run<'a, 'h> {
    learner: &'a dyn Learner,
    tables: Arc<Tables>,
    extent: Extent,
    state: TrainState,
    spent: Spent,
    number: usize,
    waiting: VecDeque<Range<usize>>,
    hooks: &'a mut Hooks<'h>,
}

impl Run<'_, '_> {
    /// Sets a group up where it was; none where the memory is not enough and it waits again in smaller pieces.
    fn begin(&mut self, at: &DeviceBudget, group: Range<usize>) -> Result<Option<Box<dyn Training>>> {
        let clock = Instant::now();
        let keys: Vec<_> = self.state.members[group.clone()].iter().map(Trained::key).collect();
        let kind = self.learner.alike(keys[0].config);
        let batch = self.learner.configs()[kind].recipe.batch;
        let pins = self.state.pins.entry(kind).or_default().clone();
        let mut training = match self.learner.begin(at, &self.tables, &keys, own_pace(self.state.pace, batch), &pins) {
            Ok(training) => training,
            // Another process took memory after it was planned with. Fewer members at once change no bit, so they come
            // first.
            Err(why) if why.is_memory() && group.len() > 1 => {
                let middle = group.start + group.len().div_ceil(2);
                let few = middle - group.start;
                self.less(format!("{few} members at once instead of {}: {why}", group.len()));
                self.waiting.push_front(middle..group.end);
                self.waiting.push_front(group.start..middle);
                return Ok(None);
            }
            Err(why) if why.is_memory() && smaller(self.state.pace, batch).is_some() => {
                self.state.pace = smaller(self.state.pace, batch).unwrap_or(self.state.pace);
                self.less(format!("{} from here on: {why}", in_parts(self.state.pace, batch)));
                self.waiting.push_front(group);
                return Ok(None);
            }
            Err(why) => return Err(failed(why)),
        };
        self.state.pins.insert(kind, training.pins());
        // Groups may be others than when the state was kept: members of later ones go on waiting.
        for snapshot in self.state.running.iter().filter(|s| keys.iter().any(|key| key.id() == s.id)) {
            training.restore(snapshot).map_err(failed)?;
        }
        for ended in self.state.members[group].iter().filter(|m| m.stopped.is_some()) {
            training.stop(ended.id).map_err(failed)?;
        }
        self.spent.setup += clock.elapsed().as_secs_f64();
        (self.hooks.event)(RunEvent::Group {
            number: self.number,
            of: self.number + 1 + self.waiting.len(),
            members: keys.len(),
            memory: self.tables.bytes() + training.memory(),
            kernel_paths: training.kernel_paths(),
        });
        Ok(Some(training))
    }

    fn less(&mut self, what: String) {
        (self.hooks.event)(RunEvent::LessMemory(what));
    }

    /// One group to its end; false if it was stopped before.
    fn train_group(&mut self, training: &mut dyn Training, group: Range<usize>) -> Result<bool> {
        let (mut chunk, mut saved) = (1, Instant::now());
        let start = training.progress();
        let (mut saved_unit, before) = (least_unit(&start), samples(&start));
        loop {
            if (self.hooks.stop)() {
                return Ok(false);
            }
            let clock = Instant::now();
            let progress = training.advance(chunk).map_err(failed)?;
            let took = clock.elapsed();
            self.spent.train += took.as_secs_f64();
            // Pace alone: how many steps go between two looks changes no bit.
            chunk = if took > CHUNK { (chunk / 2).max(1) } else { (chunk * 2).min(STEPS) };
            (self.hooks.event)(RunEvent::Samples(samples(&progress) - before));
            training.messages().into_iter().for_each(|what| (self.hooks.event)(RunEvent::Note(what)));
            for (id, why) in progress.iter().filter_map(|p| Some((p.id, p.fault.as_ref()?))) {
                self.fault(group.clone(), id, why);
            }
            if progress.iter().any(|p| p.due) {
                let clock = Instant::now();
                for score in training.validate().map_err(failed)? {
                    self.validated(training, group.clone(), score)?;
                }
                give_back_freed();
                self.spent.validate += clock.elapsed().as_secs_f64();
            }
            let progress = training.progress();
            if progress.iter().all(|p| !p.active) {
                return Ok(true);
            }
            let (unit, every) = (least_unit(&progress), self.hooks.every);
            let due = every > 0 && unit / every > saved_unit / every;
            if due || saved.elapsed() > SAVE_EVERY {
                self.save(training, group.clone())?;
                (saved, saved_unit) = (Instant::now(), unit);
            }
        }
    }

    /// Takes a validation down, keeps the weights of the best, and ends a member whose patience has ended.
    fn validated(&mut self, training: &mut dyn Training, group: Range<usize>, score: Score) -> Result<()> {
        let (id, unit) = (score.id, score.unit);
        let members = &mut self.state.members[group];
        let member = members.iter_mut().find(|m| m.id == id).expect("a score is a member's");
        let better = member.validated(score);
        if let Some(best) = member.best.as_mut().filter(|_| better) {
            best.params = training.weights(id).map_err(failed)?;
        }
        if let Some(validation) = member.history.last() {
            (self.hooks.event)(RunEvent::Validated { member, validation, best: better });
        }
        let done = unit >= self.learner.units(member.config);
        if done || member.is_out_of_patience(self.extent.patience) {
            member.stopped = Some(if done { Stopped::Limit } else { Stopped::Patience });
            member.last = Some(Last { unit, params: training.weights(id).map_err(failed)? });
            training.stop(id).map_err(failed)?;
            (self.hooks.event)(RunEvent::Ended(member));
        }
        Ok(())
    }

    /// A member that met a number which is not finite: reported once, and left as it was.
    fn fault(&mut self, group: Range<usize>, id: u32, why: &str) {
        let members = &mut self.state.members[group];
        if let Some(member) = members.iter_mut().find(|m| m.id == id && m.stopped.is_none()) {
            member.stopped = Some(Stopped::Fault(why.to_string()));
            (self.hooks.event)(RunEvent::Ended(member));
        }
    }

    /// Keeps a state from which the run can go on.
    fn save(&mut self, training: &mut dyn Training, group: Range<usize>) -> Result<()> {
        let clock = Instant::now();
        let members = &self.state.members[group];
        self.state.running.retain(|s| members.iter().all(|m| m.id != s.id));
        for member in members.iter().filter(|m| m.stopped.is_none()) {
            self.state.running.push(training.snapshot(member.id).map_err(failed)?);
        }
        (self.hooks.save)(&self.state)?;
        // What a checkpoint was made of is freed by now; the heap of each thread would keep its pages, and a long
        // training would grow by them.
        give_back_freed();
        self.spent.save += clock.elapsed().as_secs_f64();
        (self.hooks.event)(RunEvent::Saved);
        Ok(())
    }
}

fn samples(progress: &[Progress]) -> u64 {
    progress.iter().map(|p| p.samples).sum()
}

fn least_unit(progress: &[Progress]) -> u32 {
    progress.iter().filter(|p| p.active).map(|p| p.unit).min().unwrap_or(0)
}
