//! Figures: ours and the peers in one run, into `bench/RESULTS.md`.
//!
//! Each side runs in fresh processes, in turn, [`ROUNDS`] times; medians count. Inputs are made once in the cache
//! folder by `fullbore-bench make-csv` and are read once before the first round, so that both sides find them in the
//! page cache. Every section is tables with the machine they were measured on, and is replaced alone. What explains
//! them is written by hand in `bench/NOTES.md`.

mod backtest;
mod classify;
mod cpu_net;
mod evolve;
mod features;
mod gpu;
mod nets;
mod ppo;
mod runs;
mod search;

use crate::process::{Measured, build, command, last_json, measure, output};
use crate::{Result, cache, root, today};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const ROUNDS: usize = 5;
const GIGABYTE: u64 = 1_000_000_000;

/// All benchmarks, or the one that is named.
pub fn run(only: Option<&str>) -> Result<()> {
    let all = ["csv", "convert", "synth", "features"];
    if let Some(name) = only.filter(|name| !all.contains(name)) {
        return Err(format!("there is no benchmark `{name}`; there are {}.", all.join(", ")));
    }
    for name in all.into_iter().filter(|n| only.is_none_or(|o| o == *n)) {
        println!("\n=== bench {name}");
        let section = match name {
            "csv" => csv()?,
            "convert" => convert()?,
            "synth" => synth()?,
            _ => features::run()?,
        };
        println!("\n{section}");
        replace(name, &section)?;
    }
    println!("bench/RESULTS.md is written");
    Ok(())
}

/// Nets on the GPU; apart from [`run`], because most machines have none.
pub fn gpu(flags: &[&str]) -> Result<()> {
    write("gpu", flags, gpu::run)
}

/// Nets on the CPU; apart from [`run`], because PyTorch is large.
pub fn cpu_net(flags: &[&str]) -> Result<()> {
    write("cpu-net", flags, cpu_net::run)
}

/// Accounts through bars; apart from [`run`], because vectorbt brings much along.
pub fn backtest() -> Result<()> {
    write("backtest", &[], |_| backtest::run())
}

/// Whole epochs of the two-timeframe classifier; apart from [`run`], because PyTorch is large.
pub fn classify(flags: &[&str]) -> Result<()> {
    write("classify", flags, |flags| classify::run(flags, true))
}

/// The same on the CPU.
pub fn cpu_classify(flags: &[&str]) -> Result<()> {
    write("cpu-classify", flags, |flags| classify::run(flags, false))
}

/// Whole updates of policies on the GPU; apart from [`run`], because the peers are large.
pub fn ppo(flags: &[&str]) -> Result<()> {
    write("ppo", flags, |flags| ppo::run(flags, true))
}

/// The same on the CPU.
pub fn cpu_ppo(flags: &[&str]) -> Result<()> {
    write("cpu-ppo", flags, |flags| ppo::run(flags, false))
}

/// Searches on the CPU; apart from [`run`], because JAX is large.
pub fn cpu_search(flags: &[&str]) -> Result<()> {
    write("cpu-search", flags, |flags| search::run(flags, false))
}

/// The same on the GPU.
pub fn search(flags: &[&str]) -> Result<()> {
    write("search", flags, |flags| search::run(flags, true))
}

/// Whole generations of evolved policies on the GPU, beside JAX.
pub fn evolve(flags: &[&str]) -> Result<()> {
    write("evolve", flags, evolve::run_on_card)
}

/// The same on the CPU, beside evosax too.
pub fn cpu_evolve(flags: &[&str]) -> Result<()> {
    write("cpu-evolve", flags, evolve::run)
}

/// Measures, shows the section and, where it is whole, writes it.
fn write(name: &str, flags: &[&str], measured: impl Fn(&nets::BenchFlags) -> Result<String>) -> Result<()> {
    let flags = nets::BenchFlags::read(flags)?;
    let section = measured(&flags)?;
    println!("\n{section}");
    if flags.is_part() {
        println!("bench/RESULTS.md is as it was: these are some of the cases");
        return Ok(());
    }
    replace(name, &section)?;
    println!("bench/RESULTS.md is written");
    Ok(())
}

