//! The page of a run: the answer and what speaks for and against it, then the details.

use super::gather::{Gathered, SavedFold};
use super::sections;
use crate::kinds::market_models;
use crate::{Baseline, MarketModelRow};
use files::{format_count, format_fixed, format_plural};
use judge::Judged;
use judge::backtest::{Backtest, Latency, Line, format_decision};
use judge::evidence::{Criterion, Evidence, Verdict};
use report::{Block, Cell, Column, Look, Note, Page, Section, Table, Tile, TimeScale, TimeSeries, Timeline, Tone};
use std::path::Path;

const DAY: i64 = 86_400_000_000_000;

/// The page.
pub(super) fn page(run: &Gathered, answer: &Note) -> Page {
    let mut all = vec![first(run, answer)];
    all.extend(sections::returns(run));
    all.extend(sections::trades(run));
    all.extend(sections::breakdown(run));
    all.extend(sections::predictions(run));
    all.extend(sections::training(run));
    all.extend(sections::machine(run));
    all.extend(sections::notes(run));
    Page { title: run.name.clone(), subtitle: subtitle(run), sections: all }
}

/// What the run comes to, in a word and a sentence.
pub(super) fn answer(run: &Gathered) -> Note {
    if run.result.is_none() {
        return Note::new(Tone::Warn, "Not finished", format!("This run is {}.", run.state));
    }
    if let Some(evidence) = run.part::<Evidence>("evidence") {
        let tone = match evidence.verdict {
            Verdict::Evidence => Tone::Good,
            Verdict::Promising | Verdict::NotEnoughData => Tone::Warn,
            // A normal answer.
            Verdict::NoEvidence => Tone::Plain,
            Verdict::Suspicious => Tone::Bad,
        };
        // The word is the title; what follows it in the sentence is the reason.
        let word = evidence.verdict.word();
        let reason = evidence.sentence.strip_prefix(word).unwrap_or(&evidence.sentence);
        let reason = reason.trim_start_matches([':', ' ']).trim();
        let reason = reason.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(reason);
        let text = format!("{}. Next: {}.", capital(reason), evidence.next.trim_end_matches('.'));
        return Note::new(tone, capital(word), text);
    }
    let judged: Option<Judged> = run.part("judged");
    if let Some(why) = judged.as_ref().and_then(|j| j.no_interval.clone()) {
        return Note::new(Tone::Warn, "Not enough data", format!("There is no verdict: {why}."));
    }
    let text = "The run holds no verdict. Its figures are not corrected for the number of trials.";
    Note::new(Tone::Plain, "No verdict", text)
}

/// The first letter in upper case.
pub(super) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// What was trained on what.
fn subtitle(run: &Gathered) -> String {
    if run.result.is_none() {
        return format!("Started {}", run.started.clone().unwrap_or_default());
    }
    let data = run.text("data");
    let data = Path::new(&data).file_stem().map_or(data.clone(), |stem| stem.to_string_lossy().into_owned());
    let label = run.part::<serde_json::Value>("label").and_then(|l| l["rule"].as_str().map(String::from));
    let folds: Vec<SavedFold> = run.part("folds").unwrap_or_default();
    let mut words = vec![format!("{} on {data}", run.text("learner"))];
    words.extend(label.map(|rule| format!("labels {rule}")));
    let seeds = format_plural(run.part("seeds").unwrap_or(1), "seed");
    words.push(format!("{} × {seeds}", format_plural(folds.len() as u64, "fold")));
    if let (Some(first), Some(last)) = (folds.first(), folds.last()) {
        words.push(format!("tested from {} to {}", day(&first.test_from), day(&last.test_to)));
    }
    words.join(", ")
}

