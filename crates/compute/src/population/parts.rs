//! Batches in parts: the same training in less memory. Tests on every device that is here.

use super::backend::Arena;
use super::make::{Made, recipe};
use super::tests::{cards, devices};
use super::{Member, Pace, Pins, Population, Precision, Recipe, Snapshot, Status};
use crate::device::{Budget, Opened};
use crate::error::Error;

/// Layers, branches, windows in one kernel and step by step, stacks of them, norms and values left out, several heads.
const NETS: [&str; 6] = [
    "7-12-3",
    "16-64t-32-2",
    "fast:5x4-24-16t + slow:3-8 / 40 / side:3 + size:5",
    "fast:5x6-lstm12-lstm7 + slow:3x4-lstm9-6t / 8 / side:3",
    "fast:5x6-lstm80d10 + slow:3x4-lstm9 / 16 / side:3",
    "fast:5x6-lstm12d20-8ntd10 + slow:3x4-12n / 16nd25 / side:3 + size:5",
];

fn made(device: &Opened, made: &Made, recipe: &Recipe, members: &[Member], parts: u32) -> Population {
    let (data, pins) = (made.data(), Pins::default());
    Population::paced(
        device,
        Budget::default(),
        &made.net,
        &made.tables(device).unwrap(),
        &data,
        recipe,
        members,
        &pins,
        Pace { parts },
    )
    .unwrap()
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|x| x.to_bits()).collect()
}

/// The largest difference, as a share of the largest number.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    let scale = a.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
    a.iter().zip(b).fold(0.0, |most: f32, (a, b)| most.max((a - b).abs())) / scale
}

#[test]
fn a_batch_in_parts_matches_the_whole_batch_up_to_summation_order() {
    for (name, device) in devices() {
        for (net, precision) in NETS.iter().flat_map(|n| [(n, Precision::F32), (n, Precision::Bf16)]) {
            // In bf16 another way of a product, or of a whole net, may round the other way now and then.
            let near = if precision == Precision::F32 { 2e-5 } else { 2e-2 };
            let data = Made::new(net, 150);
            let members: Vec<Member> = [0, 1, 3].map(|id| Member { epochs: 2, ..data.member(id) }).into();
            let recipe = Recipe { smoothing: 0.1, average: Some(0.9), ..recipe(37, precision) };
            let mut whole = made(&device, &data, &recipe, &members, 1);
            // 5 parts of 8 rows end within the last one, 37 parts are rows one by one; every list ends within a batch.
            let mut others: Vec<(u32, Population)> =
                [2, 5, 37].map(|parts| (parts, made(&device, &data, &recipe, &members, parts))).into();
            loop {
                let snapshots: Vec<Snapshot> = members.iter().map(|m| whole.snapshot(m.id).unwrap()).collect();
                let wanted = whole.steps(1).unwrap();
                for (parts, other) in &mut others {
                    let case = format!("{name} {net} {precision:?} in {parts} parts");
                    snapshots.iter().for_each(|s| other.restore(s).unwrap());
                    let got = other.steps(1).unwrap();
                    for (before, (got, wanted)) in snapshots.iter().zip(got.iter().zip(&wanted)) {
                        let place = |s: &Status| (s.id, s.active, s.due, s.fault, s.epoch, s.step);
                        assert_eq!(place(got), place(wanted), "{case}");
                        // Of a member that has ended nothing is left but its weights.
                        if got.step == before.state.slot.step {
                            continue;
                        }
                        let (a, b) = (wanted.loss, got.loss);
                        assert!((a - b).abs() <= f64::from(near) * a.abs(), "{case}: a loss of {b}, not of {a}");
                        let slots = (whole.slot(got.id).unwrap(), other.slot(got.id).unwrap());
                        let states = (whole.states[slots.0], other.states[slots.1]);
                        assert!(
                            (states.0.epoch.weight - states.1.epoch.weight).abs() <= 1e-9 * states.0.epoch.weight,
                            "{case}"
                        );
                        let gradients = (
                            whole.backend.read(slots.0, Arena::Gradient).unwrap(),
                            other.backend.read(slots.1, Arena::Gradient).unwrap(),
                        );
                        let far = apart(&gradients.0, &gradients.1);
                        assert!(far <= near, "{case}, step {}: gradients are {far} apart", got.step);
                    }
                }
                whole.validate().unwrap();
                others.iter_mut().for_each(|(_, other)| drop(other.validate().unwrap()));
                if wanted.iter().all(|s| !s.active) {
                    break;
                }
            }
        }
    }
}

