//! The run folder: what was asked, what happens, checkpoints, results. It is a contract: other verbs and other programs
//! read it.
//!
//! `run.json` is the request and how it stands, `settings.toml` the resolved settings, `split.parquet` who learned from
//! what, `log.jsonl`, `training.log` and `events/` what happened, `checkpoints/` from where it can go on,
//! `predictions.parquet` and `model/` what came out, `result.json` what was said at the end. `parts` in `run.json` says
//! in how many parts a batch goes through the net; a run that goes on keeps to what its checkpoint says, before the
//! first one to this.

use super::judge::PerConfig;
use super::log::RunLog;
use super::result::packed;
use super::source::{Ids, Source, name};
use super::trial::{config_hash, noted, trial, word};
use super::{Experiment, Judged, MemberRow, Teller, Train, TrainEvent, TrainRun, ledger_path};
use crate::kinds::{self, manifest::note_in};
use crate::trials::Family;
use crate::{Select, Settings};
use compute::Opened;
use compute::population::Pace;
use files::{Column, Data, Error, Kind, Lock, ParquetWriter, Result, Table, format_plural, replace_bytes};
use judge::evidence::{Evidence, Findings};
use judge::ledger::{Ledger, StartedTrial, Trial};
use judge::split::Splits;
use learn::checkpoint::{About, Store, View, Writer, copy_out, expect, newest};
use learn::{Config, TrainState, Trained};
use report::{Run, RunState};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// The request of a run, kept in `run.json` so that it can go on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Request {
    data: String,
    symbols: Vec<String>,
    from: Option<i64>,
    to: Option<i64>,
    set: Option<String>,
    device: String,
}

/// An open run folder.
pub(crate) struct Folder {
    path: PathBuf,
    run: Run,
    about: About,
    log: RunLog,
    keeper: Keeper,
    ledger: Ledger,
    /// `[configs]` each is a trial.
    trials: Vec<StartedTrial>,
    /// What is tried on what.
    tried: Trial,
    resumed: bool,
    /// That a run goes on with other instructions than it had, and so with other bits.
    other_bits: Option<String>,
    /// Let go last: until then the run is this process's.
    _lock: Lock,
}

/// Hands states over to the writer in the background.
pub(crate) struct Keeper {
    writer: Writer,
    about: About,
}

impl Keeper {
    /// Hands a state over; waits only while the one before is still being written. One that could not be written (a
    /// full disk, say) does not end the training: why is given back to be reported, and this one is tried as usual.
    pub(crate) fn save(&mut self, state: &TrainState, configs: &[Config]) -> Result<Option<Error>> {
        match self.submit(state, configs) {
            Ok(()) => Ok(None),
            Err(why) if matches!(why.kind, Kind::Machine | Kind::Memory) => {
                self.submit(state, configs).map(|()| Some(why))
            }
            Err(why) => Err(why),
        }
    }

    fn submit(&mut self, state: &TrainState, configs: &[Config]) -> Result<()> {
        let mut about = self.about.clone();
        about.epoch = state.members.iter().map(|m| u64::from(m.units())).max().unwrap_or(0);
        about.step =
            state.members.iter().filter_map(|m| m.history.last()).map(|e| u64::from(e.step)).max().unwrap_or(0);
        about.more = standing(state);
        self.writer.submit(about, |staging| {
            state.stage(staging);
            for (view, name, bytes) in weights(state, configs) {
                staging.view(view, name, bytes);
            }
            Ok(())
        })
    }

    /// Waits until everything is written.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.writer.wait().map(|_| ())
    }
}

/// Best and last weights of all members, as files; numbers that are not finite are nobody's.
fn weights(state: &TrainState, configs: &[Config]) -> Vec<(View, String, Vec<u8>)> {
    let best = state.members.iter().filter_map(|m| Some((View::Best, m, m.best.as_ref()?.params.as_slice())));
    let ended = state.members.iter().filter_map(|m| Some((View::Last, m, m.last.as_ref()?.params.as_slice())));
    let running = state.running.iter().filter_map(|s| {
        let member = state.members.iter().find(|m| m.id == s.id && m.last.is_none())?;
        Some((View::Last, member, s.weights.as_slice()))
    });
    let finite = best.chain(ended).chain(running).filter(|(_, _, params)| params.iter().all(|x| x.is_finite()));
    let several = configs.len() > 1;
    let file = |m: &Trained| member_file(several.then_some(m.config), m.fold, m.seed);
    let file = |(view, m, params): (View, &Trained, &[f32])| {
        Some((view, file(m), configs.get(m.config)?.weights_file(params).ok()?))
    };
    finite.filter_map(file).collect()
}

