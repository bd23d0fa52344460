// A whole small net in one kernel: gather, forward, loss, backward and weight gradients of a slice of a member's batch; and logits alone.
//
// For nets with one input, up to 4 layers with their head, widths up to 256, in bf16. Same rules as population.cu: a slot axis, `mode` says
// who takes part, no float atomics, every sum in an order that depends on shapes and the batch alone.
//
// A block of `small_*` has a slice of a member's rows and walks it in tiles of R rows; its gradient goes to its own part of `partial`, laid
// out like a row of the arena, and `add_parts` adds the parts in order. How many rows a tile has changes no bit, so it is chosen by the
// shared memory there is. Gaps of the arena and padding are zero in `partial` and stay so.
//
// | kernel          | block | grid                                | dynamic shared                                              |
// |-----------------|-------|-------------------------------------|-------------------------------------------------------------|
// | small_128       | 256   | [blocks, S], blocks = ceil(B / slice) | 128 × (2 × (Σ inputs + 32) + 20) + 256, inputs padded to 32 |
// | small_64        | 256   | the same                            | the same with 64                                            |
// | small_32        | 256   | the same                            | the same with 32                                            |
// | small_logits_32 | 256   | [ceil(B / 32), S]                   | 32 × (4 × widest + 4), padded to 32                         |
//
// slice is a multiple of 128. One argument, a `Small` by value. Heads have at most 32 classes, but for logits.
// registers: 224

#include "../random/random.cuh"
#include "small.cuh"

struct SmallLayer {
    u32 weight;  // offset in a row of the arena
    u32 bias;
    u32 inputs;  // padded to 8
    u32 outputs; // padded to 8
    u32 act;
};

