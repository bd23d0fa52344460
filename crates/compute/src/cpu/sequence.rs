//! Nets whose LSTM layers carry a state: a step of some rows, and the gradient of whole sequences, on one thread.
//!
//! A row's state is h and c of every LSTM layer, tower after tower. [`Stepper`] goes one step on with states that the
//! caller keeps; [`SequenceGradient`] goes through sequences from the states they began with, and back. Both take rows
//! through the same kernels, so a step has the bits of its place in a sequence, whatever rows are beside it.

use super::block::{self, Pass, Weights, matrix};
use super::buffers::Buffers;
use super::data::Source;
use super::descent::write_back;
use super::forward::Rows;
use super::memory::Floats;
use super::plan::Plan;
use super::recurrent::EVALUATED;
use super::recurrent::stack::Stack;
use super::slot::{held, hold};
use super::tile;
use crate::error::{Error, Result};
use crate::net::{Layout, Net, Parts, Place, UNITS};
use crate::population::{Pace, Precision, Recipe};
use crate::random::Turn;
use crate::recurrent::{self, Backward, Carried, Forward, Gradients, Shape};
use crate::tables::Tables;
use std::ops::Range;

/// Rows that go through the plain layers together on the way back.
const ROWS: usize = 128;
/// Rows of the stacks that a [`Stepper`] has, beside the one of all its rows: few rows do not pay for many.
const FEW: [usize; 2] = [1, 8];

/// A net, cut into its LSTM layers and the rest.
#[derive(Debug)]
struct Cut {
    net: Net,
    parts: Parts,
    plan: Plan,
    params: usize,
    precision: Precision,
}

impl Cut {
    fn new(net: &Net, precision: Precision) -> Result<Cut> {
        if !net.has_memory() {
            return Err(Error::Invalid(format!("`{net}` carries no state from row to row; go through it as a whole")));
        }
        let (params, parts) = (Layout::new(net)?.params, Parts::of(net)?);
        let plan = Plan::new(&parts.rest, &parts.layout, &Recipe::new(1, precision, 0), Pace::default());
        Ok(Cut { net: net.clone(), parts, plan, params, precision })
    }

    /// Numbers of a row's state.
    fn state(&self) -> usize {
        2 * self.parts.hidden.iter().flatten().map(|units| units.next_multiple_of(UNITS)).sum::<usize>()
    }

    /// The LSTM layers of each tower that has some, for so many rows and steps.
    fn stacks(&self, rows: usize, window: usize, gradients: Gradients) -> Result<Vec<Option<Walked>>> {
        let walked = |hidden: &Vec<usize>| {
            let shape = Shape {
                members: 1,
                rows,
                window,
                features: 0,
                extras: self.parts.features,
                hidden: hidden.clone(),
                precision: self.precision,
                gradients,
            };
            (!hidden.is_empty()).then(|| Walked::new(recurrent::Stack::new(shape)?)).transpose()
        };
        self.parts.hidden.iter().map(walked).collect()
    }

    /// The weights of each tower's LSTM layers, to the stacks that walk with them.
    fn take(&self, params: &[f32], stacks: &mut [Option<Walked>]) -> Result<()> {
        for (t, walked) in stacks.iter_mut().enumerate() {
            let own = self.parts.starts[t]..self.parts.starts[t + 1];
            walked.as_mut().map_or(Ok(()), |walked| walked.stack.take(&params[own.clone()], own.len()))?;
        }
        Ok(())
    }

    /// The parameters of the rest, as they are held.
    fn rest(&self, params: &[f32], to: &mut Floats) {
        let own = &params[self.parts.starts[self.parts.hidden.len()]..];
        if self.plan.round {
            hold(&self.plan, 0, own, to);
        } else {
            to.copy_from_slice(own);
        }
    }

    fn fits(&self, params: &[f32]) -> Result<()> {
        match params.len() == self.params {
            true => Ok(()),
            false => Err(Error::Invalid(format!("{} parameters for a net that has {}", params.len(), self.params))),
        }
    }

