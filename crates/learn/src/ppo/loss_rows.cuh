// What a warp reads of sixteen rows of a rollout: how columns of the table are scaled, and what the losses want.
// For `ppo_warp.cu` and `ppo_hopper.cu`.
#pragma once

#include "../../../compute/src/population/warp_mlp.cuh"
#include "policy_net.cuh"

// How columns of the table are scaled, in shared memory: what is subtracted, then what is multiplied with, up to 128 of
// each. Columns that are not there become zeros.
constexpr u32 SCALED = 128;

__device__ __forceinline__ u32 load_scales(const PolicyNet& net, u32 p, u32& at) {
    const u32 scales = at;
    at += 2 * SCALED * 4;
    for (u32 i = threadIdx.x; i < 2 * SCALED; i += blockDim.x) {
        const View<const f32>& from = i < SCALED ? net.mean : net.inverse;
        const u32 column = i % SCALED;
        float scale = i < SCALED ? 0.0f : 1.0f;
        if (from && column < net.features) scale = from.data[(u64)p * net.features + column];
        put_word<0>(scales + i * 4, column < net.features ? __float_as_uint(scale) : 0);
    }
    return scales;
}

// Asks for a row of the table before it is needed.
__device__ __forceinline__ void fetch_ahead(const PolicyNet& net, u32 row) {
    const u32 lane = threadIdx.x % 32;
    const float* from = net.table.data + (u64)row * net.stride;
    for (u32 at = lane / 16 * 32; at < net.features; at += 64) asm volatile("prefetch.global.L2 [%0];\n" ::"l"(from + at));
}

__device__ __forceinline__ void load_shown(f32 (&to)[OBSERVED], const View<const f32>& from, u64 row) {
    const float4* at = reinterpret_cast<const float4*>(&from[row * OBSERVED]);
    const float4 low = at[0], high = at[1];
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

// A lane's row of a tile, as the losses want it.
struct LossRow {
    f32 observed[OBSERVED];
    f32 advantage;
    f32 action; // of the value's tower the value as it was
    f32 log_probability;
    u32 legal;

    __device__ __forceinline__ LossRow(const Rollout& seen, u32 tower, u64 from) {
        load_shown(observed, {seen.observed.data, seen.observed.len}, from);
        advantage = seen.advantage.data[from];
        action = tower == 0 ? seen.action.data[from] : seen.value.data[from];
        log_probability = tower == 0 ? seen.log_probability.data[from] : 0.0f;
        legal = tower == 0 ? seen.legal.data[from] : 0;
    }
};

// Asks for what the next tile reads: a row of the rollout and of the table for each lane's row.
__device__ __forceinline__ void fetch_next(const SmallMinibatch& given, u32 tower, u64 from, u32 id) {
    fetch_ahead(given.net, table_row(given.net, id));
    const bool low = threadIdx.x % 32 < MLP_ROWS;
    const f32* first = low ? given.seen.observed.data + from * OBSERVED : given.seen.advantage.data + from;
    const f32* second = tower == 1 ? given.seen.value.data + from : low ? given.seen.action.data + from : given.seen.log_probability.data + from;
    asm volatile("prefetch.global.L2 [%0];\n" ::"l"(first));
    asm volatile("prefetch.global.L2 [%0];\n" ::"l"(second));
}

// What the losses of a minibatch go by, in shared memory.
struct LossTerms {
    f32 centre[2];
    f32 clip, entropy_weight, clip_value, value_weight;
};