/// Verdict, key figures, equity, baselines and costs.
fn first(run: &Gathered, answer: &Note) -> Section {
    let backtest: Option<Backtest> = run.part("backtest");
    let evidence: Option<Evidence> = run.part("evidence");
    let mut blocks = vec![Block::Verdict(answer.clone())];
    let more = evidence.iter().flat_map(|e| e.suspicions.iter().skip(1).map(|s| (Tone::Bad, "Also suspicious: ", s)));
    let remarks = evidence.iter().flat_map(|e| e.remarks.iter().map(|r| (Tone::Warn, "", r)));
    for (tone, what, text) in more.chain(remarks) {
        blocks.push(Block::Note(Note::new(tone, "", capital(&format!("{what}{text}.")))));
    }
    blocks.push(Block::Tiles(tiles(run, backtest.as_ref(), evidence.as_ref())));
    blocks.extend(equity(run, backtest.as_ref()).map(Block::Timeline));
    blocks.extend(evidence.as_ref().map(|evidence| Block::Table(criteria(evidence))));
    let latency: Option<Latency> = run.part("latency");
    let baseline = run.part::<Baseline>("baseline").map(|own| own.line);
    blocks.extend(backtest.as_ref().and_then(|b| lines(b, baseline.as_ref(), latency.as_ref())).map(Block::Table));
    let markets: Vec<MarketModelRow> = run.part("market_models").unwrap_or_default();
    blocks.extend(market_models::table(&markets).map(Block::Table));
    let beside = [baselines(run, backtest.as_ref(), evidence.as_ref()), backtest.as_ref().map(costs)];
    let beside: Vec<Block> = beside.into_iter().flatten().map(Block::Table).collect();
    if !beside.is_empty() {
        blocks.push(Block::Row(beside));
    }
    blocks.retain(|block| !matches!(block, Block::Tiles(tiles) if tiles.is_empty()));
    Section { heading: "Verdict".into(), prose: String::new(), blocks }
}

/// The claim rule, criterion by criterion.
fn criteria(evidence: &Evidence) -> Table {
    let row = |c: &Criterion| {
        let (word, tone) = match (c.met, c.applies) {
            (Some(true), _) => ("met", Tone::Good),
            (Some(false), _) => ("failed", Tone::Bad),
            (None, true) => ("missing", Tone::Warn),
            (None, false) => ("does not apply", Tone::Plain),
        };
        vec![Cell::text(&c.name), Cell::tag(word, tone), Cell::text(minus(c.found.clone())), Cell::text(&c.needed)]
    };
    Table {
        title: "What evidence takes".into(),
        columns: ["criterion", "", "found", "needed"].map(Column::text).to_vec(),
        rows: evidence.criteria.iter().map(row).collect(),
    }
}

fn tiles(run: &Gathered, backtest: Option<&Backtest>, evidence: Option<&Evidence>) -> Vec<Tile> {
    let mut tiles = Vec::new();
    if let Some(b) = backtest {
        let net = &b.net;
        let gross = format!("gross {}", percent(b.gross_return));
        tiles.push(Tile::new("net return", percent(net.total_return), gross));
        let sharpe = net.sharpe_annual.or(net.sharpe_annual_uncorrected);
        let error = net.sharpe_annual_error.map_or(String::new(), |e| format!("± {} a year", number(e)));
        tiles.push(Tile::new("net Sharpe ratio", sharpe.map_or("–".into(), number), error));
        if let Some(found) = evidence.map(|e| &e.findings) {
            let trials = format!("after {}", format_plural(found.trials as u64, "trial"));
            let deflated = found.deflated.as_ref().map_or("–".into(), |d| format_fixed(d.probability, 3));
            tiles.push(Tile::new("deflated Sharpe ratio", deflated, trials));
        }
        let days = format!("longest {}", format_plural(net.drawdown.longest_days as u64, "day"));
        tiles.push(Tile::new("largest drawdown", percent(net.drawdown.depth), days));
        let trips = &net.round_trips;
        let won = trips.hit_rate.map_or("nothing was traded".into(), |hit| format!("{} won", percent(hit)));
        tiles.push(Tile::new("trades", format_count(trips.count as u64), won));
    }
    if let Some(judged) = run.part::<Judged>("judged").filter(|j| j.no_interval.is_none()) {
        let direction = judged.directional_mcc.map_or("–".into(), figure);
        let chance = judged.directional_p.map(|p| match p < 0.0001 {
            true => "p below 0.0001".to_string(),
            false => format!("p {}", format_fixed(p, 4)),
        });
        let below = chance.unwrap_or_else(|| format!("all classes {}", figure(judged.mcc)));
        tiles.push(Tile::new("direction, MCC", direction, below));
    }
    tiles
}

