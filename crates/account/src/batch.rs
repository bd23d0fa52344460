//! Many accounts at once, in groups of eight lanes; the same bits as [`crate::step()`], account by account.

use crate::lanes_simd::{advance, put_bars, take_logarithms};
use crate::state::{Account, Events, Flows, Holding};
use crate::{Bar, Params};

/// Accounts side by side: an instruction does the same for each.
pub const GROUP: usize = 8;

/// Accounts with rules and costs of their own, on bars of their own or the same for all.
#[derive(Debug, Clone)]
pub struct Accounts {
    /// `[N]` rules and costs.
    params: Vec<Params>,
    groups: Vec<Group>,
    /// `[groups]` the bars that accounts are placed on; none before [`Accounts::place`].
    placed: Vec<Row>,
    /// `[groups]` which of them: groups on the same bars as the first share its row.
    row_of: Vec<usize>,
    rewards: bool,
}

/// What eight accounts have and the close they are at, side by side; beyond the last account anything.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// As in [`Holding`].
    pub equity: &'a [f64; GROUP],
    /// As in [`Holding`].
    pub peak: &'a [f64; GROUP],
    /// As in [`Holding`].
    pub quantity: &'a [f64; GROUP],
    /// As in [`Holding`].
    pub target: &'a [f64; GROUP],
    /// As in [`Holding`].
    pub entry: &'a [f64; GROUP],
    /// As in [`Holding`].
    pub bars_held: &'a [f64; GROUP],
    /// As in [`Params`].
    pub multiplier: &'a [f64; GROUP],
    /// As in [`Params`].
    pub leverage: &'a [f64; GROUP],
    /// As in [`Bar`].
    pub close: &'a [f64; GROUP],
    /// [`Bar::fx_close`].
    pub fx: &'a [f64; GROUP],
    /// As in [`Bar`].
    pub sigma: &'a [f64; GROUP],
}

/// What the accounts decide at a close; each slice is `[N]`.
#[derive(Debug, Clone, Copy)]
pub struct Orders<'a> {
    /// As [`crate::Action::target`].
    pub target: &'a [f64],
    /// As [`crate::Action::stop`]; empty: none.
    pub stop: &'a [f64],
    /// As [`crate::Action::limit`]; empty: none.
    pub limit: &'a [f64],
}

impl<'a> Orders<'a> {
    /// Targets without stop and limit.
    pub fn targets(target: &'a [f64]) -> Orders<'a> {
        Orders { target, stop: &[], limit: &[] }
    }
}

impl Accounts {
    /// New accounts, one for each of these.
    pub fn new(params: &[Params]) -> Accounts {
        let groups = params.chunks(GROUP).map(|own| Group::new(in_lanes(own))).collect();
        Accounts { params: params.to_vec(), groups, placed: Vec::new(), row_of: Vec::new(), rewards: false }
    }

