//! A net as a short text, and back: easy to type in a shell without quotes, easy to read in a settings file.
//!
//! ```text
//! 128-2048-1024-512-3                                                         features, hidden layers, classes
//! 16x50-64t-64-3                                                              windows of 50 rows; a tanh layer
//! 16-128n-128d10-64ntd5-3                                                     layer norm; 10 % dropout; all of it
//! 16x50-lstm64-3                                                              an LSTM through the 50 rows
//! 16x50-lstm64d20-3                                                           the same, 20 % of its last state left out
//! fast:16x50-64-32t + slow:12-32 / 128-64 / direction:3 + size:5              inputs with branches / trunk / heads
//! fast:16 + account:dense7 / 64-64 | (fast) 32 / policy:3 | value:1           numbers of each row; two towers
//! row:16 + account:dense7 / lstm64-64 | lstm64-64 / policy:3 | value:1        LSTMs that carry their state on
//! ```
//!
//! `-` leads to the next layer, `+` puts side by side, `/` separates inputs, trunk and heads (the trunk may be left
//! out), `name:` names an input or a head. A layer is its width and its activation, ReLU where none is said: `r` or
//! `relu`, `t` or `tanh`, `i` or `identity`. In front of the activation `n` or `norm` normalises the layer before it;
//! behind it `d10` (or `drop10`) leaves out 10 % of the outputs in training. A branch may begin with one to three
//! recurrent layers, `lstm` and their units: they walk through the window, and the last state of the top one goes on,
//! with `d20` behind its units less 20 % of it in training. `dense` and a number are numbers that come with each row of
//! a batch, not from a table; such an input has a name. `|` puts towers side by side, and their heads in the same
//! order; names in brackets are the inputs that a tower reads, all of them without, and `()` is a tower without layers.
//! Where a tower, or the trunk, begins with `lstm`, these layers read all inputs a row at a time, and their state is
//! carried from each row of a sequence to the next. One input needs no name (it is `rows`), nor does one head
//! (`class`). Spaces are free. Without any `/` the last number is the classes and all layers but recurrent ones are
//! trunk. What is printed is the shortest of these and reads back as the same net.

mod reader;

use super::check::check;
use super::{Activation, Head, Layer, Net};
use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Longer texts are refused before they are read.
const LONGEST: usize = 10_000;
/// The only input's name, unless it has one.
const INPUT: &str = "rows";
/// What stands before the size of numbers that come with each row.
const DENSE: &str = "dense";
/// The only head's name, unless it has one.
const HEAD: &str = "class";

impl FromStr for Net {
    type Err = Error;

    fn from_str(text: &str) -> Result<Net> {
        if text.len() > LONGEST {
            return Err(Error::Invalid(format!("a net of {} characters; at most {LONGEST} are read", text.len())));
        }
        let net = reader::read(text)?;
        check(&net)?;
        Ok(net)
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers = |f: &mut fmt::Formatter<'_>, layers: &[Layer], mut between: &str| {
            for layer in layers {
                write!(f, "{between}{layer}")?;
                between = "-";
            }
            Ok(())
        };
        // The names that need not be said.
        let plain = |name: &str, count: usize, usual: &str| count == 1 && name == usual;
        for (i, (input, branch)) in self.inputs.iter().zip(&self.branches).enumerate() {
            f.write_str(if i > 0 { " + " } else { "" })?;
            if !plain(&input.name, self.inputs.len(), INPUT) || input.dense {
                write!(f, "{}:", input.name)?;
            }
            write!(f, "{}{}", if input.dense { DENSE } else { "" }, input.features)?;
            if input.window != 1 {
                write!(f, "x{}", input.window)?;
            }
            branch.recurrent.iter().try_for_each(|units| write!(f, "-lstm{units}"))?;
            if branch.dropout > 0 {
                write!(f, "d{}", branch.dropout)?;
            }
            layers(f, &branch.layers, "-")?;
        }
        let branched = self.inputs.len() != 1 || self.branches.iter().any(|b| !b.layers.is_empty());
        if let ([Head { name, classes }], false) = (self.heads.as_slice(), branched || self.inputs[0].dense)
            && name == HEAD
        {
            layers(f, &self.trunk, "-")?;
            return write!(f, "-{classes}");
        }
        layers(f, &self.trunk, " / ")?;
        for (t, tower) in self.towers.iter().enumerate() {
            f.write_str(if t > 0 { " | " } else { " / " })?;
            let empty = tower.layers.is_empty() && tower.recurrent.is_empty();
            let named = !tower.reads.is_empty() || empty;
            if named {
                write!(f, "({})", tower.reads.join(" "))?;
            }
            let mut between = if named { " " } else { "" };
            for units in &tower.recurrent {
                write!(f, "{between}lstm{units}")?;
                between = "-";
            }
            layers(f, &tower.layers, between)?;
        }
        // Where the heads of each tower but the first begin.
        let firsts = self.towers.iter().scan(0, |at, tower| Some(std::mem::replace(at, *at + tower.heads)));
        let firsts: Vec<usize> = firsts.skip(1).collect();
        for (i, head) in self.heads.iter().enumerate() {
            f.write_str(match i {
                0 => " / ",
                _ if firsts.contains(&i) => " | ",
                _ => " + ",
            })?;
            if !plain(&head.name, self.heads.len(), HEAD) {
                write!(f, "{}:", head.name)?;
            }
            write!(f, "{}", head.classes)?;
        }
        Ok(())
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = match self.activation {
            Activation::Relu => "",
            Activation::Tanh => "t",
            Activation::Identity => "i",
        };
        let norm = if self.norm { "n" } else { "" };
        write!(f, "{}{norm}{ending}", self.width)?;
        if self.dropout > 0 { write!(f, "d{}", self.dropout) } else { Ok(()) }
    }
}
