// A recurrent layer (LSTM) step by step: what is left beside the products. The step is told in `population/backend.rs`, the order of launches
// in `cuda/engine/steps.rs`; the plain twin is `ops/lstm.rs`.
//
// Every kernel has a slot axis and returns at once for slots that take no part. Names end in the element type T of x, h, dz and of c as the
// way back sees it: `_bf16` or `_f32`. S = slots, T = window, B = batch, U = units (a multiple of 16), W = inputs of a step (`wide`, a multiple
// of 16). A layer reads rows [x, h of the step before] of W + U elements, so that a step is one product with the weights [W + U, U, 4].
//
// | kernel     | block | grid                        | dynamic shared | what                                                        |
// |------------|-------|-----------------------------|----------------|-------------------------------------------------------------|
// | sequence_T | 256   | [ceil(B × W / 4 / 256), T, S] | 0            | windows of a batch out of the table, scaled                 |
// | cell_T     | 256   | [ceil(B × U / 256), S]      | 0              | z to gates, c and h; a thread has one unit of one row       |
// | back_T     | 256   | [ceil(B × U / 256), S]      | 0              | the gradient at h to that of z                              |
//
// Forward, for each t: product z = [x_t, h] W, `cell`. Backward, for each t from the last: `back`, product dh = dz Whᵀ; at the end one product
// dW = [x, h]ᵀ dz over all steps, and dx = dz Wxᵀ for a layer below. Everything exact: expf, tanhf and divisions as the library has them.
// registers: 32

#include "../population/population.cuh"

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// ---------------------------------------------------------------------------------------------------------------------------------
// sequence: x of every step. The tail of a batch is zeros, as in `gather`, whose rows are read.
//
//   states [S], mode, batch
//   rows, live     [S, B] what `gather` chose; `live` is not read in mode 2
//   table, stride  [rows, stride] f32, stride a multiple of 4
//   map            [rows of the first table] this table's row for each, or null
//   features, wide columns that are read, and with zeros behind them
//   mean, inverse  [members, features] by state.index, or null both
//   out            [S, T, B, out_stride] of T, at its first column; member stride out_member
// ---------------------------------------------------------------------------------------------------------------------------------
template <typename T>
__device__ __forceinline__ void sequence(const State* __restrict__ states, u32 mode, u32 batch, const u32* __restrict__ rows,
                                         const float* __restrict__ live, const float* __restrict__ table, u64 stride,
                                         const u32* __restrict__ map, u32 features, u32 wide, const float* __restrict__ mean,
                                         const float* __restrict__ inverse, T* __restrict__ out, u64 out_stride, u64 out_member) {
    const u32 slot = blockIdx.z, t = blockIdx.y, window = gridDim.y;
    const State& state = states[slot];
    if (idle(state, mode)) return;
    const u32 pieces = wide / 4;
    const u32 at = blockIdx.x * 256 + threadIdx.x;
    const u32 b = at / pieces, column = (at - b * pieces) * 4;
    if (b >= batch) return;

    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const u64 place = (u64)slot * batch + b;
    // The tail is zeros: a bad number in a row that counts for nothing must not spoil the sums.
    if (column < features && (mode == ALWAYS || live[place] != 0.0f)) {
        u32 row = rows[place];
        if (map) row = map[row];
        const float4 v = load4(table + (row - (window - 1) + t) * stride + column);
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
        const u64 scale = (u64)state.index * features + column;
        for (u32 i = 0; i < 4; i++) {
            const bool real = column + i < features;
            // No fma here: the bits are to be those of the CPU.
            if (real && mean) x[i] = __fmul_rn(__fsub_rn(x[i], mean[scale + i]), inverse[scale + i]);
            if (!real) x[i] = 0.0f;
        }
    }
    store4(out + slot * out_member + ((u64)t * batch + b) * out_stride + column, make_float4(x[0], x[1], x[2], x[3]));
}

// ---------------------------------------------------------------------------------------------------------------------------------
// cell: the gates, the cell and h of one step.
//
//   states [S], mode, batch, units
//   first          1: c before this step is 0 and `carry` is not read
//   z              [S, B, U, 4] f32 at this step, member stride z_member: products without bias; with `cells` the gates take its place
//   bias           the f32 master [U, 4]; member stride params
//   carry          [S, B, U] f32: c, in place
//   cells          [S, B, U] of T at this step, member stride cells_member: c for the way back; null when there is none
//   next           where the next step of this layer reads h, or null: row stride next_stride, member stride next_member
//   above          where this step of the layer above reads it, or null
//   last           where the layers behind read it, or null: the first last_width units
//   clear          [S, B] not 0 where the next step begins anew: it finds c and h of 0; member stride clear_member; or null
// ---------------------------------------------------------------------------------------------------------------------------------
template <typename T>
__device__ __forceinline__ void cell(const State* __restrict__ states, u32 mode, u32 batch, u32 units, u32 first, float* __restrict__ z,
                                     u64 z_member, const float* __restrict__ bias, u64 params, float* __restrict__ carry,
                                     T* __restrict__ cells, u64 cells_member, T* next, u64 next_stride, u64 next_member, T* above,
                                     u64 above_stride, u64 above_member, T* last, u64 last_stride, u64 last_member, u32 last_width,
                                     const u8* __restrict__ clear, u64 clear_member) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], mode)) return;
    const u32 at = blockIdx.x * 256 + threadIdx.x;
    const u32 b = at / units, unit = at - b * units;
    if (b >= batch) return;

    float* sums = z + slot * z_member + (u64)at * 4;
    const float4 v = load4(sums), shift = load4(bias + slot * params + unit * 4);
    const float i = sigmoid(v.x + shift.x), f = sigmoid(v.y + shift.y), g = tanhf(v.z + shift.z), o = sigmoid(v.w + shift.w);
    float* kept = carry + (u64)slot * batch * units + at;
    const float c = first ? i * g : f * *kept + i * g;
    const bool anew = clear && clear[slot * clear_member + b];
    *kept = anew ? 0.0f : c;
    if (cells) {
        store4(sums, make_float4(i, f, g, o));
        cells[slot * cells_member + at] = round_to<T>(c);
    }
    const T h = round_to<T>(o * tanhf(c));
    if (next) next[slot * next_member + b * next_stride + unit] = anew ? round_to<T>(0.0f) : h;
    if (above) above[slot * above_member + b * above_stride + unit] = h;
    if (last && unit < last_width) last[slot * last_member + b * last_stride + unit] = h;
}