    /// `[rows, features]` all inputs side by side, scaled.
    fn gather(&self, rows: Rows<'_>, ids: &[u32], to: &mut [f32]) {
        let (mut column, stride) = (0, self.parts.features);
        let source = Source { tables: rows.tables, scales: rows.scales, extras: rows.extras };
        for (i, input) in self.net.inputs.iter().enumerate() {
            let place = Place { buffer: 0, column, width: input.features };
            source.gather(&self.net, i, ids, (&mut *to, stride, place), false);
            column += input.features;
        }
    }

    /// Whether rows can be gathered.
    fn check(&self, rows: &Rows<'_>, n: usize) -> Result<()> {
        let (extras, tables) = (n * self.net.extras(), !rows.tables.is_empty());
        if rows.extras.len() != extras || tables && rows.ids.len() != n {
            return Err(Error::Invalid(format!(
                "{} ids and {} extras for {n} rows; {n} and {extras} are wanted",
                rows.ids.len(),
                rows.extras.len()
            )));
        }
        rows.tables.serve(&self.net)?;
        rows.tables.on_cpu()?;
        rows.tables.check(&self.net, rows.ids, "these rows")
    }

    /// What the plain layers read of some rows: h of each tower's top layer, or the row as it is.
    fn below(&self, stacks: &[Option<Walked>], x: &[f32], rows: impl Iterator<Item = usize>, to: &mut Vec<f32>) {
        to.clear();
        for row in rows {
            for walked in stacks {
                let (from, width) = walked.as_ref().map_or((x, self.parts.features), |w| (&w.every, w.wide));
                to.extend_from_slice(&from[row * width..(row + 1) * width]);
            }
        }
    }
}

/// The LSTM layers of one tower, and what they make of their rows.
#[derive(Debug)]
struct Walked {
    stack: Stack,
    shape: recurrent::Stack,
    /// Units of the top layer.
    wide: usize,
    h: Vec<f32>,
    c: Vec<f32>,
    end_h: Vec<f32>,
    end_c: Vec<f32>,
    every: Vec<f32>,   // [T, B, wide]
    d_every: Vec<f32>, // [T, B, wide] where there is a way back
}

impl Walked {
    fn new(shape: recurrent::Stack) -> Result<Walked> {
        let Shape { rows, window, gradients, .. } = *shape.shape();
        let (state, all) = (shape.state(), window * rows * shape.outputs());
        let filled = |n: usize| crate::host::filled(0.0f32, n, "states of recurrent layers");
        Ok(Walked {
            stack: Stack::new(&shape, 1)?,
            wide: shape.outputs(),
            h: filled(state)?,
            c: filled(state)?,
            end_h: filled(state)?,
            end_c: filled(state)?,
            every: filled(all)?,
            d_every: filled(if gradients == Gradients::None { 0 } else { all })?,
            shape,
        })
    }

    /// Numbers of a row's state.
    fn state(&self) -> usize {
        2 * self.shape.layers().iter().map(|r| r.units).sum::<usize>()
    }

    /// Reads the states of some rows, `[n, all]` from column `at` on.
    fn begin(&mut self, states: &[f32], all: usize, at: usize) {
        let rows = self.shape.shape().rows;
        let mut column = at;
        for (l, r) in self.shape.layers().iter().enumerate() {
            let start = self.shape.state_of(l).start;
            for (own, row) in (0..rows).zip(states.chunks_exact(all)) {
                let to = start + own * r.units..start + (own + 1) * r.units;
                self.h[to.clone()].copy_from_slice(&row[column..column + r.units]);
                self.c[to].copy_from_slice(&row[column + r.units..column + 2 * r.units]);
            }
            column += 2 * r.units;
        }
    }

