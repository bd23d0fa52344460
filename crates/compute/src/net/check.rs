//! What a net must be, said before anything is laid out.

use super::Net;
use crate::error::{Error, Result};

/// Recurrent layers of a branch, at most.
pub(super) const RECURRENT: usize = 3;

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
        if layer.dropout > 99 {
            return asked(format!("a dropout of {} %; up to 99 are possible", layer.dropout));
        }
    }
    for (input, branch) in net.inputs.iter().zip(&net.branches) {
        let name = &input.name;
        if branch.recurrent.len() > RECURRENT {
            let n = branch.recurrent.len();
            return asked(format!("input {name}: {n} recurrent layers; at most {RECURRENT} are possible"));
        }
        if let Some(units) = branch.recurrent.iter().find(|units| !(1..=256).contains(*units)) {
            return asked(format!("input {name}: an LSTM of {units} units; 1 to 256 are possible"));
        }
        if branch.dropout > 99 || (branch.dropout > 0 && branch.recurrent.is_empty()) {
            let percent = branch.dropout;
            return asked(format!(
                "input {name}: a dropout of {percent} % after its LSTM; up to 99 are possible, where there is one"
            ));
        }
    }
    for head in &net.heads {
        if !(2..=256).contains(&head.classes) {
            return asked(format!("head {}: {} classes; 2 to 256 are possible", head.name, head.classes));
        }
    }
    Ok(())
}
