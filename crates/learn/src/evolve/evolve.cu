// Generations of a search on a card, for policies with two hidden layers of up to 64, in bf16: what is seen,
// individuals that trade, ranks, and the move of the distribution. `mod.rs` says what is drawn from which counter and
// what is added in which order. Individuals and accounts have the bits of the processor; passes of the net do not.
//
// | kernel    | block  | grid                       | what it does                                               |
// |-----------|--------|----------------------------|------------------------------------------------------------|
// | look      | 256    | [T × N × columns / 8, P]   | spans of a generation, and rows of the table along them    |
// | trade_S   | 64 × W | [ceil(individuals / 2), P] | two individuals trade all spans, W warps each              |
// | quick_S   | 192    | [ceil(individuals / 2), P] | the same for at most ten accounts that choose a side       |
// | rank      | 256    | [ceil(draws / 8), P]       | a weight for each draw, from centred ranks of both sides   |
// | rank_each | 256    | [ceil(draws / 8), P]       | a weight for each draw, from what its rank has             |
// | sum       | 256    | [ceil(d₄ / 64), slices, P] | Σ weight · normal over 64 draws, and of squares            |
// | climb     | 256    | [ceil(d / 256), P]         | slices are added up; Adam                                  |
// | fold      | 256    | [ceil(d / 256), P]         | slices are added up; the path of σ                         |
// | spread    | 256    | [ceil(d / 256), P]         | middle and deviations of sep-CMA-ES, SNES and CEM          |
//
// P = members, N = accounts of an individual, T = steps, d₄ = parameters rounded up to 4; S is how many steps of 16 the
// input has, at most. All individuals of a member see the same rows, so these are scaled and rounded once (`look`). In
// `trade_S` a warp takes sixteen accounts through the net (`warp_mlp.cuh`); weights lie in shared memory, made there
// from mean and counters. Where there are few individuals a step's latency counts: in `quick_S` an individual has three
// warps, one for the net and two that meanwhile find what each of three actions leads to.
// registers: 255

#include "evolve.cuh"

extern __shared__ __align__(32) unsigned char shared_memory[];

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
// What accounts are shown, where bars held are whole numbers.
// ---------------------------------------------------------------------------------------------------------------------

// What follows from bars held, [T + 1] each, in shared memory.
struct HeldTables {
    f64* root;
    f32* log;

    __device__ __forceinline__ f64 root_of(u32 bars) const { return root[bars]; }
    __device__ __forceinline__ f32 log_of(u32 bars) const { return log[bars]; }
};

// The same of the first bars; of more it is computed.
struct FirstHeld {
    static constexpr u32 COUNT = 256;
    const f64* root;
    const f32* log;

    __device__ __forceinline__ f64 root_of(u32 bars) const { return bars < COUNT ? root[bars] : __dsqrt_rn((f64)bars); }
    __device__ __forceinline__ f32 log_of(u32 bars) const {
        return bars < COUNT ? log[bars] : __double2float_rn(account::ln_1p((f64)bars));
    }
};

// Fills tables of so many; a barrier follows.
__device__ __forceinline__ void fill_held(f64* root, f32* log, u32 count) {
    for (u32 i = threadIdx.x; i < count; i += blockDim.x)
        root[i] = __dsqrt_rn((f64)i), log[i] = __double2float_rn(account::ln_1p((f64)i));
}

// a / b, which is seldom needed because a is mostly zero.
__device__ __forceinline__ f64 div_if_any(f64 a, f64 b) {
    if (a == 0.0 && b != 0.0 && account::is_finite(b)) return __dmul_rn(a, b);
    return __ddiv_rn(a, b);
}

// `observe` of episode.cuh, but for what the row alone says.
template <typename Tables>
__device__ __forceinline__ void observe_held(const account::Params& params, const Tables& tables, f64 close, f64 fx, f64 sigma,
                                             const account::Account& held, f32 (&to)[OBSERVED]) {
    const u32 bars = (u32)held.bars_held;
    const f64 unit = __dmul_rn(__dmul_rn(params.multiplier, close), fx);
    const f64 equity = held.equity > 0.0 ? held.equity : account::infinite();
    const f64 position = account::div(__dmul_rn(held.quantity, unit), equity);
    const f64 pending = div_if_any(__dmul_rn(__dsub_rn(held.target, held.quantity), unit), equity);
    f64 unrealised = 0.0;
    if (held.quantity != 0.0) {
        const f64 moved = held.entry > 0.0 ? __dsub_rn(account::div(close, held.entry), 1.0) : 0.0;
        const f64 deviation = __dmul_rn(sigma, tables.root_of(bars));
        if (deviation > 0.0) unrealised = account::div(held.quantity > 0.0 ? moved : -moved, deviation);
        unrealised = unrealised < -10.0 ? -10.0 : unrealised > 10.0 ? 10.0 : unrealised;
    }
    const f64 size = position < 0.0 ? -position : position;
    to[0] = __double2float_rn(position);
    to[1] = __double2float_rn(pending);
    to[2] = __double2float_rn(unrealised);
    to[3] = tables.log_of(bars);
    to[4] = __double2float_rn(__dsub_rn(1.0, account::div(held.equity, held.peak)));
    to[5] = __double2float_rn(params.leverage == 1.0 ? size : account::div(size, params.leverage));
}

