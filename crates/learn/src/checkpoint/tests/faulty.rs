//! A disk that fails at the n-th thing asked of it, and knows what a power cut may take away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::disk::{Disk, Real};

/// What happens at the chosen step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The process is gone: nothing more reaches the disk.
    Killed,
    /// This step fails, once.
    Fails(io::ErrorKind),
    /// From here on nothing can be written until there is space again.
    Full,
}

/// What the disk has been asked for, shared with the test.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) left: usize, // steps until it happens
    pub(super) then: Then,
    pub(super) steps: usize,
    pub(super) happened: bool,
    pub(super) unsynced: Vec<Lost>,
}

/// Something a power cut may undo.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lost {
    /// What was written into a file.
    Bytes(PathBuf),
    /// An entry in a folder.
    Entry(PathBuf),
    /// A new name.
    Name(PathBuf, PathBuf),
}

impl Lost {
    pub(super) fn undo(&self) {
        // One loss may have taken away what another speaks of.
        let _ = match self {
            Lost::Bytes(path) => fs::File::options().write(true).open(path).and_then(|file| file.set_len(0)),
            Lost::Entry(path) if path.is_dir() => fs::remove_dir_all(path),
            Lost::Entry(path) => fs::remove_file(path),
            Lost::Name(from, to) => fs::rename(to, from),
        };
    }
}

pub(super) struct Faulty(pub(super) Arc<Mutex<Trace>>);

impl Faulty {
    pub(super) fn after(left: usize, then: Then) -> (Box<Faulty>, Arc<Mutex<Trace>>) {
        let trace = Trace { left, then, steps: 0, happened: false, unsynced: Vec::new() };
        let trace = Arc::new(Mutex::new(trace));
        (Box::new(Faulty(trace.clone())), trace)
    }

    /// One step; whether it takes place.
    fn step(&self, writes: bool) -> io::Result<()> {
        let mut trace = self.0.lock().expect("no panic");
        trace.steps += 1;
        if trace.left > 0 {
            trace.left -= 1;
            return Ok(());
        }
        let first = !trace.happened;
        match trace.then {
            Then::Full if !writes => return Ok(()),
            Then::Fails(_) if !first => return Ok(()),
            _ => {}
        }
        trace.happened = true;
        Err(match trace.then {
            Then::Killed => io::Error::other("killed"),
            Then::Fails(kind) => kind.into(),
            Then::Full => io::ErrorKind::StorageFull.into(),
        })
    }

    fn lose(&self, lost: Lost) {
        self.0.lock().expect("no panic").unsynced.push(lost);
    }

    fn keep(&self, safe: impl Fn(&Lost) -> bool) {
        self.0.lock().expect("no panic").unsynced.retain(|lost| !safe(lost));
    }
}

impl Disk for Faulty {
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        self.step(true)?;
        self.lose(Lost::Entry(folder.to_path_buf()));
        Real.make(folder)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        use io::Write;
        self.step(true)?;
        let mut file = fs::File::options().write(true).create_new(true).open(path)?;
        self.lose(Lost::Entry(path.to_path_buf()));
        self.lose(Lost::Bytes(path.to_path_buf()));
        let (a, b) = bytes.split_at(bytes.len() / 2);
        for half in [a, b] {
            self.step(true)?;
            file.write_all(half)?;
        }
        self.step(false)?;
        self.keep(|lost| *lost == Lost::Bytes(path.to_path_buf()));
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(false)?;
        self.lose(Lost::Name(from.to_path_buf(), to.to_path_buf()));
        Real.rename(from, to)
    }

    fn sync(&mut self, folder: &Path) -> io::Result<()> {
        self.step(false)?;
        self.keep(|lost| match lost {
            Lost::Entry(path) | Lost::Name(path, _) => path.parent() == Some(folder),
            Lost::Bytes(_) => false,
        });
        Ok(())
    }

    fn remove(&mut self, folder: &Path) -> io::Result<()> {
        let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|e| e.path()).collect();
        files.sort(); // MANIFEST comes before small letters
        for file in files {
            self.step(false)?;
            fs::remove_file(file)?;
        }
        self.step(false)?;
        fs::remove_dir(folder)
    }
}
