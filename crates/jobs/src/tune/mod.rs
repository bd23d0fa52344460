//! `tune`: which batch, precision, threads and members at once suit a workload on this machine, without training it.
//!
//! It reads as `train` does, looks at the gradient noise scale of this net on these data, times real steps of the real
//! net, and keeps what it chose at home, where `train` finds it. Batch and precision are recipe: they change bits, so a
//! run takes them from here or from a fixed rule and writes down which. Threads and members at once are pace and change
//! none.

mod saved;
mod table;

pub use saved::TunedRecipe;
pub(crate) use saved::{Tuned, find};
pub use table::{TuneOther, TuneRow};

use crate::progress::{Sink, Update, check_stop, stop_flag};
use crate::train::{Learner, Source, Train, choose, classify, memory, parameters, read, split};
use crate::{Select, Settings, home};
use compute::population::{Precision, Recipe, Score};
use compute::{Budget, Choice, Device, Opened};
use files::{Error, Kind, Result};
use learn::classify::{Classify, Look, Looking, Noise, Paced, Plan, noise, plan};
use learn::failed;
use machine::{
    Candidate, Profile, StartSettings, StepKind, SystemClock, Timer, TimingLimits, Tuner, flops_per_sample,
    machine_key, nearest_index, start_settings_here,
};
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use table::{Size, Worth, batches, others, table};

/// What to tune for; how is in the settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Tune {
    /// What to read.
    pub select: Select,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
    /// About so long at most, reading apart.
    pub budget: Duration,
}

impl Tune {
    /// Where nobody says how long.
    pub const BUDGET: Duration = Duration::from_secs(20);
}

/// What was seen and chosen.
#[derive(Debug, Clone, Serialize)]
pub struct TuneRun {
    /// What was read.
    pub data: String,
    /// `lstm` or `mlp`.
    pub learner: Learner,
    /// As text.
    pub net: String,
    /// Of one member.
    pub parameters: u64,
    /// Rows with a label and whole windows.
    pub samples: u64,
    /// Of them, those that the smallest fold trains on.
    pub smallest_fold: u64,
    /// In words.
    pub device: String,
    /// Bytes that may be taken there.
    pub budget_bytes: u64,
    /// Which starting point the tuner began at.
    pub start: String,
    /// How gradients scatter.
    pub noise: Noise,
    /// The noise scale in rows; null where the gradient cannot be told from nothing.
    pub noise_scale: Option<f64>,
    /// What the noise scale is at least; null where nothing can be said.
    pub noise_scale_at_least: Option<f64>,
    /// One for each batch.
    pub rows: Vec<TuneRow>,
    /// Precision, threads and members at once, where there was a choice.
    pub others: Vec<TuneOther>,
    /// What later runs take.
    pub chosen: TunedRecipe,
    /// The learning rate that goes with the batch.
    pub rate: f64,
    /// Where that comes from.
    pub rate_rule: &'static str,
    /// The batch that runs take where nothing was tuned.
    pub rule_batch: usize,
    /// Why this batch, in a sentence.
    pub why: String,
    /// The file it is kept in.
    pub file: String,
    /// When, RFC 3339 UTC.
    pub tuned_at: String,
    /// Without reading.
    pub seconds: f64,
    /// What there is to know.
    pub notes: Vec<String>,
}

impl TuneRun {
    /// The learning rate, in a sentence.
    pub fn rate_words(&self) -> String {
        format!("the learning rate with it is {:.2e}: {}", self.rate, self.rate_rule)
    }
}

/// Steps of training before gradients are looked at.
const WARM_UP: u32 = 300;
/// Rows of the batches whose gradients are looked at, and how many of them at most.
const ROWS: usize = 64;
const GRADIENTS: u32 = 512;
/// Fewer of them make a rough scale.
const FEW: u32 = 64;
/// Timed work should last so long: shorter is the clock's, longer is wasted.
const ONE_RUN: f64 = 0.02;

