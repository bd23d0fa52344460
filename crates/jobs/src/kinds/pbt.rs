//! `evolve` by population-based training: policies of `ppo` whose learning rate, band of the entropy and weight of
//! drawdowns evolve while they learn. What an individual is trained with are the settings of a policy of `ppo`, with
//! its share of the steps; how they are validated, judged, deployed and kept is as there.

use super::policies::{trading_data, usage};
use super::ppo::{self, PpoKind, UpdateShape};
use super::{Figure, Kind, MoreFigure, Validated};
use crate::train::Source;
use crate::{EvolveAlgorithm, EvolveSettings, Settings};
use compute::Opened;
use files::{Result, format_count, format_plural};
use judge::split::Splits;
use learn::Learner;
use learn::evolve::Pbt;

/// Individuals where nothing was set.
const POPULATION: usize = 8;

pub(super) const FIGURES: &[Figure] = &[
    Figure { name: "train_growth", tag: "rollout/growth_mean", label: Some("earned") },
    Figure { name: "valid_growth", tag: "eval/growth_mean", label: Some("best validation") },
    Figure { name: "population_growth", tag: "eval/population_growth_mean", label: Some("mean validation") },
    Figure { name: "valid_error", tag: "eval/standard_error", label: None },
    Figure { name: "individual", tag: "train/best_individual", label: None },
    Figure { name: "entropy", tag: "train/entropy", label: Some("entropy") },
    Figure { name: "least_entropy", tag: "train/entropy_least", label: None },
    Figure { name: "most_entropy", tag: "train/entropy_most", label: None },
    Figure { name: "risk_factor", tag: "train/risk_factor", label: None },
    Figure { name: "entropy_weight", tag: "train/ent_coef", label: None },
    Figure { name: "approx_kl", tag: "train/approx_kl", label: None },
    Figure { name: "clip_fraction", tag: "train/clip_fraction", label: None },
    Figure { name: "policy_loss", tag: "train/policy_gradient_loss", label: None },
    Figure { name: "value_loss", tag: "train/value_loss", label: None },
    Figure { name: "explained_variance", tag: "train/explained_variance", label: None },
    Figure { name: "norm", tag: "train/grad_norm", label: None },
    Figure { name: "learning_rate", tag: "train/learning_rate", label: None },
];

/// Whether settings are of populations of policies.
pub(super) fn is_pbt(settings: &Settings) -> bool {
    settings.evolve.algorithm == EvolveAlgorithm::Pbt
}

fn population(settings: &Settings) -> usize {
    settings.evolve.population.unwrap_or(POPULATION)
}

/// The settings of an individual, as `ppo` reads them: its share of the steps, and nothing of evolution.
pub(super) fn individual(settings: &Settings) -> Settings {
    let mut own = settings.clone();
    own.ppo.timesteps = settings.ppo.timesteps.map(|steps| (steps / population(settings)).max(1));
    own.evolve = EvolveSettings::default();
    own
}

/// An error where something was set that searches alone go by.
fn refuse_what_is_a_searchs(settings: &Settings) -> Result<()> {
    let EvolveSettings { algorithm, population, exploit_every, .. } = settings.evolve.clone();
    let ours = EvolveSettings { algorithm, population, exploit_every, ..EvolveSettings::default() };
    if settings.evolve != ours {
        let what = "of `evolve.` population-based training goes by population and exploit_every alone";
        return Err(usage(what, "leave the others out, or choose <evolve.algorithm=openai>"));
    }
    Ok(())
}

pub(super) fn learner(
    source: &Source,
    splits: &Splits,
    settings: &Settings,
    device: &Opened,
) -> Result<Box<dyn Learner>> {
    trading_data(source, splits)?;
    if settings.refit.is_some() {
        let remedy = "refit a run of ppo with the rate, entropy band and weight of drawdowns that its log ended with";
        return Err(usage("a population is selected by its validation, and a refit has none", remedy));
    }
    let all = settings.configs();
    let alike = |own: &Settings| (own.evolve.algorithm, population(own), own.evolve.exploit_every);
    if all.iter().any(|(_, own)| alike(own) != alike(settings)) {
        let what = "population-based training is tried beside no other algorithm, population or border";
        return Err(usage(what, "try them in runs of their own"));
    }
    all.iter().try_for_each(|(_, own)| refuse_what_is_a_searchs(own))?;
    let own: Vec<Settings> = all.iter().map(|(_, own)| individual(own)).collect();
    let ppo = ppo::ppo(source, splits, settings, &own, device)?;
    let every = settings.evolve.exploit_every.map(|updates| updates as u32);
    Ok(Box::new(Pbt::new(ppo, population(settings) as u32, every)?))
}

