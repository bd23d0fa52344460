//! The CUDA twin of [`recurrent`](crate::recurrent): a stack of recurrent layers as a call of its own.
//!
//! Where the kernels over whole windows fit, they do the work (`fused/stack.rs`), otherwise it goes step by step
//! (`steps/stack.rs`). Neither knows extras, every h or the caller's order of arrays: the kernels of `ops/recurrent.cu`
//! bring inputs as a layer below would have left them and gradients as a layer above would have, and show the h that is
//! kept anyway.

pub(super) mod launch;
mod sequence;

pub use sequence::{Segment, SequencePass, SequencesOnCard};

use super::fused::{self, stack::Whole};
use super::setup::Cutter;
use super::steps::{self, stack::Walk};
use crate::cuda::array::Memory;
use crate::cuda::calls::Calls;
use crate::cuda::context::{Context, lock_driver};
use crate::cuda::graph::Stream;
use crate::cuda::memory::{Slab, Slice};
use crate::device::Budget;
use crate::error::{Error, Result};
use crate::population::{Precision, Recipe, SlotState};
use crate::recurrent::{self, Backward, Carried, Forward, Gradients, OnCard, Shape, check};
use launch::Kernels;
use std::sync::Arc;

/// Recurrent layers on a card. Every call is put on the stream it is given and may be captured there; a graph holds
/// addresses of this stack and of the arrays of the call. Whoever drops it has waited for its work.
pub struct Stack {
    path: LayerPath,
    calls: Calls,
    kernels: Kernels,
    at: Arrays,
    stack: recurrent::Stack,
    taken: bool,
    /// What the last way forward was given; nothing after a way back.
    walked: Option<Given>,
    slab: Slab,
}

/// What all ways need.
pub(super) struct Arrays {
    awake: Slice<SlotState>,               // [P] everybody takes part
    asleep: Slice<SlotState>,              // [P] nobody does
    pub(super) master: Slice<f32>,         // [P, params]
    pub(super) shadow: Option<Slice<u16>>, // [P, params] bf16
    pub(super) gradient: Slice<f32>,       // [P, params]; nothing without a way back
    reset: Slice<u8>,                      // [P, T, B]
}

/// Which way the layers go.
enum LayerPath {
    Whole(Box<Whole>),
    Steps(Box<Walk>),
}

/// What a way back must know of the way forward.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) begin: bool,
    pub(super) reset: bool,
}

/// What both ways are handed.
pub(super) struct Work<'a> {
    pub(super) stream: &'a Stream,
    pub(super) stack: &'a recurrent::Stack,
    pub(super) kernels: &'a Kernels,
    pub(super) calls: &'a Calls,
    pub(super) at: &'a Arrays,
    pub(super) states: Slice<SlotState>,
    pub(super) given: Given,
}

impl Work<'_> {
    /// Resets of a step and those behind it, `[P, T, B]`, if there are any.
    pub(super) fn reset(&self, t: usize) -> Option<steps::ResetMask> {
        let Shape { rows, window, .. } = *self.stack.shape();
        let at = self.at.reset.address() + (t * rows) as u64;
        self.given.reset.then_some(steps::ResetMask { at, member: window * rows })
    }
}

/// The recipe that layers of a population with this batch would have.
fn recipe(shape: &Shape) -> Recipe {
    Recipe::new(shape.rows, shape.precision, 0)
}

/// Rows of a block where whole windows fit.
fn tiles(stack: &recurrent::Stack, shared: u32) -> Option<usize> {
    let whole = stack.shape().gradients != Gradients::State;
    fused::tiles(stack.layout(), &recipe(stack.shape()), shared).filter(|_| whole)
}

/// Cuts everything, or counts it.
fn arrays(cut: &mut Cutter<'_>, stack: &recurrent::Stack, shared: u32) -> Result<(Arrays, Parts)> {
    let Shape { members, rows, window, precision, .. } = *stack.shape();
    let params = members * stack.params();
    let at = Arrays {
        awake: cut.cut(members)?,
        asleep: cut.cut(members)?,
        master: cut.cut(params)?,
        shadow: (precision == Precision::Bf16).then(|| cut.cut(params)).transpose()?,
        gradient: cut.cut(if stack.trains() { params } else { 0 })?,
        reset: cut.cut(members * window * rows)?,
    };
    let parts = match tiles(stack, shared) {
        Some(tiles) => Parts::Whole(fused::stack::arrays(cut, stack, tiles)?),
        None => Parts::Steps(steps::stack::arrays(cut, stack, &recipe(stack.shape()))?),
    };
    Ok((at, parts))
}

