//! Small nets in bf16: one kernel for a rollout, one for values, one for a minibatch up to the gradient of the weights,
//! one for a whole validation (`ppo_small.cu`). Two hidden layers of 64 in each tower have faster ones for all but the
//! last (`ppo_warp.cu`), and on Hopper faster ones still for values and minibatches (`ppo_hopper.cu`).

use super::super::Ppo;
use super::super::training::{Group, Member};
use super::arguments::{
    AddParts, HopperMinibatch, HopperValues, PolicyLayer, PolicyNet, ScaleRows, SmallMinibatch, SmallRollout,
    SmallValues, SmallWalk,
};
use super::arrays::{Arrays, Sizes, counted, put, zeros};
use crate::MemberKey;
use compute::cuda::{Array, Context, Grid, Image, Kernel, Module, Slab, Stream};
use compute::net::{Branch, Layout, Linear};
use compute::population::{Precision, Scale};
use compute::{Error, Net, Result, image};
use market::OBSERVED;
use std::collections::BTreeSet;
use std::sync::Arc;

static PPO_SMALL: Image = image!("ppo_small");
static PPO_WARP: Image = image!("ppo_warp");
static PPO_HOPPER: Image = image!("ppo_hopper", (9, 0), "sm_90a");

/// Layers of a tower, with its head.
pub(super) const LAYERS: usize = 4;
/// The widest that a layer or the input may be.
const WIDEST: usize = 256;
/// Blocks of a minibatch, at most: a card holds about as many at once.
const SLICES: usize = 256;

/// Which of the kernels serve a net on a card.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    rollout: Block,
    values: Block,
    minibatch: Block,
    /// Blocks of a minibatch for each slice: one for all, or one for each tower.
    towers: u32,
    /// Shared memory of a validation's.
    walk: u32,
    /// Steps of 16 inputs that the kernels of `ppo_warp.cu` are compiled for, where these serve.
    steps: Option<usize>,
    /// Whether `ppo_hopper.cu` serves minibatches.
    hopper: bool,
}

/// A block of a kernel: rows, threads, and bytes of its shared memory.
#[derive(Debug, Clone, Copy)]
struct Block {
    rows: usize,
    threads: u32,
    shared: u32,
}

impl Shape {
    /// Parts of a minibatch's gradient, and rows of each: a function of net and batch alone, because sums go by them.
    pub(super) fn slices(&self, batch: usize) -> (usize, usize) {
        let least = if batch < 16_384 { 256 } else { 256 * self.towers as usize };
        let rows = (batch * self.towers as usize).div_ceil(SLICES).max(least).next_multiple_of(128);
        (batch.div_ceil(rows), rows)
    }
}

/// Folds of members, each once, in the order of their numbers; a fold has one scale.
fn folds(keys: &[MemberKey]) -> Vec<usize> {
    let all: BTreeSet<usize> = keys.iter().map(|key| key.fold).collect();
    all.into_iter().collect()
}

/// Rows of the table that nets read.
fn scaled_rows(ppo: &Ppo) -> usize {
    let input = &ppo.folds.problem.inputs[0];
    input.values.len() / input.stride.max(1)
}

/// Numbers of the table as nets of these members see it.
fn scaled_numbers(ppo: &Ppo, keys: &[MemberKey]) -> usize {
    scaled_rows(ppo) * HOPPER_COLUMNS * folds(keys).len()
}

