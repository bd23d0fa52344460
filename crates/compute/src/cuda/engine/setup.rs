//! Everything a population has on the card, in one slab: counted first, then laid out by the same code.

use super::small::{self, KernelPath, SmallPart};
use crate::cuda::calls::{self, Calls};
use crate::cuda::context::Context;
use crate::cuda::graph::Stream;
use crate::cuda::memory::{Slab, Slice, aligned};
use crate::cuda::workspace::PAIR;
use crate::error::{Error, Result};
use crate::net::{Layout, Net, init};
use crate::population::{Data, EpochState, Member, Pace, Precision, Recipe, SlotState, State};
use std::sync::Arc;

/// What modules, graphs and descriptors take beside slabs, with room to spare.
const BESIDE: u64 = 192 << 20;

/// What an engine takes beside its slab. Populations on a card share it; the need of every one counts it.
const SHARED: u64 = BESIDE + PAIR;

/// Where everything is.
pub(super) struct Arrays {
    pub(super) states: Slice<SlotState>,               // [P]
    pub(super) epochs: Option<Slice<EpochState>>,      // [P] where there are lists of samples
    pub(super) lists: Slice<u32>,                      // all lists, one behind the other
    pub(super) means: Vec<Option<Slice<f32>>>,         // [inputs] [P, features]
    pub(super) inverses: Vec<Option<Slice<f32>>>,      // [inputs] [P, features]
    pub(super) labels: Vec<Slice<u8>>,                 // [heads] [ids]
    pub(super) weights: Option<Slice<f32>>,            // [ids]
    pub(super) class_weights: Vec<Option<Slice<f32>>>, // [heads] [P, classes]
    pub(super) valid_at: Slice<u32>,                   // [P]
    pub(super) valid_count: Slice<u32>,                // [P]
    pub(super) params: Slice<f32>,                     // [P, params]
    pub(super) mean: Slice<f32>,                       // [P, params]
    pub(super) square: Slice<f32>,                     // [P, params]
    pub(super) gradient: Slice<f32>,                   // [P, params]
    pub(super) average: Option<Slice<f32>>,            // [P, params] where the recipe has one
    pub(super) shadow: Option<Slice<u16>>,             // [P, params] bf16
    pub(super) spare: Slice<f32>,                      // [params]
    pub(super) rows: Slice<u32>,                       // [P, B]
    pub(super) live: Slice<f32>,                       // [P, B]
    pub(super) values: Vec<Slice<u8>>,                 // [buffers] [P, B, stride] f32 or bf16
    pub(super) deltas: Vec<Slice<u8>>,                 // [buffers] the gradients there
    pub(super) wide: Slice<f32>,                       // [P, B, widest] gradients that are added up in f32
    pub(super) wide_concat: Slice<f32>, // [P, B, stride] the same of what towers read, which waits longer
    pub(super) logits: Vec<Slice<f32>>, // [heads] [P, B, width]
    pub(super) z: Slice<f32>,           // [P, B, widest] sums that are to be normalised
    pub(super) deviations: Vec<Slice<f32>>, // [linears] [P, B] one over them, of layers with a norm
    pub(super) norm_sums: Slice<f32>,   // [P, blocks, 2, widest] parts of norms' gradients
    pub(super) loss_partial: Slice<f64>, // [P, heads, blocks, 2]
    pub(super) bias_partial: Vec<Slice<f32>>, // [linears] [P, blocks, width]
    pub(super) head_partial: Slice<f32>, // [P, blocks, width of the last layer before a head]
    pub(super) norm_partial: Slice<f64>, // [P, blocks]
    pub(super) parts: Slice<f32>,       // [P, slices, params] parts of a small net's gradient
    pub(super) split: Slice<f32>,       // scratch of our own products
    pub(super) arrived: Slice<u32>,     // [P] blocks of `advance` that are done; 0 between steps
    pub(super) orders: Slice<u32>,      // [P, 6] what `advance` tells `optimise`
    pub(super) sums: Slice<f64>,        // [P, 2]
    pub(super) confusion: Vec<Slice<u64>>, // [heads] [P, classes, classes]
    pub(super) chunk: Slice<u32>,       // [1]
    /// Of recurrent layers in whole windows.
    pub(super) fused: Option<super::fused::Arrays>,
    pub(super) steps: Option<super::steps::Arrays>, // of recurrent layers that go step by step
    pub(super) added: Option<Added>,                // where a batch goes in parts
    pub(super) lossless: Option<super::nets::Arrays>, // where no loss of ours follows
}

