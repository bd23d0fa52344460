//! Nets that are small enough for one kernel: which they are, how their batch is cut, and the launches. What the
//! kernels do is said in `population/small.cu`.
//!
//! Whether a net goes this way is a rule of net, batch and precision, and how its batch is cut into slices one of the
//! batch alone: both change the order of sums. How many rows a block has in shared memory at once changes no bit, so
//! the card decides; nor does it whether blocks form clusters that do whole steps one after the other
//! (`population/small_step.cu`), or a step is three kernels.

use super::{Engine, Mode};
use crate::cuda::arguments::Packer;
use crate::cuda::calls;
use crate::cuda::context::{Context, Gpu};
use crate::cuda::image::Image;
use crate::cuda::kernels;
use crate::cuda::memory::Slice;
use crate::cuda::module::{Arg, Function, Module};
use crate::error::{Error, Result};
use crate::net::{Layout, Net};
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
pub(crate) enum Road {
    /// As the rule says.
    Rule,
    /// As the rule says, for nets that are only asked.
    Asked,
    /// Layer by layer, because somebody else's loss stands between the ways forward and back.
    Open,
    /// Layer by layer, whatever the rule says: what it is held against.
    #[cfg(test)]
    Layered,
    /// In one kernel with so many rows at once, 128, 64 or 32, and no clusters.
    #[cfg(test)]
    Rows(usize),
}

/// Which part of the work one kernel can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fits {
    Nothing,
    /// Logits, because the head has too many classes for the rest.
    Logits,
    Everything,
}

impl Road {
    /// Whether clusters of blocks do what they can.
    fn clusters(self) -> bool {
        self == Road::Rule
    }

    /// Whether no loss of ours follows the outputs.
    pub(super) fn lossless(self) -> bool {
        matches!(self, Road::Asked | Road::Open)
    }

    /// Shared memory that whole windows of recurrent layers may count on in a block: none where everything is to go in
    /// layers.
    pub(super) fn shared(self, of_the_card: u32) -> u32 {
        #[cfg(test)]
        if self == Road::Layered {
            return 0;
        }
        of_the_card
    }

