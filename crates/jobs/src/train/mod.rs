//! `train`: from bars or ready arrays to a judged population of classifiers in a run folder.
//!
//! It reads as it runs: read, lay out the folds, plan, write the trial into the ledger, train with checkpoints, predict
//! what was never trained on, judge, save the model. A run that was cut goes on from its last checkpoint and ends with
//! the same bits.

mod arrays;
pub(crate) mod choose;
mod estimate;
mod figures;
mod folder;
mod judged;
mod log;
mod model;
mod phases;
mod predict;
mod problem;
mod selftest;
mod source;
mod trial;

pub(crate) use folder::asked;
pub use judge::Judged;
pub use judged::{ConfigRow, MemberRow};
pub use phases::Phase;
pub use predict::{Predict, Predicted, model_settings, predict};
pub use selftest::{SelfCase, SelfTest, SelfTested, selftest};
pub(crate) use source::{Ids, Source, read};

use crate::progress::{Update, stop_flag};
use crate::tune::{Tuned, find};
use crate::{LabelSummary, Select, Settings, home};
use compute::population::{Precision, Score};
use compute::{Budget, Choice, Opened};
use estimate::{Looks, fit, long, time};
use figures::{describe, packed};
use files::{Error, Kind, Result};
use folder::Folder;
use judge::measure::Confusion;
use judge::split::{Splits, walk_forward};
use judged::Selection;
use learn::classify::{Classify, Config, Hooks, News, Plan, Query, Saved, Trained, plan};
use learn::failed;
use phases::Phases;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Which kind of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Learner {
    /// Two windows, two LSTMs, and a row.
    Lstm,
    /// Indicators of one row.
    Mlp,
}

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
}

/// Told while it runs.
pub enum Told<'a> {
    /// How far it is.
    Update(Update),
    /// Something worth a line.
    Line(&'a str),
}

