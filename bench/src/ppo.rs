//! Our side of PPO beside its peers: whole updates on a synthetic market, with the full account.
//!
//! 62 table features and what an account is shown of itself, three actions, 5 bp on every change of position, 200,000
//! bars. An update is a rollout, its advantages, and its epochs of minibatches; updates are timed one by one after a
//! warm-up, and the median counts. The accounts are then stepped without a net (`accounts_alone.rs`): their share of an
//! update. `ppo-products` times the matrix products of such an update on a card and nothing else.

use super::accounts_alone;
use account::{Bar, Params};
use compute::cuda::{Array, Graph, Stream};
use compute::nets::{MemberSetup, Nets, OnCard, Setup};
use compute::population::{Pace, Pins, Precision, Recipe};
use compute::{Budget, Choice, Net, Opened};
use features::{Fold, FoldKind, FoldSpans, Samples, Span};
use learn::ppo::{Actions, Clip, EntropyBand, Hypers, Ppo, Reward, Spec};
use learn::{Config, DeviceBudget, Input, Learner, MemberKey, Problem};
use market::{EpisodeData, PriceTable, RowTime};
use random::{SplitMix, normal};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

const BARS: usize = 200_000;
const FEATURES: usize = 62;
/// Steps of an episode.
const EPISODE: u32 = 1000;

/// What is trained.
struct Load {
    /// Units of LSTM layers before the plain ones.
    lstm: Vec<usize>,
    net: Vec<usize>,
    /// Columns of the table.
    features: usize,
    envs: u32,
    steps: u32,
    minibatches: u32,
    epochs: u32,
    members: u32,
    precision: Precision,
    seconds: f64,
}

/// What is trained, on which device, on how many threads, and the letter of its activation.
fn read(words: &[&str], threads: usize) -> Result<(Load, Choice, usize, &'static str), String> {
    let mut load = Load {
        lstm: vec![],
        net: vec![64, 64],
        features: FEATURES,
        envs: 1024,
        steps: 128,
        minibatches: 8,
        epochs: 4,
        members: 1,
        precision: Precision::F32,
        seconds: 5.0,
    };
    let (mut device, mut threads, mut activation) = (Choice::Auto, threads, "t");
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or(format!("{word} wants a value"));
        match *word {
            "--net" => {
                let layers: Vec<&str> = value()?.split(',').collect();
                let first = layers.iter().take_while(|layer| layer.starts_with("lstm")).count();
                let units = layers[..first].iter().map(|layer| whole(layer.trim_start_matches("lstm")));
                load.lstm = units.collect::<Result<_, _>>()?;
                load.net = layers[first..].iter().map(|layer| whole(layer)).collect::<Result<_, _>>()?;
            }
            "--activation" => {
                activation = match value()? {
                    "tanh" => "t",
                    "relu" => "",
                    other => return Err(format!("{other} is not an activation: tanh and relu are")),
                }
            }
            "--features" => load.features = whole(value()?)?,
            "--envs" => load.envs = whole(value()?)? as u32,
            "--steps" => load.steps = whole(value()?)? as u32,
            "--minibatches" => load.minibatches = whole(value()?)?.max(1) as u32,
            "--epochs" => load.epochs = whole(value()?)? as u32,
            "--members" => load.members = whole(value()?)?.max(1) as u32,
            "--threads" => threads = whole(value()?)?,
            "--device" => device = value()?.parse().map_err(text)?,
            "--seconds" => load.seconds = value()?.parse().map_err(|e| format!("{e}"))?,
            "--precision" => {
                load.precision = match value()? {
                    "f32" => Precision::F32,
                    "tf32" => Precision::Tf32,
                    "bf16" => Precision::Bf16,
                    other => return Err(format!("{other} is not a precision: f32, tf32 and bf16 are")),
                }
            }
            other => return Err(format!("{other} is not known here")),
        }
    }
    Ok((load, device, threads, activation))
}

