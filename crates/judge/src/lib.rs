//! Is it real? Splits, the measures of a classifier, and the ledger of every trial. `METHOD.md` (C3, C6, C7) is its specification.

pub mod ledger;
