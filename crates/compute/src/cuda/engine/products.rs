//! Which way every matrix product of a net goes: cuBLASLt with what is worth fusing, Hopper's own units, or our own
//! kernels.
//!
//! Chosen once, for one member, and kept whatever the number of members: a plan that changed with the population would
//! change bits.

use crate::cuda::Slice;
use crate::cuda::blaslt::{Addresses, Algorithm, Epilogue, Matrix, Numbers, Plan, Product};
use crate::cuda::context::Context;
use crate::cuda::graph::Event;
use crate::cuda::hopper;
use crate::cuda::workspace::WORKSPACE;
use crate::error::{Error, Result};
use crate::net::{Activation, Layout, Linear, Place};
use crate::population::{Pins, Precision, Recipe};
use std::sync::Arc;

/// How a product is done.
#[derive(Clone)]
pub(super) enum ProductPath {
    /// By the library, with this plan.
    Library(Box<Plan>),
    /// Back on Hopper's own units, with the derivative and the bias sums of the layer before; the product says which
    /// matrices these are.
    Hopper(Box<Product>),
    /// By our own kernel, which fuses everything.
    Own,
}

impl ProductPath {
    /// Another product of the same shape with this one's algorithm.
    fn as_tuned(&self, other: &ProductPath) -> ProductPath {
        match (self, other) {
            (ProductPath::Library(from), ProductPath::Library(to)) => {
                ProductPath::Library(Box::new(Plan { algorithm: from.algorithm, ..**to }))
            }
            (_, other) => other.clone(),
        }
    }
}

/// The products of every layer.
#[derive(Default, Clone)]
pub(super) struct Products {
    pub(super) layers: Vec<Layer>,
    /// Layers of two towers that have the same shape: `(first, second)` in walking order. Empty where towers are not
    /// alike, or where one of them is enough for a card.
    pub(super) twins: Vec<(usize, usize)>,
}

/// What one layer does, and what is left for a kernel of its own.
#[derive(Clone)]
pub(super) struct Layer {
    /// Its readable name, which pins are kept under.
    pub(super) name: String,
    pub(super) forward: ProductPath,
    /// The activation is still to be applied.
    pub(super) activate: bool,
    /// The gradient of the input, where something before it learns.
    pub(super) back: Option<ProductPath>,
    /// `back` applies the derivative of the one layer before.
    pub(super) derived: bool,
    /// `back` adds up in f32, because several layers read that input or made it, and bf16 would round each share.
    pub(super) wide: bool,
    pub(super) weight: ProductPath,
}

/// Which product of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProductKind {
    Forward,
    Back,
    Weight,
}

impl Products {
    /// Pinned algorithms first, then Hopper's units where they are known to win, then the library's guesses, then our
    /// own kernels.
    pub(super) fn choose(context: &Arc<Context>, layout: &Layout, recipe: &Recipe, pins: &Pins) -> Result<Products> {
        let numbers = if recipe.precision == Precision::Bf16 { Numbers::Bf16 } else { Numbers::F32 };
        let tf32 = recipe.precision == Precision::Tf32;
        let shapes = Shapes { layout, batch: recipe.batch as u64, numbers, tf32 };
        context.bind()?;
        let twins = if numbers == Numbers::Bf16 { twins(layout, recipe.batch) } else { Vec::new() };
        // Both towers of a member go at once, so plans are those for two; but those of weights for one, whose smaller
        // tiles were measured to be as fast or faster for both (13.9 and 15.8 µs of [1024, 2048] over 1,024 rows).
        let towers = if twins.is_empty() { 1 } else { 2 };
        let find = |name: &str, which: ProductKind, product: &Product| {
            let guessed = if which == ProductKind::Weight { 1 } else { towers };
            find(context, pins, (name, which), product, Together { guessed, needed: towers })
        };
        let heads = layout.linears.len() - layout.heads;
        let mut layers: Vec<Layer> = Vec::new();
        for (i, linear) in layout.linears.iter().enumerate() {
            // The library cannot fuse tanh. In bf16 that would round twice, so our own kernel does it.
            let tanh = |l: &Linear| l.activation == Activation::Tanh && numbers == Numbers::Bf16;
            let forward = if tanh(linear) && linear.norm.is_none() {
                ProductPath::Own
            } else {
                find(&linear.name, ProductKind::Forward, &shapes.forward(linear, i >= heads))?
            };
            let before = single(layout, linear);
            let ours = before.is_some_and(|b| tanh(&layout.linears[b]));
            let wide = before.is_none() && numbers == Numbers::Bf16;
            let product = shapes.back(linear, wide);
            let back = match before.map(|b| (shapes.hopper(linear), layout.linears[b].activation)) {
                _ if ours => ProductPath::Own,
                Some((shape, derivative)) if numbers == Numbers::Bf16 => {
                    let pinned = pins.0.get(&key(&linear.name, ProductKind::Back, &product));
                    let asked = pinned.map_or(shape.beats_library(towers), |text| text == hopper::PIN);
                    if asked && linear.passes_back && shape.possible(context, derivative) {
                        ProductPath::Hopper(Box::new(product))
                    } else {
                        find(&linear.name, ProductKind::Back, &product)?
                    }
                }
                _ => find(&linear.name, ProductKind::Back, &product)?,
            };
            layers.push(Layer {
                wide,
                activate: linear.activation == Activation::Tanh
                    && linear.norm.is_none()
                    && matches!(forward, ProductPath::Library(_)),
                forward,
                derived: before.is_some() && matches!(back, ProductPath::Own | ProductPath::Hopper(_)),
                back: linear.passes_back.then_some(back),
                weight: find(&linear.name, ProductKind::Weight, &shapes.weight(linear))?,
                name: linear.name.clone(),
            });
        }
        Ok(Products { layers, twins })
    }

