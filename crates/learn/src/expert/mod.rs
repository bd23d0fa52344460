//! Expert iteration (Anthony, Tian and Barber 2017, <https://arxiv.org/abs/1705.08439>): search as the teacher of a
//! net, and the net as the search's sense of what is likely and what it is worth.
//!
//! A unit of work is an iteration. Accounts walk the training part of a fold; at every close all of them are roots of
//! one search ([`search::Search`], honest mode) in a market that was fitted on that training part alone
//! ([`FoldMarket`]), and act by what it improved. The net then learns from the targets of the last iterations: its
//! policy is to become the improved one, its value what the account really earned in the next bars, mixed with what the
//! root was worth to the search.
//!
//! On a card all roots of all members at a step are one search there, nets learn there, and accounts stay on the host.
//! Nets compute in bf16 inside a search on a card, so its bits are its own; a run that began on a device goes on there.
//!
//! **No search knows a bar behind its root.** Rows within the horizon of a training row are not drawn at it, and the
//! market of a fold ends where its training ends. What is deployed ([`SearchPolicy`]) searches at every close; the net
//! alone is a [`crate::ppo::PpoPolicy`] of the same weights.

mod card;
mod evaluator;
mod horizon;
mod model;
mod policy;
mod replay;
mod returns;
mod rollout;
mod training;
mod trend;

pub use model::{FoldMarket, Trend};
pub use policy::{SearchFold, SearchPolicy, SearchRows};
pub use search::{Comparison, Forecast, ModelKind, ModelRule};

use crate::policies::{Folds, member_setups, validate_every};
use crate::ppo::Actions;
use crate::scale::Scaler;
use crate::{Config, DeviceBudget, Extent, Learner, MemberKey, PolicySpec, Problem, Snapshot, Training};
use compute::net::Start;
use compute::nets::{MemberSetup, Nets, Setup};
use compute::population::{Pace, Pins, Rule};
use compute::{Choice, Opened, Tables};
use features::Fold;
use files::{Error, Kind, Result};
use horizon::Clocked;
use market::{EpisodeData, OBSERVED};
use model::{ACTIONS, TrainingPart};
use rayon::prelude::*;
use replay::Replay;
use search::cuda::{HonestModels, HonestSearch};
use search::{LEAST_ROWS, Mode, NetEvaluator, RootRule, Search};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use training::ExpertTraining;

/// Roots that go to a card at once, at most; more go in several goes.
const AT_ONCE: usize = 1 << 14;
/// A validation searches at most as many roots as this many iterations.
const WALKED: u64 = 2;

/// How a root is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SearchShape {
    /// Simulations of a root.
    pub simulations: u32,
    /// Scenarios of a root, on which all actions are tried.
    pub scenarios: u32,
    /// Codes of every later chance node.
    pub codes: u32,
    /// Decisions in a row, at most; and bars within which no row is drawn at a training row.
    pub horizon: u32,
    /// Roots that are searched in one batch. It changes no bit.
    pub roots: u32,
    /// How what is tried is chosen.
    #[serde(default)]
    pub rule: SelectionRule,
}

/// How a search chooses what it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectionRule {
    /// By sequential halving of the actions at the root (Danihelka et al. 2022).
    #[default]
    Gumbel,
    /// By prior, value and visits (Schrittwieser et al. 2020).
    Puct,
}

impl SearchShape {
    /// With draws at the root while training, and without where it is judged; only Gumbel's rule has any.
    pub(crate) fn settings(&self, seed: u64, draws: bool) -> search::Settings {
        search::Settings {
            simulations: self.simulations,
            depth: self.horizon,
            codes: self.codes as usize,
            scenarios: self.scenarios as usize,
            rule: match self.rule {
                SelectionRule::Gumbel => RootRule::Gumbel { considered: ACTIONS, scale: if draws { 1.0 } else { 0.0 } },
                SelectionRule::Puct => RootRule::PUCT,
            },
            mode: Mode::Honest { in_flight: 1 },
            seed,
        }
    }

    /// Bytes that the trees of a search take on so many threads.
    ///
    /// # Errors
    ///
    /// Where a number makes no sense.
    pub fn need(&self, threads: usize) -> compute::Result<u64> {
        Search::<FoldMarket>::need_for(ACTIONS, &self.settings(0, false), threads)
    }

    /// An error where they take more than so many bytes.
    pub(crate) fn fit_into(&self, threads: usize, most: u64) -> compute::Result<()> {
        Search::<FoldMarket>::fit_into(ACTIONS, &self.settings(0, false), threads, most)
    }
}

