//! Searches: simulations a second, ours and those of mctx in turn.
//!
//! Every run is a fresh process that prints one JSON object; every other round goes backwards, and medians count. Ours
//! is compared in its reference mode, which does what mctx does: the same world, net, roots and simulations. Ratios are
//! those of ours at its best precision. The honest mode has rows of its own: all codes of a chance node are evaluated
//! in every simulation, on a bootstrap of rows with accounts.

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
const ON_CARD: Case = Case { target: Some(10.0), ..SMALL };
const WIDE: Case = Case { net: "2048,1024,512", target: None, ..SMALL };
const CARD_CASES: [Case; 7] = [
    ON_CARD,
    Case { roots: 1024, ..ON_CARD },
    Case { roots: 8192, target: Some(6.0), ..ON_CARD },
    Case { roots: 1024, simulations: 128, rule: "muzero", ..ON_CARD },
    WIDE,
    Case { roots: 1024, ..WIDE },
    Case { roots: 8192, ..WIDE },
];

/// A way to run a case.
#[derive(Debug, Clone, Copy)]
struct Program {
    name: &'static str,
    peer: bool,
    words: &'static [&'static str],
    /// XLA's flags.
    xla: &'static str,
}

const OURS: Program = Program { name: "fullbore", peer: false, words: &[], xla: "" };
const OURS_BF16: Program = Program { name: "fullbore, bf16", words: &["--precision", "bf16"], ..OURS };
const OURS_F32: Program = Program { name: "fullbore, f32", ..OURS };
const HONEST: Program = Program { name: "fullbore, honest", words: &["--mode", "honest"], ..OURS };
const HONEST_BF16: Program =
    Program { name: "fullbore, honest, bf16", words: &["--mode", "honest", "--precision", "bf16"], ..OURS };
const MCTX: Program = Program { name: "mctx", peer: true, ..OURS };
const MCTX_BF16: Program = Program { name: "mctx, bf16", words: &["--precision", "bf16"], ..MCTX };
/// With loops and branches inside one CUDA graph.
const BUFFERS: &str = "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL";

const PROGRAMS: [Program; 6] = [OURS_BF16, OURS_F32, MCTX, MCTX_BF16, HONEST_BF16, HONEST];
const CARD_PROGRAMS: [Program; 5] =
    [OURS, MCTX, MCTX_BF16, Program { name: "mctx, bf16, command buffers", xla: BUFFERS, ..MCTX_BF16 }, HONEST];

impl Case {
    fn name(&self) -> String {
        let Case { net, roots, simulations, rule, .. } = self;
        format!("{rule}, ({}), {roots} × {simulations}", net.replace(',', ", "))
    }

    fn flags(&self, cuda: bool) -> Vec<String> {
        let Case { net, roots, simulations, rule, .. } = self;
        let (roots, simulations, threads) = (roots.to_string(), simulations.to_string(), threads().to_string());
        let words = ["--net", net, "--roots", &roots, "--simulations", &simulations, "--rule", rule];
        let device = if cuda { "cuda" } else { "cpu" };
        words.into_iter().chain(["--threads", &threads, "--device", device]).map(str::to_string).collect()
    }
}

pub(super) fn run(flags: &BenchFlags, cuda: bool) -> Result<String> {
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
    let (cases, programs) = if cuda { (&CARD_CASES[..], &CARD_PROGRAMS[..]) } else { (&CASES[..], &PROGRAMS[..]) };
    for case in cases.iter().filter(|case| flags.wants(&case.name())) {
        println!("{}", case.name());
        let mut seen = vec![Vec::new(); programs.len()];
        for round in 0..rounds {
            let forwards: Vec<usize> = (0..programs.len()).collect();
            let order = if round % 2 == 1 { forwards.into_iter().rev().collect() } else { forwards };
            for at in order {
                let made = once(case, &programs[at], &ours, &python, cuda)?;
                println!("  {}: {}", programs[at].name, made["simulations_per_s"]);
                seen[at].push(made);
            }
        }
        let peer = programs.iter().position(|program| program.peer).unwrap_or(0);
        versions = seen[peer][0]["versions"].as_str().unwrap_or("?").to_string();
        table(&mut rows, case, programs, &seen);
    }
    if rows.is_empty() {
        return Err(format!("no case has `{}` in its name.", flags.only.as_deref().unwrap_or_default()));
    }
    let (title, device, note) = if cuda {
        let note = "Ours computes nets in bf16 with f32 sums, on every side trees are f32; roots lie on the card before,\n\
                    and what was found stays there. The net alone is passes in one graph; small nets run inside the\n\
                    search and have no rate of their own. The honest mode evaluates 16 rows in a simulation and 192 at\n\
                    a root before the first; its time has upload and download of the roots in it.";
        ("Search on the GPU", super::gpu::card()?, note)
    } else {
        let note = "The honest mode evaluates 16 rows in a simulation and 192 at a root before the first.";
        ("Search on the CPU", format!("{} threads", threads()), note)
    };
    Ok(format!(
        "## {title}\n\n\
         | rule, net, roots × simulations | program | k simulations/s | net alone, k rows/s | ours is faster by | target |\n\
         | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         Whole searches after a warm-up, median of {rounds} processes in turn; {versions}. {note}\n\n{device}. {}\n",
        machine(&python),
    ))
}

fn once(case: &Case, program: &Program, ours: &Path, python: &Path, cuda: bool) -> Result<Value> {
    let mut run = command(if program.peer { python } else { ours });
    if program.peer {
        run.arg(root().join("bench/peers/search_mctx.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        run.env("XLA_FLAGS", program.xla);
    } else {
        run.arg("search");
    }
    run.args(case.flags(cuda)).args(program.words);
    last_json(&measure(&mut run)?.out)
}

/// A row for each program; the target is against the fastest peer.
fn table(rows: &mut String, case: &Case, programs: &[Program], seen: &[Vec<Value>]) {
    let rate = |at: usize| median(&seen[at], "simulations_per_s");
    let fastest = |of: &dyn Fn(&Program) -> bool| {
        (0..programs.len()).filter(|at| of(&programs[*at])).max_by(|a, b| rate(*a).total_cmp(&rate(*b))).unwrap_or(0)
    };
    let best = fastest(&|program| program.peer);
    // The honest mode does something else.
    let ours = fastest(&|program| !program.peer && !program.words.contains(&"honest"));
    for (at, program) in programs.iter().enumerate() {
        let alone = match seen[at][0]["net_rows_per_s"].as_f64() {
            Some(_) => format!("{:.0}", median(&seen[at], "net_rows_per_s") / 1e3),
            None => String::new(),
        };
        let times = rate(ours) / rate(at);
        let target = case
            .target
            .filter(|_| at == best)
            .map_or(String::new(), |least| format!("{least}: {}", if times >= least { "met" } else { "**missed**" }));
        let shown = if program.peer { format!("{times:.2}") } else { String::new() };
        let first = if at == 0 { case.name() } else { String::new() };
        let star = if at == ours { "**" } else { "" };
        let name = program.name;
        let _ = writeln!(
            rows,
            "| {first} | {star}{name}{star} | {star}{:.1}{star} | {alone} | {shown} | {target} |",
            rate(at) / 1e3
        );
    }
}
