//! The run folder: what was asked, what happens, checkpoints, results. It is a contract: other verbs and other programs
//! read it.
//!
//! `run.json` is the request and how it stands, `settings.toml` the resolved settings, `split.parquet` who learned from
//! what, `log.jsonl`, `training.log` and `events/` what happened, `checkpoints/` from where it can go on,
//! `predictions.parquet` and `model/` what came out, `result.json` what was said at the end. `parts` in `run.json` says
//! in how many parts a batch goes through the net; a run that goes on keeps to what its checkpoint says, before the
//! first one to this.

use super::judged::Selection;
use super::log::Told;
use super::predict::guess;
use super::source::{Ids, Source, name};
use super::trial::{config, noted, trial, trial_id, word};
use super::{Judged, MemberRow, Train, TrainRun, ledger_path, model};
use crate::tune::Tuned;
use crate::{Select, Settings};
use compute::net::{Layout, save};
use compute::population::Pace;
use compute::{Net, Opened};
use features::class;
use files::{Column, Data, Error, Kind, Lock, ParquetWriter, Result, Table, replace_bytes};
use judge::ledger::{Ledger, Started};
use judge::split::Splits;
use learn::checkpoint::{About, Store, View, Writer, copy_out, expect, newest};
use learn::classify::{Classify, Plan, Saved, Trained};
use learn::failed;
use report::{Run, RunState};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// What a run was asked, kept in `run.json` so that it can go on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Asked {
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
    log: Told,
    keeper: Keeper,
    ledger: Ledger,
    /// `[configs]` each is a trial.
    trials: Vec<Started>,
    resumed: bool,
    /// Let go last: until then the run is this process's.
    _lock: Lock,
}

/// Hands states over to the writer in the background.
pub(crate) struct Keeper {
    writer: Writer,
    about: About,
    nets: Nets,
}

/// `[configs]` the net of each, and where everything lies in its arena.
struct Nets(Vec<(Net, Layout)>);

impl Nets {
    fn new(how: &Classify<'_>) -> Result<Nets> {
        let one = |net: Net| Ok((net.clone(), Layout::new(&net).map_err(failed)?));
        (0..how.configs()).map(|config| one(how.of(config).net)).collect::<Result<Vec<_>>>().map(Nets)
    }
}

impl Keeper {
    /// Hands a state over; waits only while the one before is still being written. One that could not be written (a
    /// full disk, say) does not end the training: why is given back to be told, and this one is tried as usual.
    pub(crate) fn save(&mut self, saved: &Saved) -> Result<Option<Error>> {
        match self.submit(saved) {
            Ok(()) => Ok(None),
            Err(why) if matches!(why.kind, Kind::Machine | Kind::Memory) => self.submit(saved).map(|()| Some(why)),
            Err(why) => Err(why),
        }
    }

