//! Training as a user meets it: a planted signal is found, noise gives nothing, a run that is killed ends with the same
//! bits, and the model says later what it said in training.

use super::{Place, code, text, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A market of one coin with a signal whose best correlation is 0.6, or without.
pub(crate) fn market(place: &Place, plant: bool, bars: &str) {
    let mut args = vec!["data", "synth", "--kind", "crypto", "--timeframe", "5m", "--count", "1", "--bars", bars];
    args.extend(["--name", "coin", "--seed", "7"]);
    if plant {
        args.push("--plant");
    }
    let (value, code) = place.json(&args);
    assert_eq!(code, 0, "{value}");
}

pub(crate) const ROW: &str = "r = log_return(1), v = volatility(20), s = rsi(14)*0.02 - 1";

/// The arguments of a small training with these features.
pub(crate) fn small<'a>(features: &'a str, out: &'a str, epochs: &'a str) -> Vec<&'a str> {
    let mut args = vec!["train", "coin", "--learner", "mlp", "--features", features, "--labels", "fixed(1)"];
    args.extend(["--set", "label.cost_bp=0", "--folds", "2", "--seeds", "2", "--device", "cpu", "--threads", "2"]);
    args.extend(["--epochs", epochs, "--batch-size", "128", "--out", out]);
    args
}

/// `(symbol, time, fold, seed)` to the bits of the probabilities; of several configs, the one that its fold took.
pub(crate) fn probabilities(path: &Path) -> BTreeMap<(String, i64, u64, u64), Vec<u32>> {
    let mut all = BTreeMap::new();
    let source = files::Source::open(path).unwrap();
    let mut take = |table: files::Table| {
        let column = |name: &str| table.column(name).unwrap_or_else(|| panic!("a column {name}"));
        let number = |name: &str, row: usize| match &column(name).data {
            files::Data::F32(v) => f64::from(v[row]),
            files::Data::F64(v) => v[row],
            files::Data::U32(v) => f64::from(v[row]),
            files::Data::I64(v) => v[row] as f64,
            other => panic!("{name}: {other:?}"),
        };
        let files::Data::Time { ns, .. } = &column("time").data else { panic!("times") };
        let taken = |row: usize| match table.column("chosen").map(|c| &c.data) {
            None => true,
            Some(files::Data::I8(v)) => v[row] == 1,
            Some(files::Data::I64(v)) => v[row] == 1,
            Some(other) => panic!("chosen: {other:?}"),
        };
        for (row, time) in ns.iter().enumerate().filter(|(row, _)| taken(*row)) {
            let symbol = column("symbol").data.text(row).unwrap().to_string();
            let key = (symbol, *time, number("fold", row) as u64, number("seed", row) as u64);
            let p = ["p_down", "p_flat", "p_up"].map(|name| (number(name, row) as f32).to_bits());
            assert!(all.insert(key, p.to_vec()).is_none(), "each once");
        }
        Ok(())
    };
    files::read_parquet(&source, &files::Caps::default(), None, &mut take).unwrap();
    all
}

