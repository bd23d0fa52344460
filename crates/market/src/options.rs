//! What an account on a market is set to.

use std::fmt;
use std::str::FromStr;

/// How accounts are made for the instruments they trade.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountOptions {
    /// Equity at the start; `None`: 100,000, and then quantities are fractional, whatever lots an instrument has.
    pub capital: Option<f64>,
    /// Currency of the account; `None`: that of the prices, or USD where there are several.
    pub currency: Option<String>,
    /// How large a full position is.
    pub sizing: Sizing,
    /// Most notional as a multiple of equity.
    pub leverage: f64,
    /// Equity as a share of notional below which the next open cuts a position; `None`: half of what `leverage` asks.
    pub maintenance: Option<f64>,
    /// Equity as a share of notional below which a position is closed at once; `None`: half of `maintenance`.
    pub liquidation: Option<f64>,
    /// Whether positions are closed before a pause in trading.
    pub flat: FlatBefore,
    /// Whether prices include dividends, so that none are paid beside them.
    pub total_return: bool,
    /// What money earns without risk, per year: 0.03 is 3 %. Ratios are of what is earned beyond it.
    pub risk_free: f64,
}

impl Default for AccountOptions {
    fn default() -> AccountOptions {
        AccountOptions {
            capital: None,
            currency: None,
            sizing: Sizing::Fraction(1.0),
            leverage: 1.0,
            maintenance: None,
            liquidation: None,
            flat: FlatBefore::Never,
            total_return: false,
            risk_free: 0.0,
        }
    }
}

/// How large a full position is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizing {
    /// A share of equity.
    Fraction(f64),
    /// As large as gives this deviation of returns per year, up to the leverage.
    VolTarget(f64),
    /// So many units.
    Lots(f64),
}

impl fmt::Display for Sizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizing::Fraction(x) => write!(f, "fraction({x})"),
            Sizing::VolTarget(x) => write!(f, "vol-target({x})"),
            Sizing::Lots(x) => write!(f, "lots({x})"),
        }
    }
}

impl FromStr for Sizing {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizing, String> {
        let wrong = || {
            format!("`{text}` is not a sizing: write fraction(0.5), vol-target(0.1) or lots(2), with a number above 0")
        };
        let (name, rest) = text.trim().split_once('(').ok_or_else(wrong)?;
        let number = rest.trim_end().strip_suffix(')').and_then(|x| x.trim().parse::<f64>().ok()).ok_or_else(wrong)?;
        if !number.is_finite() || number <= 0.0 {
            return Err(wrong());
        }
        match name.trim().replace('_', "-").as_str() {
            "fraction" => Ok(Sizing::Fraction(number)),
            "vol-target" => Ok(Sizing::VolTarget(number)),
            "lots" => Ok(Sizing::Lots(number)),
            _ => Err(wrong()),
        }
    }
}

/// Before which pause in trading positions are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlatBefore {
    /// None.
    Never,
    /// The end of every session.
    Day,
    /// A day without a session.
    Weekend,
}

impl FlatBefore {
    /// All of them with their names.
    pub const NAMES: &'static [(&'static str, FlatBefore)] =
        &[("never", FlatBefore::Never), ("day", FlatBefore::Day), ("weekend", FlatBefore::Weekend)];
}

impl fmt::Display for FlatBefore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FlatBefore::NAMES.iter().find(|(_, value)| value == self).map_or("", |(name, _)| name))
    }
}

impl FromStr for FlatBefore {
    type Err = String;

    fn from_str(text: &str) -> Result<FlatBefore, String> {
        let known = FlatBefore::NAMES.iter().find(|(name, _)| *name == text.trim());
        known.map(|(_, value)| *value).ok_or_else(|| format!("`{text}` is not one of never, day, weekend"))
    }
}
