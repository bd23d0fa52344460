//! What differs between operating systems: making a rename durable, hiding a file, and who a process is.

use std::io;
use std::path::Path;

/// Makes the folder's entries durable, so that a rename survives a power cut.
#[cfg(all(unix, not(target_os = "macos")))]
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    tolerate(std::fs::File::open(dir)?.sync_all())
}

/// As on other Unix systems; `sync_all` asks the drive itself there (`F_FULLFSYNC`), which is what makes it durable.
#[cfg(target_os = "macos")]
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    tolerate(std::fs::File::open(dir)?.sync_all())
}

/// Windows cannot sync a folder handle; NTFS journals the rename, so there is nothing to wait for.
#[cfg(not(unix))]
pub fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Some file systems (network shares, FUSE) refuse to sync a folder; that is no failed write. An I/O error is.
#[cfg(unix)]
fn tolerate(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}

/// Takes the name off an open file, which then lives until it is closed: even a killed process leaves nothing behind.
#[cfg(unix)]
pub(crate) fn hide(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// An open file keeps its name elsewhere; it is removed when its owner is dropped.
#[cfg(not(unix))]
pub(crate) fn hide(_path: &Path) {}

/// A lock is advice here, so a file stays open and locked until it has its name.
#[cfg(unix)]
pub(crate) fn before_rename(file: std::fs::File) -> Option<std::fs::File> {
    Some(file)
}

/// Elsewhere a lock keeps readers out and an open file may keep its name, so both are gone before the rename.
#[cfg(not(unix))]
pub(crate) fn before_rename(file: std::fs::File) -> Option<std::fs::File> {
    let _ = file.unlock();
    None
}

/// Renames. A debug build refuses what Windows would: a destination that this process has open, or a folder with an
/// open file in it.
#[cfg(target_os = "linux")]
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if cfg!(debug_assertions) && is_open(from, to) {
        let message = format!("{} is still open in this process", to.display());
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
    }
    std::fs::rename(from, to)
}

/// Whether one of this process's descriptors stands in the way of such a rename.
#[cfg(target_os = "linux")]
fn is_open(from: &Path, to: &Path) -> bool {
    let absolute = |path: &Path| {
        let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
        folder.canonicalize().ok().zip(path.file_name()).map(|(folder, name)| folder.join(name))
    };
    let (Some(from), Some(to)) = (absolute(from), absolute(to)) else { return false };
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    open.any(|path| path.starts_with(&to) || (path.starts_with(&from) && path != from))
}

/// Renames.
#[cfg(not(target_os = "linux"))]
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Whether a rename failed because somebody has the file open.
#[cfg(unix)]
pub(crate) fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

/// Access denied, sharing violation, lock violation: on Windows a reader in another process, a virus scanner or an
/// indexer keeps a name for a moment.
#[cfg(not(unix))]
pub(crate) fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(5 | 32 | 33))
}

/// How old a temporary without a lock must be to be nobody's.
#[cfg(unix)]
pub(crate) const UNLOCKED_AT_RENAME: std::time::Duration = std::time::Duration::ZERO;

/// Elsewhere one that is just being renamed has none either.
#[cfg(not(unix))]
pub(crate) const UNLOCKED_AT_RENAME: std::time::Duration = std::time::Duration::from_secs(60);

/// Whether the open file is the one of that name.
#[cfg(unix)]
pub(crate) fn same_file(file: &std::fs::File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let here = |m: &std::fs::Metadata| (m.dev(), m.ino());
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(a), Ok(b)) if here(&a) == here(&b))
}

/// Elsewhere no lock file is ever removed, so a name has one file.
#[cfg(not(unix))]
pub(crate) fn same_file(_file: &std::fs::File, _path: &Path) -> bool {
    true
}

/// Takes a lock file's name away while it is still locked; closing the file then unlocks it.
#[cfg(unix)]
pub(crate) fn release_lock(_file: &std::fs::File, path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Whether a name goes at once differs between versions of Windows; an empty file says as well that nobody is there.
#[cfg(not(unix))]
pub(crate) fn release_lock(file: &std::fs::File, _path: &Path) {
    let _ = file.set_len(0);
}

/// Which start of the machine this is.
#[cfg(target_os = "linux")]
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or(String::new(), |id| id.trim().to_string())
}

/// Not told in a file elsewhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn boot() -> String {
    String::new()
}

/// When a process started, in ticks since the machine did; none if there is no such process.
#[cfg(target_os = "linux")]
pub(crate) fn process_start(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, and may hold anything.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Not told in a file elsewhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn process_start(_pid: u32) -> Option<u64> {
    None
}

/// Whether that process of that boot still runs; none where the system does not tell.
pub(crate) fn alive(boot_then: &str, pid: u32, start: u64) -> Option<bool> {
    let now = boot();
    if now.is_empty() || boot_then.is_empty() {
        return None;
    }
    Some(now == boot_then && process_start(pid) == Some(start))
}
