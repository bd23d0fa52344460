// Whole phases of a small policy in one kernel each: a rollout, values of rows, and a minibatch up to the gradient of
// the weights. For nets with one row of a table, two towers of up to three hidden layers of up to 256, in bf16.
//
// A block of `rollout_R` has R accounts of one member and takes all steps of the rollout with them; weights of the
// policy's tower lie in shared memory. A block of `minibatch_R` has a slice of a minibatch and walks it in tiles of R
// rows; its gradient goes to its own part, laid out like a row of the arena. How many rows a tile has changes no bit.
//
// | kernel          | block | grid                        | dynamic shared                                            |
// |-----------------|-------|-----------------------------|-----------------------------------------------------------|
// | rollout_R       | 256   | [ceil(N / R), P]            | R × (2 × (x + 2 × widest) + 20), and the tower's weights  |
// | walk_32         | 256   | [ceil(M / 32), P]           | the same with 32                                          |
// | values_R        | 256   | [any, P]                    | R × (2 × (x + 2 × widest) + 20)                           |
// | add_parts       | 256   | [params / 64 + 1, P]        | none                                                      |
// | minibatch_R     | 256   | [slices, P]                 | R × (2 × (x + Σ hidden of the larger tower + 32) + 64)    |
//
// Widths are padded to 32; x is the width of the net's input. Two blocks of a minibatch share a multiprocessor, which
// on sm_80 takes a few spilled words a tile.
// registers: 255
// spills: 32

#include "../../../compute/src/population/small.cuh"
#include "decide.cuh"
#include "policy_net.cuh"

constexpr u32 THREADS = 256;
constexpr u32 WARPS = 8;

__device__ __forceinline__ Weights weights_of(const bf16* copy, const PolicyLayer& layer) {
    return {copy + layer.weight, layer.outputs, layer.inputs / 8};
}

// The widest input of a tower's layers behind the first, in pieces.
__device__ __forceinline__ u32 widest_of(const PolicyNet& net, u32 tower) {
    u32 widest = 0;
#pragma unroll 1
    for (u32 l = 1; l <= net.hidden[tower]; l++) {
        const u32 pieces = pieces_of(net.layers[tower * 4 + l].inputs);
        widest = pieces > widest ? pieces : widest;
    }
    return widest;
}

// Pieces of the input that nobody writes are zeros.
__device__ __forceinline__ void clear_tail(const PolicyNet& net, const Tile& x, u32 rows) {
    const u32 first = net.column / 8 + 1, left = x.pieces - first;
    const u32 nothing[4] = {};
    for (u32 i = threadIdx.x; i < rows * left; i += THREADS) x.put(i / left, first + i % left, nothing);
}

// What an account is shown, behind the columns of the table.
__device__ __forceinline__ void put_shown(const PolicyNet& net, const Tile& x, u32 row, const f32 (&observed)[OBSERVED]) {
    const u32 words[4] = {pack(observed[0], observed[1]), pack(observed[2], observed[3]), pack(observed[4], observed[5]),
                          pack(observed[6], observed[7])};
    x.put(row, net.column / 8, words);
}

// The rows of a tile, scaled and rounded. A thread keeps to its 8 columns.
__device__ __forceinline__ void gather_rows(const PolicyNet& net, u32 p, const u32* rows_at, const Tile& x, u32 rows) {
    const u32 thread = fresh(threadIdx.x), pieces = net.column / 8;
    const u32 abreast = THREADS / pieces, own = thread / pieces, piece = thread - own * pieces, column = piece * 8;
    if (own >= abreast) return;
    float shift[8], factor[8];
#pragma unroll
    for (u32 e = 0; e < 8; e++) {
        const bool real = column + e < net.features && net.mean;
        shift[e] = real ? net.mean.data[(u64)p * net.features + column + e] : 0.0f;
        factor[e] = real ? net.inverse.data[(u64)p * net.features + column + e] : 1.0f;
    }
#pragma unroll 4
    for (u32 row = own; row < rows; row += abreast) {
        const float* source = net.table.data + (u64)rows_at[row] * net.stride + column;
        float v[8] = {};
        const float4 low = __ldg(reinterpret_cast<const float4*>(source));
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        if (column + 4 < net.features) {
            const float4 high = __ldg(reinterpret_cast<const float4*>(source + 4));
            v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
        }
#pragma unroll
        for (u32 e = 0; e < 8; e++) {
            v[e] = __fmul_rn(__fsub_rn(v[e], shift[e]), factor[e]);
            if (column + e >= net.features) v[e] = 0.0f;
        }
        const u32 words[4] = {pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7])};
        x.put(row, piece, words);
    }
}

