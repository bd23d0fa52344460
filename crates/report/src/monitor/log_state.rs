//! What the log of a run says: rows in, members, curves and phases out, all within bounds that no log can break.

use super::{Member, Metric, SAMPLES, instant, lower_is_better, seconds};
use crate::Row;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// Places on an axis; the first that a row has is the one it is drawn by.
const AXES: [&str; 7] = ["epoch", "generation", "update", "iteration", "episode", "timestep", "step"];
/// Numbers that name a member.
const NAMES: [&str; 6] = ["member", "fold", "seed", "group", "island", "config"];
/// The first of these that a row has makes groups of members.
const GROUPS: [&str; 4] = ["config", "fold", "island", "group"];
/// Members and groups beyond these have no curves of their own, only their last values; those beyond the second figure
/// are not seen at all.
const CURVES: usize = 128;
pub(super) const COUNTED: usize = 4096;
/// Metrics beyond these are not seen.
pub(super) const METRICS: usize = 24;
/// Moments by which the pace is known.
const MOMENTS: usize = 90;

/// What the log says.
#[derive(Debug, Clone, Default)]
pub(super) struct LogState {
    pub(super) net: Option<String>,
    pub(super) device: Option<String>,
    pub(super) axis: Option<String>,
    pub(super) axis_end: Option<f64>,  // of the axis
    pub(super) n_members: Option<u64>, // members
    pub(super) score: Option<String>,
    pub(super) lower_is_better: Option<bool>, // of the score; older programs did not write it
    pub(super) members: BTreeMap<u64, Member>,
    pub(super) groups: Vec<(String, Vec<u64>)>, // in order of appearance
    pub(super) metrics: Vec<Metric>,
    pub(super) rates: Vec<(String, f64)>,
    pub(super) phases: Vec<Phase>,
    pub(super) machine_rows: Vec<(i64, f64, Option<f64>)>, // rows `machine`: when, processor, card; percent
    pub(super) verdict: Option<String>,
    pub(super) steps_done: f64,                    // places, all members together
    pub(super) pace_samples: VecDeque<(i64, f64)>, // when a second with rows began, and how far all were at its end
    pub(super) last_row: i64,
}

/// What was being done, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) since: Option<i64>, // when it began, if it still goes on
    pub(super) seconds: f64,       // how long it took, if it is over
}

impl LogState {
    /// Takes in a row.
    pub(super) fn add_row(&mut self, row: &Row) {
        let time = instant(&row.time);
        self.last_row = self.last_row.max(time.unwrap_or(0));
        match row.kind.as_str() {
            "started" | "resumed" => self.begin(row),
            "phase" => self.add_phase(row, time.unwrap_or(self.last_row)),
            "machine" => {
                if let (Some(time), Some(cpu)) = (time, row.number("cpu_percent")) {
                    self.machine_rows.push((time, cpu, row.number("gpu_percent")));
                    // Every other one goes when there are too many: the history stays whole, and coarser.
                    if self.machine_rows.len() > SAMPLES {
                        self.machine_rows = self.machine_rows.chunks(2).map(|pair| pair[0]).collect();
                    }
                }
            }
            "ended" => {
                if let Some(member) = row.number("member").and_then(|id| self.members.get_mut(&(id as u64))) {
                    member.ended = Some(row.text("why").unwrap_or("ended").to_string());
                }
            }
            "finished" | "interrupted" => self.finish(row),
            _ => {}
        }
        if row.kind != "ended"
            && let Some((axis, x)) = AXES.iter().find_map(|a| Some((*a, row.number(a)?)))
        {
            self.add_measurement(row, axis, x, time);
        }
    }

    fn begin(&mut self, row: &Row) {
        let text = |field: &str| row.text(field).map(str::to_string);
        self.net = text("net").or(self.net.take());
        self.device = text("device").or(self.device.take());
        self.axis = text("axis").or(self.axis.take());
        self.score = text("worth").or(self.score.take());
        self.lower_is_better = row.fields.get("lower_is_better").and_then(Value::as_bool).or(self.lower_is_better);
        self.axis_end = row.number("last").or(self.axis_end);
        self.n_members = row.number("members").map(|n| n as u64).or(self.n_members);
        // A run that goes on has phases of its own, and the pace before the pause says nothing.
        (self.phases, self.pace_samples) = Default::default();
        self.verdict = None;
    }

    /// A phase begins, or is said to have been.
    fn add_phase(&mut self, row: &Row, time: i64) {
        let Some(name) = row.text("name") else { return };
        let taken = row.number("seconds");
        for phase in self.phases.iter_mut().filter(|_| taken.is_none()) {
            if let Some(since) = phase.since.take() {
                phase.seconds = seconds(time, since).max(0.0);
            }
        }
        if self.phases.len() < 64 {
            let since = taken.is_none().then_some(time);
            self.phases.push(Phase { name: name.to_string(), since, seconds: taken.unwrap_or(0.0).max(0.0) });
        }
    }

