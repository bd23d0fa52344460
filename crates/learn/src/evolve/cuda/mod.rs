//! Searches on a card: generations (look, trade, rank, sum, and the move of the distribution) stay there, in one
//! captured graph. The host enqueues as many as it wants and reads behind the last of them how far each member came.
//!
//! The kernels of `evolve.cu` are for policies with two hidden layers of up to 64 whose weights are all drawn, those of
//! `evolve_low_rank.cu` for individuals of low rank with two hidden layers of at most 256, on Hopper; both compute in
//! bf16, and [`fits`] says whether a config is for them. Other configs evolve on the processor. What a distribution is
//! lies on the card while it works, and comes and goes as a [`State`], so that a snapshot is what it is on a processor.

mod arguments;
#[cfg(test)]
mod tests;

use super::low_rank::Factors;
use super::sep_cma::Constants;
use super::stack::Stack;
use super::strategy::{SLICE, State};
use super::{Algorithm, Evolve, Fitness, Hypers, separable};
use crate::MemberKey;
use crate::ppo::{Actions, EpisodeTable, episode_table, episode_table_bytes};
use arguments::{Arrivals, Climb, Look, Rank, Searches, Spread, Sum, Trade};
use compute::cuda::{Array, Context, Gpu, Graph, Grid, Image, Kernel, Module, Plain, Slab, Stream};
use compute::population::{Optimiser, Precision, Scale};
use compute::{Error, Net, Result, Tables, image};
use market::OBSERVED;
use std::ops::Range;
use std::sync::Arc;

static EVOLVE: Image = image!("evolve");
static LOW_RANK: Image = image!("evolve_low_rank", (9, 0), "sm_90a");

/// As `evolve.cuh` has them.
const RATES: usize = 256;
const SPAN: usize = 3;
const TALLY: usize = 3;
const REPORT: usize = 3;
const NUMBERS: usize = 2;

/// Accounts that a warp takes through the net, how wide its hidden layers are, and warps of an individual, at most.
const ROWS: usize = 16;
const HIDDEN: usize = 64;
const WARPS: usize = 4;
/// The memory of what follows from bars held, which is there before any is asked for.
const HELD: usize = 256 * 12;

/// Accounts of an individual whose actions have a lane each, at most.
const QUICK: usize = 10;
/// Its threads, and steps of which everything that follows from bars held fits into shared memory.
const QUICK_THREADS: u32 = 192;
const QUICK_STEPS: usize = 1024;
const QUICK_STATIC: usize = 8192;

/// Of `evolve_low_rank.cu`: the cards it is for, the widths of hidden layers with steps of 16 inputs, rows of a tile
/// and tiles of a block, and accounts of an individual in a tile, at most.
const HOPPER: (u32, u32) = (9, 0);
const WIDTHS: [(usize, &[usize]); 3] = [(64, &[2, 5, 8]), (128, &[5, 8]), (256, &[4, 5])];
const TILE: usize = 64;
const TILES: usize = 2;
const SEATS: usize = 32;
/// Factors of a tile, inputs of a part of a sum, and the memory that is there before any is asked for.
const OWN: usize = 8;
const INPUTS: usize = 64;
const STATIC: usize = 128;

/// Threads of the kernels that move a distribution; each has a parameter.
const MOVERS: usize = 256;

/// Arrays in the slab, at most: each begins on a border of 256 bytes.
const ARRAYS: usize = 40;

/// Whose weights individuals have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All their own.
    Dense,
    /// The middle's and factors of their own, for layers up to this width, with so many rows of a tile for accounts.
    LowRank { width: usize, seats: usize },
}

/// How `trade` is laid out for a net.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    kind: Kind,
    /// Steps of 16 inputs that it is compiled for.
    steps: usize,
    threads: u32,
    shared: u32,
    features: usize,
    /// Features rounded up to 8.
    column: usize,
}

/// How a config evolves on a card, where it computes in bf16 and the card has kernels for it.
pub(super) fn fits(context: &Context, evolve: &Evolve, kind: usize) -> Option<Shape> {
    let (config, hypers, stack) = (&evolve.spec.configs[kind], &evolve.spec.hypers[kind], &evolve.stacks[kind]);
    if config.recipe.precision != Precision::Bf16 {
        return None;
    }
    shape(context.gpu(), &config.net, stack, hypers).ok()
}

