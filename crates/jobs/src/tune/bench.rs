//! Timing: steps of the real net on the real data, for batch, precision, threads and members at once.

use super::table::{BatchValue, Size, batches, others, table};
use super::{Capacity, SearchCapacity, TuneOther, TuneRow, TunedRecipe};
use crate::progress::{Sink, Update, check_stop, stop_flag};
use crate::train::{Source, parameters};
use crate::{Settings, home};
use compute::population::{Pace, Precision, Recipe};
use compute::{Device, Opened};
use files::{Error, Kind, Result};
use learn::{Config, DeviceBudget, Learner, Noise, NoisePhase, NoiseSpec, Pacer, Plan, failed};
use machine::{Candidate, Profile, StartSettings, StepKind, Timer, Tuner, flops_per_sample, nearest_index};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Steps of training before gradients are looked at.
const WARM_UP: u32 = 300;
/// Rows of the batches whose gradients are looked at, and how many of them at most.
const ROWS: usize = 64;
const GRADIENTS: u32 = 512;
/// Fewer of them make a rough scale.
const FEW: u32 = 64;
/// Timed work should last so long: shorter is the clock's, longer is wasted.
const ONE_RUN: f64 = 0.02;

/// What was seen, and what came of it.
pub(super) struct Found {
    pub(super) noise: Option<Noise>,
    pub(super) rows: Vec<TuneRow>,
    pub(super) others: Vec<TuneOther>,
    pub(super) recipe: TunedRecipe,
    pub(super) why: String,
    pub(super) capacity: Option<Capacity>,
    pub(super) search: Option<SearchCapacity>,
    /// As the tuner saw them.
    pub(super) seen: Vec<machine::CandidateRow>,
}

impl Found {
    /// What was chosen, and why; the tables of its learner are added.
    pub(super) fn new(recipe: TunedRecipe, why: String, others: Vec<TuneOther>) -> Found {
        let (rows, seen) = (Vec::new(), Vec::new());
        Found { noise: None, rows, others, recipe, why, capacity: None, search: None, seen }
    }
}

/// Everything a measurement needs.
pub(super) struct Bench<'a> {
    pub(super) settings: &'a Settings,
    pub(super) plan: Plan,
    pub(super) learner: Box<dyn Learner>,
    pub(super) smallest_fold: usize,
    pub(super) at: DeviceBudget,
    pub(super) start: StartSettings,
    pub(super) began: Instant,
    pub(super) most: Duration,
}

