//! The kernels of `population/nets.cu` as functions: the structs that they take, and their grids. What they do, and
//! what a field is, is said there.

use crate::arguments;
use crate::cuda::arguments::{Address, Arguments};
use crate::cuda::array::Array;
use crate::cuda::context::Context;
use crate::cuda::engine::Mode;
use crate::cuda::graph::Stream;
use crate::cuda::kernels;
use crate::cuda::memory::{Slice, aligned};
use crate::cuda::module::{Grid, Kernel, Module};
use crate::error::{Error, Result};
use crate::nets::Hyper;
use crate::population::SlotState;
use std::sync::Arc;

arguments! {
    /// Members' hyper-parameters in a card's memory, `[P]` each. A step reads them when it runs: whoever changes them
    /// between two launches of a graph changes what the second one does.
    #[derive(Clone)]
    pub struct Hypers in "../../../population/nets.cu" {
        /// Learning rates.
        pub rate: Array<f32>,
        /// Memories of the mean.
        pub beta1: Array<f32>,
        /// Memories of the square.
        pub beta2: Array<f32>,
        /// What is added to the root.
        pub eps: Array<f32>,
        /// Weight decays.
        pub decay: Array<f32>,
        /// The largest global norms; 0: any.
        pub clip: Array<f32>,
        /// What gradients are divided by first.
        pub weight: Array<f64>,
    }
}

impl Hypers {
    pub(super) fn new(context: &Arc<Context>, members: usize) -> Result<Hypers> {
        let mut slab = context.slab(6 * aligned::<f32>(members) + aligned::<f64>(members))?;
        Ok(Hypers {
            rate: slab.array(members)?,
            beta1: slab.array(members)?,
            beta2: slab.array(members)?,
            eps: slab.array(members)?,
            decay: slab.array(members)?,
            clip: slab.array(members)?,
            weight: slab.array(members)?,
        })
    }

    /// Replaces them all, in order with what is on the stream, and waits.
    ///
    /// # Errors
    ///
    /// Where there are not as many as members, or one makes no sense.
    pub fn put(&self, stream: &Stream, each: &[Hyper]) -> Result<()> {
        if each.len() != self.rate.len() {
            let (got, members) = (each.len(), self.rate.len());
            return Err(Error::Invalid(format!("{got} hyper-parameters for {members} members; give one for each")));
        }
        each.iter().enumerate().try_for_each(|(i, hyper)| hyper.check(i))?;
        let put =
            |to: &Array<f32>, field: fn(&Hyper) -> f32| to.put(stream, &each.iter().map(field).collect::<Vec<_>>());
        put(&self.rate, |h| h.rate)?;
        put(&self.beta1, |h| h.beta1)?;
        put(&self.beta2, |h| h.beta2)?;
        put(&self.eps, |h| h.eps)?;
        put(&self.decay, |h| h.decay)?;
        put(&self.clip, |h| h.clip.unwrap_or(0.0))?;
        self.weight.put(stream, &each.iter().map(|h| h.weight).collect::<Vec<_>>())
    }

    pub(super) fn members(&self) -> usize {
        let short = [&self.rate, &self.beta1, &self.beta2, &self.eps, &self.decay, &self.clip].map(Array::len);
        short.into_iter().chain([self.weight.len()]).min().unwrap_or(0)
    }
}

arguments! {
    pub(super) struct TakeIdsArgs in "../../../population/nets.cu" {
        pub(super) ids: Option<Array<u32>>,
        pub(super) windows: Slice<u64>,
        pub(super) rows: Slice<u32>,
        pub(super) live: Slice<f32>,
        pub(super) wrong: Slice<u64>,
        pub(super) tables: u32,
        pub(super) count: u32,
        pub(super) instead: u32,
        pub(super) all: u32,
        pub(super) begin: u32,
        pub(super) batch: u32,
    }
}

arguments! {
    /// One input of `take_rows`.
    #[derive(Clone, Copy, Default)]
    pub(super) struct RowsOfInput in "../../../population/nets.cu" {
        pub(super) table: Address,
        pub(super) map: Address,
        pub(super) mean: Address,
        pub(super) inverse: Address,
        pub(super) stride: u64,
        pub(super) features: u32,
        pub(super) column: u32,
        pub(super) at: u32,
        pub(super) padded: u32,
    }
}

arguments! {
    pub(super) struct TakeRowsArgs in "../../../population/nets.cu" {
        pub(super) ids: Option<Array<u32>>,
        pub(super) extras: Option<Array<f32>>,
        pub(super) wrong: Slice<u64>,
        pub(super) to: Address,
        pub(super) to_stride: u64,
        pub(super) inputs: [RowsOfInput; 4],
        pub(super) count: u32,
        pub(super) known: u32,
        pub(super) instead: u32,
        pub(super) wide: u32,
        pub(super) all: u32,
        pub(super) begin: u32,
        pub(super) batch: u32,
    }
}

arguments! {
    /// The bias of one layer in `sum_biases`.
    #[derive(Clone, Copy, Default)]
    pub(in crate::cuda::engine) struct BiasSum in "../../../population/nets.cu" {
        pub(in crate::cuda::engine) partial: Address,
        pub(in crate::cuda::engine) out: Address,
        pub(in crate::cuda::engine) n: u32,
        pub(in crate::cuda::engine) blocks: u32,
    }
}

arguments! {
    struct SumBiasesArgs in "../../../population/nets.cu" {
        states: Slice<SlotState>,
        layers: [BiasSum; LAYERS],
        mode: u32,
    }
}

/// Layers of one launch of `sum_biases`, as in the kernel.
const LAYERS: usize = 16;

/// The kernel that adds up the gradients of many biases.
pub(in crate::cuda::engine) struct BiasSums(Kernel<SumBiasesArgs>);

