//! Columns of lanes become rows of the table: rounded to f32, with a bit for each value and a word on whether the row has settled.

use crate::engine::State;
use crate::simd;
use crate::table::Feature;

/// The rows of one run.
pub(crate) struct Out<'a> {
    pub(crate) values: &'a mut [f32],   // [bars, stride]
    pub(crate) valid: &'a mut [u64],    // [bars, words]
    pub(crate) settled: &'a mut [bool], // [bars]
}

/// What is remembered from block to block.
pub(crate) struct Emit<const W: usize> {
    stride: usize,
    /// `[F]` valid values in a row that a column needs to have settled.
    need: Vec<u32>,
    /// Whether some column never settles, so that no row does.
    never: bool,
    /// `[F]` valid values in a row up to now, counted until they are enough.
    since: Vec<[u32; W]>,
    /// Whether they are, in every column.
    steady: [bool; W],
    /// A word of bits for rows where every value is valid, `[words]`.
    full: Vec<u64>,
    /// `[F]` whether each column of the last block is finite throughout, and fits into f32.
    whole: Vec<(bool, bool)>,
    /// Where lanes that have ended write.
    spare: Vec<f32>,
    /// `[F]` values that were missing.
    pub(crate) invalid: Vec<u64>,
}

impl<const W: usize> Emit<W> {
    pub(crate) fn new(columns: &[Feature], stride: usize) -> Self {
        let need = columns
            .iter()
            .map(|c| c.settled.map_or(0, |s| u32::try_from(s - c.first_valid + 1).unwrap_or(u32::MAX)))
            .collect();
        let never = columns.iter().any(|c| c.settled.is_none());
        let n = columns.len();
        let full =
            (0..n.div_ceil(64)).map(|w| if n - w * 64 >= 64 { u64::MAX } else { (1 << (n - w * 64)) - 1 }).collect();
        Emit {
            stride,
            need,
            never,
            since: vec![[0; W]; n],
            steady: [false; W],
            full,
            whole: Vec::new(),
            spare: Vec::new(),
            invalid: vec![0; n],
        }
    }

    /// What it remembers, to whoever saves or restores it.
    pub(crate) fn state(&mut self, state: &mut State<'_>) {
        for since in self.since.iter_mut().flatten() {
            let mut count = *since as usize;
            state.count(&mut count);
            *since = count as u32;
        }
        self.steady = [false; W];
    }

    /// Writes a block: `columns` are `[F]` blocks and whether each is finite throughout; `outs` the lanes with the rows they still have.
    pub(crate) fn rows(
        &mut self,
        columns: &[(&[[f64; W]], bool)],
        at: usize,
        bars: usize,
        outs: &mut [(&mut Out<'_>, usize)],
    ) {
        let fine = self.values(columns, at, bars, outs);
        // Where something is odd, a value is missing, or one that should be there is too large for f32.
        let fits = |c: &(&[[f64; W]], bool)| fine || !c.1 || c.0.as_flattened().iter().all(|x| (*x as f32).is_finite());
        self.whole.clear();
        self.whole.extend(columns.iter().map(|c| (c.1, fits(c))));
        let whole = std::mem::take(&mut self.whole);
        self.marks(&whole, at, outs);
        self.whole = whole;
    }

    /// Which values are there, and which rows have settled. `whole` says of each column whether it is finite throughout, and fits into f32.
    pub(crate) fn marks(&mut self, whole: &[(bool, bool)], at: usize, outs: &mut [(&mut Out<'_>, usize)]) {
        let (stride, words) = (self.stride, self.full.len());
        // Columns with a value missing in this block, or too large for f32, are looked at one by one.
        let mut usual = self.full.clone();
        let holed: Vec<usize> = (0..whole.len()).filter(|f| whole[*f] != (true, true)).collect();
        holed.iter().for_each(|f| usual[f / 64] &= !(1 << (f % 64)));
        for (l, (out, rows)) in outs.iter_mut().enumerate().filter(|(_, (_, rows))| *rows > 0) {
            for bits in out.valid[at * words..(at + *rows) * words].chunks_exact_mut(words.max(1)) {
                bits.copy_from_slice(&usual);
            }
            let settled = &mut out.settled[at..at + *rows];
            if holed.is_empty() && self.steady[l] {
                settled.fill(!self.never);
                continue;
            }
            // Bars until the last of the other columns has settled.
            let mut wait = 0;
            for f in (0..whole.len()).filter(|f| whole[*f] == (true, true)) {
                let since = &mut self.since[f][l];
                wait = wait.max(self.need[f].saturating_sub(since.saturating_add(1)));
                *since = since.saturating_add(*rows as u32).min(self.need[f]);
            }
            let wait = (wait as usize).min(settled.len());
            settled[..wait].fill(false);
            settled[wait..].fill(!self.never);
            for &f in &holed {
                let (since, need) = (&mut self.since[f][l], self.need[f]);
                for (t, settled) in settled.iter_mut().enumerate() {
                    let value = &mut out.values[(at + t) * stride + f];
                    let fine = value.is_finite();
                    if fine {
                        out.valid[(at + t) * words + f / 64] |= 1 << (f % 64);
                        *since = since.saturating_add(1).min(need);
                    } else {
                        *value = f32::NAN;
                        *since = 0;
                        self.invalid[f] += 1;
                    }
                    *settled &= fine && *since >= need;
                }
            }
            self.steady[l] = self.since.iter().zip(&self.need).all(|(since, need)| since[l] >= *need);
        }
    }

    /// Writes the values; says whether all of them are finite in f32.
    fn values(
        &mut self,
        columns: &[(&[[f64; W]], bool)],
        at: usize,
        bars: usize,
        outs: &mut [(&mut Out<'_>, usize)],
    ) -> bool {
        let (stride, width) = (self.stride, columns.len());
        let (size, absent) = (bars * stride, W - outs.len());
        self.spare.resize(size * W, 0.0);
        let mut spare = self.spare.chunks_exact_mut(size.max(1));
        let mut places: Vec<&mut [f32]> = Vec::with_capacity(W);
        for (out, rows) in outs.iter_mut() {
            places.push(match *rows == bars {
                true => &mut out.values[at * stride..(at + bars) * stride],
                // This lane ends inside the block: its rows are written beside the table first.
                false => spare.next().unwrap_or_default(),
            });
        }
        places.extend(spare.take(absent));
        let blocks: Vec<&[[f64; W]]> = columns.iter().map(|c| c.0).collect();
        let Ok(places) = <&mut [&mut [f32]; W]>::try_from(&mut places[..]) else { return false };
        let fine = simd::rows(&blocks, places, stride);
        for (out, rows) in outs.iter_mut().filter(|(_, rows)| *rows == bars && width < stride) {
            out.values[at * stride..(at + *rows) * stride]
                .chunks_exact_mut(stride)
                .for_each(|row| row[width..].fill(0.0));
        }
        let short = outs.iter_mut().filter(|(_, rows)| *rows < bars);
        for ((out, rows), wrote) in short.zip(self.spare.chunks_exact(size.max(1))) {
            if *rows > 0 {
                out.values[at * stride..(at + *rows) * stride].copy_from_slice(&wrote[..*rows * stride]);
            }
        }
        fine
    }
}
