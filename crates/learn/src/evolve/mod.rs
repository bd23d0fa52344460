//! Evolution of policies: search distributions over the weights of a net, on accounts that trade.
//!
//! A member is a search distribution: a middle, a deviation, counters. In a generation it is asked for individuals,
//! each trades the same random spans of the member's training part, greedily and at cost, and the distribution is told
//! how fit they were ([`Strategy`]). [`OpenAi`], its form of low rank [`LowRank`], [`SepCma`] and [`Separable`] are
//! ways to do it. The middle is what is validated and deployed. A generation selects by fitness on training data alone,
//! and the best generation is chosen on validation data.
//!
//! Individuals are no rows of an arena. They follow from counters, and whoever needs one makes it:
//!
//! - **Parameters** are numbered layer by layer, of each layer the weights `[inputs, outputs]`, outputs adjacent, then
//!   the biases; there is no padding. There are `d` of them; `d₄` is `d` rounded up to a multiple of 4.
//! - **Normals**: that of parameter `j` in draw `i` is word `j % 4` of `normals(philox(seed, [i · d₄ / 4 + j / 4,
//!   generation, STREAM_PERTURBATION, member]))`. Generations count from 0.
//! - **Individuals** `2 i` and `2 i + 1` of a mirrored search are `fma(σ, z, middle)` and `fma(-σ, z, middle)`; without
//!   mirrors individual `i` is `fma(σ · deviation, z, middle)`.
//! - **Spans**: account `a` of every individual begins at the start that the first two words of `philox(seed, [a,
//!   generation, STREAM_START, member])` draw as 64 bits (low word first, by multiply-high), and takes `n_steps` steps,
//!   or as many as its stretch has. It starts flat and is not closed at the end. A ruined account earns nothing more.
//! - **Fitness** adds steps in order for each account, then accounts in order, in f64 ([`Fitness`]).
//! - **Sums over draws**, `Σ weight · z`: slices of 64 draws from 0 by fma in order, then slices in order, in f32.
//!   Draws whose weight is 0 are left out.
//!
//! So a member's bits depend on its config, fold and seed, and on the processor's instructions (tangents in f32 differ
//! between AVX-512 and AVX2 in their last places), not on threads, on neighbours or on how often it was stopped.
//!
//! A card takes whole generations of some configs ([`cuda`]): from the same fitness they end where they end here, but
//! their nets compute in bf16. A processor computes in f32 or in bf16, as the recipe says: in bf16 weights, inputs and
//! activations are rounded, as on a card, and biases, sums and outputs are not.

mod bf16_simd;
mod bf16_tanh_simd;
mod cuda;
mod fitness;
mod format_simd;
mod fused_simd;
mod heads_simd;
mod lanes_simd;
mod low_rank;
mod low_rank_simd;
mod openai;
mod pbt;
mod ranks;
mod rollout;
mod sep_cma;
mod separable;
mod span;
mod stack;
mod stack_simd;
#[cfg(all(test, target_arch = "x86_64"))]
mod stack_simd_tests;
mod strategy;
#[cfg(target_arch = "x86_64")]
mod tanh_simd;
#[cfg(target_arch = "x86_64")]
mod tiles_simd;
mod training;
mod views;
#[cfg(target_arch = "x86_64")]
mod wide_simd;

pub use fitness::Fitness;
pub use low_rank::{Factors, LowRank};
pub use openai::OpenAi;
pub use pbt::Pbt;
pub use ranks::{centred_ranks, mean_ranks, weights_by_rank};
pub use sep_cma::SepCma;
pub use separable::Separable;
pub use span::TrainStretches;
pub use strategy::{Counted, Normals, State, Strategy};

use crate::policies::{Folds, check_net, validate_every};
use crate::ppo::Actions;
use crate::scale::Scaler;
use crate::{Config, DeviceBudget, Extent, Learner, MemberKey, PolicySpec, Problem, Snapshot, Training};
use compute::net::{Layout, Start, init_by};
use compute::population::{Pace, Pins, Precision};
use compute::{Opened, Tables};
use features::Fold;
use files::{Error, Kind, Result};
use market::EpisodeData;
use rollout::Worker;
use stack::Stack;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use training::EvolveTraining;
use views::Views;

