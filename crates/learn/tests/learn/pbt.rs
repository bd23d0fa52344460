//! Populations of policies on the market of `ppo`: what they find, and what their bits depend on.

use super::made;
use super::ppo::{at, bits, hypers, market, remembering, run, run_at, spec, stopped};
use compute::Budget;
use learn::evolve::Pbt;
use learn::ppo::{Actions, EntropyBand, Hypers, Ppo, Reward, Spec};
use learn::{DeviceBudget, Hooks, Learner, Outcome, Plan, Trained, train};

fn populations(hypers: Hypers, updates: u32, seeds: u32, every: u32, [seed, known]: [f64; 2], fee: f64) -> Pbt {
    let (problem, data, folds) = market(seed as u64, known, fee);
    let spec = Spec { seeds, ..spec(hypers, updates) };
    Pbt::new(Ppo::new(&problem, &data, &folds, spec).unwrap(), 4, Some(every)).unwrap()
}

fn risky() -> Hypers {
    Hypers { reward: Reward::Drawdown(0.2), ..hypers(Actions::Discrete) }
}

/// As for `ppo`: 0.8 · 20 bp less 2 sides of 1 bp on half of the bars.
#[test]
fn populations_find_what_is_there() {
    let pbt = populations(risky(), 30, 2, 3, [3.0, 0.9], 1e-4);
    let EntropyBand { least, .. } = hypers(Actions::Discrete).entropy;
    let mut explored = 0;
    for member in run(&pbt, 2, None).members {
        let best = member.best.as_ref().expect("a best").score;
        assert!(best > 0.8 * 15.0, "{best} of 15 bp");
        let metrics = |name: &str| member.history.iter().map(|v| v.metrics.get(name).expect("a figure")).collect();
        // Who is best is so with hyper-parameters of its own; the mean of all is no better.
        let (all, best): (Vec<f64>, Vec<f64>) = (metrics("population_growth"), metrics("valid_growth"));
        assert!(all.iter().zip(&best).all(|(all, best)| all <= best));
        // Where all are as good, the first is the best, which has the config's own until another is better.
        let band: Vec<f64> = metrics("least_entropy");
        explored += band.iter().filter(|x| (*x - f64::from(least)).abs() > 1e-3).count();
    }
    assert!(explored > 0, "nobody else was ever the best");
}

#[test]
fn nothing_is_earned_where_nothing_is_known() {
    let pbt = populations(hypers(Actions::Discrete), 20, 2, 2, [5.0, 0.5], 1e-3);
    for member in run(&pbt, 2, None).members {
        // The last of the best individuals: selected by this very validation, of which there are four.
        let metrics = &member.history.last().expect("validated").metrics;
        let [growth, error] = ["valid_growth", "valid_error"].map(|name| metrics.get(name).expect(name));
        assert!(growth - 2.5 * error <= 0.0, "{growth} ± {error}");
    }
}

type MemberBits = (Vec<u32>, Vec<u64>);

/// Of the best, and in the mean of all what became of the others.
fn all_bits(outcome: &Outcome) -> Vec<(MemberBits, Vec<u64>)> {
    let means = |member: &Trained| -> Vec<u64> {
        let of = |v: &learn::Validation| v.metrics.get("population_growth").expect("a figure").to_bits();
        member.history.iter().map(of).collect()
    };
    bits(outcome).into_iter().zip(outcome.members.iter().map(means)).collect()
}