/// The kernels for these policies, where there are any.
pub(super) fn fits(context: &Context, ppo: &Ppo, keys: &[MemberKey]) -> Option<Shape> {
    let (config, shape) = ppo.shared(keys);
    let towers = towers(&config.net, WIDEST, WIDEST - 8)?;
    if config.recipe.precision != Precision::Bf16 {
        return None;
    }
    let padded = |width: usize| width.next_multiple_of(32);
    let hidden = |tower: &[Linear]| tower[..tower.len() - 1].iter().map(|l| padded(l.output.width)).collect::<Vec<_>>();
    let (input, hidden) = (padded(towers[0][0].input.width), towers.each_ref().map(|tower| hidden(tower)));
    let widest = hidden.iter().flatten().max()?;
    let deepest = hidden.iter().map(|widths| widths.iter().sum::<usize>()).max()?;
    let weights: usize = towers[0].iter().map(|l| padded(l.output.width) * padded(l.input.width) * 2).sum();
    let minibatch = |rows: usize| rows * (2 * (input + deepest + 32) + 64);
    let values = |rows: usize| rows * (2 * (input + 2 * widest) + 20);
    let rollout = |rows: usize| values(rows) + weights;
    let room = context.gpu().shared as usize;
    let multiprocessors = context.gpu().multiprocessors as usize;
    let (n, p) = (shape.n_envs as usize, keys.len());
    let walk = rollout(32) as u32;
    let large = config.recipe.batch * p >= HOPPER_LEAST && 2 * scaled_numbers(ppo, keys) <= SCALED_BYTES;
    let hopper = large && context.gpu().capability == (9, 0);
    if let Some(warps) = warp_shape(&towers, n, p, multiprocessors, walk, hopper).filter(|s| s.largest() <= room) {
        return Some(warps);
    }
    let largest = |of: &[usize], bytes: &dyn Fn(usize) -> usize| {
        let rows = of.iter().copied().find(|rows| bytes(*rows) <= room)?;
        Some(Block { rows, threads: 256, shared: bytes(rows) as u32 })
    };
    // Enough blocks for the card come first.
    let wanted = [32, 64, 128].into_iter().find(|rows| n.div_ceil(*rows) * p <= multiprocessors).unwrap_or(128);
    let rollouts: Vec<usize> = [128, 64, 32].into_iter().filter(|rows| *rows <= wanted).collect();
    Some(Shape {
        minibatch: largest(&[128, 64], &minibatch)?,
        values: largest(&[128, 64], &values)?,
        rollout: largest(&rollouts, &rollout)?,
        towers: 1,
        walk,
        steps: None,
        hopper: false,
    })
}

/// Rows that a warp takes through a tower, and the width of its hidden layers.
const WARP_ROWS: usize = 16;
const WARP_HIDDEN: usize = 64;
/// Rows of a tile of `ppo_hopper.cu`, and how many columns of a table it keeps.
const HOPPER_ROWS: usize = 64;
const HOPPER_COLUMNS: usize = 64;
/// Shared memory of its values, with room to spare: weights of a tower and two inputs; and blocks of a multiprocessor.
const HOPPER_VALUES: u32 = 48 << 10;
const HOPPER_BLOCKS: usize = 4;
/// Rows of a minibatch of all members from which on it is the faster one. Its bits are the same, so this may depend on
/// who else is trained.
const HOPPER_LEAST: usize = 131_072;
/// The most bytes that tables take as nets see them, for all folds of a group; larger ones are read as they are.
const SCALED_BYTES: usize = 1 << 30;

