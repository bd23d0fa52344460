//! Nets: ours and PyTorch in turn, and the table of what came out. `gpu` and `cpu_net` say which nets and where.
//!
//! Every run is a fresh process that prints one JSON object; a case is ours, the peer, the peer, ours. Each run is a
//! median of its own, and the mean of a side's two counts. The peer's first run tries all its variants, its second
//! repeats the best one. Work is counted here, the same for both sides: the products that are needed, two operations
//! for a multiply and add.

use crate::process::{build, command, last_json, measure};
use crate::{ROOT, Result, cache, root, today};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What was said on the command line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct BenchFlags {
    pub(super) ours: Option<PathBuf>,
    pub(super) python: Option<PathBuf>,
    pub(super) only: Option<String>,
    /// Numbers of cases, from 1.
    pub(super) cases: Option<Vec<usize>>,
    pub(super) quick: bool,
    pub(super) rounds: Option<usize>,
    /// How long each process times what it does.
    pub(super) seconds: Option<f64>,
    /// Threads of ours on a processor, each with rows of its own.
    pub(super) threads: Option<Vec<usize>>,
    /// Where what was measured is kept, and not measured again.
    pub(super) keep: Option<PathBuf>,
}

impl BenchFlags {
    pub(super) fn read(mut typed: &[&str]) -> Result<BenchFlags> {
        let mut flags = BenchFlags::default();
        // Both programs are started from the root of the working tree, so a path relative to here would be lost.
        let path = |p: &str| std::path::absolute(p).map_err(|e| format!("{p}: {e}."));
        let whole = |text: &str| match text.trim().parse::<usize>() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(format!("`{text}` is not a whole number from 1.")),
        };
        let list = |text: &str| text.split(',').map(whole).collect::<Result<Vec<usize>>>();
        loop {
            typed = match typed {
                [] => return Ok(flags),
                ["--quick", rest @ ..] => {
                    flags.quick = true;
                    rest
                }
                [name, value, rest @ ..] => {
                    match *name {
                        "--ours" => flags.ours = Some(path(value)?),
                        // A bare name is looked up on the PATH.
                        "--python" if !value.contains('/') => flags.python = Some(PathBuf::from(value)),
                        "--python" => flags.python = Some(path(value)?),
                        "--only" => flags.only = Some(value.to_string()),
                        "--case" => flags.cases = Some(list(value)?),
                        "--rounds" => flags.rounds = Some(whole(value)?),
                        "--threads" => flags.threads = Some(list(value)?),
                        "--keep" => flags.keep = Some(path(value)?),
                        "--seconds" => match value.parse::<f64>() {
                            Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => flags.seconds = Some(seconds),
                            _ => return Err(format!("`{value}` is not a number of seconds.")),
                        },
                        "--root" => drop(ROOT.set(path(value)?)),
                        other => return Err(unknown(other)),
                    }
                    rest
                }
                [other] => return Err(unknown(other)),
            }
        }
    }
}

fn unknown(word: &str) -> String {
    format!(
        "`{word}` is not understood here, or wants a value; there are --ours PATH, --python PATH, --root PATH, --only TEXT, \
         --case N,N, --rounds N, --seconds S, --threads N,N, --keep FILE and --quick."
    )
}

impl BenchFlags {
    /// Whether a case of that name is to be run.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Whether case `i`, from 0, of that name is to be run.
    pub(super) fn wants_case(&self, i: usize, name: &str) -> bool {
        self.wants(name) && self.cases.as_ref().is_none_or(|cases| cases.contains(&(i + 1)))
    }

    /// Whether only some cases are run: what comes out is no whole section.
    pub(super) fn is_part(&self) -> bool {
        self.only.is_some() || self.cases.is_some()
    }

    /// That no case is as these flags want it.
    pub(super) fn no_case(&self) -> String {
        match &self.only {
            Some(only) => format!("no case has `{only}` in its name."),
            None => "there is no case of that number.".into(),
        }
    }

