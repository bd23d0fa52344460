//! What differs between operating systems: making a rename durable.

use std::io;
use std::path::Path;

/// Makes the folder's entries durable, so that a rename survives a power cut.
#[cfg(all(unix, not(target_os = "macos")))]
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    tolerate(std::fs::File::open(dir)?.sync_all())
}

/// As on other Unix systems; `sync_all` asks the drive itself there (`F_FULLFSYNC`), which is what makes it durable.
#[cfg(target_os = "macos")]
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    tolerate(std::fs::File::open(dir)?.sync_all())
}

/// Windows cannot sync a folder handle; NTFS journals the rename, so there is nothing to wait for.
#[cfg(not(unix))]
pub(crate) fn sync_dir(_dir: &Path) -> io::Result<()> {
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

/// A number no other call of this process gives.
pub(crate) fn unique() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
