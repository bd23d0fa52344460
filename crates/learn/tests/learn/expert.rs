//! Experts on a market that is known: one column tells the sign of the next bar.

use super::made::card;
use super::ppo::{at, bits, market, run, run_at, stopped};
use account::Action;
use compute::Budget;
use compute::population::{Precision, Recipe};
use learn::expert::{
    Expert, FoldMarket, Hypers, ModelKind, ModelRule, SearchFold, SearchPolicy, SearchRows, SearchShape, SelectionRule,
    Spec, Trend,
};
use learn::ppo::FoldPolicy;
use learn::{Config, DeviceBudget, Hooks, Learner, MemberKey, Plan, PolicySpec, Problem};
use market::{EpisodeData, OBSERVED, Policy, View};
use std::sync::Arc;

fn hypers() -> Hypers {
    Hypers {
        n_envs: 24,
        n_steps: 8,
        search: SearchShape {
            simulations: 6,
            scenarios: 32,
            codes: 8,
            horizon: 4,
            roots: 10,
            rule: Default::default(),
        },
        replay: 4,
        n_epochs: 2,
        realised: 0.5,
        explored: 0.1,
        vf_coef: 0.5,
        episode: 200,
    }
}

fn spec(hypers: Hypers, iterations: u32) -> Spec {
    let mut recipe = Recipe::new(96, Precision::F32, 7);
    (recipe.optimiser.eps, recipe.optimiser.decay, recipe.optimiser.clip) = (1e-5, 0.0, Some(0.5));
    let net = "row:2 + account:dense8 / 16t-16t | 16t-16t / policy:3 | value:1".parse().unwrap();
    let configs = vec![Config { net, recipe, rate: 3e-3 }];
    let (hypers, units, patience) = (vec![hypers], vec![iterations], iterations);
    let policies = PolicySpec { configs, hypers, units, stop_after: None, patience, seeds: 2 };
    Spec { policies, gamma: 0.9, trend: Trend::default(), model: ModelRule::Bootstrap }
}

fn metric(member: &learn::Trained, name: &str) -> f64 {
    member.history.last().expect("validated").metrics.get(name).unwrap_or_else(|| panic!("{name}"))
}

/// Where the column is right 9 times of 10, both the net alone and the net with search follow it.
#[test]
fn experts_find_what_is_there() {
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let expert = Expert::new(&problem, &data, &folds, spec(hypers(), 12)).unwrap();
    assert_eq!(expert.market(0).unwrap().bootstrap().expect("as set").score().columns, [0]);
    // Half of the bars turn: 0.8 · 20 bp less 2 sides of 1 bp on half of them.
    let possible = 16.0 - 1.0;
    for member in run(&expert, 2, None).members {
        let best = member.best.as_ref().expect("a best").score;
        assert!(best > 0.8 * possible, "with search: {best} of {possible} bp");
        let net = metric(&member, "net_growth");
        assert!(net > 0.8 * possible, "the net alone: {net} of {possible} bp");
    }
}

/// The same with the learned market: its codes and latents find as much.
#[test]
fn experts_find_what_is_there_in_a_learned_market() {
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let learned = |iterations| Spec { model: ModelRule::Learned, ..spec(hypers(), iterations) };
    let expert = Expert::new(&problem, &data, &folds, learned(12)).unwrap();
    let own = expert.market(0).unwrap();
    let compared = own.comparison().expect("both were fitted");
    assert!(own.model() == ModelKind::Learned && own.bootstrap().is_none() && compared.found, "{compared:?}");
    let possible = 16.0 - 1.0;
    for member in run(&expert, 2, None).members {
        let best = member.best.as_ref().expect("a best").score;
        assert!(best > 0.8 * possible, "with search: {best} of {possible} bp");
        assert!(metric(&member, "net_growth") > 0.8 * possible, "{}", metric(&member, "net_growth"));
        assert_eq!(metric(&member, "model_learned"), 1.0);
        let own = ["model_crps", "learned_crps"].map(|name| metric(&member, name));
        assert!(own[0] == own[1] && metric(&member, "bootstrap_crps") > 0.0, "{own:?}");
    }
    // As bytes it is the same market.
    let bytes = own.to_bytes();
    let read = FoldMarket::from_bytes(&bytes).unwrap();
    assert!(read.to_bytes() == bytes && read.comparison() == own.comparison() && read.model() == ModelKind::Learned);
    for cut in [bytes.len() - 1, bytes.len() - 4, bytes.len() - 4000] {
        assert!(FoldMarket::from_bytes(&bytes[..cut]).is_err(), "{cut}");
    }
    // Fitted again it is the same too: on other threads, and where a training goes on.
    let again = || Expert::new(&problem, &data, &folds, learned(3)).unwrap();
    assert!(again().market(0).unwrap().to_bytes() == bytes);
    let whole = bits(&run(&again(), 2, None));
    assert_eq!(bits(&run(&again(), 1, None)), whole);
    assert_eq!(bits(&run(&again(), 1, Some(stopped(&again(), &at(2), 2)))), whole);
}

