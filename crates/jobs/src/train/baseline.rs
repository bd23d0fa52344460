//! What a searcher stands beside at equal wall-clock time: the same net on the same folds and seeds, trained by PPO for
//! as many seconds.
//!
//! A root takes many times as long as a step of PPO, so a search that improves on its own net may still be a poor use
//! of the time. The baseline is a run and a trial of its own, with PPO's own defaults where a setting means another
//! thing there (accounts, steps, minibatch, rate, precision). How many steps fit into the seconds is timed, as
//! `--budget` does it, so it differs from machine to machine and is no part of what a seed repeats. Patience does not
//! end it.

use super::{Train, TrainEvent, TrainRun, train_alone};
use crate::{SearchSettings, Settings};
use files::{Error, Kind, Result, format_fixed, format_seconds};
use judge::backtest::{Backtest, Line};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
/// The share of the seconds that is planned for, as of a budget.
const HEADROOM: f64 = 0.9;

/// Seconds that a run was trained and validated for.
fn trained_seconds(run: &TrainRun) -> f64 {
    let own = run.phases.iter().filter(|phase| ["train", "validate"].contains(&phase.name));
    own.map(|phase| phase.seconds).sum()
}

/// Trains the baseline of a searcher that has just been trained.
pub(super) fn train_baseline(
    request: &Train,
    settings: &Settings,
    run: &TrainRun,
    tell: &mut (dyn FnMut(TrainEvent<'_>) + Send),
) -> Result<Baseline> {
    if request.resume {
        let what = "the run went on from a checkpoint, and how long it had trained before is not known";
        return Err(Error::new(Kind::State, what));
    }
    let (search_seconds, mut own) = (trained_seconds(run), ppo_settings(settings, run)?);
    let folder = format!("{}-ppo", run.folder.as_deref().unwrap_or("search"));
    let mut request = Train {
        out: Some(PathBuf::from(folder)),
        dry_run: true,
        budget: None,
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
        timesteps = (HEADROOM * timesteps as f64 * search_seconds / estimate).clamp(1.0, 1e10) as usize;
    }
    own.ppo.timesteps = Some(timesteps);
    request.dry_run = false;
    let trained = train_alone(&request, &own, tell)?;
    let Some(backtest) = trained.backtest.as_ref().filter(|_| !trained.interrupted) else {
        return Err(Error::new(Kind::Interrupted, "it was stopped before it was judged"));
    };
    Ok(Baseline {
        folder: trained.folder.clone().unwrap_or_default(),
        search_seconds,
        seconds: trained_seconds(&trained),
        timesteps: timesteps as u64,
        line: line(backtest),
    })
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
    (own.train.epochs, own.train.patience) = (Settings::default().train.epochs, PATIENCE);
    Ok(own)
}

/// Validations without a better score, more than there are.
const PATIENCE: usize = 1_000_000;

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
