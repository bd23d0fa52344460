// Whole phases of a policy with two hidden layers of 64 in each tower, in bf16: a rollout, values of rows, and a
// minibatch up to the gradient of the weights. A warp takes sixteen rows through a tower in its registers
// (`warp_mlp.cuh`), so that warps wait for each other only where rows meet: in the gradients of weights.
//
// | kernel       | block      | grid                              | dynamic shared                                        |
// |--------------|------------|-----------------------------------|-------------------------------------------------------|
// | rollout      | 32 × W     | [ceil(N / 16 / W), P]             | the tower's weights, and 16 × W rows of the input     |
// | values       | 256        | [any, P]                          | the tower's weights, and 128 rows of the input        |
// | minibatch_S  | 256        | [slices, P, towers]               | weights; 128 rows of input, layers and gradients      |
//
// S is how many steps of 16 the input has, at most. A block of `minibatch_S` has a slice of a minibatch and one tower,
// and walks it in tiles of 128 rows. Each warp goes forward and back with sixteen of them; then each adds its own part
// of the gradient over all rows of the tile, in registers from the first tile to the last, 16 rows at a time, in order.
// registers: 255
// spills: 96

#include "loss_rows.cuh"

extern __shared__ __align__(32) unsigned char shared_memory[];

constexpr u32 WARPS = 8;
constexpr u32 TILE = WARPS * MLP_ROWS; // rows
typedef Slabs<TILE> TileSlabs;

// Weights of a tower, from the arena. A barrier follows.
__device__ __forceinline__ MlpWeights load_weights(const PolicyNet& net, u32 p, u32 tower, u32 steps, u32& at) {
    MlpWeights w;
    w.first = slabs_at<MLP_HIDDEN>(at, steps * 16);
    w.second = slabs_at<MLP_HIDDEN>(at, MLP_HIDDEN);
    w.head = slabs_at<MLP_OUTPUTS>(at, MLP_HIDDEN);
    w.biases = at;
    at += (MLP_BIASES + 31) / 32 * 32;
    const PolicyLayer* layers = net.layers + tower * 4;
    w.act[0] = layers[0].act, w.act[1] = layers[1].act;
    const bf16* copy = copy_of(net, p);
    copy_weights(w.first, steps * 2, copy + layers[0].weight, MLP_HIDDEN, layers[0].inputs);
    copy_weights(w.second, MLP_HIDDEN / 8, copy + layers[1].weight, MLP_HIDDEN, MLP_HIDDEN);
    copy_weights(w.head, MLP_HIDDEN / 8, copy + layers[2].weight, layers[2].outputs, MLP_HIDDEN);
    copy_commit();
    for (u32 i = threadIdx.x; i < 2 * MLP_HIDDEN + MLP_OUTPUTS; i += blockDim.x) {
        const u32 l = i / MLP_HIDDEN, unit = i % MLP_HIDDEN;
        float bias = 0.0f;
        if (l < 2) bias = __bfloat162float(copy[layers[l].bias + unit]);
        else if (unit < layers[2].outputs) bias = net.master.data[(u64)p * net.params + layers[2].bias + unit];
        put_word<0>(w.biases + i * 4, __float_as_uint(bias));
    }
    copy_wait<0>();
    return w;
}

// Columns that nobody writes are zeros: behind what an account is shown.
__device__ __forceinline__ void clear_columns(const PolicyNet& net, const TileSlabs& x, u32 rows, u32 steps) {
    const u32 first = net.column / 8 + 1, left = steps * 2 - first;
    for (u32 i = threadIdx.x; i < rows * left; i += blockDim.x) put_piece(x.piece(i / left, first + i % left), 0, 0, 0, 0);
}

