//! The first megabyte of a text file: how it is cut, and what its columns hold.

use super::block::read_field;
use super::{Csv, Kind};
use crate::number::{Decimal, Number, parse_number};
use crate::{Caps, Column, Data, Error, MISSING_TIME, Result, Source, Table, time};
use std::borrow::Cow;

const HEAD: usize = 1 << 20;
const ROWS: usize = 8192;

/// What the head of a text file shows.
#[derive(Debug, Clone)]
pub struct CsvHead {
    /// Between fields.
    pub delimiter: u8,
    /// How numbers are written.
    pub decimal: Decimal,
    /// The lines above the data, cut into fields.
    pub header: Vec<Vec<String>>,
    /// Fields of a data row.
    pub fields: usize,
    /// The first rows, typed by what most cells of a column are; unnamed. Cells that do not fit are missing.
    pub sample: Table,
    /// How each column writes its stamps, where it holds stamps.
    pub times: Vec<Option<time::Column>>,
    /// Whether it begins with a byte order mark.
    pub bom: bool,
    /// Bytes of text an average row takes.
    pub row_bytes: f64,
}

impl CsvHead {
    /// Looks at the head of a file; an error if it is no table.
    pub fn sniff(source: &Source, caps: &Caps) -> Result<CsvHead> {
        let wrong = |message: &str| Error::input(message.to_string()).at(source.path());
        let head = source.head(HEAD)?;
        let bom = head.starts_with(b"\xef\xbb\xbf");
        let text = if bom { &head[3..] } else { &head[..] };
        if text.is_empty() {
            return Err(wrong("the file is empty").remedy("check the download or export that made it"));
        }
        if !text.contains(&b'\n') && text.contains(&b'\r') {
            return Err(wrong("lines end with a bare carriage return")
                .remedy("convert the line ends: tr '\\r' '\\n' < in > out"));
        }
        if head.len() == HEAD && !text.contains(&b'\n') {
            return Err(wrong("the first line is longer than a megabyte")
                .line(1)
                .remedy("this does not look like a table; check that the file is complete and has line ends"));
        }
        // The last line of a full head is cut somewhere; leave it out.
        let whole =
            if head.len() == HEAD { memchr::memrchr(b'\n', text).map_or(text.len(), |at| at + 1) } else { text.len() };
        let lines: Vec<&[u8]> = text[..whole]
            .split(|b| *b == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .take(ROWS)
            .collect();
        if let Some(at) = lines.iter().position(|line| line.len() > caps.line) {
            return Err(wrong("a line is too long for a table")
                .line(at as u64 + 1)
                .remedy("check the file's line ends"));
        }
        let filled: Vec<&[u8]> = lines.iter().copied().filter(|line| !line.trim_ascii().is_empty()).collect();
        let tail = &filled[filled.len().saturating_sub(filled.len().max(2) / 2)..];
        let Some((delimiter, fields)) = guess_delimiter(&tail[..tail.len().min(400)]) else {
            return Err(wrong("no delimiter cuts the lines into columns").remedy(
                "bars need at least a time and four prices per line, separated by commas, semicolons, tabs or bars",
            ));
        };
        caps.check_columns(fields).map_err(|e| e.at(source.path()).line(1))?;
        let split: Vec<Option<Vec<Cow<'_, [u8]>>>> =
            lines.iter().map(|line| (!line.trim_ascii().is_empty()).then(|| split_fields(line, delimiter))).collect();
        let decimal = guess_decimal(split.iter().flatten(), delimiter);
        let first = split.iter().position(|row| row.as_ref().is_some_and(|row| is_data(row, fields, decimal)));
        let Some(first) = first else {
            return Err(wrong("no line holds numbers").remedy("bars need at least a time and four prices per line"));
        };
        let strings =
            |row: &Vec<Cow<'_, [u8]>>| row.iter().map(|c| String::from_utf8_lossy(c).trim().to_string()).collect();
        let header = split[..first].iter().map(|row| row.as_ref().map_or_else(Vec::new, strings)).collect();
        let rows: Vec<&Vec<Cow<'_, [u8]>>> =
            split[first..].iter().flatten().filter(|row| row.len() == fields || row.len() == fields + 1).collect();
        let mut sample = Table { columns: Vec::new(), rows: rows.len() };
        let mut times = Vec::new();
        for field in 0..fields {
            let cells: Vec<&[u8]> = rows.iter().map(|row| row[field].trim_ascii()).collect();
            let (data, column) = guess_column(&cells, decimal);
            sample.columns.push(Column { name: String::new(), data });
            times.push(column);
        }
        let data_bytes: usize = lines[first..].iter().map(|line| line.len() + 1).sum();
        let row_bytes = data_bytes as f64 / rows.len().max(1) as f64;
        Ok(CsvHead { delimiter, decimal, header, fields, sample, times, bom, row_bytes })
    }

    /// The whole file, with these columns wanted.
    pub fn csv(&self, source: Source, kinds: Vec<Kind>, caps: Caps) -> Csv {
        Csv { source, delimiter: self.delimiter, decimal: self.decimal, header_lines: self.header.len(), kinds, caps }
    }
}

fn split_fields(line: &[u8], delimiter: u8) -> Vec<Cow<'_, [u8]>> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at <= line.len() {
        let (text, end) = read_field(line, at, delimiter);
        fields.push(text);
        at = end + 1;
    }
    fields
}

