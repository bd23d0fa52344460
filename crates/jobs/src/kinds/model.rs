//! The model as a folder: weights, scalers, feature set, label, universe; all that `predict` needs, in files that a
//! person can read.
//!
//! `model.json` says what it is; `fold-3-seed-1.safetensors` are a member's best weights. Where several configs were
//! tried, each fold has the members of the one that was chosen for it, and says which. `MANIFEST` has the hash of each.

use super::LearnerKind;
use super::manifest::ModelManifest;
use crate::Refit;
use crate::runs::find_run;
use crate::settings::{ReadSettings, SectionSettings};
use crate::train::{Experiment, Ids, json_text, ledger_path, member_file};
use bars::Fingerprint;
use compute::Net;
use compute::net::{Layout, load};
use compute::population::{Pins, Recipe, Scale};
use files::{Error, Kind, Result, replace_bytes};
use judge::backtest::SignalRule;
use judge::ledger::StartedTrial;
use learn::classify::predict_pins;
use learn::expert::{FoldMarket, SearchShape};
use learn::ppo::Actions;
use learn::scale::Scaler;
use learn::{Best, Config, MemberKey, Trained, failed};
use market::OBSERVED;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Changes when an older program could not read it, or should not: from 3 on there is a manifest beside it.
const FORMATS: [u32; 3] = [1, 2, 3];
const JSON: &str = "model.json";
/// No `model.json` is longer.
const LONGEST: u64 = 256 << 20;

/// What `model.json` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Model {
    pub(crate) format: u32,
    pub(crate) program: String,
    pub(crate) learner: LearnerKind,
    pub(crate) net: String,
    /// 0 of a policy.
    pub(crate) classes: usize,
    /// How it was trained; precision decides how it is asked.
    pub(crate) recipe: Recipe,
    /// The feature set as text; none for ready arrays.
    pub(crate) set: Option<String>,
    /// Holes that indicators step over; part of what a feature is.
    pub(crate) max_hole: Option<usize>,
    /// How its bars were read, mended and put together; none for ready arrays, and in models of versions that did not
    /// keep it.
    #[serde(default)]
    pub(crate) reading: Option<ReadSettings>,
    /// The account that a policy was trained on, and is shown; none for classifiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<SectionSettings>,
    pub(crate) timeframe: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) inputs: Vec<ModelInput>,
    /// What it was trained on, in order.
    pub(crate) symbols: Vec<String>,
    /// Those of them that gave samples: what it learned from and was judged on.
    #[serde(default)]
    pub(crate) judged: Vec<String>,
    /// The hash of every bit it was trained on.
    pub(crate) data: String,
    /// The name of its split, which its scalers carry too.
    #[serde(default)]
    pub(crate) split: Option<String>,
    /// The part of its own data that stays locked, `[from, to)` in nanoseconds.
    pub(crate) holdout: Option<(i64, i64)>,
    /// The guess is the class of the largest probability.
    pub(crate) threshold: Option<f64>,
    pub(crate) folds: Vec<ModelFold>,
    /// Whose recipe it is where it was trained on everything, so that nothing judges it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refit: Option<Refit>,
    /// The algorithms that its predictions take on the card it was trained on.
    #[serde(default, skip_serializing_if = "Pins::is_empty")]
    pub(crate) pins: Pins,
}

/// An input of the net.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ModelInput {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
}

/// A fold's members; they may be asked about what became known from `test_from` on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ModelFold {
    pub(crate) number: usize,
    pub(crate) test_from: i64,
    pub(crate) test_to: i64,
    /// Where its scaler is from, which is refused elsewhere.
    #[serde(default)]
    pub(crate) fitted: Option<ModelFitted>,
    /// `[inputs]`
    pub(crate) scales: Vec<ModelScale>,
    pub(crate) seeds: Vec<u32>,
    /// What was chosen for it, where several configs were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<ModelConfig>,
    /// How its probabilities become positions; none for ready arrays, and in models of versions that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trading: Option<SignalRule>,
    /// Those of its seeds that stay flat, for policies: their validation was not above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) flat: Vec<u32>,
    /// `[seeds]` what the rewards of each were divided by when its weights were the best, for policies that learn by
    /// gradients; empty in models of versions that did not keep it. Nothing that the model decides depends on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) return_scales: Vec<ModelReturns>,
    /// The same of their nets without a search, for policies that search: nets have a validation of their own. None in
    /// models of versions that went by that of the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) net_flat: Option<Vec<u32>>,
    /// How its members search, for policies that do; the market they search in is a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<SearchShape>,
    /// Whether they were judged searching on a card, where nets compute in bf16: they search on one where there is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) searched_on_card: bool,
}

