//! What this processor can do: its vector instructions, and how fast it multiplies matrices.
//!
//! The rate is that of the work we do: each thread has products of its own, because the CPU engine spreads rows over
//! threads and never threads inside a product.

use crate::bf16;
use crate::cpu::square_product;
use crate::population::Precision;
use crate::random::{Stream, uniform, words};
use std::hint::black_box;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Vector instructions found at run time, widest last: `sse4.2`, `avx2`, `fma`, `avx512f`, `amx-bf16`; `neon` on Arm.
pub fn simd() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            ("sse4.2", is_x86_feature_detected!("sse4.2")),
            ("avx", is_x86_feature_detected!("avx")),
            ("f16c", is_x86_feature_detected!("f16c")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
            ("amx-bf16", crate::amx::is_here()),
        ];
        found.extend(known.into_iter().filter_map(|(name, there)| there.then_some(name)));
    }
    #[cfg(target_arch = "aarch64")]
    {
        let known = [
            ("neon", std::arch::is_aarch64_feature_detected!("neon")),
            ("fp16", std::arch::is_aarch64_feature_detected!("fp16")),
            ("bf16", std::arch::is_aarch64_feature_detected!("bf16")),
            ("sve", std::arch::is_aarch64_feature_detected!("sve")),
        ];
        found.extend(known.into_iter().filter_map(|(name, there)| there.then_some(name)));
    }
    found
}

/// The vector instructions that decide the bits of results, as one word: `avx2 avx512f avx512bf16`. Sums and curves go
/// through registers of another width on another processor, and products of bf16 through tiles where there are some.
pub fn instructions() -> String {
    let decide = ["avx2", "avx512f", "avx512bf16", "amx-bf16", "neon"];
    let found: Vec<&str> = simd().into_iter().filter(|name| decide.contains(name)).collect();
    if found.is_empty() { "none".into() } else { found.join(" ") }
}

/// Side of the square matrices: three of them fit the second-level cache of most cores.
const SIDE: usize = 256;

/// Whether this processor multiplies numbers of bf16 by instructions of their own.
pub fn multiplies_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::cpu::multiplies_bf16();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Floating-point operations a second of matrix products on random data in some precision, with so many threads, each
/// at its own products for about `span`.
pub fn product_rate(threads: usize, span: Duration, precision: Precision) -> f64 {
    let bf16 = precision == Precision::Bf16;
    together(threads, |thread, start| {
        // [SIDE, SIDE]
        let [a, b] = [1, 2].map(|side| random(2 * thread as u64 + side));
        let [a, b] = [a, b].map(|all| all.into_iter().map(|x| bf16::held(x, precision)).collect::<Vec<f32>>());
        let product = |a: &[f32], b: &[f32], c: &mut [f32]| square_product(SIDE, a, b, c, bf16);
        let mut c = vec![0.0f32; SIDE * SIDE]; // [SIDE, SIDE]
        product(&a, &b, &mut c);
        start();
        let begun = Instant::now();
        let mut products = 0u64;
        while products == 0 || begun.elapsed() < span {
            product(black_box(&a), black_box(&b), &mut c);
            black_box(&mut c);
            products += 1;
        }
        products as f64 * 2.0 * (SIDE * SIDE * SIDE) as f64 / begun.elapsed().as_secs_f64()
    })
}

/// Runs the work on so many threads at once and adds up the rates they give. Each is handed its number and a function
/// to call when it is prepared, which returns when all are. Where the system refuses a thread, the others are measured
/// without it.
pub fn together(threads: usize, work: impl Fn(usize, &dyn Fn()) -> f64 + Sync) -> f64 {
    let (gate, ready) = (RwLock::new(()), AtomicUsize::new(0));
    let run = |thread: usize| {
        work(thread, &|| {
            ready.fetch_add(1, Ordering::Relaxed);
            drop(gate.read());
        })
    };
    let run = &run;
    std::thread::scope(|scope| {
        let closed = gate.write();
        let started = (0..threads.max(1))
            .map_while(|i| std::thread::Builder::new().name("rate".into()).spawn_scoped(scope, move || run(i)).ok());
        let started: Vec<_> = started.collect();
        if started.is_empty() {
            drop(closed);
            return run(0);
        }
        // One that has ended without being prepared is not waited for.
        while ready.load(Ordering::Relaxed) < started.len() && !started.iter().any(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_micros(100));
        }
        drop(closed);
        started.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

/// Numbers in `-1..1` that no multiplier can skip.
fn random(seed: u64) -> Vec<f32> {
    words(seed, Stream::Noise, 0, 0).take(SIDE * SIDE).map(|word| uniform(word) * 2.0 - 1.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timed_product_is_a_product() {
        let (a, b) = (random(1), random(2));
        let mut c = vec![0.0f32; SIDE * SIDE];
        square_product(SIDE, &a, &b, &mut c, false);
        for (row, column) in [(0, 0), (3, 200), (255, 17), (255, 255)] {
            let exact: f64 = (0..SIDE).map(|k| f64::from(a[row * SIDE + k]) * f64::from(b[k * SIDE + column])).sum();
            assert!((f64::from(c[row * SIDE + column]) - exact).abs() < 1e-3, "{row} {column}");
        }
        let mean = a.iter().sum::<f32>() / a.len() as f32;
        assert!(mean.abs() < 0.02 && a.iter().all(|v| (-1.0..1.0).contains(v)), "{mean}");
    }

    #[test]
    fn threads_start_together_and_a_failing_one_stops_nobody() {
        let prepared = AtomicUsize::new(0);
        let sum = together(4, |thread, start| {
            prepared.fetch_add(1, Ordering::SeqCst);
            start();
            assert_eq!(prepared.load(Ordering::SeqCst), 4, "all are prepared before one begins");
            thread as f64
        });
        assert_eq!(sum, 6.0);
        let sum = together(3, |thread, start| {
            if thread == 1 {
                std::panic::resume_unwind(Box::new("refused"));
            }
            start();
            1.0
        });
        assert_eq!(sum, 2.0);
    }

    #[test]
    fn a_rate_comes_for_any_number_of_threads() {
        for threads in [0, 1, 3] {
            for precision in [Precision::F32, Precision::Bf16] {
                let rate = product_rate(threads, Duration::from_millis(1), precision);
                assert!(rate.is_finite() && rate > 0.0, "{threads}: {rate}");
            }
        }
    }

    #[test]
    fn the_baseline_of_the_architecture_is_found() {
        let found = simd();
        assert!(!cfg!(target_arch = "aarch64") || found.contains(&"neon"), "{found:?}");
        assert!(found.iter().all(|name| !name.is_empty()));
    }
}
