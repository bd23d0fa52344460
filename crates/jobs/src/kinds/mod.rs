//! The learners that can be chosen by name. A [`Kind`] says what differs from one to the next: what it reads, what
//! it is trained with, what makes it another run or another trial, by what its members are selected, how they are
//! judged and what the model's folder holds. Everything else is the same for all.
//!
//! A new learner is a file here, its entry in [`LEARNERS`], its settings, and its folder in `learn`.

#[cfg(test)]
mod bandit;
pub(crate) mod classifier;
mod evolve;
mod importance;
mod lstm;
pub(crate) mod manifest;
pub(crate) mod market_models;
mod mlp;
pub(crate) mod model;
mod paths;
mod pbt;
mod policies;
mod ppo;
mod price_trend;
mod search;
pub(crate) mod test_blocks;
pub(crate) mod trading;

pub use paths::{PathRecord, PathsRecord};

pub(crate) use evolve::{ACCOUNTS, GENERATIONS, STEPS};
pub use importance::ColumnImportance;
pub use market_models::{ForecastRow, HeldOut, MarketModelRow};
pub(crate) use ppo::{UPDATES, UPDATES_LEAST};
pub(crate) use search::{SearchRule, has_memory, timesteps as search_timesteps};

use crate::Settings;
use crate::train::{Answer, Experiment, Judged, ModelRows, Source};
use compute::Opened;
use features::{Input, InputLayout};
use files::{Error, Result, format_fixed};
use judge::backtest::{Backtest, Latency};
use judge::evidence::Findings;
use judge::ledger::StartedTrial;
use judge::split::Splits;
use learn::{Learner, Trained, Validation};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// Every learner by name; the first is the default.
pub(crate) const LEARNERS: &[(&str, LearnerKind)] = &[
    ("lstm", LearnerKind(&lstm::LSTM)),
    ("mlp", LearnerKind(&mlp::MLP)),
    ("ppo", LearnerKind(&ppo::PpoKind)),
    ("evolve", LearnerKind(&evolve::EvolveKind)),
    ("search", LearnerKind(&search::SearchKind)),
    #[cfg(test)]
    ("bandit", LearnerKind(&bandit::BanditKind)),
];

/// What differs from learner to learner.
pub(crate) trait Kind: Sync {
    /// What it is and what it reads.
    fn info(&self) -> KindInfo;

    /// The net for these inputs, as text: the one that was set, or its own. Without labels there are no classes.
    fn net(&self, settings: &Settings, inputs: &[Input], classes: usize) -> String;

    /// Refuses a net that was set and is none for it, where the reader of nets would advise what it refuses too.
    fn refuse_net(&self, _settings: &Settings) -> Result<()> {
        Ok(())
    }

    /// The learner on its data, with a config for each combination of what is tried.
    fn learner(
        &self,
        source: &Source,
        splits: &Splits,
        settings: &Settings,
        device: &Opened,
    ) -> Result<Box<dyn Learner>>;

    /// Sets what its settings leave open and what changes a bit, by a fixed rule of data and kind of device; the batch
    /// apart, which goes by [`Kind::batch`].
    fn fill_in(&self, _settings: &mut Settings, _source: &Source, _device: &Opened) {}

    /// Fits what its settings say of an update to the timesteps and to the parts that are trained on, and takes it down
    /// into them; what was changed, as notes. Settings that leave no training are refused.
    fn fit(&self, _settings: &mut Settings, _source: &Source, _splits: &Splits) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Makes units of work smaller where a budget leaves fewer of them than a training should have, as far as they were
    /// left open: how many there are then, and that they are smaller or few, as a note.
    fn fit_units(&self, _settings: &mut Settings, units: usize) -> (usize, Option<String>) {
        (units, None)
    }

    /// What does not run on the device that was opened, and why, as notes.
    fn device_notes(&self, _settings: &Settings, _source: &Source, _device: &Opened) -> Vec<String> {
        Vec::new()
    }

    /// Fits what was tuned to the timesteps of these settings, which it is in already; what was changed, as a note.
    fn fit_tuned(&self, _settings: &mut Settings) -> Option<String> {
        None
    }

    /// What a tuned choice depends on beside learner, net, data and device; null for nothing.
    fn tuned_for(&self, _settings: &Settings, _net: &compute::Net) -> Value {
        Value::Null
    }

