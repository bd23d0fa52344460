//! A recurrent layer (LSTM, Hochreiter and Schmidhuber 1997, with a forget gate) and where its parameters lie.
//!
//! One matrix holds everything a step multiplies with, `[wide + units + 1, units, 4]`: rows are the inputs, then h of
//! the step before, then the bias; the gates i, f, g, o lie side by side for each unit, so that a unit's four sums end
//! next to each other. Files have PyTorch's tensors instead: `weight_ih` `[4 H, F]`, `weight_hh` `[4 H, H]` and `bias`
//! `[4 H]`, gates stacked i, f, g, o. PyTorch has two biases that are only ever added; ours is their sum.

use super::layout::Place;

/// Units are padded to this many: a row of tensor-core tiles.
pub const UNITS: usize = 16;
/// The gates of a unit, in order: input, forget, candidate, output.
pub const GATES: usize = 4;

/// One recurrent layer, and where it reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurrent {
    /// Readable: `fast.lstm.0`.
    pub name: String,
    /// Which input of the net its branch reads.
    pub input: usize,
    /// The recurrent layer whose every h it reads; none reads the rows of the table.
    pub below: Option<usize>,
    /// Steps: rows of the window.
    pub window: usize,
    /// Inputs of a step without padding.
    pub features: usize,
    /// Inputs of a step, padded to [`UNITS`]; above another layer the units of that one.
    pub wide: usize,
    /// Units without padding.
    pub hidden: usize,
    /// Units, padded to [`UNITS`].
    pub units: usize,
    /// Offset in a member's row of the weights `[wide + units + 1, units, 4]`.
    pub weight: usize,
    /// Where the last h goes: of the top layer of a branch only. Its width is `hidden` padded to `PAD`; what `units`
    /// has beyond is not written.
    pub output: Option<Place>,
    /// How many of a hundred numbers of that h a training step leaves out; none of a layer below another.
    pub dropout: u8,
}

/// One of the three tensors that files have.
pub(super) struct Part {
    /// `fast.lstm.0.weight_ih`
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    /// Where its elements lie in a member's row, in order.
    pub(super) places: Vec<usize>,
}

impl Recurrent {
    /// Elements of its weights and bias, padding included.
    pub fn size(&self) -> usize {
        (self.wide + self.units + 1) * self.units * GATES
    }

    /// Parameters without padding.
    pub fn parameters(&self) -> usize {
        GATES * self.hidden * (self.features + self.hidden + 1)
    }

    /// Where the bias `[units, 4]` lies in a member's row.
    pub fn bias(&self) -> usize {
        self.at(self.wide + self.units, 0, 0)
    }

    /// Where one number lies in a member's row. Rows are inputs from 0 on, then h from `wide` on, then the bias.
    pub fn at(&self, row: usize, unit: usize, gate: usize) -> usize {
        self.weight + (row * self.units + unit) * GATES + gate
    }

    /// `weight_ih`, `weight_hh` and `bias`, as files have them.
    pub(super) fn parts(&self) -> [Part; 3] {
        let part = |kind: &str, rows: std::ops::Range<usize>| {
            let gates = (0..GATES).flat_map(|gate| (0..self.hidden).map(move |unit| (gate, unit)));
            let places = gates.flat_map(|(gate, unit)| rows.clone().map(move |row| self.at(row, unit, gate))).collect();
            let mut shape = vec![GATES * self.hidden];
            shape.extend((kind != "bias").then_some(rows.len()));
            Part { name: format!("{}.{kind}", self.name), shape, places }
        };
        let bias = self.wide + self.units;
        [
            part("weight_ih", 0..self.features),
            part("weight_hh", self.wide..self.wide + self.hidden),
            part("bias", bias..bias + 1),
        ]
    }
}
