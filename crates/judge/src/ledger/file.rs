//! The ledger's file: made, recognised, refused.
//!
//! SQLite with a write-ahead log and a sync at every commit. A file says that it is a ledger by its application id, and
//! its tables and triggers must be, word for word, those below.

use super::Ledger;
use files::{Error, Kind, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use std::path::Path;
use std::time::{Duration, Instant};

/// "FBLG"
const APPLICATION: i64 = 0x4642_4c47;
const VERSION: i64 = 1;

/// How long to wait for other processes; each holds the file for a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// In the order of their names, as SQLite keeps them.
const SCHEMA: [&str; 4] = [
    "CREATE TABLE event (row INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, trial TEXT NOT NULL, start INTEGER, symbols TEXT, \
     from_time INTEGER, to_time INTEGER, code TEXT, data TEXT, folds INTEGER, seeds TEXT, parent TEXT, metrics TEXT, returns TEXT, reason TEXT, \
     previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    // Also against INSERT OR REPLACE, which deletes without asking the trigger for deletions.
    "CREATE TRIGGER event_in_order BEFORE INSERT ON event WHEN NEW.row IS NOT (SELECT coalesce(max(row), 0) + 1 FROM event) \
     BEGIN SELECT raise(ABORT, 'the ledger is append-only: a row goes to its end'); END",
    "CREATE TRIGGER event_no_delete BEFORE DELETE ON event BEGIN SELECT raise(ABORT, 'the ledger is append-only: no row is deleted'); END",
    "CREATE TRIGGER event_no_update BEFORE UPDATE ON event BEGIN SELECT raise(ABORT, 'the ledger is append-only: no row is changed'); END",
];

pub(super) fn open(path: &Path) -> Result<Connection> {
    let failed = |e: rusqlite::Error| explain(path, "opening the ledger", &e);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "making the folder of the ledger", &e))?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    db.busy_timeout(PATIENCE).map_err(failed)?;
    db.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    // Nothing is written before the file is known to be empty or ours.
    if is_empty(&db).map_err(failed)? {
        let turn = Transaction::new_unchecked(&db, TransactionBehavior::Immediate).map_err(failed)?;
        // Another process may have been first.
        if is_empty(&turn).map_err(failed)? {
            SCHEMA.iter().try_for_each(|statement| turn.execute_batch(statement)).map_err(failed)?;
            turn.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
            turn.pragma_update(None, "user_version", VERSION).map_err(failed)?;
        }
        turn.commit().map_err(failed)?;
    }
    recognise(path, &db)?;
    write_ahead(&db).map_err(failed)?;
    Ok(db)
}

fn number(db: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Whether nobody has put anything into it.
fn is_empty(db: &Connection) -> rusqlite::Result<bool> {
    let things: i64 = db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    Ok(things == 0 && number(db, "application_id")? == 0 && number(db, "user_version")? == 0)
}

fn recognise(path: &Path, db: &Connection) -> Result<()> {
    let failed = |e: rusqlite::Error| explain(path, "opening the ledger", &e);
    let refuse = |what: &str, remedy: &str| Err(Error::new(Kind::State, what).at(path).remedy(remedy));
    if number(db, "application_id").map_err(failed)? != APPLICATION {
        return refuse(
            "this is a database, but not a ledger",
            "move it away or choose another folder; it was not touched",
        );
    }
    let version = number(db, "user_version").map_err(failed)?;
    if version > VERSION {
        let what = format!("the ledger has version {version}, this program reads {VERSION}");
        return refuse(&what, "use the newer program; it was not touched");
    }
    let mut query = db.prepare("SELECT sql FROM sqlite_master ORDER BY name").map_err(failed)?;
    let words = query.query_map([], |row| row.get::<_, Option<String>>(0)).map_err(failed)?;
    let words = words.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if version != VERSION || !words.iter().map(Option::as_deref).eq(SCHEMA.map(Some)) {
        let remedy = "bring it back from a backup; it was not touched";
        return refuse("the ledger's tables or triggers were changed or damaged", remedy);
    }
    Ok(())
}

/// Switching needs the file alone for a moment, and SQLite does not wait for that by itself.
fn write_ahead(db: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        let mode = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Where a file system has no write-ahead log the old journal serves: slower, and as safe.
            other => return other.map(drop),
        }
    }
}

impl Ledger {
    /// SQLite's own look at its pages.
    pub(super) fn sound(&self) -> Result<()> {
        let result: String = self
            .db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|e| self.failed("checking the file", &e))?;
        if result == "ok" {
            return Ok(());
        }
        Err(Error::new(Kind::State, format!("the ledger's file is damaged: {result}"))
            .at(&self.path)
            .remedy("bring it back from a backup"))
    }

    pub(super) fn failed(&self, doing: &str, cause: &rusqlite::Error) -> Error {
        explain(&self.path, doing, cause)
    }
}

/// What SQLite says, as ours.
fn explain(path: &Path, doing: &str, cause: &rusqlite::Error) -> Error {
    let (kind, remedy) = match cause.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            (Kind::State, "this is not a ledger: move it away or choose another folder; it was not touched")
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            (Kind::State, "the file is damaged: bring it back from a backup; it was not touched")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Kind::State, "another process holds it: wait for that one and try again")
        }
        Some(ErrorCode::DiskFull) => (Kind::Machine, "free some space"),
        Some(ErrorCode::OutOfMemory) => (Kind::Memory, "close other programs"),
        Some(ErrorCode::SystemIoFailure) => (Kind::Machine, "check the disk"),
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::AuthorizationForStatementDenied,
        ) => (Kind::Input, "check the path and the permissions of the file and its folder"),
        _ => (Kind::State, "if this happens again, please report it"),
    };
    Error::new(kind, format!("{doing}: {cause}")).at(path).remedy(remedy)
}