/// Tunes, and keeps what it chose.
pub fn tune(request: &Tune, settings: &Settings, sink: Sink<'_>) -> Result<TuneRun> {
    let mut settings = settings.clone();
    let mut notes = Vec::new();
    if !settings.train.candidates.is_empty() {
        let (words, first) = settings.configs().swap_remove(0);
        notes.push(format!("of what is tried, the first config is tuned for: {words}"));
        settings = first;
    }
    if let Some(batch) = settings.classify.batch.take() {
        notes.push(format!("train.batch = {batch} of the settings was left aside: the batch is what is tuned"));
    }
    let reading =
        Train { select: request.select.clone(), set: None, device: request.device.clone(), ..Train::default() };
    let source = read(&reading, &settings, sink)?;
    notes.extend(source.notes.iter().cloned());
    let choice: Choice = request.device.parse().map_err(|e: compute::Error| Error::new(Kind::Usage, e.to_string()))?;
    let (device, said) = Opened::new(choice, settings.threads()).map_err(failed)?;
    let budget = memory(&settings, &device);
    let splits = split(&source, &settings)?;
    let worth = |_: &Score| 0.0;
    let how = classify(&source, &splits, &settings, &device, &worth);
    let laid = plan(&source.problem, &splits.folds, &how, &device, budget)?;
    let machine = machine_key();
    let card = match device.device() {
        Device::Cpu { .. } => None,
        Device::Cuda { index } => Some(index),
    };
    let mut bench = Bench {
        source: &source,
        settings: &settings,
        plan: laid,
        how,
        device,
        budget,
        start: start_settings_here(card),
        began: Instant::now(),
        most: request.budget,
    };

    let noise = bench.noise(sink)?;
    check_stop()?;
    let scale = noise.scale();
    if noise.warm_up < WARM_UP {
        notes.push(format!(
            "the net was trained for {} steps of {WARM_UP} before its gradients were looked at: a larger --budget allows more",
            noise.warm_up
        ));
    }
    if noise.batches < FEW && (noise.batches as usize + 1) * noise.batch <= bench.plan.fewest() {
        notes.push(format!(
            "the noise scale comes from {} batches only and is rough: a larger --budget allows more",
            noise.batches
        ));
    }
    let clock = SystemClock::default();
    let bytes = budget.bytes(bench.device.free().map_err(failed)?);
    let tuner = Tuner {
        memory: None,
        machine: machine.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        budget: bytes,
        fresh: true,
        limits: TimingLimits {
            warm_ups: 1,
            min_repeats: 5,
            max_time: (request.budget / 60).clamp(Duration::from_millis(20), Duration::from_millis(500)),
            ..TimingLimits::default()
        },
        clock: &clock,
    };
    let mut others = bench.precision(&tuner, sink)?;
    let (found, threads) = bench.threads(&tuner, sink)?;
    others.extend(found);
    let (mut rows, seen) = bench.batches(&tuner, Worth::new(scale, bench.plan.fewest()), sink)?;
    let chosen = rows.iter().find(|r| r.chosen).map(|r| r.batch).ok_or_else(|| nothing(&rows))?;
    bench.how = bench.with(chosen, bench.how.recipe.precision);
    let (found, members_at_once) = bench.members(&tuner, &rows, sink)?;
    others.extend(found);
    check_stop()?;
    let limit = limit(&machine, &bench.device, bench.how.recipe.precision);
    let flops = compute::net::Layout::new(&source.net).map_or(0.0, |layout| flops_per_sample(&layout, StepKind::Train));
    rows.iter_mut().for_each(|r| r.share_of_limit = r.samples_per_s.zip(limit).map(|(s, limit)| s * flops / limit));
    if limit.is_none() {
        notes.push("the share of the device's limit is not known: `fullbore probe` measures it".into());
    }

    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
    let recipe = TunedRecipe {
        batch: chosen,
        precision: bench.how.recipe.precision,
        threads,
        members_at_once,
        noise_scale: scale,
    };
    let tuned = Tuned { at: files::time::rfc3339(now), recipe };
    let workload = saved::workload(&source, &settings, &bench.device);
    let file = saved::keep(machine, workload, &tuned, seen, &mut notes)?;
    Ok(TuneRun {
        data: source.path.display().to_string(),
        learner: settings.train.learner,
        net: source.net.to_string(),
        parameters: parameters(&source.net),
        samples: source.problem.samples.len() as u64,
        smallest_fold: bench.plan.fewest() as u64,
        device: said,
        budget_bytes: bytes,
        start: bench.start.source.clone(),
        noise,
        noise_scale: scale,
        noise_scale_at_least: noise.at_least(),
        why: why(&rows, &noise),
        rows,
        others,
        chosen: tuned.recipe,
        rate: f64::from(bench.how.rate),
        rate_rule: match settings.classify.rate {
            Some(_) => "as the settings say, whatever the batch",
            None => "1e-3 at batches of 512, with the root of the batch, between a quarter and four times that",
        },
        rule_batch: choose::batch(bench.plan.fewest()),
        file: file.display().to_string(),
        tuned_at: tuned.at,
        seconds: bench.began.elapsed().as_secs_f64(),
        notes,
    })
}

