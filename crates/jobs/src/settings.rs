//! Settings: defaults, then a TOML file, then `--set key=value`, then flags.
//!
//! [`Key::ALL`] is the one list: a name, what it does, what is legal, and how it is shown and set. The file that
//! documents the defaults, the error that names the nearest key and the parser all read it. `auto` is legal for every
//! key and means the default. What is wrong is a usage error that names file, line and column.

mod reading;
mod tries;

pub(crate) use reading::Reading;
pub use tries::Try;

use crate::memory::Memory;
use crate::train::Learner;
use bars::{Bad, Duplicates, Instrument, InstrumentPatch, Label, Order, Refused, Repairs, Splits, Timeframe, nearest};
use compute::population::{Precision, Shape};
use features::labels::{First, Labeling, Rule};
use files::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::Value;
use toml::de::{DeTable, DeValue};
use tries::tries;

/// Everything a verb may be told, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What a job may take.
    pub memory: Memory,
    /// `None` takes every core.
    pub threads: Option<usize>,
    /// The root of all randomness.
    pub seed: u64,
    /// Zone of stamps that carry none; `None` looks at the file.
    pub timezone: Option<String>,
    /// Which end of the bar a stamp marks.
    pub label: Label,
    /// What is mended and how.
    pub repair: Repairs,
    /// The file that says when a symbol belonged to the universe.
    pub membership: Option<PathBuf>,
    /// The file or folder of split and dividend factors.
    pub factors: Option<PathBuf>,
    /// What is computed from the bars.
    pub features: FeatureSettings,
    /// What a label is.
    pub labels: LabelSettings,
    /// How a model is trained.
    pub train: TrainSettings,
    /// How time is cut into folds.
    pub split: SplitSettings,
    /// Bytes the cache of feature tables may take; 0 keeps none.
    pub cache_limit: u64,
    /// The market that `data synth` makes.
    pub synth: SynthSettings,
    /// `[instrument.SYMBOL]`, each value checked; see [`Settings::patches`].
    instruments: BTreeMap<String, toml::Table>,
}

/// What is computed from the bars.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureSettings {
    /// A preset, a file, or the features themselves.
    pub set: String,
    /// The longest hole, in bars, that is stepped over; `None` goes by the timeframe.
    pub max_hole: Option<usize>,
}

/// How a model is trained. What is `None` follows from the data by a fixed rule.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSettings {
    /// Which kind of model.
    pub learner: Learner,
    /// The net as text.
    pub net: Option<String>,
    /// Rows of a batch.
    pub batch: Option<usize>,
    /// Whether a batch that nobody chose is the one that `tune` saved, if it did.
    pub tuned: bool,
    /// Epochs at most.
    pub epochs: usize,
    /// Epochs without a better score after which a member ends.
    pub patience: usize,
    /// Members of each fold.
    pub seeds: usize,
    /// The learning rate before the schedule.
    pub rate: Option<f64>,
    /// How the rate changes.
    pub schedule: Shape,
    /// Share of a member's steps in which the rate grows.
    pub warmup: f64,
    /// Weight decay.
    pub decay: f64,
    /// The largest norm of a gradient; 0 for none.
    pub clip: f64,
    /// Share of a label that is spread over all classes.
    pub smoothing: f64,
    /// Memory of the average of weights; 0 for none.
    pub average: f64,
    /// Whether rare classes weigh more.
    pub balance: bool,
    /// How numbers are held.
    pub precision: Option<Precision>,
    /// Epochs between checkpoints.
    pub checkpoint: usize,
    /// Rows after which a label is known, for ready arrays that do not say.
    pub label_horizon: Option<usize>,
    /// What is tried: every combination is a set of hyper-parameters with members of its own.
    pub tries: Vec<Try>,
}

/// How time is cut into folds.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitSettings {
    /// Test blocks.
    pub folds: usize,
    /// Share of the time that the test blocks cover.
    pub tested: f64,
    /// Share of the time before each test block that is for validation.
    pub validation: f64,
    /// Share of the time at the end that is locked.
    pub holdout: f64,
    /// Share of the time that training looks back; none: to the beginning.
    pub rolling: Option<f64>,
    /// Times of the clock that are kept free before the holdout.
    pub embargo: Option<usize>,
}

/// What a label is.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelSettings {
    /// What the future is asked; `None`: nothing.
    pub rule: Option<Rule>,
    /// Of a round trip; `None` takes twice what a side of the instrument costs.
    pub cost_bp: Option<f64>,
    /// Bars over which the volatility of the triple barrier forgets.
    pub span: f64,
}

/// The market that `data synth` makes.
#[derive(Debug, Clone, PartialEq)]
pub struct SynthSettings {
    /// `stocks`, `crypto` or `fx`.
    pub kind: String,
    /// How many symbols.
    pub count: usize,
    /// Bars of each; `None` follows from `years`, or is 1,250.
    pub bars: Option<usize>,
    /// Years of each, instead of bars.
    pub years: Option<f64>,
    /// Length of a bar.
    pub timeframe: Timeframe,
    /// Whether a signal is planted.
    pub plant: bool,
    /// How often the planted signal is right.
    pub accuracy: f64,
    /// How likely the planted state stays from bar to bar.
    pub stay: f64,
    /// What one side of a trade costs, for the planted signal's best value.
    pub cost_bp: f64,
    /// Noise of one bar's return under the planted signal.
    pub sigma_bp: f64,
    /// Whether some symbols are listed late and some delisted.
    pub ragged: bool,
    /// No bar starts before this, in nanoseconds.
    pub start: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory: Memory::Auto,
            threads: None,
            seed: 1,
            timezone: None,
            label: Label::Auto,
            repair: Repairs::default(),
            membership: None,
            factors: None,
            features: FeatureSettings { set: "auto".into(), max_hole: None },
            labels: LabelSettings { rule: Some(Rule::Auto), cost_bp: None, span: Labeling::default().span },
            train: TrainSettings::default(),
            split: SplitSettings::default(),
            cache_limit: 8 << 30,
            synth: SynthSettings::default(),
            instruments: BTreeMap::new(),
        }
    }
}

