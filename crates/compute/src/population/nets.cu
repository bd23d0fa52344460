// Nets without a loss: rows and gradients that other rooms made on the card, the optimiser with each member's own
// hyper-parameters, and a member that becomes another.
//
// P = members, B = rows that the nets were set up for. A call has `all` rows of each member and does those from `begin`
// on, at most B; the rest of the B rows are not alive. `width` is `outputs` padded to a multiple of 8.
//
// | kernel           | block | grid                          |
// |------------------|-------|-------------------------------|
// | take_ids         | 256   | [ceil(B / 256), P]            |
// | take_rows_T      | 256   | [ceil(B / 8), P]              |
// | take_extras      | 256   | [ceil(B × features / 256), P] |
// | give_outputs     | 256   | [ceil(B × outputs / 256), P]  |
// | take_gradients_T | 256   | [ceil(B × width / 256), P]    |
// | sum_biases       | 256   | [ceil(widest / 32), layers]   |
// | end_step         | 256   | [ceil(params / (1024 × rounds)), P] |
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
// take_rows: the whole input of nets that read rows of tables and dense numbers and nothing else, in one pass: what
// take_ids, take_extras and a gather of every input do. A warp has a row.
// ---------------------------------------------------------------------------------------------------------------------
struct RowsOfInput {
    const float* table;   // [rows, stride] of a table; null: dense
    const u32* map;       // [ids], or null
    const float* mean;    // [P, features], or null both
    const float* inverse;
    u64 stride;
    u32 features;
    u32 column;           // of the extras, where it is dense
    u32 at;               // its first column in a row that is written
    u32 padded;           // columns that are written, zeros behind the features
};

template <typename T> struct TakeRowsArgs {
    View<const u32> ids;      // [P, all], or none: all are `instead`
    View<const float> extras; // [P, all, wide], or none
    u64* wrong;               // [1] 2^32 + an id that was wrong
    T* to;                    // [P, B, to_stride]
    u64 to_stride;
    RowsOfInput inputs[4];
    u32 count;                // inputs
    u32 known;                // ids there are
    u32 instead;
    u32 wide;
    u32 all;
    u32 begin;
    u32 batch;
};

template <typename T> __device__ __forceinline__ void take_rows(const TakeRowsArgs<T>& given) {
    const u32 slot = blockIdx.y, own = blockIdx.x * 8 + threadIdx.x / 32, row = given.begin + own, lane = threadIdx.x % 32;
    if (own >= given.batch) return;
    const bool inside = row < given.all;
    u32 id = given.instead;
    if (inside && given.ids) {
        const u32 asked = given.ids[(u64)slot * given.all + row];
        if (asked < given.known) id = asked;
        else if (lane == 0) *given.wrong = (1ull << 32) + asked;
    }
    const float* extras = inside && given.extras ? &given.extras[((u64)slot * given.all + row) * given.wide] : nullptr;
    T* to = given.to + ((u64)slot * given.batch + own) * given.to_stride;
#pragma unroll 1
    for (u32 i = 0; i < given.count; i++) {
        const RowsOfInput& input = given.inputs[i];
        const float* from = input.table ? input.table + (input.map ? input.map[id] : id) * input.stride : extras + input.column;
        const bool scaled = input.mean != nullptr;
        const u64 of = (u64)slot * input.features;
        for (u32 c = lane; c < input.padded; c += 32) {
            // The tail is zeros: a bad number in a row that counts for nothing must not spoil the sums.
            float x = inside && c < input.features ? from[c] : 0.0f;
            // No fma here: the bits are to be those of the CPU.
            if (scaled && inside && c < input.features) x = __fmul_rn(__fsub_rn(x, input.mean[of + c]), input.inverse[of + c]);
            to[input.at + c] = round_to<T>(x);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) take_rows_f32(const TakeRowsArgs<float> given) { take_rows<float>(given); }
extern "C" __global__ void __launch_bounds__(256) take_rows_bf16(const TakeRowsArgs<bf16> given) { take_rows<bf16>(given); }

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

// ---------------------------------------------------------------------------------------------------------------------
// sum_biases: `sum_partials` for the biases of many layers of one member at once, with the same bits.
// ---------------------------------------------------------------------------------------------------------------------
struct BiasSum {
    const float* partial; // [blocks, n]
    float* out;           // [n]
    u32 n;                // a multiple of 4
    u32 blocks;
};

struct SumBiasesArgs {
    const SlotState* states; // [1]
    BiasSum layers[16];
    u32 mode;
};

// Eight lanes take 32 columns; group g of 32 adds the blocks g, g + 32, ...; then the 32 sums are added in order.
extern "C" __global__ void __launch_bounds__(256) sum_biases(const SumBiasesArgs given) {
    if (idle(given.states[0], given.mode)) return;
    const BiasSum& of = given.layers[blockIdx.y];
    if (blockIdx.x * 32 >= of.n) return;
    __shared__ double sums[32][33];
    const u32 group = threadIdx.x / 8, lane = threadIdx.x % 8, column = blockIdx.x * 32 + lane * 4;
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    if (column < of.n) {
#pragma unroll 4
        for (u32 k = group; k < of.blocks; k += 32) {
            const float4 v = load4(of.partial + (u64)k * of.n + column);
            sum[0] += (double)v.x, sum[1] += (double)v.y, sum[2] += (double)v.z, sum[3] += (double)v.w;
        }
    }
    for (u32 i = 0; i < 4; i++) sums[group][lane * 4 + i] = sum[i];
    __syncthreads();
    const u32 own = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x < 32 && own < of.n) {
        double all = 0.0;
#pragma unroll 8
        for (u32 g = 0; g < 32; g++) all += sums[g][threadIdx.x];
        of.out[own] = (float)all;
    }
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
    double* norm_partial;    // [P, blocks] sums of squares of 1024 × rounds elements each
    u32* arrived;            // [P] 0 before and after
    Order* orders;           // [P]
    u32 count;
    u32 rule;
    u32 rounds;              // of 1024 elements in a block
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
    double sum = 0.0;
    const u64 first = (u64)blockIdx.x * given.rounds * 1024 + threadIdx.x * 4;
    if (given.count > 0) {
        for (u32 round = 0; round < given.rounds; round++) {
            const u64 at = first + round * 1024;
            if (at >= given.params) break;
            const float4 v = added(given.parts.data + (u64)slot * given.count * given.params + at, given.params, given.count);
            store4(given.grads + slot * given.params + at, v);
            sum += squares(v);
        }
    } else {
        const float* from = given.grads + slot * given.params;
#pragma unroll 8
        for (u32 round = 0; round < given.rounds; round++) {
            const u64 at = first + round * 1024;
            const float4 v = at < given.params ? fetch4(from + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            sum += squares(v);
        }
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