    /// Writes what the rows ended with.
    fn end(&self, states: &mut [f32], all: usize, at: usize) {
        let rows = self.shape.shape().rows;
        let mut column = at;
        for (l, r) in self.shape.layers().iter().enumerate() {
            let start = self.shape.state_of(l).start;
            for (own, row) in (0..rows).zip(states.chunks_exact_mut(all)) {
                let from = start + own * r.units..start + (own + 1) * r.units;
                row[column..column + r.units].copy_from_slice(&self.end_h[from.clone()]);
                row[column + r.units..column + 2 * r.units].copy_from_slice(&self.end_c[from]);
            }
            column += 2 * r.units;
        }
    }

    fn forward(&mut self, x: &[f32], reset: Option<&[u8]>) -> Result<()> {
        let call = Forward {
            extras: Some(x),
            begin: Some(Carried { h: &*self.h, c: &*self.c }),
            reset,
            every: Some(&mut *self.every),
            end: Some(Carried { h: &mut *self.end_h, c: &mut *self.end_c }),
            ..Forward::of(&[][..], 1, &[][..])
        };
        self.stack.forward(call)
    }
}

/// Steps of some rows, each with a state that its owner keeps.
#[derive(Debug)]
pub struct Stepper {
    cut: Cut,
    /// By rows, from few to many.
    stacks: Vec<(usize, Vec<Option<Walked>>)>,
    rest: Floats,
    strips: Floats,
    values: Buffers,
    x: Vec<f32>,
    below: Vec<f32>,
    ids: Vec<u32>,
    rows: usize,
}

impl Stepper {
    /// Memory for steps of rows, so many at a time.
    ///
    /// # Errors
    ///
    /// Where the net carries no state, or the memory is not enough.
    pub fn new(net: &Net, precision: Precision, rows: usize) -> Result<Stepper> {
        let (cut, rows) = (Cut::new(net, precision)?, rows.max(1));
        let sizes = FEW.into_iter().filter(|few| *few < rows).chain([rows]);
        let stacks = sizes.map(|n| Ok((n, cut.stacks(n, 1, Gradients::None)?))).collect::<Result<_>>()?;
        let rest = cut.plan.layout.params;
        Ok(Stepper {
            stacks,
            rest: Floats::new(rest)?,
            strips: Floats::new(rest)?,
            values: Buffers::new(&cut.plan, rows)?,
            x: vec![0.0; rows * cut.parts.features],
            below: Vec::new(),
            ids: vec![0; rows],
            rows,
            cut,
        })
    }

    /// Numbers of a row's state; zeros begin.
    pub fn state(&self) -> usize {
        self.cut.state()
    }

    /// Numbers of a row of outputs, all heads one behind the other.
    pub fn outputs(&self) -> usize {
        self.cut.net.heads.iter().map(|head| head.classes).sum()
    }

    /// Takes parameters, `[params]` as the net's layout says, for all steps from here on.
    ///
    /// # Errors
    ///
    /// Where they are not as many as the net has.
    pub fn take(&mut self, params: &[f32]) -> Result<()> {
        self.cut.fits(params)?;
        self.stacks.iter_mut().try_for_each(|(_, stacks)| self.cut.take(params, stacks))?;
        self.cut.rest(params, &mut self.rest);
        for linear in &self.cut.plan.layout.linears {
            let range = linear.weight..linear.weight + linear.output.width * linear.input.width;
            let (wide, tall) = (linear.output.width, linear.input.width);
            tile::strips(wide, tall, &self.rest[range.clone()], &mut self.strips[range], self.cut.plan.round);
        }
        Ok(())
    }

