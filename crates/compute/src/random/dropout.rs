//! Which values a training step leaves out.
//!
//! A value is known by member, layer, step, row of the batch and unit. Four neighbouring units share a block of words:
//! the counter is `[row, step, stream | layer << 8 | unit / 4 << 22, member]`, a unit's word is `unit % 4`, and the
//! value is kept unless its word is below the threshold. Only integers decide, so all twins leave out the same. Device
//! twin: `population/between.cu`.

use super::{Stream, philox};

/// The values of one layer that one step of one member leaves out.
#[derive(Debug, Clone, Copy)]
pub struct Dropout {
    seed: u64,
    step: u32,
    stream: u32,
    member: u32,
    threshold: u32,
    factor: f32,
}

impl Dropout {
    /// So many of a hundred values of a layer, in the step that follows `step` others. There are at most 2¹⁴ layers.
    pub fn new(seed: u64, member: u32, layer: usize, step: u32, percent: u8) -> Dropout {
        Dropout {
            seed,
            step,
            stream: Stream::Dropout as u32 | (layer as u32) << 8,
            member,
            threshold: threshold(percent),
            factor: factor(percent),
        }
    }

    /// `[units]` of one row: what each value is to be multiplied with, 0 or the factor that makes up for those left
    /// out.
    pub fn row(&self, row: u32) -> impl Iterator<Item = f32> {
        let Dropout { seed, step, stream, member, threshold, factor } = *self;
        (0..1 << 10).flat_map(move |four: u32| {
            let words = philox(seed, [row, step, stream | four << 22, member]);
            words.map(|word| if word < threshold { 0.0 } else { factor })
        })
    }
}

/// A word below this is left out.
pub(crate) fn threshold(percent: u8) -> u32 {
    ((u64::from(percent) << 32) / 100) as u32
}

/// Which step of which member it is: what is left out follows from it, layer by layer.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// The root of all randomness.
    pub seed: u64,
    /// The member's id.
    pub member: u32,
    /// Steps done before.
    pub step: u32,
}

impl Turn {
    /// What this step leaves out of a layer.
    pub fn of(&self, layer: usize, percent: u8) -> Dropout {
        Dropout::new(self.seed, self.member, layer, self.step, percent)
    }
}

/// What is kept of a hundred, as a share: where an output was scaled up, this leads back.
pub(crate) fn share(percent: u8) -> f32 {
    (100.0 - f32::from(percent)) / 100.0
}

/// What is kept is multiplied with this, so that means stay.
pub(crate) fn factor(percent: u8) -> f32 {
    100.0 / (100.0 - f32::from(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(dropout: &Dropout, rows: u32, units: usize) -> Vec<f64> {
        let each = |row| dropout.row(row).take(units).map(|f| if f > 0.0 { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
        (0..rows).flat_map(each).collect()
    }

    #[test]
    fn as_many_are_kept_as_asked_and_means_stay() {
        for percent in [0, 1, 10, 50, 99] {
            let dropout = Dropout::new(3, 7, 2, 11, percent);
            let (rows, units) = (512, 256);
            let share = kept(&dropout, rows, units).iter().sum::<f64>() / f64::from(rows) / units as f64;
            let wanted = 1.0 - f64::from(percent) / 100.0;
            let sigma = (wanted * (1.0 - wanted) / f64::from(rows) / units as f64).sqrt();
            assert!((share - wanted).abs() <= 4.0 * sigma, "{percent}: {share}");
            assert!(dropout.row(0).take(units).all(|f| f == 0.0 || (f64::from(f) * wanted - 1.0).abs() < 1e-6));
        }
    }

    #[test]
    fn neighbours_in_every_direction_know_nothing_of_each_other() {
        let (rows, units, percent) = (256, 128, 30);
        let mask = |seed, member, layer, step| kept(&Dropout::new(seed, member, layer, step, percent), rows, units);
        let base = mask(3, 7, 2, 11);
        let along = |a: &[f64], b: &[f64], what: &str| {
            let n = a.len().min(b.len());
            let (p, q) = (0.7, 0.3);
            let both = a.iter().zip(b).map(|(a, b)| (a - p) * (b - p)).sum::<f64>() / n as f64 / (p * q);
            // A correlation of independent ones has a deviation of 1/√n.
            assert!(both.abs() < 4.5 / (n as f64).sqrt(), "{what}: {both}");
        };
        along(&base, &mask(4, 7, 2, 11), "seed");
        along(&base, &mask(3, 8, 2, 11), "member");
        along(&base, &mask(3, 7, 3, 11), "layer");
        along(&base, &mask(3, 7, 2, 12), "step");
        along(&base, &mask(3, 11, 2, 7), "step for member");
        along(&base, &base[1..], "unit");
        along(&base, &base[4..], "four units");
        along(&base, &base[units..], "row");
        assert!(base != mask(4, 7, 2, 11) && base == mask(3, 7, 2, 11));
    }

    /// Another number here is another run everywhere.
    #[test]
    fn bits_are_pinned() {
        let mask: Vec<bool> = Dropout::new(42, 5, 1, 3, 40).row(9).take(12).map(|f| f > 0.0).collect();
        let words: Vec<u32> = (0..3).flat_map(|four| philox(42, [9, 3, 3 | 1 << 8 | four << 22, 5])).collect();
        assert_eq!(mask, words.iter().map(|w| *w >= 1_717_986_918).collect::<Vec<bool>>());
    }
}
