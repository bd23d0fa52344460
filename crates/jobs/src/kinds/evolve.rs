//! `evolve`: policies whose weights are searched for by generations of individuals, on accounts that trade the training
//! part of a fold; or populations of policies that learn by gradients ([`super::pbt`]). How they are validated, judged,
//! deployed and kept is as for `ppo`.

mod shape;

pub(crate) use shape::{ACCOUNTS, GENERATIONS, STEPS};

use super::policies::{
    episodes, net, open, pace_figures, policy_info, refuse_an_unused_weight, refuse_searching,
    refuse_what_is_not_a_policys, spec, tested, trading_data, units, usage,
};
use super::ppo::PpoKind;
use super::{Evaluation, Figure, Kind, KindInfo, MoreFigure, RolloutSettings, Validated, pbt};
use crate::progress::stop_flag;
use crate::train::{Answer, Experiment, ModelRows, Source};
use crate::{EvolveAlgorithm, EvolveSettings, PpoSettings, RewardKind, Settings};
use compute::Opened;
use compute::population::{Precision, Recipe, Schedule};
use features::Input;
use files::{Result, format_count, format_plural};
use judge::split::Splits;
use learn::evolve::{Algorithm, Evolve, Fitness, Hypers, Speed, TrainStretches, has_kernels, missing_kernels};
use learn::{Config, Learner, Trained};
use serde_json::{Value, json};
use shape::{GenerationShape, Open};

pub(super) struct EvolveKind;

const FIGURES: &[Figure] = &[
    Figure { name: "mean_fitness", tag: "rollout/mean_fitness", label: Some("mean fitness") },
    Figure { name: "best_fitness", tag: "rollout/best_fitness", label: Some("best fitness") },
    Figure { name: "valid_growth", tag: "eval/growth_mean", label: Some("validation") },
    Figure { name: "valid_error", tag: "eval/standard_error", label: None },
    Figure { name: "sigma", tag: "train/sigma", label: None },
    Figure { name: "moved", tag: "train/step_length", label: None },
    Figure { name: "learning_rate", tag: "train/learning_rate", label: None },
];

/// Steps of all accounts of all individuals where nothing was set: seconds of two cores for a member.
const TIMESTEPS: usize = 50_000_000;

fn timesteps(settings: &Settings) -> usize {
    settings.ppo.timesteps.unwrap_or(TIMESTEPS)
}

/// How a search moves.
fn algorithm(settings: &Settings) -> Algorithm {
    match settings.evolve.algorithm {
        EvolveAlgorithm::Search(algorithm) => algorithm,
        EvolveAlgorithm::Pbt => unreachable!("a population of policies is no search"),
    }
}

/// Weights up to which an individual's are drawn one by one: so many stay in the fast memory of a core.
const DENSE: u64 = 32_768;

/// The rank of what individuals of a net differ by, where none was set.
fn rank(settings: &Settings, net: &compute::Net) -> u32 {
    let is_wide = algorithm(settings) == Algorithm::OpenAi && crate::train::parameters(net) > DENSE;
    settings.evolve.rank.map_or(u32::from(is_wide), |rank| rank as u32)
}

/// Of a config; its rank goes by the net where none was set.
fn hypers_of(settings: &Settings, net: &compute::Net) -> Hypers {
    Hypers { rank: rank(settings, net), ..hypers(settings) }
}

fn hypers(settings: &Settings) -> Hypers {
    let (shared, own) = (&settings.ppo, &settings.evolve);
    let GenerationShape { population, n_envs, n_steps } = GenerationShape::of(settings);
    Hypers {
        algorithm: algorithm(settings),
        population: population as u32,
        sigma: own.sigma.unwrap_or(0.05) as f32,
        rank: own.rank.unwrap_or(0) as u32,
        n_envs: n_envs as u32,
        n_steps: n_steps as u32,
        actions: shared.actions,
        fitness: match shared.reward {
            RewardKind::Growth => Fitness::Growth,
            RewardKind::Drawdown => Fitness::Drawdown(shared.drawdown_weight as f32),
            RewardKind::Sharpe => Fitness::Sharpe,
        },
    }
}

