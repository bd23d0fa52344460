// An LSTM over whole windows, forward and backward, each in one kernel: bf16 products on tensor cores, f32 sums, cells
// in registers.
//
// The step is told in `population/backend.rs`. A block owns R = 8 × NT rows of one member for the whole window, so
// nothing is waited for across blocks. Products are taken transposed, gates × rows = Wᵀ × [x, h]ᵀ: warp w owns units 8w
// .. 8w+7, its two tiles of 16 gates are (i, f) and (g, o) of those units, and so lane (g, t) holds all four gates of
// unit 8w + g for rows 2t and 2t+1 of every tile of 8 rows, with no exchange. A pair of rows is one word. Words are
// kept in that order everywhere: in shared memory a tile is [column][row], which `ldmatrix` reads both ways, and what
// is saved for the backward pass is [step][word][thread], whole lines written and read by each warp. In the backward
// pass the gate gradients are at once the left operand of the weight gradient, which stays in registers for the whole
// window.
//
// Weights lie as [wide + units + 1, units, 4]: rows are inputs, then h, then the bias; gates i, f, g, o of a unit side
// by side. Kernels are made for F = 16 × KX inputs and H = 16 × U units; a smaller net runs in the next larger kernel
// on zeros.
//
// | kernel                        | block  | grid               | dynamic shared                             |
// |-------------------------------|--------|--------------------|--------------------------------------------|
// | lstm_forward_{KX}_{U}_{NT}    | 64 × U | [ceil(B / R), S]   | 0                                          |
// | lstm_backward_{KX}_{U}_{NT}   | 128 × U | [ceil(B / R), S]  | `Shape::dynamic` of cuda/engine/fused.rs   |
//
// Registers are what limits these kernels: 512 threads have 128 each. ptxas wants a few more for the widest; what it
// spills is read back from the first cache. Variants that spill nothing were made by moving work to the other warps and
// were slower: 497 instead of 448 µs for 32 members of 16x50-lstm64-3, batch 512, on an H200.
// registers: 255
// spills: 320

#include "../population/population.cuh"
#include "../random/random.cuh"
#include "tensor.cuh"

// What both passes are given; what a pass does not need is null. `blocks` is gridDim.x.
struct Args {
    const SlotState* states;  // [S]
    const EpochState* epochs; // [S] read with choose = 1 only
    u64 seed;
    const u32* lists;         // all lists of samples, one behind the other
    u32* rows;                // [S, B] ids of rows of the first table
    float* live;              // [S, B] 1, or 0 for the tail
    const float* table;       // [rows, stride]; null where the input is `below`
    u64 stride;
    const u32* map;           // this table's row for each of the first table's, or null
    const float* mean;        // [members, features] by state.index, or null both
    const float* inverse;
    const u32* valid_list;    // [members]
    const u32* valid_count;   // [members]
    const u32* chunk;         // [1]
    const u32* below;         // what the layer below saved; null for the table
    const bf16* weights;      // [S, params] from this layer's first weight on
    const float* master;      // the same in f32, for the bias
    u64 params;
    u32* saved;               // [S, blocks, T, 2 (h, c), NT, threads] words; null if nothing is to be kept
    bf16* out;                // the last h: slot s, row b at s × out_member + b × out_stride; null below a layer
    u64 out_stride;
    u64 out_member;
    const float* h0;          // [S, B, units] what the window begins with, or null both for zeros
    const float* c0;
    const u8* reset;          // [S, T, B] 1 where h and c are cleared before the step, or null
    float* h_end;             // [S, B, units] what it ends with, or null both
    float* c_end;
    const bf16* delta;        // the gradient at `out`, with its strides; null for a layer below another
    const u32* above;         // [S, blocks, T, NT, threads] the gradient of every h, or null
    u32* down;                // the same for the layer below, with its threads, or null
    float* partial;           // [S, blocks, (wide + units + 1) × units × 4] gradients of weights and bias
    u32 batch;
    u32 mode;
    u32 choose;               // 1: find out the rows and write `rows` and `live`; 0: read them
    u32 features;
    u32 window;               // T
    u32 wide;                 // features padded to 16
    u32 units;                // hidden units padded to 16
    u32 out_width;
    u32 below_threads;        // threads of the layer below
    u32 spare;
};

template <int KX_, int U_, int NT_> struct Shape {
    static constexpr int KX = KX_, U = U_, NT = NT_;
    static constexpr u32 F = 16 * KX, H = 16 * U, K = F + H, R = 8 * NT, THREADS = 64 * U, WARPS = 2 * U;
    static constexpr int KS = KX + U;              // products of depth 16
    static constexpr u32 XS = NT == 4 ? 40 : 24;   // elements of a tile's row: 8 rows fall on different banks
    static constexpr int PIECES = (R / 2 * F + THREADS - 1) / THREADS; // pieces of 2 rows a thread gathers
    // Tiles of 8 columns whose gradients the recurrence's warps add up.
    static constexpr int OWN = KX == 4 ? 2 * U : KX == 2 && U == 4 ? 4 : 0;
    // The recurrence's warps add up the bias too, where helpers want registers.
    static constexpr bool SUMS = KX == 1 && U == 4;
    // Weights that take gradients back to h lie in registers, otherwise in shared memory.
    static constexpr bool HELD = U < 4;
    static constexpr u32 WS = K + 8;               // elements of a row of weights in shared memory
};