impl Default for TrainSettings {
    fn default() -> TrainSettings {
        TrainSettings {
            learner: Learner::Lstm,
            net: None,
            batch: None,
            tuned: true,
            epochs: 500,
            patience: 50,
            seeds: 2,
            rate: None,
            schedule: Shape::Cosine,
            warmup: 0.02,
            decay: 0.01,
            clip: 1.0,
            smoothing: 0.0,
            average: 0.0,
            balance: true,
            precision: None,
            checkpoint: 50,
            label_horizon: None,
            tries: Vec::new(),
        }
    }
}

impl Default for SplitSettings {
    fn default() -> SplitSettings {
        SplitSettings { folds: 8, tested: 0.6, validation: 0.15, holdout: 0.15, rolling: None, embargo: None }
    }
}

impl SplitSettings {
    /// Share of the time that the first fold trains on, or a little less: an embargo, and rows at the end that have no
    /// label yet, take about three hundredths. Whoever splits holds it against the true one.
    pub fn first(&self) -> f64 {
        (1.0 - self.holdout - 0.03).max(0.0) * (1.0 - self.tested) * (1.0 - self.validation)
    }
}

impl FeatureSettings {
    /// The set that was chosen, or the verb's own.
    pub fn or(&self, own: &str) -> String {
        if self.set == "auto" { own.to_string() } else { self.set.clone() }
    }
}

impl Default for SynthSettings {
    fn default() -> SynthSettings {
        let (synth, plant) = (bars::synth::Synth::default(), bars::synth::Plant::default());
        SynthSettings {
            kind: "stocks".into(),
            count: synth.symbols,
            bars: None,
            years: None,
            timeframe: synth.timeframe,
            plant: false,
            accuracy: plant.accuracy,
            stay: plant.stay,
            cost_bp: plant.cost_bp,
            sigma_bp: plant.sigma_bp,
            ragged: synth.ragged,
            start: synth.start,
        }
    }
}

/// One key: its name, what it does, what is legal.
pub struct Key {
    /// Dotted: `repair.order`.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// In words: `"sort" or "refuse"`.
    pub legal: &'static str,
    show: fn(&Settings) -> Value,
    set: fn(&mut Settings, &Value) -> Option<()>,
}

/// `key!(name, doc, legal, |s| show, |s, v| set)`
macro_rules! key {
    ($name:literal, $doc:literal, $legal:literal, $show:expr, $set:expr) => {
        Key { name: $name, doc: $doc, legal: $legal, show: $show, set: $set }
    };
}

const BAD: &[(&str, Bad)] = &[("drop", Bad::Drop), ("keep", Bad::Keep), ("refuse", Bad::Refuse)];
const ORDER: &[(&str, Order)] = &[("sort", Order::Sort), ("refuse", Order::Refuse)];
const DUPLICATES: &[(&str, Duplicates)] =
    &[("first", Duplicates::First), ("last", Duplicates::Last), ("refuse", Duplicates::Refuse)];
const SPLITS: &[(&str, Splits)] = &[("segment", Splits::Segment), ("keep", Splits::Keep)];
const REFUSED: &[(&str, Refused)] = &[("drop", Refused::Drop), ("refuse", Refused::Refuse)];
const LABEL: &[(&str, Label)] = &[("auto", Label::Auto), ("start", Label::Start), ("end", Label::End)];
const LEARNERS: &[(&str, Learner)] = &[("lstm", Learner::Lstm), ("mlp", Learner::Mlp)];
const SCHEDULES: &[(&str, Shape)] =
    &[("cosine", Shape::Cosine), ("onecycle", Shape::OneCycle), ("constant", Shape::Constant)];
const PRECISIONS: &[(&str, Precision)] =
    &[("f32", Precision::F32), ("tf32", Precision::Tf32), ("bf16", Precision::Bf16)];
const KINDS: &[(&str, &str)] = &[("stocks", "stocks"), ("crypto", "crypto"), ("fx", "fx")];

