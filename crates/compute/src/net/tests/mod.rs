//! Tests of a net's text, layout and parameters.

mod layout;
mod params;
mod text;

use super::*;
use proptest::prelude::*;

/// Any net that passes `check`: up to three inputs, three layers a chain and three heads.
pub(crate) fn any_net() -> impl Strategy<Value = Net> {
    let activation = prop_oneof![Just(Activation::Relu), Just(Activation::Tanh), Just(Activation::Identity)];
    let dropout = || prop_oneof![Just(0u8), 1..100u8];
    let layer = (1..40usize, activation, any::<bool>(), dropout())
        .prop_map(|(width, activation, norm, dropout)| Layer { width, activation, norm, dropout });
    let layers = prop::collection::vec(layer, 0..4);
    let recurrent = prop_oneof![Just((vec![], 0)), (prop::collection::vec(1..40usize, 1..4), dropout())];
    let branch = (1..20usize, 1..4usize, recurrent, layers.clone());
    let heads = prop::collection::vec(2..12usize, 1..4);
    (prop::collection::vec(branch, 1..4), layers, heads, any::<bool>()).prop_map(|(branches, trunk, heads, usual)| {
        // The usual names or others, so that both the short and the full form are met.
        let name = |i: usize, usual_name: &str, letter: &str| {
            if usual && i == 0 { usual_name.to_string() } else { format!("{letter}_{i}") }
        };
        Net {
            inputs: branches
                .iter()
                .enumerate()
                .map(|(i, (features, window, ..))| Input {
                    name: name(i, "rows", "in"),
                    features: *features,
                    window: *window,
                })
                .collect(),
            branches: branches
                .into_iter()
                .map(|(_, _, (recurrent, dropout), layers)| Branch { recurrent, dropout, layers })
                .collect(),
            trunk,
            heads: heads
                .into_iter()
                .enumerate()
                .map(|(i, classes)| Head { name: name(i, "class", "out"), classes })
                .collect(),
        }
    })
}