__device__ __forceinline__ float tanh_fast(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float sigmoid_fast(float x) { return fmaf(tanh_fast(0.5f * x), 0.5f, 0.5f); }

// Two numbers as a word of bf16, the first in the low half.
__device__ __forceinline__ u32 pair(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

template <bool TRANSPOSED> __device__ __forceinline__ void load_two(u32& a, u32& b, u32 address) {
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n" : "=r"(a), "=r"(b) : "r"(address) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n" : "=r"(a), "=r"(b) : "r"(address) : "memory");
}

// C += A B with a depth of 8.
__device__ __forceinline__ void mma8(float (&c)[4], u32 a0, u32 a1, u32 b0) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
}

// Waits for the two warps that share a tile of 16 units.
__device__ __forceinline__ void pair_barrier() { asm volatile("bar.sync %0, 64;" ::"r"(1 + threadIdx.x / 64) : "memory"); }

// The four gates of unit `unit` for input `k` of the kernel, zeros outside of the net.
template <typename S> __device__ __forceinline__ uint2 gates(const Args& a, const bf16* w, u32 k, u32 unit) {
    const bool hidden = k >= S::F;
    const u32 row = hidden ? a.wide + k - S::F : k;
    if (unit >= a.units || (hidden ? k - S::F >= a.units : k >= a.wide)) return make_uint2(0, 0);
    return *reinterpret_cast<const uint2*>(w + ((u64)row * a.units + unit) * 4);
}

__device__ __forceinline__ u32 lows(u32 a, u32 b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ u32 highs(u32 a, u32 b) { return __byte_perm(a, b, 0x7632); }

// Weights of this warp's gates as left operands, [K / 16][(i, f), (g, o)].
template <typename S> __device__ __forceinline__ void hold_weights(const Args& a, const bf16* w, u32 (&held)[S::KS][2][4]) {
    const u32 lane = threadIdx.x % 32, unit = threadIdx.x / 32 * 8 + lane / 4, t = lane % 4;
#pragma unroll
    for (int ks = 0; ks < S::KS; ks++) {
        const u32 k = 16 * ks + 2 * t;
        const uint2 a0 = gates<S>(a, w, k, unit), a1 = gates<S>(a, w, k + 1, unit);
        const uint2 b0 = gates<S>(a, w, k + 8, unit), b1 = gates<S>(a, w, k + 9, unit);
        held[ks][0][0] = lows(a0.x, a1.x), held[ks][0][1] = highs(a0.x, a1.x);
        held[ks][0][2] = lows(b0.x, b1.x), held[ks][0][3] = highs(b0.x, b1.x);
        held[ks][1][0] = lows(a0.y, a1.y), held[ks][1][1] = highs(a0.y, a1.y);
        held[ks][1][2] = lows(b0.y, b1.y), held[ks][1][3] = highs(b0.y, b1.y);
    }
}

// Brings a step's inputs into a tile: one column of 2 rows a piece from the table, or words of the layer below. Asked
// for one step ahead of being laid down, so that nobody waits for memory. Steps are asked for in order, up or down. A
// thread's pieces are all of one column, so its scale stays in registers.
template <typename S, int STEP_> struct Inputs {
    const Args& a;
    const u32* below;               // this block's words
    u32 thread;
    u32 dead;                       // a bit for each row that counts for nothing: its inputs are zeros
    float mean, inverse;            // of this thread's column
    const float* at[2 * S::PIECES]; // what is asked for next
    float raw[2 * S::PIECES];

    // `start` and `alive` are in shared memory and complete; `t` is the first step that is asked for.
    __device__ __forceinline__ Inputs(const Args& a, const SlotState& state, const u32* start, const u8* alive, u32 thread, u32 t)
        : a(a), below(nullptr), thread(thread), dead(0), mean(0.0f), inverse(1.0f) {
        const u32 column = thread % S::F;
        if (a.below) {
            const u64 block = (u64)blockIdx.y * gridDim.x + blockIdx.x;
            below = a.below + block * a.window * (2 * S::NT * a.below_threads);
            return;
        }
        // Columns of padding read something that is there and lay zeros down.
        const u32 real = column < a.features ? column : 0;
        if (a.mean) {
            mean = a.mean[(u64)state.index * a.features + real];
            inverse = a.inverse[(u64)state.index * a.features + real];
        }
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            const u32 row = (thread + i * S::THREADS) / S::F * 2;
#pragma unroll
            for (int s = 0; s < 2; s++) {
                const u32 own = row < S::R ? row + s : 0;
                at[2 * i + s] = a.table + (u64)(start[own] + t) * a.stride + real;
                if (column >= a.features || !alive[own]) dead |= 1u << (2 * i + s);
            }
        }
    }

    __device__ __forceinline__ void ask() {
        if (below) return;
#pragma unroll
        for (int i = 0; i < 2 * S::PIECES; i++) {
            raw[i] = *at[i];
            at[i] += STEP_ * (i64)a.stride;
        }
    }

    __device__ __forceinline__ void lay(bf16* tile, u32 t) const {
        if (below) {
            const u32 units = a.below_threads / 4;
            for (u32 i = thread; i < S::NT * units; i += S::THREADS)
                copy_async(shared_address(tile + i % units * S::XS + i / units * 8), below + (u64)t * (8 * S::NT * units) + 4 * i, true);
            return;
        }
        const u32 column = thread % S::F;
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            const u32 row = (thread + i * S::THREADS) / S::F * 2;
            if (row >= S::R) continue;
            // No fma here: the bits are to be those of the CPU.
            float x = __fmul_rn(__fsub_rn(raw[2 * i], mean), inverse), y = __fmul_rn(__fsub_rn(raw[2 * i + 1], mean), inverse);
            if (dead & 1u << 2 * i) x = 0.0f;
            if (dead & 2u << 2 * i) y = 0.0f;
            reinterpret_cast<u32*>(tile + column * S::XS)[row / 2] = pair(x, y);
        }
    }
};

