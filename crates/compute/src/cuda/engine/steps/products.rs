//! Which way the products of recurrent layers go, as `engine/products.rs` chooses it for the other layers.

use super::numbers;
use crate::cuda::blaslt::{Addresses, Epilogue, Matrix, Numbers, Product};
use crate::cuda::calls::Calls;
use crate::cuda::context::Context;
use crate::cuda::engine::products::{ProductKind, ProductPath, Together, find, key, tune};
use crate::cuda::engine::{Engine, Mode};
use crate::cuda::graph::Stream;
use crate::cuda::memory::Slice;
use crate::cuda::workspace::WORKSPACE;
use crate::error::Result;
use crate::net::{GATES, Layout, Recurrent};
use crate::population::{Pins, Precision, Recipe, SlotState};
use std::sync::Arc;

/// One of a layer's products. All are `[rows, columns]`, with four columns for each unit where gates are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// `[x, h] W` of one step, f32.
    Gates,
    /// `dz Whᵀ` of one step: the gradient at h of the step before, f32.
    Carry,
    /// `dz Wxᵀ` of all steps: the gradient at every h of the layer below.
    Below,
    /// `[x, h]ᵀ dz` over all steps: the gradient of the weights.
    Weight,
}

/// Members whose products of one step go at once: in smaller groups every step would be many nodes of the graph.
const AT_ONCE: usize = 1024;

const PARTS: [Part; 4] = [Part::Gates, Part::Carry, Part::Below, Part::Weight];

/// How every product is done.
#[derive(Clone)]
pub(in crate::cuda::engine) struct Plans {
    layers: Vec<(String, [Option<ProductPath>; 4])>, // [layers] by `PARTS`; none where nothing is below
}

impl Part {
    /// What pins call it.
    fn pin_name(self, layer: &str) -> (String, ProductKind) {
        match self {
            Part::Gates => (format!("{layer}.xh"), ProductKind::Forward),
            Part::Carry => (format!("{layer}.h"), ProductKind::Back),
            Part::Below => (format!("{layer}.x"), ProductKind::Back),
            Part::Weight => (format!("{layer}.xh"), ProductKind::Weight),
        }
    }
}

impl Plans {
    pub(in crate::cuda::engine) fn choose(
        context: &Arc<Context>,
        layout: &Layout,
        recipe: &Recipe,
        pins: &Pins,
    ) -> Result<Plans> {
        let layer = |r: &Recurrent| -> Result<(String, [Option<ProductPath>; 4])> {
            let mut ways = [None, None, None, None];
            for (way, part) in ways.iter_mut().zip(PARTS).filter(|(_, p)| *p != Part::Below || r.below.is_some()) {
                let (name, which) = part.pin_name(&r.name);
                let needed = if matches!(part, Part::Gates | Part::Carry) { AT_ONCE } else { 1 };
                let together = Together { guessed: 1, needed };
                *way = Some(find(context, pins, (&name, which), &product(layout, recipe, r, part), together)?);
            }
            Ok((r.name.clone(), ways))
        };
        Ok(Plans { layers: layout.recurrents.iter().map(layer).collect::<Result<_>>()? })
    }

    /// One line for each layer.
    pub(in crate::cuda::engine) fn describe(&self) -> Vec<String> {
        let way = |way: &Option<ProductPath>| match way {
            None => "none",
            Some(ProductPath::Own | ProductPath::Hopper(_)) => "own",
            Some(ProductPath::Library(_)) => "cuBLASLt",
        };
        let one = |(name, [gates, carry, below, weight]): &(String, [Option<ProductPath>; 4])| {
            let (gates, carry, below, weight) = (way(gates), way(carry), way(below), way(weight));
            format!("{name}: step by step: gates {gates}, carry {carry}, below {below}, weights {weight}")
        };
        self.layers.iter().map(one).collect()
    }

    /// The algorithms in use.
    pub(in crate::cuda::engine) fn pins(&self) -> Pins {
        let each = self.layers.iter().flat_map(|(name, ways)| {
            ways.iter().zip(PARTS).filter_map(|(way, part)| {
                let Some(ProductPath::Library(plan)) = way else { return None };
                let (name, which) = part.pin_name(name);
                Some((key(&name, which, &plan.product), plan.algorithm.text()))
            })
        });
        Pins(each.collect())
    }

    /// Chooses them by the clock.
    pub(in crate::cuda::engine) fn tune(&mut self, engine: &Engine) -> Result<()> {
        for (l, (_, ways)) in self.layers.iter_mut().enumerate() {
            for (way, part) in ways.iter_mut().zip(PARTS) {
                let Some(ProductPath::Library(plan)) = way else { continue };
                tune(engine, plan, &engine.steps_addresses(l, 0, part, 0))?;
            }
        }
        Ok(())
    }

    fn way(&self, l: usize, part: Part) -> Option<&ProductPath> {
        let at = PARTS.iter().position(|p| *p == part)?;
        self.layers[l].1[at].as_ref()
    }
}

