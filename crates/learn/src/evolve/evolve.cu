// Generations of OpenAI-ES on a card, for policies with two hidden layers of 64, in bf16: what is seen, individuals
// that trade, ranks, and the move of the distribution. `mod.rs` says what is drawn from which counter and what is added
// in which order. Individuals and accounts have the bits of the processor; passes of the net do not.
//
// | kernel    | block      | grid                        | what it does                                                 |
// |-----------|------------|-----------------------------|--------------------------------------------------------------|
// | look      | 256        | [T × N × columns / 8, P]    | spans of a generation, and rows of the table along them      |
// | trade_S   | 64 × W     | [draws, P]                  | both individuals of a draw trade all spans, W warps each     |
// | rank      | 256        | [ceil(draws / 8), P]        | a weight for each draw                                       |
// | sum       | 64         | [ceil(d₄ / 256), slices, P] | Σ weight · normal over 64 draws                              |
// | climb     | 256        | [P]                         | slices are added up; Adam                                    |
//
// P = members, N = accounts of an individual, T = steps, d₄ = parameters rounded up to 4; S is how many steps of 16 the
// input has, at most. All individuals of a member see the same rows, so these are scaled and rounded once (`look`). In
// `trade_S` a warp takes sixteen accounts through the net (`warp_mlp.cuh`); weights lie in shared memory, made there
// from mean and counters.
// registers: 255

#include "../../../compute/src/population/warp_mlp.cuh"
#include "../../../market/src/episode.cuh"
#include "../ppo/ppo.cuh"

extern __shared__ __align__(32) unsigned char shared_memory[];

constexpr u32 SLICE = 64;  // draws of a slice
constexpr u32 RATES = 256; // generations whose rates are on the card
constexpr u32 SPAN = 3;    // numbers of a span
constexpr u32 TALLY = 3;   // numbers of a tally
constexpr u32 REPORT = 3;

// What each member goes by, [P].
struct Searches {
    View<const u32> id;
    View<const u32> fold;
    View<u32> unit;           // generations that are done
    View<u32> active;
    View<const f32> sigma;
    View<const u32> fitness;  // GROWTH, DRAWDOWN or SHARPE
    View<const f32> penalty;  // of drawdowns
    u64 seed;
    u32 parameters;           // d
    u32 padded;               // d₄
    u32 draws;
    u32 accounts;             // N
    u32 steps;                // T
    u32 actions;
    u32 outputs;
    u32 features;             // of the table
    u32 column;               // of what an account is shown: features rounded up to 8
    u32 act[2];               // of the hidden layers
};

// Individuals of a generation by their counters: a block of four parameters of a draw.
__device__ __forceinline__ float4 normals_of(const Searches& search, u32 p, u32 unit, u32 draw, u32 block) {
    return normals(philox(search.seed, make_uint4(draw * (search.padded / 4) + block, unit, STREAM_PERTURBATION, search.id[p])));
}

// ---------------------------------------------------------------------------------------------------------------------
// look: where accounts trade, and what of the table they see there.
// ---------------------------------------------------------------------------------------------------------------------

struct Look {
    EpisodeTable table;
    Searches search;
    View<const f32> rows;    // [rows, stride]
    View<const u32> map;     // [ids], or none
    View<const f32> mean;    // [P, features]
    View<const f32> inverse;
    View<u32> spans;         // [P, N, SPAN] first row, steps, symbol
    View<u16> seen;          // [P, T, N, column] bf16
    u32 stride;
};

struct Span {
    u32 first, steps;
};

__device__ __forceinline__ Span draw_span(const EpisodeTable& table, const Searches& search, u32 p, u32 account) {
    const uint4 bits = philox(search.seed, make_uint4(account, search.unit[p], STREAM_START, search.id[p]));
    const u32 fold = search.fold[p], from = table.folds[2 * fold], count = table.folds[2 * fold + 1] - from;
    const u64 at = __umul64hi((u64)bits.x | (u64)bits.y << 32, table.starts[from + count - 1]);
    const u32 own = first_above(table.starts, from, count, at);
    const u64 before = own == 0 ? 0 : table.starts[from + own - 1];
    const u32 first = table.stretch_from[from + own] + (u32)(at - before);
    return {first, min(search.steps, table.stretch_to[from + own] - 1 - first)};
}

