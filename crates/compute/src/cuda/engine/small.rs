//! Nets that are small enough for one kernel: which they are, how their batch is cut, and the launches. What the
//! kernels do is said in `population/small.cu`.
//!
//! Whether a net goes this way is a rule of net, batch and precision, and how its batch is cut into slices one of the
//! batch alone: both change the order of sums. How many rows a block has in shared memory at once changes no bit, so
//! the card decides; nor does it whether blocks form clusters that do whole steps one after the other
//! (`population/small_step.cu`), or a step is three kernels.

use super::{Engine, Mode};
use crate::arguments;
use crate::cuda::arguments::Address;
use crate::cuda::calls::{self, Optimiser};
use crate::cuda::context::{Context, Gpu};
use crate::cuda::image::Image;
use crate::cuda::kernels;
use crate::cuda::memory::Slice;
use crate::cuda::module::{Kernel, Module};
use crate::error::{Error, Result};
use crate::net::{Activation, Layout, Linear, Net};
use crate::population::{EpochState, Precision, Recipe, SlotState};
use std::sync::Arc;

/// Layers with the head, and their widths.
const LAYERS: usize = 4;
const WIDTH: usize = 256;
/// Classes whose loss the kernel can do; logits of more it can.
const CLASSES: usize = 32;
/// Rows of a slice are a multiple of this, and there are at most so many slices.
const ROWS: usize = 128;
const SLICES: usize = 16;
/// Rows of a block that only makes logits, or scores.
const LOGIT_ROWS: usize = 32;
/// Batches up to this go this way: of larger ones every block would walk several tiles, one after the other, on a card
/// that is mostly idle.
const BATCH: usize = SLICES * ROWS;

/// How a net is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelPath {
    /// As the rule says.
    Rule,
    /// As the rule says, for nets that only predict.
    Predict,
    /// Layer by layer, because somebody else's loss stands between the ways forward and back.
    CallersLoss,
    /// Layer by layer, whatever the rule says: what it is held against.
    #[cfg(test)]
    Layered,
    /// In one kernel with so many rows at once, 128, 64 or 32, and no clusters.
    #[cfg(test)]
    Rows(usize),
}

/// Which part of the work one kernel can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SmallPart {
    Nothing,
    /// Logits, because the head has too many classes for the rest.
    Logits,
    Everything,
}

impl KernelPath {
    /// Whether clusters of blocks do what they can.
    fn clusters(self) -> bool {
        self == KernelPath::Rule
    }

    /// Whether no loss of ours follows the outputs.
    pub(super) fn lossless(self) -> bool {
        matches!(self, KernelPath::Predict | KernelPath::CallersLoss)
    }

    /// Shared memory that whole windows of recurrent layers may count on in a block: none where everything is to go in
    /// layers.
    pub(super) fn shared(self, of_the_card: u32) -> u32 {
        #[cfg(test)]
        if self == KernelPath::Layered {
            return 0;
        }
        of_the_card
    }

    /// What one kernel does of this net.
    pub(super) fn small_part(self, net: &Net, layout: &Layout, recipe: &Recipe) -> SmallPart {
        #[cfg(test)]
        if self == KernelPath::Layered {
            return SmallPart::Nothing;
        }
        if self == KernelPath::CallersLoss {
            return SmallPart::Nothing;
        }
        let narrow = layout.linears.iter().all(|l| l.input.width <= WIDTH && l.output.width <= WIDTH);
        let chain = layout.linears.windows(2).all(|two| two[0].output == two[1].input);
        let plain = layout.recurrents.is_empty() && layout.linears.len() <= LAYERS && !super::between::has_any(layout);
        let one = net.inputs.len() == 1 && !net.inputs[0].dense && net.heads.len() == 1 && plain;
        match recipe.precision == Precision::Bf16 && one && chain && narrow {
            true if net.heads[0].classes <= CLASSES && recipe.batch <= BATCH && recipe.smoothing == 0.0 => {
                SmallPart::Everything
            }
            true => SmallPart::Logits,
            false => SmallPart::Nothing,
        }
    }
}

/// Rows of a slice of a batch, which one block adds up.
fn slice(batch: usize) -> usize {
    batch.div_ceil(SLICES).next_multiple_of(ROWS)
}

/// Slices of a batch.
pub(super) fn slices(batch: usize) -> usize {
    batch.div_ceil(slice(batch))
}

