//! Searches beside those of evosax, fed the same normals from a table (`oracles/fixtures/evolve.py`), and on functions
//! whose optimum is known.

use compute::population::Optimiser;
use learn::evolve::{Counted, LowRank, Normals, OpenAi, SepCma, Separable, Strategy};
use serde_json::Value;

/// Normals of one generation, `[draws][parameters]`.
struct Listed(Vec<Vec<f32>>);

impl Normals for Listed {
    fn fill(&self, draw: u32, from: usize, out: &mut [f32]) {
        let own = &self.0[draw as usize][from..];
        out.iter_mut().zip(own).for_each(|(out, z)| *out = *z);
    }
}

/// A generation that minimises a function.
fn generation(search: &mut dyn Strategy, normals: &dyn Normals, draws: u32, rate: f32, cost: &dyn Fn(&[f32]) -> f64) {
    let d = search.mean().len();
    let (mut z, mut x, mut fitness) = (vec![0.0; search.numbers()], vec![0.0; d], Vec::new());
    for draw in 0..draws {
        normals.fill(draw, 0, &mut z);
        for side in [1.0, -1.0].into_iter().take(search.sides()) {
            search.ask(side, 0, &z, &mut x);
            fitness.push(-cost(&x));
        }
    }
    search.tell(&fitness, normals, rate);
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("numbers").iter().map(|x| x.as_f64().expect("a number")).collect()
}

#[test]
fn middles_go_where_those_of_evosax_go() {
    let file: Value = serde_json::from_str(include_str!("../fixtures/evolve.json")).expect("JSON");
    let scales = numbers(&file["scales"]);
    let cost = |x: &[f32]| -> f64 {
        x.iter().zip(&scales).map(|(x, scale)| scale * (f64::from(*x) - 1.0) * (f64::from(*x) - 1.0)).sum()
    };
    let [sigma, rate] = ["sigma", "rate"].map(|name| file[name].as_f64().expect(name) as f32);
    let individuals = file["individuals"].as_u64().expect("a number") as usize;
    let first = vec![0.0; scales.len()];
    let adam = Optimiser { decay: 0.0, ..Optimiser::default() };
    let mut searches: Vec<(&str, Box<dyn Strategy>)> = vec![
        ("openai", Box::new(OpenAi::new(first.clone(), sigma, adam))),
        // evosax has the rates of CMA-ES; the same with the faster ones of the paper is what policies evolve by.
        ("sep_cma", Box::new(SepCma::slow(first.clone(), sigma, individuals))),
        ("sep_cma_paper", Box::new(SepCma::new(first.clone(), sigma, individuals))),
        ("snes", Box::new(Separable::snes(first.clone(), sigma, individuals))),
        ("simple_es", Box::new(Separable::cem(first, sigma, individuals))),
    ];
    for (name, search) in &mut searches {
        let own = &file[*name];
        let generations = own["normals"].as_array().expect("generations");
        for (number, table) in generations.iter().enumerate() {
            let rows = table.as_array().expect("draws").iter();
            let normals = Listed(rows.map(|row| numbers(row).into_iter().map(|z| z as f32).collect()).collect());
            let draws = (individuals / search.sides()) as u32;
            generation(&mut **search, &normals, draws, rate, &cost);
            for (found, wanted) in search.mean().iter().zip(numbers(&own["means"][number])) {
                assert!((f64::from(*found) - wanted).abs() < 2e-5, "{name} {number}: {found} and {wanted}");
            }
            let sigma = own["sigmas"][number].as_f64().expect("a number");
            // That of evosax's sep-CMA-ES is without the deviations of parameters.
            let found = if name.starts_with("sep_cma") { search.state().numbers[0] } else { search.sigma() };
            assert!((found - sigma).abs() < 2e-5, "{name} {number}: {found} and {sigma}");
        }
    }
    let sep_cma = |name: &str| searches.iter().find(|search| search.0 == name).expect(name).1.mean().to_vec();
    assert_ne!(sep_cma("sep_cma"), sep_cma("sep_cma_paper"), "the rates change nothing");
    let moved = searches[1].1.mean().iter().map(|x| f64::from(*x)).sum::<f64>();
    assert!(moved.abs() > 0.1, "nothing moved: {moved}");
}

