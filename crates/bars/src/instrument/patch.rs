//! What the user changes about an instrument.

use super::Instrument;
use super::session::find_zone;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Changes to a preset; every field may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstrumentPatch {
    /// Starts again from the preset of this class.
    pub class: Option<String>,
    /// Currency of the prices.
    pub currency: Option<String>,
    /// Profit of one unit when the price moves by one.
    pub multiplier: Option<f64>,
    /// Smallest step of the price; 0 rounds nothing.
    pub tick: Option<f64>,
    /// Smallest step of the quantity; 0 rounds nothing.
    pub lot: Option<f64>,
    /// Smallest order in money.
    pub min_notional: Option<f64>,
    /// Whether it can be sold without being owned.
    pub shortable: Option<bool>,
    /// IANA zone of the hours; the trading day turns in it too, unless `trading_day` says otherwise.
    pub timezone: Option<String>,
    /// `09:30`
    pub open: Option<String>,
    /// `16:00`
    pub close: Option<String>,
    /// `Mon-Fri`
    pub days: Option<String>,
    /// `17:00 America/New_York`
    pub trading_day: Option<String>,
    /// Whether it trades without a break.
    pub round_the_clock: Option<bool>,
    /// `units`, `quote`, `ticks` or `none`.
    pub volume: Option<String>,
    /// Commission and taxes of one side.
    pub fee_bp: Option<f64>,
    /// Fee of one side for each unit.
    pub fee_per_unit: Option<f64>,
    /// `fee_bp` of a resting order; takes the value of `fee_bp` where only that is given.
    pub maker_bp: Option<f64>,
    /// Ask less bid.
    pub spread_bp: Option<f64>,
    /// Paid by shorts.
    pub borrow_bp_per_year: Option<f64>,
    /// Overnight financing of longs; negative is received.
    pub swap_long_bp_per_year: Option<f64>,
    /// Overnight financing of shorts.
    pub swap_short_bp_per_year: Option<f64>,
    /// Whether funding is exchanged.
    pub funding: Option<bool>,
    /// λ of the square-root impact.
    pub impact: Option<f64>,
    /// Largest share of the usual volume an order may take.
    pub volume_cap: Option<f64>,
}

/// The names of the fields of [`InstrumentPatch`].
#[rustfmt::skip]
pub const PATCH_KEYS: &[&str] = &[
    "class", "currency", "multiplier", "tick", "lot", "min_notional", "shortable", "timezone", "open", "close", "days", "trading_day",
    "round_the_clock", "volume", "fee_bp", "fee_per_unit", "maker_bp", "spread_bp", "borrow_bp_per_year",
    "swap_long_bp_per_year", "swap_short_bp_per_year", "funding", "impact", "volume_cap",
];

impl InstrumentPatch {
    /// Everything about an instrument, so that applying it to any other gives this one.
    pub fn from_instrument(instrument: &Instrument) -> InstrumentPatch {
        let Instrument { class, currency, multiplier, tick, lot, min_notional, shortable, session, volume, costs } =
            instrument;
        InstrumentPatch {
            class: Some(class.to_string()),
            currency: Some(currency.clone()),
            multiplier: Some(*multiplier),
            tick: Some(*tick),
            lot: Some(*lot),
            min_notional: Some(*min_notional),
            shortable: Some(*shortable),
            timezone: Some(session.timezone.clone()),
            open: Some(session.open.to_string()),
            close: Some(session.close.to_string()),
            days: Some(session.days.to_string()),
            trading_day: Some(session.trading_day.to_string()),
            round_the_clock: Some(session.round_the_clock),
            volume: Some(volume.to_string()),
            fee_bp: Some(costs.fee_bp),
            fee_per_unit: Some(costs.fee_per_unit),
            maker_bp: Some(costs.maker_bp),
            spread_bp: Some(costs.spread_bp),
            borrow_bp_per_year: Some(costs.borrow_bp_per_year),
            swap_long_bp_per_year: Some(costs.swap_long_bp_per_year),
            swap_short_bp_per_year: Some(costs.swap_short_bp_per_year),
            funding: Some(costs.funding),
            impact: Some(costs.impact),
            volume_cap: Some(costs.volume_cap),
        }
    }

