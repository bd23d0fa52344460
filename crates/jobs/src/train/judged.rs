//! What the predictions of a run are worth, on test samples alone: each fold's members on the block behind what they
//! were trained on.

use super::source::{Ids, Source};
use features::Samples;
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
    /// Its 95 % interval, from days drawn in blocks as long as labels reach; null where `no_interval` says why.
    pub mcc_interval: Option<Interval>,
    /// Why there is no interval; null where there is one.
    pub no_interval: Option<String>,
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
    /// How often always guessing the most frequent class of a fold's own training is right.
    pub majority_accuracy: f64,
    /// The correlation of guessing that the last known label comes again; null where none was known.
    pub persistence_mcc: Option<f64>,
    /// The correlation over all classes of a rule that knows volatility alone, fitted on each fold's training samples:
    /// that much of `mcc` is no edge (docs/method.md, Measures). Null for two classes and for ready arrays, which have
    /// no prices.
    pub volatility_mcc: Option<f64>,
    /// Test samples that this rule says something of: those before which there are bars enough. Null where there is no
    /// rule.
    pub volatility_samples: Option<u64>,
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

/// `[folds]` the config of each fold: the best by validation of this fold and those before it, so by nothing that a
/// later day knew. The first of equals.
pub(crate) fn chosen(members: &[Trained], configs: usize, folds: usize) -> Vec<usize> {
    let fold = |number: usize| {
        let scores = valid(members, configs, |fold| fold <= number);
        (0..configs).fold(0, |best, config| if scores[config] > scores[best] { config } else { best })
    };
    (0..folds).map(fold).collect()
}

/// `[folds][test, classes]` mean probabilities over the members of a fold's config (`of`), in their order; empty where
/// no member has any.
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

/// The correlation that volatility alone gives on all test samples that it can, and how many those are; none where
/// there are no prices or only two classes.
pub(crate) fn of_volatility(source: &Source, splits: &Splits) -> Result<Option<(f64, u64)>> {
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
    let all = Confusion::count(3, &truth, &guessed)?;
    Ok((!truth.is_empty()).then(|| (all.mcc(), all.samples())))
}

/// Judges all folds together.
pub(crate) fn judge(
    source: &Source,
    splits: &Splits,
    ensemble: &[Vec<f32>],
    seed: u64,
    volatility: Option<(f64, u64)>,
) -> Result<Option<Judged>> {
    let classes = source.problem.classes;
    let samples = &source.problem.samples;
    let (mut truth, mut all, mut at) = (Vec::new(), Vec::new(), Vec::new());
    let mut majority = Confusion::new(classes, vec![0; classes * classes])?;
    for (fold, p) in splits.folds.iter().zip(ensemble).filter(|(_, p)| !p.is_empty()) {
        truth.extend(fold.test.iter().map(|at| class(source, *at)));
        all.extend_from_slice(p);
        at.extend_from_slice(&fold.test);
        // Each fold by what it was trained on: a later one knows more.
        let count = |part: &[u32]| {
            let mut counts = vec![0u64; classes];
            part.iter().for_each(|at| counts[usize::from(class(source, *at))] += 1);
            counts
        };
        majority.add(&Confusion::majority(&count(&fold.train), &count(&fold.test))?)?;
    }
    if truth.is_empty() {
        return Ok(None);
    }
    let guessed = predicted(&all, classes);
    let confusion = Confusion::count(classes, &truth, &guessed)?;
    let figures = scores(&all, classes, &truth, None)?;
    let days: Vec<i32> = at.iter().map(|at| day(samples.t0[*at as usize])).collect();
    let groups = by_group(classes, &truth, &guessed, &days)?;
    // Labels reach over some days, so days are drawn in runs as long.
    let block = reach(samples, &at, &days).max(WEEK);
    let (mcc_interval, no_interval) = if groups.len() >= BLOCKS * block {
        (Some(mcc_interval(&groups, &Bootstrap { block, seed, ..Bootstrap::default() })?), None)
    } else {
        let why = format!(
            "{} days of test are fewer than {BLOCKS} blocks of {block}: labels that overlap are drawn together",
            groups.len()
        );
        (None, Some(why))
    };
    Ok(Some(Judged {
        samples: truth.len() as u64,
        mcc: confusion.mcc(),
        mcc_interval,
        no_interval,
        directional_mcc: confusion.directional_mcc(),
        accuracy: confusion.accuracy(),
        macro_f1: confusion.macro_f1(),
        log_loss: figures.log_loss,
        calibration_error: figures.calibration_error,
        confusion: confusion.counts().chunks(classes).map(<[u64]>::to_vec).collect(),
        majority_accuracy: majority.accuracy(),
        persistence_mcc: again(source, &at, &truth)?,
        volatility_mcc: volatility.map(|v| v.0),
        volatility_samples: volatility.map(|v| v.1),
    }))
}

/// Days that are drawn together at least.
const WEEK: usize = 5;
/// Blocks of days that an interval takes at least.
const BLOCKS: usize = 4;

/// The UTC day of a moment.
fn day(time: i64) -> i32 {
    time.div_euclid(86_400_000_000_000) as i32
}

