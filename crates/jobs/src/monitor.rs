//! `monitor`: a run watched from outside, by its folder alone.
//!
//! Nothing is asked of the process that trains, and nothing is written. Each look reads what has been added to the log,
//! asks the folder how the run stands, and takes what the sampler saw in the meantime.

use crate::runs::{RUNS, find_run, is_run};
use files::{Error, Result};
use machine::Sampler;
use report::{LogFollower, MonitorState, RunStatus, RunSummary};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A run under watch.
pub struct Monitor {
    folder: PathBuf,
    log: LogFollower,
    sampler: Option<Sampler>,
    sampled_until: f64, // of the sampler
    state: MonitorState,
}

impl Monitor {
    /// Finds the run: a folder, a name under `runs/`, the newest of a folder of runs, or the newest under `runs/`. Then
    /// looks once.
    pub fn open(run: Option<&Path>) -> Result<Monitor> {
        let folder = watched_run(run)?;
        let follow = LogFollower::new(&report::log_path(&folder));
        let mut monitor =
            Monitor { folder, log: follow, sampler: None, sampled_until: 0.0, state: MonitorState::default() };
        monitor.refresh();
        Ok(monitor)
    }

    /// What is known.
    pub fn state(&self) -> &MonitorState {
        &self.state
    }

    /// Looks at the folder and the machine. What cannot be read becomes part of what is known.
    pub fn refresh(&mut self) {
        let watch = &mut self.state;
        watch.now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        watch.gone = !self.folder.join("run.json").exists();
        if watch.gone {
            return;
        }
        watch.run = Some(RunSummary::read(&self.folder));
        match self.log.read_new_rows(&mut |row| watch.add_row(row)) {
            Ok(followed) => (watch.skipped, watch.problem) = (followed.skipped, None),
            Err(why) => watch.problem = Some(why.to_string()),
        }
        match watch.run.as_ref().map(|r| r.status.clone()) {
            Some(RunStatus::Running(holder)) => {
                watch.result = None;
                watch.on_this_machine = holder.is_on_this_machine();
                if watch.on_this_machine {
                    let sampler = self.sampler.get_or_insert_with(|| Sampler::start(Duration::from_secs(1)));
                    if holder.pid > 0 {
                        sampler.follow_process(holder.pid);
                    }
                }
            }
            // A run that has ended needs no look at the machine.
            _ => {
                (self.sampler, self.sampled_until) = (None, 0.0);
                if watch.result.is_none() {
                    let text = files::read_file(&self.folder.join("result.json"), 256 << 20).ok();
                    watch.result = text.and_then(|t| serde_json::from_slice(&t).ok());
                }
            }
        }
        let late = self.sampler.as_ref().map_or_else(Vec::new, |sampler| sampler.samples_since(self.sampled_until));
        for sample in late {
            self.sampled_until = sample.at_seconds;
            watch.add_sample(sample);
        }
    }

    /// Waits until the machine was seen once, two seconds at most; at once where there is nothing to wait for.
    pub fn wait_for_sample(&mut self) {
        if let Some(sampler) = &self.sampler {
            sampler.wait_for_sample(self.sampled_until, Duration::from_secs(2));
            self.refresh();
        }
    }
}

fn watched_run(run: Option<&Path>) -> Result<PathBuf> {
    let runs = Path::new(RUNS);
    let newest = |runs: &Path| report::list_runs(runs).map(|all| all.into_iter().next().map(|run| run.folder));
    let Some(run) = run else {
        let remedy = "start one with `fullbore train DATA`; `fullbore runs list FOLDER` shows the runs of a folder";
        return newest(runs)?.ok_or_else(|| Error::input("there is no run under runs/ yet").at(runs).remedy(remedy));
    };
    let within = if run.is_dir() && !is_run(run) { newest(run)? } else { None };
    within.map_or_else(|| find_run(run), Ok)
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
        let name = |run: &Path| Monitor::open(Some(run)).map(|m| m.state().run.as_ref().expect("a run").name.clone());
        assert_eq!(name(runs.path()).expect("found"), "new");
        assert_eq!(name(&runs.path().join("old")).expect("found"), "old");
        let error = name(&runs.path().join("none")).expect_err("there is none");
        assert!(error.remedy.is_some() && error.kind == files::Kind::Input, "{error}");

        let mut monitor = Monitor::open(Some(&folder)).expect("found");
        assert_eq!(monitor.state().describe_status().0, "crashed");
        let lock = files::Lock::acquire(&folder).expect("free");
        monitor.refresh();
        assert!(monitor.state().is_running() && monitor.state().on_this_machine);
        monitor.wait_for_sample();
        let sample = monitor.state().samples.back().expect("the machine was looked at");
        assert!(sample.process_memory_bytes.is_some_and(|b| b > 0), "{sample:?}");
        run.end(RunState::Finished);
        run.write(&folder).expect("written");
        std::fs::write(folder.join("result.json"), "{\"judged\": {\"mcc\": 0.5}}").expect("written");
        drop(lock);
        monitor.refresh();
        assert_eq!(monitor.state().describe_status().0, "finished");
        assert_eq!(monitor.state().result.as_ref().map(|r| r["judged"]["mcc"].clone()), Some(0.5.into()));
        std::fs::remove_dir_all(&folder).expect("removed");
        monitor.refresh();
        assert_eq!(monitor.state().describe_status().0, "gone");
    }
}
