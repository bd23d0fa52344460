//! Evolved policies on a market that is known: one column tells the sign of the next bar.

use super::ppo::{at, bits, market, run, run_at, stopped};
use compute::Budget;
use compute::population::{Precision, Recipe};
use learn::evolve::{Algorithm, Evolve, Fitness, Hypers, Spec, Speed, has_kernels};
use learn::ppo::Actions;
use learn::{Config, DeviceBudget, Learner};

fn hypers(algorithm: Algorithm, actions: Actions) -> Hypers {
    Hypers { algorithm, population: 64, sigma: 0.1, rank: 0, n_envs: 6, n_steps: 64, actions, fitness: Fitness::Growth }
}

/// Every way of searching, with discrete actions.
fn ways() -> Vec<Hypers> {
    let openai = hypers(Algorithm::OpenAi, Actions::Discrete);
    vec![
        openai,
        Hypers { rank: 1, ..openai },
        Hypers { rank: 4, ..openai },
        Hypers { algorithm: Algorithm::SepCma, ..openai },
        Hypers { algorithm: Algorithm::Snes, ..openai },
        Hypers { algorithm: Algorithm::Cem, ..openai },
    ]
}

fn spec(hypers: Hypers, generations: u32) -> Spec {
    let mut recipe = Recipe::new(hypers.population as usize, Precision::F32, 7);
    recipe.optimiser.decay = 0.0;
    let net = format!("row:2 + account:dense8 / 16t-16t / policy:{}", hypers.actions.outputs()).parse().unwrap();
    let configs = vec![Config { net, recipe, rate: 0.05 }];
    let (hypers, units, patience) = (vec![hypers], vec![generations], generations);
    Spec { configs, hypers, units, stop_after: None, patience, seeds: 2 }
}

/// What is searched for in each of these precisions that it computes in.
fn with_precisions(ways: impl IntoIterator<Item = Hypers>) -> Vec<(Hypers, Precision)> {
    let both = |hypers: Hypers| [(hypers, Precision::F32), (hypers, Precision::Bf16)];
    let computes = |(hypers, precision): &(Hypers, Precision)| hypers.rank == 0 || *precision == Precision::F32;
    ways.into_iter().flat_map(both).filter(computes).collect()
}

/// The same search in another precision.
fn in_precision(mut spec: Spec, precision: Precision) -> Spec {
    spec.configs.iter_mut().for_each(|config| config.recipe.precision = precision);
    spec
}

/// Where the column is right 9 times of 10, following it earns 20 bp · 0.8 a bar but for the costs of turning.
#[test]
fn searches_find_what_is_there() {
    let continuous = hypers(Algorithm::OpenAi, Actions::Continuous);
    let all = ways().into_iter().chain([continuous, Hypers { rank: 1, ..continuous }]);
    for (hypers, precision) in with_precisions(all) {
        let (problem, data, folds) = market(3, 0.9, 1e-4);
        let evolve = Evolve::new(&problem, &data, &folds, in_precision(spec(hypers, 60), precision)).unwrap();
        for member in run(&evolve, 2, None).members {
            let best = member.best.as_ref().expect("a best");
            // Half of the bars turn: 0.8 · 20 bp less 2 sides of 1 bp on half of them.
            assert!(best.score > 0.8 * 15.0, "{hypers:?} in {precision:?}: {} of 15 bp", best.score);
        }
    }
}

/// A card finds it too, by every search that it has kernels for; the same bits each time and after a stop.
#[test]
fn searches_on_a_card_find_what_is_there() {
    let Some(device) = super::made::card() else { return };
    let at = DeviceBudget { device, budget: Budget::default() };
    let mut wide = Hypers { rank: 1, ..hypers(Algorithm::OpenAi, Actions::Discrete) };
    wide.n_envs = 4;
    let all = ways().into_iter().map(|hypers| (hypers, "16t-16t")).chain([(wide, "256t-256t")]);
    let mut searched = 0;
    for (hypers, layers) in all {
        let (problem, data, folds) = market(3, 0.9, 1e-4);
        let mut spec = spec(hypers, 60);
        spec.configs[0].recipe.precision = Precision::Bf16;
        spec.configs[0].net = format!("row:2 + account:dense8 / {layers} / policy:3").parse().unwrap();
        if !has_kernels(&at.device, &spec.configs[0].net, &hypers) {
            continue;
        }
        searched += 1;
        let evolve = Evolve::new(&problem, &data, &folds, spec).unwrap();
        let outcome = run_at(&evolve, &at, None);
        for member in &outcome.members {
            let best = member.best.as_ref().expect("a best").score;
            assert!(best > 0.8 * 15.0, "{hypers:?}: {best} of 15 bp");
        }
        assert_eq!(bits(&run_at(&evolve, &at, None)), bits(&outcome), "{hypers:?}: a second time");
        let resumed = bits(&run_at(&evolve, &at, Some(stopped(&evolve, &at, 2))));
        assert_eq!(resumed, bits(&outcome), "{hypers:?}: after a stop");
    }
    // Every card takes individuals whose weights are all drawn.
    assert!(searched >= 4, "{searched} searches have kernels");
}

