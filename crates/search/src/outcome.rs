//! What a search says of its roots: visits, values, the improved policy, and the action to take.
//!
//! The best of several noisy values is too good: who chooses an action by the scenarios that also say what it is worth
//! sees an edge where there is none. So the scenarios of a root are dealt into two halves. Each half chooses, the other
//! says what its choice is worth beside keeping the position; the mean of the two is the cross-fitted advantage, and
//! the position changes only where it is above two standard errors, or where there are enough scenarios.
//!
//! A model of training rows may draw one of them for many scenarios, which then tell no more than one does. So what
//! counts are the different rows among the scenarios: they are to be enough, and all standard errors are as large as if
//! there were no others. With one different row they are infinite.
//!
//! The improved policy of the honest mode counts what an action is worth beside keeping the position in standard errors
//! over the scenarios: noise leaves the prior nearly as it is, whatever its size in money.

use crate::select;
use crate::settings::{ENOUGH_SCENARIOS, Mode, RootRule, Settings};
use crate::tree::{NONE, Tree};
use crate::world::World;

/// What a search found, `R` roots with `A` actions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcomes {
    /// How many actions there are.
    pub actions: usize,
    /// `[R, A]` simulations that began with the action.
    pub visits: Vec<u32>,
    /// `[R, A]` what the action is worth; 0 where it was not tried.
    pub q: Vec<f32>,
    /// `[R, A]` the improved policy, which a net can learn from.
    pub policy: Vec<f32>,
    /// `[R]` what the root is worth; in the honest mode by scenarios that did not choose.
    pub value: Vec<f32>,
    /// `[R]` what to do.
    pub chosen: Vec<u8>,
    /// `[R]` the action that keeps the position.
    pub held: Vec<u8>,
    /// `[R]` what the halves' choices are worth more than keeping the position, each on the other half; 0 in the
    /// reference mode.
    pub advantage: Vec<f32>,
    /// `[R]` its standard error, by the different rows among the scenarios.
    pub error: Vec<f32>,
}

