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
mod loss;
mod loss_simd;
mod maths;
mod memory;
mod policy;
mod reward;
mod training;
mod walk;

pub use advantage::{Ended, advantages};
pub(crate) use collect::{continuous_target, preferred};
#[cfg(test)]
pub(crate) use cuda::tests as card_tests;
pub(crate) use cuda::{EpisodeTable, episode_table, episode_table_bytes};
pub use entropy::EntropyBand;
pub(crate) use loss::softmax;
pub use loss::{Clip, LossSums, Taken, Terms, policy_loss, value_loss};
pub(crate) use policy::seen_alone;
pub use policy::{Deciders, FoldPolicy, PpoPolicy};
pub use reward::Reward;
pub(crate) use training::PpoTraining;
pub(crate) use walk::{Walk, Walker, mean_growth, walk_pieces};

use crate::scale::{Scaler, fit, split_id};
use crate::{Config, DeviceBudget, Extent, Learner, MemberKey, Problem, Snapshot, Training};
use collect::BLOCK_BYTES;
use compute::net::Start;
use compute::nets::{MemberSetup, Nets, Setup};
use compute::population::{Pace, Pins, Rule, Scale};
use compute::{Net, Opened, Tables};
use features::Fold;
use files::{Error, Kind, Result};
use market::{EpisodeData, OBSERVED};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Validations of a member at most: all are kept, and the memory of a long training must not grow.
const VALIDATIONS: u64 = 256;

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

/// How policies are trained. What changes a bit is in here.
#[derive(Clone)]
pub struct Spec {
    /// Sets of hyper-parameters, each with members of its own; at least one.
    pub configs: Vec<Config>,
    /// `[configs]` what PPO adds.
    pub hypers: Vec<Hypers>,
    /// `[configs]` updates of a member.
    pub updates: Vec<u32>,
    /// Members end after so many updates, on the schedule of all; none: they do all.
    pub stop_after: Option<u32>,
    /// A member ends after so many updates without a better score.
    pub patience: u32,
    /// Members of each fold.
    pub seeds: u32,
}

/// Policies of a problem: the [`Learner`].
#[derive(Clone)]
pub struct Ppo {
    spec: Spec,
    folds: Arc<Folds>,
}

/// What the folds of a problem are to a policy, whichever way it learns.
pub(crate) struct Folds {
    pub(crate) problem: Arc<Problem>,
    pub(crate) data: Arc<EpisodeData>,
    /// `[folds]` rows that episodes may use, as stretches of neighbours.
    pub(crate) train: Vec<Vec<Range<u32>>>,
    /// `[folds]` the same of validation, cut into pieces of about one length.
    pub(crate) valid: Vec<Vec<Range<u32>>>,
    /// `[folds]` whether that is a validation; else members are not selected.
    pub(crate) is_validated: Vec<bool>,
    pub(crate) scalers: Vec<Scaler>,
    /// What episodes of a length are played on, once a card has it.
    on_card: Mutex<Option<(u32, cuda::EpisodeTable)>>,
}

