//! Checks a call before anything runs, with the same messages on every device.

use super::{Backward, Forward, Gradients, Held, Shape, Stack};
use crate::error::{Error, Result};

fn invalid(what: String) -> Result<()> {
    Err(Error::Invalid(what))
}

/// Whether a stack can be laid out.
pub(super) fn shape(shape: &Shape) -> Result<()> {
    let Shape { members, rows, window, features, extras, ref hidden, .. } = *shape;
    if members == 0 || rows == 0 || window == 0 {
        return invalid(format!("{members} members × {rows} rows × {window} steps; at least one of each"));
    }
    let inputs = features.saturating_add(extras);
    if !(1..=4096).contains(&inputs) {
        return invalid(format!("{features} features and {extras} extras; together 1 to 4096 are possible"));
    }
    if !(1..=3).contains(&hidden.len()) {
        return invalid(format!("{} recurrent layers; 1 to 3 are possible", hidden.len()));
    }
    if let Some(units) = hidden.iter().find(|units| !(1..=256).contains(*units)) {
        return invalid(format!("an LSTM of {units} units; 1 to 256 are possible"));
    }
    // So many that no product of sizes below can overflow; memory ends long before.
    let all = [rows, window, 4 * 256 + 4096].iter().try_fold(members, |all, n| all.checked_mul(*n));
    if all.is_none_or(|all| all > 1 << 55) {
        return invalid(format!("{members} members × {rows} rows × {window} steps are more than can be counted"));
    }
    Ok(())
}

fn length(what: &str, given: usize, wanted: usize, shape: &str) -> Result<()> {
    if given == wanted {
        return Ok(());
    }
    invalid(format!("{what} has {given} numbers; {shape} are {wanted}"))
}

fn optional(what: &str, given: Option<usize>, wanted: usize, shape: &str) -> Result<()> {
    given.map_or(Ok(()), |given| length(what, given, wanted, shape))
}

/// Rows of weights or of gradients.
pub(crate) fn rows(stack: &Stack, what: &str, given: usize, stride: usize) -> Result<()> {
    let (members, params) = (stack.shape.members, stack.params());
    if stride < params {
        return invalid(format!("{what} in rows of {stride}; a row of this stack has {params}"));
    }
    let least = stride.checked_mul(members - 1).and_then(|n| n.checked_add(params));
    if least.is_none_or(|least| given < least) {
        return invalid(format!("{what} of {given} numbers are fewer than {members} rows of {stride}"));
    }
    Ok(())
}

/// Whether a call forward has the lengths it must have.
pub(crate) fn forward<M: Held>(stack: &Stack, call: &Forward<M>) -> Result<()> {
    let Shape { members, rows, window, features, extras, .. } = stack.shape;
    let all = window * members * rows;
    if features > 0 {
        if call.stride < features {
            return invalid(format!("a table of {} columns; {features} are to be read", call.stride));
        }
        length("at", M::reads(&call.at), all, "[T, P, B]")?;
        if M::reads(&call.table) < features {
            return invalid("a table without rows; steps read some".into());
        }
    }
    for (what, given) in [("mean", call.scale.as_ref().map(|s| &s.0)), ("inverse", call.scale.as_ref().map(|s| &s.1))] {
        optional(what, given.map(M::reads), members * features, "[P, F]")?;
    }
    match &call.extras {
        None if extras > 0 => return invalid(format!("no extras; this stack reads {extras} at every step")),
        given => optional("extras", given.as_ref().map(M::reads), all * extras, "[T, P, B, E]")?,
    }
    if let Some(begin) = &call.begin {
        length("h of the beginning", M::reads(&begin.h), stack.state(), "[layers][P, B, U]")?;
        length("c of the beginning", M::reads(&begin.c), stack.state(), "[layers][P, B, U]")?;
    }
    optional("reset", call.reset.as_ref().map(M::reads), all, "[T, P, B]")?;
    optional("members", call.members.as_ref().map(M::reads), members, "[P]")?;
    optional("every", call.every.as_ref().map(M::writes), all * stack.outputs(), "[T, P, B, H]")?;
    optional("last", call.last.as_ref().map(M::writes), members * rows * stack.outputs(), "[P, B, H]")?;
    if let Some(end) = &call.end {
        length("h of the end", M::writes(&end.h), stack.state(), "[layers][P, B, U]")?;
        length("c of the end", M::writes(&end.c), stack.state(), "[layers][P, B, U]")?;
    }
    Ok(())
}

/// Whether a call back has the lengths it must have, and something to give back from.
pub(crate) fn backward<M: Held>(stack: &Stack, call: &Backward<M>, forward: bool) -> Result<()> {
    let Shape { members, rows: batch, window, gradients, .. } = stack.shape;
    if gradients == Gradients::None {
        return invalid("a way back in a stack that was made without; ask for `Gradients::Weights`".into());
    }
    if !forward {
        return invalid("a way back without a way forward before it; each forward has one back at most".into());
    }
    if call.every.is_none() && call.last.is_none() {
        return invalid("a way back from nothing; give the gradient at every h, at the last, or both".into());
    }
    let wide = batch * members * stack.outputs();
    optional("the gradient at every h", call.every.as_ref().map(M::reads), window * wide, "[T, P, B, H]")?;
    optional("the gradient at the last h", call.last.as_ref().map(M::reads), wide, "[P, B, H]")?;
    optional("members", call.members.as_ref().map(M::reads), members, "[P]")?;
    rows(stack, "the gradient", M::writes(&call.gradient), call.stride)?;
    if let Some(begin) = &call.begin {
        if gradients != Gradients::State {
            return invalid("the gradient of the beginning; this stack was made without `Gradients::State`".into());
        }
        length("the gradient of h", M::writes(&begin.h), stack.state(), "[layers][P, B, U]")?;
        length("the gradient of c", M::writes(&begin.c), stack.state(), "[layers][P, B, U]")?;
    }
    Ok(())
}
