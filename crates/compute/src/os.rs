//! What only the operating system knows.

/// Bytes of memory that can be taken without swapping, or half of 8 GiB where the system does not say.
#[cfg(target_os = "linux")]
pub(crate) fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let free = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map(|kib| kib * 1024);
    free.unwrap_or(UNKNOWN).min(cgroup().unwrap_or(u64::MAX))
}

/// What is left of a container's limit.
#[cfg(target_os = "linux")]
fn cgroup() -> Option<u64> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    Some(number("/sys/fs/cgroup/memory.max")?.saturating_sub(number("/sys/fs/cgroup/memory.current")?))
}

/// Other systems are asked through `machine`; until then a careful guess.
#[cfg(not(target_os = "linux"))]
pub(crate) fn available_memory() -> u64 {
    UNKNOWN
}

const UNKNOWN: u64 = 4 << 30;

/// Asks glibc to give what was freed back; other allocators do as they like.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a function of the C library")]
pub(crate) fn give_back_freed() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: it takes no pointer, and may be called at any time by any thread.
    unsafe { malloc_trim(0) };
}

/// See above.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back_freed() {}

/// Asks Linux for the tile registers of this processor, for all threads of the process; whether it may use them.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "a function of the C library")]
pub(crate) fn permit_tiles() -> bool {
    const ARCH_PRCTL: std::ffi::c_long = 158;
    const REQUEST: std::ffi::c_long = 0x1023;
    const TILE_DATA: std::ffi::c_long = 18;
    unsafe extern "C" {
        fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
    }
    // SAFETY: the call takes no pointer; a kernel that does not know it refuses.
    unsafe { syscall(ARCH_PRCTL, REQUEST, TILE_DATA) == 0 }
}

/// See above; the processor's own word is not enough for them, the system has to save them.
#[cfg(all(not(target_os = "linux"), target_arch = "x86_64"))]
pub(crate) fn permit_tiles() -> bool {
    false
}
