//! `lstm`: the two-timeframe classifier. An LSTM of 64 over the fast window, one of 24 over the slow one, the strategy
//! row beside them, a layer of 16: about 26,000 parameters with the preset's columns.

use super::classifier::Classifier;
use features::InputLayout;

pub(super) const LSTM: Classifier = Classifier {
    name: "lstm",
    layout: InputLayout::Windows,
    features: |_| "two_timeframe",
    branch: |units| format!("-lstm{units}"),
    trunk: "16",
};
