//! Products in tiles of the processor's registers.
//!
//! Columns of the right side lie, or are packed, in strips that fit into the nearest cache, and all rows of the left
//! side go past them, six at a time. Rows of large layers are packed too, because rows that are a power of two apart
//! leave no room for each other in a cache. Every number is one sum over `k` in order, whatever the tile, so that a
//! row's bits depend neither on its place nor on its company.

#![expect(unsafe_code, reason = "kernels on pointers, whose ranges are checked before their loops")]

use super::memory::Floats;
#[cfg(target_arch = "x86_64")]
use super::pairs;
use super::simd::{Eight, LANES, Lanes, lanes};
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// Columns of a strip.
pub(super) const STRIP: usize = 64;
/// Numbers of a sum that are packed together: with a strip 32 KiB, most of a usual nearest cache.
const DEPTH: usize = 128;
/// Rows of the left side that are packed together: with their depth 256 KiB, in the second cache.
const ROWS: usize = 512;
/// Numbers of a copy.
pub(super) const COPY: usize = ROWS * DEPTH;
/// Sides whose rows are at most so far apart are read where they are: a strip is most of a row.
const CLOSE: usize = STRIP + STRIP / 2;

/// One side of a product, from a row to the next, from a column to the next; one of the two distances is 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) values: &'a [f32],
    pub(super) row: usize,
    pub(super) column: usize,
}

/// The right side of a product, `[k, n]`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Right<'a> {
    Matrix(Side<'a>),
    /// As [`strips`] made them for numbers of this kind.
    Strips(&'a [f32]),
}

/// `to [m, n] (+)= left [m, k] right [k, n]`
#[derive(Debug)]
pub(super) struct Product<'a> {
    pub(super) m: usize,
    /// A multiple of 8.
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) left: Side<'a>,
    pub(super) right: Right<'a>,
    pub(super) to: &'a mut [f32],
    /// From a row of `to` to the next.
    pub(super) stride: usize,
    pub(super) add: bool,
    /// Whether the numbers of both sides are rounded to bf16.
    pub(super) bf16: bool,
}

impl Product<'_> {
    fn check(&self) {
        let Product { m, n, k, left, right, to, stride, .. } = self;
        assert!(left.holds(*m, *k) && right.holds(*k, *n), "a side larger than its slice");
        assert!(n.is_multiple_of(LANES) && n <= stride && (*m == 0 || (m - 1) * stride + n <= to.len()));
        if self.bf16 {
            let rounded = |side: &Side<'_>, rows: usize, columns: usize| {
                let row = |row| (0..columns).map(move |column| side.values[row * side.row + column * side.column]);
                (0..rows).flat_map(row).all(|x| x.to_bits() << 16 == 0)
            };
            debug_assert!(rounded(left, *m, *k), "a left side that is not rounded");
            debug_assert!(!matches!(right, Right::Matrix(side) if !rounded(side, *k, *n)), "a right side likewise");
        }
    }
}

impl Side<'_> {
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let last = || (rows - 1) * self.row + (columns - 1) * self.column;
        (self.row == 1 || self.column == 1) && (rows == 0 || columns == 0 || last() < self.values.len())
    }

    /// From a row or column to the next, whichever is not 1.
    fn stride(&self) -> usize {
        self.row.max(self.column)
    }
}

impl Right<'_> {
    fn holds(&self, rows: usize, columns: usize) -> bool {
        match self {
            Right::Matrix(side) => side.holds(rows, columns),
            Right::Strips(values) => values.len() == rows * columns,
        }
    }
}

thread_local! {
    /// `[ROWS, DEPTH]` of a left side.
    static LEFT: RefCell<Floats> = RefCell::default();
}

