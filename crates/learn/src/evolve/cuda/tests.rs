//! What a card did in a generation, done again on the processor.

use super::super::stack::Stack;
use super::super::training::EvolveTraining;
use super::super::{Algorithm, Counted, Evolve, Fitness, Hypers, Normals, Spec, Strategy};
use super::Kind;
use crate::ppo::Actions;
use crate::ppo::card_tests::{FEATURES, card, market, skip};
use crate::{Config, DeviceBudget, Learner, MemberKey, Training};
use compute::Net;
use compute::cuda::{Array, Gpu};
use compute::population::{Precision, Recipe};
use compute::{Budget, Choice, Opened};

const SEED: u64 = 7;
const SIGMA: f32 = 0.1;

fn evolve(hypers: Hypers, layers: &str, seeds: u32) -> Evolve {
    evolve_in(Precision::Bf16, hypers, layers, seeds)
}

/// The same as a processor takes it: in bf16 too, but for individuals of low rank.
fn evolve_on_processor(hypers: Hypers, layers: &str, seeds: u32) -> Evolve {
    evolve_in(if hypers.rank > 0 { Precision::F32 } else { Precision::Bf16 }, hypers, layers, seeds)
}

fn evolve_in(precision: Precision, hypers: Hypers, layers: &str, seeds: u32) -> Evolve {
    let (problem, data, folds) = market(9);
    let mut recipe = Recipe::new(hypers.population as usize, precision, SEED);
    (recipe.optimiser.eps, recipe.optimiser.decay) = (1e-6, 0.01);
    let outputs = hypers.actions.outputs();
    let net = format!("row:{FEATURES} + account:dense8 / {layers} / policy:{outputs}").parse().unwrap();
    let configs = vec![Config { net, recipe, rate: 0.03 }];
    let (hypers, units) = (vec![hypers], vec![40]);
    Evolve::new(&problem, &data, &folds, Spec { configs, hypers, units, stop_after: None, patience: 40, seeds })
        .unwrap()
}

const USUAL: Hypers = Hypers {
    algorithm: Algorithm::OpenAi,
    population: 64,
    sigma: SIGMA,
    rank: 0,
    n_envs: 16,
    n_steps: 64,
    actions: Actions::Discrete,
    fitness: Fitness::Growth,
};

