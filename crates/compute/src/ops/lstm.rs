//! A recurrent layer (LSTM) through a window, and its gradients.
//!
//! Weights lie as [`Recurrent`](crate::net::Recurrent) says, `[wide + units + 1, units, 4]`, as the f32 master; what is rounded in bf16 is rounded
//! here. Sequences are `[window, rows, width]`, the oldest step first.

use super::Real;
use crate::net::GATES;
use crate::population::Precision;

/// How large a recurrent layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of the batch.
    pub rows: usize,
    /// Steps.
    pub window: usize,
    /// Inputs of a step.
    pub wide: usize,
    /// Units.
    pub units: usize,
}

impl Shape {
    /// Where the weights of a unit begin: of input `k`, of unit `k - wide` of the step before, or the bias.
    fn at(&self, k: usize, unit: usize) -> usize {
        (k * self.units + unit) * GATES
    }
}

/// What the way forward leaves for the way back.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved<R> {
    /// `[window, rows, wide]` what it read.
    pub x: Vec<R>,
    /// `[window, rows, units, 4]` i, f, g, o.
    pub gates: Vec<R>,
    /// `[window, rows, units]` the cells, in bf16 rounded.
    pub cells: Vec<R>,
    /// `[window, rows, units]` every h.
    pub h: Vec<R>,
}

impl<R: Real> Saved<R> {
    /// `[rows, units]` the last h.
    pub fn last(&self, shape: Shape) -> &[R] {
        &self.h[(shape.window - 1) * shape.rows * shape.units..]
    }
}

/// `z = Wx x + Wh h + b`, the gates, `c = f c + i g`, `h = o tanh(c)`, step by step.
pub fn forward<R: Real>(shape: Shape, x: &[R], w: &[R], precision: Precision) -> Saved<R> {
    let Shape { rows, window, wide, units } = shape;
    let size = window * rows * units;
    let zeros = |n: usize| vec![R::default(); n];
    let mut saved = Saved { x: x.to_vec(), gates: zeros(GATES * size), cells: zeros(size), h: zeros(size) };
    let mut carried = zeros(rows * units);
    for t in 0..window {
        for row in 0..rows {
            for unit in 0..units {
                // Of one unit of one row at one step, and of the same one step before.
                let here = (t * rows + row) * units + unit;
                let mut z = [R::default(); GATES];
                for k in 0..wide + units {
                    let value = if k < wide {
                        x[(t * rows + row) * wide + k]
                    } else if t > 0 {
                        saved.h[((t - 1) * rows + row) * units + k - wide]
                    } else {
                        R::default()
                    };
                    for (z, w) in z.iter_mut().zip(&w[shape.at(k, unit)..]) {
                        *z += w.held(precision) * value;
                    }
                }
                for (z, bias) in z.iter_mut().zip(&w[shape.at(wide + units, unit)..]) {
                    *z += *bias;
                }
                let [i, f, g, o] = [sigmoid(z[0]), sigmoid(z[1]), z[2].tanh(), sigmoid(z[3])];
                let c = &mut carried[row * units + unit];
                *c = f * *c + i * g;
                saved.h[here] = (o * c.tanh()).held(precision);
                saved.cells[here] = c.held(precision);
                saved.gates[here * GATES..][..GATES].copy_from_slice(&[i, f, g, o]);
            }
        }
    }
    saved
}

