// Policies that act on a card: what their members are, where their accounts stand, and one step of an account. The
// kernels are `ppo.cu`, `ppo_small.cu`, `ppo_warp.cu` and `ppo_wide.cu`.
//
// P = members, N = accounts of a member, T = steps of a rollout, K = rows of an account whose value is needed behind
// it.
#pragma once

#include "../../../market/src/episode.cuh"
#include "ppo.cuh"

// What each member goes by, [P].
struct Members {
    View<const u32> id;
    View<const u32> fold;
    View<const u32> unit;          // updates that are done
    View<const u64> seed;          // of its episodes
    View<const f32> gamma;
    View<const f32> lambda;
    View<const f32> clip;
    View<const f32> clip_value;    // negative: none
    View<const f32> value_weight;
    View<const f32> target_kl;     // negative: none
    View<const f32> entropy_weight;
    View<const f32> reward_weight;
    View<const u32> reward;
    View<const u32> normalise;
    u64 draws;                     // the seed of actions and of the order of rows
    u32 actions;
    u32 outputs;
    u32 episode;                   // steps of one
    u32 accounts;                  // N
    u32 steps;                     // T
    u32 epochs;
    u32 batch;                     // rows of a minibatch
};

// Accounts between two steps.
struct Standing {
    View<f64> state;    // [account::STATE, P, N]
    View<f64> memory;   // [2, P, N] what rewards remember
    View<f64> grown;    // [P, N] growth of equity in this rollout
    View<u32> place;    // [4, P, N] row, end, symbol, episodes
    View<f32> observed; // [P, N, OBSERVED]
};

// What was seen, [P, T, N].
struct Rollout {
    View<u32> rows;
    View<f32> observed; // [P, T, N, OBSERVED]
    View<u8> legal;
    View<u8> ended;
    View<f32> action;
    View<f32> log_probability;
    View<f32> value;
    View<f32> reward;
    View<f32> advantage;
    View<u32> order;         // [P, epochs, T × N] places of an epoch's rows, minibatch behind minibatch
    View<u32> cuts;          // [P, N] episodes that were cut off
    View<u32> later_rows;    // [P, N, K] the row behind the last step, then those where episodes were cut off
    View<f32> later_observed; // [P, N, K, OBSERVED]
    View<f32> later_value;   // [P, N, K]
    u32 later;               // K
};

struct Trader {
    account::Account account;
    Place place;
    f64 memory[2];
    f64 grown;
    u32 cuts;
    f32 observed[OBSERVED];
};

__device__ __forceinline__ Trader load_trader(const Standing& at, u64 i, u64 all) {
    Trader trader;
    trader.account = account::load<false, false>(at.state.data, all, i);
    trader.place = {at.place[i], at.place[all + i], at.place[2 * all + i], at.place[3 * all + i]};
    trader.memory[0] = at.memory[i], trader.memory[1] = at.memory[all + i];
    trader.grown = 0.0;
    trader.cuts = 0;
#pragma unroll
    for (u32 o = 0; o < OBSERVED; o += 4) {
        const float4 v = *reinterpret_cast<const float4*>(&at.observed[i * OBSERVED + o]);
        trader.observed[o] = v.x, trader.observed[o + 1] = v.y, trader.observed[o + 2] = v.z, trader.observed[o + 3] = v.w;
    }
    return trader;
}

__device__ __forceinline__ void put_observed(f32* to, const f32 (&observed)[OBSERVED]) {
#pragma unroll
    for (u32 o = 0; o < OBSERVED; o += 4)
        *reinterpret_cast<float4*>(to + o) = make_float4(observed[o], observed[o + 1], observed[o + 2], observed[o + 3]);
}

__device__ __forceinline__ void store_trader(const Standing& at, u64 i, u64 all, const Trader& trader) {
    account::store<false, false>(at.state.data, all, i, trader.account);
    at.place[i] = trader.place.row, at.place[all + i] = trader.place.end;
    at.place[2 * all + i] = trader.place.symbol, at.place[3 * all + i] = trader.place.episode;
    at.memory[i] = trader.memory[0], at.memory[all + i] = trader.memory[1];
    at.grown[i] = trader.grown;
    put_observed(&at.observed[i * OBSERVED], trader.observed);
}

