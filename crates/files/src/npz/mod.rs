//! Numpy arrays: `.npy`, and `.npz`, which is a zip of them.
//!
//! Numbers, booleans, `datetime64` and fixed-width strings are read, of either byte order, in C or Fortran order;
//! structured arrays are split into one array per field. Object arrays hold pickles, which run code when they are
//! opened: they are refused.
//!
//! [`read_npz`] decodes all arrays into columns. [`Arrays`] reads headers first and then, array by array, numbers
//! straight into the caller's rows, for files that fill the memory.

mod arrays;
mod field;
mod header;

pub use arrays::{ArrayHead, Arrays};

use bytes::Bytes;

use self::field::{Field, Items, Kind, c_order, fields};
use self::header::{Header, MAGIC, Py, damaged};
use crate::error::{Error, Result};
use crate::source::{Caps, Source};
use crate::table::Data;
use crate::zip::Archive;

/// A named array.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Its key in the archive, or the name of its file; `key.field` for a field of a structured array.
    pub name: String,
    /// Length along each axis; empty for a single value.
    pub shape: Vec<usize>,
    /// Its values in C order (the last axis runs fastest). `datetime64` has no zone by definition and is read as UTC,
    /// as numpy itself prints and parses it.
    pub data: Data,
}

/// All arrays of a `.npz`. A lone `.npy` is taken too, and is how the fields of a structured one are reached.
pub fn read_npz(source: &Source, caps: &Caps) -> Result<Vec<Array>> {
    if source.head(6)?.starts_with(MAGIC) {
        return decode(&stem(source), source, caps);
    }
    let archive = Archive::open(source, caps)?;
    let mut arrays = Vec::new();
    for (i, member) in archive.members().iter().enumerate() {
        let Some(name) = member.name.strip_suffix(".npy") else {
            return Err(Error::input(format!("{} is not a numpy array", member.name))
                .at(source.path())
                .remedy("an .npz holds only .npy arrays; write it with np.savez"));
        };
        arrays.extend(decode(name, &archive.source(i)?, caps)?);
        caps.check_columns(arrays.len()).map_err(|e| e.at(source.path()))?;
    }
    Ok(arrays)
}

/// The array of a `.npy`.
pub fn read_npy(source: &Source, caps: &Caps) -> Result<Array> {
    let mut arrays = decode(&stem(source), source, caps)?;
    match arrays.pop() {
        Some(array) if arrays.is_empty() => Ok(array),
        _ => Err(Error::input("it is a structured array, which has several columns")
            .at(source.path())
            .remedy("save its fields apart: np.savez(path, **{k: a[k] for k in a.dtype.names})")),
    }
}

fn stem(source: &Source) -> String {
    source.path().file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn decode(name: &str, source: &Source, caps: &Caps) -> Result<Vec<Array>> {
    decode_bytes(name, &source.bytes(caps)?, caps).map_err(|e| e.at(source.path()))
}

fn decode_bytes(name: &str, file: &Bytes, caps: &Caps) -> Result<Vec<Array>> {
    let mut body = &file[..];
    let header = Header::take(&mut body)?;
    caps.check_rows(header.shape.first().map_or(1, |n| *n as u64))?;
    let fields = fields(&header.descr)?;
    let size = check_size(&header, &fields, body.len() as u64)?;
    let structured = matches!(header.descr, Py::Seq(_));
    if structured && header.shape.len() != 1 {
        return Err(Error::input("it is a structured array of more than one axis, only lists of records are read")
            .remedy("save its fields apart: np.savez(path, **{k: a[k] for k in a.dtype.names})"));
    }
    let mut arrays = Vec::new();
    let mut offset = 0;
    for field in &fields {
        // Padding between aligned fields has no name.
        if field.kind != Kind::Skip {
            let items = Items { body, count: header.count, stride: size, offset, size: field.size() };
            let mut data = field.read(&items)?;
            if header.fortran && header.shape.len() > 1 {
                data = c_order(data, &header.shape);
            }
            let name = if structured { format!("{name}.{}", field.name) } else { name.to_string() };
            arrays.push(Array { name, shape: header.shape.clone(), data });
        }
        offset += field.size();
    }
    Ok(arrays)
}

/// Bytes of one value with all its fields, once the header agrees with the bytes behind it.
fn check_size(header: &Header, fields: &[Field], body: u64) -> Result<usize> {
    let size: usize = fields.iter().map(Field::size).sum();
    if header.count.checked_mul(size).map(|bytes| bytes as u64) != Some(body) {
        return Err(Error::input(format!(
            "its header declares shape {:?} of {size}-byte values, but {body} bytes follow",
            header.shape
        ))
        .remedy("get the file again; it is cut or damaged"));
    }
    if header.count > 0 && size == 0 {
        return Err(damaged("its values have no bytes"));
    }
    Ok(size)
}
