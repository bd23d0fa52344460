//! Searches on a card: trees, worlds and nets lie there, and nothing goes back and forth inside a search. Here is the
//! reference mode, in [`HonestSearch`] the honest one.
//!
//! [`LinearSearch`] with a small net (plain layers up to 256 wide) is one launch: a block owns its roots for the whole
//! search, with trees in shared memory, and weights too where they fit beside them. Other nets go through `Nets`, a
//! graph of one kernel and a pass for each simulation. [`TableSearch`] is for comparisons on fixed tables: there visits
//! are those of the processor, because arithmetic has the same order and rounding.
//!
//! Nets compute in bf16 with f32 sums; trees are f32.

mod arguments;
mod honest;
mod packed;

pub use honest::{HonestModel, HonestModels, HonestRoot, HonestSearch};

use crate::linear::{LinearRow, LinearWorld};
use crate::outcome::Outcomes;
use crate::run::{Root, gumbels_of};
use crate::select;
use crate::settings::{Mode, RootRule, Settings};
use crate::table::TableWorld;
use crate::world::World;
use arguments::{LinearRows, Pack, SmallSearch, TableRows, Trees, WideRound};
use compute::cuda::{Array, Context, Graph, Grid, Image, Kernel, Module, Plain, Slab, Stream};
use compute::nets::{MemberSetup, Nets, OnCard, Setup};
use compute::population::{Pins, Precision};
use compute::{Budget, Error, Net, Opened, Result, Tables, image};
use packed::Shape;
use std::ops::Range;
use std::sync::Arc;

static REFERENCE: Image = image!("reference");

/// As `reference.cu` has them: threads of a block, words of a node and of an edge.
const THREADS: u32 = 256;
const NODE: usize = 9;
const EDGE: usize = 3;
/// Nodes of a tree: an index is half a word, and one value of it means none.
const MOST_NODES: usize = 0xffff;
/// Rounds of a graph, and launches of a graph that passes are timed over.
const ROUNDS: u32 = 64;
const LAUNCHES: u32 = 8;
/// Arrays of a search begin on borders of so many bytes.
const BORDER: u64 = 256;
const ARRAYS: u64 = 32;

/// What a search has on a card whatever its world is.
struct Found {
    context: Arc<Context>,
    stream: Stream,
    trees: Trees,
    settings: Settings,
}

/// Words of a tree; an odd number, so that the trees of a block begin in different banks.
fn stride(settings: &Settings, actions: usize, codes: usize) -> usize {
    ((1 + settings.simulations as usize) * (NODE + EDGE * actions.max(codes))) | 1
}

fn put<T: Plain>(slab: &mut Slab, stream: &Stream, from: &[T]) -> Result<Array<T>> {
    let made = slab.array(from.len())?;
    made.put(stream, from)?;
    Ok(made)
}

fn counted(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::Invalid(format!("{n} at once; at most {} are possible", u32::MAX)))
}

/// What is wrong with settings on a card, if anything.
fn check(settings: &Settings, actions: usize) -> Result<()> {
    settings.check(actions)?;
    if settings.mode != Mode::Reference {
        return Err(Error::Invalid("the honest mode is another search on a card; give Mode::Reference here".into()));
    }
    if settings.simulations as usize + 1 >= MOST_NODES {
        return Err(Error::Invalid(format!(
            "{} simulations; a tree on a card has at most {}",
            settings.simulations,
            MOST_NODES - 2
        )));
    }
    Ok(())
}

/// Bytes of a search's own arrays, without trees.
fn found_bytes(settings: &Settings, roots: usize, actions: usize) -> u64 {
    let considered = match settings.rule {
        RootRule::Puct { .. } => 0,
        RootRule::Gumbel { considered, .. } => considered.min(actions),
    };
    let sequences = (considered + 1) * settings.simulations as usize;
    4 * (sequences + roots * (4 * actions + 2)) as u64
}

