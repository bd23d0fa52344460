//! Individuals on accounts: perturb, decide, step.
//!
//! A task is one draw, or a few where individuals share their weights: its individuals (two where draws are mirrored)
//! trade the same spans side by side, `accounts` each, in one worker on one thread. A worker's memory is taken once; a
//! task allocates nothing. Spans are a function of seed, member, generation and account, so all individuals of a
//! generation see the same bars: what is left between two of them is the difference of their policies.

use super::fitness::Tally;
use super::low_rank_simd::{self, Base};
use super::stack::{LANES, Line, Stack, ZEROS};
use super::stack_simd::{floats, forward};
use super::strategy::{Normals, Strategy};
use super::{Fitness, Hypers};
use crate::ppo::{Actions, continuous_target};
use account::{Accounts, Orders, Params};
use compute::population::Scale;
use compute::random::{Stream, philox};
use compute::{Net, Tables};
use market::{EpisodeData, OBSERVED, count_starts};
use std::ops::Range;
use std::sync::Arc;

/// Where the accounts of a generation trade.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spans {
    /// `[accounts]` the row at whose close each decides first.
    first: Vec<u32>,
    /// `[accounts]` its steps: fewer where its stretch is shorter.
    steps: Vec<u32>,
    /// `[accounts]` the symbol it trades.
    symbols: Vec<usize>,
}

impl Spans {
    /// Draws the spans of a generation: starts are equally likely wherever a whole span fits, and a shorter stretch
    /// has one.
    pub(super) fn draw(
        &mut self,
        data: &EpisodeData,
        stretches: &[Range<u32>],
        hypers: &Hypers,
        seed: u64,
        [member, generation]: [u32; 2],
    ) {
        let starts = count_starts(stretches, hypers.n_steps);
        let all = starts[starts.len() - 1];
        self.first.clear();
        self.steps.clear();
        self.symbols.clear();
        for account in 0..hypers.n_envs {
            let [low, high, ..] = philox(seed, [account, generation, Stream::Start as u32, member]);
            let draw = u64::from(low) | u64::from(high) << 32;
            let at = ((u128::from(draw) * u128::from(all)) >> 64) as u64;
            let place = starts.partition_point(|upto| *upto <= at);
            let before = if place == 0 { 0 } else { starts[place - 1] };
            let first = stretches[place].start + (at - before) as u32;
            self.first.push(first);
            self.steps.push(hypers.n_steps.min(stretches[place].end - 1 - first));
            self.symbols.push(data.symbol(first));
        }
    }

    /// Steps of all accounts of an individual.
    pub(super) fn all(&self) -> u64 {
        self.steps.iter().map(|steps| u64::from(*steps)).sum()
    }
}

/// What the individuals of a member trade on.
#[derive(Clone, Copy)]
pub(super) struct Course<'a> {
    pub(super) data: &'a EpisodeData,
    pub(super) tables: &'a Tables,
    pub(super) stack: &'a Stack,
    pub(super) net: &'a Net,
    pub(super) scales: &'a [Option<Scale>],
    /// The weights of the middle, where individuals share them.
    pub(super) base: &'a [Line],
    pub(super) spans: &'a Spans,
    pub(super) actions: Actions,
    pub(super) fitness: Fitness,
}

/// Memory of one thread.
pub(super) struct Worker {
    accounts: Accounts,
    /// Normals of a draw, and `[parameters]` an individual's parameters.
    z: Vec<f32>,
    x: Vec<f32>,
    /// `[sides]` weights of its individuals; none where they share them.
    weights: Vec<Vec<Line>>,
    /// `[draws]` their factors, where there are any.
    factors: Vec<Vec<Line>>,
    /// `[individuals]` memory of a pass; the first holds `[accounts]` inputs in whole lines.
    values: Vec<[Vec<Line>; 2]>,
    /// `[accounts]` what is legal now: bits of short, flat and long.
    legal: Vec<u8>,
    /// `[individuals, accounts]`
    rows: Vec<u32>,
    targets: Vec<f64>,
    rewards: Vec<f64>,
    tallies: Vec<Tally>,
    /// `[steps]` logarithm of so many bars held.
    log_held: Vec<f32>,
}

