//! Nets without a loss on a card: the engine of a population whose rows, gradients at the outputs and steps of the
//! optimiser come from elsewhere.
//!
//! Everything is put on a stream that is given, or on the engine's own, and can be captured in a graph: nothing is
//! allocated, and nothing waits. Outputs lie as `[P, B, padded]` f32 while a pass runs and are copied to where they are
//! wanted without their padding. A row's numbers of a dense input are one more table, with a row for every row of the
//! batch. Ids that others wrote on the card go through `take_ids`, so that every id that a gather reads is one of the
//! tables'.

mod calls;
mod heads;
mod inputs;

use super::products::Products;
use super::setup::{self, Cutter, PathPlan};
use super::small::{KernelPath, SmallPart};
use super::{Engine, Mode, Rows};
use crate::cuda::arguments::Address;
use crate::cuda::array::Array;
use crate::cuda::calls::{ORDER, part_blocks, rule_code};
use crate::cuda::context::{Context, lock_driver};
use crate::cuda::graph::{self, Event, Stream};
use crate::cuda::memory::{Slice, aligned};
use crate::error::{Error, Result};
use crate::net::{Layout, Linear, Net};
use crate::nets::{Hyper, MemberSetup, OnCard, Setup, StepOptions};
use crate::population::backend::{Arena, Backend};
use crate::population::{Data, Member, Pace, Pins, Precision, Recipe};
use crate::tables::Tables;
pub use calls::Hypers;
use calls::each;
pub(super) use calls::{BiasSum, BiasSums};
pub use heads::HeadOnCard;
pub(crate) use heads::head_slice;
use std::ops::Range;
use std::sync::Arc;

/// What only nets without a loss have.
pub(in crate::cuda) struct Arrays {
    extras: Vec<Option<Slice<f32>>>, // [inputs] [P, B, stride] numbers of dense inputs
    own: Slice<u32>,                 // [P, B] each row's own place, where there is a dense input
    windows: Slice<u64>,             // [tables, 2] the address of a map, or 0, and the rows of a window
    wrong: Slice<u64>,               // [1] 2^32 + an id that was none
}

impl Arrays {
    pub(super) fn begin(&self, stream: &Stream) -> Result<()> {
        for extras in self.extras.iter().flatten() {
            stream.fill(extras, 0)?;
        }
        stream.fill(&self.wrong, 0)?;
        stream.put(&self.own, &(0..self.own.len() as u32).collect::<Vec<u32>>())
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
        windows: cut.cut(2 * net.inputs.len())?,
        wrong: cut.cut(1)?,
    })
}

/// `[inputs]` where each one's rows lie.
pub(super) fn rows(net: &Net, tables: &Tables, at: &setup::Arrays) -> Result<Vec<Rows>> {
    let on = tables.on_card()?;
    let each = net.inputs.iter().enumerate().map(|(i, input)| {
        let Some(table) = net.table_of(i) else {
            let extras = at.lossless.as_ref().and_then(|l| l.extras[i]);
            let missing =
                || Error::Invalid(format!("input {} is dense; a population reads rows of tables only", input.name));
            return Ok(Rows { table: extras.ok_or_else(missing)?, stride: stride(input.features), map: None });
        };
        Ok(Rows { table: on.tables[table], stride: tables.stride(table), map: on.maps[table] })
    });
    each.collect()
}

/// The algorithms of a net's products, where a library does them.
pub(super) fn plans(
    context: &Arc<Context>,
    plan: PathPlan,
    layout: &Layout,
    recipe: &Recipe,
    pins: &Pins,
) -> Result<Pins> {
    // Outputs of a net that fits into one kernel are no products.
    if plan.small_part != SmallPart::Nothing {
        return Ok(Pins::default());
    }
    let mut made = Products::choose(context, layout, recipe, pins)?.pins();
    if super::fused::tiles(layout, recipe, plan.shared).is_none() {
        made.0.extend(super::steps::Plans::choose(context, layout, recipe, pins)?.pins().0);
    }
    Ok(made)
}

