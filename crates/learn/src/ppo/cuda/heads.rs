//! The heads of two towers in one kernel (`ppo_heads.cu`): outputs, losses and gradients of a minibatch.

use super::super::training::Group;
use super::arguments::{Choose, HeadLosses, HeadPlace, LossArgs};
use super::arrays::{Sizes, counted};
use compute::cuda::{Context, Grid, Image, Kernel, Module, Stream};
use compute::nets::{HeadOnCard, head_slice};
use compute::population::Precision;
use compute::{Error, Net, Result, image};
use std::sync::Arc;

static PPO_HEADS: Image = image!("ppo_heads");

/// Columns of a head's input that a warp has at once, and how many times, as the kernels are made for.
const COLUMNS: usize = 256;
const CHUNKS: [usize; 3] = [1, 2, 4];

/// Rows of a slice of the losses, where these kernels serve: a policy's head and a value's, each behind a tower.
pub(super) fn slice(net: &Net, precision: Precision, batch: usize) -> Option<usize> {
    let [policy, value] = net.heads.as_slice() else { return None };
    let outputs = policy.classes <= 3 && value.classes == 1;
    let apart = matches!(net.towers.as_slice(), [first, second] if first.heads == 1 && second.heads == 1);
    head_slice(net, precision, batch).filter(|_| outputs && apart && !net.has_memory())
}

/// The kernel and what it takes.
pub(super) struct Heads {
    kernel: Kernel<HeadLosses>,
    grid: Grid,
    given: Box<HeadLosses>,
}

impl Heads {
    /// The heads of the nets that learn, where the kernel serves them.
    pub(super) fn new(
        context: &Arc<Context>,
        group: &mut Group,
        sizes: &Sizes,
        (rows, loss): (&Choose, &LossArgs),
    ) -> Result<Option<Heads>> {
        let Some(slice) = slice(&group.net, group.precision, sizes.batch) else { return Ok(None) };
        let none = || Error::Invalid("the nets that learn keep their heads".into());
        let heads = group.nets.heads_on_card()?.ok_or_else(none)?;
        let widest = heads.iter().map(|head| head.inputs).max().unwrap_or(0);
        let chunks = CHUNKS.into_iter().find(|chunks| widest <= chunks * COLUMNS).ok_or_else(none)?;
        let place = |head: &HeadOnCard| -> Result<HeadPlace> {
            Ok(HeadPlace {
                input: head.input.clone(),
                d_input: head.d_input.clone(),
                gradient: head.gradient.clone(),
                input_sums: head.input_sums.clone(),
                sums: head.sums.clone(),
                inputs: counted(head.inputs)?,
                outputs: counted(head.outputs)?,
                weight: counted(head.weight)?,
                bias: counted(head.bias)?,
                act: head.activation as u32,
            })
        };
        let [policy, value] = heads.as_slice() else { return Err(none()) };
        let given = HeadLosses {
            members: loss.members.clone(),
            seen: loss.seen.clone(),
            clock: loss.clock.clone(),
            places: rows.places.clone(),
            centre: loss.centre.clone(),
            z: loss.z.clone(),
            value: loss.value.clone(),
            d_z: loss.d_z.clone(),
            d_value: loss.d_value.clone(),
            partial: loss.partial.clone(),
            master: group.nets.params_on_card()?,
            copy: group.nets.copies_on_card()?.ok_or_else(none)?,
            heads: [place(policy)?, place(value)?],
            params: group.nets.layout().params as u64,
            per_epoch: loss.per_epoch,
            slice: counted(slice)?,
        };
        let kernel = Module::load(context, &PPO_HEADS)?.kernel(&format!("head_losses_{chunks}"))?;
        let blocks = [counted(sizes.batch.div_ceil(slice))?, counted(sizes.p)?, 2];
        Ok(Some(Heads { kernel, grid: Grid { blocks, threads: [256, 1, 1], shared: 0 }, given: Box::new(given) }))
    }

    pub(super) fn launch(&self, stream: &Stream) -> Result<()> {
        self.kernel.launch(stream, self.grid, &self.given)
    }
}
