//! Nets without a loss on a card: the engine of a population whose rows, gradients at the outputs and steps of the
//! optimiser come from elsewhere.
//!
//! Everything is put on a stream that is given, or on the engine's own, and can be captured in a graph: nothing is
//! allocated, and nothing waits. Outputs lie as `[P, rows, padded]` f32 while a pass runs and are copied to where they
//! are wanted without their padding. A row's numbers of a dense input are one more table, with a row for every row of
//! the batch.

use super::setup::{self, Cutter, Roads};
use super::small::Road;
use super::{Engine, Mode, Rows};
use crate::cuda::calls::{self, Arenas};
use crate::cuda::context::{Context, turn};
use crate::cuda::graph::{Event, Stream};
use crate::cuda::memory::Slice;
use crate::error::{Error, Result};
use crate::net::{Layout, Net};
use crate::nets::{Hyper, Seat, Setup};
use crate::population::backend::{Arena, Backend};
use crate::population::{Data, Member, Pace, Pins, Recipe, State};
use crate::tables::Tables;
use cudarc::driver::{result, sys};
use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

/// What only nets without a loss have.
pub(in crate::cuda) struct Arrays {
    extras: Vec<Option<Slice<f32>>>, // [inputs] [P, B, stride] numbers of dense inputs
    own: Slice<u32>,                 // [P, B] each row's own place, where there is a dense input
    rates: Slice<f32>,               // [P]
    mask: Slice<u32>,                // [P]
    ones: Slice<u32>,                // [P]
    weights: Slice<f64>,             // [P, 2] nothing lost, and what a gradient is divided by
}

impl Arrays {
    pub(super) fn begin(&self, stream: &Stream) -> Result<()> {
        for extras in self.extras.iter().flatten() {
            stream.fill(extras, 0)?;
        }
        stream.put(&self.own, &(0..self.own.len() as u32).collect::<Vec<u32>>())?;
        stream.put(&self.ones, &vec![1; self.ones.len()])
    }
}

/// Elements of a row of a dense input on the card.
fn stride(features: usize) -> usize {
    features.next_multiple_of(4)
}

pub(super) fn arrays(cut: &mut Cutter<'_>, net: &Net, members: usize, rows: usize) -> Result<Arrays> {
    let extra = |input: &crate::net::Input| input.dense.then(|| members * rows * stride(input.features));
    Ok(Arrays {
        extras: net.inputs.iter().map(|i| extra(i).map(|n| cut.cut(n)).transpose()).collect::<Result<_>>()?,
        own: cut.cut(if net.extras() > 0 { members * rows } else { 0 })?,
        rates: cut.cut(members)?,
        mask: cut.cut(members)?,
        ones: cut.cut(members)?,
        weights: cut.cut(2 * members)?,
    })
}

/// `[inputs]` where each one's rows lie.
pub(super) fn rows(net: &Net, tables: &Tables, at: &setup::Arrays) -> Result<Vec<Rows>> {
    let on = tables.on_card()?;
    let each = net.inputs.iter().enumerate().map(|(i, input)| {
        let Some(table) = net.table_of(i) else {
            let extras = at.lossless.as_ref().and_then(|l| l.extras[i]);
            let missing =
                || Error::Asked(format!("input {} is dense; a population has rows of tables alone", input.name));
            return Ok(Rows { table: extras.ok_or_else(missing)?, stride: stride(input.features), map: None });
        };
        Ok(Rows { table: on.tables[table], stride: tables.stride(table), map: on.maps[table] })
    });
    each.collect()
}

/// What of the grammar a card does not do.
pub(super) fn check(net: &Net, layout: &Layout) -> Result<()> {
    let some = net.towers.iter().any(|t| !t.reads.is_empty() && t.reads.len() < net.inputs.len());
    match layout.zeroed {
        Some(_) if some => Err(Error::Asked(format!(
            "`{net}` has towers that read some inputs, and branches that learn; on a card each tower of such a net reads \
             all inputs"
        ))),
        _ => Ok(()),
    }
}

