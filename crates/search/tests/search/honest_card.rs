//! The honest mode on a card beside that of the processor, and its gates there. Without a card they skip aloud.

use crate::card::{alike, bf16, card, drawn};
use crate::worlds::*;
use account::{Account, Bar, Params};
use compute::cuda::Context;
use compute::net::{Layout, init};
use compute::population::Precision;
use compute::{Net, Result};
use search::cuda::{HonestModel, HonestModels, HonestRoot, HonestSearch};
use search::{
    Bootstrap, Evaluate, InfoSet, MarketWorld, Mode, NetEvaluator, Outcomes, Root, RootRule, Rows, Search, Settings,
    TrainingRow, show_account,
};
use std::sync::Arc;

const FEATURES: usize = 5;
const INPUTS: usize = FEATURES + 8;
const GAMMA: f32 = 0.97;

fn settings(rule: RootRule, (simulations, scenarios, codes, depth): (u32, usize, usize, u32)) -> Settings {
    Settings { simulations, depth, codes, scenarios, rule, mode: Mode::Honest { in_flight: 1 }, seed: 77 }
}

/// A market with everything that a bar can have: gaps, splits, flows, sessions that end, volatility that changes.
fn rows(key: u64, n: u32) -> (Vec<f32>, Vec<TrainingRow>) {
    let number = |row: u32, column: u32| drawn(key, row * 16 + column);
    let (mut observations, mut rows, mut close, mut sign) = (Vec::new(), Vec::new(), 100.0f64, 1.0);
    for clock in 0..n {
        let sigma = 0.01 * f64::from(1.5 + number(clock / 50, 0));
        let split = if clock % 97 == 50 { 2.0 } else { 1.0 };
        let open = close / split * (1.0 + 0.3 * sigma * f64::from(number(clock, 1)));
        close = open * (1.0 + sigma * (f64::from(number(clock, 2)) + 0.4 * sign));
        let bar = Bar {
            open,
            close,
            high: open.max(close) * 1.002,
            low: open.min(close) * 0.998,
            fx_open: 1.0 + 0.01 * f64::from(number(clock, 3)),
            fx_close: 1.0 + 0.01 * f64::from(number(clock, 4)),
            split,
            dividend: if clock % 60 == 3 { 0.01 * close } else { 0.0 },
            swap_open: 1.0 / 252.0,
            borrow_open: 1.0 / 252.0,
            sigma,
            volume: 1e6,
            half_spread: 1e-4,
            flat_next: f64::from(u8::from(clock % 40 == 39)),
            ..Bar::flat(close)
        };
        sign = if number(clock, 5) > 0.0 { 1.0 } else { -1.0 };
        observations.extend([sign as f32, number(clock, 6), number(clock, 7), number(clock, 8), sigma as f32 * 100.0]);
        let time = [clock as f32 % 40.0 / 40.0, 39.0 - clock as f32 % 40.0];
        rows.push(TrainingRow { bar, time, clock, continues: clock % 200 != 199 });
    }
    (observations, rows)
}

fn model(key: u64, n: u32) -> Bootstrap {
    let (observations, rows) = rows(key, n);
    Bootstrap::new(Rows::cut(&observations, FEATURES, &rows, |_| true).unwrap()).unwrap()
}

/// Roots with accounts of every kind, with and without rows that may not be drawn.
fn roots(key: u64, n: u32) -> Vec<Root<InfoSet>> {
    let (observations, rows) = rows(key, 300);
    let root = |i: u32| {
        let at = (i * 13 % 250 + 5) as usize;
        let params = Params {
            fee: 5e-4,
            shortable: !i.is_multiple_of(5),
            owned: i.is_multiple_of(3),
            borrow: 0.03,
            swap_long: 0.02,
            impact: 0.5,
            lot: if i.is_multiple_of(7) { 1.0 } else { 0.0 },
            ..Params::default()
        };
        let mut account = Account::new(&params);
        for step in 0..i % 4 {
            let action = account::Action::target(f64::from(i % 3) - 1.0);
            let at = at + step as usize - 4;
            account::step(&params, &mut account, action, &rows[at].bar, &rows[at + 1].bar);
        }
        // Some hide whole cells, and some all rows but fifty.
        let excluded = match i % 6 {
            0 | 2 => 20 * (i % 11)..20 * (i % 11) + 90,
            4 => 0..350,
            _ => 0..0,
        };
        let known = InfoSet {
            observation: observations[at * FEATURES..(at + 1) * FEATURES].to_vec(),
            bar: rows[at].bar,
            time: rows[at].time,
            params,
            account,
            excluded,
        };
        Root { known, counter: u64::from(i) * 0x1_0000_0001 }
    };
    (0..n).map(root).collect()
}