// Which rows this block has; all threads call it, and it ends with nobody waited for.
template <typename S>
__device__ __forceinline__ void find_rows(const Args& a, const SlotState& state, u32* start, u8* alive) {
    if (threadIdx.x >= S::R) return;
    const u32 own = blockIdx.x * S::R + threadIdx.x;
    const u64 place = (u64)blockIdx.y * a.batch + own;
    // Rows behind the batch or the list count for nothing; they read the first sample's window, which is there.
    bool inside = own < a.batch;
    u32 row;
    if (a.choose) {
        u64 from;
        if (a.mode == SCORE) {
            const u64 sample = (u64)*a.chunk * a.batch + own;
            inside = inside && sample < a.valid_count[state.index];
            from = (u64)a.valid_list[state.index] + (inside ? sample : 0);
        } else {
            const EpochState& epoch = a.epochs[blockIdx.y];
            const u64 sample = (u64)epoch.cursor + own;
            inside = inside && sample < epoch.samples;
            from = epoch.list;
            if (inside) from += Permutation(epoch.samples, a.seed, state.id, epoch.done).at((u32)sample);
        }
        row = a.lists[from];
        if (own < a.batch) {
            a.rows[place] = row;
            a.live[place] = inside ? 1.0f : 0.0f;
        }
    } else {
        row = a.rows[inside ? place : (u64)blockIdx.y * a.batch];
        inside = inside && (a.mode == ALWAYS || a.live[place] != 0.0f);
    }
    if (a.map) row = a.map[row];
    start[threadIdx.x] = row - (a.window - 1);
    alive[threadIdx.x] = inside;
}

// Halves of a word to keep at step t: none of those rows that are cleared before it.
template <typename S> __device__ __forceinline__ u32 kept(const Args& a, u32 t, u32 row) {
    if (!a.reset) return 0xffffffffu;
    u32 mask = 0;
    const u8* at = a.reset + ((u64)blockIdx.y * a.window + t) * a.batch;
    if (row < a.batch && !at[row]) mask |= 0xffffu;
    if (row + 1 < a.batch && !at[row + 1]) mask |= 0xffff0000u;
    return mask;
}

// Number `unit` of two rows in an [S, B, units] array, zeros outside.
__device__ __forceinline__ float2 carried(const Args& a, const float* from, u32 row, u32 unit) {
    float2 v = make_float2(0.0f, 0.0f);
    if (!from || unit >= a.units) return v;
    from += ((u64)blockIdx.y * a.batch) * a.units + unit;
    if (row < a.batch) v.x = from[(u64)row * a.units];
    if (row + 1 < a.batch) v.y = from[(u64)(row + 1) * a.units];
    return v;
}

// z = Wᵀ tile + bias for this warp's gates, [(i, f), (g, o)][NT][4].
template <typename S, typename W>
__device__ __forceinline__ void gate_sums(u32 tile, const W& weights, const float4& bias, float (&z)[2][S::NT][4]) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < S::NT; j++) {
        z[0][j][0] = z[0][j][1] = bias.x, z[0][j][2] = z[0][j][3] = bias.y;
        z[1][j][0] = z[1][j][1] = bias.z, z[1][j][2] = z[1][j][3] = bias.w;
    }
    // Lane's row of the matrix it gives the address of: k, and which tile of 8 rows.
    const u32 at = tile + ((lane % 16) * S::XS + lane / 16 * 8) * 2;
#pragma unroll
    for (int ks = 0; ks < S::KS; ks++) {
        u32 a0[4], a1[4];
        weights(ks, 0, a0);
        weights(ks, 1, a1);
#pragma unroll
        for (int j = 0; j + 1 < S::NT; j += 2) {
            u32 b[4];
            load_matrices<true>(b, at + (16 * ks * S::XS + 8 * j) * 2);
            mma(z[0][j], a0, b[0], b[1]);
            mma(z[1][j], a1, b[0], b[1]);
            mma(z[0][j + 1], a0, b[2], b[3]);
            mma(z[1][j + 1], a1, b[2], b[3]);
        }
        if (S::NT % 2 == 1) {
            u32 b0, b1;
            load_two<true>(b0, b1, at + (16 * ks * S::XS + 8 * (S::NT - 1)) * 2);
            mma(z[0][S::NT - 1], a0, b0, b1);
            mma(z[1][S::NT - 1], a1, b0, b1);
        }
    }
}

// The last h of two rows, and what a window may end with.
__device__ __forceinline__ void give_out(const Args& a, u32 word, const float (&c)[2], u32 first, u32 unit) {
#pragma unroll
    for (int s = 0; s < 2; s++) {
        const u32 row = first + s;
        if (row >= a.batch) continue;
        const float h = s ? high_half(word) : low_half(word);
        if (a.out && unit < a.out_width) a.out[blockIdx.y * a.out_member + row * a.out_stride + unit] = __float2bfloat16_rn(h);
        if (a.h_end && unit < a.units) {
            const u64 at = ((u64)blockIdx.y * a.batch + row) * a.units + unit;
            a.h_end[at] = h;
            a.c_end[at] = c[s];
        }
    }
}