#[test]
fn planted_signal_is_found_and_predicted_again() {
    let place = Place::new();
    market(&place, true, "6000");
    let set = format!("p = col(plant), {ROW}");
    let (run, exit) = place.json(&small(&set, "run", "10"));
    assert_eq!((exit, &run["schema"], &run["interrupted"]), (0, &Value::from("train/1"), &Value::from(false)), "{run}");
    // L5: nine tenths of what the best there is would reach.
    let mcc = run["judged"]["directional_mcc"].as_f64().unwrap();
    assert!(mcc > 0.54, "{mcc}");
    assert_eq!(run["members"].as_array().unwrap().len(), 4);
    // One column carries it, and is named.
    let column = &run["evidence"]["findings"]["best_column"];
    assert!(column[0] == "p" && column[1].as_f64().is_some_and(|share| share > 0.9), "{column}");
    for name in ["run.json", "settings.toml", "split.parquet", "log.jsonl", "training.log", "predictions.parquet"] {
        assert!(place.path().join("run").join(name).is_file(), "{name}");
    }
    // The same bars, asked again through the saved model: the same bits.
    let (asked, exit) = place.json(&["predict", "run", "coin", "--members", "--device", "cpu", "--out", "p.parquet"]);
    assert_eq!(exit, 0, "{asked}");
    // The holdout stays locked, for this verb too.
    assert!(asked["locked"].as_u64().unwrap() > 500, "{asked}");
    let (then, now) =
        (probabilities(&place.path().join("run/predictions.parquet")), probabilities(&place.path().join("p.parquet")));
    assert!(then.len() > 1000 && now.len() > then.len(), "{} and {}", then.len(), now.len());
    for (key, p) in &then {
        assert_eq!(now.get(key), Some(p), "{key:?}");
    }
    let locked = files::time::parse(run["holdout_from"].as_str().unwrap().as_bytes(), files::time::Order::Ymd).unwrap();
    assert!(now.keys().all(|key| key.1 < locked.ns), "a bar of the holdout was asked about");
    // A second run into the same folder is refused, and so is going on with a finished one.
    let (again, exit) = place.json(&small(&set, "run", "10"));
    assert_eq!((exit, &again["ok"]), (5, &Value::from(false)), "{again}");
    let (again, exit) = place.json(&["runs", "resume", "run"]);
    assert_eq!(exit, 5, "{again}");
    let (listed, exit) = place.json(&["runs", "list", "."]);
    assert_eq!((exit, &listed["runs"][0]["state"]), (0, &Value::from("finished")), "{listed}");
    let shown = place.run(&["runs", "show", "run"]);
    // Two folds are too few for a figure that sums it up.
    assert!(code(&shown) == 0 && !text(&shown.stdout).contains("judged on test samples"), "{}", text(&shown.stdout));
}

#[test]
fn noise_gives_no_skill() {
    let place = Place::new();
    market(&place, false, "6000");
    let (run, exit) = place.json(&small(ROW, "run", "6"));
    assert_eq!(exit, 0, "{run}");
    let judged = &run["judged"];
    let (mcc, n) = (judged["directional_mcc"].as_f64().unwrap(), judged["samples"].as_f64().unwrap());
    // L4: within three deviations of nothing.
    assert!(mcc.abs() < 3.0 / n.sqrt(), "{mcc} of {n}");
}

