//! One step of one account, in the plainest form: the definition that the twins are held to.
//!
//! Every operation is rounded once and stands in the order in which the twins do it. Where a branch is not taken
//! nothing is added, not even zero times something.

use crate::state::{Account, Action, Event, Events, Exit, Fill, Outcome};
use crate::{Bar, Params, ln_1p};

/// Takes an account from the close of `now` to the close of `next`.
pub fn step(params: &Params, account: &mut Account, action: Action, now: &Bar, next: &Bar) -> Outcome {
    let mut outcome = Outcome {
        reward: 0.0,
        equity_open: account.equity,
        fill: Fill::default(),
        exit: Fill::default(),
        events: Events::default(),
    };
    if account.terminated {
        return outcome;
    }
    let before = account.equity;
    decide(params, account, action, now, &mut outcome.events);
    if next.tradable != 0.0 {
        carry(params, account, next);
        outcome.equity_open = account.equity;
        outcome.fill = fill(params, account, now, next);
        bracket(account, action, next.open);
        hold(params, account, next);
        outcome.exit = leave(params, account, now, next, &mut outcome.events);
        mark(params, account, next);
        let ruin = Params::RUIN * params.capital;
        let ruined = account.equity <= ruin;
        if ruined || next.close_out != 0.0 {
            if account.quantity != 0.0 {
                outcome.events.add(Event::ClosedOut);
                outcome.exit = close_out(params, account, next);
            }
            flatten(account);
        }
        // What closing costs may be the end, too.
        if ruined || account.equity <= ruin {
            outcome.events.add(Event::Ruined);
            account.terminated = true;
        }
        account.peak = larger(account.peak, account.equity);
    }
    outcome.reward = ln_1p((larger(account.equity, FLOOR * params.capital) - before) / before);
    outcome
}

/// The target quantity, from what is known at the close of `now`.
pub(crate) fn decide(params: &Params, account: &mut Account, action: Action, now: &Bar, events: &mut Events) {
    let notional = params.multiplier * now.close * now.fx_close;
    let priced = notional > 0.0 && notional < f64::INFINITY;
    if now.flat_next != 0.0 {
        account.action = 0.0;
        account.target = 0.0;
    } else if action.target.is_finite() && priced {
        // With a stop or limit of its own it is a new decision, also where it says again what was stopped out.
        let anew = account.quantity == 0.0 && (action.stop > 0.0 || action.limit > 0.0);
        let action = if !params.shortable && action.target < 0.0 { 0.0 } else { action.target };
        let full = full_position(params, account.equity, notional, now.sigma);
        let target = round_lots(action * full, params.lot);
        let trades = if params.band < 0.0 {
            action != account.action || anew
        } else {
            // A move to or through zero always trades.
            let sides = target * account.quantity;
            let band = if params.band_of_target { absolute(target) * notional } else { account.equity };
            sides <= 0.0 || absolute(target - account.quantity) * notional > params.band * band
        };
        if trades {
            account.action = action;
            account.target = target;
        }
    }
    // A margin call overrules what was decided.
    if priced && absolute(account.quantity) * notional * params.maintenance > account.equity {
        let most = round_lots(larger(params.leverage * account.equity / notional, 0.0), params.lot);
        if absolute(account.target) > most {
            events.add(Event::MarginCall);
            account.target = if account.target < 0.0 { -most } else { most };
        }
    }
}

/// Units of an action of 1.
fn full_position(params: &Params, equity: f64, notional: f64, sigma: f64) -> f64 {
    if params.lots > 0.0 {
        return params.lots;
    }
    let share = if params.vol_target > 0.0 {
        if sigma > 0.0 { smaller(params.vol_target / sigma, params.leverage) } else { 0.0 }
    } else {
        params.fraction
    };
    larger(share * equity / notional, 0.0)
}

