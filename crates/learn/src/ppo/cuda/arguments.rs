//! What the kernels of the `.cu` files beside this folder take. What a field is, is said there.

use compute::arguments;
use compute::cuda::Array;

arguments! {
    #[derive(Clone)]
    pub(crate) struct EpisodeTable in "../../../../market/src/episode.cuh" {
        pub(super) bars: Array<f64>,
        pub(super) params: Array<f64>,
        pub(super) offsets: Array<u32>,
        pub(super) time_of_day: Array<f32>,
        pub(super) log_to_close: Array<f32>,
        pub(super) stretch_from: Array<u32>,
        pub(super) stretch_to: Array<u32>,
        pub(super) starts: Array<u64>,
        pub(super) folds: Array<u32>,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Members in "../rollout.cuh" {
        pub(super) id: Array<u32>,
        pub(super) fold: Array<u32>,
        pub(super) unit: Array<u32>,
        pub(super) seed: Array<u64>,
        pub(super) gamma: Array<f32>,
        pub(super) lambda: Array<f32>,
        pub(super) clip: Array<f32>,
        pub(super) clip_value: Array<f32>,
        pub(super) value_weight: Array<f32>,
        pub(super) target_kl: Array<f32>,
        pub(super) entropy_weight: Array<f32>,
        pub(super) reward_weight: Array<f32>,
        pub(super) reward: Array<u32>,
        pub(super) normalise: Array<u32>,
        pub(super) draws: u64,
        pub(super) actions: u32,
        pub(super) outputs: u32,
        pub(super) episode: u32,
        pub(super) accounts: u32,
        pub(super) steps: u32,
        pub(super) epochs: u32,
        pub(super) batch: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Standing in "../rollout.cuh" {
        pub(super) state: Array<f64>,
        pub(super) memory: Array<f64>,
        pub(super) grown: Array<f64>,
        pub(super) place: Array<u32>,
        pub(super) observed: Array<f32>,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Rollout in "../rollout.cuh" {
        pub(super) rows: Array<u32>,
        pub(super) observed: Array<f32>,
        pub(super) legal: Array<u8>,
        pub(super) ended: Array<u8>,
        pub(super) action: Array<f32>,
        pub(super) log_probability: Array<f32>,
        pub(super) value: Array<f32>,
        pub(super) reward: Array<f32>,
        pub(super) advantage: Array<f32>,
        pub(super) order: Array<u32>,
        pub(super) cuts: Array<u32>,
        pub(super) later_rows: Array<u32>,
        pub(super) later_observed: Array<f32>,
        pub(super) later_value: Array<f32>,
        pub(super) later: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Walkers in "../rollout.cuh" {
        pub(super) state: Array<f64>,
        pub(super) place: Array<u32>,
        pub(super) observed: Array<f32>,
        pub(super) equity: Array<f64>,
        pub(super) pieces: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct Act in "../ppo.cu" {
        pub(super) table: EpisodeTable,
        pub(super) members: Members,
        pub(super) standing: Standing,
        pub(super) seen: Rollout,
        pub(super) z: Array<f32>,
        pub(super) value: Option<Array<f32>>,
        pub(super) clock: Array<u32>,
        pub(super) offset: u32,
    }
}

arguments! {
    pub(super) struct Later in "../ppo.cu" {
        pub(super) members: Members,
        pub(super) standing: Standing,
        pub(super) seen: Rollout,
    }
}

arguments! {
    pub(super) struct Tick in "../ppo.cu" {
        pub(super) clock: Array<u32>,
        pub(super) steps: u32,
    }
}

arguments! {
    pub(super) struct Estimate in "../ppo.cu" {
        pub(super) members: Members,
        pub(super) standing: Standing,
        pub(super) seen: Rollout,
        pub(super) carried: Array<f64>,
        pub(super) partial: Array<f64>,
        pub(super) returns: Array<f64>,
        pub(super) scale: Array<f32>,
        pub(super) totals: Array<f64>,
    }
}

arguments! {
    pub(super) struct Moments in "../ppo.cu" {
        pub(super) members: Members,
        pub(super) advantage: Array<f32>,
        pub(super) order: Array<u32>,
        pub(super) partial: Array<f64>,
        pub(super) centre: Array<f32>,
        pub(super) per_epoch: u32,
    }
}

arguments! {
    pub(super) struct Choose in "../ppo.cu" {
        pub(super) members: Members,
        pub(super) seen: Rollout,
        pub(super) clock: Array<u32>,
        pub(super) ids: Array<u32>,
        pub(super) observed: Array<f32>,
        pub(super) places: Array<u32>,
        pub(super) per_epoch: u32,
    }
}

arguments! {
    pub(super) struct LossArgs in "../ppo.cu" {
        pub(super) members: Members,
        pub(super) seen: Rollout,
        pub(super) clock: Array<u32>,
        pub(super) places: Array<u32>,
        pub(super) centre: Array<f32>,
        pub(super) z: Array<f32>,
        pub(super) value: Array<f32>,
        pub(super) d_z: Array<f32>,
        pub(super) d_value: Array<f32>,
        pub(super) partial: Array<f64>,
        pub(super) per_epoch: u32,
    }
}

arguments! {
    pub(super) struct HeadPlace in "../ppo_heads.cu" {
        pub(super) input: Array<u16>,
        pub(super) d_input: Array<u16>,
        pub(super) gradient: Array<u16>,
        pub(super) input_sums: Array<f32>,
        pub(super) sums: Array<f32>,
        pub(super) inputs: u32,
        pub(super) outputs: u32,
        pub(super) weight: u32,
        pub(super) bias: u32,
        pub(super) act: u32,
    }
}

arguments! {
    pub(super) struct HeadLosses in "../ppo_heads.cu" {
        pub(super) members: Members,
        pub(super) seen: Rollout,
        pub(super) clock: Array<u32>,
        pub(super) places: Array<u32>,
        pub(super) centre: Array<f32>,
        pub(super) z: Array<f32>,
        pub(super) value: Array<f32>,
        pub(super) d_z: Array<f32>,
        pub(super) d_value: Array<f32>,
        pub(super) partial: Array<f64>,
        pub(super) master: Array<f32>,
        pub(super) copy: Array<u16>,
        pub(super) heads: [HeadPlace; 2],
        pub(super) params: u64,
        pub(super) per_epoch: u32,
        pub(super) slice: u32,
    }
}

arguments! {
    pub(super) struct Decide in "../decide.cuh" {
        pub(super) members: Members,
        pub(super) partial: Array<f64>,
        pub(super) norms: Array<f32>,
        pub(super) totals: Array<f64>,
        pub(super) goes: Array<u32>,
        pub(super) clock: Array<u32>,
        pub(super) blocks: u32,
    }
}

arguments! {
    pub(super) struct Walk in "../ppo.cu" {
        pub(super) table: EpisodeTable,
        pub(super) walkers: Walkers,
        pub(super) z: Array<f32>,
        pub(super) actions: u32,
        pub(super) outputs: u32,
    }
}

arguments! {
    pub(super) struct Report in "../ppo.cu" {
        pub(super) words: Array<u32>,
        pub(super) unit: Array<u32>,
        pub(super) goes: Array<u32>,
        pub(super) entropy_weight: Array<f32>,
        pub(super) rate: Array<f32>,
        pub(super) norms: Array<f32>,
        pub(super) totals: Array<f64>,
        pub(super) returns: Array<f64>,
        pub(super) report: Array<f64>,
        pub(super) clock: Array<u32>,
    }
}

arguments! {
    #[derive(Clone, Copy, Default)]
    pub(super) struct PolicyLayer in "../policy_net.cuh" {
        pub(super) weight: u32,
        pub(super) bias: u32,
        pub(super) inputs: u32,
        pub(super) outputs: u32,
        pub(super) act: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct PolicyNet in "../policy_net.cuh" {
        pub(super) master: Array<f32>,
        pub(super) copy: Array<u16>,
        pub(super) table: Array<f32>,
        pub(super) map: Option<Array<u32>>,
        pub(super) mean: Option<Array<f32>>,
        pub(super) inverse: Option<Array<f32>>,
        pub(super) params: u64,
        pub(super) stride: u32,
        pub(super) features: u32,
        pub(super) column: u32,
        pub(super) hidden: [u32; 2],
        pub(super) layers: [PolicyLayer; 8],
    }
}

arguments! {
    pub(super) struct SmallRollout in "../policy_net.cuh" {
        pub(super) table: EpisodeTable,
        pub(super) members: Members,
        pub(super) standing: Standing,
        pub(super) seen: Rollout,
        pub(super) net: PolicyNet,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct WideRollout in "../ppo_wide.cu" {
        pub(super) table: EpisodeTable,
        pub(super) members: Members,
        pub(super) standing: Standing,
        pub(super) seen: Rollout,
        pub(super) net: PolicyNet,
        pub(super) exchange: Array<u32>,
        pub(super) first: u32,
        pub(super) groups: u32,
        pub(super) blocks: u32,
        pub(super) tiles: u32,
    }
}

arguments! {
    pub(super) struct SmallWalk in "../ppo_small.cu" {
        pub(super) table: EpisodeTable,
        pub(super) walkers: Walkers,
        pub(super) net: PolicyNet,
        pub(super) actions: u32,
        pub(super) steps: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct SmallValues in "../policy_net.cuh" {
        pub(super) net: PolicyNet,
        pub(super) rows: Array<u32>,
        pub(super) observed: Array<f32>,
        pub(super) value: Array<f32>,
        pub(super) count: u32,
    }
}

arguments! {
    #[derive(Clone)]
    pub(super) struct SmallMinibatch in "../policy_net.cuh" {
        pub(super) members: Members,
        pub(super) seen: Rollout,
        pub(super) net: PolicyNet,
        pub(super) clock: Array<u32>,
        pub(super) goes: Array<u32>,
        pub(super) centre: Array<f32>,
        pub(super) parts: Array<f32>,
        pub(super) partial: Array<f64>,
        pub(super) per_epoch: u32,
        pub(super) slice: u32,
    }
}

arguments! {
    pub(super) struct ScaleRows in "../ppo_hopper.cu" {
        pub(super) net: PolicyNet,
        pub(super) scaled: Array<u16>,
        pub(super) member: u32,
        pub(super) scale: u32,
        pub(super) rows: u32,
    }
}

arguments! {
    pub(super) struct HopperMinibatch in "../ppo_hopper.cu" {
        pub(super) of: SmallMinibatch,
        pub(super) scaled: Array<u16>,
        pub(super) scale_of: Array<u32>,
        pub(super) rows: u32,
        pub(super) slices: u32,
        pub(super) each: u32,
    }
}

arguments! {
    pub(super) struct HopperValues in "../ppo_hopper.cu" {
        pub(super) of: SmallValues,
        pub(super) scaled: Array<u16>,
        pub(super) scale_of: Array<u32>,
        pub(super) rows: u32,
    }
}

arguments! {
    pub(super) struct AddParts in "../ppo_small.cu" {
        pub(super) parts: Array<f32>,
        pub(super) gradient: Array<f32>,
        pub(super) goes: Array<u32>,
        pub(super) decide: Decide,
        pub(super) params: u64,
        pub(super) slices: u32,
    }
}

arguments! {
    pub(super) struct Remember in "../ppo_memory.cu" {
        pub(super) members: Members,
        pub(super) seen: Rollout,
        pub(super) segments: Array<u32>,
        pub(super) states: Array<f32>,
        pub(super) cut_states: Array<f32>,
        pub(super) clock: Array<u32>,
        pub(super) offset: u32,
        pub(super) count: u32,
    }
}

arguments! {
    pub(super) struct AccountMoments in "../ppo_memory.cu" {
        pub(super) members: Members,
        pub(super) advantage: Array<f32>,
        pub(super) order: Array<u32>,
        pub(super) partial: Array<f64>,
        pub(super) per_epoch: u32,
        pub(super) accounts: u32,
    }
}

arguments! {
    pub(super) struct ChooseAccounts in "../ppo_memory.cu" {
        pub(super) members: Members,
        pub(super) seen: Rollout,
        pub(super) clock: Array<u32>,
        pub(super) ids: Array<u32>,
        pub(super) observed: Array<f32>,
        pub(super) places: Array<u32>,
        pub(super) reset: Array<u8>,
        pub(super) per_epoch: u32,
        pub(super) accounts: u32,
    }
}

arguments! {
    pub(super) struct ChooseStates in "../ppo_memory.cu" {
        pub(super) members: Members,
        pub(super) order: Array<u32>,
        pub(super) clock: Array<u32>,
        pub(super) segments: Array<u32>,
        pub(super) began: Array<f32>,
        pub(super) states: Array<f32>,
        pub(super) per_epoch: u32,
        pub(super) accounts: u32,
        pub(super) count: u32,
    }
}

arguments! {
    pub(super) struct LaterSlot in "../ppo_memory.cu" {
        pub(super) seen: Rollout,
        pub(super) ids: Array<u32>,
        pub(super) observed: Array<f32>,
        pub(super) value: Array<f32>,
        pub(super) accounts: u32,
        pub(super) slot: u32,
    }
}
