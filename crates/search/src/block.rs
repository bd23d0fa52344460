//! Some roots that one thread searches together: their simulations go in step, and their leaves through the net in one
//! product.
//!
//! Where the net's policy has layers of its own, leaves are asked for their values alone. A simulation that comes to a
//! decision for the first time waits there until the others have, and all of them get their priors in one product. What
//! is found is the same, to the bit.

use crate::evaluate::Evaluate;
use crate::lanes::{LANES, Lanes};
use crate::run::Root;
use crate::select;
use crate::settings::{Mode, RootRule, Settings};
use crate::tree::{NONE, Node, PENDING, Tree};
use crate::world::World;
use compute::Result;

/// Memory of a thread: trees of a block and what is shown to the net.
pub(crate) struct Block<W: World> {
    pub(crate) trees: Vec<Tree<W>>,
    gumbels: Vec<f32>,        // [roots, A]
    sequences: Vec<Vec<u32>>, // [considered] how many visits the action of each simulation has
    leaves: Vec<Leaf>,
    lanes: Lanes,
    ahead: Vec<(usize, u32)>,   // [lanes] roots, and nodes that choose
    waiting: Vec<(usize, u32)>, // roots, and decisions whose priors are needed
    shown: Vec<f32>,            // [rows, inputs]
    asked: Vec<(usize, u32)>,   // [rows] root and decision
    logits: Vec<f32>,           // [rows, A]
    values: Vec<f32>,           // [rows]
}

/// Where a simulation came to.
enum Arrival {
    Leaf(Leaf),
    /// A decision without priors.
    Unguided(u32),
}

/// Where a simulation ended.
#[derive(Debug, Clone, Copy)]
struct Leaf {
    root: usize,
    /// A node that is there, or the edge of `node` that leads to what is being evaluated.
    node: u32,
    edge: Option<u32>,
}