/// Up to the open: split, gap, and what falls due to the position held before the fill.
pub(crate) fn carry(params: &Params, account: &mut Account, next: &Bar) {
    if account.quantity != 0.0 {
        if next.split != 1.0 {
            account.quantity *= next.split;
            account.mark /= next.split;
            account.entry /= next.split;
            account.stop /= next.split;
            account.limit /= next.split;
        }
        let units = account.quantity * params.multiplier;
        account.equity += revalue(params.owned, units, account.mark, account.fx, next.open, next.fx_open);
        let money = units * next.fx_open;
        if next.dividend != 0.0 {
            let paid = money * next.dividend;
            account.equity += paid;
            account.flows.dividend -= paid;
        }
        if next.funding_open != 0.0 {
            let paid = money * next.funding_open;
            account.equity -= paid;
            account.flows.funding += paid;
        }
        finance(params, account, absolute(money * next.open), next.swap_open, next.borrow_open);
    }
    if next.split != 1.0 {
        account.target *= next.split;
    }
    account.mark = next.open;
    account.fx = next.fx_open;
}

/// Change of equity when `units` move from one price and exchange rate to another.
#[inline]
pub(crate) fn revalue(owned: bool, units: f64, mark: f64, fx: f64, price: f64, new_fx: f64) -> f64 {
    let moved = units * (price - mark) * new_fx;
    if owned { moved + units * mark * (new_fx - fx) } else { moved }
}

/// Overnight financing and borrowing of a position of this value.
fn finance(params: &Params, account: &mut Account, value: f64, swap: f64, borrow: f64) {
    let short = account.quantity < 0.0;
    if swap != 0.0 {
        let paid = value * (if short { params.swap_short } else { params.swap_long }) * swap;
        account.equity -= paid;
        account.flows.swap += paid;
    }
    if borrow != 0.0 && short {
        let paid = value * params.borrow * borrow;
        account.equity -= paid;
        account.flows.borrow += paid;
    }
}

/// What a fill of these units at a reference price is priced at.
pub(crate) struct Quote {
    /// Price, spread and impact included.
    pub(crate) price: f64,
    /// Share of the price that impact takes.
    pub(crate) impact: f64,
    /// What one unit costs: spread, impact and fee, in account currency.
    pub(crate) unit_cost: f64,
    /// Notional of one unit at that price, in account currency.
    pub(crate) notional: f64,
    /// What one unit is worth behind the fill: marked at the reference price.
    pub(crate) value: f64,
}

impl Quote {
    /// `side` is 1 for a buyer and -1 for a seller; sizes and spread are those known at the close of `now`.
    pub(crate) fn new(params: &Params, now: &Bar, reference: f64, fx: f64, side: f64, units: f64) -> Quote {
        let mut impact = 0.0;
        if now.volume > 0.0 {
            impact = params.impact * now.sigma * (units / now.volume).sqrt();
        }
        let moved = reference * (1.0 + side * (now.half_spread * params.spread + impact));
        let mut price = larger(moved, 0.0);
        if reference <= 0.0 {
            // Only a close-out comes here, after prices have fallen below zero: there is no spread to speak of.
            price = reference;
        } else if params.tick > 0.0 {
            // Against the trader: up for a buyer, down for a seller.
            price = larger(side * -((-side * price / params.tick + TINY).floor() * params.tick), 0.0);
        }
        let money = params.multiplier * fx;
        let size = absolute(price);
        let unit_cost = side * (price - reference) * money + params.fee * size * money + params.fee_per_unit * fx;
        Quote { price, impact, unit_cost, notional: size * money, value: reference * money }
    }
}

/// An order at an open, as far as volume allows it.
pub(crate) struct Order {
    /// 1 buys, -1 sells.
    pub(crate) side: f64,
    /// Units that bring the position nearer to zero.
    pub(crate) reduce: f64,
    /// Units that lead away from zero.
    pub(crate) increase: f64,
    /// The same before the cap on volume.
    pub(crate) whole: f64,
    /// Units that the increase is added to.
    pub(crate) left: f64,
    pub(crate) quote: Quote,
}

/// The order that leads from what is held to what is wanted; none where there is nothing to do or no price.
pub(crate) fn order(params: &Params, account: &Account, now: &Bar, next: &Bar) -> Option<Order> {
    let wanted = account.target - account.quantity;
    if wanted == 0.0 || next.open.is_nan() || next.open <= 0.0 {
        return None;
    }
    let side = if wanted > 0.0 { 1.0 } else { -1.0 };
    let held = absolute(account.quantity);
    let same_side = account.quantity * side >= 0.0;
    let reduce = if same_side { 0.0 } else { smaller(absolute(wanted), held) };
    let whole = absolute(wanted) - reduce;
    let capped = params.volume_cap > 0.0 && now.volume > 0.0;
    let increase = if capped { smaller(whole, params.volume_cap * now.volume) } else { whole };
    let quote = Quote::new(params, now, next.open, next.fx_open, side, reduce + increase);
    let left = if same_side { held } else { 0.0 };
    Some(Order { side, reduce, increase, whole, left, quote })
}