    /// The same accounts, which also compute rewards: logarithms take about a third of a step.
    pub fn with_rewards(self) -> Accounts {
        Accounts { rewards: true, ..self }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.params.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// Takes all from the close of `now` to the close of `next`.
    ///
    /// # Panics
    ///
    /// If there is not an order for each.
    pub fn step(&mut self, orders: Orders<'_>, now: &Bar, next: &Bar) {
        assert_eq!(orders.target.len(), self.len(), "a target for each account");
        let mut row = Row { rewards: self.rewards, ..Row::same(now, next) };
        for (at, group) in self.groups.iter_mut().enumerate() {
            row.take_orders(orders, at * GROUP);
            group.events = [0; GROUP];
            advance(group, &row);
        }
        self.end_step();
    }

    /// The same, each account on its own bars: account i goes from `bars[rows[i]]` to the bar behind it.
    ///
    /// # Panics
    ///
    /// If there is not an order and a row for each, or a row is the last.
    pub fn step_each(&mut self, orders: Orders<'_>, bars: &[Bar], rows: &[u32]) {
        assert_eq!([orders.target.len(), rows.len()], [self.len(); 2], "an order and a row for each account");
        let mut row = Row { rewards: self.rewards, ..Row::same(&Bar::flat(1.0), &Bar::flat(1.0)) };
        for (at, (group, rows)) in self.groups.iter_mut().zip(rows.chunks(GROUP)).enumerate() {
            put_bars(&mut row, bars, rows_in_lanes(rows));
            row.take_orders(orders, at * GROUP);
            group.events = [0; GROUP];
            advance(group, &row);
        }
        self.end_step();
    }

    /// Places each account at a close of its own, account i at that of `bars[rows[i]]`, where it can be [`seen`] before
    /// [`Accounts::step_placed`] takes it to the bar behind.
    ///
    /// # Panics
    ///
    /// If there is not a row for each, or a row is the last.
    ///
    /// [`seen`]: Accounts::seen
    pub fn place(&mut self, bars: &[Bar], rows: &[u32]) {
        assert_eq!(rows.len(), self.len(), "a row for each account");
        if self.placed.len() != self.groups.len() {
            let nowhere = Row { rewards: self.rewards, ..Row::same(&Bar::flat(1.0), &Bar::flat(1.0)) };
            self.placed.resize(self.groups.len(), nowhere);
            self.row_of.resize(self.groups.len(), 0);
        }
        let first = rows_in_lanes(&rows[..rows.len().min(GROUP)]);
        for (group, rows) in rows.chunks(GROUP).enumerate() {
            let rows = rows_in_lanes(rows);
            self.row_of[group] = if rows == first { 0 } else { group };
            if group == 0 || rows != first {
                put_bars(&mut self.placed[group], bars, rows);
            }
        }
    }

    /// `[groups]` what the accounts that are placed have, and where.
    pub fn seen(&self) -> impl Iterator<Item = Seen<'_>> {
        self.groups.iter().zip(&self.row_of).map(|(group, row)| (group, &self.placed[*row])).map(|(group, row)| Seen {
            equity: &group.equity,
            peak: &group.peak,
            quantity: &group.quantity,
            target: &group.target,
            entry: &group.entry,
            bars_held: &group.bars_held,
            multiplier: &group.params.multiplier,
            leverage: &group.params.leverage,
            close: &row.close_now,
            fx: &row.fx_now,
            sigma: &row.sigma,
        })
    }

    /// [`Accounts::step_each`] from where they are placed, without stops and limits.
    ///
    /// # Panics
    ///
    /// If there is not a target for each, or they are not placed.
    pub fn step_placed(&mut self, targets: &[f64]) {
        assert_eq!([targets.len(), self.placed.len()], [self.len(), self.groups.len()], "a target for each, placed");
        for (at, (group, row)) in self.groups.iter_mut().zip(&self.row_of).enumerate() {
            let row = &mut self.placed[*row];
            row.take_orders(Orders::targets(targets), at * GROUP);
            group.events = [0; GROUP];
            advance(group, row);
        }
        self.end_step();
    }

    /// Rewards, where they are wanted.
    fn end_step(&mut self) {
        if self.rewards {
            take_logarithms(&mut self.groups);
        }
    }

    /// Account `i` as it stands.
    pub fn account(&self, i: usize) -> Account {
        let (group, lane) = self.lane_of(i);
        let at = |field: &[f64; GROUP]| field[lane];
        Account {
            equity: at(&group.equity),
            peak: at(&group.peak),
            quantity: at(&group.quantity),
            target: at(&group.target),
            action: at(&group.action),
            mark: at(&group.mark),
            fx: at(&group.fx),
            entry: at(&group.entry),
            bars_held: at(&group.bars_held),
            stop: at(&group.stop),
            limit: at(&group.limit),
            terminated: at(&group.ended) != 0.0,
            flows: Flows {
                fee: at(&group.fee),
                spread: at(&group.spread),
                impact: at(&group.impact),
                swap: at(&group.swap),
                borrow: at(&group.borrow),
                funding: at(&group.funding),
                dividend: at(&group.dividends),
                traded: at(&group.traded),
                closed: at(&group.closed),
            },
        }
    }