/// What the parts of a batch leave for the next one.
pub(super) struct Added {
    pub(super) gradient: Slice<f32>, // [P, params] of the parts so far
    pub(super) loss: Slice<f64>,     // [P, 2] loss and weight of them
    pub(super) begin: Slice<u32>,    // [1] the first row of the part in its batch; 0 between steps
}

/// Cuts slices, or only counts them.
pub(super) enum Cutter<'s> {
    Count(u64),
    Cut(&'s mut Slab),
}

impl Cutter<'_> {
    pub(super) fn cut<T>(&mut self, len: usize) -> Result<Slice<T>> {
        match self {
            Cutter::Count(bytes) => {
                *bytes += aligned::<T>(len);
                Ok(Slice::none(len))
            }
            Cutter::Cut(slab) => slab.cut(len),
        }
    }
}

/// Elements of scratch that our own products need to add up slices of rows in order.
pub(super) fn split_elements(layout: &Layout, members: usize, batch: usize) -> usize {
    let slices = crate::cuda::own::slices(batch);
    if slices == 1 {
        return 0;
    }
    let widest = layout.linears.iter().map(|l| l.input.width * l.output.width).max().unwrap_or(0);
    members * slices * widest
}

/// Bytes on a card whose blocks may have so much shared memory, with [`SHARED`].
pub(crate) fn need(
    shared: u32,
    net: &Net,
    layout: &Layout,
    data: &Data<'_>,
    whole: &Recipe,
    members: &[Member],
    pace: Pace,
) -> u64 {
    let (plan, recipe) = PathPlan::new(KernelPath::Rule, shared, net, layout, whole, pace);
    memory_needed_by(plan, net, layout, data, &recipe, members)
}

/// The ways a net goes, as far as they decide what memory it takes.
#[derive(Clone, Copy)]
pub(super) struct PathPlan {
    pub(super) small_part: SmallPart,
    /// Shared memory that a block may have.
    pub(super) shared: u32,
    /// Rows of a whole batch.
    batch: usize,
    pub(super) path: KernelPath,
}

impl PathPlan {
    /// The ways a net goes, and the recipe with the rows of a part in the place of the batch's.
    pub(super) fn new(
        path: KernelPath,
        shared: u32,
        net: &Net,
        layout: &Layout,
        whole: &Recipe,
        pace: Pace,
    ) -> (PathPlan, Recipe) {
        let recipe = Recipe { batch: pace.rows(whole.batch), ..*whole };
        let small_part = match path.small_part(net, layout, &recipe) {
            // That kernel ends with the gradient of a whole batch; parts go layer by layer.
            SmallPart::Everything if recipe.batch < whole.batch => SmallPart::Logits,
            part => part,
        };
        (PathPlan { small_part, shared: path.shared(shared), batch: whole.batch, path }, recipe)
    }
}

/// The same for a net that is done in a certain way.
pub(super) fn memory_needed_by(
    plan: PathPlan,
    net: &Net,
    layout: &Layout,
    data: &Data<'_>,
    recipe: &Recipe,
    members: &[Member],
) -> u64 {
    let mut count = Cutter::Count(0);
    // Counting cannot fail.
    let _ = arrays(&mut count, plan, net, layout, data, recipe, members);
    let Cutter::Count(bytes) = count else { return u64::MAX };
    bytes + SHARED
}

