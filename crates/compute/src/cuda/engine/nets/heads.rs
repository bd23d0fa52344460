//! Heads that are the caller's: one kernel of somebody else makes outputs, losses and the gradients before the heads
//! from what the last hidden layers left, so that a step has one kernel there instead of a dozen.
//!
//! Bits are the caller's too: what this room adds is where everything lies, and the way on from there.

use super::calls::{self, RowsOfInput};
use super::{Nets, n, no_optimiser};
use crate::cuda::arguments::Address;
use crate::cuda::array::Array;
use crate::cuda::calls::{callers_blocks, callers_slice};
use crate::cuda::context::lock_driver;
use crate::cuda::engine::products::single;
use crate::cuda::engine::{KernelPath, Mode};
use crate::cuda::graph::{self, Stream};
use crate::error::{Error, Result};
use crate::net::{Activation, Layout, Net, PAD};
use crate::nets::OnCard;
use crate::population::Precision;

/// A head whose outputs a kernel of the caller's makes, and where that kernel reads and writes. B is
/// [`Setup::rows`](crate::nets::Setup), `blocks` the slices of [`head_slice`](crate::nets::head_slice) rows in it.
#[derive(Clone)]
pub struct HeadOnCard {
    /// `[P, B, inputs]` bf16: what the layer before it made.
    pub input: Array<u16>,
    /// `[P, B, inputs]` bf16, written: the gradient there, times the derivative of that layer's activation.
    pub d_input: Array<u16>,
    /// `[P, B, 8]` bf16, written: the gradient at the outputs, zeros behind them and behind the rows.
    pub gradient: Array<u16>,
    /// `[P, blocks, inputs]` written: sums of `d_input` over the rows of a slice.
    pub input_sums: Array<f32>,
    /// `[P, blocks, 8]` written: sums of `gradient`.
    pub sums: Array<f32>,
    /// Inputs with padding.
    pub inputs: usize,
    /// Outputs without padding.
    pub outputs: usize,
    /// Where its weights `[8, inputs]` and its bias begin in a row of the parameters.
    pub weight: usize,
    /// See `weight`.
    pub bias: usize,
    /// Of the layer before it.
    pub activation: Activation,
}

/// The widest input of a head that is a caller's.
const WIDEST: usize = 1024;

/// Rows up to which a kernel for the heads pays: with more, every kernel that it stands for fills the card, and on an
/// H200 an update with minibatches of 16,384 rows took 2 % longer.
const MOST_ROWS: usize = 8192;

/// Inputs that one kernel takes, at most; as `take_rows` has them.
const INPUTS: usize = 4;

/// Where the inputs of a net go, all of which are rows of tables or dense numbers.
pub(super) struct PlainInputs {
    buffer: usize,
    /// `[inputs]` first columns and columns with padding.
    places: Vec<(usize, usize)>,
}

/// Where inputs go, if nothing but rows of tables and dense numbers is read.
pub(super) fn plain_inputs(net: &Net, layout: &Layout) -> Option<PlainInputs> {
    let places: Vec<_> = layout.gathered(net).into_iter().collect::<Option<_>>()?;
    let buffer = places.first()?.buffer;
    let plain = net.inputs.iter().all(|input| input.dense || input.window == 1);
    let together = places.iter().all(|place| place.buffer == buffer);
    let fits = plain && together && places.len() <= INPUTS && layout.recurrents.is_empty();
    fits.then(|| PlainInputs { buffer, places: places.iter().map(|p| (p.column, p.width)).collect() })
}

/// Rows of a slice of the heads' sums, where heads may be the caller's: in bf16, behind a plain layer each, at most
/// eight outputs of at most 1,024 inputs, of at most 8,192 rows.
pub(crate) fn head_slice(net: &Net, layout: &Layout, precision: Precision, rows: usize) -> Option<usize> {
    let heads = &layout.linears[layout.linears.len() - layout.heads..];
    let behind = |head: &crate::net::Linear| {
        let before = single(layout, head).map(|b| &layout.linears[b]);
        let whole = head.input.column == 0 && layout.buffers[head.input.buffer].stride == head.input.width;
        let known = before.is_some_and(|b| matches!(b.activation, Activation::Relu | Activation::Tanh));
        known && whole && head.passes_back && head.output.width == PAD && head.input.width <= WIDEST
    };
    let fits = precision == Precision::Bf16
        && rows <= MOST_ROWS
        && plain_inputs(net, layout).is_some()
        && heads.iter().all(behind);
    fits.then(|| callers_slice(rows))
}

