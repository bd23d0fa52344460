//! The step over lanes: several accounts at once, the same bits as [`crate::step()`].
//!
//! [`Lane`] is a handful of numbers that every operation treats alike; [`advance`] is the step written over it, with
//! masks where the reference has branches. A part that no lane needs (fills, exits, flows) is jumped over.
//!
//! Compiled for AVX-512, for AVX2, and for everything else; which one runs is decided when it is called.

use crate::batch::{GROUP, Group, Row};
use crate::logarithm::{LN_2_HIGH, LN_2_LOW, SERIES, SQRT_2};
use crate::step::{FLOOR, TINY};
use crate::{Bar, Event, Params};

/// Takes the accounts of a group one bar further, on the widest instructions there are. Where rewards are wanted they
/// are growth until [`take_logarithms`] was called for all groups: its chains of operations wait less for each other.
pub(crate) fn advance(group: &mut Group, row: &Row) {
    #[cfg(target_arch = "x86_64")]
    {
        #[expect(unsafe_code, reason = "the features were detected")]
        match wide::level() {
            2 => return unsafe { wide::advance_avx512(group, row) },
            1 => return unsafe { wide::advance_avx2(group, row) },
            _ => {}
        }
    }
    for at in 0..GROUP {
        advance_lanes::<f64>(group, row, at);
    }
}

/// Makes rewards of what the accounts of groups have grown by.
pub(crate) fn take_logarithms(groups: &mut [Group]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[expect(unsafe_code, reason = "the features were detected")]
        match wide::level() {
            2 => return unsafe { wide::take_logarithms_avx512(groups) },
            1 => return unsafe { wide::take_logarithms_avx2(groups) },
            _ => {}
        }
    }
    logarithms::<f64>(groups, &[0, 1, 2, 3, 4, 5, 6, 7]);
}

/// The same on lanes that begin at some places.
#[inline(always)]
fn logarithms<L: Lane>(groups: &mut [Group], places: &[usize]) {
    for group in groups {
        for at in places {
            ln_1p(L::load(&group.reward, *at)).store(&mut group.reward, *at);
        }
    }
}

/// Puts the bars `rows` and those behind them into the lanes of a row.
///
/// # Panics
///
/// If a row is the last.
pub(crate) fn put_bars(row: &mut Row, bars: &[Bar], rows: [u32; GROUP]) {
    #[cfg(target_arch = "x86_64")]
    if wide::level() == 2 {
        #[expect(unsafe_code, reason = "the features were detected")]
        return unsafe { wide::put_bars(row, bars, rows) };
    }
    for (lane, now) in rows.into_iter().enumerate() {
        row.put(lane, &bars[now as usize], &bars[now as usize + 1]);
    }
}

/// A few f64 side by side.
pub(crate) trait Lane: Copy {
    /// A truth for each.
    type Mask: Copy;

    fn load(from: &[f64; GROUP], at: usize) -> Self;
    fn store(self, to: &mut [f64; GROUP], at: usize);
    fn splat(x: f64) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn fma(self, by: Self, plus: Self) -> Self;
    fn sqrt(self) -> Self;
    fn floor(self) -> Self;
    fn lt(self, other: Self) -> Self::Mask;
    fn le(self, other: Self) -> Self::Mask;
    fn ne(self, other: Self) -> Self::Mask; // also where one is NaN
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    fn and_not(a: Self::Mask, b: Self::Mask) -> Self::Mask; // a and not b
    fn any(mask: Self::Mask) -> bool;
    /// Exponent as a number, and mantissa in [1, 2), of numbers above 0.
    fn exponent(self) -> (Self, Self);
}

#[inline(always)]
fn gt<L: Lane>(a: L, b: L) -> L::Mask {
    b.lt(a)
}

#[inline(always)]
fn ge<L: Lane>(a: L, b: L) -> L::Mask {
    b.le(a)
}

#[inline(always)]
fn zero<L: Lane>() -> L {
    L::splat(0.0)
}

#[inline(always)]
fn smaller<L: Lane>(a: L, b: L) -> L {
    L::select(a.lt(b), a, b)
}

#[inline(always)]
fn larger<L: Lane>(a: L, b: L) -> L {
    L::select(gt(a, b), a, b)
}

#[inline(always)]
fn negate<L: Lane>(a: L) -> L {
    a.mul(L::splat(-1.0))
}

#[inline(always)]
fn absolute<L: Lane>(a: L) -> L {
    L::select(a.lt(zero()), negate(a), a)
}

#[inline(always)]
fn round_lots<L: Lane>(quantity: L, lot: L) -> L {
    let whole = gt(lot, zero());
    if !L::any(whole) {
        return quantity;
    }
    let lots = absolute(quantity).div(lot).add(L::splat(TINY)).floor().mul(lot);
    let lots = L::select(quantity.lt(zero()), negate(lots), lots);
    L::select(whole, lots, quantity)
}

/// A field of the group that is loaded, changed and stored.
macro_rules! load {
    ($lanes:ty, $at:expr, $from:expr; $($name:ident),*) => {
        $(let $name = <$lanes as Lane>::load(&$from.$name, $at);)*
    };
}

macro_rules! store {
    ($at:expr, $to:expr; $($name:ident),*) => {
        $($name.store(&mut $to.$name, $at);)*
    };
}

/// What a fill is priced at, as in the reference.
struct Quote<L> {
    price: L,
    impact: L,
    unit_cost: L,
    notional: L,
    value: L,
}