/// Populations that do not fill slices, accounts that do not fill tiles or fill several, of all algorithms.
fn dense() -> [(Hypers, &'static str); 9] {
    let all = [
        USUAL,
        Hypers { population: 150, n_envs: 4, fitness: Fitness::Sharpe, ..USUAL },
        Hypers { n_envs: 37, fitness: Fitness::Drawdown(0.5), ..USUAL },
        Hypers { population: 4, n_envs: 1, n_steps: 700, ..USUAL },
        Hypers { n_envs: 100, n_steps: 9, actions: Actions::Continuous, ..USUAL },
        Hypers { algorithm: Algorithm::SepCma, population: 71, n_envs: 10, ..USUAL },
        Hypers { algorithm: Algorithm::SepCma, n_envs: 33, ..USUAL },
        Hypers { algorithm: Algorithm::Snes, population: 65, n_envs: 5, ..USUAL },
        Hypers { algorithm: Algorithm::Cem, population: 130, ..USUAL },
    ];
    let layers = ["64t-64t", "64-64", "64t-64", "64t-64t", "64t-64t", "17t-40t", "64-64t", "64t-64t", "32-1"];
    std::array::from_fn(|at| (all[at], layers[at]))
}

/// The same of low rank, with layers that are as wide as their kernels and narrower.
fn low_rank() -> [(Hypers, &'static str); 6] {
    let usual = Hypers { rank: 1, ..USUAL };
    [
        (Hypers { population: 150, n_envs: 4, ..usual }, "256t-256t"),
        (Hypers { n_envs: 37, fitness: Fitness::Drawdown(0.5), ..usual }, "64t-64t"),
        (Hypers { rank: 3, population: 70, n_envs: 3, ..usual }, "100t-33"),
        (Hypers { rank: 8, fitness: Fitness::Sharpe, ..usual }, "128-128t"),
        (Hypers { population: 66, n_envs: 1, n_steps: 300, ..usual }, "200-256"),
        (Hypers { n_envs: 100, n_steps: 9, actions: Actions::Continuous, ..usual }, "64t-30t"),
    ]
}

/// All that this card has kernels for.
fn cases(at: &DeviceBudget) -> Vec<(Hypers, &'static str)> {
    let Opened::Cuda(context) = &at.device else { panic!("no card") };
    let hopper = context.gpu().capability == super::HOPPER;
    if !hopper {
        skip("individuals of low rank need a GPU of compute capability 9.0");
    }
    dense().into_iter().chain(low_rank().into_iter().filter(|_| hopper)).collect()
}

fn begin(evolve: &Evolve, at: &DeviceBudget, seeds: u32) -> EvolveTraining {
    let tables = evolve.problem().tables(&at.device, at.budget).unwrap();
    let keys: Vec<MemberKey> = (0..seeds).map(|seed| MemberKey { config: 0, fold: 0, seed }).collect();
    EvolveTraining::new(evolve, at, &tables, &keys).unwrap()
}

fn processor() -> DeviceBudget {
    DeviceBudget { device: Opened::new(Choice::Cpu, 2).unwrap().0, budget: Budget::default() }
}

fn advance(training: &mut EvolveTraining, generations: u32) {
    let done = training.advance(generations).unwrap();
    assert!(done.iter().all(|p| p.fault.is_none()), "{done:?}");
    training.skip_validation().unwrap();
}

fn search(evolve: &Evolve, p: usize) -> Box<dyn Strategy> {
    evolve.begin_search(MemberKey { config: 0, fold: 0, seed: p as u32 }).unwrap()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// What a card has no kernels for, and why; nets at the limits have some.
#[test]
fn what_evolves_beside_a_card_is_named() {
    let gpu = |capability: (u32, u32), shared: u32| Gpu {
        index: 0,
        name: "a card".into(),
        memory: 0,
        capability,
        multiprocessors: 1,
        shared,
        cache: 0,
        clock_mhz: 0,
        cuda: (13, 0),
    };
    let (hopper, ada) = (gpu(super::HOPPER, 232_448), gpu((8, 9), 101_376));
    let low = Hypers { rank: 1, n_envs: 4, ..USUAL };
    let few = Hypers { n_envs: 8, ..USUAL };
    for (gpu, hypers, inputs, layers, why) in [
        (&ada, few, "row:120", "64t-64t", None),
        (&hopper, Hypers { rank: 8, ..low }, "row:120", "128t-128t", None),
        (&hopper, low, "row:72", "256t-256t", None),
        (
            &hopper,
            few,
            "row:121",
            "64t-64t",
            Some("reads 121 features, and kernels for layers as wide read at most 120"),
        ),
        (
            &hopper,
            low,
            "row:73",
            "256t-256t",
            Some("reads 73 features, and kernels for layers as wide read at most 72"),
        ),
        (&hopper, few, "row:20", "64t-65t", Some("layers of 65")),
        (&hopper, low, "row:20", "257t-64t", Some("layers of 257, and kernels are for at most 256")),
        (&hopper, few, "row:20", "64t-64t-64t", Some("has 3 hidden layers")),
        (&hopper, few, "row:20", "64t", Some("has 1 hidden layer,")),
        (&hopper, few, "row:20 + other:3", "64t-64t", Some("reads 2 tables")),
        (&hopper, Hypers { rank: 9, ..low }, "row:20", "64t-64t", Some("the rank is 9, and kernels are for at most 8")),
        (&ada, low, "row:20", "64t-64t", Some("this GPU has 8.9")),
        (&gpu((7, 5), 16_384), few, "row:20", "64t-64t", Some("the GPU has 16384")),
    ] {
        let net: Net = format!("{inputs} + account:dense8 / {layers} / policy:3").parse().unwrap();
        let stack = Stack::new(&net, Precision::F32).unwrap();
        let found = super::shape(gpu, &net, &stack, &hypers).err();
        let as_expected = match (&found, why) {
            (None, None) => true,
            (Some(found), Some(why)) => found.contains(why),
            _ => false,
        };
        assert!(as_expected, "{net} of rank {}: {found:?} instead of {why:?}", hypers.rank);
    }
}

/// Individuals are those of the processor before they are rounded, to the bit.
#[test]
fn individuals_are_those_of_the_processor() {
    let Some(at) = card() else { return };
    let Opened::Cuda(context) = &at.device else { panic!("no card") };
    for (hypers, layers) in dense() {
        let evolve = evolve(hypers, layers, 2);
        let mut training = begin(&evolve, &at, 2);
        advance(&mut training, 1);
        let before: Vec<_> = (0..2).map(|p| training.stands(p)).collect();
        let parameters = evolve.stacks[0].parameters;
        let (padded, population) = (parameters.next_multiple_of(4), hypers.population as usize);
        let own = training.card();
        let asked: Array<f32> =
            context.slab((2 * population * padded * 4) as u64 + 256).unwrap().array(2 * population * padded).unwrap();
        own.trade.2.asked = Some(asked.clone());
        own.graph = None;
        own.generation().unwrap();
        let asked = asked.get(&own.stream).unwrap();
        let mut z = vec![0.0; parameters];
        let mut wanted = vec![0.0; parameters];
        for (p, (state, unit)) in before.iter().enumerate() {
            let member = MemberKey { config: 0, fold: 0, seed: p as u32 }.id();
            let mut search = search(&evolve, p);
            assert!(search.restore(state));
            let normals = Counted { seed: SEED, member, generation: *unit, parameters };
            let sides = search.sides();
            for individual in 0..population {
                normals.fill((individual / sides) as u32, 0, &mut z);
                search.ask(if individual % sides == 0 { 1.0 } else { -1.0 }, 0, &z, &mut wanted);
                let found = &asked[(p * population + individual) * padded..][..parameters];
                assert_eq!(bits(found), bits(&wanted), "{hypers:?}: individual {individual}");
            }
        }
    }
}

/// Whoever counts on a step's latency and whoever does not trade the same, to the bit.
#[test]
fn both_kernels_of_few_accounts_are_alike() {
    let Some(at) = card() else { return };
    let Opened::Cuda(context) = &at.device else { panic!("no card") };
    let mut compared = 0;
    for (hypers, layers) in dense() {
        let evolve = evolve(hypers, layers, 1);
        let shape = super::fits(context, &evolve, 0).unwrap();
        let fitness = |plain: bool| {
            let mut training = begin(&evolve, &at, 1);
            let card = training.card();
            let quick = card.trade.1.threads[0] == super::QUICK_THREADS && shape.kind == Kind::Dense;
            if plain {
                let module = super::Module::load(context, &super::EVOLVE).unwrap();
                card.trade.0 = module.kernel(&format!("trade_{}", shape.steps)).unwrap();
                card.trade.0.allow_shared(shape.shared).unwrap();
                (card.trade.1.threads[0], card.trade.1.shared) = (shape.threads, shape.shared);
            }
            (0..3).for_each(|_| advance(&mut training, 1));
            (quick, training.last_fitness(0).into_iter().map(f64::to_bits).collect::<Vec<u64>>())
        };
        let (quick, found) = fitness(false);
        if quick {
            assert_eq!(found, fitness(true).1, "{hypers:?}");
            compared += 1;
        }
    }
    assert!(compared >= 2, "some have so few accounts");
}

/// A policy that follows the sign of the first column decides the same in bf16, and so its accounts and its fitness
/// have the bits of the processor's.
#[test]
fn fitness_is_that_of_the_processor() {
    let Some(at) = card() else { return };
    for (hypers, layers) in cases(&at).into_iter().filter(|(h, _)| h.actions == Actions::Discrete) {
        let hypers = Hypers { sigma: 1e-7, ..hypers };
        let [evolve, reference] = [evolve, evolve_on_processor].map(|make| make(hypers, layers, 2));
        let layers = &evolve.stacks[0].layers;
        let mut middle = vec![0.0; evolve.stacks[0].parameters];
        (middle[layers[0].first], middle[layers[1].first]) = (4.0, 4.0);
        let (head, outputs) = (&layers[2], layers[2].outputs);
        (middle[head.first], middle[head.first + 2]) = (-4.0, 4.0);
        // Flat where it says nothing, as half of all rows do behind a layer that cuts them off.
        middle[head.first + head.inputs * outputs + 1] = 1e-3;
        let [card, cpu] = [(&evolve, at.clone()), (&reference, processor())].map(|(evolve, at)| {
            let mut training = begin(evolve, &at, 2);
            (0..2).for_each(|p| training.plant(p, &middle));
            advance(&mut training, 1);
            training
        });
        for p in 0..2 {
            let [found, wanted] =
                [&card, &cpu].map(|t| t.last_fitness(p).iter().map(|f| f.to_bits()).collect::<Vec<u64>>());
            assert_eq!(found, wanted, "{hypers:?}: member {p}");
        }
        assert!(cpu.last_fitness(0)[0] != 0.0, "they trade");
    }
}

/// Policies drawn at random, whose decisions may be close, are about as fit on both: rounding turns few of them.
#[test]
fn fitness_of_any_policy_is_close() {
    let Some(at) = card() else { return };
    for (hypers, layers) in cases(&at) {
        if hypers.population < 64 {
            continue;
        }
        let [evolve, reference] = [evolve, evolve_on_processor].map(|make| make(hypers, layers, 2));
        let [card, cpu] = [(&evolve, at.clone()), (&reference, processor())].map(|(evolve, at)| {
            let mut training = begin(evolve, &at, 2);
            advance(&mut training, 1);
            training
        });
        for p in 0..2 {
            let (a, b) = (card.last_fitness(p), cpu.last_fitness(p));
            let n = a.len() as f64;
            let [mean_a, mean_b] = [&a, &b].map(|x| x.iter().sum::<f64>() / n);
            let product =
                |x: &[f64], mx: f64, y: &[f64], my: f64| x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum::<f64>();
            let both = product(&a, mean_a, &b, mean_b);
            let alone = (product(&a, mean_a, &a, mean_a) * product(&b, mean_b, &b, mean_b)).sqrt();
            assert!(both > 0.9 * alone, "{hypers:?}: member {p} correlates by {}", both / alone);
        }
    }
}

/// From the fitness that the card saw, ranks and Adam move the distribution to where the processor moves it.
#[test]
fn a_distribution_moves_as_on_the_processor() {
    let Some(at) = card() else { return };
    for (hypers, layers) in cases(&at) {
        let evolve = evolve(hypers, layers, 3);
        let mut training = begin(&evolve, &at, 3);
        for _ in 0..4 {
            let before: Vec<_> = (0..3).map(|p| training.stands(p)).collect();
            advance(&mut training, 1);
            for (p, (state, generation)) in before.iter().enumerate() {
                let member = MemberKey { config: 0, fold: 0, seed: p as u32 }.id();
                let mut wanted = search(&evolve, p);
                assert!(wanted.restore(state));
                let normals = Counted { seed: SEED, member, generation: *generation, parameters: wanted.numbers() };
                wanted.tell(&training.last_fitness(p), &normals, evolve.rate(0, *generation) as f32);
                let (found, unit) = training.stands(p);
                assert_eq!(unit, generation + 1);
                let wanted = wanted.state();
                assert_eq!(found.numbers.len(), wanted.numbers.len());
                for (found, wanted) in found.numbers.iter().zip(&wanted.numbers) {
                    assert!((found - wanted).abs() <= 1e-6 * wanted.abs(), "{hypers:?}: {found} and {wanted}");
                }
                for (which, (found, wanted)) in found.arrays.iter().zip(wanted.arrays).enumerate() {
                    let norm = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
                    let off = norm(&mut found.iter().zip(&wanted).map(|(a, b)| a - b));
                    let all = norm(&mut wanted.iter().copied());
                    assert!(off <= 1e-6 * all, "{hypers:?}: array {which} is {off} of {all} apart");
                }
            }
        }
    }
}

/// The same bits alone or beside others, in one go or step by step, and after a stop.
#[test]
fn a_member_depends_on_nothing_else() {
    let Some(at) = card() else { return };
    for (hypers, layers) in cases(&at) {
        let evolve = evolve(hypers, layers, 3);
        let id = |p: usize| MemberKey { config: 0, fold: 0, seed: p as u32 }.id();
        let all = |training: &mut EvolveTraining, members: usize| {
            (0..members).map(|p| training.snapshot(id(p)).unwrap()).collect::<Vec<_>>()
        };
        let mut whole = begin(&evolve, &at, 3);
        (0..5).for_each(|_| advance(&mut whole, 1));
        let whole = all(&mut whole, 3);
        let mut alone = begin(&evolve, &at, 1);
        while alone.progress()[0].unit < 5 {
            let left = 5 - alone.progress()[0].unit;
            advance(&mut alone, left);
        }
        assert_eq!(all(&mut alone, 1)[0], whole[0], "{hypers:?}: alone");
        let mut stopped = begin(&evolve, &at, 3);
        (0..2).for_each(|_| advance(&mut stopped, 1));
        let kept = all(&mut stopped, 3);
        let mut resumed = begin(&evolve, &at, 3);
        kept.iter().for_each(|snapshot| resumed.restore(snapshot).unwrap());
        assert_eq!(all(&mut resumed, 3), kept);
        (0..3).for_each(|_| advance(&mut resumed, 1));
        assert_eq!(all(&mut resumed, 3), whole, "{hypers:?}: after a stop");
        resumed.stop(id(1)).unwrap();
        advance(&mut resumed, 1);
        assert_eq!(all(&mut resumed, 3)[1].weights, whole[1].weights, "who is stopped stays");
    }
}
