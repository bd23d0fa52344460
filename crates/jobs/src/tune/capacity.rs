//! The capacity of a device for policies: environments, steps, minibatch and members at once inside the memory budget,
//! with what each costs and brings.
//!
//! Every row takes real updates on the user's data (steps a second, time of an update) and then trains one policy of
//! the same layers on a small market with a planted signal until its validation reaches a set share of the best growth:
//! more environments make more steps a second and need more steps, so a rate alone chooses badly. The race is looked at
//! after every update, with the clock stopped, and knows nothing of the user's timesteps. A row is left out, with its
//! reason, where memory or time do not allow it.

use super::TunedRecipe;
use super::bench::{Bench, Found, nothing_fits};
use crate::Settings;
use crate::kinds::{UPDATES, UPDATES_LEAST};
use crate::progress::{Sink, Update, check_stop, stop_flag};
use crate::synth::planted;
use crate::train::{MarketFolder, Source, split};
use bars::Timeframe;
use bars::synth::{MarketKind, Plant, Synth};
use compute::population::{Pace, Pins};
use files::{Result, format_bytes, format_count, format_seconds};
use judge::split::Splits;
use learn::{Learner, MemberKey, Pacer, Training, failed};
use machine::Tuner;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The environments of the table.
const ENVIRONMENTS: [usize; 8] = [16, 32, 64, 128, 256, 1024, 4096, 16_384];
/// What a policy has to reach of the best growth on the planted market.
const REACH: f64 = 0.8;
/// Bars of the market of an update or a generation.
pub(super) const BARS: usize = 20_000;
/// What policies read of it.
const COLUMNS: &str = "p = col(plant), r = log_return(1), v = volatility(20)";
/// Shares of the time: up to where environments are tried, and up to where steps and minibatches are.
pub(super) const UNTIL: [f64; 2] = [0.6, 0.9];
/// Of a row's time, what its clock of updates may take; the rest is for the planted market.
const TIMED: f64 = 0.3;
/// Policies of each row on the planted market, where there is time for them: the median counts.
const SEEDS: u32 = 3;
/// A policy that takes so many times as long as the quickest row is not waited for, nor longer than so many seconds
/// where that is more.
const LOST: f64 = 2.0;
const LOST_S: f64 = 1.0;
/// A race takes at most so many times as long as it may train for, validations included.
const VALIDATED: f64 = 3.0;
/// Timesteps of a race of policies that learn by gradients, whatever the user's are: time alone should end it.
const RACED: usize = 1 << 26;
/// Of rows that arrive within this part of the first the smaller is taken: a clock is no sharper.
const AS_SOON: f64 = 1.1;

/// What environments, steps and minibatches cost and bring.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// Timesteps that a training has.
    pub timesteps: usize,
    /// The best mean growth of a bar on the planted market, in basis points.
    pub planted_growth_bp: f64,
    /// The growth that is waited for.
    pub target_growth_bp: f64,
    /// Environments first, then steps and minibatches with those that were chosen.
    pub rows: Vec<CapacityRow>,
}

impl Capacity {
    pub(super) fn new(timesteps: usize, market: &PlantedMarket, rows: Vec<CapacityRow>) -> Capacity {
        let growth_bp = market.growth_bp;
        Capacity { timesteps, planted_growth_bp: growth_bp, target_growth_bp: market.target_bp(), rows }
    }
}

/// One shape of an update.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityRow {
    /// Which is tried: `n_envs`, `n_steps` or `batch_size`; of an evolved policy `population` or `accounts`.
    pub what: &'static str,
    /// Environments of a member, or accounts of an individual.
    pub n_envs: usize,
    /// Steps of each in an update.
    pub n_steps: usize,
    /// Rows of a minibatch, or individuals of a generation.
    pub batch_size: usize,
    /// Updates in all timesteps.
    pub updates: usize,
    /// Members that the memory holds at once.
    pub members_at_once: usize,
    /// Bytes of one member on the device, tables included.
    pub memory_bytes: u64,
    /// Steps of one member in a second; null where nothing was timed.
    pub steps_per_s: Option<f64>,
    /// Seconds of one update of one member.
    pub update_s: Option<f64>,
    /// Seconds until the planted market's growth was reached, the median of up to three seeds; null where it was not.
    pub planted_s: Option<f64>,
    /// Whether later rows and runs take it.
    pub chosen: bool,
    /// Why something is missing, or why it is not chosen.
    pub note: Option<String>,
}

