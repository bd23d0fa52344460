//! How much better an action was than expected: generalised advantage estimation, backwards through time.

/// How an episode went on behind a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It goes on.
    Not,
    /// The account was ruined: nothing follows.
    Terminated,
    /// It was cut off: what would have followed is estimated from its own last observation.
    Truncated,
}

/// Advantages of `n` accounts over the steps of a rollout, all `[steps, n]`; `last` `[n]` are the values behind the
/// last step, `cut` the value of the last observation of an episode that was cut off at a step. Added to `values` they
/// are the returns that values are fitted to.
pub fn advantages(
    rewards: &[f32],
    values: &[f32],
    ended: &[Ended],
    cut: &[f32],
    last: &[f32],
    [gamma, lambda]: [f32; 2],
) -> Vec<f32> {
    let n = last.len();
    let mut found = vec![0.0; rewards.len()];
    let (mut running, mut next) = (vec![0.0f32; n], last.to_vec());
    for at in (0..rewards.len() / n.max(1)).rev() {
        for i in 0..n {
            let j = at * n + i;
            let (behind, carried) = match ended[j] {
                Ended::Not => (next[i], running[i]),
                Ended::Terminated => (0.0, 0.0),
                Ended::Truncated => (cut[j], 0.0),
            };
            let error = gamma.mul_add(behind, rewards[j]) - values[j];
            running[i] = (gamma * lambda).mul_add(carried, error);
            next[i] = values[j];
            found[j] = running[i];
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One account's rewards, values, endings and values of cut episodes.
    type Account<'a> = (&'a [f32], &'a [f32], &'a [Ended], &'a [f32]);

    /// The sum over all later steps, as the definition has it.
    fn by_definition(
        (rewards, values, ended, cut): Account<'_>,
        last: f32,
        [gamma, lambda]: [f32; 2],
        from: usize,
    ) -> f64 {
        let (gamma, lambda) = (f64::from(gamma), f64::from(lambda));
        let (mut sum, mut weight) = (0.0, 1.0);
        for t in from..rewards.len() {
            let behind = match ended[t] {
                Ended::Not => f64::from(values.get(t + 1).copied().unwrap_or(last)),
                Ended::Terminated => 0.0,
                Ended::Truncated => f64::from(cut[t]),
            };
            sum += weight * (f64::from(rewards[t]) + gamma * behind - f64::from(values[t]));
            if ended[t] != Ended::Not {
                break;
            }
            weight *= gamma * lambda;
        }
        sum
    }

    #[test]
    fn advantages_are_the_discounted_sum_of_errors() {
        let mut random = random::SplitMix::new(4);
        let (n, steps) = (5, 60);
        let mut draw = |count: usize| (0..count).map(|_| random.unit() as f32 - 0.5).collect::<Vec<f32>>();
        let (rewards, values, cut, last) = (draw(n * steps), draw(n * steps), draw(n * steps), draw(n));
        let ended: Vec<Ended> = (draw(n * steps).iter())
            .map(|x| {
                if *x > 0.45 {
                    Ended::Terminated
                } else if *x > 0.38 {
                    Ended::Truncated
                } else {
                    Ended::Not
                }
            })
            .collect();
        for (gamma, lambda) in [(0.99f32, 0.95f32), (1.0, 1.0), (0.9, 0.0)] {
            let found = advantages(&rewards, &values, &ended, &cut, &last, [gamma, lambda]);
            for i in 0..n {
                let of = |all: &[f32]| all.iter().skip(i).step_by(n).copied().collect::<Vec<f32>>();
                let own: Vec<Ended> = ended.iter().skip(i).step_by(n).copied().collect();
                let (rewards, values, cut) = (of(&rewards), of(&values), of(&cut));
                for t in 0..steps {
                    let account = (&*rewards, &*values, &*own, &*cut);
                    let exact = by_definition(account, last[i], [gamma, lambda], t);
                    assert!((f64::from(found[t * n + i]) - exact).abs() < 2e-5, "{t} {i}");
                }
            }
        }
    }
}
