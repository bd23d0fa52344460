//! A node's output: the current block, and as much of the past as anyone looks back at.

use super::{Rows, State};

/// `[back + block]` rows of lanes; the end of what is filled is now.
#[derive(Default)]
pub(super) struct Buffer<const W: usize> {
    rows: Rows<W>,
    /// How many of the rows are used.
    room: usize,
    filled: usize,
    back: usize,
}

impl<const W: usize> Buffer<W> {
    /// Before the first bar there is nothing: NaN.
    pub(super) fn new(back: usize, block: usize) -> Buffer<W> {
        // Room for a few blocks, so that a stream of single bars moves its past rarely.
        let room = if block < 16 { block.max(1) + back.max(64) } else { block };
        // Five lines more than a round number: blocks whose addresses are a page apart would push each other out of the
        // cache.
        let pad = 40usize.div_ceil(W);
        Buffer { rows: Rows::new(f64::NAN, back + room + pad), room: back + room, filled: back, back }
    }

    /// Room for the next `bars` bars.
    pub(super) fn advance(&mut self, bars: usize) -> &mut [[f64; W]] {
        let rows = self.rows.all_mut();
        if self.filled + bars > self.room {
            rows.copy_within(self.filled - self.back..self.filled, 0);
            self.filled = self.back;
        }
        let from = self.filled;
        self.filled += bars;
        &mut rows[from..self.filled]
    }

    /// The past that is kept, and the block.
    pub(super) fn filled(&self) -> &[[f64; W]] {
        &self.rows.all()[..self.filled]
    }

    /// The past that matters, oldest first.
    pub(super) fn state(&mut self, state: &mut State<'_>) {
        let from = self.filled - self.back;
        state.lanes(&mut self.rows.all_mut()[from..self.filled]);
    }
}
