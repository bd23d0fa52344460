//! A net whose towers begin with LSTM layers that carry a state: its LSTM layers, and the plain net behind them.
//!
//! A member's row has the weights of each tower's LSTM layers, one stack behind the other as
//! [`recurrent::Stack`](crate::recurrent::Stack) lays them out, then those of the rest. The rest is a [`Net`] of its
//! own, whose inputs are what the towers read: every h of the top layer, or the row as it is where a tower has none.

use super::{Branch, Input, Layout, Net, Recurrent, Tower};
use crate::error::Result;
use crate::population::Precision;
use crate::recurrent::{Gradients, Shape, Stack};

/// What such a net is made of.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    /// Numbers of a row that LSTM layers read: all inputs side by side.
    pub(crate) features: usize,
    /// `[towers]` units of LSTM layers, from below; empty where a tower has none.
    pub(crate) hidden: Vec<Vec<usize>>,
    /// `[towers + 1]` where the weights of each tower's LSTM layers begin in a member's row, and those of the rest.
    pub(crate) starts: Vec<usize>,
    /// `[layers]` the LSTM layers of all towers, where they lie in a member's row.
    recurrents: Vec<Recurrent>,
    /// The plain net behind them: a dense input for each tower.
    pub(crate) rest: Net,
    /// Where it lies in its part of the row; its gradient goes on to its inputs.
    pub(crate) layout: Layout,
}

impl Parts {
    /// The parts of a net that carries a state.
    pub(crate) fn of(net: &Net) -> Result<Parts> {
        super::check::check(net)?;
        Parts::new(net)
    }

    /// The same of a net that was checked.
    pub(super) fn new(net: &Net) -> Result<Parts> {
        let features = net.inputs.iter().map(|input| input.features).sum();
        let hidden: Vec<Vec<usize>> = net.towers.iter().map(|tower| tower.recurrent.clone()).collect();
        let (mut starts, mut recurrents) = (vec![0], Vec::new());
        for (t, units) in hidden.iter().enumerate() {
            let (at, first) = (starts[t], recurrents.len());
            starts.push(at);
            if units.is_empty() {
                continue;
            }
            let stack = Stack::new(Shape {
                members: 1,
                rows: 1,
                window: 1,
                features: 0,
                extras: features,
                hidden: units.clone(),
                precision: Precision::F32,
                gradients: Gradients::None,
            })?;
            starts[t + 1] = at + stack.params();
            let tower = if hidden.len() == 1 { "trunk".to_string() } else { format!("tower.{t}") };
            recurrents.extend(stack.layers().iter().enumerate().map(|(l, r)| Recurrent {
                name: format!("{tower}.lstm.{l}"),
                below: r.below.map(|below| first + below),
                weight: at + r.weight,
                ..r.clone()
            }));
        }
        let rest = rest(net, features);
        let layout = with_input_gradient(&rest)?;
        Ok(Parts { features, hidden, starts, recurrents, rest, layout })
    }

    /// Where everything of the whole net lies. Its buffers are those of the rest.
    pub(super) fn whole(self) -> Layout {
        let Parts { recurrents, starts, layout, .. } = self;
        let first = starts[starts.len() - 1];
        let mut whole = Layout { recurrents, params: first + layout.params, ..layout };
        for linear in &mut whole.linears {
            linear.weight += first;
            linear.bias += first;
            if let Some(norm) = &mut linear.norm {
                norm.gain += first;
            }
        }
        whole
    }
}

/// The plain net behind the LSTM layers.
fn rest(net: &Net, features: usize) -> Net {
    let name = |t: usize| format!("below_{t}");
    let width = |tower: &Tower| tower.recurrent.last().copied().unwrap_or(features);
    let inputs: Vec<Input> = net.towers.iter().enumerate().map(|(t, own)| Input::dense(&name(t), width(own))).collect();
    let (branches, heads) = (vec![Branch::default(); inputs.len()], net.heads.clone());
    if let [only] = net.towers.as_slice() {
        return Net { inputs, branches, trunk: only.layers.clone(), heads, towers: vec![] };
    }
    let tower = |(t, own): (usize, &Tower)| Tower { reads: vec![name(t)], recurrent: vec![], ..own.clone() };
    let towers = net.towers.iter().enumerate().map(tower).collect();
    Net { inputs, branches, trunk: vec![], heads, towers }
}

/// The layout of a net of dense inputs whose way back goes on to them.
fn with_input_gradient(net: &Net) -> Result<Layout> {
    let mut layout = Layout::new(net)?;
    let concat = if net.inputs.len() == 1 { 0 } else { net.inputs.len() };
    let towers = !net.towers.is_empty();
    layout.zeroed = towers.then_some(concat);
    for linear in layout.linears.iter_mut().filter(|linear| linear.input.buffer == concat) {
        linear.passes_back = true;
        linear.adds_back |= towers;
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_the_stacks_and_then_the_rest() {
        let net: Net = "row:3 + account:dense8 / lstm20-lstm8-16t | 12 / policy:3 | value:1".parse().expect("a net");
        let (parts, layout) = (Parts::new(&net).expect("parts"), Layout::new(&net).expect("a layout"));
        assert_eq!((parts.features, &parts.hidden), (11, &vec![vec![20, 8], vec![]]));
        assert_eq!(
            parts.rest.to_string(),
            "below_0:dense8 + below_1:dense11 / (below_0) 16t | (below_1) 12 / policy:3 | value:1"
        );
        let names: Vec<&str> = layout.recurrents.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["tower.0.lstm.0", "tower.0.lstm.1"]);
        let names: Vec<&str> = layout.linears.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["tower.0.0", "tower.1.0", "head.policy", "head.value"]);
        assert_eq!(layout.linears[0].weight, parts.starts[2]);
        assert_eq!(layout.params, parts.starts[2] + parts.layout.params);
        let counted = 4 * 20 * (11 + 20 + 1) + 4 * 8 * (20 + 8 + 1) + 9 * 16 + 12 * 12 + 17 * 3 + 13;
        assert_eq!(layout.parameters(), counted);
        let shared: Net = "row:3 / lstm5 / policy:3 + value:1".parse().expect("a net");
        assert_eq!(shared.to_string(), "row:3 / lstm5 / policy:3 + value:1");
        assert_eq!(Layout::new(&shared).expect("a layout").recurrents[0].name, "trunk.lstm.0");
    }

    #[test]
    fn what_a_sequence_cannot_go_through_is_refused() {
        for (text, said) in [
            ("row:3x4 / lstm5 / 3", "a row at a time"),
            ("row:3-8 / lstm5 / 3", "a row at a time"),
            ("a:3 + b:2 / (a) lstm5 | 4 / x:3 | y:1", "a row at a time"),
            ("row:3 / lstm5-8d10 / 3", "no dropout"),
            ("row:3 / lstm300 / 3", "1 to 256"),
            ("row:3 / lstm4-lstm4-lstm4-lstm4 / 3", "are the most"),
            ("row:3 / 8-lstm4 / 3", "at the beginning"),
        ] {
            let error = text.parse::<Net>().expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
