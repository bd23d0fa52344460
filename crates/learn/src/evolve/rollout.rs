//! Individuals on accounts: perturb, decide, step.
//!
//! A task is a few draws: its individuals (two of each draw where draws are mirrored) trade the same spans side by
//! side, `accounts` each, in one worker on one thread. A worker's memory is taken once; a task allocates nothing. Spans
//! are a function of seed, member, generation and account, so all individuals of a generation see the same bars, and
//! what they see alike is made once ([`Views`]): what is left between two of them is the difference of their policies.

use super::bf16_simd;
use super::fitness::Tallies;
use super::fused_simd::prefer_side;
use super::low_rank_simd::{self, Base};
use super::stack::{LANES, Line, Stack, ZEROS};
use super::stack_simd::{Pass, Scratch, Shared, Tiles, as_words, forward, words};
use super::strategy::{Normals, Strategy};
use super::views::{Places, Sources, Views};
use super::{Fitness, Hypers};
use crate::ppo::{Actions, continuous_target};
use account::{Accounts, GROUP, Params};
use compute::random::{Stream, philox};
use market::{EpisodeData, OWN, count_starts, observe_lanes};
use std::ops::Range;

/// An account's own numbers are whole pairs.
const _: () = assert!(OWN.is_multiple_of(2));

/// Where the accounts of a generation trade.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spans {
    /// `[accounts]` the row at whose close each decides first.
    pub(super) first: Vec<u32>,
    /// `[accounts]` its steps: fewer where its stretch is shorter.
    pub(super) steps: Vec<u32>,
    /// `[accounts]` the symbol it trades.
    pub(super) symbols: Vec<usize>,
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

    /// Steps of the longest span.
    pub(super) fn longest(&self) -> u32 {
        self.steps.iter().copied().max().unwrap_or(0)
    }

    /// Steps of all accounts of an individual.
    pub(super) fn all(&self) -> u64 {
        self.steps.iter().map(|steps| u64::from(*steps)).sum()
    }
}

/// What the individuals of a member trade on.
#[derive(Clone, Copy)]
pub(super) struct Course<'a> {
    pub(super) sources: Sources<'a>,
    pub(super) stack: &'a Stack,
    /// The weights of the middle, where individuals share them.
    pub(super) base: &'a [Line],
    pub(super) spans: &'a Spans,
    pub(super) views: &'a Views,
    pub(super) actions: Actions,
    pub(super) fitness: Fitness,
}

/// Memory of one thread.
pub(super) struct Worker {
    accounts: Accounts,
    /// `[individuals, accounts]` the symbol whose rules each has.
    symbols: Vec<usize>,
    /// Normals of a draw, and `[parameters]` an individual's parameters.
    z: Vec<f32>,
    x: Vec<f32>,
    /// `[individuals]` their weights; none where they share them.
    weights: Vec<Vec<Line>>,
    /// `[draws]` their factors, where there are any.
    factors: Vec<Vec<Line>>,
    /// `[individuals]` memory of a pass.
    values: Vec<[Vec<Line>; 2]>,
    blocks: Box<Scratch>,
    /// `[outputs, individuals, accounts]`, of the individuals that there are.
    out: Vec<f32>,
    /// `[individuals, accounts]` bits of short, flat and long.
    legal: Vec<u8>,
    /// Inputs of a step, where they are not at hand.
    scratch: Vec<Line>,
    /// `[OWN, individuals, accounts]` what accounts are shown of themselves, with room for a whole group; and as words
    /// of the input.
    observed: Vec<f32>,
    shown: Vec<u32>,
    /// `[individuals, accounts]`
    rows: Vec<u32>,
    targets: Vec<f64>,
    rewards: Vec<f64>,
    tallies: Tallies,
    /// `[steps]` logarithm of so many bars held.
    log_held: Vec<f32>,
}

