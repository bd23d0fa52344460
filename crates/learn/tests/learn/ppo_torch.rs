//! One update of a policy beside PyTorch's, from the same weights and the same rollout: `tests/fixtures/ppo_*`, made by
//! `oracles/fixtures/ppo.py`.

use compute::cuda::Stream;
use compute::net::{Layout, flatten, load};
use compute::nets::{
    Batch, Hyper, MemberSetup, Nets, Rows, Segment, SequenceGradient, SequencePass, Sequences, SequencesOnCard, Setup,
    StepOptions,
};
use compute::population::{Pins, Precision, Rule};
use compute::{Budget, Choice, Net, Opened, Table, Tables};
use learn::ppo::{Actions, Clip, LossSums, Taken, Terms, policy_loss, value_loss};
use serde_json::Value;
use std::sync::Arc;

const BATCH: usize = 32;

fn numbers(data: &Value, name: &str) -> Vec<f32> {
    data[name].as_array().expect(name).iter().map(|x| x.as_f64().expect("a number") as f32).collect()
}

fn update(actions: Actions, data: &str, before: &[u8], after: &[u8], device: &Opened) {
    let data: Value = serde_json::from_str(data).unwrap();
    let outputs = actions.outputs();
    let net = format!("row:3 + account:dense8 / 16t-16t | 16t-16t / policy:{outputs} | value:1").parse().unwrap();
    let layout = Layout::new(&net).unwrap();
    let values: Vec<f32> = numbers(&data, "features").chunks_exact(3).flat_map(|x| [x[0], x[1], x[2], 0.0]).collect();
    let table = Table { values: &values, stride: 4 };
    let tables = Tables::new(device, Budget::default(), &[table], &[None]).unwrap();
    let rule = Some(Rule::AdamW);
    let setup = Setup { rows: BATCH, precision: Precision::F32, rule, seed: 1, starts: vec![] };
    let member = MemberSetup { id: 0, scales: Vec::new() };
    let pins = Pins::default();
    let mut nets = Nets::new(device, Budget::default(), &net, &tables, &setup, &[member], &pins).unwrap();
    nets.set_params(0, &load(&net, &layout, before).unwrap()).unwrap();
    let [shown, legal, action, old, advantage, old_value] =
        ["shown", "legal", "action", "log_probability", "advantage", "value"].map(|name| numbers(&data, name));
    let order: Vec<usize> = numbers(&data, "order").iter().map(|x| *x as usize).collect();
    for at in order.chunks_exact(BATCH) {
        let ids: Vec<u32> = at.iter().map(|at| *at as u32).collect();
        let extras: Vec<f32> = at.iter().flat_map(|at| &shown[at * 8..(at + 1) * 8]).copied().collect();
        let mut out = [Vec::new(), Vec::new()];
        nets.forward(0..1, Batch { rows: BATCH, ids: &ids, extras: &extras }, &mut out).unwrap();
        let own: Vec<f64> = at.iter().map(|at| f64::from(advantage[*at])).collect();
        let mean = own.iter().sum::<f64>() / BATCH as f64;
        let variance = own.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (BATCH - 1) as f64;
        let clip = Clip { policy: 0.2, value: None };
        let terms = Terms { actions, clip, entropy_weight: 0.05, value_weight: 0.5, rows: BATCH as f32 };
        let (mut d_policy, mut d_value, mut sums) = (vec![0.0; BATCH * outputs], vec![0.0; BATCH], LossSums::default());
        for (row, at) in at.iter().enumerate() {
            let taken = Taken {
                action: action[*at],
                legal: legal[*at] as u8,
                log_probability: old[*at],
                advantage: ((own[row] - mean) / (variance.sqrt() + 1e-8)) as f32,
            };
            let place = row * outputs..(row + 1) * outputs;
            policy_loss(&terms, &out[0][place.clone()], &taken, &mut d_policy[place], &mut sums);
            let wanted = advantage[*at] + old_value[*at];
            d_value[row] = value_loss(&terms, out[1][row], old_value[*at], wanted, &mut sums);
        }
        nets.backward(&[&d_policy, &d_value]).unwrap();
        let hyper = Hyper { rate: 3e-3, eps: 1e-5, decay: 0.0, clip: Some(0.5), ..Hyper::default() };
        nets.optimise(&[hyper], None).unwrap();
    }
    let [start, theirs] = [before, after].map(|file| load(&net, &layout, file).unwrap());
    check_moved(&format!("{actions:?}"), &layout, &start, &nets.params(0).unwrap(), &theirs);
}

/// Each tensor is where PyTorch's is, to 1e-5 of its norm, and has moved there.
fn check_moved(what: &str, layout: &Layout, start: &[f32], ours: &[f32], theirs: &[f32]) {
    for ((ours, theirs), start) in
        flatten(layout, ours).into_iter().zip(flatten(layout, theirs)).zip(flatten(layout, start))
    {
        let apart = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
        let norm = apart(&theirs.2, &vec![0.0; theirs.2.len()]);
        let (distance, moved) = (apart(&ours.2, &theirs.2), apart(&start.2, &theirs.2));
        assert!(distance <= 1e-5 * norm, "{what} {}: {distance} of {norm}", ours.0);
        assert!(moved > 100.0 * distance, "{what} {}: it moved by {moved}, and is {distance} apart", ours.0);
    }
}

