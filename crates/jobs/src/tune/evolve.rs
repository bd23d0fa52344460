//! Evolved policies: population and accounts inside the memory budget, and the pace of a generation.
//!
//! A row takes real generations on the user's data (generations and steps a second) and then evolves policies of the
//! same layers on a small market with a planted signal, as for `ppo` (`capacity.rs`): a larger population makes better
//! steps and fewer of them, so a rate alone chooses badly. Rows that leave fewer than 50 generations in all timesteps
//! are not chosen. Threads, whether they are pinned, and the individuals that a thread takes at once change no bit:
//! they are chosen by rate. So is bf16 on a processor with instructions for it, which changes bits and is recipe:
//! individuals are ranked much as in f32, and policies are validated in f32 whatever they evolved in.

use super::bench::{Bench, Found, nothing_fits};
use super::capacity::{BARS, PlantedMarket, Table, Tried, UNTIL, soonest, take_sooner};
use super::table::others;
use super::{Capacity, CapacityRow, TuneOther, TunedRecipe};
use crate::Settings;
use crate::kinds::{ACCOUNTS, GENERATIONS, STEPS};
use crate::progress::{Sink, Update, check_stop};
use crate::train::Source;
use compute::Opened;
use compute::population::Precision;
use files::{Result, format_count, format_seconds};
use judge::split::Splits;
use machine::{Candidate, Tuner};

/// The populations of the table.
const POPULATIONS: [usize; 7] = [32, 64, 128, 256, 512, 1024, 4096];
/// Individuals that a thread takes at once.
const AT_ONCE: [usize; 5] = [2, 4, 8, 16, 32];

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
        kind.fit(&mut settings, source, splits)?;
        let rollout = kind.rollout(&mut settings);
        let (timesteps, steps) = rollout.map_or((0, STEPS), |own| (own.timesteps, own.n_steps.unwrap_or(STEPS)));
        let market = PlantedMarket::new(&settings, BARS)?;
        let (mut rows, mut first) = (Vec::new(), None);
        let least = GENERATIONS;
        let table = Table { bench: self, source, splits, settings: &settings, market: &market, timesteps, least };

        let of = |what, population, n_envs| Tried { what, n_envs, n_steps: steps, batch: Some(population) };
        let tried = POPULATIONS.map(|population| of("population", population, ACCOUNTS));
        table.measure(&tried, UNTIL[0], &mut first, &mut rows, sink)?;
        let mut best = choose(&rows).ok_or_else(|| nothing_fits(rows.iter().find_map(|row| row.note.clone())))?;
        rows[best].chosen = true;
        let why = why(&rows, best, market.target_bp());
        // One factor of two each way.
        let (population, begin) = (rows[best].batch_size, rows.len());
        let near = [ACCOUNTS / 2, 2 * ACCOUNTS].map(|accounts| of("accounts", population, accounts));
        table.measure(&near, 0.8, &mut first, &mut rows, sink)?;
        best = take_sooner(&mut rows, begin, best, GENERATIONS);
        let CapacityRow { n_envs, n_steps, batch_size, steps_per_s, .. } = rows[best].clone();
        self.learner = self.shaped(source, splits, &settings, (n_envs, n_steps, Some(batch_size)))?;
        let shape = (n_envs, n_steps, Some(batch_size));
        let (mut others, threads) = self.threads(tuner, None, sink, |bench, device, timer| {
            bench.time(&*bench.learner, device, 1, timer, UNTIL[1])
        })?;
        let mut own = Own { bench: self, source, splits, shape, settings: settings.clone() };
        let found = own.precision(tuner, sink)?;
        let why = why + &precision_why(&found);
        others.extend(found);
        let (found, at_once) = own.at_once(tuner, batch_size, sink)?;
        others.extend(found);
        let (found, pinned) = own.pinned(tuner, sink)?;
        others.extend(found);
        let chosen = own.settings.clone();
        self.learner = self.shaped(source, splits, &chosen, shape)?;
        let steps = self.learner.samples(self.plan.members[0]) as usize;
        let (found, members_at_once) = self.members(tuner, steps_per_s.unwrap_or(1.0), steps, sink)?;
        others.extend(found);
        let recipe = TunedRecipe::new(&self.config().recipe, members_at_once);
        let (n_envs, n_steps) = (Some(n_envs), Some(n_steps));
        let recipe = TunedRecipe { threads, n_envs, n_steps, at_once, pinned, ..recipe };
        let capacity = Some(Capacity::new(timesteps, &market, rows));
        Ok(Found { capacity, ..Found::new(recipe, why, others) })
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
            self.bench.time(&*learner, &self.bench.at.device, 1, timer, UNTIL[1])
        });
        check_stop()?;
        self.settings = candidates[chosen].config.clone();
        Ok((rows, chosen))
    }

    /// What individuals compute in, where nothing was set and the processor multiplies bf16 by instructions of its own:
    /// f32, unless bf16 is clearly faster.
    fn precision(&mut self, tuner: &Tuner<'_>, sink: Sink<'_>) -> Result<Vec<TuneOther>> {
        let is_cpu = matches!(self.bench.at.device, Opened::Cpu { .. });
        let is_open = is_cpu && self.settings.train.precision.is_none() && compute::cpu_rate::multiplies_bf16();
        let mut own = self.settings.clone();
        own.train.precision = Some(Precision::Bf16);
        // Individuals of low rank have no bf16 there.
        if !is_open || self.bench.shaped(self.source, self.splits, &own, self.shape).is_err() {
            return Ok(Vec::new());
        }
        sink(Update { phase: "timing precisions", done: 0, total: 0, unit: "" });
        let given = vec![("f32".into(), self.settings.clone()), ("bf16".into(), own)];
        Ok(self.choose(tuner, "precision", given)?.0)
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
    let first = soonest(open().map(|at| (at, rows[at].planted_s))).first().copied();
    first.or_else(|| open().next_back()).or_else(|| (0..rows.len()).find(|at| rows[*at].steps_per_s.is_some()))
}

/// Why individuals compute in bf16, as the end of a sentence; nothing where they do not.
fn precision_why(rows: &[TuneOther]) -> String {
    let rate = |name: &str| rows.iter().find(|row| row.value == name)?.samples_per_s;
    let chosen = rows.iter().any(|row| row.value == "bf16" && row.chosen);
    match (chosen, rate("f32"), rate("bf16")) {
        (true, Some(f32), Some(bf16)) => {
            format!("; in bf16 individuals take {:.2} times as many steps a second as in f32", bf16 / f32)
        }
        _ => String::new(),
    }
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
    fn bf16_is_chosen_with_its_reason() {
        let row = |value: &str, rate: f64, chosen| TuneOther {
            what: "precision",
            value: value.into(),
            samples_per_s: Some(rate),
            chosen,
            note: None,
        };
        let why = precision_why(&[row("f32", 2e6, false), row("bf16", 3e6, true)]);
        assert!(why.contains("1.50 times as many steps"), "{why}");
        assert_eq!(precision_why(&[row("f32", 2e6, true), row("bf16", 3e6, false)]), "");
        assert_eq!(precision_why(&[]), "");
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
