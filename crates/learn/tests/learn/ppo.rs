//! Policies on a market that is known: one column tells the sign of the next bar.

use account::{Bar, Params};
use compute::population::{Pace, Pins, Precision, Recipe};
use compute::{Budget, Choice, Opened};
use features::{Fold, FoldKind, FoldSpans, Samples, Span};
use learn::ppo::{Actions, Clip, EntropyBand, Hypers, Ppo, Reward, Spec};
use learn::{
    Config, DeviceBudget, Hooks, Input, Learner, MemberKey, Outcome, Plan, Problem, TrainState, Trained, train,
};
use market::{EpisodeData, PriceTable, RowTime};
use std::sync::Arc;

const BARS: usize = 3000;

/// Bars that move by 20 bp, up or down; the first column knows where to, as often as `known`, the second nothing. A
/// trade costs `fee`.
pub(crate) fn market(seed: u64, known: f64, fee: f64) -> (Arc<Problem>, Arc<EpisodeData>, Vec<Fold>) {
    let mut random = random::SplitMix::new(seed);
    let (mut bars, mut values, mut price) = (Vec::new(), Vec::new(), 100.0f64);
    let signs: Vec<f64> = (0..=BARS).map(|_| if random.unit() < 0.5 { -1.0 } else { 1.0 }).collect();
    for t in 0..BARS {
        // Opens where the last bar closed: the move of a bar is from open to close.
        let open = price;
        price *= 1.0 + 0.002 * signs[t];
        let (high, low) = (open.max(price), open.min(price));
        bars.push(Bar { open, high, low, close: price, sigma: 0.002, volume: 1e9, ..Bar::flat(price) });
        let told = if random.unit() < known { signs[t + 1] } else { -signs[t + 1] };
        values.extend_from_slice(&[told as f32, random.unit() as f32 - 0.5, 0.0, 0.0]);
    }
    let table = PriceTable {
        offsets: vec![0, bars.len()],
        params: vec![Params { fee, ..Params::default() }],
        bars,
        currency: "USD".into(),
        risk_free: 0.0,
        notes: Vec::new(),
    };
    let data = Arc::new(EpisodeData::new(table, vec![RowTime::default(); BARS]));
    let columns = vec!["told".into(), "noise".into()];
    let input = Input { name: "row".into(), columns, stride: 4, values, map: None, window: 0 };
    let n = BARS - 1;
    let samples = Samples {
        rows: (0..n as u32).collect(),
        t0: (0..n as i64).collect(),
        t1: (1..=n as i64).collect(),
        class: Vec::new(),
        weight: vec![1.0; n],
    };
    let span = |from: u32, to: u32| Span::new(i64::from(from), i64::from(to)).unwrap();
    let [a, b, c] = [1800u32, 2400, n as u32];
    let spans = FoldSpans { train: span(0, a), valid: span(a + 1, b), test: span(b + 1, c) };
    let (kind, lists) = (FoldKind::Forward, [0..a, a + 1..b, b + 1..c].map(|list| list.collect::<Vec<u32>>()));
    let [on, valid, test] = lists;
    let fold = Fold { number: 0, kind, train: on, valid, test, spans, purged: 2, embargoed: 0 };
    let problem = Problem { inputs: vec![input], ids: BARS, classes: 0, samples, ..Problem::default() };
    (Arc::new(problem), data, vec![fold])
}

pub(crate) fn hypers(actions: Actions) -> Hypers {
    let entropy = match actions {
        Actions::Discrete => EntropyBand { least: 0.2, most: 0.8 },
        Actions::Continuous => EntropyBand { least: -1.5, most: 0.5 },
    };
    Hypers {
        n_envs: 20,
        n_steps: 64,
        n_epochs: 4,
        gamma: 0.9,
        gae_lambda: 0.95,
        clip: Clip { policy: 0.2, value: None },
        normalize_advantage: true,
        vf_coef: 0.5,
        target_kl: None,
        entropy,
        episode: 200,
        actions,
        reward: Reward::Growth,
    }
}

