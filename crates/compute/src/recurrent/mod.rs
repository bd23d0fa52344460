//! Recurrent layers (LSTM) as a call of their own: what recurrent policies and live inference walk through.
//!
//! A [`Stack`] is one to three layers for `P` members of `B` rows each, `T` steps a call. A step reads a row of the
//! table (`F` features, scaled for its member) and behind it `E` dense extras: position, last action. The state `h`,
//! `c` may come from an earlier call and go on to a later one, and is cleared before any step of any row; so `T = 1`
//! with a carried state gives the bits of a whole window. What comes out is every h of the top layer, the last one, or
//! both, and gradients come back at both.
//!
//! | array            | shape            |                                                                          |
//! |------------------|------------------|--------------------------------------------------------------------------|
//! | table            | `[rows, stride]` | f32; the first `F` columns are read                                      |
//! | at               | `[T, P, B]`      | u32, which row of the table each step reads                              |
//! | mean, inverse    | `[P, F]`         | f32, `(x - mean) × inverse`                                              |
//! | extras           | `[T, P, B, E]`   | f32, as they are                                                         |
//! | reset            | `[T, P, B]`      | u8, not 0 where h and c are cleared before the step                      |
//! | h, c of a state  | `[layers][P, B, U]` | f32, one layer behind the other; `U` is its hidden units padded to 16, padding 0; [`Stack::state_of`] |
//! | every, last      | `[T, P, B, H]`, `[P, B, H]` | f32, h of the top layer, and the gradients at it              |
//! | weights, gradient | `[P, stride]`   | f32, of which a row's first [`Stack::params`] are this stack's           |
//!
//! Steps come first, so that a rollout that writes step after step has made the window that training reads, and step
//! `t` alone is one piece of it. Weights lie in a member's row as [`Recurrent`] says, the table's features first among
//! the inputs, then the extras; [`init`](crate::net::init) and [`flatten`](crate::net::flatten) take [`Stack::layout`].
//!
//! Twins: [`Cpu`] here, [`Card`] on CUDA, whose calls may be captured in a graph; `ops/recurrent.rs` says plainly what
//! both do. Rounding is that of `population/backend.rs`: in bf16 the inputs, the weights, every h and the gradients at
//! h and at the gates' sums are rounded, the bias and the carried c are not. A stack's rows do not know each other, so
//! neither `P` nor `B` changes what comes out of a row.

pub(crate) mod check;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

pub use crate::cpu::Stack as Cpu;
pub use crate::cuda::Stack as Card;

use crate::cuda::Slice;
use crate::error::Result;
use crate::net::{Layout, Recurrent, UNITS};
use crate::population::{Precision, SlotState};
use std::ops::Range;

/// How large a stack is, and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// `P`, each with weights of its own.
    pub members: usize,
    /// `B`, of each member.
    pub rows: usize,
    /// `T`, of one call.
    pub window: usize,
    /// `F`, columns of the table that are read; none where extras are all there is.
    pub features: usize,
    /// `E`, dense inputs behind them.
    pub extras: usize,
    /// `[layers]` units of each layer, from below; 1 to 3 layers of 1 to 256.
    pub hidden: Vec<usize>,
    /// How numbers are held.
    pub precision: Precision,
    /// What [`Backward`] is to give.
    pub gradients: Gradients,
}

/// What the way back gives. What is not asked for takes no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gradients {
    /// There is no way back.
    None,
    /// Of the weights.
    Weights,
    /// Of the weights and of the state that the window began with. A card then goes step by step.
    State,
}

/// A shape that makes sense, and where everything of it lies.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    shape: Shape,
    layout: Layout,
}

impl Stack {
    /// Lays a shape out, or says what is wrong with it.
    pub fn new(shape: Shape) -> Result<Stack> {
        check::shape(&shape)?;
        let mut layout = Layout {
            buffers: vec![],
            recurrents: vec![],
            linears: vec![],
            inputs: 1,
            heads: 0,
            params: 0,
            zeroed: None,
        };
        let (mut below, mut features) = (None, shape.features + shape.extras);
        for (l, &hidden) in shape.hidden.iter().enumerate() {
            let recurrent = Recurrent {
                name: format!("lstm.{l}"),
                input: 0,
                below,
                window: shape.window,
                features,
                wide: features.next_multiple_of(UNITS),
                hidden,
                units: hidden.next_multiple_of(UNITS),
                weight: layout.params.next_multiple_of(ALIGN),
                output: None,
                dropout: 0,
            };
            layout.params = recurrent.weight + recurrent.size();
            (below, features) = (Some(l), hidden);
            layout.recurrents.push(recurrent);
        }
        layout.params = layout.params.next_multiple_of(ALIGN);
        Ok(Stack { shape, layout })
    }

    /// What it was made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where its weights lie in a member's row, for what works on layouts.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The layers, from below.
    pub fn layers(&self) -> &[Recurrent] {
        &self.layout.recurrents
    }

