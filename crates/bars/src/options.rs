//! What the reader may be told; everything has a default that looks at the file.

use crate::{Factors, InstrumentPatch, Membership};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How to read; the default asks nothing and looks at the file.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time zone of stamps without one (`America/New_York`, `UTC`, `-05:00`); `None` infers it or takes UTC, and says
    /// so.
    pub timezone: Option<String>,
    /// Which end of the bar a stamp marks.
    pub label: StampOption,
    /// Only these symbols; empty means all.
    pub symbols: Vec<String>,
    /// Only bars that start at or after this, in nanoseconds.
    pub from: Option<i64>,
    /// Only bars that start before this.
    pub to: Option<i64>,
    /// What is mended and how.
    pub repairs: Repairs,
    /// Changes to the presets, by symbol (`[instrument.XAUUSD]`).
    pub instruments: BTreeMap<String, InstrumentPatch>,
    /// When each symbol belonged to the universe.
    pub membership: Option<Membership>,
    /// Split and dividend factors.
    pub factors: Option<Factors>,
    /// Bytes this may take; larger inputs are refused by `read` and streamed by `store::add`.
    pub memory: u64,
    /// Threads to parse with.
    pub threads: usize,
    /// Set from outside (Ctrl-C) to end the work with an error of kind `Interrupted`.
    pub stop: Arc<AtomicBool>,
}

/// Which end of the bar a stamp marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StampOption {
    /// Evidence in the file decides; without any, the start, because that makes a bar known later.
    #[default]
    Auto,
    /// The start.
    Start,
    /// The end.
    End,
}

/// What is done about rows that cannot stand as they are. Each repair is counted and shown; none fills a value in.
#[derive(Debug, Clone, PartialEq)]
pub struct Repairs {
    /// Rows out of order.
    pub order: RowOrder,
    /// Rows whose time was there already.
    pub duplicates: Duplicates,
    /// Rows whose time or price cannot be read: dropped while they are at most this share of all rows, else the file is
    /// refused.
    pub unreadable: f64,
    /// Missing, zero, negative or absurd prices; `Keep` keeps zero and negative ones (oil in 2020), never missing ones.
    pub bad_prices: BadBars,
    /// High below open or close, low above.
    pub range: BadBars,
    /// A suspected split starts a new segment.
    pub splits: Splits,
    /// One series under several names.
    pub copies: Copies,
    /// Series with another clock than their near twins.
    pub clocks: Clocks,
    /// Symbols that the audit refuses, among others that it does not.
    pub refused: RefusedSymbols,
}

/// Rows out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// Sorted by time.
    Sort,
    /// The file is refused.
    Refuse,
}

/// Rows whose time was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// The first one stays.
    First,
    /// The last one stays.
    Last,
    /// The file is refused.
    Refuse,
}

/// Bars that cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadBars {
    /// The bar is dropped.
    Drop,
    /// The bar stays as it is.
    Keep,
    /// The file is refused.
    Refuse,
}

/// Suspected splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Splits {
    /// A new segment begins; nothing looks across.
    Segment,
    /// They are taken for true moves.
    Keep,
}

/// One series under several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// The first name stays, the others are left out, aloud.
    Once,
    /// All of them stay.
    Keep,
}

/// Series whose stamps are late or early against a near twin's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// They are left out, aloud.
    Drop,
    /// Their stamps are moved; daily and longer bars are left out, since days have no one length in bars.
    Shift,
    /// They are taken as they are.
    Keep,
}

/// Symbols that the audit refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedSymbols {
    /// Left out, aloud, while fewer than half of the symbols are refused.
    Drop,
    /// One refused symbol refuses the whole.
    Refuse,
}

impl Default for Repairs {
    fn default() -> Repairs {
        Repairs {
            order: RowOrder::Sort,
            duplicates: Duplicates::Last,
            unreadable: 0.01,
            bad_prices: BadBars::Drop,
            range: BadBars::Drop,
            splits: Splits::Segment,
            copies: Copies::Once,
            clocks: Clocks::Drop,
            refused: RefusedSymbols::Drop,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            timezone: None,
            label: StampOption::Auto,
            symbols: Vec::new(),
            from: None,
            to: None,
            repairs: Repairs::default(),
            instruments: BTreeMap::new(),
            membership: None,
            factors: None,
            memory: 4 << 30,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}

impl Options {
    /// An error if the user asked to stop.
    pub(crate) fn check_stop(&self) -> files::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(files::Error::new(files::Kind::Interrupted, "stopped before it was done; nothing was changed"));
        }
        Ok(())
    }
}
