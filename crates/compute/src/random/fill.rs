//! Normals of a whole stretch of a sequence, many blocks at a time; the same bits as [`normals`] of [`philox`], block
//! by block.
//!
//! The loops go over arrays of sixteen blocks without a branch, so that the compiler makes vector instructions of them.
//! They are compiled for AVX-512, for AVX2 with fused products, and for everything else; which one runs is decided when
//! it is called.

use super::normal::pair;
use super::{Stream, normals, philox};

/// Blocks side by side.
const WIDE: usize = 16;

/// Normals of a sequence of `[step, stream, member]`, from those of block `first` on: `out[i]` is normal `i % 4` of
/// block `first + i / 4`.
pub fn fill_normals(seed: u64, first: u32, [step, stream, member]: [u32; 3], out: &mut [f32]) {
    let wide = out.len() / (4 * WIDE) * (4 * WIDE);
    let (many, rest) = out.split_at_mut(wide);
    let rest_first = first.wrapping_add(many.len() as u32 / 4);
    fill(seed, first, [step, stream, member], many);
    for (block, out) in rest.chunks_mut(4).enumerate() {
        let drawn = normals(philox(seed, [rest_first.wrapping_add(block as u32), step, stream, member]));
        out.copy_from_slice(&drawn[..out.len()]);
    }
}

/// The normals of one draw of a generation; see [`Stream::Perturbation`].
pub fn fill_perturbation(seed: u64, member: u32, generation: u32, first: u32, out: &mut [f32]) {
    fill_normals(seed, first, [generation, Stream::Perturbation as u32, member], out);
}

/// Whole groups of [`WIDE`] blocks.
fn fill(seed: u64, first: u32, rest: [u32; 3], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
        fn avx512(seed: u64, first: u32, rest: [u32; 3], out: &mut [f32]) {
            groups(seed, first, rest, out);
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2(seed: u64, first: u32, rest: [u32; 3], out: &mut [f32]) {
            groups(seed, first, rest, out);
        }
        use std::arch::is_x86_feature_detected as has;
        let fused = has!("fma");
        if fused && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            #[expect(unsafe_code, reason = "the features were detected")]
            return unsafe { avx512(seed, first, rest, out) };
        }
        if fused && has!("avx2") {
            #[expect(unsafe_code, reason = "the features were detected")]
            return unsafe { avx2(seed, first, rest, out) };
        }
    }
    groups(seed, first, rest, out);
}

#[inline(always)]
fn groups(seed: u64, first: u32, rest: [u32; 3], out: &mut [f32]) {
    for (group, out) in out.chunks_exact_mut(4 * WIDE).enumerate() {
        let words = words(seed, first.wrapping_add((group * WIDE) as u32), rest);
        let mut drawn = [[0.0f32; WIDE]; 4];
        for i in 0..WIDE {
            [drawn[0][i], drawn[1][i]] = pair(words[0][i], words[1][i]);
        }
        for i in 0..WIDE {
            [drawn[2][i], drawn[3][i]] = pair(words[2][i], words[3][i]);
        }
        for (i, out) in out.chunks_exact_mut(4).enumerate() {
            out.copy_from_slice(&[drawn[0][i], drawn[1][i], drawn[2][i], drawn[3][i]]);
        }
    }
}

/// `[4][blocks]` the words of neighbouring blocks: [`philox`] with the rounds outside.
#[inline(always)]
fn words(seed: u64, first: u32, [step, stream, member]: [u32; 3]) -> [[u32; WIDE]; 4] {
    let (mut low, mut high) = (seed as u32, (seed >> 32) as u32);
    let mut a: [u32; WIDE] = std::array::from_fn(|i| first.wrapping_add(i as u32));
    let (mut b, mut c, mut d) = ([step; WIDE], [stream; WIDE], [member; WIDE]);
    for _ in 0..10 {
        for i in 0..WIDE {
            let left = u64::from(a[i]) * 0xD251_1F53;
            let right = u64::from(c[i]) * 0xCD9E_8D57;
            a[i] = (right >> 32) as u32 ^ b[i] ^ low;
            b[i] = right as u32;
            c[i] = (left >> 32) as u32 ^ d[i] ^ high;
            d[i] = left as u32;
        }
        low = low.wrapping_add(0x9E37_79B9);
        high = high.wrapping_add(0xBB67_AE85);
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_the_bits_of_its_blocks() {
        for (first, count) in [(0, 0), (0, 1), (3, 4), (u32::MAX - 2, 63), (7, 64), (1, 65), (5, 1000)] {
            let mut out = vec![0.0; count];
            fill_perturbation(0x1234_5678_9abc_def0, 77, 9, first, &mut out);
            for (i, found) in out.iter().enumerate() {
                let block = first.wrapping_add(i as u32 / 4);
                let counter = [block, 9, Stream::Perturbation as u32, 77];
                let wanted = normals(philox(0x1234_5678_9abc_def0, counter))[i % 4];
                assert_eq!(found.to_bits(), wanted.to_bits(), "{first} + {i}");
            }
        }
    }
}
