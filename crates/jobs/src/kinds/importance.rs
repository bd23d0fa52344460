//! What each column is worth to the members that were trained: its values change places between test samples of a
//! fold, whole windows at a time, and what is lost is measured.

use crate::train::Experiment;
use features::{Input, Samples};
use files::Result;
use judge::measure::{Confusion, predicted, scores};
use learn::classify::{Query, predict};
use learn::{Problem, Trained};
use random::{SplitMix, mix};
use serde::{Deserialize, Serialize};

/// What is lost without a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnImportance {
    /// The input that it belongs to.
    pub input: String,
    /// Its name.
    pub column: String,
    /// What the log-loss rises by where the column is shuffled; the mean over folds.
    pub log_loss_added: f64,
    /// The standard error of it over folds: less than twice that is noise.
    pub error: f64,
    /// What directional MCC falls by.
    pub direction_lost: f64,
}

impl ColumnImportance {
    /// Its name, and what directional MCC falls by without it; nothing where that is noise.
    pub(crate) fn direction(&self) -> (String, f64) {
        let lost = if self.log_loss_added > 2.0 * self.error { self.direction_lost } else { 0.0 };
        (self.column.clone(), lost)
    }
}

/// Test samples of a fold that are asked about, evenly spaced.
const SAMPLES: usize = 512;

/// `[columns]` in the order of the inputs; one member of each fold is asked, the first seed of the config that the fold
/// selected. Empty where fewer than two folds have one.
pub(crate) fn importance(
    experiment: &Experiment,
    members: &[Trained],
    selected: &[usize],
) -> Result<Vec<ColumnImportance>> {
    let Experiment { source, splits, learner, settings, .. } = experiment;
    let first = |fold: usize| {
        members
            .iter()
            .filter(|m| m.fold == fold && m.config == selected[fold] && m.best.is_some())
            .min_by_key(|m| m.seed)
    };
    let asked: Vec<&Trained> = (0..splits.folds.len()).filter_map(first).collect();
    if asked.len() < 2 {
        return Ok(Vec::new());
    }
    let samples: Vec<Vec<u32>> = asked
        .iter()
        .map(|m| {
            let test = &splits.folds[m.fold].test;
            test.iter().step_by(test.len().div_ceil(SAMPLES).max(1)).copied().collect()
        })
        .collect();
    // The widest window that any config reads.
    let windows: Vec<usize> = (0..source.problem.inputs.len())
        .map(|input| learner.configs().iter().map(|c| c.net.inputs[input].window.max(1)).max().unwrap_or(1))
        .collect();
    let mut small = gather(&source.problem, &samples, &windows);
    let classes = source.problem.classes;
    let truth: Vec<Vec<u8>> =
        samples.iter().map(|own| own.iter().map(|at| source.problem.class_index(*at)).collect()).collect();
    let whole = figures(experiment, &small, &asked, &truth)?;
    let mut all = Vec::new();
    for (input, window) in windows.iter().enumerate() {
        for column in 0..small.inputs[input].columns.len() {
            let kept = small.inputs[input].values.clone();
            let name = small.inputs[input].columns[column].clone();
            shuffle(&mut small.inputs[input], column, *window, &samples, settings.general.seed);
            small.resident = Default::default();
            let without = figures(experiment, &small, &asked, &truth)?;
            small.inputs[input].values = kept;
            let lost: Vec<f64> = whole.iter().zip(&without).map(|(with, without)| without.0 - with.0).collect();
            let n = lost.len() as f64;
            let mean = lost.iter().sum::<f64>() / n;
            let error = (lost.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0) / n).sqrt();
            let direction = |of: &[(f64, Confusion)]| {
                let mut sum = Confusion::new(classes, vec![0; classes * classes])?;
                of.iter().try_for_each(|(_, fold)| sum.add(fold))?;
                Ok::<f64, files::Error>(sum.directional_mcc().unwrap_or(0.0))
            };
            all.push(ColumnImportance {
                input: small.inputs[input].name.clone(),
                column: name,
                log_loss_added: mean,
                error,
                direction_lost: direction(&whole)? - direction(&without)?,
            });
        }
    }
    Ok(all)
}

