//! `report`: a run as one page and as data, from its folder alone.
//!
//! `gather` reads what the run wrote (`run.json`, `result.json`, `log.jsonl`, `backtest/`), whatever of it there is: a
//! run that was cut, has no prices or is of an earlier version has a page too. `series` derives what charts need,
//! `page` and `sections` put it in order: the answer first, then what it rests on.

mod gather;
mod page;
mod sections;
mod series;

pub(crate) use gather::SavedPhase;
pub(crate) use sections::phase_table;

use crate::runs::find_run;
use crate::train::write_json;
use files::Result;
use gather::Gathered;
use serde::Serialize;
use std::path::Path;

/// Where the report of a run is.
#[derive(Debug, Clone, Serialize)]
pub struct Reported {
    /// The run's folder.
    pub folder: String,
    /// The page.
    pub page: String,
    /// Its bytes.
    pub bytes: u64,
    /// What the page shows, as data.
    pub data: String,
    /// The answer that the page opens with.
    pub verdict: String,
    /// The sentence below it.
    pub sentence: String,
}

/// Writes `report.html` and `report.json` into a run's folder.
pub fn report_run(run: &Path) -> Result<Reported> {
    let folder = find_run(run)?;
    let gathered = Gathered::read(&folder)?;
    let answer = page::answer(&gathered);
    let (page, data) = (folder.join("report.html"), folder.join("report.json"));
    let html = page::page(&gathered, &answer).html();
    files::replace_bytes(&page, html.as_bytes())?;
    write_json(&data, &gathered)?;
    Ok(Reported {
        folder: folder.display().to_string(),
        page: page.display().to_string(),
        bytes: html.len() as u64,
        data: data.display().to_string(),
        verdict: answer.title,
        sentence: answer.text,
    })
}