/// What expert iteration asks of a config beside net, recipe and rate; the recipe's batch is the minibatch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hypers {
    /// Accounts.
    pub n_envs: u32,
    /// Steps of each account in an iteration.
    pub n_steps: u32,
    /// How their roots are searched.
    pub search: SearchShape,
    /// Iterations whose targets are learned from.
    pub replay: u32,
    /// Passes through them in an iteration.
    pub n_epochs: u32,
    /// Share of what was really earned in a value's target; the rest is what the root was worth to the search.
    pub realised: f32,
    /// Share of decisions that accounts take at random, among those that are legal.
    pub explored: f32,
    /// Weight of the value's loss.
    pub vf_coef: f32,
    /// Steps of an episode.
    pub episode: u32,
}

impl Hypers {
    /// Roots of an iteration.
    pub fn rows(&self) -> u64 {
        u64::from(self.n_envs) * u64::from(self.n_steps)
    }
}

/// How experts are trained. What changes a bit is in here.
#[derive(Clone)]
pub struct Spec {
    /// As every policy.
    pub policies: PolicySpec<Hypers>,
    /// What a reward one bar later is worth.
    pub gamma: f32,
    /// What is believed of trends.
    pub trend: Trend,
    /// Which market model is searched in.
    pub model: ModelRule,
}

/// Experts of a problem: the [`Learner`].
#[derive(Clone)]
pub struct Expert {
    spec: PolicySpec<Hypers>,
    gamma: f32,
    trend: Trend,
    model: ModelRule,
    folds: Arc<Folds>,
    /// Those of the folds, with the columns of an inverted trend negated.
    scalers: Arc<Vec<Scaler>>,
    /// `[rows of the table]` the number of each row's clock time.
    clocks: Arc<Vec<u32>>,
    /// Bars over which market models are compared: the longest horizon of all configs.
    horizon: usize,
    /// `[folds]` once they are fitted.
    markets: Arc<Vec<Mutex<Option<Arc<FoldMarket>>>>>,
}

impl Expert {
    /// Experts of these folds, whose samples are steps; `data` has a row for each id of the problem. What cannot be
    /// trained is refused.
    pub fn new(problem: &Arc<Problem>, data: &Arc<EpisodeData>, folds: &[Fold], spec: Spec) -> Result<Expert> {
        let Spec { policies: spec, gamma, trend, model } = spec;
        let usage = |what: String, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy.to_string()));
        for (config, hypers) in spec.each() {
            let net = &config.net;
            let heads: Vec<usize> = net.heads.iter().map(|head| head.classes).collect();
            let columns: Vec<usize> = problem.inputs.iter().map(|input| input.columns.len()).collect();
            let wanted: Vec<(usize, bool)> = columns.iter().map(|n| (*n, false)).chain([(OBSERVED, true)]).collect();
            let inputs: Vec<(usize, bool)> = net.inputs.iter().map(|input| (input.features, input.dense)).collect();
            if heads != [ACTIONS, 1] || inputs != wanted || net.inputs.iter().any(|input| input.window > 1) {
                let what = format!(
                    "the net `{net}` does not fit: a search reads one row of {columns:?} features, then {OBSERVED} \
                     numbers of its account, and needs {ACTIONS} outputs and a value"
                );
                return usage(what, "change <train.net>, as in 64t-64t | 64t-64t");
            }
            if let Err(error) = hypers.search.need(1) {
                return usage(error.to_string(), "change <search.simulations>, <search.scenarios> or <search.codes>");
            }
        }
        let folds = Folds::new(problem, data, folds)?;
        let clocks = clocks(problem);
        let horizon = spec.hypers.iter().map(|own| own.search.horizon).max().unwrap_or(1);
        refuse_hidden_folds(&folds, &clocks, horizon)?;
        let scalers = folds.scalers.iter().map(|scaler| negated(scaler, &trend)).collect();
        let markets = folds.train.iter().map(|_| Mutex::default()).collect();
        Ok(Expert {
            clocks: Arc::new(clocks),
            scalers: Arc::new(scalers),
            horizon: horizon as usize,
            markets: Arc::new(markets),
            folds: Arc::new(folds),
            spec,
            gamma,
            trend,
            model,
        })
    }

    /// The market of a fold, fitted when it is first asked for.
    ///
    /// # Errors
    ///
    /// Where its training part is too short.
    pub fn market(&self, fold: usize) -> compute::Result<Arc<FoldMarket>> {
        let mut own = self.markets[fold].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(market) = &*own {
            return Ok(Arc::clone(market));
        }
        let part = TrainingPart {
            inputs: &self.folds.problem.inputs,
            scales: &self.scalers[fold].scales,
            data: &self.folds.data,
            stretches: &self.folds.train[fold],
            clocks: &self.clocks,
            model: self.model,
            horizon: self.horizon,
        };
        let market = Arc::new(FoldMarket::fit(&part, self.gamma, &self.trend)?);
        *own = Some(Arc::clone(&market));
        Ok(market)
    }

    fn setup(&self, kind: usize) -> Setup {
        let Config { net, recipe, .. } = &self.spec.configs[kind];
        // Small steps at first, from a policy that prefers nothing and values that are nothing.
        let starts = vec![
            (String::new(), Start::Orthogonal(std::f32::consts::SQRT_2)),
            (format!("head.{}", net.heads[0].name), Start::Orthogonal(0.01)),
            (format!("head.{}", net.heads[1].name), Start::Orthogonal(0.01)),
        ];
        Setup { rows: recipe.batch, precision: recipe.precision, rule: Some(Rule::AdamW), seed: recipe.seed, starts }
    }

    fn member_setups(&self, kind: usize, members: &[MemberKey]) -> Vec<MemberSetup> {
        member_setups(&self.scalers, &self.spec.configs[kind].net, members)
    }

    /// The pieces of a fold's validation that are walked: all, or as many as a few iterations search roots, evenly
    /// spread.
    fn pieces(&self, hypers: &Hypers, fold: usize) -> Vec<Range<u32>> {
        let all = &self.folds.valid[fold];
        let rows: usize = all.iter().map(ExactSizeIterator::len).sum();
        let most = (WALKED * hypers.rows()) as usize;
        let count = (all.len() * most).div_ceil(rows.max(1)).clamp(1, all.len());
        (0..count).map(|i| all[i * all.len() / count].clone()).collect()
    }

    /// Clock times that a search from a training row of a fold may not draw.
    fn within(&self, fold: usize, row: u32, bars: u32) -> Range<u32> {
        let (data, stretches) = (&self.folds.data, &self.folds.train[fold]);
        let (symbol, offsets) = (data.symbol(row), &data.table().offsets);
        let symbol = offsets[symbol] as u32..offsets[symbol + 1] as u32;
        Clocked { stretches, clocks: &self.clocks }.within(row, bars, &symbol)
    }

    /// Roots that are searched at once on a card: those of a step of all members, at most [`AT_ONCE`].
    fn roots_at_once(&self, kind: usize, members: &[MemberKey]) -> usize {
        (self.spec.hypers[kind].n_envs as usize * members.len()).clamp(1, AT_ONCE)
    }

    /// Iterations between two validations: about a fifth of the time goes into them.
    fn validate_every(&self, kind: usize) -> u32 {
        let rows = self.spec.hypers[kind].rows();
        validate_every(self.units(kind), 4 * self.folds.walked().min(WALKED * rows), rows)
    }
}

