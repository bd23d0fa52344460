//! A data set as Parquet: the base table with its labels, and one file for each slower table.

use crate::features::Written;
use crate::progress::check_stop;
use bars::Bars;
use features::{Dataset, Table, labels};
use files::{Column, Data, Error, Kind, ParquetWriter, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Rows of a row group: enough to compress, few enough that the columns of one take little memory.
pub(crate) const GROUP: usize = 1 << 17;

/// The key of the metadata.
const ABOUT: &str = "fullbore";

/// Columns of a file that are no features.
const OWN: &[&str] =
    &["symbol", "start", "end", "open", "high", "low", "close", "volume", "settled", "label", "t1", "weight"];

/// Where the table of a timeframe goes: `bars.parquet` and, beside it, `bars@1h.parquet`.
pub(crate) fn place(out: &Path, table: &str) -> PathBuf {
    if table.is_empty() {
        return out.to_path_buf();
    }
    let stem = out.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = out.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    out.with_file_name(format!("{stem}@{table}{ending}"))
}

/// An error if a feature has the name of another column of its file.
pub(crate) fn check_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    match names.into_iter().find(|name| OWN.contains(name) || name.starts_with("row@")) {
        None => Ok(()),
        Some(name) => {
            Err(Error::new(Kind::Usage, format!("a feature cannot be called `{name}`: the table has such a column"))
                .remedy(format!("give it a name of its own: my_{name} = {name}")))
        }
    }
}

/// Writes all tables; `about` is the metadata of each.
pub(crate) fn write(
    data: &Dataset,
    out: &Path,
    about: &dyn Fn(&Table) -> String,
    threads: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Written>> {
    let total = data.base.rows() + data.slow.iter().map(|s| s.table.rows()).sum::<usize>();
    let mut done = 0;
    let mut one =
        |table: &Table, name: &str, more: &dyn Fn(Range<usize>) -> Vec<Column>| -> Result<(ParquetWriter, Written)> {
            let path = place(out, name);
            let mut writer = ParquetWriter::create(&path, &[(ABOUT.into(), about(table))])?.threads(threads);
            let (mut start, mut columns) = (0, 0);
            while start < table.rows() {
                check_stop()?;
                let rows = start..table.rows().min(start + GROUP);
                let mut all = market(table, rows.clone());
                all.extend(values(table, rows.clone(), threads));
                all.push(Column { name: "settled".into(), data: Data::Bool(table.settled[rows.clone()].to_vec()) });
                all.extend(more(rows.clone()));
                columns = all.len() as u64;
                writer.write(&files::Table { columns: all, rows: rows.len() })?;
                done += rows.len();
                progress(done, total);
                start = rows.end;
            }
            let (path, table, rows) = (path.display().to_string(), name.to_string(), table.rows() as u64);
            Ok((writer, Written { path, table, rows, columns, bytes: 0 }))
        };
    let mut all = vec![one(&data.base, "", &|rows| beside(data, rows))?];
    for slow in &data.slow {
        all.push(one(&slow.table, &slow.table.timeframe.to_string(), &|_| Vec::new())?);
    }
    // Nothing appears before everything is written.
    check_stop()?;
    all.into_iter().map(|(writer, written)| Ok(Written { bytes: writer.finish()?, ..written })).collect()
}

/// Symbol, times, prices and volume.
fn market(table: &Table, rows: Range<usize>) -> Vec<Column> {
    let parts: Vec<(&Bars, Range<usize>)> = table
        .market
        .iter()
        .zip(table.offsets.windows(2))
        .filter(|(_, at)| at[0] < rows.end && at[1] > rows.start)
        .map(|(bars, at)| (bars, rows.start.max(at[0]) - at[0]..rows.end.min(at[1]) - at[0]))
        .collect();
    let codes = parts.iter().enumerate().flat_map(|(code, part)| part.1.clone().map(move |_| code as u32)).collect();
    let names = parts.iter().map(|part| part.0.symbol.clone()).collect();
    let times = |of: fn(&Bars) -> &[i64]| parts.iter().flat_map(|p| of(p.0)[p.1.clone()].iter().copied()).collect();
    let prices = |of: fn(&Bars) -> &[f64]| parts.iter().flat_map(|p| of(p.0)[p.1.clone()].iter().copied()).collect();
    let mut columns = vec![
        Column { name: "symbol".into(), data: Data::Names { codes, names } },
        Column::time("start", times(|b| &b.start)),
        Column::time("end", times(|b| &b.end)),
        Column::f64("open", prices(|b| &b.open)),
        Column::f64("high", prices(|b| &b.high)),
        Column::f64("low", prices(|b| &b.low)),
        Column::f64("close", prices(|b| &b.close)),
    ];
    if table.market.iter().any(|b| !b.volume.is_empty()) {
        let volume = parts.iter().flat_map(|(b, at)| at.clone().map(|i| b.volume.get(i).copied().unwrap_or(f64::NAN)));
        columns.push(Column::f64("volume", volume.collect()));
    }
    columns
}

/// The features, turned from rows to columns on all threads.
fn values(table: &Table, rows: Range<usize>, threads: usize) -> Vec<Column> {
    let wide = table.columns.len().div_ceil(threads.max(1)).max(1);
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
    let turn = |first: usize, names: &[&str]| -> Vec<Column> {
        let mut columns: Vec<Vec<f32>> = names.iter().map(|_| Vec::with_capacity(rows.len())).collect();
        // As many columns at once as share a line of the cache.
        for (i, block) in columns.chunks_mut(16).enumerate() {
            let from = first + i * 16;
            for row in rows.clone() {
                let at = row * table.stride + from;
                for (column, value) in block.iter_mut().zip(&table.values[at..]) {
                    column.push(*value);
                }
            }
        }
        names.iter().zip(columns).map(|(name, values)| Column::f32(*name, values)).collect()
    };
    let turn = &turn;
    std::thread::scope(|scope| {
        let parts: Vec<_> =
            names.chunks(wide).enumerate().map(|(i, names)| scope.spawn(move || turn(i * wide, names))).collect();
        let join = |part: std::thread::ScopedJoinHandle<'_, Vec<Column>>| {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        parts.into_iter().flat_map(join).collect()
    })
}

/// Labels, and the rows of the slower tables.
fn beside(data: &Dataset, rows: Range<usize>) -> Vec<Column> {
    let mut columns = Vec::new();
    if let Some(labels) = &data.labels {
        // The marks of a missing label are those of a missing value in the file.
        const { assert!(labels::NONE == i8::MIN && labels::NEVER == files::MISSING_TIME) };
        columns.push(Column { name: "label".into(), data: Data::I8(labels.class[rows.clone()].to_vec()) });
        columns.push(Column::time("t1", labels.t1[rows.clone()].to_vec()));
        columns.push(Column::f32("weight", labels.weight[rows.clone()].to_vec()));
    }
    for slow in &data.slow {
        let name = format!("row@{}", slow.table.timeframe);
        columns.push(Column { name, data: Data::U32(slow.of[rows.clone()].to_vec()) });
    }
    columns
}