/// The kernels of `ppo_warp.cu`, where the towers are theirs.
fn warp_shape(
    towers: &[Vec<Linear>; 2],
    n: usize,
    p: usize,
    multiprocessors: usize,
    walk: u32,
    hopper: bool,
) -> Option<Shape> {
    let fits = |tower: &Vec<Linear>| tower.len() == 3 && tower[..2].iter().all(|l| l.output.width == WARP_HIDDEN);
    let input = towers[0][0].input.width;
    let steps = [5, 8].into_iter().find(|steps| steps * WARP_ROWS >= input)?;
    if !towers.iter().all(fits) {
        return None;
    }
    // As `warp_mlp.cuh` lays them out.
    let slab = |rows: usize| rows * 32 + 32;
    let hidden = WARP_HIDDEN / WARP_ROWS;
    let biases = ((2 * WARP_HIDDEN + 8) * 4).next_multiple_of(32);
    let scales = 2 * 128 * 4;
    let rest = hidden * slab(8) + biases + scales;
    let weights = (steps + hidden) * slab(WARP_HIDDEN) + rest;
    let block = |rows: usize, slabs: usize, more: usize| Block {
        rows,
        threads: (rows / WARP_ROWS * 32) as u32,
        shared: (weights + slabs * slab(128) + more) as u32,
    };
    // As `ppo_hopper.cu` does: pieces of weights and two inputs, of layers and their gradients, and ones behind the
    // first.
    let hopper = hopper && input <= HOPPER_COLUMNS + OBSERVED;
    let pieces = 3 * (2 * steps) + 5 * (2 * hidden) + 1;
    let minibatch = match hopper {
        true => Block {
            rows: HOPPER_ROWS,
            threads: 128,
            shared: (pieces * (HOPPER_ROWS * 16 + 16) + rest - scales + HOPPER_ROWS * 16) as u32,
        },
        false => block(128, steps + 4 * hidden, 128 * 16),
    };
    // Enough blocks for the card come first.
    let warps = (n.div_ceil(WARP_ROWS) * p).div_ceil(multiprocessors).next_power_of_two().min(8);
    Some(Shape {
        rollout: block(warps * WARP_ROWS, steps, 0),
        values: block(128, steps, 0),
        minibatch,
        towers: 2,
        walk,
        steps: Some(steps),
        hopper,
    })
}

impl Shape {
    /// Whether minibatches run on Hopper's asynchronous products.
    pub(super) fn on_hopper(&self) -> bool {
        self.hopper
    }

    /// Numbers of the table as nets of these members see it, where they are kept.
    pub(super) fn scaled(&self, ppo: &Ppo, keys: &[MemberKey]) -> usize {
        if self.hopper { scaled_numbers(ppo, keys) } else { 0 }
    }

    /// The most shared memory that one of its kernels takes.
    fn largest(&self) -> usize {
        let all = [self.rollout.shared, self.values.shared, self.minibatch.shared, self.walk];
        all.into_iter().max().unwrap_or(0) as usize
    }

    /// The name of the kernel of a phase.
    fn name(&self, phase: &str, block: Block) -> String {
        format!("{phase}_{}", self.steps.unwrap_or(block.rows))
    }
}

/// The layers of the policy's and of the value's tower with their heads, of a net that these kernels know: a row of a
/// table and what an account is shown, two towers of plain layers, a head each, no layer and no input wider than that.
pub(super) fn towers(net: &Net, widest: usize, input: usize) -> Option<[Vec<Linear>; 2]> {
    let [row, shown] = net.inputs.as_slice() else { return None };
    let [policy, value] = net.towers.as_slice() else { return None };
    if net.has_memory() {
        return None;
    }
    let whole = |tower: &compute::net::Tower| tower.reads.is_empty() && tower.heads == 1;
    let plain = net.branches.iter().all(|branch| *branch == Branch::default());
    if row.dense || row.window != 1 || !shown.dense || shown.features != OBSERVED || !plain {
        return None;
    }
    if row.features + OBSERVED > input || !whole(policy) || !whole(value) {
        return None;
    }
    let layout = Layout::new(net).ok()?;
    let (a, b) = (policy.layers.len(), value.layers.len());
    let fits = |l: &Linear| l.plain() && l.output.width <= widest;
    let small = (1..LAYERS).contains(&a) && (1..LAYERS).contains(&b) && layout.linears.iter().all(fits);
    if !small || layout.linears.len() != a + b + 2 {
        return None;
    }
    let tower = |layers: std::ops::Range<usize>, head: usize| {
        layout.linears[layers].iter().chain([&layout.linears[head]]).cloned().collect()
    };
    Some([tower(0..a, a + b), tower(a..a + b, a + b + 1)])
}

/// Kernels and arrays of such updates.
pub(super) struct Small {
    rollout: (Kernel<SmallRollout>, Grid, SmallRollout),
    values: [(Grid, SmallValues); 2],
    valued: Kernel<SmallValues>,
    minibatch: Minibatch,
    /// Values of a whole rollout on Hopper, where it serves minibatches too.
    hopper_values: Option<(Kernel<HopperValues>, Grid, Box<HopperValues>)>,
    add_parts: (Kernel<AddParts>, Grid, AddParts),
    walk: (Kernel<SmallWalk>, Grid, SmallWalk),
}

