//! Is it real? Splits, the measures of a classifier and of returns, and the ledger of every trial. `docs/method.md` is
//! its specification.
//!
//! 1. [`split`] cuts samples into folds by time: training, validation, test, and a holdout that stays closed.
//! 2. [`measure`] says what predictions are worth: counts, probabilities, baselines, and how sure one can be.
//! 3. [`select_configs`] chooses a config for each fold by validation, [`ensemble`] averages members, [`Truth::judge`]
//!    makes the [`Judged`] record of what they predict.
//! 4. [`performance`] says what a series of daily returns earned, and how sure that is.
//! 5. [`deflated`] and [`overfitting`] say what is left of it when one counts how often it was tried.
//! 6. [`evidence`] makes one verdict of all of it.
//! 7. [`null`] makes markets with nothing in them, for what finds something everywhere.
//! 8. [`ledger`] writes down every trial before its result is seen.
//!
//! A coin that comes up in turns is easy to predict, and only the test blocks say how well:
//!
//! ```
//! use features::{Samples, class};
//! use judge::split::{WalkForward, walk_forward};
//! use judge::{Baselines, Member, Truth, ensemble};
//!
//! # fn main() -> files::Result<()> {
//! let day = 86_400_000_000_000;
//! let ticks: Vec<i64> = (1..=400).map(|n| n * day).collect();
//! let class = (0..400).map(|n| if n % 4 < 2 { -1 } else { 1 }).collect();
//! let t1 = ticks.iter().map(|t0| t0 + day).collect();
//! let samples = Samples { rows: (0..400).collect(), t0: ticks.clone(), t1, class, weight: vec![1.0; 400] };
//! let splits = walk_forward(&samples, &ticks, &WalkForward { folds: 4, ..WalkForward::default() })?;
//!
//! // One member a fold, which is sure of what it says and right about it.
//! let sure = |at: &u32| if class::index(samples.class[*at as usize], 2) == 0 { [0.9, 0.1] } else { [0.1, 0.9] };
//! let predicted: Vec<Vec<f32>> = splits.folds.iter().map(|fold| fold.test.iter().flat_map(sure).collect()).collect();
//! let member = |(fold, probabilities)| Member { config: 0, fold, probabilities };
//! let members: Vec<Member<'_>> = predicted.iter().map(Vec::as_slice).enumerate().map(member).collect();
//! let truth = Truth { samples: &samples, classes: 2, symbols: &[0; 400], folds: &splits.folds };
//! let judged = truth.judge(&ensemble(&members, 4, |_| 0), &Baselines::default())?.expect("it predicts something");
//! assert_eq!((judged.accuracy, judged.mcc), (1.0, 1.0));
//! assert!(judged.majority_accuracy < 0.6);
//! # Ok(())
//! # }
//! ```

pub mod backtest;
pub mod deflated;
pub mod evidence;
mod judged;
pub mod ledger;
pub mod measure;
mod members;
pub mod null;
pub mod overfitting;
pub mod performance;
pub mod split;

pub use judged::{Baselines, Judged, LogisticBaseline, Truth, VolatilityBaseline};
pub use members::{Member, ScoredMember, ensemble, mean_probabilities, select_configs, validation_scores};

use std::sync::atomic::{AtomicUsize, Ordering};

/// `count` calls over threads, their results in order.
pub(crate) fn in_threads<T: Send>(count: usize, threads: usize, call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut own = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return own;
            }
            own.push((at, call(at)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads.clamp(1, count.max(1))).map(|_| scope.spawn(work)).collect();
        started.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}