// ---------------------------------------------------------------------------------------------------------------------
// trade: individuals are made, and trade.
// ---------------------------------------------------------------------------------------------------------------------

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
    const u32 inputs = search.features + OBSERVED, one = search.hidden[0], two = search.hidden[1], first = (inputs + 1) * one;
    if (j < first) {
        const u32 input = j / one, output = j - input * one;
        if (input == inputs) return {w.biases + output * 4, true};
        return weight_place(w.first, output, input < search.features ? input : search.column + input - search.features);
    }
    j -= first;
    if (j < (one + 1) * two) {
        const u32 input = j / two, output = j - input * two;
        if (input == one) return {w.biases + (MLP_HIDDEN + output) * 4, true};
        return weight_place(w.second, output, input);
    }
    j -= (one + 1) * two;
    const u32 input = j / search.outputs, output = j - input * search.outputs;
    if (input == two) return {w.biases + (2 * MLP_HIDDEN + output) * 4, true};
    return weight_place(w.head, output, input);
}

__device__ __forceinline__ void put_parameter(const ParameterPlace& place, u32 behind, float x) {
    const u32 bits = rounded_pair(x, 0.0f);
    if (place.is_bias) asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(place.at + behind), "f"(x) : "memory");
    else asm volatile("st.shared.b16 [%0], %1;\n" ::"r"(place.at + behind), "h"((u16)bits) : "memory");
}

// Two individuals, `first` and the next, the second `BYTES` behind the first: both sides of a draw, or two draws. A
// barrier follows.
template <u32 STEPS> __device__ __forceinline__ void lay_individuals(const Trade& given, u32 p, u32 first, u32 at) {
    const Searches& search = given.search;
    for (u32 i = threadIdx.x; i < 2 * Laid<STEPS>::BYTES / 16; i += blockDim.x) put_piece(at + i * 16, 0, 0, 0, 0);
    __syncthreads();
    const MlpWeights w = Laid<STEPS>::at(at, search);
    const f32 sigma = search.sigma[p];
    const u32 unit = search.unit[p];
    const u64 own = (u64)p * search.padded;
    const bool mirrored = search.sides == 2;
    if (own + search.padded > given.middle.len || (!mirrored && own + search.padded > given.deviation.len)) __trap();
    const float4* middle = reinterpret_cast<const float4*>(given.middle.data + own);
#pragma unroll 1
    for (u32 block = threadIdx.x; block < search.padded / 4; block += blockDim.x) {
        const float4 m4 = middle[block];
        float4 z4, y4;
        float by[4] = {sigma, sigma, sigma, sigma};
        if (mirrored) {
            z4 = normals_of(search, p, unit, first / 2, block);
            y4 = make_float4(-z4.x, -z4.y, -z4.z, -z4.w);
        } else {
            const float4 d4 = reinterpret_cast<const float4*>(given.deviation.data + own)[block];
            const float d[4] = {d4.x, d4.y, d4.z, d4.w};
#pragma unroll
            for (u32 e = 0; e < 4; e++) by[e] = __fmul_rn(sigma, d[e]);
            z4 = normals_of(search, p, unit, first, block), y4 = normals_of(search, p, unit, first + 1, block);
        }
        const float z[4] = {z4.x, z4.y, z4.z, z4.w}, y[4] = {y4.x, y4.y, y4.z, y4.w}, m[4] = {m4.x, m4.y, m4.z, m4.w};
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const u32 j = block * 4 + e;
            if (j >= search.parameters) break;
            const ParameterPlace place = place_of(search, w, j);
            const float one = __fmaf_rn(by[e], z[e], m[e]), other = __fmaf_rn(by[e], y[e], m[e]);
            put_parameter(place, 0, one);
            put_parameter(place, Laid<STEPS>::BYTES, other);
            if (given.asked) {
                const u64 to = ((u64)p * search.individuals + first) * search.padded + j;
                given.asked[to] = one;
                if (first + 1 < search.individuals) given.asked[to + search.padded] = other;
            }
        }
    }
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
    const u32 p = blockIdx.y, of_side = blockDim.x / 64, warp = threadIdx.x / 32, side = warp / of_side;
    if (search.active[p] == 0) return;
    const u32 weights = shared_address(shared_memory), pieces = search.column / 8, accounts = search.accounts;
    __shared__ f64 roots[FirstHeld::COUNT];
    __shared__ f32 logs[FirstHeld::COUNT];
    fill_held(roots, logs, FirstHeld::COUNT);
    const FirstHeld tables = {roots, logs};
    lay_individuals<STEPS>(given, p, blockIdx.x * 2, weights);
    const MlpWeights w = Laid<STEPS>::at(weights + side * Laid<STEPS>::BYTES, search);
    // Two tiles of input for each warp: one is computed with while the other arrives.
    constexpr u32 TILE = STEPS * WarpRows::STEP;
    const u32 tiles = weights + 2 * Laid<STEPS>::BYTES + warp * 2 * TILE;
    for (u32 i = threadIdx.x % 32; i < 2 * TILE / 16; i += 32) put_piece(tiles + i * 16, 0, 0, 0, 0);
    __syncthreads();
    const LaneOffsets lane;
    const u32 number = threadIdx.x % 16;
    if ((u64)(p + 1) * search.steps * accounts * search.column > given.seen.len) __trap();
    const u16* member_seen = given.seen.data + (u64)p * search.steps * accounts * search.column;
