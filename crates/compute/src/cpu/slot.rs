//! A slot's gradient in fixed parts, and its optimiser.
//!
//! A narrow net is cut by rows: every slice of the batch goes through the net block by block and leaves a partial
//! gradient; they are added in the order of the slices. A batch in parts does so part after part, so that there are
//! fewer of them. A wide net's rows go through the net in blocks too, but each tile of a weight gradient is one product
//! over all rows, so that no partial gradient of millions of parameters exists.

#![expect(unsafe_code, reason = "threads write disjoint parts of gradients, buffers and parameters")]

use super::block::{self, Pass, Weights, matrix};
use super::buffers::{Buffers, Rows};
use super::data::Source;
use super::loops::{self, Columns};
use super::memory::{Floats, Split};
use super::nets::Core;
use super::norm;
use super::plan::{BLOCK, GRAIN, Plan};
use super::product::{self, MatrixMut};
use super::recurrent::{Sequence, pack};
use crate::error::Result;
use crate::net::GATES;
use crate::ops::optimise::Step;
use crate::population::backend::{Arena, no_average};
use crate::random::Turn;
use rayon::prelude::*;
use std::ops::Range;

/// One member's place: its rows of the arenas.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) params: Floats,
    pub(super) mean: Floats,
    pub(super) square: Floats,
    pub(super) gradient: Floats,
    /// The average of the parameters; empty where the recipe has none.
    pub(super) average: Floats,
    /// In bf16 the parameters as they are held; empty otherwise.
    pub(super) rounded: Floats,
    /// The recurrent layers' weights as their kernels read them.
    pub(super) packed: Floats,
}

/// What one slot needs while it is in a step; as many as threads.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) post: usize,      // where the team finds its work
    pub(super) partials: Floats, // [partials, params] of a narrow net
    pub(super) values: Buffers,  // of a wide net, `slice` rows
    pub(super) back: Buffers,    // of a wide net, `slice` rows
    samples: Vec<u32>,           // [slice] of a wide net
    losses: Vec<(f64, f64)>,     // loss and weight of each part of the step
    squares: Vec<f64>,           // [chunks]
}

/// What one thread needs for the block it works on.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) values: Buffers,
    pub(super) back: Buffers,
    pub(super) sequences: Vec<Sequence>,
    pub(super) samples: Vec<u32>,
}

impl Lane {
    pub(super) fn new(plan: &Plan, post: usize) -> Result<Lane> {
        let rows = if plan.wide() { plan.slice } else { 0 };
        Ok(Lane {
            post,
            partials: Floats::new(plan.partials() * plan.layout.params)?,
            values: Buffers::new(plan, rows)?,
            back: Buffers::new(plan, rows)?,
            samples: vec![0; rows],
            losses: vec![(0.0, 0.0); plan.losses()],
            squares: vec![0.0; plan.chunks()],
        })
    }
}

impl Scratch {
    pub(super) fn new(plan: &Plan) -> Result<Scratch> {
        let back = if plan.wide() { 0 } else { plan.block };
        Ok(Scratch {
            values: Buffers::new(plan, BLOCK)?,
            back: Buffers::new(plan, back)?,
            sequences: Sequence::all(plan)?,
            samples: vec![0; BLOCK],
        })
    }
}

/// Whose rows a gradient is of, and what stands at the outputs.
pub(super) trait Task: Sync {
    /// The ids of some rows of the batch, from row `at` on.
    fn ids(&self, at: usize, ids: &mut [u32]);

    /// Where the inputs of the rows from `at` on come from.
    fn source(&self, at: usize) -> Source<'_>;

    /// What these rows leave out.
    fn turn(&self) -> Turn;

    /// Loss and weight of the rows from `at` on; the gradient at the outputs goes into `back`.
    fn loss(&self, plan: &Plan, at: usize, ids: &[u32], values: &Rows<'_>, back: &mut Rows<'_>) -> (f64, f64);
}

impl Slot {
    pub(super) fn new(plan: &Plan, first: &[f32], average: bool) -> Result<Slot> {
        let fresh = || Floats::new(plan.layout.params);
        let rounded = if plan.round { fresh()? } else { Floats::default() };
        let packed = Floats::new(plan.all_packed())?;
        let mut slot = Slot {
            params: fresh()?,
            mean: fresh()?,
            square: fresh()?,
            gradient: fresh()?,
            average: if average { fresh()? } else { Floats::default() },
            rounded,
            packed,
        };
        if average {
            slot.average.copy_from_slice(first);
        }
        slot.set_params(plan, first);
        Ok(slot)
    }

