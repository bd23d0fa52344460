//! Losses of a minibatch, and their gradients at the net's outputs.

use super::Actions;
use super::maths::{exp, ln, tanh};

/// How far a new policy may leave the old one before an action no longer counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    /// Of the ratio of probabilities, to either side of 1.
    pub policy: f32,
    /// Of the value, to either side of the old one; none leaves values free.
    pub value: Option<f32>,
}

/// What was seen in the losses of some rows, as sums.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossSums {
    /// Rows.
    pub rows: f64,
    /// The clipped surrogate, as a loss.
    pub policy: f64,
    /// Squared errors of the value.
    pub value: f64,
    /// Entropy: a share of what is possible, nats for continuous targets.
    pub entropy: f64,
    /// How far the policy moved, `(r - 1) - ln r` of the ratio r.
    pub kl: f64,
    /// Rows whose ratio is outside of the clip.
    pub clipped: f64,
}

impl LossSums {
    /// Adds those of other rows.
    pub fn add(&mut self, other: &LossSums) {
        self.rows += other.rows;
        self.policy += other.policy;
        self.value += other.value;
        self.entropy += other.entropy;
        self.kl += other.kl;
        self.clipped += other.clipped;
    }

    /// A sum over the rows.
    pub fn mean(&self, of: f64) -> f64 {
        of / self.rows.max(1.0)
    }
}

/// Probabilities of three actions, 0 for those that are not legal (bits: 1 short, 2 flat, 4 long); and the logarithm of
/// each.
#[inline(always)]
pub(crate) fn softmax(z: &[f32], legal: u8) -> ([f32; 3], [f32; 3]) {
    let is_legal = |a: usize| legal >> a & 1 == 1;
    let most = (0..3).filter(|a| is_legal(*a)).map(|a| z[a]).fold(f32::NEG_INFINITY, f32::max);
    let mut p = [0.0; 3];
    for a in (0..3).filter(|a| is_legal(*a)) {
        p[a] = exp(z[a] - most);
    }
    let sum = p[0] + p[1] + p[2];
    let whole = ln(sum);
    let log = [0, 1, 2].map(|a| if is_legal(a) { (z[a] - most) - whole } else { 0.0 });
    (p.map(|p| p / sum), log)
}

/// Half the logarithm of 2π.
const HALF_LN_TAU: f32 = 0.918_938_5;

/// Limits of the logarithm of a deviation.
pub(super) const LEAST_LOG_DEVIATION: f32 = -5.0;
pub(super) const MOST_LOG_DEVIATION: f32 = 1.0;

/// A continuous head: mean, logarithm of the deviation within limits, and how far outside of these the output is.
#[inline(always)]
pub(super) fn normal(z: &[f32]) -> (f32, f32, f32) {
    let limited = z[1].clamp(LEAST_LOG_DEVIATION, MOST_LOG_DEVIATION);
    (z[0], limited, z[1] - limited)
}

/// The logarithm of the density of a target whose value before squashing is `u`.
#[inline(always)]
pub(super) fn log_density(z: &[f32], u: f32) -> f32 {
    let (mean, log_deviation, _) = normal(z);
    let away = (u - mean) * exp(-log_deviation);
    let squashed = tanh(u);
    -0.5 * away * away - log_deviation - HALF_LN_TAU - ln((1.0 - squashed * squashed).max(1e-6))
}

/// The logarithm of the probability of a discrete action, or the density of a continuous one.
#[cfg(test)]
pub(super) fn log_probability(actions: Actions, z: &[f32], legal: u8, action: f32) -> f32 {
    match actions {
        Actions::Discrete => softmax(z, legal).1[action as usize],
        Actions::Continuous => log_density(z, action),
    }
}

/// What a row of a rollout says to the policy's loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    /// The number of a discrete action, or a continuous one before squashing.
    pub action: f32,
    /// Bits of legal actions.
    pub legal: u8,
    /// The logarithm of its probability when it was taken.
    pub log_probability: f32,
    /// How much better it was than expected.
    pub advantage: f32,
}

/// What the losses of a minibatch are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// What an action is.
    pub actions: Actions,
    /// Where policy and value are held.
    pub clip: Clip,
    /// Weight of the entropy, of either sign.
    pub entropy_weight: f32,
    /// Weight of the value's loss.
    pub value_weight: f32,
    /// Rows of the minibatch: the loss is their mean.
    pub rows: f32,
}