/// Where that goes.
pub(crate) type Teller<'a> = &'a mut (dyn FnMut(Told<'_>) + Send);

/// What was trained, or would be.
#[derive(Debug, Clone, Serialize)]
pub struct TrainRun {
    /// The run folder; null for a dry run.
    pub folder: Option<String>,
    /// What was read.
    pub data: String,
    /// `lstm` or `mlp`.
    pub learner: Learner,
    /// As text.
    pub net: String,
    /// Of one member.
    pub parameters: u64,
    /// Columns of each input.
    pub columns: Vec<u64>,
    /// Rows with a label and whole windows.
    pub samples: u64,
    /// Share of each class among them.
    pub balance: Vec<f64>,
    /// How labels were made; null for ready arrays.
    pub label: Option<LabelSummary>,
    /// In words.
    pub device: String,
    /// `f32`, `tf32` or `bf16`.
    pub precision: Precision,
    /// Rows of a batch.
    pub batch: u64,
    /// Parts that a batch goes through the net in, because the memory does not do for a whole one; 1 where it does.
    pub parts: u64,
    /// Before the schedule.
    pub rate: f64,
    /// At most.
    pub epochs: u64,
    /// Epochs without a better score.
    pub patience: u64,
    /// Of the walk forward.
    pub folds: Vec<FoldRow>,
    /// When the locked part begins; null without one.
    pub holdout_from: Option<String>,
    /// The split, drawn.
    pub picture: String,
    /// Members of each fold and config.
    pub seeds: u64,
    /// What was tried, where it was more than one config.
    pub configs: Vec<ConfigRow>,
    /// Trained at once, group after group.
    pub groups: Vec<u64>,
    /// What the largest group takes on the device.
    pub memory_bytes: u64,
    /// What all epochs would take at most, from steps that were timed; null where nothing was timed.
    pub estimate_seconds: Option<f64>,
    /// Samples trained on a second, all members together.
    pub samples_per_s: Option<f64>,
    /// A line for each member; empty for a dry run.
    pub members: Vec<MemberRow>,
    /// On test samples, members of a fold averaged, of several configs the one that was chosen for the fold; null for a
    /// dry run and after an interruption.
    pub judged: Option<Judged>,
    /// Where the time went.
    pub phases: Vec<Phase>,
    /// What limited it, in words.
    pub verdict: String,
    /// From start to end.
    pub seconds: f64,
    /// Whether it was stopped; `runs resume` goes on.
    pub interrupted: bool,
    /// What there is to know.
    pub notes: Vec<String>,
}

/// A fold in figures.
#[derive(Debug, Clone, Serialize)]
pub struct FoldRow {
    /// From 1.
    pub fold: usize,
    /// Samples.
    pub train: u64,
    /// Samples.
    pub valid: u64,
    /// Samples.
    pub test: u64,
    /// Samples left out because their labels reach into a later part.
    pub purged: u64,
    /// When its training begins.
    pub train_from: String,
    /// When its training ends.
    pub train_to: String,
    /// When its validation begins.
    pub valid_from: String,
    /// When its validation ends.
    pub valid_to: String,
    /// When its test begins.
    pub test_from: String,
    /// When its test ends.
    pub test_to: String,
}

/// Trains.
pub fn train(request: &Train, settings: &Settings, tell: Teller<'_>) -> Result<TrainRun> {
    let mut settings = settings.clone();
    let mut phases = Phases::start();
    let source = read(request, &settings, &mut |u| tell(Told::Update(u)))?;
    let [reading, computing] = source.seconds;
    phases.end(0.0, &[("read", reading), ("features", computing)]);

    let choice: Choice = request.device.parse().map_err(|e: compute::Error| Error::new(Kind::Usage, e.to_string()))?;
    let (mut device, mut said) = Opened::new(choice, settings.threads()).map_err(failed)?;
    let mut notes = source.notes.clone();
    notes.extend(settings.overruled());
    // A run that goes on has its recipe in its own settings; what was tuned since is not for it.
    let asks = settings.train.tuned
        && settings.classify.batch.is_none()
        && !settings.has_candidates("batch")
        && !request.resume;
    let tuned = if asks { find(&source, &settings, &device, &mut notes) } else { None };
    if let Some(tuned) = &tuned {
        let before = settings.threads();
        notes.push(take(tuned, &mut settings, &mut device));
        if let Opened::Cpu { threads } = &device {
            said = said.replacen(&format!("{before} threads"), &format!("{threads} threads"), 1);
        }
    }
    let at_once = tuned.as_ref().and_then(|t| t.recipe.members_at_once).unwrap_or(usize::MAX);
    let budget = memory(&settings, &device);
    let mut splits = split(&source, &settings)?;
    let worth = |score: &Score| worth(score);
    let mut how = classify(&source, &splits, &settings, &device, &worth);
    let mut laid = plan(&source.problem, &splits.folds, &how, &device, budget)?;
    laid.at_once(&source.problem, &how, &device, at_once)?;
    let mut estimate = None;
    if request.dry_run || request.budget.is_some() {
        let before = notes.len();
        estimate = time(&source, &laid, &how, &device, budget)?;
        if let Some(most) = request.budget
            && let Some(said) = estimate.and_then(|need| fit(most.as_secs_f64(), need, &mut settings))
        {
            notes.push(said);
            splits = split(&source, &settings)?;
            how = classify(&source, &splits, &settings, &device, &worth);
            laid = plan(&source.problem, &splits.folds, &how, &device, budget)?;
            laid.at_once(&source.problem, &how, &device, at_once)?;
            estimate = time(&source, &laid, &how, &device, budget)?;
        }
        notes.extend(estimate.and_then(long));
        // Said before anything of it is done, and again at the end.
        notes[before..].iter().filter(|_| !request.dry_run).for_each(|said| tell(Told::Line(said)));
    }
    let mut run = describe(&source, &splits, &laid, &how, &settings, said);
    notes.extend(laid.said(&how));
    (run.notes, run.estimate_seconds) = (notes, estimate);
    if request.dry_run {
        (run.phases, run.verdict) = phases.finish(matches!(device, Opened::Cuda(_)));
        run.seconds = run.phases.iter().map(|p| p.seconds).sum();
        return Ok(run);
    }

    // Written down as it came out: the same settings give the same bits, whatever is tuned later.
    if !settings.has_candidates("batch") {
        settings.classify.batch = Some(how.recipe.batch);
    }
    // As seen from anywhere: a run may go on from another folder.
    for path in [&mut settings.universe.membership, &mut settings.universe.factors].into_iter().flatten() {
        *path = std::path::absolute(&*path).unwrap_or(path.clone());
    }
    let mut folder = Folder::open(request, &settings, &source, &how, &splits, &device)?;
    folder.recipe(&how, tuned.as_ref());
    run.folder = Some(folder.path().display().to_string());
    let from = folder.saved(&mut |line| tell(Told::Line(line)))?;
    // A run that goes on keeps to its parts, whatever there is to spare by now.
    let before = folder.pace(from.as_ref());
    if before.parts > laid.pace.parts {
        laid = laid.at(&source.problem, &how, &device, budget, before)?;
        packed(&mut run, &laid, &how);
        run.notes.extend(laid.said(&how));
    } else if from.is_some() && laid.pace.parts > before.parts {
        run.notes.push("the memory asks for more parts than the run began with: the order of sums changes here".into());
    }
    if let Some(said) = laid.said(&how) {
        tell(Told::Line(&said));
    }
    run.phases = phases.so_far().to_vec();
    folder.begin(&run, &settings, &source, &splits)?;
    let outcome = in_folder(
        &mut folder,
        &source,
        &laid,
        &how,
        &device,
        budget,
        from,
        settings.train.checkpoint as u32,
        run.estimate_seconds.is_none(),
        &mut phases,
        tell,
    );
    let (outcome, samples_per_s) = match outcome {
        Ok(done) => done,
        Err(why) => {
            folder.failed(&why);
            return Err(why);
        }
    };
    run.samples_per_s = samples_per_s;
    run.interrupted = outcome.interrupted;
    run.parts = outcome.pace.count(how.recipe.batch) as u64;
    let judging = phases.seconds();
    let clock = Instant::now();
    let symbols = source.ids.symbol_numbers(&source.problem.samples.rows);
    let truth = judged::truth(&source, &splits, &symbols);
    if outcome.interrupted {
        run.members = judged::member_rows(&truth, &outcome.members, &vec![Vec::new(); outcome.members.len()])?;
    } else {
        tell(Told::Update(Update { phase: "judging", done: 0, total: 0, unit: "" }));
        folder.parts().0.phase("judge")?;
        let test = |fold: usize| -> Vec<u32> {
            splits.folds[fold].test.iter().map(|at| source.problem.samples.rows[*at as usize]).collect()
        };
        let probabilities = predictions(&source, &laid, &how, &device, budget, &outcome.members, &test)?;
        run.members = judged::member_rows(&truth, &outcome.members, &probabilities)?;
        let members = judged::judge_members(&outcome.members, &probabilities);
        let (configs, folds) = (how.configs(), splits.folds.len());
        let selected = judge::select_configs(&members, configs, folds);
        let volatility = judged::volatility_baseline(&source, &truth)?;
        let judge = |ensemble: &[Vec<f32>]| truth.judge(ensemble, settings.general.seed, volatility);
        run.judged = judge(&judge::ensemble(&members, folds, |fold| selected[fold]))?;
        let mut per_config = Vec::new();
        if configs > 1 {
            let scores = judge::validation_scores(&members, configs, |_| true);
            for (at, row) in run.configs.iter_mut().enumerate() {
                let judged = judge(&judge::ensemble(&members, folds, |_| at))?;
                (row.valid_mcc, row.test_mcc) = (Some(scores[at]), judged.as_ref().map(|j| j.mcc));
                row.chosen = (1..=folds).filter(|fold| selected[fold - 1] == at).collect();
                per_config.push(judged);
            }
        }
        // The ledger first: a result is written there before anybody sees it.
        folder.finished(&run, &per_config)?;
        let selection = Selection { members: &outcome.members, configs: &selected };
        folder.predictions(&source, &splits, selection, &probabilities, settings.threads())?;
        folder.model(&source, &splits, &laid, &how, &settings, selection)?;
    }
    phases.end(judging, &[("judge", clock.elapsed().as_secs_f64())]);
    run.seconds = phases.seconds();
    (run.phases, run.verdict) = phases.finish(matches!(device, Opened::Cuda(_)));
    folder.end(&run)?;
    Ok(run)
}

/// `[members][ids, classes]` what each member says with its best weights on its fold's ids; nothing where it has none.
fn predictions(
    source: &Source,
    plan: &Plan,
    how: &Classify<'_>,
    device: &Opened,
    budget: Budget,
    members: &[Trained],
    ids: &dyn Fn(usize) -> Vec<u32>,
) -> Result<Vec<Vec<f32>>> {
    plan.belongs(&source.problem)?;
    let mut all = vec![Vec::new(); members.len()];
    for config in 0..how.configs() {
        let how = how.of(config);
        let mine = members.iter().enumerate().filter(|(_, m)| m.config == config);
        let mine = mine.filter_map(|(at, m)| Some((at, m, &m.best.as_ref()?.params)));
        let (places, queries): (Vec<usize>, Vec<Query<'_>>) = mine
            .map(|(at, m, params)| (at, Query { id: m.id, scaler: &plan.scalers[m.fold], params, ids: ids(m.fold) }))
            .unzip();
        let said = learn::classify::predict(&source.problem, &how.net, &how.recipe, device, budget, &queries)?;
        places.into_iter().zip(said).for_each(|(at, said)| all[at] = said);
    }
    Ok(all)
}

/// Matthews' correlation of a validation.
fn worth(score: &Score) -> f64 {
    let counts = score.confusion.first().cloned().unwrap_or_default();
    let classes = counts.len().isqrt();
    Confusion::new(classes, counts).map_or(f64::NAN, |c| c.mcc())
}

/// Takes what was tuned into the settings, where they leave it open; what is said about it.
fn take(tuned: &Tuned, settings: &mut Settings, device: &mut Opened) -> String {
    let recipe = &tuned.recipe;
    settings.classify.batch = Some(recipe.batch);
    let usual = choose::precision(matches!(device, Opened::Cuda(_)));
    if settings.train.precision.is_none() && recipe.precision != usual {
        settings.train.precision = Some(recipe.precision);
    }
    let mut taken = format!("batch {}", recipe.batch);
    if let (Opened::Cpu { threads }, None, Some(tuned)) = (device, settings.general.threads, recipe.threads) {
        *threads = tuned.min(*threads);
        taken += &format!(", threads {threads}");
    }
    if let Some(most) = recipe.members_at_once {
        taken += &format!(", members at once {most}");
    }
    let day: String = tuned.at.chars().take(10).collect();
    format!("tuned on {day}: {taken} (--no-tuned goes by the rule instead)")
}

/// The memory that may be taken of the device: what was said, of the host's memory on a processor, of its own on a
/// card. Where nothing was, half of what the host has available, or 80 % of what is free on the card.
pub(crate) fn memory(settings: &Settings, device: &Opened) -> Budget {
    match (settings.general.memory, device) {
        (memory, Opened::Cpu { .. }) => Budget::Bytes(memory.bytes()),
        (crate::Memory::Auto, Opened::Cuda(_)) => Budget::default(),
        (memory, Opened::Cuda(_)) => memory.to_string().parse().unwrap_or_default(),
    }
}

/// The walk forward that the settings ask for.
pub(crate) fn split(source: &Source, settings: &Settings) -> Result<Splits> {
    let how = problem::walk(settings, source.ticks.len(), source.look_back);
    walk_forward(&source.problem.samples, &source.ticks, &how)
}

/// How the members are trained.
pub(crate) fn classify<'a>(
    source: &Source,
    splits: &Splits,
    settings: &Settings,
    device: &Opened,
    worth: &'a (dyn Fn(&Score) -> f64 + Sync),
) -> Classify<'a> {
    let samples = splits.folds.iter().map(|f| f.train.len()).min().unwrap_or(0);
    let config = |((_, own), net): (&(String, Settings), &compute::Net)| {
        let recipe = choose::recipe(own, samples, matches!(device, Opened::Cuda(_)));
        Config { net: net.clone(), rate: choose::rate(&own.classify, recipe.batch), recipe }
    };
    let mut others: Vec<Config> = settings.configs().iter().zip(&source.nets).map(config).collect();
    let Config { net, recipe, rate } = others.remove(0);
    Classify {
        net,
        recipe,
        rate,
        others,
        epochs: settings.train.epochs as u32,
        patience: settings.train.patience as u32,
        seeds: settings.train.seeds as u32,
        balance: settings.classify.balance,
        worth,
    }
}

/// So long it trains before it knows how long all of it takes.
const KNOWS: Duration = Duration::from_secs(2);

/// The training itself, told to the folder and to the user; where nothing was timed before, it says as soon as it knows
/// that it takes long.
#[expect(clippy::too_many_arguments, reason = "a run has many parts, and they meet here")]
fn in_folder(
    folder: &mut Folder,
    source: &Source,
    plan: &Plan,
    how: &Classify<'_>,
    device: &Opened,
    budget: Budget,
    from: Option<Saved>,
    every: u32,
    mut untold: bool,
    phases: &mut Phases,
    tell: Teller<'_>,
) -> Result<(learn::classify::Outcome, Option<f64>)> {
    let since = phases.seconds();
    let began = Instant::now();
    let total = plan.left(how, from.as_ref());
    let stop = stop_flag();
    let (log, writer) = folder.parts();
    let (mut shown, mut all, mut group_samples, mut wrong) = (None::<Instant>, 0u64, 0u64, None);
    // A checkpoint that could not be written, until it is told.
    let unsaved = std::cell::Cell::new(None::<Error>);
    let mut looks = Looks::default();
    let news = &mut |news: News<'_>| {
        let now = Instant::now();
        looks.take(&news, now);
        match &news {
            News::Samples(n) => {
                all += n - group_samples;
                group_samples = *n;
                tell(Told::Update(Update { phase: "training", done: all.min(total), total, unit: "samples" }));
            }
            News::Group { .. } => group_samples = 0,
            News::Saved => {
                if let Some(why) = unsaved.take() {
                    tell(Told::Line(&format!("{why}; training goes on")));
                }
            }
            _ => {}
        }
        if untold && looks.enough(now, KNOWS) {
            untold = false;
            let left = looks.rate().map_or(0.0, |rate| total.saturating_sub(all) as f64 / rate);
            if let Some(said) = long(left) {
                wrong = log.note(&said).err().or(wrong.take());
                tell(Told::Line(&said));
            }
        }
        let rate = all as f64 / began.elapsed().as_secs_f64().max(1e-9);
        let aloud = matches!(news, News::Less(_));
        match log.looked(|| phases.latest()).and_then(|()| log.take(&news, rate)) {
            Ok(Some(line)) if aloud || shown.is_none_or(|t| t.elapsed() > Duration::from_secs(5)) => {
                tell(Told::Line(&format!("{line}{}", busy(phases.latest()))));
                shown = Some(Instant::now());
            }
            Ok(_) => {}
            // Training goes on without its log; the end says so.
            Err(why) => wrong = Some(why),
        }
    };
    let mut save = |saved: &Saved| {
        unsaved.set(writer.save(saved)?);
        Ok(())
    };
    let outcome = learn::classify::train(
        &source.problem,
        plan,
        how,
        device,
        budget,
        from,
        &mut Hooks { news, stop: &|| stop.load(Ordering::Relaxed), save: &mut save, every },
    )?;
    writer.wait()?;
    if let Some(why) = wrong {
        tell(Told::Line(&format!("the log could not be written: {why}")));
    }
    let spent = outcome.spent;
    phases.end(
        since,
        &[("setup", spent.setup), ("train", spent.train), ("validate", spent.validate), ("save", spent.save)],
    );
    let rate = (spent.train > 0.0).then(|| all as f64 / spent.train);
    Ok((outcome, rate))
}

/// How full the machine is, to be put behind a line.
fn busy(sample: Option<machine::Sample>) -> String {
    let Some(sample) = sample else { return String::new() };
    let gpu = sample.gpus.first().and_then(|g| g.busy_percent).map_or(String::new(), |g| format!(", GPU {g:.0} %"));
    format!("{gpu}, CPU {:.0} %", sample.cpu_mean_percent())
}

/// Of one member, padding left out.
pub(crate) fn parameters(net: &compute::Net) -> u64 {
    compute::net::Layout::new(net).map_or(0, |l| l.parameters() as u64)
}

/// The folder of ledger and index: home.
pub(crate) fn ledger_path() -> Result<PathBuf> {
    Ok(home()?.join("ledger.sqlite"))
}
