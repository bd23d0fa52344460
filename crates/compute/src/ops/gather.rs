//! Gather: a sample is a row id, and its input is that row or the window of rows that ends there.

use super::Real;
use crate::population::{Precision, Scale};
use crate::tables::Table;

/// One sample's input `[window × features]`: rows `row + 1 - window ..= row`, oldest first, each with the member's own
/// scaling.
///
/// The scaling is in f32, whatever comes after it: `(x - mean) × inverse`, then rounded in bf16. The window must lie
/// inside the table.
pub fn gather<R: Real>(
    table: Table<'_>,
    row: u32,
    window: usize,
    features: usize,
    scale: Option<&Scale>,
    precision: Precision,
) -> Vec<R> {
    let first = row as usize + 1 - window;
    let mut out = Vec::with_capacity(window * features);
    for at in first..first + window {
        for feature in 0..features {
            let x = table.values[at * table.stride + feature];
            let x = match scale {
                Some(scale) => (x - scale.mean[feature]) * scale.inverse[feature],
                None => x,
            };
            out.push(R::from_f64(f64::from(x)).rounded_to(precision));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::gather;
    use crate::population::{Precision, Scale};
    use crate::tables::Table;

    #[test]
    fn a_window_is_flattened_oldest_first() {
        let values = [1., 2., 0., 0., 3., 4., 0., 0., 5., 6., 0., 0.];
        let table = Table { values: &values, stride: 4 };
        let plain: Vec<f32> = gather(table, 2, 2, 2, None, Precision::F32);
        assert_eq!(plain, [3., 4., 5., 6.]);
        let scale = Scale { mean: vec![1., 2.], inverse: vec![0.5, 2.] };
        let scaled: Vec<f64> = gather(table, 1, 2, 2, Some(&scale), Precision::F32);
        assert_eq!(scaled, [0., 0., 1., 4.]);
    }

    #[test]
    fn scaling_comes_before_rounding() {
        let table = Table { values: &[1.01, 0., 0., 0.], stride: 4 };
        let scale = Scale { mean: vec![1.0], inverse: vec![100.0] };
        let out: Vec<f32> = gather(table, 0, 1, 1, Some(&scale), Precision::Bf16);
        assert_eq!(out, [crate::bf16::round((1.01 - 1.0) * 100.0)]);
    }
}
