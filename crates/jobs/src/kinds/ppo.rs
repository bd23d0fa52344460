//! `ppo`: policies that learn by trying, on accounts that trade the training part of a fold; selected by what they make
//! of its validation, judged by what they earn on test blocks.

mod shape;

pub(super) use shape::UpdateShape;
pub(crate) use shape::{UPDATES, UPDATES_LEAST};

use super::policies::{
    episodes, gradient_recipe, net, open, pace_figures, policy_info, refuse_an_unused_weight, refuse_evolving,
    refuse_searching, refuse_what_is_not_a_policys, spec, tested, trading_data, units, usage,
};
use super::{Evaluation, Figure, Kind, KindInfo, MoreFigure, RolloutSettings, Validated};
use crate::train::{Answer, Experiment, ModelRows, Source};
use crate::{Band, RewardKind, Settings};
use compute::Opened;
use features::Input;
use files::Result;
use judge::split::Splits;
use learn::classify::defaults;
use learn::ppo::{Actions, Clip, EntropyBand, Hypers, Ppo, Reward, UNIT_ENTROPY};
use learn::{Config, Learner, Trained};

pub(super) struct PpoKind;

const FIGURES: &[Figure] = &[
    // In basis points a bar; `rollout/ep_rew_mean` of Stable-Baselines3 is a sum over an episode.
    Figure { name: "train_growth", tag: "rollout/growth_mean", label: Some("earned") },
    Figure { name: "valid_growth", tag: "eval/growth_mean", label: Some("validation") },
    Figure { name: "valid_error", tag: "eval/standard_error", label: None },
    // The sum of rewards of a stretch of the validation, in the mean.
    Figure { name: "valid_reward", tag: "eval/mean_reward", label: None },
    Figure { name: "entropy", tag: "train/entropy", label: Some("entropy") },
    Figure { name: "entropy_weight", tag: "train/ent_coef", label: None },
    Figure { name: "approx_kl", tag: "train/approx_kl", label: None },
    Figure { name: "clip_fraction", tag: "train/clip_fraction", label: None },
    Figure { name: "policy_loss", tag: "train/policy_gradient_loss", label: None },
    Figure { name: "value_loss", tag: "train/value_loss", label: None },
    Figure { name: "explained_variance", tag: "train/explained_variance", label: None },
    Figure { name: "norm", tag: "train/grad_norm", label: None },
    Figure { name: "learning_rate", tag: "train/learning_rate", label: None },
];

pub(super) fn hypers(settings: &Settings) -> Hypers {
    let (own, shape) = (&settings.ppo, UpdateShape::of(settings));
    let above_0 = |x: f64| (x > 0.0).then_some(x as f32);
    let usual = match own.actions {
        Actions::Discrete => EntropyBand { least: 0.2, most: 0.8 },
        // A policy starts at 1.42 nats, inside.
        Actions::Continuous => EntropyBand { least: -1.5, most: 1.5 },
    };
    let entropy = own.entropy.map_or(usual, |b| EntropyBand { least: b.least as f32, most: b.most as f32 });
    Hypers {
        n_envs: shape.n_envs as u32,
        n_steps: shape.n_steps as u32,
        n_epochs: own.n_epochs as u32,
        gamma: own.gamma as f32,
        gae_lambda: own.gae_lambda as f32,
        clip: Clip { policy: own.clip_range as f32, value: above_0(own.clip_range_vf) },
        normalize_advantage: own.normalize_advantage,
        vf_coef: own.vf_coef as f32,
        target_kl: above_0(own.target_kl),
        entropy,
        episode: own.episode as u32,
        actions: own.actions,
        reward: match own.reward {
            RewardKind::Growth => Reward::Growth,
            RewardKind::Drawdown => Reward::Drawdown(own.drawdown_weight as f32),
            RewardKind::Sharpe => Reward::Sharpe,
        },
    }
}

