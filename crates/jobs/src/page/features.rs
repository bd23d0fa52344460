//! The section about features and labels.

use crate::demo::Shown;
use crate::features::{Balance, LabelSummary};
use features::{Table as Features, labels};
use files::{format_count, format_short};
use report::{Block, Cell, Column, Columns, Heat, Line, Lines, Note, Section, Table, Tile, Tone};

/// Bars of the one symbol that is drawn.
const DRAWN: usize = 400;

/// Rows that correlations look at.
const SEEN: usize = 40_000;

/// One of each kind, where the set has them.
const CHOSEN: &[&str] = &[
    "ret_1",
    "ret_20",
    "above_sma_50",
    "slope_20",
    "rsi_14",
    "stoch_k",
    "macd_hist",
    "adx_14",
    "percent_b",
    "volatility_20",
    "natr_14",
    "volume_ratio_20",
    "cmf_20",
    "drawdown_100",
];

/// Features and labels of the market.
pub(super) fn section(shown: &Shown<'_>) -> Section {
    let (f, table) = (shown.featured, &shown.data.base);
    let mut tiles = vec![
        Tile::new("features", f.columns.len().to_string(), "columns"),
        Tile::new("computed", format_short(f.rows_per_s.unwrap_or(0.0)), "rows/s"),
        Tile::new("time per bar", format!("{:.0}", f.ns_per_bar.unwrap_or(0.0)), "ns"),
        Tile::new("settled", format!("{:.1}", 100.0 * f.settled_share), "% of the rows"),
    ];
    if let Some(l) = &f.label {
        tiles.push(Tile::new("labels", l.rule.clone(), format_count(l.labelled)));
        tiles.push(Tile::new("uniqueness", format!("{:.2}", l.mean_uniqueness), "mean"));
    }
    let mut blocks = vec![Block::Tiles(tiles)];
    blocks.extend(one_symbol(table));
    if let Some(l) = &f.label {
        blocks.push(Block::Row(vec![Block::Columns(balance(l)), Block::Columns(durations(shown))]));
        if !l.tried.is_empty() {
            blocks.push(Block::Note(Note::new(Tone::Plain, "", tried(l))));
        }
    }
    blocks.push(Block::Heat(correlations(table)));
    blocks.push(Block::Table(columns(shown)));
    Section {
        heading: "Features and labels".into(),
        prose: "The preset `full` on every bar, and for each row what became of it. A value that does not exist yet is missing and never filled; \
                a row is settled when no value depends any more on where the data begin. Labels enter at the open of the next bar and count only what exceeds the costs."
            .into(),
        blocks,
    }
}

/// The price of the symbol with the longest life, and features below it.
fn one_symbol(table: &Features) -> Vec<Block> {
    let Some((s, bars)) = table.market.iter().enumerate().max_by_key(|(s, b)| (b.len(), usize::MAX - s)) else {
        return Vec::new();
    };
    let from = bars.len().saturating_sub(DRAWN);
    let time = bars.end[from..].to_vec();
    let line = |name: &str| {
        let column = table.column(name)?;
        let value = (from..bars.len()).map(|t| f64::from(table.row(table.offsets[s] + t)[column])).collect();
        Some(Line { name: name.into(), time: time.clone(), value })
    };
    let lines = |title: &str, unit: &str, series: Vec<Line>| {
        Block::Lines(Lines { title: title.into(), unit: unit.into(), log: false, series })
    };
    let close = Line { name: "close".into(), time: time.clone(), value: bars.close[from..].to_vec() };
    let mut blocks = vec![lines(
        &format!("{}, the last {} bars", bars.symbol, bars.len() - from),
        &bars.instrument.currency,
        vec![close],
    )];
    for (title, unit, names) in [
        ("Oscillators, scaled to about -1 to 1", "", &["rsi_14", "percent_b", "stoch_k"][..]),
        ("Volatility", "of the price", &["volatility_20", "natr_14"]),
    ] {
        let series: Vec<Line> = names.iter().filter_map(|name| line(name)).collect();
        if !series.is_empty() {
            blocks.push(lines(title, unit, series));
        }
    }
    blocks
}

