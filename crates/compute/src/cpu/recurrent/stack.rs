//! The CPU twin of [`recurrent`](crate::recurrent): a stack of recurrent layers as a call of its own.
//!
//! Rows are cut into fixed slices, and a slice goes through all steps of all layers on one thread, with the kernels of
//! a population's recurrent layers. What a slice is does not depend on the number of threads, and slices are added in
//! order, so neither do the bits.

#![expect(unsafe_code, reason = "rows of one array, written by the threads that own them")]

use super::{EVALUATED, Sequence, Step, pack, sizes, slot};
use crate::bf16;
use crate::cpu::loops;
use crate::cpu::memory::{Floats, Split};
use crate::error::{Error, Result};
use crate::net::Recurrent;
use crate::population::{Precision, SlotState};
use crate::recurrent::{self, Backward, Carried, Forward, Gradients, Host, Shape, check};
use rayon::prelude::*;
use std::ops::Range;

/// Recurrent layers on this computer's processor.
#[derive(Debug)]
pub struct Stack {
    stack: recurrent::Stack,
    pool: Option<rayon::ThreadPool>, // none of one thread: everything is done on the caller's
    packed: Vec<Vec<Floats>>,        // [P][layers] as `pack` lays them out
    slices: Vec<Slice>,              // [P × slices of a member]
    taken: bool,                     // there are weights
    walked: bool,                    // there is a way forward to go back on
}

/// Some rows of a member, and what their layers go through.
#[derive(Debug)]
struct Slice {
    member: usize,
    rows: Range<usize>,
    layers: Vec<Sequence>,
    began: Vec<Floats>, // [layers][n, units] c before the first step, for the backward pass; empty without one
    before: Floats,     // [n, widest] the same before a step where some rows begin anew
    reset: Vec<u8>,     // [T, n], or nothing
}

/// What threads write, each its own rows.
struct Outputs<'a> {
    every: Option<Split<'a, f32>>,
    last: Option<Split<'a, f32>>,
    end: Option<Carried<Split<'a, f32>>>,
}

/// Who takes part.
fn active(members: Option<&[SlotState]>, member: usize) -> bool {
    members.is_none_or(|states| states[member].active != 0 && states[member].due == 0)
}

/// Bytes that a stack takes.
fn need(stack: &recurrent::Stack) -> u64 {
    let Shape { members, rows, .. } = *stack.shape();
    let n = if stack.trains() { rows.min(EVALUATED) } else { 0 };
    let slice = |r: &Recurrent| sizes(r, n).iter().sum::<usize>() + 2 * n * r.units;
    let weights = |r: &Recurrent| pack::sizes(r).0 + pack::sizes(r).1;
    let each = |r: &Recurrent| rows.div_ceil(EVALUATED) * slice(r) + weights(r);
    4 * (members * stack.layers().iter().map(each).sum::<usize>()) as u64
}

