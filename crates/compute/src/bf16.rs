//! Rounding to bf16: a number keeps its sign, its exponent and 8 bits of mantissa.
//!
//! Round to nearest, ties to even, as the hardware does. The result stays an f32, so that products of rounded numbers
//! are exact and sums are f32, as on tensor cores.

use crate::population::Precision;

/// The nearest bf16, as an f32; NaN stays NaN, and what is too large becomes infinite.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    let bits = x.to_bits();
    let even = (bits >> 16) & 1;
    // Adding a half in the last place carries into the kept bits exactly where the nearest number lies above.
    let near = bits.wrapping_add(0x7fff + even) & 0xffff_0000;
    // A NaN whose kept bits are all zero would become infinite; the quiet bit keeps it one.
    let nan = (bits | 0x0040_0000) & 0xffff_0000;
    f32::from_bits(if x.is_nan() { nan } else { near })
}

/// [`round`] where the precision asks for it.
#[inline(always)]
pub fn held(x: f32, precision: Precision) -> f32 {
    match precision {
        Precision::Bf16 => round(x),
        Precision::F32 | Precision::Tf32 => x,
    }
}

#[cfg(test)]
mod tests {
    use super::round;

    #[test]
    fn rounds_as_half_does() {
        // Every exponent and sign, with mantissas around every kind of tie.
        for high in 0..=u16::MAX {
            for low in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let x = f32::from_bits(u32::from(high) << 16 | low);
                let expected = half::bf16::from_f32(x).to_f32();
                let got = round(x);
                assert!(
                    got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()),
                    "{x:e}: {got:e}, not {expected:e}"
                );
            }
        }
    }
}
