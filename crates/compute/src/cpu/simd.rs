//! Eight floats side by side, for loops that fuse products with what follows them: as AVX2 registers, or as an array
//! anywhere else.
//!
//! A kernel is written once for any [`Eight`]; [`eights!`](crate::cpu::simd) compiles it for both and looks at run time
//! what the processor has. Products are fused where the processor can, so bits may differ between processors, never
//! between threads or shapes.

#![expect(unsafe_code, reason = "loads and stores through pointers, whose range the caller has checked")]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod curves;

use crate::bf16;

/// How many floats.
pub(super) const LANES: usize = 8;

/// Eight floats. Everything must be inlined into a function that is compiled for its instructions.
pub(super) trait Eight: Copy {
    /// The same number eight times.
    fn splat(x: f32) -> Self;
    /// Eight numbers from memory.
    ///
    /// # Safety
    /// Eight floats must lie there; for AVX2 the processor must have AVX2 and FMA, as for every method.
    unsafe fn load(from: *const f32) -> Self;
    /// Eight numbers into memory.
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

impl Eight for Plain {
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
    #[inline(always)]
    fn transpose(rows: [Plain; LANES]) -> [Plain; LANES] {
        std::array::from_fn(|i| Plain(std::array::from_fn(|j| rows[j].0[i])))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;
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
