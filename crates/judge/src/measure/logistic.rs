//! Multinomial logistic regression: the simplest learner on the same columns, which any other must beat.
//!
//! `P(k | x) ∝ exp(w_k·x + b_k)`, fitted by L-BFGS (Liu and Nocedal 1989) on the mean log-loss with a small ridge. Sums
//! are added in the order of the samples in double precision, so the same input gives the same bits.

use std::collections::VecDeque;

/// A fitted regression.
#[derive(Debug, Clone, PartialEq)]
pub struct Logistic {
    /// `[classes, columns + 1]`, each row's last its bias.
    weights: Vec<f64>,
    columns: usize,
    classes: usize,
}

/// Weight of the squared coefficients, in units of the mean loss.
const RIDGE: f64 = 1e-4;
/// Pairs of steps that L-BFGS remembers.
const MEMORY: usize = 8;
/// Steps at most, and the gradient at which it is done.
const STEPS: usize = 60;
const DONE: f64 = 1e-5;

impl Logistic {
    /// Fits rows `[n, columns]`, finite and of like scales, to classes `[n]`. `None` of no rows.
    pub fn fit(rows: &[f32], columns: usize, truth: &[u8], classes: usize) -> Option<Logistic> {
        if truth.is_empty() || rows.len() != truth.len() * columns || classes < 2 {
            return None;
        }
        let size = classes * (columns + 1);
        let mut model = Logistic { weights: vec![0.0; size], columns, classes };
        let (mut loss, mut gradient) = model.loss(rows, truth);
        let mut pairs: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
        for _ in 0..STEPS {
            if dot(&gradient, &gradient).sqrt() < DONE {
                break;
            }
            let direction = downhill(&gradient, &pairs);
            let slope = dot(&direction, &gradient);
            let mut step = if pairs.is_empty() { 1.0 / dot(&gradient, &gradient).sqrt().max(1.0) } else { 1.0 };
            // Armijo's rule: half the step until the loss falls as far as the slope promises a thousandth of.
            let found = (0..20).find_map(|_| {
                let weights = model.weights.iter().zip(&direction).map(|(w, d)| w + step * d).collect();
                let next = Logistic { weights, ..model.clone() };
                let (below, gradient) = next.loss(rows, truth);
                let taken = below <= loss + 1e-3 * step * slope;
                step *= if taken { 1.0 } else { 0.5 };
                taken.then_some((next, below, gradient))
            });
            let Some((next, below, steeper)) = found else { break };
            let moved: Vec<f64> = next.weights.iter().zip(&model.weights).map(|(a, b)| a - b).collect();
            let turned: Vec<f64> = steeper.iter().zip(&gradient).map(|(a, b)| a - b).collect();
            if dot(&moved, &turned) > 1e-12 {
                pairs.push_back((moved, turned));
                if pairs.len() > MEMORY {
                    pairs.pop_front();
                }
            }
            let small = loss - below < 1e-9;
            (model, loss, gradient) = (next, below, steeper);
            if small {
                break;
            }
        }
        Some(model)
    }

    /// `[n, classes]` probabilities of rows `[n, columns]`.
    pub fn predict(&self, rows: &[f32]) -> Vec<f32> {
        let mut p = vec![0.0; self.classes];
        let each = rows.chunks_exact(self.columns.max(1)).flat_map(|row| {
            self.probabilities(row, &mut p);
            p.iter().map(|p| *p as f32).collect::<Vec<f32>>()
        });
        each.collect()
    }

    fn probabilities(&self, row: &[f32], into: &mut [f64]) {
        for (k, z) in into.iter_mut().enumerate() {
            let (own, bias) = self.weights[k * (self.columns + 1)..][..self.columns + 1].split_at(self.columns);
            *z = bias[0] + own.iter().zip(row).map(|(w, x)| w * f64::from(*x)).sum::<f64>();
        }
        let most = into.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        into.iter_mut().for_each(|z| *z = (*z - most).exp());
        let sum: f64 = into.iter().sum();
        into.iter_mut().for_each(|p| *p /= sum);
    }