    /// What account `i` holds, without what it paid.
    #[inline]
    pub fn holding(&self, i: usize) -> Holding {
        let (group, lane) = self.lane_of(i);
        Holding {
            equity: group.equity[lane],
            peak: group.peak[lane],
            quantity: group.quantity[lane],
            target: group.target[lane],
            entry: group.entry[lane],
            bars_held: group.bars_held[lane],
        }
    }

    /// Puts an account in the place of account `i`, which keeps its rules and costs.
    pub fn set_account(&mut self, i: usize, account: &Account) {
        let lane = i % GROUP;
        let group = &mut self.groups[i / GROUP];
        for (field, value) in [
            (&mut group.equity, account.equity),
            (&mut group.peak, account.peak),
            (&mut group.quantity, account.quantity),
            (&mut group.target, account.target),
            (&mut group.action, account.action),
            (&mut group.mark, account.mark),
            (&mut group.fx, account.fx),
            (&mut group.entry, account.entry),
            (&mut group.bars_held, account.bars_held),
            (&mut group.stop, account.stop),
            (&mut group.limit, account.limit),
            (&mut group.ended, f64::from(u8::from(account.terminated))),
            (&mut group.fee, account.flows.fee),
            (&mut group.spread, account.flows.spread),
            (&mut group.impact, account.flows.impact),
            (&mut group.swap, account.flows.swap),
            (&mut group.borrow, account.flows.borrow),
            (&mut group.funding, account.flows.funding),
            (&mut group.dividends, account.flows.dividend),
            (&mut group.traded, account.flows.traded),
            (&mut group.closed, account.flows.closed),
        ] {
            field[lane] = value;
        }
    }

    /// Account `i` starts again with its capital.
    pub fn reset(&mut self, i: usize) {
        let account = Account::new(&self.params[i]);
        self.set_account(i, &account);
    }

    /// Account `i` starts again with other rules and costs.
    pub fn replace(&mut self, i: usize, params: &Params) {
        self.params[i] = *params;
        let at = i / GROUP;
        let own = &self.params[at * GROUP..self.params.len().min((at + 1) * GROUP)];
        self.groups[at].params = LaneParams::new(in_lanes(own));
        self.reset(i);
    }

    /// What happened to account `i` in the last step.
    #[inline]
    pub fn events(&self, i: usize) -> Events {
        let (group, lane) = self.lane_of(i);
        Events(group.events[lane])
    }

    /// Copies equities, `[N]`.
    pub fn equity(&self, to: &mut [f64]) {
        copy(&self.groups, to, |group| &group.equity);
    }

    /// Copies the last step's rewards, `[N]`; 0 unless [`Accounts::with_rewards`].
    pub fn rewards(&self, to: &mut [f64]) {
        copy(&self.groups, to, |group| &group.reward);
    }

    /// Copies positions, `[N]` units.
    pub fn quantities(&self, to: &mut [f64]) {
        copy(&self.groups, to, |group| &group.quantity);
    }

    /// Copies the notional of all fills so far, `[N]`.
    pub fn traded(&self, to: &mut [f64]) {
        copy(&self.groups, to, |group| &group.traded);
    }

    /// Copies how many positions each has closed or turned so far, `[N]`.
    pub fn closed(&self, to: &mut [f64]) {
        copy(&self.groups, to, |group| &group.closed);
    }

