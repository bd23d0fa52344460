//! Persistence: tomorrow is as today. The label that was last known, which any learner must beat.

use features::Samples;
use files::{Error, Result};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// `[n]` for each sample the class of its symbol's label that was the last to become known (`t1` at or before the
/// sample's `t0`; of those known at the same moment the later sample's); `None` while there is none. `symbol` `[n]` is
/// the symbol of each sample.
///
/// # Errors
///
/// Where the arrays have different lengths or the samples are not in the order of time.
pub fn persistence(samples: &Samples, symbol: &[u32]) -> Result<Vec<Option<i8>>> {
    let n = samples.len();
    if [samples.t0.len(), samples.t1.len(), samples.class.len(), symbol.len()] != [n; 4] || !samples.t0.is_sorted() {
        return Err(Error::input(format!("{n} samples with {} symbols are not in order", symbol.len())));
    }
    #[derive(Default)]
    struct Known {
        last: Option<i8>,
        /// Labels yet to be known, the earliest first.
        waiting: BinaryHeap<Reverse<(i64, usize)>>,
    }
    let mut symbols: HashMap<u32, Known> = HashMap::new();
    let mut guesses = Vec::with_capacity(n);
    for (at, symbol) in symbol.iter().enumerate() {
        let known = symbols.entry(*symbol).or_default();
        while let Some(Reverse((t1, from))) = known.waiting.peek().copied()
            && t1 <= samples.t0[at]
        {
            known.last = Some(samples.class[from]);
            known.waiting.pop();
        }
        guesses.push(known.last);
        known.waiting.push(Reverse((samples.t1[at], at)));
    }
    Ok(guesses)
}