impl Bench<'_> {
    /// Batch, precision, threads and members at once of learners that go by batches.
    pub(super) fn best_batch(
        &mut self,
        source: &Source,
        tuner: &Tuner<'_>,
        machine: &str,
        notes: &mut Vec<String>,
        sink: Sink<'_>,
    ) -> Result<Found> {
        let noise = self.noise(sink)?;
        check_stop()?;
        let scale = noise.as_ref().and_then(Noise::scale);
        if let Some(noise) = noise.filter(|noise| noise.warm_up < WARM_UP) {
            notes.push(format!(
                "the net was trained for {} steps of {WARM_UP} before its gradients were looked at: a larger <budget> allows more",
                noise.warm_up
            ));
        }
        let few =
            |noise: &Noise| noise.batches < FEW && (noise.batches as usize + 1) * noise.batch <= self.smallest_fold;
        if let Some(noise) = noise.filter(few) {
            notes.push(format!(
                "the noise scale comes from {} batches only and is rough: a larger <budget> allows more",
                noise.batches
            ));
        }
        let mut others = self.precision(tuner, sink)?;
        let learner = self.with(self.first(), self.config().recipe.precision);
        let members = self.timed(self.group(&*learner)?.0);
        let (found, threads) = self.threads(tuner, Some(self.start.threads), sink, |bench, device, timer| {
            bench.time(&*learner, device, members, timer, 0.6)
        })?;
        others.extend(found);
        let (mut rows, seen) = self.batches(tuner, BatchValue::new(scale, self.smallest_fold), sink)?;
        let chosen = rows.iter().find(|r| r.chosen).map(|r| r.batch);
        let chosen = chosen.ok_or_else(|| nothing_fits(rows.iter().find_map(|r| r.note.clone())))?;
        self.learner = self.with(chosen, self.config().recipe.precision);
        let rate = rows.iter().find(|r| r.chosen).and_then(|r| r.samples_per_s).unwrap_or(1.0);
        let (found, members_at_once) = self.members(tuner, rate, self.config().recipe.batch, sink)?;
        others.extend(found);
        check_stop()?;
        let limit = limit(machine, &self.at.device, self.config().recipe.precision);
        let flops =
            compute::net::Layout::new(&source.nets[0]).map_or(0.0, |layout| flops_per_sample(&layout, StepKind::Train));
        rows.iter_mut().for_each(|r| r.share_of_limit = r.samples_per_s.zip(limit).map(|(s, limit)| s * flops / limit));
        if limit.is_none() {
            notes.push("the share of the device's limit is not known: `fullbore probe` measures it".into());
        }
        let recipe = TunedRecipe::new(&self.config().recipe, members_at_once);
        let recipe = TunedRecipe { threads, noise_scale: scale, ..recipe };
        let why = why(&rows, noise.as_ref());
        Ok(Found { noise, rows, seen, ..Found::new(recipe, why, others) })
    }

    /// The one config that is tuned.
    pub(super) fn config(&self) -> &Config {
        &self.learner.configs()[0]
    }

    /// The same learner with another batch and precision.
    fn with(&self, batch: usize, precision: Precision) -> Box<dyn Learner> {
        let Config { net, recipe, .. } = self.config().clone();
        let config = Config { net, recipe: Recipe { batch, precision, ..recipe }, rate: self.rate(batch) };
        self.learner.with(vec![config], self.learner.extent().units)
    }

    /// The learning rate that goes with a batch.
    fn rate(&self, batch: usize) -> f32 {
        self.settings.train.learner.kind().rate(self.settings, batch)
    }

    /// Whether this part of the time is over, or the user has had enough.
    pub(super) fn over(&self, part: f64) -> bool {
        self.began.elapsed().as_secs_f64() > part * self.most.as_secs_f64() || stop_flag().load(Ordering::Relaxed)
    }

    fn noise(&self, sink: Sink<'_>) -> Result<Option<Noise>> {
        sink(Update { phase: "measuring gradients", done: 0, total: 0, unit: "" });
        let spec = NoiseSpec { warm_up: WARM_UP, batch: ROWS, batches: GRADIENTS, rate: self.rate(ROWS) };
        let enough = |phase: NoisePhase| match phase {
            NoisePhase::WarmUp => self.over(0.25),
            NoisePhase::Gradients => self.over(0.45),
        };
        self.learner.noise(&self.plan.members, &self.at, &spec, &enough)
    }

    /// The batch to begin with on such a machine.
    fn first(&self) -> usize {
        let net = &self.config().net;
        let wanted = self.start.batch(net.to_string().contains("lstm"), parameters(net));
        let sizes: Vec<usize> = batches(self.smallest_fold).collect();
        sizes[nearest_index(&sizes, wanted)]
    }

    /// Bytes of the first members with whole batches, tables included.
    pub(super) fn needs(&self, learner: &dyn Learner, members: usize) -> Result<u64> {
        let own = learner.needs(&self.at.device, &self.plan.members[..members], Pace::default()).map_err(failed)?;
        Ok(own + learner.problem().tables_need(&self.at.device))
    }

    /// As many members as fit with a batch, by halving, and what they take.
    pub(super) fn group(&self, learner: &dyn Learner) -> Result<(usize, u64)> {
        let most = self.at.bytes(self.learner.problem())?;
        let mut members = self.plan.members.len();
        loop {
            let bytes = self.needs(learner, members)?;
            if bytes <= most || members == 1 {
                return Ok((members, bytes));
            }
            members = members.div_ceil(2);
        }
    }

    /// Members that are timed: on a card all that fit; on a processor one a thread, since more only wait.
    fn timed(&self, members: usize) -> usize {
        match self.at.device {
            Opened::Cpu { threads } => members.min(threads),
            Opened::Cuda(_) => members,
        }
    }

    /// Times steps of the first members, unless that part of the time is over.
    pub(super) fn time(
        &self,
        learner: &dyn Learner,
        device: &Opened,
        members: usize,
        timer: &mut Timer<'_>,
        until: f64,
    ) -> Result<()> {
        if self.over(until) {
            return Err(late());
        }
        self.time_units(learner, device, members, timer, &|rows| rows)
    }

    /// The same whenever it is; `units` makes of the rows what is counted.
    fn time_units(
        &self,
        learner: &dyn Learner,
        device: &Opened,
        members: usize,
        timer: &mut Timer<'_>,
        units: &dyn Fn(f64) -> f64,
    ) -> Result<()> {
        // They never end: a clock wants all of them.
        let endless = learner.with(learner.configs().to_vec(), u32::MAX);
        let at = DeviceBudget { device: device.clone(), budget: self.at.budget };
        let mut pacer = Pacer::new(&*endless, &at, &self.plan.members[..members])?;
        let mut one = 0.0;
        for _ in 0..2 {
            let clock = Instant::now();
            pacer.advance(1)?;
            one = clock.elapsed().as_secs_f64();
            if one > ONE_RUN {
                break;
            }
        }
        let steps = (ONE_RUN / one.max(1e-9)).clamp(1.0, 256.0) as u32;
        timer.time(|| {
            check_stop()?;
            Ok(units(pacer.advance(steps)? as f64))
        })
    }

    /// f32 or bf16, on a card where nobody chose: bf16 only where it is clearly faster.
    fn precision(&mut self, tuner: &Tuner<'_>, sink: Sink<'_>) -> Result<Vec<TuneOther>> {
        if self.settings.train.precision.is_some() || matches!(self.at.device, Opened::Cpu { .. }) {
            return Ok(Vec::new());
        }
        sink(Update { phase: "timing precisions", done: 0, total: 0, unit: "" });
        let mut candidates = Vec::new();
        for (label, precision) in [("f32", Precision::F32), ("bf16", Precision::Bf16)] {
            let learner = self.with(self.first(), precision);
            let (members, bytes) = self.group(&*learner)?;
            candidates.push(Candidate { label: label.into(), bytes, config: (learner, members) });
        }
        let (rows, chosen) = others(tuner, "precision", &candidates, 1, 0, |(learner, members), timer| {
            self.time(&**learner, &self.at.device, *members, timer, 0.6)
        });
        check_stop()?;
        self.learner = candidates.swap_remove(chosen).config.0;
        Ok(rows)
    }

    /// Threads of the processor, where nobody chose: those of `start` first, or else all.
    pub(super) fn threads(
        &mut self,
        tuner: &Tuner<'_>,
        start: Option<usize>,
        sink: Sink<'_>,
        time: impl Fn(&Bench<'_>, &Opened, &mut Timer<'_>) -> Result<()>,
    ) -> Result<(Vec<TuneOther>, Option<usize>)> {
        let Opened::Cpu { threads: all } = self.at.device else { return Ok((Vec::new(), None)) };
        if self.settings.general.threads.is_some() || all == 1 {
            return Ok((Vec::new(), None));
        }
        sink(Update { phase: "timing threads", done: 0, total: 0, unit: "" });
        let start = start.unwrap_or(all);
        let mut counts = doublings(all);
        counts.push(start.min(all));
        counts.sort_unstable();
        counts.dedup();
        let candidates: Vec<Candidate<usize>> =
            counts.iter().map(|n| Candidate { label: n.to_string(), bytes: 0, config: *n }).collect();
        let begin = nearest_index(&counts, start);
        let (rows, chosen) = others(tuner, "threads", &candidates, begin, counts.len() - 1, |threads, timer| {
            time(self, &Opened::Cpu { threads: *threads }, timer)
        });
        check_stop()?;
        self.at.device = Opened::Cpu { threads: counts[chosen] };
        Ok((rows, (counts[chosen] != all).then_some(counts[chosen])))
    }

    /// The table of batches, and the rows as the tuner saw them.
    fn batches(
        &self,
        tuner: &Tuner<'_>,
        value: BatchValue,
        sink: Sink<'_>,
    ) -> Result<(Vec<TuneRow>, Vec<machine::CandidateRow>)> {
        let mut sizes = Vec::new();
        for batch in batches(self.smallest_fold) {
            let (members, bytes) = self.group(&*self.with(batch, self.config().recipe.precision))?;
            sizes.push(Size { batch, members, bytes });
        }
        let (mut done, total) = (0, sizes.len() as u64);
        let (rows, _, seen) = table(tuner, &sizes, self.first(), value, |size, timer, helps| {
            sink(Update { phase: "timing batches", done, total, unit: "" });
            // The first is timed however late it is: there has to be something to choose.
            if done > 0 && self.over(0.9) {
                return Err(late());
            }
            done += 1;
            let learner = self.with(size.batch, self.config().recipe.precision);
            self.time_units(&*learner, &self.at.device, self.timed(size.members), timer, helps)
        });
        check_stop()?;
        Ok((rows, seen))
    }

    /// Members at once with the chosen batch: as many as fit, unless fewer are clearly faster.
    /// `rate` are samples a second and `samples` those of a step, of one member.
    pub(super) fn members(
        &self,
        tuner: &Tuner<'_>,
        rate: f64,
        samples: usize,
        sink: Sink<'_>,
    ) -> Result<(Vec<TuneOther>, Option<usize>)> {
        let (all, _) = self.group(&*self.learner)?;
        if all == 1 {
            return Ok((Vec::new(), None));
        }
        sink(Update { phase: "timing members at once", done: 0, total: 0, unit: "" });
        let counts = doublings(all);
        let mut candidates = Vec::new();
        for n in &counts {
            let bytes = self.needs(&*self.learner, *n)?;
            candidates.push(Candidate { label: n.to_string(), bytes, config: *n });
        }
        let begin = nearest_index(&counts, self.start.members);
        let (rows, chosen) =
            others(tuner, "members at once", &candidates, begin, counts.len() - 1, |members, timer| {
                // Two steps before the clock, one that warms up and one that counts.
                let need = 4.0 * (members * samples) as f64 / rate;
                if self.began.elapsed().as_secs_f64() + need > self.most.as_secs_f64() {
                    return Err(late());
                }
                self.time_units(&*self.learner, &self.at.device, *members, timer, &|rows| rows)
            });
        check_stop()?;
        // Where everyone could not be timed, nothing is known to be better.
        let known = rows.last().is_some_and(|r| r.samples_per_s.is_some());
        let fewer = (known && chosen + 1 < counts.len()).then(|| counts[chosen]);
        Ok((if known { rows } else { Vec::new() }, fewer))
    }
}