#[inline(always)]
fn quote<L: Lane>(group: &Group, row: &Row, at: usize, reference: L, fx: L, side: L, units: L) -> Quote<L> {
    load!(L, at, row; sigma, volume, half_spread);
    load!(L, at, group.params; impact_rate, spread_scale, tick, multiplier, fee_rate, fee_per_unit);
    let mut impact = zero();
    let counted = gt(volume, zero());
    if L::any(counted) {
        impact = L::select(counted, impact_rate.mul(sigma).mul(units.div(volume).sqrt()), impact);
    }
    let moved = reference.mul(L::splat(1.0).add(side.mul(half_spread.mul(spread_scale).add(impact))));
    let below = reference.le(zero());
    let mut price = L::select(below, reference, larger(moved, zero()));
    let ticks = L::and_not(gt(tick, zero()), below);
    if L::any(ticks) {
        let steps = negate(side).mul(price).div(tick).add(L::splat(TINY)).floor().mul(tick);
        price = L::select(ticks, larger(side.mul(negate(steps)), zero()), price);
    }
    let money = multiplier.mul(fx);
    let size = absolute(price);
    let unit_cost =
        side.mul(price.sub(reference)).mul(money).add(fee_rate.mul(size).mul(money)).add(fee_per_unit.mul(fx));
    Quote { price, impact, unit_cost, notional: size.mul(money), value: reference.mul(money) }
}

/// Books fills of the lanes in `mask`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "what the reference's function takes, and where the lanes lie")]
fn execute<L: Lane>(
    group: &mut Group,
    at: usize,
    mask: L::Mask,
    quote: &Quote<L>,
    side: L,
    units: L,
    after: L,
    reference: L,
    fx: L,
) {
    load!(L, at, group.params; multiplier, fee_rate, fee_per_unit);
    load!(L, at, group; equity, quantity, entry, bars_held, stop, limit, fee, impact, spread, traded, closed);
    let cost = units.mul(quote.unit_cost);
    let money = units.mul(multiplier).mul(fx);
    let impact_paid = money.mul(reference).mul(quote.impact);
    let fee_paid = fee_rate.mul(absolute(quote.price)).mul(money).add(fee_per_unit.mul(units.mul(fx)));
    let fee = L::select(mask, fee.add(fee_paid), fee);
    let impact = L::select(mask, impact.add(impact_paid), impact);
    let spread = L::select(mask, spread.add(cost.sub(fee_paid).sub(impact_paid)), spread);
    let traded = L::select(mask, traded.add(units.mul(quote.notional)), traded);
    let equity = L::select(mask, equity.sub(cost), equity);
    let crossed = quantity.mul(after).lt(zero());
    let flat = after.ne(zero());
    let fresh = L::or(crossed, L::and_not(flat, quantity.ne(zero()))); // opened, or turned
    let more = gt(absolute(after), absolute(quantity));
    let mean = quantity.mul(entry).add(side.mul(units).mul(quote.price)).div(after);
    let new_entry = L::select(more, mean, entry);
    let new_entry = L::select(fresh, quote.price, new_entry);
    let new_entry = L::select(flat, new_entry, zero());
    let entry = L::select(mask, new_entry, entry);
    let ends = L::and(mask, L::or(crossed, L::and_not(quantity.ne(zero()), flat)));
    let closed = L::select(ends, closed.add(L::splat(1.0)), closed);
    // Opened, turned or closed: what belonged to the position before goes.
    let same = L::and(L::and_not(quantity.ne(zero()), crossed), flat);
    let gone = L::and_not(mask, same);
    let bars_held = L::select(gone, zero(), bars_held);
    let stop = L::select(gone, zero(), stop);
    let limit = L::select(gone, zero(), limit);
    let quantity = L::select(mask, after, quantity);
    store!(at, group; equity, quantity, entry, bars_held, stop, limit, fee, impact, spread, traded, closed);
}

/// Change of equity of the lanes when units move from one price and exchange rate to another.
#[inline(always)]
fn revalue<L: Lane>(owned: L::Mask, units: L, mark: L, fx: L, price: L, new_fx: L) -> L {
    let moved = units.mul(price.sub(mark)).mul(new_fx);
    L::select(owned, moved.add(units.mul(mark).mul(new_fx.sub(fx))), moved)
}

/// Overnight financing and borrowing of the lanes in `mask`.
#[inline(always)]
fn finance<L: Lane>(group: &mut Group, at: usize, mask: L::Mask, value: L, nights: L, days: L) {
    load!(L, at, group.params; swap_long, swap_short, borrow_rate);
    load!(L, at, group; equity, quantity, swap, borrow);
    let short = quantity.lt(zero());
    let due = L::and(mask, nights.ne(zero()));
    let paid = value.mul(L::select(short, swap_short, swap_long)).mul(nights);
    let equity = L::select(due, equity.sub(paid), equity);
    let swap = L::select(due, swap.add(paid), swap);
    let due = L::and(L::and(mask, days.ne(zero())), short);
    let paid = value.mul(borrow_rate).mul(days);
    let equity = L::select(due, equity.sub(paid), equity);
    let borrow = L::select(due, borrow.add(paid), borrow);
    store!(at, group; equity, swap, borrow);
}

/// One bar for the lanes from `at` on.
#[inline(always)]
fn advance_lanes<L: Lane>(group: &mut Group, row: &Row, at: usize) {
    load!(L, at, group; equity, ended);
    let before = equity;
    let alive = L::and_not(ended.le(ended), ended.ne(zero()));
    if !L::any(alive) {
        zero::<L>().store(&mut group.reward, at);
        return;
    }
    decide::<L>(group, row, at, alive);
    load!(L, at, row; tradable);
    let going = L::and(alive, tradable.ne(zero()));
    if L::any(going) {
        carry::<L>(group, row, at, going);
        fill::<L>(group, row, at, going);
        bracket::<L>(group, row, at, going);
        hold::<L>(group, row, at, going);
        leave::<L>(group, row, at, going);
        finish::<L>(group, row, at, going);
    }
    if !row.rewards {
        return;
    }
    load!(L, at, group; equity);
    load!(L, at, group.params; capital);
    let counted = larger(equity, L::splat(FLOOR).mul(capital));
    L::select(alive, counted.sub(before).div(before), zero()).store(&mut group.reward, at);
}

