//! What the predictions of a run are worth, on test samples alone: each fold's members on the block behind what they were trained on.

use super::source::{Ids, Source};
use files::Result;
use judge::measure::{Bootstrap, Confusion, Interval, VolatilityRule};
use judge::measure::{by_group, mcc_interval, persistence, predicted, scores, volatility};
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
    /// The correlation over all classes of a rule that knows volatility alone, fitted on each fold's training samples: that much of `mcc` is no
    /// edge (METHOD.md L4). Null for two classes and for ready arrays, which have no prices.
    pub volatility_mcc: Option<f64>,
}

/// A member's line of the result.
#[derive(Debug, Clone, Serialize)]
pub struct MemberRow {
    /// Its set of hyper-parameters, from 1.
    pub config: usize,
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
            config: member.config + 1,
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
    let mut rows = members.iter().zip(probabilities).map(row).collect::<Result<Vec<MemberRow>>>()?;
    // Configs may have been trained in another order.
    rows.sort_by_key(|m| (m.config, m.fold, m.seed));
    Ok(rows)
}

/// A config's line of the result, where there are several.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigRow {
    /// From 1.
    pub config: usize,
    /// What is its own, as in `rate 0.001, decay 0.1`.
    pub what: String,
    /// As text.
    pub net: String,
    /// Rows of a batch.
    pub batch: u64,
    /// Before the schedule.
    pub rate: f64,
    /// Mean over its members of the best correlation on their validation samples; null while nothing is known.
    pub valid_mcc: Option<f64>,
    /// Correlation on test samples if it had been taken in every fold. No one may choose by it.
    pub test_mcc: Option<f64>,
    /// Folds, from 1, in which it was chosen.
    pub chosen: Vec<usize>,
}

/// All members, and which config each fold took.
#[derive(Clone, Copy)]
pub(crate) struct Taken<'a> {
    pub(crate) members: &'a [Trained],
    /// `[folds]`
    pub(crate) configs: &'a [usize],
}

/// What a member without any score counts as: Matthews' correlation is never lower.
const WORST: f64 = -1.0;

/// `[configs]` the mean of the best validation scores of a config's members in some folds.
pub(crate) fn valid(members: &[Trained], configs: usize, within: impl Fn(usize) -> bool) -> Vec<f64> {
    let mean = |config: usize| {
        let mine = members.iter().filter(|m| m.config == config && within(m.fold));
        let (sum, count) =
            mine.fold((0.0, 0.0f64), |(sum, count), m| (sum + m.best.as_ref().map_or(WORST, |b| b.worth), count + 1.0));
        sum / count.max(1.0)
    };
    (0..configs).map(mean).collect()
}

/// `[folds]` the config of each fold: the best by validation of this fold and those before it, so by nothing that a later day knew. The first
/// of equals.
pub(crate) fn chosen(members: &[Trained], configs: usize, folds: usize) -> Vec<usize> {
    let fold = |number: usize| {
        let scores = valid(members, configs, |fold| fold <= number);
        (0..configs).fold(0, |best, config| if scores[config] > scores[best] { config } else { best })
    };
    (0..folds).map(fold).collect()
}

/// `[folds][test, classes]` mean probabilities over the members of a fold's config (`of`), in their order; empty where no member has any.
pub(crate) fn ensemble(
    splits: &Splits,
    members: &[Trained],
    probabilities: &[Vec<f32>],
    of: &dyn Fn(usize) -> usize,
) -> Vec<Vec<f32>> {
    let fold = |number: usize| {
        let mine: Vec<&Vec<f32>> = members
            .iter()
            .zip(probabilities)
            .filter(|(m, p)| m.fold == number && m.config == of(number) && !p.is_empty())
            .map(|(_, p)| p)
            .collect();
        let Some(first) = mine.first() else { return Vec::new() };
        (0..first.len())
            .map(|i| (mine.iter().map(|p| f64::from(p[i])).sum::<f64>() / mine.len() as f64) as f32)
            .collect()
    };
    (0..splits.folds.len()).map(fold).collect()
}

/// The correlation that volatility alone gives on all test samples; none where there are no prices or only two classes.
pub(crate) fn of_volatility(source: &Source, splits: &Splits) -> Result<Option<f64>> {
    let Ids::Bars { data, .. } = &source.ids else { return Ok(None) };
    if source.problem.classes != 3 {
        return Ok(None);
    }
    // Rows of the base table are the bars of its symbols, one symbol behind the other.
    let known: Vec<Vec<[f32; 2]>> = data.base.market.iter().map(|b| volatility(&b.close, &b.segments)).collect();
    let at = |position: &u32| {
        let (symbol, bar) = data.base.place(source.problem.samples.rows[*position as usize] as usize);
        known[symbol][bar]
    };
    let (mut truth, mut guessed) = (Vec::new(), Vec::new());
    for fold in &splits.folds {
        let train: Vec<[f32; 2]> = fold.train.iter().map(at).collect();
        let classes: Vec<u8> = fold.train.iter().map(|at| class(source, *at)).collect();
        let Some(rule) = VolatilityRule::fit(&train, &classes) else { continue };
        for position in &fold.test {
            if let Some(guess) = rule.guess(at(position)) {
                truth.push(class(source, *position));
                guessed.push(guess);
            }
        }
    }
    if truth.is_empty() { Ok(None) } else { Ok(Some(Confusion::count(3, &truth, &guessed)?.mcc())) }
}

/// Judges all folds together.
pub(crate) fn judge(
    source: &Source,
    splits: &Splits,
    ensemble: &[Vec<f32>],
    seed: u64,
    volatility_mcc: Option<f64>,
) -> Result<Option<Judged>> {
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
        volatility_mcc,
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

#[cfg(test)]
mod tests {
    use super::*;
    use learn::classify::Best;

    fn member(config: usize, fold: usize, worth: Option<f64>) -> Trained {
        Trained {
            id: (config * 10 + fold) as u32,
            config,
            fold,
            seed: 0,
            history: Vec::new(),
            best: worth.map(|worth| Best { epoch: 1, worth, params: Vec::new() }),
            stopped: None,
            last: None,
        }
    }

    #[test]
    fn a_fold_takes_what_was_best_by_then() {
        // Config 1 is better in fold 0, config 0 in folds 1 and 2, and overall; fold 0 must not know that yet.
        let scores = [[0.1, 0.5, 0.4], [0.2, 0.3, 0.0]];
        let members: Vec<Trained> = (0..2)
            .flat_map(|config| (0..3).map(move |fold| member(config, fold, Some(scores[config][fold]))))
            .collect();
        assert_eq!(chosen(&members, 2, 3), [1, 0, 0]);
        let mean = valid(&members, 2, |_| true);
        assert!((mean[0] - 1.0 / 3.0).abs() < 1e-12 && (mean[1] - 0.5 / 3.0).abs() < 1e-12);
        // Equal ones: the first. One without a score is the worst there is.
        assert_eq!(chosen(&[member(0, 0, Some(0.1)), member(1, 0, Some(0.1))], 2, 1), [0]);
        assert_eq!(chosen(&[member(0, 0, None), member(1, 0, Some(-0.5))], 2, 1), [1]);
    }
}
