//! Symbols that go together, found again and again from the past alone.
//!
//! Time is counted in steps of one bar's length. At the first tick of every fifth part of the window (counted from
//! 1970, so that where the data begin does not matter) the returns of the last `window` steps that had any bar and were
//! over are looked at: what a symbol did less the mean of all, scaled to unit length. A step in which a symbol has no
//! bar counts nothing for it; one that misses more than half of them has no cluster. Ward's tree (Ward 1963;
//! nearest-neighbour chains, Murtagh 1983) is grown over the correlations, ties to the first name, and a symbol's
//! cluster is the smallest branch it is on that has at least `size` symbols: every symbol has one that is large enough,
//! and no number of clusters is to be chosen.

use super::cross::Cross;
use rayon::prelude::*;

/// The clusters of all times.
pub(super) struct Clusters {
    /// First tick at which each holds, rising.
    from: Vec<usize>,
    each: Vec<Grouping>,
}

/// The clusters of one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Grouping {
    /// `[S]` which set a symbol sees.
    pub(super) of: Vec<Option<usize>>,
    /// Symbols by name. Sets may lie in each other.
    pub(super) sets: Vec<Vec<usize>>,
}

impl Clusters {
    /// Those that hold at a tick.
    pub(super) fn at(&self, tick: usize) -> Option<&Grouping> {
        self.from.partition_point(|from| *from <= tick).checked_sub(1).map(|at| &self.each[at])
    }
}

/// Clusters of the symbols by their returns over one bar, which are the own values at that place.
pub(super) fn clusters(cross: &Cross<'_>, own: &[Vec<Vec<f64>>], at: usize, window: usize, size: usize) -> Clusters {
    let times = &cross.clock.times;
    let length = cross.market.first().map_or(1, |bars| bars.timeframe.ns().max(1));
    // [T] the step of each tick, counted over those that have one; [steps] their first ticks.
    let (mut step, mut first): (Vec<usize>, Vec<usize>) = (Vec::with_capacity(times.len()), Vec::new());
    let (mut from, mut ends) = (Vec::new(), Vec::new());
    let part = (window / 5).max(1) as i64 * length;
    for (tick, time) in times.iter().enumerate() {
        let before = tick.checked_sub(1).map(|t| times[t]);
        if before.is_none_or(|b| b.div_euclid(length) != time.div_euclid(length)) {
            first.push(tick);
        }
        step.push(first.len() - 1);
        if before.is_none_or(|b| b.div_euclid(part) != time.div_euclid(part)) {
            from.push(tick);
            ends.push(first.len() - 1);
        }
    }
    let group = |end: &usize| {
        let Some(begin) = end.checked_sub(window) else { return Grouping::default_of(cross.market.len()) };
        let ticks = first[begin] as u32..first[*end] as u32;
        // [S][window] by name, NaN where there is no bar
        let mut moves: Vec<Vec<f64>> = Vec::with_capacity(cross.order.len());
        for s in &cross.order {
            let rows = cross.clock.rows(*s);
            let known = &cross.clock.tick[rows.clone()];
            let (a, b) = (known.partition_point(|t| *t < ticks.start), known.partition_point(|t| *t < ticks.end));
            let mut mine = vec![f64::NAN; window];
            for row in a..b {
                let value = own[*s][at][row];
                if value.is_finite() && cross.is_member(*s, row) {
                    let sum = &mut mine[step[known[row] as usize] - begin];
                    *sum = if sum.is_nan() { value } else { *sum + value };
                }
            }
            moves.push(mine);
        }
        let found = grouping(moves, size);
        // From places among the names to symbols.
        let mut of = vec![None; cross.market.len()];
        found.of.iter().zip(&cross.order).for_each(|(set, s)| of[*s] = *set);
        Grouping { of, sets: found.sets.iter().map(|set| set.iter().map(|i| cross.order[*i]).collect()).collect() }
    };
    Clusters { each: ends.par_iter().map(group).collect(), from }
}

impl Grouping {
    fn default_of(symbols: usize) -> Grouping {
        Grouping { of: vec![None; symbols], sets: Vec::new() }
    }
}

