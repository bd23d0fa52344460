//! The host's copy rate: what the reading and writing of any table is divided by.
//!
//! Every thread copies its own 64 MiB, far larger than its share of the caches, into memory that was written before. A
//! byte read and a byte written count as two. The best round counts: a limit is not a mean.

use serde_json::{Value, json};
use std::sync::Barrier;
use std::time::Instant;

const BYTES: usize = 64 << 20;
const ROUNDS: usize = 9;

/// `gb_per_s`, read and written together, by all threads at once.
pub(crate) fn measure(threads: usize) -> Result<Value, String> {
    if threads == 0 {
        return Err("there must be a thread to copy with.".to_string());
    }
    let gate = Barrier::new(threads);
    let slowest = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| rounds(&gate))).collect();
        let times: Result<Vec<_>, _> = workers.into_iter().map(|w| w.join()).collect();
        let times = times.map_err(|_| "a thread that copies died.".to_string())?;
        // A round ends when its last thread does.
        let by_round = (0..ROUNDS).map(|r| times.iter().map(|t| t[r]).fold(0.0, f64::max));
        Ok::<f64, String>(by_round.fold(f64::INFINITY, f64::min))
    })?;
    let rate = (2 * BYTES * threads) as f64 / slowest / 1e9;
    Ok(json!({ "gb_per_s": rate, "seconds": slowest, "bytes": BYTES * threads, "threads": threads }))
}

fn rounds(gate: &Barrier) -> [f64; ROUNDS] {
    let from = vec![1u8; BYTES];
    let mut to = vec![2u8; BYTES];
    let mut times = [0.0; ROUNDS];
    for time in &mut times {
        gate.wait();
        let start = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        *time = start.elapsed().as_secs_f64();
    }
    times
}
