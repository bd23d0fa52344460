//! The kernels of `ops/lstm_steps.cu` as functions.

use crate::arguments;
use crate::cuda::arguments::Address;
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
pub(in crate::cuda::engine) struct Spread {
    pub(in crate::cuda::engine) at: u64,
    pub(in crate::cuda::engine) stride: usize,
    pub(in crate::cuda::engine) member: usize,
    pub(in crate::cuda::engine) width: usize,
}

impl Spread {
    /// The same rows from another column on.
    pub(super) fn shift(self, columns: usize, size: u64) -> Spread {
        Spread { at: self.at + columns as u64 * size, ..self }
    }
}

/// What `sequence` is told.
pub(super) struct Sequence {
    pub(super) states: Slice<SlotState>,
    pub(super) mode: Mode,
    pub(super) batch: usize,
    pub(super) rows: Slice<u32>,
    pub(super) live: Slice<f32>,
    pub(super) table: Slice<f32>,
    pub(super) stride: usize,
    pub(super) map: Option<Slice<u32>>,
    pub(super) window: usize,
    pub(super) features: usize,
    pub(super) wide: usize,
    pub(super) scale: Option<(Slice<f32>, Slice<f32>)>,
    pub(super) to: Spread,
}

/// What `cell` is told.
pub(super) struct Cell {
    pub(super) states: Slice<SlotState>,
    pub(super) mode: Mode,
    pub(super) batch: usize,
    pub(super) units: usize,
    pub(super) first: bool,
    pub(super) z: u64,
    pub(super) z_member: usize,
    pub(super) bias: u64,
    pub(super) params: usize,
    pub(super) carry: u64,
    pub(super) cells: Option<u64>,
    pub(super) cells_member: usize,
    /// Where h goes: to the next step, to the layer above, to the layers behind.
    pub(super) to: [Option<Spread>; 3],
    /// Rows that begin anew at the next step.
    pub(super) clear: Option<Clear>,
}

/// `[S, B]` which rows begin anew, and elements from one slot to the next.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda::engine) struct Clear {
    pub(in crate::cuda::engine) at: u64,
    pub(in crate::cuda::engine) member: usize,
}

impl Clear {
    /// Where it is and how far from slot to slot, as kernels take it; zeros for none.
    pub(in crate::cuda::engine) fn given(clear: Option<Clear>) -> (Address, u64) {
        clear.map_or((Address(0), 0), |c| (Address(c.at), c.member as u64))
    }
}

/// What `back` is told.
pub(super) struct Back {
    pub(super) states: Slice<SlotState>,
    pub(super) batch: usize,
    pub(super) units: usize,
    pub(super) gates: u64,
    pub(super) gates_member: usize,
    pub(super) cells: u64,
    pub(super) cells_member: usize,
    /// The cells before this step, and elements from one slot to the next there.
    pub(super) before: Option<(u64, usize)>,
    pub(super) outer: Option<Spread>,
    pub(super) dh: Option<u64>,
    pub(super) dc: u64,
    pub(super) dz: u64,
    /// Rows that begin anew at this step; behind them those of the step after.
    pub(super) clear: Option<Clear>,
}

