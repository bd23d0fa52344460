// Nets without a loss: rows and gradients that other rooms made on the card, the optimiser with each member's own
// hyper-parameters, and a member that becomes another.
//
// P = members, B = rows that the nets were set up for. A call has `all` rows of each member and does those from `begin`
// on, at most B; the rest of the B rows are not alive. `width` is `outputs` padded to a multiple of 8.
//
// | kernel           | block | grid                          |
// |------------------|-------|-------------------------------|
// | take_ids         | 256   | [ceil(B / 256), P]            |
// | take_extras      | 256   | [ceil(B × features / 256), P] |
// | give_outputs     | 256   | [ceil(B × outputs / 256), P]  |
// | take_gradients_T | 256   | [ceil(B × width / 256), P]    |
// | end_step         | 256   | [ceil(params / 1024), P]      |
// | optimise_each    | 256   | [any, P], 1024 elements a block and round |
// | adopt            | 256   | [ceil(params / 1024)]         |
// registers: 64

#include "../cuda/view.cuh"
#include "optimiser.cuh"

// ---------------------------------------------------------------------------------------------------------------------
// take_ids: the ids of a batch. An id that is none, or whose window reaches before a table, is replaced by one that is
// whole, and noted: nothing that lies on the card can lead a gather out of its table.
// ---------------------------------------------------------------------------------------------------------------------
struct TakeIdsArgs {
    View<const u32> ids; // [P, all], or none: all are `instead`
    const u64* windows;  // [tables, 2] where each table's map lies, or 0, and the rows of its window
    u32* rows;           // [P, B]
    float* live;         // [P, B]
    u64* wrong;          // [1] 2^32 + an id that was wrong
    u32 tables;
    u32 count;           // ids there are
    u32 instead;
    u32 all;
    u32 begin;
    u32 batch;
};

extern "C" __global__ void __launch_bounds__(256) take_ids(const TakeIdsArgs given) {
    const u32 slot = blockIdx.y, own = blockIdx.x * 256 + threadIdx.x, row = given.begin + own;
    if (own >= given.batch) return;
    const bool inside = row < given.all;
    u32 id = given.instead;
    if (inside && given.ids) {
        const u32 asked = given.ids[(u64)slot * given.all + row];
        bool whole = asked < given.count;
        for (u32 t = 0; whole && t < given.tables; t++) {
            const u32* map = reinterpret_cast<const u32*>(given.windows[2 * t]);
            whole = (u64)(map ? map[asked] : asked) + 1 >= given.windows[2 * t + 1];
        }
        if (whole) id = asked;
        else *given.wrong = (1ull << 32) + asked;
    }
    given.rows[(u64)slot * given.batch + own] = id;
    given.live[(u64)slot * given.batch + own] = inside ? 1.0f : 0.0f;
}

// ---------------------------------------------------------------------------------------------------------------------
// take_extras: the numbers of one dense input, as rows of a table of their own.
// ---------------------------------------------------------------------------------------------------------------------
struct TakeExtrasArgs {
    View<const float> extras; // [P, all, wide]
    float* to;                // [P, B, stride]
    u32 wide;
    u32 column;               // of the input's first number
    u32 features;
    u32 stride;
    u32 all;
    u32 begin;
    u32 batch;
};

extern "C" __global__ void __launch_bounds__(256) take_extras(const TakeExtrasArgs given) {
    const u32 slot = blockIdx.y, at = blockIdx.x * 256 + threadIdx.x, own = at / given.features, f = at % given.features;
    const u32 row = given.begin + own;
    if (own >= given.batch) return;
    const float x = row < given.all ? given.extras[((u64)slot * given.all + row) * given.wide + given.column + f] : 0.0f;
    given.to[((u64)slot * given.batch + own) * given.stride + f] = x;
}

// ---------------------------------------------------------------------------------------------------------------------
// give_outputs: the outputs of a head with their bias, without padding.
// ---------------------------------------------------------------------------------------------------------------------
struct GiveOutputsArgs {
    const float* z;    // [P, B, width]
    const float* bias; // the master at the head's bias
    u64 bias_member;   // from member to member (= params)
    View<float> out;   // [P, all, outputs]
    u32 outputs;
    u32 width;
    u32 all;
    u32 begin;
    u32 batch;
};

extern "C" __global__ void __launch_bounds__(256) give_outputs(const GiveOutputsArgs given) {
    const u32 slot = blockIdx.y, at = blockIdx.x * 256 + threadIdx.x, own = at / given.outputs, o = at % given.outputs;
    const u32 row = given.begin + own;
    if (own >= given.batch || row >= given.all) return;
    const float z = given.z[((u64)slot * given.batch + own) * given.width + o];
    given.out[((u64)slot * given.all + row) * given.outputs + o] = z + given.bias[slot * given.bias_member + o];
}

// ---------------------------------------------------------------------------------------------------------------------
// take_gradients: the gradient at the outputs of a head, rounded to T; zeros where no row is alive and in the padding.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct TakeGradientsArgs {
    View<const float> from; // [P, all, outputs]
    T* to;                  // [P, B, width]
    u32 outputs;
    u32 width;
    u32 all;                // at most B
    u32 batch;
};

