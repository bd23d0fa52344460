//! What an account is, what it is told and what it answers.

use crate::Params;

/// One account that trades one symbol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Account {
    /// Money and the value of the position at the last mark.
    pub equity: f64,
    /// Largest equity at any close so far.
    pub peak: f64,
    /// Units held, negative when short.
    pub quantity: f64,
    /// Units wanted; differs from `quantity` while an order waits.
    pub target: f64,
    /// The last action that was decided on; 0 after a liquidation or a close-out.
    pub action: f64,
    /// Price at which the position was last marked.
    pub mark: f64,
    /// Exchange rate at which it was.
    pub fx: f64,
    /// Mean price of the position's fills; 0 when flat.
    pub entry: f64,
    /// Closes at which the position has had its present sign.
    pub bars_held: f64,
    /// Price that stops the position out; 0: none.
    pub stop: f64,
    /// Price that takes its profit; 0: none.
    pub limit: f64,
    /// Whether it was closed for good.
    pub terminated: bool,
    /// What was paid and received so far.
    pub flows: Flows,
}

impl Account {
    /// An account that has only its capital.
    pub fn new(params: &Params) -> Account {
        Account {
            equity: params.capital,
            peak: params.capital,
            quantity: 0.0,
            target: 0.0,
            action: 0.0,
            mark: 0.0,
            fx: 1.0,
            entry: 0.0,
            bars_held: 0.0,
            stop: 0.0,
            limit: 0.0,
            terminated: false,
            flows: Flows::default(),
        }
    }
}

/// What an account holds, without what it paid.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "as in `Account`")]
pub struct Holding {
    pub equity: f64,
    pub peak: f64,
    pub quantity: f64,
    pub target: f64,
    pub entry: f64,
    pub bars_held: f64,
}

impl From<&Account> for Holding {
    fn from(account: &Account) -> Holding {
        let Account { equity, peak, quantity, target, entry, bars_held, .. } = *account;
        Holding { equity, peak, quantity, target, entry, bars_held }
    }
}

/// What an account has paid (positive) and received (negative) by kind, and how much it has traded; in account
/// currency.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Flows {
    /// Commissions and exchange fees.
    pub fee: f64,
    /// Half the spread of every fill, with what rounding to the tick took.
    pub spread: f64,
    /// Market impact of every fill.
    pub impact: f64,
    /// Overnight financing.
    pub swap: f64,
    /// Borrowing of what was sold short.
    pub borrow: f64,
    /// Funding of perpetual swaps.
    pub funding: f64,
    /// Dividends; negative for who received them.
    pub dividend: f64,
    /// Notional of all fills, both sides.
    pub traded: f64,
    /// Positions that were closed or turned.
    pub closed: f64,
}

impl Flows {
    /// What trading and holding cost: everything but dividends.
    pub fn costs(&self) -> f64 {
        self.fee + self.spread + self.impact + self.swap + self.borrow + self.funding
    }
}

/// What a policy decides at a close.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Action {
    /// Full positions to hold from the next open on: 1 long, 0 flat, -1 short, or a part. Not finite: no decision, what
    /// was wanted before stays.
    pub target: f64,
    /// Distance of the stop from the next open as a share of it; 0 sets none and keeps the one there is. A flat account
    /// takes an action with a stop or limit as a new decision; without one, who was stopped out stays out until the
    /// action changes (without a band; with one, a target that is said again is wanted again).
    pub stop: f64,
    /// Distance of the limit.
    pub limit: f64,
}

impl Action {
    /// A target without stop and limit.
    pub fn target(target: f64) -> Action {
        Action { target, stop: 0.0, limit: 0.0 }
    }
}

/// What one step gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// `ln` of equity at this close over equity at the close before; 0 where the account had ended.
    pub reward: f64,
    /// Equity at the open, gap and flows counted, before the order filled.
    pub equity_open: f64,
    /// The order's fill at the open; its quantity is 0 where nothing filled.
    pub fill: Fill,
    /// What closed the position later in the bar.
    pub exit: Fill,
    /// What ended the position inside the bar or at its close.
    pub events: Events,
}

/// An execution.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fill {
    /// Units bought, negative when sold.
    pub quantity: f64,
    /// Price, spread and impact included.
    pub price: f64,
    /// What spread, impact and fee took, in account currency.
    pub cost: f64,
}

/// Things that happened to an account in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events(pub(crate) u8);

/// One of [`Events`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// The order was cut because equity no longer carried the position.
    MarginCall = 1,
    /// The position was closed because equity had fallen too low for it.
    Liquidated = 2,
    /// Its stop was touched.
    Stopped = 4,
    /// Its limit was touched.
    Limited = 8,
    /// It was closed at the close, because the data say so.
    ClosedOut = 16,
    /// Equity fell to the level of ruin, and the account was closed for good.
    Ruined = 32,
}

impl Events {
    /// Whether this happened.
    pub fn contains(self, event: Event) -> bool {
        self.0 & event as u8 != 0
    }

    pub(crate) fn add(&mut self, event: Event) {
        self.0 |= event as u8;
    }
}

/// Why a position was closed inside a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By the stop.
    Stop,
    /// By the limit.
    Limit,
    /// By the broker.
    Liquidation,
}
