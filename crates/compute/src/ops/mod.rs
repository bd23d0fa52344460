//! The operations in their plainest form: what each one is, in loops that can be checked by hand.
//!
//! These are the specification. The fast twins (`cpu`, and the `.cu` files beside these) are tested against them;
//! nothing here is meant to be fast. What has a gradient is written for any [`Real`], so that central differences can
//! be taken in f64.

pub mod finite;
pub mod gather;
pub mod linear;
pub mod loss;
pub mod lstm;
pub mod norm;
pub mod optimise;
pub mod recurrent;
pub mod step;
pub mod sums;
pub mod whole;

#[cfg(test)]
mod tests;

use crate::bf16;
use crate::population::Precision;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// A number to compute with: f32 as the devices do, f64 where differences are taken.
pub trait Real:
    Copy
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
{
    /// The nearest one.
    fn from_f64(x: f64) -> Self;
    /// Its value.
    fn value(self) -> f64;
    /// The power of e.
    fn exp(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;

    /// As it is held: rounded in bf16, else as it is.
    fn rounded_to(self, precision: Precision) -> Self {
        match precision {
            Precision::Bf16 => Self::from_f64(f64::from(bf16::round(self.value() as f32))),
            Precision::F32 | Precision::Tf32 => self,
        }
    }
}

impl Real for f32 {
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
    fn value(self) -> f64 {
        f64::from(self)
    }
    fn exp(self) -> f32 {
        self.exp()
    }
    fn tanh(self) -> f32 {
        self.tanh()
    }
}

impl Real for f64 {
    fn from_f64(x: f64) -> f64 {
        x
    }
    fn value(self) -> f64 {
        self
    }
    fn exp(self) -> f64 {
        self.exp()
    }
    fn tanh(self) -> f64 {
        self.tanh()
    }
}