/// Left to itself the market of a walk is a bootstrap: there is nothing to learn.
#[test]
fn the_market_of_a_walk_is_a_bootstrap() {
    let (problem, data, folds) = market(5, 0.5, 1e-3);
    let auto = Spec { model: ModelRule::Auto, ..spec(hypers(), 1) };
    let own = Expert::new(&problem, &data, &folds, auto).unwrap().market(0).unwrap();
    let compared = own.comparison().expect("both were fitted");
    assert!(own.model() == ModelKind::Bootstrap && !compared.found, "{compared:?}");
    assert_eq!(own.score(), (compared.bootstrap.crps, compared.bootstrap.coverage));
}

/// Where nothing is known and trading costs, what is preferred is to stay out.
#[test]
fn nothing_is_earned_where_nothing_is_known() {
    let (problem, data, folds) = market(5, 0.5, 1e-3);
    let expert = Expert::new(&problem, &data, &folds, spec(hypers(), 8)).unwrap();
    let own = expert.market(0).unwrap();
    assert!(own.bootstrap().expect("as set").score().columns.is_empty() && own.comparison().is_none());
    for member in run(&expert, 2, None).members {
        let [growth, error] = ["valid_growth", "valid_error"].map(|name| metric(&member, name));
        assert!(growth - 2.0 * error <= 0.0 && growth.abs() < 0.5, "{growth} ± {error}");
        assert!(metric(&member, "changed") < 0.5, "{}", metric(&member, "changed"));
    }
}

#[test]
fn the_same_bits_for_any_threads_and_after_a_stop() {
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let expert = Expert::new(&problem, &data, &folds, spec(hypers(), 4)).unwrap();
    let whole = bits(&run(&expert, 1, None));
    for threads in [2, 5] {
        assert_eq!(bits(&run(&expert, threads, None)), whole, "{threads} threads");
    }
    for stop_at in 1..4u32 {
        let state = stopped(&expert, &at(2), stop_at);
        for snapshot in &state.running {
            assert_eq!(expert.read_snapshot(&snapshot.bytes).unwrap(), *snapshot);
        }
        assert_eq!(bits(&run(&expert, 1, Some(state))), whole, "stopped after {stop_at}");
    }
}

/// What is a batch of roots changes no bit: it is pace.
#[test]
fn batches_of_roots_change_no_bit() {
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let of = |roots: u32| {
        let search = SearchShape { roots, ..hypers().search };
        let expert = Expert::new(&problem, &data, &folds, spec(Hypers { search, ..hypers() }, 2)).unwrap();
        bits(&run(&expert, 2, None))
    };
    assert_eq!(of(1), of(1000));
}

/// Each number and the rule of selection are used: another one gives other weights.
#[test]
fn every_setting_of_a_search_changes_what_is_learned() {
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let of = |hypers: Hypers| bits(&run(&Expert::new(&problem, &data, &folds, spec(hypers, 3)).unwrap(), 2, None));
    let (usual, hypers) = (of(hypers()), hypers());
    let shaped = |search: SearchShape| Hypers { search, ..hypers };
    for (name, own) in [
        ("rule", shaped(SearchShape { rule: SelectionRule::Puct, ..hypers.search })),
        ("simulations", shaped(SearchShape { simulations: 3, ..hypers.search })),
        ("scenarios", shaped(SearchShape { scenarios: 16, ..hypers.search })),
        ("codes", shaped(SearchShape { codes: 4, ..hypers.search })),
        ("horizon", shaped(SearchShape { horizon: 2, ..hypers.search })),
        ("replay", Hypers { replay: 1, ..hypers }),
        ("n_epochs", Hypers { n_epochs: 1, ..hypers }),
        ("realised", Hypers { realised: 0.0, ..hypers }),
        ("explored", Hypers { explored: 0.0, ..hypers }),
        ("vf_coef", Hypers { vf_coef: 1.0, ..hypers }),
        ("episode", Hypers { episode: 20, ..hypers }),
    ] {
        assert!(of(own) != usual, "{name} changes nothing");
    }
}

