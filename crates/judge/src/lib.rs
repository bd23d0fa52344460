//! Is it real? Splits, the measures of a classifier, and the ledger of every trial. `docs/method.md` is
//! its specification.
//!
//! 1. [`split`] cuts samples into folds by time: training, validation, test, and a holdout that stays closed.
//! 2. [`measure`] says what predictions are worth: counts, probabilities, baselines, and how sure one can be.
//! 3. [`select_configs`] chooses a config for each fold by validation, [`ensemble`] averages members, [`Truth::judge`]
//!    makes the [`Judged`] record of what they predict.
//! 4. [`null`] makes markets with nothing in them, for what finds something everywhere.
//! 5. [`ledger`] writes down every trial before its result is seen.

mod judged;
pub mod ledger;
pub mod measure;
mod members;
pub mod null;
pub mod split;

pub use judged::{Judged, Truth, VolatilityBaseline};
pub use members::{Member, ensemble, mean_probabilities, select_configs, validation_scores};
