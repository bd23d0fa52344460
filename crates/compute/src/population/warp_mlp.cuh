// An MLP of two hidden layers of 64 and a head of up to 8, for sixteen rows of one warp: forward, and back to the
// gradients that products with weights need. For kernels to compose.
//
// Activations stay in the warp's registers: what `mma` leaves of one layer is what it takes for the next. Weights lie
// in shared memory, once for all warps of a block. No warp waits for another inside a pass.
//
// A `Slabs` is a matrix of bf16 in shared memory, cut into slabs of 16 columns: [columns / 16][rows][16]. The two
// pieces of 16 bytes of a row change places in every other group of four rows, and slabs are 32 bytes apart, so that
// neither the rows that `ldmatrix` reads, nor the words that a product leaves, nor the pieces of a row meet in a bank.
//
// Loops over parts of a product are unrolled by `each`, so that their places are constants of the instructions.
//
// Lane l has g = l / 4 and t = l % 4 (tensor.cuh). Sums over columns go 16 at a time, in order; a row's bits depend on
// nothing but the row and the weights.
#pragma once

#include "../ops/tensor.cuh"
#include "population.cuh"

constexpr u32 MLP_HIDDEN = 64;
constexpr u32 MLP_OUTPUTS = 8;
constexpr u32 MLP_ROWS = 16;
constexpr u32 ALL_LANES = 0xffffffffu;

// Calls f with the constants 0 to N - 1.
template <u32 VALUE> struct Constant {
    static constexpr u32 value = VALUE;
};
template <u32 N, u32 AT = 0, typename F> __device__ __forceinline__ void each(const F& f) {
    if constexpr (AT < N) {
        f(Constant<AT>());
        each<N, AT + 1>(f);
    }
}

// Four 8×8 matrices, a constant behind an address.
template <bool TRANSPOSED, u32 BEHIND> __device__ __forceinline__ void load_matrices_at(u32 (&r)[4], u32 address) {
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4 + %5];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address), "n"(BEHIND)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4 + %5];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address), "n"(BEHIND)
                     : "memory");
}

// Words of shared memory, a constant behind an address.
template <u32 BEHIND> __device__ __forceinline__ void put_word(u32 at, u32 word) {
    asm volatile("st.shared.b32 [%0 + %1], %2;\n" ::"r"(at), "n"(BEHIND), "r"(word) : "memory");
}
template <u32 BEHIND> __device__ __forceinline__ void put_pair(u32 at, u32 first, u32 second) {
    asm volatile("st.shared.v2.b32 [%0 + %1], {%2, %3};\n" ::"r"(at), "n"(BEHIND), "r"(first), "r"(second) : "memory");
}
__device__ __forceinline__ void put_piece(u32 at, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
template <u32 BEHIND> __device__ __forceinline__ u32 get_word(u32 at) {
    u32 word;
    asm volatile("ld.shared.b32 %0, [%1 + %2];\n" : "=r"(word) : "r"(at), "n"(BEHIND) : "memory");
    return word;
}
template <u32 BEHIND> __device__ __forceinline__ float2 get_floats(u32 at) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + %3];\n" : "=f"(v.x), "=f"(v.y) : "r"(at), "n"(BEHIND) : "memory");
    return v;
}
__device__ __forceinline__ float4 get_four(u32 at) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}

// Where things are for a lane; all are bytes.
struct LaneOffsets {
    u32 rows_first;   // of four 8×8 matrices: first and second eight rows, then the same of the second piece
    u32 pieces_first; // first and second piece of eight rows, then of the next eight
    u32 words;        // of what a product leaves, in the first piece
    u32 head;         // of the head's weights: both pieces of a slab's eight rows, then those of the next slab

    __device__ __forceinline__ LaneOffsets();
};

constexpr __host__ __device__ u32 slab_bytes(u32 rows) { return rows * 32 + 32; }

template <u32 ROWS> struct Slabs {
    static constexpr u32 STEP = slab_bytes(ROWS); // from slab to slab
    u32 at;                                       // address in shared memory, on 32

    // Address of eight neighbours of a row.
    __device__ __forceinline__ u32 piece(u32 row, u32 piece) const {
        return at + piece / 2 * STEP + row * 32 + ((piece % 2 ^ row / 4 % 2) << 4);
    }
    // The same slabs, from another multiple of eight rows on.
    __device__ __forceinline__ Slabs from_row(u32 row) const { return {at + row * 32}; }
};

// Takes room for a matrix.
template <u32 ROWS> __device__ __forceinline__ Slabs<ROWS> slabs_at(u32& at, u32 columns) {
    const Slabs<ROWS> made = {at};
    at += (columns + 15) / 16 * made.STEP;
    return made;
}

typedef Slabs<MLP_HIDDEN> HiddenWeights;
typedef Slabs<MLP_OUTPUTS> HeadWeights;