/// Sums in order, as `plain_net` has them; values in a unit.
struct Plain<'a>(&'a [f32], f32);

impl Evaluate for Plain<'_> {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        for ((shown, logits), value) in shown.chunks_exact(INPUTS).zip(logits.chunks_exact_mut(3)).zip(values) {
            let sum = |output: usize| {
                let own = self.0[output * INPUTS..].iter().zip(shown);
                own.fold(0.0f32, |sum, (w, x)| sum + w * x)
            };
            logits.iter_mut().enumerate().for_each(|(output, z)| *z = sum(output));
            *value = sum(3) * self.1;
        }
        Ok(())
    }
}

fn as_roots(roots: &[Root<InfoSet>], of: impl Fn(usize) -> (usize, usize)) -> Vec<HonestRoot<'_>> {
    let root = |(i, root): (usize, _)| HonestRoot { root, model: of(i).0, net: of(i).1, prior: [0.0; 3] };
    roots.iter().enumerate().map(root).collect()
}

fn on_card(context: &Arc<Context>, all: &[HonestModel<'_>]) -> Arc<HonestModels> {
    Arc::new(HonestModels::new(context, all).unwrap())
}

/// Everything but the policy, which has an exponential in it, to the bit.
fn same(own: &Outcomes, other: &Outcomes, what: &str) {
    assert_eq!(own.visits, other.visits, "{what}: visits");
    assert_eq!((&own.chosen, &own.held), (&other.chosen, &other.held), "{what}: choices");
    for (name, a, b) in [
        ("q", &own.q, &other.q),
        ("value", &own.value, &other.value),
        ("advantage", &own.advantage, &other.advantage),
        ("error", &own.error, &other.error),
    ] {
        let differ = a.iter().zip(b).position(|(a, b)| a != b && !(a.is_nan() && b.is_nan()));
        assert!(differ.is_none(), "{what}: {name} {differ:?}: {:?}", differ.map(|at| (a[at], b[at])));
    }
    for (a, b) in own.policy.iter().zip(&other.policy) {
        assert!((a - b).abs() <= 1e-6, "{what}: policy {a} beside {b}");
    }
}

#[test]
fn an_honest_search_on_a_card_has_the_processors_bits() {
    let Some(context) = card() else { return };
    let (first, second) = (model(1, 900), model(2, 400));
    let units = [0.02, 0.5];
    let models = on_card(
        &context,
        &[HonestModel { model: &first, unit: units[0] }, HonestModel { model: &second, unit: units[1] }],
    );
    let worlds = [first, second].map(|model| MarketWorld::new(model, GAMMA, show_account, 8));
    let weights: Vec<f32> = (0..4 * INPUTS as u32).map(|i| 0.7 * drawn(31, i)).collect();
    let (gumbel, puct) = (RootRule::GUMBEL, RootRule::PUCT);
    for (rule, shape, n) in [
        (gumbel, (16, 64, 16, 8), 70),
        (puct, (24, 32, 16, 3), 40),
        (gumbel, (40, 7, 3, 2), 33),
        (gumbel, (9, 512, 8, 4), 9),
        (puct, (5, 2, 1, 1), 3),
        (gumbel, (64, 20, 33, 6), 5),
        (RootRule::Gumbel { considered: 2, scale: 0.0 }, (30, 48, 16, 5), 20),
    ] {
        let settings = settings(rule, shape);
        let all = roots(1, n);
        let mut on_card = HonestSearch::plain(&models, &weights, &settings, GAMMA, all.len()).unwrap();
        let own = [0, 1].map(|m| on_card.run(&as_roots(&all, |_| (m, 0))).unwrap());
        for (m, world) in worlds.iter().enumerate() {
            let mut search = Search::new(world, &settings, 1, u64::MAX).unwrap();
            let other = search.run(world, &mut [Plain(&weights, units[m])], &all).unwrap();
            same(&own[m], &other, &format!("{settings:?}, model {m}"));
        }
        // Roots of both models in one search, in several goes.
        let mixed = on_card.run(&as_roots(&all, |i| (i % 2, 0))).unwrap();
        let mut few = HonestSearch::plain(&models, &weights, &settings, GAMMA, 4).unwrap();
        assert_eq!(few.run(&as_roots(&all, |i| (i % 2, 0))).unwrap(), mixed);
        for i in 0..all.len() {
            assert_eq!((mixed.value[i], mixed.visits[3 * i]), (own[i % 2].value[i], own[i % 2].visits[3 * i]));
        }
    }
}

fn net(text: &str, seed: u64) -> (Net, Vec<f32>) {
    let net: Net = format!("all:{FEATURES} + account:dense8 / {text}").parse().unwrap();
    let mut params = init(&Layout::new(&net).unwrap(), seed, 0);
    params.iter_mut().for_each(|w| *w = bf16(*w));
    (net, params)
}

#[test]
fn few_and_many_different_rows_have_the_processors_bits_on_a_card() {
    let world = MarketWorld::new(model(3, 30_000), GAMMA, show_account, 8);
    let weights: Vec<f32> = (0..4 * INPUTS as u32).map(|i| 0.7 * drawn(31, i)).collect();
    // Many scenarios of all rows, of which more than 512 are different, and few of the last rows: one, two and more. Up
    // to where rows may not be drawn.
    let cases = [
        ((4, 2500, 4, 2), &[0][..]),
        ((4, 1500, 4, 2), &[0, 29_000]),
        ((4, 64, 4, 2), &[29_999, 29_998, 29_997]),
        ((4, 7, 4, 2), &[29_999, 29_998, 29_990]),
    ];
    let found: Vec<(Settings, Vec<Root<InfoSet>>, Outcomes)> = cases
        .into_iter()
        .map(|(shape, hidden)| {
            let (settings, mut all) = (settings(RootRule::GUMBEL, shape), roots(1, 12));
            let own = all.iter_mut().zip(hidden.iter().cycle());
            own.for_each(|(root, hidden)| root.known.excluded = 0..*hidden);
            let mut search = Search::new(&world, &settings, 1, u64::MAX).unwrap();
            let found = search.run(&world, &mut [Plain(&weights, 0.02)], &all).unwrap();
            for (root, error) in all.iter().zip(&found.error) {
                assert!(error.is_infinite() || root.known.excluded.end < 29_998, "{settings:?}: {error}");
            }
            (settings, all, found)
        })
        .collect();
    let (_, all, many) = &found[0];
    for (i, root) in all.iter().enumerate() {
        let open = root.known.bar.flat_next == 0.0;
        let is_legal = |a: usize| a == 1 || open && (a == 2 || root.known.params.shortable);
        let held = usize::from(many.held[i]);
        let (q, first) = (&many.q[3 * i..3 * i + 3], if is_legal(held) { held } else { 1 });
        let wanted = (0..3).filter(|a| is_legal(*a)).fold(first, |best, a| if q[a] > q[best] { a } else { best });
        assert_eq!(usize::from(many.chosen[i]), wanted, "root {i}: all scenarios choose");
    }
    let Some(context) = card() else { return };
    let models = on_card(&context, &[HonestModel { model: world.model(), unit: 0.02 }]);
    for (settings, all, other) in &found {
        let mut on_card = HonestSearch::plain(&models, &weights, settings, GAMMA, all.len()).unwrap();
        same(&on_card.run(&as_roots(all, |_| (0, 0))).unwrap(), other, &format!("{settings:?}"));
    }
}

#[test]
fn where_no_row_is_left_a_search_on_a_card_is_an_error() {
    let Some(context) = card() else { return };
    let own = model(1, 500);
    let models = on_card(&context, &[HonestModel { model: &own, unit: 1.0 }]);
    let settings = settings(RootRule::GUMBEL, (4, 8, 4, 2));
    let mut search = HonestSearch::plain(&models, &[0.1; 4 * INPUTS], &settings, GAMMA, 3).unwrap();
    let mut all = roots(1, 3);
    search.run(&as_roots(&all, |_| (0, 0))).unwrap();
    all[1].known.excluded = 0..u32::MAX;
    let error = search.run(&as_roots(&all, |_| (0, 0))).unwrap_err().to_string();
    let world = MarketWorld::new(own, GAMMA, show_account, 8);
    let mut on_processor = Search::new(&world, &settings, 1, u64::MAX).unwrap();
    let other = on_processor.run(&world, &mut [Plain(&[0.1; 4 * INPUTS], 1.0)], &all);
    let other = other.and_then(|_| world.model().rows().check_drawn());
    assert_eq!(error, other.unwrap_err().to_string());
}

#[test]
fn what_may_not_be_held_is_given_up_on_a_card() {
    let Some(context) = card() else { return };
    let law = Regimes { drift: 0.0, deviation: 1e-3, stay: 0.5, leak: false };
    let own = law_rows(law, 5000, true);
    let models = on_card(&context, &[HonestModel { model: &own, unit: 1.0 }]);
    // Long, and at the next open nobody may hold anything: nothing is sure, and flat is what is left.
    let mut known = known(1.0, account(1.0), 100.0, (0.0, 1.0));
    known.bar.flat_next = 1.0;
    let all = [Root { known, counter: 1 }];
    let settings = settings(RootRule::Gumbel { considered: 3, scale: 0.0 }, (4, 8, 4, 2));
    let mut search = HonestSearch::plain(&models, &[0.0; 4 * 9], &settings, DISCOUNT as f32, 1).unwrap();
    let seen = search.run(&as_roots(&all, |_| (0, 0))).unwrap();
    assert_eq!((seen.chosen[0], seen.held[0], seen.visits[2]), (1, 2, 0));
}

#[test]
fn what_a_wide_net_takes_on_a_card_is_counted() {
    let Some(context) = card() else { return };
    let settings = settings(RootRule::GUMBEL, (4, 8, 4, 2));
    let (net, params) = net("2048-2048 / policy:3 + value:1", 1);
    // As many roots of each net, so that passes take as many rows.
    let need = |nets: usize| HonestSearch::need(&context, &net, nets, FEATURES, &settings, 16 * nets).unwrap();
    let each = 4 * params.len() as u64;
    assert!(need(1) > each && need(4) - need(1) >= 3 * each, "{} {} of {each}", need(1), need(4));
    let own = model(1, 300);
    let models = on_card(&context, &[HonestModel { model: &own, unit: 1.0 }]);
    let search = HonestSearch::new(&models, &net, 2, &settings, GAMMA, 32).unwrap();
    assert_eq!(search.bytes(), need(2));
}

#[test]
fn nets_search_honestly_on_a_card_as_on_the_processor() {
    let Some(context) = card() else { return };
    let own = model(1, 900);
    let models = on_card(&context, &[HonestModel { model: &own, unit: 0.02 }, HonestModel { model: &own, unit: 0.02 }]);
    let world = MarketWorld::new(own, GAMMA, show_account, 8);
    let settings = settings(RootRule::Gumbel { considered: 3, scale: 0.0 }, (16, 64, 16, 8));
    // A trunk, two towers, and a net that goes through products of the library.
    for text in [
        "64-64 / policy:3 + value:1",
        "64t-64t | 64t-64t / policy:3 | value:1",
        "40-24-16 | 96-32-8 / policy:3 | value:1",
        "300-320 / policy:3 + value:1",
    ] {
        let all = roots(1, 200);
        let (net, params) = net(text, 3);
        let mut on_card = HonestSearch::new(&models, &net, 2, &settings, GAMMA, 128).unwrap();
        let (_, others) = self::net(text, 4);
        on_card.set_params(0, &params).unwrap();
        on_card.set_params(1, &others).unwrap();
        let found = [0, 1].map(|n| on_card.run(&as_roots(&all, |_| (n, n))).unwrap());
        for (own, params) in found.iter().zip([params, others]) {
            let mut evaluators = vec![Unit(NetEvaluator::new(&net, &params, Precision::F32).unwrap())];
            let mut search = Search::new(&world, &settings, 1, u64::MAX).unwrap();
            let other = search.run(&world, &mut evaluators, &all).unwrap();
            alike(own, &other, text);
        }
        // A root's bits do not depend on the others, nor on their nets and order.
        let of = |i: usize| (i % 2, (i / 3) % 2);
        let mixed = on_card.run(&as_roots(&all, of)).unwrap();
        for i in 0..all.len() {
            let alone = &found[of(i).1];
            assert_eq!((mixed.value[i], mixed.chosen[i]), (alone.value[i], alone.chosen[i]), "{text}");
            assert_eq!(mixed.visits[3 * i..3 * i + 3], alone.visits[3 * i..3 * i + 3], "{text}");
            assert_eq!(mixed.policy[3 * i..3 * i + 3], alone.policy[3 * i..3 * i + 3], "{text}");
        }
    }
}

struct Unit(NetEvaluator);

impl Evaluate for Unit {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        self.0.evaluate(shown, logits, values)?;
        values.iter_mut().for_each(|value| *value *= 0.02);
        Ok(())
    }
}