/// The arrays of a way.
enum Parts {
    Whole(fused::stack::Arrays),
    Steps(steps::stack::Arrays),
}

/// Whether a card can do it at all.
fn possible(stack: &recurrent::Stack) -> Result<()> {
    let Shape { members, rows, window, .. } = *stack.shape();
    // Slots lie in the last dimension of a grid, and a step's numbers are counted in 32 bits.
    let widest = stack.layers().iter().map(|r| r.wide.max(4 * r.units)).max().unwrap_or(0);
    if members > 4095 || rows > 1 << 22 || rows * widest >= 1 << 31 || window * rows.div_ceil(16) >= 1 << 27 {
        return Err(Error::Invalid(format!(
            "{members} members of {rows} rows and {window} steps on a card; at most 4,095 members and 4,194,304 rows of {} numbers are possible",
            (1usize << 31) / widest.max(1)
        )));
    }
    Ok(())
}

impl Stack {
    /// Bytes of a card's memory that a stack takes.
    pub fn need(context: &Context, stack: &recurrent::Stack) -> Result<u64> {
        let mut count = Cutter::Count(0);
        arrays(&mut count, stack, context.gpu().shared)?;
        Ok(match count {
            Cutter::Count(bytes) => bytes,
            Cutter::Cut(_) => 0,
        })
    }

    /// Takes its memory, if that is within the budget, and loads its kernels. There is something to compute with once
    /// [`take`](Stack::take) has been given weights.
    pub fn new(context: &Arc<Context>, budget: Budget, stack: &recurrent::Stack) -> Result<Stack> {
        possible(stack)?;
        let (shape, shared) = (stack.shape(), context.gpu().shared);
        let recipe = recipe(shape);
        if tiles(stack, shared).is_none() {
            steps::check(stack.layout(), &recipe)?;
        }
        let (needed, budget) = (Stack::need(context, stack)?, budget.bytes(context.memory()?.0));
        if needed > budget {
            let Shape { members, rows, window, .. } = *shape;
            return Err(Error::Memory {
                what: format!("a recurrent stack of {members} members × {rows} rows × {window} steps"),
                device: context.device().into(),
                needed,
                budget,
                fits: "fewer rows, members or steps at once need less".into(),
            });
        }
        let _lock = lock_driver();
        let stream = Stream::new(context)?;
        let bf16 = shape.precision == Precision::Bf16;
        let mut slab = context.slab(needed)?;
        let (at, parts) = arrays(&mut Cutter::Cut(&mut slab), stack, shared)?;
        stream.put(&at.awake, &vec![SlotState { active: 1, ..SlotState::default() }; shape.members])?;
        stream.fill(&at.asleep, 0)?;
        stream.fill(&at.master, 0)?;
        stream.fill(&at.gradient, 0)?;
        if let Some(shadow) = &at.shadow {
            stream.fill(shadow, 0)?;
        }
        let path = match parts {
            Parts::Whole(arrays) => LayerPath::Whole(Box::new(Whole::new(context, &stream, stack, arrays)?)),
            Parts::Steps(arrays) => LayerPath::Steps(Box::new(Walk::new(context, &stream, stack, recipe, arrays)?)),
        };
        let (calls, kernels) = (Calls::load(context, bf16)?, Kernels::load(context, bf16)?);
        let mut made = Stack { path, calls, kernels, at, stack: stack.clone(), taken: true, walked: None, slab };
        made.warm_up(&stream)?;
        made.taken = false;
        stream.wait()?;
        Ok(made)
    }

    /// The memory that its work reaches beside the arrays of a call.
    pub(in crate::cuda) fn memory(&self) -> &Arc<Memory> {
        self.slab.memory()
    }

    /// How the layers are done, for people.
    pub fn kernel_paths(&self) -> Vec<String> {
        match &self.path {
            LayerPath::Whole(whole) => whole.describe(self.stack.layout()),
            LayerPath::Steps(walk) => walk.describe(),
        }
    }

