//! What the kernels of `evolve.cu` and `evolve_low_rank.cu` take. What a field is, is said there.

use crate::ppo::EpisodeTable;
use compute::arguments;
use compute::cuda::Array;

arguments! {
    #[derive(Clone)]
    pub(super) struct Searches in "../evolve.cuh" {
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
        pub(super) sides: u32,
        pub(super) individuals: u32,
        pub(super) blocks: u32,
        pub(super) accounts: u32,
        pub(super) steps: u32,
        pub(super) actions: u32,
        pub(super) outputs: u32,
        pub(super) features: u32,
        pub(super) column: u32,
        pub(super) hidden: [u32; 2],
        pub(super) act: [u32; 2],
        pub(super) rank: u32,
        pub(super) scale: f32,
        pub(super) seats: u32,
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
    pub(super) struct Trade in "../evolve.cuh" {
        pub(super) table: EpisodeTable,
        pub(super) search: Searches,
        pub(super) middle: Array<f32>,
        pub(super) deviation: Option<Array<f32>>,
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
        pub(super) of_rank: Option<Array<f64>>,
        pub(super) up_to: Option<Array<f64>>,
        pub(super) weights: Array<f32>,
        pub(super) alike: Array<u32>,
    }
}

arguments! {
    pub(super) struct Sum in "../evolve.cuh" {
        pub(super) search: Searches,
        pub(super) weights: Array<f32>,
        pub(super) parts: Array<f32>,
        pub(super) squares: Option<Array<f32>>,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Arrivals in "../evolve.cu" {
        pub(super) lengths: Array<f64>,
        pub(super) count: Array<u32>,
    }
}

arguments! {
    pub(super) struct Climb in "../evolve.cu" {
        pub(super) search: Searches,
        pub(super) arrivals: Arrivals,
        pub(super) parts: Array<f32>,
        pub(super) rates: Array<f32>,
        pub(super) middle: Array<f32>,
        pub(super) first: Array<f32>,
        pub(super) second: Array<f32>,
        pub(super) numbers: Array<f64>,
        pub(super) report: Array<f64>,
        pub(super) slices: u32,
        pub(super) beta1: f32,
        pub(super) beta2: f32,
        pub(super) eps: f32,
        pub(super) decay: f32,
    }
}

arguments! {
    pub(super) struct Spread in "../evolve.cu" {
        pub(super) search: Searches,
        pub(super) arrivals: Arrivals,
        pub(super) parts: Array<f32>,
        pub(super) squares: Array<f32>,
        pub(super) weights: Array<f32>,
        pub(super) alike: Array<u32>,
        pub(super) sums: Array<f32>,
        pub(super) paths: Array<f64>,
        pub(super) total: Array<f32>,
        pub(super) middle: Array<f32>,
        pub(super) deviation: Array<f32>,
        pub(super) variance: Option<Array<f32>>,
        pub(super) path: Option<Array<f32>>,
        pub(super) sigma_path: Option<Array<f32>>,
        pub(super) numbers: Array<f64>,
        pub(super) report: Array<f64>,
        pub(super) slices: u32,
        pub(super) algorithm: u32,
        pub(super) effective: f64,
        pub(super) path_rate: f64,
        pub(super) rank_one: f64,
        pub(super) rank_many: f64,
        pub(super) sigma_rate: f64,
        pub(super) damping: f64,
        pub(super) length: f64,
        pub(super) rate: f32,
    }
}
