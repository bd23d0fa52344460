//! Forward passes of one net on one thread: for rollouts that run whole in one call, with anybody's parameters.
//!
//! Everything it works with is taken once; after that nothing is allocated but what `gemm` packs layers above 512 units
//! into. One [`Forward`] belongs to one thread.

use super::block;
use super::buffers::Buffers;
use super::data::Source;
use super::memory::Floats;
use super::plan::Plan;
use super::recurrent::{Sequence, pack};
use super::slot::{held, hold};
use crate::error::{Error, Result};
use crate::net::{Layout, Net};
use crate::population::{Pace, Precision, Recipe, Scale};
use crate::tables::Tables;

/// A net's layout and the memory for a forward pass of some rows.
#[derive(Debug)]
pub struct Forward {
    plan: Plan,
    values: Buffers,
    sequences: Vec<Sequence>,
    rounded: Floats,
    packed: Floats,
    ids: Vec<u32>, // [rows] zeros, where no table is read
    rows: usize,
}

/// Rows that go through a net.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// In the processor's memory.
    pub tables: &'a Tables,
    /// `[inputs]` how each input is scaled; empty leaves all as they are.
    pub scales: &'a [Option<Scale>],
    /// `[rows]` ids of the tables; empty where no input reads one.
    pub ids: &'a [u32],
    /// `[rows, extras]` the numbers of dense inputs, in the net's order; empty where there is none.
    pub extras: &'a [f32],
}

/// A net with parameters.
#[derive(Debug)]
pub struct Ready<'a> {
    with: &'a mut Forward,
    params: &'a [f32],
}

impl Forward {
    /// Memory for at most so many rows at once.
    ///
    /// # Errors
    ///
    /// Where the net is none, or the memory is not enough.
    pub fn new(net: &Net, precision: Precision, rows: usize) -> Result<Forward> {
        let layout = Layout::new(net)?;
        let rows = rows.max(1);
        let plan = Plan::new(net, &layout, &Recipe::new(1, precision, 0), Pace::default());
        Ok(Forward {
            values: Buffers::new(&plan, rows)?,
            sequences: Sequence::all(&plan)?,
            rounded: Floats::new(if plan.round { layout.params } else { 0 })?,
            packed: Floats::new(plan.all_packed())?,
            ids: vec![0; rows],
            rows,
            plan,
        })
    }

    /// Where the net's parameters lie in a row.
    pub fn layout(&self) -> &Layout {
        &self.plan.layout
    }

    /// Numbers of a row of outputs, all heads one behind the other.
    pub fn outputs(&self) -> usize {
        self.plan.net.heads.iter().map(|h| h.classes).sum()
    }

    /// The net with these parameters, `[params]` as the layout says: an individual's, or a row of the arena. In bf16
    /// they are rounded here, and those of recurrent layers packed; otherwise they are read where they are.
    ///
    /// # Errors
    ///
    /// Where they are not as many as the net has.
    pub fn with<'a>(&'a mut self, params: &'a [f32]) -> Result<Ready<'a>> {
        let wanted = self.plan.layout.params;
        if params.len() != wanted {
            return Err(Error::Invalid(format!("{} parameters for a net that has {wanted}", params.len())));
        }
        if self.plan.round {
            hold(&self.plan, 0, params, &mut self.rounded);
        }
        pack::pack(&self.plan, held(params, &self.rounded, &[]).params, &mut self.packed);
        Ok(Ready { with: self, params })
    }
}

impl Ready<'_> {
    /// `[rows, outputs]` the outputs of some rows, the heads of a row one behind the other.
    ///
    /// # Errors
    ///
    /// Where the rows are too many, are not there, or do not fit `out`.
    pub fn run(&mut self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        let Forward { plan, values, sequences, rounded, packed, ids, rows: most } = &mut *self.with;
        let (wide, each) = (plan.net.heads.iter().map(|h| h.classes).sum::<usize>(), plan.net.extras());
        let n = out.len() / wide;
        let tables = !rows.tables.is_empty();
        if n > *most || out.len() != n * wide || rows.extras.len() != n * each || (tables && rows.ids.len() != n) {
            return Err(Error::Invalid(format!(
                "{} ids, {} extras and {} outputs for rows of {each} extras and {wide} outputs, at most {most} rows",
                rows.ids.len(),
                rows.extras.len(),
                out.len()
            )));
        }
        if n == 0 {
            return Ok(());
        }
        rows.tables.serve(&plan.net)?;
        rows.tables.on_cpu()?;
        rows.tables.check(&plan.net, rows.ids, "these rows")?;
        let ids = if tables { rows.ids } else { &ids[..n] };
        let source = Source { tables: rows.tables, scales: rows.scales, extras: rows.extras };
        let mut values = values.first(n);
        block::forward(plan, source, held(self.params, rounded, packed), ids, &mut values, sequences, None);
        let mut at = 0;
        for head in &plan.layout.linears[plan.first_head()..] {
            let made = values.read(plan, head.output.buffer).chunks_exact(plan.stride(head.output.buffer));
            for (to, from) in out.chunks_exact_mut(wide).zip(made) {
                to[at..at + head.outputs].copy_from_slice(&from[..head.outputs]);
            }
            at += head.outputs;
        }
        Ok(())
    }
}
