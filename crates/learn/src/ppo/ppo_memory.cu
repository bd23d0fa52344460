// Policies that remember, on a card: what their accounts carry from step to step, and minibatches of whole accounts.
// The kernels stand between passes of the net, as those of `ppo.cu` do.
//
// The states of all accounts are segments, h or c of one LSTM layer each, [P, N, units], one behind the other. Those of
// a minibatch are the same with A accounts in place of N.
//
// | kernel          | block | grid                              |
// |-----------------|-------|-----------------------------------|
// | remember        | 256   | [ceil(P × N × state / 256)]       |
// | order_accounts  | 256   | [ceil(N / 256), epochs, P]        |
// | account_moments | 256   | [ceil(B / SLICE), minibatches, P] |
// | choose_accounts | 256   | [ceil(B / 256), P]                |
// | choose_states   | 256   | [ceil(P × A × state / 256)]       |
// | take_later, give_later | 128 | [ceil(N / 128), P]           |
// registers: 64

#include "../../../compute/src/population/population.cuh"
#include "rollout.cuh"

// As `ppo.cu` has them.
constexpr u32 SLICE = 4096;
constexpr u32 NOWHERE = 0xffffffffu;

// Where a number of the states of all accounts is.
struct StatePlace {
    u32 member, account;
    u64 before; // numbers of an account's state in front of the segment
    u32 units, unit;
    bool inside;

