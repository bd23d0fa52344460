//! What `tune` keeps at home and `train` takes from there: a recipe and a pace for a workload on a machine.

use crate::train::{Ids, Source};
use crate::{Settings, home};
use compute::Opened;
use compute::population::{Precision, Recipe};
use files::Result;
use machine::{CandidateRow, TunedEntry, load_entry, machine_key, save_entry, tuned_path};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What was chosen for a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunedRecipe {
    /// Rows of a batch, or of a minibatch: recipe.
    pub batch: usize,
    /// How numbers are held: recipe.
    pub precision: Precision,
    /// Threads of the processor: pace; null leaves it to the settings.
    pub threads: Option<usize>,
    /// Members at once: pace; null for as many as fit.
    pub members_at_once: Option<usize>,
    /// The gradient noise scale it was chosen by, in rows; null where none was found.
    pub noise_scale: Option<f64>,
    /// Environments of a policy: recipe; null for a learner without them.
    #[serde(default)]
    pub n_envs: Option<usize>,
    /// Steps of each environment in an update: recipe.
    #[serde(default)]
    pub n_steps: Option<usize>,
    /// Individuals that a thread takes at once: pace; null goes by the rule.
    #[serde(default)]
    pub at_once: Option<usize>,
    /// Whether threads stay on cores of their own: pace.
    #[serde(default)]
    pub pinned: bool,
    /// Roots of a search in one batch: recipe, since accounts are as many; null for a learner that does not search.
    #[serde(default)]
    pub roots: Option<usize>,
    /// Simulations of each: recipe.
    #[serde(default)]
    pub simulations: Option<usize>,
}

impl TunedRecipe {
    /// Batch and precision of a recipe, and members at once; the rest is left open.
    pub(super) fn new(recipe: &Recipe, members_at_once: Option<usize>) -> TunedRecipe {
        TunedRecipe {
            batch: recipe.batch,
            precision: recipe.precision,
            threads: None,
            members_at_once,
            noise_scale: None,
            n_envs: None,
            n_steps: None,
            at_once: None,
            pinned: false,
            roots: None,
            simulations: None,
        }
    }
}

/// A recipe, and when it was tuned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Tuned {
    pub(crate) at: String,
    pub(crate) recipe: TunedRecipe,
}

/// Winners of another version are measured anew.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The workload's name: what a choice depends on and a new bar of the same data does not change.
pub(crate) fn workload(source: &Source, settings: &Settings, device: &Opened) -> String {
    let problem = &source.problem;
    let label = match &source.ids {
        Ids::Bars { label, .. } => label.as_ref().map_or(String::new(), |l| l.rule.clone()),
        Ids::Ready { .. } => "ready".into(),
    };
    let device = match device {
        Opened::Cpu { .. } => "cpu".to_string(),
        Opened::Cuda(context) => format!("{} ({})", context.device(), context.gpu().name),
    };
    let precision = settings.train.precision.map_or(json!("auto"), |p| json!(p));
    let mut words = json!({
        "learner": settings.train.learner,
        "net": source.nets[0].to_string(),
        "labels": label,
        "classes": problem.classes,
        // Data that grow by a day are the same workload.
        "samples": format!("about 2^{:.0}", (problem.samples.len().max(1) as f64).log2()),
        "precision": precision,
        "device": device,
    });
    let own = settings.train.learner.kind().tuned_for(settings, &source.nets[0]);
    if let Value::Object(own) = own {
        own.into_iter().for_each(|(name, value)| words[name] = value);
    }
    format!("{} {words}", settings.train.learner.info().task)
}

/// Whether settings leave everything open that is tuned together: what was tuned is taken whole or not at all.
pub(crate) fn is_open(settings: &mut Settings) -> bool {
    let kind = settings.train.learner.kind();
    let together = ["batch", "ppo.n_envs", "ppo.n_steps", "evolve.population", "search.roots", "search.simulations"];
    // What is tuned is tuned for one way of searching.
    let searches = ["scenarios", "codes", "horizon", "rule"].map(|key| format!("search.{key}"));
    let together = together.into_iter().chain(["evolve.algorithm", "evolve.rank"]);
    let together = together.chain(searches.iter().map(String::as_str));
    let tried = together.into_iter().any(|key| settings.has_candidates(key));
    let shape = kind.rollout(settings).is_none_or(|r| r.n_envs.is_none() && r.n_steps.is_none());
    let searching = kind.searching(settings).is_none_or(|own| own.into_iter().all(|(_, own)| own.is_none()));
    !tried && shape && searching && kind.batch(settings).is_none()
}

/// What was tuned for this workload here, if anything was; what is wrong with the file goes to `notes`.
pub(crate) fn find(source: &Source, settings: &Settings, device: &Opened, notes: &mut Vec<String>) -> Option<Tuned> {
    let path = home().ok().map(|home| tuned_path(&home)).filter(|path| path.exists())?;
    let entry = load_entry(&path, &machine_key(), &workload(source, settings, device), VERSION, notes)?;
    match serde_json::from_value(entry.choice) {
        Ok(recipe) => Some(Tuned { at: entry.at.unwrap_or_default(), recipe }),
        Err(why) => {
            notes.push(format!("what was tuned for this workload cannot be used: {why}; run `fullbore tune` again"));
            None
        }
    }
}

/// Keeps a choice, and says where.
pub(super) fn keep(
    machine: String,
    workload: String,
    tuned: &Tuned,
    rows: Vec<CandidateRow>,
    notes: &mut Vec<String>,
) -> Result<PathBuf> {
    let path = tuned_path(&home()?);
    let entry = TunedEntry {
        machine,
        workload,
        version: VERSION.into(),
        winner: tuned.recipe.batch.to_string(),
        rows,
        at: Some(tuned.at.clone()),
        choice: json!(tuned.recipe),
    };
    save_entry(&path, entry, notes)?;
    Ok(path)
}
