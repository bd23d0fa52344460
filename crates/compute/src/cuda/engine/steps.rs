//! Recurrent layers step by step: the general way, for every size and precision that has no kernel over the whole
//! window.
//!
//! A layer keeps the rows `[x_t, h_{t-1}]` of all steps side by side, so that a step is one product with the weights as
//! they lie, `[wide + units, units · 4]`, and one kernel for gates and cell; the gradient of the weights is one product
//! over all steps. The h before the first step is zeros that nobody ever overwrites. `arrays` says what is kept,
//! `products` which way the products go, `launch` how the kernels of `ops/lstm_steps.cu` are called.

mod arrays;
mod launch;
mod products;
pub(super) mod stack;
#[cfg(test)]
mod tests;

pub(super) use arrays::{Arrays, arrays};
pub(super) use launch::{ResetMask, StridedRows};

use super::{Engine, Mode};
use crate::cuda::blaslt::Numbers;
use crate::cuda::calls::{self, GatherArgs, Rows, Sums};
use crate::cuda::context::Context;
use crate::cuda::graph::Event;
use crate::error::{Error, Result};
use crate::net::{GATES, Layout};
use crate::population::{Pins, Precision, Recipe};
use arrays::Layer;
use launch::{BackArgs, CellArgs, Kernels, SequenceArgs};
use products::Part;
pub(super) use products::Plans;
use std::sync::Arc;

/// What the steps of a net's recurrent layers are done with.
pub(super) struct Steps {
    kernels: Kernels,
    pub(super) plans: Plans,
    events: Vec<Event>, // [layers + 1] forks to the side stream, and the join
}

impl Steps {
    /// Loads the kernels and chooses the products.
    pub(super) fn new(context: &Arc<Context>, layout: &Layout, recipe: &Recipe, pins: &Pins) -> Result<Steps> {
        Ok(Steps {
            kernels: Kernels::load(context, recipe.precision == Precision::Bf16)?,
            plans: Plans::choose(context, layout, recipe, pins)?,
            events: (0..=layout.recurrents.len()).map(|_| Event::new(context, false)).collect::<Result<_>>()?,
        })
    }
}

/// Whether a card can walk through such windows, before memory is taken for them.
pub(super) fn check(layout: &Layout, recipe: &Recipe) -> Result<()> {
    for r in &layout.recurrents {
        // Steps lie in the second dimension of a grid, and so do slices of 256 rows of all steps.
        if r.window > 65_535 || r.window * recipe.batch > 65_535 * 256 {
            return Err(Error::Invalid(format!(
                "{}: {} steps of {} rows; at most 65,535 steps and 16,776,960 rows of all steps are possible on a card",
                r.name, r.window, recipe.batch
            )));
        }
    }
    Ok(())
}

impl Engine {
    /// All steps of all recurrent layers; the last h of each branch goes to its place among the values. With `choose`
    /// the rows of the batch are found out first.
    pub(super) fn steps_forward(&self, first: usize, slots: usize, mode: Mode, choose: bool) -> Result<()> {
        let (Some(steps), Some(arrays)) = (&self.steps, &self.at.steps) else { return Ok(()) };
        if choose {
            self.choose_rows(first, slots, mode)?;
        }
        let (batch, size) = (self.recipe.batch, self.size());
        let states = self.states_of(first, slots);
        for (l, r) in self.layout.recurrents.iter().enumerate() {
            let own = &arrays.layers[l];
            if r.below.is_none() {
                self.sequence(first, slots, mode, l)?;
            }
            // The layer above reads every h, the layers behind the last one.
            let upper =
                (l + 1 < arrays.layers.len() && self.layout.recurrents[l + 1].below == Some(l)).then_some(l + 1);
            for t in 0..r.window {
                self.steps_product(&self.main, 0, (l, t), Part::Gates, (first, slots), mode)?;
                let last = t + 1 == r.window;
                let next = (!last).then(|| own.rows(first, t + 1, batch, size).shift(r.wide, size));
                let above = upper.map(|l| arrays.layers[l].rows(first, t, batch, size));
                let output = r.output.as_ref().filter(|_| last).map(|place| self.spread(&self.at.values, place, first));
                steps.kernels.cell(
                    &self.main,
                    &CellArgs {
                        states,
                        z: own.gates_at(first, t, batch),
                        z_member: own.window * batch * own.gates_width(),
                        bias: self.in_params(first, r.bias()).at,
                        params: self.layout.params,
                        carry: own.carry.address() + 4 * (first * batch * r.units) as u64,
                        cells: (mode == Mode::Step).then(|| own.cells_at(first, t, batch, size)),
                        cells_member: own.window * batch * r.units,
                        next,
                        above,
                        last: output,
                        clear: None,
                        mode,
                        batch,
                        units: r.units,
                        first: t == 0,
                        last_width: output.map_or(0, |o| o.width),
                    },
                )?;
            }
        }
        Ok(())
    }

