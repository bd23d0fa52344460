//! What a step is worth, from the growth of equity in it. The sum over an episode is what each claims to be:
//!
//! ```text
//! growth    r                        Σ = ln(E_T / E_0)
//! drawdown  r - λ·(w_t - w_{t-1})    Σ = ln(E_T / E_0) - λ·w_T,  w the largest logarithmic drawdown so far
//! sharpe    (S_t - S_{t-1}) / η      Σ = (S_T - S_0) / η,  S the Sharpe ratio with a memory of 1/η steps
//! ```
//!
//! The last is the differential Sharpe ratio (Moody and Saffell 1998, <https://doi.org/10.1109/72.935097>) with whole
//! steps in place of derivatives, so that nothing of it is approximate.

/// What a step is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reward {
    /// The growth of equity.
    Growth,
    /// Growth, less this many times what the largest drawdown grew by.
    Drawdown(f32),
    /// How much the Sharpe ratio of the last steps rose.
    Sharpe,
}

/// What a step moves a running mean by; a hundred steps are remembered.
const MEMORY: f64 = 0.01;

/// The variance of a step before any is known: moves of 10 basis points.
const VARIANCE: f64 = 1e-6;

/// What an account remembers in an episode.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct RewardState(pub(super) [f64; 2]);

impl Reward {
    /// The reward of a step in which the logarithm of equity grew by `growth`.
    pub(super) fn step(self, state: &mut RewardState, growth: f64) -> f64 {
        let [a, b] = &mut state.0;
        match self {
            Reward::Growth => growth,
            Reward::Drawdown(weight) => {
                // How far below the peak, and the furthest so far.
                *a = (*a - growth).max(0.0);
                let worse = (*a - *b).max(0.0);
                *b += worse;
                growth - f64::from(weight) * worse
            }
            Reward::Sharpe => {
                // Means of the growth and of its square, the second without what it is before any step.
                let ratio = |a: f64, b: f64| a / (b + VARIANCE - a * a).max(VARIANCE * 1e-3).sqrt();
                let before = ratio(*a, *b);
                *a += MEMORY * (growth - *a);
                *b += MEMORY * (growth * growth - VARIANCE - *b);
                (ratio(*a, *b) - before) / MEMORY
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_add_up_to_what_they_claim() {
        let mut random = random::SplitMix::new(2);
        let growth: Vec<f64> = (0..500).map(|_| (random.unit() - 0.48) * 0.01).collect();
        let total: f64 = growth.iter().sum();
        let sum = |reward: Reward| {
            let mut state = RewardState::default();
            growth.iter().map(|r| reward.step(&mut state, *r)).sum::<f64>()
        };
        assert!((sum(Reward::Growth) - total).abs() < 1e-12);
        let (mut equity, mut peak, mut worst) = (0.0f64, 0.0f64, 0.0f64);
        for r in &growth {
            equity += r;
            peak = peak.max(equity);
            worst = worst.max(peak - equity);
        }
        assert!(worst > 0.01 && (sum(Reward::Drawdown(2.0)) - (total - 2.0 * worst)).abs() < 1e-12);
        let (mut mean, mut square) = (0.0, VARIANCE);
        for r in &growth {
            mean += MEMORY * (r - mean);
            square += MEMORY * (r * r - square);
        }
        let last = mean / (square - mean * mean).sqrt();
        assert!((sum(Reward::Sharpe) * MEMORY - last).abs() < 1e-9, "{} and {last}", sum(Reward::Sharpe));
    }
}