/// Both kinds of actions, on a device.
fn updates(device: &Opened) {
    let discrete = include_str!("../fixtures/ppo_discrete.json");
    let before = include_bytes!("../fixtures/ppo_discrete_before.safetensors");
    let after = include_bytes!("../fixtures/ppo_discrete_after.safetensors");
    update(Actions::Discrete, discrete, before, after, device);
    let continuous = include_str!("../fixtures/ppo_continuous.json");
    let before = include_bytes!("../fixtures/ppo_continuous_before.safetensors");
    let after = include_bytes!("../fixtures/ppo_continuous_after.safetensors");
    update(Actions::Continuous, continuous, before, after, device);
}

#[test]
fn an_update_is_that_of_pytorch() {
    updates(&Opened::new(Choice::Cpu, 2).unwrap().0);
}

#[test]
fn an_update_is_that_of_pytorch_on_a_card() {
    if let Some(device) = super::made::card() {
        updates(&device);
    }
}

/// Accounts of a minibatch of a policy that remembers, their steps, and its units.
const ACCOUNTS: usize = 3;
const STEPS: usize = 20;
const UNITS: usize = 12;

/// One minibatch of it: `[STEPS, ACCOUNTS]` rows, and what they began with.
struct Minibatch {
    ids: Vec<u32>,
    extras: Vec<f32>,
    reset: Vec<u8>,
    begin: Vec<f32>, // [ACCOUNTS, 4 * 16]
    taken: Vec<Taken>,
    old: Vec<f32>,
    wanted: Vec<f32>,
}

impl Minibatch {
    /// The losses' gradients at some of its rows' outputs.
    fn losses(&self, own: std::ops::Range<usize>, out: [&[f32]; 2], d_out: [&mut [f32]; 2]) {
        let clip = Clip { policy: 0.2, value: None };
        let rows = (STEPS * ACCOUNTS) as f32;
        let terms = Terms { actions: Actions::Discrete, clip, entropy_weight: 0.05, value_weight: 0.5, rows };
        let ([z, value], [d_z, d_value], mut sums) = (out, d_out, LossSums::default());
        for (row, at) in own.enumerate() {
            let place = row * 3..row * 3 + 3;
            policy_loss(&terms, &z[place.clone()], &self.taken[at], &mut d_z[place], &mut sums);
            d_value[row] = value_loss(&terms, value[row], self.old[at], self.wanted[at], &mut sums);
        }
    }
}

