//! What `cargo xtask bench` times: our side of each comparison, the input both sides read, and the limit of the
//! machine.
//!
//! Every verb is one fresh process that prints one JSON object, so that no run warms another and peak memory is its
//! own. The peers are under `bench/peers`, one Python file each.

#![expect(clippy::print_stdout, reason = "one JSON object on standard output is the whole interface")]
#![expect(clippy::print_stderr, reason = "and its error is one line on standard error")]

mod account_steps;
mod accounts_alone;
mod backtest;
mod beside;
mod copy;
mod cores;
mod environment;
mod evolve;
mod features;
mod limit;
mod make_csv;
mod net;
mod null_markets;
mod ppo;
mod ppo_seeds;
mod search;
mod statistics;

use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
  fullbore-bench make-csv PATH (--bytes N | --rows N)   a deterministic CSV of 1-minute bars
  fullbore-bench read-csv PATH [--threads N]            bars::read: parsed, put in order, audited
  fullbore-bench limit PATH [--threads N]               how fast bytes can be read, and read and searched for line ends
  fullbore-bench copy [--threads N]                     how fast memory is copied
  fullbore-bench features BARS --features SET [--threads N] [--rounds N]   bars to table, timed
  fullbore-bench columns BARS --features SET --out PARQUET [--threads N]   every feature as a column of doubles
  fullbore-bench backtest [--bars N] [--accounts N] [--threads N] [--rounds N]   accounts through bars, timed
  fullbore-bench environment N [BLOCK]                  episodes of N accounts on one thread, BLOCK at a time, timed
  fullbore-bench null N                                 N markets without anything in them of each kind, judged
  fullbore-bench statistics JSON                                           the judge's figures of returns
  fullbore-bench account CASES OUT                      account::step over trajectories, for the oracle
  fullbore-bench net --net N --batch B --precision P --mode train|infer [--device D] [--members N] [--threads N] [--tune]   a net, timed
  fullbore-bench ppo [--net 64,64] [--activation tanh|relu] [--envs N] [--steps N] [--minibatches N] [--epochs N]
      [--members N] [--precision P] [--device D] [--threads N] [--seconds S]   whole updates of policies, timed
  fullbore-bench ppo-products [as ppo]                  the matrix products of such an update alone, on a card, timed
  fullbore-bench search [--net 256,256] [--roots N] [--simulations N] [--rule gumbel|muzero] [--mode reference|honest]
      [--in-flight N] [--codes N] [--scenarios N] [--device D] [--threads N] [--seconds S]   whole searches, timed
  fullbore-bench evolve [--algorithm openai|sep-cma|snes|cem] [--population N] [--rank R] [--envs N] [--steps N] [--net 64,64]
      [--features N] [--device D] [--threads N] [--seconds S] [--beside nothing|checkpoints|loading|both]
      whole generations of evolved policies, timed; beside them a checkpoint after each, or bars that are read
  fullbore-bench ppo-seeds [--net 64t,64t] [--updates N] [--seeds N] [--precision f32,tf32,bf16] [--device D] [--threads N]
      policies on a planted market: the growth of each seed in each precision, with 95 % intervals";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["make-csv", path, "--bytes", n] => number(n).and_then(|n| make_csv::make(path.as_ref(), n, u64::MAX)),
        ["make-csv", path, "--rows", n] => number(n).and_then(|n| make_csv::make(path.as_ref(), u64::MAX, n)),
        ["read-csv", path] => read_csv(path.as_ref(), threads()),
        ["read-csv", path, "--threads", n] => number(n).and_then(|n| read_csv(path.as_ref(), n as usize)),
        ["features", path, "--features", set, rest @ ..] => {
            flags(rest, threads(), 7).and_then(|(threads, rounds)| features::time(path.as_ref(), set, threads, rounds))
        }
        ["columns", path, "--features", set, "--out", out, rest @ ..] => flags(rest, threads(), 1)
            .and_then(|(threads, _)| features::columns(path.as_ref(), set, out.as_ref(), threads)),
        ["backtest", rest @ ..] => backtest(rest),
        ["environment", n] => number(n).and_then(|n| environment::time(n as usize, n as usize, 3)),
        ["environment", n, block] => number(n)
            .and_then(|n| Ok((n as usize, number(block)? as usize)))
            .and_then(|(n, block)| environment::time(n, block.clamp(1, n.max(1)), 3)),
        ["null", n] => number(n).and_then(|n| null_markets::judge(n as usize, threads())),
        ["statistics", path] => statistics::compute(path.as_ref()),
        ["account", cases, out] => account_steps::run(cases.as_ref(), out.as_ref()),
        ["net", rest @ ..] => net::time(rest, threads()),
        ["ppo", rest @ ..] => ppo::time(rest, threads()),
        ["ppo-products", rest @ ..] => ppo::products(rest, threads()),
        ["search", rest @ ..] => search::time(rest, threads()),
        ["evolve", rest @ ..] => evolve::time(rest, threads()),
        ["ppo-seeds", rest @ ..] => ppo_seeds::run(rest, threads()),
        ["copy"] => copy::measure(threads()),
        ["copy", "--threads", n] => number(n).and_then(|n| copy::measure(n as usize)),
        ["limit", path] => limit::measure(path.as_ref(), threads()),
        ["limit", path, "--threads", n] => number(n).and_then(|n| limit::measure(path.as_ref(), n as usize)),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(object) => {
            println!("{object}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn backtest(words: &[&str]) -> Result<serde_json::Value, String> {
    let (mut bars, mut accounts, mut cores, mut rounds) = (425_419, 64, threads(), 3);
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let place = match *name {
            "--bars" => &mut bars,
            "--accounts" => &mut accounts,
            "--threads" => &mut cores,
            "--rounds" => &mut rounds,
            other => return Err(format!("there is no flag {other}")),
        };
        *place = number(value)? as usize;
    }
    backtest::time(bars.max(600), accounts.max(1), cores, rounds.max(1))
}

/// Reads the file as `fullbore data audit` would, validation included.
fn read_csv(path: &Path, threads: usize) -> Result<serde_json::Value, String> {
    let options = bars::Options { threads, ..bars::Options::default() };
    let start = Instant::now();
    let (market, audit) = bars::read(path, &options, &|_| {}).map_err(|e| e.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    let rows: usize = market.bars.iter().map(|b| b.len()).sum();
    let checksum: f64 = market.bars.iter().flat_map(|b| &b.close).sum();
    Ok(json!({
        "rows": rows, "seconds": seconds, "peak_rss_mib": peak_rss_mib(), "threads": threads, "close_sum": checksum,
        "verdict": audit.verdict, "bytes": audit.bytes,
    }))
}

/// `--threads N` and `--rounds N`, in any order.
fn flags(words: &[&str], mut threads: usize, mut rounds: usize) -> Result<(usize, usize), String> {
    for pair in words.chunks(2) {
        match pair {
            ["--threads", n] => threads = number(n)? as usize,
            ["--rounds", n] => rounds = number(n)? as usize,
            _ => return Err(format!("what is `{}`? There are --threads N and --rounds N.", pair.join(" "))),
        }
    }
    Ok((threads, rounds))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number."))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// The largest resident size of this process so far; `None` where the system does not tell.
fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? / 1024.0)
}
