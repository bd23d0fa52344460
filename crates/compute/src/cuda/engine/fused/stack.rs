//! A stack of recurrent layers in whole windows, with the kernels of a population's.
//!
//! The lowest layer reads words as if another were below it, the top one is given gradients as if another were above.

use super::{Args, Fused, Shape};
use crate::cuda::calls::Sums;
use crate::cuda::context::Context;
use crate::cuda::engine::Mode;
use crate::cuda::engine::setup::Cutter;
use crate::cuda::engine::stack::Work;
use crate::cuda::engine::stack::launch::{HiddenGradients, Words};
use crate::cuda::graph::Stream;
use crate::cuda::memory::Slice;
use crate::error::Result;
use crate::net::{Layout, Recurrent};
use crate::recurrent::{Backward, Forward, OnCard, Stack};
use std::sync::Arc;

/// What the layers keep.
pub(in crate::cuda::engine) struct Arrays {
    tiles: usize,
    x: Slice<u32>, // [P, blocks, T, 2, tiles, threads] inputs as a layer below would leave them; half is unused
    saved: Vec<Slice<u32>>, // [layers] [P, blocks, T, 2 (h, c), tiles, threads]
    back: Vec<Slice<u32>>, // [layers] [P, blocks, T, tiles, threads] gradients at every h, from above
    partial: Vec<Slice<f32>>, // [layers] [P, blocks, size]
    began: Vec<[Slice<f32>; 2]>, // [layers] [P, B, units] h and c at the beginning, for the way back
    last: Slice<u16>, // [P, B, units] bf16, the gradient at the last h
    rows: Slice<u32>, // [P, B] zeros: the kernels look there for rows of a table, which they do not read
    live: Slice<f32>, // [P, B] zeros likewise
}

/// Cuts them, or counts them.
pub(in crate::cuda::engine) fn arrays(cut: &mut Cutter<'_>, stack: &Stack, tiles: usize) -> Result<Arrays> {
    let (members, batch, layers) = (stack.shape().members, stack.shape().rows, stack.layers());
    let shape = |r: &Recurrent| Shape::new(r, tiles);
    let words = |r: &Recurrent, threads: usize| members * shape(r).blocks(batch) * r.window * tiles * threads;
    let back = |n: usize| if stack.trains() { n } else { 0 };
    let state = |r: &Recurrent| back(members * batch * r.units);
    let each = layers.iter();
    Ok(Arrays {
        tiles,
        x: cut.cut(2 * words(&layers[0], shape(&layers[0]).reads()))?,
        saved: each.clone().map(|r| cut.cut(2 * words(r, shape(r).threads()))).collect::<Result<_>>()?,
        back: each.clone().map(|r| cut.cut(back(words(r, shape(r).threads())))).collect::<Result<_>>()?,
        partial: (each.clone())
            .map(|r| cut.cut(back(members * shape(r).blocks(batch) * r.size())))
            .collect::<Result<_>>()?,
        began: each.clone().map(|r| Ok([cut.cut(state(r))?, cut.cut(state(r))?])).collect::<Result<_>>()?,
        last: cut.cut(state(stack.top()))?,
        rows: cut.cut(members * batch)?,
        live: cut.cut(members * batch)?,
    })
}

impl Shape {
    /// Threads that a layer below would have, which leaves as many units as this one reads.
    fn reads(self) -> usize {
        64 * self.inputs
    }
}

/// The layers of a stack.
pub(in crate::cuda::engine) struct Whole {
    fused: Fused,
    arrays: Arrays,
}

impl Whole {
    pub(in crate::cuda::engine) fn new(
        context: &Arc<Context>,
        stream: &Stream,
        stack: &Stack,
        arrays: Arrays,
    ) -> Result<Whole> {
        stream.fill(&arrays.rows, 0)?;
        stream.fill(&arrays.live, 0)?;
        Ok(Whole { fused: Fused::new(context, stack.layout(), arrays.tiles)?, arrays })
    }

    pub(in crate::cuda::engine) fn describe(&self, layout: &Layout) -> Vec<String> {
        self.fused.describe(layout)
    }

    fn words(&self, work: &Work<'_>, l: usize, at: u64, threads: usize) -> Words {
        let shape = self.fused.layers[l].shape;
        let (batch, window) = (work.stack.shape().rows, work.stack.shape().window);
        Words { at, blocks: shape.blocks(batch), window, tiles: shape.tiles, threads }
    }

    /// The h of a layer.
    fn saved(&self, work: &Work<'_>, l: usize) -> Words {
        self.words(work, l, self.arrays.saved[l].address(), self.fused.layers[l].shape.threads())
    }