#[test]
fn what_lies_behind_a_models_training_changes_nothing_on_a_card() {
    let Some(context) = card() else { return };
    let (mut observations, mut rows) = rows(1, 900);
    let own = Bootstrap::new(Rows::cut(&observations, FEATURES, &rows, |row| row.clock < 500).unwrap()).unwrap();
    // The rows of another model, which lie behind it on the card, and its own later ones: all poisoned.
    observations[500 * FEATURES..].fill(f32::NAN);
    rows[500..].iter_mut().for_each(|row| row.bar = Bar { sigma: f64::NAN, ..Bar::flat(f64::NAN) });
    let poisoned = Bootstrap::new(Rows::cut(&observations, FEATURES, &rows, |row| row.clock < 500).unwrap()).unwrap();
    let mut behind = rows.clone();
    behind.iter_mut().for_each(|row| row.bar = Bar { close: 1e300, ..row.bar });
    let behind =
        Bootstrap::new(Rows::cut(&vec![1e30; 900 * FEATURES], FEATURES, &behind, |row| row.clock < 500).unwrap());
    let settings = settings(RootRule::GUMBEL, (32, 64, 16, 8));
    let all = roots(1, 100);
    let (net, params) = net("64t-64t | 64t-64t / policy:3 | value:1", 3);
    let search = |models: &[HonestModel<'_>]| {
        let mut search = HonestSearch::new(&on_card(&context, models), &net, 1, &settings, GAMMA, 100).unwrap();
        search.set_params(0, &params).unwrap();
        search.run(&as_roots(&all, |_| (0, 0))).unwrap()
    };
    let clean = search(&[HonestModel { model: &own, unit: 0.02 }]);
    let behind = behind.unwrap();
    let other = search(&[HonestModel { model: &poisoned, unit: 0.02 }, HonestModel { model: &behind, unit: 0.02 }]);
    assert_eq!(clean, other, "visits, values and choices, to the bit");
}