/// A product of one layer: of one step, or of all.
fn product(layout: &Layout, recipe: &Recipe, r: &Recurrent, part: Part) -> Product {
    let (kind, batch, steps) = (numbers(recipe), recipe.batch as u64, r.window as u64);
    let (wide, units, gates) = (r.wide as u64, r.units as u64, (r.units * GATES) as u64);
    let rows = match part {
        Part::Gates | Part::Carry => batch,
        Part::Below | Part::Weight => batch * steps,
    };
    // Of every step, though one product may see only one of them.
    let sequence = |columns: u64, numbers: Numbers| Matrix {
        rows,
        columns,
        stride: columns,
        member: batch * steps * columns,
        numbers,
    };
    let weights = |rows: u64, numbers: Numbers| Matrix {
        rows,
        columns: gates,
        stride: gates,
        member: layout.params as u64,
        numbers,
    };
    let dz = sequence(gates, kind);
    let (left, right, out) = match part {
        Part::Gates => {
            let z = sequence(gates, Numbers::F32);
            ((sequence(wide + units, kind), false), (weights(wide + units, kind), false), z)
        }
        Part::Carry => {
            let dh = Matrix { member: batch * units, ..sequence(units, Numbers::F32) };
            ((dz, false), (weights(units, kind), true), dh)
        }
        Part::Below => ((dz, false), (weights(wide, kind), true), sequence(wide, kind)),
        Part::Weight => {
            let all = weights(wide + units, Numbers::F32);
            ((sequence(wide + units, kind), true), (dz, false), all)
        }
    };
    // Slices begin on 256 bytes, steps and members on some row of theirs, layers on 64 elements.
    let bits = [left.0, right.0, out].map(|m| ((m.stride | m.member) * m.numbers.size()).trailing_zeros().min(8));
    Product {
        left: left.0,
        left_transposed: left.1,
        right: right.0,
        right_transposed: right.1,
        out,
        epilogue: Epilogue::None,
        bias_member: 0,
        tf32: recipe.precision == Precision::Tf32,
        aligned: 1 << bits.into_iter().min().unwrap_or(8).min(if kind == Numbers::Bf16 { 7 } else { 8 }),
    }
}

impl Engine {
    /// Where a product of layer `l` reads and writes, at step `t` where it is of one step.
    fn steps_addresses(&self, l: usize, t: usize, part: Part, first: usize) -> Addresses {
        let (batch, size, r) = (self.recipe.batch, self.size(), &self.layout.recurrents[l]);
        let Some(arrays) = &self.at.steps else {
            return Addresses { left: 0, right: 0, out: 0, bias: 0, accumulate: false };
        };
        let own = &arrays.layers[l];
        let (left, right, out) = match part {
            Part::Gates => {
                let rows = own.rows(first, t, batch, size).at;
                (rows, self.weights(first, r.weight), own.gates_at(first, t, batch))
            }
            Part::Carry => {
                let dz = own.dz_at(first, t, batch, size);
                (dz, self.weights(first, r.at(r.wide, 0, 0)), own.dh_at(first, batch))
            }
            Part::Below => {
                let below = r.below.map_or(0, |b| arrays.layers[b].outer_at(first, 0, batch, size).at);
                (own.dz_at(first, 0, batch, size), self.weights(first, r.weight), below)
            }
            Part::Weight => {
                let dz = own.dz_at(first, 0, batch, size);
                (own.rows(first, 0, batch, size).at, dz, self.gradient(first, r.weight))
            }
        };
        Addresses { left, right, out, bias: 0, accumulate: false }
    }

    /// One product on one of the streams.
    pub(super) fn steps_product(
        &self,
        stream: &Stream,
        workspace: usize,
        (l, t): (usize, usize),
        part: Part,
        (first, slots): (usize, usize),
        mode: Mode,
    ) -> Result<()> {
        let (Some(steps), Some(arrays)) = (&self.steps, &self.at.steps) else { return Ok(()) };
        let doer = Doer {
            plans: &steps.plans,
            layout: &self.layout,
            recipe: &self.recipe,
            calls: &self.calls,
            split: &arrays.split,
            workspace: self.workspace.addresses()[workspace],
        };
        let at = |from: usize| self.steps_addresses(l, t, part, first + from);
        doer.run(stream, l, part, at, &self.states_of(first, slots), mode)
    }
}

/// What a product is done with.
pub(super) struct Doer<'a> {
    pub(super) plans: &'a Plans,
    pub(super) layout: &'a Layout,
    pub(super) recipe: &'a Recipe,
    pub(super) calls: &'a Calls,
    pub(super) split: &'a Slice<f32>,
    pub(super) workspace: u64,
}

impl Doer<'_> {
    /// One product of layer `l` for the slots of `states`; `at` says where that of a slot and those behind it lie.
    pub(super) fn run(
        &self,
        stream: &Stream,
        l: usize,
        part: Part,
        at: impl Fn(usize) -> Addresses,
        states: &Slice<SlotState>,
        mode: Mode,
    ) -> Result<()> {
        if let (Some(ProductPath::Library(plan)), Ok(library)) = (self.plans.way(l, part), stream.context().blaslt()) {
            let slots = states.len();
            // As many members at once as the plan's scratch memory allows; the plan stays, and with it every bit.
            let most = library.most(plan, slots, WORKSPACE)?.max(1);
            for from in (0..slots).step_by(most) {
                let space = (self.workspace, WORKSPACE);
                // SAFETY: the addresses are of slabs that are laid out for these shapes; each stream has its own
                // workspace.
                unsafe { library.run(plan, most.min(slots - from), &at(from), space, stream)? };
            }
            return Ok(());
        }
        let product = product(self.layout, self.recipe, &self.layout.recurrents[l], part);
        self.calls.own().plain(stream, &product, &at(0), (states, mode), self.split, self.calls)
    }
}
