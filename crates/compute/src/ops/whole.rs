//! A whole net: forward through every layer, backward through every layer.
//!
//! Buffers lie as [`Layout`] says, `[rows, stride]` each. Padding takes part: it is zero, gets a zero gradient and stays zero.

use super::Real;
use super::linear::{self, Shape};
use super::lstm::{self, Saved};
use crate::net::{Layout, Linear, Net, Place, Recurrent};
use crate::population::Precision;

/// What the way forward leaves behind.
#[derive(Debug, Clone, PartialEq)]
pub struct Values<R> {
    /// `[buffers][rows, stride]` every buffer's activations.
    pub buffers: Vec<Vec<R>>,
    /// `[recurrents]` what each recurrent layer went through.
    pub recurrents: Vec<Saved<R>>,
}

/// Every activation, from the gathered inputs `[inputs][rows, window × features]`.
pub fn forward<R: Real>(
    net: &Net,
    layout: &Layout,
    params: &[R],
    inputs: &[Vec<R>],
    rows: usize,
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
    for recurrent in &layout.recurrents {
        let shape = walk(recurrent, rows);
        let x = match recurrent.below {
            Some(below) => recurrents[below].h.clone(),
            None => sequence(recurrent, &inputs[recurrent.input], rows),
        };
        let w = &params[recurrent.weight..recurrent.weight + recurrent.size()];
        let saved = lstm::forward(shape, &x, w, precision);
        if let Some(place) = recurrent.output {
            let last = saved.last(shape).chunks(recurrent.units).flat_map(|h| h[..place.width].to_vec());
            put(layout, &mut buffers, place, rows, &last.collect::<Vec<R>>());
        }
        recurrents.push(saved);
    }
    for (l, linear) in layout.linears.iter().enumerate() {
        let hidden = l + layout.heads < layout.linears.len();
        let (w, bias) = tensors(linear, params);
        let w: Vec<R> = w.iter().map(|w| w.held(precision)).collect();
        // Logits and their bias stay as they are.
        let held = if hidden { precision } else { Precision::F32 };
        let bias: Vec<R> = bias.iter().map(|b| b.held(held)).collect();
        let x = columns(layout, &buffers, linear.input, rows);
        let mut y = columns(layout, &buffers, linear.output, rows);
        linear::forward(shape(linear, rows), &x, &w, &bias, linear.activation, held, &mut y);
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
            for (dz, y) in dz.iter_mut().zip(y) {
                *dz = (*dz * linear::derivative(y, linear.activation)).held(precision);
            }
        }
        let x = columns(layout, buffers, linear.input, rows);
        let shape = shape(linear, rows);
        let mut dw = vec![R::default(); linear.input.width * linear.output.width];
        let mut dbias = vec![R::default(); linear.output.width];
        linear::weights_back(shape, &x, &dz, &mut dw, &mut dbias);
        gradient[linear.weight..linear.weight + dw.len()].copy_from_slice(&dw);
        gradient[linear.bias..linear.bias + dbias.len()].copy_from_slice(&dbias);
        if linear.passes_back {
            let w: Vec<R> = tensors(linear, params).0.iter().map(|w| w.held(precision)).collect();
            let mut dx = columns(layout, &back, linear.input, rows);
            linear::input_back(shape, &dz, &w, &mut dx);
            put(layout, &mut back, linear.input, rows, &dx);
        }
    }
    // `[window, rows, units]` what the layer above sends down.
    let mut from_above: Vec<R> = vec![];
    for (recurrent, saved) in layout.recurrents.iter().zip(&values.recurrents).rev() {
        let mut at_h = std::mem::take(&mut from_above);
        if let Some(place) = recurrent.output {
            at_h = vec![R::default(); recurrent.window * rows * recurrent.units];
            let last = (recurrent.window - 1) * rows * recurrent.units;
            let behind = columns(layout, &back, place, rows);
            for (to, from) in at_h[last..].chunks_mut(recurrent.units).zip(behind.chunks(place.width)) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from.held(precision));
            }
        }
        let size = recurrent.weight..recurrent.weight + recurrent.size();
        let (dw, dx) = lstm::backward(walk(recurrent, rows), &params[size.clone()], saved, &at_h, precision);
        gradient[size].copy_from_slice(&dw);
        from_above = dx;
    }
    gradient
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