/// The delimiter under which most lines agree on their number of fields and most fields are numbers or stamps.
fn guess_delimiter(lines: &[&[u8]]) -> Option<(u8, usize)> {
    let mut best: Option<(f64, u8, usize)> = None;
    for delimiter in [b',', b';', b'\t', b'|', b' '] {
        let rows: Vec<_> = lines.iter().map(|line| split_fields(line, delimiter)).collect();
        let mut counts: Vec<usize> = rows
            .iter()
            .map(|row| row.len() - usize::from(row.last().is_some_and(|c| c.is_empty()) && row.len() > 5))
            .collect();
        counts.sort_unstable();
        let Some(&fields) = counts.get(counts.len() / 2) else { continue };
        if fields < 2 {
            continue;
        }
        let agree = counts.iter().filter(|n| **n == fields).count() as f64 / counts.len() as f64;
        let (mut good, mut filled) = (0usize, 0usize);
        for text in rows.iter().take(100).flat_map(|row| row.iter()) {
            let text = text.trim_ascii();
            filled += usize::from(!text.is_empty());
            good += usize::from(!text.is_empty() && is_value(text));
        }
        // A space also stands between date and time, so it must be clearly better than the others.
        let handicap = if delimiter == b' ' { 0.5 } else { 1.0 };
        let score = agree * (good as f64 / filled.max(1) as f64 + 0.05) * (fields as f64).min(6.0) * handicap;
        if best.is_none_or(|(s, _, _)| score > s * 1.05) {
            best = Some((score, delimiter, fields));
        }
    }
    best.map(|(_, delimiter, fields)| (delimiter, fields))
}

fn is_value(text: &[u8]) -> bool {
    matches!(parse_number(text, Decimal::Point), Number::Value(_) | Number::Missing)
        || matches!(parse_number(text, Decimal::Comma), Number::Value(_))
        || is_time(text)
}

fn is_time(text: &[u8]) -> bool {
    [time::Order::Ymd, time::Order::Dmy, time::Order::Mdy].iter().any(|order| time::parse(text, *order).is_some())
}

/// Comma or point, from all cells that hold a comma among digits.
fn guess_decimal<'a>(rows: impl Iterator<Item = &'a Vec<Cow<'a, [u8]>>>, delimiter: u8) -> Decimal {
    let (mut commas, mut grouped, mut certain_groups, mut points) = (0usize, 0usize, 0usize, 0usize);
    for text in rows.take(500).flat_map(|row| row.iter()) {
        let text = text.trim_ascii();
        if text.contains(&b',') && matches!(parse_number(text, Decimal::Comma), Number::Value(_)) {
            commas += 1;
            grouped += usize::from(matches!(parse_number(text, Decimal::Point), Number::Value(_)));
        } else if text.contains(&b',') && matches!(parse_number(text, Decimal::Point), Number::Value(_)) {
            certain_groups += 1;
        } else if text.contains(&b'.') && matches!(parse_number(text, Decimal::Point), Number::Value(_)) {
            points += 1;
        }
    }
    // `1,234` alone could be either; a semicolon between fields makes the comma a decimal sign.
    let all_ambiguous = commas == grouped;
    if commas == 0 || certain_groups > 0 || (all_ambiguous && (delimiter != b';' || points > 0)) || points > commas {
        Decimal::Point
    } else {
        Decimal::Comma
    }
}

/// A data row: as wide as most, at least half of its filled fields values, one of them a number.
fn is_data(row: &[Cow<'_, [u8]>], fields: usize, decimal: Decimal) -> bool {
    if row.len() < fields.min(3) {
        return false;
    }
    let (mut values, mut numbers, mut filled) = (0usize, 0usize, 0usize);
    for text in row {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        filled += 1;
        let number = matches!(parse_number(text, decimal), Number::Value(_));
        numbers += usize::from(number);
        values += usize::from(number || is_time(text) || time::parse_clock(text).is_some());
    }
    numbers >= 1 && values >= 2 && values * 2 >= filled
}

/// What a column holds, by most of its cells.
fn guess_column(cells: &[&[u8]], decimal: Decimal) -> (Data, Option<time::Column>) {
    let filled: Vec<&[u8]> = cells.iter().copied().filter(|c| !c.is_empty()).collect();
    let fits = |good: usize| good > 0 && (good * 50 >= filled.len() * 49 || (filled.len() - good == 1 && good >= 7));
    let whole: Option<Vec<i64>> = cells.iter().map(|c| std::str::from_utf8(c).ok()?.parse().ok()).collect();
    if let Some(whole) = whole
        && !whole.is_empty()
    {
        return (Data::I64(whole), None);
    }
    let numbers: Vec<Number> = cells.iter().map(|c| parse_number(c, decimal)).collect();
    let good = numbers.iter().filter(|n| matches!(n, Number::Value(_))).count();
    let missing = numbers.iter().zip(cells).filter(|(n, c)| **n == Number::Missing && !c.is_empty()).count();
    if filled.is_empty() || (good + missing > 0 && fits(good + missing)) {
        let values = numbers.iter().map(|n| if let Number::Value(v) = n { *v } else { f64::NAN }).collect();
        return (Data::F64(values), None);
    }
    if let Some(column) = time::Column::guess(filled.iter().copied()) {
        let ns = cells.iter().map(|c| time::parse(c, column.order).map_or(MISSING_TIME, |s| s.ns)).collect();
        return (Data::Time { ns, utc: column.zoned }, Some(column));
    }
    let clocks: Vec<i64> = cells.iter().map(|c| time::parse_clock(c).unwrap_or(MISSING_TIME)).collect();
    if fits(clocks.iter().filter(|ns| **ns != MISSING_TIME).count()) {
        return (Data::Clock(clocks), None);
    }
    let mut names: Vec<String> = Vec::new();
    let mut known = std::collections::HashMap::new();
    let codes = cells
        .iter()
        .map(|c| {
            *known.entry(*c).or_insert_with(|| {
                names.push(String::from_utf8_lossy(c).into_owned());
                names.len() as u32 - 1
            })
        })
        .collect();
    (Data::Names { codes, names }, None)
}