impl Found {
    fn new(
        context: &Arc<Context>,
        slab: &mut Slab,
        settings: &Settings,
        (roots, actions, codes): (usize, usize, usize),
        trees_outside: bool,
    ) -> Result<Found> {
        let stream = Stream::new(context)?;
        let (rule, considered, init, base) = match settings.rule {
            RootRule::Puct { init, base } => (0, 0, init, base),
            RootRule::Gumbel { considered, .. } => (1, considered.min(actions), 0.0, 1.0),
        };
        let sequences: Vec<u32> =
            (0..=considered).flat_map(|n| select::halving(n, settings.simulations as usize)).collect();
        let stride = stride(settings, actions, codes);
        let trees = Trees {
            memory: if trees_outside { Some(slab.array(roots * stride)?) } else { None },
            sequences: put(slab, &stream, &sequences)?,
            gumbels: slab.array(roots * actions)?,
            visits: slab.array(roots * actions)?,
            q: slab.array(roots * actions)?,
            policy: slab.array(roots * actions)?,
            value: slab.array(roots)?,
            chosen: slab.array(roots)?,
            stride: counted(stride)?,
            roots: counted(roots)?,
            actions: actions as u32,
            codes: codes as u32,
            simulations: settings.simulations,
            depth: settings.depth,
            rule,
            considered: considered as u32,
            init,
            base,
        };
        Ok(Found { context: Arc::clone(context), stream, trees, settings: settings.clone() })
    }

    fn put_gumbels(&self, gumbels: &[f32]) -> Result<()> {
        if gumbels.len() != self.trees.gumbels.len() {
            return Err(Error::Invalid(format!(
                "{} Gumbel draws for {} roots of {} actions; give one for each",
                gumbels.len(),
                self.trees.roots,
                self.trees.actions
            )));
        }
        self.trees.gumbels.put(&self.stream, gumbels)
    }

    fn draws<K>(&self, roots: &[Root<K>]) -> Vec<f32> {
        gumbels_of(&self.settings, roots, self.trees.actions as usize)
    }

    /// What was found, once the stream is done.
    fn outcomes(&self, held: usize) -> Result<Outcomes> {
        let (trees, stream) = (&self.trees, &self.stream);
        let roots = trees.roots as usize;
        Ok(Outcomes {
            actions: trees.actions as usize,
            visits: trees.visits.get(stream)?,
            q: trees.q.get(stream)?,
            policy: trees.policy.get(stream)?,
            value: trees.value.get(stream)?,
            chosen: trees.chosen.get(stream)?.iter().map(|action| *action as u8).collect(),
            held: vec![held as u8; roots],
            advantage: vec![0.0; roots],
            error: vec![0.0; roots],
        })
    }
}

/// Searches on fixed tables on a card.
pub struct TableSearch {
    found: Found,
    kernel: Kernel<arguments::TableSearch>,
    world: TableRows,
}

impl TableSearch {
    /// Puts tables on a card, with trees for so many roots.
    ///
    /// # Errors
    ///
    /// Where tables or settings make no sense, or the memory is not enough.
    pub fn new(context: &Arc<Context>, world: &TableWorld, settings: &Settings, roots: usize) -> Result<TableSearch> {
        check(settings, world.actions)?;
        world.check()?;
        if world.value.len() > MOST_NODES || world.codes != settings.codes {
            return Err(Error::Invalid(format!(
                "{} states with {} codes; a card takes {MOST_NODES} states, and as many codes as the settings say, {}",
                world.value.len(),
                world.codes,
                settings.codes
            )));
        }
        let (states, actions, codes) = (world.value.len(), world.actions, world.codes);
        let words = states * (2 * actions + 1 + 3 * actions * codes)
            + codes * codes
            + roots * (1 + stride(settings, actions, codes));
        let bytes = 4 * words as u64 + found_bytes(settings, roots, actions) + ARRAYS * BORDER;
        let mut slab = context.slab(bytes)?;
        let found = Found::new(context, &mut slab, settings, (roots, actions, codes), true)?;
        let stream = &found.stream;
        let probability: Vec<f32> = (0..codes).flat_map(|before| world.probabilities(before)).collect();
        let rows = TableRows {
            roots: slab.array(roots)?,
            logits: put(&mut slab, stream, &world.logits)?,
            value: put(&mut slab, stream, &world.value)?,
            reward: put(&mut slab, stream, &world.reward)?,
            discount: put(&mut slab, stream, &world.discount)?,
            next: put(&mut slab, stream, &world.next)?,
            probability: put(&mut slab, stream, &probability)?,
            afterstate: put(&mut slab, stream, &world.afterstate)?,
        };
        let kernel = Module::load(context, &REFERENCE)?.kernel("table_search")?;
        Ok(TableSearch { found, kernel, world: rows })
    }

