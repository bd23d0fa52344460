//! Policies in f32, TF32 and bf16 on a market with a planted signal: the growth that each seed ends with, its 95 %
//! interval over the seeds, and whether the intervals overlap that of f32.
//!
//! A column tells the next bar's direction three times of five and turns one time in ten; a trade costs 1 bp a side.
//! All seeds of a precision train side by side for the same updates; what counts is the greedy policy behind the last
//! one, on bars that nothing was trained on. The interval is Student's t of the mean.

use super::ppo::{config, draw, hypers, traded};
use account::Bar;
use compute::population::{Pace, Pins, Precision};
use compute::{Budget, Choice, Opened};
use features::Fold;
use learn::ppo::{Ppo, Spec};
use learn::{DeviceBudget, Learner, MemberKey, Problem};
use market::EpisodeData;
use random::SplitMix;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

const BARS: usize = 60_000;
const FEATURES: usize = 3;
/// The mean return of a bar in the signal's direction, its noise, and what a side costs, as shares.
const MU: f64 = 5.07e-4;
const SIGMA: f64 = 20e-4;
const FEE: f64 = 1e-4;
/// How often the signal turns.
const TURNS: f64 = 0.1;
/// Accounts, steps and minibatches of an update.
const ENVS: u32 = 256;
const STEPS: u32 = 64;
const MINIBATCHES: u32 = 8;
/// The 97.5 % quantile of Student's t for 1 to 9 degrees of freedom.
const STUDENT: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// `[--net 64t,64t] [--updates N] [--seeds N] [--precision f32,tf32,bf16] [--device D] [--threads N]`
pub(crate) fn run(words: &[&str], mut threads: usize) -> Result<Value, String> {
    let (mut net, mut updates, mut seeds) = ("64t-64t".to_string(), 120u32, 5u32);
    let (mut precisions, mut device) = (vec!["f32", "tf32", "bf16"], Choice::Auto);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().copied().ok_or(format!("{word} wants a value"))?;
        let whole = || value.parse::<u32>().map_err(|e| format!("{word} {value}: {e}"));
        match *word {
            "--net" => net = value.replace(',', "-"),
            "--updates" => updates = whole()?.max(1),
            "--seeds" => seeds = whole()?.clamp(2, STUDENT.len() as u32 + 1),
            "--threads" => threads = whole()? as usize,
            "--precision" => precisions = value.split(',').collect(),
            "--device" => device = value.parse().map_err(text)?,
            other => return Err(format!("{other} is not known here")),
        }
    }
    let (device, device_name) = Opened::new(device, threads).map_err(text)?;
    let at = DeviceBudget { device, budget: Budget::default() };
    let (problem, data, folds) = market();
    let mut rows = Vec::new();
    for name in precisions {
        let precision = match name {
            "f32" => Precision::F32,
            "tf32" => Precision::Tf32,
            "bf16" => Precision::Bf16,
            other => return Err(format!("{other} is not a precision: f32, tf32 and bf16 are")),
        };
        let spec = spec(&net, precision, updates, seeds)?;
        let ppo = Ppo::new(&problem, &data, &folds, spec).map_err(text)?;
        let clock = Instant::now();
        let grown = train(&ppo, &at, seeds)?;
        rows.push((name, grown, clock.elapsed().as_secs_f64()));
    }
    let first = interval(&rows[0].1);
    let row = |(name, grown, seconds): &(&str, Vec<f64>, f64)| {
        let (mean, low, high) = interval(grown);
        json!({
            "precision": name,
            "growth_bp": grown,
            "mean_bp": mean,
            "interval_bp": [low, high],
            "share_of_best": mean / best_bp(),
            "overlaps_the_first": low <= first.2 && first.1 <= high,
            "seconds": seconds,
        })
    };
    Ok(json!({
        "program": "fullbore",
        "net": net,
        "device": device_name,
        "seeds": seeds,
        "updates": updates,
        "steps": u64::from(updates) * u64::from(ENVS) * u64::from(STEPS),
        "best_bp": best_bp(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    }))
}

