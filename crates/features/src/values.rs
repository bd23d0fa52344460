//! The numbers of a table, of which the first begins a line of the cache.
//!
//! An allocator promises 16 bytes. Rows of whole lines then lie within lines, and can be written as lines. To whoever
//! reads them they are a slice.

use std::ops::{Deref, DerefMut};

/// Numbers in a line.
const LINE: usize = 16;

/// The numbers of a table, read and written as a slice.
#[derive(Default)]
pub struct Values {
    numbers: Vec<f32>,
    /// Numbers before the first.
    skip: usize,
    len: usize,
}

impl Values {
    /// So many zeros.
    pub fn zeros(len: usize) -> Values {
        Values::within(Vec::new(), len)
    }

    /// So many numbers in the memory of these, as far as it goes; what they are is left open.
    pub(crate) fn resized(self, len: usize) -> Values {
        Values::within(self.numbers, len)
    }

    fn within(numbers: Vec<f32>, len: usize) -> Values {
        let numbers = room(numbers, len + LINE);
        // The memory of a vector stays where it is while nothing is added.
        let skip = numbers.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        Values { numbers, skip, len }
    }
}

/// Room for that many in memory that was used before, as far as it goes: being given fresh memory can cost more than
/// what is computed into it.
pub(crate) fn room<T: Copy + Default>(mut spare: Vec<T>, len: usize) -> Vec<T> {
    if spare.capacity() < len {
        return vec![T::default(); len];
    }
    spare.resize(len, T::default());
    spare
}

impl Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.numbers[self.skip..][..self.len]
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[self.skip..][..self.len]
    }
}

impl Clone for Values {
    fn clone(&self) -> Values {
        let mut values = Values::zeros(self.len);
        values.copy_from_slice(self);
        values
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cache_line_aligned() {
        let check = |values: &Values, len: usize| {
            assert_eq!((values.len(), values.as_ptr().addr() % 64), (len, 0), "{len} numbers");
        };
        for len in [0, 1, 15, 16, 17, 1000, 100_000] {
            let mut values = Values::zeros(len);
            check(&values, len);
            assert!(values.iter().all(|v| *v == 0.0));
            values.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32);
            let again = values.clone();
            check(&again, len);
            assert_eq!(*again, *values);
            check(&again.resized(len / 2), len / 2);
            check(&values.resized(len * 2), len * 2);
        }
    }
}
