//! The structs that the kernels of a population take, as `population.cu`, `backward.cu` and `optimiser.cuh` declare
//! them. What a field is, is said there.

use crate::arguments;
use crate::cuda::arguments::Address;
use crate::cuda::memory::Slice;
use crate::population::{EpochState, SlotState};

arguments! {
    /// The optimiser and the schedule.
    pub(in crate::cuda) struct Optimiser in "../../population/optimiser.cuh" {
        pub(super) rule: u32,
        pub(super) beta1: f32,
        pub(super) beta2: f32,
        pub(super) eps: f32,
        pub(super) decay: f32,
        pub(super) clip: f32,
        pub(super) shape: u32,
        pub(super) warmup: f32,
        pub(super) floor: f32,
        pub(super) memory: f32,
    }
}

arguments! {
    /// Of `gather`.
    pub(super) struct GatherArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) epochs: Option<Slice<EpochState>>,
        pub(super) seed: u64,
        pub(super) lists: Slice<u32>,
        pub(super) rows: Slice<u32>,
        pub(super) live: Slice<f32>,
        pub(super) table: Slice<f32>,
        pub(super) stride: u64,
        pub(super) map: Option<Slice<u32>>,
        pub(super) mean: Option<Slice<f32>>,
        pub(super) inverse: Option<Slice<f32>>,
        pub(super) out: Address,
        pub(super) out_stride: u64,
        pub(super) out_member: u64,
        pub(super) valid_list: Slice<u32>,
        pub(super) valid_count: Slice<u32>,
        pub(super) chunk: Slice<u32>,
        pub(super) batch: u32,
        pub(super) mode: u32,
        pub(super) choose: u32,
        pub(super) features: u32,
        pub(super) window: u32,
        pub(super) padded: u32,
    }
}

arguments! {
    /// Of `loss`.
    pub(super) struct LossArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) rows: Slice<u32>,
        pub(super) live: Slice<f32>,
        pub(super) labels: Slice<u8>,
        pub(super) weights: Option<Slice<f32>>,
        pub(super) class_weights: Option<Slice<f32>>,
        pub(super) logits: Slice<f32>,
        pub(super) bias: Address,
        pub(super) bias_member: u64,
        pub(super) gradient: Address,
        pub(super) partial: Slice<f64>,
        pub(super) bias_partial: Slice<f32>,
        pub(super) confusion: Option<Slice<u64>>,
        pub(super) batch: u32,
        pub(super) mode: u32,
        pub(super) slice: u32,
        pub(super) head: u32,
        pub(super) heads: u32,
        pub(super) classes: u32,
        pub(super) padded: u32,
        pub(super) smoothing: f32,
    }
}

arguments! {
    /// Of `head`.
    pub(super) struct HeadArgs in "../../population/backward.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) rows: Slice<u32>,
        pub(super) live: Slice<f32>,
        pub(super) labels: Slice<u8>,
        pub(super) weights: Option<Slice<f32>>,
        pub(super) class_weights: Option<Slice<f32>>,
        pub(super) h: Address,
        pub(super) h_stride: u64,
        pub(super) h_member: u64,
        pub(super) w: Address,
        pub(super) w_stride: u64,
        pub(super) w_member: u64,
        pub(super) bias: Address,
        pub(super) bias_member: u64,
        pub(super) gradient: Address,
        pub(super) dh: Address,
        pub(super) partial: Option<Slice<f64>>,
        pub(super) bias_partial: Slice<f32>,
        pub(super) column_partial: Slice<f32>,
        pub(super) confusion: Option<Slice<u64>>,
        pub(super) logits: Address,
        pub(super) batch: u32,
        pub(super) mode: u32,
        pub(super) slice: u32,
        pub(super) width: u32,
        pub(super) classes: u32,
        pub(super) padded: u32,
        pub(super) act: u32,
        pub(super) smoothing: f32,
    }
}

arguments! {
    /// Of `sum_partials`.
    pub(super) struct SumArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) partial: Address,
        pub(super) n: u64,
        pub(super) out: Address,
        pub(super) out_member: u64,
        pub(super) mode: u32,
        pub(super) blocks: u32,
    }
}

arguments! {
    /// Of `activate`.
    pub(super) struct ActivateArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) z: Address,
        pub(super) z_stride: u64,
        pub(super) z_member: u64,
        pub(super) bias: Address,
        pub(super) bias_member: u64,
        pub(super) y: Address,
        pub(super) y_stride: u64,
        pub(super) y_member: u64,
        pub(super) mode: u32,
        pub(super) act: u32,
        pub(super) batch: u32,
        pub(super) width: u32,
    }
}

