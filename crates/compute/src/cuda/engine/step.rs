//! One step, put on the streams: gather, forward, loss, backward, optimise, advance.

use super::products::{ProductKind, ProductPath, hopper_shape, single};
use super::small::{self, KernelPath, SmallPart};
use super::{Engine, Mode};
use crate::cuda::calls::{
    self, AddPartArgs, Arenas, ChoosePartArgs, GatherArgs, HeadArgs, InArena, LossArgs, NextPartArgs, Partials, Rows,
    ScoreSumArgs, Sums,
};
use crate::cuda::graph::Stream;
use crate::cuda::hopper;
use crate::cuda::memory::Slice;
use crate::cuda::own::Linear;
use crate::cuda::workspace::WORKSPACE;
use crate::error::Result;
use crate::net::{Activation, Layout};
use crate::population::{EpochState, Recipe, SlotState};

impl Engine {
    /// One step of the slots from `first` on.
    pub(super) fn step(&self, first: usize, slots: usize) -> Result<()> {
        if let (SmallPart::Everything, Some(small)) = (self.small_part, &self.small)
            && self.small_steps(small, first, slots, 1)?
        {
            return Ok(());
        }
        if let (SmallPart::Everything, Some(small)) = (self.small_part, &self.small) {
            self.small_whole(small, first, slots, Mode::Step)?;
            return self.end(first, slots);
        }
        if self.at.added.is_some() {
            (0..self.parts()).try_for_each(|_| self.part(first, slots))?;
            return self.end(first, slots);
        }
        self.forward(first, slots, Mode::Step, true)?;
        self.losses(first, slots, Mode::Step)?;
        self.backward(first, slots)?;
        self.end(first, slots)
    }

    /// The gradient of the part of the batch that the device stands at, added to those before it; then it stands at the
    /// next one.
    pub(super) fn part(&self, first: usize, slots: usize) -> Result<()> {
        let (at, params, rows) = (&self.at, self.layout.params, self.recipe.batch);
        let Some(added) = &at.added else { return Ok(()) };
        let (states, begin, batch) = (self.states_of(first, slots), added.begin, self.batch);
        let rows_of_part = ChoosePartArgs {
            states,
            epochs: self.epochs_of(first, slots),
            seed: self.recipe.seed,
            begin,
            lists: at.lists,
            rows: at.rows.part(first * rows, slots * rows),
            live: at.live.part(first * rows, slots * rows),
            batch,
            part: rows,
        };
        self.calls.choose_part(&self.main, &rows_of_part)?;
        self.forward(first, slots, Mode::Step, false)?;
        self.losses(first, slots, Mode::Step)?;
        self.backward(first, slots)?;
        let row = |arena: &Slice<f32>| arena.part(first * params, slots * params);
        let sums = self.partials(first, slots, Mode::Step);
        let sum = AddPartArgs {
            states,
            begin,
            sum: row(&added.gradient),
            grads: row(&at.gradient),
            params,
            loss_partial: sums.loss,
            loss_sum: added.loss.part(2 * first, 2 * slots),
            batch,
            part: rows,
            loss_blocks: sums.loss_blocks,
        };
        self.calls.add_part(&self.main, &sum)?;
        self.calls.next_part(&self.main, &NextPartArgs { begin, batch, part: rows })
    }

