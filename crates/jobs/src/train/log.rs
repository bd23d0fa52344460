//! What happens in a run, taken down: rows for programs, lines for people, events for TensorBoard.

use super::estimate::long;
use super::result::reason;
use super::{Experiment, Ids, TrainRun};
use crate::Settings;
use crate::kinds::{Kind, Validated};
use files::{Result, format_short};
use learn::{RunEvent, Stopped, Trained, Validation};
use machine::Sample;
use report::{Events, Log, Row};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Members beyond these have rows in the log, and no TensorBoard file of their own.
const EVENTS: usize = 64;

/// Looks at the machine come no faster.
const EVERY: Duration = Duration::from_secs(10);

/// The log of a run.
pub(crate) struct RunLog {
    log: Log,
    folder: PathBuf,
    kind: &'static dyn Kind,
    unit: &'static str,
    several: bool,  // configs
    members: usize, // of the group
    configs: Vec<Settings>,
    shortable: bool,
    events: BTreeMap<u32, Events>,
    began: Instant,        // to train
    seen: Option<Instant>, // when the machine was last looked at
}

impl RunLog {
    pub(crate) fn open(folder: &Path, experiment: &Experiment) -> Result<RunLog> {
        let log = Log::open(folder)?;
        let (kind, learner) = (experiment.kind(), &experiment.learner);
        let (unit, several) = (learner.unit(), learner.configs().len() > 1);
        let shortable = match &experiment.source.ids {
            Ids::Bars { data, .. } => data.base.market.iter().any(|bars| bars.instrument.shortable),
            Ids::Ready { .. } => false,
        };
        Ok(RunLog {
            log,
            folder: folder.join("events"),
            kind,
            unit,
            several,
            members: 1,
            configs: experiment.settings.configs().into_iter().map(|(_, own)| own).collect(),
            shortable,
            events: BTreeMap::new(),
            began: Instant::now(),
            seen: None,
        })
    }

    /// Nothing of it counts: the run begins again.
    pub(crate) fn afresh(&mut self, folder: &Path) -> Result<()> {
        let unit = self.unit;
        self.log.retain(folder, |row| row.kind != unit && row.kind != "ended")
    }

    /// Leaves out what happened after the states that the run goes on from.
    pub(crate) fn cut(&mut self, folder: &Path, members: &[Trained]) -> Result<()> {
        let unit = self.unit;
        let known = |row: &Row| {
            let member = row.number("member").and_then(|id| members.iter().find(|m| f64::from(m.id) == id));
            let Some(member) = member else { return true };
            match row.kind.as_str() {
                "ended" => member.stopped.is_some(),
                kind if kind == unit => row.number(kind).is_some_and(|n| n <= f64::from(member.units())),
                _ => true,
            }
        };
        self.log.retain(folder, known)
    }

    pub(crate) fn begin(&mut self, run: &TrainRun, resumed: bool) -> Result<()> {
        let words = if resumed { "resumes" } else { "begins" };
        self.message(&format!("training {words}: {} on {}", run.net, run.device))?;
        if run.parts > 1 {
            let rows = run.batch.div_ceil(run.parts);
            let memory = files::format_bytes(run.memory_bytes);
            self.message(&format!("batches of {} in {} parts of {rows}: {memory}", run.batch, run.parts))?;
        }
        if let Some(message) = run.estimate_seconds.and_then(|seconds| long(seconds, run.units.name)) {
            self.note(&message)?;
        }
        // `axis`, `last`, `members`, `worth` and `lower_is_better` tell whoever watches where the rows of its axis
        // lead, whatever the learner.
        let metric = &self.kind.info().metrics[0];
        let row = json!({
            "net": run.net, "device": run.device, "pid": std::process::id(), "axis": self.unit, "last": run.units.most, "patience": run.patience,
            "members": run.groups.iter().sum::<u64>(), "worth": metric.name,
            "lower_is_better": !metric.higher_is_better,
        });
        self.row(if resumed { "resumed" } else { "started" }, fields(row))?;
        for phase in &run.phases {
            self.row("phase", fields(json!({"name": phase.name, "seconds": phase.seconds})))?;
        }
        self.began = Instant::now();
        self.phase("train")
    }

