//! `runs`: which there are, what one is, in what two differ, and going on with one that was cut.

mod compare;

pub use compare::{RunDifference, RunsCompared, runs_compare};

use crate::kinds::{Measured, Metric, all_metrics};
use crate::train::{Teller, TrainRun, request_of, resume_baseline, train};
use crate::{HoldoutRecord, Settings, read_holdout};
use files::{Error, Kind, Result};
use learn::checkpoint;
use report::{Row, Run, RunState, RunSummary, read_log};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The runs of a folder.
#[derive(Debug, Clone, Serialize)]
pub struct RunsListed {
    /// Where they are.
    pub folder: String,
    /// The newest first.
    pub runs: Vec<RunRow>,
}

impl RunsListed {
    /// The metric that all of them have their best by; none where learners differ, each with its own.
    pub fn metric(&self) -> Option<&'static Metric> {
        let mut metrics = self.runs.iter().filter_map(RunRow::metric);
        let first = metrics.next().or(all_metrics().next())?;
        metrics.all(|other| other == first).then_some(first)
    }
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
    /// By which metric: `valid mcc`.
    pub best_metric: Option<String>,
    /// Its value.
    pub best_value: Option<f64>,
    /// What it was trained on, by its name.
    pub data: Option<String>,
    /// By name.
    pub learner: Option<String>,
    /// How labels were made; null before the end, as what follows.
    pub labels: Option<String>,
    /// On test samples, over all classes; null where there was not enough data for a verdict.
    pub test_mcc: Option<f64>,
    /// The same where truth and guess both have a direction.
    pub direction_mcc: Option<f64>,
    /// Net of costs, per year; null where nothing was traded.
    pub net_sharpe: Option<f64>,
    /// In words: `no evidence`.
    pub verdict: Option<String>,
}

impl RunRow {
    /// The metric of the best, by the name that a learner declares for it.
    pub fn metric(&self) -> Option<&'static Metric> {
        let name = self.best_metric.as_ref()?.replace(' ', "_");
        all_metrics().find(|metric| metric.name == name)
    }
}

/// A run, looked at closely.
#[derive(Debug, Clone, Serialize)]
pub struct RunShown {
    /// As in the list.
    pub run: RunRow,
    /// Epochs (or what a unit of work is called) that members have done, all together.
    pub epochs: u64,
    /// What a unit of work is called.
    #[serde(skip)]
    pub unit: String,
    /// On test samples, what the run is summed up by; none before the end.
    #[serde(skip)]
    pub judged: Option<Measured>,
    /// The last lines of what happened.
    pub last: Vec<String>,
    /// What came out; null before the end.
    pub result: Option<Value>,
    /// What it is worth on its holdout; null until `fullbore holdout` opened it.
    pub holdout: Option<HoldoutRecord>,
    /// Checkpoints from which it can go on, the newest first.
    pub checkpoints: Vec<CheckpointRow>,
    /// Weights alone: `checkpoints/best` and `checkpoints/last`.
    pub weights: Vec<WeightsRow>,
}

/// A checkpoint.
#[derive(Debug, Clone, Serialize)]
pub struct CheckpointRow {
    /// Its generation.
    pub number: u64,
    /// Whether it is the one that a run goes on from.
    pub last: bool,
    /// `periodic`, or `end` where every member was at its end; null where it cannot be read, as what follows.
    pub kind: Option<String>,
    /// Epochs of the member that was furthest.
    pub epoch: Option<u64>,
    /// Bytes of its parts.
    pub bytes: Option<u64>,
    /// The member with the best validation so far.
    pub best: Option<String>,
    /// Its score.
    pub best_value: Option<f64>,
    /// Why it is not used; null where it is whole.
    pub problem: Option<String>,
}

/// A folder of weights.
#[derive(Debug, Clone, Serialize)]
pub struct WeightsRow {
    /// `best` or `last`.
    pub name: String,
    /// The folder.
    pub folder: String,
    /// Members whose weights are there.
    pub members: u64,
}

