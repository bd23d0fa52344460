//! Fitness by rank alone: outliers count no more than others, and equals count the same.

/// `[n]` ranks from 0 for the least fit; equals have the mean of their ranks. What is not a number is the least fit.
pub fn mean_ranks(fitness: &[f64]) -> Vec<f64> {
    let value = |at: usize| if fitness[at].is_nan() { f64::NEG_INFINITY } else { fitness[at] };
    let mut order: Vec<usize> = (0..fitness.len()).collect();
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    let mut ranks = vec![0.0; fitness.len()];
    let mut first = 0;
    // As numbers 0 and -0 are equals, though one comes before the other.
    for equals in order.chunk_by(|a, b| value(*a) == value(*b)) {
        let mean = first as f64 + (equals.len() - 1) as f64 / 2.0;
        equals.iter().for_each(|at| ranks[*at] = mean);
        first += equals.len();
    }
    ranks
}

/// `[n]` ranks from -½ to ½.
pub fn centred_ranks(fitness: &[f64]) -> Vec<f64> {
    let most = (fitness.len().max(2) - 1) as f64;
    mean_ranks(fitness).into_iter().map(|rank| rank / most - 0.5).collect()
}

/// `[n]` weights by rank: `of_rank` `[n]` begins with the fittest; equals share what their ranks have.
pub fn weights_by_rank(fitness: &[f64], of_rank: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; of_rank.len() + 1];
    for (at, weight) in of_rank.iter().enumerate() {
        sums[at + 1] = sums[at] + weight;
    }
    let ranks = mean_ranks(fitness);
    let mut counts = std::collections::BTreeMap::<u64, usize>::new();
    // Ranks are halves from 0 on, which their bits order as they are.
    ranks.iter().for_each(|rank| *counts.entry(rank.to_bits()).or_default() += 1);
    let most = of_rank.len().saturating_sub(1) as f64;
    let weight = |rank: &f64| {
        let equals = counts[&rank.to_bits()];
        if equals == 1 {
            return of_rank[(most - rank) as usize];
        }
        let first = (most - rank - (equals - 1) as f64 / 2.0) as usize;
        (sums[first + equals] - sums[first]) / equals as f64
    };
    ranks.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_share_their_ranks() {
        assert_eq!(mean_ranks(&[3.0, 1.0, 3.0, f64::NAN, 2.0]), [3.5, 1.0, 3.5, 0.0, 2.0]);
        assert_eq!(mean_ranks(&[0.0, -0.0, 1.0]), [0.5, 0.5, 2.0]);
        assert_eq!(centred_ranks(&[5.0, 4.0, 6.0]), [0.0, -0.5, 0.5]);
        assert_eq!(centred_ranks(&[7.0; 4]), [0.0; 4]);
        assert_eq!(centred_ranks(&[]), [0.0; 0]);
        assert_eq!(weights_by_rank(&[1.0, 3.0, 2.0], &[0.5, 0.3, 0.2]), [0.2, 0.5, 0.3]);
        let tied = weights_by_rank(&[1.0, 3.0, 3.0, 0.0], &[0.5, 0.3, 0.2, 0.0]);
        assert_eq!(tied, [0.2, 0.4, 0.4, 0.0]);
    }
}
