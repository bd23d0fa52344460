//! `ppo`: policies that learn by trying, on accounts that trade the training part of a fold; selected by what they make
//! of its validation, judged by what they earn on test blocks.

mod shape;

pub(crate) use shape::UPDATES;

use super::market_models::{MarketModelRow, sentence};
use super::search::Searching;
use super::trading::{blocks, price_table};
use super::{Evaluation, Figure, Kind, Metric, MoreFigure, RolloutSettings, Validated, mlp, model};
use crate::train::{Answer, Experiment, Ids, Judged, ModelRows, RowsOfFolds, Source};
use crate::{ClassifySettings, EvolveSettings, RewardKind, SearchSettings, Settings, backtest};
use compute::Opened;
use compute::population::{Recipe, Scale, Schedule};
use features::{Dataset, FoldKind, Input, InputLayout, Span};
use files::{Error, Result, format_plural};
use judge::backtest::{
    Backtest, ChanceTest, Course, Lane, Line, Walked, decide, decide_beside, four_lines, shift_portfolio,
    shift_positions, walk,
};
use judge::evidence::{Findings, seed_spread};
use judge::ledger::StartedTrial;
use judge::performance::{TrackRecord, performance, trading_days_per_year};
use judge::split::Splits;
use learn::classify::defaults;
use learn::ppo::{Actions, Clip, Deciders, EntropyBand, FoldPolicy, Hypers, Ppo, PpoPolicy, Reward, Spec};
use learn::scale::Scaler;
use learn::{Config, Extent, Learner, Problem, Trained};
use market::{EpisodeData, OBSERVED, Policy, Targets, row_times};
use serde_json::json;
use shape::UpdateShape;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct PpoKind;

const FIGURES: &[Figure] = &[
    // In basis points a bar; `rollout/ep_rew_mean` of Stable-Baselines3 is a sum over an episode.
    Figure { name: "train_growth", tag: "rollout/growth_mean", label: Some("earned") },
    Figure { name: "valid_growth", tag: "eval/growth_mean", label: Some("validation") },
    Figure { name: "valid_error", tag: "eval/standard_error", label: None },
    // The sum of rewards of a stretch of the validation, in the mean.
    Figure { name: "valid_reward", tag: "eval/mean_reward", label: None },
    Figure { name: "entropy", tag: "train/entropy", label: Some("entropy") },
    Figure { name: "entropy_weight", tag: "train/ent_coef", label: None },
    Figure { name: "approx_kl", tag: "train/approx_kl", label: None },
    Figure { name: "clip_fraction", tag: "train/clip_fraction", label: None },
    Figure { name: "policy_loss", tag: "train/policy_gradient_loss", label: None },
    Figure { name: "value_loss", tag: "train/value_loss", label: None },
    Figure { name: "explained_variance", tag: "train/explained_variance", label: None },
    Figure { name: "norm", tag: "train/grad_norm", label: None },
    Figure { name: "learning_rate", tag: "train/learning_rate", label: None },
];

/// Growth of equity a bar, in basis points.
const GROWTH: Metric = Metric {
    name: "valid_growth",
    part: "valid",
    label: "growth",
    unit: " bp",
    decimals: 3,
    higher_is_better: true,
    worst: -1e4,
};

const METRICS: &[Metric] = &[GROWTH, Metric { name: "test_growth", part: "test", ..GROWTH }];

pub(super) fn hypers(settings: &Settings) -> Hypers {
    let (own, shape) = (&settings.ppo, UpdateShape::of(settings));
    let above_0 = |x: f64| (x > 0.0).then_some(x as f32);
    let usual = match own.actions {
        Actions::Discrete => EntropyBand { least: 0.2, most: 0.8 },
        // A policy starts at 1.42 nats, inside.
        Actions::Continuous => EntropyBand { least: -1.5, most: 1.5 },
    };
    let entropy = own.entropy.map_or(usual, |b| EntropyBand { least: b.least as f32, most: b.most as f32 });
    Hypers {
        n_envs: shape.n_envs as u32,
        n_steps: shape.n_steps as u32,
        n_epochs: own.n_epochs as u32,
        gamma: own.gamma as f32,
        gae_lambda: own.gae_lambda as f32,
        clip: Clip { policy: own.clip_range as f32, value: above_0(own.clip_range_vf) },
        normalize_advantage: own.normalize_advantage,
        vf_coef: own.vf_coef as f32,
        target_kl: above_0(own.target_kl),
        entropy,
        episode: own.episode as u32,
        actions: own.actions,
        reward: match own.reward {
            RewardKind::Growth => Reward::Growth,
            RewardKind::Drawdown => Reward::Drawdown(own.drawdown_weight as f32),
            RewardKind::Sharpe => Reward::Sharpe,
        },
    }
}

