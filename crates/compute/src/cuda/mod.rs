//! NVIDIA: the driver, one slab of memory, streams, captured graphs, modules, cuBLASLt, and the device twin of a
//! population.
//!
//! Nothing of CUDA is linked: the driver and cuBLASLt are looked for when a card is asked for, and a machine without
//! them is told so. Everything unsafe of the room that is not SIMD is in this folder.
#![expect(unsafe_code, reason = "the driver is a C library")]

mod arguments;
mod array;
mod between;
mod blaslt;
mod calls;
mod context;
mod driver;
mod engine;
mod graph;
mod hopper;
mod image;
pub(crate) mod kernels;
mod memory;
mod module;
mod own;
mod rates;
#[cfg(test)]
mod tests;
mod workspace;

pub use crate::{arguments, image};
pub use arguments::{Argument, Arguments, Field, Kind, PackAs, Packer, difference};
pub use array::Array;
pub(crate) use array::Memory;
pub(crate) use context::lock_driver;
pub use context::{Context, Gpu, gpus};
pub use driver::{Driver, NoDriver, check, driver};
pub use engine::{HeadOnCard, Hypers, Segment, SequencePass, SequencesOnCard, Stack};
pub use graph::{Event, Graph, Stream};
pub use image::Image;
pub(crate) use memory::aligned;
pub use memory::{Plain, Slab, Slice};
pub use module::{Grid, Kernel, Module};
pub use rates::{Rates, rates};

pub(crate) use engine::{Engine, KernelPath, Nets, head_slice, need, nets_need, nets_pins};
