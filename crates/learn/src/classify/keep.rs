//! A state from which a training can go on, to the bit, as the parts of a checkpoint.

use super::member::Trained;
use compute::population::{Pace, Pins, Snapshot};
use files::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything a training is, between two chunks of steps.
#[derive(Debug, Clone)]
pub struct Saved {
    /// `[members]` all of them, with their histories and best weights.
    pub members: Vec<Trained>,
    /// Members that train now; the others are at their end or have not begun.
    pub running: Vec<Snapshot>,
    /// The algorithms of products that the run keeps to, for the first config of each net and recipe.
    pub pins: BTreeMap<usize, Pins>,
    /// In how many parts batches go through the net: it changes the order of sums, so the run keeps to it.
    pub pace: Pace,
}

/// What is written as JSON beside the numbers.
#[derive(Serialize, Deserialize)]
struct Words {
    members: Vec<Trained>,
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

impl Saved {
    pub(crate) fn new(members: Vec<Trained>) -> Saved {
        Saved { members, running: Vec::new(), pins: BTreeMap::new(), pace: Pace::default() }
    }

    /// The parts: words, snapshots, best weights, last weights of those that ended.
    pub fn parts(&self) -> Vec<(&'static str, Vec<u8>)> {
        let running: Vec<Vec<u8>> = self.running.iter().map(Snapshot::to_bytes).collect();
        let words = Words {
            members: self.members.clone(),
            pins: self.pins.get(&0).cloned().unwrap_or_default(),
            other_pins: self.pins.iter().filter(|p| *p.0 > 0).map(|(job, pins)| (*job, pins.clone())).collect(),
            pace: self.pace,
            running: running.iter().map(|r| r.len() as u64).collect(),
        };
        let best = self.members.iter().filter_map(|m| m.best.as_ref());
        let best = best.flat_map(|b| b.params.iter().flat_map(|x| x.to_le_bytes())).collect();
        let words = serde_json::to_vec(&words).expect("plain words have no failing serialisers");
        let last = self.members.iter().filter_map(|m| m.last.as_ref());
        let last = last.flat_map(|l| l.params.iter().flat_map(|x| x.to_le_bytes())).collect();
        vec![("state.json", words), ("members.bin", running.concat()), ("best.bin", best), ("last.bin", last)]
    }

    /// Back from the parts; `params` is the length of a row of a config's arena.
    pub fn from_parts(read: &dyn Fn(&str) -> Result<Vec<u8>>, params: &dyn Fn(usize) -> usize) -> Result<Saved> {
        let damaged = |what: String| {
            Error::new(Kind::State, format!("the checkpoint cannot be used: {what}"))
                .remedy("begin afresh, with another <out>")
        };
        let mut words: Words =
            serde_json::from_slice(&read("state.json")?).map_err(|e| damaged(format!("state.json: {e}")))?;
        let (bytes, mut at) = (read("members.bin")?, 0usize);
        let mut running = Vec::new();
        for length in &words.running {
            let end = usize::try_from(*length).ok().and_then(|n| at.checked_add(n)).filter(|end| *end <= bytes.len());
            let end = end.ok_or_else(|| damaged("members.bin is shorter than state.json says".into()))?;
            running.push(Snapshot::from_bytes(&bytes[at..end]).map_err(|e| damaged(e.to_string()))?);
            at = end;
        }
        // States of older programs have no last weights, and name none.
        let ended = words.members.iter().any(|m| m.last.is_some());
        let last = if ended { read("last.bin")? } else { Vec::new() };
        let best = read("best.bin")?;
        let (mut last, mut best) = (last.as_slice(), best.as_slice());
        let row = |from: &mut &[u8], name: &str, config: usize| {
            let (row, rest) = from
                .split_at_checked(4 * params(config))
                .ok_or_else(|| damaged(format!("{name} is shorter than state.json says")))?;
            *from = rest;
            Ok(row.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
        };
        for member in &mut words.members {
            if let Some(kept) = &mut member.last {
                kept.params = row(&mut last, "last.bin", member.config)?;
            }
            if let Some(kept) = &mut member.best {
                kept.params = row(&mut best, "best.bin", member.config)?;
            }
        }
        let mut pins = words.other_pins;
        pins.insert(0, words.pins);
        Ok(Saved { members: words.members, running, pins, pace: words.pace })
    }
}
