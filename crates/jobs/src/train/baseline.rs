//! What a searcher stands beside at equal wall-clock time: the same net on the same folds and seeds, trained by PPO for
//! as many seconds.
//!
//! A root takes many times as long as a step of PPO, so a search that improves on its own net may still be a poor use
//! of the time. The baseline is a run and a trial of its own, with PPO's own defaults where a setting means another
//! thing there (accounts, steps, minibatch, rate, precision). How many steps fit into the seconds is timed, as
//! `--budget` does it, so it differs from machine to machine and is no part of what a seed repeats. Patience does not
//! end it. A budget is for both, half of it for the search. Of a run that went on, the seconds of all its sessions
//! count, as its log has them. A baseline that is stopped goes on with the run that it stands beside.

use super::{Train, TrainEvent, TrainRun, read_result, stored_request, train_alone};
use crate::{SearchSettings, Settings};
use files::time::{Order, parse};
use files::{Error, Kind, Result, format_fixed, format_seconds};
use judge::backtest::{Backtest, Line};
use report::{Row, Run, RunState, log_path, read_log};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// PPO that was trained for as long as a searcher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Its run folder.
    pub folder: String,
    /// Seconds that the searcher was trained and validated for.
    pub search_seconds: f64,
    /// The same of the baseline.
    pub seconds: f64,
    /// Steps of a member.
    pub timesteps: u64,
    /// What it earned on the same test blocks.
    pub line: Line,
}

impl Baseline {
    /// What it earned, and in which time.
    pub(super) fn note(&self) -> String {
        let [own, search] = [self.seconds, self.search_seconds].map(format_seconds);
        format!(
            "PPO with the same net, folds and seeds earned {} % in {own} of training, the search was trained for \
             {search}: {}",
            format_fixed(100.0 * self.line.total_return, 1),
            self.folder
        )
    }
}

/// Steps whose time is estimated.
const TIMED: usize = 1 << 20;
/// Steps of a member at most.
const MOST_TIMESTEPS: f64 = 1e10;
/// The share of the seconds that is planned for, as of a budget.
const HEADROOM: f64 = 0.9;

/// Seconds that a run was trained and validated for.
fn trained_seconds(run: &TrainRun) -> f64 {
    let own = run.phases.iter().filter(|phase| COUNTED.contains(&phase.name));
    own.map(|phase| phase.seconds).sum()
}

/// The phases that count.
const COUNTED: [&str; 2] = ["train", "validate"];

/// The same of all sessions of a run, by the rows of its log. A session that was killed has no phases: what it trained
/// up to its last checkpoint is what the next one went on from.
fn seconds_of_sessions(rows: &[Row]) -> f64 {
    let (mut all, mut began, mut saved) = (0.0, None, None);
    for row in rows {
        match (row.kind.as_str(), row.fields.get("phases").and_then(|phases| phases.as_array())) {
            ("started" | "resumed", _) => {
                all += seconds_between(began.take(), saved.take());
            }
            ("phase", _) if row.text("name") == Some("train") => began = Some(&row.time),
            ("saved", _) => saved = Some(&row.time),
            (_, Some(phases)) => {
                let is_counted = |name: &str| COUNTED.contains(&name);
                let own = phases.iter().filter(|phase| phase["name"].as_str().is_some_and(is_counted));
                all += own.filter_map(|phase| phase["seconds"].as_f64()).sum::<f64>();
                (began, saved) = (None, None);
            }
            _ => {}
        }
    }
    all + seconds_between(began, saved)
}

/// Seconds from one time of a log to another; 0 where one of both is missing.
fn seconds_between(from: Option<&String>, to: Option<&String>) -> f64 {
    let at = |time: &String| Some(parse(time.as_bytes(), Order::Ymd)?.ns);
    let span = from.and_then(at).zip(to.and_then(at)).map_or(0, |(from, to)| to - from);
    span.max(0) as f64 / 1e9
}