#[inline(always)]
fn decide<L: Lane>(group: &mut Group, row: &Row, at: usize, alive: L::Mask) {
    load!(L, at, row; wanted, sigma, close_now, fx_now, flat_next, stop_distance, limit_distance);
    load!(L, at, group; equity, quantity, target, action);
    load!(L, at, group.params; multiplier, shortable, lots, vol_target, fraction, leverage, lot, band, band_of_target);
    load!(L, at, group.params; maintenance);
    let infinity = L::splat(f64::INFINITY);
    let notional = multiplier.mul(close_now).mul(fx_now);
    let priced = L::and(gt(notional, zero()), notional.lt(infinity));
    let forced = L::and(alive, flat_next.ne(zero()));
    let decided = L::and(L::and_not(alive, forced), priced);
    let decided = L::and(decided, L::and(wanted.lt(infinity), gt(wanted, L::splat(f64::NEG_INFINITY))));
    let barred = L::and_not(wanted.lt(zero()), shortable.ne(zero()));
    let wanted = L::select(barred, zero(), wanted);
    // A repeated action of the discrete kind decides nothing.
    let discrete = band.lt(zero());
    let bracketed = L::or(gt(stop_distance, zero()), gt(limit_distance, zero()));
    let anew = L::or(wanted.ne(action), L::and_not(bracketed, quantity.ne(zero())));
    let decided = L::and_not(decided, L::and_not(discrete, anew));
    let (mut action, mut target) = (action, target);
    if L::any(decided) {
        let mut share = fraction;
        let by_volatility = gt(vol_target, zero());
        if L::any(by_volatility) {
            let sized = L::select(gt(sigma, zero()), smaller(vol_target.div(sigma), leverage), zero());
            share = L::select(by_volatility, sized, share);
        }
        let full = larger(share.mul(equity).div(notional), zero());
        let full = L::select(gt(lots, zero()), lots, full);
        let new_target = round_lots(wanted.mul(full), lot);
        let of_target = absolute(new_target).mul(notional);
        let width = L::select(band_of_target.ne(zero()), of_target, equity);
        let far = gt(absolute(new_target.sub(quantity)).mul(notional), band.mul(width));
        let outside = L::or(new_target.mul(quantity).le(zero()), far);
        let trades = L::and(decided, L::or(discrete, outside));
        action = L::select(trades, wanted, action);
        target = L::select(trades, new_target, target);
    }
    action = L::select(forced, zero(), action);
    target = L::select(forced, zero(), target);
    // A margin call overrules what was decided.
    let called = L::and(L::and(alive, priced), gt(absolute(quantity).mul(notional).mul(maintenance), equity));
    if L::any(called) {
        let most = round_lots(larger(leverage.mul(equity).div(notional), zero()), lot);
        let called = L::and(called, gt(absolute(target), most));
        note::<L>(group, at, called, Event::MarginCall);
        target = L::select(called, L::select(target.lt(zero()), negate(most), most), target);
    }
    store!(at, group; target, action);
}

/// Remembers an event of the lanes in `mask`.
#[inline(always)]
fn note<L: Lane>(group: &mut Group, at: usize, mask: L::Mask, event: Event) {
    let mut hit = [0.0; GROUP];
    L::select(mask, L::splat(1.0), zero()).store(&mut hit, at);
    for (events, hit) in group.events.iter_mut().zip(hit) {
        *events |= if hit != 0.0 { event as u8 } else { 0 };
    }
}

#[inline(always)]
fn carry<L: Lane>(group: &mut Group, row: &Row, at: usize, going: L::Mask) {
    load!(L, at, row; open, fx_open, split, dividend, funding_open, swap_open, borrow_open);
    let one = L::splat(1.0);
    let splits = L::and(going, split.ne(one));
    let held = {
        load!(L, at, group; quantity);
        L::and(going, quantity.ne(zero()))
    };
    if L::any(splits) {
        load!(L, at, group; quantity, target, mark, entry, stop, limit);
        let turned = L::and(splits, held);
        let quantity = L::select(turned, quantity.mul(split), quantity);
        let [mark, entry, stop, limit] = [mark, entry, stop, limit].map(|x| L::select(turned, x.div(split), x));
        let target = L::select(splits, target.mul(split), target);
        store!(at, group; quantity, target, mark, entry, stop, limit);
    }
    load!(L, at, group; quantity, equity, mark, fx);
    if L::any(held) {
        load!(L, at, group.params; multiplier, owned);
        let units = quantity.mul(multiplier);
        let gap = revalue(owned.ne(zero()), units, mark, fx, open, fx_open);
        let mut equity = L::select(held, equity.add(gap), equity);
        let money = units.mul(fx_open);
        let due = L::and(held, dividend.ne(zero()));
        if L::any(due) {
            load!(L, at, group; dividends);
            let paid = money.mul(dividend);
            equity = L::select(due, equity.add(paid), equity);
            let dividends = L::select(due, dividends.sub(paid), dividends);
            store!(at, group; dividends);
        }
        let due = L::and(held, funding_open.ne(zero()));
        if L::any(due) {
            load!(L, at, group; funding);
            let paid = money.mul(funding_open);
            equity = L::select(due, equity.sub(paid), equity);
            let funding = L::select(due, funding.add(paid), funding);
            store!(at, group; funding);
        }
        store!(at, group; equity);
        if L::any(L::and(held, L::or(swap_open.ne(zero()), borrow_open.ne(zero())))) {
            finance::<L>(group, at, held, absolute(money.mul(open)), swap_open, borrow_open);
        }
    }
    let mark = L::select(going, open, mark);
    let fx = L::select(going, fx_open, fx);
    store!(at, group; mark, fx);
}

