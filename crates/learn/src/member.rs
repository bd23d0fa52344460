//! A member of the population: what it is, what its validations saw, when it ends.

use crate::Score;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// Seeds of one fold at most, folds of one config at most, configs at most: a member's id is `(config × FOLDS + fold) ×
/// SEEDS + seed`.
pub(crate) const SEEDS: u32 = 1 << 12;
pub(crate) const FOLDS: u32 = 1 << 10;
pub(crate) const CONFIGS: u32 = 1 << 10;

/// Which member: what all that it becomes depends on, beside data and settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberKey {
    /// Its set of hyper-parameters, from 0.
    pub config: usize,
    /// Its fold, from 0.
    pub fold: usize,
    /// Which of its fold's members, from 0.
    pub seed: u32,
}

impl MemberKey {
    /// Whether there can be such a member: a number that came from a file may be anything.
    pub fn is_possible(self) -> bool {
        self.config < CONFIGS as usize && self.fold < FOLDS as usize && self.seed < SEEDS
    }

    /// Its name for life; the root of its random numbers.
    pub fn id(self) -> u32 {
        (self.config as u32 * FOLDS + self.fold as u32) * SEEDS + self.seed
    }
}

/// How many members a config has and how long they train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Folds.
    pub folds: usize,
    /// Members of each fold.
    pub seeds: u32,
    /// Units of work at most.
    pub units: u32,
    /// A member ends after this many units without a better score.
    pub patience: u32,
}

impl Default for Extent {
    /// What a run has where nothing is set, on a single fold.
    fn default() -> Extent {
        Extent { folds: 1, seeds: 2, units: 500, patience: 50 }
    }
}

/// One member and its history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// Its name for life.
    pub id: u32,
    /// Its set of hyper-parameters, from 0.
    #[serde(default)]
    pub config: usize,
    /// Its fold, from 0.
    pub fold: usize,
    /// Which of its fold's members, from 0.
    pub seed: u32,
    /// One for each validation. Stored apart; older states have it here.
    #[serde(default, skip_serializing)]
    pub history: Vec<Validation>,
    /// The best validation, if any score was a number.
    pub best: Option<Best>,
    /// Why it ended; none while it trains.
    pub stopped: Option<Stopped>,
    /// Its weights when it ended; none while it trains.
    #[serde(default)]
    pub last: Option<Last>,
}

/// The weights of a member's last unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// Which unit.
    #[serde(rename = "epoch")]
    pub unit: u32,
    /// Stored apart.
    #[serde(skip)]
    pub params: Vec<f32>,
}

/// What a validation saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Units of work done, from 1.
    #[serde(rename = "epoch")]
    pub unit: u32,
    /// Steps done so far.
    pub step: u32,
    /// What is selected by; null where it is no number.
    #[serde(rename = "worth")]
    pub score: Option<f64>,
    /// What else was seen.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// Named figures of a validation, in the learner's order; none where one is no number.
///
/// A long training has many of them, so that a history keeps their names once, and the figures of neighbours in one
/// block: thousands of small ones would each keep a page of memory from being given back.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    names: Arc<[Cow<'static, str>]>,
    block: Arc<[f64]>, // of some validations, NaN where there is none
    first: usize,      // where those of this one begin
}

/// Validations whose figures lie in one block.
const BLOCK: usize = 16;

