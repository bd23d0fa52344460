//! What a walk leaves behind.

use account::Flows;
use serde::Serialize;

/// Everything that a walk through an account left behind.
#[derive(Debug, Clone, Default)]
pub struct Walked {
    /// `[steps]` the close at which each step ended, in nanoseconds since 1970 UTC.
    pub times: Vec<i64>,
    /// `[steps]` the trading day of each, in days since 1970.
    pub days: Vec<i32>,
    /// `[steps + 1]` equity, first the capital.
    pub equity: Vec<f64>,
    /// `[steps + 1]` equity of the same decisions without any cost; empty of a walk alone.
    pub gross_equity: Vec<f64>,
    /// `[steps + 1]` equity of buying and holding at cost; empty of a walk alone.
    pub hold_equity: Vec<f64>,
    /// `[steps]` notional of all positions over equity.
    pub exposure: Vec<f64>,
    /// Notional of all fills over equity when they filled, summed.
    pub traded: f64,
    /// Positions that were opened and closed, in the order of closing.
    pub trades: Vec<Trade>,
    /// What was paid, and how much was traded.
    pub flows: Flows,
    /// `[S]` what each symbol earned, costs counted.
    pub earned: Vec<f64>,
    /// Closings that no decision asked for.
    pub incidents: Vec<Incident>,
    /// Positions at closes, where any was held.
    pub positions: Vec<PositionRow>,
}

impl Walked {
    /// `[D]` trading days in ascending order and the return of each. An account that is gone returns 0; a day that
    /// comes again after a later one belongs to that.
    pub fn daily_returns(&self) -> (Vec<i32>, Vec<f64>) {
        let (mut days, mut returns): (Vec<i32>, Vec<f64>) = Default::default();
        let mut before = self.equity.first().copied().unwrap_or(1.0);
        for (at, day) in self.days.iter().enumerate() {
            if self.days.get(at + 1).is_some_and(|next| next <= day) {
                continue;
            }
            let after = self.equity[at + 1].max(0.0);
            days.push(*day);
            returns.push(if before > 0.0 { after / before - 1.0 } else { 0.0 });
            before = after;
        }
        (days, returns)
    }
}

/// A position from its opening to its closing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trade {
    /// Which symbol, by its number.
    pub symbol: usize,
    /// When its first fill was, in nanoseconds since 1970 UTC.
    pub opened: i64,
    /// When its last fill was.
    pub closed: i64,
    /// Units of the first fill, negative when short.
    pub quantity: f64,
    /// Price of the first fill.
    pub entry: f64,
    /// Price of the last.
    pub exit: f64,
    /// What it earned, costs counted, in account currency.
    pub result: f64,
    /// The same over equity when it was opened.
    pub result_share: f64,
}

/// A closing that no decision asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Incident {
    /// Which symbol.
    pub symbol: String,
    /// When, in nanoseconds since 1970 UTC.
    pub time: i64,
    /// `liquidation`, `stop`, `limit`, `suspected split`, `end of data`, `margin call` or `ruin`.
    pub what: &'static str,
    /// What holding on to the next open would have added, where the jump was real; null where there is no next bar.
    pub if_real: Option<f64>,
}

/// A position at a close.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PositionRow {
    /// When, in nanoseconds since 1970 UTC.
    pub time: i64,
    /// Which symbol, by its number.
    pub symbol: usize,
    /// Units, negative when short.
    pub quantity: f64,
    /// Its value over equity, negative when short.
    pub weight: f64,
}
