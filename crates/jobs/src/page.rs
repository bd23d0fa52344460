//! The demo's page: plain numbers and strings for the room that draws.

mod features;
mod training;

use crate::demo::Shown;
use bars::Bars;
use bars::audit::{Audit, Verdict};
use files::{format_count, format_short};
use report::{
    Block, Candles, Cell, Column, Columns, Coverage, Heat, Histogram, Line, Lines, Note, Page, Section, Strip, Table,
    Tile, Tone,
};

/// The whole page.
pub(crate) fn page(shown: &Shown<'_>) -> Page {
    let f = shown.figures;
    Page {
        title: "A synthetic market, read, audited and trained on".into(),
        subtitle: format!(
            "{} symbols of daily bars, a planted signal and one symbol of 5-minute bars, made from seed {}, written as Parquet, read back, audited, turned into features and labels; and a population of small LSTMs that looks for the planted signal.",
            f.symbols, f.seed
        ),
        sections: vec![
            figures(shown),
            prices(shown),
            features::section(shown),
            signal(shown),
            training::section(shown),
            session(shown),
            damage(shown),
            symbols(shown),
        ],
    }
}

fn figures(shown: &Shown<'_>) -> Section {
    let f = shown.figures;
    let caught = f.damage.iter().filter(|d| d.found >= d.planted).count();
    let all = if caught == f.damage.len() { Tone::Good } else { Tone::Warn };
    let found = match &f.training.found {
        Some(found) => training::tile(found),
        None => Tile::new("planted signal", "–", "training was stopped").tone(Tone::Warn),
    };
    Section {
        heading: "In figures".into(),
        prose: "Everything here was generated on this machine; nothing is market data. The same seed gives the same page, except for the speeds."
            .into(),
        blocks: vec![Block::Tiles(vec![
            Tile::new("made", format_short(f.made_bars_per_s), "bars/s"),
            Tile::new("written as Parquet", format_short(f.written_bars_per_s), "bars/s"),
            Tile::new("read and audited", format_short(f.read_rows_per_s), "rows/s"),
            Tile::new("features computed", format_short(f.features.values_per_s), "values/s"),
            Tile::new("bars", format_count(f.bars), ""),
            Tile::new("audit", word(f.verdict), "").tone(tone(f.verdict)),
            Tile::new("damage caught", format!("{caught} of {}", f.damage.len()), "kinds").tone(all),
            found,
        ])],
    }
}

fn prices(shown: &Shown<'_>) -> Section {
    let longest = shown.market.iter().map(Bars::len).max().unwrap_or(0);
    let whole: Vec<&Bars> = shown.market.iter().filter(|b| b.len() == longest).collect();
    let some: Vec<&Bars> = whole.iter().step_by((whole.len() / 5).max(1)).take(5).copied().collect();
    let series = some.iter().map(|b| {
        let first = b.close.first().copied().unwrap_or(1.0);
        Line {
            name: b.symbol.clone(),
            time: b.start.clone(),
            value: b.close.iter().map(|c| 100.0 * c / first).collect(),
        }
    });
    let returns: Vec<f64> =
        shown.market.iter().flat_map(|b| b.close.windows(2).map(|w| 100.0 * (w[1] / w[0] - 1.0))).collect();
    let mut blocks = vec![Block::Lines(Lines {
        title: "Close".into(),
        unit: "first day is 100, log scale".into(),
        log: true,
        series: series.collect(),
    })];
    if let Some(b) = some.first() {
        blocks.push(Block::Row(vec![
            Block::Candles(candles(b, 120, format!("{}, last 120 days", b.symbol))),
            Block::Histogram(Histogram {
                title: "Daily returns of all symbols".into(),
                unit: "%".into(),
                values: returns,
            }),
        ]));
    }
    let chosen: Vec<&Bars> = whole.iter().step_by((whole.len() / 16).max(1)).take(16).copied().collect();
    let names: Vec<String> = chosen.iter().map(|b| b.symbol.clone()).collect();
    let values = chosen.iter().map(|a| chosen.iter().map(|b| correlation(&a.close, &b.close)).collect()).collect();
    blocks.push(Block::Row(vec![
        Block::Heat(Heat { title: "Correlation of daily returns".into(), names: (names.clone(), names), values }),
        Block::Columns(alive(shown.market)),
    ]));
    Section {
        heading: "Prices".into(),
        prose: "A market factor and sectors tie the symbols together; calm, trend and crisis take turns; volatility clusters and prices jump, \
                so the tails are fatter than the normal curve's. Some symbols are listed late and some die, as in a real universe."
            .into(),
        blocks,
    }
}