impl<W: World> Block<W> {
    pub(crate) fn new(settings: &Settings, actions: usize) -> Block<W> {
        let capacity = settings.capacity(actions);
        let considered = match settings.rule {
            RootRule::Puct { .. } => 0,
            RootRule::Gumbel { considered, .. } => considered.min(actions),
        };
        let sequence = |considered| select::halving(considered, settings.simulations as usize);
        Block {
            trees: (0..settings.block()).map(|_| Tree::new(capacity, settings.seed)).collect(),
            gumbels: Vec::new(),
            sequences: (0..=considered).map(sequence).collect(),
            leaves: Vec::new(),
            lanes: Lanes::new(actions),
            ahead: Vec::new(),
            waiting: Vec::new(),
            shown: Vec::new(),
            asked: Vec::new(),
            logits: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Searches from some roots, at most as many as there are trees; `gumbels` is `[roots, A]`.
    pub(crate) fn search<E: Evaluate>(
        &mut self,
        world: &W,
        evaluator: &mut E,
        settings: &Settings,
        roots: &[Root<W::Known>],
        gumbels: &[f32],
    ) -> Result<()> {
        self.gumbels.clear();
        self.gumbels.extend_from_slice(gumbels);
        for (i, root) in roots.iter().enumerate() {
            self.trees[i].begin(world, &root.known, root.counter);
            self.ask(world, &root.known, i, 0);
        }
        self.evaluate_roots(world, evaluator, roots)?;
        if settings.mode != Mode::Reference {
            self.expand_roots(world, evaluator, settings, roots)?;
        }
        // Simulations of a root that are under way together would see each other in another order.
        let waits = is_lazy(settings, evaluator);
        let mut done = 0;
        while done < settings.simulations {
            let together = settings.in_flight().min(settings.simulations - done);
            for (i, root) in roots.iter().enumerate() {
                for flight in 0..together {
                    match self.simulate(world, settings, &root.known, i, 0, (done + flight) as usize, waits) {
                        Arrival::Leaf(leaf) => self.leaves.push(leaf),
                        Arrival::Unguided(node) => self.waiting.push((i, node)),
                    }
                }
            }
            self.guide(world, evaluator, roots)?;
            for at in 0..self.waiting.len() {
                let (i, node) = self.waiting[at];
                let arrival = self.simulate(world, settings, &roots[i].known, i, node, done as usize, false);
                if let Arrival::Leaf(leaf) = arrival {
                    self.leaves.push(leaf);
                }
            }
            self.waiting.clear();
            self.evaluate(world, evaluator, settings)?;
            done += together;
            self.back_up(settings, done as usize);
        }
        Ok(())
    }

    /// The priors of all decisions that are waited at, in one product.
    fn guide<E: Evaluate>(&mut self, world: &W, evaluator: &mut E, roots: &[Root<W::Known>]) -> Result<()> {
        let (inputs, actions) = (world.inputs(), world.actions());
        let Some(towers) = evaluator.towers().filter(|_| !self.waiting.is_empty()) else { return Ok(()) };
        // Behind the leaves that were shown meanwhile.
        let from = self.shown.len();
        self.shown.resize(from + self.waiting.len() * inputs, 0.0);
        for ((i, node), to) in self.waiting.iter().zip(self.shown[from..].chunks_exact_mut(inputs)) {
            let tree = &self.trees[*i];
            let market = tree.market(tree.nodes[*node as usize].market);
            world.observe(&roots[*i].known, market, &tree.accounts[*node as usize], to);
        }
        self.logits.resize(self.waiting.len() * actions, 0.0);
        towers.logits(&self.shown[from..], &mut self.logits)?;
        self.shown.truncate(from);
        for ((i, node), logits) in self.waiting.iter().zip(self.logits.chunks_exact(actions)) {
            self.trees[*i].guided(*node, logits);
        }
        Ok(())
    }

    /// Every legal action of the roots on all scenarios.
    fn expand_roots<E: Evaluate>(
        &mut self,
        world: &W,
        evaluator: &mut E,
        settings: &Settings,
        roots: &[Root<W::Known>],
    ) -> Result<()> {
        for (i, root) in roots.iter().enumerate() {
            let legal = self.trees[i].nodes[0].legal;
            for action in (0..world.actions() as u32).filter(|action| legal >> action & 1 != 0) {
                self.expand(world, settings, &root.known, i, (0, action));
            }
            // All scenarios of a root are many rows: what is shown stays small.
            self.evaluate(world, evaluator, settings)?;
            let tree = &mut self.trees[i];
            for action in (0..world.actions() as u32).filter(|action| legal >> action & 1 != 0) {
                install(tree, 0, action);
            }
        }
        Ok(())
    }

    /// Selects a way down from a node, and expands what lies at its end. With `waits` it stops at a decision that has
    /// no priors.
    #[expect(clippy::too_many_arguments, reason = "a simulation is all of these")]
    fn simulate(
        &mut self,
        world: &W,
        settings: &Settings,
        known: &W::Known,
        root: usize,
        from: u32,
        simulation: usize,
        waits: bool,
    ) -> Arrival {
        let mut node = from;
        loop {
            let edge = match self.trees[root].nodes[node as usize].next {
                NONE => self.choose(settings, root, node, simulation),
                chosen => chosen,
            };
            let tree = &mut self.trees[root];
            let own = &mut tree.nodes[node as usize];
            own.visits += 1;
            own.next = NONE;
            let taken = tree.edge(node, edge);
            taken.visits += 1;
            let (child, first_visit) = (taken.child, taken.visits == 1);
            let here = |node| Arrival::Leaf(Leaf { root, node, edge: None });
            match child {
                NONE => return Arrival::Leaf(self.expand(world, settings, known, root, (node, edge))),
                child if child & PENDING != 0 => return Arrival::Leaf(Leaf { root, node, edge: Some(edge) }),
                // The root's afterstates are there before anybody went to them.
                child if node == 0 && first_visit && settings.mode != Mode::Reference => return here(child),
                child if self.is_last(settings, root, node, child) => return here(child),
                child if waits && self.trees[root].needs_priors(child) => return Arrival::Unguided(child),
                child => node = child,
            }
        }
    }

    /// The edge that a simulation takes at a node.
    fn choose(&self, settings: &Settings, root: usize, node: u32, simulation: usize) -> u32 {
        let tree = &self.trees[root];
        let (own, edges) = (&tree.nodes[node as usize], tree.edges_of(node));
        let edge = match (own.decision, settings.rule) {
            (false, _) => select::due(edges),
            (true, RootRule::Puct { init, base }) => select::puct(own, edges, init, base),
            (true, RootRule::Gumbel { considered, .. }) if node == 0 => {
                let considered = considered.min(own.legal.count_ones() as usize);
                let visits = self.sequences[considered][simulation];
                let actions = edges.len();
                let gumbels = &self.gumbels[root * actions..(root + 1) * actions];
                select::gumbel_root(own, edges, gumbels, visits)
            }
            (true, RootRule::Gumbel { .. }) => select::gumbel_interior(own, edges),
        };
        edge as u32
    }

    /// Whether no decision follows: the clock of the search has run out, or the account has ended.
    fn is_last(&mut self, settings: &Settings, root: usize, node: u32, child: u32) -> bool {
        let tree = &mut self.trees[root];
        let Node { decision, depth, edge, .. } = tree.nodes[child as usize];
        let ended = settings.mode != Mode::Reference && tree.edge(node, edge).discount == 0.0;
        decision && (depth >= settings.depth || ended)
    }

    /// Puts what lies behind an edge into the tree; what is to be evaluated of it is asked for.
    fn expand(
        &mut self,
        world: &W,
        settings: &Settings,
        known: &W::Known,
        root: usize,
        (node, edge): (u32, u32),
    ) -> Leaf {
        let tree = &mut self.trees[root];
        let Node { market, decision, parent, raw, .. } = tree.nodes[node as usize];
        let count = if node == 0 && settings.mode != Mode::Reference { settings.scenarios } else { settings.codes };
        match settings.mode {
            Mode::Reference if !decision => {
                // The code of an afterstate: its action is the edge that led to it.
                let action = tree.nodes[node as usize].edge;
                let (first, _) = tree.follow(world, known, market, count);
                self.step(world, known, root, (node, edge), (parent, action), first + edge);
                Leaf { root, node, edge: Some(edge) }
            }
            Mode::Reference if count > 1 => {
                let codes = tree.follow(world, known, market, count);
                let account = tree.accounts[node as usize];
                let value = world.afterstate(tree.market(market), &account, edge as usize, raw);
                let after = tree.add_afterstate(node, edge, codes);
                let own = &mut tree.nodes[after as usize];
                (own.raw, own.value) = (value, value);
                tree.edge(node, edge).child = after;
                Leaf { root, node: after, edge: None }
            }
            Mode::Reference => {
                let (first, _) = tree.follow(world, known, market, 1);
                self.step(world, known, root, (node, edge), (node, edge), first);
                Leaf { root, node, edge: Some(edge) }
            }
            Mode::Honest { .. } => {
                let codes = tree.follow(world, known, market, count);
                let after = tree.add_afterstate(node, edge, codes);
                for code in 0..codes.1 as u32 {
                    self.step(world, known, root, (after, code), (node, edge), codes.0 + code);
                }
                self.trees[root].edge(node, edge).child = after | PENDING;
                Leaf { root, node, edge: Some(edge) }
            }
        }
    }

    /// A decision that follows from an action of another and a code; it is to be evaluated.
    fn step(
        &mut self,
        world: &W,
        known: &W::Known,
        root: usize,
        behind: (u32, u32),
        (decision, action): (u32, u32),
        place: u32,
    ) {
        let tree = &mut self.trees[root];
        let Node { market, depth, .. } = tree.nodes[decision as usize];
        let account = &tree.accounts[decision as usize];
        let step = world.step(known, account, action as usize, tree.market(market), tree.market(place));
        let child = tree.add_decision(world, known, behind, depth + 1, place, step.account);
        let edge = tree.edge(behind.0, behind.1);
        (edge.child, edge.reward, edge.discount) = (child, step.reward, step.discount);
        self.ask(world, known, root, child);
    }

    /// Shows a decision to the net.
    fn ask(&mut self, world: &W, known: &W::Known, root: usize, node: u32) {
        let tree = &self.trees[root];
        let at = self.shown.len();
        self.shown.resize(at + world.inputs(), 0.0);
        let market = tree.market(tree.nodes[node as usize].market);
        world.observe(known, market, &tree.accounts[node as usize], &mut self.shown[at..]);
        self.asked.push((root, node));
    }

    /// All that was asked for, in one product.
    fn evaluate<E: Evaluate>(&mut self, world: &W, evaluator: &mut E, settings: &Settings) -> Result<()> {
        if !is_lazy(settings, evaluator) {
            return self.evaluate_roots(world, evaluator, &[]);
        }
        self.values.resize(self.asked.len(), 0.0);
        if let Some(towers) = evaluator.towers().filter(|_| !self.asked.is_empty()) {
            towers.values(&self.shown, &mut self.values)?;
        }
        for ((root, node), value) in self.asked.iter().zip(&self.values) {
            self.trees[*root].valued(*node, *value);
        }
        self.shown.clear();
        self.asked.clear();
        Ok(())
    }

    /// The same where roots were asked for, in their order: what is believed of them beforehand is added.
    fn evaluate_roots<E: Evaluate>(&mut self, world: &W, evaluator: &mut E, roots: &[Root<W::Known>]) -> Result<()> {
        let (rows, actions) = (self.asked.len(), world.actions());
        self.logits.resize(rows * actions, 0.0);
        self.values.resize(rows, 0.0);
        if rows > 0 {
            evaluator.evaluate(&self.shown, &mut self.logits, &mut self.values)?;
        }
        for (root, logits) in roots.iter().zip(self.logits.chunks_exact_mut(actions)) {
            world.root_prior(&root.known, logits);
        }
        for (((root, node), logits), value) in
            self.asked.iter().zip(self.logits.chunks_exact(actions)).zip(&self.values)
        {
            self.trees[*root].evaluated(*node, logits, *value);
        }
        self.shown.clear();
        self.asked.clear();
        Ok(())
    }

    /// What all simulations under way found, in their order; `next` is the simulation that follows them.
    fn back_up(&mut self, settings: &Settings, next: usize) {
        for at in 0..self.leaves.len() {
            let Leaf { root, node, edge } = self.leaves[at];
            let tree = &mut self.trees[root];
            let found = match edge {
                None => node,
                Some(edge) => match settings.mode {
                    Mode::Reference => tree.edge(node, edge).child,
                    Mode::Honest { .. } => install(tree, node, edge),
                },
            };
            tree.back_up(settings.mode, found);
            if settings.mode == Mode::Reference && next < settings.simulations as usize {
                self.choose_ahead(settings, root, found, next);
            }
        }
        self.leaves.clear();
        self.choose_in_lanes();
    }

    /// Every node on the way that was backed up chooses what the next simulation takes. These choices do not wait for
    /// each other, as those on a way down do, so those of Gumbel MuZero are made in lanes.
    fn choose_ahead(&mut self, settings: &Settings, root: usize, end: u32, simulation: usize) {
        let has_lanes = matches!(settings.rule, RootRule::Gumbel { .. });
        let mut node = end;
        while node != NONE {
            let tree = &mut self.trees[root];
            let own = &tree.nodes[node as usize];
            let parent = own.parent;
            if has_lanes && own.decision && parent != NONE && node != end {
                self.lanes.set(self.ahead.len(), own, tree.edges_of(node));
                self.ahead.push((root, node));
                if self.ahead.len() == LANES {
                    self.choose_in_lanes();
                }
            } else {
                self.trees[root].nodes[node as usize].next = self.choose(settings, root, node, simulation);
            }
            node = parent;
        }
    }

    fn choose_in_lanes(&mut self) {
        if !self.ahead.is_empty() {
            for ((root, node), edge) in self.ahead.drain(..).zip(self.lanes.choose()) {
                self.trees[root].nodes[node as usize].next = edge;
            }
        }
    }
}

/// Whether leaves are asked for values alone, and decisions for priors when a simulation goes through them.
fn is_lazy<E: Evaluate>(settings: &Settings, evaluator: &mut E) -> bool {
    settings.mode == (Mode::Honest { in_flight: 1 }) && evaluator.towers().is_some()
}

/// An afterstate whose codes have all been evaluated takes its place, unless it has; which node it is.
fn install<W: World>(tree: &mut Tree<W>, node: u32, edge: u32) -> u32 {
    let child = tree.edge(node, edge).child;
    if child & PENDING == 0 {
        return child;
    }
    let after = child & !PENDING;
    let Node { first, edges, .. } = tree.nodes[after as usize];
    for at in first as usize..first as usize + usize::from(edges) {
        let child = tree.edges[at].child as usize;
        tree.edges[at].value = tree.nodes[child].value;
    }
    let mean = tree.mean_over_codes(after);
    let own = &mut tree.nodes[after as usize];
    (own.raw, own.value) = (mean, mean);
    let to = tree.edge(node, edge);
    (to.child, to.value) = (after, mean);
    after
}
