//! The demo's training: the embedded job, through the same door as `train`, and what became of the planted signal.
//!
//! The judge here is stricter than it need be, because the truth is known: what was found is set beside the best there
//! is (docs/method.md, Leak tests: power), beside the same guesses at other times, and beside guesses that need no
//! model. More than the best there is would be a leak, and is called one.

use crate::Settings;
use crate::kinds::classifier::record;
use crate::synth::Planted;
use crate::train::{Teller, Train, TrainEvent, TrainRun, request_of, train};
use bars::synth::{MarketKind, Plant, Synth};
use bars::{Bars, Timeframe};
use files::{Caps, Data, Error, Kind, Result, Table};
use judge::measure::{Confusion, ShiftTest, predicted, shift_test};
use report::read_log;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The training of the demo.
#[derive(Debug, Clone, Serialize)]
pub struct DemoTraining {
    /// Whether it went on with a run that had been cut.
    pub resumed: bool,
    /// As `train` says it.
    pub run: TrainRun,
    /// What became of the planted signal; null after an interruption.
    pub found: Option<Found>,
    /// Epoch by epoch, for the page.
    #[serde(skip)]
    pub(crate) curves: Vec<MemberCurve>,
}

/// What became of the planted signal, on test samples that no member was trained on.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    /// In one word.
    pub verdict: Verdict,
    /// In a sentence.
    pub words: String,
    /// Samples on which it was judged.
    pub samples: u64,
    /// Directional Matthews correlation of the members' mean.
    pub mcc: f64,
    /// The best that anybody could expect, by the generator.
    pub best_mcc: f64,
    /// What guessing the planted signal itself gives on these very samples.
    pub signal_mcc: f64,
    /// The first over the second.
    pub share: f64,
    /// Three deviations of what noise gives on so many samples (docs/method.md, Leak tests: null).
    pub noise_mcc: f64,
    /// The same guesses at other times.
    pub shifted: ShiftTest,
    /// Correlation of guessing that the last known label comes again; null where none was known.
    pub persistence_mcc: Option<f64>,
    /// Guesses that were right, over all.
    pub accuracy: f64,
    /// The same for always guessing the most frequent class of training; its correlation is nothing.
    pub majority_accuracy: f64,
}

/// Whether the planted signal was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// More than chance, and half of the best or more: of so weak a signal a test block shows more or less by chance.
    Found,
    /// More than chance, less than that.
    InPart,
    /// Nothing that chance would not give.
    NotFound,
    /// More than there is.
    TooGood,
}

/// A member's validations.
#[derive(Debug, Clone)]
pub(crate) struct MemberCurve {
    pub(crate) fold: usize,
    pub(crate) seed: usize,
    pub(crate) epoch: Vec<f64>,
    pub(crate) loss: Vec<f64>,
    pub(crate) mcc: Vec<f64>,
}

/// The features of the small net: the signal among things that know nothing of what comes. Few, because so weak a
/// signal is lost among many.
const SET: &str = "[fast]
plant = col(plant)
ret_1 = log_return(1)
range = range
rsi_14 = rsi(14)*0.02 - 1

[slow @1d]
ret_1 = log_return(1)
volatility_10 = volatility(10)

[strategy]
hour_sin = hour_sin
volatility_regime = volatility(20)/volatility(100) - 1
";

/// What is trained where nobody said otherwise: enough folds and seeds for a verdict.
const JOB: &[(&str, &str)] = &[
    ("train.net", "fast:4x4-lstm16 + slow:2x2-lstm4 + strategy:2 / 16 / direction:3"),
    ("train.epochs", "8"),
    ("train.patience", "10"),
    ("train.batch", "128"),
    ("train.rate", "0.004"),
    ("train.checkpoint", "4"),
    ("train.seeds", "10"),
    ("split.folds", "8"),
    ("label.rule", "fixed(1)"),
    ("label.cost_bp", "0"),
];

/// The same in a few seconds: fewer epochs, seeds and folds.
const QUICK: &[(&str, &str)] = &[("train.epochs", "5"), ("train.seeds", "3"), ("split.folds", "5")];

/// Its first bar: 4 January 2016.
const START: i64 = 1_451_865_600_000_000_000;

/// The market that is trained on: nine years of 4-hour bars. The signal is as weak as a good one is in a market: held
/// at the cost of trading, it earns a Sharpe ratio of about three, and five years of test blocks tell that from chance.
pub(super) fn market(seed: u64) -> Synth {
    Synth {
        seed,
        symbols: 1,
        bars: 20_000,
        timeframe: Timeframe::Fixed(4 * Timeframe::H1.ns()),
        start: START,
        kind: MarketKind::Crypto,
        plant: Some(Plant { accuracy: 0.532, stay: 0.9, cost_bp: 1.0, sigma_bp: 30.0 }),
        ..Synth::default()
    }
}

