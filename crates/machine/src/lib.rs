//! What this computer is, how fast, and how full.
//!
//! [`probe`] looks at the processor, memory, GPUs and limits, measures a few rates and makes a [`Profile`], kept at
//! home under the machine's [key](Profile::key); [`quick`] only says whether the accelerator works. [`start_for`] gives
//! the settings a machine begins with ([`start_here`] without measuring), [`Tuner`] times real work and remembers what
//! won, [`Sampler`] watches how full the machine is.
//!
//! It knows nothing of what is trained or tuned. What the operating system does not tell is `None`, never a guess.
//!
//! The tuner walks up until what is next is slower, and never tries what does not fit:
//!
//! ```
//! use machine::{Candidate, CandidateVerdict, Clock, TimingLimits, Tuner};
//! use std::cell::Cell;
//! use std::time::Duration;
//!
//! /// A clock that work turns itself: no example depends on how busy a machine is.
//! struct Worked(Cell<Duration>);
//! impl Clock for Worked {
//!     fn now(&self) -> Duration {
//!         self.0.get()
//!     }
//! }
//!
//! let clock = Worked(Cell::new(Duration::ZERO));
//! let (machine, version, limits) = (String::from("example"), String::from("1"), TimingLimits::default());
//! let tuner = Tuner { memory: None, machine, version, budget: 6_000, fresh: false, limits, clock: &clock };
//! let batch = |rows: u64| Candidate { label: format!("batch {rows}"), bytes: 10 * rows, config: rows };
//! let batches = [64, 128, 256, 512, 1024].map(batch);
//! let tuned = tuner.tune("example net", &batches, 0, |rows, timer| {
//!     timer.time(|| -> Result<f64, String> {
//!         // A launch takes 100 µs; from 256 rows on each row takes longer.
//!         let each = if *rows < 256 { 1 } else { 4 };
//!         clock.0.set(clock.0.get() + Duration::from_micros(100 + each * rows));
//!         Ok(*rows as f64)
//!     })
//! });
//! assert_eq!(tuned.winner, Some(1), "batch 128");
//! assert_eq!(tuned.rows[4].verdict, CandidateVerdict::TooLarge);
//! ```

mod cpu;
mod gpu;
mod limits;
mod net;
mod nvml;
mod os;
mod probe;
mod profile;
mod rates;
mod sampler;
mod start_settings;
mod tune;
mod tuned_store;
mod warnings;

pub use cpu::{Cache, Cpu};
pub use gpu::{Cuda, Gpu, GpuRates};
pub use limits::{Limits, Memory, available_memory};
pub use net::{NetLoad, NetRate, StepKind, flops_per_sample, measure_net};
pub use probe::{QuickProbe, machine_key, probe, probe_quick};
pub use profile::{Os, Profile};
pub use rates::CpuRates;
pub use sampler::{GpuSample, Sample, Sampler};
pub use start_settings::{StartSettings, nearest_index, start_settings_for, start_settings_here};
pub use tune::{Candidate, CandidateRow, CandidateVerdict, Clock, SystemClock, Timer, TimingLimits, TuneResult, Tuner};
pub use tuned_store::{TunedEntry, load_entry, save_entry, tuned_path};
pub use warnings::Warning;
