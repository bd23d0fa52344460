//! Whole steps: against the plain twin, against PyTorch, members at their own pace, faults.

use super::{ARENAS, Engine, bits, engine, go_on, near};
use crate::device::Opened;
use crate::error::Error;
use crate::ops::{finite, loss, step, whole};
use crate::population::backend::{Arena, Backend};
use crate::population::world::World;
use crate::population::{Pace, Precision, Schedule, fixtures};

const TWO_HEADS: &str = "a:3x2-5t-9 + b:4 + c:5x3-16 / 24-8t / up:3 + size:4";

/// A population and the plain twin of each member, step by step, over every epoch.
fn check(world: &World, tolerance: f32) {
    let (tables, data) = (world.tables().unwrap(), world.data());
    let mut fast = engine(world, 2);
    let mut plain: Vec<_> = (0..world.members.len()).map(|i| world.plain(&tables, &data, i)).collect();
    let mut steps = 0;
    while plain.iter().any(|p| p.state.slot.active == 1) {
        fast.steps(plain.len(), 1).unwrap();
        for (slot, plain) in plain.iter_mut().enumerate() {
            plain.step();
            let got = fast.states().unwrap()[slot];
            let what = format!("{}, batch {}, member {slot}, step {}", world.net, world.recipe.batch, got.slot.step);
            let counters = |s: &crate::population::State| {
                (s.slot.active, s.slot.due, s.slot.fault, s.epoch.cursor, s.epoch.done, s.slot.step, s.epoch.samples)
            };
            assert_eq!(counters(&got), counters(&plain.state), "{what}");
            let sums = [
                (got.epoch.loss, plain.state.epoch.loss),
                (got.epoch.weight, plain.state.epoch.weight),
                (got.slot.norm.into(), plain.state.slot.norm.into()),
            ];
            for (got, wanted) in sums {
                assert!((got - wanted).abs() <= f64::from(tolerance) * wanted.abs(), "{what}: {got} is not {wanted}");
            }
            near(&format!("{what}: gradient"), &fast.read(slot, Arena::Gradient).unwrap(), &plain.gradient, tolerance);
            near(&format!("{what}: params"), &fast.read(slot, Arena::Params).unwrap(), &plain.params, tolerance);
            if world.recipe.average.is_some() {
                near(&format!("{what}: average"), &fast.read(slot, Arena::Average).unwrap(), &plain.average, tolerance);
                fast.write(slot, Arena::Average, &plain.average).unwrap();
            }
            // From the same place again: what is compared is one step, not a walk that a last digit has parted.
            for (arena, values) in ARENAS.into_iter().zip([&plain.params, &plain.mean, &plain.square, &plain.gradient])
            {
                fast.write(slot, arena, values).unwrap();
            }
            plain.state.slot.due = 0;
        }
        go_on(&mut fast);
        steps += 1;
        assert!(steps < 1000, "it never ends");
    }
    assert!(steps > 1);
}

#[test]
fn steps_match_the_reference() {
    for batch in [1, 7, 64] {
        check(&World::new("6-16-3", 40, batch, Precision::F32), 1e-4);
    }
    check(&World::new(TWO_HEADS, 40, 16, Precision::F32).with_members(4), 1e-4);
    check(&World::new("a:3 + b:4 / up:3 + size:4", 40, 16, Precision::F32), 1e-4);
    // Several slices, the last one short, and blocks within slices.
    check(&World::new("4-8-2", 1100, 1000, Precision::F32), 1e-4);
    check(&World::new("4-2", 17_000, 16_500, Precision::F32), 1e-4);
}

#[test]
fn norms_and_dropouts_match_the_reference() {
    for batch in [1, 7, 40] {
        check(&World::new("6-16n-12td30-3", 40, batch, Precision::F32), 1e-3);
    }
    check(&World::new("a:3x2-5ntd30-9n + b:4x3-lstm9d20 / 24nd10-8t / up:3 + size:4", 40, 16, Precision::F32), 1e-3);
    check(&World::new("4x3-lstm5-lstm7d40-3", 40, 16, Precision::F32), 1e-3);
    // Several slices of a narrow net, and a wide one's tiles in several blocks: a row is known by its place in the
    // whole batch.
    check(&World::new("4-8nd30-2", 1100, 1000, Precision::F32), 1e-3);
    check(&World::new("16-520nd20-512td10-3", 300, 200, Precision::F32), 1e-3);
}

const FAST_AND_SLOW: &str = "fast:5x7-lstm9-lstm20-6t + raw:3 + slow:17x3-lstm33 / 12 / up:3 + size:4";

