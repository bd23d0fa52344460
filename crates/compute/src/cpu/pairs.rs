//! Products of numbers that are rounded to bf16, two at a time.
//!
//! A word holds two numbers that follow each other in a sum, the first in its upper half. The instruction `vdpbf16ps`
//! adds the product of the upper halves, then that of the lower ones, each with a rounding: the sums of
//! [`super::tile`], in the same order and with the same bits, in half of the instructions. Only what is below the
//! smallest normal number differs: it is zero here. Both sides are packed into words first, the right side in strips as
//! there.
//!
//! Where the processor has [`amx`], tiles of sixteen rows and sixteen columns are multiplied instead, from the same
//! words, with sums of their own order: those of 32 numbers are added to what was there.

#![expect(unsafe_code, reason = "kernels on pointers, whose ranges are checked before their loops")]

use super::memory::Floats;
use super::simd::{Avx2, Eight, Lanes};
use super::tile::{Product, Right, STRIP, Side};
use crate::amx::{self, Shapes, Tiles};
use std::arch::x86_64::*;
use std::cell::RefCell;
use std::mem::{MaybeUninit, transmute};
use std::sync::OnceLock;

/// Words of a register.
const WIDE: usize = 16;
/// Numbers of a sum that are packed together: words of a strip are 32 KiB.
const DEPTH: usize = 256;
/// Rows of the left side that are packed together.
const ROWS: usize = 512;
/// The same where there is no memory for so many.
const FEW: usize = 16;

thread_local! {
    /// Words of a left side.
    static LEFT: RefCell<Floats> = RefCell::default();
}

/// Whether this processor has products of bf16.
pub(crate) fn is_here() -> bool {
    static HERE: OnceLock<bool> = OnceLock::new();
    *HERE.get_or_init(|| {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bf16")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
    })
}

/// Whether the product can be computed here: a sum of an odd number of products needs rows that are put together in
/// pairs, not numbers of a row.
pub(super) fn can(product: &Product<'_>) -> bool {
    let by_rows = |side: &Side<'_>, along_k: usize| along_k != 1 || side.values.is_empty();
    product.k.is_multiple_of(2)
        || (by_rows(&product.left, product.left.column)
            && matches!(&product.right, Right::Matrix(side) if by_rows(side, side.row)))
}

/// The product, added to `to` or in its place, on a processor that has the instructions.
pub(super) fn multiply(product: Product<'_>) {
    multiply_by(product, amx::is_here());
}

/// The same in tiles or without them.
pub(super) fn multiply_by(product: Product<'_>, tiles: bool) {
    assert!(is_here() && can(&product) && (!tiles || amx::is_here()));
    LEFT.with_borrow_mut(|left| {
        let words = (DEPTH / 2).min(product.k.div_ceil(2)).next_multiple_of(WIDE);
        let wanted = ROWS.min(product.m).next_multiple_of(WIDE) * words;
        if left.len() < wanted {
            // Without the memory a few rows are packed at a time.
            *left = Floats::new(wanted).unwrap_or_default();
        }
        let mut few = [0.0; FEW * DEPTH / 2];
        let (copy, rows) = if left.len() < wanted { (&mut few[..], FEW) } else { (&mut left[..], ROWS) };
        // SAFETY: the processor has the instructions.
        unsafe { native(product, copy, rows, tiles) };
    });
}

/// Weights `[outputs, inputs]` as words, `[outputs / 64][inputs / 2][64]`; the last strip is as wide as what is left,
/// in whole registers. `to` is as long as the weights and keeps what is behind them.
pub(super) fn strips(outputs: usize, inputs: usize, w: &[f32], to: &mut [f32]) {
    assert!(
        outputs.is_multiple_of(8) && inputs.is_multiple_of(2) && w.len() == outputs * inputs && to.len() == w.len()
    );
    assert!(is_here());
    // SAFETY: the instructions are there.
    unsafe { native_strips(outputs, inputs, w, to) }
}