pub(crate) fn spec(hypers: Hypers, updates: u32) -> Spec {
    let mut recipe = Recipe::new(320, Precision::F32, 7);
    (recipe.optimiser.eps, recipe.optimiser.decay, recipe.optimiser.clip) = (1e-5, 0.0, Some(0.5));
    let outputs = hypers.actions.outputs();
    let net = format!("row:2 + account:dense8 / 16t-16t | 16t-16t / policy:{outputs} | value:1").parse().unwrap();
    let configs = vec![Config { net, recipe, rate: 3e-3 }];
    Spec { configs, hypers: vec![hypers], units: vec![updates], stop_after: None, patience: updates, seeds: 2 }
}

fn spec_in(precision: Precision, hypers: Hypers, updates: u32) -> Spec {
    let mut spec = spec(hypers, updates);
    spec.configs[0].recipe.precision = precision;
    spec
}

pub(crate) fn at(threads: usize) -> DeviceBudget {
    DeviceBudget { device: Opened::new(Choice::Cpu, threads).unwrap().0, budget: Budget::default() }
}

pub(crate) fn run(learner: &dyn Learner, threads: usize, from: Option<TrainState>) -> Outcome {
    run_at(learner, &at(threads), from)
}

pub(crate) fn run_at(learner: &dyn Learner, at: &DeviceBudget, from: Option<TrainState>) -> Outcome {
    let plan = Plan::new(learner, at).unwrap();
    let hooks = &mut Hooks { event: &mut |_| {}, stop: &|| false, save: &mut |_| Ok(()), every: 0 };
    train(learner, &plan, at, from, hooks).unwrap()
}

/// The same training, stopped after so many updates: what was kept.
pub(crate) fn stopped(learner: &dyn Learner, at: &DeviceBudget, stop_at: u32) -> TrainState {
    let (kept, mut seen) = (std::cell::RefCell::new(None), 0);
    let plan = Plan::new(learner, at).unwrap();
    let stop = std::cell::Cell::new(false);
    let hooks = &mut Hooks {
        event: &mut |event| {
            if matches!(event, learn::RunEvent::Samples(_)) {
                seen += 1;
                stop.set(seen >= stop_at);
            }
        },
        stop: &|| stop.get(),
        save: &mut |state| {
            *kept.borrow_mut() = Some(state.clone());
            Ok(())
        },
        every: 0,
    };
    let cut = train(learner, &plan, at, None, hooks).unwrap();
    assert!(cut.interrupted || stop_at > 2, "stopped after {stop_at}");
    kept.into_inner().expect("a state")
}

/// Who adopts has weights, optimiser, entropy multipliers and scale of returns of another, and stays who it is: how far
/// it is, its accounts and so its stream are its own.
#[test]
fn who_adopts_keeps_its_accounts() {
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let ppo = Ppo::new(&problem, &data, &folds, spec(hypers(Actions::Discrete), 30)).unwrap();
    let keys = [0, 1].map(|seed| MemberKey { config: 0, fold: 0, seed });
    let [from, to] = keys.map(|key| key.id());
    let mut run = ppo
        .begin(&at(2), &problem.tables(&at(2).device, at(2).budget).unwrap(), &keys, Pace::default(), &Pins::default())
        .unwrap();
    for _ in 0..3 {
        run.advance(1).unwrap();
        run.skip_validation().unwrap();
    }
    // Number, updates, steps, those of the optimiser, flags and three multipliers; then the scale, accounts and arrays.
    let params = ppo.configs()[0].params().unwrap();
    let parts = |bytes: &[u8]| -> [Vec<u8>; 4] {
        let words = |range: std::ops::Range<usize>| bytes[4 * range.start..4 * range.end].to_vec();
        let arrays = bytes.len() - 12 * params;
        let adopted = [words(3..4), words(5..8), bytes[32..56].to_vec()].concat();
        [adopted, bytes[arrays..].to_vec(), [words(0..3), words(4..5)].concat(), bytes[56..arrays].to_vec()]
    };
    let [source, before] = [from, to].map(|id| parts(&run.snapshot(id).unwrap().bytes));
    for (part, (one, other)) in ["adopted", "arrays", "own", "accounts"].iter().zip(source.iter().zip(&before)) {
        assert!(one != other, "{part}: two members are alike");
    }
    run.adopt(from, to).unwrap();
    let [left, after] = [from, to].map(|id| parts(&run.snapshot(id).unwrap().bytes));
    assert!(left == source, "the source changed");
    assert!(after[..2] == source[..2], "not all was adopted");
    assert!(after[2..] == before[2..], "who adopts is another");
    run.advance(1).unwrap();
    let [one, other] = [from, to].map(|id| parts(&run.snapshot(id).unwrap().bytes));
    assert!(one[1] != other[1] && one[3] != other[3], "both see the same");
}