impl Outcomes {
    /// How many roots there are.
    pub fn len(&self) -> usize {
        self.value.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Those of later roots behind these.
    pub fn append(&mut self, mut later: Outcomes) {
        self.actions = later.actions;
        self.visits.append(&mut later.visits);
        self.q.append(&mut later.q);
        self.policy.append(&mut later.policy);
        self.value.append(&mut later.value);
        self.chosen.append(&mut later.chosen);
        self.held.append(&mut later.held);
        self.advantage.append(&mut later.advantage);
        self.error.append(&mut later.error);
    }

    /// Puts one root behind these; `gumbels` is `[A]`.
    pub(crate) fn push<W: World>(&mut self, world: &W, tree: &Tree<W>, settings: &Settings, gumbels: &[f32]) {
        let edges = tree.edges_of(0);
        self.actions = edges.len();
        self.visits.extend(edges.iter().map(|edge| edge.visits));
        self.q.extend(edges.iter().map(|edge| if edge.child == NONE { 0.0 } else { edge.q() }));
        let held = world.held(&tree.accounts[0]);
        self.held.push(held as u8);
        match settings.mode {
            Mode::Reference => self.push_reference(tree, settings, gumbels, held),
            Mode::Honest { .. } => self.push_honest(world, tree, held),
        }
    }

    fn push_reference<W: World>(&mut self, tree: &Tree<W>, settings: &Settings, gumbels: &[f32], held: usize) {
        let (root, edges) = (&tree.nodes[0], tree.edges_of(0));
        let most = edges.iter().map(|edge| edge.visits).max().unwrap_or(0);
        let chosen = match settings.rule {
            RootRule::Gumbel { .. } => {
                self.policy.extend_from_slice(&select::improved(root, edges)[..edges.len()]);
                select::gumbel_root(root, edges, gumbels, most)
            }
            RootRule::Puct { .. } => {
                let all: u32 = edges.iter().map(|edge| edge.visits).sum();
                self.policy.extend(edges.iter().map(|edge| edge.visits as f32 / all as f32));
                edges.iter().position(|edge| edge.visits == most).unwrap_or(held)
            }
        };
        self.chosen.push(chosen as u8);
        self.value.push(root.value);
        self.advantage.push(0.0);
        self.error.push(0.0);
    }

    fn push_honest<W: World>(&mut self, world: &W, tree: &Tree<W>, held: usize) {
        let (root, edges) = (&tree.nodes[0], tree.edges_of(0));
        let (different, scenarios) = (different_scenarios(world, tree), tree.scenarios().count());
        let share = different as f64 / scenarios as f64;
        self.policy.extend(honest_policy(tree, held, share));
        let found = cross_fitted(tree, held, share);
        // Where they are enough, all scenarios together choose.
        let enough = different >= ENOUGH_SCENARIOS;
        let chosen = if enough {
            best(edges.iter().map(|edge| f64::from(edge.q())), root.legal, held)
        } else {
            let sure = found.choice.filter(|_| found.advantage > 2.0 * found.error);
            sure.unwrap_or(kept(root.legal, held))
        };
        self.chosen.push(chosen as u8);
        self.value.push(found.value as f32);
        self.advantage.push(found.advantage as f32);
        self.error.push(found.error as f32);
    }
}

/// Scenarios of a root, those that are the same training row counted once.
fn different_scenarios<W: World>(world: &W, tree: &Tree<W>) -> usize {
    let mut rows: Vec<u32> = tree.scenarios().filter_map(|market| world.row(market)).collect();
    let without_row = tree.scenarios().count() - rows.len();
    rows.sort_unstable();
    rows.dedup();
    without_row + rows.len()
}

/// The square of a mean's standard error. `spread` is the mean square of what terms differ from it by, `weight` and
/// `squares` are sums over their weights and the squares of these, `share` is that of different rows among them.
fn squared_error(spread: f64, weight: f64, squares: f64, share: f64) -> f64 {
    // They tell as much as so many different rows of equal weight and one; none but for rounding says nothing.
    let beside_one = weight * weight / squares * share - 1.0;
    if beside_one > 1e-6 { spread / beside_one } else { f64::INFINITY }
}

/// What two halves of the scenarios say of each other's choices.
struct CrossFitted {
    /// The action, where both halves choose the same.
    choice: Option<usize>,
    /// Mean worth of each half's choice on the other half.
    value: f64,
    advantage: f64,
    error: f64,
}

/// The best action; the one that is held where it is not worse.
fn best(values: impl Iterator<Item = f64>, legal: u32, held: usize) -> usize {
    let values: Vec<f64> = values.collect();
    let is_legal = |action: usize| legal >> action & 1 != 0;
    let first = if is_legal(held) { held } else { legal.trailing_zeros() as usize };
    (0..values.len()).filter(|a| is_legal(*a)).fold(first, |best, a| if values[a] > values[best] { a } else { best })
}

/// The position that is kept: the one that is held, or the first legal one.
pub(crate) fn kept(legal: u32, held: usize) -> usize {
    if legal >> held & 1 != 0 { held } else { legal.trailing_zeros() as usize }
}

/// Standard errors that count, at most: beyond them an action is as sure as it can be.
const SURE: f64 = 8.0;

/// `[A]` the prior, moved by what each action is worth more than keeping the position, in standard errors.
fn honest_policy<W: World>(tree: &Tree<W>, held: usize, share: f64) -> Vec<f32> {
    let (legal, edges) = (tree.nodes[0].legal, tree.edges_of(0));
    let codes_of = |action: usize| tree.edges_of(edges[action].child);
    let keep = kept(legal, held);
    let score = |action: usize| {
        if legal >> action & 1 == 0 {
            return f64::NEG_INFINITY;
        }
        let gains = || {
            let pairs = codes_of(action).iter().zip(codes_of(keep));
            pairs.map(|(own, kept)| (f64::from(own.prior), f64::from(own.q() - kept.q())))
        };
        let mean: f64 = gains().map(|(p, gain)| p * gain).sum();
        let spread: f64 = gains().map(|(p, gain)| p * (gain - mean).powi(2)).sum();
        let (weight, squares) = gains().fold((0.0, 0.0), |(sum, squares), (p, _)| (sum + p, squares + p * p));
        let error = squared_error(spread, weight, squares, share).sqrt();
        let counted = if mean == 0.0 { 0.0 } else { (mean / error).clamp(-SURE, SURE) };
        f64::from(edges[action].logit) + counted
    };
    let scores: Vec<f64> = (0..edges.len()).map(score).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|z| (z - most).exp()).sum();
    scores.iter().map(|z| ((z - most).exp() / sum) as f32).collect()
}

