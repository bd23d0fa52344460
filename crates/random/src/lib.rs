//! Where every random number of ours comes from: two generators, each written once, and two distributions.
//!
//! [`philox`] is Philox4x32-10 (Salmon et al. 2011): four words as a pure function of a key and a counter, so that any
//! thread on any device draws any number without asking the others. Nets (`compute::random`, whose device twin is
//! `random.cuh`) and synthetic markets (`bars::synth`) draw from it; what a counter means, and how words become
//! uniforms, is theirs. [`SplitMix`] is a sequence, for whatever is drawn one after the other in one
//! thread: resampling, shuffles, made-up data of tests. [`normal`] turns uniforms into normals, and back; [`student`]
//! is the distribution of means of few.
//!
//! Left out: seeds from the clock or the system. Everything begins with a seed that somebody set.
//!
//! ```
//! let words = random::philox(7, [0, 3, 2, 5]);
//! assert_eq!(words, random::philox(7, [0, 3, 2, 5]));
//! assert!(random::SplitMix::new(7).below(10) < 10);
//! ```

pub mod normal;
pub mod student;

/// Four words for a key and a counter; the key's low half comes first.
#[inline]
pub fn philox(key: u64, counter: [u32; 4]) -> [u32; 4] {
    let (mut low, mut high) = (key as u32, (key >> 32) as u32);
    let [mut a, mut b, mut c, mut d] = counter;
    for _ in 0..10 {
        let left = u64::from(a) * 0xD251_1F53;
        let right = u64::from(c) * 0xCD9E_8D57;
        (a, b, c, d) = ((right >> 32) as u32 ^ b ^ low, right as u32, (left >> 32) as u32 ^ d ^ high, left as u32);
        low = low.wrapping_add(0x9E37_79B9);
        high = high.wrapping_add(0xBB67_AE85);
    }
    [a, b, c, d]
}

/// SplitMix64 (Steele, Lea and Flood 2014): a counter through a mixing function.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`, from the upper 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `n`, by the high half of a product, off by at most n in 2⁶⁴; 0 for `n = 0`.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }
}

/// Mixes 64 bits so that each depends on all: one seed from several numbers.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_answers() {
        // Known answers of Random123: zeros, ones, and the digits of pi.
        let ones = u32::MAX;
        for (key, counter, expected) in [
            (0, [0; 4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            (u64::MAX, [ones; 4], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                0x299f_31d0_a409_3822,
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox(key, counter), expected, "{key:x}");
        }
    }

    #[test]
    fn splitmix_gives_the_published_answers() {
        let mut random = SplitMix::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([random.bits(), random.bits(), random.bits()], expected);
        let mut random = SplitMix::new(0);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
        assert_eq!(random.below(0), 0);
        let mut bins = [0u32; 7];
        (0..70_000).for_each(|_| bins[random.below(7)] += 1);
        let chi: f64 = bins.iter().map(|b| (f64::from(*b) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 30.0, "chi-square with 6 degrees of freedom: {chi}");
    }
}
