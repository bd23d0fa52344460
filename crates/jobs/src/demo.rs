//! `demo`: a market made, written, read back, audited, damaged, audited again, turned into features and labels; a
//! population of small LSTMs walked forward on a market with a weak planted signal and judged; all shown on one page
//! beside the report of the run.
//!
//! The audit is judged on damage that is known: a copy of eight symbols gets seven kinds of it, row by row, and the
//! page sets what was planted beside what was found. The training ([`training`]) is judged on a signal that is known.

pub(crate) mod training;

use crate::features::{Featured, LabelSummary, compute, describe};
use crate::progress::{Sink, Update, check_stop, patiently, shared};
use crate::synth::{Planted, planted};
use crate::train::{Teller, TrainEvent};
use crate::{Audited, Settings, page};
use bars::audit::{SymbolAudit, Verdict};
use bars::synth::{Plant, Synth, SyntheticMarket};
use bars::{Bars, Timeframe};
use features::{Dataset, Plan, read_set};
use files::{Error, Kind, Result};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use training::DemoTraining;

/// Where the page goes.
#[derive(Debug, Clone, Default)]
pub struct Demo {
    /// The folder; `None` is `runs/demo-DATE`.
    pub out: Option<PathBuf>,
    /// What the training runs on: `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
    /// A smaller training, for those in a hurry.
    pub quick: bool,
}

/// What the demo saw.
#[derive(Debug, Clone, Serialize)]
pub struct Demoed {
    /// The page.
    pub report: String,
    /// The folder with the page and the data.
    pub folder: String,
    /// Of the synthetic market.
    pub seed: u64,
    /// Of the daily market.
    pub symbols: u64,
    /// Of all series made.
    pub bars: u64,
    /// Bars made a second, on all threads.
    pub made_bars_per_s: f64,
    /// Bars of the daily market written as Parquet a second.
    pub written_bars_per_s: f64,
    /// Rows of the daily market read back and audited a second.
    pub read_rows_per_s: f64,
    /// Bytes of Parquet read a second.
    pub read_bytes_per_s: f64,
    /// On the daily market as it was made.
    pub verdict: Verdict,
    /// On the damaged copy.
    pub damaged_verdict: Verdict,
    /// What was damaged, and what of it the audit found.
    pub damage: Vec<Damage>,
    /// The planted signal's figures.
    pub planted: Planted,
    /// Features and labels of the daily market.
    pub features: DemoFeatures,
    /// What a population of small LSTMs made of the planted signal.
    pub training: DemoTraining,
    /// From start to end.
    pub seconds: f64,
}

/// Features and labels of the daily market.
#[derive(Debug, Clone, Serialize)]
pub struct DemoFeatures {
    /// The preset.
    pub set: String,
    /// How many.
    pub columns: u64,
    /// One a bar.
    pub rows: u64,
    /// Rows computed a second, labels included.
    pub rows_per_s: f64,
    /// Values computed a second.
    pub values_per_s: f64,
    /// The same time, for one row.
    pub ns_per_bar: f64,
    /// Rows on which nothing depends on where the data begin, over all rows.
    pub settled_share: f64,
    /// What there is to learn; null without labels.
    pub label: Option<LabelSummary>,
}

/// One kind of damage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Damage {
    /// In words.
    pub what: &'static str,
    /// To this symbol.
    pub symbol: String,
    /// Rows or events damaged.
    pub planted: u64,
    /// Rows or events the audit counted.
    pub found: u64,
}

/// Everything the page draws.
pub(crate) struct Shown<'a> {
    pub(crate) figures: &'a Demoed,
    pub(crate) market: &'a [Bars],
    pub(crate) data: &'a Dataset,
    pub(crate) featured: &'a Featured,
    pub(crate) signal: &'a Bars,
    pub(crate) session: &'a Bars,
    pub(crate) clean: &'a Audited,
    pub(crate) damaged: &'a Audited,
}

/// The features that are computed.
const SET: &str = "full";

