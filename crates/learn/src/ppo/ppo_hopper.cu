// Values, and a minibatch up to the gradient of the weights, of a policy with two hidden layers of 64 in each tower, on
// units that Hopper alone has: what `values_5` and `minibatch_5` of `ppo_warp.cu` do, for up to 64 columns of a table.
//
// | kernel     | block | grid                             | dynamic shared                                        |
// |------------|-------|----------------------------------|-------------------------------------------------------|
// | scale_rows | 256   | [any]                            |                                                       |
// | values     | 128   | [any, P]                         | weights and two inputs of 64 rows                     |
// | minibatch  | 128   | [ceil(slices / each), P, towers] | weights; 64 rows of layers and gradients, two inputs  |
//
// `scale_rows` makes of a table, once, what nets see of it: scaled, rounded, 64 columns in each row. A minibatch copies
// such rows as they are.
//
// A block has some slices of a minibatch and one tower, and walks them in tiles of 64 rows, 16 for each of its four
// warps, while rows of the next tile are on their way. Products of 64 rows with weights take rows from registers and
// weights from shared memory; products over rows take both sides from there, turned, and stay in registers from the
// first tile to the last, 16 rows at a time, in order. A column of ones behind the input and one behind the first layer
// make the gradients of biases; rows of ones in registers make that of the head's. All sums go as in `minibatch_5`, so
// that the bits are the same.
//
// A panel is a matrix of 64 rows of bf16 in shared memory, in pieces of 8 columns: [columns / 8][rows][8], with room
// for one more row behind each piece, so that the pieces of a row lie in different banks. Eight rows of a piece are
// what a tensor core reads at once, as they lie or turned. The input has eight pieces of the table, one of what an
// account is shown, and one of ones.
// targets: 90a
// registers: 255

#include "loss_rows.cuh"

extern __shared__ __align__(32) unsigned char shared_memory[];

constexpr u32 WARPS = 4;
constexpr u32 TILE = WARPS * MLP_ROWS; // rows
constexpr u32 PIECE = TILE * 16 + 16;  // bytes from a piece to the next
constexpr u32 STEPS = 5;               // of 16 columns of the input
constexpr u32 COLUMNS = 64;            // of the table
constexpr u32 SHOWN_PIECE = COLUMNS / 8, ONES_PIECE = SHOWN_PIECE + 1;
constexpr u32 ONES = 0x3f803f80u;

// A table as a member's net sees it.
struct ScaleRows {
    PolicyNet net;
    View<u16> scaled; // [scales, rows, 64] bf16
    u32 member;       // whose scale it is
    u32 scale;        // which of them is written
    u32 rows;
};

struct HopperMinibatch {
    SmallMinibatch of;
    View<const u16> scaled;   // [scales, rows, 64] bf16
    View<const u32> scale_of; // [P]
    u32 rows;                 // of the table
    u32 slices;               // of a minibatch
    u32 each;                 // that a block has, at most
};

struct HopperValues {
    SmallValues of;
    View<const u16> scaled;   // as above
    View<const u32> scale_of; // [P]
    u32 rows;                 // of the table
};

__global__ void __launch_bounds__(256) scale_rows(const __grid_constant__ ScaleRows given) {
    const PolicyNet& net = given.net;
    const u64 words = (u64)given.rows * (COLUMNS / 2);
    for (u64 i = (u64)blockIdx.x * 256 + threadIdx.x; i < words; i += (u64)gridDim.x * 256) {
        float v[2];
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            const u32 column = (u32)(i % (COLUMNS / 2)) * 2 + e;
            v[e] = 0.0f;
            if (column >= net.features) continue;
            const u64 scale = (u64)given.member * net.features + column;
            const float shift = net.mean ? net.mean[scale] : 0.0f, factor = net.inverse ? net.inverse[scale] : 1.0f;
            v[e] = __fmul_rn(__fsub_rn(net.table[i / (COLUMNS / 2) * net.stride + column], shift), factor);
        }
        const u64 to = (given.scale * words + i) * 2;
        if (to + 1 >= given.scaled.len) __trap();
        *reinterpret_cast<u32*>(given.scaled.data + to) = rounded_pair(v[0], v[1]);
    }
}

__device__ __forceinline__ u32 panel_at(u32& at, u32 columns) {
    const u32 made = at;
    at += columns / 8 * PIECE;
    return made;
}