/// A shape to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) what: &'static str,
    pub(super) n_envs: usize,
    pub(super) n_steps: usize,
    /// None goes by the rule.
    pub(super) batch: Option<usize>,
}

/// Where policies are timed to a return.
pub(super) struct PlantedMarket {
    pub(super) source: Source,
    pub(super) splits: Splits,
    pub(super) growth_bp: f64,
}

impl Bench<'_> {
    /// Environments, steps and minibatch of policies, and members at once.
    pub(super) fn capacity(
        &mut self,
        source: &Source,
        splits: &Splits,
        tuner: &Tuner<'_>,
        sink: Sink<'_>,
    ) -> Result<Found> {
        let mut settings = self.settings.clone();
        let kind = settings.train.learner.kind();
        kind.fill_in(&mut settings, source, &self.at.device);
        let (timesteps, n_steps) =
            kind.rollout(&mut settings).map_or((0, 0), |r| (r.timesteps, r.n_steps.unwrap_or(0)));
        let market = PlantedMarket::new(&settings, BARS)?;
        let (mut rows, mut first) = (Vec::new(), None);
        let table = Table {
            bench: self,
            source,
            splits,
            settings: &settings,
            market: &market,
            timesteps,
            least: UPDATES_LEAST,
        };

        let tried = ENVIRONMENTS.map(|n_envs| Tried { what: "n_envs", n_envs, n_steps, batch: None });
        table.measure(&tried, UNTIL[0], &mut first, &mut rows, sink)?;
        let mut best = choose(&rows).ok_or_else(|| nothing_fits(rows.iter().find_map(|row| row.note.clone())))?;
        rows[best].chosen = true;
        let why = why(&rows, best, market.target_bp());
        // One factor of two each way, from what is best so far.
        for what in ["n_steps", "batch_size"] {
            let CapacityRow { n_envs, n_steps, batch_size, .. } = rows[best].clone();
            let near = |twice: bool| match (what, twice) {
                ("n_steps", true) => Tried { what, n_envs, n_steps: 2 * n_steps, batch: None },
                ("n_steps", false) => Tried { what, n_envs, n_steps: n_steps / 2, batch: None },
                (_, true) => Tried { what, n_envs, n_steps, batch: Some((2 * batch_size).min(n_envs * n_steps)) },
                (_, false) => Tried { what, n_envs, n_steps, batch: Some((batch_size / 2).max(1)) },
            };
            let until = if what == "n_steps" { 0.5 * (UNTIL[0] + UNTIL[1]) } else { UNTIL[1] };
            let begin = rows.len();
            let tried = [near(false), near(true)].into_iter().filter(|t| t.n_steps >= 2).collect::<Vec<_>>();
            table.measure(&tried, until, &mut first, &mut rows, sink)?;
            best = take_sooner(&mut rows, begin, best, UPDATES_LEAST);
        }
        let CapacityRow { n_envs, n_steps, batch_size, steps_per_s, .. } = rows[best].clone();
        self.learner = self.shaped(source, splits, &settings, (n_envs, n_steps, Some(batch_size)))?;
        let (others, members_at_once) = self.members(tuner, steps_per_s.unwrap_or(1.0), n_envs * n_steps, sink)?;
        let recipe = TunedRecipe::new(&self.config().recipe, members_at_once);
        let recipe = TunedRecipe { n_envs: Some(n_envs), n_steps: Some(n_steps), ..recipe };
        let capacity = Some(Capacity::new(timesteps, &market, rows));
        Ok(Found { capacity, ..Found::new(recipe, why, others) })
    }

    /// The learner with updates of this shape.
    pub(super) fn shaped(
        &self,
        source: &Source,
        splits: &Splits,
        settings: &Settings,
        (n_envs, n_steps, batch): (usize, usize, Option<usize>),
    ) -> Result<Box<dyn Learner>> {
        let mut own = settings.clone();
        let kind = own.train.learner.kind();
        if let Some(rollout) = kind.rollout(&mut own) {
            (*rollout.n_envs, *rollout.n_steps) = (Some(n_envs), Some(n_steps));
        }
        *kind.batch(&mut own) = batch;
        kind.learner(source, splits, &own, &self.at.device)
    }
}