template <typename S> __device__ __forceinline__ void forward(const Args& a) {
    __shared__ __align__(16) bf16 tiles[2][S::K * S::XS];
    __shared__ u32 start[S::R];
    __shared__ u8 alive[S::R];
    const SlotState& state = a.states[blockIdx.y];
    if (idle(state, a.mode)) return;
    const u32 lane = threadIdx.x % 32, t4 = lane % 4, unit = threadIdx.x / 32 * 8 + lane / 4;
    find_rows<S>(a, state, start, alive);

    const bf16* w = a.weights + blockIdx.y * a.params;
    u32 held[S::KS][2][4];
    hold_weights<S>(a, w, held);
    float4 bias = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (unit < a.units) bias = load4(a.master + blockIdx.y * a.params + ((u64)(a.wide + a.units) * a.units + unit) * 4);
    const auto weights = [&](int ks, int m, u32(&to)[4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) to[i] = held[ks][m][i];
    };

    __syncthreads();
    Inputs<S, 1> inputs(a, state, start, alive, threadIdx.x, 0);
    inputs.ask();
    float c[S::NT][2];
    const u32 first = blockIdx.x * S::R + 2 * t4;
#pragma unroll
    for (int j = 0; j < S::NT; j++) {
        const float2 h0 = carried(a, a.h0, first + 8 * j, unit), c0 = carried(a, a.c0, first + 8 * j, unit);
        const u32 keep = kept<S>(a, 0, first + 8 * j);
        c[j][0] = keep & 0xffffu ? c0.x : 0.0f, c[j][1] = keep >> 16 ? c0.y : 0.0f;
        reinterpret_cast<u32*>(tiles[0] + (S::F + unit) * S::XS)[4 * j + t4] = pair(h0.x, h0.y) & keep;
    }
    inputs.lay(tiles[0], 0);
    copy_commit();
    if (a.window > 1) inputs.ask();
    u32* saved = nullptr;
    if (a.saved) {
        const u64 block = (u64)blockIdx.y * gridDim.x + blockIdx.x;
        saved = a.saved + block * a.window * (2 * S::NT * S::THREADS) + threadIdx.x;
    }
    copy_wait<0>();
    __syncthreads();

    for (u32 t = 0; t < a.window; t++) {
        const u32 now = t % 2;
        if (t + 1 < a.window) {
            inputs.lay(tiles[now ^ 1], t + 1);
            copy_commit();
            if (t + 2 < a.window) inputs.ask();
        }
        float z[2][S::NT][4];
        gate_sums<S>(shared_address(tiles[now]), weights, bias, z);
        bf16* next = tiles[now ^ 1] + (S::F + unit) * S::XS;
#pragma unroll
        for (int j = 0; j < S::NT; j++) {
            float h[2];
#pragma unroll
            for (int s = 0; s < 2; s++) {
                const float in = sigmoid_fast(z[0][j][s]), forget = sigmoid_fast(z[0][j][2 + s]);
                const float cell = tanh_fast(z[1][j][s]), gate = sigmoid_fast(z[1][j][2 + s]);
                c[j][s] = forget * c[j][s] + in * cell;
                h[s] = gate * tanh_fast(c[j][s]);
            }
            const u32 word = pair(h[0], h[1]);
            if (saved) {
                saved[j * S::THREADS] = word;
                saved[(S::NT + j) * S::THREADS] = pair(c[j][0], c[j][1]);
            }
            u32 keep = 0xffffffffu;
            if (a.reset && t + 1 < a.window) {
                keep = kept<S>(a, t + 1, first + 8 * j);
                if (!(keep & 0xffffu)) c[j][0] = 0.0f;
                if (!(keep >> 16)) c[j][1] = 0.0f;
            }
            reinterpret_cast<u32*>(next)[4 * j + t4] = word & keep;
        }
        if (saved) saved += 2 * S::NT * S::THREADS;
        copy_wait<0>();
        __syncthreads();
    }

    // The last h lies where the next step would have read it.
    const u32* words = reinterpret_cast<const u32*>(tiles[a.window % 2] + (S::F + unit) * S::XS);
#pragma unroll
    for (int j = 0; j < S::NT; j++) give_out(a, words[4 * j + t4], c[j], first + 8 * j, unit);
}

// Adds gate gradients × tile to the weight gradients of this warp's gates, N tiles of 8 columns; the tile's rows are
// what is added up. `left` has the first 16 rows, `rest[gate][2..]` the words of the others.
template <typename S, int N>
__device__ __forceinline__ void add_columns(u32 tile, const u32 (&left)[2][4], const u32 (&rest)[4][S::NT], float (&dw)[2][N][4]) {
    const u32 lane = threadIdx.x % 32;
    const u32 right = tile + lane % 8 * S::XS * 2;
    if constexpr (S::NT == 2) {
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            u32 b[4];
            load_matrices<false>(b, right + ((8 * n + lane / 16 * 8) * S::XS + lane / 8 % 2 * 8) * 2);
            mma(dw[0][n], left[0], b[0], b[1]);
            mma(dw[1][n], left[1], b[0], b[1]);
            mma(dw[0][n + 1], left[0], b[2], b[3]);
            mma(dw[1][n + 1], left[1], b[2], b[3]);
        }
    } else {
        const u32 column = lane / 8 < S::NT ? lane / 8 : S::NT - 1;
#pragma unroll
        for (int n = 0; n < N; n++) {
            u32 b[4];
            load_matrices<false>(b, right + (8 * n * S::XS + column * 8) * 2);
            mma(dw[0][n], left[0], b[0], b[1]);
            mma(dw[1][n], left[1], b[0], b[1]);
            if constexpr (S::NT == 3) {
                mma8(dw[0][n], rest[0][2], rest[1][2], b[2]);
                mma8(dw[1][n], rest[2][2], rest[3][2], b[2]);
            } else {
                const u32 more[2][4] = {{rest[0][2], rest[1][2], rest[0][S::NT - 1], rest[1][S::NT - 1]},
                                        {rest[2][2], rest[3][2], rest[2][S::NT - 1], rest[3][S::NT - 1]}};
                mma(dw[0][n], more[0], b[2], b[3]);
                mma(dw[1][n], more[1], b[2], b[3]);
            }
        }
    }
}