#[test]
fn a_row_behind_the_end_is_the_last_and_an_error_on_a_card() {
    let Some(context) = card() else { return };
    let (first, second) = (model(1, 500), model(2, 300));
    let models =
        on_card(&context, &[HonestModel { model: &first, unit: 1.0 }, HonestModel { model: &second, unit: 1.0 }]);
    let settings = settings(RootRule::GUMBEL, (4, 8, 4, 2));
    let mut search = HonestSearch::plain(&models, &[0.1; 4 * INPUTS], &settings, GAMMA, 3).unwrap();
    let all = roots(1, 3);
    assert_eq!((models.probe(0, 17).unwrap(), models.probe(1, 299).unwrap()), (17, 299));
    search.run(&as_roots(&all, |_| (0, 0))).unwrap();
    // Row 500 of the first would be the first of the second.
    assert_eq!(models.probe(0, 500).unwrap(), 499);
    let error = search.run(&as_roots(&all, |_| (0, 0))).unwrap_err().to_string();
    assert!(error.contains("behind the end"), "{error}");
}

/// Rows of a law, with signs as observations; moves of a law without drift come with their opposites.
fn law_rows(law: Regimes, n: usize, mirrored: bool) -> Bootstrap {
    let mut path = path(law, 5, n);
    if mirrored {
        (1..n).step_by(2).for_each(|i| path[i].1 = -path[i - 1].1);
    }
    let (mut close, mut rows, mut observations) = (100.0, Vec::new(), Vec::new());
    let mut before = 0.0;
    for (clock, (sign, moved)) in path.into_iter().enumerate() {
        let bar = bar_behind(close, before);
        (close, before) = (bar.close, moved);
        rows.push(TrainingRow { bar, time: [0.0; 2], clock: clock as u32, continues: true });
        observations.push(sign as f32);
    }
    Bootstrap::new(Rows::cut(&observations, 1, &rows, |_| true).unwrap()).unwrap()
}

