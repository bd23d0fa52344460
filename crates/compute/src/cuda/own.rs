//! Our own matrix products, for cards without cuBLASLt and for shapes it does not do. The kernels are in
//! `ops/linear.cu`.
//!
//! The tile and the slices of rows follow from the shape of one member alone, so that its bits do not depend on the
//! others.

use super::blaslt::{Addresses, Matrix, Numbers};
use super::calls::{Calls, Sums, code};
use super::context::Context;
use super::engine::Mode;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Arg, Function, Module};
use crate::error::Result;
use crate::net::Activation;
use crate::population::SlotState;
use std::sync::Arc;

/// A form of product in its two tiles.
struct Form {
    wide: Function,
    small: Function,
}

/// The kernels, for bf16 or for f32.
pub(super) struct Own {
    forward: Form,
    /// A head's logits, which stay f32.
    logits: Form,
    back: Form,
    /// The same into f32.
    back_wide: Form,
    weight: Form,
    threads: u32,
}

/// A layer's product, from its first slot on.
pub(super) struct Linear {
    pub(super) at: Addresses,
    /// The output of the layer before, whose derivative is applied.
    pub(super) y: u64,
    pub(super) derivative: Activation,
    pub(super) activation: Activation,
    pub(super) head: bool,
    /// The gradient of the input is added up in f32.
    pub(super) wide: bool,
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) input_stride: usize,
    pub(super) output_stride: usize,
    pub(super) params: usize,
    pub(super) states: Slice<SlotState>,
    pub(super) mode: Mode,
    pub(super) split: Slice<f32>,
}

/// Rows of one launch, at most.
const ROWS: usize = 1 << 21;

/// Rows of one slice of a weight gradient.
fn slice(batch: usize) -> usize {
    batch.div_ceil(16).next_multiple_of(32).max(1024)
}

/// Slices of rows of a weight gradient.
pub(super) fn slices(batch: usize) -> usize {
    batch.div_ceil(slice(batch))
}

/// `Product` of `linear.cu`, as it is packed.
#[derive(Default)]
struct Product {
    words: Vec<u64>,
    numbers: [u32; 8],
}

impl Product {
    fn bytes(&self) -> Vec<u8> {
        let words = self.words.iter().flat_map(|w| w.to_ne_bytes());
        words.chain(self.numbers.iter().flat_map(|n| n.to_ne_bytes())).collect()
    }
}

impl Own {
    pub(super) fn load(context: &Arc<Context>, bf16: bool) -> Result<Own> {
        let module = Module::load(context, &kernels::LINEAR)?;
        let kind = if bf16 { "bf16" } else { "f32" };
        let form = |name: &str| -> Result<Form> {
            let get = |tile: u32| module.function(&format!("{name}_{tile}_{kind}"));
            Ok(Form { wide: get(128)?, small: get(64)? })
        };
        Ok(Own {
            forward: form("nt")?,
            logits: form(if bf16 { "nt_float" } else { "nt" })?,
            back: form("nn")?,
            back_wide: form(if bf16 { "nn_float" } else { "nn" })?,
            weight: form("tn")?,
            threads: if bf16 { 128 } else { 256 },
        })
    }

    pub(super) fn forward(&self, stream: &Stream, l: &Linear) -> Result<()> {
        let (x, y) = ((l.input_stride, l.batch * l.input_stride), (l.output_stride, l.batch * l.output_stride));
        // The loss adds the bias of a head itself.
        let bias = if l.head { 0 } else { l.at.bias };
        let act = if l.head { 0 } else { code(l.activation) };
        let form = if l.head { &self.logits } else { &self.forward };
        let places = [(l.at.left, x), (l.at.right, (l.inputs, l.params)), (l.at.out, y)];
        self.launch(stream, form, l, places, (bias, 0, 0), [l.batch, l.outputs, l.inputs], act, 1)
    }

    pub(super) fn back(&self, stream: &Stream, l: &Linear) -> Result<()> {
        let (x, y) = ((l.input_stride, l.batch * l.input_stride), (l.output_stride, l.batch * l.output_stride));
        let places = [(l.at.left, y), (l.at.right, (l.inputs, l.params)), (l.at.out, x)];
        let add = if l.at.accumulate { l.at.out } else { 0 };
        let form = if l.wide { &self.back_wide } else { &self.back };
        self.launch(stream, form, l, places, (0, l.y, add), [l.batch, l.inputs, l.outputs], code(l.derivative), 1)
    }

    pub(super) fn weight(&self, stream: &Stream, l: &Linear, calls: &Calls) -> Result<()> {
        let (x, y) = ((l.input_stride, l.batch * l.input_stride), (l.output_stride, l.batch * l.output_stride));
        let splits = slices(l.batch);
        let size = l.inputs * l.outputs;
        let out =
            if splits == 1 { (l.at.out, (l.inputs, l.params)) } else { (l.split.address(), (l.inputs, splits * size)) };
        let places = [(l.at.left, y), (l.at.right, x), out];
        self.launch(stream, &self.weight, l, places, (0, 0, 0), [l.outputs, l.inputs, l.batch], 0, splits)?;
        if splits == 1 {
            return Ok(());
        }
        let sums = Sums { partial: l.split.address(), blocks: splits, width: size };
        calls.sum_partials(stream, &l.states, &sums, l.at.out, l.params)
    }