impl Metrics {
    /// Figures by name; what is not finite is none.
    pub fn new(all: &[(&'static str, f64)]) -> Metrics {
        Metrics::named(all.iter().map(|(name, x)| (Cow::Borrowed(*name), Some(*x))))
    }

    /// These and more.
    pub(crate) fn with(&self, more: &[(&'static str, f64)]) -> Metrics {
        let own = self.names.iter().cloned().zip(self.values()).map(|(name, x)| (name, Some(*x)));
        Metrics::named(own.chain(more.iter().map(|(name, x)| (Cow::Borrowed(*name), Some(*x)))))
    }

    fn named(all: impl Iterator<Item = (Cow<'static, str>, Option<f64>)>) -> Metrics {
        let (names, values): (Vec<_>, Vec<f64>) = all.map(|(name, x)| (name, x.unwrap_or(f64::NAN))).unzip();
        Metrics { names: names.into(), block: values.into(), first: 0 }
    }

    fn values(&self) -> &[f64] {
        &self.block[self.first..self.first + self.names.len()]
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(own, _)| *own == name).and_then(|(_, x)| x)
    }

    fn iter(&self) -> impl Iterator<Item = (&str, Option<f64>)> {
        let values = self.values().iter().map(|x| x.is_finite().then_some(*x));
        self.names.iter().map(|name| &**name).zip(values)
    }
}

impl Trained {
    /// `[runs]` neighbouring validations with the same figures: their names and how many there are.
    pub(crate) fn history_runs(&self) -> Vec<HistoryRun> {
        let runs = self.history.chunk_by(|a, b| a.metrics.names == b.metrics.names);
        let run = |run: &[Validation]| HistoryRun { figures: run[0].metrics.names.to_vec(), validations: run.len() };
        runs.map(run).collect()
    }

    /// The history as plain numbers: unit, step, score and figures of each validation, not a number where one is none.
    pub(crate) fn write_history(&self, to: &mut Vec<u8>) {
        for Validation { unit, step, score, metrics } in &self.history {
            to.extend([unit, step].iter().flat_map(|n| n.to_le_bytes()));
            to.extend(score.unwrap_or(f64::NAN).to_le_bytes());
            to.extend(metrics.values().iter().flat_map(|x| x.to_le_bytes()));
        }
    }

    /// Takes its history back from such numbers, which begin `from` and are cut off it; false where they end too early.
    pub(crate) fn read_history(&mut self, runs: &[HistoryRun], from: &mut &[u8]) -> bool {
        fn take<'b, const N: usize>(from: &mut &'b [u8]) -> Option<&'b [u8; N]> {
            let (first, rest) = from.split_first_chunk::<N>()?;
            *from = rest;
            Some(first)
        }
        for HistoryRun { figures, validations } in runs {
            let names: Arc<[Cow<'static, str>]> = figures.clone().into();
            for _ in 0..*validations {
                let [Some(unit), Some(step)] = [take(from), take(from)].map(|n| n.map(|n| u32::from_le_bytes(*n)))
                else {
                    return false;
                };
                let mut number = || take(from).map(|x| f64::from_le_bytes(*x));
                let Some(score) = number() else { return false };
                let values: Vec<f64> = names.iter().map_while(|_| number()).collect();
                if values.len() < names.len() {
                    return false;
                }
                let metrics = Metrics { names: Arc::clone(&names), block: values.into(), first: 0 };
                self.history.push(Validation { unit, step, score: score.is_finite().then_some(score), metrics });
            }
        }
        let all = self.history.len();
        (BLOCK..=all).step_by(BLOCK).for_each(|end| self.share_block(end));
        true
    }
}

/// Neighbouring validations with the same figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HistoryRun {
    figures: Vec<Cow<'static, str>>,
    validations: usize,
}

impl PartialEq for Metrics {
    fn eq(&self, other: &Metrics) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metrics, D::Error> {
        let all = Map::<String, Value>::deserialize(deserializer)?;
        // Older programs wrote counts of guesses beside the figures.
        let figures = all.into_iter().filter(|(_, x)| x.is_number() || x.is_null());
        Ok(Metrics::named(figures.map(|(name, x)| (name.into(), x.as_f64()))))
    }
}

/// The best validation so far and its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// After which unit of work.
    #[serde(rename = "epoch")]
    pub unit: u32,
    /// Its score.
    #[serde(rename = "worth")]
    pub score: f64,
    /// Stored apart.
    #[serde(skip)]
    pub params: Vec<f32>,
}

/// Why a member ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// No better score for as many units as patience lasts.
    Patience,
    /// All units were done.
    #[serde(rename = "epochs")]
    Limit,
    /// A number was not finite; which.
    Fault(String),
}

impl Trained {
    /// A member that has seen nothing.
    pub(crate) fn new(key: MemberKey) -> Trained {
        let MemberKey { config, fold, seed } = key;
        Trained { id: key.id(), config, fold, seed, history: Vec::new(), best: None, stopped: None, last: None }
    }

    /// Which member.
    pub fn key(&self) -> MemberKey {
        MemberKey { config: self.config, fold: self.fold, seed: self.seed }
    }

    /// Units of work it was validated after.
    pub fn units(&self) -> u32 {
        self.history.last().map_or(0, |v| v.unit)
    }

    /// Adds a validation to its history; whether it is the best so far.
    pub(crate) fn validated(&mut self, score: Score) -> bool {
        let Score { unit, step, score, metrics, .. } = score;
        let number = score.is_finite().then_some(score);
        self.history.push(Validation { unit, step, score: number, metrics });
        self.share_names(self.history.len() - 1);
        self.share_block(self.history.len());
        let better = number.is_some() && self.best.as_ref().is_none_or(|b| score > b.score);
        if better {
            self.best = Some(Best { unit, score, params: Vec::new() });
        }
        better
    }

    /// Lets validations from that one on name their figures by the names of the one before, where they are the same.
    pub(crate) fn share_names(&mut self, from: usize) {
        for at in from.max(1)..self.history.len() {
            let [before, own] = [at - 1, at].map(|at| Arc::clone(&self.history[at].metrics.names));
            if before == own {
                self.history[at].metrics.names = before;
            }
        }
    }

    /// Moves the figures of the validations before `end` into one block, where as many are there as a block has.
    fn share_block(&mut self, end: usize) {
        if !end.is_multiple_of(BLOCK) || end == 0 {
            return;
        }
        let own = &mut self.history[end - BLOCK..end];
        let block: Arc<[f64]> = own.iter().flat_map(|v| v.metrics.values().iter().copied()).collect();
        let mut first = 0;
        for Validation { metrics, .. } in own {
            (metrics.block, metrics.first) = (Arc::clone(&block), first);
            first += metrics.names.len();
        }
    }

    /// Keeps its last weights as the best, for a member that is not validated: its score is no number.
    pub fn keep_last(&mut self) {
        self.best =
            self.last.as_ref().map(|last| Best { unit: last.unit, score: f64::NAN, params: last.params.clone() });
    }

