//! Files that are opened: regular ones, and no longer than who reads them expects. A device never ends, and a pipe
//! makes its reader wait.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Kind, Result};
use crate::format::format_bytes;

/// Opens a file to read it, or a link to one; whatever is no regular file is refused before it is opened.
pub fn open_file(path: &Path) -> io::Result<File> {
    let about = std::fs::metadata(path)?;
    if about.is_file() {
        return File::open(path);
    }
    let what = if about.is_dir() { "this is a folder" } else { "this is a device or a pipe, not a regular file" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Reads a file whole, if it is a regular one of at most `most` bytes.
pub fn read_file(path: &Path, most: u64) -> Result<Vec<u8>> {
    let fail = |e: io::Error| Error::io(path, "reading the file", &e);
    let file = open_file(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    let large = |length: u64| {
        let (length, most) = (format_bytes(length), format_bytes(most));
        Error::input(format!("the file has {length}, and at most {most} are expected here")).at(path)
    };
    if length > most {
        return Err(large(length));
    }
    let mut bytes = Vec::new();
    let reserved = usize::try_from(length).ok().and_then(|n| bytes.try_reserve_exact(n).ok());
    if reserved.is_none() {
        return Err(Error::new(Kind::Memory, format!("no memory for the file ({})", format_bytes(length))).at(path));
    }
    // It may grow while it is read.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > most { Err(large(bytes.len() as u64)) } else { Ok(bytes) }
}
