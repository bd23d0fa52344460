//! OpenAI-ES on a card, all weights drawn: generations (look, trade, rank, sum, climb) stay there, in one captured
//! graph. The host enqueues as many as it wants and reads behind the last of them how far each member came.
//!
//! The kernels of `evolve.cu` are for policies with two hidden layers of 64 that may compute in bf16; [`fits`] says
//! whether a config is one. Other configs evolve on the processor. Mean, moments and counters lie on the card while it
//! works, and come and go as a [`State`], so that a snapshot is what it is on a processor.

mod arguments;
#[cfg(test)]
mod tests;

use super::stack::Stack;
use super::strategy::{SLICE, State};
use super::{Algorithm, Evolve, Fitness, Hypers};
use crate::MemberKey;
use crate::ppo::{Actions, episode_table, episode_table_bytes};
use arguments::{Climb, Look, Rank, Searches, Sum, Trade};
use compute::cuda::{Array, Context, Graph, Grid, Image, Kernel, Module, Plain, Slab, Stream};
use compute::population::{Optimiser, Precision, Scale};
use compute::{Error, Net, Result, Tables, image};
use market::OBSERVED;
use std::ops::Range;
use std::sync::Arc;

static EVOLVE: Image = image!("evolve");

/// As `evolve.cu` has them.
const RATES: usize = 256;
const SPAN: usize = 3;
const TALLY: usize = 3;
const REPORT: usize = 3;

/// Accounts that a warp takes through the net, the width of its hidden layers, and warps of an individual at most.
const ROWS: usize = 16;
const HIDDEN: usize = 64;
const WARPS: usize = 4;

/// Arrays in the slab, at most: each begins on a border of 256 bytes.
const ARRAYS: usize = 24;

/// How `trade` is laid out for a net.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
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
    shape(context, &config.net, stack, hypers)
}

/// The kernels for such individuals, where there are any.
pub(super) fn shape(context: &Context, net: &Net, stack: &Stack, hypers: &Hypers) -> Option<Shape> {
    let [row, shown] = net.inputs.as_slice() else { return None };
    let [first, second, _] = stack.layers.as_slice() else { return None };
    let small = first.outputs == HIDDEN && second.outputs == HIDDEN && stack.outputs() <= 3;
    let read = !row.dense && shown.dense && shown.features == OBSERVED;
    if hypers.algorithm != Algorithm::OpenAi || hypers.rank > 0 || !small || !read {
        return None;
    }
    let column = row.features.next_multiple_of(8);
    let steps = [2, 5, 8].into_iter().find(|steps| steps * ROWS >= column + OBSERVED)?;
    // As `warp_mlp.cuh` lays them out.
    let slab = |rows: usize| rows * 32 + 32;
    let hidden = HIDDEN / 16;
    let weights = (steps + hidden) * slab(HIDDEN) + hidden * slab(8) + ((2 * HIDDEN + 8) * 4).next_multiple_of(32);
    let warps = (hypers.n_envs as usize).div_ceil(ROWS).min(WARPS);
    let shared = 2 * weights + 2 * warps * 2 * steps * slab(ROWS);
    let fits = shared <= context.gpu().shared as usize;
    fits.then_some(Shape { steps, threads: 64 * warps as u32, shared: shared as u32, features: row.features, column })
}

/// How much there is of everything.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    p: usize,
    parameters: usize,
    padded: usize,
    draws: usize,
    slices: usize,
    accounts: usize,
    steps: usize,
}

impl Sizes {
    fn new(evolve: &Evolve, kind: usize, members: usize) -> Sizes {
        let (hypers, parameters) = (&evolve.spec.hypers[kind], evolve.stacks[kind].parameters);
        let draws = hypers.draws() as usize;
        Sizes {
            p: members,
            parameters,
            padded: parameters.next_multiple_of(4),
            draws,
            slices: draws.div_ceil(SLICE),
            accounts: hypers.n_envs as usize,
            steps: hypers.n_steps as usize,
        }
    }