    /// What one kernel does of this net.
    pub(super) fn fits(self, net: &Net, layout: &Layout, recipe: &Recipe) -> Fits {
        #[cfg(test)]
        if self == Road::Layered {
            return Fits::Nothing;
        }
        if self == Road::Open {
            return Fits::Nothing;
        }
        let narrow = layout.linears.iter().all(|l| l.input.width <= WIDTH && l.output.width <= WIDTH);
        let chain = layout.linears.windows(2).all(|two| two[0].output == two[1].input);
        let plain = layout.recurrents.is_empty() && layout.linears.len() <= LAYERS && !super::between::any(layout);
        let one = net.inputs.len() == 1 && !net.inputs[0].dense && net.heads.len() == 1 && plain;
        match recipe.precision == Precision::Bf16 && one && chain && narrow {
            true if net.heads[0].classes <= CLASSES && recipe.batch <= BATCH && recipe.smoothing == 0.0 => {
                Fits::Everything
            }
            true => Fits::Logits,
            false => Fits::Nothing,
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
pub(super) fn scored(batch: usize) -> usize {
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
struct Stepped {
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

impl Stepped {
    /// The plan for a net and a batch on a card whose blocks may have so much, if it fits.
    fn plan(layout: &Layout, batch: usize, most: usize) -> Option<Stepped> {
        let (cluster, pieces) = (slices(batch), layout.params.div_ceil(PIECE));
        if most < AMPLE || cluster > CLUSTER || pieces > PIECES || slice(batch) != ROWS {
            return None;
        }
        let wide = |width: usize| width.next_multiple_of(32);
        let own = pieces.div_ceil(cluster);
        // Sums of pieces, losses, order, state, rows known of two steps, sums of warps.
        let tiles = (2048 + 128 + 32 + 80 + 2 * ROWS * 12 + own * 64).next_multiple_of(128);
        let inputs: usize = layout.linears.iter().map(|l| wide(l.input.width)).sum();
        let weights: usize = layout.linears.iter().map(|l| wide(l.output.width) * (wide(l.input.width) * 2 + 4)).sum();
        let net = tiles + ROWS * (2 * (inputs + CLASSES) + 8) + weights;
        // The gradient of all own pieces lies where the net was, then what the optimiser needs of as many as there is
        // room for.
        let resident_at = net.max(tiles + own * PIECE_BYTES).next_multiple_of(128);
        let room = most.checked_sub(resident_at)?;
        let resident = own.min(room / (3 * PIECE_BYTES));
        let kept = own.min(resident + (resident_at - tiles - own * PIECE_BYTES) / (3 * PIECE_BYTES));
        Some(Stepped { cluster, shared: resident_at + resident * 3 * PIECE_BYTES, resident, resident_at, kept })
    }
}

/// The kernels for one net on one card.
pub(super) struct Small {
    whole: Function,
    rows: usize,
    shared: usize,
    score: Function,
    logits: Function,
    /// Whole steps by clusters.
    stepped: Option<(Function, Stepped)>,
}

impl Small {
    pub(super) fn load(
        context: &Arc<Context>,
        layout: &Layout,
        recipe: &Recipe,
        fits: Fits,
        road: Road,
    ) -> Result<Small> {
        let module = Module::load(context, &kernels::SMALL)?;
        let most = context.gpu().shared as usize;
        let rows = match road {
            #[cfg(test)]
            Road::Rows(rows) => Some(rows),
            _ => [128, 64, 32].into_iter().find(|rows| shared(layout, *rows) <= most),
        };
        // 32 rows of four layers of 256 are within what every card has.
        let rows = rows.ok_or_else(|| Error::Asked("a net too large for one kernel".into()))?;
        let whole = module.function(&format!("small_{rows}"))?;
        let bytes = shared(layout, rows);
        whole.allow_shared(bytes as u32)?;
        let score = module.function(&format!("small_{LOGIT_ROWS}"))?;
        score.allow_shared(shared(layout, LOGIT_ROWS) as u32)?;
        let logits = module.function(&format!("small_logits_{LOGIT_ROWS}"))?;
        logits.allow_shared(shared_of_logits(layout) as u32)?;
        // Clusters keep no average of the weights: with one, a step is three kernels.
        let whole_steps = fits == Fits::Everything && road.clusters() && recipe.average.is_none();
        let stepped = match Stepped::plan(layout, recipe.batch, most) {
            Some(plan) if whole_steps && has(&kernels::SMALL_STEP, context.gpu()) => {
                let function = Module::load(context, &kernels::SMALL_STEP)?.function("small_step")?;
                function.allow_shared(plan.shared as u32)?;
                Some((function, plan))
            }
            _ => None,
        };
        Ok(Small { whole, rows, shared: bytes, score, logits, stepped })
    }

    /// Steps that one launch can do, where it can do whole steps.
    pub(super) fn at_once(&self) -> Option<u32> {
        self.stepped.as_ref().map(|_| STEPS)
    }

    /// For people.
    pub(super) fn said(&self, fits: Fits) -> String {
        match fits {
            Fits::Everything => match &self.stepped {
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

/// What is behind one another in the kernels' `Small`.
#[derive(Default)]
struct Packed(Vec<u8>);

impl Packed {
    fn wide(&mut self, n: u64) {
        self.0.extend(n.to_ne_bytes());
    }

    fn word(&mut self, n: usize) {
        self.0.extend(u32::try_from(n).unwrap_or(u32::MAX).to_ne_bytes());
    }
}

impl Engine {
    /// A step's gradients, or a chunk of validation, of the slots from `first` on.
    pub(super) fn small_whole(&self, small: &Small, first: usize, slots: usize, mode: Mode) -> Result<()> {
        let batch = self.recipe.batch;
        let (function, blocks, shared) = match mode {
            Mode::Score => (&small.score, scored(batch), shared(&self.layout, LOGIT_ROWS)),
            _ => (&small.whole, slices(batch), small.shared),
        };
        let packed = self.packed(first, mode);
        let grid = [blocks as u32, slots as u32, 1];
        // SAFETY: addresses of the engine's slab, laid out for this net and batch; rows and labels were checked.
        unsafe { function.launch(&self.main, grid, [256, 1, 1], shared as u32, &[Arg::Bytes(&packed)]) }
    }

    /// At most so many whole steps of the slots from `first` on; each stops where it is due. Says whether there was a
    /// kernel for it.
    pub(super) fn small_steps(&self, small: &Small, first: usize, slots: usize, steps: u32) -> Result<bool> {
        let Some((function, plan)) = &small.stepped else { return Ok(false) };
        let at = &self.at;
        let row = |address: u64, size: usize| address + (first * self.layout.params * size) as u64;
        let mut p = Packed(self.packed(first, Mode::Step));
        p.wide(at.states.part(first, slots).address());
        p.wide(self.epochs_of(first, slots).map_or(0, |e| e.address()));
        for arena in [&at.params, &at.mean, &at.square, &at.gradient] {
            p.wide(row(arena.address(), 4));
        }
        p.wide(at.shadow.as_ref().map_or(0, |s| row(s.address(), 2)));
        for n in [steps as usize, plan.resident, plan.kept, plan.resident_at] {
            p.word(n);
        }
        p.0.extend(Packer::of(&calls::optimiser(&self.recipe)).bytes());
        let (cluster, grid) = (plan.cluster as u32, [plan.cluster as u32, slots as u32, 1]);
        let args = [Arg::Bytes(&p.0)];
        // SAFETY: as above.
        unsafe {
            function.launch_in_clusters(&self.main, cluster, grid, [512, 1, 1], plan.shared as u32, &args)?;
        }
        Ok(true)
    }

    /// Logits of the rows that lie in `rows`.
    pub(super) fn small_logits(&self, small: &Small, first: usize, slots: usize) -> Result<()> {
        let grid = [self.recipe.batch.div_ceil(LOGIT_ROWS) as u32, slots as u32, 1];
        let packed = self.packed(first, Mode::Always);
        let shared = shared_of_logits(&self.layout) as u32;
        // SAFETY: as above.
        unsafe { small.logits.launch(&self.main, grid, [256, 1, 1], shared, &[Arg::Bytes(&packed)]) }
    }

    /// `Small` of `small.cu`, for the slots from `first` on.
    fn packed(&self, first: usize, mode: Mode) -> Vec<u8> {
        let (at, layout, batch) = (&self.at, &self.layout, self.recipe.batch);
        let (params, parts) = (layout.params, slices(batch));
        let (losses, slice) = if mode == Mode::Score { (scored(batch), LOGIT_ROWS) } else { (parts, slice(batch)) };
        let head = &layout.linears[layout.linears.len() - 1];
        let (input, classes) = (&self.net.inputs[0], head.outputs);
        let place = |address: u64, elements: usize, size: usize| address + (elements * size) as u64;
        let mut p = Packed::default();
        p.wide(place(at.states.address(), first, size_of::<SlotState>()));
        p.wide(at.epochs.as_ref().map_or(0, |e| place(e.address(), first, size_of::<EpochState>())));
        p.wide(place(at.params.address(), first * params, 4));
        p.wide(at.shadow.as_ref().map_or(0, |s| place(s.address(), first * params, 2)));
        p.wide(params as u64);
        p.wide(self.recipe.seed);
        p.wide(at.lists.address());
        p.wide(place(at.rows.address(), first * batch, 4));
        p.wide(self.rows[0].table.address());
        p.wide(self.rows[0].stride as u64);
        p.wide(self.rows[0].map.as_ref().map_or(0, |m| m.address()));
        p.wide(at.means[0].as_ref().map_or(0, |m| m.address()));
        p.wide(at.inverses[0].as_ref().map_or(0, |i| i.address()));
        p.wide(at.labels.first().map_or(0, Slice::address));
        p.wide(at.weights.as_ref().map_or(0, |w| w.address()));
        p.wide(at.class_weights[0].as_ref().map_or(0, |w| w.address()));
        p.wide(at.valid_at.address());
        p.wide(at.valid_count.address());
        p.wide(at.chunk.address());
        p.wide(place(at.parts.address(), first * parts * params, 4));
        p.wide(place(at.loss_partial.address(), first * losses * 2, 8));
        p.wide(place(at.confusion[0].address(), first * classes * classes, 8));
        p.wide(place(at.logits[0].address(), first * batch * head.output.width, 4));
        for n in [batch, mode as usize, slice, input.features, input.window, layout.linears.len(), classes, 0] {
            p.word(n);
        }
        for l in 0..LAYERS {
            let words = layout.linears.get(l).map_or([0; 5], |linear| {
                let act = crate::cuda::calls::code(linear.activation) as usize;
                [linear.weight, linear.bias, linear.input.width, linear.output.width, act]
            });
            words.into_iter().for_each(|n| p.word(n));
        }
        p.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::make::recipe;

    /// Shared memory that every card from compute capability 8.0 on has for a block.
    const SHARED: usize = 99 << 10;

    fn road(net: &str, precision: Precision) -> Fits {
        let net: Net = net.parse().unwrap();
        Road::Rule.fits(&net, &Layout::new(&net).unwrap(), &recipe(64, precision))
    }

    #[test]
    fn small_nets_are_known() {
        let bf16 = |net| road(net, Precision::Bf16);
        for net in ["64-128-128-3", "12-3", "7-12-3", "5x4-24-16t-9", "256-256-256-256-32", "8x32-8-2"] {
            assert_eq!(bf16(net), Fits::Everything, "{net}");
            assert_eq!(road(net, Precision::F32), Fits::Nothing, "{net}");
            assert_eq!(road(net, Precision::Tf32), Fits::Nothing, "{net}");
        }
        for net in ["64-128-33", "128-256-256-128"] {
            assert_eq!(bf16(net), Fits::Logits, "{net}");
        }
        for net in
            ["64-257-3", "257-8-3", "8-8-8-8-8-3", "8-8 / a:3 + b:2", "x:4-8 + y:4-8 / 8 / 3", "8-8n-3", "8-8d5-3"]
        {
            assert_eq!(bf16(net), Fits::Nothing, "{net}");
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
    fn clusters_are_for_what_fits_into_their_shared_memory() {
        let layout = |net: &str| Layout::new(&net.parse().unwrap()).unwrap();
        let most = 227 << 10;
        for (net, batch, cluster) in [
            ("64-128-128-3", 256, Some(2)),
            ("64-128-128-3", 100, Some(1)),
            ("64-128-128-3", 1024, Some(8)),
            ("12-3", 300, Some(3)),
        ] {
            let plan = Stepped::plan(&layout(net), batch, most);
            assert_eq!(plan.map(|p| p.cluster), cluster, "{net}, {batch}");
            let plan = plan.unwrap();
            let own = layout(net).params.div_ceil(PIECE).div_ceil(plan.cluster);
            assert!(plan.shared <= most && plan.resident <= plan.kept && plan.kept <= own, "{net}, {batch}: {plan:?}");
            assert_eq!(Stepped::plan(&layout(net), batch, SHARED), None, "{net}, {batch}");
        }
        assert!(Stepped::plan(&layout("64-128-128-3"), 256, most).unwrap().resident > 0);
        // More blocks than a cluster has; more weights than shared memory.
        assert_eq!(Stepped::plan(&layout("64-128-128-3"), 1025, most), None);
        assert_eq!(Stepped::plan(&layout("256-256-256-256-32"), 256, most), None);
    }
}