    /// What follows the gradient: the state after the step, and the optimiser.
    pub(super) fn end(&self, first: usize, slots: usize) -> Result<()> {
        let (at, params) = (&self.at, self.layout.params);
        let epochs = self.epochs_of(first, slots);
        let states = (&self.states_of(first, slots), epochs.as_ref());
        let mut sums = self.partials(first, slots, Mode::Step);
        let row = |arena: &Slice<f32>| arena.part(first * params, slots * params);
        let arenas = Arenas {
            gradient: row(&at.gradient),
            params: row(&at.params),
            mean: row(&at.mean),
            square: row(&at.square),
            shadow: at.shadow.as_ref().map(|s| s.part(first * params, slots * params)),
            average: at.average.as_ref().map(row),
        };
        let orders = at.orders.part(first * calls::ORDER, slots * calls::ORDER);
        let arrived = at.arrived.part(first, slots);
        let gradient = (&arenas.gradient, params);
        if self.small_part == SmallPart::Everything {
            let count = small::slices(self.recipe.batch);
            let parts = at.parts.part(first * count * params, slots * count * params);
            let (parts, words) = ((&parts, count), (&arrived, &orders));
            self.calls.add_parts(&self.main, states, &self.recipe, gradient, parts, &sums, words)?;
        } else {
            // The parts have added up what they lost and weighed.
            if let Some(added) = &at.added {
                (sums.loss, sums.loss_blocks) = (added.loss.part(2 * first, 2 * slots), 1);
            }
            let whole = Recipe { batch: self.batch, ..self.recipe };
            self.calls.advance(&self.main, states, &whole, gradient, &sums, (&arrived, &orders))?;
        }
        self.calls.optimise(&self.main, &self.recipe, params, &orders, &arenas)
    }

    /// One chunk of the validation lists.
    pub(super) fn score_chunk(&self, first: usize, slots: usize) -> Result<()> {
        if let (SmallPart::Everything, Some(small)) = (self.small_part, &self.small) {
            self.small_whole(small, first, slots, Mode::Score)?;
        } else {
            self.forward(first, slots, Mode::Score, true)?;
            self.losses(first, slots, Mode::Score)?;
        }
        let sums = self.partials(first, slots, Mode::Score);
        let args = ScoreSumArgs {
            states: self.states_of(first, slots),
            loss_partial: sums.loss,
            sums: self.at.sums.part(2 * first, 2 * slots),
            chunk: self.at.chunk,
            loss_blocks: sums.loss_blocks,
        };
        self.calls.score_sum(&self.main, &args)
    }

    /// Logits of rows that lie in `rows` already, or whose inputs are `gathered`.
    pub(super) fn logits_only(&self, first: usize, slots: usize, gathered: bool) -> Result<()> {
        if let Some(small) = &self.small {
            return self.small_logits(small, first, slots);
        }
        self.pass(first, slots, Mode::Always, gathered)?;
        if self.fused_head() { self.head(first, slots, Mode::Always) } else { Ok(()) }
    }

    pub(super) fn states_of(&self, first: usize, slots: usize) -> Slice<SlotState> {
        self.at.states.part(first, slots)
    }

    /// A place in the parameters of the slots from `first` on.
    pub(super) fn in_params(&self, first: usize, offset: usize) -> InArena {
        let params = self.layout.params;
        InArena { at: self.at.params.address() + 4 * (first * params + offset) as u64, params }
    }

    /// The epochs of some slots, where there are lists of samples.
    pub(super) fn epochs_of(&self, first: usize, slots: usize) -> Option<Slice<EpochState>> {
        self.at.epochs.as_ref().map(|epochs| epochs.part(first, slots))
    }

    /// The partial sums of norms, losses and weights.
    pub(super) fn partials(&self, first: usize, slots: usize, mode: Mode) -> Partials {
        let params = self.layout.params;
        let (norm_blocks, loss_blocks) = match self.small_part {
            SmallPart::Everything if mode == Mode::Score => {
                (calls::part_blocks(params), small::score_blocks(self.recipe.batch))
            }
            SmallPart::Everything => (calls::part_blocks(params), small::slices(self.recipe.batch)),
            _ if self.path == KernelPath::CallersLoss => (calls::part_blocks(params), 1),
            _ => (calls::norm_blocks(params), self.layout.heads * self.loss_blocks()),
        };
        Partials {
            norm: self.at.norm_partial.part(first * norm_blocks, slots * norm_blocks),
            loss: self.at.loss_partial.part(first * loss_blocks * 2, slots * loss_blocks * 2),
            loss_blocks,
        }
    }