#[test]
fn nothing_is_traded_on_a_card_where_there_is_no_drift() {
    let Some(context) = card() else { return };
    let law = Regimes { drift: 0.0, deviation: 1e-3, stay: 0.5, leak: false };
    let own = law_rows(law, 40_000, true);
    let models = on_card(&context, &[HonestModel { model: &own, unit: 1.0 }]);
    let path = path(law, 11, 10_000);
    let flat = Account::new(&params());
    let root =
        |(i, (sign, _)): (usize, &(f64, f64))| Root { known: known(*sign, flat, 100.0, (0.0, 0.0)), counter: i as u64 };
    let all: Vec<Root<InfoSet>> = path.iter().enumerate().map(root).collect();
    for scenarios in [512, 64] {
        let settings = settings(RootRule::Gumbel { considered: 3, scale: 0.0 }, (8, scenarios, 16, 4));
        let mut search = HonestSearch::plain(&models, &[0.0; 4 * 9], &settings, DISCOUNT as f32, 2000).unwrap();
        let seen = search.run(&as_roots(&all, |_| (0, 0))).unwrap();
        let trades = seen.chosen.iter().zip(&seen.held).filter(|(chosen, held)| chosen != held).count();
        let (value, error) = mean(&seen.value.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>());
        assert!(trades <= 100, "{scenarios} scenarios: {trades} of 10,000 roots trade");
        assert!(value <= 2.0 * error, "{scenarios} scenarios: {value} ± {error} is promised");
    }
}