/// The kernel of a minibatch up to the parts of its gradient.
enum Minibatch {
    Plain(Kernel<SmallMinibatch>, Grid, Box<SmallMinibatch>),
    Hopper(Kernel<HopperMinibatch>, Grid, Box<HopperMinibatch>),
}

impl Small {
    pub(super) fn new(
        context: &Arc<Context>,
        stream: &Stream,
        group: &mut Group,
        members: &[Member],
        a: &mut Arrays,
        shape: Shape,
    ) -> Result<Small> {
        let Sizes { p, n, t, later, pieces, per_epoch, slices: count, .. } = a.sizes;
        let not_small = || Error::Invalid("the net is none of the small ones".into());
        let towers = towers(&group.net, WIDEST, WIDEST - 8).ok_or_else(not_small)?;
        let net = policy_net(stream, group, members, &mut a.slab, &towers)?;
        let small = Module::load(context, &PPO_SMALL)?;
        let module = if shape.steps.is_some() { Module::load(context, &PPO_WARP)? } else { Arc::clone(&small) };
        let grid = |x: usize, block: Block| Grid {
            blocks: [x as u32, p as u32, 1],
            threads: [block.threads, 1, 1],
            shared: block.shared,
        };
        let multiprocessors = context.gpu().multiprocessors as usize;
        let rollout = grid(n.div_ceil(shape.rollout.rows), shape.rollout);
        let mut slices = grid(count, shape.minibatch);
        slices.blocks[2] = shape.towers;
        let plain = |shared: u32| Block { rows: 32, threads: 256, shared };
        let walk = grid(pieces.div_ceil(32), plain(shape.walk));
        let values =
            |rows: usize| grid(rows.div_ceil(shape.values.rows).min((2 * multiprocessors).div_ceil(p)), shape.values);
        let params = group.nets.layout().params;
        let parts = zeros(&mut a.slab, stream, p * count * params)?;
        let minibatch = SmallMinibatch {
            members: a.members.clone(),
            seen: a.seen.clone(),
            net: net.clone(),
            clock: a.clock.clone(),
            goes: a.goes.clone(),
            centre: a.centre.clone(),
            parts: parts.clone(),
            partial: a.loss_partial.clone(),
            per_epoch: per_epoch as u32,
            slice: shape.slices(a.sizes.batch).1 as u32,
        };
        let mut on_hopper = None;
        let minibatch = if shape.hopper {
            let hopper = Module::load(context, &PPO_HOPPER)?;
            let kernel = hopper.kernel("minibatch")?;
            kernel.allow_shared(shape.minibatch.shared)?;
            // A block fetches weights before it begins, so no more blocks than a card holds; which of them has a slice
            // changes nothing in it.
            let each = (count * p * shape.towers as usize).div_ceil(2 * multiprocessors).max(1);
            slices.blocks[0] = count.div_ceil(each) as u32;
            let of = (minibatch, counted(count)?, counted(each)?);
            let made = hopper_minibatch(&hopper, stream, &mut a.slab, &group.ppo, members, of)?;
            on_hopper = Some((hopper, made.scaled.clone(), made.scale_of.clone(), made.rows));
            Minibatch::Hopper(kernel, slices, Box::new(made))
        } else {
            let kernel = module.kernel(&shape.name("minibatch", shape.minibatch))?;
            kernel.allow_shared(shape.minibatch.shared)?;
            Minibatch::Plain(kernel, slices, Box::new(minibatch))
        };
        let mut made = Small {
            hopper_values: None,
            rollout: (
                module.kernel(&shape.name("rollout", shape.rollout))?,
                rollout,
                SmallRollout {
                    table: a.table.clone(),
                    members: a.members.clone(),
                    standing: a.standing.clone(),
                    seen: a.seen.clone(),
                    net: net.clone(),
                },
            ),
            valued: module.kernel(&shape.name("values", shape.values))?,
            values: [
                (
                    values(t * n),
                    SmallValues {
                        net: net.clone(),
                        rows: a.seen.rows.clone(),
                        observed: a.seen.observed.clone(),
                        value: a.seen.value.clone(),
                        count: counted(t * n)?,
                    },
                ),
                (
                    values(n * later),
                    SmallValues {
                        net: net.clone(),
                        rows: a.seen.later_rows.clone(),
                        observed: a.seen.later_observed.clone(),
                        value: a.seen.later_value.clone(),
                        count: counted(n * later)?,
                    },
                ),
            ],
            minibatch,
            add_parts: (
                small.kernel("add_parts")?,
                grid(params / 64 + 1, plain(0)),
                AddParts {
                    parts,
                    gradient: zeros(&mut a.slab, stream, p * params)?,
                    goes: a.goes.clone(),
                    decide: a.decide(),
                    params: params as u64,
                    slices: counted(count)?,
                },
            ),
            walk: (
                small.kernel("walk_32")?,
                walk,
                SmallWalk {
                    table: a.table.clone(),
                    walkers: a.walkers.clone(),
                    net,
                    actions: a.members.actions,
                    steps: a.sizes.walk_steps as u32,
                },
            ),
        };
        if let Some((hopper, scaled, scale_of, rows)) = on_hopper {
            let kernel: Kernel<HopperValues> = hopper.kernel("values")?;
            kernel.allow_shared(HOPPER_VALUES)?;
            let of = made.values[0].1.clone();
            let blocks = (of.count as usize).div_ceil(HOPPER_ROWS).min((HOPPER_BLOCKS * multiprocessors).div_ceil(p));
            let grid = Grid { blocks: [blocks as u32, p as u32, 1], threads: [128, 1, 1], shared: HOPPER_VALUES };
            made.hopper_values = Some((kernel, grid, Box::new(HopperValues { of, scaled, scale_of, rows })));
        }
        made.rollout.0.allow_shared(shape.rollout.shared)?;
        made.walk.0.allow_shared(shape.walk)?;
        made.valued.allow_shared(shape.values.shared)?;
        Ok(made)
    }