/// On how many test days, at most, labels are still open that began on one of them: the days in `(t0, t1]`. `days` are
/// those of `at`, not falling.
fn reach(samples: &Samples, at: &[u32], days: &[i32]) -> usize {
    let mut distinct = days.to_vec();
    distinct.dedup();
    let upto = |day: i32| distinct.partition_point(|other| *other <= day);
    at.iter().zip(days).map(|(at, from)| upto(day(samples.t1[*at as usize])) - upto(*from)).max().unwrap_or(0)
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
    use features::{Fold, FoldSpans, Span};
    use learn::Problem;
    use learn::classify::Best;

    const DAY: i64 = 86_400_000_000_000;

    /// Samples of one class each, a day apart, whose labels reach so many days, and two folds of them: training and
    /// test each.
    fn daily(class: &[i8], reach: i64, folds: &[[std::ops::Range<u32>; 2]]) -> (Source, Splits) {
        let n = class.len();
        let t0: Vec<i64> = (0..n as i64).map(|day| day * DAY).collect();
        let samples = Samples {
            rows: (0..n as u32).collect(),
            t1: t0.iter().map(|t| t + reach * DAY).collect(),
            t0: t0.clone(),
            class: class.to_vec(),
            weight: vec![1.0; n],
        };
        let net: compute::Net = "row:1 / 4 / direction:3".parse().unwrap();
        let source = Source {
            path: "nowhere".into(),
            problem: Problem { inputs: Vec::new(), ids: n, classes: 3, samples, ..Problem::default() },
            nets: vec![net.clone()],
            net,
            ticks: t0,
            look_back: 1,
            fingerprint: String::new(),
            ids: Ids::Ready { symbol: None, symbols: Vec::new() },
            notes: Vec::new(),
            seconds: [0.0; 2],
        };
        let span = Span::new(0, 1).unwrap();
        let fold = |(number, [train, test]): (usize, &[std::ops::Range<u32>; 2])| Fold {
            number,
            train: train.clone().collect(),
            valid: Vec::new(),
            test: test.clone().collect(),
            spans: FoldSpans { train: span, valid: span, test: span },
            purged: 0,
            embargoed: 0,
        };
        let folds = folds.iter().enumerate().map(fold).collect();
        (source, Splits { folds, holdout: None, embargo: 0 })
    }

    /// `[folds][test, 3]` one guess for all.
    fn always(guess: usize, splits: &Splits) -> Vec<Vec<f32>> {
        let row = |k: usize| if k == guess { 0.5 } else { 0.25 };
        splits.folds.iter().map(|f| f.test.iter().flat_map(|_| (0..3).map(row)).collect()).collect()
    }

    #[test]
    fn days_are_drawn_in_blocks_as_long_as_labels_reach() {
        let mut state = 1u64;
        let class: Vec<i8> = (0..400)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 62).min(2) as i8 - 1
            })
            .collect();
        let judged = |reach: i64, tested: u32| {
            let (source, splits) = daily(&class, reach, &[[0..50, 100..100 + tested]]);
            let p: Vec<f32> =
                (0..tested).flat_map(|i| [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]][i as usize / 7 % 2]).collect();
            judge(&source, &splits, &[p], 1, None).unwrap().unwrap()
        };
        // Labels of up to a week: blocks of five days, of which there must be four.
        assert_eq!([19, 20].map(|n| judged(1, n).mcc_interval.is_some()), [false, true]);
        // Longer ones: blocks of as many.
        assert_eq!([191, 192].map(|n| judged(48, n).mcc_interval.is_some()), [false, true]);
        assert_ne!(judged(1, 200).mcc_interval, judged(40, 200).mcc_interval);
        assert_eq!(judged(1, 200).mcc_interval, judged(5, 200).mcc_interval);
        let (some, none) = (judged(48, 192), judged(48, 191));
        assert_eq!(some.no_interval, None);
        let why = none.no_interval.unwrap();
        assert!(why.contains("191 days") && why.contains("48"), "{why}");
        // Only days that are tested count, however far a label reaches.
        assert_eq!(judged(1000, 60).no_interval.map(|why| why.contains("blocks of 59")), Some(true));
    }

    #[test]
    fn the_majority_is_that_of_the_folds_own_training() {
        // Downs first, then ups: the first fold knows downs alone, the second has seen more ups.
        let class: Vec<i8> = (0..100).map(|i| if i < 40 { -1 } else { 1 }).collect();
        let (source, splits) = daily(&class, 1, &[[0..30, 30..42], [0..95, 95..100]]);
        let judged = judge(&source, &splits, &always(2, &splits), 1, None).unwrap().unwrap();
        assert_eq!(judged.majority_accuracy, 15.0 / 17.0, "ups for all would give 7");
    }

    #[test]
    fn what_nothing_was_said_of_has_no_figure() {
        let class: Vec<i8> = (0..60).map(|i| [-1, 0, 1][i % 3]).collect();
        let (source, splits) = daily(&class, 1, &[[0..30, 30..60]]);
        let flat = judge(&source, &splits, &always(1, &splits), 1, Some((0.25, 17))).unwrap().unwrap();
        assert_eq!((flat.directional_mcc, flat.mcc), (None, 0.0));
        assert_eq!((flat.volatility_mcc, flat.volatility_samples), (Some(0.25), Some(17)));
        let up = judge(&source, &splits, &always(2, &splits), 1, None).unwrap().unwrap();
        assert_eq!((up.directional_mcc, up.volatility_samples), (Some(0.0), None));
    }

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
