//! Evolved policies: population and accounts inside the memory budget, and the pace of a generation.
//!
//! A row takes real generations on the user's data (generations and steps a second) and then evolves policies of the
//! same layers on a small market with a planted signal, as for `ppo` (`capacity.rs`): a larger population makes better
//! steps and fewer of them, so a rate alone chooses badly. Rows that leave fewer than 50 generations in all timesteps
//! are not chosen. Threads, whether they are pinned, and the individuals that a thread takes at once change no bit:
//! they are chosen by rate.

use super::bench::{Bench, Found, late, nothing_fits};
use super::capacity::{AS_SOON, BARS, PlantedMarket, REACH, Table, Tried, UNTIL};
use super::table::others;
use super::{Capacity, CapacityRow, TuneOther, TunedRecipe};
use crate::Settings;
use crate::kinds::{ACCOUNTS, GENERATIONS, STEPS};
use crate::progress::{Sink, Update, check_stop};
use crate::train::Source;
use compute::Opened;
use files::{Result, format_count, format_seconds};
use judge::split::Splits;
use learn::{DeviceBudget, Learner, Pacer};
use machine::{Candidate, Timer, Tuner};
use std::time::Instant;

/// The populations of the table.
const POPULATIONS: [usize; 7] = [32, 64, 128, 256, 512, 1024, 4096];
/// Individuals that a thread takes at once.
const AT_ONCE: [usize; 5] = [2, 4, 8, 16, 32];
/// Timed work should last so long.
const ONE_RUN: f64 = 0.02;

impl Bench<'_> {
    /// Population, accounts and pace of evolved policies.
    pub(super) fn generations(
        &mut self,
        source: &Source,
        splits: &Splits,
        tuner: &Tuner<'_>,
        sink: Sink<'_>,
    ) -> Result<Found> {
        let mut settings = self.settings.clone();
        let kind = settings.train.learner.kind();
        let timesteps = kind.rollout(&mut settings).map_or(0, |rollout| rollout.timesteps);
        let market = PlantedMarket::new(&settings, BARS)?;
        let (mut rows, mut first) = (Vec::new(), None);
        let least = GENERATIONS;
        let table = Table { bench: self, source, splits, settings: &settings, market: &market, timesteps, least };

        let of = |what, population, n_envs| Tried { what, n_envs, n_steps: STEPS, batch: Some(population) };
        let tried = POPULATIONS.map(|population| of("population", population, ACCOUNTS));
        table.measure(&tried, UNTIL[0], &mut first, &mut rows, sink)?;
        let mut best = choose(&rows).ok_or_else(|| nothing_fits(rows.iter().find_map(|row| row.note.clone())))?;
        rows[best].chosen = true;
        let why = why(&rows, best, REACH * market.growth_bp);
        // One factor of two each way.
        let (population, begin) = (rows[best].batch_size, rows.len());
        let near = [ACCOUNTS / 2, 2 * ACCOUNTS].map(|accounts| of("accounts", population, accounts));
        table.measure(&near, 0.8, &mut first, &mut rows, sink)?;
        let sooner = |at: &usize| {
            let arrives = rows[*at].planted_s.zip(rows[best].planted_s);
            rows[*at].updates >= GENERATIONS && arrives.is_some_and(|(a, b)| AS_SOON * a < b)
        };
        let seconds = |at: &usize| rows[*at].planted_s.unwrap_or(f64::INFINITY);
        if let Some(at) = (begin..rows.len()).filter(sooner).min_by(|a, b| seconds(a).total_cmp(&seconds(b))) {
            rows[at].chosen = true;
            best = at;
        }
        let CapacityRow { n_envs, n_steps, batch_size, steps_per_s, .. } = rows[best].clone();
        self.learner = self.shaped(source, splits, &settings, (n_envs, n_steps, Some(batch_size)))?;
        let shape = (n_envs, n_steps, Some(batch_size));
        let (mut others, threads) = self.threads_of_generation(tuner, sink)?;
        let mut own = Own { bench: self, source, splits, shape, settings: settings.clone() };
        let (found, at_once) = own.at_once(tuner, batch_size, sink)?;
        others.extend(found);
        let (found, pinned) = own.pinned(tuner, sink)?;
        others.extend(found);
        let steps = batch_size * n_envs * n_steps;
        let (found, members_at_once) = self.members(tuner, steps_per_s.unwrap_or(1.0), steps, sink)?;
        others.extend(found);
        let recipe = TunedRecipe {
            batch: batch_size,
            precision: self.config().recipe.precision,
            threads,
            members_at_once,
            noise_scale: None,
            n_envs: Some(n_envs),
            n_steps: Some(n_steps),
            at_once,
            pinned,
            roots: None,
            simulations: None,
        };
        let growth_bp = market.growth_bp;
        let capacity = Capacity { timesteps, planted_growth_bp: growth_bp, target_growth_bp: REACH * growth_bp, rows };
        let (rows, seen) = (Vec::new(), Vec::new());
        Ok(Found { noise: None, rows, others, recipe, why, capacity: Some(capacity), search: None, seen })
    }

    /// Threads of the processor, where nobody chose.
    fn threads_of_generation(&mut self, tuner: &Tuner<'_>, sink: Sink<'_>) -> Result<(Vec<TuneOther>, Option<usize>)> {
        let Opened::Cpu { threads: all } = self.at.device else { return Ok((Vec::new(), None)) };
        if self.settings.general.threads.is_some() || all == 1 {
            return Ok((Vec::new(), None));
        }
        sink(Update { phase: "timing threads", done: 0, total: 0, unit: "" });
        let mut counts: Vec<usize> = (0..).map(|i| 1 << i).take_while(|n| *n < all).collect();
        counts.push(all);
        let candidates: Vec<Candidate<usize>> =
            counts.iter().map(|n| Candidate { label: n.to_string(), bytes: 0, config: *n }).collect();
        let usual = counts.len() - 1;
        let (rows, chosen) = others(tuner, "threads", &candidates, usual, usual, |threads, timer| {
            self.time_generations(&*self.learner, Opened::Cpu { threads: *threads }, timer)
        });
        check_stop()?;
        self.at.device = Opened::Cpu { threads: counts[chosen] };
        Ok((rows, (counts[chosen] != all).then_some(counts[chosen])))
    }

    /// Times generations of one member.
    fn time_generations(&self, learner: &dyn Learner, device: Opened, timer: &mut Timer<'_>) -> Result<()> {
        if self.over(UNTIL[1]) {
            return Err(late());
        }
        let endless: Box<dyn Learner> = learner.with(learner.configs().to_vec(), u32::MAX);
        let at = DeviceBudget { device, budget: self.at.budget };
        let mut pacer = Pacer::new(&*endless, &at, &self.plan.members[..1])?;
        pacer.advance(1)?;
        let clock = Instant::now();
        pacer.advance(1)?;
        let one = clock.elapsed().as_secs_f64();
        let count = (ONE_RUN / one.max(1e-9)).clamp(1.0, 256.0) as u32;
        timer.time(|| {
            check_stop()?;
            Ok(pacer.advance(count)? as f64)
        })
    }
}