#[test]
fn each_config_is_a_trial_and_validation_chooses_per_fold() {
    let place = Place::new();
    market(&place, true, "6000");
    let set = format!("p = col(plant), {ROW}");
    let mut args = small(&set, "run", "8");
    args.extend(["--try", "rate=1e-6,3e-3", "--try", "net=auto,row:4-8 / direction:3"]);
    let (run, exit) = place.json(&args);
    assert_eq!((exit, run["members"].as_array().unwrap().len()), (0, 16), "{run}");
    // Rates are trained at once, another net is a group of its own.
    assert_eq!(run["groups"], serde_json::json!([8, 8]), "{run}");
    let configs = run["configs"].as_array().unwrap();
    assert_eq!((configs.len(), configs[3]["what"].as_str().unwrap()), (4, "rate 3e-3, net row:4-8 / direction:3"));
    // A rate of nothing learns nothing, and is taken nowhere; every fold takes one.
    let folds = |config: usize| configs[config]["chosen"].as_array().unwrap().len();
    assert_eq!((folds(0) + folds(1), folds(2) + folds(3)), (0, 2), "{configs:?}");
    assert!(run["judged"]["directional_mcc"].as_f64().unwrap() > 0.54, "{run}");
    let read = |path: &str| std::fs::read_to_string(place.path().join(path)).unwrap();
    let told: Value = serde_json::from_str(&read("run/run.json")).unwrap();
    let mut trials: Vec<&str> =
        told["more"]["ledger"].as_array().unwrap().iter().map(|t| t["trial"].as_str().unwrap()).collect();
    trials.sort_unstable();
    trials.dedup();
    assert_eq!(trials.len(), 4, "{told}");
    // The model has the members that were taken, and says what they said.
    let kept = std::fs::read_dir(place.path().join("run/model")).unwrap().count();
    assert_eq!(kept, 2 + 4);
    let (asked, exit) = place.json(&["predict", "run", "coin", "--members", "--device", "cpu", "--out", "p.parquet"]);
    assert_eq!(exit, 0, "{asked}");
    let (then, now) =
        (probabilities(&place.path().join("run/predictions.parquet")), probabilities(&place.path().join("p.parquet")));
    assert!(then.len() > 1000);
    assert!(then.iter().all(|(key, p)| now.get(key) == Some(p)));
    let shown = place.run(&["runs", "show", "run"]);
    assert!(text(&shown.stdout).contains("config "), "{}", text(&shown.stdout));
    // One config alone is the same trial, and becomes the same.
    let mut alone = small(&set, "alone", "8");
    alone.extend(["--set", "train.rate=1e-6"]);
    let (alone, exit) = place.json(&alone);
    assert_eq!(exit, 0, "{alone}");
    let told: Value = serde_json::from_str(&read("alone/run.json")).unwrap();
    assert!(trials.contains(&told["more"]["ledger"]["trial"].as_str().unwrap()), "{told}");
    assert_eq!(alone["judged"]["mcc"], configs[0]["test_mcc"]);
    for (wrong, part) in [("rat=1", "rate"), ("rate=1,1", "twice"), ("seeds=1,2", "cannot be tried")] {
        let (value, exit) = place.json(&["train", "coin", "--try", wrong]);
        assert_eq!(exit, 2, "{value}");
        assert!(value.to_string().contains(part), "{value}");
    }
    let (value, exit) = place.json(&["check", "selftest", "--set", "train.try=rate = 0.1"]);
    assert_eq!(exit, 2, "{value}");
}

#[test]
fn repeatedly_killed_run_ends_with_the_same_bits() {
    killed(&[]);
}

#[test]
fn repeatedly_killed_run_of_several_configs_ends_with_the_same_bits() {
    killed(&["--try", "rate=1e-3,3e-3", "--try", "net=auto,row:4-8t / direction:3"]);
}

/// Files of a run that are the same whatever happened on the way.
pub(crate) fn settled(run: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for part in ["predictions.parquet", "backtest", "model", "checkpoints/best", "checkpoints/last"] {
        match std::fs::read_dir(run.join(part)) {
            Ok(files) => all.extend(files.map(|f| format!("{part}/{}", f.unwrap().file_name().to_string_lossy()))),
            Err(_) if run.join(part).is_file() => all.push(part.to_string()),
            Err(_) => {}
        }
    }
    // Names the run's own row of the ledger.
    all.retain(|file| file != "model/MANIFEST");
    all.sort();
    assert!(all.iter().any(|file| file.starts_with("checkpoints/best/")), "{all:?}");
    all
}

fn killed(more: &[&'static str]) {
    let place = Place::new();
    market(&place, true, "4000");
    let set = format!("p = col(plant), {ROW}");
    let args = |out: &'static str| {
        let mut args = small(&set, out, "40");
        args.extend(["--set", "train.checkpoint=2", "--quiet"]);
        args.extend(more);
        args
    };
    let whole = place.run(&args("whole"));
    assert_eq!(code(&whole), 0, "{}", text(&whole.stderr));
    let mut child = place.command(&args("cut")).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut kills = 0;
    loop {
        // Each stretch is longer by a fifth, so that a busy machine too gets to the end.
        std::thread::sleep(Duration::from_secs_f64(0.12 * 1.2f64.powi(kills)));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{kills} kills");
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        // Before its folder said anything there is nothing to go on with.
        let said = std::fs::read_to_string(place.path().join("cut/run.json"));
        // Killed behind its last word, it has ended, and all of it must be there.
        if said.as_ref().is_ok_and(|said| said.contains("\"state\": \"finished\"")) {
            break;
        }
        let begun = said.is_ok();
        let next = if begun { vec!["runs", "resume", "cut", "--quiet"] } else { args("cut") };
        child = place.command(&next).stdout(std::process::Stdio::null()).spawn().unwrap();
    }
    let read = |path: &str| std::fs::read(place.path().join(path)).unwrap();
    let files = settled(&place.path().join("whole"));
    assert_eq!(files, settled(&place.path().join("cut")));
    assert!(files.len() > 10, "{files:?}");
    for file in &files {
        assert_eq!(read(&format!("cut/{file}")), read(&format!("whole/{file}")), "{file} after {kills} kills");
    }
}

