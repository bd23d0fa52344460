//! Training the two-timeframe classifier, whole epochs with their validation: `fullbore train` beside a PyTorch script
//! of the same net.
//!
//! Both read one archive of ready windows, made once. A case is ours, PyTorch, PyTorch, ours, each a fresh process.
//! Ours counts what its own phases say of training and validating, over the epochs; PyTorch counts the median of its
//! epochs but the first. Then both train five seeds, and the 95 % bootstrap intervals of validation loss and MCC must
//! overlap epoch by epoch: a faster loop that learns something else is not faster.

use super::nets::BenchFlags;
use super::{Place, machine, middle, threads};
use crate::process::{build, command, last_json, measure, output};
use crate::{Result, cache, root};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// One line of the table. A batch of 0 is the one that `fullbore tune` chooses.
#[derive(Debug, Clone, Copy)]
struct Case {
    members: usize,
    batch: usize,
    /// Epochs of ours, and of PyTorch, whose first does not count.
    epochs: [usize; 2],
    floor: Option<f64>,
}

const CARD: [Case; 4] = [
    Case { members: 1, batch: 512, epochs: [6, 4], floor: None },
    Case { members: 1, batch: 3072, epochs: [40, 5], floor: Some(6.0) },
    Case { members: 1, batch: 0, epochs: [10, 4], floor: None },
    Case { members: 24, batch: 512, epochs: [5, 2], floor: Some(12.0) },
];
const PROCESSOR: [Case; 4] = [
    Case { members: 1, batch: 512, epochs: [16, 7], floor: Some(3.0) },
    Case { members: 1, batch: 3072, epochs: [16, 5], floor: Some(3.0) },
    Case { members: 1, batch: 0, epochs: [12, 5], floor: Some(3.0) },
    Case { members: 8, batch: 512, epochs: [4, 3], floor: Some(3.0) },
];

const NET: &str = "fast:16x50-lstm64 + slow:12x24-lstm24 + strategy:9 / 16 / direction:3";
/// Seeds whose curves are compared, and after which epochs.
const SEEDS: usize = 5;
const LOOKED_AT: [usize; 6] = [1, 2, 5, 10, 15, 20];

/// Both programs, the archive, and which of its samples are whose.
struct Sides {
    ours: PathBuf,
    python: PathBuf,
    cuda: bool,
    data: PathBuf,
    place: Place,
}

/// What one side said of a run.
struct SideResult {
    /// Seconds of an epoch with its validation.
    epoch: f64,
    /// `[members][epochs]` validation loss and MCC.
    curves: Vec<Vec<[f64; 2]>>,
    /// What else it said.
    said: Value,
}

pub(super) fn run(flags: &BenchFlags, cuda: bool) -> Result<String> {
    let python = match (&flags.python, cuda) {
        (Some(path), _) => path.clone(),
        (None, true) => "python3".into(),
        (None, false) => cache::python_of("torch", &root().join("bench/peers/torch.lock"))?,
    };
    let device = if cuda { super::gpu::card()? } else { format!("{} threads", threads()) };
    let version = output(command(&python).args(["-c", "import torch; print(torch.__version__)"]))?;
    let ours = match &flags.ours {
        Some(path) => path.clone(),
        None => build("fullbore", "fullbore", true)?,
    };
    let samples = if cuda { 490_000 } else { 12_000 };
    let data = windows(&python, samples)?;
    let sides = Sides { ours, python, cuda, data, place: Place::new("classify")? };
    let cases: &[Case] = if cuda { &CARD } else { &PROCESSOR };
    let mut tuned = None;
    let mut rows = String::new();
    let mut parts = (0, 0);
    for case in cases.iter().filter(|c| flags.wants(&c.name())) {
        let mut case = *case;
        let name = case.name();
        if case.batch == 0 {
            let batch = sides.tune()?;
            tuned = Some(batch);
            case.batch = batch;
        }
        println!("{name}");
        let first = sides.ours(&case, case.epochs[0])?;
        parts = first.sample_counts()?;
        let peer = [sides.torch(&case, case.epochs[1], parts)?, sides.torch(&case, case.epochs[1], parts)?];
        let ours = [first, sides.ours(&case, case.epochs[0])?];
        row(&mut rows, &case, &ours, &peer, parts.0);
    }
    if rows.is_empty() {
        return Err(format!("no case has `{}` in its name.", flags.only.as_deref().unwrap_or_default()));
    }
    let curves = if flags.quick { String::new() } else { agreement(&sides, parts)? };
    let tuned = tuned.map_or(String::new(), |batch| format!(" `fullbore tune` chose batches of {batch}."));
    Ok(format!(
        "## Training the two-timeframe classifier on the {}\n\n\
         | members | batch | ours, s an epoch | PyTorch, s an epoch | times PyTorch | target | ours, samples/s | busy |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n{rows}\n\
         {samples} samples, {} to train on, {} to validate on; {}; PyTorch {}.{tuned}\n\n{curves}{device}. {}\n",
        if cuda { "GPU" } else { "CPU" },
        parts.0,
        parts.1,
        if cuda { "bf16" } else { "f32" },
        version.trim(),
        machine(&sides.python),
    ))
}

