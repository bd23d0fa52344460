//! A log, followed while somebody writes it.
//!
//! Each look reads what has been added since the one before, whole lines only: half a line is read again when its end
//! is there. A run that goes on may have replaced the file by a shorter one. That is seen by what stands before the
//! place where we stopped: where it is not what was read there, the log is read again from its beginning.

use crate::log::{LONGEST, Row, parse};
use files::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Read at once.
const BLOCK: usize = 1 << 18;
/// Bytes before our place that are compared.
const MARK: usize = 96;

/// A place in a log.
#[derive(Debug)]
pub struct LogFollower {
    path: PathBuf,
    at: u64,       // behind the last whole line that was read
    mark: Vec<u8>, // what stood before that place
    skipped: u64,  // lines that are no rows
    length: u64,   // of the file, at the last look
}

/// What a look brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRows {
    /// The log is another one than before: what follows are its rows from the first on.
    pub afresh: bool,
    /// Rows that were read.
    pub rows: u64,
    /// Lines of this log that are no rows, so far.
    pub skipped: u64,
}

impl LogFollower {
    /// From the beginning; the file need not be there yet.
    pub fn new(path: &Path) -> LogFollower {
        LogFollower { path: path.to_path_buf(), at: 0, mark: Vec::new(), skipped: 0, length: 0 }
    }

    /// Hands on every row that was added, after `None` where the log begins anew. A file that is not there is an empty
    /// one.
    pub fn read_new_rows(&mut self, each: &mut dyn FnMut(Option<&Row>)) -> Result<NewRows> {
        let fail = |e: std::io::Error| Error::io(&self.path, "reading the log", &e);
        let mut file = match files::open_file(&self.path) {
            Ok(file) => Some(file),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(fail(e)),
        };
        let afresh = match &mut file {
            None => self.at > 0,
            Some(file) => !self.same(file).map_err(fail)?,
        };
        if afresh {
            (self.at, self.skipped, self.length) = (0, 0, 0);
            self.mark.clear();
            each(None);
        }
        let rows = match file {
            Some(mut file) => {
                let length = file.metadata().map_err(fail)?.len();
                // Half a line that has not grown is not read again.
                let grown = length != self.length;
                self.length = length;
                if grown { self.read(&mut file, &mut |row| each(Some(row)))? } else { 0 }
            }
            None => 0,
        };
        Ok(NewRows { afresh, rows, skipped: self.skipped })
    }

