//! Containers built byte by byte: npy, npz, zip, gzip; and tables of made-up bars.

use files::{Column, Data, Table};
use std::fmt::Write as _;

/// Bar `i` of the sample market: open, high, low, close, volume, all different.
pub(crate) fn bar(i: usize) -> [f64; 5] {
    let base = 100.0 + i as f64;
    [base, base + 2.0, base - 1.5, base + 1.0, 10.0 * (i + 1) as f64]
}

/// A header and `n` lines.
pub(crate) fn text(header: &str, n: usize, line: impl Fn(usize) -> String) -> Vec<u8> {
    let mut out = String::new();
    if !header.is_empty() {
        let _ = writeln!(out, "{header}");
    }
    (0..n).for_each(|i| writeln!(out, "{}", line(i)).unwrap());
    out.into_bytes()
}

/// `open,high,low,close,volume` of bar `i`.
pub(crate) fn ohlcv(i: usize) -> String {
    let [o, h, l, c, v] = bar(i);
    format!("{o},{h},{l},{c},{v}")
}

/// The stamp `n` minutes after 2024-01-02 00:00 as `YYYY-MM-DD HH:MM:SS`.
pub(crate) fn minute(n: usize) -> String {
    files::time::rfc3339(crate::at("2024-01-02 00:00:00") + n as i64 * 60_000_000_000)
        .replace('T', " ")
        .replace('Z', "")
}

/// The columns of `n` sample bars, without a time.
pub(crate) fn columns(n: usize) -> Vec<Column> {
    let names = ["open", "high", "low", "close", "volume"];
    (0..5).map(|k| Column::f64(names[k], (0..n).map(|i| bar(i)[k]).collect())).collect()
}

/// A table with this time column before the sample bars.
pub(crate) fn table(time: Column, n: usize) -> Table {
    let mut all = vec![time];
    all.extend(columns(n));
    Table { columns: all, rows: n }
}

/// A column of repeated names.
pub(crate) fn names(name: &str, values: &[&str]) -> Column {
    let mut names: Vec<String> = Vec::new();
    let codes = values
        .iter()
        .map(|v| {
            let found = names.iter().position(|n| n == v);
            found.unwrap_or_else(|| {
                names.push((*v).to_string());
                names.len() - 1
            }) as u32
        })
        .collect();
    Column { name: name.into(), data: Data::Names { codes, names } }
}

/// The bytes of a table as feather.
pub(crate) fn feather(table: &Table) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.feather");
    files::write_feather(&path, table).unwrap();
    std::fs::read(path).unwrap()
}

/// The bytes of a table as Parquet.
pub(crate) fn parquet(table: &Table) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut writer = files::ParquetWriter::create(&path, &[]).unwrap();
    writer.write(table).unwrap();
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

/// An npy file: `descr` as numpy spells it, the shape, the raw bytes.
pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.bytes());
    out.extend(data);
    out
}

/// An npy file of f64.
pub(crate) fn npy_f64(shape: &str, values: &[f64]) -> Vec<u8> {
    npy("'<f8'", shape, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
}

/// An npy file of i64, or of `datetime64` where `descr` says so.
pub(crate) fn npy_i64(descr: &str, shape: &str, values: &[i64]) -> Vec<u8> {
    npy(descr, shape, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
}

/// An npy file of short Unicode strings.
pub(crate) fn npy_text(values: &[&str]) -> Vec<u8> {
    let cell = |v: &&str| {
        v.chars().chain(std::iter::repeat('\0')).take(8).flat_map(|c| (c as u32).to_le_bytes()).collect::<Vec<u8>>()
    };
    npy("'<U8'", &format!("({},)", values.len()), &values.iter().flat_map(cell).collect::<Vec<u8>>())
}

/// A zip with stored members.
pub(crate) fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    zip_claiming(members, None)
}

/// A zip with stored members whose directory claims this many bytes for each where a number is given.
pub(crate) fn zip_claiming(members: &[(&str, &[u8])], claim: Option<u32>) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let offset = out.len() as u32;
        let size = claim.unwrap_or(data.len() as u32);
        let mut common = Vec::new();
        // Version 2.0, no flags, stored, no time.
        [20u16, 0, 0, 0, 33].iter().for_each(|v| common.extend(v.to_le_bytes()));
        [crc32(data), data.len() as u32, size].iter().for_each(|v| common.extend(v.to_le_bytes()));
        [name.len() as u16, 0].iter().for_each(|v| common.extend(v.to_le_bytes()));
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.bytes());
        out.extend(*data);
        directory.extend(b"PK\x01\x02");
        directory.extend(20u16.to_le_bytes());
        directory.extend(&common);
        [0u16, 0, 0].iter().for_each(|v| directory.extend(v.to_le_bytes()));
        [0u32, offset].iter().for_each(|v| directory.extend(v.to_le_bytes()));
        directory.extend(name.bytes());
    }
    let n = members.len() as u16;
    let start = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06");
    [0u16, 0, n, n].iter().for_each(|v| out.extend(v.to_le_bytes()));
    [directory.len() as u32, start].iter().for_each(|v| out.extend(v.to_le_bytes()));
    out.extend(0u16.to_le_bytes());
    out
}

/// A gzip member of stored blocks.
pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut chunks = data.chunks(65_535).peekable();
    while let Some(chunk) = chunks.next() {
        out.push(u8::from(chunks.peek().is_none()));
        out.extend((chunk.len() as u16).to_le_bytes());
        out.extend((!(chunk.len() as u16)).to_le_bytes());
        out.extend(chunk);
    }
    out.extend(crc32(data).to_le_bytes());
    out.extend((data.len() as u32).to_le_bytes());
    out
}

fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg()))
    };
    !data.iter().fold(!0, step)
}

/// One line about everything that was read, for comparing.
pub(crate) fn shown(market: &bars::Market, audit: &bars::audit::Audit) -> String {
    use files::time::rfc3339;
    let mut out = format!("{} = {:?}", audit.format, audit.verdict).to_lowercase();
    for b in &market.bars {
        let span =
            |i: usize| format!("{}..{}", rfc3339(b.start[i]), rfc3339(b.end[i])).replace(":00Z", "").replace('T', " ");
        let last = b.len() - 1;
        let volume = b.volume.get(last).map_or("-".to_string(), f64::to_string);
        let _ = write!(
            out,
            "\n{} {} {} {}: {} | {} | {} {} {} {} {volume}",
            b.symbol,
            b.timeframe,
            b.instrument.class,
            b.len(),
            span(0),
            span(last),
            b.open[last],
            b.high[last],
            b.low[last],
            b.close[last]
        );
        for (name, values) in &b.extras {
            let _ = write!(out, " {name}={}", values[last]);
        }
    }
    out
}