    /// Whether one kernel does the head as a whole.
    fn fused_head(&self) -> bool {
        let head = &self.layout.linears[self.layout.linears.len() - 1];
        // It would round the gradient before a norm or a dropout, which wants it in f32.
        let plain = super::between::plain(&self.layout, &head.input) && self.path != KernelPath::CallersLoss;
        self.layout.heads == 1 && plain && calls::fits_head(head.input.width, head.outputs, self.size())
    }

    /// Blocks that add up the loss of a head.
    pub(super) fn loss_blocks(&self) -> usize {
        let batch = self.recipe.batch;
        if self.fused_head() { calls::head_blocks(batch) } else { calls::blocks(batch) }
    }

    /// The layers that are products of their own in the forward pass.
    fn walked(&self) -> usize {
        self.layout.linears.len() - usize::from(self.fused_head())
    }

    /// Inputs gathered, and every layer in order, up to a head that is fused with its loss.
    pub(super) fn forward(&self, first: usize, slots: usize, mode: Mode, choose: bool) -> Result<()> {
        self.gather(first, slots, mode, choose)?;
        self.layers(first, slots, mode, self.walked())
    }

    /// The same of rows that lie in `rows` already, or whose inputs are `gathered`.
    pub(super) fn pass(&self, first: usize, slots: usize, mode: Mode, gathered: bool) -> Result<()> {
        if gathered { self.layers(first, slots, mode, self.walked()) } else { self.forward(first, slots, mode, false) }
    }

    /// The inputs, and what recurrent layers make of them.
    fn gather(&self, first: usize, slots: usize, mode: Mode, choose: bool) -> Result<()> {
        let (batch, at) = (self.recipe.batch, &self.at);
        let places = self.layout.gathered(&self.net);
        // Whatever reads the first input decides which rows the batch has.
        let decides = places[0].is_none();
        if decides {
            self.steps_forward(first, slots, mode, choose)?;
        }
        for (i, (input, place)) in self.net.inputs.iter().zip(&places).enumerate() {
            let Some(place) = place else {
                if let Some(fused) = &self.fused {
                    self.fused_forward(fused, i, (first, slots), mode, choose)?;
                }
                continue;
            };
            let stride = self.layout.buffers[place.buffer].stride;
            let offset = (first * batch * stride + place.column) as u64 * self.size();
            self.calls.gather(
                &self.main,
                &GatherArgs {
                    states: self.states_of(first, slots),
                    epochs: self.epochs_of(first, slots),
                    seed: self.recipe.seed,
                    lists: at.lists,
                    rows: self.ids(i, first, slots),
                    live: at.live.part(first * batch, slots * batch),
                    table: self.rows[i].table,
                    stride: self.rows[i].stride,
                    map: self.rows[i].map,
                    mean: at.means[i],
                    inverse: at.inverses[i],
                    out: Rows { at: at.values[place.buffer].address() + offset, batch, width: place.width, stride },
                    valid_list: at.valid_at,
                    valid_count: at.valid_count,
                    chunk: at.chunk,
                    batch,
                    mode,
                    // The first input decides which rows; the others follow.
                    choose: choose && i == 0,
                    features: input.features,
                    window: input.window,
                    padded: place.width,
                },
            )?;
        }
        if !decides {
            self.steps_forward(first, slots, mode, false)?;
        }
        self.after_recurrents(first, slots, mode)
    }

    /// The first `count` layers in order, from inputs that lie in place.
    pub(super) fn layers(&self, first: usize, slots: usize, mode: Mode, count: usize) -> Result<()> {
        if slots == 1 && !self.products.twins.is_empty() {
            return self.layers_of_twins(first, mode, count);
        }
        let batch = self.recipe.batch;
        // Towers go side by side where one does not fill the card.
        let towers = if self.products.fill(&self.layout, batch) { None } else { two_towers(&self.layout) };
        let (begun, done) = (&self.events[0], &self.events[self.layout.linears.len()]);
        if towers.is_some() {
            begun.record(&self.main)?;
            self.side.after(begun)?;
        }
        for (i, linear) in self.layout.linears[..count].iter().enumerate() {
            let layer = &self.products.layers[i];
            let beside = towers.as_ref().is_some_and(|second| second[i]);
            let (stream, space) = if beside { (&self.side, 1) } else { (&self.main, 0) };
            self.product(stream, space, i, (ProductKind::Forward, mode), &layer.forward, (first, slots), false)?;
            if layer.activate {
                let y = self.rows(i, self.addresses(i, ProductKind::Forward, first, false).out);
                self.calls.activate(stream, &self.states_of(first, slots), mode, y, linear.activation)?;
            }
            self.apply_after_product(i, first, slots, mode)?;
        }
        if towers.is_some() {
            done.record(&self.side)?;
            self.main.after(done)?;
        }
        Ok(())
    }

