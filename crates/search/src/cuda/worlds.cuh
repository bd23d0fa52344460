// Worlds of the reference mode on a card: twins of `table.rs` and `linear.rs`.
#pragma once

#include "tree.cuh"

// Rows of numbers that shrink and move with the action; the first is the reward.
struct LinearRows {
    View<const f32> roots; // [roots, inputs]
    View<f32> rows;        // [roots, nodes, inputs]
    u32 inputs;
    u32 nodes;             // of a tree
    f32 shrink;
    f32 push;
    f32 discount;
};

// A warp makes the row of node `to` from that of its parent, and shows it; its reward, in lane 0.
template <typename Show>
__device__ __forceinline__ f32
linear_step(const LinearRows& world, u32 root, u32 from, u32 to, u32 action, const Show& show) {
    const u32 lane = threadIdx.x % 32;
    const f32 moved = ((f32)action - 1.0f) * world.push;
    const u64 before = ((u64)root * world.nodes + from) * world.inputs, after = ((u64)root * world.nodes + to) * world.inputs;
    f32 first = 0.0f;
    for (u32 i = lane; i < world.inputs; i += 32) {
        const f32 x = world.rows[before + i] * world.shrink + moved;
        world.rows[after + i] = x;
        show(i, x);
        if (i == 0) first = x;
    }
    return first;
}

template <typename Show> __device__ __forceinline__ void linear_start(const LinearRows& world, u32 root, const Show& show) {
    for (u32 i = threadIdx.x % 32; i < world.inputs; i += 32) {
        const f32 x = world.roots[(u64)root * world.inputs + i];
        world.rows[(u64)root * world.nodes * world.inputs + i] = x;
        show(i, x);
    }
}

// Fixed tables.
struct TableRows {
    View<const u32> roots;       // [roots] states
    View<const f32> logits;      // [states, actions]
    View<const f32> value;       // [states]
    View<const f32> reward;      // [states, actions, codes]
    View<const f32> discount;    // [states, actions, codes]
    View<const u32> next;        // [states, actions, codes]
    View<const f32> probability; // [codes, codes] by the code before
    View<const f32> afterstate;  // [states, actions]
};
