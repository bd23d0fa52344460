//! A layer over a market: every symbol, all cores, each bar read once.
//!
//! Runs of similar length go side by side in lanes; a few long ones are each cut into segments that do
//! (`segmented_run`). No choice made here changes a bit.

use crate::context::MarketColumn;
use crate::engine::{Engine, State};
use crate::graph::{Graph, Id};
use crate::inputs::{Slow, inputs};
use crate::ops::{LARGEST, Sums, all_finite, bounded};
use crate::plan::Layer;
use crate::row_writer::{RowWriter, RowsOut};
use crate::segmented_run::SegmentedRun;
use crate::simd;
use crate::table::{Feature, Table};
use crate::values::room;
use bars::{Bars, Timeframe};
use files::{Error, Kind, Result};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// How the work is done; none of it changes a result.
pub(crate) struct Pace<'a> {
    pub(crate) threads: usize,
    /// Told how many rows were done since it was told last.
    pub(crate) progress: &'a (dyn Fn(usize) + Sync),
    /// Says when to stop.
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
}

/// What a symbol sees of slower timeframes.
pub(crate) type Slower<'a> = dyn Fn(usize) -> Vec<Slow<'a>> + Sync + 'a;

/// Bars a node works on at once: so many that calling it costs little, so few that all buffers stay in the second-level
/// cache.
const BLOCK: [usize; 2] = [512, 128]; // one lane, many lanes
/// And while columns warm up: a block with a missing value takes the long way, so these end soon.
const WARMING: usize = 32;

/// What is computed, and into which columns.
pub(crate) struct Job<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) ids: &'a [Id],
    pub(crate) columns: &'a [Feature],
    pub(crate) stride: usize,
    /// Input columns from here on were computed by us: they are taken as they are.
    pub(crate) given: usize,
    /// Sums without end, which a lane that begins later is told.
    pub(crate) sums: &'a [Id],
}

/// One run of one symbol, or a stretch of it, and where its rows go.
pub(crate) struct Lane<'a> {
    pub(crate) inputs: &'a [Cow<'a, [f64]>],
    /// Its first bar in its symbol.
    pub(crate) from: usize,
    pub(crate) bars: usize,
    /// Bars of its run that are left out before it.
    pub(crate) before: usize,
    /// Bars at the beginning that have no row here.
    pub(crate) warm: usize,
    /// What the sums without end are before its first row, as soon as somebody has added them up that far.
    pub(crate) sums: Option<&'a OnceLock<Vec<u64>>>,
    pub(crate) out: RowsOut<'a>,
    /// `[F]` values that were missing.
    pub(crate) missing: Vec<u64>,
    /// What it remembers before its first row, and after its last; kept where there are bars without a row.
    pub(crate) seams: [Vec<u64>; 2],
}

