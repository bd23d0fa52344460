//! SIGKILL to `fullbore data add --replace` at random instants.
//!
//! After each kill the catalogue must be readable and agree with its files, every file it names must be whole, sets
//! that were not being written must be as they were, and the one being written must be the old one or the new one.

use super::{Flags, names, note};
use crate::process::{build, command, last_json, output};
use crate::{Result, cache, today};
use random::SplitMix;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Kills `data add` again and again; false when something was lost.
pub fn run_kill_rounds(flags: &[&str]) -> Result<bool> {
    let flags = Flags::read(flags, &["--rounds", "--seed"])?;
    let rounds = flags.number("--rounds", 200.0)? as usize;
    let mut random = SplitMix::new(flags.number("--seed", 1.0)? as u64);
    let store = Store::new()?;
    let mut truth = BTreeMap::new(); // name -> bars
    for (at, name) in ["one", "two", "three"].into_iter().enumerate() {
        truth.insert(
            name.to_string(),
            store.add(name, at % store.inputs.len(), None)?.ok_or("a first add did not finish.")?,
        );
    }
    let start = Instant::now();
    store.add("one", 0, None)?;
    let whole = start.elapsed();
    println!("one undisturbed add takes {:.2} s; {rounds} rounds", whole.as_secs_f64());

    let (mut killed, mut lost, mut replaced) = (0, Vec::new(), 0);
    for round in 1..=rounds {
        let name = ["one", "two", "three"][random.below(3)];
        let input = random.below(store.inputs.len());
        let instant = whole.mul_f64(random.below(1_100) as f64 / 1_000.0);
        let finished = store.add(name, input, Some(instant))?;
        killed += usize::from(finished.is_none());
        match store.check_store(&truth, name, store.inputs[input].1, finished.is_some()) {
            Ok(bars) => {
                replaced += usize::from(finished.is_none() && truth.get(name) != Some(&bars));
                truth.insert(name.to_string(), bars);
            }
            Err(why) => {
                println!("round {round}, `{name}` killed after {:.3} s: {why}", instant.as_secs_f64());
                lost.push(why);
                if lost.len() >= 5 {
                    println!("five losses are enough; {} is left as it is", store.out.display());
                    break;
                }
            }
        }
        if round % 20 == 0 {
            println!("round {round}: {killed} killed, {} losses", lost.len());
        }
    }
    let stray = store.stray();
    println!(
        "{killed} of {rounds} rounds were killed, {replaced} of them after the rename; {} losses; stray files {stray}",
        lost.len()
    );
    let row = format!("| {} | {rounds} | {killed} | {replaced} | {} | {stray} |", today::date(), lost.len());
    note("kill", &row)?;
    if lost.is_empty() {
        let _ = fs::remove_dir_all(&store.home);
    }
    Ok(lost.is_empty())
}

/// A store in the cache folder, the program that writes it, and what it is fed.
struct Store {
    fullbore: PathBuf,
    home: PathBuf,
    out: PathBuf,
    inputs: Vec<(PathBuf, u64)>, // file, bars
}

impl Store {
    fn new() -> Result<Store> {
        let fullbore = build("fullbore", "fullbore", true)?;
        let bench = build("fullbore-bench", "fullbore-bench", true)?;
        let home = cache::folder()?.join(format!("kill-{}", std::process::id()));
        let out = home.join("store");
        cache::make(&out)?;
        let mut inputs = Vec::new();
        for rows in [150_000_u64, 151_000, 152_000] {
            let file = home.join(format!("{rows}.csv"));
            output(command(&bench).arg("make-csv").arg(&file).args(["--rows", &rows.to_string()]))?;
            inputs.push((file, rows));
        }
        Ok(Store { fullbore, home, out, inputs })
    }

    fn fullbore(&self) -> std::process::Command {
        let mut fullbore = command(&self.fullbore);
        fullbore.env("FULLBORE_HOME", self.home.join("home")).stdin(Stdio::null());
        fullbore
    }

    /// Adds; with an instant, kills it then. Gives the bars added, or `None` when it was killed first.
    fn add(&self, name: &str, input: usize, kill_after: Option<Duration>) -> Result<Option<u64>> {
        let (file, bars) = &self.inputs[input];
        let mut add = self.fullbore();
        add.args(["data", "add"])
            .arg(file)
            .args(["--name", name, "--out"])
            .arg(&self.out)
            .args(["--replace", "--json"]);
        let Some(instant) = kill_after else { return output(&mut add).map(|_| Some(*bars)) };
        let mut child = add.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| e.to_string())?;
        let start = Instant::now();
        while start.elapsed() < instant {
            if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
                return if status.success() {
                    Ok(Some(*bars))
                } else {
                    Err(format!("`data add` after a kill ended with {status}."))
                };
            }
            std::thread::sleep(Duration::from_millis(1).min(instant - start.elapsed().min(instant)));
        }
        child.kill().map_err(|e| e.to_string())?; // SIGKILL
        let status = child.wait().map_err(|e| e.to_string())?;
        Ok(status.success().then_some(*bars))
    }

    /// Reads everything back; gives the bars that the set being written has now.
    fn check_store(&self, truth: &BTreeMap<String, u64>, writing: &str, new: u64, finished: bool) -> Result<u64> {
        let listed = self.listed()?;
        let mut now = None;
        for (name, bars) in truth {
            let entry = listed.iter().find(|e| e["name"] == name.as_str());
            let entry = entry.ok_or_else(|| format!("`{name}` is gone from the catalogue, which lists {listed:?}."))?;
            let file = self.out.join(file_of(entry));
            let audit = last_json(&output(self.fullbore().args(["data", "audit", "--json"]).arg(&file))?)?;
            let read =
                audit["bars"].as_u64().ok_or_else(|| format!("the audit of `{name}` counts no bars: {audit}"))?;
            if entry["bars"].as_u64().is_some_and(|said| said != read) {
                return Err(format!(
                    "the catalogue says that `{name}` has {} bars; its file has {read}.",
                    entry["bars"]
                ));
            }
            let allowed = match name == writing {
                true if finished => read == new,
                true => read == new || read == *bars,
                false => read == *bars,
            };
            if !allowed {
                return Err(format!(
                    "`{name}` has {read} bars; it had {bars}, and {new} were being written to `{writing}`."
                ));
            }
            if name == writing {
                now = Some(read);
            }
        }
        now.ok_or("the set being written was never finished.".into())
    }

    /// The entries of the catalogue: the objects with a name in its JSON's lists.
    fn listed(&self) -> Result<Vec<Value>> {
        let listed = last_json(&output(self.fullbore().args(["data", "list", "--json", "--out"]).arg(&self.out))?)?;
        let lists = listed.as_object().into_iter().flatten().filter_map(|(_, v)| v.as_array());
        Ok(lists.flatten().filter(|e| e["name"].is_string()).cloned().collect())
    }

    /// Files that no entry of the catalogue explains: what killed writers left.
    fn stray(&self) -> usize {
        let known: Vec<String> = self.listed().unwrap_or_default().iter().map(file_of).collect();
        names(&self.out).iter().filter(|n| !known.contains(n) && !n.starts_with("catalog")).count()
    }
}

/// The file of an entry, within the folder of the catalogue.
fn file_of(entry: &Value) -> String {
    let default = || format!("{}.parquet", entry["name"].as_str().unwrap_or_default());
    entry["file"].as_str().map_or_else(default, str::to_string)
}