#pragma unroll 1
    for (u32 first = warp % of_side * MLP_ROWS; first < accounts; first += of_side * MLP_ROWS) {
        // The last of an odd number has nobody beside it.
        if (blockIdx.x * 2 + side >= search.individuals) break;
        const u32 n = first + number;
        const bool lives = threadIdx.x % 32 < MLP_ROWS && n < accounts;
        const u64 span = ((u64)p * accounts + min(n, accounts - 1)) * SPAN;
        u32 row = given.spans[span], steps = given.spans[span + 1];
        const account::Params& params = params_of(given.table, given.spans[span + 2]);
        const u32 longest = __reduce_max_sync(ALL_LANES, steps);
        account::Account held = account::new_account(params);
        Tally tally = {};
        f32 observed[OBSERVED] = {};
        const auto observe_at = [&](const account::Bar& bar) {
            observe_held(params, tables, bar.close, bar.fx_close, bar.sigma, held, observed);
            observed[6] = given.table.time_of_day[row], observed[7] = given.table.log_to_close[row];
        };
        if (lives) observe_at(bar_at(given.table, row));
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
                observe_at(next);
            }
            __syncwarp();
        }
        if (lives) tally.store(given, (u64)p * search.individuals + blockIdx.x * 2 + side, n);
    }
    __syncthreads();
    const u32 individual = blockIdx.x * 2 + side;
    if (threadIdx.x % (32 * of_side) == 0 && individual < search.individuals)
        store_fitness(given, p, (u64)p * search.individuals + individual);
}

__global__ void __launch_bounds__(256) trade_2(const __grid_constant__ Trade given) { trade<2>(given); }
__global__ void __launch_bounds__(256) trade_5(const __grid_constant__ Trade given) { trade<5>(given); }
__global__ void __launch_bounds__(256, 1) trade_8(const __grid_constant__ Trade given) { trade<8>(given); }

// ---------------------------------------------------------------------------------------------------------------------
// quick: the same where a step's latency counts. An individual has three warps: one steps the accounts, one finds what
// they are then shown, one runs the net and counts. The first two have a lane for each action of each account, and find
// what it leads to while the net decides.
// ---------------------------------------------------------------------------------------------------------------------

constexpr u32 LED = 7; // numbers of an account that an action led to

// What the warps of an individual tell each other.
struct Exchange {
    f64 led[2][LED][32];      // where actions lead, by parity of the step
    f64 before[MLP_ROWS];     // equity at the beginning of the last step,
    f64 counted[MLP_ROWS];    // and at its end, as far as it counts
    u32 legal[MLP_ROWS];      // sides
    u32 action[2][MLP_ROWS];  // that the net prefers, by parity
};

// Barriers of two warps of a side. Two are there twice, by parity of the step: who comes may be back before the other
// has taken the last.
struct Barriers {
    u32 led, shown, seen_by_observer, seen_by_stepper;

    __device__ __forceinline__ Barriers(u32 side)
        : led(1 + 6 * side), shown(3 + 6 * side), seen_by_observer(4 + 6 * side), seen_by_stepper(5 + 6 * side) {}
};
__device__ __forceinline__ void barrier_arrive(u32 id) { asm volatile("bar.arrive %0, 64;\n" ::"r"(id) : "memory"); }
__device__ __forceinline__ void barrier_wait(u32 id) { asm volatile("bar.sync %0, 64;\n" ::"r"(id) : "memory"); }

__device__ __forceinline__ f64 from_lane(f64 x, u32 lane) { return __shfl_sync(ALL_LANES, x, lane); }

// What of an account changes; flows and brackets do not.
__device__ __forceinline__ void take_account(account::Account& to, const account::Account& from, u32 lane) {
    to.equity = from_lane(from.equity, lane), to.peak = from_lane(from.peak, lane);
    to.quantity = from_lane(from.quantity, lane), to.target = from_lane(from.target, lane);
    to.action = from_lane(from.action, lane), to.mark = from_lane(from.mark, lane), to.fx = from_lane(from.fx, lane);
    to.entry = from_lane(from.entry, lane), to.bars_held = from_lane(from.bars_held, lane);
    to.terminated = from_lane(from.terminated, lane);
}

// Where a lane's account begins; lane 3 n + a has action a of account n, and lanes behind the last are as its last.
struct QuickLane {
    u32 n, action, first, last, symbol;
    bool lives;

    __device__ __forceinline__ QuickLane(const Trade& given, u32 p) {
        const u32 lane = threadIdx.x % 32, accounts = given.search.accounts;
        n = min(lane / 3, accounts - 1), action = lane % 3;
        lives = lane / 3 < accounts;
        const u64 span = ((u64)p * accounts + n) * SPAN;
        first = given.spans[span], last = first + given.spans[span + 1], symbol = given.spans[span + 2];
    }
};

// The warp that steps an individual's accounts.
__device__ __forceinline__ void step_accounts(const Trade& given, u32 p, const Barriers& barriers, u32 longest, Exchange& exchange) {
    const QuickLane own(given, p);
    const account::Params& params = params_of(given.table, own.symbol);
    account::Account held = account::new_account(params);
    u32 row = own.first;
    account::Bar now = bar_at(given.table, row), next = bar_at(given.table, min(row + 1, own.last));
#pragma unroll 1
    for (u32 t = 0; t < longest; t++) {
        const account::Bar later = bar_at(given.table, min(row + 2, own.last));
        account::Account led = held;
        if (row < own.last) account::step<false, false>(params, led, {(f64)own.action - 1.0, 0.0, 0.0}, now, next);
        f64* to = &exchange.led[t % 2][0][threadIdx.x % 32];
        to[0] = led.equity, to[32] = led.peak, to[64] = led.quantity, to[96] = led.target;
        to[128] = led.entry, to[160] = led.bars_held, to[192] = led.terminated;
        barrier_arrive(barriers.led + t % 2);
        barrier_wait(barriers.seen_by_stepper + t % 2);
        take_account(held, led, own.n * 3 + exchange.action[t % 2][own.n]);
        if (row < own.last) row++, now = next, next = later;
    }
}

