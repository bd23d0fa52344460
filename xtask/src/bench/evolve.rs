//! Evolved policies: whole generations of OpenAI-ES, ours and the peers' in turn, on a processor or on a card.
//!
//! Every run is a fresh process that prints one JSON object. A round on a processor is, in bf16 and in f32, ours on all
//! threads, ours on one, then each peer; every other round goes backwards. Medians count. Ours keeps the full account
//! in f64; the peers have the small environment of `bench/peers/evolve_jax.py`. The target is against the fastest peer
//! in any precision.

use super::gpu::card;
use super::nets::BenchFlags;
use super::{machine, median, threads};
use crate::process::{build, command, last_json, measure};
use crate::{Result, cache, root};
use serde_json::Value;
use std::fmt::Write;

/// Individuals, accounts of each, and steps of an account; the net is 18-64-64-3.
const SHAPE: [(&str, usize); 3] = [("--population", 256), ("--envs", 4), ("--steps", 256)];

/// How many times as fast as the faster peer ours should be, and how much faster on two threads than on one.
const TARGET: f64 = 6.0;
const TWO_THREADS: f64 = 1.9;

/// The runs of a round: ours on all threads or on one, or a peer, and the precision of its nets.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Run {
    AllThreads,
    OneThread,
    Peer(&'static str),
}

const PRECISIONS: [&str; 2] = ["bf16", "f32"];
const RUNS: [Run; 4] = [Run::AllThreads, Run::OneThread, Run::Peer("evosax"), Run::Peer("plain")];

pub(super) fn run(flags: &BenchFlags) -> Result<String> {
    let python = match &flags.python {
        Some(path) => path.clone(),
        None => cache::python_of("evolve", &root().join("bench/peers/evolve.lock"))?,
    };
    let ours = match &flags.ours {
        Some(path) => path.clone(),
        None => build("fullbore-bench", "fullbore-bench", true)?,
    };
    let shape: Vec<String> = SHAPE.iter().flat_map(|(name, n)| [name.to_string(), n.to_string()]).collect();
    let once = |kind: Run, precision: &str| -> Result<Value> {
        let mut run = match kind {
            Run::AllThreads | Run::OneThread => {
                let count = if kind == Run::OneThread { 1 } else { threads() };
                let mut run = command(&ours);
                run.arg("evolve").args(&shape).args(["--threads", &count.to_string()]);
                run
            }
            Run::Peer(variant) => {
                let mut run = command(&python);
                run.arg(root().join("bench/peers/evolve_jax.py")).args(&shape).args(["--variant", variant]);
                run.env("PYTHONDONTWRITEBYTECODE", "1");
                run
            }
        };
        last_json(&measure(run.args(["--precision", precision]))?.out)
    };
    let rounds = if flags.quick { 1 } else { 5 };
    let mut seen: Vec<Vec<Value>> = vec![Vec::new(); PRECISIONS.len() * RUNS.len()];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..seen.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let precision = PRECISIONS[at / RUNS.len()];
            let made = once(RUNS[at % RUNS.len()], precision)?;
            println!("  {}, {precision}: {} steps/s", made["program"].as_str().unwrap_or("?"), made["steps_per_s"]);
            seen[at].push(made);
        }
    }
    Ok(table(&seen, rounds, &machine(&python)))
}

/// Individuals, accounts of each, and how many times as fast as JAX ours should be on a card.
const ON_CARD: [(usize, usize, f64); 3] = [(256, 4, 5.0), (1024, 16, 3.0), (8192, 16, 3.0)];

/// Individuals of low rank: what is given to ours, and the share of the plain pass's rate that it should reach.
const LOW_RANK: [&str; 10] =
    ["--population", "65536", "--envs", "4", "--features", "56", "--net", "256,256", "--rank", "1"];
const SHARE: f64 = 0.6;

