//! What classifiers are trained with where nothing is set: by fixed rules of the data, never by the clock, so that two
//! runs with one seed agree. How long they train is [`Extent::default`](crate::Extent).

use compute::population::{Precision, Recipe, Schedule, Shape};

/// Whether rare classes weigh more: each as much as any other in sum.
pub const BALANCE: bool = true;

/// The recipe for a batch, a precision and a seed: AdamW with its own defaults, half a cosine after a warm-up over 2 %
/// of the steps, no label smoothing and no average of the weights.
pub fn recipe(batch: usize, precision: Precision, seed: u64) -> Recipe {
    Recipe { schedule: schedule(Shape::Cosine, 0.02), ..Recipe::new(batch, precision, seed) }
}

/// A schedule that ends at a hundredth of its rate, unless the rate is constant.
pub fn schedule(shape: Shape, warmup: f32) -> Schedule {
    let floor = if shape == Shape::Constant { 1.0 } else { 0.01 };
    Schedule { shape, warmup, floor }
}

/// bf16 on a GPU, which is made for it; on a CPU it would only be rounding.
pub fn precision(cuda: bool) -> Precision {
    if cuda { Precision::Bf16 } else { Precision::F32 }
}

/// A power of two with about 250 steps per epoch: small data want many steps, large data a full device.
pub fn batch(samples: usize) -> usize {
    let most = (samples / 250).clamp(32, 3072);
    if most >= 3072 { 3072 } else { 1 << most.ilog2() }
}

/// The rate for a batch: 1e-3 at 512, with the root of the batch, between a quarter and four times that.
pub fn rate(batch: usize) -> f64 {
    1e-3 * (batch as f64 / 512.0).sqrt().clamp(0.25, 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_follows_from_the_samples_and_the_rate_from_the_batch() {
        for (samples, wanted) in [(0, 32), (9_999, 32), (16_000, 64), (128_000, 512), (767_999, 2048), (768_000, 3072)]
        {
            assert_eq!(batch(samples), wanted, "{samples} samples");
        }
        for (batch, wanted) in [(1, 2.5e-4), (32, 2.5e-4), (128, 5e-4), (512, 1e-3), (2048, 2e-3), (1 << 20, 4e-3)] {
            assert_eq!(rate(batch), wanted, "batches of {batch}");
        }
    }

    #[test]
    fn a_rate_falls_to_a_hundredth_unless_it_is_constant() {
        let last = |shape| schedule(shape, 0.02).factor(1000, 1000);
        assert_eq!(last(Shape::Constant), 1.0);
        for shape in [Shape::Cosine, Shape::OneCycle] {
            assert!((last(shape) - 0.01).abs() < 1e-6, "{shape:?} ends at {}", last(shape));
        }
    }
}
