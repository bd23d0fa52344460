//! What is traded, when, and what it costs.
//!
//! An [`Instrument`] starts as the preset of its [`Class`], is refined by what its name gives away
//! ([`Instrument::guess`]), and ends with what the user wrote (`[instrument.XAUUSD]`, an [`InstrumentPatch`]). The
//! presets are those of a retail account at the lowest tier; every figure is shown in the audit, so that nobody trades
//! on a cost they have not seen.

mod buckets;
mod evidence;
mod hours;
mod names;
mod patch;
mod session;

pub use buckets::{Bucket, Buckets};
pub(crate) use evidence::{SeenBars, reconcile};
pub use hours::{SessionClock, SessionHours, TradingDates};
pub use patch::{InstrumentPatch, PATCH_KEYS};
pub use session::{ClockTime, Rollover, Session, Weekdays};

use crate::nearest;
use serde::Serialize;
pub(crate) use session::LocalTime;
use session::make_session;
use std::fmt;
use std::str::FromStr;

/// What is traded and what it costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Instrument {
    /// Kind of market.
    pub class: Class,
    /// Prices, costs and profits are in this.
    pub currency: String,
    /// Profit of one unit when the price moves by one: 1 for shares and coins, 50 for an E-mini S&P 500 contract.
    pub multiplier: f64,
    /// Smallest step of the price; 0 where it is not known, and then nothing is rounded.
    pub tick: f64,
    /// Smallest step of the quantity; 0 rounds nothing.
    pub lot: f64,
    /// Smallest order, in `currency`; 0 for none.
    pub min_notional: f64,
    /// Whether it can be sold without being owned.
    pub shortable: bool,
    /// When it trades, and when its day turns.
    pub session: Session,
    /// What the volume column counts.
    pub volume: VolumeKind,
    /// What a trade costs.
    pub costs: Costs,
}

impl Instrument {
    /// Class, currency, costs and session, which decide the labels: `crypto_spot in USDT, fee 10 bp, half spread 1 bp,
    /// round the clock`.
    pub fn in_short(&self) -> String {
        let Session { round_the_clock, open, close, days, timezone, .. } = &self.session;
        let hours = match (*round_the_clock, *days == Weekdays::ALL) {
            (true, true) => "round the clock".to_string(),
            (true, false) => format!("round the clock {days}"),
            (false, _) => format!("{open} to {close} {days} {timezone}"),
        };
        let Costs { fee_bp, spread_bp, .. } = self.costs;
        format!("{} in {}, fee {fee_bp} bp, half spread {} bp, {hours}", self.class, self.currency, 0.5 * spread_bp)
    }
}

/// Kind of market; decides the presets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Spot currencies.
    Fx,
    /// Spot gold, silver, platinum, palladium.
    Metal,
    /// Oil, gas, copper and the like, traded as a contract for difference.
    Commodity,
    /// Shares and funds on an exchange.
    Equity,
    /// A stock index, traded as a contract for difference.
    Index,
    /// A contract with an expiry, or the continuous series of one.
    Future,
    /// Coins, bought and owned.
    CryptoSpot,
    /// Perpetual swaps on coins.
    CryptoPerp,
}

/// What the volume column counts; decides whether market impact and the cap on order size can be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeKind {
    /// Units of what is traded: shares, contracts, coins.
    Units,
    /// Money, in the instrument's currency.
    Quote,
    /// Price changes or quotes seen by one broker; says nothing about size.
    Ticks,
    /// Nothing of use.
    None,
}

/// What a trade costs; bp are hundredths of a percent of the traded value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// Commission, taxes and exchange fees of one side (a round trip pays it twice), for an order that takes liquidity.
    pub fee_bp: f64,
    /// Fee of one side for each unit, in the instrument's currency: 2.25 for a contract, say.
    pub fee_per_unit: f64,
    /// `fee_bp` for an order proven to have rested in the book; negative is a rebate.
    pub maker_bp: f64,
    /// Quoted spread, ask less bid: each side pays half of it, a round trip all of it.
    pub spread_bp: f64,
    /// Paid on the value of a short position, per year, by the day.
    pub borrow_bp_per_year: f64,
    /// Overnight financing of a long position, per year, three nights at once on the day that the market has for it;
    /// negative is received.
    pub swap_long_bp_per_year: f64,
    /// The same for a short position.
    pub swap_short_bp_per_year: f64,
    /// Whether funding is exchanged between longs and shorts, at the rates of a funding column or file.
    pub funding: bool,
    /// λ of the square-root impact λ·σ·√(quantity / volume) of one side; without effect where volume is ticks or none.
    pub impact: f64,
    /// Largest share of a bar's usual volume one order may take.
    pub volume_cap: f64,
}