    /// Something else is done from now on.
    pub(crate) fn phase(&mut self, name: &str) -> Result<()> {
        self.row("phase", fields(json!({"name": name})))
    }

    /// A sentence for people; settings stand in it by their names.
    pub(crate) fn note(&mut self, message: &str) -> Result<()> {
        self.message(&message.replace(['<', '>'], ""))
    }

    /// How full the machine is, unless the last such row is younger than ten seconds.
    pub(crate) fn machine_row(&mut self, latest: impl FnOnce() -> Option<Sample>) -> Result<()> {
        if self.seen.is_some_and(|seen| seen.elapsed() < EVERY) {
            return Ok(());
        }
        let Some(sample) = latest() else { return Ok(()) };
        self.seen = Some(Instant::now());
        let gpu = sample.gpus.first();
        let row = json!({
            "cpu_percent": sample.cpu_mean_percent().round(),
            "core_percent": sample.cpu_percent.iter().map(|busy| busy.round()).collect::<Vec<_>>(), "memory_bytes": sample.process_memory_bytes,
            "gpu_percent": gpu.and_then(|g| g.busy_percent), "gpu_memory_bytes": gpu.and_then(|g| g.memory_used_bytes),
            "gpu_watts": gpu.and_then(|g| g.power_watts).map(f32::round), "gpu_celsius": gpu.and_then(|g| g.temperature_celsius),
        });
        self.row("machine", fields(row))
    }

    /// Takes an event down; a line for people where they would want one.
    pub(crate) fn event(&mut self, event: &RunEvent<'_>, rate: f64) -> Result<Option<String>> {
        match event {
            RunEvent::Validated { member, validation, best } => {
                self.validated(member, validation, *best, rate).map(Some)
            }
            RunEvent::Ended(member) => {
                let why = member.stopped.as_ref().map_or_else(String::new, |why| reason(why, self.unit));
                self.row("ended", fields(json!({"member": member.id, "why": why})))?;
                let (unit, n) = (self.unit, member.units());
                let line = format!("{} ended after {unit} {n}: {why}", self.named(member));
                self.message(&line)?;
                // What is not finite is reported at once.
                Ok(matches!(member.stopped, Some(Stopped::Fault(_))).then_some(line))
            }
            RunEvent::Group { number, of, members, memory, kernel_paths: ways } => {
                self.members = *members;
                let group =
                    json!({"group": number + 1, "of": of, "members": members, "memory_bytes": memory, "ways": ways});
                self.row("group", fields(group))?;
                Ok(None)
            }
            RunEvent::LessMemory(what) => {
                self.row("less_memory", fields(json!({"what": what})))?;
                let line = format!("less memory than planned: {what}");
                self.message(&line)?;
                Ok(Some(line))
            }
            RunEvent::Note(what) => {
                self.row("note", fields(json!({"what": what})))?;
                self.message(what)?;
                Ok(Some(what.clone()))
            }
            RunEvent::Saved => {
                self.row("saved", Map::new())?;
                Ok(None)
            }
            RunEvent::Samples(_) => Ok(None),
        }
    }

