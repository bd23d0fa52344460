//! Which column is what, and why: the guess that must be impossible to miss.
//!
//! Every container (CSV, JSON, Parquet, …) shows a small typed sample with or without column names. Names decide where
//! there are names; values decide the rest, and check the names: a `high` that is not the highest is not taken for one.
//! Whatever was decided is written down as a sentence in [`Layout::why`], which the audit prints.

mod columns;
pub(crate) mod names;
mod positions;
mod stamps;
mod values;

use crate::{Class, Options, StampOption, Timeframe, VolumeKind};
use columns::{find_header, group_by_name, group_by_ticker, group_wide_table, lean_columns_by_position};
use files::{Data, Error, Result, Table, format_list};
use names::{FileName, Role};
use std::path::Path;

pub(crate) use stamps::{Zone, most_common_step};
pub(crate) use values::read_value;
use values::{count_violations, find_time_column, is_time_like, time_from_column};

/// Which column is what.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// `yfinance CSV, three-line header`
    pub format: String,
    /// One sentence for each thing decided.
    pub why: Vec<String>,
    /// Doubts worth a warning.
    pub warnings: Vec<String>,
    pub time: TimeColumns,
    /// A column with the end of the bar.
    pub end: Option<usize>,
    /// The series of a row: one, or several in a wide table.
    pub groups: Vec<PriceColumns>,
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
pub(crate) enum TimeColumns {
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
pub(crate) struct PriceColumns {
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
pub(crate) struct Evidence<'a> {
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
    pub(crate) fn recognise(given: &Evidence<'_>) -> Result<Layout> {
        let sample = given.sample;
        let mut why = Vec::new();
        let mut warnings = Vec::new();
        let head = find_header(given, &mut why);
        let (names, named) = (head.names, head.named);
        let fail = |message: String| Error::input(message).at(given.path);
        let roles: Vec<Option<Role>> = names.iter().map(|n| names::column_role(n)).collect();

        let mut groups = Vec::new();
        let mut format = head.format;
        let mut lean_format = false;
        let mut finished = roles.iter().position(|r| *r == Some(Role::Finished));
        if let Some(lean) = given.lean {
            lean_format = true;
            format = Some(lean.format());
            why.extend(lean.evidence());
            groups.push(
                lean_columns_by_position(lean, sample.columns.len())
                    .ok_or_else(|| fail(lean.wrong_width(sample.columns.len())))?,
            );
        } else if let Some(tickers) = head.tickers {
            groups = group_by_ticker(&roles, &tickers);
        } else if named {
            groups.extend(group_by_name(&names, &roles, given.file, &mut why));
            if groups.is_empty() {
                groups = group_wide_table(&names, &mut why);
                if groups.len() > 1 {
                    format = Some(format!("wide {} of {} symbols", given.container, groups.len()));
                }
            }
        } else {
            let found = positions::columns_by_position(sample, given)?;
            why.push(format!("no column names; by position and values: {}", found.words));
            why.extend(Some(found.rest).filter(|rest| !rest.is_empty()));
            format = Some(found.format);
            finished = found.finished;
            groups.push(found.group);
        }
        if groups.is_empty() {
            return Err(missing_prices_error(given, &names, named));
        }

        let time = find_time_column(given, &names, &roles, named, &groups)?;
        let end = roles.iter().position(|r| *r == Some(Role::End)).filter(|at| is_time_like(&sample.columns[*at].data));
        let (time, end) = match (time, end) {
            (Some(time), end) => (time, end),
            (None, Some(end)) => {
                (time_from_column(end, &sample.columns[end].data).unwrap_or(TimeColumns::Stamp(end)), None)
            }
            (None, None) => return Err(missing_time_error(given, &names)),
        };
        let only_end = matches!(time, TimeColumns::Epoch(at) | TimeColumns::Stamp(at) if roles.get(at).copied().flatten() == Some(Role::End));

        let symbol = find_symbol_column(given, &roles, &groups, lean_format);
        if let Some(at) = symbol {
            why.push(format!("symbols come from column `{}`", names[at]));
        }
        let mut used: Vec<usize> = groups.iter().flat_map(PriceColumns::columns).collect();
        used.extend(time.columns());
        used.extend(end);
        used.extend(symbol);
        let extras = find_extras(given, &names, &roles, &used, groups.len() > 1 || lean_format, named);
        if named || lean_format {
            why.insert(0, describe_columns(&groups, &names, time, lean_format));
        }
        if !extras.kept.is_empty() {
            let list: Vec<&str> = extras.kept.iter().map(|(_, n)| n.as_str()).collect();
            why.push(format!("extra columns: {}", list.join(", ")));
        }
        if !extras.dropped.is_empty() {
            why.push(format!("left out (not numeric): {}", extras.dropped.join(", ")));
        }

        check_ranges(given, &groups, named, &mut warnings)?;
        warnings.extend(finished.and_then(|at| warn_of_unfinished(sample, at)));
        let class = given.lean.and_then(|l| l.class());
        let mut layout = Layout {
            format: format.unwrap_or_else(|| match given.container {
                "feather" if given.file.symbol.contains('/') => "freqtrade feather".to_string(),
                other => other.to_string(),
            }),
            why,
            warnings,
            time,
            end,
            volume: guess_volume_kind(&groups, &names, given),
            groups,
            symbol,
            extras: extras.kept,
            zone: Zone::Utc,
            stamp: StampMarks::Start,
            scale: given.lean.map_or(1.0, |l| l.price_scale(sample)),
            class,
            timeframe: given.lean.and_then(|l| l.timeframe).or(given.file.timeframe),
            saturdays: false,
        };
        stamps::settle_stamps(&mut layout, given, only_end);
        Ok(layout)
    }
}

impl PriceColumns {
    fn columns(&self) -> Vec<usize> {
        let mut all = match &self.prices {
            Prices::Ohlc(at) => at.to_vec(),
            Prices::Quote { bid, ask } => bid.iter().chain(ask).copied().collect(),
        };
        all.extend(self.volume);
        all
    }
}

impl TimeColumns {
    pub(crate) fn columns(self) -> Vec<usize> {
        match self {
            TimeColumns::Stamp(at)
            | TimeColumns::Epoch(at)
            | TimeColumns::DateNumber(at)
            | TimeColumns::SinceMidnight(at, _) => vec![at],
            TimeColumns::DateAndClock(date, clock) => vec![date, clock],
        }
    }
}

fn find_symbol_column(
    given: &Evidence<'_>,
    roles: &[Option<Role>],
    groups: &[PriceColumns],
    lean: bool,
) -> Option<usize> {
    let text = |at: &usize| matches!(given.sample.columns[*at].data, Data::Names { .. } | Data::Text(_));
    if lean || groups.len() > 1 || groups.iter().any(|g| g.symbol.is_some()) {
        return None;
    }
    let symbols = || (0..roles.len()).filter(|at| roles[*at] == Some(Role::Symbol));
    // Exchanges in Asia number their shares: 600000 is a name.
    let number = |at: &usize| matches!(given.sample.columns[*at].data, Data::I64(_));
    symbols().find(text).or_else(|| symbols().find(number))
}

struct Extras {
    kept: Vec<(usize, String)>,
    dropped: Vec<String>,
}

fn find_extras(
    given: &Evidence<'_>,
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
        let key = names::normalise_name(name);
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

fn describe_columns(groups: &[PriceColumns], names: &[String], time: TimeColumns, lean: bool) -> String {
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

/// Rows that the file itself marks as unfinished: OKX's `confirm`, OANDA's `complete`, Gate's last column.
fn warn_of_unfinished(sample: &Table, at: usize) -> Option<String> {
    let open = |row: &usize| match sample.columns[at].data.text(*row) {
        Some(text) => text.eq_ignore_ascii_case("false") || text == "0",
        None => read_value(&sample.columns[at].data, *row) == 0.0,
    };
    let n = (0..sample.rows).filter(open).count();
    (n > 0 && n < sample.rows).then(|| {
        let are = if n == 1 { "bar is" } else { "bars are" };
        format!("{n} {are} marked as unfinished: still open when the file was written")
    })
}

/// Names are believed only as far as the values agree.
fn check_ranges(given: &Evidence<'_>, groups: &[PriceColumns], named: bool, warnings: &mut Vec<String>) -> Result<()> {
    let Some(PriceColumns { prices: Prices::Ohlc(at), .. }) = groups.first() else { return Ok(()) };
    if !named || given.sample.rows < 10 {
        return Ok(());
    }
    let zero = |i: usize| (0..given.sample.rows).all(|row| read_value(&given.sample.columns[at[i]].data, row) == 0.0);
    if zero(1) && zero(2) && zero(3) {
        return Err(Error::input("only `open` holds values: these look like funding rates, not bars")
            .at(given.path)
            .remedy("point at the file with the prices; funding rates are not bars"));
    }
    let wrong = count_violations(given.sample, at);
    if wrong * 2 > given.sample.rows {
        let [o, h, l, c] = *at;
        let swapped = [[o, c, h, l], [o, l, h, c], [h, o, l, c], [c, h, l, o]];
        let better = swapped.iter().any(|order| count_violations(given.sample, order) * 20 < given.sample.rows);
        return Err(Error::input(format!(
            "the columns named open, high, low, close break high ≥ low in {wrong} of {} sample rows{}",
            given.sample.rows,
            if better { "; their order looks swapped" } else { "" }
        ))
        .at(given.path)
        .remedy("check the header: the names do not fit the values"));
    }
    if wrong * 20 > given.sample.rows {
        warnings
            .push(format!("{wrong} of {} sample rows have a high or low between open and close", given.sample.rows));
    }
    Ok(())
}

fn guess_volume_kind(groups: &[PriceColumns], names: &[String], given: &Evidence<'_>) -> Option<VolumeKind> {
    let Some(at) = groups.first()?.volume else {
        return Some(VolumeKind::None);
    };
    let key = names.get(at).map(|n| names::normalise_name(n)).unwrap_or_default();
    let all_zero = (0..given.sample.rows).all(|row| {
        let v = read_value(&given.sample.columns[at].data, row);
        v == 0.0 || v.is_nan()
    });
    match () {
        () if all_zero && given.sample.rows > 20 => Some(VolumeKind::None),
        () if key.starts_with("tick") => Some(VolumeKind::Ticks),
        () if key == "volumeusd" || key == "volumequote" || key == "quotevolume" => Some(VolumeKind::Quote),
        () => None,
    }
}

fn missing_prices_error(given: &Evidence<'_>, names: &[String], named: bool) -> Error {
    let keys: Vec<String> = names.iter().map(|n| names::normalise_name(n)).collect();
    let has = |k: &[&str]| keys.iter().any(|x| k.contains(&x.as_str()));
    let shown: Vec<&str> = names.iter().filter(|n| !n.is_empty()).take(12).map(String::as_str).collect();
    let seen = if named { format!("; columns are {}", shown.join(", ")) } else { String::new() };
    if has(&["ltp", "bid", "ask", "lasttradeprice", "tradeprice"]) || (has(&["price"]) && !has(&["open"])) {
        return Error::input(format!("these are ticks, not bars: one price per row{seen}"))
            .at(given.path)
            .remedy("make bars of them first (pandas: df.resample('1min')['ltp'].ohlc())");
    }
    if keys.iter().any(|k| k.contains("funding")) {
        return Error::input(format!("these are funding rates, not bars{seen}"))
            .at(given.path)
            .remedy("point at a file with open, high, low and close");
    }
    const PRICES: [(&str, Role); 4] =
        [("open", Role::Open), ("high", Role::High), ("low", Role::Low), ("close", Role::Close)];
    let missing = |(_, role): &(&str, Role)| !names.iter().any(|n| names::column_role(n).as_ref() == Some(role));
    let missing: Vec<&str> = PRICES.iter().filter(|price| missing(price)).map(|(name, _)| *name).collect();
    let missing = if missing.is_empty() || !named { PRICES.map(|(name, _)| name).to_vec() } else { missing };
    let was = if missing.len() == 1 { "was" } else { "were" };
    Error::input(format!("{} {was} not found{seen}", format_list(&missing, "and")))
        .at(given.path)
        .remedy("name the columns time, open, high, low, close, volume (any order, any case)")
}

fn missing_time_error(given: &Evidence<'_>, names: &[String]) -> Error {
    let shown: Vec<&str> = names.iter().filter(|n| !n.is_empty()).take(12).map(String::as_str).collect();
    Error::input(format!("no column holds times; columns are {}", shown.join(", ")))
        .at(given.path)
        .remedy("name the column `time` and write stamps as 2024-01-31 14:30:00 or milliseconds since 1970")
}

/// Which end the user says a stamp marks.
pub(crate) fn stamp_marks_set(label: StampOption) -> Option<StampMarks> {
    match label {
        StampOption::Auto => None,
        StampOption::Start => Some(StampMarks::Start),
        StampOption::End => Some(StampMarks::End { add: 0 }),
    }
}
