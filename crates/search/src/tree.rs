//! One root's tree: nodes, their edges, and the markets that codes lead to.
//!
//! A decision has an edge for each action, an afterstate one for each code. Markets are a tree of their own, keyed by
//! the codes observed: whatever was decided, the same codes lead to the same market. Everything lies in arrays that
//! are taken once; a child is an index.

use crate::settings::{Capacity, Mode};
use crate::world::{Chance, Draws, World, path_behind, root_path};

/// No such node.
pub(crate) const NONE: u32 = u32::MAX;
/// Set in the index of a node whose leaves are being evaluated.
pub(crate) const PENDING: u32 = 1 << 31;

/// A decision, or an afterstate with its chances.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    /// Which edge of the parent leads here.
    pub(crate) edge: u32,
    /// Its market; of an afterstate the one before its codes.
    pub(crate) market: u32,
    /// Where its edges begin, and how many there are.
    pub(crate) first: u32,
    pub(crate) edges: u16,
    pub(crate) decision: bool,
    /// Decisions before it.
    pub(crate) depth: u32,
    /// Legal actions, a bit each; of an afterstate none.
    pub(crate) legal: u32,
    /// Once for its evaluation, and for every simulation that went or is going through it.
    pub(crate) visits: u32,
    /// The same, without those under way.
    pub(crate) done: u32,
    /// As evaluated.
    pub(crate) raw: f32,
    /// Mean of what was backed up; of an afterstate of the honest mode the mean over its codes.
    pub(crate) value: f32,
    /// The edge that the next simulation takes; none where it is chosen when one comes.
    pub(crate) next: u32,
}

/// An action of a decision, or a code of an afterstate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) child: u32,
    pub(crate) visits: u32,
    /// Logit of an action.
    pub(crate) logit: f32,
    /// Probability of an action or a code.
    pub(crate) prior: f32,
    /// The child's value.
    pub(crate) value: f32,
    pub(crate) reward: f32,
    pub(crate) discount: f32,
}

impl Edge {
    /// What it is worth to go there.
    #[inline]
    pub(crate) fn q(&self) -> f32 {
        self.reward + self.discount * self.value
    }
}

/// A market, and where those that may follow lie.
#[derive(Debug, Clone, Copy)]
struct Place<M> {
    market: M,
    probability: f32,
    path: u64,
    first: u32,
    count: u32, // 0: not drawn yet
}

/// The tree of one root.
pub(crate) struct Tree<W: World> {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) accounts: Vec<W::Account>, // [nodes] of an afterstate its decision's
    places: Vec<Place<W::Market>>,
    drawn: Vec<Chance<W::Market>>,
    capacity: Capacity,
    seed: u64,
}

impl<W: World> Tree<W> {
    /// Room for a tree.
    pub(crate) fn new(capacity: Capacity, seed: u64) -> Tree<W> {
        Tree {
            nodes: Vec::with_capacity(capacity.nodes),
            edges: Vec::with_capacity(capacity.edges),
            accounts: Vec::with_capacity(capacity.nodes),
            places: Vec::with_capacity(capacity.markets),
            drawn: Vec::new(),
            capacity,
            seed,
        }
    }

    /// Bytes of such a tree.
    pub(crate) fn bytes(capacity: Capacity) -> u64 {
        let node = size_of::<Node>() + size_of::<W::Account>();
        (capacity.nodes * node + capacity.edges * size_of::<Edge>() + capacity.markets * size_of::<Place<W::Market>>())
            as u64
    }

    /// Bytes that this one has taken.
    pub(crate) fn taken(&self) -> u64 {
        let (nodes, edges, markets) = (self.nodes.capacity(), self.edges.capacity(), self.places.capacity());
        Tree::<W>::bytes(Capacity { nodes, edges, markets })
    }

    /// Begins again with a root that is still to be evaluated.
    pub(crate) fn begin(&mut self, world: &W, known: &W::Known, counter: u64) {
        let (market, account) = world.start(known);
        self.nodes.clear();
        self.edges.clear();
        self.accounts.clear();
        self.places.clear();
        self.places.push(Place { market, probability: 1.0, path: root_path(counter), first: 0, count: 0 });
        self.add_decision(world, known, (NONE, 0), 0, 0, account);
    }

    pub(crate) fn market(&self, place: u32) -> &W::Market {
        &self.places[place as usize].market
    }

    /// The markets that were drawn behind the root's.
    pub(crate) fn scenarios(&self) -> impl Iterator<Item = &W::Market> {
        let Place { first, count, .. } = self.places[0];
        self.places[first as usize..][..count as usize].iter().map(|place| &place.market)
    }

    /// The edges of a node.
    pub(crate) fn edges_of(&self, node: u32) -> &[Edge] {
        let Node { first, edges, .. } = self.nodes[node as usize];
        &self.edges[first as usize..first as usize + usize::from(edges)]
    }

    pub(crate) fn edge(&mut self, node: u32, edge: u32) -> &mut Edge {
        let at = self.nodes[node as usize].first + edge;
        &mut self.edges[at as usize]
    }