// What a member's accounts go by in a rollout.
struct ActTerms {
    u64 draws, seed;
    u32 id, fold, first, actions, reward, episode;
    f32 reward_weight;

    __device__ __forceinline__ ActTerms(const Members& members, u32 p)
        : draws(members.draws), seed(members.seed[p]), id(members.id[p]), fold(members.fold[p]), first(members.unit[p] * members.steps),
          actions(members.actions), reward(members.reward[p]), episode(members.episode), reward_weight(members.reward_weight[p]) {}
};

// What is known of a step before the net has spoken.
struct StepAhead {
    account::Bar now, next;
    u32 legal;
    uint4 bits;
};

__device__ __forceinline__ StepAhead look_ahead(const EpisodeTable& table, const ActTerms& terms, u32 n, u32 t, const Trader& trader) {
    StepAhead ahead;
    ahead.now = bar_at(table, trader.place.row);
    ahead.next = bar_at(table, trader.place.row + 1);
    ahead.legal = legal_sides(params_of(table, trader.place.symbol), ahead.now);
    ahead.bits = philox(terms.draws, make_uint4(n, terms.first + t, STREAM_ACTION, terms.id));
    return ahead;
}

// What a step was, beside where it left the account.
struct Lived {
    f32 reward;
    u32 ended;
    u32 row;             // behind the step, before another episode began
    f32 shown[OBSERVED]; // and what was shown there
};

// One step of a member's account `n` towards a target: it lives through the next bar, and starts another episode where
// its own is over. Nothing is written but the trader.
__device__ __forceinline__ Lived live(const EpisodeTable& table, const ActTerms& terms, u32 n, const StepAhead& ahead, f64 target,
                                      Trader& trader) {
    const account::Params& params = params_of(table, trader.place.symbol);
    const account::Outcome stepped = account::step<false, false>(params, trader.account, {target, 0.0, 0.0}, ahead.now, ahead.next);
    Lived lived;
    trader.grown = __dadd_rn(trader.grown, stepped.reward);
    lived.reward = __double2float_rn(reward_of(terms.reward, terms.reward_weight, trader.memory[0], trader.memory[1], stepped.reward));
    lived.row = ++trader.place.row;
    const bool ruined = (stepped.events & account::RUINED) != 0;
    const bool cut = !ruined && lived.row + 1 >= trader.place.end;
    observe(table, params, ahead.next, trader.account, lived.row, trader.observed);
#pragma unroll
    for (u32 o = 0; o < OBSERVED; o++) lived.shown[o] = trader.observed[o];
    lived.ended = ruined ? TERMINATED : cut ? TRUNCATED : NOT_ENDED;
    if (!ruined && !cut) return lived;
    if (cut) trader.cuts++;
    trader.memory[0] = 0.0, trader.memory[1] = 0.0;
    begin_episode(table, terms.fold, terms.episode, terms.seed, n, trader.place, trader.account);
    observe(table, params_of(table, trader.place.symbol), bar_at(table, trader.place.row), trader.account, trader.place.row,
            trader.observed);
    return lived;
}

// What is seen before a step, at its place in the rollout.
__device__ __forceinline__ void record_view(const Rollout& seen, u64 at, u32 legal, const Trader& trader) {
    // All arrays of a rollout have this length.
    if (at >= seen.rows.len) __trap();
    seen.rows.data[at] = trader.place.row;
    put_observed(seen.observed.data + at * OBSERVED, trader.observed);
    seen.legal.data[at] = (u8)legal;
}

// What was drawn in it.
__device__ __forceinline__ void record_draw(const Rollout& seen, u64 at, const Sampled& drawn) {
    seen.action.data[at] = drawn.action;
    seen.log_probability.data[at] = drawn.log_probability;
}

