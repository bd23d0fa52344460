//! Proximal policy optimisation (Schulman et al. 2017, <https://arxiv.org/abs/1707.06347>) with generalised advantages
//! (Schulman et al. 2016, <https://arxiv.org/abs/1506.02438>), on accounts that trade.
//!
//! A unit of work is an update: every account of a member takes `n_steps` steps, advantages are estimated, and the net
//! goes `n_epochs` times through what was seen, in minibatches. Policy and value are the heads of one net, in towers of
//! their own or on a shared trunk. The mean entropy of the policy is kept in a band by a multiplier of its own for each
//! member ([`entropy`]).
//!
//! A net whose towers begin with LSTM layers remembers: its state is carried through a rollout and cleared where an
//! episode ends, and minibatches are whole accounts with the state that each began with ([`memory`]).
//!
//! A rollout keeps rows of the table and what accounts were shown of themselves, never whole observations. What an
//! account draws depends on seed, member, step and its own number: threads and blocks change no bit.

mod advantage;
mod collect;
mod cpu;
mod cuda;
mod entropy;
mod halves;
mod loss;
mod loss_simd;
mod maths;
mod memory;
mod policy;
mod reward;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torch_tests;
mod training;
mod walk;

pub use advantage::{Ended, advantages};
pub(crate) use collect::{continuous_target, preferred};
#[cfg(test)]
pub(crate) use cuda::tests as card_tests;
pub(crate) use cuda::{EpisodeTable, episode_table, episode_table_bytes};
pub use entropy::{EntropyBand, UNIT_ENTROPY};
use halves::Halves;
pub(crate) use loss::softmax;
pub use loss::{Clip, LossSums, Taken, Terms, policy_loss, value_loss};
pub(crate) use policy::Deciding;
pub use policy::{Deciders, FoldPolicy, PpoPolicy};
pub use reward::Reward;
pub(crate) use training::PpoTraining;
pub(crate) use walk::{Walk, Walker, longest_piece, mean_growth, pieces, walk_pieces};

use crate::policies::{Folds, check_net, member_setups, validate_every};
use crate::scale::Scaler;
use crate::{Config, DeviceBudget, Extent, Learner, MemberKey, PolicySpec, Problem, Snapshot, Training};
use collect::BLOCK_BYTES;
use compute::net::Start;
use compute::nets::{MemberSetup, Nets, Setup};
use compute::population::{Pace, Pins, Rule};
use compute::{Net, Opened, Tables};
use features::Fold;
use files::Result;
use market::EpisodeData;
use std::sync::Arc;

/// What an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actions {
    /// Short, flat or long, as far as each is legal: the policy's head has three outputs.
    Discrete,
    /// A target between -1 and 1, the hyperbolic tangent of a normal draw: two outputs, mean and logarithm of the
    /// deviation.
    Continuous,
}

impl Actions {
    /// What the actions of a policy's net are, by the outputs of its first head.
    pub fn of(net: &Net) -> Actions {
        match net.heads.first() {
            Some(head) if head.classes == Actions::Continuous.outputs() => Actions::Continuous,
            _ => Actions::Discrete,
        }
    }

    /// Outputs of the policy's head.
    pub fn outputs(self) -> usize {
        match self {
            Actions::Discrete => 3,
            Actions::Continuous => 2,
        }
    }
}

/// What PPO asks of a config beside net, recipe and rate; the recipe's batch is the minibatch. Names are those of
/// Stable-Baselines3 where it has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hypers {
    /// Accounts.
    pub n_envs: u32,
    /// Steps of each account in an update.
    pub n_steps: u32,
    /// Passes through what was seen.
    pub n_epochs: u32,
    /// What a reward one step later is worth.
    pub gamma: f32,
    /// How far advantages look: 0 trusts the value, 1 the rewards.
    pub gae_lambda: f32,
    /// How far the probability of an action may move before it no longer counts.
    pub clip: Clip,
    /// Whether advantages of a minibatch have mean 0 and deviation 1.
    pub normalize_advantage: bool,
    /// Weight of the value's loss.
    pub vf_coef: f32,
    /// An update ends where the policy has moved further than 1.5 times this.
    pub target_kl: Option<f32>,
    /// Where the entropy is kept.
    pub entropy: EntropyBand,
    /// Steps of an episode.
    pub episode: u32,
    /// What an action is.
    pub actions: Actions,
    /// What a step is worth.
    pub reward: Reward,
}