fn balance(l: &LabelSummary) -> Columns {
    let columns = [("down", l.share.down), ("flat", l.share.flat), ("up", l.share.up)];
    let columns = columns.map(|(name, share)| (name.to_string(), 100.0 * share)).to_vec();
    Columns { title: format!("Classes of {}", l.rule), unit: "% of the labels".into(), columns }
}

fn tried(l: &LabelSummary) -> String {
    let percent = |b: &Balance| {
        let all = (b.down + b.flat + b.up).max(1) as f64;
        let share = |n: u64| format!("{:.0}", 100.0 * n as f64 / all);
        format!("{}/{}/{}", share(b.down), share(b.flat), share(b.up))
    };
    let each: Vec<String> =
        l.tried.iter().map(|t| format!("{} bars × {} {}", t.horizon, t.width, percent(&t.balance))).collect();
    format!(
        "The horizon was chosen automatically: the shortest that gives every class a fifth on the first training span or, where none does, the one whose smallest class is largest. Down/flat/up in percent: {}.",
        each.join(", ")
    )
}

/// After how many bars the labels were known.
fn durations(shown: &Shown<'_>) -> Columns {
    const MOST: usize = 24;
    let table = &shown.data.base;
    let mut counts = [0u64; MOST + 1];
    if let Some(l) = &shown.data.labels {
        for (s, bars) in table.market.iter().enumerate() {
            let from = table.offsets[s];
            for t in 0..bars.len() {
                if l.class[from + t] != labels::NONE {
                    // The first bar that ends at or after it.
                    let later = &bars.end[t + 1..bars.len().min(t + 1 + MOST)];
                    counts[later.partition_point(|end| *end < l.t1[from + t])] += 1;
                }
            }
        }
    }
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let used = counts.iter().rposition(|n| *n > 0).unwrap_or(0);
    let name = |i: usize| if i == MOST { format!("over {MOST}") } else { (i + 1).to_string() };
    let columns = (0..=used).map(|i| (name(i), 100.0 * counts[i] as f64 / all)).collect();
    Columns { title: "Bars until a label was known".into(), unit: "% of the labels".into(), columns }
}

fn correlations(table: &Features) -> Heat {
    let chosen: Vec<(&str, usize)> =
        CHOSEN.iter().filter_map(|name| Some((*name, table.column(name)?))).take(12).collect();
    let step = (table.rows() / SEEN).max(1);
    let rows: Vec<usize> = (0..table.rows()).step_by(step).filter(|row| table.settled[*row]).collect();
    let column = |at: usize| -> Vec<f64> {
        let values: Vec<f64> = rows.iter().map(|row| f64::from(table.row(*row)[at])).collect();
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        values.into_iter().map(|v| (v - mean) / deviation).collect()
    };
    let scores: Vec<Vec<f64>> = chosen.iter().map(|c| column(c.1)).collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>() / a.len().max(1) as f64;
    let values = scores.iter().map(|a| scores.iter().map(|b| product(a, b)).collect()).collect();
    let names: Vec<String> = chosen.iter().map(|c| c.0.to_string()).collect();
    Heat { title: "Correlation of features on settled rows".into(), names: (names.clone(), names), values }
}

fn columns(shown: &Shown<'_>) -> Table {
    let f = shown.featured;
    let rows = f.columns.iter().map(|c| {
        let settled = c.settled.map_or((f64::INFINITY, "never".to_string()), |s| (s as f64, format_count(s)));
        vec![
            Cell::text(&c.name),
            Cell::text(&c.text),
            Cell::number(c.first_valid as f64, format_count(c.first_valid)),
            Cell::number(settled.0, settled.1),
            Cell::number(c.missing_share, format!("{:.1}", 100.0 * c.missing_share)),
        ]
    });
    Table {
        title: format!("All {} columns", f.columns.len()),
        columns: vec![
            Column::text("column"),
            Column::text("what"),
            Column::number("first valid"),
            Column::number("settled"),
            Column::number("missing %"),
        ],
        rows: rows.collect(),
    }
}
