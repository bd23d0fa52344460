//! `bench search`: simulations a second, memory and time of a search by roots and simulations, beside what the same net
//! does alone on as many rows as the search evaluates together (`search/alone.rs`).
//!
//! Worlds are made, so that a row depends on net, device and numbers alone. *Honest* is what `train --learner search`
//! does at every close: accounts in a market that was fitted on 20,000 rows (`honest.rs`). *Reference* is the search of
//! `mctx`: one leaf a simulation, in a world of rows that shrink. Memory is counted before it is taken, and what is
//! beyond the budget is said and not run.

mod alone;

use self::alone::Counted;
use super::honest::{HonestOnCard, bench_market, bench_models, bench_roots};
use crate::kinds::has_memory;
use crate::memory::{self, Memory};
use crate::progress::{Sink, Update, check_stop};
use crate::settings::Settings;
use compute::net::{Layout, init};
use compute::population::Precision;
use compute::{Budget, Choice, Net, Opened};
use files::{Error, Kind, Result, format_bytes};
use learn::failed;
use market::OBSERVED;
use random::{SplitMix, normal};
use search::cuda::{HonestModels, HonestSearch, LinearSearch};
use search::{Bootstrap, LinearRow, LinearWorld, MarketWorld, Mode, NetEvaluator, Root, RootRule, Search, World};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Numbers that the net reads, and those of them that are features; the rest is what an account is shown of itself.
pub(super) const INPUTS: usize = 64;
pub(super) const FEATURES: usize = INPUTS - OBSERVED;
/// Short, flat and long.
const ACTIONS: usize = 3;
/// Codes of a chance node, and bars that a search looks ahead: as `train` has them.
const CODES: usize = 16;
const HORIZON: u32 = 8;
/// The world of the reference mode.
const SHRINKING: LinearWorld =
    LinearWorld { inputs: INPUTS, actions: ACTIONS, shrink: 0.99, push: 0.01, discount: 0.99 };
/// As `train` has it.
const HONEST: Mode = Mode::Honest { in_flight: 1 };
/// Seconds per measurement, unless set.
pub const BENCH_SEARCH_SECONDS: f64 = 0.3;
/// What is timed repeats at least so often, where it is shorter than the time for it.
const REPEATS: usize = 3;

/// What to time.
#[derive(Debug, Clone)]
pub struct BenchSearch {
    /// Layers of policy and value as in `train --learner search --net`, or a whole net of 64 inputs.
    pub net: String,
    /// Roots that are searched in one batch.
    pub roots: Vec<usize>,
    /// Simulations of a root.
    pub simulations: Vec<usize>,
    /// Scenarios of a root, in the honest mode.
    pub scenarios: usize,
    /// `auto`, `honest` or `reference`; auto is all that the device has.
    pub mode: String,
    /// `auto`, `f32` or `bf16`; auto is bf16 on a card, the only one it has, and f32 elsewhere.
    pub precision: String,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
    /// Seconds per measurement; a search that is longer runs once.
    pub seconds: f64,
}

/// What was seen.
#[derive(Debug, Clone, Serialize)]
pub struct BenchedSearch {
    /// The net, in full words.
    pub net: String,
    /// Its parameters, without padding.
    pub parameters: u64,
    /// What it ran on, in words.
    pub device: String,
    /// How the net computes.
    pub precision: Precision,
    /// Threads of a processor; null on a card.
    pub threads: Option<usize>,
    /// Bytes that may be taken on the device.
    pub budget_bytes: u64,
    /// Scenarios of a root in the honest mode, on which every action is tried.
    pub scenarios: usize,
    /// Codes of every later chance node there.
    pub codes: usize,
    /// Bars that it looks ahead.
    pub horizon: u32,
    /// One for each mode, number of roots and number of simulations.
    pub rows: Vec<SearchBenchRow>,
}

/// One search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchBenchRow {
    /// `honest` or `reference`.
    pub mode: &'static str,
    /// Roots in a batch.
    pub roots: usize,
    /// Simulations of each.
    pub simulations: usize,
    /// Simulations of all roots in a second; null where it was not run.
    pub simulations_per_s: Option<f64>,
    /// Roots in a second.
    pub roots_per_s: Option<f64>,
    /// Milliseconds of a search from all roots.
    pub search_ms: Option<f64>,
    /// Leaves that were evaluated in a second: one for a simulation of the reference mode, all scenarios and codes in
    /// the honest one; on a card also those of simulations that end where nothing is to be evaluated, which it
    /// computes as well.
    pub leaves_per_s: Option<f64>,
    /// Rows of a batch of the net alone: as many as a simulation of all roots evaluates. That is one for each root in
    /// the reference mode, and all codes of each in the honest one.
    pub inference_batch: usize,
    /// Rows that the net alone does in a second, in such batches; of the value's layers alone, where the leaves of an
    /// honest search on a processor ask no more.
    pub inference_rows_per_s: Option<f64>,
    /// Leaves over rows of the net alone.
    pub share_of_inference: Option<f64>,
    /// Bytes of trees, nets and roots on the device.
    pub memory_bytes: u64,
    /// Searches that were timed; the median counts.
    pub searches: usize,
    /// Why it was not run.
    pub refused: Option<String>,
}