/// The file of a member's weights; `config`, from 0, where there are several.
pub(crate) fn member_file(config: Option<usize>, fold: usize, seed: u32) -> String {
    let config = config.map_or(String::new(), |c| format!("config-{}-", c + 1));
    format!("{config}fold-{}-seed-{}.safetensors", fold + 1, seed + 1)
}

/// With more members the manifest has no row of each: it has to stay short enough to be read.
const ROWS: usize = 4096;

/// How members stand, for the manifest: to know it nobody need read a part.
fn standing(state: &TrainState) -> Map<String, Value> {
    let several = state.members.iter().any(|m| m.config > 0);
    let member = |m: &Trained| {
        let mut row = json!({
            "fold": m.fold + 1, "seed": m.seed + 1, "epoch": m.units(),
            "best_epoch": m.best.as_ref().map(|b| b.unit), "best": m.best.as_ref().map(|b| b.score),
            "ended": m.stopped.is_some(),
        });
        if several {
            row["config"] = json!(m.config + 1);
        }
        row
    };
    let ended = state.members.iter().filter(|m| m.stopped.is_some()).count();
    let all = state.members.len();
    let score = |m: &&Trained| m.best.as_ref().map_or(f64::NEG_INFINITY, |b| b.score);
    let best = state.members.iter().filter(|m| m.best.is_some());
    let best = best.max_by(|a, b| score(a).total_cmp(&score(b)));
    let mut more = Map::new();
    more.insert("kind".into(), json!(if ended == all { "end" } else { "periodic" }));
    more.insert("count".into(), json!(all));
    more.insert("ended".into(), json!(ended));
    more.insert("best".into(), json!(best.map(member)));
    if all <= ROWS {
        more.insert("members".into(), state.members.iter().map(member).collect());
    }
    more
}