/// Whether individuals of such a config can trade on the card, in bf16; elsewhere they trade on the processor.
pub fn has_kernels(device: &Opened, net: &compute::Net, hypers: &Hypers) -> bool {
    matches!(device, Opened::Cuda(_)) && missing_kernels(device, net, hypers).is_none()
}

/// Why individuals of such a config trade on the processor beside the card that was opened, as half a sentence; none
/// where the card has kernels for them, and where no card was opened.
pub fn missing_kernels(device: &Opened, net: &compute::Net, hypers: &Hypers) -> Option<String> {
    let Opened::Cuda(context) = device else { return None };
    let Ok(stack) = Stack::new(net, Precision::F32) else { return Some("the net is no plain stack of layers".into()) };
    cuda::shape(context.gpu(), net, &stack, hypers).err()
}

/// Whether threads can be kept on cores of their own on this operating system.
pub fn pins_threads() -> bool {
    crate::os::PINS_THREADS
}

/// Rows of individuals that go through shared weights at once.
const BATCH: usize = 64;

/// Accounts that a thread steps at once where each individual has weights of its own: a few groups of lanes, so that
/// one does not wait for itself, and the bars of a step are put into lanes once for all of them.
const ABREAST: usize = 32;

/// Operations of a generation that is timed for its pace: a fraction of a second of two cores. Steps of its spans at
/// least.
const BRIEF: f64 = 2e10;
const STEPS_LEAST: u32 = 64;

/// What a row of a validation costs, in steps of an individual, about: it goes through a net of any shape.
const ROW_COST: u64 = 3;
/// The same where individuals trade on a card: validations are walked on the processor, and while a row is, a full card
/// takes so many steps.
const ROW_COST_ON_CARD: u64 = 200;
/// Validations of a training at least, unless it has fewer generations.
const FEWEST_VALIDATIONS: u32 = 4;

/// A way of searching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// [`OpenAi`].
    OpenAi,
    /// [`SepCma`].
    SepCma,
    /// [`Separable::snes`].
    Snes,
    /// [`Separable::cem`].
    Cem,
}

impl Algorithm {
    /// Individuals of a draw.
    fn sides(self) -> usize {
        match self {
            Algorithm::OpenAi => 2,
            Algorithm::SepCma | Algorithm::Snes | Algorithm::Cem => 1,
        }
    }
}

/// What evolution asks of a config beside net, recipe and rate; of the recipe it uses seed, optimiser and schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hypers {
    /// How the distribution moves.
    pub algorithm: Algorithm,
    /// Individuals of a generation.
    pub population: u32,
    /// The deviation of individuals at first.
    pub sigma: f32,
    /// The rank of what individuals differ by, of [`Algorithm::OpenAi`]; 0: all weights are drawn.
    pub rank: u32,
    /// Accounts of an individual.
    pub n_envs: u32,
    /// Steps of each account.
    pub n_steps: u32,
    /// What an action is.
    pub actions: Actions,
    /// What individuals are ranked by.
    pub fitness: Fitness,
}

impl Hypers {
    /// Steps of all accounts of all individuals in a generation.
    pub fn steps(&self) -> u64 {
        u64::from(self.population) * u64::from(self.n_envs) * u64::from(self.n_steps)
    }

    fn draws(&self) -> u32 {
        self.population / self.algorithm.sides() as u32
    }

    /// Draws that a thread takes at once: so many individuals as were set; else, as long as all threads have some, as
    /// many as make a batch of the product that individuals have in common, or as many accounts as a thread steps at
    /// once where they have none. No bit depends on it.
    fn draws_of_task(&self, threads: usize, set: Option<u32>) -> usize {
        let (draws, sides) = (self.draws() as usize, self.algorithm.sides());
        if let Some(individuals) = set {
            return (individuals as usize / sides).clamp(1, draws);
        }
        let (rows, shares) = (sides * self.n_envs as usize, 4 * threads.max(1));
        let most = if self.rank == 0 { ABREAST } else { BATCH };
        (most / rows).min(draws / shares).max(1)
    }

    /// How draws are factors of what individuals of a net differ by; none where they are all of it.
    fn factors(&self, stack: &Stack) -> Option<Factors> {
        (self.rank > 0).then(|| Factors::new(&stack.shapes(), self.rank as usize))
    }

