// A recurrent layer (LSTM) step by step: what is left beside the products. The step is told in `population/backend.rs`,
// the order of launches in `cuda/engine/steps.rs`; the plain twin is `ops/lstm.rs`.
//
// Every kernel has a slot axis and returns at once for slots that take no part. Names end in the element type T of x,
// h, dz and of c as the way back sees it: `_bf16` or `_f32`. S = slots, T = window, B = batch, U = units (a multiple of
// 16), W = inputs of a step (`wide`, a multiple of 16). A layer reads rows [x, h of the step before] of W + U elements,
// so that a step is one product with the weights [W + U, U, 4].
//
// | kernel     | block | grid                        | dynamic shared | what                                                        |
// |------------|-------|-----------------------------|----------------|-------------------------------------------------------------|
// | sequence_T | 256   | [ceil(B × W / 4 / 256), T, S] | 0            | windows of a batch out of the table, scaled                 |
// | cell_T     | 256   | [ceil(B × U / 256), S]      | 0              | z to gates, c and h; a thread has one unit of one row       |
// | back_T     | 256   | [ceil(B × U / 256), S]      | 0              | the gradient at h to that of z                              |
//
// Forward, for each t: product z = [x_t, h] W, `cell`. Backward, for each t from the last: `back`, product dh = dz Whᵀ;
// at the end one product dW = [x, h]ᵀ dz over all steps, and dx = dz Wxᵀ for a layer below. Everything exact: expf,
// tanhf and divisions as the library has them.
// registers: 32

#include "../population/population.cuh"

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// ---------------------------------------------------------------------------------------------------------------------
// sequence: x of every step. The tail of a batch is zeros, as in `gather`, whose rows are read.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct SequenceArgs {
    const SlotState* states;  // [S]
    const u32* rows;      // [S, B] what `gather` chose
    const float* live;    // [S, B]; not read in mode 2
    const float* table;   // [rows, stride] f32
    u64 stride;           // a multiple of 4
    const u32* map;       // [rows of the first table] this table's row for each, or null
    const float* mean;    // [members, features] by state.index, or null both
    const float* inverse;
    T* out;               // [S, T, B, out_stride] at its first column
    u64 out_stride;
    u64 out_member;       // from slot to slot
    u32 mode;
    u32 batch;
    u32 features;         // columns that are read
    u32 wide;             // and with zeros behind them
};

template <typename T>
__device__ __forceinline__ void sequence(const SequenceArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const u32* __restrict__ rows = given.rows;
    const float* __restrict__ live = given.live;
    const float* __restrict__ table = given.table;
    const u32* __restrict__ map = given.map;
    const float* __restrict__ mean = given.mean;
    const float* __restrict__ inverse = given.inverse;
    T* __restrict__ out = given.out;
    const u32 slot = blockIdx.z, t = blockIdx.y, window = gridDim.y;
    const SlotState& state = states[slot];
    if (idle(state, given.mode)) return;
    const u32 pieces = given.wide / 4;
    const u32 at = blockIdx.x * 256 + threadIdx.x;
    const u32 b = at / pieces, column = (at - b * pieces) * 4;
    if (b >= given.batch) return;

    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const u64 place = (u64)slot * given.batch + b;
    // The tail is zeros: a bad number in a row that counts for nothing must not spoil the sums.
    if (column < given.features && (given.mode == ALWAYS || live[place] != 0.0f)) {
        u32 row = rows[place];
        if (map) row = map[row];
        const float4 v = load4(table + (row - (window - 1) + t) * given.stride + column);
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
        const u64 scale = (u64)state.index * given.features + column;
        for (u32 i = 0; i < 4; i++) {
            const bool real = column + i < given.features;
            // No fma here: the bits are to be those of the CPU.
            if (real && mean) x[i] = __fmul_rn(__fsub_rn(x[i], mean[scale + i]), inverse[scale + i]);
            if (!real) x[i] = 0.0f;
        }
    }
    store4(out + slot * given.out_member + ((u64)t * given.batch + b) * given.out_stride + column, make_float4(x[0], x[1], x[2], x[3]));
}

// ---------------------------------------------------------------------------------------------------------------------
// cell: the gates, the cell and h of one step.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct CellArgs {
    const SlotState* states; // [S]
    float* z;            // [S, B, U, 4] f32 at this step: products without bias; with `cells` the gates take its place
    u64 z_member;
    const float* bias;   // the f32 master [U, 4]
    u64 params;          // from slot to slot, of bias
    float* carry;        // [S, B, U] f32: c, in place
    T* cells;            // [S, B, U] at this step: c for the way back; null when there is none
    u64 cells_member;
    T* next;             // where the next step of this layer reads h, or null
    u64 next_stride;
    u64 next_member;
    T* above;            // where this step of the layer above reads it, or null
    u64 above_stride;
    u64 above_member;
    T* last;             // where the layers behind read it, or null
    u64 last_stride;
    u64 last_member;
    const u8* clear;     // [S, B] not 0 where the next step begins anew: it finds c and h of 0; or null
    u64 clear_member;
    u32 mode;
    u32 batch;
    u32 units;
    u32 first;           // 1: c before this step is 0 and `carry` is not read
    u32 last_width;      // how many units of it
};

