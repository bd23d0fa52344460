//! What an honest search must and must not find, in worlds whose laws are known.
//!
//! Zero drift: nothing is to be found, so nothing is traded and nothing is promised. Two regimes: the best policy is
//! known, and a search comes near it and never promises more. A model that is told what comes fails all of it.

use crate::worlds::*;
use account::Account;
use compute::Result;
use search::{Evaluate, Mode, Outcomes, Root, RootRule, Search, Settings, World};

const FLAT_LAW: Regimes = Regimes { drift: 0.0, deviation: 1e-3, stay: 0.5, leak: false };
const LAW: Regimes = Regimes { drift: 8e-4, deviation: 1e-3, stay: 0.9, leak: false };

const HONEST: Mode = Mode::Honest { in_flight: 1 };

fn settings(scenarios: usize, simulations: u32) -> Settings {
    let rule = RootRule::Gumbel { considered: 16, scale: 0.0 };
    Settings { scenarios, simulations, depth: 4, codes: 16, rule, mode: HONEST, seed: 9 }
}

fn search<E: Evaluate + Clone>(
    law: Regimes,
    settings: &Settings,
    evaluator: E,
    known: Vec<Root<search::InfoSet>>,
) -> Outcomes {
    let world = world(law);
    let mut search = Search::new(&world, settings, 2, u64::MAX).unwrap();
    search.run(&world, &mut [evaluator.clone(), evaluator], &known).unwrap()
}

fn flat() -> Account {
    Account::new(&params())
}

/// As many simulations, and as far ahead, as a user may set.
fn large(scenarios: usize) -> Settings {
    Settings { simulations: 256, depth: 8, ..settings(scenarios, 1) }
}

fn with_puct(settings: Settings) -> Settings {
    Settings { rule: RootRule::PUCT, ..settings }
}

/// Several simulations of a root at once.
fn in_flight(settings: Settings) -> Settings {
    Settings { mode: Mode::Honest { in_flight: 6 }, ..settings }
}

/// Share of roots that trade, and the mean of what they promise with its standard error.
fn zero_drift(leak: bool, settings: &Settings, roots: usize) -> (f64, f64, f64) {
    let path = path(FLAT_LAW, 11, roots + 1);
    let known =
        |i: usize| Root { known: known(path[i].0, flat(), 100.0, (path[i].1, path[i + 1].0)), counter: i as u64 };
    let law = Regimes { leak, ..FLAT_LAW };
    let seen = search(law, settings, Hold(Some(FLAT_LAW)), (0..roots).map(known).collect());
    let trades = seen.chosen.iter().zip(&seen.held).filter(|(chosen, held)| chosen != held).count();
    let (value, error) = mean(&seen.value.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>());
    (trades as f64 / roots as f64, value, error)
}

#[test]
fn nothing_is_traded_where_there_is_no_drift() {
    for (own, roots) in [
        (settings(512, 8), 10_000),
        (settings(64, 8), 10_000),
        (large(64), 2000),
        (with_puct(settings(64, 24)), 2000),
        (in_flight(settings(64, 24)), 2000),
    ] {
        let (trades, value, error) = zero_drift(false, &own, roots);
        assert!(trades <= 0.01, "{own:?}: {trades} of the roots trade");
        assert!(value <= 2.0 * error, "{own:?}: {value} ± {error} is promised");
    }
}

/// One bar ahead of a flat account in a bootstrap of `rows` rows of a walk without drift.
fn one_bar_ahead(seed: u64, rows: usize, scenarios: usize, cost: f64, roots: u64) -> Outcomes {
    one_bar_ahead_of(seed, rows, 0, scenarios, cost, roots)
}

/// The same where the first `hidden` rows may not be drawn.
fn one_bar_ahead_of(seed: u64, rows: usize, hidden: u32, scenarios: usize, cost: f64, roots: u64) -> Outcomes {
    let world = world_of(bootstrap(FLAT_LAW, seed, rows));
    let root = |counter: u64| {
        let mut known = known(0.5, flat(), 100.0, (0.0, 0.0));
        (known.params.fee, known.excluded) = (cost, 0..hidden);
        Root { known, counter }
    };
    let roots: Vec<Root<search::InfoSet>> = (0..roots).map(root).collect();
    let mut search = Search::new(&world, &Settings { depth: 1, ..settings(scenarios, 1) }, 1, u64::MAX).unwrap();
    search.run(&world, &mut [Hold(None)], &roots).unwrap()
}

