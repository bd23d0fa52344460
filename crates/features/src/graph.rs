//! What is to be computed: operations on operations on columns, each once.
//!
//! An indicator is a function that adds nodes to a [`Graph`] and gives the one that holds its value; a node that is
//! there already is not added again, so `bollinger` and `sma` share their mean. Each node knows the first bar at which
//! it is valid and the first at which it no longer depends on where the data began (docs/method.md, Leak tests:
//! warm-up).

use crate::ops::{Op, memory};
use std::collections::HashMap;

/// A node of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(u32);

impl Id {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One node.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) op: Op,
    pub(crate) args: Vec<Id>,
    /// Index of the first valid value in a run; for values that wait for a session, the least it can be.
    pub(crate) first: usize,
}

/// What of a value depends on where the data began: finite windows for so many bars, averages less and less.
#[derive(Debug, Clone, Default, PartialEq)]
struct Start {
    bars: usize,
    /// Of averages of averages, the slowest first.
    factors: Vec<f64>,
}

/// Nodes in the order in which they can be computed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    nodes: Vec<Spec>,
    /// Bars that a column from outside takes to settle: one on a slower timeframe, whose first bar may be a part of
    /// one.
    late: usize,
    known: HashMap<(String, Vec<Id>), Id>,
}

impl Graph {
    /// An empty graph over columns that take so many bars to settle.
    pub(crate) fn late(late: usize) -> Graph {
        Graph { late, ..Graph::default() }
    }

    /// The node of an operation on these arguments.
    pub(crate) fn add(&mut self, op: Op, args: &[Id]) -> Id {
        // Debug shows every bit of a number's value, so equal text means equal operations.
        let key = (format!("{op:?}"), args.to_vec());
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let id = self.push(op, args);
        self.known.insert(key, id);
        id
    }

    /// The node of an operation on these arguments, which is not there yet.
    fn push(&mut self, op: Op, args: &[Id]) -> Id {
        debug_assert_eq!(op.arity(), args.len(), "{op:?}");
        let first = args.iter().map(|a| self.nodes[a.index()].first).max().unwrap_or(0) + op.delay();
        let id = Id(self.nodes.len() as u32);
        self.nodes.push(Spec { op, args: args.to_vec(), first });
        id
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> &[Spec] {
        &self.nodes
    }

    /// The node at that place.
    pub(crate) fn id(&self, at: usize) -> Id {
        Id(at as u32)
    }

    /// One node.
    pub(crate) fn node(&self, id: Id) -> &Spec {
        &self.nodes[id.index()]
    }

    /// Index from which no more than `left` of a node's start matters, if columns from outside settle at `input`;
    /// `None`: it always does.
    pub(crate) fn settled(&self, id: Id, left: f64, input: &dyn Fn(usize) -> Option<usize>) -> Option<usize> {
        let mut all: Vec<Option<Start>> = Vec::with_capacity(id.index() + 1);
        for spec in &self.nodes[..=id.index()] {
            all.push(match spec.op {
                Op::Input(column) => input(column).map(|bars| Start { bars, ..Start::default() }),
                ref op => Start::after(op, spec.args.iter().map(|a| all[a.index()].as_ref())),
            });
        }
        let start = all.pop()??;
        Some((start.bars + memory(&start.factors, left)).max(self.node(id).first))
    }

    /// The same where all that its columns need is what the graph says of them.
    pub(crate) fn settled_alone(&self, id: Id, left: f64) -> Option<usize> {
        self.settled(id, left, &|_| Some(self.late))
    }

    /// How many bars before its own a node looks back on, where columns from outside look back on `input`: the finite
    /// part of it.
    pub(crate) fn reach(&self, id: Id, input: &dyn Fn(usize) -> usize) -> usize {
        let mut all: Vec<usize> = Vec::with_capacity(id.index() + 1);
        for spec in &self.nodes[..=id.index()] {
            let before = spec.args.iter().map(|a| all[a.index()]).max().unwrap_or(0);
            all.push(if let Op::Input(column) = spec.op { input(column) } else { before + spec.op.delay() });
        }
        all[id.index()]
    }

    /// Where a node's values are: a lag is a look at the past of another node and has none of its own.
    pub(crate) fn origin(&self, id: Id) -> (Id, usize) {
        let (mut id, mut bars) = (id, 0);
        while let Op::Lag(n) = self.node(id).op {
            bars += n;
            id = self.node(id).args[0];
        }
        (id, bars)
    }

    /// How many earlier values each node has to keep for those that read it.
    pub(crate) fn lookbacks(&self) -> Vec<usize> {
        let mut back = vec![0; self.nodes.len()];
        let mut keep = |id: Id, more: usize| {
            let (id, bars) = self.origin(id);
            back[id.index()] = back[id.index()].max(bars + more);
        };
        for (at, spec) in self.nodes.iter().enumerate() {
            keep(self.id(at), 0);
            spec.args.iter().for_each(|arg| keep(*arg, spec.op.lookback()));
        }
        back
    }

    /// The part of the graph that these nodes need, and where they are in it.
    pub(crate) fn part(&self, wanted: &[Id]) -> (Graph, Vec<Id>) {
        self.part_given(wanted, &[], 0)
    }

    /// The same, where some nodes come from outside, as columns from `column` on.
    pub(crate) fn part_given(&self, wanted: &[Id], given: &[Id], column: usize) -> (Graph, Vec<Id>) {
        let outside = |at: usize| given.iter().position(|id| id.index() == at);
        let mut used = vec![false; self.nodes.len()];
        wanted.iter().for_each(|id| used[id.index()] = true);
        for at in (0..self.nodes.len()).rev() {
            if used[at] && outside(at).is_none() {
                self.nodes[at].args.iter().for_each(|a| used[a.index()] = true);
            }
        }
        // Every node is here once, so nobody has to look for it there.
        let mut part = Graph::late(self.late);
        let mut place = vec![Id(0); self.nodes.len()];
        for (at, spec) in self.nodes.iter().enumerate().filter(|(at, _)| used[*at]) {
            place[at] = match outside(at) {
                Some(k) => part.push(Op::Input(column + k), &[]),
                None => {
                    let args: Vec<Id> = spec.args.iter().map(|a| place[a.index()]).collect();
                    part.push(spec.op.clone(), &args)
                }
            };
        }
        (part, wanted.iter().map(|id| place[id.index()]).collect())
    }
}

impl Start {
    /// What an operation adds to its arguments' starts; `None`: it never settles, or one of them does not.
    fn after<'a>(op: &Op, args: impl Iterator<Item = Option<&'a Start>>) -> Option<Start> {
        let mut all = Start::default();
        for arg in args {
            let Start { bars, factors } = arg?;
            all.bars = all.bars.max(*bars);
            // No argument's averages are slower than these, one by one.
            for (at, factor) in factors.iter().enumerate() {
                match all.factors.get_mut(at) {
                    Some(slowest) => *slowest = slowest.min(*factor),
                    None => all.factors.push(*factor),
                }
            }
        }
        all.bars += op.delay();
        all.factors.extend(op.factor());
        all.factors.sort_by(f64::total_cmp);
        op.settles().then_some(all)
    }
}
