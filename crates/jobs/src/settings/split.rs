//! How time is cut into folds. The defaults are the splitter's own ([`judge::split::WalkForward`]).

use super::form::{choice, number, whole};
use super::key::section;
use judge::split::WalkForward;

section! {
    /// How time is cut into folds.
    SplitSettings at split, "split.";

    /// How time is cut; walk trains on all that lies before a test block, rolling on the nearest part of it; kfold and
    /// cpcv train on both sides of what they test and only judge a recipe: no model comes out.
    kind: SplitKind = SplitKind::Walk, choice(SplitKind::NAMES).flag("split", "KIND");
    /// Test blocks of walk, rolling and kfold; auto is 8, or 5 or 3 where the data are short.
    folds: Option<usize> = None, whole(1..=1000).or_auto().flag("folds", "N");
    /// Share of the time, at its end, that the test blocks cover.
    tested: f64 = WalkForward::default().tested, number(0.01..=0.95);
    /// Share of the time before each test block that is for validation.
    validation: f64 = WalkForward::default().validation, number(0.01..=0.5);
    /// Share of the time, at the very end, that is held out and locked.
    holdout: f64 = WalkForward::default().holdout, number(0.0..=0.5);
    /// Share of the time that training looks back; auto goes back to the beginning, and with a rolling split as far as
    /// the first fold does.
    rolling: Option<f64> = None, number(0.05..=1.0).or_auto();
    /// One fold whose test is the last of so many trading days before the holdout, instead of several folds; auto is
    /// several.
    test_days: Option<usize> = None, whole(1..=100_000).or_auto().flag("test-days", "N");
    /// Parts of the time in cpcv.
    groups: usize = 6, whole(2..=20);
    /// Parts that each fold of cpcv tests; every choice of them is a fold.
    test_groups: usize = 2, whole(1..=19);
    /// Times of the clock kept free between the last label that any fold saw and the holdout (0 without a holdout);
    /// auto is 0: in a walk forward nothing after a test block is trained on, and the purge is enough. Behind the test
    /// blocks of kfold and cpcv at least the longest label and a hundredth of the time are kept free.
    embargo: Option<usize> = None, whole(0..=usize::MAX).or_auto();
}

/// How time is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitKind {
    /// Forward, with all history.
    Walk,
    /// Forward, with the nearest history.
    Rolling,
    /// One part after the other is tested, training on all others.
    KFold,
    /// Every choice of some parts is tested, training on all others.
    Cpcv,
}

impl SplitKind {
    /// All of them with their names.
    pub const NAMES: &'static [(&'static str, SplitKind)] = &[
        ("walk", SplitKind::Walk),
        ("rolling", SplitKind::Rolling),
        ("kfold", SplitKind::KFold),
        ("cpcv", SplitKind::Cpcv),
    ];

    /// Whether training lies on both sides of a test.
    pub(crate) fn is_around(self) -> bool {
        matches!(self, SplitKind::KFold | SplitKind::Cpcv)
    }
}

impl SplitSettings {
    /// Share of the time that the first fold trains on, or a little less: rows at the end that have no label yet, and
    /// those that are purged, take about two hundredths. Whoever splits holds it against the true one.
    pub fn first(&self) -> f64 {
        (1.0 - self.holdout - 0.02).max(0.0) * (1.0 - self.tested) * (1.0 - self.validation)
    }
}