/// The same on a card, beside JAX; and individuals of low rank beside the plain pass of their net.
pub(super) fn run_on_card(flags: &BenchFlags) -> Result<String> {
    let device = card()?;
    let python = flags.python.clone().unwrap_or_else(|| "python3".into());
    let ours = match &flags.ours {
        Some(path) => path.clone(),
        None => build("fullbore-bench", "fullbore-bench", true)?,
    };
    let of_ours = |words: &[String]| -> Result<Value> {
        let mut run = command(&ours);
        run.arg("evolve").args(words).args(["--device", "cuda"]);
        last_json(&measure(&mut run)?.out)
    };
    let rounds = if flags.quick { 1 } else { 3 };
    let (mut cases, mut low_rank) = (vec![[Vec::new(), Vec::new()]; ON_CARD.len()], Vec::new());
    for round in 0..rounds {
        for ((individuals, accounts, _), seen) in ON_CARD.into_iter().zip(&mut cases) {
            let words = [("--population", individuals), ("--envs", accounts), ("--steps", 256)];
            let words: Vec<String> = words.iter().flat_map(|(name, n)| [name.to_string(), n.to_string()]).collect();
            for side in [round % 2, 1 - round % 2] {
                let made = match side {
                    0 => of_ours(&words)?,
                    _ => {
                        let mut run = command(&python);
                        run.arg(root().join("bench/peers/evolve_jax.py")).args(&words).args(["--device", "cuda"]);
                        run.env("PYTHONDONTWRITEBYTECODE", "1");
                        last_json(&measure(&mut run)?.out)?
                    }
                };
                println!("  {}: {} steps/s", made["program"].as_str().unwrap_or("?"), made["steps_per_s"]);
                seen[side].push(made);
            }
        }
        let made = of_ours(&LOW_RANK.map(String::from))?;
        println!("  low rank: {} of the plain pass", made["share_of_inference"]);
        low_rank.push(made);
    }
    Ok(card_table(&cases, &low_rank, rounds, &format!("{device}. {}", machine(&python))))
}

fn verdict(found: f64, target: f64) -> String {
    format!("{target}: {}", if found >= target { "met" } else { "**missed**" })
}

fn card_table(cases: &[[Vec<Value>; 2]], low_rank: &[Value], rounds: usize, machine: &str) -> String {
    let mut rows = String::new();
    for ((individuals, accounts, target), [ours, peer]) in ON_CARD.into_iter().zip(cases) {
        let (rate, other) = (median(ours, "steps_per_s"), median(peer, "steps_per_s"));
        let _ = writeln!(
            rows,
            "| {individuals} × {accounts} | {:.0} | {:.3} | {:.0} % | {:.1} | {:.2} | {} |",
            rate / 1e6,
            median(ours, "seconds_per_generation") * 1e3,
            median(ours, "card_busy_share") * 100.0,
            other / 1e6,
            rate / other,
            verdict(rate / other, target)
        );
    }
    let share = median(low_rank, "share_of_inference");
    let version = cases[0][1].first().map_or("?", |run| run["versions"]["jax"].as_str().unwrap_or("?"));
    format!(
        "## Evolution on the GPU\n\n\
         OpenAI-ES, 256 steps of each account, net 18-64-64-3; ours in bf16 with the full account, JAX a program of the \
         same shapes in one compiled function, with an environment of position and cost alone and no precision set.\n\n\
         | individuals × accounts | ours, M steps/s | ms a generation | card busy | JAX {version}, M steps/s | ours is faster by | target |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         Low rank (rank 1), net 64-256-256-3, 65,536 individuals × 4 accounts, whole generations beside the plain pass of \
         the same net over as many rows, in bf16, in the same process.\n\n\
         | M steps/s | ms a generation | plain pass, M rows/s | share | target |\n\
         | --- | --- | --- | --- | --- |\n\
         | {:.0} | {:.1} | {:.0} | {:.0} % | {} |\n\n\
         Median of {rounds} processes in turn.\n\n{machine}\n",
        median(low_rank, "steps_per_s") / 1e6,
        median(low_rank, "seconds_per_generation") * 1e3,
        median(low_rank, "inference_rows_per_s") / 1e6,
        share * 100.0,
        verdict(share, SHARE),
    )
}