    /// Bytes of everything but the table of prices, borders included.
    fn bytes(&self, shape: &Shape) -> u64 {
        let Sizes { p, padded, draws, slices, accounts, steps, .. } = *self;
        let doubles = p * (2 * draws * (1 + TALLY * accounts) + REPORT);
        let words = p * (8 + 2 * shape.features + SPAN * accounts + (3 + slices) * padded + draws + RATES);
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

/// Members on a card.
pub(super) struct Card {
    stream: Stream,
    sizes: Sizes,
    search: Searches,
    look: (Kernel<Look>, Grid, Look),
    trade: (Kernel<Trade>, Grid, Trade),
    rank: (Kernel<Rank>, Grid, Rank),
    sum: (Kernel<Sum>, Grid, Sum),
    climb: (Kernel<Climb>, Grid, Climb),
    /// What is replayed, once it has run without.
    graph: Option<Graph>,
    /// `[P]` generations whose rates are on the card.
    rated: Vec<Range<u32>>,
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
        let Sizes { p, padded, draws, slices, accounts, steps, .. } = sizes;
        let table = episode_table(context, &stream, &evolve.folds, hypers.n_steps)?;
        let mut slab = context.slab(sizes.bytes(&shape))?;
        let search = searches(&mut slab, &stream, evolve, kind, keys, &sizes, &shape)?;
        let s = &mut slab;
        let (mean, inverse) = scales(evolve, kind, keys, shape.features);
        let (rows, map) = tables.array(0)?;
        let look = Look {
            table: table.clone(),
            search: search.clone(),
            rows,
            map,
            mean: put(s, &stream, &mean)?,
            inverse: put(s, &stream, &inverse)?,
            spans: zeros(s, &stream, p * accounts * SPAN)?,
            seen: zeros(s, &stream, p * steps * accounts * shape.column)?,
            stride: tables.stride(0) as u32,
        };
        let trade = Trade {
            table,
            search: search.clone(),
            middle: zeros(s, &stream, p * padded)?,
            spans: look.spans.clone(),
            seen: look.seen.clone(),
            tallies: zeros(s, &stream, p * 2 * draws * accounts * TALLY)?,
            fitness: zeros(s, &stream, p * 2 * draws)?,
            asked: None,
        };
        let rank =
            Rank { search: search.clone(), fitness: trade.fitness.clone(), weights: zeros(s, &stream, p * draws)? };
        let sum = Sum {
            search: search.clone(),
            weights: rank.weights.clone(),
            parts: zeros(s, &stream, p * slices * padded)?,
        };
        let Optimiser { beta1, beta2, eps, decay, .. } = evolve.spec.configs[kind].recipe.optimiser;
        let climb = Climb {
            search: search.clone(),
            parts: sum.parts.clone(),
            rates: zeros(s, &stream, p * RATES)?,
            middle: trade.middle.clone(),
            first: zeros(s, &stream, p * padded)?,
            second: zeros(s, &stream, p * padded)?,
            steps: zeros(s, &stream, p)?,
            report: zeros(s, &stream, p * REPORT)?,
            slices: slices as u32,
            beta1,
            beta2,
            eps,
            decay,
        };
        let module = Module::load(context, &EVOLVE)?;
        let traded: Kernel<Trade> = module.kernel(&format!("trade_{}", shape.steps))?;
        traded.allow_shared(shape.shared)?;
        let grid = |blocks: [usize; 3], threads: u32, shared: u32| Grid {
            blocks: blocks.map(|n| n as u32),
            threads: [threads, 1, 1],
            shared,
        };
        let seen = (steps * accounts * shape.column / 8).div_ceil(256);
        Ok(Card {
            look: (module.kernel("look")?, grid([seen, p, 1], 256, 0), look),
            trade: (traded, grid([draws, p, 1], shape.threads, shape.shared), trade),
            rank: (module.kernel("rank")?, grid([draws.div_ceil(8), p, 1], 256, 0), rank),
            sum: (module.kernel("sum")?, grid([padded.div_ceil(256), slices, p], 64, 0), sum),
            climb: (module.kernel("climb")?, grid([p, 1, 1], 256, 0), climb),
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
        let report = self.climb.2.report.get(&self.stream)?;
        let done = |[unit, _, failed]: &[f64; REPORT]| Done {
            unit: *unit as u32,
            failed: Some(*failed as u32).filter(|failed| *failed > 0),
        };
        Ok(report.as_chunks::<REPORT>().0.iter().map(done).collect())
    }

    fn generation(&self) -> Result<()> {
        let Card { stream, look, trade, rank, sum, climb, .. } = self;
        look.0.launch(stream, look.1, &look.2)?;
        trade.0.launch(stream, trade.1, &trade.2)?;
        rank.0.launch(stream, rank.1, &rank.2)?;
        sum.0.launch(stream, sum.1, &sum.2)?;
        climb.0.launch(stream, climb.1, &climb.2)
    }

    fn put_rates(&mut self, units: impl Iterator<Item = u32>, rate: &impl Fn(usize, u32) -> f32) -> Result<()> {
        let mut rates = vec![0.0; self.sizes.p * RATES];
        for (at, (unit, rates)) in units.zip(rates.chunks_exact_mut(RATES)).enumerate() {
            self.rated[at] = unit..unit + RATES as u32;
            self.rated[at].clone().for_each(|unit| rates[unit as usize % RATES] = rate(at, unit));
        }
        self.climb.2.rates.put(&self.stream, &rates)
    }

    /// `[individuals]` how fit a member's were in the last generation.
    pub(super) fn fitness(&self, at: usize) -> Result<Vec<f64>> {
        self.trade.2.fitness.part(at * 2 * self.sizes.draws, 2 * self.sizes.draws)?.get(&self.stream)
    }

    /// A member's distribution, as [`super::OpenAi`] has it.
    pub(super) fn state(&self, at: usize) -> Result<State> {
        let Climb { middle, first, second, steps, report, .. } = &self.climb.2;
        let (Sizes { parameters, padded, .. }, stream) = (self.sizes, &self.stream);
        let own = |of: &Array<f32>| -> Result<Vec<f32>> {
            let mut own = of.part(at * padded, padded)?.get(stream)?;
            own.truncate(parameters);
            Ok(own)
        };
        let (step, moved) = (steps.part(at, 1)?.get(stream)?[0], report.part(at * REPORT + 1, 1)?.get(stream)?[0]);
        Ok(State { numbers: vec![f64::from(step), moved], arrays: vec![own(middle)?, own(first)?, own(second)?] })
    }

    /// Sets a member's distribution, its unit, and whether it goes on; false where it is no such state.
    pub(super) fn put(&self, at: usize, state: &State, unit: u32, active: bool) -> Result<bool> {
        let Climb { middle, first, second, steps, report, .. } = &self.climb.2;
        let (Sizes { parameters, padded, .. }, stream) = (self.sizes, &self.stream);
        let ([step, moved], [a, b, c]) = (&state.numbers[..], &state.arrays[..]) else { return Ok(false) };
        if [a, b, c].iter().any(|own| own.len() != parameters) {
            return Ok(false);
        }
        for (to, from) in [(middle, a), (first, b), (second, c)] {
            to.part(at * padded, parameters)?.put(stream, from)?;
        }
        steps.part(at, 1)?.put(stream, &[*step as u32])?;
        self.search.unit.part(at, 1)?.put(stream, &[unit])?;
        self.search.active.part(at, 1)?.put(stream, &[u32::from(active)])?;
        report.part(at * REPORT, REPORT)?.put(stream, &[f64::from(unit), *moved, 0.0])?;
        Ok(true)
    }

    /// A member stays where it is.
    pub(super) fn stop(&self, at: usize) -> Result<()> {
        self.search.active.part(at, 1)?.put(&self.stream, &[0])
    }
}

fn searches(
    slab: &mut Slab,
    stream: &Stream,
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
    Ok(Searches {
        id: put(slab, stream, &words(&|key| key.id()))?,
        fold: put(slab, stream, &words(&|key| key.fold as u32))?,
        unit: zeros(slab, stream, sizes.p)?,
        active: zeros(slab, stream, sizes.p)?,
        sigma: put(slab, stream, &floats(&|key| of(key).sigma))?,
        fitness: put(slab, stream, &words(&measure))?,
        penalty: put(slab, stream, &floats(&penalty))?,
        seed: evolve.spec.configs[kind].recipe.seed,
        parameters: counted(sizes.parameters)?,
        padded: counted(sizes.padded)?,
        draws: counted(sizes.draws)?,
        accounts: hypers.n_envs,
        steps: hypers.n_steps,
        actions: match hypers.actions {
            Actions::Discrete => 0,
            Actions::Continuous => 1,
        },
        outputs: stack.outputs() as u32,
        features: shape.features as u32,
        column: shape.column as u32,
        act: [stack.layers[0].activation as u32, stack.layers[1].activation as u32],
    })
}

/// `[P, features]` what is subtracted from columns of the table, and what they are then multiplied by.
fn scales(evolve: &Evolve, kind: usize, keys: &[MemberKey], features: usize) -> (Vec<f32>, Vec<f32>) {
    let net = &evolve.spec.configs[kind].net;
    let usual = || Scale { mean: vec![0.0; features], inverse: vec![1.0; features] };
    let own = |key: &MemberKey| evolve.folds.scales(net, key.fold).first().cloned().flatten().unwrap_or_else(usual);
    let all: Vec<Scale> = keys.iter().map(own).collect();
    let (mean, inverse) = (all.iter().map(|s| s.mean.to_vec()), all.iter().map(|s| s.inverse.to_vec()));
    (mean.flatten().collect(), inverse.flatten().collect())
}

fn put<T: Plain>(slab: &mut Slab, stream: &Stream, from: &[T]) -> Result<Array<T>> {
    let made = slab.array(from.len())?;
    made.put(stream, from)?;
    Ok(made)
}

fn zeros<T: Plain>(slab: &mut Slab, stream: &Stream, len: usize) -> Result<Array<T>> {
    let made = slab.array(len)?;
    made.fill(stream, 0)?;
    Ok(made)
}

fn counted(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::Invalid(format!("{n} numbers at once; at most {} are possible", u32::MAX)))
}
