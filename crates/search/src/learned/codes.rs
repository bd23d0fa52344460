//! Which code a move is: bins of equally many training moves, in deviations known before them. Moves are rounded to
//! f32: equal ones that differ in their last bits have one code.

use super::net::CODES;
use crate::bootstrap::{Rows, outcome};

/// The borders of the codes, and the rows of each.
#[derive(Debug)]
pub(super) struct Codes {
    borders: Vec<f32>,      // a code lies below its border, and above the one before
    of_row: Vec<u8>,        // [rows] the code of the bar behind it; NONE where none is usable
    members: Vec<Vec<u32>>, // [codes] rows before such a bar
}

/// No usable bar lies behind a row.
pub(super) const NONE: u8 = u8::MAX;

impl Codes {
    /// Borders by the rows; moves that are alike have one code, so there may be fewer than [`CODES`].
    pub(super) fn new(rows: &Rows, before: &[u32]) -> Codes {
        let mut sorted: Vec<f32> = before.iter().map(|row| outcome(rows, *row) as f32).collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let mut borders: Vec<f32> = (1..CODES).map(|i| sorted[i * sorted.len() / CODES]).collect();
        borders.dedup();
        // Nothing lies below the least.
        borders.retain(|border| *border > sorted[0]);
        let mut codes = Codes { of_row: vec![NONE; rows.len()], members: vec![Vec::new(); borders.len() + 1], borders };
        for row in before {
            let code = codes.code(outcome(rows, *row) as f32);
            codes.of_row[*row as usize] = code as u8;
            codes.members[code].push(*row);
        }
        codes
    }

    /// The code of a move.
    fn code(&self, moved: f32) -> usize {
        self.borders.partition_point(|border| *border <= moved)
    }

    /// How many codes there are.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The code of the bar behind a row.
    pub(super) fn behind(&self, row: u32) -> Option<usize> {
        let code = *self.of_row.get(row as usize)?;
        (code != NONE).then_some(usize::from(code))
    }

    /// Rows before a bar of this code.
    pub(super) fn members(&self, code: usize) -> &[u32] {
        &self.members[code]
    }

    /// `[codes]` how frequent each is.
    pub(super) fn shares(&self) -> Vec<f64> {
        let all: usize = self.members.iter().map(Vec::len).sum();
        self.members.iter().map(|own| own.len() as f64 / all as f64).collect()
    }
}