/// Rows are measured by this.
pub(super) struct Table<'a, 'b> {
    pub(super) bench: &'a Bench<'b>,
    pub(super) source: &'a Source,
    pub(super) splits: &'a Splits,
    pub(super) settings: &'a Settings,
    pub(super) market: &'a PlantedMarket,
    pub(super) timesteps: usize,
    /// Fewer updates are no training.
    pub(super) least: usize,
}

impl Table<'_, '_> {
    /// Measures shapes until that part of the time is over; `first` is the soonest arrival on the planted market.
    pub(super) fn measure(
        &self,
        tried: &[Tried],
        until: f64,
        first: &mut Option<f64>,
        rows: &mut Vec<CapacityRow>,
        sink: Sink<'_>,
    ) -> Result<()> {
        for (at, one) in tried.iter().enumerate() {
            let phase = match one.what {
                "n_envs" => "timing environments",
                "population" | "accounts" => "timing generations",
                _ => "timing steps and minibatches",
            };
            sink(Update { phase, done: at as u64, total: tried.len() as u64, unit: "" });
            let share = self.bench.share(until, tried.len() - at);
            let rate = rows.iter().rev().find_map(|row| row.steps_per_s);
            rows.push(self.row(*one, share, rate, first)?);
            check_stop()?;
        }
        Ok(())
    }

    /// One row, in about so many seconds; `rate` are the steps a second that others made.
    fn row(&self, tried: Tried, share: f64, rate: Option<f64>, first: &mut Option<f64>) -> Result<CapacityRow> {
        let Tried { what, n_envs, n_steps, batch } = tried;
        let (bench, shape) = (self.bench, (n_envs, n_steps, batch));
        let learner = bench.shaped(self.source, self.splits, self.settings, shape)?;
        // Steps of all accounts in an update.
        let steps = learner.samples(bench.plan.members[0]) as usize;
        // One update that warms up and one that counts.
        let expected = rate.map_or(0.0, |rate| 2.0 * steps as f64 / rate);
        let limits = Limits { share, expected, lost_s: LOST_S, units: "updates", row: "row" };
        let timed = bench.time_shape(&*learner, &limits, first, |most, left| self.races(shape, most, left))?;
        let mut row = CapacityRow {
            what,
            n_envs,
            n_steps,
            batch_size: learner.configs()[0].recipe.batch,
            updates: self.timesteps.div_ceil(steps.max(1)),
            members_at_once: timed.members_at_once,
            memory_bytes: timed.memory_bytes,
            steps_per_s: timed.unit_s.map(|seconds| steps as f64 / seconds),
            update_s: timed.unit_s,
            planted_s: timed.planted_s,
            chosen: false,
            note: timed.note,
        };
        if row.update_s.is_some() && row.updates < self.least {
            let (unit, all) = (learner.unit(), format_count(self.timesteps as u64));
            let few = format!("only {} {unit}s in {all} timesteps", row.updates);
            row.note = Some(row.note.map_or(few.clone(), |note| format!("{few}; {note}")));
        }
        Ok(row)
    }

