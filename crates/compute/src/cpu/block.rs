//! Some rows of one member: gathered, forward, backward. Everything here runs on one thread.

use super::buffers::Rows;
use super::data::Source;
use super::loops::{self, Columns};
use super::norm::{self, Left};
use super::plan::Plan;
use super::product::{self, LayerWeights, Matrix, MatrixMut};
use super::recurrent::{self, EVALUATED, Sequence};
use crate::net::{Linear, Place};
use crate::random::{Turn, share};

/// The bias of a layer whose norm has added it already.
static NOTHING: [f32; 4096] = [0.0; 4096];

/// A member's weights as a block reads them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights<'a> {
    /// `[params]` as they are held.
    pub(super) params: &'a [f32],
    /// Those of recurrent layers once more, as their kernels read them.
    pub(super) packed: &'a [f32],
    /// Those of linear layers once more, in strips, where few rows are evaluated at a time; empty elsewhere.
    pub(super) strips: &'a [f32],
}

impl<'a> Weights<'a> {
    fn layer(&self, plan: &Plan, layer: usize) -> LayerWeights<'a> {
        let linear = &plan.layout.linears[layer];
        match self.strips.get(linear.weight..linear.weight + linear.output.width * linear.input.width) {
            Some(strips) => LayerWeights::Strips(strips),
            None => LayerWeights::Rows(matrix_of(linear, self.params)),
        }
    }
}

/// Rows of a training step: what they leave out follows from the step and from their places in the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub(super) turn: Turn,
    /// The place of the first row.
    pub(super) first: u32,
    /// Whether [`backward`] follows.
    pub(super) keep: bool,
}

impl Pass {
    /// What the rows leave out of a layer, if anything.
    fn dropout(pass: Option<Pass>, layer: usize, percent: u8) -> Option<Left> {
        let pass = pass.filter(|_| percent > 0)?;
        Some(Left { dropout: pass.turn.of(layer, percent), first: pass.first, share: share(percent) })
    }
}

/// Gathers the samples' inputs and goes through every layer.
pub(super) fn forward(
    plan: &Plan,
    source: Source<'_>,
    weights: Weights<'_>,
    samples: &[u32],
    values: &mut Rows<'_>,
    sequences: &mut [Sequence],
    pass: Option<Pass>,
) {
    let (params, keep) = (weights.params, pass.is_some_and(|pass| pass.keep));
    for (i, place) in plan.gathered.iter().enumerate() {
        let Some(place) = place else { continue };
        let to = (values.write(plan, place.buffer), plan.stride(place.buffer), *place);
        source.gather(&plan.net, i, samples, to, plan.round);
    }
    let rows = values.len();
    let together = if keep { rows } else { EVALUATED };
    for (part, samples) in samples.chunks(together.max(1)).enumerate() {
        recurrent::forward(plan, source, weights.packed, samples, sequences, keep, |r, last| {
            let Some(place) = r.output else { return };
            let stride = plan.stride(place.buffer);
            let to = values.write(plan, place.buffer).chunks_exact_mut(stride).skip(part * together);
            for (to, h) in to.zip(last.chunks(r.wide + r.units)) {
                to[place.column..place.column + place.width].copy_from_slice(&h[..place.width]);
            }
        });
    }
    for (r, recurrent) in plan.layout.recurrents.iter().enumerate() {
        let left = Pass::dropout(pass, plan.layout.linears.len() + r, recurrent.dropout);
        if let (Some(place), Some(left)) = (recurrent.output, left) {
            left.forward(values.write(plan, place.buffer), plan.at(place), plan.round);
        }
    }
    for (l, linear) in plan.layout.linears.iter().enumerate() {
        let (x, y) = values.pair(plan, linear.input.buffer, linear.output.buffer);
        product::forward(
            rows,
            matrix(plan, x, linear.input),
            weights.layer(plan, l),
            matrix_mut(plan, y, linear.output),
            plan.round,
        );
        let mut bias = &params[linear.bias..linear.bias + linear.output.width];
        if let Some(norm) = linear.norm {
            let (y, normed) = values.two(plan, linear.output.buffer, norm.normed.buffer);
            let learned = &params[norm.gain..norm.gain + 2 * linear.output.width];
            norm::forward(y, plan.at(linear.output), normed, bias, learned, linear.outputs, plan.round);
            bias = &NOTHING[..linear.output.width];
        }
        let y = values.write(plan, linear.output.buffer);
        loops::finish(y, plan.at(linear.output), bias, linear.activation, plan.round && l < plan.first_head());
        if let Some(left) = Pass::dropout(pass, l, linear.dropout) {
            left.forward(y, plan.at(linear.output), plan.round);
        }
    }
}

