// A policy's iteration on a card, around a net of any shape: accounts act on its outputs, advantages are estimated, and
// minibatches get their losses and the gradients at the outputs. The net's passes come between these kernels.
//
// | kernel       | block | grid                     |
// |--------------|-------|--------------------------|
// | act_all      | 128   | [ceil(N / 128), P]       |
// | later_rows   | 128   | [ceil(N / 128), P]       |
// | returns      | 32    | [ceil(N / 32), P]        |
// | scales       | 256   | [P]                      |
// | advantages   | 32    | [ceil(N / 32), P]        |
// | explained    | 256   | [P]                      |
// | moments      | 256   | [ceil(B / SLICE), minibatches, P] |
// | moments_end  | 32    | [ceil(minibatches / 32), P] |
// | choose       | 256   | [ceil(B / 256), P]       |
// | losses       | 256   | [ceil(B / 256), P]       |
// | decide       | 256   | [P]                      |
// | walk_all     | 64    | [ceil(M / 64), P]        |
// | tick         | 1     | [1]                      |
// | begin_update, end_update | 1 | [P]              |
// registers: 160

#include "../../../compute/src/population/population.cuh"
#include "decide.cuh"
#include "rollout.cuh"

// Sums over accounts and rows go through `partial` in a fixed order.
constexpr u32 SLICE = 4096;

// ---------------------------------------------------------------------------------------------------------------------
// act_all: one step of every account.
// ---------------------------------------------------------------------------------------------------------------------
struct Act {
    EpisodeTable table;
    Members members;
    Standing standing;
    Rollout seen;
    View<const f32> z;      // [P, N, outputs]
    View<const f32> value;  // [P, N], or none where values come behind the rollout
    View<const u32> clock;  // [2] steps of the rollout before this graph
    u32 offset;             // the step within it
};

__global__ void __launch_bounds__(128) act_all(const __grid_constant__ Act given) {
    const u32 p = blockIdx.y, n = blockIdx.x * 128 + threadIdx.x, wide = given.members.outputs;
    if (n >= given.members.accounts) return;
    const u32 t = given.clock[0] + given.offset;
    const u64 i = (u64)p * given.members.accounts + n, all = (u64)gridDim.y * given.members.accounts;
    Trader trader = load_trader(given.standing, i, all);
    if (t > 0) trader.grown = given.standing.grown[i], trader.cuts = given.seen.cuts[i];
    f32 z[3] = {given.z[i * wide], given.z[i * wide + 1], wide > 2 ? given.z[i * wide + 2] : 0.0f};
    const u64 at = ((u64)p * given.members.steps + t) * given.members.accounts + n;
    if (given.value) given.seen.value[at] = given.value[i];
    const ActTerms terms(given.members, p);
    act(given.table, terms, given.seen, i, at, n, look_ahead(given.table, terms, n, t, trader), z, trader);
    store_trader(given.standing, i, all, trader);
    given.seen.cuts[i] = trader.cuts;
}

// ---------------------------------------------------------------------------------------------------------------------
// later_rows: what a rollout leaves to be valued.
// ---------------------------------------------------------------------------------------------------------------------
struct Later {
    Members members;
    Standing standing;
    Rollout seen;
};

__global__ void __launch_bounds__(128) later_rows(const __grid_constant__ Later given) {
    const u32 p = blockIdx.y, n = blockIdx.x * 128 + threadIdx.x;
    if (n >= given.members.accounts) return;
    const u64 i = (u64)p * given.members.accounts + n, all = (u64)gridDim.y * given.members.accounts;
    Trader trader = load_trader(given.standing, i, all);
    trader.cuts = given.seen.cuts[i];
    put_later(given.members, given.seen, p, n, trader);
}

// ---------------------------------------------------------------------------------------------------------------------
// tick: the clock of a rollout whose steps are launches of one graph.
// ---------------------------------------------------------------------------------------------------------------------
struct Tick {
    View<u32> clock; // [2] steps of the rollout, minibatches
    u32 steps;
};

