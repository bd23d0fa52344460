//! A state from which a training can go on, to the bit, as the parts of a checkpoint.

use super::member::Trained;
use compute::population::{Pace, Pins, Snapshot};
use files::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// Everything a training is, between two chunks of steps.
#[derive(Debug, Clone)]
pub struct Saved {
    /// `[members]` all of them, with their histories and best weights.
    pub members: Vec<Trained>,
    /// Members that train now; the others are at their end or have not begun.
    pub running: Vec<Snapshot>,
    /// The algorithms of products that the run keeps to.
    pub pins: Pins,
    /// In how many parts batches go through the net: it changes the order of sums, so the run keeps to it.
    pub pace: Pace,
}

/// What is written as JSON beside the numbers.
#[derive(Serialize, Deserialize)]
struct Words {
    members: Vec<Trained>,
    pins: Pins,
    #[serde(default)]
    pace: Pace,
    /// Length of each running member's snapshot, in order.
    running: Vec<u64>,
}

impl Saved {
    pub(crate) fn new(members: Vec<Trained>) -> Saved {
        Saved { members, running: Vec::new(), pins: Pins::default(), pace: Pace::default() }
    }

    /// The parts: words, snapshots, best weights, last weights of those that ended.
    pub fn parts(&self) -> Vec<(&'static str, Vec<u8>)> {
        let running: Vec<Vec<u8>> = self.running.iter().map(Snapshot::to_bytes).collect();
        let words = Words {
            members: self.members.clone(),
            pins: self.pins.clone(),
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

    /// Back from the parts; `params` is the length of a row of the arena.
    pub fn from_parts(read: &dyn Fn(&str) -> Result<Vec<u8>>, params: usize) -> Result<Saved> {
        let damaged = |what: String| {
            Error::new(Kind::State, format!("the checkpoint cannot be used: {what}"))
                .remedy("begin afresh, with another --out")
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
        let mut rows = last.chunks_exact(4 * params.max(1));
        for last in words.members.iter_mut().filter_map(|m| m.last.as_mut()) {
            let row = rows.next().ok_or_else(|| damaged("last.bin is shorter than state.json says".into()))?;
            last.params = row.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        }
        let best = read("best.bin")?;
        let mut rows = best.chunks_exact(4 * params.max(1));
        for best in words.members.iter_mut().filter_map(|m| m.best.as_mut()) {
            let row = rows.next().ok_or_else(|| damaged("best.bin is shorter than state.json says".into()))?;
            best.params = row.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        }
        Ok(Saved { members: words.members, running, pins: words.pins, pace: words.pace })
    }
}
