//! The card against the processor. Where there is no card every test here says so and passes.

use super::engine::{Engine, KernelPath};
use super::{Context, Module, Slice, Stream, kernels};
use crate::cuda::module::Kernel;
use crate::device::{Budget, Opened};
use crate::net::{Activation, Layout};
use crate::population::backend::{Arena, Backend};
use crate::population::make::{Made, recipe};
use crate::population::tests::{cards, say};
use crate::population::{EpochState, Member, Pace, Pins, Population, Precision, Recipe, Schedule, SlotState, State};
use crate::random::{Permutation, below, normals, philox, uniform};
use std::sync::Arc;

#[test]
fn states_have_no_padding() {
    assert_eq!((size_of::<SlotState>(), align_of::<SlotState>()), (9 * 4, 4));
    assert_eq!((size_of::<EpochState>(), align_of::<EpochState>()), (4 * 4 + 3 * 8, 8));
}

#[test]
fn training_on_a_card_follows_pytorch() {
    for context in cards() {
        crate::population::fixtures::check(|f| {
            let members = std::slice::from_ref(&f.member);
            let engine = Engine::new(
                KernelPath::Rule,
                Pace::default(),
                &context,
                &f.net,
                &f.layout,
                &f.tables(&Opened::Cuda(context.clone()))?,
                &f.data(),
                &f.recipe,
                members,
                &Pins::default(),
                None,
            )?;
            Ok(Box::new(engine))
        });
    }
}

/// ‖a - b‖ / ‖b‖.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let off = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    off / norm(&mut b.iter().map(|b| f64::from(*b))).max(1e-30)
}

#[test]
fn training_on_a_card_agrees_with_the_processor() {
    let nets = [
        ("7-12-3", 16),
        ("4-4-2", 1),
        ("16-64t-32-2", 33),
        ("64-128t-128t-3", 256),
        ("128-512t-256t-3", 1024),
        ("33-100-7", 257),
        ("fast:5x4-24-16t + slow:3-8 / 40 / side:3 + size:5", 64),
        ("12-3", 500),
        ("128-512-256-3", 1024),
        ("64-4096-8-3", 96),
        ("20x6-256t-64-30", 300),
        ("16-48-24-3", 16384),
        ("64-128-128-3", 256),
        ("256-256-256t-256-32", 130),
        ("24-48-40", 70),
        ("8x9-40-5", 2100),
        ("16x10-lstm64-3", 70),
        ("5x9-lstm20-lstm16-24t-3", 33),
        ("fast:16x12-lstm64 + slow:12x5-lstm32-16 / 32 / side:3 + size:4", 50),
        ("fast:16x12-lstm64 + slow:12x5-lstm32-16t / 32t / side:3 + size:4", 50),
        ("50x4-lstm48-3", 2200),
        ("plain:7-8 + seen:32x1-lstm64 / up:3", 40),
    ];
    // Small nets go their own way in bf16, and the layers' way is to be right for them too.
    let ways = [
        (Precision::F32, KernelPath::Rule),
        (Precision::Bf16, KernelPath::Rule),
        (Precision::Bf16, KernelPath::Layered),
        (Precision::Tf32, KernelPath::Rule),
    ];
    for context in cards() {
        for (net, batch) in nets {
            for (precision, path) in ways {
                agree(&context, path, net, batch, precision, |_| {});
            }
        }
    }
}

/// Nets with norms and dropouts, wherever they may stand.
const EXTRAS: [(&str, usize); 7] = [
    ("7-12n-3", 16),
    ("16-64ntd20-32d50-2", 33),
    ("fast:5x4-24n-16td30 + slow:3-8d10 + raw:4 / 40nid5 / side:3 + size:5", 64),
    ("33-100nd30-7", 257),
    // Smooth ones: among so many units a ReLU would be at 0 to the last digit, and on another side on each.
    ("16-1000nt-4090ntd10-5", 70),
    ("16x10-lstm64d20-3", 70),
    ("fast:16x12-lstm64d30-20nt + slow:12x5-lstm32-lstm80d50 / 32nd10 / side:3 + size:4", 50),
];

#[test]
fn norms_and_dropouts_agree_with_the_processor() {
    for context in cards() {
        for (net, batch) in EXTRAS {
            for precision in [Precision::F32, Precision::Bf16, Precision::Tf32] {
                agree(&context, KernelPath::Rule, net, batch, precision, |_| {});
            }
        }
    }
}

