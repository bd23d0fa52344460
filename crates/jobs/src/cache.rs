//! Tables that were computed before: `cache/features/KEY/` at home, the Parquet files and `entry.json`.
//!
//! The key is a hash of everything the result depends on. An entry appears by one rename, so two processes never see
//! half of one; every file is held against its hash while it is copied out, so a damaged entry is no entry. Trouble in
//! the cache never fails a job: the table is computed again.

use crate::features::Featured;
use crate::home;
use bars::Fingerprint;
use files::{Draft, Error, Replace, Result, remove_folder};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder of all entries.
pub(crate) struct Cache {
    folder: PathBuf,
    limit: u64,
}

/// What an entry says about itself.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// In the order of [`Featured::files`].
    files: Vec<Kept>,
    featured: Featured,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    name: String,
    bytes: u64,
    hash: String,
}

const ENTRY: &str = "entry.json";

impl Cache {
    /// `None` where it is turned off or there is no home.
    pub(crate) fn new(limit: u64) -> Option<Cache> {
        let folder = home().ok()?.join("cache").join("features");
        (limit > 0).then_some(Cache { folder, limit })
    }

    /// Copies an entry's files to where `place` says they belong; `None` where there is none, or it is damaged.
    pub(crate) fn take(&self, key: &str, place: &dyn Fn(&str) -> PathBuf) -> Result<Option<Featured>> {
        let folder = self.folder.join(key);
        let Some(mut entry) =
            files::read_file(&folder.join(ENTRY), 64 << 20).ok().and_then(|b| serde_json::from_slice::<Entry>(&b).ok())
        else {
            return Ok(None);
        };
        if entry.files.len() != entry.featured.files.len() {
            return Ok(None);
        }
        let mut copies = Vec::new();
        for (kept, written) in entry.files.iter().zip(&mut entry.featured.files) {
            let path = place(&written.table);
            let mut copy = Replace::create(&path)?;
            let Ok(mut from) = files::open_file(&folder.join(&kept.name)) else { return Ok(None) };
            let (bytes, hash) = match pour(&mut from, &mut copy) {
                Ok(poured) => poured,
                Err(Poured::Reading) => return Ok(None),
                Err(Poured::Writing(e)) => return Err(Error::io(&path, "writing the file", &e)),
            };
            if (bytes, &hash) != (kept.bytes, &kept.hash) {
                return Ok(None);
            }
            written.path = path.display().to_string();
            copies.push(copy);
        }
        copies.into_iter().try_for_each(Replace::commit)?;
        // The time of last use decides who leaves first; where it cannot be set, the time it was made does.
        let _ = File::options().append(true).open(folder.join(ENTRY)).and_then(|f| f.set_modified(SystemTime::now()));
        Ok(Some(entry.featured))
    }

    /// Keeps the files of a result; says whether that went well.
    pub(crate) fn put(&self, key: &str, featured: &Featured) -> bool {
        let bytes: u64 = featured.files.iter().map(|f| f.bytes).sum();
        if bytes > self.limit {
            return true;
        }
        let place = self.folder.join(key);
        let kept = Draft::create(&place)
            .and_then(|draft| fill(draft.path(), featured).map(|()| draft))
            .map(|draft| Cache::enter(&draft, &place));
        self.prune(key);
        kept.is_ok()
    }

    /// Puts a finished folder in its place; what was there goes. Where another process was faster, its entry is as
    /// good.
    fn enter(draft: &Draft, place: &Path) {
        if draft.commit().is_err() {
            remove_folder(place);
            let _ = draft.commit();
        }
    }

    /// Removes the entries that were used longest ago until all fit.
    fn prune(&self, newest: &str) {
        let mut entries = Vec::new();
        for path in fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|e| e.path()) {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let used = |file: &Path| fs::metadata(file).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            // What another process is writing; what a killed one left goes when the next entry is made.
            if name.starts_with('.') {
                continue;
            }
            let sizes = fs::read_dir(&path).into_iter().flatten().flatten().filter_map(|e| e.metadata().ok());
            entries.push((name == newest, used(&path.join(ENTRY)), sizes.map(|m| m.len()).sum::<u64>(), path));
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|e| e.2).sum();
        for (newest, _, bytes, path) in &entries {
            if total <= self.limit || *newest {
                break;
            }
            remove_folder(path);
            total -= bytes;
        }
    }
}

/// Copies the files of a result into a folder, and says there what they are.
fn fill(folder: &Path, featured: &Featured) -> std::io::Result<()> {
    let mut files = Vec::new();
    for written in &featured.files {
        let at = if written.table.is_empty() { String::new() } else { format!("@{}", written.table) };
        let name = format!("table{at}.parquet");
        let (mut from, mut to) = (File::open(&written.path)?, File::create(folder.join(&name))?);
        let (bytes, hash) = pour(&mut from, &mut to).map_err(|_| std::io::Error::other("the copy failed"))?;
        files.push(Kept { name, bytes, hash });
    }
    let entry = Entry { files, featured: featured.clone() };
    fs::write(folder.join(ENTRY), serde_json::to_vec(&entry)?)
}

/// Which side of a copy failed.
enum Poured {
    Reading,
    Writing(std::io::Error),
}

/// Copies and says how much it was, and its hash.
fn pour(from: &mut impl Read, to: &mut impl Write) -> Result<(u64, String), Poured> {
    let (mut block, mut bytes, mut hash) = (vec![0; 1 << 20], 0, Fingerprint::new());
    loop {
        let n = match from.read(&mut block) {
            Ok(0) => return Ok((bytes, hash.to_hex())),
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(Poured::Reading),
        };
        hash.add_bytes(&block[..n]);
        to.write_all(&block[..n]).map_err(Poured::Writing)?;
        bytes += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_oldest_entries_are_evicted_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache { folder: folder.path().to_path_buf(), limit: 2500 };
        for (key, age) in [("a", 30), ("b", 20), ("c", 10), (".x.tmp", 0)] {
            let entry = folder.path().join(key);
            fs::create_dir(&entry).expect("made");
            fs::write(entry.join("table.parquet"), [0; 1000]).expect("written");
            let file = File::create(entry.join(ENTRY)).expect("made");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("dated");
        }
        let left = || {
            let names = fs::read_dir(folder.path()).expect("listed").flatten();
            let mut names: Vec<String> = names.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        cache.prune("c");
        assert_eq!(left(), [".x.tmp", "b", "c"], "what another process is writing stays");
        Cache { limit: 10, ..cache }.prune("b");
        assert_eq!(left(), [".x.tmp", "b"], "what was just put stays");
    }
}