/// The config of settings; recipes of classifiers are others.
pub(super) fn config(settings: &Settings, net: &compute::Net, device: &Opened) -> Config {
    let shape = UpdateShape::of(settings);
    let batch = settings.classify.batch.unwrap_or_else(|| shape::minibatch(shape, net)).min(shape.rows());
    let usual = defaults::precision(matches!(device, Opened::Cuda(_)));
    let precision = settings.train.precision.unwrap_or(usual);
    let mut recipe = Recipe::new(batch, precision, settings.general.seed);
    let clip = Some(settings.ppo.max_grad_norm as f32).filter(|norm| *norm > 0.0);
    (recipe.optimiser.eps, recipe.optimiser.decay, recipe.optimiser.clip) = (1e-5, 0.0, clip);
    recipe.schedule = Schedule { shape: settings.ppo.schedule, ..recipe.schedule };
    Config { net: net.clone(), recipe, rate: PpoKind.rate(settings, batch) }
}

/// By the steps that were asked for; fewer where a number of epochs was set, or a time to fit into.
pub(super) fn updates(settings: &Settings) -> u32 {
    let updates = shape::timesteps(settings).div_ceil(UpdateShape::of(settings).rows()).max(1);
    let most = settings.train.epochs;
    (if most == Extent::default().units as usize { updates } else { updates.min(most) }) as u32
}

fn ppo(source: &Source, splits: &Splits, settings: &Settings, device: &Opened) -> Result<Ppo> {
    let usage = |what: &str, remedy: &str| Error::new(files::Kind::Usage, what).remedy(remedy);
    let Ids::Bars { data, .. } = &source.ids else {
        return Err(usage("policies trade, and ready arrays have no prices", "give bars"));
    };
    if splits.folds.iter().any(|fold| fold.kind == FoldKind::Around) {
        return Err(usage("policies walk forward", "leave <split.kind> out"));
    }
    let all = settings.configs();
    all.iter().try_for_each(|(_, own)| refuse_what_is_not_ours(own))?;
    let refit = settings.refit.as_ref();
    let spec = Spec {
        configs: all.iter().zip(&source.nets).map(|((_, own), net)| config(own, net, device)).collect(),
        hypers: all.iter().map(|(_, own)| hypers(own)).collect(),
        updates: all.iter().map(|(_, own)| updates(own)).collect(),
        stop_after: refit.map(|refit| refit.epochs),
        // Without validation nothing gets better.
        patience: if refit.is_some() { u32::MAX } else { settings.train.patience as u32 },
        seeds: settings.train.seeds as u32,
    };
    Ppo::new(&source.problem, &episodes(data, settings)?, &splits.folds, spec)
}

/// An error where something was set that others alone go by.
pub(super) fn refuse_what_is_not_ours(settings: &Settings) -> Result<()> {
    if settings.evolve != EvolveSettings::default() {
        let what = "`evolve.` is of policies that evolve, and `ppo` follows a gradient";
        return Err(Error::new(files::Kind::Usage, what).remedy("choose <train.learner=evolve>, or leave it out"));
    }
    refuse_searching(settings)?;
    refuse_what_is_not_a_policys(settings)
}

/// An error where something was set that searchers alone go by.
pub(super) fn refuse_searching(settings: &Settings) -> Result<()> {
    if settings.search == SearchSettings::default() {
        return Ok(());
    }
    let what = format!("`search.` is of policies that search, and `{}` does not", settings.train.learner.name());
    Err(Error::new(files::Kind::Usage, what).remedy("choose <train.learner=search>, or leave it out"))
}

/// An error where something was set that classifiers alone go by.
pub(super) fn refuse_what_is_not_a_policys(settings: &Settings) -> Result<()> {
    let usual = Settings::default();
    let ClassifySettings { net, batch, rate, .. } = settings.classify.clone();
    let ours = ClassifySettings { net, batch, rate, ..usual.classify };
    let (what, remedy) = if settings.classify != ours {
        (
            "schedule, warmup, decay, clip, smoothing, average and balance under `train.` are of classifiers",
            "<ppo.schedule> and <ppo.max_grad_norm> are those of policies",
        )
    } else if settings.labels != usual.labels {
        ("policies learn from what they earn, not from labels", "leave <label.rule> out")
    } else if settings.trading != usual.trading {
        ("`trading.` turns predictions into positions, and a policy decides by itself", "leave those settings out")
    } else {
        return Ok(());
    };
    Err(Error::new(files::Kind::Usage, what).remedy(remedy))
}

pub(super) fn episodes(data: &Dataset, settings: &Settings) -> Result<Arc<EpisodeData>> {
    let table = price_table(&data.base.market, settings)?;
    let times = row_times(&data.base.market, &table);
    Ok(Arc::new(EpisodeData::new(table, times)))
}

