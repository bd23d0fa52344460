//! `data add`: bars into the catalogue, as Parquet.

use crate::progress::{Sink, shared};
use crate::{Audited, Select, Settings, data_folder, find};
use bars::audit::Verdict;
use bars::store::Entry;
use files::{Error, Kind, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to add, and where.
#[derive(Debug, Clone, Default)]
pub struct Add {
    /// What to read.
    pub select: Select,
    /// What to call it; `None` takes the name of the file or folder.
    pub name: Option<String>,
    /// The folder of the catalogue; `None` takes the one at home.
    pub out: Option<PathBuf>,
    /// Whether an entry of that name may be replaced.
    pub replace: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What was added, or would be.
#[derive(Debug, Clone, Serialize)]
pub struct Added {
    /// In the catalogue.
    pub name: String,
    /// The folder of the catalogue.
    pub folder: String,
    /// Whether this is only the plan.
    pub dry_run: bool,
    /// Files to read (of a dry run).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// May the bars be used? `refuse` means that nothing was added; null for a dry run.
    pub verdict: Option<Verdict>,
    /// One a timeframe; empty when refused.
    pub entries: Vec<Entry>,
    /// What was seen; null for a dry run.
    pub audit: Option<Audited>,
}

/// What a dry run says.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// What would be read.
    pub data: String,
    /// How many files, at most.
    pub files: u64,
    /// Their size on disk.
    pub bytes: u64,
    /// Whether an entry of that name is there already.
    pub exists: bool,
    /// The memory budget.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// A rough guess from the size, at 60 MB a second and thread.
    pub estimated_seconds: f64,
}

/// Converts everything behind a path to Parquet in the catalogue. Refused data leave it as it was.
pub fn add(request: &Add, settings: &Settings, sink: Sink<'_>) -> Result<Added> {
    let path = find(&request.select.data)?;
    let name = match &request.name {
        Some(name) => checked(name)?,
        None => name_of(&path)?,
    };
    let folder = match &request.out {
        Some(out) => out.clone(),
        None => data_folder()?,
    };
    let options = request.select.narrow(settings.options()?);
    let mut added = Added {
        name,
        folder: folder.display().to_string(),
        dry_run: request.dry_run,
        plan: None,
        verdict: None,
        entries: Vec::new(),
        audit: None,
    };
    if request.dry_run {
        let (mut files, mut bytes) = (0, 0);
        measure(&path, 0, &mut files, &mut bytes)?;
        let estimated_seconds = bytes as f64 / (60e6 * options.threads as f64);
        let exists = bars::store::find_set(&folder, &added.name)?.is_some();
        let data = path.display().to_string();
        let (memory_bytes, threads) = (options.memory, options.threads);
        added.plan = Some(Plan { data, files, bytes, exists, memory_bytes, threads, estimated_seconds });
        return Ok(added);
    }
    std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "making the folder of the catalogue", &e))?;
    let clock = Instant::now();
    let (entries, audit) = shared(sink, |progress| {
        bars::store::add_set(&path, &options, &folder, &added.name, request.replace, progress)
    })?;
    added.verdict = Some(audit.verdict);
    added.entries = entries;
    added.audit = Some(Audited::new(path.display().to_string(), audit, clock.elapsed().as_secs_f64()));
    Ok(added)
}

/// A name for the catalogue: it becomes part of a file's name, so no separators and no leading dot.
pub(crate) fn checked(name: &str) -> Result<String> {
    let fine = |c: char| c.is_alphanumeric() || "-_.+=@".contains(c);
    if name.is_empty() || name.starts_with('.') || name.chars().count() > 100 || !name.chars().all(fine) {
        return Err(Error::new(Kind::Usage, format!("`{name}` cannot be a name in the catalogue"))
            .remedy("use letters, digits, - and _, as in <name=binance-spot>"));
    }
    Ok(name.to_string())
}

/// The name of the file without its endings, or of the folder.
pub(crate) fn name_of(path: &Path) -> Result<String> {
    let full = std::path::absolute(path).map_err(|e| Error::io(path, "finding the path", &e))?;
    let last = full.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = if full.is_dir() { last.as_str() } else { last.split('.').find(|p| !p.is_empty()).unwrap_or("") };
    let clean: String =
        stem.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '-' }).take(100).collect();
    checked(clean.trim_matches('-')).map_err(|e| e.remedy("give it a name with <name>"))
}

fn measure(path: &Path, depth: usize, files: &mut u64, bytes: &mut u64) -> Result<()> {
    let meta = std::fs::metadata(path).map_err(|e| Error::io(path, "looking at the file", &e))?;
    if meta.is_dir() && depth < 8 {
        for entry in std::fs::read_dir(path).map_err(|e| Error::io(path, "reading the folder", &e))? {
            let entry = entry.map_err(|e| Error::io(path, "reading the folder", &e))?;
            // A broken link inside a folder is no reason to stop a plan.
            if entry.path().exists() {
                measure(&entry.path(), depth + 1, files, bytes)?;
            }
        }
    } else if meta.is_file() {
        *files += 1;
        *bytes += meta.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_accepted_and_others_refused() {
        for (name, ok) in
            [("btc-5m", true), ("a", true), ("", false), (".x", false), ("a/b", false), ("a b", false), ("..", false)]
        {
            assert_eq!(checked(name).is_ok(), ok, "{name}");
        }
        assert_eq!(name_of(Path::new("/tmp/BTC USDT.csv.gz")).ok().as_deref(), Some("BTC-USDT"));
        assert!(name_of(Path::new("/")).is_err());
    }
}
