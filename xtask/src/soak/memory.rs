//! Resident memory of `fullbore train --learner ppo` over many updates.
//!
//! What the last tenth of the updates holds may be at most [`MOST`] times what the first tenth holds: nothing leaks,
//! nothing fragments. What comes before the first row of the log, and what comes behind the last update, is not
//! counted.

use super::train::{Learner, Place};
use super::{Flags, note};
use crate::process::{build, resident_mib};
use crate::{Result, today};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The last tenth's memory over the first's, at most.
const MOST: f64 = 1.02;

/// Seconds from the start to the first validation, at most.
const START: f64 = 5.0;

/// Accounts and steps of an update, those of a usual training: memory is compared with what such a training holds. One
/// epoch in minibatches of so many rows keeps 5,000 updates short.
const ACCOUNTS: u64 = 64;
const STEPS: u64 = 128;
const BATCH: u64 = 2048;

/// Trains so many updates; false when its memory grew, or when it was slow to begin.
pub fn run_memory(flags: &[&str]) -> Result<bool> {
    let flags = Flags::read(flags, &["--updates", "--device", "--fullbore"])?;
    let device = flags.get("--device").unwrap_or("cpu").to_string();
    let updates = flags.number("--updates", 5_000.0)? as u64;
    let fullbore = match flags.get("--fullbore") {
        Some(path) => PathBuf::from(path),
        None => build("fullbore", "fullbore", true)?,
    };
    let place = Place::new(fullbore, "memory", Learner::Policy)?;
    let mut train = place.fullbore();
    train.args(["train", "coin", "--learner", "ppo", "--folds", "2", "--seeds", "2", "--device", &device, "--quiet"]);
    train.args(["--n-envs", &ACCOUNTS.to_string(), "--n-steps", &STEPS.to_string()]);
    train.args(["--batch-size", &BATCH.to_string()]);
    train.args(["--timesteps", &(ACCOUNTS * STEPS * updates).to_string(), "--patience", "1000000"]);
    train.args(["--set", "ppo.n_epochs=1", "--json", "--out", "run"]);
    let begun = Instant::now();
    let child = train.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|e| e.to_string())?;
    let log = place.home.join("run/log.jsonl");
    let (mut seen, mut first) = (Vec::new(), None);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if let (Some(update), Some(mib)) = (last_update(&log), resident_mib(child.id())) {
            first.get_or_insert_with(|| begun.elapsed().as_secs_f64());
            // What was read while the log went on may be of the judging behind the last update.
            if last_update(&log) == Some(update) {
                seen.push((update, mib));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        return Err(format!("the training ended with {status}; {} is left as it is.", place.home.display()));
    }
    let start = first.ok_or("the training ended before it was seen.")?;
    let (before, after) = tenths(&seen, updates).ok_or("the updates were too quick to be looked at; give more.")?;
    let (ratio, took) = (after / before, begun.elapsed().as_secs_f64());
    println!(
        "{updates} updates in {took:.0} s, the first validation after {start:.2} s; {before:.2} MiB in the first tenth, \
         {after:.2} MiB in the last: {ratio:.4} times"
    );
    let shown = if device == "cpu" { updates.to_string() } else { format!("{updates}, {device}") };
    let row =
        format!("| {} | {shown} | {took:.0} | {start:.2} | {before:.2} | {after:.2} | {ratio:.4} |", today::date());
    note("memory", &row)?;
    let _ = std::fs::remove_dir_all(&place.home);
    Ok(ratio <= MOST && start <= START)
}

/// The most that was resident in the first and in the last tenth of the updates.
fn tenths(seen: &[(u64, f64)], updates: u64) -> Option<(f64, f64)> {
    let most = |of: &dyn Fn(u64) -> bool| {
        let all = seen.iter().filter(|(update, _)| of(*update)).map(|(_, mib)| *mib);
        all.max_by(f64::total_cmp)
    };
    // Behind the last update members are judged.
    Some((most(&|u| 10 * u <= updates)?, most(&|u| 10 * u >= 9 * updates && u < updates)?))
}

/// The update that the last such row of a log is about, by its end.
fn last_update(log: &Path) -> Option<u64> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(8 << 10))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let rows = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    rows.filter(|row| row["kind"] == "update").find_map(|row| row["update"].as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_leave_out_what_comes_behind_the_last_update() {
        let seen = [(5, 9.0), (10, 10.0), (11, 50.0), (90, 10.1), (99, 10.2), (100, 70.0)];
        assert_eq!(tenths(&seen, 100), Some((10.0, 10.2)));
        assert_eq!(tenths(&seen[2..], 100), None);
        assert_eq!(tenths(&seen[..4], 100), Some((10.0, 10.1)));
        assert_eq!(tenths(&seen[..3], 100), None);
    }

    #[test]
    fn the_last_whole_row_of_a_log_is_read() {
        let file = std::env::temp_dir().join(format!("fullbore-last-update-{}", std::process::id()));
        let rows = "{\"kind\":\"update\",\"update\":6}\n{\"kind\":\"update\",\"update\":12}\n{\"kind\":\"machine\"}\n";
        std::fs::write(&file, format!("{rows}{{\"kind\":\"update\",\"upd")).unwrap();
        assert_eq!(last_update(&file), Some(12));
        std::fs::write(&file, "{\"kind\":\"machine\"}\n").unwrap();
        assert_eq!(last_update(&file), None);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(last_update(&file), None);
    }
}