// This block's part of the gradients of weights and bias.
__device__ __forceinline__ float* partial_of(const Args& a) {
    const u64 block = (u64)blockIdx.y * gridDim.x + blockIdx.x;
    return a.partial + block * ((u64)(a.wide + a.units + 1) * a.units * 4);
}

// Where a thread is among those of its half of the block.
struct Lane {
    u32 thread;
    u32 warp;
    u32 lane;
    u32 t4; // of its rows: 2 t4 and 2 t4 + 1 of every tile of 8

    __device__ __forceinline__ explicit Lane(u32 thread) : thread(thread), warp(thread / 32), lane(thread % 32), t4(lane % 4) {}
};

// The gradients of the gates at step t, as [i, f, g, o][NT] words and in `grad`; what is left of dc belongs to the step
// before.
template <typename S>
__device__ __forceinline__ void gate_gradients(const Args& a, const Lane& own, bf16* grad, u32 t, u32 first, const float (&z)[2][S::NT][4], const float (&dh)[S::NT][2],
                                               float (&dc)[S::NT][2], u32 (&c_now)[S::NT], const u32 (&c_before)[S::NT],
                                               u32 (&d)[4][S::NT], float (&db)[4]) {
#pragma unroll
    for (int j = 0; j < S::NT; j++) {
        u32 before_word = c_before[j];
        if (a.reset) before_word &= kept<S>(a, t, first + 8 * j);
        float di[2], df[2], dg[2], dout[2];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const float in = sigmoid_fast(z[0][j][s]), forget = sigmoid_fast(z[0][j][2 + s]);
            const float cell = tanh_fast(z[1][j][s]), gate = sigmoid_fast(z[1][j][2 + s]);
            const float c = s ? high_half(c_now[j]) : low_half(c_now[j]);
            const float before = s ? high_half(before_word) : low_half(before_word);
            const float bent = tanh_fast(c);
            const float all = fmaf(dh[j][s] * gate, fmaf(-bent, bent, 1.0f), dc[j][s]);
            dout[s] = dh[j][s] * bent * fmaf(-gate, gate, gate);
            di[s] = all * cell * fmaf(-in, in, in);
            df[s] = all * before * fmaf(-forget, forget, forget);
            dg[s] = all * in * fmaf(-cell, cell, 1.0f);
            dc[j][s] = all * forget;
        }
        d[0][j] = pair(di[0], di[1]), d[1][j] = pair(df[0], df[1]);
        d[2][j] = pair(dg[0], dg[1]), d[3][j] = pair(dout[0], dout[1]);
        if constexpr (S::SUMS) {
#pragma unroll
            for (int q = 0; q < 4; q++) db[q] += low_half(d[q][j]) + high_half(d[q][j]);
        }
#pragma unroll
        for (int q = 0; q < 4; q++)
            reinterpret_cast<u32*>(grad + (own.warp * 32 + q * 8 + own.lane / 4) * S::XS)[4 * j + own.t4] = d[q][j];
        c_now[j] = c_before[j];
    }
}

// dh of the step before t: 16 units of two warps, each adding up half of the gates.
template <typename S>
__device__ __forceinline__ void hidden_sums(const Lane& own, const bf16* grad, const bf16* stored, u32 share, const u32 (&back)[S::HELD ? 2 * S::U : 1][4],
                                            float (&sum)[S::NT][4]) {
#pragma unroll
    for (int j = 0; j < S::NT; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) sum[j][i] = 0.0f;
    const u32 right = shared_address(grad) + ((own.lane % 16) * S::XS + own.lane / 16 * 8) * 2;
#pragma unroll
    for (int ks = 0; ks < 2 * S::U; ks++) {
        const u32 k = 16 * (share * 2 * S::U + ks);
        u32 left[4];
        if constexpr (!S::HELD) {
            const u32 turned = shared_address(stored) + ((own.lane / 16 * 8 + own.lane % 8) * S::WS + own.lane / 8 % 2 * 8) * 2;
            load_matrices<true>(left, turned + (k * S::WS + S::F + own.warp / 2 * 16) * 2);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) left[i] = back[ks][i];
        }
#pragma unroll
        for (int j = 0; j + 1 < S::NT; j += 2) {
            u32 b[4];
            load_matrices<true>(b, right + (k * S::XS + 8 * j) * 2);
            mma(sum[j], left, b[0], b[1]);
            mma(sum[j + 1], left, b[2], b[3]);
        }
        if (S::NT % 2 == 1) {
            u32 b0, b1;
            load_two<true>(b0, b1, right + (k * S::XS + 8 * (S::NT - 1)) * 2);
            mma(sum[S::NT - 1], left, b0, b1);
        }
    }
}

// All weights to shared memory; all threads of the block.
template <typename S>
__device__ __forceinline__ void store_weights(const Args& a, const bf16* w, bf16* stored) {
    for (u32 i = threadIdx.x; i < S::K * S::H; i += 2 * S::THREADS) {
        const u32 k = i / S::H, u = i % S::H;
        const uint2 four = gates<S>(a, w, k, u);
        u16* to = reinterpret_cast<u16*>(stored + (u / 8 * 32 + u % 8) * S::WS + k);
        to[0] = (u16)four.x, to[8 * S::WS] = (u16)(four.x >> 16), to[16 * S::WS] = (u16)four.y;
        to[24 * S::WS] = (u16)(four.y >> 16);
    }
}

