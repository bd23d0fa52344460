//! A recurrent layer (LSTM) through a window, and its gradients.
//!
//! Weights lie as [`Recurrent`](crate::net::Recurrent) says, `[wide + units + 1, units, 4]`, as the f32 master; what is
//! rounded in bf16 is rounded here. Sequences are `[window, rows, width]`, the oldest step first.

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
    /// `[rows, units]` the last cells, not rounded.
    pub end: Vec<R>,
}

impl<R: Real> Saved<R> {
    /// `[rows, units]` the last h.
    pub fn last(&self, shape: Shape) -> &[R] {
        &self.h[(shape.window - 1) * shape.rows * shape.units..]
    }
}

/// What a window begins with, and where it begins anew; nothing is zeros, and never.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start<'a, R> {
    /// `[rows, units]` h before the first step.
    pub h: &'a [R],
    /// `[rows, units]` c before the first step.
    pub c: &'a [R],
    /// `[window, rows]` not 0 where both are cleared before the step.
    pub reset: &'a [u8],
}

impl<R: Real> Start<'_, R> {
    /// Whether h and c are cleared before step `t` of a row.
    fn cleared(&self, shape: Shape, t: usize, row: usize) -> bool {
        self.reset.get(t * shape.rows + row).is_some_and(|reset| *reset != 0)
    }

    /// Of all h, or of all c: what step `t` finds of one unit.
    fn found(&self, shape: Shape, (t, row, unit): (usize, usize, usize), first: &[R], all: &[R]) -> R {
        let at = row * shape.units + unit;
        match t {
            _ if self.cleared(shape, t, row) => R::default(),
            0 => first.get(at).copied().unwrap_or_default(),
            _ => all[(t - 1) * shape.rows * shape.units + at],
        }
    }

    /// The h that step `t` reads, as it is held.
    fn h(&self, shape: Shape, at: (usize, usize, usize), all: &[R], precision: Precision) -> R {
        self.found(shape, at, self.h, all).rounded_to(precision)
    }
}

/// A window that begins with nothing.
pub fn forward<R: Real>(shape: Shape, x: &[R], w: &[R], precision: Precision) -> Saved<R> {
    forward_from(shape, x, w, Start { h: &[], c: &[], reset: &[] }, precision)
}

/// `z = Wx x + Wh h + b`, the gates, `c = f c + i g`, `h = o tanh(c)`, step by step.
pub fn forward_from<R: Real>(shape: Shape, x: &[R], w: &[R], start: Start<'_, R>, precision: Precision) -> Saved<R> {
    let Shape { rows, window, wide, units } = shape;
    let size = window * rows * units;
    let zeros = |n: usize| vec![R::default(); n];
    let mut saved = Saved {
        x: x.to_vec(),
        gates: zeros(GATES * size),
        cells: zeros(size),
        h: zeros(size),
        end: zeros(rows * units),
    };
    if !start.c.is_empty() {
        saved.end.copy_from_slice(start.c);
    }
    for t in 0..window {
        for row in 0..rows {
            for unit in 0..units {
                // Of one unit of one row at one step, and of the same one step before.
                let here = (t * rows + row) * units + unit;
                let mut z = [R::default(); GATES];
                for k in 0..wide + units {
                    let value = if k < wide {
                        x[(t * rows + row) * wide + k]
                    } else {
                        start.h(shape, (t, row, k - wide), &saved.h, precision)
                    };
                    for (z, w) in z.iter_mut().zip(&w[shape.at(k, unit)..]) {
                        *z += w.rounded_to(precision) * value;
                    }
                }
                for (z, bias) in z.iter_mut().zip(&w[shape.at(wide + units, unit)..]) {
                    *z += *bias;
                }
                let [i, f, g, o] = [sigmoid(z[0]), sigmoid(z[1]), z[2].tanh(), sigmoid(z[3])];
                let c = &mut saved.end[row * units + unit];
                let before = if start.cleared(shape, t, row) { R::default() } else { *c };
                *c = f * before + i * g;
                saved.h[here] = (o * c.tanh()).rounded_to(precision);
                saved.cells[here] = c.rounded_to(precision);
                saved.gates[here * GATES..][..GATES].copy_from_slice(&[i, f, g, o]);
            }
        }
    }
    saved
}