impl Key {
    /// Every key but those of `[instrument.SYMBOL]`, in the order they are shown.
    pub const ALL: &[Key] = &[
        key!(
            "memory",
            "Memory a job may take; auto is half of what is available, on a card 80 % of what is free there.",
            "8GiB, 512MiB (64MiB at least), 80% or auto",
            |s| s.memory.to_string().into(),
            |s, v| set(&mut s.memory, plain(v).parse().ok())
        ),
        key!(
            "threads",
            "Threads; auto is every core.",
            "a whole number from 1 to 4096, or auto",
            |s| auto(s.threads.map(whole)),
            |s, v| set(&mut s.threads, optional(v, |v| count(v, 4096)))
        ),
        key!(
            "seed",
            "The root of all randomness: one seed, one result.",
            "a whole number from 0",
            |s| Value::Integer(s.seed as i64),
            |s, v| set(&mut s.seed, v.as_integer()?.try_into().ok())
        ),
        key!(
            "bars.timezone",
            "Zone of stamps that carry none; auto looks at the file and says what it took.",
            "an IANA name (America/New_York), UTC, an offset (-05:00) or auto",
            |s| auto(s.timezone.clone().map(Value::from)),
            |s, v| set(&mut s.timezone, optional(v, zone))
        ),
        key!(
            "bars.label",
            "Which end of the bar a stamp marks; auto takes the start unless the file shows otherwise.",
            "start, end or auto",
            |s| name(LABEL, s.label),
            |s, v| set(&mut s.label, one_of(LABEL, v))
        ),
        key!("repair.order", "Rows out of order.", "sort or refuse", |s| name(ORDER, s.repair.order), |s, v| set(
            &mut s.repair.order,
            one_of(ORDER, v)
        )),
        key!(
            "repair.duplicates",
            "Rows whose time was there already.",
            "first, last or refuse",
            |s| name(DUPLICATES, s.repair.duplicates),
            |s, v| set(&mut s.repair.duplicates, one_of(DUPLICATES, v))
        ),
        key!(
            "repair.unreadable",
            "Rows that cannot be read are dropped up to this share of all; above it the data are refused.",
            "a number from 0 to 1",
            |s| s.repair.unreadable.into(),
            |s, v| set(&mut s.repair.unreadable, share(v))
        ),
        key!(
            "repair.bad_prices",
            "Missing, zero, negative or absurd prices.",
            "drop, keep or refuse",
            |s| name(BAD, s.repair.bad_prices),
            |s, v| set(&mut s.repair.bad_prices, one_of(BAD, v))
        ),
        key!(
            "repair.range",
            "High below open or close, low above.",
            "drop, keep or refuse",
            |s| name(BAD, s.repair.range),
            |s, v| set(&mut s.repair.range, one_of(BAD, v))
        ),
        key!(
            "repair.splits",
            "Suspected splits: a new segment begins, or they are taken for true moves.",
            "segment or keep",
            |s| name(SPLITS, s.repair.splits),
            |s, v| set(&mut s.repair.splits, one_of(SPLITS, v))
        ),
        key!(
            "repair.refused",
            "Symbols that the audit refuses: left out while they are fewer than half, or the whole is refused.",
            "drop or refuse",
            |s| name(REFUSED, s.repair.refused),
            |s, v| set(&mut s.repair.refused, one_of(REFUSED, v))
        ),
        key!(
            "universe.membership",
            "File with symbol, from, to: when each symbol belonged to the universe; empty for none.",
            "a path, or an empty string",
            |s| path_value(&s.membership),
            |s, v| set(&mut s.membership, path(v))
        ),
        key!(
            "universe.factors",
            "File or folder of split and dividend factors; empty for none.",
            "a path, or an empty string",
            |s| path_value(&s.factors),
            |s, v| set(&mut s.factors, path(v))
        ),
        key!(
            "features.set",
            "What is computed from the bars.",
            "a preset (basic, full, universe, two_timeframe), a file, features, as in rsi(14), ema(20), or auto: what the verb takes",
            |s| s.features.set.clone().into(),
            |s, v| set(&mut s.features.set, v.as_str().filter(|t| !t.trim().is_empty()).map(str::to_string))
        ),
        key!(
            "features.max_hole",
            "The longest hole that indicators step over, in bars; auto goes by the timeframe.",
            "a whole number from 0, or auto",
            |s| auto(s.features.max_hole.map(whole)),
            |s, v| set(&mut s.features.max_hole, optional(v, |v| v.as_integer()?.try_into().ok()))
        ),
        key!(
            "label.rule",
            "What the future is asked; auto takes the triple barrier with the shortest balanced horizon.",
            "auto, none, fixed(12), triple(24), triple(24, 1.5) or trend(48)",
            |s| s.labels.rule.map_or_else(|| "none".to_string(), |rule| rule.to_string()).into(),
            |s, v| set(&mut s.labels.rule, rule(v))
        ),
        key!(
            "label.cost_bp",
            "What a round trip costs, in hundredths of a percent; auto takes twice a side of the instrument.",
            "a number from 0 to 10000, or auto",
            |s| auto(s.labels.cost_bp.map(Value::from)),
            |s, v| set(&mut s.labels.cost_bp, optional(v, |v| number(v).filter(|c| (0.0..=1e4).contains(c))))
        ),
        key!(
            "label.span",
            "Bars over which the volatility of the triple barrier forgets.",
            "a number from 1 to 1000000",
            |s| s.labels.span.into(),
            |s, v| set(&mut s.labels.span, number(v).filter(|b| (1.0..=1e6).contains(b)))
        ),
        key!(
            "train.learner",
            "Which kind of model is trained.",
            "lstm or mlp",
            |s| name(LEARNERS, s.train.learner),
            |s, v| set(&mut s.train.learner, one_of(LEARNERS, v))
        ),
        key!(
            "train.net",
            "The net; auto follows from learner and features.",
            "a net, as in fast:16x50-lstm64 + slow:12x24-lstm24 / 16 / direction:3, or auto",
            |s| auto(s.train.net.clone().map(Value::from)),
            |s, v| set(&mut s.train.net, optional(v, |v| v.as_str().map(str::to_string)))
        ),
        key!(
            "train.batch",
            "Rows of a batch; auto takes what `fullbore tune` saved, else some 250 steps an epoch.",
            "a whole number from 1 to 1048576, or auto",
            |s| auto(s.train.batch.map(whole)),
            |s, v| set(&mut s.train.batch, optional(v, |v| count(v, 1 << 20)))
        ),
        key!(
            "train.tuned",
            "Whether auto looks for what `fullbore tune` saved for this workload on this machine.",
            "true or false",
            |s| s.train.tuned.into(),
            |s, v| set(&mut s.train.tuned, v.as_bool())
        ),
        key!(
            "train.epochs",
            "Epochs at most.",
            "a whole number from 1 to 1000000",
            |s| whole(s.train.epochs),
            |s, v| set(&mut s.train.epochs, count(v, 1_000_000))
        ),
        key!(
            "train.patience",
            "Epochs without a better validation score after which a member ends.",
            "a whole number from 1 to 1000000",
            |s| whole(s.train.patience),
            |s, v| set(&mut s.train.patience, count(v, 1_000_000))
        ),
        key!(
            "train.seeds",
            "Members of each fold.",
            "a whole number from 1 to 4095",
            |s| whole(s.train.seeds),
            |s, v| set(&mut s.train.seeds, count(v, 4095))
        ),
        key!(
            "train.rate",
            "The learning rate before the schedule; auto is 0.001 at batches of 512, with the root of the batch.",
            "a number above 0, at most 1, or auto",
            |s| auto(s.train.rate.map(Value::from)),
            |s, v| set(&mut s.train.rate, optional(v, |v| number(v).filter(|r| *r > 0.0 && *r <= 1.0)))
        ),
        key!(
            "train.schedule",
            "How the rate changes over a member's epochs.",
            "cosine, onecycle or constant",
            |s| name(SCHEDULES, s.train.schedule),
            |s, v| set(&mut s.train.schedule, one_of(SCHEDULES, v))
        ),
        key!(
            "train.warmup",
            "Share of a member's steps in which the rate grows.",
            "a number from 0 to 1",
            |s| s.train.warmup.into(),
            |s, v| set(&mut s.train.warmup, share(v))
        ),
        key!("train.decay", "Weight decay.", "a number from 0 to 1", |s| s.train.decay.into(), |s, v| set(
            &mut s.train.decay,
            share(v)
        )),
        key!(
            "train.clip",
            "The largest norm of a gradient; 0 for none.",
            "a number from 0",
            |s| s.train.clip.into(),
            |s, v| set(&mut s.train.clip, number(v).filter(|c| *c >= 0.0))
        ),
        key!(
            "train.smoothing",
            "Share of a label that is spread over all classes.",
            "a number from 0 to 0.9",
            |s| s.train.smoothing.into(),
            |s, v| set(&mut s.train.smoothing, share(v).filter(|x| *x <= 0.9))
        ),
        key!(
            "train.average",
            "Memory of a running average of the weights, which is then what is validated and kept; 0 for none.",
            "a number from 0 to 0.99999",
            |s| s.train.average.into(),
            |s, v| set(&mut s.train.average, share(v).filter(|x| *x <= 0.99999))
        ),
        key!(
            "train.balance",
            "Whether rare classes weigh more, each as much as any other in sum, up to ten times.",
            "true or false",
            |s| s.train.balance.into(),
            |s, v| set(&mut s.train.balance, v.as_bool())
        ),
        key!(
            "train.precision",
            "How numbers are held; auto is bf16 on a card and f32 on a processor.",
            "f32, tf32, bf16 or auto",
            |s| auto(s.train.precision.map(|p| name(PRECISIONS, p))),
            |s, v| set(&mut s.train.precision, optional(v, |v| one_of(PRECISIONS, v)))
        ),
        key!(
            "train.checkpoint",
            "Epochs between checkpoints; a long run is also saved every two minutes.",
            "a whole number from 1 to 1000000",
            |s| whole(s.train.checkpoint),
            |s, v| set(&mut s.train.checkpoint, count(v, 1_000_000))
        ),
        key!(
            "train.label_horizon",
            "Rows after which a label is known, for ready arrays without t1.",
            "a whole number from 1, or auto",
            |s| auto(s.train.label_horizon.map(whole)),
            |s, v| set(&mut s.train.label_horizon, optional(v, |v| count(v, 1 << 40)))
        ),
        key!(
            "train.try",
            "Hyper-parameters to try: every combination is a config with members of its own, chosen for each fold by validation.",
            "a list, as in [\"rate = 0.001, 0.0003\", \"decay = 0, 0.1\"], of net, batch, rate, schedule, warmup, decay, clip, smoothing, average",
            |s| s.train.tries.iter().map(|t| Value::from(t.to_string())).collect::<Vec<Value>>().into(),
            |s, v| set(&mut s.train.tries, tries(v).ok())
        ),
        key!(
            "split.folds",
            "Test blocks of the walk forward.",
            "a whole number from 1 to 1000",
            |s| whole(s.split.folds),
            |s, v| set(&mut s.split.folds, count(v, 1000))
        ),
        key!(
            "split.tested",
            "Share of the time, at its end, that the test blocks cover.",
            "a number from 0.01 to 0.95",
            |s| s.split.tested.into(),
            |s, v| set(&mut s.split.tested, share(v).filter(|x| (0.01..=0.95).contains(x)))
        ),
        key!(
            "split.validation",
            "Share of the time before each test block that is for validation.",
            "a number from 0.01 to 0.5",
            |s| s.split.validation.into(),
            |s, v| set(&mut s.split.validation, share(v).filter(|x| (0.01..=0.5).contains(x)))
        ),
        key!(
            "split.holdout",
            "Share of the time, behind everything, that is locked.",
            "a number from 0 to 0.5",
            |s| s.split.holdout.into(),
            |s, v| set(&mut s.split.holdout, share(v).filter(|x| *x <= 0.5))
        ),
        key!(
            "split.rolling",
            "Share of the time that training looks back; auto goes back to the beginning.",
            "a number from 0.05 to 1, or auto",
            |s| auto(s.split.rolling.map(Value::from)),
            |s, v| set(&mut s.split.rolling, optional(v, |v| share(v).filter(|x| *x >= 0.05)))
        ),
        key!(
            "split.embargo",
            "Times of the clock kept free between the last label that any fold saw and the holdout; auto is a hundredth of all, or the longest window. Walking forward, nothing else needs one.",
            "a whole number from 0 (0 without a holdout), or auto",
            |s| auto(s.split.embargo.map(whole)),
            |s, v| set(&mut s.split.embargo, optional(v, |v| v.as_integer()?.try_into().ok()))
        ),
        key!(
            "cache.limit",
            "What the cache of feature tables may take on disk; the oldest go first.",
            "8GiB, 512MiB (64MiB at least), or 0 for no cache",
            |s| if s.cache_limit == 0 { "0".into() } else { Memory::Bytes(s.cache_limit).to_string().into() },
            |s, v| set(&mut s.cache_limit, size(v))
        ),
        key!(
            "synth.kind",
            "Kind of market to make.",
            "stocks, crypto or fx",
            |s| s.synth.kind.clone().into(),
            |s, v| set(&mut s.synth.kind, one_of(KINDS, v).map(str::to_string))
        ),
        key!(
            "synth.count",
            "How many symbols.",
            "a whole number from 1 to 100000",
            |s| whole(s.synth.count),
            |s, v| set(&mut s.synth.count, count(v, 100_000))
        ),
        key!(
            "synth.bars",
            "Bars of each symbol; auto follows from years, or is 1250.",
            "a whole number from 1, or auto",
            |s| auto(s.synth.bars.map(whole)),
            |s, v| set(&mut s.synth.bars, optional(v, |v| count(v, 1 << 40)))
        ),
        key!(
            "synth.years",
            "Years of each symbol, instead of bars.",
            "a number above 0, at most 200, or auto",
            |s| auto(s.synth.years.map(Value::from)),
            |s, v| set(&mut s.synth.years, optional(v, |v| number(v).filter(|y| *y > 0.0 && *y <= 200.0)))
        ),
        key!(
            "synth.timeframe",
            "Length of a bar.",
            "5m, 1h, 1d and the like",
            |s| s.synth.timeframe.to_string().into(),
            |s, v| set(&mut s.synth.timeframe, v.as_str()?.parse().ok())
        ),
        key!(
            "synth.plant",
            "Whether a signal of known worth is planted.",
            "true or false",
            |s| s.synth.plant.into(),
            |s, v| set(&mut s.synth.plant, v.as_bool())
        ),
        key!(
            "synth.accuracy",
            "How often the planted signal is right.",
            "a number from 0.5 to 0.9999",
            |s| s.synth.accuracy.into(),
            |s, v| set(&mut s.synth.accuracy, share(v).filter(|a| (0.5..=0.9999).contains(a)))
        ),
        key!(
            "synth.stay",
            "How likely the planted state stays from one bar to the next.",
            "a number from 0 to 1",
            |s| s.synth.stay.into(),
            |s, v| set(&mut s.synth.stay, share(v))
        ),
        key!(
            "synth.cost_bp",
            "What one side of a trade costs, in hundredths of a percent.",
            "a number from 0 to 10000",
            |s| s.synth.cost_bp.into(),
            |s, v| set(&mut s.synth.cost_bp, number(v).filter(|c| (0.0..=1e4).contains(c)))
        ),
        key!(
            "synth.sigma_bp",
            "Noise of one bar's return under the planted signal, in hundredths of a percent.",
            "a number from 0.001 to 800",
            |s| s.synth.sigma_bp.into(),
            |s, v| set(&mut s.synth.sigma_bp, number(v).filter(|c| (0.001..=800.0).contains(c)))
        ),
        key!(
            "synth.ragged",
            "Whether some symbols are listed late and some delisted.",
            "true or false",
            |s| s.synth.ragged.into(),
            |s, v| set(&mut s.synth.ragged, v.as_bool())
        ),
        key!(
            "synth.start",
            "No bar starts before this.",
            "a date, as in 2019-01-02",
            |s| files::time::rfc3339(s.synth.start).into(),
            |s, v| set(&mut s.synth.start, date(v))
        ),
    ];
}