    /// Whether patience has ended. Where validations are far apart, as many units may have only one of them, and a
    /// score that is not better once says little.
    pub(crate) fn is_out_of_patience(&self, patience: u32) -> bool {
        let best = self.best.as_ref().map_or(0, |b| b.unit);
        let worse = self.history.iter().rev().take_while(|v| v.unit > best).count();
        self.units() - best >= patience && worse >= WORSE.min(patience as usize)
    }
}

/// Validations behind the best that end a member, at least, as long as patience has as many units.
const WORSE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_keeps_the_names_of_its_figures_once() {
        let mut member = Trained::new(MemberKey { config: 0, fold: 0, seed: 0 });
        for unit in 1..=3 {
            let figures = [("valid_loss", 0.5 / f64::from(unit)), ("norm", if unit == 2 { f64::NAN } else { 1.0 })];
            let metrics = Metrics::new(&figures);
            member.validated(Score { id: 0, unit, step: 10 * unit, score: f64::from(unit), metrics });
        }
        let is_shared = |member: &Trained| {
            let names: Vec<_> = member.history.iter().map(|v| &v.metrics.names).collect();
            names.windows(2).all(|pair| Arc::ptr_eq(pair[0], pair[1]))
        };
        assert!(is_shared(&member));
        // States of older programs have it as JSON.
        let (text, history) = (serde_json::to_value(&member), serde_json::to_value(&member.history));
        let (mut text, history) = (text.expect("JSON"), history.expect("JSON"));
        assert!(
            history.to_string().contains(r#"{"epoch":2,"step":20,"worth":2.0,"valid_loss":0.25,"norm":null}"#),
            "{history}"
        );
        assert!(text.get("history").is_none(), "{text}");
        text["history"] = history;
        let mut read: Trained = serde_json::from_value(text).expect("a member");
        assert_eq!(read, member);
        // Others as plain numbers, beside the names; figures that changed begin a run of their own.
        let metrics = Metrics::new(&[("other", 7.0)]);
        member.validated(Score { id: 0, unit: 4, step: 40, score: f64::NAN, metrics });
        let (runs, mut bytes) = (member.history_runs(), Vec::new());
        member.write_history(&mut bytes);
        assert_eq!((runs.len(), bytes.len()), (2, 3 * (8 + 24) + 8 + 16));
        for end in 0..=bytes.len() + 1 {
            let (mut back, long) = (Trained { history: Vec::new(), ..member.clone() }, [&bytes[..], &[1]].concat());
            let mut from = &long[..end];
            assert_eq!(back.read_history(&runs, &mut from), end >= bytes.len(), "{end} bytes");
            assert!(end < bytes.len() || (back == member && from.len() == end - bytes.len()), "{end} bytes");
        }
        assert_eq!([1, 2].map(|at| read.history[at].metrics.get("norm")), [None, Some(1.0)]);
        read.share_names(0);
        assert!(is_shared(&read));
    }

    #[test]
    fn patience_waits_for_some_validations() {
        // Units between two validations, patience, and the unit at which a member ends whose first one is the best.
        for (every, patience, ends) in [(1, 7, 8), (1, 1, 2), (1, 3, 4), (25, 50, 125), (38, 7, 190), (10, 50, 60)] {
            let mut member = Trained::new(MemberKey { config: 0, fold: 0, seed: 0 });
            let score = |unit| Score { id: 0, unit, step: unit, score: -f64::from(unit), metrics: Metrics::new(&[]) };
            let ended = (1..).map(|n| n * every).find(|unit| {
                member.validated(score(*unit));
                member.is_out_of_patience(patience)
            });
            assert_eq!(ended, Some(ends), "validated every {every}, with a patience of {patience}");
        }
    }

    #[test]
    fn a_long_history_lies_in_blocks() {
        let mut member = Trained::new(MemberKey { config: 0, fold: 0, seed: 0 });
        let all = 2 * BLOCK as u32 + 5;
        for unit in 1..=all {
            // Figures that come and go have other names.
            let figures = [("loss", f64::from(unit)), ("norm", 0.5), ("more", 1.0)];
            let metrics = Metrics::new(&figures[..if unit % 7 == 0 { 3 } else { 2 }]);
            member.validated(Score { id: 0, unit, step: unit, score: 0.0, metrics });
        }
        let blocks =
            |member: &Trained| member.history.chunk_by(|a, b| Arc::ptr_eq(&a.metrics.block, &b.metrics.block)).count();
        assert_eq!(blocks(&member), 2 + 5);
        let (runs, mut bytes) = (member.history_runs(), Vec::new());
        member.write_history(&mut bytes);
        let mut back = Trained { history: Vec::new(), ..member.clone() };
        assert!(back.read_history(&runs, &mut &bytes[..]));
        assert_eq!((&back, blocks(&back)), (&member, 7));
        let seen = back.history.iter().map(|v| (v.metrics.get("loss"), v.metrics.get("more").is_some()));
        assert!(seen.eq((1..=all).map(|unit| (Some(f64::from(unit)), unit % 7 == 0))));
    }
}
