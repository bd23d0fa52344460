//! Episodes of many accounts on one thread: what a learner's environment can step through, observations written.
//!
//! Accounts are one environment, or blocks of them as a learner holds them: a block takes all its steps, then the next.

use bars::Timeframe;
use bars::synth::Synth;
use market::{AccountOptions, Environment, EpisodeData, OBSERVED, PriceTable, row_times};
use random::SplitMix;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// Columns of the feature table that are gathered beside what the account is shown.
const FEATURES: usize = 16;

pub(crate) fn time(accounts: usize, block: usize, rounds: usize) -> Result<Value, String> {
    let synth = Synth { symbols: 1, bars: 100_000, timeframe: Timeframe::M5, ragged: false, ..Synth::default() };
    let market = synth.make_market(1).market;
    let table = PriceTable::new(&market, &AccountOptions::default(), None).map_err(|e| e.to_string())?;
    let times = row_times(&market, &table);
    let mut random = SplitMix::new(1);
    let features: Vec<f32> = (0..table.bars.len() * FEATURES).map(|_| random.unit() as f32).collect();
    let targets: Vec<f64> = (0..block * 64).map(|_| [-1.0, 0.0, 1.0][random.below(3)]).collect();
    let stretch = 0..table.bars.len() as u32;
    let data = Arc::new(EpisodeData::new(table, times));
    let blocks = (0..accounts).step_by(block).map(|first| first as u32..accounts.min(first + block) as u32);
    let world = |numbers| Environment::new(&data, std::slice::from_ref(&stretch), numbers, 1000, 1);
    let mut worlds: Vec<Environment> = blocks.map(world).collect();
    let wide = FEATURES + OBSERVED;
    let mut observation = vec![0.0f32; block * wide];
    let steps = 1000;
    let mut best = f64::INFINITY;
    let mut sum = 0.0;
    for _ in 0..rounds {
        let start = Instant::now();
        for world in &mut worlds {
            let n = world.view().rows.len();
            for step in 0..steps {
                let at = step % 64 * block;
                world.step(&targets[at..at + n]);
                let view = world.view();
                for (i, to) in observation.chunks_exact_mut(wide).take(n).enumerate() {
                    let from = view.rows[i] as usize * FEATURES;
                    to[..FEATURES].copy_from_slice(&features[from..from + FEATURES]);
                    to[FEATURES..].copy_from_slice(&view.observed[i * OBSERVED..(i + 1) * OBSERVED]);
                }
                sum += world.rewards()[0] + f64::from(observation[0]);
            }
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    let rate = (steps * accounts) as f64 / best;
    Ok(json!({"accounts": accounts, "block": block, "seconds": best, "steps_per_s": rate, "sum": sum}))
}
