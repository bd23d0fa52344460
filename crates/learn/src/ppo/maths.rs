//! The few functions of losses and draws, the same on every machine: explicit steps of one rounding each. They are
//! inlined, so that callers compiled for fused products use the instruction.

pub(super) use compute::random::ln;

/// e^x, for x up to 80; less than -80 is taken as -80.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = x.clamp(-80.0, 80.0);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    // ln 2 in two parts.
    let r = n.mul_add(f32::from_bits(0x395e_8083), n.mul_add(f32::from_bits(0xbf31_8000), x));
    let (c6, c5) = (f32::from_bits(0x3ab6_0b61), f32::from_bits(0x3c08_8889));
    let (c4, c3) = (f32::from_bits(0x3d2a_aaab), f32::from_bits(0x3e2a_aaab));
    let mut p = c6;
    for c in [c5, c4, c3, 0.5, 1.0, 1.0] {
        p = p.mul_add(r, c);
    }
    // n plus 1.5 × 2²³ has n in its lowest bits.
    p * f32::from_bits((n + 12_582_912.0).to_bits().wrapping_add(127) << 23)
}

/// The hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let e = exp(-2.0 * x.abs());
    ((1.0 - e) / (1.0 + e)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_close_to_the_exact_ones() {
        for i in -2000..2000 {
            let x = i as f32 * 0.0391;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() <= 4e-7 * exact, "exp {x}");
            assert!((f64::from(tanh(x)) - f64::from(x).tanh()).abs() < 2e-7, "tanh {x}");
            let positive = exp(x.max(-13.8));
            assert!((f64::from(ln(positive)) - f64::from(positive).ln()).abs() < 5e-6, "ln {positive}");
        }
    }
}
