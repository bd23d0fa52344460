//! How any learner is trained. The defaults are those of `learn` ([`learn::Extent`]). What is a learner's own is in a
//! file of its own: [`super::classify`].

use super::candidates::{Candidates, candidates};
use super::form::{choice, truth, whole};
use super::key::section;
use crate::kinds::{LEARNERS, LearnerKind};
use compute::population::Precision;
use learn::{CHECKPOINT_EVERY, Extent};

section! {
    /// How any learner is trained. What is `None` follows from the data by a fixed rule.
    TrainSettings at train, "train.";

    /// Which kind of model is trained.
    learner: LearnerKind = LEARNERS[0].1, choice(LEARNERS).flag("learner", "KIND");
    /// Whether a batch of auto is what `fullbore tune` saved for this workload on this machine, if it did.
    tuned: bool = true,
        truth().switch("no-tuned", "false", "Ignore what `fullbore tune` saved for this workload");
    /// Maximum number of epochs, or of a policy's updates, generations or iterations; auto is 500, for policies all
    /// that ppo.timesteps have.
    epochs: Option<usize> = None, whole(1..=1 << 30).or_auto().flag("epochs", "N");
    /// Epochs, updates, generations or iterations without a better validation score before a member stops, with at
    /// least 4 validations among them, or as many as this is; auto is 50, or for policies a quarter of all where that
    /// is more.
    patience: Option<usize> = None, whole(1..=1 << 30).or_auto().flag("patience", "N");
    /// Members per fold, each with its own seed.
    seeds: usize = Extent::default().seeds as usize, whole(1..=4095).flag("seeds", "N");
    /// Number format; auto is bf16 on a GPU and f32 on a CPU.
    precision: Option<Precision> = None, choice(PRECISIONS).or_auto().flag("precision", "KIND");
    /// Epochs between checkpoints; a long run is also saved every two minutes.
    checkpoint: usize = CHECKPOINT_EVERY as usize, whole(1..=1_000_000);
    /// Rows after which a label is known, for ready arrays without t1.
    label_horizon: Option<usize> = None, whole(1..=1 << 40).or_auto().flag("label-horizon", "ROWS");
    /// Values to try; every combination is a config with its own members, and validation chooses one per fold.
    candidates as "try": Vec<Candidates> = Vec::new(), candidates();
}

impl TrainSettings {
    /// How many epochs a classifier trains at most, and how many of them without a better score.
    pub(crate) fn epochs_and_patience(&self) -> [u32; 2] {
        let usual = Extent::default();
        [(self.epochs, usual.units), (self.patience, usual.patience)].map(|(set, n)| set.map_or(n, |set| set as u32))
    }
}

const PRECISIONS: &[(&str, Precision)] =
    &[("f32", Precision::F32), ("tf32", Precision::Tf32), ("bf16", Precision::Bf16)];
