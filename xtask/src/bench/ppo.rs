//! Policies: whole updates of PPO, ours and the peers' in turn.
//!
//! Every run is a fresh process that prints one JSON object. A round is ours, then each peer; every other round goes
//! backwards. Medians count. Ours keeps the full account in f64; the peers have the small environment of
//! `bench/peers/ppo_peer.py`. The ratio is that of ours at its best precision to each peer, and a target without a name
//! is against the fastest of them, whatever its precision. Where products limit an update, they are timed alone in
//! every round too: the same plans at the same shapes, and nothing else.

use super::nets::BenchFlags;
use super::{machine, median, threads};
use crate::process::{build, command, last_json, measure};
use crate::{Result, cache, root};
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;

/// What is trained.
#[derive(Debug, Clone, Copy)]
struct Case {
    net: &'static str,
    activation: &'static str,
    envs: usize,
    steps: usize,
    minibatches: usize,
    epochs: usize,
    members: usize,
    /// Precisions of ours.
    ours: &'static [&'static str],
    peers: &'static [Peer],
    /// How many times as fast ours should be; no name is the fastest peer's.
    targets: &'static [(&'static str, f64)],
    /// The share of the rate of its products alone that an update should reach, where these are timed.
    of_products: Option<f64>,
}

/// A program and its precision; `flags` are XLA's.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Peer {
    program: &'static str,
    precision: &'static str,
    flags: &'static str,
}

const fn peer(program: &'static str, precision: &'static str) -> Peer {
    Peer { program, precision, flags: "" }
}

/// Loops as command buffers.
const fn buffered(precision: &'static str) -> Peer {
    Peer { flags: "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL", ..peer("jax", precision) }
}

const HALVES: &[Peer] =
    &[peer("jax", "bf16"), buffered("bf16"), peer("jax", "tf32"), peer("torch", "bf16"), peer("torch", "tf32")];
const SMALL: Case = Case {
    net: "64,64",
    activation: "tanh",
    envs: 4096,
    steps: 128,
    minibatches: 8,
    epochs: 4,
    members: 1,
    ours: &["bf16", "tf32"],
    peers: HALVES,
    targets: &[("", 4.0)],
    of_products: None,
};
const LARGE: Case = Case {
    net: "2048,1024,512",
    activation: "relu",
    envs: 2048,
    minibatches: 16,
    ours: &["bf16"],
    targets: &[("jax", 1.3), ("torch", 1.15)],
    of_products: Some(0.85),
    ..SMALL
};
const CARD: [Case; 5] = [
    SMALL,
    Case { envs: 16_384, ..SMALL },
    LARGE,
    Case { envs: 32, steps: 4096, minibatches: 128, targets: &[("jax", 3.0)], of_products: None, ..LARGE },
    Case {
        envs: 1024,
        members: 16,
        peers: &[peer("jax", "bf16"), buffered("bf16"), peer("jax", "tf32")],
        targets: &[("", 5.0)],
        ..SMALL
    },
];

const PLAIN: &[Peer] = &[peer("jax", "f32"), peer("jax", "bf16"), peer("torch", "f32"), peer("sb3", "f32")];
const PROCESSOR: [Case; 3] = [
    Case { envs: 1024, ours: &["bf16", "f32"], peers: PLAIN, targets: &[("jax", 3.0)], ..SMALL },
    Case {
        envs: 32,
        minibatches: 4,
        ours: &["bf16", "f32"],
        peers: PLAIN,
        targets: &[("jax", 3.0), ("sb3", 8.0)],
        ..SMALL
    },
    Case {
        net: "2048,1024,512",
        envs: 32,
        minibatches: 4,
        epochs: 2,
        ours: &["bf16", "f32"],
        peers: PLAIN,
        targets: &[("sb3", 1.3)],
        ..SMALL
    },
];

impl Case {
    fn name(&self) -> String {
        let Case { net, envs, steps, minibatches, epochs, members, .. } = self;
        let members = if *members > 1 { format!("{members} members, ") } else { String::new() };
        format!("{members}({}), {envs} × {steps}, {minibatches} × {epochs}", net.replace(',', ", "))
    }

    fn flags(&self, precision: &str) -> Vec<String> {
        let numbers = [
            ("--envs", self.envs),
            ("--steps", self.steps),
            ("--minibatches", self.minibatches),
            ("--epochs", self.epochs),
            ("--members", self.members),
        ];
        let words = [("--net", self.net), ("--activation", self.activation), ("--precision", precision)];
        let numbers = numbers.iter().flat_map(|(name, n)| [name.to_string(), n.to_string()]);
        words.iter().flat_map(|(name, word)| [name.to_string(), word.to_string()]).chain(numbers).collect()
    }
}

