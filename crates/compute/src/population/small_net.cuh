// What the kernels of whole small nets share: how a net and its data are described, which rows a batch has, their
// gather into a tile, and the head with its loss. `small.cu` and `small_step.cu` say what is done with it.
#pragma once

#include "../random/random.cuh"
#include "small.cuh"

struct SmallLayer {
    u32 weight;  // offset in a row of the arena
    u32 bias;
    u32 inputs;  // padded to 8
    u32 outputs; // padded to 8
    u32 act;
};

// What a net and its data are, passed by value. What the pointers mean is said in population.cu.
struct Small {
    const SlotState* states;
    const EpochState* epochs; // read in mode 0 only
    const float* master; // [S, params]
    const bf16* copy;    // [S, params]
    u64 params;
    u64 seed;
    const u32* lists;
    const u32* rows; // [S, B], read in mode 2 only: which rows
    const float* table;
    u64 stride;
    const u32* map;
    const float* mean;
    const float* inverse;
    const u8* labels;
    const float* weights;
    const float* class_weights;
    const u32* valid_list;
    const u32* valid_count;
    const u32* chunk;
    float* partial;       // [S, blocks, params]; not touched when scoring
    double* loss_partial; // [S, blocks, 2]
    u64* confusion;       // [S, classes, classes], when scoring
    float* logits;        // [S, B, padded classes] without bias; `small_logits` only
    u32 batch;
    u32 mode;
    u32 slice;
    u32 features;
    u32 window;
    u32 layers;
    u32 classes;
    u32 spare;
    SmallLayer layer[4];
};

// A row of the batch: where its window begins, or NOBODY for the tail.
constexpr u32 NOBODY = 0xffffffffu;

struct Found {
    u32 start; // first row of the window, in the input's table
    u32 row;   // of the first table
};

__device__ __forceinline__ Found find(const Small& p, const SlotState& state, const EpochState* epoch, u32 slot, u32 b, u32 end) {
    Found made = {NOBODY, 0};
    if (b >= end) return made;
    if (p.mode == ALWAYS) {
        made.row = p.rows[(u64)slot * p.batch + b];
    } else if (p.mode == SCORE) {
        const u64 sample = (u64)*p.chunk * p.batch + b;
        if (sample >= p.valid_count[state.index]) return made;
        made.row = p.lists[(u64)p.valid_list[state.index] + sample];
    } else {
        const u64 sample = (u64)epoch->cursor + b;
        if (sample >= epoch->samples) return made;
        made.row = p.lists[epoch->list + Permutation(epoch->samples, p.seed, state.id, epoch->done).at((u32)sample)];
    }
    made.start = (p.map ? p.map[made.row] : made.row) - (p.window - 1);
    return made;
}

// The rows of a tile, scaled and rounded, as `gather` does it. A thread keeps to its 8 columns.
template <u32 THREADS, typename To>
__device__ __forceinline__ void gather_tile(const Small& p, u32 member, const u32* starts, const To& x, u32 rows) {
    const u32 thread = fresh(threadIdx.x);
    const u32 abreast = THREADS / x.pieces, own = thread / x.pieces, piece = thread - own * x.pieces, column = piece * 8;
    if (own >= abreast) return;
    const u32 width = p.features * p.window;
    const bool straight = p.window == 1 || p.features % 4 == 0;
    u32 from[8];
    float shift[8], factor[8];
#pragma unroll
    for (u32 e = 0; e < 8; e++) {
        const u32 t = p.window == 1 ? 0 : (column + e) / p.features, feature = (column + e) - t * p.features;
        const bool real = column + e < width;
        from[e] = real ? t * (u32)p.stride + feature : 0;
        shift[e] = real && p.mean ? p.mean[(u64)member * p.features + feature] : 0.0f;
        factor[e] = real && p.mean ? p.inverse[(u64)member * p.features + feature] : 1.0f;
    }
#pragma unroll 2
    for (u32 row = own; row < rows; row += abreast) {
        const u32 start = starts[row];
        float v[8] = {};
        if (start != NOBODY && column < width) {
            const float* source = p.table + start * p.stride;
            if (straight) {
                const float4 low = load4(source + from[0]);
                v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
                if (column + 4 < width) {
                    const float4 high = load4(source + from[4]);
                    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
                }
            } else {
#pragma unroll
                for (u32 e = 0; e < 8; e++) v[e] = source[from[e]];
            }
            // No fma here: the bits are to be those of the CPU.
#pragma unroll
            for (u32 e = 0; e < 8; e++) {
                if (p.mean) v[e] = __fmul_rn(__fsub_rn(v[e], shift[e]), factor[e]);
                if (column + e >= width) v[e] = 0.0f;
            }
        }
        const u32 words[4] = {pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7])};
        x.put(row, piece, words);
    }
}

