//! Rows of lanes in memory, each within a line of the cache.
//!
//! An allocator promises 16 bytes. Every second load and store of 32 would then lie across two lines, and cost twice.

/// Bytes of a line.
const LINE: usize = 64;

/// `[n]` rows of `W` lanes, of which the first begins a line.
#[derive(Default)]
pub(crate) struct Rows<const W: usize> {
    values: Vec<f64>,
    /// Values before the first row.
    skip: usize,
}

impl<const W: usize> Rows<W> {
    /// So many rows of one number.
    pub(crate) fn new(value: f64, rows: usize) -> Rows<W> {
        let values = vec![value; rows * W + LINE / size_of::<f64>()];
        // The memory of a vector stays where it is while nothing is added.
        let skip = values.as_ptr().align_offset(LINE).min(LINE / size_of::<f64>());
        Rows { values, skip }
    }

    /// All rows.
    #[inline(always)]
    pub(crate) fn all(&self) -> &[[f64; W]] {
        self.values[self.skip..].as_chunks().0
    }

    /// All rows, to be written.
    #[inline(always)]
    pub(crate) fn all_mut(&mut self) -> &mut [[f64; W]] {
        self.values[self.skip..].as_chunks_mut().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const W: usize>(n: usize) {
        let mut rows = Rows::<W>::new(3.0, n);
        assert_eq!(rows.all().as_ptr().addr() % LINE, 0, "{n} rows of {W}");
        assert!(rows.all().len() >= n && rows.all().iter().all(|row| *row == [3.0; W]));
        rows.all_mut()[..n].fill([4.0; W]);
        assert!(rows.all()[..n].iter().all(|row| *row == [4.0; W]));
    }

    #[test]
    fn rows_are_cache_line_aligned() {
        for n in [0, 1, 2, 63, 64, 100_000] {
            check::<1>(n);
            check::<4>(n);
            check::<8>(n);
        }
    }
}
