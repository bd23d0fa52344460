//! One bit flipped in a part of a model, again and again: `fullbore predict` must refuse it and name the part.

use super::train::{Learner, Place};
use super::{Flags, note};
use crate::process::{build, output};
use crate::{Result, today};
use random::SplitMix;
use std::fs;
use std::path::PathBuf;

/// Flips so often; false when a changed model was not refused.
pub fn run_flips(flags: &[&str]) -> Result<bool> {
    let flags = Flags::read(flags, &["--times", "--seed", "--fullbore"])?;
    let times = flags.number("--times", 10_000.0)? as usize;
    let mut random = SplitMix::new(flags.number("--seed", 1.0)? as u64);
    let fullbore = match flags.get("--fullbore") {
        Some(path) => PathBuf::from(path),
        None => build("fullbore", "fullbore", true)?,
    };
    let place = Place::new(fullbore, "flips", Learner::Classifier)?;
    output(&mut place.train("run"))?;
    let folder = place.home.join("run/model");
    let mut parts = super::names(&folder);
    parts.sort();
    let mut accepted = Vec::new();
    for time in 0..times {
        let part = &parts[random.below(parts.len())];
        let path = folder.join(part);
        let whole = fs::read(&path).map_err(|e| format!("{}: {e}.", path.display()))?;
        let bit = random.below(8 * whole.len());
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let put = |bytes: &[u8]| fs::write(&path, bytes).map_err(|e| format!("{}: {e}.", path.display()));
        put(&bytes)?;
        let mut predict = place.fullbore();
        predict.args(["predict", "run", "coin", "--device", "cpu", "--quiet", "--json"]);
        let said = predict.output().map_err(|e| e.to_string())?;
        put(&whole)?;
        let text = String::from_utf8_lossy(&said.stdout);
        if said.status.code() != Some(5) || !text.contains(part.as_str()) {
            println!("bit {bit} of {part}: {} {text}", said.status);
            accepted.push(part.clone());
        }
        if (time + 1) % 500 == 0 {
            println!("{} flips, {} not refused", time + 1, accepted.len());
        }
    }
    note("flips", &format!("| {} | {times} | {} | {} |", today::date(), parts.len(), accepted.len()))?;
    let _ = fs::remove_dir_all(&place.home);
    Ok(accepted.is_empty())
}