/// Slices of a chunk of validation: as many blocks as there can be, since nothing is added up but losses and counts.
pub(super) fn score_blocks(batch: usize) -> usize {
    batch.div_ceil(LOGIT_ROWS)
}

/// Bytes of shared memory of a block with so many rows at once: the input of every layer, the gradient at the logits,
/// and for each row its loss, weight, place and label; then a small table of counts.
fn shared(layout: &Layout, rows: usize) -> usize {
    let wide = |width: usize| width.next_multiple_of(32);
    let inputs: usize = layout.linears.iter().map(|l| wide(l.input.width)).sum();
    rows * (2 * (inputs + CLASSES) + 20) + 256
}

/// The same of a block that only makes logits: the input and the output of a layer.
fn shared_of_logits(layout: &Layout) -> usize {
    let widest = layout.linears.iter().map(|l| l.input.width.next_multiple_of(32)).max().unwrap_or(0);
    LOGIT_ROWS * (2 * 2 * widest + 4)
}

/// Shared memory that a block needs for clusters to be worth their while: what desktop cards do not have.
const AMPLE: usize = 200 << 10;
/// Blocks of a cluster on every card that has them.
const CLUSTER: usize = 8;
/// Elements of the arena that a thread group of `small_step` takes at once, and bytes of it in one array.
const PIECE: usize = 1024;
const PIECE_BYTES: usize = PIECE * 4;
/// Pieces of a row at most: as many sums of squares as there is room for.
const PIECES: usize = 256;
/// Steps of one launch: enough that a launch costs nothing, few enough that the card is not away for long.
const STEPS: u32 = 256;

/// How a block of `small_step` uses its shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClusterPlan {
    /// Blocks of a member.
    cluster: usize,
    /// Bytes in all.
    shared: usize,
    /// Pieces of the arena that stay there from step to step, where they begin, and pieces that are there while a block
    /// optimises.
    resident: usize,
    resident_at: usize,
    kept: usize,
}

impl ClusterPlan {
    /// The plan for a net and a batch on a card whose blocks may have so much, if it fits.
    fn plan(layout: &Layout, batch: usize, most: usize) -> Option<ClusterPlan> {
        let (cluster, pieces) = (slices(batch), layout.params.div_ceil(PIECE));
        if most < AMPLE || cluster > CLUSTER || pieces > PIECES || slice(batch) != ROWS {
            return None;
        }
        let wide = |width: usize| width.next_multiple_of(32);
        let own = pieces.div_ceil(cluster);
        // Sums of pieces, losses, order, state, rows known of two steps, sums of warps.
        let tiles = (2048 + 128 + 32 + 120 + 2 * ROWS * 12 + own * 64).next_multiple_of(128);
        let inputs: usize = layout.linears.iter().map(|l| wide(l.input.width)).sum();
        let weights: usize = layout.linears.iter().map(|l| wide(l.output.width) * (wide(l.input.width) * 2 + 4)).sum();
        let net = tiles + ROWS * (2 * (inputs + CLASSES) + 8) + weights;
        // The gradient of all own pieces lies where the net was, then what the optimiser needs of as many as there is
        // room for.
        let resident_at = net.max(tiles + own * PIECE_BYTES).next_multiple_of(128);
        let room = most.checked_sub(resident_at)?;
        let resident = own.min(room / (3 * PIECE_BYTES));
        let kept = own.min(resident + (resident_at - tiles - own * PIECE_BYTES) / (3 * PIECE_BYTES));
        Some(ClusterPlan { cluster, shared: resident_at + resident * 3 * PIECE_BYTES, resident, resident_at, kept })
    }
}

/// The kernels for one net on one card.
pub(super) struct SmallKernels {
    whole: Kernel<Small>,
    rows: usize,
    shared: usize,
    score: Kernel<Small>,
    logits: Kernel<Small>,
    /// Whole steps by clusters.
    clusters: Option<(Kernel<Training>, ClusterPlan)>,
}