/// Runs the demo.
pub fn demo(request: &Demo, settings: &Settings, tell: Teller<'_>) -> Result<Demoed> {
    let clock = Instant::now();
    let sink = &mut |update: Update| tell(TrainEvent::Update(update));
    let folder = request.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/demo-{}", today())));
    let mut data = folder.join("data");
    std::fs::create_dir_all(&data).map_err(|e| Error::io(&data, "making the folder", &e))?;

    let (made, signal, session, make_seconds) = make(settings, sink)?;
    let all = made.market.len() + 2;
    let bars: u64 = made.market.iter().chain(&signal.market).chain(&session.market).map(|b| b.len() as u64).sum();

    sink(Update { phase: "writing", done: 0, total: all as u64, unit: "symbols" });
    let origin = format!("demo, seed {}", settings.general.seed);
    let timer = Instant::now();
    let file = match write(&made.market, &data, "market", &origin) {
        // What an earlier demo left there is broken, and stays as it is.
        Err(why) if matches!(why.kind, Kind::State | Kind::Input) => {
            let free = (2..).map(|n| folder.join(format!("data-{n}"))).find(|path| !path.exists());
            data = free.unwrap_or(data);
            std::fs::create_dir_all(&data).map_err(|e| Error::io(&data, "making the folder", &e))?;
            write(&made.market, &data, "market", &origin)?
        }
        file => file?,
    };
    let write_seconds = timer.elapsed().as_secs_f64();
    let signal_file = write(&signal.market, &data, "signal", &origin)?;
    write(&session.market, &data, "session", &origin)?;

    let options = settings.options()?;
    let timer = Instant::now();
    let (market, audit) = shared(sink, |progress| bars::read(&file, &options, progress))?;
    let clean = Audited::new(file.display().to_string(), audit, timer.elapsed().as_secs_f64());

    let spoiled = data.join("damaged.csv");
    let mut damage = spoil(&made.market, &spoiled)?;
    let timer = Instant::now();
    let (_, audit) = shared(sink, |progress| bars::read(&spoiled, &options, progress))?;
    let damaged = Audited::new(spoiled.display().to_string(), audit, timer.elapsed().as_secs_f64());
    for d in &mut damage {
        d.found = damaged.audit.symbols.iter().find(|s| s.symbol == d.symbol).map_or(0, |s| found(d.what, s));
    }

    let plan = Plan::new(&read_set(SET)?)?;
    let (dataset, compute_seconds) = compute(market.bars, &plan, settings, sink)?;
    let featured = describe(&dataset, settings, compute_seconds);
    check_stop()?;

    let plant = planted(&signal.truth.plant.unwrap_or_else(|| Plant::default().optimum()));
    let training = training::run(&signal_file, &signal.market[0], &plant, request, &folder, settings, tell)?;
    let report = folder.join("report.html");
    let mut figures = Demoed {
        report: report.display().to_string(),
        folder: folder.display().to_string(),
        seed: settings.general.seed,
        symbols: made.market.len() as u64,
        bars,
        made_bars_per_s: bars as f64 / make_seconds.max(1e-9),
        written_bars_per_s: made.market.iter().map(Bars::len).sum::<usize>() as f64 / write_seconds.max(1e-9),
        read_rows_per_s: clean.rows_per_s,
        read_bytes_per_s: clean.bytes_per_s,
        verdict: clean.audit.verdict,
        damaged_verdict: damaged.audit.verdict,
        damage,
        planted: plant,
        features: DemoFeatures {
            set: SET.into(),
            columns: featured.columns.len() as u64,
            rows: featured.rows,
            rows_per_s: featured.rows_per_s.unwrap_or(0.0),
            values_per_s: featured.values_per_s.unwrap_or(0.0),
            ns_per_bar: featured.ns_per_bar.unwrap_or(0.0),
            settled_share: featured.settled_share,
            label: featured.label.clone(),
        },
        training,
        seconds: 0.0,
    };
    // What is drawn is what was read back, not what was made.
    let shown = Shown {
        figures: &figures,
        market: &dataset.base.market,
        data: &dataset,
        featured: &featured,
        signal: &signal.market[0],
        session: &session.market[0],
        clean: &clean,
        damaged: &damaged,
    };
    report::write(&report, &page::page(&shown))?;
    figures.seconds = clock.elapsed().as_secs_f64();
    Ok(figures)
}