    /// Normals of a draw.
    fn numbers(&self, stack: &Stack) -> usize {
        match self.rank {
            0 => stack.parameters,
            rank => Factors::count(&stack.shapes(), rank as usize),
        }
    }
}

/// How policies evolve.
pub type Spec = PolicySpec<Hypers>;

/// Evolved policies of a problem: the [`Learner`].
#[derive(Clone)]
pub struct Evolve {
    spec: Spec,
    folds: Arc<Folds>,
    /// `[configs]` their nets as individuals run them.
    stacks: Vec<Arc<Stack>>,
    speed: Speed,
    stop: Arc<AtomicBool>,
}

/// How threads of the processor go through a generation. No bit depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Speed {
    /// Individuals that a thread takes at once; none goes by a rule.
    pub at_once: Option<u32>,
    /// Whether each thread stays on a core of its own.
    pub pinned: bool,
    /// Threads where a card was opened and individuals trade on the processor, and of validations beside a card; none
    /// takes those of the machine. A processor that was opened has its own number.
    pub threads: Option<usize>,
}

impl Evolve {
    /// Policies of these folds, whose samples are steps; `data` has a row for each id of the problem. What cannot be
    /// trained is refused.
    pub fn new(problem: &Arc<Problem>, data: &Arc<EpisodeData>, folds: &[Fold], spec: Spec) -> Result<Evolve> {
        let stack = |(config, hypers)| fitting(problem, config, hypers).map(Arc::new);
        let stacks = spec.each().map(stack).collect::<Result<_>>()?;
        let folds = Arc::new(Folds::new(problem, data, folds)?);
        Ok(Evolve { spec, folds, stacks, speed: Speed::default(), stop: Arc::default() })
    }

    /// The same at another speed.
    pub fn at_speed(self, speed: Speed) -> Evolve {
        Evolve { speed, ..self }
    }

    /// The same with a flag that ends a generation of the processor before all individuals have traded: members stay
    /// where they were before it. Whoever sets it must not go on training.
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Evolve {
        Evolve { stop, ..self }
    }

    /// Threads of the processor beside a device.
    fn threads(&self, device: &Opened) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, |n| n.get());
        match device {
            Opened::Cpu { threads } => *threads,
            Opened::Cuda(_) => self.speed.threads.unwrap_or_else(all),
        }
        .max(1)
    }

    /// The distribution that a member begins with.
    fn begin_search(&self, key: MemberKey) -> compute::Result<Box<dyn Strategy>> {
        let (config, hypers) = (&self.spec.configs[key.config], &self.spec.hypers[key.config]);
        // Small steps at first, from a policy that prefers nothing.
        let starts = [
            (String::new(), Start::Orthogonal(std::f32::consts::SQRT_2)),
            (format!("head.{}", config.net.heads[0].name), Start::Orthogonal(0.01)),
        ];
        let row = init_by(&Layout::new(&config.net)?, config.recipe.seed, key.id(), &starts)?;
        let mean = self.stacks[key.config].gather(&row);
        Ok(match hypers.algorithm {
            Algorithm::OpenAi if hypers.rank > 0 => {
                let layers = self.stacks[key.config].shapes();
                Box::new(LowRank::new(mean, &layers, hypers.rank as usize, hypers.sigma, config.recipe.optimiser))
            }
            Algorithm::OpenAi => Box::new(OpenAi::new(mean, hypers.sigma, config.recipe.optimiser)),
            Algorithm::SepCma => Box::new(SepCma::new(mean, hypers.sigma, hypers.population as usize)),
            Algorithm::Snes => Box::new(Separable::snes(mean, hypers.sigma, hypers.population as usize)),
            Algorithm::Cem => Box::new(Separable::cem(mean, hypers.sigma, hypers.population as usize)),
        })
    }

    /// The learning rate of a generation, from 0.
    fn rate(&self, config: usize, generation: u32) -> f64 {
        let (Config { rate, recipe, .. }, generations) = (&self.spec.configs[config], self.spec.units[config]);
        f64::from(*rate) * recipe.schedule.factor(generation + 1, generations)
    }

    /// Generations between two validations on a device.
    fn validate_every(&self, device: &Opened, config: usize) -> u32 {
        let on_card = matches!(device, Opened::Cuda(context) if cuda::fits(context, self, config).is_some());
        generations_between(on_card, self.folds.walked(), &self.spec.hypers[config], self.units(config))
    }
}