/// The product, added to `to` or in its place.
pub(super) fn multiply(product: Product<'_>) {
    #[cfg(target_arch = "x86_64")]
    if product.bf16 && product.m > 0 && product.k > 0 && pairs::is_here() && pairs::can(&product) {
        product.check();
        return pairs::multiply(product);
    }
    // Few rows are not worth a copy.
    if product.left.stride() <= CLOSE.max(DEPTH) || product.m < 16 || product.n <= STRIP {
        return tiles(product, &mut []);
    }
    LEFT.with_borrow_mut(|left| {
        if left.is_empty() {
            // Without the memory the rows are read where they are.
            *left = Floats::new(COPY).unwrap_or_default();
        }
        tiles(product, left);
    });
}

lanes! {
    /// The product; `copy` is room for rows of the left side, or empty.
    fn tiles(product: Product<'_>, copy: &mut [f32]) = multiply_by
}

#[inline(always)]
pub(super) fn multiply_by<V: Lanes>(product: Product<'_>, copy: &mut [f32]) {
    product.check();
    let Product { m, n, k, left, right, to, stride, add, .. } = product;
    if k == 0 {
        let rows = to.chunks_mut(stride.max(1)).take(if add { 0 } else { m });
        return rows.for_each(|row| row[..n].fill(0.0));
    }
    let mut panel = Panel([MaybeUninit::uninit(); DEPTH * STRIP]);
    let (panel, to) = (panel.0.as_mut_ptr().cast::<f32>(), to.as_mut_ptr());
    let down = left.column != 1;
    let copied = copy.len() >= COPY;
    for first_row in (0..m).step_by(if copied { ROWS } else { m.max(1) }) {
        let rows = if copied { ROWS.min(m - first_row) } else { m };
        for first in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - first);
            // SAFETY: all matrices lie inside their slices, as asserted; `first + depth <= k`, the rows are among `m`,
            // the strips among `n`, and copy and panel hold what is put there.
            unsafe {
                let own = left.values.as_ptr().add(first_row * left.row + first * left.column);
                let (from, row_by, k_by) = match copied {
                    true => copy_left::<V>(own, left, [rows, depth], copy.as_mut_ptr()),
                    false => (own, left.row, left.column),
                };
                for column in (0..n).step_by(STRIP) {
                    let wide = STRIP.min(n - column);
                    let (right, right_by) = right_of::<V>(right, [first, column], [k, depth, wide], panel);
                    let to = to.add(first_row * stride + column);
                    let part =
                        Part { rows, depth, from, row_by, k_by, right, right_by, to, stride, add: add || first > 0 };
                    if down { part.strip::<V, true>(wide) } else { part.strip::<V, false>(wide) }
                }
            }
        }
    }
}

/// `[DEPTH, STRIP]`
#[repr(align(64))]
struct Panel([MaybeUninit<f32>; DEPTH * STRIP]);

/// Copies `rows` of `depth` numbers: rows behind each other where a row lies in one piece, columns behind each other
/// where a column does. Where they begin, and from a row and from a column to the next.
#[inline(always)]
unsafe fn copy_left<V: Lanes>(
    from: *const f32,
    left: Side<'_>,
    [rows, depth]: [usize; 2],
    to: *mut f32,
) -> (*const f32, usize, usize) {
    let down = left.column != 1;
    let (lines, length) = if down { (depth, rows) } else { (rows, depth) };
    let (by, to_by) = if down { (left.column, ROWS) } else { (left.row, DEPTH) };
    for line in 0..lines {
        // SAFETY: the caller's promise: the lines are there, and there is room for them.
        unsafe {
            let (from, to) = (from.add(line * by), to.add(line * to_by));
            let whole = length / V::N * V::N;
            for at in (0..whole).step_by(V::N) {
                V::load(from.add(at)).store(to.add(at));
            }
            for at in whole..length {
                *to.add(at) = *from.add(at);
            }
        }
    }
    if down { (to, 1, ROWS) } else { (to, DEPTH, 1) }
}

