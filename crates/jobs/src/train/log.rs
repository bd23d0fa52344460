//! What happens in a run, taken down: rows for programs, lines for people, events for TensorBoard.

use super::TrainRun;
use files::Result;
use learn::classify::{Epoch, News, Stopped, Trained};
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
pub(crate) struct Told {
    log: Log,
    folder: PathBuf,
    several: bool, // configs
    events: BTreeMap<u32, Events>,
    seen: Option<Instant>, // when the machine was last looked at
}

impl Told {
    pub(crate) fn open(folder: &Path, resumed: bool, several: bool) -> Result<Told> {
        let log = if resumed { Log::resume(folder, |_| true)? } else { Log::open(folder)? };
        Ok(Told { log, folder: folder.join("events"), several, events: BTreeMap::new(), seen: None })
    }

    /// Nothing of it counts: the run begins again.
    pub(crate) fn afresh(&mut self, folder: &Path) -> Result<()> {
        self.log = Log::resume(folder, |row| row.kind != "epoch" && row.kind != "ended")?;
        Ok(())
    }

    /// Leaves out what happened after the states that the run goes on from.
    pub(crate) fn cut(&mut self, folder: &Path, members: &[Trained]) -> Result<()> {
        let known = |row: &Row| {
            let member = row.number("member").and_then(|id| members.iter().find(|m| f64::from(m.id) == id));
            let Some(member) = member else { return true };
            let last = member.history.last().map_or(0, |e| e.epoch);
            match row.kind.as_str() {
                "epoch" => row.number("epoch").is_some_and(|e| e <= f64::from(last)),
                "ended" => member.stopped.is_some(),
                _ => true,
            }
        };
        self.log = Log::resume(folder, known)?;
        Ok(())
    }

    pub(crate) fn begin(&mut self, run: &TrainRun, resumed: bool) -> Result<()> {
        let words = if resumed { "goes on" } else { "begins" };
        self.log.add_message(&format!("training {words}: {} on {}", run.net, run.device))?;
        if run.parts > 1 {
            let rows = run.batch.div_ceil(run.parts);
            let memory = files::format_bytes(run.memory_bytes);
            self.log.add_message(&format!("batches of {} in {} parts of {rows}: {memory}", run.batch, run.parts))?;
        }
        // `axis`, `last`, `members` and `worth` tell whoever watches where the rows `epoch` lead, whatever the learner.
        let row = json!({
            "net": run.net, "device": run.device, "pid": std::process::id(), "axis": "epoch", "last": run.epochs, "patience": run.patience,
            "members": run.groups.iter().sum::<u64>(), "worth": "valid_mcc",
        });
        self.log.add_row(if resumed { "resumed" } else { "started" }, fields(row))?;
        for phase in &run.phases {
            self.log.add_row("phase", fields(json!({"name": phase.name, "seconds": phase.seconds})))?;
        }
        self.phase("train")
    }

    /// Something else is done from now on.
    pub(crate) fn phase(&mut self, name: &str) -> Result<()> {
        self.log.add_row("phase", fields(json!({"name": name})))
    }

    /// A sentence for people.
    pub(crate) fn note(&mut self, said: &str) -> Result<()> {
        self.log.add_message(said)
    }

    /// How full the machine is, every ten seconds or so.
    fn machine(&mut self, sample: &Sample) -> Result<()> {
        let gpu = sample.gpus.first();
        let row = json!({
            "cpu_percent": sample.cpu_mean_percent().round(), "memory_bytes": sample.process_memory_bytes,
            "gpu_percent": gpu.and_then(|g| g.busy_percent), "gpu_memory_bytes": gpu.and_then(|g| g.memory_used_bytes),
            "gpu_watts": gpu.and_then(|g| g.power_watts).map(f32::round), "gpu_celsius": gpu.and_then(|g| g.temperature_celsius),
        });
        self.log.add_row("machine", fields(row))
    }

    /// Takes a look at the machine down, unless the last one is younger than ten seconds.
    pub(crate) fn looked(&mut self, latest: impl FnOnce() -> Option<Sample>) -> Result<()> {
        if self.seen.is_some_and(|seen| seen.elapsed() < EVERY) {
            return Ok(());
        }
        let Some(sample) = latest() else { return Ok(()) };
        self.seen = Some(Instant::now());
        self.machine(&sample)
    }

