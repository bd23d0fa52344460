//! What a way of learning has to offer to be trained by [`crate::train`].
//!
//! A [`Learner`] knows its members and what they need; [`Learner::begin`] sets some of them up on a device, and
//! [`Training`] is those members while they train. Which of them train together, when they are validated, which weights
//! are the best, when a member ends and what is saved is decided elsewhere, the same for every learner.

use crate::member::{Extent, MemberKey, Metrics};
use crate::noise::{Noise, NoisePhase, NoiseSpec};
use crate::problem::Problem;
use crate::scale::Scaler;
use compute::net::Layout;
use compute::population::{Pace, Pins, Recipe};
use compute::{Budget, Net, Opened, Result, Tables};
use std::sync::Arc;

/// A device, and how much of its memory may be taken.
#[derive(Clone)]
pub struct DeviceBudget {
    /// The device.
    pub device: Opened,
    /// How much.
    pub budget: Budget,
}

impl DeviceBudget {
    /// Bytes that may be taken now by a problem's tables and everything that reads them.
    pub fn bytes(&self, problem: &Problem) -> files::Result<u64> {
        Ok(self.budget.bytes(problem.free(&self.device)?))
    }
}

/// A set of hyper-parameters: what its members are trained with. Members of all configs have one precision and one root
/// of randomness.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Its inputs are those of the problem.
    pub net: Net,
    /// Batch, precision, optimiser, schedule, seed.
    pub recipe: Recipe,
    /// The learning rate before the schedule.
    pub rate: f32,
}

impl Config {
    /// Numbers in the net's weights as they lie in the arena, padding included.
    pub fn params(&self) -> Result<usize> {
        Layout::new(&self.net).map(|layout| layout.params)
    }

    /// Weights as the bytes of a file, under readable names.
    pub fn weights_file(&self, weights: &[f32]) -> Result<Vec<u8>> {
        Ok(compute::net::save(&self.net, &Layout::new(&self.net)?, weights))
    }
}

/// A way of learning, on its data, with its configs.
pub trait Learner: Send + Sync {
    /// What a unit of work is called: `epoch`, `update`, `generation`. A member is validated after each.
    fn unit(&self) -> &'static str;

    /// Sets of hyper-parameters, each with members of its own; at least one.
    fn configs(&self) -> &[Config];

    /// What is learned from.
    fn problem(&self) -> &Problem;

    /// How many members a config has and how long they train.
    fn extent(&self) -> Extent;

    /// Units of work of a config's members; those of [`Learner::extent`] unless configs differ.
    fn units(&self, _config: usize) -> u32 {
        self.extent().units
    }

    /// `[folds]` each fold's scaling.
    fn scalers(&self) -> &[Scaler];

    /// The first config whose members can be trained in one group with those of `config`: the rate alone may be a
    /// member's own.
    fn alike(&self, config: usize) -> usize {
        let all = self.configs();
        let same = |c: &usize| all[*c].net == all[config].net && all[*c].recipe == all[config].recipe;
        (0..config).find(same).unwrap_or(config)
    }

    /// The config whose net, recipe and shape the members of a group share.
    fn group_config(&self, members: &[MemberKey]) -> usize {
        members.first().map_or(0, |key| self.alike(key.config))
    }

    /// The same learner on the same data, with other configs and another number of units.
    fn with(&self, configs: Vec<Config>, units: u32) -> Box<dyn Learner>;

    /// The same with shorter units of work, where those of members that train together may take long: it learns nothing
    /// worth keeping, at about the same pace. None where a unit takes a moment.
    fn brief(&self, _device: &Opened, _members: &[MemberKey]) -> Option<Box<dyn Learner>> {
        None
    }