/// The settings of the training: the user's, and the job's where the user said nothing.
fn job(settings: &Settings, quick: bool) -> Result<Settings> {
    settings.refuse_candidates("the demo")?;
    settings.train.learner.expect_classes("the demo")?;
    let mut own = settings.clone();
    let plain = own.features.set == "auto" && own.train.learner.name() == "lstm";
    let quicker = QUICK.iter().filter(|_| quick);
    for (key, value) in quicker.chain(JOB) {
        // The net fits its features and learner alone; others have their own.
        if *key != "train.net" || plain {
            own.suggest(key, value)?;
        }
    }
    Ok(own)
}

/// Trains on the planted market and says what was found; a run that was cut while doing just this goes on.
pub(super) fn run(
    file: &Path,
    signal: &Bars,
    planted: &Planted,
    request: &super::Demo,
    folder: &Path,
    settings: &Settings,
    tell: Teller<'_>,
) -> Result<DemoTraining> {
    let own = job(settings, request.quick)?;
    let (path, cut) = place(folder, &own);
    let select = crate::Select { data: file.display().to_string(), ..crate::Select::default() };
    let fresh = |path: &Path| {
        let set = (own.features.set == "auto").then(|| SET.to_string());
        let (out, device) = (Some(path.to_path_buf()), request.device.clone());
        Train { select: select.clone(), set, out, device, ..Train::default() }
    };
    // The same bars were written anew, into a file of their own.
    let cut = cut.map(|cut| Train { select: select.clone(), ..cut });
    let (run, path, resumed) = match cut.map(|cut| train(&cut, &own, tell)) {
        // Broken, or of another home: it is left as it is.
        Some(Err(why)) if matches!(why.kind, Kind::State | Kind::Input) => {
            let own_place = free(folder);
            let place = own_place.display();
            tell(TrainEvent::Line(&format!(
                "the training in {} cannot be resumed ({why}): {place} is made",
                path.display()
            )));
            (train(&fresh(&own_place), &own, tell)?, own_place, false)
        }
        Some(run) => (run?, path, true),
        None => (train(&fresh(&path), &own, tell)?, path, false),
    };
    let found = match (&run.judged, run.interrupted) {
        (Some(_), false) => Some(found(&run, &path, signal, planted, settings.general.seed)?),
        _ => None,
    };
    Ok(DemoTraining { resumed, run, found, curves: curves(&path)? })
}

/// Where the run goes: on with the last one, if it was cut while it did the same, else to a place of its own.
fn place(folder: &Path, own: &Settings) -> (PathBuf, Option<Train>) {
    let last = (1..).map(|n| nth(folder, n)).take_while(|path| path.exists()).last();
    // Threads and memory are pace.
    let recipe = |settings: &Settings| {
        let mut settings = settings.clone();
        (settings.general.threads, settings.general.memory) = (None, crate::Memory::Auto);
        settings.to_toml()
    };
    if let Some(last) = last
        && let Ok((request, then)) = request_of(&last)
        && recipe(&then) == recipe(own)
    {
        return (last, Some(request));
    }
    (free(folder), None)
}

/// The first place that nothing stands at.
fn free(folder: &Path) -> PathBuf {
    (1..).map(|n| nth(folder, n)).find(|path| !path.exists()).unwrap_or_else(|| nth(folder, 1))
}

fn nth(folder: &Path, n: u32) -> PathBuf {
    folder.join(if n == 1 { "training".to_string() } else { format!("training-{n}") })
}

/// Share of the best that makes a weak signal a found one.
const ENOUGH: f64 = 0.5;

/// What the predictions on disk say of the planted signal.
fn found(run: &TrainRun, path: &Path, signal: &Bars, planted: &Planted, seed: u64) -> Result<Found> {
    let judged = run.judged.as_ref().and_then(record);
    let judged = judged.ok_or_else(|| Error::new(Kind::State, "the run was not judged").at(path))?;
    let Tested { truth, guessed, known } = tested(&path.join("predictions.parquet"), signal)?;
    let direction =
        |guessed: &[u8]| Ok::<_, Error>(Confusion::count(3, &truth, guessed)?.directional_mcc().unwrap_or(0.0));
    let mcc = direction(&guessed)?;
    let best_mcc = planted.best_mcc;
    let noise_mcc = 3.0 / (truth.len().max(1) as f64).sqrt();
    // A label reaches one bar ahead, and the signal stays for about ten: shifts begin behind both.
    let shifted = shift_test(3, &truth, &guessed, 100.min(truth.len() / 4), 1000, seed)?;
    let share = mcc / best_mcc;
    let verdict = match () {
        () if mcc > best_mcc + noise_mcc => Verdict::TooGood,
        () if mcc <= noise_mcc || shifted.p > 0.01 => Verdict::NotFound,
        () if share >= ENOUGH => Verdict::Found,
        () => Verdict::InPart,
    };
    let words = match verdict {
        Verdict::Found => format!("the planted signal was found: {:.0} % of the best possible", 100.0 * share),
        Verdict::InPart => format!(
            "the planted signal was found in part: {:.0} % of the best possible, less than {:.0} %",
            100.0 * share,
            100.0 * ENOUGH
        ),
        Verdict::NotFound => "the planted signal was not found: no better than chance".into(),
        Verdict::TooGood => "the result is better than the planted signal allows: something uses future data".into(),
    };
    Ok(Found {
        verdict,
        words,
        samples: truth.len() as u64,
        mcc,
        best_mcc,
        signal_mcc: direction(&known)?,
        share,
        noise_mcc,
        shifted,
        persistence_mcc: judged.persistence_mcc,
        accuracy: judged.accuracy,
        majority_accuracy: judged.majority_accuracy,
    })
}