#[inline(always)]
fn fill<L: Lane>(group: &mut Group, row: &Row, at: usize, going: L::Mask) {
    load!(L, at, row; open, fx_open, volume);
    load!(L, at, group; equity, quantity, target);
    let wanted = target.sub(quantity);
    let trades = L::and(going, L::and(wanted.ne(zero()), gt(open, zero())));
    if !L::any(trades) {
        return;
    }
    load!(L, at, group.params; volume_cap, leverage, lot, min_notional);
    let side = L::select(gt(wanted, zero()), L::splat(1.0), L::splat(-1.0));
    let held = absolute(quantity);
    let same_side = ge(quantity.mul(side), zero());
    let reduce = L::select(same_side, zero(), smaller(absolute(wanted), held));
    let whole = absolute(wanted).sub(reduce);
    let capped = L::and(gt(volume_cap, zero()), gt(volume, zero()));
    let increase = L::select(capped, smaller(whole, volume_cap.mul(volume)), whole);
    let quote = quote(group, row, at, open, fx_open, side, reduce.add(increase));
    let left = L::select(same_side, held, zero());
    let free = leverage.mul(equity.sub(quote.unit_cost.mul(reduce))).sub(quote.value.mul(left));
    let room = larger(free.div(quote.value.add(leverage.mul(quote.unit_cost))), zero());
    let cut = gt(increase, room);
    let increase = L::select(cut, room, increase);
    let short_of = L::or(cut, increase.lt(whole));
    let most = larger(round_lots(left.add(increase), lot), left);
    let increase = L::select(short_of, most.sub(left), increase);
    let after = L::select(short_of, side.mul(most), target);
    let target = L::select(L::and(trades, cut), after, target);
    store!(at, group; target);
    let units = reduce.add(increase);
    let closes = L::and_not(gt(reduce, zero()), reduce.ne(held));
    let dust = L::and_not(units.mul(quote.notional).lt(min_notional), closes);
    let fills = L::and_not(L::and(trades, units.ne(zero())), dust);
    execute::<L>(group, at, fills, &quote, side, units, after, open, fx_open);
}

#[inline(always)]
fn bracket<L: Lane>(group: &mut Group, row: &Row, at: usize, going: L::Mask) {
    load!(L, at, row; open, stop_distance, limit_distance);
    let [stops, limits] = [stop_distance, limit_distance].map(|d| L::and(going, gt(d, zero())));
    if !L::any(L::or(stops, limits)) {
        return;
    }
    load!(L, at, group; quantity, stop, limit);
    let held = quantity.ne(zero());
    let one = L::splat(1.0);
    let side = L::select(gt(quantity, zero()), one, L::splat(-1.0));
    let below = larger(open.mul(one.sub(side.mul(stop_distance))), zero());
    let above = larger(open.mul(one.add(side.mul(limit_distance))), zero());
    let stop = L::select(L::and(held, stops), below, stop);
    let limit = L::select(L::and(held, limits), above, limit);
    store!(at, group; stop, limit);
}

#[inline(always)]
fn hold<L: Lane>(group: &mut Group, row: &Row, at: usize, going: L::Mask) {
    load!(L, at, row; funding_inside, swap_inside, borrow_inside);
    let flows = L::or(funding_inside.ne(zero()), L::or(swap_inside.ne(zero()), borrow_inside.ne(zero())));
    load!(L, at, group; quantity);
    let held = L::and(going, quantity.ne(zero()));
    if !L::any(L::and(held, flows)) {
        return;
    }
    load!(L, at, row; open, fx_open);
    load!(L, at, group.params; multiplier);
    load!(L, at, group; equity, funding);
    let money = quantity.mul(multiplier).mul(fx_open);
    let due = L::and(held, funding_inside.ne(zero()));
    let paid = money.mul(funding_inside);
    let equity = L::select(due, equity.sub(paid), equity);
    let funding = L::select(due, funding.add(paid), funding);
    store!(at, group; equity, funding);
    finance::<L>(group, at, held, absolute(money.mul(open)), swap_inside, borrow_inside);
}

