//! Which rows are near an observation: cells of equally many rows, by the ranks of a few columns.

use super::rows::Rows;
use compute::random::uniform;

/// Columns, at most.
pub(crate) const COLUMNS: usize = 3;
/// Parts that a column's ranks are cut into.
const BINS: usize = 8;
/// Ranks are found among so many values of a column.
const RANKS: usize = 256;
/// A cell with fewer rows is joined with those that differ in its last column alone.
const LEAST: usize = 48;

/// The ranks of an observation, from 0 to [`BINS`].
pub(crate) type Key = [f32; COLUMNS];

/// Rows sorted by their cells: the first column counts most, so cells that share their first columns lie together.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    columns: Vec<usize>,
    ranks: Vec<Vec<f32>>, // [columns] some of its values in order
    starts: Vec<u32>,     // [BINS ^ columns + 1] where each cell begins in `members`
    members: Vec<u32>,    // rows, each of which has a follower
}

impl Cells {
    pub(super) fn new(rows: &Rows, before: &[u32], columns: &[usize]) -> Cells {
        let ranks: Vec<Vec<f32>> = columns.iter().map(|column| ranks(rows, before, *column)).collect();
        let mut cells = Cells { columns: columns.to_vec(), ranks, starts: Vec::new(), members: Vec::new() };
        let mut sorted: Vec<(u32, u32)> =
            before.iter().map(|row| (cells.cell(&cells.key(rows.observation(*row))), *row)).collect();
        sorted.sort_unstable();
        let count = BINS.pow(columns.len() as u32) as u32;
        cells.starts = (0..=count).map(|cell| sorted.partition_point(|(own, _)| *own < cell) as u32).collect();
        cells.members = sorted.into_iter().map(|(_, row)| row).collect();
        cells
    }

    /// Columns that make rows alike.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Where each cell begins among the members.
    pub(crate) fn starts(&self) -> &[u32] {
        &self.starts
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    /// Where an observation lies.
    pub(crate) fn key(&self, observation: &[f32]) -> Key {
        let mut key = [0.0; COLUMNS];
        for ((to, column), ranks) in key.iter_mut().zip(&self.columns).zip(&self.ranks) {
            let x = observation[*column];
            // Equal values share the middle of their ranks.
            let below = ranks.partition_point(|value| *value < x) + ranks.partition_point(|value| *value <= x);
            *to = below as f32 * (BINS as f32 / (2.0 * ranks.len() as f32));
        }
        key
    }

    fn cell(&self, key: &Key) -> u32 {
        let bin = |rank: f32| (rank.max(0.0) as u32).min(BINS as u32 - 1);
        key[..self.columns.len()].iter().fold(0, |cell, rank| cell * BINS as u32 + bin(*rank))
    }

    /// Rows near a key. Three words move it by up to half a cell in each column, so that rows count less the further
    /// away they are.
    pub(super) fn near(&self, key: &Key, words: [u32; COLUMNS]) -> &[u32] {
        let mut moved = *key;
        moved.iter_mut().zip(words).for_each(|(rank, word)| *rank += uniform(word) - 0.5);
        let beside = self.range(self.cell(&moved), 0);
        if beside.len() >= LEAST {
            return beside;
        }
        let own = self.cell(key);
        let enough = (0..self.columns.len()).map(|joined| self.range(own, joined)).find(|range| range.len() >= LEAST);
        enough.unwrap_or(&self.members)
    }

    /// The rows of a key's cell, then those of ever wider parts around it, up to all of them.
    pub(super) fn around(&self, key: &Key) -> impl Iterator<Item = &[u32]> {
        let own = self.cell(key);
        (0..=self.columns.len()).map(move |joined| self.range(own, joined))
    }

    /// The rows of a cell, whatever its last `joined` columns are.
    fn range(&self, cell: u32, joined: usize) -> &[u32] {
        let wide = (BINS as u32).pow(joined as u32);
        let first = cell / wide * wide;
        &self.members[self.starts[first as usize] as usize..self.starts[(first + wide) as usize] as usize]
    }
}

/// Values of a column in order, evenly spread among all.
fn ranks(rows: &Rows, before: &[u32], column: usize) -> Vec<f32> {
    let mut values: Vec<f32> = before.iter().map(|row| rows.observation(*row)[column]).collect();
    values.sort_unstable_by(f32::total_cmp);
    let count = values.len().min(RANKS);
    (0..count).map(|i| values[(2 * i + 1) * values.len() / (2 * count)]).collect()
}
