//! The judged record: what a classifier's predictions are worth on test samples alone, each fold's on the block behind
//! what it was trained on.

use crate::in_threads;
use crate::measure::{Bin, Confusion, Interval, LEAST_BLOCKS, Logistic, Scores, VolatilityRule, WEEK};
use crate::measure::{blocks, by_group, estimate, persistence, predicted, scores, volatility};
use features::{Fold, Samples, Table, class};
use files::{Result, format_list, format_plural};
use serde::{Deserialize, Serialize};

/// What predictions of classes are worth.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Judged {
    /// Samples that were predicted.
    pub samples: u64,
    /// Matthews' correlation over all classes.
    pub mcc: f64,
    /// Its 95 % interval, from blocks of days that are left out in turn; null where `no_interval` says why.
    pub mcc_interval: Option<Interval>,
    /// Why there is no interval and no verdict: too few folds, test days or independent blocks of days. Null where
    /// there is one; figures of a record that has none are no result.
    pub no_interval: Option<String>,
    /// Matthews' correlation where truth and guess both say up or down; null where that never happens.
    pub directional_mcc: Option<f64>,
    /// Its 95 % interval, which is the one that counts: volatility alone lifts `mcc` above 0. Null where `no_interval`
    /// says why, and where nothing was said of direction.
    #[serde(default)]
    pub directional_interval: Option<Interval>,
    /// How likely a `directional_mcc` at least as large is by chance.
    #[serde(default)]
    pub directional_p: Option<f64>,
    /// Guesses that were right, over all.
    pub accuracy: f64,
    /// Mean over classes of the harmonic mean of precision and recall.
    pub macro_f1: f64,
    /// Mean of -ln of the probability of what happened.
    pub log_loss: f64,
    /// Mean squared distance of probabilities to what happened, summed over classes.
    #[serde(default)]
    pub brier: f64,
    /// `log_loss` of giving every sample the class shares of its fold's training, the prior: a model above it knows
    /// less than nothing.
    #[serde(default)]
    pub prior_log_loss: Option<f64>,
    /// `brier` of the same.
    #[serde(default)]
    pub prior_brier: Option<f64>,
    /// Mean distance of confidence and accuracy.
    pub calibration_error: f64,
    /// The reliability table behind it.
    #[serde(default)]
    pub reliability: Vec<Bin>,
    /// `[true][guessed]`
    pub confusion: Vec<Vec<u64>>,
    /// How often always guessing the most frequent class of a fold's own training is right.
    pub majority_accuracy: f64,
    /// How often always guessing the most frequent class of all test samples would have been right, had it been known.
    #[serde(default)]
    pub test_majority_accuracy: f64,
    /// The correlation of guessing that the last known label comes again; null where none was known.
    pub persistence_mcc: Option<f64>,
    /// The correlation over all classes of a rule that knows volatility alone, fitted on each fold's training samples:
    /// that much of `mcc` is no edge (docs/method.md, Measures). Null for two classes and for ready arrays, which have
    /// no prices.
    pub volatility_mcc: Option<f64>,
    /// Test samples that this rule says something of: those before which there are bars enough. Null where there is no
    /// rule.
    pub volatility_samples: Option<u64>,
    /// What logistic regression on the same columns reaches; null where there is none.
    #[serde(default)]
    pub logistic: Option<LogisticBaseline>,
}

/// What predictions are held against.
#[derive(Debug, Clone, Copy)]
pub struct Truth<'a> {
    /// All samples, in the order of time.
    pub samples: &'a Samples,
    /// 2 or 3.
    pub classes: usize,
    /// `[samples]` the symbol of each.
    pub symbols: &'a [u32],
    /// Who learned from what, and what is tested.
    pub folds: &'a [Fold],
}

/// What is held beside predictions and takes more than the truth to make.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Baselines {
    /// A rule that knows volatility alone; none for two classes and without prices.
    pub volatility: Option<VolatilityBaseline>,
    /// The simplest learner; none where it could not be fitted.
    pub logistic: Option<LogisticBaseline>,
}

