//! Two and four `fullbore data add` at once under one name.
//!
//! After each round the catalogue must have one entry of that name, whose file is whole and holds the bars of the
//! source that the entry names. With --replace every writer ends well; without, exactly one does.

use super::{Flags, names, note};
use crate::process::{build, command, last_json, output};
use crate::{Result, cache, today};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Lets writers loose on one name again and again; false when something was lost or mixed.
pub fn run_writers(flags: &[&str]) -> Result<bool> {
    let flags = Flags::read(flags, &["--rounds", "--fullbore"])?;
    let rounds = flags.number("--rounds", 1000.0)? as usize;
    let fullbore = flags.get("--fullbore").map_or_else(|| build("fullbore", "fullbore", true), |p| Ok(p.into()))?;
    let home = cache::folder()?.join(format!("writers-{}", std::process::id()));
    cache::make(&home)?;
    let sources: Vec<(PathBuf, u64)> = (0..4).map(|i| make_source(&home, 500 + i)).collect::<Result<_>>()?;
    let (mut told, mut bad) = (0, Vec::new());
    for round in 1..=rounds {
        let out = home.join("store");
        match run_round(&fullbore, &home, &out, &sources[..if round % 4 < 2 { 2 } else { 4 }], round % 2 == 0) {
            Ok(refused) => told += refused,
            Err(why) => {
                println!("round {round}: {why}");
                bad.push(why);
            }
        }
        fs::remove_dir_all(&out).map_err(|e| format!("{}: {e}.", out.display()))?;
        if round % 100 == 0 {
            println!("round {round}: {told} writers told, {} rounds bad", bad.len());
        }
    }
    note("writers", &format!("| {} | {rounds} | {told} | {} |", today::date(), bad.len()))?;
    let _ = fs::remove_dir_all(&home);
    Ok(bad.is_empty())
}

/// Minutes of one coin, that many.
fn make_source(home: &Path, bars: u64) -> Result<(PathBuf, u64)> {
    let row = |i: u64| {
        let close = 100.0 + (i * 37 % 101) as f64 / 10.0;
        format!("{},{close},{},{},{close},{}\n", 1_700_000_000 + 60 * i, close + 1.0, close - 1.0, 10 + i % 7)
    };
    let text: String =
        std::iter::once("time,open,high,low,close,volume\n".to_string()).chain((0..bars).map(row)).collect();
    let file = home.join(format!("BTCUSDT_{bars}.csv"));
    fs::write(&file, text).map_err(|e| format!("{}: {e}.", file.display()))?;
    Ok((file, bars))
}

/// How many writers were told that the name is taken.
fn run_round(fullbore: &Path, home: &Path, out: &Path, sources: &[(PathBuf, u64)], replace: bool) -> Result<usize> {
    let verb = |words: &[&str]| -> Command {
        let mut verb = command(fullbore);
        verb.env("FULLBORE_HOME", home.join("home")).args(words).stdin(Stdio::null()).stderr(Stdio::null());
        verb
    };
    let write = |(file, _): &(PathBuf, u64)| {
        let mut add = verb(&["data", "add", "--name", "one", "--json"]);
        add.arg(file).arg("--out").arg(out).args(replace.then_some("--replace"));
        add.stdout(Stdio::null()).spawn().map_err(|e| e.to_string())
    };
    let writers = sources.iter().map(write).collect::<Result<Vec<_>>>()?;
    let mut won = 0;
    for mut writer in writers {
        won += usize::from(writer.wait().map_err(|e| e.to_string())?.success());
    }
    let wanted = if replace { sources.len() } else { 1 };
    if won != wanted {
        return Err(format!("{won} of {} writers ended well, not {wanted}.", sources.len()));
    }
    let listed = last_json(&output(verb(&["data", "list", "--json", "--out"]).arg(out))?)?;
    let lists = listed.as_object().into_iter().flatten().filter_map(|(_, v)| v.as_array());
    let entries: Vec<_> = lists.flatten().filter(|e| e["name"] == "one").collect();
    let [entry] = entries[..] else { return Err(format!("the catalogue has {} entries.", entries.len())) };
    let (file, origin) = (entry["file"].as_str().unwrap_or_default(), entry["origin"].as_str().unwrap_or_default());
    let bars = sources.iter().find(|(file, _)| file.to_string_lossy() == origin).map(|(_, bars)| *bars);
    let audit = last_json(&output(verb(&["data", "audit", "--json"]).arg(out.join(file)))?)?;
    if bars.is_none() || entry["bars"].as_u64() != bars || audit["bars"].as_u64() != bars {
        return Err(format!("the entry is of {origin}, with {} bars; the file has {}.", entry["bars"], audit["bars"]));
    }
    let strays = names(out).into_iter().filter(|n| n != file && !n.trim_start_matches('.').starts_with("catalogue"));
    match strays.collect::<Vec<_>>() {
        none if none.is_empty() => Ok(sources.len() - won),
        strays => Err(format!("left behind: {}.", strays.join(", "))),
    }
}