impl Folds {
    /// Folds whose samples are steps; `data` has a row for each id of the problem. One that cannot be traded on is
    /// refused.
    pub(crate) fn new(problem: &Arc<Problem>, data: &Arc<EpisodeData>, folds: &[Fold]) -> Result<Folds> {
        assert_eq!(data.table().bars.len(), problem.ids, "a row of prices for each id");
        let rows_of = |list: &[u32]| -> Vec<u32> {
            let mut rows: Vec<u32> = list.iter().map(|at| problem.samples.rows[*at as usize]).collect();
            rows.sort_unstable();
            rows
        };
        let train: Vec<Vec<Range<u32>>> = folds.iter().map(|fold| stretches(&rows_of(&fold.train))).collect();
        let mut valid: Vec<Vec<Range<u32>>> =
            folds.iter().map(|f| walk::pieces(&stretches(&rows_of(&f.valid)))).collect();
        // Where everything is training the last weights are taken; a moment of it is walked, and not counted.
        let is_validated: Vec<bool> = folds.iter().map(|fold| !fold.valid.is_empty()).collect();
        for at in (0..folds.len()).filter(|at| !is_validated[*at]) {
            let long = train[at].iter().find(|stretch| stretch.len() >= 3);
            valid[at] = long.map(|stretch| stretch.start..stretch.start + 3).into_iter().collect();
        }
        if let Some(at) = (0..folds.len()).find(|at| train[*at].is_empty() || valid[*at].is_empty()) {
            let what =
                format!("fold {} has too few neighbouring bars to trade on, in training or in validation", at + 1);
            return Err(Error::new(Kind::Usage, what).remedy("use fewer <split.folds>, or give more data"));
        }
        let split = split_id(folds);
        let scalers: Vec<Scaler> = folds.par_iter().map(|fold| fit(problem, fold, split)).collect();
        scalers.iter().zip(folds).try_for_each(|(scaler, fold)| scaler.precedes(fold.spans.test.from()))?;
        let (problem, data) = (Arc::clone(problem), Arc::clone(data));
        let on_card = Mutex::default();
        Ok(Folds { problem, data, train, valid, is_validated, scalers, on_card })
    }

    /// How a fold's inputs of a net are scaled; what an account is shown has fixed units.
    pub(crate) fn scales(&self, net: &Net, fold: usize) -> Vec<Option<Scale>> {
        let mut own = self.scalers[fold].scales.iter().cloned();
        net.inputs.iter().map(|input| if input.dense { None } else { own.next() }).collect()
    }

    /// Rows that the longest validation walks through.
    pub(crate) fn walked(&self) -> u64 {
        let all = self.valid.iter().map(|pieces| pieces.iter().map(ExactSizeIterator::len).sum::<usize>());
        all.max().unwrap_or(0) as u64
    }
}

impl Ppo {
    /// Policies of these folds, whose samples are steps; `data` has a row for each id of the problem. What cannot be
    /// trained is refused.
    pub fn new(problem: &Arc<Problem>, data: &Arc<EpisodeData>, folds: &[Fold], spec: Spec) -> Result<Ppo> {
        assert_eq!(spec.configs.len(), spec.hypers.len(), "hyper-parameters for each config");
        assert_eq!(spec.configs.len(), spec.updates.len(), "updates of each config");
        for (config, hypers) in spec.configs.iter().zip(&spec.hypers) {
            let net = &config.net;
            let heads: Vec<usize> = net.heads.iter().map(|head| head.classes).collect();
            let tables: Vec<usize> = net.inputs.iter().filter(|i| !i.dense).map(|i| i.features).collect();
            let columns: Vec<usize> = problem.inputs.iter().map(|input| input.columns.len()).collect();
            if heads != [hypers.actions.outputs(), 1] || tables != columns || net.extras() != OBSERVED {
                let what = format!(
                    "the net `{net}` does not fit: a policy reads {columns:?} features and {OBSERVED} numbers of its \
                     account, and ends in {} outputs and a value",
                    hypers.actions.outputs()
                );
                return Err(Error::new(Kind::Usage, what).remedy("change <train.net>, as in 64t-64t | 64t-64t"));
            }
        }
        Ok(Ppo { spec, folds: Arc::new(Folds::new(problem, data, folds)?) })
    }

