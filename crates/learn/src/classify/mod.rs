//! Classifiers: an epoch of steps through a fold's training list, then its validation list.

pub mod defaults;
mod noise;
mod predict;
mod training;

pub use predict::{Query, predict, predict_pins};

use crate::scale::{Scaler, fit, split_id};
use crate::{
    Config, DeviceBudget, Extent, Learner, MemberKey, Noise, NoisePhase, NoiseSpec, Problem, Snapshot, Training,
};
use compute::population::{self, Data, Member, Pace, Pins, Scale};
use compute::{Net, Opened, Population, Tables};
use features::{Fold, FoldKind};
use files::{Error, Kind, Result};
use rayon::prelude::*;
use std::sync::Arc;
use training::ClassTraining;

/// How classifiers are trained. What changes a bit is in here; what only changes the pace is not.
#[derive(Clone)]
pub struct Spec {
    /// Sets of hyper-parameters, each with members of its own; at least one.
    pub configs: Vec<Config>,
    /// Maximum number of epochs; the schedule of the rate is made for as many.
    pub epochs: u32,
    /// Members end after so many of them, however far the schedule is.
    pub stop_after: Option<u32>,
    /// A member ends after so many epochs without a better score.
    pub patience: u32,
    /// Members of each fold.
    pub seeds: u32,
    /// Whether rare classes weigh more: each as much as any other in sum.
    pub balance: bool,
    /// What makes a validation better than another; larger is. (The measure is the judge's.)
    pub score: fn(&population::Score) -> f64,
}

/// Classifiers of a problem: the [`Learner`].
#[derive(Clone)]
pub struct Classify {
    spec: Spec,
    folds: Arc<Folds>,
}

/// What the folds of a problem are to a classifier.
struct Folds {
    problem: Arc<Problem>,
    labels: Vec<u8>,              // [ids] the class of each id, from 0; 0 for ids of no sample
    weights: Vec<f32>,            // [ids] average uniqueness of each id's label
    lists: Vec<[Vec<u32>; 2]>,    // [folds] ids to train on, ids to validate on
    scalers: Vec<Scaler>,         // [folds]
    class_weights: Vec<Vec<f32>>, // [folds][classes]
}

impl Classify {
    /// Classifiers of these folds; what cannot be trained is refused.
    pub fn new(problem: &Arc<Problem>, folds: &[Fold], spec: Spec) -> Result<Classify> {
        check(problem, folds, &spec)?;
        let mut labels = vec![0; problem.ids];
        let mut weights = vec![1.0; problem.ids];
        let samples = &problem.samples;
        for ((id, class), weight) in samples.rows.iter().zip(&samples.class).zip(&samples.weight) {
            labels[*id as usize] = features::class::index(*class, problem.classes);
            weights[*id as usize] = *weight;
        }
        let ids = |positions: &[u32]| positions.iter().map(|at| samples.rows[*at as usize]).collect::<Vec<u32>>();
        let lists: Vec<[Vec<u32>; 2]> = folds.iter().map(|f| [ids(&f.train), ids(&f.valid)]).collect();
        let split = split_id(folds);
        let scalers: Vec<Scaler> = folds.par_iter().map(|fold| fit(problem, fold, split)).collect();
        let forward = scalers.iter().zip(folds).filter(|(_, fold)| fold.kind != FoldKind::Around);
        forward.into_iter().try_for_each(|(scaler, fold)| scaler.precedes(fold.spans.test.from()))?;
        let class_weights = lists.iter().map(|[train, _]| {
            let mut sums = vec![0.0f64; problem.classes];
            train.iter().for_each(|id| sums[usize::from(labels[*id as usize])] += f64::from(weights[*id as usize]));
            if spec.balance { balanced(&sums) } else { vec![1.0; sums.len()] }
        });
        let class_weights = class_weights.collect();
        let problem = Arc::clone(problem);
        let folds = Arc::new(Folds { problem, labels, weights, lists, scalers, class_weights });
        Ok(Classify { spec, folds })
    }

    /// The same folds with other configs and epochs.
    fn with_configs(&self, configs: Vec<Config>, epochs: u32) -> Classify {
        Classify { spec: Spec { configs, epochs, ..self.spec.clone() }, folds: Arc::clone(&self.folds) }
    }

    /// The config whose net and recipe the members of a group share.
    fn shared(&self, members: &[MemberKey]) -> &Config {
        &self.spec.configs[self.group_config(members)]
    }

    fn population(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        pace: Pace,
        pins: &Pins,
    ) -> compute::Result<Population> {
        let Config { net, recipe, .. } = self.shared(members);
        let (data, members) = self.describe(members);
        Population::paced(&at.device, at.budget, net, tables, &data, recipe, &members, pins, pace)
    }

    /// A group's data and members, in the engine's words.
    fn describe(&self, members: &[MemberKey]) -> (Data<'_>, Vec<Member>) {
        let of = &*self.folds;
        let mut folds: Vec<usize> = members.iter().map(|key| key.fold).collect();
        folds.sort_unstable();
        folds.dedup();
        let lists = folds.iter().flat_map(|fold| of.lists[*fold].iter().map(Vec::as_slice)).collect();
        let data = Data { labels: vec![&of.labels], weights: Some(&of.weights), lists };
        let member = |key: &MemberKey| {
            let at = folds.binary_search(&key.fold).expect("it is one of them");
            Member {
                id: key.id(),
                train: 2 * at,
                valid: (!of.lists[key.fold][1].is_empty()).then_some(2 * at + 1),
                epochs: self.spec.epochs,
                rate: self.spec.configs[key.config].rate,
                scales: of.scalers[key.fold].scales.iter().cloned().map(Some).collect::<Vec<Option<Scale>>>(),
                class_weights: vec![of.class_weights[key.fold].clone()],
            }
        };
        (data, members.iter().map(member).collect())
    }
}