impl Worker {
    /// For tasks of so many draws.
    pub(super) fn new(data: &EpisodeData, stack: &Stack, hypers: &Hypers, draws: usize) -> Worker {
        let (n, params) = (hypers.n_envs as usize, data.table().params[0]);
        let (sides, factors) = (hypers.algorithm.sides(), hypers.factors(stack));
        let lanes = draws * sides * n;
        let values = || [vec![ZEROS; n * stack.widest()], vec![ZEROS; n * stack.widest()]];
        Worker {
            accounts: Accounts::new(&vec![params; lanes]).with_rewards(),
            symbols: vec![usize::MAX; lanes],
            z: vec![0.0; hypers.numbers(stack)],
            x: vec![0.0; if factors.is_some() { 0 } else { stack.parameters }],
            weights: vec![vec![ZEROS; stack.lines]; if factors.is_some() { 0 } else { draws * sides }],
            values: (0..draws * sides).map(|_| values()).collect(),
            blocks: Box::new(Scratch::new()),
            out: vec![0.0; lanes * stack.outputs()],
            legal: vec![0; lanes],
            scratch: vec![ZEROS; Places::new(stack, n, factors.is_some()).all / LANES],
            factors: factors.map_or_else(Vec::new, |own| vec![vec![ZEROS; own.lines]; draws]),
            observed: vec![0.0; OWN * lanes.next_multiple_of(GROUP)],
            shown: vec![0; OWN * lanes.next_multiple_of(GROUP)],
            rows: vec![0; lanes],
            targets: vec![0.0; lanes],
            rewards: vec![0.0; lanes],
            tallies: Tallies::new(lanes),
            log_held: (0..=hypers.n_steps).map(|bars| account::ln_1p(f64::from(bars)) as f32).collect(),
        }
    }