/// Nets of one shape on a card.
pub(crate) struct Nets {
    engine: Engine,
    begun: Event,
    done: Event,
}

impl Engine {
    /// Which ids an input of the slots from `first` on reads.
    pub(super) fn ids(&self, input: usize, first: usize, slots: usize) -> Slice<u32> {
        let (from, n) = (first * self.recipe.batch, slots * self.recipe.batch);
        match &self.at.lossless {
            Some(lossless) if self.net.inputs[input].dense => lossless.own.part(from, n),
            _ => self.at.rows.part(from, n),
        }
    }
}

/// Members in a population's words.
fn members(net: &Net, seats: &[Seat]) -> Vec<Member> {
    let member = |seat: &Seat| Member {
        id: seat.id,
        train: 0,
        valid: None,
        epochs: 0,
        rate: 0.0,
        scales: if seat.scales.is_empty() { vec![None; net.inputs.len()] } else { seat.scales.clone() },
        class_weights: vec![vec![]; net.heads.len()],
    };
    seats.iter().map(member).collect()
}

fn nothing() -> Data<'static> {
    Data { labels: vec![], weights: None, lists: vec![] }
}

fn road(setup: &Setup) -> Road {
    if setup.rule.is_some() { Road::Open } else { Road::Asked }
}

/// Bytes on a card whose blocks may have so much shared memory.
pub(crate) fn need(shared: u32, net: &Net, layout: &Layout, setup: &Setup, recipe: &Recipe, seats: &[Seat]) -> u64 {
    let (roads, recipe) = Roads::new(road(setup), shared, net, layout, recipe, Pace::default());
    setup::need_of(roads, net, layout, &nothing(), &recipe, &members(net, seats))
}

impl Nets {
    #[expect(clippy::too_many_arguments, reason = "nets are these things")]
    pub(crate) fn new(
        context: &Arc<Context>,
        net: &Net,
        layout: &Layout,
        tables: &Arc<Tables>,
        setup: &Setup,
        recipe: &Recipe,
        seats: &[Seat],
        pins: &Pins,
        first: &[Vec<f32>],
    ) -> Result<Nets> {
        let members = members(net, seats);
        let (pace, data) = (Pace::default(), nothing());
        let engine =
            Engine::begun(road(setup), pace, context, net, layout, tables, &data, recipe, &members, pins, Some(first))?;
        Ok(Nets { engine, begun: Event::new(context, false)?, done: Event::new(context, false)? })
    }

    /// The outputs of any rows, `[heads][n, rows, outputs]`, in chunks of as many as the nets were set up for; the last
    /// one is filled up.
    pub(crate) fn forward(
        &mut self,
        members: Range<usize>,
        rows: usize,
        (ids, extras): (&[u32], &[f32]),
        out: &mut [Vec<f32>],
    ) -> Result<()> {
        let _turn = turn();
        let e = &self.engine;
        let (batch, n, main) = (e.recipe.batch, members.len(), &e.main);
        let from = members.start * batch;
        for begin in (0..rows).step_by(batch) {
            let live = batch.min(rows - begin);
            let row = |m: usize, b: usize| m * rows + begin + if b < live { b } else { 0 };
            let places: Vec<usize> = (0..n).flat_map(|m| (0..batch).map(move |b| row(m, b))).collect();
            main.put(&e.at.rows.part(from, n * batch), &places.iter().map(|at| ids[*at]).collect::<Vec<u32>>())?;
            let alive: Vec<f32> = (0..n * batch).map(|i| if i % batch < live { 1.0 } else { 0.0 }).collect();
            main.put(&e.at.live.part(from, n * batch), &alive)?;
            for (i, input) in e.net.inputs.iter().enumerate() {
                let Some(to) = e.at.lossless.as_ref().and_then(|l| l.extras[i]) else { continue };
                let (wide, all, at) = (stride(input.features), e.net.extras(), e.net.extra_of(i));
                let mut padded = vec![0.0; n * batch * wide];
                for (to, place) in padded.chunks_exact_mut(wide).zip(&places) {
                    to[..input.features].copy_from_slice(&extras[place * all + at..][..input.features]);
                }
                main.put(&to.part(from * wide, n * batch * wide), &padded)?;
            }
            self.outputs(members.start, n)?;
            let heads = e.layout.linears.iter().skip(e.layout.linears.len() - e.layout.heads);
            for ((out, head), made) in out.iter_mut().zip(heads).zip(&e.at.logits) {
                let (width, outputs) = (head.output.width, head.outputs);
                let made = main.get(&made.part(from * width, n * batch * width))?;
                for (m, made) in made.chunks_exact(batch * width).enumerate() {
                    let to = out[(m * rows + begin) * outputs..].chunks_exact_mut(outputs);
                    for (to, from) in to.zip(made.chunks_exact(width)).take(live) {
                        to.copy_from_slice(&from[..outputs]);
                    }
                }
            }
        }
        Ok(())
    }

