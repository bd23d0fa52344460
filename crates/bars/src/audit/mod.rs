//! What is wrong with a data set, in numbers and in words.
//!
//! An [`Audit`] is plain data: the command line prints it, `--json` serialises it, the report page draws it.

mod compare;
mod conclude;
mod jumps;
pub(crate) mod observe;

pub(crate) use compare::Comparison;
pub(crate) use conclude::conclude;
use conclude::name_some;
pub(crate) use jumps::forget_market_moves;

use serde::Serialize;

/// The audit of everything behind one path.
#[derive(Debug, Clone, Serialize)]
pub struct Audit {
    /// What was recognised, in a few words: `yfinance CSV, three-line header`.
    pub format: String,
    /// The worst verdict of all symbols and of the whole.
    pub verdict: Verdict,
    /// Why, in sentences; empty when fine.
    pub reasons: Vec<String>,
    /// Things to know that change no verdict (survivorship, assumed zones, doubtful stamps).
    pub warnings: Vec<String>,
    /// Bars after repairs, refused symbols left out.
    pub bars: u64,
    /// Rows read from the files.
    pub rows: u64,
    /// Bytes read from the files, as they lie on disk.
    pub bytes: u64,
    /// Files by the way they were read; similar files share an entry.
    pub files: Vec<FileNote>,
    /// Files in the folder that hold no bars, with the reason (at most 50 are named).
    pub left_out: Vec<LeftOut>,
    /// What the repairs did, one entry a kind.
    pub repairs: Vec<RepairCount>,
    /// One entry a symbol and timeframe.
    pub symbols: Vec<SymbolAudit>,
}

/// May these bars be used?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As they are.
    Fine,
    /// With the repairs that are listed.
    Usable,
    /// Not before something is mended by hand.
    Refuse,
}

/// How one file (or a group of like files) was read, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileNote {
    /// The first file of the group.
    pub file: String,
    /// How many files were read this way.
    pub count: u64,
    /// What it is: `Binance kline CSV in zip`.
    pub format: String,
    /// Why it was taken for that, and what was assumed: one sentence each.
    pub why: Vec<String>,
}

/// A file that was not read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// Its path.
    pub file: String,
    /// Why.
    pub why: String,
}

/// One kind of repair, how often, and an example.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepairCount {
    /// `dropped_symbol`, `segmented`, `sorted`, `dropped_unreadable`, `dropped_duplicate`, `dropped_conflicting`,
    /// `dropped_bad_price`, `dropped_range`, `missing_volume`, `rescaled_time`, …
    pub what: &'static str,
    /// Rows touched.
    pub count: u64,
    /// The setting that decides it: `repair.duplicates = "last"`.
    pub policy: String,
    /// One case: file, line and value.
    pub example: String,
}

impl RepairCount {
    /// What was done, in words: `3 duplicate rows dropped`.
    pub fn describe(&self) -> String {
        let (noun, done) = match self.what {
            "sorted" => ("row", "sorted by time"),
            "dropped_unreadable" => ("unreadable row", "dropped"),
            "dropped_duplicate" => ("duplicate row", "dropped"),
            "dropped_conflicting" => ("conflicting row", "dropped"),
            "dropped_bad_price" => ("row", "with a bad price dropped"),
            "kept_bad_price" => ("row", "with a bad price kept"),
            "dropped_range" => ("row", "with an impossible range dropped"),
            "kept_range" => ("row", "with an impossible range kept"),
            "missing_volume" => ("volume", "read as missing"),
            "rescaled_time" => ("stamp", "converted to another unit"),
            "dropped_one_sided" => ("time", "with only one side dropped"),
            "segmented" => ("new segment", "at a suspected split or jump of the price"),
            "dropped_symbol" => ("symbol", "left out"),
            other => ("row", other),
        };
        format!("{} {done} ({})", files::format_plural(self.count, noun), self.policy)
    }
}

/// What was seen of one symbol in one timeframe.
#[derive(Debug, Clone, Serialize)]
pub struct SymbolAudit {
    /// Its name.
    pub symbol: String,
    /// Bars after repairs.
    pub bars: u64,
    /// Start of the first bar, RFC 3339 UTC; empty (null in JSON) without bars.
    #[serde(serialize_with = "null_if_empty")]
    pub first: String,
    /// Start of the last bar, RFC 3339 UTC; likewise.
    #[serde(serialize_with = "null_if_empty")]
    pub last: String,
    /// `5m`, `1d`, …
    pub timeframe: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// Why; empty when fine.
    pub reasons: Vec<String>,
    /// Class, costs and session as they will be used.
    pub instrument: crate::Instrument,
    /// Stretches without a bar that recur every day or week, or that most of the universe shares: the market was shut.
    pub closures: u64,
    /// Stretches without a bar while the market is usually open.
    pub holes: u64,
    /// Bars missing in those holes.
    pub missing_bars: u64,
    /// The longest hole.
    pub longest_hole: Option<Hole>,
    /// Rows with a time that was there already and the same values.
    pub duplicates: u64,
    /// Rows with a time that was there already and other values.
    pub conflicts: u64,
    /// Rows that came earlier than the row before (a file that is newest first counts 0 and is noted).
    pub out_of_order: u64,
    /// Rows whose time or price could not be read.
    pub unreadable: u64,
    /// Rows with a missing, zero, negative or absurd price.
    pub bad_prices: u64,
    /// Rows with high below open or close, or low above.
    pub range_violations: u64,
    /// Rows with a volume that is negative or beyond any market: it counts as missing.
    pub bad_volumes: u64,
    /// Bars in runs of at least 12 bars (5 for daily) whose four prices never move while the market is open.
    pub stuck_bars: u64,
    /// One-bar excursions that come straight back.
    pub spikes: u64,
    /// Where the largest spike is, RFC 3339.
    pub worst_spike: Option<String>,
    /// Bars with volume zero; null where there is no volume.
    pub zero_volume: Option<u64>,
    /// Jumps that look like unadjusted splits or bonus issues.
    pub suspected_splits: Vec<Split>,
    /// Leaps of the price by a factor of five or more within one bar that are no splits.
    pub price_jumps: Vec<Split>,
    /// Steps of the session by an hour, or of the stamps by whole hours.
    pub zone_jumps: u64,
    /// Rows whose epoch was in another unit than most (seconds among milliseconds, say).
    pub mixed_units: u64,
    /// Bars outside the membership file's spans; null without one.
    pub outside_membership: Option<u64>,
    /// Last bar may be unfinished (its end lies after the file was written, or it is far shorter than the others).
    pub unfinished_last: bool,
    /// First and last close and the extremes, for the eye.
    pub close_first: f64,
    /// Last close.
    pub close_last: f64,
    /// Lowest low.
    pub low: f64,
    /// Highest high.
    pub high: f64,
}

fn null_if_empty<S: serde::Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    if text.is_empty() { to.serialize_none() } else { to.serialize_str(text) }
}

/// A stretch without bars.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hole {
    /// When the first missing bar would have started, RFC 3339.
    pub from: String,
    /// When bars go on.
    pub to: String,
    /// How many bars are missing.
    pub bars: u64,
}

/// A jump that looks like a split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Split {
    /// Start of the first bar at the new level, RFC 3339.
    pub at: String,
    /// New price over old price: 0.5 is two for one.
    pub ratio: f64,
    /// Whether the factor file explains it.
    pub factored: bool,
}