__global__ void tick(const Tick given) { given.clock[0] += given.steps; }

// ---------------------------------------------------------------------------------------------------------------------
// returns: discounted returns with what earlier rollouts left, for the scale of rewards.
// ---------------------------------------------------------------------------------------------------------------------
struct Estimate {
    Members members;
    Standing standing;
    Rollout seen;
    View<f64> carried;  // [P, N] discounted sum of rewards
    View<f64> partial;  // [P, ceil(N / 32), 4] sums of neighbouring accounts
    View<f64> returns;  // [P, 3] count, mean and squares of returns so far
    View<f32> scale;    // [P] what rewards are multiplied by
    View<f64> totals;   // [P, TOTALS]
};

// Rows of a rollout are read ahead, this many.
constexpr u32 AHEAD = 8;

// An account of a warp of 32: where it is in arrays of accounts, and at the first step of a rollout. One behind the
// last does what the last does, and counts for nothing.
struct OneOfWarp {
    bool lives;
    u64 account, first;

    __device__ __forceinline__ OneOfWarp(const Members& members, const Rollout& seen) {
        const u32 p = blockIdx.y, n = blockIdx.x * 32 + threadIdx.x, last = members.accounts - 1;
        lives = n <= last;
        account = (u64)p * members.accounts + min(n, last);
        first = (u64)p * members.steps * members.accounts + min(n, last);
        // All arrays of a rollout have this length.
        if (first + (u64)(members.steps - 1) * members.accounts >= seen.rows.len) __trap();
    }

    __device__ __forceinline__ void put_sums(const View<f64>& partial, f64 a, f64 b, f64 c, f64 d) const {
        a = warp_sum(lives ? a : 0.0), b = warp_sum(lives ? b : 0.0), c = warp_sum(lives ? c : 0.0), d = warp_sum(lives ? d : 0.0);
        if (threadIdx.x != 0) return;
        f64* to = &partial[((u64)blockIdx.y * gridDim.x + blockIdx.x) * 4];
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    }
};

__global__ void __launch_bounds__(32) returns(const __grid_constant__ Estimate given) {
    const u32 p = blockIdx.y, accounts = given.members.accounts, steps = given.members.steps;
    const OneOfWarp own(given.members, given.seen);
    const u64 i = own.account, first = own.first;
    const f64 gamma = (f64)given.members.gamma[p];
    f64 carried = given.carried[i], sum = 0.0, squares = 0.0;
    for (u32 t = 0; t < steps; t += AHEAD) {
        f32 reward[AHEAD];
        u32 ended[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            const u64 at = first + (u64)min(t + k, steps - 1) * accounts;
            reward[k] = given.seen.reward.data[at], ended[k] = given.seen.ended.data[at];
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            if (t + k >= steps) break;
            carried = __fma_rn(gamma, carried, (f64)reward[k]);
            sum += carried, squares += carried * carried;
            if (ended[k] != NOT_ENDED) carried = 0.0;
        }
    }
    if (own.lives) given.carried[i] = carried;
    own.put_sums(given.partial, sum, squares, given.standing.grown[i], 0.0);
}

