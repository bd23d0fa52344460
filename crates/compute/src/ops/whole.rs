//! A whole net: forward through every layer, backward through every layer.
//!
//! Buffers lie as [`Layout`] says, `[rows, stride]` each. Padding takes part: it is zero, gets a zero gradient and stays zero.

use super::Real;
use super::linear::{self, Shape};
use crate::net::{Layout, Linear, Net, Place};
use crate::population::Precision;

/// Every buffer's activations `[buffers][rows, stride]`, from the gathered inputs `[inputs][rows, window × features]`.
pub fn forward<R: Real>(
    net: &Net,
    layout: &Layout,
    params: &[R],
    inputs: &[Vec<R>],
    rows: usize,
    precision: Precision,
) -> Vec<Vec<R>> {
    let mut buffers: Vec<Vec<R>> = layout.buffers.iter().map(|b| vec![R::default(); rows * b.stride]).collect();
    for ((input, place), values) in net.inputs.iter().zip(layout.gathered(net)).zip(inputs) {
        let width = input.window * input.features;
        let stride = layout.buffers[place.buffer].stride;
        for row in 0..rows {
            let to = row * stride + place.column;
            buffers[place.buffer][to..to + width].copy_from_slice(&values[row * width..(row + 1) * width]);
        }
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
    buffers
}

/// `[params]` the gradient, from that at the logits `[heads][rows, classes]` (already rounded where it is held so).
pub fn backward<R: Real>(
    layout: &Layout,
    params: &[R],
    buffers: &[Vec<R>],
    at_logits: &[Vec<R>],
    rows: usize,
    precision: Precision,
) -> Vec<R> {
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
    gradient
}

/// `[heads][rows, classes]` the logits, without padding.
pub fn logits<R: Real>(layout: &Layout, buffers: &[Vec<R>], rows: usize) -> Vec<Vec<R>> {
    let heads = layout.linears.iter().skip(layout.linears.len() - layout.heads);
    heads
        .map(|head| {
            let all = columns(layout, buffers, head.output, rows);
            all.chunks(head.output.width).flat_map(|row| row[..head.outputs].to_vec()).collect()
        })
        .collect()
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