impl Case {
    fn name(&self) -> String {
        let batch = if self.batch == 0 { "tuned".to_string() } else { self.batch.to_string() };
        format!("{} members, batch {batch}", self.members)
    }
}

impl Sides {
    /// The flags that say what is trained, the same for `tune` and `train`.
    fn command(&self, verb: &str) -> std::process::Command {
        let mut ours = self.place.fullbore(&self.ours);
        ours.arg(verb).arg(&self.data).args(["--label-horizon", "1", "--folds", "1", "--json", "--device"]);
        ours.arg(if self.cuda { "cuda" } else { "cpu" });
        for set in ["split.tested=0.15", "split.holdout=0", "train.rate=0.001"] {
            ours.args(["--set", set]);
        }
        ours.args(["--set", &format!("train.net={NET}")]);
        ours
    }

    fn tune(&self) -> Result<usize> {
        let said = last_json(&measure(&mut self.command("tune"))?.out)?;
        let batch = said["chosen"]["batch"].as_u64().ok_or("`fullbore tune --json` has no `chosen.batch`.")?;
        usize::try_from(batch).map_err(|e| e.to_string())
    }

    fn ours(&self, case: &Case, epochs: usize) -> Result<SideResult> {
        let out = self.place.0.join("run");
        let _ = fs::remove_dir_all(&out);
        let mut train = self.command("train");
        train.args(["--patience", "100000", "--batch-size", &case.batch.to_string()]);
        train.args(["--seeds", &case.members.to_string(), "--epochs", &epochs.to_string(), "--out"]).arg(&out);
        let said = last_json(&measure(&mut train)?.out)?;
        let phases = said["phases"].as_array().ok_or("`fullbore train --json` has no `phases`.")?;
        let of = |name: &str| phases.iter().find(|p| p["name"] == name).and_then(|p| p["seconds"].as_f64());
        let (Some(steps), Some(valid)) = (of("train"), of("validate")) else {
            return Err(format!("`fullbore train --json` has no phases `train` and `validate`: {}.", said["phases"]));
        };
        Ok(SideResult { epoch: (steps + valid) / epochs as f64, curves: curves_of(&out.join("log.jsonl"))?, said })
    }

    fn torch(&self, case: &Case, epochs: usize, (train, valid): (u64, u64)) -> Result<SideResult> {
        let mut peer = command(&self.python);
        peer.arg(root().join("bench/peers/torch_classify.py")).arg(&self.data);
        peer.args(["--train", &format!("0:{train}"), "--valid", &format!("{}:{}", train + 2, train + 2 + valid)]);
        peer.args(["--batch", &case.batch.to_string(), "--members", &case.members.to_string()]);
        peer.args(["--epochs", &epochs.to_string(), "--rate", "0.001"]);
        if self.cuda {
            peer.args(["--device", "cuda", "--precision", "bf16"]);
        } else {
            peer.args(["--device", "cpu", "--precision", "f32", "--threads", &threads().to_string()]);
        }
        let said = last_json(&measure(&mut peer)?.out)?;
        let flags = said["epochs"].as_array().ok_or("torch_classify.py has no `epochs`.")?;
        let number = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
        let seconds = flags.iter().skip(1).map(|e| number(&e["seconds"])).collect();
        let of = |m: usize| flags.iter().map(|e| [number(&e["valid_loss"][m]), number(&e["mcc"][m])]).collect();
        Ok(SideResult { epoch: middle(seconds), curves: (0..case.members).map(of).collect(), said })
    }
}

impl SideResult {
    /// Samples to train on and to validate on.
    fn sample_counts(&self) -> Result<(u64, u64)> {
        let fold = &self.said["folds"][0];
        match (fold["train"].as_u64(), fold["valid"].as_u64()) {
            (Some(train), Some(valid)) => Ok((train, valid)),
            _ => Err(format!("`fullbore train --json` does not tell the parts of its fold: {fold}.")),
        }
    }
}

/// `[members][epochs]` validation loss and MCC, from the log of a run.
fn curves_of(log: &Path) -> Result<Vec<Vec<[f64; 2]>>> {
    let text = fs::read_to_string(log).map_err(|e| format!("{}: {e}.", log.display()))?;
    let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut curves: Vec<(u64, Vec<[f64; 2]>)> = Vec::new();
    for row in rows.filter(|r| r["kind"] == "epoch") {
        let seed = row["seed"].as_u64().unwrap_or_default();
        let at = curves.iter().position(|c| c.0 == seed).unwrap_or_else(|| {
            curves.push((seed, Vec::new()));
            curves.len() - 1
        });
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        curves[at].1.push([number("valid_loss"), number("valid_mcc")]);
    }
    Ok(curves.into_iter().map(|c| c.1).collect())
}