fn table(seen: &[Vec<Value>], rounds: usize, machine: &str) -> String {
    let rate = |at: usize| median(&seen[at], "steps_per_s");
    let work = median(&seen[0], "flop_per_step");
    // The faster class of ours on all threads.
    let ours = (0..PRECISIONS.len()).map(|class| class * RUNS.len());
    let best = ours.max_by(|a, b| rate(*a).total_cmp(&rate(*b))).unwrap_or(0);
    let is_peer = |at: &usize| matches!(RUNS[at % RUNS.len()], Run::Peer(_));
    let fastest = (0..seen.len()).filter(is_peer).map(rate).fold(0.0, f64::max);
    let verdict = |found: f64, target: f64| format!("{found:.2} | {}", verdict(found, target));
    let mut rows = String::new();
    for at in 0..seen.len() {
        let first = at / RUNS.len() * RUNS.len();
        let (name, ratio) = match RUNS[at % RUNS.len()] {
            // The target is for the faster class of ours.
            Run::AllThreads if at == best => {
                (format!("**fullbore**, {} threads", threads()), verdict(rate(at) / fastest, TARGET))
            }
            Run::AllThreads => (format!("**fullbore**, {} threads", threads()), format!("{:.2} |", rate(at) / fastest)),
            Run::OneThread => ("**fullbore**, 1 thread".to_string(), verdict(rate(first) / rate(at), TWO_THREADS)),
            Run::Peer(peer) => {
                let name = if peer == "evosax" { "evosax, one function" } else { "JAX, one function" };
                (name.to_string(), format!("{:.2} |", rate(first) / rate(at)))
            }
        };
        let (precision, r) = (PRECISIONS[at / RUNS.len()], rate(at));
        let _ = writeln!(rows, "| {name} | {precision} | {:.2} | {:.1} | {ratio} |", r / 1e6, r * work / 1e9);
    }
    let p99 = median(&seen[best], "seconds_per_generation_p99") / median(&seen[best], "seconds_per_generation");
    let precision = PRECISIONS[best / RUNS.len()];
    format!(
        "## Evolution on the CPU\n\n\
         OpenAI-ES, 256 individuals × 4 accounts × 256 steps, net 18-64-64-3 with tanh.\n\n\
         | program | nets | M steps/s | GFLOP/s | ours on all threads is faster by | target |\n\
         | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         Whole generations after a warm-up, median of {rounds} processes in turn. Ours on all threads is held against the \
         fastest peer in any precision; other rows are beside ours on all threads in their own. The 99th percentile of \
         ours in {precision} is {p99:.2} times the median.\n\n{machine}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(rate: f64, p99: f64) -> Vec<Value> {
        vec![json!({"steps_per_s": rate, "flop_per_step": 1e4, "seconds_per_generation": 1.0,
            "seconds_per_generation_p99": p99})]
    }

    /// On processors whose products in bf16 are slow, ours in f32 is the faster class.
    #[test]
    fn the_target_is_for_the_faster_class_of_ours() {
        let bf16 = [run(10e6, 1.9), run(5e6, 1.0), run(0.5e6, 1.0), run(1e6, 1.0)];
        let f32 = [run(15e6, 1.25), run(7e6, 1.0), run(1e6, 1.0), run(2.5e6, 1.0)];
        let made = table(&[bf16, f32].concat(), 1, "A machine.");
        let lines: Vec<&str> = made.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(lines[2].ends_with("| bf16 | 10.00 | 100.0 | 4.00 | |"), "{}", lines[2]);
        assert!(lines[6].ends_with("| f32 | 15.00 | 150.0 | 6.00 | 6: met |"), "{}", lines[6]);
        assert!(made.contains("ours in f32 is 1.25 times the median"), "{made}");
    }

    #[test]
    fn the_target_is_against_the_faster_peer() {
        let run = |rate: f64| run(rate, 1.5);
        let bf16 = [run(18e6), run(9e6), run(0.5e6), run(1e6)];
        let f32 = [run(12e6), run(8e6), run(1e6), run(2.5e6)];
        let made = table(&[bf16, f32].concat(), 1, "A machine.");
        let lines: Vec<&str> = made.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(lines[2].ends_with("| bf16 | 18.00 | 180.0 | 7.20 | 6: met |"), "{}", lines[2]);
        assert!(lines[3].ends_with("| bf16 | 9.00 | 90.0 | 2.00 | 1.9: met |"), "{}", lines[3]);
        assert!(lines[4].starts_with("| evosax, one function | bf16 | 0.50 | 5.0 | 36.00 |"), "{}", lines[4]);
        assert!(lines[6].ends_with("| f32 | 12.00 | 120.0 | 4.80 | |"), "{}", lines[6]);
        assert!(lines[7].ends_with("| f32 | 8.00 | 80.0 | 1.50 | 1.9: **missed** |"), "{}", lines[7]);
        assert!(lines[9].starts_with("| JAX, one function | f32 | 2.50 | 25.0 | 4.80 |"), "{}", lines[9]);
        assert!(made.contains("ours in bf16 is 1.50 times the median"), "{made}");
    }

    #[test]
    fn rows_of_a_card_have_their_targets() {
        let run = |rate: f64| {
            vec![json!({"steps_per_s": rate, "seconds_per_generation": 1e-3, "card_busy_share": 0.97,
                "versions": {"jax": "0.1"}})]
        };
        let cases = [[run(300e6), run(50e6)], [run(3e9), run(2e9)], [run(6e9), run(2e9)]];
        let low = [json!({"steps_per_s": 9e8, "seconds_per_generation": 0.05, "inference_rows_per_s": 1e9,
            "share_of_inference": 0.9})];
        let made = card_table(&cases, &low, 1, "A card.");
        let lines: Vec<&str> = made.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(lines[2], "| 256 × 4 | 300 | 1.000 | 97 % | 50.0 | 6.00 | 5: met |");
        assert!(lines[3].ends_with("| 1.50 | 3: **missed** |"), "{}", lines[3]);
        assert_eq!(lines[7], "| 900 | 50.0 | 1000 | 90 % | 0.6: met |");
    }
}