/// Of a window that began with nothing: the gradients of the weights and of the inputs.
pub fn backward<R: Real>(
    shape: Shape,
    w: &[R],
    saved: &Saved<R>,
    at_h: &[R],
    precision: Precision,
) -> (Vec<R>, Vec<R>) {
    let made = backward_from(shape, w, saved, Start { h: &[], c: &[], reset: &[] }, at_h, precision);
    (made.w, made.x)
}

/// What the way back gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Gradients<R> {
    /// `[wide + units + 1, units, 4]` of the weights.
    pub w: Vec<R>,
    /// `[window, rows, wide]` of the inputs, rounded where they are held so.
    pub x: Vec<R>,
    /// `[rows, units]` of h before the first step.
    pub h: Vec<R>,
    /// `[rows, units]` of c before the first step.
    pub c: Vec<R>,
}

/// From the gradient at every h `[window, rows, units]` (rounded where it is held so) to all others.
pub fn backward_from<R: Real>(
    shape: Shape,
    w: &[R],
    saved: &Saved<R>,
    start: Start<'_, R>,
    at_h: &[R],
    precision: Precision,
) -> Gradients<R> {
    let Shape { rows, window, wide, units } = shape;
    let one = R::from_f64(1.0);
    let mut dw = vec![R::default(); shape.at(wide + units + 1, 0)];
    let mut dx = vec![R::default(); window * rows * wide];
    let (mut dh_carry, mut dc_carry) = (vec![R::default(); rows * units], vec![R::default(); rows * units]);
    for t in (0..window).rev() {
        for row in 0..rows {
            let mut dz = vec![R::default(); units * GATES]; // [units, 4]
            for unit in 0..units {
                let here = (t * rows + row) * units + unit;
                let carry = row * units + unit;
                let before = start.found(shape, (t, row, unit), start.c, &saved.cells).rounded_to(precision);
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
                    *dz = each.rounded_to(precision);
                }
                dc_carry[carry] = if start.cleared(shape, t, row) { R::default() } else { dc * f };
            }
            for k in 0..wide + units + 1 {
                let value = if k < wide {
                    saved.x[(t * rows + row) * wide + k]
                } else if k == wide + units {
                    one
                } else {
                    start.h(shape, (t, row, k - wide), &saved.h, precision)
                };
                let mut back = R::default();
                for (n, &dz) in dz.iter().enumerate() {
                    dw[shape.at(k, 0) + n] += dz * value;
                    back += w[shape.at(k, 0) + n].rounded_to(precision) * dz;
                }
                if k < wide {
                    dx[(t * rows + row) * wide + k] = back.rounded_to(precision);
                } else if k < wide + units {
                    dh_carry[row * units + k - wide] = if start.cleared(shape, t, row) { R::default() } else { back };
                }
            }
        }
    }
    Gradients { w: dw, x: dx, h: dh_carry, c: dc_carry }
}

/// `1 / (1 + e^-x)`
pub fn sigmoid<R: Real>(x: R) -> R {
    R::from_f64(1.0) / (R::from_f64(1.0) + (R::default() - x).exp())
}

#[cfg(test)]
mod tests {
    use super::{Shape, backward, forward, sigmoid};
    use crate::population::Precision;

    #[test]
    fn one_lstm_step_equals_values_computed_by_hand() {
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
    fn an_lstm_over_no_rows_gives_nothing() {
        let shape = Shape { rows: 0, window: 3, wide: 2, units: 4 };
        let w = vec![0.5f32; 7 * 16];
        let saved = forward(shape, &[], &w, Precision::Bf16);
        assert!(saved.h.is_empty() && saved.last(shape).is_empty());
        assert_eq!(backward(shape, &w, &saved, &[], Precision::Bf16), (vec![0.0; w.len()], vec![]));
    }
}