    /// One step of some rows: their `states` `[rows, state]` go on, and `out` `[rows, outputs]` is what comes out.
    ///
    /// # Errors
    ///
    /// Where the rows are not there, or the lengths do not fit.
    pub fn step(&mut self, rows: Rows<'_>, states: &mut [f32], out: &mut [f32]) -> Result<()> {
        let (wide, state, extras) = (self.outputs(), self.state(), self.cut.net.extras());
        let n = out.len() / wide;
        self.cut.check(&rows, n)?;
        if out.len() != n * wide || states.len() != n * state {
            return Err(Error::Invalid(format!(
                "{} outputs and states of {} numbers; a row has {wide} and {state}",
                out.len(),
                states.len()
            )));
        }
        let parts = states.chunks_mut(self.rows * state).zip(out.chunks_mut(self.rows * wide)).enumerate();
        for (part, (states, out)) in parts {
            let at = part * self.rows..part * self.rows + out.len() / wide;
            let ids = rows.ids.get(at.clone()).unwrap_or_default();
            self.few(Rows { ids, extras: &rows.extras[at.start * extras..at.end * extras], ..rows }, states, out)?;
        }
        Ok(())
    }

    /// The same of no more rows than there is memory for.
    fn few(&mut self, rows: Rows<'_>, states: &mut [f32], out: &mut [f32]) -> Result<()> {
        let Stepper { cut, stacks, rest, strips, values, x, below, ids, .. } = self;
        let (state, wide) = (cut.state(), cut.net.heads.iter().map(|head| head.classes).sum::<usize>());
        let n = out.len() / wide;
        let Some((size, stacks)) = stacks.iter_mut().find(|(size, _)| *size >= n) else { return Ok(()) };
        if n == 0 {
            return Ok(());
        }
        let x = &mut x[..*size * cut.parts.features];
        let ids = if rows.ids.is_empty() { &ids[..n] } else { rows.ids };
        x.fill(0.0);
        cut.gather(rows, ids, &mut x[..n * cut.parts.features]);
        let mut column = 0;
        for walked in stacks.iter_mut().flatten() {
            walked.begin(states, state, column);
            walked.forward(x, None)?;
            walked.end(states, state, column);
            column += walked.state();
        }
        cut.below(stacks, x, 0..n, below);
        let source = Source { tables: rows.tables, scales: &[], extras: below };
        let weights = Weights { params: rest, packed: &[], strips };
        let mut values = values.first(n);
        block::forward(&cut.plan, source, weights, ids, &mut values, &mut [], None);
        let mut at = 0;
        for head in &cut.plan.layout.linears[cut.plan.first_head()..] {
            let made = values.read(&cut.plan, head.output.buffer).chunks_exact(cut.plan.stride(head.output.buffer));
            for (to, from) in out.chunks_exact_mut(wide).zip(made) {
                to[at..at + head.outputs].copy_from_slice(&from[..head.outputs]);
            }
            at += head.outputs;
        }
        Ok(())
    }
}

/// Some rows of sequences, in order: from their outputs `[heads][rows, outputs]` the gradient at these.
pub type SequenceLoss<'a> = &'a mut dyn FnMut(Range<usize>, &[Vec<f32>], &mut [Vec<f32>]);

/// Sequences of one length, `n` of them side by side.
#[derive(Debug, Clone, Copy)]
pub struct Sequences<'a> {
    /// `[steps, n]` rows, step after step.
    pub rows: Rows<'a>,
    /// `[n, state]` what each began with.
    pub begin: &'a [f32],
    /// `[steps, n]` not 0 where a row begins anew: its state is cleared before that step, and no gradient passes there.
    pub reset: &'a [u8],
}

/// The gradient of sequences.
#[derive(Debug)]
pub struct SequenceGradient {
    cut: Cut,
    stacks: Vec<Option<Walked>>,
    rest: Floats,
    values: Buffers,
    back: Buffers,
    x: Vec<f32>, // [T, B, features]
    below: Vec<f32>,
    zeros: Vec<u32>,
    reset: Vec<u8>,
    rows: usize,
    steps: usize,
}

impl SequenceGradient {
    /// Sequences that go through a net together, at most.
    pub const MOST: usize = EVALUATED;

