//! The words a population is described with: data, members, recipe; and what comes back.

/// Numbers in rows: `[rows, stride]`, row-major.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// `[rows, stride]`
    pub values: &'a [f32],
    /// Elements of a row, a multiple of 4.
    pub stride: usize,
}

impl Table<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.stride).unwrap_or(0)
    }
}

/// What there is to learn from. A sample is a row id of the first table; only rows whose windows are whole and valid belong into a list.
#[derive(Debug, Clone)]
pub struct Data<'a> {
    /// `[inputs]` one table for each input of the net.
    pub tables: Vec<Table<'a>>,
    /// `[inputs]` for inputs on another table than the first: its row for each row of the first table.
    pub maps: Vec<Option<&'a [u32]>>,
    /// `[heads][rows of the first table]` the class of each row.
    pub labels: Vec<&'a [u8]>,
    /// `[rows of the first table]` a weight for each row; 1 where there is none.
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
    /// Inputs, weights, activations and their gradients rounded to bf16; sums in f32. On CPUs the same rounding, for parity.
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

/// How the rate changes with a member's own steps: `rate × warm(t) × shape(t)`, `t` from 1.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Schedule {
    /// Steps of linear growth from 0: `warm(t) = min(1, t / warmup)`.
    pub warmup: u32,
    /// Steps over which it falls as half a cosine from 1 to `floor`; 0 keeps it at 1.
    pub cosine: u32,
    /// What is left at the end of the cosine.
    pub floor: f32,
}

impl Schedule {
    /// The same rate always.
    pub const CONSTANT: Schedule = Schedule { warmup: 0, cosine: 0, floor: 1.0 };

    /// The factor at step `t`, from 1. Computed in f64; the device twin is in `population.cu`.
    pub fn factor(&self, t: u32) -> f64 {
        let warm = if t < self.warmup { f64::from(t) / f64::from(self.warmup) } else { 1.0 };
        let shape = if self.cosine == 0 {
            1.0
        } else {
            let done = (f64::from(t) / f64::from(self.cosine)).min(1.0);
            let floor = f64::from(self.floor);
            floor + (1.0 - floor) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
        };
        warm * shape
    }
}

/// How a population is trained: what changes bits, and is part of a run's settings.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Recipe {
    /// Rows of a batch, for each member.
    pub batch: usize,
    /// How numbers are held.
    pub precision: Precision,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// The rate over time.
    pub schedule: Schedule,
    /// The root of all randomness.
    pub seed: u64,
}

/// Which algorithm a library took for each kind of product: stored with a run and handed in again, so that a member's bits stay the
/// same. Empty lets the library choose; on CPUs it stays empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pins(pub std::collections::BTreeMap<String, String>);

/// A member's state as it lies on the device, 72 bytes. `population.cuh` has the same fields in the same order.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct State {
    /// The member's id.
    pub id: u32,
    /// Its place in the list of members: its scales, class weights and lists lie there, whatever its slot.
    pub index: u32,
    /// 1 while it trains.
    pub active: u32,
    /// 1 when an epoch has ended and its validation is wanted; it waits.
    pub due: u32,
    /// 1 when a gradient was not finite; its parameters are as before that step, and it is no longer active.
    pub fault: u32,
    /// Samples of this epoch that are done.
    pub cursor: u32,
    /// Epochs that are done.
    pub epoch: u32,
    /// Steps that are done.
    pub step: u32,
    /// Samples of an epoch.
    pub samples: u32,
    /// Where its training list begins in all lists, one behind the other.
    pub list: u32,
    /// Epochs it is to do.
    pub epochs: u32,
    /// Its learning rate before the schedule.
    pub rate: f32,
    /// The global norm of the last gradient (of the weighted mean loss), before clipping.
    pub norm: f32,
    /// Nothing; the sums behind it want 8 bytes.
    pub spare: u32,
    /// Sum of weighted losses of this epoch so far; of the whole epoch while `due`.
    pub loss: f64,
    /// Sum of weights of this epoch so far.
    pub weight: f64,
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
