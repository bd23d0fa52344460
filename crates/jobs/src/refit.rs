//! `refit`: the recipe of a judged run, trained once more on everything, as the model to trade.
//!
//! It is an experiment with one fold that has no validation and no test: data up to the end, or up to a holdout that
//! nobody has opened; as many epochs as the members of the run took in the median, on the schedule of the run; the
//! calibration and the threshold of its last fold, or of a policy which of its seeds stay flat. It comes out as a run
//! folder of its own, whose model says that it was not judged itself and which run judged its recipe.

use crate::kinds::model;
use crate::runs::finished_run;
use crate::train::{TrainRun, started_trials, stored_request, train};
use crate::{Settings, TrainEvent};
use files::{Error, Kind, Result};
use judge::backtest::SignalRule;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Which run, and where its refit goes.
#[derive(Debug, Clone, Default)]
pub struct RefitRequest {
    /// The folder of the run that was judged, or its name under `runs/`.
    pub run: PathBuf,
    /// The new run folder; `None` is `runs/NAME-LEARNER-refit-DATE`.
    pub out: Option<PathBuf>,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
}

/// Whose recipe a run trains on everything; in its `run.json` and `model.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refit {
    /// The run that judged it.
    pub run: String,
    /// Its trial in the ledger.
    pub trial: String,
    /// Epochs, or updates: the median of the best ones of its members.
    pub epochs: u32,
    /// Calibration and threshold of its last fold; null for ready arrays and policies.
    pub trading: Option<SignalRule>,
    /// Seeds that stay flat, of policies: those that did in its last fold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flat: Vec<u32>,
    /// Of policies that search, the seeds whose net stays flat without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_flat: Option<Vec<u32>>,
}

impl Refit {
    /// What whoever uses the model should know.
    pub(crate) fn note(&self) -> String {
        format!("this model was not judged itself: it is a refit on all data, and {} judged its recipe", self.run)
    }
}

/// Trains the recipe of a run on everything; threads and memory alone are taken from the settings.
pub fn refit(
    request: &RefitRequest,
    pace: &Settings,
    tell: &mut (dyn FnMut(TrainEvent<'_>) + Send),
) -> Result<TrainRun> {
    let (folder, run) = finished_run(&request.run, "its recipe is not judged")?;
    let wrong = |what: &str, remedy: String| Error::new(Kind::State, what).at(&folder).remedy(remedy);
    let about = model::about(&folder)?.model;
    if let Some(refit) = &about.refit {
        return Err(wrong("this is a refit itself", format!("refit the run that was judged: {}", refit.run)));
    }
    let newest = about.folds.iter().rev().find(|fold| !fold.seeds.is_empty());
    let Some(fold) = newest else { return Err(wrong("no fold has a member", "train again".into())) };

    // What the newest fold chose, and what followed from the data then: net, labels, features.
    let config = fold.config.as_ref().map_or(0, |config| config.number.saturating_sub(1));
    let (mut train_request, settings) = stored_request(&folder, &run)?;
    let mut all = settings.configs();
    if config >= all.len() {
        return Err(wrong("its settings do not have the config that was chosen", "train again".into()));
    }
    let mut settings = all.swap_remove(config).1;
    settings.classify.net = Some(fold.config.as_ref().map_or(&about.net, |config| &config.net).clone());
    if let Some(rule) = &about.label {
        settings.set(&format!("label.rule={rule}"))?;
    }
    let trials = started_trials(&run, &folder)?;
    let trial = trials.get(config).ok_or_else(|| wrong("run.json does not name its trial", "train again".into()))?;
    let epochs = best_epochs(&folder, config)?;
    settings.refit = Some(Refit {
        run: std::path::absolute(&folder).unwrap_or_else(|_| folder.clone()).display().to_string(),
        trial: trial.trial.clone(),
        epochs,
        trading: fold.trading.clone(),
        flat: fold.flat.clone(),
        net_flat: fold.net_flat.clone(),
    });
    // What is locked is looked up anew: a holdout may have been opened since.
    settings.held = None;
    train_request.out.clone_from(&request.out);
    train_request.device.clone_from(&request.device);
    train_request.resume = false;
    train(&train_request, &settings.with_pace(pace), tell)
}

/// The median of the epochs in which the members of a config were best, in `result.json`.
fn best_epochs(folder: &Path, config: usize) -> Result<u32> {
    let path = folder.join("result.json");
    let bad = |what: &str| Error::new(Kind::State, what).at(&path).remedy("train again with `fullbore train`");
    let result: Value = serde_json::from_slice(&files::read_file(&path, 256 << 20)?)
        .map_err(|e| bad(&format!("it is not the result of a run: {e}")))?;
    let own = result["members"].as_array().into_iter().flatten().filter(|m| m["config"] == config + 1);
    // Its unit of work is in the name: `best_epoch`, `best_update`.
    let best =
        |member: &Value| member.as_object()?.iter().find_map(|(k, v)| v.as_u64().filter(|_| k.starts_with("best_")));
    let mut best: Vec<u64> = own.filter_map(best).collect();
    best.sort_unstable();
    let middle = |at: usize| best.get(at).copied();
    let median = match best.len() {
        0 => None,
        n if n % 2 == 1 => middle(n / 2),
        n => middle(n / 2 - 1).zip(middle(n / 2)).map(|(a, b)| (a + b).div_ceil(2)),
    };
    median.and_then(|n| u32::try_from(n.max(1)).ok()).ok_or_else(|| bad("no member of the run has a best epoch"))
}
