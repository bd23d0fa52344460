//! Norms and values left out, put on the main stream where a step has them.

use super::products::ProductKind;
use super::{Engine, Mode};
use crate::cuda::between::{Dropout, Norm};
use crate::cuda::calls::Rows;
use crate::error::Result;
use crate::net::{Activation, Layout, Place};

/// Whether nothing but activations stands before a place that someone reads.
pub(super) fn plain(layout: &Layout, place: &Place) -> bool {
    let mut linears = layout.linears.iter().filter(|l| l.output.buffer == place.buffer);
    let mut recurrents = layout.recurrents.iter().filter(|r| r.output.is_some_and(|p| p.buffer == place.buffer));
    linears.all(|l| l.plain()) && recurrents.all(|r| r.dropout == 0)
}

/// Whether a net has any of it.
pub(super) fn has_any(layout: &Layout) -> bool {
    layout.linears.iter().any(|l| !l.plain()) || layout.recurrents.iter().any(|r| r.dropout > 0)
}

/// The widest layer with a norm.
pub(super) fn widest(layout: &Layout) -> usize {
    layout.linears.iter().filter(|l| l.norm.is_some()).map(|l| l.output.width).max().unwrap_or(0)
}

impl Engine {
    /// What follows a layer's product and its activation, where something does.
    pub(super) fn apply_after_product(&self, i: usize, first: usize, slots: usize, mode: Mode) -> Result<()> {
        let linear = &self.layout.linears[i];
        let Some(between) = self.between.as_ref().filter(|_| !linear.plain()) else { return Ok(()) };
        let (states, left) = (self.states_of(first, slots), self.dropout(i, linear.dropout));
        let y = self.place(&linear.output, first);
        match self.norm(i, first) {
            Some(norm) => between.normalise(&self.main, &states, mode, left, &norm, y, linear.activation),
            None if mode == Mode::Step => between.leave_out(&self.main, &states, left, y),
            None => Ok(()),
        }
    }

    /// Leaves out some of the last h of recurrent layers, in a step.
    pub(super) fn after_recurrents(&self, first: usize, slots: usize, mode: Mode) -> Result<()> {
        let Some(between) = self.between.as_ref().filter(|_| mode == Mode::Step) else { return Ok(()) };
        for (r, recurrent) in self.layout.recurrents.iter().enumerate() {
            if let Some(place) = recurrent.output.as_ref().filter(|_| recurrent.dropout > 0) {
                let left = self.dropout(self.layout.linears.len() + r, recurrent.dropout);
                between.leave_out(&self.main, &self.states_of(first, slots), left, self.place(place, first))?;
            }
        }
        Ok(())
    }

    /// The gradient at a layer's product, from the complete one at its output: f32 in `wide`, or where it is to be.
    pub(super) fn undo_before_product(&self, i: usize, first: usize, slots: usize, wide: bool) -> Result<()> {
        let linear = &self.layout.linears[i];
        let Some(between) = &self.between else { return Ok(()) };
        let (states, left) = (self.states_of(first, slots), self.dropout(i, linear.dropout));
        let (y, way) = (self.place(&linear.output, first), self.way_back(&linear.output, first, wide));
        match (self.norm(i, first), linear.norm) {
            (Some(norm), Some(place)) => {
                let to = (&self.calls, &self.at.norm_sums, self.gradient(first, place.gain));
                between.denormalise(&self.main, &states, left, &norm, y, way, linear.activation, to)
            }
            _ => between.put_back(&self.main, &states, left, y, way, linear.activation),
        }
    }

    /// The same at the last h of a recurrent layer.
    pub(super) fn before_recurrent(&self, r: usize, first: usize, slots: usize, wide: bool) -> Result<()> {
        let recurrent = &self.layout.recurrents[r];
        let (Some(between), Some(place)) = (&self.between, &recurrent.output) else { return Ok(()) };
        let left = self.dropout(self.layout.linears.len() + r, recurrent.dropout);
        let (y, way) = (self.place(place, first), self.way_back(place, first, wide));
        between.put_back(&self.main, &self.states_of(first, slots), left, y, way, Activation::Identity)
    }

    fn dropout(&self, layer: usize, percent: u8) -> Dropout {
        let begin = self.at.added.as_ref().map(|added| added.begin);
        Dropout { seed: self.recipe.seed, layer, percent, begin }
    }

    /// A place among the values.
    fn place(&self, place: &Place, first: usize) -> Rows {
        let (batch, stride) = (self.recipe.batch, self.layout.buffers[place.buffer].stride);
        let at = self.at.values[place.buffer].address() + (first * batch * stride + place.column) as u64 * self.size();
        Rows { at, batch, width: place.width, stride }
    }

    /// Where the gradient at a place comes from, and where it goes.
    fn way_back(&self, place: &Place, first: usize, wide: bool) -> (u64, u64) {
        let stride = self.layout.buffers[place.buffer].stride;
        let offset = (first * self.recipe.batch * stride + place.column) as u64;
        let to = self.at.deltas[place.buffer].address() + offset * self.size();
        (if wide { self.wide(place.buffer) + 4 * offset } else { to }, to)
    }

    fn norm(&self, i: usize, first: usize) -> Option<Norm> {
        let (linear, at, params) = (&self.layout.linears[i], &self.at, self.layout.params);
        let norm = linear.norm?;
        let stride = self.layout.buffers[norm.normed.buffer].stride;
        let rows = first * self.recipe.batch;
        Some(Norm {
            outputs: linear.outputs,
            z: self.addresses(i, ProductKind::Forward, first, false).out,
            bias: self.weights(first, linear.bias),
            learned: at.params.address() + 4 * (first * params + norm.gain) as u64,
            params,
            normed: (at.values[norm.normed.buffer].address() + (rows * stride) as u64 * self.size(), stride),
            deviations: at.deviations[i].address() + 4 * rows as u64,
        })
    }
}