// What a net and its data are: 288 bytes, passed by value. What the pointers mean is said in population.cu.
struct Small {
    const State* states;
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
static_assert(sizeof(Small) == 288, "Small must lie as the launch packs it");

// A row of the batch: where its window begins, or NOBODY for the tail.
constexpr u32 NOBODY = 0xffffffffu;

struct Found {
    u32 start; // first row of the window, in the input's table
    u32 row;   // of the first table
};

__device__ __forceinline__ Found find(const Small& p, const State& state, u32 slot, u32 b, u32 end) {
    Found made = {NOBODY, 0};
    if (b >= end) return made;
    if (p.mode == ALWAYS) {
        made.row = p.rows[(u64)slot * p.batch + b];
    } else if (p.mode == SCORE) {
        const u64 sample = (u64)*p.chunk * p.batch + b;
        if (sample >= p.valid_count[state.index]) return made;
        made.row = p.lists[(u64)p.valid_list[state.index] + sample];
    } else {
        const u64 sample = (u64)state.cursor + b;
        if (sample >= state.samples) return made;
        made.row = p.lists[(u64)state.list + Permutation(state.samples, p.seed, state.id, state.epoch).at((u32)sample)];
    }
    made.start = (p.map ? p.map[made.row] : made.row) - (p.window - 1);
    return made;
}

// The rows of a tile, scaled and rounded, as `gather` does it. A thread keeps to its 8 columns.
template <u32 THREADS> __device__ __forceinline__ void gather_tile(const Small& p, u32 member, const u32* starts, const Tile& x, u32 rows) {
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
#pragma unroll 4
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
#pragma unroll
        for (u32 j = 0; j < 4; j++) word_at(x.place(row, piece / 4 * 4 + j) + piece % 4 * 4) = words[j];
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

// The head and its loss: dz = w × (softmax - onehot), rounded, TILES × 8 classes, 16 rows for a warp at a time. Lane t has classes 8j + 2t and
// 8j + 2t + 1 of rows g and g + 8.
template <u32 TILES, u32 WARPS>
__device__ __forceinline__ void head(const Small& p, u32 slot, const SmallLayer& layer, const Tile& h, const Tile& dz, const Known& known,
                                     u32 rows) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 blocks = (layer.inputs + 31) / 32;
    const Weights w = {p.copy + slot * p.params + layer.weight, layer.outputs, layer.inputs / 8};
    Ahead<false, TILES, 8 / TILES> ahead;
    ahead.start(w, 0, blocks);
    float bias[2 * TILES];
#pragma unroll
    for (u32 e = 0; e < 2 * TILES; e++) {
        const u32 c = e / 2 * 8 + t * 2 + e % 2;
        bias[e] = c < p.classes ? p.master[slot * p.params + layer.bias + c] : 0.0f;
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

template <u32 R, u32 ROWS, u32 DEPTH, u32 WARPS> __device__ __forceinline__ void whole(const Small& p) {
    constexpr u32 THREADS = WARPS * 32;
    const u32 slot = blockIdx.y, warp = own_warp(), lane = threadIdx.x % 32;
    const State& state = p.states[slot];
    if (idle(state, p.mode)) return;
    const bool step = p.mode == STEP;
    const u32 last = p.layers - 1;

    // Tiles: the input of each layer, then the gradient at the logits; then what is known of rows.
    u32 end_of_tiles = 0;
#pragma unroll 1
    for (u32 l = 0; l < p.layers; l++) end_of_tiles += R * pieces_of(p.layer[l].inputs) * 16;
    const Tile dlogits = {end_of_tiles, 4};
    Known known;
    known.lost = reinterpret_cast<double*>(shared_memory + behind(dlogits, R));
    known.weight = reinterpret_cast<float*>(known.lost + R);
    known.start = reinterpret_cast<u32*>(known.weight + R);
    known.label = known.start + R;
    known.counts = known.label + R;
    for (u32 i = threadIdx.x; i < R * 4; i += THREADS) reinterpret_cast<uint4*>(shared_memory + dlogits.at)[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x < 64) known.counts[threadIdx.x] = 0;

    float* partial = p.partial + ((u64)slot * gridDim.x + blockIdx.x) * p.params;
    const u32 begin = blockIdx.x * p.slice, end = begin + p.slice < p.batch ? begin + p.slice : p.batch;
    double lost = 0.0, weighed = 0.0; // of warp 0: rows lane, lane + 32, ... of the slice
#pragma unroll 1
    for (u32 base = begin; base < end; base += R) {
        const Tile x = {0, pieces_of(p.layer[0].inputs)};
        const u32 own = fresh(slot);
        const bf16* copy = p.copy + own * p.params;
        // Labels and weights are on their way while rows are gathered.
        u32 label = 0x80000000u;
        float weight = 0.0f;
        if (threadIdx.x < R) {
            const Found found = find(p, state, slot, base + threadIdx.x, end);
            known.start[threadIdx.x] = found.start;
            if (found.start != NOBODY) {
                label = p.labels[found.row];
                weight = p.weights ? p.weights[found.row] : 1.0f;
            }
        }
        __syncthreads();
        gather_tile<THREADS>(p, fresh(state.index), known.start, x, R);
        if (threadIdx.x < R) {
            if (p.class_weights && label < p.classes) weight = __fmul_rn(weight, p.class_weights[(u64)state.index * p.classes + label]);
            known.label[threadIdx.x] = label;
            known.weight[threadIdx.x] = weight;
        }
        Tile h = x;
#pragma unroll 1
        for (u32 l = 0; l < last; l++) {
            const SmallLayer& layer = p.layer[l];
            const Tile out = {behind(h, R), pieces_of(layer.outputs)};
            const Weights w = {copy + layer.weight, layer.outputs, layer.inputs / 8};
            forward_layer<ROWS, DEPTH, WARPS>(w, copy + layer.bias, layer.inputs, layer.outputs, layer.act, h, out, R);
            h = out;
        }
        if (p.classes <= 8) head<1, WARPS>(p, own, p.layer[last], h, dlogits, known, R);
        else head<4, WARPS>(p, own, p.layer[last], h, dlogits, known, R);
        __syncthreads();
        if (warp == 0)
            for (u32 row = lane; row < R; row += 32) lost += known.lost[row], weighed += (double)known.weight[row];

        if (step) {
            Tile dz = dlogits, y = h;
#pragma unroll 1
            for (u32 l = last;; l--) {
                const SmallLayer& layer = p.layer[l];
                weight_gradient<WARPS>(dz, y, layer.inputs, layer.outputs, R, partial + layer.weight, partial + layer.bias, base != begin);
                if (l == 0) break;
                const SmallLayer& before = p.layer[l - 1];
                const Weights w = {copy + layer.weight, layer.outputs, layer.inputs / 8};
                backward_layer<ROWS, DEPTH, WARPS>(w, layer.inputs, layer.outputs, before.act, dz, y, R);
                __syncthreads();
                const u32 pieces = pieces_of(before.inputs);
                dz = y;
                y = {y.at - R * pieces * 16, pieces};
            }
        }
        __syncthreads();
    }
    if (warp == 0) {
        lost = warp_sum(lost), weighed = warp_sum(weighed);
        if (lane == 0) {
            double* to = p.loss_partial + ((u64)slot * gridDim.x + blockIdx.x) * 2;
            to[0] = lost, to[1] = weighed;
        }
    }
    if (p.mode == SCORE && p.classes <= 8 && threadIdx.x < p.classes * p.classes && known.counts[threadIdx.x] > 0)
        atomicAdd(&p.confusion[(u64)slot * p.classes * p.classes + threadIdx.x], (u64)known.counts[threadIdx.x]);
}

// The last layer of a net of which only the logits are wanted: f32, without bias.
template <u32 ROWS, u32 DEPTH, u32 WARPS>
__device__ __forceinline__ void logits_layer(const Weights& w, const SmallLayer& layer, const Tile& x, u32 rows, float* __restrict__ logits,
                                             u32 left) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 down = rows / (16 * ROWS), tasks = down * ((layer.outputs + 31) / 32), blocks = (layer.inputs + 31) / 32;
    Ahead<false, 4, DEPTH> ahead;
    ahead.start(w, warp / down * 32, blocks);
    __syncthreads();
#pragma unroll 1
    for (u32 task = warp; task < tasks; task += WARPS) {
        const u32 row = task % down * 16 * ROWS, column = task / down * 32;
        if (task != warp) ahead.start(w, column, blocks);
        float sum[ROWS][4][4] = {};
        ahead.multiply(sum, x, row, w, column, blocks);
#pragma unroll
        for (u32 i = 0; i < ROWS * 2; i++) {
            const u32 b = row + i * 8 + g;
            if (b >= left) continue;
            float* to = logits + b * layer.outputs + column + t * 2;
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                if (column + j * 8 < layer.outputs)
                    *reinterpret_cast<float2*>(to + j * 8) = make_float2(sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]);
        }
    }
}

template <u32 R, u32 DEPTH, u32 WARPS> __device__ __forceinline__ void only_logits(const Small& p) {
    const u32 slot = blockIdx.y, begin = blockIdx.x * R;
    const State& state = p.states[slot];
    if (idle(state, p.mode)) return;
    u32 widest = 0;
#pragma unroll 1
    for (u32 l = 0; l < p.layers; l++) {
        const u32 pieces = pieces_of(p.layer[l].inputs);
        widest = pieces > widest ? pieces : widest;
    }
    const u32 other = R * widest * 16;
    u32* starts = reinterpret_cast<u32*>(shared_memory + 2 * other);
    Tile h = {0, pieces_of(p.layer[0].inputs)};
    if (threadIdx.x < R) starts[threadIdx.x] = find(p, state, slot, begin + threadIdx.x, p.batch).start;
    __syncthreads();
    gather_tile<WARPS * 32>(p, state.index, starts, h, R);
    const bf16* copy = p.copy + slot * p.params;
    const u32 last = p.layers - 1;
#pragma unroll 1
    for (u32 l = 0; l < last; l++) {
        const SmallLayer& layer = p.layer[l];
        const Tile out = {l % 2 ? 0 : other, pieces_of(layer.outputs)};
        const Weights w = {copy + layer.weight, layer.outputs, layer.inputs / 8};
        // Enough work for all warps comes first; then weights are to be read by as few as possible.
        if (layer.outputs >= WARPS * 32)
            forward_layer<R / 16, DEPTH, WARPS>(w, copy + layer.bias, layer.inputs, layer.outputs, layer.act, h, out, R);
        else forward_layer<1, DEPTH, WARPS>(w, copy + layer.bias, layer.inputs, layer.outputs, layer.act, h, out, R);
        h = out;
    }
    const SmallLayer& layer = p.layer[last];
    const Weights w = {copy + layer.weight, layer.outputs, layer.inputs / 8};
    float* logits = p.logits + ((u64)slot * p.batch + begin) * layer.outputs;
    if (layer.outputs >= WARPS * 32) logits_layer<R / 16, DEPTH, WARPS>(w, layer, h, R, logits, p.batch - begin);
    else logits_layer<1, DEPTH, WARPS>(w, layer, h, R, logits, p.batch - begin);
}

extern "C" __global__ void __launch_bounds__(256, 1) small_128(const __grid_constant__ Small p) { whole<128, 4, 2, 8>(p); }
extern "C" __global__ void __launch_bounds__(256, 1) small_64(const __grid_constant__ Small p) { whole<64, 2, 2, 8>(p); }
extern "C" __global__ void __launch_bounds__(256, 1) small_32(const __grid_constant__ Small p) { whole<32, 1, 2, 8>(p); }
extern "C" __global__ void __launch_bounds__(256, 1) small_logits_32(const __grid_constant__ Small p) { only_logits<32, 2, 8>(p); }