    /// The same with other configs and updates.
    pub(crate) fn remade(&self, configs: Vec<Config>, updates: u32) -> Ppo {
        // The same configs with another batch, say, keep what else they have; others are like the first.
        let hypers = match configs.len() == self.spec.configs.len() {
            true => self.spec.hypers.clone(),
            false => vec![self.spec.hypers[0]; configs.len()],
        };
        let updates = vec![updates; configs.len()];
        let spec = Spec { configs, hypers, updates, ..self.spec.clone() };
        Ppo { spec, folds: Arc::clone(&self.folds) }
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

    /// The config whose net, recipe and shape the members of a group share.
    fn shared(&self, members: &[MemberKey]) -> (&Config, &Hypers) {
        let at = members.first().map_or(0, |key| self.alike(key.config));
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
        members.iter().map(|key| MemberSetup { id: key.id(), scales: self.scales(key.fold) }).collect()
    }

    /// How a fold's inputs are scaled; what an account is shown has fixed units.
    fn scales(&self, fold: usize) -> Vec<Option<Scale>> {
        self.folds.scales(&self.spec.configs[0].net, fold)
    }

    /// Updates between two validations: about a twentieth of the time goes into them, by what they have to compute, and
    /// there are at most [`VALIDATIONS`] of them.
    fn validate_every(&self, hypers: &Hypers, updates: u32) -> u32 {
        let walked = self.folds.walked();
        // A pass back costs twice a pass forward.
        let update = u64::from(hypers.n_envs) * u64::from(hypers.n_steps) * (1 + 3 * u64::from(hypers.n_epochs));
        let updates = u64::from(updates.max(1));
        (20 * walked).div_ceil(update.max(1)).clamp(updates.div_ceil(VALIDATIONS), updates) as u32
    }
}

/// Neighbouring rows as ranges of at least two.
fn stretches(rows: &[u32]) -> Vec<Range<u32>> {
    let runs = rows.chunk_by(|a, b| a + 1 == *b).filter(|run| run.len() >= 2);
    runs.map(|run| run[0]..run[run.len() - 1] + 1).collect()
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
        let Spec { patience, seeds, .. } = self.spec;
        let units = (0..self.spec.configs.len()).map(|config| self.units(config)).max().unwrap_or(0);
        Extent { folds: self.folds.train.len(), seeds, units, patience }
    }

    fn units(&self, config: usize) -> u32 {
        self.spec.updates[config].min(self.spec.stop_after.unwrap_or(u32::MAX))
    }

    fn scalers(&self) -> &[Scaler] {
        &self.folds.scalers
    }

    fn alike(&self, config: usize) -> usize {
        let Spec { configs, hypers, updates, .. } = &self.spec;
        let shape = |at: usize| {
            let Hypers { n_envs, n_steps, n_epochs, episode, actions, .. } = hypers[at];
            (n_envs, n_steps, n_epochs, episode, actions, updates[at])
        };
        let same = |c: &usize| {
            configs[*c].net == configs[config].net
                && configs[*c].recipe == configs[config].recipe
                && shape(*c) == shape(config)
        };
        (0..config).find(same).unwrap_or(config)
    }

    fn with(&self, configs: Vec<Config>, updates: u32) -> Box<dyn Learner> {
        Box::new(self.remade(configs, updates))
    }

    fn samples(&self, member: MemberKey) -> u64 {
        let Hypers { n_envs, n_steps, .. } = self.spec.hypers[member.config];
        u64::from(n_envs) * u64::from(n_steps)
    }

    fn needs(&self, device: &Opened, members: &[MemberKey], _: Pace) -> compute::Result<u64> {
        let (config, hypers) = self.shared(members);
        let nets = Nets::need(device, &config.net, &self.setup(device, members), &self.member_setups(members))?;
        let rows = u64::from(hypers.n_envs) * u64::from(hypers.n_steps);
        let rollouts = match device {
            // A rollout reads a copy of the parameters, and they are packed beside it.
            Opened::Cpu { threads } if config.net.has_memory() => {
                members.len() as u64 * rows * BLOCK_BYTES
                    + memory::need(&config.net, hypers, config.recipe.batch, members.len(), *threads)?
            }
            Opened::Cpu { .. } => members.len() as u64 * (rows * BLOCK_BYTES + 12 * config.params()? as u64),
            Opened::Cuda(context) => cuda::need(context, self, members)?,
        };
        Ok(nets + rollouts)
    }

    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        _: Pace,
        pins: &Pins,
    ) -> compute::Result<Box<dyn Training>> {
        Ok(Box::new(PpoTraining::new(self, at, tables, members, pins)?))
    }

    fn read_snapshot(&self, bytes: &[u8]) -> compute::Result<Snapshot> {
        training::read_snapshot(self, bytes)
    }
}
