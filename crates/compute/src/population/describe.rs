//! The words a population is described with: data, members, recipe; and what comes back.

/// What is learned of the rows of [`Tables`](crate::Tables). A sample is an id of theirs; only ids whose windows are
/// whole and valid belong into a list.
#[derive(Debug, Clone)]
pub struct Data<'a> {
    /// `[heads][ids]` the class of each.
    pub labels: Vec<&'a [u8]>,
    /// `[ids]` the weight of each; 1 where there is none.
    pub weights: Option<&'a [f32]>,
    /// Lists of samples; members name them by number.
    pub lists: Vec<&'a [u32]>,
}

/// A member's own scaling of one input, from its own training rows: `(x - mean) * inverse`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// `[features]`
    pub mean: Vec<f32>,
    /// `[features]` one over the deviation.
    pub inverse: Vec<f32>,
}

/// One net of the population.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name for life: randomness is keyed by it.
    pub id: u32,
    /// The list it trains on.
    pub train: usize,
    /// The list it is validated on.
    pub valid: Option<usize>,
    /// It ends after so many epochs.
    pub epochs: u32,
    /// Its learning rate, before the schedule.
    pub rate: f32,
    /// `[inputs]` its scaling; none leaves the input as it is.
    pub scales: Vec<Option<Scale>>,
    /// `[heads][classes]` weights of the classes; empty for 1.
    pub class_weights: Vec<Vec<f32>>,
}

/// How numbers are held during a step. Master weights, sums and the optimiser are always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// f32 throughout.
    F32,
    /// f32 with products of 10 bits of mantissa; only when asked. On CPUs the same as f32.
    Tf32,
    /// Inputs, weights, activations and their gradients rounded to bf16; sums in f32. On CPUs the same rounding, and
    /// products of bf16 where the processor has them.
    Bf16,
}

/// Which optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Adam (Kingma and Ba 2015); decay is added to the gradient.
    Adam,
    /// AdamW (Loshchilov and Hutter 2019); decay shrinks the weights directly.
    AdamW,
}

/// The optimiser and its constants.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Optimiser {
    /// Which.
    pub rule: Rule,
    /// Memory of the mean.
    pub beta1: f32,
    /// Memory of the square.
    pub beta2: f32,
    /// Added to the root.
    pub eps: f32,
    /// Weight decay, on all parameters as PyTorch has it.
    pub decay: f32,
    /// The largest global norm of a gradient; larger ones are scaled to it.
    pub clip: Option<f32>,
}

impl Default for Optimiser {
    fn default() -> Optimiser {
        Optimiser { rule: Rule::AdamW, beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.01, clip: Some(1.0) }
    }
}

/// What the rate does after its warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// It grows in a line from 0 and stays.
    #[default]
    Constant,
    /// It grows in a line from 0, then falls as half a cosine to the floor.
    Cosine,
    /// It grows as half a cosine from a twenty-fifth, then falls as half a cosine to the floor (Smith and Topin 2018).
    OneCycle,
}

/// How the rate changes over a member's own length: `rate × factor(t, total)`, `t` from 1 to its `total` steps.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    /// What it does.
    pub shape: Shape,
    /// The share of its steps in which the rate grows, 0 to 1.
    pub warmup: f32,
    /// What is left of the rate at the last step; a constant rate has none.
    pub floor: f32,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule::CONSTANT
    }
}

impl Schedule {
    /// The same rate always.
    pub const CONSTANT: Schedule = Schedule { shape: Shape::Constant, warmup: 0.0, floor: 0.0 };
    /// What a one-cycle rate begins with, of its highest.
    const BEGIN: f64 = 1.0 / 25.0;

    /// Up over a share of the steps, then down as half a cosine.
    pub const fn cosine(warmup: f32, floor: f32) -> Schedule {
        Schedule { shape: Shape::Cosine, warmup, floor }
    }

    /// Up and down, both as half a cosine.
    pub const fn one_cycle(warmup: f32, floor: f32) -> Schedule {
        Schedule { shape: Shape::OneCycle, warmup, floor }
    }