/// Everything behind the training part overwritten: features and bars.
fn poisoned(problem: &Problem, data: &EpisodeData, from: usize) -> (Arc<Problem>, Arc<EpisodeData>) {
    let mut problem = problem.clone();
    let stride = problem.inputs[0].stride;
    problem.inputs[0].values[from * stride..].iter_mut().for_each(|x| *x = -7.0 * *x + 3.0);
    let mut table = data.table().clone();
    for bar in &mut table.bars[from..] {
        (bar.open, bar.high, bar.low, bar.close) = (bar.open * 3.0, bar.high * 9.0, bar.low * 0.1, bar.close * 5.0);
    }
    let times = (0..table.bars.len() as u32).map(|row| data.row_time(row)).collect();
    (Arc::new(problem), Arc::new(EpisodeData::new(table, times)))
}

#[test]
fn what_lies_behind_the_training_part_changes_no_weight() {
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    for model in [ModelRule::Bootstrap, ModelRule::Learned] {
        let last = |problem: &Arc<Problem>, data: &Arc<EpisodeData>| -> Vec<Vec<f32>> {
            let expert = Expert::new(problem, data, &folds, Spec { model, ..spec(hypers(), 3) }).unwrap();
            let members = run(&expert, 2, None).members;
            members.into_iter().map(|member| member.last.expect("ended").params).collect()
        };
        // The last training sample decides at row 1799 and is settled at row 1800.
        let clean = last(&problem, &data);
        let (other, prices) = poisoned(&problem, &data, 1801);
        assert_eq!(last(&other, &prices), clean);
        let (other, prices) = poisoned(&problem, &data, 1500);
        assert_ne!(last(&other, &prices), clean, "the test can fail");
    }
}

#[test]
fn a_market_comes_back_from_its_bytes() {
    let (problem, data, folds) = market_with_a_trend(|above| -above);
    let trend = Trend { columns: vec![1], weight: 0.5, inverted: false };
    let expert = Expert::new(&problem, &data, &folds, Spec { trend, ..spec(hypers(), 1) }).unwrap();
    let own = expert.market(0).unwrap();
    let bytes = own.to_bytes();
    let read = FoldMarket::from_bytes(&bytes).unwrap();
    assert!(own.trend_is_reversed() && read.trend_is_reversed());
    assert_eq!((read.to_bytes(), read.score(), read.rows()), (bytes.clone(), own.score(), 1800));
    for cut in [0, 7, 31, bytes.len() - 2, bytes.len() - 1] {
        assert!(FoldMarket::from_bytes(&bytes[..cut]).is_err(), "{cut}");
    }
}

/// The same market, whose other column is what a close is away from the mean of the last ones, as a share.
fn market_with_a_trend(made: impl Fn(f32) -> f32) -> (Arc<Problem>, Arc<EpisodeData>, Vec<features::Fold>) {
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let mut own = Problem::clone(&problem);
    let input = &mut own.inputs[0];
    for (row, values) in input.values.chunks_exact_mut(input.stride).enumerate() {
        let closes: Vec<f64> = data.table().bars[row.saturating_sub(9)..=row].iter().map(|bar| bar.close).collect();
        let mean = closes.iter().sum::<f64>() / closes.len() as f64;
        values[1] = made((closes[closes.len() - 1] / mean - 1.0) as f32);
    }
    (Arc::new(own), data, folds)
}

/// The trend is a prior of its own sign; turned over, it and its columns have the other.
#[test]
fn an_inverted_trend_is_another_training() {
    let (problem, data, folds) = market_with_a_trend(|above| above);
    let of = |weight: f32, inverted: bool| {
        let trend = Trend { columns: vec![1], weight, inverted };
        let expert = Expert::new(&problem, &data, &folds, Spec { trend, ..spec(hypers(), 2) }).unwrap();
        let inverse = expert.scalers()[0].scales[0].inverse.clone();
        assert!(!expert.market(0).unwrap().trend_is_reversed());
        (bits(&run(&expert, 2, None)), inverse)
    };
    let [none, with, turned] = [of(0.0, false), of(2.0, false), of(2.0, true)];
    assert!(none.0 != with.0 && with.0 != turned.0);
    assert_eq!(turned.1, [with.1[0], -with.1[1]]);
}