__global__ void __launch_bounds__(256) look(const __grid_constant__ Look given) {
    const Searches& search = given.search;
    const u32 p = blockIdx.y, pieces = search.column / 8;
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, all = (u64)search.steps * search.accounts * pieces;
    if (search.active[p] == 0 || i >= all) return;
    const u32 piece = (u32)(i % pieces), account = (u32)(i / pieces % search.accounts), t = (u32)(i / pieces / search.accounts);
    const Span span = draw_span(given.table, search, p, account);
    if (t == 0 && piece == 0) {
        u32* to = &given.spans[((u64)p * search.accounts + account + 1) * SPAN - 1] - (SPAN - 1);
        to[0] = span.first, to[1] = span.steps, to[2] = symbol_of(given.table, span.first);
    }
    const u32 id = span.first + min(t, span.steps - 1), row = given.map ? given.map[id] : id;
    float x[8];
#pragma unroll
    for (u32 c = 0; c < 8; c++) {
        const u32 column = piece * 8 + c;
        const u64 scale = (u64)p * search.features + column;
        x[c] = column < search.features
                   ? __fmul_rn(__fsub_rn(given.rows[(u64)row * given.stride + column], given.mean[scale]), given.inverse[scale])
                   : 0.0f;
    }
    u16* to = &given.seen[((u64)p * all + i + 1) * 8 - 1] - 7;
    *reinterpret_cast<uint4*>(to) =
        make_uint4(rounded_pair(x[0], x[1]), rounded_pair(x[2], x[3]), rounded_pair(x[4], x[5]), rounded_pair(x[6], x[7]));
}

// ---------------------------------------------------------------------------------------------------------------------
// trade: individuals are made, and trade.
// ---------------------------------------------------------------------------------------------------------------------

struct Trade {
    EpisodeTable table;
    Searches search;
    View<const f32> middle; // [P, d₄]
    View<const u32> spans;  // [P, N, SPAN]
    View<const u16> seen;   // [P, T, N, column]
    View<f64> tallies;      // [P, individuals, N, TALLY]
    View<f64> fitness;      // [P, individuals]
    View<f32> asked;        // [P, individuals, d₄] individuals before they are rounded, where somebody wants them
};

// Shared memory of an individual's weights.
template <u32 STEPS> struct Laid {
    static constexpr u32 BYTES =
        (STEPS + MLP_HIDDEN / 16) * HiddenWeights::STEP + MLP_HIDDEN / 16 * HeadWeights::STEP + (MLP_BIASES + 31) / 32 * 32;

    static __device__ __forceinline__ MlpWeights at(u32 at, const Searches& search) {
        MlpWeights w;
        w.first = slabs_at<MLP_HIDDEN>(at, STEPS * 16);
        w.second = slabs_at<MLP_HIDDEN>(at, MLP_HIDDEN);
        w.head = slabs_at<MLP_OUTPUTS>(at, MLP_HIDDEN);
        w.biases = at;
        w.act[0] = search.act[0], w.act[1] = search.act[1];
        return w;
    }
};

// Where a parameter lies: a weight is rounded to bf16, a bias is not.
struct ParameterPlace {
    u32 at;
    bool is_bias;
};

template <u32 ROWS> __device__ __forceinline__ ParameterPlace weight_place(const Slabs<ROWS>& slabs, u32 output, u32 column) {
    return {slabs.piece(output, column / 8) + column % 8 * 2, false};
}

__device__ __forceinline__ ParameterPlace place_of(const Searches& search, const MlpWeights& w, u32 j) {
    const u32 inputs = search.features + OBSERVED, first = (inputs + 1) * MLP_HIDDEN, second = (MLP_HIDDEN + 1) * MLP_HIDDEN;
    if (j < first) {
        const u32 input = j / MLP_HIDDEN, output = j % MLP_HIDDEN;
        if (input == inputs) return {w.biases + output * 4, true};
        return weight_place(w.first, output, input < search.features ? input : search.column + input - search.features);
    }
    j -= first;
    if (j < second) {
        const u32 input = j / MLP_HIDDEN, output = j % MLP_HIDDEN;
        if (input == MLP_HIDDEN) return {w.biases + (MLP_HIDDEN + output) * 4, true};
        return weight_place(w.second, output, input);
    }
    j -= second;
    const u32 input = j / search.outputs, output = j - input * search.outputs;
    if (input == MLP_HIDDEN) return {w.biases + (2 * MLP_HIDDEN + output) * 4, true};
    return weight_place(w.head, output, input);
}