    pub(in crate::cuda::engine) fn forward(&self, work: &Work<'_>, call: &Forward<OnCard>) -> Result<()> {
        let (stack, stream, states) = (work.stack, work.stream, &work.states);
        let (batch, window) = (stack.shape().rows, stack.shape().window);
        let x = self.words(work, 0, self.arrays.x.address(), self.fused.layers[0].shape.reads());
        work.kernels.read_words(stream, states, stack.shape(), call, x)?;
        for (l, layer) in self.fused.layers.iter().enumerate() {
            let r = &stack.layers()[l];
            let mut state = Carry::default();
            if let Some(begin) = &call.begin {
                let own = stack.state_of(l);
                let given = [begin.h.part(own.start, own.len()), begin.c.part(own.start, own.len())];
                state.begin = given.map(|s| Some(s.address()));
                // The way back needs it when the caller may long have another in its place.
                if stack.trains() {
                    for (from, to) in given.iter().zip(&self.arrays.began[l]) {
                        let row = batch * r.units;
                        work.kernels.rows(stream, states, row, (from, row), (to, row), false)?;
                    }
                }
            }
            if let Some(end) = &call.end {
                let own = stack.state_of(l);
                let to = [end.h.part(own.start, own.len()), end.c.part(own.start, own.len())];
                state.end = to.map(|s| Some(s.address()));
            }
            let args = self.args(work, l, state, At::default());
            let grid = [layer.shape.blocks(batch), states.len(), 1];
            let threads = layer.shape.threads();
            // SAFETY: the addresses are of this stack's slab, laid out for these shapes, and of the caller's states,
            // whose lengths were checked.
            unsafe { layer.forward.send(stream, grid, threads, 0, &args)? };
        }
        let (top, width) = (stack.layers().len() - 1, stack.outputs());
        for (to, first) in call.every.iter().map(|to| (to, 0)).chain(call.last.iter().map(|to| (to, window - 1))) {
            let steps = (first, window - first);
            work.kernels.show_words(stream, states, steps, (batch, width), self.saved(work, top), to)?;
        }
        Ok(())
    }

    pub(in crate::cuda::engine) fn backward(&self, work: &Work<'_>, call: &Backward<OnCard>) -> Result<()> {
        let (stack, stream, states) = (work.stack, work.stream, &work.states);
        let (batch, params, top) = (stack.shape().rows, stack.params(), stack.layers().len() - 1);
        let at_h = HiddenGradients { every: call.every, last: call.last, width: stack.outputs() };
        if call.every.is_some() {
            let to = Words { at: self.arrays.back[top].address(), ..self.saved(work, top) };
            work.kernels.bring_words(stream, states, batch, at_h, to)?;
        } else {
            let shape = (1, batch, stack.top().units);
            work.kernels.bring(stream, states, shape, at_h, self.arrays.last.address())?;
        }
        for (l, layer) in self.fused.layers.iter().enumerate().rev() {
            let r = &stack.layers()[l];
            let alone = l == top && call.every.is_none();
            let at = At {
                delta: alone.then(|| self.arrays.last.address()),
                above: (!alone).then(|| self.arrays.back[l].address()),
                down: r.below.map(|below| self.arrays.back[below].address()),
            };
            let mut state = Carry::default();
            if work.given.begin {
                state.begin = self.arrays.began[l].map(|s| Some(s.address()));
            }
            let args = self.args(work, l, state, at);
            let blocks = layer.shape.blocks(batch);
            let (grid, threads) = ([blocks, states.len(), 1], 2 * layer.shape.threads());
            // SAFETY: as above.
            unsafe { layer.backward.send(stream, grid, threads, layer.shape.dynamic() as usize, &args)? };
            let sums = Sums { partial: self.arrays.partial[l].address(), blocks, width: r.size() };
            let to = work.at.gradient.address() + 4 * r.weight as u64;
            work.calls.sum_partials(stream, states, &sums, to, params)?;
        }
        Ok(())
    }

    /// What a layer's kernels take.
    fn args(&self, work: &Work<'_>, l: usize, state: Carry, at: At) -> Args {
        let (stack, arrays, batch) = (work.stack, &self.arrays, work.stack.shape().rows);
        let r = &stack.layers()[l];
        let (below, below_threads) = match r.below {
            Some(below) => (arrays.saved[below].address(), self.fused.layers[below].shape.threads()),
            None => (arrays.x.address(), self.fused.layers[l].shape.reads()),
        };
        // No table, and nothing that goes with one; strides are those of the gradient at the last h.
        Args {
            states: Some(work.states),
            rows: Some(arrays.rows),
            live: Some(arrays.live),
            below: Some(below),
            weights: work.at.shadow.as_ref().map_or(0, Slice::address) + 2 * r.weight as u64,
            master: work.at.master.address() + 4 * r.weight as u64,
            params: stack.params(),
            saved: Some(arrays.saved[l].address()),
            out_stride: r.units,
            out_member: batch * r.units,
            h0: state.begin[0],
            c0: state.begin[1],
            reset: work.reset(0).map(|clear| clear.at),
            h_end: state.end[0],
            c_end: state.end[1],
            delta: at.delta,
            above: at.above,
            down: at.down,
            partial: arrays.partial[l].address(),
            batch,
            mode: Mode::Step,
            features: r.features,
            window: r.window,
            wide: r.wide,
            units: r.units,
            out_width: r.units,
            below_threads,
            ..Args::default()
        }
    }
}

/// Where states come from and go to: h and c.
#[derive(Debug, Clone, Copy, Default)]
struct Carry {
    begin: [Option<u64>; 2],
    end: [Option<u64>; 2],
}

/// Where gradients at h come from and go to.
#[derive(Debug, Clone, Copy, Default)]
struct At {
    delta: Option<u64>,
    above: Option<u64>,
    down: Option<u64>,
}
