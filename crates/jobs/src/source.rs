//! What the user points at: a path or a name in the catalogue, which symbols, from when to when, and the universe's
//! files.

use crate::{data_folder, nearest};
use files::{Error, Kind, Result};
use std::path::{Path, PathBuf};

/// Which part of the data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Select {
    /// A path, or a name in the catalogue.
    pub data: String,
    /// Only these symbols; empty means all.
    pub symbols: Vec<String>,
    /// Only bars that start at or after this, in nanoseconds.
    pub from: Option<i64>,
    /// Only bars that start before this.
    pub to: Option<i64>,
}

impl Select {
    /// Puts the selection into the reader's options.
    pub(crate) fn narrow(&self, mut options: bars::Options) -> bars::Options {
        options.symbols = self.symbols.clone();
        options.from = self.from;
        options.to = self.to;
        options
    }
}

/// The path behind DATA: the path itself if it exists, else that name in the catalogue.
pub fn find(data: &str) -> Result<PathBuf> {
    let path = Path::new(data);
    // A broken link or a folder we may not enter exists too: the reader says what is wrong with it.
    if path.symlink_metadata().is_ok() {
        // A device or a pipe is neither, and is not even opened.
        if path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            files::open_file(path).map_err(|e| Error::io(path, "reading the data", &e))?;
        }
        return Ok(path.to_path_buf());
    }
    let folder = data_folder()?;
    if !data.contains(['/', '\\'])
        && let Some(found) = bars::store::find_set(&folder, data)?
    {
        return Ok(found);
    }
    let names: Vec<String> = bars::store::list_sets(&folder)?.into_iter().map(|entry| entry.name).collect();
    let remedy = match nearest(data, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? `fullbore data list` shows the catalogue"),
        None => "give a file, a folder, or a name that `fullbore data list` shows".to_string(),
    };
    Err(Error::input("there is no such file, folder or name in the catalogue").at(path).remedy(remedy))
}

/// An instant as users write it, in nanoseconds UTC: `2024-03-01`, `2024-03-01T09:30`, `2024-03-01T09:30-05:00`.
pub fn instant(text: &str) -> Result<i64> {
    files::time::parse(text.as_bytes(), files::time::Order::Ymd).map(|stamp| stamp.ns).ok_or_else(|| {
        Error::new(Kind::Usage, format!("`{text}` is not a date"))
            .remedy("write 2024-03-01 or 2024-03-01T09:30, in UTC unless it says otherwise")
    })
}

/// Reads the membership file.
pub(crate) fn membership(path: &Path) -> Result<bars::Membership> {
    bars::Membership::parse(path, &text(path)?)
}

/// Reads the factor file, or every CSV file of a folder.
pub(crate) fn factors(path: &Path) -> Result<bars::Factors> {
    if !path.is_dir() {
        return bars::Factors::parse(path, &text(path)?);
    }
    let listing = std::fs::read_dir(path).map_err(|e| Error::io(path, "reading the folder", &e))?;
    let mut found = Vec::new();
    for entry in listing {
        let file = entry.map_err(|e| Error::io(path, "reading the folder", &e))?.path();
        if file.is_file() && file.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv")) {
            found.push(file);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Error::input("no CSV file with factors is in this folder").at(path));
    }
    let mut all = bars::Factors::default();
    for file in found {
        all.merge(bars::Factors::parse(&file, &text(&file)?)?).map_err(|e| e.at(&file))?;
    }
    Ok(all)
}

fn text(path: &Path) -> Result<String> {
    const MOST: u64 = 256 << 20;
    let bytes = files::read_file(path, MOST)?;
    String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() as u64 + 1;
        Error::input("this is not text in UTF-8").at(path).line(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_utc_unless_they_say_otherwise() {
        for (text, ns) in [
            ("1970-01-02", Some(86_400_000_000_000)),
            ("1970-01-01T01:00", Some(3_600_000_000_000)),
            ("1970-01-01T01:00+01:00", Some(0)),
            ("yesterday", None),
            ("", None),
            ("2024-02-30", None),
        ] {
            assert_eq!(instant(text).ok(), ns, "{text}");
        }
    }
}
