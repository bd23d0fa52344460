// Layers of a small net whose weights and biases are in shared memory: what `small.cuh` does for weights in global
// memory, to the same bits.
//
// Rows of weights lie as in the arena, but for pieces of 16 bytes that are exchanged inside a row so that neither the
// lanes of a load nor the rows of a matrix meet in a bank. The gradient of activations takes weights as transposed
// matrices: a matrix has the rows k that one register of all lanes wants, see `small.cuh` for their order.
#pragma once

#include "small.cuh"

struct Settled {
    u32 at;
    u32 pieces; // of a row, a multiple of 4
    u32 rows;   // a multiple of 32; those that are not there are zeros

    __device__ __forceinline__ u32 turn(u32 row) const { return (pieces & 4 ? 0 : (row & 1) * 4) | (row / 8) % 4; }
    __device__ __forceinline__ u32 place(u32 row, u32 piece) const { return at + (row * pieces + (piece ^ turn(row))) * 16; }
    __device__ __forceinline__ uint4 piece(u32 row, u32 piece) const { return piece_at(place(row, piece)); }
    __device__ __forceinline__ u32 begin(u32) const { return 0; }
    __device__ __forceinline__ uint4 at_row(u32, u32 row, u32 at) const { return piece(row, at); }
    // Biases lie behind the weights: [rows] of 4 bytes.
    __device__ __forceinline__ u32 bias() const { return at + rows * pieces * 16; }
    __device__ __forceinline__ u32 end() const { return bias() + rows * 4; }
};

__device__ __forceinline__ Settled settled_at(u32 at, u32 inputs, u32 outputs) { return {at, pieces_of(inputs), (outputs + 31) / 32 * 32}; }

// Begins to copy weights, and biases as bf16 (`narrow`) or f32; `copy_wait<0>` and a barrier come before the first use.
template <u32 THREADS>
__device__ __forceinline__ void settle(const Settled& to, const bf16* weights, const bf16* narrow, const float* wide, u32 inputs, u32 outputs) {
    const u32 abreast = THREADS / to.pieces, first = threadIdx.x / to.pieces, piece = threadIdx.x - first * to.pieces, real = inputs / 8;
    if (first < abreast) {
        for (u32 row = first; row < to.rows; row += abreast) {
            const bool there = row < outputs && piece < real;
            copy_async(shared_address(shared_memory + to.place(row, piece)),
                       reinterpret_cast<const uint4*>(weights) + (there ? row * real + piece : 0), there);
        }
    }
    const u32 most = narrow ? outputs / 8 : outputs / 4;
    const uint4* from = reinterpret_cast<const uint4*>(narrow ? (const void*)narrow : (const void*)wide);
    if (threadIdx.x < most) copy_async(shared_address(shared_memory + to.bias() + threadIdx.x * 16), from + threadIdx.x, true);
}

// `forward_layer`.
template <u32 ROWS, u32 DEPTH, u32 WARPS>
__device__ __forceinline__ void forward_settled(const Settled& w, u32 inputs, u32 outputs, u32 act, const Tile& x, const Tile& out, u32 rows) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 down = rows / (16 * ROWS), tasks = down * ((outputs + 31) / 32), blocks = (inputs + 31) / 32;
#pragma unroll 1
    for (u32 task = warp; task < tasks; task += WARPS) {
        const u32 row = task % down * 16 * ROWS, column = task / down * 32;
        Ahead<false, 4, DEPTH> ahead;
        ahead.start(w, column, blocks);
        float sum[ROWS][4][4] = {};
        ahead.multiply(sum, x, row, w, column, blocks);
        u32 offset[4];
#pragma unroll
        for (u32 j = 0; j < 4; j++) offset[j] = word_at(w.bias() + (column + j * 8) * 2 + t * 4);
        const u32 to = out.place(row + g, column / 8 + t), eight = out.eight();
#pragma unroll
        for (u32 i = 0; i < ROWS * 2; i++) {
            float v[8];
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                v[j * 2] = sum[i / 2][j][i % 2 * 2] + low_half(offset[j]);
                v[j * 2 + 1] = sum[i / 2][j][i % 2 * 2 + 1] + high_half(offset[j]);
            }
            activate(v, act);
            uint4 made = make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7]));
            // Columns that are not there are zeros.
            if (column + 32 > outputs) {
                made.y = column + 8 < outputs ? made.y : 0;
                made.z = column + 16 < outputs ? made.z : 0;
                made.w = 0;
            }
            piece_at(to + i * eight) = made;
        }
    }
}

// Two bf16 times the slope where two outputs were.
__device__ __forceinline__ u32 sloped(float low, float high, u32 y, u32 act) {
    if (act == TANH) low *= 1.0f - low_half(y) * low_half(y), high *= 1.0f - high_half(y) * high_half(y);
    const u32 made = pack(low, high);
    return act == RELU ? where_above(made, y) : made;
}

// `backward_layer`. Tiles of 8 columns are in their order here, so a lane has all four words of a piece.
template <u32 ROWS, u32 WARPS>
__device__ __forceinline__ void backward_settled(const Settled& w, u32 inputs, u32 outputs, u32 act, const Tile& dz, const Tile& y, u32 rows) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, matrix = lane / 8, in_matrix = lane % 8;
    const u32 down = rows / (16 * ROWS), tasks = down * ((inputs + 31) / 32), blocks = (outputs + 31) / 32;
    const u32 shared = shared_address(shared_memory);
#pragma unroll 1
    for (u32 task = warp; task < tasks; task += WARPS) {
        const u32 row = task % down * 16 * ROWS, column = task / down * 32;
        const u32 base = shared + dz.at + (row + matrix % 2 * 8 + in_matrix) * dz.pieces * 16;
        const u32 turn = dz.turn(in_matrix), sixteen = 2 * dz.eight();
        float sum[ROWS][4][4] = {};
#pragma unroll 2
        for (u32 half = 0; half < 2 * blocks; half++) {
            u32 a[ROWS][4], b[2][4];
            const u32 at = base + ((half * 2 + matrix / 2) ^ turn) * 16;
#pragma unroll
            for (u32 i = 0; i < ROWS; i++) load_matrices<false>(a[i], at + i * sixteen);
            const u32 k = half / 2 * 32 + in_matrix / 2 * 8 + half % 2 * 4 + matrix % 2 * 2 + in_matrix % 2;
#pragma unroll
            for (u32 j = 0; j < 2; j++) load_matrices<true>(b[j], shared + w.place(k, column / 8 + j * 2 + matrix / 2));
#pragma unroll
            for (u32 i = 0; i < ROWS; i++)
#pragma unroll
                for (u32 j = 0; j < 4; j++) mma(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
        const u32 place = y.place(row + g, column / 8 + t), eight = y.eight();
#pragma unroll
        for (u32 i = 0; i < ROWS * 2; i++) {
            uint4& at = piece_at(place + i * eight);
            const uint4 o = at;
            const auto word = [&](u32 j, u32 was) {
                const u32 made = sloped(sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1], was, act);
                return column + j * 8 < inputs ? made : 0;
            };
            at = make_uint4(word(0, o.x), word(1, o.y), word(2, o.z), word(3, o.w));
        }
    }
}
