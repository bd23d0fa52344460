//! The gradient noise scale of the real engine, and steps for a clock.

use crate::made::{self, Made};
use compute::population::{Data, Member, Pace, Precision, Recipe};
use compute::{Budget, Choice, Opened, Population};
use learn::classify::{Classify, Spec};
use learn::{DeviceBudget, Learner, Noise, NoisePhase, NoiseSpec, Pacer, Plan};

/// The noise of a problem whose labels are drawn anew with this probability.
fn noise_of_flipped(flipped: f32, warm_up: u32, threads: usize) -> Noise {
    let mut made = made::rows(3, 12_000, 1.0);
    let mut draw = made::noise(17);
    for class in &mut made.problem_mut().samples.class {
        let (chance, other) = ((draw() * 1000.0).abs() % 1.0, ((draw() * 1000.0).abs() as i64 % 3 - 1) as i8);
        if chance < flipped {
            *class = other;
        }
    }
    let noise_spec = NoiseSpec { warm_up, batch: 32, batches: 120, rate: 2e-3 };
    seen(&made, &made::spec("8-16-3"), &noise_spec, threads, &|_| false).unwrap()
}

fn seen(
    made: &Made,
    spec: &Spec,
    noise_spec: &NoiseSpec,
    threads: usize,
    enough: &dyn Fn(NoisePhase) -> bool,
) -> files::Result<Noise> {
    let (learner, at) = (Classify::new(&made.problem, &made.folds, spec.clone())?, cpu(threads, Budget::default()));
    let noise = learner.noise(&Plan::new(&learner, &at)?.members, &at, noise_spec, enough)?;
    Ok(noise.expect("classifiers have gradients"))
}

fn cpu(threads: usize, budget: Budget) -> DeviceBudget {
    DeviceBudget { device: Opened::new(Choice::Cpu, threads).unwrap().0, budget }
}

#[test]
fn the_noise_scale_grows_with_the_noise_of_the_labels() {
    for warm_up in [0, 60] {
        let scales: Vec<f64> = [0.0, 0.5, 0.8]
            .into_iter()
            .map(|flipped| {
                let noise = noise_of_flipped(flipped, warm_up, 2);
                assert_eq!((noise.batches, noise.warm_up, noise.members), (120, warm_up, 2));
                noise.scale().unwrap_or_else(|| panic!("{flipped} {warm_up}: {noise:?}"))
            })
            .collect();
        assert!(scales[1] > 1.25 * scales[0] && scales[2] > 1.25 * scales[1], "after {warm_up} steps: {scales:?}");
    }
    // A trained net has less left to learn than a random one.
    assert!(noise_of_flipped(0.5, 60, 1).scale().unwrap() > noise_of_flipped(0.5, 0, 1).scale().unwrap());
}

#[test]
fn the_noise_scale_does_not_depend_on_threads() {
    assert_eq!(noise_of_flipped(0.5, 20, 1), noise_of_flipped(0.5, 20, 3));
}

#[test]
fn noise_measurement_can_stop_early_and_needs_few_samples() {
    let made = made::rows(5, 400, 1.0);
    let spec = made::spec("8-16-3");
    let long = NoiseSpec { warm_up: 1_000_000, batch: 64, batches: 1_000_000, rate: 1e-3 };
    let noise = seen(&made, &spec, &long, 2, &|_| true).unwrap();
    // 160 samples in the first fold: batches of ten.
    assert_eq!((noise.warm_up, noise.batches, noise.batch), (0, 16, 10));
    assert!(noise.variance > 0.0 && noise.gradient_squared_error.is_finite(), "{noise:?}");
    // Ready windows through their maps, to the end of the epoch.
    let made = made::windows(7, 300, 6, 0.5);
    let spec = made::spec("fast:4x6-lstm8 + strategy:3 / direction:3");
    let noise = seen(&made, &spec, &NoiseSpec { warm_up: 5, ..long }, 2, &|_| false).unwrap();
    assert_eq!((noise.warm_up, noise.batches, noise.batch), (5, 17, 7));
    // What would not fit is refused with the figure.
    let learner = Classify::new(&made.problem, &made.folds, spec).unwrap();
    let members = Plan::new(&learner, &cpu(1, Budget::default())).unwrap().members;
    let refused = learner.noise(&members, &cpu(1, Budget::Bytes(1000)), &long, &|_| false).unwrap_err();
    assert!(refused.to_string().contains("needs"), "{refused}");
}

