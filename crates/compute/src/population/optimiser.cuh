// The optimiser of a member: its schedule, what a step decides from norm and loss, and Adam or AdamW over four
// neighbours of the arena.
//
// Every kernel that changes parameters calls these, so that a member's bits are the same whichever does.
#pragma once

#include "population.cuh"

// The optimiser and the schedule, passed by value: 40 bytes.
struct Optimiser {
    u32 rule; // 0 Adam, 1 AdamW
    float beta1;
    float beta2;
    float eps;
    float decay;
    float clip; // not above 0: none
    u32 shape;  // 0 constant, 1 cosine, 2 one cycle
    float warmup;
    float floor;
    float memory; // of the average of the weights
};
static_assert(sizeof(Optimiser) == 40, "Optimiser must lie as the launch packs it");

// The weight sum of a batch, and the global norm of the gradient of the weighted mean loss.
struct Measure {
    double weight;
    double norm;
};

// `Schedule::factor`, t from 1.
__device__ __forceinline__ double factor(const Optimiser& o, u32 step, u32 steps) {
    const double t = (double)step, total = (double)steps, warm = (double)o.warmup * total, floor = (double)o.floor;
    const bool rising = t < warm;
    if (rising && o.shape != 2) return t / warm;
    if (o.shape == 0) return 1.0;
    const double done = rising ? t / warm : total > warm ? fmin((t - warm) / (total - warm), 1.0) : 0.0;
    const double half = 0.5 * (1.0 + cospi(done));
    return rising ? 1.0 - (1.0 - 1.0 / 25.0) * half : floor + (1.0 - floor) * half;
}

// `base` to the power of a whole number.
__device__ __forceinline__ double power(double base, u32 exponent) {
    double made = 1.0;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2) made *= base;
        base *= base;
    }
    return made;
}

// What `advance` tells `optimise` of a slot: 24 bytes.
struct Order {
    u32 go;       // the number of the step, from 1; 0: nothing changes
    float clip;   // the gradient times this
    float rate;   // the rate, scheduled, with the mean's correction for its start
    float root;   // the root of the square's correction
    float keep;   // AdamW: what decay leaves of a weight
    float weight; // the batch's sum of weights
};
static_assert(sizeof(Order) == 24, "Order must lie as the engine lays it out");

// What of an order is known before the gradient is: the next step's rate and corrections.
__device__ __forceinline__ Order plan(const SlotState& state, const Optimiser& o) {
    const u32 t = state.step + 1;
    const double rate = (double)state.rate * factor(o, t, state.total);
    Order order = {};
    order.rate = (float)(rate / (1.0 - power((double)o.beta1, t)));
    order.root = (float)sqrt(1.0 - power((double)o.beta2, t));
    order.keep = (float)(1.0 - rate * (double)o.decay);
    return order;
}

// The slot after a step, and what the optimiser is to do.
__device__ __forceinline__ Order decide(SlotState& state, Order order, const Measure& made, const Optimiser& o) {
    const bool weighed = made.weight != 0.0;
    if (weighed && !isfinite(made.norm)) {
        state.fault = 1;
        state.active = 0;
        return order;
    }
    if (weighed) {
        const double least = (double)o.clip / (made.norm + 1e-6);
        order.go = state.step + 1;
        order.clip = o.clip > 0.0f && least < 1.0 ? (float)least : 1.0f;
        order.weight = (float)made.weight;
    }
    state.norm = weighed ? (float)made.norm : 0.0f;
    state.step += 1;
    return order;
}

// The epoch after a step that was done.
__device__ __forceinline__ EpochState count_step(EpochState epoch, u32 batch, double weight, double loss) {
    if (epoch.cursor == 0) epoch.loss = epoch.weight = 0.0;
    epoch.loss += loss;
    epoch.weight += weight;
    epoch.cursor += batch;
    if (epoch.cursor >= epoch.samples) {
        epoch.cursor = 0;
        epoch.done += 1;
    }
    return epoch;
}

// The slot behind such a step, `epoch` being as before it: at an epoch's end it waits for its validation.
__device__ __forceinline__ void end_epoch(SlotState& state, const EpochState& epoch, u32 batch) {
    if (epoch.cursor + batch < epoch.samples) return;
    state.due = 1;
    if (epoch.done + 1 >= epoch.epochs) state.active = 0;
}

// The sum of four squares; products of f32 are whole in f64, so no fma changes it.
__device__ __forceinline__ double squares(float4 v) {
    return ((double)v.x * (double)v.x + (double)v.y * (double)v.y) + ((double)v.z * (double)v.z + (double)v.w * (double)v.w);
}

// The root of x and its reciprocal, each at most two units in the last place off: what they scale is a step that
// batches decide to three digits. Rounded to the last bit they took a tenth of a small net's whole step.
__device__ __forceinline__ float root_of(float x) {
    float near;
    asm("sqrt.approx.f32 %0, %1;\n" : "=f"(near) : "f"(x));
    return near;
}
__device__ __forceinline__ float reciprocal(float x) {
    float near;
    asm("rcp.approx.f32 %0, %1;\n" : "=f"(near) : "f"(x));
    return near;
}

// A number that all elements of a step are divided by.
struct Divisor {
    float by;
    float one;
    bool plain; // far from the ends of the range, so that multiplying by the reciprocal does

