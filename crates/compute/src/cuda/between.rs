//! What may stand between a layer's product and the next layer, as launches: norms and values left out. The kernels are
//! in `population/between.cu`.

use super::arguments::Address;
use super::calls::{Calls, Rows, Sums, blocks, code, slice};
use super::context::Context;
use super::engine::Mode;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Kernel, Module};
use crate::arguments;
use crate::error::Result;
use crate::net::Activation;
use crate::population::SlotState;
use crate::random::{self, Stream as Draws};
use std::sync::Arc;

/// The kernels, for bf16 or for f32.
pub(super) struct Between {
    leave_out: Kernel<LeaveOutArgs>,
    put_back: Kernel<PutBackArgs>,
    normalise: Kernel<NormaliseArgs>,
    denormalise: Kernel<DenormaliseArgs>,
    sums: Kernel<NormSumsArgs>,
}

/// What a step leaves out of a layer.
#[derive(Clone, Copy)]
pub(super) struct LeftOut {
    pub(super) seed: u64,
    pub(super) layer: usize,
    pub(super) percent: u8,
    /// Where it is said which row of the batch is the first here, where that goes in parts.
    pub(super) begin: Option<Slice<u32>>,
}

impl LeftOut {
    /// As the kernels take it; only a step leaves anything out.
    fn given(self, mode: Mode) -> Left {
        let percent = if mode == Mode::Step { self.percent } else { 0 };
        Left {
            seed: self.seed,
            stream: Draws::Dropout as u32 | n(self.layer) << 8,
            threshold: random::threshold(percent),
            factor: random::factor(percent),
            share: random::share(percent),
            begin: self.begin,
        }
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
        let typed = |name: &str| format!("{name}_{kind}");
        Ok(Between {
            leave_out: module.typed(&typed("leave_out"))?,
            put_back: module.typed(&typed("put_back"))?,
            normalise: module.typed(&typed("normalise"))?,
            denormalise: module.typed(&typed("denormalise"))?,
            sums: module.typed(&typed("norm_sums"))?,
        })
    }

    /// Leaves out some of a step's outputs.
    pub(super) fn leave_out(&self, stream: &Stream, states: &Slice<SlotState>, left: LeftOut, y: Rows) -> Result<()> {
        let args = LeaveOutArgs {
            states: *states,
            y: Address(y.at),
            y_stride: y.stride as u64,
            y_member: member(&y),
            left: left.given(Mode::Step),
            mode: Mode::Step as u32,
            batch: n(y.batch),
            width: n(y.width),
        };
        // SAFETY: places of the engine's slab, laid out for this batch.
        unsafe { self.leave_out.send(stream, elements(&y, states), 256, 0, &args) }
    }

    /// The gradient before what was left out and before the activation: from f32 at `from` to `to`, both with the
    /// strides of `y`.
    pub(super) fn put_back(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        left: LeftOut,
        y: Rows,
        (from, to): (u64, u64),
        activation: Activation,
    ) -> Result<()> {
        let args = PutBackArgs {
            states: *states,
            dy: Address(from),
            dy_stride: y.stride as u64,
            dy_member: member(&y),
            y: Address(y.at),
            y_stride: y.stride as u64,
            y_member: member(&y),
            dz: Address(to),
            dz_stride: y.stride as u64,
            dz_member: member(&y),
            left: left.given(Mode::Step),
            mode: Mode::Step as u32,
            act: code(activation),
            batch: n(y.batch),
            width: n(y.width),
        };
        // SAFETY: as above.
        unsafe { self.put_back.send(stream, elements(&y, states), 256, 0, &args) }
    }

    /// From sums of products to a layer's output.
    #[expect(clippy::too_many_arguments, reason = "a norm is these things")]
    pub(super) fn normalise(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        mode: Mode,
        left: LeftOut,
        norm: &Norm,
        y: Rows,
        activation: Activation,
    ) -> Result<()> {
        let args = NormaliseArgs {
            states: *states,
            z: Address(norm.z),
            bias: Address(norm.bias),
            learned: Address(norm.learned),
            params: norm.params as u64,
            normed: Address(norm.normed.0),
            normed_stride: norm.normed.1 as u64,
            deviations: Address(norm.deviations),
            y: Address(y.at),
            y_stride: y.stride as u64,
            y_member: member(&y),
            left: left.given(mode),
            mode: mode as u32,
            act: code(activation),
            batch: n(y.batch),
            width: n(y.width),
            outputs: n(norm.outputs),
        };
        // SAFETY: as above.
        unsafe { self.normalise.send(stream, rows(&y, states), 256, 0, &args) }
    }

