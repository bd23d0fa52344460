//! Files written beside their place and renamed into it, so that a reader sees the old file or the new one, never a
//! half.
//!
//! A temporary is called `.NAME.PID-COUNT.fullbore.tmp` and is locked while its writer lives; it goes away when the
//! writing fails. A killed process leaves it behind, with the old file untouched and the lock released by the system:
//! [`sweep`] removes such strays, and runs by itself before a process first writes into a folder.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::os;

/// What every temporary of ours ends with, and nothing else does.
const ENDING: &str = ".fullbore.tmp";
/// Where a folder cannot be locked, one that was not touched for so long has no writer.
const ABANDONED: Duration = Duration::from_secs(86_400);

/// A file being written beside its destination; [`Replace::commit`] puts it there, dropping it removes it.
pub struct Replace {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>, // None once committed
}

impl Replace {
    /// Starts a file that will stand at `path`; what is there stays until [`Replace::commit`].
    pub fn create(path: &Path) -> Result<Replace> {
        if path.file_name().is_none() {
            return Err(Error::input("this is not the name of a file").at(path).remedy("name a file, not a folder"));
        }
        if path.is_dir() {
            return Err(Error::input("there is a folder where the file should go")
                .at(path)
                .remedy("choose another name, or remove the folder"));
        }
        let (temporary, file) = create_file(path).map_err(|e| Error::io(path, "creating the file", &e))?;
        let file = Some(BufWriter::with_capacity(1 << 18, file));
        Ok(Replace { path: path.to_path_buf(), temporary, file })
    }

    /// Flushes, syncs and renames. On failure the old file is untouched and the new one is gone.
    pub fn commit(self) -> Result<()> {
        self.put(true)
    }

    /// As [`Replace::commit`], without waiting for the disk: for what can be made again after a power cut.
    pub fn commit_unsynced(self) -> Result<()> {
        self.put(false)
    }

    fn put(mut self, sync: bool) -> Result<()> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let fail = |doing: &str, e: io::Error| Error::io(&self.path, doing, &e);
        let place = || {
            file.flush().map_err(|e| fail("writing the file", e))?;
            if sync {
                file.get_ref().sync_all().map_err(|e| fail("syncing the file", e))?;
            }
            let (file, _) = file.into_parts();
            let _held = os::before_rename(file);
            rename(&self.temporary, &self.path).map_err(|e| fail("renaming the file into place", e))?;
            if sync {
                os::sync_dir(folder_of(&self.path)).map_err(|e| fail("syncing the folder", e))?;
            }
            Ok(())
        };
        let result = place();
        if result.is_err() {
            let _ = fs::remove_file(&self.temporary);
        }
        result
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

/// Puts these bytes at `path`, whole or not at all.
pub fn replace_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = Replace::create(path)?;
    file.write_all(bytes).map_err(|e| Error::io(path, "writing the file", &e))?;
    file.commit()
}

/// As [`replace_bytes`], without waiting for the disk.
pub fn replace_bytes_unsynced(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = Replace::create(path)?;
    file.write_all(bytes).map_err(|e| Error::io(path, "writing the file", &e))?;
    file.commit_unsynced()
}

/// A folder being filled beside its destination; [`Draft::commit`] puts it there, dropping it removes it.
pub struct Draft {
    place: PathBuf,
    temporary: PathBuf,
    _lock: Option<File>, // None where the system opens no folders
}

