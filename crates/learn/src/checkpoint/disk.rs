//! The few things a save asks of a disk, so that tests can stop it between any two of them.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::manifest::MANIFEST;

/// What a save asks of a disk.
pub(super) trait Disk: Send {
    /// Makes a folder that was not there.
    fn make(&mut self, folder: &Path) -> io::Result<()>;
    /// Writes a file that was not there, and syncs it.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file its name.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a folder's entries durable.
    fn sync(&mut self, folder: &Path) -> io::Result<()>;
    /// Removes a generation.
    fn remove(&mut self, folder: &Path) -> io::Result<()>;
}

/// The file system.
pub(super) struct Real;

impl Disk for Real {
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = fs::File::options().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        // A second sync of a file whose first one failed may well say that all is fine. So an error here is final: the
        // folder goes, and the next save has files of its own.
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        files::rename(from, to)
    }

    fn sync(&mut self, folder: &Path) -> io::Result<()> {
        files::sync_dir(folder)
    }

    /// The manifest goes first: what is left, should we be killed here, is plainly no generation.
    fn remove(&mut self, folder: &Path) -> io::Result<()> {
        match fs::remove_file(folder.join(MANIFEST)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        match fs::remove_dir_all(folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}
