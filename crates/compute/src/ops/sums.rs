//! Sums in a fixed order, in f64.

/// `Σ x`, in order.
pub fn sum(values: &[f32]) -> f64 {
    values.iter().map(|&x| f64::from(x)).sum()
}

/// `Σ x²`, in order.
pub fn squares(values: &[f32]) -> f64 {
    values.iter().map(|&x| f64::from(x) * f64::from(x)).sum()
}

/// `dst += src`, element by element: how partial gradients become one, in the order of their slices.
pub fn add(dst: &mut [f32], src: &[f32]) {
    for (dst, src) in dst.iter_mut().zip(src) {
        *dst += src;
    }
}
