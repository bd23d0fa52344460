//! Small tables that users bring beside their bars: positions, funding rates.
//!
//! Parquet, or text with a header, separated by commas, semicolons or tabs. Columns are found by their names.

use files::{Caps, Column, Data, Error, MISSING_TIME, Result, Source, Table, Text, read_file, read_parquet};
use std::path::Path;

/// No such file is longer.
const LONGEST: u64 = 4 << 30;

/// Rows of a table, each with a symbol (empty where there is none), a time and one or more numbers.
pub(crate) struct Rows {
    pub(crate) symbol: Vec<String>,
    /// Nanoseconds since 1970 UTC.
    pub(crate) time: Vec<i64>,
    /// `[columns][rows]`, NaN where missing; a column that is not there is empty.
    pub(crate) numbers: Vec<Vec<f64>>,
}

/// Names, in lower case and without spaces and signs, under which a column is looked for.
type Names<'a> = &'a [&'a str];

const SYMBOL: Names<'_> = &["symbol", "ticker", "instrument", "code", "pair", "name"];
/// Where a table says both when a bar began and when it was known, the first counts.
const BAR_START: Names<'_> = &["barstart"];
const TIME: Names<'_> = &["time", "date", "datetime", "timestamp", "ts", "fundingtime", "opentime"];

/// Reads a table; `what` names it for messages, the first of `numbers` must be there.
pub(crate) fn read_rows(path: &Path, what: &str, numbers: &[Names<'_>]) -> Result<Rows> {
    let mut rows = Rows { symbol: Vec::new(), time: Vec::new(), numbers: vec![Vec::new(); numbers.len()] };
    if Source::open(path)?.head(4)?.starts_with(b"PAR1") {
        read_parquet(&Source::open(path)?, &Caps::default(), None, &mut |part| rows.take(&part, path, what, numbers))?;
    } else {
        rows.take(&text(path)?, path, what, numbers)?;
    }
    if rows.time.is_empty() {
        return Err(Error::input("the file has no rows").at(path));
    }
    Ok(rows)
}

impl Rows {
    /// Adds the rows of a part of the file.
    fn take(&mut self, table: &Table, path: &Path, what: &str, numbers: &[Names<'_>]) -> Result<()> {
        let plain = |name: &str| -> String {
            name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
        };
        let find = |names: Names<'_>| table.columns.iter().find(|c| names.contains(&plain(&c.name).as_str()));
        let missing = |names: Names<'_>| {
            let there: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            Error::input(format!("{what} need a column `{}`; the columns are {}", names[0], there.join(", ")))
                .at(path)
                .remedy(format!("name it {}", files::format_list(names, "or")))
        };
        let before = self.time.len();
        let column = find(BAR_START).or_else(|| find(TIME)).ok_or_else(|| missing(TIME))?;
        for row in 0..table.rows {
            let time = time_at(&column.data, row).ok_or_else(|| {
                let wrong = format!("`{}` is not a time", text_at(&column.data, row));
                Error::input(wrong).at(path).line((before + row) as u64 + 2).remedy("write 2024-03-01T09:30")
            })?;
            self.time.push(time);
        }
        let symbol = find(SYMBOL);
        self.symbol.extend((0..table.rows).map(|row| symbol.map_or(String::new(), |c| text_at(&c.data, row))));
        for (at, names) in numbers.iter().enumerate() {
            match find(names) {
                Some(column) => {
                    for row in 0..table.rows {
                        let value = number_at(&column.data, row).ok_or_else(|| {
                            let wrong = format!("`{}` is not a number", text_at(&column.data, row));
                            Error::input(wrong).at(path).line((before + row) as u64 + 2)
                        })?;
                        self.numbers[at].push(value);
                    }
                }
                None if at == 0 => return Err(missing(names)),
                None => {}
            }
        }
        Ok(())
    }
}

fn text_at(data: &Data, row: usize) -> String {
    match data {
        Data::Text(text) => text.get(row).to_string(),
        Data::Names { codes, names } => names.get(codes[row] as usize).cloned().unwrap_or_default(),
        Data::F64(x) => x[row].to_string(),
        Data::I64(x) => x[row].to_string(),
        _ => String::new(),
    }
}

/// A time of day counts as missing; whole numbers are seconds, milliseconds, microseconds or nanoseconds by their size.
fn time_at(data: &Data, row: usize) -> Option<i64> {
    let by_size = |x: i64| {
        let unit = match x.unsigned_abs() {
            size if size < 100_000_000_000 => 1_000_000_000,
            size if size < 100_000_000_000_000 => 1_000_000,
            size if size < 100_000_000_000_000_000 => 1_000,
            _ => 1,
        };
        x.checked_mul(unit)
    };
    match data {
        Data::Time { ns, .. } => Some(ns[row]).filter(|ns| *ns != MISSING_TIME),
        Data::I64(x) => by_size(x[row]),
        Data::F64(x) if x[row].is_finite() => by_size(x[row] as i64),
        _ => {
            let text = text_at(data, row);
            let stamp = files::time::parse(text.trim().as_bytes(), files::time::Order::Ymd).map(|stamp| stamp.ns);
            stamp.or_else(|| text.trim().parse::<i64>().ok().and_then(by_size))
        }
    }
}

fn number_at(data: &Data, row: usize) -> Option<f64> {
    match data {
        Data::F64(x) => Some(x[row]),
        Data::I64(x) => Some(x[row] as f64),
        _ => match text_at(data, row).trim() {
            "" | "nan" | "NaN" | "null" => Some(f64::NAN),
            text => text.parse().ok().filter(|x: &f64| x.is_finite()),
        },
    }
}

/// A table of text.
fn text(path: &Path) -> Result<Table> {
    let bytes = read_file(path, LONGEST)?;
    let text = String::from_utf8(bytes).map_err(|_| Error::input("the file is not text").at(path))?;
    let mut lines = text.trim_start_matches('\u{feff}').lines().filter(|line| !line.trim().is_empty());
    let head = lines.next().ok_or_else(|| Error::input("the file is empty").at(path))?;
    let separator = [',', ';', '\t'].into_iter().find(|s| head.contains(*s)).unwrap_or(',');
    let clean = |field: &str| field.trim().trim_matches('"').to_string();
    let names: Vec<String> = head.split(separator).map(clean).collect();
    let mut columns = vec![Text::default(); names.len()];
    let mut rows = 0;
    for line in lines {
        let fields: Vec<String> = line.split(separator).map(clean).collect();
        if fields.len() != names.len() {
            let wrong = format!("{} fields, and the header has {}", fields.len(), names.len());
            return Err(Error::input(wrong).at(path).line(rows as u64 + 2));
        }
        columns.iter_mut().zip(&fields).for_each(|(column, field)| column.push(field));
        rows += 1;
    }
    let column = |(name, text): (String, Text)| Column { name, data: Data::Text(text) };
    Ok(Table { columns: names.into_iter().zip(columns).map(column).collect(), rows })
}
