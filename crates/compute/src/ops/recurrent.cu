// What a call of recurrent layers has beside them: inputs from rows of the table and dense extras, states and resets in, every h and states
// out, gradients at h in. The layers themselves are `lstm.cu` or `lstm_steps.cu`; the plain twin is `ops/recurrent.rs`.
//
// The caller's arrays are [T, P, B, ·] in f32, steps first. Those of the layers are member by member: [P, T, B, ·] of T for the way step by step
// (names end in `_bf16` or `_f32`), or the words of `lstm.cu` (names end in `_words`): [P, blocks, T, NT, threads] pairs of rows, thread 4 u + q
// of tile j with unit u of rows 8 j + 2 q and the next. A warp of words is 8 rows × 8 neighbours, so whole sectors are read and written.
//
// Every kernel has blocks of 256 threads, no shared memory, and returns at once for slots that take no part. A step of a member has so many
// elements, and ceil(elements / 256) blocks; the grid is [blocks of a step × steps, P]. An element is what a thread does, said with each. Of the
// words a step is one of one block of `lstm.cu`. No sums, so nothing here can change a bit.
// registers: 40

#include "../population/population.cuh"

// Which of its block's elements a thread has, where all are one step.
__device__ __forceinline__ u64 element() { return (u64)blockIdx.x * 256 + threadIdx.x; }

// Which step, and which of its elements, [rows, width].
struct Place {
    u32 step, row, column;
    __device__ __forceinline__ Place(u32 rows, u32 width) {
        const u32 blocks = (rows * width + 255) / 256;
        step = blockIdx.x / blocks;
        const u32 at = (blockIdx.x - step * blocks) * 256 + threadIdx.x;
        row = at / width;
        column = at - row * width;
    }
};

// What the lowest layer reads.
struct Read {
    const float* table;   // [table_rows, stride]
    u64 stride;
    u64 table_rows;
    const u32* at;        // [T, P, B]
    const float* mean;    // [P, features], or null both
    const float* inverse;
    const float* extras;  // [T, P, B, extra]
    u32 members;
    u32 batch;
    u32 features;
    u32 extra;
};

// Column `column` of what row `b` reads at step `t`. A row the table does not have is NaN, which nobody overlooks.
__device__ __forceinline__ float input(const Read& r, u32 slot, u32 t, u32 b, u32 column) {
    if (column >= r.features + r.extra || b >= r.batch) return 0.0f;
    const u64 place = ((u64)t * r.members + slot) * r.batch + b;
    if (column >= r.features) return r.extras[place * r.extra + column - r.features];
    const u32 row = r.at[place];
    if (row >= r.table_rows) return __int_as_float(0x7fc00000);
    const float x = r.table[row * r.stride + column];
    const u64 scale = (u64)slot * r.features + column;
    // No fma here: the bits are to be those of the CPU.
    return r.mean ? __fmul_rn(__fsub_rn(x, r.mean[scale]), r.inverse[scale]) : x;
}

// ---------------------------------------------------------------------------------------------------------------------------------
// read: inputs of all steps. An element is a number of [B, wide], or a word.
//
//   states [P], wide; `window` for the words
//   out       _T: [P, T, B, out_stride] of T, member stride out_member
//   words     [P, blocks, T, 2, NT, 4 × wide], of which the first of each 2 is written: words as a layer below would have left them
// ---------------------------------------------------------------------------------------------------------------------------------
template <typename T>
__device__ __forceinline__ void read(const State* __restrict__ states, const Read& r, u32 wide, T* __restrict__ out, u64 out_stride,
                                     u64 out_member) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Place p(r.batch, wide);
    if (p.row >= r.batch) return;
    const u64 row = (u64)p.step * r.batch + p.row;
    out[slot * out_member + row * out_stride + p.column] = round_to<T>(input(r, slot, p.step, p.row, p.column));
}

// A thread's word of [blocks, window, tiles, threads]: which pair of rows, and which unit.
struct Word {
    u32 block, t, tile, thread;
    __device__ __forceinline__ Word(u32 window, u32 tiles, u32 threads) {
        const Place p(tiles, threads);
        block = p.step / window, t = p.step - block * window;
        tile = p.row, thread = p.column;
    }
    __device__ __forceinline__ u32 row(u32 tiles) const { return (block * tiles + tile) * 8 + thread % 4 * 2; }
    __device__ __forceinline__ u32 unit() const { return thread / 4; }
};