// ---------------------------------------------------------------------------------------------------------------------------------
// back: from the gradient at h of one step to that of its four sums.
//
//   states [S], batch, units; slots that step
//   gates          [S, B, U, 4] f32 at this step, member stride gates_member
//   cells, before  [S, B, U] of T at this step and at the one before, member strides cells_member and before_member; before is null where
//                  the first step begins with nothing
//   outer          the gradient at h from elsewhere, of T: row stride outer_stride, member stride outer_member, for the first outer_width
//                  units; or null
//   dh             [S, B, U] f32 from the step after; null at the last step
//   dc             [S, B, U] f32 from the step after, in place; not read at the last step
//   dz             [S, B, U, 4] of T at this step, member stride gates_member; may be `gates` itself in f32
//   clear          [S, B] not 0 where this step began anew, [B] behind them the same of the step after; member stride clear_member; or null
// ---------------------------------------------------------------------------------------------------------------------------------
template <typename T>
__device__ __forceinline__ void back(const State* __restrict__ states, u32 batch, u32 units, const float* gates, u64 gates_member,
                                     const T* __restrict__ cells, u64 cells_member, const T* __restrict__ before, u64 before_member,
                                     const T* __restrict__ outer, u64 outer_stride, u64 outer_member, u32 outer_width,
                                     const float* __restrict__ dh, float* __restrict__ dc, T* dz, const u8* __restrict__ clear,
                                     u64 clear_member) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const u32 at = blockIdx.x * 256 + threadIdx.x;
    const u32 b = at / units, unit = at - b * units;
    if (b >= batch) return;

    const u64 four = slot * gates_member + (u64)at * 4, own = (u64)slot * batch * units + at;
    const float4 gate = load4(gates + four);
    const float i = gate.x, f = gate.y, g = gate.z, o = gate.w;
    const float tc = tanhf(to_float(cells[slot * cells_member + at]));
    float was = before ? to_float(before[slot * before_member + at]) : 0.0f;
    if (clear && clear[slot * clear_member + b]) was = 0.0f;
    float at_h = 0.0f, carried = 0.0f;
    if (outer && unit < outer_width) at_h = to_float(outer[slot * outer_member + b * outer_stride + unit]);
    if (dh && !(clear && clear[slot * clear_member + batch + b])) {
        at_h += dh[own];
        carried = dc[own];
    }
    const float at_c = at_h * o * (1.0f - tc * tc) + carried;
    dc[own] = at_c * f;
    store4(dz + four, make_float4(at_c * g * i * (1.0f - i), at_c * was * f * (1.0f - f), at_c * i * (1.0f - g * g),
                                  at_h * tc * o * (1.0f - o)));
}

// The names.
#define NAMES(T, SUFFIX)                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) sequence_##SUFFIX(                                                                 \
        const State* states, u32 mode, u32 batch, const u32* rows, const float* live, const float* table, u64 stride, const u32* map,    \
        u32 features, u32 wide, const float* mean, const float* inverse, T* out, u64 out_stride, u64 out_member) {                       \
        sequence<T>(states, mode, batch, rows, live, table, stride, map, features, wide, mean, inverse, out, out_stride, out_member);    \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) cell_##SUFFIX(                                                                     \
        const State* states, u32 mode, u32 batch, u32 units, u32 first, float* z, u64 z_member, const float* bias, u64 params,           \
        float* carry, T* cells, u64 cells_member, T* next, u64 next_stride, u64 next_member, T* above, u64 above_stride,                 \
        u64 above_member, T* last, u64 last_stride, u64 last_member, u32 last_width, const u8* clear, u64 clear_member) {                \
        cell<T>(states, mode, batch, units, first, z, z_member, bias, params, carry, cells, cells_member, next, next_stride,             \
                next_member, above, above_stride, above_member, last, last_stride, last_member, last_width, clear, clear_member);        \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) back_##SUFFIX(                                                                     \
        const State* states, u32 batch, u32 units, const float* gates, u64 gates_member, const T* cells, u64 cells_member,               \
        const T* before, u64 before_member, const T* outer, u64 outer_stride, u64 outer_member, u32 outer_width, const float* dh,        \
        float* dc, T* dz, const u8* clear, u64 clear_member) {                                                                           \
        back<T>(states, batch, units, gates, gates_member, cells, cells_member, before, before_member, outer, outer_stride,              \
                outer_member, outer_width, dh, dc, dz, clear, clear_member);                                                             \
    }
NAMES(float, f32)
NAMES(bf16, bf16)
