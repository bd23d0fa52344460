//! Columns without names: a time, four prices whose order the values tell, perhaps a volume; the rest is named.
//!
//! High is the highest and low the lowest of a row; open follows the close of the row before. The orders of the large
//! venues are tried first, then every order of four columns side by side, which must then fit beyond doubt. Of the
//! other columns one is the volume: not an average price (inside low and high), not a turnover (price times another
//! column), not a flag, not a second time. [`Positional::rest`] says what became of them.

use super::values::{count_violations, is_time_like, read_value};
use super::{Evidence, PriceColumns, Prices};
use files::{Data, Error, Result, Table};

/// Columns without names, understood.
pub(super) struct Positional {
    pub group: PriceColumns,
    pub format: String,
    /// Which column is what.
    pub words: String,
    /// What became of the other columns; empty where there are none.
    pub rest: String,
    /// A column that says whether the bar is finished.
    pub finished: Option<usize>,
}

/// Where open, high, low and close stand behind the time, the order in words, and who writes it.
struct Order {
    at: [usize; 4],
    name: &'static str,
}

const KNOWN: [Order; 4] = [
    Order { at: [0, 1, 2, 3], name: "" },
    Order { at: [0, 2, 3, 1], name: " (Jesse and Bitfinex order)" },
    Order { at: [2, 1, 0, 3], name: " (Coinbase order)" },
    Order { at: [4, 2, 3, 1], name: " (Gate order)" },
];

/// Finds out which column is what.
pub(super) fn columns_by_position(sample: &Table, given: &Evidence<'_>) -> Result<Positional> {
    let fail = |m: String| {
        Error::input(m).at(given.path).remedy("add a header line such as time,open,high,low,close,volume to the file")
    };
    let width = sample.columns.len();
    let clock = matches!(sample.columns.get(1).map(|c| &c.data), Some(Data::Clock(_)));
    // A leading row number is no time.
    let first = if clock { 2 } else { 1 };
    if width < first + 4 {
        return Err(fail(format!("{width} columns without names; a time and four prices are needed")));
    }
    if !is_time_like(&sample.columns[0].data) || !(first..first + 4).all(|at| is_number(sample, at)) {
        return Err(fail("columns without names that do not read as time, open, high, low, close".into()));
    }
    let shifted = |order: &[usize; 4]| order.map(|i| i + first);
    let fits = |order: &Order| order.at.iter().all(|i| first + i < width && is_number(sample, first + i));
    let known: Vec<(&Order, usize)> =
        KNOWN.iter().filter(|o| fits(o)).map(|o| (o, count_violations(sample, &shifted(&o.at)))).collect();
    let (best, wrong) = known.iter().min_by_key(|(_, wrong)| *wrong).map_or((&KNOWN[0], sample.rows), |b| *b);
    let rows = rows_in_time(sample, clock);
    let (mut at, mut name) = (shifted(&best.at), best.name);
    let mut wrong_rows = wrong;
    if wrong * 5 > sample.rows {
        let found = find_order(sample, first, &rows);
        let Some((order, wrong)) = found else {
            return Err(fail(format!(
                "columns without names, and no order of open, high, low, close fits: {wrong} of {} rows would break \
                 high ≥ low",
                sample.rows
            )));
        };
        (at, name, wrong_rows) = (order, "", wrong);
    } else if follows(sample, &rows, &at) < -3.0 {
        at = [at[3], at[1], at[2], at[0]];
        name = "";
    }
    let rival = known.iter().filter(|(o, _)| shifted(&o.at) != at).map(|(_, wrong)| *wrong).min().unwrap_or(0);
    let rest = sort_rest(sample, first, &at);
    let volume = rest.iter().find(|(_, what)| *what == Rest::Volume).map(|(at, _)| *at);
    let usual = at == shifted(&KNOWN[0].at);
    let format = match () {
        // freqtrade and ccxt write [ms, open, high, low, close, volume]; freqtrade's names carry the pair.
        () if usual && given.container == "JSON" && given.file.symbol.contains('/') => "freqtrade JSON".to_string(),
        () if usual && given.container == "JSON" => "ccxt arrays (JSON)".to_string(),
        () if usual => format!("{} without column names", given.container),
        () => format!("{} arrays{name}", given.container),
    };
    let doubt = if rival == wrong_rows { "; the values fit other orders too" } else { "" };
    let words = format!(
        "{}{name}; {wrong_rows} of {} sample rows break it, the next best order {rival}{doubt}",
        name_columns(&at, volume),
        sample.rows
    );
    Ok(Positional {
        group: PriceColumns { symbol: None, prices: Prices::Ohlc(at), volume },
        format,
        words,
        rest: describe_rest(&rest),
        finished: rest.iter().find(|(_, what)| *what == Rest::Finished).map(|(at, _)| *at),
    })
}