// What came of it. `cuts` are the account's so far.
__device__ __forceinline__ void record_end(const Rollout& seen, u64 account, u64 at, const Lived& lived, u32 cuts) {
    seen.reward.data[at] = lived.reward;
    seen.ended.data[at] = (u8)lived.ended;
    if (lived.ended != TRUNCATED) return;
    const u64 later = account * seen.later + cuts;
    seen.later_rows[later] = lived.row;
    put_observed(&seen.later_observed[later * OBSERVED], lived.shown);
}

// One step of a member's account `n` at step `t` of the rollout: it acts on the outputs `z`. `at` is the step's place
// in the rollout.
__device__ __forceinline__ void act(const EpisodeTable& table, const ActTerms& terms, const Rollout& seen, u64 account, u64 at, u32 n,
                                    const StepAhead& ahead, const f32 (&z)[3], Trader& trader) {
    const Sampled drawn = sample_action(terms.actions, z, ahead.legal, ahead.bits);
    record_view(seen, at, ahead.legal, trader);
    record_draw(seen, at, drawn);
    const Lived lived = live(table, terms, n, ahead, drawn.target, trader);
    record_end(seen, account, at, lived, trader.cuts);
}

// Behind the last step: the row that its value is needed of, also in places that no cut episode took.
__device__ __forceinline__ void put_later(const Members& members, const Rollout& seen, u32 p, u32 n, const Trader& trader) {
    const u64 first = ((u64)p * members.accounts + n) * seen.later;
    for (u32 k = 0; k < seen.later; k++) {
        if (k > 0 && k <= trader.cuts) continue;
        seen.later_rows[first + k] = trader.place.row;
        put_observed(&seen.later_observed[(first + k) * OBSERVED], trader.observed);
    }
    seen.cuts[(u64)p * members.accounts + n] = trader.cuts;
}

// Validation: accounts that walk pieces of the span side by side, taking what the policy prefers.
struct Walkers {
    View<f64> state;     // [account::STATE, P, M]
    View<u32> place;     // [4, P, M] row, end, symbol, whether it has arrived
    View<f32> observed;  // [P, M, OBSERVED]
    View<f64> equity;    // [P, M] at the end
    u32 pieces;          // M
};

struct Walker {
    account::Account account;
    Place place; // `episode` is 1 once it has arrived
    f32 observed[OBSERVED];
    f64 equity;
};

__device__ __forceinline__ Walker load_walker(const Walkers& at, u64 i, u64 all) {
    Walker walker;
    walker.account = account::load<false, false>(at.state.data, all, i);
    walker.place = {at.place[i], at.place[all + i], at.place[2 * all + i], at.place[3 * all + i]};
    walker.equity = at.equity[i];
#pragma unroll
    for (u32 o = 0; o < OBSERVED; o++) walker.observed[o] = at.observed[i * OBSERVED + o];
    return walker;
}

__device__ __forceinline__ void store_walker(const Walkers& at, u64 i, u64 all, const Walker& walker) {
    account::store<false, false>(at.state.data, all, i, walker.account);
    at.place[i] = walker.place.row, at.place[3 * all + i] = walker.place.episode;
    at.equity[i] = walker.equity;
    put_observed(&at.observed[i * OBSERVED], walker.observed);
}

__device__ __forceinline__ void walk(const EpisodeTable& table, u32 actions, const f32 (&z)[3], Walker& walker) {
    if (walker.place.episode) return;
    const account::Params& params = params_of(table, walker.place.symbol);
    const u32 row = walker.place.row;
    const account::Bar now = bar_at(table, row);
    const account::Bar next = bar_at(table, row + 1);
    // The last decision closes.
    const bool closes = row + 2 >= walker.place.end;
    const f64 target = closes ? 0.0 : preferred_target(actions, z, legal_sides(params, now));
    account::step<false, false>(params, walker.account, {target, 0.0, 0.0}, now, next);
    if (closes) {
        walker.equity = walker.account.equity;
        walker.place.episode = 1;
    } else {
        walker.place.row = row + 1;
        observe(table, params, next, walker.account, row + 1, walker.observed);
    }
}