/// A kind of search on a kind of device: all that can be timed. What a card learns to do is one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    HonestOnProcessor,
    ReferenceOnProcessor,
    HonestOnCard,
    ReferenceOnCard,
}

impl Load {
    const ALL: [Load; 4] =
        [Load::HonestOnProcessor, Load::ReferenceOnProcessor, Load::HonestOnCard, Load::ReferenceOnCard];

    fn mode(self) -> &'static str {
        match self {
            Load::HonestOnProcessor | Load::HonestOnCard => "honest",
            Load::ReferenceOnProcessor | Load::ReferenceOnCard => "reference",
        }
    }

    fn searches(self) -> Mode {
        match self {
            Load::HonestOnProcessor | Load::HonestOnCard => HONEST,
            Load::ReferenceOnProcessor | Load::ReferenceOnCard => Mode::Reference,
        }
    }

    fn runs_on(self, device: &Opened) -> bool {
        let on_card = matches!(self, Load::HonestOnCard | Load::ReferenceOnCard);
        on_card == matches!(device, Opened::Cuda(_))
    }
}

/// What one search took.
struct Timed {
    search_s: f64,
    searches: usize,
    leaves: f64,
}

/// A search's memory, and what it took where that fits.
struct Measured {
    memory_bytes: u64,
    timed: std::result::Result<Timed, String>,
}

/// Everything that rows have in common.
struct Bench<'a> {
    request: &'a BenchSearch,
    net: Net,
    params: Vec<f32>,
    precision: Precision,
    device: Opened,
    threads: usize,
    budget: u64,
    /// The market of the honest mode, once it was fitted.
    market: Option<MarketWorld<Bootstrap>>,
    /// The same on the card.
    models: Option<Arc<HonestModels>>,
}

/// Times searches from every number of roots with every number of simulations.
pub fn bench_search(request: &BenchSearch, settings: &Settings, sink: Sink<'_>) -> Result<BenchedSearch> {
    let usage = |what: String, remedy: &str| Err(Error::new(Kind::Usage, what).remedy(remedy));
    if !(request.seconds > 0.0 && request.seconds <= 3600.0) {
        let wrong = format!("<seconds={}> is not a usable time to measure", request.seconds);
        return usage(wrong, &format!("{BENCH_SEARCH_SECONDS} is the default, 3600 the maximum"));
    }
    let choice: Choice = request.device.parse().map_err(|e: compute::Error| Error::new(Kind::Usage, e.to_string()))?;
    let net = net_of(&request.net)?;
    let (device, device_words) = Opened::new(choice, settings.threads()).map_err(failed)?;
    let loads: Vec<Load> = Load::ALL.into_iter().filter(|load| load.runs_on(&device)).collect();
    let wanted: Vec<Load> =
        loads.iter().copied().filter(|load| request.mode == "auto" || load.mode() == request.mode).collect();
    if wanted.is_empty() {
        let known: Vec<&str> = loads.iter().map(|load| load.mode()).collect();
        let wrong = format!("<mode={}> is not for this device", request.mode);
        return usage(wrong, &format!("use auto or {}, or another <device>", known.join(" or ")));
    }
    let precision = match (request.precision.as_str(), &device) {
        ("auto", Opened::Cuda(_)) | ("bf16", _) => Precision::Bf16,
        ("auto" | "f32", Opened::Cpu { .. }) => Precision::F32,
        (other, _) => {
            let known = if matches!(device, Opened::Cuda(_)) { "auto or bf16" } else { "auto, f32 or bf16" };
            return usage(format!("<precision={other}> is not for a search on this device"), &format!("use {known}"));
        }
    };
    let layout = Layout::new(&net).map_err(|e| Error::new(Kind::Usage, e.to_string()))?;
    let mut bench = Bench {
        params: init(&layout, 1, 0),
        threads: if let Opened::Cpu { threads } = device { threads } else { 0 },
        budget: budget(settings, &device)?,
        market: None,
        models: None,
        request,
        net,
        precision,
        device,
    };
    let total = (wanted.len() * request.roots.len() * request.simulations.len()) as u64;
    let mut rows = Vec::new();
    for load in wanted {
        for roots in &request.roots {
            let mut alone = None;
            for simulations in &request.simulations {
                check_stop()?;
                sink(Update { phase: "searching", done: rows.len() as u64, total, unit: "" });
                rows.push(bench.row(load, *roots, *simulations, &mut alone)?);
            }
        }
    }
    sink(Update { phase: "searching", done: total, total, unit: "" });
    let threads = matches!(bench.device, Opened::Cpu { .. }).then_some(bench.threads);
    Ok(BenchedSearch {
        net: bench.net.to_string(),
        parameters: layout.parameters() as u64,
        device: device_words,
        precision: bench.precision,
        threads,
        budget_bytes: bench.budget,
        scenarios: request.scenarios,
        codes: CODES,
        horizon: HORIZON,
        rows,
    })
}

