//! What kinds whose policies trade share: what they are selected by, which data they take, how their nets are written,
//! how long they train, which settings they refuse, and their nets read back from a model. How they are judged is in
//! [`mod@tested`].

mod tested;

pub(super) use tested::tested;

use super::{KindInfo, Metric, MoreFigure, Validated, mlp, model};
use crate::progress::check_stop;
use crate::train::{Answer, Ids, ModelRows, RowsOfFolds, Source};
use crate::{ClassifySettings, EvolveSettings, PpoSettings, RewardKind, SearchSettings, Settings};
use account::Action;
use compute::Opened;
use compute::population::{Precision, Recipe, Schedule};
use features::{Dataset, FoldKind, Input, InputLayout};
use files::{Error, Result};
use judge::split::Splits;
use learn::ppo::{FoldPolicy, PpoPolicy};
use learn::{Config, Extent, PolicySpec, Problem};
use market::{EpisodeData, Needs, OBSERVED, Policy, View, row_times};
use std::sync::Arc;

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

/// What a learner of policies is and reads.
pub(super) const fn policy_info(name: &'static str) -> KindInfo {
    KindInfo {
        name,
        task: "trade",
        is_labelled: false,
        layout: InputLayout::Row,
        features: mlp::MLP.features,
        metrics: METRICS,
        counts_decisions: false,
    }
}

/// The net that was set whole; else the layers that were set, between the inputs and what `body` makes of them and of
/// the outputs of an action.
pub(super) fn net(settings: &Settings, inputs: &[Input], body: impl Fn(&str, usize) -> String) -> String {
    let layers = settings.classify.net.as_deref().unwrap_or("64t-64t");
    if layers.contains('/') {
        return layers.to_string();
    }
    let tables: Vec<String> = inputs.iter().map(|i| format!("{}:{}", i.name, i.columns.len())).collect();
    let body = body(&layers.replace(',', "-"), settings.ppo.actions.outputs());
    format!("{} + account:dense{OBSERVED} / {body}", tables.join(" + "))
}

/// An error in what was set.
pub(super) fn usage(what: impl Into<String>, remedy: &str) -> Error {
    Error::new(files::Kind::Usage, what).remedy(remedy)
}

/// The bars that policies trade, walking forward; others are refused.
pub(super) fn trading_data<'a>(source: &'a Source, splits: &Splits) -> Result<&'a Dataset> {
    let Ids::Bars { data, .. } = &source.ids else {
        return Err(usage("policies trade, and ready arrays have no prices", "give bars"));
    };
    if splits.folds.iter().any(|fold| fold.kind == FoldKind::Around) {
        return Err(usage("policies walk forward", "leave <split.kind> out"));
    }
    Ok(data)
}

/// What episodes on those bars are played on.
pub(super) fn episodes(data: &Dataset, settings: &Settings) -> Result<Arc<EpisodeData>> {
    let table = super::test_blocks::price_table(&data.base.market, settings)?;
    let times = row_times(&data.base.market, &table);
    Ok(Arc::new(EpisodeData::new(table, times)))
}

/// How policies are trained: `[configs]` with what their learner adds, and for so many units.
pub(super) fn spec<H>(settings: &Settings, configs: Vec<Config>, hypers: Vec<H>, units: Vec<u32>) -> PolicySpec<H> {
    let refit = settings.refit.as_ref();
    let patience = settings.train.patience.map_or_else(|| patience(&units), |set| set as u32);
    PolicySpec {
        configs,
        hypers,
        units,
        stop_after: refit.map(|refit| refit.epochs),
        // Without validation nothing gets better.
        patience: if refit.is_some() { u32::MAX } else { patience },
        seeds: settings.train.seeds as u32,
    }
}

/// Units without a better score before a member stops, where none were set: no fewer than of classifiers, and a quarter
/// of all of the longest config. A policy has thousands of units, and gets better late.
fn patience(units: &[u32]) -> u32 {
    let longest = units.iter().copied().max().unwrap_or(0);
    Extent::default().patience.max(longest.div_ceil(4))
}

/// The recipe of policies that follow a gradient; recipes of classifiers are others.
pub(super) fn gradient_recipe(settings: &Settings, batch: usize, precision: Precision) -> Recipe {
    let mut recipe = Recipe::new(batch, precision, settings.general.seed);
    let clip = Some(settings.ppo.max_grad_norm as f32).filter(|norm| *norm > 0.0);
    (recipe.optimiser.eps, recipe.optimiser.decay, recipe.optimiser.clip) = (1e-5, 0.0, clip);
    recipe.schedule = Schedule { shape: settings.ppo.schedule, ..recipe.schedule };
    recipe
}

/// Units of so many steps, by the steps that were asked for; fewer where a number of epochs was set or follows from a
/// budget.
pub(super) fn units(settings: &Settings, timesteps: usize, steps: u64) -> u32 {
    let units = (timesteps as u64).div_ceil(steps.max(1)).max(1);
    units.min(settings.train.epochs.map_or(u64::from(u32::MAX), |most| most as u64)) as u32
}

/// How far a training is and how fast, under the names of Stable-Baselines3; `steps` are those of all accounts.
pub(super) fn pace_figures(of: &Validated<'_>, steps: u64, rate: f64) -> [MoreFigure; 4] {
    let unit = f64::from(of.validation.unit);
    [
        ("time/iterations", unit),
        ("time/total_timesteps", steps as f64),
        ("time/fps", rate),
        ("time/time_elapsed", of.seconds),
    ]
    .map(|(tag, value)| MoreFigure { name: None, tag, value })
}

