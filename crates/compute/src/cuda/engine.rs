//! The CUDA twin of a population: one step graph and one score graph for every number of slots, replayed. Batches that
//! go in parts have one graph for every part, which a counter on the device leads through the batch, and one for the
//! end of the step.
//!
//! `setup` takes one slab and lays everything out in it, `products` chooses the way of every matrix product once,
//! `step` puts one step on the streams, in the order in which `population/backend.rs` tells it. Weight gradients go to
//! a side stream and run beside the gradients of activations, which wait for nobody.

mod between;
mod fused;
mod nets;
mod products;
mod setup;
mod small;
mod stack;
mod step;
mod steps;
mod twins;

use super::context::{Context, lock_driver};
use super::graph::{Event, Graph, Stream};
use super::memory::{Slab, Slice};
use super::workspace::Workspace;
use crate::error::{Error, Result};
use crate::net::{Layout, Net};
use crate::population::backend::{Arena, Backend, Sums, no_average};
use crate::population::{Data, EpochState, Member, Pace, Pins, Precision, Recipe, SlotState, State};
use crate::tables::Tables;
use products::Products;
use small::SmallPart;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use nets::{HeadOnCard, Hypers};
pub(crate) use nets::{Nets, head_slice, need as nets_need, pins as nets_pins};
pub(crate) use setup::need;
pub(crate) use small::KernelPath;
pub use stack::{Segment, SequencePass, SequencesOnCard, Stack};

/// A population on a card.
pub(crate) struct Engine {
    // Graphs hold addresses of the slab and functions of the modules: they go first.
    graphs: BTreeMap<(Work, usize), Graph>,
    products: Products,
    /// Recurrent layers in whole windows.
    fused: Option<fused::Fused>,
    /// Recurrent layers that go step by step.
    steps: Option<steps::Steps>,
    small: Option<small::SmallKernels>,
    /// Norms and values left out, where the net has any.
    between: Option<super::between::Between>,
    small_part: SmallPart,
    calls: super::calls::Calls,
    bias_sums: nets::BiasSums,
    at: setup::Arrays,
    /// Scratch memory of the two streams.
    workspace: Arc<Workspace>,
    main: Stream,
    side: Stream,
    /// Forks and joins: one for each layer, one for the end.
    events: Vec<Event>,
    tables: Arc<Tables>,
    /// `[inputs]` where they lie.
    rows: Vec<Rows>,
    path: KernelPath,
    layout: Layout,
    net: Net,
    /// Its batch has the rows that go through the net at once: a part of the batch where that goes in parts.
    recipe: Recipe,
    /// Rows of a whole batch.
    batch: usize,
    /// Longest validation list.
    longest: usize,
    members: usize,
    slab: Slab,
    context: Arc<Context>,
}

/// One input's rows on the card.
struct Rows {
    table: Slice<f32>, // [rows, stride]
    stride: usize,
    map: Option<Slice<u32>>, // [ids]
}

/// What a graph does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Step,
    /// A part of a step's batch.
    Part,
    /// What follows a step's last part.
    End,
    Score,
}

/// Which slots a kernel works on; the kernels' own numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Mode {
    /// Those that are active and not due.
    #[default]
    Step = 0,
    /// Those that are due.
    Score = 1,
    /// All of them.
    Always = 2,
}

