// What follows a minibatch of many small nets, in one kernel: the parts of a gradient are added, who goes on is
// decided, the norm is found, and the optimiser takes its step. The bits are those of `add_parts` of `ppo_small.cu`
// with `end_step` and `optimise_each` of `compute` behind it: every sum has their order.
//
// | kernel | block | grid    | cluster | needs                                    |
// |--------|-------|---------|---------|------------------------------------------|
// | finish | 512   | [8, P]  | 8       | at most 32,768 parameters, whole fours   |
//
// A cluster has a member, a block every eighth 1,024 of its parameters. Blocks meet twice: behind the sums of squares,
// and before the member's state is written.
// targets: 90
// registers: 128

#include "../../../compute/src/population/hypers.cuh"
#include "decide.cuh"

constexpr u32 BLOCKS = 8;   // of a member
constexpr u32 MOST = 4;     // chunks of a block
constexpr u32 CHUNK = 1024; // parameters whose squares are one sum, as in `end_step`
constexpr u32 GROUPS = 16;  // of parts, as in `add_parts`
constexpr u32 HALF = GROUPS / 2;

struct Finish {
    View<const f32> parts; // [P, slices, params]
    Decide decide;
    View<SlotState> states; // [P]
    View<f32> gradient;     // [P, params], as master, mean and square
    View<f32> master;
    View<f32> mean;
    View<f32> square;
    View<u16> copy;         // [P, params] bf16 of the master
    View<f64> squares;      // [P, chunks] sums of squares
    View<f32> norms;        // [P]
    Hypers each;
    u64 params;             // a multiple of 64
    u32 slices;
    u32 rule;
};

// All threads of a cluster.
__device__ __forceinline__ void meet() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void add(float4& a, float4 b) { a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w; }

__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(512) finish(const __grid_constant__ Finish given) {
    __shared__ float4 upper[HALF][256];
    __shared__ f64 scratch[8];
    __shared__ Order order;
    const u32 rank = blockIdx.x, p = blockIdx.y, lane = threadIdx.x % 256, half = threadIdx.x / 256;
    const u32 params = (u32)given.params, chunks = (params + CHUNK - 1) / CHUNK, slices = given.slices;
    const u64 row = (u64)p * params;
    if (chunks > BLOCKS * MOST || row + params > given.master.len || (u64)(p + 1) * slices * params > given.parts.len) __trap();
    // The last block has the fewest chunks.
    if (rank == BLOCKS - 1) decide_member(given.decide, p);
    const float* parts = given.parts.data + row * slices;
    float4 gradient[MOST];
    Four four[MOST];
#pragma unroll
    for (u32 i = 0; i < MOST; i++) {
        gradient[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        const u32 chunk = rank + i * BLOCKS, at = chunk * CHUNK + lane * 4;
        if (chunk >= chunks) continue;
        const bool real = at < params;
        float4 sums[HALF];
#pragma unroll
        for (u32 q = 0; q < HALF; q++) sums[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 2
        for (u32 first = half * HALF; first < slices; first += GROUPS)
#pragma unroll
            for (u32 q = 0; q < HALF; q++)
                if (real && first + q < slices) add(sums[q], load4(parts + (u64)(first + q) * params + at));
        __syncthreads();
        if (half == 1)
#pragma unroll
            for (u32 q = 0; q < HALF; q++) upper[q][lane] = sums[q];
        __syncthreads();
        f64 own = 0.0;
        if (half == 0) {
            float4 sum = sums[0];
#pragma unroll
            for (u32 q = 1; q < HALF; q++) add(sum, sums[q]);
#pragma unroll
            for (u32 q = 0; q < HALF; q++) add(sum, upper[q][lane]);
            gradient[i] = sum;
            if (real) {
                own = squares(sum);
                four[i] = {load4(given.master.data + row + at), load4(given.mean.data + row + at), load4(given.square.data + row + at)};
            }
            own = warp_sum(own);
            if (lane % 32 == 0) scratch[lane / 32] = own;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            f64 all = 0.0;
            for (u32 warp = 0; warp < 8; warp++) all += scratch[warp];
            given.squares[(u64)p * chunks + chunk] = all;
        }
    }
    meet();
    const volatile f64* all_squares = &given.squares[(u64)p * chunks];
    const u32 goes = *(const volatile u32*)&given.decide.goes[p];
    __syncthreads();
    if (half == 0) {
        f64 mine = 0.0;
        for (u32 i = lane; i < chunks; i += 256) mine += all_squares[i];
        mine = warp_sum(mine);
        if (lane % 32 == 0) scratch[lane / 32] = mine;
    }
    __syncthreads();
    SlotState state = given.states[p];
    if (threadIdx.x == 0) {
        f64 all = 0.0;
        for (u32 warp = 0; warp < 8; warp++) all += scratch[warp];
        Measure made;
        made.weight = given.each.weight[p];
        made.norm = sqrt(all) / made.weight;
        const Optimiser o = optimiser_of(given.each, p, given.rule);
        state.rate = given.each.rate[p];
        order = ::decide(state, plan(state, o), made, o);
        // A bad gradient is told by its norm alone, and the member takes part again.
        state.norm = (float)made.norm, state.fault = 0, state.active = 1;
        if (goes == 0) order.go = 0;
    }
    __syncthreads();
    if (half == 0 && order.go != 0) {
        const Optimiser o = optimiser_of(given.each, p, given.rule);
        const Order ordered = order;
        const Divisor weight(ordered.weight), root(ordered.root);
#pragma unroll
        for (u32 i = 0; i < MOST; i++) {
            const u32 chunk = rank + i * BLOCKS;
            const u64 at = chunk * CHUNK + lane * 4;
            if (chunk >= chunks || at >= params) continue;
            adapt(four[i], gradient[i], ordered, weight, root, o);
            store4(given.master.data + row + at, four[i].param);
            store4(given.mean.data + row + at, four[i].mean);
            store4(given.square.data + row + at, four[i].square);
            store4(reinterpret_cast<bf16*>(given.copy.data) + row + at, four[i].param);
        }
    }
    if (half == 0 && goes != 0)
#pragma unroll
        for (u32 i = 0; i < MOST; i++) {
            const u32 chunk = rank + i * BLOCKS, at = chunk * CHUNK + lane * 4;
            if (chunk < chunks && at < params) store4(given.gradient.data + row + at, gradient[i]);
        }
    meet();
    if (rank != 0 || threadIdx.x != 0) return;
    if (goes == 0) {
        given.states[p].norm = 0.0f;
        given.norms[p] = 0.0f;
        return;
    }
    given.states[p] = state;
    given.norms[p] = state.norm;
}
