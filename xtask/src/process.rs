//! Other programs: run them, read what they say, see how much memory they took.

use crate::{Result, root};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command that starts in the root of the working tree.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The same cargo that runs us. What `cargo run` told us about ourselves is not passed on: it would make other crates
/// rebuild.
pub fn cargo() -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|n| n.starts_with("CARGO_PKG_") || n.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs it on our terminal.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|e| cannot_start(command, &e))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}.", command_line(command))) }
}

/// Runs it in silence and gives its standard output; the error carries the end of its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| cannot_start(command, &e))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    // Some tell what is wrong on their standard output.
    let said = String::from_utf8_lossy(if out.stderr.is_empty() { &out.stdout } else { &out.stderr });
    Err(format!("`{}` ended with {}: {}", command_line(command), out.status, tail(&said, 12)))
}

/// Runs it, hands each line of its standard output to `each`, and says whether it succeeded. Standard error goes to
/// ours.
pub fn lines(command: &mut Command, mut each: impl FnMut(&str)) -> Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| cannot_start(command, &e))?;
    let out = child.stdout.take().ok_or("a pipe was not made")?;
    let mut reader = BufReader::new(out);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).map_err(|e| e.to_string())? > 0 {
        each(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']));
        bytes.clear();
    }
    Ok(child.wait().map_err(|e| e.to_string())?.success())
}

/// What a program said and what it cost.
pub struct Measured {
    /// Its standard output.
    pub out: String,
    /// From start to end.
    pub seconds: f64,
    /// The largest resident size seen, or `None` where the system does not tell.
    pub peak_mib: Option<f64>,
}

/// Runs it in silence, looking at its peak memory every 20 ms (the kernel keeps the maximum, so only the last 20 ms can
/// be missed).
pub fn measure(command: &mut Command) -> Result<Measured> {
    let start = Instant::now();
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|e| cannot_start(command, &e))?;
    let (mut out, mut err) = (child.stdout.take().ok_or("no pipe")?, child.stderr.take().ok_or("no pipe")?);
    let out = std::thread::spawn(move || read_all(&mut out));
    let err = std::thread::spawn(move || read_all(&mut err));
    let mut peak_mib = None;
    let status = loop {
        peak_mib = memory_of(child.id(), "VmHWM:").or(peak_mib);
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    if status.success() {
        Ok(Measured { out, seconds, peak_mib })
    } else {
        Err(format!("`{}` ended with {status}: {} {}", command_line(command), tail(&out, 3), tail(&err, 12)))
    }
}

/// `cargo metadata` as JSON.
pub fn metadata(flags: &[&str]) -> Result<Value> {
    let text = output(cargo().args(["metadata", "--format-version", "1"]).args(flags))?;
    serde_json::from_str(&text).map_err(|e| format!("cargo metadata did not print JSON: {e}."))
}

/// Where cargo puts what it builds.
pub fn target_folder() -> Result<PathBuf> {
    let metadata = metadata(&["--no-deps"])?;
    metadata["target_directory"].as_str().map(PathBuf::from).ok_or("cargo metadata names no target folder.".into())
}

/// A program of this workspace, built.
pub fn build(package: &str, program: &str, release: bool) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--package", package]);
    if release {
        command.arg("--release");
    }
    run(&mut command)?;
    let folder = target_folder()?.join(if release { "release" } else { "debug" });
    Ok(folder.join(format!("{program}{}", std::env::consts::EXE_SUFFIX)))
}

/// Builds everything in the workspace, tests too, so that features and thus dependencies are those of the tests; gives
/// the path of a program.
pub fn programs(program: &str) -> Result<PathBuf> {
    run(cargo().args(["build", "--quiet", "--workspace", "--all-targets"]))?;
    Ok(target_folder()?.join("debug").join(format!("{program}{}", std::env::consts::EXE_SUFFIX)))
}

/// The last non-empty line as JSON.
pub fn last_json(text: &str) -> Result<Value> {
    let last = text.lines().rev().find(|l| !l.trim().is_empty()).ok_or("the program printed nothing.")?;
    serde_json::from_str(last)
        .or_else(|_| serde_json::from_str(text))
        .map_err(|e| format!("no JSON object in `{last}`: {e}."))
}

/// What a process holds in memory now, in MiB; `None` where the system does not tell.
pub fn resident_mib(pid: u32) -> Option<f64> {
    memory_of(pid, "VmRSS:")
}

fn memory_of(pid: u32, name: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? / 1024.0)
}

fn read_all(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn cannot_start(command: &Command, e: &std::io::Error) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    format!("`{program}` could not be started ({e}); install it or put it on the PATH.")
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn tail(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}