    pub(super) fn set_params(&mut self, plan: &Plan, values: &[f32]) {
        self.params.copy_from_slice(values);
        self.renew(plan);
    }

    /// Rounds and packs the parameters anew.
    pub(super) fn renew(&mut self, plan: &Plan) {
        if plan.round {
            hold(plan, 0, &self.params, &mut self.rounded);
        }
        self.pack(plan);
    }

    /// Exchanges the parameters and their average: once before a score, once after it.
    pub(super) fn exchange(&mut self, plan: &Plan) {
        if !self.average.is_empty() {
            std::mem::swap(&mut self.params, &mut self.average);
            self.renew(plan);
        }
    }

    /// Becomes another: its parameters and what the optimiser knows of them.
    pub(super) fn adopt(&mut self, other: &Slot) {
        for (to, from) in [
            (&mut self.params, &other.params),
            (&mut self.mean, &other.mean),
            (&mut self.square, &other.square),
            (&mut self.average, &other.average),
            (&mut self.rounded, &other.rounded),
            (&mut self.packed, &other.packed),
        ] {
            to.copy_from_slice(from);
        }
    }

    pub(super) fn arena(&mut self, arena: Arena) -> Result<&mut Floats> {
        match arena {
            Arena::Params => Ok(&mut self.params),
            Arena::Mean => Ok(&mut self.mean),
            Arena::Square => Ok(&mut self.square),
            Arena::Gradient => Ok(&mut self.gradient),
            Arena::Average if self.average.is_empty() => Err(no_average()),
            Arena::Average => Ok(&mut self.average),
        }
    }

    /// The gradient of the first `live` rows of a batch; their loss and weight. Rows behind the list have weight 0 and
    /// change nothing, so they are left out here.
    pub(super) fn gradient(&mut self, core: &Core, lane: &mut Lane, task: &impl Task, live: usize) -> (f64, f64) {
        if core.plan.wide() {
            // Its pieces are parts.
            return self.wide_gradient(core, lane, task, live);
        }
        let parts = (0..live).step_by(core.plan.part).map(|from| from..live.min(from + core.plan.part));
        parts.fold((0.0, 0.0), |before, part| self.narrow_gradient(core, lane, task, part, before))
    }

