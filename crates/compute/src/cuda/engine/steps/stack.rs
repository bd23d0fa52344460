//! A stack of recurrent layers step by step, with the kernels of a population's: for every size and precision.

use super::arrays::Arrays as Layers;
use super::launch::{BackArgs, CellArgs, Kernels, StridedRows};
use super::products::{Doer, Part, Plans};
use crate::cuda::blaslt::Addresses;
use crate::cuda::calls::{self, Rows, Sums};
use crate::cuda::context::Context;
use crate::cuda::engine::Mode;
use crate::cuda::engine::setup::Cutter;
use crate::cuda::engine::stack::Work;
use crate::cuda::engine::stack::launch::HiddenGradients;
use crate::cuda::graph::Stream;
use crate::cuda::memory::Slice;
use crate::cuda::workspace::WORKSPACE;
use crate::error::Result;
use crate::net::{GATES, Recurrent};
use crate::population::{Pins, Precision, Recipe};
use crate::recurrent::{Backward, Forward, Gradients, OnCard, Stack};
use std::sync::Arc;

/// What the layers keep.
pub(in crate::cuda::engine) struct Arrays {
    layers: Layers,
    every: Slice<u8>,      // [P, T, B, units] f32 or bf16: every h of the top layer
    began: Vec<Slice<u8>>, // [layers] [P, B, units] f32 or bf16: c before the first step, as the way back sees it
    workspace: Slice<u8>,  // of cuBLASLt
}

/// Cuts them, or counts them.
pub(in crate::cuda::engine) fn arrays(cut: &mut Cutter<'_>, stack: &Stack, recipe: &Recipe) -> Result<Arrays> {
    let (members, size) = (stack.shape().members, if recipe.precision == Precision::Bf16 { 2 } else { 4 });
    let rows = members * recipe.batch;
    Ok(Arrays {
        layers: super::arrays(cut, stack.layout(), recipe, members)?,
        every: cut.cut(rows * stack.shape().window * stack.top().units * size)?,
        began: stack.layers().iter().map(|r| cut.cut(rows * r.units * size)).collect::<Result<_>>()?,
        workspace: cut.cut(WORKSPACE)?,
    })
}

/// The layers of a stack.
pub(in crate::cuda::engine) struct Walk {
    kernels: Kernels,
    plans: Plans,
    recipe: Recipe,
    arrays: Arrays,
}

impl Walk {
    pub(in crate::cuda::engine) fn new(
        context: &Arc<Context>,
        stream: &Stream,
        stack: &Stack,
        recipe: Recipe,
        arrays: Arrays,
    ) -> Result<Walk> {
        arrays.layers.clear(stream)?;
        stream.fill(&arrays.every, 0)?;
        arrays.began.iter().try_for_each(|began| stream.fill(began, 0))?;
        Ok(Walk {
            kernels: Kernels::load(context, recipe.precision == Precision::Bf16)?,
            plans: Plans::choose(context, stack.layout(), &recipe, &Pins::default())?,
            recipe,
            arrays,
        })
    }

    pub(in crate::cuda::engine) fn describe(&self) -> Vec<String> {
        self.plans.describe()
    }

    /// Bytes of a number.
    fn size(&self) -> u64 {
        super::numbers(&self.recipe).size()
    }

    /// Where h of step `t` of a layer goes, as the layer above reads it.
    fn shown(&self, stack: &Stack, l: usize, t: usize) -> StridedRows {
        let (batch, size) = (self.recipe.batch, self.size());
        if l + 1 < stack.layers().len() {
            return self.arrays.layers.layers[l + 1].rows(0, t, batch, size);
        }
        let (units, window) = (stack.top().units, stack.shape().window);
        let at = self.arrays.every.address() + (t * batch * units) as u64 * size;
        StridedRows { at, stride: units, member: window * batch * units, width: units }
    }

    fn product(&self, work: &Work<'_>, l: usize, t: usize, part: Part) -> Result<()> {
        let doer = Doer {
            plans: &self.plans,
            layout: work.stack.layout(),
            recipe: &self.recipe,
            calls: work.calls,
            split: &self.arrays.layers.split,
            workspace: self.arrays.workspace.address(),
        };
        let at = |first: usize| self.addresses(work, l, t, part, first);
        doer.run(work.stream, l, part, at, &work.states, Mode::Step)
    }

    /// Where a product of layer `l` reads and writes, at step `t` where it is of one step.
    fn addresses(&self, work: &Work<'_>, l: usize, t: usize, part: Part, first: usize) -> Addresses {
        let (batch, size, r, params) = (self.recipe.batch, self.size(), &work.stack.layers()[l], work.stack.params());
        let weights = |at: usize| {
            let start = work.at.shadow.as_ref().map_or(work.at.master.address(), Slice::address);
            start + (first * params + at) as u64 * size
        };
        let own = &self.arrays.layers.layers[l];
        let (left, right, out) = match part {
            Part::Gates => (own.rows(first, t, batch, size).at, weights(r.weight), own.gates_at(first, t, batch)),
            Part::Carry => (own.dz_at(first, t, batch, size), weights(r.at(r.wide, 0, 0)), own.dh_at(first, batch)),
            Part::Below => {
                let below = |b: usize| self.arrays.layers.layers[b].outer_at(first, 0, batch, size).at;
                (own.dz_at(first, 0, batch, size), weights(r.weight), r.below.map_or(0, below))
            }
            Part::Weight => {
                let dz = own.dz_at(first, 0, batch, size);
                let gradient = work.at.gradient.address() + 4 * (first * params + r.weight) as u64;
                (own.rows(first, 0, batch, size).at, dz, gradient)
            }
        };
        Addresses { left, right, out, bias: 0, accumulate: false }
    }

