//! A name for content: equal bars have it, and other bars do not.

use crate::Bars;
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
        self.add_text(&format!("{:?}", bars.instrument));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Synth;

    #[test]
    fn instrument_fingerprint_is_stable_across_versions() {
        // Runs, models and trials of older programs hold hashes of it.
        let mut bars = Synth { symbols: 1, bars: 2, ..Synth::default() }.make_market(1).market.remove(0);
        let session = &mut bars.instrument.session;
        (session.open, session.close) = (crate::ClockTime(570), crate::ClockTime(960));
        session.days = crate::Weekdays::WORKING;
        let text = format!("{:?}", bars.instrument);
        assert!(text.contains("open: Clock(570), close: Clock(960), days: Days(31)"), "{text}");
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
