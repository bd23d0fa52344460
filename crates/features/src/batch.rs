//! A layer over a market: every symbol, all cores, each bar read once.
//!
//! Runs of similar length go side by side in lanes. Where there are fewer runs than cores, the graph is cut into parts that share
//! little, one a core, and rows are put together stretch by stretch. No choice made here changes a bit.

use crate::emit::{Emit, Out};
use crate::engine::Engine;
use crate::graph::{Graph, Id};
use crate::inputs::{Slow, inputs};
use crate::ops::bounded;
use crate::plan::Layer;
use crate::simd;
use crate::table::{Feature, Table};
use bars::{Bars, Timeframe};
use files::{Error, Kind, Result};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

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

/// Bars a node works on at once: its buffers stay in the first-level caches.
const BLOCK: [usize; 2] = [512, 128]; // one lane, many lanes
/// Rows that are put together at once when the graph is cut into parts.
const STRETCH: usize = 8192;

/// One run of one symbol, and where its rows go.
struct Lane<'a> {
    inputs: &'a [Cow<'a, [f64]>],
    /// First bar of the run in its symbol.
    from: usize,
    bars: usize,
    out: Out<'a>,
}

/// The table of a layer.
pub(crate) fn table(
    layer: &Layer,
    timeframe: Timeframe,
    market: Vec<Bars>,
    runs: Vec<Vec<Range<usize>>>,
    slower: &Slower<'_>,
    pace: &Pace<'_>,
    spare: Vec<f32>,
) -> Result<Table> {
    let wanted: Vec<Id> = layer.outputs.iter().map(|o| o.id).collect();
    let (graph, ids) = layer.graph.part(&wanted);
    let columns: Vec<Feature> = layer.outputs.iter().map(|o| Feature::new(o, layer, Some(timeframe))).collect();
    let (stride, words) = (columns.len().next_multiple_of(4), columns.len().div_ceil(64));
    let mut offsets = vec![0];
    for bars in &market {
        offsets.push(offsets[offsets.len() - 1] + bars.len());
    }
    let rows = offsets[market.len()];
    let mut table = Table {
        timeframe,
        columns,
        stride,
        market: Vec::new(),
        offsets,
        runs: Vec::new(),
        values: cleared(spare, rows * stride),
        valid: vec![0; rows * words],
        settled: vec![false; rows],
    };
    let each = market.par_iter().enumerate().map(|(s, bars)| inputs(layer, bars, &slower(s)));
    let all: Vec<Vec<Cow<'_, [f64]>>> = each.collect::<Result<_>>()?;

    // Every run with its own piece of the table.
    let (mut values, mut valid, mut settled) = (&mut table.values[..], &mut table.valid[..], &mut table.settled[..]);
    let mut lanes = Vec::new();
    for (inputs, runs) in all.iter().zip(&runs) {
        for run in runs {
            let bars = run.len();
            let (v, rest) = std::mem::take(&mut values).split_at_mut(bars * stride);
            values = rest;
            let (b, rest) = std::mem::take(&mut valid).split_at_mut(bars * words);
            valid = rest;
            let (s, rest) = std::mem::take(&mut settled).split_at_mut(bars);
            settled = rest;
            lanes.push(Lane { inputs, from: run.start, bars, out: Out { values: v, valid: b, settled: s } });
        }
    }
    let invalid = fill(&graph, &ids, &table.columns, stride, lanes, pace)?;
    table.columns.iter_mut().zip(invalid).for_each(|(c, n)| c.invalid = n);
    drop(all);
    (table.market, table.runs) = (market, runs);
    Ok(table)
}

/// That many numbers in memory that was used before, as far as it goes: being given fresh memory can cost more than what is computed
/// into it. Every column is written; only the padding has to be zero.
fn cleared(mut spare: Vec<f32>, len: usize) -> Vec<f32> {
    if spare.capacity() < len {
        return vec![0.0; len];
    }
    spare.resize(len, 0.0);
    spare
}