__device__ __forceinline__ void put_parameter(const ParameterPlace& place, u32 behind, float x) {
    const u32 bits = rounded_pair(x, 0.0f);
    if (place.is_bias) asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(place.at + behind), "f"(x) : "memory");
    else asm volatile("st.shared.b16 [%0], %1;\n" ::"r"(place.at + behind), "h"((u16)bits) : "memory");
}

// Both individuals of a draw, the second `BYTES` behind the first. A barrier follows.
template <u32 STEPS> __device__ __forceinline__ void lay_individuals(const Trade& given, u32 p, u32 draw, u32 at) {
    const Searches& search = given.search;
    for (u32 i = threadIdx.x; i < 2 * Laid<STEPS>::BYTES / 16; i += blockDim.x) put_piece(at + i * 16, 0, 0, 0, 0);
    __syncthreads();
    const MlpWeights w = Laid<STEPS>::at(at, search);
    const f32 sigma = search.sigma[p];
    const u32 unit = search.unit[p];
    if ((u64)(p + 1) * search.padded > given.middle.len) __trap();
    const float4* middle = reinterpret_cast<const float4*>(given.middle.data + (u64)p * search.padded);
#pragma unroll 1
    for (u32 block = threadIdx.x; block < search.padded / 4; block += blockDim.x) {
        const float4 z4 = normals_of(search, p, unit, draw, block), m4 = middle[block];
        const float z[4] = {z4.x, z4.y, z4.z, z4.w}, m[4] = {m4.x, m4.y, m4.z, m4.w};
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const u32 j = block * 4 + e;
            if (j >= search.parameters) break;
            const ParameterPlace place = place_of(search, w, j);
            const float plus = __fmaf_rn(sigma, z[e], m[e]), minus = __fmaf_rn(-sigma, z[e], m[e]);
            put_parameter(place, 0, plus);
            put_parameter(place, Laid<STEPS>::BYTES, minus);
            if (given.asked) {
                const u64 to = ((u64)p * search.draws + draw) * 2 * search.padded + j;
                given.asked[to] = plus, given.asked[to + search.padded] = minus;
            }
        }
    }
}

// What an account made of its span so far (fitness.rs).
struct Tally {
    f64 grown, squares, below, worst;

    __device__ __forceinline__ void add(f64 growth) {
        grown = __dadd_rn(grown, growth);
        squares = __dadd_rn(squares, __dmul_rn(growth, growth));
        const f64 now = __dsub_rn(below, growth);
        below = now > 0.0 ? now : 0.0;
        worst = below > worst ? below : worst;
    }
};

// Of an individual, from the tallies of its accounts in order.
__device__ __forceinline__ f64 fitness_of(u32 kind, f32 penalty, const f64* tallies, const u32* spans, u32 accounts) {
    f64 grown = 0.0, squares = 0.0, worst = 0.0;
    u64 steps = 0;
    for (u32 n = 0; n < accounts; n++) {
        grown = __dadd_rn(grown, tallies[n * TALLY]);
        squares = __dadd_rn(squares, tallies[n * TALLY + 1]);
        worst = __dadd_rn(worst, tallies[n * TALLY + 2]);
        steps += spans[n * SPAN + 1];
    }
    const f64 all = (f64)(steps > 0 ? steps : 1);
    if (kind == DRAWDOWN) return account::div(__dsub_rn(grown, __dmul_rn((f64)penalty, worst)), all);
    const f64 mean = account::div(grown, all);
    if (kind == GROWTH) return mean;
    const f64 variance = __dsub_rn(account::div(squares, all), __dmul_rn(mean, mean));
    return account::div(mean, __dsqrt_rn(__dadd_rn(variance > 0.0 ? variance : 0.0, 1e-8)));
}

