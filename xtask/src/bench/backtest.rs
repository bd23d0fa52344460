//! Backtests: many accounts over one long series, beside vectorbt.
//!
//! Ours counts the whole account (fee, spread, margin, liquidation), equity at every close and Sharpe ratios; the
//! peer's time is for its simulation alone, and with equity and Sharpe ratios beside it. Each side runs in fresh
//! processes in turn, and takes the best of its rounds.

use super::{machine, median, threads};
use crate::process::{build, command, last_json, measure};
use crate::{Result, cache, root};
use serde_json::Value;
use std::fmt::Write;

const BARS: &str = "425419";
const ROUNDS: usize = 3;
/// Times the peer's simulation.
const TARGET: f64 = 4.0;

pub(super) fn run() -> Result<String> {
    let bench = build("fullbore-bench", "fullbore-bench", true)?;
    let python = cache::python_of("backtesters", &root().join("bench/peers/backtesters.lock"))?;
    let mut out = String::from(
        "## Backtests\n\n| accounts × 425,419 bars | fullbore, M steps/s | vectorbt, simulation | with equity and Sharpe | \
         times the simulation | target |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let mut version = String::new();
    for accounts in ["1", "16", "64"] {
        let (mut ours, mut theirs): (Vec<Value>, Vec<Value>) = Default::default();
        for _ in 0..ROUNDS {
            let n = threads().to_string();
            let mut run = command(&bench);
            run.args(["backtest", "--bars", BARS, "--accounts", accounts, "--threads", &n]);
            ours.push(last_json(&measure(&mut run)?.out)?);
            let mut run = command(&python);
            run.arg(root().join("bench/peers/vectorbt_backtest.py")).args([BARS, accounts, "3"]);
            theirs.push(last_json(&measure(run.env("PYTHONDONTWRITEBYTECODE", "1"))?.out)?);
        }
        version = theirs[0]["version"].as_str().unwrap_or("").to_string();
        let (us, them) = (median(&ours, "seconds"), median(&theirs, "seconds"));
        let (whole, steps) = (median(&theirs, "all_seconds"), 425_418.0 * accounts.parse::<f64>().unwrap_or(1.0));
        let rate = |seconds: f64| steps / seconds / 1e6;
        let target = if accounts == "64" { format!("{TARGET}") } else { "-".into() };
        let _ = writeln!(
            out,
            "| {accounts} | {:.1} | {:.1} | {:.1} | {:.2} | {target} |",
            rate(us),
            rate(them),
            rate(whole),
            them / us
        );
    }
    let _ = writeln!(
        out,
        "\nLong, short or flat is chosen at 2 % of the bars each; fee and slippage 1 bp. vectorbt {version}, {} threads, \
         median of {ROUNDS} processes in turn.\n\n{}",
        threads(),
        machine(&python)
    );
    Ok(out)
}
