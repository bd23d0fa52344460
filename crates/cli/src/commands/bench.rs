//! `fullbore bench net` and `fullbore bench search`

use super::{Context, Outcome};
use crate::args::{BenchNet as Args, BenchSearch as SearchArgs};
use crate::out::Paint;
use crate::show::{table, wrap};
use files::{format_bytes, format_count, format_plural, format_short};
use jobs::{BenchCell, BenchNet, BenchSearch, BenchedNet, BenchedSearch, SearchBenchRow};
use std::fmt::Write;

pub(super) fn run(args: Args, context: &mut Context) -> Outcome {
    let request = BenchNet {
        net: args.net,
        batches: args.batch.iter().map(|b| *b as usize).collect(),
        members: args.members as usize,
        precision: args.precision,
        device: args.device,
        seconds: args.seconds,
        tune: args.tune,
    };
    let progress = &mut context.progress;
    let benched = jobs::bench_net(&request, &context.settings, &mut |u| progress.update(u))?;
    context.print(&benched, |paint| render(&benched, paint))?;
    Ok(0)
}

/// Milliseconds in the unit that shows their digits.
fn time(ms: f64) -> String {
    if ms < 1.0 { format!("{} us", format_short(ms * 1e3)) } else { format!("{} ms", format_short(ms)) }
}

/// The table, with the best of each kind marked.
fn render(benched: &BenchedNet, paint: Paint) -> String {
    let members = if benched.members == 1 {
        String::new()
    } else {
        format!(", {}", format_plural(benched.members as u64, "member"))
    };
    let mut text = format!("{}  {} parameters{members}\n", paint.bold(&benched.net), format_count(benched.parameters));
    text.push_str(&wrap(&format!("on {}", benched.device), "  ", "  "));
    if let Some(limit) = benched.limit_tflops {
        let rate = if limit < 1.0 {
            format!("{} GFLOP/s", format_short(limit * 1e3))
        } else {
            format!("{} TFLOP/s", format_short(limit))
        };
        let _ = writeln!(text, "  large matrix products reach {rate} on this device");
    }
    text.push('\n');
    let heads =
        [">batch", ">training", ">per step", ">of the limit", ">memory", ">inference", ">per pass", ">of the limit"];
    let cell = |cell: &Option<BenchCell>, best: bool, memory: bool| -> Vec<String> {
        let dash = || "-".to_string();
        let Some(cell) = cell else { return vec![dash(); if memory { 4 } else { 3 }] };
        let mark = if best { "* " } else { "" };
        let share = cell.share_of_limit.map_or_else(dash, |s| format!("{:.0} %", 100.0 * s));
        let mut row = vec![format!("{mark}{}/s", format_short(cell.samples_per_s)), time(cell.ms_per_step), share];
        if memory {
            row.push(format_bytes(cell.memory_bytes));
        }
        row
    };
    let rows: Vec<Vec<String>> = benched
        .rows
        .iter()
        .map(|r| {
            let mut row = vec![format_count(r.batch as u64)];
            row.extend(cell(&r.train, benched.best_train_batch == Some(r.batch), true));
            row.extend(cell(&r.infer, benched.best_infer_batch == Some(r.batch), false));
            row
        })
        .collect();
    text.push_str(&table(&heads, &rows, "  "));
    text.push_str("\n  samples per second over all members; * the fastest\n");
    for row in benched.rows.iter().filter(|r| r.refused.is_some()) {
        let why = row.refused.as_deref().unwrap_or_default();
        text.push_str(&wrap(&format!("batch {}: {why}", format_count(row.batch as u64)), "  - ", "    "));
    }
    text
}

pub(super) fn run_search(args: SearchArgs, context: &mut Context) -> Outcome {
    let counts = |all: &[u32]| all.iter().map(|n| *n as usize).collect();
    let request = BenchSearch {
        net: args.net,
        roots: counts(&args.roots),
        simulations: counts(&args.simulations),
        scenarios: args.scenarios as usize,
        mode: args.mode,
        precision: args.precision,
        device: args.device,
        seconds: args.seconds,
    };
    let progress = &mut context.progress;
    let benched = jobs::bench_search(&request, &context.settings, &mut |u| progress.update(u))?;
    context.print(&benched, |paint| render_search(&benched, paint))?;
    Ok(0)
}

/// A table for each mode, with its most simulations a second marked.
fn render_search(benched: &BenchedSearch, paint: Paint) -> String {
    let mut text = format!("{}  {} parameters\n", paint.bold(&benched.net), format_count(benched.parameters));
    text.push_str(&wrap(
        &format!("on {}, in {}", benched.device, format!("{:?}", benched.precision).to_lowercase()),
        "  ",
        "  ",
    ));
    let _ = writeln!(text, "  memory budget {}", format_bytes(benched.budget_bytes));
    for rows in benched.rows.chunk_by(|a, b| a.mode == b.mode) {
        let (title, said) = match rows[0].mode {
            "honest" => (
                "Honest",
                format!(
                    ": {} scenarios at the root, {} codes per simulation, {} bars ahead",
                    format_count(benched.scenarios as u64),
                    benched.codes,
                    benched.horizon
                ),
            ),
            _ => ("Reference", ": one leaf per simulation, as mctx does it".into()),
        };
        let _ = write!(text, "\n{}{said}\n", paint.bold(title));
        let rates = || rows.iter().filter_map(|r| r.simulations_per_s);
        let best = rates().fold(0.0, f64::max);
        let row = |r: &SearchBenchRow| {
            let per_s = |x: Option<f64>| x.map_or("-".into(), |x| format!("{}/s", format_short(x)));
            let mark = if r.simulations_per_s == Some(best) { "* " } else { "" };
            vec![
                format_count(r.roots as u64),
                format_count(r.simulations as u64),
                format!("{mark}{}", per_s(r.simulations_per_s)),
                per_s(r.roots_per_s),
                r.search_ms.map_or("-".into(), time),
                if r.memory_bytes > 0 { format_bytes(r.memory_bytes) } else { "-".into() },
                per_s(r.leaves_per_s),
                per_s(r.inference_rows_per_s),
                r.share_of_inference.map_or("-".into(), |s| format!("{:.0} %", 100.0 * s)),
            ]
        };
        let heads = [
            ">roots",
            ">each",
            ">simulations",
            ">roots",
            ">a search",
            ">memory",
            ">leaves",
            ">net alone",
            ">of the net",
        ];
        text.push_str(&table(&heads, &rows.iter().map(row).collect::<Vec<_>>(), "  "));
        for (r, why) in rows.iter().filter_map(|r| Some((r, r.refused.as_deref()?))) {
            let [roots, simulations] = [r.roots, r.simulations].map(|n| format_count(n as u64));
            text.push_str(&wrap(&format!("{roots} roots × {simulations} simulations: {why}"), "  - ", "    "));
        }
    }
    let notes = "each: simulations of a root; leaves: rows that the net evaluates; net alone: the same layers on as many \
                 rows at once as a simulation of all roots evaluates; * the most simulations";
    let _ = write!(text, "\n{}", wrap(notes, "  ", "  "));
    text
}