#[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
fn native_strips(outputs: usize, inputs: usize, w: &[f32], to: &mut [f32]) {
    for column in (0..outputs).step_by(STRIP) {
        let wide = STRIP.min(outputs - column);
        let to = to[column * inputs / 2..][..inputs / 2 * wide.next_multiple_of(WIDE)].as_mut_ptr().cast();
        // SAFETY: the rows of the strip are among the outputs, and its words were just sliced.
        unsafe { turn(w[column * inputs..].as_ptr(), inputs, [inputs, wide], to) }
    }
}

/// `[DEPTH / 2, STRIP]`
#[repr(align(64))]
struct Panel([MaybeUninit<u32>; DEPTH / 2 * STRIP]);

#[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
fn native(product: Product<'_>, copy: &mut [f32], most: usize, tiles: bool) {
    let Product { m, n, k, left, right, to, stride, add, .. } = product;
    let first = shapes(WIDE.min(m), DEPTH.min(k).div_ceil(2));
    // SAFETY: the processor has them where the caller says so, and nobody else on this thread holds them.
    let mut tiles = tiles.then(|| unsafe { Tiles::take(&first) });
    let mut panel = Panel([MaybeUninit::uninit(); DEPTH / 2 * STRIP]);
    let (panel, copy, to) = (panel.0.as_mut_ptr().cast::<u32>(), copy.as_mut_ptr().cast::<u32>(), to.as_mut_ptr());
    let down = left.column != 1;
    for first_row in (0..m).step_by(most) {
        let rows = most.min(m - first_row);
        for first in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - first);
            let words = depth.div_ceil(2);
            // SAFETY: the caller has checked that both sides and `to` are as large as they say; copy and panel hold
            // the words of so many rows and columns.
            unsafe {
                let from = left.values.as_ptr().add(first_row * left.row + first * left.column);
                let (row_by, k_by) = match (down, &tiles) {
                    (_, Some(_)) => (words.next_multiple_of(WIDE), 1),
                    (true, None) => (1, rows.next_multiple_of(WIDE)),
                    (false, None) => (words, 1),
                };
                match (down, &tiles) {
                    (true, Some(_)) => turn_rows(from, left.column, [depth, rows], copy, row_by),
                    (true, None) => put_rows_together(from, left.column, [depth, rows], copy, k_by),
                    (false, _) => pack_rows(from, left.row, [rows, depth], copy, row_by),
                }
                for column in (0..n).step_by(STRIP) {
                    let wide = STRIP.min(n - column);
                    let right_by = wide.next_multiple_of(WIDE);
                    let right = match right {
                        Right::Strips(values) => {
                            values.as_ptr().add(column * k / 2 + first / 2 * right_by).cast::<u32>()
                        }
                        Right::Matrix(side) => {
                            let from = side.values.as_ptr().add(first * side.row + column * side.column);
                            match side.column {
                                1 => put_rows_together(from, side.row, [depth, wide], panel, right_by),
                                stride => turn(from, stride, [depth, wide], panel),
                            }
                            panel.cast_const()
                        }
                    };
                    let to = to.add(first_row * stride + column);
                    let add = add || first > 0;
                    let part = Part { rows, words, left: copy, row_by, k_by, right, right_by, to, stride, add };
                    match &mut tiles {
                        Some(tiles) => part.strip_in_tiles(wide, tiles),
                        None => part.strip(wide),
                    }
                }
            }
        }
    }
}

/// Upper halves.
const UPPER: i32 = 0xffff_0000_u32 as i32;

/// Words of numbers side by side, the first of two in the upper half.
#[inline(always)]
unsafe fn halves(x: __m512i) -> __m512i {
    // SAFETY: the caller's promise. Of each 64 bits the lower 32 are the word.
    unsafe {
        let second = _mm512_srli_epi64::<48>(x);
        _mm512_ternarylogic_epi64::<0xEA>(x, _mm512_set1_epi64(0xffff_0000), second)
    }
}

