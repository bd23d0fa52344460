//! One piece of text to typed columns: the hot loop.

use super::{Csv, CsvBlock, Kind, Unreadable};
use crate::number::{self, Decimal, Number};
use crate::{Column, Data, Error, Result, Table, time};
use std::borrow::Cow;
use std::collections::HashMap;

/// Parses pieces of one file.
pub(crate) struct Parser<'a> {
    csv: &'a Csv,
    columns: Vec<Builder>, // one for each field, `Skip` included
    needed: usize,         // fields a row must have
    last_date: [u8; 10],   // stamps of one block mostly share their day
    last_days: i64,
    point: bool, // numbers are written with a decimal point
}

enum Builder {
    Skip,
    F64(Vec<f64>),
    I64(Vec<i64>),
    Names { codes: Vec<u32>, known: HashMap<Vec<u8>, u32>, names: Vec<String>, last: Option<(Vec<u8>, u32)> },
}

/// Why a row is left out.
struct RowProblem {
    field: usize,
    text: String,
    wanted: Cow<'static, str>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(csv: &'a Csv) -> Parser<'a> {
        let needed = csv.kinds.iter().rposition(|k| !matches!(k, Kind::Skip | Kind::Extra)).map_or(0, |at| at + 1);
        let columns = csv
            .kinds
            .iter()
            .map(|kind| match kind {
                Kind::Skip => Builder::Skip,
                Kind::Number | Kind::Extra => Builder::F64(Vec::new()),
                Kind::Time(_) | Kind::Clock | Kind::Epoch => Builder::I64(Vec::new()),
                Kind::Names => {
                    Builder::Names { codes: Vec::new(), known: HashMap::new(), names: Vec::new(), last: None }
                }
            })
            .collect();
        Parser { csv, columns, needed, last_date: [0; 10], last_days: 0, point: csv.decimal == Decimal::Point }
    }

    /// Parses whole lines; the first stands on `first_line` of the file.
    pub(crate) fn parse(mut self, text: &[u8], first_line: u64) -> Result<CsvBlock> {
        let mut block = CsvBlock {
            table: Table::default(),
            bytes: text.len(),
            unreadable: Vec::new(),
            bad_extras: 0,
            lines: vec![(0, first_line)],
        };
        let guess = text.len() / 48;
        for column in &mut self.columns {
            match column {
                Builder::Skip => {}
                Builder::F64(v) => v.reserve(guess),
                Builder::I64(v) => v.reserve(guess),
                Builder::Names { codes, .. } => codes.reserve(guess),
            }
        }
        let mut rows = 0;
        let mut line = first_line;
        let mut at = 0;
        while at < text.len() {
            if let Some(next) = self.parse_plain_row(text, at) {
                rows += 1;
                line += 1;
                at = next;
                continue;
            }
            self.truncate(rows);
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n);
            let row = text[at..end].strip_suffix(b"\r").unwrap_or(&text[at..end]);
            if row.len() > self.csv.caps.line {
                return Err(Error::input(format!("a line is longer than {} bytes", self.csv.caps.line))
                    .at(self.csv.source.path())
                    .line(line)
                    .remedy("check that the file is complete and has line ends"));
            }
            let fine = if row.is_empty() {
                false
            } else {
                match self.parse_row(text, at, at + row.len(), &mut block.bad_extras) {
                    Ok(()) => true,
                    Err(wrong) => {
                        self.truncate(rows);
                        block.unreadable.push(Unreadable {
                            line,
                            field: wrong.field as u64 + 1,
                            text: wrong.text,
                            wanted: wrong.wanted.into_owned(),
                        });
                        false
                    }
                }
            };
            line += 1;
            if fine {
                rows += 1;
            } else {
                block.lines.push((rows, line));
            }
            at = end + 1;
        }
        block.table = self.finish(rows);
        Ok(block)
    }

    /// A row of plain numbers and stamps, read without looking for its end first; where the next one begins. `None` if
    /// anything is unusual: the columns are then longer than the rows, and [`Parser::parse_row`] reads the row again.
    #[inline(always)]
    fn parse_plain_row(&mut self, text: &[u8], from: usize) -> Option<usize> {
        let delimiter = self.csv.delimiter;
        let last = self.csv.kinds.len().checked_sub(1)?;
        let mut at = from;
        for (field, kind) in self.csv.kinds.iter().enumerate() {
            let end = match (kind, &mut self.columns[field]) {
                (Kind::Number | Kind::Extra, Builder::F64(values)) if self.point => {
                    let (value, end) = number::scan(text, at)?;
                    values.push(value);
                    end
                }
                (Kind::Time(column), Builder::I64(values)) if column.order == time::Order::Ymd && !column.zoned => {
                    let stamp = <&[u8; 19]>::try_from(text.get(at..at + 19)?).ok()?;
                    let clock = time::clock_fixed(stamp)?;
                    if stamp[..10] != self.last_date {
                        self.last_days = time::date_fixed(stamp)?;
                        self.last_date.copy_from_slice(&stamp[..10]);
                    }
                    values.push(self.last_days * 86_400_000_000_000 + clock);
                    at + 19
                }
                _ => return None,
            };
            let next = *text.get(end)?;
            if field == last {
                return match next {
                    b'\n' => Some(end + 1),
                    b'\r' if text.get(end + 1) == Some(&b'\n') => Some(end + 2),
                    _ => None,
                };
            }
            if next != delimiter {
                return None;
            }
            at = end + 1;
        }
        None
    }

    #[inline(always)]
    fn parse_row(&mut self, text: &[u8], from: usize, to: usize, bad_extras: &mut u64) -> Result<(), RowProblem> {
        let delimiter = self.csv.delimiter;
        let point = self.point;
        // Fast paths look beyond the line's end (at a line end, which is no digit); what they give must end where a
        // field does.
        let ends = |at: usize| at == to || (at < to && text[at] == delimiter);
        let line = &text[..to];
        let mut at = from; // one past the end of the line means that the last field has been read
        for (field, kind) in self.csv.kinds.iter().enumerate() {
            if at > line.len() {
                return self.accept_short_row(&line[from..], field);
            }
            match (kind, &mut self.columns[field]) {
                (Kind::Number | Kind::Extra, Builder::F64(values)) => {
                    if point
                        && let Some((value, end)) = number::scan(text, at)
                        && ends(end)
                    {
                        values.push(value);
                        at = end + 1;
                        continue;
                    }
                    let (text, end) = read_field(line, at, delimiter);
                    values.push(match number::parse_number(&text, self.csv.decimal) {
                        Number::Value(value) => value,
                        Number::Missing => f64::NAN,
                        Number::Bad if *kind == Kind::Extra => {
                            *bad_extras += 1;
                            f64::NAN
                        }
                        Number::Bad => return Err(RowProblem::new(field, &text, "a number")),
                    });
                    at = end + 1;
                }
                (Kind::Time(column), Builder::I64(values)) => {
                    let (text, end) = read_field(line, at, delimiter);
                    match time::parse(&text, column.order) {
                        Some(stamp) if stamp.zoned == column.zoned => values.push(stamp.ns),
                        Some(_) if column.zoned => return Err(RowProblem::new(field, &text, "a time with a zone")),
                        Some(_) => return Err(RowProblem::new(field, &text, "a time without a zone")),
                        None => return Err(RowProblem::new(field, &text, "a time")),
                    }
                    at = end + 1;
                }
                (Kind::Epoch, Builder::I64(values)) => {
                    let (text, end) = read_field(line, at, delimiter);
                    match parse_integer(&text) {
                        Some(value) => values.push(value),
                        None => {
                            return Err(RowProblem::new(field, &text, "a time in seconds, milliseconds, … since 1970"));
                        }
                    }
                    at = end + 1;
                }
                (Kind::Clock, Builder::I64(values)) => {
                    let (text, end) = read_field(line, at, delimiter);
                    match time::parse_clock(&text) {
                        Some(ns) => values.push(ns),
                        None => return Err(RowProblem::new(field, &text, "a time of day")),
                    }
                    at = end + 1;
                }
                (Kind::Names, Builder::Names { codes, known, names, last }) => {
                    let (text, end) = read_field(line, at, delimiter);
                    let code = match last {
                        Some((name, code)) if name[..] == text[..] => *code,
                        _ => {
                            let code = match known.get(&text[..]) {
                                Some(code) => *code,
                                None => {
                                    let code = names.len() as u32;
                                    names.push(String::from_utf8_lossy(&text).trim().to_string());
                                    known.insert(text.to_vec(), code);
                                    code
                                }
                            };
                            *last = Some((text.to_vec(), code));
                            code
                        }
                    };
                    codes.push(code);
                    at = end + 1;
                }
                (_, _) => at = read_field(line, at, delimiter).1 + 1,
            }
        }
        // One empty field behind the last comes from a delimiter at the line's end.
        if at < line.len() {
            let fields = self.csv.kinds.len();
            return Err(RowProblem {
                field: fields,
                text: shorten(&line[at..]),
                wanted: Cow::Owned(format!("{fields} fields, not more")),
            });
        }
        Ok(())
    }

    /// A row that ends early: fine if only extras are missing.
    #[cold]
    fn accept_short_row(&mut self, line: &[u8], field: usize) -> Result<(), RowProblem> {
        if field < self.needed {
            let wanted = Cow::Owned(format!("{} fields", self.csv.kinds.len()));
            return Err(RowProblem { field, text: shorten(line), wanted });
        }
        for column in &mut self.columns[field..] {
            if let Builder::F64(values) = column {
                values.push(f64::NAN);
            }
        }
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        for column in &mut self.columns {
            match column {
                Builder::Skip => {}
                Builder::F64(v) => v.truncate(rows),
                Builder::I64(v) => v.truncate(rows),
                Builder::Names { codes, .. } => codes.truncate(rows),
            }
        }
    }

    fn finish(self, rows: usize) -> Table {
        let mut columns = Vec::new();
        for (field, (builder, kind)) in self.columns.into_iter().zip(&self.csv.kinds).enumerate() {
            let data = match (builder, kind) {
                (Builder::Skip, _) => continue,
                (Builder::F64(values), _) => Data::F64(values),
                (Builder::I64(ns), Kind::Time(column)) => Data::Time { ns, utc: column.zoned },
                (Builder::I64(ns), Kind::Clock) => Data::Clock(ns),
                (Builder::I64(values), _) => Data::I64(values),
                (Builder::Names { codes, names, .. }, _) => Data::Names { codes, names },
            };
            columns.push(Column { name: field.to_string(), data });
        }
        Table { columns, rows }
    }
}