/// The kernels for such individuals on a card; else why there are none, as half a sentence.
pub(super) fn shape(gpu: &Gpu, net: &Net, stack: &Stack, hypers: &Hypers) -> std::result::Result<Shape, String> {
    let [row, shown] = net.inputs.as_slice() else {
        return Err(format!("the net reads {} tables of features, and kernels read one", net.inputs.len().max(1) - 1));
    };
    let [first, second, _] = stack.layers.as_slice() else {
        let hidden = stack.layers.len().max(1) - 1;
        return Err(format!(
            "the net has {hidden} hidden layer{}, and kernels are for two",
            if hidden == 1 { "" } else { "s" }
        ));
    };
    let read = !row.dense && shown.dense && shown.features == OBSERVED;
    if stack.outputs() > 3 || !read {
        return Err("the net does not read what kernels read".into());
    }
    let column = row.features.next_multiple_of(8);
    let widest = first.outputs.max(second.outputs);
    let room = gpu.shared as usize;
    let made = |kind: Kind, steps: usize, threads: usize, shared: usize| {
        let (threads, shared) = (threads as u32, shared as u32);
        Shape { kind, steps, threads, shared, features: row.features, column }
    };
    // The fewest steps that hold all inputs.
    let steps_of = |all: &[usize]| {
        let most = all.iter().max().map_or(0, |steps| steps * ROWS - OBSERVED);
        let found = all.iter().find(|steps| **steps * ROWS >= column + OBSERVED);
        found.copied().ok_or_else(|| {
            format!("the net reads {} features, and kernels for layers as wide read at most {most}", row.features)
        })
    };
    let narrow = |bytes: usize| Err(format!("a block needs {bytes} bytes of shared memory, and the GPU has {room}"));
    if hypers.rank > 0 {
        let (rank, envs) = (hypers.rank as usize, hypers.n_envs as usize);
        if gpu.capability != HOPPER {
            let (major, minor) = gpu.capability;
            return Err(format!(
                "kernels for individuals of low rank are for Hopper (compute capability 9.0), and this GPU has \
                 {major}.{minor}"
            ));
        }
        let Some((width, all)) = WIDTHS.into_iter().find(|(width, _)| widest <= *width) else {
            return Err(format!("the net has layers of {widest}, and kernels are for at most {}", WIDTHS[2].0));
        };
        // The draws of a tile have no more factors than there are columns for them.
        let seats = envs.min(SEATS).next_power_of_two().max((TILE / 2 / OWN * rank).next_power_of_two());
        if seats > SEATS {
            return Err(format!("the rank is {rank}, and kernels are for at most {OWN}"));
        }
        let steps = steps_of(all)?;
        // As `Room` of `evolve_low_rank.cu` has it.
        let common = (steps * 16 + width + OWN) * width * 2 + (2 * width + OWN) * 4;
        let tile = (steps * 16 + 2 * width) * OWN * 2 + 2 * OWN * (2 * width + OWN) * 2;
        let shared = common + TILES * tile;
        if shared + STATIC > room {
            return narrow(shared + STATIC);
        }
        return Ok(made(Kind::LowRank { width, seats }, steps, TILES * 128, shared));
    }
    if widest > HIDDEN {
        return Err(format!(
            "the net has layers of {widest}, and kernels for individuals whose weights are all drawn are for at most \
             {HIDDEN}"
        ));
    }
    let steps = steps_of(&[2, 5, 8])?;
    // As `warp_mlp.cuh` lays them out.
    let slab = |rows: usize| rows * 32 + 32;
    let hidden = HIDDEN / 16;
    let weights = (steps + hidden) * slab(HIDDEN) + hidden * slab(8) + ((2 * HIDDEN + 8) * 4).next_multiple_of(32);
    let warps = (hypers.n_envs as usize).div_ceil(ROWS).min(WARPS);
    let shared = 2 * weights + 2 * warps * 2 * steps * slab(ROWS);
    if shared + HELD > room { narrow(shared + HELD) } else { Ok(made(Kind::Dense, steps, 64 * warps, shared)) }
}