impl SmallKernels {
    pub(super) fn load(
        context: &Arc<Context>,
        layout: &Layout,
        recipe: &Recipe,
        part: SmallPart,
        path: KernelPath,
    ) -> Result<SmallKernels> {
        let module = Module::load(context, &kernels::SMALL)?;
        let most = context.gpu().shared as usize;
        let rows = match path {
            #[cfg(test)]
            KernelPath::Rows(rows) => Some(rows),
            _ => [128, 64, 32].into_iter().find(|rows| shared(layout, *rows) <= most),
        };
        // 32 rows of four layers of 256 are within what every card has.
        let rows = rows.ok_or_else(|| Error::Invalid("this net is too large for one kernel".into()))?;
        let whole: Kernel<Small> = module.typed(&format!("small_{rows}"))?;
        let bytes = shared(layout, rows);
        whole.allow_shared(bytes as u32)?;
        let score: Kernel<Small> = module.typed(&format!("small_{LOGIT_ROWS}"))?;
        score.allow_shared(shared(layout, LOGIT_ROWS) as u32)?;
        let logits: Kernel<Small> = module.typed(&format!("small_logits_{LOGIT_ROWS}"))?;
        logits.allow_shared(shared_of_logits(layout) as u32)?;
        // Clusters keep no average of the weights: with one, a step is three kernels.
        let whole_steps = part == SmallPart::Everything && path.clusters() && recipe.average.is_none();
        let clusters = match ClusterPlan::plan(layout, recipe.batch, most) {
            Some(plan) if whole_steps && has(&kernels::SMALL_STEP, context.gpu()) => {
                let kernel: Kernel<Training> = Module::load(context, &kernels::SMALL_STEP)?.typed("small_step")?;
                kernel.allow_shared(plan.shared as u32)?;
                Some((kernel, plan))
            }
            _ => None,
        };
        Ok(SmallKernels { whole, rows, shared: bytes, score, logits, clusters })
    }

    /// Steps that one launch can do, where it can do whole steps.
    pub(super) fn steps_per_launch(&self) -> Option<u32> {
        self.clusters.as_ref().map(|_| STEPS)
    }

    /// For people.
    pub(super) fn describe(&self, part: SmallPart) -> String {
        match part {
            SmallPart::Everything => match &self.clusters {
                Some((_, plan)) => format!("whole steps in one kernel, {} blocks to a member", plan.cluster),
                None => format!("the whole net in one kernel, {} rows at once", self.rows),
            },
            _ => "logits in one kernel".into(),
        }
    }
}

/// Whether there is code for a card.
fn has(image: &Image, gpu: &Gpu) -> bool {
    image.pick(gpu.capability).is_some()
}

impl Engine {
    /// A step's gradients, or a chunk of validation, of the slots from `first` on.
    pub(super) fn small_whole(&self, small: &SmallKernels, first: usize, slots: usize, mode: Mode) -> Result<()> {
        let batch = self.recipe.batch;
        let (kernel, blocks, shared) = match mode {
            Mode::Score => (&small.score, score_blocks(batch), shared(&self.layout, LOGIT_ROWS)),
            _ => (&small.whole, slices(batch), small.shared),
        };
        let args = self.small_net(first, slots, mode);
        // SAFETY: addresses of the engine's slab, laid out for this net and batch; rows and labels were checked.
        unsafe { kernel.send(&self.main, [blocks, slots, 1], 256, shared, &args) }
    }

    /// At most so many whole steps of the slots from `first` on; each stops where it is due. Says whether there was a
    /// kernel for it.
    pub(super) fn small_steps(&self, small: &SmallKernels, first: usize, slots: usize, steps: u32) -> Result<bool> {
        let (Some((kernel, plan)), Some(epochs)) = (&small.clusters, self.epochs_of(first, slots)) else {
            return Ok(false);
        };
        let (at, params) = (&self.at, self.layout.params);
        let row = |arena: &Slice<f32>| arena.part(first * params, slots * params);
        let args = Training {
            net: self.small_net(first, slots, Mode::Step),
            states: self.states_of(first, slots),
            epochs,
            master: row(&at.params),
            mean: row(&at.mean),
            square: row(&at.square),
            grads: row(&at.gradient),
            copy: at.shadow.as_ref().map(|s| s.part(first * params, slots * params)),
            steps,
            resident: plan.resident,
            kept: plan.kept,
            resident_at: plan.resident_at,
            o: calls::optimiser(&self.recipe),
        };
        let grid = [plan.cluster, slots, 1];
        // SAFETY: as above.
        unsafe { kernel.send_in_clusters(&self.main, plan.cluster, grid, 512, plan.shared, &args)? };
        Ok(true)
    }