/// Both sides' programs.
struct Sides {
    ours: PathBuf,
    python: PathBuf,
    cuda: bool,
    quick: bool,
}

impl Sides {
    fn device(&self) -> [String; 4] {
        ["--device".into(), if self.cuda { "cuda" } else { "cpu" }.into(), "--threads".into(), threads().to_string()]
    }

    fn ours(&self, case: &Case, mode: &str, precision: &str) -> Result<Value> {
        let mut run = command(&self.ours);
        run.arg(mode).args(case.flags(precision)).args(self.device());
        last_json(&measure(&mut run)?.out)
    }

    fn peer(&self, case: &Case, peer: Peer) -> Result<Value> {
        let mut run = command(&self.python);
        run.arg(root().join(format!("bench/peers/ppo_{}.py", peer.program)));
        run.args(case.flags(peer.precision)).args(self.device()).env("PYTHONDONTWRITEBYTECODE", "1");
        if !peer.flags.is_empty() {
            run.arg(format!("--flags={}", peer.flags));
        }
        if self.quick && peer.program == "torch" {
            run.args(["--variants", if peer.precision == "bf16" { "master" } else { "eager" }]);
        }
        last_json(&measure(&mut run)?.out)
    }
}

pub(super) fn run(flags: &BenchFlags, cuda: bool) -> Result<String> {
    let python = match (&flags.python, cuda) {
        (Some(path), _) => path.clone(),
        (None, true) => "python3".into(),
        (None, false) => cache::python_of("ppo", &root().join("bench/peers/ppo.lock"))?,
    };
    let ours = match &flags.ours {
        Some(path) => path.clone(),
        None => build("fullbore-bench", "fullbore-bench", true)?,
    };
    let device = if cuda { super::gpu::card()? } else { format!("{} threads", threads()) };
    let sides = Sides { ours, python, cuda, quick: flags.quick };
    let (cases, unit) = if cuda { (&CARD[..], "M steps/s") } else { (&PROCESSOR[..], "k steps/s") };
    let rounds = if flags.quick { 1 } else { 3 };
    let mut rows = String::new();
    let mut versions = String::new();
    for case in cases.iter().filter(|case| flags.wants(&case.name())) {
        println!("{}", case.name());
        let peers: Vec<Peer> =
            case.peers.iter().copied().filter(|peer| !flags.quick || peer.flags.is_empty()).collect();
        let mut seen: Vec<Vec<Value>> = vec![Vec::new(); case.ours.len() + peers.len()];
        let mut products = Vec::new();
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..seen.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let made = match at.checked_sub(case.ours.len()) {
                    None => sides.ours(case, "ppo", case.ours[at])?,
                    Some(at) => sides.peer(case, peers[at])?,
                };
                println!("  {}: {}", made["program"].as_str().unwrap_or("?"), made["steps_per_s"]);
                seen[at].push(made);
            }
            if case.of_products.is_some() && cuda {
                products.push(sides.ours(case, "ppo-products", case.ours[0])?);
            }
        }
        versions = describe_versions(&seen);
        table(&mut rows, case, &peers, &seen, if cuda { 1e6 } else { 1e3 });
        if let (Some(least), [_, ..]) = (case.of_products, &products[..]) {
            rows.push_str(&products_row(&seen[0], &products, least));
        }
    }
    if rows.is_empty() {
        return Err(format!("no case has `{}` in its name.", flags.only.as_deref().unwrap_or_default()));
    }
    Ok(format!(
        "## PPO on the {}\n\n\
         | nets, environments × steps, minibatches × epochs | program | {unit} | TFLOP/s | ours is faster by | target | account alone |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         Whole updates after a warm-up, median of {rounds} processes in turn; {versions}.\n\n{device}. {}\n",
        if cuda { "GPU" } else { "CPU" },
        machine(&sides.python),
    ))
}