/// How much there is of everything.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    p: usize,
    parameters: usize,
    padded: usize,
    /// Blocks of four numbers of a draw.
    blocks: usize,
    draws: usize,
    individuals: usize,
    slices: usize,
    accounts: usize,
    steps: usize,
    /// Blocks of threads that move a distribution.
    movers: usize,
    algorithm: Algorithm,
}

impl Sizes {
    fn new(evolve: &Evolve, kind: usize, members: usize) -> Sizes {
        let (hypers, stack) = (&evolve.spec.hypers[kind], &evolve.stacks[kind]);
        let (draws, parameters) = (hypers.draws() as usize, stack.parameters);
        Sizes {
            p: members,
            parameters,
            padded: parameters.next_multiple_of(4),
            blocks: hypers.numbers(stack).div_ceil(4),
            draws,
            individuals: draws * hypers.algorithm.sides(),
            slices: draws.div_ceil(SLICE),
            accounts: hypers.n_envs as usize,
            steps: hypers.n_steps as usize,
            movers: parameters.div_ceil(MOVERS),
            algorithm: hypers.algorithm,
        }
    }

    /// Bytes of everything but the table of prices, borders included.
    fn bytes(&self, shape: &Shape) -> u64 {
        let Sizes { p, padded, draws, individuals, slices, accounts, steps, movers, algorithm, .. } = *self;
        let (arrays, sums) = match algorithm {
            Algorithm::OpenAi => (3, 1),
            Algorithm::SepCma => (5 + 2, 2),
            Algorithm::Snes | Algorithm::Cem => (2 + 2, 2),
        };
        let ranks = if algorithm == Algorithm::OpenAi { 0 } else { 2 * individuals + 1 };
        let doubles = p * (individuals * (1 + TALLY * accounts) + REPORT + NUMBERS + 2 * movers + ranks);
        let words = p * (10 + 2 * shape.features + SPAN * accounts + (arrays + sums * slices) * padded + draws + RATES);
        (8 * doubles + 4 * words + 2 * p * steps * accounts * shape.column + 256 * ARRAYS) as u64
    }
}

/// Bytes on the card.
pub(super) fn need(evolve: &Evolve, kind: usize, members: usize, shape: &Shape) -> u64 {
    Sizes::new(evolve, kind, members).bytes(shape) + episode_table_bytes(&evolve.folds)
}

/// How far a member came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Done {
    pub(super) unit: u32,
    /// The generation whose step was not finite: there it stopped.
    pub(super) failed: Option<u32>,
}

/// A kernel with what it is launched with.
type Launch<A> = (Kernel<A>, Grid, A);

/// What moves a distribution.
enum Mover {
    Climb(Box<Launch<Climb>>),
    /// `fold`, then `spread`.
    Spread(Kernel<Spread>, Box<Launch<Spread>>),
}

/// Members on a card.
pub(super) struct Card {
    stream: Stream,
    sizes: Sizes,
    search: Searches,
    look: Launch<Look>,
    trade: Launch<Trade>,
    /// How fit individuals are, where `trade` does not say it.
    fit: Option<(Kernel<Trade>, Grid)>,
    rank: Launch<Rank>,
    sum: Launch<Sum>,
    mover: Mover,
    /// What a distribution is, as a [`State`] has it: `[arrays][P, d₄]`, `[P, NUMBERS]`, and `[P, REPORT]`.
    arrays: Vec<Array<f32>>,
    numbers: Array<f64>,
    report: Array<f64>,
    rates: Array<f32>,
    /// What is replayed, once it has run without.
    graph: Option<Graph>,
    /// `[P]` generations whose rates are on the card.
    rated: Vec<Range<u32>>,
}

/// Memory on a card.
struct Memory<'a> {
    slab: &'a mut Slab,
    stream: &'a Stream,
}

impl Memory<'_> {
    fn put<T: Plain>(&mut self, from: &[T]) -> Result<Array<T>> {
        let made = self.slab.array(from.len())?;
        made.put(self.stream, from)?;
        Ok(made)
    }

    fn zeros<T: Plain>(&mut self, len: usize) -> Result<Array<T>> {
        let made = self.slab.array(len)?;
        made.fill(self.stream, 0)?;
        Ok(made)
    }
}

