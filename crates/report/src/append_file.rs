//! A file that only ever grows, record by record, and never holds half of one for long.
//!
//! Each record is one write. Where that fails midway (a full disk), the file is cut back to where it was, now or before
//! the next record; the record waits in memory and is written as soon as there is room, before the next one. What a
//! killed process left torn is the business of who opens the file: only it knows what a record is.

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use files::{Error, Kind, Result};

/// A file that only ever grows.
#[derive(Debug)]
pub(crate) struct AppendFile {
    path: PathBuf,
    file: Option<File>, // None while it is closed; the next record opens it
    length: u64,        // up to here it is whole
    torn: bool,         // whether something may stand behind that
    queue: Vec<u8>,     // records that are not in the file yet
    queued: u64,
    trouble: Trouble,
}

/// What a file could not take when it was to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble {
    /// Records that wait for room.
    pub(crate) waiting: u64,
    /// Records that were written later than they should have been.
    pub(crate) late: u64,
    /// Records that were given up, because too many waited.
    pub(crate) lost: u64,
    /// The last reason; none where nothing ever failed.
    pub(crate) why: Option<String>,
}

/// No more waits in memory.
const MOST_WAITING: usize = 64 << 20;

impl AppendFile {
    /// Opens a file at its end; it is made where there is none.
    pub(crate) fn open(path: &Path) -> Result<AppendFile> {
        let file = File::options().create(true).write(true).truncate(false).open(path);
        AppendFile::from_file(path, file.map_err(|e| Error::io(path, "opening the file", &e))?)
    }

    /// Closes the file, so that another can take its place; the next record goes to the end of what stands there then.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    /// Makes a file that was not there; none if one was.
    pub(crate) fn create(path: &Path) -> Result<Option<AppendFile>> {
        match File::options().create_new(true).write(true).open(path) {
            Ok(file) => AppendFile::from_file(path, file).map(Some),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(Error::io(path, "making the file", &e)),
        }
    }

    fn from_file(path: &Path, mut file: File) -> Result<AppendFile> {
        let length = file.seek(SeekFrom::End(0)).map_err(|e| Error::io(path, "opening the file", &e))?;
        let (path, file, queue) = (path.to_path_buf(), Some(file), Vec::new());
        Ok(AppendFile { path, file, length, torn: false, queue, queued: 0, trouble: Trouble::default() })
    }

    /// Adds a record, whole or not at all. Where that fails it waits, and is tried again before the next one.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<()> {
        if self.queue.len() + record.len() > MOST_WAITING {
            self.trouble.lost += 1;
        } else {
            self.queue.extend_from_slice(record);
            self.queued += 1;
        }
        self.flush()
    }

    /// What went wrong so far, after another try.
    pub(crate) fn trouble(&mut self) -> Trouble {
        // Why it failed is part of the trouble.
        let _ = self.flush();
        self.trouble.clone()
    }

    fn flush(&mut self) -> Result<()> {
        let queue = std::mem::take(&mut self.queue);
        let written = self.write(&queue);
        match &written {
            Ok(()) => {
                self.trouble.late += std::mem::take(&mut self.trouble.waiting);
                self.queued = 0;
            }
            Err(why) => {
                (self.queue, self.trouble.waiting, self.trouble.why) = (queue, self.queued, Some(why.to_string()));
            }
        }
        written
    }

    /// Writes bytes, whole or not at all.
    fn write(&mut self, record: &[u8]) -> Result<()> {
        if record.is_empty() {
            return Ok(());
        }
        if self.torn {
            self.truncate(self.length)?;
        }
        if let Err(e) = self.opened()?.write_all(record) {
            self.torn = true;
            let _ = self.truncate(self.length);
            return Err(Error::io(&self.path, "writing to the file", &e));
        }
        self.length += record.len() as u64;
        Ok(())
    }

    /// Shortens the file.
    pub(crate) fn truncate(&mut self, length: u64) -> Result<()> {
        let file = self.opened()?;
        let done = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
        done.map_err(|e| Error::io(&self.path, "shortening the file", &e))?;
        (self.length, self.torn) = (length, false);
        Ok(())
    }

    /// Makes what was added durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let done = self.opened()?.sync_data();
        done.map_err(|e| Error::io(&self.path, "syncing the file", &e))
    }

    fn opened(&mut self) -> Result<&mut File> {
        if self.file.is_none() {
            let opened = AppendFile::open(&self.path)?;
            (self.file, self.length, self.torn) = (opened.file, opened.length, false);
        }
        self.file.as_mut().ok_or_else(|| Error::new(Kind::State, "the file is closed").at(&self.path))
    }
}
