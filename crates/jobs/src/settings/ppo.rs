//! The hyper-parameters of policies that learn by trying; names are those of Stable-Baselines3 where it has one, and so
//! are defaults but for these: an update makes 4 passes instead of 10 through 128 steps of each account instead of
//! 2,048, because it has many accounts, so that rows are plentiful and young; the entropy is kept in a band, without a
//! weight that is set. Net, minibatch and rate are those of any learner (`train.net`, `train.batch`, `train.rate`); its
//! names for these and for the timesteps are read too (`ppo.net_arch`, `ppo.batch_size`, `ppo.learning_rate`,
//! `ppo.total_timesteps`).

use super::form::{choice, number, number_or_none, parsed, positive, truth, whole};
use super::key::section;
use compute::population::Shape;
use learn::ppo::Actions;
use std::fmt;
use std::str::FromStr;

section! {
    /// The hyper-parameters of policies that learn by trying.
    PpoSettings at ppo, "ppo.";

    /// Steps of all accounts of a member together; its updates or generations follow from them. Auto is 2,000,000 for
    /// ppo and for each individual of pbt, else 50,000,000 for evolve, whose steps are of all individuals; 16,384 for
    /// search.
    timesteps: Option<usize> = None, whole(1..=1 << 40).or_auto().flag("timesteps", "N");
    /// Accounts that a member trades side by side; of evolve, each individual. Auto is what was tuned, else 8 for
    /// evolve, fewer where its population is open and timesteps are few; 64 for search, 128 for more than 128 symbols;
    /// for ppo at most 64 on a processor and 2048 on a GPU, fewer where timesteps or data are few.
    n_envs: Option<usize> = None, whole(1..=1 << 20).or_auto().flag("n-envs", "N").tried();
    /// Steps of each account in an update, generation or iteration. Auto is what was tuned, else 256 for evolve, fewer
    /// where its population is open and timesteps are few; those that make 1,024 roots for search; 128 for ppo.
    n_steps: Option<usize> = None, whole(2..=1 << 20).or_auto().flag("n-steps", "N").tried();
    /// Passes through what was seen in an update.
    n_epochs: usize = 4, whole(1..=1000).tried();
    /// What a reward one step later is worth.
    gamma: f64 = 0.99, number(0.0..=1.0).tried();
    /// How far advantages look: 0 trusts the value, 1 the rewards.
    gae_lambda: f64 = 0.95, number(0.0..=1.0).tried();
    /// How far the probability of an action may move before it no longer counts.
    clip_range: f64 = 0.2, positive(10.0).tried();
    /// How far a value may move in an update; none leaves it free.
    clip_range_vf: f64 = 0.0, number_or_none().tried();
    /// Whether the advantages of a minibatch have mean 0 and deviation 1.
    normalize_advantage: bool = true, truth().tried();
    /// Weight of the value's loss.
    vf_coef: f64 = 0.5, number(0.0..=f64::MAX).tried();
    /// The largest norm of a gradient, above which it is clipped; none never clips.
    max_grad_norm: f64 = 0.5, number_or_none().tried();
    /// How the learning rate changes over a member's updates.
    schedule: Shape = Shape::Constant, choice(SCHEDULES).tried();
    /// An update ends where the policy has moved further than 1.5 times this; with none it never does.
    target_kl: f64 = 0.0, number_or_none().tried();
    /// Band that the mean entropy is kept in: a share of what is possible; nats for continuous targets.
    entropy: Option<Band> = None, parsed("a band as in 0.2..0.8").or_auto().flag("entropy", "BAND").tried();
    /// What a step is worth: the growth of equity, growth less what the drawdown grew, or what the Sharpe ratio rose;
    /// evolve ranks individuals by mean growth, by growth less the drawdowns, or by the Sharpe ratio of all steps.
    reward: RewardKind = RewardKind::Growth, choice(REWARDS).flag("reward", "KIND").tried();
    /// How many times what the largest drawdown grew by is taken off, with a reward of drawdown.
    drawdown_weight: f64 = 1.0, number(0.0..=1000.0).tried();
    /// Steps of an episode.
    episode: usize = 1024, whole(2..=1 << 30);
    /// What an action is: short, flat or long, or any target between.
    actions: Actions = Actions::Discrete, choice(ACTIONS)
        .switch("continuous", "continuous", "Let policies choose any target between short and long");
}

const SCHEDULES: &[(&str, Shape)] = &[("constant", Shape::Constant), ("cosine", Shape::Cosine)];

const ACTIONS: &[(&str, Actions)] = &[("discrete", Actions::Discrete), ("continuous", Actions::Continuous)];

const REWARDS: &[(&str, RewardKind)] =
    &[("growth", RewardKind::Growth), ("drawdown", RewardKind::Drawdown), ("sharpe", RewardKind::Sharpe)];

/// What a step is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewardKind {
    /// The growth of equity.
    Growth,
    /// Growth, less what the largest drawdown grew by.
    Drawdown,
    /// How much the Sharpe ratio of the last steps rose.
    Sharpe,
}

/// From and to, as in `0.2..0.8`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// At least.
    pub least: f64,
    /// At most.
    pub most: f64,
}

impl FromStr for Band {
    type Err = String;

    fn from_str(text: &str) -> Result<Band, String> {
        let bad = || format!("`{text}` is no band (write 0.2..0.8)");
        let (least, most) = text.trim().split_once("..").ok_or_else(bad)?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(bad);
        let band = Band { least: number(least)?, most: number(most)? };
        if band.least < band.most { Ok(band) } else { Err(bad()) }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.least, self.most)
    }
}