#[test]
fn every_option_of_a_recipe_agrees_with_the_processor() {
    let nets = ["64-128-128-3", "16-64t-32-20", "fast:5x4-24-16t + slow:3x3-lstm9 / 40 / side:3 + size:5", "33-512-7"];
    let schedules = [Schedule::CONSTANT, Schedule::cosine(0.3, 0.1), Schedule::one_cycle(0.4, 0.01)];
    for context in cards() {
        for (net, precision) in nets.into_iter().flat_map(|net| [(net, Precision::F32), (net, Precision::Bf16)]) {
            for schedule in schedules {
                let recipe = Recipe { schedule, smoothing: 0.15, average: Some(0.8), ..recipe(64, precision) };
                agree_by(&context, KernelPath::Rule, net, &recipe, |_| {});
                // Without smoothing small nets go their own way, and are averaged there too.
                let recipe = Recipe { smoothing: 0.0, ..recipe };
                agree_by(&context, KernelPath::Rule, net, &recipe, |_| {});
            }
        }
    }
}

#[test]
fn products_on_hoppers_units_agree_with_the_processor() {
    // Less than a tile, ragged in rows, columns and depth, several tiles, an identity before it.
    let nets =
        [("7-16-8-3", 5), ("16-264-72-3", 300), ("24-136i-72-40-3", 300), ("128-512-256-3", 1024), ("8-2048-8-3", 130)];
    for context in cards().iter().filter(|c| c.gpu().capability == (9, 0)) {
        for (net, batch) in nets {
            agree(context, KernelPath::Layered, net, batch, Precision::Bf16, |card| {
                assert!(card.on_hopper() > 1, "{net}")
            });
        }
    }
}

#[test]
fn a_small_net_has_the_same_bits_with_any_number_of_rows_at_once() {
    for context in cards() {
        for (net, batch) in [("64-128-128-3", 256), ("7-12t-9", 33), ("5x4-24-16t-20", 2500), ("64-64-64-2", 1000)] {
            let made = Made::new(net, batch * 3);
            let members: Vec<Member> = (0..3).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
            let recipe = recipe(batch, Precision::Bf16);
            let run = |path| {
                let pins = Pins::default();
                let mut card = made.engine(path, &context, &recipe, &members, &pins);
                card.steps(3, 2).unwrap();
                let due: Vec<State> = card.states().unwrap().iter().map(|s| s.with_due(1)).collect();
                card.set_states(&due).unwrap();
                let scores = card.score(3).unwrap();
                let rows: Vec<Vec<f32>> = (0..3).map(|slot| card.read(slot, Arena::Params).unwrap()).collect();
                (rows, scores, card.states().unwrap())
            };
            let many = run(KernelPath::Rows(128));
            assert!(many.0.iter().flatten().all(|x| x.is_finite()), "{net}");
            for path in [KernelPath::Rows(64), KernelPath::Rows(32), KernelPath::Rule] {
                assert!(run(path) == many, "{net}, batch {batch}, {path:?}");
            }
        }
    }
}

