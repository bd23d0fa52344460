//! The curves of gates, lanes at a time: the logistic function and the hyperbolic tangent, within 4 units in the last
//! place.

use super::Lanes;

/// `(p, 2ⁿ)` with `e^x = 2ⁿ (1 + p)`, so that nothing is lost near 0. For x inside ±87.
#[inline(always)]
fn powers<V: Lanes>(x: V) -> (V, V) {
    const WHOLE: f32 = 12_582_912.0;
    let shifted = x.mul_add(V::splat(std::f32::consts::LOG2_E), V::splat(WHOLE));
    let n = shifted.sub(V::splat(WHOLE));
    // ln 2 in two parts; the first has few bits.
    let r = n.neg_mul_add(V::splat(-2.121_944_4e-4), n.neg_mul_add(V::splat(0.693_359_4), x));
    // (e^r - 1 - r) / r² within 2e-8, |r| ≤ ln 2 / 2: a fit of least largest error, one term shorter than the series.
    let mut sum = V::splat(0.001_388_239_6);
    for c in [0.008_367_181, 0.041_667_223, 0.166_665_39, 0.499_999_97] {
        sum = sum.mul_add(r, V::splat(c));
    }
    (sum.mul_add(r.mul(r), r), shifted.power())
}

/// `1 + e^-x`, one over the logistic function. From ±43 on it stays as it is, so that two of them can be multiplied.
#[inline(always)]
fn inverse<V: Lanes>(x: V) -> V {
    let (p, power) = powers(V::splat(0.0).sub(x.clamp(-43.0, 43.0)));
    power.mul_add(p, power.add(V::splat(1.0)))
}

/// `e^2x - 1`: what is above the line of `tanh x = (e^2x - 1) / (e^2x + 1)`; below it is 2 more.
#[inline(always)]
fn above<V: Lanes>(x: V) -> V {
    let (p, power) = powers(x.add(x).clamp(-20.0, 20.0));
    power.mul_add(p, power.sub(V::splat(1.0)))
}

/// The first half of [`tanh`]: all but its division. Where many are asked for, first all halves and then all ends keeps
/// the processor busier, because what waits for each other is shorter.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct Half;

impl Half {
    /// Of a logistic function.
    #[inline(always)]
    pub(in crate::cpu) fn sigmoid<V: Lanes>(x: V) -> V {
        inverse(x)
    }

    /// Of a tangent.
    #[inline(always)]
    pub(in crate::cpu) fn tanh<V: Lanes>(x: V) -> V {
        above(x)
    }

    /// `tanh x`; NaN stays NaN.
    #[inline(always)]
    pub(in crate::cpu) fn end_tanh<V: Lanes>(above: V) -> V {
        above.div(above.add(V::splat(2.0)))
    }

    /// The logistic functions `1 / (1 + e^-x)` of both; NaN makes both NaN. They share a division, which costs as much
    /// as all the rest.
    #[inline(always)]
    pub(in crate::cpu) fn end_sigmoids<V: Lanes>(a: V, b: V) -> (V, V) {
        let both = V::splat(1.0).div(a.mul(b));
        (both.mul(b), both.mul(a))
    }

    /// The logistic function of one, the tangent of the other, as above.
    #[inline(always)]
    pub(in crate::cpu) fn end_sigmoid_and_tanh<V: Lanes>(a: V, above: V) -> (V, V) {
        let below = above.add(V::splat(2.0));
        let both = V::splat(1.0).div(a.mul(below));
        (both.mul(below), both.mul(a).mul(above))
    }
}

/// `tanh x`; NaN stays NaN.
#[inline(always)]
pub(in crate::cpu) fn tanh<V: Lanes>(x: V) -> V {
    Half::end_tanh(Half::tanh(x))
}

#[cfg(test)]
#[expect(unsafe_code, reason = "loads and stores of arrays of eight")]
mod tests {
    use super::*;
    use crate::bf16;
    use crate::cpu::simd::{Eight, LANES, Plain, eights};

    type Floats = [f32; LANES];

    /// Both forms of both curves: of x, of x and -x, and the rounding.
    #[inline(always)]
    fn curves<V: Eight>(x: &Floats, out: &mut [Floats; 6]) {
        // SAFETY: arrays of eight; AVX2 only through `eights!`, which has looked for it.
        unsafe {
            let x = V::load(x.as_ptr());
            let (a, b) = Half::end_sigmoids(Half::sigmoid(x), Half::sigmoid(V::splat(0.0).sub(x)));
            let (c, d) = Half::end_sigmoid_and_tanh(Half::sigmoid(x), Half::tanh(x));
            for (value, out) in [a, b, c, d, tanh(x), x.round()].into_iter().zip(out) {
                value.store(out.as_mut_ptr());
            }
        }
    }
    eights! {
        fn here(x: &Floats, out: &mut [Floats; 6]) = curves
    }

    #[test]
    fn curves_are_near_the_exact_values_on_every_path() {
        for f in [here, curves::<Plain>] {
            for (from, to) in [(-42f32, 42f32), (-12.0, 12.0), (-1.0, 1.0), (-1e-3, 1e-3), (1e-30, 1e-20)] {
                for i in 0..50_000 {
                    let x: Floats = std::array::from_fn(|k| from + (to - from) * (8 * i + k) as f32 / 4e5);
                    let mut out = [[0f32; LANES]; 6];
                    f(&x, &mut out);
                    for (k, x) in x.into_iter().enumerate() {
                        let exact = f64::from(x);
                        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
                        let truths = [logistic(exact), logistic(-exact), logistic(exact), exact.tanh(), exact.tanh()];
                        for (which, truth) in truths.into_iter().enumerate() {
                            let off = (f64::from(out[which][k]) - truth).abs();
                            assert!(off <= 4.0 * 1.2e-7 * truth.abs(), "{which} of {x}: {} not {truth}", out[which][k]);
                        }
                        assert_eq!(out[5][k].to_bits(), bf16::round(x).to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn curves_are_right_at_their_limits() {
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e30, -1e30, f32::MAX];
        for f in [here, curves::<Plain>] {
            let mut out = [[0f32; LANES]; 6];
            f(&x, &mut out);
            assert!(out.iter().all(|o| o[0].is_nan()));
            for k in [1, 5, 7] {
                assert_eq!([0, 2, 3, 4].map(|which| out[which][k]), [1.0; 4]);
                assert!(out[1][k] < 1e-18);
            }
            for k in [2, 6] {
                assert!(out[0][k] < 1e-18 && out[2][k] < 1e-18 && out[1][k] == 1.0);
                assert_eq!((out[3][k], out[4][k]), (-1.0, -1.0));
            }
            for k in [3, 4] {
                assert_eq!([0, 1, 2, 3, 4].map(|which| out[which][k]), [0.5, 0.5, 0.5, 0.0, 0.0]);
            }
            assert!(out[5][7].is_infinite());
        }
    }
}