/// The policy's part of one row: writes the gradient of `surrogate - weight · entropy` at the outputs `z`.
#[inline(always)]
pub fn policy_loss(terms: &Terms, z: &[f32], taken: &Taken, d_z: &mut [f32], sums: &mut LossSums) {
    let Terms { actions, clip, entropy_weight, rows, .. } = *terms;
    let Taken { action, legal, log_probability: old, advantage } = *taken;
    let discrete = (actions == Actions::Discrete).then(|| softmax(z, legal));
    let new = discrete.map_or_else(|| log_density(z, action), |(_, log)| log[action as usize]);
    let log_ratio = new - old;
    let ratio = exp(log_ratio.min(20.0));
    let limited = ratio.clamp(1.0 - clip.policy, 1.0 + clip.policy);
    let (free, held) = (ratio * advantage, limited * advantage);
    sums.rows += 1.0;
    sums.policy -= f64::from(free.min(held));
    sums.kl += f64::from((ratio - 1.0) - log_ratio);
    sums.clipped += f64::from(u8::from((ratio - 1.0).abs() > clip.policy));
    // Where the clipped form is the smaller one, nothing moves it.
    let slope = if free <= held { -free } else { 0.0 };
    match discrete {
        Some((p, log)) => {
            let entropy = -(p[0] * log[0] + p[1] * log[1] + p[2] * log[2]);
            let choices = legal.count_ones();
            // With one legal action there is nothing to choose and nothing to measure: as spread as can be.
            let possible = if choices > 1 { ln(choices as f32) } else { 0.0 };
            sums.entropy += f64::from(if choices > 1 { entropy / possible } else { 1.0 });
            let scale = if choices > 1 { entropy_weight / possible } else { 0.0 };
            for a in 0..3 {
                let chosen = if a == action as usize { 1.0 } else { 0.0 };
                let to_entropy = scale * p[a] * (log[a] + entropy);
                d_z[a] = if legal >> a & 1 == 1 { (slope * (chosen - p[a]) + to_entropy) / rows } else { 0.0 };
            }
        }
        None => {
            let (mean, log_deviation, outside) = normal(z);
            let inverse = exp(-log_deviation);
            let away = (action - mean) * inverse;
            sums.entropy += f64::from(log_deviation + HALF_LN_TAU + 0.5);
            d_z[0] = slope * away * inverse / rows;
            let d = (slope * (away * away - 1.0) - entropy_weight) / rows;
            // Outside of its limits an output comes back, and goes no further.
            let outwards = outside < 0.0 && d > 0.0 || outside > 0.0 && d < 0.0;
            d_z[1] = if outwards { 0.0 } else { d };
        }
    }
}

