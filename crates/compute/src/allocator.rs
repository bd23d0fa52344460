//! The system's allocator, with a last word where there is no memory.
//!
//! What is large asks first ([`crate::host`] and [`fallible`]) and gets an error to act on. Everything else, also in
//! libraries, would be aborted by the language without a word for whoever reads the output; a program that uses this
//! allocator names a function that is called instead, and that ends the process.
#![expect(unsafe_code, reason = "an allocator hands out memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The system's allocator; see [`on_exhausted`].
pub struct Allocator;

/// Given back before the last word, so that there is memory to say it with.
static BALLAST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static LAST_WORD: OnceLock<fn(usize)> = OnceLock::new();
static SAYING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How many [`fallible`] calls are under way.
    static FALLIBLE: Cell<u32> = const { Cell::new(0) };
    /// Whether this thread says the last word.
    static SAYS_IT: Cell<bool> = const { Cell::new(false) };
}

/// Calls `last_word` with the bytes that were wanted when there is no memory for them; it should end the process.
pub fn on_exhausted(last_word: fn(usize)) {
    *BALLAST.lock().unwrap_or_else(PoisonError::into_inner) = Vec::with_capacity(2 << 20);
    let _ = LAST_WORD.set(last_word);
}

/// Gives memory that was freed back to the system. An allocator keeps pages of what was freed for each thread that took
/// some; where many small pieces were read or computed side by side, that is a good part of all that was held.
pub fn give_back_freed() {
    crate::os::give_back_freed();
}

/// Does something that can live without the memory it asks for: a failed allocation is its own to handle.
pub fn fallible<T>(work: impl FnOnce() -> T) -> T {
    FALLIBLE.with(|depth| depth.set(depth.get() + 1));
    let done = work();
    FALLIBLE.with(|depth| depth.set(depth.get() - 1));
    done
}

#[cold]
fn exhausted(bytes: usize) {
    // A thread that is ending has no such variable any more.
    let handled = FALLIBLE.try_with(|depth| depth.get() > 0).unwrap_or(false);
    let Some(last_word) = LAST_WORD.get().filter(|_| !handled) else { return };
    if SAYING.swap(true, Ordering::SeqCst) {
        // Another thread is about to end the process: to fail now would be to abort it before it has spoken. The last
        // word itself may find no memory, too.
        if !SAYS_IT.try_with(Cell::get).unwrap_or(true) {
            std::thread::sleep(std::time::Duration::from_secs(5));
        }
        return;
    }
    let _ = SAYS_IT.try_with(|says| says.set(true));
    if let Ok(mut ballast) = BALLAST.try_lock() {
        drop(std::mem::take(&mut *ballast));
    }
    last_word(bytes);
}

// SAFETY: every call goes to the system's allocator as it is; what it returns is returned.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            exhausted(layout.size());
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if memory.is_null() {
            exhausted(layout.size());
        }
        memory
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let memory = unsafe { System.realloc(old, layout, size) };
        if memory.is_null() {
            exhausted(size);
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}