/// Fills the order at the open, as far as volume and margin allow.
fn fill(params: &Params, account: &mut Account, now: &Bar, next: &Bar) -> Fill {
    let Some(order) = order(params, account, now, next) else { return Fill::default() };
    let Order { reduce, left, quote, .. } = &order;
    let free = params.leverage * (account.equity - quote.unit_cost * reduce) - quote.value * left;
    let room = larger(free / (quote.value + params.leverage * quote.unit_cost), 0.0);
    fill_order(params, account, order, room, next)
}

/// Fills an order whose increase may be as large as `room`.
pub(crate) fn fill_order(params: &Params, account: &mut Account, order: Order, room: f64, next: &Bar) -> Fill {
    let Order { side, reduce, mut increase, whole, left, quote } = order;
    let cut = increase > room;
    if cut {
        increase = room;
    }
    let mut after = account.target;
    if cut || increase < whole {
        let most = larger(round_lots(left + increase, params.lot), left);
        increase = most - left;
        after = side * most;
    }
    // What volume does not allow waits for the next bar, what margin does not allow is given up.
    if cut {
        account.target = after;
    }
    let units = reduce + increase;
    let closes = reduce > 0.0 && reduce == absolute(account.quantity);
    if units == 0.0 || (!closes && units * quote.notional < params.min_notional) {
        return Fill::default();
    }
    execute(params, account, &quote, side, units, after, next.open, next.fx_open)
}

/// Books a fill and leaves the position marked at the reference price.
#[expect(clippy::too_many_arguments, reason = "a fill, where it leads, and the prices around it")]
pub(crate) fn execute(
    params: &Params,
    account: &mut Account,
    quote: &Quote,
    side: f64,
    units: f64,
    after: f64,
    reference: f64,
    fx: f64,
) -> Fill {
    let cost = units * quote.unit_cost;
    let money = units * params.multiplier * fx;
    let impact = money * reference * quote.impact;
    let fee = params.fee * absolute(quote.price) * money + params.fee_per_unit * (units * fx);
    account.flows.fee += fee;
    account.flows.impact += impact;
    account.flows.spread += cost - fee - impact;
    account.flows.traded += units * quote.notional;
    account.equity -= cost;
    let before = account.quantity;
    let crossed = before * after < 0.0;
    if crossed || (before != 0.0 && after == 0.0) {
        account.flows.closed += 1.0;
    }
    account.entry = if after == 0.0 {
        0.0
    } else if crossed || before == 0.0 {
        quote.price
    } else if absolute(after) > absolute(before) {
        (before * account.entry + side * units * quote.price) / after
    } else {
        account.entry
    };
    if before == 0.0 || crossed || after == 0.0 {
        account.bars_held = 0.0;
        account.stop = 0.0;
        account.limit = 0.0;
    }
    account.quantity = after;
    Fill { quantity: side * units, price: quote.price, cost }
}

/// Sets or renews stop and limit, counted from the open.
fn bracket(account: &mut Account, action: Action, open: f64) {
    if account.quantity == 0.0 {
        return;
    }
    let side = if account.quantity > 0.0 { 1.0 } else { -1.0 };
    if action.stop > 0.0 {
        account.stop = larger(open * (1.0 - side * action.stop), 0.0);
    }
    if action.limit > 0.0 {
        account.limit = larger(open * (1.0 + side * action.limit), 0.0);
    }
}

/// What falls due inside the bar, to the position held after the open.
pub(crate) fn hold(params: &Params, account: &mut Account, next: &Bar) {
    if account.quantity == 0.0 {
        return;
    }
    let units = account.quantity * params.multiplier;
    if next.funding_inside != 0.0 {
        let paid = units * next.fx_open * next.funding_inside;
        account.equity -= paid;
        account.flows.funding += paid;
    }
    finance(params, account, absolute(units * next.fx_open * next.open), next.swap_inside, next.borrow_inside);
}