impl Worker {
    /// For tasks of so many draws.
    pub(super) fn new(data: &Arc<EpisodeData>, stack: &Stack, hypers: &Hypers, draws: usize) -> Worker {
        let (n, params) = (hypers.n_envs as usize, data.table().params[0]);
        let (sides, factors) = (hypers.algorithm.sides(), hypers.factors(stack));
        let lanes = draws * sides * n;
        let values = || [vec![ZEROS; n * stack.widest()], vec![ZEROS; n * stack.widest()]];
        Worker {
            accounts: Accounts::new(&vec![params; lanes]).with_rewards(),
            z: vec![0.0; hypers.numbers(stack)],
            x: vec![0.0; if factors.is_some() { 0 } else { stack.parameters }],
            weights: vec![vec![ZEROS; stack.lines]; if factors.is_some() { 0 } else { sides }],
            factors: factors.map_or_else(Vec::new, |own| vec![vec![ZEROS; own.lines]; draws]),
            values: (0..draws * sides).map(|_| values()).collect(),
            legal: vec![0; n],
            rows: vec![0; lanes],
            targets: vec![0.0; lanes],
            rewards: vec![0.0; lanes],
            tallies: vec![Tally::default(); lanes],
            log_held: (0..=hypers.n_steps).map(|bars| account::ln_1p(f64::from(bars)) as f32).collect(),
        }
    }

    /// Bytes of a worker, about.
    pub(super) fn bytes(stack: &Stack, hypers: &Hypers, draws: usize) -> u64 {
        let sides = hypers.algorithm.sides();
        let account = std::mem::size_of::<Params>() + 64 * 8 + 2 * 64 * stack.widest() + 64;
        let weights = match hypers.factors(stack) {
            Some(factors) => draws * 64 * factors.lines + 4 * hypers.numbers(stack),
            None => sides * 64 * stack.lines + 8 * stack.parameters,
        };
        (draws * sides * hypers.n_envs as usize * account + weights) as u64 + 4 * u64::from(hypers.n_steps)
    }

    /// `[draws, sides]` how fit the individuals of some draws are, the first of them behind each other.
    pub(super) fn run(
        &mut self,
        course: &Course<'_>,
        strategy: &dyn Strategy,
        normals: &dyn Normals,
        draws: Range<u32>,
        mut fitness: impl FnMut(usize, f64),
    ) {
        let sides = draws.len() * strategy.sides();
        self.make(course, strategy, normals, draws);
        let n = course.spans.first.len();
        self.begin(course, sides);
        let longest = course.spans.steps.iter().copied().max().unwrap_or(0);
        for t in 0..longest {
            self.look(course, t, sides);
            let shared = self.pass(course, strategy, sides, n);
            for (side, values) in self.values[..sides].iter_mut().enumerate() {
                let last = match self.weights.get(side) {
                    Some(weights) => forward(course.stack, weights, values, n),
                    None => shared,
                };
                let out = values[last].chunks_exact(course.stack.outputs().div_ceil(LANES));
                let targets = &mut self.targets[side * n..(side + 1) * n];
                for ((target, out), legal) in targets.iter_mut().zip(out).zip(&self.legal) {
                    *target = preferred(course.actions, &out[0].0, *legal);
                }
            }
            self.accounts.step_each(Orders::targets(&self.targets), &course.data.table().bars, &self.rows);
            self.accounts.rewards(&mut self.rewards);
            for (at, (tally, growth)) in self.tallies.iter_mut().zip(&self.rewards).enumerate() {
                // Whose span is over waits at its last bar, and what happens to it no longer counts.
                if t < course.spans.steps[at % n] {
                    tally.add(*growth);
                }
            }
        }
        let steps = course.spans.all();
        for (side, tallies) in self.tallies.chunks_exact(n).take(sides).enumerate() {
            fitness(side, course.fitness.of(tallies, steps));
        }
    }

    /// Makes the individuals of some draws, or what they differ by.
    fn make(&mut self, course: &Course<'_>, strategy: &dyn Strategy, normals: &dyn Normals, draws: Range<u32>) {
        if let Some((factors, _)) = strategy.factors() {
            for (draw, laid) in draws.zip(&mut self.factors) {
                normals.fill(draw, 0, &mut self.z);
                factors.lay(&self.z, laid);
            }
            return;
        }
        normals.fill(draws.start, 0, &mut self.z);
        for (side, weights) in [1.0, -1.0].into_iter().zip(&mut self.weights) {
            strategy.ask(side, 0, &self.z, &mut self.x);
            course.stack.lay(&self.x, weights);
        }
    }

