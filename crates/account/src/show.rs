//! What an account is shown of itself at the close of a bar.
//!
//! Units are fixed, so that nothing is fitted: fractions of equity, deviations of the return since the position was
//! opened, logarithms of bars. **Nothing behind the close is in it.** Device twin: `show.cuh`.

use crate::{Bar, Holding, Params};

/// Numbers that an account is shown of itself: position, what an order still wants, result of the position in
/// deviations of its holding time, ln(1 + bars held), drawdown, share of the margin, time of day, ln(1 + bars to a
/// forced close).
pub const SHOWN: usize = 8;

/// What an account is shown; the logarithms are those of bars held and of bars to a forced close.
#[inline]
pub fn shown(
    params: &Params,
    holding: &Holding,
    bar: &Bar,
    time_of_day: f32,
    [bars_held, bars_to_close]: [f32; 2],
) -> [f32; SHOWN] {
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