fn grid(blocks: [usize; 3], threads: u32, shared: u32) -> Grid {
    Grid { blocks: blocks.map(|n| n as u32), threads: [threads, 1, 1], shared }
}

impl Card {
    /// Members of these keys, who stand nowhere yet: [`Self::put`] says where.
    pub(super) fn new(
        context: &Arc<Context>,
        evolve: &Evolve,
        kind: usize,
        keys: &[MemberKey],
        tables: &Tables,
        shape: Shape,
    ) -> Result<Card> {
        let stream = Stream::new(context)?;
        let (sizes, hypers) = (Sizes::new(evolve, kind, keys.len()), &evolve.spec.hypers[kind]);
        let Sizes { p, padded, draws, individuals, slices, accounts, steps, algorithm, .. } = sizes;
        let table = episode_table(context, &stream, &evolve.folds, hypers.n_steps)?;
        let mut slab = context.slab(sizes.bytes(&shape))?;
        let m = &mut Memory { slab: &mut slab, stream: &stream };
        let search = searches(m, evolve, kind, keys, &sizes, &shape)?;
        let look = look(m, evolve, kind, keys, tables, &shape, &search, table.clone())?;
        let arrays: Vec<Array<f32>> = (0..arrays_of(algorithm)).map(|_| m.zeros(p * padded)).collect::<Result<_>>()?;
        let mirrored = algorithm == Algorithm::OpenAi;
        let trade = Trade {
            table,
            search: search.clone(),
            middle: arrays[0].clone(),
            deviation: (!mirrored).then(|| arrays[deviation_of(algorithm)].clone()),
            spans: look.spans.clone(),
            seen: look.seen.clone(),
            tallies: m.zeros(p * individuals * accounts * TALLY)?,
            fitness: m.zeros(p * individuals)?,
            asked: None,
        };
        let of_rank = (!mirrored).then(|| of_rank(algorithm, sizes.parameters, individuals));
        let rank = Rank {
            search: search.clone(),
            fitness: trade.fitness.clone(),
            of_rank: of_rank.as_ref().map(|of| m.put(&of.repeat(p))).transpose()?,
            up_to: of_rank.as_ref().map(|of| m.put(&up_to(of).repeat(p))).transpose()?,
            weights: m.zeros(p * draws)?,
            alike: m.zeros(p)?,
        };
        let sum = Sum {
            search: search.clone(),
            weights: rank.weights.clone(),
            parts: m.zeros(p * slices * padded)?,
            squares: if mirrored { None } else { Some(m.zeros(p * slices * padded)?) },
        };
        let (numbers, report, rates) = (m.zeros(p * NUMBERS)?, m.zeros(p * REPORT)?, m.zeros(p * RATES)?);
        let module = Module::load(context, &EVOLVE)?;
        let movers = grid([sizes.movers, p, 1], MOVERS as u32, 0);
        let mover = if mirrored {
            let climb = climb(m, evolve, kind, &sizes, &search, &arrays, &sum, [&numbers, &report], &rates)?;
            Mover::Climb(Box::new((module.kernel("climb")?, movers, climb)))
        } else {
            let spread = spread(m, &sizes, &search, &arrays, &rank, &sum, [&numbers, &report])?;
            Mover::Spread(module.kernel("fold")?, Box::new((module.kernel("spread")?, movers, spread)))
        };
        let pairs = individuals.div_ceil(2);
        let (traded, traded_grid, fit, summed, summed_grid) = match shape.kind {
            Kind::Dense => {
                let name = dense_kernel(context, hypers, &sizes, &shape);
                let (threads, more) =
                    if name == "quick" { (QUICK_THREADS, held_tables(steps)) } else { (shape.threads, 0) };
                let traded: Kernel<Trade> = module.kernel(&format!("{name}_{}", shape.steps))?;
                let summed = (module.kernel("sum")?, grid([padded.div_ceil(64), slices, p], 256, 0));
                (traded, grid([pairs, p, 1], threads, shape.shared + more), None, summed.0, summed.1)
            }
            Kind::LowRank { width, seats } => {
                let low = Module::load(context, &LOW_RANK)?;
                let traded: Kernel<Trade> = low.kernel(&format!("low_rank_{width}_{}", shape.steps))?;
                let tiles = draws.div_ceil(TILE / (2 * seats)) * accounts.div_ceil(SEATS);
                let fit = (low.kernel("fit")?, grid([individuals.div_ceil(256), p, 1], 256, 0));
                let layers = &evolve.stacks[kind].layers;
                let parts = layers.iter().map(|layer| layer.inputs.div_ceil(INPUTS) + 1).sum();
                let traded_grid = grid([tiles.div_ceil(TILES), p, 1], shape.threads, shape.shared);
                let summed_grid = grid([parts, slices, p], 256, 0);
                (traded, traded_grid, Some(fit), low.kernel("sum_factors")?, summed_grid)
            }
        };
        traded.allow_shared(traded_grid.shared)?;
        let seen = (steps * accounts * shape.column / 8).div_ceil(256);
        let ranked = module.kernel(if mirrored { "rank" } else { "rank_each" })?;
        Ok(Card {
            look: (module.kernel("look")?, grid([seen, p, 1], 256, 0), look),
            trade: (traded, traded_grid, trade),
            fit,
            rank: (ranked, grid([draws.div_ceil(8), p, 1], 256, 0), rank),
            sum: (summed, summed_grid, sum),
            mover,
            arrays,
            numbers,
            report,
            rates,
            stream,
            sizes,
            search,
            graph: None,
            rated: vec![0..0; p],
        })
    }