    /// Mean log-loss with its ridge, and the gradient.
    fn loss(&self, rows: &[f32], truth: &[u8]) -> (f64, Vec<f64>) {
        let (n, wide) = (truth.len() as f64, self.columns + 1);
        let (mut loss, mut gradient) = (0.0, vec![0.0; self.weights.len()]);
        let mut p = vec![0.0; self.classes];
        for (row, truth) in rows.chunks_exact(self.columns.max(1)).zip(truth) {
            self.probabilities(row, &mut p);
            loss -= p[usize::from(*truth)].max(1e-300).ln();
            for (k, p) in p.iter().enumerate() {
                let miss = p - f64::from(u8::from(k == usize::from(*truth)));
                let own = &mut gradient[k * wide..][..wide];
                own.iter_mut().zip(row).for_each(|(g, x)| *g += miss * f64::from(*x));
                own[self.columns] += miss;
            }
        }
        gradient.iter_mut().for_each(|g| *g /= n);
        loss /= n;
        for (at, w) in self.weights.iter().enumerate().filter(|(at, _)| at % wide != self.columns) {
            loss += 0.5 * RIDGE * w * w;
            gradient[at] += RIDGE * w;
        }
        (loss, gradient)
    }
}

/// The direction of L-BFGS: the gradient through the curvature that past steps have seen.
fn downhill(gradient: &[f64], pairs: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut shares = Vec::with_capacity(pairs.len());
    for (moved, turned) in pairs.iter().rev() {
        let share = dot(moved, &direction) / dot(moved, turned);
        direction.iter_mut().zip(turned).for_each(|(d, y)| *d -= share * y);
        shares.push(share);
    }
    if let Some((moved, turned)) = pairs.back() {
        let scale = dot(moved, turned) / dot(turned, turned);
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for ((moved, turned), share) in pairs.iter().zip(shares.iter().rev()) {
        let other = dot(turned, &direction) / dot(moved, turned);
        direction.iter_mut().zip(moved).for_each(|(d, s)| *d += (share - other) * s);
    }
    direction
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix;

    #[test]
    fn it_finds_the_coefficients_that_made_the_classes() {
        let mut random = SplitMix::new(8);
        let mut normal = || random::normal::quantile(random.unit().clamp(1e-9, 1.0 - 1e-9));
        let made = [[1.0, -0.5, 0.2], [0.0, 0.0, 0.0], [-1.0, 0.8, -0.1]];
        let (mut rows, mut truth) = (Vec::new(), Vec::new());
        let mut draws = SplitMix::new(3);
        for _ in 0..20_000 {
            let x = [normal(), normal()];
            let odds = made.map(|w: [f64; 3]| (w[0] * x[0] + w[1] * x[1] + w[2]).exp());
            let draw = draws.unit() * odds.iter().sum::<f64>();
            truth.push(u8::from(draw > odds[0]) + u8::from(draw > odds[0] + odds[1]));
            rows.extend(x.map(|x| x as f32));
        }
        let fitted = Logistic::fit(&rows, 2, &truth, 3).unwrap();
        // Only differences between classes count.
        for (class, own) in made.iter().enumerate() {
            for (at, own) in own.iter().enumerate() {
                let found = fitted.weights[class * 3 + at] - fitted.weights[3 + at];
                assert!((found - own).abs() < 0.06, "class {class}, {at}: {found}, not {own}");
            }
        }
        let p = fitted.predict(&[0.0, 0.0, 3.0, -2.0]);
        assert!((p[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6 && p[3] > 0.9, "{p:?}");
        assert_eq!(Logistic::fit(&rows, 2, &truth, 3), Some(fitted));
        assert_eq!(Logistic::fit(&[], 2, &[], 3), None);
    }

    #[test]
    fn of_nothing_it_learns_the_prior() {
        let truth: Vec<u8> = (0..300).map(|i| u8::from(i % 3 == 0)).collect();
        let fitted = Logistic::fit(&vec![0.0; 300], 1, &truth, 2).unwrap();
        assert!((fitted.predict(&[0.0])[1] - 1.0 / 3.0).abs() < 1e-4);
    }
}
