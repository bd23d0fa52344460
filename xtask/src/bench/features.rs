//! Indicators: bars to table, beside TA-Lib and polars_talib.
//!
//! Both sides compute `bench/peers/features.txt` on the same stored bars, in memory before the clock starts; every peer
//! brings all its variants and its best one counts. Counts and sums of every column must agree before a ratio is
//! written. Ours writes the float32 table that training reads; a peer's time is for its own columns of doubles, and its
//! time with the table is reported beside it.

use super::{Place, machine, median, threads};
use crate::process::{build, command, last_json, measure, output};
use crate::{Result, cache, root};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const ROUNDS: usize = 3;
/// Ours is float32; the sum of a column of them against the sum of sizes.
const SAME: f64 = 1e-5;
/// Open, high, low, close and volume as doubles.
const INPUT_BYTES: f64 = 40.0;

/// glibc keeps freed memory, as the peers tell it to (`keep_freed_memory` in `talib_features.py`): no round pays for
/// fresh pages.
const KEPT: [(&str, &str); 3] =
    [("MALLOC_MMAP_THRESHOLD_", "1073741824"), ("MALLOC_TRIM_THRESHOLD_", "2147483647"), ("MALLOC_ARENA_MAX", "1")];

/// Name, file, flags, and how many times as fast as TA-Lib and polars-talib ours should be.
const MARKETS: [(&str, &str, &[&str], [f64; 2]); 2] = [
    ("655 shares × 1,250 daily bars", "daily", &["--count", "655", "--bars", "1250", "--timeframe", "1d"], [4.0, 8.0]),
    (
        "one coin × 490,000 5-minute bars",
        "coin",
        &["--kind", "crypto", "--count", "1", "--bars", "490000", "--timeframe", "5m"],
        [2.5, 8.0],
    ),
];

pub(super) fn run() -> Result<String> {
    let bench = build("fullbore-bench", "fullbore-bench", true)?;
    let fullbore = build("fullbore", "fullbore", true)?;
    let python = cache::python()?;
    let place = Place::new("features")?;
    let mut out = "## Indicators\n".to_string();
    for (name, file, flags, targets) in MARKETS {
        let mut make = place.fullbore(&fullbore);
        make.args(["data", "synth", "--seed", "1", "--replace", "--json", "--name", file]).args(flags);
        output(make.arg("--out").arg(&place.0))?;
        println!("{name}");
        market(name, targets, &place.0.join(format!("{file}.parquet")), &bench, &python, &mut out)?;
    }
    let n = threads();
    let _ = writeln!(out, "\n{n} threads, {ROUNDS} fresh processes of each in turn, median of their medians.");
    let _ = writeln!(out, "\n{}", machine(&python));
    Ok(out)
}

