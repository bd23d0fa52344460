//! Our side of evolution beside its peers: whole generations on a synthetic market, with the full account.
//!
//! 10 table features and the 8 numbers that an account is shown of itself, layers of 64 and 64, three actions, 5 bp on
//! every change of position, 200,000 bars: the market of `ppo.rs`. A generation draws its individuals, lets each trade
//! the same spans, ranks them and moves the distribution; generations are timed one by one after a warm-up, and the
//! median counts. Where individuals of low rank trade on a card, the plain pass of the same net over as many rows is
//! timed beside them, in bf16 too: the share of its rate that whole generations reach. How busy a card is, its own
//! library says, looked up five times a second while generations run.

use super::accounts_alone;
use super::beside::Beside;
use super::cores::Cores;
use super::ppo::market;
use compute::population::{Pace, Pins, Precision, Recipe};
use compute::{Budget, Choice, Opened};
use learn::evolve::{Algorithm, Evolve, Fitness, Hypers, Spec, Speed};
use learn::ppo::Actions;
use learn::{Config, DeviceBudget, Learner, MemberKey};
use machine::{NetLoad, Sampler, StepKind, measure_net};
use market::OBSERVED;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// `[--algorithm openai|sep-cma|snes|cem] [--population N] [--rank R] [--envs N] [--steps N] [--net 64,64]
/// [--features N] [--device D] [--precision f32|bf16] [--threads N] [--seconds S]
/// [--beside nothing|checkpoints|loading|both] [--at-once N] [--pinned true]`
pub(crate) fn time(words: &[&str], threads: usize) -> Result<Value, String> {
    let mut hypers = Hypers {
        algorithm: Algorithm::OpenAi,
        population: 256,
        sigma: 0.02,
        rank: 0,
        n_envs: 4,
        n_steps: 256,
        actions: Actions::Discrete,
        fitness: Fitness::Growth,
    };
    let (mut net, mut features, mut device, mut threads, mut seconds) = ("64,64", 10, Choice::Cpu, threads, 5.0);
    let (mut words, mut work, mut speed, mut asked) = (words.iter(), "nothing", Speed::default(), None);
    while let Some(word) = words.next() {
        let value = words.next().copied().ok_or(format!("{word} wants a value"))?;
        let whole = || value.parse::<u32>().map_err(|e| format!("{value}: {e}"));
        match *word {
            "--algorithm" => {
                hypers.algorithm = match value {
                    "openai" => Algorithm::OpenAi,
                    "sep-cma" => Algorithm::SepCma,
                    "snes" => Algorithm::Snes,
                    "cem" => Algorithm::Cem,
                    other => return Err(format!("{other} is not an algorithm: openai, sep-cma, snes and cem are")),
                }
            }
            "--population" => hypers.population = whole()?,
            "--rank" => hypers.rank = whole()?,
            "--envs" => hypers.n_envs = whole()?,
            "--steps" => hypers.n_steps = whole()?,
            "--net" => net = value,
            "--beside" => work = value,
            "--at-once" => speed.at_once = Some(whole()?),
            "--pinned" => speed.pinned = value == "true",
            "--features" => features = whole()? as usize,
            "--threads" => threads = whole()? as usize,
            "--device" => device = value.parse().map_err(text)?,
            "--precision" => {
                asked = Some(match value {
                    "f32" => Precision::F32,
                    "bf16" => Precision::Bf16,
                    other => return Err(format!("{other} is no precision of individuals: f32 and bf16 are")),
                });
            }
            "--seconds" => seconds = value.parse().map_err(|e| format!("{e}"))?,
            other => return Err(format!("{other} is not known here")),
        }
    }
    let (device, device_name) = Opened::new(device, threads).map_err(text)?;
    let at = DeviceBudget { device, budget: Budget::default() };
    let (problem, data, folds) = market(features);
    let layers: Vec<String> = net.split(',').map(|width| format!("{width}t")).collect();
    let layers = layers.join("-");
    let net = format!("row:{features} + account:dense{OBSERVED} / {layers} / policy:3").parse().map_err(text)?;
    // On a card individuals compute in bf16, on a processor in f32 where nothing else is asked for.
    let usual = if matches!(at.device, Opened::Cuda(_)) { Precision::Bf16 } else { Precision::F32 };
    let precision = asked.unwrap_or(usual);
    let recipe = Recipe::new(hypers.population as usize, precision, 1);
    let configs = vec![Config { net, recipe, rate: 0.01 }];
    let (units, patience) = (vec![1_000_000], 1_000_000);
    let spec = Spec { configs, hypers: vec![hypers], units, stop_after: None, patience, seeds: 1 };
    let started = Instant::now();
    let evolve = Evolve::new(&problem, &data, &folds, spec).map_err(text)?.at_speed(speed);
    let tables = problem.tables(&at.device, at.budget).map_err(text)?;
    let key = MemberKey { config: 0, fold: 0, seed: 0 };
    let mut training = evolve.begin(&at, &tables, &[key], Pace::default(), &Pins::default()).map_err(text)?;
    let kernels = training.kernel_paths();
    // Generations are short: a checkpoint after each would measure the disk.
    let mut beside = Beside::start(work)?.every(Duration::from_secs(1));
    let mut generation = || -> Result<f64, String> {
        let clock = Instant::now();
        let progress = training.advance(1).map_err(text)?;
        beside.save(&mut *training, key.id())?;
        let took = clock.elapsed().as_secs_f64();
        if let Some(fault) = progress.iter().find_map(|p| p.fault.clone()) {
            return Err(fault);
        }
        if progress.iter().any(|p| p.due) {
            training.skip_validation().map_err(text)?;
        }
        Ok(took)
    };
    generation()?;
    let first_s = started.elapsed().as_secs_f64();
    for _ in 0..2 {
        generation()?;
    }
    let mut times = Vec::new();
    let on_card = matches!(at.device, Opened::Cuda(_));
    let sampler = on_card.then(|| Sampler::start(Duration::from_millis(200)));
    let (clock, cores) = (Instant::now(), Cores::start());
    while times.len() < 5 || clock.elapsed().as_secs_f64() < seconds {
        times.push(generation()?);
    }
    let (count, busy) = (times.len(), cores.shares(threads));
    let card_busy = sampler.and_then(|sampler| card_busy_share(&sampler));
    times.sort_by(f64::total_cmp);
    let (median, p99) = (times[count / 2], times[(count * 99 / 100).min(count - 1)]);
    let accounts = hypers.population * hypers.n_envs;
    let account_s = match &at.device {
        Opened::Cuda(context) => accounts_alone::on_card(context, &data, accounts as usize, hypers.n_steps as usize)?,
        Opened::Cpu { .. } => accounts_alone::in_lanes(accounts as usize, hypers.n_steps as usize, &data, threads),
    };
    let weights: usize = [features + OBSERVED]
        .into_iter()
        .chain(layers.split('-').filter_map(|l| l.trim_end_matches('t').parse().ok()))
        .chain([3])
        .collect::<Vec<usize>>()
        .windows(2)
        .map(|w| w[0] * w[1])
        .sum();
    let steps = hypers.steps() as f64;
    let inference = match &at.device {
        Opened::Cuda(_) if hypers.rank > 0 => {
            drop(training);
            let net = format!("{}-{layers}-3", features + OBSERVED).parse().map_err(text)?;
            let batch = (hypers.population * hypers.n_envs) as usize;
            let (members, precision, step) = (1, Precision::Bf16, StepKind::Infer);
            let load = NetLoad { net, batch, members, precision, step, tune: false, seconds };
            Some(measure_net(&at.device, at.budget, &load).map_err(text)?.samples_per_s)
        }
        _ => None,
    };
    Ok(json!({
        "program": "fullbore",
        "algorithm": format!("{:?}", hypers.algorithm),
        "population": hypers.population,
        "rank": hypers.rank,
        "envs": hypers.n_envs,
        "steps": hypers.n_steps,
        "device": device_name,
        "precision": precision,
        "threads": threads,
        "steps_per_s": steps / median,
        "inference_rows_per_s": inference,
        "share_of_inference": inference.map(|rows| steps / median / rows),
        "kernels": kernels,
        "seconds_per_generation": median,
        "seconds_per_generation_p99": p99,
        "account_seconds": account_s,
        "account_share": account_s / median,
        "busy_share_of_each_thread": busy,
        "card_busy_share": card_busy,
        "beside": work,
        "checkpoints_and_reads": beside.done(),
        "generations": count,
        "first_generation_s": first_s,
        "flop_per_step": 2.0 * weights as f64,
        "peak_rss_mib": super::peak_rss_mib(),
    }))
}

/// The mean of what the first card says of itself, without the first second, which looks back at the time before.
fn card_busy_share(sampler: &Sampler) -> Option<f64> {
    let samples = sampler.samples_since(1.0);
    let shares: Vec<f64> =
        samples.iter().filter_map(|s| s.gpus.first()?.busy_percent).map(|x| f64::from(x) / 100.0).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
