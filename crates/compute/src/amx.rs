//! Products of bf16 in the tile registers of Intel's AMX: sixteen rows of 64 bytes each.
//!
//! A tile of pairs `[rows, pairs]` times a tile of pairs `[pairs, columns]` is added to a tile of f32 `[rows, columns]`
//! by one instruction, sixteen times as fast as fused products in AVX-512. Its sums are its own ([`multiply`]), so nets
//! in bf16 have other bits on processors that have it: it is an instruction set of its own. `FULLBORE_NO_AMX` switches
//! it off.
//!
//! Linux lets a process use the registers after it has asked; other systems are not asked.

#![expect(unsafe_code, reason = "instructions that were looked for before, on memory of the caller")]

use crate::{cpu, os};
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Rows of a tile at most, and words of 32 bits of its rows.
pub const SIDE: usize = 16;

/// Whether this processor has the registers and this process may use them.
pub fn is_here() -> bool {
    static HERE: OnceLock<bool> = OnceLock::new();
    *HERE.get_or_init(|| {
        // Leaf 7: products of bf16 are bit 22, tiles are bit 24.
        const BOTH: u32 = 1 << 22 | 1 << 24;
        std::env::var_os("FULLBORE_NO_AMX").is_none()
            && cpu::multiplies_bf16()
            && __cpuid_count(7, 0).edx & BOTH == BOTH
            && os::permit_tiles()
    })
}

/// The shapes of the eight tiles of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Shapes {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// All of sixteen rows of sixteen words.
    pub const WHOLE: Shapes = {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        let mut tile = 0;
        while tile < 8 {
            (row_bytes[tile], rows[tile]) = (64, 16);
            tile += 1;
        }
        Shapes { palette: 1, start: 0, reserved: [0; 14], row_bytes, rows }
    };

    /// The same with another shape of a tile, of one row and one word at least.
    #[must_use]
    pub const fn with(mut self, tile: usize, rows: usize, words: usize) -> Shapes {
        assert!(tile < 8 && rows >= 1 && rows <= SIDE && words >= 1 && words <= SIDE);
        self.rows[tile] = rows as u8;
        self.row_bytes[tile] = 4 * words as u16;
        self
    }
}

/// The tiles of this thread, from when they get their first shapes until they are given back. Taking them takes about
/// as long as twenty products; a thread that holds none is switched faster.
#[derive(Debug)]
pub struct Tiles {
    shapes: Shapes,
    /// They belong to one thread.
    own: PhantomData<*const ()>,
}

impl Tiles {
    /// Takes them; all are zero.
    ///
    /// # Safety
    ///
    /// [`is_here`] is true, and the thread has none now.
    #[inline(always)]
    pub unsafe fn take(shapes: &Shapes) -> Tiles {
        set(shapes);
        Tiles { shapes: *shapes, own: PhantomData }
    }

    /// Gives them other shapes, where they are others; all are zero then.
    #[inline(always)]
    pub fn shape(&mut self, shapes: &Shapes) {
        if self.shapes != *shapes {
            set(shapes);
            self.shapes = *shapes;
        }
    }
}

impl Drop for Tiles {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: who made this has found the instructions.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}

/// Gives the tiles of this thread other shapes; all are zero then.
///
/// # Safety
///
/// The thread holds [`Tiles`].
#[inline(always)]
pub unsafe fn reshape(shapes: &Shapes) {
    set(shapes);
}

#[inline(always)]
fn set(shapes: &Shapes) {
    // SAFETY: it is called where the instructions were found, and `Shapes` are such that they take.
    unsafe { asm!("ldtilecfg [{0}]", in(reg) shapes, options(nostack, readonly, preserves_flags)) };
}

/// Zeros in tile `T`.
///
/// # Safety
///
/// The thread holds [`Tiles`], as for everything below.
#[inline(always)]
pub unsafe fn zero<const T: u8>() {
    // SAFETY: as above.
    unsafe { asm!("tilezero tmm{t}", t = const T, options(nomem, nostack, preserves_flags)) };
}

