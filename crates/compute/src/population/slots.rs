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
    let running = states.iter().filter(|s| s.slot.active == 1).count();
    let used = rounded(running, states.len());
    // As long as everyone fits into the rounded number, nobody has to move.
    let mut free = 0;
    for late in used..states.len() {
        if states[late].slot.active == 0 {
            continue;
        }
        while states[free].slot.active == 1 {
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
    sorted.sort_by_key(|s| s.slot.index);
    let each = sorted.into_iter().map(|s| Status {
        id: s.slot.id,
        active: s.slot.active == 1,
        due: s.slot.due == 1,
        fault: s.slot.fault == 1,
        epoch: s.epoch.done,
        step: s.slot.step,
        loss: if s.epoch.weight > 0.0 { s.epoch.loss / s.epoch.weight } else { f64::NAN },
        norm: s.slot.norm,
    });
    each.collect()
}
