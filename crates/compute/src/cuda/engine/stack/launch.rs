//! The kernels of `ops/recurrent.cu` as functions.

use crate::cuda::context::Context;
use crate::cuda::engine::steps::{Clear, Spread};
use crate::cuda::graph::Stream;
use crate::cuda::kernels;
use crate::cuda::memory::Slice;
use crate::cuda::module::{Arg, Function, Module};
use crate::error::Result;
use crate::population::State;
use crate::recurrent::{Forward, OnCard, Shape};
use std::sync::Arc;

const THREADS: usize = 256;

/// The kernels, for bf16 or for f32.
pub(in crate::cuda::engine) struct Kernels {
    read: Function,
    read_words: Function,
    show: Function,
    show_f32: Function,
    show_words: Function,
    bring: Function,
    bring_words: Function,
    begin: Function,
    resets: Function,
    rows: Function,
    take: Function,
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
pub(in crate::cuda::engine) struct AtH {
    pub(in crate::cuda::engine) every: Option<Slice<f32>>,
    pub(in crate::cuda::engine) last: Option<Slice<f32>>,
    pub(in crate::cuda::engine) width: usize,
}

fn n(number: usize) -> Arg<'static> {
    Arg::U32(u32::try_from(number).unwrap_or(u32::MAX))
}

fn long(number: usize) -> Arg<'static> {
    Arg::U64(number as u64)
}

fn optional<T>(slice: Option<&Slice<T>>) -> u64 {
    slice.map_or(0, Slice::address)
}

/// `Read` of `recurrent.cu`, field by field.
fn read(shape: &Shape, call: &Forward<OnCard>) -> Vec<u8> {
    let rows = if shape.features == 0 { 0 } else { (call.table.len() - shape.features) / call.stride + 1 };
    let scale = call.scale.as_ref();
    let long = [
        call.table.address(),
        call.stride as u64,
        rows as u64,
        call.at.address(),
        optional(scale.map(|s| &s.0)),
        optional(scale.map(|s| &s.1)),
        optional(call.extras.as_ref()),
    ];
    let short = [shape.members, shape.rows, shape.features, shape.extras];
    let short = short.iter().flat_map(|n| u32::try_from(*n).unwrap_or(u32::MAX).to_ne_bytes());
    long.iter().flat_map(|n| n.to_ne_bytes()).chain(short).collect()
}

impl Kernels {
    pub(in crate::cuda::engine) fn load(context: &Arc<Context>, bf16: bool) -> Result<Kernels> {
        let module = Module::load(context, &kernels::RECURRENT)?;
        let typed = |name: &str| module.function(&format!("{name}_{}", if bf16 { "bf16" } else { "f32" }));
        Ok(Kernels {
            read: typed("read")?,
            read_words: module.function("read_words")?,
            show: typed("show")?,
            show_f32: module.function("show_f32")?,
            show_words: module.function("show_words")?,
            bring: typed("bring")?,
            bring_words: module.function("bring_words")?,
            begin: typed("begin")?,
            resets: module.function("resets")?,
            rows: module.function("rows")?,
            take: module.function("take")?,
        })
    }