/// Where the column is right 9 times of 10, following it earns 20 bp · 0.8 a bar but for the costs of turning.
#[test]
fn policies_find_what_is_there() {
    for (precision, actions, updates) in [
        (Precision::F32, Actions::Discrete, 30),
        (Precision::Bf16, Actions::Discrete, 30),
        (Precision::F32, Actions::Continuous, 360),
    ] {
        let (problem, data, folds) = market(3, 0.9, 1e-4);
        let ppo = Ppo::new(&problem, &data, &folds, spec_in(precision, hypers(actions), updates)).unwrap();
        let members = run(&ppo, 2, None).members;
        // Half of the bars turn: 0.8 · 20 bp less 2 sides of 1 bp on half of them.
        let possible = 16.0 - 1.0;
        for member in &members {
            let best = member.best.as_ref().expect("a best");
            assert!(best.score > 0.8 * possible, "{precision:?} {actions:?}: {} of {possible} bp", best.score);
            let last = &member.history.last().expect("validated").metrics;
            let band = hypers(actions).entropy;
            let entropy = last.get("entropy").expect("an entropy");
            assert!(entropy > f64::from(band.least) - 0.1, "{precision:?} {actions:?}: {entropy}");
        }
    }
}

/// What is a member's own shares a group with others and changes none of their bits; what changes a shape does not.
#[test]
fn configs_have_hyper_parameters_of_their_own() {
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let first = hypers(Actions::Discrete);
    let own = [
        first,
        Hypers { clip: Clip { policy: 1e-5, ..first.clip }, gamma: 0.9, gae_lambda: 0.5, ..first },
        Hypers { reward: Reward::Drawdown(2.0), entropy: EntropyBand { least: 0.4, most: 0.5 }, ..first },
        Hypers { n_steps: first.n_steps / 2, ..first },
    ];
    let alone = spec(first, 6);
    let config = alone.configs[0].clone();
    // Nobody ends early, whatever the processor rounds to.
    let (hypers, units) = (own.to_vec(), vec![6, 6, 6, 12]);
    let all = Spec { configs: vec![config; 4], hypers, units, patience: 12, ..alone.clone() };
    let [alone, all] = [alone, all].map(|spec| Ppo::new(&problem, &data, &folds, spec).unwrap());
    assert_eq!([0, 1, 2, 3].map(|config| all.alike(config)), [0, 0, 0, 3]);
    assert_eq!((all.units(0), all.units(3), all.extent().units), (6, 12, 12));
    let (one, four) = (run(&alone, 2, None).members, run(&all, 2, None).members);
    let last = |members: &[Trained], config: usize| -> Vec<(u32, Vec<f32>)> {
        let own = members.iter().filter(|m| m.config == config);
        own.map(|m| m.last.as_ref().map(|last| (last.unit, last.params.clone())).unwrap()).collect()
    };
    assert_eq!(last(&one, 0), last(&four, 0));
    for (config, units) in [(1, 6), (2, 6), (3, 12)] {
        assert!(last(&four, config).iter().all(|(unit, _)| *unit == units), "config {config}");
        assert_ne!(last(&four, 0), last(&four, config), "config {config}");
    }
    // Fewer updates on the schedule of all of them.
    let spec = Spec { stop_after: Some(2), ..spec(first, 6) };
    let short = Ppo::new(&problem, &data, &folds, spec).unwrap();
    assert!(last(&run(&short, 2, None).members, 0).iter().all(|(unit, _)| *unit == 2));
}

