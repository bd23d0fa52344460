//! What the LSTM layers before a net need of it: its arrays, and the gradient at what it reads.

use super::Nets;
use crate::cuda::array::Array;
use crate::cuda::context::Context;
use crate::cuda::memory::Slice;
use crate::tables::Tables;
use std::sync::Arc;

impl Nets {
    pub(in crate::cuda) fn context(&self) -> &Arc<Context> {
        &self.engine.context
    }

    pub(in crate::cuda) fn tables(&self) -> &Arc<Tables> {
        &self.engine.tables
    }

    /// `[P, params]` the gradient of a way back, for others to write their part of it.
    pub(in crate::cuda) fn gradient(&self) -> Slice<f32> {
        self.engine.at.gradient
    }

    /// `[P, rows, stride]` the gradient at all inputs side by side after a way back, each in columns from a multiple of
    /// 8 on; and the stride. There is one where the layout passes gradients back to them.
    pub(in crate::cuda) fn input_gradient(&self) -> (Array<f32>, usize) {
        let e = &self.engine;
        let inputs = e.net.inputs.len();
        let buffer = if inputs == 1 { 0 } else { inputs };
        let stride = e.layout.buffers[buffer].stride;
        // In bf16 several readers add to it in f32.
        let held: Slice<f32> = match (&e.at.shadow, e.layout.zeroed == Some(buffer)) {
            (None, _) => e.at.deltas[buffer].cast(),
            (Some(_), true) => e.at.wide_concat,
            (Some(_), false) => e.at.wide,
        };
        (e.slab.share(&held.part(0, e.members * e.recipe.batch * stride)), stride)
    }
}