/// Where `depth` rows of a strip of the right side begin, and from one to the next: as they are if they lie close, or
/// packed into the panel.
#[inline(always)]
unsafe fn right_of<V: Lanes>(
    right: Right<'_>,
    [first, column]: [usize; 2],
    [k, depth, wide]: [usize; 3],
    panel: *mut f32,
) -> (*const f32, usize) {
    // SAFETY: the caller's promise: the rows are among `k`, the columns among `n`; the panel holds them.
    unsafe {
        match right {
            Right::Strips(values) => (values.as_ptr().add(column * k + first * wide), wide),
            Right::Matrix(side) => {
                let from = side.values.as_ptr().add(first * side.row + column * side.column);
                if side.column == 1 && side.row <= CLOSE {
                    return (from, side.row);
                }
                match side.column {
                    1 => copy_strip::<V>(from, side.row, [depth, wide], panel),
                    stride => turn_strip::<V::Narrow>(from, stride, [depth, wide], panel),
                }
                (panel, wide)
            }
        }
    }
}

/// `[depth, wide]`, rows `stride` apart, into `to`, rows behind each other.
#[inline(always)]
unsafe fn copy_strip<V: Lanes>(from: *const f32, stride: usize, [depth, wide]: [usize; 2], to: *mut f32) {
    for k in 0..depth {
        // SAFETY: the caller's promise; `wide` is a multiple of 8.
        unsafe {
            let (from, to) = (from.add(k * stride), to.add(k * wide));
            let whole = wide / V::N * V::N;
            for at in (0..whole).step_by(V::N) {
                V::load(from.add(at)).store(to.add(at));
            }
            if whole < wide {
                V::Narrow::load(from.add(whole)).store(to.add(whole));
            }
        }
    }
}

/// `[wide, depth]`, rows `stride` apart, into `to`, columns behind each other.
#[inline(always)]
unsafe fn turn_strip<V: Eight>(from: *const f32, stride: usize, [depth, wide]: [usize; 2], to: *mut f32) {
    // SAFETY: the caller's promise; `wide` is a multiple of 8.
    unsafe {
        let whole = depth / LANES * LANES;
        for column in (0..wide).step_by(LANES) {
            let from = from.add(column * stride);
            for k in (0..whole).step_by(LANES) {
                let eight = V::transpose(std::array::from_fn(|i| V::load(from.add(i * stride + k))));
                for (i, own) in eight.into_iter().enumerate() {
                    own.store(to.add((k + i) * wide + column));
                }
            }
            for k in whole..depth {
                for i in 0..LANES {
                    *to.add(k * wide + column + i) = *from.add(i * stride + k);
                }
            }
        }
    }
}

/// Brings weights `[outputs, inputs]` into strips of outputs: `[outputs / 64][inputs][64]`, the last strip as narrow as
/// what is left; or in words of two numbers where both sides are bf16 and the processor multiplies those.
pub(super) fn strips(outputs: usize, inputs: usize, w: &[f32], to: &mut [f32], bf16: bool) {
    assert!(outputs.is_multiple_of(LANES) && w.len() == outputs * inputs && to.len() == w.len());
    #[cfg(target_arch = "x86_64")]
    if bf16 && pairs::is_here() {
        return pairs::strips(outputs, inputs, w, to);
    }
    turn_all(outputs, inputs, w, to);
}

lanes! {
    fn turn_all(outputs: usize, inputs: usize, w: &[f32], to: &mut [f32]) = turn_all_by
}

#[inline(always)]
fn turn_all_by<V: Lanes>(outputs: usize, inputs: usize, w: &[f32], to: &mut [f32]) {
    for column in (0..outputs).step_by(STRIP) {
        let wide = STRIP.min(outputs - column);
        let (from, to) = (&w[column * inputs..][..wide * inputs], &mut to[column * inputs..][..wide * inputs]);
        // SAFETY: both slices are as large as the strip.
        unsafe { turn_strip::<V::Narrow>(from.as_ptr(), inputs, [inputs, wide], to.as_mut_ptr()) }
    }
}

/// Rows past a part of a strip.
#[derive(Clone, Copy)]
struct Part {
    rows: usize,
    depth: usize,
    /// The left side: where it begins, from a row and from a number of the sum to the next.
    from: *const f32,
    row_by: usize,
    k_by: usize,
    right: *const f32,
    right_by: usize,
    to: *mut f32,
    stride: usize,
    add: bool,
}

