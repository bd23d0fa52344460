//! What the kernels of `reference.cu` and `honest.cu` take. What a field is, is said there.

use compute::arguments;
use compute::cuda::Array;

arguments! {
    #[derive(Clone)]
    pub(super) struct Trees in "tree.cuh" {
        pub(super) memory: Option<Array<u32>>,
        pub(super) sequences: Array<u32>,
        pub(super) gumbels: Array<f32>,
        pub(super) visits: Array<u32>,
        pub(super) q: Array<f32>,
        pub(super) policy: Array<f32>,
        pub(super) value: Array<f32>,
        pub(super) chosen: Array<u32>,
        pub(super) stride: u32,
        pub(super) roots: u32,
        pub(super) actions: u32,
        pub(super) codes: u32,
        pub(super) simulations: u32,
        pub(super) depth: u32,
        pub(super) rule: u32,
        pub(super) considered: u32,
        pub(super) init: f32,
        pub(super) base: f32,
    }
}

arguments! {
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct SearchLayer in "net.cuh" {
        pub(super) packed: u32,
        pub(super) bias: u32,
        pub(super) steps: u32,
        pub(super) tiles: u32,
        pub(super) act: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct SearchNet in "net.cuh" {
        pub(super) packed: Array<u32>,
        pub(super) biases: Array<f32>,
        pub(super) layers: u32,
        pub(super) wide: u32,
        pub(super) layer: [SearchLayer; 5],
    }
}

arguments! {
    #[derive(Debug, Clone, Copy, Default)]
    pub(super) struct PackLayer in "net.cuh" {
        pub(super) weight: u32,
        pub(super) bias: u32,
        pub(super) stride: u32,
        pub(super) inputs: u32,
        pub(super) outputs: u32,
        pub(super) second_weight: u32,
        pub(super) second_bias: u32,
        pub(super) second_stride: u32,
        pub(super) second_inputs: u32,
        pub(super) second_shift: u32,
        pub(super) second: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Pack in "net.cuh" {
        pub(super) params: Array<f32>,
        pub(super) columns: Array<u32>,
        pub(super) packed: Array<u32>,
        pub(super) biases: Array<f32>,
        pub(super) layers: u32,
        pub(super) layer: [SearchLayer; 5],
        pub(super) from: [PackLayer; 5],
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct LinearRows in "worlds.cuh" {
        pub(super) roots: Array<f32>,
        pub(super) rows: Array<f32>,
        pub(super) inputs: u32,
        pub(super) nodes: u32,
        pub(super) shrink: f32,
        pub(super) push: f32,
        pub(super) discount: f32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct TableRows in "worlds.cuh" {
        pub(super) roots: Array<u32>,
        pub(super) logits: Array<f32>,
        pub(super) value: Array<f32>,
        pub(super) reward: Array<f32>,
        pub(super) discount: Array<f32>,
        pub(super) next: Array<u32>,
        pub(super) probability: Array<f32>,
        pub(super) afterstate: Array<f32>,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct SmallSearch in "reference.cu" {
        pub(super) trees: Trees,
        pub(super) net: SearchNet,
        pub(super) world: LinearRows,
        pub(super) each: u32,
        pub(super) weights_inside: u32,
        pub(super) trees_inside: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct WideRound in "reference.cu" {
        pub(super) trees: Trees,
        pub(super) world: LinearRows,
        pub(super) shown: Array<f32>,
        pub(super) logits: Array<f32>,
        pub(super) values: Array<f32>,
        pub(super) leaves: Array<u32>,
        pub(super) each: u32,
        pub(super) round: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct TableSearch in "reference.cu" {
        pub(super) trees: Trees,
        pub(super) world: TableRows,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Models in "honest.cuh" {
        pub(super) models: Array<u32>,
        pub(super) bars: Array<f64>,
        pub(super) observations: Array<f32>,
        pub(super) times: Array<f32>,
        pub(super) clocks: Array<u32>,
        pub(super) keys: Array<f32>,
        pub(super) members: Array<u32>,
        pub(super) starts: Array<u32>,
        pub(super) reached: Array<u32>,
        pub(super) features: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Honest in "honest.cuh" {
        pub(super) models: Models,
        pub(super) numbers: Array<f64>,
        pub(super) floats: Array<f32>,
        pub(super) root_words: Array<u32>,
        pub(super) sequences: Array<u32>,
        pub(super) words: Array<u32>,
        pub(super) doubles: Array<f64>,
        pub(super) worths: Array<f32>,
        pub(super) found: Array<u32>,
        pub(super) word_stride: u32,
        pub(super) double_stride: u32,
        pub(super) roots: u32,
        pub(super) scenarios: u32,
        pub(super) codes: u32,
        pub(super) simulations: u32,
        pub(super) depth: u32,
        pub(super) rule: u32,
        pub(super) considered: u32,
        pub(super) init: f32,
        pub(super) base: f32,
        pub(super) discount: f32,
        pub(super) seed: u64,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct HonestSmall in "honest.cu" {
        pub(super) search: Honest,
        pub(super) net: SearchNet,
        pub(super) groups: Array<u32>,
        pub(super) own: Array<f32>,
        pub(super) words: u32,
        pub(super) biases: u32,
        pub(super) each: u32,
        pub(super) weights_inside: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct HonestRound in "honest.cu" {
        pub(super) search: Honest,
        pub(super) shown: Array<f32>,
        pub(super) logits: Array<f32>,
        pub(super) values: Array<f32>,
        pub(super) ends: Array<u32>,
        pub(super) each: u32,
        pub(super) round: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Probe in "honest.cu" {
        pub(super) models: Models,
        pub(super) to: Array<u32>,
        pub(super) model: u32,
        pub(super) row: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Plain in "honest.cu" {
        pub(super) shown: Array<f32>,
        pub(super) weights: Array<f32>,
        pub(super) logits: Array<f32>,
        pub(super) values: Array<f32>,
        pub(super) inputs: u32,
        pub(super) rows: u32,
    }
}