fn config(settings: &Settings, net: &compute::Net, device: &Opened) -> Result<Config> {
    let (own, asked) = (hypers_of(settings, net), settings.train.precision);
    let batch = own.population as usize;
    let on_card = has_kernels(device, net, &own);
    let precision = asked.unwrap_or(if on_card { Precision::Bf16 } else { Precision::F32 });
    if precision == Precision::Tf32 {
        let what = "individuals compute in f32 or in bf16";
        return Err(usage(what, "choose <train.precision=f32> or bf16"));
    }
    if precision == Precision::Bf16 && !on_card && own.rank > 0 {
        let what = "individuals of low rank compute in f32 on a processor, and in bf16 on a Hopper GPU where the net has \
                    two layers of at most 256 and the rank is at most 8";
        return Err(usage(what, "leave <train.precision> out, or set <evolve.rank=0>"));
    }
    let mut recipe = Recipe::new(batch, precision, settings.general.seed);
    (recipe.optimiser.decay, recipe.optimiser.clip) = (settings.evolve.decay as f32, None);
    recipe.schedule = Schedule { shape: settings.ppo.schedule, ..recipe.schedule };
    Ok(Config { net: net.clone(), recipe, rate: EvolveKind.rate(settings, batch) })
}

/// That individuals trade on the processor although a card was opened, and why, where they do; `missing` is why there
/// are no kernels.
fn beside_card(card: &str, settings: &Settings, missing: impl FnOnce() -> Option<String>) -> Option<String> {
    let in_f32 = (settings.train.precision == Some(Precision::F32))
        .then(|| "they compute in f32, as <train.precision=f32> says, and kernels in bf16".to_string());
    let why = missing().or(in_f32);
    why.map(|why| {
        format!(
            "individuals trade on the processor with {}, not on {card}: {why}. Whole generations run on an NVIDIA GPU in \
             bf16 where the net reads one table of at most 120 features and has two layers of at most 64, or on a Hopper \
             GPU of at most 256 with an <evolve.rank> of 1 to 8 (at most 72 features where one is wider than 128)",
            format_plural(settings.threads() as u64, "thread")
        )
    })
}

/// Steps of a generation, in the mean.
fn steps(settings: &Settings) -> u64 {
    GenerationShape::of(settings).steps(settings)
}

fn generations(settings: &Settings) -> u32 {
    units(settings, timesteps(settings), steps(settings))
}

/// Refuses a generation that is longer than a whole training.
fn refuse_one_generation(settings: &Settings) -> Result<()> {
    let (steps, all) = (steps(settings), timesteps(settings) as u64);
    if steps <= all {
        return Ok(());
    }
    let what = format!(
        "one generation takes {} steps, more than the {} of ppo.timesteps",
        format_count(steps),
        format_count(all)
    );
    Err(usage(what, "give more <ppo.timesteps>, or a smaller <evolve.population>, <ppo.n_envs> or <ppo.n_steps>"))
}

/// An error where something was set that other learners alone go by.
fn refuse_what_is_not_ours(settings: &Settings) -> Result<()> {
    let (own, usual) = (&settings.evolve, EvolveSettings::default());
    let has_rate = settings.classify.rate.is_some() || own.decay != usual.decay || own.rank.is_some();
    if algorithm(settings) != Algorithm::OpenAi && has_rate {
        let what = "a learning rate, weight decay and a rank are of openai; other searches find their own steps";
        let remedy = "leave <train.rate>, <evolve.decay> and <evolve.rank> out, or choose <evolve.algorithm=openai>";
        return Err(usage(what, remedy));
    }
    if algorithm(settings) != Algorithm::OpenAi && settings.ppo.schedule != PpoSettings::default().schedule {
        let what = "ppo.schedule is of a learning rate, which openai alone has; other searches find their own steps";
        return Err(usage(what, "leave <ppo.schedule> out, or choose <evolve.algorithm=openai>"));
    }
    if own.exploit_every.is_some() {
        let what = "evolve.exploit_every is of population-based training";
        return Err(usage(what, "leave <evolve.exploit_every> out, or choose <evolve.algorithm=pbt>"));
    }
    if settings.classify.batch.is_some() {
        return Err(usage("individuals are a population, not a batch", "give <evolve.population>"));
    }
    refuse_searching(settings)?;
    refuse_what_is_not_a_policys(settings)?;
    let PpoSettings { timesteps, n_envs, n_steps, reward, drawdown_weight, actions, schedule, .. } =
        settings.ppo.clone();
    let ours = PpoSettings {
        timesteps,
        n_envs,
        n_steps,
        reward,
        drawdown_weight,
        actions,
        schedule,
        ..PpoSettings::default()
    };
    if settings.ppo != ours {
        let what = "of `ppo.` evolution goes by timesteps, n_envs, n_steps, reward, drawdown_weight, actions and \
                    schedule alone";
        return Err(usage(what, "choose <train.learner=ppo>, or leave the others out"));
    }
    Ok(())
}

impl Kind for EvolveKind {
    fn info(&self) -> KindInfo {
        policy_info("evolve")
    }

