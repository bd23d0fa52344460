//! What an account may do and what it pays.

/// Rules and costs of an account; rates are shares of the traded value (0.0001 is one basis point).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// Equity at the start.
    pub capital: f64,
    /// Share of equity in a full position (an action of 1), where neither `vol_target` nor `lots` is set.
    pub fraction: f64,
    /// Deviation of one bar that a full position is sized to, up to `leverage`; 0: off.
    pub vol_target: f64,
    /// Units of a full position; 0: sized by equity.
    pub lots: f64,
    /// Most notional, as a multiple of equity, that an order may lead to.
    pub leverage: f64,
    /// Margin call: below this equity, as a share of notional, the next open cuts the position to what `leverage`
    /// allows.
    pub maintenance: f64,
    /// Below this equity, as a share of notional, the position is closed at once, inside the bar.
    pub liquidation: f64,
    /// Whether negative positions are allowed.
    pub shortable: bool,
    /// Whether units are bought and owned (shares, coins), so that their value moves with the exchange rate; else only
    /// profits are converted (currencies, futures, contracts for difference).
    pub owned: bool,
    /// A target trades only if it lies further from the position than this share of equity (or of the target, see
    /// `band_of_target`); negative: a repeated target keeps its quantity, any other trades.
    pub band: f64,
    /// Whether `band` is a share of the target instead of equity.
    pub band_of_target: bool,
    /// Profit of one unit when the price moves by one.
    pub multiplier: f64,
    /// Smallest step of the quantity; 0: fractional.
    pub lot: f64,
    /// Smallest step of the price; 0: none.
    pub tick: f64,
    /// Smallest order in account currency; closing is always allowed.
    pub min_notional: f64,
    /// Fee of one side.
    pub fee: f64,
    /// Fee of one side per unit, in the currency of the prices.
    pub fee_per_unit: f64,
    /// What half the spread of a bar is multiplied by: 1, or the cost multiple of a replay.
    pub spread: f64,
    /// λ of the square-root impact λ·σ·√(quantity / volume).
    pub impact: f64,
    /// Largest share of the usual volume by which one bar may increase a position; 0: no cap.
    pub volume_cap: f64,
    /// Paid on the value of a short position, per year.
    pub borrow: f64,
    /// Overnight financing of a long position, per year; negative is received.
    pub swap_long: f64,
    /// Overnight financing of a short position, per year; negative is received.
    pub swap_short: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            capital: 100_000.0,
            fraction: 1.0,
            vol_target: 0.0,
            lots: 0.0,
            leverage: 1.0,
            maintenance: 0.5,
            liquidation: 0.25,
            shortable: true,
            owned: false,
            band: -1.0,
            band_of_target: false,
            multiplier: 1.0,
            lot: 0.0,
            tick: 0.0,
            min_notional: 0.0,
            fee: 0.0,
            fee_per_unit: 0.0,
            spread: 1.0,
            impact: 0.0,
            volume_cap: 0.0,
            borrow: 0.0,
            swap_long: 0.0,
            swap_short: 0.0,
        }
    }
}

impl Params {
    /// An account is closed for good when its equity falls to this share of the capital.
    pub const RUIN: f64 = 0.01;

    /// The same account with every cost of trading and holding multiplied. Funding, dividends and financing that is
    /// received stay as they are: they are not costs that a better broker would lower.
    pub fn with_costs(&self, multiple: f64) -> Params {
        let cost = |rate: f64| if rate > 0.0 { rate * multiple } else { rate };
        Params {
            fee: self.fee * multiple,
            fee_per_unit: self.fee_per_unit * multiple,
            spread: self.spread * multiple,
            impact: self.impact * multiple,
            borrow: cost(self.borrow),
            swap_long: cost(self.swap_long),
            swap_short: cost(self.swap_short),
            ..*self
        }
    }
}
