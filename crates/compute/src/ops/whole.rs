//! A whole net: forward through every layer, backward through every layer.
//!
//! Buffers lie as [`Layout`] says, `[rows, stride]` each. Padding takes part: it is zero, gets a zero gradient and
//! stays zero.

use super::linear::{self, Shape};
use super::lstm::{self, Saved};
use super::{Real, norm};
use crate::net::{Activation, Layout, Linear, Net, PAD, Place, Recurrent};
use crate::population::Precision;
use crate::random::Turn;

/// What the way forward leaves behind.
#[derive(Debug, Clone, PartialEq)]
pub struct Values<R> {
    /// `[buffers][rows, stride]` every buffer's activations.
    pub buffers: Vec<Vec<R>>,
    /// `[recurrents]` what each recurrent layer went through.
    pub recurrents: Vec<Saved<R>>,
}

/// Every activation, from the gathered inputs `[inputs][rows, window × features]`. In a training step some are left
/// out, as `turn` says.
pub fn forward<R: Real>(
    net: &Net,
    layout: &Layout,
    params: &[R],
    inputs: &[Vec<R>],
    rows: usize,
    turn: Option<Turn>,
    precision: Precision,
) -> Values<R> {
    let mut buffers: Vec<Vec<R>> = layout.buffers.iter().map(|b| vec![R::default(); rows * b.stride]).collect();
    for ((input, place), values) in net.inputs.iter().zip(layout.gathered(net)).zip(inputs) {
        let Some(place) = place else { continue };
        let width = input.window * input.features;
        let stride = layout.buffers[place.buffer].stride;
        for row in 0..rows {
            let to = row * stride + place.column;
            buffers[place.buffer][to..to + width].copy_from_slice(&values[row * width..(row + 1) * width]);
        }
    }
    let mut recurrents: Vec<Saved<R>> = vec![];
    for (r, recurrent) in layout.recurrents.iter().enumerate() {
        let shape = walk(recurrent, rows);
        let x = match recurrent.below {
            Some(below) => recurrents[below].h.clone(),
            None => sequence(recurrent, &inputs[recurrent.input], rows),
        };
        let w = &params[recurrent.weight..recurrent.weight + recurrent.size()];
        let saved = lstm::forward(shape, &x, w, precision);
        if let Some(place) = recurrent.output {
            let last = saved.last(shape).chunks(recurrent.units).flat_map(|h| h[..place.width].to_vec());
            let mut last: Vec<R> = last.collect();
            let factors = kept(layout.linears.len() + r, recurrent.dropout, turn, place.width, rows);
            leave_out(&mut last, &factors, precision);
            put(layout, &mut buffers, place, rows, &last);
        }
        recurrents.push(saved);
    }
    for (l, linear) in layout.linears.iter().enumerate() {
        let hidden = l + layout.heads < layout.linears.len();
        let (w, bias) = tensors(linear, params);
        let w: Vec<R> = w.iter().map(|w| w.rounded_to(precision)).collect();
        // Logits and their bias stay as they are.
        let held = if hidden { precision } else { Precision::F32 };
        let bias: Vec<R> = bias.iter().map(|b| b.rounded_to(held)).collect();
        let x = columns(layout, &buffers, linear.input, rows);
        let mut y = columns(layout, &buffers, linear.output, rows);
        if let Some(place) = linear.norm {
            linear::forward(shape(linear, rows), &x, &w, &bias, Activation::Identity, Precision::F32, &mut y);
            let mut normed = columns(layout, &buffers, whole(place.normed), rows);
            let (wide, n) = (linear.output.width, linear.outputs);
            let (gain, shift) = (&params[place.gain..][..n], &params[place.gain + wide..][..n]);
            for (y, to) in y.chunks_mut(wide).zip(normed.chunks_mut(wide + PAD)) {
                let (x, inverse, made) = norm::forward(&y[..n], gain, shift, precision);
                to[..n].copy_from_slice(&x);
                to[wide] = inverse;
                let each = y.iter_mut().zip(made);
                each.for_each(|(y, z)| *y = linear::activate(z, linear.activation).rounded_to(held));
            }
            put(layout, &mut buffers, whole(place.normed), rows, &normed);
        } else {
            linear::forward(shape(linear, rows), &x, &w, &bias, linear.activation, held, &mut y);
        }
        leave_out(&mut y, &kept(l, linear.dropout, turn, linear.output.width, rows), precision);
        put(layout, &mut buffers, linear.output, rows, &y);
    }
    Values { buffers, recurrents }
}

