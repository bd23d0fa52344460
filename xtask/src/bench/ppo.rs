//! Policies: whole updates of PPO, ours and the peers' in turn.
//!
//! Every run is a fresh process that prints one JSON object. On a processor a round is ours, then each peer, and every
//! other round goes backwards; on a card, where time is short, a round is ours, the peers, and ours once more. Medians
//! count. Ours keeps the full account in f64; the peers have the small environment of `bench/peers/ppo_peer.py`. A peer
//! is beside ours in its class of precision and beside ours at its best; targets are about the latter, and one without
//! a name is against the fastest peer, whatever its precision. Where products limit an update, they are timed alone in
//! every round too: the same plans at the same shapes, and nothing else.

use super::nets::BenchFlags;
use super::runs::Runs;
use super::{machine, median, threads};
use crate::process::command;
use crate::{Result, root};
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

const HALVES: &[Peer] = &[peer("jax", "bf16"), buffered("bf16"), peer("jax", "tf32"), peer("torch", "bf16")];
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
    seconds: f64,
    runs: Runs,
}

impl Sides {
    fn common(&self) -> [String; 6] {
        let device = if self.cuda { "cuda" } else { "cpu" };
        let (threads, seconds) = (threads().to_string(), self.seconds.to_string());
        ["--device".into(), device.into(), "--threads".into(), threads, "--seconds".into(), seconds]
    }

    fn ours(&mut self, case: &Case, mode: &str, precision: &str, turn: usize) -> Result<Value> {
        let mut run = command(&self.ours);
        run.arg(mode).args(case.flags(precision)).args(self.common());
        self.runs.once(turn, &mut run)
    }

    fn peer(&mut self, case: &Case, peer: Peer, turn: usize) -> Result<Value> {
        let mut run = command(&self.python);
        run.arg(root().join(format!("bench/peers/ppo_{}.py", peer.program)));
        run.args(case.flags(peer.precision)).args(self.common()).env("PYTHONDONTWRITEBYTECODE", "1");
        if !peer.flags.is_empty() {
            run.arg(format!("--flags={}", peer.flags));
        }
        if let (true, Some(variants)) = (peer.program == "torch", self.variants(peer)) {
            run.args(["--variants", variants]);
        }
        self.runs.once(turn, &mut run)
    }

    /// The variants of PyTorch that are tried, where not all are: on a card weights in bf16 with masters in f32 spare
    /// the casts of the others.
    fn variants(&self, peer: Peer) -> Option<&'static str> {
        match (peer.precision, self.quick, self.cuda) {
            ("bf16", true, _) => Some("master"),
            ("bf16", false, true) => Some("master,fused"),
            (_, true, _) => Some("eager"),
            _ => None,
        }
    }
}

/// What was measured of a case.
struct Seen {
    case: Case,
    peers: Vec<Peer>,
    /// `[precisions][runs]`
    ours: Vec<Vec<Value>>,
    /// `[peers][runs]`
    theirs: Vec<Vec<Value>>,
    products: Vec<Value>,
}

pub(super) fn run(flags: &BenchFlags, cuda: bool) -> Result<String> {
    let device = if cuda { super::gpu::card()? } else { format!("{} threads", threads()) };
    let seconds = flags.seconds.unwrap_or(if cuda { 2.0 } else { 5.0 });
    let (python, ours) = (flags.python("ppo", cuda)?, flags.ours()?);
    let mut sides = Sides { ours, python, cuda, quick: flags.quick, seconds, runs: Runs::open(flags)? };
    let cases = if cuda { &CARD[..] } else { &PROCESSOR[..] };
    let rounds = flags.rounds(if cuda { 1 } else { 3 });
    let mut all = Vec::new();
    for (_, case) in cases.iter().enumerate().filter(|(i, case)| flags.wants_case(*i, &case.name())) {
        println!("{}", case.name());
        all.push(measure_case(&mut sides, case, rounds)?);
    }
    if all.is_empty() {
        return Err(flags.no_case());
    }
    Ok(section(&all, rounds, cuda, &format!("{device}. {}", machine(&sides.python))))
}

