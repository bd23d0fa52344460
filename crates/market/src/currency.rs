//! From the currency of prices to the currency of the account.

use bars::{Bars, Class};

/// Rates from one currency to another, as of any moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Conversion {
    /// The same currency, or returns that are earned on notional of the account's currency as if it were.
    One,
    /// Prices of a pair in the data, turned over where it is quoted the other way.
    Pair { symbol: usize, inverse: bool },
}

/// How prices in `from` become money in `to`; `None` where the data hold no such pair.
pub(crate) fn find_conversion(market: &[Bars], from: &str, to: &str) -> Option<Conversion> {
    if same(from, to) {
        return Some(Conversion::One);
    }
    market.iter().enumerate().find_map(|(symbol, bars)| {
        if !matches!(bars.instrument.class, Class::Fx) {
            return None;
        }
        let letters: String = bars.symbol.chars().filter(char::is_ascii_alphabetic).collect();
        let (base, quote) = (letters.get(..3)?, letters.get(3..6)?);
        let is = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        if is(base, from) && is(quote, to) {
            Some(Conversion::Pair { symbol, inverse: false })
        } else if is(base, to) && is(quote, from) {
            Some(Conversion::Pair { symbol, inverse: true })
        } else {
            None
        }
    })
}

/// Dollars that a coin venue calls otherwise are dollars.
fn same(a: &str, b: &str) -> bool {
    let plain = |c: &str| match c.to_ascii_uppercase().as_str() {
        "USDT" | "USDC" | "BUSD" | "TUSD" | "FDUSD" | "DAI" => "USD".to_string(),
        other => other.to_string(),
    };
    plain(a) == plain(b)
}

impl Conversion {
    /// Rates at the opens and closes of a symbol's bars: the last price of the pair that was known at that moment; its
    /// own prices where the symbol is the pair.
    pub(crate) fn rates(&self, market: &[Bars], bars: &Bars) -> (Vec<f64>, Vec<f64>) {
        let Conversion::Pair { symbol, inverse } = self else {
            return (vec![1.0; bars.len()], vec![1.0; bars.len()]);
        };
        let pair = &market[*symbol];
        let turn = |price: f64| if *inverse { 1.0 / price } else { price };
        if pair.symbol == bars.symbol {
            let all = |prices: &[f64]| prices.iter().map(|p| turn(*p)).collect();
            return (all(&pair.open), all(&pair.close));
        }
        // At a moment t: the close of the last bar that had ended then, or the open of one that began then. Before the
        // pair begins its first price stands.
        let at = |time: i64| {
            let begun = pair.start.partition_point(|start| *start <= time);
            match begun.checked_sub(1) {
                None => pair.open.first().copied().unwrap_or(1.0),
                Some(last) if pair.end[last] <= time => pair.close[last],
                Some(last) => pair.open[last],
            }
        };
        let all = |times: &[i64]| times.iter().map(|time| turn(at(*time))).collect();
        (all(&bars.start), all(&bars.end))
    }
}