/// Trains the baseline of a searcher that has just been trained.
pub(super) fn train_baseline(
    request: &Train,
    settings: &Settings,
    run: &TrainRun,
    tell: &mut (dyn FnMut(TrainEvent<'_>) + Send),
) -> Result<Baseline> {
    let search_seconds = match run.folder.as_deref().filter(|_| request.resume) {
        Some(folder) => seconds_of_sessions(&read_log(&log_path(Path::new(folder)))?),
        None => trained_seconds(run),
    };
    let mut own = ppo_settings(settings, run)?;
    let folder = format!("{}-ppo", run.folder.as_deref().unwrap_or("search"));
    if request.resume && Path::new(&folder).join("run.json").exists() {
        return resume(Path::new(&folder), settings, search_seconds, tell);
    }
    let mut request = Train {
        out: Some(PathBuf::from(folder)),
        dry_run: true,
        budget: None,
        resume: false,
        release_holdout: false,
        ..request.clone()
    };
    let mut timesteps = TIMED;
    // How many accounts there are, and so the pace, may follow from the steps.
    for _ in 0..2 {
        own.ppo.timesteps = Some(timesteps);
        let planned = train_alone(&request, &own, &mut |_| {})?;
        let Some(estimate) = planned.estimate_seconds.filter(|seconds| *seconds > 0.0) else {
            return Err(Error::new(Kind::State, "its steps could not be timed"));
        };
        timesteps = (HEADROOM * timesteps as f64 * search_seconds / estimate).clamp(1.0, MOST_TIMESTEPS) as usize;
    }
    own.ppo.timesteps = Some(timesteps);
    request.dry_run = false;
    let trained = train_alone(&request, &own, tell)?;
    let Some(backtest) = trained.backtest.as_ref().filter(|_| !trained.interrupted) else {
        return Err(stopped());
    };
    Ok(Baseline {
        folder: trained.folder.clone().unwrap_or_default(),
        search_seconds,
        seconds: trained_seconds(&trained),
        timesteps: timesteps as u64,
        line: line(backtest),
    })
}

/// Goes on with a baseline that was stopped; one that is finished is only read.
fn resume(
    folder: &Path,
    pace: &Settings,
    search_seconds: f64,
    tell: &mut (dyn FnMut(TrainEvent<'_>) + Send),
) -> Result<Baseline> {
    let state = Run::read(folder)?;
    let (request, settings) = stored_request(folder, &state)?;
    let timesteps = settings.ppo.timesteps.unwrap_or_default() as u64;
    if state.state != RunState::Finished && train_alone(&request, &settings.with_pace(pace), tell)?.interrupted {
        return Err(stopped());
    }
    let backtest: Backtest = serde_json::from_value(read_result(folder)?["backtest"].take())
        .map_err(|e| Error::new(Kind::State, format!("it holds no backtest: {e}")).at(&folder.join("result.json")))?;
    Ok(Baseline {
        folder: folder.display().to_string(),
        search_seconds,
        seconds: seconds_of_sessions(&read_log(&log_path(folder))?),
        timesteps,
        line: line(&backtest),
    })
}

fn stopped() -> Error {
    Error::new(Kind::Interrupted, "it was stopped before it was judged")
}

/// The settings of PPO on what the search was trained on.
fn ppo_settings(settings: &Settings, run: &TrainRun) -> Result<Settings> {
    let mut own = settings.clone();
    own.set("train.learner=ppo")?;
    own.search = SearchSettings::default();
    (own.ppo.n_envs, own.ppo.n_steps) = (None, None);
    (own.classify.batch, own.classify.rate, own.train.precision) = (None, None, None);
    own.classify.net = Some(run.net.clone());
    (own.train.seeds, own.split.folds) = (run.seeds as usize, Some(run.folds.len()));
    (own.train.epochs, own.train.patience) = (None, Some(PATIENCE));
    Ok(own)
}

/// Updates without a better score: the most that may be set, and more than there are. An update has the accounts and
/// steps of the rule, 1,024 rows at least.
const PATIENCE: usize = 1 << 30;
const _: () = assert!(PATIENCE as f64 > MOST_TIMESTEPS / 1024.0);

fn line(backtest: &Backtest) -> Line {
    let net = &backtest.net;
    Line {
        name: "PPO, trained as long".into(),
        total_return: net.total_return,
        sharpe_annual: net.sharpe_annual.or(net.sharpe_annual_uncorrected),
        trades: net.round_trips.count,
        knows_the_future: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn all_sessions_of_a_run_count_as_far_as_they_were_kept() {
        let row = |second: u32, kind: &str, more: Value| {
            let mut row = json!({"time": format!("2026-11-15T10:00:{second:02}.500Z"), "kind": kind});
            row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<Row>(row).unwrap()
        };
        let phases = |train: f64, validate: f64| {
            json!({"phases": [{"name": "read", "seconds": 9.0}, {"name": "train", "seconds": train},
                {"name": "validate", "seconds": validate}, {"name": "judge", "seconds": 7.0}]})
        };
        let training = json!({"name": "train"});
        let session =
            |second: u32, kind: &str| vec![row(second, kind, json!({})), row(second, "phase", training.clone())];
        // Killed after its second checkpoint, before its first, stopped, and done.
        let killed = [
            session(0, "started"),
            vec![row(3, "saved", json!({})), row(5, "saved", json!({})), row(8, "note", json!({}))],
        ];
        let early = [session(10, "resumed"), vec![row(19, "note", json!({}))]];
        let stopped =
            [session(20, "resumed"), vec![row(23, "saved", json!({})), row(24, "interrupted", phases(2.0, 1.0))]];
        let done = [session(30, "resumed"), vec![row(33, "saved", json!({})), row(44, "finished", phases(4.0, 0.5))]];
        let of = |sessions: &[&[Vec<Row>; 2]]| {
            let rows: Vec<Row> = sessions.iter().flat_map(|own| own.concat()).collect();
            seconds_of_sessions(&rows)
        };
        assert_eq!(of(&[&done]), 4.5);
        assert_eq!(of(&[&killed, &early, &stopped, &done]), 5.0 + 0.0 + 3.0 + 4.5);
        assert_eq!((of(&[&killed]), of(&[])), (5.0, 0.0));
    }
}
