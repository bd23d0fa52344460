//! The kernels of a population as functions: their grids, and their arguments in order. What they do is said in the
//! `.cu` files.

use super::context::Context;
use super::engine::Mode;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Arg, Function, Module};
use crate::error::{Error, Result};
use crate::net::Activation;
use crate::population::{Recipe, Rule, Shape, State};
use std::sync::Arc;

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
    gather: Function,
    loss: Function,
    sum_partials: Function,
    activate: Function,
    biased: Function,
    derive_sum: Function,
    derive_wide: Function,
    heads: Vec<Function>,
    column_sum: Function,
    optimise: Function,
    advance: Function,
    add_parts: Function,
    choose_part: Function,
    add_part: Function,
    next_part: Function,
    score_sum: Function,
    to_bf16: Function,
    own: super::own::Own,
    hopper: Option<super::hopper::Hopper>,
    bf16: bool,
}

/// What a gather is told.
pub(super) struct Gather {
    pub(super) states: Slice<State>,
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
    pub(super) states: Slice<State>,
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
    pub(super) states: Slice<State>,
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
    pub(super) states: Slice<State>,
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

/// `Optimiser` of `optimiser.cuh`.
pub(super) fn packed(recipe: &Recipe) -> Vec<u8> {
    let (o, s) = (&recipe.optimiser, &recipe.schedule);
    let rule: u32 = match o.rule {
        Rule::Adam => 0,
        Rule::AdamW => 1,
    };
    let shape: u32 = match s.shape {
        Shape::Constant => 0,
        Shape::Cosine => 1,
        Shape::OneCycle => 2,
    };
    let words = [
        rule,
        o.beta1.to_bits(),
        o.beta2.to_bits(),
        o.eps.to_bits(),
        o.decay.to_bits(),
        o.clip.unwrap_or(0.0).to_bits(),
        shape,
        s.warmup.to_bits(),
        s.floor.to_bits(),
        recipe.average.unwrap_or(0.0).to_bits(),
    ];
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn n(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn optional<T>(slice: Option<Slice<T>>) -> Arg<'static> {
    Arg::At(slice.map_or(0, |s| s.address()))
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
        let typed = |name: &str| module.function(&format!("{name}_{kind}"));
        Ok(Calls {
            gather: typed("gather")?,
            loss: typed("loss")?,
            sum_partials: module.function("sum_partials")?,
            activate: typed("activate")?,
            biased: module.function("activate_f32")?,
            derive_sum: backward.function(&format!("derive_sum_{kind}"))?,
            derive_wide: module.function("derive_float_bf16")?,
            heads: HEADS
                .iter()
                .map(|(chunks, classes)| backward.function(&format!("head_{kind}_{chunks}_{classes}")))
                .collect::<Result<_>>()?,
            column_sum: typed("column_sum")?,
            optimise: module.function("optimise")?,
            advance: module.function("advance")?,
            add_parts: module.function("add_parts")?,
            choose_part: module.function("choose_part")?,
            add_part: module.function("add_part")?,
            next_part: module.function("next_part")?,
            score_sum: module.function("score_sum")?,
            to_bf16: module.function("to_bf16")?,
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
        let args = [
            (&g.states).into(),
            Arg::U64(g.seed),
            Arg::U32(n(g.batch)),
            Arg::U32(g.mode as u32),
            Arg::U32(u32::from(g.choose)),
            (&g.lists).into(),
            (&g.rows).into(),
            (&g.live).into(),
            (&g.table).into(),
            Arg::U64(g.stride as u64),
            optional(g.map),
            Arg::U32(n(g.window.features)),
            Arg::U32(n(g.window.rows)),
            Arg::U32(n(g.window.padded)),
            optional(g.scale.map(|s| s.0)),
            optional(g.scale.map(|s| s.1)),
            Arg::At(g.out),
            Arg::U64(g.out_stride as u64),
            Arg::U64((g.batch * g.out_stride) as u64),
            (&g.valid.0).into(),
            (&g.valid.1).into(),
            (&g.chunk).into(),
        ];
        // SAFETY: slices of the engine's slab, laid out for this batch; row ids were checked when the population was
        // made.
        unsafe { self.gather.launch(stream, grid, [128, 1, 1], 0, &args) }
    }

    pub(super) fn loss(&self, stream: &Stream, l: &Loss) -> Result<()> {
        let grid = [n(blocks(l.batch)), n(l.states.len()), 1];
        let args = [
            (&l.states).into(),
            Arg::U32(n(l.batch)),
            Arg::U32(l.mode as u32),
            Arg::U32(n(slice(l.batch))),
            Arg::U32(n(l.head)),
            Arg::U32(n(l.heads)),
            (&l.rows).into(),
            (&l.live).into(),
            (&l.labels).into(),
            optional(l.weights),
            optional(l.class_weights),
            (&l.logits).into(),
            Arg::At(l.bias),
            Arg::U64(l.params as u64),
            Arg::U32(n(l.classes)),
            Arg::U32(n(l.padded)),
            Arg::F32(l.smoothing),
            Arg::At(l.delta.unwrap_or(0)),
            (&l.partial).into(),
            (&l.bias_partial).into(),
            optional(l.confusion),
        ];
        // SAFETY: as above; labels were checked to be classes.
        unsafe { self.loss.launch(stream, grid, [256, 1, 1], n(128 * l.padded), &args) }
    }

    /// A head, its loss and the gradient before it.
    pub(super) fn head(&self, stream: &Stream, h: &Head) -> Result<()> {
        let size = if self.bf16 { 2 } else { 4 };
        let at =
            variant(h.width, h.classes, size).ok_or_else(|| Error::Asked("a head that is too large to fuse".into()))?;
        let (chunks, classes) = HEADS[at];
        let shared = 4 * classes * chunks * 512 / size as usize;
        let grid = [n(head_blocks(h.batch)), n(h.states.len()), 1];
        let args = [
            (&h.states).into(),
            Arg::U32(n(h.batch)),
            Arg::U32(h.mode as u32),
            Arg::U32(n(head_slice(h.batch))),
            (&h.rows).into(),
            (&h.live).into(),
            (&h.labels).into(),
            optional(h.weights),
            optional(h.class_weights),
            Arg::At(h.h),
            Arg::U64(h.stride as u64),
            Arg::U64((h.batch * h.stride) as u64),
            Arg::U32(n(h.width)),
            Arg::At(h.w),
            Arg::U64(h.width as u64),
            Arg::U64(h.params as u64),
            Arg::At(h.bias),
            Arg::U64(h.params as u64),
            Arg::U32(n(h.classes)),
            Arg::U32(n(h.padded)),
            Arg::U32(code(h.activation)),
            Arg::F32(h.smoothing),
            Arg::At(h.gradient.unwrap_or(0)),
            Arg::At(h.dh.unwrap_or(0)),
            optional(h.partial),
            (&h.bias_partial).into(),
            (&h.column_partial).into(),
            optional(h.confusion),
            Arg::At(h.logits.unwrap_or(0)),
        ];
        // SAFETY: as above; the width and the classes fit the variant.
        unsafe { self.heads[at].launch(stream, grid, [256, 1, 1], n(shared), &args) }
    }

    /// Adds partial sums in order, into a place of the gradient arena.
    pub(super) fn sum_partials(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        sums: &Sums,
        to: u64,
        params: usize,
    ) -> Result<()> {
        let grid = [n(sums.width.div_ceil(32)), n(states.len()), 1];
        let args = [
            states.into(),
            Arg::U32(Mode::Step as u32),
            Arg::At(sums.partial),
            Arg::U32(n(sums.blocks)),
            Arg::U64(sums.width as u64),
            Arg::At(to),
            Arg::U64(params as u64),
        ];
        // SAFETY: as above.
        unsafe { self.sum_partials.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    /// An activation in place.
    pub(super) fn activate(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        mode: Mode,
        y: Rows,
        activation: Activation,
    ) -> Result<()> {
        let grid = [n((y.batch * y.width).div_ceil(1024)), n(states.len()), 1];
        let (stride, member) = (Arg::U64(y.stride as u64), Arg::U64((y.batch * y.stride) as u64));
        let args = [
            states.into(),
            Arg::U32(mode as u32),
            Arg::U32(code(activation)),
            Arg::U32(n(y.batch)),
            Arg::U32(n(y.width)),
            Arg::At(y.at),
            stride,
            member,
            Arg::At(0),
            Arg::U64(0),
            Arg::At(y.at),
            stride,
            member,
        ];
        // SAFETY: as above; in place is allowed.
        unsafe { self.activate.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    /// The bias of a head, `[S, params]` from its address on, added to outputs in f32, in place.
    pub(super) fn add_bias(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        mode: Mode,
        y: Rows,
        (bias, params): (u64, usize),
    ) -> Result<()> {
        let grid = [n((y.batch * y.width).div_ceil(1024)), n(states.len()), 1];
        let (stride, member) = (Arg::U64(y.stride as u64), Arg::U64((y.batch * y.stride) as u64));
        let args = [
            states.into(),
            Arg::U32(mode as u32),
            Arg::U32(code(Activation::Identity)),
            Arg::U32(n(y.batch)),
            Arg::U32(n(y.width)),
            Arg::At(y.at),
            stride,
            member,
            Arg::At(bias),
            Arg::U64(params as u64),
            Arg::At(y.at),
            stride,
            member,
        ];
        // SAFETY: as above; in place is allowed.
        unsafe { self.biased.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    /// A gradient times the derivative, in place, with the column sums of what it became.
    pub(super) fn derive_sum(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        (y, delta): (Rows, u64),
        activation: Activation,
        partial: &Slice<f32>,
    ) -> Result<()> {
        let wide = if self.bf16 { 256 } else { 128 };
        let grid = [n(y.width.div_ceil(wide)), n(blocks(y.batch)), n(states.len())];
        let args = [
            states.into(),
            Arg::U32(Mode::Step as u32),
            Arg::U32(code(activation)),
            Arg::U32(n(y.batch)),
            Arg::U32(n(slice(y.batch))),
            Arg::U32(n(y.width)),
            Arg::At(delta),
            Arg::At(y.at),
            Arg::U64(y.stride as u64),
            Arg::U64((y.batch * y.stride) as u64),
            partial.into(),
        ];
        // SAFETY: as above.
        unsafe { self.derive_sum.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    /// A gradient in f32 times the derivative, rounded once to bf16.
    pub(super) fn derive_wide(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        y: Rows,
        from: u64,
        to: u64,
        activation: Activation,
    ) -> Result<()> {
        let grid = [n((y.batch * y.width).div_ceil(1024)), n(states.len()), 1];
        let (stride, member) = (Arg::U64(y.stride as u64), Arg::U64((y.batch * y.stride) as u64));
        let args = [
            states.into(),
            Arg::U32(Mode::Step as u32),
            Arg::U32(code(activation)),
            Arg::U32(n(y.batch)),
            Arg::U32(n(y.width)),
            Arg::At(from),
            stride,
            member,
            Arg::At(y.at),
            stride,
            member,
            Arg::At(to),
            stride,
            member,
        ];
        // SAFETY: as above.
        unsafe { self.derive_wide.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    pub(super) fn column_sum(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        delta: Rows,
        partial: &Slice<f32>,
    ) -> Result<()> {
        let grid = [n(delta.width.div_ceil(128)), n(blocks(delta.batch)), n(states.len())];
        let args = [
            states.into(),
            Arg::U32(Mode::Step as u32),
            Arg::U32(n(delta.batch)),
            Arg::U32(n(slice(delta.batch))),
            Arg::U32(n(delta.width)),
            Arg::At(delta.at),
            Arg::U64(delta.stride as u64),
            Arg::U64((delta.batch * delta.stride) as u64),
            partial.into(),
        ];
        // SAFETY: as above.
        unsafe { self.column_sum.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    /// The norm of the gradient, the state after the step, and the orders for the optimiser.
    pub(super) fn advance(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        recipe: &Recipe,
        (gradient, params): (&Slice<f32>, usize),
        sums: &Partials,
        (arrived, orders): (&Slice<u32>, &Slice<u32>),
    ) -> Result<()> {
        let packed = packed(recipe);
        let args = [
            states.into(),
            Arg::U32(n(recipe.batch)),
            gradient.into(),
            Arg::U64(params as u64),
            (&sums.norm).into(),
            (&sums.loss).into(),
            Arg::U32(n(sums.loss_blocks)),
            arrived.into(),
            Arg::Bytes(&packed),
            orders.into(),
        ];
        // SAFETY: as above.
        unsafe { self.advance.launch(stream, [n(norm_blocks(params)), n(states.len()), 1], [256, 1, 1], 0, &args) }
    }

    /// The same for a gradient that is still in parts `[S, count, params]`, which are added first.
    #[expect(clippy::too_many_arguments, reason = "as many as a step ends with")]
    pub(super) fn add_parts(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        recipe: &Recipe,
        (gradient, params): (&Slice<f32>, usize),
        (parts, count): (&Slice<f32>, usize),
        sums: &Partials,
        (arrived, orders): (&Slice<u32>, &Slice<u32>),
    ) -> Result<()> {
        let packed = packed(recipe);
        let args = [
            states.into(),
            Arg::U32(n(recipe.batch)),
            gradient.into(),
            Arg::U64(params as u64),
            parts.into(),
            Arg::U32(n(count)),
            (&sums.norm).into(),
            (&sums.loss).into(),
            Arg::U32(n(sums.loss_blocks)),
            arrived.into(),
            Arg::Bytes(&packed),
            orders.into(),
        ];
        // SAFETY: as above.
        unsafe { self.add_parts.launch(stream, [n(part_blocks(params)), n(states.len()), 1], [256, 1, 1], 0, &args) }
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
        let args = [
            (&part.states).into(),
            Arg::U64(seed),
            Arg::U32(n(part.batch)),
            Arg::U32(n(part.rows)),
            (&part.begin).into(),
            lists.into(),
            rows.into(),
            live.into(),
        ];
        let grid = [n(part.rows.div_ceil(256)), n(part.states.len()), 1];
        // SAFETY: as above.
        unsafe { self.choose_part.launch(stream, grid, [256, 1, 1], 0, &args) }
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
        let args = [
            (&part.states).into(),
            Arg::U32(n(part.batch)),
            Arg::U32(n(part.rows)),
            (&part.begin).into(),
            sum.into(),
            gradient.into(),
            Arg::U64(params as u64),
            (&sums.loss).into(),
            Arg::U32(n(sums.loss_blocks)),
            losses.into(),
        ];
        let grid = [n(part_blocks(params)), n(part.states.len()), 1];
        // SAFETY: as above.
        unsafe { self.add_part.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    /// On to the next part of a batch.
    pub(super) fn next_part(&self, stream: &Stream, part: &Part) -> Result<()> {
        let args = [(&part.begin).into(), Arg::U32(n(part.batch)), Arg::U32(n(part.rows))];
        // SAFETY: as above.
        unsafe { self.next_part.launch(stream, [1, 1, 1], [1, 1, 1], 0, &args) }
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
        let packed = packed(recipe);
        let args = [
            Arg::U64(params as u64),
            orders.into(),
            Arg::Bytes(&packed),
            (&at.gradient).into(),
            (&at.params).into(),
            (&at.mean).into(),
            (&at.square).into(),
            optional(at.shadow),
            optional(at.average),
        ];
        // SAFETY: as above.
        unsafe { self.optimise.launch(stream, grid, [256, 1, 1], 0, &args) }
    }

    /// Adds a chunk's sums and turns to the next chunk.
    pub(super) fn score_sum(
        &self,
        stream: &Stream,
        states: &Slice<State>,
        sums: &Partials,
        to: &Slice<f64>,
        chunk: &Slice<u32>,
    ) -> Result<()> {
        let args = [states.into(), (&sums.loss).into(), Arg::U32(n(sums.loss_blocks)), to.into(), chunk.into()];
        // SAFETY: as above.
        unsafe { self.score_sum.launch(stream, [n(states.len()), 1, 1], [256, 1, 1], 0, &args) }
    }

    pub(super) fn to_bf16(&self, stream: &Stream, from: &Slice<f32>, to: &Slice<u16>) -> Result<()> {
        let grid = [n(from.len().div_ceil(1024).min(1 << 16)), 1, 1];
        // SAFETY: as long as each other.
        unsafe {
            self.to_bf16.launch(stream, grid, [256, 1, 1], 0, &[from.into(), to.into(), Arg::U64(from.len() as u64)])
        }
    }
}
