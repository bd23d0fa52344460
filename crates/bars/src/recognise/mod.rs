//! Which column is what, and why: the guess that must be impossible to miss.
//!
//! Every container (CSV, JSON, Parquet, …) shows a small typed sample with or without column names. Names decide where there are
//! names; values decide the rest, and check the names: a `high` that is not the highest is not taken for one. Whatever was decided
//! is written down as a sentence in [`Layout::why`], which the audit prints.

pub(crate) mod names;
mod stamps;

use crate::{Class, Label, Options, Timeframe, VolumeKind};
use files::time;
use files::{Data, Error, Result, Table};
use names::{FileName, Role};
use std::path::Path;

pub(crate) use stamps::{Zone, mode_step};

/// Which column is what.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// `yfinance CSV, three-line header`
    pub format: String,
    /// One sentence for each thing decided.
    pub why: Vec<String>,
    /// Doubts worth a warning.
    pub warnings: Vec<String>,
    pub time: TimeAt,
    /// A column with the end of the bar.
    pub end: Option<usize>,
    /// The series of a row: one, or several in a wide table.
    pub groups: Vec<Group>,
    /// A column with the symbol.
    pub symbol: Option<usize>,
    /// Columns that travel along.
    pub extras: Vec<(usize, String)>,
    pub zone: Zone,
    /// What a stamp marks.
    pub stamp: StampMarks,
    /// Prices are divided by this.
    pub scale: f64,
    pub volume: Option<VolumeKind>,
    pub class: Option<Class>,
    /// From the file's name or the sample.
    pub timeframe: Option<Timeframe>,
    /// Bars stand on Saturdays: only coins trade then.
    pub saturdays: bool,
}

/// Where the time is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TimeAt {
    /// Text or typed stamps.
    Stamp(usize),
    /// A date and a time of day.
    DateAndClock(usize, usize),
    /// Seconds to nanoseconds since 1970, told by size.
    Epoch(usize),
    /// A number such as 20190102.
    DateNumber(usize),
    /// Milliseconds since the midnight of that day (nanoseconds since 1970).
    SinceMidnight(usize, i64),
}

/// What a stamp marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StampMarks {
    Start,
    /// The end of the bar, after this many nanoseconds are added (1 ms for `…:59.999`).
    End {
        add: i64,
    },
    /// The last day of the month it covers.
    MonthEnd,
}

/// One series of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    /// Its symbol, where the columns name it.
    pub symbol: Option<String>,
    pub prices: Prices,
    pub volume: Option<usize>,
}

/// Where the prices are: open, high, low, close.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Prices {
    Ohlc([usize; 4]),
    Quote { bid: [usize; 4], ask: [usize; 4] },
}

/// What is known of a file before its columns are looked at.
pub(crate) struct Given<'a> {
    pub path: &'a Path,
    /// `CSV`, `Parquet`, …
    pub container: &'a str,
    pub file: &'a FileName,
    /// Lines above the data (CSV) or nothing.
    pub header: &'a [Vec<String>],
    /// Named where the container names its columns.
    pub sample: &'a Table,
    pub options: &'a Options,
    /// A LEAN file's date and facts.
    pub lean: Option<&'a super::scan::lean::Lean>,
}