/// The checkpoints of a run, each looked at byte by byte; `unit` is what a unit of work is called.
fn checkpoints(folder: &Path, unit: &str) -> Result<Vec<CheckpointRow>> {
    let all = checkpoint::list(folder)?;
    let newest = all.iter().find(|c| c.found.is_ok()).map(|c| c.number);
    let row = |c: checkpoint::Listed| {
        let none = CheckpointRow {
            number: c.number,
            last: newest == Some(c.number),
            kind: None,
            epoch: None,
            bytes: None,
            best: None,
            best_value: None,
            problem: None,
        };
        let found = match c.found {
            Ok(found) => found,
            Err(why) => return CheckpointRow { problem: Some(why), ..none },
        };
        let more = &found.about.more;
        // Older programs wrote a row of every member, and not which is the best.
        let best = more.get("best").map(std::slice::from_ref);
        let members = best.or(more.get("members").and_then(Value::as_array).map(Vec::as_slice)).unwrap_or_default();
        let best = members.iter().filter_map(|m| Some((m["best"].as_f64()?, m)));
        let best = best.max_by(|a, b| a.0.total_cmp(&b.0));
        CheckpointRow {
            kind: more.get("kind").and_then(Value::as_str).map(String::from),
            epoch: Some(found.about.epoch),
            bytes: Some(found.parts().map(|p| p.1).sum()),
            best: best.map(|(_, m)| {
                let config = m["config"].as_u64().map_or(String::new(), |c| format!("config {c}, "));
                format!("{config}fold {}, seed {}, {unit} {}", m["fold"], m["seed"], m["best_epoch"])
            }),
            best_value: best.map(|(value, _)| value),
            ..none
        }
    };
    Ok(all.into_iter().map(row).collect())
}

/// The folders of weights that are there.
fn weights(checkpoints: &Path) -> Vec<WeightsRow> {
    let row = |view: checkpoint::View| {
        let folder = checkpoints.join(view.name());
        let files = std::fs::read_dir(&folder).ok()?.flatten();
        let members = files.filter(|f| f.path().extension().is_some_and(|e| e == "safetensors")).count() as u64;
        Some(WeightsRow { name: view.name().into(), folder: folder.display().to_string(), members })
    };
    checkpoint::View::ALL.into_iter().filter_map(row).collect()
}

fn row(summary: &RunSummary) -> RunRow {
    let run = summary.run.as_ref();
    let best = run.and_then(|r| r.best.as_ref());
    let result = read_result(&summary.folder).unwrap_or(Value::Null);
    let text = |place: &str| result.pointer(place).and_then(Value::as_str).map(String::from);
    let number = |place: &str| result.pointer(place).and_then(Value::as_f64);
    let is_enough = result.pointer("/judged/no_interval").is_none_or(Value::is_null);
    let data = run.and_then(|r| r.more.get("asked")?.get("data")?.as_str()).map(String::from).or(text("/data"));
    RunRow {
        data: data.map(|path| Path::new(&path).file_stem().map_or(path.clone(), |s| s.to_string_lossy().into_owned())),
        learner: text("/learner").or_else(|| {
            let mut settings = Settings::default();
            settings.read(&summary.folder).ok().map(|()| settings.train.learner.name().to_string())
        }),
        labels: text("/label/rule"),
        test_mcc: number("/judged/mcc").filter(|_| is_enough),
        direction_mcc: number("/judged/directional_mcc").filter(|_| is_enough),
        net_sharpe: number("/backtest/net/sharpe_annual").or(number("/backtest/net/sharpe_annual_uncorrected")),
        verdict: text("/evidence/verdict").map(|word| word.replace('-', " ")),
        name: summary.name.clone(),
        folder: summary.folder.display().to_string(),
        state: summary.describe(),
        started: run.map(|r| r.started.clone()),
        ended: run.and_then(|r| r.ended.clone()),
        members: run.map(|r| r.members),
        best: best.map(|b| format!("{}, epoch {}", b.member, b.epoch)),
        best_metric: best.map(|b| b.measure.clone()),
        best_value: best.and_then(|b| b.value),
    }
}

/// What came out, of a run that has ended. Where its holdout was opened, the verdict is the one that was weighed again.
pub(crate) fn read_result(folder: &Path) -> Option<Value> {
    let text = files::read_file(&folder.join("result.json"), 256 << 20).ok()?;
    let mut result: Value = serde_json::from_slice(&text).ok()?;
    if let Some(weighed) = read_holdout(folder).and_then(|held| serde_json::to_value(held.evidence?).ok()) {
        result.as_object_mut()?.insert("evidence".into(), weighed);
    }
    Some(result)
}

/// Lists the runs of a folder.
pub fn runs_list(folder: &Path) -> Result<RunsListed> {
    let runs = report::list_runs(folder)?.iter().map(row).collect();
    Ok(RunsListed { folder: folder.display().to_string(), runs })
}