// Sixteen rows of the table, scaled and rounded, into the warp's rows of `x`; lane r % 16 has the row of r in `row`.
template <u32 CHUNKS, u32 ABREAST>
__device__ __forceinline__ void gather_rows(const PolicyNet& net, u32 scales, u32 row, const TileSlabs& x) {
    const u32 lane = threadIdx.x % 32, second = lane / 16;
#pragma unroll
    for (u32 c = 0; c < CHUNKS; c++) {
        if (c * 64 >= net.column) break;
        const u32 column = c * 64 + lane % 16 * 4;
        const bool inside = column < net.column;
        const float4 shift = get_four(scales + column * 4), factor = get_four(scales + (SCALED + column) * 4);
        const float* source = net.table.data + (column < net.features ? column : 0);
        // Pieces of a row change places every four rows.
        const u32 even = x.at + column / 16 * TileSlabs::STEP + second * 32 + column / 4 % 2 * 8 + column / 8 % 2 * 16, odd = even ^ 16;
        each<MLP_ROWS / 2 / ABREAST>([&](auto first) {
            float4 v[ABREAST];
#pragma unroll
            for (u32 i = 0; i < ABREAST; i++) {
                const u32 from = __shfl_sync(ALL_LANES, row, (first.value * ABREAST + i) * 2 + second);
                v[i] = __ldg(reinterpret_cast<const float4*>(source + (u64)from * net.stride));
            }
            each<ABREAST>([&](auto i) {
                constexpr u32 r = decltype(first)::value * ABREAST + i.value;
                const u32 low = rounded_pair(__fmul_rn(__fsub_rn(v[i.value].x, shift.x), factor.x), __fmul_rn(__fsub_rn(v[i.value].y, shift.y), factor.y));
                const u32 high = rounded_pair(__fmul_rn(__fsub_rn(v[i.value].z, shift.z), factor.z), __fmul_rn(__fsub_rn(v[i.value].w, shift.w), factor.w));
                if (inside) put_pair<r * 64>(r / 2 % 2 ? odd : even, low, high);
            });
        });
    }
}

// What an account is shown, behind the columns of the table.
__device__ __forceinline__ void put_shown(const PolicyNet& net, const TileSlabs& x, u32 row, const f32 (&observed)[OBSERVED]) {
    put_piece(x.piece(row, net.column / 8), rounded_pair(observed[0], observed[1]), rounded_pair(observed[2], observed[3]),
              rounded_pair(observed[4], observed[5]), rounded_pair(observed[6], observed[7]));
}