/// Reading a 1 GB CSV of bars, validation included, beside Polars.
fn csv() -> Result<String> {
    let bench = build("fullbore-bench", "fullbore-bench", true)?;
    let python = cache::python()?;
    let file = input(&bench, GIGABYTE)?;
    let peer = root().join("bench/peers/csv_polars.py");
    let n = threads().to_string();
    let variants: Vec<String> = serde_json::from_str(output(command(&python).arg(&peer).arg("--list"))?.trim())
        .map_err(|e| format!("csv_polars.py --list: {e}."))?;

    fs::read(&file).map_err(|e| format!("{}: {e}.", file.display()))?;
    let mut ours = Vec::new();
    let mut theirs: Vec<Vec<Value>> = vec![Vec::new(); variants.len()];
    let mut limits = Vec::new();
    for round in 1..=ROUNDS {
        println!("round {round} of {ROUNDS}");
        let limit = measure(command(&bench).arg("limit").arg(&file).args(["--threads", &n]))?;
        limits.push(last_json(&limit.out)?);
        ours.push(last_json(&measure(command(&bench).arg("read-csv").arg(&file).args(["--threads", &n]))?.out)?);
        for (variant, runs) in variants.iter().zip(&mut theirs) {
            let mut polars = command(&python);
            polars.arg(&peer).arg(&file).arg(variant).env("POLARS_MAX_THREADS", &n);
            runs.push(last_json(&measure(&mut polars)?.out)?);
        }
    }
    agree(&ours[0], &theirs)?;

    let bytes = fs::metadata(&file).map_err(|e| e.to_string())?.len() as f64;
    let limit = median(&limits, "scan_s");
    let best = theirs.iter().map(|runs| median(runs, "seconds")).fold(f64::INFINITY, f64::min);
    let mut out = "## Reading a CSV of bars\n\n\
                   | reader | seconds | GB/s | times the best peer | share of the limit | peak memory, MiB |\n\
                   | --- | --- | --- | --- | --- | --- |\n"
        .to_string();
    let version = theirs[0][0]["version"].as_str().unwrap_or("?").to_string();
    let mut row = |name: &str, runs: &[Value], key: &str| {
        let s = median(runs, key);
        let (rate, peer, share, peak) = (bytes / s / 1e9, best / s, limit / s * 100.0, median(runs, "peak_rss_mib"));
        let _ = writeln!(out, "| {name} | {s:.3} | {rate:.2} | {peer:.2} | {share:.0} % | {peak:.0} |");
    };
    row("**fullbore**, `bars::read`", &ours, "seconds");
    for (variant, runs) in variants.iter().zip(&theirs) {
        row(&format!("polars {version}, {variant}"), runs, "seconds");
    }
    row("limit: read and count line ends", &limits, "scan_s");
    row("read alone", &limits, "read_s");
    let (size, bars) = (bytes / 1e9, &ours[0]["rows"]);
    let _ = writeln!(out, "\n{size:.2} GB, {bars} bars, {n} threads, median of {ROUNDS} runs in turn.");
    let _ = writeln!(out, "\n{}", machine(&python));
    Ok(out)
}