extern "C" __global__ void __launch_bounds__(256) read_words(const State* states, const Read r, u32 window, u32 blocks, u32 tiles, u32 threads,
                                                             u32* words) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Word w(window, tiles, threads);
    if (w.tile >= tiles) return;
    const u32 row = w.row(tiles);
    const float x = input(r, slot, w.t, row, w.unit()), y = input(r, slot, w.t, row + 1, w.unit());
    const u64 step = ((u64)slot * blocks + w.block) * window + w.t;
    words[(step * 2 * tiles + w.tile) * threads + w.thread] = pack(x, y);
}

// ---------------------------------------------------------------------------------------------------------------------------------
// show: h of some steps, or of one. An element is a number of [B, width], or a word.
//
//   states [P]
//   from          _T: [P, T, B, from_stride] of T, member stride from_member
//   words         [P, blocks, window, 2, NT, threads]; `first` is the step that goes first
//   to            [T, P, B, width] f32
//   clear         _T: rows that are shown as 0, member stride clear_member; or null
// ---------------------------------------------------------------------------------------------------------------------------------
template <typename T>
__device__ __forceinline__ void show(const State* __restrict__ states, u32 batch, u32 width, const T* __restrict__ from,
                                     u64 from_stride, u64 from_member, float* __restrict__ to, const u8* __restrict__ clear,
                                     u64 clear_member) {
    const u32 slot = blockIdx.y, members = gridDim.y;
    if (idle(states[slot], STEP)) return;
    const Place p(batch, width);
    if (p.row >= batch) return;
    const u64 row = (u64)p.step * batch + p.row;
    const bool zero = clear && clear[slot * clear_member + p.row];
    const float x = zero ? 0.0f : to_float(from[slot * from_member + row * from_stride + p.column]);
    to[(((u64)p.step * members + slot) * batch + p.row) * width + p.column] = x;
}

extern "C" __global__ void __launch_bounds__(256) show_words(const State* states, u32 first, u32 steps, u32 batch, u32 width, const u32* words,
                                                             u32 window, u32 blocks, u32 tiles, u32 threads, float* to) {
    const u32 slot = blockIdx.y, members = gridDim.y;
    if (idle(states[slot], STEP)) return;
    const Word w(steps, tiles, threads);
    if (w.tile >= tiles || w.unit() >= width) return;
    const u64 step = ((u64)slot * blocks + w.block) * window + first + w.t;
    const u32 word = words[(step * 2 * tiles + w.tile) * threads + w.thread], row = w.row(tiles);
    float* at = to + (((u64)w.t * members + slot) * batch + row) * width + w.unit();
    if (row < batch) at[0] = low_half(word);
    if (row + 1 < batch) at[width] = high_half(word);
}

// ---------------------------------------------------------------------------------------------------------------------------------
// bring: the gradient at every h, at the last, or at both, as a layer above would have left it. An element is a number of [B, units], or
// a word.
//
//   states [P], steps, batch
//   every         [T, P, B, width] f32, or null
//   last          [P, B, width] f32, or null
//   to            _T: [P, T, B, units] of T
//   words         [P, blocks, T, NT, threads]
// ---------------------------------------------------------------------------------------------------------------------------------
__device__ __forceinline__ float gradient(const float* every, const float* last, u32 members, u32 slot, u32 steps, u32 t, u32 batch, u32 b,
                                          u32 width, u32 column) {
    if (column >= width || b >= batch) return 0.0f;
    float x = 0.0f;
    if (every) x += every[(((u64)t * members + slot) * batch + b) * width + column];
    if (last && t + 1 == steps) x += last[((u64)slot * batch + b) * width + column];
    return x;
}

template <typename T>
__device__ __forceinline__ void bring(const State* __restrict__ states, u32 steps, u32 batch, u32 width, u32 units, const float* every,
                                      const float* last, T* __restrict__ to) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Place p(batch, units);
    if (p.row >= batch) return;
    const float x = gradient(every, last, gridDim.y, slot, steps, p.step, batch, p.row, width, p.column);
    to[(((u64)slot * steps + p.step) * batch + p.row) * units + p.column] = round_to<T>(x);
}