/// Generations between two validations of so many rows: at most a twentieth of the time goes into them, by what is
/// computed and by no clock, so that the same run is validated after the same generations. A card counts as full, as it
/// is with many members. Trainings that are too short for that have [`FEWEST_VALIDATIONS`].
fn generations_between(on_card: bool, rows: u64, hypers: &Hypers, generations: u32) -> u32 {
    let walk = rows * if on_card { ROW_COST_ON_CARD } else { ROW_COST };
    validate_every(generations, 20 * walk, hypers.steps()).min((generations / FEWEST_VALIDATIONS).max(1))
}

/// What an individual's weights are laid for; those that individuals share are f32 on a processor.
fn precision_of(config: &Config, hypers: &Hypers) -> Precision {
    if hypers.rank == 0 { config.recipe.precision } else { Precision::F32 }
}

/// A config's net as individuals run it, where it fits.
fn fitting(problem: &Problem, config: &Config, hypers: &Hypers) -> Result<Stack> {
    let bad = |what: String, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy.to_string()));
    let net = &config.net;
    let outputs = [hypers.actions.outputs()];
    check_net(problem, net, &outputs, "an evolved policy", "change <train.net>, as in 64t-64t")?;
    let Ok(stack) = Stack::new(net, precision_of(config, hypers)) else {
        let what = format!("the net `{net}` is no plain stack of layers, and evolution has no other");
        return bad(what, "change <train.net>, as in 64t-64t");
    };
    let sides = hypers.algorithm.sides() as u32;
    if hypers.population < 2 * sides || !hypers.population.is_multiple_of(sides) {
        let what = format!("a population of {} is too small, or odd where draws are mirrored", hypers.population);
        return bad(what, "give <evolve.population=64>, an even number");
    }
    if hypers.rank > 0 && hypers.algorithm != Algorithm::OpenAi {
        return bad(
            "only openai has a form of low rank".into(),
            "leave <evolve.rank> out, or choose <evolve.algorithm=openai>",
        );
    }
    let numbers = u64::from(hypers.draws()) * hypers.numbers(&stack).div_ceil(4) as u64;
    if numbers > u64::from(u32::MAX) {
        let what =
            format!("{} individuals of {} parameters are more than can be drawn", hypers.population, stack.parameters);
        return bad(what, "use a smaller <evolve.population> or net");
    }
    Ok(stack)
}