fn market(name: &str, targets: [f64; 2], bars: &Path, bench: &Path, python: &Path, out: &mut String) -> Result<()> {
    let set = root().join("bench/peers/features.txt");
    let n = threads().to_string();
    let ours = |features: &Path| {
        let mut run = command(bench);
        run.arg("features").arg(bars).arg("--features").arg(features).args(["--threads", &n]);
        last_json(&measure(run.envs(KEPT))?.out)
    };
    let theirs = |program: &str| {
        let mut run = command(python);
        run.arg(root().join("bench/peers").join(program)).arg(bars).args(["--time", "--threads", &n]);
        last_json(&measure(run.env("PYTHONDONTWRITEBYTECODE", "1"))?.out)
    };
    let (mut us, mut full, mut talib, mut polars, mut copies) = (vec![], vec![], vec![], vec![], vec![]);
    for round in 1..=ROUNDS {
        println!("round {round} of {ROUNDS}");
        copies.push(last_json(&measure(command(bench).args(["copy", "--threads", &n]))?.out)?);
        us.push(ours(&set)?);
        talib.push(theirs("talib_features.py")?);
        polars.push(theirs("polars_talib_features.py")?);
        full.push(ours(&PathBuf::from("full"))?);
    }
    agree(&us[0], &talib[0])?;
    agree(&us[0], &polars[0])?;

    let rows = us[0]["rows"].as_f64().ok_or("`fullbore-bench features` says no `rows`.")?;
    let rate = median(&copies, "gb_per_s");
    let (t, p) = (median(&talib, "seconds"), median(&polars, "seconds"));
    let _ = writeln!(
        out,
        "\n### {name}\n\n| who | outputs | ns/bar | M bars/s | times TA-Lib | times polars-talib | target | share of \
         the limit |\n| --- | --- | --- | --- | --- | --- | --- | --- |",
    );
    let us_s = median(&us, "seconds");
    let met = [(t, targets[0]), (p, targets[1])];
    let met = met.map(|(peer, target)| if peer / us_s >= target { "met" } else { "**missed**" }).join(", ");
    let target = format!("{} and {}: {met}", targets[0], targets[1]);
    let mut row = |who: &str, s: f64, outputs: &Value, against: bool, target: &str| {
        let k = outputs.as_f64().unwrap_or(f64::NAN);
        let limit = rows * (INPUT_BYTES + 4.0 * k) / (rate * 1e9);
        let times = |peer: f64| if against { format!("{:.2}", peer / s) } else { "".to_string() };
        let _ = writeln!(
            out,
            "| {who} | {outputs} | {:.1} | {:.2} | {} | {} | {target} | {:.0} % |",
            s / rows * 1e9,
            rows / s / 1e6,
            times(t),
            times(p),
            limit / s * 100.0
        );
    };
    row("**fullbore**", us_s, &us[0]["columns"], true, &target);
    for (who, runs, s) in [("TA-Lib", &talib, t), ("polars-talib", &polars, p)] {
        let said = |key: &str| runs[0][key].as_str().unwrap_or("?").to_string();
        row(&format!("{who} {}: {}", said("version"), said("variant")), s, &runs[0]["outputs"], true, "");
        row(&format!("{who}, and the float32 table"), median(runs, "table_seconds"), &runs[0]["outputs"], true, "");
    }
    row("**fullbore**, preset `full`", median(&full, "seconds"), &full[0]["columns"], false, "");
    let _ = writeln!(out, "\n{rows} bars, copy rate {rate:.1} GB/s.");
    Ok(())
}

/// Every column of the peer has as many finite values as ours, and the same sum. A peer that misses columns misses them
/// by name.
fn agree(ours: &Value, peer: &Value) -> Result<()> {
    let object = |v: &Value| v["checksum"].as_object().cloned().ok_or("a side has no `checksum`.");
    let (ours, theirs) = (object(ours)?, object(peer)?);
    let missing = peer["missing"].as_array().map_or(0, Vec::len);
    if ours.len() != theirs.len() + missing {
        return Err(format!("ours has {} columns, the peer {} and misses {missing}.", ours.len(), theirs.len()));
    }
    for (name, wanted) in &theirs {
        let got = ours.get(name).ok_or_else(|| format!("ours has no column `{name}`."))?;
        let number = |v: &Value, i: usize| v[i].as_f64().unwrap_or(f64::NAN);
        // Not the sum itself: that of an oscillator is near zero.
        let near = (number(got, 1) - number(wanted, 1)).abs() <= SAME * number(wanted, 2);
        if number(got, 0) != number(wanted, 0) || !near {
            return Err(format!(
                "`{name}` differs: ours {got} (count, sum), the peer {wanted} (count, sum, sum of sizes)."
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_must_agree() {
        let ours = json!({ "checksum": { "rsi": [10, 500.0], "mom": [9, 0.002] } });
        let check = |rsi: Value, missing: &[&str]| {
            let mut sums = json!({ "rsi": rsi, "mom": [9, 0.0, 300.0] });
            missing.iter().for_each(|name| drop(sums.as_object_mut().and_then(|o| o.remove(*name))));
            agree(&ours, &json!({ "checksum": sums, "missing": missing })).is_ok()
        };
        assert!(check(json!([10, 500.001, 500.001]), &[]));
        assert!(check(json!([10, 500.001, 500.001]), &["mom"]));
        assert!(!check(json!([11, 500.0, 500.0]), &[]));
        assert!(!check(json!([10, 500.1, 500.1]), &[]));
        assert!(!check(json!([10, null, 500.1]), &[]));
    }
}