/// Fills the rows of all lanes; gives the number of missing values of each column.
fn fill(
    graph: &Graph,
    ids: &[Id],
    columns: &[Feature],
    stride: usize,
    mut lanes: Vec<Lane<'_>>,
    pace: &Pace<'_>,
) -> Result<Vec<u64>> {
    // Runs of similar length side by side, the longest first.
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane.bars));
    let lengths: Vec<usize> = lanes.iter().map(|lane| lane.bars).collect();
    let side_by_side = widths(&lengths, pace.threads);
    let parts = if side_by_side == 1 { pace.threads / lanes.len().max(1) } else { 1 };
    let counts: Vec<Vec<u64>> = if parts > 1 && !columns.is_empty() && lanes.iter().any(|l| l.bars > STRETCH) {
        let parts = split(graph, ids, parts);
        let mut counts = Vec::new();
        for lane in lanes {
            counts.push(in_parts(&parts, columns, stride, lane, pace)?);
        }
        counts
    } else {
        let mut groups: Vec<Vec<Lane<'_>>> = Vec::new();
        let mut lanes = lanes.into_iter().peekable();
        while lanes.peek().is_some() {
            groups.push(lanes.by_ref().take(side_by_side).collect());
        }
        let run = |group: Vec<Lane<'_>>| match side_by_side {
            1 => side::<1>(graph, ids, columns, stride, group, pace),
            4 => side::<4>(graph, ids, columns, stride, group, pace),
            _ => side::<8>(graph, ids, columns, stride, group, pace),
        };
        // One at a time from the longest on, so that no core is left with the longest at the end.
        groups.into_par_iter().with_max_len(1).map(run).collect::<Result<_>>()?
    };
    let mut total = vec![0; columns.len()];
    for count in counts {
        total.iter_mut().zip(count).for_each(|(t, c)| *t += c);
    }
    Ok(total)
}

/// How many lanes side by side take the least time: lengths, longest first.
fn widths(lengths: &[usize], threads: usize) -> usize {
    // What a bar costs in each width, measured: eight lanes cost less than three times one.
    let cost = |width: usize, price: f64| {
        let groups: Vec<f64> = lengths.chunks(width).map(|g| g[0] as f64 * price).collect();
        let total: f64 = groups.iter().sum();
        (total / threads as f64).max(groups.first().copied().unwrap_or(0.0))
    };
    let best = [(1, 1.0), (4, 1.6), (8, 2.4)].into_iter().map(|(w, p)| (w, cost(w, p)));
    // A single run can be cut by columns instead.
    let best = best.map(|(w, c)| {
        if w == 1 && lengths.len() < threads { (w, c * lengths.len() as f64 / threads as f64) } else { (w, c) }
    });
    best.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(1, |b| b.0)
}