/// A feature that is above 0 after the price fell speaks for short there, turned over or not; a distance speaks for
/// nothing, and neither does what comes next.
#[test]
fn a_trend_is_believed_the_way_it_points() {
    let found = |made: fn(f32) -> f32, columns: &[usize], inverted: bool| {
        let (problem, data, folds) = market_with_a_trend(made);
        let trend = Trend { columns: columns.to_vec(), weight: 0.5, inverted };
        let expert = Expert::new(&problem, &data, &folds, Spec { trend, ..spec(hypers(), 1) }).unwrap();
        let market = expert.market(0).unwrap();
        (market.trend_column(), market.trend_is_reversed())
    };
    for inverted in [false, true] {
        assert_eq!(found(|above| above, &[1], inverted), (Some(1), false));
        assert_eq!(found(|above| -above, &[1], inverted), (Some(1), true));
        assert_eq!(found(|above| -above, &[0, 1], inverted), (Some(1), true));
        assert_eq!(found(|above| above.abs() - 2e-3, &[1], inverted), (None, false));
    }
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let refused = |spec: Spec, part: &str| {
        let Err(error) = Expert::new(&problem, &data, &folds, spec) else { panic!("{part}") };
        assert!(error.to_string().contains(part), "{error} should say {part}");
    };
    let mut other = spec(hypers(), 1);
    other.policies.configs[0].net = "row:2 + account:dense8 / 16t / policy:2 + value:1".parse().unwrap();
    refused(other, "3 outputs and a value");
    let search = SearchShape { simulations: 0, ..hypers().search };
    refused(spec(Hypers { search, ..hypers() }, 1), "0 simulations");
    // Of 1,799 rows that follow one, the root in the middle hides 1,737 and more.
    let far = |horizon: u32| Hypers { search: SearchShape { horizon, ..hypers().search }, ..hypers() };
    assert!(Expert::new(&problem, &data, &folds, spec(far(867), 1)).is_ok());
    refused(spec(far(868), 1), "fold 1 has 1799 training bars to search in, and only 62 of them for some roots");
}

/// Members draw scenarios of their own: of two with the same weights each decides by its seed, whoever is beside it.
#[test]
fn members_draw_scenarios_of_their_own() {
    let (problem, data, folds) = market(3, 0.5, 0.0);
    let shape =
        SearchShape { simulations: 3, scenarios: 16, codes: 4, horizon: 2, roots: 24, rule: SelectionRule::Gumbel };
    let expert = Expert::new(&problem, &data, &folds, spec(Hypers { search: shape, ..hypers() }, 1)).unwrap();
    let (net, market) = (expert.configs()[0].net.clone(), expert.market(0).unwrap());
    let params = vec![0.01; compute::net::Layout::new(&net).unwrap().params];
    let targets = |seeds: &[u32]| -> Vec<f64> {
        let scales = expert.scalers()[0].scales_of(&net);
        let members = vec![params.clone(); seeds.len()];
        let policy = FoldPolicy { net: net.clone(), scales, members, seeds: seeds.to_vec(), flat: 0 };
        let fold = SearchFold { policy, market: Some(Arc::clone(&market)), shape, precision: Precision::F32 };
        let rows = SearchRows {
            problem: Arc::clone(&problem),
            data: Arc::clone(&data),
            fold_of: vec![Some(0); problem.ids],
            counters: (0..problem.ids as u64).collect(),
            share: 1.0,
        };
        let policy = SearchPolicy::new(rows, vec![fold], Vec::new(), (&at(2).device, u64::MAX)).unwrap();
        let target = |row: u32| {
            let (rows, observed) = (&[row][..], &[0.0; OBSERVED][..]);
            let view = View { rows, slots: &[0], observed, legal: &[true; 3], counter: 0, seed: None };
            let mut actions = [Action::target(f64::NAN)];
            policy.act(&view, &mut [], &mut actions).unwrap();
            actions[0].target
        };
        (1900..2100).map(target).collect()
    };
    let [zero, one, other] = [&[0][..], &[1], &[7]].map(targets);
    assert!(zero != one && one != other && zero != other, "the same scenarios");
    assert_eq!(targets(&[7]), other);
    // Beside a member of another seed each has the same vote.
    let together = targets(&[0, 7]);
    for ((both, a), b) in together.iter().zip(&zero).zip(&other) {
        assert!(a != b || both == a, "{a} and {b} vote for {both}");
    }
}