    /// The set net is the layers, `64t-64t` or `64,64`, or a whole net.
    fn net(&self, settings: &Settings, inputs: &[Input], classes: usize) -> String {
        if pbt::is_pbt(settings) {
            return PpoKind.net(settings, inputs, classes);
        }
        net(settings, inputs, |layers, outputs| format!("{layers} / policy:{outputs}"))
    }

    fn learner(
        &self,
        source: &Source,
        splits: &Splits,
        settings: &Settings,
        device: &Opened,
    ) -> Result<Box<dyn Learner>> {
        let all = settings.configs();
        if all.iter().any(|(_, own)| pbt::is_pbt(own)) {
            return pbt::learner(source, splits, settings, device);
        }
        let data = trading_data(source, splits)?;
        all.iter().try_for_each(|(_, own)| refuse_what_is_not_ours(own))?;
        refuse_an_unused_weight(all.iter().map(|(_, own)| own))?;
        let each = || all.iter().map(|(_, own)| own).zip(&source.nets);
        let configs = each().map(|(own, net)| config(own, net, device)).collect::<Result<_>>()?;
        let hypers = each().map(|(own, net)| hypers_of(own, net)).collect();
        let spec = spec(settings, configs, hypers, each().map(|(own, _)| generations(own)).collect());
        let own = &settings.evolve;
        let (at_once, threads) = (own.at_once.map(|n| n as u32), Some(settings.threads()));
        let speed = Speed { at_once, pinned: own.pinned, threads };
        let evolve = Evolve::new(&source.problem, &episodes(data, settings)?, &splits.folds, spec)?;
        Ok(Box::new(evolve.at_speed(speed).stopped_by(stop_flag())))
    }

    fn fill_in(&self, settings: &mut Settings, source: &Source, device: &Opened) {
        if pbt::is_pbt(settings) {
            pbt::fill_in(settings, source, device);
        }
    }

    fn fit(&self, settings: &mut Settings, source: &Source, splits: &Splits) -> Result<Vec<String>> {
        if pbt::is_pbt(settings) {
            return Ok(pbt::notes(settings));
        }
        settings.stretches = Some(TrainStretches::new(&source.problem, &splits.folds));
        let mut notes: Vec<String> = Vec::new();
        for (_, own) in settings.configs() {
            refuse_one_generation(&own)?;
            let more = GenerationShape::notes(&own);
            notes.extend(more.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>());
        }
        // Configs that try several each go by the rule.
        if !["evolve.population", "ppo.n_envs", "ppo.n_steps"].iter().any(|key| settings.has_candidates(key)) {
            let used = GenerationShape::of(settings);
            used.write(settings);
        }
        Ok(notes)
    }

    fn fit_units(&self, settings: &mut Settings, units: usize) -> (usize, Option<String>) {
        if pbt::is_pbt(settings) { (units, None) } else { shape::fit_units(settings, units) }
    }

    fn device_notes(&self, settings: &Settings, source: &Source, device: &Opened) -> Vec<String> {
        let Opened::Cuda(context) = device else { return Vec::new() };
        if pbt::is_pbt(settings) {
            return Vec::new();
        }
        let card = format!("{} ({})", context.device(), context.gpu().name);
        let mut notes: Vec<String> = Vec::new();
        for ((_, own), net) in settings.configs().iter().zip(&source.nets) {
            let missing = || missing_kernels(device, net, &hypers_of(own, net));
            notes.extend(beside_card(&card, own, missing).filter(|note| !notes.contains(note)));
        }
        notes
    }

    fn fit_tuned(&self, settings: &mut Settings) -> Option<String> {
        if pbt::is_pbt(settings) {
            return pbt::fit_tuned(settings);
        }
        let tuned = GenerationShape::of(settings);
        let fitted = tuned.fit(timesteps(settings), Open { n_envs: true, n_steps: true });
        fitted.write(settings);
        fitted.fewer(tuned, settings)
    }

    fn tuned_for(&self, settings: &Settings, net: &compute::Net) -> Value {
        let rank = if pbt::is_pbt(settings) { 0 } else { rank(settings, net) };
        json!({"algorithm": settings.evolve.algorithm.name(), "rank": rank})
    }