/// Up to `W` runs side by side.
fn side<const W: usize>(
    graph: &Graph,
    ids: &[Id],
    columns: &[Feature],
    stride: usize,
    mut lanes: Vec<Lane<'_>>,
    pace: &Pace<'_>,
) -> Result<Vec<u64>> {
    let block = BLOCK[usize::from(W > 1)];
    let mut engine = Engine::<W>::keeping(graph, block, ids);
    let mut emit = Emit::<W>::new(columns, stride);
    let longest = lanes.iter().map(|lane| lane.bars).max().unwrap_or(0);
    let mut at = 0;
    while at < longest {
        if (pace.stop)() {
            return Err(interrupted());
        }
        let bars = block.min(longest - at);
        engine.run(bars, &mut |column, place| feed(column, place, &lanes, at));
        let read: Vec<(&[[f64; W]], bool)> = ids.iter().map(|id| engine.block(id.index(), bars)).collect();
        let mut outs: Vec<(&mut Out<'_>, usize)> =
            lanes.iter_mut().map(|lane| (&mut lane.out, lane.bars.saturating_sub(at).min(bars))).collect();
        emit.rows(&read, at, bars, &mut outs);
        at += bars;
    }
    (pace.progress)(lanes.iter().map(|lane| lane.bars).sum());
    Ok(emit.invalid)
}

/// Fills a block of an input column; a lane that has ended repeats its last bar, one that never was repeats the first lane.
fn feed<const W: usize>(column: usize, place: &mut [[f64; W]], lanes: &[Lane<'_>], at: usize) -> bool {
    let runs: [&[f64]; W] = std::array::from_fn(|l| {
        let lane = lanes.get(l).unwrap_or(&lanes[0]);
        &lane.inputs[column][lane.from..lane.from + lane.bars]
    });
    let whole = runs.iter().map(|run| run.len().saturating_sub(at)).min().unwrap_or(0).min(place.len());
    simd::side_by_side(&runs, at, &mut place[..whole]);
    for (t, row) in place.iter_mut().enumerate().skip(whole) {
        for (value, run) in row.iter_mut().zip(runs) {
            *value = run[(at + t).min(run.len() - 1)];
        }
    }
    bounded(place)
}

/// A part of the graph, and which columns it gives: in fours that are neighbours in the table.
struct Part {
    graph: Graph,
    ids: Vec<Id>,
    columns: Vec<usize>,
}

/// Cuts a graph into parts of like cost, so that as little as possible is computed twice.
fn split(graph: &Graph, ids: &[Id], parts: usize) -> Vec<Part> {
    let cost: Vec<f64> = graph.nodes().iter().map(|node| node.op.cost()).collect();
    // What every four columns need.
    let needs: Vec<Vec<bool>> = ids
        .chunks(4)
        .map(|four| {
            let mut needs = vec![false; cost.len()];
            for id in four {
                needs.iter_mut().zip(graph.needs(*id)).for_each(|(n, more)| *n |= more);
            }
            needs
        })
        .collect();
    let price = |needs: &[bool], have: &[bool]| -> f64 {
        needs.iter().zip(have).zip(&cost).filter(|((n, h), _)| **n && !**h).map(|(_, c)| c).sum()
    };
    let nothing = vec![false; cost.len()];
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by(|a, b| price(&needs[*b], &nothing).total_cmp(&price(&needs[*a], &nothing)).then(a.cmp(b)));
    let mut have = vec![nothing; parts];
    let mut load = vec![0.0; parts];
    let mut fours = vec![Vec::new(); parts];
    for four in order {
        let after = |p: usize| load[p] + price(&needs[four], &have[p]);
        let best = (0..parts).min_by(|a, b| after(*a).total_cmp(&after(*b))).unwrap_or(0);
        load[best] = after(best);
        have[best].iter_mut().zip(&needs[four]).for_each(|(h, n)| *h |= n);
        fours[best].push(four);
    }
    let used = fours.into_iter().filter(|f| !f.is_empty());
    used.map(|mut fours| {
        fours.sort_unstable();
        let columns: Vec<usize> = fours.iter().flat_map(|f| f * 4..(f * 4 + 4).min(ids.len())).collect();
        let wanted: Vec<Id> = columns.iter().map(|c| ids[*c]).collect();
        let (graph, ids) = graph.part(&wanted);
        Part { graph, ids, columns }
    })
    .collect()
}

/// A core's share of one long run.
struct Worker<'p> {
    part: &'p Part,
    engine: Engine<1>,
    /// `[STRETCH, width]` rows of its own columns.
    rows: Vec<f32>,
    width: usize,
    /// `[columns of the part]` whether each is whole in this stretch, and fits into f32.
    whole: Vec<(bool, bool)>,
}

impl Worker<'_> {
    /// Its columns of the rows `at..at + rows`.
    fn stretch(&mut self, lanes: &[Lane<'_>], at: usize, rows: usize) {
        let Worker { part, engine, rows: made, width, whole, .. } = self;
        whole.fill((true, true));
        let mut done = 0;
        while done < rows {
            let bars = BLOCK[0].min(rows - done);
            engine.run(bars, &mut |column, place| feed(column, place, lanes, at + done));
            let mut columns = Vec::with_capacity(part.ids.len());
            for (id, whole) in part.ids.iter().zip(whole.iter_mut()) {
                let (block, clean) = engine.block(id.index(), bars);
                whole.0 &= clean;
                columns.push((block, clean));
            }
            let blocks: Vec<&[[f64; 1]]> = columns.iter().map(|c| c.0).collect();
            if !simd::rows(&blocks, &mut [&mut made[done * *width..(done + bars) * *width]], *width) {
                for ((block, clean), whole) in columns.iter().zip(whole.iter_mut()) {
                    whole.1 &= !clean || block.iter().all(|x| (x[0] as f32).is_finite());
                }
            }
            done += bars;
        }
    }
}

/// One long run on several cores: each has a part of the columns, stretch by stretch; then each puts some of the rows together.
fn in_parts(parts: &[Part], columns: &[Feature], stride: usize, lane: Lane<'_>, pace: &Pace<'_>) -> Result<Vec<u64>> {
    let mut workers: Vec<Worker<'_>> = parts
        .iter()
        .map(|part| {
            let width = part.columns.len().next_multiple_of(4);
            Worker {
                part,
                engine: Engine::keeping(&part.graph, BLOCK[0], &part.ids),
                rows: vec![0.0; STRETCH * width],
                width,
                whole: vec![(true, true); part.columns.len()],
            }
        })
        .collect();
    let mut emit = Emit::<1>::new(columns, stride);
    let mut lanes = [lane];
    let longest = lanes[0].bars;
    let mut at = 0;
    while at < longest {
        if (pace.stop)() {
            return Err(interrupted());
        }
        let rows = STRETCH.min(longest - at);
        workers.par_iter_mut().with_max_len(1).for_each(|worker| worker.stretch(&lanes, at, rows));
        let place = &mut lanes[0].out.values[at * stride..(at + rows) * stride];
        let share = rows.div_ceil(pace.threads).max(256);
        let made: Vec<(&[f32], usize, &[usize])> =
            workers.iter().map(|w| (&w.rows[..], w.width, &w.part.columns[..])).collect();
        place.par_chunks_mut(share * stride).enumerate().for_each(|(i, place)| {
            for (made, width, columns) in &made {
                let made = made[i * share * width..].chunks_exact(*width);
                for (row, made) in place.chunks_exact_mut(stride).zip(made) {
                    // The last four of the table may be fewer; what pads them is zero on both sides.
                    for (four, made) in columns.chunks(4).zip(made.as_chunks::<4>().0) {
                        row[four[0]..four[0] + 4].copy_from_slice(made);
                    }
                }
            }
        });
        let mut whole = vec![(true, true); columns.len()];
        for worker in &workers {
            for (column, mine) in worker.part.columns.iter().zip(&worker.whole) {
                whole[*column] = *mine;
            }
        }
        emit.marks(&whole, at, &mut [(&mut lanes[0].out, rows)]);
        (pace.progress)(rows);
        at += rows;
    }
    Ok(emit.invalid)
}

fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted; no table was written")
}

/// Nodes of a graph over one symbol, in full precision: `[ids][rows]`, NaN where there is no value.
pub(crate) fn values(graph: &Graph, ids: &[Id], inputs: &[Cow<'_, [f64]>], runs: &[Range<usize>]) -> Vec<Vec<f64>> {
    let rows = runs.last().map_or(0, |run| run.end);
    let (graph, ids) = graph.part(ids);
    let mut made = vec![vec![f64::NAN; rows]; ids.len()];
    for run in runs {
        let mut engine = Engine::<1>::keeping(&graph, BLOCK[0], &ids);
        let mut at = run.start;
        while at < run.end {
            let bars = BLOCK[0].min(run.end - at);
            engine.run(bars, &mut |column, place| {
                place.as_flattened_mut().copy_from_slice(&inputs[column][at..at + bars]);
                bounded(place)
            });
            for (made, id) in made.iter_mut().zip(&ids) {
                made[at..at + bars].copy_from_slice(engine.block(id.index(), bars).0.as_flattened());
            }
            at += bars;
        }
    }
    made
}

#[cfg(test)]
mod tests;