    /// Bytes of a worker, about.
    pub(super) fn bytes(stack: &Stack, hypers: &Hypers, draws: usize) -> u64 {
        let sides = hypers.algorithm.sides();
        let account = std::mem::size_of::<Params>() + 92 * 8 + 2 * 64 * stack.widest() + 4 * stack.words() + 128;
        let weights = match hypers.factors(stack) {
            Some(factors) => draws * 64 * factors.lines + 4 * hypers.numbers(stack),
            None => draws * sides * 64 * stack.lines + 8 * stack.parameters,
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
        let individuals = draws.len() * strategy.sides();
        self.make(course, strategy, normals, draws);
        let n = course.spans.first.len();
        self.begin(course);
        let tiles = self.blocks.hold_tiles(course.stack, n);
        let shortest = course.spans.steps.iter().copied().min().unwrap_or(0);
        for t in 0..course.spans.longest() {
            self.look(course, t as usize);
            self.pass(course, strategy, t as usize, individuals, tiles.as_ref());
            let lanes = individuals * n;
            prefer(course.actions, &self.out, &self.legal[..lanes], &mut self.targets[..lanes]);
            self.accounts.step_placed(&self.targets);
            self.accounts.rewards(&mut self.rewards);
            if t >= shortest {
                // Whose span is over waits at its last bar, and what happens to it no longer counts.
                for rewards in self.rewards.chunks_exact_mut(n) {
                    let over = rewards.iter_mut().zip(&course.spans.steps).filter(|(_, steps)| t >= **steps);
                    over.for_each(|(reward, _)| *reward = 0.0);
                }
            }
            self.tallies.add(&self.rewards);
        }
        let steps = course.spans.all();
        for individual in 0..individuals {
            fitness(individual, course.fitness.of(&self.tallies, individual * n..(individual + 1) * n, steps));
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
        for (draw, weights) in draws.zip(self.weights.chunks_exact_mut(strategy.sides())) {
            normals.fill(draw, 0, &mut self.z);
            for (side, weights) in [1.0, -1.0].into_iter().zip(weights) {
                strategy.ask(side, 0, &self.z, &mut self.x);
                course.stack.lay(&self.x, weights);
            }
        }
    }

    /// The nets of all individuals at step `t`.
    fn pass(
        &mut self,
        course: &Course<'_>,
        strategy: &dyn Strategy,
        t: usize,
        individuals: usize,
        tiles: Option<&Tiles>,
    ) {
        let (stack, rows, views) = (course.stack, course.spans.first.len(), course.views);
        let inputs = as_words(views.inputs(course.sources, stack, t, &mut self.scratch));
        let (own, apart, first) = (&self.shown[..], self.observed.len() / OWN, views.own);
        let count = if views.places.in_pairs { OWN / 2 } else { OWN };
        let values = &mut self.values[..individuals];
        let Some((factors, sigma)) = strategy.factors() else {
            let (weights, scratch, out) = (&self.weights, &mut *self.blocks, &mut self.out);
            let shared = Some(Shared { words: inputs, own, apart, first, count });
            return forward(stack, &mut Pass { weights, shared, values, scratch, tiles, out, rows });
        };
        let row = views.places.row;
        for (individual, values) in values.iter_mut().enumerate() {
            let to = words(&mut values[0]);
            to[..inputs.len()].copy_from_slice(inputs);
            for (k, own) in own.chunks_exact(apart).take(count).enumerate() {
                let own = own[individual * rows..][..rows].iter().enumerate();
                own.for_each(|(account, x)| to[account * row + first + k] = *x);
            }
        }
        let base = Base { weights: course.base, factors, sigma };
        let last = low_rank_simd::forward(stack, base, &self.factors, values, rows);
        let lines = stack.layers[stack.layers.len() - 1].lines;
        for (individual, values) in values.iter().enumerate() {
            for (row, line) in values[last].chunks_exact(lines).take(rows).enumerate() {
                let place = |o: usize| (o * individuals + individual) * rows + row;
                (0..stack.outputs()).for_each(|o| self.out[place(o)] = line[0].0[o]);
            }
        }
    }

    /// New accounts at the beginning of their spans.
    fn begin(&mut self, course: &Course<'_>) {
        let n = course.spans.first.len();
        for (i, own) in self.symbols.iter_mut().enumerate() {
            let symbol = course.spans.symbols[i % n];
            if *own == symbol {
                self.accounts.reset(i);
            } else {
                self.accounts.replace(i, &course.sources.data.table().params[symbol]);
                *own = symbol;
            }
        }
        self.tallies.clear();
    }

    /// Places all accounts at step `t` and makes words of what each is shown of itself.
    fn look(&mut self, course: &Course<'_>, t: usize) {
        let (n, views) = (course.spans.first.len(), course.views);
        let (rows, legal) = (&views.rows[t * n..][..n], &views.legal[t * n..][..n]);
        for (own, own_legal) in self.rows.chunks_exact_mut(n).zip(self.legal.chunks_exact_mut(n)) {
            copy_few(rows, own);
            copy_few(legal, own_legal);
        }
        self.accounts.place(&course.sources.data.table().bars, &self.rows);
        let wide = self.observed.len() / OWN;
        for (group, seen) in self.accounts.seen().enumerate() {
            for (k, shown) in observe_lanes(&seen, &self.log_held).iter().enumerate() {
                self.observed[k * wide + group * GROUP..][..GROUP].copy_from_slice(shown);
            }
        }
        let all = self.shown.chunks_exact_mut(wide);
        if views.places.in_pairs {
            for (two, to) in self.observed.chunks_exact(2 * wide).zip(all) {
                bf16_simd::pair(&two[..wide], &two[wide..], to);
            }
        } else {
            self.observed.chunks_exact(wide).zip(all).for_each(|(x, to)| bits_of(x, to));
        }
    }
}

/// Numbers as words.
fn bits_of(x: &[f32], to: &mut [u32]) {
    x.iter().zip(to).for_each(|(x, to)| *to = x.to_bits());
}

/// Copies what is mostly four, eight or sixteen long: a call takes longer than that.
#[inline(always)]
fn copy_few<T: Copy>(from: &[T], to: &mut [T]) {
    #[inline(always)]
    fn whole<T: Copy, const N: usize>(from: &[T], to: &mut [T]) -> bool {
        let (Ok(from), Ok(to)) = (<&[T; N]>::try_from(from), <&mut [T; N]>::try_from(to)) else { return false };
        *to = *from;
        true
    }
    if !(whole::<T, 4>(from, to) || whole::<T, 8>(from, to) || whole::<T, 16>(from, to)) {
        to.copy_from_slice(from);
    }
}

/// The targets that the outputs of nets prefer, `[outputs, accounts]`: of short, flat and long the largest that is
/// legal, flat where it is as large as another; or the middle of a continuous one.
#[inline]
fn prefer(actions: Actions, out: &[f32], legal: &[u8], targets: &mut [f64]) {
    let n = targets.len();
    match actions {
        Actions::Discrete => {
            let (short, rest) = out.split_at(n);
            let (flat, long) = rest.split_at(n);
            prefer_side(short, flat, &long[..n], legal, targets);
        }
        Actions::Continuous => {
            targets.iter_mut().zip(out).zip(legal).for_each(|((to, u), legal)| *to = continuous_target(*u, *legal));
        }
    }
}
