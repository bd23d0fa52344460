//! The kernels of a population as functions: their grids, and the structs that they take. What they do is said in the
//! `.cu` files.

mod structs;

use super::arguments::Address;
use super::context::Context;
use super::engine::Mode;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Kernel, Module};
use crate::error::{Error, Result};
use crate::net::Activation;
use crate::population::{EpochState, Recipe, Rule, Shape, SlotState};
use std::sync::Arc;
use structs::{
    ActivateArgs, AddPartArgs, AddPartsArgs, AdvanceArgs, ChoosePartArgs, ColumnArgs, DeriveArgs, DeriveSumArgs,
    GatherArgs, HeadArgs, LossArgs, NextPartArgs, OptimiseArgs, RoundArgs, ScoreSumArgs, SumArgs,
};
pub(super) use structs::{FillArgs, Optimiser};

/// Elements whose squares one block of `advance` adds up, and that one of `optimise` works on.
const SQUARES: usize = 8192;
const OPTIMISED: usize = 4096;
/// Elements that one block of `add_parts` works on, and of `optimise` up to so many parameters.
const ADDED: usize = 1024;
const SMALL: usize = 1 << 18;

/// Blocks of `advance` for a row of the arena.
pub(super) fn norm_blocks(params: usize) -> usize {
    params.div_ceil(SQUARES)
}

/// Blocks of `add_parts` for a row of the arena.
pub(super) fn part_blocks(params: usize) -> usize {
    params.div_ceil(ADDED)
}

/// Rows that one block of the loss and of a column sum adds up; by the batch alone.
pub(super) fn slice(batch: usize) -> usize {
    if batch <= 8192 { 64 } else { 256 }
}

/// Blocks of the loss and of a column sum.
pub(super) fn blocks(batch: usize) -> usize {
    batch.div_ceil(slice(batch))
}

/// Rows of a block of a fused head: few, since each row is work for a whole warp; of large batches so many that one
/// round of blocks does it.
fn head_slice(batch: usize) -> usize {
    if batch <= 8192 { 16 } else { 256 }
}

/// Blocks of a fused head.
pub(super) fn head_blocks(batch: usize) -> usize {
    batch.div_ceil(head_slice(batch))
}

/// The most partial sums of columns that any kernel leaves behind.
pub(super) fn most_blocks(batch: usize) -> usize {
    blocks(batch).max(head_blocks(batch)).max(super::hopper::blocks(batch))
}

/// Words of an `Order`, what `advance` tells `optimise`.
pub(super) const ORDER: usize = 6;

/// The kernels of a population, for bf16 or for f32.
pub(super) struct Calls {
    gather: Kernel<GatherArgs>,
    loss: Kernel<LossArgs>,
    sum_partials: Kernel<SumArgs>,
    activate: Kernel<ActivateArgs>,
    derive_sum: Kernel<DeriveSumArgs>,
    derive_wide: Kernel<DeriveArgs>,
    heads: Vec<Kernel<HeadArgs>>,
    column_sum: Kernel<ColumnArgs>,
    optimise: Kernel<OptimiseArgs>,
    advance: Kernel<AdvanceArgs>,
    add_parts: Kernel<AddPartsArgs>,
    choose_part: Kernel<ChoosePartArgs>,
    add_part: Kernel<AddPartArgs>,
    next_part: Kernel<NextPartArgs>,
    score_sum: Kernel<ScoreSumArgs>,
    to_bf16: Kernel<RoundArgs>,
    own: super::own::Own,
    hopper: Option<super::hopper::Hopper>,
    bf16: bool,
}

/// What a gather is told.
pub(super) struct Gather {
    pub(super) states: Slice<SlotState>,
    pub(super) epochs: Option<Slice<EpochState>>,
    pub(super) seed: u64,
    pub(super) batch: usize,
    pub(super) mode: Mode,
    pub(super) choose: bool,
    pub(super) lists: Slice<u32>,
    pub(super) rows: Slice<u32>,
    pub(super) live: Slice<f32>,
    pub(super) table: Slice<f32>,
    pub(super) stride: usize,
    pub(super) map: Option<Slice<u32>>,
    pub(super) window: Window,
    pub(super) scale: Option<(Slice<f32>, Slice<f32>)>,
    pub(super) out: u64,
    pub(super) out_stride: usize,
    pub(super) valid: (Slice<u32>, Slice<u32>),
    pub(super) chunk: Slice<u32>,
}

