//! The learned model's own parts: what is learned, what is drawn, and when it is chosen.

use super::*;
use crate::bootstrap::TrainingRow;
use crate::market::MarketModel;
use account::Bar;

const FEATURES: usize = 4;

/// A walk whose moves are noise and, by `edge` deviations, the product of the signs of columns 1 and 2: neither says
/// anything alone.
fn walk(n: usize, edge: f64, seed: u64) -> (Vec<f32>, Vec<TrainingRow>) {
    let mut random = random::SplitMix::new(seed);
    let (mut observations, mut rows, mut close, mut next) = (Vec::new(), Vec::new(), 100.0, 0.0);
    for clock in 0..n as u32 {
        let open = close;
        close *= 1.0 + next;
        let bar = Bar { open, close, high: open.max(close), low: open.min(close), sigma: 0.01, ..Bar::flat(close) };
        let x: [f64; FEATURES] = std::array::from_fn(|_| 3.4 * (random.unit() - 0.5));
        // The sum of twelve is nearly normal.
        let noise = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        next = 0.01 * (edge * (x[1] * x[2]).signum() + noise);
        observations.extend(x.map(|x| x as f32));
        rows.push(TrainingRow { bar, time: [0.0; 2], clock, continues: true });
    }
    (observations, rows)
}

fn rows(n: usize, edge: f64, seed: u64) -> Rows {
    let (observations, rows) = walk(n, edge, seed);
    Rows::cut(&observations, FEATURES, &rows, |_| true).unwrap()
}

fn learned(n: usize, edge: f64) -> FittedModel {
    FittedModel::Learned(Learned::new(rows(n, edge, 5)).unwrap())
}

fn known(observation: [f32; FEATURES]) -> InfoSet {
    let params = account::Params::default();
    let account = account::Account::new(&params);
    let bar = Bar { sigma: 0.02, ..Bar::flat(50.0) };
    InfoSet { observation: observation.to_vec(), bar, time: [0.0; 2], params, account, excluded: 0..0 }
}

fn codes(model: &FittedModel, known: &InfoSet, state: &Imagined, path: u64, count: usize) -> Vec<Imagined> {
    let mut to = Vec::new();
    model.draw(known, state, Draws::new(3, path), count, &mut to);
    assert_eq!(to.len(), count);
    to.iter().map(|chance| chance.market).collect()
}

#[test]
fn where_two_columns_tell_together_the_learned_model_is_chosen() {
    let (model, compared) = FittedModel::fit(rows(4000, 1.0, 5), ModelRule::Auto, 8).unwrap();
    let compared = compared.unwrap();
    assert_eq!(model.kind(), ModelKind::Learned, "{compared:?}");
    assert!(compared.learned.crps < 0.9 * compared.bootstrap.crps, "{compared:?}");
    for signs in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
        let known = known([0.2, signs[0], signs[1], -0.4]);
        let drawn = codes(&model, &known, &model.root(&known), 7, 2048);
        let mean = drawn.iter().map(|next| next.drawn.bar.close / 50.0 - 1.0).sum::<f64>() / 2048.0;
        // One deviation of 2 % in the direction of the product, of which most is found.
        let found = mean * f64::from(signs[0] * signs[1]) / 0.02;
        assert!((0.75..1.2).contains(&found), "{signs:?}: {found}");
    }
}

#[test]
fn where_nothing_is_to_be_learned_the_bootstrap_stays() {
    for seed in [1, 2, 3] {
        let (model, compared) = FittedModel::fit(rows(4000, 0.0, seed), ModelRule::Auto, 8).unwrap();
        assert_eq!(model.kind(), ModelKind::Bootstrap, "{compared:?}");
        let compared = compared.unwrap();
        assert_eq!((compared.horizon, compared.blocks), (8, 20));
        // It says nothing wild either.
        assert!(compared.learned.crps < 1.02 * compared.bootstrap.crps, "{compared:?}");
        assert!((0.7..0.9).contains(&compared.learned.coverage), "{compared:?}");
    }
}

#[test]
fn rules_and_short_data() {
    let kind = |n: usize, rule: ModelRule| FittedModel::fit(rows(n, 1.0, 5), rule, 4).map(|(model, _)| model.kind());
    assert_eq!(kind(1200, ModelRule::Bootstrap).unwrap(), ModelKind::Bootstrap);
    assert_eq!(kind(1200, ModelRule::Learned).unwrap(), ModelKind::Learned);
    // Too few rows to learn from: the bootstrap, or an error that says so.
    let (model, compared) = FittedModel::fit(rows(200, 1.0, 5), ModelRule::Auto, 4).unwrap();
    assert_eq!((model.kind(), compared), (ModelKind::Bootstrap, None));
    assert!(kind(200, ModelRule::Learned).unwrap_err().to_string().contains("at least 384"));
}

