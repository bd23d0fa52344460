//! Sixteen f32 side by side, whatever a processor has for them: the trait, and the lanes of any processor.

#![expect(clippy::needless_range_loop, reason = "several arrays at once, without closures")]

use super::stack::{FEW, LANES, Line};
use compute::net::Activation;

/// Sixteen floats that every operation treats alike.
pub(super) trait Lanes: Copy {
    /// Lines of a block: what the registers hold for four rows.
    const WIDE: usize;
    fn load(from: &Line) -> Self;
    fn store(self, to: &mut Line);
    fn splat(x: f32) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `self × by + plus`
    fn mul_add(self, by: Self, plus: Self) -> Self;
    fn at_least(self, low: f32) -> Self;
    fn at_most(self, high: f32) -> Self;
    /// `[4]` the sum of the lanes of each: within quarters lane i and i + 2, then both; then quarters i and i + 2, then
    /// both.
    fn sums(four: [Self; FEW]) -> [f32; FEW];
    /// `2ⁿ`, where n is in the lowest bits, as adding 1.5 × 2²³ leaves it.
    fn power(self) -> Self;
    /// The tangents of lines; within 4 units in the last place.
    #[inline(always)]
    fn tanh<const V: usize>(mut x: [Self; V]) -> [Self; V] {
        // All that is divided by comes first, then all divisions: they wait less for each other.
        for v in 0..V {
            x[v] = above(x[v]);
        }
        for v in 0..V {
            x[v] = x[v].div(x[v].add(Self::splat(2.0)));
        }
        x
    }
}

/// Activates lines.
#[inline(always)]
pub(super) fn activate<L: Lanes, const V: usize>(activation: Activation, mut x: [L; V]) -> [L; V] {
    match activation {
        Activation::Identity => x,
        Activation::Relu => {
            for v in 0..V {
                x[v] = x[v].at_least(0.0);
            }
            x
        }
        Activation::Tanh => L::tanh(x),
    }
}

/// `e^2x - 1`, of which `tanh x` is `a / (a + 2)`; within 4 units in the last place there.
#[inline(always)]
fn above<L: Lanes>(x: L) -> L {
    const WHOLE: f32 = 12_582_912.0;
    let x = x.add(x).at_most(20.0).at_least(-20.0);
    let shifted = x.mul_add(L::splat(std::f32::consts::LOG2_E), L::splat(WHOLE));
    let n = shifted.sub(L::splat(WHOLE));
    // ln 2 in two parts; the first has few bits.
    let r = n.mul_add(L::splat(2.121_944_4e-4), n.mul_add(L::splat(-0.693_359_4), x));
    // (e^r - 1 - r) / r² within 2e-8, |r| ≤ ln 2 / 2.
    let mut sum = L::splat(0.001_388_239_6);
    for c in [0.008_367_181, 0.041_667_223, 0.166_665_39, 0.499_999_97] {
        sum = sum.mul_add(r, L::splat(c));
    }
    let p = sum.mul_add(r.mul(r), r);
    let power = shifted.power();
    power.mul_add(p, power.sub(L::splat(1.0)))
}

/// Without any special instructions.
#[derive(Clone, Copy)]
pub(super) struct Plain(pub(super) [f32; LANES]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Plain, f: impl Fn(f32, f32) -> f32) -> Plain {
        Plain(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Lanes for Plain {
    const WIDE: usize = 1;
    #[inline(always)]
    fn load(from: &Line) -> Plain {
        Plain(from.0)
    }
    #[inline(always)]
    fn store(self, to: &mut Line) {
        to.0 = self.0;
    }
    #[inline(always)]
    fn splat(x: f32) -> Plain {
        Plain([x; LANES])
    }
    #[inline(always)]
    fn add(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(self, by: Plain, plus: Plain) -> Plain {
        self.mul(by).add(plus)
    }
    #[inline(always)]
    fn at_least(self, low: f32) -> Plain {
        Plain(self.0.map(|x| if x < low { low } else { x }))
    }
    #[inline(always)]
    fn at_most(self, high: f32) -> Plain {
        Plain(self.0.map(|x| if x > high { high } else { x }))
    }
    #[inline(always)]
    fn sums(four: [Plain; FEW]) -> [f32; FEW] {
        four.map(|Plain(x)| {
            let mut quarters = [0.0; 4];
            for (quarter, x) in quarters.iter_mut().zip(x.chunks_exact(4)) {
                *quarter = (x[0] + x[2]) + (x[1] + x[3]);
            }
            (quarters[0] + quarters[2]) + (quarters[1] + quarters[3])
        })
    }
    #[inline(always)]
    fn power(self) -> Plain {
        Plain(self.0.map(|x| f32::from_bits(x.to_bits().wrapping_add(127) << 23)))
    }
}