    /// The places that may follow a place, drawn where they are not: the first, and how many.
    pub(crate) fn follow(&mut self, world: &W, known: &W::Known, place: u32, count: usize) -> (u32, usize) {
        let Place { market, path, first, count: drawn, .. } = self.places[place as usize];
        if drawn > 0 {
            return (first, drawn as usize);
        }
        self.drawn.clear();
        world.draw(known, &market, Draws::new(self.seed, path), count, &mut self.drawn);
        let first = self.places.len() as u32;
        let behind = |(code, chance): (usize, &Chance<W::Market>)| Place {
            market: chance.market,
            probability: chance.probability,
            path: path_behind(path, code as u32),
            first: 0,
            count: 0,
        };
        self.places.extend(self.drawn.iter().take(count).enumerate().map(behind));
        debug_assert!(self.places.len() <= self.capacity.markets, "more markets than were counted");
        let count = self.places.len() - first as usize;
        let own = &mut self.places[place as usize];
        (own.first, own.count) = (first, count as u32);
        (first, count)
    }

    /// A decision whose priors and value are still to come.
    pub(crate) fn add_decision(
        &mut self,
        world: &W,
        known: &W::Known,
        (parent, edge): (u32, u32),
        depth: u32,
        market: u32,
        account: W::Account,
    ) -> u32 {
        let legal = world.legal(known, self.market(market), &account);
        self.add((parent, edge), market, account, world.actions(), depth, Some(legal))
    }

    /// An afterstate with the codes that may follow; its value is still to come.
    pub(crate) fn add_afterstate(&mut self, decision: u32, action: u32, (first, count): (u32, usize)) -> u32 {
        let Node { market, depth, .. } = self.nodes[decision as usize];
        let account = self.accounts[decision as usize];
        let node = self.add((decision, action), market, account, count, depth, None);
        let at = self.nodes[node as usize].first as usize;
        let codes = self.edges[at..].iter_mut().zip(&self.places[first as usize..]);
        codes.for_each(|(edge, place)| edge.prior = place.probability);
        node
    }

    fn add(
        &mut self,
        (parent, edge): (u32, u32),
        market: u32,
        account: W::Account,
        edges: usize,
        depth: u32,
        legal: Option<u32>,
    ) -> u32 {
        let first = self.edges.len() as u32;
        debug_assert!(
            self.nodes.len() < self.capacity.nodes && first as usize + edges <= self.capacity.edges,
            "more nodes or edges than were counted"
        );
        self.edges.resize(
            first as usize + edges,
            Edge { child: NONE, visits: 0, logit: 0.0, prior: 0.0, value: 0.0, reward: 0.0, discount: 1.0 },
        );
        self.nodes.push(Node {
            parent,
            edge,
            market,
            first,
            edges: edges as u16,
            decision: legal.is_some(),
            depth,
            legal: legal.unwrap_or(0),
            visits: 1,
            done: 1,
            raw: 0.0,
            value: 0.0,
            next: NONE,
        });
        self.accounts.push(account);
        (self.nodes.len() - 1) as u32
    }

    /// What the evaluation said of a decision.
    pub(crate) fn evaluated(&mut self, node: u32, logits: &[f32], value: f32) {
        self.valued(node, value);
        self.guided(node, logits);
    }

    /// The same of its value alone.
    pub(crate) fn valued(&mut self, node: u32, value: f32) {
        let own = &mut self.nodes[node as usize];
        (own.raw, own.value) = (value, value);
    }

    /// Whether a node is a decision without priors: with them one is above 0.
    pub(crate) fn needs_priors(&self, node: u32) -> bool {
        self.nodes[node as usize].decision && self.edges_of(node).iter().all(|edge| edge.prior == 0.0)
    }

    /// The same of its logits alone. Actions that are not legal have no probability.
    pub(crate) fn guided(&mut self, node: u32, logits: &[f32]) {
        let own = &self.nodes[node as usize];
        let (first, legal) = (own.first as usize, own.legal);
        let edges = &mut self.edges[first..first + logits.len()];
        let is_legal = |action: usize| legal >> action & 1 != 0;
        let legal_logits = || logits.iter().enumerate().filter(|(action, _)| is_legal(*action));
        let most = legal_logits().fold(f32::NEG_INFINITY, |most, (_, z)| most.max(*z));
        let mut sum = 0.0;
        for (action, (edge, z)) in edges.iter_mut().zip(logits).enumerate() {
            (edge.logit, edge.prior) = if is_legal(action) { (z - most, (z - most).exp()) } else { (f32::MIN, 0.0) };
            sum += edge.prior;
        }
        edges.iter_mut().for_each(|edge| edge.prior /= sum);
    }

    /// The mean over the codes of an afterstate.
    pub(crate) fn mean_over_codes(&self, node: u32) -> f32 {
        self.edges_of(node).iter().map(|edge| edge.prior * edge.q()).sum()
    }

    /// Backs up from a node to the root: what a simulation found there is what it is worth.
    pub(crate) fn back_up(&mut self, mode: Mode, from: u32) {
        let mut node = from;
        let mut found = self.nodes[node as usize].value;
        loop {
            let Node { parent, edge, value, decision, .. } = self.nodes[node as usize];
            if parent == NONE {
                return;
            }
            let own = self.edge(parent, edge);
            let before = own.q();
            own.value = value;
            found = own.reward + own.discount * found;
            let (gain, prior) = (own.q() - before, own.prior);
            let above = &mut self.nodes[parent as usize];
            if decision && mode != Mode::Reference {
                // The parent is an afterstate, and its value the mean over all of its codes.
                above.value += prior * gain;
                found = above.value;
            } else {
                above.value = (above.value * above.done as f32 + found) / (above.done as f32 + 1.0);
            }
            above.done += 1;
            node = parent;
        }
    }
}