impl Layout {
    /// Decides; an error says what is missing.
    pub(crate) fn of(given: &Given<'_>) -> Result<Layout> {
        let sample = given.sample;
        let mut why = Vec::new();
        let mut warnings = Vec::new();
        let head = header(given, &mut why);
        let (names, named) = (head.names, head.named);
        let fail = |message: String| Error::input(message).at(given.path);
        let roles: Vec<Option<Role>> = names.iter().map(|n| names::role(n)).collect();

        let mut groups = Vec::new();
        let mut format = head.format;
        let mut lean_format = false;
        if let Some(lean) = given.lean {
            lean_format = true;
            format = Some(lean.format());
            why.extend(lean.why());
            groups.push(
                positional_lean(lean, sample.columns.len())
                    .ok_or_else(|| fail(lean.wrong_width(sample.columns.len())))?,
            );
        } else if let Some(tickers) = head.tickers {
            groups = by_ticker(&roles, &tickers);
        } else if named {
            groups.extend(by_name(&names, &roles, given.file, &mut why));
            if groups.is_empty() {
                groups = wide(&names, &mut why);
                if groups.len() > 1 {
                    format = Some(format!("wide {} of {} symbols", given.container, groups.len()));
                }
            }
        } else {
            let (found, name) = positional(sample, given)?;
            why.push(format!("no column names; by position and values: {}", name.words));
            format = Some(name.format);
            groups.push(found);
        }
        if groups.is_empty() {
            return Err(missing(given, &names, named));
        }

        let time = time_column(given, &names, &roles, named, &groups)?;
        let end = roles.iter().position(|r| *r == Some(Role::End)).filter(|at| is_time_like(&sample.columns[*at].data));
        let (time, end) = match (time, end) {
            (Some(time), end) => (time, end),
            (None, Some(end)) => (as_time(end, &sample.columns[end].data).unwrap_or(TimeAt::Stamp(end)), None),
            (None, None) => return Err(no_time(given, &names)),
        };
        let only_end = matches!(time, TimeAt::Epoch(at) | TimeAt::Stamp(at) if roles.get(at).copied().flatten() == Some(Role::End));

        let symbol = symbol_column(given, &roles, &groups, lean_format);
        if let Some(at) = symbol {
            why.push(format!("symbols come from column `{}`", names[at]));
        }
        let mut used: Vec<usize> = groups.iter().flat_map(Group::columns).collect();
        used.extend(time.columns());
        used.extend(end);
        used.extend(symbol);
        let extras = extras(given, &names, &roles, &used, groups.len() > 1 || lean_format, named);
        if named || lean_format {
            why.insert(0, columns_sentence(&groups, &names, time, lean_format));
        }
        if !extras.kept.is_empty() {
            let list: Vec<&str> = extras.kept.iter().map(|(_, n)| n.as_str()).collect();
            why.push(format!("travelling along: {}", list.join(", ")));
        }
        if !extras.dropped.is_empty() {
            why.push(format!("left out (no numbers): {}", extras.dropped.join(", ")));
        }

        check_ranges(given, &groups, named, &mut warnings)?;
        let class = given.lean.and_then(|l| l.class());
        let mut layout = Layout {
            format: format.unwrap_or_else(|| given.container.to_string()),
            why,
            warnings,
            time,
            end,
            volume: volume_kind(&groups, &names, given),
            groups,
            symbol,
            extras: extras.kept,
            zone: Zone::Utc,
            stamp: StampMarks::Start,
            scale: given.lean.map_or(1.0, |l| l.scale(sample)),
            class,
            timeframe: given.lean.and_then(|l| l.timeframe).or(given.file.timeframe),
            saturdays: false,
        };
        stamps::settle(&mut layout, given, only_end);
        Ok(layout)
    }
}

impl Group {
    fn columns(&self) -> Vec<usize> {
        let mut all = match &self.prices {
            Prices::Ohlc(at) => at.to_vec(),
            Prices::Quote { bid, ask } => bid.iter().chain(ask).copied().collect(),
        };
        all.extend(self.volume);
        all
    }
}

impl TimeAt {
    pub(crate) fn columns(self) -> Vec<usize> {
        match self {
            TimeAt::Stamp(at) | TimeAt::Epoch(at) | TimeAt::DateNumber(at) | TimeAt::SinceMidnight(at, _) => vec![at],
            TimeAt::DateAndClock(date, clock) => vec![date, clock],
        }
    }
}

struct Head {
    names: Vec<String>,
    named: bool,
    tickers: Option<Vec<String>>,
    format: Option<String>,
}