/// `data add` of a CSV that is larger than the memory limit.
fn convert() -> Result<String> {
    let bench = build("fullbore-bench", "fullbore-bench", true)?;
    let fullbore = build("fullbore", "fullbore", true)?;
    let file = input(&bench, GIGABYTE)?;
    let place = Place::new("convert")?;
    fs::read(&file).map_err(|e| format!("{}: {e}.", file.display()))?;
    let mut runs = Vec::new();
    for round in 1..=3 {
        println!("round {round} of 3");
        let mut add = place.fullbore(&fullbore);
        add.args(["data", "add"])
            .arg(&file)
            .args(["--name", "bars", "--replace", "--json", "--memory", "512MiB", "--out"])
            .arg(&place.0);
        runs.push(measure(&mut add)?);
    }
    let written = parquet_bytes(&place.0);
    let bytes = fs::metadata(&file).map_err(|e| e.to_string())?.len() as f64;
    let (s, peak) = (median_of(&runs, |r| r.seconds), median_of(&runs, |r| r.peak_mib.unwrap_or(f64::NAN)));
    let mut out = "## Converting a CSV that is larger than the memory limit\n\n\
                   | input | seconds | GB/s in | Parquet, MB | peak memory, MiB | under 1 GB |\n\
                   | --- | --- | --- | --- | --- | --- |\n"
        .to_string();
    let verdict = if peak * 1.048_576 < 1000.0 { "yes" } else { "**no**" };
    let _ = writeln!(
        out,
        "| {:.2} GB | {s:.2} | {:.2} | {:.0} | {peak:.0} | {verdict} |",
        bytes / 1e9,
        bytes / s / 1e9,
        written / 1e6
    );
    out.push_str("\n`fullbore data add` with `--memory 512MiB`, median of 3 runs.\n");
    let _ = writeln!(out, "\n{}", machine(Path::new("")));
    Ok(out)
}

/// The synthetic market.
fn synth() -> Result<String> {
    let fullbore = build("fullbore", "fullbore", true)?;
    let place = Place::new("synth")?;
    let mut out = "## Making the synthetic market\n\n\
                   | market | bars | seconds | of them making | of them writing | M bars/s made | peak memory, MiB |\n\
                   | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_string();
    let markets: [(&str, &[&str]); 2] = [
        ("655 shares × 1,250 daily bars", &["--count", "655", "--bars", "1250", "--timeframe", "1d"]),
        (
            "one coin × 6 years of 5-minute bars",
            &["--kind", "crypto", "--count", "1", "--years", "6", "--timeframe", "5m"],
        ),
    ];
    for (name, flags) in markets {
        let mut runs = Vec::new();
        for _ in 0..3 {
            let mut make = place.fullbore(&fullbore);
            make.args(["data", "synth", "--seed", "1", "--name", "market", "--replace", "--json"]).args(flags);
            runs.push(measure(make.arg("--out").arg(&place.0))?);
        }
        let said = runs.iter().map(|r| last_json(&r.out)).collect::<Result<Vec<Value>>>()?;
        let bars = said[0]["bars"].as_u64().ok_or("`data synth --json` has no `bars`.")?;
        let (s, peak) = (median_of(&runs, |r| r.seconds), median_of(&runs, |r| r.peak_mib.unwrap_or(f64::NAN)));
        let (make, write) = (median(&said, "make_seconds"), median(&said, "write_seconds"));
        let rate = bars as f64 / make / 1e6;
        let _ = writeln!(out, "| {name} | {bars} | {s:.3} | {make:.3} | {write:.3} | {rate:.1} | {peak:.0} |");
    }
    out.push_str("\n`fullbore data synth`, the whole command with its Parquet, median of 3 runs.\n");
    let _ = writeln!(out, "\n{}", machine(Path::new("")));
    Ok(out)
}

/// The CSV of that size, made once and kept.
fn input(bench: &Path, bytes: u64) -> Result<PathBuf> {
    let folder = cache::folder()?.join("inputs");
    cache::make(&folder)?;
    let file = folder.join(format!("bars-1m-v1-{bytes}.csv"));
    if !file.exists() {
        println!("making {}", file.display());
        let draft = folder.join(format!("draft-{}.csv", std::process::id()));
        output(command(bench).arg("make-csv").arg(&draft).args(["--bytes", &bytes.to_string()]))?;
        fs::rename(&draft, &file).map_err(|e| format!("{}: {e}.", draft.display()))?;
    }
    Ok(file)
}

/// Both sides must have read the same numbers, or the race means nothing.
fn agree(ours: &Value, theirs: &[Vec<Value>]) -> Result<()> {
    for run in theirs.iter().flatten() {
        let (a, b) = (ours["close_sum"].as_f64().unwrap_or(f64::NAN), run["close_sum"].as_f64().unwrap_or(f64::NAN));
        let close = (a - b).abs() <= 1e-9 * a.abs();
        if ours["rows"] != run["rows"] || !close {
            return Err(format!("the two sides read different bars: ours {ours}, the peer {run}."));
        }
    }
    Ok(())
}

