//! What there is to learn from, wherever it came from: tables, how a sample finds its rows in them, and the samples.
//!
//! A sample is an *id*. With bars an id is a row of the base table; with a ready array `[N, T, F]` it is `n`, and the
//! array is a table of `N · T` rows in which the window of sample `n` ends at row `n · T + T - 1`. Each input has a map
//! from ids to the last row of the window; none is needed where the id is that row. So there is one gather, and no
//! window is ever copied.

use crate::failed;
use compute::{Budget, Device, Opened, Table, Tables};
use features::{Input, Samples, class};
use files::Result;
use std::sync::{Arc, Mutex, PoisonError};

/// What there is to learn from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Problem {
    /// What a sample reads, in the order of the net's inputs.
    pub inputs: Vec<Input>,
    /// Number of ids.
    pub ids: usize,
    /// Classes of the labels, 2 or 3: down and up, or down, flat and up; 0 where samples have no class.
    pub classes: usize,
    /// `rows` are ids; in the order of time.
    pub samples: Samples,
    /// Names the data it was made of, by the hash of all that was read; what is fitted on it carries the name.
    pub data: String,
    /// Its tables on the device that was asked for last.
    pub resident: Resident,
}

impl Problem {
    /// The class of a sample, by its position; see [`class`].
    pub fn class_index(&self, at: u32) -> u8 {
        class::index(self.samples.class[at as usize], self.classes)
    }

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
