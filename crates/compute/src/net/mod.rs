//! A network in its fixed grammar: inputs → branches → concat → trunk or towers → heads.
//!
//! [`Net`] is what a user says, [`Layout`] is where everything lies: parameters in a member's row of the arena,
//! activations in buffers. There is no general graph, so a layer is a [`Linear`] with an input place and an output
//! place, in walking order; a branch may begin with layers that walk through its window, which are [`Recurrent`].

mod check;
mod init;
mod layout;
mod memory;
pub mod params;
mod recurrent;
#[cfg(test)]
mod tests;
mod text;

pub use init::{Start, init, init_by};
pub use layout::{Buffer, Layout, Linear, Norm, PAD, Place};
pub(crate) use memory::Parts;
pub use params::{flatten, load, pick, save};
pub use recurrent::{GATES, Recurrent, UNITS};

/// What follows a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Nothing.
    Identity,
    /// `max(0, x)`.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
}

/// What a sample brings along: rows of one table, or numbers of its own.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Input {
    /// A readable name; prefixes the names of its branch's parameters.
    pub name: String,
    /// Features of a row that are read, from the first on.
    pub features: usize,
    /// How many rows: the sample's own and those before it. 1 is a plain row.
    pub window: usize,
    /// Whether its numbers come with each row of a batch (an account's state, a code) instead of from a table.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dense: bool,
}

impl Input {
    /// Rows of a table.
    pub fn new(name: &str, features: usize, window: usize) -> Input {
        Input { name: name.into(), features, window, dense: false }
    }

    /// Numbers that come with each row of a batch.
    pub fn dense(name: &str, features: usize) -> Input {
        Input { name: name.into(), features, window: 1, dense: true }
    }
}

/// A layer: a product with bias, and what follows it: a norm where it has one, the activation, and in training some
/// values left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Layer {
    /// Outputs, 1 to 4096.
    pub width: usize,
    /// What follows.
    pub activation: Activation,
    /// Whether the layer is normalised before its activation (Ba et al. 2016): over its units, with a gain and a shift
    /// that are learned.
    #[serde(default, skip_serializing_if = "is_false")]
    pub norm: bool,
    /// How many of a hundred outputs a training step leaves out (Srivastava et al. 2014), up to 99; the others are
    /// scaled up.
    #[serde(default, skip_serializing_if = "is_none")]
    pub dropout: u8,
}

impl Layer {
    /// A plain one.
    pub fn new(width: usize, activation: Activation) -> Layer {
        Layer { width, activation, norm: false, dropout: 0 }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(norm: &bool) -> bool {
    !norm
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(percent: &u8) -> bool {
    *percent == 0
}

/// What is done to one input before all are put side by side; no layers pass it on as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Branch {
    /// Units of LSTM layers, 1 to 256 each, that walk through the window one above the other, at most three; the last
    /// `h` of the top one goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recurrent: Vec<usize>,
    /// How many of a hundred numbers of that `h` a training step leaves out, up to 99.
    #[serde(default, skip_serializing_if = "is_none")]
    pub dropout: u8,
    /// Layers in order.
    pub layers: Vec<Layer>,
}

/// An output: as many numbers as classes, actions or values.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Head {
    /// A readable name.
    pub name: String,
    /// Numbers, 1 to 256; a classifier has at least 2.
    pub classes: usize,
}

/// A network. `branches` has one for each input.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Net {
    /// What a sample brings, in order.
    pub inputs: Vec<Input>,
    /// `[inputs]`
    pub branches: Vec<Branch>,
    /// Layers behind the concatenation; none where there are towers.
    pub trunk: Vec<Layer>,
    /// Linear heads on the last layer of the trunk, or tower after tower on the last layer of each.
    pub heads: Vec<Head>,
    /// Several trunks beside each other, each with heads of its own; empty where there is one trunk, unless that begins
    /// with LSTM layers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub towers: Vec<Tower>,
}

/// One of several trunks beside each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tower {
    /// The inputs whose branches it reads, neighbours in the net's order; all of them where it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// Units of LSTM layers below the others, 1 to 256 each, at most three. They read a row at a time, and what they
    /// remember is carried from one row of a sequence to the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recurrent: Vec<usize>,
    /// Layers in order.
    pub layers: Vec<Layer>,
    /// How many of the net's heads are on its last layer.
    pub heads: usize,
}

impl Net {
    /// Numbers that come with each row of a batch, of all dense inputs together.
    pub fn extras(&self) -> usize {
        self.inputs.iter().filter(|i| i.dense).map(|i| i.features).sum()
    }

    /// Whether what comes out for a row depends on the rows before it in a sequence, by a state that is carried.
    pub fn has_memory(&self) -> bool {
        self.towers.iter().any(|tower| !tower.recurrent.is_empty())
    }

    /// Which of the tables an input reads, in their order; none of a dense one.
    pub fn table_of(&self, input: usize) -> Option<usize> {
        (!self.inputs[input].dense).then(|| self.inputs[..input].iter().filter(|i| !i.dense).count())
    }

    /// Where a dense input's numbers begin among those of a row.
    pub fn extra_of(&self, input: usize) -> usize {
        self.inputs[..input].iter().filter(|i| i.dense).map(|i| i.features).sum()
    }
}
