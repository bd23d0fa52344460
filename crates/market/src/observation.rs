//! What an account is shown of itself, beside a row of the feature table.
//!
//! The numbers are those of `account::shown`. **Nothing behind the close is in them.**

use account::{Account, Bar, Params, SHOWN, ln_1p, shown};

/// Numbers that an account is shown of itself.
pub const OBSERVED: usize = SHOWN;

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