impl Kind for PpoKind {
    fn name(&self) -> &'static str {
        "ppo"
    }

    fn task(&self) -> &'static str {
        "trade"
    }

    fn is_labelled(&self) -> bool {
        false
    }

    fn layout(&self) -> InputLayout {
        InputLayout::Row
    }

    fn features(&self, symbols: usize) -> &'static str {
        (mlp::MLP.features)(symbols)
    }

    /// The set net is the layers of both towers, `64t-64t`, `2048,1024,512` or `lstm64,64`, or a whole net.
    fn net(&self, settings: &Settings, inputs: &[Input], _: usize) -> String {
        let layers = settings.classify.net.as_deref().unwrap_or("64t-64t");
        if layers.contains('/') {
            return layers.to_string();
        }
        let layers = layers.replace(',', "-");
        let towers = if layers.contains('|') { layers } else { format!("{layers} | {layers}") };
        let tables: Vec<String> = inputs.iter().map(|i| format!("{}:{}", i.name, i.columns.len())).collect();
        let outputs = settings.ppo.actions.outputs();
        format!("{} + account:dense{OBSERVED} / {towers} / policy:{outputs} | value:1", tables.join(" + "))
    }

    fn learner(
        &self,
        source: &Source,
        splits: &Splits,
        settings: &Settings,
        device: &Opened,
    ) -> Result<Box<dyn Learner>> {
        Ok(Box::new(ppo(source, splits, settings, device)?))
    }

    fn fill_in(&self, settings: &mut Settings, source: &Source, device: &Opened) {
        let shape = shape::rule(settings, source.problem.samples.len(), device);
        for (key, own, value) in [
            ("ppo.n_envs", &mut settings.ppo.n_envs, shape.n_envs),
            ("ppo.n_steps", &mut settings.ppo.n_steps, shape.n_steps),
        ] {
            if !settings.train.candidates.iter().any(|tried| tried.key == key) {
                own.get_or_insert(value);
            }
        }
    }

    fn rollout<'s>(&self, settings: &'s mut Settings) -> Option<RolloutSettings<'s>> {
        let (timesteps, own) = (shape::timesteps(settings), &mut settings.ppo);
        Some(RolloutSettings { n_envs: &mut own.n_envs, n_steps: &mut own.n_steps, timesteps })
    }

    fn identity(&self, settings: &Settings) -> String {
        format!("{:?}{}{}", hypers(settings), updates(settings), settings.account.identity())
    }

    fn batch<'s>(&self, settings: &'s mut Settings) -> &'s mut Option<usize> {
        &mut settings.classify.batch
    }

    fn rate(&self, settings: &Settings, _: usize) -> f32 {
        settings.classify.rate.unwrap_or(3e-4) as f32
    }

    fn rate_rule(&self, settings: &Settings) -> &'static str {
        match settings.classify.rate {
            Some(_) => "as set, whatever the batch",
            None => "3e-4, whatever the batch",
        }
    }

    fn figures(&self, _: &Settings) -> &'static [Figure] {
        FIGURES
    }

    /// The band of the entropy; and what Stable-Baselines3 writes beside, under its names.
    fn more_figures(&self, of: &Validated<'_>, rate: f64) -> Vec<MoreFigure> {
        let (own, hypers, unit) = (&of.settings.ppo, hypers(of.settings), f64::from(of.validation.unit));
        let named = |name, tag, value: f32| MoreFigure { name: Some(name), tag, value: f64::from(value) };
        let tagged = |tag, value: f64| MoreFigure { name: None, tag, value };
        let mut all = vec![
            named("least_entropy", "train/entropy_least", hypers.entropy.least),
            named("most_entropy", "train/entropy_most", hypers.entropy.most),
            tagged("train/clip_range", own.clip_range),
            tagged("train/n_updates", unit * own.n_epochs as f64),
            tagged("time/iterations", unit),
            tagged("time/total_timesteps", self.event_step(of) as f64),
            tagged("time/fps", rate),
        ];
        if own.clip_range_vf > 0.0 {
            all.push(tagged("train/clip_range_vf", own.clip_range_vf));
        }
        // Of discrete actions the entropy is a share of what is possible.
        let sides: f64 = if of.shortable { 3.0 } else { 2.0 };
        let possible = match own.actions {
            Actions::Discrete => sides.ln(),
            Actions::Continuous => 1.0,
        };
        let seen = |name: &str| of.validation.metrics.get(name);
        all.extend(seen("entropy").map(|entropy| tagged("train/entropy_loss", -entropy * possible)));
        let losses = seen("policy_loss").zip(seen("value_loss")).zip(seen("entropy").zip(seen("entropy_weight")));
        all.extend(losses.map(|((policy, value), (entropy, weight))| {
            tagged("train/loss", policy + own.vf_coef * value - weight * entropy)
        }));
        all
    }

    /// Stable-Baselines3 counts steps of accounts.
    fn event_step(&self, of: &Validated<'_>) -> u64 {
        u64::from(of.validation.unit) * UpdateShape::of(of.settings).rows() as u64
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn open(&self, asked: ModelRows<'_>) -> Result<Answer> {
        let ModelRows { loaded, data, rows: RowsOfFolds { folds: rows, inputs, .. }, settings, asking, .. } = asked;
        refuse_members(asking.by_member)?;
        let problem = Problem { inputs, ids: data.base.rows(), ..Problem::default() };
        let policy = net_policy(loaded, data, &problem, &rows, settings)?;
        Ok(Answer::of_policy(loaded, data, &rows, Arc::new(policy)))
    }

    fn evaluate<'a>(&self, experiment: &'a Experiment, members: &'a [Trained]) -> Result<Box<dyn Evaluation + 'a>> {
        tested(experiment, members, None)
    }
}