// A matrix for the tensor cores: `along` is from eight numbers along the sum to the next eight, `across` from eight
// rows or columns of the product to the next eight.
__device__ __forceinline__ u64 described(u32 address, u32 along, u32 across) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(along >> 4) << 16 | (u64)(across >> 4) << 32;
}
// As it lies, the sum goes along columns; turned, along rows.
__device__ __forceinline__ u64 lying(u32 address) { return described(address, PIECE, 128); }
__device__ __forceinline__ u64 turned(u32 address) { return described(address, 128, PIECE); }
// From 16 numbers along the sum to the next 16.
constexpr u64 NEXT_COLUMNS = 2 * PIECE >> 4, NEXT_ROWS = 16 * 16 >> 4;

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void products_end() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void products_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory"); }
// What threads have written becomes visible to the tensor cores; a barrier follows.
__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

#define FOUR(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define THIRTY_TWO(d) FOUR(d, 0), FOUR(d, 1), FOUR(d, 2), FOUR(d, 3), FOUR(d, 4), FOUR(d, 5), FOUR(d, 6), FOUR(d, 7)
#define PLACES_32                                                                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "     \
    "%26, %27, %28, %29, %30, %31"

// d += a b, under way until it is waited for: 64 rows in registers by 64 columns in shared memory.
template <u32 TURNED> __device__ __forceinline__ void multiply(float (&d)[8][4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" PLACES_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, %37;\n"
                 : THIRTY_TWO(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(TURNED));
}
// d += aᵀ b over 16 rows of both.
__device__ __forceinline__ void multiply_rows(float (&d)[10][4], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {" PLACES_32
                 ", %32, %33, %34, %35, %36, %37, %38, %39}, %40, %41, 1, 1, 1, 1, 1;\n"
                 : THIRTY_TWO(d), FOUR(d, 8), FOUR(d, 9)
                 : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_rows(float (&d)[9][4], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n72k16.f32.bf16.bf16 {" PLACES_32 ", %32, %33, %34, %35}, %36, %37, 1, 1, 1, 1, 1;\n"
                 : THIRTY_TWO(d), FOUR(d, 8)
                 : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_rows(float (&d)[1][4], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 1, 1;\n" : FOUR(d, 0) : "l"(a), "l"(b));
}
// d += the sums of 16 rows of b, in each row.
__device__ __forceinline__ void multiply_ones(float (&d)[1][4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %4, %4, %4}, %5, 1, 1, 1, 1;\n"
                 : FOUR(d, 0)
                 : "r"(ONES), "l"(b));
}
// Nothing that reads d comes before this.
template <u32 N> __device__ __forceinline__ void settle(float (&d)[N][4]) {
#pragma unroll
    for (u32 n = 0; n < N; n++) asm volatile("" : FOUR(d, n)::"memory");
}

// Sixteen rows of 64 columns between registers and a panel; `at` is the lane's (see `matrices_of`).
__device__ __forceinline__ void put_panel(u32 at, const Words& words) {
    each<4>([&](auto s) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0 + %1], {%2, %3, %4, %5};\n" ::"r"(at), "n"(s.value * 2 * PIECE),
                     "r"(words[s.value][0]), "r"(words[s.value][1]), "r"(words[s.value][2]), "r"(words[s.value][3])
                     : "memory");
    });
}
__device__ __forceinline__ void get_panel(u32 at, Words& words) {
    each<4>([&](auto s) { load_matrices_at<false, s.value * 2 * PIECE>(words[s.value], at); });
}
// Where this lane's row of four 8×8 matrices is: the warp's first and second eight rows, then those of the next piece.
__device__ __forceinline__ u32 matrices_of() {
    const u32 lane = threadIdx.x % 32, matrix = lane / 8;
    return matrix / 2 * PIECE + (threadIdx.x / 32 * MLP_ROWS + matrix % 2 * 8 + lane % 8) * 16;
}

// Copies [64, columns] into a panel. The last eight columns become the piece `last`; between is what is not there.
__device__ __forceinline__ void copy_panel(u32 to, u32 to_pieces, u32 last, const bf16* from, u32 columns) {
    const u32 pieces = columns / 8;
    for (u32 i = threadIdx.x; i < TILE * to_pieces; i += blockDim.x) {
        const u32 row = i / to_pieces, piece = i - row * to_pieces, source = piece == last ? pieces - 1 : piece;
        const bool real = piece == last || piece + 1 < pieces;
        copy_async(to + piece * PIECE + row * 16, reinterpret_cast<const uint4*>(from) + (real ? row * pieces + source : 0), real);
    }
}

