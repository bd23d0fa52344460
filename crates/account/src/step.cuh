// One step of one account on a card: the twin of step.rs, logarithm.rs and the structs beside them, bit for bit.
//
// Everything has the names and the order of the Rust side. Arithmetic is spelled with its rounding (`add`, `mul` and so
// on below), so that the compiler fuses nothing on its own and the bits are those of step.rs under any flags. All
// numbers are f64 and truths are 1 or 0, so that every struct is also a row of numbers (layout.rs).
//
// What a kernel does not need is left out by a template argument, without another bit in what remains: `WITH_FLOWS`
// books what was paid by kind, `WITH_BRACKETS` knows stop and limit. Without the latter the action's stop and limit are
// not read, and the account must have none.
//
// Left out: where bars lie and who resets accounts; both are a kernel's own matter.
#pragma once

#include "../../compute/src/cuda/types.cuh"

namespace account {

// Rules and costs (params.rs).
struct Params {
    f64 capital;
    f64 fraction;
    f64 vol_target;
    f64 lots;
    f64 leverage;
    f64 maintenance;
    f64 liquidation;
    f64 shortable;
    f64 owned;
    f64 band;
    f64 band_of_target;
    f64 multiplier;
    f64 lot;
    f64 tick;
    f64 min_notional;
    f64 fee;
    f64 fee_per_unit;
    f64 spread;
    f64 impact;
    f64 volume_cap;
    f64 borrow;
    f64 swap_long;
    f64 swap_short;
};

// A row of the market's table of money (bar.rs).
struct Bar {
    f64 open;
    f64 high;
    f64 low;
    f64 close;
    f64 fx_open;
    f64 fx_close;
    f64 tradable;
    f64 split;
    f64 dividend;
    f64 funding_open;
    f64 funding_inside;
    f64 swap_open;
    f64 swap_inside;
    f64 borrow_open;
    f64 borrow_inside;
    f64 close_out;
    f64 sigma;
    f64 volume;
    f64 half_spread;
    f64 flat_next;
};

// What was paid and received so far (state.rs).
struct Flows {
    f64 fee;
    f64 spread;
    f64 impact;
    f64 swap;
    f64 borrow;
    f64 funding;
    f64 dividend;
    f64 traded;
    f64 closed;
};

// One account that trades one symbol (state.rs).
struct Account {
    f64 equity;
    f64 peak;
    f64 quantity;
    f64 target;
    f64 action;
    f64 mark;
    f64 fx;
    f64 entry;
    f64 bars_held;
    f64 stop;
    f64 limit;
    f64 terminated;
    Flows flows;
};

// Numbers of each; an account has `STATE` and those of its flows.
enum Numbers : u32 { PARAMS = 23, BAR = 20, STATE = 12, FLOWS = 9 };
static_assert(sizeof(Params) == PARAMS * sizeof(f64) && sizeof(Bar) == BAR * sizeof(f64), "rows of numbers");
static_assert(sizeof(Account) == (STATE + FLOWS) * sizeof(f64), "a row of numbers");

// What a policy decides at a close (state.rs).
struct Action {
    f64 target;
    f64 stop;
    f64 limit;
};

// An execution.
struct Fill {
    f64 quantity;
    f64 price;
    f64 cost;
};

// What one step gave; what a kernel does not read is not computed.
struct Outcome {
    f64 reward;
    f64 equity_open;
    Fill fill;
    Fill exit;
    u32 events;
};

// Bits of `Outcome::events`.
enum Event : u32 { MARGIN_CALL = 1, LIQUIDATED = 2, STOPPED = 4, LIMITED = 8, CLOSED_OUT = 16, RUINED = 32 };

// Arithmetic that is rounded once each, from left to right.
__device__ __forceinline__ f64 add(f64 a, f64 b) { return __dadd_rn(a, b); }
__device__ __forceinline__ f64 add(f64 a, f64 b, f64 c) { return add(add(a, b), c); }
__device__ __forceinline__ f64 sub(f64 a, f64 b) { return __dsub_rn(a, b); }
__device__ __forceinline__ f64 sub(f64 a, f64 b, f64 c) { return sub(sub(a, b), c); }
__device__ __forceinline__ f64 mul(f64 a, f64 b) { return __dmul_rn(a, b); }
__device__ __forceinline__ f64 mul(f64 a, f64 b, f64 c) { return mul(mul(a, b), c); }
__device__ __forceinline__ f64 absolute(f64 x) { return x < 0.0 ? -x : x; }
__device__ __forceinline__ f64 smaller(f64 a, f64 b) { return a < b ? a : b; }
__device__ __forceinline__ f64 larger(f64 a, f64 b) { return a > b ? a : b; }
__device__ __forceinline__ f64 infinite() { return __longlong_as_double(0x7ff0000000000000ll); }
__device__ __forceinline__ bool is_finite(f64 x) { return absolute(x) < infinite(); }
// A numerator of zero, as every flat account has, would send its whole warp through the division's slow path.
__device__ __forceinline__ f64 div(f64 a, f64 b) {
    const bool nothing = a == 0.0 && b != 0.0 && is_finite(b);
    const f64 quotient = __ddiv_rn(nothing ? 1.0 : a, b);
    return nothing ? mul(a, b) : quotient;
}

// step.rs and params.rs say what these are.
constexpr f64 RUIN = 0.01, FLOOR = 1e-4, TINY = 1e-9;

// `ln(1 + x)` for x above -1 (logarithm.rs).
__device__ __forceinline__ f64 ln_1p(f64 x) {
    const f64 u = add(1.0, x);
    if (!(u > 0.0)) return u == 0.0 ? -infinite() : __longlong_as_double(0x7ff8000000000000ll);
    if (u == infinite()) return u;
    const i64 bits = __double_as_longlong(u);
    i32 k = (i32)(bits >> 52) - 1023;
    f64 m = __longlong_as_double((bits & 0x000fffffffffffffll) | 0x3ff0000000000000ll);
    if (m > 1.4142135623730951) {
        m = mul(m, 0.5);
        k += 1;
    }
    const f64 e = (f64)k;
    const f64 lost = div(x > 1.0 ? sub(1.0, sub(u, x)) : sub(x, sub(u, 1.0)), u);
    const f64 s = div(sub(m, 1.0), add(m, 1.0));
    const f64 z = mul(s, s);
    f64 series = 1.0 / 25.0;
    series = __fma_rn(series, z, 1.0 / 23.0);
    series = __fma_rn(series, z, 1.0 / 21.0);
    series = __fma_rn(series, z, 1.0 / 19.0);
    series = __fma_rn(series, z, 1.0 / 17.0);
    series = __fma_rn(series, z, 1.0 / 15.0);
    series = __fma_rn(series, z, 1.0 / 13.0);
    series = __fma_rn(series, z, 1.0 / 11.0);
    series = __fma_rn(series, z, 1.0 / 9.0);
    series = __fma_rn(series, z, 1.0 / 7.0);
    series = __fma_rn(series, z, 1.0 / 5.0);
    series = __fma_rn(series, z, 1.0 / 3.0);
    const f64 ln_2_high = __longlong_as_double(0x3fe62e42fee00000ll), ln_2_low = 1.9082149292705877e-10;
    const f64 small = __fma_rn(mul(2.0, s, z), series, __fma_rn(e, ln_2_low, lost));
    return __fma_rn(e, ln_2_high, add(mul(2.0, s), small));
}

// Towards zero to a whole number of lots.
__device__ __forceinline__ f64 round_lots(f64 quantity, f64 lot) {
    if (!(lot > 0.0)) return quantity;
    const f64 lots = mul(floor(add(div(absolute(quantity), lot), TINY)), lot);
    return quantity < 0.0 ? -lots : lots;
}

// Units of an action of 1.
__device__ __forceinline__ f64 full_position(const Params& params, f64 equity, f64 notional, f64 sigma) {
    if (params.lots > 0.0) return params.lots;
    f64 share = params.fraction;
    if (params.vol_target > 0.0) {
        share = sigma > 0.0 ? smaller(div(params.vol_target, sigma), params.leverage) : 0.0;
    }
    return larger(div(mul(share, equity), notional), 0.0);
}

// The target quantity, from what is known at the close of `now`. A portfolio has a margin of its own and gives 0 for
// `maintenance`.
template <bool WITH_BRACKETS>
__device__ __forceinline__ void decide(const Params& params, f64 maintenance, Account& account, const Action& action,
                                       const Bar& now, u32& events) {
    const f64 notional = mul(params.multiplier, now.close, now.fx_close);
    const bool priced = notional > 0.0 && notional < infinite();
    if (now.flat_next != 0.0) {
        account.action = 0.0;
        account.target = 0.0;
    } else if (is_finite(action.target) && priced) {
        const bool anew = WITH_BRACKETS && account.quantity == 0.0 && (action.stop > 0.0 || action.limit > 0.0);
        const f64 wanted = params.shortable == 0.0 && action.target < 0.0 ? 0.0 : action.target;
        // Without a band a repeated action needs no target, and so no division.
        if (!(params.band < 0.0) || wanted != account.action || anew) {
            const f64 full = full_position(params, account.equity, notional, now.sigma);
            const f64 target = round_lots(mul(wanted, full), params.lot);
            bool trades = true;
            if (!(params.band < 0.0)) {
                const f64 band = params.band_of_target != 0.0 ? mul(absolute(target), notional) : account.equity;
                trades = mul(target, account.quantity) <= 0.0 ||
                         mul(absolute(sub(target, account.quantity)), notional) > mul(params.band, band);
            }
            if (trades) {
                account.action = wanted;
                account.target = target;
            }
        }
    }
    // A margin call overrules what was decided.
    if (priced && mul(absolute(account.quantity), notional, maintenance) > account.equity) {
        const f64 carried = larger(div(mul(params.leverage, account.equity), notional), 0.0);
        const f64 most = round_lots(carried, params.lot);
        if (absolute(account.target) > most) {
            events |= MARGIN_CALL;
            account.target = account.target < 0.0 ? -most : most;
        }
    }
}

// Change of equity when `units` move from one price and exchange rate to another.
__device__ __forceinline__ f64 revalue(f64 owned, f64 units, f64 mark, f64 fx, f64 price, f64 new_fx) {
    const f64 moved = mul(units, sub(price, mark), new_fx);
    return owned != 0.0 ? add(moved, mul(units, mark, sub(new_fx, fx))) : moved;
}

// Overnight financing and borrowing of a position of `units · fx · price`.
template <bool WITH_FLOWS>
__device__ __forceinline__ void finance(const Params& params, Account& account, f64 money, f64 price, f64 swap,
                                        f64 borrow) {
    if (swap == 0.0 && borrow == 0.0) return;
    const f64 value = absolute(mul(money, price));
    const bool is_short = account.quantity < 0.0;
    if (swap != 0.0) {
        const f64 paid = mul(value, is_short ? params.swap_short : params.swap_long, swap);
        account.equity = sub(account.equity, paid);
        if (WITH_FLOWS) account.flows.swap = add(account.flows.swap, paid);
    }
    if (borrow != 0.0 && is_short) {
        const f64 paid = mul(value, params.borrow, borrow);
        account.equity = sub(account.equity, paid);
        if (WITH_FLOWS) account.flows.borrow = add(account.flows.borrow, paid);
    }
}

// Up to the open: split, gap, and what falls due to the position held before the fill.
template <bool WITH_FLOWS, bool WITH_BRACKETS>
__device__ __forceinline__ void carry(const Params& params, Account& account, const Bar& next) {
    const bool splits = next.split != 1.0;
    if (account.quantity != 0.0) {
        if (splits) {
            account.quantity = mul(account.quantity, next.split);
            account.mark = div(account.mark, next.split);
            account.entry = div(account.entry, next.split);
            if (WITH_BRACKETS) {
                account.stop = div(account.stop, next.split);
                account.limit = div(account.limit, next.split);
            }
        }
        const f64 units = mul(account.quantity, params.multiplier);
        const f64 change = revalue(params.owned, units, account.mark, account.fx, next.open, next.fx_open);
        account.equity = add(account.equity, change);
        const f64 money = mul(units, next.fx_open);
        if (next.dividend != 0.0) {
            const f64 paid = mul(money, next.dividend);
            account.equity = add(account.equity, paid);
            if (WITH_FLOWS) account.flows.dividend = sub(account.flows.dividend, paid);
        }
        if (next.funding_open != 0.0) {
            const f64 paid = mul(money, next.funding_open);
            account.equity = sub(account.equity, paid);
            if (WITH_FLOWS) account.flows.funding = add(account.flows.funding, paid);
        }
        finance<WITH_FLOWS>(params, account, money, next.open, next.swap_open, next.borrow_open);
    }
    if (splits) account.target = mul(account.target, next.split);
    account.mark = next.open;
    account.fx = next.fx_open;
}

// What a close knows of the bar behind it, as far as a fill is priced by it.
struct Known {
    f64 sigma;
    f64 volume;
    f64 half_spread;
};

__device__ __forceinline__ Known known_at(const Bar& bar) { return {bar.sigma, bar.volume, bar.half_spread}; }

// What a fill of these units at a reference price is priced at.
struct Quote {
    f64 price;
    f64 impact;
    f64 unit_cost;
    f64 notional;
    f64 value;
};

// `side` is 1 for a buyer and -1 for a seller.
__device__ __forceinline__ Quote quote_of(const Params& params, const Known& known, f64 reference, f64 fx, f64 side,
                                          f64 units) {
    f64 impact = 0.0;
    // No impact is 0 without root and division, as `sigma` is not negative and units over volume are finite.
    if (known.volume > 0.0 && (params.impact != 0.0 || !is_finite(known.sigma))) {
        impact = mul(params.impact, known.sigma, __dsqrt_rn(div(units, known.volume)));
    }
    const f64 away = mul(side, add(mul(known.half_spread, params.spread), impact));
    f64 price = larger(mul(reference, add(1.0, away)), 0.0);
    if (reference <= 0.0) {
        price = reference;
    } else if (params.tick > 0.0) {
        // Against the trader: up for a buyer, down for a seller.
        const f64 ticks = floor(add(div(mul(-side, price), params.tick), TINY));
        price = larger(mul(side, -mul(ticks, params.tick)), 0.0);
    }
    const f64 money = mul(params.multiplier, fx);
    const f64 size = absolute(price);
    const f64 unit_cost = add(mul(side, sub(price, reference), money), mul(params.fee, size, money),
                              mul(params.fee_per_unit, fx));
    return {price, impact, unit_cost, mul(size, money), mul(reference, money)};
}

// An order at an open, as far as volume allows it.
struct Order {
    f64 side;
    f64 reduce;
    f64 increase;
    f64 whole;
    f64 left;
    Quote quote;
};

// Whether there is an order, which leads from what is held to what is wanted.
__device__ __forceinline__ bool order_of(const Params& params, const Account& account, const Known& known,
                                         const Bar& next, Order& order) {
    const f64 wanted = sub(account.target, account.quantity);
    if (wanted == 0.0 || !(next.open > 0.0)) return false;
    order.side = wanted > 0.0 ? 1.0 : -1.0;
    const f64 held = absolute(account.quantity), size = absolute(wanted);
    const bool same_side = mul(account.quantity, order.side) >= 0.0;
    order.reduce = same_side ? 0.0 : smaller(size, held);
    order.whole = sub(size, order.reduce);
    const bool capped = params.volume_cap > 0.0 && known.volume > 0.0;
    order.increase = capped ? smaller(order.whole, mul(params.volume_cap, known.volume)) : order.whole;
    order.quote =
        quote_of(params, known, next.open, next.fx_open, order.side, add(order.reduce, order.increase));
    order.left = same_side ? held : 0.0;
    return true;
}

// Books a fill and leaves the position marked at the reference price.
template <bool WITH_FLOWS, bool WITH_BRACKETS>
__device__ __forceinline__ Fill execute(const Params& params, Account& account, const Quote& quote, f64 side, f64 units,
                                        f64 after, f64 reference, f64 fx) {
    const f64 cost = mul(units, quote.unit_cost);
    const f64 before = account.quantity;
    const bool crossed = mul(before, after) < 0.0;
    if (WITH_FLOWS) {
        const f64 money = mul(units, params.multiplier, fx);
        const f64 impact = mul(money, reference, quote.impact);
        const f64 fee =
            add(mul(params.fee, absolute(quote.price), money), mul(params.fee_per_unit, mul(units, fx)));
        account.flows.fee = add(account.flows.fee, fee);
        account.flows.impact = add(account.flows.impact, impact);
        account.flows.spread = add(account.flows.spread, sub(cost, fee, impact));
        account.flows.traded = add(account.flows.traded, mul(units, quote.notional));
        if (crossed || (before != 0.0 && after == 0.0)) account.flows.closed = add(account.flows.closed, 1.0);
    }
    account.equity = sub(account.equity, cost);
    if (after == 0.0) {
        account.entry = 0.0;
    } else if (crossed || before == 0.0) {
        account.entry = quote.price;
    } else if (absolute(after) > absolute(before)) {
        account.entry = div(add(mul(before, account.entry), mul(side, units, quote.price)), after);
    }
    if (before == 0.0 || crossed || after == 0.0) {
        account.bars_held = 0.0;
        if (WITH_BRACKETS) {
            account.stop = 0.0;
            account.limit = 0.0;
        }
    }
    account.quantity = after;
    return {mul(side, units), quote.price, cost};
}

// Fills an order whose increase may be as large as `room`.
template <bool WITH_FLOWS, bool WITH_BRACKETS>
__device__ __forceinline__ Fill fill_order(const Params& params, Account& account, const Order& order, f64 room,
                                           const Bar& next) {
    const bool cut = order.increase > room;
    f64 increase = cut ? room : order.increase;
    f64 after = account.target;
    if (cut || increase < order.whole) {
        const f64 most = larger(round_lots(add(order.left, increase), params.lot), order.left);
        increase = sub(most, order.left);
        after = mul(order.side, most);
    }
    // What volume does not allow waits for the next bar, what margin does not allow is given up.
    if (cut) account.target = after;
    const f64 units = add(order.reduce, increase);
    const bool closes = order.reduce > 0.0 && order.reduce == absolute(account.quantity);
    if (units == 0.0 || (!closes && mul(units, order.quote.notional) < params.min_notional)) return {0.0, 0.0, 0.0};
    return execute<WITH_FLOWS, WITH_BRACKETS>(params, account, order.quote, order.side, units, after, next.open,
                                              next.fx_open);
}

// Fills the order at the open, as far as volume and margin allow.
template <bool WITH_FLOWS, bool WITH_BRACKETS>
__device__ __forceinline__ Fill fill_open(const Params& params, Account& account, const Bar& now, const Bar& next) {
    Order order;
    if (!order_of(params, account, known_at(now), next, order)) return {0.0, 0.0, 0.0};
    const Quote& quote = order.quote;
    const f64 paid = sub(account.equity, mul(quote.unit_cost, order.reduce));
    const f64 free = sub(mul(params.leverage, paid), mul(quote.value, order.left));
    const f64 room = larger(div(free, add(quote.value, mul(params.leverage, quote.unit_cost))), 0.0);
    return fill_order<WITH_FLOWS, WITH_BRACKETS>(params, account, order, room, next);
}

// Sets or renews stop and limit, counted from the open.
__device__ __forceinline__ void bracket(Account& account, const Action& action, f64 open) {
    if (account.quantity == 0.0) return;
    const f64 side = account.quantity > 0.0 ? 1.0 : -1.0;
    if (action.stop > 0.0) account.stop = larger(mul(open, sub(1.0, mul(side, action.stop))), 0.0);
    if (action.limit > 0.0) account.limit = larger(mul(open, add(1.0, mul(side, action.limit))), 0.0);
}

// What falls due inside the bar, to the position held after the open.
template <bool WITH_FLOWS>
__device__ __forceinline__ void hold(const Params& params, Account& account, const Bar& next) {
    if (account.quantity == 0.0) return;
    const f64 money = mul(account.quantity, params.multiplier, next.fx_open);
    if (next.funding_inside != 0.0) {
        const f64 paid = mul(money, next.funding_inside);
        account.equity = sub(account.equity, paid);
        if (WITH_FLOWS) account.flows.funding = add(account.flows.funding, paid);
    }
    finance<WITH_FLOWS>(params, account, money, next.open, next.swap_inside, next.borrow_inside);
}

// Which of stop, limit and liquidation closes the position inside the bar, and at which price; 0 where none does. The
// price first moves against it: what it meets first of stop and liquidation counts, and both before the limit. Equity
// at a price p is `base + money · (p - open)`.
template <bool WITH_BRACKETS>
__device__ __forceinline__ u32 exit_of(const Params& params, const Account& account, const Bar& next, f64 base,
                                       f64 money, f64& price) {
    const bool is_long = account.quantity > 0.0;
    const f64 worst = is_long ? next.low : next.high;
    const f64 needed = mul(params.liquidation, absolute(money));
    u32 why = 0;
    if (add(base, mul(money, sub(worst, next.open))) <= mul(needed, worst)) {
        // Where equity and what is needed meet, but not beyond the open or the worst price.
        const f64 meets = div(sub(mul(money, next.open), base), sub(money, needed));
        price = is_long ? larger(smaller(meets, next.open), next.low) : smaller(larger(meets, next.open), next.high);
        why = LIQUIDATED;
    }
    if (!WITH_BRACKETS) return why;
    if (account.stop > 0.0 && (is_long ? next.low <= account.stop : next.high >= account.stop)) {
        const f64 stop = is_long ? smaller(account.stop, next.open) : larger(account.stop, next.open);
        if (why == 0 || (is_long ? stop >= price : stop <= price)) {
            price = stop;
            why = STOPPED;
        }
    }
    if (why == 0 && account.limit > 0.0 &&
        (is_long ? next.high >= account.limit : next.low <= account.limit)) {
        price = account.limit;
        why = LIMITED;
    }
    return why;
}

// Closes whatever is held at a reference price.
template <bool WITH_FLOWS, bool WITH_BRACKETS>
__device__ __forceinline__ Fill sell_all(const Params& params, Account& account, const Known& known, f64 price,
                                         f64 fx) {
    const f64 side = account.quantity > 0.0 ? -1.0 : 1.0;
    const f64 units = absolute(account.quantity);
    const Quote quote = quote_of(params, known, price, fx, side, units);
    return execute<WITH_FLOWS, WITH_BRACKETS>(params, account, quote, side, units, 0.0, price, fx);
}

// To the close.
__device__ __forceinline__ void mark_close(const Params& params, Account& account, const Bar& next) {
    if (account.quantity != 0.0) {
        const f64 units = mul(account.quantity, params.multiplier);
        const f64 change = revalue(params.owned, units, account.mark, account.fx, next.close, next.fx_close);
        account.equity = add(account.equity, change);
        account.bars_held = add(account.bars_held, 1.0);
    }
    account.mark = next.close;
    account.fx = next.fx_close;
}

// An account that has only its capital.
__device__ __forceinline__ Account new_account(const Params& params) {
    Account account = {};
    account.equity = account.peak = params.capital;
    account.fx = 1.0;
    return account;
}

// Closes the position at a bar's close, at cost; the account must be marked there.
template <bool WITH_FLOWS = true, bool WITH_BRACKETS = true>
__device__ __forceinline__ Fill close_out(const Params& params, Account& account, const Bar& bar) {
    if (account.quantity == 0.0) return {0.0, 0.0, 0.0};
    const Fill fill =
        sell_all<WITH_FLOWS, WITH_BRACKETS>(params, account, known_at(bar), bar.close, bar.fx_close);
    account.target = 0.0;
    account.action = 0.0;
    return fill;
}

// `leave`, `mark` and `close_out` of step.rs. A position that is closed inside the bar is not there at its close, so
// there is at most one sale, and its code stands once.
template <bool WITH_FLOWS, bool WITH_BRACKETS>
__device__ __forceinline__ void finish(const Params& params, Account& account, const Bar& now, const Bar& next,
                                       Outcome& outcome) {
    const f64 ruin = mul(RUIN, params.capital);
    Known known = known_at(next);
    f64 price = next.close;
    u32 why = 0;
    if (account.quantity != 0.0) {
        const f64 units = mul(account.quantity, params.multiplier);
        const f64 moved = revalue(params.owned, units, next.open, account.fx, next.open, next.fx_close);
        const f64 base = add(account.equity, moved), money = mul(units, next.fx_close);
        why = exit_of<WITH_BRACKETS>(params, account, next, base, money, price);
        if (why != 0) {
            known = known_at(now);
            account.equity = add(base, mul(money, sub(price, next.open)));
        }
    }
    const bool left = why != 0;
    if (!left) mark_close(params, account, next);
    bool ruined = account.equity <= ruin;
    if (!left && account.quantity != 0.0 && (ruined || next.close_out != 0.0)) why = CLOSED_OUT;
    if (why != 0) {
        outcome.events |= why;
        outcome.exit = sell_all<WITH_FLOWS, WITH_BRACKETS>(params, account, known, price, next.fx_close);
        // Who was stopped out stays out until the action changes.
        account.target = 0.0;
        if (why == LIQUIDATED || why == CLOSED_OUT) account.action = 0.0;
    }
    if (left) {
        account.mark = next.close;
        account.fx = next.fx_close;
        ruined = account.equity <= ruin;
    }
    if (ruined || next.close_out != 0.0) {
        account.target = 0.0;
        account.action = 0.0;
    }
    // What closing costs may be the end, too.
    if (ruined || account.equity <= ruin) {
        outcome.events |= RUINED;
        account.terminated = 1.0;
    }
    account.peak = larger(account.peak, account.equity);
}

// Takes an account from the close of `now` to the close of `next`.
template <bool WITH_FLOWS = true, bool WITH_BRACKETS = true>
__device__ __forceinline__ Outcome step(const Params& params, Account& account, const Action& action, const Bar& now,
                                        const Bar& next) {
    Outcome outcome = {0.0, account.equity, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}, 0};
    if (account.terminated != 0.0) return outcome;
    const f64 before = account.equity;
    decide<WITH_BRACKETS>(params, params.maintenance, account, action, now, outcome.events);
    if (next.tradable != 0.0) {
        carry<WITH_FLOWS, WITH_BRACKETS>(params, account, next);
        outcome.equity_open = account.equity;
        outcome.fill = fill_open<WITH_FLOWS, WITH_BRACKETS>(params, account, now, next);
        if (WITH_BRACKETS) bracket(account, action, next.open);
        hold<WITH_FLOWS>(params, account, next);
        finish<WITH_FLOWS, WITH_BRACKETS>(params, account, now, next, outcome);
    }
    const f64 counted = larger(account.equity, mul(FLOOR, params.capital));
    outcome.reward = ln_1p(div(sub(counted, before), before));
    return outcome;
}

