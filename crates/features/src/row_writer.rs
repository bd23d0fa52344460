//! Columns of lanes become rows of the table: rounded to f32, with a bit for each value and a word on whether the row
//! has settled.

use crate::engine::State;
use crate::simd;
use crate::table::Feature;

/// The rows of one run.
pub(crate) struct RowsOut<'a> {
    pub(crate) values: &'a mut [f32],   // [bars, stride]
    pub(crate) valid: &'a mut [u64],    // [bars, words]
    pub(crate) settled: &'a mut [bool], // [bars]
}

/// What is remembered from block to block.
pub(crate) struct RowWriter<const W: usize> {
    stride: usize,
    /// `[F]` valid values in a row that a column needs to have settled.
    need: Vec<u32>,
    /// `[F]` index of the first valid value of a run.
    first: Vec<usize>,
    /// Whether some column never settles, so that no row does.
    never: bool,
    /// `[F]` valid values in a row up to now, counted until they are enough.
    since: Vec<[u32; W]>,
    /// Whether they are, in every column.
    steady: [bool; W],
    /// A word of bits for rows where every value is valid, `[words]`.
    full: Vec<u64>,
    /// `[F]` rows at the end of the last block in which a column is known to be finite in every lane, and to fit into
    /// f32.
    finite_rows: Vec<usize>,
    /// Where lanes that have ended write.
    spare: Vec<f32>,
    /// `[F]` values that were missing.
    pub(crate) invalid: Vec<[u64; W]>,
}

impl<'a> RowsOut<'a> {
    /// The first rows, and the rest.
    pub(crate) fn split(self, rows: usize) -> (RowsOut<'a>, RowsOut<'a>) {
        let (all, RowsOut { values, valid, settled }) = (self.settled.len().max(1), self);
        let (stride, words) = (values.len() / all, valid.len() / all);
        let (values, later_values) = values.split_at_mut(rows * stride);
        let (valid, later_valid) = valid.split_at_mut(rows * words);
        let (settled, later_settled) = settled.split_at_mut(rows);
        (
            RowsOut { values, valid, settled },
            RowsOut { values: later_values, valid: later_valid, settled: later_settled },
        )
    }

    /// Rows `from..to`.
    pub(crate) fn part(&mut self, from: usize, to: usize) -> RowsOut<'_> {
        let all = RowsOut { values: self.values, valid: self.valid, settled: self.settled };
        all.split(to).0.split(from).1
    }
}

impl<const W: usize> RowWriter<W> {
    pub(crate) fn new(columns: &[Feature], stride: usize) -> Self {
        let need = columns
            .iter()
            .map(|c| c.settled.map_or(0, |s| u32::try_from(s - c.first_valid + 1).unwrap_or(u32::MAX)))
            .collect();
        let never = columns.iter().any(|c| c.settled.is_none());
        let n = columns.len();
        let full =
            (0..n.div_ceil(64)).map(|w| if n - w * 64 >= 64 { u64::MAX } else { (1 << (n - w * 64)) - 1 }).collect();
        RowWriter {
            stride,
            need,
            first: columns.iter().map(|c| c.first_valid).collect(),
            never,
            since: vec![[0; W]; n],
            steady: [false; W],
            full,
            finite_rows: Vec::new(),
            spare: Vec::new(),
            invalid: vec![[0; W]; n],
        }
    }

    /// Begins anew, with other lanes.
    pub(crate) fn clear(&mut self) {
        self.since.fill([0; W]);
        self.steady = [false; W];
        self.invalid.fill([0; W]);
    }

    /// What it remembers, to whoever saves or restores it.
    pub(crate) fn state(&mut self, state: &mut State<'_>) {
        for since in &mut self.since {
            for (l, since) in since.iter_mut().enumerate() {
                if state.visits(l) {
                    let mut count = *since as usize;
                    state.count(&mut count);
                    *since = count as u32;
                }
            }
        }
        self.steady = [false; W];
    }

    /// A lane begins in earnest after `warm` bars: what was missing before does not count. A column that had a value
    /// whenever it could is taken to have had one in all `bars` bars of the run so far, which is for the caller to
    /// check.
    pub(crate) fn begin_lane(&mut self, l: usize, warm: usize, bars: usize) {
        for ((since, need), first) in self.since.iter_mut().zip(&self.need).zip(&self.first) {
            if since[l] as usize + first >= warm {
                since[l] = u32::try_from(bars.saturating_sub(*first)).map_or(*need, |since| since.min(*need));
            }
        }
        self.steady[l] = false;
        self.invalid.iter_mut().for_each(|missing| missing[l] = 0);
    }

