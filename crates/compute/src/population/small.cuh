// A small MLP of one member on tensor cores: rows of activations in shared memory, weights read where they lie. For
// kernels to compose.
//
// A `Tile` is rows of bf16 in shared memory, [rows][width], the width padded with zeros to 32. Pieces of 16 bytes are
// exchanged inside a row, so that neither the rows of a matrix nor the lanes of a load meet in a bank. Weights are
// [outputs, inputs] as the arena has them, either in global memory (`Weights`: through L1, each piece is fetched by the
// warp that multiplies with it) or copied into a tile (`Resident`: for kernels that use them many times).
//
// Rows are the first operand of `mma`, 16 at a time, weights the second. Lane l has g = l / 4 and t = l % 4. The order
// of k inside a sum is free as long as both operands agree. So a lane fetches 8 neighbours 8t .. 8t+7 of every 32
// weights along k, 16 bytes at once, which serve two `mma` as they come; and in a tile the 16 words (pairs of columns)
// of every 32 columns are exchanged likewise: word 4t + j lies at 4j + t, where `ldmatrix` finds it for that lane. The
// four n8 tiles of a product then leave each lane with the four words of one piece.
//
// What is the same whatever the number of rows, warps and blocks: every bit of an output row, and every bit of a
// gradient that is summed over the same rows, because its sum walks rows in order, 16 at a time, and can be put down
// and taken up again as f32.
#pragma once

#include "../ops/tensor.cuh"
#include "population.cuh"

constexpr u32 WHOLE = 0xffffffffu; // all lanes

// The same number, of which the compiler knows nothing: what depends on it is computed where it is used, not kept in
// registers all along.
__device__ __forceinline__ u32 fresh(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}

// Widths as tiles have them.
__device__ __forceinline__ u32 pieces_of(u32 width) { return (width + 31) / 32 * 4; }

// Dynamic shared memory. Tiles are places in it, so that the compiler sees what kind of memory they are.
extern __shared__ __align__(16) unsigned char shared_memory[];

struct Tile {
    u32 at;     // byte in shared memory, on 16
    u32 pieces; // of a row, a multiple of 4

    // Rows of an odd number of 64 bytes alternate between the halves of the banks by themselves.
    __device__ __forceinline__ u32 turn(u32 row) const { return (pieces & 4 ? 0 : (row & 1) * 4) | (row / 2) % 4; }
    // Byte of a piece; the same piece of the row 8 further on is `eight()` bytes behind it.
    __device__ __forceinline__ u32 place(u32 row, u32 piece) const { return at + (row * pieces + (piece ^ turn(row))) * 16; }
    __device__ __forceinline__ u32 eight() const { return pieces * 128; }
    __device__ __forceinline__ uint4* piece(u32 row, u32 piece) const { return reinterpret_cast<uint4*>(shared_memory + place(row, piece)); }
    // Eight neighbours of a row, in the order that products want.
    __device__ __forceinline__ void put(u32 row, u32 piece, const u32 (&words)[4]) const {
#pragma unroll
        for (u32 j = 0; j < 4; j++) *reinterpret_cast<u32*>(shared_memory + place(row, piece / 4 * 4 + j) + piece % 4 * 4) = words[j];
    }
};

__device__ __forceinline__ u32& word_at(u32 place) { return *reinterpret_cast<u32*>(shared_memory + place); }
__device__ __forceinline__ uint4& piece_at(u32 place) { return *reinterpret_cast<uint4*>(shared_memory + place); }

// This thread's warp, in a way that the compiler knows to be the same for the whole warp.
__device__ __forceinline__ u32 own_warp() { return __shfl_sync(WHOLE, threadIdx.x / 32, 0); }

// Where the tile behind this one begins.
__device__ __forceinline__ u32 behind(const Tile& tile, u32 rows) { return tile.at + rows * tile.pieces * 16; }