    /// Where its settings say what an update is made of; none of a learner without environments.
    fn rollout<'s>(&self, _settings: &'s mut Settings) -> Option<RolloutSettings<'s>> {
        None
    }

    /// Where its settings say how accounts are searched, by key: accounts, steps, roots and simulations. `None` there
    /// leaves it to a rule or to the tuner; none of a learner that does not search.
    fn searching<'s>(&self, _settings: &'s mut Settings) -> Option<[(&'static str, &'s mut Option<usize>); 4]> {
        None
    }

    /// What changes a bit beside nets, recipes, rates, members and data, as text.
    fn identity(&self, settings: &Settings) -> String;

    /// Where its settings say how many rows a batch has; `None` there leaves it to a rule or to the tuner.
    fn batch<'s>(&self, settings: &'s mut Settings) -> &'s mut Option<usize> {
        &mut settings.classify.batch
    }

    /// The learning rate that goes with a batch.
    fn rate(&self, settings: &Settings, batch: usize) -> f32;

    /// Where that rate comes from, in words.
    fn rate_rule(&self, settings: &Settings) -> &'static str;

    /// The figures of a validation, in the order of a log row.
    fn figures(&self, settings: &Settings) -> &'static [Figure];

    /// More of a validation, that follows from its figures and from settings; `rate` are samples a second.
    fn more_figures(&self, _of: &Validated<'_>, _rate: f64) -> Vec<MoreFigure> {
        Vec::new()
    }

    /// Where a validation lies on the axis of TensorBoard; steps of the optimiser unless a learner has its own.
    fn event_step(&self, of: &Validated<'_>) -> u64 {
        u64::from(of.validation.step)
    }

    /// Opens a model of this kind on bars: what it says of their rows, and who decides by it.
    fn open(&self, _asked: ModelRows<'_>) -> Result<Answer> {
        Err(Error::new(files::Kind::State, format!("a run of `{}` leaves no model", self.info().name)))
    }

    /// Puts members whose training has ended to the test, on what they never learned from.
    fn evaluate<'a>(&self, experiment: &'a Experiment, members: &'a [Trained]) -> Result<Box<dyn Evaluation + 'a>>;
}

/// What a learner is and what it reads.
pub(crate) struct KindInfo {
    /// As in `--learner NAME`.
    pub(crate) name: &'static str,
    /// What it learns to do: `classify`. Verbs that are about classes alone refuse others.
    pub(crate) task: &'static str,
    /// Whether its samples are rows with a label; else rows at which an account can take a step, without a class.
    pub(crate) is_labelled: bool,
    /// How columns become inputs.
    pub(crate) layout: InputLayout,
    /// The features of data with so many symbols where none were chosen.
    pub(crate) features: fn(usize) -> &'static str,
    /// The figures of a member's and of a config's line of the result: first what members are selected by, one of the
    /// figures of a validation, then those on test samples, the one that the run is summed up by first.
    pub(crate) metrics: &'static [Metric],
    /// Whether its judging is slow enough that decisions are counted for people.
    pub(crate) counts_decisions: bool,
}

impl KindInfo {
    /// What training counts and is timed by: samples, or steps of accounts.
    pub(crate) fn counted(&self) -> &'static str {
        if self.is_labelled { "samples" } else { "steps" }
    }
}

/// What an update of a learner with environments is made of; `None` leaves it to a rule or to the tuner.
pub(crate) struct RolloutSettings<'s> {
    pub(crate) n_envs: &'s mut Option<usize>,
    pub(crate) n_steps: &'s mut Option<usize>,
    /// Steps of all environments of a member in its whole training.
    pub(crate) timesteps: usize,
}

/// Trained members on the test samples of their folds.
pub(crate) trait Evaluation {
    /// The test figures of a member, in the order of [`KindInfo::metrics`]; none where it has no weights.
    fn test_figures(&self, member: usize) -> Result<Vec<Option<f64>>>;

    /// What a member is deployed as, in a word; none of learners that do not trade.
    fn deployed(&self, _member: usize) -> Option<&'static str> {
        None
    }

    /// What the members are worth together where each fold takes the config that `config_of` names; none where
    /// there is nothing to judge.
    fn judge(&self, config_of: &dyn Fn(usize) -> usize) -> Result<Option<Judged>>;

    /// What each column is worth; `selected` `[folds]` is the config of each fold. Empty where a learner cannot say.
    fn importance(&self, _selected: &[usize]) -> Result<Vec<ColumnImportance>> {
        Ok(Vec::new())
    }

    /// What is worth knowing of single members.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Trades the test blocks; `selected` `[folds]` is the config of each fold. None where a learner does not.
    fn trade(&mut self, _selected: &[usize]) -> Result<Option<Backtest>> {
        Ok(None)
    }

    /// What the paths of folds that train around their tests are worth, once they were traded; none of other folds.
    fn paths(&self) -> Option<PathsRecord> {
        None
    }

    /// The market models that members search in, a row for each fold; empty where they do not search.
    fn market_models(&self) -> Vec<MarketModelRow> {
        Vec::new()
    }

    /// How long decisions take, once the test blocks were traded; none of learners that do not search.
    fn latency(&self) -> Option<Latency> {
        None
    }

    /// Keeps the daily returns of every config, and gives their ids, `[configs]`; nothing where a learner does not
    /// trade.
    fn keep_returns(&self) -> Result<Vec<Option<String>>> {
        Ok(Vec::new())
    }

    /// What is known of the result, for the verdict, and the daily returns that it is of.
    fn findings(&self, _judged: &Judged) -> Option<(Findings, Vec<f64>)> {
        None
    }

    /// Makes the model ready to be written, so that the ledger can know it first; `selected` `[folds]` is the config of
    /// each fold. None where a learner has none.
    fn seal(&self, _selected: &[usize], _trials: &[StartedTrial]) -> Result<Option<model::Sealed>> {
        Ok(None)
    }

    /// Writes the results and the model into the run folder.
    fn save(&self, selected: &[usize], folder: &Path, sealed: Option<&model::Sealed>) -> Result<()>;
}