    /// All steps of all accounts.
    pub(super) fn rollout(&self, stream: &Stream) -> Result<()> {
        self.rollout.0.launch(stream, self.rollout.1, &self.rollout.2)
    }

    /// Values of what was seen, and of what is behind it.
    pub(super) fn values(&self, stream: &Stream) -> Result<()> {
        let [(grid, all), (later_grid, later)] = &self.values;
        match &self.hopper_values {
            Some((kernel, grid, values)) => kernel.launch(stream, *grid, values)?,
            None => self.valued.launch(stream, *grid, all)?,
        }
        // Few rows: the kernel for all cards has less to do before the first.
        self.valued.launch(stream, *later_grid, later)
    }

    /// Losses and gradient of a minibatch, and who goes on.
    pub(super) fn minibatch(&self, stream: &Stream) -> Result<()> {
        match &self.minibatch {
            Minibatch::Plain(kernel, grid, of) => kernel.launch(stream, *grid, of)?,
            Minibatch::Hopper(kernel, grid, of) => kernel.launch(stream, *grid, of)?,
        }
        self.add_parts.0.launch(stream, self.add_parts.1, &self.add_parts.2)
    }

    /// `[P, params]` the gradient.
    pub(super) fn gradient(&self) -> &Array<f32> {
        &self.add_parts.2.gradient
    }

    /// A whole validation.
    pub(super) fn walk(&self, stream: &Stream) -> Result<()> {
        self.walk.0.launch(stream, self.walk.1, &self.walk.2)
    }
}