impl Folder {
    /// Makes or opens the folder, locks it, and writes the trial into the ledger before anything is known.
    pub(crate) fn open(request: &Train, experiment: &Experiment) -> Result<Folder> {
        let Experiment { settings, source, splits, learner, at, .. } = experiment;
        let path = match &request.out {
            Some(out) => out.clone(),
            None => fresh(source, settings),
        };
        if !request.resume && path.join("run.json").exists() {
            return Err(Error::new(Kind::State, "there is a run in this folder already")
                .at(&path)
                .remedy(format!("resume it with `fullbore runs resume {}`, or choose another <out>", path.display())));
        }
        std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, "making the run folder", &e))?;
        let lock = Lock::acquire(&path)?;
        let config = &learner.configs()[0];
        let about = About {
            net: config.net.to_string(),
            data: source.fingerprint.clone(),
            config: config_hash(experiment),
            precision: word(config.recipe.precision),
            device: match &at.device {
                device @ Opened::Cpu { .. } => device.name(),
                // Which of several like it is all one.
                Opened::Cuda(context) => context.gpu().name.clone(),
            },
            instructions: match &at.device {
                Opened::Cpu { .. } => compute::cpu_rate::instructions(),
                Opened::Cuda(_) => String::new(),
            },
            ..About::default()
        };
        let ledger = Ledger::open(&ledger_path()?)?;
        let mut other_bits = None;
        let (mut run, trials, resumed) = if request.resume {
            let mut run = Run::read(&path)?;
            other_bits = other_instructions(&noted(&run), &about);
            // Before its first checkpoint a run is what its folder says, and nothing else goes on under its trial.
            expect("the run in this folder", &noted(&run), &run.program, &about).map_err(|e| e.at(&path))?;
            let trials = started_trials(&run, &path)?;
            // Found out now, not when it has trained: another home has another ledger.
            trials.iter().try_for_each(|trial| ledger.expect_started(trial))?;
            run.resume();
            (run, trials, true)
        } else {
            source.holdings.lock(&ledger, splits)?;
            let start = |config: usize| ledger.start(&trial(experiment, config, &path));
            let trials = (0..learner.configs().len()).map(start).collect::<Result<Vec<StartedTrial>>>()?;
            (Run::begin(if settings.refit.is_some() { "refit" } else { "train" }), trials, false)
        };
        run.data.clone_from(&source.fingerprint);
        run.settings.clone_from(&about.config);
        run.members = experiment.plan.members.len() as u64;
        let saved = Request {
            data: std::path::absolute(&source.path).unwrap_or(source.path.clone()).display().to_string(),
            symbols: request.select.symbols.clone(),
            from: request.select.from,
            to: request.select.to,
            // The features themselves: the file they were in may change, and has another path from elsewhere.
            set: match &source.ids {
                Ids::Bars { set, .. } => Some(set.clone()),
                Ids::Ready { .. } => request.set.clone(),
            },
            device: request.device.clone(),
        };
        run.more.insert("asked".into(), json!(saved));
        run.more.insert("held".into(), json!(source.holdings.held));
        if let Some(refit) = &settings.refit {
            run.more.insert("refit".into(), json!(refit));
        }
        let mut words = json!({"net": about.net, "precision": about.precision, "device": about.device});
        if !about.instructions.is_empty() {
            words["instructions"] = json!(about.instructions);
        }
        run.more.insert("about".into(), words);
        let noted = if let [one] = trials.as_slice() { json!(one) } else { json!(trials) };
        run.more.insert("ledger".into(), noted);
        let log = RunLog::open(&path, experiment)?;
        let writer = Writer::new(Store::open(&path.join("checkpoints"))?, &[])?;
        let keeper = Keeper { writer, about: about.clone() };
        let tried = trial(experiment, 0, &path);
        let mut folder =
            Folder { path, run, about, log, keeper, ledger, trials, tried, resumed, other_bits, _lock: lock };
        folder.note_recipe(experiment);
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn trials(&self) -> &[StartedTrial] {
        &self.trials
    }

    /// Takes down what the run is made with, and where it was tuned if it was.
    fn note_recipe(&mut self, experiment: &Experiment) {
        let configs = experiment.learner.configs();
        let recipe = |config: &Config| json!({"rate": config.rate, "recipe": config.recipe});
        self.run.more.insert("recipe".into(), recipe(&configs[0]));
        if configs.len() > 1 {
            let one = |config: &Config| {
                let mut row = recipe(config);
                row["net"] = json!(config.net.to_string());
                row
            };
            self.run.more.insert("configs".into(), configs.iter().map(one).collect());
        }
        if let Some(tuned) = &experiment.tuned {
            self.run.more.insert("tuned".into(), json!(tuned));
        }
    }

    /// The state to go on from, if this is a run that goes on and has one. Such a run keeps to its parts, whatever
    /// there is to spare by now.
    pub(super) fn resume(
        &mut self,
        experiment: &mut Experiment,
        run: &mut TrainRun,
        tell: Teller<'_>,
    ) -> Result<Option<TrainState>> {
        if let Some(note) = self.other_bits.take() {
            tell(TrainEvent::Line(&note));
            run.notes.push(note);
        }
        let from = self.state(experiment, &mut run.notes, &mut |line| tell(TrainEvent::Line(line)))?;
        let Experiment { learner, plan, at, .. } = experiment;
        let before = self.pace(from.as_ref());
        if before.parts > plan.pace.parts {
            *plan = plan.clone().with_pace(&**learner, at, before)?;
            packed(run, plan);
            run.notes.extend(plan.parts_message(&**learner));
        } else if from.is_some() && plan.pace.parts > before.parts {
            let note = "this memory needs more parts per batch than the run started with: the order of sums changes";
            run.notes.push(note.into());
        }
        if let Some(message) = plan.parts_message(&**learner) {
            tell(TrainEvent::Line(&message));
        }
        Ok(from)
    }

    fn state(
        &mut self,
        experiment: &Experiment,
        notes: &mut Vec<String>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<TrainState>> {
        if !self.resumed {
            return Ok(None);
        }
        let Some(generation) = newest(&self.path.join("checkpoints"))? else {
            say("no checkpoint was written yet: training starts from the beginning");
            self.log.afresh(&self.path)?;
            return Ok(None);
        };
        generation.passed.iter().for_each(|why| say(why));
        notes.extend(generation.passed.iter().cloned());
        generation.expect(&self.about)?;
        let learner = &*experiment.learner;
        let state = TrainState::from_parts(&|name| generation.read(name), learner)?;
        copy_out(&self.path.join("checkpoints"), &weights(&state, learner.configs()));
        let (number, unit) = (generation.number, learner.unit());
        say(&format!("resuming from checkpoint {number} ({unit} {})", generation.about.epoch));
        // What was logged after the checkpoint will happen again.
        self.log.cut(&self.path, &state.members)?;
        Ok(Some(state))
    }

    /// In how many parts the run's batches went so far: by its checkpoint, else by what was planned when it began.
    fn pace(&self, from: Option<&TrainState>) -> Pace {
        let noted = self.run.more.get("parts").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        from.map_or(Pace { parts: noted.unwrap_or(1).max(1) }, |state| state.pace)
    }

    /// Writes what is known before the first step.
    pub(crate) fn begin(&mut self, run: &TrainRun, experiment: &Experiment) -> Result<()> {
        let Experiment { settings, source, splits, .. } = experiment;
        // `run.json` last: where it is, there is all that is needed to go on.
        replace_bytes(&self.path.join("settings.toml"), settings.to_toml().as_bytes())?;
        write_split(&self.path.join("split.parquet"), source, splits)?;
        self.run.device.clone_from(&run.device);
        self.run.more.insert("parts".into(), json!(run.parts));
        self.run.write(&self.path)?;
        self.log.begin(run, self.resumed)
    }

    /// What takes events, and what takes states.
    pub(crate) fn parts(&mut self) -> (&mut RunLog, &mut Keeper) {
        (&mut self.log, &mut self.keeper)
    }

    /// The run ended with an error; it counts as a trial all the same.
    pub(crate) fn failed(&mut self, why: &Error) {
        let state = if why.kind == Kind::Interrupted { RunState::Interrupted } else { RunState::Failed };
        self.run.problem = Some(why.to_string());
        self.run.end(state);
        // The first error is the one to be told; these only take it down.
        let _ = self.run.write(&self.path);
        for trial in &self.trials {
            let _ = self.ledger.fail(trial, &why.to_string());
        }
    }

    /// Takes what came out into the ledger, before any file shows it. `per_config` is what each config would reach
    /// in every fold, `model` the hash of the model's manifest, `returns` `[configs]` where daily returns are.
    pub(crate) fn finished(
        &self,
        run: &TrainRun,
        per_config: &[PerConfig],
        model: Option<&str>,
        returns: &[Option<String>],
    ) -> Result<()> {
        for (at, trial) in self.trials.iter().enumerate() {
            // Killed between that and the end of its folder, a run that goes on finds it written, with the same
            // figures.
            if self.resumed && self.ledger.finished(trial)? {
                continue;
            }
            let members: Vec<&MemberRow> = run.members.iter().filter(|m| m.config == at + 1).collect();
            let judged: &Option<Judged> = per_config.get(at).map_or(&run.judged, |own| &own.judged);
            let mut metrics = json!({"judged": judged, "members": members});
            if self.trials.len() > 1 {
                metrics["chosen"] = json!({"folds": run.configs.get(at).map(|c| &c.chosen), "judged": run.judged});
            }
            note_in(&mut metrics, model);
            self.ledger.finish(trial, &metrics, returns.get(at).and_then(Option::as_deref))?;
        }
        Ok(())
    }

    /// The verdict on what was found, every trial on these data counted; `daily` are its returns.
    pub(crate) fn weigh(&self, found: Findings, daily: &[f64]) -> Result<Evidence> {
        let family = Family::of(&self.ledger, &self.tried.symbols, self.tried.span)?;
        // By its name where verbs find it by that, else by its folder.
        let named = self.path.strip_prefix(crate::runs::RUNS).ok().filter(|name| name.components().count() == 1);
        let name = named.unwrap_or(&self.path).display().to_string();
        Ok(family.count_in(found, daily)?.weigh(&name))
    }

    /// How many trials there are on these data, in words.
    pub(crate) fn count_trials(&self) -> Result<String> {
        let trials = self.ledger.count(&self.tried.symbols, self.tried.span)?;
        Ok(format!("{} on these data so far, this one counted", format_plural(trials as u64, "trial")))
    }

    /// Takes the end down: the log, the result, the run's state; the ledger has it by then.
    pub(crate) fn end(&mut self, run: &mut TrainRun, kind: &dyn kinds::Kind) -> Result<()> {
        self.log.end(run)?;
        run.notes.extend(self.log.trouble());
        self.run.more.insert("parts".into(), json!(run.parts));
        let metric = kind.info().metrics[0];
        let value = |m: &MemberRow| m.metrics.first().and_then(|own| own.value);
        let best = run.members.iter().filter_map(|m| Some((m, value(m)?)));
        let best = best.max_by(|a, b| metric.signed(a.1).partial_cmp(&metric.signed(b.1)).unwrap_or(Ordering::Equal));
        self.run.best = best.map(|(m, value)| report::BestMember {
            member: match self.trials.len() {
                1 => format!("fold {}, seed {}", m.fold, m.seed),
                _ => format!("config {}, fold {}, seed {}", m.config, m.fold, m.seed),
            },
            measure: metric.name.replace('_', " "),
            value: Some(value),
            epoch: u64::from(m.best_unit.unwrap_or(0)),
        });
        if run.interrupted {
            self.run.end(RunState::Interrupted);
            return self.run.write(&self.path);
        }
        write_json(&self.path.join("result.json"), run)?;
        self.run.problem = None;
        self.run.end(RunState::Finished);
        self.run.write(&self.path)
    }
}

