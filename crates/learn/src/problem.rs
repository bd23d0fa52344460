//! What there is to learn from, wherever it came from: tables, how a sample finds its rows in them, and the samples.
//!
//! A sample is an *id*. With bars an id is a row of the base table; with a ready array `[N, T, F]` it is `n`, and the
//! array is a table of `N · T` rows in which the window of sample `n` ends at row `n · T + T - 1`. Each input has a map
//! from ids to the last row of the window; none is needed where the id is that row. So there is one gather, and no
//! window is ever copied.

use crate::failed;
use compute::{Budget, Device, Opened, Table, Tables};
use features::Samples;
use files::Result;
use std::sync::{Arc, Mutex, PoisonError};

/// One input of the net: a table, how many rows of it a sample brings, and where they end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// `fast`, `slow`, `strategy`: names its branch.
    pub name: String,
    /// `[F]` what the columns are; numbers where nobody named them.
    pub columns: Vec<String>,
    /// Numbers from one row to the next: F rounded up to a multiple of 4.
    pub stride: usize,
    /// `[rows, stride]`, padding 0. Rows that no sample's window touches may hold anything, NaN too.
    pub values: Vec<f32>,
    /// `[ids]` the last row of each id's window; none: the id itself. Ids of no sample map to row 0.
    pub map: Option<Vec<u32>>,
    /// Rows of a window whose data is made for it; 0: any, the net decides.
    pub window: usize,
}

impl Input {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.stride).unwrap_or(0)
    }
}

/// What there is to learn from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Problem {
    /// What a sample brings, in the order of the net's inputs.
    pub inputs: Vec<Input>,
    /// How many ids there are.
    pub ids: usize,
    /// Classes of the labels, 2 or 3: down and up, or down, flat and up.
    pub classes: usize,
    /// `rows` are ids; in the order of time.
    pub samples: Samples,
    /// Names the data it was made of, by the hash of all that was read; what is fitted on it carries the name.
    pub data: String,
    /// Its tables on the device that was asked for last.
    pub resident: Resident,
}

impl Problem {
    /// The tables on a device: brought there once, and shared by everything that reads them. The inputs must not be
    /// changed after that; a clone has tables of its own.
    pub fn tables(&self, device: &Opened, budget: Budget) -> Result<Arc<Tables>> {
        let mut resident = self.resident.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tables) = resident.as_ref().filter(|tables| same(tables.device(), device.device())) {
            return Ok(tables.clone());
        }
        *resident = None;
        let (tables, maps) = self.rows();
        let made = Tables::new(device, budget, &tables, &maps).map_err(failed)?;
        *resident = Some(made.clone());
        Ok(made)
    }

    /// Bytes that the tables take on a device.
    pub fn tables_need(&self, device: &Opened) -> u64 {
        let (tables, maps) = self.rows();
        Tables::need(device, &tables, &maps)
    }

    /// Bytes of a device that are free but for these tables.
    pub fn free(&self, device: &Opened) -> Result<u64> {
        let resident = self.resident.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = resident.as_ref().filter(|tables| same(tables.device(), device.device())).map_or(0, |t| t.bytes());
        Ok(device.free().map_err(failed)? + own)
    }

    fn rows(&self) -> (Vec<Table<'_>>, Vec<Option<&[u32]>>) {
        let tables = self.inputs.iter().map(|i| Table { values: &i.values, stride: i.stride }).collect();
        (tables, self.inputs.iter().map(|i| i.map.as_deref()).collect())
    }
}

/// Threads do not matter to where a table lies.
fn same(a: Device, b: Device) -> bool {
    a == b || matches!((a, b), (Device::Cpu { .. }, Device::Cpu { .. }))
}

/// Where a problem keeps its tables once they are on a device. A clone has none yet, and all are equal.
#[derive(Debug, Default)]
pub struct Resident(Mutex<Option<Arc<Tables>>>);

impl Clone for Resident {
    fn clone(&self) -> Resident {
        Resident::default()
    }
}

impl PartialEq for Resident {
    fn eq(&self, _: &Resident) -> bool {
        true
    }
}