/// From the gradient at every h `[window, rows, units]` (rounded where it is held so) to that of the weights, `[wide + units + 1, units, 4]`, and
/// of the inputs, `[window, rows, wide]`.
pub fn backward<R: Real>(
    shape: Shape,
    w: &[R],
    saved: &Saved<R>,
    at_h: &[R],
    precision: Precision,
) -> (Vec<R>, Vec<R>) {
    let Shape { rows, window, wide, units } = shape;
    let one = R::of(1.0);
    let mut dw = vec![R::default(); shape.at(wide + units + 1, 0)];
    let mut dx = vec![R::default(); window * rows * wide];
    let (mut dh_carry, mut dc_carry) = (vec![R::default(); rows * units], vec![R::default(); rows * units]);
    for t in (0..window).rev() {
        for row in 0..rows {
            let mut dz = vec![R::default(); units * GATES]; // [units, 4]
            for unit in 0..units {
                let here = (t * rows + row) * units + unit;
                let carry = row * units + unit;
                let before = if t > 0 { saved.cells[here - rows * units] } else { R::default() };
                let [i, f, g, o] = [0, 1, 2, 3].map(|gate| saved.gates[here * GATES + gate]);
                let tc = saved.cells[here].tanh();
                let dh = at_h[here] + dh_carry[carry];
                let dc = dh * o * (one - tc * tc) + dc_carry[carry];
                let each = [
                    dc * g * i * (one - i),
                    dc * before * f * (one - f),
                    dc * i * (one - g * g),
                    dh * tc * o * (one - o),
                ];
                for (dz, each) in dz[unit * GATES..].iter_mut().zip(each) {
                    *dz = each.held(precision);
                }
                dc_carry[carry] = dc * f;
            }
            for k in 0..wide + units + 1 {
                let value = if k < wide {
                    saved.x[(t * rows + row) * wide + k]
                } else if k == wide + units {
                    one
                } else if t > 0 {
                    saved.h[((t - 1) * rows + row) * units + k - wide]
                } else {
                    R::default()
                };
                let mut back = R::default();
                for (n, &dz) in dz.iter().enumerate() {
                    dw[shape.at(k, 0) + n] += dz * value;
                    back += w[shape.at(k, 0) + n].held(precision) * dz;
                }
                if k < wide {
                    dx[(t * rows + row) * wide + k] = back.held(precision);
                } else if k < wide + units {
                    dh_carry[row * units + k - wide] = back;
                }
            }
        }
    }
    (dw, dx)
}

/// `1 / (1 + e^-x)`
pub fn sigmoid<R: Real>(x: R) -> R {
    R::of(1.0) / (R::of(1.0) + (R::default() - x).exp())
}

#[cfg(test)]
mod tests {
    use super::{Shape, backward, forward, sigmoid};
    use crate::population::Precision;

    #[test]
    fn one_step_by_hand() {
        // One unit, one input: z = w x + b for each gate, c = i g, h = o tanh(c).
        let shape = Shape { rows: 1, window: 1, wide: 1, units: 1 };
        let w = [0.5, 1.0, -1.0, 2.0, 9.0, 9.0, 9.0, 9.0, 0.1, 0.2, 0.3, 0.4];
        let saved = forward::<f64>(shape, &[2.0], &w, Precision::F32);
        let (i, g, o) = (sigmoid(1.1f64), (-1.7f64).tanh(), sigmoid(4.4f64));
        assert!((saved.cells[0] - i * g).abs() < 1e-15);
        assert!((saved.h[0] - o * (i * g).tanh()).abs() < 1e-15);
        // What was before the first step is 0, so its weights get no gradient.
        let (dw, dx) = backward(shape, &w, &saved, &[1.0], Precision::F32);
        assert_eq!(dw[4..8], [0.0; 4]);
        let dzo = (i * g).tanh() * o * (1.0 - o);
        assert!((dw[3] - 2.0 * dzo).abs() < 1e-15 && (dw[11] - dzo).abs() < 1e-15);
        assert!(dx[0] != 0.0);
    }

    #[test]
    fn nothing_is_fine() {
        let shape = Shape { rows: 0, window: 3, wide: 2, units: 4 };
        let w = vec![0.5f32; 7 * 16];
        let saved = forward(shape, &[], &w, Precision::Bf16);
        assert!(saved.h.is_empty() && saved.last(shape).is_empty());
        assert_eq!(backward(shape, &w, &saved, &[], Precision::Bf16), (vec![0.0; w.len()], vec![]));
    }
}