/// `[seeds]` growth of a bar behind the last update, in basis points.
fn train(ppo: &Ppo, at: &DeviceBudget, seeds: u32) -> Result<Vec<f64>, String> {
    let keys: Vec<MemberKey> = (0..seeds).map(|seed| MemberKey { config: 0, fold: 0, seed }).collect();
    let tables = ppo.problem().tables(&at.device, at.budget).map_err(text)?;
    let mut training = ppo.begin(at, &tables, &keys, Pace::default(), &Pins::default()).map_err(text)?;
    loop {
        let progress = training.advance(u32::MAX).map_err(text)?;
        if let Some(fault) = progress.iter().find_map(|p| p.fault.clone()) {
            return Err(fault);
        }
        let scores = training.validate().map_err(text)?;
        if progress.iter().all(|p| p.unit >= ppo.units(0)) {
            return Ok(scores.iter().map(|score| score.score).collect());
        }
    }
}

/// Mean, and the ends of its interval.
fn interval(grown: &[f64]) -> (f64, f64, f64) {
    let n = grown.len() as f64;
    let mean = grown.iter().sum::<f64>() / n;
    let variance = grown.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    let half = STUDENT[grown.len() - 2] * (variance / n).sqrt();
    (mean, mean - half, mean + half)
}

/// The best mean growth of a bar: always on the signal's side.
fn best_bp() -> f64 {
    1e4 * (MU - 2.0 * FEE * TURNS - 0.5 * (SIGMA * SIGMA + MU * MU))
}

/// A signal in the first column that tells the return of the bar behind it; the others know nothing.
fn market() -> (Arc<Problem>, Arc<EpisodeData>, Vec<Fold>) {
    let mut random = SplitMix::new(7);
    let stride = FEATURES.next_multiple_of(8);
    let (mut price, mut signal) = (100.0f64, 1.0f64);
    let (mut bars, mut values) = (Vec::with_capacity(BARS), vec![0.0f32; BARS * stride]);
    for row in values.chunks_exact_mut(stride) {
        let open = price;
        // The signal of the bar before moves this one.
        price *= (MU * signal + SIGMA * draw(&mut random)).exp();
        let (high, low) = (open.max(price), open.min(price));
        bars.push(Bar { open, high, low, close: price, sigma: SIGMA, volume: 1e9, ..Bar::flat(price) });
        signal = if random.unit() < TURNS { -signal } else { signal };
        row[0] = signal as f32;
        row[1..FEATURES].fill_with(|| draw(&mut random) as f32);
    }
    traded(FEATURES, bars, values, FEE, [20_002, 11])
}

fn spec(tower: &str, precision: Precision, updates: u32, seeds: u32) -> Result<Spec, String> {
    let configs = vec![config(FEATURES, tower, (ENVS * STEPS).div_ceil(MINIBATCHES) as usize, precision)?];
    let (hypers, units) = (vec![hypers(ENVS, STEPS, 4, 1024)], vec![updates]);
    Ok(Spec { configs, hypers, units, stop_after: None, patience: u32::MAX, seeds })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_find_the_planted_signal() {
        let words = ["--precision", "f32", "--updates", "120", "--seeds", "2", "--device", "cpu", "--net", "8t"];
        let found = run(&words, 2).unwrap();
        let row = &found["rows"][0];
        let (mean, ends) = (row["mean_bp"].as_f64().unwrap(), row["interval_bp"].as_array().unwrap());
        assert!(mean > 0.2 * best_bp(), "{found}");
        assert!(ends[0].as_f64().unwrap() <= mean && row["overlaps_the_first"] == true, "{found}");
        assert_eq!(interval(&[1.0, 3.0]), (2.0, 2.0 - 12.706, 2.0 + 12.706));
    }
}
