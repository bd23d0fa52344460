//! The same bits for any number of threads; rows behind the end of the training change nothing; what does not fit is
//! refused.

use crate::worlds;
use account::{Account, Bar, Params};
use compute::net::{Layout, init};
use compute::population::Precision;
use compute::{Net, Result};
use search::{
    Bootstrap, InfoSet, MarketWorld, Mode, NetEvaluator, Outcomes, Root, RootRule, Rows, Search, Settings, TrainingRow,
};

const FEATURES: usize = 3;
const END: u32 = 900;

/// Rows of a walk with three features, one of which tells the next move's sign.
fn rows(n: usize) -> (Vec<f32>, Vec<TrainingRow>) {
    let law = worlds::Regimes { drift: 8e-4, deviation: 1e-3, stay: 0.9, leak: false };
    let mut random = random::SplitMix::new(3);
    let (mut observations, mut rows, mut close) = (Vec::new(), Vec::new(), 100.0);
    let mut before = 0.0;
    for (clock, (sign, moved)) in worlds::path(law, 5, n).into_iter().enumerate() {
        let bar = Bar { sigma: 1e-3, ..worlds::bar_behind(close, before) };
        (close, before) = (bar.close, moved);
        observations.extend([random.unit() as f32, sign as f32, random.unit() as f32]);
        rows.push(TrainingRow { bar, time: [0.5, 0.0], clock: clock as u32, continues: true });
    }
    (observations, rows)
}

fn show(_: &Params, account: &Account, _: &Bar, _: [f32; 2], to: &mut [f32]) {
    to[0] = account.action as f32;
}

fn settings() -> Settings {
    Settings { simulations: 12, scenarios: 32, codes: 8, rule: RootRule::GUMBEL, seed: 4, ..Settings::default() }
}

fn searched(observations: &[f32], rows: &[TrainingRow], settings: &Settings, threads: usize) -> Result<Outcomes> {
    searched_in(Precision::F32, observations, rows, settings, threads)
}

fn searched_in(
    precision: Precision,
    observations: &[f32],
    rows: &[TrainingRow],
    settings: &Settings,
    threads: usize,
) -> Result<Outcomes> {
    let model = Bootstrap::new(Rows::cut(observations, FEATURES, rows, |row| row.clock < END)?)?;
    let world = MarketWorld::new(model, 0.97, show, 1);
    let net: Net = "bars:3 + account:dense1 / 32t-32t / policy:3 + value:1".parse()?;
    let params = init(&Layout::new(&net)?, 1, 0);
    let mut evaluators = NetEvaluator::several(&net, &params, precision, threads)?;
    let root = |at: usize| {
        let observation = observations[at * FEATURES..(at + 1) * FEATURES].to_vec();
        let params = worlds::params();
        let account = worlds::account((at % 3) as f64 - 1.0);
        Root {
            known: InfoSet { observation, bar: rows[at].bar, time: [0.5, 0.0], params, account, excluded: 0..0 },
            counter: at as u64,
        }
    };
    let roots: Vec<Root<InfoSet>> = (400..900).step_by(3).map(root).collect();
    let found = Search::new(&world, settings, threads, u64::MAX)?.run(&world, &mut evaluators, &roots);
    assert!(!world.model().rows().reached_behind());
    found
}

#[test]
fn threads_change_nothing() {
    let (observations, rows) = rows(1200);
    let modes = [Mode::Reference, Mode::Honest { in_flight: 1 }, Mode::Honest { in_flight: 4 }];
    for (mode, rule) in modes.into_iter().flat_map(|mode| [(mode, RootRule::GUMBEL), (mode, RootRule::PUCT)]) {
        let settings = Settings { mode, rule, ..settings() };
        let one = searched(&observations, &rows, &settings, 1).unwrap();
        assert_eq!(one.len(), 167);
        let simulations = one.visits.chunks_exact(3).map(|own| own.iter().sum::<u32>());
        assert!(simulations.into_iter().all(|n| n == settings.simulations));
        for threads in [2, 5] {
            assert_eq!(one, searched(&observations, &rows, &settings, threads).unwrap(), "{threads} threads");
        }
        let [rounded, again] =
            [1, 3].map(|threads| searched_in(Precision::Bf16, &observations, &rows, &settings, threads).unwrap());
        assert_eq!(rounded, again, "3 threads, in bf16");
        assert_ne!(rounded, one, "bf16 changes something");
    }
}