/// Nets whose layers end within a line, fill one, and fill several, find what is there by factors of any rank. That
/// their individuals earn what whole ones earn is tested beside the pass.
#[test]
fn wide_nets_evolve_by_factors() {
    for (layers, rank) in [("96t-200", 1), ("256t-256t", 1), ("17", 3)] {
        let (problem, data, folds) = market(3, 0.9, 1e-4);
        let hypers = Hypers { rank, n_envs: 5, ..hypers(Algorithm::OpenAi, Actions::Discrete) };
        let mut spec = spec(hypers, 30);
        spec.configs[0].net = format!("row:2 + account:dense8 / {layers} / policy:3").parse().unwrap();
        let evolve = Evolve::new(&problem, &data, &folds, spec).unwrap();
        for member in run(&evolve, 2, None).members {
            let best = member.best.as_ref().expect("a best").score;
            assert!(best > 0.8 * 15.0, "{layers}, rank {rank}: {best} of 15 bp");
        }
    }
}

/// Other measures of fitness lead to the same where nothing speaks against it.
#[test]
fn other_fitness_is_followed_too() {
    for fitness in [Fitness::Drawdown(1.0), Fitness::Sharpe] {
        let (problem, data, folds) = market(3, 0.9, 1e-4);
        let hypers = Hypers { fitness, ..hypers(Algorithm::OpenAi, Actions::Discrete) };
        let evolve = Evolve::new(&problem, &data, &folds, spec(hypers, 60)).unwrap();
        for member in run(&evolve, 2, None).members {
            let best = member.best.as_ref().expect("a best").score;
            assert!(best > 0.8 * 15.0, "{fitness:?}: {best} bp");
        }
    }
}

/// Where nothing is known and trading costs, the fittest stay out, or as good as that.
#[test]
fn nothing_is_earned_where_nothing_is_known() {
    for hypers in ways() {
        let (problem, data, folds) = market(5, 0.5, 1e-3);
        let evolve = Evolve::new(&problem, &data, &folds, spec(hypers, 40)).unwrap();
        for member in run(&evolve, 2, None).members {
            let metrics = &member.history.last().expect("validated").metrics;
            let [growth, error] = ["valid_growth", "valid_error"].map(|name| metrics.get(name).expect(name));
            assert!(growth - 2.0 * error <= 0.0, "{hypers:?}: {growth} ± {error}");
        }
    }
}

#[test]
fn the_same_bits_for_any_threads_and_after_a_stop() {
    for (own, precision) in with_precisions(ways()) {
        let (problem, data, folds) = market(3, 0.8, 1e-4);
        let hypers = Hypers { fitness: Fitness::Drawdown(0.5), ..own };
        let spec = in_precision(spec(hypers, 6), precision);
        let evolve = Evolve::new(&problem, &data, &folds, spec.clone()).unwrap();
        let whole = bits(&run(&evolve, 1, None));
        for threads in [2, 16] {
            assert_eq!(bits(&run(&evolve, threads, None)), whole, "{own:?}, {threads} threads");
        }
        for at_once in [1, 6, 1000] {
            let paced = evolve.clone().at_speed(Speed { at_once: Some(at_once), pinned: at_once == 6, threads: None });
            assert_eq!(bits(&run(&paced, 2, None)), whole, "{own:?}, {at_once} at once");
        }
        let alone = Spec { seeds: 1, ..spec };
        let alone = Evolve::new(&problem, &data, &folds, alone).unwrap();
        assert_eq!(bits(&run(&alone, 2, None))[0], whole[0], "{own:?}, alone");
        for stop_at in 1..4u32 {
            let state = stopped(&evolve, &at(2), stop_at);
            for snapshot in &state.running {
                assert_eq!(evolve.read_snapshot(&snapshot.bytes).unwrap(), *snapshot);
            }
            assert_eq!(bits(&run(&evolve, 1, Some(state))), whole, "{own:?}, stopped after {stop_at}");
        }
    }
}

/// What a member has of its own changes no bit of another; what cannot be trained is refused.
#[test]
fn configs_have_hyper_parameters_of_their_own() {
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let first = hypers(Algorithm::OpenAi, Actions::Discrete);
    let alone = spec(first, 6);
    let own = vec![first, Hypers { sigma: 0.2, ..first }, Hypers { n_steps: 32, ..first }];
    let all = Spec {
        configs: vec![alone.configs[0].clone(); 3],
        hypers: own,
        units: vec![6, 6, 12],
        patience: 12,
        ..alone.clone()
    };
    let [alone, all] = [alone, all].map(|spec| Evolve::new(&problem, &data, &folds, spec).unwrap());
    assert_eq!([0, 1, 2].map(|config| all.alike(config)), [0, 0, 2]);
    let (one, three) = (run(&alone, 2, None), run(&all, 2, None));
    assert_eq!(bits(&one)[0], bits(&three)[0]);
    assert_ne!(bits(&three)[0].0, bits(&three)[2].0);
    for (net, population, wanted) in [
        ("row:2 + account:dense8 / 8 | 8 / policy:3 | value:1", 64, "does not fit"),
        ("row:2 + account:dense8 / 8n / policy:3", 64, "plain stack"),
        ("row:2 + account:dense8 / 8 / policy:3", 7, "odd"),
    ] {
        let mut spec = spec(Hypers { population, ..first }, 2);
        spec.configs[0].net = net.parse().unwrap();
        let error = Evolve::new(&problem, &data, &folds, spec).err().expect("refused").to_string();
        assert!(error.contains(wanted), "{net}: {error}");
    }
    let ranked = spec(Hypers { rank: 2, algorithm: Algorithm::SepCma, ..first }, 2);
    let error = Evolve::new(&problem, &data, &folds, ranked).err().expect("refused").to_string();
    assert!(error.contains("low rank"), "{error}");
}
