//! `bench search`: simulations a second, memory and time of a search by roots and simulations, beside what the same net
//! does alone at the same batch.
//!
//! Worlds are made, so that a row depends on net, device and numbers alone. *Honest* is what `train --learner search`
//! does at every close: accounts in a market that was fitted on 20,000 rows (`honest.rs`). *Reference* is the search of
//! `mctx`: one leaf a simulation, in a world of rows that shrink. Memory is counted before it is taken, and what is
//! beyond the budget is said and not run.

use super::honest::{HonestOnCard, bench_market, bench_models, bench_roots};
use crate::memory::{self, Memory};
use crate::progress::{Sink, Update, check_stop};
use crate::settings::Settings;
use compute::cuda::Context;
use compute::net::{Layout, init};
use compute::population::Precision;
use compute::{Budget, Choice, Net, Opened};
use files::{Error, Kind, Result, format_bytes};
use learn::failed;
use machine::{NetLoad, StepKind, measure_net};
use market::OBSERVED;
use random::{SplitMix, normal};
use search::cuda::{HonestModels, HonestSearch, LinearSearch};
use search::{
    Bootstrap, Evaluate, LinearRow, LinearWorld, MarketWorld, Mode, NetEvaluator, Root, RootRule, Search, Towers, World,
};
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
/// Passes of the net alone between two looks at the clock.
const PASSES: usize = 8;
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
    /// Rows that the net alone does in a second, in batches of as many rows as there are roots.
    pub inference_rows_per_s: Option<f64>,
    /// Leaves over rows of the net alone. Above 1 where batches of leaves are larger than the roots, or where leaves
    /// ask the value's layers alone.
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
    params: Arc<Vec<f32>>,
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
        return usage(wrong, "0.5 is the default, 3600 the maximum");
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
    let layout = Layout::new(&net).map_err(|e| Error::new(Kind::Usage, e.to_string()))?;
    let mut bench = Bench {
        params: Arc::new(init(&layout, 1, 0)),
        threads: if let Opened::Cpu { threads } = device { threads } else { 0 },
        budget: budget(settings, &device)?,
        market: None,
        models: None,
        request,
        net,
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
        precision: if threads.is_some() { Precision::F32 } else { Precision::Bf16 },
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
    /// One row; `alone` is the rate of the net by itself at this number of roots, once it is known.
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
        let settings = self.settings(simulations, Mode::Honest { in_flight: 1 });
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
        let nets = NetEvaluator::several(&self.net, &self.params, self.threads).map_err(failed)?;
        let mut nets: Vec<Counted> = nets.into_iter().map(|net| Counted { net, leaves: 0 }).collect();
        if alone.is_none() {
            let (rate, _) = median_of(self.request.seconds.min(0.5), || net_alone(&mut nets, roots))?;
            *alone = Some(roots as f64 / rate);
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
        let settings = self.settings(simulations, Mode::Honest { in_flight: 1 });
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
            *alone = self.rate_on_card(context, roots)?;
        }
        let (search_s, searches) = median_of(self.request.seconds, || {
            check_stop()?;
            search.whole_s().map_err(failed)
        })?;
        let leaves = search.evaluations() as f64;
        Ok(Measured { memory_bytes: search.bytes(), timed: Ok(Timed { search_s, searches, leaves }) })
    }

    /// Roots lie on the card, and what was found stays there.
    fn reference_on_card(&self, roots: usize, simulations: usize, alone: &mut Option<f64>) -> Result<Measured> {
        let Opened::Cuda(context) = &self.device else { return Err(Error::input("there is no card")) };
        let settings = self.settings(simulations, Mode::Reference);
        let made = LinearSearch::new(context, &SHRINKING, &self.net, &self.params, &settings, roots);
        let mut search = match made {
            Ok(search) => search,
            Err(why) if why.is_memory() => return Ok(Measured { memory_bytes: 0, timed: Err(why.to_string()) }),
            Err(why) => return Err(failed(why)),
        };
        let memory_bytes = search.bytes();
        if memory_bytes > self.budget {
            return Ok(Measured { memory_bytes, timed: Err(beyond(memory_bytes, self.budget)) });
        }
        if alone.is_none() {
            *alone = match search.pass_s().map_err(failed)? {
                Some(seconds) => Some(roots as f64 / seconds),
                // Passes of a small net are inside the search; alone it is timed as any net is.
                None => self.rate_on_card(context, roots)?,
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

    /// Rows a second of the net's layers in batches of so many rows.
    fn rate_on_card(&self, context: &Arc<Context>, batch: usize) -> Result<Option<f64>> {
        let mut net = self.net.clone();
        // Inputs from a table, and outputs as classes: what `bench net` times.
        net.inputs.iter_mut().for_each(|input| input.dense = false);
        net.heads.iter_mut().for_each(|head| head.classes = head.classes.max(2));
        let load = NetLoad {
            net,
            batch,
            members: 1,
            precision: Precision::Bf16,
            step: StepKind::Infer,
            tune: false,
            seconds: self.request.seconds.min(0.5),
        };
        let rate = measure_net(&Opened::Cuda(Arc::clone(context)), Budget::Bytes(self.budget), &load);
        Ok(rate.ok().map(|rate| rate.samples_per_s))
    }
}

fn beyond(needed: u64, budget: u64) -> String {
    format!("needs {}, the memory budget is {}", format_bytes(needed), format_bytes(budget))
}

/// A net that counts the leaves it was asked about.
struct Counted {
    net: NetEvaluator,
    leaves: u64,
}

impl Evaluate for Counted {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> compute::Result<()> {
        self.leaves += values.len() as u64;
        self.net.evaluate(shown, logits, values)
    }

    fn towers(&mut self) -> Option<&mut dyn Towers> {
        self.net.towers().is_some().then_some(self as &mut dyn Towers)
    }
}

impl Towers for Counted {
    fn values(&mut self, shown: &[f32], values: &mut [f32]) -> compute::Result<()> {
        self.leaves += values.len() as u64;
        self.net.values(shown, values)
    }

    fn logits(&mut self, shown: &[f32], logits: &mut [f32]) -> compute::Result<()> {
        self.net.logits(shown, logits)
    }
}

/// Seconds of the net alone on as many rows as there are roots, all threads together.
fn net_alone(nets: &mut [Counted], roots: usize) -> Result<f64> {
    let each = roots.div_ceil(nets.len());
    let parts = nets.iter_mut().enumerate().map(|(at, net)| (net, each.min(roots.saturating_sub(at * each))));
    let run = |net: &mut Counted, rows: usize| {
        let shown = vec![0.1; rows * INPUTS];
        let (mut logits, mut values) = (vec![0.0; rows * ACTIONS], vec![0.0; rows]);
        (0..PASSES).try_for_each(|_| net.net.evaluate(&shown, &mut logits, &mut values))
    };
    let clock = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = parts.map(|(net, rows)| scope.spawn(move || run(net, rows))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
    })
    .map_err(failed)?;
    Ok(clock.elapsed().as_secs_f64() / PASSES as f64)
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
mod tests {
    use super::*;

    fn request(mode: &str) -> BenchSearch {
        BenchSearch {
            net: "16t,16t".into(),
            roots: vec![5, 40],
            simulations: vec![3, 7],
            scenarios: 8,
            mode: mode.into(),
            device: "cpu".into(),
            seconds: 1e-3,
        }
    }

    /// Leaves are counted as the modes have them, and rates follow from each other.
    #[test]
    fn rows_count_simulations_and_leaves() {
        let mut settings = Settings::default();
        settings.set("threads=2").unwrap();
        let benched = bench_search(&request("auto"), &settings, &mut |_| {}).unwrap();
        let keys: Vec<(&str, usize, usize)> = benched.rows.iter().map(|r| (r.mode, r.roots, r.simulations)).collect();
        let each = [(5, 3), (5, 7), (40, 3), (40, 7)];
        let wanted: Vec<(&str, usize, usize)> =
            ["honest", "reference"].iter().flat_map(|mode| each.map(|(r, s)| (*mode, r, s))).collect();
        assert_eq!(keys, wanted);
        for row in &benched.rows {
            let (per_s, ms) = (row.simulations_per_s.unwrap(), row.search_ms.unwrap());
            let simulations = (row.roots * row.simulations) as f64;
            assert!((per_s * ms / 1e3 / simulations - 1.0).abs() < 1e-9, "{row:?}");
            let leaves = row.leaves_per_s.unwrap() * ms / 1e3 / row.roots as f64;
            match row.mode {
                // The root and every simulation.
                "reference" => assert!((leaves - (1 + row.simulations) as f64).abs() < 1e-6, "{row:?}"),
                // The root, three actions on all scenarios, and 16 codes for a simulation that expands something.
                _ => {
                    let most = (1 + 3 * 8 + 16 * row.simulations) as f64;
                    assert!((25.0 - 1e-6..=most + 1e-6).contains(&leaves), "{leaves} of {most}: {row:?}");
                }
            }
            let share = row.share_of_inference.unwrap();
            assert!(share > 0.0 && row.inference_rows_per_s.unwrap() > 0.0 && row.memory_bytes > 1000, "{row:?}");
        }
        // More simulations are more memory.
        assert!(benched.rows[0].memory_bytes < benched.rows[1].memory_bytes);
    }

    /// What does not fit is said and not run; what makes no sense is refused.
    #[test]
    fn rows_beyond_the_budget_are_not_run() {
        let mut settings = Settings::default();
        settings.set("memory=64MiB").unwrap();
        let large = BenchSearch { simulations: vec![4, 20_000], ..request("honest") };
        let benched = bench_search(&large, &settings, &mut |_| {}).unwrap();
        for row in &benched.rows {
            let fits = row.memory_bytes <= 64 << 20;
            assert_eq!(fits, row.simulations == 4, "{row:?}");
            assert_eq!((row.simulations_per_s.is_some(), row.refused.is_none()), (fits, fits), "{row:?}");
        }
        let said = benched.rows[1].refused.clone().unwrap();
        assert!(said.contains("the memory budget is 64.0 MiB"), "{said}");
        for (wrong, part) in [
            (BenchSearch { mode: "fast".into(), ..request("") }, "<mode=fast>"),
            (BenchSearch { net: "row:3 / 8 / policy:3 + value:1".into(), ..request("auto") }, "64 numbers"),
            (BenchSearch { net: "8-x".into(), ..request("auto") }, "column"),
            (BenchSearch { seconds: 0.0, ..request("auto") }, "not a usable time"),
            (BenchSearch { device: "tpu".into(), ..request("auto") }, "not a device"),
        ] {
            let why = bench_search(&wrong, &settings, &mut |_| {}).unwrap_err();
            assert!(why.kind == Kind::Usage && why.to_string().contains(part), "{part}: {why}");
        }
    }
}
