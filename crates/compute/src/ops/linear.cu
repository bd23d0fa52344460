// Products with a member axis, for machines without cuBLASLt: Y = act(X Wᵀ + bias), dX = (dZ W + add) × act'(y), dW =
// dZᵀ X.
//
// All matrices are row-major with a row stride and a member stride in elements. m, n, k are those of C[m, n] = A B:
//
// | form | A               | B               | C              | m, n, k       | after the sum                                           |
// |------|-----------------|-----------------|----------------|---------------|---------------------------------------------------------|
// | nt   | X  [B, in]      | W [out, in]     | Y  [B, out]    | B, out, in    | + bias[n] (of T, may be null), activation, rounded to T |
// | nn   | dZ [B, out]     | W [out, in]     | dX [B, in]     | B, in, out    | + add, × derivative from y (act 0: none), rounded to T  |
// | tn   | dZ [B, out]     | X [B, in]       | dW [out, in]   | out, in, B    | f32; slices of B go to their own part of scratch        |
//
// | kernel                                        | T    | C    | tile      | block | static shared |
// |-----------------------------------------------|------|------|-----------|-------|---------------|
// | nt_128_bf16, nn_128_bf16                      | bf16 | bf16 | 128 × 128 | 128   | 49152         |
// | nt_float_128_bf16, nn_float_128_bf16, tn_128_bf16 | bf16 | f32 | 128 × 128 | 128 | 49152         |
// | nt_64_bf16, nn_64_bf16                        | bf16 | bf16 | 64 × 64   | 128   | 32768         |
// | nt_float_64_bf16, nn_float_64_bf16, tn_64_bf16 | bf16 | f32 | 64 × 64   | 128   | 32768         |
// | nt_128_f32, nn_128_f32, tn_128_f32            | f32  | f32  | 128 × 128 | 256   | 16896         |
// | nt_64_f32, nn_64_f32, tn_64_f32               | f32  | f32  | 64 × 64   | 256   | 17408         |
//
// Grid of nt and nn: [ceil(n / tile), ceil(m / tile), S]. Grid of tn: [ceil(n / tile), ceil(m / tile), S × splits].
// Dynamic shared memory 0. One argument, a `Product` by value. Logits: nt_float_* (bf16) or nt_*_f32, with bias null
// and act 0. Several heads into one dX: all but the last with nn_float_* (or nn_*_f32) and act 0 into f32 scratch,
// adding it from the second on; the last adds it and writes T. Both tiles give the same bits, so the clock may choose:
// 64 × 64 for widths up to 64, or where tiles of 128 × 128 do not fill the machine. tn: split k covers rows slice × k
// .. slice × (k + 1), slice a multiple of 32, splits = ceil(B / slice). With splits = 1 c is the place in the arena of
// gradients; else c is scratch [S, splits, out × in] (c_stride = in, c_split = out × in, c_member = splits × out × in)
// and sum_partials (n = out × in, blocks = splits) follows. Needs: widths and strides multiples of 8, places on 16
// bytes, any number of rows B. No atomics: the sum of an element runs along k in order, 16 at a time in bf16 (as the
// tensor core adds them), one by one in f32.
// registers: 240

#include "../population/population.cuh"
#include "tensor.cuh"

// What a product is: 184 bytes, passed by value.
struct Product {
    const SlotState* states; // [S]
    const void* a;
    u64 a_stride;
    u64 a_member;
    const void* b;
    u64 b_stride;
    u64 b_member;
    void* c;
    u64 c_stride;
    u64 c_member;
    u64 c_split;      // tn: elements from one split's part to the next
    const void* bias; // nt: [out] of T, or null
    u64 bias_member;
    const void* y; // nn: [B, in] of T, the stored outputs of the layer before; not read with act 0
    u64 y_stride;
    u64 y_member;
    const void* add; // nn: [B, in], see `adds`
    u64 add_stride;
    u64 add_member;
    u32 m;
    u32 n;
    u32 k;
    u32 mode;
    u32 act;    // nt: activation; nn: whose derivative; 0 none, 1 relu, 2 tanh
    u32 adds;   // nn: 0 nothing is added, 1 `add` is f32, 2 `add` is of T (it may be c itself)
    u32 splits; // tn; 1 else
    u32 slice;  // tn: rows of a split; k else
};
static_assert(sizeof(Product) == 184, "Product must lie as the launch packs it");

