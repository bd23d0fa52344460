//! `train`: from bars or ready arrays to a judged population in a run folder.
//!
//! It reads as it runs: load, split and plan, open the folder and write the trial into the ledger, fit with
//! checkpoints, judge on what was never trained on, save. A run that was cut goes on from its last checkpoint and ends
//! with the same bits. What differs from learner to learner is in `kinds`.

mod arrays;
mod baseline;
mod estimate;
mod experiment;
mod fit;
mod folder;
mod holdout;
mod judge;
mod log;
mod phases;
mod predict;
mod problem;
mod result;
mod selftest;
mod short;
mod source;
mod trial;

pub use baseline::Baseline;
pub(crate) use experiment::{Experiment, memory_budget, open, split};
pub(crate) use folder::{
    json_text, member_file, read_result, request_of, run_data, started_trials, stored_request, symbol_names, write_json,
};
pub(crate) use holdout::Holdings;
pub use phases::Phase;
pub(crate) use predict::{
    Answer, Asked, Asking, ModelRows, NetAlone, Question, RowsOfFolds, answer, answer_with_classes, ask, bytes_of_row,
    choose_rows, guess, nothing_to_predict, open_for, read_question,
};
pub use predict::{Predict, Predicted, model_settings, predict, run_settings};
pub(crate) use problem::walk as walk_spec;
pub use result::{ConfigRow, FoldRow, Judged, MemberRow, TrainRun, Units};
pub(crate) use selftest::MarketFolder;
pub use selftest::{SelfCase, SelfCheck, SelfTest, SelfTested, selftest};
pub(crate) use source::{Ids, Market, Source, fingerprint, load, load_market, longest};
pub(crate) use trial::labeling_text;

use crate::progress::{Update, counting};
use crate::{ColumnImportance, Select, Settings, home, os};
use baseline::train_baseline;
use compute::Opened;
use files::{Kind, Result};
use fit::{Timed, fit};
use folder::Folder;
use learn::Trained;
use phases::Phases;
use report::{Run, RunState};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What to train on, and where it goes; how is in the settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Train {
    /// What to read.
    pub select: Select,
    /// Features; `None` takes the settings', or the learner's own.
    pub set: Option<String>,
    /// The run folder; `None` is `runs/NAME-LEARNER-DATE`.
    pub out: Option<PathBuf>,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Fit folds, seeds and epochs into this time.
    pub budget: Option<Duration>,
    /// Go on with the run in the folder.
    pub resume: bool,
    /// Make what is locked of these data ordinary data for ever.
    pub release_holdout: bool,
}

