//! One long run as many lanes: segments of it side by side, groups of segments on all cores.
//!
//! A segment starts some bars early with empty state and gives rows once it has warmed up. Windows then hold what they
//! would hold anyway, because segments start where the windows' own block borders coincide, and a recursion forgets its
//! start, to the last bit, after a while. **This is checked, not assumed**: the state of a segment at its end must
//! equal, word for word, the state of the next one before its first row. Where it does not, the next segment is
//! computed again, in one lane, from the state of the one before. So nothing here can change a bit.
//!
//! A running sum never forgets. One thread adds it up ahead, without writing rows, and gives each segment its value
//! before the first row; that value is checked too. The other threads start meanwhile, and the segments of this thread
//! are shorter. A node that forgets too late for the run is computed ahead in one lane and is one more input column
//! for the segments; so is a running sum whose past another node reads.

use crate::batch::{self, Job, Lane, Pace, add_counts, compute_columns, run_side_by_side};
use crate::graph::{Graph, Id};
use crate::ops::Op;
use crate::row_writer::RowsOut;
use files::Result;
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::OnceLock;

/// Stretches side by side.
const LANES: usize = 8;

/// What a bar of all of them costs, in bars of one.
const LANES_COST: f64 = 4.5;
/// A node costs over a bar of one lane a ninth of what it costs over a row of all; a twelfth, since the clock is made
/// beside.
const NODE_COST_RATIO: usize = 12;
/// Adding up costs as much as so many nodes.
const SUM_COST_NODES: usize = 4;
/// Shorter runs are not worth the thought.
const SHORTEST_RUN: usize = 8192;

/// How a run is cut.
pub(crate) struct SegmentedRun {
    graph: Graph,
    ids: Vec<Id>,
    /// Nodes that are computed before.
    ahead: Vec<Id>,
    /// Sums without end that segments are told, in the job's graph and in this one.
    sums: Vec<Id>,
    told: Vec<Id>,
    /// Bars before the first row of a segment.
    warm: usize,
    /// Bars from the beginning of a segment to that of the next.
    step: usize,
    /// The last group begins here, and with the sums: its segments are shorter. Those of one group are equally long,
    /// for what a segment remembers is looked at when all of its group have ended.
    early: usize,
    late: usize,
    time: f64,
}

impl SegmentedRun {
    /// The cut of a run of so many bars; `None` if it is too short to gain from it.
    pub(crate) fn new(job: &Job<'_>, bars: usize, threads: usize) -> Option<SegmentedRun> {
        if bars < SHORTEST_RUN {
            return None;
        }
        // A segment that is mostly warm-up gains nothing, and positions that hardly ever fall together leave the last
        // ones empty.
        let (latest, rarest) = (bars / 32, bars / 64);
        let (mut warm, mut beat) = (1, 1);
        let (mut ahead, mut sums) = (Vec::new(), Vec::new());
        let mut forgets: Vec<usize> = Vec::new();
        for (at, spec) in job.graph.nodes().iter().enumerate() {
            let before = spec.args.iter().map(|arg| forgets[arg.index()]).max().unwrap_or(0);
            if spec.op == Op::Cumulate && is_output_only(job.graph, at) {
                sums.push(job.graph.id(at));
                forgets.push(before);
                continue;
            }
            let forgotten = spec.op.forgets(spec.first, before).filter(|bars| *bars <= latest);
            let common = least_common_multiple(beat, spec.op.beat());
            forgets.push(match forgotten {
                Some(bars) if common <= rarest => {
                    (warm, beat) = (warm.max(bars), common);
                    bars
                }
                _ => {
                    ahead.push(job.graph.id(at));
                    0
                }
            });
        }
        // Rows that the others do while one adds up the sums.
        let args: Vec<Id> = sums.iter().map(|id: &Id| job.graph.node(*id).args[0]).collect();
        let added = if sums.is_empty() { 0 } else { job.graph.part(&args).0.nodes().len() + SUM_COST_NODES };
        let lag = bars * added / (NODE_COST_RATIO * job.graph.nodes().len().max(1));
        let step = |groups: usize, more: usize| {
            (bars.saturating_sub(warm) + more * LANES).div_ceil(groups * LANES).next_multiple_of(beat)
        };
        let groups = (1..=threads).rev().find(|groups| step(*groups, 0) >= warm)?;
        // Where there is nobody else, or little to do, all begin at once.
        let behind = if groups > 1 && step(groups, lag) >= lag + warm { lag } else { 0 };
        let step = step(groups, behind);
        let (early, late) = ((groups - 1) * LANES * step, (step - behind).next_multiple_of(beat));
        let wanted: Vec<Id> = job.ids.iter().chain(&sums).copied().collect();
        let (graph, mut ids) = job.graph.part_given(&wanted, &ahead, job.given);
        let told = ids.split_off(job.ids.len());
        let nodes = |id: &Id| job.graph.part(&[*id]).0.nodes().len() as f64 / job.graph.nodes().len() as f64;
        // Writing a column and reading it again costs about as much as a twentieth of an ordinary set.
        let before =
            ahead.iter().map(|id| nodes(id) + 0.05).sum::<f64>() * bars as f64 / threads.min(ahead.len()).max(1) as f64;
        let time = before + (warm + step + lag - behind) as f64 * LANES_COST;
        Some(SegmentedRun { graph, ids, ahead, sums, told, warm, step, early, late, time })
    }