/// The algorithms that nets so set up take: those of `pins` where they are named there. Nets that only predict have
/// the way forward alone.
pub(crate) fn pins(context: &Arc<Context>, net: &Net, layout: &Layout, setup: &Setup, pins: &Pins) -> Result<Pins> {
    let (plan, recipe) =
        PathPlan::new(path(setup), context.gpu().shared, net, layout, &setup.recipe(), Pace::default());
    let mut made = plans(context, plan, layout, &recipe, pins)?;
    if setup.rule.is_none() {
        made.0.retain(|key, _| key.contains(" Forward: "));
    }
    Ok(made)
}

/// Nets of one shape on a card.
pub(crate) struct Nets {
    engine: Engine,
    calls: calls::Calls,
    /// What host calls give a step, where there is an optimiser.
    step_arrays: Option<(Hypers, Array<u32>)>,
    begun: Event,
    done: Event,
    /// Rows of the last pass on a stream, where a way back can follow it.
    rows: Option<usize>,
    /// Whether work was put on a stream of somebody else's: it may be under way whenever a host call comes.
    streamed: bool,
    /// An id whose windows are whole in every table.
    whole: Option<u32>,
    /// Where inputs go that one kernel takes, of nets that read rows of tables and dense numbers and nothing else.
    plain: Option<heads::PlainInputs>,
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

    /// The heads, each with where its outputs lie.
    fn heads(&self) -> impl Iterator<Item = (&Linear, &Slice<f32>)> {
        self.layout.linears.iter().skip(self.layout.linears.len() - self.layout.heads).zip(&self.at.logits)
    }

    /// Rows whose ids lie in place, or whose inputs do where they are `gathered`, through the net; outputs without
    /// their bias. What has a dropout leaves values out in training alone.
    fn outputs_of_rows(&self, first: usize, slots: usize, training: bool, gathered: bool) -> Result<()> {
        match self.path {
            KernelPath::CallersLoss => {
                let mode = if training || !self.layout.drops() { Mode::Step } else { Mode::Always };
                self.pass(first, slots, mode, gathered)
            }
            _ => self.logits_only(first, slots, gathered),
        }
    }