    fn submit(&mut self, saved: &Saved) -> Result<()> {
        let mut about = self.about.clone();
        about.epoch = saved.members.iter().map(|m| m.history.len() as u64).max().unwrap_or(0);
        about.step =
            saved.members.iter().filter_map(|m| m.history.last()).map(|e| u64::from(e.step)).max().unwrap_or(0);
        about.more = standing(saved);
        let nets = &self.nets;
        self.writer.submit(about, |staging| {
            for (name, bytes) in saved.parts() {
                staging.put(name, &bytes);
            }
            for (view, name, bytes) in weights(saved, nets) {
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
fn weights(saved: &Saved, nets: &Nets) -> Vec<(View, String, Vec<u8>)> {
    let best = saved.members.iter().filter_map(|m| Some((View::Best, m, m.best.as_ref()?.params.as_slice())));
    let ended = saved.members.iter().filter_map(|m| Some((View::Last, m, m.last.as_ref()?.params.as_slice())));
    let running = saved.running.iter().filter_map(|s| {
        let member = saved.members.iter().find(|m| m.id == s.state.id && m.last.is_none())?;
        Some((View::Last, member, s.average.as_ref().unwrap_or(&s.params).as_slice()))
    });
    let finite = best.chain(ended).chain(running).filter(|(_, _, params)| params.iter().all(|x| x.is_finite()));
    let several = nets.0.len() > 1;
    let file = |m: &Trained| model::file(several.then_some(m.config), m.fold, m.seed);
    let named = finite.filter_map(|(view, m, params)| Some((view, m, params, nets.0.get(m.config)?)));
    named.map(|(view, m, params, (net, layout))| (view, file(m), save(net, layout, params))).collect()
}

/// With more members the manifest has no row of each: it has to stay short enough to be read.
const ROWS: usize = 4096;

/// How members stand, for the manifest: to know it nobody need read a part.
fn standing(saved: &Saved) -> Map<String, Value> {
    let several = saved.members.iter().any(|m| m.config > 0);
    let member = |m: &Trained| {
        let mut row = json!({
            "fold": m.fold + 1, "seed": m.seed + 1, "epoch": m.history.last().map_or(0, |e| e.epoch),
            "best_epoch": m.best.as_ref().map(|b| b.epoch), "best": m.best.as_ref().map(|b| b.worth),
            "ended": m.stopped.is_some(),
        });
        if several {
            row["config"] = json!(m.config + 1);
        }
        row
    };
    let ended = saved.members.iter().filter(|m| m.stopped.is_some()).count();
    let all = saved.members.len();
    let worth = |m: &&Trained| m.best.as_ref().map_or(f64::NEG_INFINITY, |b| b.worth);
    let best = saved.members.iter().filter(|m| m.best.is_some());
    let best = best.max_by(|a, b| worth(a).total_cmp(&worth(b)));
    let mut more = Map::new();
    more.insert("kind".into(), json!(if ended == all { "end" } else { "periodic" }));
    more.insert("count".into(), json!(all));
    more.insert("ended".into(), json!(ended));
    more.insert("best".into(), json!(best.map(member)));
    if all <= ROWS {
        more.insert("members".into(), saved.members.iter().map(member).collect());
    }
    more
}

impl Folder {
    /// Makes or opens the folder, locks it, and writes the trial into the ledger before anything is known.
    pub(crate) fn open(
        request: &Train,
        settings: &Settings,
        source: &Source,
        how: &Classify<'_>,
        splits: &Splits,
        device: &Opened,
    ) -> Result<Folder> {
        let path = match &request.out {
            Some(out) => out.clone(),
            None => fresh(source, settings),
        };
        if !request.resume && path.join("run.json").exists() {
            return Err(Error::new(Kind::State, "there is a run in this folder already")
                .at(&path)
                .remedy(format!("go on with `fullbore runs resume {}`, or choose another <out>", path.display())));
        }
        std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, "making the run folder", &e))?;
        let lock = Lock::take(&path)?;
        let about = About {
            net: how.net.to_string(),
            data: source.fingerprint.clone(),
            config: config(source, how, settings, splits),
            precision: word(how.recipe.precision),
            device: match device {
                Opened::Cpu { .. } => device.name(),
                // Which of several like it is all one.
                Opened::Cuda(context) => context.gpu().name.clone(),
            },
            ..About::default()
        };
        let ledger = Ledger::open(&ledger_path()?)?;
        let (mut run, trials, resumed) = if request.resume {
            let mut run = Run::read(&path)?;
            // Before its first checkpoint a run is what its folder says, and nothing else goes on under its trial.
            expect("the run in this folder", &noted(&run), &run.program, &about).map_err(|e| e.at(&path))?;
            // One trial is an object, several are a list.
            let noted = match run.more.get("ledger").cloned().unwrap_or(Value::Null) {
                Value::Array(all) => Value::Array(all),
                one => json!([one]),
            };
            let trials: Vec<Started> = serde_json::from_value(noted)
                .map_err(|e| Error::new(Kind::State, format!("run.json does not name its trial: {e}")).at(&path))?;
            run.resume();
            (run, trials, true)
        } else {
            let start = |id: usize| {
                ledger.start(&trial(source, settings, splits, trial_id(source, &how.of(id), settings, splits)))
            };
            let trials = (0..how.configs()).map(start).collect::<Result<Vec<Started>>>()?;
            (Run::begin("train"), trials, false)
        };
        run.data.clone_from(&source.fingerprint);
        run.settings.clone_from(&about.config);
        run.members = (splits.folds.len() * how.seeds as usize * how.configs()) as u64;
        let asked = Asked {
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
        run.more.insert("asked".into(), json!(asked));
        run.more
            .insert("about".into(), json!({"net": about.net, "precision": about.precision, "device": about.device}));
        let noted = if let [one] = trials.as_slice() { json!(one) } else { json!(trials) };
        run.more.insert("ledger".into(), noted);
        let log = Told::open(&path, resumed, how.configs() > 1)?;
        let writer = Writer::new(Store::open(&path.join("checkpoints"))?, &[])?;
        let keeper = Keeper { writer, about: about.clone(), nets: Nets::new(how)? };
        Ok(Folder { path, run, about, log, keeper, ledger, trials, resumed, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes down what the run is made with, and where it was tuned if it was.
    pub(crate) fn recipe(&mut self, how: &Classify<'_>, tuned: Option<&Tuned>) {
        let recipe = |how: &Classify<'_>| json!({"rate": how.rate, "recipe": how.recipe});
        self.run.more.insert("recipe".into(), recipe(how));
        if how.configs() > 1 {
            let one = |config: usize| {
                let own = how.of(config);
                let mut row = recipe(&own);
                row["net"] = json!(own.net.to_string());
                row
            };
            self.run.more.insert("configs".into(), (0..how.configs()).map(one).collect());
        }
        if let Some(tuned) = tuned {
            self.run.more.insert("tuned".into(), json!(tuned));
        }
    }

    /// The state to go on from, if this is a run that goes on and has one.
    pub(crate) fn saved(&mut self, say: &mut dyn FnMut(&str)) -> Result<Option<Saved>> {
        if !self.resumed {
            return Ok(None);
        }
        let Some(generation) = newest(&self.path.join("checkpoints"))? else {
            say("no checkpoint was written yet: it begins afresh");
            self.log.afresh(&self.path)?;
            return Ok(None);
        };
        generation.passed.iter().for_each(|why| say(why));
        generation.expect(&self.about)?;
        let nets = &self.keeper.nets;
        let params = |config: usize| nets.0.get(config).map_or(0, |(_, layout)| layout.params);
        let saved = Saved::from_parts(&|name| generation.read(name), &params)?;
        copy_out(&self.path.join("checkpoints"), &weights(&saved, nets));
        say(&format!("going on from checkpoint {} (epoch {})", generation.number, generation.about.epoch));
        // What was logged after the checkpoint will happen again.
        self.log.cut(&self.path, &saved.members)?;
        Ok(Some(saved))
    }

    /// In how many parts the run's batches went so far: by its checkpoint, else by what was planned when it began.
    pub(crate) fn pace(&self, from: Option<&Saved>) -> Pace {
        let noted = self.run.more.get("parts").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        from.map_or(Pace { parts: noted.unwrap_or(1).max(1) }, |saved| saved.pace)
    }

    /// Writes what is known before the first step.
    pub(crate) fn begin(
        &mut self,
        run: &TrainRun,
        settings: &Settings,
        source: &Source,
        splits: &Splits,
    ) -> Result<()> {
        // `run.json` last: where it is, there is all that is needed to go on.
        replace_bytes(&self.path.join("settings.toml"), settings.to_toml().as_bytes())?;
        write_split(&self.path.join("split.parquet"), source, splits)?;
        self.run.device.clone_from(&run.device);
        self.run.more.insert("parts".into(), json!(run.parts));
        self.run.write(&self.path)?;
        self.log.begin(run, self.resumed)
    }

    /// What takes news, and what takes states.
    pub(crate) fn parts(&mut self) -> (&mut Told, &mut Keeper) {
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

    /// Every member's probabilities on its fold's test.
    pub(crate) fn predictions(
        &self,
        source: &Source,
        splits: &Splits,
        selection: Selection<'_>,
        probabilities: &[Vec<f32>],
        threads: usize,
    ) -> Result<()> {
        let (samples, classes) = (&source.problem.samples, source.problem.classes);
        let mut writer = ParquetWriter::create(&self.path.join("predictions.parquet"), &[])?.threads(threads);
        let symbols = source.ids.symbols();
        for (member, p) in selection.members.iter().zip(probabilities).filter(|(_, p)| !p.is_empty()) {
            let test = &splits.folds[member.fold].test;
            let at = |of: &dyn Fn(usize) -> i64| test.iter().map(|at| of(*at as usize)).collect::<Vec<i64>>();
            let ids: Vec<u32> = test.iter().map(|at| samples.rows[*at as usize]).collect();
            let mut columns = vec![
                Column {
                    name: "symbol".into(),
                    data: Data::Names { codes: source.ids.symbol_numbers(&ids), names: named(&symbols) },
                },
                Column::time("time", at(&|i| samples.t0[i])),
                Column { name: "fold".into(), data: Data::U32(vec![member.fold as u32 + 1; test.len()]) },
                Column { name: "seed".into(), data: Data::U32(vec![member.seed + 1; test.len()]) },
            ];
            if self.trials.len() > 1 {
                let config = Data::U32(vec![member.config as u32 + 1; test.len()]);
                let chosen = i8::from(selection.configs[member.fold] == member.config);
                columns.insert(2, Column { name: "config".into(), data: config });
                columns.insert(3, Column { name: "chosen".into(), data: Data::I8(vec![chosen; test.len()]) });
            }
            for (at, name) in class::names(classes).iter().enumerate() {
                columns.push(Column::f32(format!("p_{name}"), p.iter().skip(at).step_by(classes).copied().collect()));
            }
            columns.push(Column { name: "guess".into(), data: Data::I8(p.chunks_exact(classes).map(guess).collect()) });
            let label = test.iter().map(|at| samples.class[*at as usize]).collect();
            columns.push(Column { name: "label".into(), data: Data::I8(label) });
            columns.push(Column::time("t1", at(&|i| samples.t1[i])));
            writer.write(&Table { columns, rows: test.len() })?;
        }
        writer.finish().map(|_| ())
    }

    /// The model as a folder.
    pub(crate) fn model(
        &self,
        source: &Source,
        splits: &Splits,
        plan: &Plan,
        how: &Classify<'_>,
        settings: &Settings,
        selection: Selection<'_>,
    ) -> Result<()> {
        model::write(&self.path.join("model"), source, splits, plan, settings, how, selection)
    }

    /// Takes what came out into the ledger, before any file shows it. `per_config` is what each config would reach
    /// in every fold.
    pub(crate) fn finished(&self, run: &TrainRun, per_config: &[Option<Judged>]) -> Result<()> {
        for (at, trial) in self.trials.iter().enumerate() {
            // Killed between that and the end of its folder, a run that goes on finds it written, with the same
            // figures.
            if self.resumed && self.ledger.finished(trial)? {
                continue;
            }
            let members: Vec<&MemberRow> = run.members.iter().filter(|m| m.config == at + 1).collect();
            let mut metrics = json!({"judged": per_config.get(at).unwrap_or(&run.judged), "members": members});
            if self.trials.len() > 1 {
                metrics["chosen"] = json!({"folds": run.configs.get(at).map(|c| &c.chosen), "judged": run.judged});
            }
            self.ledger.finish(trial, &metrics, None)?;
        }
        Ok(())
    }

    /// Takes the end down: the log, the result, the run's state; the ledger has it by then.
    pub(crate) fn end(&mut self, run: &TrainRun) -> Result<()> {
        self.log.end(run)?;
        self.run.more.insert("parts".into(), json!(run.parts));
        let best = run.members.iter().filter(|m| m.valid_mcc.is_some());
        let best = best.max_by(|a, b| a.valid_mcc.partial_cmp(&b.valid_mcc).unwrap_or(std::cmp::Ordering::Equal));
        self.run.best = best.map(|m| report::BestMember {
            member: match self.trials.len() {
                1 => format!("fold {}, seed {}", m.fold, m.seed),
                _ => format!("config {}, fold {}, seed {}", m.config, m.fold, m.seed),
            },
            measure: "valid mcc".into(),
            value: m.valid_mcc,
            epoch: u64::from(m.best_epoch.unwrap_or(0)),
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

/// What a run in a folder was asked: the request to go on with, and its settings.
pub(crate) fn asked(folder: &Path) -> Result<(Train, Settings)> {
    let run = Run::read(folder)?;
    let bad = |why: String| Error::new(Kind::State, why).at(&folder.join("run.json"));
    if run.state == RunState::Finished {
        return Err(bad("the run is finished".into()).remedy("`fullbore runs show` tells what came out"));
    }
    let asked: Asked = serde_json::from_value(run.more.get("asked").cloned().unwrap_or(Value::Null))
        .map_err(|e| bad(format!("it does not say what was asked: {e}")))?;
    let mut settings = Settings::default();
    settings.read(folder)?;
    let select = Select { data: asked.data, symbols: asked.symbols, from: asked.from, to: asked.to };
    let out = Some(folder.to_path_buf());
    let request =
        Train { select, set: asked.set, out, device: asked.device, dry_run: false, budget: None, resume: true };
    Ok((request, settings))
}

/// A folder that is not there yet: `runs/gold-lstm-2026-11-15`, then `-2` and so on.
fn fresh(source: &Source, settings: &Settings) -> PathBuf {
    let learner = json!(settings.train.learner);
    let stem = format!("{}-{}-{}", name(&source.path), learner.as_str().unwrap_or_default(), crate::demo::today());
    let path = |n: u32| PathBuf::from("runs").join(if n == 1 { stem.clone() } else { format!("{stem}-{n}") });
    (1..).map(path).find(|p| !p.exists()).unwrap_or_else(|| path(1))
}

/// Ready arrays may name no symbol; a table wants one.
fn named(symbols: &[String]) -> Vec<String> {
    if symbols.is_empty() { vec!["-".into()] } else { symbols.to_vec() }
}

/// Who learns from what: a row for each sample of each fold.
fn write_split(path: &Path, source: &Source, splits: &Splits) -> Result<()> {
    let samples = &source.problem.samples;
    let symbols = named(&source.ids.symbols());
    let mut writer = ParquetWriter::create(path, &[])?;
    for fold in &splits.folds {
        for (part, positions) in [("train", &fold.train), ("valid", &fold.valid), ("test", &fold.test)] {
            let rows = positions.len();
            let ids: Vec<u32> = positions.iter().map(|at| samples.rows[*at as usize]).collect();
            let times = |of: &[i64]| positions.iter().map(|at| of[*at as usize]).collect::<Vec<i64>>();
            let columns = vec![
                Column { name: "fold".into(), data: Data::U32(vec![fold.number as u32 + 1; rows]) },
                Column { name: "part".into(), data: Data::Names { codes: vec![0; rows], names: vec![part.into()] } },
                Column {
                    name: "symbol".into(),
                    data: Data::Names { codes: source.ids.symbol_numbers(&ids), names: symbols.clone() },
                },
                Column::time("t0", times(&samples.t0)),
                Column::time("t1", times(&samples.t1)),
                Column {
                    name: "label".into(),
                    data: Data::I8(positions.iter().map(|at| samples.class[*at as usize]).collect()),
                },
            ];
            writer.write(&Table { columns, rows })?;
        }
    }
    writer.finish().map(|_| ())
}

/// Writes a value as readable JSON, beside and renamed.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::new(Kind::Machine, format!("it cannot be written as JSON: {e}")).at(path))?;
    text.push(b'\n');
    replace_bytes(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::classify::Best;

    #[test]
    fn a_manifest_stays_short_whatever_the_number_of_members() {
        let member = |id: u32| {
            let best = Best { epoch: 7, worth: f64::from(id % 1000) * 1e-3, params: Vec::new() };
            let (fold, seed) = ((id % 8) as usize, id / 8);
            Trained { id, config: 0, fold, seed, history: Vec::new(), best: Some(best), stopped: None, last: None }
        };
        let saved = |n: u32| Saved {
            members: (0..n).map(member).collect(),
            running: Vec::new(),
            pins: Default::default(),
            pace: Pace::default(),
        };
        let few = standing(&saved(100));
        assert_eq!(few["members"].as_array().map(Vec::len), Some(100));
        let many = standing(&saved(24_000));
        let text = serde_json::to_vec_pretty(&many).expect("JSON");
        assert!(text.len() < 4096, "{} bytes", text.len());
        assert_eq!((&many["count"], &many["ended"], &many["kind"]), (&json!(24_000), &json!(0), &json!("periodic")));
        assert_eq!((&many["best"]["best"], &many["best"]["best_epoch"]), (&json!(0.999), &json!(7)), "{many:?}");
    }
}
