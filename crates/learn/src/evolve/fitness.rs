//! How fit an individual is: what its accounts made of their spans, costs included.
//!
//! ```text
//! growth    Σ r / steps                    r the logarithmic growth of equity in a step
//! drawdown  (Σ r - λ Σ w) / steps          w the largest logarithmic drawdown of an account in its span
//! sharpe    mean(r) / √(variance(r) + v)   over the steps of all accounts; v is that of moves of a basis point
//! ```

use super::fused_simd::add_growth;
use std::ops::Range;

/// What individuals are ranked by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fitness {
    /// The mean growth of a step.
    Growth,
    /// The same, less this many times the largest drawdowns.
    Drawdown(f32),
    /// The Sharpe ratio of a step.
    Sharpe,
}

/// A variance that no policy comes below: who hardly trades must not look safe.
const VARIANCE: f64 = 1e-8;

/// What accounts made of their spans so far; each array is `[accounts]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tallies {
    grown: Vec<f64>,
    squares: Vec<f64>,
    /// How far below its peak an account is, and was at worst.
    below: Vec<f64>,
    worst: Vec<f64>,
}

impl Tallies {
    pub(super) fn new(accounts: usize) -> Tallies {
        let none = || vec![0.0; accounts];
        Tallies { grown: none(), squares: none(), below: none(), worst: none() }
    }

    /// New spans begin.
    pub(super) fn clear(&mut self) {
        for own in [&mut self.grown, &mut self.squares, &mut self.below, &mut self.worst] {
            own.fill(0.0);
        }
    }

    /// Takes a step of all accounts in; a growth of 0 changes nothing.
    #[inline]
    pub(super) fn add(&mut self, growth: &[f64]) {
        add_growth(growth, &mut self.grown, &mut self.squares, &mut self.below, &mut self.worst);
    }
}

impl Fitness {
    /// Of an individual whose accounts took so many steps in all, in the order of the accounts.
    pub(super) fn of(self, tallies: &Tallies, accounts: Range<usize>, steps: u64) -> f64 {
        let sum = |of: &[f64]| of[accounts.clone()].iter().sum::<f64>();
        let (grown, steps) = (sum(&tallies.grown), steps.max(1) as f64);
        match self {
            Fitness::Growth => grown / steps,
            Fitness::Drawdown(weight) => (grown - f64::from(weight) * sum(&tallies.worst)) / steps,
            Fitness::Sharpe => {
                let mean = grown / steps;
                let variance = (sum(&tallies.squares) / steps - mean * mean).max(0.0);
                mean / (variance + VARIANCE).sqrt()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitness_is_what_it_says() {
        let tally = |moves: &[[f64; 2]]| {
            let mut tallies = Tallies::new(2);
            tallies.add(&[0.5, 0.5]);
            tallies.clear();
            moves.iter().for_each(|r| tallies.add(r));
            tallies
        };
        let all = tally(&[[0.01, -0.01], [-0.02, 0.0], [-0.01, 0.02], [0.03, 0.0]]);
        assert!((Fitness::Growth.of(&all, 0..2, 8) - 0.02 / 8.0).abs() < 1e-15);
        assert!((Fitness::Growth.of(&all, 1..2, 4) - 0.01 / 4.0).abs() < 1e-15);
        // From the peak of the first: -0.03; from the start of the second: -0.01.
        assert!((Fitness::Drawdown(2.0).of(&all, 0..2, 8) - (0.02 - 0.08) / 8.0).abs() < 1e-15);
        let variance = 0.002 / 8.0 - 0.0025f64.powi(2);
        let sharpe = 0.0025 / (variance + VARIANCE).sqrt();
        assert!((Fitness::Sharpe.of(&all, 0..2, 8) - sharpe).abs() < 1e-12);
        let flat = tally(&[[0.0; 2]; 4]);
        for fitness in [Fitness::Growth, Fitness::Drawdown(1.0), Fitness::Sharpe] {
            assert_eq!(fitness.of(&flat, 0..2, 8), 0.0);
        }
    }
}