fn measure_case(sides: &mut Sides, case: &Case, rounds: usize) -> Result<Seen> {
    let peers: Vec<Peer> = case.peers.iter().copied().filter(|peer| !sides.quick || peer.flags.is_empty()).collect();
    let (own, count) = (case.ours.len(), case.ours.len() + peers.len());
    let mut seen: Vec<Vec<Value>> = vec![Vec::new(); count];
    let mut products = Vec::new();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..count).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        if sides.cuda {
            order = (0..count).chain((0..own).rev()).collect();
        }
        for (turn, at) in order.into_iter().enumerate() {
            // The second time of ours in a round is a run of its own.
            let turn = 2 * round + usize::from(turn >= count);
            let made = match at.checked_sub(own) {
                None => sides.ours(case, "ppo", case.ours[at], turn)?,
                Some(at) => sides.peer(case, peers[at], turn)?,
            };
            println!("  {}, {}: {}", made["program"].as_str().unwrap_or("?"), made["precision"], made["steps_per_s"]);
            seen[at].push(made);
        }
        if case.of_products.is_some() && sides.cuda {
            products.push(sides.ours(case, "ppo-products", case.ours[0], round)?);
        }
    }
    let theirs = seen.split_off(own);
    Ok(Seen { case: *case, peers, ours: seen, theirs, products })
}

fn section(all: &[Seen], rounds: usize, cuda: bool, machine: &str) -> String {
    let (unit, per) = if cuda { ("M steps/s", 1e6) } else { ("k steps/s", 1e3) };
    let mut rows = String::new();
    for seen in all {
        table(&mut rows, seen, per);
        if let (Some(least), [_, ..]) = (seen.case.of_products, &seen.products[..]) {
            rows.push_str(&products_row(&seen.ours[0], &seen.products, least));
        }
    }
    let first = |runs: &[Value]| format!("{:.1}", median(runs, "first_update_s"));
    let firsts: Vec<String> = all.iter().map(|seen| first(&seen.ours[0])).collect();
    let turns = if cuda { ", ours before and behind the peers" } else { "" };
    let account = if cuda {
        "The account alone is the walk of its twin, with bars of its own for each account and a digest of every step: at \
         most that share of an update."
    } else {
        "The account alone is the steps of an update's accounts without a net."
    };
    format!(
        "## PPO on the {}\n\n\
         | nets, environments × steps, minibatches × epochs | program | {unit} | TFLOP/s | ours in its class is faster by | \
         ours at its best is faster by | target | account alone |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         Whole updates after a warm-up, median of {rounds} {} of each in turn{turns}; {}. A target is about ours at its \
         best beside the fastest run of a peer. {account} From nothing to the end of the first update ours takes {} s, \
         case by case, the market apart.\n\n{machine}\n",
        if cuda { "GPU" } else { "CPU" },
        if rounds == 1 { "process" } else { "processes" },
        describe_versions(all),
        firsts.join(", "),
    )
}

fn rate(runs: &[Value]) -> f64 {
    median(runs, "steps_per_s")
}

/// A row for each program.
fn table(rows: &mut String, seen: &Seen, unit: f64) {
    let Seen { case, peers, ours, theirs, .. } = seen;
    let best = ours.iter().map(|runs| rate(runs)).fold(0.0, f64::max);
    let fastest = theirs.iter().map(|runs| rate(runs)).fold(0.0, f64::max);
    let work = median(&ours[0], "flop_per_step");
    for (i, (precision, runs)) in case.ours.iter().zip(ours).enumerate() {
        let (r, name) = (rate(runs), if i == 0 { case.name() } else { String::new() });
        let share = median(runs, "account_share");
        let share = if share.is_nan() { String::new() } else { format!("{:.1} %", 100.0 * share) };
        let tera = r * work / 1e12;
        let _ =
            writeln!(rows, "| {name} | **fullbore**, {precision} | **{:.2}** | {tera:.3} | | | | {share} |", r / unit);
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
        let in_class = case.ours.iter().zip(ours).find(|(precision, _)| **precision == peer.precision);
        let in_class = in_class.map_or(String::new(), |(_, runs)| format!("{:.2}", rate(runs) / r));
        let variant = runs[0]["variant"].as_str().map_or(String::new(), |v| format!(", {v}"));
        let buffers = if peer.flags.is_empty() { "" } else { ", command buffers" };
        let _ = writeln!(
            rows,
            "| | {}, {}{variant}{buffers} | {:.2} | {:.3} | {in_class} | {times:.2} | {target} | |",
            program_name(peer.program),
            peer.precision,
            r / unit,
            r * work / 1e12
        );
    }
}

