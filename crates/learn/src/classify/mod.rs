//! Classifiers, trained as a population: every fold, every seed and every set of hyper-parameters (a config) is a
//! member.
//!
//! The loop is the one everybody knows: an epoch of steps, a look at the validation list, the best kept, patience. Here
//! it is one loop for all members at once, each at its own pace: [`train`] asks the population for a chunk of steps,
//! looks at who is due, scores them on the device, and decides for each. Members that have stopped free their place;
//! groups follow one another where the memory does not do for all.
//!
//! **What a member becomes depends on its config, its fold and its seed**: not on its group, its neighbours, the number
//! of threads, or on how often the run was cut and continued. Where the memory does not do for one member, batches go
//! through the net in parts: the same training but for the order of sums, so the parts are kept in every checkpoint
//! ([`Saved::pace`]) and a run that goes on has the same.

mod group;
mod keep;
mod member;
mod noise;
mod pace;
mod plan;
mod predict;

pub use group::{Hooks, Outcome, train};
pub use keep::Saved;
pub use member::{Best, Epoch, Last, Stopped, Trained, Who};
pub use noise::{Look, Looking, Noise, noise};
pub use pace::Paced;
pub use plan::{Group, Plan, plan};
pub use predict::{Query, predict};

use compute::Net;
use compute::population::{Recipe, Score};

/// How classifiers are trained. What changes a bit is in here; what only changes the pace is not.
#[derive(Clone)]
pub struct Classify<'a> {
    /// One head; its inputs are those of the problem.
    pub net: Net,
    /// Batch, precision, optimiser, schedule, seed.
    pub recipe: Recipe,
    /// The learning rate before the schedule.
    pub rate: f32,
    /// Further sets of hyper-parameters, each with members of its own. Config 0 is the one above.
    pub others: Vec<Config>,
    /// At most so many epochs.
    pub epochs: u32,
    /// A member ends after so many epochs without a better score.
    pub patience: u32,
    /// Members of each fold.
    pub seeds: u32,
    /// Whether rare classes weigh more: each as much as any other in sum.
    pub balance: bool,
    /// What makes a score better than another; larger is. (The measure is the judge's.)
    pub worth: &'a (dyn Fn(&Score) -> f64 + Sync),
}

/// A set of hyper-parameters: what its members are trained with.
#[derive(Clone)]
pub struct Config {
    /// As in [`Classify`].
    pub net: Net,
    /// As in [`Classify`]; precision and seed are the first config's.
    pub recipe: Recipe,
    /// As in [`Classify`].
    pub rate: f32,
}

impl<'a> Classify<'a> {
    /// How many configs there are.
    pub fn configs(&self) -> usize {
        1 + self.others.len()
    }

    /// The training of one config alone.
    pub fn of(&self, config: usize) -> Classify<'a> {
        let own = config.checked_sub(1).and_then(|at| self.others.get(at));
        let own =
            own.cloned().unwrap_or_else(|| Config { net: self.net.clone(), recipe: self.recipe, rate: self.rate });
        let Config { net, recipe, rate } = own;
        Classify { net, recipe, rate, others: Vec::new(), ..self.clone() }
    }

    /// The first config with the same net and recipe: only the rate is a member's own, so members of these are trained
    /// at once.
    pub(crate) fn job(&self, config: usize) -> usize {
        let net = |c: usize| if c == 0 { &self.net } else { &self.others[c - 1].net };
        let recipe = |c: usize| if c == 0 { &self.recipe } else { &self.others[c - 1].recipe };
        (0..config).find(|c| net(*c) == net(config) && recipe(*c) == recipe(config)).unwrap_or(config)
    }

    fn rate_of(&self, config: usize) -> f32 {
        if config == 0 { self.rate } else { self.others[config - 1].rate }
    }

    /// The largest batch of any config.
    fn largest(&self) -> usize {
        self.others.iter().map(|c| c.recipe.batch).fold(self.recipe.batch, usize::max)
    }
}

/// What happens during training, told as it happens.
#[derive(Debug, Clone)]
pub enum News<'a> {
    /// A group begins: which, of how many, with so many members.
    Group {
        /// From 0.
        number: usize,
        /// Of so many.
        of: usize,
        /// Members in it.
        members: usize,
        /// Bytes it takes on the device.
        memory: u64,
        /// How the device does it, for people.
        ways: Vec<String>,
    },
    /// The device had less memory than was planned with; what is done about it, in words.
    Less(String),
    /// A member was validated after an epoch.
    Epoch {
        /// Whose.
        member: &'a Trained,
        /// What was seen; also the last of the member's history.
        epoch: &'a Epoch,
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