#[test]
fn the_best_policy_of_two_regimes_is_found_on_a_card() {
    let Some(context) = card() else { return };
    let law = Regimes { drift: 8e-4, deviation: 1e-3, stay: 0.9, leak: false };
    let own = law_rows(law, 60_000, false);
    let models = on_card(&context, &[HonestModel { model: &own, unit: 1.0 }]);
    // Position times sign by four rectified sums: what keeping the position is worth.
    let net: Net = "sign:1 + account:dense8 / 4 / policy:3 + value:1".parse().unwrap();
    let layout = Layout::new(&net).unwrap();
    let mut params = vec![0.0; layout.params];
    let (hidden, value) = (&layout.linears[0], &layout.linears[2]);
    let columns: Vec<usize> = hidden.columns.iter().flat_map(|range| range.clone()).collect();
    let fade = DISCOUNT * (2.0 * law.stay - 1.0);
    for (unit, (p, s)) in [(1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)].into_iter().enumerate() {
        params[hidden.weight + unit * hidden.input.width + columns[0]] = s;
        params[hidden.weight + unit * hidden.input.width + columns[1]] = p;
        params[hidden.bias + unit] = -1.0;
        params[value.weight + unit] = (f64::from(p * s) * law.drift / (1.0 - fade)) as f32;
    }
    let each = 60;
    let path = path(law, 21, 40 * each);
    let mut all = Vec::new();
    for (x, p) in (0..2).flat_map(|x| (0..3).map(move |p| (x, p))) {
        for _ in path.iter().filter(|place| place.0 == sign_of(x)).take(each) {
            let known = known(sign_of(x), account(p as f64 - 1.0), 100.0, (0.0, 0.0));
            all.push(Root { known, counter: all.len() as u64 });
        }
    }
    let best = optimum(law);
    let gumbel = settings(RootRule::Gumbel { considered: 16, scale: 0.0 }, (24, 64, 16, 4));
    for settings in [gumbel.clone(), Settings { rule: RootRule::PUCT, ..gumbel }] {
        let mut search = HonestSearch::new(&models, &net, 1, &settings, DISCOUNT as f32, 360).unwrap();
        search.set_params(0, &params).unwrap();
        let seen = search.run(&as_roots(&all, |_| (0, 0))).unwrap();
        let mut policy = [[[0.0; 3]; 3]; 2];
        for (i, action) in seen.chosen.iter().enumerate() {
            policy[i / each / 3][i / each % 3][usize::from(*action)] += 1.0 / each as f64;
        }
        let sum = |values: Values| values.iter().flatten().sum::<f64>();
        let share = sum(worth_of(law, &policy)) / sum(best);
        assert!((0.98..=1.0 + 1e-9).contains(&share), "{settings:?}: {share} of the optimum");
        for state in 0..6 {
            let own: Vec<f64> = seen.value[state * each..(state + 1) * each].iter().map(|v| f64::from(*v)).collect();
            let (value, error) = mean(&own);
            let above = (value - best[state / 3][state % 3]) / error;
            assert!(above <= 2.0, "{settings:?}: {value} ± {error} is promised in state {state}");
        }
    }
}

