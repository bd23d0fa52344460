//! Searches: simulations a second, ours and those of mctx in turn.
//!
//! Every run is a fresh process that prints one JSON object; every other round goes backwards, and medians count. Ours
//! is compared in its reference mode, which does what mctx does: the same world, net, roots and simulations. The honest
//! mode has rows of its own: all codes of a chance node are evaluated in every simulation, on a bootstrap of rows with
//! accounts.

use super::nets::BenchFlags;
use super::{machine, median, threads};
use crate::process::{build, command, last_json, measure};
use crate::{Result, cache, root};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// What is searched.
#[derive(Debug, Clone, Copy)]
struct Case {
    net: &'static str,
    roots: usize,
    simulations: usize,
    rule: &'static str,
    /// How many times as fast as mctx ours should be.
    target: Option<f64>,
}

const SMALL: Case = Case { net: "256,256", roots: 128, simulations: 32, rule: "gumbel", target: Some(2.3) };
const CASES: [Case; 4] = [
    SMALL,
    Case { rule: "muzero", target: None, ..SMALL },
    Case { roots: 1024, target: None, ..SMALL },
    Case { net: "2048,1024,512", target: Some(1.2), ..SMALL },
];

impl Case {
    fn name(&self) -> String {
        let Case { net, roots, simulations, rule, .. } = self;
        format!("{rule}, ({}), {roots} × {simulations}", net.replace(',', ", "))
    }

    fn flags(&self) -> Vec<String> {
        let Case { net, roots, simulations, rule, .. } = self;
        let (roots, simulations, threads) = (roots.to_string(), simulations.to_string(), threads().to_string());
        let words = ["--net", net, "--roots", &roots, "--simulations", &simulations, "--rule", rule];
        words.into_iter().chain(["--threads", &threads]).map(str::to_string).collect()
    }
}

pub(super) fn run(flags: &BenchFlags) -> Result<String> {
    let python = match &flags.python {
        Some(path) => path.clone(),
        None => cache::python_of("search", &root().join("bench/peers/search.lock"))?,
    };
    let ours = match &flags.ours {
        Some(path) => path.clone(),
        None => build("fullbore-bench", "fullbore-bench", true)?,
    };
    let rounds = if flags.quick { 1 } else { 3 };
    let (mut rows, mut versions) = (String::new(), String::new());
    for case in CASES.iter().filter(|case| flags.wants(&case.name())) {
        println!("{}", case.name());
        let mut seen: [Vec<Value>; 3] = Default::default();
        for round in 0..rounds {
            let order = if round % 2 == 1 { [2, 1, 0] } else { [0, 1, 2] };
            for at in order {
                let made = once(case, at, &ours, &python)?;
                println!("  {}: {}", made["program"].as_str().unwrap_or("?"), made["simulations_per_s"]);
                seen[at].push(made);
            }
        }
        versions = seen[1][0]["versions"].as_str().unwrap_or("?").to_string();
        table(&mut rows, case, &seen);
    }
    if rows.is_empty() {
        return Err(format!("no case has `{}` in its name.", flags.only.as_deref().unwrap_or_default()));
    }
    Ok(format!(
        "## Search on the CPU\n\n\
         | rule, net, roots × simulations | program | k simulations/s | net alone, k rows/s | ours is faster by | target |\n\
         | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         Whole searches after a warm-up, f32, median of {rounds} processes in turn; {versions}. The honest mode\n\
         evaluates 16 rows in a simulation and 192 at a root before the first.\n\n{} threads. {}\n",
        threads(),
        machine(&python),
    ))
}

fn once(case: &Case, at: usize, ours: &Path, python: &Path) -> Result<Value> {
    let mut run = command(if at == 1 { python } else { ours });
    match at {
        1 => run.arg(root().join("bench/peers/search_mctx.py")).env("PYTHONDONTWRITEBYTECODE", "1"),
        _ => run.arg("search"),
    };
    run.args(case.flags()).args(if at == 2 { &["--mode", "honest"][..] } else { &[] });
    last_json(&measure(&mut run)?.out)
}

/// A row for each program.
fn table(rows: &mut String, case: &Case, seen: &[Vec<Value>; 3]) {
    let [ours, theirs, honest] = [0, 1, 2].map(|at| median(&seen[at], "simulations_per_s"));
    let [alone, beside] = [0, 2].map(|at| median(&seen[at], "net_rows_per_s") / 1e3);
    let times = ours / theirs;
    let target = case
        .target
        .map_or(String::new(), |least| format!("{least}: {}", if times >= least { "met" } else { "**missed**" }));
    let _ = writeln!(rows, "| {} | **fullbore** | **{:.1}** | {alone:.0} | | |", case.name(), ours / 1e3);
    let _ = writeln!(rows, "| | mctx | {:.1} | | {times:.2} | {target} |", theirs / 1e3);
    let _ = writeln!(rows, "| | fullbore, honest | {:.1} | {beside:.0} | | |", honest / 1e3);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_target_is_met_or_missed() {
        let run = |rate: f64| vec![json!({"simulations_per_s": rate, "net_rows_per_s": 1e6})];
        let mut rows = String::new();
        table(&mut rows, &SMALL, &[run(5e5), run(2e5), run(1e4)]);
        assert!(rows.contains("| | mctx | 200.0 | | 2.50 | 2.3: met |"), "{rows}");
        rows.clear();
        table(&mut rows, &SMALL, &[run(4e5), run(2e5), run(1e4)]);
        assert!(rows.contains("2.3: **missed**"), "{rows}");
    }
}
