//! Everything that a run left in its folder, and what charts need of it: `report.json`.

use super::series::{Daily, Month};
use crate::runs::read_result;
use crate::train::Phase;
use files::{Caps, Data, Error, Kind, Result, Source, read_parquet};
use judge::backtest::Backtest;
use report::{Row, RunSummary, read_log};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What the page shows, as data.
#[derive(Debug, Serialize)]
pub(super) struct Gathered {
    schema: &'static str,
    /// Name of its folder.
    pub(super) name: String,
    /// How it stands, in words.
    pub(super) state: String,
    pub(super) started: Option<String>,
    pub(super) ended: Option<String>,
    /// Version of the program that made it.
    pub(super) program: Option<String>,
    /// `result.json`, with the verdict of the holdout where that was opened; null before the end.
    pub(super) result: Option<Value>,
    /// Day by day over the test blocks; null without a backtest.
    pub(super) daily: Option<Daily>,
    pub(super) months: Vec<Month>,
    /// Each member's validations.
    pub(super) curves: Vec<MemberCurve>,
    /// The tables that hold the rest, from the run's folder.
    tables: Vec<&'static str>,
    #[serde(skip)]
    pub(super) trades: Vec<TradeRow>,
    #[serde(skip)]
    pub(super) prices: Vec<Prices>,
}

/// A member's figures, unit by unit.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct MemberCurve {
    pub(super) config: Option<u64>,
    pub(super) fold: u64,
    pub(super) seed: u64,
    /// What is counted: `epoch`.
    pub(super) axis: String,
    /// `[n]`
    pub(super) at: Vec<f64>,
    /// Name and `[n]` values; null where one is missing.
    pub(super) figures: BTreeMap<String, Vec<Option<f64>>>,
}

/// A row of `trades.parquet`.
#[derive(Debug, Clone)]
pub(super) struct TradeRow {
    pub(super) symbol: String,
    pub(super) opened: i64,
    pub(super) closed: i64,
    pub(super) quantity: f64,
    pub(super) entry: f64,
    pub(super) exit: f64,
    pub(super) result_share: f64,
}

/// Closes of one symbol.
#[derive(Debug, Clone)]
pub(super) struct Prices {
    pub(super) symbol: String,
    pub(super) time: Vec<i64>,
    pub(super) close: Vec<f64>,
}

/// A fold's line of the result.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct SavedFold {
    pub(super) fold: u64,
    pub(super) train: u64,
    pub(super) test: u64,
    pub(super) train_from: String,
    pub(super) train_to: String,
    pub(super) valid_from: String,
    pub(super) valid_to: String,
    pub(super) test_from: String,
    pub(super) test_to: String,
}

/// A phase's line of the result.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SavedPhase {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) gpu_percent: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) gpu_memory_bytes: Option<u64>,
}

impl From<&Phase> for SavedPhase {
    fn from(phase: &Phase) -> SavedPhase {
        let Phase { name, seconds, cpu_percent, gpu_percent, memory_bytes, gpu_memory_bytes, .. } = *phase;
        SavedPhase { name: name.into(), seconds, cpu_percent, gpu_percent, memory_bytes, gpu_memory_bytes }
    }
}

impl Gathered {
    /// Reads a run's folder. What is not there, or was written otherwise by another version, is left out.
    pub(super) fn read(folder: &Path) -> Result<Gathered> {
        let summary = RunSummary::read(folder);
        let Some(run) = &summary.run else {
            return Err(Error::new(Kind::State, summary.describe()).at(folder).remedy("restore run.json from a copy"));
        };
        let result = read_result(folder);
        let within = folder.join("backtest");
        let backtest = result.as_ref().and_then(|result| part::<Backtest>(result, "backtest"));
        let daily = backtest.as_ref().and_then(|backtest| Daily::read(&within.join("returns.parquet"), backtest));
        let log = read_log(&report::log_path(folder)).unwrap_or_default();
        let tables = ["backtest/returns.parquet", "backtest/trades.parquet", "backtest/prices.parquet"];
        let tables = [&tables[..], &["backtest/positions.parquet", "predictions.parquet", "split.parquet"]].concat();
        Ok(Gathered {
            schema: "report/1",
            state: summary.describe(),
            started: Some(run.started.clone()),
            ended: run.ended.clone(),
            program: Some(run.program.clone()),
            months: daily.as_ref().map_or_else(Vec::new, Daily::months),
            daily,
            curves: curves(&log),
            tables: tables.into_iter().filter(|table| folder.join(table).exists()).collect(),
            trades: read_trades(&within.join("trades.parquet")).unwrap_or_default(),
            prices: read_prices(&within.join("prices.parquet")).unwrap_or_default(),
            name: summary.name,
            result,
        })
    }