/// The best of what a root's scenarios say.
fn best_of(q: &[f32]) -> usize {
    (0..3).fold(1, |best, a| if q[a] > q[best] { a } else { best })
}

#[test]
fn many_draws_of_few_rows_are_no_reason_to_trade() {
    // A hundred rows of each market have a drift that is theirs alone, and 512 scenarios say so again and again.
    let markets = 400;
    let (mut trades, mut best) = (0, 0);
    for seed in 0..markets {
        let seen = one_bar_ahead(1000 + seed, 101, 512, 1.5e-4, 1);
        trades += usize::from(seen.chosen[0] != seen.held[0]);
        best += usize::from(best_of(&seen.q) != usize::from(seen.held[0]));
    }
    assert!(trades <= 4, "{trades} of {markets} roots trade");
    assert!(best > 40, "{best} of {markets} would trade by the mean of their scenarios: the gate can fail");
}

#[test]
fn draws_of_one_row_are_never_sure() {
    for seed in 0..20 {
        let of_last = |rows: u32, scenarios| one_bar_ahead_of(seed, 101, 101 - rows, scenarios, 0.0, 1);
        for scenarios in [2, 64, 600] {
            let seen = of_last(1, scenarios);
            assert!(seen.q[0] != 0.0 && seen.advantage[0] > 0.0, "there is something to take");
            assert_eq!((seen.chosen[0], seen.held[0], seen.error[0]), (1, 1, f32::INFINITY), "{scenarios}");
            let third = seen.policy.iter().all(|p| (p - 1.0 / 3.0).abs() < 1e-6);
            assert!(third, "{scenarios}: the prior is left as it is: {:?}", seen.policy);
        }
        let seen = of_last(10, 600);
        assert!(seen.error[0].is_finite() && seen.policy[1] < 0.4, "ten rows say something: {:?}", seen.policy);
    }
}

#[test]
fn the_policy_counts_a_row_that_is_drawn_often_once() {
    // By how many standard errors the policy of a market without drift says that long is better than flat.
    let markets = 400;
    let squares: Vec<f64> = (0..markets)
        .map(|seed| {
            let policy = one_bar_ahead(2000 + seed, 101, 512, 0.0, 1).policy;
            f64::from(policy[2] / policy[1]).ln().powi(2)
        })
        .collect();
    let (square, error) = mean(&squares);
    assert!((0.7..1.5).contains(&square), "{square} ± {error}, where independent draws have 1");
}

#[test]
fn enough_scenarios_are_those_of_different_rows() {
    let chosen_by_all = |rows: usize, scenarios: usize| {
        let seen = one_bar_ahead(5, rows, scenarios, 0.0, 20);
        let own = seen.q.chunks_exact(3).zip(&seen.chosen);
        own.filter(|(q, chosen)| best_of(q) == usize::from(**chosen)).count()
    };
    // Without a cost one side is always the better one by a little: 600 draws of 20,000 rows are enough to take it, but
    // neither 600 draws of 1,000 rows nor 512 of 20,000, some of which come twice.
    assert_eq!(chosen_by_all(20_001, 600), 20);
    assert!(chosen_by_all(1001, 600) < 20 && chosen_by_all(20_001, 512) < 20);
}

#[test]
fn a_model_that_is_told_what_comes_trades_where_there_is_no_drift() {
    let (trades, value, error) = zero_drift(true, &settings(512, 8), 500);
    assert!(trades > 0.2 && value > 10.0 * error, "{trades} {value} {error}");
}

/// The values of a table.
#[derive(Clone, Copy)]
struct Worth(Values);

impl Evaluate for Worth {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        logits.fill(0.0);
        for (shown, value) in shown.chunks_exact(2).zip(values) {
            *value = self.0[usize::from(shown[0] > 0.0)][(shown[1] + 1.0) as usize] as f32;
        }
        Ok(())
    }
}

/// Roots of every sign and position, `each` of them.
fn all_states(each: usize) -> Vec<Root<search::InfoSet>> {
    let path = path(LAW, 21, 40 * each);
    let mut roots = Vec::new();
    for (x, p) in (0..2).flat_map(|x| (0..3).map(move |p| (x, p))) {
        // Places of the path with this sign, and what really followed them.
        let places = path.windows(2).filter(|pair| pair[0].0 == sign_of(x)).take(each);
        for pair in places {
            let counter = roots.len() as u64;
            let position = p as f64 - 1.0;
            roots.push(Root { known: known(sign_of(x), account(position), 100.0, (pair[0].1, pair[1].0)), counter });
        }
    }
    roots
}

