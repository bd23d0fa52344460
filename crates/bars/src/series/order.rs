//! Rows in order of time: sorted in memory, or merged in windows from a scratch file.

use super::intake::FileRows;
use crate::ingest::Rows;
use crate::scan::FileMeta;
use files::{MISSING_TIME, Result, Scratch};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rows merged from a scratch file at a time.
const WINDOW: usize = 32_768;

/// A stretch of rows.
pub(super) enum Block {
    Memory(Rows),
    /// Sorted, as 8-byte little-endian columns: label, end, five values, extras.
    Disk {
        at: u64,
        rows: usize,
        extras: usize,
    },
}

/// Rows sorted by stamp; equal stamps keep their order.
pub(super) fn sort_rows(rows: Rows) -> Rows {
    if rows.stamp.is_sorted() {
        return rows;
    }
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_by_key(|i| rows.stamp[*i as usize]);
    rows.select_rows(&order)
}

/// Gives rows the extras of the whole series.
fn add_missing_extras(mut rows: Rows, mine: &[String], all: &[String]) -> Rows {
    if mine != all {
        let n = rows.len();
        let take = |name: &String| match mine.iter().position(|m| m == name) {
            Some(at) if at < rows.extras.len() => std::mem::take(&mut rows.extras[at]),
            _ => vec![f64::NAN; n],
        };
        rows.extras = all.iter().map(take).collect();
    }
    rows
}

/// Hands over all rows in order of time; `true` with the last.
pub(super) fn merge_in_order(
    lots: Vec<FileRows>,
    metas: &[FileMeta],
    extras: &[String],
    scratch: Option<&mut Scratch>,
    each: &mut dyn FnMut(Rows, bool) -> Result<()>,
) -> Result<()> {
    let on_disk = lots.iter().flat_map(|l| &l.blocks).any(|b| matches!(b, Block::Disk { .. }));
    if !on_disk {
        return each(sort_rows(join_files(lots, metas, extras)), true);
    }
    let Some(scratch) = scratch else { return each(Rows::default(), true) };
    let mut cursors = Vec::new();
    for lot in lots {
        let mine = &metas[lot.file].extras;
        let mut rest: Option<Rows> = None;
        for block in lot.blocks {
            match block {
                Block::Memory(rows) => match &mut rest {
                    Some(held) => held.extend(&rows),
                    None => rest = Some(rows),
                },
                Block::Disk { at, rows, extras: n } => cursors.push(Cursor {
                    from: Some((at, rows, n)),
                    next: 0,
                    window: Rows::default(),
                    row: 0,
                    names: mine.clone(),
                }),
            }
        }
        if let Some(rows) = rest {
            let window = add_missing_extras(with_ends(sort_rows(rows)), mine, extras);
            cursors.push(Cursor { from: None, next: 0, window, row: 0, names: mine.clone() });
        }
    }
    merge(cursors, extras, scratch, each)
}

/// A sorted block being read.
struct Cursor {
    from: Option<(u64, usize, usize)>, // where it lies on disk, its rows, its extras
    next: usize,                       // first row not read yet
    window: Rows,
    row: usize, // of the window
    names: Vec<String>,
}

impl Cursor {
    /// The stamp it stands at; reads the next window where it must.
    fn next_stamp(&mut self, scratch: &mut Scratch, extras: &[String]) -> Result<Option<i64>> {
        if self.row == self.window.len()
            && let Some((at, rows, n)) = self.from
            && self.next < rows
        {
            let upto = (self.next + WINDOW).min(rows);
            let window = read_block(scratch, at, rows, n, self.next, upto)?;
            self.window = add_missing_extras(window, &self.names, extras);
            self.next = upto;
            self.row = 0;
        }
        Ok(self.window.stamp.get(self.row).copied())
    }
}

fn merge(
    mut cursors: Vec<Cursor>,
    extras: &[String],
    scratch: &mut Scratch,
    each: &mut dyn FnMut(Rows, bool) -> Result<()>,
) -> Result<()> {
    // Equal stamps come in the order of their blocks, which is the order of the files.
    let mut heap = BinaryHeap::new();
    for (i, cursor) in cursors.iter_mut().enumerate() {
        if let Some(label) = cursor.next_stamp(scratch, extras)? {
            heap.push(Reverse((label, i)));
        }
    }
    let empty = || Rows { extras: vec![Vec::new(); extras.len()], ..Rows::default() };
    let mut out = empty();
    while let Some(Reverse((_, i))) = heap.pop() {
        // Take all rows up to the next cursor's head at once.
        let limit = heap.peek().map(|Reverse(next)| *next);
        let cursor = &mut cursors[i];
        let rest = &cursor.window.stamp[cursor.row..];
        let take = match limit {
            None => rest.len(),
            Some((label, j)) => rest.partition_point(|t| *t < label || (*t == label && i < j)).max(1),
        };
        out.extend_range(&cursor.window, cursor.row, cursor.row + take);
        cursor.row += take;
        if let Some(label) = cursor.next_stamp(scratch, extras)? {
            heap.push(Reverse((label, i)));
        }
        if out.len() >= WINDOW {
            each(std::mem::replace(&mut out, empty()), false)?;
        }
    }
    each(out, true)
}