/// The names of the columns, from the container or from the lines above the data.
fn header(given: &Given<'_>, why: &mut Vec<String>) -> Head {
    let width = given.sample.columns.len();
    let container: Vec<String> = given.sample.columns.iter().map(|c| c.name.clone()).collect();
    if given.container != "CSV" {
        let named = container.iter().filter(|n| names::role(n).is_some() || names::wide(n).is_some()).count() >= 2;
        return Head { names: container, named, tickers: None, format: None };
    }
    let score =
        |line: &Vec<String>| line.iter().filter(|n| names::role(n).is_some() || names::wide(n).is_some()).count();
    let best = given.header.iter().enumerate().max_by_key(|(at, line)| (score(line), std::cmp::Reverse(*at)));
    let Some((at, line)) = best.filter(|(_, line)| score(line) >= 2) else {
        if !given.header.is_empty() {
            why.push(format!("{} line(s) above the data hold no known column names", given.header.len()));
        }
        return Head { names: vec![String::new(); width], named: false, tickers: None, format: None };
    };
    let mut names = line.clone();
    let mut format = None;
    if names.len() + 1 == width {
        let clock = matches!(given.sample.columns.get(1).map(|c| &c.data), Some(Data::Clock(_)));
        let place = usize::from(clock);
        names.insert(place, if clock { "Time".into() } else { String::new() });
        why.push(format!(
            "the header names {} columns, rows have {width}: {}",
            width - 1,
            if clock { "date and time share one name" } else { "the first column has no name" }
        ));
    }
    names.resize(width, String::new());
    // yfinance writes the tickers on a line of their own.
    let other = given.header.iter().enumerate().find(|(i, other)| {
        let filled = other.iter().filter(|c| !c.is_empty()).count();
        *i != at && filled >= 4 && other.len() + 1 >= width && score(other) < 3
    });
    let mut tickers = None;
    if let Some((_, other)) = other {
        let mut line = other.clone();
        line.resize(width, String::new());
        let label = ["ticker", "tickers", "symbol"].contains(&names::key(&line[0]).as_str()) || line[0].is_empty();
        if label || names::role(&line[0]).is_none() {
            line[0] = String::new();
            let mut distinct: Vec<&String> = line.iter().filter(|c| !c.is_empty()).collect();
            distinct.sort();
            distinct.dedup();
            why.push(format!("line {} of the header names {} ticker(s)", other_line(given, other), distinct.len()));
            format = Some(match given.header.len() {
                3 => "yfinance CSV, three-line header".to_string(),
                _ => "yfinance CSV, two-line header".to_string(),
            });
            // A third line names the index; the first line's `Price` labels the others.
            if given.header.iter().any(|l| l.first().is_some_and(|c| matches!(names::role(c), Some(Role::Time(_))))) {
                names[0] = "Date".into();
            }
            tickers = Some(line);
        }
    }
    if format.is_none() {
        format = csv_format(&names, given);
    }
    if at > 0 && tickers.is_none() {
        why.push(format!("{at} line(s) above the header were passed over: `{}`", shorten(&given.header[0].join(","))));
    }
    Head { names, named: true, tickers, format }
}

fn other_line(given: &Given<'_>, line: &Vec<String>) -> usize {
    given.header.iter().position(|l| l == line).map_or(0, |at| at + 1)
}

fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

/// A name for well-known headers.
fn csv_format(names: &[String], given: &Given<'_>) -> Option<String> {
    let keys: Vec<String> = names.iter().map(|n| names::key(n)).collect();
    let has = |k: &str| keys.iter().any(|x| x == k);
    let angle = names.iter().any(|n| n.starts_with('<'));
    Some(
        if angle {
            "MetaTrader 5 CSV"
        } else if has("opentime") && has("closetime") {
            "Binance kline CSV"
        } else if has("tic") && has("date") {
            "FinRL long CSV"
        } else if has("exdividend") {
            "Quandl WIKI CSV"
        } else if has("adjclose") && has("close") && (has("date") || has("datetime")) {
            "Yahoo CSV with Adj Close"
        } else if given.header.first().is_some_and(|l| l.join(",").to_lowercase().contains("cryptodatadownload")) {
            "CryptoDataDownload CSV"
        } else if has("deliverablevolume") {
            "NSE daily report CSV"
        } else {
            return Some("CSV with header".into());
        }
        .into(),
    )
}

