//! Where Fullbore keeps what outlives a run: the catalogue of data now, the run index and the ledger later.

use crate::os;
use files::{Error, Kind, Result};
use std::path::PathBuf;

/// `FULLBORE_HOME`, else our folder in the platform's place for data of programs. It is not made here.
pub fn home() -> Result<PathBuf> {
    match std::env::var_os("FULLBORE_HOME").filter(|v| !v.is_empty()) {
        Some(path) => std::path::absolute(&path).map_err(|e| Error::io(path.as_ref(), "finding FULLBORE_HOME", &e)),
        None => Ok(os::data_home()
            .ok_or_else(|| {
                Error::new(Kind::Machine, "this account has no home folder")
                    .remedy("set FULLBORE_HOME to a folder that you can write")
            })?
            .join("fullbore")),
    }
}

/// The folder of the catalogue: `data` at home.
pub fn data_folder() -> Result<PathBuf> {
    Ok(home()?.join("data"))
}
