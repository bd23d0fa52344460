//! What a run says while it runs: `log.jsonl`, one JSON object a line, for programs; `training.log`, sentences, for
//! people.
//!
//! A row is `{"time": …, "kind": …, …}`: when, of what kind, and whatever fields that kind has. It is written in one
//! piece and can be followed (`tail -f`). A process killed in the middle of a row leaves half a line; the next one cuts
//! it off, or ends it where only the end of the line was missing, and touches nothing else.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use files::{Error, Kind, Replace, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::append_file::{AppendFile, Trouble};

const ROWS: &str = "log.jsonl";
const SENTENCES: &str = "training.log";
/// No row is longer; whoever finds a longer line reads something else.
pub(crate) const LONGEST: usize = 16 << 20;

/// One row of `log.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// When, RFC 3339 UTC.
    pub time: String,
    /// Of what kind: `epoch`, `phase`, `saved`.
    pub kind: String,
    /// What that kind has, beside the two.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Row {
    /// A field as a number; none where it is none.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.fields.get(field)?.as_f64()
    }

    /// A field as text; none where it is none.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }
}

/// The two logs of a run, open at their ends.
#[derive(Debug)]
pub struct Log {
    rows: AppendFile,
    sentences: AppendFile,
}

impl Log {
    /// Opens the logs in a run's folder, and mends what a killed process left torn.
    pub fn open(folder: &Path) -> Result<Log> {
        let (rows, sentences) = (folder.join(ROWS), folder.join(SENTENCES));
        Ok(Log {
            rows: drop_torn_line(&rows, |line| parse(line).is_ok())?,
            sentences: drop_torn_line(&sentences, |_| true)?,
        })
    }

    /// Keeps of the rows only those that `keep` wants, where a run goes on from a checkpoint and the others will be
    /// written again. `log.jsonl` is replaced in one piece; lines that are no rows stay as they are, and so do the
    /// sentences.
    pub fn retain(&mut self, folder: &Path, keep: impl Fn(&Row) -> bool) -> Result<()> {
        let path = folder.join(ROWS);
        let fail = |e: std::io::Error| Error::io(&path, "rewriting the log", &e);
        let mut new = Replace::create(&path)?;
        let mut dropped = false;
        each_line(&path, |_, line| {
            if parse(line).is_ok_and(|row| !keep(&row)) {
                dropped = true;
                return Ok(());
            }
            new.write_all(line).and_then(|()| new.write_all(b"\n")).map_err(fail)
        })?;
        if dropped {
            self.rows.close();
            new.commit()?;
        }
        Ok(())
    }

    /// Adds a row, now; where that fails for want of room it waits, and is written before the next one. A field may not
    /// be called `time` or `kind`; a number that is not finite is written as null.
    pub fn add_row(&mut self, kind: &str, fields: Map<String, Value>) -> Result<()> {
        if let Some(taken) = ["time", "kind"].into_iter().find(|name| fields.contains_key(*name)) {
            return Err(Error::new(Kind::State, format!("a row of the log may not have a field `{taken}`")));
        }
        let row = Row { time: now(), kind: kind.to_string(), fields };
        let mut line = serde_json::to_vec(&row).map_err(|e| Error::new(Kind::State, format!("writing JSON: {e}")))?;
        line.push(b'\n');
        if line.len() > LONGEST {
            let message = format!("a row of {} bytes is longer than the {LONGEST} that are read", line.len());
            return Err(Error::new(Kind::State, message));
        }
        self.rows.append(&line)
    }

    /// Adds a sentence, now: `2026-11-15T15:18:18Z epoch 12 of 500 …`. Line breaks become spaces.
    pub fn add_message(&mut self, sentence: &str) -> Result<()> {
        let text: String = sentence.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let seconds = now().chars().take(19).collect::<String>();
        self.sentences.append(format!("{seconds}Z {}\n", text.trim_end()).as_bytes())
    }