    /// Some generations of all active members, whose units these are; `rate` is that of a member's generation.
    pub(super) fn run(
        &mut self,
        units: &[u32],
        generations: u32,
        rate: impl Fn(usize, u32) -> f32,
    ) -> Result<Vec<Done>> {
        for done in 0..generations {
            if units.iter().zip(&self.rated).any(|(unit, rated)| !rated.contains(&(unit + done))) {
                self.put_rates(units.iter().map(|unit| unit + done), &rate)?;
            }
            match &self.graph {
                Some(graph) => graph.launch(&self.stream)?,
                // What is captured has to have run before.
                None => {
                    self.generation()?;
                    self.graph = Some(self.stream.capture(|| self.generation())?);
                }
            }
        }
        let report = self.report.get(&self.stream)?;
        let done = |[unit, _, failed]: &[f64; REPORT]| Done {
            unit: *unit as u32,
            failed: Some(*failed as u32).filter(|failed| *failed > 0),
        };
        Ok(report.as_chunks::<REPORT>().0.iter().map(done).collect())
    }

    fn generation(&self) -> Result<()> {
        let Card { stream, look, trade, fit, rank, sum, mover, .. } = self;
        look.0.launch(stream, look.1, &look.2)?;
        trade.0.launch(stream, trade.1, &trade.2)?;
        if let Some((fit, grid)) = fit {
            fit.launch(stream, *grid, &trade.2)?;
        }
        rank.0.launch(stream, rank.1, &rank.2)?;
        sum.0.launch(stream, sum.1, &sum.2)?;
        match mover {
            Mover::Climb(launch) => {
                let (climb, grid, given) = &**launch;
                climb.launch(stream, *grid, given)
            }
            Mover::Spread(fold, launch) => {
                let (spread, grid, given) = &**launch;
                fold.launch(stream, *grid, given)?;
                spread.launch(stream, *grid, given)
            }
        }
    }

    fn put_rates(&mut self, units: impl Iterator<Item = u32>, rate: &impl Fn(usize, u32) -> f32) -> Result<()> {
        let mut rates = vec![0.0; self.sizes.p * RATES];
        for (at, (unit, rates)) in units.zip(rates.chunks_exact_mut(RATES)).enumerate() {
            self.rated[at] = unit..unit + RATES as u32;
            self.rated[at].clone().for_each(|unit| rates[unit as usize % RATES] = rate(at, unit));
        }
        self.rates.put(&self.stream, &rates)
    }

    /// `[individuals]` how fit a member's were in the last generation.
    pub(super) fn fitness(&self, at: usize) -> Result<Vec<f64>> {
        let all = self.sizes.individuals;
        self.trade.2.fitness.part(at * all, all)?.get(&self.stream)
    }