impl Engine {
    /// Sets a population up on a path and at a pace: memory, data, first weights (given or drawn), plans.
    #[expect(clippy::too_many_arguments, reason = "a population is these things")]
    pub(crate) fn new(
        path: KernelPath,
        pace: Pace,
        context: &Arc<Context>,
        net: &Net,
        layout: &Layout,
        tables: &Arc<Tables>,
        data: &Data<'_>,
        recipe: &Recipe,
        members: &[Member],
        pins: &Pins,
        first: Option<&[Vec<f32>]>,
    ) -> Result<Engine> {
        let batch = recipe.batch;
        let (plan, recipe) = setup::PathPlan::new(path, context.gpu().shared, net, layout, recipe, pace);
        let (small_part, recipe) = (plan.small_part, &recipe);
        // The last dimensions of a grid end at 65,535; slots and slices of rows lie there.
        if members.len() > 4095 || recipe.batch > 1 << 22 {
            let wanted = format!("{} members and batches of {} on a card", members.len(), recipe.batch);
            return Err(Error::Invalid(format!(
                "{wanted}; at most 4,095 members at once and 4,194,304 rows are possible"
            )));
        }
        let tiles = fused::tiles(layout, recipe, plan.shared);
        if tiles.is_none() {
            steps::check(layout, recipe)?;
        }
        let _lock = lock_driver();
        let main = Stream::new(context)?;
        let side = Stream::new(context)?;
        let calls = super::calls::Calls::load(context, recipe.precision == Precision::Bf16)?;
        let (slab, at) = setup::lay_out(context, &main, &calls, plan, net, layout, data, recipe, members, first)?;
        let rows = nets::rows(net, tables, &at)?;
        // A model may be asked on another card, or with another library, than it was trained with.
        let none = Pins::default();
        let stale = path == KernelPath::Predict && nets::plans(context, plan, layout, recipe, pins).is_err();
        let pins = if stale { &none } else { pins };
        let products = match small_part {
            SmallPart::Everything => Products::default(),
            _ => Products::choose(context, layout, recipe, pins)?,
        };
        let small = match small_part {
            SmallPart::Nothing => None,
            _ => Some(small::SmallKernels::load(context, layout, recipe, small_part, path)?),
        };
        let bf16 = recipe.precision == Precision::Bf16;
        let between = between::has_any(layout).then(|| super::between::Between::load(context, bf16)).transpose()?;
        let fused = tiles.map(|tiles| fused::Fused::new(context, layout, tiles)).transpose()?;
        let steps = at.steps.is_some().then(|| steps::Steps::new(context, layout, recipe, pins)).transpose()?;
        let workspace = if path.lossless() { Workspace::new(context)? } else { context.workspace()? };
        let events = (0..=layout.linears.len()).map(|_| Event::new(context, false)).collect::<Result<_>>()?;
        let longest = members.iter().filter_map(|m| m.valid).map(|list| data.lists[list].len()).max().unwrap_or(0);
        Ok(Engine {
            graphs: BTreeMap::new(),
            products,
            fused,
            steps,
            small,
            between,
            small_part,
            bias_sums: nets::BiasSums::load(context)?,
            calls,
            at,
            workspace,
            main,
            side,
            events,
            tables: tables.clone(),
            rows,
            path,
            layout: layout.clone(),
            net: net.clone(),
            recipe: *recipe,
            batch,
            longest,
            members: members.len(),
            slab,
            context: context.clone(),
        })
    }

    /// Captures a graph, unless there is one.
    fn capture_graph(&mut self, work: Work, slots: usize) -> Result<()> {
        if self.graphs.contains_key(&(work, slots)) {
            return Ok(());
        }
        let _lock = lock_driver();
        self.warm_up(slots)?;
        let graph = self.main.capture(|| match work {
            Work::Step => self.step(0, slots),
            Work::Part => self.part(0, slots),
            Work::End => self.end(0, slots),
            Work::Score => self.score_chunk(0, slots),
        })?;
        self.graphs.insert((work, slots), graph);
        Ok(())
    }

    /// Parts of a batch.
    fn parts(&self) -> u32 {
        u32::try_from(self.batch.div_ceil(self.recipe.batch)).unwrap_or(u32::MAX)
    }

    /// Replays a graph.
    fn replay(&self, work: Work, slots: usize, times: u32) -> Result<()> {
        let _use = self.workspace.lock(&self.main)?;
        (0..times).try_for_each(|_| self.graphs[&(work, slots)].launch(&self.main))
    }

    /// One step without a graph, to hold the graph against.
    #[cfg(test)]
    pub(super) fn step_without_graph(&mut self, slots: usize) -> Result<()> {
        let _lock = lock_driver();
        let _use = self.workspace.lock(&self.main)?;
        self.step(0, slots)?;
        self.main.wait()
    }

    /// Takes Hopper's units wherever they can do a product, however small; says for how many layers.
    #[cfg(test)]
    pub(super) fn on_hopper(&mut self) -> usize {
        self.graphs.clear();
        self.products.on_hopper(&self.context, &self.layout, &self.recipe)
    }

    /// Everything once with nobody active, so that every kernel and plan is loaded before it is captured.
    fn warm_up(&mut self, slots: usize) -> Result<()> {
        let states = self.main.get(&self.at.states)?;
        let asleep: Vec<SlotState> = states.iter().map(|s| SlotState { active: 0, due: 0, ..*s }).collect();
        self.main.put(&self.at.states, &asleep)?;
        let used = self.workspace.lock(&self.main)?;
        self.step(0, slots)?;
        self.score_chunk(0, slots)?;
        drop(used);
        self.main.wait()?;
        self.main.put(&self.at.states, &states)
    }

