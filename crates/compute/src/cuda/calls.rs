//! The kernels of a population as functions: their grids, and the structs that they take. What they do is said in the
//! `.cu` files.

use super::arguments::{Address, Argument, Kind, PackAs, Packer, sealed::Sealed};
use super::context::Context;
use super::engine::Mode;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Kernel, Module};
use crate::arguments;
use crate::error::{Error, Result};
use crate::net::Activation;
use crate::population::{EpochState, Recipe, Rule, Shape, SlotState};
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
pub(super) fn head_slice(batch: usize) -> usize {
    if batch <= 8192 { 16 } else { 256 }
}

/// Blocks of a fused head.
pub(super) fn head_blocks(batch: usize) -> usize {
    batch.div_ceil(head_slice(batch))
}

/// Rows of a slice of heads that are a caller's: few, since a slice is the work of one block.
pub(super) fn callers_slice(batch: usize) -> usize {
    if batch <= 8192 { 16 } else { 64 }
}

/// Slices of heads that are a caller's.
pub(super) fn callers_blocks(batch: usize) -> usize {
    batch.div_ceil(callers_slice(batch))
}

/// The most partial sums of columns that any kernel leaves behind.
pub(super) fn most_blocks(batch: usize) -> usize {
    blocks(batch).max(head_blocks(batch)).max(callers_blocks(batch)).max(super::hopper::blocks(batch))
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
    /// Whether what stands between products is left out, to time them alone.
    pub(super) only_products: bool,
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

/// Rows of a place in an activation buffer, of every slot. Kernels take its address, and the elements from row to row
/// and from slot to slot.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) at: u64,
    pub(super) batch: usize,
    pub(super) width: usize,
    pub(super) stride: usize,
}

impl Sealed for Rows {}
impl Argument for Rows {
    const KIND: Kind = Kind::strided(&["_stride", "_member"]);
    fn write(&self, to: &mut Packer) {
        [self.at, self.stride as u64, (self.batch * self.stride) as u64].iter().for_each(|word| to.put(word));
    }
}

/// A place in a row of the arena of every slot. Kernels take its address, and the elements from slot to slot.
#[derive(Clone, Copy)]
pub(super) struct InArena {
    pub(super) at: u64,
    pub(super) params: usize,
}

impl Sealed for InArena {}
impl Argument for InArena {
    const KIND: Kind = Kind::strided(&["_member"]);
    fn write(&self, to: &mut Packer) {
        [self.at, self.params as u64].iter().for_each(|word| to.put(word));
    }
}

