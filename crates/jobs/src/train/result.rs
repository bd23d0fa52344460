//! A training in figures: what it is before it has begun, and what came of it.

use super::baseline::Baseline;
use super::judge::measured;
use super::phases::Phase;
use super::source::Ids;
use super::{Experiment, parameters};
use crate::kinds::{ColumnImportance, Measured, Metric};
use crate::{LabelSummary, LearnerKind, MarketModelRow, PathsRecord, Refit, Settings, SplitKind};
use compute::population::Precision;
use judge::backtest::{Backtest, Latency};
use judge::evidence::Evidence;
use learn::{Learner, Plan, Stopped, Trained};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// What was trained, or would be.
#[derive(Debug, Clone, Serialize)]
pub struct TrainRun {
    /// The run folder; null for a dry run.
    pub folder: Option<String>,
    /// The page that shows it; null before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// What was read.
    pub data: String,
    /// By name.
    pub learner: LearnerKind,
    /// As text.
    pub net: String,
    /// Of one member.
    pub parameters: u64,
    /// Instruments, costs and sessions, which decide the labels, in one line; null for ready arrays.
    pub instruments: Option<String>,
    /// Columns of each input.
    pub columns: Vec<u64>,
    /// Rows that can be learned from: with whole windows, and a label where the learner wants one.
    pub samples: u64,
    /// Share of each class among them; empty where they have none.
    pub balance: Vec<f64>,
    /// How labels were made; null for ready arrays, and for learners without labels.
    pub label: Option<LabelSummary>,
    /// In words.
    pub device: String,
    /// `f32`, `tf32` or `bf16`.
    pub precision: Precision,
    /// Rows of a batch.
    pub batch: u64,
    /// Parts that a batch goes through the net in, because the memory is not enough for a whole one; 1 where it does.
    pub parts: u64,
    /// Before the schedule.
    pub rate: f64,
    /// Units of work of a member at most, written under their name: `epochs`.
    #[serde(flatten)]
    pub units: Units,
    /// Units without a better score.
    pub patience: u64,
    /// Whose recipe is trained on everything, and how; absent from a run that is judged itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refit: Option<Refit>,
    /// Of the walk forward.
    pub folds: Vec<FoldRow>,
    /// When the locked part begins; null without one.
    pub holdout_from: Option<String>,
    /// The split, drawn.
    pub picture: String,
    /// Members of each fold and config.
    pub seeds: u64,
    /// What was tried, where it was more than one config.
    pub configs: Vec<ConfigRow>,
    /// Trained at once, group after group.
    pub groups: Vec<u64>,
    /// What the largest group takes on the device.
    pub memory_bytes: u64,
    /// What all units would take at most, from steps that were timed; null where nothing was timed.
    pub estimate_seconds: Option<f64>,
    /// Samples trained on a second, all members together.
    pub samples_per_s: Option<f64>,
    /// A line for each member; empty for a dry run.
    pub members: Vec<MemberRow>,
    /// On test samples, members of a fold averaged, of several configs the one that was chosen for the fold; null for a
    /// dry run and after an interruption.
    pub judged: Option<Judged>,
    /// What its probabilities would have earned over all test blocks; null for a dry run, after an interruption and for
    /// ready arrays, which have no prices.
    pub backtest: Option<Backtest>,
    /// How long decisions of policies that search take; absent from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Whether PPO is trained for as long behind a searcher, as a run of its own, which estimates and budgets count;
    /// absent where that was not wanted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trains_baseline: bool,
    /// PPO that was trained for as long as a searcher; absent where that was not wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// What each column is worth to the members: what is lost where its values change places. Empty where that is not
    /// known.
    pub importance: Vec<ColumnImportance>,
    /// What all of it is worth: the verdict, with every trial on these data counted; null before the end.
    pub evidence: Option<Evidence>,
    /// What the paths through folds are worth that train around their tests; absent from a walk forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathsRecord>,
    /// The market model of each fold, of policies that search; absent from others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub market_models: Vec<MarketModelRow>,
    /// How time was cut.
    #[serde(skip)]
    pub split: SplitKind,
    /// Where the time went.
    pub phases: Vec<Phase>,
    /// What limited it, in words.
    pub verdict: String,
    /// From start to end.
    pub seconds: f64,
    /// The most memory this process held; null where the system does not say.
    pub peak_memory_bytes: Option<u64>,
    /// Whether it was stopped; `runs resume` goes on.
    pub interrupted: bool,
    /// Notes.
    pub notes: Vec<String>,
}