/// What is left to choose once population and accounts are.
struct Own<'a, 'b> {
    bench: &'a Bench<'b>,
    source: &'a Source,
    splits: &'a Splits,
    shape: (usize, usize, Option<usize>),
    settings: Settings,
}

impl Own<'_, '_> {
    /// Chooses among settings that only change the pace: the first, unless another is clearly faster.
    fn choose(
        &mut self,
        tuner: &Tuner<'_>,
        what: &'static str,
        given: Vec<(String, Settings)>,
    ) -> Result<(Vec<TuneOther>, usize)> {
        let Opened::Cpu { .. } = self.bench.at.device else { return Ok((Vec::new(), 0)) };
        let candidates: Vec<Candidate<Settings>> =
            given.into_iter().map(|(label, config)| Candidate { label, bytes: 0, config }).collect();
        let (rows, chosen) = others(tuner, what, &candidates, 0, 0, |settings, timer| {
            let learner = self.bench.shaped(self.source, self.splits, settings, self.shape)?;
            self.bench.time_generations(&*learner, self.bench.at.device.clone(), timer)
        });
        check_stop()?;
        self.settings = candidates[chosen].config.clone();
        Ok((rows, chosen))
    }

    /// Individuals that a thread takes at once.
    fn at_once(
        &mut self,
        tuner: &Tuner<'_>,
        population: usize,
        sink: Sink<'_>,
    ) -> Result<(Vec<TuneOther>, Option<usize>)> {
        if self.settings.evolve.at_once.is_some() {
            return Ok((Vec::new(), None));
        }
        sink(Update { phase: "timing individuals at once", done: 0, total: 0, unit: "" });
        let mut given = vec![(String::from("by rule"), self.settings.clone())];
        for n in AT_ONCE.into_iter().filter(|n| *n < population) {
            let mut own = self.settings.clone();
            own.evolve.at_once = Some(n);
            given.push((n.to_string(), own));
        }
        let (rows, _) = self.choose(tuner, "individuals at once", given)?;
        Ok((rows, self.settings.evolve.at_once))
    }

