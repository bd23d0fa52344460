//! Is it real? Splits, the measures of a classifier, and the ledger of every trial. `docs/method.md` is
//! its specification.
//!
//! 1. [`split`] cuts samples into folds by time: training, validation, test, and a holdout that stays closed.
//! 2. [`measure`] says what predictions are worth: counts, probabilities, baselines, and how sure one can be.
//! 3. [`null`] makes markets with nothing in them, for what finds something everywhere.
//! 4. [`ledger`] writes down every trial before its result is seen.

pub mod ledger;
pub mod measure;
pub mod null;
pub mod split;
