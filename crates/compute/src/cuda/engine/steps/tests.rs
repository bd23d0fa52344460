//! Recurrent layers on a card against the processor, against themselves, and in any company. Where there is no card
//! every test says so.

use crate::cuda::engine::{Engine, KernelPath};
use crate::cuda::tests::agrees;
use crate::device::Opened;
use crate::net::Layout;
use crate::population::backend::{Arena, Backend, Sums};
use crate::population::make::{Made, recipe};
use crate::population::tests::cards;
use crate::population::{Member, Pace, Pins, Precision, State};

/// Two branches of one and two recurrent layers, two heads, odd sizes.
const TWO: &str = "fast:5x7-lstm96-lstm20 + slow:3x4-lstm9-6t / 8 / side:3 + size:4";

/// All sizes in one precision, and some that are this precision's own.
fn check(precision: Precision, more: &[(&str, usize)]) {
    let nets = [
        ("6x9-lstm20-3", 33),
        ("7x1-lstm24-lstm40-2", 17),
        ("4x5-lstm16-lstm33-lstm64-3", 50),
        ("slow:3-8 + fast:5x6-lstm70 / 12 / a:3", 31),
        (TWO, 40),
        ("1x3-lstm1-2", 1),
        ("20x4-lstm256-3", 300),
        // So many rows of all steps that sums of weights go in slices.
        ("17x30-lstm16-3", 700),
    ];
    for context in cards() {
        for (net, batch) in nets.iter().chain(more) {
            agrees(&context, net, *batch, precision);
        }
    }
}

#[test]
fn every_size_agrees_with_the_processor_in_f32() {
    check(Precision::F32, &[("16x12-lstm64-3", 65)]);
}

#[test]
fn every_size_agrees_with_the_processor_in_tf32() {
    check(Precision::Tf32, &[]);
}

#[test]
fn every_size_agrees_with_the_processor_in_bf16() {
    check(Precision::Bf16, &[("16x10-lstm96-16-3", 65), ("16x8-lstm128-lstm128-3", 48)]);
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn a_member_trains_to_the_same_bits_alone_and_in_a_population() {
    for context in cards() {
        for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
            let made = Made::new(TWO, 90);
            let recipe = recipe(24, precision);
            // Trains members to their ends, scoring whoever is due; those who are done sit and wait.
            let run = |members: &[Member]| {
                let mut engine = made.engine(KernelPath::Rule, &context, &recipe, members, &Pins::default());
                let mut scores: Vec<Vec<Sums>> = vec![Vec::new(); members.len()];
                for _ in 0..20 {
                    engine.steps(members.len(), 1).unwrap();
                    let states = engine.states().unwrap();
                    for (slot, sums) in engine.score(members.len()).unwrap().into_iter().enumerate() {
                        if states[slot].slot.due != 0 {
                            scores[slot].push(sums);
                        }
                    }
                    let ready: Vec<State> = states.iter().map(|s| s.with_due(0)).collect();
                    engine.set_states(&ready).unwrap();
                }
                let states = engine.states().unwrap();
                assert!(states.iter().all(|s| s.slot.active == 0 && s.slot.fault == 0), "everyone came to an end");
                let rows: Vec<Vec<u32>> =
                    (0..members.len()).map(|slot| bits(&engine.read(slot, Arena::Params).unwrap())).collect();
                (rows, scores)
            };
            let members: Vec<Member> = (0..7).map(|id| made.member(id)).collect();
            let (rows, scores) = run(&members);
            for id in [0, 3, 6] {
                let (alone, score) = run(&members[id..=id]);
                assert!(rows[id] == alone[0], "{precision:?}: member {id}");
                assert_eq!(scores[id], score[0], "{precision:?}: scores of member {id}");
            }
            assert!(run(&members) == (rows, scores), "{precision:?}: the same run twice");
        }
    }
}

#[test]
fn pins_carry_over_and_tuned_plans_are_used() {
    for context in cards() {
        let made = Made::new("16x6-lstm96-lstm32-3", 300);
        let members: Vec<Member> = (0..2).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
        let recipe = recipe(64, Precision::Bf16);
        let device = Opened::Cuda(context.clone());
        let run = |pins: &Pins| {
            let mut p = made.pinned(&device, &recipe, &members, pins);
            p.steps(4).unwrap();
            (bits(&p.params(0).unwrap()), bits(&p.params(1).unwrap()), p.pins())
        };
        let one = run(&Pins::default());
        let ours = one.2.0.keys().filter(|key| key.contains(".lstm.")).count();
        // Weights of both layers and what the upper one hands down; gates and carry too, where a plan does many members
        // at once.
        let expected = if context.blaslt().is_ok() { 3..=7 } else { 0..=0 };
        assert!(expected.contains(&ours), "{ours}");
        assert!(run(&one.2) == one, "pinned plans are taken");
        let mut p = made.population(&device, &recipe, &members);
        p.tune().unwrap();
        let tuned = p.pins();
        p.steps(2).unwrap();
        drop(p);
        assert_eq!(run(&tuned).2, tuned, "what was tuned is what is used");
    }
}

#[test]
fn sizes_that_a_card_cannot_do_are_refused() {
    for context in cards() {
        let made = Made::new("1x60000-lstm1-2", 60_100);
        let layout = Layout::new(&made.net).unwrap();
        let members = [made.member(0)];
        let (data, recipe) = (made.data(), recipe(300, Precision::F32));
        let made = Engine::new(
            KernelPath::Rule,
            Pace::default(),
            &context,
            &made.net,
            &layout,
            &made.card(&context),
            &data,
            &recipe,
            &members,
            &Pins::default(),
            None,
        );
        let why = made.map(|_| ()).unwrap_err().to_string();
        assert!(why.contains("16,776,960 rows"), "{why}");
    }
}
