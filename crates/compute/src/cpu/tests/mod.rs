//! The engine against the plain twin, against PyTorch, and against itself with other threads and other members.

mod alone;
mod parts;
mod whole;

use super::Engine;
use crate::population::backend::{Arena, Backend};
use crate::population::world::World;

pub(super) const ARENAS: [Arena; 4] = [Arena::Params, Arena::Mean, Arena::Square, Arena::Gradient];

pub(super) fn engine(world: &World, threads: usize) -> Engine {
    let tables = world.tables().expect("tables");
    Engine::new(&world.net, &world.layout, &tables, &world.data(), &world.recipe, &world.members, threads)
        .expect("an engine")
}

/// Clears `due` everywhere, as the host does after a validation.
pub(super) fn go_on(engine: &mut Engine) {
    let mut states = engine.states().expect("states");
    states.iter_mut().for_each(|state| state.slot.due = 0);
    engine.set_states(&states).expect("the same states");
}

/// Every number of `got` is near that of `wanted`, by the largest of them.
pub(super) fn near(what: &str, got: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let scale = wanted.iter().fold(f32::MIN_POSITIVE, |m, x| m.max(x.abs()));
    for (i, (g, w)) in got.iter().zip(wanted).enumerate() {
        assert!((g - w).abs() <= tolerance * scale, "{what}[{i}]: {g} is not {w}; the largest is {scale}");
    }
}

pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}