/// Reported while it runs.
pub enum TrainEvent<'a> {
    /// How far it is.
    Update(Update),
    /// Something worth a line.
    Line(&'a str),
    /// What will be done, before the first step.
    Plan(&'a TrainRun),
}

/// Where that goes.
pub(crate) type Teller<'a> = &'a mut (dyn FnMut(TrainEvent<'_>) + Send);

/// Trains; a searcher's baseline too, where that is wanted.
pub fn train(request: &Train, settings: &Settings, tell: Teller<'_>) -> Result<TrainRun> {
    let mut run = train_alone(request, settings, tell)?;
    let Some(folder) = run.folder.clone().map(PathBuf::from).filter(|_| !run.interrupted) else { return Ok(run) };
    if !settings.search.baseline || settings.refit.is_some() {
        return Ok(run);
    }
    add_baseline(request, settings, &folder, &mut run, tell)?;
    Ok(run)
}

/// Goes on with the baseline of a run that is itself finished; none where it has one, or wants none.
pub(crate) fn resume_baseline(folder: &Path, pace: &Settings, tell: Teller<'_>) -> Result<Option<TrainRun>> {
    let state = Run::read(folder)?;
    if state.state != RunState::Finished {
        return Ok(None);
    }
    let (request, settings) = stored_request(folder, &state)?;
    let is_there = read_result(folder)?.get("baseline").is_some_and(|own| !own.is_null());
    if !settings.search.baseline || settings.refit.is_some() || is_there {
        return Ok(None);
    }
    let settings = settings.with_pace(pace);
    let planned = Train { dry_run: true, ..request.clone() };
    let mut run = train_alone(&planned, &settings, &mut |_| {})?;
    run.folder = Some(folder.display().to_string());
    add_baseline(&request, &settings, folder, &mut run, tell)?;
    Ok(Some(run))
}

/// Trains the baseline of a run that is saved, and writes it into its result. One that is stopped goes on with the run.
fn add_baseline(
    request: &Train,
    settings: &Settings,
    folder: &Path,
    run: &mut TrainRun,
    tell: Teller<'_>,
) -> Result<()> {
    let mut result = read_result(folder)?;
    match train_baseline(request, settings, run, tell) {
        Ok(baseline) => {
            run.notes.push(baseline.note());
            result["baseline"] = json!(baseline);
            run.baseline = Some(baseline);
        }
        Err(why) if why.kind == Kind::Interrupted => {
            run.interrupted = true;
            return Ok(());
        }
        // The run itself is saved.
        Err(why) => run.notes.push(format!("the baseline was not trained: {why}")),
    }
    if let (Some(notes), Some(note)) = (result["notes"].as_array_mut(), run.notes.last()) {
        notes.push(json!(note));
    }
    write_json(&folder.join("result.json"), &result)?;
    if let Err(why) = crate::report_run(folder) {
        run.notes.push(format!("the report was not written again: {why}"));
    }
    Ok(())
}

/// The same without a baseline.
fn train_alone(request: &Train, settings: &Settings, tell: Teller<'_>) -> Result<TrainRun> {
    let mut phases = Phases::start();
    let sink = &mut |update| tell(TrainEvent::Update(update));
    let mut source = load(&request.select, request.set.as_deref(), settings, sink)?;
    if request.release_holdout && !request.dry_run && source.holdings.release()? {
        source = load(&request.select, request.set.as_deref(), settings, sink)?;
    }
    let [reading, computing] = source.seconds;
    phases.end(0.0, &[("read", reading), ("features", computing)]);
    // A run that goes on has its recipe in its own settings; what was tuned since is not for it.
    let device = open(&request.device, settings)?;
    let mut experiment = Experiment::new(source, settings, device, !request.resume)?;
    let cuda = matches!(experiment.at.device, Opened::Cuda(_));
    let estimate = if experiment.settings.refit.is_some() { None } else { experiment.estimate(request, tell)? };
    let mut run = result::describe(&experiment);
    run.estimate_seconds = estimate;
    if request.dry_run {
        (run.phases, run.verdict) = phases.finish(cuda);
        run.seconds = run.phases.iter().map(|p| p.seconds).sum();
        run.peak_memory_bytes = os::peak_memory();
        return Ok(run);
    }

    experiment.settle();
    let mut folder = Folder::open(request, &experiment)?;
    run.folder = Some(folder.path().display().to_string());
    let from = folder.resume(&mut experiment, &mut run, tell)?;
    run.phases = phases.so_far().to_vec();
    folder.begin(&run, &experiment)?;
    tell(TrainEvent::Plan(&run));
    let timed = Timed { before: estimate.is_some(), budget: request.budget };
    let fitted = fit(&experiment, &mut folder, from, timed, &mut phases, &mut run.notes, tell);
    let (mut outcome, samples_per_s) = fitted.inspect_err(|why| folder.failed(why))?;
    if experiment.settings.refit.is_some() {
        outcome.members.iter_mut().for_each(Trained::keep_last);
    }
    (run.samples_per_s, run.interrupted) = (samples_per_s, outcome.interrupted);
    run.parts = outcome.pace.count(run.batch as usize) as u64;
    experiment.pins.clone_from(&outcome.pins);

    let (since, clock, kind) = (phases.seconds(), Instant::now(), experiment.kind());
    if !outcome.interrupted {
        let mut judge = || judge_and_save(&experiment, &outcome.members, &mut folder, &mut run);
        let judged = match kind.info().counts_decisions {
            true => {
                let tell = &mut |update| tell(TrainEvent::Update(update));
                counting("judging", "decisions", &experiment.judging, tell, judge)
            }
            false => judge(),
        };
        match judged {
            // Nothing is written down before all is judged, and what was trained is saved: a run that goes on is judged
            // from the beginning.
            Err(why) if why.kind == Kind::Interrupted => {
                (run.interrupted, run.judged, run.backtest, run.latency) = (true, None, None, None);
            }
            judged => judged?,
        }
    }
    if run.interrupted {
        run.members = judge::member_rows(&experiment, &outcome.members, |_| Ok((Vec::new(), None)))?;
    }
    phases.end(since, &[("judge", clock.elapsed().as_secs_f64())]);
    run.seconds = phases.seconds();
    run.peak_memory_bytes = os::peak_memory();
    (run.phases, run.verdict) = phases.finish(cuda);
    folder.end(&mut run, kind)?;
    if !run.interrupted {
        // The run is saved: a page that cannot be written is worth a note, and can be made later.
        match crate::report_run(folder.path()) {
            Ok(reported) => run.report = Some(reported.page),
            Err(why) => run.notes.push(format!("the report was not written: {why}")),
        }
    }
    Ok(run)
}

/// Judges members whose training has ended, trades with them, weighs what was found and saves the model.
fn judge_and_save(experiment: &Experiment, members: &[Trained], folder: &mut Folder, run: &mut TrainRun) -> Result<()> {
    folder.parts().0.phase("judge")?;
    let mut judgement = judge::judge(experiment, members)?;
    judgement.write_into(run, experiment.kind().info().metrics);
    run.backtest = judgement.evaluation.trade(&judgement.selected)?;
    run.latency = judgement.evaluation.latency();
    run.importance = judgement.evaluation.importance(&judgement.selected)?;
    run.paths = judgement.evaluation.paths();
    run.market_models = judgement.evaluation.market_models();
    run.notes.extend(judgement.evaluation.notes());
    let sealed = judgement.evaluation.seal(&judgement.selected, folder.trials())?;
    // The ledger first: a result is written there before anybody sees it, and so is what the model is.
    let returns = judgement.evaluation.keep_returns()?;
    folder.finished(run, &judgement.per_config, sealed.as_ref().map(|sealed| sealed.hash.as_str()), &returns)?;
    if let Some((mut found, daily)) = run.judged.as_ref().and_then(|judged| judgement.evaluation.findings(judged)) {
        found.count_columns(&run.importance.iter().map(ColumnImportance::direction).collect::<Vec<_>>());
        run.evidence = Some(folder.weigh(found, &daily)?);
    } else if run.judged.is_some() {
        // Without a verdict, which says it, the count still stands beside the figures.
        run.notes.push(folder.count_trials()?);
    }
    judgement.evaluation.save(&judgement.selected, folder.path(), sealed.as_ref())
}

/// Of one member, padding left out.
pub(crate) fn parameters(net: &compute::Net) -> u64 {
    compute::net::Layout::new(net).map_or(0, |l| l.parameters() as u64)
}

/// The file of the ledger.
pub(crate) fn ledger_path() -> Result<PathBuf> {
    Ok(home()?.join("ledger.sqlite"))
}
