//! `runs compare`: in what two runs differ, settings first, then figures.

use super::{find_run, read_result};
use crate::Settings;
use files::{Error, Kind, Result, format_fixed};
use report::RunSummary;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Two runs beside each other.
#[derive(Debug, Clone, Serialize)]
pub struct RunsCompared {
    /// Names of their folders.
    pub runs: [String; 2],
    /// What was set otherwise: data, settings, version.
    pub settings: Vec<RunDifference>,
    /// What came out, where either run has it.
    pub figures: Vec<RunDifference>,
}

/// One thing of both; null where a run has none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDifference {
    /// What it is.
    pub what: String,
    /// Of the first run.
    pub first: Option<String>,
    /// Of the second.
    pub second: Option<String>,
}

/// Figures by where they stand in `result.json`; the number is their decimals, percent below 0.
const FIGURES: [(&str, &str, i32); 19] = [
    ("verdict", "/evidence/verdict", 0),
    ("test MCC", "/judged/mcc", 4),
    ("direction, MCC", "/judged/directional_mcc", 4),
    ("accuracy", "/judged/accuracy", -2),
    ("log-loss", "/judged/log_loss", 4),
    ("calibration error", "/judged/calibration_error", 4),
    ("net return", "/backtest/net/total_return", -2),
    ("gross return", "/backtest/gross_return", -2),
    ("buy and hold", "/backtest/hold_return", -2),
    ("net Sharpe ratio", "/backtest/net/sharpe_annual", 2),
    ("its standard error", "/backtest/net/sharpe_annual_error", 2),
    ("largest drawdown", "/backtest/net/drawdown/depth", -2),
    ("trades", "/backtest/net/round_trips/count", 0),
    ("won", "/backtest/net/round_trips/hit_rate", -2),
    ("costs", "/backtest/costs/total", 2),
    ("return at twice the costs", "/backtest/multiples/2/total_return", -2),
    ("return one bar late", "/backtest/delayed/total_return", -2),
    ("seconds", "/seconds", 1),
    ("samples/s", "/samples_per_s", 0),
];

/// Compares two runs, each by its folder or name.
pub fn runs_compare(first: &Path, second: &Path) -> Result<RunsCompared> {
    let folders = [find_run(first)?, find_run(second)?];
    let both = folders.iter().map(|folder| one(folder)).collect::<Result<Vec<One>>>()?;
    let [a, b] = &both[..] else { return Err(Error::new(Kind::Usage, "two runs are compared")) };
    let mut names: Vec<&String> = a.settings.iter().chain(&b.settings).map(|(name, _)| name).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let setting = |run: &One, what: &str| run.settings.iter().find(|(name, _)| name == what).map(|(_, v)| v.clone());
    let beside =
        |what: &str, first: Option<String>, second: Option<String>| RunDifference { what: what.into(), first, second };
    let settings = names.into_iter().map(|name| beside(name, setting(a, name), setting(b, name)));
    let figure = |(what, place, decimals): &(&str, &str, i32)| {
        let of = |run: &One| shown(run.result.as_ref()?.pointer(place)?, *decimals);
        beside(what, of(a), of(b))
    };
    Ok(RunsCompared {
        runs: [a.name.clone(), b.name.clone()],
        settings: settings.filter(|d| d.first != d.second).collect(),
        figures: FIGURES.iter().map(figure).filter(|d| d.first.is_some() || d.second.is_some()).collect(),
    })
}

struct One {
    name: String,
    settings: Vec<(String, String)>,
    result: Option<Value>,
}

fn one(folder: &Path) -> Result<One> {
    let summary = RunSummary::read(folder);
    let Some(run) = &summary.run else {
        return Err(Error::new(Kind::State, summary.describe()).at(folder));
    };
    let asked = run.more.get("asked").cloned().unwrap_or(Value::Null);
    let text = |value: &Value| match value {
        Value::String(text) => text.trim().replace('\n', ", "),
        Value::Array(all) if all.is_empty() => String::new(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let mut used = Settings::default();
    used.read(folder)?;
    // A set that stands in the settings is named there.
    let asked = ["data", "symbols", "from", "to", "set"].map(|name| (name.to_string(), text(&asked[name])));
    let asked = asked.into_iter().filter(|(name, _)| name != "set" || used.features.set == "auto");
    let own = [("program".to_string(), run.program.clone()), ("device".into(), run.device.clone())];
    let mut settings: Vec<(String, String)> = own.into_iter().chain(asked).filter(|(_, v)| !v.is_empty()).collect();
    settings.extend(used.pairs());
    Ok(One { name: summary.name, settings, result: read_result(folder) })
}

/// A figure as people read it.
fn shown(value: &Value, decimals: i32) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        value => {
            let number = value.as_f64()?;
            Some(match decimals {
                percent if percent < 0 => format!("{} %", format_fixed(100.0 * number, -percent as usize)),
                decimals => format_fixed(number, decimals as usize),
            })
        }
    }
}
