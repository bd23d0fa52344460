//! The numbers of a pass and the instructions for them: f32 on any lanes here, bf16 in `bf16_simd`.

#![expect(unsafe_code, reason = "values are written where a pass says, on instructions that were detected")]
#![expect(clippy::needless_range_loop, reason = "several arrays at once, without closures")]

use super::heads_simd;
use super::lanes_simd::{Lanes, Plain};
use super::stack::{Dense, Line};
use super::stack_simd::{self, Pass, Pending};
#[cfg(target_arch = "x86_64")]
use super::wide_simd as wide;
use compute::net::Activation;

/// The numbers that a pass multiplies, and how they lie in words of 32 bits.
pub(super) trait Format: Copy {
    /// Lines of sums that make a line of values.
    const PACKED: usize;
    type Sums: Lanes;
    /// Sixteen words.
    type Words: Copy;
    fn load(from: &Line) -> Self::Words;
    /// The same word in all lanes.
    fn splat(word: u32) -> Self::Words;
    /// Sums and the products of numbers of `w` with those of `x`.
    fn add_products(sums: Self::Sums, w: Self::Words, x: Self::Words) -> Self::Sums;
    /// Writes sums as values from line `line` of sums on. Of a line of values that they do not fill the rest is zero.
    ///
    /// # Safety
    ///
    /// `row` has room for them.
    unsafe fn put<const V: usize>(sums: [Self::Sums; V], row: *mut Line, line: usize);
    /// The tangents of sums.
    #[inline(always)]
    fn tanh<const V: usize>(x: [Self::Sums; V]) -> [Self::Sums; V] {
        Self::Sums::tanh(x)
    }
    /// [`stack_simd::squares`], apart from what is around it: all registers are its own.
    #[inline(always)]
    fn squares(layer: &Dense, number: usize, pass: &mut Pass<'_>, pending: Option<Pending>) -> Option<Pending> {
        stack_simd::squares::<Self>(layer, number, pass, pending)
    }
    /// [`heads_simd::heads`], the same way.
    #[inline(always)]
    fn heads(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
        heads_simd::heads::<Self>(layer, number, pass);
    }
}

/// A word is a number.
macro_rules! singles {
    ($lanes:ty $(, $own:item)*) => {
        impl Format for $lanes {
            const PACKED: usize = 1;
            type Sums = $lanes;
            type Words = $lanes;
            #[inline(always)]
            fn load(from: &Line) -> $lanes {
                Lanes::load(from)
            }
            #[inline(always)]
            fn splat(word: u32) -> $lanes {
                Lanes::splat(f32::from_bits(word))
            }
            #[inline(always)]
            fn add_products(sums: $lanes, w: $lanes, x: $lanes) -> $lanes {
                w.mul_add(x, sums)
            }
            #[inline(always)]
            unsafe fn put<const V: usize>(sums: [$lanes; V], row: *mut Line, line: usize) {
                for v in 0..V {
                    // SAFETY: as above.
                    sums[v].store(unsafe { &mut *row.add(line + v) });
                }
            }
            $($own)*
        }
    };
}

singles!(Plain);
#[cfg(target_arch = "x86_64")]
singles!(wide::Eights);
#[cfg(target_arch = "x86_64")]
singles!(
    wide::Sixteen,
    #[inline(always)]
    fn squares(layer: &Dense, number: usize, pass: &mut Pass<'_>, pending: Option<Pending>) -> Option<Pending> {
        // SAFETY: who has these lanes has the features.
        unsafe { wide::squares(layer, number, pass, pending) }
    },
    #[inline(always)]
    fn heads(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
        // SAFETY: as above.
        unsafe { wide::heads(layer, number, pass) }
    }
);

/// The choice is made once for all sums of a block: inside of the rows it cost a tenth of a pass.
#[inline(always)]
pub(super) fn activate_rows<F: Format, const R: usize, const V: usize>(
    activation: Activation,
    x: &mut [[F::Sums; V]; R],
) {
    match activation {
        Activation::Identity => {}
        Activation::Relu => {
            for r in 0..R {
                for v in 0..V {
                    x[r][v] = x[r][v].at_least(0.0);
                }
            }
        }
        Activation::Tanh => {
            for r in 0..R {
                x[r] = F::tanh(x[r]);
            }
        }
    }
}