template <typename T> __device__ __forceinline__ void take_gradients(const TakeGradientsArgs<T>& given) {
    const u32 slot = blockIdx.y, at = blockIdx.x * 256 + threadIdx.x, own = at / given.width, o = at % given.width;
    if (own >= given.batch) return;
    const bool inside = own < given.all && o < given.outputs;
    const float x = inside ? given.from[((u64)slot * given.all + own) * given.outputs + o] : 0.0f;
    given.to[((u64)slot * given.batch + own) * given.width + o] = round_to<T>(x);
}

extern "C" __global__ void __launch_bounds__(256) take_gradients_f32(const TakeGradientsArgs<float> given) {
    take_gradients<float>(given);
}
extern "C" __global__ void __launch_bounds__(256) take_gradients_bf16(const TakeGradientsArgs<bf16> given) {
    take_gradients<bf16>(given);
}

// Each member's hyper-parameters, as they are when a step runs.
struct Hypers {
    View<const float> rate; // [P] each
    View<const float> beta1;
    View<const float> beta2;
    View<const float> eps;
    View<const float> decay;
    View<const float> clip; // not above 0: none
    View<const double> weight;
};

__device__ __forceinline__ Optimiser optimiser_of(const Hypers& each, u32 slot, u32 rule) {
    Optimiser o = {};
    o.rule = rule;
    o.beta1 = each.beta1[slot], o.beta2 = each.beta2[slot], o.eps = each.eps[slot];
    o.decay = each.decay[slot], o.clip = each.clip[slot];
    return o;
}

// ---------------------------------------------------------------------------------------------------------------------
// end_step: `advance` for members with hyper-parameters of their own. A gradient in parts is added up in order first. A
// member that is left out, or whose norm is not finite, stays as it is.
// ---------------------------------------------------------------------------------------------------------------------
struct EndStepArgs {
    SlotState* states;           // [P]
    float* grads;            // [P, params] written where there are parts
    u64 params;
    View<const float> parts; // [P, count, params], or none
    View<const u32> mask;    // [P] 0 leaves a member out; or none
    View<float> norms;       // [P] written; or none
    Hypers each;
    double* norm_partial;    // [P, blocks] sums of squares of 1024 elements each
    u32* arrived;            // [P] 0 before and after
    Order* orders;           // [P]
    u32 count;
    u32 rule;
};

extern "C" __global__ void __launch_bounds__(256) end_step(const EndStepArgs given) {
    const u32 slot = blockIdx.y;
    if (given.mask && given.mask[slot] == 0) {
        if (blockIdx.x != 0 || threadIdx.x != 0) return;
        given.orders[slot].go = 0;
        given.states[slot].norm = 0.0f;
        if (given.norms) given.norms[slot] = 0.0f;
        return;
    }
    const u64 at = (u64)blockIdx.x * 1024 + threadIdx.x * 4;
    double sum = 0.0;
    if (at < given.params) {
        float* to = given.grads + slot * given.params + at;
        const float* from = given.count > 0 ? given.parts.data + (u64)slot * given.count * given.params + at : to;
        const float4 v = added(from, given.params, given.count);
        if (given.count > 0) store4(to, v);
        sum = squares(v);
    }
    __shared__ double scratch[8];
    if (!comes_last(slot, sum, given.norm_partial, given.arrived, scratch)) return;
    Measure made;
    made.weight = given.each.weight[slot];
    made.norm = norm_of(slot, given.norm_partial, scratch) / made.weight;
    if (threadIdx.x != 0) return;
    SlotState state = given.states[slot];
    const Optimiser o = optimiser_of(given.each, slot, given.rule);
    state.rate = given.each.rate[slot];
    given.orders[slot] = decide(state, plan(state, o), made, o);
    // A bad gradient is told by its norm alone, and the member takes part again.
    state.norm = (float)made.norm, state.fault = 0, state.active = 1;
    given.states[slot] = state;
    if (given.norms) given.norms[slot] = state.norm;
}

// ---------------------------------------------------------------------------------------------------------------------
// optimise_each: `optimise` with each member's own hyper-parameters.
// ---------------------------------------------------------------------------------------------------------------------
struct OptimiseEachArgs {
    u64 params;
    const Order* orders; // [P]
    const float* grads;  // [P, params], as master, mean and square
    float* master;
    float* mean;
    float* square;
    bf16* copy;          // [P, params] bf16 of the master, or null
    float* average;      // null
    Hypers each;
    u32 rule;
};

extern "C" __global__ void __launch_bounds__(256) optimise_each(const OptimiseEachArgs given) {
    optimise_row(given, optimiser_of(given.each, blockIdx.y, given.rule));
}

// ---------------------------------------------------------------------------------------------------------------------
// adopt: one member's parameters, optimiser and step become another's.
// ---------------------------------------------------------------------------------------------------------------------
struct AdoptArgs {
    SlotState* states; // [P]
    float* master; // [P, params]
    float* mean;   // [P, params] or null
    float* square; // [P, params] or null
    bf16* copy;    // [P, params] or null
    u64 params;
    u32 from;
    u32 to;
};

extern "C" __global__ void __launch_bounds__(256) adopt(const AdoptArgs given) {
    const u64 at = (u64)blockIdx.x * 1024 + threadIdx.x * 4;
    if (at >= given.params) return;
    const u64 from = given.from * given.params + at, to = given.to * given.params + at;
    const float4 v = load4(given.master + from);
    store4(given.master + to, v);
    if (given.copy) store4(given.copy + to, v);
    if (given.mean) store4(given.mean + to, load4(given.mean + from));
    if (given.square) store4(given.square + to, load4(given.square + from));
    if (at == 0) given.states[given.to].step = given.states[given.from].step;
}