/// Members decide as one.
pub(super) fn refuse_members(by_member: bool) -> Result<()> {
    if !by_member {
        return Ok(());
    }
    let what = "the members of a policy decide as one, on one account";
    Err(Error::new(files::Kind::Usage, what).remedy("leave <members> out"))
}

/// `[folds]` the members of a model that was read.
pub(super) fn policies_of(loaded: &model::Loaded) -> Vec<FoldPolicy> {
    let fold = |at: usize| {
        let (own, net) = (&loaded.model.folds[at], &loaded.nets[at]);
        let members = own.seeds.iter().zip(&loaded.params[at]).filter(|(seed, _)| !own.flat.contains(seed));
        FoldPolicy {
            net: net.clone(),
            scales: scales(net, &loaded.scalers[at]),
            members: members.map(|(_, params)| params.clone()).collect(),
            flat: own.flat.len(),
        }
    };
    (0..loaded.model.folds.len()).map(fold).collect()
}

/// `[rows]` the fold that decides on each.
pub(super) fn folds_of_rows(data: &Dataset, rows: &[Vec<u32>]) -> Vec<Option<u16>> {
    let mut fold_of = vec![None; data.base.rows()];
    for (fold, rows) in rows.iter().enumerate() {
        rows.iter().for_each(|row| fold_of[*row as usize] = Some(fold as u16));
    }
    fold_of
}

/// The nets of a model that was read, as one policy.
pub(super) fn net_policy(
    loaded: &model::Loaded,
    data: &Dataset,
    problem: &Problem,
    rows: &[Vec<u32>],
    settings: &Settings,
) -> Result<PpoPolicy> {
    let cpu = Opened::new(compute::Choice::Cpu, settings.threads()).map_err(learn::failed)?.0;
    let tables = problem.tables(&cpu, compute::Budget::default())?;
    let share = 1.0 / data.base.market.len() as f64;
    PpoPolicy::new(&tables, policies_of(loaded), folds_of_rows(data, rows), share)?.with_threads(settings.threads())
}

/// Members whose training has ended on their test blocks; with a search where they have one.
pub(super) fn tested<'a>(
    experiment: &'a Experiment,
    members: &'a [Trained],
    searching: Option<Searching>,
) -> Result<Box<dyn Evaluation + 'a>> {
    let Ids::Bars { data, .. } = &experiment.source.ids else {
        return Err(Error::input("policies trade, and ready arrays have no prices"));
    };
    let table = price_table(&data.base.market, &experiment.settings)?;
    let mut notes = table.notes.clone();
    let refit = experiment.settings.refit.is_some();
    let flat = members.iter().filter(|m| !is_above_flat(m)).count();
    if flat > 0 && !refit {
        notes.push(format!(
            "{flat} of {} stay flat: what they earned on validation data is not above 0 by a standard error",
            format_plural(members.len() as u64, "member")
        ));
    }
    let Experiment { source, settings, at, .. } = experiment;
    let tables = match &at.device {
        Opened::Cpu { .. } => source.problem.tables(&at.device, at.budget)?,
        // A clone has tables of its own, in the processor's memory.
        Opened::Cuda(_) => {
            let cpu = Opened::new(compute::Choice::Cpu, settings.threads()).map_err(learn::failed)?.0;
            learn::Problem::clone(&source.problem).tables(&cpu, compute::Budget::default())?
        }
    };
    let (blocks, figures) = (blocks(experiment, data), Vec::new());
    let (decided, traded) = (None, None);
    let market_models = searching.as_ref().map_or_else(|| Ok(Vec::new()), Searching::market_models)?;
    notes.extend(sentence(&market_models));
    let mut tested = Tested {
        experiment,
        members,
        data,
        table,
        tables,
        searching,
        market_models,
        blocks,
        notes,
        figures,
        decided,
        traded,
    };
    (tested.figures, tested.decided) = if refit { (vec![None; members.len()], None) } else { tested.walk_all()? };
    Ok(Box::new(tested))
}

/// `[inputs]` how a net's inputs are scaled; what an account is shown has fixed units.
fn scales(net: &compute::Net, scaler: &Scaler) -> Vec<Option<Scale>> {
    let mut own = scaler.scales.iter().cloned();
    net.inputs.iter().map(|input| if input.dense { None } else { own.next() }).collect()
}

/// Whether a member earned more than one standard error on its validation; else it is deployed flat.
fn is_above_flat(member: &Trained) -> bool {
    let Some(best) = &member.best else { return false };
    let seen = member.history.iter().find(|v| v.unit == best.unit);
    let error = seen.and_then(|v| v.metrics.get("valid_error")).unwrap_or(f64::INFINITY);
    best.score > error
}