/// The config of settings.
pub(super) fn config(settings: &Settings, net: &compute::Net, device: &Opened) -> Config {
    let shape = UpdateShape::of(settings);
    let batch = settings.classify.batch.unwrap_or_else(|| shape::minibatch(shape, net)).min(shape.rows());
    let usual = defaults::precision(matches!(device, Opened::Cuda(_)));
    let precision = settings.train.precision.unwrap_or(usual);
    let recipe = gradient_recipe(settings, batch, precision);
    Config { net: net.clone(), recipe, rate: PpoKind.rate(settings, batch) }
}

pub(super) fn updates(settings: &Settings) -> u32 {
    units(settings, shape::timesteps(settings), UpdateShape::of(settings).rows() as u64)
}

/// An error where something was set that others alone go by.
pub(super) fn refuse_what_is_not_ours(settings: &Settings) -> Result<()> {
    refuse_evolving(settings)?;
    refuse_searching(settings)?;
    refuse_what_is_not_a_policys(settings)?;
    let own = &settings.ppo;
    own.entropy.map_or(Ok(()), |band| check_band(band, own.actions))
}

/// An error where the entropy cannot be kept in a band.
fn check_band(band: Band, actions: Actions) -> Result<()> {
    let EntropyBand { least, most } = EntropyBand::possible(actions);
    // Limits are shown with two digits, and those digits are legal.
    let [least, most] = [(f64::from(least) * 100.0).floor() / 100.0, (f64::from(most) * 100.0).ceil() / 100.0];
    let width = EntropyBand::LEAST_WIDTH;
    // A difference of decimals may be smaller by a rounding.
    if band.least >= least && band.most <= most && band.most - band.least >= width - 1e-9 {
        return Ok(());
    }
    let (of, remedy) = match actions {
        Actions::Discrete => {
            ("of short, flat and long it is a share of what is possible", "set <ppo.entropy=0.2..0.8>, say")
        }
        Actions::Continuous => ("of continuous targets it is in nats", "set <ppo.entropy=-1.5..1.5>, say"),
    };
    let what = format!(
        "the entropy cannot be kept in the band {band}: {of}, from {least} to {most}, and a band is at least {width} wide"
    );
    Err(usage(what, remedy))
}

/// Policies on the bars of a source, with these settings for its nets.
pub(super) fn ppo(source: &Source, splits: &Splits, settings: &Settings, own: &[Settings], at: &Opened) -> Result<Ppo> {
    let data = trading_data(source, splits)?;
    own.iter().try_for_each(refuse_what_is_not_ours)?;
    refuse_an_unused_weight(own)?;
    let configs = own.iter().zip(&source.nets).map(|(own, net)| config(own, net, at)).collect();
    let spec = spec(settings, configs, own.iter().map(hypers).collect(), own.iter().map(updates).collect());
    Ppo::new(&source.problem, &episodes(data, settings)?, &splits.folds, spec)
}

impl Kind for PpoKind {
    fn info(&self) -> KindInfo {
        policy_info("ppo")
    }

    /// The set net is the layers of both towers, `64t-64t`, `2048,1024,512` or `lstm64,64`, or a whole net.
    fn net(&self, settings: &Settings, inputs: &[Input], _: usize) -> String {
        net(settings, inputs, |layers, outputs| {
            let towers = if layers.contains('|') { layers.to_string() } else { format!("{layers} | {layers}") };
            format!("{towers} / policy:{outputs} | value:1")
        })
    }

    fn learner(
        &self,
        source: &Source,
        splits: &Splits,
        settings: &Settings,
        device: &Opened,
    ) -> Result<Box<dyn Learner>> {
        let all: Vec<Settings> = settings.configs().into_iter().map(|(_, own)| own).collect();
        Ok(Box::new(ppo(source, splits, settings, &all, device)?))
    }

