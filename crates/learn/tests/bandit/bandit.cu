// The bandit of the tests: draws rows, samples an action for each, and turns its reward into the gradient at the
// outputs. The twin is in mod.rs; arithmetic is spelled with its rounding, so both have the same bits.
// registers: 64

#include "../../../compute/src/cuda/view.cuh"
#include "../../../compute/src/random/random.cuh"

// The rows of a step.
struct Draw {
    View<const u32> lists;    // rows to train on, one fold's behind the other's
    View<const u32> bounds;   // [P, 2] where a member's list begins and ends
    View<const u32> members;  // [P] ids
    View<const u32> steps;    // [P] steps done
    View<u32> ids;            // [P, rows]
    u64 seed;
    u32 rows;
};

// Actions, rewards and gradients of a step.
struct Play {
    View<const f32> out;      // [P, rows, actions]
    View<f32> d_out;          // [P, rows, actions]
    View<const u32> ids;      // [P, rows]
    View<const u32> best;     // [ids] the action with a reward
    View<const u32> members;  // [P] ids
    View<u32> steps;          // [P] steps done
    View<const u32> mask;     // [P] 0: the member waits, and stays as it is
    View<f32> baseline;       // [P] running mean of rewards
    u64 seed;
    u32 rows;
    u32 actions;
};

// e^x of x between -80 and 0.
__device__ __forceinline__ f32 exp_below_zero(f32 x) {
    const f32 n = rintf(__fmul_rn(x, __uint_as_float(0x3fb8aa3bu)));
    f32 r = __fmaf_rn(n, -0.693359375f, x);
    r = __fmaf_rn(n, __uint_as_float(0x395e8083u), r);
    f32 p = __uint_as_float(0x3ab60b61u);
    p = __fmaf_rn(p, r, __uint_as_float(0x3c088889u));
    p = __fmaf_rn(p, r, __uint_as_float(0x3d2aaaabu));
    p = __fmaf_rn(p, r, __uint_as_float(0x3e2aaaabu));
    p = __fmaf_rn(p, r, 0.5f);
    p = __fmaf_rn(p, r, 1.0f);
    p = __fmaf_rn(p, r, 1.0f);
    return __fmul_rn(p, __uint_as_float((u32)((i32)n + 127) << 23));
}

// What an action's preference weighs beside the largest.
__device__ __forceinline__ f32 weight(f32 z, f32 most) { return exp_below_zero(fmaxf(__fsub_rn(z, most), -80.0f)); }

__global__ void draw(const Draw given) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= given.ids.len) return;
    const u32 at = (u32)(i / given.rows), row = (u32)(i % given.rows);
    const u32 from = given.bounds[2 * at], to = given.bounds[2 * at + 1];
    const u32 bits = philox(given.seed, make_uint4(row, given.steps[at], STREAM_START, given.members[at])).x;
    given.ids[i] = given.lists[from + below(bits, to - from)];
}

// A block plays a member's rows.
__global__ void play(const Play given) {
    __shared__ u32 won;
    const u32 at = blockIdx.x;
    if (threadIdx.x == 0) won = 0;
    __syncthreads();
    const u32 step = given.steps[at];
    const f32 baseline = given.baseline[at];
    for (u32 row = threadIdx.x; row < given.rows; row += blockDim.x) {
        const u64 i = (u64)at * given.rows + row, first = i * given.actions;
        f32 most = given.out[first];
        for (u32 a = 1; a < given.actions; ++a) most = fmaxf(most, given.out[first + a]);
        f32 total = 0.0f;
        for (u32 a = 0; a < given.actions; ++a) total = __fadd_rn(total, weight(given.out[first + a], most));
        const u32 bits = philox(given.seed, make_uint4(row, step, STREAM_ACTION, given.members[at])).x;
        const f32 drawn = __fmul_rn(uniform(bits), total);
        f32 sum = 0.0f;
        u32 action = 0;
        for (; action + 1 < given.actions; ++action) {
            sum = __fadd_rn(sum, weight(given.out[first + action], most));
            if (drawn < sum) break;
        }
        const u32 reward = action == given.best[given.ids[i]];
        atomicAdd(&won, reward);
        const f32 advantage = __fdiv_rn(__fsub_rn((f32)reward, baseline), (f32)given.rows);
        for (u32 a = 0; a < given.actions; ++a) {
            const f32 share = __fdiv_rn(weight(given.out[first + a], most), total);
            given.d_out[first + a] = __fmul_rn(__fsub_rn(share, a == action ? 1.0f : 0.0f), advantage);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0 && given.mask[at]) {
        const f32 mean = __fdiv_rn((f32)won, (f32)given.rows);
        given.baseline[at] = __fmaf_rn(0.1f, __fsub_rn(mean, baseline), baseline);
        given.steps[at] = step + 1;
    }
}