/// The table of a layer, into which the market and its runs are still to be moved. `market_columns` is `[S]`, empty
/// where no feature looks at the market.
#[expect(clippy::too_many_arguments, reason = "all that a table is made of, once")]
pub(crate) fn compute_table(
    layer: &Layer,
    timeframe: Timeframe,
    market: &[Bars],
    runs: &[Vec<Range<usize>>],
    slower: &Slower<'_>,
    market_columns: &[Vec<MarketColumn>],
    pace: &Pace<'_>,
    spare: Option<Table>,
) -> Result<Table> {
    let wanted: Vec<Id> = layer.outputs.iter().map(|o| o.id).collect();
    let (graph, ids) = layer.graph.part(&wanted);
    let columns: Vec<Feature> = layer.outputs.iter().map(|o| Feature::new(o, layer, Some(timeframe))).collect();
    let (stride, words) = (columns.len().next_multiple_of(4), columns.len().div_ceil(64));
    let mut offsets = vec![0];
    for bars in market {
        offsets.push(offsets[offsets.len() - 1] + bars.len());
    }
    let rows = offsets[market.len()];
    let (values, valid, settled) = spare.map_or_else(Default::default, |t| (t.values, t.valid, t.settled));
    let mut table = Table {
        timeframe,
        columns,
        stride,
        market: Vec::new(),
        offsets,
        runs: Vec::new(),
        // Every value and every mark is written, padding too.
        values: values.resized(rows * stride),
        valid: room(valid, rows * words),
        settled: room(settled, rows),
    };
    let each = market.par_iter().enumerate().map(|(s, bars)| {
        let market_columns = market_columns.get(s).map_or(&[][..], Vec::as_slice);
        inputs(layer, bars, &slower(s), market_columns)
    });
    let all: Vec<Vec<Cow<'_, [f64]>>> = each.collect::<Result<_>>()?;

    // Every run with its own piece of the table.
    let (mut values, mut valid, mut settled) = (&mut table.values[..], &mut table.valid[..], &mut table.settled[..]);
    let mut lanes = Vec::new();
    for (inputs, runs) in all.iter().zip(runs) {
        for run in runs {
            let bars = run.len();
            let (v, rest) = std::mem::take(&mut values).split_at_mut(bars * stride);
            values = rest;
            let (b, rest) = std::mem::take(&mut valid).split_at_mut(bars * words);
            valid = rest;
            let (s, rest) = std::mem::take(&mut settled).split_at_mut(bars);
            settled = rest;
            lanes.push(Lane::new(inputs, run.start, bars, RowsOut { values: v, valid: b, settled: s }));
        }
    }
    let job = Job { graph: &graph, ids: &ids, columns: &table.columns, stride, given: layer.columns.len(), sums: &[] };
    let invalid = fill_lanes(&job, lanes, pace)?;
    table.columns.iter_mut().zip(invalid).for_each(|(c, n)| c.invalid = n);
    drop(all);
    Ok(table)
}

/// Fills the rows of all lanes; gives the number of missing values of each column.
fn fill_lanes(job: &Job<'_>, mut lanes: Vec<Lane<'_>>, pace: &Pace<'_>) -> Result<Vec<u64>> {
    // Runs of similar length side by side, the longest first.
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane.bars));
    let mut total = vec![0; job.columns.len()];
    // The longest may be quicker as segments that go side by side, one run after another.
    let lengths: Vec<usize> = lanes.iter().map(|lane| lane.bars).collect();
    let mut alone: Vec<SegmentedRun> =
        lengths.iter().take(8 * pace.threads).map_while(|bars| SegmentedRun::new(job, *bars, pace.threads)).collect();
    let time =
        |n: usize| alone[..n].iter().map(SegmentedRun::time).sum::<f64>() + choose_width(&lengths[n..], pace.threads).1;
    let best = (0..=alone.len()).min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(0);
    alone.truncate(best);
    let side_by_side = choose_width(&lengths[alone.len()..], pace.threads).0;
    let together = lanes.split_off(alone.len());
    for (segmented, lane) in alone.iter().zip(lanes) {
        add_counts(&mut total, &segmented.run(job, lane, pace)?.0);
    }
    let mut groups: Vec<Vec<Lane<'_>>> = Vec::new();
    let mut together = together.into_iter().peekable();
    while together.peek().is_some() {
        groups.push(together.by_ref().take(side_by_side).collect());
    }
    match side_by_side {
        1 => run_groups::<1>(job, &mut groups, pace)?,
        4 => run_groups::<4>(job, &mut groups, pace)?,
        _ => run_groups::<8>(job, &mut groups, pace)?,
    }
    groups.iter().flatten().for_each(|lane| add_counts(&mut total, &lane.missing));
    Ok(total)
}

