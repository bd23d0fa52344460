//! From a path to rows: which files there are, what they hold, and their rows handed on in order.
//!
//! A folder is walked in sorted order. Small files are recognised and parsed side by side, one thread each; a large
//! text file is parsed by all threads together. Either way rows arrive in the same order, so that the result does not
//! depend on the threads.

mod arrays;
mod coerce;
pub(crate) mod lean;
mod qlib;
mod reader;

use crate::audit::{Audit, LeftOut};
use crate::series::Intake;
use crate::{Market, Options};
use files::{Caps, Error, Kind, Result, Source};
use rayon::prelude::*;
pub(crate) use reader::FileMeta;
use reader::{Event, Reader, read_file};
use std::path::{Path, PathBuf};

/// Text files above this size are parsed by all threads together.
const LARGE: u64 = 32 << 20;

/// How far a long piece of work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done: `reading`, `ordering`, `writing`.
    pub phase: &'static str,
    /// How much is done.
    pub done: u64,
    /// Of how much.
    pub total: u64,
    /// `bytes`, `files` or `bars`.
    pub unit: &'static str,
}

/// Reads everything behind a path into memory, repaired as the options say, with its audit.
pub fn read(path: &Path, options: &Options, progress: &(dyn Fn(Progress) + Sync)) -> Result<(Market, Audit)> {
    let intake = read_into(path, options, None, progress)?;
    crate::series::to_market(intake, options, progress)
}

