//! `bench net`: how fast a net runs here, batch by batch: the table people make by hand; `bench search`: the same for
//! searches, by roots and simulations (`search.rs`).

mod honest;
mod search;

pub use self::honest::{HonestOnCard, bench_market, bench_models, bench_roots};
pub use self::search::{BENCH_SEARCH_SECONDS, BenchSearch, BenchedSearch, SearchBenchRow, bench_search};

use crate::memory::{self, Memory};
use crate::progress::{Sink, Update, check_stop};
use crate::settings::Settings;
use compute::population::Precision;
use compute::{Budget, Choice, Net, Opened};
use files::{Error, Kind, Result};
use learn::failed;
use machine::{NetLoad, StepKind, measure_net};
use serde::Serialize;
use std::time::Duration;

/// What to time.
#[derive(Debug, Clone)]
pub struct BenchNet {
    /// A net in its own words: `64-128-128-3`.
    pub net: String,
    /// Batch sizes, in rows per member.
    pub batches: Vec<usize>,
    /// Members side by side.
    pub members: usize,
    /// `f32`, `tf32`, `bf16` or `auto`: bf16 on a card, f32 on a processor.
    pub precision: String,
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    pub device: String,
    /// Seconds per measurement.
    pub seconds: f64,
    /// Choose the products' algorithms by the clock first.
    pub tune: bool,
}

/// What was seen.
#[derive(Debug, Clone, Serialize)]
pub struct BenchedNet {
    /// The net, in full words.
    pub net: String,
    /// Its parameters, without padding.
    pub parameters: u64,
    /// Members side by side.
    pub members: usize,
    /// What it ran on, in words.
    pub device: String,
    /// How numbers were held.
    pub precision: Precision,
    /// Large matrix products on random data in that precision, measured just before; null where nothing can.
    pub limit_tflops: Option<f64>,
    /// One for each batch.
    pub rows: Vec<BenchRow>,
    /// The batch with the most samples a second in training.
    pub best_train_batch: Option<usize>,
    /// The same in inference.
    pub best_infer_batch: Option<usize>,
}