    /// What could not be written when it was to (the disk was full, say), a sentence for each file; nothing where all
    /// went well. What waits is tried once more.
    pub fn trouble(&mut self) -> Vec<String> {
        let both = [(ROWS, "row", &mut self.rows), (SENTENCES, "line", &mut self.sentences)];
        both.into_iter().filter_map(|(name, unit, file)| describe(name, unit, &file.trouble())).collect()
    }

    /// Makes both durable, before a checkpoint says that they are.
    pub fn sync(&mut self) -> Result<()> {
        self.rows.sync()?;
        self.sentences.sync()
    }
}

/// Reads the rows of a log, also one that is being written: a last line that is torn is left out. A line in the middle
/// that is no row is an error that names it.
pub fn read_log(path: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut torn: Option<Error> = None;
    each_line(path, |number, line| {
        if let Some(error) = torn.take() {
            return Err(error);
        }
        match parse(line) {
            Ok(row) => rows.push(row),
            Err(why) => {
                let error = Error::input(format!("this is not a row of a log: {why}")).at(path).line(number);
                torn = Some(error.remedy("remove the line"));
            }
        }
        Ok(())
    })?;
    Ok(rows)
}

/// Now, RFC 3339 UTC, to the millisecond.
pub(crate) fn now() -> String {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
    files::time::rfc3339(ms.saturating_mul(1_000_000))
}

pub(crate) fn parse(line: &[u8]) -> std::result::Result<Row, String> {
    serde_json::from_slice(line).map_err(|e| e.to_string())
}

/// Calls with number and bytes of each line, without its end; the last one may lack it.
fn each_line(path: &Path, mut line: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let fail = |e: std::io::Error| Error::io(path, "reading the log", &e);
    let mut reader = BufReader::with_capacity(1 << 16, files::open_file(path).map_err(fail)?);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let got = (&mut reader).take(LONGEST as u64).read_until(b'\n', &mut bytes).map_err(fail)?;
        if got == 0 {
            break;
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if got == LONGEST {
            let error = Error::input(format!("a line has more than {LONGEST} bytes")).at(path).line(number);
            return Err(error.remedy("this is not a log of Fullbore; move the file away"));
        }
        line(number, &bytes)?;
    }
    Ok(())
}

/// Opens a file of lines. A last line without its end is given one if it is `whole`, else cut off.
fn drop_torn_line(path: &Path, whole: impl Fn(&[u8]) -> bool) -> Result<AppendFile> {
    let mut tail = AppendFile::open(path)?;
    let (start, line) = last_line(path)?;
    if line.is_empty() {
        return Ok(tail);
    }
    if whole(&line) {
        tail.append(b"\n")?;
    } else {
        tail.truncate(start)?;
    }
    Ok(tail)
}

/// What stands behind the last line end, and where.
fn last_line(path: &Path) -> Result<(u64, Vec<u8>)> {
    let fail = |e: std::io::Error| Error::io(path, "reading the log", &e);
    let mut file = files::open_file(path).map_err(fail)?;
    let length = file.seek(SeekFrom::End(0)).map_err(fail)?;
    let mut back = 1u64 << 16;
    loop {
        let from = length.saturating_sub(back);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from)).map_err(fail)?;
        (&mut file).take(length - from).read_to_end(&mut bytes).map_err(fail)?;
        if let Some(at) = bytes.iter().rposition(|b| *b == b'\n') {
            return Ok((from + at as u64 + 1, bytes.split_off(at + 1)));
        }
        if from == 0 || back >= LONGEST as u64 {
            return Ok((from, bytes));
        }
        back *= 4;
    }
}

/// What a file of records could not take, in words.
pub(crate) fn describe(name: &str, unit: &str, trouble: &Trouble) -> Option<String> {
    let (why, missing) = (trouble.why.as_ref()?, trouble.waiting + trouble.lost);
    let plural = |n| files::format_plural(n, unit);
    Some(match missing {
        0 => format!("{name} could not be written for a while, {} came late: {why}", plural(trouble.late)),
        _ => format!("{name} lacks {}, which could not be written: {why}", plural(missing)),
    })
}

/// Where the rows of a run are.
pub fn log_path(folder: &Path) -> PathBuf {
    folder.join(ROWS)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