/// Everything a measurement needs.
struct Bench<'a> {
    source: &'a Source,
    settings: &'a Settings,
    plan: Plan,
    how: Classify<'a>,
    device: Opened,
    budget: Budget,
    start: StartSettings,
    began: Instant,
    most: Duration,
}

impl<'a> Bench<'a> {
    /// The same training with another batch and precision.
    fn with(&self, batch: usize, precision: Precision) -> Classify<'a> {
        let recipe = Recipe { batch, precision, ..self.how.recipe };
        Classify { recipe, rate: choose::rate(&self.settings.classify, batch), ..self.how.clone() }
    }

    /// Whether this part of the time is over, or the user has had enough.
    fn over(&self, part: f64) -> bool {
        self.began.elapsed().as_secs_f64() > part * self.most.as_secs_f64() || stop_flag().load(Ordering::Relaxed)
    }

    fn noise(&self, sink: Sink<'_>) -> Result<Noise> {
        sink(Update { phase: "looking at gradients", done: 0, total: 0, unit: "" });
        let rate = choose::rate(&self.settings.classify, ROWS);
        let look = Look { warm_up: WARM_UP, batch: ROWS, batches: GRADIENTS, rate };
        let enough = |looking: Looking| match looking {
            Looking::WarmUp => self.over(0.25),
            Looking::Gradients => self.over(0.45),
        };
        noise(&self.source.problem, &self.plan, &self.how, &self.device, self.budget, &look, &enough)
    }

    /// The batch to begin with on such a machine.
    fn first(&self) -> usize {
        let recurrent = self.how.net.to_string().contains("lstm");
        let wanted = self.start.batch(recurrent, parameters(&self.how.net));
        let sizes: Vec<usize> = batches(self.plan.fewest()).collect();
        sizes[nearest_index(&sizes, wanted)]
    }

    /// As many members as fit with a batch, by halving, and what they take.
    fn group(&self, how: &Classify<'_>) -> Result<(usize, u64)> {
        let most = self.budget.bytes(self.device.free().map_err(failed)?);
        let mut members = self.plan.members();
        loop {
            let bytes = self.plan.need(&self.source.problem, how, &self.device, 0..members)?;
            if bytes <= most || members == 1 {
                return Ok((members, bytes));
            }
            members = members.div_ceil(2);
        }
    }

    /// Members that are timed: on a card all that fit; on a processor one a thread, since more only wait.
    fn timed(&self, members: usize) -> usize {
        match self.device {
            Opened::Cpu { threads } => members.min(threads),
            Opened::Cuda(_) => members,
        }
    }

    /// Times steps of the first members; `units` makes of the rows what is counted.
    fn time(
        &self,
        how: &Classify<'_>,
        device: &Opened,
        members: usize,
        timer: &mut Timer<'_>,
        units: &dyn Fn(f64) -> f64,
    ) -> Result<()> {
        let problem = &self.source.problem;
        let mut paced = Paced::new(problem, &self.plan, how, device, self.budget, 0..members)?;
        let mut one = 0.0;
        for _ in 0..2 {
            let clock = Instant::now();
            paced.steps(1)?;
            one = clock.elapsed().as_secs_f64();
            if one > ONE_RUN {
                break;
            }
        }
        let steps = (ONE_RUN / one.max(1e-9)).clamp(1.0, 256.0) as u32;
        timer.time(|| {
            check_stop()?;
            Ok(units(paced.steps(steps)? as f64))
        })
    }

    /// f32 or bf16, on a card where nobody chose: bf16 only where it is clearly faster.
    fn precision(&mut self, tuner: &Tuner<'_>, sink: Sink<'_>) -> Result<Vec<TuneOther>> {
        if self.settings.train.precision.is_some() || matches!(self.device, Opened::Cpu { .. }) {
            return Ok(Vec::new());
        }
        sink(Update { phase: "timing precisions", done: 0, total: 0, unit: "" });
        let mut candidates = Vec::new();
        for (label, precision) in [("f32", Precision::F32), ("bf16", Precision::Bf16)] {
            let how = self.with(self.first(), precision);
            let (members, bytes) = self.group(&how)?;
            candidates.push(Candidate { label: label.into(), bytes, config: (how, members) });
        }
        let (rows, chosen) = others(tuner, "precision", &candidates, 1, 0, |(how, members), timer| {
            if self.over(0.6) {
                return Err(late());
            }
            self.time(how, &self.device, *members, timer, &|rows| rows)
        });
        check_stop()?;
        self.how = candidates.swap_remove(chosen).config.0;
        Ok(rows)
    }

    /// Threads of the processor, where nobody chose.
    fn threads(&mut self, tuner: &Tuner<'_>, sink: Sink<'_>) -> Result<(Vec<TuneOther>, Option<usize>)> {
        let Opened::Cpu { threads: all } = self.device else { return Ok((Vec::new(), None)) };
        if self.settings.general.threads.is_some() || all == 1 {
            return Ok((Vec::new(), None));
        }
        sink(Update { phase: "timing threads", done: 0, total: 0, unit: "" });
        let mut counts: Vec<usize> = (0..).map(|i| 1 << i).take_while(|n| *n < all).collect();
        counts.extend([self.start.threads.min(all), all]);
        counts.sort_unstable();
        counts.dedup();
        let how = self.with(self.first(), self.how.recipe.precision);
        let members = self.group(&how)?.0.min(all);
        let candidates: Vec<Candidate<usize>> =
            counts.iter().map(|n| Candidate { label: n.to_string(), bytes: 0, config: *n }).collect();
        let begin = nearest_index(&counts, self.start.threads);
        let (rows, chosen) = others(tuner, "threads", &candidates, begin, counts.len() - 1, |threads, timer| {
            if self.over(0.6) {
                return Err(late());
            }
            self.time(&how, &Opened::Cpu { threads: *threads }, members, timer, &|rows| rows)
        });
        check_stop()?;
        self.device = Opened::Cpu { threads: counts[chosen] };
        Ok((rows, (counts[chosen] != all).then_some(counts[chosen])))
    }

    /// The table of batches, and the rows as the tuner saw them.
    fn batches(
        &self,
        tuner: &Tuner<'_>,
        worth: Worth,
        sink: Sink<'_>,
    ) -> Result<(Vec<TuneRow>, Vec<machine::CandidateRow>)> {
        let mut sizes = Vec::new();
        for batch in batches(self.plan.fewest()) {
            let (members, bytes) = self.group(&self.with(batch, self.how.recipe.precision))?;
            sizes.push(Size { batch, members, bytes });
        }
        let (mut done, total) = (0, sizes.len() as u64);
        let (rows, _, seen) = table(tuner, &sizes, self.first(), worth, |size, timer, helps| {
            sink(Update { phase: "timing batches", done, total, unit: "" });
            // The first is timed however late it is: there has to be something to choose.
            if done > 0 && self.over(0.9) {
                return Err(late());
            }
            done += 1;
            let how = self.with(size.batch, self.how.recipe.precision);
            self.time(&how, &self.device, self.timed(size.members), timer, helps)
        });
        check_stop()?;
        Ok((rows, seen))
    }

    /// Members at once with the chosen batch: as many as fit, unless fewer are clearly faster.
    fn members(&self, tuner: &Tuner<'_>, rows: &[TuneRow], sink: Sink<'_>) -> Result<(Vec<TuneOther>, Option<usize>)> {
        let (all, _) = self.group(&self.how)?;
        if all == 1 {
            return Ok((Vec::new(), None));
        }
        sink(Update { phase: "timing members at once", done: 0, total: 0, unit: "" });
        let mut counts: Vec<usize> = (0..).map(|i| 1 << i).take_while(|n| *n < all).collect();
        counts.push(all);
        let rate = rows.iter().find(|r| r.chosen).and_then(|r| r.samples_per_s).unwrap_or(1.0);
        let mut candidates = Vec::new();
        for n in &counts {
            let bytes = self.plan.need(&self.source.problem, &self.how, &self.device, 0..*n)?;
            candidates.push(Candidate { label: n.to_string(), bytes, config: *n });
        }
        let begin = nearest_index(&counts, self.start.members);
        let (rows, chosen) =
            others(tuner, "members at once", &candidates, begin, counts.len() - 1, |members, timer| {
                // Two steps before the clock, one that warms up and one that counts.
                let need = 4.0 * (members * self.how.recipe.batch) as f64 / rate;
                if self.began.elapsed().as_secs_f64() + need > self.most.as_secs_f64() {
                    return Err(late());
                }
                self.time(&self.how, &self.device, *members, timer, &|rows| rows)
            });
        check_stop()?;
        // Where everyone could not be timed, nothing is known to be better.
        let known = rows.last().is_some_and(|r| r.samples_per_s.is_some());
        let fewer = (known && chosen + 1 < counts.len()).then(|| counts[chosen]);
        Ok((if known { rows } else { Vec::new() }, fewer))
    }
}

