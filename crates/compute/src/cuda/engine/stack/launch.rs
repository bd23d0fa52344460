//! The kernels of `ops/recurrent.cu` as functions.

use crate::arguments;
use crate::cuda::arguments::{Address, Arguments};
use crate::cuda::context::Context;
use crate::cuda::engine::steps::{ResetMask, StridedRows};
use crate::cuda::graph::Stream;
use crate::cuda::kernels;
use crate::cuda::memory::Slice;
use crate::cuda::module::{Kernel, Module};
use crate::error::Result;
use crate::population::SlotState;
use crate::recurrent::{Forward, OnCard, Shape};
use std::sync::Arc;

const THREADS: usize = 256;

/// The kernels, for bf16 or for f32.
pub(in crate::cuda::engine) struct Kernels {
    read: Kernel<ReadArgs>,
    read_words: Kernel<ReadWordsArgs>,
    show: Kernel<ShowArgs>,
    show_f32: Kernel<ShowArgs>,
    show_words: Kernel<ShowWordsArgs>,
    bring: Kernel<BringArgs>,
    bring_words: Kernel<BringWordsArgs>,
    begin: Kernel<BeginArgs>,
    resets: Kernel<ResetsArgs>,
    rows: Kernel<RowsArgs>,
    take: Kernel<TakeArgs>,
}

/// Words of a layer in whole windows: `[P, blocks, T, ·, tiles, threads]`.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda::engine) struct Words {
    pub(in crate::cuda::engine) at: u64,
    pub(in crate::cuda::engine) blocks: usize,
    pub(in crate::cuda::engine) window: usize,
    pub(in crate::cuda::engine) tiles: usize,
    pub(in crate::cuda::engine) threads: usize,
}

impl Words {
    /// Blocks of a kernel that goes through so many steps of them.
    fn grid(&self, steps: usize) -> usize {
        self.blocks * steps * (self.tiles * self.threads).div_ceil(THREADS)
    }
}

/// Gradients at h `[T, P, B, width]` and `[P, B, width]`, where there are any.
#[derive(Debug, Clone, Copy)]
pub(in crate::cuda::engine) struct HiddenGradients {
    pub(in crate::cuda::engine) every: Option<Slice<f32>>,
    pub(in crate::cuda::engine) last: Option<Slice<f32>>,
    pub(in crate::cuda::engine) width: usize,
}

/// What the lowest layer reads.
fn inputs(shape: &Shape, call: &Forward<OnCard>) -> Read {
    let rows = if shape.features == 0 { 0 } else { (call.table.len() - shape.features) / call.stride + 1 };
    Read {
        table: call.table,
        stride: call.stride,
        table_rows: rows,
        at: call.at,
        mean: call.scale.as_ref().map(|s| s.0),
        inverse: call.scale.as_ref().map(|s| s.1),
        extras: call.extras,
        members: shape.members,
        batch: shape.rows,
        features: shape.features,
        extra: shape.extras,
    }
}

impl Kernels {
    pub(in crate::cuda::engine) fn load(context: &Arc<Context>, bf16: bool) -> Result<Kernels> {
        let module = Module::load(context, &kernels::RECURRENT)?;
        let typed = |name: &str| format!("{name}_{}", if bf16 { "bf16" } else { "f32" });
        Ok(Kernels {
            read: module.typed(&typed("read"))?,
            read_words: module.typed("read_words")?,
            show: module.typed(&typed("show"))?,
            show_f32: module.typed("show_f32")?,
            show_words: module.typed("show_words")?,
            bring: module.typed(&typed("bring"))?,
            bring_words: module.typed("bring_words")?,
            begin: module.typed(&typed("begin"))?,
            resets: module.typed("resets")?,
            rows: module.typed("rows")?,
            take: module.typed("take")?,
        })
    }

    fn go<A: Arguments>(
        &self,
        stream: &Stream,
        kernel: &Kernel<A>,
        (blocks, slots): (usize, usize),
        args: &A,
    ) -> Result<()> {
        // SAFETY: lengths of the caller's slices were checked against the shape, others are of the stack's slab, laid
        // out for it. Rows of the table are checked by the kernel itself.
        unsafe { kernel.send(stream, [blocks, slots, 1], THREADS, 0, args) }
    }

