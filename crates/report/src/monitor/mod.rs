//! What is known of a run while it is watched: one plain value, made of log rows, looks at the machine and what the
//! folder says.
//!
//! Nothing here knows a learner. A row of the log that has a place on an axis (`epoch`, `generation`, `update`, …) is a
//! measurement, and every number in it that is neither a place nor the name of a member is a metric under its own name.
//! So what a later learner logs is shown without a word about it here. What helps and need not be there: the row
//! `started` may say the `axis`, where it ends (`last`), how many `members` there are and by which metric the best is
//! chosen (`score`); rows `phase` say what is being done, rows `machine` how full it was; a measurement with `"best":
//! true` is its member's best so far.
//!
//! [`Follow`] reads the rows, [`Watch::take`] takes them in, [`told`] says it as JSON, [`draw`] paints it.

mod draw;
mod follow;
mod labels;
mod log_state;
mod panels;
mod selection;
mod series;
mod summary;

pub use draw::draw_monitor;
pub use follow::{LogFollower, NewRows};
pub use labels::field_label;
pub use panels::judged_fields;
pub use selection::{Selection, View};
pub use series::{Point, Series};
pub use summary::{BestSummary, MemberSummary, MetricSummary, MonitorSummary, PhaseSummary, summarise};

use crate::{Row, RunStatus, RunSummary};
use log_state::LogState;
use machine::Sample;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// Looks at the machine that are kept.
const SAMPLES: usize = 600;

/// What is known of a run.
#[derive(Debug, Clone, Default)]
pub struct MonitorState {
    /// The folder, and what it says of itself; none before the first look.
    pub run: Option<RunSummary>,
    /// Now, nanoseconds since 1970.
    pub now: i64,
    /// Whether the folder has gone while it was watched.
    pub gone: bool,
    /// Whether the run's process, if there is one, is on this machine.
    pub on_this_machine: bool,
    /// What came out, as the folder has it.
    pub result: Option<Value>,
    /// The machine of late, the newest last.
    pub samples: VecDeque<Sample>,
    /// Lines of the log that are no rows.
    pub skipped: u64,
    /// Why the log could not be read.
    pub problem: Option<String>,
    log: LogState,
}

/// A member, as far as it came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Member {
    /// `fold 2 seed 1`
    pub name: String,
    /// Its place on the axis.
    pub at: f64,
    /// Place and score of its best.
    pub best: Option<(f64, f64)>,
    /// Why it ended; none while it goes on.
    pub ended: Option<String>,
}

/// A named number, over all members, groups and each member.
#[derive(Debug, Clone, Default)]
pub struct Metric {
    /// As the log names it: `valid_loss`.
    pub name: String,
    all: Series,
    groups: BTreeMap<String, Series>,
    members: BTreeMap<u64, Series>,
    last: BTreeMap<u64, f64>, // of every member, also of those without a curve
}

impl Metric {
    /// Its curve for what was picked.
    pub fn curve(&self, selection: &Selection) -> Option<&Series> {
        match selection {
            Selection::All => Some(&self.all),
            Selection::Group(name) => self.groups.get(name),
            Selection::Member(id) => self.members.get(id),
        }
    }

    /// The last value, or the mean of the members' last values.
    pub fn last(&self, ids: &[u64]) -> Option<f64> {
        let all: Vec<f64> = ids.iter().filter_map(|id| self.last.get(id).copied()).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }
}

impl MonitorState {
    /// Takes in a row of the log; `None` forgets them all, since the log begins anew.
    pub fn add_row(&mut self, row: Option<&Row>) {
        match row {
            None => self.log = LogState::default(),
            Some(row) => self.log.add_row(row),
        }
    }

