//! Our side of searches beside `mctx`, and what the honest mode does by itself.
//!
//! In the reference mode the world is that of the peer: 64 numbers that shrink and move with the action, the first of
//! which is the reward; the net reads them and gives three logits and a value. In the honest mode the world is a
//! bootstrap of 20,000 training rows with 56 features and accounts on it. Searches are timed one by one after a
//! warm-up, and the median counts; beside it the rate of the same net on as many rows as there are roots. On a card
//! nets compute in bf16; an honest search there is timed with its upload and download, and without: of as many roots as
//! are there at once (`on_card_roots`). On a processor they compute in f32 or in bf16.

use compute::cuda::Context;
use compute::net::{Layout, init};
use compute::population::Precision;
use compute::{Net, Result as Computed};
use jobs::HonestOnCard;
use random::{SplitMix, normal};
use search::cuda::LinearSearch;
use search::{
    Bootstrap, Evaluate, InfoSet, LinearRow, LinearWorld, MarketWorld, Mode, NetEvaluator, Root, RootRule, Search,
    Settings, World,
};
use serde_json::{Value, json};
use std::time::Instant;

const INPUTS: usize = 64;
/// The peer's world.
const SHRINKING: LinearWorld = LinearWorld { inputs: INPUTS, actions: 3, shrink: 0.99, push: 0.01, discount: 0.99 };

/// What is searched.
struct Load {
    net: Vec<usize>,
    roots: usize,
    settings: Settings,
    precision: Precision,
    threads: usize,
    seconds: f64,
}

/// `[--net 256,256] [--roots N] [--simulations N] [--rule gumbel|muzero] [--mode reference|honest] [--in-flight N]
/// [--codes N] [--scenarios N] [--device cpu|cuda] [--precision f32|bf16] [--threads N] [--seconds S]`
pub(crate) fn time(words: &[&str], threads: usize) -> Result<Value, String> {
    let settings = Settings { depth: u32::MAX, codes: 1, mode: Mode::Reference, ..Settings::default() };
    let (net, precision) = (vec![256, 256], Precision::F32);
    let mut load = Load { net, roots: 128, settings, precision, threads, seconds: 3.0 };
    let (mut honest, mut card, mut in_flight, mut codes) = (false, false, 1, 16);
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let whole = || value.parse::<usize>().map_err(|e| format!("{name} {value}: {e}"));
        match *name {
            "--net" => load.net = value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(text)?,
            "--roots" => load.roots = whole()?,
            "--simulations" => load.settings.simulations = whole()? as u32,
            "--in-flight" => in_flight = whole()? as u32,
            "--codes" => codes = whole()?,
            "--scenarios" => load.settings.scenarios = whole()?,
            "--threads" => load.threads = whole()?.max(1),
            "--seconds" => load.seconds = value.parse().map_err(text)?,
            "--device" => card = known(value, &[("cpu", false), ("cuda", true)])?,
            "--precision" => {
                load.precision = known(value, &[("f32", Precision::F32), ("bf16", Precision::Bf16)])?;
            }
            "--mode" => honest = known(value, &[("reference", false), ("honest", true)])?,
            "--rule" => {
                load.settings.rule = known(value, &[("gumbel", RootRule::GUMBEL), ("muzero", RootRule::PUCT)])?;
            }
            other => return Err(format!("{other} is not known here")),
        }
    }
    if !honest {
        let mut random = SplitMix::new(1);
        let mut number = |_: usize| normal::quantile(random.unit().max(1e-12)) as f32;
        let mut row = || LinearRow::new(&std::array::from_fn::<f32, INPUTS, _>(&mut number));
        let known = (0..load.roots).map(|_| row()).collect();
        return if card { run_on_card(&load, known) } else { run(&load, &SHRINKING, known, "") };
    }
    (load.settings.mode, load.settings.codes, load.settings.depth) = (Mode::Honest { in_flight }, codes, 8);
    let world = jobs::bench_market().map_err(text)?;
    let known = jobs::bench_roots(&world, load.roots);
    if card { run_honest_on_card(&load, &world, known) } else { run(&load, &world, known, "honest") }
}

fn known<T: Copy>(value: &str, all: &[(&str, T)]) -> Result<T, String> {
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let found = all.iter().find(|(name, _)| *name == value).map(|(_, known)| *known);
    found.ok_or(format!("{value} is none of {}", names.join(", ")))
}

/// A policy and a value behind layers of these widths, and its first weights.
fn net_of(inputs: usize, widths: &[usize]) -> Result<(Net, Vec<f32>), String> {
    let layers: Vec<String> = widths.iter().map(usize::to_string).collect();
    let net: Net = format!("all:{inputs} / {} / policy:3 + value:1", layers.join("-")).parse().map_err(text)?;
    let params = init(&Layout::new(&net).map_err(text)?, 1, 0);
    Ok((net, params))
}

