//! Evolved policies: whole generations of OpenAI-ES, ours and the peers' in turn, on a processor or on a card.
//!
//! Every run is a fresh process that prints one JSON object. A round on a processor is, in bf16 and in f32, ours on all
//! threads and on one (or on those of `--threads`), then each peer; every other round goes backwards. Behind the rounds
//! ours runs beside other work, in the class that is faster. On a card a round is ours, JAX in bf16 and in tf32, and
//! ours once more. Medians count. Ours keeps the full account in f64; the peers have the small environment of
//! `bench/peers/evolve_jax.py`. The target is against the fastest peer in any precision.

use super::gpu::card;
use super::nets::BenchFlags;
use super::runs::Runs;
use super::{machine, median, threads};
use crate::process::command;
use crate::{Result, root};
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;

/// Steps of an account; the net is 18-64-64-3.
const STEPS: &str = "256";

/// Individuals and accounts of each on a processor, how many times as fast as the faster peer ours should be, and how
/// much faster on two threads than on one.
const ON_PROCESSOR: (usize, usize, f64) = (256, 4, 6.0);
const TWO_THREADS: f64 = 1.9;

/// The runs of a round: ours on so many threads, or a peer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Run {
    Ours(usize),
    Peer(&'static str),
}

const PRECISIONS: [&str; 2] = ["bf16", "f32"];
const PEERS: [Run; 2] = [Run::Peer("evosax"), Run::Peer("plain")];

/// What goes on beside generations, in words of `fullbore-bench` and of the table.
const BESIDE: [(&str, &str); 4] = [
    ("nothing", "nothing"),
    ("checkpoints", "checkpoints"),
    ("loading", "data read on a thread more"),
    ("both", "checkpoints, and data read on a thread more"),
];

/// Both sides' programs.
struct Sides {
    ours: PathBuf,
    python: PathBuf,
    seconds: f64,
    runs: Runs,
}

impl Sides {
    fn new(flags: &BenchFlags, cuda: bool, usual_seconds: f64) -> Result<Sides> {
        let (ours, python) = (flags.ours()?, flags.python("evolve", cuda)?);
        Ok(Sides { ours, python, seconds: flags.seconds.unwrap_or(usual_seconds), runs: Runs::open(flags)? })
    }

    fn ours(&mut self, turn: usize, words: &[&str]) -> Result<Value> {
        let mut run = command(&self.ours);
        run.arg("evolve").args(words).args(["--seconds", &self.seconds.to_string()]);
        self.runs.once(turn, &mut run)
    }

    fn peer(&mut self, turn: usize, words: &[&str]) -> Result<Value> {
        let mut run = command(&self.python);
        run.arg(root().join("bench/peers/evolve_jax.py")).args(words).args(["--seconds", &self.seconds.to_string()]);
        self.runs.once(turn, run.env("PYTHONDONTWRITEBYTECODE", "1"))
    }
}

pub(super) fn run(flags: &BenchFlags) -> Result<String> {
    let load = load();
    let mut sides = Sides::new(flags, false, 5.0)?;
    let mut counts = flags.threads.clone().unwrap_or_else(|| vec![threads(), 1]);
    counts.retain(|count| *count <= threads());
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.dedup();
    if counts.is_empty() {
        return Err(format!("--threads has no number up to {}, which is what this machine has.", threads()));
    }
    let kinds: Vec<Run> = counts.into_iter().map(Run::Ours).chain(PEERS).collect();
    let (individuals, accounts, _) = ON_PROCESSOR;
    let [individuals, accounts] = [individuals, accounts].map(|n| n.to_string());
    let shape = ["--population", &individuals, "--envs", &accounts, "--steps", STEPS];
    let rounds = flags.rounds(5);
    let mut seen: Vec<Vec<Value>> = vec![Vec::new(); PRECISIONS.len() * kinds.len()];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..seen.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let precision = PRECISIONS[at / kinds.len()];
            let words = [&shape[..], &["--precision", precision]].concat();
            let made = match kinds[at % kinds.len()] {
                Run::Ours(count) => sides.ours(round, &[&words[..], &["--threads", &count.to_string()]].concat())?,
                Run::Peer(variant) => sides.peer(round, &[&words[..], &["--variant", variant]].concat())?,
            };
            println!("  {}, {precision}: {} steps/s", made["program"].as_str().unwrap_or("?"), made["steps_per_s"]);
            seen[at].push(made);
        }
    }
    let precision = PRECISIONS[best(&kinds, &seen) / kinds.len()];
    let Run::Ours(most) = kinds[0] else { unreachable!("ours is first") };
    let mut beside = vec![Vec::new(); BESIDE.len()];
    for round in 0..rounds.min(3) {
        for ((work, _), seen) in BESIDE.iter().zip(&mut beside) {
            let more = ["--precision", precision, "--threads", &most.to_string(), "--beside", work];
            seen.push(sides.ours(round, &[&shape[..], &more].concat())?);
        }
    }
    Ok(table(&kinds, &seen, &beside, rounds, &load, &machine(&sides.python)))
}