    /// What the lowest layer reads at all steps, to rows of its own.
    pub(in crate::cuda::engine) fn read(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        shape: &Shape,
        call: &Forward<OnCard>,
        to: StridedRows,
    ) -> Result<()> {
        let blocks = shape.window * (shape.rows * to.width).div_ceil(THREADS);
        let args = ReadArgs { states: *states, out: to, r: inputs(shape, call), wide: to.width };
        self.go(stream, &self.read, (blocks, states.len()), &args)
    }

    /// The same as words that a layer below would have left.
    pub(in crate::cuda::engine) fn read_words(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        shape: &Shape,
        call: &Forward<OnCard>,
        to: Words,
    ) -> Result<()> {
        let args = ReadWordsArgs {
            states: *states,
            words: to.at,
            r: inputs(shape, call),
            window: to.window,
            blocks: to.blocks,
            tiles: to.tiles,
            threads: to.threads,
        };
        self.go(stream, &self.read_words, (to.grid(to.window), states.len()), &args)
    }

    /// So many steps of `[P, T, B, stride]` as `[T, P, B, width]`; of f32 where these are no activations.
    #[expect(clippy::too_many_arguments, reason = "what is shown, and where")]
    pub(in crate::cuda::engine) fn show(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        (steps, batch): (usize, usize),
        from: StridedRows,
        f32: bool,
        to: &Slice<f32>,
        clear: Option<ResetMask>,
    ) -> Result<()> {
        let blocks = steps * (batch * from.width).div_ceil(THREADS);
        let args = ShowArgs { states: *states, from, to: *to, clear, batch, width: from.width };
        self.go(stream, if f32 { &self.show_f32 } else { &self.show }, (blocks, states.len()), &args)
    }

    /// h of so many steps from one on, from words, as `[T, P, B, width]`.
    pub(in crate::cuda::engine) fn show_words(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        (first, steps): (usize, usize),
        (batch, width): (usize, usize),
        from: Words,
        to: &Slice<f32>,
    ) -> Result<()> {
        let args = ShowWordsArgs {
            states: *states,
            words: from.at,
            to: *to,
            first,
            steps,
            batch,
            width,
            window: from.window,
            blocks: from.blocks,
            tiles: from.tiles,
            threads: from.threads,
        };
        self.go(stream, &self.show_words, (from.grid(steps), states.len()), &args)
    }

    /// Gradients at h as a layer above would have left them, `[P, steps, B, units]`.
    pub(in crate::cuda::engine) fn bring(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        (steps, batch, units): (usize, usize, usize),
        from: HiddenGradients,
        to: u64,
    ) -> Result<()> {
        let args = BringArgs {
            states: *states,
            every: from.every,
            last: from.last,
            to,
            steps,
            batch,
            width: from.width,
            units,
        };
        self.go(stream, &self.bring, (steps * (batch * units).div_ceil(THREADS), states.len()), &args)
    }

    /// The same as words.
    pub(in crate::cuda::engine) fn bring_words(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        batch: usize,
        from: HiddenGradients,
        to: Words,
    ) -> Result<()> {
        let args = BringWordsArgs {
            states: *states,
            every: from.every,
            last: from.last,
            words: to.at,
            steps: to.window,
            batch,
            width: from.width,
            blocks: to.blocks,
            tiles: to.tiles,
            threads: to.threads,
        };
        self.go(stream, &self.bring_words, (to.grid(to.window), states.len()), &args)
    }

    /// What a window begins with: h to its rows, c to `carry` and, rounded, to `before`.
    #[expect(clippy::too_many_arguments, reason = "what a layer begins with, and where it lies")]
    pub(in crate::cuda::engine) fn begin(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        (batch, units): (usize, usize),
        given: Option<(Slice<f32>, Slice<f32>)>,
        clear: Option<ResetMask>,
        h: StridedRows,
        (carry, before): (u64, u64),
    ) -> Result<()> {
        let args = BeginArgs {
            states: *states,
            h: given.map(|g| g.0),
            c: given.map(|g| g.1),
            clear,
            to_h: h.at,
            h_stride: h.stride,
            h_member: h.member,
            carry,
            before,
            batch,
            units,
        };
        self.go(stream, &self.begin, ((batch * units).div_ceil(THREADS), states.len()), &args)
    }

    /// `[T, P, B]` to `[P, T, B]`.
    pub(in crate::cuda::engine) fn resets(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        (window, batch): (usize, usize),
        from: &Slice<u8>,
        to: &Slice<u8>,
    ) -> Result<()> {
        let args = ResetsArgs { states: *states, from: *from, to: *to, window, batch };
        self.go(stream, &self.resets, (window * batch.div_ceil(THREADS), states.len()), &args)
    }