    /// Memory for at most `rows` sequences (up to [`MOST`](Self::MOST)) of `steps` steps.
    ///
    /// # Errors
    ///
    /// Where the net carries no state, or the memory is not enough.
    pub fn new(net: &Net, precision: Precision, rows: usize, steps: usize) -> Result<SequenceGradient> {
        let (cut, rows) = (Cut::new(net, precision)?, rows.clamp(1, Self::MOST));
        Ok(SequenceGradient {
            stacks: cut.stacks(rows, steps, Gradients::Weights)?,
            rest: Floats::new(cut.plan.layout.params)?,
            values: Buffers::new(&cut.plan, ROWS)?,
            back: Buffers::new(&cut.plan, ROWS)?,
            x: crate::host::filled(0.0, steps * rows * cut.parts.features, "rows of sequences")?,
            below: Vec::new(),
            zeros: vec![0; steps * rows],
            reset: vec![0; steps * rows],
            rows,
            steps,
            cut,
        })
    }

    /// Bytes that such memory takes, about.
    ///
    /// # Errors
    ///
    /// Where the net carries no state.
    pub fn need(net: &Net, rows: usize, steps: usize) -> Result<u64> {
        let (cut, rows) = (Cut::new(net, Precision::F32)?, rows.clamp(1, Self::MOST));
        let mut below = cut.parts.features;
        let mut each = cut.parts.features;
        for hidden in &cut.parts.hidden {
            for units in hidden {
                // Inputs and h, four gates, cells and their tangents.
                each += below.next_multiple_of(UNITS) + 7 * units.next_multiple_of(UNITS);
                below = *units;
            }
            each += 2 * hidden.last().unwrap_or(&0);
            below = cut.parts.features;
        }
        Ok(4 * ((rows * (steps + 1) * each) + 2 * ROWS * cut.plan.columns() + 4 * cut.params) as u64)
    }

    /// Numbers of a row's state; zeros begin.
    pub fn state(&self) -> usize {
        self.cut.state()
    }

    /// Takes parameters, `[params]` as the net's layout says.
    ///
    /// # Errors
    ///
    /// Where they are not as many as the net has.
    pub fn take(&mut self, params: &[f32]) -> Result<()> {
        self.cut.fits(params)?;
        self.cut.take(params, &mut self.stacks)?;
        self.cut.rest(params, &mut self.rest);
        Ok(())
    }

    /// The gradient of sequences, written to `gradient` `[params]`. `loss(places, out, d_out)` is handed some rows of
    /// `[steps, n]` in order, with their outputs `[heads][rows, outputs]`, and gives the gradient at these.
    ///
    /// # Errors
    ///
    /// Where the rows are not there, or the lengths do not fit.
    pub fn gradient(&mut self, sequences: Sequences<'_>, loss: SequenceLoss<'_>, gradient: &mut [f32]) -> Result<()> {
        let (state, steps) = (self.cut.state(), self.steps);
        let n = sequences.begin.len() / state;
        self.cut.check(&sequences.rows, steps * n)?;
        self.cut.fits(gradient)?;
        if n == 0 || n > self.rows || sequences.begin.len() != n * state || sequences.reset.len() != steps * n {
            return Err(Error::Invalid(format!(
                "{} numbers of states and {} resets for 1 to {} sequences of {steps} steps",
                sequences.begin.len(),
                sequences.reset.len(),
                self.rows
            )));
        }
        // Between tensors there is padding that nobody writes.
        gradient.fill(0.0);
        self.forward(&sequences, n)?;
        let rest = self.cut.parts.starts[self.stacks.len()];
        let d_rest = &mut gradient[rest..];
        let all = steps * n;
        for first in (0..all).step_by(ROWS) {
            let places = first..all.min(first + ROWS);
            self.chunk(sequences.rows.tables, places, n, &mut *loss, (&mut *d_rest, first > 0));
        }
        for (t, walked) in self.stacks.iter_mut().enumerate() {
            let Some(walked) = walked else { continue };
            let own = self.cut.parts.starts[t]..self.cut.parts.starts[t + 1];
            walked.stack.backward(Backward {
                every: Some(&walked.d_every),
                last: None,
                members: None,
                stride: own.len(),
                gradient: &mut gradient[own],
                add: false,
                begin: None,
            })?;
        }
        Ok(())
    }