arguments! {
    /// Of `derive`.
    pub(super) struct DeriveArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) dy: Address,
        pub(super) dy_stride: u64,
        pub(super) dy_member: u64,
        pub(super) y: Address,
        pub(super) y_stride: u64,
        pub(super) y_member: u64,
        pub(super) dz: Address,
        pub(super) dz_stride: u64,
        pub(super) dz_member: u64,
        pub(super) mode: u32,
        pub(super) act: u32,
        pub(super) batch: u32,
        pub(super) width: u32,
    }
}

arguments! {
    /// Of `derive_sum`.
    pub(super) struct DeriveSumArgs in "../../population/backward.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) dz: Address,
        pub(super) y: Address,
        pub(super) stride: u64,
        pub(super) member: u64,
        pub(super) partial: Slice<f32>,
        pub(super) mode: u32,
        pub(super) act: u32,
        pub(super) batch: u32,
        pub(super) slice: u32,
        pub(super) width: u32,
    }
}

arguments! {
    /// Of `column_sum`.
    pub(super) struct ColumnArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) dz: Address,
        pub(super) stride: u64,
        pub(super) member: u64,
        pub(super) partial: Slice<f32>,
        pub(super) mode: u32,
        pub(super) batch: u32,
        pub(super) slice: u32,
        pub(super) width: u32,
    }
}

arguments! {
    /// Of `advance`.
    pub(super) struct AdvanceArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) epochs: Option<Slice<EpochState>>,
        pub(super) grads: Slice<f32>,
        pub(super) params: u64,
        pub(super) norm_partial: Slice<f64>,
        pub(super) loss_partial: Slice<f64>,
        pub(super) arrived: Slice<u32>,
        pub(super) orders: Address,
        pub(super) o: Optimiser,
        pub(super) batch: u32,
        pub(super) loss_blocks: u32,
    }
}

arguments! {
    /// Of `add_parts`.
    pub(super) struct AddPartsArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) epochs: Option<Slice<EpochState>>,
        pub(super) grads: Slice<f32>,
        pub(super) params: u64,
        pub(super) parts: Slice<f32>,
        pub(super) norm_partial: Slice<f64>,
        pub(super) loss_partial: Slice<f64>,
        pub(super) arrived: Slice<u32>,
        pub(super) orders: Address,
        pub(super) o: Optimiser,
        pub(super) batch: u32,
        pub(super) count: u32,
        pub(super) loss_blocks: u32,
    }
}

arguments! {
    /// Of `choose_part`.
    pub(super) struct ChoosePartArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) epochs: Option<Slice<EpochState>>,
        pub(super) seed: u64,
        pub(super) begin: Slice<u32>,
        pub(super) lists: Slice<u32>,
        pub(super) rows: Slice<u32>,
        pub(super) live: Slice<f32>,
        pub(super) batch: u32,
        pub(super) part: u32,
    }
}

arguments! {
    /// Of `add_part`.
    pub(super) struct AddPartArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) begin: Slice<u32>,
        pub(super) sum: Slice<f32>,
        pub(super) grads: Slice<f32>,
        pub(super) params: u64,
        pub(super) loss_partial: Slice<f64>,
        pub(super) loss_sum: Slice<f64>,
        pub(super) batch: u32,
        pub(super) part: u32,
        pub(super) loss_blocks: u32,
    }
}

arguments! {
    /// Of `next_part`.
    pub(super) struct NextPartArgs in "../../population/population.cu" {
        pub(super) begin: Slice<u32>,
        pub(super) batch: u32,
        pub(super) part: u32,
    }
}

arguments! {
    /// Of `optimise`.
    pub(super) struct OptimiseArgs in "../../population/population.cu" {
        pub(super) params: u64,
        pub(super) orders: Address,
        pub(super) grads: Slice<f32>,
        pub(super) master: Slice<f32>,
        pub(super) mean: Slice<f32>,
        pub(super) square: Slice<f32>,
        pub(super) copy: Option<Slice<u16>>,
        pub(super) average: Option<Slice<f32>>,
        pub(super) o: Optimiser,
    }
}

arguments! {
    /// Of `score_sum`.
    pub(super) struct ScoreSumArgs in "../../population/population.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) loss_partial: Slice<f64>,
        pub(super) sums: Slice<f64>,
        pub(super) chunk: Slice<u32>,
        pub(super) loss_blocks: u32,
    }
}

arguments! {
    /// Of `to_bf16`.
    pub(super) struct RoundArgs in "../../population/population.cu" {
        pub(super) from: Slice<f32>,
        pub(super) to: Slice<u16>,
        pub(super) n: u64,
    }
}

arguments! {
    /// Of `fill_random`.
    pub(in crate::cuda) struct FillArgs in "../../population/population.cu" {
        pub(in crate::cuda) out: Address,
        pub(in crate::cuda) n: u64,
        pub(in crate::cuda) seed: u64,
    }
}