    pub(in crate::cuda::engine) fn forward(&self, work: &Work<'_>, call: &Forward<OnCard>) -> Result<()> {
        let (stack, stream, states) = (work.stack, work.stream, &work.states);
        let (batch, size, window) = (self.recipe.batch, self.size(), stack.shape().window);
        work.kernels.read(stream, states, stack.shape(), call, self.arrays.layers.layers[0].rows(0, 0, batch, size))?;
        for (l, r) in stack.layers().iter().enumerate() {
            let own = &self.arrays.layers.layers[l];
            let range = stack.state_of(l);
            let part = |s: &Slice<f32>| s.part(range.start, range.len());
            let given = call.begin.as_ref().map(|begin| (part(&begin.h), part(&begin.c)));
            let h = own.rows(0, 0, batch, size).shift(r.wide, size);
            let places = (own.carry.address(), self.arrays.began[l].address());
            work.kernels.begin(stream, states, (batch, r.units), given, work.reset(0), h, places)?;
            for t in 0..window {
                self.product(work, l, t, Part::Gates)?;
                let next = (t + 1 < window).then(|| own.rows(0, t + 1, batch, size).shift(r.wide, size));
                let cell = CellArgs {
                    states: *states,
                    z: own.gates_at(0, t, batch),
                    z_member: window * batch * own.gates_width(),
                    bias: work.at.master.address() + 4 * r.bias() as u64,
                    params: stack.params(),
                    carry: own.carry.address(),
                    cells: stack.trains().then(|| own.cells_at(0, t, batch, size)),
                    cells_member: window * batch * r.units,
                    next,
                    above: Some(self.shown(stack, l, t)),
                    last: None,
                    clear: work.reset(t + 1).filter(|_| t + 1 < window),
                    mode: Mode::Step,
                    batch,
                    units: r.units,
                    first: false,
                    last_width: 0,
                };
                self.kernels.cell(stream, &cell)?;
            }
            if let Some(end) = &call.end {
                let h = StridedRows { width: r.units, ..self.shown(stack, l, window - 1) };
                work.kernels.show(stream, states, (1, batch), h, false, &part(&end.h), None)?;
                let c = carried(own.carry.address(), batch, r);
                work.kernels.show(stream, states, (1, batch), c, true, &part(&end.c), None)?;
            }
        }
        let top = stack.layers().len() - 1;
        for (to, first) in call.every.iter().map(|to| (to, 0)).chain(call.last.iter().map(|to| (to, window - 1))) {
            let from = StridedRows { width: stack.outputs(), ..self.shown(stack, top, first) };
            work.kernels.show(stream, states, (window - first, batch), from, false, to, None)?;
        }
        Ok(())
    }

    pub(in crate::cuda::engine) fn backward(&self, work: &Work<'_>, call: &Backward<OnCard>) -> Result<()> {
        let (stack, stream, states) = (work.stack, work.stream, &work.states);
        let (batch, size, window) = (self.recipe.batch, self.size(), stack.shape().window);
        let at_h = HiddenGradients { every: call.every, last: call.last, width: stack.outputs() };
        let outer = self.arrays.layers.layers[stack.layers().len() - 1].outer_at(0, 0, batch, size).at;
        work.kernels.bring(stream, states, (window, batch, stack.top().units), at_h, outer)?;
        let state = stack.shape().gradients == Gradients::State;
        for (l, r) in stack.layers().iter().enumerate().rev() {
            let own = &self.arrays.layers.layers[l];
            for t in (0..window).rev() {
                let (before, before_member) = match t {
                    0 => (self.arrays.began[l].address(), batch * r.units),
                    _ => (own.cells_at(0, t - 1, batch, size), window * batch * r.units),
                };
                let outer = own.outer_at(0, t, batch, size);
                let back = BackArgs {
                    states: *states,
                    gates: own.gates_at(0, t, batch),
                    gates_member: window * batch * own.gates_width(),
                    cells: own.cells_at(0, t, batch, size),
                    cells_member: window * batch * r.units,
                    before: Some(before),
                    before_member,
                    outer: Some(outer),
                    dh: (t + 1 < window).then(|| own.dh_at(0, batch)),
                    dc: own.carry.address(),
                    dz: own.dz_at(0, t, batch, size),
                    clear: work.reset(t),
                    batch,
                    units: r.units,
                    outer_width: outer.width,
                };
                self.kernels.back(stream, &back)?;
                if t > 0 || state {
                    self.product(work, l, t, Part::Carry)?;
                }
            }
            if let Some(begin) = &call.begin {
                let range = stack.state_of(l);
                for (from, to) in [(own.dh_at(0, batch), &begin.h), (own.carry.address(), &begin.c)] {
                    let (from, to) = (carried(from, batch, r), to.part(range.start, range.len()));
                    work.kernels.show(stream, states, (1, batch), from, true, &to, work.reset(0))?;
                }
            }
            self.product(work, l, 0, Part::Weight)?;
            let (rows, width) = (window * batch, r.units * GATES);
            let dz = Rows { at: own.dz_at(0, 0, batch, size), batch: rows, width, stride: width };
            work.calls.column_sum(stream, states, dz, &self.arrays.layers.bias_partial)?;
            let partial = self.arrays.layers.bias_partial.address();
            let sums = Sums { partial, blocks: calls::blocks(rows), width };
            let to = work.at.gradient.address() + 4 * r.bias() as u64;
            work.calls.sum_partials(stream, states, &sums, to, stack.params())?;
            if r.below.is_some() {
                self.product(work, l, 0, Part::Below)?;
            }
        }
        Ok(())
    }
}

/// `[P, B, units]` f32.
fn carried(at: u64, batch: usize, r: &Recurrent) -> StridedRows {
    StridedRows { at, stride: r.units, member: batch * r.units, width: r.units }
}