    /// The median arrival of a few seeds, as far as `left` seconds last; each is waited for `most` seconds.
    fn races(&self, shape: (usize, usize, Option<usize>), most: f64, left: f64) -> Result<Arrival> {
        let (clock, mut arrived, mut missed) = (Instant::now(), Vec::new(), Vec::new());
        for seed in 0..SEEDS {
            match self.race(shape, seed, most)? {
                Arrival::After(seconds) => arrived.push(seconds),
                Arrival::Not(note) => missed.push(note),
            }
            check_stop()?;
            // No more where the next would not fit, or where most have missed it.
            let spent = clock.elapsed().as_secs_f64();
            if spent * f64::from(seed + 2) / f64::from(seed + 1) > left || missed.len() > 1 {
                break;
            }
        }
        arrived.sort_by(f64::total_cmp);
        // Those that missed it are the slowest.
        let middle = (arrived.len() + missed.len()) / 2;
        Ok(match arrived.get(middle) {
            Some(seconds) => Arrival::After(*seconds),
            None => Arrival::Not(missed.swap_remove(0)),
        })
    }

    /// Trains a policy on the planted market until it has reached what is waited for, or so many seconds are over.
    fn race(&self, shape: (usize, usize, Option<usize>), seed: u32, most: f64) -> Result<Arrival> {
        let PlantedMarket { source, splits, .. } = self.market;
        let (mut settings, mut timesteps) = (market_settings(self.settings), self.timesteps);
        // Populations have borders, and searches a schedule, that follow from their timesteps.
        if settings.train.learner.name() == "ppo" {
            (settings.ppo.timesteps, timesteps) = (Some(RACED), RACED);
        }
        let learner = self.bench.shaped(source, splits, &settings, shape)?;
        let member = MemberKey { config: 0, fold: splits.folds.len() - 1, seed };
        self.bench.race(&*learner, member, self.market.target_bp(), most, timesteps)
    }
}

/// What a row may take.
pub(super) struct Limits {
    /// Seconds for all of it.
    pub(super) share: f64,
    /// Seconds that two units of its work take, about.
    pub(super) expected: f64,
    /// Seconds that the planted market is waited for at least.
    pub(super) lost_s: f64,
    /// What units and rows are called.
    pub(super) units: &'static str,
    pub(super) row: &'static str,
}

/// What a row has shown.
pub(super) struct Timed {
    pub(super) memory_bytes: u64,
    pub(super) members_at_once: usize,
    /// Seconds of a unit of work; none where nothing was timed.
    pub(super) unit_s: Option<f64>,
    /// Seconds until the planted market's growth was reached.
    pub(super) planted_s: Option<f64>,
    /// Why something is missing.
    pub(super) note: Option<String>,
}

