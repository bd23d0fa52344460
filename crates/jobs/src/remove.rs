//! `runs remove` and `data remove`: what Fullbore wrote, and nothing else. The ledger keeps its rows.

use crate::data_folder;
use crate::runs::find_run;
use bars::store::Entry;
use files::{Error, Kind, Lock, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What was removed of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunRemoved {
    /// The run's folder.
    pub folder: String,
    /// Files that were removed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is not of the run and stays in the folder; empty where the folder is gone, too.
    pub left: Vec<String>,
}

/// What was removed of the catalogue.
#[derive(Debug, Clone, Serialize)]
pub struct DataRemoved {
    /// The folder of the catalogue.
    pub folder: String,
    /// The entries that are gone, with their files.
    pub entries: Vec<Entry>,
}

/// What a run writes into its folder. Where `run.json` is, there is a run, so it goes last.
const OF_A_RUN: [&str; 15] = [
    "events",
    "checkpoints",
    "model",
    "backtest",
    "holdout",
    "predictions.parquet",
    "split.parquet",
    "result.json",
    "holdout.json",
    "report.html",
    "report.json",
    "training.log",
    "log.jsonl",
    "settings.toml",
    "run.json",
];

/// Removes a run by its folder or name. One that is at work is refused.
pub fn runs_remove(run: &Path) -> Result<RunRemoved> {
    let folder = find_run(run).map_err(|e| Error { kind: Kind::Usage, ..e })?;
    if !folder.join("run.json").exists() {
        return Err(Error::new(Kind::Usage, "this folder is not a run: it has no run.json")
            .at(&folder)
            .remedy("name a folder that `fullbore train` made; `fullbore runs list` shows them"));
    }
    let lock = Lock::acquire(&folder)?;
    files::sweep(&folder);
    let (mut files, mut bytes) = (0, 0);
    for name in OF_A_RUN {
        let path = folder.join(name);
        let Ok(about) = path.symlink_metadata() else { continue };
        let (n, size) = weigh(&path);
        let gone = if about.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        gone.map_err(|e| Error::io(&path, "removing it", &e))?;
        (files, bytes) = (files + n, bytes + size);
    }
    drop(lock);
    for lock in [".lock", ".lock.held"] {
        let _ = std::fs::remove_file(folder.join(lock));
    }
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut left: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    left.sort();
    if left.is_empty() {
        std::fs::remove_dir(&folder).map_err(|e| Error::io(&folder, "removing the folder", &e))?;
    }
    Ok(RunRemoved { folder: folder.display().to_string(), files, bytes, left })
}

/// Files and bytes below a path; links count as themselves.
fn weigh(path: &Path) -> (u64, u64) {
    match path.symlink_metadata() {
        Ok(about) if about.is_dir() => {
            let within = std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| weigh(&e.path()));
            within.fold((0, 0), |(n, size), (more, of)| (n + more, size + of))
        }
        Ok(about) => (1, about.len()),
        Err(_) => (0, 0),
    }
}

/// Removes a data set of the catalogue by its name.
pub fn data_remove(name: &str, folder: Option<PathBuf>) -> Result<DataRemoved> {
    let folder = folder.map_or_else(data_folder, Ok)?;
    let entries = bars::store::remove_set(&folder, name)?;
    if entries.is_empty() {
        let names: Vec<String> = bars::store::list_sets(&folder)?.into_iter().map(|entry| entry.name).collect();
        let remedy = match bars::nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`? `fullbore data list` shows the catalogue"),
            None => "give a name that `fullbore data list` shows; files outside the catalogue are yours".into(),
        };
        let error = Error::new(Kind::Usage, format!("the catalogue has no data set `{name}`"));
        return Err(error.at(&folder).remedy(remedy));
    }
    Ok(DataRemoved { folder: folder.display().to_string(), entries })
}
