//! For hours: fuzzing, killing the store while it writes, several writers of one name, killing training while it
//! trains, its memory over many updates, flipping bits of a model. The outcome is a row in `bench/SOAK.md`.

mod flips;
mod fuzz;
mod kill;
mod memory;
mod train;
mod writers;

pub use flips::run_flips;
pub use fuzz::run_all as fuzz;
pub use kill::run_kill_rounds as kill;
pub use memory::run_memory;
pub use train::run_kills;
pub use writers::run_writers as writers;

use crate::{Result, root};
use std::fs;
use std::path::Path;

/// Adds a row above `<!-- /kind -->`.
fn note(kind: &str, row: &str) -> Result<()> {
    let file = root().join("bench/SOAK.md");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}.", file.display()))?;
    let mark = format!("<!-- /{kind} -->");
    let at = text.find(&mark).ok_or_else(|| format!("bench/SOAK.md has no `{mark}` to put the row above."))?;
    fs::write(&file, format!("{}{row}\n{}", &text[..at], &text[at..])).map_err(|e| format!("{}: {e}.", file.display()))
}

/// `--name value` pairs.
struct Flags<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Flags<'a> {
    fn read(words: &[&'a str], known: &[&str]) -> Result<Flags<'a>> {
        let mut flags = Vec::new();
        for pair in words.chunks(2) {
            match pair {
                [name, value] if known.contains(name) => flags.push((*name, *value)),
                [name, ..] if known.contains(name) => return Err(format!("{name} needs a value.")),
                _ => return Err(format!("`{}` is not known here; there are {}.", pair[0], known.join(", "))),
            }
        }
        Ok(Flags(flags))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    fn number(&self, name: &str, default: f64) -> Result<f64> {
        let Some(text) = self.get(name) else { return Ok(default) };
        text.parse().ok().filter(|n: &f64| *n > 0.0).ok_or_else(|| format!("{name} {text}: give a number above zero."))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}