impl Bench<'_> {
    /// Seconds of each of so many rows, up to that part of the time.
    pub(super) fn share(&self, until: f64, rows: usize) -> f64 {
        (until * self.most.as_secs_f64() - self.began.elapsed().as_secs_f64()).max(0.0) / rows as f64
    }

    /// Times units of a shape's work, then its arrival on the planted market: `race` waits so many seconds for it, and
    /// has so many in all. `first` is the soonest so far.
    pub(super) fn time_shape(
        &self,
        learner: &dyn Learner,
        limits: &Limits,
        first: &mut Option<f64>,
        race: impl FnOnce(f64, f64) -> Result<Arrival>,
    ) -> Result<Timed> {
        let Limits { share, expected, lost_s, units, row } = *limits;
        let (memory_bytes, members_at_once) = (self.needs(learner, 1)?, self.group(learner)?.0);
        let mut timed = Timed { memory_bytes, members_at_once, unit_s: None, planted_s: None, note: None };
        let budget = self.at.bytes(learner.problem())?;
        if memory_bytes > budget {
            let note = format!("needs {}, the memory budget is {}", format_bytes(memory_bytes), format_bytes(budget));
            return Ok(Timed { members_at_once: 0, note: Some(note), ..timed });
        }
        if expected > share {
            timed.note = Some(format!(
                "left out: two {units} take about {}, and {} are left for this {row}; a larger <budget> allows it",
                format_seconds(expected),
                format_seconds(share)
            ));
            return Ok(timed);
        }
        let clock = Instant::now();
        match self.unit_time(learner, TIMED * share) {
            Ok(seconds) => timed.unit_s = Some(seconds),
            Err(why) => return Ok(Timed { note: Some(why.to_string()), ..timed }),
        }
        let left = (share - clock.elapsed().as_secs_f64()).max(0.5 * (1.0 - TIMED) * share);
        let most = first.map_or(left, |first| left.min((LOST * first).max(lost_s)));
        match race(most, left) {
            Ok(Arrival::After(seconds)) => {
                timed.planted_s = Some(seconds);
                *first = Some(first.map_or(seconds, |first| first.min(seconds)));
            }
            Ok(Arrival::Not(note)) => timed.note = Some(note),
            Err(why) => timed.note = Some(why.to_string()),
        }
        Ok(timed)
    }

    /// The median time of a unit of work of one member: an update, or an iteration.
    fn unit_time(&self, learner: &dyn Learner, most: f64) -> Result<f64> {
        let endless = learner.with(learner.configs().to_vec(), u32::MAX);
        let mut pacer = Pacer::new(&*endless, &self.at, &self.plan.members[..1])?;
        pacer.advance(1)?;
        let (clock, mut times) = (Instant::now(), Vec::new());
        loop {
            let one = Instant::now();
            pacer.advance(1)?;
            times.push(one.elapsed().as_secs_f64());
            check_stop()?;
            let so_far = clock.elapsed().as_secs_f64();
            if so_far > most || (times.len() >= 5 && so_far > 0.5) {
                times.sort_by(f64::total_cmp);
                return Ok(times[times.len() / 2]);
            }
        }
    }

    /// Trains a member until its validation has reached the target, in basis points a bar, or until it has trained for
    /// so many seconds.
    pub(super) fn race(
        &self,
        learner: &dyn Learner,
        member: MemberKey,
        target: f64,
        most: f64,
        timesteps: usize,
    ) -> Result<Arrival> {
        let at = &self.at;
        let tables = learner.problem().tables(&at.device, at.budget)?;
        let begin = learner.begin(at, &tables, &[member], Pace::default(), &Pins::default());
        let mut training = begin.map_err(failed)?;
        let clock = Instant::now();
        let seconds = || clock.elapsed().as_secs_f64();
        arrival(&mut *training, learner.units(0), target, most, timesteps, &seconds)
    }
}

/// When the validation of a training has reached the target. It is looked at after every unit of work where it can be,
/// and the time of that is off the clock: it is not part of what is compared, and would be the longer the shorter a
/// unit is. `clock` counts seconds from 0.
fn arrival(
    training: &mut dyn Training,
    units: u32,
    target: f64,
    most: f64,
    timesteps: usize,
    clock: &dyn Fn() -> f64,
) -> Result<Arrival> {
    let (mut validating, mut best) = (0.0, f64::NEG_INFINITY);
    loop {
        let progress = training.advance(1).map_err(failed)?.swap_remove(0);
        if let Some(fault) = progress.fault {
            return Ok(Arrival::Not(format!("on the planted market: {fault}")));
        }
        let so_far = clock();
        let spent = so_far - validating;
        let scores = training.validate_all().map_err(failed)?;
        validating += clock() - so_far;
        best = scores.iter().map(|score| score.score).fold(best, f64::max);
        if best >= target {
            return Ok(Arrival::After(spent));
        }
        let seen = || match best.is_finite() {
            true => format!(" (so far {best:.2} of {target:.2} bp a bar)"),
            false => String::new(),
        };
        if spent > most || spent + validating > VALIDATED * most || stop_flag().load(Ordering::Relaxed) {
            let spent = format_seconds(spent);
            return Ok(Arrival::Not(format!("the planted return was not reached in {spent}{}", seen())));
        }
        if !progress.active || progress.unit >= units {
            let all = format_count(timesteps as u64);
            return Ok(Arrival::Not(format!("the planted return was not reached in {all} timesteps{}", seen())));
        }
    }
}