/// Test samples in the order of time, as classes 0 to 2.
struct Tested {
    truth: Vec<u8>,
    /// By the mean of a fold's members.
    guessed: Vec<u8>,
    /// By the sign of the planted signal.
    known: Vec<u8>,
}

/// Reads the predictions of a run on the planted market, members averaged.
fn tested(path: &Path, signal: &Bars) -> Result<Tested> {
    #[derive(Default)]
    struct One {
        p: [f64; 3],
        members: f64,
        label: f64,
    }
    let mut all: BTreeMap<i64, One> = BTreeMap::new();
    let source = files::Source::open(path)?;
    files::read_parquet(&source, &Caps::default(), None, &mut |table: Table| {
        let missing = |name: &str| Error::new(Kind::State, format!("there is no column `{name}`")).at(path);
        let column = |name: &str| match table.column(name).map(|c| &c.data) {
            Some(Data::F64(v)) => Ok(v.clone()),
            Some(Data::I64(v)) => Ok(v.iter().map(|x| *x as f64).collect()),
            _ => Err(missing(name)),
        };
        let p = [column("p_down")?, column("p_flat")?, column("p_up")?];
        let label = column("label")?;
        let Some(Data::Time { ns, .. }) = table.column("time").map(|c| &c.data) else { return Err(missing("time")) };
        for (row, time) in ns.iter().enumerate() {
            let one = all.entry(*time).or_default();
            one.p.iter_mut().zip(&p).for_each(|(sum, p)| *sum += p[row]);
            (one.members, one.label) = (one.members + 1.0, label[row]);
        }
        Ok(())
    })?;
    let plant = signal.extras.iter().find(|e| e.0 == "plant").map(|e| e.1.as_slice()).unwrap_or(&[]);
    let at = |time: i64| signal.end.binary_search(&time).ok().and_then(|t| plant.get(t)).copied().unwrap_or(0.0);
    let mean: Vec<f32> = all.values().flat_map(|one| one.p.map(|p| (p / one.members) as f32)).collect();
    Ok(Tested {
        truth: all.values().map(|one| (one.label + 1.0) as u8).collect(),
        guessed: predicted(&mean, 3),
        known: all.keys().map(|time| (at(*time).signum() + 1.0) as u8).collect(),
    })
}

/// Every member's validations, from the log.
fn curves(path: &Path) -> Result<Vec<MemberCurve>> {
    let mut all: BTreeMap<(usize, usize), MemberCurve> = BTreeMap::new();
    for row in read_log(&report::log_path(path))?.iter().filter(|r| r.kind == "epoch") {
        let number = |field: &str| row.number(field).unwrap_or(f64::NAN);
        let (fold, seed) = (number("fold") as usize, number("seed") as usize);
        let none = || MemberCurve { fold, seed, epoch: Vec::new(), loss: Vec::new(), mcc: Vec::new() };
        let curve = all.entry((fold, seed)).or_insert_with(none);
        curve.epoch.push(number("epoch"));
        curve.loss.push(number("valid_loss"));
        curve.mcc.push(number("valid_mcc"));
    }
    Ok(all.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_training_is_left_and_another_place_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = Settings::default();
        assert_eq!(place(folder.path(), &own).0, folder.path().join("training"));
        for (name, text) in [("training", None), ("training-2", Some("{\"schema\": \"run/1\", "))] {
            let broken = folder.path().join(name);
            std::fs::create_dir(&broken).expect("made");
            if let Some(text) = text {
                std::fs::write(broken.join("run.json"), text).expect("written");
            }
            let next = folder.path().join(if name == "training" { "training-2" } else { "training-3" });
            let (path, cut) = place(folder.path(), &own);
            assert!(cut.is_none() && path == next, "{name}: {}", path.display());
        }
    }

    #[test]
    fn demo_settings_replace_defaults_but_not_user_settings() {
        let plain = job(&Settings::default(), false).expect("legal");
        assert_eq!((plain.split.folds, plain.train.seeds, plain.train.epochs), (Some(8), 10, Some(8)));
        let quick = job(&Settings::default(), true).expect("legal");
        assert_eq!((quick.split.folds, quick.train.seeds, quick.train.epochs), (Some(5), 3, Some(5)));
        let mut settings = Settings::default();
        settings.set("train.epochs=7").expect("legal");
        settings.set("features.set=basic").expect("legal");
        let own = job(&settings, true).expect("legal");
        assert_eq!((own.train.epochs, own.classify.net), (Some(7), None));
    }
}