/// Ranks of outcomes that the model itself drew are uniform among its other draws, one bar and eight bars ahead.
#[test]
fn ranks_of_its_own_moves_are_uniform() {
    let model = learned(4000, 1.0);
    let mut random = random::SplitMix::new(8);
    let bins = 10;
    for bars in [1, 8] {
        let (roots, draws) = (2000, 49);
        let mut counts = vec![0u32; bins];
        for root in 0..roots {
            let known = known(std::array::from_fn(|_| (3.4 * (random.unit() - 0.5)) as f32));
            let end = |path: u64| {
                let mut state = model.root(&known);
                for bar in 0..bars {
                    state = codes(&model, &known, &state, path * 100 + bar, 1)[0];
                }
                state.drawn.bar.close
            };
            let own = end(root * 1000 + 999);
            let below = (0..draws).filter(|i| end(root * 1000 + i) < own).count();
            counts[below * bins / (draws as usize + 1)] += 1;
        }
        let expected = roots as f64 / bins as f64;
        let chi: f64 = counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        // 99.9 % of uniform ranks lie below 27.9 with 9 degrees of freedom.
        assert!(chi < 27.9, "{bars} bars: {counts:?}, {chi}");
    }
}

/// Held-out outcomes of the market it was fitted to have uniform ranks too.
#[test]
fn held_out_moves_are_covered() {
    let (_, compared) = FittedModel::fit(rows(6000, 1.0, 9), ModelRule::Learned, 4).unwrap();
    let learned = compared.unwrap().learned;
    assert!((0.75..0.85).contains(&learned.coverage), "{learned:?}");
    assert!((0.75..0.85).contains(&learned.coverage_ahead), "{learned:?}");
}

#[test]
fn a_rows_own_continuation_is_drawn_at_most_once() {
    let model = learned(400, 1.0);
    let root = known([0.5, 1.0, 0.5, 0.0]);
    let mut seen = 0;
    for path in 0..300 {
        let state = codes(&model, &root, &model.root(&root), path, 1)[0];
        let own = state.drawn.row.unwrap() + 1;
        let drawn = codes(&model, &root, &state, path + 1000, 64);
        let same = drawn.iter().filter(|next| next.drawn.row == Some(own)).count();
        assert!(same <= 1, "{same}");
        seen += same;
    }
    assert!(seen > 0, "a continuation may be drawn");
}

#[test]
fn rows_within_the_horizon_of_a_root_are_never_drawn() {
    let model = learned(400, 1.0);
    let known = InfoSet { excluded: 30..380, ..known([0.5, 1.0, 0.5, 0.0]) };
    for path in 0..50 {
        for drawn in codes(&model, &known, &model.root(&known), path, 32) {
            assert!(!known.excluded.contains(&drawn.drawn.row.unwrap()), "{drawn:?}");
        }
    }
    assert!(model.rows().check_drawn().is_ok());
    let all = InfoSet { excluded: 0..400, ..known };
    codes(&model, &all, &model.root(&all), 7, 32);
    assert!(model.rows().check_drawn().unwrap_err().to_string().contains("smaller horizon"));
}

#[test]
fn nothing_behind_the_end_of_the_training_is_kept_or_reached() {
    let (mut observations, mut all) = walk(900, 1.0, 5);
    let cut = |observations: &[f32], rows: &[TrainingRow]| {
        let rows = Rows::cut(observations, FEATURES, rows, |row| row.clock < 700).unwrap();
        FittedModel::fit(rows, ModelRule::Learned, 4).unwrap()
    };
    let (clean, compared) = cut(&observations, &all);
    observations[700 * FEATURES..].fill(f32::NAN);
    all[700..].iter_mut().for_each(|row| row.bar = Bar { sigma: f64::NAN, ..Bar::flat(f64::NAN) });
    let (poisoned, again) = cut(&observations, &all);
    assert_eq!(compared, again);
    assert_eq!((clean.rows().len(), poisoned.rows().len()), (700, 700));
    let known = known([0.5, 1.0, 0.5, 0.0]);
    for path in 0..50 {
        let [a, b] = [&clean, &poisoned].map(|model| codes(model, &known, &model.root(&known), path, 16));
        assert_eq!(a, b);
        let [a, b] = [(&clean, a[0]), (&poisoned, b[0])].map(|(model, state)| codes(model, &known, &state, path, 16));
        assert_eq!(a, b);
    }
    assert!(!clean.rows().reached_behind());
}

#[test]
fn a_model_comes_back_from_its_weights() {
    let FittedModel::Learned(own) = learned(500, 1.0) else { panic!("learned") };
    let again = Learned::from_weights(rows(500, 1.0, 5), own.weights()).unwrap();
    assert_eq!((&again.net, &again.near, &again.pushes), (&own.net, &own.near, &own.pushes));
    let wrong = Learned::from_weights(rows(500, 1.0, 5), &own.weights()[1..]);
    assert!(wrong.unwrap_err().to_string().contains("weights are not those"));
}

/// Moves of three sizes alone make three codes.
#[test]
fn moves_that_are_alike_have_one_code() {
    let (observations, mut all) = walk(600, 0.0, 5);
    let mut close = 100.0;
    for (i, row) in all.iter_mut().enumerate() {
        let before = close;
        close *= 1.0 + 0.01 * f64::from(i as u32 * 7 % 3) - 0.01;
        row.bar = Bar { sigma: 0.01, ..Bar::flat(close) };
        row.bar.open = before;
    }
    let rows = Rows::cut(&observations, FEATURES, &all, |_| true).unwrap();
    let model = Learned::new(rows).unwrap();
    assert_eq!(model.codes.len(), 3, "{:?}", model.codes.shares());
    let sum: f32 = model.net.probabilities(&[0.0; LATENT])[..model.codes.len()].iter().sum();
    assert!((sum - 1.0).abs() < 1e-6);
}