// ---------------------------------------------------------------------------------------------------------------------
// scales: the running deviation of returns takes them in (Chan, Golub and LeVeque 1979).
// ---------------------------------------------------------------------------------------------------------------------
__global__ void __launch_bounds__(256) scales(const __grid_constant__ Estimate given) {
    __shared__ double scratch[8];
    const u32 p = blockIdx.x, accounts = given.members.accounts, warps = (accounts + 31) / 32;
    const f64* own = &given.partial[(u64)p * warps * 4];
    const f64 sum = block_sum(own, warps, 4, scratch), all = block_sum(own + 1, warps, 4, scratch);
    const f64 grown = block_sum(own + 2, warps, 4, scratch);
    if (threadIdx.x != 0) return;
    const f64 count = (f64)accounts * (f64)given.members.steps, mean = sum / count;
    const f64 spread = all - sum * mean, squares = spread > 0.0 ? spread : 0.0;
    f64* known = &given.returns[3 * p];
    const f64 together = known[0] + count, apart = mean - known[1];
    known[2] += squares + apart * apart * known[0] * count / together;
    known[1] += apart * count / together;
    known[0] = together;
    const f64 variance = known[0] > 1.0 ? known[2] / known[0] : 1.0;
    given.scale[p] = (f32)(1.0 / ((variance > 0.0 ? sqrt(variance) : 1.0) + 1e-8));
    for (u32 k = 0; k < TOTALS; k++) given.totals[p * TOTALS + k] = 0.0;
    given.totals[p * TOTALS + 6] = grown / count;
}

// ---------------------------------------------------------------------------------------------------------------------
// advantages: rewards are scaled and cut at ten deviations; then generalised advantages, backwards through time.
// ---------------------------------------------------------------------------------------------------------------------
__global__ void __launch_bounds__(32) advantages(const __grid_constant__ Estimate given) {
    const u32 p = blockIdx.y, accounts = given.members.accounts, steps = given.members.steps;
    const OneOfWarp own(given.members, given.seen);
    const u64 i = own.account, first = own.first;
    const f32 gamma = given.members.gamma[p], both = __fmul_rn(gamma, given.members.lambda[p]), scale = given.scale[p];
    const f32* later = &given.seen.later_value[i * given.seen.later];
    u32 cut = given.seen.cuts[i];
    f32 running = 0.0f, next = later[0];
    f64 wanted = 0.0, wanted_squares = 0.0, sum = 0.0, squares = 0.0;
    for (u32 back = 0; back < steps; back += AHEAD) {
        f32 reward[AHEAD], value[AHEAD];
        u32 ended[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            const u64 at = first + (u64)(back + k < steps ? steps - 1 - back - k : 0) * accounts;
            reward[k] = given.seen.reward.data[at], value[k] = given.seen.value.data[at], ended[k] = given.seen.ended.data[at];
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            if (back + k >= steps) break;
            const u64 at = first + (u64)(steps - 1 - back - k) * accounts;
            const f32 scaled = __fmul_rn(reward[k], scale), r = scaled < -10.0f ? -10.0f : scaled > 10.0f ? 10.0f : scaled;
            f32 behind = next, carried = running;
            if (ended[k] != NOT_ENDED) carried = 0.0f, behind = ended[k] == TRUNCATED ? later[cut--] : 0.0f;
            running = __fmaf_rn(both, carried, __fsub_rn(__fmaf_rn(gamma, behind, r), value[k]));
            next = value[k];
            if (own.lives) given.seen.advantage.data[at] = running;
            const f64 goal = (f64)__fadd_rn(running, value[k]), error = (f64)running;
            wanted += goal, wanted_squares += goal * goal, sum += error, squares += error * error;
        }
    }
    own.put_sums(given.partial, wanted, wanted_squares, sum, squares);
}

// ---------------------------------------------------------------------------------------------------------------------
// explained: how much of the returns' variance the values explain.
// ---------------------------------------------------------------------------------------------------------------------
__global__ void __launch_bounds__(256) explained(const __grid_constant__ Estimate given) {
    __shared__ double scratch[8];
    const u32 p = blockIdx.x, accounts = given.members.accounts, warps = (accounts + 31) / 32;
    const f64* own = &given.partial[(u64)p * warps * 4];
    f64 sums[4];
    for (u32 k = 0; k < 4; k++) sums[k] = block_sum(own + k, warps, 4, scratch);
    if (threadIdx.x != 0) return;
    const f64 count = (f64)accounts * (f64)given.members.steps;
    const f64 goal = sums[0] / count, error = sums[2] / count;
    const f64 wanted = sums[1] / count - goal * goal, errors = sums[3] / count - error * error;
    given.totals[p * TOTALS + 7] = 1.0 - (errors > 0.0 ? errors : 0.0) / (wanted > 1e-12 ? wanted : 1e-12);
}