/// Closes the position where stop, limit or liquidation is touched inside the bar. The price first moves against it:
/// what it meets first of stop and liquidation counts, and both before the limit.
fn leave(params: &Params, account: &mut Account, now: &Bar, next: &Bar, events: &mut Events) -> Fill {
    if account.quantity == 0.0 {
        return Fill::default();
    }
    let long = account.quantity > 0.0;
    let units = account.quantity * params.multiplier;
    // Equity at a price p inside the bar is `base + units · (p - open) · fx_close`.
    let base = account.equity + revalue(params.owned, units, next.open, account.fx, next.open, next.fx_close);
    let money = units * next.fx_close;
    let (worst, best) = if long { (next.low, next.high) } else { (next.high, next.low) };
    let needed = params.liquidation * absolute(money);
    let mut exit = None;
    if base + money * (worst - next.open) <= needed * worst {
        // Where equity and what is needed meet, but not beyond the open or the worst price.
        let meets = (money * next.open - base) / (money - needed);
        let price = if long {
            larger(smaller(meets, next.open), next.low)
        } else {
            smaller(larger(meets, next.open), next.high)
        };
        exit = Some((price, Exit::Liquidation));
    }
    if account.stop > 0.0 && (if long { next.low <= account.stop } else { next.high >= account.stop }) {
        let price = if long { smaller(account.stop, next.open) } else { larger(account.stop, next.open) };
        let first = exit.is_none_or(|(other, _)| if long { price >= other } else { price <= other });
        if first {
            exit = Some((price, Exit::Stop));
        }
    }
    if exit.is_none() && account.limit > 0.0 && (if long { best >= account.limit } else { best <= account.limit }) {
        exit = Some((account.limit, Exit::Limit));
    }
    let Some((price, why)) = exit else { return Fill::default() };
    events.add(match why {
        Exit::Liquidation => Event::Liquidated,
        Exit::Stop => Event::Stopped,
        Exit::Limit => Event::Limited,
    });
    account.equity = base + money * (price - next.open);
    account.mark = price;
    account.fx = next.fx_close;
    let fill = sell_all(params, account, now, price, next.fx_close);
    account.target = 0.0;
    // Who was stopped out stays out until the action changes; who was liquidated may come back.
    if why == Exit::Liquidation {
        account.action = 0.0;
    }
    fill
}

/// Closes whatever is held at a reference price.
pub(crate) fn sell_all(params: &Params, account: &mut Account, known: &Bar, price: f64, fx: f64) -> Fill {
    let side = if account.quantity > 0.0 { -1.0 } else { 1.0 };
    let units = absolute(account.quantity);
    let quote = Quote::new(params, known, price, fx, side, units);
    execute(params, account, &quote, side, units, 0.0, price, fx)
}

/// Nothing is held and nothing is wanted.
fn flatten(account: &mut Account) {
    account.target = 0.0;
    account.action = 0.0;
}

/// To the close.
pub(crate) fn mark(params: &Params, account: &mut Account, next: &Bar) {
    if account.quantity != 0.0 {
        let units = account.quantity * params.multiplier;
        account.equity += revalue(params.owned, units, account.mark, account.fx, next.close, next.fx_close);
        account.bars_held += 1.0;
    }
    account.mark = next.close;
    account.fx = next.fx_close;
}

/// Closes the position at a bar's close, at cost; the account must be marked there.
pub fn close_out(params: &Params, account: &mut Account, bar: &Bar) -> Fill {
    if account.quantity == 0.0 {
        return Fill::default();
    }
    let fill = sell_all(params, account, bar, bar.close, bar.fx_close);
    flatten(account);
    fill
}

/// A reward counts equity below this share of the capital as this share, so that it is finite after a ruinous gap.
pub(crate) const FLOOR: f64 = 1e-4;

/// What a quantity that is a whole number of lots may fall short of it by rounding.
pub(crate) const TINY: f64 = 1e-9;

/// Towards zero to a whole number of lots.
#[inline]
pub(crate) fn round_lots(quantity: f64, lot: f64) -> f64 {
    if lot > 0.0 {
        let lots = (absolute(quantity) / lot + TINY).floor() * lot;
        if quantity < 0.0 { -lots } else { lots }
    } else {
        quantity
    }
}

#[inline]
pub(crate) fn absolute(x: f64) -> f64 {
    if x < 0.0 { -x } else { x }
}

#[inline]
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

#[inline]
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}