/// The value's part of one row: the gradient of `weight · error²` at the value.
#[inline(always)]
pub fn value_loss(terms: &Terms, value: f32, old: f32, wanted: f32, sums: &mut LossSums) -> f32 {
    let moved = value - old;
    let held = terms.clip.value.filter(|most| moved.abs() > *most).map(|most| old + most.copysign(moved));
    let error = held.unwrap_or(value) - wanted;
    sums.value += f64::from(error * error);
    if held.is_none() { 2.0 * terms.value_weight * error / terms.rows } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gradient is that of the loss, by small differences.
    #[test]
    fn gradients_are_those_of_the_losses() {
        let mut random = random::SplitMix::new(8);
        let clip = Clip { policy: 0.2, value: Some(0.3) };
        let (mut free, mut held) = (0, 0);
        for round in 0..400 {
            let actions = if round % 2 == 0 { Actions::Discrete } else { Actions::Continuous };
            let wide = actions.outputs();
            let z: Vec<f32> = (0..wide).map(|_| random.unit() as f32 * 2.0 - 1.0).collect();
            let legal = [7, 7, 6, 3, 2][random.below(5)];
            let action = match actions {
                Actions::Discrete => loop {
                    let a = random.below(3);
                    if legal >> a & 1 == 1 {
                        break a as f32;
                    }
                },
                Actions::Continuous => random.unit() as f32 * 2.0 - 1.0,
            };
            let old = log_probability(actions, &z, legal, action) + random.unit() as f32 * 0.8 - 0.4;
            let advantage = random.unit() as f32 * 2.0 - 1.0;
            let taken = Taken { action, legal, log_probability: old, advantage };
            let terms = Terms { actions, clip, entropy_weight: 0.3, value_weight: 0.5, rows: 1.0 };
            let loss = |z: &[f32]| {
                let (mut sums, mut d) = (LossSums::default(), vec![0.0; wide]);
                policy_loss(&terms, z, &taken, &mut d, &mut sums);
                (sums.policy - f64::from(terms.entropy_weight) * sums.entropy, d)
            };
            let (_, d) = loss(&z);
            let ratio = exp(log_probability(actions, &z, legal, action) - old);
            // At the corner of the clip there is no gradient to compare with.
            if (ratio - 1.2).abs() < 0.02 || (ratio - 0.8).abs() < 0.02 {
                continue;
            }
            *(if (ratio - 1.0).abs() < 0.2 { &mut free } else { &mut held }) += 1;
            for (a, d) in d.into_iter().enumerate() {
                let step = 2e-3f32;
                let moved = |by: f32| {
                    let mut z = z.clone();
                    z[a] += by;
                    loss(&z).0
                };
                let found = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
                assert!((found - f64::from(d)).abs() < 2e-3, "{round} {a}: {found} and {d}");
            }
        }
        assert!(free > 50 && held > 50, "{free} and {held}");
        let mut sums = LossSums::default();
        let terms = Terms { actions: Actions::Discrete, clip, entropy_weight: 0.0, value_weight: 0.5, rows: 1.0 };
        assert_eq!(value_loss(&terms, 1.0, 0.9, 0.5, &mut sums), 0.5);
        // Beyond the clip the value is held where it may be.
        assert_eq!(value_loss(&terms, 2.0, 0.9, 0.5, &mut sums), 0.0);
    }

    /// Outside of the limits of the deviation the gradient is that at the limit, where it points inwards, else nothing.
    #[test]
    fn at_a_limit_the_gradient_of_a_deviation_points_inwards() {
        let mut random = random::SplitMix::new(4);
        let clip = Clip { policy: 0.2, value: None };
        let (mut inwards, mut outwards) = (0, 0);
        for round in 0..400 {
            let (limit, outside, inside) = if round % 2 == 0 { (-5.0f32, -7.5, 1.0f32) } else { (1.0, 2.5, -1.0) };
            let entropy_weight = random.unit() as f32 - 0.5;
            let terms = Terms { actions: Actions::Continuous, clip, entropy_weight, value_weight: 0.5, rows: 1.0 };
            let mean = random.unit() as f32 - 0.5;
            let action = mean + exp(limit) * (random.unit() as f32 * 4.0 - 2.0);
            // An action as probable as when it was taken: nothing is clipped.
            let old = log_density(&[mean, limit], action);
            let taken = Taken { action, legal: 7, log_probability: old, advantage: random.unit() as f32 - 0.5 };
            let loss = |log_deviation: f32| {
                let (mut sums, mut d) = (LossSums::default(), [0.0; 2]);
                policy_loss(&terms, &[mean, log_deviation], &taken, &mut d, &mut sums);
                (sums.policy - f64::from(entropy_weight) * sums.entropy, d[1])
            };
            // By a small difference on the side where the limit does not hold it.
            let step = 1e-3 * inside;
            let (at_limit, moved) = (loss(limit).0, loss(limit + step).0);
            let slope = (moved - at_limit) / f64::from(step);
            let found = loss(outside).1;
            if slope.abs() < 1e-2 {
                continue;
            }
            if slope < 0.0 && inside > 0.0 || slope > 0.0 && inside < 0.0 {
                inwards += 1;
                assert!((slope - f64::from(found)).abs() < 2e-2 * slope.abs().max(1.0), "{round}: {slope} and {found}");
            } else {
                outwards += 1;
                assert_eq!(found, 0.0, "{round}: {slope}");
            }
        }
        assert!(inwards > 100 && outwards > 100, "{inwards} and {outwards}");
    }

    /// A deviation that a narrow band has driven over a limit comes back into the band.
    #[test]
    fn a_deviation_comes_back_from_its_limits() {
        use super::super::EntropyBand;
        use super::super::entropy::Multipliers;
        let band = EntropyBand { least: 0.0, most: 0.1 };
        for start in [4.0f32, -8.0] {
            let (mut z, mut multipliers, mut entropy) = ([0.0, start], Multipliers::default(), f64::NAN);
            for _ in 0..400 {
                let (mut sums, mut d) = (LossSums::default(), [0.0; 2]);
                let clip = Clip { policy: 0.2, value: None };
                let entropy_weight = multipliers.weight;
                let terms = Terms { actions: Actions::Continuous, clip, entropy_weight, value_weight: 0.5, rows: 1.0 };
                // Nothing but the entropy speaks.
                let taken = Taken { action: 0.0, legal: 7, log_probability: log_density(&z, 0.0), advantage: 0.0 };
                policy_loss(&terms, &z, &taken, &mut d, &mut sums);
                z[1] -= 0.02 * d[1];
                entropy = sums.entropy;
                multipliers = multipliers.next(band, entropy as f32);
            }
            assert!((-0.3..0.4).contains(&entropy), "from {start}: an entropy of {entropy} at {}", z[1]);
        }
    }

    #[test]
    fn what_is_not_legal_has_no_probability_and_no_gradient() {
        let (p, _) = softmax(&[50.0, 0.0, 1.0], 6);
        assert!(p[0] == 0.0 && (p[1] + p[2] - 1.0).abs() < 1e-6);
        let (mut sums, mut d) = (LossSums::default(), [9.0; 3]);
        let taken = Taken { action: 1.0, legal: 2, log_probability: 0.0, advantage: 1.0 };
        let clip = Clip { policy: 0.2, value: None };
        let terms = Terms { actions: Actions::Discrete, clip, entropy_weight: 0.1, value_weight: 0.5, rows: 1.0 };
        policy_loss(&terms, &[50.0, 0.0, 1.0], &taken, &mut d, &mut sums);
        assert_eq!((d, sums.entropy), ([0.0; 3], 1.0));
    }
}