/// `[ids]` the number of each row's clock time; rows that are no sample have none, and are not asked for.
fn clocks(problem: &Problem) -> Vec<u32> {
    let mut clocks = vec![0; problem.ids];
    let (mut number, mut before) = (0, None);
    // Samples are in the order of time.
    for (row, t0) in problem.samples.rows.iter().zip(&problem.samples.t0) {
        if before.is_some_and(|before| before != t0) {
            number += 1;
        }
        before = Some(t0);
        clocks[*row as usize] = number;
    }
    clocks
}

/// Refuses a fold in which a root hides so many rows that hardly any is left to draw.
fn refuse_hidden_folds(folds: &Folds, clocks: &[u32], horizon: u32) -> Result<()> {
    let table = folds.data.table();
    let drawn = |stretches: &Vec<Range<u32>>| Clocked { stretches, clocks }.drawn(&table.bars, &table.offsets, horizon);
    let all: Vec<(usize, usize)> = folds.train.par_iter().map(drawn).collect();
    let Some((at, (rows, left))) = all.into_iter().enumerate().find(|(_, (_, left))| *left < LEAST_ROWS) else {
        return Ok(());
    };
    let what = format!(
        "fold {} has {rows} training bars to search in, and only {left} of them for some roots: with a horizon of \
         {horizon} the {horizon} bars before and behind a root are not drawn, and at least {LEAST_ROWS} must be left",
        at + 1
    );
    let remedy = "use a smaller <search.horizon> or fewer <split.folds>, or give more bars";
    Err(Error::new(Kind::Usage, what).remedy(remedy))
}

/// A scaler whose columns of an inverted trend have the other sign.
fn negated(scaler: &Scaler, trend: &Trend) -> Scaler {
    let mut own = scaler.clone();
    let inverses = own.scales.iter_mut().flat_map(|scale| &mut scale.inverse).enumerate();
    for (_, inverse) in inverses.filter(|(column, _)| trend.inverted && trend.columns.contains(column)) {
        *inverse = -*inverse;
    }
    own
}