/// The powers of two below a number, and the number.
fn doublings(all: usize) -> Vec<usize> {
    (0..).map(|i| 1 << i).take_while(|n| *n < all).chain([all]).collect()
}

/// What large matrix products reach on this device, where `probe` has measured it.
fn limit(machine: &str, device: &Opened, precision: Precision) -> Option<f64> {
    let profile = Profile::load(&home().ok()?, machine).ok()??;
    match device.device() {
        // Products of bf16 are not part of a profile.
        Device::Cpu { .. } if precision == Precision::Bf16 && compute::cpu_rate::multiplies_bf16() => None,
        Device::Cpu { .. } => Some(profile.cpu_rates.product_all_threads_flop_per_s),
        Device::Cuda { index } => {
            let rates = &profile.gpus.iter().find(|g| g.index == index)?.rates;
            match precision {
                Precision::F32 => rates.f32_flop_per_s,
                Precision::Tf32 => rates.tf32_flop_per_s,
                Precision::Bf16 => rates.bf16_flop_per_s,
            }
        }
    }
    .filter(|limit| *limit > 0.0)
}

/// Said of what there was no time for.
pub(super) fn late() -> Error {
    Error::new(Kind::Machine, "not timed: the budget was used up; a larger <budget> allows it")
}

/// Nothing could be timed, for this reason.
pub(super) fn nothing_fits(why: Option<String>) -> Error {
    let why = why.unwrap_or_else(|| "there was none to try".into());
    Error::new(Kind::Machine, format!("no batch could be timed: {why}"))
        .remedy("use a larger <memory> or <budget>, or a smaller net")
}

