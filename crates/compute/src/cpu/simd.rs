//! Floats side by side, for loops that fuse products with what follows them: sixteen as AVX-512 registers, eight as
//! AVX2 registers, or eight as an array anywhere else.
//!
//! A kernel is written once for any [`Lanes`], or for any [`Eight`] where its data is laid out in eights;
//! [`lanes!`](crate::cpu::simd) and [`eights!`](crate::cpu::simd) compile it for all of them and look at run time what
//! the processor has. Products are fused where the processor can, so bits may differ between processors, never between
//! threads or shapes. A lane's bits are the same in registers of sixteen and of eight.

#![expect(unsafe_code, reason = "loads and stores through pointers, whose range the caller has checked")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod curves;

use crate::bf16;

/// Floats of an [`Eight`].
pub(super) const LANES: usize = 8;

/// Floats side by side. Everything must be inlined into a function that is compiled for its instructions.
pub(super) trait Lanes: Copy {
    /// How many.
    const N: usize;
    /// Eight of them, for what is left of a row.
    type Narrow: Eight;
    /// The same number in every lane.
    fn splat(x: f32) -> Self;
    /// `N` numbers from memory.
    ///
    /// # Safety
    /// `N` floats must lie there; the processor must have the instructions that the type is made of, as for every
    /// method.
    unsafe fn load(from: *const f32) -> Self;
    /// `N` numbers into memory.
    ///
    /// # Safety
    /// As for `load`, and nobody else may use that memory.
    unsafe fn store(self, to: *mut f32);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `self × by + plus`
    fn mul_add(self, by: Self, plus: Self) -> Self;
    /// `plus - self × by`
    fn neg_mul_add(self, by: Self, plus: Self) -> Self;
    /// At least `low` and at most `high`; NaN stays NaN.
    fn clamp(self, low: f32, high: f32) -> Self;
    /// `2ⁿ`, where n is in the lowest bits, as adding 1.5 × 2²³ leaves it.
    fn power(self) -> Self;
    /// The nearest bf16.
    fn round(self) -> Self;
}

/// Eight floats.
pub(super) trait Eight: Lanes {
    /// Rows become columns.
    fn transpose(rows: [Self; LANES]) -> [Self; LANES];
}

/// Without any special instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain([f32; LANES]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Plain, f: impl Fn(f32, f32) -> f32) -> Plain {
        Plain(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Lanes for Plain {
    const N: usize = LANES;
    type Narrow = Plain;
    #[inline(always)]
    fn splat(x: f32) -> Plain {
        Plain([x; LANES])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Plain {
        // SAFETY: the caller's promise; an array of floats needs no other alignment.
        Plain(unsafe { from.cast::<[f32; LANES]>().read() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; LANES]>().write(self.0) }
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
    fn neg_mul_add(self, by: Plain, plus: Plain) -> Plain {
        plus.sub(self.mul(by))
    }
    #[inline(always)]
    fn clamp(self, low: f32, high: f32) -> Plain {
        let above = |x: f32| if x < low { low } else { x };
        Plain(self.0.map(|x| above(if x > high { high } else { x })))
    }
    #[inline(always)]
    fn power(self) -> Plain {
        Plain(self.0.map(|x| f32::from_bits(x.to_bits().wrapping_add(127) << 23)))
    }
    #[inline(always)]
    fn round(self) -> Plain {
        Plain(self.0.map(bf16::round))
    }
}

impl Eight for Plain {
    #[inline(always)]
    fn transpose(rows: [Plain; LANES]) -> [Plain; LANES] {
        std::array::from_fn(|i| Plain(std::array::from_fn(|j| rows[j].0[i])))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::Avx512;
pub(super) use curves::{Half, tanh};

/// A kernel that is compiled for AVX2 beside the build's own instructions: `fn name(args)` calls the generic
/// `kernel::<V>(args)`.
macro_rules! eights {
    ($(#[$about:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) = $kernel:ident) => {
        $(#[$about])*
        pub(in crate::cpu) fn $name($($arg: $kind),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $kind),*) {
                    $kernel::<crate::cpu::simd::Avx2>($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has both.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $kernel::<crate::cpu::simd::Plain>($($arg),*)
        }
    };
}
pub(super) use eights;

/// The same for sixteen lanes too, where the processor has AVX-512.
macro_rules! lanes {
    ($(#[$about:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) = $kernel:ident) => {
        $(#[$about])*
        pub(in crate::cpu) fn $name($($arg: $kind),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx2,fma")]
                fn avx512($($arg: $kind),*) {
                    $kernel::<crate::cpu::simd::Avx512>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $kind),*) {
                    $kernel::<crate::cpu::simd::Avx2>($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    if std::arch::is_x86_feature_detected!("avx512f") {
                        // SAFETY: the processor has all three.
                        return unsafe { avx512($($arg),*) };
                    }
                    // SAFETY: the processor has both.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $kernel::<crate::cpu::simd::Plain>($($arg),*)
        }
    };
}
pub(super) use lanes;