    /// The gradient from that at the outputs, `[heads][P, rows, outputs]`, of the rows that the last pass was of.
    pub(crate) fn backward(&mut self, rows: usize, d_out: &[&[f32]]) -> Result<()> {
        let _turn = turn();
        let e = &self.engine;
        let (batch, heads) = (e.recipe.batch, e.layout.linears.len() - e.layout.heads);
        for ((head, given), to) in e.layout.linears[heads..].iter().zip(d_out).zip(&e.at.logits) {
            let (width, outputs) = (head.output.width, head.outputs);
            let mut padded = vec![0.0; to.len()];
            for (to, given) in padded.chunks_exact_mut(batch * width).zip(given.chunks_exact((rows * outputs).max(1))) {
                for (to, given) in to.chunks_exact_mut(width).zip(given.chunks_exact(outputs)) {
                    to[..outputs].copy_from_slice(given);
                }
            }
            e.main.put(to, &padded)?;
        }
        self.back()?;
        e.main.wait()
    }

    /// One step of the optimiser; the norms of the gradients, NaN where one was not finite.
    pub(crate) fn optimise(&mut self, hypers: &[Hyper], go: &[bool], parts: &[f32]) -> Result<Vec<f32>> {
        let _turn = turn();
        let (params, p) = (self.engine.layout.params, hypers.len());
        let (main, context) = (&self.engine.main, &self.engine.context);
        let mut slab = (!parts.is_empty()).then(|| context.slab(4 * parts.len() as u64)).transpose()?;
        let given = slab.as_mut().map(|slab| slab.cut::<f32>(parts.len())).transpose()?;
        if let Some(given) = &given {
            main.put(given, parts)?;
        }
        let (Some(lossless), count) = (&self.engine.at.lossless, parts.len() / (p * params)) else {
            return Err(Error::Asked("these nets have a loss of their own".into()));
        };
        main.put(&lossless.rates, &hypers.iter().map(|h| h.rate).collect::<Vec<f32>>())?;
        main.put(&lossless.mask, &go.iter().map(|go| u32::from(*go)).collect::<Vec<u32>>())?;
        self.update(hypers, Some(&lossless.mask), &lossless.rates, given.map(|g| (g, count)))?;
        let mut states = self.engine.states()?;
        let norms = states.iter().zip(go).map(|(s, go)| match (go, s.fault) {
            (true, 0) => s.norm,
            (true, _) => f32::NAN,
            (false, _) => 0.0,
        });
        let norms = norms.collect();
        if states.iter().any(|s| s.fault == 1) {
            states.iter_mut().for_each(|s| s.fault = 0);
            self.engine.set_states(&states)?;
        }
        Ok(norms)
    }

