//! `check selftest`: does the machinery find what is there, and nothing where there is nothing (docs/method.md, Leak
//! tests: null and power)?
//!
//! Four trainings through the same door as `train`, small ones: on a market with a planted signal, and on three markets
//! with nothing in them, made of the data that were given (or of a synthetic market): labels dealt out anew in blocks,
//! prices walked without drift, bars turned upside down. Nothing of it is kept, and it is no trial: what it says of the
//! data is noise.

use super::source::load_market;
use super::{Experiment, Source, TrainEvent, load, open};
use crate::kinds::classifier::{judge_members, predictions};
use crate::progress::{Update, check_stop, stop_flag};
use crate::{LearnerKind, Select, Settings, find};
use bars::synth::{MarketKind as Market, Plant, Synth};
use bars::{Bars, Timeframe};
use compute::Opened;
use features::class::FLAT;
use files::{Error, Kind, Result};
use judge::measure::{Confusion, predicted};
use judge::null;
use learn::Hooks;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What to test, and on what.
#[derive(Debug, Clone, Default)]
pub struct SelfTest {
    /// What the empty markets are made of; `None`: a synthetic one.
    pub select: Option<Select>,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct SelfTested {
    /// The path that was read; null for a synthetic market.
    pub data: Option<String>,
    /// `lstm` or `mlp`.
    pub learner: LearnerKind,
    /// In words.
    pub device: String,
    /// Whether all of them are as they must be.
    pub passed: bool,
    /// Planted first, then the three without anything in them.
    pub cases: Vec<SelfCase>,
    /// Root of all randomness.
    pub seed: u64,
    /// From start to end.
    pub seconds: f64,
}

/// One training.
#[derive(Debug, Clone, Serialize)]
pub struct SelfCase {
    /// `planted`, `labels`, `walk` or `flips`.
    pub name: &'static str,
    /// In words.
    pub what: &'static str,
    /// The net that was trained.
    pub net: String,
    /// Test samples whose true and guessed class are both not flat.
    pub samples: u64,
    /// As many independent ones: the sum of the uniqueness of their labels.
    pub independent: f64,
    /// Matthews' correlation where truth and guess both say up or down; null where that never happens.
    pub directional_mcc: Option<f64>,
    /// The same over all classes; bounded where labels were dealt out anew, since volatility alone may tell flat from
    /// not flat elsewhere.
    pub mcc: f64,
    /// At least this (planted), or no further than this from 0.
    pub bound: f64,
    /// Whether it is as it must be.
    pub passed: bool,
}

/// Symbols and bars that a null market is made of at most.
const SAMPLE: (usize, usize) = (4, 16_000);
/// Bars of a synthetic market.
const BARS: usize = 16_000;
/// Share of the best that a classifier must reach (docs/method.md, Leak tests: power).
const REACH: f64 = 0.9;

/// Small trainings where nobody said otherwise.
const JOB: &[(&str, &str)] = &[
    ("train.epochs", "12"),
    ("train.patience", "6"),
    ("train.seeds", "2"),
    ("train.batch", "128"),
    ("train.rate", "0.003"),
    ("split.folds", "2"),
];

/// Columns that know nothing of what comes.
const ROW: &str = "r = log_return(1), v = volatility(20), s = rsi(14)*0.02 - 1, b = body";
/// A net for them, and the planted column, that an LSTM reads in windows.
const LSTM: &str = "fast:5x8-lstm12 / 8 / direction:3";

/// Tests the machinery itself.
pub fn selftest(request: &SelfTest, settings: &Settings, tell: super::Teller<'_>) -> Result<SelfTested> {
    let clock = Instant::now();
    settings.refuse_candidates("the self-test")?;
    settings.train.learner.expect_classes("the self-test")?;
    let mut own = settings.clone();
    JOB.iter().try_for_each(|(key, value)| own.suggest(key, value))?;
    let device = open(&request.device, settings)?;
    let place = Place::new()?;
    let seed = settings.general.seed;

    // The power test is about a market that is made for it, whatever the data: one bar ahead, two classes, 20 % noise.
    let plant = Plant::default();
    let synth =
        Synth { seed, symbols: 1, bars: BARS, timeframe: Timeframe::M5, kind: Market::Crypto, ..Synth::default() };
    let planted = Synth { plant: Some(plant), ..synth.clone() }.make_market(1).market;
    let mut known = own.clone();
    known.set("label.rule=fixed(1)")?;
    known.set("label.cost_bp=0")?;
    known.classify.net = (known.train.learner.name() == "lstm").then(|| LSTM.to_string());
    let set = format!("p = col(plant), {ROW}");
    let mut cases = Vec::new();
    let mut try_one = |name, what, market: &[Bars], set: Option<String>, settings: &Settings| -> Result<()> {
        tell(TrainEvent::Update(Update { phase: what, done: 0, total: 0, unit: "" }));
        let source = place.read(market, name, set, settings)?;
        cases.push(case(name, what, source, settings, &device, plant.optimum().mcc)?);
        tell(TrainEvent::Line(&line(&cases[cases.len() - 1])));
        check_stop()
    };
    try_one("planted", "a planted signal is found", &planted, Some(set), &known)?;

    let (data, market) = match &request.select {
        None => (None, synth.make_market(1).market),
        Some(select) => {
            let path = find(&select.data)?;
            let whole = load_market(&path, select, settings, &mut |_| {})?.bars;
            (Some(path.display().to_string()), features::leak::sample(&whole, SAMPLE.0, 1, SAMPLE.1))
        }
    };
    // A synthetic market gets the small net and its columns; the user's own data what the user trains with.
    let mut set = None;
    if data.is_none() && settings.features.set == "auto" {
        set = Some(format!("a = close/sma(10) - 1, {ROW}"));
        own.suggest("label.rule", "fixed(1)")?;
        own.suggest("label.cost_bp", "0")?;
        if let Some(net) = &known.classify.net {
            own.suggest("train.net", net)?;
        }
    }
    let made = |change: &dyn Fn(&Bars) -> Bars| market.iter().map(change).collect::<Vec<Bars>>();
    try_one("labels", "labels dealt out anew give nothing", &market, set.clone(), &own)?;
    try_one("walk", "prices without drift give nothing", &made(&|b| null::walk(b, seed)), set.clone(), &own)?;
    try_one("flips", "bars turned upside down give nothing", &made(&|b| null::flip(b, seed)), set, &own)?;
    Ok(SelfTested {
        data,
        learner: settings.train.learner,
        device: device.1,
        passed: cases.iter().all(|c| c.passed),
        cases,
        seed,
        seconds: clock.elapsed().as_secs_f64(),
    })
}

/// What a case came to, for people who wait.
pub(crate) fn line(case: &SelfCase) -> String {
    let word = if case.passed { "yes" } else { "NO" };
    let sign = if case.name == "planted" { "at least" } else { "within" };
    let direction = case.directional_mcc.map_or("none".into(), |m| format!("{m:.4}"));
    format!("{}: {word} (directional MCC {direction}, {sign} {:.4})", case.what, case.bound)
}

/// Trains and judges as `train` does, in memory.
fn case(
    name: &'static str,
    what: &'static str,
    mut source: Source,
    settings: &Settings,
    device: &(Opened, String),
    best: f64,
) -> Result<SelfCase> {
    if name == "labels" {
        let symbols = source.sample_symbols();
        let samples = &mut Arc::make_mut(&mut source.problem).samples;
        // Blocks longer than a label reaches, so that labels overlap each other as before.
        let reach = samples.weight.iter().map(|w| f64::from(*w)).sum::<f64>() / samples.len().max(1) as f64;
        null::permute(samples, &symbols, (4.0 / reach.max(0.01)).ceil() as usize, settings.general.seed)?;
    }
    let experiment = Experiment::new(source, settings, device.clone(), false)?;
    let Experiment { source, splits, learner, plan, at, .. } = &experiment;
    let stop = stop_flag();
    let mut hooks =
        Hooks { event: &mut |_| {}, stop: &|| stop.load(Ordering::Relaxed), save: &mut |_| Ok(()), every: 0 };
    let outcome = learn::train(&**learner, plan, at, None, &mut hooks)?;
    check_stop()?;
    let predictions = predictions(&experiment, &outcome.members)?;
    let ensemble = judge::ensemble(&judge_members(&outcome.members, &predictions), splits.folds.len(), |_| 0);
    let samples = &source.problem.samples;
    let (mut truth, mut guessed, mut independent) = (Vec::new(), Vec::new(), 0.0);
    for (fold, p) in splits.folds.iter().zip(&ensemble).filter(|(_, p)| !p.is_empty()) {
        for (at, guess) in fold.test.iter().zip(predicted(p, source.problem.classes)) {
            let class = source.problem.class_index(*at);
            truth.push(class);
            guessed.push(guess);
            if class != FLAT && guess != FLAT {
                independent += f64::from(samples.weight[*at as usize]);
            }
        }
    }
    let confusion = Confusion::count(source.problem.classes, &truth, &guessed)?;
    let both = confusion.directional().map_or(0, |c| c.samples());
    let (directional_mcc, mcc) = (confusion.directional_mcc(), confusion.mcc());
    // Who says nothing of direction has found nothing: too little where something was planted, as it must be elsewhere.
    let direction = directional_mcc.unwrap_or(0.0);
    let bound = if name == "planted" { REACH * best } else { null::bound(independent) };
    let passed = match name {
        "planted" => direction >= bound,
        "labels" => direction.abs() < bound && mcc.abs() < null::bound(samples_of(splits, samples)),
        _ => direction.abs() < bound,
    };
    let net = source.nets[0].to_string();
    Ok(SelfCase { name, what, net, samples: both, independent, directional_mcc, mcc, bound, passed })
}

/// Independent test samples of all folds.
fn samples_of(splits: &judge::split::Splits, samples: &features::Samples) -> f64 {
    splits.folds.iter().flat_map(|f| &f.test).map(|at| f64::from(samples.weight[*at as usize])).sum()
}

/// A folder for the markets, gone when it is dropped.
struct Place(PathBuf);

impl Place {
    fn new() -> Result<Place> {
        let path = std::env::temp_dir().join(format!("fullbore-selftest-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, "making a folder for the markets", &e))?;
        Ok(Place(path))
    }

    /// Through a file, as any data.
    fn read(&self, market: &[Bars], name: &str, set: Option<String>, settings: &Settings) -> Result<Source> {
        bars::store::write_set(market, &self.0, name, true, "selftest")?;
        let gone = || Error::new(Kind::State, "what was written is not in the catalogue").at(&self.0);
        let file: &Path = &bars::store::find_set(&self.0, name)?.ok_or_else(gone)?;
        let select = Select { data: file.display().to_string(), ..Select::default() };
        load(&select, set.as_deref(), settings, &mut |_| {})
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