// Weights in global memory: `rows` and `pieces` are what there is. What is asked for behind the last reads as the last:
// along k it meets zeros of the other operand, and columns of a product that are not there are written as zeros.
struct Weights {
    const bf16* at;
    u32 rows;   // outputs, padded to 8
    u32 pieces; // inputs / 8

    __device__ __forceinline__ uint4 piece(u32 row, u32 piece) const { return at_row(begin(row), row, piece); }
    // The same in two steps, for those who stay in a row.
    __device__ __forceinline__ u32 begin(u32 row) const { return min(row, rows - 1) * pieces; }
    __device__ __forceinline__ uint4 at_row(u32 begin, u32, u32 piece) const {
        return __ldg(reinterpret_cast<const uint4*>(at) + (begin + min(piece, pieces - 1)));
    }
};

// Weights in a tile whose rows are padded to 32 as well, with zeros.
struct Resident {
    Tile tile;
    __device__ __forceinline__ uint4 piece(u32 row, u32 piece) const { return *tile.piece(row, piece); }
    __device__ __forceinline__ u32 begin(u32) const { return 0; }
    __device__ __forceinline__ uint4 at_row(u32, u32 row, u32 at) const { return piece(row, at); }
};

// Copies weights into a tile of ceil(rows / 32) × 32 rows; `copy_wait<0>` and a barrier come before the first use.
__device__ __forceinline__ Resident settle(const Weights& from, u32 at, u32 thread, u32 threads) {
    const Resident made = {{at, pieces_of(from.pieces * 8)}};
    const u32 rows = (from.rows + 31) / 32 * 32;
    for (u32 i = thread; i < rows * made.tile.pieces; i += threads) {
        const u32 row = i / made.tile.pieces, piece = i - row * made.tile.pieces;
        const bool real = row < from.rows && piece < from.pieces;
        copy_async(shared_address(made.tile.piece(row, piece)),
                   reinterpret_cast<const uint4*>(from.at) + (real ? row * from.pieces + piece : 0), real);
    }
    copy_commit();
    return made;
}

// An 8×8 matrix transposed across the warp: lane has M[g][2t, 2t+1] and gets M[2t, 2t+1][g].
__device__ __forceinline__ u32 transposed(u32 pair) {
    u32 made;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(made) : "r"(pair));
    return made;
}