/// How many symbols had a bar, by the quarter.
fn alive(market: &[Bars]) -> Columns {
    let first = market.iter().filter_map(|b| b.start.first()).min().copied().unwrap_or(0);
    let last = market.iter().filter_map(|b| b.start.last()).max().copied().unwrap_or(1);
    const N: i64 = 20;
    let columns = (0..N).map(|i| {
        let at = first + (last - first) / N * i + (last - first) / (2 * N);
        let living = market
            .iter()
            .filter(|b| b.start.first().is_some_and(|s| *s <= at) && b.start.last().is_some_and(|s| *s >= at));
        (files::time::rfc3339(at).chars().take(7).collect(), living.count() as f64)
    });
    Columns { title: "Listed symbols".into(), unit: "".into(), columns: columns.collect() }
}

fn signal(shown: &Shown<'_>) -> Section {
    let (p, b) = (&shown.figures.planted, shown.signal);
    let plant = b.extras.iter().find(|e| e.0 == "plant").map(|e| e.1.as_slice()).unwrap_or(&[]);
    // Known at close t, filled at open t+1, so it earns open t+1 to open t+2.
    let (mut held, mut sum, mut late, mut position) = (Vec::new(), 0.0, 0.0, 0.0);
    let (mut delayed, mut time, mut last) = (Vec::new(), Vec::new(), 0.0);
    for t in 1..plant.len().saturating_sub(2) {
        let r = b.open[t + 2] / b.open[t + 1] - 1.0;
        sum += plant[t] * r - (plant[t] - position).abs() * p.cost_bp * 1e-4;
        late += plant[t - 1] * r - (plant[t - 1] - last).abs() * p.cost_bp * 1e-4;
        (position, last) = (plant[t], plant[t - 1]);
        held.push(100.0 * sum);
        delayed.push(100.0 * late);
        time.push(b.end[t]);
    }
    let best = (0..time.len()).map(|i| (i + 1) as f64 * p.best_value_bp / 100.0).collect();
    let line = |name: &str, value: Vec<f64>| Line { name: name.into(), time: time.clone(), value };
    Section {
        heading: "A planted signal".into(),
        prose: "One series carries a signal of known strength, so the best that any trader can expect from it is known in closed form. Whoever earns \
                clearly more than this, seed after seed, uses future data."
            .into(),
        blocks: vec![
            Block::Tiles(vec![
                Tile::new("best net value", format!("{:.2}", p.best_value_bp), "bp per bar"),
                Tile::new("mean in its direction", format!("{:.2}", p.mu_bp), "bp per bar"),
                Tile::new("noise", format!("{:.1}", p.sigma_bp), "bp per bar"),
                Tile::new("cost per side", format!("{:.1}", p.cost_bp), "bp"),
                Tile::new("best accuracy", format!("{:.1}", 100.0 * p.best_accuracy), "%"),
            ]),
            Block::Lines(Lines {
                title: "Net profit of one unit of notional".into(),
                unit: "%".into(),
                log: false,
                series: vec![line("best expected", best), line("holding the signal", held), line("one bar late", delayed)],
            }),
        ],
    }
}