/// Sets what an individual's settings leave open.
pub(super) fn fill_in(settings: &mut Settings, source: &Source, device: &Opened) {
    let mut own = individual(settings);
    PpoKind.fill_in(&mut own, source, device);
    (settings.ppo.n_envs, settings.ppo.n_steps) = (own.ppo.n_envs, own.ppo.n_steps);
}

/// Fits a tuned update to an individual's share of the timesteps, whatever population it was tuned with; that it is a
/// smaller one, as a note.
pub(super) fn fit_tuned(settings: &mut Settings) -> Option<String> {
    let own = individual(settings);
    let (tuned, fitted) = (UpdateShape::of(&own), UpdateShape::fitted(&own));
    if fitted == tuned {
        return None;
    }
    (settings.ppo.n_envs, settings.ppo.n_steps) = (Some(fitted.n_envs), Some(fitted.n_steps));
    // As many minibatches as were tuned.
    let batch = settings.classify.batch.map(|batch| (batch * fitted.rows() / tuned.rows()).max(1));
    settings.classify.batch = batch;
    Some(format!(
        "{} of {} instead of {} of {} in an update, so that each of {} has {} in its share of the timesteps",
        format_plural(fitted.n_envs as u64, "environment"),
        format_plural(fitted.n_steps as u64, "step"),
        format_count(tuned.n_envs as u64),
        format_count(tuned.n_steps as u64),
        format_plural(population(settings) as u64, "individual"),
        format_plural(u64::from(ppo::updates(&individual(settings))), "update"),
    ))
}

/// That no individual adopts from another, where a training has no border.
pub(super) fn notes(settings: &Settings) -> Vec<String> {
    let all = settings.configs().into_iter();
    let fewest = all.map(|(_, own)| ppo::updates(&individual(&own))).min().unwrap_or(0) as usize;
    let every = settings.evolve.exploit_every.filter(|every| *every >= fewest);
    let note = every.map(|every| {
        format!(
            "nobody adopts from another: evolve.exploit_every is {}, and there are {} in a training; give a smaller \
             <evolve.exploit_every>, or more <ppo.timesteps>",
            format_count(every as u64),
            format_plural(fewest as u64, "update"),
        )
    });
    note.into_iter().collect()
}

pub(super) fn identity(settings: &Settings) -> String {
    let every = settings.evolve.exploit_every;
    format!("pbt {} {every:?} {}", population(settings), PpoKind.identity(&individual(settings)))
}

/// What is written of a policy, but for what is each individual's own; steps are those of all.
pub(super) fn more_figures(of: &Validated<'_>, rate: f64) -> Vec<MoreFigure> {
    let own = individual(of.settings);
    let mut all = PpoKind.more_figures(&Validated { settings: &own, ..*of }, rate);
    all.retain(|figure| figure.name.is_none() && figure.tag != "time/total_timesteps");
    all.push(MoreFigure { name: None, tag: "time/total_timesteps", value: event_step(of) as f64 });
    all
}

/// Steps of the accounts of all individuals.
pub(super) fn event_step(of: &Validated<'_>) -> u64 {
    population(of.settings) as u64 * PpoKind.event_step(&Validated { settings: &individual(of.settings), ..*of })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was tuned for a population of 8 leaves updates enough for 64, whose shares are smaller.
    #[test]
    fn a_tuned_update_fits_the_share_of_an_individual() {
        for (population, timesteps, batch, expected) in [
            (8, 16_000_000, 2048, (64, 128, 2048)),
            (64, 16_000_000, 2048, (64, 128, 2048)),
            (64, 4_000_000, 2048, (30, 128, 960)),
            // The fewest accounts are too many, so steps are fewer.
            (64, 500_000, 2048, (8, 32, 64)),
            (64, 1000, 1, (8, 16, 1)),
        ] {
            let mut settings = Settings::default();
            for set in [
                "train.learner=evolve",
                "evolve.algorithm=pbt",
                "ppo.n_envs=64",
                "ppo.n_steps=128",
                &format!("train.batch={batch}"),
                &format!("evolve.population={population}"),
                &format!("ppo.timesteps={timesteps}"),
            ] {
                settings.set(set).unwrap();
            }
            let note = fit_tuned(&mut settings);
            let found = (settings.ppo.n_envs, settings.ppo.n_steps, settings.classify.batch);
            let (n_envs, n_steps, batch) = expected;
            assert_eq!(found, (Some(n_envs), Some(n_steps), Some(batch)), "{population} in {timesteps}");
            assert_eq!(note.is_some(), (n_envs, n_steps) != (64, 128), "{note:?}");
            assert!(note.is_none_or(|note| note.contains("each of 64 individuals")));
            assert!(timesteps < 10_000 || ppo::updates(&individual(&settings)) as usize >= ppo::UPDATES_LEAST);
        }
    }
}