// The target that outputs prefer: flat where it is as large as another.
__device__ __forceinline__ f64 greedy_target(u32 actions, const f32 (&z)[3], u32 legal) {
    if (actions == CONTINUOUS) return continuous_target(z[0], legal);
    f32 most = z[1];
    f64 target = 0.0;
    if (is_legal(legal, 0) && z[0] > most) most = z[0], target = -1.0;
    if (is_legal(legal, 2) && z[2] > most) target = 1.0;
    return target;
}

typedef Slabs<MLP_ROWS> WarpRows;

// Asks for what sixteen accounts see of the table at a step.
__device__ __forceinline__ void fetch_seen(const u16* seen, u32 pieces, u32 first, u32 accounts, const WarpRows& x) {
    for (u32 i = threadIdx.x % 32; i < MLP_ROWS * pieces; i += 32) {
        const u32 row = i / pieces, piece = i - row * pieces;
        const bool real = first + row < accounts;
        copy_async(x.piece(row, piece), seen + ((u64)(real ? row : 0) * pieces + piece) * 8, real);
    }
    copy_commit();
}

template <u32 STEPS> __device__ __forceinline__ void trade(const Trade& given) {
    const Searches& search = given.search;
    const u32 p = blockIdx.y, draw = blockIdx.x, of_side = blockDim.x / 64, warp = threadIdx.x / 32, side = warp / of_side;
    if (search.active[p] == 0) return;
    const u32 weights = shared_address(shared_memory), pieces = search.column / 8, accounts = search.accounts;
    lay_individuals<STEPS>(given, p, draw, weights);
    const MlpWeights w = Laid<STEPS>::at(weights + side * Laid<STEPS>::BYTES, search);
    // Two tiles of input for each warp: one is computed with while the other arrives.
    constexpr u32 TILE = STEPS * WarpRows::STEP;
    const u32 tiles = weights + 2 * Laid<STEPS>::BYTES + warp * 2 * TILE;
    for (u32 i = threadIdx.x % 32; i < 2 * TILE / 16; i += 32) put_piece(tiles + i * 16, 0, 0, 0, 0);
    __syncthreads();
    const LaneOffsets lane;
    const u32 number = threadIdx.x % 16;
    const u64 individual = ((u64)p * search.draws + draw) * 2 + side;
    if ((u64)(p + 1) * search.steps * accounts * search.column > given.seen.len) __trap();
    const u16* member_seen = given.seen.data + (u64)p * search.steps * accounts * search.column;
#pragma unroll 1
    for (u32 first = warp % of_side * MLP_ROWS; first < accounts; first += of_side * MLP_ROWS) {
        const u32 n = first + number;
        const bool lives = threadIdx.x % 32 < MLP_ROWS && n < accounts;
        const u64 span = ((u64)p * accounts + min(n, accounts - 1)) * SPAN;
        u32 row = given.spans[span], steps = given.spans[span + 1];
        const account::Params& params = params_of(given.table, given.spans[span + 2]);
        const u32 longest = __reduce_max_sync(ALL_LANES, steps);
        account::Account held = account::new_account(params);
        Tally tally = {};
        f32 observed[OBSERVED] = {};
        if (lives) observe(given.table, params, bar_at(given.table, row), held, row, observed);
        const u16* seen = member_seen + (u64)first * search.column;
        fetch_seen(seen, pieces, first, accounts, {tiles});
#pragma unroll 1
        for (u32 t = 0; t < longest; t++) {
            const WarpRows x = {tiles + t % 2 * TILE};
            if (lives)
                put_piece(x.piece(number, pieces), rounded_pair(observed[0], observed[1]), rounded_pair(observed[2], observed[3]),
                          rounded_pair(observed[4], observed[5]), rounded_pair(observed[6], observed[7]));
            copy_wait<0>();
            __syncwarp();
            seen += (u64)accounts * search.column;
            if (t + 1 < longest) fetch_seen(seen, pieces, first, accounts, {tiles + (t + 1) % 2 * TILE});
            float z[3];
            {
                Words one, two;
                float out[4];
                first_layer<STEPS>(one, w, lane, x);
                second_layer(two, w, lane, one);
                head_layer(out, w, lane, two);
                own_outputs(z, out);
            }
            if (lives && t < steps) {
                const account::Bar now = bar_at(given.table, row), next = bar_at(given.table, row + 1);
                const f64 target = greedy_target(search.actions, z, legal_sides(params, now));
                tally.add(account::step<false, false>(params, held, {target, 0.0, 0.0}, now, next).reward);
                row++;
                observe(given.table, params, next, held, row, observed);
            }
            __syncwarp();
        }
        if (lives) {
            f64* to = &given.tallies[(individual * accounts + n + 1) * TALLY - 1] - (TALLY - 1);
            to[0] = tally.grown, to[1] = tally.squares, to[2] = tally.worst;
        }
    }
    __syncthreads();
    if (threadIdx.x % (32 * of_side) == 0)
        given.fitness[individual] = fitness_of(search.fitness[p], search.penalty[p], given.tallies.data + individual * accounts * TALLY,
                                               given.spans.data + (u64)p * accounts * SPAN, accounts);
}