// Row i of parameters `[rows, PARAMS]`.
__device__ __forceinline__ const Params& params_at(const f64* params, u64 i) {
    return reinterpret_cast<const Params*>(params)[i];
}

// A row of bars `[rows, BAR]` that no thread writes while the kernel runs and that begin on a border of 16 bytes.
__device__ __forceinline__ Bar load_bar(const f64* bars, u64 row) {
    const double2* from = reinterpret_cast<const double2*>(bars) + row * (BAR / 2);
    const double2 a = __ldg(from), b = __ldg(from + 1), c = __ldg(from + 2), d = __ldg(from + 3);
    const double2 e = __ldg(from + 4), f = __ldg(from + 5), g = __ldg(from + 6), h = __ldg(from + 7);
    const double2 i = __ldg(from + 8), j = __ldg(from + 9);
    return {a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y, e.x, e.y, f.x, f.y, g.x, g.y, h.x, h.y, i.x, i.y, j.x, j.y};
}

// Account i of `[STATE + FLOWS, n]` numbers, or of `[STATE, n]` without flows: neighbours lie side by side.
template <bool WITH_FLOWS = true, bool WITH_BRACKETS = true>
__device__ __forceinline__ Account load(const f64* state, u64 n, u64 i) {
    Account account = {};
    const f64* at = state + i;
    account.equity = at[0 * n];
    account.peak = at[1 * n];
    account.quantity = at[2 * n];
    account.target = at[3 * n];
    account.action = at[4 * n];
    account.mark = at[5 * n];
    account.fx = at[6 * n];
    account.entry = at[7 * n];
    account.bars_held = at[8 * n];
    if (WITH_BRACKETS) {
        account.stop = at[9 * n];
        account.limit = at[10 * n];
    }
    account.terminated = at[11 * n];
    if (WITH_FLOWS) {
        account.flows.fee = at[12 * n];
        account.flows.spread = at[13 * n];
        account.flows.impact = at[14 * n];
        account.flows.swap = at[15 * n];
        account.flows.borrow = at[16 * n];
        account.flows.funding = at[17 * n];
        account.flows.dividend = at[18 * n];
        account.flows.traded = at[19 * n];
        account.flows.closed = at[20 * n];
    }
    return account;
}

// The way back of `load`; what is left out stays as it was there.
template <bool WITH_FLOWS = true, bool WITH_BRACKETS = true>
__device__ __forceinline__ void store(f64* state, u64 n, u64 i, const Account& account) {
    f64* at = state + i;
    at[0 * n] = account.equity;
    at[1 * n] = account.peak;
    at[2 * n] = account.quantity;
    at[3 * n] = account.target;
    at[4 * n] = account.action;
    at[5 * n] = account.mark;
    at[6 * n] = account.fx;
    at[7 * n] = account.entry;
    at[8 * n] = account.bars_held;
    if (WITH_BRACKETS) {
        at[9 * n] = account.stop;
        at[10 * n] = account.limit;
    }
    at[11 * n] = account.terminated;
    if (WITH_FLOWS) {
        at[12 * n] = account.flows.fee;
        at[13 * n] = account.flows.spread;
        at[14 * n] = account.flows.impact;
        at[15 * n] = account.flows.swap;
        at[16 * n] = account.flows.borrow;
        at[17 * n] = account.flows.funding;
        at[18 * n] = account.flows.dividend;
        at[19 * n] = account.flows.traded;
        at[20 * n] = account.flows.closed;
    }
}

}  // namespace account
