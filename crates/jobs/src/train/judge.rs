//! What came of a training: a config selected for each fold by validation, the members' lines, and what the run is
//! worth on test samples. What is measured there is the learner's ([`crate::kinds::Evaluation`]).

use super::result::{Judged, MemberRow};
use super::{Experiment, Ids, TrainRun};
use crate::kinds::{Evaluation, Measured, Metric};
use features::FoldKind;
use files::Result;
use judge::{ScoredMember, select_configs, validation_scores};
use learn::Trained;

/// A judged run.
pub(crate) struct Judgement<'a> {
    /// Of the configs that were selected; none where there is nothing to judge.
    judged: Option<Judged>,
    /// A line for each member.
    members: Vec<MemberRow>,
    /// `[folds]` the config that was selected for each.
    pub(super) selected: Vec<usize>,
    /// `[configs]` what each would reach if it had been taken in every fold; empty where there is one.
    pub(super) per_config: Vec<PerConfig>,
    pub(super) evaluation: Box<dyn Evaluation + 'a>,
}

/// One config among several.
pub(crate) struct PerConfig {
    /// Mean score of its members on their validation samples.
    score: f64,
    pub(super) judged: Option<Judged>,
}

/// Judges members whose training has ended.
pub(super) fn judge<'a>(experiment: &'a Experiment, members: &'a [Trained]) -> Result<Judgement<'a>> {
    let kind = experiment.kind();
    let (configs, folds) = (experiment.learner.configs().len(), experiment.splits.folds.len());
    let worst = kind.info().metrics[0].signed(kind.info().metrics[0].worst);
    let scored = |m: &Trained| ScoredMember {
        config: m.config,
        fold: m.fold,
        score: m.best.as_ref().map_or(worst, |best| best.score),
    };
    let scored: Vec<ScoredMember> = members.iter().map(scored).collect();
    // What lies around a test has seen later days anyway: each fold goes by its own validation.
    let alone = experiment.splits.folds.iter().any(|fold| fold.kind == FoldKind::Around);
    let selected = if alone {
        let of_fold = |fold: usize| {
            let own: Vec<ScoredMember> = scored.iter().filter(|m| m.fold == fold).copied().collect();
            select_configs(&own, configs, fold + 1)[fold]
        };
        (0..folds).map(of_fold).collect()
    } else {
        select_configs(&scored, configs, folds)
    };
    let evaluation = kind.evaluate(experiment, members)?;
    let mut judged = evaluation.judge(&|fold| selected[fold])?;
    if let (Some(judged), Ids::Ready { timed: false, .. }) = (&mut judged, &experiment.source.ids) {
        judged.record.insert("time_order".into(), "believed".into());
        judged.sentences.push("time order is believed, not known: the arrays have no t0".into());
    }
    let mut per_config = Vec::new();
    if configs > 1 {
        for (config, score) in validation_scores(&scored, configs, |_| true).into_iter().enumerate() {
            per_config.push(PerConfig { score, judged: evaluation.judge(&|_| config)? });
        }
    }
    let tested = |member| Ok((evaluation.test_figures(member)?, evaluation.deployed(member)));
    let members = member_rows(experiment, members, tested)?;
    Ok(Judgement { judged, members, selected, per_config, evaluation })
}

impl Judgement<'_> {
    /// Takes what came out down in the run.
    pub(super) fn write_into(&mut self, run: &mut TrainRun, metrics: &[Metric]) {
        (run.members, run.judged) = (std::mem::take(&mut self.members), self.judged.take());
        for (at, (row, config)) in run.configs.iter_mut().zip(&self.per_config).enumerate() {
            let test = config.judged.as_ref().map_or_else(Vec::new, |j| j.metrics.iter().map(|m| m.value).collect());
            row.metrics = measured(metrics, Some(config.score), test);
            row.chosen = (1..=self.selected.len()).filter(|fold| self.selected[fold - 1] == at).collect();
        }
    }
}

/// A line for each member; `test` gives its figures on test samples, none where it was not put to the test, and what it
/// is deployed as.
pub(super) fn member_rows(
    experiment: &Experiment,
    members: &[Trained],
    test: impl Fn(usize) -> Result<(Vec<Option<f64>>, Option<&'static str>)>,
) -> Result<Vec<MemberRow>> {
    let (metrics, unit) = (experiment.kind().info().metrics, experiment.learner.unit());
    let row = |(at, m): (usize, &Trained)| {
        let score = m.best.as_ref().map(|best| best.score);
        let (figures, deployed) = test(at)?;
        Ok(MemberRow::new(m, unit, measured(metrics, score, figures), deployed))
    };
    let mut rows = members.iter().enumerate().map(row).collect::<Result<Vec<MemberRow>>>()?;
    // Configs may have been trained in another order.
    rows.sort_by_key(|m| (m.config, m.fold, m.seed));
    Ok(rows)
}

/// A learner's metrics with their values: a validation score, then figures on test samples.
pub(super) fn measured(metrics: &[Metric], score: Option<f64>, test: Vec<Option<f64>>) -> Vec<Measured> {
    let first = score.filter(|score| !score.is_nan()).map(|score| metrics[0].signed(score));
    let values = std::iter::once(first).chain(test).chain(std::iter::repeat(None));
    metrics.iter().zip(values).map(|(metric, value)| Measured { metric: *metric, value }).collect()
}
