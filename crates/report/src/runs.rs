//! What a run says of itself: `run.json` in its folder, replaced in one piece whenever something about the run changes.
//!
//! The file says how the run *thinks* it stands; whether a run that says `running` still runs is told by the lock of
//! its folder ([`files::Lock`]), which dies with its process. So a killed run is seen as crashed without anybody having
//! written that down. A run takes the lock before it first writes the file, and lets it go after it last did.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use files::{Error, Holder, Kind, Lock, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::log::now;

const FILE: &str = "run.json";
const SCHEMA: &str = "run/1";
/// No `run.json` is longer.
const LONGEST: u64 = 1 << 20;

/// How a run says it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It has begun and not ended.
    Running,
    /// It has done all it set out to do.
    Finished,
    /// The user stopped it; it has saved.
    Interrupted,
    /// It ended with an error.
    Failed,
}

/// The best there is so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BestMember {
    /// Which member: `fold 2, seed 1`.
    pub member: String,
    /// By which measure: `valid mcc`.
    pub measure: String,
    /// Its value; null where it is not finite.
    pub value: Option<f64>,
    /// In which epoch.
    pub epoch: u64,
}

/// What a run says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// `run/1`.
    pub schema: String,
    /// How it stands.
    pub state: RunState,
    /// The verb it is: `train`.
    pub verb: String,
    /// When it began, RFC 3339 UTC.
    pub started: String,
    /// When it ended, RFC 3339 UTC; null while it runs.
    pub ended: Option<String>,
    /// Version of the program.
    pub program: String,
    /// Fingerprint of the data.
    pub data: String,
    /// What it runs on: `cuda:0 NVIDIA H200`.
    pub device: String,
    /// Hash of the settings that change a bit.
    pub settings: String,
    /// Number of members.
    pub members: u64,
    /// The best so far; null before there is one.
    pub best: Option<BestMember>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What else a verb wants to say.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub more: Map<String, Value>,
}

impl Run {
    /// A run of that verb that begins now; the rest is for the caller to fill in.
    pub fn begin(verb: &str) -> Run {
        Run {
            schema: SCHEMA.into(),
            state: RunState::Running,
            verb: verb.into(),
            started: now(),
            ended: None,
            program: env!("CARGO_PKG_VERSION").into(),
            data: String::new(),
            device: String::new(),
            settings: String::new(),
            members: 0,
            best: None,
            problem: None,
            more: Map::new(),
        }
    }

    /// Runs again after an interruption: when it began stays, that it ended goes.
    pub fn resume(&mut self) {
        (self.state, self.ended, self.problem) = (RunState::Running, None, None);
        self.program = env!("CARGO_PKG_VERSION").into();
    }

    /// Ends now.
    pub fn end(&mut self, state: RunState) {
        (self.state, self.ended) = (state, Some(now()));
    }

    /// Puts it into the run's folder, in the place of what was there.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::new(Kind::State, format!("writing JSON: {e}")).at(&path))?;
        text.push(b'\n');
        files::replace_bytes(&path, &text)
    }

    /// Reads that of a folder.
    pub fn read(folder: &Path) -> Result<Run> {
        #[derive(Deserialize)]
        struct Any {
            schema: String,
        }
        let path = folder.join(FILE);
        let fail = |e: std::io::Error| match e.kind() {
            ErrorKind::NotFound => Error::input("this folder is not a run: it has no run.json")
                .at(folder)
                .remedy("name a folder that `fullbore train` made; `fullbore runs list` shows them"),
            _ => Error::io(&path, "reading the run", &e),
        };
        let state = |message: String| {
            Error::new(Kind::State, message).at(&path).remedy("restore the file from a copy, or start a new run")
        };
        fs::metadata(&path).map_err(fail)?;
        let text = files::read_file(&path, LONGEST).map_err(|e| match e.kind {
            Kind::Input => state(e.message),
            _ => e,
        })?;
        let damaged = |e: serde_json::Error| state(format!("the file cannot be read: {e}"));
        let any: Any = serde_json::from_slice(&text).map_err(damaged)?;
        if any.schema != SCHEMA {
            let shown: String = any.schema.chars().take(40).collect();
            let message = format!("the run has schema `{shown}`, this program reads `{SCHEMA}`");
            return Err(Error::new(Kind::State, message).at(&path).remedy("use the version that made the run"));
        }
        serde_json::from_slice(&text).map_err(damaged)
    }
}

/// How a run stands, as seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStatus {
    /// That process works on it.
    Running(Holder),
    /// It has done all it set out to do.
    Finished,
    /// The user stopped it; it can go on.
    Interrupted,
    /// It ended with an error.
    Failed,
    /// It says that it runs, but nobody does: it was killed, or the machine went down.
    Crashed,
    /// Its `run.json` cannot be read; why.
    Unreadable(String),
}

/// A run in a folder of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Name of its folder.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What it says of itself; none where that cannot be read.
    pub run: Option<Run>,
    /// How it stands.
    pub status: RunStatus,
}

impl RunSummary {
    /// One run.
    pub fn read(folder: &Path) -> RunSummary {
        let mut read = Run::read(folder);
        let running = |run: &Result<Run>| matches!(run, Ok(run) if run.state == RunState::Running);
        let holder = if running(&read) { Lock::holder(folder) } else { None };
        // It may have ended between the two looks: then it has said so.
        if running(&read) && holder.is_none() {
            read = Run::read(folder);
        }
        let standing = match (&read, holder) {
            (Ok(run), holder) => match (run.state, holder) {
                (RunState::Running, Some(holder)) => RunStatus::Running(holder),
                (RunState::Running, None) => RunStatus::Crashed,
                (RunState::Finished, _) => RunStatus::Finished,
                (RunState::Interrupted, _) => RunStatus::Interrupted,
                (RunState::Failed, _) => RunStatus::Failed,
            },
            (Err(error), _) => RunStatus::Unreadable(error.to_string()),
        };
        let name = folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        RunSummary { name, folder: folder.to_path_buf(), run: read.ok(), status: standing }
    }

