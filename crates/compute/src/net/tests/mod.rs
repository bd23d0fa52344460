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
    let heads = prop::collection::vec(1..12usize, 1..4);
    let kind = (any::<bool>(), any::<bool>(), any::<bool>());
    (prop::collection::vec(branch, 1..4), layers, heads, kind).prop_map(|(branches, trunk, heads, kind)| {
        let (usual, dense, split) = kind;
        // The usual names or others, so that both the short and the full form are met.
        let name = |i: usize, usual_name: &str, letter: &str| {
            if usual && i == 0 { usual_name.to_string() } else { format!("{letter}_{i}") }
        };
        let mut net = Net {
            inputs: branches
                .iter()
                .enumerate()
                .map(|(i, (features, window, ..))| Input::new(&name(i, "rows", "in"), *features, *window))
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
            towers: vec![],
        };
        let last = net.inputs.len() - 1;
        if dense && net.branches[last].recurrent.is_empty() {
            net.inputs[last] = Input::dense(&net.inputs[last].name, net.inputs[last].features);
        }
        if split && net.heads.len() > 1 {
            let reads = vec![net.inputs[0].name.clone()];
            let layers = std::mem::take(&mut net.trunk);
            let others = net.heads.len() - 1;
            net.towers = vec![
                Tower { reads, layers, heads: 1, ..Tower::default() },
                Tower { heads: others, ..Tower::default() },
            ];
        }
        net
    })
}