// What a block knows of its rows beside the tiles, in shared memory behind them.
struct Known {
    double* lost;  // [R] weighted loss
    float* weight; // [R] 0 for the tail
    u32* start;    // [R]
    u32* label;    // [R] bit 31: nobody
    u32* counts;   // [8 × 8] of small heads
};

// The head and its loss: dz = w × (softmax - onehot), rounded, TILES × 8 classes, 16 rows for a warp at a time. Lane t
// has classes 8j + 2t and 8j + 2t + 1 of rows g and g + 8.
template <u32 TILES, u32 WARPS, typename From>
__device__ __forceinline__ void head(const Small& p, u32 slot, const SmallLayer& layer, const From& w, const float* bias_at, const Tile& h,
                                     const Tile& dz, const Known& known, u32 rows) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 blocks = (layer.inputs + 31) / 32;
    Ahead<false, TILES, 8 / TILES> ahead;
    ahead.start(w, 0, blocks);
    float bias[2 * TILES];
#pragma unroll
    for (u32 e = 0; e < 2 * TILES; e++) {
        const u32 c = e / 2 * 8 + t * 2 + e % 2;
        bias[e] = c < p.classes ? bias_at[c] : 0.0f;
    }
    __syncthreads();
#pragma unroll 1
    for (u32 tile = warp; tile < rows / 16; tile += WARPS) {
        float sum[1][TILES][4] = {};
        if (tile != warp) ahead.start(w, 0, blocks);
        ahead.template multiply<1>(sum, h, tile * 16, w, 0, blocks);
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            const u32 row = tile * 16 + half * 8 + g;
            const u32 label = known.label[row] & 0x7fffffffu;
            const bool alive = known.label[row] == label;
            const float weight = known.weight[row];
            float z[2 * TILES], top = __uint_as_float(0xff800000u);
            u32 guess = 0xffffffffu;
#pragma unroll
            for (u32 e = 0; e < 2 * TILES; e++) {
                const u32 c = e / 2 * 8 + t * 2 + e % 2;
                z[e] = __fadd_rn(sum[0][e / 2][half * 2 + e % 2], bias[e]);
                if (c < p.classes && z[e] > top) top = z[e], guess = c;
            }
#pragma unroll
            for (u32 step = 1; step < 4; step *= 2) {
                const float other = __shfl_xor_sync(WHOLE, top, step);
                const u32 at = __shfl_xor_sync(WHOLE, guess, step);
                if (other > top || (other == top && at < guess)) top = other, guess = at;
            }
            float total = 0.0f, own = 0.0f;
#pragma unroll
            for (u32 e = 0; e < 2 * TILES; e++) {
                const u32 c = e / 2 * 8 + t * 2 + e % 2;
                if (c == label) own = z[e] - top;
                z[e] = c < p.classes ? expf(z[e] - top) : 0.0f;
                total += z[e];
            }
#pragma unroll
            for (u32 step = 1; step < 4; step *= 2) {
                total += __shfl_xor_sync(WHOLE, total, step);
                own += __shfl_xor_sync(WHOLE, own, step);
            }
            if (t == 0) {
                const bool sure = label < p.classes;
                known.lost[row] = alive ? (double)weight * (double)(logf(total) - (sure ? own : 0.0f)) : 0.0;
                if (p.mode == SCORE && alive && sure) {
                    const u32 at = label * p.classes + (guess < p.classes ? guess : 0);
                    if (TILES == 1) atomicAdd(&known.counts[at], 1u);
                    else atomicAdd(&p.confusion[(u64)slot * p.classes * p.classes + at], (u64)1);
                }
            }
            const float part = 1.0f / total;
#pragma unroll
            for (u32 e = 0; e < 2 * TILES; e++) {
                const u32 c = e / 2 * 8 + t * 2 + e % 2;
                const float share = z[e] * part;
                z[e] = c < p.classes && alive ? __fmul_rn(weight, c == label ? share - 1.0f : share) : 0.0f;
            }
            if constexpr (TILES == 1) {
                word_at(dz.place(row, t)) = pack(z[0], z[1]);
            } else {
                piece_at(dz.place(row, t)) = make_uint4(pack(z[0], z[1]), pack(z[2], z[3]), pack(z[4], z[5]), pack(z[6], z[7]));
            }
        }
    }
}
