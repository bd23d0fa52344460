//! Softmax cross-entropy of one row, and its gradient at the logits.

use super::Real;

/// `weight × (log Σ exp z - Σ target z)`, and `weight × (softmax - target)` into `dz`. The target is 1 at the label,
/// less the `smoothing` that is spread evenly over all classes.
///
/// The largest logit is taken off before the powers, so that none overflows.
pub fn softmax_cross_entropy<R: Real>(z: &[R], label: u8, weight: R, smoothing: f32, dz: &mut [R]) -> f64 {
    let mut largest = z[0];
    for &z in z {
        if z > largest {
            largest = z;
        }
    }
    let mut sum = R::default();
    for &z in z {
        sum += (z - largest).exp();
    }
    let even = f64::from(smoothing) / z.len() as f64;
    let mut right = 0.0;
    for (class, (dz, &z)) in dz.iter_mut().zip(z).enumerate() {
        let hot = if class == usize::from(label) { 1.0 - f64::from(smoothing) } else { 0.0 };
        let target = hot + even;
        *dz = weight * ((z - largest).exp() / sum - R::from_f64(target));
        right += target * (z - largest).value();
    }
    weight.value() * (sum.value().ln() - right)
}

/// The class of the largest logit; the first of equal ones.
pub fn guess<R: Real>(z: &[R]) -> usize {
    let mut best = 0;
    for (class, &value) in z.iter().enumerate() {
        if value > z[best] {
            best = class;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::{guess, softmax_cross_entropy};

    #[test]
    fn loss_and_gradient_equal_values_computed_by_hand() {
        let mut dz = [0f64; 2];
        // Equal logits: half each, a loss of ln 2.
        let loss = softmax_cross_entropy(&[3.0, 3.0], 1, 2.0, 0.0, &mut dz);
        assert!((loss - 2.0 * 2f64.ln()).abs() < 1e-15);
        assert_eq!(dz, [1.0, -1.0]);
        // A fifth of the label over two classes: 0.1 and 0.9.
        let loss = softmax_cross_entropy(&[1f64.ln(), 3f64.ln()], 1, 1.0, 0.2, &mut dz);
        assert!((loss - (4f64.ln() - 0.9 * 3f64.ln())).abs() < 1e-7, "{loss}");
        assert!((dz[0] - 0.15).abs() < 1e-7 && (dz[1] + 0.15).abs() < 1e-7, "{dz:?}");
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let mut dz = [0f32; 3];
        let loss = softmax_cross_entropy(&[1000.0, -1000.0, 0.0], 1, 1.0, 0.0, &mut dz);
        assert_eq!(loss, 2000.0);
        assert_eq!(dz, [1.0, -1.0, 0.0]);
    }

    #[test]
    fn the_first_of_equal_logits_is_the_guess() {
        assert_eq!(guess(&[1.0, 2.0, 2.0f32]), 1);
        assert_eq!(guess(&[0.0f32, 0.0]), 0);
    }
}
