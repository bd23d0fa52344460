//! One update of a policy beside PyTorch's by the way that a training goes: rows shuffled, losses of all members at
//! once, one descent. `tests/fixtures/ppo_*`, made by `oracles/fixtures/ppo.py`; `tests/learn/ppo_torch.rs` has the
//! same by a loop of its own.

use super::training::PpoTraining;
use super::{Actions, Clip, Ended, EntropyBand, Hypers, Ppo, Reward, Spec};
use crate::{Config, DeviceBudget, Input, Learner, MemberKey, Problem};
use account::{Bar, Params};
use compute::net::{Layout, flatten, load};
use compute::population::{Pins, Precision, Recipe, Scale};
use compute::random::Permutation;
use compute::{Budget, Choice, Opened};
use features::{Fold, FoldKind, FoldSpans, Samples, Span};
use market::{EpisodeData, OBSERVED, PriceTable, RowTime};
use serde_json::Value;
use std::sync::Arc;

/// Rows of the rollout, as accounts and steps; of a minibatch; bars that there are.
const ACCOUNTS: u32 = 4;
const STEPS: u32 = 24;
const ROWS: usize = (ACCOUNTS * STEPS) as usize;
const BATCH: usize = 32;
const BARS: usize = 200;
const FEATURES: usize = 3;

fn numbers(data: &Value, name: &str) -> Vec<f32> {
    data[name].as_array().expect(name).iter().map(|x| x.as_f64().expect("a number") as f32).collect()
}

/// A policy whose table begins with the features of the fixture, as they are. Nobody trades: what was seen is given.
fn policy(actions: Actions, clip: Clip, features: &[f32]) -> Ppo {
    let mut values: Vec<f32> = features.chunks_exact(FEATURES).flat_map(|x| [x[0], x[1], x[2], 0.0]).collect();
    values.resize(4 * BARS, 0.0);
    let columns = (0..FEATURES).map(|column| format!("c{column}")).collect();
    let input = Input { name: "row".into(), columns, stride: 4, values, map: None, window: 0 };
    let n = BARS - 1;
    let samples = Samples {
        rows: (0..n as u32).collect(),
        t0: (0..n as i64).collect(),
        t1: (1..=n as i64).collect(),
        class: Vec::new(),
        weight: vec![1.0; n],
    };
    let [a, b, c] = [150, 170, n as u32];
    let span = |from: u32, to: u32| Span::new(i64::from(from), i64::from(to)).unwrap();
    let spans = FoldSpans { train: span(0, a), valid: span(a + 1, b), test: span(b + 1, c) };
    let [train, valid, test] = [0..a, a + 1..b, b + 1..c].map(|list| list.collect::<Vec<u32>>());
    let fold = Fold { number: 0, kind: FoldKind::Forward, train, valid, test, spans, purged: 2, embargoed: 0 };
    let problem = Arc::new(Problem { inputs: vec![input], ids: BARS, samples, ..Problem::default() });
    let table = PriceTable {
        offsets: vec![0, BARS],
        params: vec![Params::default()],
        bars: vec![Bar { sigma: 0.01, volume: 1e6, ..Bar::flat(100.0) }; BARS],
        currency: "USD".into(),
        risk_free: 0.0,
        notes: Vec::new(),
    };
    let data = Arc::new(EpisodeData::new(table, vec![RowTime::default(); BARS]));
    let mut recipe = Recipe::new(BATCH, Precision::F32, 1);
    (recipe.optimiser.eps, recipe.optimiser.decay, recipe.optimiser.clip) = (1e-5, 0.0, Some(0.5));
    let net = format!("row:3 + account:dense8 / 16t-16t | 16t-16t / policy:{} | value:1", actions.outputs());
    let config = Config { net: net.parse().unwrap(), recipe, rate: 3e-3 };
    let entropy = match actions {
        Actions::Discrete => EntropyBand { least: 0.2, most: 0.8 },
        Actions::Continuous => EntropyBand { least: -1.5, most: 0.5 },
    };
    let hypers = Hypers {
        n_envs: ACCOUNTS,
        n_steps: STEPS,
        n_epochs: 1,
        gamma: 0.99,
        gae_lambda: 0.95,
        clip,
        normalize_advantage: true,
        vf_coef: 0.5,
        target_kl: None,
        entropy,
        episode: 10,
        actions,
        reward: Reward::Growth,
    };
    let spec =
        Spec { configs: vec![config], hypers: vec![hypers], units: vec![4], stop_after: None, patience: 4, seeds: 1 };
    let mut ppo = Ppo::new(&problem, &data, &[fold], spec).unwrap();
    let folds = Arc::get_mut(&mut ppo.folds).expect("nobody else has them yet");
    folds.scalers[0].scales = vec![Scale { mean: vec![0.0; FEATURES], inverse: vec![1.0; FEATURES] }];
    ppo
}

