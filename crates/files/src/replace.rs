//! Files written beside their place and renamed into it, so that a reader sees the old file or the new one, never a
//! half.
//!
//! The temporary name starts with a dot and ends in `.tmp`; it goes away when the writing fails. A process killed in
//! the middle leaves it behind, with the old file untouched; [`sweep`] tells such a file by its lock, which died with
//! the process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::os;

/// A file being written beside its destination; [`Replace::commit`] puts it there, dropping it removes it.
pub struct Replace {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>, // None once committed
}

impl Replace {
    /// Starts a file that will stand at `path`; what is there stays until [`Replace::commit`].
    pub fn create(path: &Path) -> Result<Replace> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Some(name) = path.file_name() else {
            return Err(Error::input("this is not the name of a file").at(path).remedy("name a file, not a folder"));
        };
        if path.is_dir() {
            return Err(Error::input("a folder stands where the file should go")
                .at(path)
                .remedy("choose another name, or remove the folder"));
        }
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{count}.tmp", std::process::id()));
            let temporary = path.with_file_name(hidden);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    // Where a file system knows no locks, nothing is swept there either.
                    let _ = file.try_lock();
                    let file = Some(BufWriter::with_capacity(1 << 18, file));
                    return Ok(Replace { path: path.to_path_buf(), temporary, file });
                }
                // Left by a killed process that had our process id: take the next name.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io(path, "creating the file", &e)),
            }
        }
    }

    /// Flushes, syncs and renames. On failure the old file is untouched and the new one is gone.
    pub fn commit(mut self) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let result = self.put(file);
        if result.is_err() {
            let _ = fs::remove_file(&self.temporary);
        }
        result
    }

    fn put(&self, mut file: BufWriter<File>) -> Result<()> {
        let fail = |doing: &str, e: io::Error| Error::io(&self.path, doing, &e);
        file.flush().map_err(|e| fail("writing the file", e))?;
        file.get_ref().sync_all().map_err(|e| fail("syncing the file", e))?;
        // Windows refuses to rename an open file.
        drop(file);
        fs::rename(&self.temporary, &self.path).map_err(|e| fail("renaming the file into place", e))?;
        let dir = match self.path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        os::sync_dir(dir).map_err(|e| fail("syncing the folder", e))
    }
}

impl Write for Replace {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(buf),
            None => Err(io::Error::other("the file is already in place")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

impl Drop for Replace {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Without flushing what is buffered: the file is about to go.
            drop(file.into_parts());
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Removes what killed processes left in a folder: temporary files a minute old whose writer no longer holds their
/// lock. Gives how many there were.
pub fn sweep(folder: &Path) -> usize {
    let stale = |path: &Path| {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let old = fs::metadata(path).and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
        name.starts_with('.')
            && name.ends_with(".tmp")
            && old.is_some_and(|age| age.as_secs() >= 60)
            && OpenOptions::new().append(true).open(path).is_ok_and(|file| file.try_lock().is_ok())
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    entries.filter(|path| stale(path) && fs::remove_file(path).is_ok()).count()
}

/// Puts these bytes at `path`, whole or not at all.
pub fn replace_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = Replace::create(path)?;
    file.write_all(bytes).map_err(|e| Error::io(path, "writing the file", &e))?;
    file.commit()
}
