//! What may stand between a layer's product and the next layer, as launches: norms and values left out. The kernels are
//! in `population/between.cu`.

use super::arguments::{Address, PackAs};
use super::calls::{Calls, Rows, Sums, blocks, elements, slice};
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
pub(super) struct Dropout {
    pub(super) seed: u64,
    pub(super) layer: usize,
    pub(super) percent: u8,
    /// Where it is said which row of the batch is the first here, where that goes in parts.
    pub(super) begin: Option<Slice<u32>>,
}

impl Dropout {
    /// As the kernels take it; only a step leaves anything out.
    fn given(self, mode: Mode) -> Left {
        let percent = if mode == Mode::Step { self.percent } else { 0 };
        Left {
            seed: self.seed,
            stream: Draws::Dropout as u32 | PackAs::<u32>::to_c(&self.layer) << 8,
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
    pub(super) fn leave_out(&self, stream: &Stream, states: &Slice<SlotState>, left: Dropout, y: Rows) -> Result<()> {
        let args = LeaveOutArgs {
            states: *states,
            y,
            left: left.given(Mode::Step),
            mode: Mode::Step,
            batch: y.batch,
            width: y.width,
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
        left: Dropout,
        y: Rows,
        (from, to): (u64, u64),
        activation: Activation,
    ) -> Result<()> {
        let args = PutBackArgs {
            states: *states,
            dy: Rows { at: from, ..y },
            y,
            dz: Rows { at: to, ..y },
            left: left.given(Mode::Step),
            mode: Mode::Step,
            act: activation,
            batch: y.batch,
            width: y.width,
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
        left: Dropout,
        norm: &Norm,
        y: Rows,
        activation: Activation,
    ) -> Result<()> {
        let args = NormaliseArgs {
            states: *states,
            z: norm.z,
            bias: norm.bias,
            learned: norm.learned,
            params: norm.params,
            normed: norm.normed.0,
            normed_stride: norm.normed.1,
            deviations: norm.deviations,
            y,
            left: left.given(mode),
            mode,
            act: activation,
            batch: y.batch,
            width: y.width,
            outputs: norm.outputs,
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
        left: Dropout,
        norm: &Norm,
        y: Rows,
        (from, to): (u64, u64),
        activation: Activation,
        (calls, partial, learned): (&Calls, &Slice<f32>, u64),
    ) -> Result<()> {
        let args = DenormaliseArgs {
            states: *states,
            dy: Rows { at: from, ..y },
            y,
            normed: norm.normed.0,
            normed_stride: norm.normed.1,
            deviations: norm.deviations,
            gain: norm.learned,
            params: norm.params,
            kept_dn: norm.z,
            dz: Rows { at: to, ..y },
            left: left.given(Mode::Step),
            mode: Mode::Step,
            act: activation,
            batch: y.batch,
            width: y.width,
            outputs: norm.outputs,
        };
        // SAFETY: as above.
        unsafe { self.denormalise.send(stream, rows(&y, states), 256, 0, &args)? };
        let args = NormSumsArgs {
            states: *states,
            kept_dn: norm.z,
            normed: norm.normed.0,
            normed_stride: norm.normed.1,
            partial: *partial,
            mode: Mode::Step,
            batch: y.batch,
            slice: slice(y.batch),
            width: y.width,
        };
        let grid = [y.width.div_ceil(128), blocks(y.batch), states.len()];
        // SAFETY: as above.
        unsafe { self.sums.send(stream, grid, 256, 0, &args)? };
        let sums = Sums { partial: partial.address(), blocks: blocks(y.batch), width: 2 * y.width };
        calls.sum_partials(stream, states, &sums, learned, norm.params)
    }
}

/// A grid with a warp for a row.
fn rows(y: &Rows, states: &Slice<SlotState>) -> [usize; 3] {
    [y.batch.div_ceil(8), states.len(), 1]
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
        y: Rows,
        left: Left,
        mode: Mode as u32,
        batch: usize as u32,
        width: usize as u32,
    }
}

arguments! {
    /// Of `put_back`.
    struct PutBackArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        dy: Rows,
        y: Rows,
        dz: Rows,
        left: Left,
        mode: Mode as u32,
        act: Activation as u32,
        batch: usize as u32,
        width: usize as u32,
    }
}

arguments! {
    /// Of `normalise`.
    struct NormaliseArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        z: u64 as Address,
        bias: u64 as Address,
        learned: u64 as Address,
        params: usize as u64,
        normed: u64 as Address,
        normed_stride: usize as u64,
        deviations: u64 as Address,
        y: Rows,
        left: Left,
        mode: Mode as u32,
        act: Activation as u32,
        batch: usize as u32,
        width: usize as u32,
        outputs: usize as u32,
    }
}

arguments! {
    /// Of `denormalise`.
    struct DenormaliseArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        dy: Rows,
        y: Rows,
        normed: u64 as Address,
        normed_stride: usize as u64,
        deviations: u64 as Address,
        gain: u64 as Address,
        params: usize as u64,
        kept_dn: u64 as Address,
        dz: Rows,
        left: Left,
        mode: Mode as u32,
        act: Activation as u32,
        batch: usize as u32,
        width: usize as u32,
        outputs: usize as u32,
    }
}

arguments! {
    /// Of `norm_sums`.
    struct NormSumsArgs in "../population/between.cu" {
        states: Slice<SlotState>,
        kept_dn: u64 as Address,
        normed: u64 as Address,
        normed_stride: usize as u64,
        partial: Slice<f32>,
        mode: Mode as u32,
        batch: usize as u32,
        slice: usize as u32,
        width: usize as u32,
    }
}