/// A folder in the cache that goes away with it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Result<Place> {
        let folder = cache::folder()?.join(format!("bench-{name}-{}", std::process::id()));
        cache::make(&folder)?;
        Ok(Place(folder))
    }

    fn fullbore(&self, program: &Path) -> std::process::Command {
        let mut fullbore = command(program);
        fullbore.env("FULLBORE_HOME", self.0.join("home"));
        fullbore
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Size of the Parquet files in a folder.
fn parquet_bytes(folder: &Path) -> f64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.filter(|e| e.path().extension().is_some_and(|x| x == "parquet"));
    files.map(|e| e.metadata().map_or(0, |m| m.len()) as f64).sum()
}

/// Who ran it and when.
fn machine(python: &Path) -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|l| l.starts_with(name)).and_then(|l| l.split_once(':'));
        line.map_or("unknown".to_string(), |(_, v)| v.trim().to_string())
    };
    let cpu = field(&read("/proc/cpuinfo"), "model name");
    let kib: f64 = field(&read("/proc/meminfo"), "MemTotal").trim_end_matches("kB").trim().parse().unwrap_or(f64::NAN);
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_string();
    let version = |program: &Path| output(command(program).arg("--version")).unwrap_or_default().trim().to_string();
    let mut parts = vec![format!("{cpu}, {} cores, {:.0} GiB, Linux {kernel}", threads(), kib / 1024.0 / 1024.0)];
    parts.push(version(Path::new("rustc")));
    if !python.as_os_str().is_empty() {
        parts.push(version(python));
    }
    parts.retain(|part| !part.is_empty());
    format!("{}: {}.", today::date(), parts.join("; "))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

fn median(runs: &[Value], key: &str) -> f64 {
    middle(runs.iter().map(|r| r[key].as_f64().unwrap_or(f64::NAN)).collect())
}

fn median_of(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    middle(runs.iter().map(of).collect())
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

/// Puts a section between its marks.
fn replace(name: &str, section: &str) -> Result<()> {
    let file = root().join("bench/RESULTS.md");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}.", file.display()))?;
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let bad = || format!("bench/RESULTS.md has no `{open}` ... `{close}`.");
    let from = text.find(&open).ok_or_else(bad)? + open.len();
    let to = from + text[from..].find(&close).ok_or_else(bad)?;
    let new = format!("{}\n{}\n{}", &text[..from], wrapped(section.trim_end()), &text[to..]);
    fs::write(&file, new).map_err(|e| format!("{}: {e}.", file.display()))
}

/// Prose broken at 120 columns, as `xtask tidy` wants it; tables and headings stay as they are.
fn wrapped(text: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with(['|', '#']) || line.chars().count() <= 120 {
            out.push(line.to_string());
            continue;
        }
        let mut row = String::new();
        for word in line.split(' ') {
            if !row.is_empty() && row.chars().count() + 1 + word.chars().count() > 120 {
                out.push(std::mem::take(&mut row));
            }
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
        out.push(row);
    }
    out.join("\n")
}

/// Checks that every row of every table has as many cells as its heading.
#[cfg(test)]
fn check_columns(section: &str) {
    let mut heading = None;
    let mut tables = 0;
    for line in section.lines() {
        let cells = line.starts_with('|').then(|| line.matches('|').count());
        if heading.is_none() && cells.is_some() {
            tables += 1;
        }
        match (heading, cells) {
            (Some(columns), Some(cells)) => assert_eq!(columns, cells, "{line}\n{section}"),
            _ => heading = cells,
        }
    }
    assert!(tables > 0, "{section}");
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn prose_is_wrapped_and_tables_are_not() {
        let (table, prose) = (format!("| {} |", "x ".repeat(80)), "word ".repeat(40));
        let out = wrapped(&format!("{table}\n\n{}", prose.trim_end()));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!((lines[0], lines[1], lines.len()), (table.as_str(), "", 4));
        assert!(lines[2..].iter().all(|line| line.len() <= 120));
        assert_eq!(lines[2..].join(" "), prose.trim_end());
    }
}