/// From the gradient at the logits to that at every layer, and into the weights' gradient if there is one: added to it,
/// or in its place. Recurrent layers are only gone through where there is one.
pub(super) fn backward(
    plan: &Plan,
    weights: Weights<'_>,
    values: &Rows<'_>,
    back: &mut Rows<'_>,
    sequences: &mut [Sequence],
    pass: Pass,
    mut gradient: Option<(&mut [f32], bool)>,
) {
    let rows = values.len();
    if let Some(buffer) = plan.layout.zeroed {
        back.write(plan, buffer).fill(0.0);
    }
    for (l, linear) in plan.layout.linears.iter().enumerate().rev() {
        let head = l >= plan.first_head();
        if !head {
            let y = values.read(plan, linear.output.buffer);
            let dy = back.write(plan, linear.output.buffer);
            let (at, round) = (plan.at(linear.output), plan.round && linear.norm.is_none());
            match Pass::dropout(Some(pass), l, linear.dropout) {
                Some(left) => left.backward(dy, Some((y, linear.activation)), at, round),
                None => loops::derive(dy, y, at, linear.activation, round),
            }
        }
        if let Some(norm) = linear.norm {
            let (dn, kept) = back.two(plan, linear.output.buffer, norm.normed.buffer);
            let x = values.read(plan, norm.normed.buffer);
            let gain = &weights.params[norm.gain..norm.gain + linear.output.width];
            norm::backward(dn, plan.at(linear.output), kept, x, gain, linear.outputs, plan.round);
            if let Some((gradient, add)) = &mut gradient {
                let to = gradient[norm.gain..norm.gain + 2 * linear.output.width].split_at_mut(linear.output.width);
                let at = Columns { width: linear.output.width, ..plan.at(norm.normed) };
                norm::sums(kept, x, at, to, *add);
            }
        }
        if let Some((gradient, add)) = &mut gradient {
            let x = values.read(plan, linear.input.buffer);
            let dz = back.read(plan, linear.output.buffer);
            let dw = MatrixMut {
                values: &mut gradient[linear.weight..linear.weight + linear.input.width * linear.output.width],
                stride: linear.input.width,
                width: linear.input.width,
            };
            product::weights_back(
                rows,
                matrix(plan, dz, linear.output),
                matrix(plan, x, linear.input),
                dw,
                [*add, plan.round],
            );
            let dbias = &mut gradient[linear.bias..linear.bias + linear.output.width];
            loops::sum_rows(dz, plan.at(linear.output), dbias, *add);
        }
        if linear.passes_back {
            let (dz, dx) = back.pair(plan, linear.output.buffer, linear.input.buffer);
            let dx = matrix_mut(plan, dx, linear.input);
            product::input_back(
                rows,
                matrix(plan, dz, linear.output),
                matrix_of(linear, weights.params),
                dx,
                [linear.adds_back, plan.round],
            );
        }
    }
    if let Some((gradient, add)) = gradient {
        recurrent::backward(plan, weights.packed, rows, sequences, gradient, add, |r, dh| {
            let Some(place) = r.output else { return };
            let stride = plan.stride(place.buffer);
            let from = back.read(plan, place.buffer).chunks_exact(stride);
            for (dh, from) in dh.chunks_exact_mut(r.units).zip(from) {
                dh[..place.width].copy_from_slice(&from[place.column..place.column + place.width]);
            }
            let layer = plan.layout.linears.len() + plan.layout.recurrents.iter().position(|one| one == r).unwrap_or(0);
            if let Some(left) = Pass::dropout(Some(pass), layer, r.dropout) {
                left.backward(dh, None, Columns { stride: r.units, column: 0, width: place.width }, false);
            }
            if plan.round {
                loops::round(dh);
            }
        });
    }
}

fn matrix_of<'a>(linear: &Linear, params: &'a [f32]) -> Matrix<'a> {
    let width = linear.input.width;
    Matrix { values: &params[linear.weight..linear.weight + linear.output.width * width], stride: width, width }
}

/// A place as a matrix.
pub(super) fn matrix<'a>(plan: &Plan, buffer: &'a [f32], place: Place) -> Matrix<'a> {
    // An empty batch has no columns to begin at.
    let values = buffer.get(place.column..).unwrap_or_default();
    Matrix { values, stride: plan.stride(place.buffer), width: place.width }
}

fn matrix_mut<'a>(plan: &Plan, buffer: &'a mut [f32], place: Place) -> MatrixMut<'a> {
    let values = buffer.get_mut(place.column..).unwrap_or_default();
    MatrixMut { values, stride: plan.stride(place.buffer), width: place.width }
}
