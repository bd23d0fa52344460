//! A training in figures, before it has begun: folds, configs, members, memory.

use super::source::{Ids, Source};
use super::{ConfigRow, FoldRow, TrainRun, parameters};
use crate::Settings;
use judge::split::Splits;
use learn::classify::{Classify, Plan};

/// The plan in figures.
pub(super) fn describe(
    source: &Source,
    splits: &Splits,
    plan: &Plan,
    how: &Classify<'_>,
    settings: &Settings,
    device: String,
) -> TrainRun {
    let problem = &source.problem;
    let shown = |time: i64| match &source.ids {
        Ids::Bars { .. } => files::time::rfc3339(time),
        // Ready arrays may count rows instead of telling the time.
        Ids::Ready { .. } if time < 1_000_000_000_000 => time.to_string(),
        Ids::Ready { .. } => files::time::rfc3339(time),
    };
    let mut counts = vec![0u64; problem.classes];
    for at in 0..problem.samples.len() as u32 {
        counts[usize::from(problem.class_index(at))] += 1;
    }
    let all = problem.samples.len().max(1) as f64;
    let folds = splits.folds.iter().map(|f| FoldRow {
        fold: f.number + 1,
        train: f.train.len() as u64,
        valid: f.valid.len() as u64,
        test: f.test.len() as u64,
        purged: f.purged as u64,
        train_from: shown(f.spans.train.from()),
        train_to: shown(f.spans.train.to() - 1),
        valid_from: shown(f.spans.valid.from()),
        valid_to: shown(f.spans.valid.to() - 1),
        test_from: shown(f.spans.test.from()),
        test_to: shown(f.spans.test.to() - 1),
    });
    let mut run = TrainRun {
        folder: None,
        data: source.path.display().to_string(),
        learner: settings.train.learner,
        net: how.net.to_string(),
        parameters: parameters(&how.net),
        columns: problem.inputs.iter().map(|i| i.columns.len() as u64).collect(),
        samples: problem.samples.len() as u64,
        balance: counts.iter().map(|n| *n as f64 / all).collect(),
        label: match &source.ids {
            Ids::Bars { label, .. } => label.clone(),
            Ids::Ready { .. } => None,
        },
        device,
        precision: how.recipe.precision,
        batch: how.recipe.batch as u64,
        parts: 1,
        rate: f64::from(how.rate),
        epochs: u64::from(how.epochs),
        patience: u64::from(how.patience),
        folds: folds.collect(),
        holdout_from: splits.holdout.as_ref().map(|h| shown(h.span.from())),
        picture: splits.picture(&problem.samples, &source.ticks, 60, false),
        seeds: u64::from(how.seeds),
        configs: tried(how, settings),
        groups: Vec::new(),
        memory_bytes: 0,
        estimate_seconds: None,
        samples_per_s: None,
        members: Vec::new(),
        judged: None,
        phases: Vec::new(),
        verdict: String::new(),
        seconds: 0.0,
        interrupted: false,
        notes: Vec::new(),
    };
    packed(&mut run, plan, how);
    run
}

/// A line for each config, where there are several; nothing is known of them yet.
fn tried(how: &Classify<'_>, settings: &Settings) -> Vec<ConfigRow> {
    let row = |(at, (what, _)): (usize, (String, Settings))| {
        let own = how.of(at);
        ConfigRow {
            config: at + 1,
            what,
            net: own.net.to_string(),
            batch: own.recipe.batch as u64,
            rate: f64::from(own.rate),
            valid_mcc: None,
            test_mcc: None,
            chosen: Vec::new(),
        }
    };
    if how.configs() > 1 { settings.configs().into_iter().enumerate().map(row).collect() } else { Vec::new() }
}

/// How the members lie in the memory.
pub(super) fn packed(run: &mut TrainRun, plan: &Plan, how: &Classify<'_>) {
    run.parts = plan.pace.count(how.recipe.batch) as u64;
    run.groups = plan.groups.iter().map(|g| g.members.len() as u64).collect();
    run.memory_bytes = plan.groups.iter().map(|g| g.bytes).max().unwrap_or(0);
}