/// yfinance's ticker line: one group for each ticker.
fn by_ticker(roles: &[Option<Role>], tickers: &[String]) -> Vec<Group> {
    let mut order: Vec<&String> = Vec::new();
    for t in tickers.iter().filter(|t| !t.is_empty()) {
        if !order.contains(&t) {
            order.push(t);
        }
    }
    let group = |ticker: &String| {
        let at = |role: Role| (0..roles.len()).find(|i| roles[*i] == Some(role) && tickers[*i] == *ticker);
        let close = at(Role::Close).or_else(|| at(Role::LateClose))?;
        Some(Group {
            symbol: Some(ticker.clone()),
            prices: Prices::Ohlc([at(Role::Open)?, at(Role::High)?, at(Role::Low)?, close]),
            volume: at(Role::Volume(1)),
        })
    };
    order.into_iter().filter_map(group).collect()
}

/// Open, high, low, close by their names.
fn by_name(names: &[String], roles: &[Option<Role>], file: &FileName, why: &mut Vec<String>) -> Option<Group> {
    let at = |role: Role| roles.iter().position(|r| *r == Some(role));
    let volume = (0..roles.len())
        .filter_map(|i| if let Some(Role::Volume(rank)) = roles[i] { Some((rank, i)) } else { None })
        .min()
        .map(|(_, i)| i);
    // `volume_btc` beside `volume`: the coin's own is in units.
    let coin = names.iter().position(|n| {
        let key = names::key(n);
        key.strip_prefix("volume").is_some_and(|coin| coin.len() >= 3 && file.symbol.to_lowercase().starts_with(coin))
    });
    let volume = coin.or(volume);
    let quad = |side: fn(usize) -> Role| Some([at(side(0))?, at(side(1))?, at(side(2))?, at(side(3))?]);
    if let (Some(bid), Some(ask)) = (quad(Role::Bid), quad(Role::Ask)) {
        why.push("bid and ask columns: prices are their middle, `spread` travels along".into());
        return Some(Group { symbol: None, prices: Prices::Quote { bid, ask }, volume });
    }
    let late = || {
        let late = (0..roles.len()).filter(|i| roles[*i] == Some(Role::LateClose));
        late.min_by_key(|i| names::key(&names[*i]).contains("adj"))
    };
    let close = at(Role::Close).or_else(late)?;
    if roles[close] == Some(Role::LateClose) {
        why.push(format!("column `{}` is taken for the close; there is no other", names[close]));
    }
    Some(Group {
        symbol: None,
        prices: Prices::Ohlc([at(Role::Open)?, at(Role::High)?, at(Role::Low)?, close]),
        volume,
    })
}

/// A wide table: `AAPL.Open`, `BTC:close`.
fn wide(names: &[String], why: &mut Vec<String>) -> Vec<Group> {
    let cells: Vec<Option<(String, Role)>> = names.iter().map(|n| names::wide(n)).collect();
    let mut symbols: Vec<&String> = Vec::new();
    for (symbol, _) in cells.iter().flatten() {
        if !symbols.contains(&symbol) {
            symbols.push(symbol);
        }
    }
    let at = |symbol: &String, role: fn(&Role) -> bool| {
        cells.iter().position(|c| c.as_ref().is_some_and(|(s, r)| s == symbol && role(r)))
    };
    let groups: Vec<Group> = symbols
        .into_iter()
        .filter_map(|symbol| {
            let prices = [
                at(symbol, |r| *r == Role::Open)?,
                at(symbol, |r| *r == Role::High)?,
                at(symbol, |r| *r == Role::Low)?,
                at(symbol, |r| *r == Role::Close)?,
            ];
            let volume = at(symbol, |r| matches!(r, Role::Volume(_)));
            Some(Group { symbol: Some(symbol.clone()), prices: Prices::Ohlc(prices), volume })
        })
        .collect();
    if !groups.is_empty() {
        let list: Vec<&str> = groups.iter().take(5).filter_map(|g| g.symbol.as_deref()).collect();
        why.push(format!(
            "column names carry the symbol: {}{}",
            list.join(", "),
            if groups.len() > 5 { ", …" } else { "" }
        ));
    }
    groups
}