    /// From the gradient at a layer's output, f32 at `from` with the strides of `y`, to that at its product, at `to`;
    /// then the gradients of gain and shift, at `learned` of the gradients' arena, over `partial`.
    #[expect(clippy::too_many_arguments, reason = "a norm is these things")]
    pub(super) fn denormalise(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        left: LeftOut,
        norm: &Norm,
        y: Rows,
        (from, to): (u64, u64),
        activation: Activation,
        (calls, partial, learned): (&Calls, &Slice<f32>, u64),
    ) -> Result<()> {
        let args = DenormaliseArgs {
            states: *states,
            dy: Address(from),
            dy_stride: y.stride as u64,
            dy_member: member(&y),
            y: Address(y.at),
            y_stride: y.stride as u64,
            y_member: member(&y),
            normed: Address(norm.normed.0),
            normed_stride: norm.normed.1 as u64,
            deviations: Address(norm.deviations),
            gain: Address(norm.learned),
            params: norm.params as u64,
            kept_dn: Address(norm.z),
            dz: Address(to),
            dz_stride: y.stride as u64,
            dz_member: member(&y),
            left: left.given(Mode::Step),
            mode: Mode::Step as u32,
            act: code(activation),
            batch: n(y.batch),
            width: n(y.width),
            outputs: n(norm.outputs),
        };
        // SAFETY: as above.
        unsafe { self.denormalise.send(stream, rows(&y, states), 256, 0, &args)? };
        let args = NormSumsArgs {
            states: *states,
            kept_dn: Address(norm.z),
            normed: Address(norm.normed.0),
            normed_stride: norm.normed.1 as u64,
            partial: *partial,
            mode: Mode::Step as u32,
            batch: n(y.batch),
            slice: n(slice(y.batch)),
            width: n(y.width),
        };
        let grid = [n(y.width.div_ceil(128)), n(blocks(y.batch)), n(states.len())];
        // SAFETY: as above.
        unsafe { self.sums.send(stream, grid, 256, 0, &args)? };
        let sums = Sums { partial: partial.address(), blocks: blocks(y.batch), width: 2 * y.width };
        calls.sum_partials(stream, states, &sums, learned, norm.params)
    }
}

/// From slot to slot.
fn member(y: &Rows) -> u64 {
    (y.batch * y.stride) as u64
}

fn n(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A grid with a thread for four numbers.
fn elements(y: &Rows, states: &Slice<SlotState>) -> [u32; 3] {
    [n((y.batch * y.width).div_ceil(1024)), n(states.len()), 1]
}

/// A grid with a warp for a row.
fn rows(y: &Rows, states: &Slice<SlotState>) -> [u32; 3] {
    [n(y.batch.div_ceil(8)), n(states.len()), 1]
}

arguments! {
    /// What a step leaves out of a layer.
    struct Left in "../population/between.cu" {
        seed: u64,
        stream: u32,
        threshold: u32,
        factor: f32,
        share: f32,
        begin: Option<Slice<u32>>,
    }
}

arguments! {
    /// Of `leave_out`.
    struct LeaveOutArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        y: Address,
        y_stride: u64,
        y_member: u64,
        left: Left,
        mode: u32,
        batch: u32,
        width: u32,
    }
}

arguments! {
    /// Of `put_back`.
    struct PutBackArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        dy: Address,
        dy_stride: u64,
        dy_member: u64,
        y: Address,
        y_stride: u64,
        y_member: u64,
        dz: Address,
        dz_stride: u64,
        dz_member: u64,
        left: Left,
        mode: u32,
        act: u32,
        batch: u32,
        width: u32,
    }
}

arguments! {
    /// Of `normalise`.
    struct NormaliseArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        z: Address,
        bias: Address,
        learned: Address,
        params: u64,
        normed: Address,
        normed_stride: u64,
        deviations: Address,
        y: Address,
        y_stride: u64,
        y_member: u64,
        left: Left,
        mode: u32,
        act: u32,
        batch: u32,
        width: u32,
        outputs: u32,
    }
}

arguments! {
    /// Of `denormalise`.
    struct DenormaliseArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        dy: Address,
        dy_stride: u64,
        dy_member: u64,
        y: Address,
        y_stride: u64,
        y_member: u64,
        normed: Address,
        normed_stride: u64,
        deviations: Address,
        gain: Address,
        params: u64,
        kept_dn: Address,
        dz: Address,
        dz_stride: u64,
        dz_member: u64,
        left: Left,
        mode: u32,
        act: u32,
        batch: u32,
        width: u32,
        outputs: u32,
    }
}

arguments! {
    /// Of `norm_sums`.
    struct NormSumsArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        kept_dn: Address,
        normed: Address,
        normed_stride: u64,
        partial: Slice<f32>,
        mode: u32,
        batch: u32,
        slice: u32,
        width: u32,
    }
}