/// What is explored of a member's hyper-parameters, as multiples of its config's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HyperFactors {
    pub(crate) rate: f32,
    pub(crate) entropy: f32,
    pub(crate) risk: f32,
}

impl Default for HyperFactors {
    fn default() -> HyperFactors {
        HyperFactors { rate: 1.0, entropy: 1.0, risk: 1.0 }
    }
}

impl HyperFactors {
    /// A config's hyper-parameters times these; the rate is no part of them. A band of shares stays one, and one in
    /// nats is shifted: the deviation of a target is multiplied.
    pub(crate) fn apply(self, of: &Hypers) -> Hypers {
        let EntropyBand { least, most } = of.entropy;
        let entropy = match of.actions {
            Actions::Discrete => {
                let most = (most * self.entropy).min(1.0);
                EntropyBand { least: (least * self.entropy).min(0.9 * most), most }
            }
            Actions::Continuous => {
                let by = self.entropy.ln();
                EntropyBand { least: least + by, most: most + by }
            }
        };
        let reward = match of.reward {
            Reward::Drawdown(weight) => Reward::Drawdown(weight * self.risk),
            other => other,
        };
        Hypers { entropy, reward, ..*of }
    }
}

/// How policies are trained by PPO.
pub type Spec = PolicySpec<Hypers>;

/// Policies of a problem: the [`Learner`].
#[derive(Clone)]
pub struct Ppo {
    spec: Spec,
    folds: Arc<Folds>,
}

impl Ppo {
    /// Policies of these folds, whose samples are steps; `data` has a row for each id of the problem. What cannot be
    /// trained is refused.
    pub fn new(problem: &Arc<Problem>, data: &Arc<EpisodeData>, folds: &[Fold], spec: Spec) -> Result<Ppo> {
        spec.each().try_for_each(|(config, hypers)| {
            let outputs = [hypers.actions.outputs(), 1];
            check_net(problem, &config.net, &outputs, "a policy", "change <train.net>, as in 64t-64t | 64t-64t")
        })?;
        Ok(Ppo { spec, folds: Arc::new(Folds::new(problem, data, folds)?) })
    }

    /// The same with other configs and updates.
    pub(crate) fn remade(&self, configs: Vec<Config>, updates: u32) -> Ppo {
        Ppo { spec: self.spec.with(configs, updates), folds: Arc::clone(&self.folds) }
    }

    /// The same with so many members of each fold.
    pub(crate) fn with_seeds(mut self, seeds: u32) -> Ppo {
        self.spec.seeds = seeds;
        self
    }

    /// The hyper-parameters of a config.
    pub(crate) fn hypers(&self, config: usize) -> &Hypers {
        &self.spec.hypers[config]
    }

    /// What the members of a group share.
    fn shared(&self, members: &[MemberKey]) -> (&Config, &Hypers) {
        let at = self.group_config(members);
        (&self.spec.configs[at], &self.spec.hypers[at])
    }

    fn setup(&self, device: &Opened, members: &[MemberKey]) -> Setup {
        let (config, _) = self.shared(members);
        let recipe = &config.recipe;
        let rows = match device {
            // Gradients of sequences come from elsewhere.
            Opened::Cpu { .. } if config.net.has_memory() => 1,
            Opened::Cpu { .. } => recipe.batch,
            Opened::Cuda(context) => cuda::rows(context, self, members, recipe.batch),
        };
        let heads = &config.net.heads;
        // Small steps at first, from a policy that prefers nothing.
        let starts = vec![
            (String::new(), Start::Orthogonal(std::f32::consts::SQRT_2)),
            ("trunk.lstm".into(), Start::Orthogonal(1.0)),
            ("tower.0.lstm".into(), Start::Orthogonal(1.0)),
            ("tower.1.lstm".into(), Start::Orthogonal(1.0)),
            (format!("head.{}", heads[0].name), Start::Orthogonal(0.01)),
            (format!("head.{}", heads[1].name), Start::Orthogonal(1.0)),
        ];
        Setup { rows, precision: recipe.precision, rule: Some(Rule::AdamW), seed: recipe.seed, starts }
    }

    fn member_setups(&self, members: &[MemberKey]) -> Vec<MemberSetup> {
        member_setups(&self.folds.scalers, &self.shared(members).0.net, members)
    }