struct Positional {
    format: String,
    words: String,
}

/// Columns without names: a time, four prices whose order the values tell, perhaps a volume.
fn positional(sample: &Table, given: &Given<'_>) -> Result<(Group, Positional)> {
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
    let number = |at: usize| matches!(sample.columns[at].data, Data::F64(_) | Data::I64(_));
    if !(first..first + 4).all(number) || !is_time_like(&sample.columns[0].data) {
        return Err(fail("columns without names that do not read as time, open, high, low, close".into()));
    }
    let orders: [([usize; 4], &str, &str); 3] = [
        ([0, 1, 2, 3], "open, high, low, close", ""),
        ([0, 2, 3, 1], "open, close, high, low", " (Jesse and Bitfinex order)"),
        ([2, 1, 0, 3], "low, high, open, close", " (Coinbase order)"),
    ];
    let wrong = |order: &[usize; 4]| violations(sample, &order.map(|i| i + first));
    let counts: Vec<usize> = orders.iter().map(|(order, _, _)| wrong(order)).collect();
    let best = (0..orders.len()).min_by_key(|i| counts[*i]).unwrap_or(0);
    if counts[best] * 5 > sample.rows {
        return Err(fail(format!(
            "columns without names, and no order of open, high, low, close fits: {} of {} rows would break high ≥ low",
            counts[best], sample.rows
        )));
    }
    let (order, words, known) = orders[best];
    let rival = (0..orders.len()).filter(|i| *i != best).map(|i| counts[i]).min().unwrap_or(0);
    let volume = (width > first + 4 && number(first + 4)).then_some(first + 4);
    let group = Group { symbol: None, prices: Prices::Ohlc(order.map(|i| i + first)), volume };
    let binance = width >= 11 && best == 0 && sample.columns.get(6).is_some_and(|c| is_epoch(&c.data));
    let format = match () {
        () if binance => format!("Binance kline {} without header", given.container),
        () if known.is_empty() => format!("{} without column names", given.container),
        () => format!("{} arrays{known}", given.container),
    };
    let doubt = if rival == counts[best] { "; the values fit other orders too" } else { "" };
    let words = format!(
        "time, {words}{}{known}; {} of {} sample rows break it, the next best order {rival}{doubt}",
        if volume.is_some() { ", volume" } else { "" },
        counts[best],
        sample.rows
    );
    Ok((group, Positional { format, words }))
}

fn positional_lean(lean: &super::scan::lean::Lean, width: usize) -> Option<Group> {
    if lean.quote {
        return (width >= 11).then(|| Group {
            symbol: Some(lean.symbol.clone()),
            prices: Prices::Quote { bid: [1, 2, 3, 4], ask: [6, 7, 8, 9] },
            volume: None,
        });
    }
    (width >= 6).then(|| Group {
        symbol: Some(lean.symbol.clone()),
        prices: Prices::Ohlc([1, 2, 3, 4]),
        volume: Some(5),
    })
}

/// Rows of the sample in which high is not the highest or low not the lowest.
fn violations(sample: &Table, at: &[usize; 4]) -> usize {
    let [o, h, l, c] = at.map(|i| &sample.columns[i].data);
    (0..sample.rows)
        .filter(|row| {
            let [o, h, l, c] = [o, h, l, c].map(|d| value(d, *row));
            h < o.max(c) || l > o.min(c) || h < l
        })
        .count()
}

/// A number of the sample; NaN for what is none.
pub(crate) fn value(data: &Data, row: usize) -> f64 {
    match data {
        Data::F64(v) => v[row],
        Data::I64(v) => v[row] as f64,
        _ => f64::NAN,
    }
}