/// A fold in figures.
#[derive(Debug, Clone, Serialize)]
pub struct FoldRow {
    /// From 1.
    pub fold: usize,
    /// Samples.
    pub train: u64,
    /// Samples.
    pub valid: u64,
    /// Samples.
    pub test: u64,
    /// Samples left out because their labels reach into a later part.
    pub purged: u64,
    /// When the first sample of its training was known.
    pub train_from: String,
    /// When the last label of its training was known.
    pub train_to: String,
    /// When the first sample of its validation was known; null without one.
    pub valid_from: Option<String>,
    /// When the last label of its validation was known.
    pub valid_to: Option<String>,
    /// When the first sample of its test was known; null without one.
    pub test_from: Option<String>,
    /// When the last label of its test was known.
    pub test_to: Option<String>,
}

/// Units of work, under their name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Units {
    /// What one is called: `epoch`.
    pub name: &'static str,
    /// At most.
    pub most: u64,
}

impl Serialize for Units {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(format!("{}s", self.name), self.most)])
    }
}

/// A learner's metrics, each written under its name.
fn by_name<S: Serializer>(metrics: &[Measured], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(metrics.iter().map(|m| (m.metric.name, m.value)))
}

/// How a run was judged on test samples: the learner's own record, and how it is told.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// The learner's own record.
    #[serde(flatten)]
    pub record: Map<String, Value>,
    /// The learner's figures on test samples, the one that sums it up first.
    #[serde(skip)]
    pub metrics: Vec<Measured>,
    /// Whether there was enough data for a verdict; if not, no figure sums the run up.
    #[serde(skip)]
    pub is_enough: bool,
    /// For people.
    #[serde(skip)]
    pub sentences: Vec<String>,
}

impl Judged {
    /// A record, its figures in the order of the learner's metrics behind the first, and what is said of it.
    pub(crate) fn new(
        record: &impl Serialize,
        figures: Vec<Option<f64>>,
        metrics: &[Metric],
        sentences: Vec<String>,
    ) -> Judged {
        let record = match json!(record) {
            Value::Object(record) => record,
            other => Map::from_iter([("value".to_string(), other)]),
        };
        Judged { record, metrics: measured(metrics, None, figures).split_off(1), is_enough: true, sentences }
    }

    /// The figures that sum the run up; none where there was not enough data.
    pub fn headline(&self) -> &[Measured] {
        if self.is_enough { &self.metrics } else { &[] }
    }
}

/// A member's line of the result.
#[derive(Debug, Clone)]
pub struct MemberRow {
    /// Its set of hyper-parameters, from 1.
    pub config: usize,
    /// From 1.
    pub fold: usize,
    /// From 1.
    pub seed: u32,
    /// What a unit of its work is called: `epoch`.
    pub unit: &'static str,
    /// Units it was trained for.
    pub units: u32,
    /// The unit whose weights were kept; null where no score was a number.
    pub best_unit: Option<u32>,
    /// The learner's figures: on its validation samples at that unit, then on its test samples.
    pub metrics: Vec<Measured>,
    /// What a policy is deployed as once it was judged: `trades`, or `flat`; none of learners that do not trade.
    pub deployed: Option<&'static str>,
    /// Why it ended: `patience`, `epochs`, or what was not finite.
    pub ended: String,
}

impl Serialize for MemberRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("config", &self.config)?;
        row.serialize_entry("fold", &self.fold)?;
        row.serialize_entry("seed", &self.seed)?;
        row.serialize_entry(&format!("{}s", self.unit), &self.units)?;
        row.serialize_entry(&format!("best_{}", self.unit), &self.best_unit)?;
        self.metrics.iter().try_for_each(|m| row.serialize_entry(m.metric.name, &m.value))?;
        self.deployed.iter().try_for_each(|deployed| row.serialize_entry("deployed", deployed))?;
        row.serialize_entry("ended", &self.ended)?;
        row.end()
    }
}

impl MemberRow {
    /// The line of a member whose unit of work has this name.
    pub(super) fn new(
        member: &Trained,
        unit: &'static str,
        metrics: Vec<Measured>,
        deployed: Option<&'static str>,
    ) -> MemberRow {
        MemberRow {
            config: member.config + 1,
            fold: member.fold + 1,
            seed: member.seed + 1,
            unit,
            units: member.units(),
            best_unit: member.best.as_ref().map(|b| b.unit),
            metrics,
            deployed,
            ended: member.stopped.as_ref().map_or("not yet".into(), |why| reason(why, unit)),
        }
    }
}

/// Why a member ended, in a word or a sentence.
pub(super) fn reason(stopped: &Stopped, unit: &str) -> String {
    match stopped {
        Stopped::Patience => "patience".into(),
        Stopped::Limit => format!("{unit}s"),
        Stopped::Fault(why) => why.clone(),
    }
}

/// A config's line of the result, where there are several.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigRow {
    /// From 1.
    pub config: usize,
    /// What is its own, as in `rate 0.001, decay 0.1`.
    pub what: String,
    /// As text.
    pub net: String,
    /// Rows of a batch.
    pub batch: u64,
    /// Before the schedule.
    pub rate: f64,
    /// The learner's figures: first the mean of its members' best on their validation samples, then those on test
    /// samples if it had been taken in every fold, by which no one may choose. Null while nothing is known.
    #[serde(flatten, serialize_with = "by_name")]
    pub metrics: Vec<Measured>,
    /// Folds, from 1, in which it was chosen.
    pub chosen: Vec<usize>,
}