// The weights of DEPTH blocks of 32 along k, on their way, TILES × 8 columns of what is computed.
//
// BACK: dz W, k down the rows of W; column 2t + e of tile j is 8t + 2j + e of the 32, so that a lane has 8 neighbours.
// Else x Wᵀ, columns in their order.
template <bool BACK, u32 TILES, u32 DEPTH> struct Ahead {
    static_assert(!BACK || TILES == 4, "a lane's 16 bytes are columns of four tiles");
    uint4 held[DEPTH][TILES];
    u32 begin[TILES]; // of the rows of W, where they stay

    template <typename From> __device__ __forceinline__ void fetch(const From& w, u32 column, u32 block, u32 at) {
        const u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (u32 i = 0; i < TILES; i++)
            held[at][i] = BACK ? w.piece(block * 32 + g / 2 * 8 + i * 2 + g % 2, column / 8 + t)
                               : w.at_row(begin[i], column + i * 8 + g, block * 4 + t);
    }

    // What `mma` takes of block `at` for half of its 32: [tile][register].
    __device__ __forceinline__ void take(u32 at, u32 half, u32 (&b)[TILES][2]) const {
#pragma unroll
        for (u32 i = 0; i < TILES; i++) {
            if constexpr (BACK) {
                const uint4 first = held[at][half * 2], second = held[at][half * 2 + 1];
                b[i][0] = transposed(i == 0 ? first.x : i == 1 ? first.y : i == 2 ? first.z : first.w);
                b[i][1] = transposed(i == 0 ? second.x : i == 1 ? second.y : i == 2 ? second.z : second.w);
            } else {
                b[i][0] = half == 0 ? held[at][i].x : held[at][i].z;
                b[i][1] = half == 0 ? held[at][i].y : held[at][i].w;
            }
        }
    }

    template <typename From> __device__ __forceinline__ void start(const From& w, u32 column, u32 blocks) {
        const u32 g = threadIdx.x % 32 / 4;
#pragma unroll
        for (u32 i = 0; i < TILES; i++) begin[i] = BACK ? 0 : w.begin(column + i * 8 + g);
        // All of it is written, whatever `blocks` is: what is not would be kept in registers from one use to the next.
#pragma unroll
        for (u32 d = 0; d < DEPTH; d++) fetch(w, column, min(d, blocks - 1), d);
    }

    // sum += 16 × ROWS rows of `x` from `row` on, times the columns from `column` on. `start` was called for the same
    // column.
    template <u32 ROWS, typename From>
    __device__ __forceinline__ void multiply(float (&sum)[ROWS][TILES][4], const Tile& x, u32 row, const From& w, u32 column, u32 blocks) {
        const u32 matrix = threadIdx.x % 32 / 8, in_matrix = threadIdx.x % 8;
        const u32 base = shared_address(shared_memory) + x.at + (row + matrix % 2 * 8 + in_matrix) * x.pieces * 16;
        const u32 turn = x.turn(in_matrix), sixteen = 2 * x.eight();
#pragma unroll 1
        for (u32 first = 0; first < blocks; first += DEPTH) {
#pragma unroll
            for (u32 d = 0; d < DEPTH; d++) {
                const u32 block = first + d;
                if (block >= blocks) break;
#pragma unroll
                for (u32 half = 0; half < 2; half++) {
                    u32 a[ROWS][4], b[TILES][2];
                    const u32 at = base + ((block * 4 + half * 2 + matrix / 2) ^ turn) * 16;
#pragma unroll
                    for (u32 i = 0; i < ROWS; i++) load_matrices<false>(a[i], at + i * sixteen);
                    take(d, half, b);
#pragma unroll
                    for (u32 i = 0; i < ROWS; i++)
#pragma unroll
                        for (u32 j = 0; j < TILES; j++) mma(sum[i][j], a[i], b[j][0], b[j][1]);
                }
                if (block + DEPTH < blocks) fetch(w, column, block + DEPTH, d);
            }
        }
    }
};

// tanh to about 1e-6, which is far inside the rounding to bf16 that follows.
__device__ __forceinline__ float short_tanh(float x) {
    float power, part;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(power) : "f"(fabsf(x) * 2.8853900818f));
    asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(part) : "f"(power + 1.0f));
    const float square = x * x, far = copysignf(1.0f - 2.0f * part, x);
    const float near = x - x * square * (0.33333333f - square * (0.13333333f - square * 0.05396825f));
    return square < 0.01f ? near : far;
}

// What follows a product, for N numbers in one branch.
template <u32 N> __device__ __forceinline__ void activate(float (&v)[N], u32 act) {
    if (act == RELU) {
#pragma unroll
        for (u32 e = 0; e < N; e++) v[e] = v[e] < 0.0f ? 0.0f : v[e]; // NaN stays NaN and is seen
    } else if (act == TANH) {
#pragma unroll
        for (u32 e = 0; e < N; e++) v[e] = short_tanh(v[e]);
    }
}

// Two bf16 where the other two are above 0, else 0.
__device__ __forceinline__ u32 where_above(u32 pair, u32 other) {
    return pair & ((low_half(other) > 0.0f ? 0x0000ffffu : 0u) | (high_half(other) > 0.0f ? 0xffff0000u : 0u));
}

// One hidden layer, 16 × ROWS rows and 32 columns for a warp at a time: out = act(x Wᵀ + bias), rounded. All warps of
// the block call it; it begins with a barrier.
//
//   rows     of the tile, a multiple of 16 × ROWS
//   bias     [outputs] in bf16, in global memory
template <u32 ROWS, u32 DEPTH, u32 WARPS, typename From>
__device__ __forceinline__ void forward_layer(const From& w, const bf16* bias, u32 inputs, u32 outputs, u32 act, const Tile& x,
                                              const Tile& out, u32 rows) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 down = rows / (16 * ROWS), tasks = down * ((outputs + 31) / 32), blocks = (inputs + 31) / 32;
    Ahead<false, 4, DEPTH> ahead;
    ahead.start(w, min(warp, tasks - 1) / down * 32, blocks);
    __syncthreads();