    /// Losses of all heads, with the gradients at the logits in a step, with counts in a score.
    fn losses(&self, first: usize, slots: usize, mode: Mode) -> Result<()> {
        if self.fused_head() {
            return self.head(first, slots, mode);
        }
        let (batch, at, layout) = (self.recipe.batch, &self.at, &self.layout);
        let heads = layout.linears.len() - layout.heads;
        for (h, head) in self.net.heads.iter().enumerate() {
            let linear = &layout.linears[heads + h];
            let width = linear.output.width;
            let step = mode == Mode::Step;
            let delta = at.deltas[linear.output.buffer].address() + (first * batch * width) as u64 * self.size();
            let cells = head.classes * head.classes;
            self.calls.loss(
                &self.main,
                &LossArgs {
                    states: self.states_of(first, slots),
                    rows: at.rows.part(first * batch, slots * batch),
                    live: at.live.part(first * batch, slots * batch),
                    labels: at.labels[h],
                    weights: at.weights,
                    class_weights: at.class_weights[h],
                    logits: at.logits[h].part(first * batch * width, slots * batch * width),
                    bias: self.in_params(first, linear.bias),
                    gradient: step.then_some(delta),
                    partial: self.partials(first, slots, mode).loss,
                    bias_partial: at.bias_partial[heads + h],
                    confusion: (!step).then(|| at.confusion[h].part(first * cells, slots * cells)),
                    batch,
                    mode,
                    slice: calls::slice(batch),
                    head: h,
                    heads: layout.heads,
                    classes: head.classes,
                    padded: width,
                    smoothing: if step { self.recipe.smoothing } else { 0.0 },
                },
            )?;
        }
        Ok(())
    }

    /// The only head, its loss and the gradient of what is before it, in one kernel.
    fn head(&self, first: usize, slots: usize, mode: Mode) -> Result<()> {
        let (batch, at, layout) = (self.recipe.batch, &self.at, &self.layout);
        let i = layout.linears.len() - 1;
        let linear = &layout.linears[i];
        let (width, classes) = (linear.output.width, linear.outputs);
        let stride = layout.buffers[linear.input.buffer].stride;
        let before = single(layout, linear);
        let forward = self.addresses(i, ProductKind::Forward, first, false);
        let gradient = self.addresses(i, ProductKind::Weight, first, false).left;
        let place = (first * batch * stride + linear.input.column) as u64 * self.size();
        let dh = at.deltas[linear.input.buffer].address() + place;
        let step = mode == Mode::Step;
        let scored = mode != Mode::Always;
        let cells = classes * classes;
        self.calls.head(
            &self.main,
            &HeadArgs {
                states: self.states_of(first, slots),
                rows: at.rows.part(first * batch, slots * batch),
                live: at.live.part(first * batch, slots * batch),
                labels: at.labels.first().copied().unwrap_or_else(|| Slice::none(0)),
                weights: at.weights,
                class_weights: at.class_weights[0],
                h: Rows { at: forward.left, batch, width: linear.input.width, stride },
                w: forward.right,
                w_stride: linear.input.width,
                w_member: layout.params,
                bias: self.in_params(first, linear.bias),
                gradient: step.then_some(gradient),
                dh: (step && linear.passes_back).then_some(dh),
                partial: scored.then(|| self.partials(first, slots, mode).loss),
                bias_partial: at.bias_partial[i],
                column_partial: at.head_partial,
                confusion: (mode == Mode::Score).then(|| at.confusion[0].part(first * cells, slots * cells)),
                logits: (!scored).then_some(forward.out),
                batch,
                mode,
                slice: calls::head_slice(batch),
                width: linear.input.width,
                classes,
                padded: width,
                // Without one layer before it the derivative is applied afterwards.
                act: before.map_or(Activation::Identity, |b| layout.linears[b].activation),
                smoothing: if step { self.recipe.smoothing } else { 0.0 },
            },
        )
    }

