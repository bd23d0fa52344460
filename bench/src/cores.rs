//! How busy the threads of this process are, by what the system counts for each of them.

use std::collections::BTreeMap;
use std::time::Instant;

/// What each thread has run so far, and when that was.
pub(crate) struct Cores {
    at: Instant,
    before: BTreeMap<String, u64>,
}

impl Cores {
    pub(crate) fn start() -> Cores {
        Cores { at: Instant::now(), before: ran() }
    }

    /// The part of the time since then that each of the busiest threads ran, at most as many as asked for; fewer where
    /// the system does not say.
    pub(crate) fn shares(&self, threads: usize) -> Vec<f64> {
        let seconds = self.at.elapsed().as_secs_f64().max(1e-9);
        let since = |(thread, now): (String, u64)| now.saturating_sub(self.before.get(&thread).copied().unwrap_or(0));
        let mut shares: Vec<f64> = ran().into_iter().map(since).map(|ns| ns as f64 / 1e9 / seconds).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        shares.truncate(threads);
        shares
    }
}

/// Nanoseconds that each thread was on a core.
fn ran() -> BTreeMap<String, u64> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let one = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("schedstat")).ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), text.split_whitespace().next()?.parse().ok()?))
    };
    threads.filter_map(one).collect()
}