/// The discounted returns that a member had seen: their number, mean and sum of squared distances from it. Rewards are
/// divided by the square root of `squares / count`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct ModelReturns {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    pub(crate) squares: f64,
}

impl ModelReturns {
    /// Of a member at its best validation; none of learners that have no such scale.
    fn of(member: &Trained, best: &Best) -> Option<ModelReturns> {
        let seen = &member.history.iter().find(|v| v.unit == best.unit)?.metrics;
        let [count, mean, squares] = ["return_count", "return_mean", "return_squares"].map(|name| seen.get(name));
        Some(ModelReturns { count: count?, mean: mean?, squares: squares? })
    }
}

impl ModelFold {
    /// Seeds whose net stays flat without a search.
    pub(crate) fn net_flat(&self) -> &[u32] {
        self.net_flat.as_deref().unwrap_or(&self.flat)
    }
}

/// How a fold's members become positions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deployed {
    /// Of classifiers.
    pub(crate) trading: Option<SignalRule>,
    /// Of policies: the seeds that stay flat.
    pub(crate) flat: Vec<u32>,
    /// Of policies that search: the seeds whose net stays flat without it.
    pub(crate) net_flat: Option<Vec<u32>>,
    /// Of policies that search.
    pub(crate) search: Option<KeptSearch>,
}

/// What is kept of a fold whose members search.
#[derive(Debug, Clone)]
pub(crate) struct KeptSearch {
    pub(crate) shape: SearchShape,
    /// The bytes of the market.
    pub(crate) market: Vec<u8>,
    /// Whether they were judged on a card.
    pub(crate) on_card: bool,
}

/// Where a scaler is from (docs/method.md, Scaling).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ModelFitted {
    /// The split that its fold is of.
    pub(crate) split: String,
    /// The hash of the data it was fitted on.
    pub(crate) data: String,
    /// What it was fitted on was known before this, in nanoseconds.
    pub(crate) to: i64,
}

/// A config that was chosen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ModelConfig {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) net: String,
    pub(crate) recipe: Recipe,
}

/// Mean and inverse deviation of an input's columns.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ModelScale {
    pub(crate) mean: Vec<f32>,
    pub(crate) inverse: Vec<f32>,
}

/// A model that is ready to be written.
pub(crate) struct Sealed {
    json: Vec<u8>,
    /// The markets that members search in, by name.
    markets: Vec<(String, Vec<u8>)>,
    manifest: Vec<u8>,
    /// What the ledger is told of it.
    pub(crate) hash: String,
}

/// Makes the model of a finished run ready; `selected` `[folds]` is the config of each fold, `deployed` how its members
/// become positions.
pub(crate) fn seal(
    experiment: &Experiment,
    members: &[Trained],
    selected: &[usize],
    deployed: &[Deployed],
    trials: &[StartedTrial],
) -> Result<Sealed> {
    let mut manifest = ModelManifest::new(trials);
    let json = json(experiment, members, selected, deployed)?;
    manifest.add(JSON, &json);
    each_weights(experiment, members, selected, |name, bytes| {
        manifest.add(name, bytes);
        Ok(())
    })?;
    let market = |(fold, own): (usize, &Deployed)| Some((market_file(fold), own.search.as_ref()?.market.clone()));
    let markets: Vec<(String, Vec<u8>)> = deployed.iter().enumerate().filter_map(market).collect();
    markets.iter().for_each(|(name, bytes)| manifest.add(name, bytes));
    let (manifest, hash) = manifest.seal()?;
    Ok(Sealed { json, markets, manifest, hash })
}

