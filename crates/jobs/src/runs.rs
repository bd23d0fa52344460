//! `runs`: which there are, what one is, and going on with one that was cut.

use crate::train::{Teller, TrainRun, asked, train};
use crate::{Memory, Settings};
use files::{Error, Kind, Result};
use report::{RunSummary, read_log};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// The runs of a folder.
#[derive(Debug, Clone, Serialize)]
pub struct RunsListed {
    /// Where they are.
    pub folder: String,
    /// The newest first.
    pub runs: Vec<RunRow>,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct RunRow {
    /// Name of its folder.
    pub name: String,
    /// Its folder.
    pub folder: String,
    /// How it stands, in words.
    pub state: String,
    /// When it began; null where it cannot be read, as what follows.
    pub started: Option<String>,
    /// When it ended; null while it runs.
    pub ended: Option<String>,
    /// How many.
    pub members: Option<u64>,
    /// Which member is best so far.
    pub best: Option<String>,
    /// Its validation correlation.
    pub best_value: Option<f64>,
}

/// A run, looked at closely.
#[derive(Debug, Clone, Serialize)]
pub struct RunShown {
    /// As in the list.
    pub run: RunRow,
    /// Epochs that members have done, all together.
    pub epochs: u64,
    /// The last lines of what happened.
    pub last: Vec<String>,
    /// What came out; null before the end.
    pub result: Option<Value>,
}

fn row(summary: &RunSummary) -> RunRow {
    let run = summary.run.as_ref();
    let best = run.and_then(|r| r.best.as_ref());
    RunRow {
        name: summary.name.clone(),
        folder: summary.folder.display().to_string(),
        state: summary.words(),
        started: run.map(|r| r.started.clone()),
        ended: run.and_then(|r| r.ended.clone()),
        members: run.map(|r| r.members),
        best: best.map(|b| format!("{}, epoch {}", b.member, b.epoch)),
        best_value: best.and_then(|b| b.value),
    }
}

/// Lists the runs of a folder.
pub fn runs_list(folder: &Path) -> Result<RunsListed> {
    let runs = report::list(folder)?.iter().map(row).collect();
    Ok(RunsListed { folder: folder.display().to_string(), runs })
}

/// Looks at one run.
pub fn runs_show(folder: &Path) -> Result<RunShown> {
    if !folder.join("run.json").is_file() {
        return Err(Error::input("there is no run here").at(folder).remedy("`fullbore runs list` shows the runs"));
    }
    let rows = read_log(&report::log_path(folder))?;
    let text = std::fs::read_to_string(folder.join("training.log")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let result = std::fs::read(folder.join("result.json")).ok().and_then(|t| serde_json::from_slice(&t).ok());
    Ok(RunShown {
        run: row(&RunSummary::of(folder)),
        epochs: rows.iter().filter(|r| r.kind == "epoch").count() as u64,
        last: lines[lines.len().saturating_sub(8)..].iter().map(|l| (*l).to_string()).collect(),
        result,
    })
}

/// Goes on with a run; threads and memory may be others than before, since they change no bit.
pub fn runs_resume(folder: &Path, pace: &Settings, tell: Teller<'_>) -> Result<TrainRun> {
    if !folder.join("run.json").is_file() {
        return Err(Error::new(Kind::Usage, "there is no run here")
            .at(folder)
            .remedy("`fullbore runs list` shows the runs"));
    }
    let (request, mut settings) = asked(folder)?;
    if pace.threads.is_some() {
        settings.threads = pace.threads;
    }
    if pace.memory != Memory::Auto {
        settings.memory = pace.memory;
    }
    train(&request, &settings, tell)
}