/// What Hopper's kernel takes, of a minibatch, its slices and those of a block, with the table as the members' nets see
/// it.
fn hopper_minibatch(
    module: &Arc<Module>,
    stream: &Stream,
    slab: &mut Slab,
    ppo: &Ppo,
    members: &[Member],
    (of, slices, each): (SmallMinibatch, u32, u32),
) -> Result<HopperMinibatch> {
    let keys: Vec<MemberKey> = members.iter().map(|m| m.key).collect();
    let (folds, rows) = (folds(&keys), counted(scaled_rows(ppo))?);
    let scaled: Array<u16> = slab.array(scaled_numbers(ppo, &keys))?;
    let scale_of: Vec<u32> = keys.iter().map(|key| folds.partition_point(|fold| *fold < key.fold) as u32).collect();
    let scale_rows: Kernel<ScaleRows> = module.kernel("scale_rows")?;
    for scale in 0..counted(folds.len())? {
        let member = counted(scale_of.iter().position(|of| *of == scale).unwrap_or(0))?;
        let given = ScaleRows { net: of.net.clone(), scaled: scaled.clone(), member, scale, rows };
        let grid = Grid { blocks: [1024, 1, 1], threads: [256, 1, 1], shared: 0 };
        scale_rows.launch(stream, grid, &given)?;
    }
    Ok(HopperMinibatch { of, scaled, scale_of: put(slab, stream, &scale_of)?, rows, slices, each })
}

