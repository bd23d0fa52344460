//! What an account is shown of itself, beside a row of the feature table.
//!
//! Units are fixed, so that nothing is fitted: fractions of equity, deviations of the return since the position was
//! opened, logarithms of bars. **Nothing behind the close is in it.**

use account::{Account, Bar, Holding, Params, ln_1p};

/// Numbers that an account is shown of itself.
pub const OBSERVED: usize = 8;

/// What each is.
pub const OBSERVED_NAMES: [&str; OBSERVED] = [
    "position",      // value of the position over equity, negative when short
    "pending",       // what an order still wants, the same way
    "unrealised",    // result of the position in deviations of its holding time: r / (σ·√bars held)
    "bars_held",     // ln(1 + bars) since it has had its sign
    "drawdown",      // 1 - equity / largest equity
    "margin_used",   // notional over the most that is allowed
    "time_of_day",   // of the trading day, from 0 to 1
    "bars_to_close", // ln(1 + bars) until positions are closed, 0 where they are not
];

/// What does not depend on the account: time of day, and bars until a forced close.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RowTime {
    /// From 0 to 1.
    pub time_of_day: f32,
    /// Bars until positions are closed by the session's hours; 0 where they are not.
    pub bars_to_close: f32,
}

/// Writes what an account is shown at the close of a bar.
pub fn observe(params: &Params, account: &Account, bar: &Bar, time: RowTime, to: &mut [f32]) {
    let logarithms = [log_bars(account.bars_held), log_bars(f64::from(time.bars_to_close))];
    to.copy_from_slice(&shown(params, &account.into(), bar, time.time_of_day, logarithms));
}

/// Whether short, flat and long are legal at the close of a bar; flat always is.
#[inline]
pub fn legal_sides(params: &Params, bar: &Bar) -> [bool; 3] {
    let open = bar.flat_next == 0.0;
    [params.shortable && open, true, open]
}

/// ln(1 + bars).
pub(crate) fn log_bars(bars: f64) -> f32 {
    ln_1p(bars) as f32
}

/// The same where the logarithms of bars held and of bars to a forced close are at hand.
#[inline]
pub(crate) fn shown(
    params: &Params,
    holding: &Holding,
    bar: &Bar,
    time_of_day: f32,
    [bars_held, bars_to_close]: [f32; 2],
) -> [f32; OBSERVED] {
    let unit = params.multiplier * bar.close * bar.fx_close;
    let equity = if holding.equity > 0.0 { holding.equity } else { f64::INFINITY };
    let position = holding.quantity * unit / equity;
    let moved = if holding.entry > 0.0 { bar.close / holding.entry - 1.0 } else { 0.0 };
    let side = if holding.quantity > 0.0 { 1.0 } else { -1.0 };
    let deviation = bar.sigma * holding.bars_held.sqrt();
    let unrealised = if deviation > 0.0 && holding.quantity != 0.0 { side * moved / deviation } else { 0.0 };
    [
        position as f32,
        ((holding.target - holding.quantity) * unit / equity) as f32,
        unrealised.clamp(-10.0, 10.0) as f32,
        bars_held,
        (1.0 - holding.equity / holding.peak) as f32,
        (position.abs() / params.leverage) as f32,
        time_of_day,
        bars_to_close,
    ]
}