/// The seeds of members, each once.
fn seeds_of(members: &[&Trained]) -> Vec<u32> {
    let mut numbers: Vec<u32> = members.iter().map(|m| m.seed).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The mean logarithm of growth of a step, in basis points; none of a ruin.
fn growth_bp(growth: f64, steps: usize) -> Option<f64> {
    (growth > 0.0).then(|| 1e4 * growth.ln() / steps.max(1) as f64)
}

/// The same of equity that was walked.
fn growth_of(walked: &Walked) -> Option<f64> {
    let (first, last) = (walked.equity.first()?, walked.equity.last()?);
    growth_bp(last / first, walked.equity.len().saturating_sub(1))
}

/// That the net alone earned more than with search, where it did.
fn search_note(lines: &[Line]) -> Option<String> {
    let [alone, searched, ..] = lines else { return None };
    let by_much = alone.sharpe_annual? > searched.sharpe_annual.unwrap_or(0.0) && alone.trades > 0;
    (by_much && alone.total_return > searched.total_return).then(|| {
        format!(
            "on the test blocks the net alone earned more than with search ({:.1} % against {:.1} %): what the search adds \
             is judged by its market model; more <search.scenarios> make it surer, and from 512 on a change of position \
             needs no test",
            100.0 * alone.total_return,
            100.0 * searched.total_return
        )
    })
}

/// Policies on their test blocks.
struct Tested<'a> {
    experiment: &'a Experiment,
    members: &'a [Trained],
    data: &'a Dataset,
    table: market::PriceTable,
    /// In the processor's memory.
    tables: Arc<compute::Tables>,
    /// How members search; none where they decide by their nets alone.
    searching: Option<Searching>,
    /// The models of the markets that they search in.
    market_models: Vec<MarketModelRow>,
    blocks: Vec<Span>,
    notes: Vec<String>,
    /// `[members]` growth of a bar on its test block, in basis points; none where it has no weights.
    figures: Vec<Option<f64>>,
    /// What the only config decides, where it was asked together with its members alone.
    decided: Option<Decided>,
    traded: Option<Traded>,
}

/// What deployed members decide on all test blocks.
struct Decided {
    together: Targets,
    /// Each seed alone, where there are several.
    seeds: Vec<Targets>,
}

struct Traded {
    backtest: Backtest,
    walked: Walked,
    chance: std::result::Result<ChanceTest, String>,
    seeds: Vec<f64>,
}

