//! `mlp`: the indicator net. Everything known at a bar as one row, through layers of 128 and 64.

use super::classifier::Classifier;
use features::InputLayout;

/// From this many symbols on it reads the market around each: fewer are no market to speak of.
const MARKET: usize = 20;

pub(super) const MLP: Classifier = Classifier {
    name: "mlp",
    layout: InputLayout::Row,
    features: |symbols| if symbols >= MARKET { "universe" } else { "full" },
    branch: |_| String::new(),
    trunk: "128-64",
};