    /// Hopper's units wherever they can do a product, whether it pays or not; for how many layers.
    #[cfg(test)]
    pub(super) fn on_hopper(&mut self, context: &Context, layout: &Layout, recipe: &Recipe) -> usize {
        let shapes = Shapes { layout, batch: recipe.batch as u64, numbers: Numbers::Bf16, tf32: false };
        let mut taken = 0;
        for (layer, linear) in self.layers.iter_mut().zip(&layout.linears) {
            let before = single(layout, linear).map(|b| layout.linears[b].activation);
            let possible = before.is_some_and(|derivative| shapes.hopper(linear).possible(context, derivative));
            if possible && linear.passes_back {
                layer.back = Some(ProductPath::Hopper(Box::new(shapes.back(linear, false))));
                layer.derived = true;
                taken += 1;
            }
        }
        taken
    }

    /// Whether a product of Hopper's fills the card for long.
    pub(super) fn fill(&self, layout: &Layout, batch: usize) -> bool {
        let ours = |(layer, linear): (&Layer, &Linear)| {
            matches!(layer.back, Some(ProductPath::Hopper(_))) && hopper_shape(layout, linear, batch).fills_card()
        };
        self.layers.iter().zip(&layout.linears).any(ours)
    }

    /// One line for each layer.
    pub(super) fn describe(&self) -> Vec<String> {
        let name = |path: &ProductPath| match path {
            ProductPath::Library(_) => "cuBLASLt",
            ProductPath::Hopper(_) => "own, on Hopper's units",
            ProductPath::Own => "own",
        };
        let each = self.layers.iter().map(|l| {
            let back = l.back.as_ref().map_or("none", name);
            format!("forward {}, back {back}, weights {}", name(&l.forward), name(&l.weight))
        });
        each.collect()
    }

    /// The way of one product of a layer.
    pub(super) fn path(&self, i: usize, kind: ProductKind) -> Option<&ProductPath> {
        let layer = &self.layers[i];
        match kind {
            ProductKind::Forward => Some(&layer.forward),
            ProductKind::Back => layer.back.as_ref(),
            ProductKind::Weight => Some(&layer.weight),
        }
    }

    /// The algorithms in use, to be stored.
    pub(super) fn pins(&self) -> Pins {
        let paths = self.layers.iter().flat_map(|l| {
            let paths = [
                (ProductKind::Forward, Some(&l.forward)),
                (ProductKind::Back, l.back.as_ref()),
                (ProductKind::Weight, Some(&l.weight)),
            ];
            paths.map(|(kind, path)| (&l.name, kind, path))
        });
        let pin = |(name, kind, path): (&String, ProductKind, Option<&ProductPath>)| match path {
            Some(ProductPath::Library(plan)) => Some((key(name, kind, &plan.product), plan.algorithm.text())),
            Some(ProductPath::Hopper(product)) => Some((key(name, kind, product), hopper::PIN.to_string())),
            _ => None,
        };
        Pins(paths.filter_map(pin).collect())
    }

