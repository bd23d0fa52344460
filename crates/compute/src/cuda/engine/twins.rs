//! Two towers of the same shape, both layers of a pair at once: each product is one launch for both.
//!
//! Where a member's rows are few, a product of one tower leaves half of the card idle, and every kernel between
//! products is a wait. Plans are those for two ([`Products::twins`](super::products::Products)), and a launch for both
//! towers has the bits of one for each: with several members, which fill the card, towers go as in any other net.

use super::nets::BiasSum;
use super::products::{ProductKind, ProductPath, hopper_shape, single};
use super::{Engine, Mode};
use crate::cuda::arguments::Address;
use crate::cuda::blaslt::{Addresses, Matrix, Plan, Product};
use crate::cuda::calls;
use crate::cuda::graph::Stream;
use crate::cuda::hopper;
use crate::cuda::workspace::WORKSPACE;
use crate::error::Result;

impl Engine {
    /// The first `count` layers of one slot, pair by pair.
    pub(super) fn layers_of_twins(&self, slot: usize, mode: Mode, count: usize) -> Result<()> {
        let pairs = self.products.twins.iter().filter(|(i, j)| *i.max(j) < count);
        pairs.copied().try_for_each(|pair| self.pair(&self.main, 0, pair, (ProductKind::Forward, mode), slot))
    }

    /// Gradients of one slot. The first layer's weights come last on the main stream, with the sums of all biases; the
    /// other weights go beside.
    pub(super) fn backward_of_twins(&self, slot: usize, past: bool) -> Result<()> {
        let (layout, at, batch) = (&self.layout, &self.at, self.recipe.batch);
        let (states, last) = (self.states_of(slot, 1), layout.linears.len());
        let heads = last - layout.heads;
        // Partial sums of each bias, and how many.
        let mut summed = vec![None; last];
        if past || self.path != super::KernelPath::CallersLoss {
            let blocks = if past { calls::callers_blocks(batch) } else { self.loss_blocks() };
            for (made, partial) in summed.iter_mut().zip(&at.bias_partial).skip(heads) {
                *made = Some((*partial, blocks));
            }
        }
        for &(i, j) in self.products.twins.iter().rev() {
            let work = (ProductKind::Weight, Mode::Step);
            for k in [i, j] {
                if summed[k].is_none() {
                    let delta = self.rows(k, self.addresses(k, ProductKind::Weight, slot, false).left);
                    self.calls.column_sum(&self.main, &states, delta, &at.bias_partial[k])?;
                    summed[k] = Some((at.bias_partial[k], calls::blocks(batch)));
                }
            }
            // Nothing is left on the main stream but the first layer's weights.
            if self.products.layers[i].back.is_none() {
                self.sum_biases(slot, &summed)?;
                self.pair(&self.main, 0, (i, j), work, slot)?;
                continue;
            }
            self.events[i].record(&self.main)?;
            self.side.after(&self.events[i])?;
            self.pair(&self.side, 1, (i, j), work, slot)?;
            let given = past && i >= heads;
            if !given {
                self.pair(&self.main, 0, (i, j), (ProductKind::Back, Mode::Step), slot)?;
            }
            for k in [i, j] {
                let Some(before) = single(layout, &layout.linears[k]) else { continue };
                let blocks = match &self.products.layers[k].back {
                    _ if given => calls::callers_blocks(batch),
                    Some(ProductPath::Hopper(_)) => hopper::blocks(batch),
                    _ => {
                        let y = self.rows(before, self.addresses(before, ProductKind::Forward, slot, false).out);
                        let delta = self.addresses(before, ProductKind::Weight, slot, false).left;
                        let (act, partial) = (layout.linears[before].activation, &at.bias_partial[before]);
                        self.calls.derive_sum(&self.main, &states, (y, delta), act, partial)?;
                        calls::blocks(batch)
                    }
                };
                summed[before] = Some((at.bias_partial[before], blocks));
            }
        }
        self.events[last].record(&self.side)?;
        self.main.after(&self.events[last])
    }