    /// How the gradients of members scatter, by which the tuner weighs one batch against another; none for a learner
    /// whose steps have no gradient of samples. `enough` may end either part early.
    fn noise(
        &self,
        _members: &[MemberKey],
        _at: &DeviceBudget,
        _spec: &NoiseSpec,
        _enough: &dyn Fn(NoisePhase) -> bool,
    ) -> files::Result<Option<Noise>> {
        Ok(None)
    }

    /// Samples of one unit of a member's work.
    fn samples(&self, member: MemberKey) -> u64;

    /// Bytes that members of one group take on a device, beside the tables.
    fn needs(&self, device: &Opened, members: &[MemberKey], pace: Pace) -> Result<u64>;

    /// What to change where that is too much, in words that end a sentence.
    fn how_to_need_less(&self) -> &'static str {
        "use a smaller net or fewer rows"
    }

    /// Sets the members of a group up, untrained, with everything that their steps need. `tables` are the problem's,
    /// `pins` the algorithms that the run keeps to.
    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        pace: Pace,
        pins: &Pins,
    ) -> Result<Box<dyn Training>>;

    /// A snapshot from its bytes.
    fn read_snapshot(&self, bytes: &[u8]) -> Result<Snapshot>;
}

/// Members of one group while they train.
pub trait Training {
    /// Bytes on the device, beside the tables.
    fn memory(&self) -> u64;

    /// Which kernels do the work, for people.
    fn kernel_paths(&self) -> Vec<String>;

    /// The algorithms that were taken, to be kept to.
    fn pins(&self) -> Pins;

    /// How far the members are, in the order in which they were given.
    fn progress(&self) -> Vec<Progress>;

    /// At most so many steps of every active member; fewer are done where one becomes due for its validation, and those
    /// that are due wait. Then how far they are.
    fn advance(&mut self, at_most: u32) -> Result<Vec<Progress>>;

    /// Validates the members that are due, and lets them go on.
    fn validate(&mut self) -> Result<Vec<Score>>;

    /// Validates all members that train, due or not, and lets them go on: for a clock that waits for a score. Those
    /// that keep to borders of their own are validated where they are due.
    fn validate_all(&mut self) -> Result<Vec<Score>> {
        match self.progress().iter().any(|member| member.due) {
            true => self.validate(),
            false => Ok(Vec::new()),
        }
    }

    /// What people should know of its members and were not told yet, in words.
    fn messages(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Lets the members that are due go on without a validation.
    fn skip_validation(&mut self) -> Result<()>;

    /// The weights that a member's validations are of.
    fn weights(&mut self, id: u32) -> Result<Vec<f32>>;

    /// All that a member is now.
    fn snapshot(&mut self, id: u32) -> Result<Snapshot>;

    /// Puts a member back to where its snapshot was taken; it goes on with the same bits.
    fn restore(&mut self, snapshot: &Snapshot) -> Result<()>;

    /// One member's weights and optimiser become another's, which stays who it is: its rows and random numbers are its
    /// own.
    fn adopt(&mut self, from: u32, to: u32) -> Result<()>;

    /// Ends a member; its weights stay.
    fn stop(&mut self, id: u32) -> Result<()>;
}

/// How far a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The member.
    pub id: u32,
    /// Still training.
    pub active: bool,
    /// Waits for its validation.
    pub due: bool,
    /// Units of work done.
    pub unit: u32,
    /// Steps done.
    pub step: u32,
    /// Samples trained on.
    pub samples: u64,
    /// Why it stopped by itself; none where it did not.
    pub fault: Option<String>,
}

/// What a validation saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The member.
    pub id: u32,
    /// Units of work done.
    pub unit: u32,
    /// Steps done.
    pub step: u32,
    /// What is selected by; larger is better, and what is not finite is never the best.
    pub score: f64,
    /// What else was seen.
    pub metrics: Metrics,
}

/// All that a member is between two steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The member.
    pub id: u32,
    /// Its weights, as [`Training::weights`] gives them.
    pub weights: Vec<f32>,
    /// Everything, in the learner's own format.
    pub bytes: Vec<u8>,
}
