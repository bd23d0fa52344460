//! What the predictions of a run are worth, on test samples alone: each fold's members on the block behind what they were trained on.

use super::source::Source;
use files::Result;
use judge::measure::{Bootstrap, Confusion, Interval, by_group, mcc_interval, persistence, predicted, scores};
use judge::split::Splits;
use learn::classify::Trained;
use serde::Serialize;

/// What predictions of classes are worth.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// Samples that were predicted.
    pub samples: u64,
    /// Matthews' correlation over all classes.
    pub mcc: f64,
    /// Its 95 % interval, from days drawn in blocks.
    pub mcc_interval: Option<Interval>,
    /// Matthews' correlation where truth and guess both say up or down; null where that never happens.
    pub directional_mcc: Option<f64>,
    /// Guesses that were right, over all.
    pub accuracy: f64,
    /// Mean over classes of the harmonic mean of precision and recall.
    pub macro_f1: f64,
    /// Mean of -ln of the probability of what happened.
    pub log_loss: f64,
    /// Mean distance of confidence and accuracy.
    pub calibration_error: f64,
    /// `[true][guessed]`
    pub confusion: Vec<Vec<u64>>,
    /// What always guessing the most frequent class of training is right.
    pub majority_accuracy: f64,
    /// The correlation of guessing that the last known label comes again; null where none was known.
    pub persistence_mcc: Option<f64>,
}

/// A member's line of the result.
#[derive(Debug, Clone, Serialize)]
pub struct MemberRow {
    /// From 1.
    pub fold: usize,
    /// From 1.
    pub seed: u32,
    /// Epochs it was trained for.
    pub epochs: u32,
    /// The epoch whose weights were kept; null where no score was a number.
    pub best_epoch: Option<u32>,
    /// Correlation on its validation samples at that epoch.
    pub valid_mcc: Option<f64>,
    /// Correlation on its test samples.
    pub test_mcc: Option<f64>,
    /// Why it ended: `patience`, `epochs`, or what was not finite.
    pub ended: String,
}

/// Class of a sample, from 0.
pub(crate) fn class(source: &Source, at: u32) -> u8 {
    let class = source.problem.samples.class[at as usize];
    if source.problem.classes == 2 { u8::from(class > 0) } else { (class + 1) as u8 }
}

/// A line for each member; `probabilities` are those on its fold's test.
pub(crate) fn members(
    source: &Source,
    splits: &Splits,
    members: &[Trained],
    probabilities: &[Vec<f32>],
) -> Result<Vec<MemberRow>> {
    let classes = source.problem.classes;
    let row = |(member, p): (&Trained, &Vec<f32>)| -> Result<MemberRow> {
        let truth: Vec<u8> = splits.folds[member.fold].test.iter().map(|at| class(source, *at)).collect();
        let test_mcc = match p.is_empty() {
            true => None,
            false => Some(Confusion::count(classes, &truth, &predicted(p, classes))?.mcc()),
        };
        Ok(MemberRow {
            fold: member.fold + 1,
            seed: member.seed + 1,
            epochs: member.history.last().map_or(0, |e| e.epoch),
            best_epoch: member.best.as_ref().map(|b| b.epoch),
            valid_mcc: member.best.as_ref().map(|b| b.worth),
            test_mcc,
            ended: match &member.stopped {
                None => "not yet".into(),
                Some(learn::classify::Stopped::Patience) => "patience".into(),
                Some(learn::classify::Stopped::Epochs) => "epochs".into(),
                Some(learn::classify::Stopped::Fault(why)) => why.clone(),
            },
        })
    };
    members.iter().zip(probabilities).map(row).collect()
}

/// `[folds][test, classes]` mean probabilities over a fold's members, in their order; empty where no member has any.
pub(crate) fn ensemble(splits: &Splits, members: &[Trained], probabilities: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let fold = |number: usize| {
        let mine: Vec<&Vec<f32>> = members
            .iter()
            .zip(probabilities)
            .filter(|(m, p)| m.fold == number && !p.is_empty())
            .map(|(_, p)| p)
            .collect();
        let Some(first) = mine.first() else { return Vec::new() };
        (0..first.len())
            .map(|i| (mine.iter().map(|p| f64::from(p[i])).sum::<f64>() / mine.len() as f64) as f32)
            .collect()
    };
    (0..splits.folds.len()).map(fold).collect()
}

/// Judges all folds together.
pub(crate) fn judge(source: &Source, splits: &Splits, ensemble: &[Vec<f32>], seed: u64) -> Result<Option<Judged>> {
    let classes = source.problem.classes;
    let samples = &source.problem.samples;
    let (mut truth, mut all, mut at, mut days) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut trained = vec![0u64; classes];
    for (fold, p) in splits.folds.iter().zip(ensemble).filter(|(_, p)| !p.is_empty()) {
        truth.extend(fold.test.iter().map(|at| class(source, *at)));
        all.extend_from_slice(p);
        at.extend_from_slice(&fold.test);
        days.extend(fold.test.iter().map(|at| samples.t0[*at as usize].div_euclid(86_400_000_000_000) as i32));
        fold.train.iter().for_each(|at| trained[usize::from(class(source, *at))] += 1);
    }
    if truth.is_empty() {
        return Ok(None);
    }
    let guessed = predicted(&all, classes);
    let confusion = Confusion::count(classes, &truth, &guessed)?;
    let figures = scores(&all, classes, &truth, None)?;
    let groups = by_group(classes, &truth, &guessed, &days)?;
    // Labels reach over some days, so days are drawn in runs.
    let how = Bootstrap { block: 5.min(groups.len()), seed, ..Bootstrap::default() };
    let interval = if groups.len() >= 20 { Some(mcc_interval(&groups, &how)?) } else { None };
    Ok(Some(Judged {
        samples: truth.len() as u64,
        mcc: confusion.mcc(),
        mcc_interval: interval,
        directional_mcc: confusion.directional_mcc(),
        accuracy: confusion.accuracy(),
        macro_f1: confusion.macro_f1(),
        log_loss: figures.log_loss,
        calibration_error: figures.calibration_error,
        confusion: confusion.counts().chunks(classes).map(<[u64]>::to_vec).collect(),
        majority_accuracy: Confusion::majority(&trained, &confusion.truth())?.accuracy(),
        persistence_mcc: again(source, &at, &truth)?,
    }))
}

/// The correlation of guessing the last label that was known.
fn again(source: &Source, at: &[u32], truth: &[u8]) -> Result<Option<f64>> {
    let symbols = source.ids.symbol_numbers(&source.problem.samples.rows);
    let last = persistence(&source.problem.samples, &symbols)?;
    let classes = source.problem.classes;
    let number = |class: i8| if classes == 2 { u8::from(class > 0) } else { (class + 1) as u8 };
    let known: Vec<(u8, u8)> =
        at.iter().zip(truth).filter_map(|(at, truth)| Some((*truth, number(last[*at as usize]?)))).collect();
    if known.is_empty() {
        return Ok(None);
    }
    let (truth, guessed): (Vec<u8>, Vec<u8>) = known.into_iter().unzip();
    Ok(Some(Confusion::count(classes, &truth, &guessed)?.mcc()))
}
