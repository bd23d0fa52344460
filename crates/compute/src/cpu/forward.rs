//! Forward passes of one net on one thread: for rollouts that run whole in one call, with anybody's parameters.
//!
//! Everything it works with is taken once; after that nothing is allocated, but for a row of rounded parameters in bf16
//! where they are given as they are for the first time. One [`Forward`] belongs to one thread;
//! [`Packed`] parameters are read by any number of them.

use super::block::{self, Weights};
use super::buffers::Buffers;
use super::data::Source;
use super::memory::Floats;
use super::plan::Plan;
use super::recurrent::{Sequence, floats, pack};
use super::slot::{held, hold};
use super::tile;
use crate::error::{Error, Result};
use crate::net::{Layout, Net};
use crate::population::check::no_memory;
use crate::population::{Pace, Precision, Recipe, Scale};
use crate::tables::Tables;

/// A net's layout and the memory for a forward pass of some rows.
#[derive(Debug)]
pub struct Forward {
    plan: Plan,
    values: Buffers,
    sequences: Vec<Sequence>,
    rounded: Floats, // none before they are needed
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

/// Parameters as passes of few rows read them: worth it where many passes follow.
#[derive(Debug)]
pub struct Packed {
    params: Floats, // as they are held
    recurrent: Floats,
    strips: Floats,
}

/// A net with parameters.
#[derive(Debug)]
pub struct Ready<'a> {
    with: &'a mut Forward,
    params: Params<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Params<'a> {
    Rows(&'a [f32]),
    Packed(&'a Packed),
}

impl Forward {
    /// Memory for at most so many rows at once.
    ///
    /// # Errors
    ///
    /// Where the net is none, or the memory is not enough.
    pub fn new(net: &Net, precision: Precision, rows: usize) -> Result<Forward> {
        if net.has_memory() {
            return Err(Error::Invalid(no_memory(net)));
        }
        let (plan, rows) = (Forward::plan(net, precision)?, rows.max(1));
        Ok(Forward {
            values: Buffers::new(&plan, rows)?,
            sequences: Sequence::all(&plan)?,
            rounded: Floats::default(),
            packed: Floats::new(plan.all_packed())?,
            ids: vec![0; rows],
            rows,
            plan,
        })
    }

    /// Bytes that such memory takes for passes with [`Packed`] parameters.
    ///
    /// # Errors
    ///
    /// Where the net is none.
    pub fn need(net: &Net, precision: Precision, rows: usize) -> Result<u64> {
        let (plan, rows) = (Forward::plan(net, precision)?, rows.max(1));
        Ok(4 * (rows * plan.columns() + floats(&plan) + plan.all_packed() + rows) as u64)
    }

    fn plan(net: &Net, precision: Precision) -> Result<Plan> {
        Ok(Plan::new(net, &Layout::new(net)?, &Recipe::new(1, precision, 0), Pace::default()))
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
    /// Where they are not as many as the net has, or the memory is not enough.
    pub fn with<'a>(&'a mut self, params: &'a [f32]) -> Result<Ready<'a>> {
        self.fits(params)?;
        if self.plan.round {
            if self.rounded.is_empty() {
                self.rounded = Floats::new(params.len())?;
            }
            hold(&self.plan, 0, params, &mut self.rounded);
        }
        pack::pack(&self.plan, held(params, &self.rounded, &[]).params, &mut self.packed);
        Ok(Ready { with: self, params: Params::Rows(params) })
    }

    /// Parameters for many passes, of this and of any other [`Forward`] of the same net and precision.
    ///
    /// # Errors
    ///
    /// Where they are not as many as the net has, or the memory is not enough.
    pub fn pack(&self, params: &[f32]) -> Result<Packed> {
        self.fits(params)?;
        let (plan, wanted) = (&self.plan, params.len());
        let (mut own, mut recurrent) = (Floats::new(wanted)?, Floats::new(plan.all_packed())?);
        if plan.round {
            hold(plan, 0, params, &mut own);
        } else {
            own.copy_from_slice(params);
        }
        pack::pack(plan, &own, &mut recurrent);
        let mut strips = Floats::new(wanted)?;
        for linear in &plan.layout.linears {
            let range = linear.weight..linear.weight + linear.output.width * linear.input.width;
            let (wide, tall) = (linear.output.width, linear.input.width);
            tile::strips(wide, tall, &own[range.clone()], &mut strips[range], plan.round);
        }
        Ok(Packed { params: own, recurrent, strips })
    }

    /// The net with packed parameters.
    ///
    /// # Errors
    ///
    /// Where they are those of another net.
    pub fn with_packed<'a>(&'a mut self, packed: &'a Packed) -> Result<Ready<'a>> {
        self.fits(&packed.params)?;
        Ok(Ready { with: self, params: Params::Packed(packed) })
    }

    fn fits(&self, params: &[f32]) -> Result<()> {
        let wanted = self.plan.layout.params;
        if params.len() != wanted {
            return Err(Error::Invalid(format!("{} parameters for a net that has {wanted}", params.len())));
        }
        Ok(())
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
        let weights = match self.params {
            Params::Rows(params) => held(params, rounded, packed),
            Params::Packed(own) => Weights { params: &own.params, packed: &own.recurrent, strips: &own.strips },
        };
        block::forward(plan, source, weights, ids, &mut values, sequences, None);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is counted is what is taken; rounded parameters are taken where they are given unpacked.
    #[test]
    fn memory_is_as_counted() {
        for text in ["row:5 + more:dense3 / 40t-8 | 24t / policy:3 | value:1", "row:4x6-lstm16 / 8 / direction:3"] {
            let net: Net = text.parse().unwrap();
            for precision in [Precision::F32, Precision::Bf16] {
                let mut forward = Forward::new(&net, precision, 33).unwrap();
                let taken = |own: &Forward| {
                    let numbers = own.values.len() + floats(&own.plan) + own.packed.len() + own.ids.len();
                    (4 * numbers as u64, own.rounded.len())
                };
                let params = vec![0.5; forward.layout().params];
                let packed = forward.pack(&params).unwrap();
                forward.with_packed(&packed).unwrap();
                assert_eq!(taken(&forward), (Forward::need(&net, precision, 33).unwrap(), 0), "{text} {precision:?}");
                forward.with(&params).unwrap();
                assert_eq!(taken(&forward).1, if precision == Precision::Bf16 { params.len() } else { 0 }, "{text}");
            }
        }
    }
}