fn arrays(
    cut: &mut Cutter<'_>,
    PathPlan { small_part, shared, batch, path }: PathPlan,
    net: &Net,
    layout: &Layout,
    data: &Data<'_>,
    recipe: &Recipe,
    members: &[Member],
) -> Result<Arrays> {
    let (p, b) = (members.len(), recipe.batch);
    let size = if recipe.precision == Precision::Bf16 { 2 } else { 4 };
    // A net in one kernel has no activations in memory, only the parts of its gradient.
    let whole = small_part == SmallPart::Everything;
    let b_kept = if whole { 0 } else { b };
    let arena = p * layout.params;
    // Nets that only predict have no gradients.
    let learns = path != KernelPath::Predict;
    let learned = if learns { arena } else { 0 };
    let heads = &layout.linears[layout.linears.len() - layout.heads..];
    let blocks = calls::most_blocks(b);
    let scaled = |i: usize| members.iter().any(|m| m.scales.get(i).is_some_and(Option::is_some));
    let weighted = |h: usize| members.iter().any(|m| m.class_weights.get(h).is_some_and(|w| !w.is_empty()));
    // Heads write logits, which are f32 and elsewhere; their buffers hold only the gradient.
    let is_head = |buffer: usize| heads.iter().any(|h| h.output.buffer == buffer);
    // What a norm keeps has no gradient of its own.
    let is_norm = |buffer: usize| layout.linears.iter().filter_map(|l| l.norm).any(|n| n.normed.buffer == buffer);
    // An input has a gradient where it is what LSTM layers before the net left.
    let is_read_back = |buffer: usize| layout.linears.iter().any(|l| l.passes_back && l.input.buffer == buffer);
    let buffer = |cut: &mut Cutter<'_>, i: usize, wanted: bool| {
        cut.cut(if wanted { p * b_kept * layout.buffers[i].stride * size } else { 0 })
    };
    let buffers = layout.buffers.len();
    let tiles = super::fused::tiles(layout, recipe, shared);
    let stepwise = tiles.is_none() && !layout.recurrents.is_empty();
    Ok(Arrays {
        states: cut.cut(p)?,
        epochs: (!path.lossless()).then(|| cut.cut(p)).transpose()?,
        lists: cut.cut(data.lists.iter().map(|l| l.len()).sum())?,
        means: optional(net.inputs.len(), |i| scaled(i).then(|| cut.cut(p * net.inputs[i].features)).transpose())?,
        inverses: optional(net.inputs.len(), |i| scaled(i).then(|| cut.cut(p * net.inputs[i].features)).transpose())?,
        labels: data.labels.iter().map(|l| cut.cut(l.len())).collect::<Result<_>>()?,
        weights: data.weights.map(|w| cut.cut(w.len())).transpose()?,
        class_weights: optional(net.heads.len(), |h| {
            weighted(h).then(|| cut.cut(p * net.heads[h].classes)).transpose()
        })?,
        valid_at: cut.cut(p)?,
        valid_count: cut.cut(p)?,
        params: cut.cut(arena)?,
        mean: cut.cut(learned)?,
        square: cut.cut(learned)?,
        gradient: cut.cut(learned)?,
        average: recipe.average.map(|_| cut.cut(arena)).transpose()?,
        shadow: (recipe.precision == Precision::Bf16).then(|| cut.cut(arena)).transpose()?,
        spare: cut.cut(layout.params)?,
        rows: cut.cut(p * b)?,
        live: cut.cut(p * b)?,
        values: (0..buffers).map(|i| buffer(cut, i, !is_head(i))).collect::<Result<_>>()?,
        deltas: (0..buffers)
            .map(|i| buffer(cut, i, learns && (i >= layout.inputs || is_read_back(i)) && !is_norm(i)))
            .collect::<Result<_>>()?,
        wide: cut.cut(if size == 2 { p * b_kept * widest(layout) } else { 0 })?,
        wide_concat: cut.cut(match layout.zeroed {
            Some(concat) if size == 2 => p * b_kept * layout.buffers[concat].stride,
            _ => 0,
        })?,
        z: cut.cut(p * b * super::between::widest(layout))?,
        deviations: (layout.linears.iter())
            .map(|l| cut.cut(if l.norm.is_some() { p * b } else { 0 }))
            .collect::<Result<_>>()?,
        norm_sums: cut.cut(p * blocks * 2 * super::between::widest(layout))?,
        logits: heads.iter().map(|h| cut.cut(p * b * h.output.width)).collect::<Result<_>>()?,
        loss_partial: cut.cut(p * heads.len() * blocks * 2)?,
        bias_partial: (layout.linears.iter())
            .map(|l| cut.cut(if whole { 0 } else { p * blocks * l.output.width }))
            .collect::<Result<_>>()?,
        head_partial: cut.cut(if whole { 0 } else { p * blocks * heads[0].input.width })?,
        norm_partial: cut.cut(p * calls::part_blocks(layout.params))?,
        parts: cut.cut(if whole { p * small::slices(b) * layout.params } else { 0 })?,
        split: cut.cut(if whole { 0 } else { split_elements(layout, p, b) })?,
        arrived: cut.cut(p)?,
        orders: cut.cut(p * calls::ORDER)?,
        sums: cut.cut(p * 2)?,
        confusion: net.heads.iter().map(|h| cut.cut(p * h.classes * h.classes)).collect::<Result<_>>()?,
        chunk: cut.cut(1)?,
        fused: tiles.map(|tiles| super::fused::arrays(cut, layout, b, p, tiles)).transpose()?,
        steps: stepwise.then(|| super::steps::arrays(cut, layout, recipe, p)).transpose()?,
        added: (b < batch)
            .then(|| -> Result<Added> {
                Ok(Added { gradient: cut.cut(arena)?, loss: cut.cut(2 * p)?, begin: cut.cut(1)? })
            })
            .transpose()?,
        lossless: path.lossless().then(|| super::nets::arrays(cut, net, p, b)).transpose()?,
    })
}

