//! Everything a change must pass, in order: format, clippy, tidy, rooms, licences, kernels, tests, oracles.
//!
//! A failed step does not hide the ones after it. The last lines are the table of steps, the skips with their reasons,
//! and `N passed, M failed, K skipped`: N counts tests and oracle cases, M also counts steps that failed without a
//! count of their own.
//!
//! # How a test says that it was skipped
//!
//! A test that cannot run (no `../shared/data`, no GPU) says why and returns. It appends one line, in one write because
//! tests run side by side, to the file named by `FULLBORE_SKIP_LOG`, or, where that is not set, prints a line that
//! starts with `SKIP: `; both are found here. With CI=true every skip is a failure but for those that name hardware
//! which is missing (`no GPU`, and instructions of the processor). The helper to inline in a room's tests:
//!
//! ```ignore
//! /// Says why a test did not run; `cargo xtask test` counts it.
//! fn skip(why: &str) {
//!     use std::io::Write;
//!     let log = std::env::var_os("FULLBORE_SKIP_LOG");
//!     match log.and_then(|p| std::fs::OpenOptions::new().create(true).append(true).open(p).ok()) {
//!         Some(mut file) => file.write_all(format!("{why}\n").as_bytes()).expect("the skip log can be written"),
//!         None => println!("SKIP: {why}"),
//!     }
//! }
//! ```
//!
//! A test marked `#[ignore = "no GPU"]` counts as a skip with that reason.

use crate::process::{cargo, command, lines, output, programs, run};
use crate::{Result, browser, cache, kernels, licences, rooms, root, tidy};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a machine may lack, and the reasons that CI accepts: every other one can be mended.
const HARDWARE: [&str; 3] = ["no GPU", "no tile registers in this processor", "no products of bf16 in this processor"];

/// Rooms whose figures the Python oracles check.
const WITH_ORACLES: &[&str] = &["files", "bars", "features", "account", "judge", "jobs", "cli"];

#[derive(Default)]
struct Suite {
    steps: Vec<(&'static str, bool, Duration, String)>,
    passed: u64,
    failed: u64,
    skips: Vec<String>,
}

/// What one step found.
#[derive(Default)]
struct StepResult {
    message: String,
    passed: u64,
    failed: u64,
    skips: Vec<String>,
}

/// Runs it all, or all that concerns one room; false when something failed.
pub fn all(room: Option<&str>) -> Result<bool> {
    let package = room.map(rooms::package).transpose()?;
    let mut suite = Suite::default();
    suite.step("format", || run(cargo().args(["fmt", "--all", "--check"])).map(|()| StepResult::default()));
    suite.step("clippy", || {
        let mut clippy = cargo();
        clippy.arg("clippy");
        match &package {
            Some(package) => clippy.args(["--package", package]),
            None => clippy.arg("--workspace"),
        };
        run(clippy.args(["--all-targets", "--", "-D", "warnings"])).map(|()| StepResult::default())
    });
    suite.step("tidy", || tidy::check().map(StepResult::message));
    suite.step("rooms", || rooms::check().map(StepResult::message));
    suite.step("licences", || licences::check().map(StepResult::message));
    if room.is_none_or(kernels::has) {
        suite.step("kernels", fresh_kernels);
    }
    suite.step("tests", || tests(package.as_deref()));
    if room.is_none_or(|r| WITH_ORACLES.contains(&r)) {
        suite.step("oracles", || oracles(None));
    }
    Ok(suite.close())
}

/// Only the oracles, or their cases with a certain part of a name, with the same closing lines.
pub fn oracles_alone(part: Option<&str>) -> Result<bool> {
    let mut suite = Suite::default();
    suite.step("oracles", || oracles(part));
    Ok(suite.close())
}

fn tests(package: Option<&str>) -> Result<StepResult> {
    let log = cache::folder()?.join(format!("skips-{}.log", std::process::id()));
    let _ = std::fs::remove_file(&log);
    let mut test = cargo();
    test.args(["test", "--no-fail-fast"]).env("FULLBORE_SKIP_LOG", &log);
    match package {
        Some(package) => test.args(["--package", package]),
        None => test.arg("--workspace"),
    };
    let mut read = Reader::default();
    let done = lines(test.args(["--", "--show-output"]), |line| {
        if read.line(line) {
            println!("{line}");
        }
    });
    let mut found = read.found;
    if let Ok(text) = std::fs::read_to_string(&log) {
        found
            .skips
            .extend(text.lines().filter(|l| !l.trim().is_empty()).map(|l| l.trim_start_matches("SKIP: ").to_string()));
        let _ = std::fs::remove_file(&log);
    }
    if !done? && found.failed == 0 {
        // It did not compile, or a test program died before it could count.
        found.failed = 1;
    }
    found.message = format!("{} passed, {} failed", found.passed, found.failed);
    Ok(found)
}

fn fresh_kernels() -> Result<StepResult> {
    match kernels::python() {
        Ok(_) => kernels::check().map(StepResult::message),
        Err(why) => Ok(StepResult::skipped("the compiler of kernels is", &why)),
    }
}

/// Only the comparison of the account with other backtesters, whose packages are too large for every run.
pub fn backtesters() -> Result<bool> {
    let mut suite = Suite::default();
    suite.step("backtesters", || {
        let python = cache::python_of("backtesters", &root().join("bench/peers/backtesters.lock"))?;
        run_oracles(&python, vec![root().join("bench/peers/backtesters.py")], None)
    });
    Ok(suite.close())
}

fn oracles(part: Option<&str>) -> Result<StepResult> {
    let python = match cache::python() {
        Ok(python) => python,
        Err(why) => return Ok(StepResult::skipped("the oracles' Python packages are", &why)),
    };
    let mut scripts: Vec<_> = std::fs::read_dir(root().join("oracles"))
        .map_err(|e| format!("oracles/: {e}."))?
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "py"))
        .collect();
    scripts.sort();
    run_oracles(&python, scripts, part)
}