/// How many processes wanted a core in the last minute, before anything is measured.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("not known").to_string()
}

/// The faster class of ours on the most threads, as a place in `seen`.
fn best(kinds: &[Run], seen: &[Vec<Value>]) -> usize {
    let rate = |at: &usize| median(&seen[*at], "steps_per_s");
    let ours = (0..PRECISIONS.len()).map(|class| class * kinds.len());
    ours.max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(0)
}

/// Individuals, accounts of each, and how many times as fast as JAX ours should be on a card.
const ON_CARD: [(usize, usize, f64); 3] = [(256, 4, 5.0), (1024, 16, 3.0), (8192, 16, 3.0)];
const PEER_PRECISIONS: [&str; 2] = ["bf16", "tf32"];

/// Individuals of low rank: what is given to ours, the plain pass of their net in the peers' words, and the share of
/// the fastest plain pass's rate that they should reach.
const LOW_RANK: [&str; 10] =
    ["--population", "65536", "--envs", "4", "--features", "56", "--net", "256,256", "--rank", "1"];
const PLAIN: [&str; 4] = ["--net", "64-256t-256t-3", "--batch", "262144"];
const PRODUCTS: &str = "64-256-256-3@262144@bf16";
const SHARE: f64 = 0.6;

/// What was measured on a card.
#[derive(Default)]
struct OnCard {
    /// `[cases]` ours, and the peer `[precisions]`.
    cases: Vec<(Vec<Value>, [Vec<Value>; 2])>,
    /// Ours with sep-CMA-ES in the shape of the first case.
    separable: Vec<Value>,
    low_rank: Vec<Value>,
    /// The plain pass in PyTorch.
    plain: Vec<Value>,
    /// TFLOP/s of its products alone.
    products: f64,
}