__device__ __forceinline__ LaneOffsets::LaneOffsets() {
    const u32 lane = threadIdx.x % 32, in_matrix = lane % 8, matrix = lane / 8, turn = in_matrix / 4, g = lane / 4;
    rows_first = (matrix % 2 * 8 + in_matrix) * 32 + ((matrix / 2 ^ turn) << 4);
    pieces_first = (matrix / 2 * 8 + in_matrix) * 32 + ((matrix % 2 ^ turn) << 4);
    words = g * 32 + ((g / 4) << 4) + lane % 4 * 4;
    head = in_matrix * 32 + ((matrix % 2 ^ turn) << 4) + matrix / 2 * HeadWeights::STEP;
}

// Two numbers rounded to bf16, the first in the lower half.
__device__ __forceinline__ u32 rounded_pair(float low, float high) {
    u32 made;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(made) : "f"(high), "f"(low));
    return made;
}

// C += A B with 8 along the sum.
__device__ __forceinline__ void mma_eight(float (&c)[4], u32 a0, u32 a1, u32 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// The hardware's tanh: its error is at most a quarter of that of the rounding to bf16 that follows.
__device__ __forceinline__ float quick_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

// Weights and biases of one MLP in shared memory.
struct MlpWeights {
    HiddenWeights first;  // [64, inputs]
    HiddenWeights second; // [64, 64]
    HeadWeights head;     // [8, 64]
    u32 biases;           // f32: 64, 64 and 8
    u32 act[2];           // of the hidden layers
};

constexpr u32 MLP_BIASES = (2 * MLP_HIDDEN + MLP_OUTPUTS) * 4;

// Copies [rows, columns] into slabs; columns is a multiple of 8, what is behind it is zeros, and so are rows that are
// not there.
template <u32 ROWS>
__device__ __forceinline__ void copy_weights(const Slabs<ROWS>& to, u32 to_pieces, const bf16* from, u32 rows, u32 columns) {
    const u32 pieces = columns / 8;
    for (u32 i = threadIdx.x; i < ROWS * to_pieces; i += blockDim.x) {
        const u32 row = i / to_pieces, piece = i - row * to_pieces;
        const bool real = row < rows && piece < pieces;
        copy_async(to.piece(row, piece), reinterpret_cast<const uint4*>(from) + (real ? row * pieces + piece : 0), real);
    }
}

// The words of 16 rows and 64 columns: for `mma` four numbers along each of four steps of 16, [step][register].
typedef u32 Words[4][4];

// What a product leaves, [8 columns each][register].
typedef float Sums[8][4];

__device__ __forceinline__ void begin_with_bias(Sums& sums, u32 biases) {
    const u32 own = biases + threadIdx.x % 4 * 8;
    each<8>([&](auto n) {
        const float2 bias = get_floats<n.value * 32>(own);
        sums[n.value][0] = sums[n.value][2] = bias.x, sums[n.value][1] = sums[n.value][3] = bias.y;
    });
}

// sums += a × (weights of the step STEP of 16)ᵀ, for all 64 columns.
template <u32 STEP> __device__ __forceinline__ void add_products(Sums& sums, const u32 (&a)[4], u32 weights) {
    each<4>([&](auto j) {
        u32 b[4];
        load_matrices_at<false, STEP * HiddenWeights::STEP + j.value * 512>(b, weights);
        mma(sums[2 * j.value], a, b[0], b[1]);
        mma(sums[2 * j.value + 1], a, b[2], b[3]);
    });
}

// Activated and rounded.
__device__ __forceinline__ void finish_layer(Words& words, Sums& sums, u32 act) {
    if (act == TANH) {
#pragma unroll
        for (u32 n = 0; n < 8; n++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) sums[n][e] = quick_tanh(sums[n][e]);
    } else if (act == RELU) {
#pragma unroll
        for (u32 n = 0; n < 8; n++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) sums[n][e] = sums[n][e] < 0.0f ? 0.0f : sums[n][e]; // NaN stays NaN and is seen
    }
#pragma unroll
    for (u32 n = 0; n < 8; n++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) words[n / 2][n % 2 * 2 + half] = rounded_pair(sums[n][half * 2], sums[n][half * 2 + 1]);
}

// Keeps sixteen rows for products over rows.
template <u32 ROWS> __device__ __forceinline__ void put_words(const Slabs<ROWS>& to, const LaneOffsets& lane, const Words& words) {
    const u32 first = to.at + lane.words, second = to.at + (lane.words ^ 16);
    each<16>([&](auto i) {
        constexpr u32 s = i.value / 4, e = i.value % 4;
        put_word<s * Slabs<ROWS>::STEP + e % 2 * 256>(e / 2 ? second : first, words[s][e]);
    });
}

template <u32 ROWS> __device__ __forceinline__ void get_words(Words& words, const Slabs<ROWS>& from, const LaneOffsets& lane) {
    const u32 first = from.at + lane.words, second = from.at + (lane.words ^ 16);
    each<16>([&](auto i) {
        constexpr u32 s = i.value / 4, e = i.value % 4;
        words[s][e] = get_word<s * Slabs<ROWS>::STEP + e % 2 * 256>(e / 2 ? second : first);
    });
}

// The first hidden layer of sixteen rows of `x`, of STEPS × 16 columns.
template <u32 STEPS, u32 ROWS>
__device__ __forceinline__ void first_layer(Words& out, const MlpWeights& w, const LaneOffsets& lane, const Slabs<ROWS>& x) {
    Sums sums;
    begin_with_bias(sums, w.biases);
    const u32 rows = x.at + lane.rows_first, weights = w.first.at + lane.pieces_first;
    each<STEPS>([&](auto s) {
        u32 a[4];
        load_matrices_at<false, s.value * Slabs<ROWS>::STEP>(a, rows);
        add_products<s.value>(sums, a, weights);
    });
    finish_layer(out, sums, w.act[0]);
}

__device__ __forceinline__ void second_layer(Words& out, const MlpWeights& w, const LaneOffsets& lane, const Words& in) {
    Sums sums;
    begin_with_bias(sums, w.biases + MLP_HIDDEN * 4);
    const u32 weights = w.second.at + lane.pieces_first;
    each<4>([&](auto s) { add_products<s.value>(sums, in[s.value], weights); });
    finish_layer(out, sums, w.act[1]);
}

// The head: outputs 2t and 2t + 1 of rows g and g + 8.
__device__ __forceinline__ void head_layer(float (&out)[4], const MlpWeights& w, const LaneOffsets& lane, const Words& in) {
    const float2 bias = get_floats<2 * MLP_HIDDEN * 4>(w.biases + threadIdx.x % 4 * 8);
    out[0] = out[2] = bias.x, out[1] = out[3] = bias.y;
    const u32 weights = w.head.at + lane.head;
    each<2>([&](auto s) {
        u32 b[4];
        load_matrices_at<false, 2 * s.value * HeadWeights::STEP>(b, weights);
        mma(out, in[2 * s.value], b[0], b[1]);
        mma(out, in[2 * s.value + 1], b[2], b[3]);
    });
}

// Up to three outputs of the row `threadIdx.x % 16` of what `head_layer` left.
__device__ __forceinline__ void own_outputs(float (&z)[3], const float (&out)[4]) {
    const u32 row = threadIdx.x % 16, from = row % 8 * 4;
    const bool low = row < 8;
#pragma unroll
    for (u32 k = 0; k < 3; k++) {
        const float first = __shfl_sync(ALL_LANES, out[k % 2], from + k / 2), second = __shfl_sync(ALL_LANES, out[2 + k % 2], from + k / 2);
        z[k] = low ? first : second;
    }
}

// What a gradient at a layer's outputs is before its activation, rounded: d × act'(y).
__device__ __forceinline__ void through_activation(Words& words, Sums& d, const Words& y, u32 act) {
    if (act == TANH) {
#pragma unroll
        for (u32 i = 0; i < 16; i++) {
            const u32 n = i / 2, half = i % 2 * 2, o = y[n / 2][n % 2 * 2 + i % 2];
            d[n][half] *= fmaf(-low_half(o), low_half(o), 1.0f);
            d[n][half + 1] *= fmaf(-high_half(o), high_half(o), 1.0f);
        }
    } else if (act == RELU) {
#pragma unroll
        for (u32 i = 0; i < 16; i++) {
            const u32 n = i / 2, half = i % 2 * 2, o = y[n / 2][n % 2 * 2 + i % 2];
            d[n][half] = low_half(o) > 0.0f ? d[n][half] : 0.0f;
            d[n][half + 1] = high_half(o) > 0.0f ? d[n][half + 1] : 0.0f;
        }
    }
#pragma unroll
    for (u32 i = 0; i < 16; i++) words[i / 4][i % 4] = rounded_pair(d[i / 2][i % 2 * 2], d[i / 2][i % 2 * 2 + 1]);
}

// From the gradient at the head's outputs (words of rows g and g + 8 with outputs 2t and 2t + 1) to that before the
// second activation.
__device__ __forceinline__ void head_back(Words& out, const MlpWeights& w, const LaneOffsets& lane, u32 low, u32 high, const Words& y) {
    Sums sums = {};
    const u32 weights = w.head.at + lane.head;
    each<2>([&](auto q) {
        u32 b[4];
        load_matrices_at<true, 2 * q.value * HeadWeights::STEP>(b, weights);
#pragma unroll
        for (u32 n = 0; n < 4; n++) mma_eight(sums[4 * q.value + n], low, high, b[n]);
    });
    through_activation(out, sums, y, w.act[1]);
}

// And to that before the first activation.
__device__ __forceinline__ void second_back(Words& out, const MlpWeights& w, const LaneOffsets& lane, const Words& dz, const Words& y) {
    Sums sums = {};
    const u32 weights = w.second.at + lane.rows_first;
    each<16>([&](auto i) {
        constexpr u32 s = i.value / 4, j = i.value % 4;
        u32 b[4];
        load_matrices_at<true, j * HiddenWeights::STEP + s * 512>(b, weights);
        mma(sums[2 * j], dz[s], b[0], b[1]);
        mma(sums[2 * j + 1], dz[s], b[2], b[3]);
    });
    through_activation(out, sums, y, w.act[0]);
}
