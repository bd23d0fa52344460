//! How fast this processor copies and multiplies, measured in about a second.

use compute::population::Precision;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Measured on this machine with whatever else ran on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuRates {
    /// What `all` means below.
    pub threads: usize,
    /// Bytes copied from memory to memory by one thread.
    pub copy_one_thread_bytes_per_s: f64,
    /// By all of them.
    pub copy_all_threads_bytes_per_s: f64,
    /// f32 matrix products on random data, one thread.
    pub product_one_thread_flop_per_s: f64,
    /// All threads, each at products of its own.
    pub product_all_threads_flop_per_s: f64,
}

/// How long each of the four measurements lasts.
const SPAN: Duration = Duration::from_millis(250);

/// Larger than any last-level cache people have, so that memory is measured.
const PIECE: u64 = 256 << 20;

/// Measures with so many threads, within what memory is available.
pub(crate) fn measure(threads: usize, available_bytes: u64) -> CpuRates {
    // Source and destination together take at most a quarter of what is there.
    let bytes = PIECE.min(available_bytes / 8).max(1 << 20) as usize;
    CpuRates {
        threads,
        copy_one_thread_bytes_per_s: copy_rate(1, bytes, SPAN),
        copy_all_threads_bytes_per_s: copy_rate(threads, bytes, SPAN),
        product_one_thread_flop_per_s: compute::cpu_rate::product_rate(1, SPAN, Precision::F32),
        product_all_threads_flop_per_s: compute::cpu_rate::product_rate(threads, SPAN, Precision::F32),
    }
}

/// Bytes a second copied by so many threads, each within its own share of `bytes`.
fn copy_rate(threads: usize, bytes: usize, span: Duration) -> f64 {
    compute::cpu_rate::together(threads, |_, start| {
        let bytes = (bytes / threads.max(1)).max(4096);
        // Written once, so that every page is there before the clock runs.
        let (from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
        start();
        let begun = Instant::now();
        let mut copied = 0usize;
        while copied == 0 || begun.elapsed() < span {
            for (from, to) in from.chunks(8 << 20).zip(to.chunks_mut(8 << 20)) {
                to.copy_from_slice(black_box(from));
                black_box(to);
                copied += from.len();
                if begun.elapsed() >= span {
                    break;
                }
            }
        }
        copied as f64 / begun.elapsed().as_secs_f64()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_comes_for_any_size_and_number_of_threads() {
        for (threads, bytes) in [(0, 0), (1, 1), (2, 1 << 20), (3, 5_000_000)] {
            let rate = copy_rate(threads, bytes, Duration::from_millis(1));
            assert!(rate.is_finite() && rate > 0.0, "{threads} {bytes}: {rate}");
        }
    }
}