    /// Logits of the rows that lie in `rows`.
    pub(super) fn small_logits(&self, small: &SmallKernels, first: usize, slots: usize) -> Result<()> {
        let grid = [self.recipe.batch.div_ceil(LOGIT_ROWS), slots, 1];
        let args = self.small_net(first, slots, Mode::Always);
        // SAFETY: as above.
        unsafe { small.logits.send(&self.main, grid, 256, shared_of_logits(&self.layout), &args) }
    }

    /// The net and its data, for the slots from `first` on.
    fn small_net(&self, first: usize, slots: usize, mode: Mode) -> Small {
        let (at, layout, batch) = (&self.at, &self.layout, self.recipe.batch);
        let (params, parts) = (layout.params, slices(batch));
        let (losses, slice) =
            if mode == Mode::Score { (score_blocks(batch), LOGIT_ROWS) } else { (parts, slice(batch)) };
        let head = &layout.linears[layout.linears.len() - 1];
        let (input, rows, classes) = (&self.net.inputs[0], &self.rows[0], head.outputs);
        Small {
            states: self.states_of(first, slots),
            epochs: self.epochs_of(first, slots),
            master: at.params.part(first * params, slots * params),
            copy: at.shadow.as_ref().map(|s| s.part(first * params, slots * params)),
            params,
            seed: self.recipe.seed,
            lists: at.lists,
            rows: at.rows.part(first * batch, slots * batch),
            table: rows.table,
            stride: rows.stride,
            map: rows.map,
            mean: at.means[0],
            inverse: at.inverses[0],
            labels: at.labels.first().copied(),
            weights: at.weights,
            class_weights: at.class_weights[0],
            valid_list: at.valid_at,
            valid_count: at.valid_count,
            chunk: at.chunk,
            partial: at.parts.address() + (4 * first * parts * params) as u64,
            loss_partial: at.loss_partial.part(first * losses * 2, slots * losses * 2),
            confusion: at.confusion[0].part(first * classes * classes, slots * classes * classes),
            logits: at.logits[0].part(first * batch * head.output.width, slots * batch * head.output.width),
            batch,
            mode,
            slice,
            features: input.features,
            window: input.window,
            layers: layout.linears.len(),
            classes,
            spare: 0,
            layer: std::array::from_fn(|l| SmallLayer::new(layout.linears.get(l))),
        }
    }
}

impl SmallLayer {
    /// A layer as the kernels take it; zeros for one that the net does not have.
    fn new(linear: Option<&Linear>) -> SmallLayer {
        let none = SmallLayer { weight: 0, bias: 0, inputs: 0, outputs: 0, act: Activation::Identity };
        linear.map_or(none, |linear| SmallLayer {
            weight: linear.weight,
            bias: linear.bias,
            inputs: linear.input.width,
            outputs: linear.output.width,
            act: linear.activation,
        })
    }
}

arguments! {
    /// A layer of a small net.
    struct SmallLayer in "../../population/small_net.cuh" {
        weight: usize as u32,
        bias: usize as u32,
        inputs: usize as u32,
        outputs: usize as u32,
        act: Activation as u32,
    }
}

arguments! {
    /// A small net and its data; of `small_128` and its like, and of `small_logits`.
    struct Small in "../../population/small_net.cuh" {
        states: Slice<SlotState>,
        epochs: Option<Slice<EpochState>>,
        master: Slice<f32>,
        copy: Option<Slice<u16>>,
        params: usize as u64,
        seed: u64,
        lists: Slice<u32>,
        rows: Slice<u32>,
        table: Slice<f32>,
        stride: usize as u64,
        map: Option<Slice<u32>>,
        mean: Option<Slice<f32>>,
        inverse: Option<Slice<f32>>,
        labels: Option<Slice<u8>>,
        weights: Option<Slice<f32>>,
        class_weights: Option<Slice<f32>>,
        valid_list: Slice<u32>,
        valid_count: Slice<u32>,
        chunk: Slice<u32>,
        partial: u64 as Address,
        loss_partial: Slice<f64>,
        confusion: Slice<u64>,
        logits: Slice<f32>,
        batch: usize as u32,
        mode: Mode as u32,
        slice: usize as u32,
        features: usize as u32,
        window: usize as u32,
        layers: usize as u32,
        classes: usize as u32,
        spare: u32,
        layer: [SmallLayer; LAYERS],
    }
}