    /// Whether what we have read still stands there.
    fn same(&self, file: &mut File) -> std::io::Result<bool> {
        let mut now = vec![0; self.mark.len()];
        file.seek(SeekFrom::Start(self.at - self.mark.len() as u64))?;
        match file.read_exact(&mut now) {
            Ok(()) => Ok(now == self.mark),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Reads whole lines up to the end.
    fn read(&mut self, file: &mut File, each: &mut dyn FnMut(&Row)) -> Result<u64> {
        let fail = |e: std::io::Error| Error::io(&self.path, "reading the log", &e);
        file.seek(SeekFrom::Start(self.at)).map_err(fail)?;
        let (mut bytes, mut rows) = (Vec::new(), 0);
        loop {
            let had = bytes.len();
            let got = file.by_ref().take(BLOCK as u64).read_to_end(&mut bytes).map_err(fail)?;
            let Some(end) = bytes[had..].iter().rposition(|b| *b == b'\n').map(|i| had + i + 1) else {
                // A line that never ends is no row; it is not kept while we wait for its end.
                if got == 0 || bytes.len() > LONGEST {
                    return Ok(rows);
                }
                continue;
            };
            for line in bytes[..end].split_inclusive(|b| *b == b'\n') {
                match parse(&line[..line.len() - 1]) {
                    Ok(row) => {
                        rows += 1;
                        each(&row);
                    }
                    Err(_) if line.len() > 1 => self.skipped += 1,
                    Err(_) => {}
                }
            }
            self.at += end as u64;
            self.mark.extend_from_slice(&bytes[end.saturating_sub(MARK)..end]);
            self.mark.drain(..self.mark.len().saturating_sub(MARK));
            bytes.drain(..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn look(follow: &mut LogFollower) -> (Vec<String>, NewRows) {
        let mut seen = Vec::new();
        let followed = follow.read_new_rows(&mut |row| seen.push(row.map_or("afresh".into(), |r| r.kind.clone())));
        (seen, followed.expect("readable"))
    }

    #[test]
    fn a_growing_log_gives_each_row_once_and_half_lines_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        let mut follow = LogFollower::new(&path);
        assert_eq!(look(&mut follow).0, [""; 0], "no file yet");
        let mut file = File::create(&path).expect("made");
        let mut add = |text: &str| file.write_all(text.as_bytes()).expect("written");
        add("{\"time\":\"t\",\"kind\":\"a\"}\n{\"time\":\"t\",");
        assert_eq!(look(&mut follow).0, ["a"]);
        assert_eq!(look(&mut follow).0, [""; 0]);
        add("\"kind\":\"b\"}");
        assert_eq!(look(&mut follow).0, [""; 0], "its end is missing");
        add("\nno row\n\n{\"time\":\"t\",\"kind\":\"c\"}\n");
        let (seen, followed) = look(&mut follow);
        assert_eq!((seen, followed.skipped), (vec!["b".to_string(), "c".into()], 1));
        assert_eq!(look(&mut follow).1, NewRows { afresh: false, rows: 0, skipped: 1 });
    }

    #[test]
    fn every_cut_of_a_log_gives_the_same_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        let text: String = (0..40).map(|i| format!("{{\"time\":\"é{i}\",\"kind\":\"k{i}\"}}\n")).collect();
        let expected: Vec<String> = (0..40).map(|i| format!("k{i}")).collect();
        for step in [1, 2, 3, 7, 29, 64, 1000] {
            let (mut follow, mut seen) = (LogFollower::new(&path), Vec::new());
            let mut file = File::create(&path).expect("made");
            for part in text.as_bytes().chunks(step) {
                file.write_all(part).expect("written");
                seen.extend(look(&mut follow).0);
            }
            assert_eq!(seen, expected, "in steps of {step}");
        }
    }

    #[test]
    fn replaced_or_removed_log_is_read_from_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        let row = |kind: &str| format!("{{\"time\":\"t\",\"kind\":\"{kind}\"}}\n");
        let write = |kinds: &[&str]| {
            let text: String = kinds.iter().map(|k| row(k)).collect();
            files::replace_bytes(&path, text.as_bytes()).expect("written");
        };
        let mut follow = LogFollower::new(&path);
        write(&["a", "b", "c"]);
        assert_eq!(look(&mut follow).0, ["a", "b", "c"]);
        write(&["a"]);
        assert_eq!(look(&mut follow).0, ["afresh", "a"], "shorter");
        write(&["x", "b", "c", "d"]);
        assert_eq!(look(&mut follow).0, ["afresh", "x", "b", "c", "d"], "longer, and not what it was");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(look(&mut follow).0, ["afresh"]);
        assert_eq!(look(&mut follow).0, [""; 0]);
        write(&["e"]);
        assert_eq!(look(&mut follow).0, ["e"]);
    }

    #[test]
    fn a_hundred_thousand_lines_and_one_without_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl");
        let text: String = (0..100_000).map(|i| format!("{{\"time\":\"t\",\"kind\":\"e\",\"n\":{i}}}\n")).collect();
        std::fs::write(&path, text).expect("written");
        let mut follow = LogFollower::new(&path);
        let (mut next, mut wrong) = (0.0, 0);
        let mut each = |row: Option<&Row>| {
            wrong += u32::from(row.and_then(|r| r.number("n")) != Some(next));
            next += 1.0;
        };
        assert_eq!(follow.read_new_rows(&mut each).expect("read").rows, 100_000);
        assert_eq!(wrong, 0);
        let mut file = File::options().append(true).open(&path).expect("there");
        file.write_all(&vec![b'x'; LONGEST + BLOCK + 1]).expect("written");
        assert_eq!(look(&mut follow).0, [""; 0]);
    }
}