    /// How long it takes, in bars of one lane.
    pub(crate) fn time(&self) -> f64 {
        self.time
    }

    /// Fills the rows of a run; gives the number of missing values of each column, and how many segments were done
    /// again.
    pub(crate) fn run(&self, job: &Job<'_>, lane: Lane<'_>, pace: &Pace<'_>) -> Result<(Vec<u64>, usize)> {
        let Lane { inputs, from, bars, out, .. } = lane;
        let run = from..from + bars;
        let ahead = self.ahead.par_iter().with_max_len(1);
        let ahead: Vec<Vec<f64>> =
            ahead.flat_map_iter(|id| compute_columns(job.graph, &[*id], inputs, std::slice::from_ref(&run))).collect();
        let inputs: Vec<Cow<'_, [f64]>> =
            inputs.iter().map(|c| Cow::Borrowed(&**c)).chain(ahead.iter().map(|c| Cow::Borrowed(&c[..]))).collect();
        let told: Vec<OnceLock<Vec<u64>>> = self.segment_starts(bars).map(|_| OnceLock::new()).collect();
        let mut segments = self.cut_segments(&inputs, from, bars, out, &told);
        let add_up = || {
            // Nobody waits for what will not come.
            let _all = ReleaseWaiters(&told);
            let begins = self.segment_starts(bars).map(|at| at + self.warm);
            batch::add_up_sums(job.graph, &self.sums, &inputs, from, begins.zip(&told).skip(1));
        };
        let pipeline = Job { graph: &self.graph, ids: &self.ids, sums: &self.told, ..*job };
        let early = segments.len().saturating_sub(1) / LANES * LANES;
        let (early, late) = segments.split_at_mut(early);
        // The others begin meanwhile: they need the sums when they have warmed up, the first of them first. Whoever
        // waits for the sums waits for this thread, which does nothing else until it has them.
        let (late, early) = rayon::join(
            || {
                add_up();
                run_side_by_side::<LANES>(&pipeline, late, None, pace)
            },
            || {
                early
                    .par_chunks_mut(LANES)
                    .with_max_len(1)
                    .try_for_each(|group| run_side_by_side::<LANES>(&pipeline, group, None, pace))
            },
        );
        early.and(late)?;
        let job = pipeline;
        let mut twice = 0;
        for next in 1..segments.len() {
            let (done, rest) = segments.split_at_mut(next);
            let (before, next) = (&done[next - 1], &mut rest[0]);
            if before.seams[1] != next.seams[0] {
                redo_segment(&job, next, &before.seams[1], pace)?;
                twice += 1;
            }
        }
        let mut missing = vec![0; job.columns.len()];
        segments.iter().for_each(|segment| add_counts(&mut missing, &segment.missing));
        Ok((missing, twice))
    }

    /// Where segments begin.
    fn segment_starts(&self, bars: usize) -> impl Iterator<Item = usize> {
        let step = |at: usize| if at < self.early { self.step } else { self.late };
        std::iter::successors(Some(0), move |at| Some(at + step(*at)))
            .take_while(move |at| *at == 0 || at + self.warm < bars)
    }

    /// The segments, each with its rows and the place where it is told its sums.
    fn cut_segments<'a>(
        &self,
        inputs: &'a [Cow<'a, [f64]>],
        from: usize,
        bars: usize,
        mut out: RowsOut<'a>,
        told: &'a [OnceLock<Vec<u64>>],
    ) -> Vec<Lane<'a>> {
        let ends = self.segment_starts(bars).skip(1).map(|at| at + self.warm).chain([bars]);
        let mut segments: Vec<Lane<'a>> = Vec::new();
        for ((at, end), told) in self.segment_starts(bars).zip(ends).zip(told) {
            let warm = if at == 0 { 0 } else { self.warm };
            let bars = end - at;
            let (mine, rest) = out.split(bars - warm);
            let sums = (warm > 0).then_some(told);
            segments.push(Lane { before: at, warm, sums, ..Lane::new(inputs, from + at, bars, mine) });
            out = rest;
        }
        segments
    }
}

/// Sums that segments wait for; when this goes, nobody waits any longer.
struct ReleaseWaiters<'a>(&'a [OnceLock<Vec<u64>>]);

impl Drop for ReleaseWaiters<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|told| drop(told.set(Vec::new())));
    }
}

/// Does a segment again, with the right memory at its first row.
fn redo_segment(job: &Job<'_>, segment: &mut Lane<'_>, memory: &[u64], pace: &Pace<'_>) -> Result<()> {
    let warm = std::mem::take(&mut segment.warm);
    (segment.from, segment.bars) = (segment.from + warm, segment.bars - warm);
    // Its rows were counted when they were made first.
    let quiet = Pace { progress: &|_| {}, ..*pace };
    run_side_by_side::<1>(job, std::slice::from_mut(segment), Some(memory), &quiet)
}

/// Whether a node's values go into rows, and into values of the same bar, but nobody keeps them.
fn is_output_only(graph: &Graph, node: usize) -> bool {
    let mut seen = vec![false; graph.nodes().len()];
    seen[node] = true;
    for (at, spec) in graph.nodes().iter().enumerate().skip(node + 1) {
        seen[at] = spec.args.iter().any(|arg| seen[arg.index()]);
        if seen[at] && !spec.op.is_instant() {
            return false;
        }
    }
    true
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

#[cfg(test)]
mod tests;