/// All rows of lots that lie in memory.
pub(super) fn join_files(lots: Vec<FileRows>, metas: &[FileMeta], extras: &[String]) -> Rows {
    let mut blocks: Vec<Rows> = Vec::new();
    for lot in lots {
        let mine = &metas[lot.file].extras;
        for block in lot.blocks {
            if let Block::Memory(rows) = block {
                blocks.push(add_missing_extras(rows, mine, extras));
            }
        }
    }
    if blocks.len() == 1 {
        return blocks.pop().unwrap_or_default();
    }
    let total: usize = blocks.iter().map(Rows::len).sum();
    let ends = blocks.iter().any(|b| !b.end.is_empty());
    let mut all = Rows { extras: vec![Vec::new(); extras.len()], ..Rows::default() };
    all.stamp.reserve_exact(total);
    if ends {
        all.end.reserve_exact(total);
        for block in &mut blocks {
            if block.end.is_empty() {
                block.end = vec![MISSING_TIME; block.len()];
            }
        }
    }
    all.numbers_mut().for_each(|v| v.reserve_exact(total));
    // Blocks are let go one by one, so that the peak is one copy and a block.
    for block in blocks {
        all.extend_range(&block, 0, block.len());
    }
    all
}

fn with_ends(mut rows: Rows) -> Rows {
    if rows.end.is_empty() {
        rows.end = vec![MISSING_TIME; rows.len()];
    }
    rows
}

pub(super) fn write_block(scratch: &mut Scratch, rows: Rows) -> Result<Block> {
    let rows = with_ends(rows);
    let mut bytes = Vec::with_capacity(rows.len() * 8);
    let mut at = None;
    for column in [&rows.stamp, &rows.end] {
        bytes.clear();
        column.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
        at.get_or_insert(scratch.append(&bytes)?);
    }
    for column in rows.values.iter().chain(&rows.extras) {
        bytes.clear();
        column.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
        scratch.append(&bytes)?;
    }
    Ok(Block::Disk { at: at.unwrap_or(0), rows: rows.len(), extras: rows.extras.len() })
}

fn read_block(scratch: &mut Scratch, at: u64, rows: usize, extras: usize, from: usize, to: usize) -> Result<Rows> {
    let mut bytes = vec![0u8; (to - from) * 8];
    let mut column = |index: usize| -> Result<Vec<[u8; 8]>> {
        scratch.read(at + ((index * rows + from) * 8) as u64, &mut bytes)?;
        Ok(bytes.as_chunks::<8>().0.to_vec())
    };
    let times = |raw: Vec<[u8; 8]>| raw.into_iter().map(i64::from_le_bytes).collect();
    let floats = |raw: Vec<[u8; 8]>| raw.into_iter().map(f64::from_le_bytes).collect();
    let label = times(column(0)?);
    let end = times(column(1)?);
    let mut values: [Vec<f64>; 5] = Default::default();
    for (i, v) in values.iter_mut().enumerate() {
        *v = floats(column(2 + i)?);
    }
    let extras = (0..extras).map(|i| column(7 + i).map(floats)).collect::<Result<_>>()?;
    Ok(Rows { stamp: label, end, values, extras })
}

impl Rows {
    pub(super) fn truncate(&mut self, n: usize) {
        self.stamp.truncate(n);
        self.end.truncate(n);
        self.numbers_mut().for_each(|v| v.truncate(n));
    }

    /// Adds a range of another's rows behind; both have the same extras and ends.
    fn extend_range(&mut self, other: &Rows, from: usize, to: usize) {
        self.stamp.extend_from_slice(&other.stamp[from..to]);
        if !other.end.is_empty() {
            self.end.extend_from_slice(&other.end[from..to]);
        }
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            mine.extend_from_slice(&theirs[from..to]);
        }
        for (mine, theirs) in self.extras.iter_mut().zip(&other.extras) {
            mine.extend_from_slice(&theirs[from..to]);
        }
    }
}
