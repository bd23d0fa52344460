//! GPUs: what each is, whether it works, how fast.
//!
//! The one place where this room asks `compute` about cards. What has not been measured is null.

use crate::nvml::NvmlCards;
use compute::cuda::{self, Driver, NoDriver};
use compute::{Choice, Opened};
use files::format_plural;
use serde::{Deserialize, Serialize};

/// What stands between us and the cards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuda {
    /// Whether the driver works and shows a card.
    pub usable: bool,
    /// The newest CUDA the driver speaks: `12.4`; null without a driver.
    pub version: Option<String>,
    /// In words: what was found, or why there is none.
    pub says: String,
}

/// One card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// By the driver's numbering, from 0.
    pub index: usize,
    /// As its maker calls it.
    pub name: String,
    /// The maker's number of this very card.
    pub uuid: Option<String>,
    /// All its memory.
    pub memory_total_bytes: u64,
    /// Not taken by anyone when it was looked at.
    pub memory_free_bytes: u64,
    /// `9.0`; 8.0 is the least our kernels run on.
    pub capability: Option<String>,
    /// Version of the kernel driver: `550.54.15`.
    pub driver: Option<String>,
    /// Streaming multiprocessors.
    pub multiprocessors: Option<usize>,
    /// The cuBLASLt that was found; null where our own product serves.
    pub blaslt: Option<String>,
    /// Measured.
    pub rates: GpuRates,
}

/// How fast a card is; null is not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuRates {
    /// Within the card's memory, bytes read plus bytes written.
    pub device_copy_bytes_per_s: Option<f64>,
    /// From ordinary host memory, as data sets are.
    pub host_to_device_bytes_per_s: Option<f64>,
    /// To ordinary host memory.
    pub device_to_host_bytes_per_s: Option<f64>,
    /// Matrix product on random data in f32.
    pub f32_flop_per_s: Option<f64>,
    /// In TF32.
    pub tf32_flop_per_s: Option<f64>,
    /// In bf16.
    pub bf16_flop_per_s: Option<f64>,
    /// One launch, in microseconds.
    pub launch_us: Option<f64>,
    /// One node of a captured graph, in microseconds.
    pub graph_node_us: Option<f64>,
}

/// What the driver says, and the cards it serves. Nothing is measured, and no context is made.
pub(crate) fn detect_gpus() -> (Cuda, Vec<Gpu>) {
    let driver = cuda::driver();
    let gpus = if driver.is_ok() { list_gpus() } else { Vec::new() };
    (describe_driver(&driver), gpus)
}

/// Opens every card, sees which libraries are there, and measures. A card that cannot be opened keeps its nulls.
pub(crate) fn measure_rates(gpus: &mut [Gpu]) {
    for gpu in gpus {
        let Ok((opened, _)) = Opened::new(Choice::Cuda(gpu.index), 1) else { continue };
        gpu.memory_free_bytes = opened.free().unwrap_or(gpu.memory_free_bytes);
        let Opened::Cuda(context) = opened else { continue };
        gpu.blaslt = context.library().ok();
        let Ok(seen) = cuda::rates(&context, false) else { continue };
        let tera = |rate: Option<f64>| rate.map(|r| r * 1e12);
        gpu.rates = GpuRates {
            device_copy_bytes_per_s: Some(seen.device_copy_gb_per_s * 1e9),
            host_to_device_bytes_per_s: Some(seen.host_to_device_gb_per_s * 1e9),
            device_to_host_bytes_per_s: Some(seen.device_to_host_gb_per_s * 1e9),
            f32_flop_per_s: tera(seen.f32_tflops),
            tf32_flop_per_s: tera(seen.tf32_tflops),
            bf16_flop_per_s: tera(seen.bf16_tflops),
            launch_us: Some(seen.launch_us),
            graph_node_us: Some(seen.graph_node_us),
        };
    }
}

/// Whether the card does what it is told.
pub(crate) fn test_gpu(index: usize) -> Result<(), String> {
    cuda::check(index).map_err(|e| e.to_string())
}

fn describe_driver(driver: &Result<Driver, NoDriver>) -> Cuda {
    let (usable, version, says) = match driver {
        Ok(found) => {
            let gpus = format_plural(found.devices as u64, "GPU");
            (true, Some(found.cuda.clone()), format!("CUDA {} with {gpus}", found.cuda))
        }
        Err(why) => (false, None, why.to_string()),
    };
    Cuda { usable, version, says }
}

/// The cards the driver lets us see, in its order; what only the management library knows where it shows as many.
fn list_gpus() -> Vec<Gpu> {
    let seen = cuda::gpus().unwrap_or_default();
    let library = NvmlCards::open();
    let driver = library.as_ref().and_then(NvmlCards::driver);
    let told = library.map(|l| l.cards()).filter(|cards| cards.len() == seen.len()).unwrap_or_default();
    let one = |gpu: cuda::Gpu| {
        let card = told.get(gpu.index).filter(|card| card.name == gpu.name);
        Gpu {
            index: gpu.index,
            uuid: card.and_then(|c| c.uuid.clone()),
            memory_total_bytes: gpu.memory,
            memory_free_bytes: card.map_or(gpu.memory, |c| c.free),
            capability: Some(format!("{}.{}", gpu.capability.0, gpu.capability.1)),
            driver: driver.clone(),
            multiprocessors: Some(gpu.multiprocessors as usize),
            name: gpu.name,
            blaslt: None,
            rates: GpuRates::default(),
        }
    };
    seen.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_state_is_described() {
        let check = |driver: Result<Driver, NoDriver>, usable: bool, part: &str| {
            let cuda = describe_driver(&driver);
            assert_eq!(cuda.usable, usable);
            assert!(cuda.says.contains(part), "{}", cuda.says);
        };
        check(Ok(Driver { cuda: "12.4".into(), devices: 1 }), true, "CUDA 12.4 with 1 GPU");
        check(Ok(Driver { cuda: "13.0".into(), devices: 8 }), true, "8 GPUs");
        check(Err(NoDriver::Absent("libcuda.so.1: not there".into())), false, "no CUDA driver found (libcuda.so.1");
        check(Err(NoDriver::NoGpu), false, "sees no GPU");
        check(Err(NoDriver::Unusable("cuInit gave error 999".into())), false, "999");
    }

    #[test]
    fn without_a_driver_there_is_no_card() {
        let (cuda, gpus) = detect_gpus();
        assert!(cuda.usable || gpus.is_empty(), "{cuda:?} {gpus:?}");
    }
}
