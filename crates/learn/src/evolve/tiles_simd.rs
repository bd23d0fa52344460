//! Blocks of bf16 products in the tile registers of Intel's AMX (`compute::amx`): up to sixteen rows and four lines.
//!
//! The rows of a line of weights, one for each pair of inputs, are the right side of a product as they lie, and so are
//! the rows of values its left side; those of the first layer are turned into such rows first. Products of 32 inputs
//! are added at once, those of the first and of the second of each pair apart ([`compute::amx::multiply`]), and the
//! bias comes last, so sums have other bits than those of `vdpbf16ps`. What is outside of whole fours of rows and
//! lines, and a head, is computed as in `bf16_simd`.

#![expect(unsafe_code, reason = "instructions that were looked for before, on memory whose size is checked")]

use super::bf16_simd::Pairs;
use super::format_simd::{Format, activate_rows};
use super::lanes_simd::Lanes;
use super::stack::{Dense, LANES, Line, Stack, ZEROS};
use super::stack_simd::{Pass, SQUARE, Shared, as_words, words};
use super::wide_simd::Sixteen;
use compute::amx::{self, SIDE, Shapes, Tiles};

/// Memory of a thread for blocks in tiles.
#[derive(Debug, Clone)]
pub(super) struct TileMemory {
    /// Rows of tiles and words of the last one of a sum, as tiles are shaped now.
    shaped: [usize; 2],
    /// `[individuals, rows, lines]` inputs of the first layer.
    inputs: Vec<Line>,
    /// Sums of two blocks: of one that is computed, and of the one before.
    sums: [[Line; SIDE * SQUARE]; 2],
}

impl TileMemory {
    /// Without inputs: the first pass makes room for them.
    pub(super) fn new() -> TileMemory {
        TileMemory { shaped: [SIDE, LANES], inputs: Vec::new(), sums: [[ZEROS; SIDE * SQUARE]; 2] }
    }

    /// Takes the tiles for passes of so many rows, until what is returned is dropped; none where they are not used.
    /// Taking them takes as long as half a pass, so whoever runs many passes holds them meanwhile.
    pub(super) fn hold(&mut self, stack: &Stack, rows: usize) -> Option<Tiles> {
        if !stack.in_pairs || rows < SQUARE || !amx::is_here() {
            return None;
        }
        let tail = stack.layers.iter().map(|layer| layer.words % LANES).find(|tail| *tail > 0);
        self.shaped = [SIDE.min(rows / SQUARE * SQUARE), tail.unwrap_or(LANES)];
        // SAFETY: they are here, and a pass takes none where it is given some.
        Some(unsafe { Tiles::take(&shapes(self.shaped)) })
    }

    /// Shapes the tiles for so many rows and a sum over so many words. Whole sums use no last tile, so they keep it.
    ///
    /// # Safety
    ///
    /// The thread holds the tiles, shaped as this says.
    #[inline(always)]
    unsafe fn shape(&mut self, rows: usize, words: usize) {
        let tail = match words % LANES {
            0 => self.shaped[1],
            tail => tail,
        };
        if self.shaped != [rows, tail] {
            self.shaped = [rows, tail];
            // SAFETY: as above.
            unsafe { amx::reshape(&shapes(self.shaped)) };
        }
    }
}

/// Shapes of tiles for so many rows and so many words in the last tile of a sum: sums are 0 to 3; rows 4 and, in the
/// last tile, 5; weights 6 and 7.
fn shapes([rows, tail]: [usize; 2]) -> Shapes {
    let shapes = (0..6).fold(Shapes::WHOLE, |shapes, tile| shapes.with(tile, rows, LANES));
    shapes.with(5, rows, tail).with(7, tail, LANES)
}

/// A block whose activation is left for later: its tangents are computed while the next is multiplied.
#[derive(Clone, Copy)]
struct Waiting {
    individual: usize,
    sums: usize,
    row: usize,
    rows: usize,
    line: usize,
}

/// A layer of all individuals in blocks, as far as there are whole fours of rows and lines.
#[inline(always)]
pub(super) fn squares(layer: &Dense, number: usize, pass: &mut Pass<'_>) {
    let rows = pass.rows / SQUARE * SQUARE;
    let inputs = layer.words.div_ceil(LANES);
    assert!(pass.tiles.is_some(), "the thread holds the tiles");
    if number == 0 {
        turn(layer, rows, pass);
    }
    let (from, to) = (number % 2, 1 - number % 2);
    let mut waiting = None::<Waiting>;
    for individual in 0..pass.values.len() {
        let weights = &pass.weights[individual][layer.at..][..layer.weights()];
        assert!(weights.len() >= (layer.words + 1) * layer.lines, "weights of the layer");
        for row in (0..rows).step_by(SIDE) {
            let count = SIDE.min(rows - row);
            // SAFETY: the pass holds the tiles.
            unsafe { pass.scratch.tiles.shape(count, layer.words) };
            for line in (0..layer.lines / SQUARE * SQUARE).step_by(SQUARE) {
                let x = match number {
                    0 => &pass.scratch.tiles.inputs[(individual * rows + row) * inputs..],
                    _ => &pass.values[individual][from][row * inputs..],
                };
                assert!(x.len() >= count * inputs, "inputs of a block");
                let turn = waiting.map_or(0, |before| 1 - before.sums);
                let sums = &mut pass.scratch.tiles.sums[turn];
                // SAFETY: tiles have the shapes of the block, and weights, inputs and sums are there.
                unsafe {
                    let w = weights.as_ptr().add(line);
                    multiply(layer, w, (x.as_ptr(), inputs), sums.as_mut_ptr());
                }
                let block = Waiting { individual, sums: turn, row, rows: count, line };
                if let Some(before) = waiting.replace(block) {
                    activate(layer, before, pass, to);
                }
            }
        }
    }
    if let Some(last) = waiting {
        activate(layer, last, pass, to);
    }
}