    fn arena(&self, slot: usize, arena: Arena) -> Result<Slice<f32>> {
        let all = match arena {
            Arena::Params => &self.at.params,
            Arena::Mean => &self.at.mean,
            Arena::Square => &self.at.square,
            Arena::Gradient => &self.at.gradient,
            Arena::Average => self.at.average.as_ref().ok_or_else(no_average)?,
        };
        Ok(all.part(slot * self.layout.params, self.layout.params))
    }

    /// Exchanges two rows of arenas.
    fn swap_rows(&self, a: &Slice<f32>, b: &Slice<f32>) -> Result<()> {
        self.main.copy(&self.at.spare, a)?;
        self.main.copy(a, b)?;
        self.main.copy(b, &self.at.spare)
    }

    /// Exchanges the weights and their average in some slots, where there is one: once before a score, once after it,
    /// so that everything that makes logits finds the average where the weights lie.
    fn swap_average(&self, slots: std::ops::Range<usize>) -> Result<()> {
        if self.at.average.is_none() {
            return Ok(());
        }
        for slot in slots {
            self.swap_rows(&self.arena(slot, Arena::Params)?, &self.arena(slot, Arena::Average)?)?;
            self.shadow(slot)?;
        }
        Ok(())
    }

    /// The copy of one slot's parameters that products read.
    fn shadow(&self, slot: usize) -> Result<()> {
        match &self.at.shadow {
            Some(shadow) => {
                let row = self.layout.params;
                self.calls.to_bf16(&self.main, &self.arena(slot, Arena::Params)?, &shadow.part(slot * row, row))
            }
            None => Ok(()),
        }
    }
}

fn no_epochs() -> Error {
    Error::Invalid("these nets have no lists of samples, so no epochs either".into())
}

impl Backend for Engine {
    fn steps(&mut self, slots: usize, steps: u32) -> Result<()> {
        if let Some((small, most)) = self.small.as_ref().and_then(|small| Some((small, small.steps_per_launch()?))) {
            let _lock = lock_driver();
            return (0..steps)
                .step_by(most as usize)
                .try_for_each(|done| self.small_steps(small, 0, slots, most.min(steps - done)).map(drop));
        }
        let parts = self.parts();
        if parts > 1 {
            self.capture_graph(Work::Part, slots)?;
            self.capture_graph(Work::End, slots)?;
            return (0..steps).try_for_each(|_| {
                self.replay(Work::Part, slots, parts)?;
                self.replay(Work::End, slots, 1)
            });
        }
        self.capture_graph(Work::Step, slots)?;
        self.replay(Work::Step, slots, steps)
    }

    fn prepare(&mut self, slots: usize) -> Result<()> {
        // No step at all: kernels, plans and graphs are made, and nothing is run.
        Backend::steps(self, slots, 0)?;
        if self.longest > 0 { self.capture_graph(Work::Score, slots) } else { Ok(()) }
    }

    fn states(&mut self) -> Result<Vec<State>> {
        let epochs = self.at.epochs.as_ref().ok_or_else(no_epochs)?;
        let (slots, epochs) = (self.main.get(&self.at.states)?, self.main.get(epochs)?);
        Ok(slots.into_iter().zip(epochs).map(|(slot, epoch)| State { slot, epoch }).collect())
    }

    fn set_states(&mut self, states: &[State]) -> Result<()> {
        let epochs = self.at.epochs.as_ref().ok_or_else(no_epochs)?;
        self.main.put(&self.at.states, &states.iter().map(|s| s.slot).collect::<Vec<SlotState>>())?;
        self.main.put(epochs, &states.iter().map(|s| s.epoch).collect::<Vec<EpochState>>())
    }

    fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        if a == b {
            return Ok(());
        }
        let average = self.at.average.is_some().then_some(Arena::Average);
        for arena in [Arena::Params, Arena::Mean, Arena::Square, Arena::Gradient].into_iter().chain(average) {
            self.swap_rows(&self.arena(a, arena)?, &self.arena(b, arena)?)?;
        }
        self.shadow(a)?;
        self.shadow(b)?;
        let mut states = self.states()?;
        states.swap(a, b);
        self.set_states(&states)
    }

    fn adopt(&mut self, from: usize, to: usize) -> Result<()> {
        let average = self.at.average.is_some().then_some(Arena::Average);
        for arena in [Arena::Params, Arena::Mean, Arena::Square].into_iter().chain(average) {
            self.main.copy(&self.arena(to, arena)?, &self.arena(from, arena)?)?;
        }
        self.shadow(to)
    }

    fn score(&mut self, slots: usize) -> Result<Vec<Sums>> {
        self.capture_graph(Work::Score, slots)?;
        self.main.fill(&self.at.sums, 0)?;
        self.main.fill(&self.at.chunk, 0)?;
        for confusion in &self.at.confusion {
            self.main.fill(confusion, 0)?;
        }
        let chunks = self.longest.div_ceil(self.recipe.batch);
        self.swap_average(0..slots)?;
        self.replay(Work::Score, slots, u32::try_from(chunks).unwrap_or(u32::MAX))?;
        self.swap_average(0..slots)?;
        let sums = self.main.get(&self.at.sums)?;
        let confusion: Vec<Vec<u64>> = self.at.confusion.iter().map(|c| self.main.get(c)).collect::<Result<_>>()?;
        let states = self.states()?;
        let each = (0..self.members).map(|slot| {
            if slot >= slots || states[slot].slot.due == 0 {
                return Sums::default();
            }
            let cut = |counts: &Vec<u64>| {
                let size = counts.len() / self.members;
                counts[slot * size..(slot + 1) * size].to_vec()
            };
            Sums { loss: sums[2 * slot], weight: sums[2 * slot + 1], confusion: confusion.iter().map(cut).collect() }
        });
        Ok(each.collect())
    }

    fn logits(&mut self, slot: usize, rows: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.tables.check(&self.net, rows, "these samples")?;
        let _lock = lock_driver();
        self.swap_average(slot..slot + 1)?;
        let heads = &self.layout.linears[self.layout.linears.len() - self.layout.heads..];
        let mut made: Vec<Vec<f32>> = heads.iter().map(|head| vec![0.0; rows.len() * head.outputs]).collect();
        self.outputs(slot..slot + 1, rows.len(), (rows, &[]), false, &mut made)?;
        self.swap_average(slot..slot + 1)?;
        Ok(made)
    }

    fn read(&mut self, slot: usize, arena: Arena) -> Result<Vec<f32>> {
        self.main.get(&self.arena(slot, arena)?)
    }

    fn write(&mut self, slot: usize, arena: Arena, values: &[f32]) -> Result<()> {
        self.main.put(&self.arena(slot, arena)?, values)?;
        if arena == Arena::Params { self.shadow(slot) } else { Ok(()) }
    }

    fn pins(&self) -> Pins {
        let mut pins = self.products.pins();
        pins.0.extend(self.steps.iter().flat_map(|s| s.plans.pins().0));
        pins
    }

    fn tune(&mut self) -> Result<()> {
        let _lock = lock_driver();
        self.main.wait()?;
        let workspace = self.workspace.clone();
        let mut products = self.products.clone();
        let used = workspace.lock(&self.main)?;
        products.tune(self)?;
        drop(used);
        self.products = products;
        if let Some(mut plans) = self.steps.as_ref().map(|s| s.plans.clone()) {
            let used = workspace.lock(&self.main)?;
            plans.tune(self)?;
            drop(used);
            self.steps.iter_mut().for_each(|s| s.plans = plans.clone());
        }
        // Graphs hold the old plans.
        self.graphs.clear();
        Ok(())
    }

    fn kernel_paths(&self) -> Vec<String> {
        let fused = self.fused.iter().flat_map(|fused| fused.describe(&self.layout));
        let steps = self.steps.iter().flat_map(|s| s.plans.describe());
        let small = self.small.iter().map(|small| small.describe(self.small_part));
        let parts = (self.parts() > 1)
            .then(|| format!("batches of {} in {} parts of {}", self.batch, self.parts(), self.recipe.batch));
        parts.into_iter().chain(fused).chain(steps).chain(self.products.describe()).chain(small).collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Nothing may still run on memory that is about to go. The whole card is not waited for: that would break a
        // capture on another thread.
        let _ = self.main.wait();
        let _ = self.side.wait();
    }
}