    /// Gradients of the weights of all recurrent layers, from the top one of each branch down, out of those at the last
    /// h. The side stream is joined at the end.
    pub(super) fn steps_backward(&self, first: usize, slots: usize) -> Result<()> {
        let (Some(steps), Some(arrays)) = (&self.steps, &self.at.steps) else { return Ok(()) };
        let (batch, size) = (self.recipe.batch, self.size());
        let states = self.states_of(first, slots);
        for (l, r) in self.layout.recurrents.iter().enumerate().rev() {
            let own = &arrays.layers[l];
            for t in (0..r.window).rev() {
                let last = t + 1 == r.window;
                let outer = match &r.output {
                    Some(place) => last.then(|| self.spread(&self.at.deltas, place, first)),
                    None => Some(own.outer_at(first, t, batch, size)),
                };
                steps.kernels.back(
                    &self.main,
                    &BackArgs {
                        states,
                        gates: own.gates_at(first, t, batch),
                        gates_member: own.window * batch * own.gates_width(),
                        cells: own.cells_at(first, t, batch, size),
                        cells_member: own.window * batch * r.units,
                        before: (t > 0).then(|| own.cells_at(first, t - 1, batch, size)),
                        before_member: own.window * batch * r.units,
                        outer,
                        dh: (!last).then(|| own.dh_at(first, batch)),
                        dc: own.carry.address() + 4 * (first * batch * r.units) as u64,
                        dz: own.dz_at(first, t, batch, size),
                        clear: None,
                        batch,
                        units: r.units,
                        outer_width: outer.map_or(0, |o| o.width),
                    },
                )?;
                if t > 0 {
                    self.steps_product(&self.main, 0, (l, t), Part::Carry, (first, slots), Mode::Step)?;
                }
            }
            // The gradients at all sums are complete here: those of the weights may begin, while the layer below walks
            // back.
            steps.events[l].record(&self.main)?;
            self.side.after(&steps.events[l])?;
            self.steps_product(&self.side, 1, (l, 0), Part::Weight, (first, slots), Mode::Step)?;
            let (rows, width) = (r.window * batch, r.units * GATES);
            let dz = Rows { at: own.dz_at(first, 0, batch, size), batch: rows, width, stride: width };
            self.calls.column_sum(&self.side, &states, dz, &arrays.bias_partial)?;
            let sums = Sums { partial: arrays.bias_partial.address(), blocks: calls::blocks(rows), width };
            self.calls.sum_partials(&self.side, &states, &sums, self.gradient(first, r.bias()), self.layout.params)?;
            if r.below.is_some() {
                self.steps_product(&self.main, 0, (l, 0), Part::Below, (first, slots), Mode::Step)?;
            }
        }
        let join = &steps.events[self.layout.recurrents.len()];
        join.record(&self.side)?;
        self.main.after(join)
    }

    /// A place of some buffers, as kernels want it.
    fn spread(&self, arrays: &[crate::cuda::Slice<u8>], place: &crate::net::Place, first: usize) -> StridedRows {
        let (batch, stride) = (self.recipe.batch, self.layout.buffers[place.buffer].stride);
        let offset = (first * batch * stride + place.column) as u64 * self.size();
        StridedRows { at: arrays[place.buffer].address() + offset, stride, member: batch * stride, width: place.width }
    }

