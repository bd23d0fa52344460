//! How fast a net runs on a device: real steps on random data, from the gather to the optimiser.
//!
//! One call is one row of the table people make by hand: a net, a batch, a number of members, training or inference.
//! The step is the one that trains: rows gathered by index from a table on the device, shuffled anew each epoch.
//! Inference is a validation pass: gather, forward, loss and counts, without gradients.

use compute::net::Layout;
use compute::population::{Data, Member, Pace, Pins, Precision, Recipe};
use compute::random::{philox, uniform};
use compute::{Budget, Error, Net, Opened, Population, Result, Table, Tables};
use std::sync::Arc;
use std::time::Instant;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// Whole training steps.
    Train,
    /// Forward passes with loss and counts.
    Infer,
}

/// What to time.
#[derive(Debug, Clone)]
pub struct NetLoad {
    /// The net.
    pub net: Net,
    /// Batch sizes, in rows per member.
    pub batch: usize,
    /// Members side by side.
    pub members: usize,
    /// How numbers are held.
    pub precision: Precision,
    /// Training or inference.
    pub step: StepKind,
    /// Choose the products' algorithms by the clock first, on a card.
    pub tune: bool,
    /// About so many seconds of timing.
    pub seconds: f64,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NetRate {
    /// Milliseconds of a step of all members, the median of the rounds.
    pub ms_per_step: f64,
    /// Half of the distance between the quartiles, as a share of the median.
    pub spread: f64,
    /// Rows of all members in a second.
    pub samples_per_s: f64,
    /// Multiply-adds that the net needs, times two, in a second: padding and what is done twice do not count.
    pub tflops: f64,
    /// Bytes on the device.
    pub bytes: u64,
    /// Seconds from nothing to the end of the first step: memory, plans, modules, capture.
    pub first_use_s: f64,
    /// Steps that were timed.
    pub steps: u64,
    /// How each layer's products are done.
    pub ways: Vec<String>,
}

/// Rows of the table that samples are gathered from, fewer where they are wide: at most so many numbers in all.
const ROWS: usize = 200_000;
const NUMBERS: usize = 64 << 20;
/// Steps of an epoch: long enough that its end is seldom seen while the clock runs.
const EPOCH: usize = 256;

/// Times a load on a device, within a budget of its memory.
pub fn measure_net(device: &Opened, budget: Budget, load: &NetLoad) -> Result<NetRate> {
    if load.batch == 0 || load.members == 0 {
        return Err(Error::Invalid("a batch and a population have at least one".into()));
    }
    let random = Random::new(load);
    let recipe = Recipe::new(load.batch, load.precision, 1);
    let member = |id: u32| Member {
        id,
        train: 0,
        valid: Some(1),
        epochs: u32::MAX,
        rate: 1e-4,
        scales: load.net.inputs.iter().map(|_| None).collect(),
        class_weights: load.net.heads.iter().map(|_| Vec::new()).collect(),
    };
    let members: Vec<Member> = (0..load.members as u32).map(member).collect();
    let (tables, data) = (random.tables(device, budget)?, random.data());
    let mut pins = Pins::default();
    if load.tune {
        let mut population = Population::new(device, budget, &load.net, &tables, &data, &recipe, &members)?;
        let usual = time_first_steps(&mut population, load.step)?;
        population.tune()?;
        let tuned = population.pins();
        // Products that win alone may lose side by side: the whole step decides.
        if time_first_steps(&mut population, load.step)? < usual {
            pins = tuned;
        }
    }
    let start = Instant::now();
    let pace = Pace::default();
    let mut population = Population::paced(device, budget, &load.net, &tables, &data, &recipe, &members, &pins, pace)?;
    run_steps(&mut population, load.step, 1)?;
    let first_use_s = start.elapsed().as_secs_f64();

    // Rounds of about a tenth of the time, after one that only warms up; their median.
    let mut steps = run_steps(&mut population, load.step, 2)?;
    let start = Instant::now();
    steps = run_steps(&mut population, load.step, steps)?;
    let each = start.elapsed().as_secs_f64() / steps as f64;
    let round = ((load.seconds / 10.0 / each) as u64).clamp(1, 4096);
    let mut seen = Vec::new();
    let mut timed = 0;
    let began = Instant::now();
    while seen.len() < 5 || (began.elapsed().as_secs_f64() < load.seconds && seen.len() < 40) {
        let start = Instant::now();
        let done = run_steps(&mut population, load.step, round)?;
        seen.push(start.elapsed().as_secs_f64() / done as f64);
        timed += done;
    }
    seen.sort_by(f64::total_cmp);
    let middle = seen[seen.len() / 2];
    let rows = (load.batch * load.members) as f64;
    let flops = flops_per_sample(population.layout(), load.step) * rows;
    Ok(NetRate {
        ms_per_step: middle * 1e3,
        spread: (seen[seen.len() * 3 / 4] - seen[seen.len() / 4]) / 2.0 / middle,
        samples_per_s: rows / middle,
        tflops: flops / middle / 1e12,
        bytes: tables.bytes() + population.memory(),
        first_use_s,
        steps: timed,
        ways: population.kernel_paths(),
    })
}

/// Seconds of a step, from a short look.
fn time_first_steps(population: &mut Population, work: StepKind) -> Result<f64> {
    run_steps(population, work, 32)?;
    let start = Instant::now();
    let steps = run_steps(population, work, 64)?;
    Ok(start.elapsed().as_secs_f64() / steps as f64)
}

/// At least so many steps, with everything a training loop does between them; how many it were.
fn run_steps(population: &mut Population, work: StepKind, steps: u64) -> Result<u64> {
    let mut done = 0;
    while done < steps {
        match work {
            StepKind::Train => {
                let before = population.statuses()[0].step;
                let most = u32::try_from(steps - done).unwrap_or(u32::MAX);
                let now = population.steps(most)?;
                if let Some(bad) = now.iter().find(|s| s.fault) {
                    return Err(population.fault(bad.id)?.unwrap_or_else(|| Error::Invalid("a member stopped".into())));
                }
                done += u64::from(now[0].step - before);
                if now[0].due {
                    population.stop_waiting()?;
                }
            }
            StepKind::Infer => {
                population.score_all()?;
                done += INFERRED as u64;
            }
        }
    }
    Ok(done)
}

/// Batches of one validation pass.
const INFERRED: usize = 32;

/// Two for each multiply-add that a net needs for a row: forward, and twice that backward but for the first layer's
/// inputs. A recurrent layer's at every step of its window.
pub fn flops_per_sample(layout: &Layout, work: StepKind) -> f64 {
    let times = |passes_back: bool| match work {
        StepKind::Infer => 1.0,
        StepKind::Train if passes_back => 3.0,
        StepKind::Train => 2.0,
    };
    let linears = layout.linears.iter().map(|l| 2.0 * (l.inputs() * l.outputs) as f64 * times(l.passes_back));
    let recurrents = layout.recurrents.iter().map(|r| {
        let one = |inputs: usize| 2.0 * (r.window * inputs * 4 * r.hidden) as f64;
        one(r.features) * times(r.below.is_some()) + one(r.hidden) * times(true)
    });
    linears.sum::<f64>() + recurrents.sum::<f64>()
}

/// Random data for a net.
struct Random {
    tables: Vec<(Vec<f32>, usize)>,
    maps: Vec<Option<Vec<u32>>>,
    labels: Vec<Vec<u8>>,
    train: Vec<u32>,
    valid: Vec<u32>,
}

impl Random {
    fn new(load: &NetLoad) -> Random {
        let number = |stream: u32, i: usize| uniform(philox(3, [(i / 4) as u32, 0, stream, 9])[i % 4]);
        let deepest = load.net.inputs.iter().map(|i| i.window).max().unwrap_or(1);
        let widest = load.net.inputs.iter().map(|i| i.features.next_multiple_of(4)).max().unwrap_or(4);
        let rows = ROWS.min(NUMBERS / widest).max(2 * deepest);
        let mut tables = Vec::new();
        let mut maps = Vec::new();
        for (i, input) in load.net.inputs.iter().enumerate() {
            let stride = input.features.next_multiple_of(4);
            tables.push(((0..rows * stride).map(|k| 2.0 * number(i as u32, k) - 1.0).collect(), stride));
            maps.push((i > 0).then(|| (0..rows as u32).collect()));
        }
        let label = |h: usize, r: usize, classes: usize| {
            ((number(100 + h as u32, r) * classes as f32) as usize).min(classes - 1) as u8
        };
        let labels =
            load.net.heads.iter().enumerate().map(|(h, head)| (0..rows).map(|r| label(h, r, head.classes)).collect());
        // Any row whose window is whole, over and over: an epoch of many batches of any size.
        let row = |i: usize| (deepest - 1 + i % (rows - deepest + 1)) as u32;
        let train = (0..load.batch * EPOCH).map(row).collect();
        let valid = (0..load.batch * INFERRED).map(row).collect();
        Random { tables, maps, labels: labels.collect(), train, valid }
    }

    fn tables(&self, device: &Opened, budget: Budget) -> Result<Arc<Tables>> {
        let tables: Vec<Table<'_>> =
            self.tables.iter().map(|(values, stride)| Table { values, stride: *stride }).collect();
        let maps: Vec<Option<&[u32]>> = self.maps.iter().map(Option::as_deref).collect();
        Tables::new(device, budget, &tables, &maps)
    }

    fn data(&self) -> Data<'_> {
        Data {
            labels: self.labels.iter().map(Vec::as_slice).collect(),
            weights: None,
            lists: vec![&self.train, &self.valid],
        }
    }
}
