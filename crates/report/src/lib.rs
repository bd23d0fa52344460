//! A run on disk and its views: what it says of itself ([`Run`]), the rows it logs ([`Log`]), TensorBoard's files
//! ([`Events`]), and one self-contained HTML page: figures, charts, tables and notes, drawn by hand.
//!
//! A [`Page`] is plain data: numbers and strings come in, one string of HTML goes out. This room knows nothing of bars.
//! The page asks nothing of the network: style and script are inline and named by hash in a strict content security
//! policy, so that even a hostile symbol name could not run. Charts are SVG that stretches without scaling its text, so
//! a phone reads them too; every long series is thinned to its extremes per pixel, so half a million points stay small
//! and no spike is lost.
//!
//! Left out on purpose: chart libraries, web fonts, and style attributes (the policy forbids them).
//!
//! A page is plain data, and one string of HTML that asks nothing of the network:
//!
//! ```
//! use report::{Block, Cell, Column, Page, Section, Table, Tile};
//!
//! let tiles = Block::Tiles(vec![Tile::new("read", "3.4 M", "rows/s")]);
//! let table = Block::Table(Table {
//!     title: "Symbols".into(),
//!     columns: vec![Column::text("symbol"), Column::number("bars")],
//!     rows: vec![vec![Cell::text("<script>"), Cell::number(490_000.0, "490,000")]],
//! });
//! let section = Section { heading: "Data".into(), prose: "One symbol was read.".into(), blocks: vec![tiles, table] };
//! let page = Page { title: "Gold".into(), subtitle: "Bars of 5 minutes".into(), sections: vec![section] };
//! let html = page.html();
//! assert!(html.contains("3.4 M") && html.contains("490,000"));
//! assert!(html.contains("&lt;script&gt;"), "names are text, whatever they hold");
//! assert!(html.contains("default-src 'none'"));
//! ```

mod append_file;
mod candles;
mod chart;
mod clock;
mod columns;
mod coverage;
mod curves;
mod heat;
mod histogram;
mod html;
mod lines;
mod log;
mod monitor;
mod months;
mod os;
mod plot;
mod ranking;
mod runs;
mod screen;
mod sha256;
mod spans;
mod table;
mod tensorboard;
mod timeline;

pub use candles::Candles;
pub use columns::Columns;
pub use coverage::{Coverage, Strip};
pub use curves::{Curve, Curves};
pub use heat::Heat;
pub use histogram::Histogram;
pub use lines::{Line, Lines};
pub use log::{Log, Row, log_path, read_log};
pub use monitor::{
    BestSummary, LogFollower, Member, MemberSummary, Metric, MetricSummary, MonitorState, MonitorSummary, NewRows,
    PhaseSummary, Point, Selection, Series, View, draw_monitor, field_label, judged_fields, summarise,
};
pub use months::Months;
pub use ranking::{RankRow, Ranking};
pub use runs::{BestMember, Run, RunState, RunStatus, RunSummary, list_runs};
pub use screen::{Ink, Screen};
pub use spans::{SpanRow, Spans};
pub use table::{Cell, Column, Table};
pub use tensorboard::Events;
pub use timeline::{Look, TimeScale, TimeSeries, Timeline, TradeMark};

/// A whole page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The heading, and the title of the browser's tab.
    pub title: String,
    /// One sentence under it.
    pub subtitle: String,
    /// In reading order.
    pub sections: Vec<Section>,
}

/// A heading, some sentences, and what they speak of.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Shown, and linked from the top of the page.
    pub heading: String,
    /// Plain text; an empty line starts a new paragraph, words in backticks are code.
    pub prose: String,
    /// In reading order.
    pub blocks: Vec<Block>,
}

/// One thing on the page.
#[derive(Debug, Clone)]
pub enum Block {
    /// Key figures.
    Tiles(Vec<Tile>),
    /// Series over time.
    Lines(Lines),
    /// Series over epochs or another count.
    Curves(Curves),
    /// Open, high, low, close.
    Candles(Candles),
    /// A distribution with the normal curve of the same mean and deviation.
    Histogram(Histogram),
    /// One column a category.
    Columns(Columns),
    /// A matrix in colours.
    Heat(Heat),
    /// What is there and what is missing, one strip a symbol.
    Coverage(Coverage),
    /// Which stretch of time is for what, one strip a row.
    Spans(Spans),
    /// Series over time that can be zoomed, all of a page together.
    Timeline(Timeline),
    /// Returns month by month.
    Months(Months),
    /// Named values, one bar a line.
    Ranking(Ranking),
    /// The answer, in a word and a sentence.
    Verdict(Note),
    /// One of several, each under its name.
    Choice(Choice),
    /// Rows and columns, sortable by a click.
    Table(Table),
    /// A box with a sentence or two.
    Note(Note),
    /// Side by side where there is room, one under the other on a phone.
    Row(Vec<Block>),
}

/// One key figure.
#[derive(Debug, Clone, Default)]
pub struct Tile {
    /// What it is: `read`.
    pub label: String,
    /// The figure, formatted: `3.4 M`.
    pub value: String,
    /// Its unit, or a few words: `rows/s`.
    pub unit: String,
    /// How it should feel.
    pub tone: Tone,
}

/// A box with a sentence or two.
#[derive(Debug, Clone, Default)]
pub struct Note {
    /// The first words, in bold; may be empty.
    pub title: String,
    /// Plain text.
    pub text: String,
    /// How it should feel.
    pub tone: Tone,
}

/// One of several blocks, chosen by name.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// What is chosen: `Symbol`.
    pub label: String,
    /// The first is shown first.
    pub parts: Vec<(String, Block)>,
}

/// How a figure, a cell or a note should feel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As the text around it.
    #[default]
    Plain,
    /// All is well.
    Good,
    /// To know.
    Warn,
    /// Wrong.
    Bad,
}

impl Page {
    /// The page as one HTML document.
    pub fn html(&self) -> String {
        html::page(self)
    }
}

impl Tile {
    /// A plain figure.
    pub fn new(label: impl Into<String>, value: impl Into<String>, unit: impl Into<String>) -> Tile {
        Tile { label: label.into(), value: value.into(), unit: unit.into(), tone: Tone::Plain }
    }

    /// The same figure with a tone.
    pub fn tone(mut self, tone: Tone) -> Tile {
        self.tone = tone;
        self
    }
}

impl Note {
    /// A box.
    pub fn new(tone: Tone, title: impl Into<String>, text: impl Into<String>) -> Note {
        Note { title: title.into(), text: text.into(), tone }
    }
}

/// Writes the page beside its place and renames it.
pub fn write(path: &std::path::Path, page: &Page) -> files::Result<()> {
    files::replace_bytes(path, page.html().as_bytes())
}

#[cfg(test)]
mod tests;