fn cross_fitted<W: World>(tree: &Tree<W>, held: usize, share: f64) -> CrossFitted {
    let (root, edges) = (&tree.nodes[0], tree.edges_of(0));
    let legal = root.legal;
    let keep = kept(legal, held);
    let codes: Vec<&[crate::tree::Edge]> =
        edges.iter().map(|edge| if edge.child == NONE { &[][..] } else { tree.edges_of(edge.child) }).collect();
    // Scenario c belongs to half c % 2; each half's weights add up to 1.
    let mean = |half: usize, f: &dyn Fn(usize) -> f64| {
        let own = codes[keep].iter().enumerate().skip(half).step_by(2);
        let (sum, weight) = own.fold((0.0, 0.0), |(sum, weight), (c, edge)| {
            let p = f64::from(edge.prior);
            (sum + p * f(c), weight + p)
        });
        if weight > 0.0 { sum / weight } else { 0.0 }
    };
    let q = |action: usize, c: usize| f64::from(codes[action][c].q());
    let choose = |half: usize| {
        let values = (0..edges.len()).map(|a| if legal >> a & 1 != 0 { mean(half, &|c| q(a, c)) } else { f64::NAN });
        best(values, legal, keep)
    };
    let choices = [choose(0), choose(1)];
    // What the choice of one half is worth on the other: worth, advantage, and the square of its standard error.
    let judged = |half: usize| {
        let (action, other) = (choices[half], 1 - half);
        let gain = |c: usize| q(action, c) - q(keep, c);
        let advantage = mean(other, &gain);
        let spread = mean(other, &|c| (gain(c) - advantage).powi(2));
        let own = || codes[keep].iter().skip(other).step_by(2).map(|edge| f64::from(edge.prior));
        let (weight, squares) = own().fold((0.0, 0.0), |(sum, squares), p| (sum + p, squares + p * p));
        (mean(other, &|c| q(action, c)), advantage, squared_error(spread, weight, squares, share))
    };
    let [(a, gain_a, square_a), (b, gain_b, square_b)] = [judged(0), judged(1)];
    // Halves of one row cannot judge; a change is then never sure.
    CrossFitted {
        choice: (choices[0] == choices[1]).then_some(choices[0]),
        value: 0.5 * (a + b),
        advantage: 0.5 * (gain_a + gain_b),
        error: 0.5 * (square_a + square_b).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that come several times each have the error of the rows alone.
    #[test]
    fn the_standard_error_is_that_of_different_rows() {
        for different in [2, 3, 10, 100] {
            let rows: Vec<f64> = (0..different).map(|i| f64::from(i * i % 7)).collect();
            let n = f64::from(different);
            let mean = rows.iter().sum::<f64>() / n;
            let squares = rows.iter().map(|row| (row - mean).powi(2)).sum::<f64>();
            for each in [1.0, 4.0, 64.0] {
                // The weights of a mean do not change its error.
                for weight in [1.0, 0.5, 1.0 / n] {
                    let error = squared_error(squares / n, n * each * weight, n * each * weight * weight, 1.0 / each);
                    let wanted = squares / (n - 1.0) / n;
                    assert!((error - wanted).abs() <= 1e-12 * wanted, "{different} rows {each} times");
                }
            }
        }
        assert_eq!(squared_error(0.0, 512.0, 512.0, 1.0 / 512.0), f64::INFINITY);
        assert_eq!(squared_error(0.0, 0.0, 0.0, 1.0), f64::INFINITY);
    }
}