/// The daily market, a planted signal, and 5-minute bars with sessions.
fn make(settings: &Settings, sink: Sink<'_>) -> Result<(SyntheticMarket, SyntheticMarket, SyntheticMarket, f64)> {
    let (seed, threads) = (settings.general.seed, settings.threads());
    let market = Synth { seed, ..Synth::default() };
    let signal = training::market(seed);
    let session =
        Synth { seed, symbols: 1, bars: 78 * 250, timeframe: Timeframe::M5, ragged: false, ..Synth::default() };
    let clock = Instant::now();
    let made = patiently("making", sink, move || {
        (market.make_market(threads), signal.make_market(1), session.make_market(1))
    })?;
    Ok((made.0, made.1, made.2, clock.elapsed().as_secs_f64()))
}

/// Writes one set as Parquet and gives its file.
fn write(market: &[Bars], folder: &Path, name: &str, origin: &str) -> Result<PathBuf> {
    check_stop()?;
    bars::store::write_set(market, folder, name, true, origin)?;
    bars::store::find_set(folder, name)?
        .ok_or_else(|| Error::new(Kind::State, "what was written is not in the catalogue").at(folder))
}

const TWICE: &str = "duplicated rows";
const SWAPPED: &str = "neighbouring rows swapped";
const SPLIT: &str = "unadjusted 10:1 split";
const SPIKE: &str = "spike to 3 times the price";
const HOLE: &str = "bars removed";
const RANGE: &str = "high and low swapped";
const ZERO: &str = "close of zero";

/// What the audit counted of that kind.
fn found(what: &str, s: &SymbolAudit) -> u64 {
    match what {
        TWICE => s.duplicates,
        SWAPPED => s.out_of_order,
        SPLIT => s.suspected_splits.len() as u64,
        SPIKE => s.spikes,
        HOLE => s.missing_bars,
        RANGE => s.range_violations,
        _ => s.bad_prices,
    }
}

/// Writes a copy of eight whole-lived symbols as one CSV file, seven of them damaged, and says how.
fn spoil(market: &[Bars], path: &Path) -> Result<Vec<Damage>> {
    let longest = market.iter().map(Bars::len).max().unwrap_or(0);
    let mut text = String::from("date,symbol,open,high,low,close,volume\n");
    let mut damage = Vec::new();
    for (i, bars) in market.iter().filter(|b| b.len() == longest && longest > 400).take(8).enumerate() {
        let mut rows: Vec<(usize, [f64; 4])> =
            (0..bars.len()).map(|t| (t, [bars.open[t], bars.high[t], bars.low[t], bars.close[t]])).collect();
        let hit = match i {
            0 => {
                for at in [700, 400, 100] {
                    rows.insert(at, rows[at]);
                }
                Some((TWICE, 3))
            }
            1 => {
                rows.swap(200, 201);
                rows.swap(500, 501);
                Some((SWAPPED, 2))
            }
            2 => {
                let middle = rows.len() / 2;
                rows[middle..].iter_mut().for_each(|r| r.1 = r.1.map(|p| p / 10.0));
                Some((SPLIT, 1))
            }
            3 => {
                rows[300].1 = rows[300].1.map(|p| p * 3.0);
                Some((SPIKE, 1))
            }
            4 => {
                rows.drain(350..370);
                Some((HOLE, 20))
            }
            5 => {
                for at in [50, 250] {
                    rows[at].1.swap(1, 2);
                }
                Some((RANGE, 2))
            }
            6 => {
                rows[150].1[3] = 0.0;
                Some((ZERO, 1))
            }
            _ => None,
        };
        if let Some((what, planted)) = hit {
            damage.push(Damage { what, symbol: bars.symbol.clone(), planted, found: 0 });
        }
        for (t, [o, h, l, c]) in rows {
            let day = files::time::rfc3339(bars.start[t]);
            let day = day.get(..10).unwrap_or(&day);
            let volume = bars.volume.get(t).copied().unwrap_or(0.0);
            let _ = writeln!(text, "{day},{},{o:.4},{h:.4},{l:.4},{c:.4},{volume:.0}", bars.symbol);
        }
    }
    files::replace_bytes(path, text.as_bytes())?;
    Ok(damage)
}

/// `2024-03-01`, in UTC.
pub(crate) fn today() -> String {
    let ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
    files::time::rfc3339(ns).chars().take(10).collect()
}