    fn go(&self, stream: &Stream, of: &Function, blocks: usize, states: &Slice<State>, rest: &[Arg<'_>]) -> Result<()> {
        let grid = [u32::try_from(blocks).unwrap_or(u32::MAX), u32::try_from(states.len()).unwrap_or(u32::MAX), 1];
        let args: Vec<Arg<'_>> = std::iter::once(states.into()).chain(rest.iter().copied()).collect();
        // SAFETY: lengths of the caller's slices were checked against the shape, others are of the stack's slab, laid
        // out for it. Rows of the table are checked by the kernel itself.
        unsafe { of.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    /// What the lowest layer reads at all steps, to rows of its own.
    pub(in crate::cuda::engine) fn read(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        shape: &Shape,
        call: &Forward<OnCard>,
        to: Spread,
    ) -> Result<()> {
        let blocks = shape.window * (shape.rows * to.width).div_ceil(THREADS);
        let bytes = read(shape, call);
        let rest = [Arg::Bytes(&bytes), n(to.width), Arg::At(to.at), long(to.stride), long(to.member)];
        self.go(stream, &self.read, blocks, states, &rest)
    }

    /// The same as words that a layer below would have left.
    pub(in crate::cuda::engine) fn read_words(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        shape: &Shape,
        call: &Forward<OnCard>,
        to: Words,
    ) -> Result<()> {
        let bytes = read(shape, call);
        let rest = [Arg::Bytes(&bytes), n(to.window), n(to.blocks), n(to.tiles), n(to.threads), Arg::At(to.at)];
        self.go(stream, &self.read_words, to.grid(to.window), states, &rest)
    }

    /// So many steps of `[P, T, B, stride]` as `[T, P, B, width]`; of f32 where these are no activations.
    #[expect(clippy::too_many_arguments, reason = "what is shown, and where")]
    pub(in crate::cuda::engine) fn show(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        (steps, batch): (usize, usize),
        from: Spread,
        f32: bool,
        to: &Slice<f32>,
        clear: Option<Clear>,
    ) -> Result<()> {
        let blocks = steps * (batch * from.width).div_ceil(THREADS);
        let [clear, clear_member] = Clear::args(clear);
        let from = [Arg::At(from.at), long(from.stride), long(from.member), n(from.width)];
        let rest = [n(batch), from[3], from[0], from[1], from[2], to.into(), clear, clear_member];
        self.go(stream, if f32 { &self.show_f32 } else { &self.show }, blocks, states, &rest)
    }

    /// h of so many steps from one on, from words, as `[T, P, B, width]`.
    pub(in crate::cuda::engine) fn show_words(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        (first, steps): (usize, usize),
        (batch, width): (usize, usize),
        from: Words,
        to: &Slice<f32>,
    ) -> Result<()> {
        let shape = [n(from.window), n(from.blocks), n(from.tiles), n(from.threads)];
        let rest = [&[n(first), n(steps), n(batch), n(width), Arg::At(from.at)][..], &shape, &[to.into()]].concat();
        self.go(stream, &self.show_words, from.grid(steps), states, &rest)
    }

    /// Gradients at h as a layer above would have left them, `[P, steps, B, units]`.
    pub(in crate::cuda::engine) fn bring(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        (steps, batch, units): (usize, usize, usize),
        from: AtH,
        to: u64,
    ) -> Result<()> {
        let given = [Arg::At(optional(from.every.as_ref())), Arg::At(optional(from.last.as_ref())), Arg::At(to)];
        let rest = [&[n(steps), n(batch), n(from.width), n(units)][..], &given].concat();
        self.go(stream, &self.bring, steps * (batch * units).div_ceil(THREADS), states, &rest)
    }

    /// The same as words.
    pub(in crate::cuda::engine) fn bring_words(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        batch: usize,
        from: AtH,
        to: Words,
    ) -> Result<()> {
        let given = [Arg::At(optional(from.every.as_ref())), Arg::At(optional(from.last.as_ref()))];
        let shape = [n(to.blocks), n(to.tiles), n(to.threads), Arg::At(to.at)];
        let rest = [&[n(to.window), n(batch), n(from.width)][..], &given, &shape].concat();
        self.go(stream, &self.bring_words, to.grid(to.window), states, &rest)
    }

    /// What a window begins with: h to its rows, c to `carry` and, rounded, to `before`.
    #[expect(clippy::too_many_arguments, reason = "what a layer begins with, and where it lies")]
    pub(in crate::cuda::engine) fn begin(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        (batch, units): (usize, usize),
        given: Option<(Slice<f32>, Slice<f32>)>,
        clear: Option<Clear>,
        h: Spread,
        (carry, before): (u64, u64),
    ) -> Result<()> {
        let [clear, clear_member] = Clear::args(clear);
        let rest = [
            n(batch),
            n(units),
            Arg::At(optional(given.as_ref().map(|g| &g.0))),
            Arg::At(optional(given.as_ref().map(|g| &g.1))),
            clear,
            clear_member,
            Arg::At(h.at),
            long(h.stride),
            long(h.member),
            Arg::At(carry),
            Arg::At(before),
        ];
        self.go(stream, &self.begin, (batch * units).div_ceil(THREADS), states, &rest)
    }

    /// `[T, P, B]` to `[P, T, B]`.
    pub(in crate::cuda::engine) fn resets(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        (window, batch): (usize, usize),
        from: &Slice<u8>,
        to: &Slice<u8>,
    ) -> Result<()> {
        let rest = [n(window), n(batch), from.into(), to.into()];
        self.go(stream, &self.resets, window * batch.div_ceil(THREADS), states, &rest)
    }

    /// A row of each member, from rows of one stride to rows of another, or added to what is there.
    pub(in crate::cuda::engine) fn rows(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        numbers: usize,
        (from, from_stride): (&Slice<f32>, usize),
        (to, to_stride): (&Slice<f32>, usize),
        add: bool,
    ) -> Result<()> {
        let rest =
            [long(numbers), from.into(), long(from_stride), to.into(), long(to_stride), Arg::U32(u32::from(add))];
        self.go(stream, &self.rows, numbers.div_ceil(THREADS), states, &rest)
    }

    /// Weights as products read them.
    pub(in crate::cuda::engine) fn take(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        params: usize,
        (from, stride): (&Slice<f32>, usize),
        master: &Slice<f32>,
        shadow: Option<&Slice<u16>>,
    ) -> Result<()> {
        let rest = [long(params), from.into(), long(stride), master.into(), Arg::At(optional(shadow))];
        self.go(stream, &self.take, params.div_ceil(THREADS), states, &rest)
    }
}
