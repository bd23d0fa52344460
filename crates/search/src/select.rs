//! Which edge a simulation takes: by prior, value and visits, by sequential halving, or the code that is due.
//!
//! The formulas are those of MuZero (Schrittwieser et al. 2020), Gumbel MuZero (Danihelka et al. 2022) and Stochastic
//! MuZero (Antonoglou et al. 2022), with values scaled as `mctx` scales them.

use crate::tree::{Edge, Node};

/// Actions of a decision, at most.
const MOST: usize = 32;
/// What is divided by where all values are the same.
pub(crate) const TINY: f32 = 1e-8;
/// Gumbel MuZero's scale of values: `(50 + most visits) / 10`.
pub(crate) const VISITS_AT_FIRST: f32 = 50.0;
pub(crate) const VALUE_SCALE: f32 = 0.1;

/// The action with the largest score; the first of equals.
fn best(legal: u32, scores: impl Iterator<Item = f32>) -> usize {
    let mut found = (legal.trailing_zeros() as usize, f32::NEG_INFINITY);
    for (action, score) in scores.enumerate() {
        if legal >> action & 1 != 0 && score > found.1 {
            found = (action, score);
        }
    }
    found.0
}

/// MuZero's rule: values scaled between the smallest and the largest of the node and its children.
pub(crate) fn puct(node: &Node, edges: &[Edge], init: f32, base: f32) -> usize {
    let visits = node.visits as f32;
    let weight = visits.sqrt() * (init + ((visits + base + 1.0) / base).ln());
    let seen = || edges.iter().filter(|edge| edge.visits > 0).map(Edge::q);
    let (least, most) = seen().fold((node.value, node.value), |(a, b), q| (a.min(q), b.max(q)));
    let spread = (most - least).max(TINY);
    best(
        node.legal,
        edges.iter().map(|edge| {
            let q = if edge.visits > 0 { edge.q() } else { least };
            (q - least) / spread + weight * edge.prior / (edge.visits as f32 + 1.0)
        }),
    )
}

/// Values of all actions as Gumbel MuZero sees them: those of actions not tried are a mixture of the node's own value
/// and the others', all are scaled to a range of 1, and they count more with visits.
#[inline(always)]
fn completed(node: &Node, edges: &[Edge]) -> [f32; MOST] {
    let (mut visits, mut most_visits, mut tried, mut weighted) = (0, 0, 0.0, 0.0);
    for edge in edges.iter().filter(|edge| edge.visits > 0) {
        let prior = edge.prior.max(f32::MIN_POSITIVE);
        visits += edge.visits;
        most_visits = most_visits.max(edge.visits);
        tried += prior;
        weighted += prior * edge.q();
    }
    let mean = if tried > 0.0 { weighted / tried } else { 0.0 };
    let mixed = (node.raw + visits as f32 * mean) / (visits as f32 + 1.0);
    let value = |edge: &Edge| if edge.visits > 0 { edge.q() } else { mixed };
    let (least, most) = edges
        .iter()
        .map(value)
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), q| (least.min(q), most.max(q)));
    let scale = (VISITS_AT_FIRST + most_visits as f32) * VALUE_SCALE / (most - least).max(TINY);
    let mut all = [0.0; MOST];
    all.iter_mut().zip(edges).for_each(|(to, edge)| *to = scale * (value(edge) - least));
    all
}

/// The root's rule of Gumbel MuZero: the best of those with so many visits.
pub(crate) fn gumbel_root(node: &Node, edges: &[Edge], gumbels: &[f32], visits: u32) -> usize {
    // Most worlds have three actions: compilers unroll loops of a known length.
    match edges {
        [_, _, _] => root_of(node, &edges[..3], gumbels, visits),
        _ => root_of(node, edges, gumbels, visits),
    }
}

#[inline(always)]
fn root_of(node: &Node, edges: &[Edge], gumbels: &[f32], visits: u32) -> usize {
    let values = completed(node, edges);
    let scores = edges.iter().zip(gumbels).zip(values).map(|((edge, gumbel), value)| {
        let score = (gumbel + edge.logit + value).max(-1e9);
        if edge.visits == visits { score } else { f32::NEG_INFINITY }
    });
    best(node.legal, scores)
}

/// The rule of Gumbel MuZero below the root: visits shall become as the improved policy is.
pub(crate) fn gumbel_interior(node: &Node, edges: &[Edge]) -> usize {
    let all: u32 = edges.iter().map(|edge| edge.visits).sum();
    if all == 0 {
        // All values are the same, so the improved policy is the prior.
        return best(node.legal, edges.iter().map(|edge| edge.prior));
    }
    let improved = improved(node, edges);
    let share = 1.0 / (1.0 + all as f32);
    best(node.legal, edges.iter().zip(improved).map(|(edge, p)| p - edge.visits as f32 * share))
}

/// The improved policy of Gumbel MuZero: priors and values together.
pub(crate) fn improved(node: &Node, edges: &[Edge]) -> [f32; MOST] {
    let mut all = completed(node, edges);
    let own = &mut all[..edges.len()];
    let mut most = f32::NEG_INFINITY;
    for (action, (to, edge)) in own.iter_mut().zip(edges).enumerate() {
        *to = if node.legal >> action & 1 != 0 { *to + edge.logit } else { f32::NEG_INFINITY };
        most = most.max(*to);
    }
    own.iter_mut().for_each(|to| *to = (*to - most).exp());
    let sum: f32 = own.iter().sum();
    own.iter_mut().for_each(|to| *to /= sum);
    all
}

/// The code that is due: the largest p / (n + 1), the first of equals.
pub(crate) fn due(edges: &[Edge]) -> usize {
    let mut found = (0, f32::NEG_INFINITY);
    for (code, edge) in edges.iter().enumerate() {
        let score = edge.prior / (edge.visits as f32 + 1.0);
        if score > found.1 {
            found = (code, score);
        }
    }
    found.0
}

/// `[simulations]` how many visits the action of each simulation has: sequential halving of `considered` actions.
pub(crate) fn halving(considered: usize, simulations: usize) -> Vec<u32> {
    if considered <= 1 {
        return (0..simulations as u32).collect();
    }
    let rounds = considered.next_power_of_two().trailing_zeros() as usize;
    let mut visits = vec![0u32; considered];
    let mut left = considered;
    let mut sequence = Vec::with_capacity(simulations + considered);
    while sequence.len() < simulations {
        for _ in 0..(simulations / (rounds * left)).max(1) {
            sequence.extend_from_slice(&visits[..left]);
            visits[..left].iter_mut().for_each(|n| *n += 1);
        }
        left = (left / 2).max(2);
    }
    sequence.truncate(simulations);
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_gives_every_round_its_visits() {
        assert_eq!(halving(1, 3), [0, 1, 2]);
        assert_eq!(halving(4, 8), [0, 0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(halving(3, 7), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(halving(16, 5), [0; 5]);
    }
}
