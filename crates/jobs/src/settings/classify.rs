//! The hyper-parameters of classifiers. The defaults are the learner's own ([`learn::classify::defaults`]).

use super::form::{choice, decimal, number, positive, text, truth, whole};
use super::key::section;
use compute::population::{Recipe, Shape};
use learn::classify::defaults;

section! {
    /// The hyper-parameters of classifiers. What is `None` follows from the data by a fixed rule.
    ClassifySettings at classify, "train.";

    /// The net; auto follows from learner and features.
    net: Option<String> = None,
        text("text as in fast:16x50-lstm64 + slow:12x24-lstm24 / 16 / direction:3")
            .or_auto().flag("net", "NET").tried();
    /// Batch size in rows; auto is what `fullbore tune` saved, else about 250 steps per epoch; for ppo an eighth of an
    /// update's steps, or a sixteenth where the net has more than 1,048,576 parameters; 256 for search.
    batch: Option<usize> = None, whole(1..=1 << 20).or_auto().flag("batch-size", "N").tried();
    /// The learning rate before the schedule; auto is 0.001 at batches of 512, and grows with the root of the batch;
    /// whatever the batch, 0.0003 for ppo, 0.001 for search and 0.02 for evolve.
    rate: Option<f64> = None, positive(1.0).or_auto().tried();
    /// How the learning rate changes over a member's epochs.
    schedule: Shape = recipe().schedule.shape, choice(SCHEDULES).tried();
    /// Share of a member's steps in which the learning rate grows (warm-up).
    warmup: f64 = decimal(recipe().schedule.warmup), number(0.0..=1.0).tried();
    /// Weight decay.
    decay: f64 = decimal(recipe().optimiser.decay), number(0.0..=1.0).tried();
    /// The largest norm of a gradient, above which it is clipped; 0 for none.
    clip: f64 = recipe().optimiser.clip.map_or(0.0, decimal), number(0.0..=f64::MAX).tried();
    /// Label smoothing: share of a label that is spread over all classes.
    smoothing: f64 = decimal(recipe().smoothing), number(0.0..=0.9).tried();
    /// Decay of a running average of the weights, which is then what is validated and kept; 0 for none.
    average: f64 = recipe().average.map_or(0.0, decimal), number(0.0..=0.99999).tried();
    /// Whether rare classes weigh more, each as much as any other in sum, up to ten times.
    balance: bool = defaults::BALANCE, truth();
}

/// Its schedule, optimiser, smoothing and average are the same for any batch, precision and seed.
fn recipe() -> Recipe {
    defaults::recipe(defaults::batch(0), defaults::precision(false), 0)
}

const SCHEDULES: &[(&str, Shape)] =
    &[("cosine", Shape::Cosine), ("onecycle", Shape::OneCycle), ("constant", Shape::Constant)];