#[inline(always)]
fn leave<L: Lane>(group: &mut Group, row: &Row, at: usize, going: L::Mask) {
    load!(L, at, group; quantity, equity, fx, stop, limit);
    let held = L::and(going, quantity.ne(zero()));
    if !L::any(held) {
        return;
    }
    load!(L, at, row; open, high, low, fx_close);
    load!(L, at, group.params; multiplier, owned, liquidation);
    let long = gt(quantity, zero());
    let units = quantity.mul(multiplier);
    let base = equity.add(revalue(owned.ne(zero()), units, open, fx, open, fx_close));
    let money = units.mul(fx_close);
    let worst = L::select(long, low, high);
    let best = L::select(long, high, low);
    let needed = liquidation.mul(absolute(money));
    let broke = L::and(held, base.add(money.mul(worst.sub(open))).le(needed.mul(worst)));
    let has_stop = L::and(held, gt(stop, zero()));
    let stopped = L::and(has_stop, touched(long, worst, stop));
    let has_limit = L::and(held, gt(limit, zero()));
    let limited = L::and(has_limit, touched(long, limit, best));
    if !L::any(L::or(broke, L::or(stopped, limited))) {
        return;
    }
    let meets = money.mul(open).sub(base).div(money.sub(needed));
    let of_long = larger(smaller(meets, open), low);
    let of_short = smaller(larger(meets, open), high);
    let broke_at = L::select(long, of_long, of_short);
    let stop_at = L::select(long, smaller(stop, open), larger(stop, open));
    let sooner = L::select(long, stop_at, broke_at).sub(L::select(long, broke_at, stop_at));
    // Long: the stop comes first where it is not below; short: where it is not above.
    let first = ge(sooner, zero());
    let first = L::or(first, L::and_not(stopped, broke));
    let by_stop = L::and(stopped, first);
    let by_broker = L::and_not(broke, by_stop);
    let by_limit = L::and_not(L::and_not(limited, by_stop), by_broker);
    let exits = L::or(by_stop, L::or(by_broker, by_limit));
    note::<L>(group, at, by_stop, Event::Stopped);
    note::<L>(group, at, by_broker, Event::Liquidated);
    note::<L>(group, at, by_limit, Event::Limited);
    let price = L::select(by_stop, stop_at, L::select(by_broker, broke_at, limit));
    let reached = base.add(money.mul(price.sub(open)));
    L::select(exits, reached, equity).store(&mut group.equity, at);
    load!(L, at, group; action);
    sell_all(group, row, at, exits, price, fx_close);
    L::select(by_broker, zero(), action).store(&mut group.action, at);
    load!(L, at, group; mark, fx);
    let mark = L::select(exits, price, mark);
    let fx = L::select(exits, fx_close, fx);
    store!(at, group; mark, fx);
}

/// Whether a price that falls for a long position and rises for a short one reaches a level.
#[inline(always)]
fn touched<L: Lane>(long: L::Mask, price: L, level: L) -> L::Mask {
    L::or(L::and(long, price.le(level)), L::and_not(ge(price, level), long))
}

/// Closes the positions of the lanes in `mask` at a reference price, and wants nothing more.
#[inline(always)]
fn sell_all<L: Lane>(group: &mut Group, row: &Row, at: usize, mask: L::Mask, price: L, fx: L) {
    load!(L, at, group; quantity);
    let side = L::select(gt(quantity, zero()), L::splat(-1.0), L::splat(1.0));
    let units = absolute(quantity);
    let quote = quote(group, row, at, price, fx, side, units);
    execute::<L>(group, at, mask, &quote, side, units, zero(), price, fx);
    load!(L, at, group; target, action);
    let [target, action] = [target, action].map(|x| L::select(mask, zero(), x));
    store!(at, group; target, action);
}

#[inline(always)]
fn finish<L: Lane>(group: &mut Group, row: &Row, at: usize, going: L::Mask) {
    load!(L, at, row; close, fx_close, close_out);
    load!(L, at, group; quantity, equity, mark, fx, bars_held, ended);
    load!(L, at, group.params; multiplier, owned, capital);
    let held = L::and(going, quantity.ne(zero()));
    let units = quantity.mul(multiplier);
    let moved = revalue(owned.ne(zero()), units, mark, fx, close, fx_close);
    let equity = L::select(held, equity.add(moved), equity);
    let bars_held = L::select(held, bars_held.add(L::splat(1.0)), bars_held);
    let mark = L::select(going, close, mark);
    let fx = L::select(going, fx_close, fx);
    let ruin = L::splat(Params::RUIN).mul(capital);
    let ruined = L::and(going, equity.le(ruin));
    store!(at, group; equity, bars_held, mark, fx);
    let out = L::and(going, L::or(ruined, close_out.ne(zero())));
    if L::any(out) {
        let sells = L::and(out, quantity.ne(zero()));
        note::<L>(group, at, sells, Event::ClosedOut);
        let known = Row { sigma: row.sigma_next, volume: row.volume_next, half_spread: row.spread_next, ..*row };
        sell_all(group, &known, at, sells, close, fx_close);
        load!(L, at, group; target, action);
        let [target, action] = [target, action].map(|x| L::select(out, zero(), x));
        store!(at, group; target, action);
        // What closing costs may be the end, too.
        load!(L, at, group; equity);
        let ruined = L::or(ruined, L::and(out, equity.le(ruin)));
        note::<L>(group, at, ruined, Event::Ruined);
        L::select(ruined, L::splat(1.0), ended).store(&mut group.ended, at);
    }
    load!(L, at, group; equity, peak);
    let peak = L::select(going, larger(peak, equity), peak);
    store!(at, group; peak);
}

/// [`crate::ln_1p`] over lanes, for arguments above -1.
#[inline(always)]
fn ln_1p<L: Lane>(x: L) -> L {
    let one = L::splat(1.0);
    let u = one.add(x);
    let (k, m) = u.exponent();
    let high = gt(m, L::splat(SQRT_2));
    let m = L::select(high, m.mul(L::splat(0.5)), m);
    let k = L::select(high, k.add(one), k);
    let lost = L::select(gt(x, one), one.sub(u.sub(x)), x.sub(u.sub(one))).div(u);
    let s = m.sub(one).div(m.add(one));
    let z = s.mul(s);
    let mut series = L::splat(SERIES[0]);
    for coefficient in &SERIES[1..] {
        series = series.fma(z, L::splat(*coefficient));
    }
    let two = L::splat(2.0);
    let small = two.mul(s).mul(z).fma(series, k.fma(L::splat(LN_2_LOW), lost));
    k.fma(L::splat(LN_2_HIGH), two.mul(s).add(small))
}

