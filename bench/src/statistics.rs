//! The judge's figures of returns, for whoever checks them: `oracles/performance.py` asks and compares.
//!
//! The file is one JSON object. `records` are track records (`returns`, `days_per_year`, and perhaps `risk_free`,
//! `minimum_return`, `benchmark`, `round_trips`, `activity`), `trials` families of trials (`sharpe`, `days`,
//! `skewness`, `kurtosis`, `trials`, `sharpes`, `returns`) and `choices` the returns of configs, `[configs][days]`.
//! What comes back has the same lists, one entry for each; what is refused is a sentence instead.

use judge::deflated::{TrialFamily, deflate, mean_correlation};
use judge::overfitting::overfitting;
use judge::performance::{Moments, SharpeRatio, TrackRecord, performance};
use serde_json::{Value, json};
use std::path::Path;

/// Every figure of everything in the file.
pub(crate) fn compute(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let asked: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let each = |list: &str, compute: fn(&Value) -> Result<Value, String>| -> Vec<Value> {
        let list = asked[list].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|it| compute(it).unwrap_or_else(Value::String)).collect()
    };
    Ok(
        json!({ "records": each("records", record), "trials": each("trials", trials), "choices": each("choices", choice) }),
    )
}

fn record(asked: &Value) -> Result<Value, String> {
    let returns = numbers(&asked["returns"])?;
    let benchmark = asked.get("benchmark").map(numbers).transpose()?;
    let round_trips = asked.get("round_trips").map_or(Ok(Vec::new()), numbers)?;
    let activity =
        asked.get("activity").map(|a| serde_json::from_value(a.clone()).map_err(|e| e.to_string())).transpose()?;
    let record = TrackRecord {
        risk_free: asked["risk_free"].as_f64().unwrap_or(0.0),
        minimum_return: asked["minimum_return"].as_f64().unwrap_or(0.0),
        benchmark: benchmark.as_deref(),
        round_trips: &round_trips,
        activity,
        ..TrackRecord::new(&returns, number(asked, "days_per_year")?)
    };
    performance(&record).map(|it| json!(it)).map_err(|e| e.to_string())
}

fn trials(asked: &Value) -> Result<Value, String> {
    let moments = Moments { skewness: number(asked, "skewness")?, kurtosis: number(asked, "kurtosis")? };
    let days = number(asked, "days")? as usize;
    let sharpe = SharpeRatio::from_moments(number(asked, "sharpe")?, days, moments).ok_or("there is no such ratio")?;
    let (sharpes, returns) = (numbers(&asked["sharpes"])?, columns(&asked["returns"])?);
    let correlation = mean_correlation(&slices(&returns)).map_err(|e| e.to_string())?;
    let family = TrialFamily { trials: number(asked, "trials")? as usize, sharpes: &sharpes, correlation };
    let deflated = deflate(&sharpe, &family).map_err(|e| e.to_string())?;
    Ok(json!({ "correlation": correlation, "deflated": deflated, "minimum_days": sharpe.minimum_days(0.0, 0.05) }))
}

fn choice(asked: &Value) -> Result<Value, String> {
    overfitting(&slices(&columns(asked)?)).map(|it| json!(it)).map_err(|e| e.to_string())
}

fn number(asked: &Value, key: &str) -> Result<f64, String> {
    asked[key].as_f64().ok_or_else(|| format!("`{key}` is not a number"))
}

fn numbers(value: &Value) -> Result<Vec<f64>, String> {
    serde_json::from_value(value.clone()).map_err(|e| e.to_string())
}

fn columns(value: &Value) -> Result<Vec<Vec<f64>>, String> {
    serde_json::from_value(value.clone()).map_err(|e| e.to_string())
}

fn slices(columns: &[Vec<f64>]) -> Vec<&[f64]> {
    columns.iter().map(Vec::as_slice).collect()
}
