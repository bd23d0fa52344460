//! A shuffle without memory: a Feistel network on the smallest even number of bits that holds all positions, walked
//! until inside.
//!
//! Position `i` is split into two halves of bits; eight rounds replace `(left, right)` by `(right, left ^ mix(right,
//! key))`. That is a bijection of `2^(2 half)` numbers whatever `mix` does. A result of `n` or more is put in again
//! (cycle walking): the cycle comes back below `n` because it holds `i`. Fewer than 4 rounds through the network are
//! needed on average. No sort, no table, no state.

#![expect(unsafe_code, reason = "calling a function compiled for instructions that were just found")]

use super::{Stream, philox};

const ROUNDS: usize = 8;

/// A bijection of the numbers below `n`, another for each seed, member and epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    n: u32,
    /// Bits of a half, 1 to 16.
    half: u32,
    keys: [u32; ROUNDS],
}

impl Permutation {
    /// The order of `n` samples in an epoch; `n` is at least 1, and 0 is taken as 1.
    pub fn new(n: u32, seed: u64, member: u32, epoch: u32) -> Permutation {
        let n = n.max(1);
        let bits = 32 - (n - 1).leading_zeros();
        let mut keys = [0; ROUNDS];
        for (block, keys) in keys.chunks_exact_mut(4).enumerate() {
            keys.copy_from_slice(&philox(seed, [block as u32, epoch, Stream::Shuffle as u32, member]));
        }
        Permutation { n, half: bits.div_ceil(2).max(1), keys }
    }

    /// What stands at position `i`, below `n`; a position behind the last is taken as the last.
    pub fn at(&self, i: u32) -> u32 {
        // Without the limit a walk from outside might never come inside.
        let mut x = self.once(i.min(self.n - 1));
        while x >= self.n {
            x = self.once(x);
        }
        x
    }

    /// What stands at the positions from `first` on.
    pub fn fill(&self, first: u32, out: &mut [u32]) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            fn avx2(order: &Permutation, first: u32, out: &mut [u32]) {
                order.fill_by(first, out);
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                return unsafe { avx2(self, first, out) };
            }
        }
        self.fill_by(first, out);
    }

    /// Positions go through the network side by side; those that are still outside go through it again together.
    #[inline(always)]
    fn fill_by(&self, first: u32, out: &mut [u32]) {
        const TOGETHER: usize = 256;
        let last = self.n - 1;
        let (mut walking, mut places) = ([0u32; TOGETHER], [0usize; TOGETHER]);
        for (chunk, out) in out.chunks_mut(TOGETHER).enumerate() {
            let first = first.saturating_add((chunk * TOGETHER) as u32);
            let mut n = out.len();
            for (i, (x, place)) in walking.iter_mut().zip(&mut places).enumerate().take(n) {
                (*x, *place) = (first.saturating_add(i as u32).min(last), i);
            }
            while n > 0 {
                // A loop: what a chain of iterators calls may stay outside of the function compiled for AVX2.
                for x in &mut walking[..n] {
                    *x = self.once(*x);
                }
                let mut outside = 0;
                for i in 0..n {
                    let (x, place) = (walking[i], places[i]);
                    // Written also where it is outside, and then again: a branch here would be a guess.
                    out[place] = x;
                    (walking[outside], places[outside]) = (x, place);
                    outside += usize::from(x >= self.n);
                }
                n = outside;
            }
        }
    }

    #[inline(always)]
    fn once(&self, x: u32) -> u32 {
        let (mut left, mut right) = (x >> self.half, x & ((1 << self.half) - 1));
        for key in self.keys {
            (left, right) = (right, left ^ mix(right, key) >> (32 - self.half));
        }
        left << self.half | right
    }
}

