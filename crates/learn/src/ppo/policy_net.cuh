// A policy's net, as kernels of whole phases take it (`ppo_small.cu`, `ppo_warp.cu`, `ppo_wide.cu`): layers of two
// towers in the arena, where rows are, and the arguments of each phase.
#pragma once

#include "../../../compute/src/population/population.cuh"
#include "rollout.cuh"

// No place in a rollout.
constexpr u32 NOWHERE = 0xffffffffu;

struct PolicyLayer {
    u32 weight;  // offset in a row of the arena
    u32 bias;
    u32 inputs;  // padded to 8
    u32 outputs; // padded to 8
    u32 act;
};

// A policy's net, and where its rows are.
struct PolicyNet {
    View<const f32> master;  // [P, params]
    View<const u16> copy;    // [P, params] bf16
    View<const f32> table;   // [rows, stride]
    View<const u32> map;     // [ids], or none
    View<const f32> mean;    // [P, features], or none
    View<const f32> inverse;
    u64 params;
    u32 stride;
    u32 features;
    u32 column;              // of what an account is shown, in the net's input
    u32 hidden[2];           // hidden layers of each tower
    PolicyLayer layers[8];   // of the policy, then of the value: hidden layers, then the head; 4 each
};

__device__ __forceinline__ const bf16* copy_of(const PolicyNet& net, u32 p) {
    return reinterpret_cast<const bf16*>(net.copy.data) + (u64)p * net.params;
}

__device__ __forceinline__ u32 table_row(const PolicyNet& net, u32 id) {
    const u32 row = net.map ? net.map[id] : id;
    if (((u64)row + 1) * net.stride > net.table.len) __trap();
    return row;
}

// All steps of a rollout.
struct SmallRollout {
    EpisodeTable table;
    Members members;
    Standing standing;
    Rollout seen;
    PolicyNet net;
};

// Values of any rows.
struct SmallValues {
    PolicyNet net;
    View<const u32> rows;     // [P, count]
    View<const f32> observed; // [P, count, OBSERVED]
    View<f32> value;          // [P, count]
    u32 count;
};

// Losses of slices of a minibatch, and the gradient of the weights.
struct SmallMinibatch {
    Members members;
    Rollout seen;
    PolicyNet net;
    View<const u32> clock;   // [2]
    View<const u32> goes;    // [P] members that take no step are left out
    View<const f32> centre;  // [P, minibatches, 2]
    View<f32> parts;         // [P, slices, params]
    View<f64> partial;       // [P, slices, 6]
    u32 per_epoch;
    u32 slice;               // rows of one, a multiple of 128
};
