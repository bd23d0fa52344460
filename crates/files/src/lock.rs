//! A folder that one process at a time may work in.
//!
//! The lock is the operating system's, on the file `.lock` in the folder: it dies with its process, however that ends,
//! so a lock is never stale, nobody has to guess whether a process still lives, and two who find the file of a dead one
//! cannot both get it. What the file says (process, boot, start) is for the words of a refusal. A copied folder, file
//! and all, is free.
//!
//! Where a file system knows no locks (some network shares), a second file is claimed by creating it. There a killed
//! process leaves it behind, and it is not broken unasked: a process of another machine cannot be seen from here. The
//! refusal says which file to remove.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Kind, Result};
use crate::os;

const NAME: &str = ".lock";
/// Stands beside the lock where the file system knows none.
const CLAIM: &str = ".lock.held";
/// No holder writes more than this.
const LONGEST: u64 = 4096;

/// Who works in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Holder {
    /// Its number; 0 where the system does not let others read a locked file.
    pub pid: u32,
    /// Which start of the machine; empty where the system does not tell.
    pub boot: String,
    /// When the process started, in the system's own count; 0 where it does not tell.
    pub start: u64,
    /// When it took the lock, RFC 3339 UTC.
    pub since: String,
}

/// A folder that is ours alone until this is dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: Option<File>, // None where a claim stands instead
}

impl Lock {
    /// Takes the folder, or says who has it.
    pub fn acquire(folder: &Path) -> Result<Lock> {
        let path = folder.join(NAME);
        // Who only looks ([`Lock::holder`]) shares it for an instant, however long a busy machine makes that; one who
        // is just letting go holds it alone.
        let mut refusals = 0;
        for _ in 0..6000 {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let file = file.map_err(|e| Error::io(&path, "opening the lock", &e))?;
            match file.try_lock() {
                // The one before took the name away between our opening and our locking: what we hold has no name.
                Ok(()) if !os::same_file(&file, &path) => {}
                Ok(()) => {
                    let mut lock = Lock { path, file: Some(file) };
                    lock.write_holder()?;
                    return Ok(lock);
                }
                Err(TryLockError::WouldBlock) => {
                    refusals += u32::from(file.try_lock_shared().is_err());
                    if refusals == 20 {
                        break;
                    }
                    drop(file);
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::Error(_)) => return Lock::claim(folder),
            }
        }
        Err(refused(folder, Lock::holder(folder).unwrap_or_default()))
    }

    /// Who works in the folder now; none if nobody does.
    pub fn holder(folder: &Path) -> Option<Holder> {
        let mut file = File::open(folder.join(NAME)).ok()?;
        match file.try_lock_shared() {
            Ok(()) => None,
            Err(TryLockError::WouldBlock) => Some(read(&mut file).unwrap_or_default()),
            Err(TryLockError::Error(_)) => {
                let holder = read(&mut File::open(folder.join(CLAIM)).ok()?).unwrap_or_default();
                (os::alive(&holder.boot, holder.pid, holder.start) != Some(false)).then_some(holder)
            }
        }
    }

    /// Says in the file who we are.
    fn write_holder(&mut self) -> Result<()> {
        let fail = |e: std::io::Error| Error::io(&self.path, "signing the lock", &e);
        let Some(file) = &mut self.file else { return Ok(()) };
        file.set_len(0).map_err(fail)?;
        file.seek(SeekFrom::Start(0)).map_err(fail)?;
        file.write_all(&holder_json()).map_err(fail)
    }

    /// Without locks: whoever creates the file has the folder.
    fn claim(folder: &Path) -> Result<Lock> {
        let path = folder.join(CLAIM);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let lock = Lock { path, file: None };
                file.write_all(&holder_json()).map_err(|e| Error::io(&lock.path, "signing the lock", &e))?;
                Ok(lock)
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let holder = File::open(&path).ok().and_then(|mut file| read(&mut file)).unwrap_or_default();
                let gone = os::alive(&holder.boot, holder.pid, holder.start) == Some(false);
                let words = format!("if that process is gone, remove {}", path.display());
                let mut error = refused(folder, holder).remedy(words);
                if gone {
                    error.message.push_str("; it seems to be gone, but this file system does not support locks");
                }
                Err(error)
            }
            Err(e) => Err(Error::io(&path, "making the lock", &e)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        match &self.file {
            Some(file) => os::release_lock(file, &self.path),
            None => {
                let _ = std::fs::remove_file(&self.path);
            }
        }
    }
}

impl Holder {
    /// Whether it is a process of this machine, as far as the system tells.
    pub fn is_on_this_machine(&self) -> bool {
        self.boot == os::boot()
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.pid, &*self.since) {
            (0, _) => write!(f, "another process"),
            (pid, "") => write!(f, "process {pid}"),
            (pid, since) => write!(f, "process {pid}, since {since}"),
        }
    }
}

fn refused(folder: &Path, holder: Holder) -> Error {
    Error::new(Kind::State, format!("the folder is in use by {holder}"))
        .at(folder)
        .remedy("wait until it has ended, or choose another folder")
}

fn holder_json() -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    let pid = std::process::id();
    let holder = Holder {
        pid,
        boot: os::boot(),
        start: os::process_start(pid).unwrap_or(0),
        since: crate::time::rfc3339(now * 1_000_000_000),
    };
    let mut text = serde_json::to_vec(&holder).unwrap_or_default();
    text.push(b'\n');
    text
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_works_without_file_locks() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Lock::claim(folder.path()).expect("free");
        let second = Lock::claim(folder.path()).expect_err("taken");
        assert_eq!(second.kind, Kind::State);
        assert!(second.message.contains(&format!("process {}", std::process::id())), "{}", second.message);
        assert!(!second.message.contains("seems to be gone"), "{}", second.message);
        drop(first);
        std::fs::write(folder.path().join(CLAIM), r#"{"pid":1,"boot":"another","start":1,"since":""}"#)
            .expect("written");
        let third = Lock::claim(folder.path()).expect_err("left behind");
        assert!(third.remedy.is_some_and(|r| r.contains(CLAIM)));
        std::fs::remove_file(folder.path().join(CLAIM)).expect("removed");
        Lock::claim(folder.path()).expect("free again");
    }
}