    /// Takes news down; a line for people where they would want one.
    pub(crate) fn take(&mut self, news: &News<'_>, rate: f64) -> Result<Option<String>> {
        match news {
            News::Epoch { member, epoch, best } => self.epoch(member, epoch, *best, rate).map(Some),
            News::Ended(member) => {
                let why = match &member.stopped {
                    Some(Stopped::Fault(why)) => why.clone(),
                    Some(Stopped::Patience) => "patience".into(),
                    Some(Stopped::Epochs) | None => "epochs".into(),
                };
                self.log.add_row("ended", fields(json!({"member": member.id, "why": why})))?;
                let line = format!("{} ended after epoch {}: {why}", self.named(member), member.history.len());
                self.log.add_message(&line)?;
                // What is not finite is told at once.
                Ok(matches!(member.stopped, Some(Stopped::Fault(_))).then_some(line))
            }
            News::Group { number, of, members, memory, ways } => {
                let group =
                    json!({"group": number + 1, "of": of, "members": members, "memory_bytes": memory, "ways": ways});
                self.log.add_row("group", fields(group))?;
                Ok(None)
            }
            News::Less(what) => {
                self.log.add_row("less_memory", fields(json!({"what": what})))?;
                let line = format!("less memory than was planned with: {what}");
                self.log.add_message(&line)?;
                Ok(Some(line))
            }
            News::Saved => {
                self.log.add_row("saved", Map::new())?;
                Ok(None)
            }
            News::Samples(_) => Ok(None),
        }
    }

    fn epoch(&mut self, member: &Trained, epoch: &Epoch, best: bool, rate: f64) -> Result<String> {
        let mut row = json!({
            "member": member.id, "fold": member.fold + 1, "seed": member.seed + 1, "epoch": epoch.epoch, "step": epoch.step,
            "train_loss": epoch.train_loss, "valid_loss": epoch.valid_loss, "valid_mcc": epoch.worth, "norm": epoch.norm,
            "best": best, "samples_per_s": rate.round(),
        });
        if self.several {
            row["config"] = json!(member.config + 1);
        }
        self.log.add_row("epoch", fields(row))?;
        let figure = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.4}"));
        let line = format!(
            "{} epoch {}: loss {}, validation {}, MCC {}{}, {:.0} samples/s",
            self.named(member),
            epoch.epoch,
            figure(epoch.train_loss),
            figure(epoch.valid_loss),
            figure(epoch.worth),
            if best { " (best)" } else { "" },
            rate
        );
        self.log.add_message(&line)?;
        if self.events.len() < EVENTS || self.events.contains_key(&member.id) {
            let events = match self.events.entry(member.id) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    let config = if self.several { format!("config-{}-", member.config + 1) } else { String::new() };
                    let name = format!("{config}fold-{}-seed-{}", member.fold + 1, member.seed + 1);
                    let folder = self.folder.join(name);
                    place.insert(Events::create(&folder, u64::from(epoch.step))?)
                }
            };
            let all = [
                ("train/loss", epoch.train_loss),
                ("valid/loss", epoch.valid_loss),
                ("valid/mcc", epoch.worth),
                ("train/grad_norm", epoch.norm),
                ("time/samples_per_s", Some(rate)),
            ];
            events.scalars(u64::from(epoch.step), all.into_iter().filter_map(|(tag, x)| Some((tag, x?))))?;
        }
        Ok(line)
    }

    /// `fold 2 seed 1`, or `config 3 fold 2 seed 1` where there are several.
    fn named(&self, member: &Trained) -> String {
        let config = if self.several { format!("config {} ", member.config + 1) } else { String::new() };
        format!("{config}fold {} seed {}", member.fold + 1, member.seed + 1)
    }

    pub(crate) fn end(&mut self, run: &TrainRun) -> Result<()> {
        let kind = if run.interrupted { "interrupted" } else { "finished" };
        let mcc = run.judged.as_ref().map(|j| j.mcc);
        let end = fields(json!({
            "test_mcc": mcc, "seconds": run.seconds, "verdict": run.verdict, "phases": run.phases,
        }));
        self.log.add_row(kind, end)?;
        let judged = mcc.map_or(String::new(), |mcc| format!("; test MCC {mcc:.4}"));
        self.log.add_message(&format!("{kind} after {:.1} s{judged}; {}", run.seconds, run.verdict))?;
        self.log.sync()
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