/// `[rows, depth]`, rows `stride` apart, as words `[rows, depth / 2]`, rows `by` apart.
#[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
#[inline(never)]
unsafe fn pack_rows(from: *const f32, stride: usize, [rows, depth]: [usize; 2], to: *mut u32, by: usize) {
    for row in 0..rows {
        // SAFETY: the caller's promise goes on to each row.
        unsafe { pack(from.add(row * stride), depth, to.add(row * by)) }
    }
}

/// `[depth, rows]`, rows `stride` apart, as words `[rows, depth / 2]`, rows `by` apart, whole registers of which are
/// written; what follows an odd last number is zero.
#[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
#[inline(never)]
unsafe fn turn_rows(from: *const f32, stride: usize, [depth, rows]: [usize; 2], to: *mut u32, by: usize) {
    // SAFETY: the caller's promise: the numbers are there, and there is room for their words.
    unsafe {
        for k in (0..depth).step_by(2 * WIDE) {
            for row in (0..rows).step_by(WIDE) {
                let lanes = mask(rows - row);
                let number = |k: usize| match k < depth {
                    true => _mm512_maskz_loadu_epi32(lanes, from.add(k * stride + row).cast()),
                    false => _mm512_setzero_si512(),
                };
                let word = |i: usize| {
                    let lower = _mm512_srli_epi32::<16>(number(k + 2 * i + 1));
                    _mm512_ternarylogic_epi32::<0xEA>(number(k + 2 * i), _mm512_set1_epi32(UPPER), lower)
                };
                let words = transpose(std::array::from_fn(word));
                for (i, words) in words.into_iter().take(rows - row).enumerate() {
                    _mm512_storeu_si512(to.add((row + i) * by + k / 2).cast(), words);
                }
            }
        }
    }
}

/// Sixteen registers of sixteen words: rows become columns.
#[inline(always)]
unsafe fn transpose(rows: [__m512i; WIDE]) -> [__m512i; WIDE] {
    // SAFETY: the caller has the instructions.
    unsafe {
        // Within each quarter: pairs of rows, then fours.
        let pairs: [__m512i; WIDE] = std::array::from_fn(|i| {
            let (a, b) = (rows[i / 2 * 2], rows[i / 2 * 2 + 1]);
            if i % 2 == 0 { _mm512_unpacklo_epi32(a, b) } else { _mm512_unpackhi_epi32(a, b) }
        });
        let fours: [__m512i; WIDE] = std::array::from_fn(|i| {
            let (a, b) = (pairs[i / 4 * 4 + i % 4 / 2], pairs[i / 4 * 4 + i % 4 / 2 + 2]);
            if i % 2 == 0 { _mm512_unpacklo_epi64(a, b) } else { _mm512_unpackhi_epi64(a, b) }
        });
        // `fours[4 g + c]` has in quarter q column 4 q + c of rows 4 g and on; quarters go to their places.
        let mut to = [_mm512_setzero_si512(); WIDE];
        for c in 0..4 {
            let [a, b, d, e] = [fours[c], fours[4 + c], fours[8 + c], fours[12 + c]];
            let (low, high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xEE>(a, b));
            let (low_2, high_2) = (_mm512_shuffle_i32x4::<0x44>(d, e), _mm512_shuffle_i32x4::<0xEE>(d, e));
            to[c] = _mm512_shuffle_i32x4::<0x88>(low, low_2);
            to[4 + c] = _mm512_shuffle_i32x4::<0xDD>(low, low_2);
            to[8 + c] = _mm512_shuffle_i32x4::<0x88>(high, high_2);
            to[12 + c] = _mm512_shuffle_i32x4::<0xDD>(high, high_2);
        }
        to
    }
}