/// That a run goes on with other instructions of the processor than it had so far, where it says which those were. It
/// is as valid as before, and no longer the run that it would have been.
fn other_instructions(saved: &About, ours: &About) -> Option<String> {
    let (before, now) = (&saved.instructions, &ours.instructions);
    (!before.is_empty() && !now.is_empty() && before != now).then(|| {
        format!(
            "this run went on with other instructions of the processor ({now}) than before ({before}): it is as valid, but \
             its bits are no longer those of an undisturbed run; FULLBORE_NO_AMX decides whether amx-bf16 is used"
        )
    })
}

/// What a run was trained on.
pub(crate) fn run_data(run: &Path) -> Result<Select> {
    let folder = crate::runs::find_run(run)?;
    let about = Run::read(&folder)?;
    let saved: Request = serde_json::from_value(about.more.get("asked").cloned().unwrap_or(Value::Null))
        .map_err(|e| Error::new(Kind::State, format!("it does not say what it was trained on: {e}")).at(&folder))?;
    Ok(Select { data: saved.data, symbols: saved.symbols, from: saved.from, to: saved.to })
}

/// `[configs]` the trials of a run.
pub(crate) fn started_trials(run: &Run, folder: &Path) -> Result<Vec<StartedTrial>> {
    // One trial is an object, several are a list.
    let noted = match run.more.get("ledger").cloned().unwrap_or(Value::Null) {
        Value::Array(all) => Value::Array(all),
        one => json!([one]),
    };
    serde_json::from_value(noted)
        .map_err(|e| Error::new(Kind::State, format!("run.json does not name its trial: {e}")).at(folder))
}