impl Tested<'_> {
    fn course(&self, span: Span) -> Course<'_> {
        Course {
            market: &self.data.base.market,
            clock: &self.data.clock,
            table: &self.table,
            span,
            delisting_return: self.experiment.settings.account.delisting_return,
        }
    }

    fn whole(&self) -> Option<Course<'_>> {
        let (first, last) = (self.blocks.first()?, self.blocks.last()?);
        Span::new(first.from(), last.to()).map(|span| self.course(span))
    }

    /// Some members as one policy. With `deployed` those that are not above flat stay flat; `lanes` say who decides for
    /// whom where accounts walk side by side.
    fn policy(&self, members: &[&Trained], deployed: bool, lanes: Vec<Vec<Deciders>>) -> Result<Box<dyn Policy>> {
        let (folds, configs) = self.folds_of(members, deployed)?;
        let (fold_of, share) = (self.deciding_folds(&folds)?, 1.0 / self.data.base.market.len() as f64);
        match &self.searching {
            None => {
                let policy = PpoPolicy::new(&self.tables, folds, fold_of, share)?.with_lanes(lanes);
                // Portfolios walk on a thread each.
                let alone = self.data.base.market.len() == 1;
                Ok(Box::new(policy.with_threads(if alone { self.experiment.settings.threads() } else { 1 })?))
            }
            Some(searching) => searching.policy(folds, &configs, fold_of, share, lanes),
        }
    }

    /// The nets of some members without any search, as they are deployed.
    fn nets_alone(&self, members: &[&Trained]) -> Result<PpoPolicy> {
        let (folds, _) = self.folds_of(members, true)?;
        let fold_of = self.deciding_folds(&folds)?;
        PpoPolicy::new(&self.tables, folds, fold_of, 1.0 / self.data.base.market.len() as f64)
    }

    /// `[folds]` some members by fold, and the config of each fold.
    fn folds_of(&self, members: &[&Trained], deployed: bool) -> Result<(Vec<FoldPolicy>, Vec<usize>)> {
        let Experiment { splits, learner, .. } = self.experiment;
        let Some(first) = members.first() else { return Err(Error::input("there is no member to decide")) };
        let fold = |number: usize| {
            let own: Vec<&&Trained> = members.iter().filter(|m| m.fold == number && m.best.is_some()).collect();
            let (trading, flat): (Vec<&Trained>, Vec<&Trained>) =
                own.into_iter().copied().partition(|m| !deployed || is_above_flat(m));
            let weights = trading.iter().filter_map(|m| Some(m.best.as_ref()?.params.clone())).collect();
            // All members of a fold are of one config.
            let config = members.iter().find(|m| m.fold == number).unwrap_or(first).config;
            let net = learner.configs()[config].net.clone();
            let scales = scales(&net, &learner.scalers()[number]);
            (FoldPolicy { net, scales, members: weights, flat: flat.len() }, config)
        };
        Ok((0..splits.folds.len()).map(fold).unzip())
    }

    /// `[rows]` the fold that decides on each: a fold without a member decides nothing.
    fn deciding_folds(&self, folds: &[FoldPolicy]) -> Result<Vec<Option<u16>>> {
        let Ids::Bars { usable, .. } = &self.experiment.source.ids else {
            return Err(Error::input("there are no bars"));
        };
        let fold_of = |row: usize| {
            let time = self.data.clock.time(row);
            let block = self.blocks.iter().position(|span| span.contains(time));
            let known = |block: &usize| !folds[*block].members.is_empty() || folds[*block].flat > 0;
            if usable[row] { block.filter(known).map(|block| block as u16) } else { None }
        };
        Ok((0..usable.len()).map(fold_of).collect())
    }

    /// `[members]` what each makes of its test block alone; and what all decide together, where there is one config of
    /// one symbol: they walk side by side.
    fn walk_all(&self) -> Result<(Vec<Option<f64>>, Option<Decided>)> {
        let configs = self.experiment.learner.configs().len();
        if let (Some(searching), 1) = (&self.searching, configs) {
            return self.walk_searchers(searching);
        }
        if self.data.base.market.len() > 1 {
            let alone = |m: &Trained| m.best.as_ref().map(|_| self.growth(m)).transpose().map(Option::flatten);
            let members: Vec<&Trained> = self.members.iter().collect();
            return Ok((self.on_threads(&members, alone)?, None));
        }
        let (mut figures, mut decided) = (vec![None; self.members.len()], None);
        for config in 0..configs {
            let (own, places): (Vec<&Trained>, Vec<usize>) =
                self.members.iter().zip(0..).filter(|(m, _)| m.config == config).unzip();
            let (grown, all) = self.walk_beside(&own, true, configs == 1)?;
            places.into_iter().zip(grown).for_each(|(at, growth)| figures[at] = growth);
            decided = all;
        }
        Ok((figures, decided))
    }

    /// The same of members that search, whose decisions are what takes time: those that are deployed decide once, on
    /// the way of their seed through all blocks, and that is followed on their own block again.
    fn walk_searchers(&self, searching: &Searching) -> Result<(Vec<Option<f64>>, Option<Decided>)> {
        let all: Vec<&Trained> = self.members.iter().collect();
        let seeds = seeds_of(&all);
        let alone: Vec<&Trained> = all.iter().filter(|m| m.best.is_some() && !is_above_flat(m)).copied().collect();
        let walks = 1 + if seeds.len() > 1 { seeds.len() } else { 0 };
        let rows = |span: Option<Span>| span.map_or(0, |span| self.rows_inside(span));
        let whole = self.whole().map(|course| course.span);
        let blocks: usize = alone.iter().map(|m| rows(Some(self.blocks[m.fold]))).sum();
        searching.expect(walks * rows(whole) + blocks);
        let Some(decided) = self.decide(&all)? else { return Ok((vec![None; all.len()], None)) };
        let mut of_alone = match self.data.base.market.len() {
            1 => self.walk_beside(&alone, true, false)?.0,
            _ => self.on_threads(&alone, |m| self.growth(m))?,
        }
        .into_iter();
        let figure = |m: &&Trained| {
            if m.best.is_none() || !is_above_flat(m) {
                return Ok(m.best.as_ref().and_then(|_| of_alone.next().flatten()));
            }
            let own = seeds.iter().position(|seed| *seed == m.seed).and_then(|at| decided.seeds.get(at));
            let targets = own.unwrap_or(&decided.together);
            let walked = walk(&self.course(self.blocks[m.fold]), &self.table.params, targets)?;
            Ok(growth_of(&walked))
        };
        let figures = all.iter().map(figure).collect::<Result<_>>()?;
        Ok((figures, Some(decided)))
    }

    /// Rows that can be decided on in a span.
    fn rows_inside(&self, span: Span) -> usize {
        let Ids::Bars { usable, .. } = &self.experiment.source.ids else { return 0 };
        (0..usable.len()).filter(|row| usable[*row] && span.contains(self.data.clock.time(*row))).count()
    }

    /// What a member makes of its test block alone, a bar, in basis points, on a portfolio.
    fn growth(&self, member: &Trained) -> Result<Option<f64>> {
        let policy = self.policy(&[member], false, Vec::new())?;
        Ok(growth_of(&walk(&self.course(self.blocks[member.fold]), &self.table.params, &*policy)?))
    }

    /// Members of one symbol on accounts side by side: each `alone` on its test block, and those that are deployed on
    /// all blocks, `together` and seed by seed. `[members]` what those alone make of a bar, in basis points.
    fn walk_beside(
        &self,
        members: &[&Trained],
        alone: bool,
        together: bool,
    ) -> Result<(Vec<Option<f64>>, Option<Decided>)> {
        let trained: Vec<&Trained> = members.iter().filter(|m| m.best.is_some()).copied().collect();
        let Some(whole) = self.whole().filter(|_| !trained.is_empty()) else {
            return Ok((vec![None; members.len()], None));
        };
        let folds = self.experiment.splits.folds.len();
        // The number of a member among those of its fold.
        let number = |m: &Trained| trained.iter().filter(|o| o.fold == m.fold).position(|o| std::ptr::eq(*o, m));
        let deployed = |seed: Option<u32>| {
            let fold = |fold: usize| {
                let own = trained.iter().filter(|m| m.fold == fold && seed.is_none_or(|seed| m.seed == seed));
                let (trading, flat): (Vec<&Trained>, Vec<&Trained>) = own.partition(|m| is_above_flat(m));
                Deciders { members: trading.into_iter().filter_map(number).collect(), flat: flat.len() }
            };
            (0..folds).map(fold).collect::<Vec<_>>()
        };
        let (mut lanes, mut who) = (Vec::new(), Vec::new());
        if together {
            let seeds = seeds_of(members);
            let each = seeds.iter().filter(|_| seeds.len() > 1).map(|seed| Some(*seed));
            who.extend(std::iter::once(None).chain(each).map(deployed));
            lanes.resize(who.len(), Lane { span: whole.span, keeps: true });
        }
        let kept = lanes.len();
        for member in trained.iter().filter(|_| alone) {
            let fold = |fold: usize| match fold == member.fold {
                true => Deciders { members: number(member).into_iter().collect(), flat: 0 },
                false => Deciders::default(),
            };
            who.push((0..folds).map(fold).collect());
            lanes.push(Lane { span: self.blocks[member.fold], keeps: false });
        }
        let policy = self.policy(&trained, false, who)?;
        let mut ends = decide_beside(&whole, &lanes, &*policy)?;
        let mut grown = ends.split_off(kept).into_iter().map(|end| growth_bp(end.growth, end.steps));
        let figures = members.iter().map(|m| m.best.as_ref().filter(|_| alone).and_then(|_| grown.next().flatten()));
        let figures = figures.collect();
        let mut targets = ends.into_iter().filter_map(|end| end.targets);
        let decided = targets.next().map(|together| Decided { together, seeds: targets.collect() });
        Ok((figures, decided))
    }

    /// What some members decide on all test blocks, each seed alone as well.
    fn decide(&self, members: &[&Trained]) -> Result<Option<Decided>> {
        let Some(course) = self.whole() else { return Ok(None) };
        if self.data.base.market.len() == 1 {
            return Ok(self.walk_beside(members, false, true)?.1);
        }
        // All together first, then each seed alone.
        let seeds = seeds_of(members);
        let each = seeds.iter().filter(|_| seeds.len() > 1).map(|seed| Some(*seed));
        let who: Vec<Option<u32>> = std::iter::once(None).chain(each).collect();
        let one = |seed: Option<u32>| {
            let own = members.iter().filter(|m| seed.is_none_or(|seed| m.seed == seed));
            decide(&course, &*self.policy(&own.copied().collect::<Vec<_>>(), true, Vec::new())?)
        };
        let mut decided = self.on_threads(&who, one)?.into_iter();
        let Some(together) = decided.next() else { return Ok(None) };
        Ok(Some(Decided { together, seeds: decided.collect() }))
    }

    /// Walks through portfolios, which do not depend on each other, on all threads; results in their order.
    fn on_threads<A: Copy + Sync, B: Send>(&self, all: &[A], one: impl Fn(A) -> Result<B> + Sync) -> Result<Vec<B>> {
        let threads = self.experiment.settings.threads().clamp(1, all.len().max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(of) = all.get(at) else { break done };
                done.push((at, one(*of)));
            }
        };
        let mut done: Vec<(usize, Result<B>)> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|why| resume_unwind(why)));
            others.flatten().chain(own).collect()
        });
        done.sort_unstable_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, done)| done).collect()
    }

    fn members_of(&self, config_of: &dyn Fn(usize) -> usize) -> Vec<&Trained> {
        self.members.iter().filter(|m| m.config == config_of(m.fold)).collect()
    }

    /// Per year; 0 where nothing was traded.
    fn sharpe(walked: &Walked) -> f64 {
        let (days, returns) = walked.daily_returns();
        let per_year = trading_days_per_year(&days).unwrap_or(252.0).clamp(1.0, 366.0);
        let found = performance(&TrackRecord::new(&returns, per_year)).ok();
        found.and_then(|p| p.sharpe_annual.or(p.sharpe_annual_uncorrected)).unwrap_or(0.0)
    }
}