fn is_epoch(data: &Data) -> bool {
    match data {
        Data::I64(v) => !v.is_empty() && v.iter().filter(|x| time::epoch_ns(**x).is_some()).count() * 10 >= v.len() * 9,
        Data::F64(v) => {
            let filled: Vec<f64> = v.iter().copied().filter(|x| x.is_finite()).collect();
            let fits =
                filled.iter().filter(|x| **x >= 1e8 && **x < 9e18 && time::epoch_ns(**x as i64).is_some()).count();
            // Volumes also exceed 1e8; a clock rises or falls steadily.
            !filled.is_empty() && fits * 10 >= filled.len() * 9 && steady(&filled)
        }
        _ => false,
    }
}

fn steady(values: &[f64]) -> bool {
    let up = values.windows(2).filter(|w| w[1] >= w[0]).count();
    let down = values.windows(2).filter(|w| w[1] <= w[0]).count();
    let n = values.len().saturating_sub(1);
    up.max(down) * 10 >= n * 8
}

fn is_date_number(data: &Data) -> bool {
    let date =
        |x: i64| (19_000_101..=21_001_231).contains(&x) && time::days(x / 10_000, x / 100 % 100, x % 100).is_some();
    match data {
        Data::I64(v) => !v.is_empty() && v.iter().all(|x| date(*x)),
        Data::F64(v) => !v.is_empty() && v.iter().all(|x| x.fract() == 0.0 && date(*x as i64)),
        _ => false,
    }
}

fn is_time_like(data: &Data) -> bool {
    matches!(data, Data::Time { .. }) || is_epoch(data) || is_date_number(data)
}

fn as_time(at: usize, data: &Data) -> Option<TimeAt> {
    match data {
        Data::Time { .. } => Some(TimeAt::Stamp(at)),
        _ if is_date_number(data) => Some(TimeAt::DateNumber(at)),
        _ if is_epoch(data) => Some(TimeAt::Epoch(at)),
        _ => None,
    }
}

/// The best column for the time: a certain instant before a wall clock, an open time before any other.
fn time_column(
    given: &Given<'_>,
    names: &[String],
    roles: &[Option<Role>],
    named: bool,
    groups: &[Group],
) -> Result<Option<TimeAt>> {
    let sample = given.sample;
    if let Some(lean) = given.lean {
        return Ok(Some(match lean.day {
            Some(day) => TimeAt::SinceMidnight(0, day),
            None => TimeAt::Stamp(0),
        }));
    }
    if !named {
        let clock = matches!(sample.columns.get(1).map(|c| &c.data), Some(Data::Clock(_)));
        let time = as_time(0, &sample.columns[0].data);
        return Ok(if clock { Some(TimeAt::DateAndClock(0, 1)) } else { time });
    }
    let taken: Vec<usize> = groups.iter().flat_map(Group::columns).collect();
    let mut best: Option<(u8, u8, usize, TimeAt)> = None;
    for at in (0..names.len()).filter(|at| !taken.contains(at)) {
        let data = &sample.columns[at].data;
        let rank = match roles[at] {
            Some(Role::Time(rank)) => rank,
            // The first column may hold the time without saying so: an index, or yfinance's `Price`.
            None | Some(Role::LateClose) if at == 0 && matches!(data, Data::Time { .. }) => 5,
            None if names[at].is_empty() && matches!(data, Data::Time { .. }) => 6,
            _ => continue,
        };
        let Some(time) = as_time(at, data) else { continue };
        let certain = matches!(time, TimeAt::Epoch(_)) || matches!(data, Data::Time { utc: true, .. });
        let key = (if rank == 0 { 0 } else { u8::from(!certain) + 1 }, rank, at, time);
        if best.is_none_or(|b| (key.0, key.1, key.2) < (b.0, b.1, b.2)) {
            best = Some(key);
        }
    }
    let Some((_, _, at, time)) = best else { return Ok(None) };
    let clock = (0..names.len())
        .find(|i| matches!(sample.columns[*i].data, Data::Clock(_)) && names::key(&names[*i]) == "time")
        .or_else(|| (0..names.len()).find(|i| matches!(sample.columns[*i].data, Data::Clock(_))));
    // 93000 or 09:30 beside a date is its time of day.
    let by_number = (0..names.len())
        .find(|i| names::key(&names[*i]) == "time" && *i != at && matches!(sample.columns[*i].data, Data::I64(_)));
    Ok(Some(match (clock.or(by_number), time) {
        (Some(clock), TimeAt::Stamp(date) | TimeAt::DateNumber(date)) if whole_days(&sample.columns[date].data) => {
            TimeAt::DateAndClock(date, clock)
        }
        _ => time,
    }))
}