/// The same on a card, beside JAX; and individuals of low rank beside the plain pass of their net.
pub(super) fn run_on_card(flags: &BenchFlags) -> Result<String> {
    let device = card()?;
    let mut sides = Sides::new(flags, true, 3.0)?;
    let rounds = flags.rounds(1);
    let mut seen = OnCard { cases: vec![Default::default(); ON_CARD.len()], ..OnCard::default() };
    let cuda = ["--device", "cuda"];
    for round in 0..rounds {
        for ((individuals, accounts, _), (ours, peers)) in ON_CARD.into_iter().zip(&mut seen.cases) {
            println!("{individuals} × {accounts}");
            let [individuals, accounts] = [individuals, accounts].map(|n| n.to_string());
            let shape = ["--population", &individuals, "--envs", &accounts, "--steps", STEPS, "--device", "cuda"];
            ours.push(sides.ours(2 * round, &shape)?);
            for (precision, peer) in PEER_PRECISIONS.iter().zip(peers) {
                peer.push(sides.peer(round, &[&shape[..], &["--precision", precision]].concat())?);
                println!("  JAX, {precision}: {} steps/s", peer[round]["steps_per_s"]);
            }
            ours.push(sides.ours(2 * round + 1, &shape)?);
            println!("  ours: {} steps/s", ours[2 * round]["steps_per_s"]);
        }
        let (individuals, accounts, _) = ON_CARD[0];
        let [individuals, accounts] = [individuals, accounts].map(|n| n.to_string());
        let shape = ["--population", &individuals, "--envs", &accounts, "--steps", STEPS, "--device", "cuda"];
        seen.separable.push(sides.ours(round, &[&shape[..], &["--algorithm", "sep-cma"]].concat())?);
        seen.low_rank.push(sides.ours(round, &[&LOW_RANK[..], &cuda].concat())?);
        let mut plain = command(&sides.python);
        plain.arg(root().join("bench/peers/torch_mlp.py")).args(PLAIN).args(cuda);
        plain.args(["--precision", "bf16", "--mode", "infer", "--variants", if flags.quick { "quick" } else { "all" }]);
        seen.plain.push(sides.runs.once(round, plain.env("PYTHONDONTWRITEBYTECODE", "1"))?);
    }
    let mut products = command(&sides.python);
    products.arg(root().join("bench/peers/matmul_torch.py")).args(cuda).arg(PRODUCTS);
    let products = sides.runs.once(0, products.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    seen.products = products["cases"][0]["tflops_forward"].as_f64().unwrap_or(f64::NAN);
    Ok(card_section(&seen, rounds, &format!("{device}. {}", machine(&sides.python))))
}

fn verdict(found: f64, target: f64) -> String {
    format!("{target}: {}", if found >= target { "met" } else { "**missed**" })
}

fn percent(share: f64) -> String {
    if share.is_nan() { String::new() } else { format!("{:.0} %", 100.0 * share) }
}

/// How busy threads were: the least and the most of them in the middle run.
fn busy(runs: &[Value]) -> String {
    let shares = |run: &Value| -> Vec<f64> {
        run["busy_share_of_each_thread"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let mut all: Vec<Vec<f64>> = runs.iter().map(shares).filter(|shares| !shares.is_empty()).collect();
    let least = |shares: &Vec<f64>| shares.iter().copied().fold(f64::INFINITY, f64::min);
    all.sort_by(|a, b| least(a).total_cmp(&least(b)));
    let Some(middle) = all.get(all.len() / 2) else { return String::new() };
    let (least, most) = (percent(least(middle)), percent(middle.iter().copied().fold(0.0, f64::max)));
    if least == most { least } else { format!("{} to {most}", least.trim_end_matches(" %")) }
}

fn card_section(seen: &OnCard, rounds: usize, machine: &str) -> String {
    let rate = |runs: &[Value]| median(runs, "steps_per_s");
    let mut rows = String::new();
    let mut row = |name: String, ours: &[Value], peers: Option<(&[Vec<Value>; 2], f64)>| {
        let (ms, share) = (median(ours, "seconds_per_generation") * 1e3, median(ours, "account_share"));
        let busy_card = percent(median(ours, "card_busy_share"));
        let beside = peers.map_or("| | | ".to_string(), |(peers, target)| {
            let [half, full] = peers.each_ref().map(|runs| rate(runs));
            let times = rate(ours) / half.max(full);
            format!("{:.1} | {:.1} | {times:.2} | {}", half / 1e6, full / 1e6, verdict(times, target))
        });
        let _ = writeln!(
            rows,
            "| {name} | {:.1} | {ms:.3} | {beside} | {busy_card} | {} |",
            rate(ours) / 1e6,
            percent(share)
        );
    };
    for ((individuals, accounts, target), (ours, peers)) in ON_CARD.into_iter().zip(&seen.cases) {
        row(format!("{individuals} × {accounts}"), ours, Some((peers, target)));
    }
    row(format!("{} × {}, sep-CMA-ES", ON_CARD[0].0, ON_CARD[0].1), &seen.separable, None);

    let flop = median(&seen.low_rank, "flop_per_step");
    let evolved = rate(&seen.low_rank);
    let own = median(&seen.low_rank, "inference_rows_per_s");
    let torch = median(&seen.plain, "samples_per_s");
    let mut low_rank = String::new();
    let mut row = |name: &str, rows: f64, is_pass: bool, target: &str| {
        let (tera, has) = (rows * flop / 1e12, if is_pass { percent(evolved / rows) } else { String::new() });
        let of_products = percent(tera / seen.products);
        let _ = writeln!(low_rank, "| {name} | {:.0} | {tera:.1} | {of_products} | {has} | {target} |", rows / 1e6);
    };
    let target = |rows: f64| {
        let fastest = rows >= own.max(torch);
        if fastest {
            format!("60 %: {}", if evolved / rows >= SHARE { "met" } else { "**missed**" })
        } else {
            String::new()
        }
    };
    row("**fullbore**, generations with accounts", evolved, false, "");
    row("fullbore, net alone, bf16", own, true, &target(own));
    let variant = seen.plain.first().map_or("?", |run| run["variant"].as_str().unwrap_or("?"));
    row(&format!("PyTorch, net alone, bf16, {variant}"), torch, true, &target(torch));
    row("products alone, bf16", seen.products * 1e12 / flop, true, "");

    let jax = seen.cases.first().and_then(|(_, peers)| peers[0].first());
    let jax = jax.map_or("?", |run| run["versions"]["jax"].as_str().unwrap_or("?"));
    let pytorch = seen.plain.first().map_or("?", |run| run["version"].as_str().unwrap_or("?"));
    format!(
        "## Evolution on the GPU\n\n\
         OpenAI-ES, 256 steps of each account, net 18-64-64-3; ours in bf16 with the full account, JAX a program of the \
         same shapes in one compiled function, with an environment of position and cost alone. The ratio is to the \
         faster of its precisions.\n\n\
         | individuals × accounts | ours, M steps/s | ms a generation | JAX, bf16, M steps/s | JAX, tf32, M steps/s | \
         ours is faster by | target | card busy | account alone |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         How busy the card is, its own library says, five times a second; the target is 95 %. The account alone is the \
         walk of its twin, beside a generation: it has bars of its own for each account and a digest of every step, so \
         the account's share is at most that, and above 100 % it says nothing.\n\n\
         Individuals of low rank (rank 1), net 64-256-256-3, 65,536 individuals × 4 accounts, whole generations beside the \
         plain pass of the same net over as many rows.\n\n\
         | program | M rows/s | TFLOP/s | share of products alone | evolution has of it | target |\n\
         | --- | --- | --- | --- | --- | --- |\n{low_rank}\n\
         Median of {rounds} {} of each in turn, ours before and behind JAX; jax {jax}, torch {pytorch}.\n\n{machine}\n",
        if rounds == 1 { "process" } else { "processes" },
    )
}

fn table(
    kinds: &[Run],
    seen: &[Vec<Value>],
    beside: &[Vec<Value>],
    rounds: usize,
    load: &str,
    machine: &str,
) -> String {
    let rate = |at: usize| median(&seen[at], "steps_per_s");
    let work = median(&seen[0], "flop_per_step");
    let best = best(kinds, seen);
    let is_peer = |at: &usize| matches!(kinds[at % kinds.len()], Run::Peer(_));
    let fastest = (0..seen.len()).filter(is_peer).map(rate).fold(0.0, f64::max);
    let mut rows = String::new();
    for at in 0..seen.len() {
        let first = at / kinds.len() * kinds.len();
        let (name, ratio, target) = match kinds[at % kinds.len()] {
            Run::Ours(count) => {
                let name = format!("**fullbore**, {count} thread{}", if count == 1 { "" } else { "s" });
                if at == first {
                    // The target is for the faster class of ours.
                    let times = rate(at) / fastest;
                    let target = if at == best { verdict(times, ON_PROCESSOR.2) } else { String::new() };
                    (name, times, target)
                } else {
                    let two = kinds.iter().position(|kind| *kind == Run::Ours(2)).filter(|_| count == 1);
                    let target = two.map(|two| verdict(rate(first + two) / rate(at), TWO_THREADS));
                    (name, rate(first) / rate(at), target.unwrap_or_default())
                }
            }
            Run::Peer(peer) => {
                let name = if peer == "evosax" { "evosax, one function" } else { "JAX, one function" };
                (name.to_string(), rate(first) / rate(at), String::new())
            }
        };
        let (precision, r) = (PRECISIONS[at / kinds.len()], rate(at));
        let (busy, account) = (busy(&seen[at]), percent(median(&seen[at], "account_share")));
        let _ = writeln!(
            rows,
            "| {name} | {precision} | {:.2} | {:.1} | {ratio:.2} | {target} | {busy} | {account} |",
            r / 1e6,
            r * work / 1e9
        );
    }
    let mut others = String::new();
    for ((_, work), runs) in BESIDE.iter().zip(beside) {
        let [middle, late] =
            ["seconds_per_generation", "seconds_per_generation_p99"].map(|key| median(runs, key) * 1e3);
        let done = |i: usize| runs.first().and_then(|run| run["checkpoints_and_reads"][i].as_u64()).unwrap_or(0);
        let _ = writeln!(
            others,
            "| {work} | {middle:.1} | {late:.1} | {:.2} | {} | {} | {} |",
            late / middle,
            busy(runs),
            done(0),
            done(1)
        );
    }
    let precision = PRECISIONS[best / kinds.len()];
    let (individuals, accounts, _) = ON_PROCESSOR;
    format!(
        "## Evolution on the CPU\n\n\
         OpenAI-ES, {individuals} individuals × {accounts} accounts × {STEPS} steps, net 18-64-64-3 with tanh.\n\n\
         | program | nets | M steps/s | GFLOP/s | ours on all threads is faster by | target | threads busy | account alone |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         Whole generations after a warm-up, median of {rounds} processes in turn. Ours on all threads is held against the \
         fastest peer in any precision; other rows are beside ours on all threads in their own, and the target of one \
         thread is about two. The account alone is the steps of a generation's accounts without nets. The load of the \
         machine before was {load}.\n\n\
         ### Generations beside other work\n\n\
         In {precision}, on all threads.\n\n\
         | beside generations | median, ms | 99th percentile, ms | of the median | threads busy | checkpoints | reads of 8 MiB |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n{others}\n{machine}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::check_columns;
    use super::*;
    use serde_json::json;

    const KINDS: [Run; 4] = [Run::Ours(2), Run::Ours(1), PEERS[0], PEERS[1]];

    fn run(rate: f64) -> Vec<Value> {
        vec![json!({"steps_per_s": rate, "flop_per_step": 1e4, "seconds_per_generation": 0.01,
            "seconds_per_generation_p99": 0.0125, "busy_share_of_each_thread": [0.99, 0.97], "account_share": 0.08,
            "checkpoints_and_reads": [5, 7], "card_busy_share": 0.97, "inference_rows_per_s": 4e8,
            "versions": {"jax": "0.1"}})]
    }

    fn beside() -> Vec<Vec<Value>> {
        vec![run(1e6); BESIDE.len()]
    }

    fn lines(made: &str) -> Vec<&str> {
        made.lines().filter(|line| line.starts_with("| ")).collect()
    }

    /// On processors whose products in bf16 are slow, ours in f32 is the faster class.
    #[test]
    fn the_target_is_for_the_faster_class_of_ours() {
        let bf16 = [run(10e6), run(5e6), run(0.5e6), run(1e6)];
        let f32 = [run(15e6), run(7e6), run(1e6), run(2.5e6)];
        let made = table(&KINDS, &[bf16, f32].concat(), &beside(), 1, "0.25", "A machine.");
        let lines = lines(&made);
        assert!(lines[2].ends_with("| bf16 | 10.00 | 100.0 | 4.00 |  | 97 to 99 % | 8 % |"), "{}", lines[2]);
        assert!(lines[6].ends_with("| f32 | 15.00 | 150.0 | 6.00 | 6: met | 97 to 99 % | 8 % |"), "{}", lines[6]);
        assert!(made.contains("\n\nIn f32, on all threads.") && made.contains("before was 0.25."), "{made}");
    }

    #[test]
    fn the_target_is_against_the_faster_peer() {
        let bf16 = [run(18e6), run(9e6), run(0.5e6), run(1e6)];
        let f32 = [run(12e6), run(8e6), run(1e6), run(2.5e6)];
        let made = table(&KINDS, &[bf16, f32].concat(), &beside(), 1, "0.25", "A machine.");
        check_columns(&made);
        let lines = lines(&made);
        assert!(lines[2].contains("| bf16 | 18.00 | 180.0 | 7.20 | 6: met |"), "{}", lines[2]);
        assert!(lines[3].contains("| bf16 | 9.00 | 90.0 | 2.00 | 1.9: met |"), "{}", lines[3]);
        assert!(lines[4].starts_with("| evosax, one function | bf16 | 0.50 | 5.0 | 36.00 |"), "{}", lines[4]);
        assert!(lines[6].contains("| f32 | 12.00 | 120.0 | 4.80 |  |"), "{}", lines[6]);
        assert!(lines[7].contains("| f32 | 8.00 | 80.0 | 1.50 | 1.9: **missed** |"), "{}", lines[7]);
        assert!(lines[9].starts_with("| JAX, one function | f32 | 2.50 | 25.0 | 4.80 |"), "{}", lines[9]);
        assert_eq!(lines[13], "| checkpoints | 10.0 | 12.5 | 1.25 | 97 to 99 % | 5 | 7 |");
    }

    #[test]
    fn one_thread_is_held_against_two_on_any_machine() {
        let kinds = [Run::Ours(16), Run::Ours(2), Run::Ours(1), PEERS[0], PEERS[1]];
        let class = [run(80e6), run(19e6), run(10e6), run(1e6), run(2e6)];
        let made = table(&kinds, &[class.clone(), class].concat(), &beside(), 1, "0", "A machine.");
        check_columns(&made);
        let lines = lines(&made);
        assert!(lines[3].starts_with("| **fullbore**, 2 threads | bf16 | 19.00 | 190.0 | 4.21 |  |"), "{}", lines[3]);
        assert!(lines[4].contains("| 10.00 | 100.0 | 8.00 | 1.9: met |"), "{}", lines[4]);
    }

    #[test]
    fn rows_of_a_card_have_their_targets() {
        let plain = vec![json!({"samples_per_s": 1e9, "variant": "graph ready", "version": "2.0"})];
        let case = |ours: f64, half: f64, full: f64| (run(ours), [run(half), run(full)]);
        let cases = vec![case(300e6, 40e6, 50e6), case(3e9, 2e9, 1e9), case(6e9, 2e9, 1e9)];
        let seen = OnCard { cases, separable: run(310e6), low_rank: run(9e8), plain, products: 20.0 };
        let made = card_section(&seen, 1, "A card.");
        check_columns(&made);
        let lines = lines(&made);
        assert_eq!(lines[2], "| 256 × 4 | 300.0 | 10.000 | 40.0 | 50.0 | 6.00 | 5: met | 97 % | 8 % |");
        assert!(lines[3].contains("| 2000.0 | 1000.0 | 1.50 | 3: **missed** |"), "{}", lines[3]);
        assert!(lines[5].starts_with("| 256 × 4, sep-CMA-ES | 310.0 | 10.000 | "), "{}", lines[5]);
        assert_eq!(lines[8], "| **fullbore**, generations with accounts | 900 | 9.0 | 45 % |  |  |");
        assert_eq!(lines[9], "| fullbore, net alone, bf16 | 400 | 4.0 | 20 % | 225 % |  |");
        assert_eq!(lines[10], "| PyTorch, net alone, bf16, graph ready | 1000 | 10.0 | 50 % | 90 % | 60 %: met |");
        assert!(made.contains("jax 0.1, torch 2.0."), "{made}");
    }
}