impl Lane for f64 {
    type Mask = bool;

    #[inline(always)]
    fn load(from: &[f64; GROUP], at: usize) -> f64 {
        from[at]
    }
    #[inline(always)]
    fn store(self, to: &mut [f64; GROUP], at: usize) {
        to[at] = self;
    }
    #[inline(always)]
    fn splat(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn add(self, other: f64) -> f64 {
        self + other
    }
    #[inline(always)]
    fn sub(self, other: f64) -> f64 {
        self - other
    }
    #[inline(always)]
    fn mul(self, other: f64) -> f64 {
        self * other
    }
    #[inline(always)]
    fn div(self, other: f64) -> f64 {
        self / other
    }
    #[inline(always)]
    fn fma(self, by: f64, plus: f64) -> f64 {
        self.mul_add(by, plus)
    }
    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn floor(self) -> f64 {
        f64::floor(self)
    }
    #[inline(always)]
    fn lt(self, other: f64) -> bool {
        self < other
    }
    #[inline(always)]
    fn le(self, other: f64) -> bool {
        self <= other
    }
    #[inline(always)]
    fn ne(self, other: f64) -> bool {
        self != other
    }
    #[inline(always)]
    fn select(mask: bool, yes: f64, no: f64) -> f64 {
        if mask { yes } else { no }
    }
    #[inline(always)]
    fn and(a: bool, b: bool) -> bool {
        a & b
    }
    #[inline(always)]
    fn or(a: bool, b: bool) -> bool {
        a | b
    }
    #[inline(always)]
    fn and_not(a: bool, b: bool) -> bool {
        a & !b
    }
    #[inline(always)]
    fn any(mask: bool) -> bool {
        mask
    }
    #[inline(always)]
    fn exponent(self) -> (f64, f64) {
        let bits = self.to_bits();
        let exponent = ((bits >> 52) as i64 - 1023) as f64;
        (exponent, f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000))
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "intrinsics, called only behind the detection of their features")]
mod wide {
    use super::{Bar, GROUP, Group, Lane, Row, advance_lanes, logarithms};
    use std::arch::x86_64::*;
    use std::sync::OnceLock;