/// A rule by its words; `none` asks nothing.
fn rule(value: &Value) -> Option<Option<Rule>> {
    match value.as_str()?.trim() {
        "none" => Some(None),
        words => words.parse().ok().map(Some),
    }
}

/// A size on disk; 0 is one.
fn size(value: &Value) -> Option<u64> {
    match (plain(value).trim(), plain(value).parse()) {
        ("0", _) => Some(0),
        (_, Ok(Memory::Bytes(bytes))) => Some(bytes),
        _ => None,
    }
}

/// A number of bytes may be written without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn set<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn auto(value: Option<Value>) -> Value {
    value.unwrap_or_else(|| "auto".into())
}

fn optional<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    if value.as_str() == Some("auto") { Some(None) } else { read(value).map(Some) }
}

fn name<T: PartialEq>(names: &[(&str, T)], value: T) -> Value {
    names.iter().find(|n| n.1 == value).map_or("auto", |n| n.0).into()
}

fn one_of<T: Copy>(names: &[(&str, T)], value: &Value) -> Option<T> {
    names.iter().find(|n| Some(n.0) == value.as_str()).map(|n| n.1)
}

fn whole(value: usize) -> Value {
    Value::Integer(value as i64)
}

fn count(value: &Value, most: usize) -> Option<usize> {
    value.as_integer()?.try_into().ok().filter(|n| (1..=most).contains(n))
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|i| i as f64)).filter(|v| v.is_finite())
}