    /// Changes the instrument, or says which value is wrong and leaves it as it was.
    pub fn apply(&self, instrument: &mut Instrument) -> Result<(), String> {
        let mut new = instrument.clone();
        let currency = match &self.currency {
            Some(c) if c.is_empty() || c.len() > 8 || !c.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                return Err(format!("currency: `{c}` is not a currency (write USD)"));
            }
            Some(c) => c.to_ascii_uppercase(),
            None => instrument.currency.clone(),
        };
        if let Some(class) = &self.class {
            new = Instrument::preset(parse_key("class", class)?, &currency);
        }
        new.currency = currency;
        set_number("multiplier", self.multiplier, &mut new.multiplier, Bound::Positive)?;
        set_number("tick", self.tick, &mut new.tick, Bound::NotNegative)?;
        set_number("lot", self.lot, &mut new.lot, Bound::NotNegative)?;
        set_number("min_notional", self.min_notional, &mut new.min_notional, Bound::NotNegative)?;
        new.shortable = self.shortable.unwrap_or(new.shortable);
        if let Some(name) = &self.timezone {
            find_zone(name).map_err(|e| format!("timezone: {e}"))?;
            new.session.timezone = name.clone();
            new.session.trading_day.timezone = name.clone();
        }
        if let Some(open) = &self.open {
            new.session.open = parse_key("open", open)?;
        }
        if let Some(close) = &self.close {
            new.session.close = parse_key("close", close)?;
        }
        if let Some(days) = &self.days {
            new.session.days = parse_key("days", days)?;
        }
        if let Some(turn) = &self.trading_day {
            new.session.trading_day = parse_key("trading_day", turn)?;
        }
        new.session.round_the_clock = self.round_the_clock.unwrap_or(new.session.round_the_clock);
        if let Some(volume) = &self.volume {
            new.volume = parse_key("volume", volume)?;
        }
        set_number("fee_bp", self.fee_bp, &mut new.costs.fee_bp, Bound::Cost)?;
        set_number("fee_per_unit", self.fee_per_unit, &mut new.costs.fee_per_unit, Bound::NotNegative)?;
        set_number("maker_bp", self.maker_bp.or(self.fee_bp), &mut new.costs.maker_bp, Bound::Rebate)?;
        set_number("spread_bp", self.spread_bp, &mut new.costs.spread_bp, Bound::Cost)?;
        set_number(
            "borrow_bp_per_year",
            self.borrow_bp_per_year,
            &mut new.costs.borrow_bp_per_year,
            Bound::NotNegative,
        )?;
        for (name, value, to) in [
            ("swap_long_bp_per_year", self.swap_long_bp_per_year, &mut new.costs.swap_long_bp_per_year),
            ("swap_short_bp_per_year", self.swap_short_bp_per_year, &mut new.costs.swap_short_bp_per_year),
        ] {
            set_number(name, value, to, Bound::Financing)?;
        }
        new.costs.funding = self.funding.unwrap_or(new.costs.funding);
        set_number("impact", self.impact, &mut new.costs.impact, Bound::NotNegative)?;
        set_number("volume_cap", self.volume_cap, &mut new.costs.volume_cap, Bound::Share)?;
        *instrument = new;
        Ok(())
    }
}

fn parse_key<T: FromStr<Err = String>>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|e| format!("{name}: {e}"))
}

enum Bound {
    Positive,
    NotNegative,
    Cost,
    Rebate,
    Financing,
    Share,
}

fn set_number(name: &str, value: Option<f64>, to: &mut f64, bound: Bound) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let (fits, wanted) = match bound {
        Bound::Positive => (value > 0.0, "above 0"),
        Bound::NotNegative => (value >= 0.0, "0 or more"),
        Bound::Cost => ((0.0..=10_000.0).contains(&value), "from 0 to 10000 bp"),
        Bound::Rebate => ((-100.0..=10_000.0).contains(&value), "from -100 to 10000 bp"),
        Bound::Financing => ((-10_000.0..=10_000.0).contains(&value), "from -10000 to 10000 bp"),
        Bound::Share => (value > 0.0 && value <= 1.0, "above 0 and at most 1"),
    };
    if !fits || !value.is_finite() {
        return Err(format!("{name}: {value} must be {wanted}"));
    }
    *to = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Class, Hints, VolumeKind};
    use super::*;

    fn guess(symbol: &str) -> Instrument {
        Instrument::guess(symbol, &Hints::default()).0
    }

    #[test]
    #[rustfmt::skip]
    fn patches_apply_or_are_refused() {
        let patch = InstrumentPatch {
            class: Some("crypto_perp".into()), fee_bp: Some(4.5), open: Some("01:00".into()), days: Some("Mon-Sat".into()),
            trading_day: Some("17:00 America/New_York".into()), volume: Some("quote".into()), ..InstrumentPatch::default()
        };
        let mut it = guess("BTCUSDT");
        patch.apply(&mut it).unwrap();
        assert_eq!((it.class, it.currency.as_str(), it.volume), (Class::CryptoPerp, "USDT", VolumeKind::Quote));
        assert_eq!((it.costs.fee_bp, it.costs.maker_bp, it.session.days.to_string().as_str()), (4.5, 4.5, "Mon-Sat"));
        assert_eq!(it.session.trading_day.to_string(), "17:00 America/New_York");

        let before = it.clone();
        let refused = |change: fn(&mut InstrumentPatch), says: &str| {
            let mut patch = InstrumentPatch::default();
            change(&mut patch);
            let mut it = before.clone();
            let error = patch.apply(&mut it).unwrap_err();
            assert!(error.contains(says), "{error}");
            assert_eq!(it, before);
        };
        refused(|p| p.class = Some("crypto_prep".into()), "did you mean `crypto_perp`?");
        refused(|p| p.class = Some("zzz".into()), "one of fx, metal");
        refused(|p| p.volume = Some("tick".into()), "did you mean `ticks`?");
        refused(|p| p.timezone = Some("America/NewYork".into()), "America/New_York");
        refused(|p| p.timezone = Some("new york".into()), "America/New_York");
        refused(|p| p.tick = Some(-0.01), "tick: -0.01 must be 0 or more");
        refused(|p| p.lot = Some(-1.0), "lot: -1 must be 0 or more");
        refused(|p| p.multiplier = Some(0.0), "multiplier: 0 must be above 0");
        refused(|p| p.multiplier = Some(f64::NAN), "multiplier");
        refused(|p| p.fee_bp = Some(f64::INFINITY), "fee_bp");
        refused(|p| p.volume_cap = Some(1.5), "at most 1");
        refused(|p| p.trading_day = Some("17:00".into()), "rollover");
        refused(|p| p.currency = Some("".into()), "currency");
    }

    #[test]
    fn patch_keys_equal_the_fields() {
        use serde::de::value::{Error, MapDeserializer};
        let unknown = MapDeserializer::<_, Error>::new([("zzz", 1.0)].into_iter());
        let error = InstrumentPatch::deserialize(unknown).unwrap_err().to_string();
        let keys: Vec<String> = PATCH_KEYS.iter().map(|key| format!("`{key}`")).collect();
        assert!(error.ends_with(&keys.join(", ")), "{error}");
    }
}
