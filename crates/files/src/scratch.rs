//! A file that nobody sees: room for what does not fit into memory, gone when it is dropped or the process dies.

use crate::replace::{abort_at, create_file};
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A nameless file (on Unix it is unlinked as soon as it is open; elsewhere it is removed on drop).
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    file: BufWriter<File>,
    len: u64,
}

impl Scratch {
    /// Makes one in that folder.
    pub fn create(folder: &Path) -> Result<Scratch> {
        let path = folder.join("scratch");
        let (path, file) = create_file(&path).map_err(|e| Error::io(&path, "making a scratch file", &e))?;
        abort_at(&folder.join("scratch"));
        crate::os::hide(&path);
        Ok(Scratch { path, file: BufWriter::with_capacity(1 << 20, file), len: 0 })
    }

    /// Adds bytes; gives where they begin.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        self.file.write_all(bytes).map_err(|e| Error::io(&self.path, "writing a scratch file", &e))?;
        let at = self.len;
        self.len += bytes.len() as u64;
        Ok(at)
    }

    /// Reads bytes that were added, to fill `into`.
    pub fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        let fail = |e: std::io::Error| Error::io(&self.path, "reading a scratch file", &e);
        self.file.flush().map_err(fail)?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(at)).map_err(fail)?;
        file.read_exact(into).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // On Unix the name is gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}