    /// A member's distribution, as its [`super::Strategy`] has it.
    pub(super) fn state(&self, at: usize) -> Result<State> {
        let (Sizes { parameters, padded, algorithm, .. }, stream) = (self.sizes, &self.stream);
        let own = |of: &Array<f32>| -> Result<Vec<f32>> {
            let mut own = of.part(at * padded, padded)?.get(stream)?;
            own.truncate(parameters);
            Ok(own)
        };
        let mut numbers = self.numbers.part(at * NUMBERS, NUMBERS)?.get(stream)?;
        numbers.truncate(numbers_of(algorithm));
        numbers.push(self.report.part(at * REPORT + 1, 1)?.get(stream)?[0]);
        Ok(State { numbers, arrays: self.arrays.iter().map(own).collect::<Result<_>>()? })
    }

    /// Sets a member's distribution, its unit, and whether it goes on; false where it is no such state.
    pub(super) fn put(&self, at: usize, state: &State, unit: u32, active: bool) -> Result<bool> {
        let (Sizes { parameters, padded, algorithm, .. }, stream) = (self.sizes, &self.stream);
        let Some((moved, numbers)) = state.numbers.split_last() else { return Ok(false) };
        let sized = state.arrays.len() == self.arrays.len() && state.arrays.iter().all(|own| own.len() == parameters);
        if numbers.len() != numbers_of(algorithm) || !sized {
            return Ok(false);
        }
        for (to, from) in self.arrays.iter().zip(&state.arrays) {
            to.part(at * padded, parameters)?.put(stream, from)?;
        }
        if !numbers.is_empty() {
            self.numbers.part(at * NUMBERS, numbers.len())?.put(stream, numbers)?;
        }
        if algorithm == Algorithm::SepCma {
            self.search.sigma.part(at, 1)?.put(stream, &[numbers[0] as f32])?;
        }
        self.search.unit.part(at, 1)?.put(stream, &[unit])?;
        self.search.active.part(at, 1)?.put(stream, &[u32::from(active)])?;
        self.report.part(at * REPORT, REPORT)?.put(stream, &[f64::from(unit), *moved, 0.0])?;
        Ok(true)
    }

    /// A member stays where it is.
    pub(super) fn stop(&self, at: usize) -> Result<()> {
        self.search.active.part(at, 1)?.put(&self.stream, &[0])
    }
}

/// Arrays of a distribution, and which of them are deviations; numbers beside how far it moved last.
fn arrays_of(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::OpenAi => 3,
        Algorithm::SepCma => 5,
        Algorithm::Snes | Algorithm::Cem => 2,
    }
}

fn deviation_of(algorithm: Algorithm) -> usize {
    if algorithm == Algorithm::SepCma { 2 } else { 1 }
}

fn numbers_of(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::OpenAi => 1,
        Algorithm::SepCma => 2,
        Algorithm::Snes | Algorithm::Cem => 0,
    }
}

/// Which kernel individuals with weights of their own trade in; all give the same bits.
fn dense_kernel(context: &Context, hypers: &Hypers, sizes: &Sizes, shape: &Shape) -> &'static str {
    let blocks = sizes.p * sizes.individuals.div_ceil(2);
    // A multiprocessor has registers for one block of it: with more blocks they would wait for each other.
    let few = blocks <= context.gpu().multiprocessors as usize;
    let short = sizes.accounts <= QUICK && sizes.steps <= QUICK_STEPS;
    let room =
        shape.shared as usize + held_tables(sizes.steps) as usize + QUICK_STATIC <= context.gpu().shared as usize;
    let quick = few && short && room && hypers.actions == Actions::Discrete && shape.steps < 8;
    if quick { "quick" } else { "trade" }
}

/// Bytes of what follows from bars held: a root and a logarithm each.
fn held_tables(steps: usize) -> u32 {
    12 * (steps as u32 + 1)
}

/// `[individuals]` what they count, from the fittest on.
fn of_rank(algorithm: Algorithm, parameters: usize, individuals: usize) -> Vec<f64> {
    match algorithm {
        Algorithm::OpenAi => Vec::new(),
        Algorithm::SepCma => Constants::separable(parameters, individuals).weights,
        Algorithm::Snes => separable::snes_utilities(individuals),
        Algorithm::Cem => separable::cem_weights(individuals),
    }
}