/// The plan in figures.
pub(super) fn describe(experiment: &Experiment) -> TrainRun {
    let Experiment { source, splits, learner, settings, .. } = experiment;
    let (problem, config, extent) = (&source.problem, &learner.configs()[0], learner.extent());
    let shown = |time: i64| match &source.ids {
        Ids::Bars { .. } => files::time::rfc3339(time),
        // Ready arrays may count rows instead of telling the time.
        Ids::Ready { .. } if time < 1_000_000_000_000 => time.to_string(),
        Ids::Ready { .. } => files::time::rfc3339(time),
    };
    let mut counts = vec![0u64; problem.classes];
    for at in (0..problem.samples.len() as u32).filter(|_| problem.classes > 0) {
        counts[usize::from(problem.class_index(at))] += 1;
    }
    let all = problem.samples.len().max(1) as f64;
    let folds = splits.folds.iter().map(|f| FoldRow {
        fold: f.number + 1,
        train: f.train.len() as u64,
        valid: f.valid.len() as u64,
        test: f.test.len() as u64,
        purged: f.purged as u64,
        train_from: shown(f.spans.train.from()),
        train_to: shown(f.spans.train.to() - 1),
        valid_from: (!f.valid.is_empty()).then(|| shown(f.spans.valid.from())),
        valid_to: (!f.valid.is_empty()).then(|| shown(f.spans.valid.to() - 1)),
        test_from: (!f.test.is_empty()).then(|| shown(f.spans.test.from())),
        test_to: (!f.test.is_empty()).then(|| shown(f.spans.test.to() - 1)),
    });
    let mut run = TrainRun {
        folder: None,
        report: None,
        data: source.path.display().to_string(),
        learner: settings.train.learner,
        net: config.net.to_string(),
        parameters: parameters(&config.net),
        instruments: source.instruments.clone(),
        columns: problem.inputs.iter().map(|i| i.columns.len() as u64).collect(),
        samples: problem.samples.len() as u64,
        balance: counts.iter().map(|n| *n as f64 / all).collect(),
        label: match &source.ids {
            Ids::Bars { label, .. } => label.clone(),
            Ids::Ready { .. } => None,
        },
        device: experiment.device.clone(),
        precision: config.recipe.precision,
        batch: config.recipe.batch as u64,
        parts: 1,
        rate: f64::from(config.rate),
        units: Units { name: learner.unit(), most: u64::from(extent.units) },
        patience: u64::from(extent.patience),
        refit: settings.refit.clone(),
        folds: folds.collect(),
        holdout_from: splits.holdout.as_ref().map(|h| shown(h.span.from())),
        picture: splits.picture(&problem.samples, &source.ticks, 60, false),
        seeds: u64::from(extent.seeds),
        configs: tried(&**learner, settings),
        groups: Vec::new(),
        memory_bytes: 0,
        estimate_seconds: None,
        samples_per_s: None,
        members: Vec::new(),
        judged: None,
        backtest: None,
        latency: None,
        trains_baseline: experiment.trains_baseline(),
        baseline: None,
        importance: Vec::new(),
        evidence: None,
        paths: None,
        market_models: Vec::new(),
        split: settings.split.kind,
        phases: Vec::new(),
        verdict: String::new(),
        seconds: 0.0,
        peak_memory_bytes: None,
        interrupted: false,
        notes: experiment.notes.clone(),
    };
    packed(&mut run, &experiment.plan);
    run.notes.extend(experiment.plan.parts_message(&**learner));
    run
}

/// A line for each config, where there are several; nothing is known of them yet.
fn tried(learner: &dyn Learner, settings: &Settings) -> Vec<ConfigRow> {
    let row = |(at, (what, _)): (usize, (String, Settings))| {
        let own = &learner.configs()[at];
        ConfigRow {
            config: at + 1,
            what,
            net: own.net.to_string(),
            batch: own.recipe.batch as u64,
            rate: f64::from(own.rate),
            metrics: measured(settings.train.learner.info().metrics, None, Vec::new()),
            chosen: Vec::new(),
        }
    };
    if learner.configs().len() > 1 { settings.configs().into_iter().enumerate().map(row).collect() } else { Vec::new() }
}

/// How the members lie in the memory.
pub(super) fn packed(run: &mut TrainRun, plan: &Plan) {
    run.parts = plan.pace.count(run.batch as usize) as u64;
    run.groups = plan.groups.iter().map(|g| g.members.len() as u64).collect();
    run.memory_bytes = plan.groups.iter().map(|g| g.bytes).max().unwrap_or(0);
}