    /// Searches from these states with these Gumbel draws, `[R, A]`.
    ///
    /// # Errors
    ///
    /// Where they are not as many as the search was made for, a state is not there, or the card fails.
    pub fn run_with(&mut self, roots: &[u32], gumbels: &[f32]) -> Result<Outcomes> {
        let states = self.world.value.len();
        if let Some(state) = roots.iter().find(|state| **state as usize >= states) {
            return Err(Error::Invalid(format!("a root in state {state}; the tables have {states}")));
        }
        let stream = &self.found.stream;
        self.world.roots.put(stream, roots)?;
        self.found.put_gumbels(gumbels)?;
        let given = arguments::TableSearch { trees: self.found.trees.clone(), world: self.world.clone() };
        self.kernel.launch(stream, Grid::row(roots.len(), 64), &given)?;
        self.found.outcomes(0)
    }
}

/// How a net is run inside a search.
enum Way {
    /// All in one launch.
    Small(Box<Small>),
    /// A kernel and a pass for each simulation.
    Wide(Box<Wide>),
}

struct Small {
    pack: (Kernel<Pack>, Grid, Pack),
    search: (Kernel<SmallSearch>, Grid, SmallSearch),
}

struct Wide {
    nets: Nets,
    kernel: Kernel<WideRound>,
    grid: Grid,
    round: WideRound,
    heads: Vec<Array<f32>>,
    graphs: Vec<Graph>,
}

/// Searches in a world of rows on a card.
pub struct LinearSearch {
    found: Found,
    world: LinearWorld,
    rows: LinearRows,
    way: Way,
    params: Array<f32>,
    bytes: u64,
}

impl LinearSearch {
    /// Takes the memory for a search from so many roots by a net with these parameters, `[params]`. The net's inputs
    /// are as for [`NetEvaluator`](crate::NetEvaluator).
    ///
    /// # Errors
    ///
    /// Where world, net or settings make no sense together, or the memory is not enough.
    pub fn new(
        context: &Arc<Context>,
        world: &LinearWorld,
        net: &Net,
        params: &[f32],
        settings: &Settings,
        roots: usize,
    ) -> Result<LinearSearch> {
        let LinearPlan { net, shape, plan, bytes } = LinearPlan::new(context, world, net, settings, roots)?;
        let (nodes, outside) = (1 + settings.simulations as usize, plan.is_none_or(|plan| !plan.trees_inside));
        let mut slab = context.slab(bytes)?;
        let found = Found::new(context, &mut slab, settings, (roots, world.actions, 1), outside)?;
        let rows = LinearRows {
            roots: slab.array(roots * world.inputs)?,
            rows: slab.array(roots * nodes * world.inputs)?,
            inputs: world.inputs as u32,
            nodes: nodes as u32,
            shrink: world.shrink,
            push: world.push,
            discount: world.discount,
        };
        let on_card = put(&mut slab, &found.stream, params)?;
        let module = Module::load(context, &REFERENCE)?;
        let way = match (shape, plan) {
            (Some(shape), Some(plan)) => small(&module, &mut slab, &found, &rows, &on_card, &shape, plan)?,
            _ => wide(context, &module, &mut slab, &found, &rows, &net, params, roots)?,
        };
        let bytes = LinearSearch::need(context, world, &net, settings, roots)?;
        Ok(LinearSearch { found, world: *world, rows, way, params: on_card, bytes })
    }