/// `depth` numbers side by side as words.
#[inline(always)]
unsafe fn pack(from: *const f32, depth: usize, to: *mut u32) {
    // SAFETY: the caller's promise: the numbers are there, and there is room for half as many words.
    unsafe {
        let lower = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        let whole = depth / (2 * WIDE) * (2 * WIDE);
        for at in (0..whole).step_by(2 * WIDE) {
            let [a, b] = [0, WIDE].map(|more| halves(_mm512_loadu_si512(from.add(at + more).cast())));
            _mm512_storeu_si512(to.add(at / 2).cast(), _mm512_permutex2var_epi32(a, lower, b));
        }
        for at in (whole..depth).step_by(WIDE) {
            let left = (depth - at).min(WIDE);
            let x = halves(_mm512_maskz_loadu_epi32(mask(left), from.add(at).cast()));
            _mm512_mask_cvtepi64_storeu_epi32(to.add(at / 2).cast(), mask(left.div_ceil(2)) as u8, x);
        }
    }
}

/// The first so many of a register's lanes.
#[inline(always)]
fn mask(lanes: usize) -> u16 {
    (((1u32 << lanes.min(WIDE)) - 1) & 0xffff) as u16
}

/// `[depth, wide]`, rows `stride` apart, as words `[depth / 2, by]`, of which `wide` are written in whole registers;
/// what follows an odd last row is zero.
#[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
#[inline(never)]
unsafe fn put_rows_together(from: *const f32, stride: usize, [depth, wide]: [usize; 2], to: *mut u32, by: usize) {
    // SAFETY: the caller's promise: the rows are there, and there is room for their words.
    unsafe {
        for k in (0..depth).step_by(2) {
            let (first, to) = (from.add(k * stride), to.add(k / 2 * by));
            for at in (0..wide).step_by(WIDE) {
                let lanes = mask(wide - at);
                let upper = _mm512_maskz_loadu_epi32(lanes, first.add(at).cast());
                let lower = match k + 1 < depth {
                    true => _mm512_maskz_loadu_epi32(lanes, first.add(stride + at).cast()),
                    false => _mm512_setzero_si512(),
                };
                let lower = _mm512_srli_epi32::<16>(lower);
                let both = _mm512_ternarylogic_epi32::<0xEA>(upper, _mm512_set1_epi32(UPPER), lower);
                _mm512_storeu_si512(to.add(at).cast(), both);
            }
        }
    }
}

/// `[wide, depth]`, rows `stride` apart, as words `[depth / 2, wide]`, columns behind each other, a row in whole
/// registers.
#[target_feature(enable = "avx512f,avx512bf16,avx2,fma")]
#[inline(never)]
unsafe fn turn(from: *const f32, stride: usize, [depth, wide]: [usize; 2], to: *mut u32) {
    let by = wide.next_multiple_of(WIDE);
    // SAFETY: the caller's promise: the rows are there, and there is room for their words.
    unsafe {
        for column in (0..by).step_by(8) {
            for k in (0..depth).step_by(WIDE) {
                let left = (depth - k).min(WIDE);
                // Columns behind the last one are zero.
                let lanes = if column < wide { mask(left) } else { 0 };
                let from = from.add(if column < wide { column * stride } else { 0 } + k);
                let words = std::array::from_fn(|i| {
                    let x = halves(_mm512_maskz_loadu_epi32(lanes, from.add(i * stride).cast()));
                    Avx2::of_bits(_mm512_cvtepi64_epi32(x))
                });
                for (i, words) in Avx2::transpose(words).into_iter().take(left.div_ceil(2)).enumerate() {
                    words.store(to.add((k / 2 + i) * by + column).cast());
                }
            }
        }
    }
}

/// Does something with each of the first so many tiles of sums, whose number is a constant.
macro_rules! each_tile {
    ($n:expr, $v:ident => $what:expr) => {{
        each_tile!(one $n, $v, 0, $what);
        each_tile!(one $n, $v, 1, $what);
        each_tile!(one $n, $v, 2, $what);
        each_tile!(one $n, $v, 3, $what);
    }};
    (one $n:expr, $v:ident, $number:literal, $what:expr) => {
        if $number < $n {
            #[allow(non_upper_case_globals)]
            const $v: usize = $number;
            $what;
        }
    };
}