impl Nets {
    /// Where each head's kernel reads and writes, if heads may be the caller's.
    pub(crate) fn heads_on_card(&self) -> Option<Vec<HeadOnCard>> {
        let e = &self.engine;
        let (layout, batch) = (&e.layout, e.recipe.batch);
        head_slice(&e.net, layout, e.recipe.precision, batch).filter(|_| e.path == KernelPath::CallersLoss)?;
        let first = layout.linears.len() - layout.heads;
        let head = |(i, head): (usize, &crate::net::Linear)| {
            let before = single(layout, head)?;
            let (sums, input_sums) = (&e.at.bias_partial[i], &e.at.bias_partial[before]);
            let share = |slice: &crate::cuda::Slice<u8>| e.slab.share(&slice.cast::<u16>());
            let blocks = e.members * callers_blocks(batch);
            Some(HeadOnCard {
                input: share(&e.at.values[head.input.buffer]),
                d_input: share(&e.at.deltas[head.input.buffer]),
                gradient: share(&e.at.deltas[head.output.buffer]),
                input_sums: e.slab.share(&input_sums.part(0, blocks * head.input.width)),
                sums: e.slab.share(&sums.part(0, blocks * head.output.width)),
                inputs: head.input.width,
                outputs: head.outputs,
                weight: head.weight,
                bias: head.bias,
                activation: layout.linears[before].activation,
            })
        };
        layout.linears.iter().enumerate().skip(first).map(head).collect()
    }

    /// `[P, params]` the gradient of the last way back.
    pub(crate) fn gradient_on_card(&self) -> Array<f32> {
        self.engine.slab.share(&self.engine.at.gradient)
    }

    /// The inputs of rows of all members, at most as many as go at once, put on this very stream: whoever calls it
    /// orders it with passes.
    pub(crate) fn rows_on(&mut self, stream: &Stream, given: OnCard<'_>) -> Result<()> {
        let _lock = lock_driver();
        let e = &self.engine;
        e.context.same(stream.context())?;
        let (rows, reads) = (e.members * given.rows, !e.tables.is_empty());
        super::fits("ids", given.ids.map_or(0, Array::len), if reads { rows } else { 0 })?;
        super::fits("extras", given.extras.map_or(0, Array::len), rows * e.net.extras())?;
        let most = e.recipe.batch;
        if given.rows > most || self.plain.is_none() || self.heads_on_card().is_none() {
            return Err(Error::Invalid(format!(
                "heads of these nets are no caller's, or {} rows are more than the {most} of a way back",
                given.rows
            )));
        }
        let whole = self.whole.unwrap_or(0);
        if reads && self.whole.is_none() {
            return Err(Error::Invalid("no id has whole windows in every table; give longer tables".into()));
        }
        graph::hold(stream, [e.slab.memory(), e.tables.on_card()?.memory()])?;
        self.rows = Some(given.rows);
        self.take_rows(stream, given, 0, whole)
    }

    /// Rows whose inputs lie in place through all layers but the heads.
    pub(crate) fn hidden_on(&mut self, stream: &Stream) -> Result<()> {
        if self.rows.is_none() || self.heads_on_card().is_none() {
            return Err(Error::Invalid("hidden layers need the inputs of some rows before them".into()));
        }
        self.on(stream, |nets| {
            let e = &nets.engine;
            e.layers(0, e.members, Mode::Step, e.layout.linears.len() - e.layout.heads)
        })
    }

    /// The gradient of all members from what the heads' kernel wrote behind the last pass of hidden layers.
    pub(crate) fn backward_past_heads_on(&mut self, stream: &Stream) -> Result<()> {
        if self.rows.is_none() || self.heads_on_card().is_none() {
            return Err(Error::Invalid("a way back from heads needs a pass of the hidden layers before it".into()));
        }
        self.on(stream, |nets| nets.engine.backward_from(0, nets.engine.members, true))
    }

    /// The inputs of the rows from `begin` on.
    pub(super) fn take_rows(&self, stream: &Stream, given: OnCard<'_>, begin: usize, whole: u32) -> Result<()> {
        let e = &self.engine;
        let (Some(lossless), Some(plain)) = (&e.at.lossless, &self.plain) else { return Err(no_optimiser()) };
        let mut inputs = [RowsOfInput::default(); INPUTS];
        for (i, ((input, place), to)) in e.net.inputs.iter().zip(&plain.places).zip(&mut inputs).enumerate() {
            let address =
                |slice: Option<&crate::cuda::Slice<f32>>| Address(slice.map_or(0, crate::cuda::Slice::address));
            *to = RowsOfInput {
                table: if input.dense { Address(0) } else { Address(e.rows[i].table.address()) },
                map: Address(e.rows[i].map.as_ref().map_or(0, crate::cuda::Slice::address)),
                mean: address(e.at.means[i].as_ref()),
                inverse: address(e.at.inverses[i].as_ref()),
                stride: e.rows[i].stride as u64,
                features: n(input.features),
                column: if input.dense { n(e.net.extra_of(i)) } else { 0 },
                at: n(place.0),
                padded: n(place.1),
            };
        }
        let args = calls::TakeRowsArgs {
            ids: given.ids.cloned(),
            extras: given.extras.cloned(),
            wrong: lossless.wrong,
            to: Address(e.at.values[plain.buffer].address()),
            to_stride: e.layout.buffers[plain.buffer].stride as u64,
            inputs,
            count: n(plain.places.len()),
            known: n(e.tables.ids()),
            instead: whole,
            wide: n(e.net.extras()),
            all: n(given.rows),
            begin: n(begin),
            batch: n(e.recipe.batch),
        };
        calls::each(&self.calls.take_rows, stream, (e.recipe.batch, 8), e.members, &args)
    }
}