/// The partial sums that say how long a gradient is and what its batch weighs.
pub(super) struct Partials {
    pub(super) norm: Slice<f64>,
    pub(super) loss: Slice<f64>,
    pub(super) loss_blocks: usize,
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

impl PackAs<u32> for Mode {
    fn to_c(&self) -> u32 {
        *self as u32
    }
}

impl PackAs<u32> for Activation {
    fn to_c(&self) -> u32 {
        match self {
            Activation::Identity => 0,
            Activation::Relu => 1,
            Activation::Tanh => 2,
        }
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
            only_products: false,
        })
    }

    /// Our own products.
    pub(super) fn own(&self) -> &super::own::Own {
        &self.own
    }

    /// Products with what follows them on Hopper's own units, where the card has them.
    pub(super) fn hopper(&self) -> Result<&super::hopper::Hopper> {
        self.hopper
            .as_ref()
            .ok_or_else(|| Error::Invalid("this product needs a Hopper GPU (compute capability 9.0)".into()))
    }

    /// The rows of a batch, scaled, into an activation buffer.
    pub(super) fn gather(&self, stream: &Stream, args: &GatherArgs) -> Result<()> {
        if self.only_products {
            return Ok(());
        }
        let grid = [args.batch.div_ceil(32), args.states.len(), 1];
        // SAFETY: slices of the engine's slab, laid out for this batch; row ids were checked when the population was
        // made.
        unsafe { self.gather.send(stream, grid, 128, 0, args) }
    }

    /// The loss of one head and its gradient at the logits.
    pub(super) fn loss(&self, stream: &Stream, args: &LossArgs) -> Result<()> {
        let grid = [blocks(args.batch), args.states.len(), 1];
        // SAFETY: as above; labels were checked to be classes.
        unsafe { self.loss.send(stream, grid, 256, 128 * args.padded, args) }
    }

    /// A head, its loss and the gradient before it.
    pub(super) fn head(&self, stream: &Stream, args: &HeadArgs) -> Result<()> {
        let size = if self.bf16 { 2 } else { 4 };
        let at = variant(args.width, args.classes, size)
            .ok_or_else(|| Error::Invalid("this head has too many inputs or classes for one kernel".into()))?;
        let (chunks, classes) = HEADS[at];
        let shared = 4 * classes * chunks * 512 / size as usize;
        let grid = [head_blocks(args.batch), args.states.len(), 1];
        // SAFETY: as above; the width and the classes fit the variant.
        unsafe { self.heads[at].send(stream, grid, 256, shared, args) }
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
        if self.only_products {
            return Ok(());
        }
        let grid = [sums.width.div_ceil(32), states.len(), 1];
        let args = SumArgs {
            states: *states,
            partial: sums.partial,
            n: sums.width,
            out: InArena { at: to, params },
            mode: Mode::Step,
            blocks: sums.blocks,
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
        if self.only_products {
            return Ok(());
        }
        let bias = InArena { at: 0, params: 0 };
        let args =
            ActivateArgs { states: *states, z: y, bias, y, mode, act: activation, batch: y.batch, width: y.width };
        // SAFETY: as above; in place is allowed.
        unsafe { self.activate.send(stream, elements(&y, states), 256, 0, &args) }
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
        if self.only_products {
            return Ok(());
        }
        let wide = if self.bf16 { 256 } else { 128 };
        let grid = [y.width.div_ceil(wide), blocks(y.batch), states.len()];
        let args = DeriveSumArgs {
            states: *states,
            dz: delta,
            y: y.at,
            stride: y.stride,
            member: y.batch * y.stride,
            partial: *partial,
            mode: Mode::Step,
            act: activation,
            batch: y.batch,
            slice: slice(y.batch),
            width: y.width,
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
        act: Activation,
    ) -> Result<()> {
        if self.only_products {
            return Ok(());
        }
        let args = DeriveArgs {
            states: *states,
            dy: Rows { at: from, ..y },
            y,
            dz: Rows { at: to, ..y },
            mode: Mode::Step,
            act,
            batch: y.batch,
            width: y.width,
        };
        // SAFETY: as above.
        unsafe { self.derive_wide.send(stream, elements(&y, states), 256, 0, &args) }
    }

    pub(super) fn column_sum(
        &self,
        stream: &Stream,
        states: &Slice<SlotState>,
        delta: Rows,
        partial: &Slice<f32>,
    ) -> Result<()> {
        if self.only_products {
            return Ok(());
        }
        let grid = [delta.width.div_ceil(128), blocks(delta.batch), states.len()];
        let args = ColumnArgs {
            states: *states,
            dz: delta.at,
            stride: delta.stride,
            member: delta.batch * delta.stride,
            partial: *partial,
            mode: Mode::Step,
            batch: delta.batch,
            slice: slice(delta.batch),
            width: delta.width,
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
            params,
            norm_partial: sums.norm,
            loss_partial: sums.loss,
            arrived: *arrived,
            orders: orders.address(),
            o: optimiser(recipe),
            batch: recipe.batch,
            loss_blocks: sums.loss_blocks,
        };
        // SAFETY: as above.
        unsafe { self.advance.send(stream, [norm_blocks(params), states.len(), 1], 256, 0, &args) }
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
            params,
            parts: *parts,
            norm_partial: sums.norm,
            loss_partial: sums.loss,
            arrived: *arrived,
            orders: orders.address(),
            o: optimiser(recipe),
            batch: recipe.batch,
            count,
            loss_blocks: sums.loss_blocks,
        };
        // SAFETY: as above.
        unsafe { self.add_parts.send(stream, [part_blocks(params), states.len(), 1], 256, 0, &args) }
    }

    /// Which rows a part of the batch has.
    pub(super) fn choose_part(&self, stream: &Stream, args: &ChoosePartArgs) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.choose_part.send(stream, [args.part.div_ceil(256), args.states.len(), 1], 256, 0, args) }
    }

    /// Adds a part's gradient, loss and weight to those of the parts before it.
    pub(super) fn add_part(&self, stream: &Stream, args: &AddPartArgs) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.add_part.send(stream, [part_blocks(args.params), args.states.len(), 1], 256, 0, args) }
    }

    /// On to the next part of a batch.
    pub(super) fn next_part(&self, stream: &Stream, args: &NextPartArgs) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.next_part.send(stream, [1, 1, 1], 1, 0, args) }
    }

    /// Parameters after a step, as `advance` ordered it.
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
        let args = OptimiseArgs {
            params,
            orders: orders.address(),
            grads: at.gradient,
            master: at.params,
            mean: at.mean,
            square: at.square,
            copy: at.shadow,
            average: at.average,
            o: optimiser(recipe),
        };
        // SAFETY: as above.
        unsafe { self.optimise.send(stream, [params.div_ceil(each), orders.len() / ORDER, 1], 256, 0, &args) }
    }

    /// Adds a chunk's sums and turns to the next chunk.
    pub(super) fn score_sum(&self, stream: &Stream, args: &ScoreSumArgs) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.score_sum.send(stream, [args.states.len(), 1, 1], 256, 0, args) }
    }

    pub(super) fn to_bf16(&self, stream: &Stream, from: &Slice<f32>, to: &Slice<u16>) -> Result<()> {
        let grid = [from.len().div_ceil(1024).min(1 << 16), 1, 1];
        let args = RoundArgs { from: *from, to: *to, n: from.len() };
        // SAFETY: as long as each other.
        unsafe { self.to_bf16.send(stream, grid, 256, 0, &args) }
    }
}

