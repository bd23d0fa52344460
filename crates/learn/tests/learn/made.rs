//! Small problems of known worth, and their folds.

use compute::population::{Optimiser, Precision, Recipe, Schedule, Score};
use compute::{Choice, Opened};
use features::{Fold, FoldKind, FoldSpans, Samples, Span};
use learn::classify::Spec;
use learn::{Config, Input, Problem};
use std::sync::Arc;

pub(crate) struct Made {
    pub(crate) problem: Arc<Problem>,
    pub(crate) folds: Vec<Fold>,
}

/// Numbers that are about normal.
pub(crate) fn noise(seed: u64) -> impl FnMut() -> f32 {
    let mut random = random::SplitMix::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut uniform = move || (random.bits() >> 40) as f32 / (1u64 << 24) as f32;
    move || (0..6).map(|_| uniform()).sum::<f32>() * 1.4 - 4.2
}

fn samples(n: usize, class: Vec<i8>) -> Samples {
    Samples {
        rows: (0..n as u32).collect(),
        t0: (0..n as i64).collect(),
        t1: (0..n as i64).map(|t| t + 1).collect(),
        class,
        weight: vec![1.0; n],
    }
}

/// Three folds that walk forward.
fn folds(n: usize) -> Vec<Fold> {
    let cut = |share: f64| (share * n as f64) as u32;
    let span = |from: u32, to: u32| Span::new(i64::from(from), i64::from(to)).unwrap();
    (0..3)
        .map(|number| {
            let [a, b, c] = [0.4, 0.55, 0.7].map(|s| cut(s + 0.1 * number as f64));
            Fold {
                number,
                kind: FoldKind::Forward,
                train: (0..a).collect(),
                valid: (a + 1..b).collect(),
                test: (b + 1..c).collect(),
                spans: FoldSpans { train: span(0, a), valid: span(a + 1, b), test: span(b + 1, c) },
                purged: 2,
                embargoed: 0,
            }
        })
        .collect()
}

fn classes(n: usize, draw: &mut impl FnMut() -> f32) -> Vec<i8> {
    (0..n).map(|_| ((draw() * 1000.0).abs() as i64 % 3 - 1) as i8).collect()
}

/// Rows of eight features at levels of their own, two of which know the class.
pub(crate) fn rows(seed: u64, n: usize, signal: f32) -> Made {
    let mut draw = noise(seed);
    let class = classes(n, &mut draw);
    let mut values = Vec::with_capacity(n * 8);
    for class in &class {
        for column in 0..8 {
            let known = if column < 2 { signal * f32::from(*class) } else { 0.0 };
            values.push(100.0 * column as f32 + 3.0 * (draw() + known));
        }
    }
    let columns = (0..8).map(|c| format!("f{c}")).collect();
    let input = Input { name: "row".into(), columns, stride: 8, values, map: None, window: 0 };
    let problem = Problem {
        inputs: vec![input],
        ids: n,
        classes: 3,
        samples: samples(n, class),
        data: "made".into(),
        ..Problem::default()
    };
    Made { problem: Arc::new(problem), folds: folds(n) }
}

/// Ready windows `[n, window, 4]` whose last rows know the class, and rows of three.
pub(crate) fn windows(seed: u64, n: usize, window: usize, signal: f32) -> Made {
    let mut draw = noise(seed);
    let class = classes(n, &mut draw);
    let (mut fast, mut row) = (Vec::new(), Vec::new());
    for class in &class {
        for step in 0..window {
            for column in 0..4 {
                let known = if column == 1 && step + 3 >= window { signal * f32::from(*class) } else { 0.0 };
                fast.push(draw() + known);
            }
        }
        row.extend([draw(), draw(), draw(), 0.0]);
    }
    let map = (0..n).map(|i| (i * window + window - 1) as u32).collect();
    let names = |n: usize| (0..n).map(|c| format!("f{c}")).collect();
    let inputs = vec![
        Input { name: "fast".into(), columns: names(4), stride: 4, values: fast, map: Some(map), window },
        Input { name: "strategy".into(), columns: names(3), stride: 4, values: row, map: None, window: 1 },
    ];
    let problem =
        Problem { inputs, ids: n, classes: 3, samples: samples(n, class), data: "made".into(), ..Problem::default() };
    Made { problem: Arc::new(problem), folds: folds(n) }
}

fn mcc(score: &Score) -> f64 {
    let c: Vec<f64> = score.confusion[0].iter().map(|n| *n as f64).collect();
    let k = c.len().isqrt();
    let s: f64 = c.iter().sum();
    let truth: Vec<f64> = (0..k).map(|i| c[i * k..(i + 1) * k].iter().sum()).collect();
    let guess: Vec<f64> = (0..k).map(|j| (0..k).map(|i| c[i * k + j]).sum()).collect();
    let right: f64 = (0..k).map(|i| c[i * k + i]).sum();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let root = ((s * s - dot(&guess, &guess)) * (s * s - dot(&truth, &truth))).sqrt();
    if root > 0.0 { (right * s - dot(&guess, &truth)) / root } else { 0.0 }
}

impl Made {
    /// The problem, to be changed before anything learns from it.
    pub(crate) fn problem_mut(&mut self) -> &mut Problem {
        Arc::get_mut(&mut self.problem).unwrap()
    }
}

/// How one config of a net is trained.
pub(crate) fn spec(net: &str) -> Spec {
    let recipe = Recipe {
        batch: 64,
        precision: Precision::F32,
        optimiser: Optimiser::default(),
        schedule: Schedule::CONSTANT,
        seed: 5,
        smoothing: 0.0,
        average: None,
    };
    let configs = vec![Config { net: net.parse().unwrap(), recipe, rate: 5e-3 }];
    Spec { configs, epochs: 5, stop_after: None, patience: 5, seeds: 1, balance: true, score: mcc }
}

/// A card, or none, aloud.
pub(crate) fn card() -> Option<Opened> {
    match compute::cuda::gpus() {
        Ok(found) if !found.is_empty() => Some(Opened::new(Choice::Cuda(0), 1).unwrap().0),
        _ => {
            skip("no GPU");
            None
        }
    }
}

/// As xtask's `test.rs` reads it.
#[expect(clippy::print_stdout, reason = "this is how a skip is reported")]
fn skip(why: &str) {
    use std::io::Write;
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    match log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
        Some(mut file) => file.write_all(format!("{why}\n").as_bytes()).unwrap(),
        None => println!("SKIP: {why}"),
    }
}