#pragma unroll 1
    for (u32 task = warp; task < tasks; task += WARPS) {
        const u32 row = task % down * 16 * ROWS, column = task / down * 32;
        if (task != warp) ahead.start(w, column, blocks);
        u32 offset[4];
#pragma unroll
        for (u32 j = 0; j < 4; j++) offset[j] = __ldg(reinterpret_cast<const u32*>(bias + min(column + j * 8, outputs - 8)) + t);
        float sum[ROWS][4][4] = {};
        ahead.multiply(sum, x, row, w, column, blocks);
        const u32 to = out.place(row + g, column / 8 + t), eight = out.eight();
#pragma unroll
        for (u32 i = 0; i < ROWS; i++)
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                float v[8];
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
                    v[j * 2] = sum[i][j][half * 2] + low_half(offset[j]);
                    v[j * 2 + 1] = sum[i][j][half * 2 + 1] + high_half(offset[j]);
                }
                activate(v, act);
                uint4 made = make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7]));
                // Columns that are not there are zeros.
                if (column + 32 > outputs) {
                    made.y = column + 8 < outputs ? made.y : 0;
                    made.z = column + 16 < outputs ? made.z : 0;
                    made.w = 0;
                }
                piece_at(to + (i * 2 + half) * eight) = made;
            }
    }
}

// The gradient before a layer, in place: y becomes (dz W) × act'(y), rounded. All warps of the block call it; it begins
// with a barrier.
template <u32 ROWS, u32 DEPTH, u32 WARPS, typename From>
__device__ __forceinline__ void backward_layer(const From& w, u32 inputs, u32 outputs, u32 act, const Tile& dz, const Tile& y, u32 rows) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 down = rows / (16 * ROWS), tasks = down * ((inputs + 31) / 32), blocks = (outputs + 31) / 32;
    Ahead<true, 4, DEPTH> ahead;
    ahead.start(w, min(warp, tasks - 1) / down * 32, blocks);
    __syncthreads();
#pragma unroll 1
    for (u32 task = warp; task < tasks; task += WARPS) {
        const u32 row = task % down * 16 * ROWS, column = task / down * 32;
        if (task != warp) ahead.start(w, column, blocks);
        float sum[ROWS][4][4] = {};
        ahead.multiply(sum, dz, row, w, column, blocks);
        const bool real = column + t * 8 < inputs;
        const u32 eight = y.eight();
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            const u32 place = y.place(row + g, column / 8 + j) + t * 4;
#pragma unroll
            for (u32 i = 0; i < ROWS * 2; i++) {
                u32& at = word_at(place + i * eight);
                const u32 o = at;
                float low = sum[i / 2][j][i % 2 * 2], high = sum[i / 2][j][i % 2 * 2 + 1];
                if (act == TANH) low *= 1.0f - low_half(o) * low_half(o), high *= 1.0f - high_half(o) * high_half(o);
                u32 made = pack(low, high);
                if (act == RELU) made = where_above(made, o);
                at = real ? made : 0;
            }
        }
    }
}

// dW = dzᵀ x and dbias = Σ dz over the rows of both tiles, 16 × TALL rows and 32 columns of dW for a warp at a time.
// With `more` they are added to what is there.
template <u32 WARPS, u32 TALL>
__device__ __forceinline__ void weight_gradient(const Tile& dz, const Tile& x, u32 inputs, u32 outputs, u32 rows, float* __restrict__ dw,
                                                float* __restrict__ dbias, bool more) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 matrix = lane / 8, in_matrix = lane % 8;
    static_assert(TALL == 1 || TALL == 2, "32 rows or half of them");
    const u32 down = (outputs + 31) / 32 * (2 / TALL), tasks = down * ((inputs + 31) / 32);
    constexpr u32 ONES = 0x3f803f80u;