fn run_oracles(python: &Path, scripts: Vec<PathBuf>, part: Option<&str>) -> Result<StepResult> {
    // The whole workspace, as the tests were built: a package alone would have its dependencies built again, with other
    // features. `account.py`, `features.py` and `performance.py` look for `fullbore-bench` beside `fullbore`.
    let fullbore = programs("fullbore")?;
    let mut found = StepResult::default();
    for program in scripts {
        let mut counted = None;
        let mut oracle = command(python);
        oracle.arg(&program).arg(&fullbore).args(part).env("PYTHONDONTWRITEBYTECODE", "1");
        if program.file_name().is_some_and(|name| name == "report.py") {
            // Asked first, so that a part of a name that is not its own installs nothing.
            let cases = output(command(python).arg(&program).arg("--cases").args(part))?;
            match (!cases.is_empty()).then(browser::find_or_install) {
                Some(Ok(found)) => drop(oracle.env("FULLBORE_BROWSER", found)),
                Some(Err(why)) => println!("{why}"),
                None => {}
            }
        }
        let done = lines(&mut oracle, |line| {
            // The counts come back in our own closing line; CI reads only one.
            match parse_oracle_counts(line) {
                Some(counts) => counted = Some(counts),
                None => println!("{line}"),
            }
            if let Some(why) = line.strip_prefix("SKIP: ") {
                found.skips.push(why.to_string());
            }
        })?;
        let (passed, failed) = counted.unwrap_or_default();
        found.passed += passed;
        found.failed += failed;
        if (!done && failed == 0) || counted.is_none() {
            println!("{} ended without its closing line or without success", program.display());
            found.failed += 1;
        }
    }
    if found.passed + found.failed == 0 {
        return Err(format!("no oracle has a case with `{}` in its name.", part.unwrap_or_default()));
    }
    found.message = format!("{} passed, {} failed", found.passed, found.failed);
    Ok(found)
}

impl Suite {
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<StepResult>) {
        println!("\n=== {name}");
        let start = Instant::now();
        let (good, message) = match work() {
            Ok(found) => {
                self.passed += found.passed;
                self.failed += found.failed;
                let good = found.failed == 0;
                let message = match found.skips.len() {
                    0 => found.message,
                    n => format!("{}{}{n} skipped", found.message, if found.message.is_empty() { "" } else { ", " }),
                };
                found.skips.iter().for_each(|why| println!("skipped: {why}"));
                self.skips.extend(found.skips);
                (good, message)
            }
            Err(why) => {
                println!("{why}");
                self.failed += 1;
                (false, why.lines().next().unwrap_or_default().to_string())
            }
        };
        let took = start.elapsed();
        println!("=== {name}: {} in {:.1} s", if good { "done" } else { "FAILED" }, took.as_secs_f64());
        self.steps.push((name, good, took, message));
    }

    fn close(mut self) -> bool {
        println!("\n=== summary");
        for (name, good, took, message) in &self.steps {
            let verdict = if *good { "ok" } else { "FAILED" };
            println!("{name:<10} {verdict:<7} {:>7.1} s  {message}", took.as_secs_f64());
        }
        let total: Duration = self.steps.iter().map(|s| s.2).sum();
        println!("{:<10} {:<7} {:>7.1} s", "all", "", total.as_secs_f64());
        let refused = if ci() { self.skips.iter().filter(|s| !is_hardware(s)).count() } else { 0 };
        if refused > 0 {
            println!("CI=true accepts no skip but \"{}\"; {refused} counted as failed", HARDWARE.join("\", \""));
            self.failed += refused as u64;
        }
        println!("{}", skip_line(&self.skips));
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skips.len() - refused);
        self.failed == 0
    }
}

