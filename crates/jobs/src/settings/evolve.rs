//! The hyper-parameters of policies that evolve. Net and rate are those of any learner (`train.net`, `train.rate`); how
//! long they train, their accounts, their actions and what is rewarded are those of any policy (`ppo.timesteps`,
//! `ppo.n_envs`, `ppo.n_steps`, `ppo.actions`, `ppo.reward`, `ppo.drawdown_weight`, `ppo.schedule`).

use super::form::{choice, number, positive, whole};
use super::key::section;
use learn::evolve::Algorithm;

section! {
    /// The hyper-parameters of policies that evolve.
    EvolveSettings at evolve, "evolve.";

    /// How a search moves: OpenAI's evolution strategy, or a CMA-ES with a deviation for each weight.
    algorithm: Algorithm = Algorithm::OpenAi, choice(ALGORITHMS).flag("algorithm", "NAME").tried();
    /// Individuals of a generation. Auto is at most 128 and leaves at least 50 generations.
    population: Option<usize> = None, whole(4..=1 << 20).or_auto().flag("population", "N").tried();
    /// How far individuals lie from the middle of a search, at first. Auto is 0.05.
    sigma: Option<f64> = None, positive(10.0).or_auto().flag("sigma", "X").tried();
    /// What a weight of the middle loses in a generation, as a share of the learning rate.
    decay: f64 = 0.01, number(0.0..=1.0).tried();
}

const ALGORITHMS: &[(&str, Algorithm)] = &[("openai", Algorithm::OpenAi), ("sep-cma", Algorithm::SepCma)];