    /// Writes a block: `columns` are `[F]` blocks and how many rows at the end of each are finite in every lane; `outs`
    /// the rows that each lane still has in it.
    pub(crate) fn write_rows(&mut self, columns: &[(&[[f64; W]], usize)], bars: usize, outs: &mut [RowsOut<'_>]) {
        let fine = self.write_values(columns, bars, outs);
        // Where something is odd, a value is missing, or one that should be there is too large for f32.
        let fits = |end: &[[f64; W]]| fine || simd::call(FitsF32, end.as_flattened());
        let mut finite_rows = std::mem::take(&mut self.finite_rows);
        finite_rows.clear();
        finite_rows.extend(
            columns
                .iter()
                .map(|(column, finite_rows)| if fits(&column[bars - finite_rows..]) { *finite_rows } else { 0 }),
        );
        self.write_marks(&finite_rows, bars, outs);
        self.finite_rows = finite_rows;
    }

    /// Which values are there, and which rows have settled. `finite_rows` says of each column how many rows at
    /// the end of the block surely have a value.
    fn write_marks(&mut self, finite_rows: &[usize], bars: usize, outs: &mut [RowsOut<'_>]) {
        let (stride, words) = (self.stride, self.full.len());
        // Columns with a value missing in this block, or too large for f32, are looked at one by one.
        let mut complete_bits = self.full.clone();
        let incomplete: Vec<usize> = (0..finite_rows.len()).filter(|f| finite_rows[*f] < bars).collect();
        incomplete.iter().for_each(|f| complete_bits[f / 64] &= !(1 << (f % 64)));
        for (l, RowsOut { values, valid, settled }) in
            outs.iter_mut().enumerate().filter(|(_, o)| !o.settled.is_empty())
        {
            match complete_bits[..] {
                [one] => valid.fill(one),
                _ => valid.chunks_exact_mut(words.max(1)).for_each(|bits| bits.copy_from_slice(&complete_bits)),
            }
            if incomplete.is_empty() && self.steady[l] {
                settled.fill(!self.never);
                continue;
            }
            // Bars until the last of the other columns has settled.
            let mut wait = 0;
            for f in (0..finite_rows.len()).filter(|f| finite_rows[*f] >= bars) {
                let since = &mut self.since[f][l];
                wait = wait.max(self.need[f].saturating_sub(since.saturating_add(1)));
                *since = since.saturating_add(settled.len() as u32).min(self.need[f]);
            }
            let wait = (wait as usize).min(settled.len());
            settled[..wait].fill(false);
            settled[wait..].fill(!self.never);
            for &f in &incomplete {
                let (since, need) = (&mut self.since[f][l], self.need[f]);
                let (head, tail) = settled.split_at_mut(settled.len().min(bars - finite_rows[f]));
                for (t, settled) in head.iter_mut().enumerate() {
                    let value = &mut values[t * stride + f];
                    let fine = value.is_finite();
                    if fine {
                        valid[t * words + f / 64] |= 1 << (f % 64);
                        *since = since.saturating_add(1).min(need);
                    } else {
                        *value = f32::NAN;
                        *since = 0;
                        self.invalid[f][l] += 1;
                    }
                    *settled &= fine && *since >= need;
                }
                // A warm-up ends once: from here on every value is there, and nobody looks at them.
                let wait = (need.saturating_sub(since.saturating_add(1)) as usize).min(tail.len());
                tail[..wait].fill(false);
                *since = since.saturating_add(tail.len() as u32).min(need);
                let bits = valid[head.len() * words..].iter_mut().skip(f / 64).step_by(words);
                bits.for_each(|bits| *bits |= 1 << (f % 64));
            }
            self.steady[l] = self.since.iter().zip(&self.need).all(|(since, need)| since[l] >= *need);
        }
    }

    /// Writes the values; says whether all of them are finite in f32.
    fn write_values(&mut self, columns: &[(&[[f64; W]], usize)], bars: usize, outs: &mut [RowsOut<'_>]) -> bool {
        let (stride, width) = (self.stride, columns.len());
        let (size, absent) = (bars * stride, W - outs.len());
        self.spare.resize(self.spare.len().max(size * W), 0.0);
        let mut spare = self.spare.chunks_exact_mut(size.max(1));
        let mut places: Vec<&mut [f32]> = Vec::with_capacity(W);
        for out in outs.iter_mut() {
            places.push(match out.settled.len() == bars {
                true => &mut *out.values,
                // This lane ends inside the block: its rows are written beside the table first.
                false => spare.next().unwrap_or_default(),
            });
        }
        places.extend(spare.take(absent));
        let blocks: Vec<&[[f64; W]]> = columns.iter().map(|c| c.0).collect();
        let Ok(places) = <&mut [&mut [f32]; W]>::try_from(&mut places[..]) else { return false };
        let fine = simd::rows(&blocks, places, stride);
        for out in outs.iter_mut().filter(|out| out.settled.len() == bars && width < stride) {
            out.values.chunks_exact_mut(stride).for_each(|row| row[width..].fill(0.0));
        }
        let short = outs.iter_mut().filter(|out| out.settled.len() < bars);
        for (out, wrote) in short.zip(self.spare.chunks_exact(size.max(1))) {
            out.values.copy_from_slice(&wrote[..out.values.len()]);
        }
        fine
    }
}

/// Whether every value fits into f32.
struct FitsF32;

impl simd::Inlined<&[f64], bool> for FitsF32 {
    #[inline(always)]
    fn call(self, values: &[f64]) -> bool {
        // One plain loop without a way out becomes lanes.
        let mut wrong = 0u32;
        for x in values {
            wrong |= if (*x as f32).is_finite() { 0 } else { u32::MAX };
        }
        wrong == 0
    }
}
