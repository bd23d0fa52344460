//! Softmax cross-entropy of one row, and its gradient at the logits.

use super::Real;

/// `weight × (log Σ exp z - z[label])`, and `weight × (softmax - onehot)` into `dz`.
///
/// The largest logit is taken off before the powers, so that none overflows.
pub fn softmax_cross_entropy<R: Real>(z: &[R], label: u8, weight: R, dz: &mut [R]) -> f64 {
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
    for (class, (dz, &z)) in dz.iter_mut().zip(z).enumerate() {
        let hot = R::of(if class == usize::from(label) { 1.0 } else { 0.0 });
        *dz = weight * ((z - largest).exp() / sum - hot);
    }
    weight.value() * (sum.value().ln() - (z[usize::from(label)] - largest).value())
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
    fn by_hand() {
        let mut dz = [0f64; 2];
        // Equal logits: half each, a loss of ln 2.
        let loss = softmax_cross_entropy(&[3.0, 3.0], 1, 2.0, &mut dz);
        assert!((loss - 2.0 * 2f64.ln()).abs() < 1e-15);
        assert_eq!(dz, [1.0, -1.0]);
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let mut dz = [0f32; 3];
        let loss = softmax_cross_entropy(&[1000.0, -1000.0, 0.0], 1, 1.0, &mut dz);
        assert_eq!(loss, 2000.0);
        assert_eq!(dz, [1.0, -1.0, 0.0]);
    }

    #[test]
    fn the_first_of_equal_logits_is_the_guess() {
        assert_eq!(guess(&[1.0, 2.0, 2.0f32]), 1);
        assert_eq!(guess(&[0.0f32, 0.0]), 0);
    }
}
