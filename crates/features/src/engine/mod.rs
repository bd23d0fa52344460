//! Runs a graph over bars, a block at a time, many symbols side by side.
//!
//! Every value is a row of `W` lanes, and a lane is one run of one symbol: `W = 1` is a live stream or one long symbol,
//! `W = 8` is a universe in batch. Lanes never touch each other, so a lane's bits do not depend on `W`, on its
//! neighbours or on how the bars were cut into blocks; that is what makes a streamed value equal the batch value.
//!
//! A node keeps the tail of its output that later nodes look back at, and a state of a few numbers. A value that does
//! not exist is NaN from end to end; a kernel that meets one starts its warm-up again.

mod buffer;
mod rows;
mod state;

use crate::graph::{Graph, Id};
use crate::ops::{Average, Op, kernel, missing, together};
use buffer::Buffer;
pub(crate) use rows::Rows;
pub(crate) use state::State;

/// A graph with memory.
pub(crate) struct Engine<const W: usize> {
    nodes: Vec<Node<W>>,
    /// Nodes share a buffer where the one is no longer needed when the other is computed: the fewer there are, the
    /// nearer they stay.
    buffers: Vec<Buffer<W>>,
    steps: Vec<Step>,
}

struct Node<const W: usize> {
    kind: NodeKind<W>,
    /// The nodes it reads, each so many bars late.
    args: Vec<(usize, usize)>,
    buffer: usize,
    /// Where its values are, if they are another node's: which, and how many bars late.
    view: Option<(usize, usize)>,
    /// Finite values in a row up to now, in every lane.
    finite_rows: usize,
}

enum NodeKind<const W: usize> {
    /// Comes from outside: the column's number.
    Input(usize),
    /// Another node's past.
    View,
    /// The most frequent kernel, known by name so that several can run together.
    Average(Average<W>),
    Kernel(Box<dyn Kernel<W>>),
}

/// What is computed next.
enum Step {
    /// One node.
    Single(usize),
    /// Averages in one lane: each waits for its own last value, so four take the time of one.
    FourAverages([usize; 4]),
}

/// What a kernel sees of one block.
pub(crate) struct Feed<'a, const W: usize> {
    args: [&'a [[f64; W]]; 4],
    /// Bars in the block.
    pub(crate) bars: usize,
    /// Whether every value of every argument in this block is finite.
    pub(crate) clean: bool,
}

impl<'a, const W: usize> Feed<'a, W> {
    /// Argument `i`: the block, with `back` earlier values in front of it.
    #[inline(always)]
    pub(crate) fn arg(&self, i: usize, back: usize) -> &'a [[f64; W]] {
        let all = self.args[i];
        &all[all.len() - self.bars - back..]
    }
}