/// The request to go on with the run in a folder, and its settings.
pub(crate) fn request_of(folder: &Path) -> Result<(Train, Settings)> {
    let run = Run::read(folder)?;
    if run.state == RunState::Finished {
        return Err(Error::new(Kind::State, "the run is finished")
            .at(&folder.join("run.json"))
            .remedy("`fullbore runs show` shows its results"));
    }
    stored_request(folder, &run)
}

/// The request and the settings that a run was started with, to do the same again.
pub(crate) fn stored_request(folder: &Path, run: &Run) -> Result<(Train, Settings)> {
    let bad = |why: String| Error::new(Kind::State, why).at(&folder.join("run.json"));
    let saved: Request = serde_json::from_value(run.more.get("asked").cloned().unwrap_or(Value::Null))
        .map_err(|e| bad(format!("it does not hold the settings of the run: {e}")))?;
    let mut settings = Settings::default();
    settings.read(folder)?;
    settings.held = run.more.get("held").and_then(|held| serde_json::from_value(held.clone()).ok());
    settings.refit = run.more.get("refit").and_then(|refit| serde_json::from_value(refit.clone()).ok());
    let select = Select { data: saved.data, symbols: saved.symbols, from: saved.from, to: saved.to };
    let out = Some(folder.to_path_buf());
    let request = Train { select, set: saved.set, out, device: saved.device, resume: true, ..Train::default() };
    Ok((request, settings))
}

/// A folder that is not there yet: `runs/gold-lstm-2026-11-15`, then `-2` and so on.
fn fresh(source: &Source, settings: &Settings) -> PathBuf {
    let refit = if settings.refit.is_some() { "-refit" } else { "" };
    let stem = format!("{}-{}{refit}-{}", name(&source.path), settings.train.learner.name(), crate::demo::today());
    let path = |n: u32| PathBuf::from("runs").join(if n == 1 { stem.clone() } else { format!("{stem}-{n}") });
    (1..).map(path).find(|p| !p.exists()).unwrap_or_else(|| path(1))
}