impl StepResult {
    fn message(message: String) -> StepResult {
        StepResult { message, ..StepResult::default() }
    }

    /// Something that comes from elsewhere did not come.
    fn skipped(what: &str, why: &str) -> StepResult {
        let why = why.lines().last().unwrap_or_default();
        StepResult { skips: vec![format!("{what} not to be had: {why}")], ..StepResult::default() }
    }
}

/// Reads what `cargo test -- --show-output` prints: counts, skips, and which lines are worth showing.
#[derive(Default)]
struct Reader {
    found: StepResult,
    /// Inside the output of tests that passed.
    hushed: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> bool {
        if let Some(why) = line.strip_prefix("SKIP: ") {
            self.found.skips.push(why.trim().to_string());
            return false;
        }
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.hushed = false;
            let count = |what: &str| {
                let part = rest.split([';', '.']).find_map(|p| p.trim().strip_suffix(what));
                part.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0)
            };
            self.found.passed += count("passed");
            self.found.failed += count("failed");
            return true;
        }
        match line {
            "successes:" => self.hushed = true,
            "failures:" => self.hushed = false,
            _ => {}
        }
        if let Some((name, end)) = line.strip_prefix("test ").and_then(|l| l.split_once(" ... ")) {
            if let Some(why) = end.strip_prefix("ignored") {
                let why = why.trim_start_matches([',', ' ']);
                self.found.skips.push(if why.is_empty() {
                    format!("{name} is marked #[ignore]")
                } else {
                    why.to_string()
                });
            }
            return end != "ok";
        }
        !self.hushed && !line.trim().is_empty()
    }
}

/// `12 passed, 0 failed, 1 skipped` of an oracle.
fn parse_oracle_counts(line: &str) -> Option<(u64, u64)> {
    let mut parts = line.split(", ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

/// Whether a test was skipped because the machine lacks hardware for it.
fn is_hardware(why: &str) -> bool {
    HARDWARE.contains(&why)
}

/// `skips: 3 (no GPU; ../shared/data is missing, 2 times)`.
fn skip_line(skips: &[String]) -> String {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for skip in skips {
        match reasons.iter_mut().find(|(why, _)| why == skip) {
            Some((_, n)) => *n += 1,
            None => reasons.push((skip, 1)),
        }
    }
    let shown: Vec<String> =
        reasons.iter().map(|(why, n)| if *n == 1 { why.to_string() } else { format!("{why}, {n} times") }).collect();
    match skips.len() {
        0 => "skips: 0".to_string(),
        n => format!("skips: {n} ({})", shown.join("; ")),
    }
}

fn ci() -> bool {
    std::env::var("CI").is_ok_and(|v| v == "true" || v == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_cargo_prints() {
        let text = "\
running 5 tests
test a ... ok
test b ... ignored, no GPU
test c ... ignored
test d ... ok
test e ... FAILED

successes:

---- a stdout ----
SKIP: ../shared/data is missing
chatter

successes:
    a
    d

failures:

---- e stdout ----
assertion failed

failures:
    e

test result: FAILED. 2 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let mut read = Reader::default();
        let shown: Vec<&str> = text.lines().filter(|l| read.line(l)).collect();
        assert_eq!((read.found.passed, read.found.failed), (42, 1));
        assert_eq!(read.found.skips, ["no GPU", "c is marked #[ignore]", "../shared/data is missing"]);
        assert!(
            shown.contains(&"assertion failed") && !shown.contains(&"chatter") && !shown.contains(&"test a ... ok")
        );
    }

    #[test]
    fn closing_lines() {
        assert_eq!(parse_oracle_counts("12 passed, 1 failed, 0 skipped"), Some((12, 1)));
        assert_eq!(parse_oracle_counts("12 passed"), None);
        let skips = ["no GPU", "x", "x"].map(String::from);
        assert_eq!(skip_line(&skips), "skips: 3 (no GPU; x, 2 times)");
        assert_eq!(skip_line(&[]), "skips: 0");
        assert!(HARDWARE.into_iter().all(is_hardware) && !is_hardware("../shared/data is missing"));
    }
}