// The warp that finds what accounts are shown.
template <u32 STEPS>
__device__ __forceinline__ void observe_accounts(const Trade& given, u32 p, const Barriers& barriers, u32 tiles, u32 longest,
                                                 const HeldTables& tables, Exchange& exchange) {
    const QuickLane own(given, p);
    const u32 n = own.n, pieces = given.search.column / 8;
    const account::Params& params = params_of(given.table, own.symbol);
    const EpisodeTable& table = given.table;
    if ((u64)own.last >= table.time_of_day.len || (u64)own.last >= table.log_to_close.len) __trap();
    const auto show = [&](const f32 (&observed)[OBSERVED], u32 t, bool open, f64 before, f64 counted) {
        put_piece(WarpRows{tiles + t % 2 * (STEPS * WarpRows::STEP)}.piece(n, pieces), rounded_pair(observed[0], observed[1]),
                  rounded_pair(observed[2], observed[3]), rounded_pair(observed[4], observed[5]), rounded_pair(observed[6], observed[7]));
        exchange.legal[n] = (params.shortable != 0.0 && open ? 1u : 0u) | 2u | (open ? 4u : 0u);
        exchange.before[n] = before, exchange.counted[n] = counted;
    };
    account::Account held = account::new_account(params);
    f32 observed[OBSERVED];
    u32 row = own.first;
    {
        const account::Bar bar = bar_at(table, row);
        observe_held(params, tables, bar.close, bar.fx_close, bar.sigma, held, observed);
        observed[6] = table.time_of_day.data[row], observed[7] = table.log_to_close.data[row];
        if (own.lives && own.action == 0) show(observed, 0, bar.flat_next == 0.0, 1.0, 1.0);
    }
    barrier_arrive(barriers.shown);
    f64 equity = held.equity, over = 0.0;
#pragma unroll 1
    for (u32 t = 0; t < longest; t++) {
        const bool steps = row < own.last;
        if (steps) row++;
        // Under way while the accounts are stepped.
        const account::Bar bar = bar_at(table, row);
        observed[6] = __ldg(table.time_of_day.data + row), observed[7] = __ldg(table.log_to_close.data + row);
        barrier_wait(barriers.led + t % 2);
        const f64* from = &exchange.led[t % 2][0][threadIdx.x % 32];
        held.equity = from[0], held.peak = from[32], held.quantity = from[64], held.target = from[96];
        held.entry = from[128], held.bars_held = from[160];
        const f64 terminated = from[192];
        if (steps) observe_held(params, tables, bar.close, bar.fx_close, bar.sigma, held, observed);
        const f64 counted = account::larger(held.equity, account::mul(account::FLOOR, params.capital));
        barrier_wait(barriers.seen_by_observer);
        const u32 chosen = exchange.action[t % 2][n];
        if (own.lives && own.action == chosen && steps)
            show(observed, t + 1, bar.flat_next == 0.0, over == 0.0 ? equity : 1.0, over == 0.0 ? counted : 1.0);
        barrier_arrive(barriers.shown);
        equity = from_lane(held.equity, n * 3 + chosen), over = from_lane(terminated, n * 3 + chosen);
    }
}

// The warp of its net.
template <u32 STEPS>
__device__ __forceinline__ void decide_all(const Trade& given, u32 p, const Barriers& barriers, const MlpWeights& w, u32 tiles, u32 longest,
                                           u64 individual, Exchange& exchange) {
    const Searches& search = given.search;
    constexpr u32 TILE = STEPS * WarpRows::STEP;
    const u32 accounts = search.accounts, pieces = search.column / 8, n = threadIdx.x % 32;
    const u32 steps = given.spans[((u64)p * accounts + min(n, accounts - 1)) * SPAN + 1];
    const bool lives = n < accounts;
    const LaneOffsets lane;
    const u16* seen = given.seen.data + (u64)p * search.steps * accounts * search.column;
    Tally tally = {};
    fetch_seen(seen, pieces, 0, accounts, {tiles});
#pragma unroll 1
    for (u32 t = 0;; t++) {
        copy_wait<0>();
        barrier_wait(barriers.shown);
        const u32 own = n % MLP_ROWS;
        const f64 before = exchange.before[own], counted = exchange.counted[own];
        const u32 legal = exchange.legal[own];
        if (t < longest) {
            const WarpRows x = {tiles + t % 2 * TILE};
            seen += (u64)accounts * search.column;
            if (t + 1 < longest) fetch_seen(seen, pieces, 0, accounts, {tiles + (t + 1) % 2 * TILE});
            Words one, two;
            float out[4], z[3];
            first_layer<STEPS>(one, w, lane, x);
            second_layer(two, w, lane, one);
            head_layer(out, w, lane, two);
            own_outputs(z, out);
            if (lives) exchange.action[t % 2][n] = greedy_action(z, legal);
            barrier_arrive(barriers.seen_by_stepper + t % 2);
            barrier_arrive(barriers.seen_by_observer);
        }
        if (lives && t > 0 && t <= steps) tally.add(account::ln_1p(account::div(account::sub(counted, before), before)));
        if (t == longest) break;
    }
    if (lives) tally.store(given, individual, n);
    __syncwarp();
    if (n == 0) store_fitness(given, p, individual);
}