fn share(value: &Value) -> Option<f64> {
    number(value).filter(|v| (0.0..=1.0).contains(v))
}

fn date(value: &Value) -> Option<i64> {
    // TOML has dates of its own; both ways of writing one are taken.
    let text = value.as_str().map_or_else(|| value.as_datetime().map(|d| d.to_string()), |s| Some(s.to_string()))?;
    files::time::parse(text.as_bytes(), files::time::Order::Ymd).map(|stamp| stamp.ns)
}

fn path(value: &Value) -> Option<Option<PathBuf>> {
    value.as_str().map(|s| (!s.is_empty() && s != "auto").then(|| PathBuf::from(s)))
}

fn path_value(path: &Option<PathBuf>) -> Value {
    path.as_ref().map_or(String::new(), |p| p.display().to_string()).into()
}

/// A zone by name or offset; the reader knows for certain, this keeps out what cannot be one.
fn zone(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    let offset = text.strip_prefix(['+', '-']).is_some_and(|t| files::time::parse_clock(t.as_bytes()).is_some());
    let named = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_-+".contains(&b));
    (offset || named).then(|| text.to_string())
}

/// Where a value was written.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// In a file with this text.
    File(&'a Path, &'a str),
    /// In these words of the command line.
    Words(&'a str),
}

