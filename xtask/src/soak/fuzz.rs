//! Fuzzing every target of `fuzz/`, on stable Rust (`RUSTC_BOOTSTRAP=1` lets cargo-fuzz use its flags).
//!
//! It starts from the corpus in the repository and collects what it finds interesting in the cache folder; only a crash
//! comes back into the repository, as `fuzz/corpus/<target>/crash-<hash>`, where the plain test replays it from then
//! on.

use super::{Flags, names, note};
use crate::process::{cargo, run};
use crate::{Result, cache, root, today};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Largest input the fuzzer tries, in bytes.
const MAX_LEN: u32 = 65_536;

/// Fuzzes each target; false when one crashed.
pub fn run_all(flags: &[&str]) -> Result<bool> {
    let flags = Flags::read(flags, &["--minutes", "--target", "--sanitizer"])?;
    let minutes: f64 = flags.number("--minutes", 10.0)?;
    let sanitizer = flags.get("--sanitizer").unwrap_or("address");
    let mut targets = targets()?;
    if let Some(only) = flags.get("--target") {
        if !targets.iter().any(|t| t == only) {
            return Err(format!("there is no fuzz target `{only}`; there are {}.", targets.join(", ")));
        }
        targets.retain(|t| t == only);
    }
    let path = with_cargo_fuzz()?;
    let mut good = true;
    for target in &targets {
        println!("\n=== fuzz {target}, {minutes} minutes, sanitizer {sanitizer}");
        let (executions, crashes, took) = fuzz_one(target, minutes, sanitizer, &path)?;
        let took = took.as_secs_f64() / 60.0; // a crash ends a target early
        good &= crashes == 0;
        println!("=== fuzz {target}: {executions} executions, {crashes} crashes");
        note(
            "fuzz",
            &format!("| {} | {target} | {took:.1} | {sanitizer} | {executions} | {crashes} |", today::date()),
        )?;
    }
    Ok(good)
}

/// Executions, crashes, and how long it took once the target was built.
fn fuzz_one(target: &str, minutes: f64, sanitizer: &str, path: &std::ffi::OsStr) -> Result<(u64, usize, Duration)> {
    let corpus = root().join("fuzz/corpus").join(target);
    let found = cache::folder()?.join("fuzz-corpus").join(target);
    let artifacts = root().join("fuzz/artifacts").join(target);
    for folder in [&corpus, &found, &artifacts] {
        cache::make(folder)?;
    }
    let before = names(&artifacts);
    let mut fuzz = cargo();
    fuzz.args(["fuzz", "run", "--fuzz-dir", "fuzz", "--sanitizer", sanitizer, target])
        .arg(&found)
        .arg(&corpus)
        .arg("--");
    fuzz.arg(format!("-max_total_time={}", (minutes * 60.0).max(1.0) as u64));
    fuzz.arg(format!("-max_len={MAX_LEN}")).args(["-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1"]);
    fuzz.env("RUSTC_BOOTSTRAP", "1").env("PATH", path).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = fuzz.spawn().map_err(|e| format!("cargo fuzz could not be started: {e}."))?;
    let (mut executions, mut start, mut last_shown) = (0, Instant::now(), Instant::now());
    if let Some(err) = child.stderr.take() {
        for line in BufReader::new(err).split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if let Some(n) = line.strip_prefix("stat::number_of_executed_units:") {
                executions = n.trim().parse().unwrap_or(0);
            }
            if line.starts_with("INFO: Seed") {
                start = Instant::now();
            }
            // Of the fuzzer's progress one line a minute is enough; everything else is shown.
            let progress = line.starts_with('#');
            if !progress || last_shown.elapsed() > Duration::from_secs(60) {
                if progress {
                    last_shown = Instant::now();
                }
                eprintln!("{line}");
            }
        }
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    let took = start.elapsed();
    let mut crashes = 0;
    let new = names(&artifacts).into_iter().filter(|n| !before.contains(n) && !n.starts_with("slow-unit"));
    for name in new {
        let hash = name.rsplit('-').next().unwrap_or(&name);
        let kept = corpus.join(format!("crash-{hash}"));
        fs::copy(artifacts.join(&name), &kept).map_err(|e| format!("{}: {e}.", kept.display()))?;
        println!("{name} was kept as {}: mend its cause, the plain test replays it", kept.display());
        crashes += 1;
    }
    if !status.success() && crashes == 0 {
        return Err(format!("cargo fuzz on `{target}` ended with {status} and left no crash; read its lines above."));
    }
    Ok((executions, crashes, took))
}

fn targets() -> Result<Vec<String>> {
    let file = root().join("fuzz/Cargo.toml");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}.", file.display()))?;
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| format!("fuzz/Cargo.toml: {e}"))?;
    let bins = table.get("bin").and_then(|b| b.as_array()).cloned().unwrap_or_default();
    let names: Vec<String> = bins.iter().filter_map(|b| b.get("name")?.as_str().map(str::to_string)).collect();
    if names.is_empty() { Err("fuzz/Cargo.toml has no [[bin]].".into()) } else { Ok(names) }
}

/// Installs cargo-fuzz into the cache folder if it is missing, and gives a PATH that finds it.
fn with_cargo_fuzz() -> Result<std::ffi::OsString> {
    let tools = cache::folder()?.join("tools");
    let program = tools.join("bin").join(format!("cargo-fuzz{}", std::env::consts::EXE_SUFFIX));
    if !program.exists() {
        println!("installing cargo-fuzz into {}", tools.display());
        run(cargo().args(["install", "cargo-fuzz", "--locked", "--root"]).arg(&tools))?;
    }
    let old = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&old));
    std::env::join_paths(all).map_err(|e| format!("PATH: {e}."))
}
