//! How fit an individual is: what its accounts made of their spans, costs included.
//!
//! ```text
//! growth    Σ r / steps                    r the logarithmic growth of equity in a step
//! drawdown  (Σ r - λ Σ w) / steps          w the largest logarithmic drawdown of an account in its span
//! sharpe    mean(r) / √(variance(r) + v)   over the steps of all accounts; v is that of moves of a basis point
//! ```

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

/// What an account made of its span so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Tally {
    grown: f64,
    squares: f64,
    /// How far below its peak the account is, and was at worst.
    below: f64,
    worst: f64,
}

impl Tally {
    /// Takes a step in.
    #[inline]
    pub(super) fn add(&mut self, growth: f64) {
        self.grown += growth;
        self.squares += growth * growth;
        let below = self.below - growth;
        self.below = if below > 0.0 { below } else { 0.0 };
        self.worst = if self.below > self.worst { self.below } else { self.worst };
    }
}

impl Fitness {
    /// Of an individual whose accounts took so many steps in all, in the order of the accounts.
    pub(super) fn of(self, tallies: &[Tally], steps: u64) -> f64 {
        let sum = |of: fn(&Tally) -> f64| tallies.iter().map(of).sum::<f64>();
        let (grown, steps) = (sum(|t| t.grown), steps.max(1) as f64);
        match self {
            Fitness::Growth => grown / steps,
            Fitness::Drawdown(weight) => (grown - f64::from(weight) * sum(|t| t.worst)) / steps,
            Fitness::Sharpe => {
                let mean = grown / steps;
                let variance = (sum(|t| t.squares) / steps - mean * mean).max(0.0);
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
        let tally = |moves: &[f64]| {
            let mut tally = Tally::default();
            moves.iter().for_each(|r| tally.add(*r));
            tally
        };
        let all = [tally(&[0.01, -0.02, -0.01, 0.03]), tally(&[-0.01, 0.0, 0.02, 0.0])];
        assert!((Fitness::Growth.of(&all, 8) - 0.02 / 8.0).abs() < 1e-15);
        // From the peak of the first: -0.03; from the start of the second: -0.01.
        assert!((Fitness::Drawdown(2.0).of(&all, 8) - (0.02 - 0.08) / 8.0).abs() < 1e-15);
        let variance = 0.002 / 8.0 - 0.0025f64.powi(2);
        let sharpe = 0.0025 / (variance + VARIANCE).sqrt();
        assert!((Fitness::Sharpe.of(&all, 8) - sharpe).abs() < 1e-12);
        let flat = [tally(&[0.0; 4])];
        for fitness in [Fitness::Growth, Fitness::Drawdown(1.0), Fitness::Sharpe] {
            assert_eq!(fitness.of(&flat, 4), 0.0);
        }
    }
}