    /// Bytes that members take on a device when they are trained as one, beside the tables.
    pub(crate) fn needs_together(&self, device: &Opened, members: &[MemberKey]) -> compute::Result<u64> {
        let (config, hypers) = self.shared(members);
        let nets = Nets::need(device, &config.net, &self.setup(device, members), &self.member_setups(members))?;
        let rows = u64::from(hypers.n_envs) * u64::from(hypers.n_steps);
        let rollouts = match device {
            // A rollout reads a copy of the parameters, and they are packed beside it.
            Opened::Cpu { threads } if config.net.has_memory() => {
                members.len() as u64 * rows * BLOCK_BYTES
                    + memory::need(&config.net, hypers, config.recipe.batch, members.len(), *threads)?
            }
            Opened::Cpu { .. } => {
                let passes = cpu::passes_need(&config.net, config.recipe.precision, hypers.n_envs)?;
                members.len() as u64 * (rows * BLOCK_BYTES + 12 * config.params()? as u64 + passes)
            }
            Opened::Cuda(context) => cuda::need(context, self, members)?,
        };
        Ok(nets + rollouts)
    }

    /// Updates between two validations on a device.
    fn validate_every(&self, device: &Opened, hypers: &Hypers, updates: u32) -> u32 {
        let on_card = matches!(device, Opened::Cuda(_));
        let walk = walk_cost(on_card, self.folds.walked(), self.folds.longest_walk());
        updates_between(walk, hypers, updates)
    }
}

/// What a row of a validation costs, in rows that pass forward in an update: few rows pass a net at once.
const WALKED_ROW: u64 = 2;
/// What a step of a validation costs on a card at least, in the same rows: steps follow each other, however few pieces
/// are walked side by side.
const WALKED_STEP: u64 = 2000;
/// Validations of a training at least, unless it has fewer updates.
const FEWEST_VALIDATIONS: u32 = 4;

/// What a validation of so many rows costs, whose longest piece has so many steps, in rows that pass forward.
fn walk_cost(on_card: bool, rows: u64, steps: u64) -> u64 {
    (WALKED_ROW * rows).max(if on_card { WALKED_STEP * steps } else { 0 })
}

/// Updates between two validations of a cost: at most a twentieth of the time goes into them, by what is computed and
/// by no clock, so that the same run is validated after the same updates. Trainings that are too short for that have
/// [`FEWEST_VALIDATIONS`].
fn updates_between(walk: u64, hypers: &Hypers, updates: u32) -> u32 {
    // A pass back costs twice a pass forward.
    let update = u64::from(hypers.n_envs) * u64::from(hypers.n_steps) * (1 + 3 * u64::from(hypers.n_epochs));
    validate_every(updates, 20 * walk, update).min((updates / FEWEST_VALIDATIONS).max(1))
}

impl Learner for Ppo {
    fn unit(&self) -> &'static str {
        "update"
    }

    fn configs(&self) -> &[Config] {
        &self.spec.configs
    }

    fn problem(&self) -> &Problem {
        &self.folds.problem
    }

    fn extent(&self) -> Extent {
        self.spec.extent(self.folds.train.len())
    }

    fn units(&self, config: usize) -> u32 {
        self.spec.units_of(config)
    }

    fn scalers(&self) -> &[Scaler] {
        &self.folds.scalers
    }

    fn alike(&self, config: usize) -> usize {
        self.spec.alike(config, |own| (own.n_envs, own.n_steps, own.n_epochs, own.episode, own.actions))
    }

    fn with(&self, configs: Vec<Config>, updates: u32) -> Box<dyn Learner> {
        Box::new(self.remade(configs, updates))
    }

    fn samples(&self, member: MemberKey) -> u64 {
        let Hypers { n_envs, n_steps, .. } = self.spec.hypers[member.config];
        u64::from(n_envs) * u64::from(n_steps)
    }

    fn needs(&self, device: &Opened, members: &[MemberKey], _: Pace) -> compute::Result<u64> {
        match halves::split(self, device, members) {
            Some(halves) => halves.into_iter().map(|half| self.needs_together(device, half)).sum(),
            None => self.needs_together(device, members),
        }
    }

    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        _: Pace,
        pins: &Pins,
    ) -> compute::Result<Box<dyn Training>> {
        Ok(match halves::split(self, &at.device, members) {
            Some(halves) => Box::new(Halves::new(self, at, tables, halves, pins)?),
            None => Box::new(PpoTraining::new(self, at, tables, members, pins)?),
        })
    }

    fn read_snapshot(&self, bytes: &[u8]) -> compute::Result<Snapshot> {
        self.spec.read_snapshot(bytes, training::HEAD, "the snapshot of a policy is shorter than its net")
    }
}
