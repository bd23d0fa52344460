//! Checks a net before its layout is made.

use super::{Net, Tower};
use crate::error::{Error, Result};

/// Recurrent layers of a branch, at most.
pub(super) const RECURRENT: usize = 3;

/// What is wrong with a net, in one sentence.
pub(super) fn check(net: &Net) -> Result<()> {
    let invalid = |what: String| Err(Error::Invalid(what));
    if net.inputs.is_empty() || net.heads.is_empty() {
        return invalid("a net needs at least one input and one head, as in `16 - 64 - 3`".into());
    }
    if net.branches.len() != net.inputs.len() {
        return invalid(format!(
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
        if !plain || !seen.insert(name) || ["trunk", "head", "concat", "tower"].contains(&name.as_str()) {
            return invalid(format!(
                "`{name}` cannot be a name: use letters, digits (not first) and _, each name once, and not trunk, tower, head or concat"
            ));
        }
    }
    for input in &net.inputs {
        if input.features == 0 || input.window == 0 || input.features.saturating_mul(input.window) > 1 << 16 {
            return invalid(format!(
                "input {}: {} features × {} rows; each must be at least 1, and their product at most 65,536",
                input.name, input.features, input.window
            ));
        }
    }
    let towers = net.towers.iter().flat_map(|t| &t.layers);
    for layer in net.branches.iter().flat_map(|b| &b.layers).chain(&net.trunk).chain(towers) {
        if !(1..=4096).contains(&layer.width) {
            return invalid(format!("a layer of {} units; use 1 to 4,096", layer.width));
        }
        if layer.dropout > 99 {
            return invalid(format!("a dropout of {} %; use 1 to 99", layer.dropout));
        }
    }
    for (input, branch) in net.inputs.iter().zip(&net.branches) {
        let name = &input.name;
        if branch.recurrent.len() > RECURRENT {
            let n = branch.recurrent.len();
            return invalid(format!("input {name}: {n} recurrent layers; use at most {RECURRENT}"));
        }
        if let Some(units) = branch.recurrent.iter().find(|units| !(1..=256).contains(*units)) {
            return invalid(format!("input {name}: an LSTM of {units} units; use 1 to 256"));
        }
        if branch.dropout > 99 || (branch.dropout > 0 && branch.recurrent.is_empty()) {
            let percent = branch.dropout;
            return invalid(format!(
                "input {name}: a dropout of {percent} % after its LSTM; use 1 to 99, and only after an LSTM"
            ));
        }
    }
    for head in &net.heads {
        if !(1..=256).contains(&head.classes) {
            return invalid(format!("head {}: {} outputs; use 1 to 256", head.name, head.classes));
        }
    }
    dense(net)?;
    towers_of(net)
}

/// Numbers that come with a row have no window to walk through.
fn dense(net: &Net) -> Result<()> {
    let wrong =
        net.inputs.iter().zip(&net.branches).find(|(i, b)| i.dense && (i.window != 1 || !b.recurrent.is_empty()));
    match wrong {
        Some((input, _)) => Err(Error::Invalid(format!(
            "input {}: dense inputs have one row and no recurrent layers; only tables have windows",
            input.name
        ))),
        None => Ok(()),
    }
}

fn towers_of(net: &Net) -> Result<()> {
    if net.towers.is_empty() {
        return Ok(());
    }
    let invalid = |what: String| Err(Error::Invalid(what));
    memory(net)?;
    if !net.trunk.is_empty() || net.towers.len() < 2 && !net.has_memory() {
        return invalid("a net has one trunk, or at least two towers, as in `8 / 64 | 32 / policy:3 | value:1`".into());
    }
    let heads: usize = net.towers.iter().map(|t| t.heads).sum();
    if heads != net.heads.len() || net.towers.iter().any(|t| t.heads == 0) {
        return invalid(format!(
            "{} towers have {heads} heads, and the net has {}; give each tower at least one, and each head a tower",
            net.towers.len(),
            net.heads.len()
        ));
    }
    let mut read = vec![false; net.inputs.len()];
    for tower in &net.towers {
        let Some(range) = reads(net, tower) else {
            return invalid(format!(
                "a tower reads ({}); name inputs of the net that are next to each other, in their order",
                tower.reads.join(" ")
            ));
        };
        read[range].fill(true);
    }
    match read.iter().position(|read| !read) {
        Some(input) => invalid(format!("no tower reads input {}; leave it out", net.inputs[input].name)),
        None => Ok(()),
    }
}

/// What is wrong with LSTM layers that carry a state.
fn memory(net: &Net) -> Result<()> {
    let invalid = |what: String| Err(Error::Invalid(what));
    let of_towers = || net.towers.iter().map(|tower| &tower.recurrent);
    if let Some(layers) = of_towers().find(|layers| layers.len() > RECURRENT) {
        return invalid(format!("{} recurrent layers of a tower; use at most {RECURRENT}", layers.len()));
    }
    if let Some(units) = of_towers().flatten().find(|units| !(1..=256).contains(*units)) {
        return invalid(format!("an LSTM of {units} units; use 1 to 256"));
    }
    if !net.has_memory() {
        return Ok(());
    }
    let plain = net.inputs.iter().zip(&net.branches).all(|(i, b)| i.window == 1 && *b == super::Branch::default());
    if !plain || net.towers.iter().any(|tower| !tower.reads.is_empty()) {
        return invalid(
            "LSTM layers behind the inputs read all inputs as they are, a row at a time: expected no windows, no layers \
             of inputs, and no inputs in brackets"
                .into(),
        );
    }
    let features: usize = net.inputs.iter().map(|input| input.features).sum();
    if features > 4096 {
        return invalid(format!("LSTM layers that read {features} numbers; use at most 4,096"));
    }
    if net.towers.iter().flat_map(|tower| &tower.layers).any(|layer| layer.dropout > 0) {
        return invalid("a net whose LSTM layers carry a state has no dropout: leave `d` out".into());
    }
    Ok(())
}

/// The inputs that a tower reads.
pub(super) fn reads(net: &Net, tower: &Tower) -> Option<std::ops::Range<usize>> {
    let Some(first) = tower.reads.first() else { return Some(0..net.inputs.len()) };
    let start = net.inputs.iter().position(|i| i.name == *first)?;
    let named = net.inputs.get(start..start + tower.reads.len())?;
    named.iter().zip(&tower.reads).all(|(i, name)| i.name == *name).then_some(start..start + tower.reads.len())
}