    /// The nets of all individuals where they share their weights; which of their values are the outputs.
    fn pass(&mut self, course: &Course<'_>, strategy: &dyn Strategy, individuals: usize, rows: usize) -> usize {
        let Some((factors, sigma)) = strategy.factors() else { return 0 };
        let base = Base { weights: course.base, factors, sigma };
        low_rank_simd::forward(course.stack, base, &self.factors, &mut self.values[..individuals], rows)
    }

    /// New accounts at the beginning of their spans.
    fn begin(&mut self, course: &Course<'_>, sides: usize) {
        let n = course.spans.first.len();
        for at in 0..sides * n {
            self.accounts.replace(at, &course.data.table().params[course.spans.symbols[at % n]]);
        }
        self.tallies.fill(Tally::default());
    }

    /// Puts what is seen at step `t` into the inputs of all individuals: the row of the table is the same for all, the
    /// account is each one's own.
    fn look(&mut self, course: &Course<'_>, t: u32, sides: usize) {
        let Course { data, tables, net, scales, spans, stack, .. } = *course;
        let (n, params) = (spans.first.len(), &data.table().params);
        let wide = stack.inputs().div_ceil(LANES) * LANES;
        for account in 0..n {
            let row = spans.first[account] + t.min(spans.steps[account] - 1);
            let legal = data.legal(&params[spans.symbols[account]], row as usize);
            self.legal[account] = u8::from(legal[0]) | u8::from(legal[1]) << 1 | u8::from(legal[2]) << 2;
            for side in 0..sides {
                self.rows[side * n + account] = row;
            }
        }
        let (first, others) = self.values[..sides].split_at_mut(1);
        let first = floats(&mut first[0][0]);
        let mut at = 0;
        for (i, input) in net.inputs.iter().enumerate() {
            let table = net.table_of(i).and_then(|own| Some((own, tables.table(own)?)));
            for account in 0..n {
                let (row, own) = (self.rows[account], account * wide + at..account * wide + at + input.features);
                if let Some((table_of, table)) = &table {
                    let from = tables.row(*table_of, row) as usize * table.stride;
                    let from = &table.values[from..from + input.features];
                    gather(from, scales[i].as_ref(), &mut first[own.clone()]);
                    for other in &mut *others {
                        floats(&mut other[0])[own.clone()].copy_from_slice(&first[own.clone()]);
                    }
                    continue;
                }
                for side in 0..sides {
                    let holding = self.accounts.holding(side * n + account);
                    let held = self.log_held.get(holding.bars_held as usize).copied().unwrap_or(0.0);
                    let shown = data.observe_held(&params[spans.symbols[account]], &holding, row as usize, held);
                    let to = match side {
                        0 => &mut *first,
                        side => floats(&mut others[side - 1][0]),
                    };
                    to[own.start..own.start + OBSERVED].copy_from_slice(&shown);
                }
            }
            at += input.features;
        }
    }
}

/// Columns of a row, scaled.
#[inline]
fn gather(from: &[f32], scale: Option<&Scale>, to: &mut [f32]) {
    match scale {
        Some(Scale { mean, inverse }) => {
            let scaled = from.iter().zip(mean.iter().zip(inverse)).map(|(x, (mean, inverse))| (x - mean) * inverse);
            to.iter_mut().zip(scaled).for_each(|(to, x)| *to = x);
        }
        None => to.copy_from_slice(from),
    }
}

/// The target that the outputs of a net prefer: of short, flat and long the largest that is legal, flat where it is as
/// large as another; or the middle of a continuous one.
#[inline]
fn preferred(actions: Actions, z: &[f32; LANES], legal: u8) -> f64 {
    match actions {
        Actions::Discrete => {
            let mut best = 1;
            for a in [0, 2] {
                if legal >> a & 1 == 1 && z[a] > z[best] {
                    best = a;
                }
            }
            best as f64 - 1.0
        }
        Actions::Continuous => continuous_target(z[0], legal),
    }
}