    __device__ __forceinline__ explicit Divisor(float by) : by(by), one(__frcp_rn(by)), plain(by > 1e-30f && by < 1e30f) {}
    __device__ __forceinline__ float of(float x) const { return plain ? __fmul_rn(x, one) : __fdiv_rn(x, by); }
};

// Four neighbours of the arena, and what Adam or AdamW makes of them.
struct Four {
    float4 param;
    float4 mean;
    float4 square;
};

__device__ __forceinline__ void adapt(Four& four, float4 g4, const Order& order, const Divisor& weight, const Divisor& root,
                                      const Optimiser& o) {
    const float fresh1 = (float)(1.0 - (double)o.beta1), fresh2 = (float)(1.0 - (double)o.beta2);
    const float gs[4] = {g4.x, g4.y, g4.z, g4.w};
    float ps[4] = {four.param.x, four.param.y, four.param.z, four.param.w}, ms[4] = {four.mean.x, four.mean.y, four.mean.z, four.mean.w};
    float vs[4] = {four.square.x, four.square.y, four.square.z, four.square.w};
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
        float g = __fmul_rn(weight.of(gs[e]), order.clip), p = ps[e];
        if (o.rule == 0) g = __fmaf_rn(o.decay, p, g);
        else p = __fmul_rn(p, order.keep);
        const float m = __fmaf_rn(fresh1, __fsub_rn(g, ms[e]), ms[e]);
        const float v = __fmaf_rn(o.beta2, vs[e], __fmul_rn(fresh2, __fmul_rn(g, g)));
        const float pull = __fmul_rn(m, reciprocal(__fadd_rn(root.of(root_of(v)), o.eps)));
        ps[e] = __fmaf_rn(-order.rate, pull, p), ms[e] = m, vs[e] = v;
    }
    four.param = make_float4(ps[0], ps[1], ps[2], ps[3]);
    four.mean = make_float4(ms[0], ms[1], ms[2], ms[3]);
    four.square = make_float4(vs[0], vs[1], vs[2], vs[3]);
}

// What the running average of four weights becomes.
__device__ __forceinline__ float4 averaged(float4 a, float4 p, float memory) {
    const float fresh = (float)(1.0 - (double)memory);
    auto one = [&](float a, float p) { return __fadd_rn(__fmul_rn(memory, a), __fmul_rn(fresh, p)); };
    return make_float4(one(a.x, p.x), one(a.y, p.y), one(a.z, p.z), one(a.w, p.w));
}

// The sum of `count` parts of a gradient in order, four neighbours of each; what lies there where none is counted. What
// is read is not written in this launch.
__device__ __forceinline__ float4 added(const float* from, u64 params, u32 count) {
    float4 v = fetch4(from);
#pragma unroll 8
    for (u32 k = 1; k < count; k++) {
        const float4 more = fetch4(from + k * params);
        v = make_float4(v.x + more.x, v.y + more.y, v.z + more.z, v.w + more.w);
    }
    return v;
}

// Leaves this block's squares beside those of the slot's other blocks, `gridDim.x` in all; true in the block that comes
// last, which sees them all. Sums over them are in order, so which block that is changes nothing.
__device__ __forceinline__ bool comes_last(u32 slot, double sum, double* norm_partial, u32* arrived, double* scratch) {
    __shared__ u32 turn;
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) {
        norm_partial[(u64)slot * gridDim.x + blockIdx.x] = sum;
        __threadfence();
        turn = atomicAdd(&arrived[slot], 1u);
    }
    __syncthreads();
    if (turn != gridDim.x - 1) return false;
    __threadfence();
    if (threadIdx.x == 0) arrived[slot] = 0;
    return true;
}

// The root of all squares of a slot. Other blocks of this launch wrote them: no cached copy will do.
__device__ __forceinline__ double norm_of(u32 slot, const volatile double* norm_partial, double* scratch) {
    double mine = 0.0;
    for (u32 i = threadIdx.x; i < gridDim.x; i += 256) mine += norm_partial[(u64)slot * gridDim.x + i];
    return sqrt(block_sum(mine, scratch));
}

// Adam or AdamW over the row of a slot, as it was ordered; `A` names the arenas.
template <typename A> __device__ __forceinline__ void optimise_row(const A& given, const Optimiser& o) {
    const float* __restrict__ grads = given.grads;
    float* __restrict__ master = given.master;
    float* __restrict__ mean = given.mean;
    float* __restrict__ square = given.square;
    bf16* __restrict__ copy = given.copy;
    float* __restrict__ average = given.average;
    const u32 slot = blockIdx.y;
    const Order order = given.orders[slot];
    if (order.go == 0) return;
    const Divisor weight(order.weight), root(order.root);

#pragma unroll 4
    for (u64 in_row = (u64)blockIdx.x * 1024 + threadIdx.x * 4; in_row < given.params; in_row += (u64)gridDim.x * 1024) {
        const u64 at = slot * given.params + in_row;
        Four four = {load4(master + at), load4(mean + at), load4(square + at)};
        adapt(four, load4(grads + at), order, weight, root, o);
        store4(master + at, four.param);
        store4(mean + at, four.mean);
        store4(square + at, four.square);
        if (copy) store4(copy + at, four.param);
        if (average) store4(average + at, order.go == 1 ? four.param : averaged(load4(average + at), four.param, o.memory));
    }
}
