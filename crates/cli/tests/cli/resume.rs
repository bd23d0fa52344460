//! What a run may go on with, what its trial is, and that nobody sees a result before the ledger has it.

use super::train::{ROW, market, small};
use super::{Place, code, text, wait_for};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

fn read(place: &Place, path: &str) -> String {
    std::fs::read_to_string(place.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// How often the ledger says that a trial finished; its rows are plain text in the file.
fn finishes(place: &Place) -> usize {
    let all = ["home/ledger.sqlite", "home/ledger.sqlite-wal"]
        .map(|f| std::fs::read(place.path().join(f)).unwrap_or_default());
    all.concat().windows(8).filter(|w| *w == b"finished").count()
}

/// Makes a finished run one that was killed before its first checkpoint.
fn killed_early(place: &Place, run: &str) {
    let file = format!("{run}/run.json");
    place.write(&file, &read(place, &file).replace("\"state\": \"finished\"", "\"state\": \"running\""));
    std::fs::remove_dir_all(place.path().join(run).join("checkpoints")).unwrap();
}

fn trial(place: &Place, run: &str) -> String {
    let told: Value = serde_json::from_str(&read(place, &format!("{run}/run.json"))).unwrap();
    told["more"]["ledger"]["trial"].as_str().unwrap_or_else(|| panic!("{told}")).to_string()
}

#[test]
fn ledger_has_the_result_before_any_file() {
    let place = Place::new();
    market(&place, true, "4000");
    // A folder where the predictions would go: the run ends just behind the ledger.
    std::fs::create_dir_all(place.path().join("run/predictions.parquet/in the way")).unwrap();
    let (run, exit) = place.json(&small(ROW, "run", "3"));
    assert_ne!(exit, 0, "{run}");
    assert_eq!(finishes(&place), 1);
    assert!(!read(&place, "run/log.jsonl").contains("test_mcc") && !place.path().join("run/model").exists());
    std::fs::remove_dir_all(place.path().join("run/predictions.parquet")).unwrap();
    let (again, exit) = place.json(&["runs", "resume", "run"]);
    assert_eq!((exit, &again["interrupted"]), (0, &Value::from(false)), "{again}");
    assert_eq!(finishes(&place), 1, "a trial finishes once");
    assert!(read(&place, "run/log.jsonl").contains("test_mcc") && place.path().join("run/model/model.json").is_file());
}

#[test]
fn unwritable_ledger_shows_no_result() {
    let place = Place::new();
    market(&place, true, "4000");
    let mut args = small(ROW, "run", "300");
    args.extend(["--patience", "300"]);
    let mut child = place.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = || place.path().join("run/run.json").exists();
    wait_for("the run", &mut child, begun);
    // Empty behind the run's back: both files, and what SQLite remembers of them, which is mapped and keeps its length.
    for file in ["home/ledger.sqlite", "home/ledger.sqlite-wal"] {
        std::fs::OpenOptions::new().write(true).truncate(true).open(place.path().join(file)).unwrap();
    }
    let index = place.path().join("home/ledger.sqlite-shm");
    let zeros = vec![0; std::fs::metadata(&index).unwrap().len() as usize];
    std::fs::OpenOptions::new().write(true).open(&index).unwrap().write_all(&zeros).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_ne!(code(&output), 0, "{}", text(&output.stderr));
    assert!(read(&place, "run/log.jsonl").contains("\"epoch\":300"), "{}", text(&output.stderr));
    for file in ["log.jsonl", "training.log"] {
        let log = read(&place, &format!("run/{file}"));
        assert!(!log.contains("test_mcc") && !log.contains("test MCC"), "{file}");
    }
    for name in ["predictions.parquet", "model", "result.json"] {
        assert!(!place.path().join("run").join(name).exists(), "{name}");
    }
}

#[test]
fn run_without_checkpoint_resumes_only_with_its_settings() {
    let place = Place::new();
    market(&place, true, "4000");
    let (run, exit) = place.json(&small(ROW, "run", "3"));
    assert_eq!(exit, 0, "{run}");
    killed_early(&place, "run");
    let (settings, told) = (read(&place, "run/settings.toml"), read(&place, "run/run.json"));
    let refused = |words: &[&str]| {
        let (value, exit) = place.json(&["runs", "resume", "run"]);
        assert_eq!(exit, 5, "{value}");
        words.iter().for_each(|word| assert!(value.to_string().contains(word), "{word}: {value}"));
        place.write("run/settings.toml", &settings);
        place.write("run/run.json", &told);
    };
    let changed = settings.replacen("decay = 0.01", "decay = 0.1", 1);
    assert_ne!(changed, settings);
    place.write("run/settings.toml", &changed);
    refused(&["is of another run: its settings is"]);
    let asked: Value = serde_json::from_str(&told).unwrap();
    let symbol = serde_json::from_str::<Value>(&read(&place, "run/model/model.json")).unwrap()["symbols"][0].clone();
    place.write("run/settings.toml", &format!("{settings}\n[instrument.{symbol}]\nspread_bp = 33.0\n"));
    refused(&["is of another run: its data is"]);
    // In words, not in hashes.
    place.write("run/run.json", &told.replace("\"program\": \"", "\"program\": \"0.0.9-"));
    refused(&["is of version 0.0.9-", "resume it with version"]);
    assert_eq!(asked["more"]["about"]["device"], "cpu", "{told}");
    let mut moved = asked.clone();
    moved["more"]["about"]["device"] = "NVIDIA H200".into();
    place.write("run/run.json", &moved.to_string());
    refused(&["its device is `NVIDIA H200`, this run's is `cpu`"]);
    // Other instructions of a processor are said, and it goes on.
    moved = asked.clone();
    moved["more"]["about"]["instructions"] = "sse9".into();
    place.write("run/run.json", &moved.to_string());
    let (again, exit) = place.json(&["runs", "resume", "run"]);
    assert_eq!((exit, &again["judged"]), (0, &run["judged"]), "{again}");
    assert!(again["notes"].to_string().contains("than before (sse9)"), "{again}");
    assert!(!run["notes"].to_string().contains("other instructions"), "{run}");
}

#[test]
fn trial_id_depends_on_costs_universe_and_root_seed() {
    let place = Place::new();
    let mut args = vec!["data", "synth", "--kind", "crypto", "--timeframe", "5m", "--count", "3", "--bars", "2500"];
    args.extend(["--name", "coin", "--seed", "7", "--set", "synth.ragged=false"]);
    let (made, exit) = place.json(&args);
    assert_eq!(exit, 0, "{made}");
    let train = |out: &str, more: &[&str]| -> (Vec<Value>, String) {
        let mut args = vec!["train", "coin", "--learner", "mlp", "--features", ROW, "--labels", "fixed(1)"];
        args.extend(["--folds", "2", "--device", "cpu", "--epochs", "1", "--batch-size", "128", "--out", out]);
        let seeds = if more.contains(&"--seeds") { &[][..] } else { &["--seeds", "1"] };
        args.extend(seeds.iter().chain(more));
        let (run, exit) = place.json(&args);
        assert_eq!(exit, 0, "{run}");
        let model: Value = serde_json::from_str(&read(&place, &format!("{out}/model/model.json"))).unwrap();
        (model["symbols"].as_array().unwrap().clone(), trial(&place, out))
    };
    let (symbols, all) = train("all", &[]);
    let symbols: Vec<&str> = symbols.iter().map(|s| s.as_str().unwrap()).collect();
    assert_eq!(symbols.len(), 3);
    let two = |a: usize, b: usize| format!("{},{}", symbols[a], symbols[b]);
    let spread = format!("instrument.{}.spread_bp=33.5", symbols[0]);
    let others = [
        train("costs", &["--set", &spread]).1,
        train("first", &["--symbols", &two(0, 1)]).1,
        train("other", &["--symbols", &two(0, 2)]).1,
        train("rate", &["--set", "train.rate=0.01"]).1,
        all.clone(),
    ];
    let different: std::collections::BTreeSet<&String> = others.iter().collect();
    assert_eq!(different.len(), others.len(), "{others:?}");
    assert_eq!(train("seeds", &["--seeds", "2"]).1, all, "seeds inside a run are averaged");
    assert_eq!(train("turned", &["--symbols", &two(1, 0)]).1, others[1], "the order of symbols is no trial");
    // The best of many root seeds is good by chance: another one is another trial of the same configuration.
    let other = train("seed", &["--seed", "9"]).1;
    assert_eq!((other.strip_suffix("@9"), other != all), (all.strip_suffix("@1"), true), "{other} {all}");
    let (listed, exit) = place.json(&["trials", "coin"]);
    assert_eq!(exit, 0, "{listed}");
    assert_eq!((listed["trials"].as_u64(), listed["configs"].as_u64()), (Some(6), Some(5)), "{listed}");
    let starts = listed["starts"].as_array().unwrap();
    assert_eq!(starts.len(), 8, "{listed}");
    assert!(starts[0]["what"].as_str().unwrap().starts_with("all: mlp "), "{listed}");
}

#[test]
fn run_resumes_from_another_working_directory() {
    let place = Place::new();
    market(&place, true, "4000");
    place.write("mine.txt", ROW);
    let plain = place.json(&small("mine.txt", "run", "3"));
    assert_eq!(plain.1, 0, "{}", plain.0);
    let symbol = serde_json::from_str::<Value>(&read(&place, "run/model/model.json")).unwrap()["symbols"][0].clone();
    let symbol = symbol.as_str().unwrap();
    place.write("members.csv", &format!("symbol,from,to\n{symbol},1990-01-01,2090-01-01\n"));
    let mut args = small("mine.txt", "again", "3");
    args.extend(["--membership", "members.csv"]);
    let (run, exit) = place.json(&args);
    assert_eq!(exit, 0, "{run}");
    killed_early(&place, "again");
    // The file of features is another by now, and none is seen from where it goes on.
    place.write("mine.txt", "rsi(5)");
    std::fs::create_dir(place.path().join("elsewhere")).unwrap();
    let folder = place.path().join("again").display().to_string();
    let output = place
        .command(&["runs", "resume", &folder, "--json"])
        .current_dir(place.path().join("elsewhere"))
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
    let resumed: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(resumed["judged"], run["judged"]);
}

#[test]
fn resume_refuses_ignored_settings() {
    let place = Place::new();
    market(&place, false, "1500");
    place.write("s.toml", "seed = 3\n");
    for words in [["--set", "train.epochs=9"], ["--settings", "s.toml"], ["--set", "seed=1"]] {
        let (value, exit) = place.json(&[&["runs", "resume", "nowhere"][..], &words].concat());
        assert_eq!(exit, 2, "{value}");
        assert!(value.to_string().contains("only --threads and --memory may change"), "{value}");
    }
    // Ten million combinations are counted, not made.
    let tenths = (1..=10).map(|i| format!("0.{i:02}")).collect::<Vec<_>>().join(",");
    let keys = ["rate", "warmup", "decay", "clip", "smoothing", "average"].map(|key| format!("{key}={tenths}"));
    let mut args = vec!["train", "coin", "--try", "batch=1,2,3,4,5,6,7,8,9,10"];
    keys.iter().for_each(|key| args.extend(["--try", key]));
    let (value, exit) = place.json(&args);
    assert_eq!(exit, 2, "{value}");
    assert!(value.to_string().contains("10000000 combinations"), "{value}");
    // A value that was set and is tried as well.
    let mut args = small(ROW, "run", "2");
    args.extend(["--try", "batch=64,256", "--dry-run"]);
    let (plan, exit) = place.json(&args);
    assert_eq!(exit, 0, "{plan}");
    assert!(plan["notes"].to_string().contains("train.batch = 128 is not used"), "{plan}");
}

#[test]
fn long_plan_is_reported_at_the_start() {
    let place = Place::new();
    market(&place, false, "6000");
    let mut args = small(ROW, "run", "1000000");
    let at = args.iter().position(|a| *a == "--seeds").unwrap();
    args[at + 1] = "40";
    args.extend(["--patience", "1000000"]);
    let mut child = place.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.take(40).find(|line| line.contains("minutes; patience usually ends it sooner, --budget 10m"));
    let log = place.path().join("run/training.log");
    let noted = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("budget=10m"));
    wait_for("a note in the log", &mut child, noted);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.is_some() && noted());
    // With a budget it is known, and said, before anything is trained.
    let mut args = small(ROW, "fitted", "5000");
    args.extend(["--budget", "2s"]);
    let output = place.run(&args);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("to fit into 2.0 s: ") && said.contains(" of the budget of 2.0 s"), "{said}");
}
