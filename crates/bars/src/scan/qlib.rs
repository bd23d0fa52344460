//! qlib's binary folder: `calendars/day.txt`, `features/<symbol>/<field>.day.bin`.
//!
//! A `.bin` file is little-endian f32; its first value is the index of its first bar in the calendar. Missing days are
//! NaN.

use crate::Timeframe;
use files::{Caps, Column, Error, Result, Source, Table, time};
use std::path::{Path, PathBuf};

/// Whether a folder is a qlib data folder.
pub(crate) fn is_qlib(folder: &Path) -> bool {
    folder.join("calendars").is_dir() && folder.join("features").is_dir()
}

/// The symbols' folders, sorted, for each frequency that has a calendar.
pub(crate) fn list_symbols(folder: &Path) -> Result<Vec<PathBuf>> {
    let features = folder.join("features");
    let entries = std::fs::read_dir(&features).map_err(|e| Error::io(&features, "listing", &e))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    found.sort();
    Ok(found)
}

/// The times of one frequency.
pub(crate) struct Calendar {
    /// `day`, `1min`, …
    pub frequency: String,
    pub timeframe: Option<Timeframe>,
    pub stamps: Vec<i64>,
}

/// The calendars of a folder.
pub(crate) fn read_calendars(folder: &Path) -> Result<Vec<Calendar>> {
    let place = folder.join("calendars");
    let entries = std::fs::read_dir(&place).map_err(|e| Error::io(&place, "listing", &e))?;
    let mut found = Vec::new();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        let Some(name) = path.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
        // `day_future.txt` lists days to come.
        let Some(frequency) = name.strip_suffix(".txt").filter(|f| !f.ends_with("_future")) else { continue };
        let bytes = Source::open(&path)?.bytes(&Caps::default())?;
        let mut stamps = Vec::new();
        for (at, line) in bytes.split(|b| *b == b'\n').enumerate().filter(|(_, l)| !l.trim_ascii().is_empty()) {
            let stamp = time::parse(line.trim_ascii(), time::Order::Ymd).ok_or_else(|| {
                Error::input("a calendar line is not a date")
                    .at(&path)
                    .line(at as u64 + 1)
                    .remedy("write one date or time per line")
            })?;
            stamps.push(stamp.ns);
        }
        let timeframe = if frequency == "day" { Some(Timeframe::D1) } else { frequency.parse().ok() };
        found.push(Calendar { frequency: frequency.to_string(), timeframe, stamps });
    }
    Ok(found)
}

/// One symbol's fields as a table; `None` if it has no fields of that frequency.
pub(crate) fn read_symbol(symbol: &Path, calendar: &Calendar) -> Result<Option<Table>> {
    let ending = format!(".{}.bin", calendar.frequency);
    let calendar = &calendar.stamps;
    let entries = std::fs::read_dir(symbol).map_err(|e| Error::io(symbol, "listing", &e))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    let mut fields: Vec<(String, usize, Vec<f64>)> = Vec::new();
    for path in paths {
        let Some(name) = path.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
        let Some(field) = name.strip_suffix(&ending) else { continue };
        let bytes = Source::open(&path)?.bytes(&Caps::default())?;
        if bytes.len() < 4 || bytes.len() % 4 != 0 {
            return Err(Error::input(format!("{} bytes are not rows of f32", bytes.len()))
                .at(&path)
                .remedy("dump the field again"));
        }
        let value =
            |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(f32::NAN, f32::from_le_bytes);
        let start = value(0);
        let count = bytes.len() / 4 - 1;
        if !(start >= 0.0 && start.fract() == 0.0 && start as usize + count <= calendar.len()) {
            return Err(Error::input(format!(
                "starts at {start} with {count} values; the calendar has {} stamps",
                calendar.len()
            ))
            .at(&path)
            .remedy("calendar and features must come from the same dump"));
        }
        fields.push((field.to_string(), start as usize, (1..=count).map(|i| f64::from(value(i * 4))).collect()));
    }
    let Some(first) = fields.iter().map(|f| f.1).min() else { return Ok(None) };
    let last = fields.iter().map(|f| f.1 + f.2.len()).max().unwrap_or(first);
    let rows: Vec<usize> = (first..last)
        // Days on which the symbol has no value at all are days it did not trade.
        .filter(|at| {
            fields
                .iter()
                .any(|(_, start, v)| at.checked_sub(*start).and_then(|i| v.get(i)).is_some_and(|x| x.is_finite()))
        })
        .collect();
    let mut columns = vec![Column {
        name: "datetime".into(),
        data: files::Data::Time { ns: rows.iter().map(|at| calendar[*at]).collect(), utc: false },
    }];
    for (name, start, values) in &fields {
        let column = rows
            .iter()
            .map(|at| at.checked_sub(*start).and_then(|i| values.get(i)).copied().unwrap_or(f64::NAN))
            .collect();
        columns.push(Column::f64(name.trim_start_matches('$'), column));
    }
    Ok(Some(Table { columns, rows: rows.len() }))
}