// Weights that lead back to h, A[unit][gate]: rows 16 × (warp / 2) + g, columns by warp, gate, unit.
template <typename S>
__device__ __forceinline__ void hold_back(const Args& a, const Lane& own, const bf16* w, u32 share, u32 (&back)[S::HELD ? 2 * S::U : 1][4]) {
#pragma unroll
    for (int v = 0; v < S::U; v++) {
        const u32 to = 8 * (share * S::U + v) + 2 * own.t4, k = S::F + own.warp / 2 * 16 + own.lane / 4;
        const uint2 a0 = gates<S>(a, w, k, to), a1 = gates<S>(a, w, k, to + 1);
        const uint2 b0 = gates<S>(a, w, k + 8, to), b1 = gates<S>(a, w, k + 8, to + 1);
        back[2 * v][0] = lows(a0.x, a1.x), back[2 * v][1] = lows(b0.x, b1.x);
        back[2 * v][2] = highs(a0.x, a1.x), back[2 * v][3] = highs(b0.x, b1.x);
        back[2 * v + 1][0] = lows(a0.y, a1.y), back[2 * v + 1][1] = lows(b0.y, b1.y);
        back[2 * v + 1][2] = highs(a0.y, a1.y), back[2 * v + 1][3] = highs(b0.y, b1.y);
    }
}