/// `[individuals + 1]` how much they count up to each.
fn up_to(of_rank: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; of_rank.len() + 1];
    for (at, weight) in of_rank.iter().enumerate() {
        sums[at + 1] = sums[at] + weight;
    }
    sums
}

#[expect(clippy::too_many_arguments, reason = "all that a kernel takes, once")]
fn look(
    m: &mut Memory<'_>,
    evolve: &Evolve,
    kind: usize,
    keys: &[MemberKey],
    tables: &Tables,
    shape: &Shape,
    search: &Searches,
    table: EpisodeTable,
) -> Result<Look> {
    let (mean, inverse) = scales(evolve, kind, keys, shape.features);
    let (rows, map) = tables.array(0)?;
    let accounts = keys.len() * evolve.spec.hypers[kind].n_envs as usize;
    Ok(Look {
        table,
        search: search.clone(),
        rows,
        map,
        mean: m.put(&mean)?,
        inverse: m.put(&inverse)?,
        spans: m.zeros(accounts * SPAN)?,
        seen: m.zeros(accounts * evolve.spec.hypers[kind].n_steps as usize * shape.column)?,
        stride: tables.stride(0) as u32,
    })
}

#[expect(clippy::too_many_arguments, reason = "all that a kernel takes, once")]
fn climb(
    m: &mut Memory<'_>,
    evolve: &Evolve,
    kind: usize,
    sizes: &Sizes,
    search: &Searches,
    arrays: &[Array<f32>],
    sum: &Sum,
    [numbers, report]: [&Array<f64>; 2],
    rates: &Array<f32>,
) -> Result<Climb> {
    let Optimiser { beta1, beta2, eps, decay, .. } = evolve.spec.configs[kind].recipe.optimiser;
    Ok(Climb {
        search: search.clone(),
        arrivals: arrivals(m, sizes)?,
        parts: sum.parts.clone(),
        rates: rates.clone(),
        middle: arrays[0].clone(),
        first: arrays[1].clone(),
        second: arrays[2].clone(),
        numbers: numbers.clone(),
        report: report.clone(),
        slices: sizes.slices as u32,
        beta1,
        beta2,
        eps,
        decay,
    })
}

fn spread(
    m: &mut Memory<'_>,
    sizes: &Sizes,
    search: &Searches,
    arrays: &[Array<f32>],
    rank: &Rank,
    sum: &Sum,
    [numbers, report]: [&Array<f64>; 2],
) -> Result<Spread> {
    let Sizes { p, padded, parameters, individuals, algorithm, .. } = *sizes;
    // What an algorithm does not have, its kernel does not read.
    let constants = match algorithm {
        Algorithm::SepCma => Constants::separable(parameters, individuals),
        Algorithm::OpenAi | Algorithm::Snes | Algorithm::Cem => Constants::default(),
    };
    let Constants { effective, path_rate, rank_one, rank_many, sigma_rate, damping, length, .. } = constants;
    let own = |at: usize| (algorithm == Algorithm::SepCma).then(|| arrays[at].clone());
    Ok(Spread {
        search: search.clone(),
        arrivals: arrivals(m, sizes)?,
        parts: sum.parts.clone(),
        squares: sum.squares.clone().ok_or_else(|| Error::Invalid("no sums of squares".into()))?,
        weights: rank.weights.clone(),
        alike: rank.alike.clone(),
        sums: m.zeros(2 * p * padded)?,
        paths: m.zeros(p * sizes.movers)?,
        total: m.zeros(p)?,
        middle: arrays[0].clone(),
        deviation: arrays[deviation_of(algorithm)].clone(),
        variance: own(1),
        path: own(3),
        sigma_path: own(4),
        numbers: numbers.clone(),
        report: report.clone(),
        slices: sizes.slices as u32,
        algorithm: match algorithm {
            Algorithm::OpenAi => 0,
            Algorithm::SepCma => 1,
            Algorithm::Snes => 2,
            Algorithm::Cem => 3,
        },
        effective,
        path_rate,
        rank_one,
        rank_many,
        sigma_rate,
        damping,
        length,
        rate: if algorithm == Algorithm::Snes {
            0.5 * separable::snes_rate(parameters) as f32
        } else {
            separable::CEM_RATE
        },
    })
}