fn is_number(sample: &Table, at: usize) -> bool {
    matches!(sample.columns[at].data, Data::F64(_) | Data::I64(_))
}

/// `time, open, close, high, low, volume`: prices and volume as they stand in the file.
fn name_columns(at: &[usize; 4], volume: Option<usize>) -> String {
    let mut named: Vec<(usize, &str)> = at.iter().copied().zip(["open", "high", "low", "close"]).collect();
    named.extend(volume.map(|at| (at, "volume")));
    named.sort_unstable();
    let list: Vec<&str> = named.iter().map(|(_, name)| *name).collect();
    format!("time, {}", list.join(", "))
}

/// The rows from oldest to newest.
fn rows_in_time(sample: &Table, clock: bool) -> Vec<usize> {
    let key = |at: usize, row: usize| match &sample.columns[at].data {
        Data::Time { ns, .. } | Data::Clock(ns) => ns[row] as f64,
        data => read_value(data, row),
    };
    let mut rows: Vec<usize> = (0..sample.rows.min(1024)).collect();
    rows.sort_by(|a, b| {
        key(0, *a).total_cmp(&key(0, *b)).then_with(|| if clock { key(1, *a).total_cmp(&key(1, *b)) } else { a.cmp(b) })
    });
    rows
}

/// How clearly the open follows the close before, against the close following the open before, in standard errors of a
/// coin: above 3 the order is right beyond doubt, below -3 open and close are exchanged.
fn follows(sample: &Table, rows: &[usize], at: &[usize; 4]) -> f64 {
    let [open, close] = [at[0], at[3]].map(|i| &sample.columns[i].data);
    let (mut right, mut wrong) = (0.0f64, 0.0);
    for pair in rows.windows(2) {
        let near = (read_value(open, pair[1]) - read_value(close, pair[0])).abs();
        let far = (read_value(close, pair[1]) - read_value(open, pair[0])).abs();
        right += f64::from(near < far);
        wrong += f64::from(near > far);
    }
    if right + wrong < 10.0 { 0.0 } else { (right - wrong) / (right + wrong).sqrt() }
}

/// Any order of four columns side by side that fits beyond doubt, and how many rows break it.
fn find_order(sample: &Table, first: usize, rows: &[usize]) -> Option<([usize; 4], usize)> {
    let mut found: Option<([usize; 4], usize)> = None;
    for block in [first, first + 1] {
        if block + 4 > sample.columns.len() || !(block..block + 4).all(|at| is_number(sample, at)) {
            continue;
        }
        for high in 0..4 {
            for low in (0..4).filter(|low| *low != high) {
                let ends: Vec<usize> = (0..4).filter(|i| *i != high && *i != low).collect();
                let mut at = [ends[0], high, low, ends[1]].map(|i| i + block);
                let wrong = count_violations(sample, &at);
                let sure = follows(sample, rows, &at);
                if wrong * 20 > sample.rows || sure.abs() < 3.0 || found.is_some_and(|(_, best)| best <= wrong) {
                    continue;
                }
                if sure < 0.0 {
                    at.swap(0, 3);
                }
                found = Some((at, wrong));
            }
        }
    }
    found
}

/// What a column beside time and prices is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Volume,
    /// Inside low and high.
    Average,
    /// The volume times the price.
    Turnover,
    /// Whether the bar is finished.
    Finished,
    /// When the bar ends.
    End,
    /// Whole numbers, such as a count of trades.
    Whole,
    Number,
    Text,
}