#[test]
fn batch_split_into_parts_learns_the_same() {
    let place = Place::new();
    market(&place, true, "12000");
    let set = format!("p = col(plant), {ROW}");
    let args = |out: &'static str, memory: &str, more: &[&str]| -> Vec<String> {
        let mut args = small(&set, out, "12");
        for (name, value) in [("--folds", "1"), ("--seeds", "1"), ("--batch-size", "4000")] {
            let at = args.iter().position(|a| *a == name).unwrap();
            args[at + 1] = value;
        }
        args.extend(["--net", "4-512n-512n-3", "--set", "train.checkpoint=2", "--memory", memory]);
        args.iter().chain(more).map(|a| a.to_string()).collect()
    };
    let json = |args: &[String]| place.json(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let (whole, exit) = json(&args("whole", "auto", &[]));
    assert_eq!((exit, &whole["parts"]), (0, &Value::from(1)), "{whole}");
    // Less than a member takes with its whole batch: said in the plan, before anything is done.
    let memory = format!("{}", whole["memory_bytes"].as_u64().unwrap() - 1_000_000);
    let (plan, exit) = json(&args("run", &memory, &["--dry-run"]));
    assert_eq!((exit, &plan["parts"]), (0, &Value::from(2)), "{plan}");
    assert!(plan["notes"].to_string().contains("batches of 4000 in 2 parts of 2000: "), "{plan}");
    assert!(plan["memory_bytes"].as_u64().unwrap() <= memory.parse().unwrap(), "{plan}");
    // Killed once it has a checkpoint, it goes on in the same parts though there is memory to spare; elsewhere it is
    // left alone.
    let command = |args: &[String]| place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let alone = command(&args("alone", &memory, &[]));
    assert!(code(&alone) == 0 && text(&alone.stderr).contains("batches of 4000 in 2 parts of 2000: "));
    assert!(text(&alone.stdout).contains("batches of 4,000 in 2 parts of 2,000"), "{}", text(&alone.stdout));
    let cut = args("cut", &memory, &["--quiet"]);
    let cut: Vec<&str> = cut.iter().map(String::as_str).collect();
    place.abort(&cut, "checkpoints/LATEST#2");
    let read = |path: &str| std::fs::read_to_string(place.path().join(path)).unwrap();
    let run: Value = serde_json::from_str(&read("cut/run.json")).unwrap();
    assert_eq!((&run["more"]["parts"], &run["state"]), (&Value::from(2), &Value::from("running")), "{run}");
    assert!(read("cut/training.log").contains("batches of 4000 in 2 parts of 2000: "));
    let settings = read("cut/settings.toml");
    let spare = settings.replace(&format!("memory = \"{memory}B\""), "memory = \"auto\"");
    assert_ne!(settings, spare);
    place.write("cut/settings.toml", &spare);
    let (resumed, exit) = place.json(&["runs", "resume", "cut"]);
    assert_eq!((exit, &resumed["parts"]), (0, &Value::from(2)), "{resumed}");
    let bytes = |path: &str| std::fs::read(place.path().join(path)).unwrap();
    let model = "model/fold-1-seed-1.safetensors";
    assert_eq!(
        bytes(&format!("cut/{model}")),
        bytes(&format!("alone/{model}")),
        "parts are kept, and with them the bits"
    );
    let mcc = [&whole, &resumed].map(|run| run["judged"]["directional_mcc"].as_f64().unwrap());
    assert!(mcc[0] > 0.4 && (mcc[0] - mcc[1]).abs() < 0.05, "{mcc:?}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_shows_how_to_resume() {
    let place = Place::new();
    market(&place, false, "4000");
    let args = small(ROW, "run", "500000");
    let mut command = place.command(&args);
    let child = command.args(["--patience", "500000"]).stdout(std::process::Stdio::piped());
    let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let log = place.path().join("run/log.jsonl");
    let begun = || std::fs::read_to_string(&log).is_ok_and(|t| t.contains("\"epoch\""));
    wait_for("an epoch", &mut child, begun);
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("fullbore runs resume run"), "{}", text(&output.stdout));
    let (listed, _) = place.json(&["runs", "list", "."]);
    assert!(listed["runs"][0]["state"].as_str().unwrap().starts_with("interrupted"), "{listed}");
}