/// What the policy of a search is worth beside the best, in the mean over signs and positions.
fn share_of_optimum(seen: &Outcomes, each: usize) -> f64 {
    let mut policy = [[[0.0; 3]; 3]; 2];
    for (i, action) in seen.chosen.iter().enumerate() {
        policy[i / each / 3][i / each % 3][usize::from(*action)] += 1.0 / each as f64;
    }
    let sum = |values: Values| values.iter().flatten().sum::<f64>();
    sum(worth_of(LAW, &policy)) / sum(optimum(LAW))
}

#[test]
fn the_best_policy_of_two_regimes_is_found_from_the_value_of_doing_nothing() {
    let each = 60;
    let gumbel = settings(64, 24);
    let (puct, batched) = (with_puct(gumbel.clone()), in_flight(gumbel.clone()));
    let reference = Settings { mode: Mode::Reference, simulations: 256, ..gumbel.clone() };
    for settings in [gumbel, puct, batched, reference, large(64)] {
        let seen = search(LAW, &settings, Hold(Some(LAW)), all_states(each));
        let share = share_of_optimum(&seen, each);
        assert!((0.98..=1.0 + 1e-9).contains(&share), "{settings:?}: {share} of the optimum");
    }
    // Never doing anything is worth much less: the gate can fail.
    let lazy = Outcomes { chosen: (0..6 * each).map(|i| (i / each % 3) as u8).collect(), ..Outcomes::default() };
    assert!(share_of_optimum(&lazy, each) < 0.5);
}

