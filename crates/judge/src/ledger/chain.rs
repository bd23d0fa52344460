//! Rows, their hashes, and reading them from the first to the last.
//!
//! A row's hash is SHA-256 over all its columns in order, the hash of the row before among them; each column is a sign
//! for its kind, its length and its bytes, so that no two rows read alike.

use super::event::Event;
use super::{Ledger, StartedTrial};
use files::{Error, Kind, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, TransactionBehavior, params_from_iter};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::time::SystemTime;

/// Columns that the hash is made of, in its order.
const COLUMNS: &str = "row, time, kind, trial, start, symbols, from_time, to_time, code, data, folds, seeds, parent, metrics, returns, \
                       reason, previous";
const WIDTH: usize = 17;

/// A row as it was read, its hash checked.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) row: u64,
    pub(super) time: i64,
    pub(super) event: Event,
}

fn digest(columns: &[Value]) -> String {
    let mut hash = Sha256::new();
    let mut take = |kind: u8, bytes: &[u8]| {
        hash.update([kind]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for column in columns {
        match column {
            Value::Null => take(0, &[]),
            Value::Integer(number) => take(1, &number.to_le_bytes()),
            Value::Real(number) => take(2, &number.to_bits().to_le_bytes()),
            Value::Text(text) => take(3, text.as_bytes()),
            Value::Blob(bytes) => take(4, bytes),
        }
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Ledger {
    /// Puts a row at the end of the chain, if `allowed` says so; on the disk when it returns. Gives its number and its
    /// hash.
    pub(super) fn append(&self, event: Event, allowed: impl Fn(&Connection) -> Result<()>) -> Result<(u64, String)> {
        let failed = |e: rusqlite::Error| self.failed("writing a row", &e);
        // Immediate: the writer's place is taken before the end of the chain is read, so that two processes cannot both
        // see the same end.
        let turn = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate).map_err(failed)?;
        allowed(&turn)?;
        // Where the end cannot be read, reading from the start tells which row it is.
        let end = self.rows(&turn, "ORDER BY row DESC LIMIT 1", 0).map_err(|e| self.read().err().unwrap_or(e))?.pop();
        let (last, previous) = match end {
            Some((columns, hash)) => (self.row_of(&columns)?, hash),
            None => (0, String::new()),
        };
        let columns = event.columns(last + 1, now(), &previous);
        let hash = digest(&columns);
        let values = columns.into_iter().chain([Value::Text(hash.clone())]);
        let marks = vec!["?"; WIDTH + 1].join(", ");
        turn.execute(&format!("INSERT INTO event ({COLUMNS}, hash) VALUES ({marks})"), params_from_iter(values))
            .map_err(failed)?;
        turn.commit().map_err(failed)?;
        Ok((last + 1, hash))
    }

    /// All rows from the first, each checked against its hash and the row before.
    pub(super) fn read(&self) -> Result<Vec<Read>> {
        let mut previous = String::new();
        let mut read = Vec::new();
        for (columns, hash) in self.rows(&self.db, "ORDER BY row", 1)? {
            let row = read.len() as u64 + 1;
            if self.row_of(&columns)? != row {
                return Err(self.broken(row, "it is missing"));
            }
            if columns[WIDTH - 1] != Value::Text(std::mem::replace(&mut previous, hash)) {
                return Err(self.broken(row, "it does not follow the row before"));
            }
            let (Some(event), Value::Integer(time)) = (Event::read(&columns), &columns[1]) else {
                return Err(self.broken(row, "it cannot be understood"));
            };
            read.push(Read { row, time: *time, event });
        }
        Ok(read)
    }

    /// Fails unless the start of a trial stands where it was written.
    pub(super) fn holds(&self, db: &Connection, started: &StartedTrial) -> Result<()> {
        let row = i64::try_from(started.row).unwrap_or(0);
        let there = self.rows(db, &format!("WHERE row = {row}"), started.row)?.pop();
        let same = there.is_some_and(|(columns, hash)| {
            hash == started.hash
                && Event::read(&columns).is_some_and(|e| e.kind == "started" && e.trial == started.trial)
        });
        if same {
            return Ok(());
        }
        Err(Error::new(Kind::State, format!("trial {} did not start in row {} of this ledger", started.trial, started.row))
            .at(&self.path)
            .remedy("its end may have been cut off, or another one was put in its place: bring back the ledger the run was started with"))
    }

    /// The same, and it has not finished.
    pub(super) fn is_open(&self, db: &Connection, started: &StartedTrial) -> Result<()> {
        self.holds(db, started)?;
        let finished = "SELECT count(*) FROM event WHERE start = ?1 AND kind = 'finished'";
        let ends: i64 = db
            .query_row(finished, [started.row as i64], |row| row.get(0))
            .map_err(|e| self.failed("looking for the end of a trial", &e))?;
        if ends == 0 {
            return Ok(());
        }
        Err(Error::new(Kind::State, format!("trial {} (row {}) has finished already", started.trial, started.row))
            .at(&self.path)
            .remedy("start it again: that is a row of its own"))
    }

    /// Rows with their hashes, each checked against it. `first` is the row expected first, to say which one cannot be
    /// read.
    fn rows(&self, db: &Connection, which: &str, first: u64) -> Result<Vec<(Vec<Value>, String)>> {
        let failed = |e: rusqlite::Error| self.failed("reading", &e);
        let mut query = db.prepare(&format!("SELECT {COLUMNS}, hash FROM event {which}")).map_err(failed)?;
        let mut rows = query.query([]).map_err(failed)?;
        let mut all = Vec::new();
        loop {
            let at = first + all.len() as u64;
            let unreadable = |e: rusqlite::Error| match e.sqlite_error_code() {
                None | Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
                    self.broken(at, &format!("it cannot be read ({e})"))
                }
                _ => self.failed("reading", &e),
            };
            let Some(row) = rows.next().map_err(unreadable)? else { break };
            let columns = (0..WIDTH).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>().map_err(unreadable)?;
            let hash: String = row.get(WIDTH).map_err(unreadable)?;
            if digest(&columns) != hash {
                return Err(self.broken(self.row_of(&columns)?, "its content does not have its hash"));
            }
            all.push((columns, hash));
        }
        Ok(all)
    }

    fn row_of(&self, columns: &[Value]) -> Result<u64> {
        match columns[0] {
            Value::Integer(row) if row > 0 => Ok(row as u64),
            _ => Err(self.broken(0, "a row has no number")),
        }
    }

    pub(super) fn broken(&self, row: u64, reason: &str) -> Error {
        Error::new(Kind::State, format!("the ledger is broken at row {row}: {reason}")).at(&self.path).line(row).remedy(
            "bring it back from a backup; or move it away, and say in reports that trials before today are not counted",
        )
    }
}

/// Nanoseconds since 1970 UTC; a clock before that is 0.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