// ---------------------------------------------------------------------------------------------------------------------
// moments: the order of rows in every epoch, and mean and deviation of the advantages of every minibatch of the update.
// ---------------------------------------------------------------------------------------------------------------------
struct Moments {
    Members members;
    View<const f32> advantage; // [P, T, N]
    View<u32> order;           // [P, epochs, T × N]
    View<f64> partial;         // [P, minibatches, slices, 2]
    View<f32> centre;          // [P, minibatches, 2] what is subtracted, then multiplied with
    u32 per_epoch;             // minibatches of an epoch
};

// Where row `b` of a minibatch lies in the rollout of a member, or nowhere.
constexpr u32 NOWHERE = 0xffffffffu;

__device__ __forceinline__ u32 rows_of(const Members& members, u32 minibatch, u32 per_epoch) {
    const u32 all = members.accounts * members.steps, first = minibatch % per_epoch * members.batch;
    return min(members.batch, all - first);
}

__device__ __forceinline__ Permutation order_of(const Members& members, u32 p, u32 minibatch, u32 per_epoch) {
    return Permutation(members.accounts * members.steps, members.draws, members.id[p],
                       members.unit[p] * members.epochs + minibatch / per_epoch);
}

__global__ void __launch_bounds__(256) moments(const __grid_constant__ Moments given) {
    __shared__ double scratch[8];
    const u32 p = blockIdx.z, minibatch = blockIdx.y, slice = blockIdx.x;
    const u32 rows = rows_of(given.members, minibatch, given.per_epoch), end = min(rows, (slice + 1) * SLICE);
    const u32 first = minibatch % given.per_epoch * given.members.batch;
    const Permutation order = order_of(given.members, p, minibatch, given.per_epoch);
    const u64 all = (u64)given.members.accounts * given.members.steps, own = p * all;
    const u64 to = ((u64)p * given.members.epochs + minibatch / given.per_epoch) * all + first;
    f64 sum = 0.0, squares = 0.0;
    // A thread whose number is still too large after a round takes another, and does not keep its warp waiting.
    u32 place = first + slice * SLICE + threadIdx.x;
    for (u32 b = slice * SLICE + threadIdx.x; b < end;) {
        place = order.once(place);
        if (place >= all) continue;
        given.order[to + b] = place;
        const f64 x = (f64)given.advantage[own + place];
        sum += x, squares += x * x;
        b += 256;
        place = first + b;
    }
    sum = block_sum(sum, scratch), squares = block_sum(squares, scratch);
    if (threadIdx.x != 0) return;
    f64* sums = &given.partial[(((u64)p * gridDim.y + minibatch) * gridDim.x + slice) * 2];
    sums[0] = sum, sums[1] = squares;
}

__global__ void __launch_bounds__(32) moments_end(const __grid_constant__ Moments given) {
    const u32 p = blockIdx.y, minibatch = blockIdx.x * 32 + threadIdx.x, minibatches = given.members.epochs * given.per_epoch;
    if (minibatch >= minibatches) return;
    const u32 slices = (given.members.batch + SLICE - 1) / SLICE;
    const f64* from = &given.partial[((u64)p * minibatches + minibatch) * slices * 2];
    f64 sum = 0.0, squares = 0.0;
#pragma unroll 8
    for (u32 s = 0; s < slices; s++) sum += __ldg(from + 2 * s), squares += __ldg(from + 2 * s + 1);
    const f64 count = (f64)rows_of(given.members, minibatch, given.per_epoch), mean = sum / count;
    const f64 spread = squares / count - mean * mean, variance = (spread > 0.0 ? spread : 0.0) * count / (count > 2.0 ? count - 1.0 : 1.0);
    const bool normal = given.members.normalise[p] != 0 && count > 1.0;
    f32* to = &given.centre[((u64)p * minibatches + minibatch) * 2];
    to[0] = normal ? (f32)mean : 0.0f;
    to[1] = normal ? (f32)(1.0 / (sqrt(variance) + 1e-8)) : 1.0f;
}

