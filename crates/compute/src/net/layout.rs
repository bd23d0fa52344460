//! Where everything lies: parameters in the arena, activations in buffers.
//!
//! A member's row of the arena holds, for every layer, the weights `[outputs, stride]` row-major (as PyTorch has them,
//! each row padded to [`PAD`] columns) and the bias `[outputs]`, all tensors on 256-byte borders. Outputs are padded to
//! [`PAD`] rows as well. Padding is zero, gets a zero gradient and stays zero, so that kernels need no borders; it is
//! left out when parameters are saved. Recurrent layers come first, each as one matrix ([`Recurrent`]). The gain and
//! the shift of a norm follow the bias of their layer.
//!
//! Activation buffers are `[P, B, stride]`. Branches write straight into their columns of the concatenation, so concat
//! costs nothing. The window of a recurrent branch is never gathered whole: its buffer has stride 0, and engines keep
//! what its steps need.

use super::check::{check, reads};
use super::{Activation, Branch, Input, Layer, Net, Parts, Recurrent, Tower, UNITS};
use crate::error::Result;
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

/// A layer's norm, and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norm {
    /// Offset of the gain `[output.width]` in a member's row; the shift of the same length follows at once.
    pub gain: usize,
    /// What the way back needs: the normalised values in the first `output.width` columns of a buffer of its own. One
    /// more column is theirs for one over the deviation, where an engine holds it in the same numbers.
    pub normed: Place,
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
    /// The norm between the two, where there is one.
    pub norm: Option<Norm>,
    /// How many of a hundred outputs a training step leaves out.
    pub dropout: u8,
    /// Offset of the weights `[output.width, input.width]` in a member's row.
    pub weight: usize,
    /// Offset of the bias `[output.width]`.
    pub bias: usize,
    /// Whether its input has parameters before it, so that the gradient must go on.
    pub passes_back: bool,
    /// Whether another layer, gone through before it on the way back, has left its share of that gradient there.
    pub adds_back: bool,
}

impl Linear {
    /// Inputs without padding.
    pub fn inputs(&self) -> usize {
        self.columns.iter().map(Range::len).sum()
    }

    /// Whether only the activation follows the product.
    pub fn plain(&self) -> bool {
        self.norm.is_none() && self.dropout == 0
    }
}

/// Where everything of a net lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Activation buffers; the first `inputs` are the gathered inputs.
    pub buffers: Vec<Buffer>,
    /// Recurrent layers in walking order; all of them run before `linears`.
    pub recurrents: Vec<Recurrent>,
    /// Layers in walking order; the last `heads` are the heads.
    pub linears: Vec<Linear>,
    /// Inputs of the net.
    pub inputs: usize,
    /// Heads of the net.
    pub heads: usize,
    /// Elements of a member's row of the arena, a multiple of 64.
    pub params: usize,
    /// The buffer whose gradient begins with zeros, because towers read columns of it: the concatenation.
    pub zeroed: Option<usize>,
}

