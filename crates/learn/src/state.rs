//! A state from which a training can go on, to the bit, as the parts of a checkpoint.

use crate::checkpoint::Staging;
use crate::member::HistoryRun;
use crate::{Learner, Snapshot, Trained, failed};
use compute::population::{Pace, Pins};
use files::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Everything a training is, between two chunks of steps.
#[derive(Debug, Clone)]
pub struct TrainState {
    /// `[members]` all of them, with their histories and best weights.
    pub members: Vec<Trained>,
    /// Members that train now; the others have ended or not begun.
    pub running: Vec<Snapshot>,
    /// The algorithms of products that the run keeps to, for the first config of each kind.
    pub pins: BTreeMap<usize, Pins>,
    /// In how many parts batches go through the net: it changes the order of sums, so the run keeps to it.
    pub pace: Pace,
}

/// What is written as JSON beside the numbers. A long history is not copied to be written, and goes as numbers: as text
/// it takes four times the memory, of which a long training would take more and more.
#[derive(Serialize, Deserialize)]
struct StateJson<'a> {
    members: Cow<'a, [Trained]>,
    /// `[members][runs]` names of the figures in their histories; older states have those in the members.
    #[serde(default)]
    histories: Vec<Vec<HistoryRun>>,
    /// Of the first config.
    pins: Pins,
    /// Of the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    other_pins: BTreeMap<usize, Pins>,
    #[serde(default)]
    pace: Pace,
    /// Length of each running member's snapshot, in order.
    running: Vec<u64>,
}

impl TrainState {
    pub(crate) fn new(members: Vec<Trained>) -> TrainState {
        TrainState { members, running: Vec::new(), pins: BTreeMap::new(), pace: Pace::default() }
    }

    /// Puts the parts into a staging area: JSON, snapshots, best weights, last weights of those that ended.
    pub fn stage(&self, staging: &mut Staging) {
        let json = StateJson {
            members: Cow::Borrowed(&self.members),
            histories: self.members.iter().map(Trained::history_runs).collect(),
            pins: self.pins.get(&0).cloned().unwrap_or_default(),
            other_pins: self.pins.iter().filter(|p| *p.0 > 0).map(|(kind, pins)| (*kind, pins.clone())).collect(),
            pace: self.pace,
            running: self.running.iter().map(|s| s.bytes.len() as u64).collect(),
        };
        serde_json::to_writer(staging.part("state.json"), &json).expect("plain values have no failing serialisers");
        let running = staging.part("members.bin");
        self.running.iter().for_each(|s| running.extend_from_slice(&s.bytes));
        let histories = staging.part("history.bin");
        self.members.iter().for_each(|member| member.write_history(histories));
        let mut rows = |name: &str, of: fn(&Trained) -> Option<&[f32]>| {
            staging.part(name).extend(self.members.iter().filter_map(of).flatten().flat_map(|x| x.to_le_bytes()));
        };
        rows("best.bin", |m| m.best.as_ref().map(|b| b.params.as_slice()));
        rows("last.bin", |m| m.last.as_ref().map(|l| l.params.as_slice()));
    }

    /// Back from the parts.
    pub fn from_parts(read: &dyn Fn(&str) -> Result<Vec<u8>>, learner: &dyn Learner) -> Result<TrainState> {
        let damaged = |what: String| {
            Error::new(Kind::State, format!("the checkpoint cannot be used: {what}"))
                .remedy("start a new run with another <out>")
        };
        let json: StateJson<'_> =
            serde_json::from_slice(&read("state.json")?).map_err(|e| damaged(format!("state.json: {e}")))?;
        let mut members = json.members.into_owned();
        let (bytes, mut at) = (read("members.bin")?, 0usize);
        let mut running = Vec::new();
        for length in &json.running {
            let end = usize::try_from(*length).ok().and_then(|n| at.checked_add(n)).filter(|end| *end <= bytes.len());
            let end = end.ok_or_else(|| damaged("members.bin is shorter than state.json says".into()))?;
            running.push(learner.read_snapshot(&bytes[at..end]).map_err(|e| damaged(e.to_string()))?);
            at = end;
        }
        let histories = if json.histories.is_empty() { Vec::new() } else { read("history.bin")? };
        let mut from = histories.as_slice();
        for (member, runs) in members.iter_mut().zip(&json.histories) {
            if !member.read_history(runs, &mut from) {
                return Err(damaged("history.bin is shorter than state.json says".into()));
            }
        }
        // States of older programs have no last weights, and name none.
        let ended = members.iter().any(|m| m.last.is_some());
        let last = if ended { read("last.bin")? } else { Vec::new() };
        let best = read("best.bin")?;
        let (mut last, mut best) = (last.as_slice(), best.as_slice());
        let row = |from: &mut &[u8], name: &str, config: usize| {
            let config =
                learner.configs().get(config).ok_or_else(|| damaged(format!("there is no config {config}")))?;
            let params = config.params().map_err(failed)?;
            let (row, rest) = from
                .split_at_checked(4 * params)
                .ok_or_else(|| damaged(format!("{name} is shorter than state.json says")))?;
            *from = rest;
            Ok(row.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
        };
        for member in &mut members {
            member.share_names(0);
            if let Some(kept) = &mut member.last {
                kept.params = row(&mut last, "last.bin", member.config)?;
            }
            if let Some(kept) = &mut member.best {
                kept.params = row(&mut best, "best.bin", member.config)?;
            }
        }
        let mut pins = json.other_pins;
        pins.insert(0, json.pins);
        Ok(TrainState { members, running, pins, pace: json.pace })
    }
}
