//! Gumbel MuZero's rule below the root for sixteen nodes at once: the twin of `select::gumbel_interior`, to the bit.
//!
//! One choice is a chain of sums, divisions and exponentials, each of which waits for the one before, and what was
//! tried cannot be predicted. Over lanes every step is a loop without a branch, so compilers make vectors of it.
//!
//! Numbers are finite: 0 is a factor where one does not count. Visits are counted in f32, which is exact below 2^24.

use crate::select::{TINY, VALUE_SCALE, VISITS_AT_FIRST};
use crate::tree::{Edge, Node};

/// Nodes that are chosen at together.
pub(crate) const LANES: usize = 16;

type Lane = [f32; LANES];

/// One action of all nodes.
#[derive(Debug, Clone, Copy)]
struct Action {
    visits: Lane,
    prior: Lane,
    logit: Lane, // of one that is not legal so small that e^logit is 0
    q: Lane,     // becomes the improved policy
}

/// Nodes that wait for a choice. A lane that was not set has the numbers of an earlier node.
#[derive(Debug)]
pub(crate) struct Lanes {
    raw: Lane,
    legal: [u32; LANES],
    actions: Vec<Action>,
}

impl Lanes {
    pub(crate) fn new(actions: usize) -> Lanes {
        let zero = [0.0; LANES];
        let action = Action { visits: zero, prior: zero, logit: zero, q: zero };
        Lanes { raw: zero, legal: [0; LANES], actions: vec![action; actions] }
    }

    /// Puts a node, of which an action was tried, into a lane.
    pub(crate) fn set(&mut self, lane: usize, node: &Node, edges: &[Edge]) {
        (self.raw[lane], self.legal[lane]) = (node.raw, node.legal);
        for (own, edge) in self.actions.iter_mut().zip(edges) {
            own.visits[lane] = edge.visits as f32;
            own.prior[lane] = edge.prior;
            own.logit[lane] = edge.logit;
            own.q[lane] = edge.q();
        }
    }

    /// The action that each node takes: visits shall become as the improved policy is.
    pub(crate) fn choose(&mut self) -> [u32; LANES] {
        let [mut visits, mut most_visits, mut priors, mut weighted] = [[0.0; LANES]; 4];
        for own in &mut self.actions {
            // Factors, as no branch on them could be predicted: 1 where an action was tried.
            let tried = lane(|l| smaller(own.visits[l], 1.0));
            let prior = lane(|l| tried[l] * larger(own.prior[l], f32::MIN_POSITIVE));
            own.q = lane(|l| tried[l] * own.q[l]);
            visits = lane(|l| visits[l] + own.visits[l]);
            most_visits = lane(|l| larger(own.visits[l], most_visits[l]));
            priors = lane(|l| priors[l] + prior[l]);
            weighted = lane(|l| weighted[l] + prior[l] * own.q[l]);
        }
        let mixed = lane(|l| (self.raw[l] + visits[l] * (weighted[l] / priors[l])) / (visits[l] + 1.0));
        let (mut least, mut most) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        for own in &mut self.actions {
            own.q = lane(|l| own.q[l] + (1.0 - smaller(own.visits[l], 1.0)) * mixed[l]);
            least = lane(|l| smaller(own.q[l], least[l]));
            most = lane(|l| larger(own.q[l], most[l]));
        }
        let scale = lane(|l| (VISITS_AT_FIRST + most_visits[l]) * VALUE_SCALE / larger(most[l] - least[l], TINY));
        let mut top = [f32::NEG_INFINITY; LANES];
        for own in &mut self.actions {
            own.q = lane(|l| scale[l] * (own.q[l] - least[l]) + own.logit[l]);
            top = lane(|l| larger(own.q[l], top[l]));
        }
        let mut sum = [0.0; LANES];
        for own in &mut self.actions {
            let exponents = lane(|l| own.q[l] - top[l]);
            own.q = exponents.map(f32::exp);
            sum = lane(|l| sum[l] + own.q[l]);
        }
        let share = lane(|l| 1.0 / (1.0 + visits[l]));
        let (mut found, mut best) = (self.legal.map(u32::trailing_zeros), [f32::NEG_INFINITY; LANES]);
        for (action, own) in (0..).zip(&self.actions) {
            let barrier = lane(|l| if self.legal[l] >> action & 1 != 0 { 0.0 } else { f32::NEG_INFINITY });
            let scores = lane(|l| own.q[l] / sum[l] - own.visits[l] * share[l] + barrier[l]);
            found = std::array::from_fn(|l| if scores[l] > best[l] { action } else { found[l] });
            best = lane(|l| larger(scores[l], best[l]));
        }
        found
    }
}

#[inline(always)]
fn lane(of: impl Fn(usize) -> f32) -> Lane {
    std::array::from_fn(of)
}

/// The larger of two numbers; one instruction, which `f32::max` is not.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The smaller of two numbers.
#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select;
    use crate::tree::NONE;

    #[test]
    fn lanes_choose_as_one_node_does() {
        let mut random = random::SplitMix::new(7);
        for actions in [1, 2, 3, 5, 20, 32] {
            let mut lanes = Lanes::new(actions);
            for round in 0..200 {
                let mut wanted = [0; LANES];
                for (l, wanted) in wanted.iter_mut().enumerate() {
                    let all = u32::MAX >> (32 - actions);
                    let legal = if l % 2 == 0 || actions == 1 { all } else { all & !(1 << (l % actions)) };
                    let mut edge = |action: usize| {
                        let is_legal = legal >> action & 1 != 0;
                        let logit = if is_legal { -((action * 7 + l) as f32 % 5.0) } else { f32::MIN };
                        Edge {
                            child: NONE,
                            visits: if is_legal { (random.unit() * 4.0) as u32 } else { 0 },
                            logit,
                            prior: logit.exp(),
                            value: random.unit() as f32,
                            reward: if round % 3 == 0 { 0.0 } else { random.unit() as f32 - 0.5 },
                            discount: if round % 5 == 0 { 0.0 } else { 0.99 },
                        }
                    };
                    let mut edges: Vec<Edge> = (0..actions).map(&mut edge).collect();
                    edges[legal.trailing_zeros() as usize].visits += 1;
                    let node = Node { legal, raw: 0.3, ..Node::default() };
                    lanes.set(l, &node, &edges);
                    *wanted = select::gumbel_interior(&node, &edges) as u32;
                }
                assert_eq!(lanes.choose(), wanted, "{actions} actions, round {round}");
            }
        }
    }
}