/// Equity over the test blocks beside what it is compared with.
fn equity(run: &Gathered, backtest: Option<&Backtest>) -> Option<Timeline> {
    let (daily, backtest) = (run.daily.as_ref()?, backtest?);
    // The start is the close before the first day.
    let time: Vec<i64> = daily.day.first().map(|first| first - DAY).into_iter().chain(daily.day.clone()).collect();
    let from_one = |values: &[f64]| std::iter::once(1.0).chain(values.iter().copied()).collect::<Vec<f64>>();
    let line = |name: &str, look, values: &[f64]| TimeSeries {
        name: name.into(),
        look,
        time: time.clone(),
        value: from_one(values),
        upper: Vec::new(),
    };
    let traded = backtest.costs.traded > 0.0;
    let mut series = vec![line("net of costs", Look::Main, &daily.net)];
    let mut facts = vec![("net of costs".to_string(), percent(backtest.net.total_return))];
    if traded && !daily.gross.is_empty() {
        series.push(line("before costs", Look::Dashed, &daily.gross));
        facts.push(("before costs".into(), percent(backtest.gross_return)));
    }
    if !daily.hold.is_empty() {
        series.push(line("buy and hold", Look::Soft, &daily.hold));
        facts.push(("buy and hold".into(), percent(backtest.hold_return)));
    }
    let mut description = "Every block was traded by the fold that had not seen it.".to_string();
    if let Some(chance) = &daily.chance {
        let band = line("what chance gives (95 %)", Look::Band, &chance.low);
        if let (Some(low), Some(high)) = (chance.low.last(), chance.high.last()) {
            facts.push(("what chance gives at the end".into(), format!("{} to {}", change(*low), change(*high))));
        }
        series.push(TimeSeries { upper: from_one(&chance.high), ..band });
        description.push_str(" The band holds 95 % of paths with the same days in random order and no drift.");
    }
    description.push_str(" Drag to zoom all charts, double-click to reset; click one to use wheel, arrows, + and −.");
    Some(Timeline {
        title: "Equity over all test blocks".into(),
        description,
        scale: TimeScale::Growth,
        height: 320,
        series,
        borders: borders(run),
        facts,
        ..Timeline::default()
    })
}

/// Where the test of each fold begins.
pub(super) fn borders(run: &Gathered) -> Vec<(i64, String)> {
    let folds: Vec<SavedFold> = run.part("folds").unwrap_or_default();
    folds.iter().filter_map(|f| Some((at(&f.test_from)?, format!("fold {}", f.fold)))).collect()
}

/// What needs no model, beside the run.
fn baselines(run: &Gathered, backtest: Option<&Backtest>, evidence: Option<&Evidence>) -> Option<Table> {
    let judged: Option<Judged> = run.part("judged");
    let mut rows = Vec::new();
    let mut row = |measure: &str, own: Option<String>, other: Option<String>, whose: &str| {
        let cell = |text: Option<String>| Cell::text(text.unwrap_or_else(|| "–".into()));
        rows.push(vec![Cell::text(measure), cell(own), cell(other), Cell::text(whose)]);
    };
    if let Some(b) = backtest {
        let own = Some(percent(b.net.total_return));
        row("net return", own, Some(percent(b.hold_return)), "buy and hold");
        let own = b.net.sharpe_annual.or(b.net.sharpe_annual_uncorrected).map(number);
        row("Sharpe ratio", own.clone(), b.hold_sharpe_annual.map(number), "buy and hold");
        if let Some(chance) = evidence.and_then(|e| e.findings.chance.as_ref()) {
            let year = b.net.days_per_year.sqrt();
            let draws = format!("chance, {} draws", format_count(chance.draws as u64));
            row("Sharpe ratio", own.clone(), Some(number(year * chance.mean)), &draws);
            row("Sharpe ratio", own.clone(), Some(number(year * chance.high)), "95 % of chance is below");
        }
        if let Some(seeds) = evidence.and_then(|e| e.findings.seeds.as_ref()) {
            let interval = format!("{} to {}", number(seeds.low), number(seeds.high));
            let which = format!("{} alone ({interval})", format_plural(seeds.seeds as u64, "seed"));
            row("Sharpe ratio", own, Some(number(seeds.interquartile_mean)), &which);
        }
    }
    if let Some(j) = &judged {
        row("direction, MCC", j.directional_mcc.map(figure), j.persistence_mcc.map(figure), "the last label again");
        if let Some(logistic) = &j.logistic {
            let own = j.directional_mcc.map(figure);
            row("direction, MCC", own, logistic.directional_mcc.map(figure), "logistic regression");
        }
        if j.volatility_mcc.is_some() {
            row("all classes, MCC", Some(figure(j.mcc)), j.volatility_mcc.map(figure), "volatility alone");
        }
        row("accuracy", Some(percent(j.accuracy)), Some(percent(j.test_majority_accuracy)), "most frequent class");
        if let Some(prior) = j.prior_log_loss {
            row("log-loss (low is good)", Some(figure(j.log_loss)), Some(figure(prior)), "class shares of training");
        }
        if let Some(prior) = j.prior_brier {
            row("Brier score (low is good)", Some(figure(j.brier)), Some(figure(prior)), "class shares of training");
        }
    }
    let columns =
        vec![Column::text("measure"), Column::number("this run"), Column::number("baseline"), Column::text("which is")];
    (!rows.is_empty()).then(|| Table { title: "Beside what needs no model".into(), columns, rows })
}