/// A grid with a thread for four numbers.
pub(super) fn elements(y: &Rows, states: &Slice<SlotState>) -> [usize; 3] {
    [(y.batch * y.width).div_ceil(1024), states.len(), 1]
}

arguments! {
    /// The optimiser and the schedule.
    pub(super) struct Optimiser in "../population/optimiser.cuh" {
        pub rule: u32,
        pub beta1: f32,
        pub beta2: f32,
        pub eps: f32,
        pub decay: f32,
        pub clip: f32,
        pub shape: u32,
        pub warmup: f32,
        pub floor: f32,
        pub memory: f32,
    }
}

arguments! {
    /// Of `gather`.
    pub(super) struct GatherArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub epochs: Option<Slice<EpochState>>,
        pub seed: u64,
        pub lists: Slice<u32>,
        pub rows: Slice<u32>,
        pub live: Slice<f32>,
        pub table: Slice<f32>,
        pub stride: usize as u64,
        pub map: Option<Slice<u32>>,
        pub mean: Option<Slice<f32>>,
        pub inverse: Option<Slice<f32>>,
        pub out: Rows,
        pub valid_list: Slice<u32>,
        pub valid_count: Slice<u32>,
        pub chunk: Slice<u32>,
        pub batch: usize as u32,
        pub mode: Mode as u32,
        pub choose: bool as u32,
        pub features: usize as u32,
        pub window: usize as u32,
        pub padded: usize as u32,
    }
}

arguments! {
    /// Of `loss`.
    pub(super) struct LossArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub rows: Slice<u32>,
        pub live: Slice<f32>,
        pub labels: Slice<u8>,
        pub weights: Option<Slice<f32>>,
        pub class_weights: Option<Slice<f32>>,
        pub logits: Slice<f32>,
        pub bias: InArena,
        pub gradient: Option<u64> as Address,
        pub partial: Slice<f64>,
        pub bias_partial: Slice<f32>,
        pub confusion: Option<Slice<u64>>,
        pub batch: usize as u32,
        pub mode: Mode as u32,
        pub slice: usize as u32,
        pub head: usize as u32,
        pub heads: usize as u32,
        pub classes: usize as u32,
        pub padded: usize as u32,
        pub smoothing: f32,
    }
}

arguments! {
    /// Of `head`.
    pub(super) struct HeadArgs in "../population/backward.cu" {
        pub states: Slice<SlotState>,
        pub rows: Slice<u32>,
        pub live: Slice<f32>,
        pub labels: Slice<u8>,
        pub weights: Option<Slice<f32>>,
        pub class_weights: Option<Slice<f32>>,
        pub h: Rows,
        pub w: u64 as Address,
        pub w_stride: usize as u64,
        pub w_member: usize as u64,
        pub bias: InArena,
        pub gradient: Option<u64> as Address,
        pub dh: Option<u64> as Address,
        pub partial: Option<Slice<f64>>,
        pub bias_partial: Slice<f32>,
        pub column_partial: Slice<f32>,
        pub confusion: Option<Slice<u64>>,
        pub logits: Option<u64> as Address,
        pub batch: usize as u32,
        pub mode: Mode as u32,
        pub slice: usize as u32,
        pub width: usize as u32,
        pub classes: usize as u32,
        pub padded: usize as u32,
        pub act: Activation as u32,
        pub smoothing: f32,
    }
}

arguments! {
    /// Of `sum_partials`.
    pub(super) struct SumArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub partial: u64 as Address,
        pub n: usize as u64,
        pub out: InArena,
        pub mode: Mode as u32,
        pub blocks: usize as u32,
    }
}

arguments! {
    /// Of `activate`.
    pub(super) struct ActivateArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub z: Rows,
        pub bias: InArena,
        pub y: Rows,
        pub mode: Mode as u32,
        pub act: Activation as u32,
        pub batch: usize as u32,
        pub width: usize as u32,
    }
}