#[test]
fn steps_with_every_recipe_option_match_the_reference() {
    for schedule in [Schedule::CONSTANT, Schedule::cosine(0.3, 0.1), Schedule::one_cycle(0.3, 0.0)] {
        let mut world = World::new("a:3x2-5t-9 + b:4x3-lstm6 / 24-8t / up:3 + size:4", 40, 16, Precision::F32);
        (world.recipe.smoothing, world.recipe.average, world.recipe.schedule) = (0.2, Some(0.9), schedule);
        check(&world.with_members(2), 1e-3);
    }
}

#[test]
fn scores_and_logits_are_of_the_average() {
    for precision in [Precision::F32, Precision::Bf16] {
        let mut world = World::new("a:3x2-5t-9 + b:4x3-lstm6 / 24-8t / up:3 + size:4", 40, 16, precision);
        let mut plain = engine(&world, 2);
        world.recipe.average = Some(0.5);
        let mut averaged = engine(&world, 2);
        let rows = world.lists[1].clone();
        let score = |engine: &mut Engine| {
            let before = engine.states().unwrap();
            let due: Vec<_> = before.iter().map(|s| s.with_due(1)).collect();
            engine.set_states(&due).unwrap();
            let scores = engine.score(1).unwrap();
            engine.set_states(&before).unwrap();
            (scores, engine.logits(0, &rows).unwrap())
        };
        for step in 0..4 {
            averaged.steps(1, 1).unwrap();
            go_on(&mut averaged);
            let average = averaged.read(0, Arena::Average).unwrap();
            // After the first step the average is the weights themselves, later it is not.
            assert_eq!(average == averaged.read(0, Arena::Params).unwrap(), step == 0);
            let before = averaged.read(0, Arena::Params).unwrap();
            plain.write(0, Arena::Params, &average).unwrap();
            assert_eq!(score(&mut averaged), score(&mut plain));
            assert_eq!(bits(&averaged.read(0, Arena::Params).unwrap()), bits(&before));
        }
        assert!(plain.read(0, Arena::Average).is_err() && plain.write(0, Arena::Average, &[0.0]).is_err());
    }
}

#[test]
fn recurrent_steps_match_the_reference() {
    for batch in [1, 7, 40] {
        check(&World::new("6x5-lstm10-3", 40, batch, Precision::F32), 1e-4);
    }
    check(&World::new("3-lstm1-2", 20, 8, Precision::F32), 1e-4);
    check(&World::new(FAST_AND_SLOW, 40, 16, Precision::F32).with_members(3), 1e-4);
    check(&World::new("4x3-lstm5-lstm17-lstm3-2", 70, 66, Precision::F32), 1e-4);
    // Several slices of several blocks, the last ones short.
    check(&World::new("2x3-lstm2-2", 1200, 1100, Precision::F32), 1e-4);
    check(&World::new("6x5-lstm10-3", 40, 16, Precision::Bf16), 1e-2);
    check(&World::new(FAST_AND_SLOW, 40, 16, Precision::Bf16).with_members(2), 1e-2);
}

#[test]
fn wide_steps_match_the_reference() {
    let world = World::new("a:8-512t + b:16x2-24 / 512 / up:3 + size:4", 310, 300, Precision::F32);
    assert!(world.layout.params > 256 * 1024);
    check(&world, 1e-4);
}

#[test]
fn wide_nets_sum_over_pieces() {
    // At a rate of 0 nothing moves, so the gradients of four batches are that of one batch of all rows.
    let sum_of = |batch: usize| {
        let mut world = World::new("8-1024-256-2", 4196, batch, Precision::F32);
        world.members[0].rate = 0.0;
        let mut fast = engine(&world, 2);
        let mut sum = vec![0.0; world.layout.params];
        while fast.states().unwrap()[0].epoch.done == 0 {
            fast.steps(1, 1).unwrap();
            crate::ops::sums::add(&mut sum, &fast.read(0, Arena::Gradient).unwrap());
        }
        (sum, fast.states().unwrap()[0])
    };
    let ((whole, one), (parts, four)) = (sum_of(4196), sum_of(1049));
    assert_eq!((one.slot.step, four.slot.step), (1, 4));
    near("gradient", &whole, &parts, 1e-4);
    let (one, four) = (one.epoch, four.epoch);
    assert!((one.loss - four.loss).abs() < 1e-6 * four.loss && (one.weight - four.weight).abs() < 1e-6 * four.weight);
}