/// By how many standard errors a search promises more than the optimum, at most over signs and positions.
fn most_above_optimum(leak: bool, settings: &Settings, each: usize) -> f64 {
    let best = optimum(LAW);
    let law = Regimes { leak, ..LAW };
    let seen = search(law, settings, Worth(best), all_states(each));
    let above = |state: usize| {
        let own: Vec<f64> = seen.value[state * each..(state + 1) * each].iter().map(|v| f64::from(*v)).collect();
        let (value, error) = mean(&own);
        (value - best[state / 3][state % 3]) / error
    };
    (0..6).map(above).fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn no_more_than_the_optimum_is_promised() {
    let own = settings(64, 24);
    for (own, each) in [(own.clone(), 400), (large(64), 200), (with_puct(own.clone()), 200), (in_flight(own), 200)] {
        let above = most_above_optimum(false, &own, each);
        assert!(above < 2.0, "{own:?}: {above} standard errors above the optimum");
    }
}

#[test]
fn a_model_that_is_told_what_comes_promises_more_than_the_optimum() {
    let above = most_above_optimum(true, &settings(64, 24), 400);
    assert!(above > 4.0, "{above} standard errors above the optimum");
}

/// Slope of what honest searches earn on what was promised, and its standard error. A model that leaks promises by what
/// it is told of another path: what it was told while it was made is not known where it is used.
fn calibration(leak: bool) -> (f64, f64) {
    let (paths, steps) = (600, 60);
    let law = Regimes { deviation: 3e-4, ..LAW };
    let (model, settings) = (world(law), settings(32, 6));
    let evaluator = Worth(optimum(law));
    let mut search = Search::new(&model, &settings, 2, u64::MAX).unwrap();
    let real: Vec<Vec<(f64, f64)>> =
        (0..paths).map(|i| path(law, 1000 + i as u64, 40 + steps + 1)[40..].to_vec()).collect();
    let mut accounts: Vec<Account> = (0..paths).map(|i| account((i % 3) as f64 - 1.0)).collect();
    let mut closes = vec![100.0; paths];
    let (mut promised, mut earned, mut weight) = (Vec::new(), vec![0.0; paths], 1.0);
    for step in 0..steps {
        let root = |i: usize| {
            let other = &real[(i + paths / 2) % paths];
            let known = known(real[i][step].0, accounts[i], closes[i], (other[step].1, other[step + 1].0));
            Root { known, counter: (step * paths + i) as u64 }
        };
        let roots: Vec<_> = (0..paths).map(root).collect();
        let seen = search.run(&model, &mut [evaluator, evaluator], &roots).unwrap();
        if step == 0 {
            let told = world(Regimes { leak: true, ..law });
            let mut leaks = || search.run(&told, &mut [evaluator, evaluator], &roots).unwrap();
            let promises = if leak { leaks() } else { seen.clone() };
            promised = promises.value.iter().map(|v| f64::from(*v)).collect();
        }
        for i in 0..paths {
            let (now, next) = (account::Bar::flat(closes[i]), bar_behind(closes[i], real[i][step].1));
            let order = account::Action::target(f64::from(seen.chosen[i]) - 1.0);
            earned[i] += weight * account::step(&params(), &mut accounts[i], order, &now, &next).reward;
            closes[i] = next.close;
        }
        weight *= DISCOUNT;
    }
    let (x, y) = (mean(&promised).0, mean(&earned).0);
    let sum = |f: &dyn Fn(usize) -> f64| (0..paths).map(f).sum::<f64>();
    let spread = sum(&|i| (promised[i] - x).powi(2));
    let slope = sum(&|i| (promised[i] - x) * (earned[i] - y)) / spread;
    let left = sum(&|i| (earned[i] - y - slope * (promised[i] - x)).powi(2));
    (slope, (left / (paths as f64 - 2.0) / spread).sqrt())
}

#[test]
fn what_is_promised_is_what_is_earned() {
    let (slope, error) = calibration(false);
    assert!(error < 0.2, "undetermined: {slope} ± {error}");
    assert!((0.5..=1.5).contains(&slope), "{slope} ± {error}");
}

#[test]
fn a_model_that_was_told_what_comes_promises_what_is_not_earned() {
    let (slope, error) = calibration(true);
    assert!(error < 0.2, "undetermined: {slope} ± {error}");
    assert!(slope + 2.0 * error < 0.5, "{slope} ± {error}");
}

#[test]
fn noise_moves_the_policy_less_than_a_signal() {
    // Actions are alike to the prior. Without drift and costs the values of long and short are noise alone.
    let roots = |cost: f64| {
        let root = |i: u64| {
            let mut known = known(1.0, flat(), 100.0, (0.0, 1.0));
            known.params.fee = cost;
            Root { known, counter: i }
        };
        (0..400).map(root).collect::<Vec<_>>()
    };
    let mean_of = |seen: &Outcomes, action: usize| {
        mean(&seen.policy.chunks_exact(3).map(|p| f64::from(p[action])).collect::<Vec<f64>>()).0
    };
    let largest = |seen: &Outcomes| {
        let most = |p: &[f32]| f64::from(p.iter().copied().fold(0.0, f32::max));
        mean(&seen.policy.chunks_exact(3).map(most).collect::<Vec<f64>>()).0
    };
    let noise = search(FLAT_LAW, &settings(64, 8), Hold(None), roots(0.0));
    assert!(largest(&noise) < 0.65, "{}", largest(&noise));
    let costly = search(FLAT_LAW, &settings(64, 8), Hold(None), roots(COST));
    assert!(mean_of(&costly, 1) > 0.9, "{}", mean_of(&costly, 1));
    let signal = search(LAW, &settings(64, 8), Hold(Some(LAW)), roots(COST));
    assert!(mean_of(&signal, 2) > 0.95, "{}", mean_of(&signal, 2));
}

#[test]
fn what_may_not_be_held_is_given_up() {
    // Long, and at the next open nobody may hold anything: nothing is sure, and flat is what is left.
    let mut known = known(1.0, account(1.0), 100.0, (0.0, 1.0));
    known.bar.flat_next = 1.0;
    let seen = search(FLAT_LAW, &settings(8, 4), Hold(None), vec![Root { known, counter: 1 }]);
    assert_eq!((seen.chosen[0], seen.held[0], seen.visits[2]), (1, 2, 0));
}

#[test]
fn markets_are_shared_by_all_actions() {
    // Whatever was decided, the same codes are drawn: with no costs, long and short mirror each other.
    let world = world(FLAT_LAW);
    let root = Root { known: known(1.0, flat(), 100.0, (0.0, 1.0)), counter: 3 };
    let mut search = Search::new(&world, &settings(256, 3), 1, u64::MAX).unwrap();
    let seen = search.run(&world, &mut [Hold(None)], &[root]).unwrap();
    let (short, long) = (seen.q[0] + COST as f32, seen.q[2] + COST as f32);
    assert!((short + long).abs() < 3e-6 && seen.q[1] == 0.0, "{short} {long}");
    assert_eq!(world.actions(), 3);
}
