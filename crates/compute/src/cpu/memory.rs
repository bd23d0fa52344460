//! Memory for numbers: on cache lines, and written in disjoint parts by several threads.

#![expect(unsafe_code, reason = "cache lines seen as floats, and disjoint parts of one slice for several threads")]

use crate::error::Result;
use crate::host::filled;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

/// A cache line of floats.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Floats that begin on a cache line, zero at first. It is a slice in every other respect.
#[derive(Debug, Default)]
pub(super) struct Floats {
    lines: Vec<Line>,
    len: usize,
}

impl Floats {
    pub(super) fn new(len: usize) -> Result<Floats> {
        Ok(Floats { lines: filled(Line([0.0; 16]), len.div_ceil(16), "parameters and activations")?, len })
    }
}

impl Deref for Floats {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: a line is 16 floats without padding, and there are at least `len` of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// Asks for a slice to be brought into a near cache; a hint that changes nothing.
pub(super) fn soon(values: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(16) {
        // SAFETY: SSE is part of every x86_64, and a hint cannot fail.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// A slice whose parts several threads write at once. Nobody else can use it meanwhile: it holds the exclusive borrow.
#[derive(Debug)]
pub(super) struct Split<'a, T> {
    start: *mut T,
    len: usize,
    whole: PhantomData<&'a mut [T]>,
}

// SAFETY: it only hands out parts that its users promise to be disjoint, and values that may change threads.
unsafe impl<T: Send> Sync for Split<'_, T> {}
// SAFETY: as an exclusive borrow of a slice.
unsafe impl<T: Send> Send for Split<'_, T> {}

impl<'a, T> Split<'a, T> {
    pub(super) fn new(whole: &'a mut [T]) -> Split<'a, T> {
        Split { start: whole.as_mut_ptr(), len: whole.len(), whole: PhantomData }
    }

    /// The same slice once more; whoever takes parts keeps them apart.
    pub(super) fn again(&self) -> Split<'a, T> {
        Split { start: self.start, len: self.len, whole: PhantomData }
    }

    /// A part of it, to write.
    ///
    /// # Safety
    /// No other part that is alive at the same time may overlap it.
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &'a mut [T] {
        self.check(&range);
        // SAFETY: inside the slice, borrowed for its lifetime; not overlapping by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// A part of it, to read.
    ///
    /// # Safety
    /// No part that is written and alive at the same time may overlap it.
    pub(super) unsafe fn read(&self, range: Range<usize>) -> &'a [T] {
        self.check(&range);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }

    fn check(&self, range: &Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "a part outside of the whole");
    }
}