/// Other rewards lead to the same where nothing speaks against it.
#[test]
fn other_rewards_are_followed_too() {
    for reward in [Reward::Drawdown(1.0), Reward::Sharpe] {
        let (problem, data, folds) = market(3, 0.9, 1e-4);
        let hypers = Hypers { reward, ..hypers(Actions::Discrete) };
        let ppo = Ppo::new(&problem, &data, &folds, spec(hypers, 30)).unwrap();
        for member in run(&ppo, 2, None).members {
            let best = member.best.as_ref().expect("a best").score;
            assert!(best > 0.8 * 15.0, "{reward:?}: {best} bp");
        }
    }
}

/// Where nothing is known and trading costs, what is preferred is to stay out, or as good as that.
#[test]
fn nothing_is_earned_where_nothing_is_known() {
    let (problem, data, folds) = market(5, 0.5, 1e-3);
    let ppo = Ppo::new(&problem, &data, &folds, spec(hypers(Actions::Discrete), 30)).unwrap();
    for member in run(&ppo, 2, None).members {
        let metrics = &member.history.last().expect("validated").metrics;
        let [growth, error] = ["valid_growth", "valid_error"].map(|name| metrics.get(name).expect(name));
        assert!(growth - 2.0 * error <= 0.0, "{growth} ± {error}");
    }
}

pub(crate) fn bits(outcome: &Outcome) -> Vec<(Vec<u32>, Vec<u64>)> {
    let member = |m: &learn::Trained| {
        let last = m.last.as_ref().expect("ended").params.iter().map(|x| x.to_bits()).collect();
        (last, m.history.iter().map(|v| v.score.unwrap_or(f64::NAN).to_bits()).collect())
    };
    outcome.members.iter().map(member).collect()
}

#[test]
fn the_same_bits_for_any_threads_and_after_a_stop() {
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let hypers = Hypers { reward: Reward::Drawdown(0.5), ..hypers(Actions::Discrete) };
    for precision in [Precision::F32, Precision::Bf16] {
        let ppo = Ppo::new(&problem, &data, &folds, spec_in(precision, hypers, 6)).unwrap();
        let whole = bits(&run(&ppo, 1, None));
        for threads in [2, 5] {
            assert_eq!(bits(&run(&ppo, threads, None)), whole, "{precision:?}: {threads} threads");
        }
        // Stopped after every update once, and continued from what was kept.
        for stop_at in 1..6u32 {
            let state = stopped(&ppo, &at(2), stop_at);
            for snapshot in &state.running {
                assert_eq!(ppo.read_snapshot(&snapshot.bytes).unwrap(), *snapshot);
            }
            assert_eq!(bits(&run(&ppo, 1, Some(state))), whole, "{precision:?}: stopped after {stop_at}");
        }
    }
}

/// A card finds what is there, in any precision; the same bits each time, beside other members, and after a stop.
#[test]
fn policies_on_a_card() {
    let Some(device) = super::made::card() else { return };
    let at = DeviceBudget { device, budget: Budget::default() };
    for (precision, actions, updates) in [
        (Precision::F32, Actions::Discrete, 30),
        (Precision::Bf16, Actions::Discrete, 30),
        (Precision::Bf16, Actions::Continuous, 400),
    ] {
        let (problem, data, folds) = market(3, 0.9, 1e-4);
        let mut own = spec(hypers(actions), updates);
        own.configs[0].recipe.precision = precision;
        let ppo = Ppo::new(&problem, &data, &folds, own.clone()).unwrap();
        let outcome = run_at(&ppo, &at, None);
        for member in &outcome.members {
            let best = member.best.as_ref().expect("a best").score;
            assert!(best > 0.8 * 15.0, "{precision:?} {actions:?}: {best} bp");
        }
        assert_eq!(bits(&run_at(&ppo, &at, None)), bits(&outcome), "{precision:?} {actions:?}: a second time");
        let alone = Ppo::new(&problem, &data, &folds, Spec { seeds: 1, ..own }).unwrap();
        assert_eq!(bits(&run_at(&alone, &at, None))[0], bits(&outcome)[0], "{precision:?} {actions:?}: alone");
        for stop_at in [1, 2, 5] {
            let state = stopped(&ppo, &at, stop_at);
            for snapshot in &state.running {
                assert_eq!(ppo.read_snapshot(&snapshot.bytes).unwrap(), *snapshot);
            }
            let resumed = bits(&run_at(&ppo, &at, Some(state)));
            assert_eq!(resumed, bits(&outcome), "{precision:?} {actions:?}: stopped after {stop_at}");
        }
    }
}

