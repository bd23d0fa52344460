//! Bars become the table: indicators, timeframes, labels, samples, their streaming twin, and the tests that hunt for
//! leaks.
//!
//! The walk:
//!
//! 1. [`language`] reads the text of a feature set; [`Plan`] resolves it against the [`catalogue`] into one graph a
//!    timeframe, in which every common part stands once. An indicator is a function that adds nodes to that graph, and
//!    nothing else is said about it.
//! 2. [`Dataset`] cuts the bars of a market into [`runs`], makes the slower bars ([`resample`]), and runs each graph
//!    over them (`batch`): many symbols side by side in lanes, or one long symbol with its columns shared out among the
//!    cores. Where the set asks for the market around a symbol, `context` computes it first, over all symbols on the
//!    common clock.
//! 3. The `engine` takes a block of bars through the graph, node by node (`ops`), and `emit` turns columns into rows of
//!    the [`Table`].
//! 4. [`labels`] says what there is to learn, [`Clock`] puts all symbols on one time, [`Dataset::usable_rows`] says
//!    which rows may be [`Samples`], [`Dataset::inputs`] what a sample reads.
//! 5. [`Stream`] is the same engine fed one bar at a time: the same bits, with a state that can be saved;
//!    [`Dataset::streamed`] makes the tables with it.
//! 6. [`leak`] hunts for looks into the future, in this pipeline and in anyone's.
//!
//! **A lane's bits depend on its own bars alone**: not on its neighbours, the width, the block, the thread or the
//! instruction set. **A value that does not exist is NaN with its bit at 0**; it is never filled, and it starts the
//! warm-up of whatever reads it again.
//!
//! From bars to samples, each known at `t0` with an outcome known at `t1`:
//!
//! ```
//! use bars::synth::Synth;
//! use features::labels::Labeling;
//! use features::{Dataset, InputLayout, Options, Plan, read_set};
//!
//! # fn main() -> files::Result<()> {
//! let market = Synth { symbols: 2, bars: 600, ..Synth::default() }.make_market(1).market;
//! let plan = Plan::new(&read_set("log_return(1), rsi(14), close/sma(50) - 1")?)?;
//! let labels = Some(Labeling::default());
//! let options = Options { threads: 1, max_hole: None, labels, progress: &|_, _, _| {}, stop: &|| false };
//! let data = Dataset::new(market, &plan, &options)?;
//!
//! let inputs = data.inputs(InputLayout::Row);
//! assert_eq!(inputs[0].columns.len(), 3);
//! let usable = data.usable_rows(&inputs, &[1]);
//! assert!(!usable[0], "indicators warm up");
//! let samples = data.samples(&usable).expect("labels were asked for");
//! assert!(!samples.is_empty());
//! assert!(samples.t0.iter().zip(&samples.t1).all(|(known, settled)| known < settled));
//! # Ok(())
//! # }
//! ```

mod batch;
pub mod class;
mod clock;
mod columns;
mod context;
mod dataset;
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
mod row_writer;
mod runs;
mod samples;
mod segmented_run;
mod simd;
mod stream;
mod streamed;
mod table;
mod usable;
mod values;

pub use clock::{Clock, Walk};
pub use context::Universe;
pub use dataset::{Dataset, Options, Slower, precise};
pub use indicators::{Indicator, Kind, Param, catalogue};
pub use plan::{Fitted, Plan, SETTLE};
pub use presets::{PRESETS, columns, preset, read_set, usage};
pub use resample::{Bar, resample};
pub use runs::runs;
pub use samples::{Fold, FoldKind, FoldSpans, Samples, Span};
pub use stream::{Row, Stream};
pub use table::{Feature, Table};
pub use usable::{CostlyColumn, Input, InputLayout};
pub use values::Values;