/// What logistic regression on the last row of every input reaches, fitted on each fold's training samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogisticBaseline {
    /// Matthews' correlation over all classes.
    pub mcc: f64,
    /// Where truth and guess both say up or down; null where that never happens.
    pub directional_mcc: Option<f64>,
    /// Mean of -ln of the probability of what happened.
    pub log_loss: f64,
    /// Mean squared distance of probabilities to what happened.
    pub brier: f64,
}

/// Training samples of a fold that the regression is fitted on at most, evenly spaced.
const LOGISTIC_SAMPLES: usize = 20_000;

/// What a rule that knows volatility alone reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolatilityBaseline {
    /// Matthews' correlation over all classes.
    pub mcc: f64,
    /// Test samples that it says something of.
    pub samples: u64,
}

impl Truth<'_> {
    /// The class of a sample, from 0.
    fn class(&self, at: u32) -> u8 {
        class::index(self.samples.class[at as usize], self.classes)
    }

    /// `[positions]` the class of each.
    fn classes_of(&self, positions: &[u32]) -> Vec<u8> {
        positions.iter().map(|at| self.class(*at)).collect()
    }

    /// Matthews' correlation of one member's probabilities on its fold's test; `None` where there are none.
    ///
    /// # Errors
    ///
    /// Where there are not as many as test samples.
    pub fn test_mcc(&self, fold: usize, probabilities: &[f32]) -> Result<Option<f64>> {
        if probabilities.is_empty() {
            return Ok(None);
        }
        let guessed = predicted(probabilities, self.classes);
        Ok(Some(Confusion::count(self.classes, &self.classes_of(&self.folds[fold].test), &guessed)?.mcc()))
    }

    /// What volatility alone gives on all test samples that it can; `None` where there are only two classes. Samples
    /// are rows of the table.
    ///
    /// # Errors
    ///
    /// None but for classes that are not there.
    pub fn volatility_baseline(&self, table: &Table) -> Result<Option<VolatilityBaseline>> {
        if self.classes != 3 {
            return Ok(None);
        }
        let known: Vec<Vec<[f32; 2]>> = table.market.iter().map(|b| volatility(&b.close, &b.segments)).collect();
        let at = |position: &u32| {
            let (symbol, bar) = table.place(self.samples.rows[*position as usize] as usize);
            known[symbol][bar]
        };
        let (mut truth, mut guessed) = (Vec::new(), Vec::new());
        for fold in self.folds {
            let train: Vec<[f32; 2]> = fold.train.iter().map(at).collect();
            let Some(rule) = VolatilityRule::fit(&train, &self.classes_of(&fold.train)) else { continue };
            for position in &fold.test {
                if let Some(guess) = rule.guess(at(position)) {
                    truth.push(self.class(*position));
                    guessed.push(guess);
                }
            }
        }
        let all = Confusion::count(3, &truth, &guessed)?;
        Ok((!truth.is_empty()).then(|| VolatilityBaseline { mcc: all.mcc(), samples: all.samples() }))
    }

    /// What logistic regression gives on all test samples. `rows` gives the scaled columns, `[positions, columns]`,
    /// that a fold's member sees of samples; folds go `threads` at a time.
    ///
    /// # Errors
    ///
    /// None but for classes that are not there.
    pub fn logistic_baseline(
        &self,
        columns: usize,
        rows: &(dyn Fn(usize, &[u32]) -> Vec<f32> + Sync),
        threads: usize,
    ) -> Result<Option<LogisticBaseline>> {
        let predict = |number: usize| {
            let fold = &self.folds[number];
            let step = fold.train.len().div_ceil(LOGISTIC_SAMPLES).max(1);
            let train: Vec<u32> = fold.train.iter().step_by(step).copied().collect();
            let fitted = Logistic::fit(&rows(number, &train), columns, &self.classes_of(&train), self.classes);
            fitted.map(|fitted| fitted.predict(&rows(number, &fold.test)))
        };
        let said = in_threads(self.folds.len(), threads, predict);
        let (mut truth, mut all) = (Vec::new(), Vec::new());
        for (fold, p) in self.folds.iter().zip(said) {
            let Some(p) = p.filter(|p| p.iter().all(|x| x.is_finite())) else { continue };
            truth.extend(self.classes_of(&fold.test));
            all.extend(p);
        }
        if truth.is_empty() {
            return Ok(None);
        }
        let guessed = predicted(&all, self.classes);
        let confusion = Confusion::count(self.classes, &truth, &guessed)?;
        let figures = scores(&all, self.classes, &truth, None)?;
        Ok(Some(LogisticBaseline {
            mcc: confusion.mcc(),
            directional_mcc: confusion.directional_mcc(),
            log_loss: figures.log_loss,
            brier: figures.brier,
        }))
    }

    /// Judges all folds together; `ensemble` `[folds][test, classes]`, empty where a fold predicts nothing. `None`
    /// where none does.
    ///
    /// # Errors
    ///
    /// Where there are not as many probabilities as test samples.
    pub fn judge(&self, ensemble: &[Vec<f32>], beside: &Baselines) -> Result<Option<Judged>> {
        self.judge_from(ensemble, beside, FOLDS)
    }

    /// The same of a holdout: one block, which nobody chose among several, so that the number of folds says nothing.
    ///
    /// # Errors
    ///
    /// As [`Truth::judge`].
    pub fn judge_holdout(&self, ensemble: &[Vec<f32>], beside: &Baselines) -> Result<Option<Judged>> {
        self.judge_from(ensemble, beside, 1)
    }

    fn judge_from(&self, ensemble: &[Vec<f32>], beside: &Baselines, least_folds: usize) -> Result<Option<Judged>> {
        let volatility = beside.volatility;
        let (classes, samples) = (self.classes, self.samples);
        let (mut truth, mut all, mut prior, mut at) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut majority = Confusion::new(classes, vec![0; classes * classes])?;
        for (fold, p) in self.folds.iter().zip(ensemble).filter(|(_, p)| !p.is_empty()) {
            truth.extend(self.classes_of(&fold.test));
            all.extend_from_slice(p);
            at.extend_from_slice(&fold.test);
            // Each fold by what it was trained on: a later one knows more.
            let count = |part: &[u32]| {
                let mut counts = vec![0u64; classes];
                part.iter().for_each(|at| counts[usize::from(self.class(*at))] += 1);
                counts
            };
            let trained = count(&fold.train);
            majority.add(&Confusion::majority(&trained, &count(&fold.test))?)?;
            let whole = trained.iter().sum::<u64>().max(1) as f64;
            let shares: Vec<f32> = trained.iter().map(|count| (*count as f64 / whole) as f32).collect();
            prior.extend(fold.test.iter().flat_map(|_| shares.iter().copied()));
        }
        if truth.is_empty() {
            return Ok(None);
        }
        let guessed = predicted(&all, classes);
        let confusion = Confusion::count(classes, &truth, &guessed)?;
        let figures = scores(&all, classes, &truth, None)?;
        let days: Vec<i32> = at.iter().map(|at| day(samples.t0[*at as usize])).collect();
        let groups = by_group(classes, &truth, &guessed, &days)?;
        let prior: Option<Scores> = scores(&prior, classes, &truth, None).ok();
        let open = reach(samples, &at, &days);
        let folds = ensemble.iter().filter(|p| !p.is_empty()).count();
        let no_interval = too_little(folds, least_folds, groups.len(), open);
        let judged = no_interval.is_none();
        let whole = if judged { estimate(&groups, open, Confusion::mcc)? } else { None };
        let direction = |all: &Confusion| all.directional_mcc().unwrap_or(0.0);
        let direction = if judged { estimate(&groups, open, direction)? } else { None };
        let direction = direction.filter(|_| confusion.directional_mcc().is_some());
        let most = (0..classes).map(|k| truth.iter().filter(|class| usize::from(**class) == k).count()).max();
        Ok(Some(Judged {
            samples: truth.len() as u64,
            mcc: confusion.mcc(),
            mcc_interval: whole.map(|found| found.interval),
            no_interval,
            directional_mcc: confusion.directional_mcc(),
            directional_interval: direction.map(|found| found.interval),
            directional_p: direction.map(|found| found.p),
            accuracy: confusion.accuracy(),
            macro_f1: confusion.macro_f1(),
            log_loss: figures.log_loss,
            brier: figures.brier,
            prior_log_loss: prior.as_ref().map(|prior| prior.log_loss),
            prior_brier: prior.as_ref().map(|prior| prior.brier),
            calibration_error: figures.calibration_error,
            reliability: figures.reliability,
            confusion: confusion.counts().chunks(classes).map(<[u64]>::to_vec).collect(),
            majority_accuracy: majority.accuracy(),
            test_majority_accuracy: most.unwrap_or(0) as f64 / truth.len() as f64,
            persistence_mcc: self.persistence_mcc(&at, &truth)?,
            volatility_mcc: volatility.map(|v| v.mcc),
            volatility_samples: volatility.map(|v| v.samples),
            logistic: beside.logistic,
        }))
    }

    /// The correlation of guessing the last label that was known.
    fn persistence_mcc(&self, at: &[u32], truth: &[u8]) -> Result<Option<f64>> {
        let last = persistence(self.samples, self.symbols)?;
        let known = at.iter().zip(truth);
        let known = known.filter_map(|(at, truth)| Some((*truth, class::index(last[*at as usize]?, self.classes))));
        let (truth, guessed): (Vec<u8>, Vec<u8>) = known.unzip();
        if truth.is_empty() {
            return Ok(None);
        }
        Ok(Some(Confusion::count(self.classes, &truth, &guessed)?.mcc()))
    }
}