/// A figure of a validation.
pub(crate) struct Figure {
    /// Its key in a log row: `valid_loss`.
    pub(crate) name: &'static str,
    /// Its tag in TensorBoard: `valid/loss`.
    pub(crate) tag: &'static str,
    /// Its name in a line for people: `validation`; none where it is not shown there.
    pub(crate) label: Option<&'static str>,
}

/// A validation, with what it is of.
pub(crate) struct Validated<'a> {
    /// The settings of its config.
    pub(crate) settings: &'a Settings,
    /// How many members train at once.
    pub(crate) members: usize,
    /// Whether positions may be short, in any symbol; ready arrays have none.
    pub(crate) shortable: bool,
    /// Seconds since the program began to train.
    pub(crate) seconds: f64,
    pub(crate) validation: &'a Validation,
}

/// A figure that is worked out when it is written down.
pub(crate) struct MoreFigure {
    /// Its key in a log row; none where it is for TensorBoard alone.
    pub(crate) name: Option<&'static str>,
    /// Its tag in TensorBoard.
    pub(crate) tag: &'static str,
    pub(crate) value: f64,
}

/// A figure of a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its key in logs and results: `valid_mcc`.
    pub name: &'static str,
    /// Which samples it is of: `valid` or `test`.
    pub part: &'static str,
    /// What it is, for people: `MCC`.
    pub label: &'static str,
    /// What is behind the number: ` %`.
    pub unit: &'static str,
    /// Digits behind the point.
    pub decimals: usize,
    /// Whether a larger value is the better one.
    pub higher_is_better: bool,
    /// What a member without any value counts as.
    pub worst: f64,
}

impl Metric {
    /// The figure of a score, of which a larger one is always better; and back.
    pub(crate) fn signed(&self, score: f64) -> f64 {
        if self.higher_is_better { score } else { -score }
    }

    /// A value for people.
    pub fn format(&self, value: Option<f64>) -> String {
        value.map_or("-".into(), |x| format_fixed(x, self.decimals) + self.unit)
    }

    /// The head of its column: `valid MCC`.
    pub fn head(&self) -> String {
        format!("{} {}", self.part, self.label)
    }
}

/// A metric and its value; none where it is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// What it is.
    pub metric: Metric,
    /// Its value.
    pub value: Option<f64>,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric.format(self.value))
    }
}

/// The metrics of all learners, those of the default one first.
pub(crate) fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    LEARNERS.iter().flat_map(|(_, kind)| kind.info().metrics)
}

/// A learner that can be chosen by name.
#[derive(Clone, Copy)]
pub struct LearnerKind(&'static dyn Kind);

impl LearnerKind {
    /// As in `--learner NAME`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// What its training counts and is timed by: samples, or steps of accounts.
    pub fn counted(self) -> &'static str {
        self.info().counted()
    }

    /// Refuses a learner that tells no classes apart, for verbs that are about them.
    pub(crate) fn expect_classes(self, verb: &str) -> Result<()> {
        let KindInfo { name, task, .. } = self.info();
        if task == classifier::TASK {
            return Ok(());
        }
        let what = format!("{verb} is about classes, and `{name}` learns to {task}");
        Err(Error::new(files::Kind::Usage, what).remedy(format!("choose <train.learner={}>", LEARNERS[0].0)))
    }

    /// What it is and what it reads.
    pub(crate) fn info(self) -> KindInfo {
        self.0.info()
    }

    /// What differs from other learners.
    pub(crate) fn kind(self) -> &'static dyn Kind {
        self.0
    }
}

impl PartialEq for LearnerKind {
    fn eq(&self, other: &LearnerKind) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for LearnerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for LearnerKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for LearnerKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LearnerKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = LEARNERS.iter().find(|(own, _)| *own == name);
        known.map(|(_, kind)| *kind).ok_or_else(|| D::Error::custom(format!("there is no learner `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learners_are_found_by_name() {
        for (name, kind) in LEARNERS {
            assert_eq!(kind.name(), *name);
            let text = serde_json::to_string(kind).unwrap();
            assert_eq!(
                (text.as_str(), serde_json::from_str::<LearnerKind>(&text).unwrap()),
                (&*format!("{name:?}"), *kind)
            );
            let (first, test) = kind.info().metrics.split_first().unwrap();
            assert!(
                first.part == "valid"
                    && kind.kind().figures(&Settings::default()).iter().any(|figure| figure.name == first.name)
            );
            assert!(!test.is_empty() && test.iter().all(|metric| metric.part == "test"));
        }
        assert!(serde_json::from_str::<LearnerKind>("\"rnn\"").unwrap_err().to_string().contains("rnn"));
    }
}