/// `[--net 64,64, or lstm64,64] [--features N] [--envs N] [--steps N] [--minibatches N] [--epochs N] [--members N]
/// [--precision P] [--device D] [--threads N] [--seconds S]`
pub(crate) fn time(words: &[&str], threads: usize) -> Result<Value, String> {
    let (load, device, threads, activation) = read(words, threads)?;
    let (device, device_name) = Opened::new(device, threads).map_err(text)?;
    let at = DeviceBudget { device, budget: Budget::default() };

    let started = Instant::now();
    let (problem, data, folds) = market(load.features);
    let market_s = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let ppo = Ppo::new(&problem, &data, &folds, spec(&load, activation)?).map_err(text)?;
    let keys: Vec<MemberKey> = (0..load.members).map(|seed| MemberKey { config: 0, fold: 0, seed }).collect();
    let tables = problem.tables(&at.device, at.budget).map_err(text)?;
    let mut training = ppo.begin(&at, &tables, &keys, Pace::default(), &Pins::default()).map_err(text)?;
    let mut update = || -> Result<f64, String> {
        let clock = Instant::now();
        // The fewest steps there are end with a whole update.
        let progress = training.advance(1).map_err(text)?;
        let took = clock.elapsed().as_secs_f64();
        match progress.iter().find_map(|p| p.fault.clone()) {
            Some(fault) => return Err(fault),
            None if progress.iter().any(|p| !p.active) => return Err("a member ended; that is a fault here".into()),
            None => {}
        }
        if progress.iter().any(|p| p.due) {
            training.skip_validation().map_err(text)?;
        }
        Ok(took)
    };
    update()?;
    let first_s = started.elapsed().as_secs_f64();
    for _ in 0..2 {
        update()?;
    }
    let mut times = Vec::new();
    let clock = Instant::now();
    while times.len() < 5 || clock.elapsed().as_secs_f64() < load.seconds {
        times.push(update()?);
    }
    let all: f64 = times.iter().sum();
    let updates = times.len();
    times.sort_by(f64::total_cmp);
    let per_update = times[updates / 2];
    let rows = f64::from(load.envs) * f64::from(load.steps) * f64::from(load.members);
    let accounts = load.envs * load.members;
    let account_s = match &at.device {
        Opened::Cuda(context) => accounts_alone::on_card(context, &data, accounts as usize, load.steps as usize)?,
        Opened::Cpu { .. } => accounts_alone::on_threads(accounts, load.steps, &data, &folds[0], threads),
    };
    Ok(json!({
        "program": "fullbore",
        "features": load.features,
        "lstm": load.lstm,
        "net": load.net,
        "activation": if activation == "t" { "tanh" } else { "relu" },
        "envs": load.envs,
        "horizon": load.steps,
        "minibatches": load.minibatches,
        "epochs": load.epochs,
        "members": load.members,
        "precision": load.precision,
        "device": device_name,
        "threads": threads,
        "steps_per_s": rows / per_update,
        "steps_per_s_mean": rows * updates as f64 / all,
        "seconds_per_update": per_update,
        "updates": updates,
        "account_seconds": account_s,
        "account_share": account_s / per_update,
        "first_update_s": first_s,
        "market_s": market_s,
        "device_bytes": training.memory() + tables.bytes(),
        "peak_rss_mib": super::peak_rss_mib(),
        "flop_per_step": load.lstm.is_empty().then(|| flop(&load)),
    }))
}

/// The products of an update alone: policies forward at every step of the rollout, all values behind it, and every
/// minibatch forward and back, by the plans of the nets that learn. Words as for `ppo`.
pub(crate) fn products(words: &[&str], threads: usize) -> Result<Value, String> {
    let (load, device, threads, activation) = read(words, threads)?;
    let (device, device_name) = Opened::new(device, threads).map_err(text)?;
    let Opened::Cuda(context) = &device else { return Err("products are timed on a card".into()) };
    let (problem, _, _) = market(load.features);
    let tables = problem.tables(&device, Budget::default()).map_err(text)?;
    let spec = spec(&load, activation)?;
    let (net, batch, members) = (&spec.configs[0].net, spec.configs[0].recipe.batch, load.members as usize);
    let Some(tower) = net.towers.first() else { return Err("these nets have no tower for the policy".into()) };
    let policy = Net { trunk: tower.layers.clone(), heads: net.heads[..1].to_vec(), towers: Vec::new(), ..net.clone() };
    let setups: Vec<MemberSetup> = (0..load.members).map(|id| MemberSetup { id, scales: Vec::new() }).collect();
    let stream = Stream::new(context).map_err(text)?;
    let learns = Setup { rule: Some(spec.configs[0].recipe.optimiser.rule), ..Setup::inference(batch, load.precision) };
    let acts = Setup::inference(load.envs as usize, load.precision);
    let made = |net: &Net, setup: &Setup| {
        Nets::new(&device, Budget::default(), net, &tables, setup, &setups, &Pins::default()).map_err(text)
    };
    let (mut learning, mut acting) = (made(net, &learns)?, made(&policy, &acts)?);
    let rollout = timed(&stream, &mut acting, load.envs as usize, members, false)?;
    let values = timed(&stream, &mut learning, batch, members, false)?;
    let minibatch = timed(&stream, &mut learning, batch, members, true)?;
    let per_epoch = f64::from(load.minibatches);
    let seconds = rollout * f64::from(load.steps) + values * per_epoch + minibatch * per_epoch * f64::from(load.epochs);
    let rows = f64::from(load.envs) * f64::from(load.steps) * f64::from(load.members);
    Ok(json!({
        "program": "fullbore, products alone",
        "lstm": load.lstm,
        "net": load.net,
        "envs": load.envs,
        "horizon": load.steps,
        "minibatches": load.minibatches,
        "epochs": load.epochs,
        "members": load.members,
        "precision": load.precision,
        "device": device_name,
        "steps_per_s": rows / seconds,
        "seconds_per_update": seconds,
        "rollout_step_s": rollout,
        "values_s": values,
        "minibatch_s": minibatch,
        "flop_per_step": load.lstm.is_empty().then(|| flop(&load)),
    }))
}