/// Without a band a policy that was told to be sure stops trying; with one it does not.
#[test]
fn the_band_keeps_a_policy_from_collapsing() {
    let entropy = |band: EntropyBand| {
        let (problem, data, folds) = market(3, 1.0, 0.0);
        let hypers = Hypers { entropy: band, ..hypers(Actions::Discrete) };
        let ppo = Ppo::new(&problem, &data, &folds, spec(hypers, 60)).unwrap();
        let members = run(&ppo, 2, None).members;
        let last = members.iter().map(|m| m.history.last().expect("validated").metrics.get("entropy").expect("one"));
        last.fold(1.0, f64::min)
    };
    let free = entropy(EntropyBand { least: 0.0, most: 1.0 });
    let kept = entropy(EntropyBand { least: 0.2, most: 0.8 });
    assert!(free < 0.1 && kept > 0.15, "{free} without, {kept} with");
}

/// A narrow band holds the deviation of continuous targets, although it is driven over a limit at times.
#[test]
fn a_narrow_band_holds_continuous_targets() {
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let band = EntropyBand { least: -0.2, most: 0.0 };
    let own = Hypers { entropy: band, ..hypers(Actions::Continuous) };
    let ppo = Ppo::new(&problem, &data, &folds, spec(own, 160)).unwrap();
    for member in run(&ppo, 2, None).members {
        let seen = member.history.iter().map(|v| v.metrics.get("entropy").expect("one"));
        let last: Vec<f64> = seen.skip(member.history.len() / 2).collect();
        let mean = last.iter().sum::<f64>() / last.len() as f64;
        let apart = last.iter().map(|x| (x - mean).abs()).fold(0.0, f64::max);
        assert!((-0.5..0.3).contains(&mean) && apart < 1.0, "{mean} nats, {apart} apart: {last:?}");
    }
}

/// A net of two towers that remember, in place of the plain one.
pub(crate) fn remembering(mut spec: Spec, layers: &str) -> Spec {
    let outputs = spec.hypers[0].actions.outputs();
    let net = format!("row:2 + account:dense8 / {layers} / policy:{outputs} | value:1");
    spec.configs[0].net = net.parse().unwrap();
    spec
}

/// The column tells where the bar after the next goes: whoever only sees the last row knows nothing of the next bar.
fn market_told_before(seed: u64, fee: f64) -> (Arc<Problem>, Arc<EpisodeData>, Vec<Fold>) {
    let (problem, data, folds) = market(seed, 1.0, fee);
    let mut late = Problem::clone(&problem);
    let input = &mut late.inputs[0];
    let told: Vec<f32> = input.values.iter().step_by(input.stride).copied().collect();
    for (row, values) in input.values.chunks_exact_mut(4).enumerate() {
        // At row t the column knew bar t + 1; now it says that two rows earlier.
        values[0] = told.get(row + BEFORE).copied().unwrap_or(0.0);
    }
    (Arc::new(late), data, folds)
}

/// Bars between what is shown and the row that it is needed at.
const BEFORE: usize = 2;

/// What was shown some bars ago and is no longer in the columns is known to a policy that remembers. One that does not
/// has its own position to remember by, which says less.
#[test]
fn policies_that_remember_use_what_is_no_longer_shown() {
    let own = Hypers { n_envs: 24, ..hypers(Actions::Discrete) };
    let (problem, data, folds) = market_told_before(3, 1e-4);
    let plain = Ppo::new(&problem, &data, &folds, spec(own, 250)).unwrap();
    let with = remembering(spec(own, 250), "lstm24-16t | lstm24-16t");
    let with = Ppo::new(&problem, &data, &folds, with).unwrap();
    let best = |ppo: &Ppo| -> Vec<f64> {
        run(ppo, 2, None).members.iter().map(|m| m.best.as_ref().expect("a best").score).collect()
    };
    // All of 20 bp less 2 sides of 1 bp on half of the bars.
    let (without, with) = (best(&plain), best(&with));
    assert!(with.iter().all(|score| *score > 0.8 * 19.0), "{with:?} bp with a memory");
    assert!(without.iter().all(|score| *score < 0.5 * 19.0), "{without:?} bp without");
}