impl RowProblem {
    #[cold]
    fn new(field: usize, text: &[u8], wanted: &'static str) -> RowProblem {
        RowProblem { field, text: shorten(text), wanted: Cow::Borrowed(wanted) }
    }
}

/// The field that begins at `at`, unquoted, and where it ends (at a delimiter or the line's end).
pub(crate) fn read_field(line: &[u8], at: usize, delimiter: u8) -> (Cow<'_, [u8]>, usize) {
    let rest = &line[at..];
    if rest.first() != Some(&b'"') {
        let end = memchr::memchr(delimiter, rest).unwrap_or(rest.len());
        return (Cow::Borrowed(&rest[..end]), at + end);
    }
    let mut i = 1;
    let mut doubled = false;
    while let Some(quote) = memchr::memchr(b'"', &rest[i..]) {
        i += quote;
        if rest.get(i + 1) == Some(&b'"') {
            doubled = true;
            i += 2;
            continue;
        }
        let inner = &rest[1..i];
        let end = i + 1 + memchr::memchr(delimiter, &rest[i + 1..]).unwrap_or(rest.len() - i - 1);
        let text = if doubled { Cow::Owned(unescape_quotes(inner)) } else { Cow::Borrowed(inner) };
        return (text, at + end);
    }
    // A quote that never closes: the rest of the line is the field.
    (Cow::Borrowed(&rest[1..]), line.len())
}

fn unescape_quotes(inner: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(inner.len());
    let mut quotes = 0usize;
    for &byte in inner {
        quotes = if byte == b'"' { quotes + 1 } else { 0 };
        if quotes.is_multiple_of(2) || byte != b'"' {
            text.push(byte);
        }
    }
    text
}

fn parse_integer(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    if let Ok(value) = std::str::from_utf8(text).ok()?.parse() {
        return Some(value);
    }
    // `1.633e12` and `1633036800.0`
    let value = number::parse_f64(text)?;
    (value.abs() < 9e18 && value.fract() == 0.0).then_some(value as i64)
}

fn shorten(text: &[u8]) -> String {
    let shown: String = String::from_utf8_lossy(&text[..text.len().min(160)]).chars().take(40).collect();
    let shown: String = shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}
