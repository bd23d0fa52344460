//! The kernels of `ops/lstm_steps.cu` as functions.

use crate::arguments;
use crate::cuda::arguments::{Address, Argument, Kind, Packer, sealed::Sealed};
use crate::cuda::context::Context;
use crate::cuda::engine::Mode;
use crate::cuda::graph::Stream;
use crate::cuda::kernels;
use crate::cuda::memory::Slice;
use crate::cuda::module::{Kernel, Module};
use crate::error::Result;
use crate::population::SlotState;
use std::sync::Arc;

const THREADS: usize = 256;

/// The kernels, for bf16 or for f32.
pub(super) struct Kernels {
    sequence: Kernel<SequenceArgs>,
    cell: Kernel<CellArgs>,
    back: Kernel<BackArgs>,
}

/// Rows of a matrix of every slot; strides in elements.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda::engine) struct StridedRows {
    pub(in crate::cuda::engine) at: u64,
    pub(in crate::cuda::engine) stride: usize,
    pub(in crate::cuda::engine) member: usize,
    pub(in crate::cuda::engine) width: usize,
}

impl StridedRows {
    /// The same rows from another column on.
    pub(super) fn shift(self, columns: usize, size: u64) -> StridedRows {
        StridedRows { at: self.at + columns as u64 * size, ..self }
    }
}

impl Sealed for StridedRows {}
impl Argument for StridedRows {
    const KIND: Kind = Kind::strided(&["_stride", "_member"]);
    fn write(&self, to: &mut Packer) {
        [self.at, self.stride as u64, self.member as u64].iter().for_each(|word| to.put(word));
    }
}

impl Sealed for Option<StridedRows> {}
impl Argument for Option<StridedRows> {
    const KIND: Kind = StridedRows::KIND;
    fn write(&self, to: &mut Packer) {
        self.unwrap_or(StridedRows { at: 0, stride: 0, member: 0, width: 0 }).write(to);
    }
}

/// `[S, B]` which rows begin anew, and elements from one slot to the next.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda::engine) struct ResetMask {
    pub(in crate::cuda::engine) at: u64,
    pub(in crate::cuda::engine) member: usize,
}

impl Sealed for Option<ResetMask> {}
impl Argument for Option<ResetMask> {
    const KIND: Kind = Kind::strided(&["_member"]);
    fn write(&self, to: &mut Packer) {
        self.map_or([0, 0], |c| [c.at, c.member as u64]).iter().for_each(|word| to.put(word));
    }
}

impl Kernels {
    pub(super) fn load(context: &Arc<Context>, bf16: bool) -> Result<Kernels> {
        let module = Module::load(context, &kernels::LSTM_STEPS)?;
        let kind = if bf16 { "bf16" } else { "f32" };
        let typed = |name: &str| format!("{name}_{kind}");
        Ok(Kernels {
            sequence: module.typed(&typed("sequence"))?,
            cell: module.typed(&typed("cell"))?,
            back: module.typed(&typed("back"))?,
        })
    }

    /// What a layer reads of the table, for all steps of a window.
    pub(super) fn sequence(&self, stream: &Stream, window: usize, args: &SequenceArgs) -> Result<()> {
        let grid = [(args.batch * args.wide / 4).div_ceil(THREADS), window, args.states.len()];
        // SAFETY: slices of the engine's slab, laid out for this batch; row ids were checked when the population was
        // made.
        unsafe { self.sequence.send(stream, grid, THREADS, 0, args) }
    }

    /// From the sums of a step to h and c.
    pub(super) fn cell(&self, stream: &Stream, args: &CellArgs) -> Result<()> {
        let grid = [(args.batch * args.units).div_ceil(THREADS), args.states.len(), 1];
        // SAFETY: as above; every place has the batch's rows and at least so many columns.
        unsafe { self.cell.send(stream, grid, THREADS, 0, args) }
    }

    /// From the gradients at h and c of a step to those at its sums.
    pub(super) fn back(&self, stream: &Stream, args: &BackArgs) -> Result<()> {
        let grid = [(args.batch * args.units).div_ceil(THREADS), args.states.len(), 1];
        // SAFETY: as above.
        unsafe { self.back.send(stream, grid, THREADS, 0, args) }
    }
}

arguments! {
    /// Of `sequence`.
    pub(super) struct SequenceArgs in "../../../ops/lstm_steps.cu" {
        pub states: Slice<SlotState>,
        pub rows: Slice<u32>,
        pub live: Slice<f32>,
        pub table: Slice<f32>,
        pub stride: usize as u64,
        pub map: Option<Slice<u32>>,
        pub mean: Option<Slice<f32>>,
        pub inverse: Option<Slice<f32>>,
        pub out: StridedRows,
        pub mode: Mode as u32,
        pub batch: usize as u32,
        pub features: usize as u32,
        pub wide: usize as u32,
    }
}

arguments! {
    /// Of `cell`.
    pub(super) struct CellArgs in "../../../ops/lstm_steps.cu" {
        pub states: Slice<SlotState>,
        pub z: u64 as Address,
        pub z_member: usize as u64,
        pub bias: u64 as Address,
        pub params: usize as u64,
        pub carry: u64 as Address,
        pub cells: Option<u64> as Address,
        pub cells_member: usize as u64,
        pub next: Option<StridedRows>,
        pub above: Option<StridedRows>,
        pub last: Option<StridedRows>,
        pub clear: Option<ResetMask>,
        pub mode: Mode as u32,
        pub batch: usize as u32,
        pub units: usize as u32,
        pub first: bool as u32,
        pub last_width: usize as u32,
    }
}

arguments! {
    /// Of `back`.
    pub(super) struct BackArgs in "../../../ops/lstm_steps.cu" {
        pub states: Slice<SlotState>,
        pub gates: u64 as Address,
        pub gates_member: usize as u64,
        pub cells: u64 as Address,
        pub cells_member: usize as u64,
        pub before: Option<u64> as Address,
        pub before_member: usize as u64,
        pub outer: Option<StridedRows>,
        pub dh: Option<u64> as Address,
        pub dc: u64 as Address,
        pub dz: u64 as Address,
        pub clear: Option<ResetMask>,
        pub batch: usize as u32,
        pub units: usize as u32,
        pub outer_width: usize as u32,
    }
}
