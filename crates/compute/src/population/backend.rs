//! What a device must do for a population. Two twins do it: `cpu::Engine` and `cuda::Engine`.
//!
//! One step of one slot, the same on both:
//! 1. *Skip* if the slot is not active, or is due.
//! 2. *Gather.* Row `b` of the batch is sample `cursor + b`. Below `samples` it is entry `cursor + b` of its list in
//!    the order of `permutation(seed, id, epoch)`, with weight `weights[sample] × class_weights[label]`; from there on
//!    (the tail) it is zeros with weight 0. A sample is an id; an input's map says its row, without one it is the row.
//!    Each input is `(x - mean) × inverse` in f32; in bf16 it is then rounded.
//! 3. *Forward.* Recurrent layers walk through their window first, from its oldest row `t = 0` on, `h` and `c` before
//!    it 0: `z = Wx x_t + Wh h_{t-1} + b` (f32 sums; in bf16 the weights, x and h are bf16 values, the bias is the f32
//!    master), `i = σ(z_i)`, `f = σ(z_f)`, `g = tanh(z_g)`, `o = σ(z_o)`, `c_t = f c_{t-1} + i g` (carried in f32),
//!    `h_t = o tanh(c_t)`, in bf16 rounded: the rounded h is what everyone reads. A layer above another reads every
//!    h of that one as its x; the last h of the top one goes on. Every other layer is `activation(W x + bias)` with f32
//!    sums. In bf16 the weights, the biases of hidden layers and the outputs of hidden layers are rounded to bf16;
//!    logits stay f32 and their bias is the f32 master. With a norm a layer is `activation(x̂ gain + shift)`,
//!    `x̂ = (z - mean) / sqrt(var + 1e-5)` over the true width of `z = W x + bias`, whose sums stay f32; mean and
//!    variance (of n, not of n - 1) in f32, in a fixed order, the mean first. In bf16 `x̂` is rounded, and the rounded
//!    one is what both passes read; one over the deviation, gain and shift are f32. These two are saved for the way
//!    back, nothing else. With a dropout of p % a step makes of an output y, as it is held, `y × 100 / (100 - p)` (in
//!    bf16 rounded) or 0, as [`Dropout`](crate::random::Dropout) says for the seed, the id, the layer (behind all
//!    layers the recurrent ones), the steps done, the row `b` and the unit; so it does with the last h of a top
//!    recurrent layer. Scores and logits leave nothing out.
//! 4. *Loss.* For each head softmax cross-entropy `w × (log Σ exp z - z[label])`, summed over rows and heads in f64 in
//!    a fixed order; the gradient at the logits is `w × (softmax - onehot)`, not divided by the weight sum (rounded in
//!    bf16), padding 0. With a smoothing `s` over `K` classes a step takes `(1 - s) z[label] + s mean(z)` for
//!    `z[label]` and `(1 - s) onehot + s / K` for `onehot`; a score does not. A head's weight is `weights[sample] ×
//!    class_weights[head][label]`; the weight sum is that of the first head.
//! 5. *Backward.* dW = dZᵀ X and dbias = Σ dZ in f32; dX = dZ W, times the derivative of the layer before (from its
//!    output: `y > 0`, or `1 - y²`), rounded in bf16. Gradients from several heads are added before the derivative. A
//!    value that was left out passes 0 back, one that was kept `dy × 100 / (100 - p)`, and the derivative is taken at
//!    `y × (100 - p) / 100`. With a norm that is `dn`, in f32: dgain = Σ dn x̂, dshift = Σ dn, and with `g = dn gain`
//!    then `dz = (g - mean(g) - x̂ mean(g x̂)) / sqrt(var + 1e-5)`, rounded in bf16. Then recurrent layers from the top
//!    one of a branch down, each from the last row of its window to the first. `e_t` is the gradient at `h_t` that
//!    comes from elsewhere: from the layers behind at the last row, from the recurrent layer above at every row, else
//!    0; in bf16 rounded. With `tc = tanh(c_t)`, where in bf16 `c_t` and `c_{t-1}` are c rounded to bf16 and the gates
//!    are those of the forward pass: `dh = e_t + dh_carry`, `dc = dh o (1 - tc²) + dc_carry`, `do = dh tc o (1 - o)`,
//!    `di = dc g i (1 - i)`, `df = dc c_{t-1} f (1 - f)`, `dg = dc i (1 - g²)`, `dc_carry = dc f`. dz = (di, df, dg,
//!    do), in bf16 rounded, goes everywhere else: `dh_carry = Whᵀ dz` (f32), `dW += dz [x_t, h_{t-1}]ᵀ` and `db += dz`
//!    in f32 in a fixed order, and to the layer below `Wxᵀ dz`, which is its `e_t`.
//! 6. *Optimise.* The gradient is divided by the weight sum here (`g = sum / weight`); `norm = sqrt(Σ g²)`, with sums
//!    of squares in f64 in fixed order; `g × min(1, clip / (norm + 1e-6))`; then Adam or AdamW as PyTorch defines them,
//!    at `rate × schedule.factor(step + 1, total)`. With an average of memory `d` then `average = d average + (1 - d)
//!    params` in f32, and at step 1 the parameters themselves; before it the average is the first weights. Nothing is
//!    changed where the weight sum is 0. A norm that is not finite sets `fault`, clears `active` and changes nothing.
//! 7. *Advance.* `step + 1`, `cursor + batch`, loss and weight added to the epoch's sums, `norm` kept. At the end of
//!    the list: `epoch + 1`, `cursor = 0`, `due = 1`; after the last epoch `active = 0` too. The sums of loss and
//!    weight are cleared by the step that begins an epoch (`cursor == 0`).
//!
//! A batch in parts ([`Pace`](super::Pace)) does 2 to 5 part by part, row `b` being that of the whole batch: gradients
//! are added in f32, losses and weights in f64, in the order of the parts. Then 6 and 7 follow once.
//!
//! Scores and logits are of the average where there is one: in bf16 of the average rounded as the parameters are.

