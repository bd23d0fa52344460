//! How full the machine is: one thread that looks now and then, cheap enough to run always.
//!
//! A look reads a few small files and asks each card nine figures; [`Sampler::cost`] says what it took of one core.
//! Samples are kept for an hour at one a second, then the oldest go.

use crate::nvml::NvmlCards;
use crate::os;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

/// The machine at one moment; the processor over the time since the sample before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// Since the sampler began.
    pub at_seconds: f64,
    /// How busy each logical core was. [cores]
    pub cpu_percent: Vec<f32>,
    /// Over 1, 5 and 15 minutes; null where the system keeps none.
    pub load_average: Option<[f64; 3]>,
    /// Of the machine, taken.
    pub memory_used_bytes: u64,
    /// Of the machine, could be taken.
    pub memory_available_bytes: u64,
    /// Resident memory of this process, or of the one that is watched; null where there is none.
    pub process_memory_bytes: Option<u64>,
    /// Each card; empty without one, or without its library.
    pub gpus: Vec<GpuSample>,
}

/// One card at one moment; null where it does not tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuSample {
    /// By the management library's numbering.
    pub index: usize,
    /// Part of the time in which a kernel ran.
    pub busy_percent: Option<f32>,
    /// Part of the time in which its memory was read or written.
    pub memory_busy_percent: Option<f32>,
    /// Taken by anyone.
    pub memory_used_bytes: Option<u64>,
    /// All of it.
    pub memory_total_bytes: Option<u64>,
    /// Drawn now.
    pub power_watts: Option<f32>,
    /// Of the multiprocessors.
    pub clock_mhz: Option<u32>,
    /// Of the memory.
    pub memory_clock_mhz: Option<u32>,
    /// Of the chip.
    pub temperature_celsius: Option<u32>,
}

impl Sample {
    /// All cores together, `0..=100`.
    pub fn cpu_mean_percent(&self) -> f32 {
        self.cpu_percent.iter().sum::<f32>() / self.cpu_percent.len().max(1) as f32
    }
}

/// Looks at the machine every period until it is dropped.
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    samples: VecDeque<Sample>,
    process: Option<u32>, // watched; None is this one
    ended: bool,
    cost: Option<f64>,
}

/// Samples kept.
const KEPT: usize = 3600;
/// Processor use over less time than this is noise.
const SHORTEST: Duration = Duration::from_millis(200);

impl Sampler {
    /// The first sample comes after one period, 200 ms at least. Where no thread can be started, no sample ever comes.
    pub fn start(period: Duration) -> Sampler {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(move || theirs.run(period.max(SHORTEST)));
        Sampler { shared, thread: thread.ok() }
    }

    /// From the next sample on, the memory is that of another process.
    pub fn follow_process(&self, process: u32) {
        self.shared.lock().process = Some(process);
    }

    /// The newest sample.
    pub fn latest(&self) -> Option<Sample> {
        self.shared.lock().samples.back().cloned()
    }

    /// Every sample taken after that moment, in seconds since the sampler began.
    pub fn samples_since(&self, at_seconds: f64) -> Vec<Sample> {
        let state = self.shared.lock();
        let from = state.samples.partition_point(|sample| sample.at_seconds <= at_seconds);
        state.samples.range(from..).cloned().collect()
    }