    /// The weights as a block reads them.
    pub(super) fn weights(&self) -> Weights<'_> {
        held(&self.params, &self.rounded, &self.packed)
    }

    /// Packs the recurrent layers' weights; after every change of the parameters.
    pub(super) fn pack(&mut self, plan: &Plan) {
        pack::pack(plan, held(&self.params, &self.rounded, &[]).params, &mut self.packed);
    }

    /// The gradient of some rows of the batch, added to that of the rows before them; loss and weight of all of these.
    fn narrow_gradient(
        &mut self,
        core: &Core,
        lane: &mut Lane,
        task: &impl Task,
        part: Range<usize>,
        before: (f64, f64),
    ) -> (f64, f64) {
        let Core { plan, team, .. } = core;
        let post = team.post(lane.post);
        let turn = task.turn();
        let weights = held(&self.params, &self.rounded, &self.packed);
        let size = plan.layout.params;
        let slices = part.len().div_ceil(plan.slice);
        // The first slice of all is the gradient that all others are added to.
        let other = |slice: usize| if part.start == 0 { slice.checked_sub(1) } else { Some(slice) };
        let (first, others) = (Split::new(&mut self.gradient), Split::new(&mut lane.partials));
        let losses = Split::new(&mut lane.losses);
        post.each(slices, 1, |slice| {
            // SAFETY: every slice has its own partial gradient and its own loss.
            let (gradient, sum) = unsafe {
                let gradient = match other(slice) {
                    None => first.part(0..size),
                    Some(other) => others.part(other * size..(other + 1) * size),
                };
                (gradient, losses.part(slice..slice + 1))
            };
            let mut total = (0.0, 0.0);
            let begin = part.start + slice * plan.slice;
            let end = part.end.min(begin + plan.slice);
            core.scratch(|Scratch { values, back, sequences, samples }| {
                for at in (begin..end).step_by(plan.block) {
                    let n = plan.block.min(end - at);
                    let samples = &mut samples[..n];
                    task.ids(at, samples);
                    let (mut values, mut back) = (values.first(n), back.first(n));
                    let pass = Pass { turn, first: at as u32, keep: true };
                    block::forward(plan, task.source(at), weights, samples, &mut values, sequences, Some(pass));
                    let (loss, weight) = task.loss(plan, at, samples, &values, &mut back);
                    let add = at > begin;
                    block::backward(plan, weights, &values, &mut back, sequences, pass, Some((gradient, add)));
                    total = (total.0 + loss, total.1 + weight);
                }
            });
            sum[0] = total;
        });
        let (gradient, squares) = (Split::new(&mut self.gradient), Split::new(&mut lane.squares));
        let partials = &lane.partials;
        post.each(plan.chunks(), (GRAIN / slices.max(1)).max(1), |chunk| {
            let range = plan.chunk(chunk);
            // SAFETY: chunks do not overlap.
            let (gradient, square) = unsafe { (gradient.part(range.clone()), squares.part(chunk..chunk + 1)) };
            for other in (0..slices).filter_map(other) {
                let from = other * size;
                loops::add(gradient, &partials[from + range.start..from + range.end]);
            }
            square[0] = loops::squares(gradient);
        });
        in_order(before, &lane.losses[..slices])
    }

    fn wide_gradient(&mut self, core: &Core, lane: &mut Lane, task: &impl Task, live: usize) -> (f64, f64) {
        let Core { plan, team, .. } = core;
        let post = team.post(lane.post);
        let turn = task.turn();
        let weights = held(&self.params, &self.rounded, &self.packed);
        let mut total = (0.0, 0.0);
        for piece in (0..live).step_by(plan.slice) {
            let rows = plan.slice.min(live - piece);
            let blocks = rows.div_ceil(plan.block);
            let (values, back) = (lane.values.share(), lane.back.share());
            let (all_samples, losses) = (Split::new(&mut lane.samples), Split::new(&mut lane.losses));
            post.each(blocks, 1, |block| {
                let at = block * plan.block;
                let n = plan.block.min(rows - at);
                // SAFETY: blocks do not overlap.
                let (samples, loss, mut values, mut back) = unsafe {
                    let samples = all_samples.part(at..at + n);
                    (samples, losses.part(block..block + 1), values.rows(at, n), back.rows(at, n))
                };
                task.ids(piece + at, samples);
                let pass = Pass { turn, first: (piece + at) as u32, keep: true };
                let source = task.source(piece + at);
                block::forward(plan, source, weights, samples, &mut values, &mut [], Some(pass));
                loss[0] = task.loss(plan, piece + at, samples, &values, &mut back);
                block::backward(plan, weights, &values, &mut back, &mut [], pass, None);
            });
            let (values, back) = (&lane.values, &lane.back);
            let gradient = Split::new(&mut self.gradient);
            post.each(plan.tiles.len(), 1, |tile| {
                let linear = &plan.layout.linears[plan.tiles[tile].linear];
                let outputs = plan.tiles[tile].outputs.clone();
                let (width, first) = (linear.input.width, linear.weight);
                // SAFETY: tiles do not overlap, and weights and biases do not either.
                let (dw, dbias) = unsafe {
                    let dw = gradient.part(first + outputs.start * width..first + outputs.end * width);
                    (dw, gradient.part(linear.bias + outputs.start..linear.bias + outputs.end))
                };
                let x = matrix(plan, values.read(plan, linear.input.buffer), linear.input);
                let mut place = linear.output;
                (place.column, place.width) = (place.column + outputs.start, outputs.len());
                let dz = back.read(plan, place.buffer);
                let dw = MatrixMut { values: dw, stride: width, width };
                product::weights_back(rows, matrix(plan, dz, place), x, dw, [piece > 0, plan.round]);
                loops::sum_rows(&dz[..rows * plan.stride(place.buffer)], plan.at(place), dbias, piece > 0);
                if let Some(norm) = linear.norm {
                    let (gain, wide) = (norm.gain + outputs.start, linear.output.width);
                    // SAFETY: as above; gains and shifts of a tile are its own.
                    let to = unsafe {
                        let shift = gain + wide;
                        (gradient.part(gain..gain + outputs.len()), gradient.part(shift..shift + outputs.len()))
                    };
                    let buffer = norm.normed.buffer;
                    let at = Columns { stride: plan.stride(buffer), column: outputs.start, width: outputs.len() };
                    let (dn, x) = (back.read(plan, buffer), values.read(plan, buffer));
                    let size = rows * at.stride;
                    norm::sums(&dn[..size], &x[..size], at, to, piece > 0);
                }
            });
            let (loss, weight) = in_order((0.0, 0.0), &lane.losses[..blocks]);
            total = (total.0 + loss, total.1 + weight);
        }
        let (gradient, squares) = (&self.gradient, Split::new(&mut lane.squares));
        post.each(plan.chunks(), GRAIN, |chunk| {
            // SAFETY: every chunk has its own sum.
            let square = unsafe { squares.part(chunk..chunk + 1) };
            square[0] = loops::squares(&gradient[plan.chunk(chunk)]);
        });
        total
    }

    /// The sum of the squares that the gradient left in the lane.
    pub(super) fn squares(lane: &Lane) -> f64 {
        lane.squares.iter().sum()
    }

    /// The squares of a gradient that came from elsewhere.
    pub(super) fn square(&self, core: &Core, lane: &mut Lane) {
        let (plan, gradient) = (&core.plan, &self.gradient);
        let squares = Split::new(&mut lane.squares);
        core.team.post(lane.post).each(plan.chunks(), GRAIN, |chunk| {
            // SAFETY: every chunk has its own sum.
            let square = unsafe { squares.part(chunk..chunk + 1) };
            square[0] = loops::squares(&gradient[plan.chunk(chunk)]);
        });
    }

    /// One step of the optimiser; `memory` is that of the average, where there is one.
    pub(super) fn optimise(&mut self, core: &Core, lane: &Lane, step: &Step, memory: f32) {
        let (plan, post) = (&core.plan, core.team.post(lane.post));
        let (params, mean) = (Split::new(&mut self.params), Split::new(&mut self.mean));
        let (square, rounded) = (Split::new(&mut self.square), Split::new(&mut self.rounded));
        let averaged = !self.average.is_empty();
        let average = Split::new(&mut self.average);
        let sums = &self.gradient;
        post.each(plan.chunks(), GRAIN, |chunk| {
            let range = plan.chunk(chunk);
            // SAFETY: chunks do not overlap.
            let (params, mean, square) =
                unsafe { (params.part(range.clone()), mean.part(range.clone()), square.part(range.clone())) };
            loops::optimise(step, params, mean, square, &sums[range.clone()]);
            if averaged {
                // SAFETY: chunks do not overlap.
                let average = unsafe { average.part(range.clone()) };
                loops::average(average, params, memory);
            }
            if plan.round {
                // SAFETY: chunks do not overlap.
                let rounded = unsafe { rounded.part(range.clone()) };
                hold(plan, range.start, params, rounded);
            }
        });
        self.pack(plan);
    }
}