    /// Numbers of a member's row of weights that are this stack's, padding included; a multiple of 64.
    pub fn params(&self) -> usize {
        self.layout.params
    }

    /// Units of the top layer: the width of `every` and `last`.
    pub fn outputs(&self) -> usize {
        self.top().hidden
    }

    /// Numbers of the h, or the c, of a state.
    pub fn state(&self) -> usize {
        self.state_of(self.layers().len() - 1).end
    }

    /// Where one layer's `[P, B, U]` lies in them.
    pub fn state_of(&self, layer: usize) -> Range<usize> {
        let size = |r: &Recurrent| self.shape.members * self.shape.rows * r.units;
        let start = self.layers()[..layer].iter().map(size).sum();
        start..start + size(&self.layers()[layer])
    }

    pub(crate) fn top(&self) -> &Recurrent {
        &self.layers()[self.layers().len() - 1]
    }

    pub(crate) fn trains(&self) -> bool {
        self.shape.gradients != Gradients::None
    }
}

/// Weights of layers begin on this many elements, as those of nets do.
const ALIGN: usize = 64;

/// Where the arrays of a call are held.
pub trait Held {
    /// An array that is read.
    type Read<T: 'static>;
    /// An array that is written.
    type Write<T: 'static>;
    /// Elements of one that is read.
    fn reads<T: 'static>(array: &Self::Read<T>) -> usize;
    /// Elements of one that is written.
    fn writes<T: 'static>(array: &Self::Write<T>) -> usize;
}

/// On this computer.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Held for Host<'a> {
    type Read<T: 'static> = &'a [T];
    type Write<T: 'static> = &'a mut [T];
    fn reads<T: 'static>(array: &&'a [T]) -> usize {
        array.len()
    }
    fn writes<T: 'static>(array: &&'a mut [T]) -> usize {
        array.len()
    }
}

/// On a card. A slice does not keep its slab alive: that is up to whoever makes the call, until its work is done and no
/// graph has it any more.
#[derive(Debug, Clone, Copy)]
pub struct OnCard;

impl Held for OnCard {
    type Read<T: 'static> = Slice<T>;
    type Write<T: 'static> = Slice<T>;
    fn reads<T: 'static>(array: &Slice<T>) -> usize {
        array.len()
    }
    fn writes<T: 'static>(array: &Slice<T>) -> usize {
        array.len()
    }
}

/// h and c of all layers.
#[derive(Debug, Clone, Copy)]
pub struct Carried<A> {
    /// What the next step reads.
    pub h: A,
    /// The cells.
    pub c: A,
}

/// One call forward. Shapes are those of the table above.
pub struct Forward<M: Held> {
    /// The table; empty where there are no features.
    pub table: M::Read<f32>,
    /// Elements from one of its rows to the next.
    pub stride: usize,
    /// Which rows; empty where there are no features. One that the table does not have is an error here, and NaN on a
    /// card.
    pub at: M::Read<u32>,
    /// Mean and inverse of the features, or none to take them as they are.
    pub scale: Option<(M::Read<f32>, M::Read<f32>)>,
    /// The extras, where there are any.
    pub extras: Option<M::Read<f32>>,
    /// What the window begins with; none is zeros.
    pub begin: Option<Carried<M::Read<f32>>>,
    /// Where it begins anew.
    pub reset: Option<M::Read<u8>>,
    /// `[P]` who takes part: members that are active and not due. Nothing of the others is read or written. None is
    /// everybody.
    pub members: Option<M::Read<SlotState>>,
    /// Every h goes here.
    pub every: Option<M::Write<f32>>,
    /// The last h goes here.
    pub last: Option<M::Write<f32>>,
    /// What it ends with goes here. On a card this may be what it began with.
    pub end: Option<Carried<M::Write<f32>>>,
}

impl<M: Held> Forward<M> {
    /// Rows of a table alone: no scale, extras, state, resets or outputs yet.
    pub fn of(table: M::Read<f32>, stride: usize, at: M::Read<u32>) -> Forward<M> {
        Forward {
            table,
            stride,
            at,
            scale: None,
            extras: None,
            begin: None,
            reset: None,
            members: None,
            every: None,
            last: None,
            end: None,
        }
    }
}

/// One call back, after the [`Forward`] it belongs to; each forward has one back at most. Inputs, state and resets are
/// remembered from there.
pub struct Backward<M: Held> {
    /// The gradient at every h.
    pub every: Option<M::Read<f32>>,
    /// The gradient at the last h, which is added to that of `every` where both are given.
    pub last: Option<M::Read<f32>>,
    /// As in [`Forward::members`].
    pub members: Option<M::Read<SlotState>>,
    /// The gradient of the weights goes here.
    pub gradient: M::Write<f32>,
    /// Elements from one member's row of it to the next.
    pub stride: usize,
    /// Whether it is added to what is there.
    pub add: bool,
    /// The gradient of what the window began with, if [`Gradients::State`] was asked for.
    pub begin: Option<Carried<M::Write<f32>>>,
}