/// Rows past a part of a strip, in words.
#[derive(Clone, Copy)]
struct Part {
    rows: usize,
    words: usize,
    /// The left side: where it begins, from a row and from a word of the sum to the next.
    left: *const u32,
    row_by: usize,
    k_by: usize,
    right: *const u32,
    right_by: usize,
    to: *mut f32,
    stride: usize,
    add: bool,
}

/// The shapes of tiles for so many rows and a sum of so many words: sums are 0 to 3, rows of the left side 4 and,
/// behind the last whole tile, 5; the right side is 6 and 7.
fn shapes(rows: usize, words: usize) -> Shapes {
    let shapes = (0..6).fold(Shapes::WHOLE, |shapes, tile| shapes.with(tile, rows, WIDE));
    match words % WIDE {
        0 => shapes,
        tail => shapes.with(5, rows, tail).with(7, tail, WIDE),
    }
}

/// Columns of a tile that are not a whole register wide, on their way.
#[repr(align(64))]
struct Narrow([f32; WIDE * WIDE]);

impl Part {
    /// All rows, in tiles.
    #[inline(always)]
    unsafe fn strip_in_tiles(&self, wide: usize, tiles: &mut Tiles) {
        tiles.shape(&shapes(WIDE.min(self.rows), self.words));
        for row in (0..self.rows).step_by(WIDE) {
            let rows = WIDE.min(self.rows - row);
            if rows < WIDE && row > 0 {
                tiles.shape(&shapes(rows, self.words));
            }
            let last = wide - (wide.div_ceil(WIDE) - 1) * WIDE;
            // SAFETY: the caller's promise; the rows are among `rows`.
            unsafe {
                match wide.div_ceil(WIDE) {
                    4 => self.sixteen_rows::<4>([row, rows], last),
                    3 => self.sixteen_rows::<3>([row, rows], last),
                    2 => self.sixteen_rows::<2>([row, rows], last),
                    _ => self.sixteen_rows::<1>([row, rows], last),
                }
            }
        }
    }

    /// Sixteen rows, or what is left of them, of `N` tiles of columns, of the last one `last`.
    #[inline(always)]
    unsafe fn sixteen_rows<const N: usize>(&self, [row, rows]: [usize; 2], last: usize) {
        let Part { words, left, row_by, right, right_by, to, stride, add, .. } = *self;
        let mut narrow = Narrow([0.0; WIDE * WIDE]);
        // SAFETY: the caller's promise: rows and columns are there; words of rows are in whole registers.
        unsafe {
            let to = to.add(row * stride);
            // Where a tile of sums comes from and goes.
            let place = |v: usize, narrow: &mut Narrow| match v + 1 == N && last < WIDE {
                true => (narrow.0.as_mut_ptr().cast::<u8>(), 4 * WIDE),
                false => (to.add(v * WIDE).cast::<u8>(), 4 * stride),
            };
            if last < WIDE && add {
                for row in 0..rows {
                    let from = to.add(row * stride + (N - 1) * WIDE);
                    std::ptr::copy_nonoverlapping(from, narrow.0.as_mut_ptr().add(row * WIDE), last);
                }
            }
            each_tile!(N, v => match add {
                true => {
                    let (from, apart) = place(v, &mut narrow);
                    amx::load::<{ v as u8 }>(from, apart);
                }
                false => amx::zero::<{ v as u8 }>(),
            });
            let (mut left, mut right) = (left.add(row * row_by).cast::<u8>(), right.cast::<u8>());
            for _ in 0..words / WIDE {
                amx::load::<4>(left, 4 * row_by);
                each_tile!(N, v => {
                    amx::load::<6>(right.add(4 * WIDE * v), 4 * right_by);
                    amx::multiply::<{ v as u8 }, 4, 6>();
                });
                (left, right) = (left.add(4 * WIDE), right.add(4 * WIDE * right_by));
            }
            if words % WIDE > 0 {
                amx::load::<5>(left, 4 * row_by);
                each_tile!(N, v => {
                    amx::load::<7>(right.add(4 * WIDE * v), 4 * right_by);
                    amx::multiply::<{ v as u8 }, 5, 7>();
                });
            }
            each_tile!(N, v => {
                let (to, apart) = place(v, &mut narrow);
                amx::store::<{ v as u8 }>(to, apart);
            });
            if last < WIDE {
                for row in 0..rows {
                    let to = to.add(row * stride + (N - 1) * WIDE);
                    std::ptr::copy_nonoverlapping(narrow.0.as_ptr().add(row * WIDE), to, last);
                }
            }
        }
    }