/// Shares groups of lanes out over the threads: one at a time from the longest on, so that no core is left with the
/// longest at the end.
fn run_groups<const W: usize>(job: &Job<'_>, groups: &mut [Vec<Lane<'_>>], pace: &Pace<'_>) -> Result<()> {
    let workers = pace.threads.min(groups.len());
    let queue = Mutex::new(groups.iter_mut());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    (0..workers).into_par_iter().with_max_len(1).try_for_each(|_| {
        let mut group = next();
        let mut worker = group.is_some().then(|| LaneWorker::<W>::new(job));
        let fresh = worker.as_mut().map(LaneWorker::memory).unwrap_or_default();
        while let (Some(lanes), Some(worker)) = (group, &mut worker) {
            worker.run(job, lanes, false, pace)?;
            group = next();
            if group.is_some() {
                worker.clear(&fresh);
            }
        }
        Ok(())
    })
}

pub(crate) fn add_counts(total: &mut [u64], more: &[u64]) {
    total.iter_mut().zip(more).for_each(|(t, m)| *t += m);
}

/// Lanes side by side, and what a bar of all of them costs, measured: eight lanes cost less than three times one.
const PRICE: [(usize, f64); 3] = [(1, 1.0), (4, 1.6), (8, 2.4)];

/// How many lanes side by side take the least time, and that time in bars of one lane: lengths, longest first.
fn choose_width(lengths: &[usize], threads: usize) -> (usize, f64) {
    let cost = |width: usize, price: f64| {
        let groups: Vec<f64> = lengths.chunks(width).map(|g| g[0] as f64 * price).collect();
        let total: f64 = groups.iter().sum();
        (total / threads as f64).max(groups.first().copied().unwrap_or(0.0))
    };
    let best = PRICE.into_iter().map(|(w, p)| (w, cost(w, p)));
    best.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1, 0.0))
}

impl<'a> Lane<'a> {
    pub(crate) fn new(inputs: &'a [Cow<'a, [f64]>], from: usize, bars: usize, out: RowsOut<'a>) -> Lane<'a> {
        Lane { inputs, from, bars, before: 0, warm: 0, sums: None, out, missing: Vec::new(), seams: Default::default() }
    }
}