template <u32 STEPS>
__device__ __forceinline__ void tower_outputs(float (&z)[3], const MlpWeights& w, const LaneOffsets& lane, const TileSlabs& x) {
    Words first, second;
    float out[4];
    first_layer<STEPS>(first, w, lane, x);
    second_layer(second, w, lane, first);
    head_layer(out, w, lane, second);
    own_outputs(z, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// rollout: all steps of sixteen accounts a warp.
// ---------------------------------------------------------------------------------------------------------------------

template <u32 STEPS> __device__ __forceinline__ void rollout(const SmallRollout& given) {
    const Members& members = given.members;
    const u32 p = blockIdx.y, warps = blockDim.x / 32, warp = threadIdx.x / 32, number = threadIdx.x % 16;
    const u32 n = (blockIdx.x * warps + warp) * MLP_ROWS + number;
    u32 at = shared_address(shared_memory);
    const MlpWeights w = load_weights(given.net, p, 0, STEPS, at);
    const u32 scales = load_scales(given.net, p, at);
    const TileSlabs tile = slabs_at<TILE>(at, STEPS * 16);
    clear_columns(given.net, tile, warps * MLP_ROWS, STEPS);
    __syncthreads();
    const LaneOffsets lane;
    const TileSlabs x = tile.from_row(warp * MLP_ROWS);
    const bool lives = threadIdx.x % 32 < MLP_ROWS && n < members.accounts;
    const u64 i = (u64)p * members.accounts + n, all = (u64)gridDim.y * members.accounts;
    Trader trader = {};
    if (lives) trader = load_trader(given.standing, i, all);
    const ActTerms terms(members, p);
    u64 step = (u64)p * members.steps * members.accounts + n;
#pragma unroll 1
    for (u32 t = 0; t < members.steps; t++, step += members.accounts) {
        const u32 row = lives ? table_row(given.net, trader.place.row) : 0;
        StepAhead ahead = {};
        if (lives) ahead = look_ahead(given.table, terms, n, t, trader);
        if (lives) put_shown(given.net, x, number, trader.observed);
        gather_rows<(STEPS * 16 + 63) / 64, 8>(given.net, scales, row, x);
        __syncwarp();
        float z[3];
        tower_outputs<STEPS>(z, w, lane, x);
        if (lives) act(given.table, terms, given.seen, i, step, n, ahead, z, trader);
        __syncwarp();
    }
    if (lives) {
        put_later(members, given.seen, p, n, trader);
        store_trader(given.standing, i, all, trader);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// values: of any rows.
// ---------------------------------------------------------------------------------------------------------------------

template <u32 STEPS> __device__ __forceinline__ void values(const SmallValues& given) {
    const u32 p = blockIdx.y, warp = threadIdx.x / 32, number = threadIdx.x % 16;
    u32 at = shared_address(shared_memory);
    const MlpWeights w = load_weights(given.net, p, 1, STEPS, at);
    const u32 scales = load_scales(given.net, p, at);
    const TileSlabs tile = slabs_at<TILE>(at, STEPS * 16);
    clear_columns(given.net, tile, TILE, STEPS);
    __syncthreads();
    const LaneOffsets lane;
    const TileSlabs x = tile.from_row(warp * MLP_ROWS);
    const u64 first = (u64)p * given.count;
#pragma unroll 1
    for (u32 base = (blockIdx.x * WARPS + warp) * MLP_ROWS; base < given.count; base += gridDim.x * TILE) {
        const u32 own = min(base + number, given.count - 1);
        f32 observed[OBSERVED];
        load_shown(observed, given.observed, first + own);
        const u32 row = table_row(given.net, given.rows[first + own]);
        if (threadIdx.x % 32 < MLP_ROWS) put_shown(given.net, x, number, observed);
        gather_rows<(STEPS * 16 + 63) / 64, 8>(given.net, scales, row, x);
        __syncwarp();
        float z[3];
        tower_outputs<STEPS>(z, w, lane, x);
        if (threadIdx.x % 32 < MLP_ROWS && base + number < given.count) given.value[first + base + number] = z[0];
        __syncwarp();
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// minibatch: losses of a slice of a minibatch, and the gradient of one tower's weights.
// ---------------------------------------------------------------------------------------------------------------------

// Layers of a tile and the gradients before their activations, kept for products over rows.
struct TileRows {
    TileSlabs x, first, second, d_first, d_second;
    u32 d_head; // [128] rows of 8 outputs
};

// A warp's part of the gradient of a tower: 16 units of each hidden layer by half of its inputs; beside that, warps of
// the first half have 16 columns of the head and the head's bias, those of the second half the biases of their units.
template <u32 STEPS> struct TowerGradient {
    float first[STEPS][4];
    float second[4][4];
    float head[4];
    float bias[4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
#pragma unroll
            for (u32 n = 0; n < STEPS; n++) first[n][e] = 0.0f;
#pragma unroll
            for (u32 n = 0; n < 4; n++) second[n][e] = 0.0f;
            head[e] = bias[e] = 0.0f;
        }
    }

    // Adds all rows of a tile.
    __device__ __forceinline__ void add(const TileRows& tile, const LaneOffsets& lane) {
        constexpr u32 ONES = 0x3f803f80u;
        const u32 warp = threadIdx.x / 32, units = warp % 4 * TileSlabs::STEP, half = warp / 4;
        const u32 d_first = tile.d_first.at + units + lane.pieces_first, d_second = tile.d_second.at + units + lane.pieces_first;
        const u32 second_units = tile.second.at + units + lane.pieces_first;
        // The first slab of the input that is all this half's, and the one in the middle.
        const u32 x = tile.x.at + half * (STEPS / 2 + STEPS % 2) * TileSlabs::STEP + lane.rows_first;
        const u32 middle = tile.x.at + STEPS / 2 * TileSlabs::STEP + lane.rows_first;
        const u32 inputs = tile.first.at + half * 2 * TileSlabs::STEP + lane.rows_first;
        const u32 d_head = tile.d_head + threadIdx.x % 32 * 16;
        each<TILE / 32>([&](auto pair) {
            u32 heads[4];
            load_matrices_at<true, pair.value * 512>(heads, d_head);
            each<2>([&](auto k) {
                constexpr u32 ROWS = (decltype(pair)::value * 2 + k.value) * 512;
                u32 a[4], b[4];
                load_matrices_at<true, ROWS>(a, d_first);
                each<STEPS / 2>([&](auto s) {
                    load_matrices_at<true, ROWS + s.value * TileSlabs::STEP>(b, x);
                    mma(first[2 * s.value], a, b[0], b[1]);
                    mma(first[2 * s.value + 1], a, b[2], b[3]);
                });
                if constexpr (STEPS % 2) {
                    load_matrices_at<true, ROWS>(b, middle);
                    mma(first[STEPS - 1], a, half ? b[2] : b[0], half ? b[3] : b[1]);
                }
                if (half) mma(head, a, ONES, ONES);
                load_matrices_at<true, ROWS>(a, d_second);
                each<2>([&](auto s) {
                    load_matrices_at<true, ROWS + s.value * TileSlabs::STEP>(b, inputs);
                    mma(second[2 * s.value], a, b[0], b[1]);
                    mma(second[2 * s.value + 1], a, b[2], b[3]);
                });
                if (half) {
                    mma(bias, a, ONES, ONES);
                } else {
                    const u32 ones[4] = {ONES, ONES, ONES, ONES};
                    load_matrices_at<true, ROWS>(a, second_units);
                    mma(head, a, heads[k.value * 2], heads[k.value * 2 + 1]);
                    mma(bias, ones, heads[k.value * 2], heads[k.value * 2 + 1]);
                }
            });
        });
    }

    __device__ __forceinline__ void store(float* part, const PolicyLayer* layers) const {
        const u32 warp = threadIdx.x / 32, units = warp % 4, half = warp / 4, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const u32 unit = units * 16 + g, inputs = layers[0].inputs, outputs = layers[2].outputs;
        const auto put = [&](float* to, float low, float high) { *reinterpret_cast<float2*>(to) = make_float2(low, high); };
#pragma unroll
        for (u32 n = 0; n < STEPS; n++) {
            // Whole slabs first, then this half of the one in the middle.
            const u32 tile = n < STEPS / 2 * 2 ? half * (STEPS / 2 + STEPS % 2) * 2 + n : STEPS - 1 + half;
            const u32 column = tile * 8 + 2 * t;
            if (column >= inputs) continue;
            float* to = part + layers[0].weight + unit * inputs + column;
            put(to, first[n][0], first[n][1]);
            put(to + 8 * inputs, first[n][2], first[n][3]);
        }
#pragma unroll
        for (u32 n = 0; n < 4; n++) {
            float* to = part + layers[1].weight + unit * MLP_HIDDEN + half * 32 + n * 8 + 2 * t;
            put(to, second[n][0], second[n][1]);
            put(to + 8 * MLP_HIDDEN, second[n][2], second[n][3]);
        }
        if (half) {
            if (t != 0) return;
            part[layers[0].bias + unit] = head[0], part[layers[0].bias + unit + 8] = head[2];
            part[layers[1].bias + unit] = bias[0], part[layers[1].bias + unit + 8] = bias[2];
            return;
        }
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const u32 output = 2 * t + e % 2;
            if (output < outputs) part[layers[2].weight + output * MLP_HIDDEN + unit + e / 2 * 8] = head[e];
            if (warp == 0 && g == 0 && e < 2 && output < outputs) part[layers[2].bias + output] = bias[e];
        }
    }
};

template <u32 STEPS> __device__ __forceinline__ void minibatch(const SmallMinibatch& given) {
    __shared__ double scratch[8];
    __shared__ __align__(16) unsigned char terms_at[sizeof(LossTerms)];
    const Members& members = given.members;
    const PolicyNet& net = given.net;
    const u32 p = blockIdx.y, tower = blockIdx.z, warp = threadIdx.x / 32, number = threadIdx.x % 16;
    if (given.goes[p] == 0) return;
    const u32 k = given.clock[1], all = members.accounts * members.steps, start = k % given.per_epoch * members.batch;
    const u32 rows = min(members.batch, all - start);
    const u32 begin = blockIdx.x * given.slice, end = min(rows, begin + given.slice);
    u32 at = shared_address(shared_memory);
    const MlpWeights w = load_weights(net, p, tower, STEPS, at);
    const u32 scales = load_scales(net, p, at);
    TileRows tile;
    tile.x = slabs_at<TILE>(at, STEPS * 16);
    tile.first = slabs_at<TILE>(at, MLP_HIDDEN);
    tile.second = slabs_at<TILE>(at, MLP_HIDDEN);
    tile.d_first = slabs_at<TILE>(at, MLP_HIDDEN);
    tile.d_second = slabs_at<TILE>(at, MLP_HIDDEN);
    tile.d_head = at;
    LossTerms& terms = *reinterpret_cast<LossTerms*>(terms_at);
    if (threadIdx.x == 0) {
        const f32* centre = &given.centre[((u64)p * members.epochs * given.per_epoch + k) * 2];
        terms.centre[0] = centre[0], terms.centre[1] = centre[1];
        terms.clip = members.clip[p], terms.entropy_weight = members.entropy_weight[p];
        terms.clip_value = members.clip_value[p], terms.value_weight = members.value_weight[p];
    }
    clear_columns(net, tile.x, TILE, STEPS);
    __syncthreads();
    const LaneOffsets lane;
    const u32 own_row = warp * MLP_ROWS;
    TowerGradient<STEPS> gradient;
    gradient.clear();
    f64 sums[4] = {};
    // Where this lane's row of a tile lies; one behind the end reads the first and counts for nothing.
    const u32* order = &given.seen.order[((u64)p * members.epochs + k / given.per_epoch) * all + start];
    const auto place_of = [&](u32 base) {
        const u32 b = base + own_row + number;
        return order[b < end ? b : 0];
    };
    const u64 first_of_all = (u64)p * all;
    if (first_of_all + all > given.seen.rows.len) __trap();
    u32 place = place_of(begin), id = given.seen.rows.data[first_of_all + place];
    u32 later = place_of(begin + TILE);
    LossRow row(given.seen, tower, first_of_all + place);
#pragma unroll 1
    for (u32 base = begin; base < end; base += TILE) {
        const bool real = base + own_row + number < end;
        const TileSlabs x = tile.x.from_row(own_row);
        gather_rows<(STEPS * 16 + 63) / 64, 4>(net, scales, table_row(net, id), x);
        if (threadIdx.x % 32 < MLP_ROWS) put_shown(net, x, number, row.observed);
        // The next tile's rows are looked up while this one is computed.
        place = later;
        id = given.seen.rows.data[first_of_all + place];
        later = place_of(base + 2 * TILE);
        __syncwarp();
        Words second;
        float out[4];
        {
            Words first;
            first_layer<STEPS>(first, w, lane, x);
            put_words(tile.first.from_row(own_row), lane, first);
            fetch_next(given, tower, first_of_all + place, id);
            second_layer(second, w, lane, first);
        }
        put_words(tile.second.from_row(own_row), lane, second);
        head_layer(out, w, lane, second);
        f32 z[3], d[3] = {};
        own_outputs(z, out);
        Losses seen = {};
        if (tower == 0) {
            const Taken taken = {row.action, row.log_probability, __fmul_rn(__fsub_rn(row.advantage, terms.centre[0]), terms.centre[1]),
                                 row.legal};
            policy_loss(members.actions, terms.clip, terms.entropy_weight, (f32)rows, z, taken, d, seen);
        } else {
            const f32 old = row.action;
            d[0] = value_loss(terms.clip_value, terms.value_weight, (f32)rows, z[0], old, __fadd_rn(row.advantage, old), seen);
            seen.policy = seen.value;
        }
        if (real) {
            sums[0] += (f64)seen.policy, sums[1] += (f64)seen.entropy;
            sums[2] += (f64)seen.kl, sums[3] += (f64)seen.clipped;
        } else {
            d[0] = d[1] = d[2] = 0.0f;
        }
        const u32 both = rounded_pair(d[0], d[1]), third = rounded_pair(d[2], 0.0f);
        if (threadIdx.x % 32 < MLP_ROWS) put_piece(tile.d_head + (own_row + number) * 16, both, third, 0, 0);
        const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const u32 low_both = __shfl_sync(ALL_LANES, both, g), low_third = __shfl_sync(ALL_LANES, third, g);
        const u32 high_both = __shfl_sync(ALL_LANES, both, g + 8), high_third = __shfl_sync(ALL_LANES, third, g + 8);
        Words d_second;
        head_back(d_second, w, lane, t == 0 ? low_both : t == 1 ? low_third : 0, t == 0 ? high_both : t == 1 ? high_third : 0, second);
        put_words(tile.d_second.from_row(own_row), lane, d_second);
        {
            Words first, d_first;
            get_words(first, tile.first.from_row(own_row), lane);
            second_back(d_first, w, lane, d_second, first);
            put_words(tile.d_first.from_row(own_row), lane, d_first);
        }
        __syncthreads();
        row = LossRow(given.seen, tower, first_of_all + place);
        gradient.add(tile, lane);
        __syncthreads();
    }
    const PolicyLayer* layers = net.layers + tower * 4;
    gradient.store(&given.parts[((u64)p * gridDim.x + blockIdx.x) * net.params], layers);
    f64* to = &given.partial[((u64)p * gridDim.x + blockIdx.x) * 6];
    const bool counts = threadIdx.x % 32 < MLP_ROWS;
#pragma unroll 1
    for (u32 e = 0; e < (tower == 0 ? 4u : 1u); e++) {
        const f64 own = e == 0 ? sums[0] : e == 1 ? sums[1] : e == 2 ? sums[2] : sums[3];
        const f64 sum = block_sum(counts ? own : 0.0, scratch);
        if (threadIdx.x == 0) to[tower == 1 ? 2 : e == 0 ? 1 : e + 2] = sum;
    }
    if (threadIdx.x == 0 && tower == 0) to[0] = (f64)(end > begin ? end - begin : 0);
}

__global__ void __launch_bounds__(256, 1) rollout_5(const __grid_constant__ SmallRollout given) { rollout<5>(given); }
__global__ void __launch_bounds__(256, 1) rollout_8(const __grid_constant__ SmallRollout given) { rollout<8>(given); }
__global__ void __launch_bounds__(256, 2) values_5(const __grid_constant__ SmallValues given) { values<5>(given); }
__global__ void __launch_bounds__(256, 2) values_8(const __grid_constant__ SmallValues given) { values<8>(given); }
__global__ void __launch_bounds__(256, 2) minibatch_5(const __grid_constant__ SmallMinibatch given) { minibatch<5>(given); }
__global__ void __launch_bounds__(256, 1) minibatch_8(const __grid_constant__ SmallMinibatch given) { minibatch<8>(given); }