    fn rollout<'s>(&self, settings: &'s mut Settings) -> Option<RolloutSettings<'s>> {
        if !pbt::is_pbt(settings) {
            let timesteps = timesteps(settings);
            let PpoSettings { n_envs, n_steps, .. } = &mut settings.ppo;
            return Some(RolloutSettings { n_envs, n_steps, timesteps });
        }
        let timesteps = PpoKind.rollout(&mut pbt::individual(settings))?.timesteps;
        PpoKind.rollout(settings).map(|own| RolloutSettings { timesteps, ..own })
    }

    fn identity(&self, settings: &Settings) -> String {
        if pbt::is_pbt(settings) {
            return pbt::identity(settings);
        }
        // A rank that was not set follows from the net.
        let rank = settings.evolve.rank;
        format!("{:?}{rank:?}{}{}", hypers(settings), generations(settings), settings.account.identity())
    }

    fn batch<'s>(&self, settings: &'s mut Settings) -> &'s mut Option<usize> {
        if pbt::is_pbt(settings) {
            return PpoKind.batch(settings);
        }
        &mut settings.evolve.population
    }

    fn rate(&self, settings: &Settings, batch: usize) -> f32 {
        if pbt::is_pbt(settings) {
            return PpoKind.rate(settings, batch);
        }
        settings.classify.rate.unwrap_or(0.02) as f32
    }

    fn rate_rule(&self, settings: &Settings) -> &'static str {
        match settings.classify.rate {
            _ if pbt::is_pbt(settings) => PpoKind.rate_rule(settings),
            Some(_) => "as set, whatever the population",
            None => "0.02, whatever the population",
        }
    }

    fn figures(&self, settings: &Settings) -> &'static [Figure] {
        if pbt::is_pbt(settings) { pbt::FIGURES } else { FIGURES }
    }

    /// How fast it goes, under the names of Stable-Baselines3 where it has one.
    fn more_figures(&self, of: &Validated<'_>, rate: f64) -> Vec<MoreFigure> {
        if pbt::is_pbt(of.settings) {
            return pbt::more_figures(of, rate);
        }
        // The rate is that of all members that train at once.
        let (name, tag) = (Some("generations_per_s"), "time/generations_per_s");
        let value = rate / (steps(of.settings).max(1) as f64 * of.members.max(1) as f64);
        let mut all = vec![MoreFigure { name, tag, value }];
        all.extend(pace_figures(of, self.event_step(of), rate));
        all
    }

    /// Steps of accounts, as Stable-Baselines3 counts.
    fn event_step(&self, of: &Validated<'_>) -> u64 {
        if pbt::is_pbt(of.settings) {
            return pbt::event_step(of);
        }
        u64::from(of.validation.unit) * steps(of.settings)
    }

    fn open(&self, asked: ModelRows<'_>) -> Result<Answer> {
        open(asked)
    }

    fn evaluate<'a>(&self, experiment: &'a Experiment, members: &'a [Trained]) -> Result<Box<dyn Evaluation + 'a>> {
        tested(experiment, members, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::{Metrics, Validation};

    /// What runs beside a card is named with its reason and its threads, and nothing is said where all runs there.
    #[test]
    fn what_trades_beside_a_card_is_said() {
        let mut settings = Settings::default();
        settings.set("threads=3").unwrap();
        let note = |settings: &Settings, missing: Option<&str>| {
            beside_card("cuda:0 (a card)", settings, || missing.map(String::from))
        };
        assert_eq!(note(&settings, None), None);
        let said = note(&settings, Some("the net has 3 hidden layers")).expect("a note");
        let start =
            "individuals trade on the processor with 3 threads, not on cuda:0 (a card): the net has 3 hidden layers.";
        assert!(said.starts_with(start) && said.contains("two layers of at most 64"), "{said}");
        settings.set("train.precision=f32").unwrap();
        let said = note(&settings, None).expect("a note");
        assert!(said.contains("<train.precision=f32>"), "{said}");
    }

    /// Units, TensorBoard's axis and the pace of a member go by the steps that accounts take.
    #[test]
    fn steps_that_nobody_takes_are_not_counted() {
        let mut settings = Settings::default();
        for set in ["evolve.population=4", "ppo.n_envs=2", "ppo.n_steps=4", "ppo.timesteps=1000"] {
            settings.set(set).unwrap();
        }
        assert_eq!((steps(&settings), generations(&settings)), (32, 32));
        // A span begins on any of 6 rows and has 4 steps, or on one row and has 2: 26 / 7 in the mean.
        settings.stretches = Some(TrainStretches::from_ranges(vec![vec![0..10, 20..23]]));
        assert_eq!((steps(&settings), generations(&settings)), (30, 34));
        let validation = Validation { unit: 10, step: 10, score: None, metrics: Metrics::new(&[]) };
        let of = Validated { settings: &settings, members: 2, shortable: true, seconds: 7.0, validation: &validation };
        assert_eq!(EvolveKind.event_step(&of), 300);
        let all = EvolveKind.more_figures(&of, 600.0);
        let value = |tag: &str| all.iter().find(|figure| figure.tag == tag).map(|figure| figure.value);
        let found = ["time/generations_per_s", "time/total_timesteps", "time/fps", "time/time_elapsed"].map(value);
        assert_eq!(found, [10.0, 300.0, 600.0, 7.0].map(Some));
    }
}