/// What a gather reads of a sample.
pub(super) struct Window {
    pub(super) features: usize,
    pub(super) rows: usize,
    pub(super) padded: usize,
}

/// What a loss is told.
pub(super) struct Loss {
    pub(super) states: Slice<SlotState>,
    pub(super) batch: usize,
    pub(super) mode: Mode,
    pub(super) head: usize,
    pub(super) heads: usize,
    pub(super) rows: Slice<u32>,
    pub(super) live: Slice<f32>,
    pub(super) labels: Slice<u8>,
    pub(super) weights: Option<Slice<f32>>,
    pub(super) class_weights: Option<Slice<f32>>,
    pub(super) logits: Slice<f32>,
    pub(super) bias: u64,
    pub(super) params: usize,
    pub(super) classes: usize,
    pub(super) padded: usize,
    pub(super) smoothing: f32,
    pub(super) delta: Option<u64>,
    pub(super) partial: Slice<f64>,
    pub(super) bias_partial: Slice<f32>,
    pub(super) confusion: Option<Slice<u64>>,
}

/// What a head with its loss is told.
pub(super) struct Head {
    pub(super) states: Slice<SlotState>,
    pub(super) batch: usize,
    pub(super) mode: Mode,
    pub(super) rows: Slice<u32>,
    pub(super) live: Slice<f32>,
    pub(super) labels: Slice<u8>,
    pub(super) weights: Option<Slice<f32>>,
    pub(super) class_weights: Option<Slice<f32>>,
    pub(super) h: u64,
    pub(super) stride: usize,
    pub(super) width: usize,
    pub(super) w: u64,
    pub(super) bias: u64,
    pub(super) params: usize,
    pub(super) classes: usize,
    pub(super) padded: usize,
    pub(super) activation: Activation,
    pub(super) smoothing: f32,
    pub(super) gradient: Option<u64>,
    pub(super) dh: Option<u64>,
    pub(super) partial: Option<Slice<f64>>,
    pub(super) bias_partial: Slice<f32>,
    pub(super) column_partial: Slice<f32>,
    pub(super) confusion: Option<Slice<u64>>,
    pub(super) logits: Option<u64>,
}

/// The variants of the fused head: chunks of 512 bytes of a row, and classes.
const HEADS: [(usize, usize); 5] = [(1, 3), (2, 3), (4, 3), (1, 8), (2, 8)];

/// The variant for a head of this width and so many classes.
fn variant(width: usize, classes: usize, size: u64) -> Option<usize> {
    HEADS.iter().position(|(chunks, most)| width * size as usize <= chunks * 512 && classes <= *most)
}

/// Whether one kernel can do a head as a whole.
pub(super) fn fits_head(width: usize, classes: usize, size: u64) -> bool {
    variant(width, classes, size).is_some()
}

/// Partial sums `[S, blocks, width]` that are to be added in order.
pub(super) struct Sums {
    pub(super) partial: u64,
    pub(super) blocks: usize,
    pub(super) width: usize,
}

/// Rows of a place in an activation buffer, of every slot.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) at: u64,
    pub(super) batch: usize,
    pub(super) width: usize,
    pub(super) stride: usize,
}

/// The partial sums that say how long a gradient is and what its batch weighs.
pub(super) struct Partials {
    pub(super) norm: Slice<f64>,
    pub(super) loss: Slice<f64>,
    pub(super) loss_blocks: usize,
}

/// A part of a batch.
pub(super) struct Part {
    pub(super) states: Slice<SlotState>,
    pub(super) epochs: Option<Slice<EpochState>>,
    /// Rows of the whole batch.
    pub(super) batch: usize,
    /// Rows of a part.
    pub(super) rows: usize,
    /// The first row of the part, on the device.
    pub(super) begin: Slice<u32>,
}

/// The arenas an optimiser works on, from its first slot on.
pub(super) struct Arenas {
    pub(super) gradient: Slice<f32>,
    pub(super) params: Slice<f32>,
    pub(super) mean: Slice<f32>,
    pub(super) square: Slice<f32>,
    pub(super) shadow: Option<Slice<u16>>,
    pub(super) average: Option<Slice<f32>>,
}