/// The widest buffer whose gradient has several sources or several makers.
fn widest(layout: &Layout) -> usize {
    let others = layout.linears.iter().filter(|l| layout.zeroed != Some(l.input.buffer));
    let shared = others.filter(|l| l.passes_back && super::products::single(layout, l).is_none());
    shared.map(|l| layout.buffers[l.input.buffer].stride).max().unwrap_or(0)
}

fn optional<T>(n: usize, each: impl FnMut(usize) -> Result<Option<T>>) -> Result<Vec<Option<T>>> {
    (0..n).map(each).collect()
}

/// Takes the slab, cuts it, and brings data and first weights to the card.
#[expect(clippy::too_many_arguments, reason = "a population is these things")]
pub(super) fn lay_out(
    context: &Arc<Context>,
    stream: &Stream,
    calls: &Calls,
    plan: PathPlan,
    net: &Net,
    layout: &Layout,
    data: &Data<'_>,
    recipe: &Recipe,
    members: &[Member],
    first: Option<&[Vec<f32>]>,
) -> Result<(Slab, Arrays)> {
    let bytes = memory_needed_by(plan, net, layout, data, recipe, members) - SHARED;
    let mut slab = context.slab(bytes)?;
    let at = arrays(&mut Cutter::Cut(&mut slab), plan, net, layout, data, recipe, members)?;
    stream.put(&at.lists, &data.lists.concat())?;
    for (i, input) in net.inputs.iter().enumerate() {
        let features = input.features;
        let scale = |what: fn(&crate::population::Scale) -> &Vec<f32>, none: f32| -> Vec<f32> {
            members
                .iter()
                .flat_map(|m| {
                    m.scales.get(i).and_then(Option::as_ref).map_or_else(|| vec![none; features], |s| what(s).clone())
                })
                .collect()
        };
        if let (Some(mean), Some(inverse)) = (&at.means[i], &at.inverses[i]) {
            stream.put(mean, &scale(|s| &s.mean, 0.0))?;
            stream.put(inverse, &scale(|s| &s.inverse, 1.0))?;
        }
    }
    for (to, labels) in at.labels.iter().zip(&data.labels) {
        stream.put(to, labels)?;
    }
    for (h, head) in net.heads.iter().enumerate() {
        if let Some(to) = &at.class_weights[h] {
            let one = |m: &Member| {
                m.class_weights.get(h).filter(|w| !w.is_empty()).cloned().unwrap_or_else(|| vec![1.0; head.classes])
            };
            stream.put(to, &members.iter().flat_map(one).collect::<Vec<f32>>())?;
        }
    }
    if let (Some(to), Some(weights)) = (&at.weights, data.weights) {
        stream.put(to, weights)?;
    }
    let starts = starts(data)?;
    // An empty list may begin behind the last sample; nobody looks there.
    let valid = |m: &Member| m.valid.filter(|list| !data.lists[*list].is_empty());
    let valid = |m: &Member| valid(m).map_or((0, 0), |list| (starts[list], data.lists[list].len() as u32));
    stream.put(&at.valid_at, &members.iter().map(|m| valid(m).0).collect::<Vec<u32>>())?;
    stream.put(&at.valid_count, &members.iter().map(|m| valid(m).1).collect::<Vec<u32>>())?;
    for slice in [&at.mean, &at.square, &at.gradient] {
        stream.fill(slice, 0)?;
    }
    // Activations are read by products before anything was written in a rehearsal, and padding is never written.
    for slice in at.values.iter().chain(&at.deltas) {
        stream.fill(slice, 0)?;
    }
    // Padding of the gradient's parts is never written either.
    for slice in at.logits.iter().chain([&at.wide, &at.wide_concat, &at.parts, &at.z]) {
        stream.fill(slice, 0)?;
    }
    if let Some(steps) = &at.steps {
        steps.clear(stream)?;
    }
    stream.fill(&at.rows, 0)?;
    stream.fill(&at.live, 0)?;
    stream.fill(&at.chunk, 0)?;
    stream.fill(&at.arrived, 0)?;
    if let Some(added) = &at.added {
        stream.fill(&added.begin, 0)?;
    }
    if let Some(lossless) = &at.lossless {
        lossless.begin(stream)?;
    }
    let states = first_states(members, data, &starts, plan.batch);
    stream.put(&at.states, &states.iter().map(|s| s.slot).collect::<Vec<SlotState>>())?;
    if let Some(epochs) = &at.epochs {
        stream.put(epochs, &states.iter().map(|s| s.epoch).collect::<Vec<EpochState>>())?;
    }
    for (slot, member) in members.iter().enumerate() {
        let row = at.params.part(slot * layout.params, layout.params);
        let first = first.map_or_else(|| init(layout, recipe.seed, member.id), |first| first[slot].clone());
        stream.put(&row, &first)?;
        if let Some(average) = &at.average {
            stream.put(&average.part(slot * layout.params, layout.params), &first)?;
        }
        if let Some(shadow) = &at.shadow {
            calls.to_bf16(stream, &row, &shadow.part(slot * layout.params, layout.params))?;
        }
    }
    stream.wait()?;
    Ok((slab, at))
}