/// A row for each program.
fn table(rows: &mut String, case: &Case, peers: &[Peer], seen: &[Vec<Value>], unit: f64) {
    let rate = |runs: &[Value]| median(runs, "steps_per_s");
    let (ours, theirs) = seen.split_at(case.ours.len());
    let best = ours.iter().map(|runs| rate(runs)).fold(0.0, f64::max);
    let fastest = theirs.iter().map(|runs| rate(runs)).fold(0.0, f64::max);
    let work = median(&ours[0], "flop_per_step");
    let share = |run: &Value| run["account_share"].as_f64().map_or(String::new(), |s| format!("{:.1} %", 100.0 * s));
    for (precision, runs) in case.ours.iter().zip(ours) {
        let (r, share) = (rate(runs), share(&runs[0]));
        let tera = r * work / 1e12;
        let _ = writeln!(
            rows,
            "| {} | **fullbore**, {precision} | **{:.2}** | {tera:.3} | | | {share} |",
            case.name(),
            r / unit
        );
    }
    for (peer, runs) in peers.iter().zip(theirs) {
        let r = rate(runs);
        // A program's target is against its fastest run.
        let of_program = |p: &Peer| p.program == peer.program;
        let alike = peers.iter().zip(theirs).filter(|(p, _)| of_program(p)).map(|(_, runs)| rate(runs));
        let leads = r >= alike.fold(0.0, f64::max);
        let wanted = case.targets.iter().find(|(name, _)| match *name {
            "" => r >= fastest,
            name => name == peer.program && leads,
        });
        let times = best / r;
        let target = wanted.map_or(String::new(), |(_, least)| {
            format!("{least}: {}", if times >= *least { "met" } else { "**missed**" })
        });
        let variant = runs[0]["variant"].as_str().map_or(String::new(), |v| format!(", {v}"));
        let buffers = if peer.flags.is_empty() { "" } else { ", command buffers" };
        let _ = writeln!(
            rows,
            "| | {}, {}{variant}{buffers} | {:.2} | {:.3} | {times:.2} | {target} | |",
            program_name(peer.program),
            peer.precision,
            r / unit,
            r * work / 1e12
        );
    }
}

/// The row of products alone, with the share of their rate that whole updates reach.
fn products_row(ours: &[Value], products: &[Value], least: f64) -> String {
    let (whole, alone) = (median(ours, "steps_per_s"), median(products, "steps_per_s"));
    let tera = alone * median(products, "flop_per_step") / 1e12;
    let share = whole / alone;
    let verdict = if share >= least { "met" } else { "**missed**" };
    format!(
        "| | products alone, bf16 | {:.2} | {tera:.3} | {:.0} % of it | {:.0} %: {verdict} | |\n",
        alone / 1e6,
        100.0 * share,
        100.0 * least
    )
}

fn program_name(program: &str) -> &'static str {
    match program {
        "jax" => "JAX, one function",
        "torch" => "PyTorch",
        _ => "Stable-Baselines3",
    }
}

/// The versions that peers told.
fn describe_versions(seen: &[Vec<Value>]) -> String {
    let mut all: Vec<String> = Vec::new();
    for (name, version) in seen.iter().flatten().filter_map(|run| run["versions"].as_object()).flatten() {
        let one = format!("{name} {}", version.as_str().unwrap_or("?"));
        if name != "device" && !all.contains(&one) {
            all.push(one);
        }
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_target_is_against_the_fastest_run_of_its_program() {
        const PEERS: &[Peer] = &[peer("jax", "bf16"), peer("jax", "tf32"), peer("torch", "bf16")];
        let case = Case { ours: &["bf16"], peers: PEERS, targets: &[("jax", 3.0), ("torch", 1.5)], ..SMALL };
        let run = |rate: f64| vec![json!({"steps_per_s": rate, "flop_per_step": 1e6})];
        let mut rows = String::new();
        table(&mut rows, &case, PEERS, &[run(8e6), run(2e6), run(4e6), run(4e6)], 1e6);
        let lines: Vec<&str> = rows.lines().collect();
        assert_eq!(lines[1], "| | JAX, one function, bf16 | 2.00 | 2.000 | 4.00 |  | |");
        assert_eq!(lines[2], "| | JAX, one function, tf32 | 4.00 | 4.000 | 2.00 | 3: **missed** | |");
        assert_eq!(lines[3], "| | PyTorch, bf16 | 4.00 | 4.000 | 2.00 | 1.5: met | |");
        let fastest = Case { targets: &[("", 2.0)], ..case };
        rows.clear();
        table(&mut rows, &fastest, PEERS, &[run(8e6), run(2e6), run(3e6), run(4e6)], 1e6);
        assert_eq!(rows.matches("2: met").count(), 1);
        let row = products_row(&run(8e6), &run(9e6), 0.85);
        assert_eq!(row, "| | products alone, bf16 | 9.00 | 9.000 | 89 % of it | 85 %: met | |\n");
        assert!(products_row(&run(7e6), &run(9e6), 0.85).contains("**missed**"));
    }
}