impl Costs {
    /// What one side costs before impact: the fee and half the spread.
    pub fn side_bp(&self) -> f64 {
        self.fee_bp + 0.5 * self.spread_bp
    }
}
macro_rules! named {
    ($type:ty, $what:literal, $($name:literal => $value:expr),* $(,)?) => {
        impl $type {
            /// All of them with their names, as settings and JSON write them.
            pub const NAMES: &'static [(&'static str, $type)] = &[$(($name, $value)),*];
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = Self::NAMES.iter().find(|(_, value)| value == self).map_or("", |(name, _)| name);
                f.write_str(name)
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(s: &str) -> Result<$type, String> {
                let wanted = s.trim().to_ascii_lowercase().replace(['-', ' '], "_");
                if let Some((_, value)) = Self::NAMES.iter().find(|(name, _)| *name == wanted) {
                    return Ok(*value);
                }
                let names: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
                Err(match nearest(&wanted, names.iter().copied()) {
                    Some(near) => format!(concat!("`{}` is not a ", $what, "; did you mean `{}`?"), s, near),
                    None => format!(concat!("`{}` is not a ", $what, " (one of {})"), s, names.join(", ")),
                })
            }
        }
    };
}
named!(Class, "class of instruments", "fx" => Class::Fx, "metal" => Class::Metal,
    "commodity" => Class::Commodity, "equity" => Class::Equity, "index" => Class::Index,
    "future" => Class::Future, "crypto_spot" => Class::CryptoSpot, "crypto_perp" => Class::CryptoPerp);
named!(VolumeKind, "kind of volume", "units" => VolumeKind::Units, "quote" => VolumeKind::Quote, "ticks" => VolumeKind::Ticks,
    "none" => VolumeKind::None);

/// What is known besides the name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hints {
    /// The class, where the file or the user states it; the name then only fills in the details.
    pub class: Option<Class>,
    /// What the volume column counts, where the file states it.
    pub volume: Option<VolumeKind>,
    /// Words of the path and the file's head: `binance`, `futures`, `nse`, …
    pub words: Vec<String>,
}

impl Instrument {
    /// The preset of a class with prices in that currency.
    pub fn preset(class: Class, currency: &str) -> Instrument {
        use Class as C;
        // (fee of a side, resting fee, spread, borrow a year) in bp, and the rest of the preset.
        let (fee_bp, maker_bp, spread_bp, borrow_bp_per_year) = match class {
            C::Fx => (0.0, 0.0, 1.0, 0.0),
            C::Metal => (0.0, 0.0, 2.0, 0.0),
            C::Commodity => (0.0, 0.0, 5.0, 0.0),
            C::Equity => (0.0, 0.0, 3.0, 50.0),
            C::Index => (0.0, 0.0, 2.0, 0.0),
            C::Future => (0.5, 0.5, 1.0, 0.0),
            C::CryptoSpot => (10.0, 10.0, 2.0, 0.0),
            C::CryptoPerp => (5.0, 2.0, 1.0, 0.0),
        };
        let (tick, lot, min_notional) = match class {
            C::Fx if currency == "JPY" => (1e-3, 1.0, 0.0),
            C::Fx => (1e-5, 1.0, 0.0),
            C::Metal => (0.01, 1.0, 0.0),
            C::Commodity => (0.0, 1.0, 0.0),
            C::Equity => (0.01, 1.0, 0.0),
            C::Index => (0.01, 0.1, 0.0),
            C::Future => (0.0, 1.0, 0.0),
            // A coin's tick follows its price, which the name does not tell.
            C::CryptoSpot => (0.0, 1e-5, 5.0),
            C::CryptoPerp => (0.0, 1e-3, 5.0),
        };
        let session = match class {
            C::Fx | C::Metal | C::Commodity => make_session("America/New_York", "17:00", "17:00", "17:00", true),
            C::Equity | C::Index => make_session("America/New_York", "09:30", "16:00", "00:00", false),
            C::Future => make_session("America/Chicago", "17:00", "16:00", "17:00", true),
            C::CryptoSpot | C::CryptoPerp => {
                Session { days: Weekdays::ALL, ..make_session("UTC", "00:00", "00:00", "00:00", true) }
            }
        };
        Instrument {
            class,
            currency: currency.to_string(),
            multiplier: 1.0,
            tick,
            lot,
            min_notional,
            shortable: class != C::CryptoSpot,
            session,
            volume: match class {
                C::Fx | C::Metal | C::Commodity => VolumeKind::Ticks,
                C::Index => VolumeKind::None,
                _ => VolumeKind::Units,
            },
            costs: Costs {
                fee_bp,
                fee_per_unit: 0.0,
                maker_bp,
                spread_bp,
                borrow_bp_per_year,
                swap_long_bp_per_year: 0.0,
                swap_short_bp_per_year: 0.0,
                funding: class == C::CryptoPerp,
                impact: 1.0,
                volume_cap: 0.01,
            },
        }
    }