/// A problem of these samples alone, fold after fold; windows lie one behind the other.
fn gather(problem: &Problem, samples: &[Vec<u32>], windows: &[usize]) -> Problem {
    let ids: Vec<u32> = samples.iter().flatten().map(|at| problem.samples.rows[*at as usize]).collect();
    let inputs = problem.inputs.iter().zip(windows).map(|(input, window)| {
        let mut values = Vec::with_capacity(ids.len() * window * input.stride);
        for id in &ids {
            let last = input.map.as_ref().map_or(*id, |map| map[*id as usize]) as usize;
            values.extend_from_slice(&input.values[(last + 1 - window) * input.stride..(last + 1) * input.stride]);
        }
        let map = (0..ids.len()).map(|at| (at * window + window - 1) as u32).collect();
        Input { values, map: Some(map), ..input_without_values(input) }
    });
    Problem {
        inputs: inputs.collect(),
        ids: ids.len(),
        classes: problem.classes,
        samples: Samples::default(),
        data: problem.data.clone(),
        resident: Default::default(),
    }
}

fn input_without_values(input: &Input) -> Input {
    Input {
        name: input.name.clone(),
        columns: input.columns.clone(),
        stride: input.stride,
        values: Vec::new(),
        map: None,
        window: input.window,
    }
}

/// Lets a column's windows change places between the samples of each fold.
fn shuffle(input: &mut Input, column: usize, window: usize, samples: &[Vec<u32>], seed: u64) {
    let (stride, before) = (input.stride, input.values.clone());
    let mut random = SplitMix::new(mix(seed ^ mix(column as u64 + 1)));
    let mut start = 0;
    for own in samples {
        let mut order: Vec<usize> = (start..start + own.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at + 1));
        }
        for (to, from) in order.iter().enumerate().map(|(at, from)| (start + at, *from)) {
            for row in 0..window {
                input.values[(to * window + row) * stride + column] = before[(from * window + row) * stride + column];
            }
        }
        start += own.len();
    }
}

/// `[members]` log-loss and counts on the samples of each one's fold.
fn figures(
    experiment: &Experiment,
    problem: &Problem,
    asked: &[&Trained],
    truth: &[Vec<u8>],
) -> Result<Vec<(f64, Confusion)>> {
    let Experiment { learner, at, pins, .. } = experiment;
    let mut start = 0u32;
    let places: Vec<Vec<u32>> = truth
        .iter()
        .map(|own| {
            let ids = (start..start + own.len() as u32).collect();
            start += own.len() as u32;
            ids
        })
        .collect();
    let mut all: Vec<Option<(f64, Confusion)>> = vec![None; asked.len()];
    for (number, config) in learner.configs().iter().enumerate() {
        let mine: Vec<usize> = (0..asked.len()).filter(|k| asked[*k].config == number).collect();
        let query = |k: &usize| {
            let member = asked[*k];
            let params = &member.best.as_ref()?.params;
            let (scaler, ids) = (&learner.scalers()[member.fold], places[*k].clone());
            Some(Query { id: member.id, scaler, params, ids, alone: false })
        };
        let queries: Vec<Query<'_>> = mine.iter().filter_map(query).collect();
        let pins = pins.get(&learner.alike(number)).cloned().unwrap_or_default();
        let said = predict(problem, &config.net, &config.recipe, at, &pins, &queries)?;
        for (k, p) in mine.iter().zip(said) {
            let finite = p.iter().all(|x| x.is_finite());
            let loss = if finite { scores(&p, problem.classes, &truth[*k], None)?.log_loss } else { 0.0 };
            let confusion = Confusion::count(problem.classes, &truth[*k], &predicted(&p, problem.classes))?;
            all[*k] = Some((loss, confusion));
        }
    }
    Ok(all.into_iter().flatten().collect())
}