    /// Which rows the batch has: what `gather` does, without columns.
    fn choose_rows(&self, first: usize, slots: usize, mode: Mode) -> Result<()> {
        let (batch, at) = (self.recipe.batch, &self.at);
        let input = &self.net.inputs[0];
        self.calls.gather(
            &self.main,
            &GatherArgs {
                states: self.states_of(first, slots),
                epochs: self.epochs_of(first, slots),
                seed: self.recipe.seed,
                lists: at.lists,
                rows: at.rows.part(first * batch, slots * batch),
                live: at.live.part(first * batch, slots * batch),
                table: self.rows[0].table,
                stride: self.rows[0].stride,
                map: self.rows[0].map,
                mean: None,
                inverse: None,
                out: Rows { at: 0, batch, width: 0, stride: 0 },
                valid_list: at.valid_at,
                valid_count: at.valid_count,
                chunk: at.chunk,
                batch,
                mode,
                choose: true,
                features: input.features,
                window: input.window,
                padded: 0,
            },
        )
    }

    /// What a layer reads of the table, for all steps.
    fn sequence(&self, first: usize, slots: usize, mode: Mode, l: usize) -> Result<()> {
        let (Some(steps), Some(arrays)) = (&self.steps, &self.at.steps) else { return Ok(()) };
        let (batch, at, r, size) = (self.recipe.batch, &self.at, &self.layout.recurrents[l], self.size());
        let i = r.input;
        steps.kernels.sequence(
            &self.main,
            r.window,
            &SequenceArgs {
                states: self.states_of(first, slots),
                rows: at.rows.part(first * batch, slots * batch),
                live: at.live.part(first * batch, slots * batch),
                table: self.rows[i].table,
                stride: self.rows[i].stride,
                map: self.rows[i].map,
                mean: at.means[i],
                inverse: at.inverses[i],
                out: arrays.layers[l].rows(first, 0, batch, size),
                mode,
                batch,
                features: r.features,
                wide: r.wide,
            },
        )
    }
}

/// The numbers of activations in a precision.
fn numbers(recipe: &Recipe) -> Numbers {
    if recipe.precision == Precision::Bf16 { Numbers::Bf16 } else { Numbers::F32 }
}

impl Layer {
    fn gates_width(&self) -> usize {
        self.units * GATES
    }

    /// `[x_t, h_{t-1}]` from a slot on.
    fn rows(&self, first: usize, t: usize, batch: usize, size: u64) -> StridedRows {
        let stride = self.wide + self.units;
        let at = self.xh.address() + ((first * self.window + t) * batch * stride) as u64 * size;
        StridedRows { at, stride, member: self.window * batch * stride, width: self.wide }
    }

    fn gates_at(&self, first: usize, t: usize, batch: usize) -> u64 {
        self.gates.address() + 4 * ((first * self.window + t) * batch * self.gates_width()) as u64
    }

    fn dz_at(&self, first: usize, t: usize, batch: usize, size: u64) -> u64 {
        match &self.dz {
            Some(dz) => dz.address() + ((first * self.window + t) * batch * self.gates_width()) as u64 * size,
            None => self.gates_at(first, t, batch),
        }
    }

    fn cells_at(&self, first: usize, t: usize, batch: usize, size: u64) -> u64 {
        self.cells.address() + ((first * self.window + t) * batch * self.units) as u64 * size
    }

    fn dh_at(&self, first: usize, batch: usize) -> u64 {
        self.dh.address() + 4 * (first * batch * self.units) as u64
    }

    /// The gradient at every h, from the layer above.
    fn outer_at(&self, first: usize, t: usize, batch: usize, size: u64) -> StridedRows {
        let at = self.outer.address() + ((first * self.window + t) * batch * self.units) as u64 * size;
        StridedRows { at, stride: self.units, member: self.window * batch * self.units, width: self.units }
    }
}
