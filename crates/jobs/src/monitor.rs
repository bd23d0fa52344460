//! `monitor`: a run watched from outside, by its folder alone.
//!
//! Nothing is asked of the process that trains, and nothing is written. Each look reads what has been added to the log,
//! asks the folder how the run stands, and takes what the sampler saw in the meantime.

use files::{Error, Result};
use machine::Sampler;
use report::{Follow, RunSummary, Standing, Watch};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A run under watch.
pub struct Monitor {
    folder: PathBuf,
    follow: Follow,
    sampler: Option<Sampler>,
    seen: f64, // of the sampler
    watch: Watch,
}

impl Monitor {
    /// Finds the run: a folder, a name under `runs/`, the newest of a folder of runs, or the newest under `runs/`. Then
    /// looks once.
    pub fn open(run: Option<&Path>) -> Result<Monitor> {
        let folder = find(run)?;
        let follow = Follow::new(&report::log_path(&folder));
        let mut monitor = Monitor { folder, follow, sampler: None, seen: 0.0, watch: Watch::default() };
        monitor.look();
        Ok(monitor)
    }

    /// What is known.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Looks at the folder and the machine. What cannot be read becomes part of what is known.
    pub fn look(&mut self) {
        let watch = &mut self.watch;
        watch.now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        watch.gone = !self.folder.join("run.json").exists();
        if watch.gone {
            return;
        }
        watch.run = Some(RunSummary::of(&self.folder));
        match self.follow.look(&mut |row| watch.take(row)) {
            Ok(followed) => (watch.skipped, watch.problem) = (followed.skipped, None),
            Err(why) => watch.problem = Some(why.to_string()),
        }
        match watch.run.as_ref().map(|r| r.standing.clone()) {
            Some(Standing::Running(holder)) => {
                watch.result = None;
                watch.here = holder.here();
                if watch.here {
                    let sampler = self.sampler.get_or_insert_with(|| Sampler::start(Duration::from_secs(1)));
                    if holder.pid > 0 {
                        sampler.watch(holder.pid);
                    }
                }
            }
            // A run that has ended needs no look at the machine.
            _ => {
                (self.sampler, self.seen) = (None, 0.0);
                if watch.result.is_none() {
                    let text = std::fs::read(self.folder.join("result.json")).ok();
                    watch.result = text.and_then(|t| serde_json::from_slice(&t).ok());
                }
            }
        }
        let late = self.sampler.as_ref().map_or_else(Vec::new, |sampler| sampler.since(self.seen));
        for sample in late {
            self.seen = sample.at_seconds;
            watch.sample(sample);
        }
    }

    /// Waits until the machine was seen once, two seconds at most; at once where there is nothing to wait for.
    pub fn settle(&mut self) {
        if let Some(sampler) = &self.sampler {
            sampler.wait(self.seen, Duration::from_secs(2));
            self.look();
        }
    }
}

fn find(run: Option<&Path>) -> Result<PathBuf> {
    let runs = Path::new("runs");
    let is = |folder: &Path| folder.join("run.json").is_file();
    let newest = |runs: &Path| report::list(runs).map(|all| all.into_iter().next().map(|run| run.folder));
    let remedy = "start one with `fullbore train DATA`; `fullbore runs list FOLDER` shows the runs of a folder";
    let Some(run) = run else {
        return newest(runs)?.ok_or_else(|| Error::input("there is no run under runs/ yet").at(runs).remedy(remedy));
    };
    if is(run) {
        return Ok(run.to_path_buf());
    }
    if is(&runs.join(run)) {
        return Ok(runs.join(run));
    }
    let within = if run.is_dir() { newest(run)? } else { None };
    within.ok_or_else(|| Error::input("there is no run here, nor under runs/ by that name").at(run).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Run, RunState};

    #[test]
    fn a_run_is_found_by_path_and_in_its_folder_and_its_end_is_seen() {
        let runs = tempfile::tempdir().expect("a folder");
        let make = |name: &str, started: &str| {
            let folder = runs.path().join(name);
            std::fs::create_dir(&folder).expect("made");
            let run = Run { started: started.into(), ..Run::begin("train") };
            run.write(&folder).expect("written");
            (folder, run)
        };
        make("old", "2026-01-01T00:00:00Z");
        let (folder, mut run) = make("new", "2026-01-02T00:00:00Z");
        let name = |run: &Path| Monitor::open(Some(run)).map(|m| m.watch().run.as_ref().expect("a run").name.clone());
        assert_eq!(name(runs.path()).expect("found"), "new");
        assert_eq!(name(&runs.path().join("old")).expect("found"), "old");
        let error = name(&runs.path().join("none")).expect_err("there is none");
        assert!(error.remedy.is_some() && error.kind == files::Kind::Input, "{error}");

        let mut monitor = Monitor::open(Some(&folder)).expect("found");
        assert_eq!(monitor.watch().standing().0, "crashed");
        let lock = files::Lock::take(&folder).expect("free");
        monitor.look();
        assert!(monitor.watch().running() && monitor.watch().here);
        monitor.settle();
        let sample = monitor.watch().samples.back().expect("the machine was looked at");
        assert!(sample.process_memory_bytes.is_some_and(|b| b > 0), "{sample:?}");
        run.end(RunState::Finished);
        run.write(&folder).expect("written");
        std::fs::write(folder.join("result.json"), "{\"judged\": {\"mcc\": 0.5}}").expect("written");
        drop(lock);
        monitor.look();
        assert_eq!(monitor.watch().standing().0, "finished");
        assert_eq!(monitor.watch().result.as_ref().map(|r| r["judged"]["mcc"].clone()), Some(0.5.into()));
        std::fs::remove_dir_all(&folder).expect("removed");
        monitor.look();
        assert_eq!(monitor.watch().standing().0, "gone");
    }
}