    /// The instrument a name stands for, and why it was taken for that.
    pub fn guess(symbol: &str, hints: &Hints) -> (Instrument, String) {
        let (mut instrument, mut why) = names::read_symbol(symbol, hints);
        if let Some(class) = hints.class
            && class != instrument.class
        {
            let currency = instrument.currency.clone();
            instrument = Instrument::preset(class, &currency);
            why = format!("{symbol} is set to be {class}; prices are assumed to be in {currency}");
        }
        if let Some(volume) = hints.volume {
            instrument.volume = volume;
        }
        (instrument, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(symbol: &str) -> Instrument {
        Instrument::guess(symbol, &Hints::default()).0
    }

    #[test]
    fn hints_resolve_ambiguous_names() {
        let words = |w: &str| Hints { words: vec![w.to_string()], ..Hints::default() };
        assert_eq!(Instrument::guess("BTCUSDT", &words("futures")).0.class, Class::CryptoPerp);
        assert_eq!(Instrument::guess("BPCL", &words("NSE")).0.currency, "INR");
        assert_eq!(Instrument::guess("ES", &words("cme")).0.multiplier, 50.0);
        assert_eq!(Instrument::guess("AAPL", &words("futures")).0.class, Class::Equity);
        let stated = |class| Hints { class: Some(class), ..Hints::default() };
        assert_eq!(Instrument::guess("CL", &stated(Class::Future)).0.multiplier, 1000.0);
        assert_eq!(Instrument::guess("GOLD", &stated(Class::Equity)).0.class, Class::Equity);
        assert_eq!(Instrument::guess("BTCUSDT", &stated(Class::CryptoPerp)).0.class, Class::CryptoPerp);
        assert_eq!(Instrument::guess("SPX", &stated(Class::Equity)).0.class, Class::Equity);
        let quote = Hints { volume: Some(VolumeKind::Quote), ..Hints::default() };
        assert_eq!(Instrument::guess("BTCUSDT", &quote).0.volume, VolumeKind::Quote);
    }

    #[test]
    fn instrument_presets_match_the_markets() {
        assert_eq!(guess("EURUSD").tick, 1e-5);
        assert_eq!(guess("USDJPY").tick, 1e-3);
        assert_eq!(guess("BTCUSDT").costs.side_bp(), 11.0);
        assert_eq!(guess("BTC-USDT-SWAP").costs.fee_bp, 5.0);
        assert!(
            guess("BTC-USDT-SWAP").costs.funding && guess("BTC-USDT-SWAP").shortable && !guess("BTCUSDT").shortable
        );
        assert_eq!((guess("ES=F").multiplier, guess("ES=F").tick), (50.0, 0.25));
        assert_eq!(guess("XAUUSD").volume, VolumeKind::Ticks);
    }
}