/// Up to `W` lanes side by side; `memory` is what a single one begins with.
pub(crate) fn run_side_by_side<const W: usize>(
    job: &Job<'_>,
    lanes: &mut [Lane<'_>],
    memory: Option<&[u64]>,
    pace: &Pace<'_>,
) -> Result<()> {
    let mut worker = LaneWorker::<W>::new(job);
    if let Some(words) = memory {
        let mut state = State::Give { lane: 0, words };
        worker.engine.state(&mut state);
        worker.writer.state(&mut state);
    }
    worker.run(job, lanes, memory.is_some(), pace)
}

/// What a group of lanes is worked on with. It serves one group after another: to make it takes as long as a hundred
/// bars.
struct LaneWorker<const W: usize> {
    engine: Engine<W>,
    writer: RowWriter<W>,
}

impl<const W: usize> LaneWorker<W> {
    fn new(job: &Job<'_>) -> LaneWorker<W> {
        let engine = Engine::with_outputs(job.graph, BLOCK[usize::from(W > 1)], job.ids);
        LaneWorker { engine, writer: RowWriter::new(job.columns, job.stride) }
    }

    /// What its engine remembers.
    fn memory(&mut self) -> Vec<u64> {
        let mut words = Vec::new();
        self.engine.state(&mut State::Save(&mut words));
        words
    }

    /// Begins anew; `fresh` is what its engine remembered before the first bar.
    fn clear(&mut self, fresh: &[u64]) {
        self.engine.state(&mut State::Load { words: fresh, short: false });
        self.writer.clear();
    }

    /// Fills the rows of these lanes; `seams` says whether what they remember at their end is asked for.
    fn run(&mut self, job: &Job<'_>, lanes: &mut [Lane<'_>], seams: bool, pace: &Pace<'_>) -> Result<()> {
        let LaneWorker { engine, writer } = self;
        let block = BLOCK[usize::from(W > 1)];
        let warming = job.columns.iter().map(|c| c.first_valid).max().unwrap_or(0);
        let longest = lanes.iter().map(|lane| lane.bars).max().unwrap_or(0);
        let warm = lanes.iter().map(|lane| lane.warm).max().unwrap_or(0);
        // Rows before a lane's first go where nobody reads them.
        let mut warm_up_rows = vec![ScratchRows::default(); if warm > 0 { W } else { 0 }];
        warm_up_rows.iter_mut().for_each(|scratch| scratch.resize(block, job));
        let mut at = 0;
        while at < longest {
            if (pace.stop)() {
                return Err(interrupted());
            }
            let bars =
                if at < warming && W > 1 { WARMING } else { block }.min(if at < warm { warm } else { longest } - at);
            engine.run(bars, &mut |column, place| read_inputs(column, place, lanes, at, column < job.given));
            let block_of = |id: &Id| (engine.block(id.index(), bars).0, engine.finite_rows(id.index(), bars));
            let read: Vec<(&[[f64; W]], usize)> = job.ids.iter().map(block_of).collect();
            let mut warm_up_rows = warm_up_rows.iter_mut();
            let outs = lanes.iter_mut().map(|lane| {
                let scratch = warm_up_rows.next();
                match scratch {
                    Some(scratch) if at < lane.warm => scratch.out(bars),
                    _ => {
                        let end = (at + bars).min(lane.bars).max(lane.warm);
                        lane.out.part(at.min(end) - lane.warm, end - lane.warm)
                    }
                }
            });
            writer.write_rows(&read, bars, &mut outs.collect::<Vec<_>>());
            at += bars;
            if at == warm {
                for (l, lane) in lanes.iter_mut().enumerate() {
                    if lane.warm > 0 {
                        let words = lane.sums.map_or(&[][..], |sums| sums.wait());
                        let mut state = State::Give { lane: l, words };
                        job.sums.iter().for_each(|id| engine.state_of(id.index(), &mut state));
                        writer.begin_lane(l, lane.warm, lane.before + lane.warm);
                        lane.seams[0] = lane_state(engine, writer, l);
                    }
                }
            }
        }
        for (l, lane) in lanes.iter_mut().enumerate() {
            lane.missing = writer.invalid.iter().map(|missing| missing[l]).collect();
            if warm > 0 || seams {
                lane.seams[1] = lane_state(engine, writer, l);
            }
        }
        (pace.progress)(lanes.iter().map(|lane| lane.bars - lane.warm).sum());
        Ok(())
    }
}

/// All that a lane's future depends on.
fn lane_state<const W: usize>(engine: &mut Engine<W>, writer: &mut RowWriter<W>, lane: usize) -> Vec<u64> {
    let mut words = Vec::new();
    engine.state(&mut State::Take { lane, words: &mut words });
    writer.state(&mut State::Take { lane, words: &mut words });
    words
}

/// Rows that nobody reads.
#[derive(Clone, Default)]
struct ScratchRows {
    values: Vec<f32>,
    valid: Vec<u64>,
    settled: Vec<bool>,
}

impl ScratchRows {
    fn resize(&mut self, rows: usize, job: &Job<'_>) {
        self.values.resize(rows * job.stride, 0.0);
        self.valid.resize(rows * job.columns.len().div_ceil(64), 0);
        self.settled.resize(rows, false);
    }

    fn out(&mut self, rows: usize) -> RowsOut<'_> {
        RowsOut { values: &mut self.values, valid: &mut self.valid, settled: &mut self.settled }.split(rows).0
    }
}