/// How a race ended.
pub(super) enum Arrival {
    After(f64),
    Not(String),
}

impl PlantedMarket {
    /// The growth that is waited for.
    pub(super) fn target_bp(&self) -> f64 {
        REACH * self.growth_bp
    }

    /// A signal that tells the next bar three times of five: enough noise that one update does not find it.
    pub(super) fn new(settings: &Settings, bars: usize) -> Result<PlantedMarket> {
        let plant = Plant { accuracy: 0.6, cost_bp: 1.0, ..Plant::default() };
        let synth = Synth {
            seed: settings.general.seed,
            symbols: 1,
            bars,
            timeframe: Timeframe::H1,
            kind: MarketKind::Crypto,
            plant: Some(plant),
            ..Synth::default()
        };
        let own = market_settings(settings);
        let folder = MarketFolder::new("tune")?;
        let source = folder.read(&synth.make_market(1).market, "planted", Some(COLUMNS.into()), &own)?;
        let splits = split(&source, &own)?;
        Ok(PlantedMarket { source, splits, growth_bp: planted(&plant.optimum()).log_growth_bp })
    }
}

/// What a policy is made of, from the user's settings; what its account and data are, as by default.
pub(super) fn market_settings(settings: &Settings) -> Settings {
    let mut own = Settings::default();
    (own.general, own.classify, own.ppo) = (settings.general.clone(), settings.classify.clone(), settings.ppo.clone());
    own.search = settings.search.clone();
    // Of a whole net the layers: its inputs are others.
    if let Some(layers) = settings.classify.net.as_deref().and_then(|net| net.split('/').nth(1)) {
        own.classify.net = Some(layers.trim().to_string());
    }
    own.evolve = settings.evolve.clone();
    (own.train.learner, own.train.precision) = (settings.train.learner, settings.train.precision);
    (own.train.seeds, own.split.folds) = (SEEDS as usize, Some(1));
    own
}

/// Of rows and their seconds on the planted market those that arrive first, as far as a clock can tell; none where
/// nobody arrives.
pub(super) fn soonest(rows: impl Iterator<Item = (usize, Option<f64>)> + Clone) -> Vec<usize> {
    let first = rows.clone().filter_map(|(_, planted_s)| planted_s).fold(f64::INFINITY, f64::min);
    let near = rows.filter(|(_, planted_s)| planted_s.is_some_and(|seconds| seconds <= AS_SOON * first));
    near.map(|(at, _)| at).collect()
}

/// Takes the quickest of the rows from `begin` on instead of the best so far, where it arrives clearly sooner: nothing
/// else replaces what is known to work. Rows of fewer than `least` updates are not taken.
pub(super) fn take_sooner(rows: &mut [CapacityRow], begin: usize, best: usize, least: usize) -> usize {
    let arrival = |at: usize| rows[at].planted_s.unwrap_or(f64::INFINITY);
    let sooner = |at: &usize| {
        let both = rows[*at].planted_s.zip(rows[best].planted_s);
        rows[*at].updates >= least && both.is_some_and(|(a, b)| AS_SOON * a < b)
    };
    let quickest = (begin..rows.len()).filter(sooner).min_by(|a, b| arrival(*a).total_cmp(&arrival(*b)));
    let Some(at) = quickest else { return best };
    rows[at].chosen = true;
    at
}