/// One operation over time, with its state. Written through [`Body`].
pub(crate) trait Kernel<const W: usize>: Send {
    /// Fills the block; says whether every value in it is finite.
    fn run(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool;
    /// Shows its numbers to whoever saves or restores them.
    fn state(&mut self, state: &mut State<'_>);
}

/// The body of a kernel; `body` must be `#[inline(always)]`, with everything it calls.
pub(crate) trait Body<const W: usize>: Send {
    fn body(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool;
    fn state(&mut self, state: &mut State<'_>);
}

impl<const W: usize, B: Body<W>> Kernel<W> for B {
    fn run(&mut self, feed: &Feed<'_, W>, out: &mut [[f64; W]]) -> bool {
        crate::simd::run(self, feed, out)
    }

    fn state(&mut self, state: &mut State<'_>) {
        Body::state(self, state);
    }
}

impl<const W: usize> Engine<W> {
    /// A fresh engine for blocks of at most `block` bars, every node of which can be read.
    pub(crate) fn new(graph: &Graph, block: usize) -> Engine<W> {
        Engine::build(graph, block, &vec![true; graph.nodes().len()])
    }

    /// A fresh engine of which only these nodes can be read.
    pub(crate) fn with_outputs(graph: &Graph, block: usize, ids: &[Id]) -> Engine<W> {
        let mut kept = vec![false; graph.nodes().len()];
        ids.iter().for_each(|id| kept[id.index()] = true);
        Engine::build(graph, block, &kept)
    }

    fn build(graph: &Graph, block: usize, kept: &[bool]) -> Engine<W> {
        let back = graph.lookbacks();
        let steps = order_steps(graph, W == 1 && block > 1);
        // Until which step each node is read; what is kept, or has a past, is never given away.
        let mut last = vec![0; kept.len()];
        for (at, step) in steps.iter().enumerate() {
            for node in step.nodes() {
                last[*node] = last[*node].max(at);
                graph.nodes()[*node].args.iter().for_each(|arg| last[graph.origin(*arg).0.index()] = at);
            }
        }
        let view = |node: usize| matches!(graph.nodes()[node].op, Op::Lag(_));
        let own = |node: usize| kept[node] || back[node] > 0 || view(node);
        let mut buffers: Vec<Buffer<W>> = Vec::new();
        let mut place = vec![0; kept.len()];
        let mut free: Vec<usize> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            for node in step.nodes() {
                let given = if own(*node) { None } else { free.pop() };
                place[*node] = given.unwrap_or_else(|| {
                    buffers.push(Buffer::new(back[*node], block));
                    buffers.len() - 1
                });
            }
            free.extend((0..kept.len()).filter(|n| last[*n] == at && !own(*n)).map(|n| place[n]));
        }
        let late = |id: Id| {
            let (id, bars) = graph.origin(id);
            (id.index(), bars)
        };
        let nodes = graph.nodes().iter().zip(place).enumerate().map(|(at, (spec, buffer))| Node {
            kind: match spec.op {
                Op::Input(column) => NodeKind::Input(column),
                Op::Lag(_) => NodeKind::View,
                Op::Ema(ema) => NodeKind::Average(Average::new(ema)),
                ref op => NodeKind::Kernel(kernel(op)),
            },
            args: spec.args.iter().map(|id| late(*id)).collect(),
            buffer,
            view: matches!(spec.op, Op::Lag(_)).then(|| late(graph.id(at))),
            finite_rows: 0,
        });
        Engine { nodes: nodes.collect(), buffers, steps }
    }

    /// Takes the next `bars` bars; `input(column, place)` fills a block of an input column and says whether all of it
    /// is finite.
    pub(crate) fn run(&mut self, bars: usize, input: &mut dyn FnMut(usize, &mut [[f64; W]]) -> bool) {
        for at in 0..self.steps.len() {
            match self.steps[at] {
                Step::Single(node) => self.run_node(node, bars, input),
                Step::FourAverages(nodes) => {
                    if !self.run_four_averages(nodes, bars) {
                        nodes.into_iter().for_each(|node| self.run_node(node, bars, input));
                    }
                }
            }
        }
    }

    fn run_node(&mut self, at: usize, bars: usize, input: &mut dyn FnMut(usize, &mut [[f64; W]]) -> bool) {
        let (before, rest) = self.nodes.split_at_mut(at);
        let node = &mut rest[0];
        // Its buffer is written, those of its arguments are read: they are others.
        let (low, rest) = self.buffers.split_at_mut(node.buffer);
        let (own, high) = rest.split_at_mut(1);
        let out = own[0].advance(bars);
        let mut feed = Feed { args: [&[]; 4], bars, clean: true };
        for (place, (arg, late)) in feed.args.iter_mut().zip(&node.args) {
            let arg = &before[*arg];
            let buffer = if arg.buffer < low.len() { &low[arg.buffer] } else { &high[arg.buffer - low.len() - 1] };
            let all = buffer.filled();
            *place = &all[..all.len() - late];
            feed.clean &= arg.finite_rows >= bars + late;
        }
        let clean = match &mut node.kind {
            NodeKind::Input(column) => input(*column, out),
            NodeKind::View => true,
            NodeKind::Average(average) => average.run(&feed, out),
            NodeKind::Kernel(kernel) => kernel.run(&feed, out),
        };
        node.finite_rows =
            if clean { node.finite_rows.saturating_add(bars) } else { crate::simd::call(FiniteTail, &*out) };
    }

    /// Four averages at once, if all of them are past their beginning and their block is whole; else nothing is done.
    fn run_four_averages(&mut self, nodes: [usize; 4], bars: usize) -> bool {
        let steady = |node: &usize| match &self.nodes[*node].kind {
            NodeKind::Average(average) => {
                let (arg, late) = self.nodes[*node].args[0];
                self.nodes[arg].finite_rows >= bars + late && average.is_steady()
            }
            _ => false,
        };
        if !nodes.iter().all(steady) {
            return false;
        }
        let mut outs = nodes.map(|node| std::mem::take(&mut self.buffers[self.nodes[node].buffer]));
        let mut averages = nodes.map(|node| match &self.nodes[node].kind {
            NodeKind::Average(average) => average.clone(),
            _ => unreachable!("all four were checked to be averages"),
        });
        let x = nodes.map(|node| {
            let (arg, late) = self.nodes[node].args[0];
            let all = self.buffers[self.nodes[arg].buffer].filled();
            let all = all[..all.len() - late].as_flattened();
            &all[all.len() - bars * W..]
        });
        together(&mut averages, x, outs.each_mut().map(|out| out.advance(bars).as_flattened_mut()));
        for ((node, out), average) in nodes.into_iter().zip(outs).zip(averages) {
            self.buffers[self.nodes[node].buffer] = out;
            self.nodes[node].finite_rows = self.nodes[node].finite_rows.saturating_add(bars);
            self.nodes[node].kind = NodeKind::Average(average);
        }
        true
    }

    /// The last block of a node, and whether all of it is finite.
    pub(crate) fn block(&self, node: usize, bars: usize) -> (&[[f64; W]], bool) {
        let (node, late) = self.nodes[node].view.unwrap_or((node, 0));
        let node = &self.nodes[node];
        let all = self.buffers[node.buffer].filled();
        let all = &all[..all.len() - late];
        (&all[all.len() - bars..], node.finite_rows >= bars + late)
    }

    /// How many rows at the end of a node's last block are known to be finite in every lane.
    pub(crate) fn finite_rows(&self, node: usize, bars: usize) -> usize {
        let (node, late) = self.nodes[node].view.unwrap_or((node, 0));
        self.nodes[node].finite_rows.saturating_sub(late).min(bars)
    }

    /// What one node remembers beside its past values.
    pub(crate) fn state_of(&mut self, node: usize, state: &mut State<'_>) {
        self.nodes[node].kind.state(state);
    }

    /// Everything it remembers, to whoever saves or restores it.
    pub(crate) fn state(&mut self, state: &mut State<'_>) {
        for node in &mut self.nodes {
            // It chooses between two ways to the same bits.
            if !state.is_brief() {
                state.count(&mut node.finite_rows);
            }
            if node.view.is_none() {
                self.buffers[node.buffer].state(state);
            }
            node.kind.state(state);
        }
    }
}

/// How many rows at the end are finite in every lane.
struct FiniteTail;

impl<const W: usize> crate::simd::Inlined<&[[f64; W]], usize> for FiniteTail {
    #[inline(always)]
    fn call(self, rows: &[[f64; W]]) -> usize {
        // A row is looked at as a whole, which has lanes; a way out of it has none.
        let whole = |row: &&[f64; W]| row.iter().fold(0, |all, x| all | missing(*x)) >> 63 == 0;
        rows.iter().rev().take_while(whole).count()
    }
}

impl<const W: usize> NodeKind<W> {
    fn state(&mut self, state: &mut State<'_>) {
        match self {
            NodeKind::Input(_) | NodeKind::View => {}
            NodeKind::Average(average) => Kernel::state(average, state),
            NodeKind::Kernel(kernel) => kernel.state(state),
        }
    }
}

impl Step {
    fn nodes(&self) -> &[usize] {
        match self {
            Step::Single(node) => std::slice::from_ref(node),
            Step::FourAverages(nodes) => nodes,
        }
    }
}

/// The order of work: that of the graph, except that averages wait until nothing else can be done, and then go in
/// fours.
fn order_steps(graph: &Graph, in_fours: bool) -> Vec<Step> {
    let nodes = graph.nodes();
    // A lag is there as soon as what it looks at is: nothing has to be done for it.
    let computed: Vec<usize> = (0..nodes.len()).filter(|n| !matches!(nodes[*n].op, Op::Lag(_))).collect();
    if !in_fours {
        return computed.into_iter().map(Step::Single).collect();
    }
    let mut there = vec![false; nodes.len()];
    let mut steps = Vec::new();
    while steps.iter().map(|s: &Step| s.nodes().len()).sum::<usize>() < computed.len() {
        let mut waiting = Vec::new();
        for &at in &computed {
            if there[at] || !nodes[at].args.iter().all(|arg| there[graph.origin(*arg).0.index()]) {
                continue;
            }
            if matches!(nodes[at].op, Op::Ema(_)) {
                waiting.push(at);
            } else {
                there[at] = true;
                steps.push(Step::Single(at));
            }
        }
        let (fours, rest) = waiting.as_chunks::<4>();
        steps.extend(fours.iter().map(|four| Step::FourAverages(*four)));
        steps.extend(rest.iter().map(|one| Step::Single(*one)));
        waiting.iter().for_each(|node| there[*node] = true);
    }
    steps
}
