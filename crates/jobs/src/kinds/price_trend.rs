//! Which features show the trend of a price: those that an indicator of trends is in (`close/sma(50) - 1`), where it is
//! taken of a price. An average of volume, of a range or of an oscillator is none. Which way such a feature points, as
//! in `sma(50)/close - 1`, or whether it shows a trend at all, its text does not tell: a market finds that on its
//! training rows.

use features::language::{Expr, parse};
use features::{Indicator, Kind, catalogue};

/// Whether the text of a feature has the trend of a price in it.
pub(super) fn is_price_trend(text: &str) -> bool {
    let Ok(set) = parse(text, None) else { return false };
    set.groups.iter().flat_map(|group| &group.features).any(|feature| has_trend(&feature.expr))
}

fn has_trend(expr: &Expr) -> bool {
    match expr {
        Expr::Number(..) | Expr::Text(..) => false,
        // What it names is a column of the user's.
        Expr::Call { name, .. } if name == "col" => false,
        Expr::Call { args, .. } => is_trend(expr) || args.iter().any(has_trend),
        Expr::Neg(own, _) | Expr::Lag(own, ..) | Expr::On(own, ..) => has_trend(own),
        Expr::Binary(_, left, right, _) => has_trend(left) || has_trend(right),
    }
}

/// Whether it is an indicator of trends, of a price: of the one it takes where nothing is said, or of one that is
/// given.
fn is_trend(expr: &Expr) -> bool {
    let Expr::Call { name, args, .. } = expr else { return false };
    let of = |indicator: &'static Indicator| indicator.name == name && indicator.kind == Kind::Trend;
    catalogue().any(of) && args.iter().all(|arg| matches!(arg, Expr::Number(..)) || is_price(arg))
}

/// Prices, and means of those of a bar.
const PRICES: [&str; 7] = ["open", "high", "low", "close", "hl2", "hlc3", "ohlc4"];

/// Whether it has the level of a price: one of a bar, one of an earlier or a longer bar, or a trend of one.
fn is_price(expr: &Expr) -> bool {
    match expr {
        Expr::Call { name, args, .. } if args.is_empty() && PRICES.contains(&name.as_str()) => true,
        // The logarithm of a price has its trend.
        Expr::Call { name, args, .. } if name == "ln" => matches!(&args[..], [own] if is_price(own)),
        Expr::Call { .. } => is_trend(expr),
        Expr::Lag(own, ..) | Expr::On(own, ..) => is_price(own),
        Expr::Number(..) | Expr::Text(..) | Expr::Neg(..) | Expr::Binary(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_is_one_of_a_price() {
        for text in [
            "close/sma(50) - 1",
            "close/sma(close, 50) - 1",
            "ema(20)/ema(50) - 1",
            "close/ema(hlc3, 12)@1h - 1",
            "linreg_slope(20)/close",
            "close/ema(ema(10), 10)[1] - 1",
            "ln(close) - sma(ln(close), 20)",
            "close/ichimoku(9, 26, 52).kijun - 1",
            "-sar(0.02, 0.2)/close",
            "zscore(sma(20), 50)",
        ] {
            assert!(is_price_trend(text), "{text}");
        }
        for text in [
            "volume/sma(volume, 20) - 1",
            "sma(rsi(14), 5)",
            "ema(high - low, 10)/ema(high - low, 50) - 1",
            "linreg_slope(obv, 20)",
            "sma(ln(volume), 5)",
            "rsi(14)",
            "close[1]",
            "col(sma)",
            "col(\"sma(20)\")",
        ] {
            assert!(!is_price_trend(text), "{text}");
        }
    }

    #[test]
    fn prices_are_indicators_of_the_catalogue() {
        let known = |name: &&str| catalogue().any(|i| i.name == *name && i.kind == Kind::Price && i.sources.is_empty());
        assert!(PRICES.iter().all(known));
    }
}
