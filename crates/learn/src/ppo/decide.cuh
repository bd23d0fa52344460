// What a minibatch saw is added up, by one block of 256 threads for each member; who has moved too far, or whose last
// gradient was no number, takes no further step in this update.
#pragma once

#include "../../../compute/src/population/population.cuh"
#include "rollout.cuh"

// What the host reads behind an update: sums of the losses (rows, policy, value, entropy, divergence, clipped), growth
// of equity a step, share of the returns' variance that values explain, steps of the optimiser.
constexpr u32 TOTALS = 9;

struct Decide {
    Members members;
    View<const f64> partial; // [P, blocks, 6]
    View<const f32> norms;   // [P] of the step before
    View<f64> totals;        // [P, TOTALS]
    View<u32> goes;          // [P]
    View<u32> clock;         // [2]
    u32 blocks;
};

__device__ __forceinline__ void decide_member(const Decide& given, u32 p) {
    __shared__ double scratch[6][8];
    const u32 warp = threadIdx.x / 32;
    const f64* own = &given.partial[(u64)p * given.blocks * 6];
    f64 sums[6] = {};
    for (u32 block = threadIdx.x; block < given.blocks; block += 256)
#pragma unroll
        for (u32 k = 0; k < 6; k++) sums[k] += own[block * 6 + k];
#pragma unroll
    for (u32 k = 0; k < 6; k++) {
        sums[k] = warp_sum(sums[k]);
        if (threadIdx.x % 32 == 0) scratch[k][warp] = sums[k];
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (given.goes[p] != 0) {
#pragma unroll
        for (u32 k = 0; k < 6; k++) {
            sums[k] = 0.0;
            for (u32 w = 0; w < 8; w++) sums[k] += scratch[k][w];
            given.totals[p * TOTALS + k] += sums[k];
        }
        const f32 most = given.members.target_kl[p], norm = given.norms[p];
        const bool far = most >= 0.0f && !(sums[4] / sums[0] <= 1.5 * (f64)most), lost = !isfinite(norm);
        if (far || lost) given.goes[p] = 0;
        else given.totals[p * TOTALS + 8] += 1.0;
    }
    if (p == 0) given.clock[1]++;
}
