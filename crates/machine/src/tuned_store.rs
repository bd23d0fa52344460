//! Winners remembered in one small file, per machine, workload and version.
//!
//! The file is replaced by rename under a lock beside it, so two processes that tune at once both keep their winner.
//! One that cannot be read is set aside under another name, aloud, and a new one begun: it costs a measurement, never a
//! run.

use crate::tune::CandidateRow;
use files::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

/// One winner, with the table that made it one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunedEntry {
    /// The machine's key.
    pub machine: String,
    /// What was tuned.
    pub workload: String,
    /// Of whatever decides the rates.
    pub version: String,
    /// The label of the winner.
    pub winner: String,
    /// What was seen.
    pub rows: Vec<CandidateRow>,
    /// When, RFC 3339 UTC; older files do not say.
    #[serde(default)]
    pub at: Option<String>,
    /// What the winner means, in the words of whoever tuned; null where the label says it all.
    #[serde(default)]
    pub choice: serde_json::Value,
}

/// The file of winners in a home.
pub fn tuned_path(home: &Path) -> PathBuf {
    home.join("tuned.json")
}

/// What is remembered of a workload on a machine by a version. A damaged file is set aside, and is a warning.
pub fn load_entry(
    path: &Path,
    machine: &str,
    workload: &str,
    version: &str,
    warnings: &mut Vec<String>,
) -> Option<TunedEntry> {
    let entries = load(path, warnings);
    entries.into_iter().find(|e| (&*e.machine, &*e.workload, &*e.version) == (machine, workload, version))
}

#[derive(Serialize, Deserialize)]
struct Store {
    schema: String,
    entries: Vec<TunedEntry>,
}

const SCHEMA: &str = "tuned/1";

/// Everything remembered; what cannot be read is set aside and is a warning.
pub(crate) fn load(path: &Path, warnings: &mut Vec<String>) -> Vec<TunedEntry> {
    if !path.exists() {
        return Vec::new();
    }
    let text = match files::read_file(path, 64 << 20) {
        Ok(text) => text,
        Err(e) => {
            warnings.push(format!("the saved tuning results cannot be read: {e}"));
            return Vec::new();
        }
    };
    let why = match serde_json::from_slice::<Store>(&text) {
        Ok(store) if store.schema == SCHEMA => return store.entries,
        Ok(store) => format!("its schema is {}, this program uses {SCHEMA}", store.schema),
        Err(e) => e.to_string(),
    };
    warnings.push(match aside(path) {
        Some(name) => format!("{}: cannot be read ({why}); it was set aside as {name}", path.display()),
        None => format!("{}: cannot be read ({why}) and cannot be set aside", path.display()),
    });
    Vec::new()
}

/// Adds a winner in the place of the one before it.
pub fn save_entry(path: &Path, entry: TunedEntry, warnings: &mut Vec<String>) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, "making the folder", &e))?;
    }
    let lock = path.with_extension("lock");
    let held = OpenOptions::new().write(true).create(true).truncate(false).open(&lock);
    let held = held.map_err(|e| Error::io(&lock, "opening the lock", &e))?;
    // Held for milliseconds. Where a file system knows no locks, the last of two writers wins.
    let _ = held.lock();
    let mut entries = load(path, warnings);
    entries.retain(|e| (&e.machine, &e.workload) != (&entry.machine, &entry.workload));
    entries.push(entry);
    let mut text = serde_json::to_vec_pretty(&Store { schema: SCHEMA.into(), entries })
        .map_err(|e| Error::new(Kind::State, format!("writing JSON: {e}")).at(path))?;
    text.push(b'\n');
    files::replace_bytes(path, &text)
}

/// Renames a file out of the way, over nothing, and gives its new name.
fn aside(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let free = (1..1000).map(|i| format!("{name}.damaged-{i}")).find(|n| !path.with_file_name(n).exists())?;
    fs::rename(path, path.with_file_name(&free)).ok()?;
    Some(free)
}