fn session(shown: &Shown<'_>) -> Section {
    let b = shown.session;
    // By the clock of the exchange: bars of one day are counted from its first.
    let days = b.instrument.session.trading_days(&b.start);
    let (mut moves, mut volume, mut n, mut slot) = (vec![0.0; 78], vec![0.0; 78], vec![0.0; 78], 0);
    for t in 0..b.len() {
        slot = if t > 0 && days[t] == days[t - 1] { slot + 1 } else { 0 };
        if slot < 78 && b.open[t] > 0.0 {
            moves[slot] += 1e4 * (b.close[t] / b.open[t] - 1.0).abs();
            volume[slot] += b.volume.get(t).copied().unwrap_or(0.0);
            n[slot] += 1.0;
        }
    }
    let clock = |slot: usize| format!("{:02}:{:02}", (570 + 5 * slot) / 60, (570 + 5 * slot) % 60);
    let by_clock = |sums: &[f64]| (0..78).filter(|i| n[*i] > 0.0).map(|i| (clock(i), sums[i] / n[i])).collect();
    Section {
        heading: "Sessions".into(),
        prose: "5-minute bars keep the hours of their exchange: nothing trades at night, and the open and the close are the busiest.".into(),
        blocks: vec![
            Block::Candles(candles(b, 3 * 78, format!("{}, last 3 sessions of 5-minute bars", b.symbol))),
            Block::Row(vec![
                Block::Columns(Columns { title: "Mean move per bar, by New York time".into(), unit: "bp".into(), columns: by_clock(&moves) }),
                Block::Columns(Columns { title: "Mean volume per bar, by New York time".into(), unit: "shares".into(), columns: by_clock(&volume) }),
            ]),
        ],
    }
}

fn damage(shown: &Shown<'_>) -> Section {
    let (f, audit) = (shown.figures, &shown.damaged.audit);
    let rows = f.damage.iter().map(|d| {
        let (word, tone) = if d.found >= d.planted {
            ("caught", Tone::Good)
        } else if d.found > 0 {
            ("in part", Tone::Warn)
        } else {
            ("missed", Tone::Bad)
        };
        vec![
            Cell::text(d.what),
            Cell::text(&d.symbol),
            Cell::number(d.planted as f64, d.planted.to_string()),
            Cell::number(d.found as f64, d.found.to_string()),
            Cell::tag(word, tone),
        ]
    });
    let mut blocks = vec![Block::Table(Table {
        title: "Planted and found".into(),
        columns: vec![
            Column::text("damage"),
            Column::text("symbol"),
            Column::number("planted"),
            Column::number("found"),
            Column::text(""),
        ],
        rows: rows.collect(),
    })];
    blocks.push(Block::Coverage(coverage(
        "The damaged copy: gaps, and rings at suspected splits and at the worst spike",
        audit,
    )));
    if !audit.repairs.is_empty() {
        let rows = audit.repairs.iter().map(|r| {
            vec![
                Cell::text(r.what.replace('_', " ")),
                Cell::number(r.count as f64, format_count(r.count)),
                Cell::text(&r.policy),
                Cell::text(&r.example),
            ]
        });
        blocks.push(Block::Table(Table {
            title: "Repairs and their policies".into(),
            columns: vec![
                Column::text("repair"),
                Column::number("rows"),
                Column::text("setting"),
                Column::text("example"),
            ],
            rows: rows.collect(),
        }));
    }
    blocks.push(verdict_note("The damaged copy", audit));
    Section {
        heading: "What the audit catches".into(),
        prose: "A copy of eight symbols was damaged on purpose, row by row, and audited like any file. Nothing is repaired in silence and no value \
                is ever filled in."
            .into(),
        blocks,
    }
}

