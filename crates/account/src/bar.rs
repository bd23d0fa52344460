//! A row of the market's table of money: what happened in a bar, and what was known at its close.

/// What one bar means for an account. All numbers are f64 and lie in this order in memory.
///
/// What happened belongs to this bar and is booked in it; what was known at its close sizes and prices the next order,
/// and nothing else does. Prices and flows are per unit, in the currency of the prices.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// First price.
    pub open: f64,
    /// Highest price.
    pub high: f64,
    /// Lowest price.
    pub low: f64,
    /// Last price.
    pub close: f64,
    /// Account currency for one unit of the price's currency, at the open.
    pub fx_open: f64,
    /// The same at the close.
    pub fx_close: f64,
    /// 1 where prices are valid and orders can fill, else 0: nothing happens in such a bar.
    pub tradable: f64,
    /// Units that one unit became before the open (2 for a two-for-one split); 1 otherwise.
    pub split: f64,
    /// Dividend, due at the open to who holds the position before it.
    pub dividend: f64,
    /// Sum of mark price times funding rate due up to the open: the position before the fill pays.
    pub funding_open: f64,
    /// The same inside the bar: the position after the fill pays.
    pub funding_inside: f64,
    /// Years of overnight financing due up to the open.
    pub swap_open: f64,
    /// Years of overnight financing due inside the bar.
    pub swap_inside: f64,
    /// Years of borrowing due up to the open.
    pub borrow_open: f64,
    /// Years of borrowing due inside the bar.
    pub borrow_inside: f64,
    /// 1 where a position is closed at this bar's close: a suspected split follows, or the data end.
    pub close_out: f64,
    /// Known at the close: deviation of one bar's return.
    pub sigma: f64,
    /// Known at the close: usual volume of the next bar in units; 0 where it is not known, and then impact and cap are
    /// off.
    pub volume: f64,
    /// Known at the close: half the spread as a share of the price.
    pub half_spread: f64,
    /// Known at the close: 1 where the position is to be closed at the next open (the session or membership ends).
    pub flat_next: f64,
}

impl Bar {
    /// A bar in which the price does not move, in the account's currency, without spread and volume.
    pub fn flat(price: f64) -> Bar {
        Bar {
            open: price,
            high: price,
            low: price,
            close: price,
            fx_open: 1.0,
            fx_close: 1.0,
            tradable: 1.0,
            split: 1.0,
            dividend: 0.0,
            funding_open: 0.0,
            funding_inside: 0.0,
            swap_open: 0.0,
            swap_inside: 0.0,
            borrow_open: 0.0,
            borrow_inside: 0.0,
            close_out: 0.0,
            sigma: 0.0,
            volume: 0.0,
            half_spread: 0.0,
            flat_next: 0.0,
        }
    }
}
