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
mod misleading;
mod net;
mod nvml;
mod os;
mod probe;
mod profile;
mod rates;
mod sampler;
mod starts;
mod tune;
mod tuned;

pub use cpu::{Cache, Cpu};
pub use gpu::{Cuda, Gpu, GpuRates};
pub use limits::{Limits, Memory, available_memory};
pub use misleading::Warning;
pub use net::{Load, Pace, Work, flops_of, pace};
pub use probe::{Quick, machine_key, probe, quick};
pub use profile::{Os, Profile};
pub use rates::CpuRates;
pub use sampler::{GpuSample, Sample, Sampler};
pub use starts::{Start, nearest, start_for, start_here};
pub use tune::{Candidate, Clock, Patience, Row, SystemClock, Timer, Tuned, Tuner, Verdict};
pub use tuned::{Remembered, recall, remember, tuned_path};
