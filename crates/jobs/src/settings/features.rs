//! What is computed from the bars.

use super::form::{number, text, whole};
use super::key::section;

section! {
    /// What is computed from the bars.
    FeatureSettings at features, "features.";

    /// What is computed from the bars; auto is the verb's or the learner's own set.
    set: String = "auto".into(),
        text("a preset (basic, full, universe, two_timeframe), a file, features as in rsi(14), ema(20), or auto")
            .flag("features", "SET");
    /// How far a value may still depend on where the data begin, in standard deviations of its column, for its row to
    /// be used; a larger value makes warm-up shorter.
    settle: f64 = ::features::SETTLE, number(1e-9..=0.1);
    /// The longest hole that indicators step over, in bars; auto goes by the timeframe.
    max_hole: Option<usize> = None, whole(0..=usize::MAX).or_auto();
}

impl FeatureSettings {
    /// The set that was chosen, or the verb's own.
    pub fn or(&self, own: &str) -> String {
        if self.set == "auto" { own.to_string() } else { self.set.clone() }
    }
}