#[test]
fn dry_run_shows_the_plan_and_writes_nothing() {
    let place = Place::new();
    market(&place, false, "4000");
    let mut args = small(ROW, "run", "50");
    args.push("--dry-run");
    let (plan, exit) = place.json(&args);
    assert_eq!((exit, &plan["folder"], plan["folds"].as_array().unwrap().len()), (0, &Value::Null, 2), "{plan}");
    assert!(plan["estimate_seconds"].as_f64().unwrap() > 0.0 && plan["memory_bytes"].as_u64().unwrap() > 0);
    assert!(plan["picture"].as_str().unwrap().contains("fold 1"));
    assert!(!place.path().join("run").exists());
    // A budget too small for the plan makes it smaller, aloud.
    let mut args = small(ROW, "run", "5000");
    args.extend(["--dry-run", "--budget", "2s"]);
    let (fitted, _) = place.json(&args);
    assert!(fitted["epochs"].as_u64().unwrap() < 5000, "{fitted}");
    assert!(fitted["notes"].to_string().contains("to fit into 2.0 s"), "{fitted}");
}

/// Plain `train` of a series of any length that can be split, with what was left out named.
#[test]
fn short_series_train_without_a_flag() {
    let place = Place::new();
    for (timeframe, bars) in [("1d", "500"), ("1h", "700"), ("5m", "500"), ("1d", "150"), ("1d", "60")] {
        let mut args = vec!["data", "synth", "--kind", "stocks", "--timeframe", timeframe, "--count", "1"];
        args.extend(["--bars", bars, "--name", "short", "--seed", "3", "--replace"]);
        let (value, exit) = place.json(&args);
        assert_eq!(exit, 0, "{value}");
        for learner in ["lstm", "mlp"] {
            let (run, exit) = place.json(&["train", "short", "--learner", learner, "--device", "cpu", "--dry-run"]);
            if bars == "60" {
                let error = run["error"].to_string();
                assert_eq!(exit, 3, "{run}");
                assert!(error.contains("60 bars are too few: about ") && error.contains("to settle"), "{run}");
                assert!(run.to_string().contains("--set features.settle=0.01"), "{run}");
                continue;
            }
            assert_eq!(exit, 0, "{timeframe} {bars} {learner}: {run}");
            let folds = run["folds"].as_array().unwrap().len();
            assert!([3, 5, 8].contains(&folds), "{run}");
            let notes = run["notes"].to_string();
            assert!(notes.contains("settle too late") && (folds == 8 || notes.contains("instead of 8")), "{notes}");
            // Every class has its share, on days too.
            assert!(run["balance"].as_array().unwrap().iter().all(|b| b.as_f64().unwrap() > 0.1), "{run}");
        }
    }
}