#[test]
fn whole_steps_of_clusters_have_the_bits_of_three_kernels_a_step() {
    let nets = [("64-128-128-3", 256), ("64-128-128-3", 100), ("5x4-24-16t-9", 300), ("7-12-3", 1000), ("12-3", 129)];
    for context in cards() {
        for (net, batch) in nets {
            let made = Made::new(net, batch * 4);
            let members: Vec<Member> = (0..4).map(|id| Member { epochs: 2, ..made.member(id) }).collect();
            let recipe = recipe(batch, Precision::Bf16);
            let run = |path| {
                let pins = Pins::default();
                let mut card = made.engine(path, &context, &recipe, &members, &pins);
                let clusters = context.gpu().capability == (9, 0) && path == KernelPath::Rule;
                let listed = card.kernel_paths().iter().any(|path| path.contains("whole steps"));
                assert!(listed == (clusters && context.gpu().shared > 200 << 10), "{:?}", card.kernel_paths());
                let mut seen = Vec::new();
                let mut look = |card: &mut Engine| {
                    let arenas = [Arena::Params, Arena::Mean, Arena::Square, Arena::Gradient];
                    let row = |(slot, arena)| card.read(slot, arena).unwrap().into_iter().map(f32::to_bits).collect();
                    let rows: Vec<Vec<u32>> =
                        (0..4).flat_map(|slot| arenas.map(|arena| (slot, arena))).map(row).collect();
                    seen.push((rows, format!("{:?}", card.states().unwrap())));
                };
                // One sits out, one comes to grief, all stop at the end of an epoch, however many steps are asked for.
                let mut states = card.states().unwrap();
                states[1].slot.active = 0;
                card.set_states(&states).unwrap();
                card.steps(4, 1).unwrap();
                look(&mut card);
                let mut bad = card.read(2, Arena::Params).unwrap();
                bad[0] = f32::NAN;
                card.write(2, Arena::Params, &bad).unwrap();
                card.steps(4, 100).unwrap();
                look(&mut card);
                let states: Vec<State> = card.states().unwrap().iter().map(|s| s.with_due(0)).collect();
                assert!(
                    states[0].epoch.done == 1 && states[1].slot.step == 0 && states[2].slot.fault == 1,
                    "{net}: {states:?}"
                );
                card.set_states(&states).unwrap();
                card.steps(4, 2).unwrap();
                look(&mut card);
                card.steps(4, 100).unwrap();
                look(&mut card);
                assert!(card.states().unwrap()[0].slot.active == 0);
                seen
            };
            assert!(run(KernelPath::Rule) == run(KernelPath::Rows(128)), "{net}, batch {batch}");
        }
    }
}

#[test]
fn a_small_net_trains_to_the_same_bits_alone_and_in_a_population() {
    for context in cards() {
        let made = Made::new("64-128-128-3", 1000);
        let recipe = recipe(300, Precision::Bf16);
        let run = |members: &[Member], slot: usize| {
            let pins = Pins::default();
            let mut card = made.engine(KernelPath::Rule, &context, &recipe, members, &pins);
            assert!(card.kernel_paths().iter().any(|path| path.contains("one kernel")), "{:?}", card.kernel_paths());
            card.steps(members.len(), 3).unwrap();
            (card.read(slot, Arena::Params).unwrap(), card.read(slot, Arena::Gradient).unwrap())
        };
        let members: Vec<Member> = (0..300).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
        for slot in [0, 1, 150, 299] {
            assert!(run(&members, slot) == run(&members[slot..=slot], 0), "slot {slot}");
        }
    }
}

#[test]
fn products_on_hoppers_units_give_a_member_the_same_bits_in_any_population() {
    for context in cards().iter().filter(|c| c.gpu().capability == (9, 0)) {
        let made = Made::new("16-520-264-3", 900);
        let members: Vec<Member> = (0..4).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
        let recipe = recipe(300, Precision::Bf16);
        let make = |members: &[Member]| {
            let mut card = made.engine(KernelPath::Rule, context, &recipe, members, &Pins::default());
            assert!(card.on_hopper() > 1);
            card
        };
        let mut all = make(&members);
        all.steps(4, 2).unwrap();
        // One sits out: it stays as it is, and nobody notices.
        let (mut states, still) = (all.states().unwrap(), all.read(1, Arena::Params).unwrap());
        states[1].slot.active = 0;
        all.set_states(&states).unwrap();
        all.steps(4, 3).unwrap();
        assert!(all.read(1, Arena::Params).unwrap() == still);
        for id in [0, 2, 3] {
            let mut alone = make(&members[id..=id]);
            alone.steps(1, 5).unwrap();
            assert!(alone.read(0, Arena::Params).unwrap() == all.read(id, Arena::Params).unwrap(), "member {id}");
        }
    }
}

#[test]
fn large_products_use_hoppers_units_and_are_listed() {
    for context in cards() {
        let made = Made::new("8-1024-512-3", 9000);
        let (recipe, members) = (recipe(8192, Precision::Bf16), [made.member(0)]);
        let make = |pins: &Pins| made.engine(KernelPath::Rule, &context, &recipe, &members, pins);
        let mut card = make(&Pins::default());
        let hopper = context.gpu().capability == (9, 0);
        assert_eq!(card.kernel_paths().iter().any(|path| path.contains("Hopper")), hopper, "{:?}", card.kernel_paths());
        let pins = card.pins();
        assert_eq!(pins.0.values().any(|pin| pin == "hopper"), hopper);
        card.steps(1, 2).unwrap();
        let mut pinned = make(&pins);
        pinned.steps(1, 2).unwrap();
        assert!(card.read(0, Arena::Params).unwrap() == pinned.read(0, Arena::Params).unwrap());
    }
}

