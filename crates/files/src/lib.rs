//! Columns and bytes, in and out.
//!
//! Everything that touches a file format lives here and nowhere else: CSV, JSON, NPZ, zip, gzip, feather, Parquet. A
//! reader turns bytes into a [`Table`] of named, typed columns; it never knows what a bar is. Every reader has caps
//! ([`Caps`]) that are checked against what a file *declares* before memory is taken, and none panics on hostile bytes:
//! what cannot be read is an [`Error`] that names file, line, column and remedy.
//!
//! Outputs are written beside their place and renamed ([`replace`]); inputs are opened read-only.
//!
//! A table goes out beside its place, takes its name when it is whole, and comes back in parts:
//!
//! ```
//! use files::{Caps, Column, Data, ParquetWriter, Source, Table, read_parquet};
//!
//! # fn main() -> files::Result<()> {
//! let folder = tempfile::tempdir().expect("a folder");
//! let path = folder.path().join("closes.parquet");
//! let mut writer = ParquetWriter::create(&path, &[])?;
//! writer.write(&Table { columns: vec![Column::f64("close", vec![101.5, 99.25])], rows: 2 })?;
//! assert!(!path.exists());
//! writer.finish()?;
//!
//! let mut closes = Vec::new();
//! read_parquet(&Source::open(&path)?, &Caps::default(), None, &mut |part| {
//!     if let Some(Data::F64(values)) = part.column("close").map(|column| &column.data) {
//!         closes.extend_from_slice(values);
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(closes, [101.5, 99.25]);
//!
//! let hostile = Source::from_bytes("hostile.parquet", &b"PAR1 and nothing more"[..]);
//! let refused = read_parquet(&hostile, &Caps::default(), None, &mut |_| Ok(()));
//! assert!(refused.is_err_and(|error| error.to_string().contains("hostile.parquet")));
//! # Ok(())
//! # }
//! ```

mod arrow;
mod csv;
mod error;
mod feather;
mod format;
pub mod fuzz;
mod json;
mod lock;
mod npz;
mod number;
mod os;
mod parquet;
mod regular;
mod replace;
mod scratch;
mod source;
mod table;
pub mod time;
mod zip;

pub use csv::{Csv, CsvBlock, CsvHead, Kind as CsvKind, Unreadable};
pub use error::{Error, Kind, Result};
pub use feather::{read_feather, write_feather};
pub use format::{
    format_bandwidth, format_bytes, format_bytes_of, format_count, format_fixed, format_list, format_number,
    format_plural, format_seconds, format_short,
};
pub use json::{Json, JsonShape, read_json};
pub use lock::{Holder, Lock};
pub use npz::{Array, ArrayHead, Arrays, read_npy, read_npz};
pub use number::{Decimal, Number, parse_f64, parse_number};
pub use os::sync_dir;
pub use parquet::{ParquetWriter, parquet_columns, parquet_metadata, parquet_rows, read_parquet};
pub use regular::{open_file, read_file};
pub use replace::{Draft, Replace, remove_folder, rename, replace_bytes, replace_bytes_unsynced, sweep};
pub use scratch::Scratch;
pub use source::{Caps, Container, Source};
pub use table::{Column, Data, MISSING_TIME, Table, Text};
pub use zip::{Archive, Member};