// A tower's weights: hidden layers as panels, the head as `warp_mlp.cuh` has it.
struct TowerWeights {
    u32 first, second;
    MlpWeights rest;
};

__device__ __forceinline__ TowerWeights tower_at(const PolicyNet& net, u32 tower, u32& at) {
    TowerWeights w;
    w.first = panel_at(at, STEPS * 16);
    w.second = panel_at(at, MLP_HIDDEN);
    w.rest.head = slabs_at<MLP_OUTPUTS>(at, MLP_HIDDEN);
    w.rest.biases = at;
    at += (MLP_BIASES + 31) / 32 * 32;
    const PolicyLayer* layers = net.layers + tower * 4;
    w.rest.act[0] = layers[0].act, w.rest.act[1] = layers[1].act;
    return w;
}

// The weights are on their way behind this.
__device__ __forceinline__ void load_tower(const PolicyNet& net, u32 p, u32 tower, const TowerWeights& w) {
    const PolicyLayer* layers = net.layers + tower * 4;
    const bf16* copy = copy_of(net, p);
    copy_panel(w.first, STEPS * 2, SHOWN_PIECE, copy + layers[0].weight, layers[0].inputs);
    copy_panel(w.second, MLP_HIDDEN / 8, MLP_HIDDEN / 8 - 1, copy + layers[1].weight, MLP_HIDDEN);
    copy_weights(w.rest.head, MLP_HIDDEN / 8, copy + layers[2].weight, layers[2].outputs, MLP_HIDDEN);
    copy_commit();
    // A bias of a hidden layer for each thread, and some of the head's.
    const u32 l = threadIdx.x / MLP_HIDDEN, unit = threadIdx.x % MLP_HIDDEN;
    const bf16 hidden = copy[layers[l].bias + unit];
    const bool has = threadIdx.x < layers[2].outputs;
    const float head = has ? net.master.data[(u64)p * net.params + layers[2].bias + threadIdx.x] : 0.0f;
    put_word<0>(w.rest.biases + threadIdx.x * 4, __float_as_uint(__bfloat162float(hidden)));
    if (threadIdx.x < MLP_OUTPUTS) put_word<2 * MLP_HIDDEN * 4>(w.rest.biases + threadIdx.x * 4, __float_as_uint(head));
}

// Layers of a tile and the gradients before their activations.
struct TilePanels {
    u32 x; // of two, one behind the other
    u32 first, second, d_first, d_second;
    u32 d_head; // [64] rows of 8 outputs
};

// Sixteen rows of the table on their way into the warp's rows of `x`; lane r % 16 has the row of r in `row`.
__device__ __forceinline__ void copy_rows(const u16* table, u32 row, u32 x) {
    const u32 lane = threadIdx.x % 32, piece = lane % 8, first = lane / 8;
    const u32 to = x + piece * PIECE + (threadIdx.x / 32 * MLP_ROWS + first) * 16;
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        copy_async(to + i * 64, table + (u64)__shfl_sync(ALL_LANES, row, first + i * 4) * COLUMNS + piece * 8, true);
    copy_commit();
}

// A value that the compiler fetches or computes once.
__device__ __forceinline__ u32 kept(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}
__device__ __forceinline__ float* kept(float* x) {
    asm volatile("" : "+l"(x));
    return x;
}