#[test]
fn what_a_card_cannot_search_honestly_is_refused() {
    let Some(context) = card() else { return };
    let own = model(1, 200);
    let models = on_card(&context, &[HonestModel { model: &own, unit: 1.0 }]);
    let good = settings(RootRule::GUMBEL, (4, 8, 4, 2));
    let (net, _) = net("32 / policy:3 + value:1", 1);
    let refused = |settings: &Settings, net: &Net| {
        HonestSearch::new(&models, net, 1, settings, GAMMA, 4).err().unwrap().to_string()
    };
    assert!(refused(&Settings { mode: Mode::Honest { in_flight: 2 }, ..good.clone() }, &net).contains("in flight"));
    assert!(refused(&Settings { mode: Mode::Reference, ..good.clone() }, &net).contains("reference"));
    assert!(refused(&Settings { simulations: 70_000, ..good.clone() }, &net).contains("decisions"));
    let other: Net = "all:40 / 32 / policy:3 + value:1".parse().unwrap();
    assert!(refused(&good, &other).contains("40 inputs"));
    let mut search = HonestSearch::plain(&models, &[0.1; 4 * INPUTS], &good, GAMMA, 4).unwrap();
    let mut all = roots(1, 2);
    assert!(search.run(&as_roots(&all, |_| (1, 0))).unwrap_err().to_string().contains("model 1"));
    all[0].known.account.stop = 1.0;
    assert!(search.run(&as_roots(&all, |_| (0, 0))).unwrap_err().to_string().contains("stop"));
    assert!(search.run(&[]).unwrap().is_empty());
}