    /// Gradients, from the heads to the first layer; those of biases, and of weights but in the largest nets, beside
    /// those of activations.
    pub(super) fn backward(&self, first: usize, slots: usize) -> Result<()> {
        self.backward_from(first, slots, false)
    }

    /// The same; `past` says that somebody else has left the gradients at the heads and before them, and the partial
    /// sums of both.
    pub(super) fn backward_from(&self, first: usize, slots: usize, past: bool) -> Result<()> {
        if slots == 1 && !self.products.twins.is_empty() {
            return self.backward_of_twins(first, past);
        }
        let (layout, at, batch) = (&self.layout, &self.at, self.recipe.batch);
        let states = self.states_of(first, slots);
        let last = layout.linears.len();
        // Which gradient buffers have something in them, and whose bias sums were made on the way.
        let mut written = vec![false; layout.buffers.len()];
        let mut summed: Vec<Option<(Slice<f32>, usize)>> = vec![None; last];
        if let Some(concat) = layout.read_in_columns() {
            self.clear_gradient(concat, first, slots)?;
            written[concat] = true;
        }
        // Products that fill the card for long only get in each other's way side by side.
        let (stream, space) = if self.products.fill(layout, batch) { (&self.main, 0) } else { (&self.side, 1) };
        // Our own losses add up the gradients of the heads' biases; a gradient that was given has nobody who did.
        let blocks = if past { calls::callers_blocks(batch) } else { self.loss_blocks() };
        let summed_up = if self.path == KernelPath::CallersLoss && !past { last } else { last - layout.heads };
        for (made, partial) in summed.iter_mut().zip(&at.bias_partial).skip(summed_up) {
            *made = Some((*partial, blocks));
        }
        for (i, linear) in layout.linears.iter().enumerate().rev() {
            let layer = &self.products.layers[i];
            let given = past && i + layout.heads >= last;
            let whole = given || (i + 1 == last && self.fused_head());
            if whole
                && linear.passes_back
                && let Some(before) = single(layout, linear)
            {
                summed[before] = Some((if given { at.bias_partial[before] } else { at.head_partial }, blocks));
            }
            // The gradient at this layer's output is complete here: those of its weights may begin.
            self.events[i].record(&self.main)?;
            self.side.after(&self.events[i])?;
            self.product(stream, space, i, (ProductKind::Weight, Mode::Step), &layer.weight, (first, slots), false)?;
            // With nothing left to do on the main stream, the bias need not wait for the weights.
            let other = if layer.back.is_none() { &self.main } else { &self.side };
            let delta = self.rows(i, self.addresses(i, ProductKind::Weight, first, false).left);
            let (partial, blocks) = match summed[i] {
                Some(made) => made,
                None => {
                    self.calls.column_sum(other, &states, delta, &at.bias_partial[i])?;
                    (at.bias_partial[i], calls::blocks(batch))
                }
            };
            let sums = Sums { partial: partial.address(), blocks, width: delta.width };
            self.calls.sum_partials(other, &states, &sums, self.gradient(first, linear.bias), layout.params)?;
            let (Some(back), buffer) = (&layer.back, linear.input.buffer) else { continue };
            if !whole {
                let work = (ProductKind::Back, Mode::Step);
                self.product(&self.main, 0, i, work, back, (first, slots), written[buffer])?;
                written[buffer] = true;
                if let (ProductPath::Hopper(_), Some(before)) = (back, single(layout, linear)) {
                    summed[before] = Some((at.bias_partial[before], hopper::blocks(batch)));
                }
            }
            // The derivative of whatever made the input, once everyone who read it has added his share.
            let more = layout.linears[..i].iter().any(|l| l.input.buffer == buffer && l.passes_back);
            let done = if whole { single(layout, linear).is_some() } else { layer.derived };
            if done || more {
                continue;
            }
            if layer.wide && !whole {
                // The last h of a recurrent layer has no derivative of its own: its gradient is rounded, no more.
                let ends = layout.recurrents.iter().filter(|r| r.dropout == 0).filter_map(|r| r.output.as_ref());
                for place in ends.filter(|p| p.buffer == buffer) {
                    let stride = layout.buffers[buffer].stride;
                    let offset = (first * batch * stride + place.column) as u64;
                    let here = |arrays: &[Slice<u8>]| arrays[buffer].address() + offset * self.size();
                    let y = Rows { at: here(&at.values), batch, width: place.width, stride };
                    let from = self.wide(buffer) + 4 * offset;
                    self.calls.derive_wide(&self.main, &states, y, from, here(&at.deltas), Activation::Identity)?;
                }
            }
            for (r, recurrent) in layout.recurrents.iter().enumerate().filter(|(_, r)| r.dropout > 0) {
                if recurrent.output.is_some_and(|p| p.buffer == buffer) {
                    self.before_recurrent(r, first, slots, layer.wide)?;
                }
            }
            for (m, made) in layout.linears.iter().enumerate().filter(|(_, l)| l.output.buffer == buffer) {
                if !made.plain() {
                    self.undo_before_product(m, first, slots, layer.wide)?;
                } else if layer.wide && !whole {
                    let y = self.rows(m, self.addresses(m, ProductKind::Forward, first, false).out);
                    let from = self.wide(buffer) + 4 * (first * batch * y.stride + made.output.column) as u64;
                    let delta = self.addresses(m, ProductKind::Weight, first, false).left;
                    self.calls.derive_wide(&self.main, &states, y, from, delta, made.activation)?;
                } else if made.activation != Activation::Identity {
                    let y = self.rows(m, self.addresses(m, ProductKind::Forward, first, false).out);
                    let delta = self.addresses(m, ProductKind::Weight, first, false).left;
                    let partial = &at.bias_partial[m];
                    self.calls.derive_sum(&self.main, &states, (y, delta), made.activation, partial)?;
                    summed[m] = Some((at.bias_partial[m], calls::blocks(batch)));
                }
            }
        }
        self.recurrent_backward(first, slots)?;
        self.events[last].record(&self.side)?;
        self.main.after(&self.events[last])
    }