/// The columns beside time and prices, in order.
fn sort_rest(sample: &Table, first: usize, prices: &[usize; 4]) -> Vec<(usize, Rest)> {
    let columns: Vec<usize> = (first..sample.columns.len()).filter(|at| !prices.contains(at)).collect();
    let data = |at: usize| &sample.columns[at].data;
    let value = |at: usize, row: usize| read_value(data(at), row);
    // At least nine of ten of the rows that count, and one of them.
    let most = |counts: &dyn Fn(usize) -> bool, holds: &dyn Fn(usize) -> bool| {
        let all = (0..sample.rows).filter(|row| counts(*row)).count();
        let good = (0..sample.rows).filter(|row| counts(*row) && holds(*row)).count();
        all > 0 && good * 10 >= all * 9
    };
    let [high, low] = [prices[1], prices[2]];
    let inside = |x: f64, row: usize, slack: f64| {
        (value(low, row) * (1.0 - slack)..=value(high, row) * (1.0 + slack)).contains(&x)
    };
    let what = |at: usize| {
        let flag = |row: usize| match data(at).text(row) {
            Some(text) => ["true", "false"].contains(&text.to_ascii_lowercase().as_str()),
            None => value(at, row) == 0.0 || value(at, row) == 1.0,
        };
        let set =
            |row: usize| value(at, row) == 1.0 || data(at).text(row).is_some_and(|t| t.eq_ignore_ascii_case("true"));
        let unset = (0..sample.rows).filter(|row| !set(*row)).count();
        let time = |row: usize| read_value(&sample.columns[0].data, row);
        match () {
            () if (0..sample.rows).all(flag) && unset <= (sample.rows / 10).max(1) && unset < sample.rows => {
                Rest::Finished
            }
            () if !is_number(sample, at) => Rest::Text,
            () if most(&|_| true, &|row| (1.0..1.01).contains(&(value(at, row) / time(row)))) => Rest::End,
            // A bar without a trade has the average 0.
            () if (columns.len() > 1 || sample.rows >= 8)
                && most(&|row| value(at, row) != 0.0, &|row| inside(value(at, row), row, 0.0)) =>
            {
                Rest::Average
            }
            () if matches!(data(at), Data::I64(_)) => Rest::Whole,
            () => Rest::Number,
        }
    };
    let mut rest: Vec<(usize, Rest)> = columns.iter().map(|at| (*at, what(*at))).collect();
    let amounts: Vec<usize> =
        rest.iter().filter(|(_, what)| matches!(what, Rest::Whole | Rest::Number)).map(|(at, _)| *at).collect();
    let turnover = |of: usize, at: usize| {
        of != at && most(&|row| value(at, row) > 0.0, &|row| inside(value(of, row) / value(at, row), row, 0.02))
    };
    let priced = amounts.iter().find(|at| amounts.iter().any(|of| turnover(*of, **at)));
    let behind = amounts.iter().find(|at| **at > prices[0].min(prices[3]));
    let Some(volume) = priced.or(behind).copied() else { return rest };
    for (at, what) in rest.iter_mut().filter(|(at, _)| amounts.contains(at)) {
        if *at == volume {
            *what = Rest::Volume;
        } else if turnover(*at, volume) {
            *what = Rest::Turnover;
        }
    }
    rest
}

fn describe_rest(rest: &[(usize, Rest)]) -> String {
    let name = |what: &Rest| match what {
        Rest::Average => "average price, between low and high",
        Rest::Turnover => "turnover, volume times price",
        Rest::Finished => "whether the bar is finished",
        Rest::End => "end of the bar",
        Rest::Whole => "whole numbers, perhaps a count of trades",
        Rest::Number => "numbers",
        Rest::Text => "text",
        Rest::Volume => "volume",
    };
    let list: Vec<String> = rest
        .iter()
        .filter(|(_, what)| *what != Rest::Volume)
        .map(|(at, what)| format!("column {} ({})", at + 1, name(what)))
        .collect();
    if list.is_empty() { String::new() } else { format!("left out: {}", list.join(", ")) }
}