#[test]
fn too_little_data_has_no_headline() {
    let place = Place::new();
    market(&place, false, "3000");
    let args = small(ROW, "run", "1");
    let (run, exit) = place.json(&args);
    assert_eq!(exit, 0, "{run}");
    assert!(run["judged"]["mcc_interval"].is_null() && run["judged"]["no_interval"].is_string(), "{run}");
    let output = place.run(&[&args[..args.len() - 1], &["again"]].concat());
    let said = text(&output.stdout);
    assert!(said.contains("not enough data for a verdict: 2 folds (5 are needed), 6 test days (60 are"), "{said}");
    assert!(!said.contains("\n  MCC ") && said.contains("always the most frequent class of the test"), "{said}");
}

#[test]
fn errors_name_a_remedy() {
    let place = Place::new();
    market(&place, false, "1500");
    let wrong: [(&[&str], i32, &str); 8] = [
        (&["train", "coin", "--folds", "-1"], 2, "at least 1"),
        (&["train", "coin", "--labels", "triple-barrier"], 2, "did you mean `triple(24)`?"),
        (&["train", "coin", "--from", "2031-01-01"], 3, "the last one is of 2019-01-07"),
        (&["train", "coin", "--learner", "forest"], 2, "write lstm"),
        (&["train", "coin", "--net", "fast:3x5-lstm8 / 3"], 2, "net"),
        (&["train", "coin", "--learner", "mlp", "--features", ROW, "--folds", "900"], 3, "fold"),
        (&["train", "coin", "--budget", "soon"], 2, "10m"),
        (&["predict", "nowhere", "coin"], 3, "runs list"),
    ];
    for (args, expected, part) in wrong {
        let (value, code) = place.json(args);
        assert_eq!(code, expected, "{args:?}: {value}");
        assert!(value.to_string().contains(part), "{args:?}: {value}");
    }
    let output = place.run(&["train", "coin", "--features", "rsi(14"]);
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("    rsi(14\n       ^"), "the mistake is marked: {shown}");
}

/// A net that the budget allows and the process may not have: its address space is limited.
#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_is_an_error_and_no_abort() {
    let place = Place::new();
    market(&place, true, "3000");
    let limited = |net: &str, out: &str| {
        let mut args = small("r = log_return(1), v = volatility(20)", out, "1");
        args.extend(["--memory", "4GiB", "--net", net, "--json"]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -v 430000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_fullbore")]).args(args);
        let shell = shell.current_dir(place.path()).env("FULLBORE_HOME", place.path().join("home"));
        let output = shell.env_remove("RUST_BACKTRACE").output().expect("sh starts");
        let words = format!("{}{}", text(&output.stdout), text(&output.stderr));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {words}"));
        (value, code(&output))
    };
    let (small, exit) = limited("2-8-3", "small");
    assert_eq!((exit, &small["ok"]), (0, &Value::from(true)), "{small}");
    let (large, exit) = limited("2-4096-4096-3", "large");
    let error = &large["error"];
    assert_eq!((exit, &error["kind"]), (4, &Value::from("machine")), "{large}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.starts_with("cpu has not enough free memory for 64.3 MiB of parameters"), "{message}");
}

/// Whatever the limit, a verb ends well or with exit code 4, and says so in one object.
#[test]
#[cfg(target_os = "linux")]
fn every_address_space_limit_ends_with_an_answer() {
    let place = Place::new();
    market(&place, true, "3000");
    let limited = |kib: u64, args: &[&str]| {
        let mut shell = std::process::Command::new("sh");
        let script = format!("ulimit -c 0; ulimit -v {kib}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_fullbore")]).args(args);
        let shell = shell.current_dir(place.path()).env("FULLBORE_HOME", place.path().join("home"));
        shell.env_remove("RUST_BACKTRACE").output().expect("sh starts")
    };
    // Below this the program itself does not start.
    let least = (60..).map(|n| n * 4096).find(|kib| code(&limited(*kib, &["--version"])) == 0).expect("a limit");
    let mut ends = std::collections::BTreeSet::new();
    for (at, more) in [2, 8, 20, 40, 80, 300].into_iter().enumerate() {
        let out = format!("run-{at}");
        let train = [small(ROW, &out, "1"), vec!["--net", "3-256-256-3", "--memory", "4GiB", "--json"]].concat();
        let features = ["features", "coin", "--features", "full", "--fresh", "--json", "--out", "f.parquet"];
        for args in [&train[..], &features] {
            let output = limited(least + more * 1024, args);
            let words = format!("{} MiB more, {args:?}: {}{}", more, text(&output.stdout), text(&output.stderr));
            let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {words}"));
            let kind = value["error"]["kind"].as_str().unwrap_or("none");
            assert!([(0, "none"), (4, "machine")].contains(&(code(&output), kind)), "{words}");
            ends.insert(code(&output));
        }
    }
    assert!(ends.contains(&4), "no limit was too small: {ends:?}");
}