/// The sums of a block: four lines of weights from `w` on, rows of so many lines.
///
/// # Safety
///
/// Tiles have its shapes, all is there, and `sums` has room for its rows.
#[inline(always)]
unsafe fn multiply(layer: &Dense, w: *const Line, (x, inputs): (*const Line, usize), sums: *mut Line) {
    const LINE: usize = size_of::<Line>();
    let (by, row) = (layer.lines * LINE, inputs * LINE);
    // SAFETY: as above.
    unsafe {
        amx::zero::<0>();
        amx::zero::<1>();
        amx::zero::<2>();
        amx::zero::<3>();
        let (mut w, mut x) = (w.cast::<u8>(), x.cast::<u8>());
        for _ in 0..layer.words / LANES {
            amx::load::<4>(x, row);
            amx::load::<6>(w, by);
            amx::multiply::<0, 4, 6>();
            amx::load::<6>(w.add(LINE), by);
            amx::multiply::<1, 4, 6>();
            amx::load::<6>(w.add(2 * LINE), by);
            amx::multiply::<2, 4, 6>();
            amx::load::<6>(w.add(3 * LINE), by);
            amx::multiply::<3, 4, 6>();
            (w, x) = (w.add(LANES * by), x.add(LINE));
        }
        if !layer.words.is_multiple_of(LANES) {
            amx::load::<5>(x, row);
            amx::load::<7>(w, by);
            amx::multiply::<0, 5, 7>();
            amx::load::<7>(w.add(LINE), by);
            amx::multiply::<1, 5, 7>();
            amx::load::<7>(w.add(2 * LINE), by);
            amx::multiply::<2, 5, 7>();
            amx::load::<7>(w.add(3 * LINE), by);
            amx::multiply::<3, 5, 7>();
        }
        let (sums, by) = (sums.cast::<u8>(), SQUARE * LINE);
        amx::store::<0>(sums, by);
        amx::store::<1>(sums.add(LINE), by);
        amx::store::<2>(sums.add(2 * LINE), by);
        amx::store::<3>(sums.add(3 * LINE), by);
    }
}

/// Adds the bias to the sums of a block, activates them and writes them, rounded.
#[inline(always)]
fn activate(layer: &Dense, block: Waiting, pass: &mut Pass<'_>, to: usize) {
    let each = layer.lines.div_ceil(2);
    let bias = &pass.weights[block.individual][layer.at + layer.words * layer.lines + block.line..][..SQUARE];
    let values = &mut pass.values[block.individual][to];
    assert!((block.row + block.rows) * each <= values.len() && block.line + SQUARE <= layer.lines, "memory of a block");
    let sums = &pass.scratch.tiles.sums[block.sums];
    for (row, sums) in sums.chunks_exact(SQUARE).take(block.rows).enumerate() {
        let mut x = [[<Sixteen as Lanes>::splat(0.0); SQUARE]];
        for v in 0..SQUARE {
            x[0][v] = <Sixteen as Lanes>::load(&sums[v]).add(<Sixteen as Lanes>::load(&bias[v]));
        }
        activate_rows::<Pairs<Sixteen>, 1, SQUARE>(layer.activation, &mut x);
        // SAFETY: there is room.
        unsafe { Pairs::put(x[0], values.as_mut_ptr().add((block.row + row) * each), block.line) };
    }
}

/// Inputs of the first layer as rows in whole lines.
#[inline(always)]
fn turn(layer: &Dense, rows: usize, pass: &mut Pass<'_>) {
    let lines = layer.words.div_ceil(LANES);
    let memory = &mut pass.scratch.tiles.inputs;
    let all = pass.values.len() * rows * lines;
    if memory.len() < all {
        memory.resize(all, ZEROS);
    }
    let Some(Shared { words: shared, own, apart, first, count }) = pass.shared else {
        for (values, to) in pass.values.iter().zip(memory.chunks_exact_mut(rows * lines)) {
            turn_words(&as_words(&values[0])[..layer.words * pass.rows], pass.rows, lines, to);
        }
        return;
    };
    let (one, _) = memory.split_at_mut(rows * lines);
    turn_words(&shared[..layer.words * pass.rows], pass.rows, lines, one);
    for individual in (0..pass.values.len()).rev() {
        let place = individual * rows * lines;
        if individual > 0 {
            memory.copy_within(..rows * lines, place);
        }
        let to = words(&mut memory[place..][..rows * lines]);
        for (row, to) in to.chunks_exact_mut(lines * LANES).enumerate() {
            for (k, to) in to[first..first + count].iter_mut().enumerate() {
                *to = own[k * apart + individual * pass.rows + row];
            }
        }
    }
}

/// `[words, rows]` as rows in whole lines, as many as `to` has.
fn turn_words(from: &[u32], rows: usize, lines: usize, to: &mut [Line]) {
    for (row, to) in to.chunks_exact_mut(lines).enumerate() {
        for (to, from) in words(to).iter_mut().zip(from.iter().skip(row).step_by(rows)) {
            *to = *from;
        }
    }
}