impl Stack {
    /// Takes its memory. There is something to compute with once [`take`](Stack::take) has been given weights.
    pub fn new(stack: &recurrent::Stack, threads: usize) -> Result<Stack> {
        let Shape { members, rows, .. } = *stack.shape();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("stack-{i}"));
        let pool = (threads > 1).then(|| pool.build()).transpose().map_err(|e| Error::Device {
            what: format!("{threads} threads cannot be started: {e}"),
            remedy: "ask for fewer threads".into(),
        })?;
        let (needed, free) = (need(stack), crate::os::available_memory());
        if needed > free {
            return Err(Error::Memory {
                what: format!("a recurrent stack of {members} members × {rows} rows × {} steps", stack.shape().window),
                device: "cpu".into(),
                needed,
                budget: free,
                fits: "fewer rows, members or steps at once need less".into(),
            });
        }
        let layers = stack.layers();
        let slice = |member: usize, start: usize| {
            let range = start..rows.min(start + EVALUATED);
            let n = if stack.trains() { range.len() } else { 0 };
            Ok(Slice {
                member,
                layers: layers.iter().map(|r| Sequence::new(sizes(r, n))).collect::<Result<_>>()?,
                began: layers.iter().map(|r| Floats::new(n * r.units)).collect::<Result<_>>()?,
                before: Floats::new(n * layers.iter().map(|r| r.units).max().unwrap_or(0))?,
                reset: vec![],
                rows: range,
            })
        };
        let starts = (0..members).flat_map(|m| (0..rows).step_by(EVALUATED).map(move |start| (m, start)));
        let weights = |r: &Recurrent| Floats::new(pack::sizes(r).0 + pack::sizes(r).1);
        Ok(Stack {
            packed: (0..members).map(|_| layers.iter().map(weights).collect()).collect::<Result<_>>()?,
            slices: starts.map(|(member, start)| slice(member, start)).collect::<Result<_>>()?,
            stack: stack.clone(),
            pool,
            taken: false,
            walked: false,
        })
    }

    /// Reads everybody's weights, `[P, stride]`; to be called after every change of theirs.
    pub fn take(&mut self, weights: &[f32], stride: usize) -> Result<()> {
        check::rows(&self.stack, "weights", weights.len(), stride)?;
        let (stack, round) = (&self.stack, self.stack.shape().precision == Precision::Bf16);
        let one = |(member, packed): (usize, &mut Vec<Floats>)| {
            for (r, packed) in stack.layers().iter().zip(packed) {
                let w = &weights[member * stride + r.weight..][..r.size()];
                if !round {
                    pack::one(r, w, packed);
                    continue;
                }
                // The bias stays as it is.
                let mut held = w.to_vec();
                loops::round(&mut held[..r.bias() - r.weight]);
                pack::one(r, &held, packed);
            }
        };
        match &self.pool {
            Some(pool) => pool.install(|| self.packed.par_iter_mut().enumerate().for_each(one)),
            None => self.packed.iter_mut().enumerate().for_each(one),
        }
        self.taken = true;
        Ok(())
    }

    /// All steps of all layers.
    pub fn forward(&mut self, call: Forward<Host<'_>>) -> Result<()> {
        check::forward(&self.stack, &call)?;
        if !self.taken {
            return Err(Error::Invalid("a forward pass without weights; call `take` first".into()));
        }
        let Shape { features, .. } = *self.stack.shape();
        if features > 0 {
            let rows = (call.table.len() - features) / call.stride + 1;
            if let Some(row) = call.at.iter().find(|row| **row as usize >= rows) {
                return Err(Error::Invalid(format!("a step reads row {row}, and the table has {rows}")));
            }
        }
        let (stack, packed) = (&self.stack, &self.packed);
        let given = Forward { every: None, last: None, end: None, ..call };
        let outputs = Outputs {
            every: call.every.map(Split::new),
            last: call.last.map(Split::new),
            end: call.end.map(|end| Carried { h: Split::new(end.h), c: Split::new(end.c) }),
        };
        let one = |slice: &mut Slice| {
            if active(given.members, slice.member) {
                slice.forward(stack, &packed[slice.member], &given, &outputs);
            }
        };
        match self.pool.as_ref().filter(|_| self.slices.len() > 1) {
            Some(pool) => pool.install(|| self.slices.par_iter_mut().for_each(one)),
            None => self.slices.iter_mut().for_each(one),
        }
        self.walked = stack.trains();
        Ok(())
    }

    /// All steps of all layers back.
    pub fn backward(&mut self, call: Backward<Host<'_>>) -> Result<()> {
        check::backward(&self.stack, &call, self.walked)?;
        self.walked = false;
        let (stack, packed) = (&self.stack, &self.packed);
        let begin = call.begin.map(|begin| Carried { h: Split::new(begin.h), c: Split::new(begin.c) });
        let (every, last, members) = (call.every, call.last, call.members);
        let one = |slice: &mut Slice| {
            if active(members, slice.member) {
                slice.backward(stack, &packed[slice.member], every, last, begin.as_ref());
            }
        };
        let slices = &mut self.slices;
        match &self.pool {
            Some(pool) => pool.install(|| slices.par_iter_mut().for_each(one)),
            None => slices.iter_mut().for_each(one),
        }
        let each = slices.len() / stack.shape().members;
        let add = |(member, (gradient, slices)): (usize, (&mut [f32], &[Slice]))| {
            if !active(members, member) {
                return;
            }
            for (s, slice) in slices.iter().enumerate() {
                for (r, layer) in stack.layers().iter().zip(&slice.layers) {
                    pack::unpack(r, &layer.dw, &mut gradient[r.weight..r.weight + r.size()], call.add || s > 0);
                }
            }
        };
        match &self.pool {
            Some(pool) => {
                let rows = call.gradient.par_chunks_mut(call.stride).zip(slices.par_chunks(each)).enumerate();
                pool.install(|| rows.for_each(add));
            }
            None => call.gradient.chunks_mut(call.stride).zip(slices.chunks(each)).enumerate().for_each(add),
        }
        Ok(())
    }
}

impl Slice {
    /// Where this slice's rows lie in `[T, P, B]`, at one step.
    fn at(&self, shape: &Shape, t: usize) -> Range<usize> {
        let start = (t * shape.members + self.member) * shape.rows + self.rows.start;
        start..start + self.rows.len()
    }