#[test]
fn bf16_rounds_where_it_says() {
    // A rounding that turns moves a number by 1 in 256; few do, so the gradient as a whole is near.
    check(&World::new("6-16-3", 40, 16, Precision::Bf16), 1e-2);
    check(&World::new(TWO_HEADS, 40, 16, Precision::Bf16).with_members(3), 1e-2);
    let (f32s, bf16s) = (World::new("6-16-3", 40, 16, Precision::F32), World::new("6-16-3", 40, 16, Precision::Bf16));
    let logits = [&f32s, &bf16s].map(|world| engine(world, 1).logits(0, &world.lists[0]).unwrap().remove(0));
    assert_ne!(bits(&logits[0]), bits(&logits[1]), "bf16 changes something");
}

#[test]
fn whole_nets_match_pytorch() {
    fixtures::check(|fixture| {
        let members = std::slice::from_ref(&fixture.member);
        let engine = super::Engine::new(
            &fixture.net,
            &fixture.layout,
            &fixture.tables(&Opened::Cpu { threads: 2 })?,
            &fixture.data(),
            &fixture.recipe,
            members,
            2,
        )?;
        Ok(Box::new(engine))
    });
}

#[test]
fn members_wait_and_stop_on_their_own() {
    let world = World::new("4-8-3", 50, 16, Precision::F32).with_members(6);
    let mut fast = engine(&world, 2);
    // More steps than any epoch has: everyone stops at its first epoch's end and waits.
    fast.steps(6, 100).unwrap();
    let first: Vec<_> =
        fast.states().unwrap().iter().map(|s| (s.epoch.done, s.slot.step, s.slot.due, s.epoch.cursor)).collect();
    let steps = |i: u32| if i % 3 == 2 { 2 } else { 4 }; // 17 or 50 samples in batches of 16
    assert_eq!(first, (0..6).map(|i| (1, steps(i), 1, 0)).collect::<Vec<_>>());
    for _ in 0..10 {
        go_on(&mut fast);
        fast.steps(6, 3).unwrap();
    }
    for (i, state) in (0..).zip(fast.states().unwrap()) {
        assert_eq!(
            (state.slot.active, state.epoch.done, state.slot.step),
            (0, 2 + i % 3, steps(i) * (2 + i % 3)),
            "member {i}"
        );
    }
}

#[test]
fn slots_beyond_the_active_ones_are_untouched() {
    let world = World::new("4-8-3", 50, 16, Precision::F32).with_members(3);
    let mut fast = engine(&world, 2);
    let before = fast.read(2, Arena::Params).unwrap();
    fast.steps(2, 2).unwrap();
    assert_eq!(fast.read(2, Arena::Params).unwrap(), before);
    assert_eq!(fast.states().unwrap().iter().map(|s| s.slot.step).collect::<Vec<_>>(), [2, 2, 0]);
    assert!(fast.steps(4, 1).is_err() && fast.score(4).is_err() && fast.logits(3, &[]).is_err());
}

#[test]
fn a_fault_changes_no_parameter_and_stops_the_member() {
    let nets = [("4-8-3", Precision::F32), ("4-8t-3", Precision::Bf16), ("8-1024-256-2", Precision::F32)];
    for (net, precision) in nets.into_iter().chain([("4-lstm8-3", Precision::F32), ("4-lstm8-3", Precision::Bf16)]) {
        let mut world = World::new(net, 50, 16, precision).with_members(2);
        // Member 0's list is all but the second half; member 1 never sees the bad row.
        let bad = world.lists[0][3];
        world.lists.push(world.lists[0][10..40].to_vec());
        world.members[1].train = 3;
        let stride = world.tables[0].1;
        world.tables[0].0[bad as usize * stride + 1] = f32::NAN;
        let mut fast = engine(&world, 2);
        let mut before = vec![];
        loop {
            let kept: Vec<_> = ARENAS[..3].iter().map(|a| bits(&fast.read(0, *a).unwrap())).collect();
            let state = fast.states().unwrap()[0];
            if state.slot.active == 0 {
                break;
            }
            before.push((kept, state.slot.step, state.epoch.cursor));
            fast.steps(2, 1).unwrap();
        }
        let (kept, step, cursor) = before.pop().unwrap();
        let state = fast.states().unwrap()[0];
        assert_eq!(
            (state.slot.fault, state.slot.active, state.slot.due, state.slot.step, state.epoch.cursor),
            (1, 0, 0, step, cursor),
            "{net}"
        );
        assert_eq!(ARENAS[..3].iter().map(|a| bits(&fast.read(0, *a).unwrap())).collect::<Vec<_>>(), kept, "{net}");
        let tensor = finite::tensor_not_finite(&world.layout, &fast.read(0, Arena::Gradient).unwrap());
        assert!(tensor.is_some(), "{net}: the gradient says where");
        let other = fast.states().unwrap()[1];
        assert!(other.slot.fault == 0 && other.slot.step == step + 1, "{net}: its neighbour goes on");
    }
}