    /// 2: AVX-512, 1: AVX2 and FMA, 0: neither.
    pub(super) fn level() -> u8 {
        static LEVEL: OnceLock<u8> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                2
            } else {
                u8::from(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"))
            }
        })
    }

    #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
    pub(super) fn advance_avx512(group: &mut Group, row: &Row) {
        advance_lanes::<Eight>(group, row, 0);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn advance_avx2(group: &mut Group, row: &Row) {
        advance_lanes::<Four>(group, row, 0);
        advance_lanes::<Four>(group, row, 4);
    }

    #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
    pub(super) fn take_logarithms_avx512(groups: &mut [Group]) {
        logarithms::<Eight>(groups, &[0]);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn take_logarithms_avx2(groups: &mut [Group]) {
        logarithms::<Four>(groups, &[0, 4]);
    }

    /// Bars lie in memory number by number, lanes of a row lane by lane: blocks of eight bars and eight or four numbers
    /// are turned.
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn put_bars(row: &mut Row, bars: &[Bar], rows: [u32; GROUP]) {
        let last = rows.into_iter().max().unwrap_or(0) as usize;
        assert!(last + 1 < bars.len(), "row {last} has a bar behind it, of {}", bars.len());
        let mut from = [bars.as_ptr().cast::<f64>(); GROUP];
        for lane in 0..GROUP {
            // SAFETY: the bar and the one behind it are there.
            from[lane] = unsafe { bars.as_ptr().add(rows[lane] as usize).cast::<f64>() };
        }
        macro_rules! put {
            ($columns:expr; $($field:ident),*) => {{
                let [$($field),*, ..] = $columns;
                $(Eight($field).store(&mut row.$field, 0);)*
            }};
        }
        // Numbers of a bar from 0: the close is 3, its exchange rate 5, what was known at the close 16 to 19.
        put!(turn_four(from, 16); sigma, volume, half_spread, flat_next);
        let [_, close_now, _, fx_now] = turn_four(from, 2);
        Eight(close_now).store(&mut row.close_now, 0);
        Eight(fx_now).store(&mut row.fx_now, 0);
        put!(turn_eight(from, NUMBERS); open, high, low, close, fx_open, fx_close, tradable, split);
        put!(turn_eight(from, NUMBERS + 8);
            dividend, funding_open, funding_inside, swap_open, swap_inside, borrow_open, borrow_inside, close_out);
        let [sigma_next, volume_next, spread_next, _] = turn_four(from, NUMBERS + 16);
        Eight(sigma_next).store(&mut row.sigma_next, 0);
        Eight(volume_next).store(&mut row.volume_next, 0);
        Eight(spread_next).store(&mut row.spread_next, 0);
    }

    /// Numbers of a bar.
    const NUMBERS: usize = std::mem::size_of::<Bar>() / 8;
    const _: () = assert!(NUMBERS == 20 && std::mem::offset_of!(Bar, flat_next) == 8 * 19);

    /// `[8][lanes]` numbers `at` to `at + 8` behind each pointer, which are there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn turn_eight(from: [*const f64; GROUP], at: usize) -> [__m512d; 8] {
        let mut pairs = [_mm512_setzero_pd(); 8];
        for i in 0..4 {
            // SAFETY: eight numbers are there.
            let (a, b) = unsafe { (_mm512_loadu_pd(from[2 * i].add(at)), _mm512_loadu_pd(from[2 * i + 1].add(at))) };
            (pairs[i], pairs[4 + i]) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
        }
        let mut turned = pairs;
        // Pairs of lanes: those of the even numbers 0, 2, 4 and 6, then those of the odd ones.
        for odd in 0..2 {
            let [a, b, c, d] = [pairs[4 * odd], pairs[4 * odd + 1], pairs[4 * odd + 2], pairs[4 * odd + 3]];
            let (ab, cd) = (_mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0x88>(c, d));
            turned[odd] = _mm512_shuffle_f64x2::<0x88>(ab, cd);
            turned[4 + odd] = _mm512_shuffle_f64x2::<0xdd>(ab, cd);
            let (ab, cd) = (_mm512_shuffle_f64x2::<0xdd>(a, b), _mm512_shuffle_f64x2::<0xdd>(c, d));
            turned[2 + odd] = _mm512_shuffle_f64x2::<0x88>(ab, cd);
            turned[6 + odd] = _mm512_shuffle_f64x2::<0xdd>(ab, cd);
        }
        turned
    }

    /// `[4][lanes]` numbers `at` to `at + 4` behind each pointer, which are there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn turn_four(from: [*const f64; GROUP], at: usize) -> [__m512d; 4] {
        let mut halves = [_mm512_setzero_pd(); 4];
        for i in 0..4 {
            // SAFETY: four numbers are there.
            let (a, b) = unsafe { (_mm256_loadu_pd(from[i].add(at)), _mm256_loadu_pd(from[4 + i].add(at))) };
            halves[i] = _mm512_insertf64x4::<1>(_mm512_castpd256_pd512(a), b);
        }
        let [a, b, c, d] = halves;
        let (even, odd) = (_mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15));
        let (ab, cd) = (_mm512_unpacklo_pd(a, b), _mm512_unpacklo_pd(c, d));
        let (high_ab, high_cd) = (_mm512_unpackhi_pd(a, b), _mm512_unpackhi_pd(c, d));
        [
            _mm512_permutex2var_pd(ab, even, cd),
            _mm512_permutex2var_pd(high_ab, even, high_cd),
            _mm512_permutex2var_pd(ab, odd, cd),
            _mm512_permutex2var_pd(high_ab, odd, high_cd),
        ]
    }

    #[derive(Clone, Copy)]
    struct Eight(__m512d);

    #[derive(Clone, Copy)]
    struct Four(__m256d);

    impl Lane for Eight {
        type Mask = __mmask8;

        #[inline(always)]
        fn load(from: &[f64; GROUP], _: usize) -> Eight {
            Eight(unsafe { _mm512_loadu_pd(from.as_ptr()) })
        }
        #[inline(always)]
        fn store(self, to: &mut [f64; GROUP], _: usize) {
            unsafe { _mm512_storeu_pd(to.as_mut_ptr(), self.0) }
        }
        #[inline(always)]
        fn splat(x: f64) -> Eight {
            Eight(unsafe { _mm512_set1_pd(x) })
        }
        #[inline(always)]
        fn add(self, other: Eight) -> Eight {
            Eight(unsafe { _mm512_add_pd(self.0, other.0) })
        }
        #[inline(always)]
        fn sub(self, other: Eight) -> Eight {
            Eight(unsafe { _mm512_sub_pd(self.0, other.0) })
        }
        #[inline(always)]
        fn mul(self, other: Eight) -> Eight {
            Eight(unsafe { _mm512_mul_pd(self.0, other.0) })
        }
        #[inline(always)]
        fn div(self, other: Eight) -> Eight {
            Eight(unsafe { _mm512_div_pd(self.0, other.0) })
        }
        #[inline(always)]
        fn fma(self, by: Eight, plus: Eight) -> Eight {
            Eight(unsafe { _mm512_fmadd_pd(self.0, by.0, plus.0) })
        }
        #[inline(always)]
        fn sqrt(self) -> Eight {
            Eight(unsafe { _mm512_sqrt_pd(self.0) })
        }
        #[inline(always)]
        fn floor(self) -> Eight {
            Eight(unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
        }
        #[inline(always)]
        fn lt(self, other: Eight) -> __mmask8 {
            unsafe { _mm512_cmp_pd_mask::<_CMP_LT_OQ>(self.0, other.0) }
        }
        #[inline(always)]
        fn le(self, other: Eight) -> __mmask8 {
            unsafe { _mm512_cmp_pd_mask::<_CMP_LE_OQ>(self.0, other.0) }
        }
        #[inline(always)]
        fn ne(self, other: Eight) -> __mmask8 {
            unsafe { _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(self.0, other.0) }
        }
        #[inline(always)]
        fn select(mask: __mmask8, yes: Eight, no: Eight) -> Eight {
            Eight(unsafe { _mm512_mask_blend_pd(mask, no.0, yes.0) })
        }
        #[inline(always)]
        fn and(a: __mmask8, b: __mmask8) -> __mmask8 {
            a & b
        }
        #[inline(always)]
        fn or(a: __mmask8, b: __mmask8) -> __mmask8 {
            a | b
        }
        #[inline(always)]
        fn and_not(a: __mmask8, b: __mmask8) -> __mmask8 {
            a & !b
        }
        #[inline(always)]
        fn any(mask: __mmask8) -> bool {
            mask != 0
        }
        #[inline(always)]
        fn exponent(self) -> (Eight, Eight) {
            unsafe {
                let bits = _mm512_castpd_si512(self.0);
                let exponent = _mm512_sub_epi64(_mm512_srli_epi64::<52>(bits), _mm512_set1_epi64(1023));
                let mantissa = _mm512_or_si512(
                    _mm512_and_si512(bits, _mm512_set1_epi64(0x000f_ffff_ffff_ffff)),
                    _mm512_set1_epi64(0x3ff0_0000_0000_0000),
                );
                (Eight(_mm512_cvtepi64_pd(exponent)), Eight(_mm512_castsi512_pd(mantissa)))
            }
        }
    }

    impl Lane for Four {
        type Mask = __m256d;

        #[inline(always)]
        fn load(from: &[f64; GROUP], at: usize) -> Four {
            Four(unsafe { _mm256_loadu_pd(from[at..at + 4].as_ptr()) })
        }
        #[inline(always)]
        fn store(self, to: &mut [f64; GROUP], at: usize) {
            unsafe { _mm256_storeu_pd(to[at..at + 4].as_mut_ptr(), self.0) }
        }
        #[inline(always)]
        fn splat(x: f64) -> Four {
            Four(unsafe { _mm256_set1_pd(x) })
        }
        #[inline(always)]
        fn add(self, other: Four) -> Four {
            Four(unsafe { _mm256_add_pd(self.0, other.0) })
        }
        #[inline(always)]
        fn sub(self, other: Four) -> Four {
            Four(unsafe { _mm256_sub_pd(self.0, other.0) })
        }
        #[inline(always)]
        fn mul(self, other: Four) -> Four {
            Four(unsafe { _mm256_mul_pd(self.0, other.0) })
        }
        #[inline(always)]
        fn div(self, other: Four) -> Four {
            Four(unsafe { _mm256_div_pd(self.0, other.0) })
        }
        #[inline(always)]
        fn fma(self, by: Four, plus: Four) -> Four {
            Four(unsafe { _mm256_fmadd_pd(self.0, by.0, plus.0) })
        }
        #[inline(always)]
        fn sqrt(self) -> Four {
            Four(unsafe { _mm256_sqrt_pd(self.0) })
        }
        #[inline(always)]
        fn floor(self) -> Four {
            Four(unsafe { _mm256_floor_pd(self.0) })
        }
        #[inline(always)]
        fn lt(self, other: Four) -> __m256d {
            unsafe { _mm256_cmp_pd::<_CMP_LT_OQ>(self.0, other.0) }
        }
        #[inline(always)]
        fn le(self, other: Four) -> __m256d {
            unsafe { _mm256_cmp_pd::<_CMP_LE_OQ>(self.0, other.0) }
        }
        #[inline(always)]
        fn ne(self, other: Four) -> __m256d {
            unsafe { _mm256_cmp_pd::<_CMP_NEQ_UQ>(self.0, other.0) }
        }
        #[inline(always)]
        fn select(mask: __m256d, yes: Four, no: Four) -> Four {
            Four(unsafe { _mm256_blendv_pd(no.0, yes.0, mask) })
        }
        #[inline(always)]
        fn and(a: __m256d, b: __m256d) -> __m256d {
            unsafe { _mm256_and_pd(a, b) }
        }
        #[inline(always)]
        fn or(a: __m256d, b: __m256d) -> __m256d {
            unsafe { _mm256_or_pd(a, b) }
        }
        #[inline(always)]
        fn and_not(a: __m256d, b: __m256d) -> __m256d {
            unsafe { _mm256_andnot_pd(b, a) }
        }
        #[inline(always)]
        fn any(mask: __m256d) -> bool {
            unsafe { _mm256_movemask_pd(mask) != 0 }
        }
        #[inline(always)]
        fn exponent(self) -> (Four, Four) {
            unsafe {
                let bits = _mm256_castpd_si256(self.0);
                // Exponents are small whole numbers: put into the mantissa of 2^52 they convert by one subtraction.
                let magic = _mm256_set1_epi64x(0x4330_0000_0000_0000);
                let exponent = _mm256_castsi256_pd(_mm256_or_si256(_mm256_srli_epi64::<52>(bits), magic));
                let exponent = _mm256_sub_pd(exponent, _mm256_set1_pd(4_503_599_627_370_496.0 + 1023.0));
                let mantissa = _mm256_or_si256(
                    _mm256_and_si256(bits, _mm256_set1_epi64x(0x000f_ffff_ffff_ffff)),
                    _mm256_set1_epi64x(0x3ff0_0000_0000_0000),
                );
                (Four(exponent), Four(_mm256_castsi256_pd(mantissa)))
            }
        }
    }

    /// For tests: the same step on one kind of lanes.
    #[cfg(test)]
    pub(super) fn advance_on(level: u8, group: &mut Group, row: &Row) {
        match level {
            2 => unsafe {
                advance_avx512(group, row);
                take_logarithms_avx512(std::slice::from_mut(group));
            },
            _ => unsafe {
                advance_avx2(group, row);
                take_logarithms_avx2(std::slice::from_mut(group));
            },
        }
    }
}

/// For tests: all ways that run here, by number.
#[cfg(test)]
pub(crate) fn ways() -> Vec<u8> {
    #[cfg(target_arch = "x86_64")]
    return (0..=wide::level()).collect();
    #[cfg(not(target_arch = "x86_64"))]
    vec![0]
}

/// For tests: one bar, one way.
#[cfg(test)]
pub(crate) fn advance_one_way(way: u8, group: &mut Group, row: &Row) {
    #[cfg(target_arch = "x86_64")]
    if way > 0 {
        return wide::advance_on(way, group, row);
    }
    let _ = way;
    for at in 0..GROUP {
        advance_lanes::<f64>(group, row, at);
    }
    logarithms::<f64>(std::slice::from_mut(group), &[0, 1, 2, 3, 4, 5, 6, 7]);
}