/// What a verdict takes at least: folds and test days.
const FOLDS: usize = 5;
pub(crate) const DAYS: usize = 60;

/// Why so many folds (of at least so many) and days, of labels that stay open for `reach` days, are too few for a
/// verdict.
fn too_little(folds: usize, least_folds: usize, days: usize, reach: usize) -> Option<String> {
    let mut missing = Vec::new();
    if folds < least_folds {
        missing.push(format!("{} ({least_folds} are needed)", format_plural(folds as u64, "fold")));
    }
    if days < DAYS {
        missing.push(format!("{} ({DAYS} are needed)", format_plural(days as u64, "test day")));
    }
    if blocks(days, reach).is_none() {
        let block = reach.max(WEEK);
        let blocks = format_plural((days / block) as u64, "independent block");
        missing.push(format!("{blocks} of {block} days, as long as labels overlap ({LEAST_BLOCKS} are needed)"));
    }
    (!missing.is_empty()).then(|| format_list(&missing, "and"))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use features::{FoldSpans, Span};

    const DAY: i64 = 86_400_000_000_000;

    /// Samples of one class each, a day apart, whose labels reach so many days, and two folds of them: training and
    /// test each.
    fn daily(class: &[i8], reach: i64, folds: &[[std::ops::Range<u32>; 2]]) -> (Samples, Vec<Fold>) {
        let n = class.len();
        let t0: Vec<i64> = (0..n as i64).map(|day| day * DAY).collect();
        let samples = Samples {
            rows: (0..n as u32).collect(),
            t1: t0.iter().map(|t| t + reach * DAY).collect(),
            t0,
            class: class.to_vec(),
            weight: vec![1.0; n],
        };
        let span = Span::new(0, 1).unwrap();
        let fold = |(number, [train, test]): (usize, &[std::ops::Range<u32>; 2])| Fold {
            number,
            kind: features::FoldKind::Forward,
            train: train.clone().collect(),
            valid: Vec::new(),
            test: test.clone().collect(),
            spans: FoldSpans { train: span, valid: span, test: span },
            purged: 0,
            embargoed: 0,
        };
        (samples, folds.iter().enumerate().map(fold).collect())
    }

    fn judge(made: &(Samples, Vec<Fold>), ensemble: &[Vec<f32>], volatility: Option<VolatilityBaseline>) -> Judged {
        let (samples, folds) = made;
        let truth = Truth { samples, classes: 3, symbols: &vec![0; samples.len()], folds };
        truth.judge(ensemble, &Baselines { volatility, logistic: None }).unwrap().unwrap()
    }

    /// `[folds][test, 3]` one guess for all.
    fn always(guess: usize, folds: &[Fold]) -> Vec<Vec<f32>> {
        let row = |k: usize| if k == guess { 0.5 } else { 0.25 };
        folds.iter().map(|f| f.test.iter().flat_map(|_| (0..3).map(row)).collect()).collect()
    }

    #[test]
    fn days_are_cut_in_blocks_as_long_as_labels_reach() {
        let mut state = 1u64;
        let class: Vec<i8> = (0..400)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 62).min(2) as i8 - 1
            })
            .collect();
        let judged = |reach: i64, tested: u32| {
            let p: Vec<f32> =
                (0..tested).flat_map(|i| [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]][i as usize / 7 % 2]).collect();
            // Five folds, one behind the other.
            let borders: Vec<u32> = (0..=5).map(|k| 100 + tested * k / 5).collect();
            let folds: Vec<_> = borders.windows(2).map(|b| [0..50, b[0]..b[1]]).collect();
            let part = |b: &[u32]| p[3 * (b[0] - 100) as usize..3 * (b[1] - 100) as usize].to_vec();
            judge(&daily(&class, reach, &folds), &borders.windows(2).map(part).collect::<Vec<_>>(), None)
        };
        // Labels of up to a week: blocks of five days; sixty days are more than ten of them.
        assert_eq!([59, 60].map(|n| judged(1, n).mcc_interval.is_some()), [false, true]);
        // Longer ones: ten blocks of as many.
        assert_eq!([239, 240].map(|n| judged(24, n).mcc_interval.is_some()), [false, true]);
        assert_ne!(judged(1, 200).mcc_interval, judged(20, 200).mcc_interval);
        let (some, none) = (judged(24, 240), judged(24, 239));
        assert_eq!(some.no_interval, None);
        let why = none.no_interval.unwrap();
        assert_eq!(why, "9 independent blocks of 24 days, as long as labels overlap (10 are needed)");
        // Only days that are tested count, however far a label reaches.
        assert_eq!(judged(1000, 60).no_interval.map(|why| why.contains("block of 59")), Some(true));
    }

    #[test]
    fn four_folds_or_fifty_days_give_no_verdict() {
        assert_eq!((too_little(5, 5, 60, 5), too_little(1, 1, 60, 5)), (None, None));
        let why = |folds, days| too_little(folds, FOLDS, days, 5).unwrap();
        assert_eq!(why(4, 60), "4 folds (5 are needed)");
        assert_eq!(why(1, 59), "1 fold (5 are needed) and 59 test days (60 are needed)");
        // A fold that predicts nothing is none.
        let class: Vec<i8> = (0..200).map(|i| [-1, 0, 1][i % 3]).collect();
        let folds: Vec<_> = (0..5).map(|k| [0..50, 60 + 20 * k..80 + 20 * k]).collect();
        let made = daily(&class, 1, &folds);
        let mut ensemble = always(1, &made.1);
        assert_eq!(judge(&made, &ensemble, None).no_interval, None);
        ensemble[3].clear();
        assert_eq!(judge(&made, &ensemble, None).no_interval.as_deref(), Some("4 folds (5 are needed)"));
    }

    #[test]
    fn the_majority_is_that_of_the_folds_own_training() {
        // Downs first, then ups: the first fold knows downs alone, the second has seen more ups.
        let class: Vec<i8> = (0..100).map(|i| if i < 40 { -1 } else { 1 }).collect();
        let made = daily(&class, 1, &[[0..30, 30..42], [0..95, 95..100]]);
        let judged = judge(&made, &always(2, &made.1), None);
        assert_eq!(judged.majority_accuracy, 15.0 / 17.0, "ups for all would give 7");
        assert_eq!(judged.test_majority_accuracy, 10.0 / 17.0, "ten of the tested are down");
    }

    #[test]
    fn guesses_without_direction_have_no_directional_mcc() {
        let class: Vec<i8> = (0..60).map(|i| [-1, 0, 1][i % 3]).collect();
        let made = daily(&class, 1, &[[0..30, 30..60]]);
        let volatility = Some(VolatilityBaseline { mcc: 0.25, samples: 17 });
        let flat = judge(&made, &always(1, &made.1), volatility);
        assert_eq!((flat.directional_mcc, flat.mcc), (None, 0.0));
        assert_eq!((flat.volatility_mcc, flat.volatility_samples), (Some(0.25), Some(17)));
        let up = judge(&made, &always(2, &made.1), None);
        assert_eq!((up.directional_mcc, up.volatility_samples), (Some(0.0), None));
    }
}