    /// Times the library's guesses for every product and keeps the fastest: what `tune` does before a run, never within
    /// one.
    pub(super) fn tune(&mut self, engine: &super::Engine) -> Result<()> {
        for (i, layer) in self.layers.iter_mut().enumerate() {
            let paths = [
                (ProductKind::Forward, Some(&mut layer.forward)),
                (ProductKind::Back, layer.back.as_mut()),
                (ProductKind::Weight, Some(&mut layer.weight)),
            ];
            for (kind, path) in paths {
                let Some(ProductPath::Library(plan)) = path else { continue };
                tune(engine, plan, &engine.addresses(i, kind, 0, false))?;
            }
        }
        // Layers that go together need the same plan.
        for (first, second) in self.twins.clone() {
            let (from, to) = (self.layers[first].clone(), &mut self.layers[second]);
            (to.forward, to.weight) = (from.forward.as_tuned(&to.forward), from.weight.as_tuned(&to.weight));
            to.back = to.back.as_ref().zip(from.back.as_ref()).map(|(to, from)| from.as_tuned(to));
        }
        Ok(())
    }
}

/// How many products of one kind go at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    /// The library guesses a plan for so many.
    pub(super) guessed: usize,
    /// The plan has to do so many in one go.
    pub(super) needed: usize,
}

/// The way of one product: its pinned algorithm, else the library's best guess, else our own kernel. What goes together
/// follows from the net, never from how many members there are.
pub(super) fn find(
    context: &Arc<Context>,
    pins: &Pins,
    (name, kind): (&str, ProductKind),
    product: &Product,
    Together { guessed, needed }: Together,
) -> Result<ProductPath> {
    let Ok(library) = context.blaslt() else { return Ok(ProductPath::Own) };
    // For one member, whatever the population: otherwise its bits would depend on the others.
    let supported = |plan: &Plan| library.supports(plan, 1, WORKSPACE);
    let key = key(name, kind, product);
    if let Some(text) = pins.0.get(&key) {
        let pinned = Algorithm::parse(text).map(|algorithm| Plan { product: *product, algorithm });
        return match pinned {
            Some(plan) if supported(&plan)? => Ok(ProductPath::Library(Box::new(plan))),
            _ => Err(Error::Invalid(format!(
                "the stored algorithm for {key} is not one of this cuBLASLt; use the version it was stored with, or drop the pins"
            ))),
        };
    }
    for plan in library.plans(product, guessed, WORKSPACE / needed, 8)? {
        if supported(&plan)? && library.supports(&plan, needed, WORKSPACE)? {
            return Ok(ProductPath::Library(Box::new(plan)));
        }
    }
    Ok(ProductPath::Own)
}

/// Times the library's guesses for one product of all members and keeps the fastest.
pub(super) fn tune(engine: &super::Engine, plan: &mut Plan, at: &Addresses) -> Result<()> {
    let stream = &engine.main;
    let context = stream.context();
    let Ok(library) = context.blaslt() else { return Ok(()) };
    let (start, end) = (Event::new(context, true)?, Event::new(context, true)?);
    let workspace = (engine.workspace.addresses()[0], WORKSPACE);
    let mut best = f64::INFINITY;
    for guess in library.plans(&plan.product, 1, WORKSPACE, 16)? {
        // Timed with all members at once, where that is possible.
        let members = library.most(&guess, engine.members, WORKSPACE)?;
        if members == 0 {
            continue;
        }
        let mut took = f64::INFINITY;
        for round in 0..6 {
            start.record(stream)?;
            for _ in 0..6 {
                // SAFETY: the addresses are the engine's own, for these shapes; nothing else runs.
                unsafe { library.run(&guess, members, at, workspace, stream)? };
            }
            end.record(stream)?;
            let ms = end.since(&start)? * engine.members as f64 / members as f64;
            if round > 0 {
                took = took.min(ms);
            }
        }
        // Another choice must be clearly better than the library's own.
        if took < best * 0.98 {
            best = took;
            *plan = guess;
        }
    }
    Ok(())
}

/// Shapes and strides of a net's matrices.
struct Shapes<'a> {
    layout: &'a Layout,
    batch: u64,
    numbers: Numbers,
    tf32: bool,
}