/// An error where something was set that evolution alone goes by.
pub(super) fn refuse_evolving(settings: &Settings) -> Result<()> {
    if settings.evolve == EvolveSettings::default() {
        return Ok(());
    }
    let name = settings.train.learner.name();
    let what = format!("`evolve.` is of policies that evolve, and `{name}` follows a gradient");
    Err(usage(what, "choose <train.learner=evolve>, or leave it out"))
}

/// An error where something was set that searchers alone go by.
pub(super) fn refuse_searching(settings: &Settings) -> Result<()> {
    if settings.search == SearchSettings::default() {
        return Ok(());
    }
    let what = format!("`search.` is of policies that search, and `{}` does not", settings.train.learner.name());
    Err(usage(what, "choose <train.learner=search>, or leave it out"))
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
    Err(usage(what, remedy))
}

/// An error where drawdowns are weighed and none of these settings have a reward that counts them.
pub(super) fn refuse_an_unused_weight<'a>(all: impl IntoIterator<Item = &'a Settings>) -> Result<()> {
    let (usual, mut is_set, mut is_used) = (PpoSettings::default().drawdown_weight, false, false);
    for own in all {
        is_set |= own.ppo.drawdown_weight != usual;
        is_used |= own.ppo.reward == RewardKind::Drawdown;
    }
    if !is_set || is_used {
        return Ok(());
    }
    let what = "ppo.drawdown_weight is of a reward that counts drawdowns";
    Err(usage(what, "choose <ppo.reward=drawdown>, or leave <ppo.drawdown_weight> out"))
}

/// Opens a model whose nets decide alone.
pub(super) fn open(asked: ModelRows<'_>) -> Result<Answer> {
    let ModelRows { loaded, data, rows: RowsOfFolds { folds: rows, inputs, .. }, settings, asking, .. } = asked;
    refuse_members(asking.by_member)?;
    let (_, policy) = net_policy(loaded, |fold| &fold.flat, data, inputs, &rows, settings)?;
    Ok(Answer::of_policy(loaded, data, &rows, Arc::new(Stoppable(policy))))
}

/// Members decide as one.
pub(super) fn refuse_members(by_member: bool) -> Result<()> {
    if !by_member {
        return Ok(());
    }
    Err(usage("the members of a policy decide as one, on one account", "leave <members> out"))
}

/// A policy that is asked no more once the user has stopped: a walk asks at every close, and may take hours.
pub(super) struct Stoppable<P>(pub(super) P);

impl<P: Policy> Policy for Stoppable<P> {
    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn start(&self, n: usize) -> Vec<f64> {
        self.0.start(n)
    }

    fn act(&self, view: &View<'_>, memory: &mut [f64], actions: &mut [Action]) -> Result<()> {
        check_stop()?;
        self.0.act(view, memory, actions)
    }
}

/// `[folds]` the members of a model that was read, and the seeds of each that stay flat.
pub(super) fn policies_of(loaded: &model::Loaded, flat: fn(&model::ModelFold) -> &[u32]) -> Vec<FoldPolicy> {
    let fold = |at: usize| {
        let (own, net) = (&loaded.model.folds[at], &loaded.nets[at]);
        let flat = flat(own);
        let members = own.seeds.iter().zip(&loaded.params[at]).filter(|(seed, _)| !flat.contains(seed));
        let (seeds, members) = members.map(|(seed, params)| (*seed, params.clone())).unzip();
        FoldPolicy { net: net.clone(), scales: loaded.scalers[at].scales_of(net), members, seeds, flat: flat.len() }
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

/// What a model that was read is asked about, and its nets as one policy; `flat` are the seeds that stay flat.
pub(super) fn net_policy(
    loaded: &model::Loaded,
    flat: fn(&model::ModelFold) -> &[u32],
    data: &Dataset,
    inputs: Vec<Input>,
    rows: &[Vec<u32>],
    settings: &Settings,
) -> Result<(Problem, PpoPolicy)> {
    let problem = Problem { inputs, ids: data.base.rows(), ..Problem::default() };
    let tables = problem.tables(&processor(settings)?, compute::Budget::default())?;
    let share = 1.0 / data.base.market.len() as f64;
    let policy = PpoPolicy::new(&tables, policies_of(loaded, flat), folds_of_rows(data, rows), share)?;
    Ok((problem, policy.with_threads(settings.threads())?))
}

/// This machine's processor, whatever the run's device is.
pub(super) fn processor(settings: &Settings) -> Result<Opened> {
    Ok(Opened::new(compute::Choice::Cpu, settings.threads()).map_err(learn::failed)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(set: &[&str]) -> Settings {
        let mut settings = Settings::default();
        set.iter().for_each(|set| settings.set(set).unwrap());
        settings
    }

    #[test]
    fn epochs_that_were_set_end_policies_whatever_their_number() {
        for (set, expected) in [("auto", 1000), ("499", 499), ("500", 500), ("501", 501), ("5000", 1000)] {
            assert_eq!(units(&settings(&[&format!("train.epochs={set}")]), 100_000, 100), expected, "{set}");
        }
    }

    #[test]
    fn patience_lasts_a_quarter_of_all_units_unless_it_was_set() {
        for (set, all, expected) in [
            ("auto", &[10][..], 50),
            ("auto", &[200], 50),
            ("auto", &[201], 51),
            ("auto", &[24_000, 191], 6_000),
            ("50", &[24_000], 50),
            ("7", &[24_000], 7),
        ] {
            let spec = spec::<()>(&settings(&[&format!("train.patience={set}")]), Vec::new(), Vec::new(), all.to_vec());
            assert_eq!(spec.patience, expected, "{set} of {all:?}");
        }
    }
}
