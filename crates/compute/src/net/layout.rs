//! Where everything lies: parameters in the arena, activations in buffers.
//!
//! A member's row of the arena holds, for every layer, the weights `[outputs, stride]` row-major (as PyTorch has them, each row padded
//! to [`PAD`] columns) and the bias `[outputs]`, all tensors on 256-byte borders. Outputs are padded to [`PAD`] rows as well. Padding is
//! zero, gets a zero gradient and stays zero, so that kernels need no borders; it is left out when parameters are saved.
//!
//! Activation buffers are `[P, B, stride]`. Branches write straight into their columns of the concatenation, so concat costs nothing.

use super::{Activation, Net};
use crate::error::{Error, Result};
use std::ops::Range;

/// Widths are padded to this many elements: 16 bytes of bf16.
pub const PAD: usize = 8;
/// Tensors begin on borders of this many f32 elements: 256 bytes (and 128 bytes in the bf16 copy).
const ALIGN: usize = 64;

/// An activation buffer `[P, B, stride]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Elements of a row, a multiple of [`PAD`].
    pub stride: usize,
}

/// Some columns of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which buffer.
    pub buffer: usize,
    /// First column, a multiple of [`PAD`].
    pub column: usize,
    /// Columns with padding, a multiple of [`PAD`].
    pub width: usize,
}

/// One layer, and where it reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linear {
    /// Readable: `trunk.0`, `fast.1`, `head.direction`.
    pub name: String,
    /// Where it reads.
    pub input: Place,
    /// Where it writes.
    pub output: Place,
    /// Columns of the input that are no padding, in order, relative to `input.column`.
    pub columns: Vec<Range<usize>>,
    /// Outputs without padding.
    pub outputs: usize,
    /// What follows the product.
    pub activation: Activation,
    /// Offset of the weights `[output.width, input.width]` in a member's row.
    pub weight: usize,
    /// Offset of the bias `[output.width]`.
    pub bias: usize,
    /// Whether its input has parameters before it, so that the gradient must go on.
    pub passes_back: bool,
}

impl Linear {
    /// Inputs without padding.
    pub fn inputs(&self) -> usize {
        self.columns.iter().map(Range::len).sum()
    }
}

/// Where everything of a net lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Activation buffers; the first `inputs` are the gathered inputs.
    pub buffers: Vec<Buffer>,
    /// Layers in walking order; the last `heads` are the heads.
    pub linears: Vec<Linear>,
    /// Inputs of the net.
    pub inputs: usize,
    /// Heads of the net.
    pub heads: usize,
    /// Elements of a member's row of the arena, a multiple of 64.
    pub params: usize,
}

impl Layout {
    /// The layout of a net, or what is wrong with the net.
    pub fn new(net: &Net) -> Result<Layout> {
        check(net)?;
        let mut made =
            Layout { buffers: vec![], linears: vec![], inputs: net.inputs.len(), heads: net.heads.len(), params: 0 };
        // One input without layers is its own concatenation; otherwise every branch writes its columns of a common buffer, and an
        // input that is passed on as it is is gathered there at once and needs no buffer of its own.
        let alone = net.inputs.len() == 1 && net.branches[0].layers.is_empty();
        for (input, branch) in net.inputs.iter().zip(&net.branches) {
            let width = (input.window * input.features).next_multiple_of(PAD);
            made.buffers.push(Buffer { stride: if alone || !branch.layers.is_empty() { width } else { 0 } });
        }
        // The width each branch leaves behind, and what of it is no padding.
        let ends: Vec<usize> = net
            .inputs
            .iter()
            .zip(&net.branches)
            .map(|(i, b)| b.layers.last().map_or(i.window * i.features, |layer| layer.width))
            .collect();
        let mut columns = Vec::new();
        let concat = if alone {
            columns.push(0..ends[0]);
            Place { buffer: 0, column: 0, width: made.buffers[0].stride }
        } else {
            let mut at = 0;
            for end in &ends {
                columns.push(at..at + end);
                at += end.next_multiple_of(PAD);
            }
            made.buffers.push(Buffer { stride: at });
            Place { buffer: made.buffers.len() - 1, column: 0, width: at }
        };
        for (i, (input, branch)) in net.inputs.iter().zip(&net.branches).enumerate() {
            let width = input.window * input.features;
            let mut from = Place { buffer: i, column: 0, width: width.next_multiple_of(PAD) };
            let mut real = width;
            for (l, layer) in branch.layers.iter().enumerate() {
                let wide = layer.width.next_multiple_of(PAD);
                let to = if l + 1 == branch.layers.len() {
                    Place { buffer: concat.buffer, column: columns[i].start, width: wide }
                } else {
                    made.buffers.push(Buffer { stride: wide });
                    Place { buffer: made.buffers.len() - 1, column: 0, width: wide }
                };
                let columns = std::iter::once(0..real).collect();
                made.push(format!("{}.{l}", input.name), from, to, columns, layer.width, layer.activation, l > 0);
                (from, real) = (to, layer.width);
            }
        }
        let mut from = concat;
        let mut passes = net.branches.iter().any(|b| !b.layers.is_empty());
        for (l, layer) in net.trunk.iter().enumerate() {
            let wide = layer.width.next_multiple_of(PAD);
            made.buffers.push(Buffer { stride: wide });
            let to = Place { buffer: made.buffers.len() - 1, column: 0, width: wide };
            made.push(format!("trunk.{l}"), from, to, columns, layer.width, layer.activation, passes);
            (from, columns, passes) = (to, std::iter::once(0..layer.width).collect(), true);
        }
        for head in &net.heads {
            let wide = head.classes.next_multiple_of(PAD);
            made.buffers.push(Buffer { stride: wide });
            let to = Place { buffer: made.buffers.len() - 1, column: 0, width: wide };
            made.push(
                format!("head.{}", head.name),
                from,
                to,
                columns.clone(),
                head.classes,
                Activation::Identity,
                passes,
            );
        }
        made.params = made.params.next_multiple_of(ALIGN);
        Ok(made)
    }

