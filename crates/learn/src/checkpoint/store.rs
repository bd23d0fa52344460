//! A folder of generations: saving a new one, finding the newest that is whole, letting old ones go.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use files::{Error, Kind, Result, replace_bytes_unsynced};

use super::disk::{Disk, Real};
use super::generation::{Generation, verify};
use super::manifest::{Fault, MANIFEST, Manifest};
use super::{About, View, manifest};

/// A folder of generations, of which at least two verified ones are kept.
pub struct Store {
    folder: PathBuf,      // checkpoints
    generations: PathBuf, // checkpoints/generations
    keep: usize,
    next: u64,
    verified: Vec<u64>, // those this store has seen whole
    buffer: Vec<u8>,    // what is read back passes through here
    disk: Box<dyn Disk>,
}

impl Store {
    /// Opens the folder `checkpoints` of a run, and removes what a killed process had half written. Only for the one
    /// who saves.
    pub fn open(folder: &Path) -> Result<Store> {
        Store::open_on(folder, Box::new(Real))
    }

    pub(super) fn open_on(folder: &Path, disk: Box<dyn Disk>) -> Result<Store> {
        let generations = folder.join("generations");
        fs::create_dir_all(&generations).map_err(|e| Error::io(&generations, "making the folder", &e))?;
        let next = numbers(&generations)?.first().map_or(1, |last| last + 1);
        let (folder, verified, buffer) = (folder.to_path_buf(), Vec::new(), Vec::new());
        let mut store = Store { folder, generations, keep: 2, next, verified, buffer, disk };
        store.sweep()?;
        // Here and in the folders of weights a run that goes on may have nothing more to write.
        files::sweep(&store.folder);
        for view in View::ALL {
            files::sweep(&store.folder.join(view.name()));
        }
        Ok(store)
    }

    /// Keeps that many verified generations instead of two; never fewer than two.
    pub fn keep(mut self, n: usize) -> Store {
        self.keep = n.max(2);
        self
    }

    /// Saves a new generation and gives its number. When this returns, it is on the disk and was read back. When it
    /// fails, what was there before is still there, and a later save may well succeed.
    pub fn save(&mut self, about: &About, parts: &[(&str, &[u8])]) -> Result<u64> {
        // A folder that could not be removed when its save failed takes up the room we need now.
        let _ = self.sweep();
        let (number, folder) = self.make()?;
        if let Err(mut error) = self.put(number, &folder, about, parts) {
            let _ = self.disk.remove(&folder);
            error.message =
                format!("saving checkpoint {number:06} failed, the ones before are kept: {}", error.message);
            return Err(error.at(&folder));
        }
        self.verified.push(number);
        self.hint(number);
        self.prune();
        Ok(number)
    }

    /// The newest generation whose hashes agree, with a sentence for each that was passed over; none where nothing was
    /// ever saved. One of a newer format is an error, and so is a folder in which none is whole: to begin afresh is the
    /// user's decision.
    pub fn newest(&self) -> Result<Option<Generation>> {
        newest(&self.folder)
    }

    /// `checkpoints`
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn make(&mut self) -> Result<(u64, PathBuf)> {
        let fail = |path: &Path, e: &std::io::Error| machine(path, "making the folder of a checkpoint", e);
        fs::create_dir_all(&self.generations).map_err(|e| fail(&self.generations, &e))?;
        loop {
            let number = self.next;
            // Counted up even if the save fails: the next one has files of its own.
            self.next += 1;
            let folder = place(&self.generations, number);
            match self.disk.make(&folder) {
                Ok(()) => return Ok((number, folder)),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(fail(&folder, &e)),
            }
        }
    }

    fn put(&mut self, number: u64, folder: &Path, about: &About, parts: &[(&str, &[u8])]) -> Result<()> {
        let manifest = Manifest::of(number, about, parts)?;
        let text = manifest.bytes()?;
        for (part, (_, bytes)) in manifest.parts.iter().zip(parts) {
            let path = manifest::path(folder, part);
            self.disk.write(&path, bytes).map_err(|e| machine(&path, "writing a part", &e))?;
        }
        let (path, tmp) = (folder.join(MANIFEST), folder.join("MANIFEST.tmp"));
        let fail = |doing: &str, e: std::io::Error| machine(&path, doing, &e);
        self.disk.write(&tmp, &text).map_err(|e| fail("writing the manifest", e))?;
        // Names of the parts and of the folder first: a manifest that survives a power cut must find them.
        self.disk.sync(folder).map_err(|e| fail("syncing the folder", e))?;
        self.disk.sync(&self.generations).map_err(|e| fail("syncing the folder", e))?;
        self.disk.rename(&tmp, &path).map_err(|e| fail("renaming the manifest into place", e))?;
        self.disk.sync(folder).map_err(|e| fail("syncing the folder", e))?;
        let read = verify(folder, number, &mut self.buffer);
        read.map(drop).map_err(|fault| {
            let (Fault::Damaged(why) | Fault::Newer(why)) = fault;
            Error::new(Kind::Machine, format!("what was written does not read back: {why}"))
                .remedy("check the disk; save to another one")
        })
    }

