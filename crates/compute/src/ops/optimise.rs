//! Adam and AdamW over a member's row, with the global norm clipped first.
//!
//! As PyTorch defines them (`torch.optim.Adam`, `torch.optim.AdamW`, `clip_grad_norm_`): decay on all parameters, `eps`
//! outside the root.

use super::sums;
use crate::population::{Optimiser, Rule};

/// What of a step is the same for every parameter, computed in f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Brings the sum of gradients to the clipped mean: `min(1, clip / (norm + 1e-6)) / weight`.
    pub factor: f32,
    /// `rate / (1 - beta1^t)`
    pub rate: f32,
    /// `1 / sqrt(1 - beta2^t)`
    pub root: f32,
    /// AdamW: `1 - rate × decay`, on the parameter; 1 in Adam.
    pub shrink: f32,
    /// Adam: decay that is added to the gradient; 0 in AdamW.
    pub decay: f32,
    /// `beta1`, `1 - beta1`
    pub mean: (f32, f32),
    /// `beta2`, `1 - beta2`
    pub square: (f32, f32),
    /// Added to the root.
    pub eps: f32,
}

impl Step {
    /// Step `t`, from 1, at this rate, for a gradient with this norm that is still to be divided by `weight`.
    pub fn new(optimiser: &Optimiser, rate: f64, t: u32, norm: f64, weight: f64) -> Step {
        let clip = optimiser.clip.map_or(1.0, |clip| (f64::from(clip) / (norm + 1e-6)).min(1.0));
        let (beta1, beta2) = (f64::from(optimiser.beta1), f64::from(optimiser.beta2));
        let decay = f64::from(optimiser.decay);
        let power = |beta: f64| beta.powf(f64::from(t));
        let (shrink, decay) = match optimiser.rule {
            Rule::Adam => (1.0, decay),
            Rule::AdamW => (1.0 - rate * decay, 0.0),
        };
        Step {
            factor: (clip / weight) as f32,
            rate: (rate / (1.0 - power(beta1))) as f32,
            root: (1.0 / (1.0 - power(beta2)).sqrt()) as f32,
            shrink: shrink as f32,
            decay: decay as f32,
            mean: (optimiser.beta1, (1.0 - beta1) as f32),
            square: (optimiser.beta2, (1.0 - beta2) as f32),
            eps: optimiser.eps,
        }
    }

    /// One parameter.
    #[inline(always)]
    pub fn apply(&self, parameter: &mut f32, mean: &mut f32, square: &mut f32, sum: f32) {
        let gradient = sum * self.factor + self.decay * *parameter;
        *mean = self.mean.0 * *mean + self.mean.1 * gradient;
        *square = self.square.0 * *square + self.square.1 * (gradient * gradient);
        let root = square.sqrt() * self.root + self.eps;
        *parameter = *parameter * self.shrink - self.rate * *mean / root;
    }
}

/// The global norm of the mean gradient, `sqrt(Σ (sum / weight)²)`.
pub fn norm(sums: &[f32], weight: f64) -> f64 {
    sums::squares(sums).sqrt() / weight
}

/// A whole row: parameters and both means, from the sum of gradients.
pub fn optimise(step: &Step, params: &mut [f32], mean: &mut [f32], square: &mut [f32], sums: &[f32]) {
    for (((p, m), s), &g) in params.iter_mut().zip(mean).zip(square).zip(sums) {
        step.apply(p, m, s, g);
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, norm, optimise};
    use crate::population::{Optimiser, Rule};

    /// One parameter of 1, two steps with the gradients 2 and -1 (as sums over a weight of 4), against the formulas in
    /// f64.
    fn check(optimiser: Optimiser) {
        let (mut p, mut m, mut s) = ([1f32], [0f32], [0f32]);
        let (mut pp, mut mm, mut ss) = (1f64, 0f64, 0f64);
        for (t, sum) in [(1, 8f32), (2, -4f32)] {
            let rate = 0.1;
            let n = norm(&[sum], 4.0);
            optimise(&Step::new(&optimiser, rate, t, n, 4.0), &mut p, &mut m, &mut s, &[sum]);
            let mut g = f64::from(sum) / 4.0;
            if let Some(clip) = optimiser.clip {
                g *= (f64::from(clip) / (g.abs() + 1e-6)).min(1.0);
            }
            let (b1, b2) = (f64::from(optimiser.beta1), f64::from(optimiser.beta2));
            match optimiser.rule {
                Rule::Adam => g += f64::from(optimiser.decay) * pp,
                Rule::AdamW => pp -= rate * f64::from(optimiser.decay) * pp,
            }
            mm = b1 * mm + (1.0 - b1) * g;
            ss = b2 * ss + (1.0 - b2) * g * g;
            let hat = (mm / (1.0 - b1.powi(t as i32)), ss / (1.0 - b2.powi(t as i32)));
            pp -= rate * hat.0 / (hat.1.sqrt() + f64::from(optimiser.eps));
        }
        assert!((f64::from(p[0]) - pp).abs() < 1e-6, "{} is not {pp}", p[0]);
        assert!((f64::from(m[0]) - mm).abs() < 1e-6 && (f64::from(s[0]) - ss).abs() < 1e-6);
    }

    #[test]
    fn adam_and_adamw_follow_their_formulas() {
        for rule in [Rule::Adam, Rule::AdamW] {
            for clip in [None, Some(0.5), Some(10.0)] {
                check(Optimiser { rule, clip, decay: 0.1, ..Optimiser::default() });
            }
        }
    }
}
