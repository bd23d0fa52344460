//! What the machine allows: the same bytes read and thrown away, and read and searched for line ends, by as many
//! threads.

use crate::peak_rss_mib;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

const BLOCK: usize = 1 << 20;

/// Both passes, one after the other, after one that does not count.
pub(crate) fn measure(path: &Path, threads: usize) -> Result<Value, String> {
    pass(path, threads, &|_| 0)?;
    let (_, read_s) = pass(path, threads, &|_| 0)?;
    let (lines, scan_s) = pass(path, threads, &|block| memchr::memchr_iter(b'\n', block).count())?;
    Ok(json!({"lines": lines, "read_s": read_s, "scan_s": scan_s, "peak_rss_mib": peak_rss_mib()}))
}

fn pass(path: &Path, threads: usize, work: &(dyn Fn(&[u8]) -> usize + Sync)) -> Result<(usize, f64), String> {
    let bytes = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?.len();
    let share = bytes.div_ceil(threads.max(1) as u64);
    let start = Instant::now();
    let counts: Result<Vec<usize>, std::io::Error> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads.max(1) as u64)
            .map(|i| scope.spawn(move || one(path, i * share, share.min(bytes.saturating_sub(i * share)), work)))
            .collect();
        spawned.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread died")))).collect()
    });
    let counts = counts.map_err(|e| format!("{}: {e}", path.display()))?;
    Ok((counts.iter().sum(), start.elapsed().as_secs_f64()))
}

fn one(path: &Path, at: u64, length: u64, work: &(dyn Fn(&[u8]) -> usize + Sync)) -> std::io::Result<usize> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(at))?;
    let mut block = vec![0; BLOCK];
    let (mut left, mut count) = (length as usize, 0);
    while left > 0 {
        let n = file.read(&mut block[..left.min(BLOCK)])?;
        if n == 0 {
            break;
        }
        count += work(&block[..n]);
        left -= n;
    }
    Ok(count)
}