/// Where runs are, unless a folder is named.
pub(crate) const RUNS: &str = "runs";

/// Whether a run, or a model, is in that folder.
pub(crate) fn is_run(folder: &Path) -> bool {
    ["run.json", "model.json"].iter().any(|file| folder.join(file).exists())
}

/// Finds a run by its folder, or by the name that `runs list` shows; every verb that takes a run takes both.
pub(crate) fn find_run(run: &Path) -> Result<PathBuf> {
    let named = Path::new(RUNS).join(run);
    if let Some(folder) = [run, &named].into_iter().find(|folder| is_run(folder)) {
        return Ok(folder.to_path_buf());
    }
    let error = Error::input("there is no run here, nor under runs/ by that name").at(run);
    let names: Vec<String> = report::list_runs(Path::new(RUNS))?.into_iter().map(|run| run.name).collect();
    let near = bars::nearest(&run.to_string_lossy(), names.iter().map(String::as_str));
    Err(match near {
        Some(near) => error.remedy(format!("did you mean `{near}`? `fullbore runs list` shows the runs")),
        None => error.remedy("`fullbore runs list` shows the runs; `fullbore train DATA` starts one"),
    })
}

/// The folder of a run that has ended well, and what it says of itself; `why` says what is not there before that.
pub(crate) fn finished_run(run: &Path, why: &str) -> Result<(PathBuf, Run)> {
    let folder = find_run(run)?;
    let wrong = |what: &str, remedy: String| Error::new(Kind::State, what).at(&folder).remedy(remedy);
    if !folder.join("run.json").exists() {
        return Err(wrong("this is a model without its run", "give the folder of the run that trained it".into()));
    }
    let run = Run::read(&folder)?;
    if run.state != RunState::Finished {
        let remedy = format!("finish it with `fullbore runs resume {}`", folder.display());
        return Err(wrong(&format!("the run is not finished, so that {why}"), remedy));
    }
    Ok((folder, run))
}

/// Looks at one run.
pub fn runs_show(run: &Path) -> Result<RunShown> {
    let folder = &find_run(run)?;
    let rows = read_log(&report::log_path(folder))?;
    // The name of a unit of work: older programs did not write it.
    let axis = rows.iter().rev().find_map(|r| r.text("axis")).unwrap_or("epoch");
    let text = files::read_file(&folder.join("training.log"), 1 << 30).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let mut run = row(&RunSummary::read(folder));
    run.best = run.best.map(|best| best.replace(", epoch ", &format!(", {axis} ")));
    Ok(RunShown {
        run,
        unit: axis.to_string(),
        judged: judged(&rows),
        epochs: units_done(&rows, axis),
        last: lines[lines.len().saturating_sub(8)..].iter().map(|l| (*l).to_string()).collect(),
        result: read_result(folder),
        holdout: read_holdout(folder),
        checkpoints: checkpoints(&folder.join("checkpoints"), axis)?,
        weights: weights(&folder.join("checkpoints")),
    })
}

/// Units of work of all members, by the last that each was validated after: not every unit has a row.
fn units_done(rows: &[Row], axis: &str) -> u64 {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.kind == axis) {
        let (member, unit) = (row.number("member").unwrap_or(0.0) as u64, row.number(axis).unwrap_or(0.0) as u64);
        let own = last.entry(member).or_default();
        *own = unit.max(*own);
    }
    last.values().sum()
}

/// What the last end of a run says it was judged to be, under the name of some learner's metric.
fn judged(rows: &[Row]) -> Option<Measured> {
    let end = rows.iter().rev().find(|row| row.kind == "finished")?;
    let metric = all_metrics().find(|metric| metric.part == "test" && end.number(metric.name).is_some())?;
    Some(Measured { metric: *metric, value: end.number(metric.name) })
}

/// Goes on with a run, or with the baseline of one that is finished; threads and memory may be others than before,
/// since they change no bit.
pub fn runs_resume(run: &Path, pace: &Settings, tell: Teller<'_>) -> Result<TrainRun> {
    let folder = &find_run(run).map_err(|e| Error { kind: Kind::Usage, ..e })?;
    if let Some(run) = resume_baseline(folder, pace, tell)? {
        return Ok(run);
    }
    let (request, settings) = request_of(folder)?;
    train(&request, &settings.with_pace(pace), tell)
}
