//! `check selftest`: does the machinery find what is there, and nothing where there is nothing (docs/method.md, Leak
//! tests: null and power)? Does it know nothing of what comes, and do costs cost?
//!
//! Small trainings through the same door as `train`: on a market with a planted signal, on the same with features that
//! come too late, and on three markets with nothing in them, made of the data that were given (or of a synthetic
//! market): labels dealt out anew in blocks, prices walked without drift, bars turned upside down. The walk is trained
//! on once more with another future, and positions on the data are replayed at other costs. Nothing of it is kept, and
//! it is no trial: what it says of the data is noise.

use super::source::load_market;
use super::{Experiment, Source, TrainEvent, load, open};
use crate::kinds::classifier::{judge_members, predictions};
use crate::kinds::test_blocks::price_table;
use crate::kinds::trading::Trading;
use crate::progress::{Update, check_stop, stop_flag};
use crate::{LearnerKind, Select, Settings, find};
use account::Params;
use bars::synth::{MarketKind as Market, Plant, Synth};
use bars::{Bars, Timeframe};
use compute::Opened;
use features::class::FLAT;
use features::{Clock, Span};
use files::{Error, Kind, Result, format_count, format_plural};
use judge::backtest::{Course, walk};
use judge::measure::{Confusion, predicted};
use judge::null;
use learn::{Hooks, Trained};
use market::{PriceTable, Targets};
use random::mix;
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
    /// Planted first, then the ones without anything in them.
    pub cases: Vec<SelfCase>,
    /// What must hold to the bit, whatever was learned.
    pub checks: Vec<SelfCheck>,
    /// Root of all randomness.
    pub seed: u64,
    /// From start to end.
    pub seconds: f64,
}

/// One training.
#[derive(Debug, Clone, Serialize)]
pub struct SelfCase {
    /// `planted`, `late`, `labels`, `walk` or `flips`.
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

/// One thing that must hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelfCheck {
    /// `costs` or `poison`.
    pub name: &'static str,
    /// In words.
    pub what: &'static str,
    /// What was compared and what came of it, in words.
    pub found: String,
    /// Whether it holds.
    pub passed: bool,
}