// The gradient of a tower: warp w has units 16 w to 16 w + 15 of each product's left side.
struct TowerGradient {
    float first[STEPS * 2][4]; // units of the first layer by columns of the input, then their biases
    float second[9][4];        // units of the second by units of the first, then biases
    float head[1][4];          // units of the second by outputs
    float bias[1][4];          // of the head, the same in every warp

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
#pragma unroll
            for (u32 n = 0; n < STEPS * 2; n++) first[n][e] = 0.0f;
#pragma unroll
            for (u32 n = 0; n < 9; n++) second[n][e] = 0.0f;
            head[0][e] = bias[0][e] = 0.0f;
        }
    }

    // Adds all rows of a tile; under way until it is waited for.
    __device__ __forceinline__ void add(const TilePanels& tile, u32 from) {
        const u64 x = turned(from), d_first = turned(tile.d_first), inputs = turned(tile.first), d_second = turned(tile.d_second);
        const u64 units = turned(tile.second), d_head = turned(tile.d_head);
        products_begin();
        each<TILE / 16>([&](auto k) {
            constexpr u64 ROWS = k.value * NEXT_ROWS;
            multiply_rows(second, d_second + ROWS, inputs + ROWS);
            multiply_rows(first, d_first + ROWS, x + ROWS);
            multiply_rows(head, units + ROWS, d_head + ROWS);
            multiply_ones(bias, d_head + ROWS);
        });
        products_end();
    }

    __device__ __forceinline__ void store(float* part, const PolicyLayer* layers) const {
        const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, unit = threadIdx.x / 32 * 16 + g;
        const u32 inputs = kept(layers[0].inputs), outputs = kept(layers[2].outputs);
        const auto put = [&](float* to, float low, float high) { *reinterpret_cast<float2*>(to) = make_float2(low, high); };
        {
            float *low = kept(part + layers[0].weight + unit * inputs + 2 * t), *high = kept(low + 8 * inputs);
#pragma unroll
            for (u32 n = 0; n < SHOWN_PIECE; n++) {
                if (n * 8 + 8 >= inputs) continue;
                put(low + n * 8, first[n][0], first[n][1]);
                put(high + n * 8, first[n][2], first[n][3]);
            }
            put(low + inputs - 8, first[SHOWN_PIECE][0], first[SHOWN_PIECE][1]);
            put(high + inputs - 8, first[SHOWN_PIECE][2], first[SHOWN_PIECE][3]);
        }
        {
            float* to = kept(part + layers[1].weight + unit * MLP_HIDDEN + 2 * t);
#pragma unroll
            for (u32 n = 0; n < 8; n++) {
                put(to + n * 8, second[n][0], second[n][1]);
                put(to + n * 8 + 8 * MLP_HIDDEN, second[n][2], second[n][3]);
            }
        }
        if (t == 0) {
            float *of_first = kept(part + layers[0].bias + unit), *of_second = kept(part + layers[1].bias + unit);
            of_first[0] = first[ONES_PIECE][0], of_first[8] = first[ONES_PIECE][2];
            of_second[0] = second[8][0], of_second[8] = second[8][2];
        }
        float *of_head = kept(part + layers[2].weight + unit), *of_bias = kept(part + layers[2].bias);
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const u32 output = 2 * t + e % 2;
            if (output < outputs) of_head[output * MLP_HIDDEN + e / 2 * 8] = head[0][e];
            if (unit == 0 && e < 2 && output < outputs) of_bias[output] = bias[0][e];
        }
    }
};