/// One batch.
#[derive(Debug, Clone, Serialize)]
pub struct BenchRow {
    /// Rows, for each member.
    pub batch: usize,
    /// A whole training step; null where it was refused.
    pub train: Option<BenchCell>,
    /// A forward pass with its scores.
    pub infer: Option<BenchCell>,
    /// Why it was not run.
    pub refused: Option<String>,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub struct BenchCell {
    /// Rows of all members in a second.
    pub samples_per_s: f64,
    /// A step of all members.
    pub ms_per_step: f64,
    /// Half the distance of the quartiles, as a share of the median.
    pub spread: f64,
    /// Work that the net needs.
    pub tflops: f64,
    /// Of the measured limit; null without one.
    pub share_of_limit: Option<f64>,
    /// Bytes on the device.
    pub memory_bytes: u64,
    /// From nothing to the end of the first step.
    pub first_use_s: f64,
}

/// Times a net at every batch, training and inference; what does not fit is said and the rest goes on.
pub fn bench_net(request: &BenchNet, settings: &Settings, sink: Sink<'_>) -> Result<BenchedNet> {
    let usage = |e: compute::Error| Error::new(Kind::Usage, e.to_string());
    let net: Net = request.net.parse().map_err(usage)?;
    let choice: Choice = request.device.parse().map_err(usage)?;
    let (device, device_name) = Opened::new(choice, settings.threads()).map_err(failed)?;
    let precision = match (request.precision.as_str(), &device) {
        ("auto", Opened::Cuda(_)) | ("bf16", _) => Precision::Bf16,
        ("auto", Opened::Cpu { .. }) | ("f32", _) => Precision::F32,
        ("tf32", _) => Precision::Tf32,
        (other, _) => {
            let wrong = format!("<precision={other}> is unknown");
            return Err(Error::new(Kind::Usage, wrong).remedy("use auto, f32, tf32 or bf16"));
        }
    };
    if request.tune && matches!(device, Opened::Cpu { .. }) {
        let wrong = "<tune> chooses among cuBLASLt's algorithms, and the processor has none to choose from";
        return Err(Error::new(Kind::Usage, wrong).remedy("leave it out, or name a card with <device>"));
    }
    if !(request.seconds > 0.0 && request.seconds <= 3600.0) {
        let wrong = format!("<seconds={}> is not a usable time to measure", request.seconds);
        return Err(Error::new(Kind::Usage, wrong).remedy("0.5 is the default, 3600 the maximum"));
    }
    // On a card the budget is of its own memory.
    let budget = match (&device, settings.general.memory) {
        (Opened::Cpu { .. }, memory) => Budget::Bytes(memory.bytes().min(memory::available())),
        (_, Memory::Auto) => Budget::default(),
        (_, Memory::Bytes(bytes)) => Budget::Bytes(bytes),
        (_, Memory::Share(share)) => Budget::Share(share),
    };
    let limit_tflops = limit(&device, precision, settings.threads())?;
    let layout = compute::net::Layout::new(&net).map_err(usage)?;
    let parameters = layout.parameters() as u64;
    let total = 2 * request.batches.len() as u64;
    let mut rows = Vec::new();
    for (i, batch) in request.batches.iter().enumerate() {
        let mut row = BenchRow { batch: *batch, train: None, infer: None, refused: None };
        for (j, work) in [StepKind::Train, StepKind::Infer].into_iter().enumerate() {
            check_stop()?;
            sink(Update { phase: "timing", done: (2 * i + j) as u64, total, unit: "" });
            let load = NetLoad {
                net: net.clone(),
                batch: *batch,
                members: request.members,
                precision,
                step: work,
                tune: request.tune,
                seconds: request.seconds,
            };
            match measure_net(&device, budget, &load) {
                Ok(seen) => {
                    let cell = BenchCell {
                        samples_per_s: seen.samples_per_s,
                        ms_per_step: seen.ms_per_step,
                        spread: seen.spread,
                        tflops: seen.tflops,
                        share_of_limit: limit_tflops.map(|limit| seen.tflops / limit),
                        memory_bytes: seen.bytes,
                        first_use_s: seen.first_use_s,
                    };
                    *(if work == StepKind::Train { &mut row.train } else { &mut row.infer }) = Some(cell);
                }
                Err(why) if why.is_memory() => row.refused = Some(why.to_string()),
                Err(why) => return Err(failed(why)),
            }
        }
        rows.push(row);
    }
    sink(Update { phase: "timing", done: total, total, unit: "" });
    let best = |cell: fn(&BenchRow) -> &Option<BenchCell>| {
        let seen = rows.iter().filter_map(|r| Some((r.batch, cell(r).as_ref()?.samples_per_s)));
        seen.max_by(|a, b| a.1.total_cmp(&b.1)).map(|b| b.0)
    };
    let (best_train_batch, best_infer_batch) = (best(|r| &r.train), best(|r| &r.infer));
    Ok(BenchedNet {
        net: net.to_string(),
        parameters,
        members: request.members,
        device: device_name,
        precision,
        limit_tflops,
        rows,
        best_train_batch,
        best_infer_batch,
    })
}

/// What large matrix products reach on this device in this precision.
fn limit(device: &Opened, precision: Precision, threads: usize) -> Result<Option<f64>> {
    Ok(match device {
        // The best of a few: a neighbour or a sleepy clock makes a limit that nets would pass.
        Opened::Cpu { .. } => {
            let rates = (0..4).map(|_| compute::cpu_rate::product_rate(threads, Duration::from_millis(250), precision));
            Some(rates.fold(0.0, f64::max) / 1e12)
        }
        Opened::Cuda(context) => {
            let rates = compute::cuda::rates(context, true).map_err(failed)?;
            match precision {
                Precision::F32 => rates.f32_tflops,
                Precision::Tf32 => rates.tf32_tflops,
                Precision::Bf16 => rates.bf16_tflops,
            }
        }
    })
}
