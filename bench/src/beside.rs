//! What goes on beside a training: a checkpoint after every unit of work, or every so many seconds, and a thread that
//! reads bars over and over.

use learn::Training;
use learn::checkpoint::{About, Store, Writer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of the CSV that is read.
const BYTES: u64 = 8 << 20;

/// Work beside a training; it ends, and its files are removed, when it is dropped.
pub(crate) struct Beside {
    folder: PathBuf,
    writer: Option<Writer>,
    reader: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    saves: u64,
    /// Between two checkpoints, and when the last was.
    every: Duration,
    last: Option<Instant>,
}

impl Beside {
    /// `nothing`, `checkpoints`, `loading` or `both`.
    pub(crate) fn start(what: &str) -> Result<Beside, String> {
        let (saves, loads) = match what {
            "nothing" => (false, false),
            "checkpoints" => (true, false),
            "loading" => (false, true),
            "both" => (true, true),
            other => return Err(format!("{other} is not known: nothing, checkpoints, loading and both are")),
        };
        let folder = std::env::temp_dir().join(format!("fullbore-beside-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let open = || Writer::new(Store::open(&folder.join("checkpoints"))?, &[]);
        let writer = if saves { Some(open().map_err(|e| e.to_string())?) } else { None };
        let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut beside =
            Beside { folder, writer, reader: None, stop, reads, saves: 0, every: Duration::ZERO, last: None };
        if loads {
            let csv = beside.folder.join("bars.csv");
            super::make_csv::make(&csv, BYTES, u64::MAX)?;
            let (stop, reads) = (Arc::clone(&beside.stop), Arc::clone(&beside.reads));
            beside.reader = Some(std::thread::spawn(move || read_again(&csv, &stop, &reads)));
        }
        Ok(beside)
    }

    /// The same with a checkpoint every so often at most.
    pub(crate) fn every(mut self, every: Duration) -> Beside {
        self.every = every;
        self
    }

    /// Hands a member's state over to be written, as a run does.
    pub(crate) fn save(&mut self, training: &mut dyn Training, member: u32) -> Result<(), String> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if self.last.is_some_and(|last| last.elapsed() < self.every) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        let snapshot = training.snapshot(member).map_err(|e| e.to_string())?;
        self.saves += 1;
        let about = About { step: self.saves, ..About::default() };
        let fill = |staging: &mut learn::checkpoint::Staging| {
            staging.put("members.bin", &snapshot.bytes);
            Ok(())
        };
        writer.submit(about, fill).map_err(|e| e.to_string())
    }

    /// Checkpoints handed over, and how often the bars were read.
    pub(crate) fn done(&self) -> [u64; 2] {
        [self.saves, self.reads.load(Ordering::Relaxed)]
    }
}

fn read_again(csv: &Path, stop: &AtomicBool, reads: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) && super::read_csv(csv, 1).is_ok() {
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.writer = None;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