// Adds the weight and bias gradients of step t.
template <typename S, int COLUMNS>
__device__ __forceinline__ void add_weights(const Lane& own, const bf16* gradients, const bf16* tile, float (&dw)[2][COLUMNS][4], float (&db)[2][2]) {
    const u32 grad = shared_address(gradients) + ((own.warp * 32 + own.lane % 16) * S::XS + own.lane / 16 * 8) * 2;
    u32 left[2][4], more[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
#pragma unroll
    for (int m = 0; m < 2; m++) {
        load_matrices<false>(left[m], grad + 16 * m * S::XS * 2);
        if constexpr (S::NT == 3) load_two<false>(more[m][0], more[m][1], grad + (16 * m * S::XS + 16) * 2);
        if constexpr (S::NT == 4) load_matrices<false>(more[m], grad + (16 * m * S::XS + 16) * 2);
#pragma unroll
        for (int half = 0; half < 2 && !S::SUMS; half++) {
            float sum = low_half(left[m][half]) + high_half(left[m][half]);
            sum += low_half(left[m][2 + half]) + high_half(left[m][2 + half]);
            if (S::NT >= 3) sum += low_half(more[m][half]) + high_half(more[m][half]);
            if (S::NT == 4) sum += low_half(more[m][2 + half]) + high_half(more[m][2 + half]);
            db[m][half] += sum;
        }
    }
    u32 rest[4][S::NT];
#pragma unroll
    for (int q = 0; q < 4; q++) {
        rest[q][2 % S::NT] = more[q / 2][q % 2];
        rest[q][S::NT - 1] = S::NT == 4 ? more[q / 2][2 + q % 2] : more[q / 2][q % 2];
    }
    add_columns<S, COLUMNS>(shared_address(tile), left, rest, dw);
}

// The gradient of the inputs of step t, for the layer below, in that layer's order of words.
template <typename S>
__device__ __forceinline__ void send_down(const Args& a, const Lane& own, u64 block, const bf16* gradients, u32 turned, u32 t) {
    u32* to = a.down + (block * a.window + t) * (S::NT * a.below_threads);
    for (u32 item = own.warp; item < S::KX * S::NT; item += S::WARPS) {
        const u32 m = item % S::KX, j = item / S::KX;
        float even[4] = {0.0f, 0.0f, 0.0f, 0.0f}, odd[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 4
        for (int ks = 0; ks < 4 * S::U; ks += 2) {
            u32 left[4], b0, b1;
            const u32 right = shared_address(gradients) + ((16 * ks + own.lane % 16) * S::XS + 8 * j) * 2;
            load_matrices<true>(left, turned + (16 * ks * S::WS + m * 16) * 2);
            load_two<true>(b0, b1, right);
            mma(even, left, b0, b1);
            load_matrices<true>(left, turned + (16 * (ks + 1) * S::WS + m * 16) * 2);
            load_two<true>(b0, b1, right + 16 * S::XS * 2);
            mma(odd, left, b0, b1);
        }
        const u32 other = m * 64 + own.lane;
        if (other < a.below_threads) {
            to[j * a.below_threads + other] = pair(even[0] + odd[0], even[1] + odd[1]);
            to[j * a.below_threads + other + 32] = pair(even[2] + odd[2], even[3] + odd[3]);
        }
    }
}

// The backward pass. Half of the warps walk the recurrence as in the forward pass: gates of step t-1 again, dh of step
// t-1 from the gate gradients of step t, gate gradients of step t-1. The other half, the helpers, are one step behind
// them: they bring inputs and h into tiles and add the weight gradients up in their registers. One barrier a step joins
// the two; tiles of three steps are in use at once.
template <typename S> __device__ __forceinline__ void backward(const Args& a) {
    extern __shared__ __align__(16) u8 memory[];
    __shared__ u32 start[S::R];
    __shared__ u8 alive[S::R];
    __shared__ float shares[S::WARPS][2 * S::NT][32];
    const SlotState& state = a.states[blockIdx.y];
    if (idle(state, a.mode)) return;
    bf16* tiles = reinterpret_cast<bf16*>(memory);      // [3][K, XS]
    bf16* grads = tiles + 3 * S::K * S::XS;             // [2][4 H, XS], by warp, gate, unit
    bf16* stored = grads + 2 * 4 * S::H * S::XS;        // [4 H, WS] weights
    const auto tile_of = [&](u32 t) { return tiles + t % 3 * (S::K * S::XS); };
    const auto grad_of = [&](u32 t) { return grads + t % 2 * (4 * S::H * S::XS); };

    const bool helper = threadIdx.x >= S::THREADS;
    const Lane own(helper ? threadIdx.x - S::THREADS : threadIdx.x);
    const u32 thread = own.thread, warp = own.warp, lane = own.lane, t4 = own.t4, unit = warp * 8 + lane / 4;
    find_rows<S>(a, state, start, alive);
    const bf16* w = a.weights + blockIdx.y * a.params;
    store_weights<S>(a, w, stored);
    const u64 block = (u64)blockIdx.y * gridDim.x + blockIdx.x;
    const u32 last = a.window - 1;
    // Columns of weights whose gradient one warp has: of this warp's gates, [i, f, g, o] a unit.
    const auto write = [&](u32 n, const float(&low)[4], const float(&high)[4]) {
        const u32 k = 8 * n + 2 * t4;
        const bool hidden = k >= S::F;
        if (unit >= a.units || (hidden ? k - S::F >= a.units : k >= a.wide)) return;
        float* to = partial_of(a) + ((u64)(hidden ? a.wide + k - S::F : k) * a.units + unit) * 4;
        store4(to, make_float4(low[0], low[2], high[0], high[2]));
        store4(to + 4 * a.units, make_float4(low[1], low[3], high[1], high[3]));
    };
    const auto write_bias = [&](float(&sums)[4]) {
#pragma unroll
        for (int q = 0; q < 4; q++) {
            sums[q] += __shfl_xor_sync(0xffffffffu, sums[q], 1);
            sums[q] += __shfl_xor_sync(0xffffffffu, sums[q], 2);
        }
        if (t4 == 0 && unit < a.units)
            store4(partial_of(a) + ((u64)(a.wide + a.units) * a.units + unit) * 4, make_float4(sums[0], sums[1], sums[2], sums[3]));
    };
    __syncthreads();

    if (helper) {
        constexpr int COLUMNS = 2 * S::KS - S::OWN; // tiles of 8 columns
        Inputs<S, -1> inputs(a, state, start, alive, thread, last);
        const u32* saved = a.saved + block * a.window * (2 * S::NT * S::THREADS);
        // Four threads' words of h lie side by side in memory and in a tile.
        const auto bring_h = [&](u32 t) {
            bf16* tile = tile_of(t);
            for (u32 i = thread; i < S::NT * S::H; i += S::THREADS) {
                const u32 j = i / S::H, u = i % S::H;
                bf16* to = tile + (S::F + u) * S::XS + 8 * j;
                if (t > 0 && !a.reset) {
                    copy_async(shared_address(to), saved + (u64)(t - 1) * (2 * S::NT * S::THREADS) + (j * S::H + u) * 4, true);
                    continue;
                }
                for (u32 p = 0; p < 4; p++) {
                    const u32 row = blockIdx.x * S::R + 8 * j + 2 * p;
                    const float2 v = carried(a, a.h0, row, u);
                    u32 word = pair(v.x, v.y);
                    if (t > 0) word = saved[(u64)(t - 1) * (2 * S::NT * S::THREADS) + (j * S::H + u) * 4 + p];
                    reinterpret_cast<u32*>(to)[p] = word & kept<S>(a, t, row);
                }
            }
        };
        float dw[2][COLUMNS][4];
        float db[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
        for (int n = 0; n < COLUMNS; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) dw[0][n][i] = dw[1][n][i] = 0.0f;
        // The gradient of the inputs, for the layer below, in that layer's order of words.
        const u32 turned = shared_address(stored) + ((lane / 16 * 8 + lane % 8) * S::WS + lane / 8 % 2 * 8) * 2;
        inputs.ask();
        bring_h(last);
        inputs.lay(tile_of(last), last);
        copy_commit();
        if (last > 0) inputs.ask();
        copy_wait<0>();
        __syncthreads();
        for (u32 step = 0; step <= last; step++) {
            const u32 t = last - step;
            if (t > 0) {
                bring_h(t - 1);
                inputs.lay(tile_of(t - 1), t - 1);
                copy_commit();
                if (t > 1) inputs.ask();
            }
            if (t < last) {
                add_weights<S>(own, grad_of(t + 1), tile_of(t + 1), dw, db);
                if (a.down) send_down<S>(a, own, block, grad_of(t + 1), turned, t + 1);
            }
            copy_wait<0>();
            __syncthreads();
        }
        add_weights<S>(own, grad_of(0), tile_of(0), dw, db);
        if (a.down) send_down<S>(a, own, block, grad_of(0), turned, 0);
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) write(n, dw[0][n], dw[1][n]);
        if constexpr (!S::SUMS) {
            float sums[4] = {db[0][0], db[0][1], db[1][0], db[1][1]};
            write_bias(sums);
        }
        return;
    }

    const u32 share = warp % 2; // which half of the gates this warp adds up for its pair's 16 units
    u32 back[S::HELD ? 2 * S::U : 1][4];
    if constexpr (S::HELD) hold_back<S>(a, own, w, share, back);
    float4 bias = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (unit < a.units) bias = load4(a.master + blockIdx.y * a.params + ((u64)(a.wide + a.units) * a.units + unit) * 4);
    const u32 plain = shared_address(stored) + ((warp * 32 + lane % 16) * S::WS + lane / 16 * 8) * 2;
    const auto weights = [&](int ks, int m, u32(&to)[4]) { load_matrices<false>(to, plain + (16 * m * S::WS + 16 * ks) * 2); };

    const u32* saved = a.saved + block * a.window * (2 * S::NT * S::THREADS) + thread;
    const u32* above = a.above ? a.above + block * a.window * (S::NT * S::THREADS) + thread : nullptr;
    const u32 first = blockIdx.x * S::R + 2 * t4;
    // Words of c behind step t, or what the window began with.
    const auto ask_c = [&](i32 t, u32(&words)[S::NT]) {
#pragma unroll
        for (int j = 0; j < S::NT; j++) {
            if (t >= 0) {
                words[j] = saved[(u64)(t * 2 + 1) * (S::NT * S::THREADS) + j * S::THREADS];
            } else {
                const float2 v = carried(a, a.c0, first + 8 * j, unit);
                words[j] = pair(v.x, v.y);
            }
        }
    };
    u32 c_now[S::NT], c_before[S::NT];
    ask_c(last, c_now);
    ask_c((i32)last - 1, c_before);
    float dh[S::NT][2], dc[S::NT][2];
#pragma unroll
    for (int j = 0; j < S::NT; j++) {
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const u32 row = first + 8 * j + s;
            const bool real = a.delta && row < a.batch && unit < a.out_width;
            dh[j][s] = real ? __bfloat162float(a.delta[blockIdx.y * a.out_member + row * a.out_stride + unit]) : 0.0f;
            dc[j][s] = 0.0f;
        }
    }
    const auto add_above = [&](u32 t) {
#pragma unroll
        for (int j = 0; j < S::NT; j++) {
            const u32 word = above[((u64)t * S::NT + j) * S::THREADS];
            dh[j][0] += low_half(word), dh[j][1] += high_half(word);
        }
    };
    if (above) add_above(last);
    float db[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    float dw[2][S::OWN > 0 ? S::OWN : 1][4];
    if constexpr (S::OWN > 0) {
#pragma unroll
        for (int n = 0; n < S::OWN; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) dw[0][n][i] = dw[1][n][i] = 0.0f;
    }
    __syncthreads();

    float z[2][S::NT][4];
    gate_sums<S>(shared_address(tile_of(last)), weights, bias, z);
    for (u32 step = 0; step <= last; step++) {
        const u32 t = last - step;
        bf16* grad = grad_of(t);
        u32 d[4][S::NT];
        gate_gradients<S>(a, own, grad, t, first, z, dh, dc, c_now, c_before, d, db);
        ask_c((i32)t - 2, c_before);
        __syncthreads();
        if constexpr (S::OWN > 0) {
            // The last columns of weights to this warp's gates.
            const u32 left[2][4] = {{d[0][0], d[1][0], d[0][1], d[1][1]}, {d[2][0], d[3][0], d[2][1], d[3][1]}};
            add_columns<S, S::OWN>(shared_address(tile_of(t) + (S::K - 8 * S::OWN) * S::XS), left, d, dw);
        }
        if (t == 0) break;
        float sum[S::NT][4];
        hidden_sums<S>(own, grad, stored, share, back, sum);
        // Each gives the other its half: rows 0 to 7 belong to the even warp, 8 to 15 to the odd one.
#pragma unroll
        for (int j = 0; j < S::NT; j++)
#pragma unroll
            for (int s = 0; s < 2; s++) {
                shares[warp ^ 1][2 * j + s][lane] = share ? sum[j][s] : sum[j][2 + s];
                dh[j][s] = share ? sum[j][2 + s] : sum[j][s];
            }
        gate_sums<S>(shared_address(tile_of(t - 1)), weights, bias, z);
        pair_barrier();
        // Of two numbers the sum is the same either way round, so both warps get the same bits.
#pragma unroll
        for (int j = 0; j < S::NT; j++)
#pragma unroll
            for (int s = 0; s < 2; s++) dh[j][s] += shares[warp][2 * j + s][lane];
        if (a.reset) {
#pragma unroll
            for (int j = 0; j < S::NT; j++) {
                const u32 keep = kept<S>(a, t, first + 8 * j);
                if (!(keep & 0xffffu)) dh[j][0] = dc[j][0] = 0.0f;
                if (!(keep >> 16)) dh[j][1] = dc[j][1] = 0.0f;
            }
        }
        if (above) add_above(t - 1);
    }
    if constexpr (S::SUMS) write_bias(db);
    if constexpr (S::OWN > 0) {
#pragma unroll
        for (int n = 0; n < S::OWN; n++) write(2 * S::KS - S::OWN + n, dw[0][n], dw[1][n]);
    }
}

#define LSTM(KX, U, NT)                                                                                        \
    extern "C" __global__ void __launch_bounds__(64 * U, U == 4 ? 2 : 1) lstm_forward_##KX##_##U##_##NT(const Args a) {        \
        forward<Shape<KX, U, NT>>(a);                                                                          \
    }                                                                                                          \
    extern "C" __global__ void __launch_bounds__(128 * U) lstm_backward_##KX##_##U##_##NT(const Args a) {       \
        backward<Shape<KX, U, NT>>(a);                                                                         \
    }

LSTM(1, 1, 2) LSTM(1, 1, 3) LSTM(1, 1, 4)
LSTM(1, 2, 2) LSTM(1, 2, 3) LSTM(1, 2, 4)
LSTM(1, 4, 2) LSTM(1, 4, 3) LSTM(1, 4, 4)
LSTM(2, 1, 2) LSTM(2, 1, 3) LSTM(2, 1, 4)
LSTM(2, 2, 2) LSTM(2, 2, 3) LSTM(2, 2, 4)
LSTM(2, 4, 2) LSTM(2, 4, 3) LSTM(2, 4, 4)
LSTM(4, 1, 2) LSTM(4, 2, 2) LSTM(4, 4, 2)