impl Part {
    /// All rows; `DOWN` where a column of the left side lies in one piece.
    #[inline(always)]
    unsafe fn strip<V: Lanes, const DOWN: bool>(&self, wide: usize) {
        let mut column = 0;
        // SAFETY: the caller's promise goes on to all of them: columns are among `wide`, rows among `rows`.
        unsafe {
            while column < wide {
                let vectors = if V::N == 16 { 4 } else { 2 };
                column += match ((wide - column) / V::N).min(vectors) {
                    4 => self.columns::<V, 4, DOWN>(column),
                    3 => self.columns::<V, 3, DOWN>(column),
                    2 => self.columns::<V, 2, DOWN>(column),
                    1 => self.columns::<V, 1, DOWN>(column),
                    _ => self.columns::<V::Narrow, 1, DOWN>(column),
                };
            }
        }
    }

    /// `N` vectors of columns for all rows; how many columns they were.
    #[inline(always)]
    unsafe fn columns<V: Lanes, const N: usize, const DOWN: bool>(&self, column: usize) -> usize {
        let mut row = 0;
        while row < self.rows {
            // SAFETY: the caller's promise; the rows of a tile are among `rows`.
            row += unsafe { self.some::<V, N, DOWN>(row, column) };
        }
        N * V::N
    }

    /// A tile of the next rows; how many they were. Twelve sums fill the registers of AVX2, twenty-four those of
    /// AVX-512; eight keep the processor busy.
    #[inline(always)]
    unsafe fn some<V: Lanes, const N: usize, const DOWN: bool>(&self, row: usize, column: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match (N, self.rows - row) {
                (1, 12..) => self.tile::<V, 12, N, DOWN>(row, column),
                (2, 12..) if V::N == 16 => self.tile::<V, 12, N, DOWN>(row, column),
                (1, 8..) => self.tile::<V, 8, N, DOWN>(row, column),
                (_, 1) => self.tile::<V, 1, N, DOWN>(row, column),
                (_, 2) => self.tile::<V, 2, N, DOWN>(row, column),
                (_, 3) => self.tile::<V, 3, N, DOWN>(row, column),
                (_, 4 | 7 | 8) => self.tile::<V, 4, N, DOWN>(row, column),
                (_, 5) => self.tile::<V, 5, N, DOWN>(row, column),
                _ => self.tile::<V, 6, N, DOWN>(row, column),
            }
        }
    }

    /// `R` rows of `N` vectors. Gives `R`.
    #[inline(always)]
    unsafe fn tile<V: Lanes, const R: usize, const N: usize, const DOWN: bool>(
        &self,
        row: usize,
        column: usize,
    ) -> usize {
        let Part { to, stride, right_by, .. } = *self;
        // SAFETY: `row + R <= rows`, the columns are those of the strip, and the caller promises the rest.
        unsafe {
            let to = to.add(row * stride + column);
            let mut sums = [[V::splat(0.0); N]; R];
            if self.add {
                sums = std::array::from_fn(|r| std::array::from_fn(|v| V::load(to.add(r * stride + v * V::N))));
            }
            // Where each row begins.
            let (row_by, k_by) = if DOWN { (1, self.k_by) } else { (self.row_by, 1) };
            let first = self.from.add(row * row_by);
            let rows: [*const f32; R] = std::array::from_fn(|r| first.add(r * row_by));
            let mut right = self.right.add(column);
            for k in 0..self.depth {
                let own: [V; N] = std::array::from_fn(|v| V::load(right.add(v * V::N)));
                right = right.add(right_by);
                for (sums, from) in sums.iter_mut().zip(rows) {
                    let left = V::splat(*from.add(k * k_by));
                    for (sum, own) in sums.iter_mut().zip(own) {
                        *sum = left.mul_add(own, *sum);
                    }
                }
            }
            for (r, sums) in sums.into_iter().enumerate() {
                for (v, sum) in sums.into_iter().enumerate() {
                    sum.store(to.add(r * stride + v * V::N));
                }
            }
        }
        R
    }
}
