//! A name for content: equal bars have it, and other bars do not.

use crate::{Bars, Class, Costs, Instrument, Rollover, Session, VolumeKind};
use xxhash_rust::xxh3::Xxh3;

/// Takes in text and bars and gives 128 bits for all of it (xxh3), to key caches and to tell damage.
#[derive(Default)]
pub struct Fingerprint(Xxh3);

impl Fingerprint {
    /// Of nothing yet.
    pub fn new() -> Fingerprint {
        Fingerprint::default()
    }

    /// Takes in bytes as they are.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes in a text and its length, so that two texts never run into each other.
    pub fn add_text(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    /// Takes in everything about the bars of a symbol, to the bit.
    pub fn add_bars(&mut self, bars: &Bars) {
        self.add_text(&bars.symbol);
        self.add_text(&bars.timeframe.to_string());
        // All of the instrument, in words: costs and sessions decide about labels and days.
        self.add_text(&instrument_text(&bars.instrument));
        for times in [&bars.start, &bars.end] {
            self.numbers(times, |x| x.to_le_bytes());
        }
        for values in [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume] {
            self.numbers(values, |x| x.to_bits().to_le_bytes());
        }
        for (name, values) in &bars.extras {
            self.add_text(name);
            self.numbers(values, |x| x.to_bits().to_le_bytes());
        }
        self.numbers(&bars.segments, |x| (*x as u64).to_le_bytes());
        self.numbers(&bars.member, |(from, to)| {
            let mut pair = [0; 16];
            pair[..8].copy_from_slice(&from.to_le_bytes());
            pair[8..].copy_from_slice(&to.to_le_bytes());
            pair
        });
    }

    /// The 128 bits as 32 letters.
    pub fn to_hex(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }

    fn numbers<T, const N: usize>(&mut self, values: &[T], bytes: impl Fn(&T) -> [u8; N]) {
        self.0.update(&(values.len() as u64).to_le_bytes());
        let mut block = Vec::with_capacity(4096 * N);
        for some in values.chunks(4096) {
            block.clear();
            some.iter().for_each(|x| block.extend_from_slice(&bytes(x)));
            self.0.update(&block);
        }
    }
}

/// All of an instrument, field by field. Runs, models and trials keep hashes of it, so this text stays whatever types
/// and fields are called.
pub fn instrument_text(of: &Instrument) -> String {
    let class = match of.class {
        Class::Fx => "Fx",
        Class::Metal => "Metal",
        Class::Commodity => "Commodity",
        Class::Equity => "Equity",
        Class::Index => "Index",
        Class::Future => "Future",
        Class::CryptoSpot => "CryptoSpot",
        Class::CryptoPerp => "CryptoPerp",
    };
    let volume = match of.volume {
        VolumeKind::Units => "Units",
        VolumeKind::Quote => "Quote",
        VolumeKind::Ticks => "Ticks",
        VolumeKind::None => "None",
    };
    let Instrument { currency, multiplier, tick, lot, min_notional, shortable, .. } = of;
    let Session { timezone, open, close, days, trading_day: Rollover { at, timezone: zone }, round_the_clock } =
        &of.session;
    let Costs { fee_bp, maker_bp, spread_bp, borrow_bp_per_year, funding, impact, volume_cap, .. } = of.costs;
    // Later than the rest: said only where they are set, so that older hashes stay.
    let later = [
        ("fee_per_unit", of.costs.fee_per_unit),
        ("swap_long_bp_per_year", of.costs.swap_long_bp_per_year),
        ("swap_short_bp_per_year", of.costs.swap_short_bp_per_year),
    ];
    let later: String =
        later.iter().filter(|(_, value)| *value != 0.0).map(|(name, value)| format!(", {name}: {value:?}")).collect();
    let session = format!(
        "Session {{ timezone: {timezone:?}, open: Clock({}), close: Clock({}), days: Days({}), \
         trading_day: Rollover {{ at: Clock({}), timezone: {zone:?} }}, round_the_clock: {round_the_clock} }}",
        open.0, close.0, days.0, at.0
    );
    let costs = format!(
        "Costs {{ fee_bp: {fee_bp:?}, maker_bp: {maker_bp:?}, spread_bp: {spread_bp:?}, \
         borrow_bp_per_year: {borrow_bp_per_year:?}, funding: {funding}, impact: {impact:?}, \
         volume_cap: {volume_cap:?}{later} }}"
    );
    format!(
        "Instrument {{ class: {class}, currency: {currency:?}, multiplier: {multiplier:?}, tick: {tick:?}, lot: {lot:?}, \
         min_notional: {min_notional:?}, shortable: {shortable}, session: {session}, volume: {volume}, costs: {costs} }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Synth;
    use crate::{ClockTime, Weekdays};

    #[test]
    fn instrument_fingerprint_is_stable_across_versions() {
        // Runs, models and trials of older programs hold hashes of this text.
        let session = Session {
            timezone: "Europe/Berlin".into(),
            open: ClockTime(570),
            close: ClockTime(960),
            days: Weekdays::WORKING,
            trading_day: Rollover { at: ClockTime(0), timezone: "Europe/Berlin".into() },
            round_the_clock: false,
        };
        let costs = Costs {
            fee_bp: 1.5,
            fee_per_unit: 0.0,
            maker_bp: -0.1,
            spread_bp: 2.0,
            borrow_bp_per_year: 30.0,
            swap_long_bp_per_year: 0.0,
            swap_short_bp_per_year: 0.0,
            funding: false,
            impact: 1.0,
            volume_cap: 0.05,
        };
        let instrument = Instrument {
            class: Class::Equity,
            currency: "EUR".into(),
            multiplier: 1.0,
            tick: 0.01,
            lot: 1.0,
            min_notional: 0.0,
            shortable: true,
            session,
            volume: VolumeKind::Units,
            costs,
        };
        assert_eq!(
            instrument_text(&instrument),
            "Instrument { class: Equity, currency: \"EUR\", multiplier: 1.0, tick: 0.01, lot: 1.0, min_notional: 0.0, \
             shortable: true, session: Session { timezone: \"Europe/Berlin\", open: Clock(570), close: Clock(960), \
             days: Days(31), trading_day: Rollover { at: Clock(0), timezone: \"Europe/Berlin\" }, \
             round_the_clock: false }, volume: Units, costs: Costs { fee_bp: 1.5, maker_bp: -0.1, spread_bp: 2.0, \
             borrow_bp_per_year: 30.0, funding: false, impact: 1.0, volume_cap: 0.05 } }"
        );
        let financed = Costs { swap_long_bp_per_year: 250.0, ..costs };
        let text = instrument_text(&Instrument { costs: financed, ..instrument.clone() });
        assert!(text.ends_with("volume_cap: 0.05, swap_long_bp_per_year: 250.0 } }"), "{text}");
        // Every class and kind of volume by the name it had then.
        for (_, class) in Class::NAMES {
            let text = instrument_text(&Instrument { class: *class, ..instrument.clone() });
            assert!(text.starts_with(&format!("Instrument {{ class: {class:?},")), "{text}");
        }
        for (_, volume) in VolumeKind::NAMES {
            let text = instrument_text(&Instrument { volume: *volume, ..instrument.clone() });
            assert!(text.contains(&format!(" volume: {volume:?}, costs")), "{text}");
        }
    }

    #[test]
    fn any_changed_bit_changes_the_fingerprint() {
        let bars = Synth { symbols: 1, bars: 50, ..Synth::default() }.make_market(1).market.remove(0);
        let of = |change: &dyn Fn(&mut Bars)| {
            let mut changed = bars.clone();
            change(&mut changed);
            let mut print = Fingerprint::new();
            print.add_bars(&changed);
            print.to_hex()
        };
        let same = of(&|_| {});
        assert_eq!((same.len(), &same), (32, &of(&|_| {})));
        let changes: &[&dyn Fn(&mut Bars)] = &[
            &|b| b.symbol.push('x'),
            &|b| b.close[7] = f64::from_bits(b.close[7].to_bits() ^ 1),
            &|b| b.end[49] += 1,
            &|b| b.volume.clear(),
            &|b| b.segments.push(9),
            &|b| b.member.push((0, 1)),
            &|b| b.extras.push(("funding".into(), vec![0.0; 50])),
            &|b| b.instrument.costs.fee_bp += 0.5,
            &|b| b.instrument.session.timezone = "UTC".into(),
        ];
        let all: std::collections::BTreeSet<String> = changes.iter().map(|change| of(change)).chain([same]).collect();
        assert_eq!(all.len(), changes.len() + 1);
    }
}
