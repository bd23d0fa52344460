//! Market models on a card, one behind the other: rows, what was observed at them, and the cells that they lie in.
//!
//! A model is its first row and how many there are. Kernels reach rows through one function, which clamps a row behind
//! the last and notes it.

use super::super::arguments::{Models, Probe};
use super::super::{BORDER, counted, put};
use super::HONEST;
use crate::bootstrap::{Bootstrap, COLUMNS, Cells, no_row_left, reached_behind};
use account::{Bar, ln_1p};
use compute::cuda::{Context, Grid, Kernel, Module, Stream};
use compute::{Error, Result};
use std::sync::Arc;

/// As `honest.cuh` has it: no row may be drawn.
const NONE_LEFT: u32 = 2;

/// A model, and what the values of its nets are counted in.
#[derive(Debug, Clone, Copy)]
pub struct HonestModel<'a> {
    /// What may come.
    pub model: &'a Bootstrap,
    /// A net's value is multiplied by it.
    pub unit: f32,
}

/// Models on a card; any number of searches share them.
pub struct HonestModels {
    pub(super) context: Arc<Context>,
    pub(super) models: Models,
    /// `[models]` where observations of roots lie.
    pub(super) cells: Vec<Cells>,
    /// `[models]`
    pub(super) rows: Vec<usize>,
    bytes: u64,
}

impl HonestModels {
    /// Bytes of a model of so many rows and features on a card, about.
    pub fn need(rows: usize, features: usize) -> u64 {
        (rows * (4 * features + 8 * Bar::NUMBERS + 4 * (2 + 1 + COLUMNS + 1))) as u64
    }

    /// Puts models on a card.
    ///
    /// # Errors
    ///
    /// Where there is none, their observations differ in length, or the memory is not enough.
    pub fn new(context: &Arc<Context>, all: &[HonestModel<'_>]) -> Result<HonestModels> {
        let Some(first) = all.first() else { return Err(Error::Invalid("no model; give at least one".into())) };
        let features = first.model.rows().features();
        let (mut words, mut bars, mut observations, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut clocks, mut keys, mut members, mut starts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for HonestModel { model, unit } in all {
            let (rows, cells) = (model.rows(), model.cells());
            if rows.features() != features {
                return Err(Error::Invalid(format!(
                    "models of {features} and of {} features; all of a search have as many",
                    rows.features()
                )));
            }
            let ends = [clocks.len(), rows.len(), members.len(), cells.members().len(), starts.len(), cells.columns()];
            for word in ends {
                words.push(counted(word)?);
            }
            words.extend([unit.to_bits(), 0]);
            for row in rows.all() {
                bars.extend(row.bar.numbers());
                times.extend([row.time[0], logarithm(row.time[1])]);
                clocks.push(row.clock);
            }
            observations.extend_from_slice(rows.observations());
            keys.extend(rows.observations().chunks_exact(features).flat_map(|row| cells.key(row)));
            members.extend_from_slice(cells.members());
            starts.extend_from_slice(cells.starts());
        }
        let words_of_four = words.len()
            + observations.len()
            + times.len()
            + clocks.len()
            + keys.len()
            + members.len()
            + starts.len()
            + 1;
        let bytes = 4 * words_of_four as u64 + 8 * bars.len() as u64 + 12 * BORDER;
        let mut slab = context.slab(bytes)?;
        let stream = Stream::new(context)?;
        let models = Models {
            models: put(&mut slab, &stream, &words)?,
            bars: put(&mut slab, &stream, &bars)?,
            observations: put(&mut slab, &stream, &observations)?,
            times: put(&mut slab, &stream, &times)?,
            clocks: put(&mut slab, &stream, &clocks)?,
            keys: put(&mut slab, &stream, &keys)?,
            members: put(&mut slab, &stream, &members)?,
            starts: put(&mut slab, &stream, &starts)?,
            reached: put(&mut slab, &stream, &[0u32])?,
            features: features as u32,
        };
        Ok(HonestModels {
            context: Arc::clone(context),
            models,
            cells: all.iter().map(|own| own.model.cells().clone()).collect(),
            rows: all.iter().map(|own| own.model.rows().len()).collect(),
            bytes,
        })
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The clock time that a kernel gets for a row of a model: of one behind the last that of the last, and then every
    /// search on these models is an error. For tests.
    ///
    /// # Errors
    ///
    /// Where there is no such model, or the card fails.
    pub fn probe(&self, model: usize, row: u32) -> Result<u32> {
        if model >= self.rows.len() {
            return Err(Error::Invalid(format!("model {model}; there are {}", self.rows.len())));
        }
        let stream = Stream::new(&self.context)?;
        let to = put(&mut self.context.slab(BORDER)?, &stream, &[0u32])?;
        let given = Probe { models: self.models.clone(), to: to.clone(), model: model as u32, row };
        let kernel: Kernel<Probe> = Module::load(&self.context, &HONEST)?.kernel("probe_row")?;
        kernel.launch(&stream, Grid::row(1, 1), &given)?;
        Ok(to.get(&stream)?[0])
    }

    /// Refuses what was found with a row behind the end of a model's training, or without one that may be drawn.
    pub(super) fn refuse_reached(&self, stream: &Stream) -> Result<()> {
        match self.models.reached.get(stream)?[0] {
            0 => Ok(()),
            NONE_LEFT => Err(no_row_left()),
            _ => Err(reached_behind()),
        }
    }
}

/// ln(1 + bars) to a forced close.
pub(super) fn logarithm(bars: f32) -> f32 {
    ln_1p(f64::from(bars)) as f32
}