    /// All rows.
    #[inline(always)]
    unsafe fn strip(&self, wide: usize) {
        // SAFETY: the caller's promise goes on to all of them: columns are among `wide`, rows among `rows`.
        unsafe {
            match wide.div_ceil(WIDE) {
                4 => self.columns::<4>(wide),
                3 => self.columns::<3>(wide),
                2 => self.columns::<2>(wide),
                _ => self.columns::<1>(wide),
            }
        }
    }

    /// `N` registers of columns for all rows.
    #[inline(always)]
    unsafe fn columns<const N: usize>(&self, wide: usize) {
        let last = mask(wide - (N - 1) * WIDE);
        let mut row = 0;
        while row < self.rows {
            // SAFETY: the caller's promise; the rows of a tile are among `rows`.
            row += unsafe {
                match (N, self.rows - row) {
                    (1 | 2, 12..) => self.tile::<12, N>(row, last),
                    (1 | 2, 8..) => self.tile::<8, N>(row, last),
                    (_, 1) => self.tile::<1, N>(row, last),
                    (_, 2) => self.tile::<2, N>(row, last),
                    (_, 3) => self.tile::<3, N>(row, last),
                    (_, 4 | 7 | 8) => self.tile::<4, N>(row, last),
                    (_, 5) => self.tile::<5, N>(row, last),
                    _ => self.tile::<6, N>(row, last),
                }
            };
        }
    }

    /// `R` rows of `N` registers, of the last one `last`. Gives `R`.
    #[inline(always)]
    unsafe fn tile<const R: usize, const N: usize>(&self, row: usize, last: u16) -> usize {
        let Part { to, stride, right_by, row_by, k_by, .. } = *self;
        let lanes: [u16; N] = std::array::from_fn(|v| if v + 1 < N { u16::MAX } else { last });
        // SAFETY: `row + R <= rows`, the columns are those of the strip, and the caller promises the rest.
        unsafe {
            let to = to.add(row * stride);
            let mut sums = [[_mm512_setzero_ps(); N]; R];
            if self.add {
                sums = std::array::from_fn(|r| {
                    std::array::from_fn(|v| _mm512_maskz_loadu_ps(lanes[v], to.add(r * stride + v * WIDE)))
                });
            }
            let mut left = self.left.add(row * row_by);
            let mut right = self.right;
            for _ in 0..self.words {
                let own: [__m512bh; N] =
                    std::array::from_fn(|v| transmute(_mm512_loadu_si512(right.add(v * WIDE).cast())));
                for (r, sums) in sums.iter_mut().enumerate() {
                    let pair: __m512bh = transmute(_mm512_set1_epi32(left.add(r * row_by).read() as i32));
                    for (sum, own) in sums.iter_mut().zip(own) {
                        *sum = _mm512_dpbf16_ps(*sum, pair, own);
                    }
                }
                left = left.add(k_by);
                right = right.add(right_by);
            }
            for (r, sums) in sums.into_iter().enumerate() {
                for (v, sum) in sums.into_iter().enumerate() {
                    _mm512_mask_storeu_ps(to.add(r * stride + v * WIDE), lanes[v], sum);
                }
            }
        }
        R
    }
}