impl Origin<'_> {
    fn error(self, at: usize, message: String) -> Error {
        match self {
            Origin::File(path, text) => {
                let before = text.get(..at.min(text.len())).unwrap_or(text);
                let line = before.matches('\n').count() as u64 + 1;
                let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u64 + 1;
                Error::new(Kind::Usage, message).at(path).line(line).column(column)
            }
            Origin::Words(words) => Error::new(Kind::Usage, format!("{words}: {message}")),
        }
    }
}

impl Settings {
    /// Reads a settings file, or the `settings.toml` of a run folder, over what is set already.
    pub fn read(&mut self, path: &Path) -> Result<()> {
        let path = if path.is_dir() { path.join("settings.toml") } else { path.to_path_buf() };
        let size = std::fs::metadata(&path).map_err(|e| usage_io(&path, &e))?.len();
        if size > 1 << 20 {
            return Err(Error::new(Kind::Usage, "settings are larger than 1 MiB; this is something else").at(&path));
        }
        let text = std::fs::read_to_string(&path).map_err(|e| usage_io(&path, &e))?;
        self.apply(&text, Origin::File(&path, &text))
    }

    /// Takes one `key=value`; the value is TOML, and a bare word is a string.
    pub fn set(&mut self, pair: &str) -> Result<()> {
        let words = format!("--set {pair}");
        let origin = Origin::Words(&words);
        let Some((key, value)) = pair.split_once('=') else {
            return Err(origin
                .error(0, "has no `=`".into())
                .remedy("write --set key=value, as in --set repair.order=refuse"));
        };
        self.pair(key.trim(), value.trim(), origin)
    }

    /// Takes the value of a flag that stands for a key; errors speak of the flag.
    pub fn flag(&mut self, flag: &str, key: &str, value: &str) -> Result<()> {
        self.pair(key, value.trim(), Origin::Words(&format!("{flag} {value}")))
    }

    /// Takes a value for a key that still has its default: what was said stays.
    pub(crate) fn suggest(&mut self, key: &str, value: &str) -> Result<()> {
        let usual = Settings::default();
        let said = |k: &Key| k.name == key && (k.show)(self).to_string() != (k.show)(&usual).to_string();
        if Key::ALL.iter().any(said) {
            return Ok(());
        }
        self.pair(key, value, Origin::Words(key))
    }

    fn pair(&mut self, key: &str, value: &str, origin: Origin<'_>) -> Result<()> {
        // A name with odd characters, as symbols have, is quoted here so that nobody has to in a shell.
        let quoted = |key: &str| {
            let bare =
                |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            let parts: Vec<&str> = match key.strip_prefix("instrument.").and_then(|rest| rest.rsplit_once('.')) {
                Some((symbol, last)) => vec!["instrument", symbol.trim_matches('"'), last],
                None => key.split('.').collect(),
            };
            let parts = parts.into_iter().map(|p| if bare(p) { p.to_string() } else { Value::from(p).to_string() });
            parts.collect::<Vec<_>>().join(".")
        };
        let key = quoted(key);
        // TOML wants a digit before the point; people leave it out.
        let value = &value
            .strip_prefix('.')
            .filter(|v| v.bytes().all(|b| b.is_ascii_digit()))
            .map_or(value.to_string(), |v| format!("0.{v}"));
        let as_toml = format!("{key} = {value}");
        let text = if !value.is_empty() && !value.contains('\n') && DeTable::parse(&as_toml).is_ok() {
            as_toml
        } else {
            format!("{key} = {}", Value::from(value.as_str()))
        };
        self.apply(&text, origin)
    }