/// What large matrix products reach on this device, where `probe` has measured it.
fn limit(machine: &str, device: &Opened, precision: Precision) -> Option<f64> {
    let profile = Profile::load(&home().ok()?, machine).ok()??;
    match device.device() {
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
fn late() -> Error {
    Error::new(Kind::Machine, "not timed: the time was over; a larger --budget allows it")
}

/// No batch could be timed.
fn nothing(rows: &[TuneRow]) -> Error {
    let why = rows.iter().find_map(|r| r.note.clone()).unwrap_or_else(|| "there was none to try".into());
    Error::new(Kind::Machine, format!("no batch could be timed: {why}"))
        .remedy("a larger <memory> or <budget>, or a smaller net")
}

/// Why this batch, in a sentence.
fn why(rows: &[TuneRow], noise: &Noise) -> String {
    let Some(chosen) = rows.iter().find(|r| r.chosen) else { return String::new() };
    let batch = chosen.batch;
    let larger = rows.iter().find(|r| r.batch > batch && r.relative_time.is_some());
    let next = larger.and_then(|r| Some((r.batch, r.relative_time? / chosen.relative_time?)));
    let against = next.map_or(String::new(), |(batch, time)| format!("; {batch} would take {time:.2} times as long"));
    match noise.scale() {
        Some(scale) if scale < batch as f64 => format!(
            "the gradient noise scale is about {scale:.0} rows, less than the smallest batch that is tried, so {batch} it is"
        ),
        Some(scale) => format!(
            "the gradient noise scale is about {scale:.0} rows, beyond which a batch hardly helps, and of those up to it {batch} is the \
             smallest that is predicted to reach the same loss within 3 % of the soonest{against}"
        ),
        None => {
            let told =
                if noise.gradient_squared <= 0.0 { "|G|² came out below zero" } else { "|G|² lies within its error" };
            let least = noise.at_least().map_or(String::new(), |n| format!(" (it is at least about {n:.0} rows)"));
            format!(
                "the gradient cannot be told from noise ({told}), so there is no noise scale{least}: {batch} is the smallest batch of those up \
                 to a cap of 3072 rows and 32 steps an epoch that has the best rate"
            )
        }
    }
}
