//! One call per format for the fuzzers: hostile bytes through the public readers, the result thrown away.
//!
//! Used by the targets in `fuzz/` and by the test that replays and mutates their corpora. The caps are small, so that a
//! run stays in little memory and anything that escapes them shows.

use crate::{Archive, Caps, Source};

/// Caps for hostile bytes: a table of 64 MiB.
fn caps() -> Caps {
    Caps { rows: 1 << 20, columns: 256, inflated: 64 << 20, ratio: 200, line: 1 << 16, members: 256 }
}

fn source(bytes: &[u8]) -> Source {
    Source::from_bytes("fuzz", bytes.to_vec())
}

/// Bytes as CSV.
pub fn csv(bytes: &[u8]) {
    crate::csv::fuzz(bytes);
}

/// Bytes as JSON.
pub fn json(bytes: &[u8]) {
    let _ = crate::read_json(&source(bytes), &caps());
}

/// Bytes as an archive of numpy arrays, or one array.
pub fn npz(bytes: &[u8]) {
    let _ = crate::read_npz(&source(bytes), &caps());
    let Ok(arrays) = crate::Arrays::open(&source(bytes), &caps()) else { return };
    for head in arrays.heads() {
        let _ = arrays.read(&head.name, &mut |_| Ok(()));
        let width = head.shape.get(1..).and_then(<[usize]>::last).copied().unwrap_or(1);
        // Headers of numbers that lie about their length have been refused, so a small file asks for little.
        let (Some(rows), true) = (head.count().checked_div(width), head.is_number()) else { continue };
        let stride = width.next_multiple_of(4);
        let _ = arrays.read_f32(&head.name, stride, &mut vec![0.0; rows * stride], &mut |_| Ok(()));
    }
}

/// Bytes as a zip; its members are inflated and sniffed.
pub fn zip(bytes: &[u8]) {
    let _ = source(bytes).container();
    let Ok(archive) = Archive::open(&source(bytes), &caps()) else { return };
    for i in 0..archive.members().len() {
        let _ = archive.source(i).and_then(|member| member.container());
    }
}

/// Bytes as feather.
pub fn feather(bytes: &[u8]) {
    let _ = crate::read_feather(&source(bytes), &caps(), &mut |_| Ok(()));
}

/// Bytes as Parquet.
pub fn parquet(bytes: &[u8]) {
    let source = source(bytes);
    let _ = crate::parquet_columns(&source, &caps());
    let _ = crate::parquet_metadata(&source, "pandas");
    let _ = crate::read_parquet(&source, &caps(), None, &mut |_| Ok(()));
}