/// `[params]` the gradient, from that at the logits `[heads][rows, classes]` (already rounded where it is held so).
pub fn backward<R: Real>(
    layout: &Layout,
    params: &[R],
    values: &Values<R>,
    at_logits: &[Vec<R>],
    rows: usize,
    turn: Option<Turn>,
    precision: Precision,
) -> Vec<R> {
    let buffers = &values.buffers;
    let mut gradient = vec![R::default(); layout.params];
    let mut back: Vec<Vec<R>> = layout.buffers.iter().map(|b| vec![R::default(); rows * b.stride]).collect();
    let first_head = layout.linears.len() - layout.heads;
    for (l, linear) in layout.linears.iter().enumerate().rev() {
        let mut dz = columns(layout, &back, linear.output, rows);
        if l >= first_head {
            let given = &at_logits[l - first_head];
            for row in 0..rows {
                let to = row * linear.output.width;
                dz[to..to + linear.outputs].copy_from_slice(&given[row * linear.outputs..(row + 1) * linear.outputs]);
            }
        } else {
            // Everything that reads this layer has added its part by now.
            let y = columns(layout, buffers, linear.output, rows);
            let factors = kept(l, linear.dropout, turn, linear.output.width, rows);
            let share = R::from_f64((100.0 - f64::from(linear.dropout)) / 100.0);
            for (i, (dz, y)) in dz.iter_mut().zip(y).enumerate() {
                *dz = match factors.get(i) {
                    Some(factor) => *dz * *factor * linear::derivative(y * share, linear.activation),
                    None => *dz * linear::derivative(y, linear.activation),
                };
            }
            if let Some(place) = linear.norm {
                let (wide, n) = (linear.output.width, linear.outputs);
                let normed = columns(layout, buffers, whole(place.normed), rows);
                for (dn, x) in dz.chunks_mut(wide).zip(normed.chunks(wide + PAD)) {
                    for ((&dn, &x), at) in dn.iter().zip(x).take(n).zip(place.gain..) {
                        gradient[at] += dn * x;
                        gradient[at + wide] += dn;
                    }
                    let made = norm::backward(&dn[..n], &x[..n], x[wide], &params[place.gain..][..n]);
                    dn[..n].copy_from_slice(&made);
                }
            }
            dz.iter_mut().for_each(|dz| *dz = dz.rounded_to(precision));
        }
        let x = columns(layout, buffers, linear.input, rows);
        let shape = shape(linear, rows);
        let mut dw = vec![R::default(); linear.input.width * linear.output.width];
        let mut dbias = vec![R::default(); linear.output.width];
        linear::weights_back(shape, &x, &dz, &mut dw, &mut dbias);
        gradient[linear.weight..linear.weight + dw.len()].copy_from_slice(&dw);
        gradient[linear.bias..linear.bias + dbias.len()].copy_from_slice(&dbias);
        if linear.passes_back {
            let w: Vec<R> = tensors(linear, params).0.iter().map(|w| w.rounded_to(precision)).collect();
            let mut dx = columns(layout, &back, linear.input, rows);
            linear::input_back(shape, &dz, &w, &mut dx);
            put(layout, &mut back, linear.input, rows, &dx);
        }
    }
    // `[window, rows, units]` what the layer above sends down.
    let mut from_above: Vec<R> = vec![];
    for (r, (recurrent, saved)) in layout.recurrents.iter().zip(&values.recurrents).enumerate().rev() {
        let mut at_h = std::mem::take(&mut from_above);
        if let Some(place) = recurrent.output {
            at_h = vec![R::default(); recurrent.window * rows * recurrent.units];
            let last = (recurrent.window - 1) * rows * recurrent.units;
            let mut behind = columns(layout, &back, place, rows);
            let factors = kept(layout.linears.len() + r, recurrent.dropout, turn, place.width, rows);
            behind.iter_mut().zip(&factors).for_each(|(d, factor)| *d = *d * *factor);
            for (to, from) in at_h[last..].chunks_mut(recurrent.units).zip(behind.chunks(place.width)) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from.rounded_to(precision));
            }
        }
        let size = recurrent.weight..recurrent.weight + recurrent.size();
        let (dw, dx) = lstm::backward(walk(recurrent, rows), &params[size.clone()], saved, &at_h, precision);
        gradient[size].copy_from_slice(&dw);
        from_above = dx;
    }
    gradient
}