    /// Whether threads stay on cores of their own.
    fn pinned(&mut self, tuner: &Tuner<'_>, sink: Sink<'_>) -> Result<(Vec<TuneOther>, bool)> {
        if self.settings.evolve.pinned || !learn::evolve::pins_threads() {
            return Ok((Vec::new(), false));
        }
        sink(Update { phase: "timing pinned threads", done: 0, total: 0, unit: "" });
        let mut own = self.settings.clone();
        own.evolve.pinned = true;
        let given = vec![("free".into(), self.settings.clone()), ("pinned".into(), own)];
        let (rows, _) = self.choose(tuner, "pinning", given)?;
        Ok((rows, self.settings.evolve.pinned))
    }
}

/// The smallest population of those that arrive first and leave generations enough; where none arrives, the largest
/// that leaves enough.
fn choose(rows: &[CapacityRow]) -> Option<usize> {
    let open = || (0..rows.len()).filter(|at| rows[*at].steps_per_s.is_some() && rows[*at].updates >= GENERATIONS);
    let soonest = open().filter_map(|at| rows[at].planted_s).fold(f64::INFINITY, f64::min);
    if soonest.is_finite() {
        return open().find(|at| rows[*at].planted_s.is_some_and(|s| s <= AS_SOON * soonest));
    }
    open().next_back().or_else(|| (0..rows.len()).find(|at| rows[*at].steps_per_s.is_some()))
}

/// Why this population, in a sentence.
fn why(rows: &[CapacityRow], chosen: usize, target: f64) -> String {
    let own = &rows[chosen];
    let population = |row: &CapacityRow| format_count(row.batch_size as u64);
    let Some(took) = own.planted_s else {
        return format!(
            "no population reached {target:.2} bp a bar on the planted market in its time, so {} is the largest of those \
             that leave at least {GENERATIONS} generations; a larger <budget> waits longer",
            population(own)
        );
    };
    let next = rows.iter().filter(|row| row.batch_size > own.batch_size).find_map(|row| Some((row, row.planted_s?)));
    let next = next.map_or(String::new(), |(row, time)| {
        format!("; {} individuals take {:.2} times as long", population(row), time / took)
    });
    format!(
        "{} individuals are the fewest that reach {target:.2} bp a bar on the planted market within 10 % of the shortest \
         time ({}){next}",
        population(own),
        format_seconds(took)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Population, steps a second and seconds to the return, of 50 M timesteps.
    fn rows(all: &[(usize, f64, f64)]) -> Vec<CapacityRow> {
        let some = |x: f64| (x > 0.0).then_some(x);
        let row = |(population, rate, planted): &(usize, f64, f64)| CapacityRow {
            what: "population",
            n_envs: ACCOUNTS,
            n_steps: STEPS,
            batch_size: *population,
            updates: 50_000_000usize.div_ceil(ACCOUNTS * STEPS * population),
            members_at_once: 1,
            memory_bytes: 1,
            steps_per_s: some(*rate),
            update_s: some((ACCOUNTS * STEPS * population) as f64 / rate),
            planted_s: some(*planted),
            chosen: false,
            note: None,
        };
        all.iter().map(row).collect()
    }

    #[test]
    fn the_smallest_population_that_arrives_first_is_chosen() {
        let check = |all: &[(usize, f64, f64)], population: Option<usize>, part: &str| {
            let rows = rows(all);
            let chosen = choose(&rows);
            assert_eq!(chosen.map(|at| rows[at].batch_size), population, "{all:?}");
            let text = chosen.map_or(String::new(), |at| why(&rows, at, 3.9));
            assert!(text.contains(part), "{part}: {text}");
        };
        check(&[(32, 1e6, 3.0), (64, 2e6, 1.0), (128, 2e6, 1.5)], Some(64), "128 individuals take 1.50 times as long");
        // Within a tenth the smaller is taken; the rate does not count.
        check(&[(32, 1e6, 1.05), (64, 9e6, 1.0)], Some(32), "the fewest");
        // 1,024 individuals leave 24 generations.
        check(&[(64, 1e6, 9.0), (1024, 9e6, 2.0)], Some(64), "64 individuals");
        // Nobody arrived, or nothing was timed.
        check(&[(64, 1e6, 0.0), (128, 3e6, 0.0), (1024, 9e6, 0.0)], Some(128), "no population reached");
        check(&[(1024, 9e6, 0.0)], Some(1024), "no population reached");
        check(&[(64, 0.0, 0.0)], None, "");
    }
}