    /// Bytes of a search from so many roots, with all that passes of the net take.
    ///
    /// # Errors
    ///
    /// Where world, net or settings make no sense together.
    pub fn need(
        context: &Arc<Context>,
        world: &LinearWorld,
        net: &Net,
        settings: &Settings,
        roots: usize,
    ) -> Result<u64> {
        let LinearPlan { net, plan, bytes, .. } = LinearPlan::new(context, world, net, settings, roots)?;
        if plan.is_some() {
            return Ok(bytes);
        }
        let (setup, members) = wide_setup(roots);
        let of_nets = Nets::need(&Opened::Cuda(Arc::clone(context)), &net, &setup, &members)?;
        Ok(bytes + of_nets + 4 * (roots * (world.actions + 1)) as u64)
    }

    /// Bytes of its memory on the card.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Other parameters, `[params]`.
    ///
    /// # Errors
    ///
    /// Where they do not fit, or the card fails.
    pub fn set_params(&mut self, params: &[f32]) -> Result<()> {
        self.params.put(&self.found.stream, params)?;
        match &mut self.way {
            Way::Small(_) => Ok(()),
            Way::Wide(wide) => wide.nets.set_params(0, params),
        }
    }

    /// Searches from all roots, as many as it was made for.
    ///
    /// # Errors
    ///
    /// Where they are not so many, or the card fails.
    pub fn run(&mut self, roots: &[Root<LinearRow>]) -> Result<Outcomes> {
        let gumbels = self.found.draws(roots);
        self.run_with(roots, &gumbels)
    }

    /// The same with Gumbel draws that are given, `[R, A]`.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn run_with(&mut self, roots: &[Root<LinearRow>], gumbels: &[f32]) -> Result<Outcomes> {
        let rows: Vec<f32> = roots.iter().flat_map(|root| &root.known.0[..self.world.inputs]).copied().collect();
        self.rows.roots.put(&self.found.stream, &rows)?;
        self.found.put_gumbels(gumbels)?;
        self.enqueue()?;
        self.found.outcomes(self.world.held(&LinearRow::new(&[])))
    }

    /// Puts the search from the roots of the last run on the stream once more, and waits: what is timed.
    ///
    /// # Errors
    ///
    /// Where the card fails.
    pub fn again(&mut self) -> Result<()> {
        self.enqueue()?;
        self.found.stream.wait()
    }

    /// Seconds of a pass of the net alone over as many rows as there are roots, in graphs of passes behind each other;
    /// none for small nets, whose passes are inside the search.
    ///
    /// # Errors
    ///
    /// Where the card fails.
    pub fn pass_s(&mut self) -> Result<Option<f64>> {
        let stream = &self.found.stream;
        let Way::Wide(wide) = &mut self.way else { return Ok(None) };
        wide.pass(stream)?;
        stream.wait()?;
        let graph = stream.capture(|| (0..ROUNDS).try_for_each(|_| wide.pass(stream)))?;
        graph.launch(stream)?;
        stream.wait()?;
        let clock = std::time::Instant::now();
        (0..LAUNCHES).try_for_each(|_| graph.launch(stream))?;
        stream.wait()?;
        Ok(Some(clock.elapsed().as_secs_f64() / f64::from(ROUNDS * LAUNCHES)))
    }

    fn enqueue(&mut self) -> Result<()> {
        let stream = &self.found.stream;
        match &mut self.way {
            Way::Small(small) => {
                let Small { pack, search } = &**small;
                pack.0.launch(stream, pack.1, &pack.2)?;
                search.0.launch(stream, search.1, &search.2)
            }
            Way::Wide(wide) => {
                if wide.graphs.is_empty() {
                    // What is captured has to have run once.
                    let last = wide.round.trees.simulations + 1;
                    wide.rounds(stream, 0..last + 1)?;
                    stream.wait()?;
                    for first in (0..=last).step_by(ROUNDS as usize) {
                        let part = first..(first + ROUNDS).min(last + 1);
                        let graph = stream.capture(|| wide.rounds(stream, part))?;
                        wide.graphs.push(graph);
                    }
                }
                wide.graphs.iter().try_for_each(|graph| graph.launch(stream))
            }
        }
    }
}

