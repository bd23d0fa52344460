//! A run while it is watched, as one object for programs.

use super::MonitorState;
use super::selection::Selection;
use machine::Sample;
use serde::Serialize;
use serde_json::Value;

/// What is known of a run.
#[derive(Debug, Clone, Serialize)]
pub struct MonitorSummary {
    /// Name of its folder.
    pub name: String,
    /// Its folder.
    pub folder: String,
    /// `running`, `finished`, `interrupted`, `crashed`, `failed`, `unreadable`, `gone`.
    pub state: String,
    /// What can be done, why it failed, or which process it is; may be empty.
    pub says: String,
    /// The verb it is.
    pub verb: Option<String>,
    /// When it began, RFC 3339 UTC.
    pub started: Option<String>,
    /// When it ended; null while it runs.
    pub ended: Option<String>,
    /// So far, or altogether.
    pub elapsed_seconds: Option<f64>,
    /// As text.
    pub net: Option<String>,
    /// In words.
    pub device: Option<String>,
    /// What places of measurements are called: `epoch`.
    pub axis: String,
    /// The furthest place of any member.
    pub at: f64,
    /// Where the axis ends; null where nobody knows.
    pub last: Option<f64>,
    /// How many members there are or will be.
    pub members: u64,
    /// How many of them have ended.
    pub members_ended: u64,
    /// Of all places of all members.
    pub done_percent: Option<f64>,
    /// If no member ends early; null unless it runs.
    pub left_seconds: Option<f64>,
    /// By name, such as `samples_per_s`.
    pub rates: serde_json::Map<String, Value>,
    /// Where the time goes.
    pub phases: Vec<PhaseSummary>,
    /// The best so far.
    pub best: Option<BestSummary>,
    /// Curves over all members.
    pub metrics: Vec<MetricSummary>,
    /// A line for each member.
    pub by_member: Vec<MemberSummary>,
    /// The machine now; null unless the run runs here.
    pub machine: Option<Sample>,
    /// What limits it, in words.
    pub verdict: String,
    /// What was judged; null before the end.
    pub judged: Option<Value>,
    /// Lines of its log that are no rows.
    pub skipped_lines: u64,
    /// Why its log could not be read.
    pub problem: Option<String>,
}

/// A phase.
#[derive(Debug, Clone, Serialize)]
pub struct PhaseSummary {
    /// `train`
    pub name: String,
    /// So far.
    pub seconds: f64,
    /// Whether it goes on.
    pub running: bool,
}

/// The best so far.
#[derive(Debug, Clone, Serialize)]
pub struct BestSummary {
    /// Which member.
    pub member: String,
    /// By which metric.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// Where on the axis.
    pub at: f64,
}

/// A metric over all members.
#[derive(Debug, Clone, Serialize)]
pub struct MetricSummary {
    /// As the log names it.
    pub name: String,
    /// Mean of the members' last values.
    pub last: Option<f64>,
    /// `[place, mean, lowest, highest]`, at most 512 of them.
    pub points: Vec<[f64; 4]>,
}

/// A member.
#[derive(Debug, Clone, Serialize)]
pub struct MemberSummary {
    /// `fold 2 seed 1`
    pub name: String,
    /// Its place on the axis.
    pub at: f64,
    /// Its best by the metric that counts.
    pub best: Option<f64>,
    /// Where that was.
    pub best_at: Option<f64>,
    /// Why it ended; null while it goes on.
    pub ended: Option<String>,
    /// Its last values, by metric.
    pub last: serde_json::Map<String, Value>,
}

/// Says what is known.
pub fn summarise(monitor: &MonitorState) -> MonitorSummary {
    let (state, says) = monitor.describe_status();
    let run = monitor.run.as_ref().and_then(|r| r.run.as_ref());
    let ids = monitor.member_ids(&Selection::All);
    let best = monitor.best_member(&ids).and_then(|id| {
        let member = monitor.members().get(&id)?;
        let (at, value) = member.best?;
        Some(BestSummary { member: member.name.clone(), metric: monitor.score_metric()?.to_string(), value, at })
    });
    let member = |(id, m): (&u64, &super::Member)| MemberSummary {
        name: m.name.clone(),
        at: m.at,
        best: m.best.map(|b| b.1),
        best_at: m.best.map(|b| b.0),
        ended: m.ended.clone(),
        last: monitor.metrics().iter().filter_map(|x| Some((x.name.clone(), x.last(&[*id])?.into()))).collect(),
    };
    let metric = |m: &super::Metric| MetricSummary {
        name: m.name.clone(),
        last: m.last(&ids),
        points: m
            .curve(&Selection::All)
            .map_or_else(Vec::new, |s| s.points().map(|p| [p.x, p.mean, p.lo, p.hi]).collect()),
    };
    MonitorSummary {
        name: monitor.run.as_ref().map_or_else(String::new, |r| r.name.clone()),
        folder: monitor.run.as_ref().map_or_else(String::new, |r| r.folder.display().to_string()),
        state: state.into(),
        says,
        verb: run.map(|r| r.verb.clone()),
        started: run.map(|r| r.started.clone()),
        ended: run.and_then(|r| r.ended.clone()),
        elapsed_seconds: monitor.elapsed_seconds(),
        net: monitor.net().map(str::to_string),
        device: monitor.device().map(str::to_string),
        axis: monitor.axis().to_string(),
        at: monitor.members().values().map(|m| m.at).fold(0.0, f64::max),
        last: monitor.axis_end(),
        members: monitor.n_members(),
        members_ended: monitor.members().values().filter(|m| m.ended.is_some()).count() as u64,
        done_percent: monitor.share_done().map(|d| 100.0 * d),
        left_seconds: monitor.seconds_left(),
        rates: monitor.rates().iter().map(|(name, value)| (name.clone(), (*value).into())).collect(),
        phases: monitor
            .phases()
            .into_iter()
            .map(|(name, seconds, running)| PhaseSummary { name, seconds, running })
            .collect(),
        best,
        metrics: monitor.metrics().iter().map(metric).collect(),
        by_member: monitor.members().iter().map(member).collect(),
        machine: monitor.samples.back().filter(|_| monitor.is_running() && monitor.on_this_machine).cloned(),
        verdict: monitor.verdict(),
        judged: monitor.result.as_ref().and_then(|r| r.get("judged")).filter(|j| !j.is_null()).cloned(),
        skipped_lines: monitor.skipped,
        problem: monitor.problem.clone(),
    }
}