    /// Where its numbers of one layer lie in a state.
    fn of_state(&self, stack: &recurrent::Stack, l: usize) -> Range<usize> {
        let (rows, units) = (stack.shape().rows, stack.layers()[l].units);
        let start = stack.state_of(l).start + (self.member * rows + self.rows.start) * units;
        start..start + self.rows.len() * units
    }

    fn forward(
        &mut self,
        stack: &recurrent::Stack,
        packed: &[Floats],
        call: &Forward<Host<'_>>,
        outputs: &Outputs<'_>,
    ) {
        let shape = stack.shape();
        let (n, keep, round) = (self.rows.len(), stack.trains(), shape.precision == Precision::Bf16);
        let layers = stack.layers();
        self.reset.clear();
        if let Some(reset) = call.reset {
            (0..shape.window).for_each(|t| self.reset.extend(&reset[self.at(shape, t)]));
        }
        for (l, r) in layers.iter().enumerate() {
            let own = self.of_state(stack, l);
            let s = &mut self.layers[l];
            match call.begin {
                None => s.carry[..n * r.units].fill(0.0),
                Some(begin) => s.carry[..n * r.units].copy_from_slice(&begin.c[own.clone()]),
            }
            for (row, to) in s.xh[..n * (r.wide + r.units)].chunks_exact_mut(r.wide + r.units).enumerate() {
                let h = &mut to[r.wide..];
                match call.begin {
                    None => h.fill(0.0),
                    Some(begin) => h.copy_from_slice(&begin.h[own.clone()][row * r.units..][..r.units]),
                }
                if round {
                    loops::round(h);
                }
            }
        }
        for t in 0..shape.window {
            self.gather(stack, call, t);
            for (l, r) in layers.iter().enumerate() {
                self.clear(r, l, t, keep);
                if t == 0 && keep {
                    self.began[l].copy_from_slice(&self.layers[l].carry[..n * r.units]);
                    if round {
                        loops::round(&mut self.began[l]);
                    }
                }
                let (lower, own) = self.layers.split_at_mut(l);
                let below = r.below.map(|below| (&layers[below], &lower[below]));
                let step = Step { t, n, keep, begun: t > 0 || call.begin.is_some(), round };
                own[0].ahead(r, below, step, &packed[l][..pack::sizes(r).0]);
            }
            let at = self.at(shape, t);
            if let Some(every) = &outputs.every {
                // SAFETY: these rows of this step are this slice's alone.
                self.show(
                    stack,
                    layers.len() - 1,
                    t,
                    unsafe { every.part(wide(&at, stack.outputs())) },
                    stack.outputs(),
                );
            }
        }
        let last = shape.window - 1;
        if let Some(to) = &outputs.last {
            let rows = self.at(shape, 0);
            // SAFETY: these rows are this slice's alone.
            self.show(stack, layers.len() - 1, last, unsafe { to.part(wide(&rows, stack.outputs())) }, stack.outputs());
        }
        if let Some(end) = &outputs.end {
            for (l, r) in layers.iter().enumerate() {
                let own = self.of_state(stack, l);
                // SAFETY: as above.
                self.show(stack, l, last, unsafe { end.h.part(own.clone()) }, r.units);
                // SAFETY: as above.
                unsafe { end.c.part(own) }.copy_from_slice(&self.layers[l].carry[..n * r.units]);
            }
        }
    }

    /// What the lowest layer reads at one step.
    fn gather(&mut self, stack: &recurrent::Stack, call: &Forward<Host<'_>>, t: usize) {
        let Shape { features, extras, precision, .. } = *stack.shape();
        let (r, keep, n) = (&stack.layers()[0], stack.trains(), self.rows.len());
        let row = r.wide + r.units;
        let at = self.at(stack.shape(), t);
        let scale = call.scale.map(|(mean, inverse)| {
            let own = self.member * features..(self.member + 1) * features;
            (&mean[own.clone()], &inverse[own])
        });
        let round = precision == Precision::Bf16;
        let to = &mut self.layers[0].xh[slot(t, keep) * n * row..][..n * row];
        for (place, to) in at.zip(to.chunks_exact_mut(row)) {
            let (rows, rest) = to[..r.wide].split_at_mut(features);
            let (more, padding) = rest.split_at_mut(extras);
            if features > 0 {
                rows.copy_from_slice(&call.table[call.at[place] as usize * call.stride..][..features]);
            }
            if let Some((mean, inverse)) = scale {
                let each = rows.iter_mut().zip(mean.iter().zip(inverse));
                each.for_each(|(x, (mean, inverse))| *x = (*x - mean) * inverse);
            }
            if let Some(extra) = call.extras {
                more.copy_from_slice(&extra[place * extras..][..extras]);
            }
            padding.fill(0.0);
            if round {
                loops::round(&mut to[..features + extras]);
            }
        }
    }