    /// Rounds: those that were asked for, one where it has to be quick, else the usual number.
    pub(super) fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { usual })
    }

    /// Ours, built where no program is named.
    pub(super) fn ours(&self) -> Result<PathBuf> {
        match &self.ours {
            Some(path) => Ok(path.clone()),
            None => build("fullbore-bench", "fullbore-bench", true),
        }
    }

    /// The peers' Python: what was named, what a machine with a card has, else an environment of the peers' own.
    pub(super) fn python(&self, peers: &str, cuda: bool) -> Result<PathBuf> {
        match &self.python {
            Some(path) => Ok(path.clone()),
            None if cuda => Ok("python3".into()),
            None => cache::python_of(peers, &root().join(format!("bench/peers/{peers}.lock"))),
        }
    }

    /// What the section says of PyTorch's variants.
    pub(super) fn without_compile(&self) -> &'static str {
        if self.quick { ", without torch.compile (`--quick`)" } else { "" }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) net: &'static str,
    /// Rows of each member.
    pub(super) batch: usize,
    /// Nets that train side by side.
    pub(super) members: usize,
    pub(super) precision: &'static str,
    pub(super) mode: &'static str,
    /// How many times as fast as the peer it should be.
    pub(super) floor: Option<f64>,
}

impl Case {
    fn name(&self) -> String {
        let members = if self.members > 1 { format!("{} members, ", self.members) } else { String::new() };
        format!("{}, {members}batch {}, {}, {}", self.net, self.batch, self.precision, self.mode)
    }

    fn recurrent(&self) -> bool {
        self.net.contains("lstm")
    }

    /// Operations of the products that are needed: the first layer passes no gradient on. Those of a recurrent layer at
    /// every step.
    pub(super) fn flops(&self) -> f64 {
        let number = |word: &str| word.trim_end_matches('t').parse().unwrap_or(f64::NAN);
        let mut words = self.net.split('-');
        let first = words.next().unwrap_or_default();
        let (features, window) = first.split_once('x').unwrap_or((first, "1"));
        let (mut inputs, window) = (number(features), number(window));
        if !self.recurrent() {
            inputs *= window;
        }
        // A product is done forward and for its weights, and for its inputs where something is before them.
        let train = self.mode == "train";
        let times = |passes_back: bool| [1.0, if passes_back { 3.0 } else { 2.0 }][usize::from(train)];
        let (mut per_row, mut passes_back) = (0.0, false);
        for word in words {
            let outputs = match word.strip_prefix("lstm") {
                Some(units) => {
                    let units = number(units);
                    per_row += window * 4.0 * units * (times(passes_back) * inputs + times(true) * units);
                    units
                }
                None => {
                    per_row += times(passes_back) * inputs * number(word);
                    number(word)
                }
            };
            (inputs, passes_back) = (outputs, true);
        }
        2.0 * (self.members * self.batch) as f64 * per_row
    }
}

/// Both sides and where they run.
pub(super) struct Sides<'a> {
    pub(super) ours: &'a Path,
    pub(super) python: &'a Path,
    /// `cuda` or `cpu`.
    pub(super) device: &'static str,
    /// On a CPU.
    pub(super) threads: Option<usize>,
}