impl Wide {
    fn pass(&mut self, stream: &Stream) -> Result<()> {
        let rows = self.round.trees.roots as usize;
        let batch = OnCard { rows, ids: None, extras: Some(&self.round.shown) };
        self.nets.forward_on(stream, batch, &self.heads)
    }

    /// Some rounds: 0 shows the roots, the one behind the last simulation concludes.
    fn rounds(&mut self, stream: &Stream, rounds: Range<u32>) -> Result<()> {
        for round in rounds {
            self.round.round = round;
            self.kernel.launch(stream, self.grid, &self.round)?;
            if round <= self.round.trees.simulations {
                self.pass(stream)?;
            }
        }
        Ok(())
    }
}

/// What a search in a world of rows takes, before it is taken.
struct LinearPlan {
    net: Net,
    shape: Option<Shape>,
    /// None where the net goes through `Nets`.
    plan: Option<Plan>,
    /// Without `Nets`.
    bytes: u64,
}

impl LinearPlan {
    fn new(context: &Context, world: &LinearWorld, net: &Net, settings: &Settings, roots: usize) -> Result<LinearPlan> {
        check(settings, world.actions)?;
        world.check()?;
        let mut net = net.clone();
        net.inputs.iter_mut().for_each(|input| input.dense = true);
        if net.extras() != world.inputs || net.heads.first().is_none_or(|head| head.classes != world.actions) {
            return Err(Error::Invalid(format!(
                "a net of {} inputs; the world shows {} and has {} actions",
                net.extras(),
                world.inputs,
                world.actions
            )));
        }
        if settings.codes != 1 {
            return Err(Error::Invalid(format!("{} codes; nothing is drawn in this world, give 1", settings.codes)));
        }
        let shape = Shape::of(&net)?;
        let plan = shape.as_ref().and_then(|shape| Plan::new(context, shape, settings, roots));
        let outside = plan.is_none_or(|plan| !plan.trees_inside);
        let rows = roots * (3 + settings.simulations as usize) * world.inputs;
        let trees = if outside { roots * stride(settings, world.actions, 1) } else { 0 };
        let words = rows + compute::net::Layout::new(&net)?.params + roots * 2 + trees;
        let bytes = 4 * words as u64
            + found_bytes(settings, roots, world.actions)
            + shape.as_ref().map_or(0, Shape::bytes)
            + ARRAYS * BORDER;
        Ok(LinearPlan { net, shape, plan, bytes })
    }
}

/// A wide net that takes the rows of so many roots at once.
fn wide_setup(roots: usize) -> (Setup, [MemberSetup; 1]) {
    (Setup::inference(roots, Precision::Bf16), [MemberSetup { id: 0, scales: Vec::new() }])
}

/// How a whole search is laid out on a card.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Roots of a block, and rows of its products.
    each: usize,
    rows: usize,
    trees_inside: bool,
    weights_inside: bool,
    shared: usize,
}