/// Writes a model, its manifest last.
pub(crate) fn write(
    folder: &Path,
    experiment: &Experiment,
    members: &[Trained],
    selected: &[usize],
    sealed: &Sealed,
) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "making the folder of the model", &e))?;
    each_weights(experiment, members, selected, |name, bytes| replace_bytes(&folder.join(name), bytes))?;
    sealed.markets.iter().try_for_each(|(name, bytes)| replace_bytes(&folder.join(name), bytes))?;
    replace_bytes(&folder.join(JSON), &sealed.json)?;
    ModelManifest::write(folder, &sealed.manifest)
}

/// The file of a fold's market.
fn market_file(fold: usize) -> String {
    format!("fold-{}-market.bin", fold + 1)
}

/// The members whose weights are part of the model.
fn kept<'a>(members: &'a [Trained], selected: &'a [usize]) -> impl Iterator<Item = (&'a Trained, &'a Best)> {
    let of_fold = |m: &&Trained| selected.get(m.fold) == Some(&m.config);
    members.iter().filter(of_fold).filter_map(|m| Some((m, m.best.as_ref()?)))
}

/// Their files, one after the other: together they may be large.
fn each_weights(
    experiment: &Experiment,
    members: &[Trained],
    selected: &[usize],
    mut each: impl FnMut(&str, &[u8]) -> Result<()>,
) -> Result<()> {
    let configs = experiment.learner.configs();
    for (member, best) in kept(members, selected) {
        let bytes = configs[member.config].weights_file(&best.params).map_err(failed)?;
        let config = (configs.len() > 1).then_some(member.config);
        each(&member_file(config, member.fold, member.seed), &bytes)?;
    }
    Ok(())
}

/// `model.json`.
fn json(experiment: &Experiment, members: &[Trained], selected: &[usize], deployed: &[Deployed]) -> Result<Vec<u8>> {
    let Experiment { source, splits, learner, settings, .. } = experiment;
    let (several, is_labelled) = (learner.configs().len() > 1, settings.train.learner.info().is_labelled);
    let own: Vec<&Config> = selected.iter().map(|config| &learner.configs()[*config]).collect();
    let (set, timeframe, label) = match &source.ids {
        Ids::Bars { data, set, label, .. } => {
            (Some(set.clone()), Some(data.base.timeframe.to_string()), label.as_ref().map(|l| l.rule.clone()))
        }
        Ids::Ready { .. } => (None, None, None),
    };
    let fold = |f: &features::Fold| {
        let (scaler, config) = (&learner.scalers()[f.number], own[f.number]);
        let (number, net, recipe) = (selected[f.number] + 1, config.net.to_string(), config.recipe);
        let scale = |s: &Scale| ModelScale { mean: s.mean.clone(), inverse: s.inverse.clone() };
        let search = deployed.get(f.number).and_then(|own| own.search.as_ref());
        ModelFold {
            number: f.number,
            test_from: f.spans.test.from(),
            test_to: f.spans.test.to(),
            fitted: Some(ModelFitted { split: hex(scaler.split), data: scaler.data.clone(), to: scaler.fit_to }),
            scales: scaler.scales.iter().map(scale).collect(),
            seeds: kept(members, selected).filter(|(m, _)| m.fold == f.number).map(|(m, _)| m.seed).collect(),
            config: several.then_some(ModelConfig { number, net, recipe }),
            trading: deployed.get(f.number).and_then(|own| own.trading.clone()),
            flat: deployed.get(f.number).map_or_else(Vec::new, |own| own.flat.clone()),
            return_scales: kept(members, selected)
                .filter(|(m, _)| m.fold == f.number)
                .map_while(|(m, best)| ModelReturns::of(m, best))
                .collect(),
            net_flat: deployed.get(f.number).and_then(|own| own.net_flat.clone()),
            search: search.map(|own| own.shape),
            searched_on_card: search.is_some_and(|own| own.on_card),
        }
    };
    // What the newest fold has stands for all where only one is shown.
    let newest = own.last().map_or(&learner.configs()[0], |own| own);
    let inputs = source.problem.inputs.iter();
    let model = Model {
        format: FORMATS[2],
        program: env!("CARGO_PKG_VERSION").into(),
        learner: settings.train.learner,
        net: newest.net.to_string(),
        classes: source.problem.classes,
        recipe: newest.recipe,
        set,
        max_hole: settings.features.max_hole,
        reading: matches!(source.ids, Ids::Bars { .. }).then(|| settings.read_settings()),
        account: (!is_labelled).then(|| settings.account_settings()),
        timeframe,
        label,
        inputs: inputs.map(|i| ModelInput { name: i.name.clone(), columns: i.columns.clone() }).collect(),
        symbols: source.ids.symbols(),
        judged: source.judged(),
        data: source.fingerprint.clone(),
        split: learner.scalers().first().map(|scaler| hex(scaler.split)),
        // To the end of the data: their last bars have no label, and are locked all the same.
        holdout: splits.holdout.as_ref().map(|h| {
            let last = source.ticks.last().map_or(i64::MIN, |tick| tick.saturating_add(1));
            (h.span.from(), h.span.to().max(last))
        }),
        threshold: None,
        folds: splits.folds.iter().map(fold).collect(),
        refit: settings.refit.clone(),
        // Policies decide on a processor, whatever they were trained on.
        pins: if is_labelled { pins(experiment, selected)? } else { Pins::default() },
    };
    json_text(&model)
}

