//! `tune`: which batch, precision, threads and members at once suit a workload on this machine, without training it.
//!
//! For policies it is environments, steps and minibatch (`capacity.rs`), for evolved ones population and accounts
//! (`evolve.rs`), for those that search roots and simulations (`search.rs`).
//!
//! It reads as `train` does, looks at the gradient noise scale of this net on these data, times real steps of the real
//! net, and keeps what it chose at home, where `train` finds it. Batch and precision are recipe: they change bits, so a
//! run takes them from here or from a fixed rule and writes down which. Threads and members at once are pace and change
//! none.

mod bench;
mod capacity;
mod evolve;
mod saved;
mod search;
mod table;

pub use capacity::{Capacity, CapacityRow};
pub use saved::TunedRecipe;
pub(crate) use saved::{Tuned, find, is_open};
pub use search::{SearchCapacity, SearchCapacityRow};
pub use table::{TuneOther, TuneRow};

use crate::progress::{Sink, check_stop};
use crate::train::{load, memory_budget, open, parameters, split};
use crate::{LearnerKind, Select, Settings};
use bench::{Bench, Found};
use compute::Device;
use files::Result;
use learn::{DeviceBudget, Noise, Plan};
use machine::{SystemClock, TimingLimits, Tuner, machine_key, start_settings_here};
use serde::Serialize;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What to tune for; how is in the settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Tune {
    /// What to read.
    pub select: Select,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
    /// About so long at most, reading apart; none is 20 s, and 2 minutes for policies.
    pub budget: Option<Duration>,
}

/// Where nobody says how long: for batches, and for policies, which are trained on the way.
const BUDGETS: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(120)];

/// What was seen and chosen.
#[derive(Debug, Clone, Serialize)]
pub struct TuneRun {
    /// What was read.
    pub data: String,
    /// By name.
    pub learner: LearnerKind,
    /// As text.
    pub net: String,
    /// Of one member.
    pub parameters: u64,
    /// Rows that can be learned from.
    pub samples: u64,
    /// Of them, those that the smallest fold trains on.
    pub smallest_fold: u64,
    /// In words.
    pub device: String,
    /// Bytes that may be taken there.
    pub budget_bytes: u64,
    /// Which starting point the tuner began at.
    pub start: String,
    /// How gradients scatter; null for a learner that has none.
    pub noise: Option<Noise>,
    /// The noise scale in rows; null where the gradient cannot be told from nothing.
    pub noise_scale: Option<f64>,
    /// What the noise scale is at least; null where nothing can be said.
    pub noise_scale_at_least: Option<f64>,
    /// One for each batch; none of policies.
    pub rows: Vec<TuneRow>,
    /// Environments, steps and minibatches of policies; null for other learners.
    pub capacity: Option<Capacity>,
    /// Roots and simulations of policies that search; null for other learners.
    pub search: Option<SearchCapacity>,
    /// Precision, threads and members at once, where there was a choice.
    pub others: Vec<TuneOther>,
    /// What later runs take.
    pub chosen: TunedRecipe,
    /// The learning rate that goes with the batch.
    pub rate: f64,
    /// Where that comes from.
    pub rate_rule: &'static str,
    /// The batch that runs take where nothing was tuned.
    pub rule_batch: usize,
    /// The environments and steps that runs take then; null for learners without environments.
    pub rule_shape: Option<[usize; 2]>,
    /// The roots and simulations that runs take then; null for learners that do not search.
    pub rule_search: Option<[usize; 2]>,
    /// Why this batch, or these environments, in a sentence.
    pub why: String,
    /// The file it is kept in.
    pub file: String,
    /// When, RFC 3339 UTC.
    pub tuned_at: String,
    /// Without reading.
    pub seconds: f64,
    /// Notes.
    pub notes: Vec<String>,
}

impl TuneRun {
    /// The learning rate, in a sentence.
    pub fn rate_words(&self) -> String {
        format!("the learning rate with it is {:.2e}: {}", self.rate, self.rate_rule)
    }
}

/// Whether policies are evolved by a search, not trained by gradients.
pub(crate) fn is_searched(settings: &Settings) -> bool {
    settings.train.learner.name() == "evolve" && matches!(settings.evolve.algorithm, crate::EvolveAlgorithm::Search(_))
}