fn whole_days(data: &Data) -> bool {
    match data {
        Data::Time { ns, .. } => ns.iter().all(|ns| *ns == files::MISSING_TIME || ns % 86_400_000_000_000 == 0),
        _ => true,
    }
}

fn symbol_column(given: &Given<'_>, roles: &[Option<Role>], groups: &[Group], lean: bool) -> Option<usize> {
    let text = |at: &usize| matches!(given.sample.columns[*at].data, Data::Names { .. } | Data::Text(_));
    if lean || groups.len() > 1 || groups.iter().any(|g| g.symbol.is_some()) {
        return None;
    }
    (0..roles.len()).filter(|at| roles[*at] == Some(Role::Symbol)).find(text)
}

struct Extras {
    kept: Vec<(usize, String)>,
    dropped: Vec<String>,
}

fn extras(
    given: &Given<'_>,
    names: &[String],
    roles: &[Option<Role>],
    used: &[usize],
    none: bool,
    named: bool,
) -> Extras {
    let mut found = Extras { kept: Vec::new(), dropped: Vec::new() };
    if none || !named {
        return found;
    }
    for at in 0..names.len() {
        let data = &given.sample.columns[at].data;
        let name = names[at].trim();
        let key = names::key(name);
        let other_time =
            matches!(roles[at], Some(Role::Time(_) | Role::End)) || matches!(data, Data::Time { .. } | Data::Clock(_));
        if used.contains(&at) || name.is_empty() || key == "ignore" || key.starts_with("unnamed") || other_time {
            continue;
        }
        match data {
            Data::F64(_) | Data::I64(_) => {
                let mut unique = name.to_string();
                let mut copy = 2;
                while RESERVED.contains(&unique.as_str()) || found.kept.iter().any(|(_, n)| *n == unique) {
                    unique = format!("{name}_{copy}");
                    copy += 1;
                }
                found.kept.push((at, unique));
            }
            _ => found.dropped.push(name.to_string()),
        }
    }
    found
}

/// Names that the columns of a bar have themselves.
pub(crate) const RESERVED: [&str; 8] = ["symbol", "start", "end", "open", "high", "low", "close", "volume"];

fn columns_sentence(groups: &[Group], names: &[String], time: TimeAt, lean: bool) -> String {
    if lean {
        return "columns by LEAN's fixed order".into();
    }
    let name = |at: usize| if names[at].is_empty() { format!("column {}", at + 1) } else { format!("`{}`", names[at]) };
    let mut text: Vec<String> =
        vec![format!("time = {}", time.columns().iter().map(|at| name(*at)).collect::<Vec<_>>().join(" + "))];
    if let Prices::Ohlc(at) = &groups[0].prices {
        for (what, at) in ["open", "high", "low", "close"].iter().zip(at) {
            text.push(format!("{what} = {}", name(*at)));
        }
    }
    match groups[0].volume {
        Some(at) => text.push(format!("volume = {}", name(at))),
        None => text.push("no volume".into()),
    }
    text.join(", ")
}

