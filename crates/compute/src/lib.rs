//! Devices, buffers, graphs, random numbers and the fused operations; knows nothing of markets.
//!
//! Every operation exists as twins that are tested against each other: plain Rust that says what it is, fast Rust for
//! CPUs, CUDA for NVIDIA. A [`Device`] is a value; a [`Population`] is nets of one shape that train side by side on it.

pub mod bf16;
mod cpu;
pub mod cpu_rate;
pub mod cuda;
pub mod device;
mod error;
pub mod net;
pub mod nets;
pub mod ops;
mod os;
pub mod population;
pub mod random;
pub mod recurrent;
mod tables;

pub use device::{Budget, Choice, Device, Opened};
pub use error::{Error, Result};
pub use net::Net;
pub use nets::Nets;
pub use population::Population;
pub use tables::{Table, Tables};