use super::{Pins, State};
use crate::error::{Error, Result};

/// Sums over a validation list.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sums {
    /// Sum of weighted losses over all heads.
    pub(crate) loss: f64,
    /// Sum of the weights of the first head.
    pub(crate) weight: f64,
    /// `[heads][true class, guessed class]` counts of rows, whatever their weight; the first of equal logits is the
    /// guess.
    pub(crate) confusion: Vec<Vec<u64>>,
}

/// What is said where an average is asked for and the recipe has none.
pub(crate) fn no_average() -> Error {
    Error::Invalid("this recipe has no average of the weights; ask for one with `average`".into())
}

/// A device's side of a population. Slots are rows of the arena.
pub(crate) trait Backend: Send {
    /// So many steps of each of the first `slots` slots.
    fn steps(&mut self, slots: usize, steps: u32) -> Result<()>;

    /// Makes whatever steps and scores of so many slots need, so that what goes wrong there goes wrong now. Changes
    /// nothing else.
    fn prepare(&mut self, _slots: usize) -> Result<()> {
        Ok(())
    }

    /// `[P]` the states of all slots.
    fn states(&mut self) -> Result<Vec<State>>;

    /// Replaces the states of all slots.
    fn set_states(&mut self, states: &[State]) -> Result<()>;

    /// Exchanges two slots: all arenas and [`State`].
    fn swap(&mut self, a: usize, b: usize) -> Result<()>;

    /// One slot's parameters, their average and what the optimiser knows of them become another's; its [`State`] stays.
    fn adopt(&mut self, from: usize, to: usize) -> Result<()>;

    /// Sums over the validation list of every slot among the first `slots` that is due; the others' are empty. Rows in
    /// fixed chunks.
    fn score(&mut self, slots: usize) -> Result<Vec<Sums>>;

    /// `[heads][rows, classes]` logits of one slot on any ids.
    fn logits(&mut self, slot: usize, rows: &[u32]) -> Result<Vec<Vec<f32>>>;

    /// One slot's row of an arena.
    fn read(&mut self, slot: usize, arena: Arena) -> Result<Vec<f32>>;

    /// Replaces one slot's row of an arena.
    fn write(&mut self, slot: usize, arena: Arena, values: &[f32]) -> Result<()>;

    /// The algorithms of its products, where a library does them.
    fn pins(&self) -> Pins {
        Pins::default()
    }

    /// Chooses those algorithms by the clock.
    fn tune(&mut self) -> Result<()> {
        Ok(())
    }

    /// How each layer's products are done, for people.
    fn kernel_paths(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The arenas, each `[P, params]` f32. All but the average are always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arena {
    /// Master weights.
    Params,
    /// The optimiser's mean of gradients.
    Mean,
    /// The optimiser's mean of squares.
    Square,
    /// The last gradient, not yet divided by the weight sum.
    Gradient,
    /// The average of the master weights, where the recipe has one; it is whoever writes them that keeps the two alike.
    Average,
}