    /// Zeros for the gradient of a buffer that several layers add to.
    fn clear_gradient(&self, buffer: usize, first: usize, slots: usize) -> Result<()> {
        let row = self.recipe.batch * self.layout.buffers[buffer].stride;
        if self.size() == 2 {
            return self.main.fill(&self.at.wide_concat.part(first * row, slots * row), 0);
        }
        let bytes = row * self.size() as usize;
        self.main.fill(&self.at.deltas[buffer].part(first * bytes, slots * bytes), 0)
    }

    /// The gradients of all recurrent layers; those at their outputs are complete.
    fn recurrent_backward(&self, first: usize, slots: usize) -> Result<()> {
        match &self.fused {
            Some(fused) => self.fused_backward(fused, first, slots),
            None => self.steps_backward(first, slots),
        }
    }

    /// The rows of a layer's output that begin at an address.
    pub(super) fn rows(&self, i: usize, at: u64) -> Rows {
        let place = &self.layout.linears[i].output;
        Rows { at, batch: self.recipe.batch, width: place.width, stride: self.layout.buffers[place.buffer].stride }
    }

    /// One product on one of the streams.
    #[expect(clippy::too_many_arguments, reason = "a product is these things")]
    pub(super) fn product(
        &self,
        stream: &Stream,
        workspace: usize,
        i: usize,
        (which, mode): (ProductKind, Mode),
        path: &ProductPath,
        (first, slots): (usize, usize),
        accumulate: bool,
    ) -> Result<()> {
        let at = self.addresses(i, which, first, accumulate);
        if let (ProductPath::Library(plan), Ok(library)) = (path, self.context.blaslt()) {
            let space = (self.workspace.addresses()[workspace], WORKSPACE);
            // As many members at once as the plan's scratch memory allows; the plan stays, and with it every bit.
            let most = library.most(plan, slots, WORKSPACE)?.max(1);
            for from in (0..slots).step_by(most) {
                let at = self.addresses(i, which, first + from, accumulate);
                // SAFETY: the addresses are of this engine's slab, laid out for these shapes; each stream has its own
                // workspace.
                unsafe { library.run(plan, most.min(slots - from), &at, space, stream)? };
            }
            return Ok(());
        }
        let linear = &self.layout.linears[i];
        let stride = |buffer: usize| self.layout.buffers[buffer].stride;
        let before = single(&self.layout, linear).filter(|_| self.products.layers[i].derived);
        let y = before.map_or(0, |b| self.addresses(b, ProductKind::Forward, first, false).out);
        let derivative = before.map_or(Activation::Identity, |b| self.layout.linears[b].activation);
        if let (ProductPath::Hopper(_), Some(before)) = (path, before) {
            let back = hopper::Back {
                shape: hopper_shape(&self.layout, linear, self.recipe.batch),
                at,
                y,
                derivative,
                states: self.states_of(first, slots),
                mode,
                partial: self.at.bias_partial[before],
                twin: None,
            };
            return self.calls.hopper()?.back(stream, &back);
        }
        let own = Linear {
            at,
            y,
            derivative,
            activation: linear.activation,
            head: i >= self.layout.linears.len() - self.layout.heads || linear.norm.is_some(),
            wide: self.products.layers[i].wide,
            batch: self.recipe.batch,
            inputs: linear.input.width,
            outputs: linear.output.width,
            input_stride: stride(linear.input.buffer),
            // Sums that are to be normalised lie by themselves.
            output_stride: match (which, linear.norm) {
                (ProductKind::Forward, Some(_)) => linear.output.width,
                _ => stride(linear.output.buffer),
            },
            params: self.layout.params,
            states: self.states_of(first, slots),
            mode,
            split: self.at.split,
        };
        match which {
            ProductKind::Forward => self.calls.own().forward(stream, &own),
            ProductKind::Back => self.calls.own().back(stream, &own),
            ProductKind::Weight => self.calls.own().weight(stream, &own, &self.calls),
        }
    }
}

