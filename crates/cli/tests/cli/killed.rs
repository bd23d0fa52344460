//! Killed between writing a file beside its place and renaming it: for each file that is written so, the next process
//! sweeps what was left, and what comes out has the same bits.
//!
//! The instant is chosen by `FULLBORE_ABORT_AT`, which debug builds obey (`files::rename`).

use super::train::{ROW, market, settled, small};
use super::{Place, code, text};
use serde_json::Value;
use std::path::Path;

/// Runs until the rename that `at` names, and sees that the file was left behind beside `folder`'s others.
fn abort(place: &Place, args: &[&str], at: &str, folder: &str) {
    place.abort(args, at);
    let left = strays(&place.path().join(folder));
    assert!(!left.is_empty(), "{at}: nothing was left in {folder}");
}

/// Temporaries anywhere below a folder.
pub(crate) fn strays(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.to_string_lossy().ends_with(".tmp") {
            found.push(path.display().to_string());
        } else if path.is_dir() {
            found.extend(strays(&path));
        }
    }
    found
}

/// One case: the renames at which the run ends, one after the other; it goes on behind each. `train` are the words for
/// a run in a folder, and the run in `whole` was not disturbed.
fn check(place: &Place, train: &dyn Fn(&str) -> Vec<String>, out: &str, at: &[&str]) {
    let args = train(out);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let begun = || place.path().join(out).join("run.json").exists();
    let next = || if begun() { vec!["runs", "resume", out, "--quiet"] } else { args.clone() };
    for at in at {
        abort(place, &next(), at, out);
    }
    let last = place.run(&next());
    assert_eq!(code(&last), 0, "{at:?}: {}", text(&last.stderr));
    assert_eq!(strays(&place.path().join(out)), [""; 0], "{at:?}");
    let (run, whole) = (place.path().join(out), place.path().join("whole"));
    let files = settled(&whole);
    assert_eq!(files, settled(&run), "{at:?}");
    for file in files {
        let read = |run: &Path| std::fs::read(run.join(&file)).unwrap();
        assert_eq!(read(&run), read(&whole), "{at:?}: {file}");
    }
    let result =
        |run: &Path| -> Value { serde_json::from_slice(&std::fs::read(run.join("result.json")).unwrap()).unwrap() };
    let (run, whole) = (result(&run), result(&whole));
    for part in ["judged", "members", "backtest"] {
        assert_eq!(run[part], whole[part], "{at:?}: {part}");
    }
}

/// Trains undisturbed into `whole`, on a market with a signal.
fn undisturbed(place: &Place, train: &dyn Fn(&str) -> Vec<String>) {
    market(place, true, "3000");
    let args = train("whole");
    let whole = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code(&whole), 0, "{}", text(&whole.stderr));
}

#[test]
fn a_run_killed_before_any_rename_leaves_no_stray_and_ends_with_the_same_bits() {
    let place = Place::new();
    let set = format!("p = col(plant), {ROW}");
    let train = |out: &str| {
        let mut args = small(&set, out, "6");
        args.extend(["--set", "train.checkpoint=2", "--quiet"]);
        args.into_iter().map(String::from).collect()
    };
    undisturbed(&place, &train);
    check(&place, &train, "begin", &["settings.toml", "split.parquet", "run.json"]);
    // Rows that were logged behind the last checkpoint are cut off, by a rename, when the run goes on.
    check(&place, &train, "saving", &["000001/MANIFEST", "000003/MANIFEST", "log.jsonl"]);
    check(&place, &train, "saved", &["checkpoints/LATEST", "checkpoints/best#2", "checkpoints/last#3", "run.json"]);
    // Behind the last checkpoint nothing is saved again.
    check(&place, &train, "latest", &["checkpoints/LATEST#3", "checkpoints/best"]);
    check(&place, &train, "end", &["predictions.parquet", "model#3", "model/model.json", "result.json", "run.json#2"]);
}

/// Policies save between two validations too, with accounts in the middle of an episode and a reward that remembers.
#[test]
fn policies_killed_before_any_rename_leave_no_stray_and_end_with_the_same_bits() {
    let place = Place::new();
    let train = |out: &str| {
        let mut args = vec!["train", "coin", "--learner", "ppo", "--device", "cpu", "--threads", "2", "--folds", "2"];
        args.extend(["--seeds", "2", "--features", "p = col(plant), log_return(1)", "--net", "8t", "--n-envs", "8"]);
        args.extend(["--n-steps", "32", "--timesteps", "3072", "--reward", "sharpe", "--set", "ppo.episode=50"]);
        args.extend(["--set", "train.rate=0.003", "--set", "train.checkpoint=2", "--quiet", "--out", out]);
        args.into_iter().map(String::from).collect()
    };
    undisturbed(&place, &train);
    check(&place, &train, "saving", &["run.json", "000001/MANIFEST", "000003/MANIFEST", "log.jsonl"]);
    check(&place, &train, "saved", &["checkpoints/LATEST", "checkpoints/best#2", "checkpoints/last#3"]);
    check(
        &place,
        &train,
        "end",
        &["backtest/trades.parquet", "model#3", "model/model.json", "result.json", "run.json#2"],
    );
}

#[test]
fn home_files_killed_before_a_rename_leave_no_stray() {
    let place = Place::new();
    let mut synth = vec!["data", "synth", "--kind", "crypto", "--timeframe", "5m", "--count", "1", "--bars", "3000"];
    synth.extend(["--name", "coin", "--seed", "7"]);
    let features = ["features", "coin", "--features", ROW, "--labels", "fixed(3)", "--out", "out/t.parquet"];
    let mut tune = vec!["tune", "coin", "--learner", "mlp", "--features", ROW, "--labels", "fixed(1)", "--folds", "2"];
    tune.extend(["--seeds", "1", "--device", "cpu", "--budget", "1s"]);
    std::fs::create_dir(place.path().join("out")).unwrap();
    let cases: [(&[&str], &[&str], &str); 4] = [
        (&synth, &["data/coin.parquet", "catalogue.json"], "home/data"),
        (&features, &["cache/features", "out/t.parquet"], ""),
        (&tune, &["home/tuned.json"], "home"),
        (&["probe"], &["machines"], "home/machines"),
    ];
    for (args, all, folder) in cases {
        for at in all {
            abort(&place, args, at, folder);
        }
        let last = place.run(args);
        assert_eq!(code(&last), 0, "{args:?}: {}", text(&last.stderr));
        assert_eq!(strays(place.path()), [""; 0], "{args:?}");
    }
}