/// What a searcher stands beside: its net alone, the best that was possible, nothing, and PPO that was trained for as
/// long; and how long decisions take.
fn lines(b: &Backtest, baseline: Option<&Line>, latency: Option<&Latency>) -> Option<Table> {
    let row = |line: &Line| {
        let name = match line.knows_the_future {
            true => format!("{} (knows what comes; nothing is selected by it)", line.name),
            false => line.name.clone(),
        };
        let sharpe = line.sharpe_annual.map_or(Cell::text("–"), |s| Cell::number(s, number(s)));
        let trades = Cell::number(line.trades as f64, format_count(line.trades as u64));
        let mut row = vec![Cell::text(name), returned(line.total_return), sharpe, trades];
        if let Some(latency) = latency {
            let seconds = |seconds: f64| Cell::number(seconds, format_decision(seconds));
            row.extend(latency.of_line(&line.name).map_or(
                [Cell::text("–"), Cell::text("–"), Cell::text("–")],
                |own| {
                    let share = Cell::number(own.share_of_bar, percent(own.share_of_bar));
                    [seconds(own.median_seconds), seconds(own.p99_seconds), share]
                },
            ));
        }
        row
    };
    let mut columns = vec![Column::text("decided by")];
    columns.extend(["return", "Sharpe", "trades"].map(Column::number));
    if latency.is_some() {
        columns.extend(["a decision", "99th percentile", "of a bar"].map(Column::number));
    }
    let own = Some(&b.lines).filter(|lines| !lines.is_empty());
    let rows: Vec<Vec<Cell>> = own.into_iter().flat_map(|own| own.iter().chain(baseline)).map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Search beside its net, the best possible, and nothing".into(),
        columns,
        rows,
    })
}

/// The same decisions at other costs and a bar late.
fn costs(b: &Backtest) -> Table {
    let cells = |name: String, total: f64, sharpe: Option<f64>| {
        vec![Cell::text(name), returned(total), sharpe.map_or(Cell::text("–"), |s| Cell::number(s, number(s)))]
    };
    let replayed = b.multiples.iter().map(|m| {
        let name = match m.multiple {
            0.0 => "without costs".to_string(),
            1.0 => "at cost".to_string(),
            times => format!("at {times} times the costs"),
        };
        cells(name, m.total_return, m.sharpe_annual)
    });
    let mut rows: Vec<Vec<Cell>> = replayed.collect();
    rows.push(cells("one bar late, at cost".into(), b.delayed.total_return, b.delayed.sharpe_annual));
    let columns = vec![Column::text("the same decisions"), Column::number("return"), Column::number("Sharpe")];
    let paid = match b.costs.total {
        paid if paid.abs() < 1e15 => format_count(paid.abs().round() as u64),
        paid => number(paid),
    };
    let title = match b.costs.total < 0.0 {
        true => format!("Costs: {paid} {} more were received than paid", b.currency),
        false => format!("Costs: {paid} {} were paid", b.currency),
    };
    Table { title, columns, rows }
}

/// A return as a cell, losses marked.
pub(super) fn returned(value: f64) -> Cell {
    Cell::number(value, percent(value))
}

/// `-3.27 %`, with a minus that is as wide as a plus.
pub(super) fn percent(value: f64) -> String {
    format!("{} %", number(100.0 * value))
}

/// Growth as the change it is.
pub(super) fn change(growth: f64) -> String {
    percent(growth - 1.0)
}

/// Two decimals.
pub(super) fn number(value: f64) -> String {
    if value.abs() >= 1e7 {
        return minus(format!("{value:.1e}"));
    }
    minus(format_fixed(value, 2))
}

/// Four decimals.
pub(super) fn figure(value: f64) -> String {
    minus(format_fixed(value, 4))
}

fn minus(text: String) -> String {
    text.replace('-', "\u{2212}")
}

/// The day of an instant as it is written in results.
pub(super) fn day(rfc3339: &str) -> String {
    rfc3339.chars().take(10).collect()
}

/// An instant as it is written in results; none for rows of ready arrays without times.
pub(super) fn at(rfc3339: &str) -> Option<i64> {
    let is_time = rfc3339.contains('-');
    files::time::parse(rfc3339.as_bytes(), files::time::Order::Ymd).filter(|_| is_time).map(|stamp| stamp.ns)
}