impl Shapes<'_> {
    /// `[B, width]` of a buffer.
    fn rows(&self, place: &Place) -> Matrix {
        let stride = self.layout.buffers[place.buffer].stride as u64;
        let (rows, columns) = (self.batch, place.width as u64);
        Matrix { rows, columns, stride, member: self.batch * stride, numbers: self.numbers }
    }

    /// `[outputs, inputs]` weights, or their gradient.
    fn weights(&self, linear: &Linear, numbers: Numbers) -> Matrix {
        let (rows, columns) = (linear.output.width as u64, linear.input.width as u64);
        Matrix { rows, columns, stride: columns, member: self.layout.params as u64, numbers }
    }

    fn forward(&self, linear: &Linear, head: bool) -> Product {
        let mut out = self.rows(&linear.output);
        // The loss adds the bias of a head itself, and its logits stay f32.
        let epilogue = match linear.activation {
            _ if head || linear.norm.is_some() => Epilogue::None,
            Activation::Relu => Epilogue::ReluBias,
            _ => Epilogue::Bias,
        };
        if head {
            out.numbers = Numbers::F32;
        }
        // A norm adds the bias too, and reads sums that lie by themselves.
        if linear.norm.is_some() {
            let stride = linear.output.width as u64;
            out = Matrix { stride, member: self.batch * stride, numbers: Numbers::F32, ..out };
        }
        let (left, right) = ((self.rows(&linear.input), false), (self.weights(linear, self.numbers), true));
        self.product(left, right, out, epilogue, linear)
    }

    fn back(&self, linear: &Linear, wide: bool) -> Product {
        let (left, right) = ((self.rows(&linear.output), false), (self.weights(linear, self.numbers), false));
        let mut out = self.rows(&linear.input);
        if wide {
            out.numbers = Numbers::F32;
        }
        self.product(left, right, out, Epilogue::None, linear)
    }

    /// The same for Hopper's units.
    fn hopper(&self, linear: &Linear) -> hopper::Shape {
        hopper_shape(self.layout, linear, self.batch as usize)
    }

    fn weight(&self, linear: &Linear) -> Product {
        let (left, right) = ((self.rows(&linear.output), true), (self.rows(&linear.input), false));
        self.product(left, right, self.weights(linear, Numbers::F32), Epilogue::None, linear)
    }

    fn product(
        &self,
        left: (Matrix, bool),
        right: (Matrix, bool),
        out: Matrix,
        epilogue: Epilogue,
        linear: &Linear,
    ) -> Product {
        // Slices begin on 256 bytes, places and members somewhere in them.
        let offset = [linear.input.column, linear.output.column].into_iter().map(|c| c as u64);
        let members = [left.0, right.0, out].map(|m| m.member);
        let bits = offset.chain(members).map(|n| (n * self.numbers.size()).trailing_zeros().min(8)).min();
        Product {
            left: left.0,
            left_transposed: left.1,
            right: right.0,
            right_transposed: right.1,
            out,
            epilogue,
            bias_member: self.layout.params as u64,
            tf32: self.tf32,
            aligned: 1 << bits.unwrap_or(8),
        }
    }
}

/// Rows up to which one tower's products do not fill a card.
const TWIN_ROWS: usize = 2048;

/// Layers of two towers that share nothing but their input, are alike and have nothing but a ReLU behind them.
fn twins(layout: &Layout, batch: usize) -> Vec<(usize, usize)> {
    let Some(second) = super::step::two_towers(layout) else { return Vec::new() };
    let of = |tower: bool| (0..second.len()).filter(|i| second[*i] == tower).collect::<Vec<usize>>();
    let pairs: Vec<(usize, usize)> = of(false).into_iter().zip(of(true)).collect();
    let stride = |place: &Place| layout.buffers[place.buffer].stride;
    let alike = |&(i, j): &(usize, usize)| {
        let (a, b) = (&layout.linears[i], &layout.linears[j]);
        let shape = |l: &Linear| (l.input.width, l.output.width, stride(&l.input), stride(&l.output), l.activation);
        let behind = i + layout.heads >= layout.linears.len() || a.activation == Activation::Relu;
        // A gradient that both add to is no pair's.
        let own = |l: &Linear| !l.passes_back || single(layout, l).is_some();
        shape(a) == shape(b) && behind && a.passes_back == b.passes_back && own(a) && own(b)
    };
    let fit = batch <= TWIN_ROWS && 2 * pairs.len() == second.len() && pairs.iter().all(alike);
    if fit { pairs } else { Vec::new() }
}