/// Groups series (`[S][window]`, NaN where there is no value).
pub(super) fn grouping(mut moves: Vec<Vec<f64>>, size: usize) -> Grouping {
    let none = Grouping::default_of(moves.len());
    let window = moves.first().map_or(0, Vec::len);
    for t in 0..window {
        let there = moves.iter().map(|m| m[t]).filter(|x| !x.is_nan());
        let (sum, n) = there.fold((0.0, 0usize), |(sum, n), x| (sum + x, n + 1));
        if n > 0 {
            moves.iter_mut().for_each(|m| m[t] -= sum / n as f64);
        }
    }
    let unit = |m: &Vec<f64>| {
        let (sum, n) = m.iter().filter(|x| !x.is_nan()).fold((0.0, 0usize), |(sum, n), x| (sum + x, n + 1));
        let mean = sum / n.max(1) as f64;
        let away: Vec<f64> = m.iter().map(|x| if x.is_nan() { 0.0 } else { x - mean }).collect();
        let norm = dot(&away, &away).sqrt();
        (2 * n >= window && norm > 0.0 && norm.is_finite())
            .then(|| away.into_iter().map(|x| x / norm).collect::<Vec<f64>>())
    };
    let units: Vec<(usize, Vec<f64>)> = moves.iter().enumerate().filter_map(|(i, m)| Some((i, unit(m)?))).collect();
    if units.len() < size.max(2) {
        return none;
    }
    let n = units.len();
    // [n, n] squared distances of points on the unit sphere.
    let mut apart = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..i {
            let d = 2.0 - 2.0 * dot(&units[i].1, &units[j].1);
            (apart[i * n + j], apart[j * n + i]) = (d, d);
        }
    }
    let tree = Tree::grow(n, apart);
    let mut grouping = none;
    let mut set_of = vec![None; tree.leaves.len()]; // of each branch that some symbol sees
    for (leaf, (i, _)) in units.iter().enumerate() {
        let mut branch = leaf;
        while tree.leaves[branch].len() < size && tree.parent[branch] != usize::MAX {
            branch = tree.parent[branch];
        }
        let set = *set_of[branch].get_or_insert_with(|| {
            let mut set: Vec<usize> = tree.leaves[branch].iter().map(|leaf| units[*leaf].0).collect();
            set.sort_unstable();
            grouping.sets.push(set);
            grouping.sets.len() - 1
        });
        grouping.of[*i] = Some(set);
    }
    grouping
}

/// Four sums side by side, added up at the end: one order, whatever the machine.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a, a_rest) = a.as_chunks::<4>();
    let (b, b_rest) = b.as_chunks::<4>();
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Ward's tree: leaves `0..n`, then branches in the order in which they were found.
struct Tree {
    /// `usize::MAX` for the root.
    parent: Vec<usize>,
    leaves: Vec<Vec<usize>>,
}

impl Tree {
    /// Grows it from squared distances, `[n, n]`.
    fn grow(n: usize, mut apart: Vec<f64>) -> Tree {
        let mut tree = Tree { parent: vec![usize::MAX; n], leaves: (0..n).map(|i| vec![i]).collect() };
        let mut node: Vec<usize> = (0..n).collect(); // which branch stands in each place
        let mut alive: Vec<usize> = (0..n).collect(); // places that still hold one, rising
        let mut chain: Vec<usize> = Vec::new();
        while alive.len() > 1 {
            let last = match chain.last() {
                Some(last) => *last,
                None => {
                    chain.push(alive[0]);
                    alive[0]
                }
            };
            // The nearest: of equals the one before it in the chain, else a circle would have no end; else the first.
            let before = chain.len().checked_sub(2).map(|at| chain[at]);
            let mut nearest = before;
            for other in alive.iter().copied().filter(|other| *other != last) {
                if nearest.is_none_or(|near| apart[last * n + other] < apart[last * n + near]) {
                    nearest = Some(other);
                }
            }
            let Some(near) = nearest else { break };
            if Some(near) != before {
                chain.push(near);
                continue;
            }
            // Each is the other's nearest: they become one, in the first of the two places.
            chain.truncate(chain.len() - 2);
            let (a, b) = (last.min(near), last.max(near));
            let (size_a, size_b) = (tree.leaves[node[a]].len() as f64, tree.leaves[node[b]].len() as f64);
            for k in alive.iter().copied().filter(|k| *k != a && *k != b) {
                let size = tree.leaves[node[k]].len() as f64;
                let d = ((size + size_a) * apart[k * n + a] + (size + size_b) * apart[k * n + b]
                    - size * apart[a * n + b])
                    / (size + size_a + size_b);
                (apart[k * n + a], apart[a * n + k]) = (d, d);
            }
            let branch = tree.parent.len();
            (tree.parent[node[a]], tree.parent[node[b]]) = (branch, branch);
            let both = [&tree.leaves[node[a]][..], &tree.leaves[node[b]]].concat();
            tree.parent.push(usize::MAX);
            tree.leaves.push(both);
            node[a] = branch;
            alive.retain(|place| *place != b);
        }
        tree
    }
}