#[test]
fn a_number_that_is_not_finite_is_named() {
    let mut made = made::rows(11, 400, 1.0);
    made.problem_mut().inputs[0].values[8 * 3] = f32::NAN;
    let spec = made::spec("8-16-3");
    let noise_spec = NoiseSpec { warm_up: 20, batch: 32, batches: 20, rate: 1e-3 };
    let why = seen(&made, &spec, &noise_spec, 1, &|_| false).unwrap_err();
    assert!(why.to_string().contains("not finite"), "{why}");
}

#[test]
fn steps_for_a_clock_count_their_rows() {
    let made = made::rows(9, 1200, 0.5);
    let endless = Spec { seeds: 2, epochs: u32::MAX, ..made::spec("8-16-3") };
    let (learner, at) = (Classify::new(&made.problem, &made.folds, endless).unwrap(), cpu(2, Budget::default()));
    let mut plan = Plan::new(&learner, &at).unwrap();
    assert_eq!(learner.samples(plan.members[0]), 480);
    let tables = made.problem.tables_need(&at.device);
    let needs = |members: &[_]| tables + learner.needs(&at.device, members, Pace::default()).unwrap();
    let mut pacer = Pacer::new(&learner, &at, &plan.members[..2]).unwrap();
    assert_eq!(pacer.memory(), needs(&plan.members[..2]));
    assert_eq!(pacer.advance(1).unwrap(), 2 * 64);
    // 480 samples are seven and a half batches: over the end of an epoch.
    assert_eq!(pacer.advance(7).unwrap(), 2 * (480 - 64));
    assert_eq!(pacer.advance(100).unwrap(), 2 * (12 * 480 + 4 * 64));
    // Members at once: groups of equal size, none larger, everyone once.
    plan.limit_group(&learner, &at.device, 4).unwrap();
    assert_eq!(plan.groups.iter().map(|g| g.members.clone()).collect::<Vec<_>>(), [0..3, 3..6]);
    assert_eq!(plan.groups[1].bytes, needs(&plan.members[3..6]));
    plan.limit_group(&learner, &at.device, 100).unwrap();
    assert_eq!(plan.groups.len(), 2);
}

/// `[batches][params]` the gradients of an epoch of a member that stands still, with what its statuses say of their
/// length.
fn epoch(made: &Made, batch: usize) -> Vec<(Vec<f32>, f32)> {
    let (at, ids): (_, Vec<u32>) = (cpu(2, Budget::default()), (0..200).collect());
    let labels: Vec<u8> = made.problem.samples.class.iter().map(|c| (c + 1) as u8).collect();
    let weights: Vec<f32> = labels.iter().enumerate().map(|(i, _)| 0.5 + (i % 4) as f32).collect();
    let data = Data { labels: vec![&labels], weights: Some(&weights), lists: vec![&ids] };
    let member = Member {
        id: 3,
        train: 0,
        valid: None,
        epochs: 1,
        rate: 0.0,
        scales: vec![None],
        class_weights: vec![vec![1.0, 2.0, 0.5]],
    };
    let (net, recipe) = ("8-16-3".parse().unwrap(), Recipe::new(batch, Precision::F32, 5));
    let tables = made.problem.tables(&at.device, at.budget).unwrap();
    let mut population = Population::new(&at.device, at.budget, &net, &tables, &data, &recipe, &[member]).unwrap();
    assert!(population.gradient(3).unwrap().iter().all(|g| *g == 0.0), "nothing before the first step");
    let step = |_| {
        let norm = population.steps(1).unwrap()[0].norm;
        (population.gradient(3).unwrap(), norm)
    };
    (0..200usize.div_ceil(batch)).map(step).collect()
}

#[test]
fn a_gradient_is_that_of_the_weighted_mean_and_as_long_as_its_norm() {
    let made = made::rows(13, 200, 1.0);
    // One batch of everything, against its parts.
    let whole = epoch(&made, 200);
    assert_eq!(whole.len(), 1);
    for batch in [100, 40] {
        for (gradient, norm) in epoch(&made, batch) {
            let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            assert!((length / f64::from(norm) - 1.0).abs() < 1e-5, "{length} {norm}");
        }
    }
    let parts = epoch(&made, 40);
    let along = |g: &[f32]| g.iter().zip(&whole[0].0).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let mean = parts.iter().map(|(g, _)| along(g)).sum::<f64>() / parts.len() as f64;
    // Batches weigh about the same, so their mean is about the whole.
    assert!((mean / along(&whole[0].0) - 1.0).abs() < 0.1, "{mean}");
}