// ---------------------------------------------------------------------------------------------------------------------
// choose: the rows of a minibatch, in the order of its epoch. Places behind the last row read the first. Behind the
// last minibatch nothing changes.
// ---------------------------------------------------------------------------------------------------------------------
struct Choose {
    Members members;
    Rollout seen;
    View<const u32> clock; // [2]
    View<u32> ids;         // [P, B]
    View<f32> observed;    // [P, B, OBSERVED]
    View<u32> places;      // [P, B]
    u32 per_epoch;
};

__global__ void __launch_bounds__(256) choose(const __grid_constant__ Choose given) {
    const u32 p = blockIdx.y, b = blockIdx.x * 256 + threadIdx.x, batch = given.members.batch, minibatch = given.clock[1];
    if (b >= batch || minibatch >= given.members.epochs * given.per_epoch) return;
    const bool real = b < rows_of(given.members, minibatch, given.per_epoch);
    const u32 first = minibatch % given.per_epoch * batch;
    const u64 all = (u64)given.members.accounts * given.members.steps;
    const u32 place = given.seen.order[((u64)p * given.members.epochs + minibatch / given.per_epoch) * all + first + (real ? b : 0)];
    const u64 to = (u64)p * batch + b, from = p * all + place;
    given.ids[to] = given.seen.rows[from];
    given.places[to] = real ? place : NOWHERE;
    const float4* observed = reinterpret_cast<const float4*>(&given.seen.observed[from * OBSERVED]);
    float4* put = reinterpret_cast<float4*>(&given.observed[to * OBSERVED]);
    put[0] = observed[0], put[1] = observed[1];
}

// ---------------------------------------------------------------------------------------------------------------------
// losses: of a minibatch, with the gradients at the outputs.
// ---------------------------------------------------------------------------------------------------------------------
struct LossArgs {
    Members members;
    Rollout seen;
    View<const u32> clock;   // [2]
    View<const u32> places;  // [P, B]
    View<const f32> centre;  // [P, minibatches, 2]
    View<const f32> z;       // [P, B, outputs]
    View<const f32> value;   // [P, B]
    View<f32> d_z;
    View<f32> d_value;
    View<f64> partial;       // [P, blocks, 6]
    u32 per_epoch;
};