/// Searches on a card: roots lie there, and what was found stays there.
fn run_on_card(load: &Load, known: Vec<LinearRow>) -> Result<Value, String> {
    let Load { net, roots, settings, seconds, .. } = load;
    let context = Context::open(0).map_err(text)?;
    let (net, params) = net_of(INPUTS, net)?;
    let mut search = LinearSearch::new(&context, &SHRINKING, &net, &params, settings, *roots).map_err(text)?;
    let all: Vec<Root<LinearRow>> =
        known.into_iter().zip(0..).map(|(known, counter)| Root { known, counter }).collect();
    search.run(&all).map_err(text)?;
    let mut once = || -> Result<f64, String> {
        let clock = Instant::now();
        search.again().map_err(text)?;
        Ok(clock.elapsed().as_secs_f64())
    };
    let search_s = median_of(&mut once, *seconds)?;
    let net_s = search.pass_s().map_err(text)?;
    Ok(json!({
        "program": "fullbore, cuda",
        "search_s": search_s,
        "simulations_per_s": f64::from(settings.simulations) * *roots as f64 / search_s,
        "net_rows_per_s": net_s.map(|seconds| *roots as f64 / seconds),
        "bytes": search.bytes(),
        "gpu": context.gpu().name,
    }))
}

/// Honest searches on a card: all roots go there and come back, as a step of a training does it.
fn run_honest_on_card(load: &Load, world: &MarketWorld<Bootstrap>, known: Vec<InfoSet>) -> Result<Value, String> {
    let Load { net, roots, settings, seconds, .. } = load;
    let context = Context::open(0).map_err(text)?;
    let (net, params) = net_of(INPUTS, net)?;
    let models = jobs::bench_models(&context, world).map_err(text)?;
    let mut search = HonestOnCard::new(&models, &net, &params, settings, known).map_err(text)?;
    let whole_s = median_of(&mut || search.whole_s().map_err(text), *seconds)?;
    let on_card_s = median_of(&mut || search.on_card_s().map_err(text), *seconds)?;
    let simulations = f64::from(settings.simulations) * *roots as f64;
    Ok(json!({
        "program": "fullbore, honest, cuda",
        "search_s": whole_s,
        "simulations_per_s": simulations / whole_s,
        "on_card_s": on_card_s,
        "on_card_roots": search.at_once(),
        "on_card_simulations_per_s": f64::from(settings.simulations) * search.at_once() as f64 / on_card_s,
        "evaluations_per_s": search.evaluations() as f64 / whole_s,
        "bytes": search.bytes(),
        "path": search.describe(),
        "gpu": context.gpu().name,
    }))
}

fn run<W: World>(load: &Load, world: &W, known: Vec<W::Known>, mode: &str) -> Result<Value, String> {
    let Load { net, roots, settings, precision, threads, seconds } = load;
    let (net, params) = net_of(world.inputs(), net)?;
    let mut evaluators = NetEvaluator::several(&net, &params, *precision, *threads).map_err(text)?;
    let mut search = Search::new(world, settings, *threads, 1 << 36).map_err(text)?;
    let all: Vec<Root<W::Known>> = known.into_iter().zip(0..).map(|(known, counter)| Root { known, counter }).collect();
    let mut once = || -> Result<f64, String> {
        let clock = Instant::now();
        search.run(world, &mut evaluators, &all).map_err(text)?;
        Ok(clock.elapsed().as_secs_f64())
    };
    let search_s = median_of(&mut once, *seconds)?;
    let net_s = median_of(&mut || alone(&mut evaluators, world.inputs(), *roots).map_err(text), 1.0)?;
    let simulations = f64::from(settings.simulations) * *roots as f64;
    Ok(json!({
        "program": if mode.is_empty() { "fullbore" } else { "fullbore, honest" },
        "precision": format!("{precision:?}").to_lowercase(),
        "search_s": search_s,
        "simulations_per_s": simulations / search_s,
        "net_rows_per_s": *roots as f64 / net_s,
        "bytes": Search::need(world, settings, *threads).map_err(text)?,
        "threads": threads,
    }))
}

/// Seconds of the net alone on as many rows as there are roots, all threads together.
fn alone(evaluators: &mut [NetEvaluator], inputs: usize, roots: usize) -> Computed<f64> {
    let each = roots.div_ceil(evaluators.len());
    let clock = Instant::now();
    let run = |evaluator: &mut NetEvaluator| {
        let shown = vec![0.1; each * inputs];
        (0..32).try_for_each(|_| evaluator.evaluate(&shown, &mut vec![0.0; each * 3], &mut vec![0.0; each]))
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = evaluators.iter_mut().map(|evaluator| scope.spawn(|| run(evaluator))).collect();
        all.into_iter().try_for_each(|one| one.join().expect("a thread that does not panic"))
    })?;
    Ok(clock.elapsed().as_secs_f64() / 32.0)
}

/// Median of at least seven after two that warm up.
fn median_of(once: &mut dyn FnMut() -> Result<f64, String>, seconds: f64) -> Result<f64, String> {
    once()?;
    once()?;
    let (clock, mut all) = (Instant::now(), Vec::new());
    while all.len() < 7 || clock.elapsed().as_secs_f64() < seconds {
        all.push(once()?);
    }
    all.sort_unstable_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