    fn validated(&mut self, member: &Trained, of: &Validation, best: bool, rate: f64) -> Result<String> {
        let (kind, unit) = (self.kind, self.unit);
        let first = &kind.info().metrics[0];
        let value = |name: &str| match name == first.name {
            true => of.score.map(|score| first.signed(score)),
            false => of.metrics.get(name),
        };
        let mut row = json!({
            "member": member.id, "fold": member.fold + 1, "seed": member.seed + 1, unit: of.unit, "step": of.step,
        });
        let figures = kind.figures(&self.configs[member.config]);
        figures.iter().for_each(|figure| row[figure.name] = json!(value(figure.name)));
        let (settings, shortable, members) = (&self.configs[member.config], self.shortable, self.members);
        let seconds = self.began.elapsed().as_secs_f64();
        let of_config = Validated { settings, members, shortable, seconds, validation: of };
        let (more, at) = (kind.more_figures(&of_config, rate), kind.event_step(&of_config));
        more.iter().filter_map(|figure| Some((figure.name?, figure.value))).for_each(|(name, x)| row[name] = json!(x));
        (row["best"], row["samples_per_s"]) = (json!(best), json!(rate.round()));
        if self.several {
            row["config"] = json!(member.config + 1);
        }
        self.row(unit, fields(row))?;
        let shown = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.4}"));
        let labelled = figures.iter().filter_map(|f| Some(format!("{} {}", f.label?, shown(value(f.name)))));
        // As a learner names it: generations_per_s.
        let paces = more.iter().filter_map(|figure| Some((figure.name?.strip_suffix("_per_s")?, figure.value)));
        let paces: String = paces.map(|(what, x)| format!(", {} {what}/s", format_short(x))).collect();
        let line = format!(
            "{} {unit} {}: {}{}{paces}, {} {}/s",
            self.named(member),
            of.unit,
            labelled.collect::<Vec<_>>().join(", "),
            if best { " (best)" } else { "" },
            format_short(rate),
            kind.info().counted(),
        );
        self.message(&line)?;
        if self.events.len() < EVENTS || self.events.contains_key(&member.id) {
            let events = match self.events.entry(member.id) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    let config = if self.several { format!("config-{}-", member.config + 1) } else { String::new() };
                    let name = format!("{config}fold-{}-seed-{}", member.fold + 1, member.seed + 1);
                    place.insert(Events::create(&self.folder.join(name), at)?)
                }
            };
            let figures = figures.iter().filter_map(|f| Some((f.tag, value(f.name)?)));
            let more = more.iter().map(|figure| (figure.tag, figure.value));
            waits(events.scalars(at, figures.chain(more).chain([("time/samples_per_s", rate)])))?;
        }
        Ok(line)
    }

    /// `fold 2 seed 1`, or `config 3 fold 2 seed 1` where there are several.
    fn named(&self, member: &Trained) -> String {
        let config = if self.several { format!("config {} ", member.config + 1) } else { String::new() };
        format!("{config}fold {} seed {}", member.fold + 1, member.seed + 1)
    }

    pub(crate) fn end(&mut self, run: &TrainRun) -> Result<()> {
        let state = if run.interrupted { "interrupted" } else { "finished" };
        let judged = run.judged.as_ref().map_or(&[][..], |judged| judged.headline());
        let mut end = Map::new();
        for metric in &self.kind.info().metrics[1..] {
            let own = judged.iter().find(|own| own.metric == *metric);
            end.insert(metric.name.into(), json!(own.and_then(|own| own.value)));
        }
        end.extend(fields(json!({"seconds": run.seconds, "verdict": run.verdict, "phases": run.phases})));
        self.row(state, end)?;
        let judged: String = judged.iter().map(|own| format!("; {} {own}", own.metric.head())).collect();
        self.message(&format!("{state} after {:.1} s{judged}; {}", run.seconds, run.verdict))?;
        // A full disk fails here too, and is among the troubles.
        waits(self.log.sync())
    }

    /// What of the log could not be written when it was to, a sentence each.
    pub(crate) fn trouble(&mut self) -> Vec<String> {
        let mut all = self.log.trouble();
        let events: Vec<String> = self.events.values_mut().filter_map(Events::trouble).collect();
        all.extend(events.first().map(|first| match events.len() {
            1 => first.clone(),
            n => format!("{first} ({n} event files in all)"),
        }));
        all
    }

    fn row(&mut self, kind: &str, fields: Map<String, Value>) -> Result<()> {
        waits(self.log.add_row(kind, fields))
    }

    fn message(&mut self, sentence: &str) -> Result<()> {
        waits(self.log.add_message(sentence))
    }
}

/// What the disk does not take now waits: training goes on, and [`RunLog::trouble`] tells at the end.
fn waits(written: Result<()>) -> Result<()> {
    match written {
        Err(why) if why.kind == files::Kind::Machine => Ok(()),
        other => other,
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