/// The same for whatever ways there are for a net.
pub(super) fn agrees(context: &Arc<Context>, net: &str, batch: usize, precision: Precision) {
    agree(context, KernelPath::Rule, net, batch, precision, |_| {});
    if precision == Precision::Bf16 {
        agree(context, KernelPath::Layered, net, batch, precision, |_| {});
    }
}

/// Logits, gradients, weights, states and scores of three members on a card and on the processor, over four steps.
fn agree(
    context: &Arc<Context>,
    path: KernelPath,
    net: &str,
    batch: usize,
    precision: Precision,
    prepare: impl Fn(&mut Engine),
) {
    agree_by(context, path, net, &recipe(batch, precision), prepare);
}

/// The same by any recipe.
fn agree_by(context: &Arc<Context>, path: KernelPath, net: &str, recipe: &Recipe, prepare: impl Fn(&mut Engine)) {
    let &Recipe { batch, precision, .. } = recipe;
    let made = Made::new(net, (batch * 5 / 2).max(40));
    let layout = Layout::new(&made.net).unwrap();
    let members: Vec<Member> = (0..3).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
    let data = made.data();
    let mut cpu = crate::cpu::Engine::new(
        &made.net,
        &layout,
        &made.tables(&Opened::Cpu { threads: 2 }).unwrap(),
        &data,
        recipe,
        &members,
        2,
    )
    .unwrap();
    let pins = Pins::default();
    let mut card = made.engine(path, context, recipe, &members, &pins);
    prepare(&mut card);
    let library = context.library().unwrap_or("own products".into());
    let place = format!("{net}, batch {batch}, {precision:?}, {path:?}, {library}");
    let (first, later) = match precision {
        Precision::F32 => (2e-5, 2e-4),
        // The processor has no TF32: this is the distance to f32.
        Precision::Tf32 => (5e-3, 2e-2),
        Precision::Bf16 => (1e-3, 1e-2),
    };
    // Where a sum in another order turns the sign before a ReLU, the gradient has one more row of one unit or one less:
    // no rounding is that large, and without such layers there is nothing of the kind.
    let turns = layout.linears.iter().any(|l| l.activation == Activation::Relu);
    let gradient = |step: usize| match (precision, step, turns) {
        (Precision::Bf16, 0, false) => 1e-3,
        (Precision::Bf16, _, false) | (Precision::Bf16, 0, true) => 2e-3,
        (Precision::Bf16, _, true) => 3e-2,
        // TF32 keeps 10 bits, and gradients are what is left of large sums.
        (Precision::F32, 0, _) => first * 2.0,
        _ => later * 10.0,
    };
    let mut worst = [0f64; 3];
    for slot in 0..3 {
        let (a, b) = (card.read(slot, Arena::Params).unwrap(), cpu.read(slot, Arena::Params).unwrap());
        assert_eq!(a, b, "{place}: first weights");
        let rows = &made.lists[1];
        for (a, b) in card.logits(slot, rows).unwrap().iter().zip(&cpu.logits(slot, rows).unwrap()) {
            let off = apart(a, b);
            worst[0] = worst[0].max(off);
            assert!(off < first, "{place}: logits {off:.1e} apart");
        }
    }
    for step in 0..4 {
        cpu.steps(3, 1).unwrap();
        card.steps(3, 1).unwrap();
        for slot in 0..3 {
            let (a, b) = (card.read(slot, Arena::Gradient).unwrap(), cpu.read(slot, Arena::Gradient).unwrap());
            let off = apart(&a, &b);
            let kind = 1 + usize::from(step > 0);
            worst[kind] = worst[kind].max(off);
            assert!(off < gradient(step), "{place}: gradient of slot {slot} at step {step} is {off:.1e} apart");
            let (a, b) = (card.read(slot, Arena::Params).unwrap(), cpu.read(slot, Arena::Params).unwrap());
            let off = apart(&a, &b);
            assert!(off < later, "{place}: weights of slot {slot} at step {step} are {off:.1e} apart");
        }
        let (mut a, mut b) = (card.states().unwrap(), cpu.states().unwrap());
        for (a, b) in a.iter_mut().zip(&mut b) {
            let near = |x: f64, y: f64| (x - y).abs() <= (later * 5.0) * y.abs() + 1e-9;
            assert!(
                near(a.epoch.loss, b.epoch.loss) && near(a.slot.norm.into(), b.slot.norm.into()),
                "{place}: {a:?} {b:?}"
            );
            let (ours, wanted) = (a.epoch.weight, b.epoch.weight);
            assert!((ours - wanted).abs() <= 1e-12 * wanted, "{place}: {a:?} {b:?}");
            (a.epoch.loss, a.slot.norm, a.epoch.weight) = (b.epoch.loss, b.slot.norm, wanted);
        }
        assert_eq!(a, b, "{place}: states after step {step}");
        // Validation as if it were time, from the same weights.
        for slot in 0..3 {
            let row = cpu.read(slot, Arena::Params).unwrap();
            card.write(slot, Arena::Params, &row).unwrap();
            let average = recipe.average.is_some().then_some(Arena::Average);
            for arena in [Arena::Mean, Arena::Square].into_iter().chain(average) {
                let row = cpu.read(slot, arena).unwrap();
                let off = apart(&card.read(slot, arena).unwrap(), &row);
                assert!(arena != Arena::Average || off < later, "{place}: averages are {off:.1e} apart");
                card.write(slot, arena, &row).unwrap();
            }
        }
        let due: Vec<State> = b.iter().map(|s| s.with_due(1)).collect();
        cpu.set_states(&due).unwrap();
        card.set_states(&due).unwrap();
        for (a, b) in card.score(3).unwrap().iter().zip(&cpu.score(3).unwrap()) {
            assert!((a.loss - b.loss).abs() <= first * 5.0 * b.loss.abs(), "{place}: {a:?} {b:?}");
            assert!((a.weight - b.weight).abs() <= 1e-12 * b.weight, "{place}");
            for (a, b) in a.confusion.iter().zip(&b.confusion) {
                let moved: u64 = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).sum();
                assert!(moved <= 2 + b.iter().sum::<u64>() / 50, "{place}: {a:?} {b:?}");
            }
        }
        let ready: Vec<State> = b.iter().map(|s| s.with_due(0)).collect();
        cpu.set_states(&ready).unwrap();
        card.set_states(&ready).unwrap();
    }
    let [logits, gradient, later] = worst;
    say(&format!("apart: logits {logits:.1e}, first gradient {gradient:.1e}, later ones {later:.1e}: {place}"));
}

