//! The sections below the verdict.

use super::gather::{Gathered, MemberCurve, Prices, SavedFold, SavedPhase};
use super::page::{at, borders, capital, day, figure, number, percent, returned};
use crate::{ColumnImportance, LearnerKind};
use features::class;
use files::{format_bytes, format_count, format_plural, format_seconds, format_short};
use judge::Judged;
use judge::backtest::{Backtest, Part};
use report::{
    Block, Cell, Choice, Column, Curve, Curves, Look, Months, Note, RankRow, Ranking, Section, SpanRow, Spans, Table,
    TimeScale, TimeSeries, Timeline, Tone, TradeMark,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Trades of a symbol that are drawn; of more, those that earned and lost most.
const TRADES: usize = 20_000;

/// Samples of a bin that is drawn.
const ENOUGH: u64 = 30;

/// Members that are drawn one by one; of more, the mean alone.
const CURVES: usize = 48;

fn section(heading: &str, prose: &str, blocks: Vec<Block>) -> Option<Section> {
    (!blocks.is_empty()).then(|| Section { heading: heading.into(), prose: prose.into(), blocks })
}

/// Drawdown, months, rolling Sharpe ratio, exposure.
pub(super) fn returns(run: &Gathered) -> Option<Section> {
    let daily = run.daily.as_ref()?;
    let backtest: Backtest = run.part("backtest")?;
    if backtest.costs.traded == 0.0 {
        return None;
    }
    let series = |name: &str, look, value: Vec<f64>| TimeSeries {
        name: name.into(),
        look,
        time: daily.day.clone(),
        value,
        upper: Vec::new(),
    };
    let mut drawdown = vec![series("net of costs", Look::Area, daily.drawdown.clone())];
    if !daily.hold_drawdown.is_empty() {
        drawdown.push(series("buy and hold", Look::Soft, daily.hold_drawdown.clone()));
    }
    let fall = &backtest.net.drawdown;
    let mut blocks = vec![Block::Timeline(Timeline {
        title: "Drawdown".into(),
        scale: TimeScale::Percent,
        height: 180,
        series: drawdown,
        borders: borders(run),
        facts: vec![
            ("largest".into(), percent(fall.depth)),
            ("longest".into(), format_plural(fall.longest_days as u64, "day")),
        ],
        ..Timeline::default()
    })];
    let mut years: BTreeMap<i64, ([Option<f64>; 12], f64)> = BTreeMap::new();
    for month in &run.months {
        let (months, whole) = years.entry(month.year).or_insert(([None; 12], 0.0));
        if let Some(place) = months.get_mut(month.month as usize - 1) {
            *place = Some(month.total_return);
        }
        *whole = (1.0 + *whole) * (1.0 + month.total_return) - 1.0;
    }
    let years = years.into_iter().map(|(year, (months, whole))| (year, months, whole)).collect();
    blocks.push(Block::Months(Months { title: "Net return by month".into(), years }));
    // Who holds something on few days has no such ratio.
    if let Some(window) = daily.window.filter(|_| daily.rolling_sharpe.iter().any(Option::is_some)) {
        let value: Vec<f64> = daily.rolling_sharpe.iter().map(|s| s.unwrap_or(f64::NAN)).collect();
        let last = value.iter().rev().find(|v| v.is_finite()).map_or("–".into(), |v| number(*v));
        blocks.push(Block::Timeline(Timeline {
            title: format!("Sharpe ratio over the last {window} days, a year"),
            scale: TimeScale::Number,
            height: 180,
            series: vec![series("net", Look::Main, value)],
            borders: borders(run),
            facts: vec![("at the end".into(), last)],
            ..Timeline::default()
        }));
    }
    if !daily.long.is_empty() {
        let mean = |values: &[f64]| percent(values.iter().sum::<f64>() / values.len().max(1) as f64);
        blocks.push(Block::Timeline(Timeline {
            title: "Exposure, mean of each day".into(),
            scale: TimeScale::Percent,
            height: 150,
            series: vec![
                series("long", Look::Area, daily.long.clone()),
                series("short", Look::OtherArea, daily.short.clone()),
            ],
            borders: borders(run),
            facts: vec![("long, mean".into(), mean(&daily.long)), ("short, mean".into(), mean(&daily.short))],
            ..Timeline::default()
        }));
    }
    section("Returns", "", blocks)
}

/// Trades on the price, and what they came to.
pub(super) fn trades(run: &Gathered) -> Option<Section> {
    let backtest: Backtest = run.part("backtest")?;
    if backtest.costs.traded == 0.0 {
        let hold = percent(backtest.hold_return);
        let why = "No fold found a threshold that earned more than its standard error on validation data, so no \
                   position was opened. That is an answer too: at these costs the model does not pay.";
        let note = Note::new(Tone::Plain, "Nothing was traded.", format!("{why} Buying and holding made {hold}."));
        return section("Trades", "", vec![Block::Note(note)]);
    }
    let mut parts: Vec<(String, Block)> =
        run.prices.iter().map(|prices| (prices.symbol.clone(), Block::Timeline(priced(run, prices)))).collect();
    let mut blocks = Vec::new();
    match parts.len() {
        0 => {}
        1 => blocks.push(parts.remove(0).1),
        _ => blocks.push(Block::Choice(Choice { label: "Symbol".into(), parts })),
    }
    let (net, trips) = (&backtest.net, &backtest.net.round_trips);
    let shown = |x: Option<f64>, text: &dyn Fn(f64) -> String| x.map_or("–".to_string(), text);
    let interval = match (trips.hit_rate_low, trips.hit_rate_high) {
        (Some(low), Some(high)) => format!(" (95 %: {} to {})", percent(low), percent(high)),
        _ => String::new(),
    };
    let activity = net.activity.as_ref();
    let mut facts = vec![
        ("round trips", format_count(trips.count as u64)),
        ("won", shown(trips.hit_rate, &percent) + &interval),
        ("profit factor", shown(trips.profit_factor, &number)),
        ("mean win over mean loss", shown(trips.payoff_ratio, &number)),
        ("invested in the mean", shown(activity.and_then(|a| a.exposure), &percent)),
        (
            "equity traded a year",
            shown(activity.and_then(|a| a.turnover_per_year), &|x| format!("{} times", number(x))),
        ),
        ("Sortino ratio", shown(net.sortino_annual, &number)),
        ("Calmar ratio", shown(net.calmar, &number)),
        ("break-even cost a side", shown(backtest.break_even_bp_per_side, &|bp| format!("{} bp", number(bp)))),
    ];
    if let Some(bench) = &net.benchmark {
        facts.push(("beta to buy and hold", shown(bench.beta, &number)));
        facts.push(("alpha a year", shown(bench.alpha_annual, &percent)));
    }
    let c = &backtest.costs;
    let paid = [
        ("fees", c.fee),
        ("spread", c.spread),
        ("impact", c.impact),
        ("financing", c.financing),
        ("borrowing", c.borrow),
        ("funding", c.funding),
        ("dividends received", -c.dividends),
    ];
    let paid = paid.iter().filter(|(_, money)| money.abs() >= 0.005);
    let paid = paid.map(|(name, money)| (*name, format!("{} {}", number(*money), backtest.currency)));
    let mut tables = vec![facts_table("Round trips and activity", facts), facts_table("What was paid", paid.collect())];
    if !backtest.incidents.is_empty() {
        let row = |i: &judge::backtest::Incidents| {
            vec![Cell::text(&i.what), Cell::number(i.count as f64, format_count(i.count as u64)), Cell::text(&i.first)]
        };
        tables.push(Table {
            title: "Closed without a decision".into(),
            columns: vec![Column::text("why"), Column::number("times"), Column::text("first")],
            rows: backtest.incidents.iter().map(row).collect(),
        });
    }
    blocks.push(Block::Row(tables.into_iter().map(Block::Table).collect()));
    section("Trades", "", blocks)
}

fn facts_table(title: &str, facts: Vec<(&str, String)>) -> Table {
    let rows = facts.into_iter().map(|(name, value)| vec![Cell::text(name), Cell::text(value)]).collect();
    Table { title: title.into(), columns: vec![Column::text("figure"), Column::number("value")], rows }
}

/// One symbol's closes with its trades.
fn priced(run: &Gathered, prices: &Prices) -> Timeline {
    let own = run.trades.iter().filter(|trade| trade.symbol == prices.symbol);
    let mut trades: Vec<TradeMark> = own
        .map(|t| TradeMark {
            opened: t.opened,
            closed: t.closed,
            long: t.quantity > 0.0,
            entry: t.entry,
            exit: t.exit,
            result: t.result_share,
        })
        .collect();
    let all = trades.len();
    let won = trades.iter().filter(|t| t.result > 0.0).count();
    let mut description =
        "Triangles are entries (up long, down short), circles exits; a line is green where the trade \
                           earned and red where it lost."
            .to_string();
    if all > TRADES {
        trades.sort_by(|a, b| b.result.abs().total_cmp(&a.result.abs()));
        trades.truncate(TRADES);
        let (few, all) = (format_count(TRADES as u64), format_count(all as u64));
        description.push_str(&format!(" The {few} that moved most, of {all}."));
    }
    let close = TimeSeries {
        name: "close".into(),
        look: Look::Soft,
        time: prices.time.clone(),
        value: prices.close.clone(),
        upper: Vec::new(),
    };
    Timeline {
        title: format!("{}: price and trades", prices.symbol),
        description,
        scale: TimeScale::Number,
        height: 320,
        series: vec![close],
        borders: borders(run),
        trades,
        facts: vec![("trades".into(), format_count(all as u64)), ("won".into(), format_count(won as u64))],
    }
}

/// Fold by fold, year by year, symbol by symbol.
pub(super) fn breakdown(run: &Gathered) -> Option<Section> {
    let backtest: Backtest = run.part("backtest")?;
    if backtest.costs.traded == 0.0 {
        return None;
    }
    let table = |title: &str, head: &str, parts: &[Part]| {
        let row = |p: &Part| {
            let name = p.name.parse::<f64>().map_or_else(|_| Cell::text(&p.name), |n| Cell::number(n, &p.name));
            let mut row = vec![name, returned(p.total_return)];
            if p.days > 0 {
                row.push(p.sharpe_annual.map_or(Cell::text("–"), |s| Cell::number(s, number(s))));
                row.push(Cell::number(p.days as f64, format_count(p.days as u64)));
            }
            row.push(Cell::number(p.trades as f64, format_count(p.trades as u64)));
            row
        };
        let dated = parts.iter().any(|p| p.days > 0);
        let middle: &[&str] = if dated { &["return", "Sharpe", "days"] } else { &["earned of the capital"] };
        let columns = [Column::text(head)].into_iter();
        let columns = columns.chain(middle.iter().chain(&["trades"]).map(|name| Column::number(*name))).collect();
        Block::Table(Table { title: title.into(), columns, rows: parts.iter().map(row).collect() })
    };
    let mut blocks = Vec::new();
    let both: Vec<Block> = [("By fold", "fold", &backtest.folds), ("By year", "year", &backtest.years)]
        .into_iter()
        .filter(|(_, _, parts)| !parts.is_empty())
        .map(|(title, head, parts)| table(title, head, parts))
        .collect();
    if !both.is_empty() {
        blocks.push(Block::Row(both));
    }
    if !backtest.symbols.is_empty() {
        blocks.push(table("By symbol, the best first", "symbol", &backtest.symbols));
    }
    section("Breakdown", "", blocks)
}

/// `growth, bp a bar` for `growth_bp`.
fn plain_name(key: &str) -> String {
    key.strip_suffix("_bp").map_or(key.to_string(), |of| format!("{of}, bp a bar")).replace('_', " ")
}

/// What classes were predicted, and how far probabilities can be believed.
pub(super) fn predictions(run: &Gathered) -> Option<Section> {
    let Some(judged) = run.part::<Judged>("judged") else {
        // Another learner's record: its counts and its figures, a growth with its unit.
        let record: Map<String, Value> = run.part("judged")?;
        let shown = |v: &Value| v.as_u64().map(format_count).or_else(|| v.as_f64().map(figure));
        let facts = record.iter().filter_map(|(name, v)| Some((plain_name(name), shown(v)?)));
        let rows: Vec<Vec<Cell>> = facts.map(|(name, v)| vec![Cell::text(name), Cell::text(v)]).collect();
        let columns = vec![Column::text("figure"), Column::number("value")];
        let table = Table { title: "Members alone, on their test blocks".into(), columns, rows };
        return section("Members on test", "", vec![Block::Table(table)]);
    };
    let mut blocks = vec![Block::Row(vec![Block::Table(confusion(&judged)), Block::Table(per_class(&judged))])];
    let bins: Vec<(f64, f64, u64)> = judged
        .reliability
        .iter()
        .filter(|bin| bin.samples > 0)
        .map(|bin| (100.0 * bin.confidence, 100.0 * bin.accuracy, bin.samples))
        .collect();
    if bins.len() > 1 {
        let ends = [bins[0].0.min(bins[0].1).floor(), bins[bins.len() - 1].0.ceil()];
        let curve = |name: &str, colour, x, y| Curve { name: name.into(), colour, faint: false, x, y };
        // A handful of samples says nothing: those bins stand in the table alone.
        let (x, y) = bins.iter().filter(|bin| bin.2 >= ENOUGH).map(|bin| (bin.0, bin.1)).unzip();
        let rows = bins.iter().map(|(said, right, n)| {
            vec![
                Cell::number(*said, format!("{} %", number(*said))),
                Cell::number(*right, format!("{} %", number(*right))),
                Cell::number(*n as f64, format_count(*n)),
            ]
        });
        let columns = ["said", "right", "samples"].map(Column::number).to_vec();
        blocks.push(Block::Row(vec![
            Block::Curves(Curves {
                title: "Reliability".into(),
                unit: "% right over % said".into(),
                axis: "probability in %:".into(),
                series: vec![curve("the nets", 0, x, y), curve("perfect", 7, ends.to_vec(), ends.to_vec())],
            }),
            Block::Table(Table {
                title: format!(
                    "Calibration error {}, log-loss {}",
                    figure(judged.calibration_error),
                    figure(judged.log_loss)
                ),
                columns,
                rows: rows.collect(),
            }),
        ]));
    }
    blocks.extend(importance(run).map(Block::Ranking));
    let samples = format_plural(judged.samples, "test sample");
    section("Predictions", &format!("The members of each fold averaged, over {samples}."), blocks)
}

/// The columns that are worth most, each beside its noise.
fn importance(run: &Gathered) -> Option<Ranking> {
    const SHOWN: usize = 24;
    let mut columns: Vec<ColumnImportance> = run.part("importance").filter(|all: &Vec<_>| !all.is_empty())?;
    columns.sort_by(|a, b| b.log_loss_added.total_cmp(&a.log_loss_added));
    let above = columns.iter().filter(|c| c.log_loss_added > 2.0 * c.error).count();
    let row = |c: &ColumnImportance| RankRow {
        name: format!("{} ({})", c.column, c.input),
        value: c.log_loss_added,
        noise: 2.0 * c.error,
        text: format!("{:+.5}", c.log_loss_added).replace('-', "\u{2212}"),
    };
    Some(Ranking {
        title: "Columns, by what log-loss rises by where one is shuffled".into(),
        description: format!(
            "The line is twice the standard error over folds; bars that end before it are noise. {above} of {} are above it.",
            format_plural(columns.len() as u64, "column")
        ),
        rows: columns.iter().take(SHOWN).map(row).collect(),
    })
}

fn confusion(judged: &Judged) -> Table {
    let names = class::names(judged.confusion.len());
    let columns = names.iter().map(|name| Column::number(format!("predicted {name}")));
    let rows = names.iter().zip(&judged.confusion).map(|(name, row)| {
        let cells = row.iter().map(|n| Cell::number(*n as f64, format_count(*n)));
        [Cell::text(*name)].into_iter().chain(cells).collect()
    });
    Table {
        title: "Test samples by actual and predicted class".into(),
        columns: [Column::text("actual")].into_iter().chain(columns).collect(),
        rows: rows.collect(),
    }
}

fn per_class(judged: &Judged) -> Table {
    let names = class::names(judged.confusion.len());
    let share = |part: u64, of: u64| match of {
        0 => Cell::text("–"),
        of => Cell::number(part as f64 / of as f64, percent(part as f64 / of as f64)),
    };
    let rows = names.iter().enumerate().map(|(k, name)| {
        let row = judged.confusion.get(k).cloned().unwrap_or_default();
        let (right, actual) = (row.get(k).copied().unwrap_or(0), row.iter().sum());
        let predicted = judged.confusion.iter().filter_map(|r| r.get(k)).sum();
        let all = judged.samples;
        vec![
            Cell::text(*name),
            share(right, predicted),
            share(right, actual),
            share(actual, all),
            share(predicted, all),
        ]
    });
    let columns = ["precision", "recall", "actual", "predicted"].map(Column::number);
    Table {
        title: "Precision and recall".into(),
        columns: [Column::text("class")].into_iter().chain(columns).collect(),
        rows: rows.collect(),
    }
}

/// The split, the curves and the members.
pub(super) fn training(run: &Gathered) -> Option<Section> {
    let mut blocks = Vec::new();
    let folds: Vec<SavedFold> = run.part("folds").unwrap_or_default();
    let locked = run.part::<String>("holdout_from").and_then(|from| at(&from));
    let row = |f: &SavedFold| {
        let ends = [(&f.train_from, &f.train_to), (&f.valid_from, &f.valid_to), (&f.test_from, &f.test_to)];
        let parts = ends.iter().enumerate().map(|(kind, (from, to))| Some((kind, at(from)?, at(to)?)));
        let parts: Option<Vec<(usize, i64, i64)>> = parts.collect();
        Some(SpanRow { name: format!("fold {}", f.fold), parts: parts?, figure: format_count(f.train) })
    };
    let mut rows: Vec<SpanRow> = folds.iter().filter_map(row).collect();
    if !rows.is_empty() {
        let mut kinds = vec!["training".to_string(), "validation".into(), "test".into()];
        // How long the locked part is stands nowhere: it is drawn as long as a test.
        if let (Some(from), Some(last)) = (locked, rows.last().and_then(|r| r.parts.last()).copied()) {
            kinds.push("locked from there on".into());
            rows.iter_mut().for_each(|row| row.parts.push((3, from, from + (last.2 - last.1))));
        }
        blocks.push(Block::Spans(Spans { title: "Folds; at the right, training samples".into(), kinds, rows }));
    }
    let charts: Vec<Block> = curve_charts(&run.curves).into_iter().map(Block::Curves).collect();
    if !charts.is_empty() {
        blocks.push(Block::Row(charts));
    }
    blocks.extend(members(run).map(Block::Table));
    blocks.extend(configs(run).map(Block::Table));
    let words = match run.result {
        Some(_) => format!(
            "`{}`, {} parameters each, batches of {}, {}, {} samples, {} columns.",
            run.text("net"),
            format_count(run.part("parameters").unwrap_or(0)),
            format_count(run.part("batch").unwrap_or(0)),
            run.text("precision"),
            format_count(run.part("samples").unwrap_or(0)),
            format_count(run.part::<Vec<u64>>("columns").unwrap_or_default().iter().sum()),
        ),
        None => String::new(),
    };
    section("Training", &words, blocks)
}

/// Loss and score over epochs, of policies growth and the entropy in its band: the mean of all members, and members one
/// by one where they are few.
fn curve_charts(all: &[MemberCurve]) -> Vec<Curves> {
    let known = |name: &str| all.iter().any(|c| c.figures.get(name).is_some_and(|v| v.iter().flatten().count() > 0));
    let others = all.first().map_or(Vec::new(), |c| c.figures.keys().map(String::as_str).collect());
    let mut names: Vec<&str> = Vec::new();
    let first = ["valid_loss", "valid_mcc", "valid_growth", "entropy"];
    for name in first.into_iter().chain(others) {
        let beside = ["norm", "train_loss"].contains(&name) || BAND.iter().any(|(field, _)| *field == name);
        if names.len() < 2 && known(name) && !names.contains(&name) && !beside {
            names.push(name);
        }
    }
    let axis = all.first().map_or("epoch", |c| c.axis.as_str());
    let chart = |name: &str| {
        let mean_of = |what: &str, name: &str, colour: usize| {
            let (x, y) = mean_curve(all, name);
            Curve { name: what.into(), colour, faint: false, x, y }
        };
        // Searchers are validated with search and without.
        let beside = (name == "valid_growth" && known("net_growth")).then_some("net_growth");
        let validation = match name.starts_with("valid_") {
            true if beside.is_some() => "validation with search, mean",
            true => "validation, mean",
            false => "mean",
        };
        let mut series = vec![mean_of(validation, name, 0)];
        series.extend(beside.map(|alone| mean_of("net alone, mean", alone, 2)));
        let training = name.replace("valid_", "train_");
        if training != name && known(&training) {
            series.push(mean_of("training, mean", &training, 1));
        }
        if name == "entropy" {
            let band = BAND.iter().filter(|(field, _)| known(field));
            series.extend(band.map(|(field, what)| mean_of(what, field, 2)));
        }
        let one = |c: &MemberCurve| Curve {
            name: "each member".into(),
            colour: 7,
            faint: true,
            x: c.at.clone(),
            y: c.figures.get(name).map_or(Vec::new(), |v| v.iter().map(|y| y.unwrap_or(f64::NAN)).collect()),
        };
        // Drawn first, so that the means lie on top.
        let mut each: Vec<Curve> = if all.len() <= CURVES { all.iter().map(one).collect() } else { Vec::new() };
        each.append(&mut series);
        let label = match name {
            "valid_loss" => "Loss".to_string(),
            "valid_mcc" => "Validation MCC".to_string(),
            "valid_growth" => "Growth in basis points a bar".to_string(),
            "entropy" => "Mean entropy of the policy".to_string(),
            other => capital(&other.replace('_', " ")),
        };
        Curves {
            title: format!("{label} after each {axis}"),
            unit: String::new(),
            axis: axis.to_string(),
            series: each,
        }
    };
    names.into_iter().map(chart).collect()
}

/// The ends of the band that the entropy is kept in.
const BAND: [(&str, &str); 2] = [("least_entropy", "band, least"), ("most_entropy", "band, most")];

/// The mean over the members that were still in training.
fn mean_curve(all: &[MemberCurve], name: &str) -> (Vec<f64>, Vec<f64>) {
    let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for curve in all {
        for (at, value) in curve.at.iter().zip(curve.figures.get(name).into_iter().flatten()) {
            if let Some(value) = value {
                let (sum, n) = sums.entry(*at as u64).or_insert((0.0, 0.0));
                (*sum, *n) = (*sum + value, *n + 1.0);
            }
        }
    }
    sums.into_iter().map(|(at, (sum, n))| (at as f64, sum / n)).unzip()
}

/// Members, whatever figures their learner has.
fn members(run: &Gathered) -> Option<Table> {
    let mut members: Vec<Map<String, Value>> = run.part("members").filter(|all: &Vec<_>| !all.is_empty())?;
    if members.iter().all(|m| m.get("config") == members[0].get("config")) {
        members.iter_mut().for_each(|member| drop(member.shift_remove("config")));
    }
    Some(rows_table("Members", &members))
}

fn configs(run: &Gathered) -> Option<Table> {
    let configs: Vec<Map<String, Value>> = run.part("configs").filter(|all: &Vec<_>| !all.is_empty())?;
    Some(rows_table("Configs; each fold used the one that validated best up to it", &configs))
}

/// Objects of the same fields as a table.
fn rows_table(title: &str, rows: &[Map<String, Value>]) -> Table {
    let cell = |value: &Value| match value {
        Value::Number(n) => match (n.as_u64(), n.as_f64()) {
            (Some(whole), _) => Cell::number(whole as f64, format_count(whole)),
            (None, Some(x)) => {
                Cell::number(x, if x.abs() < 0.001 && x != 0.0 { format!("{x:.1e}") } else { figure(x) })
            }
            _ => Cell::text("–"),
        },
        Value::Null => Cell::text("–"),
        Value::String(text) => Cell::text(text),
        Value::Array(all) => Cell::text(all.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")),
        other => Cell::text(other.to_string()),
    };
    let first = rows.first();
    let is_number = |name: &String| rows.iter().any(|row| row.get(name).is_some_and(Value::is_number));
    let column = |name: &String| Column { name: name.replace('_', " ").replace("mcc", "MCC"), number: is_number(name) };
    Table {
        title: title.into(),
        columns: first.map_or(Vec::new(), |row| row.keys().map(column).collect()),
        rows: rows.iter().map(|row| row.values().map(cell).collect()).collect(),
    }
}

/// Where the time went.
pub(super) fn machine(run: &Gathered) -> Option<Section> {
    let phases: Vec<SavedPhase> = run.part("phases").filter(|all: &Vec<SavedPhase>| !all.is_empty())?;
    let counted = run.part::<LearnerKind>("learner").map_or("samples", LearnerKind::counted);
    let rate = run
        .part::<f64>("samples_per_s")
        .map_or(String::new(), |r| format!(", {} {counted}/s in training", format_short(r)));
    let all = format_seconds(phases.iter().map(|p| p.seconds).sum());
    let prose = format!("{all} in all on {}{rate}.", run.text("device"));
    section("Machine", &prose, vec![Block::Table(phase_table("Where the time went".into(), &phases))])
}

/// The phases of a run: how long each took, and how full the machine was.
pub(crate) fn phase_table(title: String, phases: &[SavedPhase]) -> Table {
    let all: f64 = phases.iter().map(|p| p.seconds).sum();
    let percent = |x: Option<f64>| x.map_or(Cell::text("–"), |x| Cell::number(x, format!("{x:.0} %")));
    let bytes = |x: Option<u64>| x.map_or(Cell::text("–"), |x| Cell::number(x as f64, format_bytes(x)));
    let rows = phases.iter().map(|p| {
        vec![
            Cell::text(&p.name),
            Cell::number(p.seconds, format_seconds(p.seconds)),
            percent(Some(100.0 * p.seconds / all.max(1e-9))),
            percent(p.cpu_percent),
            percent(p.gpu_percent),
            bytes(p.memory_bytes),
            bytes(p.gpu_memory_bytes),
        ]
    });
    let columns = ["time", "share", "CPU", "GPU", "memory", "GPU memory"].map(Column::number);
    Table { title, columns: [Column::text("phase")].into_iter().chain(columns).collect(), rows: rows.collect() }
}

/// Notes, and where everything is.
pub(super) fn notes(run: &Gathered) -> Option<Section> {
    let notes: Vec<String> = run.part("notes").unwrap_or_default();
    let mut blocks: Vec<Block> = Vec::new();
    if !notes.is_empty() {
        let rows = notes.iter().map(|note| vec![Cell::text(note.replace(['<', '>'], ""))]).collect();
        blocks.push(Block::Table(Table { title: String::new(), columns: vec![Column::text("note")], rows }));
    }
    let mut words = Vec::new();
    let instruments: Option<String> = run.part("instruments");
    words.extend(instruments.map(|text| format!("{text}.")));
    let ended = run.ended.as_deref().map_or(String::new(), |ended| format!(", ended {}", day(ended)));
    let version = run.program.as_deref().map_or(String::new(), |v| format!(" by Fullbore {v}"));
    words.push(format!("Started {}{ended}{version}; {}.", day(&run.started.clone().unwrap_or_default()), run.state));
    words.push("The same as data is in `report.json` beside this page.".into());
    Some(Section { heading: "Notes".into(), prose: words.join("\n\n"), blocks })
}