/// Two epochs of the fixture. An update of one epoch reads what was seen in an order of its own, so that each row of
/// the fixture is put where this order meets it at its turn.
fn check(what: &str, actions: Actions, clip: Clip, data: &str, [before, after]: [&[u8]; 2], threads: usize) {
    let data: Value = serde_json::from_str(data).unwrap();
    let [shown, legal, action, log_probability, advantage, value] =
        ["shown", "legal", "action", "log_probability", "advantage", "value"].map(|name| numbers(&data, name));
    let order: Vec<usize> = numbers(&data, "order").iter().map(|x| *x as usize).collect();
    let ppo = policy(actions, clip, &numbers(&data, "features"));
    let at = DeviceBudget { device: Opened::new(Choice::Cpu, threads).unwrap().0, budget: Budget::default() };
    let tables = ppo.problem().tables(&at.device, at.budget).unwrap();
    let key = MemberKey { config: 0, fold: 0, seed: 0 };
    let mut training = PpoTraining::new(&ppo, &at, &tables, &[key], &Pins::default()).unwrap();
    training.set_entropy_weight(0.05);
    let net = &ppo.configs()[0].net;
    let layout = Layout::new(net).unwrap();
    let [start, theirs] = [before, after].map(|file| load(net, &layout, file).unwrap());
    training.nets().set_params(0, &start).unwrap();
    let permutation = Permutation::new(ROWS as u32, ppo.configs()[0].recipe.seed, key.id(), 0);
    let mut places = vec![0; ROWS];
    permutation.fill(0, &mut places);
    for epoch in order.chunks_exact(ROWS) {
        let mut rows = [0; ROWS];
        places.iter().zip(epoch).for_each(|(place, row)| rows[*place as usize] = *row);
        training.update_from(|_, block| {
            let r = &mut block.rollout;
            for row in rows {
                r.rows.push(row as u32);
                r.observed.extend_from_slice(&shown[row * OBSERVED..(row + 1) * OBSERVED]);
                r.legal.push(legal[row] as u8);
                r.action.push(action[row]);
                r.log_probability.push(log_probability[row]);
                r.value.push(value[row]);
                r.advantage.push(advantage[row]);
                r.ended.push(Ended::Not);
            }
        });
    }
    let ours = training.nets().params(0).unwrap();
    // Each tensor is where PyTorch's is, to 1e-5 of its norm, and has moved there.
    for ((ours, theirs), start) in
        flatten(&layout, &ours).into_iter().zip(flatten(&layout, &theirs)).zip(flatten(&layout, &start))
    {
        let apart = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
        let norm = apart(&theirs.2, &vec![0.0; theirs.2.len()]);
        let (distance, moved) = (apart(&ours.2, &theirs.2), apart(&start.2, &theirs.2));
        assert!(distance <= 1e-5 * norm, "{what} {}: {distance} of {norm}", ours.0);
        assert!(moved > 100.0 * distance, "{what} {}: it moved by {moved}, and is {distance} apart", ours.0);
    }
}

#[test]
fn an_update_of_a_training_is_that_of_pytorch() {
    let clip = Clip { policy: 0.2, value: None };
    for threads in [1, 2] {
        let data = include_str!("../../tests/fixtures/ppo_discrete.json");
        let before = &include_bytes!("../../tests/fixtures/ppo_discrete_before.safetensors")[..];
        let after = &include_bytes!("../../tests/fixtures/ppo_discrete_after.safetensors")[..];
        check("discrete", Actions::Discrete, clip, data, [before, after], threads);
        let data = include_str!("../../tests/fixtures/ppo_continuous.json");
        let before = &include_bytes!("../../tests/fixtures/ppo_continuous_before.safetensors")[..];
        let after = &include_bytes!("../../tests/fixtures/ppo_continuous_after.safetensors")[..];
        check("continuous", Actions::Continuous, clip, data, [before, after], threads);
        let data = include_str!("../../tests/fixtures/ppo_clipped.json");
        let before = &include_bytes!("../../tests/fixtures/ppo_clipped_before.safetensors")[..];
        let after = &include_bytes!("../../tests/fixtures/ppo_clipped_after.safetensors")[..];
        let clipped = Clip { value: Some(0.2), ..clip };
        check("clipped values", Actions::Discrete, clipped, data, [before, after], threads);
    }
}