__global__ void __launch_bounds__(256) trade_2(const __grid_constant__ Trade given) { trade<2>(given); }
__global__ void __launch_bounds__(256) trade_5(const __grid_constant__ Trade given) { trade<5>(given); }
__global__ void __launch_bounds__(256) trade_8(const __grid_constant__ Trade given) { trade<8>(given); }

// ---------------------------------------------------------------------------------------------------------------------
// rank: centred ranks of both individuals of a draw; a warp each.
// ---------------------------------------------------------------------------------------------------------------------

struct Rank {
    Searches search;
    View<const f64> fitness; // [P, individuals]
    View<f32> weights;       // [P, draws]
};

// What is not a number is the least fit.
__device__ __forceinline__ f64 ranked(f64 fitness) { return fitness == fitness ? fitness : -account::infinite(); }

__global__ void __launch_bounds__(256) rank(const __grid_constant__ Rank given) {
    const Searches& search = given.search;
    const u32 p = blockIdx.y, draw = blockIdx.x * 8 + threadIdx.x / 32, all = 2 * search.draws;
    if (search.active[p] == 0 || draw >= search.draws) return;
    if ((u64)(p + 1) * all > given.fitness.len) __trap();
    const f64* fitness = given.fitness.data + (u64)p * all;
    const f64 own[2] = {ranked(fitness[2 * draw]), ranked(fitness[2 * draw + 1])};
    u32 less[2] = {}, equal[2] = {};
    for (u32 i = threadIdx.x % 32; i < all; i += 32) {
        const f64 other = ranked(__ldg(fitness + i));
#pragma unroll
        for (u32 side = 0; side < 2; side++) less[side] += other < own[side], equal[side] += other == own[side];
    }
    const f64 most = (f64)(max(all, 2) - 1);
    f64 centred[2];
#pragma unroll
    for (u32 side = 0; side < 2; side++) {
        const u32 below = __reduce_add_sync(ALL_LANES, less[side]), equals = __reduce_add_sync(ALL_LANES, equal[side]);
        const f64 mean = __dadd_rn((f64)below, __dmul_rn((f64)(equals - 1), 0.5));
        centred[side] = __dsub_rn(__ddiv_rn(mean, most), 0.5);
    }
    if (threadIdx.x % 32 == 0) given.weights[(u64)p * search.draws + draw] = __double2float_rn(__dsub_rn(centred[0], centred[1]));
}

// ---------------------------------------------------------------------------------------------------------------------
// sum and climb: the gradient, and the step along it.
// ---------------------------------------------------------------------------------------------------------------------

struct Sum {
    Searches search;
    View<const f32> weights; // [P, draws]
    View<f32> parts;         // [P, slices, d₄]
};