#[test]
fn what_lies_behind_the_end_of_the_training_changes_no_visit() {
    let (observations, rows) = rows(1200);
    let clean = searched(&observations, &rows, &settings(), 2).unwrap();
    let end = END as usize;
    let poisons: [fn(&mut TrainingRow); 2] =
        [|row| row.bar = Bar::flat(f64::NAN), |row| row.bar = Bar { close: row.bar.close * 10.0, ..row.bar }];
    for poison in poisons {
        let (mut observed, mut behind) = (observations.clone(), rows.clone());
        observed[end * FEATURES..].iter_mut().for_each(|x| *x = f32::NAN);
        behind[end..].iter_mut().for_each(poison);
        assert_eq!(clean, searched(&observed, &behind, &settings(), 2).unwrap());
    }
    // A change before the end is seen: the test can fail.
    let mut inside = rows.clone();
    inside[..end].iter_mut().for_each(|row| row.bar.close *= 1.0 + 1e-3 * f64::from(row.clock % 2));
    assert_ne!(clean, searched(&observations, &inside, &settings(), 2).unwrap());
}

/// Trees are counted from simulations, codes and depth: where all that lies above the depth is tried, more simulations
/// add nothing. That none is larger than was counted is asserted while it grows.
#[test]
fn memory_is_counted_from_simulations_codes_and_depth() {
    let (observations, rows) = rows(1200);
    let of = |depth: u32, simulations: u32, codes: usize| {
        let settings = Settings { simulations, scenarios: 4, codes, depth, ..settings() };
        searched(&observations, &rows, &settings, 1).unwrap();
        let model = Bootstrap::new(Rows::cut(&observations, FEATURES, &rows, |_| true).unwrap()).unwrap();
        Search::need(&MarketWorld::new(model, 0.97, show, 1), &settings, 1).unwrap()
    };
    // 12 decisions behind the root: 36 afterstates behind these, 216 behind the next.
    let by_depth = [1, 2, 3, 4, 9].map(|depth| of(depth, 300, 2));
    assert!(by_depth[..4].is_sorted_by(|a, b| a < b) && by_depth[3] == by_depth[4], "{by_depth:?}");
    assert_eq!(of(1, 30, 2), by_depth[0]);
    assert_eq!(of(2, 36, 2), by_depth[1]);
    assert!(of(2, 35, 2) < by_depth[1] && of(9, 300, 1) < by_depth[4]);
}

#[test]
fn what_makes_no_sense_or_does_not_fit_is_refused() {
    let (observations, rows) = rows(1200);
    let refused = |settings: Settings, part: &str| {
        let message = searched(&observations, &rows, &settings, 1).unwrap_err().to_string();
        assert!(message.contains(part), "{message} should say {part}");
    };
    refused(Settings { simulations: 0, ..settings() }, "0 simulations");
    refused(Settings { codes: 0, ..settings() }, "0 codes");
    refused(Settings { scenarios: 1 << 20, ..settings() }, "at most 65535");
    refused(Settings { simulations: u32::MAX, codes: 60_000, ..settings() }, "a tree of");
    refused(Settings { rule: RootRule::Gumbel { considered: 0, scale: 1.0 }, ..settings() }, "at least one action");
    let model = Bootstrap::new(Rows::cut(&observations, FEATURES, &rows, |_| true).unwrap()).unwrap();
    let world = MarketWorld::new(model, 0.97, show, 1);
    let needed = Search::need(&world, &settings(), 2).unwrap();
    assert!(Search::new(&world, &settings(), 2, needed).is_ok());
    let Err(error) = Search::new(&world, &settings(), 2, needed - 1) else { panic!("too little memory") };
    assert!(error.to_string().contains("fewer simulations"), "{error}");
    let windows: Net = "bars:3x4 + account:dense1 / 8 / policy:3 + value:1".parse().unwrap();
    let params = vec![0.0; Layout::new(&windows).unwrap().params];
    assert!(NetEvaluator::new(&windows, &params, Precision::F32).unwrap_err().to_string().contains("without windows"));
}
