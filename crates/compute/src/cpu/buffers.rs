//! All buffers of a net for some rows: activations, or the gradients at them.

#![expect(unsafe_code, reason = "threads write the rows of one buffer side by side")]

use super::memory::{Floats, Split};
use super::plan::Plan;
use crate::error::Result;

/// `[buffers][rows, stride]`, one buffer behind the other.
#[derive(Debug)]
pub(super) struct Buffers {
    values: Floats,
    rows: usize,
}

impl Buffers {
    pub(super) fn new(plan: &Plan, rows: usize) -> Result<Buffers> {
        Ok(Buffers { values: Floats::new(rows * plan.columns())?, rows })
    }

    /// Numbers in all of them.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The first `n` rows, for one thread.
    pub(super) fn first(&mut self, n: usize) -> Rows<'_> {
        assert!(n <= self.rows);
        Rows { all: self.rows, first: 0, n, values: Split::new(&mut self.values) }
    }

    /// To be cut into rows for several threads.
    pub(super) fn share(&mut self) -> Shared<'_> {
        Shared { rows: self.rows, values: Split::new(&mut self.values) }
    }

    /// `[rows, stride]` one buffer.
    pub(super) fn read(&self, plan: &Plan, buffer: usize) -> &[f32] {
        &self.values[plan.buffer(buffer, self.rows)]
    }
}

/// Buffers whose rows several threads write at once.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    values: Split<'a, f32>,
    rows: usize,
}

impl<'a> Shared<'a> {
    /// Rows `first .. first + n` of all buffers.
    ///
    /// # Safety
    /// Rows that are alive at the same time must not overlap.
    pub(super) unsafe fn rows(&self, first: usize, n: usize) -> Rows<'a> {
        assert!(first + n <= self.rows);
        Rows { all: self.rows, first, n, values: self.values.again() }
    }
}

/// Some rows of all buffers, for one thread alone.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    values: Split<'a, f32>,
    all: usize,
    first: usize,
    n: usize,
}

impl Rows<'_> {
    pub(super) fn len(&self) -> usize {
        self.n
    }

    /// `[n, stride]` of one buffer, to read.
    pub(super) fn read(&self, plan: &Plan, buffer: usize) -> &[f32] {
        // SAFETY: nobody else has these rows, and while this borrow lives they are only read.
        unsafe { self.values.read(self.range(plan, buffer)) }
    }

    /// `[n, stride]` of one buffer, to write.
    pub(super) fn write(&mut self, plan: &Plan, buffer: usize) -> &mut [f32] {
        // SAFETY: nobody else has these rows, and `self` is borrowed exclusively.
        unsafe { self.values.part(self.range(plan, buffer)) }
    }

    /// One buffer to read, another to write.
    pub(super) fn pair(&mut self, plan: &Plan, read: usize, write: usize) -> (&[f32], &mut [f32]) {
        assert_ne!(read, write, "a layer reads one buffer and writes another");
        // SAFETY: as above; two buffers do not overlap.
        unsafe { (self.values.read(self.range(plan, read)), self.values.part(self.range(plan, write))) }
    }

    /// Two buffers to write.
    pub(super) fn two(&mut self, plan: &Plan, one: usize, other: usize) -> (&mut [f32], &mut [f32]) {
        assert_ne!(one, other, "two buffers");
        // SAFETY: as above; two buffers do not overlap.
        unsafe { (self.values.part(self.range(plan, one)), self.values.part(self.range(plan, other))) }
    }

    fn range(&self, plan: &Plan, buffer: usize) -> std::ops::Range<usize> {
        let (start, stride) = (plan.buffer(buffer, self.all).start, plan.stride(buffer));
        start + self.first * stride..start + (self.first + self.n) * stride
    }
}