/// Names are believed only as far as the values agree.
fn check_ranges(given: &Given<'_>, groups: &[Group], named: bool, warnings: &mut Vec<String>) -> Result<()> {
    let Some(Group { prices: Prices::Ohlc(at), .. }) = groups.first() else { return Ok(()) };
    if !named || given.sample.rows < 10 {
        return Ok(());
    }
    let zero = |i: usize| (0..given.sample.rows).all(|row| value(&given.sample.columns[at[i]].data, row) == 0.0);
    if zero(1) && zero(2) && zero(3) {
        return Err(Error::input("only `open` holds values: these look like funding rates, not bars")
            .at(given.path)
            .remedy("point at the file with the prices; funding rates are no bars"));
    }
    let wrong = violations(given.sample, at);
    if wrong * 2 > given.sample.rows {
        let [o, h, l, c] = *at;
        let swapped = [[o, c, h, l], [o, l, h, c], [h, o, l, c], [c, h, l, o]];
        let better = swapped.iter().any(|order| violations(given.sample, order) * 20 < given.sample.rows);
        return Err(Error::input(format!(
            "the columns named open, high, low, close break high ≥ low in {wrong} of {} sample rows{}",
            given.sample.rows,
            if better { "; their order looks swapped" } else { "" }
        ))
        .at(given.path)
        .remedy("check the header: the names do not fit the values"));
    }
    if wrong * 20 > given.sample.rows {
        warnings.push(format!("{wrong} of {} sample rows have a high or low inside open and close", given.sample.rows));
    }
    Ok(())
}

fn volume_kind(groups: &[Group], names: &[String], given: &Given<'_>) -> Option<VolumeKind> {
    let Some(at) = groups.first()?.volume else {
        return Some(VolumeKind::None);
    };
    let key = names.get(at).map(|n| names::key(n)).unwrap_or_default();
    let all_zero = (0..given.sample.rows).all(|row| {
        let v = value(&given.sample.columns[at].data, row);
        v == 0.0 || v.is_nan()
    });
    match () {
        () if all_zero && given.sample.rows > 20 => Some(VolumeKind::None),
        () if key.starts_with("tick") => Some(VolumeKind::Ticks),
        () if key == "volumeusd" || key == "volumequote" || key == "quotevolume" => Some(VolumeKind::Quote),
        () => None,
    }
}

fn missing(given: &Given<'_>, names: &[String], named: bool) -> Error {
    let keys: Vec<String> = names.iter().map(|n| names::key(n)).collect();
    let has = |k: &[&str]| keys.iter().any(|x| k.contains(&x.as_str()));
    let shown: Vec<&str> = names.iter().filter(|n| !n.is_empty()).take(12).map(String::as_str).collect();
    let seen = if named { format!("; columns are {}", shown.join(", ")) } else { String::new() };
    if has(&["ltp", "bid", "ask", "lasttradeprice", "tradeprice"]) || (has(&["price"]) && !has(&["open"])) {
        return Error::input(format!("these are ticks, not bars: one price a row{seen}"))
            .at(given.path)
            .remedy("make bars of them first (pandas: df.resample('1min')['ltp'].ohlc())");
    }
    if keys.iter().any(|k| k.contains("funding")) {
        return Error::input(format!("these are funding rates, not bars{seen}"))
            .at(given.path)
            .remedy("point at a file with open, high, low and close");
    }
    Error::input(format!("open, high, low and close were not found{seen}"))
        .at(given.path)
        .remedy("name the columns time, open, high, low, close, volume (any order, any case)")
}

fn no_time(given: &Given<'_>, names: &[String]) -> Error {
    let shown: Vec<&str> = names.iter().filter(|n| !n.is_empty()).take(12).map(String::as_str).collect();
    Error::input(format!("no column holds times; columns are {}", shown.join(", ")))
        .at(given.path)
        .remedy("name the column `time` and write stamps as 2024-01-31 14:30:00 or milliseconds since 1970")
}

/// Which end the user says a stamp marks.
pub(crate) fn told(label: Label) -> Option<StampMarks> {
    match label {
        Label::Auto => None,
        Label::Start => Some(StampMarks::Start),
        Label::End => Some(StampMarks::End { add: 0 }),
    }
}
