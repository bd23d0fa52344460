//! Products of layers whose weights fit into a near cache, in tiles of the processor's registers.
//!
//! Sixteen columns of the right side are packed into the nearest cache and all rows of the left side go past them, six
//! at a time. Every number is one sum over `k` in order, whatever the tile, so that a row's bits depend neither on its
//! place nor on its company.

#![expect(unsafe_code, reason = "kernels on pointers, whose ranges are checked before their loops")]

use super::simd::{Eight, LANES, eights};
use std::mem::MaybeUninit;

/// Columns that are packed together.
const WIDE: usize = 2 * LANES;
/// Numbers of a sum that are packed together: 16 KiB, half of a usual nearest cache.
const DEPTH: usize = 256;

/// One side of a product, from a row to the next, from a column to the next; one of the two distances is 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) values: &'a [f32],
    pub(super) row: usize,
    pub(super) column: usize,
}

/// `to [m, n] (+)= left [m, k] right [k, n]`
#[derive(Debug)]
pub(super) struct Product<'a> {
    pub(super) m: usize,
    /// A multiple of 8.
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) left: Side<'a>,
    pub(super) right: Side<'a>,
    pub(super) to: &'a mut [f32],
    /// From a row of `to` to the next.
    pub(super) stride: usize,
    pub(super) add: bool,
}

impl Side<'_> {
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let last = || (rows - 1) * self.row + (columns - 1) * self.column;
        (self.row == 1 || self.column == 1) && (rows == 0 || columns == 0 || last() < self.values.len())
    }
}

eights! {
    /// The product, added to `to` or in its place.
    fn multiply(product: Product<'_>) = multiply_by
}

#[inline(always)]
pub(super) fn multiply_by<V: Eight>(product: Product<'_>) {
    let Product { m, n, k, left, right, to, stride, add } = product;
    assert!(left.holds(m, k) && right.holds(k, n), "a side larger than its slice");
    assert!(n.is_multiple_of(LANES) && n <= stride && (m == 0 || (m - 1) * stride + n <= to.len()));
    if k == 0 {
        let rows = to.chunks_mut(stride.max(1)).take(if add { 0 } else { m });
        return rows.for_each(|row| row[..n].fill(0.0));
    }
    let mut panel = Panel([MaybeUninit::uninit(); DEPTH * WIDE]);
    let (panel, to) = (panel.0.as_mut_ptr().cast::<f32>(), to.as_mut_ptr());
    for first in (0..k).step_by(DEPTH) {
        let depth = DEPTH.min(k - first);
        let part = Part { m, left, right, to, stride, panel, first, depth, add: add || first > 0 };
        for column in (0..n).step_by(WIDE) {
            // SAFETY: all matrices lie inside their slices, as asserted; `first + depth <= k`, and the columns are
            // among `n`.
            unsafe { if n - column < WIDE { part.strip::<V, 1>(column) } else { part.strip::<V, 2>(column) } }
        }
    }
}

/// `[depth, up to 16]`
#[repr(align(64))]
struct Panel([MaybeUninit<f32>; DEPTH * WIDE]);

/// Numbers `first .. first + depth` of every sum.
struct Part<'a> {
    m: usize,
    left: Side<'a>,
    right: Side<'a>,
    to: *mut f32,
    stride: usize,
    panel: *mut f32,
    first: usize,
    depth: usize,
    add: bool,
}

impl Part<'_> {
    /// `N` vectors of columns for all rows.
    #[inline(always)]
    unsafe fn strip<V: Eight, const N: usize>(&self, column: usize) {
        // SAFETY: the caller's promise goes on to all of them; the rows of a tile are among `m`.
        unsafe {
            self.pack::<V, N>(column);
            let mut row = 0;
            while row < self.m {
                row += match self.left.column {
                    1 => self.rows::<V, N, false>(row, column),
                    _ => self.rows::<V, N, true>(row, column),
                };
            }
        }
    }

    /// A tile of the next rows; how many they were. Twelve sums fill the registers, eight keep the processor busy.
    #[inline(always)]
    unsafe fn rows<V: Eight, const N: usize, const DOWN: bool>(&self, row: usize, column: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match (N, self.m - row) {
                (1, 12..) => self.tile::<V, 12, N, DOWN>(row, column),
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

    /// `R` rows of `N` vectors; `DOWN` where a column of the left side lies in one piece. Gives `R`.
    #[inline(always)]
    unsafe fn tile<V: Eight, const R: usize, const N: usize, const DOWN: bool>(
        &self,
        row: usize,
        column: usize,
    ) -> usize {
        let Part { left, to, stride, .. } = *self;
        // SAFETY: `row + R <= m`, the columns are among `n`, and the caller promises the rest.
        unsafe {
            let to = to.add(row * stride + column);
            let mut sums = [[V::splat(0.0); N]; R];
            if self.add {
                sums = std::array::from_fn(|r| std::array::from_fn(|v| V::load(to.add(r * stride + v * LANES))));
            }
            // Where each row begins.
            let (row_by, k_by) = if DOWN { (1, left.column) } else { (left.row, 1) };
            let first = left.values.as_ptr().add(self.first * k_by + row * row_by);
            let rows: [*const f32; R] = std::array::from_fn(|r| first.add(r * row_by));
            for k in 0..self.depth {
                let right: [V; N] = std::array::from_fn(|v| V::load(self.panel.add((k * N + v) * LANES)));
                for (sums, from) in sums.iter_mut().zip(rows) {
                    let left = V::splat(*from.add(k * k_by));
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = left.mul_add(right, *sum);
                    }
                }
            }
            for (r, sums) in sums.into_iter().enumerate() {
                for (v, sum) in sums.into_iter().enumerate() {
                    sum.store(to.add(r * stride + v * LANES));
                }
            }
        }
        R
    }

    /// `[depth, N × 8]` of the right side.
    #[inline(always)]
    unsafe fn pack<V: Eight, const N: usize>(&self, column: usize) {
        let right = self.right;
        // SAFETY: the columns are among `n` and the rows among `k`; the panel holds `depth` rows of 16.
        unsafe {
            let from = right.values.as_ptr().add(self.first * right.row + column * right.column);
            if right.column == 1 {
                for k in 0..self.depth {
                    for v in 0..N {
                        let own = V::load(from.add(k * right.row + v * LANES));
                        own.store(self.panel.add((k * N + v) * LANES));
                    }
                }
                return;
            }
            let whole = self.depth / LANES * LANES;
            for k in (0..whole).step_by(LANES) {
                for v in 0..N {
                    let from = from.add(k + v * LANES * right.column);
                    let eight = V::transpose(std::array::from_fn(|i| V::load(from.add(i * right.column))));
                    for (i, own) in eight.into_iter().enumerate() {
                        own.store(self.panel.add(((k + i) * N + v) * LANES));
                    }
                }
            }
            for k in whole..self.depth {
                for i in 0..N * LANES {
                    *self.panel.add(k * N * LANES + i) = *from.add(k + i * right.column);
                }
            }
        }
    }
}
