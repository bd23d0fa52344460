//! A search in rounds: a kernel for all roots, then a pass of their nets, for the roots, for their scenarios and for
//! each simulation. The kernel takes what the net said of the round before, and shows it the next rows.

use super::super::arguments::{Honest, HonestRound, Plain};
use super::super::{ROUNDS, THREADS, counted, put};
use super::{ACTIONS, HONEST, MOST_EACH};
use crate::settings::Settings;
use compute::Result;
use compute::cuda::{Array, Context, Graph, Grid, Kernel, Module, Slab, Stream};
use compute::nets::{Nets, OnCard};
use std::ops::Range;
use std::sync::Arc;

/// Sizes of wide searches whose graphs are kept.
const KEPT: usize = 4;

/// The kernel of a round, with what it reads and writes.
pub(super) struct Rounds {
    kernel: Kernel<HonestRound>,
    given: HonestRound,
    inputs: usize,
}

impl Rounds {
    /// For as many roots as a search has trees, which show at most `rows` rows in a round.
    pub(super) fn new(slab: &mut Slab, stream: &Stream, search: &Honest, rows: usize, inputs: usize) -> Result<Rounds> {
        let given = HonestRound {
            search: search.clone(),
            shown: slab.array(rows * inputs)?,
            logits: slab.array(rows * ACTIONS)?,
            values: slab.array(rows)?,
            ends: slab.array(2 * search.roots as usize)?,
            each: 1,
            round: 0,
        };
        // A net takes all rows of a round, also those of actions that are not legal and of simulations that expand
        // nothing, which nobody writes.
        given.shown.fill(stream, 0)?;
        let kernel = Module::load(stream.context(), &HONEST)?.kernel("honest_round")?;
        Ok(Rounds { kernel, given, inputs })
    }

    /// One round of so many roots, which reads evaluations of the round before.
    fn launch(
        &mut self,
        stream: &Stream,
        round: u32,
        roots: usize,
        (logits, values): (&Array<f32>, &Array<f32>),
    ) -> Result<()> {
        let blocks = stream.context().gpu().multiprocessors as usize;
        let each = roots.div_ceil(blocks).clamp(1, MOST_EACH);
        self.given.search.roots = counted(roots)?;
        (self.given.each, self.given.round) = (each as u32, round);
        (self.given.logits, self.given.values) = (logits.clone(), values.clone());
        let grid = Grid { blocks: [roots.div_ceil(each) as u32, 1, 1], threads: [THREADS, 1, 1], shared: 0 };
        self.kernel.launch(stream, grid, &self.given)
    }
}

/// The last round, which concludes; no pass follows it.
fn last_of(settings: &Settings) -> u32 {
    settings.simulations + 2
}

/// Rows of a root that a round shows.
fn rows_of(settings: &Settings, round: u32) -> usize {
    match round {
        0 => 1,
        1 => ACTIONS * settings.scenarios,
        _ => settings.codes,
    }
}

/// Bytes of a root that passes write, in all sizes whose graphs are kept.
pub(super) fn heads_bytes(settings: &Settings) -> u64 {
    let rows: usize = (0..3).map(|round| rows_of(settings, round)).sum();
    (KEPT * 4 * rows * (ACTIONS + 1)) as u64
}

/// Nets of any width, by graphs of rounds and passes.
pub(super) struct Wide {
    rounds: Rounds,
    pub(super) nets: Nets,
    graphs: Vec<Captured>,
}

/// All rounds of a search with so many roots of each net.
struct Captured {
    roots: usize,
    graphs: Vec<Graph>,
    /// What they write: heads of the roots, of their scenarios and of codes.
    _heads: [Vec<Array<f32>>; 3],
}

impl Wide {
    pub(super) fn new(rounds: Rounds, nets: Nets) -> Wide {
        Wide { rounds, nets, graphs: Vec::new() }
    }

    /// All rounds of a search from `per` roots of each of `nets` nets.
    pub(super) fn search(&mut self, stream: &Stream, settings: &Settings, nets: usize, per: usize) -> Result<()> {
        if self.graphs.iter().all(|own| own.roots != per) {
            let mut heads = |rows: usize| self.nets.head_arrays(per * rows);
            let heads = [heads(1)?, heads(ACTIONS * settings.scenarios)?, heads(settings.codes)?];
            let last = last_of(settings);
            // What is captured has to have run once.
            self.run(stream, settings, nets, per, &heads, 0..last + 1)?;
            stream.wait()?;
            let mut graphs = Vec::new();
            for first in (0..=last).step_by(ROUNDS as usize) {
                let part = first..(first + ROUNDS).min(last + 1);
                graphs.push(stream.capture(|| self.run(stream, settings, nets, per, &heads, part))?);
            }
            if self.graphs.len() >= KEPT {
                self.graphs.remove(0);
            }
            self.graphs.push(Captured { roots: per, graphs, _heads: heads });
        }
        let own = self.graphs.iter().find(|own| own.roots == per);
        own.map_or(Ok(()), |own| own.graphs.iter().try_for_each(|graph| graph.launch(stream)))
    }

    fn run(
        &mut self,
        stream: &Stream,
        settings: &Settings,
        nets: usize,
        per: usize,
        heads: &[Vec<Array<f32>>; 3],
        rounds: Range<u32>,
    ) -> Result<()> {
        for round in rounds {
            // Evaluations of the round before; the first has none.
            let before = &heads[round.saturating_sub(1).min(2) as usize];
            self.rounds.launch(stream, round, nets * per, (&before[0], &before[1]))?;
            if round < last_of(settings) {
                let rows = per * rows_of(settings, round);
                let shown = self.rounds.given.shown.part(0, nets * rows * self.rounds.inputs)?;
                let batch = OnCard { rows, ids: None, extras: Some(&shown) };
                self.nets.forward_on(stream, batch, &heads[round.min(2) as usize])?;
            }
        }
        Ok(())
    }
}

/// One net without layers, in f32: for comparisons.
pub(super) struct PlainNet {
    rounds: Rounds,
    kernel: Kernel<Plain>,
    weights: Array<f32>, // [A + 1, inputs]
}

impl PlainNet {
    pub(super) fn new(rounds: Rounds, context: &Arc<Context>, weights: &[f32]) -> Result<PlainNet> {
        let kernel = Module::load(context, &HONEST)?.kernel("plain_net")?;
        let weights = put(&mut context.slab(4 * weights.len() as u64)?, &Stream::new(context)?, weights)?;
        Ok(PlainNet { rounds, kernel, weights })
    }

    /// All rounds of a search from so many roots.
    pub(super) fn search(&mut self, stream: &Stream, settings: &Settings, roots: usize) -> Result<()> {
        let (logits, values) = (self.rounds.given.logits.clone(), self.rounds.given.values.clone());
        for round in 0..=last_of(settings) {
            self.rounds.launch(stream, round, roots, (&logits, &values))?;
            let rows = roots * rows_of(settings, round);
            let given = Plain {
                shown: self.rounds.given.shown.clone(),
                weights: self.weights.clone(),
                logits: logits.clone(),
                values: values.clone(),
                inputs: self.rounds.inputs as u32,
                rows: counted(rows)?,
            };
            if round < last_of(settings) {
                self.kernel.launch(stream, Grid::row(rows, 128), &given)?;
            }
        }
        Ok(())
    }
}
