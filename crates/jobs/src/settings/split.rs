//! How time is cut into folds. The defaults are the splitter's own ([`judge::split::WalkForward`]).

use super::form::{number, whole};
use super::key::section;
use judge::split::WalkForward;

section! {
    /// How time is cut into folds.
    SplitSettings at split, "split.";

    /// Test blocks of the walk forward; auto is 8, or 5 or 3 where the data are short.
    folds: Option<usize> = None, whole(1..=1000).or_auto().flag("folds", "N");
    /// Share of the time, at its end, that the test blocks cover.
    tested: f64 = WalkForward::default().tested, number(0.01..=0.95);
    /// Share of the time before each test block that is for validation.
    validation: f64 = WalkForward::default().validation, number(0.01..=0.5);
    /// Share of the time, at the very end, that is held out and locked.
    holdout: f64 = WalkForward::default().holdout, number(0.0..=0.5);
    /// Share of the time that training looks back; auto goes back to the beginning.
    rolling: Option<f64> = None, number(0.05..=1.0).or_auto();
    /// Times of the clock kept free between the last label that any fold saw and the holdout (0 without a holdout);
    /// auto is 0: in a walk forward nothing after a test block is trained on, and the purge is enough.
    embargo: Option<usize> = None, whole(0..=usize::MAX).or_auto();
}

impl SplitSettings {
    /// Share of the time that the first fold trains on, or a little less: rows at the end that have no label yet, and
    /// those that are purged, take about two hundredths. Whoever splits holds it against the true one.
    pub fn first(&self) -> f64 {
        (1.0 - self.holdout - 0.02).max(0.0) * (1.0 - self.tested) * (1.0 - self.validation)
    }
}
