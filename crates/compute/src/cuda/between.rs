//! What may stand between a layer's product and the next layer, as launches: norms and values left out. The kernels are
//! in `population/between.cu`.

use super::calls::{Calls, Rows, Sums, blocks, code, slice};
use super::context::Context;
use super::engine::Mode;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Arg, Function, Module};
use crate::error::Result;
use crate::net::Activation;
use crate::population::State;
use crate::random::{self, Stream as Draws};
use std::sync::Arc;

/// The kernels, for bf16 or for f32.
pub(super) struct Between {
    leave_out: Function,
    put_back: Function,
    normalise: Function,
    denormalise: Function,
    sums: Function,
}

/// What a step leaves out of a layer.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) seed: u64,
    pub(super) layer: usize,
    pub(super) percent: u8,
    /// Where it is said which row of the batch is the first here, where that goes in parts.
    pub(super) begin: Option<Slice<u32>>,
}

impl Left {
    /// `Left` of `between.cu`; only a step leaves anything out.
    fn packed(self, mode: Mode) -> Vec<u8> {
        let percent = if mode == Mode::Step { self.percent } else { 0 };
        let words = [
            Draws::Dropout as u32 | n(self.layer) << 8,
            random::threshold(percent),
            random::factor(percent).to_bits(),
            random::share(percent).to_bits(),
        ];
        let begin = self.begin.map_or(0, |begin| begin.address());
        let words = words.iter().flat_map(|w| w.to_ne_bytes());
        self.seed.to_ne_bytes().into_iter().chain(words).chain(begin.to_ne_bytes()).collect()
    }
}

/// A layer's norm, from its first slot on.
#[derive(Clone, Copy)]
pub(super) struct Norm {
    /// Outputs without padding.
    pub(super) outputs: usize,
    /// Sums of products, and on the way back the gradient at what gain and shift made.
    pub(super) z: u64,
    /// As products read it.
    pub(super) bias: u64,
    /// Gain and shift, the masters.
    pub(super) learned: u64,
    pub(super) params: usize,
    /// The normalised values, and from one row to the next.
    pub(super) normed: (u64, usize),
    pub(super) deviations: u64,
}

impl Between {
    pub(super) fn load(context: &Arc<Context>, bf16: bool) -> Result<Between> {
        let module = Module::load(context, &kernels::BETWEEN)?;
        let kind = if bf16 { "bf16" } else { "f32" };
        let get = |name: &str| module.function(&format!("{name}_{kind}"));
        Ok(Between {
            leave_out: get("leave_out")?,
            put_back: get("put_back")?,
            normalise: get("normalise")?,
            denormalise: get("denormalise")?,
            sums: get("norm_sums")?,
        })
    }

    /// Leaves out some of a step's outputs.
    pub(super) fn leave_out(&self, stream: &Stream, states: &Slice<State>, left: Left, y: Rows) -> Result<()> {
        let packed = left.packed(Mode::Step);
        let args = [
            states.into(),
            Arg::U32(Mode::Step as u32),
            Arg::Bytes(&packed),
            Arg::U32(n(y.batch)),
            Arg::U32(n(y.width)),
            Arg::At(y.at),
            Arg::U64(y.stride as u64),
            Arg::U64((y.batch * y.stride) as u64),
        ];
        // SAFETY: places of the engine's slab, laid out for this batch.
        unsafe { self.leave_out.launch(stream, elements(&y, states), [256, 1, 1], 0, &args) }
    }

    /// The gradient before what was left out and before the activation: from f32 at `from` to `to`, both with the
    /// strides of `y`.
    pub(super) fn put_back(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        left: Left,
        y: Rows,
        (from, to): (u64, u64),
        activation: Activation,
    ) -> Result<()> {
        let packed = left.packed(Mode::Step);
        let (stride, member) = (Arg::U64(y.stride as u64), Arg::U64((y.batch * y.stride) as u64));
        let args = [
            states.into(),
            Arg::U32(Mode::Step as u32),
            Arg::Bytes(&packed),
            Arg::U32(code(activation)),
            Arg::U32(n(y.batch)),
            Arg::U32(n(y.width)),
            Arg::At(from),
            stride,
            member,
            Arg::At(y.at),
            stride,
            member,
            Arg::At(to),
            stride,
            member,
        ];
        // SAFETY: as above.
        unsafe { self.put_back.launch(stream, elements(&y, states), [256, 1, 1], 0, &args) }
    }