/// The algorithms of predictions by the selected configs.
fn pins(experiment: &Experiment, selected: &[usize]) -> Result<Pins> {
    let mut all = Pins::default();
    for number in selected {
        let config = &experiment.learner.configs()[*number];
        let kept = experiment.pins.get(&experiment.learner.alike(*number)).cloned().unwrap_or_default();
        all.0.extend(predict_pins(&experiment.at.device, &config.net, &config.recipe, &kept).map_err(failed)?.0);
    }
    Ok(all)
}

/// A model that was read: what it says, and its members' weights. Folds are found by their place: some may have been
/// taken out.
pub(crate) struct Loaded {
    pub(crate) model: Model,
    /// `[folds]`
    pub(crate) nets: Vec<Net>,
    /// `[folds]`
    pub(crate) scalers: Vec<Scaler>,
    /// `[folds][seeds]` rows of the arena.
    pub(crate) params: Vec<Vec<Vec<f32>>>,
    /// `[folds]` the market that its members search in; none where they do not.
    pub(crate) markets: Vec<Option<Arc<FoldMarket>>>,
    /// What could not be checked.
    pub(crate) note: Option<String>,
}

/// What a model's folder, or a run's, says; its weights are not read.
pub(crate) struct About {
    pub(crate) folder: PathBuf,
    pub(crate) model: Model,
    /// None in models of older versions.
    manifest: Option<ModelManifest>,
    /// What could not be checked.
    pub(crate) note: Option<String>,
}

/// Opens a model: what it says of itself, held against its manifest and the ledger.
pub(crate) fn about(path: &Path) -> Result<About> {
    let run = find_run(path)?;
    let folder: PathBuf = if run.join(JSON).exists() { run } else { run.join("model") };
    let json = folder.join(JSON);
    let bad = |what: String| {
        let remedy = "give the folder of a run as it was written; train again with `fullbore train`";
        Error::new(Kind::State, what).at(&json).remedy(remedy)
    };
    let text = files::read_file(&json, LONGEST).map_err(|e| match json.exists() {
        true => e,
        false => e.remedy(
            "give the folder of a finished run (`fullbore runs list` shows them) that walks forward: kfold and cpcv \
             leave no model",
        ),
    })?;
    let manifest = ModelManifest::read(&folder, &ledger_path()?)?;
    if let Some((manifest, _)) = &manifest {
        manifest.check(&folder, JSON, &text)?;
    }
    let model: Model = serde_json::from_slice(&text).map_err(|e| bad(format!("it is not a model: {e}")))?;
    if !FORMATS.contains(&model.format) {
        let [first, .., last] = FORMATS;
        return Err(bad(format!("a model of format {}; this version reads formats {first} to {last}", model.format)));
    }
    check(&model).map_err(bad)?;
    let (manifest, note) = match manifest {
        Some((manifest, note)) => (Some(manifest), note),
        None if model.format < FORMATS[2] => {
            let note = "the model is of a version that wrote no manifest: whether it was changed cannot be seen";
            (None, Some(note.into()))
        }
        None => return Err(bad("the model was changed: its MANIFEST is missing".into())),
    };
    Ok(About { folder, model, manifest, note })
}