// The outputs of a head of up to four, [rows, 4] in shared memory. All warps call it; it begins with a barrier.
template <typename From>
__device__ __forceinline__ void head_outputs(const From& w, const float* bias, u32 inputs, u32 outputs, const Tile& h, float* z, u32 rows) {
    const u32 warp = own_warp(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 blocks = (inputs + 31) / 32;
    Ahead<false, 1, 8> ahead;
    ahead.start(w, 0, blocks);
    const float low = t < 2 && 2 * t < outputs ? bias[2 * t] : 0.0f, high = t < 2 && 2 * t + 1 < outputs ? bias[2 * t + 1] : 0.0f;
    __syncthreads();
#pragma unroll 1
    for (u32 tile = warp; tile < rows / 16; tile += WARPS) {
        float sum[1][1][4] = {};
        if (tile != warp) ahead.start(w, 0, blocks);
        ahead.template multiply<1>(sum, h, tile * 16, w, 0, blocks);
        if (t < 2) {
            float* to = z + (tile * 16 + g) * 4 + 2 * t;
            to[0] = sum[0][0][0] + low, to[1] = sum[0][0][1] + high;
            to[32] = sum[0][0][2] + low, to[33] = sum[0][0][3] + high;
        }
    }
}

// A tower's outputs for the rows of a tile; hidden layers take turns in two tiles behind it.
template <u32 ROWS, typename Take>
__device__ __forceinline__ void tower_outputs(const PolicyNet& net, u32 p, u32 tower, const Tile& x, u32 widest, u32 rows, float* z,
                                              const Take& take) {
    const bf16* copy = copy_of(net, p);
    const u32 hidden = net.hidden[tower], first = behind(x, rows), second = first + rows * widest * 16;
    Tile h = x;
#pragma unroll 1
    for (u32 l = 0; l < hidden; l++) {
        const PolicyLayer& layer = net.layers[tower * 4 + l];
        const Tile out = {l % 2 ? second : first, pieces_of(layer.outputs)};
        forward_layer<ROWS, 2, WARPS>(take(l), copy + layer.bias, layer.inputs, layer.outputs, layer.act, h, out, rows);
        h = out;
    }
    const PolicyLayer& head = net.layers[tower * 4 + hidden];
    head_outputs(take(hidden), net.master.data + (u64)p * net.params + head.bias, head.inputs, tower == 0 ? 3 : 1, h, z, rows);
    __syncthreads();
}

// A tower's weights in shared memory.
struct Kept {
    Resident layers[4];
    __device__ __forceinline__ const Resident& operator()(u32 l) const { return layers[l]; }
};

__device__ __forceinline__ Kept keep_tower(const PolicyNet& net, u32 p, u32 tower, u32 at) {
    Kept kept;
    const bf16* copy = copy_of(net, p);
#pragma unroll
    for (u32 l = 0; l < 4; l++) {
        if (l > net.hidden[tower]) break;
        const PolicyLayer& layer = net.layers[tower * 4 + l];
        kept.layers[l] = settle(weights_of(copy, layer), at, threadIdx.x, THREADS);
        at = behind(kept.layers[l].tile, (layer.outputs + 31) / 32 * 32);
    }
    copy_wait<0>();
    __syncthreads();
    return kept;
}

// Shared memory of a kernel that goes forward: the input, two tiles, outputs, rows; then weights.
struct Space {
    Tile x;
    u32 widest;
    float* z;   // [R, 4]
    u32* rows;  // [R]
    u32 end;

    __device__ __forceinline__ Space(const PolicyNet& net, u32 tower, u32 rows_of_tile) {
        x = {0, pieces_of(net.column + 8)};
        widest = widest_of(net, tower);
        u32 at = behind(x, rows_of_tile) + 2 * rows_of_tile * widest * 16;
        z = reinterpret_cast<float*>(shared_memory + at);
        at += rows_of_tile * 16;
        rows = reinterpret_cast<u32*>(shared_memory + at);
        end = at + rows_of_tile * 4;
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// rollout: all steps of R accounts.
// ---------------------------------------------------------------------------------------------------------------------

template <u32 R, u32 ROWS> __device__ __forceinline__ void rollout(const SmallRollout& given) {
    const Members& members = given.members;
    const u32 p = blockIdx.y, n = blockIdx.x * R + threadIdx.x;
    const bool own = threadIdx.x < R, lives = own && n < members.accounts;
    const Space space(given.net, 0, R);
    const Kept kept = keep_tower(given.net, p, 0, space.end);
    clear_tail(given.net, space.x, R);
    const u64 i = (u64)p * members.accounts + n, all = (u64)gridDim.y * members.accounts;
    Trader trader;
    if (lives) trader = load_trader(given.standing, i, all);
    if (own && !lives) space.rows[threadIdx.x] = 0;
    const ActTerms terms(members, p);
#pragma unroll 1
    for (u32 t = 0; t < members.steps; t++) {
        if (lives) {
            space.rows[threadIdx.x] = table_row(given.net, trader.place.row);
            put_shown(given.net, space.x, threadIdx.x, trader.observed);
        }
        __syncthreads();
        gather_rows(given.net, p, space.rows, space.x, R);
        tower_outputs<ROWS>(given.net, p, 0, space.x, space.widest, R, space.z, kept);
        if (lives) {
            const float* from = space.z + threadIdx.x * 4;
            const f32 z[3] = {from[0], from[1], from[2]};
            const u64 at = ((u64)p * members.steps + t) * members.accounts + n;
            act(given.table, terms, given.seen, i, at, n, look_ahead(given.table, terms, n, t, trader), z, trader);
        }
    }
    if (lives) {
        put_later(members, given.seen, p, n, trader);
        store_trader(given.standing, i, all, trader);
    }
}

__global__ void __launch_bounds__(256, 1) rollout_32(const __grid_constant__ SmallRollout given) { rollout<32, 1>(given); }
__global__ void __launch_bounds__(256, 1) rollout_64(const __grid_constant__ SmallRollout given) { rollout<64, 1>(given); }
__global__ void __launch_bounds__(256, 1) rollout_128(const __grid_constant__ SmallRollout given) { rollout<128, 2>(given); }

// ---------------------------------------------------------------------------------------------------------------------
// walk: a validation from its first step to its last.
// ---------------------------------------------------------------------------------------------------------------------
struct SmallWalk {
    EpisodeTable table;
    Walkers walkers;
    PolicyNet net;
    u32 actions;
    u32 steps;
};

__global__ void __launch_bounds__(256, 1) walk_32(const __grid_constant__ SmallWalk given) {
    constexpr u32 R = 32;
    const u32 p = blockIdx.y, m = blockIdx.x * R + threadIdx.x;
    const bool own = threadIdx.x < R, lives = own && m < given.walkers.pieces;
    const Space space(given.net, 0, R);
    const Kept kept = keep_tower(given.net, p, 0, space.end);
    clear_tail(given.net, space.x, R);
    const u64 i = (u64)p * given.walkers.pieces + m, all = (u64)gridDim.y * given.walkers.pieces;
    Walker walker;
    if (lives) walker = load_walker(given.walkers, i, all);
    if (own && !lives) space.rows[threadIdx.x] = 0;
#pragma unroll 1
    for (u32 t = 0; t < given.steps; t++) {
        if (lives) {
            space.rows[threadIdx.x] = table_row(given.net, walker.place.row);
            put_shown(given.net, space.x, threadIdx.x, walker.observed);
        }
        __syncthreads();
        gather_rows(given.net, p, space.rows, space.x, R);
        tower_outputs<1>(given.net, p, 0, space.x, space.widest, R, space.z, kept);
        if (lives) {
            const float* from = space.z + threadIdx.x * 4;
            const f32 z[3] = {from[0], from[1], from[2]};
            walk(given.table, given.actions, z, walker);
        }
    }
    if (lives) store_walker(given.walkers, i, all, walker);
}

// ---------------------------------------------------------------------------------------------------------------------
// values: of any rows.
// ---------------------------------------------------------------------------------------------------------------------

template <u32 R, u32 ROWS> __device__ __forceinline__ void values(const SmallValues& given) {
    const u32 p = blockIdx.y;
    const Space space(given.net, 1, R);
    const bf16* copy = copy_of(given.net, p);
    const auto take = [&](u32 l) { return weights_of(copy, given.net.layers[4 + l]); };
    clear_tail(given.net, space.x, R);
    const u64 first = (u64)p * given.count;
#pragma unroll 1
    for (u32 base = blockIdx.x * R; base < given.count; base += gridDim.x * R) {
        const u32 at = base + threadIdx.x;
        const bool own = threadIdx.x < R, real = own && at < given.count;
        if (own) {
            const u64 from = first + (real ? at : base);
            space.rows[threadIdx.x] = table_row(given.net, given.rows[from]);
            const float4* shown = reinterpret_cast<const float4*>(&given.observed[from * OBSERVED]);
            const float4 low = shown[0], high = shown[1];
            const f32 observed[OBSERVED] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            put_shown(given.net, space.x, threadIdx.x, observed);
        }
        __syncthreads();
        gather_rows(given.net, p, space.rows, space.x, R);
        tower_outputs<ROWS>(given.net, p, 1, space.x, space.widest, R, space.z, take);
        if (real) given.value[first + at] = space.z[threadIdx.x * 4];
        __syncthreads();
    }
}

__global__ void __launch_bounds__(256, 2) values_64(const __grid_constant__ SmallValues given) { values<64, 1>(given); }
__global__ void __launch_bounds__(256, 2) values_128(const __grid_constant__ SmallValues given) { values<128, 2>(given); }

// ---------------------------------------------------------------------------------------------------------------------
// minibatch: losses of a slice of a minibatch, and the gradient of the weights.
// ---------------------------------------------------------------------------------------------------------------------

// From the gradient at a tower's outputs, in `dz`, to those of its weights.
template <u32 R, u32 ROWS, typename Take>
__device__ __forceinline__ void tower_gradient(const PolicyNet& net, u32 tower, const Tile& x, u32 top_at, const Tile& dlogits, float* part,
                                               bool more, const Take& take) {
    const u32 hidden = net.hidden[tower];
    Tile dz = dlogits, y = {top_at, pieces_of(net.layers[tower * 4 + hidden].inputs)};
    if (hidden == 0) y = x;
#pragma unroll 1
    for (u32 l = hidden;; l--) {
        const PolicyLayer& layer = net.layers[tower * 4 + l];
        weight_gradient<WARPS, 1>(dz, y, layer.inputs, layer.outputs, R, part + layer.weight, part + layer.bias, more);
        if (l == 0) break;
        const PolicyLayer& before = net.layers[tower * 4 + l - 1];
        backward_layer<ROWS, 2, WARPS>(take(l), layer.inputs, layer.outputs, before.act, dz, y, R);
        __syncthreads();
        const u32 pieces = pieces_of(before.inputs);
        dz = y;
        y = {y.at - R * pieces * 16, pieces};
    }
    __syncthreads();
}

template <u32 R, u32 ROWS> __device__ __forceinline__ void minibatch(const SmallMinibatch& given) {
    const Members& members = given.members;
    const PolicyNet& net = given.net;
    const u32 p = blockIdx.y;
    if (given.goes[p] == 0) return;
    // The input, then what each hidden layer leaves, one behind the other; then the gradient at the outputs.
    const Tile x = {0, pieces_of(net.column + 8)};
    u32 deepest = 0;
#pragma unroll
    for (u32 tower = 0; tower < 2; tower++) {
        u32 sum = 0;
#pragma unroll 1
        for (u32 l = 1; l <= net.hidden[tower]; l++) sum += pieces_of(net.layers[tower * 4 + l].inputs);
        deepest = sum > deepest ? sum : deepest;
    }
    const Tile dlogits = {behind(x, R) + R * deepest * 16, 4};
    // Sums of each row's losses, outputs, rows of the table, places in the rollout.
    double* tally = reinterpret_cast<double*>(shared_memory + behind(dlogits, R));
    float* z = reinterpret_cast<float*>(tally + R * 5);
    u32* rows_at = reinterpret_cast<u32*>(z + R * 4);
    u32* places = rows_at + R;
    clear_tail(net, x, R);
    if (threadIdx.x < R)
        for (u32 e = 0; e < 5; e++) tally[e * R + threadIdx.x] = 0.0;
    const u32 k = given.clock[1], all = members.accounts * members.steps, first = k % given.per_epoch * members.batch;
    const u32 rows = min(members.batch, all - first);
    const u32 begin = blockIdx.x * given.slice, end = min(rows, begin + given.slice);
    const u32* order = &given.seen.order[((u64)p * members.epochs + k / given.per_epoch) * all + first];
    const f32* centre = &given.centre[((u64)p * members.epochs * given.per_epoch + k) * 2];
    float* part = &given.parts[((u64)p * gridDim.x + blockIdx.x) * net.params];
    const bf16* copy = copy_of(net, p);
    bool more = false;
    // A slice that the last minibatch of an epoch does not reach has a gradient of zero.
#pragma unroll 1
    for (u32 base = begin; base < end || !more; base += R) {
        const bool own = threadIdx.x < R;
        if (own) {
            const bool real = base + threadIdx.x < end;
            const u32 place = order[real ? base + threadIdx.x : 0];
            const u64 from = (u64)p * all + place;
            places[threadIdx.x] = real ? place : NOWHERE;
            rows_at[threadIdx.x] = table_row(net, given.seen.rows[from]);
            const float4* shown = reinterpret_cast<const float4*>(&given.seen.observed[from * OBSERVED]);
            const float4 low = shown[0], high = shown[1];
            const f32 observed[OBSERVED] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            put_shown(net, x, threadIdx.x, observed);
        }
        __syncthreads();
        gather_rows(net, p, rows_at, x, R);
#pragma unroll 1
        for (u32 tower = 0; tower < 2; tower++) {
            const auto take = [&](u32 l) { return weights_of(copy, net.layers[tower * 4 + l]); };
            const u32 hidden = net.hidden[tower];
            Tile h = x;
#pragma unroll 1
            for (u32 l = 0; l < hidden; l++) {
                const PolicyLayer& layer = net.layers[tower * 4 + l];
                const Tile out = {behind(h, R), pieces_of(layer.outputs)};
                forward_layer<ROWS, 2, WARPS>(take(l), copy + layer.bias, layer.inputs, layer.outputs, layer.act, h, out, R);
                h = out;
            }
            const PolicyLayer& head = net.layers[tower * 4 + hidden];
            head_outputs(take(hidden), net.master.data + (u64)p * net.params + head.bias, head.inputs, tower == 0 ? members.outputs : 1, h, z, R);
            __syncthreads();
            if (own) {
                f32 d[3] = {};
                const float* at = z + threadIdx.x * 4;
                const u32 place = places[threadIdx.x];
                if (place != NOWHERE) {
                    const u64 from = (u64)p * all + place;
                    const f32 advantage = given.seen.advantage[from];
                    double* sums = tally + threadIdx.x;
                    Losses seen = {};
                    if (tower == 0) {
                        const f32 outputs[3] = {at[0], at[1], at[2]};
                        const Taken taken = {given.seen.action[from], given.seen.log_probability[from],
                                             __fmul_rn(__fsub_rn(advantage, centre[0]), centre[1]), given.seen.legal[from]};
                        policy_loss(members.actions, members.clip[p], members.entropy_weight[p], (f32)rows, outputs, taken, d, seen);
                        sums[0] += (f64)seen.policy, sums[2 * R] += (f64)seen.entropy;
                        sums[3 * R] += (f64)seen.kl, sums[4 * R] += (f64)seen.clipped;
                    } else {
                        const f32 old = given.seen.value[from], goal = __fadd_rn(advantage, old);
                        d[0] = value_loss(members.clip_value[p], members.value_weight[p], (f32)rows, at[0], old, goal, seen);
                        sums[R] += (f64)seen.value;
                    }
                }
                // The words of the first eight columns lie in four pieces.
                word_at(dlogits.place(threadIdx.x, 0)) = pack(d[0], d[1]);
                word_at(dlogits.place(threadIdx.x, 1)) = pack(d[2], 0.0f);
                word_at(dlogits.place(threadIdx.x, 2)) = 0, word_at(dlogits.place(threadIdx.x, 3)) = 0;
#pragma unroll
                for (u32 j = 0; j < 4; j++)
                    for (u32 w = 1; w < 4; w++) word_at(dlogits.place(threadIdx.x, j) + w * 4) = 0;
            }
            __syncthreads();
            tower_gradient<R, ROWS>(net, tower, x, h.at, dlogits, part, more, take);
        }
        more = true;
    }
    double* scratch = reinterpret_cast<double*>(z);
    f64* to = &given.partial[((u64)p * gridDim.x + blockIdx.x) * 6];
    if (threadIdx.x == 0) to[0] = (f64)(end > begin ? end - begin : 0);
#pragma unroll 1
    for (u32 e = 0; e < 5; e++) {
        const f64 sum = block_sum(threadIdx.x < R ? tally[e * R + threadIdx.x] : 0.0, scratch);
        if (threadIdx.x == 0) to[e + 1] = sum;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// add_parts: the parts of a gradient become one, in a fixed order. A block has 64 parameters of a member; 16 threads
// side by side read them, 16 groups of such threads take turns with the parts. One more block decides who goes on; what
// others have added of a member that does not is used by nobody.
// ---------------------------------------------------------------------------------------------------------------------
struct AddParts {
    View<const f32> parts; // [P, slices, params]
    View<f32> gradient;    // [P, params]
    View<const u32> goes;  // [P]
    Decide decide;
    u64 params;            // a multiple of 64
    u32 slices;
};

__global__ void __launch_bounds__(256) add_parts(const __grid_constant__ AddParts given) {
    __shared__ float4 sums[16][16];
    const u32 p = blockIdx.y, lane = threadIdx.x % 16, group = threadIdx.x / 16;
    if (blockIdx.x == given.params / 64) return decide_member(given.decide, p);
    if (given.goes[p] == 0) return;
    const u64 at = (u64)blockIdx.x * 64 + lane * 4;
    const float* from = &given.parts[(u64)p * given.slices * given.params + at];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (u32 part = group; part < given.slices; part += 16) {
        const float4 v = load4(from + part * given.params);
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    sums[group][lane] = sum;
    __syncthreads();
    if (group != 0) return;
#pragma unroll
    for (u32 other = 1; other < 16; other++) {
        const float4 v = sums[other][lane];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    store4(&given.gradient[(u64)p * given.params + at], sum);
}

__global__ void __launch_bounds__(256, 2) minibatch_64(const __grid_constant__ SmallMinibatch given) { minibatch<64, 1>(given); }
__global__ void __launch_bounds__(256, 2) minibatch_128(const __grid_constant__ SmallMinibatch given) { minibatch<128, 2>(given); }