    fn finish(&mut self, row: &Row) {
        self.verdict = row.text("verdict").map(str::to_string).filter(|v| !v.is_empty());
        // What the run itself counted is finer than what we saw.
        let Some(phases) = row.fields.get("phases").and_then(Value::as_array) else { return };
        let phase = |p: &Value| {
            Some(Phase { name: p["name"].as_str()?.to_string(), since: None, seconds: p["seconds"].as_f64()?.max(0.0) })
        };
        let all: Vec<Phase> = phases.iter().take(64).filter_map(phase).collect();
        if !all.is_empty() {
            self.phases = all;
        }
    }

    /// A row with a place on the axis: every other number in it is a metric.
    fn add_measurement(&mut self, row: &Row, axis: &str, x: f64, time: Option<i64>) {
        self.axis.get_or_insert_with(|| axis.to_string());
        let id = row.number("member").unwrap_or(0.0) as u64;
        if !self.members.contains_key(&id) && self.members.len() == COUNTED {
            return;
        }
        let group = GROUPS.iter().find_map(|g| Some(format!("{g} {}", row.number(g)?)));
        let member = self.members.entry(id).or_insert_with(|| {
            if let Some(group) = &group {
                match self.groups.iter_mut().find(|g| g.0 == *group) {
                    Some(known) => known.1.push(id),
                    None => self.groups.push((group.clone(), vec![id])),
                }
            }
            Member { name: member_name(row, id), ..Member::default() }
        });
        self.steps_done += (x - member.at).max(0.0);
        member.at = member.at.max(x);
        for (field, value) in &row.fields {
            if let Some(y) = value.as_f64().filter(|_| !AXES.contains(&&**field) && !NAMES.contains(&&**field)) {
                self.add_metric(field, id, group.as_deref(), x, y);
            }
        }
        let score = self.score_metric().and_then(|w| Some((self.lower_is_better(), row.number(w)?)));
        if let Some((lower, value)) = score
            && let Some(member) = self.members.get_mut(&id)
        {
            // The run says which is its best; where it says nothing, the value does.
            let better = member.best.is_none_or(|(_, best)| if lower { value < best } else { value > best });
            if row.fields.get("best").map_or(better, |said| *said == Value::Bool(true)) {
                member.best = Some((x, value));
            }
        }
        if let Some(time) = time {
            self.add_pace_sample(time);
        }
    }

    /// One metric of a measurement.
    fn add_metric(&mut self, field: &str, id: u64, group: Option<&str>, x: f64, y: f64) {
        if field.ends_with("_per_s") {
            match self.rates.iter().position(|r| r.0 == *field) {
                Some(at) => self.rates[at].1 = y,
                None if self.rates.len() < 4 => self.rates.push((field.to_string(), y)),
                None => {}
            }
        }
        let at = match self.metrics.iter().position(|m| m.name == *field) {
            Some(at) => at,
            None if self.metrics.len() < METRICS => {
                self.metrics.push(Metric { name: field.to_string(), ..Metric::default() });
                self.metrics.len() - 1
            }
            None => return,
        };
        let metric = &mut self.metrics[at];
        metric.all.add(x, y);
        if y.is_finite() {
            metric.last.insert(id, y);
        }
        if let Some(group) = group.filter(|g| metric.groups.len() < CURVES || metric.groups.contains_key(*g)) {
            metric.groups.entry(group.to_string()).or_default().add(x, y);
        }
        if metric.members.len() < CURVES || metric.members.contains_key(&id) {
            metric.members.entry(id).or_default().add(x, y);
        }
    }

    /// Whether a smaller score is the better one: as the run says, else by the name of the metric.
    pub(super) fn lower_is_better(&self) -> bool {
        let by_name = || self.score_metric().is_some_and(lower_is_better);
        self.lower_is_better.unwrap_or_else(by_name)
    }

    /// By which metric the best is chosen.
    pub(super) fn score_metric(&self) -> Option<&str> {
        self.score.as_deref().or_else(|| {
            // Where nobody says so, what sounds like a score is one, else a loss.
            let known = ["mcc", "sharpe", "reward", "return", "score", "fitness", "accuracy", "loss"];
            let find = |part: &&str| self.metrics.iter().rfind(|m| m.name.contains(*part));
            known.iter().find_map(find).map(|m| m.name.as_str())
        })
    }

    /// Remembers how far all were, second by second. Members that are trained at once also log at once, and that is one
    /// moment.
    fn add_pace_sample(&mut self, time: i64) {
        match self.pace_samples.back_mut() {
            Some(moment) if time.saturating_sub(moment.0) < 1_000_000_000 => moment.1 = self.steps_done,
            _ => self.pace_samples.push_back((time, self.steps_done)),
        }
        if self.pace_samples.len() > MOMENTS {
            self.pace_samples.pop_front();
        }
    }
}

/// `fold 2 seed 1`, `config 3 fold 2 seed 1`, or by its number.
fn member_name(row: &Row, id: u64) -> String {
    let parts = ["config", "fold", "island", "seed"].iter().filter_map(|n| Some(format!("{n} {}", row.number(n)?)));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { format!("member {}", id + 1) } else { parts.join(" ") }
}
