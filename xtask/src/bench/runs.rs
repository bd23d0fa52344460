//! Processes whose JSON is kept, so that a benchmark that was cut off goes on where it was, and so that cases measured
//! one by one make one section.
//!
//! With `--keep FILE` every object is a line of that file under its round and command line, and a process that is in it
//! is not started again.

use super::nets::BenchFlags;
use crate::Result;
use crate::process::{last_json, measure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

pub(super) struct Runs {
    file: Option<PathBuf>,
    kept: BTreeMap<String, Value>,
}

impl Runs {
    pub(super) fn open(flags: &BenchFlags) -> Result<Runs> {
        let mut kept = BTreeMap::new();
        if let Some(file) = flags.keep.as_deref().filter(|file| file.exists()) {
            let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}.", file.display()))?;
            // A line that was cut off is measured again.
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            kept.extend(lines.filter_map(|line| Some((line["key"].as_str()?.to_string(), line["run"].clone()))));
        }
        Ok(Runs { file: flags.keep.clone(), kept })
    }

    /// What the process printed last, in this round or when it was kept.
    pub(super) fn once(&mut self, round: usize, run: &mut Command) -> Result<Value> {
        let key = key(round, run);
        if let Some(made) = self.kept.get(&key) {
            return Ok(made.clone());
        }
        let made = last_json(&measure(run)?.out)?;
        if let Some(file) = &self.file {
            let append = std::fs::File::options().append(true).create(true).open(file);
            let line = format!("{}\n", json!({ "key": key, "run": made }));
            append.and_then(|mut to| to.write_all(line.as_bytes())).map_err(|e| format!("{}: {e}.", file.display()))?;
        }
        Ok(made)
    }
}

/// Round, words and what XLA is told: enough to tell processes of one benchmark apart.
fn key(round: usize, run: &Command) -> String {
    let words = run.get_args().map(|word| word.to_string_lossy().into_owned());
    let flags = run.get_envs().find(|(name, _)| *name == "XLA_FLAGS").and_then(|(_, value)| value);
    let flags = flags.map(|flags| flags.to_string_lossy().into_owned());
    [round.to_string()].into_iter().chain(words).chain(flags).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    #[test]
    fn what_is_kept_is_not_measured_again() {
        let file = std::env::temp_dir().join(format!("fullbore-runs-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let flags = BenchFlags { keep: Some(file.clone()), ..BenchFlags::default() };
        let said = |runs: &mut Runs, round, text: &str| {
            runs.once(round, command("sh").args(["-c", "echo \"{\\\"a\\\": \"${1:-$$}\"}\"", "sh", text])).unwrap()
        };
        let first = said(&mut Runs::open(&flags).unwrap(), 0, "");
        let mut again = Runs::open(&flags).unwrap();
        // A process tells its own number where no other is given.
        assert_eq!(said(&mut again, 0, ""), first);
        assert_ne!(said(&mut again, 1, ""), first);
        assert_eq!(said(&mut again, 0, "7")["a"], 7);
        std::fs::write(&file, "{\"key\": \"0 -c").unwrap();
        assert!(Runs::open(&flags).unwrap().kept.is_empty());
        std::fs::remove_file(&file).unwrap();
    }
}