template <u32 STEPS> __device__ __forceinline__ void trade_quickly(const Trade& given) {
    __shared__ Exchange exchanges[2];
    const Searches& search = given.search;
    const u32 p = blockIdx.y, warp = threadIdx.x / 32, side = warp % 2, accounts = search.accounts;
    if (search.active[p] == 0) return;
    const u32 weights = shared_address(shared_memory);
    lay_individuals<STEPS>(given, p, blockIdx.x * 2, weights);
    constexpr u32 TILE = STEPS * WarpRows::STEP, ALL = 2 * Laid<STEPS>::BYTES + 4 * TILE;
    const u32 all_tiles = weights + 2 * Laid<STEPS>::BYTES, tiles = all_tiles + side * 2 * TILE;
    for (u32 i = threadIdx.x; i < 4 * TILE / 16; i += blockDim.x) put_piece(all_tiles + i * 16, 0, 0, 0, 0);
    const HeldTables tables = {reinterpret_cast<f64*>(shared_memory + ALL), reinterpret_cast<f32*>(shared_memory + ALL) + 2 * (search.steps + 1)};
    fill_held(tables.root, tables.log, search.steps + 1);
    __syncthreads();
    const u32 individual = blockIdx.x * 2 + side;
    if (individual >= search.individuals) return;
    if ((u64)(p + 1) * search.steps * accounts * search.column > given.seen.len) __trap();
    const u32 own = threadIdx.x % 32 < accounts ? given.spans[((u64)p * accounts + threadIdx.x % 32) * SPAN + 1] : 0;
    const u32 longest = __reduce_max_sync(ALL_LANES, own);
    const Barriers barriers(side);
    if (warp >= 4) observe_accounts<STEPS>(given, p, barriers, tiles, longest, tables, exchanges[side]);
    else if (warp >= 2) step_accounts(given, p, barriers, longest, exchanges[side]);
    else
        decide_all<STEPS>(given, p, barriers, Laid<STEPS>::at(weights + side * Laid<STEPS>::BYTES, search), tiles, longest,
                          (u64)p * search.individuals + individual, exchanges[side]);
}

__global__ void __launch_bounds__(192, 1) quick_2(const __grid_constant__ Trade given) { trade_quickly<2>(given); }
__global__ void __launch_bounds__(192, 1) quick_5(const __grid_constant__ Trade given) { trade_quickly<5>(given); }

// ---------------------------------------------------------------------------------------------------------------------
// rank: what draws count; a warp each.
// ---------------------------------------------------------------------------------------------------------------------

struct Rank {
    Searches search;
    View<const f64> fitness; // [P, individuals]
    View<const f64> of_rank; // [P, individuals] what they count from the fittest on, where draws are not mirrored
    View<const f64> up_to;   // [P, individuals + 1] and how much they count up to each
    View<f32> weights;       // [P, draws]
    View<u32> alike;         // [P] whether all are equally fit
};

// What is not a number is the least fit.
__device__ __forceinline__ f64 ranked(f64 fitness) { return fitness == fitness ? fitness : -account::infinite(); }