impl BiasSums {
    pub(in crate::cuda::engine) fn load(context: &Arc<Context>) -> Result<BiasSums> {
        Ok(BiasSums(Module::load(context, &kernels::NETS)?.typed("sum_biases")?))
    }

    /// The biases of one slot's layers.
    pub(in crate::cuda::engine) fn add(
        &self,
        stream: &Stream,
        state: Slice<SlotState>,
        each: &[BiasSum],
    ) -> Result<()> {
        for some in each.chunks(LAYERS) {
            let mut layers = [BiasSum::default(); LAYERS];
            layers[..some.len()].copy_from_slice(some);
            let widest = some.iter().map(|layer| layer.n as usize).max().unwrap_or(0);
            let args = SumBiasesArgs { states: state, layers, mode: Mode::Step as u32 };
            // SAFETY: the addresses are of the engine's slab, laid out for these shapes.
            unsafe { self.0.send(stream, [widest.div_ceil(32), some.len(), 1], 256, 0, &args)? };
        }
        Ok(())
    }
}

arguments! {
    pub(super) struct TakeExtrasArgs in "../../../population/nets.cu" {
        pub(super) extras: Array<f32>,
        pub(super) to: Slice<f32>,
        pub(super) wide: u32,
        pub(super) column: u32,
        pub(super) features: u32,
        pub(super) stride: u32,
        pub(super) all: u32,
        pub(super) begin: u32,
        pub(super) batch: u32,
    }
}

arguments! {
    pub(super) struct GiveOutputsArgs in "../../../population/nets.cu" {
        pub(super) z: Slice<f32>,
        pub(super) bias: Address,
        pub(super) bias_member: u64,
        pub(super) out: Array<f32>,
        pub(super) outputs: u32,
        pub(super) width: u32,
        pub(super) all: u32,
        pub(super) begin: u32,
        pub(super) batch: u32,
    }
}

arguments! {
    pub(super) struct TakeGradientsArgs in "../../../population/nets.cu" {
        pub(super) from: Array<f32>,
        pub(super) to: Address,
        pub(super) outputs: u32,
        pub(super) width: u32,
        pub(super) all: u32,
        pub(super) batch: u32,
    }
}

arguments! {
    pub(super) struct EndStepArgs in "../../../population/nets.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) grads: Slice<f32>,
        pub(super) params: u64,
        pub(super) parts: Option<Array<f32>>,
        pub(super) mask: Option<Array<u32>>,
        pub(super) norms: Option<Array<f32>>,
        pub(super) each: Hypers,
        pub(super) norm_partial: Slice<f64>,
        pub(super) arrived: Slice<u32>,
        pub(super) orders: Address,
        pub(super) count: u32,
        pub(super) rule: u32,
        pub(super) rounds: u32,
    }
}

arguments! {
    pub(super) struct OptimiseEachArgs in "../../../population/nets.cu" {
        pub(super) params: u64,
        pub(super) orders: Address,
        pub(super) grads: Slice<f32>,
        pub(super) master: Slice<f32>,
        pub(super) mean: Slice<f32>,
        pub(super) square: Slice<f32>,
        pub(super) copy: Option<Slice<u16>>,
        pub(super) average: Option<Slice<f32>>,
        pub(super) each: Hypers,
        pub(super) rule: u32,
    }
}

arguments! {
    pub(super) struct AdoptArgs in "../../../population/nets.cu" {
        pub(super) states: Slice<SlotState>,
        pub(super) master: Slice<f32>,
        pub(super) mean: Option<Slice<f32>>,
        pub(super) square: Option<Slice<f32>>,
        pub(super) copy: Option<Slice<u16>>,
        pub(super) params: u64,
        pub(super) from: u32,
        pub(super) to: u32,
    }
}

/// The kernels, for bf16 or for f32.
pub(super) struct Calls {
    pub(super) take_ids: Kernel<TakeIdsArgs>,
    pub(super) take_rows: Kernel<TakeRowsArgs>,
    pub(super) take_extras: Kernel<TakeExtrasArgs>,
    pub(super) give_outputs: Kernel<GiveOutputsArgs>,
    pub(super) take_gradients: Kernel<TakeGradientsArgs>,
    pub(super) end_step: Kernel<EndStepArgs>,
    pub(super) optimise_each: Kernel<OptimiseEachArgs>,
    pub(super) adopt: Kernel<AdoptArgs>,
}

impl Calls {
    pub(super) fn load(context: &Arc<Context>, bf16: bool) -> Result<Calls> {
        let module = Module::load(context, &kernels::NETS)?;
        Ok(Calls {
            take_ids: module.typed("take_ids")?,
            take_rows: module.typed(if bf16 { "take_rows_bf16" } else { "take_rows_f32" })?,
            take_extras: module.typed("take_extras")?,
            give_outputs: module.typed("give_outputs")?,
            take_gradients: module.typed(if bf16 { "take_gradients_bf16" } else { "take_gradients_f32" })?,
            end_step: module.typed("end_step")?,
            optimise_each: module.typed("optimise_each")?,
            adopt: module.typed("adopt")?,
        })
    }
}

/// Launches a kernel over so many elements of each member, `per_block` in a block of 256 threads.
pub(super) fn each<A: Arguments>(
    kernel: &Kernel<A>,
    stream: &Stream,
    (elements, per_block): (usize, usize),
    members: usize,
    arguments: &A,
) -> Result<()> {
    let blocks = u32::try_from(elements.div_ceil(per_block)).unwrap_or(u32::MAX);
    let grid =
        Grid { blocks: [blocks, u32::try_from(members).unwrap_or(u32::MAX), 1], threads: [256, 1, 1], shared: 0 };
    kernel.launch(stream, grid, arguments)
}