    /// The outputs of any rows of some slots, `[heads][n, rows, outputs]`, in chunks of the batch; the last one is
    /// filled up. Ids are the tables'.
    pub(super) fn outputs(
        &self,
        slots: Range<usize>,
        rows: usize,
        (ids, extras): (&[u32], &[f32]),
        training: bool,
        out: &mut [Vec<f32>],
    ) -> Result<()> {
        let (batch, n, main) = (self.recipe.batch, slots.len(), &self.main);
        let from = slots.start * batch;
        let _use = self.workspace.lock(main)?;
        let mut biases = Vec::new();
        for slot in slots.clone() {
            let params = self.arena(slot, Arena::Params)?;
            let bias = |(head, _): (&Linear, _)| main.get(&params.part(head.bias, head.outputs));
            biases.push(self.heads().map(bias).collect::<Result<Vec<_>>>()?);
        }
        for begin in (0..rows).step_by(batch) {
            let live = batch.min(rows - begin);
            let row = |m: usize, b: usize| m * rows + begin + if b < live { b } else { 0 };
            let places: Vec<usize> = (0..n).flat_map(|m| (0..batch).map(move |b| row(m, b))).collect();
            main.put(&self.at.rows.part(from, n * batch), &places.iter().map(|at| ids[*at]).collect::<Vec<u32>>())?;
            if self.path == KernelPath::CallersLoss {
                let alive: Vec<f32> = (0..n * batch).map(|i| if i % batch < live { 1.0 } else { 0.0 }).collect();
                main.put(&self.at.live.part(from, n * batch), &alive)?;
            }
            for (i, input) in self.net.inputs.iter().enumerate() {
                let Some(to) = self.at.lossless.as_ref().and_then(|l| l.extras[i]) else { continue };
                let (wide, all, at) = (stride(input.features), self.net.extras(), self.net.extra_of(i));
                let mut padded = vec![0.0; n * batch * wide];
                for (to, place) in padded.chunks_exact_mut(wide).zip(&places) {
                    to[..input.features].copy_from_slice(&extras[place * all + at..][..input.features]);
                }
                main.put(&to.part(from * wide, n * batch * wide), &padded)?;
            }
            self.outputs_of_rows(slots.start, n, training, false)?;
            for (h, (out, (head, made))) in out.iter_mut().zip(self.heads()).enumerate() {
                let (width, outputs) = (head.output.width, head.outputs);
                let made = main.get(&made.part(from * width, n * batch * width))?;
                for (m, made) in made.chunks_exact(batch * width).enumerate() {
                    let to = out[(m * rows + begin) * outputs..].chunks_exact_mut(outputs);
                    for (to, made) in to.zip(made.chunks_exact(width)).take(live) {
                        let each = to.iter_mut().zip(made).zip(&biases[m][h]);
                        each.for_each(|((to, z), bias)| *to = z + bias);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Parameters from which on a block of `end_step` has eight rounds.
const LARGE: usize = 1 << 18;

/// Members in a population's words.
fn members(net: &Net, member_setups: &[MemberSetup]) -> Vec<Member> {
    let member = |member_setup: &MemberSetup| Member {
        id: member_setup.id,
        train: 0,
        valid: None,
        epochs: 0,
        rate: 0.0,
        scales: if member_setup.scales.is_empty() { vec![None; net.inputs.len()] } else { member_setup.scales.clone() },
        class_weights: vec![vec![]; net.heads.len()],
    };
    member_setups.iter().map(member).collect()
}

fn nothing() -> Data<'static> {
    Data { labels: vec![], weights: None, lists: vec![] }
}

fn path(setup: &Setup) -> KernelPath {
    if setup.rule.is_some() { KernelPath::CallersLoss } else { KernelPath::Predict }
}

/// Bytes on a card whose blocks may have so much shared memory.
pub(crate) fn need(
    shared: u32,
    net: &Net,
    layout: &Layout,
    setup: &Setup,
    recipe: &Recipe,
    member_setups: &[MemberSetup],
) -> u64 {
    let (plan, recipe) = PathPlan::new(path(setup), shared, net, layout, recipe, Pace::default());
    setup::memory_needed_by(plan, net, layout, &nothing(), &recipe, &members(net, member_setups))
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
        member_setups: &[MemberSetup],
        pins: &Pins,
        first: &[Vec<f32>],
    ) -> Result<Nets> {
        let (members, data) = (members(net, member_setups), nothing());
        let (pace, p) = (Pace::default(), members.len());
        let path = path(setup);
        let engine = Engine::new(path, pace, context, net, layout, tables, &data, recipe, &members, pins, Some(first))?;
        let on = tables.on_card()?;
        let table = |(i, input): (usize, &crate::net::Input)| {
            let map = net.table_of(i).and_then(|t| on.maps[t]);
            // An input that reads no table asks nothing of an id.
            [map.map_or(0, |m| m.address()), if input.dense { 0 } else { input.window as u64 }]
        };
        if let Some(lossless) = &engine.at.lossless {
            let windows: Vec<u64> = net.inputs.iter().enumerate().flat_map(table).collect();
            engine.main.put(&lossless.windows, &windows)?;
        }
        let step_arrays = |_| -> Result<(Hypers, Array<u32>)> {
            Ok((Hypers::new(context, p)?, context.slab(aligned::<u32>(p))?.array(p)?))
        };
        Ok(Nets {
            calls: calls::Calls::load(context, recipe.precision == Precision::Bf16)?,
            step_arrays: setup.rule.map(step_arrays).transpose()?,
            begun: Event::new(context, false)?,
            done: Event::new(context, false)?,
            rows: None,
            streamed: false,
            whole: tables.first_whole(net),
            plain: heads::plain_inputs(net, layout).filter(|_| engine.small.is_none()),
            engine,
        })
    }

    /// The outputs of any rows, `[heads][n, rows, outputs]`.
    pub(crate) fn forward(
        &mut self,
        members: Range<usize>,
        rows: usize,
        given: (&[u32], &[f32]),
        training: bool,
        out: &mut [Vec<f32>],
    ) -> Result<()> {
        let _lock = lock_driver();
        self.rows = None;
        self.engine.outputs(members, rows, given, training, out)
    }

    /// The gradient from that at the outputs, `[heads][P, rows, outputs]`, of the rows that the last pass was of.
    pub(crate) fn backward(&mut self, rows: usize, d_out: &[&[f32]]) -> Result<()> {
        let _lock = lock_driver();
        let e = &self.engine;
        for (given, (head, to)) in d_out.iter().zip(e.heads()) {
            let (batch, width, outputs) = (e.recipe.batch, head.output.width, head.outputs);
            let mut padded = vec![0.0; to.len()];
            for (to, given) in padded.chunks_exact_mut(batch * width).zip(given.chunks_exact((rows * outputs).max(1))) {
                for (to, given) in to.chunks_exact_mut(width).zip(given.chunks_exact(outputs)) {
                    to[..outputs].copy_from_slice(given);
                }
            }
            e.main.put(to, &padded)?;
        }
        let padded: Vec<Array<f32>> = e.at.logits.iter().map(|to| e.slab.share(to)).collect();
        let _use = e.workspace.lock(&e.main)?;
        self.back(e.recipe.batch, true, &padded)?;
        e.main.wait()
    }

    /// One step of the optimiser; the norms of the gradients, not finite where one was bad.
    pub(crate) fn optimise(&mut self, hypers: &[Hyper], go: &[bool], parts: &[f32]) -> Result<Vec<f32>> {
        let _lock = lock_driver();
        let (main, context) = (&self.engine.main, &self.engine.context);
        let Some((card_hypers, mask)) = &self.step_arrays else { return Err(no_optimiser()) };
        let given = match parts.is_empty() {
            true => None,
            false => Some(context.slab(4 * parts.len() as u64)?.array(parts.len())?),
        };
        given.iter().try_for_each(|given| given.put(main, parts))?;
        card_hypers.put(main, hypers)?;
        mask.put(main, &go.iter().map(|go| u32::from(*go)).collect::<Vec<u32>>())?;
        self.update(card_hypers, StepOptions { mask: Some(mask), parts: given.as_ref(), norms: None })?;
        Ok(main.get(&self.engine.at.states)?.iter().map(|s| s.norm).collect())
    }

    /// A member's parameters and optimiser become another's, its step too.
    pub(crate) fn adopt(&mut self, from: usize, to: usize) -> Result<()> {
        self.copy(from, to)?;
        self.engine.main.wait()
    }

    pub(crate) fn read(&mut self, member: usize, arena: Arena) -> Result<Vec<f32>> {
        self.engine.read(member, arena)
    }

    pub(crate) fn write(&mut self, member: usize, arena: Arena, row: &[f32]) -> Result<()> {
        self.engine.write(member, arena, row)
    }

    /// Steps of the optimiser that a member has done.
    pub(crate) fn step(&mut self, member: usize) -> Result<u32> {
        Ok(self.engine.main.get(&self.engine.at.states)?[member].step)
    }

    pub(crate) fn set_step(&mut self, member: usize, step: u32) -> Result<()> {
        let Engine { main, at, .. } = &self.engine;
        let mut states = main.get(&at.states)?;
        states[member].step = step;
        main.put(&at.states, &states)
    }

    pub(crate) fn pins(&self) -> Pins {
        self.engine.pins()
    }

    /// Waits for what others put on their streams; an error where an id was none of the tables'.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let (true, Some(lossless)) = (self.streamed, &self.engine.at.lossless) else { return Ok(()) };
        let e = &self.engine;
        let _lock = lock_driver();
        e.context.wait()?;
        match e.main.get(&lossless.wrong)?[0] {
            0 => Ok(()),
            wrong => {
                e.main.fill(&lossless.wrong, 0)?;
                e.tables.check(&e.net, &[wrong as u32], "rows on the card")
            }
        }
    }

    /// `[heads]` new arrays `[P, rows, outputs]`.
    pub(crate) fn head_arrays(&self, rows: usize) -> Result<Vec<Array<f32>>> {
        let e = &self.engine;
        let elements: Vec<usize> = e.heads().map(|(head, _)| e.members * rows * head.outputs).collect();
        let mut slab = e.context.slab(elements.iter().map(|n| aligned::<f32>(*n)).sum())?;
        let made: Vec<Array<f32>> = elements.iter().map(|n| slab.array(*n)).collect::<Result<_>>()?;
        made.iter().try_for_each(|array| array.fill(&e.main, 0))?;
        e.main.wait()?;
        Ok(made)
    }

    /// Hyper-parameters of all members in the card's memory.
    pub(crate) fn hypers(&self, each: &[Hyper]) -> Result<Hypers> {
        let made = Hypers::new(&self.engine.context, self.engine.members)?;
        made.put(&self.engine.main, each)?;
        Ok(made)
    }

    /// `[P, params]`.
    pub(crate) fn params(&self) -> Array<f32> {
        self.engine.slab.share(&self.engine.at.params)
    }

    /// `[P, params]` in bf16.
    pub(crate) fn copies(&self) -> Option<Array<u16>> {
        self.engine.at.shadow.as_ref().map(|shadow| self.engine.slab.share(shadow))
    }

    /// What `work` puts on the engine's streams, in order with what is on another stream, and part of its graph where
    /// that is captured; the graph then keeps all memory of it.
    fn on(&mut self, stream: &Stream, work: impl FnOnce(&Nets) -> Result<()>) -> Result<()> {
        let _lock = lock_driver();
        let e = &self.engine;
        e.context.same(stream.context())?;
        if !self.streamed && stream.is_capturing()? {
            return Err(Error::Invalid(
                "these nets have not run on a stream yet; run them once before capturing a graph".into(),
            ));
        }
        graph::hold(stream, [e.slab.memory(), e.tables.on_card()?.memory(), e.workspace.memory()])?;
        self.streamed = true;
        self.begun.record(stream)?;
        e.main.after(&self.begun)?;
        work(self)?;
        self.done.record(&self.engine.main)?;
        stream.after(&self.done)
    }

    /// The outputs of all members, `[heads]` `[P, rows, outputs]`. A way back can follow where all rows go at once.
    pub(crate) fn forward_on(
        &mut self,
        stream: &Stream,
        given: OnCard<'_>,
        training: bool,
        out: &[Array<f32>],
    ) -> Result<()> {
        let e = &self.engine;
        let (rows, batch) = (e.members * given.rows, e.recipe.batch);
        let reads = !e.tables.is_empty();
        fits("ids", given.ids.map_or(0, Array::len), if reads { rows } else { 0 })?;
        fits("extras", given.extras.map_or(0, Array::len), rows * e.net.extras())?;
        self.fit_heads("outputs", given.rows, out)?;
        if u32::try_from(given.rows + batch).is_err() {
            return Err(Error::Invalid(format!("{} rows at once; at most 4 G are possible", given.rows)));
        }
        let whole = match self.whole {
            None if reads => {
                return Err(Error::Invalid("no id has whole windows in every table; give longer tables".into()));
            }
            whole => whole.unwrap_or(0),
        };
        self.rows = (given.rows <= batch && e.path == KernelPath::CallersLoss).then_some(given.rows);
        self.on(stream, |nets| {
            (0..given.rows).step_by(batch).try_for_each(|begin| nets.chunk(given, begin, whole, training, out))
        })
    }

    /// The rows of all members from `begin` on, as many as go at once.
    fn chunk(&self, given: OnCard<'_>, begin: usize, whole: u32, training: bool, out: &[Array<f32>]) -> Result<()> {
        let e = &self.engine;
        let Some(lossless) = &e.at.lossless else { return Err(no_optimiser()) };
        if e.calls.only_products {
            return e.outputs_of_rows(0, e.members, training, self.plain.is_some());
        }
        if self.plain.is_some() {
            self.take_rows(&e.main, given, begin, whole)?;
            e.outputs_of_rows(0, e.members, training, true)?;
            return self.give_outputs(given.rows, begin, out);
        }
        let (p, all, begin, batch) = (e.members, n(given.rows), n(begin), n(e.recipe.batch));
        let ids = calls::TakeIdsArgs {
            ids: given.ids.cloned(),
            windows: lossless.windows,
            rows: e.at.rows,
            live: e.at.live,
            wrong: lossless.wrong,
            tables: n(e.net.inputs.len()),
            count: n(e.tables.ids()),
            instead: whole,
            all,
            begin,
            batch,
        };
        each(&self.calls.take_ids, &e.main, (e.recipe.batch, 256), p, &ids)?;
        for (i, input) in e.net.inputs.iter().enumerate() {
            let (Some(to), Some(extras)) = (lossless.extras[i], given.extras) else { continue };
            let numbers = calls::TakeExtrasArgs {
                extras: extras.clone(),
                to,
                wide: n(e.net.extras()),
                column: n(e.net.extra_of(i)),
                features: n(input.features),
                stride: n(stride(input.features)),
                all,
                begin,
                batch,
            };
            each(&self.calls.take_extras, &e.main, (e.recipe.batch * input.features, 256), p, &numbers)?;
        }
        e.outputs_of_rows(0, p, training, false)?;
        self.give_outputs(given.rows, begin as usize, out)
    }

    /// Outputs of the rows from `begin` on, with their bias and without padding.
    fn give_outputs(&self, rows: usize, begin: usize, out: &[Array<f32>]) -> Result<()> {
        let e = &self.engine;
        let (p, all, begin, batch) = (e.members, n(rows), n(begin), n(e.recipe.batch));
        for (out, (head, z)) in out.iter().zip(e.heads()) {
            let made = calls::GiveOutputsArgs {
                z: *z,
                bias: Address(e.at.params.address() + 4 * head.bias as u64),
                bias_member: e.layout.params as u64,
                out: out.clone(),
                outputs: n(head.outputs),
                width: n(head.output.width),
                all,
                begin,
                batch,
            };
            each(&self.calls.give_outputs, &e.main, (e.recipe.batch * head.outputs, 256), p, &made)?;
        }
        Ok(())
    }

    /// The gradient of all members from that at the outputs of the last pass, `[heads]` `[P, rows, outputs]`.
    pub(crate) fn backward_on(&mut self, stream: &Stream, d_out: &[Array<f32>]) -> Result<()> {
        let Some(rows) = self.rows else {
            let most = self.engine.recipe.batch;
            return Err(Error::Invalid(format!(
                "a way back on a stream needs a forward pass on it, of at most {most} rows"
            )));
        };
        self.fit_heads("gradients", rows, d_out)?;
        self.on(stream, |nets| nets.back(rows, false, d_out))
    }

    /// One step of the optimiser.
    pub(crate) fn optimise_on(&mut self, stream: &Stream, hypers: &Hypers, given: StepOptions<'_>) -> Result<()> {
        let (p, params) = (self.engine.members, self.engine.layout.params);
        fits("hyper-parameters", hypers.members(), p)?;
        fits("words of a mask", given.mask.map_or(p, Array::len), p)?;
        fits("places for norms", given.norms.map_or(p, Array::len), p)?;
        let parts = given.parts.map_or(p * params, Array::len);
        if parts == 0 || !parts.is_multiple_of(p * params) {
            return Err(Error::Invalid(format!(
                "parts of {parts} numbers; give whole rows of {params} for {p} members"
            )));
        }
        self.on(stream, |nets| nets.update(hypers, given))
    }

    /// A member becomes another.
    pub(crate) fn adopt_on(&mut self, stream: &Stream, from: usize, to: usize) -> Result<()> {
        self.on(stream, |nets| nets.copy(from, to))
    }

    /// Whether passes on a stream do their products and nothing else.
    pub(crate) fn set_only_products(&mut self, only: bool) {
        self.engine.calls.only_products = only;
    }

    /// What follows parameters that somebody else wrote.
    pub(crate) fn params_changed_on(&mut self, stream: &Stream) -> Result<()> {
        self.on(stream, |nets| match &nets.engine.at.shadow {
            Some(shadow) => nets.engine.calls.to_bf16(&nets.engine.main, &nets.engine.at.params, shadow),
            None => Ok(()),
        })
    }

    /// From a gradient at the outputs, padded or not, back to the weights.
    fn back(&self, rows: usize, padded: bool, d_out: &[Array<f32>]) -> Result<()> {
        let e = &self.engine;
        for (from, (head, _)) in d_out.iter().zip(e.heads()).filter(|_| !e.calls.only_products) {
            let given = calls::TakeGradientsArgs {
                from: from.clone(),
                to: Address(e.at.deltas[head.output.buffer].address()),
                outputs: n(if padded { head.output.width } else { head.outputs }),
                width: n(head.output.width),
                all: n(rows),
                batch: n(e.recipe.batch),
            };
            let elements = e.recipe.batch * head.output.width;
            each(&self.calls.take_gradients, &e.main, (elements, 256), e.members, &given)?;
        }
        e.backward(0, e.members)
    }

    /// The optimiser of every member.
    fn update(&self, hypers: &Hypers, given: StepOptions<'_>) -> Result<()> {
        let e = &self.engine;
        let (at, params, p) = (&e.at, e.layout.params, e.members);
        let orders = Address(at.orders.part(0, p * ORDER).address());
        let rule = rule_code(e.recipe.optimiser.rule);
        // By the parameters alone, because the norm is added by it.
        let rounds = if params > LARGE { 8 } else { 1 };
        let end = calls::EndStepArgs {
            states: at.states,
            grads: at.gradient,
            params: params as u64,
            parts: given.parts.cloned(),
            mask: given.mask.cloned(),
            norms: given.norms.cloned(),
            each: hypers.clone(),
            norm_partial: at.norm_partial.part(0, p * part_blocks(params)),
            arrived: at.arrived,
            orders,
            count: n(given.parts.map_or(0, |parts| parts.len() / (p * params))),
            rule,
            rounds: n(rounds),
        };
        each(&self.calls.end_step, &e.main, (params, 1024 * rounds), p, &end)?;
        let step = calls::OptimiseEachArgs {
            params: params as u64,
            orders,
            grads: at.gradient,
            master: at.params,
            mean: at.mean,
            square: at.square,
            copy: at.shadow,
            average: None,
            each: hypers.clone(),
            rule,
        };
        each(&self.calls.optimise_each, &e.main, (params, 4096), p, &step)
    }

    /// One copy of everything that a member has learned.
    fn copy(&self, from: usize, to: usize) -> Result<()> {
        let (e, at) = (&self.engine, &self.engine.at);
        let learned = |arena: Slice<f32>| (!arena.is_empty()).then_some(arena);
        let copy = calls::AdoptArgs {
            states: at.states,
            master: at.params,
            mean: learned(at.mean),
            square: learned(at.square),
            copy: at.shadow,
            params: e.layout.params as u64,
            from: n(from),
            to: n(to),
        };
        each(&self.calls.adopt, &e.main, (e.layout.params, 1024), 1, &copy)
    }

    /// Whether there is an array for each head, as long as all rows have outputs.
    fn fit_heads(&self, what: &str, rows: usize, given: &[Array<f32>]) -> Result<()> {
        let e = &self.engine;
        fits(&format!("arrays of {what}"), given.len(), e.layout.heads)?;
        let mut each = given.iter().zip(e.heads());
        each.try_for_each(|(given, (head, _))| {
            fits(&format!("{what} of {}", head.name), given.len(), e.members * rows * head.outputs)
        })
    }
}

fn n(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn no_optimiser() -> Error {
    Error::Invalid("these nets have no optimiser".into())
}

fn fits(what: &str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(Error::Invalid(format!("{got} {what}; {wanted} are wanted"))) }
}