/// A population's bits are its own: not those of threads, neighbours, groups or stops; and borders change them.
#[test]
fn the_same_bits_for_any_threads_neighbours_and_groups_and_after_a_stop() {
    let given = [3.0, 0.8];
    let pbt = populations(risky(), 6, 2, 1, given, 1e-4);
    let whole = all_bits(&run(&pbt, 1, None));
    for threads in [2, 16] {
        assert_eq!(all_bits(&run(&pbt, threads, None)), whole, "{threads} threads");
    }
    let alone = populations(risky(), 6, 1, 1, given, 1e-4);
    assert_eq!(all_bits(&run(&alone, 2, None))[0], whole[0], "alone");
    let without = populations(risky(), 6, 2, 100, given, 1e-4);
    assert_ne!(all_bits(&run(&without, 2, None)), whole, "borders change nothing");
    // Groups of one population each; none is smaller.
    let at = at(2);
    let mut plan = Plan::new(&pbt, &at).unwrap();
    plan.limit_group(&pbt, &at.device, 1).unwrap();
    assert_eq!(plan.groups.len(), 2);
    let hooks = &mut Hooks { event: &mut |_| {}, stop: &|| false, save: &mut |_| Ok(()), every: 0 };
    assert_eq!(all_bits(&train(&pbt, &plan, &at, None, hooks).unwrap()), whole, "in groups");
    for stop_at in 1..5u32 {
        let state = stopped(&pbt, &at, stop_at);
        for snapshot in &state.running {
            assert_eq!(pbt.read_snapshot(&snapshot.bytes).unwrap(), *snapshot);
            assert!(pbt.read_snapshot(&snapshot.bytes[..snapshot.bytes.len() - 1]).is_err());
        }
        assert_eq!(all_bits(&run(&pbt, 1, Some(state))), whole, "stopped after {stop_at}");
    }
}

/// The same on a card: what is found, and whose bits they are.
#[test]
fn populations_train_on_a_card() {
    let Some(device) = made::card() else { return };
    let at = DeviceBudget { device, budget: Budget::default() };
    for member in run_at(&populations(risky(), 30, 2, 3, [3.0, 0.9], 1e-4), &at, None).members {
        let best = member.best.as_ref().expect("a best").score;
        assert!(best > 0.8 * 15.0, "{best} of 15 bp");
    }
    // While individuals still differ, so that it matters who adopts from whom.
    let populations = |seeds, every| populations(risky(), 6, seeds, every, [3.0, 0.8], 1e-4);
    let (pbt, alone, without) = (populations(2, 1), populations(1, 1), populations(2, 100));
    let whole = all_bits(&run_at(&pbt, &at, None));
    assert_eq!(all_bits(&run_at(&alone, &at, None))[0], whole[0], "alone");
    assert!(all_bits(&run_at(&without, &at, None)) != whole, "borders change nothing");
    for stop_at in [1, 2] {
        let state = stopped(&pbt, &at, stop_at);
        assert_eq!(all_bits(&run_at(&pbt, &at, Some(state))), whole, "stopped after {stop_at}");
    }
}

/// Populations of policies that remember, on a processor and on a card: what is adopted is learned with, and bits are
/// their own.
#[test]
fn populations_of_policies_that_remember() {
    let card = made::card().map(|device| DeviceBudget { device, budget: Budget::default() });
    let make = |every: u32| {
        let (problem, data, folds) = market(3, 0.9, 1e-4);
        let own = remembering(spec(Hypers { episode: 50, ..risky() }, 6), "lstm12-8t | lstm12-8t");
        Pbt::new(Ppo::new(&problem, &data, &folds, own).unwrap(), 4, Some(every)).unwrap()
    };
    let (pbt, without) = (make(1), make(100));
    for at in [Some(at(2)), card].into_iter().flatten() {
        let whole = all_bits(&run_at(&pbt, &at, None));
        assert_eq!(all_bits(&run_at(&pbt, &at, None)), whole, "a second time");
        assert_ne!(all_bits(&run_at(&without, &at, None)), whole, "borders change nothing");
        for stop_at in [1, 3] {
            let state = stopped(&pbt, &at, stop_at);
            assert_eq!(all_bits(&run_at(&pbt, &at, Some(state))), whole, "stopped after {stop_at}");
        }
    }
}

#[test]
fn populations_are_counted() {
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let make = |seeds: u32, population: u32| {
        let spec = Spec { seeds, ..spec(hypers(Actions::Discrete), 2) };
        Pbt::new(Ppo::new(&problem, &data, &folds, spec).unwrap(), population, None)
    };
    for (seeds, population) in [(2, 3), (1024, 4)] {
        let error = make(seeds, population).err().expect("refused").to_string();
        assert!(error.contains("populations of"), "{error}");
    }
    let pbt = make(2, 8).unwrap();
    assert_eq!((pbt.extent().seeds, pbt.unit()), (2, "update"));
    let key = learn::MemberKey { config: 0, fold: 0, seed: 1 };
    assert_eq!(pbt.samples(key), 8 * 20 * 64);
}
