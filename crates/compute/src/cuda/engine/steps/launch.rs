//! The kernels of `ops/lstm_steps.cu` as functions.

use crate::cuda::context::Context;
use crate::cuda::engine::Mode;
use crate::cuda::graph::Stream;
use crate::cuda::kernels;
use crate::cuda::memory::Slice;
use crate::cuda::module::{Arg, Function, Module};
use crate::error::Result;
use crate::population::State;
use std::sync::Arc;

const THREADS: usize = 256;

/// The kernels, for bf16 or for f32.
pub(super) struct Kernels {
    sequence: Function,
    cell: Function,
    back: Function,
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
    pub(super) states: Slice<State>,
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
    pub(super) states: Slice<State>,
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
    /// As kernels want it.
    pub(in crate::cuda::engine) fn args(clear: Option<Clear>) -> [Arg<'static>; 2] {
        [Arg::At(clear.map_or(0, |c| c.at)), Arg::U64(clear.map_or(0, |c| c.member) as u64)]
    }
}

/// What `back` is told.
pub(super) struct Back {
    pub(super) states: Slice<State>,
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

fn optional<T>(slice: Option<Slice<T>>) -> Arg<'static> {
    Arg::At(slice.map_or(0, |s| s.address()))
}

/// Address, row stride and member stride; zeros for nowhere.
fn place(spread: Option<Spread>) -> [Arg<'static>; 3] {
    let one = |of: fn(&Spread) -> usize| Arg::U64(spread.as_ref().map_or(0, of) as u64);
    [Arg::At(spread.map_or(0, |s| s.at)), one(|s| s.stride), one(|s| s.member)]
}

impl Kernels {
    pub(super) fn load(context: &Arc<Context>, bf16: bool) -> Result<Kernels> {
        let module = Module::load(context, &kernels::LSTM_STEPS)?;
        let kind = if bf16 { "bf16" } else { "f32" };
        let typed = |name: &str| module.function(&format!("{name}_{kind}"));
        Ok(Kernels { sequence: typed("sequence")?, cell: typed("cell")?, back: typed("back")? })
    }

    pub(super) fn sequence(&self, stream: &Stream, s: &Sequence) -> Result<()> {
        let grid = [n((s.batch * s.wide / 4).div_ceil(THREADS)), n(s.window), n(s.states.len())];
        let args = [
            (&s.states).into(),
            Arg::U32(s.mode as u32),
            Arg::U32(n(s.batch)),
            (&s.rows).into(),
            (&s.live).into(),
            (&s.table).into(),
            Arg::U64(s.stride as u64),
            optional(s.map),
            Arg::U32(n(s.features)),
            Arg::U32(n(s.wide)),
            optional(s.scale.map(|s| s.0)),
            optional(s.scale.map(|s| s.1)),
            Arg::At(s.to.at),
            Arg::U64(s.to.stride as u64),
            Arg::U64(s.to.member as u64),
        ];
        // SAFETY: slices of the engine's slab, laid out for this batch; row ids were checked when the population was
        // made.
        unsafe { self.sequence.launch(stream, grid, [n(THREADS), 1, 1], 0, &args) }
    }

    pub(super) fn cell(&self, stream: &Stream, c: &Cell) -> Result<()> {
        let grid = [n((c.batch * c.units).div_ceil(THREADS)), n(c.states.len()), 1];
        let [next, above, last] = c.to;
        let mut args = vec![
            (&c.states).into(),
            Arg::U32(c.mode as u32),
            Arg::U32(n(c.batch)),
            Arg::U32(n(c.units)),
            Arg::U32(u32::from(c.first)),
            Arg::At(c.z),
            Arg::U64(c.z_member as u64),
            Arg::At(c.bias),
            Arg::U64(c.params as u64),
            Arg::At(c.carry),
            Arg::At(c.cells.unwrap_or(0)),
            Arg::U64(c.cells_member as u64),
        ];
        args.extend([place(next), place(above), place(last)].concat());
        args.push(Arg::U32(n(last.map_or(0, |l| l.width))));
        args.extend(Clear::args(c.clear));
        // SAFETY: as above; every place has the batch's rows and at least so many columns.
        unsafe { self.cell.launch(stream, grid, [n(THREADS), 1, 1], 0, &args) }
    }

    pub(super) fn back(&self, stream: &Stream, b: &Back) -> Result<()> {
        let grid = [n((b.batch * b.units).div_ceil(THREADS)), n(b.states.len()), 1];
        let mut args = vec![
            (&b.states).into(),
            Arg::U32(n(b.batch)),
            Arg::U32(n(b.units)),
            Arg::At(b.gates),
            Arg::U64(b.gates_member as u64),
            Arg::At(b.cells),
            Arg::U64(b.cells_member as u64),
            Arg::At(b.before.map_or(0, |before| before.0)),
            Arg::U64(b.before.map_or(0, |before| before.1) as u64),
        ];
        args.extend(place(b.outer));
        args.extend([
            Arg::U32(n(b.outer.map_or(0, |o| o.width))),
            Arg::At(b.dh.unwrap_or(0)),
            Arg::At(b.dc),
            Arg::At(b.dz),
        ]);
        args.extend(Clear::args(b.clear));
        // SAFETY: as above.
        unsafe { self.back.launch(stream, grid, [n(THREADS), 1, 1], 0, &args) }
    }
}