/// Trains to the end, taken apart and put together again on the way; the weights of every member.
fn train(device: &Opened, data: &Made, recipe: &Recipe, members: &[Member], parts: u32, cut: bool) -> Vec<Vec<u32>> {
    let mut population = made(device, data, recipe, members, parts);
    for chunk in 0..1000 {
        let statuses = population.steps(1 + chunk % 3).unwrap();
        if cut && chunk == 2 {
            let stored: Vec<Snapshot> = members.iter().map(|m| population.snapshot(m.id).unwrap()).collect();
            population = made(device, data, recipe, members, parts);
            stored.iter().for_each(|s| population.restore(s).unwrap());
        }
        population.validate().unwrap();
        if statuses.iter().all(|s| !s.active) {
            break;
        }
    }
    members.iter().map(|m| bits(&population.params(m.id).unwrap())).collect()
}

#[test]
fn parts_give_the_same_bits_for_any_threads_neighbours_and_cuts() {
    for (net, precision) in NETS.iter().flat_map(|n| [(n, Precision::F32), (n, Precision::Bf16)]) {
        let data = Made::new(net, 130);
        let members: Vec<Member> = (0..5).map(|id| data.member(id)).collect();
        let recipe = recipe(37, precision);
        let mut on_cpu = None;
        for (name, device) in devices() {
            let case = format!("{name} {net} {precision:?}");
            let all = train(&device, &data, &recipe, &members, 4, false);
            assert!(all == train(&device, &data, &recipe, &members, 4, true), "{case}: cut");
            assert!(all[3] == train(&device, &data, &recipe, &members[3..4], 4, false)[0], "{case}: alone");
            if matches!(device, Opened::Cpu { .. }) {
                assert!(*on_cpu.get_or_insert_with(|| all.clone()) == all, "{case}: other threads");
            }
        }
    }
}

#[test]
fn parts_of_whole_slices_change_no_bit_on_a_cpu() {
    let device = Opened::Cpu { threads: 2 };
    for (net, batch, parts) in [("fast:5x6-lstm12-lstm7 + slow:3-6t / 8 / side:3", 64, 2), ("7-12n-3", 512, 4)] {
        let data = Made::new(net, 1200);
        let (members, recipe) = ([data.member(1)], recipe(batch, Precision::F32));
        let whole = train(&device, &data, &recipe, &members, 1, false);
        assert!(whole == train(&device, &data, &recipe, &members, parts, false), "{net}");
    }
}

#[test]
fn parts_need_less_memory_and_refusals_name_the_cause() {
    for (name, device) in devices() {
        let data = Made::new("16x8-lstm64-256-3", 2000);
        let members = [data.member(0)];
        let recipe = recipe(1024, Precision::F32);
        let need =
            |parts| Population::need(&device, &data.net, &data.data(), &recipe, &members, Pace { parts }).unwrap();
        let needs = [1, 4, 8, 32].map(need);
        assert!(needs.windows(2).all(|two| two[1] < two[0]), "{name}: {needs:?}");
        let tables = data.tables(&device).unwrap();
        let build = |parts, budget| {
            let (pins, made) = (Pins::default(), data.data());
            Population::paced(&device, budget, &data.net, &tables, &made, &recipe, &members, &pins, Pace { parts })
                .map(drop)
        };
        let between = Budget::Bytes(tables.bytes() + (needs[0] + needs[2]) / 2);
        let refused = build(1, between).unwrap_err();
        assert!(refused.is_memory(), "{name}: {refused}");
        build(8, between).unwrap();
        let Error::Memory { what, .. } = build(8, Budget::Bytes(1000)).unwrap_err() else { panic!("{name}") };
        assert!(what.contains("batches of 1024 in 8 parts of 128"), "{name}: {what}");
        for parts in [0, 1025] {
            let refused = build(parts, Budget::default()).unwrap_err();
            assert!(refused.to_string().contains("1 to 1024 are possible"), "{name}: {refused}");
        }
    }
}

#[test]
fn a_card_without_memory_reports_it() {
    for context in cards() {
        let refused = context.slab(1 << 50).err().unwrap();
        assert!(refused.is_memory() && refused.to_string().contains("another program"), "{refused}");
    }
}