/// Whether the parts of a model fit each other: a person may have shortened or changed it. Some of its folds are a
/// model too, in their order.
fn check(model: &Model) -> Result<(), String> {
    match (model.learner.info().is_labelled, model.classes) {
        (true, 2..=3) | (false, 0) => {}
        (true, classes) => return Err(format!("{classes} classes; a model has 2 or 3")),
        (false, classes) => return Err(format!("{classes} classes; a policy has none")),
    }
    if model.holdout.is_some_and(|(from, to)| from >= to) || (model.set.is_some() && model.symbols.is_empty()) {
        return Err("the locked part of its data is not known: its holdout or its symbols are missing".into());
    }
    if let Some(hole) = model.max_hole.filter(|hole| i64::try_from(*hole).is_err()) {
        return Err(format!("max_hole cannot be {hole}"));
    }
    if model.folds.iter().all(|fold| fold.seeds.is_empty()) {
        return Err("none of its folds has a member, so it cannot predict".into());
    }
    for pair in model.folds.windows(2) {
        let [a, b] = [&pair[0], &pair[1]];
        if a.number >= b.number || a.test_from >= b.test_from {
            return Err(format!("fold {} follows fold {}, which is not the order of time", b.number + 1, a.number + 1));
        }
    }
    for fold in &model.folds {
        let wrong = |what: String| Err(format!("fold {}: {what}", fold.number.saturating_add(1)));
        if fold.test_from >= fold.test_to {
            return wrong("its test ends before it begins".into());
        }
        let config = fold.config.as_ref().map_or(1, |c| c.number);
        let possible = |seed: &u32| {
            config
                .checked_sub(1)
                .is_some_and(|config| MemberKey { config, fold: fold.number, seed: *seed }.is_possible())
        };
        if let Some(seed) = fold.seeds.iter().find(|seed| !possible(seed)) {
            return wrong(format!("seed {seed} of config {config} cannot be a member"));
        }
        if (1..fold.seeds.len()).any(|at| fold.seeds[..at].contains(&fold.seeds[at])) {
            return wrong("a seed is in it twice".into());
        }
        if let Some(seed) = fold.flat.iter().chain(fold.net_flat()).find(|seed| !fold.seeds.contains(seed)) {
            return wrong(format!("seed {seed} stays flat, and is not in it"));
        }
    }
    Ok(())
}

