//! Bars become the table: indicators, timeframes, labels, samples, their streaming twin, and the tests that hunt for leaks.

mod batch;
mod clock;
mod columns;
mod dataset;
mod emit;
mod engine;
mod graph;
mod indicators;
mod inputs;
pub mod labels;
pub mod language;
pub mod leak;
mod ops;
mod plan;
mod presets;
mod resample;
mod runs;
mod samples;
mod simd;
mod stream;
mod table;

pub use clock::{Clock, Walk};
pub use dataset::{Dataset, Options, Slower, precise};
pub use indicators::{Indicator, Kind, Param, catalogue};
pub use plan::Plan;
pub use presets::{PRESETS, columns, preset, read_set, usage};
pub use resample::{Bar, resample};
pub use runs::runs;
pub use samples::{Samples, Span};
pub use stream::{Row, Stream};
pub use table::{Feature, Table};