/// The row of products alone, with the share of their rate that whole updates reach.
fn products_row(ours: &[Value], products: &[Value], least: f64) -> String {
    let (whole, alone) = (rate(ours), rate(products));
    let tera = alone * median(products, "flop_per_step") / 1e12;
    let share = whole / alone;
    let verdict = if share >= least { "met" } else { "**missed**" };
    format!(
        "| | products of ours alone, bf16 | {:.2} | {tera:.3} | {:.0} % of it | | {:.0} %: {verdict} | |\n",
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
fn describe_versions(all: &[Seen]) -> String {
    let mut told: Vec<String> = Vec::new();
    let runs = all.iter().flat_map(|seen| seen.theirs.iter().flatten());
    for (name, version) in runs.filter_map(|run| run["versions"].as_object()).flatten() {
        let one = format!("{name} {}", version.as_str().unwrap_or("?"));
        if name != "device" && !told.contains(&one) {
            told.push(one);
        }
    }
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::check_columns;
    use super::*;
    use serde_json::json;

    const PEERS: &[Peer] = &[peer("jax", "bf16"), peer("jax", "tf32"), peer("torch", "bf16")];

    fn run(rate: f64) -> Vec<Value> {
        vec![json!({"steps_per_s": rate, "flop_per_step": 1e6, "account_share": 0.125, "first_update_s": 1.25,
            "versions": {"jax": "0.1", "device": "a card"}})]
    }

    fn seen(case: Case, ours: &[f64], theirs: &[f64]) -> Seen {
        let [ours, theirs] = [ours, theirs].map(|rates| rates.iter().map(|rate| run(*rate)).collect());
        Seen { case, peers: PEERS.to_vec(), ours, theirs, products: run(9e6) }
    }

    #[test]
    fn a_target_is_against_the_fastest_run_of_its_program() {
        let case = Case { ours: &["bf16", "tf32"], targets: &[("jax", 3.0), ("torch", 1.5)], ..SMALL };
        let mut rows = String::new();
        table(&mut rows, &seen(case, &[8e6, 6e6], &[2e6, 4e6, 4e6]), 1e6);
        let lines: Vec<&str> = rows.lines().collect();
        assert!(lines[0].ends_with("| **fullbore**, bf16 | **8.00** | 8.000 | | | | 12.5 % |"), "{}", lines[0]);
        assert!(lines[1].starts_with("|  | **fullbore**, tf32 | **6.00** |"), "{}", lines[1]);
        assert_eq!(lines[2], "| | JAX, one function, bf16 | 2.00 | 2.000 | 4.00 | 4.00 |  | |");
        assert_eq!(lines[3], "| | JAX, one function, tf32 | 4.00 | 4.000 | 1.50 | 2.00 | 3: **missed** | |");
        assert_eq!(lines[4], "| | PyTorch, bf16 | 4.00 | 4.000 | 2.00 | 2.00 | 1.5: met | |");
        let fastest = Case { targets: &[("", 2.0)], ..case };
        rows.clear();
        table(&mut rows, &seen(fastest, &[8e6, 6e6], &[2e6, 3e6, 4e6]), 1e6);
        assert_eq!(rows.matches("2: met").count(), 1);
    }

    #[test]
    fn whole_updates_have_a_share_of_their_products() {
        let row = products_row(&run(8e6), &run(9e6), 0.85);
        assert_eq!(row, "| | products of ours alone, bf16 | 9.00 | 9.000 | 89 % of it | | 85 %: met | |\n");
        assert!(products_row(&run(7e6), &run(9e6), 0.85).contains("**missed**"));
    }

    #[test]
    fn a_section_has_a_cell_for_each_heading() {
        for cuda in [true, false] {
            let case = Case { ours: &["bf16"], ..LARGE };
            let all = [seen(case, &[8e6], &[2e6, 4e6, 4e6]), seen(SMALL, &[8e6, 6e6], &[2e6, 4e6, 4e6])];
            let made = section(&all, 3, cuda, "A machine.");
            check_columns(&made);
            assert!(made.contains("; jax 0.1. A target"), "{made}");
            assert!(made.contains("ours takes 1.2, 1.2 s, case by case") || made.contains("1.3, 1.3 s"), "{made}");
            assert_eq!(made.contains("ours before and behind the peers"), cuda);
        }
    }
}
