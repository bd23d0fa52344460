//! What decisions were worth: what their accounts really earned in the next bars, and the value behind them.

/// What one account went through in an iteration, `[steps]`.
#[derive(Debug, Clone, Default)]
pub(super) struct Course {
    /// What was earned in the step.
    pub(super) rewards: Vec<f64>,
    /// What the root was worth to the search.
    pub(super) values: Vec<f64>,
    /// What an episode that ended with the step left: nothing of a ruin, a value where it was cut off.
    pub(super) ends: Vec<Option<f64>>,
    /// The value behind the last step.
    pub(super) behind: f64,
}

impl Course {
    /// `[steps]` discounted rewards of the next `horizon` steps and the value behind them.
    pub(super) fn returns(&self, horizon: usize, gamma: f64) -> Vec<f64> {
        let steps = self.rewards.len();
        let from = |t: usize| {
            let (mut sum, mut weight) = (0.0, 1.0);
            for k in t..steps.min(t + horizon) {
                sum += weight * self.rewards[k];
                weight *= gamma;
                if let Some(value) = self.ends[k] {
                    return sum + weight * value;
                }
            }
            sum + weight * self.values.get(t + horizon).unwrap_or(&self.behind)
        };
        (0..steps).map(from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_end_with_the_episode_or_the_horizon() {
        let course = Course {
            rewards: vec![1.0, 2.0, 4.0, 8.0, 16.0],
            values: vec![0.0, 0.0, 0.0, 100.0, 0.0],
            ends: vec![None, Some(10.0), None, None, None],
            behind: 1000.0,
        };
        // The first episode ends with the second step; from the third on there is a horizon, or the end of the data.
        let expected = [1.0 + 1.0 + 0.25 * 10.0, 2.0 + 5.0, 4.0 + 4.0 + 4.0 + 125.0, 8.0 + 8.0 + 250.0, 16.0 + 500.0];
        assert_eq!(course.returns(3, 0.5), expected);
        assert_eq!(course.returns(1, 0.5)[2], 4.0 + 50.0);
    }
}