/// Reads tile `T`, its rows so many bytes apart.
///
/// # Safety
///
/// They are there, and the thread holds [`Tiles`].
#[inline(always)]
pub unsafe fn load<const T: u8>(from: *const u8, apart: usize) {
    // SAFETY: as above.
    unsafe {
        asm!("tileloadd tmm{t}, [{from} + {apart}]", t = const T, from = in(reg) from, apart = in(reg) apart,
            options(nostack, readonly, preserves_flags));
    };
}

/// Writes tile `T`, its rows so many bytes apart.
///
/// # Safety
///
/// As for [`load`], and nobody else uses that memory.
#[inline(always)]
pub unsafe fn store<const T: u8>(to: *mut u8, apart: usize) {
    // SAFETY: as above.
    unsafe {
        asm!("tilestored [{to} + {apart}], tmm{t}", t = const T, to = in(reg) to, apart = in(reg) apart,
            options(nostack, preserves_flags));
    };
}

/// Adds the products of tiles `A [rows, pairs]` and `B [pairs, columns]` to `C [rows, columns]`.
///
/// Of each number of `C` there are two sums, over the lower and over the upper halves of its pairs, in order and each
/// fused; then both are added, and that to what was there. What is below the smallest normal number is zero, in and
/// out.
///
/// # Safety
///
/// Their shapes fit each other, and the thread holds [`Tiles`].
#[inline(always)]
pub unsafe fn multiply<const C: u8, const A: u8, const B: u8>() {
    // SAFETY: as above.
    unsafe {
        asm!("tdpbf16ps tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B,
            options(nomem, nostack, preserves_flags));
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::tests::skip;
    use crate::random::{philox, uniform};

    /// [`multiply`] in words: `a [rows, pairs]`, `b [pairs, columns]`, `c [rows, columns]`.
    fn by_definition([rows, pairs, columns]: [usize; 3], a: &[u32], b: &[u32], c: &mut [f32]) {
        let normal = |x: f32| if x.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(x) } else { x };
        let half = |word: u32, upper: bool| normal(f32::from_bits(if upper { word & 0xffff_0000 } else { word << 16 }));
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let sum = |upper| {
                (0..pairs).fold(0.0, |sum, k| {
                    let (a, b) = (half(a[row * pairs + k], upper), half(b[k * columns + column], upper));
                    normal(a.mul_add(b, sum))
                })
            };
            let at = &mut c[row * columns + column];
            *at = normal(normal(*at) + normal(sum(false) + sum(true)));
        }
    }

    #[test]
    fn tiles_are_products_of_pairs() {
        if !is_here() {
            return skip("no tile registers in this processor");
        }
        let word = |seed: u64, i: usize, tiny: bool| {
            let bits = philox(seed, [i as u32, 0, 0, 0]);
            let number = |bits: u32| {
                let scale = if tiny { 1e-22 } else { 2.0 };
                ((uniform(bits) - 0.5) * scale).to_bits() >> 16
            };
            number(bits[0]) | number(bits[1]) << 16
        };
        for (shape, tiny) in [([16, 16, 16], false), ([4, 9, 16], false), ([1, 1, 1], false), ([7, 16, 8], true)] {
            let [rows, pairs, columns] = shape;
            let a: Vec<u32> = (0..rows * pairs).map(|i| word(1, i, tiny)).collect();
            let b: Vec<u32> = (0..pairs * columns).map(|i| word(2, i, tiny)).collect();
            let began: Vec<f32> = (0..rows * columns).map(|i| f32::from_bits(word(3, i, tiny))).collect();
            let (mut found, mut wanted) = (began.clone(), began);
            let shapes = Shapes::WHOLE.with(0, rows, columns).with(1, rows, pairs).with(2, pairs, columns);
            // SAFETY: the registers are here, and all is as large as the shapes say.
            unsafe {
                let _tiles = Tiles::take(&shapes);
                load::<0>(found.as_ptr().cast(), 4 * columns);
                load::<1>(a.as_ptr().cast(), 4 * pairs);
                load::<2>(b.as_ptr().cast(), 4 * columns);
                multiply::<0, 1, 2>();
                store::<0>(found.as_mut_ptr().cast(), 4 * columns);
            }
            by_definition(shape, &a, &b, &mut wanted);
            let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&found), bits(&wanted), "{shape:?}");
        }
    }
}
