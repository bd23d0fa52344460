//! What recurrent layers keep on the card from one step to the next, and from the way forward for the way back.

use crate::cuda::calls;
use crate::cuda::engine::setup::Cutter;
use crate::cuda::graph::Stream;
use crate::cuda::memory::Slice;
use crate::cuda::own;
use crate::error::Result;
use crate::net::{GATES, Layout, Recurrent};
use crate::population::{Precision, Recipe};

/// The arrays of all recurrent layers.
pub(in crate::cuda::engine) struct Arrays {
    pub(super) layers: Vec<Layer>,
    pub(super) bias_partial: Slice<f32>, // [P, blocks, units · 4] of one layer at a time; the side stream orders them
    pub(super) split: Slice<f32>,        // scratch of our own products
}

/// The arrays of one. T = window, U = units.
pub(super) struct Layer {
    pub(super) window: usize,
    pub(super) wide: usize,
    pub(super) units: usize,
    pub(super) xh: Slice<u8>, // [P, T, B, wide + U] f32 or bf16: x of a step and h of the one before
    pub(super) gates: Slice<f32>, // [P, T, B, U, 4] sums, then i, f, g, o
    pub(super) dz: Option<Slice<u8>>, // [P, T, B, U, 4] bf16; in f32 they take the place of the gates
    pub(super) cells: Slice<u8>, // [P, T, B, U] f32 or bf16: c as the way back sees it
    pub(super) outer: Slice<u8>, // [P, T, B, U] f32 or bf16: gradient at h from the layer above; empty for the top
    pub(super) carry: Slice<f32>, // [P, B, U] c on the way forward, its gradient on the way back
    pub(super) dh: Slice<f32>, // [P, B, U] the gradient at h from the step after
}

/// Cuts them, or counts them.
pub(in crate::cuda::engine) fn arrays(
    cut: &mut Cutter<'_>,
    layout: &Layout,
    recipe: &Recipe,
    members: usize,
) -> Result<Arrays> {
    let bf16 = recipe.precision == Precision::Bf16;
    let size = if bf16 { 2 } else { 4 };
    let one = |cut: &mut Cutter<'_>, r: &Recurrent| -> Result<Layer> {
        let (rows, all) = (members * recipe.batch, members * recipe.batch * r.window);
        Ok(Layer {
            window: r.window,
            wide: r.wide,
            units: r.units,
            xh: cut.cut(all * (r.wide + r.units) * size)?,
            gates: cut.cut(all * r.units * GATES)?,
            dz: bf16.then(|| cut.cut(all * r.units * GATES * size)).transpose()?,
            cells: cut.cut(all * r.units * size)?,
            outer: cut.cut(if r.output.is_none() { all * r.units * size } else { 0 })?,
            carry: cut.cut(rows * r.units)?,
            dh: cut.cut(rows * r.units)?,
        })
    };
    let most = |each: &dyn Fn(&Recurrent) -> usize| layout.recurrents.iter().map(each).max().unwrap_or(0);
    let sums = |r: &Recurrent| calls::blocks(r.window * recipe.batch) * r.units * GATES;
    let split = |r: &Recurrent| match own::slices(r.window * recipe.batch) {
        1 => 0,
        slices => slices * (r.wide + r.units) * r.units * GATES,
    };
    Ok(Arrays {
        layers: layout.recurrents.iter().map(|r| one(cut, r)).collect::<Result<_>>()?,
        bias_partial: cut.cut(members * most(&sums))?,
        split: cut.cut(members * most(&split))?,
    })
}

impl Arrays {
    /// Zeros everywhere: h before the first step, and what products of sleeping slots read.
    pub(in crate::cuda::engine) fn clear(&self, stream: &Stream) -> Result<()> {
        for layer in &self.layers {
            for slice in [&layer.xh, &layer.cells, &layer.outer].into_iter().chain(&layer.dz) {
                stream.fill(slice, 0)?;
            }
            for slice in [&layer.gates, &layer.carry, &layer.dh] {
                stream.fill(slice, 0)?;
            }
        }
        Ok(())
    }
}
