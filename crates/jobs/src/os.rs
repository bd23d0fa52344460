//! What only the operating system knows: where a program keeps its data, and how much memory was taken.
//!
//! Every `cfg` has its counterpart. Linux is built and tested; the others are written and say `None` where they do not
//! know.

use std::path::PathBuf;

/// The platform's folder for data of programs, without our name.
#[cfg(not(any(target_os = "macos", windows)))]
pub(crate) fn data_home() -> Option<PathBuf> {
    absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))
}

/// The platform's folder for data of programs, without our name.
#[cfg(target_os = "macos")]
pub(crate) fn data_home() -> Option<PathBuf> {
    Some(absolute("HOME")?.join("Library/Application Support"))
}

/// The platform's folder for data of programs, without our name.
#[cfg(windows)]
pub(crate) fn data_home() -> Option<PathBuf> {
    absolute("APPDATA").or_else(|| Some(absolute("USERPROFILE")?.join("AppData").join("Roaming")))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The most memory this process ever held, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Not asked for here: the system's figure needs foreign calls.
#[cfg(not(target_os = "linux"))]
pub(crate) fn peak_memory() -> Option<u64> {
    None
}