__global__ void __launch_bounds__(256) losses(const __grid_constant__ LossArgs given) {
    __shared__ double scratch[8];
    const Members& members = given.members;
    const u32 p = blockIdx.y, b = blockIdx.x * 256 + threadIdx.x, minibatch = given.clock[1], wide = members.outputs;
    const u64 at = (u64)p * members.batch + b;
    const u32 place = b < members.batch ? given.places[at] : NOWHERE;
    Losses seen = {};
    f32 d[3] = {}, d_value = 0.0f;
    if (place != NOWHERE) {
        const u64 from = (u64)p * members.accounts * members.steps + place;
        const f32* centre = &given.centre[((u64)p * members.epochs * given.per_epoch + minibatch) * 2];
        const f32 rows = (f32)rows_of(members, minibatch, given.per_epoch), advantage = given.seen.advantage[from];
        const f32 z[3] = {given.z[at * wide], given.z[at * wide + 1], wide > 2 ? given.z[at * wide + 2] : 0.0f};
        const Taken taken = {given.seen.action[from], given.seen.log_probability[from],
                             __fmul_rn(__fsub_rn(advantage, centre[0]), centre[1]), given.seen.legal[from]};
        policy_loss(members.actions, members.clip[p], members.entropy_weight[p], rows, z, taken, d, seen);
        const f32 old = given.seen.value[from];
        d_value = value_loss(members.clip_value[p], members.value_weight[p], rows, given.value[at], old, __fadd_rn(advantage, old), seen);
    }
    if (b < members.batch) {
        for (u32 a = 0; a < wide; a++) given.d_z[at * wide + a] = d[a];
        given.d_value[at] = d_value;
    }
    f64* to = &given.partial[((u64)p * gridDim.x + blockIdx.x) * 6];
    const f64 each[6] = {place != NOWHERE ? 1.0 : 0.0, seen.policy, seen.value, seen.entropy, seen.kl, seen.clipped};
#pragma unroll
    for (u32 k = 0; k < 6; k++) {
        const f64 sum = block_sum(each[k], scratch);
        if (threadIdx.x == 0) to[k] = sum;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// decide: what a minibatch saw is added up; a member that has moved too far, or whose last gradient was no number,
// takes no further step in this update.
// ---------------------------------------------------------------------------------------------------------------------
__global__ void __launch_bounds__(256) decide(const __grid_constant__ Decide given) { decide_member(given, blockIdx.x); }

// ---------------------------------------------------------------------------------------------------------------------
// walk_all: one step of validation.
// ---------------------------------------------------------------------------------------------------------------------
struct Walk {
    EpisodeTable table;
    Walkers walkers;
    View<const f32> z; // [P, M, outputs]
    u32 actions;
    u32 outputs;
};

__global__ void __launch_bounds__(64) walk_all(const __grid_constant__ Walk given) {
    const u32 p = blockIdx.y, m = blockIdx.x * 64 + threadIdx.x, wide = given.outputs;
    if (m >= given.walkers.pieces) return;
    const u64 i = (u64)p * given.walkers.pieces + m, all = (u64)gridDim.y * given.walkers.pieces;
    Walker walker = load_walker(given.walkers, i, all);
    const f32 z[3] = {given.z[i * wide], given.z[i * wide + 1], wide > 2 ? given.z[i * wide + 2] : 0.0f};
    walk(given.table, given.actions, z, walker);
    store_walker(given.walkers, i, all, walker);
}

// ---------------------------------------------------------------------------------------------------------------------
// begin_update, end_update: what the host says to an update in one copy, and what it reads behind one.
// ---------------------------------------------------------------------------------------------------------------------
struct Report {
    View<const u32> words;      // [P, 4] updates done, whether it goes, bits of the entropy's weight, of the rate
    View<u32> unit;             // [P]
    View<u32> goes;
    View<f32> entropy_weight;
    View<f32> rate;
    View<f32> norms;
    View<const f64> totals;     // [P, TOTALS]
    View<const f64> returns;    // [P, 3]
    View<f64> report;           // [P, TOTALS + 5] totals, returns, whether it still goes, the last norm
    View<u32> clock;            // [2]
};

__global__ void begin_update(const __grid_constant__ Report given) {
    const u32 p = blockIdx.x;
    const u32* words = &given.words[4 * p];
    given.unit[p] = words[0];
    given.goes[p] = words[1];
    given.entropy_weight[p] = __uint_as_float(words[2]);
    given.rate[p] = __uint_as_float(words[3]);
    given.norms[p] = 0.0f;
    if (p == 0) given.clock[0] = 0, given.clock[1] = 0;
}

__global__ void end_update(const __grid_constant__ Report given) {
    const u32 p = blockIdx.x;
    f64* to = &given.report[p * (TOTALS + 5)];
    for (u32 k = 0; k < TOTALS; k++) to[k] = given.totals[p * TOTALS + k];
    for (u32 k = 0; k < 3; k++) to[TOTALS + k] = given.returns[3 * p + k];
    to[TOTALS + 3] = (f64)given.goes[p];
    to[TOTALS + 4] = (f64)given.norms[p];
}