__device__ __forceinline__ void walk_slice(const HopperMinibatch& all_given) {
    const SmallMinibatch& given = all_given.of;
    __shared__ double scratch[4][2 * WARPS];
    __shared__ __align__(16) unsigned char terms_at[sizeof(LossTerms)];
    const Members& members = given.members;
    const PolicyNet& net = given.net;
    const u32 p = blockIdx.y, tower = blockIdx.z, warp = threadIdx.x / 32, number = threadIdx.x % 16;
    const u32 goes = given.goes[p], k = given.clock[1];
    if (goes == 0) return;
    const u32 all = members.accounts * members.steps, start = k % given.per_epoch * members.batch;
    const u32 rows = min(members.batch, all - start);
    const u32 first_slice = blockIdx.x * all_given.each, last_slice = min(all_given.slices, first_slice + all_given.each);
    const u32 begin = first_slice * given.slice, end = min(rows, last_slice * given.slice);
    u32 at = shared_address(shared_memory);
    const TowerWeights w = tower_at(net, tower, at);
    TilePanels tile;
    tile.x = panel_at(at, 2 * STEPS * 16);
    tile.first = panel_at(at, MLP_HIDDEN + 8);
    tile.second = panel_at(at, MLP_HIDDEN);
    tile.d_first = panel_at(at, MLP_HIDDEN);
    tile.d_second = panel_at(at, MLP_HIDDEN);
    tile.d_head = at;
    const u32 own_row = warp * MLP_ROWS, matrices = matrices_of();
    // Where this lane's row of a tile lies; one behind the end reads the first and counts for nothing.
    const u32* order = &given.seen.order[((u64)p * members.epochs + k / given.per_epoch) * all + start];
    const auto place_of = [&](u32 base) {
        const u32 b = base + own_row + number;
        return order[b < end ? b : 0];
    };
    const u64 first_of_all = (u64)p * all;
    if (first_of_all + all > given.seen.rows.len) __trap();
    const u32 scale = all_given.scale_of[p];
    u32 place = place_of(begin), soon = place_of(begin + TILE), later = place_of(begin + 2 * TILE);
    load_tower(net, p, tower, w);
    u32 id = given.seen.rows.data[first_of_all + place];
    LossRow row(given.seen, tower, first_of_all + place);
    place = soon;
    const u32 first_id = id;
    id = given.seen.rows.data[first_of_all + place];
    if ((u64)(scale + 1) * all_given.rows * COLUMNS > all_given.scaled.len) __trap();
    const u16* table = all_given.scaled.data + (u64)scale * all_given.rows * COLUMNS;
    u32 x = tile.x, other = tile.x + STEPS * 2 * PIECE;
    copy_rows(table, table_row(net, first_id), x);
    LossTerms& terms = *reinterpret_cast<LossTerms*>(terms_at);
    if (threadIdx.x < 6) {
        const f32* from = &given.centre[((u64)p * members.epochs * given.per_epoch + k) * 2] + threadIdx.x;
        if (threadIdx.x == 2) from = &members.clip[p];
        if (threadIdx.x == 3) from = &members.entropy_weight[p];
        if (threadIdx.x == 4) from = &members.clip_value[p];
        if (threadIdx.x == 5) from = &members.value_weight[p];
        reinterpret_cast<f32*>(terms_at)[threadIdx.x] = *from;
    }
    for (u32 i = threadIdx.x; i < 3 * TILE; i += blockDim.x) {
        const u32 row = i % TILE, which = i / TILE;
        const u32 to = which < 2 ? tile.x + (which * STEPS * 2 + ONES_PIECE) * PIECE : tile.first + MLP_HIDDEN / 8 * PIECE;
        put_piece(to + row * 16, ONES, ONES, ONES, ONES);
    }
    copy_wait<0>();
    show_to_products();
    __syncthreads();
    const LaneOffsets lane;
    const PolicyLayer* layers = net.layers + tower * 4;
    u32 base = begin;
#pragma unroll 1
    for (u32 slice = first_slice; slice < last_slice; slice++) {
        TowerGradient gradient;
        gradient.clear();
        f64 sums[4] = {};
        const u32 slice_end = min(end, (slice + 1) * given.slice);
        const u32 slice_rows = slice_end > base ? slice_end - base : 0;
#pragma unroll 1
        for (; base < slice_end; base += TILE) {
            const bool real = base + own_row + number < end;
            // What is known of the next tile is asked for first, and those behind it are looked up: a branch further
            // down waits for whatever is under way.
            const u32 next_row = table_row(net, id);
            const LossRow next(given.seen, tower, first_of_all + place);
            place = later;
            id = given.seen.rows.data[first_of_all + place];
            later = place_of(base + 3 * TILE);
            if (threadIdx.x % 32 < MLP_ROWS)
                put_piece(x + SHOWN_PIECE * PIECE + (own_row + number) * 16, rounded_pair(row.observed[0], row.observed[1]),
                          rounded_pair(row.observed[2], row.observed[3]), rounded_pair(row.observed[4], row.observed[5]),
                          rounded_pair(row.observed[6], row.observed[7]));
            copy_wait<0>();
            __syncwarp();
            Sums s;
            {
                u32 a[STEPS][4];
                begin_with_bias(s, w.rest.biases);
                each<STEPS>([&](auto i) { load_matrices_at<false, i.value * 2 * PIECE>(a[i.value], x + matrices); });
                products_begin();
                each<STEPS>([&](auto i) { multiply<0>(s, a[i.value], lying(w.first) + i.value * NEXT_COLUMNS); });
                products_end();
            }
            // The next tile's rows are on their way while this one is computed.
            copy_rows(table, next_row, other);
            {
                products_wait();
                settle(s);
                Words first;
                finish_layer(first, s, w.rest.act[0]);
                put_panel(tile.first + matrices, first);
                begin_with_bias(s, w.rest.biases + MLP_HIDDEN * 4);
                products_begin();
                each<4>([&](auto i) { multiply<0>(s, first[i.value], lying(w.second) + i.value * NEXT_COLUMNS); });
                products_end();
                products_wait();
                settle(s);
                Words second;
                finish_layer(second, s, w.rest.act[1]);
                put_panel(tile.second + matrices, second);
                float out[4];
                head_layer(out, w.rest, lane, second);
                f32 z[3], d[3] = {};
                own_outputs(z, out);
                Losses seen = {};
                if (tower == 0) {
                    const Taken taken = {row.action, row.log_probability,
                                         __fmul_rn(__fsub_rn(row.advantage, terms.centre[0]), terms.centre[1]), row.legal};
                    policy_loss(members.actions, terms.clip, terms.entropy_weight, (f32)rows, z, taken, d, seen);
                } else {
                    const f32 old = row.action;
                    d[0] = value_loss(terms.clip_value, terms.value_weight, (f32)rows, z[0], old, __fadd_rn(row.advantage, old), seen);
                    seen.policy = seen.value;
                }
                // Two lanes have a row: the lower of them counts in every other tile, as warps of a tile of 128 would.
                if (real && threadIdx.x % 32 / MLP_ROWS == (base - begin) / TILE % 2) {
                    sums[0] += (f64)seen.policy, sums[1] += (f64)seen.entropy;
                    sums[2] += (f64)seen.kl, sums[3] += (f64)seen.clipped;
                }
                if (!real) d[0] = d[1] = d[2] = 0.0f;
                const u32 both = rounded_pair(d[0], d[1]), third = rounded_pair(d[2], 0.0f);
                if (threadIdx.x % 32 < MLP_ROWS) put_piece(tile.d_head + (own_row + number) * 16, both, third, 0, 0);
                const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
                const u32 low_both = __shfl_sync(ALL_LANES, both, g), low_third = __shfl_sync(ALL_LANES, third, g);
                const u32 high_both = __shfl_sync(ALL_LANES, both, g + 8), high_third = __shfl_sync(ALL_LANES, third, g + 8);
                Words d_second;
                head_back(d_second, w.rest, lane, t == 0 ? low_both : t == 1 ? low_third : 0, t == 0 ? high_both : t == 1 ? high_third : 0, second);
                put_panel(tile.d_second + matrices, d_second);
#pragma unroll
                for (u32 n = 0; n < 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
                products_begin();
                each<4>([&](auto i) { multiply<1>(s, d_second[i.value], turned(w.second) + i.value * NEXT_ROWS); });
                products_end();
                get_panel(tile.first + matrices, first);
                products_wait();
                settle(s);
                Words d_first;
                through_activation(d_first, s, first, w.rest.act[0]);
                put_panel(tile.d_first + matrices, d_first);
            }
            show_to_products();
            __syncthreads();
            gradient.add(tile, x);
            row = next;
            const u32 done = x;
            x = other, other = done;
            products_wait();
            __syncthreads();
        }
        settle(gradient.first), settle(gradient.second), settle(gradient.head), settle(gradient.bias);
        float* part = &given.parts[((u64)p * all_given.slices + slice) * net.params];
        gradient.store(part, layers);
        f64* to = &given.partial[((u64)p * all_given.slices + slice) * 6];
        // A slice without rows comes here at once, while sums of the one before are read.
        __syncthreads();
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const f64 upper = __shfl_down_sync(ALL_LANES, sums[e], MLP_ROWS);
            const bool counts = threadIdx.x % 32 < MLP_ROWS;
            const f64 even = warp_sum(counts ? sums[e] : 0.0), odd = warp_sum(counts ? upper : 0.0);
            if (threadIdx.x % 32 == 0) scratch[e][warp] = even, scratch[e][WARPS + warp] = odd;
        }
        __syncthreads();
        if (threadIdx.x < (tower == 0 ? 4u : 1u)) {
            f64 sum = 0.0;
#pragma unroll
            for (u32 i = 0; i < 2 * WARPS; i++) sum += scratch[threadIdx.x][i];
            to[tower == 1 ? 2 : threadIdx.x == 0 ? 1 : threadIdx.x + 2] = sum;
        }
        if (threadIdx.x == 0 && tower == 0) to[0] = (f64)slice_rows;
    }
    copy_wait<0>();
}