enum Form { NT, NN, TN };

__device__ __forceinline__ float4 plus(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// What is done to four neighbours of a row before they are stored.
template <Form FORM, typename T, typename Out>
__device__ __forceinline__ void finish(const Product& p, u32 slot, Out* c, u32 row, u32 column, float4 v) {
    if (FORM == NT) {
        if (p.bias) v = plus(v, load4((const T*)p.bias + slot * p.bias_member + column));
        if (p.act != IDENTITY)
            v = make_float4(activation(v.x, p.act), activation(v.y, p.act), activation(v.z, p.act), activation(v.w, p.act));
    }
    if (FORM == NN) {
        const u64 at = slot * p.add_member + row * p.add_stride + column;
        if (p.adds == 1) v = plus(v, load4((const float*)p.add + at));
        if (p.adds == 2) v = plus(v, load4((const T*)p.add + at));
        if (p.act != IDENTITY) {
            const float4 y = load4((const T*)p.y + slot * p.y_member + row * p.y_stride + column);
            v.x *= slope(y.x, p.act), v.y *= slope(y.y, p.act), v.z *= slope(y.z, p.act), v.w *= slope(y.w, p.act);
        }
    }
    store4(c + row * p.c_stride + column, v);
}

// ---------------------------------------------------------------------------------------------------------------------------------
// bf16: tensor cores, 4 warps as 2 × 2, tiles of 32 along k in a ring of STAGES in shared memory.
//
// An operand lies in shared memory as it lies in global memory: with k along the row, [SIZE][32], or with k down,
// [32][SIZE]. Pieces of 16 bytes are exchanged inside a row so that the eight rows of a matrix lie in eight different
// bank groups.
// ---------------------------------------------------------------------------------------------------------------------------------
constexpr u32 DEPTH = 32;

// Byte offset of piece `piece` of row `row`, rows of PIECES pieces.
template <u32 PIECES> __device__ __forceinline__ u32 place(u32 row, u32 piece) {
    const u32 turn = PIECES == 4 ? (row / 2) % 4 : row % 8;
    return (row * PIECES + (piece ^ turn)) * 16;
}

// One operand's way from global into shared memory: SIZE × 32 elements by 128 threads, SIZE / 32 pieces each.
template <u32 SIZE, bool DOWN> struct Feed {
    static constexpr u32 PIECES = DOWN ? SIZE / 8 : DEPTH / 8; // of a row
    static constexpr u32 ROWS = 128 / PIECES;                  // rows that 128 threads take at once
    static constexpr u32 ROUNDS = SIZE / 32;

    const bf16* base;
    const bf16* from;
    u64 stride;
    u32 row, column; // of this thread's first piece: DOWN: (k, size), else (size, k)
    u32 size, depth; // how much there is, from the tile's corner on

    // `corner` is element (first of size, first of k) of the tile column; `size` and `depth` are what is left of both
    // from there.
    __device__ __forceinline__ Feed(const bf16* corner, u64 stride, u32 size, u32 depth) : stride(stride), size(size), depth(depth) {
        row = threadIdx.x / PIECES;
        column = threadIdx.x % PIECES * 8;
        base = corner;
        from = corner + row * stride + column;
    }

    // Starts the copy of tile `tile` (k from 32 × tile on) to `to`.
    __device__ __forceinline__ void fetch(u32 to, u32 tile) {
#pragma unroll
        for (u32 i = 0; i < ROUNDS; i++) {
            const u32 r = row + i * ROWS;
            bool real;
            const bf16* at;
            if (DOWN) {
                real = tile * DEPTH + r < depth && column < size;
                at = from + (u64)(tile * DEPTH + i * ROWS) * stride;
            } else {
                real = r < size && tile * DEPTH + column < depth;
                at = from + i * ROWS * stride + tile * DEPTH;
            }
            copy_async(to + place<PIECES>(r, column / 8), real ? at : base, real);
        }
    }
};

template <Form FORM, typename Out, u32 TILE, u32 STAGES> __device__ __forceinline__ void tensor_product(const Product& p) {
    constexpr bool A_DOWN = FORM == TN, B_DOWN = FORM != NT;
    constexpr u32 A_PIECES = A_DOWN ? TILE / 8 : DEPTH / 8, B_PIECES = B_DOWN ? TILE / 8 : DEPTH / 8;
    constexpr u32 BYTES = TILE * DEPTH * 2; // of one operand's tile
    constexpr u32 WARP = TILE / 2;          // a warp has WARP × WARP of C
    constexpr u32 MS = WARP / 16, NS = WARP / 8;
    __shared__ __align__(128) unsigned char ring[STAGES * 2 * BYTES];

    const u32 slot = FORM == TN ? blockIdx.z / p.splits : blockIdx.z;
    if (idle(p.states[slot], p.mode)) return;
    const u32 split = FORM == TN ? blockIdx.z - slot * p.splits : 0;
    const u32 top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    // Along k: from `first` on, `depth` of them.
    const u32 first = FORM == TN ? split * p.slice : 0;
    const u32 depth = FORM == TN && p.k - first > p.slice ? p.slice : p.k - first;
    const u32 tiles = (depth + DEPTH - 1) / DEPTH;

    const bf16* a = (const bf16*)p.a + slot * p.a_member;
    const bf16* b = (const bf16*)p.b + slot * p.b_member;
    Feed<TILE, A_DOWN> feed_a(A_DOWN ? a + first * p.a_stride + top : a + top * p.a_stride, p.a_stride, p.m - top, depth);
    Feed<TILE, B_DOWN> feed_b(B_DOWN ? b + first * p.b_stride + left : b + left * p.b_stride, p.b_stride, p.n - left, depth);
    const u32 shared = shared_address(ring);

#pragma unroll
    for (u32 s = 0; s < STAGES - 1; s++) {
        if (s < tiles) {
            feed_a.fetch(shared + s * 2 * BYTES, s);
            feed_b.fetch(shared + s * 2 * BYTES + BYTES, s);
        }
        copy_commit();
    }

    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 warp_row = warp / 2 * WARP, warp_column = warp % 2 * WARP;
    const u32 matrix = lane / 8, in_matrix = lane % 8;
    float sum[MS][NS][4] = {};
    u32 stage = 0;
    for (u32 tile = 0; tile < tiles; tile++) {
        copy_wait<STAGES - 2>();
        // Now tile `tile` is there for all, and nobody reads the stage before it any more, which is the one to be
        // filled next.
        __syncthreads();
        const u32 next = tile + STAGES - 1, to = stage == 0 ? STAGES - 1 : stage - 1;
        if (next < tiles) {
            feed_a.fetch(shared + to * 2 * BYTES, next);
            feed_b.fetch(shared + to * 2 * BYTES + BYTES, next);
        }
        copy_commit();
        const u32 at_a = shared + stage * 2 * BYTES, at_b = at_a + BYTES;
#pragma unroll
        for (u32 k = 0; k < DEPTH; k += 16) {
            u32 fa[MS][4], fb[NS / 2][4];
#pragma unroll
            for (u32 i = 0; i < MS; i++) {
                const u32 m = warp_row + i * 16;
                // Matrices: (m, k), (m + 8, k), (m, k + 8), (m + 8, k + 8).
                const u32 at = A_DOWN ? place<A_PIECES>(k + matrix / 2 * 8 + in_matrix, m / 8 + matrix % 2)
                                      : place<A_PIECES>(m + matrix % 2 * 8 + in_matrix, k / 8 + matrix / 2);
                load_matrices<A_DOWN>(fa[i], at_a + at);
            }
#pragma unroll
            for (u32 j = 0; j < NS / 2; j++) {
                const u32 n = warp_column + j * 16;
                // Matrices: (n, k), (n, k + 8), (n + 8, k), (n + 8, k + 8).
                const u32 at = B_DOWN ? place<B_PIECES>(k + matrix % 2 * 8 + in_matrix, n / 8 + matrix / 2)
                                      : place<B_PIECES>(n + matrix / 2 * 8 + in_matrix, k / 8 + matrix % 2);
                load_matrices<B_DOWN>(fb[j], at_b + at);
            }
#pragma unroll
            for (u32 i = 0; i < MS; i++)
#pragma unroll
                for (u32 j = 0; j < NS; j++) mma(sum[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    copy_wait<0>();

    // A lane has two neighbours of each 8 columns. Lanes 2i and 2i + 1 exchange, so that the even one has four
    // neighbours of the first 8 columns and the odd one four of the second 8, and rows are written in whole sectors.
    Out* c = (Out*)p.c + slot * p.c_member + split * p.c_split;
    const bool odd = lane % 2;
#pragma unroll
    for (u32 i = 0; i < MS; i++)
#pragma unroll
        for (u32 j = 0; j < NS; j += 2)
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                const float* first = &sum[i][j][half * 2];
                const float* second = &sum[i][j + 1][half * 2];
                const float x = __shfl_xor_sync(0xffffffffu, odd ? first[0] : second[0], 1);
                const float y = __shfl_xor_sync(0xffffffffu, odd ? first[1] : second[1], 1);
                const float4 v = odd ? make_float4(x, y, second[0], second[1]) : make_float4(first[0], first[1], x, y);
                const u32 row = top + warp_row + i * 16 + half * 8 + lane / 4;
                const u32 column = left + warp_column + j * 8 + (odd ? 8 : 0) + lane % 4 / 2 * 4;
                if (row < p.m && column < p.n) finish<FORM, bf16, Out>(p, slot, c, row, column, v);
            }
}

// ---------------------------------------------------------------------------------------------------------------------------------
// f32: 16 × 16 threads with EACH × EACH of C each, in quarters of 4 × 4. Both operands lie in shared memory with k
// down; two stages.
// ---------------------------------------------------------------------------------------------------------------------------------

// One operand's way: TILE × STEP elements, one float4 for each of 256 threads, through registers.
template <u32 TILE, u32 STEP, bool DOWN> struct Carry {
    static constexpr u32 LINE = TILE + 4; // of shared memory
    const float* from; // this thread's next piece
    u32 row, column;   // of its place in a tile: DOWN: (k, size), else (size, k)
    u32 left;          // what remains of k from this thread's first piece on; 0 without a row or column of the size
    float4 held;

    __device__ __forceinline__ Carry(const float* corner, u64 stride, u32 size, u32 depth) {
        const u32 pieces = DOWN ? TILE / 4 : STEP / 4;
        row = threadIdx.x / pieces;
        column = threadIdx.x % pieces * 4;
        const u32 k = DOWN ? row : column;
        const bool real = DOWN ? column < size : row < size;
        left = real && k < depth ? depth - k : 0;
        from = corner + row * stride + column;
    }

    // Reads the piece of tile `tile`; tiles come in order.
    __device__ __forceinline__ void fetch(u32 tile, u64 stride) {
        held = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (tile * STEP < left) held = load4(from);
        from += DOWN ? STEP * stride : STEP;
    }

    __device__ __forceinline__ void put(float* to) const {
        if (DOWN) {
            store4(to + row * LINE + column, held);
        } else {
            to[column * LINE + row] = held.x;
            to[(column + 1) * LINE + row] = held.y;
            to[(column + 2) * LINE + row] = held.z;
            to[(column + 3) * LINE + row] = held.w;
        }
    }
};

template <Form FORM, u32 EACH> __device__ __forceinline__ void plain_product(const Product& p) {
    constexpr u32 TILE = 16 * EACH, STEP = 1024 / TILE, LINE = TILE + 4;
    constexpr bool A_DOWN = FORM == TN, B_DOWN = FORM != NT;
    __shared__ __align__(16) float lines_a[2][STEP * LINE], lines_b[2][STEP * LINE];

    const u32 slot = FORM == TN ? blockIdx.z / p.splits : blockIdx.z;
    if (idle(p.states[slot], p.mode)) return;
    const u32 split = FORM == TN ? blockIdx.z - slot * p.splits : 0;
    const u32 top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    const u32 first = FORM == TN ? split * p.slice : 0;
    const u32 depth = FORM == TN && p.k - first > p.slice ? p.slice : p.k - first;
    const u32 tiles = (depth + STEP - 1) / STEP;

    const float* a = (const float*)p.a + slot * p.a_member;
    const float* b = (const float*)p.b + slot * p.b_member;
    Carry<TILE, STEP, A_DOWN> carry_a(A_DOWN ? a + first * p.a_stride + top : a + top * p.a_stride, p.a_stride, p.m - top, depth);
    Carry<TILE, STEP, B_DOWN> carry_b(B_DOWN ? b + first * p.b_stride + left : b + left * p.b_stride, p.b_stride, p.n - left, depth);

    const u32 across = threadIdx.x % 16 * 4, down = threadIdx.x / 16 * 4;
    float sum[EACH][EACH] = {};
    carry_a.fetch(0, p.a_stride);
    carry_b.fetch(0, p.b_stride);
    carry_a.put(lines_a[0]);
    carry_b.put(lines_b[0]);
    __syncthreads();
    for (u32 tile = 0; tile < tiles; tile++) {
        const u32 stage = tile % 2;
        if (tile + 1 < tiles) {
            carry_a.fetch(tile + 1, p.a_stride);
            carry_b.fetch(tile + 1, p.b_stride);
        }
#pragma unroll 2
        for (u32 k = 0; k < STEP; k++) {
            float fa[EACH], fb[EACH];
#pragma unroll
            for (u32 q = 0; q < EACH / 4; q++) {
                const float4 va = load4(&lines_a[stage][k * LINE + q * 64 + down]);
                const float4 vb = load4(&lines_b[stage][k * LINE + q * 64 + across]);
                fa[q * 4] = va.x, fa[q * 4 + 1] = va.y, fa[q * 4 + 2] = va.z, fa[q * 4 + 3] = va.w;
                fb[q * 4] = vb.x, fb[q * 4 + 1] = vb.y, fb[q * 4 + 2] = vb.z, fb[q * 4 + 3] = vb.w;
            }
#pragma unroll
            for (u32 i = 0; i < EACH; i++)
#pragma unroll
                for (u32 j = 0; j < EACH; j++) sum[i][j] = fmaf(fa[i], fb[j], sum[i][j]);
        }
        if (tile + 1 < tiles) {
            carry_a.put(lines_a[stage ^ 1]);
            carry_b.put(lines_b[stage ^ 1]);
        }
        __syncthreads();
    }

    float* c = (float*)p.c + slot * p.c_member + split * p.c_split;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 row = top + i / 4 * 64 + down + i % 4;
#pragma unroll
        for (u32 j = 0; j < EACH; j += 4) {
            const u32 column = left + j / 4 * 64 + across;
            const float4 v = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            if (row < p.m && column < p.n) finish<FORM, float, float>(p, slot, c, row, column, v);
        }
    }
}

// The names.
#define TENSOR(NAME, FORM, OUT)                                                                                                          \
    extern "C" __global__ void __launch_bounds__(128, 2) NAME##_128_bf16(const Product p) { tensor_product<FORM, OUT, 128, 3>(p); }      \
    extern "C" __global__ void __launch_bounds__(128, 4) NAME##_64_bf16(const Product p) { tensor_product<FORM, OUT, 64, 4>(p); }
#define PLAIN(NAME, FORM)                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256, 2) NAME##_128_f32(const Product p) { plain_product<FORM, 8>(p); }                  \
    extern "C" __global__ void __launch_bounds__(256, 4) NAME##_64_f32(const Product p) { plain_product<FORM, 4>(p); }

TENSOR(nt, NT, bf16)
TENSOR(nt_float, NT, float)
TENSOR(nn, NN, bf16)
TENSOR(nn_float, NN, float)
TENSOR(tn, TN, float)
PLAIN(nt, NT)
PLAIN(nn, NN)
PLAIN(tn, TN)