    /// How it stands, in words, and what can be done.
    pub fn describe(&self) -> String {
        let resume = format!("resume with `fullbore runs resume {}`", self.folder.display());
        match &self.status {
            RunStatus::Running(holder) => format!("running ({holder})"),
            RunStatus::Finished => "finished".into(),
            RunStatus::Interrupted => format!("interrupted ({resume})"),
            RunStatus::Crashed => format!("crashed ({resume})"),
            RunStatus::Failed => match self.run.as_ref().and_then(|r| r.problem.as_ref()) {
                Some(why) => format!("failed: {why}"),
                None => "failed".into(),
            },
            RunStatus::Unreadable(why) => format!("unreadable: {why}"),
        }
    }
}

/// The runs in a folder, the newest first; those that cannot be read last. Folders without a `run.json` are none. Where
/// there is no such folder there are no runs.
pub fn list_runs(runs: &Path) -> Result<Vec<RunSummary>> {
    let entries = match fs::read_dir(runs) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(runs, "looking for runs", &e)),
    };
    let folders = entries.flatten().map(|e| e.path()).filter(|path| path.join(FILE).is_file());
    let mut found: Vec<RunSummary> = folders.map(|folder| RunSummary::read(&folder)).collect();
    found.sort_by(|a, b| {
        let began = |s: &RunSummary| s.run.as_ref().map(|r| r.started.clone());
        began(b).cmp(&began(a)).then_with(|| a.name.cmp(&b.name))
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(runs: &Path, name: &str, started: &str, state: RunState) -> PathBuf {
        let folder = runs.join(name);
        fs::create_dir_all(&folder).expect("made");
        let mut run = Run { started: started.into(), members: 8, ..Run::begin("train") };
        if state != RunState::Running {
            run.end(state);
        }
        run.best =
            Some(BestMember { member: "fold 1".into(), measure: "valid mcc".into(), value: Some(0.25), epoch: 3 });
        run.write(&folder).expect("written");
        assert_eq!(Run::read(&folder).expect("read"), run);
        folder
    }

    #[test]
    fn list_shows_the_state_of_each_run() {
        let runs = tempfile::tempdir().expect("a folder");
        let runs = runs.path();
        assert_eq!(list_runs(&runs.join("none")).expect("none"), []);
        make(runs, "a", "2026-01-01T00:00:00Z", RunState::Finished);
        make(runs, "b", "2026-01-03T00:00:00Z", RunState::Interrupted);
        let killed = make(runs, "c", "2026-01-02T00:00:00Z", RunState::Running);
        fs::write(killed.join(".lock"), "{\"pid\":1,\"boot\":\"x\",\"start\":7,\"since\":\"\"}").expect("written");
        let alive = make(runs, "d", "2026-01-04T00:00:00Z", RunState::Running);
        let lock = Lock::acquire(&alive).expect("free");
        let failed = make(runs, "e", "2026-01-01T00:00:00Z", RunState::Failed);
        let run = Run { problem: Some("no memory".into()), ..Run::read(&failed).expect("read") };
        run.write(&failed).expect("written");
        fs::create_dir(runs.join("no run")).expect("made");
        fs::create_dir(runs.join("broken")).expect("made");
        fs::write(runs.join("broken/run.json"), "{\"schema\": \"run/1\", ").expect("written");
        fs::write(runs.join("file"), "").expect("written");
        let found = list_runs(runs).expect("listed");
        let names: Vec<&str> = found.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["d", "b", "c", "a", "e", "broken"]);
        let words: Vec<String> = found.iter().map(RunSummary::describe).collect();
        assert!(words[0].starts_with(&format!("running (process {}", std::process::id())), "{words:?}");
        assert!(words[1].starts_with("interrupted (resume with `fullbore runs resume "), "{words:?}");
        assert!(words[2].starts_with("crashed (resume with `fullbore runs resume ") && words[2].ends_with("c`)"));
        assert_eq!((words[3].as_str(), words[4].as_str()), ("finished", "failed: no memory"));
        assert!(words[5].starts_with("unreadable: ") && found[5].run.is_none(), "{words:?}");
        drop(lock);
        assert_eq!(RunSummary::read(&alive).status, RunStatus::Crashed);
    }

    #[test]
    fn another_schema_is_refused_and_a_missing_file_explained() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Run::read(folder.path()).expect_err("no run");
        assert!(error.kind == Kind::Input && error.remedy.is_some(), "{error}");
        fs::write(folder.path().join(FILE), "{\"schema\": \"run/9\"}").expect("written");
        let error = Run::read(folder.path()).expect_err("newer");
        assert!(error.kind == Kind::State && error.message.contains("run/9"), "{error}");
        fs::write(folder.path().join(FILE), vec![b' '; 2 << 20]).expect("written");
        assert_eq!(Run::read(folder.path()).expect_err("long").kind, Kind::State);
    }

    #[test]
    fn a_number_that_is_not_finite_does_not_spoil_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut run = Run::begin("train");
        run.best = Some(BestMember { member: String::new(), measure: "mcc".into(), value: Some(f64::NAN), epoch: 1 });
        run.end(RunState::Failed);
        run.resume();
        run.write(folder.path()).expect("written");
        let read = Run::read(folder.path()).expect("read");
        assert_eq!((read.state, read.ended, read.best.expect("best").value), (RunState::Running, None, None));
    }
}
