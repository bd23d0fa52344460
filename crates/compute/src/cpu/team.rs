//! Threads that help each other within one call of training.
//!
//! Every slot that is in a step has a post. Its thread puts work there in numbered parts and takes them itself; a
//! thread without a slot of its own looks at all posts and takes parts too. Who takes a part changes nothing. Helpers
//! stay awake between two works, because waking a thread takes as long as a tenth of a small net's step; after a while
//! without any they nap.

#![expect(unsafe_code, reason = "work on one thread's stack, which others read while that thread waits for them")]

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::time::Duration;

/// Looks without finding work before a helper naps: about a tenth of a millisecond.
const LOOKS: u32 = 4000;
const NAP: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub(super) struct Team {
    posts: Vec<Post>, // at most one for each slot that is in a step
    working: AtomicUsize,
}

/// Where one slot's work is put; on cache lines of its own, because others look at it all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Post {
    work: AtomicPtr<Work>,
    inside: AtomicUsize,
}

/// `n` parts, `grain` of them at once; `call(f, part)` does one.
#[derive(Debug)]
struct Work {
    call: unsafe fn(*const (), usize),
    f: *const (),
    n: usize,
    grain: usize,
    next: AtomicUsize,
}

impl Team {
    pub(super) fn new(posts: usize) -> Team {
        Team { posts: (0..posts).map(|_| Post::default()).collect(), working: AtomicUsize::new(0) }
    }

    pub(super) fn post(&self, post: usize) -> &Post {
        &self.posts[post]
    }

    /// Before so many threads begin with slots of their own.
    pub(super) fn begin(&self, working: usize) {
        self.working.store(working, SeqCst);
    }

    /// What a thread that has begun holds until it is done, so that helpers do not wait for one that has failed.
    pub(super) fn worker(&self) -> Worker<'_> {
        Worker(self)
    }

    /// Helps until nobody works any more.
    pub(super) fn help(&self) {
        let mut looks = 0;
        while self.working.load(Acquire) > 0 {
            let helped = self.posts.iter().filter(|post| post.help()).count() > 0;
            looks = if helped { 0 } else { looks + 1 };
            if looks < LOOKS { spin_loop() } else { std::thread::sleep(NAP) }
        }
    }
}

/// One thread with slots of its own.
#[derive(Debug)]
pub(super) struct Worker<'a>(&'a Team);

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Release);
    }
}

impl Post {
    /// Does `n` things, `grain` of them at once, with whoever helps. Only by the thread whose post it is, and `f` must
    /// not come here again.
    pub(super) fn each<F: Fn(usize) + Sync>(&self, n: usize, grain: usize, f: F) {
        if n <= grain {
            return (0..n).for_each(f);
        }
        /// # Safety
        /// `f` must point to an `F`.
        unsafe fn call<F: Fn(usize) + Sync>(f: *const (), part: usize) {
            // SAFETY: the caller's promise.
            unsafe { (*f.cast::<F>())(part) }
        }
        let mut work =
            Work { call: call::<F>, f: (&raw const f).cast(), n, grain: grain.max(1), next: AtomicUsize::new(0) };
        let work = &raw mut work;
        self.work.store(work, SeqCst);
        // Also when a part fails, nobody may be left inside of what is about to go.
        let _closed = Closed(self);
        // SAFETY: `work` and `f` are this function's own, and live longer than what closes the post.
        unsafe { Work::take(work) };
    }

    /// Takes parts if there is work; whether there was.
    fn help(&self) -> bool {
        if self.work.load(Relaxed).is_null() {
            return false;
        }
        self.inside.fetch_add(1, SeqCst);
        let _inside = Inside(self);
        let work = self.work.load(SeqCst);
        if work.is_null() {
            return false;
        }
        // SAFETY: whoever closes the post first takes the work away and then waits until nobody is inside. This thread
        // was inside before it saw the work, and all of that is in one order, so the work lives until it is outside
        // again.
        unsafe { Work::take(work) }
    }
}

impl Work {
    /// Does parts until none is left; whether there was one.
    ///
    /// # Safety
    /// The work and what it calls must live meanwhile.
    unsafe fn take(work: *const Work) -> bool {
        // SAFETY: the caller's promise. All threads only read it, but for the counter, which is atomic.
        let work = unsafe { &*work };
        let mut any = false;
        loop {
            let first = work.next.fetch_add(work.grain, Relaxed);
            if first >= work.n {
                return any;
            }
            any = true;
            for part in first..work.n.min(first + work.grain) {
                // SAFETY: `f` is what `call` was made for, and `F` may be called by several threads.
                unsafe { (work.call)(work.f, part) };
            }
        }
    }
}

struct Closed<'a>(&'a Post);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.work.store(std::ptr::null_mut(), SeqCst);
        let mut looks = 0;
        while self.0.inside.load(SeqCst) > 0 {
            looks += 1;
            if looks < LOOKS { spin_loop() } else { std::thread::yield_now() }
        }
    }
}

struct Inside<'a>(&'a Post);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Runs `work` on a thread with a post while others help.
    fn helped(helpers: usize, work: impl Fn(&Post) + Sync) {
        let team = Team::new(1);
        team.begin(1);
        std::thread::scope(|scope| {
            (0..helpers).for_each(|_| drop(scope.spawn(|| team.help())));
            let _worker = team.worker();
            work(team.post(0));
        });
    }

    #[test]
    fn every_part_runs_once_before_the_team_returns() {
        for helpers in [0, 1, 5] {
            helped(helpers, |post| {
                for n in 0..300 {
                    let counts: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                    post.each(n, 1 + n % 4, |i| {
                        counts[i].fetch_add(1, Relaxed);
                    });
                    assert!(counts.iter().all(|c| c.load(Relaxed) == 1), "{n} parts, {helpers} helpers");
                }
            });
        }
    }

    #[test]
    fn a_failing_part_leaves_no_thread_waiting() {
        helped(0, |post| {
            let failed = catch_unwind(AssertUnwindSafe(|| post.each(9, 1, |i| assert!(i < 5))));
            assert!(failed.is_err());
            assert!(post.work.load(SeqCst).is_null() && post.inside.load(SeqCst) == 0);
            post.each(3, 1, |_| {});
        });
    }
}
