//! SIGKILL to `fullbore train` and `fullbore runs resume` at random instants.
//!
//! A run is killed again and again, resumed after each kill, and in the end must be, to the bit, what the same run is
//! when nobody disturbs it: predictions, positions, weights, figures, and a log in which every validation of every
//! member stands once.
//! Runs follow one another until there were enough kills.

use super::{Flags, note};
use crate::process::{build, command, last_json, output};
use crate::{Result, cache, today};
use random::SplitMix;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Kills training so often; false when an end was another one.
pub fn run_kills(flags: &[&str]) -> Result<bool> {
    let flags = Flags::read(flags, &["--times", "--seed", "--learner", "--algorithm", "--fullbore"])?;
    let times = flags.number("--times", 100.0)? as usize;
    let (learner, kind) = learner_of(flags.get("--learner"), flags.get("--algorithm"))?;
    let mut random = SplitMix::new(flags.number("--seed", 1.0)? as u64);
    let fullbore = match flags.get("--fullbore") {
        Some(path) => PathBuf::from(path),
        None => build("fullbore", "fullbore", true)?,
    };
    let place = Place::new(fullbore, "kills", learner)?;
    let start = Instant::now();
    output(&mut place.train("whole"))?;
    let whole = start.elapsed();
    let truth = place.final_files("whole")?;
    println!("one undisturbed run takes {:.2} s; {times} kills", whole.as_secs_f64());

    let (mut tally, mut wrong) = (Tally::default(), Vec::new());
    while tally.kills < times {
        let name = format!("run-{}", tally.runs + 1);
        match place.run_with_kills(&name, times, whole, &mut random, &mut tally).and_then(|()| place.final_files(&name))
        {
            Ok(end) => {
                let differ: Vec<&str> =
                    end.iter().zip(&truth).filter(|(a, b)| a != b).map(|(a, _)| a.0.as_str()).collect();
                if end.len() != truth.len() || !differ.is_empty() {
                    wrong.push(format!("{name} ended otherwise: {}", differ.join(", ")));
                }
            }
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
        tally.runs += 1;
        println!(
            "{} runs, {} kills: {} before the first checkpoint, {} of a run that went on; {} wrong",
            tally.runs,
            tally.kills,
            tally.early,
            tally.kills - tally.early,
            wrong.len()
        );
        if wrong.len() >= 3 {
            break;
        }
    }
    wrong.iter().for_each(|why| println!("{why}"));
    let row = format!(
        "| {} | {} | {} | {} | {} | {} |",
        today::date(),
        tally.kills,
        tally.runs,
        tally.early,
        tally.most,
        wrong.len()
    );
    let row = match learner {
        Learner::Evolved(own) if kind == "evolved-others" => format!("| {own} {row}"),
        _ => row,
    };
    note(kind, &row)?;
    if wrong.is_empty() {
        let _ = fs::remove_dir_all(&place.home);
    } else {
        println!("{} is left as it is", place.home.display());
    }
    Ok(wrong.is_empty())
}

/// What is trained, and the table of `bench/SOAK.md` that its outcome goes into.
fn learner_of(learner: Option<&str>, algorithm: Option<&str>) -> Result<(Learner, &'static str)> {
    match (learner, algorithm) {
        (Some("evolve"), None | Some("openai")) => Ok((Learner::Evolved("openai"), "evolved")),
        (Some("evolve"), Some(own)) => {
            let known = ["sep-cma", "snes", "cem", "pbt"].into_iter().find(|known| *known == own);
            let known = known.ok_or_else(|| format!("--algorithm {own}: give openai, sep-cma, snes, cem or pbt."))?;
            Ok((Learner::Evolved(known), "evolved-others"))
        }
        (_, Some(_)) => Err("--algorithm is of --learner evolve.".into()),
        (None | Some("lstm"), None) => Ok((Learner::Classifier, "train")),
        (Some("ppo"), None) => Ok((Learner::Policy, "policies")),
        (Some(other), None) => Err(format!("--learner {other}: give lstm, ppo or evolve.")),
    }
}

/// What was done.
#[derive(Default)]
struct Tally {
    kills: usize,
    runs: usize,
    early: usize, // before a checkpoint was there
    most: usize,  // kills of one run
}

/// What is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learner {
    /// Four small LSTMs.
    Classifier,
    /// Four small policies.
    Policy,
    /// Four small policies that evolve by an algorithm.
    Evolved(&'static str),
}

/// A market and the runs on it, in the cache folder.
pub(super) struct Place {
    fullbore: PathBuf,
    pub(super) home: PathBuf,
    learner: Learner,
}

impl Place {
    pub(super) fn new(fullbore: PathBuf, name: &str, learner: Learner) -> Result<Place> {
        let home = cache::folder()?.join(format!("{name}-{}", std::process::id()));
        cache::make(&home)?;
        let place = Place { fullbore, home, learner };
        let market = ["data", "synth", "--kind", "crypto", "--timeframe", "5m", "--count", "1", "--bars", "5000"];
        output(place.fullbore().args(market).args(["--plant", "--name", "coin", "--seed", "7"]))?;
        Ok(place)
    }

    pub(super) fn fullbore(&self) -> Command {
        let mut fullbore = command(&self.fullbore);
        fullbore.current_dir(&self.home).env("FULLBORE_HOME", self.home.join("home")).stdin(Stdio::null());
        fullbore
    }

    /// A small population with a checkpoint after every epoch or update.
    pub(super) fn train(&self, out: &str) -> Command {
        let mut train = match self.learner {
            Learner::Classifier => self.train_classifier(out),
            Learner::Policy => self.train_policy(out, 8, 32, 8 * 32 * 60),
            Learner::Evolved(algorithm) => self.train_evolved(out, algorithm, 60),
        };
        train.args(["--set", "train.checkpoint=1"]);
        train
    }

    fn train_classifier(&self, out: &str) -> Command {
        let mut train = self.train_anything(out);
        train.args(["--net", "fast:3x12-lstm12 / 8 / direction:3", "--labels", "fixed(1)", "--batch-size", "128"]);
        train.args(["--seeds", "2", "--epochs", "25", "--patience", "25", "--set", "label.cost_bp=0"]);
        train
    }

    /// Policies with a reward that remembers, over so many steps of all accounts of one.
    pub(super) fn train_policy(&self, out: &str, accounts: u64, steps: u64, timesteps: u64) -> Command {
        let mut train = self.train_anything(out);
        train.args(["--learner", "ppo", "--net", "16t-16t", "--seeds", "2", "--reward", "sharpe"]);
        train.args(["--set", "ppo.episode=100", "--patience", "1000000", "--timesteps", &timesteps.to_string()]);
        train.args(["--n-envs", &accounts.to_string(), "--n-steps", &steps.to_string()]);
        train
    }

    /// Evolved policies over so many generations of 64 individuals with 4 accounts of 64 steps; populations of pbt over
    /// as many updates of 4 policies with 8 accounts of 32 steps.
    fn train_evolved(&self, out: &str, algorithm: &str, generations: u64) -> Command {
        let mut train = self.train_anything(out);
        let [population, accounts, steps] = if algorithm == "pbt" { [4, 8, 32] } else { [64, 4, 64] };
        let timesteps = generations * population * accounts * steps;
        train.args(["--learner", "evolve", "--algorithm", algorithm, "--net", "16t-16t", "--seeds", "2"]);
        for (flag, value) in [("--population", population), ("--n-envs", accounts), ("--n-steps", steps)] {
            train.args([flag, &value.to_string()]);
        }
        train.args(["--patience", "1000000", "--timesteps", &timesteps.to_string()]);
        train
    }

    fn train_anything(&self, out: &str) -> Command {
        let mut train = self.fullbore();
        train.args(["train", "coin", "--features", "p = col(plant), r = log_return(1), v = volatility(20)"]);
        train.args(["--folds", "2", "--device", "cpu", "--quiet", "--json", "--out", out]);
        train
    }

    fn resume(&self, out: &str) -> Command {
        let mut resume = self.fullbore();
        resume.args(["runs", "resume", out, "--quiet", "--json"]);
        resume
    }

    /// One run to its end, killed at random instants until there were enough kills.
    fn run_with_kills(
        &self,
        name: &str,
        times: usize,
        whole: Duration,
        random: &mut SplitMix,
        tally: &mut Tally,
    ) -> Result<()> {
        let folder = self.home.join(name);
        let mut mine = 0;
        loop {
            // Before its folder says anything there is nothing to go on with.
            let begun = folder.join("run.json").exists();
            // Killed behind its last word, it has ended: all of it must be there.
            if begun && finished(&folder)? {
                return Ok(());
            }
            let mut next = if begun { self.resume(name) } else { self.train(name) };
            if tally.kills >= times {
                output(&mut next)?;
                return Ok(());
            }
            let mut child = next.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|e| e.to_string())?;
            // Most lives are short, some nearly whole: saves, starts and ends are all met.
            let life = whole.mul_f64(random.below(1_000) as f64 / 1_000.0 * [0.05, 0.2, 0.6][random.below(3)]);
            let until = Instant::now() + life;
            let ended = loop {
                if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
                    break Some(status);
                }
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break None;
                }
                std::thread::sleep(left.min(Duration::from_millis(1)));
            };
            match ended {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let said = child.wait_with_output().map_err(|e| e.to_string())?;
                    return Err(format!(
                        "after {mine} kills it ended with {status}: {}",
                        String::from_utf8_lossy(&said.stdout)
                    ));
                }
                None => {
                    child.kill().map_err(|e| e.to_string())?; // SIGKILL
                    child.wait().map_err(|e| e.to_string())?;
                    mine += 1;
                    tally.kills += 1;
                    tally.most = tally.most.max(mine);
                    let saved =
                        fs::read_dir(folder.join("checkpoints/generations")).is_ok_and(|mut d| d.next().is_some());
                    tally.early += usize::from(!saved);
                }
            }
        }
    }

    /// What a run came to: names and contents, of which none may differ.
    fn final_files(&self, name: &str) -> Result<Vec<(String, Vec<u8>)>> {
        let folder = self.home.join(name);
        let mut end = Vec::new();
        let read = |path: &Path| fs::read(path).map_err(|e| format!("{}: {e}.", path.display()));
        let predictions = folder.join("predictions.parquet");
        if predictions.exists() {
            end.push(("predictions.parquet".into(), read(&predictions)?));
        }
        for part in ["backtest", "model", "checkpoints/best", "checkpoints/last"] {
            let mut files = super::names(&folder.join(part));
            // Names the run's own row of the ledger.
            files.retain(|f| f != "MANIFEST");
            files.sort();
            for file in files {
                end.push((format!("{part}/{file}"), read(&folder.join(part).join(&file))?));
            }
        }
        let result: Value = last_json(&String::from_utf8_lossy(&read(&folder.join("result.json"))?))?;
        for part in ["judged", "members", "folds", "balance", "backtest"] {
            end.push((format!("{part} of result.json"), result[part].to_string().into_bytes()));
        }
        // Every validation once, whatever was logged twice in between.
        let mut validations: Vec<String> = Vec::new();
        for line in String::from_utf8_lossy(&read(&folder.join("log.jsonl"))?).lines() {
            let mut row: Value = serde_json::from_str(line).map_err(|e| format!("a torn row in log.jsonl: {e}."))?;
            if ["epoch", "update", "generation"].iter().any(|unit| row["kind"] == *unit) {
                let figures = row.as_object_mut().ok_or("a row of log.jsonl is no object.")?;
                figures.retain(|name, _| name != "time" && !name.ends_with("_per_s"));
                validations.push(row.to_string());
            }
        }
        if validations.is_empty() {
            return Err("log.jsonl has no validation.".into());
        }
        validations.sort();
        end.push(("validations of log.jsonl".into(), validations.join("\n").into_bytes()));
        Ok(end)
    }
}

/// Whether a run's folder says that it is finished.
fn finished(folder: &Path) -> Result<bool> {
    let path = folder.join("run.json");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}.", path.display()))?;
    Ok(last_json(&text)?["state"] == "finished")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_can_be_killed() {
        assert_eq!(learner_of(None, None), Ok((Learner::Classifier, "train")));
        assert_eq!(learner_of(Some("evolve"), None), Ok((Learner::Evolved("openai"), "evolved")));
        for own in ["sep-cma", "snes", "cem", "pbt"] {
            assert_eq!(learner_of(Some("evolve"), Some(own)), Ok((Learner::Evolved(own), "evolved-others")));
        }
        assert!(learner_of(Some("evolve"), Some("ga")).is_err());
        assert!(learner_of(Some("ppo"), Some("cem")).is_err());
    }
}