impl Learner for Classify {
    fn unit(&self) -> &'static str {
        "epoch"
    }

    fn extent(&self) -> Extent {
        let Spec { epochs, stop_after, patience, seeds, .. } = self.spec;
        let units = stop_after.map_or(epochs, |units| units.min(epochs));
        Extent { folds: self.folds.lists.len(), seeds, units, patience }
    }

    fn configs(&self) -> &[Config] {
        &self.spec.configs
    }

    fn problem(&self) -> &Problem {
        &self.folds.problem
    }

    fn scalers(&self) -> &[Scaler] {
        &self.folds.scalers
    }

    fn with(&self, configs: Vec<Config>, units: u32) -> Box<dyn Learner> {
        Box::new(self.with_configs(configs, units))
    }

    fn noise(
        &self,
        members: &[MemberKey],
        at: &DeviceBudget,
        spec: &NoiseSpec,
        enough: &dyn Fn(NoisePhase) -> bool,
    ) -> Result<Option<Noise>> {
        noise::noise(self, members, at, spec, enough).map(Some)
    }

    fn samples(&self, member: MemberKey) -> u64 {
        self.folds.lists[member.fold][0].len() as u64
    }

    fn needs(&self, device: &Opened, members: &[MemberKey], pace: Pace) -> compute::Result<u64> {
        let Config { net, recipe, .. } = self.shared(members);
        let (data, members) = self.describe(members);
        Population::need(device, net, &data, recipe, &members, pace)
    }

    fn begin(
        &self,
        at: &DeviceBudget,
        tables: &Arc<Tables>,
        members: &[MemberKey],
        pace: Pace,
        pins: &Pins,
    ) -> compute::Result<Box<dyn Training>> {
        let mut population = self.population(at, tables, members, pace, pins)?;
        population.prepare()?;
        let samples = members.iter().map(|key| self.samples(*key)).collect();
        let Config { net, recipe, .. } = self.shared(members);
        let predicting = predict_pins(&at.device, net, recipe, pins)?;
        Ok(Box::new(ClassTraining::new(population, samples, recipe.batch, self.spec.score, predicting)))
    }

    fn read_snapshot(&self, bytes: &[u8]) -> compute::Result<Snapshot> {
        population::Snapshot::from_bytes(bytes).map(training::snapshot)
    }
}

/// No class weighs more than so many times its own share: a class of a hundredth would else drown the others in its
/// noise.
const HEAVIEST: f64 = 10.0;

/// Weights that give every class the same sum, as far as [`HEAVIEST`] allows; a class that is not there has 1.
fn balanced(sums: &[f64]) -> Vec<f32> {
    let all: f64 = sums.iter().sum();
    let weight = |sum: &f64| if *sum > 0.0 { (all / (sums.len() as f64 * sum)).min(HEAVIEST) } else { 1.0 };
    sums.iter().map(|sum| weight(sum) as f32).collect()
}

/// Refuses what cannot be trained, before anything begins.
fn check(problem: &Problem, folds: &[Fold], spec: &Spec) -> Result<()> {
    spec.configs.iter().try_for_each(|config| check_net(problem, &config.net))?;
    let lacks = |f: &&Fold| f.train.is_empty() || (f.valid.is_empty() && f.kind != FoldKind::Whole);
    match folds.iter().find(lacks) {
        None => Ok(()),
        Some(fold) => Err(Error::new(
            Kind::Usage,
            format!(
                "fold {} has {} training and {} validation samples",
                fold.number + 1,
                fold.train.len(),
                fold.valid.len()
            ),
        )
        .remedy("use fewer <split.folds>, or give more data")),
    }
}

/// Whether a net can read what there is and says what is asked.
fn check_net(problem: &Problem, net: &Net) -> Result<()> {
    let wrong = |what: String, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy.to_string()));
    let (asked, has) = (net.inputs.len(), problem.inputs.len());
    if asked != has {
        return wrong(format!("the net `{}` has {asked} inputs and the data have {has}", net), "change <train.net>");
    }
    for (input, data) in net.inputs.iter().zip(&problem.inputs) {
        if input.features != data.columns.len() {
            let (asks, has, name) = (input.features, data.columns.len(), &data.name);
            return wrong(
                format!("the net `{}` reads {asks} features of `{name}`, which has {has}", net),
                "change <train.net> or <features.set>",
            );
        }
        if data.window > 0 && input.window > data.window {
            return wrong(
                format!("the net `{}` reads {} rows of `{}`, which has {}", net, input.window, data.name, data.window),
                "change <train.net>",
            );
        }
    }
    if net.heads.len() != 1 || net.heads[0].classes != problem.classes {
        return wrong(
            format!("the net `{}` does not end in one head of {} classes", net, problem.classes),
            "end it with the number of classes, as in 16x50-lstm64-3",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::balanced;

    #[test]
    fn rare_classes_weigh_more_up_to_a_limit() {
        assert_eq!(balanced(&[1.0, 1.0, 2.0]), [4.0 / 3.0, 4.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(balanced(&[50.0, 0.0, 50.0]), [2.0 / 3.0, 1.0, 2.0 / 3.0]);
        assert_eq!(balanced(&[500.0, 1.0, 499.0])[1], 10.0);
    }
}