/// Seconds of the products of a pass of so many rows, with the way back or without, in a graph: the median of many.
fn timed(stream: &Stream, nets: &mut Nets, rows: usize, members: usize, back: bool) -> Result<f64, String> {
    let ids: Array<u32> = stream_array(stream, (0..members * rows).map(|i| (i * 7919 % BARS) as u32).collect())?;
    let mut random = SplitMix::new(3);
    let shown = (0..members * rows * market::OBSERVED).map(|_| draw(&mut random) as f32);
    let extras: Array<f32> = stream_array(stream, shown.collect())?;
    let out = nets.head_arrays(rows).map_err(text)?;
    let pass = |nets: &mut Nets| -> Result<(), String> {
        let given = OnCard { rows, ids: Some(&ids), extras: Some(&extras) };
        nets.forward_on(stream, given, &out).map_err(text)?;
        if back { nets.backward_on(stream, &out).map_err(text) } else { Ok(()) }
    };
    // A whole pass leaves numbers as they are in training.
    pass(nets)?;
    nets.set_only_products(true).map_err(text)?;
    let mut failed = Ok(());
    let graph: Graph = stream
        .capture(|| {
            failed = (0..REPEATED).try_for_each(|_| pass(nets));
            Ok(())
        })
        .map_err(text)?;
    failed?;
    let mut times = Vec::new();
    for _ in 0..12 {
        stream.wait().map_err(text)?;
        let clock = Instant::now();
        for _ in 0..REPEATED {
            graph.launch(stream).map_err(text)?;
        }
        stream.wait().map_err(text)?;
        times.push(clock.elapsed().as_secs_f64() / (REPEATED * REPEATED) as f64);
    }
    nets.set_only_products(false).map_err(text)?;
    times.drain(..2);
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Passes of a graph, and launches of it that are timed together.
const REPEATED: usize = 16;

pub(crate) fn stream_array<T: compute::cuda::Plain>(stream: &Stream, values: Vec<T>) -> Result<Array<T>, String> {
    let bytes = (std::mem::size_of_val(&values[..]) + 512) as u64;
    let array = stream.context().slab(bytes).map_err(text)?.array(values.len()).map_err(text)?;
    array.put(stream, &values).map_err(text)?;
    Ok(array)
}

/// Operations of the products of a step that are needed, two for a multiply and add: both towers forward once, then
/// forward and back in every epoch. The first layer passes no gradient on.
fn flop(load: &Load) -> f64 {
    let inputs = load.features + 2;
    let mut widths = vec![inputs];
    widths.extend_from_slice(&load.net);
    let hidden: usize = widths.windows(2).map(|w| w[0] * w[1]).sum();
    let heads = 4 * widths[widths.len() - 1];
    let all = 2.0 * (2 * hidden + heads) as f64;
    let first = 2.0 * (2 * inputs * widths[1]) as f64;
    all + f64::from(load.epochs) * (3.0 * all - first)
}

/// Prices without drift, so many features that know nothing, and one fold.
pub(crate) fn market(features: usize) -> (Arc<Problem>, Arc<EpisodeData>, Vec<Fold>) {
    let mut random = SplitMix::new(1);
    let mut price = 100.0f64;
    let bars: Vec<Bar> = (0..BARS)
        .map(|_| {
            let open = price;
            price *= (1e-3 * draw(&mut random)).exp();
            let (high, low) = (open.max(price), open.min(price));
            Bar { open, high, low, close: price, sigma: 1e-3, volume: 1e9, ..Bar::flat(price) }
        })
        .collect();
    let stride = features.next_multiple_of(8);
    let mut values = vec![0.0f32; BARS * stride];
    for row in values.chunks_exact_mut(stride) {
        row[..features].fill_with(|| draw(&mut random) as f32);
    }
    // Almost everything is trained on.
    traded(features, bars, values, 5e-4, [4002, 2001])
}

/// Such bars of one symbol, so many features of each, and one fold, whose validation and test begin so many bars from
/// the end.
pub(crate) fn traded(
    features: usize,
    bars: Vec<Bar>,
    values: Vec<f32>,
    fee: f64,
    from_end: [u32; 2],
) -> (Arc<Problem>, Arc<EpisodeData>, Vec<Fold>) {
    let count = bars.len();
    let (offsets, params) = (vec![0, count], vec![Params { fee, ..Params::default() }]);
    let table = PriceTable { offsets, params, bars, currency: "USD".into(), risk_free: 0.0, notes: Vec::new() };
    let data = Arc::new(EpisodeData::new(table, vec![RowTime::default(); count]));
    let columns = (0..features).map(|i| format!("f{i}")).collect();
    let stride = features.next_multiple_of(8);
    let input = Input { name: "row".into(), columns, stride, values, map: None, window: 0 };
    let n = count - 1;
    let samples = Samples {
        rows: (0..n as u32).collect(),
        t0: (0..n as i64).collect(),
        t1: (1..=n as i64).collect(),
        class: Vec::new(),
        weight: vec![1.0; n],
    };
    let ([a, b], c) = (from_end.map(|bars| n as u32 - bars), n as u32);
    let span = |from: u32, to: u32| Span::new(i64::from(from), i64::from(to)).expect("a span");
    let spans = FoldSpans { train: span(0, a), valid: span(a + 1, b), test: span(b + 1, c) };
    let [train, valid, test] = [0..a, a + 1..b, b + 1..c].map(|list| list.collect::<Vec<u32>>());
    let fold = Fold { number: 0, kind: FoldKind::Forward, train, valid, test, spans, purged: 2, embargoed: 0 };
    let problem = Problem { inputs: vec![input], ids: count, samples, ..Problem::default() };
    (Arc::new(problem), data, vec![fold])
}

/// A draw from the normal distribution.
pub(crate) fn draw(random: &mut SplitMix) -> f64 {
    normal::quantile(random.unit().max(1e-12))
}

fn spec(load: &Load, activation: &str) -> Result<Spec, String> {
    let rows = load.envs * load.steps;
    let lstm = load.lstm.iter().map(|n| format!("lstm{n}"));
    let tower: Vec<String> = lstm.chain(load.net.iter().map(|n| format!("{n}{activation}"))).collect();
    let tower = tower.join("-");
    let batch = rows.div_ceil(load.minibatches) as usize;
    let configs = vec![config(load.features, &tower, batch, load.precision)?];
    let hypers = hypers(load.envs, load.steps, load.epochs, EPISODE);
    let updates = 1_000_000;
    let (hypers, patience, seeds) = (vec![hypers], updates, load.members);
    Ok(Spec { configs, hypers, units: vec![updates], stop_after: None, patience, seeds })
}

/// Policy and value in towers of their own.
pub(crate) fn config(features: usize, tower: &str, batch: usize, precision: Precision) -> Result<Config, String> {
    let mut recipe = Recipe::new(batch, precision, 1);
    (recipe.optimiser.eps, recipe.optimiser.decay, recipe.optimiser.clip) = (1e-5, 0.0, Some(0.5));
    let shown = market::OBSERVED;
    let net = format!("row:{features} + account:dense{shown} / {tower} | {tower} / policy:3 | value:1");
    Ok(Config { net: net.parse().map_err(text)?, recipe, rate: 3e-4 })
}

/// The hyper-parameters of all policies here.
pub(crate) fn hypers(n_envs: u32, n_steps: u32, n_epochs: u32, episode: u32) -> Hypers {
    Hypers {
        n_envs,
        n_steps,
        n_epochs,
        gamma: 0.99,
        gae_lambda: 0.95,
        clip: Clip { policy: 0.2, value: None },
        normalize_advantage: true,
        vf_coef: 0.5,
        target_kl: None,
        entropy: EntropyBand { least: 0.2, most: 0.8 },
        episode,
        actions: Actions::Discrete,
        reward: Reward::Growth,
    }
}

fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|e| format!("{text}: {e}"))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
