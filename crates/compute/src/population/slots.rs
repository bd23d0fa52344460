//! Which member is in which slot, and keeping those that train in front.
//!
//! A slot is a row of the arena. Members that stopped move behind those that train, so that a step works on the first
//! slots only, their number rounded up to a power of two: the device has one graph for each. Moving never changes what
//! a member becomes.

use super::backend::Backend;
use super::{State, Status};
use crate::error::Result;

/// Moves members that stopped behind those that train; how many slots a step has to do.
pub(super) fn compact(states: &mut [State], backend: &mut dyn Backend) -> Result<usize> {
    let running = states.iter().filter(|s| s.active == 1).count();
    let used = rounded(running, states.len());
    // As long as everyone fits into the rounded number, nobody has to move.
    let mut free = 0;
    for late in used..states.len() {
        if states[late].active == 0 {
            continue;
        }
        while states[free].active == 1 {
            free += 1;
        }
        backend.swap(free, late)?;
        states.swap(free, late);
    }
    Ok(used)
}

/// A number of slots for which there is a graph: a power of two, or all.
pub(super) fn rounded(slots: usize, all: usize) -> usize {
    slots.next_power_of_two().min(all)
}

/// What the members say, in the order in which they were given.
pub(super) fn statuses(states: &[State]) -> Vec<Status> {
    let mut sorted: Vec<&State> = states.iter().collect();
    sorted.sort_by_key(|s| s.index);
    let each = sorted.into_iter().map(|s| Status {
        id: s.id,
        active: s.active == 1,
        due: s.due == 1,
        fault: s.fault == 1,
        epoch: s.epoch,
        step: s.step,
        loss: if s.weight > 0.0 { s.loss / s.weight } else { f64::NAN },
        norm: s.norm,
    });
    each.collect()
}
