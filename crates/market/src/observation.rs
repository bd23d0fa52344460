//! What an account is shown of itself, beside a row of the feature table.
//!
//! Units are fixed, so that nothing is fitted: fractions of equity, deviations of the return since the position was
//! opened, logarithms of bars. **Nothing behind the close is in it.**

use account::{Account, Bar, Params, ln_1p};

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
    let unit = params.multiplier * bar.close * bar.fx_close;
    let equity = if account.equity > 0.0 { account.equity } else { f64::INFINITY };
    let position = account.quantity * unit / equity;
    let moved = if account.entry > 0.0 { bar.close / account.entry - 1.0 } else { 0.0 };
    let side = if account.quantity > 0.0 { 1.0 } else { -1.0 };
    let deviation = bar.sigma * account.bars_held.sqrt();
    let unrealised = if deviation > 0.0 && account.quantity != 0.0 { side * moved / deviation } else { 0.0 };
    let all = [
        position,
        (account.target - account.quantity) * unit / equity,
        unrealised.clamp(-10.0, 10.0),
        ln_1p(account.bars_held),
        1.0 - account.equity / account.peak,
        position.abs() / params.leverage,
        f64::from(time.time_of_day),
        ln_1p(f64::from(time.bars_to_close)),
    ];
    to.iter_mut().zip(all).for_each(|(to, x)| *to = x as f32);
}
