//! What is the same for all members and steps: the net, where its buffers lie, and how work is cut.
//!
//! How work is cut changes the order of sums, so it follows from the net, the recipe and the pace alone, never from
//! threads or members.

use super::loops::Columns;
use super::recurrent::pack;
use crate::net::{Layout, Net, Place};
use crate::population::{Pace, Precision, Recipe};
use std::ops::Range;

/// Rows of a chunk of evaluation.
pub(super) const BLOCK: usize = 256;
/// Rows that go through a narrow net together in training, at least and at most: half of the batch in between, so that
/// a small one is worth two threads. 64 cost 5 to 15 % more time on one thread, 32 more than that; 256 the same as 128
/// within the noise, with half the parts.
const ROWS: (usize, usize) = (64, 128);
/// The same of a net with recurrent layers, at least and at most: a quarter of the batch in between. What a window
/// leaves behind is large, so more rows are no better; one row's work is long, so a small batch is worth several
/// threads. A row among 8 costs up to 4 % more than among 32.
const WALKED: (usize, usize) = (8, 32);
/// Rows of a wide net's block, at least and at most: a sixteenth of the batch in between. Its products like many rows,
/// its threads many blocks.
const WIDE_ROWS: (usize, usize) = (64, 256);
/// Partial gradients of a narrow net, at most; a large batch puts several blocks into each.
const SLICES: usize = 16;
/// A net with more parameters is wide: its weight gradients are cut by outputs, not by rows.
const WIDE: usize = 256 * 1024;
/// Rows of a wide net between two sums of its weight gradients; bounds the memory of a large batch.
const PIECE: usize = 4096;
/// Outputs of a layer whose weight gradients are one product.
const TILE: usize = 64;
/// Parameters that are squared and optimised together.
const CHUNK: usize = 8 * 1024;
/// Chunks that are worth a thread of their own. Changes no sum.
pub(super) const GRAIN: usize = 4;

/// Outputs `outputs` of layer `linear`.
#[derive(Debug, Clone)]
pub(super) struct Tile {
    pub(super) linear: usize,
    pub(super) outputs: Range<usize>,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) net: Net,
    pub(super) layout: Layout,
    pub(super) recipe: Recipe,
    /// Whether numbers are rounded to bf16.
    pub(super) round: bool,
    /// `[inputs]` where each input is gathered; none that a recurrent branch reads row by row.
    pub(super) gathered: Vec<Option<Place>>,
    /// `[buffers + 1]` columns of all buffers before this one.
    starts: Vec<usize>,
    /// `[recurrents + 1]` where each recurrent layer's packed weights begin.
    packs: Vec<usize>,
    /// The tiles of a wide net; none of a narrow one.
    pub(super) tiles: Vec<Tile>,
    /// Rows of a block of a training step.
    pub(super) block: usize,
    /// Rows of a part of the batch; all of them where it is whole.
    pub(super) part: usize,
    /// Rows of a partial gradient (narrow), or between two sums (wide); a multiple of `block` unless the part is
    /// smaller.
    pub(super) slice: usize,
}

impl Plan {
    pub(crate) fn new(net: &Net, layout: &Layout, recipe: &Recipe, pace: Pace) -> Plan {
        let mut starts = vec![0];
        for buffer in &layout.buffers {
            starts.push(starts[starts.len() - 1] + buffer.stride);
        }
        let mut packs = vec![0];
        for (forward, back) in layout.recurrents.iter().map(pack::sizes) {
            packs.push(packs[packs.len() - 1] + forward + back);
        }
        // A window's values are too many to be kept for all rows, so a net with recurrent layers is always cut by rows.
        let recurrent = !layout.recurrents.is_empty();
        let wide = layout.params > WIDE && !recurrent;
        let tiles = layout.linears.iter().enumerate().flat_map(|(linear, l)| {
            let width = l.output.width;
            (0..width).step_by(TILE).map(move |at| Tile { linear, outputs: at..width.min(at + TILE) })
        });
        let tiles = if wide { tiles.collect() } else { vec![] };
        let part = pace.rows(recipe.batch);
        // A narrow net's blocks are those of the whole batch, so that parts which are whole blocks change no sum.
        let rows = match (wide, recurrent) {
            (true, _) => share(part, 16, WIDE_ROWS),
            (false, true) => share(recipe.batch, 4, WALKED),
            (false, false) => share(recipe.batch, 2, ROWS),
        };
        let block = rows.min(part);
        let slice = if wide { PIECE.min(part) } else { block * part.div_ceil(block).div_ceil(SLICES) };
        Plan {
            net: net.clone(),
            layout: layout.clone(),
            recipe: *recipe,
            round: recipe.precision == Precision::Bf16,
            gathered: layout.gathered(net),
            starts,
            packs,
            tiles,
            block,
            part,
            slice,
        }
    }

    pub(super) fn wide(&self) -> bool {
        !self.tiles.is_empty()
    }

    /// Partial gradients of a part of a narrow net's step, but for the first one of all.
    pub(super) fn partials(&self) -> usize {
        // Of later parts the first one too is added to what is there.
        if self.wide() { 0 } else { self.slices() - usize::from(self.part == self.recipe.batch) }
    }

    /// Slices of a part.
    fn slices(&self) -> usize {
        self.part.div_ceil(self.slice)
    }

    /// Parts of a step that have a loss of their own.
    pub(super) fn losses(&self) -> usize {
        if self.wide() { self.slice.div_ceil(self.block) } else { self.slices() }
    }

    /// `[chunks]` the parameters that are optimised together.
    pub(super) fn chunks(&self) -> usize {
        self.layout.params.div_ceil(CHUNK)
    }

    pub(super) fn chunk(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK..self.layout.params.min((chunk + 1) * CHUNK)
    }

    /// Columns of all buffers.
    pub(super) fn columns(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Where a buffer lies in memory for so many rows.
    pub(super) fn buffer(&self, buffer: usize, rows: usize) -> Range<usize> {
        self.starts[buffer] * rows..self.starts[buffer + 1] * rows
    }

    /// Numbers of all packed weights of recurrent layers.
    pub(super) fn all_packed(&self) -> usize {
        self.packs[self.packs.len() - 1]
    }

    /// Where a recurrent layer's weights lie among the packed ones: for the way forward and for the way back.
    pub(super) fn packed(&self, recurrent: usize) -> (Range<usize>, Range<usize>) {
        let (start, end) = (self.packs[recurrent], self.packs[recurrent + 1]);
        let middle = start + self.layout.recurrents[recurrent].size();
        (start..middle, middle..end)
    }

    pub(super) fn stride(&self, buffer: usize) -> usize {
        self.layout.buffers[buffer].stride
    }

    pub(super) fn at(&self, place: Place) -> Columns {
        Columns { stride: self.stride(place.buffer), column: place.column, width: place.width }
    }

    pub(super) fn first_head(&self) -> usize {
        self.layout.linears.len() - self.layout.heads
    }
}

/// Rows of one of `n` blocks, in eights, at least and at most.
fn share(rows: usize, n: usize, (least, most): (usize, usize)) -> usize {
    rows.div_ceil(n).next_multiple_of(8).clamp(least, most)
}