/// Where each list begins in all of them.
fn starts(data: &Data<'_>) -> Result<Vec<u32>> {
    let mut at = 0u64;
    let mut starts = Vec::new();
    for list in &data.lists {
        starts.push(
            u32::try_from(at)
                .map_err(|_| Error::Invalid("the lists have more than 4,294,967,295 samples together".into()))?,
        );
        at += list.len() as u64;
    }
    Ok(starts)
}

fn first_states(members: &[Member], data: &Data<'_>, starts: &[u32], batch: usize) -> Vec<State> {
    let first = |(i, m): (usize, &Member)| match data.lists.get(m.train) {
        Some(list) => State::first(m, i, starts[m.train] as usize, list.len(), batch),
        // Without a list there are no epochs.
        None => State {
            slot: SlotState { id: m.id, index: i as u32, active: 1, ..SlotState::default() },
            ..State::default()
        },
    };
    members.iter().enumerate().map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::make::{Made, recipe};

    /// Members of batch 512 that fit into four fifths of a card with so many GB, as many as there are.
    fn fit(net: &str, gigabytes: u64, precision: Precision, shared: u32) -> usize {
        let made = Made::new(net, 2000);
        let layout = Layout::new(&made.net).unwrap();
        let members: Vec<Member> = (0..1024).map(|id| made.member(id)).collect();
        let (data, recipe) = (made.data(), recipe(512, precision));
        let budget = gigabytes * 1_000_000_000 / 5 * 4;
        let fits =
            |n: usize| need(shared, &made.net, &layout, &data, &recipe, &members[..n], Pace::default()) <= budget;
        (1..=members.len()).collect::<Vec<_>>().partition_point(|n| fits(*n))
    }

    #[test]
    fn desktop_cards_hold_whole_populations() {
        let (desktop, large) = (99 << 10, 227 << 10);
        let classifier = "16x50-lstm64-64-3";
        // A member of it keeps 6.6 MB of h and c and 1.3 to 1.9 MB of partial gradients.
        let seen = [8, 12, 24].map(|gigabytes| fit(classifier, gigabytes, Precision::Bf16, desktop));
        assert!(seen[0] > 500 && seen[1] > seen[0] * 14 / 10 && seen[2] == 1024, "{seen:?}");
        assert!(fit(classifier, 8, Precision::Bf16, large) >= seen[0]);
        // The user's large net: 3.1 M parameters, five copies of f32 and one of bf16 each.
        let wide = [8, 12, 24].map(|gigabytes| fit("128-2048-1024-512-3", gigabytes, Precision::Bf16, desktop));
        assert!(wide[0] >= 60 && wide[1] > wide[0] * 14 / 10 && wide[2] > wide[0] * 29 / 10, "{wide:?}");
    }
}