// Values of any rows, 64 at a time: the second tower, forward. Warps keep to their own rows and wait for nobody.
__device__ __forceinline__ void walk_values(const HopperValues& all_given) {
    const SmallValues& given = all_given.of;
    const PolicyNet& net = given.net;
    const u32 p = blockIdx.y, number = threadIdx.x % 16, own_row = threadIdx.x / 32 * MLP_ROWS, count = given.count;
    u32 at = shared_address(shared_memory);
    const TowerWeights w = tower_at(net, 1, at);
    u32 x = panel_at(at, 2 * STEPS * 16), other = x + STEPS * 2 * PIECE;
    const u32 matrices = matrices_of(), scale = all_given.scale_of[p], apart = gridDim.x * TILE;
    const u64 first = (u64)p * count;
    if (first + count > given.rows.len || first + count > given.value.len) __trap();
    if ((u64)(scale + 1) * all_given.rows * COLUMNS > all_given.scaled.len) __trap();
    const u16* table = all_given.scaled.data + (u64)scale * all_given.rows * COLUMNS;
    // One behind the last reads the last.
    const auto row_of = [&](u32 base) { return first + min(base + own_row + number, count - 1); };
    u32 base = blockIdx.x * TILE;
    load_tower(net, p, 1, w);
    u32 id = given.rows.data[row_of(base)];
    copy_rows(table, table_row(net, id), x);
    f32 observed[OBSERVED], next[OBSERVED];
    load_shown(observed, given.observed, row_of(base));
    id = given.rows.data[row_of(base + apart)];
    // What stands behind the last columns meets weights of zero, but must be a number.
    for (u32 i = threadIdx.x; i < 2 * TILE; i += blockDim.x)
        put_piece(x + (i / TILE * STEPS * 2 + ONES_PIECE) * PIECE + i % TILE * 16, ONES, ONES, ONES, ONES);
    copy_wait<0>();
    show_to_products();
    __syncthreads();
    const LaneOffsets lane;
#pragma unroll 1
    for (; base < count; base += apart) {
        if (threadIdx.x % 32 < MLP_ROWS)
            put_piece(x + SHOWN_PIECE * PIECE + (own_row + number) * 16, rounded_pair(observed[0], observed[1]),
                      rounded_pair(observed[2], observed[3]), rounded_pair(observed[4], observed[5]), rounded_pair(observed[6], observed[7]));
        copy_wait<0>();
        __syncwarp();
        Sums s;
        u32 a[STEPS][4];
        begin_with_bias(s, w.rest.biases);
        each<STEPS>([&](auto i) { load_matrices_at<false, i.value * 2 * PIECE>(a[i.value], x + matrices); });
        products_begin();
        each<STEPS>([&](auto i) { multiply<0>(s, a[i.value], lying(w.first) + i.value * NEXT_COLUMNS); });
        products_end();
        // The next rows are on their way while these are computed, and those behind them are looked up.
        copy_rows(table, table_row(net, id), other);
        load_shown(next, given.observed, row_of(base + apart));
        id = given.rows.data[row_of(base + 2 * apart)];
        products_wait();
        settle(s);
        Words words;
        finish_layer(words, s, w.rest.act[0]);
        begin_with_bias(s, w.rest.biases + MLP_HIDDEN * 4);
        products_begin();
        each<4>([&](auto i) { multiply<0>(s, words[i.value], lying(w.second) + i.value * NEXT_COLUMNS); });
        products_end();
        products_wait();
        settle(s);
        Words second;
        finish_layer(second, s, w.rest.act[1]);
        float out[4];
        head_layer(out, w.rest, lane, second);
        f32 z[3];
        own_outputs(z, out);
        if (threadIdx.x % 32 < MLP_ROWS && base + own_row + number < count) given.value.data[first + base + own_row + number] = z[0];
#pragma unroll
        for (u32 o = 0; o < OBSERVED; o++) observed[o] = next[o];
        const u32 done = x;
        x = other, other = done;
    }
    copy_wait<0>();
}

__global__ void __launch_bounds__(128, 4) values(const __grid_constant__ HopperValues given) { walk_values(given); }

__global__ void __launch_bounds__(128, 2) minibatch(const __grid_constant__ HopperMinibatch given) { walk_slice(given); }