    /// All biases of one slot, from the partial sums of every layer.
    fn sum_biases(&self, slot: usize, summed: &[Option<(crate::cuda::Slice<f32>, usize)>]) -> Result<()> {
        if self.calls.only_products {
            return Ok(());
        }
        let layers = self.layout.linears.iter().zip(summed);
        let each = layers.filter_map(|(linear, made)| {
            let (partial, blocks) = made.as_ref()?;
            Some(BiasSum {
                partial: Address(partial.address()),
                out: Address(self.gradient(slot, linear.bias)),
                n: u32::try_from(linear.output.width).unwrap_or(u32::MAX),
                blocks: u32::try_from(*blocks).unwrap_or(u32::MAX),
            })
        });
        self.bias_sums.add(&self.main, self.states_of(slot, 1), &each.collect::<Vec<_>>())
    }

    /// One kind of product of both layers of a pair.
    fn pair(
        &self,
        stream: &Stream,
        workspace: usize,
        (i, j): (usize, usize),
        (kind, mode): (ProductKind, Mode),
        slot: usize,
    ) -> Result<()> {
        let paths = (self.products.path(i, kind), self.products.path(j, kind));
        let (Some(first), Some(second)) = paths else { return Ok(()) };
        let (at, other) = (self.addresses(i, kind, slot, false), self.addresses(j, kind, slot, false));
        match (first, second) {
            (ProductPath::Library(plan), ProductPath::Library(twin)) if plan.algorithm == twin.algorithm => {
                if let (Some(product), Ok(library)) = (apart(&plan.product, &at, &other), self.context.blaslt()) {
                    let both = Plan { product, algorithm: plan.algorithm };
                    if library.supports(&both, 2, WORKSPACE)? {
                        let space = (self.workspace.addresses()[workspace], WORKSPACE);
                        // SAFETY: both towers' addresses are of this engine's slab, laid out for these shapes; each
                        // stream has its own workspace.
                        return unsafe { library.run(&both, 2, &at, space, stream) };
                    }
                }
            }
            (ProductPath::Hopper(_), ProductPath::Hopper(_)) if kind == ProductKind::Back => {
                if let Some(back) = self.back_of_twins((i, j), (at, other), mode, slot) {
                    return self.calls.hopper()?.back(stream, &back);
                }
            }
            _ => {}
        }
        self.product(stream, workspace, i, (kind, mode), first, (slot, 1), false)?;
        self.product(stream, workspace, j, (kind, mode), second, (slot, 1), false)
    }

    /// Both products back on Hopper's units, where the second tower lies behind the first.
    fn back_of_twins(
        &self,
        (i, j): (usize, usize),
        (at, other): (Addresses, Addresses),
        mode: Mode,
        slot: usize,
    ) -> Option<hopper::Back> {
        let layout = &self.layout;
        let (before, beside) = (single(layout, &layout.linears[i])?, single(layout, &layout.linears[j])?);
        let out = |k: usize| self.addresses(k, ProductKind::Forward, slot, false).out;
        let partial = [before, beside].map(|k| self.at.bias_partial[k]);
        let elements = |from: u64, to: u64, size: u64| usize::try_from(to.checked_sub(from)? / size).ok();
        let twin = hopper::Twin {
            dy: elements(at.left, other.left, 2)?,
            weights: elements(at.right, other.right, 2)?,
            dx: elements(at.out, other.out, 2)?,
            y: elements(out(before), out(beside), 2)?,
            partial: elements(partial[0].address(), partial[1].address(), 4)?,
        };
        Some(hopper::Back {
            shape: hopper_shape(layout, &layout.linears[i], self.recipe.batch),
            at,
            y: out(before),
            derivative: layout.linears[before].activation,
            states: self.states_of(slot, 1),
            mode,
            partial: partial[0],
            twin: Some(twin),
        })
    }
}

/// The same product with its two towers as members.
fn apart(product: &Product, at: &Addresses, other: &Addresses) -> Option<Product> {
    let elements = |from: u64, to: u64, size: u64| Some(to.checked_sub(from)? / size);
    let matrix = |m: &Matrix, from: u64, to: u64| Some(Matrix { member: elements(from, to, m.numbers.size())?, ..*m });
    Some(Product {
        left: matrix(&product.left, at.left, other.left)?,
        right: matrix(&product.right, at.right, other.right)?,
        out: matrix(&product.out, at.out, other.out)?,
        bias_member: elements(at.bias, other.bias, product.out.numbers.size())?,
        ..*product
    })
}