/// What is deployed knows no bar behind the close that it decides at.
#[test]
fn later_bars_change_no_decision() {
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let shape =
        SearchShape { simulations: 6, scenarios: 32, codes: 8, horizon: 4, roots: 24, rule: SelectionRule::Gumbel };
    let expert = Expert::new(&problem, &data, &folds, spec(Hypers { search: shape, ..hypers() }, 1)).unwrap();
    let (net, market) = (expert.configs()[0].net.clone(), expert.market(0).unwrap());
    let params = compute::net::init(&compute::net::Layout::new(&net).unwrap(), 3, 0);
    let decisions = |problem: &Arc<Problem>, data: &Arc<EpisodeData>| -> Vec<f64> {
        let scales = expert.scalers()[0].scales_of(&net);
        let policy = FoldPolicy { net: net.clone(), scales, members: vec![params.clone()], seeds: vec![0], flat: 0 };
        let fold = SearchFold { policy, market: Some(Arc::clone(&market)), shape, precision: Precision::F32 };
        let rows = SearchRows {
            problem: Arc::clone(problem),
            data: Arc::clone(data),
            fold_of: vec![Some(0); problem.ids],
            counters: (0..problem.ids as u64).collect(),
            share: 1.0,
        };
        let policy = SearchPolicy::new(rows, vec![fold], Vec::new(), (&at(2).device, u64::MAX)).unwrap();
        // In sample too, where rows within the horizon are not drawn.
        let decided = (1000..1040).chain(1950..2050).map(|row: u32| {
            let mut actions = [Action::target(f64::NAN)];
            let view = View {
                rows: &[row],
                slots: &[0],
                observed: &[0.0; OBSERVED],
                legal: &[true; 3],
                counter: 0,
                seed: None,
            };
            policy.act(&view, &mut [], &mut actions).unwrap();
            actions[0].target
        });
        decided.collect()
    };
    let clean = decisions(&problem, &data);
    assert!([-1.0, 0.0, 1.0].iter().filter(|a| clean.contains(a)).count() > 1, "{clean:?}");
    let (other, prices) = poisoned(&problem, &data, 2000);
    let after = decisions(&other, &prices);
    assert_eq!(after[..90], clean[..90], "a bar behind row 1999 changes a decision at it or before");
    assert_ne!(after[90..], clean[90..], "the test can fail");
}

/// A card, where there is one.
fn on_card() -> Option<DeviceBudget> {
    card().map(|device| DeviceBudget { device, budget: Budget::default() })
}

/// As on the processor, with all members of all roots in one search.
#[test]
fn experts_find_on_a_card_what_is_there() {
    let Some(device) = on_card() else { return };
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    for net in ["16t-16t | 16t-16t / policy:3 | value:1", "300 / policy:3 + value:1"] {
        let mut spec = spec(hypers(), 12);
        spec.policies.configs[0].net = format!("row:2 + account:dense8 / {net}").parse().unwrap();
        spec.policies.configs[0].rate = if net.contains('|') { 3e-3 } else { 1e-3 };
        let expert = Expert::new(&problem, &data, &folds, spec).unwrap();
        let possible = 16.0 - 1.0;
        for member in run_at(&expert, &device, None).members {
            let best = member.best.as_ref().expect("a best").score;
            assert!(best > 0.8 * possible, "{net} with search: {best} of {possible} bp");
            let alone = metric(&member, "net_growth");
            assert!(alone > 0.8 * possible, "{net} alone: {alone} of {possible} bp");
        }
    }
}

#[test]
fn experts_have_the_same_bits_on_a_card_and_after_a_stop() {
    let Some(device) = on_card() else { return };
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let trend = Trend { columns: vec![0], weight: 0.5, inverted: false };
    let expert = Expert::new(&problem, &data, &folds, Spec { trend, ..spec(hypers(), 4) }).unwrap();
    let whole = bits(&run_at(&expert, &device, None));
    assert_eq!(bits(&run_at(&expert, &device, None)), whole);
    for stop_at in 1..4u32 {
        let state = stopped(&expert, &device, stop_at);
        assert_eq!(bits(&run_at(&expert, &device, Some(state))), whole, "stopped after {stop_at}");
    }
}