/// The minibatches of `oracles/fixtures/ppo_recurrent.py`.
fn minibatches(data: &Value) -> Vec<Minibatch> {
    let [shown, state, reset, legal, action, old, advantage, old_value, order] =
        ["shown", "state", "reset", "legal", "action", "log_probability", "advantage", "value", "order"]
            .map(|name| numbers(data, name));
    let all = order.len() / 2;
    let minibatch = |accounts: &[f32]| {
        let places: Vec<usize> =
            (0..STEPS).flat_map(|t| accounts.iter().map(move |account| t * all + *account as usize)).collect();
        let rows = (STEPS * ACCOUNTS) as f64;
        let mean = places.iter().map(|at| f64::from(advantage[*at])).sum::<f64>() / rows;
        let squares = places.iter().map(|at| (f64::from(advantage[*at]) - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (rows - 1.0)).sqrt();
        // The units of a state are padded to 16.
        let padded = |x: &[f32]| [x, &[0.0; 16 - UNITS]].concat();
        let of_account = |account: &f32| &state[*account as usize * 4 * UNITS..(*account as usize + 1) * 4 * UNITS];
        let taken = |at: &usize| Taken {
            action: action[*at],
            legal: legal[*at] as u8,
            log_probability: old[*at],
            advantage: ((f64::from(advantage[*at]) - mean) / (deviation + 1e-8)) as f32,
        };
        Minibatch {
            ids: places.iter().map(|at| *at as u32).collect(),
            extras: places.iter().flat_map(|at| &shown[at * 8..(at + 1) * 8]).copied().collect(),
            reset: places.iter().map(|at| reset[*at] as u8).collect(),
            begin: accounts.iter().flat_map(|a| of_account(a).chunks(UNITS).flat_map(padded)).collect(),
            taken: places.iter().map(taken).collect(),
            old: places.iter().map(|at| old_value[*at]).collect(),
            wanted: places.iter().map(|at| advantage[*at] + old_value[*at]).collect(),
        }
    };
    order.chunks_exact(ACCOUNTS).map(minibatch).collect()
}

/// A policy that remembers, through whole accounts from the states that they began with; `oracles/fixtures/
/// ppo_recurrent.py`. `rows` are those that nets are set up for, and `step` does one minibatch.
fn update_that_remembers(
    device: &Opened,
    rows: usize,
    step: impl Fn(&Net, &Arc<Tables>, &mut Nets, &[Minibatch], Hyper),
) {
    let data: Value = serde_json::from_str(include_str!("../fixtures/ppo_recurrent.json")).unwrap();
    let before = include_bytes!("../fixtures/ppo_recurrent_before.safetensors");
    let after = include_bytes!("../fixtures/ppo_recurrent_after.safetensors");
    let net: Net = "row:3 + account:dense8 / lstm12-16t | lstm12-16t / policy:3 | value:1".parse().unwrap();
    let layout = Layout::new(&net).unwrap();
    let [start, theirs] = [&before[..], &after[..]].map(|file| load(&net, &layout, file).unwrap());
    let values: Vec<f32> = numbers(&data, "features").chunks_exact(3).flat_map(|x| [x[0], x[1], x[2], 0.0]).collect();
    let tables = Tables::new(device, Budget::default(), &[Table { values: &values, stride: 4 }], &[None]).unwrap();
    let setup = Setup { rows, precision: Precision::F32, rule: Some(Rule::AdamW), seed: 1, starts: vec![] };
    let member = MemberSetup { id: 0, scales: Vec::new() };
    let mut nets = Nets::new(device, Budget::default(), &net, &tables, &setup, &[member], &Pins::default()).unwrap();
    nets.set_params(0, &start).unwrap();
    let hyper = Hyper { rate: 3e-3, eps: 1e-5, decay: 0.0, clip: Some(0.5), ..Hyper::default() };
    step(&net, &tables, &mut nets, &minibatches(&data), hyper);
    check_moved("recurrent", &layout, &start, &nets.params(0).unwrap(), &theirs);
}

#[test]
fn an_update_of_a_policy_that_remembers_is_that_of_pytorch() {
    let device = Opened::new(Choice::Cpu, 2).unwrap().0;
    update_that_remembers(&device, 1, |net, tables, nets, minibatches, hyper| {
        let mut gradients = SequenceGradient::new(net, Precision::F32, ACCOUNTS, STEPS).unwrap();
        for own in minibatches {
            let mut loss = |at: std::ops::Range<usize>, out: &[Vec<f32>], d_out: &mut [Vec<f32>]| {
                let (d_z, d_value) = d_out.split_at_mut(1);
                own.losses(at, [&out[0], &out[1]], [&mut d_z[0], &mut d_value[0]]);
            };
            let mut gradient = vec![0.0; nets.layout().params];
            gradients.take(&nets.params(0).unwrap()).unwrap();
            let rows = Rows { tables, scales: &[], ids: &own.ids, extras: &own.extras };
            let given = Sequences { rows, begin: &own.begin, reset: &own.reset };
            gradients.gradient(given, &mut loss, &mut gradient).unwrap();
            nets.optimise_parts(&gradient, &[hyper], None).unwrap();
        }
    });
}

#[test]
fn an_update_of_a_policy_that_remembers_is_that_of_pytorch_on_a_card() {
    let Some(device) = super::made::card() else { return };
    let Opened::Cuda(context) = &device else { panic!("a card") };
    let rows = STEPS * ACCOUNTS;
    update_that_remembers(&device, rows, |_, _, nets, minibatches, hyper| {
        let (stream, mut slab) = (Stream::new(context).unwrap(), context.slab(1 << 20).unwrap());
        let mut pass = SequencePass::new(nets, Budget::default(), ACCOUNTS, STEPS).unwrap();
        let (ids, extras) = (slab.array(rows).unwrap(), slab.array(8 * rows).unwrap());
        let (begin, reset) = (slab.array(pass.state()).unwrap(), slab.array(rows).unwrap());
        let (out, d_out) = (nets.head_arrays(rows).unwrap(), nets.head_arrays(rows).unwrap());
        let hypers = nets.hypers(&[hyper]).unwrap();
        for own in minibatches {
            ids.put(&stream, &own.ids).unwrap();
            extras.put(&stream, &own.extras).unwrap();
            reset.put(&stream, &own.reset).unwrap();
            let mut states = vec![0.0; pass.state()];
            for Segment { before, units, column } in pass.segments() {
                for (account, row) in own.begin.chunks_exact(4 * 16).enumerate() {
                    let first = before * ACCOUNTS + account * units;
                    states[first..first + units].copy_from_slice(&row[column..column + units]);
                }
            }
            begin.put(&stream, &states).unwrap();
            pass.take_on(&stream, nets).unwrap();
            let given = SequencesOnCard {
                ids: Some(&ids),
                extras: Some(&extras),
                begin: &begin,
                reset: Some(&reset),
                end: None,
            };
            pass.forward_on(&stream, nets, given, &out).unwrap();
            let (z, value) = (out[0].get(&stream).unwrap(), out[1].get(&stream).unwrap());
            let (mut d_z, mut d_value) = (vec![0.0; z.len()], vec![0.0; value.len()]);
            own.losses(0..rows, [&z, &value], [&mut d_z, &mut d_value]);
            d_out[0].put(&stream, &d_z).unwrap();
            d_out[1].put(&stream, &d_value).unwrap();
            pass.backward_on(&stream, nets, &d_out).unwrap();
            nets.optimise_on(&stream, &hypers, StepOptions::default()).unwrap();
        }
        nets.settle().unwrap();
    });
}