pub(super) fn held<'a>(params: &'a [f32], rounded: &'a [f32], packed: &'a [f32]) -> Weights<'a> {
    Weights { params: if rounded.is_empty() { params } else { rounded }, packed, strips: &[] }
}

/// Parameters from offset `first` on as they are held in bf16: rounded, but for the biases of heads and recurrent
/// layers, and for norms.
pub(super) fn hold(plan: &Plan, first: usize, params: &[f32], held: &mut [f32]) {
    held.copy_from_slice(params);
    loops::round(held);
    let heads = plan.layout.linears[plan.first_head()..].iter().map(|head| (head.bias, head.output.width));
    let recurrents = plan.layout.recurrents.iter().map(|r| (r.bias(), GATES * r.units));
    let norms = plan.layout.linears.iter().filter_map(|l| l.norm.map(|n| (n.gain, 2 * l.output.width)));
    for (bias, width) in heads.chain(recurrents).chain(norms) {
        let (from, to) = (bias.max(first), (bias + width).min(first + params.len()));
        if from < to {
            held[from - first..to - first].copy_from_slice(&params[from - first..to - first]);
        }
    }
}

fn in_order(before: (f64, f64), losses: &[(f64, f64)]) -> (f64, f64) {
    losses.iter().fold(before, |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

/// Does `n` things on as many threads as are free, at least `grain` on each.
pub(super) fn each(n: usize, grain: usize, f: impl Fn(usize) + Send + Sync) {
    if n <= grain {
        (0..n).for_each(f);
    } else {
        (0..n).into_par_iter().with_min_len(grain).with_max_len(grain).for_each(f);
    }
}