/// Reads rows into an intake; with a folder for scratch files it may be larger than memory.
pub(crate) fn read_into(
    path: &Path,
    options: &Options,
    scratch: Option<&Path>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Intake> {
    if let Some(zone) = &options.timezone
        && crate::recognise::Zone::parse(zone).is_none()
    {
        return Err(Error::new(Kind::Usage, format!("`{zone}` is not a time zone"))
            .remedy("write an IANA name such as America/New_York, an offset such as +05:30, UTC, or New_York+7 for MetaTrader brokers"));
    }
    let mut intake = Intake::new(options.clone(), scratch.map(Path::to_path_buf));
    let files = find_files(path)?;
    let single = files.alone;
    let total: u64 = files.paths.iter().map(|f| f.1).sum();
    let mut done = 0;
    let report = |done: u64| progress(Progress { phase: "reading", done, total, unit: "bytes" });
    let mut at = 0;
    while at < files.paths.len() {
        options.check_stop()?;
        // A run of small files at a time, so that memory stays bounded and order is kept.
        let mut upto = at;
        let mut bytes = 0;
        while upto < files.paths.len() && files.paths[upto].1 < LARGE && bytes < 4 * LARGE && upto - at < 256 {
            bytes += files.paths[upto].1;
            upto += 1;
        }
        if upto - at <= 1 {
            let (path, size) = &files.paths[at];
            let mut heads = Vec::new();
            let threads = options.threads.max(1);
            let outcome = read_file(path, options, threads, scratch.is_some(), &mut |event| match event {
                Event::Begin(meta) => {
                    heads.push(intake.add_file(*meta));
                    Ok(())
                }
                Event::Part(part) => intake.add_part(heads[heads.len() - 1], *part),
                Event::Bytes(n) => {
                    options.check_stop()?;
                    report((done + n).min(total));
                    Ok(())
                }
            });
            keep_or_leave_out(outcome, path, single, &mut intake)?;
            done += size;
            at += 1;
        } else {
            let chunk = &files.paths[at..upto];
            let pool = crate::series::build_thread_pool(options.threads)?;
            let loaded: Vec<(Result<()>, Vec<Event>)> = pool.install(|| {
                chunk
                    .par_iter()
                    .map(|(path, _)| {
                        let mut events = Vec::new();
                        let outcome = read_file(path, options, 1, scratch.is_some(), &mut |event| {
                            options.check_stop()?;
                            if !matches!(event, Event::Bytes(_)) {
                                events.push(event);
                            }
                            Ok(())
                        });
                        (outcome, events)
                    })
                    .collect()
            });
            for ((path, size), (outcome, events)) in chunk.iter().zip(loaded) {
                // A file that failed half-way must not leave half of its rows behind.
                if outcome.is_ok() {
                    let mut head = 0;
                    for event in events {
                        match event {
                            Event::Begin(meta) => head = intake.add_file(*meta),
                            Event::Part(part) => intake.add_part(head, *part)?,
                            Event::Bytes(_) => {}
                        }
                    }
                }
                keep_or_leave_out(outcome, path, single, &mut intake)?;
                done += size;
                report(done);
            }
            at = upto;
        }
    }
    intake.bytes = total;
    intake.left_out.extend(files.left_out);
    if intake.is_empty() {
        let first = intake.left_out.first().map(|l| format!("; {}: {}", l.file, l.why)).unwrap_or_default();
        return Err(Error::input(format!("no file with bars was found{first}"))
            .at(path)
            .remedy("point at a file or folder with bars"));
    }
    Ok(intake)
}

/// A file that holds no bars is left out of a folder, aloud; pointed at directly it is an error. The machine's and the
/// user's own faults always are.
fn keep_or_leave_out(outcome: Result<()>, path: &Path, single: bool, intake: &mut Intake) -> Result<()> {
    match outcome {
        Err(error) if !single && error.kind == Kind::Input => {
            let line = error.line.map(|l| format!(" (line {l})")).unwrap_or_default();
            intake.left_out.push(LeftOut { file: path.display().to_string(), why: format!("{}{line}", error.message) });
            Ok(())
        }
        other => other,
    }
}

struct FoundFiles {
    paths: Vec<(PathBuf, u64)>,
    left_out: Vec<LeftOut>,
    alone: bool,
}

/// The files behind a path, sorted.
fn find_files(path: &Path) -> Result<FoundFiles> {
    let meta = std::fs::metadata(path).map_err(|e| Error::io(path, "opening", &e))?;
    let mut found = FoundFiles { paths: Vec::new(), left_out: Vec::new(), alone: meta.is_file() };
    if meta.is_file() || qlib::is_qlib(path) {
        let size = if meta.is_file() { meta.len() } else { 0 };
        found.alone = true;
        found.paths.push((path.to_path_buf(), size));
        return Ok(found);
    }
    descend(path, 0, &mut found)?;
    if found.paths.is_empty() {
        return Err(Error::input("the folder holds no files").at(path).remedy("point at a file or folder with bars"));
    }
    Ok(found)
}

fn descend(folder: &Path, depth: usize, found: &mut FoundFiles) -> Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io(folder, "listing", &e))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        // Links are followed for files only: a link to a folder above would never end.
        let link = std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_symlink());
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        if meta.is_dir() && !link && depth < 16 {
            if qlib::is_qlib(&path) {
                found.paths.push((path, 0));
            } else {
                descend(&path, depth + 1, found)?;
            }
        } else if meta.is_file() {
            let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
            let parent = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if parent == "factor_files" || parent == "map_files" {
                let why = if parent == "factor_files" {
                    "LEAN factors: universe.factors takes the folder"
                } else {
                    "LEAN ticker renames"
                };
                found.left_out.push(LeftOut { file: path.display().to_string(), why: why.into() });
            } else if ["md", "py", "toml", "html", "png", "ipynb", "log", "lock", "rs", "yml", "yaml"]
                .contains(&ending.as_str())
                || name == "catalogue.json"
                || name == "manifest.json"
            {
                found
                    .left_out
                    .push(LeftOut { file: path.display().to_string(), why: "not a data file, by its ending".into() });
            } else {
                found.paths.push((path, meta.len()));
            }
        }
    }
    Ok(())
}

/// Reads bytes as if they were a file of that name: what a fuzzer and a test need.
pub fn read_bytes(name: &str, bytes: &[u8], options: &Options) -> Result<(Market, Audit)> {
    let mut intake = Intake::new(options.clone(), None);
    let source = Source::from_bytes(name, bytes.to_vec());
    let reader = Reader { caps: Caps::default(), options, threads: 1, streaming: false, modified: None };
    let mut head = 0;
    reader.read_source(&source, None, &mut |event| match event {
        Event::Begin(meta) => {
            head = intake.add_file(*meta);
            Ok(())
        }
        Event::Part(part) => intake.add_part(head, *part),
        Event::Bytes(_) => Ok(()),
    })?;
    intake.bytes = bytes.len() as u64;
    crate::series::to_market(intake, options, &|_| {})
}
