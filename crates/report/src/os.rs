//! What only the operating system knows: what this machine is called.
//!
//! Every `cfg` has its counterpart.

/// The machine's name, for names of files.
#[cfg(target_os = "linux")]
pub(crate) fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

/// The machine's name, for names of files.
#[cfg(windows)]
pub(crate) fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// The machine's name, for names of files; shells know it where the system has no file for it.
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) fn host() -> String {
    std::env::var("HOSTNAME").unwrap_or_default()
}