/// A net whose towers are these, where it lies.
pub(super) fn policy_net(
    stream: &Stream,
    group: &mut Group,
    members: &[Member],
    slab: &mut Slab,
    towers: &[Vec<Linear>; 2],
) -> Result<PolicyNet> {
    let not_small = || Error::Invalid("the net has no copy in bf16".into());
    let (table, map) = group.tables.array(0)?;
    let features = group.net.inputs[0].features;
    let scales: Vec<Option<Scale>> = members.iter().map(|m| m.scales.first().cloned().flatten()).collect();
    let column = |of: fn(&Scale) -> &[f32], usual: f32| -> Vec<f32> {
        scales.iter().flat_map(|s| s.as_ref().map_or(vec![usual; features], |s| of(s).to_vec())).collect()
    };
    let (mean, inverse) = (column(|s| &s.mean, 0.0), column(|s| &s.inverse, 1.0));
    let mut layers = [PolicyLayer::default(); 2 * LAYERS];
    for (tower, own) in towers.iter().enumerate() {
        for (l, linear) in own.iter().enumerate() {
            layers[tower * LAYERS + l] = PolicyLayer {
                weight: counted(linear.weight)?,
                bias: counted(linear.bias)?,
                inputs: linear.input.width as u32,
                outputs: linear.output.width as u32,
                act: linear.activation as u32,
            };
        }
    }
    Ok(PolicyNet {
        master: group.nets.params_on_card()?,
        copy: group.nets.copies_on_card()?.ok_or_else(not_small)?,
        table,
        map,
        mean: Some(put(slab, stream, &mean)?),
        inverse: Some(put(slab, stream, &inverse)?),
        params: group.nets.layout().params as u64,
        stride: group.tables.stride(0) as u32,
        features: features as u32,
        column: features.next_multiple_of(8) as u32,
        hidden: [towers[0].len() as u32 - 1, towers[1].len() as u32 - 1],
        layers,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::training::PpoTraining;
    use super::super::tests::{HOPPER_CASES, begun, begun_large, card};
    use super::super::{Cuda, Path};
    use super::*;
    use compute::Opened;

    /// A member learns to the same bits alone as among so many that their minibatches run on Hopper's own units.
    #[test]
    fn members_learn_alike_alone_and_in_company() {
        let Some(at) = card() else { return };
        let Opened::Cuda(context) = &at.device else { return };
        for case in HOPPER_CASES {
            let (company, alone) = (begun_large(case, &at, 2, 0..16), begun_large(case, &at, 2, 5..6));
            let on_hopper = |training: &PpoTraining| {
                let (_, _, Cuda { path, .. }) = training.parts();
                matches!(path, Path::Small(small) if matches!(small.minibatch, Minibatch::Hopper(..)))
            };
            let hopper = context.gpu().capability == (9, 0);
            assert_eq!((on_hopper(&company), on_hopper(&alone)), (hopper, false), "{case:?}");
            let bits = |mut training: PpoTraining, p: usize| {
                training.nets().params(p).unwrap().into_iter().map(f32::to_bits).collect::<Vec<u32>>()
            };
            assert!(bits(company, 5) == bits(alone, 0), "{case:?}");
        }
    }

    /// Hopper's own kernels give the values, the losses and the gradient of those for all cards, to the bit.
    #[test]
    fn minibatches_on_hopper_are_those_of_other_cards() {
        let Some(at) = card() else { return };
        let Opened::Cuda(context) = &at.device else { return };
        if context.gpu().capability != (9, 0) {
            return;
        }
        for case in HOPPER_CASES {
            let training = begun(case, &at, 2);
            let (group, members, Cuda { stream, arrays, path, .. }) = training.parts();
            let Path::Small(small) = path else { panic!("{case:?} is small") };
            let Minibatch::Plain(kernel, grid, args) = &small.minibatch else { panic!("{case:?} has few rows") };
            let module = Module::load(context, &PPO_HOPPER).unwrap();
            let keys: Vec<MemberKey> = members.iter().map(|m| m.key).collect();
            let mut slab = context.slab(4 * scaled_numbers(&group.ppo, &keys) as u64 + 4096).unwrap();
            let slices = grid.blocks[0];
            assert!(slices > 1);
            let of = ((**args).clone(), slices, 1);
            let mut ours = hopper_minibatch(&module, stream, &mut slab, &group.ppo, members, of).unwrap();
            let hopper: Kernel<HopperMinibatch> = module.kernel("minibatch").unwrap();
            let block =
                warp_shape(&towers(&group.net, WIDEST, WIDEST - 8).unwrap(), 16, 1, 1, 0, true).unwrap().minibatch;
            hopper.allow_shared(block.shared).unwrap();
            let valued: Kernel<HopperValues> = module.kernel("values").unwrap();
            valued.allow_shared(HOPPER_VALUES).unwrap();
            for (grid, of) in &small.values {
                let seen = |launch: &dyn Fn()| {
                    of.value.fill(stream, 0x7f).unwrap();
                    launch();
                    of.value.get(stream).unwrap().into_iter().map(f32::to_bits).collect::<Vec<u32>>()
                };
                let theirs = seen(&|| small.valued.launch(stream, *grid, of).unwrap());
                let (scaled, scale_of) = (ours.scaled.clone(), ours.scale_of.clone());
                let ours = HopperValues { of: of.clone(), scaled, scale_of, rows: ours.rows };
                let own = Grid { blocks: [3, grid.blocks[1], 1], threads: [128, 1, 1], shared: HOPPER_VALUES };
                assert!(theirs == seen(&|| valued.launch(stream, own, &ours).unwrap()), "{case:?}: values");
            }
            // Minibatches of the last update, the last of them short.
            for clock in 0..arrays.sizes.minibatches as u32 {
                arrays.clock.put(stream, &[0, clock]).unwrap();
                let seen = |launch: &dyn Fn()| {
                    args.parts.fill(stream, 0).unwrap();
                    args.partial.fill(stream, 0).unwrap();
                    launch();
                    (args.parts.get(stream).unwrap(), args.partial.get(stream).unwrap())
                };
                let theirs = seen(&|| kernel.launch(stream, *grid, args).unwrap());
                assert!(theirs.0.iter().any(|x| *x != 0.0) && theirs.1.iter().all(|x| x.is_finite()));
                // Whatever a block has of them.
                for each in [1, 2, slices] {
                    ours.each = each;
                    let blocks = [slices.div_ceil(each), grid.blocks[1], grid.blocks[2]];
                    let own = Grid { blocks, threads: [block.threads, 1, 1], shared: block.shared };
                    let found = seen(&|| hopper.launch(stream, own, &ours).unwrap());
                    // Zeros may differ in their signs.
                    let bits = |of: &[f32]| of.iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<u32>>();
                    assert!(bits(&theirs.0) == bits(&found.0), "{case:?}: minibatch {clock}, {each} slices a block");
                    assert_eq!(theirs.1, found.1, "{case:?}: minibatch {clock}, {each} slices a block");
                }
            }
        }
    }
}
