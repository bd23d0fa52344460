//! How long spans are: as many steps as were set, or as many as the stretch has that an account begins on.

use super::Hypers;
use crate::Problem;
use crate::policies::stretches;
use features::Fold;
use market::count_starts;
use std::ops::Range;

/// Steps of the longest span that some fold has room for in training, on rows that are neighbours.
pub fn longest_span(problem: &Problem, folds: &[Fold]) -> u32 {
    let rows_of = |fold: &Fold| {
        let mut rows: Vec<u32> = fold.train.iter().map(|at| problem.samples.rows[*at as usize]).collect();
        rows.sort_unstable();
        rows
    };
    let all = folds.iter().flat_map(|fold| stretches(&rows_of(fold)));
    all.map(|stretch| stretch.len() as u32 - 1).max().unwrap_or(0)
}

/// Steps that all accounts of all individuals take in a generation on these stretches, in the mean over where spans
/// begin: it follows from the data, whatever is drawn.
pub(super) fn mean_steps(hypers: &Hypers, stretches: &[Range<u32>]) -> f64 {
    let (mut before, mut sum) = (0, 0.0);
    for (stretch, upto) in stretches.iter().zip(count_starts(stretches, hypers.n_steps)) {
        sum += (upto - before) as f64 * f64::from(hypers.n_steps.min(stretch.len() as u32 - 1));
        before = upto;
    }
    f64::from(hypers.population) * f64::from(hypers.n_envs) * sum / before.max(1) as f64
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
        let longest = train.iter().map(|stretch| stretch.len() - 1).max();
        assert_eq!((longest_span(&problem, &folds), train.len()), (longest.unwrap() as u32, 2));
        for (n_steps, is_exact) in [(20, true), (longest_span(&problem, &folds), false)] {
            let (population, n_envs, sigma, rank) = (6, 4, 0.1, 0);
            let hypers = Hypers { algorithm, population, sigma, rank, n_envs, n_steps, actions, fitness };
            let (mut spans, mut taken) = (Spans::default(), 0);
            const GENERATIONS: u32 = 500;
            for generation in 0..GENERATIONS {
                spans.draw(&data, &train, &hypers, 7, [1, generation]);
                taken += u64::from(population) * spans.all();
            }
            let (mean, counted) = (taken as f64 / f64::from(GENERATIONS), mean_steps(&hypers, &train));
            let near = if is_exact { 0.0 } else { 0.03 * counted };
            assert!((mean - counted).abs() <= near, "{n_steps} steps: {mean} and {counted}");
            assert!(counted <= hypers.steps() as f64 && is_exact == (counted == hypers.steps() as f64), "{counted}");
        }
    }
}