impl Evaluation for Tested<'_> {
    fn test_figures(&self, member: usize) -> Result<Vec<Option<f64>>> {
        Ok(vec![self.figures[member]])
    }

    fn judge(&self, config_of: &dyn Fn(usize) -> usize) -> Result<Option<Judged>> {
        let own = self.members.iter().zip(&self.figures).filter(|(m, _)| m.config == config_of(m.fold));
        let grown: Vec<f64> = own.filter_map(|(_, growth)| *growth).collect();
        if grown.is_empty() {
            return Ok(None);
        }
        let mean = grown.iter().sum::<f64>() / grown.len() as f64;
        let record = json!({"members": grown.len(), "growth_bp": mean});
        let sentence =
            format!("growth of a member alone {mean:.3} bp a bar on its test block, net of costs, in the mean");
        Ok(Some(Judged::new(&record, vec![Some(mean)], METRICS, vec![sentence])))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn market_models(&self) -> Vec<MarketModelRow> {
        self.market_models.clone()
    }

    fn trade(&mut self, selected: &[usize]) -> Result<Option<Backtest>> {
        if self.experiment.settings.refit.is_some() {
            return Ok(None);
        }
        let known = self.decided.take();
        let members = self.members_of(&|fold| selected[fold]);
        let Some(course) = self.whole() else { return Ok(None) };
        let settings = &self.experiment.settings;
        let known = known.map_or_else(|| self.decide(&members), |known| Ok(Some(known)))?;
        let Some(decided) = known else { return Ok(None) };
        let starts: Vec<(usize, i64)> = self.blocks.iter().enumerate().map(|(n, span)| (n + 1, span.from())).collect();
        let (mut backtest, walked) =
            judge::backtest::backtest(&course, &decided.together, &starts, settings.threads())?;
        if self.searching.is_some() {
            backtest.lines = four_lines(&course, &self.nets_alone(&members)?, &walked)?;
        }
        let note = search_note(&backtest.lines);
        let chance = match course.market {
            _ if walked.trades.is_empty() => Err("nothing was traded".to_string()),
            [_] => shift_positions(&course, &decided.together, 1, settings.general.seed, settings.threads()),
            _ => shift_portfolio(&course, &decided.together, settings.general.seed, settings.threads()),
        };
        let alone = |targets: &Targets| Ok(Tested::sharpe(&walk(&course, &self.table.params, targets)?));
        let seeds = decided.seeds.iter().map(alone).collect::<Result<_>>()?;
        let said = backtest.clone();
        self.notes.extend(note);
        self.traded = Some(Traded { backtest, walked, chance, seeds });
        Ok(Some(said))
    }

    fn keep_returns(&self) -> Result<Vec<Option<String>>> {
        let configs = self.experiment.learner.configs().len();
        if self.experiment.settings.refit.is_some() {
            return Ok(vec![None; configs]);
        }
        if configs == 1 {
            let own = self.traded.as_ref().map(|traded| backtest::keep_returns(&traded.walked)).transpose()?;
            return Ok(vec![own]);
        }
        let Some(course) = self.whole() else { return Ok(vec![None; configs]) };
        let of = |config: usize| {
            let Some(decided) = self.decide(&self.members_of(&|_| config))? else { return Ok(None) };
            backtest::keep_returns(&walk(&course, &self.table.params, &decided.together)?).map(Some)
        };
        (0..configs).map(of).collect()
    }

    fn findings(&self, _: &Judged) -> Option<(Findings, Vec<f64>)> {
        let traded = self.traded.as_ref()?;
        let mut found = Findings::new(Some(&traded.backtest), None, 1);
        found.expect_days();
        match &traded.chance {
            Ok(chance) => found.chance = Some(chance.clone()),
            Err(why) => found.chance_missing = Some(why.clone()),
        }
        let seed = self.experiment.settings.general.seed;
        found.seeds = seed_spread("net Sharpe ratio per year", &traded.seeds, seed);
        Some((found, traded.walked.daily_returns().1))
    }

    fn seal(&self, selected: &[usize], trials: &[StartedTrial]) -> Result<Option<model::Sealed>> {
        let refit = self.experiment.settings.refit.as_ref();
        let flat = |fold: usize| {
            let own = self.members.iter().filter(|m| m.fold == fold && m.config == selected[fold] && m.best.is_some());
            // A refit has no validation of its own, and goes by that of the run that judged it.
            let is_flat = |m: &&Trained| refit.map_or(!is_above_flat(m), |refit| refit.flat.contains(&m.seed));
            own.filter(is_flat).map(|m| m.seed).collect()
        };
        let deployed = |fold: usize| {
            let flat: Vec<u32> = flat(fold);
            let trades = self
                .members
                .iter()
                .any(|m| m.fold == fold && m.config == selected[fold] && m.best.is_some() && !flat.contains(&m.seed));
            let searching = self.searching.as_ref().filter(|_| trades);
            let search = searching.map(|searching| searching.keep(fold, selected[fold])).transpose()?;
            Ok(model::Deployed { trading: None, flat, search })
        };
        let deployed = (0..selected.len()).map(deployed).collect::<Result<Vec<model::Deployed>>>()?;
        model::seal(self.experiment, self.members, selected, &deployed, trials).map(Some)
    }

    fn save(&self, selected: &[usize], folder: &Path, sealed: Option<&model::Sealed>) -> Result<()> {
        if let Some(traded) = &self.traded {
            let threads = self.experiment.settings.threads();
            let market = &self.data.base.market;
            backtest::save(&folder.join("backtest"), market, &traded.backtest, &traded.walked, threads)?;
        }
        sealed.map_or(Ok(()), |sealed| {
            model::write(&folder.join("model"), self.experiment, self.members, selected, sealed)
        })
    }
}
