//! The learners that can be asked for by name. A [`Kind`] says what differs from one to the next: what it reads, what
//! it is trained with, what makes it another run or another trial, by what its members are selected, how they are
//! judged and what the model's folder holds. Everything else is the same for all.
//!
//! A new learner is a file here, its entry in [`LEARNERS`], its settings, and its folder in `learn`.

pub(crate) mod classifier;
pub(crate) mod defaults;
mod lstm;
mod mlp;
pub(crate) mod model;

use crate::Settings;
use crate::train::{ConfigRow, Experiment, Judged, MemberRow, Source};
use compute::Opened;
use features::{Input, InputLayout};
use files::Result;
use judge::split::Splits;
use learn::{Learner, Trained};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::Path;

/// Every learner by name; the first is the default.
pub(crate) const LEARNERS: &[(&str, LearnerKind)] =
    &[("lstm", LearnerKind(&lstm::LSTM)), ("mlp", LearnerKind(&mlp::MLP))];

/// What differs from learner to learner.
pub(crate) trait Kind: Sync {
    /// As in `--learner NAME`.
    fn name(&self) -> &'static str;

    /// How columns become inputs.
    fn layout(&self) -> InputLayout;

    /// The features of data with so many symbols where none were chosen.
    fn features(&self, symbols: usize) -> &'static str;

    /// The net for these inputs where none was chosen, as text.
    fn net(&self, inputs: &[Input], classes: usize) -> String;

    /// The learner on its data, with a config for each combination of what is tried.
    fn learner(
        &self,
        source: &Source,
        splits: &Splits,
        settings: &Settings,
        device: &Opened,
    ) -> Result<Box<dyn Learner>>;

    /// What changes a bit beside nets, recipes, rates, members and data, as text.
    fn identity(&self, settings: &Settings) -> String;

    /// The figures of a validation, in the order of a log row.
    fn figures(&self) -> &'static [Figure];

    /// Which of the figures members are selected by.
    fn selected_by(&self) -> &'static str;

    /// A line for each member of a run that was stopped before it was judged.
    fn unjudged(&self, experiment: &Experiment, members: &[Trained]) -> Result<Vec<MemberRow>>;

    /// Judges members whose training has ended, on what they never learned from.
    fn judge(&self, experiment: &Experiment, members: &[Trained]) -> Result<Judgement>;

    /// Writes the results and the model into the run folder.
    fn save(&self, experiment: &Experiment, members: &[Trained], of: &Judgement, folder: &Path) -> Result<()>;
}

/// A figure of a validation.
pub(crate) struct Figure {
    /// Its key in a log row: `valid_loss`.
    pub(crate) name: &'static str,
    /// Its tag in TensorBoard: `valid/loss`.
    pub(crate) tag: &'static str,
    /// Its name in a line for people: `validation`; none where it is not shown there.
    pub(crate) label: Option<&'static str>,
}

/// What a judged run came to.
pub(crate) struct Judgement {
    /// A line for each member.
    pub(crate) rows: Vec<MemberRow>,
    /// Of the configs that were selected; none where nothing was predicted.
    pub(crate) judged: Option<Judged>,
    /// `[folds]` the config that was selected for each.
    pub(crate) selected: Vec<usize>,
    /// `[configs]` what each would reach if it had been taken in every fold; empty where there is one.
    pub(crate) per_config: Vec<PerConfig>,
    /// `[members]` what each predicts for its fold's test samples; empty where it predicts nothing.
    pub(crate) predictions: Vec<Vec<f32>>,
}

/// One config among several.
pub(crate) struct PerConfig {
    pub(crate) valid: f64,
    pub(crate) judged: Option<Judged>,
}

impl Judgement {
    /// Fills in what is known of each config.
    pub(crate) fn fill(&self, rows: &mut [ConfigRow]) {
        for (at, (row, config)) in rows.iter_mut().zip(&self.per_config).enumerate() {
            (row.valid_mcc, row.test_mcc) = (Some(config.valid), config.judged.as_ref().map(|j| j.mcc));
            row.chosen = (1..=self.selected.len()).filter(|fold| self.selected[fold - 1] == at).collect();
        }
    }
}

/// A learner that can be asked for by name.
#[derive(Clone, Copy)]
pub struct LearnerKind(&'static dyn Kind);

impl LearnerKind {
    /// As in `--learner NAME`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// What differs from other learners.
    pub(crate) fn kind(self) -> &'static dyn Kind {
        self.0
    }
}

impl PartialEq for LearnerKind {
    fn eq(&self, other: &LearnerKind) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for LearnerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for LearnerKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for LearnerKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LearnerKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = LEARNERS.iter().find(|(own, _)| *own == name);
        known.map(|(_, kind)| *kind).ok_or_else(|| D::Error::custom(format!("there is no learner `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learner_is_known_by_its_name() {
        for (name, kind) in LEARNERS {
            assert_eq!(kind.name(), *name);
            let text = serde_json::to_string(kind).unwrap();
            assert_eq!(
                (text.as_str(), serde_json::from_str::<LearnerKind>(&text).unwrap()),
                (&*format!("{name:?}"), *kind)
            );
            let kind = kind.kind();
            assert!(kind.figures().iter().any(|figure| figure.name == kind.selected_by()));
        }
        assert!(serde_json::from_str::<LearnerKind>("\"rnn\"").unwrap_err().to_string().contains("rnn"));
    }
}