/// A processor to search on: the device itself, or the machine's where it is a card.
fn processor(device: &Opened) -> compute::Result<Opened> {
    match device {
        Opened::Cpu { threads } => Ok(Opened::Cpu { threads: *threads }),
        Opened::Cuda(_) => Ok(Opened::new(Choice::Cpu, std::thread::available_parallelism().map_or(1, |n| n.get()))?.0),
    }
}

/// Threads of a processor.
fn threads_of(device: &Opened) -> usize {
    match device {
        Opened::Cpu { threads } => (*threads).max(1),
        Opened::Cuda(_) => 1,
    }
}

impl Learner for Expert {
    fn unit(&self) -> &'static str {
        "iteration"
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
        &self.scalers
    }

    fn alike(&self, config: usize) -> usize {
        self.spec.alike(config, |own| *own)
    }

    fn with(&self, configs: Vec<Config>, iterations: u32) -> Box<dyn Learner> {
        Box::new(Expert { spec: self.spec.with(configs, iterations), ..self.clone() })
    }

    fn samples(&self, member: MemberKey) -> u64 {
        self.spec.hypers[member.config].rows()
    }

    fn needs(&self, device: &Opened, members: &[MemberKey], _: Pace) -> compute::Result<u64> {
        let kind = self.group_config(members);
        let (config, hypers) = (&self.spec.configs[kind], &self.spec.hypers[kind]);
        let nets = Nets::need(device, &config.net, &self.setup(kind), &self.member_setups(kind, members))?;
        let features: usize = self.folds.problem.inputs.iter().map(|input| input.columns.len()).sum();
        let rows = |fold: &usize| self.folds.train[*fold].iter().map(ExactSizeIterator::len).sum::<usize>();
        let (seeds, count) = (self.spec.seeds.max(1) as usize, members.len());
        match device {
            Opened::Cpu { threads } => {
                let (threads, trees) = ((*threads).max(1), hypers.search.need((*threads).max(1))?);
                // Nets of so many members for every thread.
                let asked = |members: usize| {
                    let (passes, params) = ((members * threads) as u64, config.params()? as u64);
                    compute::Result::Ok(passes * NetEvaluator::bytes(&config.net)? + 8 * params * (passes + 1))
                };
                let kept = Replay::bytes(hypers.rows() * u64::from(hypers.replay)) + 512 * u64::from(hypers.n_envs);
                // Trees that teach and those of a walk.
                let training = nets + 2 * trees + asked(1)? + count as u64 * kept;
                // What is judged has one set of trees, and nets of all members of the fold that decides.
                let judging = trees + asked(seeds)?;
                // The market of every fold stays once it is fitted.
                let all = 0..self.folds.train.len();
                let markets: u64 = all.clone().map(|fold| FoldMarket::need(rows(&fold), features)).sum();
                let fitted = all.map(|fold| FoldMarket::need_to_fit(rows(&fold), features)).max().unwrap_or(0);
                Ok(markets + fitted.max(training).max(judging))
            }
            // Accounts and replays stay in the processor's memory.
            Opened::Cuda(context) => {
                // The market of every fold that has a member; of what is judged, that of the fold that decides.
                let mut own: Vec<usize> = members.iter().map(|key| key.fold).collect();
                own.sort_unstable();
                own.dedup();
                let market = |fold: &usize| HonestModels::need(FoldMarket::most_rows(rows(fold)), features);
                let settings = hypers.search.settings(0, true);
                let search = |nets: usize, roots: usize| {
                    HonestSearch::need(context, &config.net, nets, features, &settings, roots)
                };
                let markets: u64 = own.iter().map(market).sum();
                let training = nets + markets + search(count, self.roots_at_once(kind, members))?;
                let largest = own.iter().map(market).max().unwrap_or(0);
                Ok(training.max(largest + search(seeds, policy::AT_ONCE)?))
            }
        }
    }

    fn how_to_need_less(&self) -> &'static str {
        "use fewer <search.simulations>, <search.scenarios> or <search.codes>, or a smaller net"
    }

    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        _: Pace,
        pins: &Pins,
    ) -> compute::Result<Box<dyn Training>> {
        Ok(Box::new(ExpertTraining::new(self, at, tables, members, pins)?))
    }

    fn read_snapshot(&self, bytes: &[u8]) -> compute::Result<Snapshot> {
        self.spec.read_snapshot(bytes, training::HEAD, "the snapshot of an expert is not of this run")
    }
}

/// What every action of an expert is.
pub(crate) const DISCRETE: Actions = Actions::Discrete;