fn arrivals(m: &mut Memory<'_>, sizes: &Sizes) -> Result<Arrivals> {
    Ok(Arrivals { lengths: m.zeros(sizes.p * sizes.movers)?, count: m.zeros(sizes.p)? })
}

fn searches(
    m: &mut Memory<'_>,
    evolve: &Evolve,
    kind: usize,
    keys: &[MemberKey],
    sizes: &Sizes,
    shape: &Shape,
) -> Result<Searches> {
    let (stack, hypers): (&Stack, _) = (&evolve.stacks[kind], &evolve.spec.hypers[kind]);
    let of = |key: &MemberKey| &evolve.spec.hypers[key.config];
    let words = |of: &dyn Fn(&MemberKey) -> u32| keys.iter().map(of).collect::<Vec<u32>>();
    let floats = |of: &dyn Fn(&MemberKey) -> f32| keys.iter().map(of).collect::<Vec<f32>>();
    // As `ppo.cuh` numbers rewards.
    let measure = |key: &MemberKey| match of(key).fitness {
        Fitness::Growth => 0,
        Fitness::Drawdown(_) => 1,
        Fitness::Sharpe => 2,
    };
    let penalty = |key: &MemberKey| if let Fitness::Drawdown(weight) = of(key).fitness { weight } else { 0.0 };
    // Deviations of SNES and CEM are whole ones.
    let sigma = |key: &MemberKey| match hypers.algorithm {
        Algorithm::OpenAi | Algorithm::SepCma => of(key).sigma,
        Algorithm::Snes | Algorithm::Cem => 1.0,
    };
    Ok(Searches {
        id: m.put(&words(&|key| key.id()))?,
        fold: m.put(&words(&|key| key.fold as u32))?,
        unit: m.zeros(sizes.p)?,
        active: m.zeros(sizes.p)?,
        sigma: m.put(&floats(&sigma))?,
        fitness: m.put(&words(&measure))?,
        penalty: m.put(&floats(&penalty))?,
        seed: evolve.spec.configs[kind].recipe.seed,
        parameters: counted(sizes.parameters)?,
        padded: counted(sizes.padded)?,
        draws: counted(sizes.draws)?,
        sides: hypers.algorithm.sides() as u32,
        individuals: counted(sizes.individuals)?,
        blocks: counted(sizes.blocks)?,
        accounts: hypers.n_envs,
        steps: hypers.n_steps,
        actions: match hypers.actions {
            Actions::Discrete => 0,
            Actions::Continuous => 1,
        },
        outputs: stack.outputs() as u32,
        features: shape.features as u32,
        column: shape.column as u32,
        hidden: [stack.layers[0].outputs as u32, stack.layers[1].outputs as u32],
        act: [stack.layers[0].activation as u32, stack.layers[1].activation as u32],
        rank: hypers.rank,
        scale: hypers.factors(stack).as_ref().map_or(1.0, Factors::scale),
        seats: if let Kind::LowRank { seats, .. } = shape.kind { seats as u32 } else { 0 },
    })
}

/// `[P, features]` what is subtracted from columns of the table, and what they are then multiplied by.
fn scales(evolve: &Evolve, kind: usize, keys: &[MemberKey], features: usize) -> (Vec<f32>, Vec<f32>) {
    let net = &evolve.spec.configs[kind].net;
    let usual = || Scale { mean: vec![0.0; features], inverse: vec![1.0; features] };
    let own = |key: &MemberKey| {
        evolve.folds.scalers[key.fold].scales_of(net).first().cloned().flatten().unwrap_or_else(usual)
    };
    let all: Vec<Scale> = keys.iter().map(own).collect();
    let (mean, inverse) = (all.iter().map(|s| s.mean.to_vec()), all.iter().map(|s| s.inverse.to_vec()));
    (mean.flatten().collect(), inverse.flatten().collect())
}

fn counted(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::Invalid(format!("{n} numbers at once; at most {} are possible", u32::MAX)))
}