    /// `[inputs]` where each input is gathered: its own buffer, or its columns of the concatenation if its branch has no layers.
    pub fn gathered(&self, net: &Net) -> Vec<Place> {
        let alone = net.inputs.len() == 1;
        let mut at = 0;
        let concat = net.inputs.len();
        let each = net.inputs.iter().zip(&net.branches).enumerate().map(|(i, (input, branch))| {
            let width = input.window * input.features;
            let own = Place { buffer: i, column: 0, width: width.next_multiple_of(PAD) };
            let end = branch.layers.last().map_or(width, |l| l.width).next_multiple_of(PAD);
            let place = if branch.layers.is_empty() && !alone {
                Place { buffer: concat, column: at, width: own.width }
            } else {
                own
            };
            at += end;
            place
        });
        each.collect()
    }

    #[expect(clippy::too_many_arguments, reason = "a layer is these seven things")]
    fn push(
        &mut self,
        name: String,
        input: Place,
        output: Place,
        columns: Vec<Range<usize>>,
        outputs: usize,
        activation: Activation,
        passes_back: bool,
    ) {
        let weight = self.params.next_multiple_of(ALIGN);
        let bias = (weight + input.width * output.width).next_multiple_of(ALIGN);
        self.params = bias + output.width;
        self.linears.push(Linear { name, input, output, columns, outputs, activation, weight, bias, passes_back });
    }
}

/// What is wrong with a net, in one sentence.
pub(super) fn check(net: &Net) -> Result<()> {
    let asked = |what: String| Err(Error::Asked(what));
    if net.inputs.is_empty() || net.heads.is_empty() {
        return asked("a net needs at least one input and one head, as in `16 - 64 - 3`".into());
    }
    if net.branches.len() != net.inputs.len() {
        return asked(format!(
            "{} inputs and {} branches; each input has one branch",
            net.inputs.len(),
            net.branches.len()
        ));
    }
    let names = net.inputs.iter().map(|i| &i.name).chain(net.heads.iter().map(|h| &h.name));
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        // A digit in front would read as a size in a net's text.
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| !c.is_ascii_digit());
        if !plain || !seen.insert(name) || ["trunk", "head", "concat"].contains(&name.as_str()) {
            return asked(format!(
                "`{name}` is no name here: letters, digits (not in front) and _, each used once, not trunk, head or concat"
            ));
        }
    }
    for input in &net.inputs {
        if input.features == 0 || input.window == 0 || input.features.saturating_mul(input.window) > 1 << 16 {
            return asked(format!(
                "input {}: {} features × {} rows; both at least 1, together at most 65536",
                input.name, input.features, input.window
            ));
        }
    }
    for layer in net.branches.iter().flat_map(|b| &b.layers).chain(&net.trunk) {
        if !(1..=4096).contains(&layer.width) {
            return asked(format!("a layer of {} units; 1 to 4096 are possible", layer.width));
        }
    }
    for head in &net.heads {
        if !(2..=256).contains(&head.classes) {
            return asked(format!("head {}: {} classes; 2 to 256 are possible", head.name, head.classes));
        }
    }
    Ok(())
}