/// The policy's net from layers, as `train` makes it, or a whole net.
fn net_of(text: &str) -> Result<Net> {
    if has_memory(text) {
        let what = format!("the net `{text}` has a memory or a window, and a search reads one row");
        return Err(Error::new(Kind::Usage, what).remedy("give layers without memory, as in <net=64t-64t>"));
    }
    let layers = text.replace(',', "-");
    let whole = match (text.contains('/'), layers.contains('|')) {
        (true, _) => text.to_string(),
        (false, true) => format!("row:{INPUTS} / {layers} / policy:{ACTIONS} | value:1"),
        (false, false) => format!("row:{INPUTS} / {layers} | {layers} / policy:{ACTIONS} | value:1"),
    };
    let wrong = |what: String| Error::new(Kind::Usage, what).remedy("write layers, as in <net=256,256>");
    let mut net: Net = whole.parse().map_err(|e: compute::Error| wrong(e.to_string()))?;
    net.inputs.iter_mut().for_each(|input| input.dense = true);
    let heads: Vec<usize> = net.heads.iter().map(|head| head.classes).collect();
    if net.extras() != INPUTS || heads != [ACTIONS, 1] || net.inputs.iter().any(|input| input.window != 1) {
        let wanted = format!("{INPUTS} numbers and gives {ACTIONS} logits and a value");
        return Err(wrong(format!("the net `{net}` does not fit: a search here shows {wanted}")));
    }
    Ok(net)
}

/// Bytes that may be taken: of a processor within what is available, of a card of its own memory.
fn budget(settings: &Settings, device: &Opened) -> Result<u64> {
    let memory = settings.general.memory;
    Ok(match device {
        Opened::Cpu { .. } => memory.bytes().min(memory::available()),
        Opened::Cuda(context) => {
            let budget = match memory {
                Memory::Auto => Budget::default(),
                Memory::Bytes(bytes) => Budget::Bytes(bytes),
                Memory::Share(share) => Budget::Share(share),
            };
            budget.bytes(context.memory().map_err(failed)?.0)
        }
    })
}