    /// A member's parameters and optimiser become another's, its step too.
    pub(crate) fn adopt(&mut self, from: usize, to: usize) -> Result<()> {
        let _turn = turn();
        let e = &mut self.engine;
        for arena in [Arena::Params, Arena::Mean, Arena::Square] {
            e.main.copy(&e.arena(to, arena)?, &e.arena(from, arena)?)?;
        }
        e.shadow(to)?;
        let mut states = e.states()?;
        states[to].step = states[from].step;
        e.set_states(&states)
    }

    pub(crate) fn read(&mut self, member: usize, arena: Arena) -> Result<Vec<f32>> {
        self.engine.read(member, arena)
    }

    pub(crate) fn write(&mut self, member: usize, arena: Arena, row: &[f32]) -> Result<()> {
        self.engine.write(member, arena, row)
    }

    /// Steps of the optimiser that a member has done.
    pub(crate) fn step(&mut self, member: usize) -> Result<u32> {
        Ok(self.engine.states()?[member].step)
    }

    pub(crate) fn set_step(&mut self, member: usize, step: u32) -> Result<()> {
        let mut states = self.engine.states()?;
        states[member].step = step;
        self.engine.set_states(&states)
    }

    pub(crate) fn pins(&self) -> Pins {
        self.engine.pins()
    }