    #[inline]
    fn lane_of(&self, i: usize) -> (&Group, usize) {
        assert!(i < self.len(), "account {i} of {}", self.len());
        (&self.groups[i / GROUP], i % GROUP)
    }
}

fn copy(groups: &[Group], to: &mut [f64], field: impl Fn(&Group) -> &[f64; GROUP]) {
    for (group, to) in groups.iter().zip(to.chunks_mut(GROUP)) {
        match <&mut [f64; GROUP]>::try_from(&mut *to) {
            Ok(whole) => *whole = *field(group),
            Err(_) => to.copy_from_slice(&field(group)[..to.len()]),
        }
    }
}

/// Rules of up to eight accounts; lanes beyond the last repeat it, and nobody reads them.
fn in_lanes(params: &[Params]) -> [Params; GROUP] {
    std::array::from_fn(|lane| params[lane.min(params.len() - 1)])
}

/// Rows of up to eight accounts; lanes beyond the last repeat it.
#[inline]
fn rows_in_lanes(rows: &[u32]) -> [u32; GROUP] {
    match rows.try_into() {
        Ok(whole) => whole,
        Err(_) => std::array::from_fn(|lane| rows[lane.min(rows.len() - 1)]),
    }
}

/// A struct of lanes.
macro_rules! lanes {
    ($(#[$what:meta])* $name:ident { $($field:ident),* $(,)? } $($flag:ident: $type:ty)?) => {
        $(#[$what])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C, align(64))]
        pub(crate) struct $name {
            $(pub(crate) $field: [f64; GROUP],)*
            $(pub(crate) $flag: $type,)?
        }
    };
}

lanes!(
    /// [`Params`] of a group; truths are 1 or 0.
    LaneParams {
        capital, fraction, vol_target, lots, leverage, maintenance, liquidation, shortable, owned, band,
        band_of_target, multiplier, lot, tick, min_notional, fee_rate, fee_per_unit, spread_scale, impact_rate,
        volume_cap, borrow_rate, swap_long, swap_short,
    }
);

lanes!(
    /// Two bars and what was decided between them; names without a bar's are of the second.
    Row {
        wanted, stop_distance, limit_distance, close_now, fx_now, sigma, volume, half_spread, flat_next, open, high,
        low, close, fx_open, fx_close, tradable, split, dividend, funding_open, funding_inside, swap_open,
        swap_inside, borrow_open, borrow_inside, close_out, sigma_next, volume_next, spread_next,
    }
    rewards: bool
);

/// Eight accounts.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct Group {
    pub(crate) params: LaneParams,
    pub(crate) equity: [f64; GROUP],
    pub(crate) peak: [f64; GROUP],
    pub(crate) quantity: [f64; GROUP],
    pub(crate) target: [f64; GROUP],
    pub(crate) action: [f64; GROUP],
    pub(crate) mark: [f64; GROUP],
    pub(crate) fx: [f64; GROUP],
    pub(crate) entry: [f64; GROUP],
    pub(crate) bars_held: [f64; GROUP],
    pub(crate) stop: [f64; GROUP],
    pub(crate) limit: [f64; GROUP],
    pub(crate) ended: [f64; GROUP],
    pub(crate) fee: [f64; GROUP],
    pub(crate) spread: [f64; GROUP],
    pub(crate) impact: [f64; GROUP],
    pub(crate) swap: [f64; GROUP],
    pub(crate) borrow: [f64; GROUP],
    pub(crate) funding: [f64; GROUP],
    pub(crate) dividends: [f64; GROUP],
    pub(crate) traded: [f64; GROUP],
    pub(crate) closed: [f64; GROUP],
    pub(crate) reward: [f64; GROUP],
    pub(crate) events: [u8; GROUP],
}

impl LaneParams {
    fn new(params: [Params; GROUP]) -> LaneParams {
        let of = |field: fn(&Params) -> f64| params.map(|p| field(&p));
        let truth = |yes: bool| f64::from(u8::from(yes));
        LaneParams {
            capital: of(|p| p.capital),
            fraction: of(|p| p.fraction),
            vol_target: of(|p| p.vol_target),
            lots: of(|p| p.lots),
            leverage: of(|p| p.leverage),
            maintenance: of(|p| p.maintenance),
            liquidation: of(|p| p.liquidation),
            shortable: params.map(|p| truth(p.shortable)),
            owned: params.map(|p| truth(p.owned)),
            band: of(|p| p.band),
            band_of_target: params.map(|p| truth(p.band_of_target)),
            multiplier: of(|p| p.multiplier),
            lot: of(|p| p.lot),
            tick: of(|p| p.tick),
            min_notional: of(|p| p.min_notional),
            fee_rate: of(|p| p.fee),
            fee_per_unit: of(|p| p.fee_per_unit),
            spread_scale: of(|p| p.spread),
            impact_rate: of(|p| p.impact),
            volume_cap: of(|p| p.volume_cap),
            borrow_rate: of(|p| p.borrow),
            swap_long: of(|p| p.swap_long),
            swap_short: of(|p| p.swap_short),
        }
    }
}

impl Group {
    fn new(params: [Params; GROUP]) -> Group {
        let lanes = LaneParams::new(params);
        let zero = [0.0; GROUP];
        Group {
            params: lanes,
            equity: lanes.capital,
            peak: lanes.capital,
            fx: [1.0; GROUP],
            quantity: zero,
            target: zero,
            action: zero,
            mark: zero,
            entry: zero,
            bars_held: zero,
            stop: zero,
            limit: zero,
            ended: zero,
            fee: zero,
            spread: zero,
            impact: zero,
            swap: zero,
            borrow: zero,
            funding: zero,
            dividends: zero,
            traded: zero,
            closed: zero,
            reward: zero,
            events: [0; GROUP],
        }
    }
}

impl Row {
    /// The same bars for all lanes.
    fn same(now: &Bar, next: &Bar) -> Row {
        let all = |x: f64| [x; GROUP];
        Row {
            wanted: all(0.0),
            stop_distance: all(0.0),
            limit_distance: all(0.0),
            close_now: all(now.close),
            fx_now: all(now.fx_close),
            sigma: all(now.sigma),
            volume: all(now.volume),
            half_spread: all(now.half_spread),
            flat_next: all(now.flat_next),
            open: all(next.open),
            high: all(next.high),
            low: all(next.low),
            close: all(next.close),
            fx_open: all(next.fx_open),
            fx_close: all(next.fx_close),
            tradable: all(next.tradable),
            split: all(next.split),
            dividend: all(next.dividend),
            funding_open: all(next.funding_open),
            funding_inside: all(next.funding_inside),
            swap_open: all(next.swap_open),
            swap_inside: all(next.swap_inside),
            borrow_open: all(next.borrow_open),
            borrow_inside: all(next.borrow_inside),
            close_out: all(next.close_out),
            sigma_next: all(next.sigma),
            volume_next: all(next.volume),
            spread_next: all(next.half_spread),
            rewards: true,
        }
    }

    /// The bars of one lane.
    #[inline]
    pub(crate) fn put(&mut self, lane: usize, now: &Bar, next: &Bar) {
        self.close_now[lane] = now.close;
        self.fx_now[lane] = now.fx_close;
        self.sigma[lane] = now.sigma;
        self.volume[lane] = now.volume;
        self.half_spread[lane] = now.half_spread;
        self.flat_next[lane] = now.flat_next;
        self.open[lane] = next.open;
        self.high[lane] = next.high;
        self.low[lane] = next.low;
        self.close[lane] = next.close;
        self.fx_open[lane] = next.fx_open;
        self.fx_close[lane] = next.fx_close;
        self.tradable[lane] = next.tradable;
        self.split[lane] = next.split;
        self.dividend[lane] = next.dividend;
        self.funding_open[lane] = next.funding_open;
        self.funding_inside[lane] = next.funding_inside;
        self.swap_open[lane] = next.swap_open;
        self.swap_inside[lane] = next.swap_inside;
        self.borrow_open[lane] = next.borrow_open;
        self.borrow_inside[lane] = next.borrow_inside;
        self.close_out[lane] = next.close_out;
        self.sigma_next[lane] = next.sigma;
        self.volume_next[lane] = next.volume;
        self.spread_next[lane] = next.half_spread;
    }

    /// The orders of the accounts from `at` on; lanes beyond the last decide nothing.
    fn take_orders(&mut self, orders: Orders<'_>, at: usize) {
        let take = |from: &[f64], none: f64| -> [f64; GROUP] {
            match from.get(at..at + GROUP) {
                Some(whole) => whole.try_into().expect("a slice of eight"),
                None => std::array::from_fn(|lane| from.get(at + lane).copied().unwrap_or(none)),
            }
        };
        self.wanted = take(orders.target, f64::NAN);
        self.stop_distance = if orders.stop.is_empty() { [0.0; GROUP] } else { take(orders.stop, 0.0) };
        self.limit_distance = if orders.limit.is_empty() { [0.0; GROUP] } else { take(orders.limit, 0.0) };
    }
}

#[cfg(test)]
mod tests;