extern "C" __global__ void __launch_bounds__(256) bring_words(const State* states, u32 steps, u32 batch, u32 width, const float* every,
                                                              const float* last, u32 blocks, u32 tiles, u32 threads, u32* words) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Word w(steps, tiles, threads);
    if (w.tile >= tiles) return;
    const u32 row = w.row(tiles);
    const float x = gradient(every, last, gridDim.y, slot, steps, w.t, batch, row, width, w.unit());
    const float y = gradient(every, last, gridDim.y, slot, steps, w.t, batch, row + 1, width, w.unit());
    words[((((u64)slot * blocks + w.block) * steps + w.t) * tiles + w.tile) * threads + w.thread] = pack(x, y);
}

// ---------------------------------------------------------------------------------------------------------------------------------
// begin: what a window begins with, for the way step by step. An element is a number of [B, units].
//
//   states [P], batch, units
//   h, c          [P, B, units] f32, or null both for zeros
//   clear         [P, B] not 0 where the first step begins anew, member stride clear_member; or null
//   to_h          where the first step reads h, of T: row stride h_stride, member stride h_member
//   carry         [P, B, units] c
//   before        the same of T, as the way back sees it; or null
// ---------------------------------------------------------------------------------------------------------------------------------
template <typename T>
__device__ __forceinline__ void begin(const State* __restrict__ states, u32 batch, u32 units, const float* h, const float* c,
                                      const u8* __restrict__ clear, u64 clear_member, T* __restrict__ to_h, u64 h_stride, u64 h_member,
                                      float* __restrict__ carry, T* __restrict__ before) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Place p(batch, units);
    if (p.row >= batch) return;
    const u64 own = ((u64)slot * batch + p.row) * units + p.column;
    const bool zero = !h || (clear && clear[slot * clear_member + p.row]);
    const float own_c = zero ? 0.0f : c[own];
    to_h[slot * h_member + p.row * h_stride + p.column] = round_to<T>(zero ? 0.0f : h[own]);
    carry[own] = own_c;
    if (before) before[own] = round_to<T>(own_c);
}

// Resets member by member. An element is one of [B]; from [T, P, B] to [P, T, B].
extern "C" __global__ void __launch_bounds__(256) resets(const State* states, u32 window, u32 batch, const u8* from, u8* to) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Place p(batch, 1);
    if (p.row >= batch) return;
    to[((u64)slot * window + p.step) * batch + p.row] = from[((u64)p.step * gridDim.y + slot) * batch + p.row];
}

// A row of each member to another place, or added to what is there. An element is one of n.
extern "C" __global__ void __launch_bounds__(256) rows(const State* states, u64 n, const float* from, u64 from_stride, float* to, u64 to_stride,
                                                       u32 add) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const u64 at = element();
    if (at >= n) return;
    const float x = from[slot * from_stride + at];
    float* place = to + slot * to_stride + at;
    *place = add ? *place + x : x;
}

// The weights as products read them. An element is one of a member's row.
extern "C" __global__ void __launch_bounds__(256) take(const State* states, u64 params, const float* from, u64 from_stride, float* master,
                                                       bf16* shadow) {
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const u64 at = element();
    if (at >= params) return;
    const float x = from[slot * from_stride + at];
    master[slot * params + at] = x;
    if (shadow) shadow[slot * params + at] = __float2bfloat16_rn(x);
}

// The names.
#define NAMES(T, SUFFIX)                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) read_##SUFFIX(const State* states, const Read r, u32 wide, T* out,                 \
                                                                    u64 out_stride, u64 out_member) {                                    \
        read<T>(states, r, wide, out, out_stride, out_member);                                                                           \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) show_##SUFFIX(const State* states, u32 batch, u32 width, const T* from,            \
                                                                    u64 from_stride, u64 from_member, float* to, const u8* clear,        \
                                                                    u64 clear_member) {                                                  \
        show<T>(states, batch, width, from, from_stride, from_member, to, clear, clear_member);                                          \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) bring_##SUFFIX(const State* states, u32 steps, u32 batch, u32 width, u32 units,    \
                                                                     const float* every, const float* last, T* to) {                    \
        bring<T>(states, steps, batch, width, units, every, last, to);                                                                   \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) begin_##SUFFIX(const State* states, u32 batch, u32 units, const float* h,          \
                                                                     const float* c, const u8* clear, u64 clear_member, T* to_h,         \
                                                                     u64 h_stride, u64 h_member, float* carry, T* before) {              \
        begin<T>(states, batch, units, h, c, clear, clear_member, to_h, h_stride, h_member, carry, before);                              \
    }
NAMES(float, f32)
NAMES(bf16, bf16)
