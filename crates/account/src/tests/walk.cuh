// Whole walks of accounts and portfolios, for a kernel (twin.cu) and for a program on the processor (host.cpp).
//
// Every step leaves a digest of everything it gave, so that a comparison names the first step that differs.
#pragma once

#include "../portfolio.cuh"

using namespace account;

// FNV-1a over the bits of numbers, eight bytes at a time.
struct Digest {
    u64 value = 0xcbf29ce484222325ull;

    __device__ void take(f64 x) { value = (value ^ (u64)__double_as_longlong(x)) * 0x100000001b3ull; }
    __device__ void take(const Account& account) {
        take(account.equity);
        take(account.peak);
        take(account.quantity);
        take(account.target);
        take(account.action);
        take(account.mark);
        take(account.fx);
        take(account.entry);
        take(account.bars_held);
        take(account.stop);
        take(account.limit);
        take(account.terminated);
        take(account.flows.fee);
        take(account.flows.spread);
        take(account.flows.impact);
        take(account.flows.swap);
        take(account.flows.borrow);
        take(account.flows.funding);
        take(account.flows.dividend);
        take(account.flows.traded);
        take(account.flows.closed);
    }
    __device__ void take(const Fill& fill) {
        take(fill.quantity);
        take(fill.price);
        take(fill.cost);
    }
};

// Now and then those that have ended begin again.
__device__ __forceinline__ bool begins_again(u64 t, f64 terminated) { return t % 64 == 63 && terminated != 0.0; }

// Now and then an episode ends before its account does.
__device__ __forceinline__ bool ends_early(u64 t) { return t % 50 == 49; }

// Account i of n over its own bars. params [n, PARAMS], bars [n, steps + 1, BAR], actions [steps, n, 3],
// state [STATE + FLOWS, n], rewards and digests [steps, n].
template <bool WITH_FLOWS, bool WITH_BRACKETS>
__device__ __forceinline__ void walk_account(const f64* params, const f64* bars, const f64* actions, f64* state,
                                             f64* rewards, u64* digests, u64 n, u64 steps, u64 i) {
    const Params& own = params_at(params, i);
    Account account = load<WITH_FLOWS, WITH_BRACKETS>(state, n, i);
    Bar now = load_bar(bars, i * (steps + 1));
    for (u64 t = 0; t < steps; ++t) {
        const Bar next = load_bar(bars, i * (steps + 1) + t + 1);
        const f64* action = actions + (t * n + i) * 3;
        const Outcome outcome =
            step<WITH_FLOWS, WITH_BRACKETS>(own, account, {action[0], action[1], action[2]}, now, next);
        // A bar without prices leaves the last ones.
        if (next.tradable != 0.0) now = next;
        if (ends_early(t)) close_out<WITH_FLOWS, WITH_BRACKETS>(own, account, now);
        Digest digest;
        digest.take(account);
        digest.take(outcome.equity_open);
        digest.take(outcome.fill);
        digest.take(outcome.exit);
        digest.take((f64)outcome.events);
        rewards[t * n + i] = outcome.reward;
        digests[t * n + i] = digest.value;
        if (begins_again(t, account.terminated)) account = new_account(own);
    }
    store<WITH_FLOWS, WITH_BRACKETS>(state, n, i, account);
}

// What the symbols of one portfolio meet at a step.
struct World {
    const f64* own_params;
    const f64* own_targets;
    const f64* bars;

    __device__ __forceinline__ const Params& params(u64 k) const { return params_at(own_params, k); }
    __device__ __forceinline__ f64 target(u64 k) const { return own_targets[k]; }
    __device__ __forceinline__ Bar now(u64 k) const { return load_bar(bars, 2 * k); }
    __device__ __forceinline__ Bar next(u64 k) const { return load_bar(bars, 2 * k + 1); }
};

// Portfolio i of n. params [n, symbols, PARAMS], bars [steps, symbols, 2, BAR] of now and next, targets
// [steps, n, symbols], common [PORTFOLIO, n], positions [POSITION_FLOWS, symbols, n], rewards and digests [steps, n].
template <bool WITH_FLOWS>
__device__ __forceinline__ void walk_portfolio(const f64* params, const f64* bars, const f64* targets, f64* common,
                                               f64* positions, f64* rewards, u64* digests, u64 n, u64 symbols,
                                               u64 steps, u64 i) {
    Portfolio portfolio = {common[i], common[n + i], common[2 * n + i]};
    const Positions of = positions_of(positions, symbols, n, i);
    for (u64 t = 0; t < steps; ++t) {
        const World world = {params + i * symbols * PARAMS, targets + (t * n + i) * symbols,
                             bars + t * symbols * 2 * BAR};
        u32 events;
        rewards[t * n + i] = step_portfolio<WITH_FLOWS>(world, portfolio, of, events);
        Digest digest;
        digest.take(portfolio.equity);
        digest.take(portfolio.peak);
        digest.take((f64)events);
        for (u64 k = 0; k < symbols; ++k) {
            digest.take(load_position<WITH_FLOWS>(portfolio, of, k));
            digest.take(of.earned(k));
        }
        digests[t * n + i] = digest.value;
        if (begins_again(t, portfolio.terminated)) portfolio = new_portfolio<WITH_FLOWS>(world.params(0), of);
    }
    common[i] = portfolio.equity;
    common[n + i] = portfolio.peak;
    common[2 * n + i] = portfolio.terminated;
}
