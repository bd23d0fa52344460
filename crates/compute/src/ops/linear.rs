//! A layer: `y = activation(W x + bias)`, and its gradients.
//!
//! All matrices are row-major with a stride, so that a layer may read and write some columns of a wider buffer.

use super::Real;
use crate::net::Activation;
use crate::population::Precision;

/// How large a product is, and how far apart the rows of its matrices lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of the batch.
    pub rows: usize,
    /// Columns of `x` and of the weights.
    pub inputs: usize,
    /// Columns of `y`, rows of the weights.
    pub outputs: usize,
    /// From a row of `x` to the next.
    pub x_stride: usize,
    /// From a row of `y` to the next.
    pub y_stride: usize,
}

/// `y[row, o] = activation(Σ w[o, i] x[row, i] + bias[o])`, then as it is held: rounded in bf16 for hidden layers.
pub fn forward<R: Real>(
    shape: Shape,
    x: &[R],
    w: &[R],
    bias: &[R],
    activation: Activation,
    held: Precision,
    y: &mut [R],
) {
    for row in 0..shape.rows {
        for o in 0..shape.outputs {
            let mut sum = R::default();
            for i in 0..shape.inputs {
                sum += w[o * shape.inputs + i] * x[row * shape.x_stride + i];
            }
            y[row * shape.y_stride + o] = activate(sum + bias[o], activation).rounded_to(held);
        }
    }
}

/// What follows the product.
pub fn activate<R: Real>(x: R, activation: Activation) -> R {
    match activation {
        Activation::Identity => x,
        // Written so that NaN stays NaN and is seen.
        Activation::Relu => {
            if x < R::default() {
                R::default()
            } else {
                x
            }
        }
        Activation::Tanh => x.tanh(),
    }
}

/// The activation's derivative, from its output.
pub fn derivative<R: Real>(y: R, activation: Activation) -> R {
    match activation {
        Activation::Identity => R::from_f64(1.0),
        Activation::Relu => R::from_f64(if y > R::default() { 1.0 } else { 0.0 }),
        Activation::Tanh => R::from_f64(1.0) - y * y,
    }
}

/// `dW[o, i] += Σ dz[row, o] x[row, i]` and `dbias[o] += Σ dz[row, o]`, rows in order.
pub fn weights_back<R: Real>(shape: Shape, x: &[R], dz: &[R], dw: &mut [R], dbias: &mut [R]) {
    for row in 0..shape.rows {
        for o in 0..shape.outputs {
            let dz = dz[row * shape.y_stride + o];
            for i in 0..shape.inputs {
                dw[o * shape.inputs + i] += dz * x[row * shape.x_stride + i];
            }
            dbias[o] += dz;
        }
    }
}

/// `dx[row, i] += Σ dz[row, o] w[o, i]`: added, because several heads read the same trunk.
pub fn input_back<R: Real>(shape: Shape, dz: &[R], w: &[R], dx: &mut [R]) {
    for row in 0..shape.rows {
        for i in 0..shape.inputs {
            let mut sum = R::default();
            for o in 0..shape.outputs {
                sum += dz[row * shape.y_stride + o] * w[o * shape.inputs + i];
            }
            dx[row * shape.x_stride + i] += sum;
        }
    }
}
