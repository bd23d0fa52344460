//! How far the work is, and how it is stopped.
//!
//! Updates go to a sink. Stopping is a flag of the process ([`stop_flag`]), because Ctrl-C is: the reader looks at it
//! between blocks, a job between its phases, and what is half written is removed as after any other error.

use files::{Error, Kind, Result};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// How far the work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update {
    /// What is being done: `reading`.
    pub phase: &'static str,
    /// How much of it.
    pub done: u64,
    /// Of how much; 0 where nobody knows.
    pub total: u64,
    /// In what: `bytes`, `rows`, `symbols`; may be empty.
    pub unit: &'static str,
}

/// Where updates go.
pub(crate) type Sink<'a> = &'a mut (dyn FnMut(Update) + Send);

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Set it, and every job of this process ends soon, with an error of kind `Interrupted`.
pub fn stop_flag() -> Arc<AtomicBool> {
    Arc::clone(&STOP)
}

/// An error if the user asked to stop.
pub(crate) fn check_stop() -> Result<()> {
    match STOP.load(Ordering::Relaxed) {
        true => Err(Error::new(Kind::Interrupted, "stopped before it was done; nothing was changed")),
        false => Ok(()),
    }
}

/// Lends a sink to the reader, whose threads all report.
pub(crate) fn shared<T>(sink: Sink<'_>, work: impl FnOnce(&(dyn Fn(bars::Progress) + Sync)) -> T) -> T {
    let sink = Mutex::new(sink);
    work(&|p: bars::Progress| {
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink(Update { phase: p.phase, done: p.done, total: p.total, unit: p.unit });
    })
}

/// Runs work that reports nothing, on a thread of its own, and tells the sink ten times a second that it goes on. When
/// the user stops, the work is left to end by itself: it must hold nothing but memory.
pub(crate) fn patiently<T: Send + 'static>(
    phase: &'static str,
    sink: Sink<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (done, outcome) = channel();
    let worker = std::thread::spawn(move || {
        // Nobody listens any more after a stop.
        let _ = done.send(work());
    });
    loop {
        check_stop()?;
        sink(Update { phase, done: 0, total: 0, unit: "" });
        match outcome.recv_timeout(Duration::from_millis(100)) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("the worker sends before it ends"),
            },
        }
    }
}

/// What work on other threads has done, and of how much.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
}

/// Runs work on this thread while another tells, a few times a second, how far a count is; where there is no thread for
/// that, nobody tells.
pub(crate) fn counting<T>(
    phase: &'static str,
    unit: &'static str,
    count: &Count,
    tell: &mut (dyn FnMut(Update) + Send),
    work: impl FnOnce() -> T,
) -> T {
    let (end, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let teller = std::thread::Builder::new().name("progress".into());
        let _ = teller.spawn_scoped(scope, move || {
            loop {
                let [done, total] = [&count.done, &count.total].map(|own| own.load(Ordering::Relaxed));
                tell(Update { phase, done: done.min(total), total, unit });
                if ended.recv_timeout(Duration::from_millis(200)) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        });
        // Also where the work panics.
        let _end = end;
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn counted_work_is_told_of_and_returned() {
        let (count, mut seen) = (Count::default(), Vec::new());
        count.total.store(5, Ordering::Relaxed);
        count.done.store(9, Ordering::Relaxed);
        let made = counting("judging", "decisions", &count, &mut |update| seen.push(update), || 7);
        assert!(made == 7 && seen[0].done == 5 && seen[0].total == 5 && seen[0].unit == "decisions", "{seen:?}");
    }

    #[test]
    fn patient_work_returns_its_result_or_its_panic() {
        assert_eq!(patiently("adding", &mut |_| {}, || 1 + 1), Ok(2));
        let out = catch_unwind(AssertUnwindSafe(|| patiently("failing", &mut |_| {}, || resume_unwind(Box::new(7u8)))));
        assert!(out.is_err_and(|payload| payload.downcast_ref() == Some(&7u8)));
    }
}
