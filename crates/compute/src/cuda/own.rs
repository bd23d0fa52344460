//! Our own matrix products, for cards without cuBLASLt and for shapes it does not do. The kernels are in
//! `ops/linear.cu`.
//!
//! The tile and the slices of rows follow from the shape of one member alone, so that its bits do not depend on the
//! others.

use super::arguments::{Address, Argument, Kind, Packer, sealed::Sealed};
use super::blaslt::{Addresses, Matrix, Numbers};
use super::calls::{Calls, Sums};
use super::context::Context;
use super::engine::Mode;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Kernel, Module};
use crate::arguments;
use crate::error::Result;
use crate::net::Activation;
use crate::population::SlotState;
use std::sync::Arc;

/// A form of product in its two tiles.
struct Form {
    wide: Kernel<Product>,
    small: Kernel<Product>,
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
    threads: usize,
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

/// A matrix of every slot: its address, and the elements from row to row and from slot to slot.
#[derive(Default, Clone, Copy)]
struct Place {
    at: u64,
    stride: u64,
    member: u64,
}

impl Sealed for Place {}
impl Argument for Place {
    const KIND: Kind = Kind::strided(&["_stride", "_member"]);
    fn write(&self, to: &mut Packer) {
        [self.at, self.stride, self.member].iter().for_each(|word| to.put(word));
    }
}

impl Place {
    fn new(at: u64, stride: usize, member: usize) -> Place {
        Place { at, stride: stride as u64, member: member as u64 }
    }
}

arguments! {
    /// A product; of all kernels of `linear.cu`.
    struct Product in "../ops/linear.cu" {
        states: Slice<SlotState>,
        a: Place,
        b: Place,
        c: Place,
        c_split: usize as u64,
        bias: u64 as Address,
        bias_member: usize as u64,
        y: Place,
        add: Place,
        m: usize as u32,
        n: usize as u32,
        k: usize as u32,
        mode: Mode as u32,
        act: Activation as u32,
        adds: u32,
        splits: usize as u32,
        slice: usize as u32,
    }
}

impl Product {
    /// A product of matrices with nothing fused, in one split.
    fn plain((states, mode): (&Slice<SlotState>, Mode), [a, b, c]: [Place; 3], [m, n, k]: [usize; 3]) -> Product {
        Product {
            states: *states,
            a,
            b,
            c,
            c_split: m * n,
            bias: 0,
            bias_member: 0,
            y: Place::default(),
            add: Place::default(),
            m,
            n,
            k,
            mode,
            act: Activation::Identity,
            adds: 0,
            splits: 1,
            slice: k,
        }
    }
}

impl Own {
    pub(super) fn load(context: &Arc<Context>, bf16: bool) -> Result<Own> {
        let module = Module::load(context, &kernels::LINEAR)?;
        let kind = if bf16 { "bf16" } else { "f32" };
        let form = |name: &str| -> Result<Form> {
            let get = |tile: u32| module.typed(&format!("{name}_{tile}_{kind}"));
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
        let product = l.product([l.input(l.at.left), l.weights(), l.output(l.at.out)], [l.batch, l.outputs, l.inputs]);
        if l.head {
            // The loss adds the bias of a head itself.
            return self.launch(stream, &self.logits, &product);
        }
        let product = Product { bias: l.at.bias, bias_member: l.params, act: l.activation, ..product };
        self.launch(stream, &self.forward, &product)
    }

    pub(super) fn back(&self, stream: &Stream, l: &Linear) -> Result<()> {
        let product = l.product([l.output(l.at.left), l.weights(), l.input(l.at.out)], [l.batch, l.inputs, l.outputs]);
        let form = if l.wide { &self.back_wide } else { &self.back };
        let (add, adds) = match (l.at.accumulate, l.wide) {
            (false, _) => (0, 0),
            (true, true) => (l.at.out, 1),
            (true, false) => (l.at.out, 2),
        };
        let product = Product { y: l.input(l.y), add: l.input(add), act: l.derivative, adds, ..product };
        self.launch(stream, form, &product)
    }

    pub(super) fn weight(&self, stream: &Stream, l: &Linear, calls: &Calls) -> Result<()> {
        let (splits, size) = (slices(l.batch), l.inputs * l.outputs);
        let out = match splits {
            1 => Place::new(l.at.out, l.inputs, l.params),
            _ => Place::new(l.split.address(), l.inputs, splits * size),
        };
        let product = l.product([l.output(l.at.left), l.input(l.at.right), out], [l.outputs, l.inputs, l.batch]);
        if splits == 1 {
            return self.launch(stream, &self.weight, &product);
        }
        self.launch(stream, &self.weight, &Product { splits, slice: slice(l.batch), ..product })?;
        let sums = Sums { partial: l.split.address(), blocks: splits, width: size };
        calls.sum_partials(stream, &l.states, &sums, l.at.out, l.params)
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
        let whole = |x: u64| usize::try_from(x).unwrap_or(usize::MAX);
        let (m, n) = (whole(p.out.rows), whole(p.out.columns));
        let k = whole(if p.left_transposed { p.left.rows } else { p.left.columns });
        let place = |matrix: &Matrix, at: u64| Place { at, stride: matrix.stride, member: matrix.member };
        let product = |from: usize, rows: usize, out: Place| {
            let row = |matrix: &Matrix| from as u64 * matrix.stride * matrix.numbers.size();
            let left = place(&p.left, at.left + if p.left_transposed { 0 } else { row(&p.left) });
            let places = [left, place(&p.right, at.right), Place { at: out.at + row(&p.out), ..out }];
            Product { c_split: m * n, ..Product::plain((states, mode), places, [rows, n, k]) }
        };
        let out = place(&p.out, at.out);
        if !p.left_transposed {
            // The second dimension of a grid ends at 65,535 tiles; rows do not know each other.
            return (0..m)
                .step_by(ROWS)
                .try_for_each(|from| self.launch(stream, form, &product(from, (m - from).min(ROWS), out)));
        }
        let splits = slices(k);
        if splits == 1 {
            return self.launch(stream, form, &product(0, m, out));
        }
        let scratch = Place { at: split.address(), member: (splits * m * n) as u64, ..out };
        self.launch(stream, form, &Product { splits, slice: slice(k), ..product(0, m, scratch) })?;
        let sums = Sums { partial: split.address(), blocks: splits, width: m * n };
        calls.sum_partials(stream, states, &sums, at.out, whole(p.out.member))
    }

    fn launch(&self, stream: &Stream, form: &Form, product: &Product) -> Result<()> {
        let Product { m, n, splits, .. } = *product;
        // Few tiles leave the card idle, and narrow layers leave tiles empty: then the small ones.
        let tiles = m.div_ceil(128) * n.div_ceil(128) * splits;
        let (kernel, tile) = if m.min(n) <= 64 || tiles < 100 { (&form.small, 64) } else { (&form.wide, 128) };
        let grid = [n.div_ceil(tile), m.div_ceil(tile), product.states.len() * splits];
        // SAFETY: the addresses are of the engine's slab, laid out for these shapes.
        unsafe { kernel.send(stream, grid, self.threads, 0, product) }
    }
}

impl Linear {
    /// Rows of the layer's input, or of the gradient there.
    fn input(&self, at: u64) -> Place {
        Place::new(at, self.input_stride, self.batch * self.input_stride)
    }

    /// Rows of its output, or of the gradient there.
    fn output(&self, at: u64) -> Place {
        Place::new(at, self.output_stride, self.batch * self.output_stride)
    }

    fn weights(&self) -> Place {
        Place::new(self.at.right, self.inputs, self.params)
    }

    fn product(&self, places: [Place; 3], shape: [usize; 3]) -> Product {
        Product::plain((&self.states, self.mode), places, shape)
    }
}