/// A perturbation of low rank is a dense one: fed the products of its factors, computed by their definition in double
/// precision, the dense search goes where the one of low rank goes.
#[test]
fn factors_move_the_middle_as_their_products_do() {
    const LAYERS: [[usize; 2]; 2] = [[4, 3], [3, 2]];
    // More than a slice of a sum.
    const DRAWS: u32 = 70;
    let d: usize = LAYERS.iter().map(|[inputs, outputs]| (inputs + 1) * outputs).sum();
    let cost = |x: &[f32]| -> f64 { x.iter().enumerate().map(|(i, x)| (f64::from(*x) - 0.1 * i as f64).powi(2)).sum() };
    for rank in [1, 3] {
        // `A [r, inputs]`, `B [r, outputs]` and the biases' normals of each layer; weights `[inputs, outputs]`.
        let product = |z: &[f32]| -> Vec<f32> {
            let (mut left, mut dense) = (z.iter().map(|z| f64::from(*z)), Vec::new());
            for [inputs, outputs] in LAYERS {
                let [a, b, biases] =
                    [rank * inputs, rank * outputs, outputs].map(|n| left.by_ref().take(n).collect::<Vec<f64>>());
                for (input, output) in (0..inputs).flat_map(|i| (0..outputs).map(move |o| (i, o))) {
                    let sum: f64 = (0..rank).map(|r| a[r * inputs + input] * b[r * outputs + output]).sum();
                    dense.push((sum / (rank as f64).sqrt()) as f32);
                }
                dense.extend(biases.iter().map(|z| *z as f32));
            }
            assert!(left.next().is_none() && dense.len() == d);
            dense
        };
        let (start, adam) = (vec![0.5; d], Optimiser { decay: 0.01, ..Optimiser::default() });
        let mut low = LowRank::new(start.clone(), &LAYERS, rank, 0.1, adam);
        let mut dense = OpenAi::new(start.clone(), 0.1, adam);
        for number in 0..10 {
            let normals = Counted { seed: 5, member: 2, generation: number, parameters: low.numbers() };
            let mut z = vec![0.0; low.numbers()];
            let mut table = Vec::new();
            for draw in 0..DRAWS {
                normals.fill(draw, 0, &mut z);
                table.push(product(&z));
            }
            generation(&mut low, &normals, DRAWS, 0.05, &cost);
            generation(&mut dense, &Listed(table), DRAWS, 0.05, &cost);
            for (found, wanted) in low.mean().iter().zip(dense.mean()) {
                assert!((found - wanted).abs() < 1e-5, "rank {rank}, generation {number}: {found} and {wanted}");
            }
        }
        let moved = low.mean().iter().zip(&start).map(|(x, start)| (x - start).abs()).fold(0.0, f32::max);
        assert!(moved > 0.1, "rank {rank} moves by {moved}");
    }
}

/// Adam with decoupled decay, computed anew in double precision: the middle follows it, and decay matters.
#[test]
fn weights_decay_as_adam_with_decoupled_decay_has_it() {
    const D: usize = 7;
    let (draws, sigma, rate, decay) = (9u32, 0.1f64, 0.05f64, 0.3f64);
    let start: Vec<f32> = (0..D).map(|i| 2.0 - 0.5 * i as f32).collect();
    let cost = |x: &[f32]| -> f64 { x.iter().enumerate().map(|(i, x)| (f64::from(*x) - i as f64).powi(2)).sum() };
    let optimiser = |decay: f64| Optimiser { decay: decay as f32, ..Optimiser::default() };
    let [mut search, mut without] = [decay, 0.0].map(|own| OpenAi::new(start.clone(), sigma as f32, optimiser(own)));
    let Optimiser { beta1, beta2, eps, .. } = optimiser(decay);
    let [beta1, beta2, eps] = [beta1, beta2, eps].map(f64::from);
    let mut x: Vec<f64> = start.iter().map(|x| f64::from(*x)).collect();
    let (mut m, mut v) = (vec![0.0; D], vec![0.0; D]);
    for number in 0..12u32 {
        let normals = Counted { seed: 5, member: 2, generation: number, parameters: D };
        let mut table = vec![vec![0.0f32; D]; draws as usize];
        table.iter_mut().enumerate().for_each(|(draw, z)| normals.fill(draw as u32, 0, z));
        let moved = |z: &[f32], side: f64| -> Vec<f32> {
            x.iter().zip(z).map(|(x, z)| (x + side * sigma * f64::from(*z)) as f32).collect()
        };
        let costs: Vec<f64> = table.iter().flat_map(|z| [1.0, -1.0].map(|side| cost(&moved(z, side)))).collect();
        // Centred ranks: -1/2 for the dearest, 1/2 for the cheapest.
        let rank =
            |own: &f64| costs.iter().filter(|other| *other > own).count() as f64 / (costs.len() - 1) as f64 - 0.5;
        let sums = (0..D).map(|j| -> f64 {
            let each = table.iter().zip(costs.chunks_exact(2));
            each.map(|(z, pair)| (rank(&pair[0]) - rank(&pair[1])) * f64::from(z[j])).sum()
        });
        let gradient: Vec<f64> = sums.map(|sum| sum / (costs.len() as f64 * sigma)).collect();
        let left = |beta: f64| 1.0 - beta.powi(number as i32 + 1);
        for j in 0..D {
            m[j] = beta1 * m[j] + (1.0 - beta1) * gradient[j];
            v[j] = beta2 * v[j] + (1.0 - beta2) * gradient[j] * gradient[j];
            let step = m[j] / left(beta1) / ((v[j] / left(beta2)).sqrt() + eps);
            x[j] += rate * (step - decay * x[j]);
        }
        generation(&mut search, &normals, draws, rate as f32, &cost);
        generation(&mut without, &normals, draws, rate as f32, &cost);
        for (found, wanted) in search.mean().iter().zip(&x) {
            assert!((f64::from(*found) - wanted).abs() < 1e-5, "generation {number}: {found} and {wanted}");
        }
    }
    let apart = search.mean().iter().zip(without.mean()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart > 0.05, "decay changes nothing: {apart}");
}