    /// Clears what a step finds in rows that begin anew.
    fn clear(&mut self, r: &Recurrent, l: usize, t: usize, keep: bool) {
        let n = self.rows.len();
        let (s, row) = (&mut self.layers[l], r.wide + r.units);
        for b in (0..n).filter(|b| self.reset.get(t * n + b).is_some_and(|reset| *reset != 0)) {
            s.xh[(slot(t, keep) * n + b) * row + r.wide..][..r.units].fill(0.0);
            s.carry[b * r.units..][..r.units].fill(0.0);
        }
    }

    /// The h of a step, before anybody clears it, in rows of `width`.
    fn show(&self, stack: &recurrent::Stack, l: usize, t: usize, to: &mut [f32], width: usize) {
        let (r, n) = (&stack.layers()[l], self.rows.len());
        let row = r.wide + r.units;
        let from = &self.layers[l].xh[slot(t + 1, stack.trains()) * n * row..][..n * row];
        for (to, from) in to.chunks_exact_mut(width).zip(from.chunks_exact(row)) {
            to.copy_from_slice(&from[r.wide..][..width]);
        }
    }

    fn backward(
        &mut self,
        stack: &recurrent::Stack,
        packed: &[Floats],
        every: Option<&[f32]>,
        last: Option<&[f32]>,
        begin: Option<&Carried<Split<'_, f32>>>,
    ) {
        let shape = stack.shape();
        let (n, round) = (self.rows.len(), shape.precision == Precision::Bf16);
        let (layers, state) = (stack.layers(), shape.gradients == Gradients::State);
        for (r, s) in layers.iter().zip(&mut self.layers) {
            s.dh[..n * r.units].fill(0.0);
            s.dc[..n * r.units].fill(0.0);
            s.dw.fill(0.0);
        }
        for t in (0..shape.window).rev() {
            let every = every.map(|every| &every[wide(&self.at(shape, t), stack.outputs())]);
            let last = last.filter(|_| t + 1 == shape.window);
            let last = last.map(|last| &last[wide(&self.at(shape, 0), stack.outputs())]);
            let given = every.is_some() || last.is_some();
            if given {
                let (hidden, units) = (stack.outputs(), stack.top().units);
                let above = &mut self.layers[layers.len() - 1].above;
                for b in 0..n {
                    let to = &mut above[b * units..(b + 1) * units];
                    to.fill(0.0);
                    for from in every.iter().chain(&last) {
                        to.iter_mut().zip(&from[b * hidden..(b + 1) * hidden]).for_each(|(to, from)| *to += from);
                    }
                    if round {
                        to.iter_mut().for_each(|x| *x = bf16::round(*x));
                    }
                }
            }
            let cleared = |b: &usize| self.reset.get(t * n + b).is_some_and(|reset| *reset != 0);
            let cleared: Vec<usize> = (0..n).filter(cleared).collect();
            for (l, r) in layers.iter().enumerate().rev() {
                let size = n * r.units;
                let anew = t > 0 && !cleared.is_empty();
                if anew {
                    self.before[..size].copy_from_slice(&self.layers[l].cells[(t - 1) * size..t * size]);
                    cleared.iter().for_each(|b| self.before[b * r.units..][..r.units].fill(0.0));
                }
                let before = match t {
                    0 => Some(&self.began[l][..size]),
                    _ => anew.then_some(&self.before[..size]),
                };
                let (lower, own) = self.layers.split_at_mut(l);
                let below = r.below.map(|below| &mut lower[below]);
                let step = Step { t, n, keep: true, begun: t > 0 || state, round };
                let above = given || l + 1 < layers.len();
                own[0].back(r, below, step, above, before, &packed[l][pack::sizes(r).0..]);
                for b in &cleared {
                    own[0].dh[b * r.units..][..r.units].fill(0.0);
                    own[0].dc[b * r.units..][..r.units].fill(0.0);
                }
            }
        }
        let Some(begin) = begin else { return };
        for (l, r) in layers.iter().enumerate() {
            let own = self.of_state(stack, l);
            // SAFETY: these rows of this layer are this slice's alone.
            let (h, c) = unsafe { (begin.h.part(own.clone()), begin.c.part(own)) };
            h.copy_from_slice(&self.layers[l].dh[..n * r.units]);
            c.copy_from_slice(&self.layers[l].dc[..n * r.units]);
        }
    }
}

/// Rows as numbers.
fn wide(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}
