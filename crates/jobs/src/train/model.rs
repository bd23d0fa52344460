//! The model as a folder: weights, scalers, feature set, label, universe; all that `predict` needs, in files that a person can read.
//!
//! `model.json` says what it is; `fold-3-seed-1.safetensors` are a member's best weights. Where several configs were tried, each fold has the
//! members of the one that was chosen for it, and says which.

use super::judged::Taken;
use super::source::{Ids, Source};
use super::{Learner, folder};
use bars::Fingerprint;
use compute::Net;
use compute::net::{Layout, load, save};
use compute::population::{Recipe, Scale};
use files::{Error, Kind, Result, replace_bytes};
use judge::split::Splits;
use learn::classify::{Classify, Plan, Trained};
use learn::failed;
use learn::scale::Scaler;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Changes when an older program could not read it: 2 where a fold has a net of its own.
const FORMATS: [u32; 2] = [1, 2];

/// What `model.json` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Model {
    pub(crate) format: u32,
    pub(crate) program: String,
    pub(crate) learner: Learner,
    pub(crate) net: String,
    pub(crate) classes: usize,
    /// How it was trained; precision decides how it is asked.
    pub(crate) recipe: Recipe,
    /// The feature set as text; none for ready arrays.
    pub(crate) set: Option<String>,
    /// Holes that indicators step over; part of what a feature is.
    pub(crate) max_hole: Option<usize>,
    pub(crate) timeframe: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) inputs: Vec<ModelInput>,
    /// What it was trained on, in order.
    pub(crate) symbols: Vec<String>,
    pub(crate) data: String,
    /// The part of its own data that stays locked, `[from, to)` in nanoseconds.
    pub(crate) holdout: Option<(i64, i64)>,
    /// The guess is the class of the largest probability.
    pub(crate) threshold: Option<f64>,
    pub(crate) folds: Vec<ModelFold>,
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
    /// `[inputs]`
    pub(crate) scales: Vec<ModelScale>,
    pub(crate) seeds: Vec<u32>,
    /// What was chosen for it, where several configs were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<ModelConfig>,
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

/// A member's file; `config`, from 0, where there are several.
pub(crate) fn file(config: Option<usize>, fold: usize, seed: u32) -> String {
    let config = config.map_or(String::new(), |c| format!("config-{}-", c + 1));
    format!("{config}fold-{}-seed-{}.safetensors", fold + 1, seed + 1)
}

/// Writes the model of a finished run.
pub(crate) fn write(
    folder: &Path,
    source: &Source,
    splits: &Splits,
    plan: &Plan,
    settings: &crate::Settings,
    how: &Classify<'_>,
    taken: Taken<'_>,
) -> Result<()> {
    let Taken { members, configs: chosen } = taken;
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "making the folder of the model", &e))?;
    let several = how.configs() > 1;
    let own: Vec<Classify<'_>> = chosen.iter().map(|config| how.of(*config)).collect();
    let of_fold = |m: &&Trained| chosen.get(m.fold) == Some(&m.config);
    let kept = || members.iter().filter(of_fold).filter_map(|m| Some((m, m.best.as_ref()?)));
    for (member, best) in kept() {
        let net = &own[member.fold].net;
        let bytes = save(net, &Layout::new(net).map_err(failed)?, &best.params);
        let config = several.then_some(member.config);
        replace_bytes(&folder.join(file(config, member.fold, member.seed)), &bytes)?;
    }
    let (set, timeframe, label) = match &source.ids {
        Ids::Bars { data, set, label } => {
            (Some(set.clone()), Some(data.base.timeframe.to_string()), label.as_ref().map(|l| l.rule.clone()))
        }
        Ids::Ready { .. } => (None, None, None),
    };
    let fold = |f: &features::Fold| ModelFold {
        number: f.number,
        test_from: f.spans.test.from(),
        test_to: f.spans.test.to(),
        scales: plan.scalers[f.number]
            .scales
            .iter()
            .map(|s| ModelScale { mean: s.mean.clone(), inverse: s.inverse.clone() })
            .collect(),
        seeds: kept().filter(|(m, _)| m.fold == f.number).map(|(m, _)| m.seed).collect(),
        config: several.then(|| ModelConfig {
            number: chosen[f.number] + 1,
            net: own[f.number].net.to_string(),
            recipe: own[f.number].recipe,
        }),
    };
    // What the newest fold has stands for all where only one is shown.
    let newest = own.last().map_or(how, |own| own);
    let inputs = source.problem.inputs.iter();
    let model = Model {
        format: FORMATS[usize::from(several)],
        program: env!("CARGO_PKG_VERSION").into(),
        learner: settings.train.learner,
        net: newest.net.to_string(),
        classes: source.problem.classes,
        recipe: newest.recipe,
        set,
        max_hole: settings.features.max_hole,
        timeframe,
        label,
        inputs: inputs.map(|i| ModelInput { name: i.name.clone(), columns: i.columns.clone() }).collect(),
        symbols: source.ids.symbols(),
        data: source.fingerprint.clone(),
        // To the end of the data: their last bars have no label, and are locked all the same.
        holdout: splits.holdout.as_ref().map(|h| {
            let last = source.ticks.last().map_or(i64::MIN, |tick| tick.saturating_add(1));
            (h.span.from(), h.span.to().max(last))
        }),
        threshold: None,
        folds: splits.folds.iter().map(fold).collect(),
    };
    folder::write_json(&folder.join("model.json"), &model)
}