/// Spreads the bits of a keyed half over a word, best in the upper ones.
#[inline(always)]
fn mix(half: u32, key: u32) -> u32 {
    let mut x = half.wrapping_mul(0x9E37_79B1) ^ key;
    x = (x ^ x >> 16).wrapping_mul(0x85EB_CA6B);
    x = (x ^ x >> 13).wrapping_mul(0xC2B2_AE35);
    x ^ x >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n: u32, seed: u64) {
        let p = Permutation::new(n, seed, 3, 1);
        let mut filled = vec![0; n as usize + 3];
        p.fill(0, &mut filled);
        let each: Vec<u32> = (0..n + 3).map(|i| p.at(i)).collect();
        assert_eq!(filled, each, "n {n}");
        let mut seen = vec![false; n as usize];
        for i in 0..n {
            let at = p.at(i) as usize;
            assert!(at < n as usize && !seen[at], "n {n}: position {i} repeats {at}");
            seen[at] = true;
        }
    }

    #[test]
    fn it_is_a_bijection() {
        for n in 1..=2000 {
            check(n, u64::from(n) * 77);
        }
        for n in [1 << 16, (1 << 16) + 1, (1 << 20) + 7] {
            check(n, 5);
        }
    }

    #[test]
    fn large_orders_do_not_repeat() {
        for n in [u32::MAX, u32::MAX - 1, (1 << 31) + 1, (1 << 30) + 1] {
            let p = Permutation::new(n, 9, 0, 0);
            let mut seen: Vec<u32> = (0..100_000).map(|i| p.at(i)).chain((n - 100_000..n).map(|i| p.at(i))).collect();
            assert!(seen.iter().all(|x| *x < n));
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 200_000, "n {n}");
        }
    }

    #[test]
    fn bad_positions_and_sizes_end() {
        assert_eq!(Permutation::new(0, 1, 1, 1).at(5), 0);
        for n in [1, 2, 5, 17, 1000, (1 << 20) + 1] {
            let p = Permutation::new(n, 1, 1, 1);
            assert_eq!(p.at(u32::MAX), p.at(n - 1));
        }
    }

    #[test]
    fn walks_are_short() {
        for n in [5, 17, 65, 257, 1025, 16_385, 65_537] {
            let p = Permutation::new(n, 4, 0, 0);
            let walk = |i: u32| {
                let (mut x, mut steps) = (p.once(i), 1u64);
                while x >= n {
                    (x, steps) = (p.once(x), steps + 1);
                }
                steps
            };
            // All cycles together hold each number of the domain at most once, and the domain is less than 4 n.
            let steps: u64 = (0..n).map(walk).sum();
            assert!(steps <= 1 << (2 * p.half) && steps < 4 * u64::from(n), "n {n}: {steps}");
        }
    }

    #[test]
    fn seeds_members_and_epochs_differ() {
        let order = |seed, member, epoch| -> Vec<u32> {
            let p = Permutation::new(1000, seed, member, epoch);
            (0..1000).map(|i| p.at(i)).collect()
        };
        let one = order(1, 0, 0);
        assert_eq!(one, order(1, 0, 0));
        for other in [order(2, 0, 0), order(1 << 32, 0, 0), order(1, 1, 0), order(1, 0, 1)] {
            let same = one.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 12, "{same} of 1000 positions are the same; 1 is expected");
        }
    }

    /// Counts where pairs of positions go over many epochs; every ordered pair is as likely.
    #[test]
    fn positions_are_uniform() {
        for n in [2u32, 3, 4, 5, 7, 8, 10, 16, 17, 31] {
            let epochs = 400 * n * (n - 1).max(1);
            for (i, j) in [(0, 1), (n - 1, 0), (n / 2, n - 1)] {
                if i == j {
                    continue;
                }
                let mut counts = vec![0u32; (n * n) as usize];
                for epoch in 0..epochs {
                    let p = Permutation::new(n, 21, 0, epoch);
                    counts[(p.at(i) * n + p.at(j)) as usize] += 1;
                }
                let free = f64::from(n * (n - 1) - 1);
                let squares: f64 = counts.iter().map(|c| (f64::from(*c) - 400.0).powi(2) / 400.0).sum();
                // The diagonal cannot be reached and adds 400 for each of its n cells.
                let chi = squares - 400.0 * f64::from(n);
                assert!(chi < free + 5.0 * (2.0 * free).sqrt() + 6.0, "n {n}, positions {i} {j}: {chi} of {free}");
            }
        }
    }

    /// In a large order, neighbours must not stay neighbours, and each tenth must be spread over all tenths.
    #[test]
    fn large_orders_look_shuffled() {
        let n = 100_003u32;
        for epoch in 0..5 {
            let p = Permutation::new(n, 33, 2, epoch);
            let order: Vec<u32> = (0..n).map(|i| p.at(i)).collect();
            let near = order.windows(2).filter(|w| w[0].abs_diff(w[1]) < 10).count();
            assert!((10..40).contains(&near), "{near} near neighbours; 18 are expected");
            let mut counts = [0f64; 100];
            for (i, x) in order.iter().enumerate() {
                counts[i * 10 / n as usize * 10 + *x as usize * 10 / n as usize] += 1.0;
            }
            let expected = f64::from(n) / 100.0;
            let chi: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
            assert!((40.0..145.0).contains(&chi), "chi-square with 81 degrees of freedom: {chi}");
        }
    }
}