    /// Everything once with nobody taking part, so that every kernel and plan is loaded before somebody captures it.
    fn warm_up(&mut self, stream: &Stream) -> Result<()> {
        let Shape { members, rows, window, features, extras, gradients, .. } = *self.stack.shape();
        let (all, wide, state) = (window * members * rows, self.stack.outputs(), self.stack.state());
        let carried = || Carried { h: Slice::none(state), c: Slice::none(state) };
        let asleep = Some(self.at.asleep);
        self.kernels.take(
            stream,
            &self.at.asleep,
            self.stack.params(),
            (&Slice::none(0), 0),
            &self.at.master,
            self.at.shadow.as_ref(),
        )?;
        self.forward(
            stream,
            &Forward {
                extras: Some(Slice::none(all * extras)),
                begin: Some(carried()),
                reset: Some(Slice::none(all)),
                members: asleep,
                every: Some(Slice::none(all * wide)),
                last: Some(Slice::none(members * rows * wide)),
                end: Some(carried()),
                ..Forward::of(
                    Slice::none(features.max(1)),
                    features.max(1),
                    Slice::none(if features > 0 { all } else { 0 }),
                )
            },
        )?;
        if gradients == Gradients::None {
            return Ok(());
        }
        let given = self.walked;
        for every in [true, false] {
            self.walked = given;
            self.backward(
                stream,
                &Backward {
                    every: every.then(|| Slice::none(all * wide)),
                    last: Some(Slice::none(members * rows * wide)),
                    members: asleep,
                    gradient: Slice::none(members * self.stack.params()),
                    stride: self.stack.params(),
                    add: false,
                    begin: (gradients == Gradients::State).then(carried),
                },
            )?;
        }
        Ok(())
    }

    /// Reads everybody's weights, `[P, stride]`; to be called after every change of theirs.
    pub fn take(&mut self, stream: &Stream, weights: &Slice<f32>, stride: usize) -> Result<()> {
        check::rows(&self.stack, "weights", weights.len(), stride)?;
        let shadow = self.at.shadow.as_ref();
        let from = (weights, stride);
        self.kernels.take(stream, &self.at.awake, self.stack.params(), from, &self.at.master, shadow)?;
        self.taken = true;
        Ok(())
    }

    /// All steps of all layers.
    pub fn forward(&mut self, stream: &Stream, call: &Forward<OnCard>) -> Result<()> {
        check::forward(&self.stack, call)?;
        if !self.taken {
            return Err(Error::Invalid("a forward pass without weights; call `take` first".into()));
        }
        let given = Given { begin: call.begin.is_some(), reset: call.reset.is_some() };
        let work = self.work(stream, call.members, given);
        if let Some(reset) = &call.reset {
            let Shape { window, rows, .. } = *self.stack.shape();
            self.kernels.resets(stream, &work.states, (window, rows), reset, &self.at.reset)?;
        }
        match &self.path {
            LayerPath::Whole(whole) => whole.forward(&work, call)?,
            LayerPath::Steps(walk) => walk.forward(&work, call)?,
        }
        self.walked = self.stack.trains().then_some(given);
        Ok(())
    }

    /// All steps of all layers back.
    pub fn backward(&mut self, stream: &Stream, call: &Backward<OnCard>) -> Result<()> {
        check::backward(&self.stack, call, self.walked.is_some())?;
        let Some(given) = self.walked.take() else { return Ok(()) };
        let work = self.work(stream, call.members, given);
        match &self.path {
            LayerPath::Whole(whole) => whole.backward(&work, call)?,
            LayerPath::Steps(walk) => walk.backward(&work, call)?,
        }
        let (own, params) = (&self.at.gradient, self.stack.params());
        self.kernels.rows(stream, &work.states, params, (own, params), (&call.gradient, call.stride), call.add)
    }

    fn work<'a>(&'a self, stream: &'a Stream, members: Option<Slice<SlotState>>, given: Given) -> Work<'a> {
        Work {
            stream,
            stack: &self.stack,
            kernels: &self.kernels,
            calls: &self.calls,
            at: &self.at,
            states: members.unwrap_or(self.at.awake),
            given,
        }
    }
}
