//! What the kernels of `evolve.cu` take. What a field is, is said there.

use crate::ppo::EpisodeTable;
use compute::arguments;
use compute::cuda::Array;

arguments! {
    #[derive(Clone)]
    pub(super) struct Searches in "../evolve.cu" {
        pub(super) id: Array<u32>,
        pub(super) fold: Array<u32>,
        pub(super) unit: Array<u32>,
        pub(super) active: Array<u32>,
        pub(super) sigma: Array<f32>,
        pub(super) fitness: Array<u32>,
        pub(super) penalty: Array<f32>,
        pub(super) seed: u64,
        pub(super) parameters: u32,
        pub(super) padded: u32,
        pub(super) draws: u32,
        pub(super) accounts: u32,
        pub(super) steps: u32,
        pub(super) actions: u32,
        pub(super) outputs: u32,
        pub(super) features: u32,
        pub(super) column: u32,
        pub(super) act: [u32; 2],
    }
}

arguments! {
    pub(super) struct Look in "../evolve.cu" {
        pub(super) table: EpisodeTable,
        pub(super) search: Searches,
        pub(super) rows: Array<f32>,
        pub(super) map: Option<Array<u32>>,
        pub(super) mean: Array<f32>,
        pub(super) inverse: Array<f32>,
        pub(super) spans: Array<u32>,
        pub(super) seen: Array<u16>,
        pub(super) stride: u32,
    }
}

arguments! {
    pub(super) struct Trade in "../evolve.cu" {
        pub(super) table: EpisodeTable,
        pub(super) search: Searches,
        pub(super) middle: Array<f32>,
        pub(super) spans: Array<u32>,
        pub(super) seen: Array<u16>,
        pub(super) tallies: Array<f64>,
        pub(super) fitness: Array<f64>,
        pub(super) asked: Option<Array<f32>>,
    }
}

arguments! {
    pub(super) struct Rank in "../evolve.cu" {
        pub(super) search: Searches,
        pub(super) fitness: Array<f64>,
        pub(super) weights: Array<f32>,
    }
}

arguments! {
    pub(super) struct Sum in "../evolve.cu" {
        pub(super) search: Searches,
        pub(super) weights: Array<f32>,
        pub(super) parts: Array<f32>,
    }
}

arguments! {
    pub(super) struct Climb in "../evolve.cu" {
        pub(super) search: Searches,
        pub(super) parts: Array<f32>,
        pub(super) rates: Array<f32>,
        pub(super) middle: Array<f32>,
        pub(super) first: Array<f32>,
        pub(super) second: Array<f32>,
        pub(super) steps: Array<u32>,
        pub(super) report: Array<f64>,
        pub(super) slices: u32,
        pub(super) beta1: f32,
        pub(super) beta2: f32,
        pub(super) eps: f32,
        pub(super) decay: f32,
    }
}