    fn apply(&mut self, text: &str, origin: Origin<'_>) -> Result<()> {
        let table = DeTable::parse(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            origin
                .error(at, format!("this is not TOML: {}", e.message().trim()))
                .remedy("see the README for a whole settings file")
        })?;
        self.walk(table.get_ref(), &mut Vec::new(), text, origin)
    }

    fn walk<'t>(
        &mut self,
        table: &'t DeTable<'_>,
        path: &mut Vec<&'t str>,
        text: &str,
        origin: Origin<'_>,
    ) -> Result<()> {
        for (key, value) in table {
            path.push(key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) if path.len() < 4 => self.walk(inner, path, text, origin)?,
                _ => {
                    // Written out again and read back as a plain value: the span is exactly its source.
                    let source = text.get(value.span()).unwrap_or("");
                    let plain = format!("v = {source}").parse::<toml::Table>().ok().and_then(|mut t| t.remove("v"));
                    let plain = plain.unwrap_or_else(|| source.into());
                    self.assign(path, &plain).map_err(|wrong| match wrong {
                        Wrong::Key(message, remedy) => origin.error(key.span().start, message).remedy(remedy),
                        Wrong::Value(message, remedy) => origin.error(value.span().start, message).remedy(remedy),
                    })?;
                }
            }
            path.pop();
        }
        Ok(())
    }

    fn assign(&mut self, path: &[&str], value: &Value) -> Result<(), Wrong> {
        if let ["instrument", symbol, key] = path {
            return self.patch(symbol, key, value);
        }
        let name = path.join(".");
        let Some(key) = Key::ALL.iter().find(|k| k.name == name) else {
            return Err(unknown(&name));
        };
        let done = if value.as_str() == Some("auto") {
            (key.set)(self, &(key.show)(&Settings::default()))
        } else {
            (key.set)(self, value)
        };
        done.ok_or_else(|| {
            // A list of several keys says which of them is wrong.
            let own = if key.name == "train.try" { tries(value).err() } else { None };
            let (message, remedy) =
                own.unwrap_or_else(|| (format!("`{name}` cannot be {value}"), format!("write {}", key.legal)));
            Wrong::Value(message, remedy)
        })
    }

    fn patch(&mut self, symbol: &str, key: &str, value: &Value) -> Result<(), Wrong> {
        let keys = patch_keys();
        if !keys.iter().any(|k| k == key) {
            let near = nearest(key, keys.iter().map(String::as_str));
            let remedy =
                near.map_or_else(|| format!("the keys are {}", keys.join(", ")), |n| format!("did you mean `{n}`?"));
            return Err(Wrong::Key(format!("there is no setting `instrument.{symbol}.{key}`"), remedy));
        }
        let mut table = self.instruments.get(symbol).cloned().unwrap_or_default();
        if value.as_str() == Some("auto") {
            table.remove(key);
        } else {
            let alone = toml::Table::from_iter([(key.to_string(), value.clone())]);
            let wrong = |why: String| Wrong::Value(format!("`instrument.{symbol}.{key}` cannot be {value}"), why);
            let patch: InstrumentPatch =
                alone.try_into().map_err(|e: toml::de::Error| wrong(e.message().trim().to_string()))?;
            patch.apply(&mut Instrument::preset(bars::Class::Equity, "USD")).map_err(wrong)?;
            table.insert(key.to_string(), value.clone());
        }
        self.instruments.insert(symbol.to_string(), table);
        Ok(())
    }

    /// The changes to the presets, by symbol.
    pub fn patches(&self) -> BTreeMap<String, InstrumentPatch> {
        // Each value was read alone when it was set, so the whole reads too.
        let read = |table: &toml::Table| table.clone().try_into().unwrap_or_default();
        self.instruments.iter().map(|(symbol, table)| (symbol.clone(), read(table))).collect()
    }

    /// How the reader is told all this; reads the membership and factor files.
    pub fn options(&self) -> Result<bars::Options> {
        Ok(bars::Options {
            timezone: self.timezone.clone(),
            label: self.label,
            repairs: self.repair.clone(),
            instruments: self.patches(),
            membership: self.membership.as_deref().map(crate::source::membership).transpose()?,
            factors: self.factors.as_deref().map(crate::source::factors).transpose()?,
            memory: self.memory.bytes(),
            threads: self.threads(),
            stop: crate::stop_flag(),
            ..bars::Options::default()
        })
    }

    /// How rows are labelled; `None`: not at all.
    pub fn labeling(&self) -> Option<Labeling> {
        let LabelSettings { rule, cost_bp, span } = self.labels;
        rule.map(|rule| Labeling { rule, cost_bp, span, first: First::Share(self.split.first()) })
    }

    /// Threads to use on this machine.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
    }

    /// Every key with its value, its meaning and what is legal; reads back as the same settings.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# Fullbore settings. `auto` is legal everywhere and means the default.\n");
        let mut section = "";
        for key in Key::ALL {
            let (head, last) = key.name.split_once('.').unwrap_or(("", key.name));
            if head != section {
                let _ = write!(text, "\n[{head}]");
                section = head;
            }
            let _ = write!(text, "\n# {} Legal: {}.\n{last} = {}\n", key.doc, key.legal, (key.show)(self));
        }
        if self.instruments.is_empty() {
            let _ = write!(
                text,
                "\n# Changes to the presets of one symbol. Keys: {}.\n# [instrument.XAUUSD]\n# spread_bp = 1.5\n",
                patch_keys().join(", ")
            );
        }
        for (symbol, table) in &self.instruments {
            let _ = write!(text, "\n[instrument.{}]\n{table}", Value::from(symbol.as_str()));
        }
        text
    }
}

enum Wrong {
    /// Message and remedy; the key is at fault.
    Key(String, String),
    /// Message and remedy; the value is at fault.
    Value(String, String),
}

fn unknown(name: &str) -> Wrong {
    let sections = ["bars", "repair", "universe", "features", "label", "cache", "synth"];
    let near = nearest(name, Key::ALL.iter().map(|k| k.name)).or_else(|| {
        // `ordr` without its section, or the right word under the wrong one.
        let last = name.rsplit('.').next().unwrap_or(name);
        let best = nearest(last, Key::ALL.iter().map(|k| k.name.rsplit('.').next().unwrap_or(k.name)))?;
        Key::ALL.iter().map(|k| k.name).find(|n| n.rsplit('.').next() == Some(best))
    });
    let message = match name {
        n if sections.contains(&n) => format!("`{n}` is a section, not a value"),
        n => format!("there is no setting `{n}`"),
    };
    let remedy = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the settings are {}", Key::ALL.iter().map(|k| k.name).collect::<Vec<_>>().join(", ")),
    };
    Wrong::Key(message, remedy)
}