impl Learner for Evolve {
    fn unit(&self) -> &'static str {
        "generation"
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
        self.spec.alike(config, |own| (own.algorithm, own.rank, own.n_envs, own.n_steps, own.population, own.actions))
    }

    fn with(&self, configs: Vec<Config>, generations: u32) -> Box<dyn Learner> {
        let mut spec = self.spec.with(configs, generations);
        // The batch of a recipe is the population.
        let populations = spec.configs.iter().map(|config| config.recipe.batch as u32);
        spec.hypers.iter_mut().zip(populations).for_each(|(own, population)| own.population = population);
        let stack = |(config, hypers): (&Config, &Hypers)| {
            let made = Stack::new(&config.net, precision_of(config, hypers));
            made.map_or_else(|_| Arc::clone(&self.stacks[0]), Arc::new)
        };
        let stacks = spec.each().map(stack).collect();
        Box::new(Evolve { spec, stacks, ..self.clone() })
    }

    /// Fewer individuals, then fewer accounts and shorter spans, so that all members take [`BRIEF`] operations in a
    /// generation.
    fn brief(&self, device: &Opened, members: &[MemberKey]) -> Option<Box<dyn Learner>> {
        let kind = self.group_config(members);
        // A card is as fast as it is full, and takes generations in a moment.
        if matches!(device, Opened::Cuda(context) if cuda::fits(context, self, kind).is_some()) {
            return None;
        }
        let steps: u64 = members.iter().map(|key| self.samples(*key)).sum();
        let operations = 2.0 * self.stacks[kind].parameters as f64 * steps as f64;
        if operations <= BRIEF {
            return None;
        }
        let (hypers, mut share) = (self.spec.hypers[kind], BRIEF / operations);
        let mut shrink = |n: u32, least: u32| {
            let fewer = ((f64::from(n) * share) as u32).clamp(least.min(n), n);
            share *= f64::from(n) / f64::from(fewer);
            fewer
        };
        // All threads have individuals enough, in whole draws.
        let tasks = 8 * self.threads(device).div_ceil(members.len().max(1)) as u32;
        let population = shrink(hypers.population, tasks.max(4)) / 2 * 2;
        let n_envs = shrink(hypers.n_envs, ABREAST as u32);
        let n_steps = shrink(hypers.n_steps, STEPS_LEAST);
        let mut brief = self.clone();
        let is_alike: Vec<bool> = (0..self.spec.configs.len()).map(|config| self.alike(config) == kind).collect();
        for config in (0..is_alike.len()).filter(|config| is_alike[*config]) {
            let own = &mut brief.spec.hypers[config];
            let was = own.steps();
            *own = Hypers { population, n_envs, n_steps, ..*own };
            // As many steps as before.
            let units = u64::from(self.spec.units[config]) * was.div_ceil(own.steps().max(1));
            brief.spec.units[config] = units.min(u64::from(u32::MAX)) as u32;
            brief.spec.configs[config].recipe.batch = population as usize;
        }
        Some(Box::new(brief))
    }

    fn samples(&self, member: MemberKey) -> u64 {
        span::mean_steps(&self.spec.hypers[member.config], &self.folds.train[member.fold]).round() as u64
    }

    fn needs(&self, device: &Opened, members: &[MemberKey], _: Pace) -> compute::Result<u64> {
        let kind = self.group_config(members);
        if let Opened::Cuda(context) = device
            && let Some(shape) = cuda::fits(context, self, kind)
        {
            return Ok(cuda::need(self, kind, members.len(), &shape));
        }
        let (stack, hypers) = (&self.stacks[kind], &self.spec.hypers[kind]);
        let threads = self.threads(device);
        let workers = threads as u64 * Worker::bytes(stack, hypers, hypers.draws_of_task(threads, self.speed.at_once));
        let shared = hypers.factors(stack).map_or(0, |own| 64 * own.base_lines + 256 * hypers.numbers(stack));
        let (accounts, steps) = (hypers.n_envs as usize, hypers.n_steps as usize);
        // A distribution has at most five arrays, and a few more while it moves.
        let normals = strategy::Drawn::bytes(hypers.draws() as usize, hypers.numbers(stack));
        let member = (4 * 8 * stack.parameters + shared + normals) as u64
            + Views::bytes(stack, accounts, steps, hypers.rank > 0)
            + 16 * u64::from(hypers.population)
            + 8 * u64::from(hypers.n_envs);
        Ok(workers + members.len() as u64 * member)
    }

    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        _: Pace,
        _: &Pins,
    ) -> compute::Result<Box<dyn Training>> {
        Ok(Box::new(EvolveTraining::new(self, at, tables, members)?))
    }

    fn read_snapshot(&self, bytes: &[u8]) -> compute::Result<Snapshot> {
        training::read_snapshot(self, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Validations take at most a twentieth of what generations cost, where the training is long enough for that: on a
    /// card there are fewer of them, since they are walked on the processor.
    #[test]
    fn validations_take_a_twentieth_on_every_device() {
        let (algorithm, actions, fitness) = (Algorithm::OpenAi, Actions::Discrete, Fitness::Growth);
        let (population, n_envs, n_steps) = (128, 8, 256);
        let hypers = Hypers { algorithm, population, sigma: 0.1, rank: 0, n_envs, n_steps, actions, fitness };
        for (on_card, rows, generations, expected) in [
            (false, 10_000, 191, 3),
            (true, 10_000, 191, 47),
            (true, 10_000, 20_000, 153),
            (false, 1_000_000, 20_000, 229),
            (true, 1_000_000, 20_000, 5_000),
            (true, 64, 10_000, 40),
            (true, 10_000, 3, 1),
        ] {
            let every = generations_between(on_card, rows, &hypers, generations);
            assert_eq!(every, expected, "on a card {on_card}: {rows} rows, {generations} generations");
            let walk = rows * if on_card { ROW_COST_ON_CARD } else { ROW_COST };
            let is_short = u64::from(generations) * hypers.steps() < 80 * walk;
            assert!(is_short || 20 * walk <= u64::from(every) * hypers.steps(), "{rows} rows take more");
        }
    }
}