/// Sphere, ellipsoid and Rosenbrock's valley, from a known distance to a known precision. From 9 in the valley sep-CMA
/// and SNES go to its end; both forms of OpenAI-ES come as near as their one deviation lets them; the cross-entropy
/// method, whose deviations follow single parameters, contracts on the way and stays.
#[test]
fn functions_of_known_optimum_are_solved() {
    const D: usize = 10;
    let at = |x: &[f32], i: usize| f64::from(x[i]);
    let sphere = |x: &[f32]| -> f64 { (0..D).map(|i| (at(x, i) - 1.0).powi(2)).sum() };
    let ellipsoid =
        |x: &[f32]| -> f64 { (0..D).map(|i| 1e3f64.powf(i as f64 / (D - 1) as f64) * (at(x, i) - 1.0).powi(2)).sum() };
    let rosenbrock = |x: &[f32]| -> f64 {
        (0..D - 1).map(|i| 100.0 * (at(x, i + 1) - at(x, i).powi(2)).powi(2) + (1.0 - at(x, i)).powi(2)).sum()
    };
    type Cost<'a> = &'a dyn Fn(&[f32]) -> f64;
    // OpenAI-ES has one deviation, and stays that far from an optimum.
    let cases: [(&str, Cost<'_>, u32, [f64; 5]); 3] = [
        ("sphere", &sphere, 300, [1e-3, 1e-3, 1e-8, 1e-8, 1e-6]),
        ("ellipsoid", &ellipsoid, 600, [0.5, 0.5, 1e-6, 1e-6, 1e-4]),
        ("valley", &rosenbrock, 10_000, [0.1, 0.1, 1e-8, 0.01, 7.0]),
    ];
    for (name, cost, generations, limits) in cases {
        let adam = Optimiser { decay: 0.0, ..Optimiser::default() };
        let searches: [Box<dyn Strategy>; 5] = [
            Box::new(OpenAi::new(vec![0.0; D], 0.02, adam)),
            // As a layer of 4 inputs and 2 outputs, biases behind it.
            Box::new(LowRank::new(vec![0.0; D], &[[4, 2]], 1, 0.02, adam)),
            Box::new(SepCma::new(vec![0.0; D], 0.3, 32)),
            Box::new(Separable::snes(vec![0.0; D], 0.3, 32)),
            Box::new(Separable::cem(vec![0.0; D], 0.3, 32)),
        ];
        for (number, (mut search, limit)) in searches.into_iter().zip(limits).enumerate() {
            for generation_number in 0..generations {
                let parameters = search.numbers();
                let normals = Counted { seed: 3, member: 1, generation: generation_number, parameters };
                let rate = 0.03 * (1.0 - generation_number as f32 / generations as f32);
                let draws = 32 / search.sides() as u32;
                generation(&mut *search, &normals, draws, rate, cost);
            }
            let reached = cost(search.mean());
            assert!(reached < limit, "{name}, search {number}: {reached}");
        }
    }
}
