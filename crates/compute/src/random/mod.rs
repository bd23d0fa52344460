//! Random numbers without state: what is drawn from the words of Philox ([`philox`], of the room `random`).
//!
//! A number is a pure function of a key and a counter, so that any thread on any device draws any number without asking
//! the others. The key is the seed; the counter is `[index, step, stream, member]`:
//!
//! | word | what it is |
//! | --- | --- |
//! | 0 | index: which block of four words; element `i` of a sequence is word `i % 4` of block `i / 4` |
//! | 1 | step: the training step, the epoch, or the number of the tensor, as the stream says |
//! | 2 | stream: what is drawn, [`Stream`]; above its 8 bits what [`Dropout`] has beside |
//! | 3 | member: the member's id |
//!
//! Integers, uniforms, permutations and normals are bit-equal on all twins. Device twin: `random.cuh`; parity through
//! `random.cu`.

mod dropout;
mod fill;
mod normal;
mod permutation;

pub use ::random::philox;
pub use dropout::{Dropout, Turn};
pub(crate) use dropout::{factor, share, threshold};
pub use fill::{fill_normals, fill_perturbation};
pub use normal::{ln, normals};
pub use permutation::Permutation;

/// Declares the streams once, with the list that a test compares with `random.cuh`.
macro_rules! streams {
    ($($(#[$about:meta])* $name:ident = $number:literal,)*) => {
        /// What is drawn; each has its own numbers. `STREAM_` and the name in capitals in `random.cuh`.
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Stream {
            $($(#[$about])* $name = $number,)*
        }

        impl Stream {
            /// All of them.
            pub const ALL: &[Stream] = &[$(Stream::$name),*];
        }
    };
}

streams! {
    /// First weights; the step is the number of the tensor.
    Init = 0,
    /// The order of samples; the step is the epoch.
    Shuffle = 1,
    /// Noise on anything, a training step at a time.
    Noise = 2,
    /// Which values a step leaves out; the step is the training step. The number of the layer stands above the stream
    /// (see [`Dropout`]).
    Dropout = 3,
    /// Which action a policy takes; the step is that of the rollout.
    Action = 4,
    /// Where an episode starts; the step is the number of the episode.
    Start = 5,
    /// How an individual differs from its parents; the step is the generation.
    Perturbation = 6,
    /// Which outcome a search draws at a chance node; the step is the simulation.
    Chance = 7,
}

/// The words of one sequence, in order.
pub fn words(seed: u64, stream: Stream, step: u32, member: u32) -> impl Iterator<Item = u32> {
    (0..=u32::MAX).flat_map(move |index| philox(seed, [index, step, stream as u32, member]))
}

/// Uniform in `[0, 1)`, from the upper 24 bits.
pub fn uniform(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// An integer below `n`, by multiply-high; 0 for `n = 0`. No value's probability is off by more than 2⁻³², so a set of
/// values by no more than `n × 2⁻³²`.
pub fn below(bits: u32, n: u32) -> u32 {
    ((u64::from(bits) * u64::from(n)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_blocks_in_order() {
        let seen: Vec<u32> = words(7, Stream::Noise, 3, 5).take(10).collect();
        assert_eq!(seen[..4], philox(7, [0, 3, 2, 5]));
        assert_eq!(seen[8..], philox(7, [2, 3, 2, 5])[..2]);
        let others = [words(7, Stream::Init, 3, 5).next(), words(7, Stream::Noise, 5, 3).next()];
        assert!(!others.contains(&Some(seen[0])));
    }

    #[test]
    fn streams_are_those_of_the_device_twin_and_differ() {
        let twin = include_str!("random.cuh");
        let list =
            twin.split_once("enum Stream : u32 {").and_then(|(_, rest)| rest.split_once('}')).expect("its enum").0;
        let there: Vec<(String, u32)> = list
            .split(',')
            .filter(|entry| !entry.trim().is_empty())
            .map(|entry| {
                let (name, number) = entry.split_once('=').expect("a number");
                (name.trim().to_string(), number.trim().parse().expect("a number"))
            })
            .collect();
        let here: Vec<(String, u32)> = Stream::ALL
            .iter()
            .map(|stream| (format!("STREAM_{}", format!("{stream:?}").to_uppercase()), *stream as u32))
            .collect();
        assert_eq!(here, there);
        // Eight bits of the counter's word are the stream's.
        assert!(here.iter().all(|(_, number)| *number < 256));
        let first: std::collections::BTreeSet<u32> =
            Stream::ALL.iter().filter_map(|stream| words(7, *stream, 3, 5).next()).collect();
        assert_eq!(first.len(), Stream::ALL.len());
    }

    #[test]
    fn uniforms_stay_below_one() {
        assert_eq!(uniform(0), 0.0);
        assert_eq!(uniform(255), 0.0);
        assert_eq!(uniform(1 << 31), 0.5);
        assert_eq!(uniform(u32::MAX), 1.0 - f32::EPSILON / 2.0);
        let n = 1 << 20;
        let mut bins = [0u32; 64];
        words(1, Stream::Noise, 0, 0).take(n).for_each(|w| bins[(uniform(w) * 64.0) as usize] += 1);
        let expected = n as f64 / 64.0;
        let chi: f64 = bins.iter().map(|b| (f64::from(*b) - expected).powi(2) / expected).sum();
        assert!((25.0..115.0).contains(&chi), "chi-square with 63 degrees of freedom: {chi}");
    }

    #[test]
    fn integers_stay_below_n() {
        for n in [1, 2, 3, 7, 1000, u32::MAX] {
            assert_eq!(below(0, n), 0);
            assert_eq!(below(u32::MAX, n), n - 1);
        }
        assert_eq!(below(u32::MAX, 0), 0);
        let mut bins = [0u32; 7];
        words(2, Stream::Noise, 0, 0).take(70_000).for_each(|w| bins[below(w, 7) as usize] += 1);
        let chi: f64 = bins.iter().map(|b| (f64::from(*b) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 30.0, "chi-square with 6 degrees of freedom: {chi}");
    }

    /// Digests that `random.cuh`, compiled as plain C++ with fma, gave too; another number here is another net
    /// everywhere.
    #[test]
    fn bits_are_pinned() {
        let digest = |words: &mut dyn Iterator<Item = u32>| {
            words.fold(0xcbf2_9ce4_8422_2325_u64, |h, w| (h ^ u64::from(w)).wrapping_mul(0x0100_0000_01b3))
        };
        let n = 1_u32 << 18;
        let blocks = || (0..n).map(|i| (i, philox(1, [i, 0, Stream::Noise as u32, 0])));
        let mixed = |(i, w): (u32, [u32; 4])| {
            [uniform(w[0]).to_bits(), below(w[1], 1_000_003), uniform(w[2]).to_bits(), below(w[3], i)]
        };
        let sizes = [1, 2, 3, 4, 5, 16, 17, 1000, 65_536, 65_537, 1_048_583, 2_147_483_649, u32::MAX];
        let orders = sizes.into_iter().enumerate().map(|(epoch, size)| Permutation::new(size, 7, 5, epoch as u32));
        let seen = [
            digest(&mut blocks().flat_map(|(_, w)| w)),
            digest(&mut blocks().flat_map(mixed)),
            digest(&mut blocks().flat_map(|(_, w)| normals(w)).map(f32::to_bits)),
            digest(&mut orders.flat_map(|p| (0..n / 16).map(move |i| p.at(i)))),
        ];
        let expected = [0xc1a5_59b0_a5df_1450, 0xc7b4_2bf9_a9bc_bc21, 0xb098_7ce8_addd_2986, 0x90e6_5aa3_28cc_b3c6];
        assert_eq!(seen, expected);
    }
}
