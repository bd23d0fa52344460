//! `probe`: look, measure, conclude. `quick`: does the accelerator work?

use crate::profile::{self, Os, Profile};
use crate::{cpu, gpu, limits, os, rates, warnings};
use compute::cuda::{Driver, NoDriver};
use compute::population::Precision;
use files::{Error, Kind, Result};
use serde::Serialize;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Looks at everything and measures; takes a second or two.
pub fn probe() -> Profile {
    let limits = limits::limits();
    let memory = limits::memory(&limits);
    let cpu = cpu::detect_cpu(limits::usable_threads());
    let (cuda, mut gpus) = gpu::detect_gpus();
    let key = profile::key(&cpu, &memory, &cuda, &gpus);
    gpu::measure_rates(&mut gpus);
    let warnings = warnings::find_warnings(&cpu, &memory, &limits);
    let cpu_rates = rates::measure(cpu.usable_threads, memory.available_bytes);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    Profile {
        key,
        measured_at: files::time::rfc3339(now * 1_000_000_000),
        os: Os::look(),
        cpu,
        memory,
        limits,
        cuda,
        gpus,
        cpu_rates,
        warnings,
    }
}

/// This machine's key, without measuring anything.
pub fn machine_key() -> String {
    let limits = limits::limits();
    let (cuda, gpus) = gpu::detect_gpus();
    profile::key(&cpu::detect_cpu(limits::usable_threads()), &limits::memory(&limits), &cuda, &gpus)
}

/// The accelerator works, or there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuickProbe {
    /// What work would run on: `cuda:0`, or `cpu`.
    pub device: String,
    /// What was found, a sentence each.
    pub says: Vec<String>,
    /// How long it took to find out.
    pub seconds: f64,
}

/// A driver that has not answered by then is broken.
const PATIENCE: Duration = Duration::from_millis(4500);

/// Says within five seconds whether the accelerator works. A machine without one passes for its CPU; a card that is
/// there and cannot be used is an error of the machine.
pub fn probe_quick() -> Result<QuickProbe> {
    let begun = Instant::now();
    let (tell, answer) = mpsc::channel();
    // On a thread of its own, because a broken driver may never come back.
    let asked = std::thread::Builder::new().name("gpu-check".into()).spawn(move || {
        let driver = compute::cuda::driver();
        let devices = driver.as_ref().map_or(0, |d| d.devices);
        let checks = (0..devices).map(gpu::test_gpu).collect();
        // Nobody listens any more once patience is over.
        let _ = tell.send((driver, checks));
    });
    let answer = asked.ok().and_then(|_| answer.recv_timeout(PATIENCE).ok());
    let hidden = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let cards = os::nvidia_cards(&os::names("/sys/bus/pci/devices"), &os::read);
    let (device, mut says) = conclude(answer, cards, hidden.as_deref())?;
    let flops = compute::cpu_rate::product_rate(1, Duration::from_millis(20), Precision::F32);
    says.push(format!("the CPU multiplies matrices at {:.0} GFLOP/s on one thread", flops / 1e9));
    Ok(QuickProbe { device, says, seconds: begun.elapsed().as_secs_f64() })
}

type Answer = (std::result::Result<Driver, NoDriver>, Vec<std::result::Result<(), String>>);

/// The device to use and what to say, or why the machine fails.
fn conclude(answer: Option<Answer>, cards: usize, hidden: Option<&str>) -> Result<(String, Vec<String>)> {
    let fail = |message: String, remedy: &str| Err(Error::new(Kind::Machine, message).remedy(remedy));
    let cpu = |says: String| Ok(("cpu".to_string(), vec![says]));
    let on_bus = format!("{cards} NVIDIA GPU{} on the bus", if cards == 1 { " is" } else { "s are" });
    let driver = "install or repair the NVIDIA driver; in a container, hand the GPU in (docker run --gpus all)";
    match answer {
        None => fail("the CUDA driver did not answer within 5 seconds".into(), driver),
        Some((Err(NoDriver::Unusable(why)), _)) => fail(format!("the CUDA driver does not work: {why}"), driver),
        Some((Err(why), _)) if cards == 0 => cpu(format!("no usable GPU: {why}; work runs on the CPU")),
        Some((Err(NoDriver::NoGpu), _)) if hidden.is_some() => {
            cpu("CUDA_VISIBLE_DEVICES hides every GPU; work runs on the CPU".into())
        }
        Some((Err(why), _)) => fail(format!("{on_bus}, but {why}"), driver),
        Some((Ok(found), checks)) => {
            let failed: Vec<String> = checks.iter().filter_map(|c| c.clone().err()).collect();
            match failed.first() {
                Some(why) => fail(
                    format!("{} of {} GPUs failed the check: {why}", failed.len(), checks.len()),
                    "close what else uses the GPU, restart the driver or the machine, and try again",
                ),
                None => Ok((
                    "cuda:0".into(),
                    vec![format!("CUDA {}: {} of {} GPUs work", found.cuda, checks.len(), found.devices)],
                )),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_passes_or_fails_for_the_right_reason() {
        let ready = |devices| Ok(Driver { cuda: "12.4".into(), devices });
        let absent = || Err(NoDriver::Absent("libcuda.so.1: no such file".into()));
        let broken = || Err(NoDriver::Unusable("cuInit gave error 999".into()));
        let check = |answer: Option<Answer>, cards, hidden, expected: std::result::Result<&str, &str>| match (
            conclude(answer, cards, hidden),
            expected,
        ) {
            (Ok((device, says)), Ok(part)) => {
                assert!(format!("{device}: {says:?}").contains(part), "{device} {says:?}");
            }
            (Err(error), Err(part)) => {
                assert!(error.kind == Kind::Machine && error.remedy.is_some(), "{error:?}");
                assert!(error.message.contains(part), "{error:?}");
            }
            (got, _) => panic!("{got:?}"),
        };
        check(Some((ready(1), vec![Ok(())])), 1, None, Ok("cuda:0"));
        check(Some((ready(2), vec![Ok(()), Err("cuda:1: out of memory".into())])), 2, None, Err("1 of 2 GPUs failed"));
        check(Some((absent(), vec![])), 0, None, Ok("no CUDA driver found"));
        check(Some((absent(), vec![])), 1, None, Err("1 NVIDIA GPU is on the bus, but no CUDA driver found"));
        check(Some((Err(NoDriver::NoGpu), vec![])), 0, None, Ok("cpu"));
        check(Some((Err(NoDriver::NoGpu), vec![])), 2, Some(""), Ok("hides every GPU"));
        check(Some((Err(NoDriver::NoGpu), vec![])), 2, None, Err("2 NVIDIA GPUs are on the bus"));
        check(Some((broken(), vec![])), 0, None, Err("999"));
        check(None, 0, None, Err("did not answer"));
    }

    #[test]
    fn this_machine_is_probed() {
        let profile = probe();
        assert_eq!(profile.key, machine_key(), "the key needs no measurement");
        let rates = &profile.cpu_rates;
        for rate in [
            rates.copy_one_thread_bytes_per_s,
            rates.copy_all_threads_bytes_per_s,
            rates.product_one_thread_flop_per_s,
            rates.product_all_threads_flop_per_s,
        ] {
            assert!(rate.is_finite() && rate > 0.0, "{rates:?}");
        }
        assert!(profile.measured_at.ends_with('Z'), "{}", profile.measured_at);
    }
}