template <typename T>
__device__ __forceinline__ void cell(const CellArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    float* __restrict__ z = given.z;
    const float* __restrict__ bias = given.bias;
    float* __restrict__ carry = given.carry;
    T* __restrict__ cells = given.cells;
    const u8* __restrict__ clear = given.clear;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], given.mode)) return;
    const u32 at = blockIdx.x * 256 + threadIdx.x;
    const u32 b = at / given.units, unit = at - b * given.units;
    if (b >= given.batch) return;

    float* sums = z + slot * given.z_member + (u64)at * 4;
    const float4 v = load4(sums), shift = load4(bias + slot * given.params + unit * 4);
    const float i = sigmoid(v.x + shift.x), f = sigmoid(v.y + shift.y), g = tanhf(v.z + shift.z), o = sigmoid(v.w + shift.w);
    float* kept = carry + (u64)slot * given.batch * given.units + at;
    const float c = given.first ? i * g : f * *kept + i * g;
    const bool anew = clear && clear[slot * given.clear_member + b];
    *kept = anew ? 0.0f : c;
    if (cells) {
        store4(sums, make_float4(i, f, g, o));
        cells[slot * given.cells_member + at] = round_to<T>(c);
    }
    const T h = round_to<T>(o * tanhf(c));
    if (given.next) given.next[slot * given.next_member + b * given.next_stride + unit] = anew ? round_to<T>(0.0f) : h;
    if (given.above) given.above[slot * given.above_member + b * given.above_stride + unit] = h;
    if (given.last && unit < given.last_width) given.last[slot * given.last_member + b * given.last_stride + unit] = h;
}

// ---------------------------------------------------------------------------------------------------------------------
// back: from the gradient at h of one step to that of its four sums, for slots that step.
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct BackArgs {
    const SlotState* states; // [S]
    const float* gates;  // [S, B, U, 4] f32 at this step
    u64 gates_member;
    const T* cells;      // [S, B, U] at this step
    u64 cells_member;
    const T* before;     // and at the one before; null where the first step begins with nothing
    u64 before_member;
    const T* outer;      // the gradient at h from elsewhere, or null
    u64 outer_stride;
    u64 outer_member;
    const float* dh;     // [S, B, U] f32 from the step after; null at the last step
    float* dc;           // [S, B, U] f32 from the step after, in place; not read at the last step
    T* dz;               // [S, B, U, 4] at this step, strides of gates; may be `gates` itself in f32
    const u8* clear;     // [S, B] not 0 where this step began anew, [B] behind them the same of the step after; or null
    u64 clear_member;
    u32 batch;
    u32 units;
    u32 outer_width;     // for so many units
};

template <typename T>
__device__ __forceinline__ void back(const BackArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const T* __restrict__ cells = given.cells;
    const T* __restrict__ before = given.before;
    const T* __restrict__ outer = given.outer;
    const float* __restrict__ dh = given.dh;
    float* __restrict__ dc = given.dc;
    const u8* __restrict__ clear = given.clear;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const u32 at = blockIdx.x * 256 + threadIdx.x;
    const u32 b = at / given.units, unit = at - b * given.units;
    if (b >= given.batch) return;

    const u64 four = slot * given.gates_member + (u64)at * 4, own = (u64)slot * given.batch * given.units + at;
    const float4 gate = load4(given.gates + four);
    const float i = gate.x, f = gate.y, g = gate.z, o = gate.w;
    const float tc = tanhf(to_float(cells[slot * given.cells_member + at]));
    float was = before ? to_float(before[slot * given.before_member + at]) : 0.0f;
    if (clear && clear[slot * given.clear_member + b]) was = 0.0f;
    float at_h = 0.0f, carried = 0.0f;
    if (outer && unit < given.outer_width) at_h = to_float(outer[slot * given.outer_member + b * given.outer_stride + unit]);
    if (dh && !(clear && clear[slot * given.clear_member + given.batch + b])) {
        at_h += dh[own];
        carried = dc[own];
    }
    const float at_c = at_h * o * (1.0f - tc * tc) + carried;
    dc[own] = at_c * f;
    store4(given.dz + four, make_float4(at_c * g * i * (1.0f - i), at_c * was * f * (1.0f - f), at_c * i * (1.0f - g * g),
                                  at_h * tc * o * (1.0f - o)));
}

#define NAMES(T, SUFFIX)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256) sequence_##SUFFIX(const SequenceArgs<T> given) { sequence<T>(given); } \
    extern "C" __global__ void __launch_bounds__(256) cell_##SUFFIX(const CellArgs<T> given) { cell<T>(given); }             \
    extern "C" __global__ void __launch_bounds__(256) back_##SUFFIX(const BackArgs<T> given) { back<T>(given); }

NAMES(float, f32)
NAMES(bf16, bf16)
