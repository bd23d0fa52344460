// What a call of recurrent layers has beside them: inputs from rows of the table and dense extras, states and resets
// in, every h and states out, gradients at h in. The layers themselves are `lstm.cu` or `lstm_steps.cu`; the plain twin
// is `ops/recurrent.rs`.
//
// The caller's arrays are [T, P, B, ·] in f32, steps first. Those of the layers are member by member: [P, T, B, ·] of T
// for the way step by step (names end in `_bf16` or `_f32`), or the words of `lstm.cu` (names end in `_words`): [P,
// blocks, T, NT, threads] pairs of rows, thread 4 u + q of tile j with unit u of rows 8 j + 2 q and the next. A warp of
// words is 8 rows × 8 neighbours, so whole sectors are read and written.
//
// Every kernel has blocks of 256 threads, no shared memory, and returns at once for slots that take no part. A step of
// a member has so many elements, and ceil(elements / 256) blocks; the grid is [blocks of a step × steps, P]. An element
// is what a thread does, said with each. Of the words a step is one of one block of `lstm.cu`. No sums, so nothing here
// can change a bit.
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

// ---------------------------------------------------------------------------------------------------------------------
// read: inputs of all steps. An element is a number of [B, wide].
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct ReadArgs {
    const SlotState* states; // [P]
    T* out;              // [P, T, B, out_stride]
    u64 out_stride;
    u64 out_member;      // from slot to slot
    Read r;              // what is read
    u32 wide;
};

