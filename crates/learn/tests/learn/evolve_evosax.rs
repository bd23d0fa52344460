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
        // evosax has the rates of CMA-ES, not the faster ones of the paper.
        ("sep_cma", Box::new(SepCma::slow(first.clone(), sigma, individuals))),
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
            assert!((search.sigma() - sigma).abs() < 2e-5 || *name == "sep_cma", "{name} {number}: {}", search.sigma());
        }
    }
    let moved = searches[1].1.mean().iter().map(|x| f64::from(*x)).sum::<f64>();
    assert!(moved.abs() > 0.1, "nothing moved: {moved}");
}

/// Sphere, ellipsoid and Rosenbrock's valley, from a known distance to a known precision.
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
        ("valley", &rosenbrock, 900, [5.0, 5.0, 5.0, 5.0, 8.0]),
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