/// The smallest of those that arrive first; where none does, the one with the best rate that leaves updates enough.
fn choose(rows: &[CapacityRow]) -> Option<usize> {
    let open = || (0..rows.len()).filter(|at| rows[*at].steps_per_s.is_some() && rows[*at].updates >= UPDATES_LEAST);
    if let Some(at) = soonest(open().map(|at| (at, rows[at].planted_s))).first() {
        return Some(*at);
    }
    let rate = |at: &usize| rows[*at].steps_per_s.unwrap_or(0.0);
    let many = open().filter(|at| rows[*at].updates >= UPDATES).max_by(|a, b| rate(a).total_cmp(&rate(b)));
    many.or_else(|| open().next()).or_else(|| (0..rows.len()).find(|at| rows[*at].steps_per_s.is_some()))
}

/// Why these environments, in a sentence.
fn why(rows: &[CapacityRow], chosen: usize, target: f64) -> String {
    let own = &rows[chosen];
    let envs = |row: &CapacityRow| format_count(row.n_envs as u64);
    let per_s = |row: &CapacityRow| format_count(row.steps_per_s.unwrap_or(0.0).round() as u64);
    let Some(took) = own.planted_s else {
        return format!(
            "no number of environments reached {target:.2} bp a bar on the planted market in its time, so {} is the fastest \
             of those that leave at least {UPDATES} updates ({} steps/s); a larger <budget> waits longer",
            envs(own),
            per_s(own)
        );
    };
    let next = rows.iter().filter(|row| row.n_envs > own.n_envs).find_map(|row| Some((row, row.planted_s?)));
    let next =
        next.map_or(String::new(), |(row, time)| format!("; {} take {:.2} times as long", envs(row), time / took));
    let faster = rows.iter().filter(|row| row.steps_per_s > own.steps_per_s);
    let fastest = faster.max_by(|a, b| a.steps_per_s.unwrap_or(0.0).total_cmp(&b.steps_per_s.unwrap_or(0.0)));
    let fastest = fastest.map_or(String::new(), |row| {
        format!(", though {} make more steps a second ({} against {})", envs(row), per_s(row), per_s(own))
    });
    format!(
        "{} environments are the fewest that reach {target:.2} bp a bar on the planted market within 10 % of the shortest \
         time ({}){next}{fastest}",
        envs(own),
        format_seconds(took)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::{Metrics, Progress, Score, Snapshot};
    use std::cell::Cell;

    /// A training whose units take 1 s each and are worth 1 bp, which is never due; time is what it says.
    struct Slow<'a> {
        unit: u32,
        seconds: &'a Cell<f64>,
        validation: f64,
    }

    impl Training for Slow<'_> {
        fn memory(&self) -> u64 {
            0
        }

        fn kernel_paths(&self) -> Vec<String> {
            Vec::new()
        }

        fn pins(&self) -> Pins {
            Pins::default()
        }

        fn progress(&self) -> Vec<Progress> {
            let (unit, samples) = (self.unit, u64::from(self.unit));
            vec![Progress { id: 0, active: true, due: false, unit, step: unit, samples, fault: None }]
        }

        fn advance(&mut self, at_most: u32) -> compute::Result<Vec<Progress>> {
            self.unit += at_most;
            self.seconds.set(self.seconds.get() + f64::from(at_most));
            Ok(self.progress())
        }

        fn validate(&mut self) -> compute::Result<Vec<Score>> {
            self.seconds.set(self.seconds.get() + self.validation);
            let (unit, metrics) = (self.unit, Metrics::new(&[]));
            Ok(vec![Score { id: 0, unit, step: unit, score: f64::from(unit), metrics }])
        }

        fn validate_all(&mut self) -> compute::Result<Vec<Score>> {
            self.validate()
        }

        fn skip_validation(&mut self) -> compute::Result<()> {
            Ok(())
        }

        fn weights(&mut self, _: u32) -> compute::Result<Vec<f32>> {
            Ok(Vec::new())
        }

        fn snapshot(&mut self, id: u32) -> compute::Result<Snapshot> {
            Ok(Snapshot { id, weights: Vec::new(), bytes: Vec::new() })
        }

        fn restore(&mut self, _: &Snapshot) -> compute::Result<()> {
            Ok(())
        }

        fn adopt(&mut self, _: u32, _: u32) -> compute::Result<()> {
            Ok(())
        }

        fn stop(&mut self, _: u32) -> compute::Result<()> {
            Ok(())
        }
    }

    /// Who arrives is seen after the update in which it does, and the clock is that of training alone; a race ends all
    /// the same where validations take much longer.
    #[test]
    fn arrivals_are_seen_after_each_update_and_timed_without_validations() {
        let race = |validation, target, most, units| {
            let seconds = Cell::new(0.0);
            let mut training = Slow { unit: 0, seconds: &seconds, validation };
            let found = arrival(&mut training, units, target, most, 5000, &|| seconds.get()).unwrap();
            (found, training.unit)
        };
        let (Arrival::After(seconds), 3) = race(7.0, 3.0, 100.0, 100) else { panic!("not after the third update") };
        assert_eq!(seconds, 3.0, "without 21 s of validations");
        let (Arrival::Not(note), unit) = race(7.0, 100.0, 10.0, 100) else { panic!("too far") };
        assert!(unit == 4 && note.contains("not reached in 4.0 s (so far 4.00"), "{note} after {unit} updates");
        let (Arrival::Not(note), 4) = race(0.0, 100.0, 1e3, 4) else { panic!("too few updates") };
        assert!(note.contains("in 5,000 timesteps (so far 4.00 of 100.00 bp a bar)"), "{note}");
    }

    /// Environments, steps a second and seconds to the return; 128 steps each.
    fn rows(all: &[(usize, f64, f64)]) -> Vec<CapacityRow> {
        let some = |x: f64| (x > 0.0).then_some(x);
        let row = |(n_envs, rate, planted): &(usize, f64, f64)| CapacityRow {
            what: "n_envs",
            n_envs: *n_envs,
            n_steps: 128,
            batch_size: 16 * n_envs,
            updates: 2_000_000usize.div_ceil(128 * n_envs),
            members_at_once: 4,
            memory_bytes: 1,
            steps_per_s: some(*rate),
            update_s: some(128.0 * *n_envs as f64 / rate),
            planted_s: some(*planted),
            chosen: false,
            note: None,
        };
        all.iter().map(row).collect()
    }

    #[test]
    fn the_soonest_arrival_is_chosen_and_not_the_best_rate() {
        let check = |all: &[(usize, f64, f64)], envs: Option<usize>, part: &str| {
            let rows = rows(all);
            let chosen = choose(&rows);
            assert_eq!(chosen.map(|at| rows[at].n_envs), envs, "{all:?}");
            let text = chosen.map_or(String::new(), |at| why(&rows, at, 3.9));
            assert!(text.contains(part), "{part}: {text}");
        };
        let fast = [(16, 1e5, 3.0), (64, 2e5, 1.0), (1024, 9e5, 1.4)];
        check(&fast, Some(64), "1,024 take 1.40 times as long, though 1,024 make more steps a second");
        // Within a tenth the smaller is taken.
        check(&[(16, 1e5, 1.05), (64, 2e5, 1.0), (256, 1e5, 2.0)], Some(16), "the fewest");
        // 16,384 environments leave one update, and 4,096 four.
        check(&[(64, 1e5, 9.0), (4096, 9e5, 2.0), (16_384, 1e6, 1.0)], Some(64), "64 environments");
        // Nobody arrived: by rate, of those with 64 updates; 256 have 62.
        check(&[(64, 1e5, 0.0), (128, 3e5, 0.0), (256, 9e5, 0.0)], Some(128), "no number of environments");
        check(&[(256, 1e5, 0.0), (1024, 3e5, 0.0)], Some(256), "no number of environments");
        check(&[(16_384, 1e5, 0.0)], Some(16_384), "no number of environments");
        check(&[(64, 0.0, 0.0)], None, "");
    }
}