    // `segments` is [S, 2]: the numbers of an account in front of each, and its own.
    __device__ __forceinline__ StatePlace(const View<const u32>& segments, u64 at, u32 members, u32 accounts) {
        const u64 all = (u64)members * accounts;
        inside = false;
        for (u32 s = 0; s < segments.len / 2; s++) {
            before = segments.data[2 * s], units = segments.data[2 * s + 1];
            if (at >= (before + units) * all) continue;
            const u64 own = at - before * all, row = own / units;
            unit = (u32)(own % units), member = (u32)(row / accounts), account = (u32)(row % accounts);
            inside = true;
            return;
        }
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// remember: behind a step, what an account remembered where its episode was cut off is kept, because that is valued
// later; then whoever begins another episode remembers nothing.
// ---------------------------------------------------------------------------------------------------------------------
struct Remember {
    Members members;
    Rollout seen;
    View<const u32> segments; // [S, 2]
    View<f32> states;         // of P × N accounts
    View<f32> cut_states;     // [K - 1] of as many, by the number of the cut
    View<const u32> clock;    // [2]
    u32 offset;
    u32 count;                // P
};

__global__ void __launch_bounds__(256) remember(const __grid_constant__ Remember given) {
    const u64 at = (u64)blockIdx.x * 256 + threadIdx.x;
    const u32 accounts = given.members.accounts;
    const StatePlace own(given.segments, at, given.count, accounts);
    if (!own.inside) return;
    const u32 t = given.clock[0] + given.offset;
    const u32 ended = given.seen.ended[((u64)own.member * given.members.steps + t) * accounts + own.account];
    if (ended == NOT_ENDED) return;
    if (ended == TRUNCATED) {
        const u32 cuts = given.seen.cuts[(u64)own.member * accounts + own.account];
        given.cut_states[(u64)(cuts - 1) * given.states.len + at] = given.states[at];
    }
    given.states[at] = 0.0f;
}

// ---------------------------------------------------------------------------------------------------------------------
// order_accounts: the order of accounts in every epoch.
// ---------------------------------------------------------------------------------------------------------------------
struct AccountMoments {
    Members members;
    View<const f32> advantage; // [P, T, N]
    View<u32> order;           // [P, epochs, N]
    View<f64> partial;         // [P, minibatches, slices, 2]
    u32 per_epoch;             // minibatches of an epoch
    u32 accounts;              // A
};

__global__ void __launch_bounds__(256) order_accounts(const __grid_constant__ AccountMoments given) {
    const u32 p = blockIdx.z, epoch = blockIdx.y, i = blockIdx.x * 256 + threadIdx.x, all = given.members.accounts;
    if (i >= all) return;
    const Permutation order(all, given.members.draws, given.members.id[p], given.members.unit[p] * given.members.epochs + epoch);
    given.order[((u64)p * given.members.epochs + epoch) * all + i] = order.at(i);
}

// Accounts of a minibatch: where they begin in the order of their epoch, and how many there are.
struct MinibatchAccounts {
    u64 first;
    u32 count;

    __device__ __forceinline__ MinibatchAccounts(const Members& members, u32 p, u32 minibatch, u32 per_epoch, u32 accounts) {
        const u32 own = minibatch % per_epoch * accounts;
        first = ((u64)p * members.epochs + minibatch / per_epoch) * members.accounts + own;
        count = min(accounts, members.accounts - own);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// account_moments: sums of the advantages of every minibatch of the update, and of their squares.
// ---------------------------------------------------------------------------------------------------------------------
__global__ void __launch_bounds__(256) account_moments(const __grid_constant__ AccountMoments given) {
    __shared__ double scratch[8];
    const u32 p = blockIdx.z, minibatch = blockIdx.y, slice = blockIdx.x, n = given.members.accounts;
    const MinibatchAccounts own(given.members, p, minibatch, given.per_epoch, given.accounts);
    const u32 rows = own.count * given.members.steps, end = min(rows, (slice + 1) * SLICE);
    const u64 from = (u64)p * n * given.members.steps;
    f64 sum = 0.0, squares = 0.0;
    for (u32 b = slice * SLICE + threadIdx.x; b < end; b += 256) {
        const u32 account = given.order[own.first + b % own.count];
        const f64 x = (f64)given.advantage[from + (u64)(b / own.count) * n + account];
        sum += x, squares += x * x;
    }
    sum = block_sum(sum, scratch), squares = block_sum(squares, scratch);
    if (threadIdx.x != 0) return;
    f64* to = &given.partial[(((u64)p * gridDim.y + minibatch) * gridDim.x + slice) * 2];
    to[0] = sum, to[1] = squares;
}

// ---------------------------------------------------------------------------------------------------------------------
// choose_accounts: the steps of a minibatch's accounts, [T, A]. Places behind the last account read the first.
// ---------------------------------------------------------------------------------------------------------------------
struct ChooseAccounts {
    Members members;
    Rollout seen;
    View<const u32> clock; // [2]
    View<u32> ids;         // [P, T × A]
    View<f32> observed;    // [P, T × A, OBSERVED]
    View<u32> places;      // [P, T × A]
    View<u8> reset;        // [T, P, A] whether an episode began before the step
    u32 per_epoch;
    u32 accounts;          // A
};

__global__ void __launch_bounds__(256) choose_accounts(const __grid_constant__ ChooseAccounts given) {
    const u32 p = blockIdx.y, b = blockIdx.x * 256 + threadIdx.x, n = given.members.accounts, steps = given.members.steps;
    if (b >= given.accounts * steps) return;
    const MinibatchAccounts own(given.members, p, given.clock[1], given.per_epoch, given.accounts);
    const u32 t = b / given.accounts, a = b % given.accounts, account = given.seen.order[own.first + (a < own.count ? a : 0)];
    const u64 place = (u64)t * n + account, from = (u64)p * n * steps + place, to = (u64)p * given.accounts * steps + b;
    given.ids[to] = given.seen.rows[from];
    given.places[to] = a < own.count ? (u32)place : NOWHERE;
    given.reset[((u64)t * gridDim.y + p) * given.accounts + a] = t > 0 && given.seen.ended[from - n] != NOT_ENDED ? 1 : 0;
    const float4* observed = reinterpret_cast<const float4*>(&given.seen.observed[from * OBSERVED]);
    float4* put = reinterpret_cast<float4*>(&given.observed[to * OBSERVED]);
    put[0] = observed[0], put[1] = observed[1];
}

// ---------------------------------------------------------------------------------------------------------------------
// choose_states: what these accounts remembered before the first step of the rollout.
// ---------------------------------------------------------------------------------------------------------------------
struct ChooseStates {
    Members members;
    View<const u32> order;    // [P, epochs, N]
    View<const u32> clock;    // [2]
    View<const u32> segments; // [S, 2]
    View<const f32> began;    // of P × N accounts
    View<f32> states;         // of P × A accounts
    u32 per_epoch;
    u32 accounts;             // A
    u32 count;                // P
};

__global__ void __launch_bounds__(256) choose_states(const __grid_constant__ ChooseStates given) {
    const u64 at = (u64)blockIdx.x * 256 + threadIdx.x;
    const StatePlace own(given.segments, at, given.count, given.accounts);
    if (!own.inside) return;
    const MinibatchAccounts of(given.members, own.member, given.clock[1], given.per_epoch, given.accounts);
    const u32 n = given.members.accounts, account = given.order[of.first + (own.account < of.count ? own.account : 0)];
    const u64 row = (u64)own.member * n + account;
    given.states[at] = given.began[own.before * given.count * n + row * own.units + own.unit];
}

// ---------------------------------------------------------------------------------------------------------------------
// take_later, give_later: one of the rows of each account whose value is needed behind a rollout, and the value.
// ---------------------------------------------------------------------------------------------------------------------
struct LaterSlot {
    Rollout seen;
    View<u32> ids;          // [P, N]
    View<f32> observed;     // [P, N, OBSERVED]
    View<const f32> value;  // [P, N]
    u32 accounts;           // N
    u32 slot;
};

__global__ void __launch_bounds__(128) take_later(const __grid_constant__ LaterSlot given) {
    const u32 n = blockIdx.x * 128 + threadIdx.x;
    if (n >= given.accounts) return;
    const u64 i = (u64)blockIdx.y * given.accounts + n, from = i * given.seen.later + given.slot;
    given.ids[i] = given.seen.later_rows[from];
    const float4* observed = reinterpret_cast<const float4*>(&given.seen.later_observed[from * OBSERVED]);
    float4* put = reinterpret_cast<float4*>(&given.observed[i * OBSERVED]);
    put[0] = observed[0], put[1] = observed[1];
}

__global__ void __launch_bounds__(128) give_later(const __grid_constant__ LaterSlot given) {
    const u32 n = blockIdx.x * 128 + threadIdx.x;
    if (n >= given.accounts) return;
    const u64 i = (u64)blockIdx.y * given.accounts + n;
    given.seen.later_value[i * given.seen.later + given.slot] = given.value[i];
}