#[test]
fn a_replayed_graph_gives_the_bits_of_single_launches() {
    let nets = [
        "fast:5x4-24-16t + slow:3-8 / 40 / side:3 + size:5",
        "5x4-24-16t-9",
        "fast:5x4-24n-16td30 + slow:3x5-lstm8d10 / 40nd5 / side:3 + size:5",
        // Recurrent layers that go step by step.
        "fast:5x7-lstm96-lstm20 + slow:3x4-lstm9-6t / 8 / side:3 + size:4",
    ];
    for context in cards() {
        for (precision, net) in [Precision::F32, Precision::Bf16].into_iter().flat_map(|p| nets.map(|net| (p, net))) {
            let made = Made::new(net, 200);
            let members: Vec<Member> = (0..4).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
            let recipe = Recipe { average: Some(0.9), ..recipe(32, precision) };
            let make = || made.engine(KernelPath::Rule, &context, &recipe, &members, &Pins::default());
            let (mut replayed, mut single) = (make(), make());
            // Made before, and nothing is run by it.
            replayed.prepare(4).unwrap();
            assert_eq!(replayed.states().unwrap(), single.states().unwrap());
            replayed.steps(4, 5).unwrap();
            for _ in 0..5 {
                single.step_without_graph(4).unwrap();
            }
            for slot in 0..4 {
                for arena in [Arena::Params, Arena::Average] {
                    assert_eq!(replayed.read(slot, arena).unwrap(), single.read(slot, arena).unwrap());
                }
            }
            assert_eq!(replayed.states().unwrap(), single.states().unwrap());
        }
    }
}