fn n(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Address, row stride and member stride; zeros for nowhere.
fn place(spread: Option<Spread>) -> (Address, u64, u64) {
    spread.map_or((Address(0), 0, 0), |s| (Address(s.at), s.stride as u64, s.member as u64))
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

    pub(super) fn sequence(&self, stream: &Stream, s: &Sequence) -> Result<()> {
        let grid = [n((s.batch * s.wide / 4).div_ceil(THREADS)), n(s.window), n(s.states.len())];
        let args = SequenceArgs {
            states: s.states,
            rows: s.rows,
            live: s.live,
            table: s.table,
            stride: s.stride as u64,
            map: s.map,
            mean: s.scale.map(|s| s.0),
            inverse: s.scale.map(|s| s.1),
            out: Address(s.to.at),
            out_stride: s.to.stride as u64,
            out_member: s.to.member as u64,
            mode: s.mode as u32,
            batch: n(s.batch),
            features: n(s.features),
            wide: n(s.wide),
        };
        // SAFETY: slices of the engine's slab, laid out for this batch; row ids were checked when the population was
        // made.
        unsafe { self.sequence.send(stream, grid, n(THREADS), 0, &args) }
    }

    pub(super) fn cell(&self, stream: &Stream, c: &Cell) -> Result<()> {
        let grid = [n((c.batch * c.units).div_ceil(THREADS)), n(c.states.len()), 1];
        let [(next, next_stride, next_member), (above, above_stride, above_member), (last, last_stride, last_member)] =
            c.to.map(place);
        let (clear, clear_member) = Clear::given(c.clear);
        let args = CellArgs {
            states: c.states,
            z: Address(c.z),
            z_member: c.z_member as u64,
            bias: Address(c.bias),
            params: c.params as u64,
            carry: Address(c.carry),
            cells: Address(c.cells.unwrap_or(0)),
            cells_member: c.cells_member as u64,
            next,
            next_stride,
            next_member,
            above,
            above_stride,
            above_member,
            last,
            last_stride,
            last_member,
            clear,
            clear_member,
            mode: c.mode as u32,
            batch: n(c.batch),
            units: n(c.units),
            first: u32::from(c.first),
            last_width: n(c.to[2].map_or(0, |l| l.width)),
        };
        // SAFETY: as above; every place has the batch's rows and at least so many columns.
        unsafe { self.cell.send(stream, grid, n(THREADS), 0, &args) }
    }

    pub(super) fn back(&self, stream: &Stream, b: &Back) -> Result<()> {
        let grid = [n((b.batch * b.units).div_ceil(THREADS)), n(b.states.len()), 1];
        let (outer, outer_stride, outer_member) = place(b.outer);
        let (clear, clear_member) = Clear::given(b.clear);
        let (before, before_member) = b.before.unwrap_or((0, 0));
        let args = BackArgs {
            states: b.states,
            gates: Address(b.gates),
            gates_member: b.gates_member as u64,
            cells: Address(b.cells),
            cells_member: b.cells_member as u64,
            before: Address(before),
            before_member: before_member as u64,
            outer,
            outer_stride,
            outer_member,
            dh: Address(b.dh.unwrap_or(0)),
            dc: Address(b.dc),
            dz: Address(b.dz),
            clear,
            clear_member,
            batch: n(b.batch),
            units: n(b.units),
            outer_width: n(b.outer.map_or(0, |o| o.width)),
        };
        // SAFETY: as above.
        unsafe { self.back.send(stream, grid, n(THREADS), 0, &args) }
    }
}

arguments! {
    /// Of `sequence`.
    struct SequenceArgs in "../../../ops/lstm_steps.cu" {
        states: Slice<SlotState>,
        rows: Slice<u32>,
        live: Slice<f32>,
        table: Slice<f32>,
        stride: u64,
        map: Option<Slice<u32>>,
        mean: Option<Slice<f32>>,
        inverse: Option<Slice<f32>>,
        out: Address,
        out_stride: u64,
        out_member: u64,
        mode: u32,
        batch: u32,
        features: u32,
        wide: u32,
    }
}

arguments! {
    /// Of `cell`.
    struct CellArgs in "../../../ops/lstm_steps.cu" {
        states: Slice<SlotState>,
        z: Address,
        z_member: u64,
        bias: Address,
        params: u64,
        carry: Address,
        cells: Address,
        cells_member: u64,
        next: Address,
        next_stride: u64,
        next_member: u64,
        above: Address,
        above_stride: u64,
        above_member: u64,
        last: Address,
        last_stride: u64,
        last_member: u64,
        clear: Address,
        clear_member: u64,
        mode: u32,
        batch: u32,
        units: u32,
        first: u32,
        last_width: u32,
    }
}

arguments! {
    /// Of `back`.
    struct BackArgs in "../../../ops/lstm_steps.cu" {
        states: Slice<SlotState>,
        gates: Address,
        gates_member: u64,
        cells: Address,
        cells_member: u64,
        before: Address,
        before_member: u64,
        outer: Address,
        outer_stride: u64,
        outer_member: u64,
        dh: Address,
        dc: Address,
        dz: Address,
        clear: Address,
        clear_member: u64,
        batch: u32,
        units: u32,
        outer_width: u32,
    }
}