impl Layout {
    /// The layout of a net, or what is wrong with the net.
    pub fn new(net: &Net) -> Result<Layout> {
        check(net)?;
        if net.has_memory() {
            return Ok(Parts::new(net)?.whole());
        }
        let mut made = Layout {
            buffers: vec![],
            recurrents: vec![],
            linears: vec![],
            inputs: net.inputs.len(),
            heads: net.heads.len(),
            params: 0,
            zeroed: None,
        };
        // One input without layers is its own concatenation; otherwise every branch writes its columns of a common
        // buffer, and an input that is passed on as it is is gathered there at once and needs no buffer of its own.
        let alone = net.inputs.len() == 1 && net.branches[0] == Branch::default();
        for (input, branch) in net.inputs.iter().zip(&net.branches) {
            let width = (input.window * input.features).next_multiple_of(PAD);
            let own = alone || (branch.recurrent.is_empty() && !branch.layers.is_empty());
            made.buffers.push(Buffer { stride: if own { width } else { 0 } });
        }
        // The width each branch leaves behind, and what of it is no padding.
        let ends: Vec<usize> = net.inputs.iter().zip(&net.branches).map(|(i, b)| end(i, b)).collect();
        let mut columns: Vec<Range<usize>> = Vec::new();
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
        // What the layers of each branch read, and how much of it is no padding.
        let mut sources = Vec::new();
        for (i, (input, branch)) in net.inputs.iter().zip(&net.branches).enumerate() {
            let real = branch.recurrent.last().copied().unwrap_or(input.window * input.features);
            let width = real.next_multiple_of(PAD);
            let mut from = Place { buffer: i, column: 0, width };
            if !branch.recurrent.is_empty() {
                from = if branch.layers.is_empty() {
                    Place { buffer: concat.buffer, column: columns[i].start, width }
                } else {
                    made.buffers.push(Buffer { stride: width });
                    Place { buffer: made.buffers.len() - 1, column: 0, width }
                };
                made.walk(i, input, branch, from);
            }
            sources.push((from, real));
        }
        for (i, (input, branch)) in net.inputs.iter().zip(&net.branches).enumerate() {
            let (mut from, mut real) = sources[i];
            for (l, layer) in branch.layers.iter().enumerate() {
                let wide = layer.width.next_multiple_of(PAD);
                let to = if l + 1 == branch.layers.len() {
                    Place { buffer: concat.buffer, column: columns[i].start, width: wide }
                } else {
                    made.buffers.push(Buffer { stride: wide });
                    Place { buffer: made.buffers.len() - 1, column: 0, width: wide }
                };
                let columns = std::iter::once(0..real).collect();
                let passes = l > 0 || !branch.recurrent.is_empty();
                made.push(format!("{}.{l}", input.name), from, to, columns, *layer, passes);
                (from, real) = (to, layer.width);
            }
        }
        let trunk = Tower { layers: net.trunk.clone(), heads: net.heads.len(), ..Tower::default() };
        let towers = if net.towers.is_empty() { std::slice::from_ref(&trunk) } else { &net.towers };
        // What each tower leaves to its heads, which all come last.
        let mut ends = Vec::new();
        for (t, tower) in towers.iter().enumerate() {
            let read = reads(net, tower).unwrap_or_default();
            let first = columns[read.start].start;
            let end = columns[read.end - 1].end;
            let mut from = if read.len() == columns.len() {
                concat
            } else {
                Place { column: first, width: (end - first).next_multiple_of(PAD), ..concat }
            };
            let mut own: Vec<Range<usize>> =
                columns[read.clone()].iter().map(|c| c.start - first..c.end - first).collect();
            let mut passes = net.branches[read].iter().any(|b| *b != Branch::default());
            for (l, layer) in tower.layers.iter().enumerate() {
                let wide = layer.width.next_multiple_of(PAD);
                made.buffers.push(Buffer { stride: wide });
                let to = Place { buffer: made.buffers.len() - 1, column: 0, width: wide };
                let name = if net.towers.is_empty() { format!("trunk.{l}") } else { format!("tower.{t}.{l}") };
                made.push(name, from, to, own, *layer, passes);
                (from, own, passes) = (to, std::iter::once(0..layer.width).collect(), true);
            }
            ends.extend(std::iter::repeat_n((from, own, passes), tower.heads));
        }
        for (head, (from, own, passes)) in net.heads.iter().zip(ends) {
            let wide = head.classes.next_multiple_of(PAD);
            made.buffers.push(Buffer { stride: wide });
            let to = Place { buffer: made.buffers.len() - 1, column: 0, width: wide };
            let layer = Layer::new(head.classes, Activation::Identity);
            made.push(format!("head.{}", head.name), from, to, own, layer, passes);
        }
        // Where several layers read, their gradients are added: the first on the way back writes. Towers may read some
        // columns each, so there all add to zeros.
        let learned = net.branches.iter().any(|b| *b != Branch::default());
        made.zeroed = (!net.towers.is_empty() && learned).then_some(concat.buffer);
        for l in 0..made.linears.len() {
            let input = made.linears[l].input;
            let later = made.linears[l + 1..].iter().any(|other| other.input == input);
            made.linears[l].adds_back = later || made.zeroed == Some(input.buffer);
        }
        made.params = made.params.next_multiple_of(ALIGN);
        Ok(made)
    }