impl Draft {
    /// Makes an empty folder that will stand at `place`, and those above it.
    pub fn create(place: &Path) -> io::Result<Draft> {
        fs::create_dir_all(folder_of(place))?;
        sweep_once(folder_of(place));
        loop {
            let temporary = next_name(place);
            match fs::create_dir(&temporary) {
                Ok(()) => {
                    let lock = match File::open(&temporary) {
                        Ok(folder) => Some(folder),
                        // A sweep of another process was faster.
                        Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                        Err(_) => None,
                    };
                    if lock.as_ref().is_none_or(|lock| hold(lock, &temporary)) {
                        return Ok(Draft { place: place.to_path_buf(), temporary, _lock: lock });
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Renames the folder into place; fails where a folder with files stands there, and may be tried again.
    pub fn commit(&self) -> io::Result<()> {
        rename(&self.temporary, &self.place)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Once committed, there is nothing of that name.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

/// Removes a folder: out of sight first, so that nobody opens half of it.
pub fn remove_folder(path: &Path) {
    let gone = next_name(path);
    let gone = if fs::rename(path, &gone).is_ok() { &gone } else { path };
    let _ = fs::remove_dir_all(gone);
}

/// Removes what killed processes left in a folder: files and folders with the name of a temporary of ours whose lock
/// nobody holds. Gives how many there were.
pub fn sweep(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| is_temporary(&entry.file_name().to_string_lossy()) && remove_stray(&entry.path())).count()
}

/// Renames, as [`fs::rename`]. Everything that is written beside and renamed goes through here, so that a test can end
/// the process at that instant: a debug build aborts before it renames to a file (or into a folder) whose path ends as
/// `FULLBORE_ABORT_AT` says; with `#3` behind it, at the third such rename.
///
/// Nothing that is replaced may be open: Windows refuses it, and so does a debug build on Linux. Who reads it for a
/// moment is waited for, about a second in all.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    abort_at(to);
    for doublings in 0..10 {
        match os::rename(from, to) {
            Err(e) if os::is_busy(&e) => std::thread::sleep(Duration::from_millis(1 << doublings)),
            done => return done,
        }
    }
    os::rename(from, to)
}

/// Creates a temporary file for `path` and locks it.
pub(crate) fn create_file(path: &Path) -> io::Result<(PathBuf, File)> {
    sweep_once(folder_of(path));
    loop {
        let temporary = next_name(path);
        match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
            Ok(file) if hold(&file, &temporary) => return Ok((temporary, file)),
            // Swept between its creation and its lock, or left by a killed process that had our process id.
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

/// See [`rename`].
pub(crate) fn abort_at(path: &Path) {
    static AT: OnceLock<Option<(PathBuf, u64)>> = OnceLock::new();
    static SEEN: AtomicU64 = AtomicU64::new(0);
    if !cfg!(debug_assertions) {
        return;
    }
    let at = AT.get_or_init(|| {
        let text = std::env::var("FULLBORE_ABORT_AT").ok()?;
        let (name, count) = text.split_once('#').unwrap_or((&text, "1"));
        Some((name.into(), count.parse().ok()?))
    });
    let Some((name, count)) = at else { return };
    if path.ancestors().take(2).any(|p| p.ends_with(name)) && SEEN.fetch_add(1, Ordering::Relaxed) + 1 == *count {
        std::process::abort();
    }
}

/// A name beside `path` that this process has not used.
fn next_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{}{ENDING}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

fn is_temporary(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let middle = name.strip_prefix('.').and_then(|name| name.strip_suffix(ENDING));
    let numbers = middle.and_then(|name| name.rsplit_once('.')).and_then(|(_, numbers)| numbers.split_once('-'));
    numbers.is_some_and(|(pid, count)| number(pid) && number(count))
}

/// Locks a temporary that was just made; false where a sweep of another process was faster. Where a file system knows
/// no locks, nothing is swept either.
fn hold(file: &File, path: &Path) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && os::same_file(file, path)
}

/// Removes a temporary, unless somebody holds its lock; the lock is held meanwhile, so that no two do.
fn remove_stray(path: &Path) -> bool {
    let Ok(about) = fs::symlink_metadata(path) else { return false };
    let age = about.modified().ok().and_then(|t| t.elapsed().ok()).unwrap_or_default();
    if about.is_dir() {
        let folder = File::open(path);
        let free = match folder.as_ref().map(File::try_lock) {
            Ok(Ok(())) => true,
            Ok(Err(TryLockError::WouldBlock)) => false,
            _ => age > ABANDONED,
        };
        return free && fs::remove_dir_all(path).is_ok();
    }
    let file = OpenOptions::new().append(true).open(path);
    about.is_file()
        && age >= os::UNLOCKED_AT_RENAME
        && file.is_ok_and(|file| file.try_lock().is_ok() && fs::remove_file(path).is_ok())
}

/// Sweeps a folder before this process first writes there.
fn sweep_once(folder: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if swept.insert(folder.to_path_buf()) {
        sweep(folder);
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