#[test]
fn zero_sample_weights_change_nothing() {
    let mut world = World::new("4-8-3", 20, 16, Precision::F32);
    world.weights = world.weights.map(|w| vec![0.0; w.len()]);
    let mut fast = engine(&world, 1);
    let before = ARENAS.map(|a| bits(&fast.read(0, a).unwrap()));
    fast.steps(1, 1).unwrap();
    let state = fast.states().unwrap()[0];
    assert_eq!((state.slot.step, state.epoch.cursor, state.slot.fault, state.epoch.weight), (1, 16, 0, 0.0));
    assert_eq!(ARENAS[..3].iter().map(|a| bits(&fast.read(0, *a).unwrap())).collect::<Vec<_>>(), before[..3]);
}

#[test]
fn scores_and_logits_match_the_reference_forward() {
    let cases = [(2, 1), (40, 2), (600, 2), (1030, 3)].map(|(samples, threads)| (TWO_HEADS, samples, threads));
    for (net, samples, threads) in cases.into_iter().chain([(FAST_AND_SLOW, 2, 1), (FAST_AND_SLOW, 300, 2)]) {
        let world = World::new(net, samples, samples, Precision::F32).with_members(2);
        let (tables, data) = (world.tables().unwrap(), world.data());
        let mut fast = engine(&world, threads);
        let mut states = fast.states().unwrap();
        states[1].slot.due = 1;
        fast.set_states(&states).unwrap();
        let scores = fast.score(2).unwrap();
        assert_eq!(scores[0], Default::default(), "not due");
        let member = &world.members[1];
        let rows = &world.lists[1];
        let inputs = step::inputs::<f32>(&world.net, &tables, member, rows, Precision::F32);
        let params = fast.read(1, Arena::Params).unwrap();
        let buffers = whole::forward(&world.net, &world.layout, &params, &inputs, rows.len(), None, Precision::F32);
        let logits = whole::logits(&world.layout, &buffers, rows.len());
        let weights = step::weights(&data, member, rows, &vec![1.0; rows.len()]);
        let (loss, _) = step::losses(&data, &logits, rows, &weights, 0.0, Precision::F32);
        let got = fast.logits(1, rows).unwrap();
        for (h, (got, wanted)) in got.iter().zip(&logits).enumerate() {
            near(&format!("{samples} samples, head {h}"), got, wanted, 1e-5);
            let classes = world.net.heads[h].classes;
            let mut confusion = vec![0; classes * classes];
            for (z, &row) in got.chunks_exact(classes).zip(rows) {
                confusion[usize::from(world.labels[h][row as usize]) * classes + loss::guess(z)] += 1;
            }
            assert_eq!(scores[1].confusion[h], confusion);
        }
        assert!((scores[1].loss - loss).abs() < 1e-5 * loss);
        let weight: f64 = weights[0].iter().map(|w| f64::from(*w)).sum();
        assert!((scores[1].weight - weight).abs() < 1e-9 * weight);
    }
}

