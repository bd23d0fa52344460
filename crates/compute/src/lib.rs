//! Devices, buffers, graphs, random numbers and the fused operations; knows nothing of markets.
//!
//! Every operation exists as twins that are tested against each other: plain Rust that says what it is, fast Rust for
//! CPUs, CUDA for NVIDIA. A [`Device`] is a value; a [`Population`] is nets of one shape that train side by side on it.
//!
//! Two nets learn side by side, and each becomes what it would have become alone:
//!
//! ```
//! use compute::population::{Data, Member, Precision, Recipe};
//! use compute::{Budget, Choice, Net, Opened, Population, Table, Tables};
//!
//! # fn main() -> compute::Result<()> {
//! // 256 rows of two columns, padded to a stride of 4; the class is the sign of the first.
//! let row = |r: u16| [f32::from(r) / 128.0 - 1.0, f32::from(r % 16) / 16.0, 0.0, 0.0];
//! let values: Vec<f32> = (0..256).flat_map(row).collect();
//! let labels: Vec<u8> = (0..256).map(|r| u8::from(r >= 128)).collect();
//! let every: Vec<u32> = (0..256).collect();
//!
//! let net: Net = "row:2 / 8 / direction:2".parse()?;
//! let (device, _) = Opened::new(Choice::Cpu, 2)?;
//! let tables = Tables::new(&device, Budget::default(), &[Table { values: &values, stride: 4 }], &[None])?;
//! let data = Data { labels: vec![&labels], weights: None, lists: vec![&every] };
//! let member = |id| Member {
//!     id, train: 0, valid: Some(0), epochs: 20, rate: 0.03, scales: vec![None], class_weights: vec![Vec::new()],
//! };
//! let trained = |members: &[Member]| -> compute::Result<Population> {
//!     let recipe = Recipe::new(32, Precision::F32, 7);
//!     let mut population = Population::new(&device, Budget::default(), &net, &tables, &data, &recipe, members)?;
//!     while population.steps(32)?.iter().any(|member| member.active) {
//!         population.validate()?;
//!     }
//!     Ok(population)
//! };
//! let (mut both, mut one) = (trained(&[member(0), member(1)])?, trained(&[member(1)])?);
//! assert_eq!(both.params(1)?, one.params(1)?);
//! assert!(both.score_all()?.iter().all(|score| score.loss < 0.2));
//! # Ok(())
//! # }
//! ```

pub mod allocator;
#[cfg(target_arch = "x86_64")]
pub mod amx;
pub mod bf16;
mod cpu;
pub mod cpu_rate;
pub mod cuda;
pub mod device;
mod error;
mod host;
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
