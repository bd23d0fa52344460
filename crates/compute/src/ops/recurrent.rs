//! A stack of recurrent layers, one member of it: what a call of [`recurrent`](crate::recurrent) is.
//!
//! Inputs are gathered rows and extras side by side, `[T, B, wide]`, padded with zeros. Device twins:
//! `ops/recurrent.cu` with `ops/lstm.cu` or `ops/lstm_steps.cu`; on the CPU `cpu/recurrent/stack.rs`.

use super::Real;
use super::lstm::{self, Saved, Start};
use crate::bf16;
use crate::net::Recurrent;
use crate::recurrent::{Forward, Host, Shape, Stack};

/// `[T, B, wide]` what the lowest layer reads: rows of the table, scaled, then the extras; rounded where they are held
/// so.
pub fn inputs(stack: &Stack, call: &Forward<Host<'_>>, member: usize) -> Vec<f32> {
    let Shape { members, rows, window, features, extras, precision, .. } = *stack.shape();
    let wide = stack.layers()[0].wide;
    let mut x = Vec::with_capacity(window * rows * wide);
    for t in 0..window {
        for row in 0..rows {
            let place = (t * members + member) * rows + row;
            let mut one: Vec<f32> = match features {
                0 => vec![],
                _ => call.table[call.at[place] as usize * call.stride..][..features].to_vec(),
            };
            if let Some((mean, inverse)) = call.scale {
                let scale = mean[member * features..].iter().zip(&inverse[member * features..]);
                one.iter_mut().zip(scale).for_each(|(x, (mean, inverse))| *x = (*x - mean) * inverse);
            }
            one.extend(&call.extras.unwrap_or_default()[place * extras..][..extras]);
            one.iter_mut().for_each(|x| *x = bf16::held(*x, precision));
            one.resize(wide, 0.0);
            x.extend(one);
        }
    }
    x
}

/// What one member's windows begin with, and where they begin anew; nothing is zeros, and never.
#[derive(Debug, Clone, Default)]
pub struct Begin<R> {
    /// `[layers][B, units]`
    pub h: Vec<Vec<R>>,
    /// `[layers][B, units]`
    pub c: Vec<Vec<R>>,
    /// `[T, B]`
    pub reset: Vec<u8>,
}

impl<R: Real> Begin<R> {
    /// What a call says of one member.
    pub fn new(stack: &Stack, call: &Forward<Host<'_>>, member: usize) -> Begin<R> {
        let Shape { members, rows, window, .. } = *stack.shape();
        let state = |all: &[f32]| {
            let each = stack.layers().iter().enumerate().map(|(l, r)| {
                let own = &all[stack.state_of(l)][member * rows * r.units..][..rows * r.units];
                own.iter().map(|x| R::from_f64(f64::from(*x))).collect()
            });
            each.collect()
        };
        let reset = |all: &[u8]| {
            (0..window).flat_map(|t| all[(t * members + member) * rows..][..rows].to_vec()).collect::<Vec<u8>>()
        };
        Begin {
            h: call.begin.map_or_else(Vec::new, |b| state(b.h)),
            c: call.begin.map_or_else(Vec::new, |b| state(b.c)),
            reset: call.reset.map_or_else(Vec::new, reset),
        }
    }

    fn start(&self, l: usize) -> Start<'_, R> {
        Start {
            h: self.h.get(l).map_or(&[], Vec::as_slice),
            c: self.c.get(l).map_or(&[], Vec::as_slice),
            reset: &self.reset,
        }
    }
}

fn shape(stack: &Stack, r: &Recurrent) -> lstm::Shape {
    lstm::Shape { rows: stack.shape().rows, window: r.window, wide: r.wide, units: r.units }
}

fn weights<'a, R>(r: &Recurrent, w: &'a [R]) -> &'a [R] {
    &w[r.weight..r.weight + r.size()]
}

/// `[layers]` what each layer went through, from the inputs `[T, B, wide]` and a member's row of weights.
pub fn forward<R: Real>(stack: &Stack, w: &[R], x: &[R], begin: &Begin<R>) -> Vec<Saved<R>> {
    let mut all: Vec<Saved<R>> = vec![];
    for (l, r) in stack.layers().iter().enumerate() {
        let x = r.below.map_or(x, |below| &all[below].h).to_vec();
        all.push(lstm::forward_from(shape(stack, r), &x, weights(r, w), begin.start(l), stack.shape().precision));
    }
    all
}

/// What the way back gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Gradients<R> {
    /// `[params]` of a member's row of weights.
    pub w: Vec<R>,
    /// `[layers][B, units]` of what the window began with.
    pub h: Vec<Vec<R>>,
    /// `[layers][B, units]`
    pub c: Vec<Vec<R>>,
}

/// From the gradient at every h of the top layer, `[T, B, units]`, rounded where it is held so.
pub fn backward<R: Real>(stack: &Stack, w: &[R], all: &[Saved<R>], begin: &Begin<R>, at_h: &[R]) -> Gradients<R> {
    let layers = stack.layers();
    let none = vec![vec![]; layers.len()];
    let mut made = Gradients { w: vec![R::default(); stack.params()], h: none.clone(), c: none };
    let mut at_h = at_h.to_vec();
    for (l, r) in layers.iter().enumerate().rev() {
        let precision = stack.shape().precision;
        let back = lstm::backward_from(shape(stack, r), weights(r, w), &all[l], begin.start(l), &at_h, precision);
        made.w[r.weight..r.weight + r.size()].copy_from_slice(&back.w);
        (made.h[l], made.c[l], at_h) = (back.h, back.c, back.x);
    }
    made
}
