//! Purge and embargo of one set of samples against one block of later (or, in other schemes, earlier) ones, as
//! docs/method.md (Splits) defines them.

use features::{Samples, Span};

/// What a block of samples covers: from the first `t0` to the last `t1`, both inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The first `t0`.
    pub from: i64,
    /// The last `t1`.
    pub to: i64,
}

impl Block {
    /// Of those samples; `None` of none.
    ///
    /// # Panics
    ///
    /// If a position is not among the samples; as [`purge`].
    pub fn of(samples: &Samples, positions: &[u32]) -> Option<Block> {
        let each = positions.iter().map(|at| (samples.t0[*at as usize], samples.t1[*at as usize]));
        each.map(|(from, to)| Block { from, to }).reduce(|a, b| Block { from: a.from.min(b.from), to: a.to.max(b.to) })
    }

    /// The same as a span, whose end is the first moment after it.
    pub(super) fn span(self) -> Option<Span> {
        Span::new(self.from, self.to.saturating_add(1))
    }
}

/// What is left of some samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// Positions that stay, in the order they came.
    pub kept: Vec<u32>,
    /// How many had a label that touches the block.
    pub purged: usize,
    /// How many others followed it too closely.
    pub embargoed: usize,
}

/// Whether a label known from `t0` to `t1` touches a block. The three conditions are AFML 7.4.1's.
pub fn overlaps(t0: i64, t1: i64, block: Block) -> bool {
    let starts_inside = block.from <= t0 && t0 <= block.to;
    let ends_inside = block.from <= t1 && t1 <= block.to;
    let spans_it = t0 <= block.from && block.to <= t1;
    starts_inside || ends_inside || spans_it
}

/// Leaves out of `candidates` what touches the block, and what starts within `embargo` ticks after it.
pub fn purge(samples: &Samples, candidates: &[u32], block: Block, ticks: &[i64], embargo: usize) -> Purged {
    purge_by(overlaps, samples, candidates, block, ticks, embargo)
}

/// What touches a block; another one than [`overlaps`] only in the tests that plant a mistake.
pub(super) type Rule = fn(i64, i64, Block) -> bool;

pub(super) fn purge_by(
    rule: Rule,
    samples: &Samples,
    candidates: &[u32],
    block: Block,
    ticks: &[i64],
    embargo: usize,
) -> Purged {
    // The last tick under embargo; before the block's end where there is none.
    let past = ticks.partition_point(|tick| *tick <= block.to);
    let until = past.saturating_add(embargo).min(ticks.len()).checked_sub(1).map_or(i64::MIN, |last| ticks[last]);
    let mut left = Purged::default();
    for at in candidates {
        let (t0, t1) = (samples.t0[*at as usize], samples.t1[*at as usize]);
        if rule(t0, t1, block) {
            left.purged += 1;
        } else if block.to < t0 && t0 <= until {
            left.embargoed += 1;
        } else {
            left.kept.push(*at);
        }
    }
    left
}