    /// The factor at step `t` of `total`, from 1. Computed in f64; the device twin is in `population.cu`.
    pub fn factor(&self, t: u32, total: u32) -> f64 {
        let half = |done: f64| 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        let (t, total) = (f64::from(t), f64::from(total));
        let warm = f64::from(self.warmup) * total;
        if t < warm {
            return match self.shape {
                Shape::OneCycle => 1.0 - (1.0 - Schedule::BEGIN) * half(t / warm),
                Shape::Constant | Shape::Cosine => t / warm,
            };
        }
        if self.shape == Shape::Constant {
            return 1.0;
        }
        // Beyond its own length it stays at the floor; without any steps after the warm-up it is at the top.
        let done = if total > warm { ((t - warm) / (total - warm)).min(1.0) } else { 0.0 };
        let floor = f64::from(self.floor);
        floor + (1.0 - floor) * half(done)
    }
}

/// How a population is trained: what changes bits, and is part of a run's settings.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Recipe {
    /// Batch sizes, in rows per member.
    pub batch: usize,
    /// How numbers are held.
    pub precision: Precision,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// The rate over time.
    #[serde(default)]
    pub schedule: Schedule,
    /// The root of all randomness.
    pub seed: u64,
    /// The share of a label that is spread evenly over all classes in training, from 0 to below 1; validation never
    /// does it.
    #[serde(default)]
    pub smoothing: f32,
    /// Memory of a running average of the weights, from 0 to below 1. Where there is one, scores, logits,
    /// [`params`](super::Population::params) and saved files are of the average; training goes on with the weights
    /// themselves, which a [`Snapshot`](super::Snapshot) has too.
    #[serde(default)]
    pub average: Option<f32>,
}

impl Recipe {
    /// AdamW at a constant rate, without anything else.
    pub fn new(batch: usize, precision: Precision, seed: u64) -> Recipe {
        let (optimiser, schedule) = (Optimiser::default(), Schedule::CONSTANT);
        Recipe { batch, precision, optimiser, schedule, seed, smoothing: 0.0, average: None }
    }
}

/// How a population goes through its batches. No part of the recipe: whatever it is, a member becomes the same but for
/// the order in which gradients are added up. That order changes bits, so a run keeps to the pace it began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Pace {
    /// A batch goes through the net in so many parts of equal size, the last one perhaps smaller: less memory for the
    /// same batch. Rows, weights, values left out and the one step of the optimiser are those of the whole batch.
    pub parts: u32,
}

impl Default for Pace {
    /// Whole batches.
    fn default() -> Pace {
        Pace { parts: 1 }
    }
}

impl Pace {
    /// Rows of a part of a batch.
    pub fn rows(self, batch: usize) -> usize {
        batch.div_ceil(self.parts.max(1) as usize)
    }

    /// Parts of a batch that have rows: 9 rows in 4 parts are 3 parts of 3.
    pub fn count(self, batch: usize) -> usize {
        batch.div_ceil(self.rows(batch).max(1))
    }
}

/// Which algorithm a library took for each kind of product: stored with a run and handed in again, so that a member's
/// bits stay the same. Empty lets the library choose; on CPUs it stays empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pins(pub std::collections::BTreeMap<String, String>);

impl Pins {
    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

crate::arguments! {
    /// Who is in a slot and how far its parameters are, as it lies on the device: what every kernel knows of a member.
    #[repr(C)]
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct SlotState in "population.cuh" {
        /// The member's id.
        pub id: u32,
        /// Its place in the list of members: its scales, class weights and lists lie there, whatever its slot.
        pub index: u32,
        /// 1 while it trains.
        pub active: u32,
        /// 1 while it waits for its validation and takes no steps.
        pub due: u32,
        /// 1 when a gradient was not finite; its parameters are as before that step, and it is no longer active.
        pub fault: u32,
        /// Steps that are done.
        pub step: u32,
        /// Steps of its whole training, which its schedule is laid over.
        pub total: u32,
        /// Its learning rate before the schedule.
        pub rate: f32,
        /// The global norm of the last gradient (of the weighted mean loss), before clipping.
        pub norm: f32,
    }
}

crate::arguments! {
    /// How far a member of a population is in its list of samples, as it lies on the device.
    #[repr(C)]
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct EpochState in "population.cuh" {
        /// Samples of this epoch that are done.
        pub cursor: u32,
        /// Epochs that are done.
        pub done: u32,
        /// Samples of an epoch.
        pub samples: u32,
        /// Epochs it is to do.
        pub epochs: u32,
        /// Where its training list begins in all lists, one behind the other.
        pub list: u64,
        /// Sum of weighted losses of this epoch so far; of the whole epoch while the slot is due.
        pub loss: f64,
        /// Sum of weights of this epoch so far.
        pub weight: f64,
    }
}

/// The state of a member of a population.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct State {
    /// Its slot.
    pub slot: SlotState,
    /// Its epoch.
    pub epoch: EpochState,
}