fn row(rows: &mut String, case: &Case, ours: &[SideResult; 2], peer: &[SideResult; 2], train: u64) {
    let mean = |s: &[SideResult; 2]| (s[0].epoch + s[1].epoch) / 2.0;
    let (mine, theirs) = (mean(ours), mean(peer));
    let times = theirs / mine;
    let target = case
        .floor
        .map_or(String::new(), |floor| format!("{floor}: {}", if times >= floor { "met" } else { "**missed**" }));
    let rate = (train * case.members as u64) as f64 / mine;
    let phase = ours[0].said["phases"].as_array().and_then(|p| p.iter().find(|p| p["name"] == "train").cloned());
    let busy = phase.map_or(String::new(), |p| {
        let share = |name: &str| p[name].as_f64().map(|x| format!("{x:.0} %"));
        share("gpu_percent")
            .map(|x| format!("GPU {x}"))
            .or(share("cpu_percent").map(|x| format!("CPU {x}")))
            .unwrap_or_default()
    });
    let (members, batch) = (case.members, case.batch);
    let _ = writeln!(
        rows,
        "| {members} | {batch} | **{mine:.4}** | {theirs:.3} | **{times:.1}** | {target} | {rate:.3e} | {busy} |"
    );
}

/// Five seeds of each side, epoch by epoch.
fn agreement(sides: &Sides, parts: (u64, u64)) -> Result<String> {
    println!("{SEEDS} seeds of each, epoch by epoch");
    let epochs = *LOOKED_AT.last().expect("there is one");
    let case = Case { members: SEEDS, batch: if sides.cuda { 3072 } else { 512 }, epochs: [epochs; 2], floor: None };
    let (ours, peer) = (sides.ours(&case, epochs)?, sides.torch(&case, epochs, parts)?);
    let mut out = format!(
        "{SEEDS} seeds of each, batch {}, {epochs} epochs: mean and 95 % bootstrap interval.\n\n\
         | after epoch | loss, ours | loss, PyTorch | MCC, ours | MCC, PyTorch | overlap |\n| --- | --- | --- | --- | --- | --- |\n",
        case.batch
    );
    for epoch in LOOKED_AT {
        let of = |seen: &SideResult, which: usize| -> Vec<f64> {
            seen.curves.iter().filter_map(|c| c.get(epoch - 1)).map(|e| e[which]).collect()
        };
        let _ = write!(out, "| {epoch} |");
        let mut overlap = true;
        for which in 0..2 {
            let (a, b) = (bootstrap(&of(&ours, which))?, bootstrap(&of(&peer, which))?);
            overlap &= a[1] <= b[2] && b[1] <= a[2];
            for [mean, low, high] in [a, b] {
                let _ = write!(out, " {mean:.4} [{low:.4}, {high:.4}] |");
            }
        }
        let _ = writeln!(out, " {} |", if overlap { "yes" } else { "**no**" });
    }
    out.push('\n');
    Ok(out)
}

/// Mean, and the 95 % percentile interval of 10,000 resampled means, from fixed random numbers.
fn bootstrap(values: &[f64]) -> Result<[f64; 3]> {
    if values.len() != SEEDS || values.iter().any(|v| !v.is_finite()) {
        return Err(format!("a curve is not whole: {values:?}."));
    }
    let n = values.len();
    let mut random = random::SplitMix::new(1);
    let mut means: Vec<f64> =
        (0..10_000).map(|_| (0..n).map(|_| values[random.below(n)]).sum::<f64>() / n as f64).collect();
    means.sort_by(f64::total_cmp);
    Ok([values.iter().sum::<f64>() / n as f64, means[249], means[9_749]])
}

/// The archive, made once and kept.
fn windows(python: &Path, samples: usize) -> Result<PathBuf> {
    let folder = cache::folder()?.join("inputs");
    cache::make(&folder)?;
    let file = folder.join(format!("windows-v1-{samples}.npz"));
    if !file.exists() {
        println!("making {}", file.display());
        let draft = folder.join(format!("draft-{}.npz", std::process::id()));
        let maker = root().join("bench/peers/make_windows.py");
        output(command(python).arg(maker).arg(samples.to_string()).arg(&draft))?;
        fs::rename(&draft, &file).map_err(|e| format!("{}: {e}.", draft.display()))?;
    }
    fs::read(&file).map_err(|e| format!("{}: {e}.", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::bootstrap;

    #[test]
    fn intervals_hold_the_mean_and_grow_with_the_spread() {
        let [mean, low, high] = bootstrap(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(mean, 3.0);
        assert!((1.6..2.2).contains(&low) && (3.8..4.4).contains(&high), "{low} {high}");
        assert_eq!(bootstrap(&[7.0; 5]).unwrap(), [7.0; 3]);
        assert!(bootstrap(&[1.0, f64::NAN, 1.0, 1.0, 1.0]).is_err());
    }
}