/// All symbols; ready arrays may name none, and a table wants one.
pub(crate) fn symbol_names(source: &Source) -> Vec<String> {
    let symbols = source.ids.symbols();
    if symbols.is_empty() { vec!["-".into()] } else { symbols }
}

/// Who learns from what: a row for each sample of each fold.
fn write_split(path: &Path, source: &Source, splits: &Splits) -> Result<()> {
    let samples = &source.problem.samples;
    let symbols = symbol_names(source);
    let mut writer = ParquetWriter::create(path, &[])?;
    for fold in &splits.folds {
        for (part, positions) in [("train", &fold.train), ("valid", &fold.valid), ("test", &fold.test)] {
            let rows = positions.len();
            let ids: Vec<u32> = positions.iter().map(|at| samples.rows[*at as usize]).collect();
            let times = |of: &[i64]| positions.iter().map(|at| of[*at as usize]).collect::<Vec<i64>>();
            let mut columns = vec![
                Column { name: "fold".into(), data: Data::U32(vec![fold.number as u32 + 1; rows]) },
                Column { name: "part".into(), data: Data::Names { codes: vec![0; rows], names: vec![part.into()] } },
                Column {
                    name: "symbol".into(),
                    data: Data::Names { codes: source.ids.symbol_numbers(&ids), names: symbols.clone() },
                },
                Column::time("t0", times(&samples.t0)),
                Column::time("t1", times(&samples.t1)),
            ];
            // Steps of an account have no class.
            if source.problem.classes > 0 {
                let class = positions.iter().map(|at| samples.class[*at as usize]).collect();
                columns.push(Column { name: "label".into(), data: Data::I8(class) });
            }
            writer.write(&Table { columns, rows })?;
        }
    }
    writer.finish().map(|_| ())
}

/// Writes a value as readable JSON, beside and renamed.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    replace_bytes(path, &json_text(value).map_err(|e| e.at(path))?)
}

/// What a finished run said at the end.
pub(crate) fn read_result(folder: &Path) -> Result<Value> {
    let path = folder.join("result.json");
    let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "reading the result of a run", &e))?;
    serde_json::from_slice(&bytes).map_err(|e| Error::new(Kind::State, format!("it is no JSON: {e}")).at(&path))
}

/// A value as readable JSON.
pub(crate) fn json_text(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::new(Kind::Machine, format!("it cannot be written as JSON: {e}")))?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::Best;

    #[test]
    fn other_instructions_are_said_and_not_refused() {
        let about =
            |instructions: &str| About { device: "cpu".into(), instructions: instructions.into(), ..About::default() };
        let (narrow, wide, unknown) = (about("avx2"), about("avx2 avx512f"), about(""));
        let said = other_instructions(&narrow, &wide).expect("other bits");
        assert!(said.contains("(avx2 avx512f)") && said.contains("(avx2)") && said.contains("as valid"), "{said}");
        // The same, a run that does not say, and a card that has none.
        for (saved, ours) in [(&wide, &wide), (&unknown, &wide), (&wide, &unknown)] {
            assert_eq!(other_instructions(saved, ours), None);
        }
        let version = env!("CARGO_PKG_VERSION");
        expect("the run", &narrow, version, &wide).expect("it goes on");
    }

    #[test]
    fn a_manifest_stays_short_whatever_the_number_of_members() {
        let member = |id: u32| {
            let best = Best { unit: 7, score: f64::from(id % 1000) * 1e-3, params: Vec::new() };
            let (fold, seed) = ((id % 8) as usize, id / 8);
            Trained { id, config: 0, fold, seed, history: Vec::new(), best: Some(best), stopped: None, last: None }
        };
        let state = |n: u32| TrainState {
            members: (0..n).map(member).collect(),
            running: Vec::new(),
            pins: Default::default(),
            pace: Pace::default(),
        };
        let few = standing(&state(100));
        assert_eq!(few["members"].as_array().map(Vec::len), Some(100));
        let many = standing(&state(24_000));
        let text = serde_json::to_vec_pretty(&many).expect("JSON");
        assert!(text.len() < 4096, "{} bytes", text.len());
        assert_eq!((&many["count"], &many["ended"], &many["kind"]), (&json!(24_000), &json!(0), &json!("periodic")));
        assert_eq!((&many["best"]["best"], &many["best"]["best_epoch"]), (&json!(0.999), &json!(7)), "{many:?}");
    }
}