// Centred ranks of both individuals of a draw.
__global__ void __launch_bounds__(256) rank(const __grid_constant__ Rank given) {
    const Searches& search = given.search;
    const u32 p = blockIdx.y, draw = blockIdx.x * 8 + threadIdx.x / 32, all = search.individuals;
    if (search.active[p] == 0 || draw >= search.draws) return;
    if ((u64)(p + 1) * all > given.fitness.len) __trap();
    const f64* fitness = given.fitness.data + (u64)p * all;
    const f64 own[2] = {ranked(fitness[2 * draw]), ranked(fitness[2 * draw + 1])};
    u32 less[2] = {}, equal[2] = {};
#pragma unroll 4
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

// What an individual's rank has; equals share what their ranks have (ranks.rs).
__global__ void __launch_bounds__(256) rank_each(const __grid_constant__ Rank given) {
    const Searches& search = given.search;
    const u32 p = blockIdx.y, draw = blockIdx.x * 8 + threadIdx.x / 32, all = search.individuals;
    if (search.active[p] == 0 || draw >= all) return;
    if ((u64)(p + 1) * all > given.fitness.len) __trap();
    const f64* fitness = given.fitness.data + (u64)p * all;
    const f64 own = ranked(fitness[draw]), first = fitness[0];
    u32 less = 0, equal = 0, alike = 0;
#pragma unroll 4
    for (u32 i = threadIdx.x % 32; i < all; i += 32) {
        const f64 raw = __ldg(fitness + i), other = ranked(raw);
        less += other < own, equal += other == own, alike += raw == first;
    }
    const u32 below = __reduce_add_sync(ALL_LANES, less), equals = __reduce_add_sync(ALL_LANES, equal);
    const u32 same = __reduce_add_sync(ALL_LANES, alike), from = all - below - equals;
    if (threadIdx.x % 32 != 0) return;
    if (draw == 0) given.alike[p] = same == all ? 1 : 0;
    const f64 shared = __dsub_rn(given.up_to[(u64)p * (all + 1) + from + equals], given.up_to[(u64)p * (all + 1) + from]);
    const f64 weight = equals == 1 ? given.of_rank[(u64)p * all + from] : __ddiv_rn(shared, (f64)equals);
    given.weights[(u64)p * search.draws + draw] = __double2float_rn(weight);
}

// ---------------------------------------------------------------------------------------------------------------------
// sum and climb: the gradient, and the step along it.
// ---------------------------------------------------------------------------------------------------------------------

constexpr u32 BLOCKS = 16; // of four parameters, that a block has
constexpr u32 LANES = 16;  // threads that draw for one of them

template <bool SQUARED> __device__ __forceinline__ void sum_slice(const Sum& given, float4 (&drawn)[SLICE][BLOCKS]) {
    const Searches& search = given.search;
    const u32 p = blockIdx.z, first = blockIdx.x * BLOCKS, from = blockIdx.y * SLICE;
    if (search.active[p] == 0) return;
    const u32 unit = search.unit[p], count = min(search.draws - from, SLICE);
    if ((u64)(p + 1) * search.draws > given.weights.len) __trap();
    const f32* weights = given.weights.data + (u64)p * search.draws + from;
    {
        const u32 block = threadIdx.x % BLOCKS;
        for (u32 i = threadIdx.x / BLOCKS; i < count; i += LANES)
            if (first + block < search.blocks) drawn[i][block] = normals_of(search, p, unit, from + i, first + block);
    }
    __syncthreads();
    // A thread has a parameter.
    const u32 j = first * 4 + threadIdx.x;
    if (threadIdx.x >= BLOCKS * 4 || j >= search.padded) return;
    f32 all = 0.0f, squares = 0.0f;
#pragma unroll 8
    for (u32 i = 0; i < count; i++) {
        const f32 weight = __ldg(weights + i), z = reinterpret_cast<const f32*>(drawn[i])[threadIdx.x];
        if (weight != 0.0f) all = __fmaf_rn(weight, z, all);
        if (SQUARED && weight != 0.0f) squares = __fmaf_rn(weight, __fmul_rn(z, z), squares);
    }
    const u64 at = ((u64)p * gridDim.y + blockIdx.y) * search.padded + j;
    given.parts[at] = all;
    if (SQUARED) given.squares[at] = squares;
}

__global__ void __launch_bounds__(256) sum(const __grid_constant__ Sum given) {
    __shared__ float4 drawn[SLICE][BLOCKS];
    if (given.squares) sum_slice<true>(given, drawn);
    else sum_slice<false>(given, drawn);
}

// Where the blocks of a member meet: the last of them adds up what all moved, in order.
struct Arrivals {
    View<f64> lengths; // [P, blocks] squares of what each moved
    View<u32> count;   // [P]
};

// Whether all other blocks of this member have been here; each comes once.
__device__ __forceinline__ bool is_last(const Arrivals& arrivals, u32 p, f64 squares) {
    __shared__ u32 last;
    if (threadIdx.x == 0) {
        arrivals.lengths[(u64)p * gridDim.x + blockIdx.x] = squares;
        __threadfence();
        last = atomicAdd(&arrivals.count[p], 1) == gridDim.x - 1;
        if (last) arrivals.count[p] = 0;
        __threadfence();
    }
    __syncthreads();
    return last;
}

// The length of the whole move; every thread gets it.
__device__ __forceinline__ f64 whole_length(const Arrivals& arrivals, u32 p, double* scratch) {
    double mine = 0.0;
    for (u32 i = threadIdx.x; i < gridDim.x; i += 256) mine += __ldcg(&arrivals.lengths[(u64)p * gridDim.x + i]);
    return sqrt(block_sum(mine, scratch));
}

// A member is a generation further.
__device__ __forceinline__ void report_move(const Searches& search, const View<f64>& reports, u32 p, u32 unit, f64 length) {
    search.unit[p] = unit + 1;
    f64* report = &reports[(u64)p * REPORT + REPORT - 1] - (REPORT - 1);
    report[0] = (f64)(unit + 1), report[1] = length;
    if (!account::is_finite(length)) report[2] = (f64)(unit + 1), search.active[p] = 0;
}

struct Climb {
    Searches search;
    Arrivals arrivals;
    View<const f32> parts; // [P, slices, d₄]
    View<const f32> rates; // [P, RATES] of generation g at g % RATES
    View<f32> middle;      // [P, d₄]
    View<f32> first;       // Adam's moments
    View<f32> second;
    View<f64> numbers;     // [P, NUMBERS] steps of Adam
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

// Whether a parameter is a bias.
__device__ __forceinline__ bool is_bias(const Searches& search, u32 j) {
    const u32 widths[4] = {search.features + OBSERVED, search.hidden[0], search.hidden[1], search.outputs};
#pragma unroll
    for (u32 l = 0; l < 3; l++) {
        const u32 weights = widths[l] * widths[l + 1];
        if (j < weights) return false;
        j -= weights;
        if (j < widths[l + 1]) return true;
        j -= widths[l + 1];
    }
    return true;
}

__device__ __forceinline__ f32 add_slices(const f32* part, u32 slices, u32 padded, f32 scale) {
    f32 sum = 0.0f;
#pragma unroll 8
    for (u32 slice = 0; slice < slices; slice++) sum = __fmaf_rn(scale, __ldg(part + (u64)slice * padded), sum);
    return sum;
}

__global__ void __launch_bounds__(256) climb(const __grid_constant__ Climb given) {
    __shared__ double scratch[8];
    const Searches& search = given.search;
    const u32 p = blockIdx.y, unit = search.unit[p], step = (u32)given.numbers[(u64)p * NUMBERS] + 1;
    if (search.active[p] == 0) return;
    const f32 rate = given.rates[(u64)p * RATES + unit % RATES];
    const f32 first_left = __double2float_rn(__dsub_rn(1.0, whole_power((f64)given.beta1, step)));
    const f32 second_left = __double2float_rn(__dsub_rn(1.0, whole_power((f64)given.beta2, step)));
    const f32 scale = __fdiv_rn(1.0f, __fmul_rn((f32)search.individuals, search.sigma[p]));
    const f32 first_new = __fsub_rn(1.0f, given.beta1), second_new = __fsub_rn(1.0f, given.beta2);
    const u64 own = (u64)p * search.padded;
    if (own + search.padded > given.middle.len || own * given.slices + (u64)given.slices * search.padded > given.parts.len) __trap();
    double squares = 0.0;
    const u32 j = blockIdx.x * 256 + threadIdx.x;
    if (j < search.parameters) {
        const f32 by = search.rank > 1 && !is_bias(search, j) ? search.scale : 1.0f;
        const f32 sum = add_slices(given.parts.data + own * given.slices + j, given.slices, search.padded, by);
        const f32 g = __fmul_rn(sum, scale), x = given.middle.data[own + j];
        const f32 first = __fadd_rn(__fmul_rn(given.beta1, given.first[own + j]), __fmul_rn(first_new, g));
        const f32 second = __fadd_rn(__fmul_rn(given.beta2, given.second[own + j]), __fmul_rn(__fmul_rn(second_new, g), g));
        const f32 root = __fadd_rn(__fsqrt_rn(__fdiv_rn(second, second_left)), given.eps);
        const f32 along = __fdiv_rn(__fdiv_rn(first, first_left), root);
        const f32 moved = __fmul_rn(rate, __fsub_rn(along, __fmul_rn(given.decay, x)));
        given.first[own + j] = first, given.second[own + j] = second, given.middle.data[own + j] = __fadd_rn(x, moved);
        squares = (double)moved * (double)moved;
    }
    if (!is_last(given.arrivals, p, block_sum(squares, scratch))) return;
    const f64 length = whole_length(given.arrivals, p, scratch);
    if (threadIdx.x != 0) return;
    given.numbers[(u64)p * NUMBERS] = (f64)step;
    report_move(search, given.report, p, unit, length);
}

// ---------------------------------------------------------------------------------------------------------------------
// fold and spread: distributions with a deviation for each parameter.
// ---------------------------------------------------------------------------------------------------------------------

// How deviations move; another number is the way of the cross-entropy method.
constexpr u32 SEP_CMA = 1;
constexpr u32 SNES = 2;

struct Spread {
    Searches search;
    Arrivals arrivals;
    View<const f32> parts;     // [P, slices, d₄]
    View<const f32> squares;   // [P, slices, d₄]
    View<const f32> weights;   // [P, draws]
    View<const u32> alike;     // [P]
    View<f32> sums;            // [2, P, d₄] of all draws: normals, and their squares
    View<f64> paths;           // [P, blocks] squares of the path of σ
    View<f32> total;           // [P] of the weights
    View<f32> middle;          // [P, d₄]
    View<f32> deviation;       // [P, d₄]
    View<f32> variance;        // [P, d₄] of sep-CMA-ES, as is what follows
    View<f32> path;            // [P, d₄]
    View<f32> sigma_path;      // [P, d₄]
    View<f64> numbers;         // [P, NUMBERS] σ and generation
    View<f64> report;          // [P, REPORT] as `Climb` has it
    u32 slices;
    u32 algorithm;             // SEP_CMA, SNES or 3
    f64 effective;             // constants of sep_cma.rs
    f64 path_rate;
    f64 rank_one;
    f64 rank_many;
    f64 sigma_rate;
    f64 damping;
    f64 length;
    f32 rate;                  // of deviations (snes.rs and cem.rs)
};

// Whether there is no direction, because all are equally fit.
__device__ __forceinline__ bool stays(const Spread& given, u32 p) { return given.algorithm != SNES && given.alike[p] != 0; }

__global__ void __launch_bounds__(256) fold(const __grid_constant__ Spread given) {
    __shared__ double scratch[8];
    const Searches& search = given.search;
    const u32 p = blockIdx.y, j = blockIdx.x * 256 + threadIdx.x, padded = search.padded;
    if (search.active[p] == 0 || stays(given, p)) return;
    const u64 own = (u64)p * padded, all = given.sums.len / 2;
    if (given.algorithm == SNES && j == 0) {
        // 0 but for rounding, in the order of the draws.
        f32 total = 0.0f;
#pragma unroll 8
        for (u32 draw = 0; draw < search.draws; draw++) total = __fadd_rn(total, given.weights[(u64)p * search.draws + draw]);
        given.total[p] = total;
    }
    double far = 0.0;
    if (j < search.parameters) {
        if ((own + padded) * given.slices > given.parts.len || (own + padded) * given.slices > given.squares.len) __trap();
        const f32 z = add_slices(given.parts.data + own * given.slices + j, given.slices, padded, 1.0f);
        given.sums[own + j] = z;
        given.sums[all + own + j] = add_slices(given.squares.data + own * given.slices + j, given.slices, padded, 1.0f);
        if (given.algorithm == SEP_CMA) {
            const f64 left = __dsub_rn(2.0, given.sigma_rate);
            const f32 push = __double2float_rn(__dsqrt_rn(__dmul_rn(__dmul_rn(given.sigma_rate, left), given.effective)));
            const f32 keep = __double2float_rn(__dsub_rn(1.0, given.sigma_rate));
            const f32 path = __fadd_rn(__fmul_rn(keep, given.sigma_path[own + j]), __fmul_rn(push, z));
            given.sigma_path[own + j] = path;
            far = (double)path * (double)path;
        }
    }
    far = block_sum(far, scratch);
    if (threadIdx.x == 0) given.paths[(u64)p * gridDim.x + blockIdx.x] = far;
}

__device__ __forceinline__ f32 within(f32 x, f32 least, f32 most) { return x < least ? least : x > most ? most : x; }

// What sep-CMA-ES decides by the path of σ.
struct CmaTerms {
    f64 far;
    f32 push, keep, kept, one, many;

    __device__ __forceinline__ CmaTerms(const Spread& given, u32 p, f64 found) : far(found) {
        const f64 path_rate = given.path_rate, d = (f64)given.search.parameters;
        const u32 generation = (u32)given.numbers[(u64)p * NUMBERS + 1] + 1;
        const f64 begun = __dsqrt_rn(__dsub_rn(1.0, whole_power(__dsub_rn(1.0, given.sigma_rate), 2 * (generation + 1))));
        const bool is_short = far / begun < (1.4 + 2.0 / (d + 1.0)) * given.length;
        const f64 path = __dmul_rn(path_rate, __dsub_rn(2.0, path_rate));
        push = is_short ? __double2float_rn(__dsqrt_rn(__dmul_rn(path, given.effective))) : 0.0f;
        keep = __double2float_rn(__dsub_rn(1.0, path_rate));
        const f64 missing = is_short ? 0.0 : path;
        kept = __double2float_rn(
            __dsub_rn(__dsub_rn(__dadd_rn(1.0, __dmul_rn(given.rank_one, missing)), given.rank_one), given.rank_many));
        one = __double2float_rn(given.rank_one), many = __double2float_rn(given.rank_many);
    }
};

__global__ void __launch_bounds__(256) spread(const __grid_constant__ Spread given) {
    __shared__ double scratch[8];
    const Searches& search = given.search;
    const u32 p = blockIdx.y, unit = search.unit[p], j = blockIdx.x * 256 + threadIdx.x;
    if (search.active[p] == 0) return;
    const bool moves = !stays(given, p);
    const u64 own = (u64)p * search.padded, all = given.sums.len / 2;
    double far = 0.0;
    for (u32 i = threadIdx.x; moves && i < gridDim.x; i += 256) far += given.paths[(u64)p * gridDim.x + i];
    const CmaTerms terms(given, p, sqrt(block_sum(far, scratch)));
    double squares = 0.0;
    if (moves && j < search.parameters) {
        const f32 z = given.sums[own + j], z2 = given.sums[all + own + j], deviation = given.deviation[own + j];
        const f32 step = __fmul_rn(deviation, z);
        const f32 moved = given.algorithm == SEP_CMA ? __fmul_rn(search.sigma[p], step) : step;
        given.middle[own + j] = __fadd_rn(given.middle[own + j], moved);
        squares = (double)moved * (double)moved;
        if (given.algorithm == SEP_CMA) {
            const f32 path = __fadd_rn(__fmul_rn(terms.keep, given.path[own + j]), __fmul_rn(terms.push, step));
            given.path[own + j] = path;
            const f32 spread = __fmul_rn(__fmul_rn(deviation, deviation), z2);
            const f32 first = __fadd_rn(__fmul_rn(terms.kept, given.variance[own + j]), __fmul_rn(__fmul_rn(terms.one, path), path));
            const f32 variance = __fadd_rn(within(__fadd_rn(first, __fmul_rn(terms.many, spread)), 0.0f, 1e8f), 1e-8f);
            given.variance[own + j] = variance, given.deviation[own + j] = __fsqrt_rn(variance);
        } else if (given.algorithm == SNES) {
            const f32 by = expf(__fmul_rn(given.rate, __fsub_rn(z2, given.total[p])));
            given.deviation[own + j] = within(__fmul_rn(deviation, by), 1e-12f, 1e8f);
        } else {
            const f32 found = __fmul_rn(deviation, __fsqrt_rn(z2 > 0.0f ? z2 : 0.0f));
            const f32 kept = __fmul_rn(__fsub_rn(1.0f, given.rate), deviation);
            given.deviation[own + j] = within(__fadd_rn(kept, __fmul_rn(given.rate, found)), 1e-12f, 1e8f);
        }
    }
    if (!is_last(given.arrivals, p, block_sum(squares, scratch))) return;
    const f64 length = whole_length(given.arrivals, p, scratch);
    if (threadIdx.x != 0) return;
    if (given.algorithm == SEP_CMA) {
        f64* numbers = &given.numbers[(u64)p * NUMBERS + NUMBERS - 1] - (NUMBERS - 1);
        numbers[1] += 1.0;
        if (moves) {
            const f64 sigma = numbers[0] * exp(given.sigma_rate / given.damping * (terms.far / given.length - 1.0));
            numbers[0] = sigma < 1e-12 ? 1e-12 : sigma > 1e8 ? 1e8 : sigma;
            search.sigma[p] = __double2float_rn(numbers[0]);
        }
    }
    report_move(search, given.report, p, unit, moves ? length : 0.0);
}