    /// Waits until a sample newer than that moment is there, or the time is over.
    pub fn wait_for_sample(&self, at_seconds: f64, patience: Duration) -> Option<Sample> {
        let newer = |state: &State| state.samples.back().is_some_and(|s| s.at_seconds > at_seconds);
        let waiting = self.shared.changed.wait_timeout_while(self.shared.lock(), patience, |state| !newer(state));
        let (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        state.samples.back().filter(|s| s.at_seconds > at_seconds).cloned()
    }

    /// What sampling took so far, as a part of one core; `None` where the system does not tell, or before the first
    /// sample.
    pub fn cost_seconds(&self) -> Option<f64> {
        self.shared.lock().cost
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the sampler has been shown; it must not end the work it watched.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, period: Duration) {
        let Some(mut eye) = Probes::open() else { return };
        let (begun, busy) = (Instant::now(), os::thread_seconds());
        for turn in 1u32.. {
            let due = period.saturating_mul(turn);
            let left = |begun: Instant| due.saturating_sub(begun.elapsed());
            let mut state = self.lock();
            while !state.ended && left(begun) > Duration::ZERO {
                let waiting = self.changed.wait_timeout(state, left(begun));
                state = waiting.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.ended {
                return;
            }
            if let Some(process) = state.process {
                eye.process = Some(sysinfo::Pid::from_u32(process));
            }
            drop(state);
            let sample = eye.take_sample(begun.elapsed().as_secs_f64());
            let spent = busy.zip(os::thread_seconds()).map(|(before, now)| now - before);
            let mut state = self.lock();
            state.cost = spent.map(|spent| spent / begun.elapsed().as_secs_f64());
            if state.samples.len() == KEPT {
                state.samples.pop_front();
            }
            state.samples.push_back(sample);
            drop(state);
            self.changed.notify_all();
        }
    }
}

/// What a look needs, kept open between looks.
struct Probes {
    system: System,
    process: Option<sysinfo::Pid>,
    cards: Option<NvmlCards>,
}

impl Probes {
    fn open() -> Option<Probes> {
        let mut system = System::new().ok()?;
        // Use is the difference of two readings; this is the first.
        system.refresh_cpu_usage();
        Some(Probes { system, process: sysinfo::get_current_pid().ok(), cards: NvmlCards::open() })
    }

    fn take_sample(&mut self, at_seconds: f64) -> Sample {
        self.system.refresh_cpu_usage();
        self.system.refresh_memory();
        if let Some(process) = self.process {
            let only = ProcessesToUpdate::Some(&[process]);
            let what = ProcessRefreshKind::nothing().with_memory();
            // One that has ended is forgotten, so that nobody is told its last figure for ever.
            self.system.refresh_processes_specifics(only, true, what);
        }
        let load = System::load_average().ok();
        let mut gpus = self.cards.as_ref().map_or_else(Vec::new, NvmlCards::sample);
        gpus.extend(os::apple_gpus());
        Sample {
            at_seconds,
            cpu_percent: self.system.cpus().iter().map(|cpu| cpu.usage()).collect(),
            load_average: load.map(|load| [load.one, load.five, load.fifteen]),
            memory_used_bytes: self.system.used_memory(),
            memory_available_bytes: self.system.available_memory(),
            process_memory_bytes: self.process.and_then(|p| self.system.process(p)).map(|p| p.memory()),
            gpus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_ordered_and_the_cost_is_measured() {
        let slow = Sampler::start(Duration::from_secs(3600));
        assert_eq!((slow.latest(), slow.cost_seconds()), (None, None), "nothing before the first period");
        let sampler = Sampler::start(Duration::from_millis(200));
        let patience = Duration::from_secs(600);
        let first = sampler.wait_for_sample(0.0, patience).expect("a first sample");
        let second = sampler.wait_for_sample(first.at_seconds, patience).expect("a second sample");
        assert!(second.at_seconds > first.at_seconds);
        assert!(sampler.latest().is_some_and(|latest| latest.at_seconds >= second.at_seconds));
        let since: Vec<f64> = sampler.samples_since(first.at_seconds).iter().map(|s| s.at_seconds).collect();
        assert!(since.contains(&second.at_seconds) && !since.contains(&first.at_seconds), "{since:?}");
        assert!(sampler.samples_since(1e9).is_empty());
        assert!(
            !first.cpu_percent.is_empty() && first.cpu_percent.iter().all(|p| (0.0..=101.0).contains(p)),
            "{first:?}"
        );
        assert!((0.0..=101.0).contains(&first.cpu_mean_percent()));
        assert!(first.memory_used_bytes > 0 && first.process_memory_bytes.is_some_and(|b| b > 1 << 16), "{first:?}");
        assert!(NvmlCards::open().is_some() || first.gpus.is_empty());
    }

    #[test]
    fn other_process_is_followed_until_it_exits() {
        // Windows has no such program.
        let Ok(mut child) = std::process::Command::new("sleep").arg("600").spawn() else { return };
        let sampler = Sampler::start(Duration::from_millis(200));
        sampler.follow_process(child.id());
        let patience = Duration::from_secs(600);
        // The first sample may have been under way.
        let first = sampler.wait_for_sample(0.0, patience).expect("a sample");
        let second = sampler.wait_for_sample(first.at_seconds, patience).expect("a sample");
        let theirs = second.process_memory_bytes.expect("its memory");
        assert!(theirs > 0 && theirs < 16 << 20, "{theirs} is not what `sleep` takes");
        child.kill().and_then(|()| child.wait()).expect("ended");
        let third = sampler.wait_for_sample(second.at_seconds, patience).expect("a sample");
        let fourth = sampler.wait_for_sample(third.at_seconds, patience).expect("a sample");
        assert_eq!(fourth.process_memory_bytes, None);
    }

    #[test]
    fn dropping_the_sampler_stops_it() {
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(Sampler::start(Duration::from_secs(3600)));
            done.send(())
        });
        assert!(ended.recv_timeout(Duration::from_secs(120)).is_ok(), "it waits for its next look");
    }
}