    #[expect(clippy::too_many_arguments, reason = "a product is these things")]
    fn launch(
        &self,
        stream: &Stream,
        form: &Form,
        l: &Linear,
        places: [(u64, (usize, usize)); 3],
        (bias, y, add): (u64, u64, u64),
        shape: [usize; 3],
        act: u32,
        splits: usize,
    ) -> Result<()> {
        let [m, n, k] = shape.map(|x| u32::try_from(x).unwrap_or(u32::MAX));
        let mut product = Product::default();
        let wide = |x: usize| x as u64;
        product.words.push(l.states.address());
        for (address, (stride, member)) in places {
            product.words.extend([address, wide(stride), wide(member)]);
        }
        let (stride, member) = (wide(l.input_stride), wide(l.batch * l.input_stride));
        product.words.extend([
            wide(l.inputs * l.outputs),
            bias,
            wide(l.params),
            y,
            stride,
            member,
            add,
            stride,
            member,
        ]);
        let rows = if splits == 1 { k } else { u32::try_from(slice(l.batch)).unwrap_or(u32::MAX) };
        let parts = u32::try_from(splits).unwrap_or(u32::MAX);
        let adds = match (add, l.wide) {
            (0, _) => 0,
            (_, true) => 1,
            _ => 2,
        };
        product.numbers = [m, n, k, l.mode as u32, act, adds, parts, rows];
        self.send(stream, form, &product, l.states.len())
    }

    /// A product of matrices anywhere, with nothing fused.
    pub(super) fn plain(
        &self,
        stream: &Stream,
        p: &super::blaslt::Product,
        at: &Addresses,
        (states, mode): (&Slice<SlotState>, Mode),
        split: &Slice<f32>,
        calls: &Calls,
    ) -> Result<()> {
        let form = match (p.left_transposed, p.right_transposed, p.out.numbers) {
            (true, ..) => &self.weight,
            (false, true, Numbers::F32) => &self.logits,
            (false, true, Numbers::Bf16) => &self.forward,
            (false, false, Numbers::F32) => &self.back_wide,
            (false, false, Numbers::Bf16) => &self.back,
        };
        let (m, n) = (p.out.rows, p.out.columns);
        let k = if p.left_transposed { p.left.rows } else { p.left.columns };
        let places = |from: u64, out: (u64, u64)| {
            let row = |m: &Matrix| from * m.stride * m.numbers.size();
            let (left, to) = if p.left_transposed { (0, 0) } else { (row(&p.left), row(&p.out)) };
            vec![
                states.address(),
                at.left + left,
                p.left.stride,
                p.left.member,
                at.right,
                p.right.stride,
                p.right.member,
                out.0 + to,
                p.out.stride,
                out.1,
            ]
        };
        let short = |x: u64| u32::try_from(x).unwrap_or(u32::MAX);
        let product = |words: Vec<u64>, m: u64, splits: usize, rows: u64| {
            let words = words.into_iter().chain([p.out.rows * p.out.columns]).chain([0; 8]).collect();
            Product {
                words,
                numbers: [short(m), short(n), short(k), mode as u32, 0, 0, short(splits as u64), short(rows)],
            }
        };
        if !p.left_transposed {
            // The second dimension of a grid ends at 65,535 tiles; rows do not know each other.
            for from in (0..m).step_by(ROWS) {
                let rows = (m - from).min(ROWS as u64);
                let one = product(places(from, (at.out, p.out.member)), rows, 1, k);
                self.send(stream, form, &one, states.len())?;
            }
            return Ok(());
        }
        let rows = usize::try_from(k).unwrap_or(usize::MAX);
        let splits = slices(rows);
        if splits == 1 {
            return self.send(stream, form, &product(places(0, (at.out, p.out.member)), m, 1, k), states.len());
        }
        let size = m * n;
        let scratch = (split.address(), splits as u64 * size);
        self.send(stream, form, &product(places(0, scratch), m, splits, slice(rows) as u64), states.len())?;
        let sums =
            Sums { partial: split.address(), blocks: splits, width: usize::try_from(size).unwrap_or(usize::MAX) };
        calls.sum_partials(stream, states, &sums, at.out, usize::try_from(p.out.member).unwrap_or(usize::MAX))
    }

    fn send(&self, stream: &Stream, form: &Form, product: &Product, slots: usize) -> Result<()> {
        let [m, n, _, _, _, _, parts, _] = product.numbers;
        // Few tiles leave the card idle, and narrow layers leave tiles empty: then the small ones.
        let tiles = m.div_ceil(128) * n.div_ceil(128) * parts;
        let (function, tile) = if m.min(n) <= 64 || tiles < 100 { (&form.small, 64) } else { (&form.wide, 128) };
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let grid = [n.div_ceil(tile), m.div_ceil(tile), slots * parts];
        // SAFETY: the addresses are of the engine's slab, laid out for these shapes.
        unsafe { function.launch(stream, grid, [self.threads, 1, 1], 0, &[Arg::Bytes(&product.bytes())]) }
    }
}