/// The shape of a product back.
pub(super) fn hopper_shape(layout: &Layout, linear: &Linear, batch: usize) -> hopper::Shape {
    let stride = |place: &Place| layout.buffers[place.buffer].stride;
    hopper::Shape {
        batch,
        inputs: linear.input.width,
        outputs: linear.output.width,
        input_stride: stride(&linear.input),
        output_stride: stride(&linear.output),
        params: layout.params,
    }
}

/// A product's name in a list of pins.
pub(super) fn key(name: &str, which: ProductKind, product: &Product) -> String {
    let matrix = |m: &Matrix, transposed: bool| {
        let numbers = if m.numbers == Numbers::Bf16 { "bf16" } else { "f32" };
        format!("{numbers}[{}x{}/{}]{}", m.rows, m.columns, m.stride, if transposed { "t" } else { "" })
    };
    format!(
        "{name} {which:?}: {} {} {} {:?}{} a{}",
        matrix(&product.left, product.left_transposed),
        matrix(&product.right, product.right_transposed),
        matrix(&product.out, false),
        product.epilogue,
        if product.tf32 { " tf32" } else { "" },
        product.aligned
    )
}

/// The one layer that made all of this layer's input, where this layer alone reads it and nothing but an activation
/// stands between: then its derivative can be fused.
pub(super) fn single(layout: &Layout, linear: &Linear) -> Option<usize> {
    let made = layout.linears.iter().position(|l| l.output == linear.input)?;
    let readers = layout.linears.iter().filter(|l| l.input.buffer == linear.input.buffer).count();
    (readers == 1 && layout.linears[made].plain()).then_some(made)
}

impl super::Engine {
    /// Where a product of the slots from `first` on reads and writes.
    pub(super) fn addresses(&self, i: usize, which: ProductKind, first: usize, accumulate: bool) -> Addresses {
        let (layout, at, linear) = (&self.layout, &self.at, &self.layout.linears[i]);
        let batch = self.recipe.batch;
        let row = |arrays: &[Slice<u8>], place: &Place| {
            let stride = layout.buffers[place.buffer].stride;
            arrays[place.buffer].address() + (first * batch * stride + place.column) as u64 * self.size()
        };
        match which {
            ProductKind::Forward => {
                let head = (i + layout.heads).checked_sub(layout.linears.len());
                let out = match head {
                    Some(h) => at.logits[h].address() + 4 * (first * batch * linear.output.width) as u64,
                    None if linear.norm.is_some() => at.z.address() + 4 * (first * batch * linear.output.width) as u64,
                    None => row(&at.values, &linear.output),
                };
                let (left, right) = (row(&at.values, &linear.input), self.weights(first, linear.weight));
                Addresses { left, right, out, bias: self.weights(first, linear.bias), accumulate }
            }
            ProductKind::Back => {
                let left = row(&at.deltas, &linear.output);
                let out = if self.products.layers.get(i).is_some_and(|l| l.wide) {
                    let stride = layout.buffers[linear.input.buffer].stride;
                    self.wide(linear.input.buffer) + 4 * (first * batch * stride + linear.input.column) as u64
                } else {
                    row(&at.deltas, &linear.input)
                };
                Addresses { left, right: self.weights(first, linear.weight), out, bias: 0, accumulate }
            }
            ProductKind::Weight => {
                let (left, right) = (row(&at.deltas, &linear.output), row(&at.values, &linear.input));
                Addresses { left, right, out: self.gradient(first, linear.weight), bias: 0, accumulate }
            }
        }
    }

    /// Where the gradient of a buffer is added up in f32.
    pub(super) fn wide(&self, buffer: usize) -> u64 {
        if self.layout.zeroed == Some(buffer) { self.at.wide_concat.address() } else { self.at.wide.address() }
    }

    /// Bytes of a number in an activation.
    pub(super) fn size(&self) -> u64 {
        if self.at.shadow.is_some() { 2 } else { 4 }
    }

    /// Where the parameters that products read lie, from a slot on.
    pub(super) fn weights(&self, first: usize, offset: usize) -> u64 {
        let element = (first * self.layout.params + offset) as u64;
        let at = &self.at;
        at.shadow.as_ref().map_or_else(|| at.params.address() + 4 * element, |s| s.address() + 2 * element)
    }

    /// Where the gradient of a parameter lies, from a slot on.
    pub(super) fn gradient(&self, first: usize, offset: usize) -> u64 {
        self.at.gradient.address() + 4 * (first * self.layout.params + offset) as u64
    }
}
