//! Fixed horizon: where the price is after `h` bars.
//!
//! `y = sign(ln(open[t+1+h] / open[t+1]))`, flat while the move does not exceed the round-trip cost. The label is known
//! with the last open it reads, at `start[t+1+h]`; nothing else of that bar matters.

use super::{Mark, Path};

/// The label of row `t`; the caller sees to it that row `t + 1 + h` exists.
pub(super) fn mark(path: &Path, t: usize, h: usize) -> Option<Mark> {
    let class = path.settle(path.open[t + 1], t + 1 + h, path.cost)?;
    Some(Mark { class, last: t + h, t1: path.start[t + 1 + h], both: false })
}