/// `[linears]` whether a layer is of the second tower, where a net is two towers of plain layers that share nothing but
/// their inputs.
pub(super) fn two_towers(layout: &Layout) -> Option<Vec<bool>> {
    if !layout.recurrents.is_empty() || !layout.linears.iter().all(|linear| linear.plain()) {
        return None;
    }
    // `[buffers]` the tower that wrote it.
    let mut tower: Vec<Option<usize>> = vec![None; layout.buffers.len()];
    let (mut count, mut of) = (0, Vec::new());
    for linear in &layout.linears {
        let own = tower[linear.input.buffer].unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        // A buffer that two layers write into is a concatenation.
        if tower[linear.output.buffer].replace(own).is_some() {
            return None;
        }
        of.push(own == 1);
    }
    (count == 2).then_some(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Net;

    #[test]
    fn towers_go_side_by_side_where_they_share_nothing() {
        let of = |net: &str| two_towers(&Layout::new(&net.parse::<Net>().unwrap()).unwrap());
        let towers = of("row:8 / 32-16 | 24-16-8 / policy:3 | value:1").unwrap();
        assert_eq!(towers, [false, false, true, true, true, false, true]);
        for other in [
            "row:8 / 32-16 / policy:3 + value:1",
            "row:8 / 32-16 / direction:3",
            "fast:4x8-lstm8 / 32 | 24 / policy:3 | value:1",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
