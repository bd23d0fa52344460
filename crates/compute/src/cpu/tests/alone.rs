//! The same bits for any number of threads, any company, any slot, any chunks.

use super::{ARENAS, bits, engine, go_on};
use crate::population::backend::Backend;
use crate::population::world::World;
use crate::population::{Precision, State};

/// Everything a member is after so many steps, in chunks: its arenas, its state, its scores and its logits.
fn train(world: &World, threads: usize, chunks: &[u32], slot: usize) -> (Vec<Vec<u32>>, State, String) {
    let mut engine = engine(world, threads);
    let n = world.members.len();
    let mut scores = String::new();
    for steps in chunks {
        engine.steps(n, *steps).unwrap();
        scores += &format!("{:?}", engine.score(n).unwrap()[slot]);
        go_on(&mut engine);
    }
    scores += &format!("{:?}", engine.logits(slot, &world.lists[0]).unwrap());
    let arenas = ARENAS.map(|arena| bits(&engine.read(slot, arena).unwrap())).to_vec();
    (arenas, engine.states().unwrap()[slot], scores)
}

fn worlds() -> Vec<World> {
    vec![
        World::new("a:3x2-5t-9 + b:4 / 24-8t / up:3 + size:4", 700, 300, Precision::F32).with_members(5),
        World::new("16-64-32-3", 2500, 2000, Precision::F32).with_members(3),
        World::new("16-64-32-3", 2500, 2000, Precision::Bf16).with_members(2),
        World::new("24x10-512-512t-3", 700, 500, Precision::F32).with_members(2),
        World::new("fast:5x7-lstm9-lstm20-6t + raw:3 + slow:17x3-lstm33 / 12 / up:3", 700, 300, Precision::F32)
            .with_members(3),
        World::new("16x9-lstm64-3", 700, 300, Precision::Bf16).with_members(2),
        World::new("24x10-512-512t-3", 700, 500, Precision::Bf16).with_members(1),
        World::new("a:3x2-5ntd30-9n + b:4x3-lstm9d20 / 24nd10-8t / up:3 + size:4", 700, 300, Precision::F32)
            .with_members(2),
        World::new("24x10-512nd20-512ntd10-3", 700, 500, Precision::F32).with_members(2),
        World::new("24x10-512nd20-512ntd10-3", 700, 500, Precision::Bf16).with_members(1),
    ]
}

#[test]
fn bits_do_not_depend_on_threads() {
    for world in worlds() {
        for slot in 0..world.members.len() {
            let one = train(&world, 1, &[2, 1, 3], slot);
            for threads in [2, 16] {
                assert!(
                    train(&world, threads, &[2, 1, 3], slot) == one,
                    "{}, member {slot}, {threads} threads",
                    world.net
                );
            }
        }
    }
}

/// A batch that is worth several threads is cut into so many blocks, on any number of threads, and so its sums have one
/// order.
#[test]
fn small_batches_are_split_the_same_on_any_threads() {
    let two = "fast:16x9-lstm24 + slow:12x5-lstm9 + strategy:9 / 16 / direction:3";
    let cases = [(two, 8, 1), (two, 16, 2), (two, 32, 4), (two, 33, 3), (two, 64, 4), (two, 100, 4), (two, 256, 8)];
    let dense = [64, 65, 128, 200, 256].map(|batch| ("16-64-32-3", batch, if batch > 64 { 2 } else { 1 }));
    for (net, batch, blocks) in cases.into_iter().chain(dense) {
        // One whole batch and one that is not.
        let world = World::new(net, batch + batch / 2 + 1, batch, Precision::F32);
        let one = train(&world, 1, &[2, 1, 2], 0);
        for threads in [1, 2, 3, 16] {
            let plan = engine(&world, threads).nets.core.plan;
            assert_eq!(plan.slice, plan.block, "{net}, batch {batch}");
            assert_eq!(batch.div_ceil(plan.block), blocks, "{net}, batch {batch}, {threads} threads: blocks");
            assert!(train(&world, threads, &[2, 1, 2], 0) == one, "{net}, batch {batch}, {threads} threads");
        }
    }
}

#[test]
fn bits_do_not_depend_on_neighbours_or_slot() {
    for net in ["16-64-32-3", "a:3x2-5t-9 + b:4 / 24-8t / up:3 + size:4", "a:3x4-lstm18-lstm5 + b:4 / 8 / up:3"] {
        let crowd = World::new(net, 700, 300, Precision::F32).with_members(32);
        let small = World::new(net, 90, 32, Precision::F32).with_members(32);
        for (crowd, at) in [&crowd, &small].into_iter().flat_map(|crowd| [0, 5, 31].map(|at| (crowd, at))) {
            let mut alone = crowd.clone();
            alone.members = vec![crowd.members[at].clone()];
            let (arenas, mut state, scores) = train(crowd, 2, &[2, 1, 3], at);
            assert_eq!(state.slot.index, at as u32);
            state.slot.index = 0;
            assert!((arenas, state, scores) == train(&alone, 2, &[2, 1, 3], 0), "{net}: member {at}");
        }
    }
}

#[test]
fn swapped_slots_continue_with_the_same_bits() {
    let world = World::new("6-16-3", 90, 20, Precision::Bf16).with_members(3);
    let mut fast = engine(&world, 2);
    fast.steps(3, 2).unwrap();
    fast.swap(0, 2).unwrap();
    assert!(fast.swap(0, 3).is_err());
    fast.steps(3, 2).unwrap();
    let mut kept = engine(&world, 2);
    kept.steps(3, 4).unwrap();
    for (a, b) in [(0, 2), (1, 1), (2, 0)] {
        assert_eq!(ARENAS.map(|x| bits(&fast.read(a, x).unwrap())), ARENAS.map(|x| bits(&kept.read(b, x).unwrap())));
        assert_eq!(fast.states().unwrap()[a], kept.states().unwrap()[b]);
        assert_eq!(fast.logits(a, &world.lists[0]).unwrap(), kept.logits(b, &world.lists[0]).unwrap());
    }
}

#[test]
fn bits_do_not_depend_on_chunks() {
    let world = World::new("6-16nd30-12td20-3", 90, 20, Precision::F32).with_members(2);
    let mut once = engine(&world, 2);
    once.steps(2, 5).unwrap();
    let mut often = engine(&world, 2);
    (0..5).for_each(|_| often.steps(2, 1).unwrap());
    assert_eq!(once.states().unwrap(), often.states().unwrap());
    assert_eq!(ARENAS.map(|a| bits(&once.read(1, a).unwrap())), ARENAS.map(|a| bits(&often.read(1, a).unwrap())));
}

#[test]
fn logits_do_not_depend_on_the_rows_position() {
    let nets = [
        "6-16-3",
        "24x10-512-512t-3",
        "a:3x2-5t-9 + b:4 / 24-8t / up:3 + size:4",
        "a:3x4-lstm18-lstm5 + b:4 / 8 / up:3",
        "a:3x4-lstm18-lstm5d50 + b:4-9nd50 / 8ntd20 / up:3",
    ];
    for net in nets {
        let world = World::new(net, 600, 16, Precision::F32);
        let mut engine = engine(&world, 2);
        let rows = &world.lists[0];
        let all = engine.logits(0, rows).unwrap();
        for at in [0, 1, 7, 254, 255, 256, 300, 599] {
            let one = engine.logits(0, &rows[at..=at]).unwrap();
            for (one, all) in one.iter().zip(&all) {
                assert_eq!(bits(one), bits(&all[at * one.len()..(at + 1) * one.len()]), "{net}: row {at}");
            }
        }
    }
}
