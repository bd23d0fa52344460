//! Searches: simulations a second, ours and those of mctx in turn.
//!
//! Every run is a fresh process that prints one JSON object; every other round goes backwards, and medians count. Ours
//! is compared in its reference mode, which does what mctx does: the same world, net, roots and simulations. Ratios are
//! those of ours at its best precision to a peer. The honest mode has a table of its own: all codes of a chance node
//! are evaluated in every simulation, on a bootstrap of rows with accounts.

use super::nets::BenchFlags;
use super::runs::Runs;
use super::{machine, median, threads};
use crate::process::command;
use crate::{Result, root};
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;

/// What is searched.
#[derive(Debug, Clone, Copy)]
struct Case {
    net: &'static str,
    roots: usize,
    simulations: usize,
    rule: &'static str,
    /// Of the honest mode.
    scenarios: usize,
    /// How many times as fast as mctx ours should be.
    target: Option<f64>,
    /// The share of the rate of its net alone that ours should reach.
    of_net: Option<f64>,
}

const SMALL: Case = Case {
    net: "256,256",
    roots: 128,
    simulations: 32,
    rule: "gumbel",
    scenarios: 64,
    target: Some(2.3),
    of_net: None,
};
const CASES: [Case; 4] = [
    SMALL,
    Case { rule: "muzero", target: None, ..SMALL },
    Case { roots: 1024, target: None, ..SMALL },
    Case { net: "2048,1024,512", target: Some(1.2), ..SMALL },
];
const ON_CARD: Case = Case { target: Some(10.0), ..SMALL };
const CARD_CASES: [Case; 5] = [
    ON_CARD,
    Case { roots: 1024, ..ON_CARD },
    Case { roots: 8192, target: Some(6.0), ..ON_CARD },
    Case { roots: 1024, simulations: 128, rule: "muzero", ..ON_CARD },
    Case { net: "2048,1024,512", roots: 1024, target: None, of_net: Some(0.5), ..SMALL },
];

const HONEST_CASES: [Case; 4] =
    [SMALL, Case { roots: 1024, ..SMALL }, Case { net: "2048,1024,512", ..SMALL }, Case { scenarios: 512, ..SMALL }];