#[test]
fn policies_that_remember_have_the_same_bits_for_any_threads_and_after_a_stop() {
    for (layers, actions, precision) in [
        ("lstm16-8t | lstm12", Actions::Discrete, Precision::F32),
        ("lstm9-lstm8 | 16t", Actions::Continuous, Precision::Bf16),
    ] {
        let (problem, data, folds) = market(3, 0.8, 1e-4);
        // Episodes end inside of rollouts, 20 accounts are no whole number of minibatches, and a member may stop.
        let own = Hypers { episode: 50, target_kl: Some(0.02), ..hypers(actions) };
        let mut spec = remembering(spec(own, 5), layers);
        (spec.configs[0].recipe.batch, spec.configs[0].recipe.precision) = (200, precision);
        let ppo = Ppo::new(&problem, &data, &folds, spec).unwrap();
        let whole = bits(&run(&ppo, 1, None));
        for threads in [2, 5] {
            assert_eq!(bits(&run(&ppo, threads, None)), whole, "{layers}: {threads} threads");
        }
        for stop_at in 1..5u32 {
            let state = stopped(&ppo, &at(2), stop_at);
            for snapshot in &state.running {
                assert_eq!(ppo.read_snapshot(&snapshot.bytes).unwrap(), *snapshot);
            }
            assert_eq!(bits(&run(&ppo, 1, Some(state))), whole, "{layers}: stopped after {stop_at}");
        }
    }
}

/// A card finds what has to be remembered.
#[test]
fn policies_that_remember_learn_on_a_card() {
    let Some(device) = super::made::card() else { return };
    let at = DeviceBudget { device, budget: Budget::default() };
    let own = Hypers { n_envs: 24, ..hypers(Actions::Discrete) };
    let (problem, data, folds) = market_told_before(3, 1e-4);
    for precision in [Precision::F32, Precision::Bf16] {
        let mut spec = remembering(spec(own, 250), "lstm24-16t | lstm24-16t");
        spec.configs[0].recipe.precision = precision;
        let ppo = Ppo::new(&problem, &data, &folds, spec).unwrap();
        for member in run_at(&ppo, &at, None).members {
            let best = member.best.as_ref().expect("a best").score;
            assert!(best > 0.8 * 19.0, "{precision:?}: {best} bp");
        }
    }
}

/// The same bits each time, beside other members, and after a stop.
#[test]
fn policies_that_remember_have_the_same_bits_on_a_card() {
    let Some(device) = super::made::card() else { return };
    let at = DeviceBudget { device, budget: Budget::default() };
    for (layers, actions, precision) in [
        ("lstm16-8t | lstm12", Actions::Discrete, Precision::F32),
        ("lstm20-8t | 16t", Actions::Discrete, Precision::Tf32),
        ("lstm9-lstm8 | 16t", Actions::Continuous, Precision::Bf16),
        ("lstm64-64 | lstm80-64t", Actions::Continuous, Precision::Bf16),
    ] {
        let (problem, data, folds) = market(3, 0.8, 1e-4);
        let own = Hypers { episode: 50, target_kl: Some(0.02), ..hypers(actions) };
        let mut spec = remembering(spec(own, 5), layers);
        (spec.configs[0].recipe.batch, spec.configs[0].recipe.precision) = (200, precision);
        let ppo = Ppo::new(&problem, &data, &folds, spec.clone()).unwrap();
        let whole = bits(&run_at(&ppo, &at, None));
        assert_eq!(bits(&run_at(&ppo, &at, None)), whole, "{layers}: a second time");
        let alone = Ppo::new(&problem, &data, &folds, Spec { seeds: 1, ..spec }).unwrap();
        assert_eq!(bits(&run_at(&alone, &at, None))[0], whole[0], "{layers}: alone");
        for stop_at in 1..5u32 {
            let state = stopped(&ppo, &at, stop_at);
            for snapshot in &state.running {
                assert_eq!(ppo.read_snapshot(&snapshot.bytes).unwrap(), *snapshot);
            }
            assert_eq!(bits(&run_at(&ppo, &at, Some(state))), whole, "{layers}: stopped after {stop_at}");
        }
    }
}