template <typename T>
__device__ __forceinline__ void read(const ReadArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    T* __restrict__ out = given.out;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Place p(given.r.batch, given.wide);
    if (p.row >= given.r.batch) return;
    const u64 row = (u64)p.step * given.r.batch + p.row;
    out[slot * given.out_member + row * given.out_stride + p.column] = round_to<T>(input(given.r, slot, p.step, p.row, p.column));
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
// ---------------------------------------------------------------------------------------------------------------------
// read_words: the same as words that a layer below would have left. An element is a word.
// ---------------------------------------------------------------------------------------------------------------------
struct ReadWordsArgs {
    const SlotState* states; // [P]
    u32* words;          // [P, blocks, T, 2, NT, 4 × wide], of which the first of each 2 is written
    Read r;
    u32 window;
    u32 blocks;
    u32 tiles;
    u32 threads;
};

extern "C" __global__ void __launch_bounds__(256) read_words(const ReadWordsArgs given) {
    const u32 slot = blockIdx.y;
    if (idle(given.states[slot], STEP)) return;
    const Word w(given.window, given.tiles, given.threads);
    if (w.tile >= given.tiles) return;
    const u32 row = w.row(given.tiles);
    const float x = input(given.r, slot, w.t, row, w.unit()), y = input(given.r, slot, w.t, row + 1, w.unit());
    const u64 step = ((u64)slot * given.blocks + w.block) * given.window + w.t;
    given.words[(step * 2 * given.tiles + w.tile) * given.threads + w.thread] = pack(x, y);
}

// ---------------------------------------------------------------------------------------------------------------------
// show: h of some steps, or of one. An element is a number of [B, width].
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct ShowArgs {
    const SlotState* states; // [P]
    const T* from;       // [P, T, B, from_stride]
    u64 from_stride;
    u64 from_member;     // from slot to slot
    float* to;           // [T, P, B, width] f32
    const u8* clear;     // rows that are shown as 0, or null
    u64 clear_member;
    u32 batch;
    u32 width;
};

template <typename T>
__device__ __forceinline__ void show(const ShowArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const T* __restrict__ from = given.from;
    float* __restrict__ to = given.to;
    const u8* __restrict__ clear = given.clear;
    const u32 slot = blockIdx.y, members = gridDim.y;
    if (idle(states[slot], STEP)) return;
    const Place p(given.batch, given.width);
    if (p.row >= given.batch) return;
    const u64 row = (u64)p.step * given.batch + p.row;
    const bool zero = clear && clear[slot * given.clear_member + p.row];
    const float x = zero ? 0.0f : to_float(from[slot * given.from_member + row * given.from_stride + p.column]);
    to[(((u64)p.step * members + slot) * given.batch + p.row) * given.width + p.column] = x;
}
// ---------------------------------------------------------------------------------------------------------------------
// show_words: the same from words. An element is a word.
// ---------------------------------------------------------------------------------------------------------------------
struct ShowWordsArgs {
    const SlotState* states; // [P]
    const u32* words;    // [P, blocks, window, 2, NT, threads]
    float* to;           // [T, P, B, width] f32
    u32 first;           // the step that goes first
    u32 steps;
    u32 batch;
    u32 width;
    u32 window;
    u32 blocks;
    u32 tiles;
    u32 threads;
};

extern "C" __global__ void __launch_bounds__(256) show_words(const ShowWordsArgs given) {
    const u32 slot = blockIdx.y, members = gridDim.y;
    if (idle(given.states[slot], STEP)) return;
    const Word w(given.steps, given.tiles, given.threads);
    if (w.tile >= given.tiles || w.unit() >= given.width) return;
    const u64 step = ((u64)slot * given.blocks + w.block) * given.window + given.first + w.t;
    const u32 word = given.words[(step * 2 * given.tiles + w.tile) * given.threads + w.thread], row = w.row(given.tiles);
    float* at = given.to + (((u64)w.t * members + slot) * given.batch + row) * given.width + w.unit();
    if (row < given.batch) at[0] = low_half(word);
    if (row + 1 < given.batch) at[given.width] = high_half(word);
}

// The gradient at h of step t.
__device__ __forceinline__ float gradient(const float* every, const float* last, u32 members, u32 slot, u32 steps, u32 t, u32 batch, u32 b,
                                          u32 width, u32 column) {
    if (column >= width || b >= batch) return 0.0f;
    float x = 0.0f;
    if (every) x += every[(((u64)t * members + slot) * batch + b) * width + column];
    if (last && t + 1 == steps) x += last[((u64)slot * batch + b) * width + column];
    return x;
}
// ---------------------------------------------------------------------------------------------------------------------
// bring: the gradient at every h, at the last, or at both, as a layer above would have left it. An element is a number
// of [B, units].
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct BringArgs {
    const SlotState* states; // [P]
    const float* every;  // [T, P, B, width] f32, or null
    const float* last;   // [P, B, width] f32, or null
    T* to;               // [P, T, B, units]
    u32 steps;
    u32 batch;
    u32 width;
    u32 units;
};

template <typename T>
__device__ __forceinline__ void bring(const BringArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    T* __restrict__ to = given.to;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Place p(given.batch, given.units);
    if (p.row >= given.batch) return;
    const float x = gradient(given.every, given.last, gridDim.y, slot, given.steps, p.step, given.batch, p.row, given.width, p.column);
    to[(((u64)slot * given.steps + p.step) * given.batch + p.row) * given.units + p.column] = round_to<T>(x);
}
// ---------------------------------------------------------------------------------------------------------------------
// bring_words: the same as words. An element is a word.
// ---------------------------------------------------------------------------------------------------------------------
struct BringWordsArgs {
    const SlotState* states; // [P]
    const float* every;  // as in `bring`
    const float* last;
    u32* words;          // [P, blocks, T, NT, threads]
    u32 steps;
    u32 batch;
    u32 width;
    u32 blocks;
    u32 tiles;
    u32 threads;
};

extern "C" __global__ void __launch_bounds__(256) bring_words(const BringWordsArgs given) {
    const u32 slot = blockIdx.y;
    if (idle(given.states[slot], STEP)) return;
    const Word w(given.steps, given.tiles, given.threads);
    if (w.tile >= given.tiles) return;
    const u32 row = w.row(given.tiles);
    const float x = gradient(given.every, given.last, gridDim.y, slot, given.steps, w.t, given.batch, row, given.width, w.unit());
    const float y = gradient(given.every, given.last, gridDim.y, slot, given.steps, w.t, given.batch, row + 1, given.width, w.unit());
    given.words[((((u64)slot * given.blocks + w.block) * given.steps + w.t) * given.tiles + w.tile) * given.threads + w.thread] = pack(x, y);
}

// ---------------------------------------------------------------------------------------------------------------------
// begin: what a window begins with, for the way step by step. An element is a number of [B, units].
// ---------------------------------------------------------------------------------------------------------------------
template <typename T> struct BeginArgs {
    const SlotState* states; // [P]
    const float* h;      // [P, B, units] f32, or null both for zeros
    const float* c;
    const u8* clear;     // [P, B] not 0 where the first step begins anew, or null
    u64 clear_member;
    T* to_h;             // where the first step reads h
    u64 h_stride;
    u64 h_member;
    float* carry;        // [P, B, units] c
    T* before;           // the same of T, as the way back sees it; or null
    u32 batch;
    u32 units;
};

template <typename T>
__device__ __forceinline__ void begin(const BeginArgs<T>& given) {
    const SlotState* __restrict__ states = given.states;
    const u8* __restrict__ clear = given.clear;
    T* __restrict__ to_h = given.to_h;
    float* __restrict__ carry = given.carry;
    T* __restrict__ before = given.before;
    const u32 slot = blockIdx.y;
    if (idle(states[slot], STEP)) return;
    const Place p(given.batch, given.units);
    if (p.row >= given.batch) return;
    const u64 own = ((u64)slot * given.batch + p.row) * given.units + p.column;
    const bool zero = !given.h || (clear && clear[slot * given.clear_member + p.row]);
    const float own_c = zero ? 0.0f : given.c[own];
    to_h[slot * given.h_member + p.row * given.h_stride + p.column] = round_to<T>(zero ? 0.0f : given.h[own]);
    carry[own] = own_c;
    if (before) before[own] = round_to<T>(own_c);
}

// ---------------------------------------------------------------------------------------------------------------------
// resets: member by member. An element is one of [B].
// ---------------------------------------------------------------------------------------------------------------------
struct ResetsArgs {
    const SlotState* states; // [P]
    const u8* from;      // [T, P, B]
    u8* to;              // [P, T, B]
    u32 window;
    u32 batch;
};

extern "C" __global__ void __launch_bounds__(256) resets(const ResetsArgs given) {
    const u32 slot = blockIdx.y;
    if (idle(given.states[slot], STEP)) return;
    const Place p(given.batch, 1);
    if (p.row >= given.batch) return;
    given.to[((u64)slot * given.window + p.step) * given.batch + p.row] = given.from[((u64)p.step * gridDim.y + slot) * given.batch + p.row];
}

// ---------------------------------------------------------------------------------------------------------------------
// rows: a row of each member to another place, or added to what is there. An element is one of n.
// ---------------------------------------------------------------------------------------------------------------------
struct RowsArgs {
    const SlotState* states; // [P]
    u64 n;
    const float* from;
    u64 from_stride;
    float* to;
    u64 to_stride;
    u32 add;
};

extern "C" __global__ void __launch_bounds__(256) rows(const RowsArgs given) {
    const u32 slot = blockIdx.y;
    if (idle(given.states[slot], STEP)) return;
    const u64 at = element();
    if (at >= given.n) return;
    const float x = given.from[slot * given.from_stride + at];
    float* place = given.to + slot * given.to_stride + at;
    *place = given.add ? *place + x : x;
}

// ---------------------------------------------------------------------------------------------------------------------
// take: the weights as products read them. An element is one of a member's row.
// ---------------------------------------------------------------------------------------------------------------------
struct TakeArgs {
    const SlotState* states; // [P]
    u64 params;
    const float* from;
    u64 from_stride;
    float* master;       // [P, params]
    bf16* shadow;        // [P, params] or null
};

extern "C" __global__ void __launch_bounds__(256) take(const TakeArgs given) {
    const u32 slot = blockIdx.y;
    if (idle(given.states[slot], STEP)) return;
    const u64 at = element();
    if (at >= given.params) return;
    const float x = given.from[slot * given.from_stride + at];
    given.master[slot * given.params + at] = x;
    if (given.shadow) given.shadow[slot * given.params + at] = __float2bfloat16_rn(x);
}

#define NAMES(T, SUFFIX)                                                                                            \
    extern "C" __global__ void __launch_bounds__(256) read_##SUFFIX(const ReadArgs<T> given) { read<T>(given); }    \
    extern "C" __global__ void __launch_bounds__(256) show_##SUFFIX(const ShowArgs<T> given) { show<T>(given); }    \
    extern "C" __global__ void __launch_bounds__(256) bring_##SUFFIX(const BringArgs<T> given) { bring<T>(given); } \
    extern "C" __global__ void __launch_bounds__(256) begin_##SUFFIX(const BeginArgs<T> given) { begin<T>(given); }

NAMES(float, f32)
NAMES(bf16, bf16)