/// Daily bars of a random walk from 2015 on, in a file of that name.
fn walk(place: &Place, name: &str, days: usize, scale: f64) {
    let mut state = 7u64;
    let mut price = 100.0f64;
    let mut csv = String::from("date,open,high,low,close,volume\n");
    for day in 0..days {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let open = price;
        price *= 1.0 + 0.02 * ((state >> 33) as f64 / f64::from(1u32 << 30) - 1.0);
        let (high, low) = (open.max(price) * 1.001, open.min(price) * 0.999);
        let at = files::time::rfc3339((16_436 + day as i64) * 86_400_000_000_000);
        let [open, high, low, close] = [open, high, low, price].map(|p| p * scale);
        csv += &format!("{},{open},{high},{low},{close},1000\n", &at[..10]);
    }
    std::fs::write(place.0.path().join(format!("{name}.csv")), csv).unwrap();
}

#[test]
fn a_holdout_stays_locked_under_another_name_and_split() {
    let place = Place::new();
    walk(&place, "AAAUSDT", 900, 1.0);
    walk(&place, "BBBUSDT", 1000, 12.5);
    let train = |data: &str, out: &str, more: &[&str]| {
        let mut args = vec!["train", data, "--learner", "mlp", "--features", ROW, "--labels", "fixed(1)", "--out", out];
        args.extend(["--folds", "2", "--seeds", "1", "--epochs", "1", "--device", "cpu", "--threads", "1"]);
        args.extend(more);
        place.json(&args)
    };
    let from = |value: &Value| value["holdout_from"].as_str().map(str::to_string);
    let notes = |value: &Value| value["notes"].to_string();
    let (first, code) = train("AAAUSDT.csv", "a", &[]);
    assert_eq!(code, 0, "{first}");
    let locked = from(&first).expect("a holdout");
    assert!(!notes(&first).contains("locked it as its holdout"), "{first}");
    // The same data with no holdout, and longer data of another name and unit.
    for (data, out, more) in [("AAAUSDT.csv", "b", &["--set", "split.holdout=0"][..]), ("BBBUSDT.csv", "c", &[])] {
        let (value, code) = train(data, out, more);
        assert_eq!((code, from(&value).as_ref()), (0, Some(&locked)), "{value}");
        assert!(notes(&value).contains("an earlier run on these data locked it"), "{value}");
        let last = value["folds"].as_array().unwrap().last().unwrap()["test_to"].as_str().unwrap().to_string();
        assert!(last < locked, "{last} and {locked}");
    }
    // Data of which all is locked cannot be trained on; released they are ordinary.
    let (value, code) = train("BBBUSDT.csv", "d", &["--from", &locked[..10]]);
    assert!(code != 0 && value["error"]["message"].as_str().unwrap().contains("locked"), "{value}");
    let late = ["--from", &locked[..10], "--release-holdout", "--set", "split.holdout=0"];
    let (value, code) = train("BBBUSDT.csv", "e", &late);
    assert_eq!((code, from(&value)), (0, None), "{value}");
    let (value, code) = train("AAAUSDT.csv", "f", &[]);
    assert_eq!((code, from(&value)), (0, None), "released for ever: {value}");
}