arguments! {
    /// Of `derive`.
    pub(super) struct DeriveArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub dy: Rows,
        pub y: Rows,
        pub dz: Rows,
        pub mode: Mode as u32,
        pub act: Activation as u32,
        pub batch: usize as u32,
        pub width: usize as u32,
    }
}

arguments! {
    /// Of `derive_sum`.
    pub(super) struct DeriveSumArgs in "../population/backward.cu" {
        pub states: Slice<SlotState>,
        pub dz: u64 as Address,
        pub y: u64 as Address,
        pub stride: usize as u64,
        pub member: usize as u64,
        pub partial: Slice<f32>,
        pub mode: Mode as u32,
        pub act: Activation as u32,
        pub batch: usize as u32,
        pub slice: usize as u32,
        pub width: usize as u32,
    }
}

arguments! {
    /// Of `column_sum`.
    pub(super) struct ColumnArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub dz: u64 as Address,
        pub stride: usize as u64,
        pub member: usize as u64,
        pub partial: Slice<f32>,
        pub mode: Mode as u32,
        pub batch: usize as u32,
        pub slice: usize as u32,
        pub width: usize as u32,
    }
}

arguments! {
    /// Of `advance`.
    pub(super) struct AdvanceArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub epochs: Option<Slice<EpochState>>,
        pub grads: Slice<f32>,
        pub params: usize as u64,
        pub norm_partial: Slice<f64>,
        pub loss_partial: Slice<f64>,
        pub arrived: Slice<u32>,
        pub orders: u64 as Address,
        pub o: Optimiser,
        pub batch: usize as u32,
        pub loss_blocks: usize as u32,
    }
}

arguments! {
    /// Of `add_parts`.
    pub(super) struct AddPartsArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub epochs: Option<Slice<EpochState>>,
        pub grads: Slice<f32>,
        pub params: usize as u64,
        pub parts: Slice<f32>,
        pub norm_partial: Slice<f64>,
        pub loss_partial: Slice<f64>,
        pub arrived: Slice<u32>,
        pub orders: u64 as Address,
        pub o: Optimiser,
        pub batch: usize as u32,
        pub count: usize as u32,
        pub loss_blocks: usize as u32,
    }
}

arguments! {
    /// Of `choose_part`.
    pub(super) struct ChoosePartArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub epochs: Option<Slice<EpochState>>,
        pub seed: u64,
        pub begin: Slice<u32>,
        pub lists: Slice<u32>,
        pub rows: Slice<u32>,
        pub live: Slice<f32>,
        pub batch: usize as u32,
        pub part: usize as u32,
    }
}

arguments! {
    /// Of `add_part`.
    pub(super) struct AddPartArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub begin: Slice<u32>,
        pub sum: Slice<f32>,
        pub grads: Slice<f32>,
        pub params: usize as u64,
        pub loss_partial: Slice<f64>,
        pub loss_sum: Slice<f64>,
        pub batch: usize as u32,
        pub part: usize as u32,
        pub loss_blocks: usize as u32,
    }
}

arguments! {
    /// Of `next_part`.
    pub(super) struct NextPartArgs in "../population/population.cu" {
        pub begin: Slice<u32>,
        pub batch: usize as u32,
        pub part: usize as u32,
    }
}

arguments! {
    /// Of `optimise`.
    pub(super) struct OptimiseArgs in "../population/population.cu" {
        pub params: usize as u64,
        pub orders: u64 as Address,
        pub grads: Slice<f32>,
        pub master: Slice<f32>,
        pub mean: Slice<f32>,
        pub square: Slice<f32>,
        pub copy: Option<Slice<u16>>,
        pub average: Option<Slice<f32>>,
        pub o: Optimiser,
    }
}

arguments! {
    /// Of `score_sum`.
    pub(super) struct ScoreSumArgs in "../population/population.cu" {
        pub states: Slice<SlotState>,
        pub loss_partial: Slice<f64>,
        pub sums: Slice<f64>,
        pub chunk: Slice<u32>,
        pub loss_blocks: usize as u32,
    }
}

arguments! {
    /// Of `to_bf16`.
    pub(super) struct RoundArgs in "../population/population.cu" {
        pub from: Slice<f32>,
        pub to: Slice<u16>,
        pub n: usize as u64,
    }
}

arguments! {
    /// Of `fill_random`.
    pub(super) struct FillArgs in "../population/population.cu" {
        pub out: u64 as Address,
        pub n: usize as u64,
        pub seed: u64,
    }
}