arguments! {
    /// Of `small_step`.
    struct Training in "../../population/small_step.cu" {
        net: Small,
        states: Slice<SlotState>,
        epochs: Slice<EpochState>,
        master: Slice<f32>,
        mean: Slice<f32>,
        square: Slice<f32>,
        grads: Slice<f32>,
        copy: Option<Slice<u16>>,
        steps: u32,
        resident: usize as u32,
        kept: usize as u32,
        resident_at: usize as u32,
        o: Optimiser,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::make::recipe;

    /// Shared memory that every card from compute capability 8.0 on has for a block.
    const SHARED: usize = 99 << 10;

    fn path(net: &str, precision: Precision) -> SmallPart {
        let net: Net = net.parse().unwrap();
        KernelPath::Rule.small_part(&net, &Layout::new(&net).unwrap(), &recipe(64, precision))
    }

    #[test]
    fn nets_that_fit_one_kernel_are_recognised() {
        let bf16 = |net| path(net, Precision::Bf16);
        for net in ["64-128-128-3", "12-3", "7-12-3", "5x4-24-16t-9", "256-256-256-256-32", "8x32-8-2"] {
            assert_eq!(bf16(net), SmallPart::Everything, "{net}");
            assert_eq!(path(net, Precision::F32), SmallPart::Nothing, "{net}");
            assert_eq!(path(net, Precision::Tf32), SmallPart::Nothing, "{net}");
        }
        for net in ["64-128-33", "128-256-256-128"] {
            assert_eq!(bf16(net), SmallPart::Logits, "{net}");
        }
        for net in
            ["64-257-3", "257-8-3", "8-8-8-8-8-3", "8-8 / a:3 + b:2", "x:4-8 + y:4-8 / 8 / 3", "8-8n-3", "8-8d5-3"]
        {
            assert_eq!(bf16(net), SmallPart::Nothing, "{net}");
        }
    }

    #[test]
    fn a_batch_is_cut_by_its_size_alone() {
        for (batch, rows, many) in [
            (1, 128, 1),
            (128, 128, 1),
            (129, 128, 2),
            (2048, 128, 16),
            (2049, 256, 9),
            (4096, 256, 16),
            (1 << 22, 1 << 18, 16),
        ] {
            assert_eq!((slice(batch), slices(batch)), (rows, many), "{batch}");
        }
    }

    #[test]
    fn every_card_has_enough_shared_memory() {
        let layout = |net: &str| Layout::new(&net.parse().unwrap()).unwrap();
        let largest = layout("256-256-256-256-32");
        assert!(shared(&largest, 32) <= SHARED && shared_of_logits(&largest) <= SHARED);
        assert!(shared(&layout("64-128-128-3"), 128) <= SHARED);
    }

    #[test]
    fn clusters_are_planned_only_where_shared_memory_is_enough() {
        let layout = |net: &str| Layout::new(&net.parse().unwrap()).unwrap();
        let most = 227 << 10;
        for (net, batch, cluster) in [
            ("64-128-128-3", 256, Some(2)),
            ("64-128-128-3", 100, Some(1)),
            ("64-128-128-3", 1024, Some(8)),
            ("12-3", 300, Some(3)),
        ] {
            let plan = ClusterPlan::plan(&layout(net), batch, most);
            assert_eq!(plan.map(|p| p.cluster), cluster, "{net}, {batch}");
            let plan = plan.unwrap();
            let own = layout(net).params.div_ceil(PIECE).div_ceil(plan.cluster);
            assert!(plan.shared <= most && plan.resident <= plan.kept && plan.kept <= own, "{net}, {batch}: {plan:?}");
            assert_eq!(ClusterPlan::plan(&layout(net), batch, SHARED), None, "{net}, {batch}");
        }
        assert!(ClusterPlan::plan(&layout("64-128-128-3"), 256, most).unwrap().resident > 0);
        // More blocks than a cluster has; more weights than shared memory.
        assert_eq!(ClusterPlan::plan(&layout("64-128-128-3"), 1025, most), None);
        assert_eq!(ClusterPlan::plan(&layout("256-256-256-256-32"), 256, most), None);
    }
}