/// The fields of [`InstrumentPatch`], as serde names them.
fn patch_keys() -> Vec<String> {
    match serde_json::to_value(InstrumentPatch::default()) {
        Ok(serde_json::Value::Object(map)) => map.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

fn usage_io(path: &Path, cause: &std::io::Error) -> Error {
    let mut error = Error::io(path, "reading the settings", cause);
    error.kind = Kind::Usage;
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_file(text: &str) -> Result<Settings> {
        let mut settings = Settings::default();
        settings.apply(text, Origin::File(Path::new("s.toml"), text))?;
        Ok(settings)
    }

    fn changed() -> Settings {
        let mut settings = Settings::default();
        for pair in [
            "memory=2GiB",
            "threads=3",
            "seed=7",
            "bars.timezone=America/New_York",
            "bars.label=end",
            "repair.order=refuse",
            "repair.unreadable=0.5",
            "universe.membership=/tmp/it's \"here\".csv",
            "features.set=rsi(14), ema(20)",
            "features.max_hole=0",
            "label.rule=triple(24, 1.5)",
            "label.cost_bp=12",
            "label.span=50",
            "cache.limit=0",
            "synth.years=6",
            "synth.timeframe=5m",
            "synth.plant=true",
            "synth.start=2020-02-29",
            "synth.ragged=false",
            "instrument.XAUUSD.spread_bp=1.5",
            "instrument.BTC/USDT:USDT.currency=EUR",
            "instrument.BRK.B.tick=0.05",
        ] {
            settings.set(pair).unwrap_or_else(|e| panic!("{e}"));
        }
        settings
    }

    #[test]
    fn the_documentation_shows_every_setting_with_its_default() {
        assert_eq!(
            include_str!("../../../docs/settings.toml"),
            Settings::default().to_toml(),
            "docs/settings.toml is stale"
        );
    }

    #[test]
    fn to_toml_reads_back_as_itself() {
        for settings in [Settings::default(), changed()] {
            let text = settings.to_toml();
            assert_eq!(from_file(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), settings);
            for key in Key::ALL {
                assert!(text.contains(key.doc), "{}", key.name);
            }
        }
        assert_eq!(changed().patches()["XAUUSD"].spread_bp, Some(1.5));
        assert_eq!(changed().patches()["BRK.B"].tick, Some(0.05));
        assert_eq!(changed().patches()["BTC/USDT:USDT"].currency.as_deref(), Some("EUR"));
    }

    #[test]
    fn auto_is_legal_everywhere() {
        let mut settings = changed();
        for key in Key::ALL {
            settings.set(&format!("{}=auto", key.name)).unwrap_or_else(|e| panic!("{e}"));
        }
        for key in ["XAUUSD.spread_bp", "BTC/USDT:USDT.currency", "BRK.B.tick"] {
            settings.set(&format!("instrument.{key}=auto")).unwrap_or_else(|e| panic!("{e}"));
        }
        settings.instruments.retain(|_, table| !table.is_empty());
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let check = |text: &str, place: (u64, u64), words: &[&str]| {
            let error = from_file(text).expect_err(text);
            assert_eq!(error.kind, Kind::Usage);
            assert_eq!((error.line, error.column), (Some(place.0), Some(place.1)), "{text}: {error}");
            let all = format!("{error} {}", error.remedy.clone().unwrap_or_default());
            for word in words {
                assert!(all.contains(word), "{all} lacks {word}");
            }
        };
        check("seed = 1\n[repair]\n  ordr = \"sort\"\n", (3, 3), &["repair.ordr", "repair.order"]);
        check("[repair]\norder = \"sorted\"\n", (2, 9), &["repair.order", "sorted", "sort or refuse"]);
        check("threads = \"many\"", (1, 11), &["threads", "many", "whole number"]);
        check("threads = 0", (1, 11), &["threads", "0"]);
        check("seed = -1", (1, 8), &["seed", "-1"]);
        check("[synth]\naccuracy = 80\n", (2, 12), &["0.5 to 0.9999"]);
        check("[reapir]\norder = \"sort\"\n", (2, 1), &["repair.order"]);
        check("[instrument.XAUUSD]\nspred_bp = 1\n", (2, 1), &["instrument.XAUUSD.spred_bp", "spread_bp"]);
        check("[instrument.XAUUSD]\nspread_bp = \"wide\"\n", (2, 13), &["spread_bp", "wide"]);
        check("[instrument.XAUUSD]\nopen = \"25:00\"\n", (2, 8), &["open", "25:00"]);
        check("repair = 3\n", (1, 1), &["section"]);
        check("memory = 8GiB\n", (1, 10), &["TOML"]);
        check("seed = 1\nseed = 2\n", (2, 1), &["TOML"]);
        check("threads = [1, 2]", (1, 11), &["threads"]);
        check("threads = 2024-01-01", (1, 11), &["threads"]);
        check("a.b.c.d.e.f = 1", (1, 7), &["a.b.c.d"]);
    }

    #[test]
    fn set_takes_toml_and_bare_words() {
        let mut s = Settings::default();
        for (pair, ok) in [
            ("repair.order=sort", true),
            ("repair.order=\"sort\"", true),
            ("repair.order = sort", true),
            ("seed=0x10", true),
            ("seed", false),
            ("seed=", false),
            ("=3", false),
            ("nonsense=3", false),
            ("seed=1\nthreads=2", false),
            ("memory=80%", true),
            ("memory=1073741824", true),
            ("synth.accuracy=.8", true),
            ("bars.timezone=-05:00", true),
            ("bars.timezone=UTC", true),
            ("bars.timezone=!!", false),
            ("label.rule=none", true),
            ("label.rule=tripel(24)", false),
            ("label.cost_bp=-1", false),
            ("features.max_hole=-1", false),
            ("features.set=full", true),
            ("cache.limit=1GiB", true),
            ("cache.limit=50%", false),
        ] {
            assert_eq!(s.set(pair).is_ok(), ok, "{pair}");
        }
        assert_eq!(s.seed, 16);
        let error = s.set("thread=3").expect_err("no such key");
        assert!(error.to_string().contains("--set thread=3") && error.remedy.is_some_and(|r| r.contains("threads")));
    }

    #[test]
    fn a_horizon_is_chosen_on_what_the_split_leaves() {
        let first = |pairs: &[&str]| {
            let mut settings = Settings::default();
            pairs.iter().for_each(|pair| settings.set(pair).unwrap());
            match settings.labeling().map(|l| l.first) {
                Some(First::Share(share)) => share,
                other => panic!("{other:?}"),
            }
        };
        let usual = first(&[]);
        assert!(usual <= 0.28 && (usual - 0.82 * 0.4 * 0.85).abs() < 1e-12, "{usual}");
        assert!(first(&["split.tested=0.9"]) < usual / 3.9 && first(&["split.validation=0.5"]) < usual * 0.6);
        assert!(first(&["split.holdout=0.5", "split.tested=0.95", "split.validation=0.5"]) > 0.0);
    }

    #[test]
    fn a_run_folder_is_read_by_its_settings() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("settings.toml"), "seed = 9").expect("written");
        let mut settings = Settings::default();
        settings.read(folder.path()).expect("read");
        assert_eq!(settings.seed, 9);
        assert_eq!(settings.read(&folder.path().join("none.toml")).map_err(|e| e.kind), Err(Kind::Usage));
    }
}