/// Symbols and bars that a null market is made of at most.
const SAMPLE: (usize, usize) = (4, 16_000);
/// Bars of a synthetic market.
const BARS: usize = 16_000;
/// Share of the best that a classifier must reach (docs/method.md, Leak tests: power).
const REACH: f64 = 0.9;
/// Bars by which features come too late: the planted signal lasts for ten.
const LATE: usize = 200;

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
    let place = MarketFolder::new("selftest")?;
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
    let mut try_one = |name, what, market: &[Bars], set: Option<String>, settings: &Settings| -> Result<Learned> {
        tell(TrainEvent::Update(Update { phase: what, done: 0, total: 0, unit: "" }));
        let source = change(name, place.read(market, name, set, settings)?, seed)?;
        let learned = Learned::new(source, settings, &device)?;
        cases.push(case(name, what, &learned, plant.optimum().mcc)?);
        tell(TrainEvent::Line(&line(&cases[cases.len() - 1])));
        check_stop()?;
        Ok(learned)
    };
    try_one("planted", "a planted signal is found", &planted, Some(set.clone()), &known)?;
    try_one("late", "features that come too late give nothing", &planted, Some(set), &known)?;

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
    let walked = made(&|b| null::walk(b, seed));
    try_one("labels", "labels dealt out anew give nothing", &market, set.clone(), &own)?;
    let plain = try_one("walk", "prices without drift give nothing", &walked, set.clone(), &own)?;
    try_one("flips", "bars turned upside down give nothing", &made(&|b| null::flip(b, seed)), set.clone(), &own)?;

    tell(TrainEvent::Update(Update { phase: "another future", done: 0, total: 0, unit: "" }));
    let t = plain.middle_of_last_test();
    let poisoned: Vec<Bars> = walked.iter().map(|bars| null::poison(bars, t, seed)).collect();
    let poisoned = Learned::new(place.read(&poisoned, "poison", set, &own)?, &own, &device)?;
    let checks = vec![costs_cost(&market, &own)?, knows_no_future(&plain, &poisoned, t)?];
    for SelfCheck { what, found, passed, .. } in &checks {
        tell(TrainEvent::Line(&format!("{what}: {} ({found})", if *passed { "yes" } else { "NO" })));
    }
    Ok(SelfTested {
        data,
        learner: settings.train.learner,
        device: device.1,
        passed: cases.iter().all(|c| c.passed) && checks.iter().all(|c| c.passed),
        cases,
        checks,
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

/// What is changed about the samples of a case.
fn change(name: &str, mut source: Source, seed: u64) -> Result<Source> {
    match name {
        "labels" => {
            let symbols = source.sample_symbols();
            let samples = &mut Arc::make_mut(&mut source.problem).samples;
            // Blocks longer than a label reaches, so that labels overlap each other as before.
            let reach = samples.weight.iter().map(|w| f64::from(*w)).sum::<f64>() / samples.len().max(1) as f64;
            null::permute(samples, &symbols, (4.0 / reach.max(0.01)).ceil() as usize, seed)?;
        }
        "late" => null::delay(&mut Arc::make_mut(&mut source.problem).samples, LATE),
        _ => {}
    }
    Ok(source)
}

/// A training, in memory.
struct Learned {
    experiment: Experiment,
    members: Vec<Trained>,
    /// `[members][test, classes]`
    predictions: Vec<Vec<f32>>,
}

impl Learned {
    /// Trains as `train` does.
    fn new(source: Source, settings: &Settings, device: &(Opened, String)) -> Result<Learned> {
        let experiment = Experiment::new(source, settings, device.clone(), false)?;
        let stop = stop_flag();
        let mut hooks =
            Hooks { event: &mut |_| {}, stop: &|| stop.load(Ordering::Relaxed), save: &mut |_| Ok(()), every: 0 };
        let Experiment { learner, plan, at, .. } = &experiment;
        let members = learn::train(&**learner, plan, at, None, &mut hooks)?.members;
        check_stop()?;
        let predictions = predictions(&experiment, &members)?;
        Ok(Learned { experiment, members, predictions })
    }

    /// A moment behind all training and validation, in the middle of the last test.
    fn middle_of_last_test(&self) -> i64 {
        let test = self.experiment.splits.folds.last().map_or(&[][..], |fold| &fold.test);
        test.get(test.len() / 2).map_or(0, |at| self.experiment.source.problem.samples.t0[*at as usize])
    }
}

/// Judges as `train` does.
fn case(name: &'static str, what: &'static str, learned: &Learned, best: f64) -> Result<SelfCase> {
    let Learned { experiment: Experiment { source, splits, .. }, members, predictions } = learned;
    let ensemble = judge::ensemble(&judge_members(members, predictions), splits.folds.len(), |_| 0);
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

/// Positions of a fixed number of units on each symbol, at no, once, twice and three times the costs: none of them may
/// end with more than at less cost.
fn costs_cost(market: &[Bars], settings: &Settings) -> Result<SelfCheck> {
    let (mut fewest, mut helped) = (f64::INFINITY, Vec::new());
    for bars in market.iter().filter(|bars| bars.len() > 2) {
        let table = price_table(std::slice::from_ref(bars), settings)?;
        let ends = ends_at_costs(bars, &table, settings.account.delisting_return)?;
        fewest = fewest.min(ends[0] - ends[3]);
        if ends.windows(2).any(|pair| pair[1] > pair[0]) {
            helped.push(bars.symbol.clone());
        }
    }
    let found = match helped.is_empty() {
        true if fewest > 0.0 => format!("{} at 0 to 3 times the costs", format_plural(market.len() as u64, "symbol")),
        true => "nothing costs anything here".into(),
        false => format!("more cost earns more on {}", helped.join(", ")),
    };
    Ok(SelfCheck { name: "costs", what: "more cost never helps", found, passed: helped.is_empty() })
}

/// `[4]` equity at the end. The units are few enough that margin never cuts them, and the same at any cost.
fn ends_at_costs(bars: &Bars, table: &PriceTable, delisting_return: f64) -> Result<Vec<f64>> {
    let (market, clock) = (std::slice::from_ref(bars), Clock::new(std::slice::from_ref(bars)));
    let targets: Targets = (0..bars.len()).map(|t| [1.0, 0.0, -1.0, 1.0][(t / 7) % 4]).collect();
    let own = table.params[0];
    let highest = bars.high.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let lots = 0.01 * own.capital / (highest * own.multiplier.max(f64::MIN_POSITIVE));
    let fixed = Params { lots, lot: 0.0, vol_target: 0.0, min_notional: 0.0, volume_cap: 0.0, liquidation: 0.0, ..own };
    let Some(span) = Span::new(clock.times[0], clock.times[clock.times.len() - 1].saturating_add(1)) else {
        return Ok(vec![0.0; 4]);
    };
    let course = Course { market, clock: &clock, table, span, delisting_return };
    let end = |multiple: f64| {
        Ok(walk(&course, &[fixed.with_costs(multiple)], &targets)?.equity.last().copied().unwrap_or(0.0))
    };
    [0.0, 1.0, 2.0, 3.0].into_iter().map(end).collect()
}

/// Whether all that is known at `t` is the same to the bit where only the future differs: features, the members that
/// were trained before it, what they say, and positions.
fn knows_no_future(plain: &Learned, other: &Learned, t: i64) -> Result<SelfCheck> {
    let [features, said, held] = [known_features, known_probabilities, known_positions];
    let mut parts = Vec::new();
    for (unit, of) in
        [("feature", features as fn(&Learned, i64) -> Result<Vec<u64>>), ("probability", said), ("position", held)]
    {
        let (own, others) = (of(plain, t)?, of(other, t)?);
        let differ = own.iter().zip(&others).filter(|(a, b)| a != b).count() + own.len().abs_diff(others.len());
        parts.push((unit, own.len() as u64, differ as u64));
    }
    let passed = parts.iter().all(|(_, _, differ)| *differ == 0);
    let count = |n: u64, unit: &str| match unit {
        "probability" => format!("{} probabilities", format_count(n)),
        unit => format_plural(n, unit),
    };
    let found: Vec<String> = match passed {
        true => parts.iter().map(|(unit, n, _)| count(*n, unit)).collect(),
        false => parts
            .iter()
            .filter(|p| p.2 > 0)
            .map(|(unit, n, differ)| format!("{differ} of {}", count(*n, unit)))
            .collect(),
    };
    let found = format!("{} {}", found.join(", "), if passed { "are the same" } else { "differ" });
    Ok(SelfCheck { name: "poison", what: "another future changes nothing", found, passed })
}

/// The last row of every input, of every sample that is known at `t`.
fn known_features(learned: &Learned, t: i64) -> Result<Vec<u64>> {
    let problem = &learned.experiment.source.problem;
    let known = problem.samples.rows.iter().zip(&problem.samples.t0).filter(|(_, t0)| **t0 <= t);
    let values = known.flat_map(|(id, _)| {
        problem.inputs.iter().flat_map(move |input| {
            let row = input.map.as_ref().map_or(*id, |map| map[*id as usize]) as usize * input.stride;
            input.values[row..row + input.columns.len()].iter().map(|x| u64::from(x.to_bits()))
        })
    });
    Ok(values.collect())
}

fn known_probabilities(learned: &Learned, t: i64) -> Result<Vec<u64>> {
    let Experiment { source, splits, .. } = &learned.experiment;
    let (t0, classes) = (&source.problem.samples.t0, source.problem.classes);
    let of_member = |(member, p): (&Trained, &Vec<f32>)| {
        let tested = splits.folds[member.fold].test.iter().zip(p.chunks_exact(classes));
        let known = tested.filter(|(at, _)| t0[**at as usize] <= t);
        known.flat_map(|(_, p)| p.iter().map(|x| u64::from(x.to_bits())).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    Ok(learned.members.iter().zip(&learned.predictions).flat_map(of_member).collect())
}

fn known_positions(learned: &Learned, t: i64) -> Result<Vec<u64>> {
    let members: Vec<&Trained> = learned.members.iter().collect();
    let walked = match Trading::new(&learned.experiment)? {
        Some(trading) => trading.walk_members(&members)?,
        None => None,
    };
    let known = walked.iter().flat_map(|walked| &walked.positions).filter(|row| row.time <= t);
    Ok(known.map(|row| row.quantity.to_bits() ^ mix(row.time as u64 ^ row.symbol as u64)).collect())
}

/// Independent test samples of all folds.
fn samples_of(splits: &judge::split::Splits, samples: &features::Samples) -> f64 {
    splits.folds.iter().flat_map(|f| &f.test).map(|at| f64::from(samples.weight[*at as usize])).sum()
}

/// A folder for made markets, gone when it is dropped.
pub(crate) struct MarketFolder(PathBuf);

impl MarketFolder {
    pub(crate) fn new(verb: &str) -> Result<MarketFolder> {
        let path = std::env::temp_dir().join(format!("fullbore-{verb}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, "making a folder for the markets", &e))?;
        Ok(MarketFolder(path))
    }

    /// Through a file, as any data.
    pub(crate) fn read(&self, market: &[Bars], name: &str, set: Option<String>, settings: &Settings) -> Result<Source> {
        bars::store::write_set(market, &self.0, name, true, "made")?;
        let gone = || Error::new(Kind::State, "what was written is not in the catalogue").at(&self.0);
        let file: &Path = &bars::store::find_set(&self.0, name)?.ok_or_else(gone)?;
        let select = Select { data: file.display().to_string(), ..Select::default() };
        load(&select, set.as_deref(), settings, &mut |_| {})
    }
}

impl Drop for MarketFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn market(plant: bool) -> Vec<Bars> {
        let plant = plant.then(Plant::default);
        let synth =
            Synth { symbols: 1, bars: 4000, timeframe: Timeframe::H1, kind: Market::Crypto, plant, ..Synth::default() };
        synth.make_market(1).market
    }

    fn learn(place: &MarketFolder, market: &[Bars], name: &str) -> Learned {
        let mut settings = Settings::default();
        let job = [("train.learner", "mlp"), ("train.epochs", "4"), ("train.rate", "0.01"), ("train.seeds", "1")];
        let rule = [("split.folds", "2"), ("label.rule", "fixed(1)"), ("label.cost_bp", "0")];
        job.iter().chain(&rule).for_each(|(key, value)| settings.set(&format!("{key}={value}")).unwrap());
        let set = Some(format!("p = col(plant), {ROW}"));
        let source = change(name, place.read(market, name, set, &settings).unwrap(), 1).unwrap();
        Learned::new(source, &settings, &(Opened::Cpu { threads: 1 }, String::new())).unwrap()
    }

    #[test]
    fn what_is_planted_is_told_from_what_comes_too_late_and_from_another_future() {
        let (place, market) = (MarketFolder::new("selftest").unwrap(), market(true));
        let in_time = learn(&place, &market, "in-time");
        let late = learn(&place, &market, "late");
        // Features that come in time fail where late ones must give nothing.
        let judged = |learned: &Learned| case("late", "", learned, 0.6).unwrap();
        assert!(!judged(&in_time).passed && judged(&late).passed, "{:?} {:?}", judged(&in_time), judged(&late));

        let t = in_time.middle_of_last_test();
        let poisoned: Vec<Bars> = market.iter().map(|bars| null::poison(bars, t, 1)).collect();
        let poisoned = learn(&place, &poisoned, "poisoned");
        let same = knows_no_future(&in_time, &poisoned, t).unwrap();
        assert!(same.passed && !same.found.contains(" 0 "), "{same:?}");
        // Asked about what lies behind the poison, each part differs.
        let differs = knows_no_future(&in_time, &poisoned, i64::MAX).unwrap();
        let parts = ["features", "probabilities", "positions"];
        assert!(!differs.passed && parts.iter().all(|part| differs.found.contains(part)), "{differs:?}");
    }

    #[test]
    fn a_cost_that_pays_is_caught() {
        let (market, settings) = (market(false), Settings::default());
        assert!(costs_cost(&market, &settings).unwrap().passed);
        let mut table = price_table(&market, &settings).unwrap();
        let falls = |ends: &[f64]| ends.windows(2).all(|pair| pair[1] < pair[0]);
        let ends = ends_at_costs(&market[0], &table, 0.0).unwrap();
        assert!(falls(&ends), "{ends:?}");
        table.params[0].fee = -0.01;
        assert!(!falls(&ends_at_costs(&market[0], &table, 0.0).unwrap()), "a rebate pays for each trade");
    }
}