    /// A row of each member, from rows of one stride to rows of another, or added to what is there.
    pub(in crate::cuda::engine) fn rows(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        numbers: usize,
        (from, from_stride): (&Slice<f32>, usize),
        (to, to_stride): (&Slice<f32>, usize),
        add: bool,
    ) -> Result<()> {
        let args = RowsArgs { states: *states, n: numbers, from: *from, from_stride, to: *to, to_stride, add };
        self.go(stream, &self.rows, (numbers.div_ceil(THREADS), states.len()), &args)
    }

    /// Weights as products read them.
    pub(in crate::cuda::engine) fn take(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        params: usize,
        (from, stride): (&Slice<f32>, usize),
        master: &Slice<f32>,
        shadow: Option<&Slice<u16>>,
    ) -> Result<()> {
        let args = TakeArgs {
            states: *states,
            params,
            from: *from,
            from_stride: stride,
            master: *master,
            shadow: shadow.copied(),
        };
        self.go(stream, &self.take, (params.div_ceil(THREADS), states.len()), &args)
    }
}

arguments! {
    /// What the lowest layer reads.
    struct Read in "../../../ops/recurrent.cu" {
        table: Slice<f32>,
        stride: usize as u64,
        table_rows: usize as u64,
        at: Slice<u32>,
        mean: Option<Slice<f32>>,
        inverse: Option<Slice<f32>>,
        extras: Option<Slice<f32>>,
        members: usize as u32,
        batch: usize as u32,
        features: usize as u32,
        extra: usize as u32,
    }
}

arguments! {
    /// Of `read`.
    struct ReadArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        out: StridedRows,
        r: Read,
        wide: usize as u32,
    }
}

arguments! {
    /// Of `read_words`.
    struct ReadWordsArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        words: u64 as Address,
        r: Read,
        window: usize as u32,
        blocks: usize as u32,
        tiles: usize as u32,
        threads: usize as u32,
    }
}

arguments! {
    /// Of `show`.
    struct ShowArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        from: StridedRows,
        to: Slice<f32>,
        clear: Option<ResetMask>,
        batch: usize as u32,
        width: usize as u32,
    }
}

arguments! {
    /// Of `show_words`.
    struct ShowWordsArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        words: u64 as Address,
        to: Slice<f32>,
        first: usize as u32,
        steps: usize as u32,
        batch: usize as u32,
        width: usize as u32,
        window: usize as u32,
        blocks: usize as u32,
        tiles: usize as u32,
        threads: usize as u32,
    }
}

arguments! {
    /// Of `bring`.
    struct BringArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        every: Option<Slice<f32>>,
        last: Option<Slice<f32>>,
        to: u64 as Address,
        steps: usize as u32,
        batch: usize as u32,
        width: usize as u32,
        units: usize as u32,
    }
}

arguments! {
    /// Of `bring_words`.
    struct BringWordsArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        every: Option<Slice<f32>>,
        last: Option<Slice<f32>>,
        words: u64 as Address,
        steps: usize as u32,
        batch: usize as u32,
        width: usize as u32,
        blocks: usize as u32,
        tiles: usize as u32,
        threads: usize as u32,
    }
}

arguments! {
    /// Of `begin`.
    struct BeginArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        h: Option<Slice<f32>>,
        c: Option<Slice<f32>>,
        clear: Option<ResetMask>,
        to_h: u64 as Address,
        h_stride: usize as u64,
        h_member: usize as u64,
        carry: u64 as Address,
        before: u64 as Address,
        batch: usize as u32,
        units: usize as u32,
    }
}

arguments! {
    /// Of `resets`.
    struct ResetsArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        from: Slice<u8>,
        to: Slice<u8>,
        window: usize as u32,
        batch: usize as u32,
    }
}

arguments! {
    /// Of `rows`.
    struct RowsArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        n: usize as u64,
        from: Slice<f32>,
        from_stride: usize as u64,
        to: Slice<f32>,
        to_stride: usize as u64,
        add: bool as u32,
    }
}

arguments! {
    /// Of `take`.
    struct TakeArgs in "../../../ops/recurrent.cu" {
        states: Slice<SlotState>,
        params: usize as u64,
        from: Slice<f32>,
        from_stride: usize as u64,
        master: Slice<f32>,
        shadow: Option<Slice<u16>>,
    }
}