    /// What `work` puts on the engine's streams, in order with what is on another stream, and part of its graph where
    /// that is captured.
    fn on(&self, stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<()> {
        self.begun.record(stream)?;
        self.engine.main.after(&self.begun)?;
        work()?;
        self.done.record(&self.engine.main)?;
        stream.after(&self.done)
    }

    /// The outputs of all members, `[heads]` `[P, rows, outputs]`, for ids `[P, rows]` and the numbers of all dense
    /// inputs `[P, rows, extras]`, with as many rows as the nets were set up for. A way back can follow.
    pub(crate) fn forward_on(
        &self,
        stream: &Stream,
        ids: Option<&Slice<u32>>,
        extras: Option<&Slice<f32>>,
        out: &[Slice<f32>],
    ) -> Result<()> {
        let e = &self.engine;
        let rows = e.members * e.recipe.batch;
        fits("ids", ids.map_or(0, Slice::len), if e.tables.is_empty() { 0 } else { rows })?;
        fits("extras", extras.map_or(0, Slice::len), rows * e.net.extras())?;
        fits("outputs", out.len(), e.layout.heads)?;
        let heads = e.layout.linears.len() - e.layout.heads;
        for (out, head) in out.iter().zip(&e.layout.linears[heads..]) {
            fits("outputs of a head", out.len(), rows * head.outputs)?;
        }
        let _turn = turn();
        self.on(stream, || {
            if let Some(ids) = ids {
                e.main.copy(&e.at.rows, ids)?;
            }
            // Every row counts: any word that is not 0 says so.
            e.main.fill(&e.at.live, 1)?;
            for (i, input) in e.net.inputs.iter().enumerate() {
                let (Some(to), Some(from)) = (e.at.lossless.as_ref().and_then(|l| l.extras[i]), extras) else {
                    continue;
                };
                let (all, at) = (e.net.extras(), e.net.extra_of(i));
                let from = (from.address() + 4 * at as u64, 4 * all);
                copy_rows(&e.main, (to.address(), 4 * stride(input.features)), from, 4 * input.features, rows)?;
            }
            self.outputs(0, e.members)?;
            for ((out, made), head) in out.iter().zip(&e.at.logits).zip(&e.layout.linears[heads..]) {
                let (to, from) = ((out.address(), 4 * head.outputs), (made.address(), 4 * head.output.width));
                copy_rows(&e.main, to, from, 4 * head.outputs, rows)?;
            }
            Ok(())
        })
    }

    /// The gradient of all members from that at the outputs of the last pass, `[heads]` `[P, rows, outputs]`.
    pub(crate) fn backward_on(&self, stream: &Stream, d_out: &[Slice<f32>]) -> Result<()> {
        let e = &self.engine;
        let (rows, heads) = (e.members * e.recipe.batch, e.layout.linears.len() - e.layout.heads);
        fits("gradients at outputs", d_out.len(), e.layout.heads)?;
        for (given, head) in d_out.iter().zip(&e.layout.linears[heads..]) {
            fits("gradients at the outputs of a head", given.len(), rows * head.outputs)?;
        }
        let _turn = turn();
        self.on(stream, || {
            for ((to, given), head) in e.at.logits.iter().zip(d_out).zip(&e.layout.linears[heads..]) {
                e.main.fill(to, 0)?;
                let (to, from) = ((to.address(), 4 * head.output.width), (given.address(), 4 * head.outputs));
                copy_rows(&e.main, to, from, 4 * head.outputs, rows)?;
            }
            self.back()
        })
    }

    /// One step of the optimiser at rates `[P]`, with the other hyper-parameters as they are now. Members whose word of
    /// the mask `[P]` is 0 are left out. Parts `[P, count, params]` that a kernel wrote are added in order first.
    pub(crate) fn optimise_on(
        &self,
        stream: &Stream,
        hypers: &[Hyper],
        rates: &Slice<f32>,
        mask: Option<&Slice<u32>>,
        parts: Option<(Slice<f32>, usize)>,
    ) -> Result<()> {
        let e = &self.engine;
        fits("hyper-parameters", hypers.len(), e.members)?;
        fits("rates", rates.len(), e.members)?;
        fits("a mask", mask.map_or(e.members, Slice::len), e.members)?;
        if let Some((parts, count)) = &parts {
            fits("parts of gradients", parts.len(), e.members * count * e.layout.params)?;
        }
        let _turn = turn();
        self.on(stream, || self.update(hypers, mask, rates, parts))
    }

    /// Rows that lie in place, through the net; outputs with their bias.
    fn outputs(&self, first: usize, slots: usize) -> Result<()> {
        let e = &self.engine;
        let mode = if e.road == Road::Open { Mode::Step } else { Mode::Always };
        if e.road == Road::Open {
            e.forward(first, slots, mode, false)?;
        } else {
            e.logits_only(first, slots)?;
        }
        let (batch, heads) = (e.recipe.batch, e.layout.linears.len() - e.layout.heads);
        for (head, made) in e.layout.linears[heads..].iter().zip(&e.at.logits) {
            let width = head.output.width;
            let at = made.address() + 4 * (first * batch * width) as u64;
            let y = calls::Rows { at, batch, width, stride: width };
            let bias = e.at.params.address() + 4 * (first * e.layout.params + head.bias) as u64;
            e.calls.add_bias(&e.main, &e.states_of(first, slots), mode, y, (bias, e.layout.params))?;
        }
        Ok(())
    }

    /// From what lies in the place of the outputs back to the weights.
    fn back(&self) -> Result<()> {
        let e = &self.engine;
        let heads = e.layout.linears.len() - e.layout.heads;
        for (head, given) in e.layout.linears[heads..].iter().zip(&e.at.logits) {
            let (width, delta) = (head.output.width, &e.at.deltas[head.output.buffer]);
            if e.size() == 2 {
                let y = calls::Rows { at: delta.address(), batch: e.recipe.batch, width, stride: width };
                let (states, plain) = (e.states_of(0, e.members), crate::net::Activation::Identity);
                e.calls.derive_wide(&e.main, &states, y, given.address(), delta.address(), plain)?;
            } else {
                copy_rows(&e.main, (delta.address(), 4), (given.address(), 4), 4, given.len())?;
            }
        }
        e.backward(0, e.members)
    }

    /// The optimiser of every member, each with its own constants; the weights of the gradients are put in place first.
    fn update(
        &self,
        hypers: &[Hyper],
        mask: Option<&Slice<u32>>,
        rates: &Slice<f32>,
        parts: Option<(Slice<f32>, usize)>,
    ) -> Result<()> {
        let e = &self.engine;
        let Some(lossless) = &e.at.lossless else { return Ok(()) };
        let (params, p, main) = (e.layout.params, e.members, &e.main);
        let field = |offset: usize| (e.at.states.address() + offset as u64, size_of::<State>());
        copy_rows(main, field(offset_of!(State, rate)), (rates.address(), 4), 4, p)?;
        if let Some(mask) = mask {
            copy_rows(main, field(offset_of!(State, active)), (mask.address(), 4), 4, p)?;
        }
        for (m, hyper) in hypers.iter().enumerate() {
            // A batch of no rows: the state goes one step on, and no epoch ends.
            let recipe = Recipe { batch: 0, optimiser: hyper.optimiser(e.recipe.optimiser.rule), ..e.recipe };
            let row = |arena: &Slice<f32>| arena.part(m * params, params);
            let states = e.at.states.part(m, 1);
            let mut sums = e.partials(m, 1, Mode::Step);
            sums.loss = lossless.weights.part(2 * m, 2);
            // Eight bytes at once, the halves of a number: what a gradient is divided by.
            let [low, high] = [hyper.weight.to_bits() as u32, (hyper.weight.to_bits() >> 32) as u32];
            words(main, sums.loss.address(), 0, 2)?;
            words(main, sums.loss.address() + 8, low, 1)?;
            words(main, sums.loss.address() + 12, high, 1)?;
            let orders = e.at.orders.part(m * calls::ORDER, calls::ORDER);
            let (arrived, gradient) = (e.at.arrived.part(m, 1), row(&e.at.gradient));
            match &parts {
                Some((parts, count)) => {
                    let own = parts.part(m * count * params, count * params);
                    let (own, told) = ((&own, *count), (&arrived, &orders));
                    e.calls.add_parts(main, &states, &recipe, (&gradient, params), own, &sums, told)?;
                }
                None => e.calls.advance(main, &states, &recipe, (&gradient, params), &sums, (&arrived, &orders))?,
            }
            let arenas = Arenas {
                gradient,
                params: row(&e.at.params),
                mean: row(&e.at.mean),
                square: row(&e.at.square),
                shadow: e.at.shadow.as_ref().map(|s| s.part(m * params, params)),
                average: None,
            };
            e.calls.optimise(main, &recipe, params, &orders, &arenas)?;
        }
        // Whoever was left out, or had a bad gradient, takes part in the next pass.
        copy_rows(main, field(offset_of!(State, active)), (lossless.ones.address(), 4), 4, p)
    }
}

fn fits(what: &str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(Error::Asked(format!("{got} {what}; {wanted} are wanted"))) }
}

