//! `data list`: what is in the catalogue.

use crate::data_folder;
use bars::store::Entry;
use files::Result;
use serde::Serialize;
use std::path::PathBuf;

/// Which catalogue.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Its folder; `None` takes the one at home.
    pub folder: Option<PathBuf>,
}

/// What is in it.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// The folder of the catalogue.
    pub folder: String,
    /// Sorted by name.
    pub entries: Vec<Entry>,
}

/// Lists the catalogue; one that is not there yet is empty.
pub fn list(request: &List) -> Result<Listed> {
    let folder = match &request.folder {
        Some(folder) => folder.clone(),
        None => data_folder()?,
    };
    let mut entries = bars::store::list_sets(&folder)?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Listed { folder: folder.display().to_string(), entries })
}