    /// From sums of products to a layer's output.
    #[expect(clippy::too_many_arguments, reason = "a norm is these things")]
    pub(super) fn normalise(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        mode: Mode,
        left: Left,
        norm: &Norm,
        y: Rows,
        activation: Activation,
    ) -> Result<()> {
        let packed = left.packed(mode);
        let args = [
            states.into(),
            Arg::U32(mode as u32),
            Arg::Bytes(&packed),
            Arg::U32(code(activation)),
            Arg::U32(n(y.batch)),
            Arg::U32(n(y.width)),
            Arg::U32(n(norm.outputs)),
            Arg::At(norm.z),
            Arg::At(norm.bias),
            Arg::At(norm.learned),
            Arg::U64(norm.params as u64),
            Arg::At(norm.normed.0),
            Arg::U64(norm.normed.1 as u64),
            Arg::At(norm.deviations),
            Arg::At(y.at),
            Arg::U64(y.stride as u64),
            Arg::U64((y.batch * y.stride) as u64),
        ];
        // SAFETY: as above.
        unsafe { self.normalise.launch(stream, rows(&y, states), [256, 1, 1], 0, &args) }
    }

    /// From the gradient at a layer's output, f32 at `from` with the strides of `y`, to that at its product, at `to`;
    /// then the gradients of gain and shift, at `learned` of the gradients' arena, over `partial`.
    #[expect(clippy::too_many_arguments, reason = "a norm is these things")]
    pub(super) fn denormalise(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        left: Left,
        norm: &Norm,
        y: Rows,
        (from, to): (u64, u64),
        activation: Activation,
        (calls, partial, learned): (&Calls, &Slice<f32>, u64),
    ) -> Result<()> {
        let packed = left.packed(Mode::Step);
        let (stride, member) = (Arg::U64(y.stride as u64), Arg::U64((y.batch * y.stride) as u64));
        let args = [
            states.into(),
            Arg::U32(Mode::Step as u32),
            Arg::Bytes(&packed),
            Arg::U32(code(activation)),
            Arg::U32(n(y.batch)),
            Arg::U32(n(y.width)),
            Arg::U32(n(norm.outputs)),
            Arg::At(from),
            stride,
            member,
            Arg::At(y.at),
            stride,
            member,
            Arg::At(norm.normed.0),
            Arg::U64(norm.normed.1 as u64),
            Arg::At(norm.deviations),
            Arg::At(norm.learned),
            Arg::U64(norm.params as u64),
            Arg::At(norm.z),
            Arg::At(to),
            stride,
            member,
        ];
        // SAFETY: as above.
        unsafe { self.denormalise.launch(stream, rows(&y, states), [256, 1, 1], 0, &args)? };
        let args = [
            states.into(),
            Arg::U32(Mode::Step as u32),
            Arg::U32(n(y.batch)),
            Arg::U32(n(slice(y.batch))),
            Arg::U32(n(y.width)),
            Arg::At(norm.z),
            Arg::At(norm.normed.0),
            Arg::U64(norm.normed.1 as u64),
            partial.into(),
        ];
        let grid = [n(y.width.div_ceil(128)), n(blocks(y.batch)), n(states.len())];
        // SAFETY: as above.
        unsafe { self.sums.launch(stream, grid, [256, 1, 1], 0, &args)? };
        let sums = Sums { partial: partial.address(), blocks: blocks(y.batch), width: 2 * y.width };
        calls.sum_partials(stream, states, &sums, learned, norm.params)
    }
}

fn n(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A grid with a thread for four numbers.
fn elements(y: &Rows, states: &Slice<State>) -> [u32; 3] {
    [n((y.batch * y.width).div_ceil(1024)), n(states.len()), 1]
}

/// A grid with a warp for a row.
fn rows(y: &Rows, states: &Slice<State>) -> [u32; 3] {
    [n(y.batch.div_ceil(8)), n(states.len()), 1]
}
