//! What this computer is, how fast, and how full.
//!
//! [`probe`] looks at the processor, memory, GPUs and limits, measures a few rates and makes a [`Profile`], kept at
//! home under the machine's [key](Profile::key); [`quick`] only says whether the accelerator works. [`start_for`] gives
//! the settings a machine begins with ([`start_here`] without measuring), [`Tuner`] times real work and remembers what
//! won, [`Sampler`] watches how full the machine is.
//!
//! It knows nothing of what is trained or tuned. What the operating system does not tell is `None`, never a guess.

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
