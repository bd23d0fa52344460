//! The hyper-parameters of policies that search. Net, minibatch and rate are those of any learner (`train.net`,
//! `train.batch`, `train.rate`); how long they train, their accounts and what later rewards are worth are those of any
//! policy (`ppo.timesteps`, `ppo.n_envs`, `ppo.n_steps`, `ppo.episode`, `ppo.gamma`, `ppo.vf_coef`,
//! `ppo.max_grad_norm`, `ppo.schedule`).

use super::form::{choice, number, truth, whole};
use super::key::section;
use learn::expert::{ModelRule, SelectionRule};

section! {
    /// The hyper-parameters of policies that search.
    SearchSettings at search, "search.";

    /// Roots that are searched in one batch. Auto is what was tuned, else all accounts; set alone, it is their number
    /// too.
    roots: Option<usize> = None, whole(1..=1 << 20).or_auto().flag("roots", "N").tried();
    /// Simulations of a root. Auto is what was tuned, else 16, and 8 for nets with more than a million parameters.
    simulations: Option<usize> = None, whole(1..=1 << 20).or_auto().flag("simulations", "N").tried();
    /// Scenarios of a root, on which every action is tried. Auto is 64, and 32 for nets with more than a million
    /// parameters.
    scenarios: Option<usize> = None, whole(2..=65_535).or_auto().flag("scenarios", "N").tried();
    /// Codes that are drawn at every later chance node.
    codes: usize = 16, whole(1..=65_535).tried();
    /// Bars that a search looks ahead before the net says what is left; also those over which returns are counted.
    /// Auto is 8.
    horizon: Option<usize> = None, whole(1..=4096).or_auto().flag("horizon", "BARS").tried();
    /// How a search chooses what it tries: by sequential halving of the actions (gumbel, Gumbel MuZero), or by prior,
    /// value and visits (puct, MuZero). Auto is gumbel.
    rule: Option<SelectionRule> = None, choice(RULES).or_auto().tried();
    /// Iterations whose targets are learned from.
    replay: usize = 4, whole(1..=1000).tried();
    /// Passes through them in an iteration.
    n_epochs: usize = 4, whole(1..=1000).tried();
    /// Share of what was really earned in the target of a value; the rest is what the root was worth to the search.
    realised: f64 = 0.5, number(0.0..=1.0).tried();
    /// Share of decisions that accounts take at random while they train, so that what a position is worth to the net
    /// does not stand for what the market was like when it was taken.
    explored: f64 = 0.1, number(0.0..=1.0).tried();
    /// What the sign of the first trend feature adds to the logit of long and takes off short, at the root; 0 for
    /// nothing.
    trend_prior: f64 = 0.25, number(0.0..=20.0);
    /// Whether that and all trend features have the opposite sign.
    invert_trend: bool = false,
        truth().switch("invert-trend", "true", "Negate the trend features and what their sign adds to a search");
    /// Whether PPO is then trained as a run of its own, with the same net, folds and seeds and for as many seconds, and
    /// stands beside the search.
    baseline: bool = false,
        truth().switch("baseline", "true", "Train PPO for as long afterwards, to stand beside the search");
    /// The share of a bar that a decision may take before a note says that it is too slow for trading.
    latency: f64 = 0.1, number(0.0..=1.0);
    /// The market model that is searched in: the bootstrap, the learned one, or, with auto, the learned one where it
    /// predicts rows held out better.
    model: ModelRule = ModelRule::Auto, choice(MODELS);
}

const RULES: &[(&str, SelectionRule)] = &[("gumbel", SelectionRule::Gumbel), ("puct", SelectionRule::Puct)];

const MODELS: &[(&str, ModelRule)] =
    &[("auto", ModelRule::Auto), ("bootstrap", ModelRule::Bootstrap), ("learned", ModelRule::Learned)];