#[test]
fn the_same_run_twice_gives_the_same_bits_and_pins_carry_over() {
    for context in cards() {
        let made = Made::new("128-512-256-3", 3000);
        let members: Vec<Member> = (0..2).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
        let recipe = recipe(512, Precision::Bf16);
        let device = Opened::Cuda(context.clone());
        let run = |pins: &Pins| {
            let mut p = made.pinned(&device, &recipe, &members, pins);
            for _ in 0..20 {
                p.steps(7).unwrap();
                p.validate().unwrap();
            }
            (p.params(0).unwrap(), p.params(1).unwrap(), p.pins())
        };
        let (one, other) = (run(&Pins::default()), run(&Pins::default()));
        assert!(one == other);
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
fn memory_stays_within_what_was_counted() {
    let nets = [
        ("64-512-256-3", 20_000, 16, 2048),
        ("64-128-128-3", 20_000, 16, 2048),
        ("16x40-lstm128-lstm64-3", 4000, 4, 512),
    ];
    for (context, (net, rows, members, batch)) in cards().iter().flat_map(|c| nets.map(|net| (c, net))) {
        let made = Made::new(net, rows);
        let members: Vec<Member> = (0..members).map(|id| made.member(id)).collect();
        let (data, recipe) = (made.data(), recipe(batch, Precision::Bf16));
        let device = Opened::Cuda(context.clone());
        let needed = Population::need(&device, &made.net, &data, &recipe, &members, Pace::default()).unwrap();
        let tables = made.tables(&device).unwrap();
        // Other tests' memory would be counted too; nobody takes any without this lock.
        let _lock = super::context::lock_driver();
        let before = context.memory().unwrap().0;
        let mut p = Population::new(&device, Budget::default(), &made.net, &tables, &data, &recipe, &members).unwrap();
        p.steps(8).unwrap();
        p.score_all().unwrap();
        let taken = before.saturating_sub(context.memory().unwrap().0);
        assert!(taken <= needed, "{net}: {taken} bytes were taken and {needed} counted");
    }
}

crate::arguments! {
    /// Of the kernels of `random.cu`.
    struct RandomArgs in "../random/random.cu" {
        out: Slice<u32>,
        seed: u64,
        n: u32,
        limit: u32,
        stream: u32,
        step: u32,
        member: u32,
    }
}

#[test]
fn random_numbers_of_card_and_processor_are_equal() {
    for context in cards() {
        let stream = Stream::new(&context).unwrap();
        let module = Module::load(&context, &kernels::RANDOM).unwrap();
        let mut slab = context.slab(64 << 20).unwrap();
        let n = 100_000u32;
        let made: Slice<u32> = slab.cut(4 * n as usize).unwrap();
        let (seed, step, member) = (0x1234_5678_9abc_def0u64, 5, 77);
        let grid = [n.div_ceil(256) as usize, 1, 1];
        let run = |name: &str, args: RandomArgs| -> Vec<u32> {
            stream.fill(&made, 0xff).unwrap();
            let kernel: Kernel<RandomArgs> = module.typed(name).unwrap();
            // SAFETY: four numbers for each of n blocks.
            unsafe { kernel.send(&stream, grid, 256, 0, &args).unwrap() };
            stream.get(&made).unwrap()
        };
        let args = |n, limit, step| RandomArgs { out: made, seed, n, limit, stream: 2, step, member };
        let drawn = |name: &str| run(name, args(n, 0, step));
        let blocks = || (0..n).map(|i| philox(seed, [i, step, 2, member]));
        assert!(drawn("random_words") == blocks().flatten().collect::<Vec<u32>>());
        let floats = |each: &dyn Fn([u32; 4]) -> [f32; 4]| {
            blocks().flat_map(|w| each(w).map(f32::to_bits)).collect::<Vec<u32>>()
        };
        assert!(drawn("random_uniforms") == floats(&|w| w.map(uniform)));
        assert!(drawn("random_normals") == floats(&normals));
        let limited = run("random_below", args(n, 1000, step));
        assert!(limited == blocks().flat_map(|w| w.map(|x| below(x, 1000))).collect::<Vec<u32>>());
        for size in [1u32, 2, 3, 100, 4097, 99_999, 1 << 30] {
            let rows = size.min(4 * n);
            let permutation = Permutation::new(size, seed, member, 3);
            let wanted: Vec<u32> = (0..rows.min(n)).map(|i| permutation.at(i)).collect();
            assert!(
                run("random_permutation", args(rows.min(n), size, 3))[..wanted.len()] == wanted,
                "a permutation of {size}"
            );
        }
    }
}