#[test]
fn invalid_requests_are_refused() {
    let world = World::new("a:3x2 + b:4 / 8 / up:3", 20, 8, Precision::F32);
    let refused = |change: &dyn Fn(&mut World), words: &str| {
        let mut world = world.clone();
        change(&mut world);
        let made = world.tables().and_then(|tables| {
            super::Engine::new(&world.net, &world.layout, &tables, &world.data(), &world.recipe, &world.members, 1)
        });
        let Err(Error::Invalid(message)) = made else { panic!("{words}: {made:?}") };
        assert!(message.contains(words), "`{message}` does not say `{words}`");
    };
    refused(&|w| w.tables.truncate(1), "one of each for every input");
    refused(&|w| w.tables[0].1 = 3, "multiple of 4");
    refused(&|w| w.tables[1].0.truncate(5), "whole rows");
    refused(&|w| w.maps[1] = None, "give it a map");
    refused(&|w| w.maps[0] = Some(vec![1, 10_000]), "names row 10000");
    refused(&|w| w.maps[0] = Some(vec![1, 2]), "for 2 ids");
    refused(&|w| w.maps[1] = Some(vec![0]), "one for each id");
    refused(&|w| w.maps[1].as_mut().unwrap()[3] = 10_000, "names row 10000");
    refused(&|w| w.labels.clear(), "one for each head");
    refused(&|w| w.labels[0].truncate(3), "one for each id");
    refused(&|w| w.labels[0][4] = 3, "id 4 has class 3 of 3");
    refused(&|w| w.weights.as_mut().unwrap()[2] = -1.0, "id 2 has the weight -1");
    refused(&|w| w.weights.as_mut().unwrap()[2] = f32::NAN, "id 2 has the weight NaN");
    refused(&|w| w.lists[1][0] = 10_000, "list 1: 10000 is none");
    refused(&|w| w.lists[0][0] = 0, "reaches before the table");
    refused(&|w| w.lists[0].clear(), "is empty");
    refused(&|w| w.recipe.batch = 0, "a batch of 0");
    refused(&|w| w.recipe.optimiser.beta2 = 1.0, "beta2 is 1");
    refused(&|w| w.recipe.smoothing = 1.0, "smoothing is 1");
    refused(&|w| w.recipe.average = Some(f32::NAN), "average is NaN");
    refused(&|w| w.recipe.schedule.warmup = 1.5, "warmup is 1.5");
    refused(&|w| w.members.clear(), "at least one member");
    refused(&|w| w.members.push(w.members[0].clone()), "the id 0");
    refused(&|w| w.members[0].valid = Some(9), "no list 9");
    refused(&|w| w.members[0].rate = f32::NAN, "a learning rate of NaN");
    refused(&|w| w.members[0].scales.clear(), "0 scales for 2 inputs");
    refused(&|w| w.members[0].scales[0].as_mut().unwrap().mean.clear(), "for each feature");
    refused(&|w| w.members[0].class_weights[0] = vec![1.0], "1 class weights");
    refused(&|w| w.members[0].class_weights[0][1] = f32::INFINITY, "class 1 has the weight inf");
    let mut fine = engine(&world, 1);
    assert!(fine.logits(0, &[0]).is_err() && fine.logits(0, &[10_000]).is_err());
    assert_eq!(fine.logits(0, &[]).unwrap(), [vec![0f32; 0]]);
    assert!(fine.write(0, Arena::Params, &[1.0]).is_err() && fine.set_states(&[]).is_err());
    let tables = world.tables().unwrap();
    assert!(
        super::Engine::new(&world.net, &world.layout, &tables, &world.data(), &world.recipe, &world.members, 0)
            .is_err()
    );
}

#[test]
fn estimated_memory_is_what_is_allocated() {
    for (net, precision) in [
        ("6-16-3", Precision::F32),
        ("6-16-3", Precision::Bf16),
        ("24x10-512-512t-3", Precision::Bf16),
        ("6x4-lstm20-lstm9-3", Precision::F32),
        ("6x4-lstm20-3", Precision::Bf16),
        ("6-16nd20-3", Precision::Bf16),
    ] {
        for (members, threads, parts) in [(1, 4, 1), (5, 2, 1), (3, 2, 7), (1, 1, 400)] {
            let mut world = World::new(net, 6000, 5000, precision).with_members(members);
            world.recipe.average = (members == 5).then_some(0.99);
            let pace = Pace { parts };
            let (data, all) = (world.data(), &world.members);
            let made = Engine::paced(
                pace,
                &world.net,
                &world.layout,
                &world.tables().unwrap(),
                &data,
                &world.recipe,
                all,
                threads,
            )
            .unwrap();
            let slots =
                made.nets.slots.iter().map(|s| 4 * s.params.len() + s.average.len() + s.rounded.len() + s.packed.len());
            let lanes = made.nets.lanes.iter().map(|l| l.partials.len() + l.values.len() + l.back.len());
            let scratch = made.nets.core.scratch.iter().map(|s| {
                let scratch = s.lock().unwrap();
                let sequences = scratch.sequences.iter().map(|s| s.len()).sum::<usize>();
                scratch.values.len() + scratch.back.len() + sequences
            });
            let data = world.weights.as_ref().map_or(0, Vec::len) + world.lists.iter().map(Vec::len).sum::<usize>();
            let taken = 4 * (slots.sum::<usize>() + lanes.sum::<usize>() + scratch.sum::<usize>() + data)
                + world.labels[0].len();
            let need =
                crate::cpu::need(&world.net, &world.layout, &world.data(), &world.recipe, members, threads, pace);
            assert_eq!(need, taken as u64, "{net}, {precision:?}, {members} members, {threads} threads, {parts} parts");
        }
    }
}