#[test]
fn what_lies_behind_the_training_part_changes_no_weight_on_a_card() {
    let Some(device) = on_card() else { return };
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let last = |problem: &Arc<Problem>, data: &Arc<EpisodeData>| -> Vec<Vec<f32>> {
        let expert = Expert::new(problem, data, &folds, spec(hypers(), 3)).unwrap();
        let members = run_at(&expert, &device, None).members;
        members.into_iter().map(|member| member.last.expect("ended").params).collect()
    };
    let clean = last(&problem, &data);
    let (other, prices) = poisoned(&problem, &data, 1801);
    assert_eq!(last(&other, &prices), clean);
    let (other, prices) = poisoned(&problem, &data, 1500);
    assert_ne!(last(&other, &prices), clean, "the test can fail");
}

/// Whatever the number of its folds, a policy has one set of trees, and the plan counted more than that.
#[test]
fn a_policy_of_eight_folds_has_the_trees_of_one() {
    const FOLDS: usize = 8;
    let (problem, data, folds) = market(3, 0.9, 1e-4);
    let shape =
        SearchShape { simulations: 24, scenarios: 64, codes: 16, horizon: 4, roots: 24, rule: Default::default() };
    let expert = Expert::new(&problem, &data, &folds, spec(Hypers { search: shape, ..hypers() }, 1)).unwrap();
    let (net, market) = (expert.configs()[0].net.clone(), expert.market(0).unwrap());
    let params = vec![vec![0.01; compute::net::Layout::new(&net).unwrap().params]; 2];
    let fold = |number: usize| SearchFold {
        policy: FoldPolicy {
            net: net.clone(),
            scales: expert.scalers()[0].scales_of(&net),
            members: params.clone(),
            seeds: vec![0, 1],
            flat: 0,
        },
        market: Some(Arc::clone(&market)),
        // Two shapes: trees of a fold are those of the fold before it, or take their place.
        shape: SearchShape { simulations: if number < 6 { 24 } else { 12 }, ..shape },
        precision: Precision::F32,
    };
    let threads = 3;
    let policy = |most: u64| {
        let rows = SearchRows {
            problem: Arc::clone(&problem),
            data: Arc::clone(&data),
            fold_of: (0..problem.ids).map(|row| Some((row * FOLDS / problem.ids) as u16)).collect(),
            counters: (0..problem.ids as u64).collect(),
            share: 1.0,
        };
        SearchPolicy::new(rows, (0..FOLDS).map(fold).collect(), Vec::new(), (&at(threads).device, most))
    };
    let needed = shape.need(threads).unwrap();
    let all = policy(needed).unwrap();
    assert_eq!(all.tree_bytes(), 0);
    let mut seen = Vec::new();
    for number in 0..FOLDS {
        let row = (number * problem.ids / FOLDS + 20) as u32;
        let view = View {
            rows: &[row],
            slots: &[0],
            observed: &[0.0; OBSERVED],
            legal: &[true; 3],
            counter: number as u64,
            seed: None,
        };
        let mut actions = [Action::target(f64::NAN)];
        all.act(&view, &mut [], &mut actions).unwrap();
        assert!(actions[0].target.is_finite());
        seen.push(all.tree_bytes());
    }
    assert!(seen.iter().all(|bytes| *bytes > 0 && *bytes <= needed), "{seen:?} of {needed}");
    let key = MemberKey { config: 0, fold: 0, seed: 0 };
    assert!(expert.needs(&at(threads).device, &[key], compute::population::Pace::default()).unwrap() > needed);
    let Err(error) = policy(needed - 1) else { panic!("more than the memory that was given") };
    assert!(error.to_string().contains("fewer simulations, scenarios or codes"), "{error}");
}

/// A search that reaches behind the end of its model's training ends with an error, as on a card.
#[test]
fn who_reaches_behind_the_training_part_is_refused() {
    let (problem, data, folds) = market(3, 0.8, 1e-4);
    let expert = Expert::new(&problem, &data, &folds, spec(hypers(), 1)).unwrap();
    let rows = expert.market(0).unwrap();
    let last = rows.rows() as u32 - 1;
    let probe = |row: u32| rows.bootstrap().expect("as set").rows().probe(row);
    assert_eq!(probe(last), 1799);
    assert!(trained(&expert).is_ok());
    assert_eq!(probe(last + 7), 1799);
    let error = trained(&expert).expect_err("reached behind");
    assert!(error.to_string().contains("behind the end of its model's training"), "{error}");
}

fn trained(expert: &Expert) -> files::Result<learn::Outcome> {
    let plan = Plan::new(expert, &at(2)).unwrap();
    let hooks = &mut Hooks { event: &mut |_| {}, stop: &|| false, save: &mut |_| Ok(()), every: 0 };
    learn::train(expert, &plan, &at(2), None, hooks)
}
