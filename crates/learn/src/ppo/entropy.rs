//! Entropy kept in a band: a policy that stops trying things stops learning, one that never settles earns nothing.
//!
//! Two constraints, `entropy >= least` and `entropy <= most`, each with a multiplier that grows while it is broken and
//! shrinks to 0 while it is not (projected dual ascent). What is broken now counts at once beside them: a policy that
//! is sure of itself has next to no gradient of its entropy, and has to be turned before it is. The difference of the
//! two sides is the weight of the entropy in the loss, of either sign.

use super::Actions;
use super::loss::{LEAST_LOG_DEVIATION, MOST_LOG_DEVIATION};

/// Where the mean entropy of a policy is kept: as a share of what is possible (the logarithm of the number of legal
/// actions), in nats for continuous targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EntropyBand {
    /// At least.
    pub least: f32,
    /// At most.
    pub most: f32,
}

impl EntropyBand {
    /// A band is at least this wide: the entropy of a minibatch wanders by as much.
    pub const LEAST_WIDTH: f64 = 0.01;

    /// What the entropy of such actions can be: a share of what is possible, or for continuous targets nats between the
    /// limits of the deviation of a normal draw.
    pub fn possible(actions: Actions) -> EntropyBand {
        match actions {
            Actions::Discrete => EntropyBand { least: 0.0, most: 1.0 },
            Actions::Continuous => {
                let [least, most] = [LEAST_LOG_DEVIATION, MOST_LOG_DEVIATION].map(|log| UNIT_ENTROPY + log);
                EntropyBand { least, most }
            }
        }
    }
}

/// Entropy of a normal draw with a deviation of 1, in nats: half of ln(2πe).
pub const UNIT_ENTROPY: f32 = 1.418_938_5;

/// How much a multiplier moves in an update for each unit outside of the band; advantages have deviation 1.
const RATE: f32 = 1.0;

/// How much what is broken now weighs.
const AT_ONCE: f32 = 5.0;

/// A multiplier is at most this.
const LARGEST: f32 = 10.0;

/// The multipliers of a member, and the weight that they give.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Multipliers {
    pub(super) least: f32,
    pub(super) most: f32,
    /// Of the entropy in the loss.
    pub(super) weight: f32,
}

impl Multipliers {
    /// What they are after an update with this mean entropy.
    pub(super) fn next(self, band: EntropyBand, entropy: f32) -> Multipliers {
        if !entropy.is_finite() {
            return self;
        }
        let broken = [band.least - entropy, entropy - band.most];
        let [least, most] = [(self.least, broken[0]), (self.most, broken[1])]
            .map(|(now, by)| RATE.mul_add(by, now).clamp(0.0, LARGEST));
        let [low, high] = broken.map(|by| AT_ONCE * by.max(0.0));
        Multipliers { least, most, weight: (least + low) - (most + high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_of_targets_end_at_the_limits_of_the_deviation() {
        let EntropyBand { least, most } = EntropyBand::possible(Actions::Continuous);
        let of = |log: f64| (0.5 * (2.0 * std::f64::consts::PI * std::f64::consts::E).ln() + log) as f32;
        assert!((least - of(-5.0)).abs() < 1e-6 && (most - of(1.0)).abs() < 1e-6, "{least} to {most}");
    }

    #[test]
    fn multipliers_grow_while_the_band_is_left_and_shrink_inside() {
        let band = EntropyBand { least: 0.2, most: 0.8 };
        let low = Multipliers::default().next(band, 0.05);
        assert!(low.weight > 0.0 && low.most == 0.0);
        let inside = low.next(band, 0.5);
        assert!(inside.weight < low.weight && inside.weight >= 0.0);
        let high = Multipliers::default().next(band, 0.95);
        assert!(high.weight < 0.0);
        assert_eq!(high.next(band, f32::NAN), high);
    }
}