/// Why this batch, in a sentence.
fn why(rows: &[TuneRow], noise: Option<&Noise>) -> String {
    let Some(chosen) = rows.iter().find(|r| r.chosen) else { return String::new() };
    let batch = chosen.batch;
    let larger = rows.iter().find(|r| r.batch > batch && r.relative_time.is_some());
    let next = larger.and_then(|r| Some((r.batch, r.relative_time? / chosen.relative_time?)));
    let against = next.map_or(String::new(), |(batch, time)| format!("; {batch} would take {time:.2} times as long"));
    let cap =
        "the smallest batch with the best throughput, of those with at most 3072 rows and at least 32 steps per epoch";
    let Some(noise) = noise else { return format!("{batch} is {cap}") };
    match noise.scale() {
        Some(scale) if scale < batch as f64 => format!(
            "the gradient noise scale is about {scale:.0} rows, less than the smallest batch that is tried, so {batch} is chosen"
        ),
        Some(scale) => format!(
            "the gradient noise scale is about {scale:.0} rows; larger batches hardly help. Of the smaller ones, {batch} is the \
             smallest that is predicted to reach the same loss within 3 % of the fastest{against}"
        ),
        None => {
            let reason = if noise.gradient_squared <= 0.0 {
                "the estimate of |G|² is negative"
            } else {
                "the estimate of |G|² lies within its error"
            };
            let least = noise.at_least().map_or(String::new(), |n| format!(" (it is at least about {n:.0} rows)"));
            format!(
                "the gradient cannot be distinguished from noise ({reason}), so the noise scale is unknown{least}: {batch} is {cap}"
            )
        }
    }
}