#pragma unroll 1
    for (u32 task = warp; task < tasks; task += WARPS) {
        const u32 part = task % down, half = TALL == 2 ? 0 : part % 2, top = part / (2 / TALL) * 32, left = task / down * 32;
        float sum[TALL][4][4] = {}, column[TALL][4] = {};
        // Row and columns of dW in this lane: the eighths of 32 are exchanged as in tiles.
        const u32 out = top + half * 4 + g / 2 * 8 + g % 2;
        const bool real = out < outputs && left + t * 8 < inputs;
        float* to = dw + out * inputs + left + t * 8;
        if (more && real) {
#pragma unroll
            for (u32 i = 0; i < 2 * TALL; i++) {
#pragma unroll
                for (u32 j = 0; j < 4; j += 2) {
                    const float4 v = load4(to + i * 2 * inputs + j * 2);
                    sum[i / 2][j][i % 2 * 2] = v.x, sum[i / 2][j][i % 2 * 2 + 1] = v.y;
                    sum[i / 2][j + 1][i % 2 * 2] = v.z, sum[i / 2][j + 1][i % 2 * 2 + 1] = v.w;
                }
                if (left == 0) column[i / 2][i % 2 * 2] = dbias[out + i * 2];
            }
        }
        // The rows of a matrix of 8 lie where those of the first one do, only further on: their pieces are exchanged in
        // the same way.
        const u32 shared = shared_address(shared_memory);
        u32 from_a[TALL], from_b[2];
#pragma unroll
        for (u32 i = 0; i < TALL; i++) from_a[i] = shared + dz.place(matrix / 2 * 8 + in_matrix, top / 8 + (half + i) * 2 + matrix % 2);
#pragma unroll
        for (u32 i = 0; i < 2; i++) from_b[i] = shared + x.place(matrix % 2 * 8 + in_matrix, left / 8 + i * 2 + matrix / 2);
#pragma unroll 2
        for (u32 k = 0; k < rows; k += 16) {
            u32 a[TALL][4], b[2][4];
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                if (i < TALL) load_matrices<true>(a[i % TALL], from_a[i % TALL]), from_a[i % TALL] += 2 * dz.eight();
                load_matrices<true>(b[i], from_b[i]);
                from_b[i] += 2 * x.eight();
            }
#pragma unroll
            for (u32 i = 0; i < TALL; i++) {
#pragma unroll
                for (u32 j = 0; j < 4; j++) mma(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
                if (left == 0) mma(column[i], a[i], ONES, ONES);
            }
        }
        // A lane has 8 neighbours of a row; two lanes exchange halves, so that each store fills whole sectors of 32
        // bytes.
        const bool odd = t % 2;
        float* both = to + (odd ? -4 : 0);
#pragma unroll
        for (u32 i = 0; i < 2 * TALL; i++) {
            float own[8], other[4];
#pragma unroll
            for (u32 e = 0; e < 8; e++) own[e] = sum[i / 2][e / 2][i % 2 * 2 + e % 2];
#pragma unroll
            for (u32 e = 0; e < 4; e++) other[e] = __shfl_xor_sync(WHOLE, odd ? own[e] : own[4 + e], 1);
            // The first store is of the even lane's eight, the second of the odd lane's.
            const bool first = out < outputs && left + t / 2 * 16 < inputs, second = out < outputs && left + t / 2 * 16 + 8 < inputs;
            const float4 kept = make_float4(own[odd ? 4 : 0], own[odd ? 5 : 1], own[odd ? 6 : 2], own[odd ? 7 : 3]);
            const float4 got = make_float4(other[0], other[1], other[2], other[3]);
            if (first) store4(both + i * 2 * inputs, odd ? got : kept);
            if (second) store4(both + i * 2 * inputs + 8, odd ? kept : got);
            if (real && left == 0 && t == 0) dbias[out + i * 2] = column[i / 2][i % 2 * 2];
        }
    }
}