const FEW: Case = Case { net: "64,64", roots: 16, ..SMALL };
const HONEST_CARD_CASES: [Case; 9] = [
    FEW,
    Case { roots: 32, ..FEW },
    Case { roots: 128, ..FEW },
    Case { roots: 256, ..FEW },
    Case { roots: 1024, ..FEW },
    Case { roots: 8192, ..FEW },
    Case { roots: 1024, scenarios: 512, ..FEW },
    Case { roots: 1024, ..SMALL },
    Case { net: "2048,1024,512", roots: 1024, ..SMALL },
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
const MCTX: Program = Program { name: "mctx", peer: true, ..OURS };
const MCTX_BF16: Program = Program { name: "mctx, bf16", words: &["--precision", "bf16"], ..MCTX };
/// With loops and branches inside one CUDA graph.
const BUFFERS: &str = "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL";

const PROGRAMS: [Program; 4] = [OURS_BF16, OURS_F32, MCTX, MCTX_BF16];
const CARD_PROGRAMS: [Program; 3] = [
    OURS_BF16,
    Program { name: "mctx, bf16, command buffers", xla: BUFFERS, ..MCTX_BF16 },
    Program { name: "mctx, f32, command buffers", xla: BUFFERS, ..MCTX },
];
const HONEST_PROGRAMS: [Program; 3] = [
    Program { name: "bf16", words: &["--mode", "honest", "--precision", "bf16"], ..OURS },
    Program { name: "f32", words: &["--mode", "honest"], ..OURS },
    Program {
        name: "bf16, 8 simulations of a root in flight",
        words: &["--mode", "honest", "--precision", "bf16", "--in-flight", "8"],
        ..OURS
    },
];
const HONEST_ON_CARD: [Program; 1] = [Program { name: "bf16", words: &["--mode", "honest"], ..OURS }];

impl Case {
    fn name(&self) -> String {
        let Case { net, roots, simulations, rule, .. } = self;
        format!("{rule}, ({}), {roots} × {simulations}", net.replace(',', ", "))
    }

    fn honest_name(&self) -> String {
        format!("{}, {} scenarios", self.name(), self.scenarios)
    }

    fn flags(&self, cuda: bool) -> Vec<String> {
        let Case { net, roots, simulations, rule, .. } = self;
        let (roots, simulations, threads) = (roots.to_string(), simulations.to_string(), threads().to_string());
        let words = ["--net", net, "--roots", &roots, "--simulations", &simulations, "--rule", rule];
        let device = if cuda { "cuda" } else { "cpu" };
        words.into_iter().chain(["--threads", &threads, "--device", device]).map(str::to_string).collect()
    }
}

/// Both sides' programs.
struct Sides {
    ours: PathBuf,
    python: PathBuf,
    cuda: bool,
    seconds: f64,
    rounds: usize,
    runs: Runs,
}

/// A case with its programs, and what each said: `[programs][rounds]`.
struct Seen {
    case: Case,
    programs: &'static [Program],
    runs: Vec<Vec<Value>>,
}

pub(super) fn run(flags: &BenchFlags, cuda: bool) -> Result<String> {
    let device = if cuda { super::gpu::card()? } else { format!("{} threads", threads()) };
    let (seconds, rounds) = if cuda { (1.0, 1) } else { (3.0, 3) };
    let (ours, python) = (flags.ours()?, flags.python("search", cuda)?);
    let (seconds, rounds) = (flags.seconds.unwrap_or(seconds), flags.rounds(rounds));
    let mut sides = Sides { ours, python, cuda, seconds, rounds, runs: Runs::open(flags)? };
    let (cases, programs) = if cuda { (&CARD_CASES[..], &CARD_PROGRAMS[..]) } else { (&CASES[..], &PROGRAMS[..]) };
    let (honest_cases, honest_programs) =
        if cuda { (&HONEST_CARD_CASES[..], &HONEST_ON_CARD[..]) } else { (&HONEST_CASES[..], &HONEST_PROGRAMS[..]) };
    let (mut all, mut honest) = (Vec::new(), Vec::new());
    for (_, case) in cases.iter().enumerate().filter(|(i, case)| flags.wants_case(*i, &case.name())) {
        println!("{}", case.name());
        all.push(sides.measure(case, programs)?);
    }
    let wanted =
        |(i, case): &(usize, &Case)| flags.wants_case(cases.len() + i, &format!("honest, {}", case.honest_name()));
    for (_, case) in honest_cases.iter().enumerate().filter(wanted) {
        println!("honest, {}", case.honest_name());
        honest.push(sides.measure(case, honest_programs)?);
    }
    if all.is_empty() && honest.is_empty() {
        return Err(flags.no_case());
    }
    Ok(section(&all, &honest, rounds, cuda, &format!("{device}. {}", machine(&sides.python))))
}

impl Sides {
    fn measure(&mut self, case: &Case, programs: &'static [Program]) -> Result<Seen> {
        let mut runs = vec![Vec::new(); programs.len()];
        for round in 0..self.rounds {
            let forwards: Vec<usize> = (0..programs.len()).collect();
            let order = if round % 2 == 1 { forwards.into_iter().rev().collect() } else { forwards };
            for at in order {
                let made = self.once(case, &programs[at], round)?;
                println!("  {}: {}", programs[at].name, made["simulations_per_s"]);
                runs[at].push(made);
            }
        }
        Ok(Seen { case: *case, programs, runs })
    }

    fn once(&mut self, case: &Case, program: &Program, round: usize) -> Result<Value> {
        let mut run = command(if program.peer { &self.python } else { &self.ours });
        if program.peer {
            run.arg(root().join("bench/peers/search_mctx.py")).env("PYTHONDONTWRITEBYTECODE", "1");
            run.env("XLA_FLAGS", program.xla);
        } else {
            run.arg("search");
        }
        run.args(case.flags(self.cuda)).args(program.words).args(["--seconds", &self.seconds.to_string()]);
        if program.words.contains(&"honest") {
            run.args(["--scenarios", &case.scenarios.to_string()]);
        }
        self.runs.once(round, &mut run)
    }
}

fn section(all: &[Seen], honest: &[Seen], rounds: usize, cuda: bool, machine: &str) -> String {
    let (unit, per) = if cuda { ("M", 1e6) } else { ("k", 1e3) };
    let mut rows = String::new();
    all.iter().for_each(|seen| table(&mut rows, seen, per));
    let version = |seen: &Seen| {
        let peer = seen.programs.iter().position(|program| program.peer)?;
        Some(seen.runs[peer].first()?["versions"].as_str()?.to_string())
    };
    let versions = all.iter().find_map(version).unwrap_or_else(|| "no peer".into());
    let (title, note) = if cuda {
        let note = " Ours computes nets in bf16 with f32 sums, on every side trees are f32; roots lie on the card before, \
                    and what was found stays there. The net alone is passes in one graph; small nets run inside the \
                    search and have no rate of their own.";
        ("Search on the GPU", note)
    } else {
        ("Search on the CPU", "")
    };
    let processes = if rounds == 1 { "process" } else { "processes" };
    let mut out = format!("## {title}\n\n");
    if !rows.is_empty() {
        let _ = write!(
            out,
            "| rule, net, roots × simulations | program | {unit} simulations/s | net alone, {unit} rows/s | share of the net alone | \
             ours is faster by | target |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n{rows}\n\
             Whole searches of the reference mode after a warm-up, median of {rounds} {processes} of each in turn; {versions}. \
             The share is of evaluations, one of each root and one in each simulation.{note}\n\n"
        );
    }
    if !honest.is_empty() {
        out.push_str(&honest_table(honest, rounds, cuda));
    }
    let _ = writeln!(out, "{machine}");
    out
}

/// A row for each program; the target is against the fastest peer.
fn table(rows: &mut String, seen: &Seen, per: f64) {
    let Seen { case, programs, runs } = seen;
    let rate = |at: usize| median(&runs[at], "simulations_per_s");
    let fastest = |peer: bool| {
        let own = (0..programs.len()).filter(|at| programs[*at].peer == peer);
        own.max_by(|a, b| rate(*a).total_cmp(&rate(*b))).unwrap_or(0)
    };
    let (best, ours) = (fastest(true), fastest(false));
    let verdict = |met: bool| if met { "met" } else { "**missed**" };
    for (at, program) in programs.iter().enumerate() {
        let alone = median(&runs[at], "net_rows_per_s");
        let share = rate(at) * (case.simulations + 1) as f64 / case.simulations as f64 / alone;
        let (net, share_text) = match alone.is_nan() {
            true => (String::new(), String::new()),
            false => (format!("{:.1}", alone / per), format!("{:.0} %", 100.0 * share)),
        };
        let times = rate(ours) / rate(at);
        let target = match (case.target.filter(|_| at == best), case.of_net.filter(|_| at == ours)) {
            (Some(least), _) => format!("{least}: {}", verdict(times >= least)),
            (_, Some(least)) => format!("{:.0} % of the net: {}", 100.0 * least, verdict(share >= least)),
            _ => String::new(),
        };
        let shown = if program.peer { format!("{times:.2}") } else { String::new() };
        let first = if at == 0 { case.name() } else { String::new() };
        let star = if at == ours { "**" } else { "" };
        let (name, rate) = (program.name, rate(at) / per);
        let rate = if rate < 10.0 { format!("{rate:.3}") } else { format!("{rate:.1}") };
        let _ = writeln!(
            rows,
            "| {first} | {star}{name}{star} | {star}{rate}{star} | {net} | {share_text} | {shown} | {target} |"
        );
    }
}

/// The honest mode: on a card with and without what goes there and comes back.
fn honest_table(all: &[Seen], rounds: usize, cuda: bool) -> String {
    let mut rows = String::new();
    for Seen { case, programs, runs } in all {
        for (at, program) in programs.iter().enumerate() {
            let figure = |key: &str, per: f64| format!("{:.3}", median(&runs[at], key) / per);
            let first = if at == 0 { case.honest_name() } else { String::new() };
            let _ = match cuda {
                true => writeln!(
                    rows,
                    "| {first} | {} | {} | {} |",
                    figure("simulations_per_s", 1e6),
                    figure("on_card_simulations_per_s", 1e6),
                    figure("evaluations_per_s", 1e6)
                ),
                false => writeln!(rows, "| {first} | {} | {} |", program.name, figure("simulations_per_s", 1e3)),
            };
        }
    }
    let heading = if cuda {
        "| rule, net, roots × simulations | M simulations/s | on the card alone | M evaluations/s |\n\
         | --- | --- | --- | --- |"
    } else {
        "| rule, net, roots × simulations | nets | k simulations/s |\n| --- | --- | --- |"
    };
    let processes = if rounds == 1 { "process" } else { "processes" };
    let note =
        if cuda { " Roots up and outcomes down are in the time, and without them in the second figure." } else { "" };
    format!(
        "### Honest search\n\n{heading}\n{rows}\n\
         The mode that policies train and trade by: a simulation evaluates 16 codes of a chance node, and a root every \
         scenario behind each of three actions before the first; median of {rounds} {processes}.{note}\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::check_columns;
    use super::*;
    use serde_json::json;

    fn run(rate: f64, net: Option<f64>) -> Vec<Value> {
        vec![json!({"simulations_per_s": rate, "net_rows_per_s": net, "on_card_simulations_per_s": 2.0 * rate,
            "evaluations_per_s": 16.0 * rate, "versions": "mctx 0.1, JAX 0.2"})]
    }

    #[test]
    fn the_target_is_against_the_fastest_peer() {
        let case = Case { target: Some(2.0), ..SMALL };
        let runs = vec![run(6.4e6, Some(13.2e6)), run(4e6, Some(5e6)), run(1e6, None), run(3.2e6, None)];
        let mut rows = String::new();
        table(&mut rows, &Seen { case, programs: &PROGRAMS, runs }, 1e3);
        let lines: Vec<&str> = rows.lines().collect();
        let name = "gumbel, (256, 256), 128 × 32";
        assert_eq!(lines[0], format!("| {name} | **fullbore, bf16** | **6400.0** | 13200.0 | 50 % |  |  |"));
        assert_eq!(lines[2], "|  | mctx | 1000.0 |  |  | 6.40 |  |");
        assert_eq!(lines[3], "|  | mctx, bf16 | 3200.0 |  |  | 2.00 | 2: met |");
    }

    #[test]
    fn wide_nets_have_a_target_of_their_own() {
        let runs = vec![run(6.4e6, Some(13.2e6)), run(1e6, None), run(0.5e6, None)];
        let mut rows = String::new();
        table(&mut rows, &Seen { case: CARD_CASES[4], programs: &CARD_PROGRAMS, runs }, 1e6);
        let first = rows.lines().next().unwrap();
        assert!(first.ends_with("| **6.400** | 13.2 | 50 % |  | 50 % of the net: met |"), "{first}");
    }

    #[test]
    fn a_section_has_a_cell_for_each_heading() {
        for cuda in [true, false] {
            let (programs, honest): (&'static [Program], &'static [Program]) =
                if cuda { (&CARD_PROGRAMS, &HONEST_ON_CARD) } else { (&PROGRAMS, &HONEST_PROGRAMS) };
            let made = |case: Case, programs: &'static [Program]| Seen {
                case,
                programs,
                runs: vec![run(2e6, None); programs.len()],
            };
            let (all, few) = ([made(SMALL, programs)], [made(FEW, honest), made(SMALL, honest)]);
            let text = section(&all, &few, 1, cuda, "A machine.");
            check_columns(&text);
            assert!(text.contains("1 process of each in turn; mctx 0.1, JAX 0.2.") && text.ends_with("A machine.\n"));
            assert!(text.contains("64 scenarios | 2.000 | 4.000 | 32.000 |") == cuda, "{text}");
            assert_eq!(text.contains("8 simulations of a root in flight | 2000.000 |"), !cuda, "{text}");
        }
    }
}