__global__ void __launch_bounds__(64) sum(const __grid_constant__ Sum given) {
    const Searches& search = given.search;
    const u32 p = blockIdx.z, block = blockIdx.x * blockDim.x + threadIdx.x, from = blockIdx.y * SLICE;
    if (search.active[p] == 0 || block >= search.padded / 4) return;
    const u32 unit = search.unit[p], to = min(search.draws, from + SLICE);
    float4 all = {};
#pragma unroll 1
    for (u32 draw = from; draw < to; draw++) {
        const f32 weight = given.weights[(u64)p * search.draws + draw];
        if (weight == 0.0f) continue;
        const float4 z = normals_of(search, p, unit, draw, block);
        all.x = __fmaf_rn(weight, z.x, all.x), all.y = __fmaf_rn(weight, z.y, all.y);
        all.z = __fmaf_rn(weight, z.z, all.z), all.w = __fmaf_rn(weight, z.w, all.w);
    }
    f32* part = &given.parts[((u64)p * gridDim.y + blockIdx.y) * search.padded + block * 4 + 3] - 3;
    *reinterpret_cast<float4*>(part) = all;
}

struct Climb {
    Searches search;
    View<const f32> parts; // [P, slices, d₄]
    View<const f32> rates; // [P, RATES] of generation g at g % RATES
    View<f32> middle;      // [P, d₄]
    View<f32> first;       // Adam's moments
    View<f32> second;
    View<u32> steps;       // [P] of Adam
    View<f64> report;      // [P, REPORT] generations done, the length of the last move, the generation that failed or 0
    u32 slices;
    f32 beta1;
    f32 beta2;
    f32 eps;
    f32 decay;
};

// x to a whole power, as Rust's `powi` has it.
__device__ __forceinline__ f64 whole_power(f64 x, u32 n) {
    f64 power = 1.0;
    for (;; n /= 2, x = __dmul_rn(x, x)) {
        if (n & 1) power = __dmul_rn(power, x);
        if (n < 2) return power;
    }
}

__global__ void __launch_bounds__(256) climb(const __grid_constant__ Climb given) {
    __shared__ double scratch[8];
    const Searches& search = given.search;
    const u32 p = blockIdx.x, unit = search.unit[p], step = given.steps[p] + 1;
    if (search.active[p] == 0) return;
    const f32 rate = given.rates[(u64)p * RATES + unit % RATES];
    const f32 first_left = __double2float_rn(__dsub_rn(1.0, whole_power((f64)given.beta1, step)));
    const f32 second_left = __double2float_rn(__dsub_rn(1.0, whole_power((f64)given.beta2, step)));
    const f32 scale = __fdiv_rn(1.0f, __fmul_rn((f32)(2 * search.draws), search.sigma[p]));
    const f32 first_new = __fsub_rn(1.0f, given.beta1), second_new = __fsub_rn(1.0f, given.beta2);
    const u64 own = (u64)p * search.padded;
    if (own + search.padded > given.middle.len || own * given.slices + (u64)given.slices * search.padded > given.parts.len) __trap();
    double squares = 0.0;
    for (u32 j = threadIdx.x; j < search.parameters; j += 256) {
        const f32* part = given.parts.data + own * given.slices + j;
        f32 sum = 0.0f;
#pragma unroll 8
        for (u32 slice = 0; slice < given.slices; slice++) sum = __fadd_rn(sum, __ldg(part + (u64)slice * search.padded));
        const f32 g = __fmul_rn(sum, scale), x = given.middle.data[own + j];
        const f32 first = __fadd_rn(__fmul_rn(given.beta1, given.first[own + j]), __fmul_rn(first_new, g));
        const f32 second = __fadd_rn(__fmul_rn(given.beta2, given.second[own + j]), __fmul_rn(__fmul_rn(second_new, g), g));
        const f32 root = __fadd_rn(__fsqrt_rn(__fdiv_rn(second, second_left)), given.eps);
        const f32 along = __fdiv_rn(__fdiv_rn(first, first_left), root);
        const f32 moved = __fmul_rn(rate, __fsub_rn(along, __fmul_rn(given.decay, x)));
        given.first[own + j] = first, given.second[own + j] = second, given.middle.data[own + j] = __fadd_rn(x, moved);
        squares += (double)moved * (double)moved;
    }
    const double length = sqrt(block_sum(squares, scratch));
    if (threadIdx.x != 0) return;
    search.unit[p] = unit + 1, given.steps[p] = step;
    f64* report = &given.report[(u64)p * REPORT + REPORT - 1] - (REPORT - 1);
    report[0] = (f64)(unit + 1), report[1] = length;
    if (!account::is_finite(length)) report[2] = (f64)(unit + 1), search.active[p] = 0;
}