/// A recipe as kernels read it.
pub(super) fn optimiser(recipe: &Recipe) -> Optimiser {
    let (o, s) = (&recipe.optimiser, &recipe.schedule);
    Optimiser {
        rule: rule_code(o.rule),
        beta1: o.beta1,
        beta2: o.beta2,
        eps: o.eps,
        decay: o.decay,
        clip: o.clip.unwrap_or(0.0),
        shape: match s.shape {
            Shape::Constant => 0,
            Shape::Cosine => 1,
            Shape::OneCycle => 2,
        },
        warmup: s.warmup,
        floor: s.floor,
        memory: recipe.average.unwrap_or(0.0),
    }
}

/// The kernels' number of an optimiser.
pub(super) fn rule_code(rule: Rule) -> u32 {
    match rule {
        Rule::Adam => 0,
        Rule::AdamW => 1,
    }
}

fn n(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The kernels' number of an activation.
pub(super) fn code(activation: Activation) -> u32 {
    match activation {
        Activation::Identity => 0,
        Activation::Relu => 1,
        Activation::Tanh => 2,
    }
}

impl Calls {
    pub(super) fn load(context: &Arc<Context>, bf16: bool) -> Result<Calls> {
        let module = Module::load(context, &kernels::POPULATION)?;
        let backward = Module::load(context, &kernels::BACKWARD)?;
        let kind = if bf16 { "bf16" } else { "f32" };
        let typed = |name: &str| format!("{name}_{kind}");
        Ok(Calls {
            gather: module.typed(&typed("gather"))?,
            loss: module.typed(&typed("loss"))?,
            sum_partials: module.typed("sum_partials")?,
            activate: module.typed(&typed("activate"))?,
            derive_sum: backward.typed(&typed("derive_sum"))?,
            derive_wide: module.typed("derive_float_bf16")?,
            heads: HEADS
                .iter()
                .map(|(chunks, classes)| backward.typed(&format!("head_{kind}_{chunks}_{classes}")))
                .collect::<Result<_>>()?,
            column_sum: module.typed(&typed("column_sum"))?,
            optimise: module.typed("optimise")?,
            advance: module.typed("advance")?,
            add_parts: module.typed("add_parts")?,
            choose_part: module.typed("choose_part")?,
            add_part: module.typed("add_part")?,
            next_part: module.typed("next_part")?,
            score_sum: module.typed("score_sum")?,
            to_bf16: module.typed("to_bf16")?,
            own: super::own::Own::load(context, bf16)?,
            hopper: if bf16 { super::hopper::Hopper::load(context)? } else { None },
            bf16,
        })
    }

    /// Our own products.
    pub(super) fn own(&self) -> &super::own::Own {
        &self.own
    }

    /// Products with what follows them on Hopper's own units, where the card has them.
    pub(super) fn hopper(&self) -> Result<&super::hopper::Hopper> {
        self.hopper.as_ref().ok_or_else(|| Error::Asked("a product of Hopper on another card".into()))
    }

    pub(super) fn gather(&self, stream: &Stream, g: &Gather) -> Result<()> {
        let grid = [n(g.batch.div_ceil(32)), n(g.states.len()), 1];
        let args = GatherArgs {
            states: g.states,
            epochs: g.epochs,
            seed: g.seed,
            lists: g.lists,
            rows: g.rows,
            live: g.live,
            table: g.table,
            stride: g.stride as u64,
            map: g.map,
            mean: g.scale.map(|s| s.0),
            inverse: g.scale.map(|s| s.1),
            out: Address(g.out),
            out_stride: g.out_stride as u64,
            out_member: (g.batch * g.out_stride) as u64,
            valid_list: g.valid.0,
            valid_count: g.valid.1,
            chunk: g.chunk,
            batch: n(g.batch),
            mode: g.mode as u32,
            choose: u32::from(g.choose),
            features: n(g.window.features),
            window: n(g.window.rows),
            padded: n(g.window.padded),
        };
        // SAFETY: slices of the engine's slab, laid out for this batch; row ids were checked when the population was
        // made.
        unsafe { self.gather.send(stream, grid, 128, 0, &args) }
    }

    pub(super) fn loss(&self, stream: &Stream, l: &Loss) -> Result<()> {
        let grid = [n(blocks(l.batch)), n(l.states.len()), 1];
        let args = LossArgs {
            states: l.states,
            rows: l.rows,
            live: l.live,
            labels: l.labels,
            weights: l.weights,
            class_weights: l.class_weights,
            logits: l.logits,
            bias: Address(l.bias),
            bias_member: l.params as u64,
            gradient: Address(l.delta.unwrap_or(0)),
            partial: l.partial,
            bias_partial: l.bias_partial,
            confusion: l.confusion,
            batch: n(l.batch),
            mode: l.mode as u32,
            slice: n(slice(l.batch)),
            head: n(l.head),
            heads: n(l.heads),
            classes: n(l.classes),
            padded: n(l.padded),
            smoothing: l.smoothing,
        };
        // SAFETY: as above; labels were checked to be classes.
        unsafe { self.loss.send(stream, grid, 256, n(128 * l.padded), &args) }
    }

    /// A head, its loss and the gradient before it.
    pub(super) fn head(&self, stream: &Stream, h: &Head) -> Result<()> {
        let size = if self.bf16 { 2 } else { 4 };
        let at =
            variant(h.width, h.classes, size).ok_or_else(|| Error::Asked("a head that is too large to fuse".into()))?;
        let (chunks, classes) = HEADS[at];
        let shared = 4 * classes * chunks * 512 / size as usize;
        let grid = [n(head_blocks(h.batch)), n(h.states.len()), 1];
        let args = HeadArgs {
            states: h.states,
            rows: h.rows,
            live: h.live,
            labels: h.labels,
            weights: h.weights,
            class_weights: h.class_weights,
            h: Address(h.h),
            h_stride: h.stride as u64,
            h_member: (h.batch * h.stride) as u64,
            w: Address(h.w),
            w_stride: h.width as u64,
            w_member: h.params as u64,
            bias: Address(h.bias),
            bias_member: h.params as u64,
            gradient: Address(h.gradient.unwrap_or(0)),
            dh: Address(h.dh.unwrap_or(0)),
            partial: h.partial,
            bias_partial: h.bias_partial,
            column_partial: h.column_partial,
            confusion: h.confusion,
            logits: Address(h.logits.unwrap_or(0)),
            batch: n(h.batch),
            mode: h.mode as u32,
            slice: n(head_slice(h.batch)),
            width: n(h.width),
            classes: n(h.classes),
            padded: n(h.padded),
            act: code(h.activation),
            smoothing: h.smoothing,
        };
        // SAFETY: as above; the width and the classes fit the variant.
        unsafe { self.heads[at].send(stream, grid, 256, n(shared), &args) }
    }

    /// Adds partial sums in order, into a place of the gradient arena.
    pub(super) fn sum_partials(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        sums: &Sums,
        to: u64,
        params: usize,
    ) -> Result<()> {
        let grid = [n(sums.width.div_ceil(32)), n(states.len()), 1];
        let args = SumArgs {
            states: *states,
            partial: Address(sums.partial),
            n: sums.width as u64,
            out: Address(to),
            out_member: params as u64,
            mode: Mode::Step as u32,
            blocks: n(sums.blocks),
        };
        // SAFETY: as above.
        unsafe { self.sum_partials.send(stream, grid, 256, 0, &args) }
    }

    /// An activation in place.
    pub(super) fn activate(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        mode: Mode,
        y: Rows,
        activation: Activation,
    ) -> Result<()> {
        let grid = [n((y.batch * y.width).div_ceil(1024)), n(states.len()), 1];
        let (stride, member) = (y.stride as u64, (y.batch * y.stride) as u64);
        let args = ActivateArgs {
            states: *states,
            z: Address(y.at),
            z_stride: stride,
            z_member: member,
            bias: Address(0),
            bias_member: 0,
            y: Address(y.at),
            y_stride: stride,
            y_member: member,
            mode: mode as u32,
            act: code(activation),
            batch: n(y.batch),
            width: n(y.width),
        };
        // SAFETY: as above; in place is allowed.
        unsafe { self.activate.send(stream, grid, 256, 0, &args) }
    }

    /// A gradient times the derivative, in place, with the column sums of what it became.
    pub(super) fn derive_sum(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        (y, delta): (Rows, u64),
        activation: Activation,
        partial: &Slice<f32>,
    ) -> Result<()> {
        let wide = if self.bf16 { 256 } else { 128 };
        let grid = [n(y.width.div_ceil(wide)), n(blocks(y.batch)), n(states.len())];
        let args = DeriveSumArgs {
            states: *states,
            dz: Address(delta),
            y: Address(y.at),
            stride: y.stride as u64,
            member: (y.batch * y.stride) as u64,
            partial: *partial,
            mode: Mode::Step as u32,
            act: code(activation),
            batch: n(y.batch),
            slice: n(slice(y.batch)),
            width: n(y.width),
        };
        // SAFETY: as above.
        unsafe { self.derive_sum.send(stream, grid, 256, 0, &args) }
    }

    /// A gradient in f32 times the derivative, rounded once to bf16.
    pub(super) fn derive_wide(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        y: Rows,
        from: u64,
        to: u64,
        activation: Activation,
    ) -> Result<()> {
        let grid = [n((y.batch * y.width).div_ceil(1024)), n(states.len()), 1];
        let (stride, member) = (y.stride as u64, (y.batch * y.stride) as u64);
        let args = DeriveArgs {
            states: *states,
            dy: Address(from),
            dy_stride: stride,
            dy_member: member,
            y: Address(y.at),
            y_stride: stride,
            y_member: member,
            dz: Address(to),
            dz_stride: stride,
            dz_member: member,
            mode: Mode::Step as u32,
            act: code(activation),
            batch: n(y.batch),
            width: n(y.width),
        };
        // SAFETY: as above.
        unsafe { self.derive_wide.send(stream, grid, 256, 0, &args) }
    }

    pub(super) fn column_sum(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        delta: Rows,
        partial: &Slice<f32>,
    ) -> Result<()> {
        let grid = [n(delta.width.div_ceil(128)), n(blocks(delta.batch)), n(states.len())];
        let args = ColumnArgs {
            states: *states,
            dz: Address(delta.at),
            stride: delta.stride as u64,
            member: (delta.batch * delta.stride) as u64,
            partial: *partial,
            mode: Mode::Step as u32,
            batch: n(delta.batch),
            slice: n(slice(delta.batch)),
            width: n(delta.width),
        };
        // SAFETY: as above.
        unsafe { self.column_sum.send(stream, grid, 256, 0, &args) }
    }

    /// The norm of the gradient, the state after the step, and the orders for the optimiser.
    pub(super) fn advance(
        &self,
        stream: &Stream,
        (states, epochs): (&Slice<SlotState>, Option<&Slice<EpochState>>),
        recipe: &Recipe,
        (gradient, params): (&Slice<f32>, usize),
        sums: &Partials,
        (arrived, orders): (&Slice<u32>, &Slice<u32>),
    ) -> Result<()> {
        let args = AdvanceArgs {
            states: *states,
            epochs: epochs.copied(),
            grads: *gradient,
            params: params as u64,
            norm_partial: sums.norm,
            loss_partial: sums.loss,
            arrived: *arrived,
            orders: Address(orders.address()),
            o: optimiser(recipe),
            batch: n(recipe.batch),
            loss_blocks: n(sums.loss_blocks),
        };
        // SAFETY: as above.
        unsafe { self.advance.send(stream, [n(norm_blocks(params)), n(states.len()), 1], 256, 0, &args) }
    }

    /// The same for a gradient that is still in parts `[S, count, params]`, which are added first.
    #[expect(clippy::too_many_arguments, reason = "as many as a step ends with")]
    pub(super) fn add_parts(
        &self,
        stream: &Stream,
        (states, epochs): (&Slice<SlotState>, Option<&Slice<EpochState>>),
        recipe: &Recipe,
        (gradient, params): (&Slice<f32>, usize),
        (parts, count): (&Slice<f32>, usize),
        sums: &Partials,
        (arrived, orders): (&Slice<u32>, &Slice<u32>),
    ) -> Result<()> {
        let args = AddPartsArgs {
            states: *states,
            epochs: epochs.copied(),
            grads: *gradient,
            params: params as u64,
            parts: *parts,
            norm_partial: sums.norm,
            loss_partial: sums.loss,
            arrived: *arrived,
            orders: Address(orders.address()),
            o: optimiser(recipe),
            batch: n(recipe.batch),
            count: n(count),
            loss_blocks: n(sums.loss_blocks),
        };
        // SAFETY: as above.
        unsafe { self.add_parts.send(stream, [n(part_blocks(params)), n(states.len()), 1], 256, 0, &args) }
    }

    /// Which rows a part of the batch has.
    pub(super) fn choose_part(
        &self,
        stream: &Stream,
        part: &Part,
        seed: u64,
        lists: &Slice<u32>,
        (rows, live): (&Slice<u32>, &Slice<f32>),
    ) -> Result<()> {
        let args = ChoosePartArgs {
            states: part.states,
            epochs: part.epochs,
            seed,
            begin: part.begin,
            lists: *lists,
            rows: *rows,
            live: *live,
            batch: n(part.batch),
            part: n(part.rows),
        };
        let grid = [n(part.rows.div_ceil(256)), n(part.states.len()), 1];
        // SAFETY: as above.
        unsafe { self.choose_part.send(stream, grid, 256, 0, &args) }
    }

    /// Adds a part's gradient, loss and weight to those of the parts before it.
    pub(super) fn add_part(
        &self,
        stream: &Stream,
        part: &Part,
        (sum, gradient, params): (&Slice<f32>, &Slice<f32>, usize),
        sums: &Partials,
        losses: &Slice<f64>,
    ) -> Result<()> {
        let args = AddPartArgs {
            states: part.states,
            begin: part.begin,
            sum: *sum,
            grads: *gradient,
            params: params as u64,
            loss_partial: sums.loss,
            loss_sum: *losses,
            batch: n(part.batch),
            part: n(part.rows),
            loss_blocks: n(sums.loss_blocks),
        };
        let grid = [n(part_blocks(params)), n(part.states.len()), 1];
        // SAFETY: as above.
        unsafe { self.add_part.send(stream, grid, 256, 0, &args) }
    }

    /// On to the next part of a batch.
    pub(super) fn next_part(&self, stream: &Stream, part: &Part) -> Result<()> {
        let args = NextPartArgs { begin: part.begin, batch: n(part.batch), part: n(part.rows) };
        // SAFETY: as above.
        unsafe { self.next_part.send(stream, [1, 1, 1], 1, 0, &args) }
    }

    pub(super) fn optimise(
        &self,
        stream: &Stream,
        recipe: &Recipe,
        params: usize,
        orders: &Slice<u32>,
        at: &Arenas,
    ) -> Result<()> {
        // A small net has too few parameters to give a block more.
        let each = if params <= SMALL { ADDED } else { OPTIMISED };
        let grid = [n(params.div_ceil(each)), n(orders.len() / ORDER), 1];
        let args = OptimiseArgs {
            params: params as u64,
            orders: Address(orders.address()),
            grads: at.gradient,
            master: at.params,
            mean: at.mean,
            square: at.square,
            copy: at.shadow,
            average: at.average,
            o: optimiser(recipe),
        };
        // SAFETY: as above.
        unsafe { self.optimise.send(stream, grid, 256, 0, &args) }
    }

    /// Adds a chunk's sums and turns to the next chunk.
    pub(super) fn score_sum(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        sums: &Partials,
        to: &Slice<f64>,
        chunk: &Slice<u32>,
    ) -> Result<()> {
        let args = ScoreSumArgs {
            states: *states,
            loss_partial: sums.loss,
            sums: *to,
            chunk: *chunk,
            loss_blocks: n(sums.loss_blocks),
        };
        // SAFETY: as above.
        unsafe { self.score_sum.send(stream, [n(states.len()), 1, 1], 256, 0, &args) }
    }

    pub(super) fn to_bf16(&self, stream: &Stream, from: &Slice<f32>, to: &Slice<u16>) -> Result<()> {
        let grid = [n(from.len().div_ceil(1024).min(1 << 16)), 1, 1];
        let args = RoundArgs { from: *from, to: *to, n: from.len() as u64 };
        // SAFETY: as long as each other.
        unsafe { self.to_bf16.send(stream, grid, 256, 0, &args) }
    }
}