/// Copies rows of `width` bytes, given each side's first address and the bytes from a row to the next.
fn copy_rows(stream: &Stream, to: (u64, usize), from: (u64, usize), width: usize, rows: usize) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    stream.context().bind()?;
    if to.1 == width && from.1 == width {
        // SAFETY: both sides were cut for these rows, and the stream is alive.
        let answer = unsafe { result::memcpy_dtod_async(to.0, from.0, width * rows, stream.raw()) };
        return stream.context().call("cuMemcpyDtoDAsync", answer);
    }
    let copy = sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: std::ptr::null(),
        srcDevice: from.0,
        srcArray: std::ptr::null_mut(),
        srcPitch: from.1,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: std::ptr::null_mut(),
        dstDevice: to.0,
        dstArray: std::ptr::null_mut(),
        dstPitch: to.1,
        WidthInBytes: width,
        Height: rows,
    };
    // SAFETY: as above.
    let answer = unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.raw()).result() };
    stream.context().call("cuMemcpy2DAsync", answer)
}

/// Sets words.
fn words(stream: &Stream, at: u64, word: u32, n: usize) -> Result<()> {
    stream.context().bind()?;
    // SAFETY: inside of what the caller cut, and the stream is alive.
    let answer = unsafe { sys::cuMemsetD32Async(at, word, n, stream.raw()).result() };
    stream.context().call("cuMemsetD32Async", answer)
}
