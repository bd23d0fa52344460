//! Layer norm of one row (Ba et al. 2016): `n = (z - mean) / sqrt(var + 1e-5) × gain + shift`, over the layer's true
//! width.

use super::Real;
use crate::population::Precision;

/// Added to the variance, as PyTorch has it.
pub const EPS: f64 = 1e-5;

/// The normalised values as they are held, one over the deviation, and what the gain and the shift make of them.
pub fn forward<R: Real>(z: &[R], gain: &[R], shift: &[R], precision: Precision) -> (Vec<R>, R, Vec<R>) {
    let n = R::from_f64(z.len() as f64);
    let (mut sum, mut squares) = (R::default(), R::default());
    for &z in z {
        sum += z;
    }
    let mean = sum / n;
    for &z in z {
        squares += (z - mean) * (z - mean);
    }
    let inverse = R::from_f64(1.0 / (squares / n + R::from_f64(EPS)).value().sqrt());
    let normed: Vec<R> = z.iter().map(|&z| ((z - mean) * inverse).rounded_to(precision)).collect();
    let made = normed.iter().zip(gain).zip(shift).map(|((x, gain), shift)| *x * *gain + *shift).collect();
    (normed, inverse, made)
}

/// The gradient at `z` from that at `n`: with `g = dn × gain` it is `(g - mean(g) - x mean(g x)) × inverse`, `x` the
/// normalised values.
pub fn backward<R: Real>(dn: &[R], normed: &[R], inverse: R, gain: &[R]) -> Vec<R> {
    let n = R::from_f64(dn.len() as f64);
    let (mut sum, mut along) = (R::default(), R::default());
    for ((&dn, &gain), &x) in dn.iter().zip(gain).zip(normed) {
        sum += dn * gain;
        along += dn * gain * x;
    }
    let each = dn.iter().zip(gain).zip(normed);
    each.map(|((dn, gain), x)| (*dn * *gain - sum / n - *x * (along / n)) * inverse).collect()
}

#[cfg(test)]
mod tests {
    use super::{backward, forward};
    use crate::population::Precision;

    #[test]
    fn a_norm_equals_values_computed_by_hand() {
        let (normed, inverse, made) = forward(&[1.0, 3.0], &[2.0, 1.0], &[0.0, 5.0], Precision::F32);
        let wanted = 1.0 / 1.00001f64.sqrt();
        assert!((inverse - wanted).abs() < 1e-15);
        assert_eq!(normed, [-inverse, inverse]);
        assert_eq!(made, [-2.0 * inverse, inverse + 5.0]);
    }

    #[test]
    fn a_norm_of_one_unit_passes_only_its_shift() {
        let (normed, inverse, made) = forward(&[7.0f32], &[2.0], &[0.5], Precision::F32);
        assert_eq!((normed[0], made[0]), (0.0, 0.5));
        assert_eq!(backward(&[3.0], &normed, inverse, &[2.0]), [0.0]);
    }

    #[test]
    fn a_norm_removes_mean_and_scale_from_the_gradient() {
        let (normed, inverse, _) = forward(&[0.3f64, -1.2, 2.0, 0.7], &[1.0; 4], &[0.0; 4], Precision::F32);
        // Neither along the ones nor along the values themselves.
        let dz = backward(&[0.5, -0.1, 0.9, 2.0], &normed, inverse, &[1.0; 4]);
        assert!(dz.iter().sum::<f64>().abs() < 1e-12);
        assert!(dz.iter().zip(&normed).map(|(d, x)| d * x).sum::<f64>().abs() < 1e-4);
    }
}