fn symbols(shown: &Shown<'_>) -> Section {
    let audit = &shown.clean.audit;
    let mut blocks = vec![verdict_note("The market as it was made", audit)];
    blocks.extend(audit.warnings.iter().take(6).map(|w| Block::Note(Note::new(Tone::Warn, "", w))));
    // Late listings and early deaths are what there is to see; the shortest lives come first.
    let mut few = audit.clone();
    few.symbols.sort_by_key(|s| s.bars);
    few.symbols.truncate(12);
    blocks.push(Block::Coverage(coverage("The twelve symbols listed for the shortest time", &few)));
    let rows = audit.symbols.iter().map(|s| {
        vec![
            Cell::text(&s.symbol),
            Cell::text(&s.timeframe),
            Cell::number(s.bars as f64, format_count(s.bars)),
            Cell::text(day(&s.first)),
            Cell::text(day(&s.last)),
            Cell::number(s.close_first, format!("{:.2}", s.close_first)),
            Cell::number(s.close_last, format!("{:.2}", s.close_last)),
            Cell::number(s.closures as f64, format_count(s.closures)),
            Cell::number(s.missing_bars as f64, format_count(s.missing_bars)),
            Cell::tag(word(s.verdict), tone(s.verdict)),
        ]
    });
    let text = ["symbol", "bar"].map(Column::text);
    let more = [
        Column::number("bars"),
        Column::text("first"),
        Column::text("last"),
        Column::number("first close"),
        Column::number("last close"),
    ];
    let last = [Column::number("closures"), Column::number("missing"), Column::text("verdict")];
    blocks.push(Block::Table(Table {
        title: format!("All {} symbols", audit.symbols.len()),
        columns: text.into_iter().chain(more).chain(last).collect(),
        rows: rows.collect(),
    }));
    Section { heading: "Symbols".into(), prose: format!("Recognised: {}.", audit.format), blocks }
}

fn verdict_note(what: &str, audit: &Audit) -> Block {
    let reasons = if audit.reasons.is_empty() {
        String::new()
    } else {
        format!(" {}.", audit.reasons.iter().take(8).cloned().collect::<Vec<_>>().join("; "))
    };
    Block::Note(Note::new(tone(audit.verdict), format!("{what}: {}.", word(audit.verdict)), reasons.trim()))
}

fn coverage(title: &str, audit: &Audit) -> Coverage {
    let at = |text: &str| files::time::parse(text.as_bytes(), files::time::Order::Ymd).map(|s| s.ns);
    let strips = audit.symbols.iter().filter_map(|s| {
        let (first, last) = (at(&s.first)?, at(&s.last)?);
        let hole = s.longest_hole.as_ref().and_then(|h| Some((at(&h.from)?, at(&h.to)?)));
        let present = hole.map_or(vec![(first, last)], |(from, to)| vec![(first, from), (to, last)]);
        let splits = s.suspected_splits.iter().filter_map(|x| {
            Some((at(&x.at)?, format!("suspected split: price times {:.3} on {}", x.ratio, day(&x.at))))
        });
        let spike = s.worst_spike.iter().filter_map(|x| Some((at(x)?, format!("spike on {}", day(x)))));
        let share = 100.0 * s.bars as f64 / (s.bars + s.missing_bars).max(1) as f64;
        Some(Strip {
            name: s.symbol.clone(),
            present,
            missing: hole.into_iter().collect(),
            marks: splits.chain(spike).collect(),
            figure: format!("{share:.1} %"),
        })
    });
    Coverage { title: title.into(), strips: strips.collect() }
}

fn candles(b: &Bars, n: usize, title: String) -> Candles {
    let from = b.len().saturating_sub(n);
    let tail = |v: &[f64]| v[from..].to_vec();
    Candles {
        title,
        unit: b.instrument.currency.clone(),
        time: b.start[from..].to_vec(),
        open: tail(&b.open),
        high: tail(&b.high),
        low: tail(&b.low),
        close: tail(&b.close),
    }
}

/// Of the returns of two closes of equal length.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let returns = |v: &[f64]| v.windows(2).map(|w| w[1] / w[0] - 1.0).collect::<Vec<_>>();
    let (a, b) = (returns(a), returns(b));
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
    let (ma, mb) = (mean(&a), mean(&b));
    let dot = |x: &[f64], mx: f64, y: &[f64], my: f64| x.iter().zip(y).map(|(p, q)| (p - mx) * (q - my)).sum::<f64>();
    dot(&a, ma, &b, mb) / (dot(&a, ma, &a, ma) * dot(&b, mb, &b, mb)).sqrt()
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Fine => Tone::Good,
        Verdict::Usable => Tone::Warn,
        Verdict::Refuse => Tone::Bad,
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fine => "fine",
        Verdict::Usable => "usable",
        Verdict::Refuse => "refused",
    }
}

fn day(rfc3339: &str) -> String {
    rfc3339.chars().take(10).collect()
}
