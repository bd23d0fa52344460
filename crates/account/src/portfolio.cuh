// One balance and one margin over several symbols on a card: the twin of portfolio.rs, bit for bit.
//
// One thread walks a portfolio's symbols in their order, because every symbol changes the common equity. The passes of
// portfolio.rs that only look at one symbol are joined: deciding with the sum of notionals, reducing with the search
// for increases, marking with the sum at the close.
//
// Left out: the list of fills, and stops and limits, which a portfolio does not have.
#pragma once

#include "step.cuh"

namespace account {

// What all symbols have in common.
struct Portfolio {
    f64 equity;
    f64 peak;
    f64 terminated;
};

// Numbers of a portfolio, and of each of its positions without and with flows.
enum PortfolioNumbers : u32 { PORTFOLIO = 3, POSITION = 8, POSITION_FLOWS = POSITION + FLOWS };

// The positions of one of n portfolios, in `[POSITION or POSITION_FLOWS, symbols, n]` numbers: quantity, target,
// action, mark, fx, entry, bars_held, earned, then flows.
struct Positions {
    f64* first;
    u64 symbols;
    u64 n;

    __device__ __forceinline__ f64& number(u32 field, u64 k) const { return first[(field * symbols + k) * n]; }
    __device__ __forceinline__ f64& earned(u64 k) const { return number(7, k); }
};

// The positions of portfolio i.
__device__ __forceinline__ Positions positions_of(f64* numbers, u64 symbols, u64 n, u64 i) {
    return {numbers + i, symbols, n};
}

// A symbol's position as an account that has the common equity.
template <bool WITH_FLOWS = true>
__device__ __forceinline__ Account load_position(const Portfolio& portfolio, const Positions& of, u64 k) {
    Account account = {};
    account.equity = portfolio.equity;
    account.peak = portfolio.peak;
    account.terminated = portfolio.terminated;
    account.quantity = of.number(0, k);
    account.target = of.number(1, k);
    account.action = of.number(2, k);
    account.mark = of.number(3, k);
    account.fx = of.number(4, k);
    account.entry = of.number(5, k);
    account.bars_held = of.number(6, k);
    if (WITH_FLOWS) {
        account.flows.fee = of.number(8, k);
        account.flows.spread = of.number(9, k);
        account.flows.impact = of.number(10, k);
        account.flows.swap = of.number(11, k);
        account.flows.borrow = of.number(12, k);
        account.flows.funding = of.number(13, k);
        account.flows.dividend = of.number(14, k);
        account.flows.traded = of.number(15, k);
        account.flows.closed = of.number(16, k);
    }
    return account;
}

// Puts a position back, and books what it changed in the common equity.
template <bool WITH_FLOWS = true>
__device__ __forceinline__ void store_position(Portfolio& portfolio, const Positions& of, u64 k,
                                               const Account& account) {
    of.earned(k) = add(of.earned(k), sub(account.equity, portfolio.equity));
    portfolio.equity = account.equity;
    of.number(0, k) = account.quantity;
    of.number(1, k) = account.target;
    of.number(2, k) = account.action;
    of.number(3, k) = account.mark;
    of.number(4, k) = account.fx;
    of.number(5, k) = account.entry;
    of.number(6, k) = account.bars_held;
    if (WITH_FLOWS) {
        of.number(8, k) = account.flows.fee;
        of.number(9, k) = account.flows.spread;
        of.number(10, k) = account.flows.impact;
        of.number(11, k) = account.flows.swap;
        of.number(12, k) = account.flows.borrow;
        of.number(13, k) = account.flows.funding;
        of.number(14, k) = account.flows.dividend;
        of.number(15, k) = account.flows.traded;
        of.number(16, k) = account.flows.closed;
    }
}

// A portfolio that has only its capital.
template <bool WITH_FLOWS = true>
__device__ __forceinline__ Portfolio new_portfolio(const Params& params, const Positions& of) {
    for (u64 k = 0; k < of.symbols; ++k) {
        const u32 count = WITH_FLOWS ? POSITION_FLOWS : POSITION;
        for (u32 field = 0; field < count; ++field) of.number(field, k) = 0.0;
        of.number(4, k) = 1.0;
    }
    return {params.capital, params.capital, 0.0};
}

// Notional of a position at its mark.
__device__ __forceinline__ f64 gross_of(const Params& params, const Account& position) {
    return absolute(mul(mul(position.quantity, params.multiplier, position.mark), position.fx));
}

// The part of an order that brings the position nearer to zero; whether there was one.
template <bool WITH_FLOWS>
__device__ __forceinline__ bool reduce(const Params& params, Account& position, const Known& known, const Bar& next) {
    const f64 wanted = position.target;
    const bool crosses = mul(wanted, position.quantity) < 0.0;
    if (position.quantity == 0.0 || (!crosses && absolute(wanted) >= absolute(position.quantity))) return false;
    position.target = crosses ? 0.0 : wanted;
    Order order;
    if (order_of(params, position, known, next, order)) {
        fill_order<WITH_FLOWS, false>(params, position, order, 0.0, next);
    }
    position.target = wanted;
    return true;
}

// Takes a portfolio over one moment of the clock. `world` says for each symbol k, as plain functions:
// `params(k)` (all share capital and leverage), `target(k)` (a weight decided at the close before; not finite: as
// before), and the bars `now(k)` and `next(k)`; a symbol without a new bar has one that is not tradable.
template <bool WITH_FLOWS = true, typename World>
__device__ __forceinline__ f64 step_portfolio(const World& world, Portfolio& portfolio, const Positions& of,
                                              u32& events) {
    events = 0;
    if (portfolio.terminated != 0.0 || of.symbols == 0) return 0.0;
    const f64 before = portfolio.equity;
    const f64 leverage = world.params(0).leverage, capital = world.params(0).capital;
    f64 gross = 0.0;
    for (u64 k = 0; k < of.symbols; ++k) {
        const Params& params = world.params(k);
        Account position = load_position<false>(portfolio, of, k);
        gross = add(gross, gross_of(params, position));
        // Margin is that of all together, below.
        u32 ignored = 0;
        decide<false>(params, 0.0, position, {world.target(k), 0.0, 0.0}, world.now(k), ignored);
        of.number(1, k) = position.target;
        of.number(2, k) = position.action;
    }
    // All targets are cut to what leverage allows, where equity no longer carries what is held.
    if (!(mul(gross, world.params(0).maintenance) <= portfolio.equity)) {
        const f64 most = larger(div(mul(leverage, portfolio.equity), gross), 0.0);
        for (u64 k = 0; k < of.symbols; ++k) {
            const f64 target = of.number(1, k), limit = mul(absolute(of.number(0, k)), most);
            if (absolute(target) > limit) {
                events |= MARGIN_CALL;
                of.number(1, k) = target < 0.0 ? -limit : limit;
            }
        }
    }
    for (u64 k = 0; k < of.symbols; ++k) {
        const Bar next = world.next(k);
        if (next.tradable == 0.0) continue;
        Account position = load_position<WITH_FLOWS>(portfolio, of, k);
        carry<WITH_FLOWS, false>(world.params(k), position, next);
        store_position<WITH_FLOWS>(portfolio, of, k, position);
    }
    // What brings positions nearer to zero fills first; then it is known what increases need and what is free.
    f64 needed = 0.0;
    gross = 0.0;
    for (u64 k = 0; k < of.symbols; ++k) {
        const Params& params = world.params(k);
        const Bar next = world.next(k);
        Account position = load_position<WITH_FLOWS>(portfolio, of, k);
        if (next.tradable != 0.0) {
            const Known known = known_at(world.now(k));
            if (reduce<WITH_FLOWS>(params, position, known, next)) {
                store_position<WITH_FLOWS>(portfolio, of, k, position);
            }
            Order order;
            if (order_of(params, position, known, next, order) && order.increase > 0.0 && order.reduce == 0.0) {
                const f64 each = add(order.quote.value, mul(leverage, order.quote.unit_cost));
                needed = add(needed, mul(order.increase, each));
            }
        }
        gross = add(gross, gross_of(params, position));
    }
    const f64 free = larger(sub(mul(leverage, portfolio.equity), gross), 0.0);
    const f64 share = needed > free ? div(free, needed) : 1.0;
    for (u64 k = 0; k < of.symbols; ++k) {
        if (of.number(0, k) == of.number(1, k)) continue;
        const Params& params = world.params(k);
        const Bar next = world.next(k);
        if (next.tradable == 0.0) continue;
        Account position = load_position<WITH_FLOWS>(portfolio, of, k);
        Order order;
        if (order_of(params, position, known_at(world.now(k)), next, order) && order.increase > 0.0 &&
            order.reduce == 0.0) {
            const f64 room = mul(order.increase, smaller(share, 1.0));
            fill_order<WITH_FLOWS, false>(params, position, order, room, next);
            store_position<WITH_FLOWS>(portfolio, of, k, position);
        }
    }
    bool holds = false, closes = false;
    gross = 0.0;
    for (u64 k = 0; k < of.symbols; ++k) {
        const Params& params = world.params(k);
        const Bar next = world.next(k);
        Account position = load_position<WITH_FLOWS>(portfolio, of, k);
        if (next.tradable != 0.0) {
            hold<WITH_FLOWS>(params, position, next);
            mark_close(params, position, next);
            store_position<WITH_FLOWS>(portfolio, of, k, position);
            closes |= next.close_out != 0.0;
        }
        holds |= position.quantity != 0.0;
        gross = add(gross, gross_of(params, position));
    }
    const f64 ruin = mul(RUIN, capital);
    const bool ruined = portfolio.equity <= ruin;
    const bool broke = portfolio.equity <= mul(world.params(0).liquidation, gross);
    if (ruined) {
        events |= RUINED;
        portfolio.terminated = 1.0;
    }
    if (broke && holds) events |= LIQUIDATED;
    if (ruined || broke || closes) {
        holds = false;
        for (u64 k = 0; k < of.symbols; ++k) {
            const Bar next = world.next(k);
            const bool goes = next.tradable != 0.0;
            Account position = load_position<WITH_FLOWS>(portfolio, of, k);
            if (ruined || broke || (goes && next.close_out != 0.0)) {
                if (position.quantity != 0.0) {
                    events |= CLOSED_OUT;
                    const Known known = goes ? known_at(next) : known_at(world.now(k));
                    sell_all<WITH_FLOWS, false>(world.params(k), position, known, position.mark, position.fx);
                }
                position.target = 0.0;
                position.action = 0.0;
                store_position<WITH_FLOWS>(portfolio, of, k, position);
            }
            holds |= position.quantity != 0.0;
        }
    }
    // What closing costs may be the end, too.
    if (!ruined && !holds && portfolio.equity <= ruin) {
        events |= RUINED;
        portfolio.terminated = 1.0;
    }
    portfolio.peak = larger(portfolio.peak, portfolio.equity);
    return ln_1p(div(sub(larger(portfolio.equity, mul(FLOOR, capital)), before), before));
}

}  // namespace account