/// A model that was read: what it says, and its members' weights.
pub(crate) struct Loaded {
    pub(crate) model: Model,
    /// `[folds]`
    pub(crate) nets: Vec<Net>,
    /// `[folds]`
    pub(crate) scalers: Vec<Scaler>,
    /// `[folds][seeds]` rows of the arena.
    pub(crate) params: Vec<Vec<Vec<f32>>>,
}

/// Reads a model from its folder, or from a run's.
pub(crate) fn read(path: &Path) -> Result<Loaded> {
    let folder: PathBuf = if path.join("model.json").is_file() { path.to_path_buf() } else { path.join("model") };
    let json = folder.join("model.json");
    let bad = |what: String| Error::new(Kind::State, what).at(&json);
    let text = std::fs::read(&json).map_err(|e| {
        Error::io(&json, "reading the model", &e)
            .remedy("give the folder of a finished run; `fullbore runs list` shows them")
    })?;
    let model: Model = serde_json::from_slice(&text).map_err(|e| bad(format!("it is no model: {e}")))?;
    if !FORMATS.contains(&model.format) {
        let [first, last] = FORMATS;
        return Err(bad(format!("a model of format {}; this version reads formats {first} to {last}", model.format)));
    }
    let (mut params, mut scalers, mut nets) = (Vec::new(), Vec::new(), Vec::new());
    for fold in &model.folds {
        let text = fold.config.as_ref().map_or(&model.net, |c| &c.net);
        let net: Net = text.parse().map_err(|e: compute::Error| bad(e.to_string()))?;
        let layout = Layout::new(&net).map_err(failed)?;
        let fits = fold.scales.len() == net.inputs.len()
            && fold.scales.iter().zip(&net.inputs).all(|(s, i)| [s.mean.len(), s.inverse.len()] == [i.features; 2]);
        if !fits {
            return Err(bad(format!("the scales of fold {} do not fit the net `{net}`", fold.number + 1)));
        }
        let scales = fold.scales.iter().map(|s| Scale { mean: s.mean.clone(), inverse: s.inverse.clone() }).collect();
        scalers.push(Scaler { fold: fold.number, scales });
        let weights = |seed: &u32| {
            let config = fold.config.as_ref().map(|c| c.number.saturating_sub(1));
            let path = folder.join(file(config, fold.number, *seed));
            let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "reading weights", &e))?;
            load(&net, &layout, &bytes).map_err(|e| Error::new(Kind::State, e.to_string()).at(&path))
        };
        params.push(fold.seeds.iter().map(weights).collect::<Result<Vec<_>>>()?);
        nets.push(net);
    }
    Ok(Loaded { model, nets, scalers, params })
}

/// The hash of a list of symbols: a universe is part of a model that reads the whole market.
pub(crate) fn universe(symbols: &[String]) -> String {
    let mut hash = Fingerprint::new();
    symbols.iter().for_each(|symbol| hash.text(symbol));
    hash.hex()
}
