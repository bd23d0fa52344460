//! Bars recognised, normalised, audited, in columns; instruments; synthetic markets.
//!
//! Data walks through the modules in this order:
//!
//! 1. `scan` finds the files and their containers, `recognise` says which column is what and why;
//! 2. `ingest` turns each file into rows: UTC, one symbol each, prices f64, in file order;
//! 3. `series` puts the rows of one symbol and timeframe in order, applies the [`Repairs`] the user chose, and counts
//!    each of them;
//! 4. [`audit`] watches the clean rows go by and gives a verdict;
//! 5. they end as [`Bars`] in memory or, through [`store`], as Parquet beside a catalogue.
//!
//! **Bar t is `[start, end)` and is known at `end`.** A stamp that does not say which end it marks is read as the
//! start, which makes the bar known later, never earlier. There is no backward fill anywhere.
//!
//! Nobody says which column is what, or how long a bar is:
//!
//! ```
//! use bars::{Options, Timeframe, read_bytes};
//!
//! # fn main() -> files::Result<()> {
//! let csv = "Date,Open,High,Low,Close,Volume
//! 2024-01-02 00:00:00,100,103,99,102,7
//! 2024-01-02 01:00:00,102,104,101,103,5
//! 2024-01-02 02:00:00,103,103,98,99,9
//! 2024-01-02 03:00:00,99,101,97,100,4
//! ";
//! let (market, audit) = read_bytes("BTCUSDT.csv", csv.as_bytes(), &Options::default())?;
//! let bars = &market.bars[0];
//! assert_eq!((bars.symbol.as_str(), bars.timeframe), ("BTCUSDT", Timeframe::H1));
//! assert_eq!(bars.close, [102.0, 103.0, 99.0, 100.0]);
//! // A bar is known at its end, which is when the next one starts.
//! assert_eq!(bars.end[..3], bars.start[1..]);
//! assert_eq!((audit.rows, audit.bars), (4, 4));
//! # Ok(())
//! # }
//! ```

pub mod audit;
mod bars;
mod fingerprint;
mod ingest;
mod instrument;
mod options;
mod recognise;
mod scan;
mod series;
mod spelling;
pub mod store;
pub mod synth;
mod timeframe;
mod universe;

pub use bars::{Bars, Market};
pub use fingerprint::{Fingerprint, instrument_text};
pub use instrument::{
    Bucket, Buckets, Class, ClockTime, Costs, Hints, Instrument, InstrumentPatch, PATCH_KEYS, Rollover, Session,
    SessionClock, SessionHours, TradingDates, VolumeKind, Weekdays,
};
pub use options::{
    BadBars, Clocks, Copies, Duplicates, Options, RefusedSymbols, Repairs, RowOrder, Splits, StampOption,
};
pub use scan::{Progress, read, read_bytes};
pub use spelling::nearest;
pub use timeframe::Timeframe;
pub use universe::{Factors, Membership};
