//! Batch, precision and rate where none was chosen, by fixed rules of the data, never by the clock, so that two runs
//! with one seed agree.

use crate::settings::{ClassifySettings, Settings};
use compute::population::{Optimiser, Precision, Recipe, Rule, Schedule, Shape};

/// Batch, precision, optimiser and schedule. `samples` are those of the smallest fold.
pub(crate) fn recipe(settings: &Settings, samples: usize, cuda: bool) -> Recipe {
    let own = &settings.classify;
    let batch = own.batch.unwrap_or_else(|| batch(samples));
    let clip = (own.clip > 0.0).then_some(own.clip as f32);
    let warmup = own.warmup as f32;
    Recipe {
        batch,
        precision: settings.train.precision.unwrap_or_else(|| precision(cuda)),
        optimiser: Optimiser { rule: Rule::AdamW, decay: own.decay as f32, clip, ..Optimiser::default() },
        schedule: match own.schedule {
            Shape::Constant => Schedule { shape: Shape::Constant, warmup, floor: 1.0 },
            shape => Schedule { shape, warmup, floor: 0.01 },
        },
        seed: settings.general.seed,
        smoothing: own.smoothing as f32,
        average: (own.average > 0.0).then_some(own.average as f32),
    }
}

/// bf16 on a card, which is made for it; on a processor it would only be rounding.
pub(crate) fn precision(cuda: bool) -> Precision {
    if cuda { Precision::Bf16 } else { Precision::F32 }
}

/// A power of two with some 250 steps an epoch: small data want many steps, large data a full device.
pub(crate) fn batch(samples: usize) -> usize {
    let most = (samples / 250).clamp(32, 3072);
    if most >= 3072 { 3072 } else { 1 << most.ilog2() }
}

/// The rate for a batch: 1e-3 at 512, with the root of the batch.
pub(crate) fn rate(own: &ClassifySettings, batch: usize) -> f32 {
    own.rate.unwrap_or_else(|| 1e-3 * (batch as f64 / 512.0).sqrt().clamp(0.25, 4.0)) as f32
}