    /// Parameters without padding.
    pub fn parameters(&self) -> usize {
        let each = |l: &Linear| (l.inputs() + if l.norm.is_some() { 3 } else { 1 }) * l.outputs;
        let linears = self.linears.iter().map(each).sum::<usize>();
        linears + self.recurrents.iter().map(Recurrent::parameters).sum::<usize>()
    }

    /// The concatenation, where some tower reads columns of it alone.
    pub fn read_in_columns(&self) -> Option<usize> {
        let concat = self.zeroed?;
        let some = |l: &Linear| l.input.buffer == concat && l.input.width < self.buffers[concat].stride;
        self.linears.iter().any(some).then_some(concat)
    }

    /// Whether a training step leaves values out.
    pub fn drops(&self) -> bool {
        self.linears.iter().any(|l| l.dropout > 0) || self.recurrents.iter().any(|r| r.dropout > 0)
    }

    /// `[inputs]` where each input is gathered: its own buffer, or its columns of the concatenation if its branch has
    /// no layers. None for a recurrent branch, which reads the table row by row.
    pub fn gathered(&self, net: &Net) -> Vec<Option<Place>> {
        let alone = net.inputs.len() == 1;
        let mut at = 0;
        let concat = net.inputs.len();
        let each = net.inputs.iter().zip(&net.branches).enumerate().map(|(i, (input, branch))| {
            let width = input.window * input.features;
            let own = Place { buffer: i, column: 0, width: width.next_multiple_of(PAD) };
            let place = if branch.layers.is_empty() && !alone {
                Place { buffer: concat, column: at, width: own.width }
            } else {
                own
            };
            at += end(input, branch).next_multiple_of(PAD);
            branch.recurrent.is_empty().then_some(place)
        });
        each.collect()
    }

    /// The recurrent layers of a branch, one above the other.
    fn walk(&mut self, i: usize, input: &Input, branch: &Branch, to: Place) {
        let (mut below, mut features, mut wide) = (None, input.features, input.features.next_multiple_of(UNITS));
        for (l, &hidden) in branch.recurrent.iter().enumerate() {
            let mut recurrent = Recurrent {
                name: format!("{}.lstm.{l}", input.name),
                input: i,
                below,
                window: input.window,
                features,
                wide,
                hidden,
                units: hidden.next_multiple_of(UNITS),
                weight: 0,
                output: (l + 1 == branch.recurrent.len()).then_some(to),
                dropout: if l + 1 == branch.recurrent.len() { branch.dropout } else { 0 },
            };
            recurrent.weight = self.params.next_multiple_of(ALIGN);
            self.params = recurrent.weight + recurrent.size();
            (below, features, wide) = (Some(self.recurrents.len()), hidden, recurrent.units);
            self.recurrents.push(recurrent);
        }
    }

    fn push(
        &mut self,
        name: String,
        input: Place,
        output: Place,
        columns: Vec<Range<usize>>,
        layer: Layer,
        passes_back: bool,
    ) {
        let weight = self.params.next_multiple_of(ALIGN);
        let bias = (weight + input.width * output.width).next_multiple_of(ALIGN);
        self.params = bias + output.width;
        let norm = layer.norm.then(|| {
            self.buffers.push(Buffer { stride: output.width + PAD });
            let normed = Place { buffer: self.buffers.len() - 1, column: 0, width: output.width };
            let gain = self.params.next_multiple_of(ALIGN);
            self.params = gain + 2 * output.width;
            Norm { gain, normed }
        });
        let Layer { width: outputs, activation, dropout, .. } = layer;
        self.linears.push(Linear {
            name,
            input,
            output,
            columns,
            outputs,
            activation,
            norm,
            dropout,
            weight,
            bias,
            passes_back,
            adds_back: false,
        });
    }
}

/// What a branch leaves behind, without padding.
fn end(input: &Input, branch: &Branch) -> usize {
    let last = branch.layers.last().map(|layer| layer.width).or(branch.recurrent.last().copied());
    last.unwrap_or(input.window * input.features)
}