/// Tunes, and keeps what it chose.
pub fn tune(request: &Tune, settings: &Settings, sink: Sink<'_>) -> Result<TuneRun> {
    let mut settings = settings.clone();
    let mut notes = Vec::new();
    if !settings.train.candidates.is_empty() {
        let (words, first) = settings.configs().swap_remove(0);
        notes.push(format!("of the configs to try, the first is tuned: {words}"));
        settings = first;
    }
    let kind = settings.train.learner.kind();
    if let Some(batch) = kind.batch(&mut settings).take() {
        let (key, what) = match is_searched(&settings) {
            true => ("evolve.population", "population"),
            false => ("train.batch", "batch"),
        };
        notes.push(format!("{key} = {batch} of the settings is ignored: tuning chooses the {what}"));
    }
    let mut is_policy = false;
    if let Some(rollout) = kind.rollout(&mut settings) {
        is_policy = true;
        for (name, own) in [("n_envs", rollout.n_envs), ("n_steps", rollout.n_steps)] {
            notes.extend(own.take().map(|n| format!("ppo.{name} = {n} of the settings is ignored: tuning chooses it")));
        }
    }
    let mut searches = false;
    for (key, own) in kind.searching(&mut settings).into_iter().flatten() {
        searches = true;
        notes.extend(own.take().map(|n| format!("{key} = {n} of the settings is ignored: tuning chooses it")));
    }
    let budget = request.budget.unwrap_or(BUDGETS[usize::from(is_policy || searches)]);
    let source = load(&request.select, None, &settings, sink)?;
    notes.extend(source.notes.iter().cloned());
    let (device, device_words) = open(&request.device, &settings)?;
    let splits = split(&source, &settings)?;
    let mut by_rule = settings.clone();
    kind.fill_in(&mut by_rule, &source, &device);
    let fitted = kind.fit(&mut by_rule, &source, &splits)?;
    notes.extend(match is_searched(&settings) {
        // Notes on the population of the rule are left out: the tuner chooses another.
        true => {
            let mut chosen = settings.clone();
            *kind.batch(&mut chosen) = *kind.batch(&mut by_rule);
            kind.fit(&mut chosen, &source, &splits)?
        }
        false => fitted,
    });
    let learner = kind.learner(&source, &splits, &by_rule, &device)?;
    let smallest_fold = splits.folds.iter().map(|fold| fold.train.len()).min().unwrap_or(0);
    let at = DeviceBudget { budget: memory_budget(&settings, &device), device };
    let plan = Plan::new(&*learner, &at)?;
    let machine = machine_key();
    let card = match at.device.device() {
        Device::Cpu { .. } => None,
        Device::Cuda { index } => Some(index),
    };
    let mut bench = Bench {
        settings: &settings,
        plan,
        learner,
        smallest_fold,
        at,
        start: start_settings_here(card),
        began: Instant::now(),
        most: budget,
    };

    // Nothing was tuned or set, so the batch is that of the rule.
    let rule_batch = bench.config().recipe.batch;
    let clock = SystemClock::default();
    let bytes = bench.at.bytes(bench.learner.problem())?;
    let tuner = Tuner {
        memory: None,
        machine: machine.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        budget: bytes,
        fresh: true,
        limits: TimingLimits {
            warm_ups: 1,
            min_repeats: 5,
            max_time: (budget / 60).clamp(Duration::from_millis(20), Duration::from_millis(500)),
            ..TimingLimits::default()
        },
        clock: &clock,
    };
    let found = match is_policy {
        _ if searches => bench.roots_and_simulations(&source, &splits, &tuner, sink)?,
        true if is_searched(&settings) => bench.generations(&source, &splits, &tuner, sink)?,
        true => bench.capacity(&source, &splits, &tuner, sink)?,
        false => bench.best_batch(&source, &tuner, &machine, &mut notes, sink)?,
    };
    check_stop()?;
    let Found { noise, rows, others, recipe, why, capacity, search, seen } = found;

    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
    let tuned = Tuned { at: files::time::rfc3339(now), recipe };
    let workload = saved::workload(&source, &settings, &bench.at.device);
    let file = saved::keep(machine, workload, &tuned, seen, &mut notes)?;
    Ok(TuneRun {
        data: source.path.display().to_string(),
        learner: settings.train.learner,
        net: source.nets[0].to_string(),
        parameters: parameters(&source.nets[0]),
        samples: source.problem.samples.len() as u64,
        smallest_fold: smallest_fold as u64,
        device: device_words,
        budget_bytes: bytes,
        start: bench.start.source.clone(),
        noise,
        noise_scale: noise.as_ref().and_then(Noise::scale),
        noise_scale_at_least: noise.as_ref().and_then(Noise::at_least),
        why,
        rows,
        capacity,
        search,
        others,
        chosen: tuned.recipe,
        rate: f64::from(bench.config().rate),
        rate_rule: kind.rate_rule(&settings),
        rule_batch,
        rule_shape: kind.rollout(&mut by_rule).and_then(|r| Some([(*r.n_envs)?, (*r.n_steps)?])),
        rule_search: if searches { Some(search::rule(&by_rule)) } else { None },
        file: file.display().to_string(),
        tuned_at: tuned.at,
        seconds: bench.began.elapsed().as_secs_f64(),
        notes,
    })
}