/// Reads a model from its folder, or from a run's, with the weights of its members.
pub(crate) fn read(path: &Path) -> Result<Loaded> {
    let About { folder, model, manifest, note } = about(path)?;
    let json = folder.join(JSON);
    let bad =
        |what: String| Error::new(Kind::State, what).at(&json).remedy("give the folder of a run as it was written");
    let (mut params, mut scalers, mut nets, mut markets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for fold in &model.folds {
        let number = fold.number + 1;
        let text = fold.config.as_ref().map_or(&model.net, |c| &c.net);
        let net: Net = text.parse().map_err(|e: compute::Error| bad(e.to_string()))?;
        let layout = Layout::new(&net).map_err(failed)?;
        let heads: Vec<usize> = net.heads.iter().map(|head| head.classes).collect();
        if !model.learner.info().is_labelled {
            // The policy's own head; beside it may be a value's.
            let policy = Actions::of(&net).outputs();
            if !(heads == [policy] || heads == [policy, 1]) || net.extras() != OBSERVED {
                return Err(bad(format!("the net `{net}` of fold {number} is not a policy's")));
            }
        } else if heads != [model.classes] || net.extras() != 0 {
            let classes = model.classes;
            return Err(bad(format!(
                "the model has {classes} classes, and the net `{net}` of fold {number} has another number"
            )));
        }
        // What an account is shown is no table, and has fixed units.
        let tables: Vec<&compute::net::Input> = net.inputs.iter().filter(|input| !input.dense).collect();
        let columns = |(input, of): (&ModelInput, &&compute::net::Input)| input.columns.len() == of.features;
        if model.inputs.len() != tables.len() || !model.inputs.iter().zip(&tables).all(columns) {
            return Err(bad(format!("the inputs of the model are not those of the net `{net}` of fold {number}")));
        }
        let fits = fold.scales.len() == tables.len()
            && fold.scales.iter().zip(&tables).all(|(s, i)| [s.mean.len(), s.inverse.len()] == [i.features; 2]);
        if !fits {
            return Err(bad(format!("the scales of fold {number} do not fit the net `{net}`")));
        }
        let scales = fold.scales.iter().map(|s| Scale { mean: s.mean.clone(), inverse: s.inverse.clone() }).collect();
        scalers.push(scaler(&model, fold, scales).map_err(|e| e.at(&json))?);
        let weights = |seed: &u32| {
            let config = fold.config.as_ref().map(|c| c.number.saturating_sub(1));
            let name = member_file(config, fold.number, *seed);
            let path = folder.join(&name);
            // Its size is known before it is read: the numbers, and a head that names the tensors.
            let most = layout.parameters() as u64 * 4 + (1 << 20);
            let bytes = files::read_file(&path, manifest.as_ref().and_then(|m| m.length(&name)).unwrap_or(most))?;
            manifest.as_ref().map_or(Ok(()), |m| m.check(&folder, &name, &bytes))?;
            load(&net, &layout, &bytes).map_err(|e| Error::new(Kind::State, e.to_string()).at(&path))
        };
        params.push(fold.seeds.iter().map(weights).collect::<Result<Vec<_>>>()?);
        let market = || {
            let name = market_file(fold.number);
            let path = folder.join(&name);
            let bytes = files::read_file(&path, manifest.as_ref().and_then(|m| m.length(&name)).unwrap_or(0))?;
            manifest.as_ref().map_or(Ok(()), |m| m.check(&folder, &name, &bytes))?;
            FoldMarket::from_bytes(&bytes).map(Arc::new).map_err(|e| Error::new(Kind::State, e.to_string()).at(&path))
        };
        markets.push(fold.search.is_some().then(market).transpose()?);
        nets.push(net);
    }
    Ok(Loaded { model, nets, scalers, params, markets, note })
}

/// A fold's scaler; one that is of another run, or has seen its fold's test, is refused. Models of older versions do
/// not say.
fn scaler(model: &Model, fold: &ModelFold, scales: Vec<Scale>) -> Result<Scaler> {
    let bad = |text: &str| Error::new(Kind::State, format!("`{text}` is not a split"));
    let split = |text: &str| u64::from_str_radix(text, 16).map_err(|_| bad(text));
    let own = model.split.as_deref().map_or(Ok(0), split)?;
    let Some(fitted) = &fold.fitted else {
        let fit_to = fold.test_from;
        return Ok(Scaler { fold: fold.number, split: own, data: model.data.clone(), fit_to, scales });
    };
    let (split, data, fit_to) = (split(&fitted.split)?, fitted.data.clone(), fitted.to);
    let scaler = Scaler { fold: fold.number, split, data, fit_to, scales };
    scaler.belongs(own, &model.data)?;
    scaler.precedes(fold.test_from)?;
    Ok(scaler)
}

/// The name of a split as text.
pub(crate) fn hex(split: u64) -> String {
    format!("{split:016x}")
}

/// The hash of a list of symbols: a universe is part of a model that reads the whole market.
pub(crate) fn universe(symbols: &[String]) -> String {
    let mut hash = Fingerprint::new();
    symbols.iter().for_each(|symbol| hash.add_text(symbol));
    hash.to_hex()
}