/// `[rows, width]` what each output of a layer is multiplied with; empty where nothing is left out.
fn kept<R: Real>(layer: usize, percent: u8, turn: Option<Turn>, width: usize, rows: usize) -> Vec<R> {
    let Some(turn) = turn.filter(|_| percent > 0) else { return vec![] };
    let dropout = turn.of(layer, percent);
    // In f64 the factor is exact, so that differences can be taken.
    let factor = |f: f32| R::from_f64(if f > 0.0 { 100.0 / (100.0 - f64::from(percent)) } else { 0.0 });
    (0..rows as u32).flat_map(|row| dropout.row(row).take(width).map(factor)).collect()
}

fn leave_out<R: Real>(y: &mut [R], factors: &[R], precision: Precision) {
    y.iter_mut().zip(factors).for_each(|(y, factor)| *y = (*y * *factor).rounded_to(precision));
}

/// The place of a norm with the column behind the normalised values.
fn whole(normed: Place) -> Place {
    Place { width: normed.width + PAD, ..normed }
}

/// `[heads][rows, classes]` the logits, without padding.
pub fn logits<R: Real>(layout: &Layout, values: &Values<R>, rows: usize) -> Vec<Vec<R>> {
    let heads = layout.linears.iter().skip(layout.linears.len() - layout.heads);
    heads
        .map(|head| {
            let all = columns(layout, &values.buffers, head.output, rows);
            all.chunks(head.output.width).flat_map(|row| row[..head.outputs].to_vec()).collect()
        })
        .collect()
}

fn walk(recurrent: &Recurrent, rows: usize) -> lstm::Shape {
    let &Recurrent { window, wide, units, .. } = recurrent;
    lstm::Shape { rows, window, wide, units }
}

/// `[window, rows, wide]` with padding, from `[rows, window × features]`.
fn sequence<R: Real>(recurrent: &Recurrent, input: &[R], rows: usize) -> Vec<R> {
    let &Recurrent { window, features, wide, .. } = recurrent;
    let mut x = vec![R::default(); window * rows * wide];
    for (t, row) in (0..window).flat_map(|t| (0..rows).map(move |row| (t, row))) {
        let from = (row * window + t) * features;
        x[(t * rows + row) * wide..][..features].copy_from_slice(&input[from..from + features]);
    }
    x
}

fn shape(linear: &Linear, rows: usize) -> Shape {
    let (inputs, outputs) = (linear.input.width, linear.output.width);
    Shape { rows, inputs, outputs, x_stride: inputs, y_stride: outputs }
}

/// Weights `[outputs, inputs]` and bias `[outputs]`, padded.
fn tensors<'a, R>(linear: &Linear, params: &'a [R]) -> (&'a [R], &'a [R]) {
    let size = linear.input.width * linear.output.width;
    (&params[linear.weight..linear.weight + size], &params[linear.bias..linear.bias + linear.output.width])
}

/// `[rows, width]` a copy of a place.
fn columns<R: Real>(layout: &Layout, buffers: &[Vec<R>], place: Place, rows: usize) -> Vec<R> {
    let stride = layout.buffers[place.buffer].stride;
    let from = |row: usize| row * stride + place.column;
    (0..rows).flat_map(|row| buffers[place.buffer][from(row)..from(row) + place.width].to_vec()).collect()
}

fn put<R: Real>(layout: &Layout, buffers: &mut [Vec<R>], place: Place, rows: usize, values: &[R]) {
    let stride = layout.buffers[place.buffer].stride;
    for row in 0..rows {
        let to = row * stride + place.column;
        buffers[place.buffer][to..to + place.width]
            .copy_from_slice(&values[row * place.width..(row + 1) * place.width]);
    }
}
