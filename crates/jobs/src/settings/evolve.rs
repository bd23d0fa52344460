//! The hyper-parameters of policies that evolve. Net and rate are those of any learner (`train.net`, `train.rate`); how
//! long they train, their accounts, their actions and what is rewarded are those of any policy (`ppo.timesteps`,
//! `ppo.n_envs`, `ppo.n_steps`, `ppo.actions`, `ppo.reward`, `ppo.drawdown_weight`, `ppo.schedule`).

use super::form::{choice, number, positive, truth, whole};
use super::key::section;
use learn::evolve::Algorithm;

section! {
    /// The hyper-parameters of policies that evolve.
    EvolveSettings at evolve, "evolve.";

    /// How policies evolve: by OpenAI's evolution strategy, sep-CMA-ES, SNES or the cross-entropy method, or as
    /// populations of policies of ppo whose rate, entropy band and risk evolve.
    algorithm: EvolveAlgorithm = EvolveAlgorithm::Search(Algorithm::OpenAi), choice(ALGORITHMS).flag("algorithm", "NAME").tried();
    /// Individuals of a generation. Auto is at most 128 and leaves at least 50 generations; 8 for pbt.
    population: Option<usize> = None, whole(4..=1 << 20).or_auto().flag("population", "N").tried();
    /// How far individuals lie from the middle of a search, at first. Auto is 0.05.
    sigma: Option<f64> = None, positive(10.0).or_auto().flag("sigma", "X").tried();
    /// Rank of what individuals of openai differ by: a matrix is perturbed by a product of two thin ones, and no
    /// individual's weights are made. 0 draws every weight. Auto is 0 for nets of at most 32,768 weights, else 1.
    rank: Option<usize> = None, whole(0..=256).or_auto().flag("rank", "R").tried();
    /// Updates after which the worst quarter of a pbt population adopts from the best, at the next validation. Auto is
    /// a twentieth of all.
    exploit_every: Option<usize> = None, whole(1..=1 << 30).or_auto();
    /// Individuals that a thread of the processor takes at once. Auto is as many as have 32 accounts, or 64 where they
    /// share weights. It changes the pace alone.
    at_once: Option<usize> = None, whole(1..=1 << 20).or_auto();
    /// Whether each thread of a generation stays on a processor core of its own. It changes the pace alone.
    pinned: bool = false, truth();
    /// What a weight of the middle loses in a generation of openai, as a share of the learning rate.
    decay: f64 = 0.01, number(0.0..=1.0).tried();
}

const ALGORITHMS: &[(&str, EvolveAlgorithm)] = &[
    ("openai", EvolveAlgorithm::Search(Algorithm::OpenAi)),
    ("sep-cma", EvolveAlgorithm::Search(Algorithm::SepCma)),
    ("snes", EvolveAlgorithm::Search(Algorithm::Snes)),
    ("cem", EvolveAlgorithm::Search(Algorithm::Cem)),
    ("pbt", EvolveAlgorithm::Pbt),
];

impl EvolveAlgorithm {
    /// As in `--algorithm NAME`.
    pub(crate) fn name(self) -> &'static str {
        ALGORITHMS.iter().find(|(_, own)| *own == self).map_or("", |(name, _)| *name)
    }
}

/// How policies evolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvolveAlgorithm {
    /// A search distribution over weights.
    Search(Algorithm),
    /// A population of policies that learn by trying.
    Pbt,
}