impl State {
    /// The same, waiting for its validation or not.
    pub(crate) fn with_due(self, due: u32) -> State {
        State { slot: SlotState { due, ..self.slot }, ..self }
    }

    /// Before the first step of a member whose list of `samples` begins at `list`.
    pub(crate) fn first(member: &Member, index: usize, list: usize, samples: usize, batch: usize) -> State {
        let total = u64::from(member.epochs) * samples.div_ceil(batch.max(1)) as u64;
        State {
            slot: SlotState {
                id: member.id,
                index: index as u32,
                active: u32::from(member.epochs > 0 && samples > 0),
                rate: member.rate,
                total: u32::try_from(total).unwrap_or(u32::MAX),
                ..SlotState::default()
            },
            epoch: EpochState {
                samples: samples as u32,
                list: list as u64,
                epochs: member.epochs,
                ..EpochState::default()
            },
        }
    }
}

/// What a member says between chunks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// The member.
    pub id: u32,
    /// Still training.
    pub active: bool,
    /// Waits for its validation.
    pub due: bool,
    /// Stopped because a gradient was not finite; [`fault`](super::Population::fault) says where.
    pub fault: bool,
    /// Epochs done.
    pub epoch: u32,
    /// Steps done.
    pub step: u32,
    /// Mean loss of the epoch so far, or of the whole one while due; NaN before any sample.
    pub loss: f64,
    /// Global norm of the last gradient.
    pub norm: f32,
}

/// What validation saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The member.
    pub id: u32,
    /// After so many epochs.
    pub epoch: u32,
    /// Weighted mean loss over all heads; NaN where the weights sum to 0.
    pub loss: f64,
    /// `[heads][true class, guessed class]` counts of rows.
    pub confusion: Vec<Vec<u64>>,
}

#[cfg(test)]
mod tests {
    use super::{Schedule, Shape};

    #[test]
    fn a_schedule_spans_each_members_own_length() {
        let near = |schedule: Schedule, t: u32, total: u32, wanted: f64| {
            let got = schedule.factor(t, total);
            assert!((got - wanted).abs() < 1e-7, "{schedule:?} at {t} of {total}: {got} is not {wanted}");
        };
        near(Schedule::CONSTANT, 1, 10, 1.0);
        near(Schedule { warmup: 0.5, ..Schedule::CONSTANT }, 1, 8, 0.25);
        near(Schedule { warmup: 0.5, ..Schedule::CONSTANT }, 7, 8, 1.0);
        for (scale, total) in [(1, 8), (1000, 8000)] {
            let (cosine, cycle) = (Schedule::cosine(0.5, 0.2), Schedule::one_cycle(0.25, 0.01));
            near(cosine, scale, total, 0.25);
            near(cosine, 4 * scale, total, 1.0);
            near(cosine, 6 * scale, total, 0.6);
            near(cosine, 8 * scale, total, 0.2);
            near(cosine, 99 * scale, total, 0.2);
            near(cycle, scale, total, 0.52);
            near(cycle, 2 * scale, total, 1.0);
            near(cycle, 5 * scale, total, 0.505);
            near(cycle, 8 * scale, total, 0.01);
        }
        near(Schedule::one_cycle(0.3, 0.0), 0, 10, 0.04);
        near(Schedule::one_cycle(1.0, 0.0), 10, 10, 1.0);
        near(Schedule::cosine(0.0, 0.5), 0, 0, 1.0);
    }

    #[test]
    fn omitted_schedule_fields_take_their_defaults() {
        let read = |text: &str| serde_json::from_str::<Schedule>(text);
        assert_eq!(read("{}").unwrap(), Schedule::CONSTANT);
        let cycle = read(r#"{"shape":"onecycle","warmup":0.25}"#).unwrap();
        assert_eq!(cycle, Schedule { shape: Shape::OneCycle, warmup: 0.25, floor: 0.0 });
        // Steps of an earlier version are not taken for shares.
        assert!(read(r#"{"warmup":3,"cosine":60,"floor":0.1}"#).is_err());
    }
}