/// Fills a block of an input column; a lane that has ended repeats its last bar, one that never was repeats the first
/// lane. A column from outside is freed of what is too large.
fn read_inputs<const W: usize>(
    column: usize,
    place: &mut [[f64; W]],
    lanes: &[Lane<'_>],
    at: usize,
    from_outside: bool,
) -> bool {
    let runs: [&[f64]; W] = std::array::from_fn(|l| {
        let lane = lanes.get(l).unwrap_or(&lanes[0]);
        &lane.inputs[column][lane.from..lane.from + lane.bars]
    });
    let whole = runs.iter().map(|run| run.len().saturating_sub(at)).min().unwrap_or(0).min(place.len());
    let most = if from_outside { LARGEST } else { f64::MAX };
    let fine = simd::side_by_side(&runs, at, &mut place[..whole], most);
    if W > 1 {
        simd::prefetch(&runs, at + place.len(), place.len());
    }
    for (t, row) in place.iter_mut().enumerate().skip(whole) {
        for (value, run) in row.iter_mut().zip(runs) {
            *value = run[(at + t).min(run.len() - 1)];
        }
    }
    match (fine && whole == place.len(), from_outside) {
        (true, _) => true,
        (false, true) => bounded(place),
        (false, false) => all_finite(place),
    }
}

pub(crate) fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted; no table was written")
}

/// Nodes of a graph over one symbol, in full precision: `[ids][rows]`, NaN where there is no value.
pub(crate) fn compute_columns(
    graph: &Graph,
    ids: &[Id],
    inputs: &[Cow<'_, [f64]>],
    runs: &[Range<usize>],
) -> Vec<Vec<f64>> {
    let rows = runs.last().map_or(0, |run| run.end);
    let (graph, ids) = graph.part(ids);
    let mut made: Vec<Vec<f64>> = ids.iter().map(|_| Vec::with_capacity(rows)).collect();
    for run in runs {
        made.iter_mut().for_each(|made| made.resize(run.start, f64::NAN));
        let mut engine = Engine::<1>::with_outputs(&graph, BLOCK[0], &ids);
        let mut at = run.start;
        while at < run.end {
            let bars = BLOCK[0].min(run.end - at);
            engine.run(bars, &mut |column, place| {
                simd::side_by_side(&[&inputs[column]], at, place, LARGEST) || bounded(place)
            });
            for (made, id) in made.iter_mut().zip(&ids) {
                made.extend_from_slice(engine.block(id.index(), bars).0.as_flattened());
            }
            at += bars;
        }
    }
    made
}

/// Adds up sums without end over one symbol, from its bar `from` on: what they remember before each of these bars,
/// which rise, goes to the place warm_up_rows it.
pub(crate) fn add_up_sums<'p>(
    graph: &Graph,
    sums: &[Id],
    inputs: &[Cow<'_, [f64]>],
    from: usize,
    told: impl Iterator<Item = (usize, &'p OnceLock<Vec<u64>>)>,
) {
    let args: Vec<Id> = sums.iter().map(|id| graph.node(*id).args[0]).collect();
    let (graph, args) = graph.part(&args);
    let mut engine = Engine::<1>::with_outputs(&graph, BLOCK[0], &args);
    let mut sums: Vec<(&[Id], Sums)> = args.chunks(Sums::MOST).map(|args| (args, Sums::new())).collect();
    let mut at = 0;
    for (before, place) in told {
        while at < before {
            let bars = BLOCK[0].min(before - at);
            engine.run(bars, &mut |column, place| {
                simd::side_by_side(&[&inputs[column]], from + at, place, LARGEST) || bounded(place)
            });
            for (args, sums) in &mut sums {
                let blocks = args.iter().map(|id| engine.block(id.index(), bars));
                let (x, clean): (Vec<&[f64]>, Vec<bool>) = blocks.map(|(x, clean)| (x.as_flattened(), clean)).unzip();
                sums.add(&x, clean.iter().all(|clean| *clean));
            }
            at += bars;
        }
        let mut words = Vec::new();
        sums.iter_mut().for_each(|(args, sums)| sums.state(args.len(), &mut words));
        let _ = place.set(words);
    }
}

#[cfg(test)]
pub(crate) mod tests;