/// Runs the cases and gives the table. A case that fails ends it: half a table would be read as a whole one.
pub(super) fn table(flags: &BenchFlags, sides: &Sides<'_>, cases: &[Case]) -> Result<String> {
    let wanted = |(i, case): &(usize, &Case)| flags.wants_case(*i, &case.name());
    let cases: Vec<&Case> = cases.iter().enumerate().filter(wanted).map(|(_, case)| case).collect();
    if cases.is_empty() {
        return Err(flags.no_case());
    }
    println!("matrix products alone");
    let limits = limits(sides, &cases)?;
    let (unit, per_ms) = if sides.device == "cuda" { ("TFLOP/s", 1e9) } else { ("GFLOP/s", 1e6) };
    let mut out = format!(
        "| net | batch | precision | what | ours, ms | PyTorch, ms | times PyTorch | target | ours, {unit} | products alone, {unit} | share of the \
         limit | samples/s | memory, MiB: ours, PyTorch | first use, s: ours, PyTorch | PyTorch's best | date |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    let mut failed = Vec::new();
    for (case, limit) in cases.iter().zip(limits) {
        println!("{}", case.name());
        let (ours, theirs) = run_both(flags, sides, case)?;
        let (us, them) = (mean(&ours, "ms_per_step"), mean(&theirs, "ms_per_step"));
        let rate = case.flops() / us / per_ms;
        let limit = limit * 1e9 / per_ms;
        let target = case.floor.map_or(String::new(), |floor| {
            format!("{floor}: {}", if them / us >= floor { "met" } else { "**missed**" })
        });
        let two = |key: &str, unit: f64, digits: usize| {
            let show = |v: f64| if v.is_nan() { "–".to_string() } else { format!("{:.digits$}", v / unit) };
            format!("{}, {}", show(mean(&ours, key)), show(mean(&theirs, key)))
        };
        let row = format!(
            "| {} | {} | {} | {} | **{us:.4}** | {them:.4} | **{:.2}** | {target} | {rate:.1} | {limit:.1} | {:.0} % | {:.4e} | {} | {} | {} | {} |",
            case.net,
            if case.members > 1 { format!("{} × {}", case.members, case.batch) } else { case.batch.to_string() },
            case.precision,
            case.mode,
            them / us,
            rate / limit * 100.0,
            (case.members * case.batch) as f64 / us * 1e3,
            two("peak_bytes", 1_048_576.0, 0),
            two("first_use_s", 1.0, 1),
            theirs[0]["variant"].as_str().unwrap_or("?"),
            today::date(),
        );
        // Seen even where the time ends before the table does.
        println!("{row}");
        let _ = writeln!(out, "{row}");
        let variants = theirs[0]["variants"].as_array().into_iter().flatten();
        failed.extend(variants.filter_map(|v| {
            let why = v["failed"].as_str()?.lines().next()?;
            Some(format!("{}, {}: {}", case.name(), v["variant"].as_str()?, why.replace('|', "/")))
        }));
    }
    if !failed.is_empty() {
        let _ = writeln!(out, "\nVariants of PyTorch that did not run here:\n- {}", failed.join("\n- "));
    }
    Ok(out)
}

/// Ours, the peer, the peer, ours.
fn run_both(flags: &BenchFlags, sides: &Sides<'_>, case: &Case) -> Result<(Vec<Value>, Vec<Value>)> {
    let ours = || {
        let mut run = command(sides.ours);
        run.arg("net");
        run_case(case, add_flags(run, sides, case).arg("--json"))
    };
    let peer = |variants: &str| {
        let mut run = command(sides.python);
        let script = match (case.recurrent(), case.members) {
            (true, _) => "torch_lstm.py",
            (false, 1) => "torch_mlp.py",
            (false, _) => "torch_members.py",
        };
        run.arg(root().join("bench/peers").join(script)).args(["--variants", variants]);
        // Small steps want many replays, large ones on a CPU few.
        let replays = match (sides.device, case.recurrent()) {
            ("cuda", _) => "50",
            (_, false) => "20",
            (_, true) => "5",
        };
        run_case(case, add_flags(run, sides, case).args(["--replays", replays]))
    };
    let first = ours()?;
    let theirs = peer(if flags.quick { "quick" } else { "all" })?;
    let best = theirs["variant"].as_str().ok_or("the peer names no `variant`.")?.to_string();
    let again = peer(&best)?;
    Ok((vec![first, ours()?], vec![theirs, again]))
}

fn add_flags(mut run: std::process::Command, sides: &Sides<'_>, case: &Case) -> std::process::Command {
    run.args(["--net", case.net, "--batch", &case.batch.to_string()]);
    run.args(["--precision", case.precision, "--mode", case.mode, "--device", sides.device]);
    if case.members > 1 {
        run.args(["--members", &case.members.to_string()]);
    }
    if let Some(threads) = sides.threads {
        run.args(["--threads", &threads.to_string()]);
    }
    run.env("PYTHONDONTWRITEBYTECODE", "1");
    run
}

/// Its JSON object, which must be the answer to this case.
fn run_case(case: &Case, run: &mut std::process::Command) -> Result<Value> {
    let run = measure(run)?;
    let mut said = last_json(&run.out)?;
    // On a CPU a side need not know its peak: the system does.
    if let (true, Some(mib)) = (said.is_object() && said["peak_bytes"].is_null(), run.peak_mib) {
        said["peak_bytes"] = Value::from(mib * 1_048_576.0);
    }
    let same = said["net"] == case.net
        && said["batch"] == case.batch
        && (case.members == 1 || said["members"] == case.members)
        && said["precision"] == case.precision
        && said["mode"] == case.mode;
    let timed = said["ms_per_step"].as_f64().is_some_and(|ms| ms > 0.0);
    if same && timed { Ok(said) } else { Err(format!("asked for {}, and the answer is {said}.", case.name())) }
}

/// `[cases]` TFLOP/s of the matrix products alone, with the work weighed by its time.
fn limits(sides: &Sides<'_>, cases: &[&Case]) -> Result<Vec<f64>> {
    let mut run = command(sides.python);
    run.arg(root().join("bench/peers/matmul_torch.py")).args(["--device", sides.device]);
    if let Some(threads) = sides.threads {
        run.args(["--threads", &threads.to_string()]);
    }
    // A small net's own products are far below what the machine can do, and members and windows are what lifts it: its
    // limit is a large product's.
    let large = if sides.device == "cuda" { "4096-4096-4096@8192" } else { "1024-1024-1024@1024" };
    run.args(cases.iter().map(|c| match c.recurrent() || c.members > 1 {
        true => format!("{large}@{}", c.precision),
        false => format!("{}@{}@{}", c.net, c.batch, c.precision),
    }));
    let said = last_json(&measure(&mut run)?.out)?;
    let each = cases.iter().enumerate().map(|(i, case)| {
        let key = if case.mode == "train" { "tflops" } else { "tflops_forward" };
        said["cases"][i][key].as_f64().ok_or_else(|| format!("matmul_torch.py says no `{key}` for {}.", case.name()))
    });
    each.collect()
}

fn mean(runs: &[Value], key: &str) -> f64 {
    runs.iter().map(|r| r[key].as_f64().unwrap_or(f64::NAN)).sum::<f64>() / runs.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case(mode: &'static str) -> Case {
        Case { net: "256-2048t-1024-512-3", batch: 65536, members: 1, precision: "bf16", mode, floor: None }
    }

    #[test]
    fn work_is_the_products_that_are_needed() {
        let products = (256 * 2048 + 2048 * 1024 + 1024 * 512 + 512 * 3) as f64;
        assert_eq!(case("infer").flops(), 2.0 * 65536.0 * products);
        assert_eq!(case("train").flops(), 2.0 * 65536.0 * (3.0 * products - 256.0 * 2048.0));
        let lstm = |mode| Case { net: "16x50-lstm64-lstm32-3", batch: 10, members: 2, ..case(mode) };
        let (first, second, head) = (256.0 * 16.0, 128.0 * 64.0, 32.0 * 3.0);
        let (own, own_second) = (256.0 * 64.0, 128.0 * 32.0);
        assert_eq!(lstm("infer").flops(), 40.0 * (50.0 * (first + own + second + own_second) + head));
        let train = 50.0 * (2.0 * first + 3.0 * (own + second + own_second)) + 3.0 * head;
        assert_eq!(lstm("train").flops(), 40.0 * train);
        assert_eq!(Case { net: "16x5-8-3", batch: 1, ..case("infer") }.flops(), 2.0 * (16.0 * 5.0 * 8.0 + 24.0));
    }

    #[test]
    fn flags_are_understood_or_named() {
        let flags = BenchFlags::read(&["--quick", "--python", "python3", "--only", "bf16"]).unwrap();
        assert!(flags.quick && flags.python == Some("python3".into()) && flags.only == Some("bf16".into()));
        assert!(BenchFlags::read(&["--ours", "bench"]).unwrap().ours.unwrap().is_absolute());
        assert!(BenchFlags::read(&["--our"]).unwrap_err().starts_with("`--our` is not understood"));
        assert!(BenchFlags::read(&["--only"]).is_err());
        let flags =
            BenchFlags::read(&["--case", "1,3", "--rounds", "2", "--seconds", "0.5", "--threads", "8"]).unwrap();
        assert!(flags.wants_case(2, "a") && !flags.wants_case(1, "a") && flags.is_part());
        assert_eq!((flags.rounds(5), flags.seconds, flags.threads), (2, Some(0.5), Some(vec![8])));
        assert!(BenchFlags::read(&["--case", "0"]).is_err() && BenchFlags::read(&["--seconds", "x"]).is_err());
    }

    #[test]
    fn mismatched_answer_is_refused() {
        let check = |said: Value| run_case(&case("train"), command("echo").arg(said.to_string())).is_ok();
        let right = json!({ "net": "256-2048t-1024-512-3", "batch": 65536, "precision": "bf16", "mode": "train", "ms_per_step": 2.0 });
        assert!(check(right.clone()));
        for (key, other) in [("batch", json!(1)), ("mode", json!("infer")), ("ms_per_step", json!(null))] {
            let mut wrong = right.clone();
            wrong[key] = other;
            assert!(!check(wrong), "{key}");
        }
        assert_eq!(mean(&[json!({ "a": 1 }), json!({ "a": 2.0 })], "a"), 1.5);
        assert!(mean(&[json!({ "a": null })], "a").is_nan());
    }
}