    /// All steps of the LSTM layers; rows that are not there are zeros, and get no gradient.
    fn forward(&mut self, sequences: &Sequences<'_>, n: usize) -> Result<()> {
        let SequenceGradient { cut, stacks, x, zeros, reset, rows, steps, .. } = self;
        let (features, extras) = (cut.parts.features, cut.net.extras());
        let of_step = |t: usize| t * n..(t + 1) * n;
        for t in 0..*steps {
            let own = of_step(t);
            let ids = sequences.rows.ids.get(own.clone()).unwrap_or(&zeros[..n]);
            let dense = &sequences.rows.extras[own.start * extras..own.end * extras];
            let to = &mut x[t * *rows * features..(t + 1) * *rows * features];
            to[n * features..].fill(0.0);
            cut.gather(Rows { extras: dense, ..sequences.rows }, ids, &mut to[..n * features]);
            let to = &mut reset[t * *rows..(t + 1) * *rows];
            to.fill(0);
            to[..n].copy_from_slice(&sequences.reset[own]);
        }
        let (mut column, state) = (0, cut.state());
        for walked in stacks.iter_mut().flatten() {
            walked.h.fill(0.0);
            walked.c.fill(0.0);
            walked.d_every.fill(0.0);
            walked.begin(sequences.begin, state, column);
            walked.forward(x, Some(&*reset))?;
            column += walked.state();
        }
        Ok(())
    }

    /// Some rows through the plain layers and back, to the h that they read.
    fn chunk(
        &mut self,
        tables: &Tables,
        places: Range<usize>,
        n: usize,
        loss: SequenceLoss<'_>,
        gradient: (&mut [f32], bool),
    ) {
        let SequenceGradient { cut, stacks, rest, values, back, x, below, zeros, rows, .. } = self;
        let row_of = |place: usize| place / n * *rows + place % n;
        cut.below(stacks, x, places.clone().map(row_of), below);
        let plan = &cut.plan;
        // Nothing is read from a table behind the LSTM layers, and nothing is left out.
        let pass = Pass { turn: Turn { seed: 0, member: 0, step: 0 }, first: 0, keep: true };
        let source = Source { tables, scales: &[], extras: below };
        let (mut values, mut back) = (values.first(places.len()), back.first(places.len()));
        let weights = held(rest, &[], &[]);
        block::forward(plan, source, weights, &zeros[..places.len()], &mut values, &mut [], Some(pass));
        let heads = &plan.layout.linears[plan.first_head()..];
        let (mut out, mut d_out) = (Vec::with_capacity(heads.len()), Vec::with_capacity(heads.len()));
        for head in heads {
            let made = values.read(plan, head.output.buffer).chunks_exact(plan.stride(head.output.buffer));
            let own: Vec<f32> = made.flat_map(|z| &z[..head.outputs]).copied().collect();
            d_out.push(vec![0.0; own.len()]);
            out.push(own);
        }
        loss(places.clone(), &out, &mut d_out);
        heads.iter().zip(&d_out).for_each(|(head, given)| write_back(plan, head, given, &mut back));
        block::backward(plan, weights, &values, &mut back, &mut [], pass, Some(gradient));
        for (t, walked) in stacks.iter_mut().enumerate() {
            let (Some(walked), Some(place)) = (walked, plan.gathered[t]) else { continue };
            let read = matrix(plan, back.read(plan, place.buffer), place);
            for (own, at) in places.clone().enumerate() {
                let (from, to) = (own * read.stride, row_of(at) * walked.wide);
                walked.d_every[to..to + walked.wide].copy_from_slice(&read.values[from..from + walked.wide]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
