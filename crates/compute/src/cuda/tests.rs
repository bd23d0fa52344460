//! The card against the processor. Where there is no card every test here says so and passes.

use super::engine::Engine;
use super::{Module, Slice, Stream, kernels};
use crate::cuda::module::Arg;
use crate::device::{Budget, Opened};
use crate::net::Layout;
use crate::population::backend::{Arena, Backend};
use crate::population::make::{Made, recipe};
use crate::population::tests::cards;
use crate::population::{Member, Pins, Population, Precision, State};
use crate::random::{Permutation, below, normals, philox, uniform};

#[test]
fn a_state_has_no_padding() {
    assert_eq!((size_of::<State>(), align_of::<State>()), (72, 8));
}

#[test]
fn whole_nets_against_pytorch() {
    for context in cards() {
        crate::population::fixtures::check(|f| {
            let members = std::slice::from_ref(&f.member);
            let engine = Engine::new(&context, &f.net, &f.layout, &f.data(), &f.recipe, members, &Pins::default())?;
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
fn the_card_agrees_with_the_processor() {
    let nets = [
        ("7-12-3", 16),
        ("4-4-2", 1),
        ("16-64t-32-2", 33),
        ("33-100-7", 257),
        ("fast:5x4-24-16t + slow:3-8 / 40 / side:3 + size:5", 64),
        ("12-3", 500),
        ("128-512-256-3", 1024),
        ("64-4096-8-3", 96),
        ("20x6-256t-64-30", 300),
        ("16-48-24-3", 16384),
    ];
    for context in cards() {
        for (net, batch) in nets {
            for precision in [Precision::F32, Precision::Bf16, Precision::Tf32] {
                let made = Made::new(net, (batch * 5 / 2).max(40));
                let layout = Layout::new(&made.net).unwrap();
                let members: Vec<Member> = (0..3).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
                let (data, recipe) = (made.data(), recipe(batch, precision));
                let mut cpu = crate::cpu::Engine::new(&made.net, &layout, &data, &recipe, &members, 2).unwrap();
                let mut card =
                    Engine::new(&context, &made.net, &layout, &data, &recipe, &members, &Pins::default()).unwrap();
                let place = format!(
                    "{net}, batch {batch}, {precision:?}, {}",
                    context.library().unwrap_or("own products".into())
                );
                let (first, later) = match precision {
                    Precision::F32 => (2e-5, 2e-4),
                    // The processor has no TF32: this is the distance to f32.
                    Precision::Tf32 => (5e-3, 2e-2),
                    Precision::Bf16 => (2e-3, 1e-2),
                };
                for slot in 0..3 {
                    let (a, b) = (card.read(slot, Arena::Params).unwrap(), cpu.read(slot, Arena::Params).unwrap());
                    assert_eq!(a, b, "{place}: first weights");
                    let rows = &made.lists[1];
                    for (a, b) in card.logits(slot, rows).unwrap().iter().zip(&cpu.logits(slot, rows).unwrap()) {
                        let off = apart(a, b);
                        assert!(off < first, "{place}: logits {off:.1e} apart");
                    }
                }
                for step in 0..4 {
                    cpu.steps(3, 1).unwrap();
                    card.steps(3, 1).unwrap();
                    for slot in 0..3 {
                        let (a, b) =
                            (card.read(slot, Arena::Gradient).unwrap(), cpu.read(slot, Arena::Gradient).unwrap());
                        let off = apart(&a, &b);
                        // TF32 keeps 10 bits, and gradients are what is left of large sums.
                        let limit = if step == 0 && precision != Precision::Tf32 { first * 2.0 } else { later * 10.0 };
                        assert!(off < limit, "{place}: gradient of slot {slot} at step {step} is {off:.1e} apart");
                        let (a, b) = (card.read(slot, Arena::Params).unwrap(), cpu.read(slot, Arena::Params).unwrap());
                        let off = apart(&a, &b);
                        assert!(off < later, "{place}: weights of slot {slot} at step {step} are {off:.1e} apart");
                    }
                    let (mut a, mut b) = (card.states().unwrap(), cpu.states().unwrap());
                    for (a, b) in a.iter_mut().zip(&mut b) {
                        let near = |x: f64, y: f64| (x - y).abs() <= (later * 5.0) * y.abs() + 1e-9;
                        assert!(near(a.loss, b.loss) && near(a.norm.into(), b.norm.into()), "{place}: {a:?} {b:?}");
                        assert!((a.weight - b.weight).abs() <= 1e-12 * b.weight, "{place}: {a:?} {b:?}");
                        (a.loss, a.norm, a.weight) = (b.loss, b.norm, b.weight);
                    }
                    assert_eq!(a, b, "{place}: states after step {step}");
                    // Validation as if it were time, from the same weights.
                    for slot in 0..3 {
                        let row = cpu.read(slot, Arena::Params).unwrap();
                        card.write(slot, Arena::Params, &row).unwrap();
                        for arena in [Arena::Mean, Arena::Square] {
                            let row = cpu.read(slot, arena).unwrap();
                            card.write(slot, arena, &row).unwrap();
                        }
                    }
                    let due: Vec<State> = b.iter().map(|s| State { due: 1, ..*s }).collect();
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
                    let ready: Vec<State> = b.iter().map(|s| State { due: 0, ..*s }).collect();
                    cpu.set_states(&ready).unwrap();
                    card.set_states(&ready).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_replayed_graph_gives_the_bits_of_single_launches() {
    for context in cards() {
        for precision in [Precision::F32, Precision::Bf16] {
            let made = Made::new("fast:5x4-24-16t + slow:3-8 / 40 / side:3 + size:5", 200);
            let layout = Layout::new(&made.net).unwrap();
            let members: Vec<Member> = (0..4).map(|id| Member { epochs: 9, ..made.member(id) }).collect();
            let (data, recipe) = (made.data(), recipe(32, precision));
            let make =
                || Engine::new(&context, &made.net, &layout, &data, &recipe, &members, &Pins::default()).unwrap();
            let (mut replayed, mut single) = (make(), make());
            replayed.steps(4, 5).unwrap();
            for _ in 0..5 {
                single.eager(4).unwrap();
            }
            for slot in 0..4 {
                assert_eq!(replayed.read(slot, Arena::Params).unwrap(), single.read(slot, Arena::Params).unwrap());
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
        let (data, recipe) = (made.data(), recipe(512, Precision::Bf16));
        let device = Opened::Cuda(context.clone());
        let run = |pins: &Pins| {
            let mut p =
                Population::pinned(&device, Budget::default(), &made.net, &data, &recipe, &members, pins).unwrap();
            for _ in 0..20 {
                p.steps(7).unwrap();
                p.validate().unwrap();
            }
            (p.params(0).unwrap(), p.params(1).unwrap(), p.pins())
        };
        let (one, other) = (run(&Pins::default()), run(&Pins::default()));
        assert!(one == other);
        assert!(run(&one.2) == one, "pinned plans are taken");
        let mut p = Population::new(&device, Budget::default(), &made.net, &data, &recipe, &members).unwrap();
        p.tune().unwrap();
        let tuned = p.pins();
        p.steps(2).unwrap();
        drop(p);
        assert_eq!(run(&tuned).2, tuned, "what was tuned is what is used");
    }
}

#[test]
fn memory_stays_within_what_was_counted() {
    for context in cards() {
        let made = Made::new("64-512-256-3", 20_000);
        let members: Vec<Member> = (0..16).map(|id| made.member(id)).collect();
        let (data, recipe) = (made.data(), recipe(2048, Precision::Bf16));
        let device = Opened::Cuda(context.clone());
        let needed = Population::need(&device, &made.net, &data, &recipe, &members).unwrap();
        let before = context.memory().unwrap().0;
        let mut p = Population::new(&device, Budget::default(), &made.net, &data, &recipe, &members).unwrap();
        p.steps(8).unwrap();
        p.score_all().unwrap();
        let taken = before - context.memory().unwrap().0;
        assert!(taken <= needed, "{taken} bytes were taken and {needed} counted");
    }
}

#[test]
fn randomness_is_the_same_on_both() {
    for context in cards() {
        let stream = Stream::new(&context).unwrap();
        let module = Module::load(&context, &kernels::RANDOM).unwrap();
        let mut slab = context.slab(64 << 20).unwrap();
        let n = 100_000u32;
        let made: Slice<u32> = slab.cut(4 * n as usize).unwrap();
        let (seed, step, member) = (0x1234_5678_9abc_def0u64, 5, 77);
        let grid = [n.div_ceil(256), 1, 1];
        let run = |name: &str, args: &[Arg<'_>]| -> Vec<u32> {
            stream.fill(&made, 0xff).unwrap();
            let function = module.function(name).unwrap();
            // SAFETY: four numbers for each of n blocks.
            unsafe { function.launch(&stream, grid, [256, 1, 1], 0, args).unwrap() };
            stream.get(&made).unwrap()
        };
        let tail = [Arg::U64(seed), Arg::U32(2), Arg::U32(step), Arg::U32(member)];
        let drawn = |name: &str| run(name, &[&[Arg::from(&made), Arg::U32(n)], &tail[..]].concat());
        let blocks = || (0..n).map(|i| philox(seed, [i, step, 2, member]));
        assert!(drawn("random_words") == blocks().flatten().collect::<Vec<u32>>());
        let floats = |each: &dyn Fn([u32; 4]) -> [f32; 4]| {
            blocks().flat_map(|w| each(w).map(f32::to_bits)).collect::<Vec<u32>>()
        };
        assert!(drawn("random_uniforms") == floats(&|w| w.map(uniform)));
        assert!(drawn("random_normals") == floats(&normals));
        let limited = run("random_below", &[&[Arg::from(&made), Arg::U32(n), Arg::U32(1000)], &tail[..]].concat());
        assert!(limited == blocks().flat_map(|w| w.map(|x| below(x, 1000))).collect::<Vec<u32>>());
        for size in [1u32, 2, 3, 100, 4097, 99_999, 1 << 30] {
            let rows = size.min(4 * n);
            let args = [
                Arg::from(&made),
                Arg::U32(rows.min(n)),
                Arg::U32(size),
                Arg::U64(seed),
                Arg::U32(member),
                Arg::U32(3),
            ];
            let permutation = Permutation::new(size, seed, member, 3);
            let wanted: Vec<u32> = (0..rows.min(n)).map(|i| permutation.at(i)).collect();
            assert!(run("random_permutation", &args)[..wanted.len()] == wanted, "a permutation of {size}");
        }
    }
}
