//! What differs between operating systems: threads that stay on a core.

/// Whether threads can be kept on cores of their own.
#[cfg(target_os = "linux")]
pub(crate) const PINS_THREADS: bool = true;
#[cfg(not(target_os = "linux"))]
pub(crate) const PINS_THREADS: bool = false;

/// Keeps the calling thread, the one of this number, on one of the cores that it may use; where that is refused,
/// anywhere.
#[cfg(target_os = "linux")]
pub(crate) fn pin_thread(number: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if let Some(core) = cores.get(number % cores.len().max(1)) {
        let mut own = CpuSet::new();
        own.set(*core);
        let _ = sched_setaffinity(None, &own);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn pin_thread(_: usize) {}