    fn fill_in(&self, settings: &mut Settings, source: &Source, device: &Opened) {
        let shape = shape::rule(settings, source.problem.samples.len(), device);
        for (key, own, value) in [
            ("ppo.n_envs", &mut settings.ppo.n_envs, shape.n_envs),
            ("ppo.n_steps", &mut settings.ppo.n_steps, shape.n_steps),
        ] {
            if !settings.train.candidates.iter().any(|tried| tried.key == key) {
                own.get_or_insert(value);
            }
        }
    }

    fn rollout<'s>(&self, settings: &'s mut Settings) -> Option<RolloutSettings<'s>> {
        let (timesteps, own) = (shape::timesteps(settings), &mut settings.ppo);
        Some(RolloutSettings { n_envs: &mut own.n_envs, n_steps: &mut own.n_steps, timesteps })
    }

    fn identity(&self, settings: &Settings) -> String {
        format!("{:?}{}{}", hypers(settings), updates(settings), settings.account.identity())
    }

    fn rate(&self, settings: &Settings, _: usize) -> f32 {
        settings.classify.rate.unwrap_or(3e-4) as f32
    }

    fn rate_rule(&self, settings: &Settings) -> &'static str {
        match settings.classify.rate {
            Some(_) => "as set, whatever the batch",
            None => "3e-4, whatever the batch",
        }
    }

    fn figures(&self, _: &Settings) -> &'static [Figure] {
        FIGURES
    }

    /// The band of the entropy; and what Stable-Baselines3 writes beside, under its names.
    fn more_figures(&self, of: &Validated<'_>, rate: f64) -> Vec<MoreFigure> {
        let (own, hypers, unit) = (&of.settings.ppo, hypers(of.settings), f64::from(of.validation.unit));
        let named = |name, tag, value: f32| MoreFigure { name: Some(name), tag, value: f64::from(value) };
        let tagged = |tag, value: f64| MoreFigure { name: None, tag, value };
        let mut all = vec![
            named("least_entropy", "train/entropy_least", hypers.entropy.least),
            named("most_entropy", "train/entropy_most", hypers.entropy.most),
            tagged("train/clip_range", own.clip_range),
            tagged("train/n_updates", unit * own.n_epochs as f64),
        ];
        all.extend(pace_figures(of, self.event_step(of), rate));
        if own.clip_range_vf > 0.0 {
            all.push(tagged("train/clip_range_vf", own.clip_range_vf));
        }
        // Of discrete actions the entropy is a share of what is possible.
        let sides: f64 = if of.shortable { 3.0 } else { 2.0 };
        let possible = match own.actions {
            Actions::Discrete => sides.ln(),
            Actions::Continuous => 1.0,
        };
        let seen = |name: &str| of.validation.metrics.get(name);
        all.extend(seen("entropy").map(|entropy| tagged("train/entropy_loss", -entropy * possible)));
        if own.actions == Actions::Continuous {
            // The geometric mean of deviations: the entropy of a normal draw is that of one with a deviation of 1, and
            // the logarithm of its own.
            all.extend(seen("entropy").map(|entropy| tagged("train/std", (entropy - f64::from(UNIT_ENTROPY)).exp())));
        }
        let losses = seen("policy_loss").zip(seen("value_loss")).zip(seen("entropy").zip(seen("entropy_weight")));
        all.extend(losses.map(|((policy, value), (entropy, weight))| {
            tagged("train/loss", policy + own.vf_coef * value - weight * entropy)
        }));
        all
    }

    /// Stable-Baselines3 counts steps of accounts.
    fn event_step(&self, of: &Validated<'_>) -> u64 {
        u64::from(of.validation.unit) * UpdateShape::of(of.settings).rows() as u64
    }

    fn open(&self, asked: ModelRows<'_>) -> Result<Answer> {
        open(asked)
    }

    fn evaluate<'a>(&self, experiment: &'a Experiment, members: &'a [Trained]) -> Result<Box<dyn Evaluation + 'a>> {
        tested(experiment, members, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compute::population::{Precision, Shape};

    /// Every hyper-parameter is that of its setting: all have values of their own.
    #[test]
    fn hyper_parameters_are_those_of_their_settings() {
        let of = |more: &[&str]| {
            let mut settings = Settings::default();
            let all = [
                "n_envs=24",
                "n_steps=48",
                "n_epochs=3",
                "gamma=0.91",
                "gae_lambda=0.82",
                "clip_range=0.13",
                "clip_range_vf=0.37",
                "normalize_advantage=false",
                "vf_coef=0.61",
                "target_kl=0.02",
                "entropy=0.25..0.75",
                "episode=77",
                "drawdown_weight=1.5",
            ];
            for set in all.iter().chain(more) {
                settings.set(&format!("ppo.{set}")).unwrap();
            }
            hypers(&settings)
        };
        let all = Hypers {
            n_envs: 24,
            n_steps: 48,
            n_epochs: 3,
            gamma: 0.91,
            gae_lambda: 0.82,
            clip: Clip { policy: 0.13, value: Some(0.37) },
            normalize_advantage: false,
            vf_coef: 0.61,
            target_kl: Some(0.02),
            entropy: EntropyBand { least: 0.25, most: 0.75 },
            episode: 77,
            actions: Actions::Discrete,
            reward: Reward::Growth,
        };
        assert_eq!(of(&[]), all);
        assert_eq!(of(&["reward=drawdown"]), Hypers { reward: Reward::Drawdown(1.5), ..all });
        assert_eq!(of(&["reward=sharpe"]), Hypers { reward: Reward::Sharpe, ..all });
        let free = Hypers { clip: Clip { policy: 0.13, value: None }, target_kl: None, ..all };
        assert_eq!(of(&["clip_range_vf=none", "target_kl=none", "normalize_advantage=true"]).clip, free.clip);
        assert_eq!(of(&["clip_range_vf=none", "target_kl=none"]), free);
        assert!(of(&["normalize_advantage=true"]).normalize_advantage);
        let continuous = of(&["actions=continuous", "entropy=auto"]);
        let entropy = EntropyBand { least: -1.5, most: 1.5 };
        assert_eq!(continuous, Hypers { actions: Actions::Continuous, entropy, ..all });
        assert_eq!(of(&["entropy=auto"]).entropy, EntropyBand { least: 0.2, most: 0.8 });
    }

    /// The recipe goes by the settings of policies: minibatch, rate, limit of the gradient and schedule.
    #[test]
    fn a_config_is_that_of_its_settings() {
        let mut settings = Settings::default();
        for set in [
            "ppo.n_envs=24",
            "ppo.n_steps=48",
            "ppo.batch_size=96",
            "ppo.learning_rate=0.002",
            "ppo.max_grad_norm=0.7",
            "ppo.schedule=cosine",
            "train.precision=bf16",
            "seed=5",
        ] {
            settings.set(set).unwrap();
        }
        let net = "row:3 + account:dense8 / 8t | 8t / policy:3 | value:1".parse().unwrap();
        let device = Opened::Cpu { threads: 1 };
        let Config { recipe, rate, .. } = config(&settings, &net, &device);
        assert_eq!((recipe.batch, rate, recipe.seed), (96, 0.002, 5));
        assert_eq!((recipe.optimiser.clip, recipe.optimiser.eps, recipe.optimiser.decay), (Some(0.7), 1e-5, 0.0));
        assert_eq!((recipe.precision, recipe.schedule.shape), (Precision::Bf16, Shape::Cosine));
        // An update is the largest minibatch, and an eighth of it the usual one.
        for (batch, rows) in [("100000", 24 * 48), ("auto", 24 * 48 / 8)] {
            settings.set(&format!("ppo.batch_size={batch}")).unwrap();
            assert_eq!(config(&settings, &net, &device).recipe.batch, rows, "{batch}");
        }
        settings.set("ppo.max_grad_norm=none").unwrap();
        assert_eq!(config(&settings, &net, &device).recipe.optimiser.clip, None);
    }
}