    /// Takes in a look at the machine.
    pub fn add_sample(&mut self, sample: Sample) {
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Whether a process works on the run.
    pub fn is_running(&self) -> bool {
        !self.gone && matches!(self.run.as_ref().map(|r| &r.status), Some(RunStatus::Running(_)))
    }

    /// How it stands: one word, and what can be done.
    pub fn describe_status(&self) -> (&'static str, String) {
        let Some(run) = &self.run else { return ("unknown", String::new()) };
        let resume = format!("resume with `fullbore runs resume {}`", run.folder.display());
        let problem = || run.run.as_ref().and_then(|r| r.problem.clone()).unwrap_or_default();
        match &run.status {
            _ if self.gone => ("gone", format!("the folder {} is no longer there", run.folder.display())),
            RunStatus::Running(holder) if holder.pid > 0 => ("running", format!("process {}", holder.pid)),
            RunStatus::Running(_) => ("running", String::new()),
            RunStatus::Finished => ("finished", String::new()),
            RunStatus::Interrupted => ("interrupted", resume),
            RunStatus::Crashed => ("crashed", format!("no process works on it: {resume}")),
            RunStatus::Failed => ("failed", problem()),
            RunStatus::Unreadable(why) => ("unreadable", why.clone()),
        }
    }

    /// The net, in words, if the log says it.
    pub fn net(&self) -> Option<&str> {
        self.log.net.as_deref()
    }

    /// What it runs on.
    pub fn device(&self) -> Option<&str> {
        let recorded = self.run.as_ref().and_then(|r| r.run.as_ref()).map(|r| r.device.as_str());
        self.log.device.as_deref().or(recorded).filter(|d| !d.is_empty())
    }

    /// What the places on the axis are called.
    pub fn axis(&self) -> &str {
        self.log.axis.as_deref().unwrap_or("epoch")
    }

    /// Where the axis ends, if it is known.
    pub fn axis_end(&self) -> Option<f64> {
        self.log.axis_end
    }

    /// By id.
    pub fn members(&self) -> &BTreeMap<u64, Member> {
        &self.log.members
    }

    /// How many members there will be.
    pub fn n_members(&self) -> u64 {
        let recorded = self.run.as_ref().and_then(|r| r.run.as_ref()).map(|r| r.members);
        self.log.n_members.or(recorded).unwrap_or(0).max(self.log.members.len() as u64)
    }

    /// Names of groups, with the members of each.
    pub fn groups(&self) -> &[(String, Vec<u64>)] {
        &self.log.groups
    }

    /// In order of first appearance.
    pub fn metrics(&self) -> &[Metric] {
        &self.log.metrics
    }

    /// Names and values of rates: `samples_per_s`.
    pub fn rates(&self) -> &[(String, f64)] {
        &self.log.rates
    }

    /// The metric by which the best is chosen.
    pub fn score_metric(&self) -> Option<&str> {
        self.log.score_metric()
    }

    /// The best member so far: its id.
    pub fn best_member(&self, ids: &[u64]) -> Option<u64> {
        let lower = self.log.lower_is_better();
        let score = |id: &u64| {
            let (_, value) = self.log.members.get(id)?.best?;
            Some((*id, if lower { -value } else { value }))
        };
        // The first of equals.
        ids.iter().filter_map(score).reduce(|a, b| if b.1 > a.1 { b } else { a }).map(|b| b.0)
    }

    /// The share of all places that was walked, `0..=1`, members that ended early counted whole.
    pub fn share_done(&self) -> Option<f64> {
        let (end, n_members) = (self.log.axis_end?, self.n_members());
        let place = |m: &Member| if m.ended.is_some() { end } else { m.at.min(end) };
        (n_members > 0 && end > 0.0)
            .then(|| self.log.members.values().map(place).sum::<f64>() / (end * n_members as f64))
    }

    /// Seconds left at the pace of the last minutes, if no member ends early.
    pub fn seconds_left(&self) -> Option<f64> {
        let (end, n_members) = (self.log.axis_end?, self.n_members());
        let (from, to) = (self.log.pace_samples.front()?, self.log.pace_samples.back()?);
        let pace = (to.1 - from.1) / seconds(to.0, from.0);
        let waiting = n_members.saturating_sub(self.log.members.len() as u64) as f64 * end;
        let begun = self.log.members.values().filter(|m| m.ended.is_none()).map(|m| (end - m.at).max(0.0));
        (self.is_running() && pace.is_finite() && pace > 0.0).then(|| (waiting + begun.sum::<f64>()) / pace)
    }

    /// Seconds since it began, or that it took.
    pub fn elapsed_seconds(&self) -> Option<f64> {
        let run = self.run.as_ref()?.run.as_ref()?;
        let end = match &run.ended {
            Some(ended) => instant(ended)?,
            // Nobody knows when a crashed run ended; its last row is the best there is.
            None if self.is_running() => self.now,
            None => self.log.last_row,
        };
        Some(seconds(end, instant(&run.started)?).max(0.0))
    }

    /// Seconds since its log was last written to.
    pub fn seconds_since_log(&self) -> Option<f64> {
        (self.log.last_row > 0).then(|| seconds(self.now, self.log.last_row).max(0.0))
    }

    /// Phases with their seconds, in order, those of one name together; the one that goes on last.
    pub fn phases(&self) -> Vec<(String, f64, bool)> {
        let mut all: Vec<(String, f64, bool)> = Vec::new();
        let now = if self.is_running() { self.now } else { self.log.last_row };
        for phase in &self.log.phases {
            let spent = phase.since.map_or(phase.seconds, |since| seconds(now, since).max(0.0));
            let on = phase.since.is_some() && self.is_running();
            match all.iter_mut().find(|p| p.0 == phase.name) {
                Some(known) => (known.1, known.2) = (known.1 + spent, known.2 || on),
                None => all.push((phase.name.clone(), spent, on)),
            }
        }
        all
    }

    /// What limits the run, in words: as it said itself at its end, or as the machine looks meanwhile.
    pub fn verdict(&self) -> String {
        if let (false, Some(verdict)) = (self.is_running(), &self.log.verdict) {
            return verdict.clone();
        }
        if !self.is_running() || !self.on_this_machine {
            return String::new();
        }
        let late = || self.samples.iter().rev().take(30);
        let mean = |value: &dyn Fn(&Sample) -> Option<f64>| {
            let all: Vec<f64> = late().filter_map(value).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        };
        let Some(cpu) = mean(&|s| Some(f64::from(s.cpu_mean_percent()))) else { return String::new() };
        let cores = late().next().map_or(1, |s| s.cpu_percent.len().max(1));
        let busy = cpu / 100.0 * cores as f64;
        let hottest = mean(&|s| s.cpu_percent.iter().copied().reduce(f32::max).map(f64::from)).unwrap_or(0.0);
        let on_card = self.device().is_some_and(|d| !d.starts_with("the processor") && !d.starts_with("cpu"));
        match mean(&|s| s.gpus.iter().filter_map(|g| g.busy_percent).reduce(f32::max).map(f64::from)) {
            Some(gpu) if on_card && gpu < 60.0 && hottest > 90.0 => {
                format!("GPU {gpu:.0} % busy while one core is full: limited by the processor")
            }
            Some(gpu) if on_card => format!("GPU {gpu:.0} % busy, and {busy:.1} of {cores} cores"),
            _ => format!("CPU: {busy:.1} of {cores} cores busy"),
        }
    }

    /// Rows `machine` of the log: when, the processor and the card in percent.
    pub fn machine_history(&self) -> &[(i64, f64, Option<f64>)] {
        &self.log.machine_rows
    }
}

/// Whether a smaller value of that metric is the better one.
pub(super) fn lower_is_better(name: &str) -> bool {
    ["loss", "error", "drawdown", "regret", "norm"].iter().any(|part| name.contains(part))
}

fn instant(rfc3339: &str) -> Option<i64> {
    files::time::parse(rfc3339.as_bytes(), files::time::Order::Ymd).map(|stamp| stamp.ns)
}

/// From one instant to a later one.
fn seconds(to: i64, from: i64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}

#[cfg(test)]
mod tests;
