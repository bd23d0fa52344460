//! How long spans are: as many steps as were set, or as many as the stretch has that an account begins on.

use super::Hypers;
use crate::Problem;
use crate::policies::stretches;
use features::Fold;
use market::count_starts;
use std::ops::Range;
use std::sync::Arc;

/// What spans are cut by: the stretches of neighbouring rows, of at least two, that folds train on.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainStretches(Arc<[Vec<Range<u32>>]>); // [folds]

impl TrainStretches {
    /// Those of folds.
    pub fn new(problem: &Problem, folds: &[Fold]) -> TrainStretches {
        let rows_of = |fold: &Fold| {
            let mut rows: Vec<u32> = fold.train.iter().map(|at| problem.samples.rows[*at as usize]).collect();
            rows.sort_unstable();
            rows
        };
        TrainStretches::from_ranges(folds.iter().map(|fold| stretches(&rows_of(fold))).collect())
    }

    /// `[folds]` as ranges of rows.
    pub fn from_ranges(folds: Vec<Vec<Range<u32>>>) -> TrainStretches {
        TrainStretches(folds.into())
    }

    /// Steps of the longest span that some fold has room for.
    pub fn longest_span(&self) -> u32 {
        self.0.iter().flatten().map(|stretch| stretch.len() as u32 - 1).max().unwrap_or(0)
    }

    /// Steps of a span of `n_steps`, in the mean over where it begins and over folds.
    pub fn mean_span(&self, n_steps: u32) -> f64 {
        let all: f64 = self.0.iter().map(|own| mean_span(n_steps, own)).sum();
        all / self.0.len().max(1) as f64
    }
}

/// Steps of a span of `n_steps` on these stretches, in the mean over where it begins.
fn mean_span(n_steps: u32, stretches: &[Range<u32>]) -> f64 {
    let (mut before, mut sum) = (0, 0.0);
    for (stretch, upto) in stretches.iter().zip(count_starts(stretches, n_steps)) {
        sum += (upto - before) as f64 * f64::from(n_steps.min(stretch.len() as u32 - 1));
        before = upto;
    }
    sum / before.max(1) as f64
}

/// Steps that all accounts of all individuals take in a generation on these stretches, in the mean over where spans
/// begin: it follows from the data, whatever is drawn.
pub(super) fn mean_steps(hypers: &Hypers, stretches: &[Range<u32>]) -> f64 {
    f64::from(hypers.population) * f64::from(hypers.n_envs) * mean_span(hypers.n_steps, stretches)
}

#[cfg(test)]
mod tests {
    use super::super::rollout::Spans;
    use super::super::{Algorithm, Fitness};
    use super::*;
    use crate::ppo::Actions;
    use crate::ppo::card_tests::market;

    /// What is counted is what is taken: exactly where spans fit, in the mean over generations elsewhere.
    #[test]
    fn steps_are_those_that_accounts_take() {
        let (problem, data, folds) = market(9);
        let (algorithm, actions, fitness) = (Algorithm::OpenAi, Actions::Discrete, Fitness::Growth);
        let mut rows: Vec<u32> = folds[0].train.iter().map(|at| problem.samples.rows[*at as usize]).collect();
        rows.sort_unstable();
        let train = stretches(&rows);
        let longest = train.iter().map(|stretch| stretch.len() - 1).max().unwrap() as u32;
        let all = TrainStretches::new(&problem, &folds);
        assert_eq!((all.longest_span(), train.len()), (longest, 2));
        assert_eq!(all.mean_span(longest), mean_span(longest, &train), "one fold");
        for (n_steps, is_exact) in [(20, true), (longest, false)] {
            let (population, n_envs, sigma, rank) = (6, 4, 0.1, 0);
            let hypers = Hypers { algorithm, population, sigma, rank, n_envs, n_steps, actions, fitness };
            let (mut spans, mut taken) = (Spans::default(), 0);
            const GENERATIONS: u32 = 500;
            for generation in 0..GENERATIONS {
                spans.draw(&data, &train, &hypers, 7, [1, generation]);
                // The bar behind the last decision is trained on too, and of the same symbol.
                for ((first, steps), symbol) in spans.first.iter().zip(&spans.steps).zip(&spans.symbols) {
                    let own = train.iter().find(|stretch| stretch.contains(first));
                    assert!(own.is_some_and(|own| first + steps < own.end && *steps > 0), "{first} and {steps} steps");
                    assert_eq!([data.symbol(*first), data.symbol(first + steps)], [*symbol; 2]);
                }
                taken += u64::from(population) * spans.all();
            }
            let (mean, counted) = (taken as f64 / f64::from(GENERATIONS), mean_steps(&hypers, &train));
            let near = if is_exact { 0.0 } else { 0.03 * counted };
            assert!((mean - counted).abs() <= near, "{n_steps} steps: {mean} and {counted}");
            assert!(counted <= hypers.steps() as f64 && is_exact == (counted == hypers.steps() as f64), "{counted}");
        }
    }

    #[test]
    fn spans_are_cut_by_their_stretches() {
        // A span of 4 begins on any of 6 rows of the first stretch, or on the only one of the second, which has 2
        // steps.
        let one = vec![0..10, 20..23];
        let all = TrainStretches::from_ranges(vec![one.clone(), vec![0..10]]);
        assert_eq!(mean_span(4, &one), (6.0 * 4.0 + 2.0) / 7.0);
        assert_eq!((all.longest_span(), all.mean_span(4)), (9, (26.0 / 7.0 + 4.0) / 2.0));
        assert_eq!(TrainStretches::from_ranges(Vec::new()).longest_span(), 0);
    }
}