impl Plan {
    /// As many blocks as the card takes at once, where that is enough; trees come into shared memory before weights,
    /// which are read in order and come from the cache as well.
    fn new(context: &Context, shape: &Shape, settings: &Settings, roots: usize) -> Option<Plan> {
        let gpu = context.gpu();
        // Above four actions there is a kernel for 16 rows alone.
        let most = if shape.actions <= 4 { 64 } else { 16 };
        let each = roots.div_ceil(gpu.multiprocessors as usize).clamp(1, most);
        let rows = each.next_power_of_two().max(16);
        let tree = 4 * stride(settings, shape.actions, 1);
        let (room, mut shared) = (gpu.shared as usize, shape.shared(rows));
        let mut fits = |bytes: usize| {
            let inside = shared + bytes <= room;
            shared += if inside { bytes } else { 0 };
            inside
        };
        if !fits(0) {
            return None;
        }
        let trees_inside = fits(each * tree);
        let weights_inside = fits(4 * shape.words);
        Some(Plan { each, rows, trees_inside, weights_inside, shared })
    }
}

fn small(
    module: &Arc<Module>,
    slab: &mut Slab,
    found: &Found,
    rows: &LinearRows,
    params: &Array<f32>,
    shape: &Shape,
    plan: Plan,
) -> Result<Way> {
    let (net, pack) = shape.arrays(slab, &found.stream, params, 1)?;
    let most = if shape.actions <= 4 { 4 } else { 32 };
    let kernel: Kernel<SmallSearch> = module.kernel(&format!("small_{most}_{}", plan.rows))?;
    kernel.allow_shared(counted(plan.shared)?)?;
    let grid = Grid {
        blocks: [found.trees.roots.div_ceil(plan.each as u32), 1, 1],
        threads: [THREADS, 1, 1],
        shared: plan.shared as u32,
    };
    let search = SmallSearch {
        trees: found.trees.clone(),
        net,
        world: rows.clone(),
        each: plan.each as u32,
        weights_inside: u32::from(plan.weights_inside),
        trees_inside: u32::from(plan.trees_inside),
    };
    let packing = Grid { blocks: [found.context.gpu().multiprocessors, 1, 1], threads: [THREADS, 1, 1], shared: 0 };
    let pack = (module.kernel("pack_params")?, packing, pack);
    Ok(Way::Small(Box::new(Small { pack, search: (kernel, grid, search) })))
}

#[expect(clippy::too_many_arguments, reason = "all of a search")]
fn wide(
    context: &Arc<Context>,
    module: &Arc<Module>,
    slab: &mut Slab,
    found: &Found,
    rows: &LinearRows,
    net: &Net,
    params: &[f32],
    roots: usize,
) -> Result<Way> {
    let device = Opened::Cuda(Arc::clone(context));
    let tables = Tables::new(&device, Budget::default(), &[], &[])?;
    let (setup, members) = wide_setup(roots);
    let pins = Nets::plan_pins(&device, net, &setup, &Pins::default())?;
    let mut nets = Nets::new(&device, Budget::default(), net, &tables, &setup, &members, &pins)?;
    nets.set_params(0, params)?;
    let heads = nets.head_arrays(roots)?;
    let actions = found.trees.actions;
    let each = roots.div_ceil(context.gpu().multiprocessors as usize).clamp(1, THREADS as usize);
    let round = WideRound {
        trees: found.trees.clone(),
        world: rows.clone(),
        shown: slab.array(roots * rows.inputs as usize)?,
        logits: heads[0].clone(),
        values: heads[1].clone(),
        leaves: slab.array(2 * roots)?,
        each: each as u32,
        round: 0,
    };
    let kernel = module.kernel(if actions <= 4 { "wide_4" } else { "wide_32" })?;
    let grid = Grid { blocks: [roots.div_ceil(each) as u32, 1, 1], threads: [THREADS, 1, 1], shared: 0 };
    Ok(Way::Wide(Box::new(Wide { nets, kernel, grid, round, heads, graphs: Vec::new() })))
}