    /// Only a hint: nothing is lost without it, so nothing fails for it, and the disk is not waited for.
    fn hint(&self, number: u64) {
        let _ = replace_bytes_unsynced(&self.folder.join("LATEST"), format!("{number:06}\n").as_bytes());
    }

    /// Lets go what is older than the oldest of the verified generations to keep.
    fn prune(&mut self) {
        let Ok(found) = numbers(&self.generations) else { return };
        let mut whole = 0;
        let mut floor = 0;
        for &number in &found {
            let known = self.verified.contains(&number);
            if known || verify(&place(&self.generations, number), number, &mut self.buffer).is_ok() {
                if !known {
                    self.verified.push(number);
                }
                whole += 1;
                if whole == self.keep {
                    floor = number;
                    break;
                }
            }
        }
        for &number in found.iter().filter(|&&n| n < floor) {
            // What cannot be removed now is tried again at the next save.
            let _ = self.disk.remove(&place(&self.generations, number));
        }
        self.verified.retain(|n| *n >= floor);
    }

    /// Removes generations without a manifest.
    fn sweep(&mut self) -> Result<()> {
        for number in numbers(&self.generations)? {
            let folder = place(&self.generations, number);
            let missing = fs::symlink_metadata(folder.join(MANIFEST)).is_err_and(|e| e.kind() == ErrorKind::NotFound);
            if missing {
                self.disk.remove(&folder).map_err(|e| machine(&folder, "removing half a checkpoint", &e))?;
            }
        }
        Ok(())
    }
}

/// As [`Store::newest`], for those who only read: nothing is swept, and a run may be saving meanwhile.
pub fn newest(folder: &Path) -> Result<Option<Generation>> {
    let generations = folder.join("generations");
    let (mut buffer, mut passed) = (Vec::new(), Vec::new());
    for number in numbers(&generations)? {
        let folder = place(&generations, number);
        match verify(&folder, number, &mut buffer) {
            Ok(mut generation) => {
                generation.passed = passed;
                return Ok(Some(generation));
            }
            Err(Fault::Damaged(why)) => passed.push(format!("checkpoint {number:06} was skipped: {why}")),
            Err(Fault::Newer(why)) => {
                return Err(Error::new(Kind::State, format!("checkpoint {number:06} is of a newer program: {why}"))
                    .at(&folder)
                    .remedy("use the newer program, or start a new run in another folder"));
            }
        }
    }
    if passed.is_empty() {
        return Ok(None);
    }
    Err(Error::new(Kind::State, format!("no checkpoint is whole: {}", passed.join("; ")))
        .at(&generations)
        .remedy("restore the folder from a copy, or start a new run in another folder"))
}

/// A generation, as somebody who looks at the folder sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its number.
    pub number: u64,
    /// The generation, or why it is not used.
    pub found: std::result::Result<Generation, String>,
}

/// All generations, newest first, each looked at byte by byte; none where there is no folder.
pub fn list(folder: &Path) -> Result<Vec<Listed>> {
    let generations = folder.join("generations");
    let mut buffer = Vec::new();
    let mut list_one = |number: u64| {
        let found = verify(&place(&generations, number), number, &mut buffer);
        Listed { number, found: found.map_err(|(Fault::Damaged(why) | Fault::Newer(why))| why) }
    };
    Ok(numbers(&generations)?.into_iter().map(&mut list_one).collect())
}

/// Numbers of the generations, whole or not, newest first; none where there is no folder.
fn numbers(generations: &Path) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(generations) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(generations, "looking for checkpoints", &e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::io(generations, "looking for checkpoints", &e))?;
        let name = entry.file_name();
        let Some(number) = name.to_str().filter(|n| n.len() <= 12).and_then(|n| n.parse::<u64>().ok()) else {
            continue;
        };
        // Only names we would give, and only folders.
        if place(generations, number) == entry.path() && entry.file_type().is_ok_and(|t| t.is_dir()) {
            found.push(number);
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

fn place(generations: &Path, number: u64) -> PathBuf {
    generations.join(format!("{number:06}"))
}

/// Whatever the disk says while we save, it is the machine's fault.
fn machine(path: &Path, doing: &str, cause: &std::io::Error) -> Error {
    let mut error = Error::io(path, doing, cause);
    error.kind = Kind::Machine;
    error.remedy = Some(match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space on that disk; the next checkpoint is tried as usual, and a killed run resumes from the last".into()
        }
        ErrorKind::PermissionDenied => "check the permissions of the folder".into(),
        _ => "check the disk; the next checkpoint is tried as usual, with new files".into(),
    });
    error
}
