//! Whether windows that share rows agree with the order of time.
//!
//! A row inside a window was the last row of an earlier one. Where windows say otherwise the samples were shuffled, and
//! a split would test on what it was trained on. Windows that were each scaled on their own share no rows: then there
//! is nothing to see, and the order is believed.

use super::NO_TIME;
use crate::Input;
use files::{Error, Result};

/// Samples whose rows are looked up, spread over all.
const SAMPLED: usize = 20_000;
/// Fewest rows that must contradict; chance alone makes some.
const LEAST: u64 = 20;

/// Refuses samples whose times (row numbers, where there are none) contradict their windows.
pub(super) fn check(inputs: &[Input], t0: &[i64], timed: bool) -> Result<()> {
    let Some(input) = inputs.iter().filter(|i| i.window > 1).max_by_key(|i| i.window) else { return Ok(()) };
    let len = input.window * input.stride;
    let row = |id: usize, at: usize| hash(&input.values[id * len + at * input.stride..][..input.stride]);
    let ids = || (0..t0.len()).filter(|id| t0[*id] != NO_TIME);
    // When each row was first the last of a window.
    let mut ends: Vec<(u64, i64)> = ids().map(|id| (row(id, input.window - 1), t0[id])).collect();
    ends.sort_unstable();
    ends.dedup_by_key(|(hash, _)| *hash);
    let (mut after, mut before, mut example) = (0u64, 0u64, None);
    for id in ids().step_by((t0.len() / SAMPLED).max(1)) {
        for at in 0..input.window - 1 {
            let Ok(found) = ends.binary_search_by_key(&row(id, at), |(hash, _)| *hash) else { continue };
            match ends[found].1.cmp(&t0[id]) {
                std::cmp::Ordering::Less => before += 1,
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => {
                    after += 1;
                    example.get_or_insert(id);
                }
            }
        }
    }
    let Some(example) = example.filter(|_| after >= LEAST && after * 10 > after + before) else { return Ok(()) };
    let share = 100.0 * after as f64 / (after + before) as f64;
    let (what, remedy) = match (timed, before * 100 < after) {
        (true, _) => ("t0 contradicts the windows", "save in t0 when each sample was known: the time of its last row"),
        (false, true) => ("the samples stand newest first", "save them oldest first, or save t0 with them"),
        (false, false) => (
            "the samples are not in the order of time (shuffled?)",
            "save them in the order of time, or save t0, when each was known",
        ),
    };
    Err(Error::input(format!(
        "{what}: {share:.0} % of the rows that windows share come first in a later sample (sample {example} holds rows \
         that end a later one); a split by time would test on what it was trained on"
    ))
    .remedy(remedy))
}

fn hash(row: &[f32]) -> u64 {
    row.iter().fold(0, |h: u64, x| (h.rotate_left(5) ^ u64::from(x.to_bits())).wrapping_mul(0x517c_c1b7_2722_0a95))
}