    /// A part of the result, where it is there and reads as one.
    pub(super) fn part<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        part(self.result.as_ref()?, key)
    }

    /// A word of the result, or nothing.
    pub(super) fn text(&self, key: &str) -> String {
        self.part(key).unwrap_or_default()
    }
}

fn part<T: DeserializeOwned>(result: &Value, key: &str) -> Option<T> {
    serde_json::from_value(result.get(key)?.clone()).ok()
}

/// Every member's figures from the log.
fn curves(log: &[Row]) -> Vec<MemberCurve> {
    let axis = log.iter().rev().find_map(|row| row.text("axis")).unwrap_or("epoch");
    let no_figures = ["member", "fold", "seed", "config", "step", "samples_per_s", axis];
    let mut all: BTreeMap<(u64, u64, u64), MemberCurve> = BTreeMap::new();
    for row in log.iter().filter(|row| row.kind == axis) {
        let whole = |field: &str| row.fields.get(field).and_then(Value::as_u64);
        let (config, fold, seed) = (whole("config"), whole("fold").unwrap_or(1), whole("seed").unwrap_or(1));
        let curve = all.entry((config.unwrap_or(1), fold, seed)).or_insert_with(|| MemberCurve {
            config,
            fold,
            seed,
            axis: axis.to_string(),
            ..MemberCurve::default()
        });
        curve.at.push(row.number(axis).unwrap_or(f64::NAN));
        for (name, value) in row
            .fields
            .iter()
            .filter(|(name, value)| !no_figures.contains(&name.as_str()) && (value.is_number() || value.is_null()))
        {
            let own = curve.figures.entry(name.clone()).or_default();
            own.resize(curve.at.len() - 1, None);
            own.push(value.as_f64());
        }
    }
    let mut all: Vec<MemberCurve> = all.into_values().collect();
    for curve in &mut all {
        let n = curve.at.len();
        curve.figures.values_mut().for_each(|own| own.resize(n, None));
    }
    all
}

/// Columns of numbers, instants and names of a Parquet file, each by its name.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) numbers: BTreeMap<String, Vec<f64>>,
    pub(super) times: BTreeMap<String, Vec<i64>>,
    pub(super) names: BTreeMap<String, Vec<String>>,
}

impl Columns {
    pub(super) fn read(path: &Path) -> Result<Columns> {
        let mut all = Columns::default();
        read_parquet(&Source::open(path)?, &Caps::default(), None, &mut |table| {
            for column in table.columns {
                match column.data {
                    Data::F64(values) => all.numbers.entry(column.name).or_default().extend(values),
                    Data::I64(values) => {
                        all.numbers.entry(column.name).or_default().extend(values.iter().map(|v| *v as f64));
                    }
                    Data::Time { ns, .. } => all.times.entry(column.name).or_default().extend(ns),
                    Data::Names { codes, names } => {
                        let name = |code: &u32| names.get(*code as usize).cloned().unwrap_or_default();
                        all.names.entry(column.name).or_default().extend(codes.iter().map(name));
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn number(&self, name: &str) -> Result<&[f64]> {
        self.numbers.get(name).map(Vec::as_slice).ok_or_else(|| missing(name))
    }

    fn time(&self, name: &str) -> Result<&[i64]> {
        self.times.get(name).map(Vec::as_slice).ok_or_else(|| missing(name))
    }

    fn name(&self, name: &str) -> Result<&[String]> {
        self.names.get(name).map(Vec::as_slice).ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> Error {
    Error::new(Kind::State, format!("there is no column `{name}`"))
}

fn read_trades(path: &Path) -> Result<Vec<TradeRow>> {
    let all = Columns::read(path)?;
    let (symbol, opened, closed) = (all.name("symbol")?, all.time("opened")?, all.time("closed")?);
    let (quantity, entry, exit) = (all.number("quantity")?, all.number("entry")?, all.number("exit")?);
    let share = all.number("result_share")?;
    let row = |i: usize| TradeRow {
        symbol: symbol[i].clone(),
        opened: opened[i],
        closed: closed[i],
        quantity: quantity[i],
        entry: entry[i],
        exit: exit[i],
        result_share: share[i],
    };
    Ok((0..symbol.len()).map(row).collect())
}

/// Symbols in the order of the file, each a run of rows.
fn read_prices(path: &Path) -> Result<Vec<Prices>> {
    let all = Columns::read(path)?;
    let (symbol, time, close) = (all.name("symbol")?, all.time("time")?, all.number("close")?);
    let mut from = 0;
    let runs = symbol.chunk_by(|a, b| a == b).map(|run| {
        let own = from..from + run.len();
        from = own.end;
        Prices { symbol: run[0].clone(), time: time[own.clone()].to_vec(), close: close[own].to_vec() }
    });
    Ok(runs.collect())
}