impl Bench<'_> {
    /// One row; `alone` is the rate of the net by itself with this number of roots, once it is known.
    fn row(&mut self, load: Load, roots: usize, simulations: usize, alone: &mut Option<f64>) -> Result<SearchBenchRow> {
        let measured = match load {
            Load::HonestOnProcessor => self.honest(roots, simulations, alone),
            Load::ReferenceOnProcessor => self.reference(roots, simulations, alone),
            Load::HonestOnCard => self.honest_on_card(roots, simulations, alone),
            Load::ReferenceOnCard => self.reference_on_card(roots, simulations, alone),
        };
        let Measured { memory_bytes, timed } = measured?;
        let mut row = SearchBenchRow {
            mode: load.mode(),
            roots,
            simulations,
            inference_batch: roots * self.settings(simulations, load.searches()).codes,
            simulations_per_s: None,
            roots_per_s: None,
            search_ms: None,
            leaves_per_s: None,
            inference_rows_per_s: *alone,
            share_of_inference: None,
            memory_bytes,
            searches: 0,
            refused: None,
        };
        match timed {
            Err(why) => row.refused = Some(why),
            Ok(Timed { search_s, searches, leaves }) => {
                row.simulations_per_s = Some((roots * simulations) as f64 / search_s);
                row.roots_per_s = Some(roots as f64 / search_s);
                row.search_ms = Some(1e3 * search_s);
                row.leaves_per_s = Some(leaves / search_s);
                row.share_of_inference = alone.map(|rate| leaves / search_s / rate);
                row.searches = searches;
            }
        }
        Ok(row)
    }

    fn settings(&self, simulations: usize, mode: Mode) -> search::Settings {
        let usual = search::Settings { simulations: simulations as u32, mode, ..search::Settings::default() };
        match mode {
            Mode::Reference => search::Settings { depth: u32::MAX, codes: 1, ..usual },
            Mode::Honest { .. } => {
                let rule = RootRule::Gumbel { considered: ACTIONS, scale: 1.0 };
                let scenarios = self.request.scenarios;
                search::Settings { depth: HORIZON, codes: CODES, scenarios, rule, ..usual }
            }
        }
    }

    fn honest(&mut self, roots: usize, simulations: usize, alone: &mut Option<f64>) -> Result<Measured> {
        let world = self.market.take().map_or_else(bench_market, Ok).map_err(failed)?;
        let known = bench_roots(&world, roots);
        let settings = self.settings(simulations, HONEST);
        // What is known at a root is owned, beside its row.
        let beside = world.model().rows().bytes() + (roots * 4 * FEATURES) as u64;
        let measured = self.on_processor(&world, known, &settings, beside, alone);
        self.market = Some(world);
        measured
    }

    fn reference(&mut self, roots: usize, simulations: usize, alone: &mut Option<f64>) -> Result<Measured> {
        let settings = self.settings(simulations, Mode::Reference);
        self.on_processor(&SHRINKING, linear_rows(roots), &settings, 0, alone)
    }

    /// Seconds for the net alone.
    fn alone_s(&self) -> f64 {
        self.request.seconds.min(0.5)
    }

    /// A search of any world on all threads; `beside` are bytes that trees, nets and roots do not count.
    fn on_processor<W: World>(
        &self,
        world: &W,
        known: Vec<W::Known>,
        settings: &search::Settings,
        beside: u64,
        alone: &mut Option<f64>,
    ) -> Result<Measured> {
        let invalid = |e: compute::Error| Error::new(Kind::Usage, e.to_string());
        let roots = known.len();
        let trees = Search::need(world, settings, self.threads).map_err(invalid)?;
        // Weights once, and activations of a pass for each thread.
        let nets = 4 * self.params.len() + self.threads * NetEvaluator::bytes(&self.net).map_err(invalid)? as usize;
        let each = size_of::<Root<W::Known>>() + ACTIONS * 16 + 16;
        let memory_bytes = trees + beside + (nets + roots * each) as u64;
        if memory_bytes > self.budget {
            return Ok(Measured { memory_bytes, timed: Err(beyond(memory_bytes, self.budget)) });
        }
        let nets = NetEvaluator::several(&self.net, &self.params, self.precision, self.threads).map_err(failed)?;
        let mut nets: Vec<Counted> = nets.into_iter().map(|net| Counted { net, leaves: 0 }).collect();
        if alone.is_none() {
            let (batch, values_alone) = (roots * settings.codes, settings.mode != Mode::Reference);
            let (batch_s, _) = median_of(self.alone_s(), || alone::batch_s(&mut nets, batch, values_alone))?;
            *alone = Some(batch as f64 / batch_s);
        }
        let mut search = Search::new(world, settings, self.threads, self.budget).map_err(failed)?;
        let all: Vec<Root<W::Known>> =
            known.into_iter().zip(0..).map(|(known, counter)| Root { known, counter }).collect();
        nets.iter_mut().for_each(|net| net.leaves = 0);
        let mut runs = 0u32;
        let (search_s, searches) = median_of(self.request.seconds, || {
            check_stop()?;
            let clock = Instant::now();
            search.run(world, &mut nets, &all).map_err(failed)?;
            runs += 1;
            Ok(clock.elapsed().as_secs_f64())
        })?;
        let leaves = nets.iter().map(|net| net.leaves).sum::<u64>() as f64 / f64::from(runs);
        Ok(Measured { memory_bytes, timed: Ok(Timed { search_s, searches, leaves }) })
    }

    /// Roots go to the card and what was found comes back, as a step of a training does it.
    fn honest_on_card(&mut self, roots: usize, simulations: usize, alone: &mut Option<f64>) -> Result<Measured> {
        let Opened::Cuda(context) = &self.device else { return Err(Error::input("there is no card")) };
        let invalid = |e: compute::Error| Error::new(Kind::Usage, e.to_string());
        let settings = self.settings(simulations, HONEST);
        let world = match &mut self.market {
            Some(world) => world,
            none => none.insert(bench_market().map_err(failed)?),
        };
        let of_market = HonestModels::need(world.model().rows().len(), FEATURES);
        let of_search = HonestSearch::need(context, &self.net, 1, FEATURES, &settings, roots).map_err(invalid)?;
        let memory_bytes = of_market + of_search;
        if memory_bytes > self.budget {
            return Ok(Measured { memory_bytes, timed: Err(beyond(memory_bytes, self.budget)) });
        }
        let models = match &self.models {
            Some(models) => Ok(Arc::clone(models)),
            None => bench_models(context, world),
        };
        let made = models.and_then(|models| {
            self.models = Some(Arc::clone(&models));
            HonestOnCard::new(&models, &self.net, &self.params, &settings, bench_roots(world, roots))
        });
        let mut search = match made {
            Ok(search) => search,
            Err(why) if why.is_memory() => return Ok(Measured { memory_bytes, timed: Err(why.to_string()) }),
            Err(why) => return Err(failed(why)),
        };
        if alone.is_none() {
            let batch = roots * settings.codes;
            *alone = alone::rate_on_card(context, &self.net, batch, self.budget, self.alone_s());
        }
        let (search_s, searches) = median_of(self.request.seconds, || {
            check_stop()?;
            search.whole_s().map_err(failed)
        })?;
        let leaves = search.evaluations() as f64;
        Ok(Measured { memory_bytes, timed: Ok(Timed { search_s, searches, leaves }) })
    }

    /// Roots lie on the card, and what was found stays there.
    fn reference_on_card(&self, roots: usize, simulations: usize, alone: &mut Option<f64>) -> Result<Measured> {
        let Opened::Cuda(context) = &self.device else { return Err(Error::input("there is no card")) };
        let settings = self.settings(simulations, Mode::Reference);
        let memory_bytes = LinearSearch::need(context, &SHRINKING, &self.net, &settings, roots)
            .map_err(|e| Error::new(Kind::Usage, e.to_string()))?;
        if memory_bytes > self.budget {
            return Ok(Measured { memory_bytes, timed: Err(beyond(memory_bytes, self.budget)) });
        }
        let made = LinearSearch::new(context, &SHRINKING, &self.net, &self.params, &settings, roots);
        let mut search = match made {
            Ok(search) => search,
            Err(why) if why.is_memory() => return Ok(Measured { memory_bytes, timed: Err(why.to_string()) }),
            Err(why) => return Err(failed(why)),
        };
        if alone.is_none() {
            *alone = match search.pass_s().map_err(failed)? {
                Some(seconds) => Some(roots as f64 / seconds),
                // Passes of a small net are inside the search; alone it is timed as any net is.
                None => alone::rate_on_card(context, &self.net, roots, self.budget, self.alone_s()),
            };
        }
        let known = linear_rows(roots);
        let all: Vec<Root<LinearRow>> =
            known.into_iter().zip(0..).map(|(known, counter)| Root { known, counter }).collect();
        search.run(&all).map_err(failed)?;
        let (search_s, searches) = median_of(self.request.seconds, || {
            let clock = Instant::now();
            search.again().map_err(failed)?;
            Ok(clock.elapsed().as_secs_f64())
        })?;
        let leaves = (roots * (simulations + 1)) as f64;
        Ok(Measured { memory_bytes, timed: Ok(Timed { search_s, searches, leaves }) })
    }
}

fn beyond(needed: u64, budget: u64) -> String {
    format!("needs {}, the memory budget is {}", format_bytes(needed), format_bytes(budget))
}

/// The median of what repeats for so long, after one that warms up, and how often it did; something longer runs once.
fn median_of(seconds: f64, mut once: impl FnMut() -> Result<f64>) -> Result<(f64, usize)> {
    let first = once()?;
    if first > seconds {
        return Ok((first, 1));
    }
    let (clock, mut all) = (Instant::now(), Vec::new());
    while all.len() < REPEATS || clock.elapsed().as_secs_f64() < seconds {
        all.push(once()?);
    }
    all.sort_unstable_by(f64::total_cmp);
    Ok((all[all.len() / 2], all.len()))
}

fn linear_rows(roots: usize) -> Vec<LinearRow> {
    let mut random = SplitMix::new(1);
    let mut number = |_: usize| normal::quantile(random.unit().max(1e-12)) as f32;
    (0..roots).map(|_| LinearRow::new(&std::array::from_fn::<f32, INPUTS, _>(&mut number))).collect()
}

#[cfg(test)]
mod tests;
