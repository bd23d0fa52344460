//! The binary as a user meets it: words, JSON, exit codes, closed pipes, Ctrl-C.
//!
//! Every run has a home of its own. Snapshots hold no time, rate or path: `scrub` takes them out.

mod artefact;
mod backtest;
mod bench;
mod check;
mod checkpoints;
#[cfg(target_os = "linux")]
mod driver;
mod evolve;
mod guide;
mod holdout;
mod killed;
mod monitor;
mod pages;
mod policies;
mod ppo;
mod probe;
mod report;
mod resume;
mod runs;
mod search;
mod selftest;
mod train;
mod tune;
mod wrong;

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A place to run in, with a home of its own.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("written");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fullbore"));
        command.args(args).current_dir(self.path()).env("FULLBORE_HOME", self.path().join("home"));
        command.env_remove("RUST_BACKTRACE").env_remove("NO_COLOR").stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary starts")
    }

    /// Runs with `--json` and gives the one object, and the exit code.
    fn json(&self, args: &[&str]) -> (Value, i32) {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let output = self.run(&args);
        let text = text(&output.stdout);
        let value: Value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{args:?}: {e}\n{text}{}", self::text(&output.stderr)));
        assert_eq!(text.lines().count(), 1, "exactly one object on one line");
        assert!(value["schema"].is_string() && value["ok"].is_boolean());
        (value, code(&output))
    }

    /// Runs a debug build until just before the rename that `at` names (`files::rename`), where it ends as if killed.
    fn abort(&self, args: &[&str], at: &str) {
        let output = self.command(args).env("FULLBORE_ABORT_AT", at).output().expect("the binary starts");
        assert_eq!(output.status.code(), None, "{at}: {}{}", text(&output.stdout), text(&output.stderr));
    }

    /// The object without what changes from run to run.
    /// Two files have the same bytes.
    fn same_files(&self, one: &str, other: &str) {
        let [a, b] = [one, other].map(|path| std::fs::read(self.path().join(path)).expect(path));
        assert!(a == b, "{one} and {other} differ");
    }

    fn scrubbed(&self, args: &[&str], expected: i32) -> String {
        let (mut value, code) = self.json(args);
        assert_eq!(code, expected, "{value}");
        scrub(&mut value, &self.path().display().to_string());
        serde_json::to_string_pretty(&value).expect("it was JSON")
    }
}

/// Waits until something has come about, or the process has ended. How long that takes is the machine's affair; the
/// limit only ends a test that hangs.
fn wait_for(what: &str, child: &mut Child, mut come: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if come() || child.try_wait().expect("a child").is_some() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{what} never came");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code, not a signal")
}

/// Takes out times, rates, sizes that depend on a compressor, hashes, and the place.
fn scrub(value: &mut Value, place: &str) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                let changes = key.ends_with("_per_s")
                    || key.ends_with("seconds")
                    || ["hash", "memory_bytes", "peak_memory_bytes", "ns_per_bar", "threads"].contains(&key.as_str());
                if changes || (key == "bytes" && value.is_number()) {
                    *value = "[...]".into();
                } else {
                    scrub(value, place);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|v| scrub(v, place)),
        Value::String(text) => *text = text.replace(place, "[place]"),
        _ => {}
    }
}

/// Sixty trading days of one share, with a row twice and two rows swapped.
fn sample() -> String {
    let mut rows = Vec::new();
    let (mut day, mut price) = (0, 100.0f64);
    while rows.len() < 60 {
        // 2024-01-01 was a Monday.
        if day % 7 < 5 {
            let (month, of_month) = [(1, 0), (2, 31), (3, 60)]
                .into_iter()
                .rev()
                .find(|m| day >= m.1)
                .map(|m| (m.0, day - m.1 + 1))
                .unwrap_or((1, 1));
            let open = price;
            price += f64::from((day * 7) % 11) * 0.3 - 1.4;
            let (high, low) = (open.max(price) + 0.5, open.min(price) - 0.5);
            rows.push(format!(
                "2024-{month:02}-{of_month:02},{open:.2},{high:.2},{low:.2},{price:.2},{}",
                1000 + day * 13
            ));
        }
        day += 1;
    }
    rows.insert(20, rows[20].clone());
    rows.swap(30, 31);
    format!("Date,Open,High,Low,Close,Volume\n{}\n", rows.join("\n"))
}

/// The help of `fullbore`, of each verb that it lists, of each that those list.
#[test]
fn help_of_every_verb() {
    let place = Place::new();
    let mut verbs = vec![Vec::new()];
    while let Some(verb) = verbs.pop() {
        let args: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let output = place.run(&args);
        assert_eq!(code(&output), 0);
        let help = text(&output.stdout);
        let name = if verb.is_empty() { "fullbore".into() } else { verb.join("_") };
        let plain = ["bench", "runs_list", "runs_show", "runs_compare", "runs_resume", "runs_remove"].contains(&&*name);
        assert!(plain || help.contains("Examples:"), "{help}");
        assert!(help.lines().all(|l| l.chars().count() <= 100), "{help}");
        let listed = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
        let names = listed.filter_map(|l| l.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
        verbs.extend(names.map(|name| [&verb[..], &[name.to_string()]].concat()));
        insta::assert_snapshot!(format!("help_{name}"), help);
    }
}

#[test]
fn json_of_audit() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    insta::assert_snapshot!(place.scrubbed(&["data", "audit", "AAPL.csv"], 0));
}

#[test]
fn json_of_add_and_list() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    insta::assert_snapshot!("json_of_add_dry_run", place.scrubbed(&["data", "add", "AAPL.csv", "--dry-run"], 0));
    assert!(!place.path().join("home").exists(), "a dry run makes nothing");
    insta::assert_snapshot!("json_of_list_empty", place.scrubbed(&["data", "list"], 0));
    insta::assert_snapshot!("json_of_add", place.scrubbed(&["data", "add", "AAPL.csv"], 0));
    insta::assert_snapshot!("json_of_list", place.scrubbed(&["data", "list"], 0));
    // By its name, from another folder; and not twice without a word.
    let (audit, code) = place.json(&["data", "audit", "AAPL"]);
    assert_eq!((audit["bars"].as_u64(), code), (Some(60), 0), "{audit}");
    let (again, code) = place.json(&["data", "add", "AAPL.csv"]);
    assert_eq!(code, 5, "{again}");
    assert_eq!(place.json(&["data", "add", "AAPL.csv", "--replace"]).1, 0);
}

#[test]
fn json_of_synth() {
    let place = Place::new();
    insta::assert_snapshot!(place.scrubbed(
        &["data", "synth", "--count", "3", "--bars", "100", "--plant", "--accuracy", ".7", "--name", "p"],
        0
    ));
    assert_eq!(place.json(&["data", "audit", "p"]).0["bars"], 300);
    assert_eq!(
        place.json(&["data", "synth", "--count", "3", "--bars", "100", "--name", "p"]).1,
        5,
        "the name is taken"
    );
    // The same seed, the same bars; another seed, others.
    let hash = |seed: &str, name: &str| {
        let (made, code) = place
            .json(&["data", "synth", "--count", "2", "--bars", "50", "--seed", seed, "--out", name, "--name", "same"]);
        assert_eq!(code, 0, "{made}");
        made["entries"][0]["hash"].clone()
    };
    assert_eq!(hash("5", "a"), hash("5", "b"));
    assert_ne!(hash("5", "c"), hash("6", "d"));
}

#[test]
fn json_of_demo_and_its_page() {
    let place = Place::new();
    let (mut demo, code) = place.json(&["demo", "--quick", "--device", "cpu", "--out", "d"]);
    assert_eq!(code, 0, "{demo}");
    // The figures of a training depend on the instruction set; what they must be does not.
    let training = demo["training"].take();
    assert_eq!((training["run"]["members"].as_array().unwrap().len(), &training["resumed"]), (15, &false.into()));
    let found = &training["found"];
    let number = |field: &str| found[field].as_f64().unwrap_or_else(|| panic!("{field}: {found}"));
    assert_eq!(found["verdict"], "found", "{found}");
    assert!(
        number("mcc") > number("noise_mcc") && number("mcc") <= number("best_mcc") + number("noise_mcc"),
        "{found}"
    );
    assert!((number("signal_mcc") - number("best_mcc")).abs() < number("noise_mcc"), "{found}");
    // So weak a signal is neither too good to be true nor nothing.
    let evidence = &training["run"]["evidence"];
    assert_eq!(evidence["verdict"], "promising", "{evidence}");
    assert!(evidence["findings"]["sharpe_annual"].as_f64().is_some_and(|sharpe| sharpe > 0.5 && sharpe < 4.0));
    assert_eq!(training["run"]["report"], "d/training/report.html");
    assert!(found["shifted"]["p"].as_f64().unwrap() <= 0.01 && found["shifted"]["mean"].as_f64().unwrap().abs() < 0.1);
    scrub(&mut demo, &place.path().display().to_string());
    insta::assert_snapshot!(serde_json::to_string_pretty(&demo).expect("it was JSON"));
    let page = std::fs::read_to_string(place.path().join("d/report.html")).expect("the page");
    assert!(page.starts_with("<!doctype html>") && !page.contains("https://") && !page.contains("NaN"));
    for part in ["<h2>Training", "Walk-forward", "Validation MCC", "shifted in time", "Where the time went"] {
        assert!(page.contains(part), "{part}");
    }
    // It is a run as any other.
    for file in ["run.json", "settings.toml", "split.parquet", "predictions.parquet", "model/model.json"] {
        assert!(place.path().join("d/training").join(file).is_file(), "{file}");
    }
    let (listed, _) = place.json(&["runs", "list", "d"]);
    assert_eq!(listed["runs"][0]["state"], "finished", "{listed}");
}

#[cfg(unix)]
/// What a killed run left does not change the name of a fresh set's file.
#[test]
fn fresh_set_has_its_own_name() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("home/data")).expect("made");
    place.write("home/data/fut.parquet", "left by a killed run");
    let mut args = vec!["data", "synth", "--count", "1", "--bars", "300", "--name", "fut"];
    for file in ["fut.parquet", "fut~2.parquet"] {
        let (made, exit) = place.json(&args);
        assert_eq!(exit, 0, "{made}");
        let names = std::fs::read_dir(place.path().join("home/data")).expect("a folder").flatten();
        let names: Vec<String> = names.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        let sets: Vec<&String> = names.iter().filter(|name| name.ends_with(".parquet")).collect();
        assert_eq!(sets, [file], "{names:?}");
        args.push("--replace");
    }
}

/// The second Ctrl-C does not wait for the work, and standard output is one object all the same.
#[test]
#[cfg(unix)]
fn second_interrupt_still_gives_one_object() {
    let place = Place::new();
    let args = ["demo", "--quick", "--device", "cpu", "--out", "d", "--set", "train.epochs=5000", "--json"];
    let mut child = place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let log = place.path().join("d/training/log.jsonl");
    wait_for("an epoch", &mut child, || std::fs::read_to_string(&log).is_ok_and(|t| t.contains("\"epoch\"")));
    for _ in 0..2 {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status();
        assert!(sent.is_ok());
    }
    let output = child.wait_with_output().expect("it ends");
    let value: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((code(&output), value["schema"].as_str()), (130, Some("demo/1")), "{value}");
}

#[test]
fn interrupted_demo_resumes() {
    let place = Place::new();
    let args = [
        "demo",
        "--quick",
        "--device",
        "cpu",
        "--out",
        "d",
        "--set",
        "train.epochs=120",
        "--set",
        "train.checkpoint=1",
    ];
    let mut child = place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let log = place.path().join("d/training/log.jsonl");
    let begun = || std::fs::read_to_string(&log).is_ok_and(|t| t.contains("\"epoch\""));
    wait_for("an epoch", &mut child, begun);
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 130, "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("fullbore demo --out d"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("stopped and saved"), "{}", text(&output.stdout));
    // The same demo goes on with it; another one begins beside it.
    let (same, exit) = place.json(&args);
    assert_eq!((exit, &same["training"]["resumed"]), (0, &true.into()), "{same}");
    assert!(same["training"]["found"]["verdict"].is_string(), "{same}");
    assert!(same["training"]["run"]["folder"].as_str().is_some_and(|f| f.ends_with("training")), "{same}");
    let other = place.run(&["demo", "--quick", "--device", "cpu", "--out", "d", "--set", "train.epochs=1"]);
    let said = text(&other.stdout);
    // The whole story, and at its end where the pages are.
    let order = ["A damaged copy:", "Trained:", "Backtest over", "Verdict", "next: ", "The data: d/report.html"];
    let places: Vec<_> = order.iter().map(|word| said.find(word)).collect();
    assert!(code(&other) == 0 && places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {said}");
    assert!(said.trim_end().lines().last().unwrap().starts_with("The run: d/training-2/report.html"), "{said}");
}

/// A set for sixty bars.
const SET: &str = "rsi(14)\ngap = open/close[1] - 1\nvolume_ratio(20)\n[slow @1w]\nret = log_return(1)\n";

#[test]
fn json_of_features() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    place.write("set.txt", SET);
    let args = ["features", "AAPL.csv", "--features", "set.txt", "--labels", "fixed(3)", "--out", "t.parquet"];
    insta::assert_snapshot!("json_of_features", place.scrubbed(&args, 0));
    insta::assert_snapshot!("json_of_features_cached", place.scrubbed(&args, 0));
    insta::assert_snapshot!("json_of_features_show", place.scrubbed(&["features", "--show", "set.txt"], 0));
    let (list, code) = place.json(&["features", "--list"]);
    let rsi =
        list["indicators"].as_array().and_then(|all| all.iter().find(|i| i["name"] == "rsi")).expect("rsi is listed");
    assert_eq!((code, rsi["usage"].as_str(), rsi["chapter"].as_str()), (0, Some("rsi(close, 14)"), Some("momentum")));
    // The table is a file of bars as well.
    assert_eq!(place.json(&["data", "audit", "t.parquet"]).0["bars"], 60);
}

#[test]
fn cached_features_are_byte_identical() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    place.write("set.txt", SET);
    let run = |out: &str, more: &[&str]| {
        let args = [&["features", "AAPL.csv", "--features", "set.txt", "--out", out], more].concat();
        let (value, code) = place.json(&args);
        assert_eq!(code, 0, "{value}");
        value["cached"].as_bool().expect("it says so")
    };
    let bytes = |name: &str| std::fs::read(place.path().join(name)).expect("written");
    assert!(!run("a.parquet", &["--labels", "fixed(3)"]));
    assert!(run("b.parquet", &["--labels", "fixed(3)"]));
    assert_eq!((bytes("a.parquet"), bytes("a@1w.parquet")), (bytes("b.parquet"), bytes("b@1w.parquet")));
    assert!(!run("c.parquet", &["--labels", "fixed(3)", "--fresh"]), "--fresh computes");
    assert_eq!(bytes("a.parquet"), bytes("c.parquet"));
    // Another rule, another cost, another part of the data: another table.
    assert!(!run("d.parquet", &["--labels", "fixed(4)"]));
    assert!(!run("d.parquet", &["--labels", "fixed(3)", "--set", "label.cost_bp=7"]));
    assert!(!run("d.parquet", &["--labels", "fixed(3)", "--from", "2024-01-10"]));
    assert!(!run("d.parquet", &["--labels", "none"]));
    assert!(!run("e.parquet", &["--labels", "fixed(5)", "--set", "cache.limit=0"]));
    assert!(!run("e.parquet", &["--labels", "fixed(5)"]), "nothing was kept");
    // Damage is noticed and mended.
    for entry in std::fs::read_dir(place.path().join("home/cache/features")).expect("the cache") {
        let table = entry.expect("an entry").path().join("table.parquet");
        let mut damaged = std::fs::read(&table).expect("kept");
        damaged[100] ^= 1;
        std::fs::write(&table, damaged).expect("damaged");
    }
    assert!(!run("f.parquet", &["--labels", "fixed(3)"]));
    assert!(run("f.parquet", &["--labels", "fixed(3)"]));
    assert_eq!(bytes("a.parquet"), bytes("f.parquet"));
    let left = std::fs::read_dir(place.path()).expect("the place").flatten().map(|e| e.file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with(".tmp")));
}

#[test]
fn dropped_volume_features_are_reported() {
    let place = Place::new();
    let without = |line: &str| line.rsplit_once(',').map_or(String::new(), |l| l.0.to_string());
    place.write("EURUSD.csv", &sample().lines().map(without).collect::<Vec<_>>().join("\n"));
    let (value, code) = place.json(&["features", "EURUSD.csv", "--features", "basic"]);
    assert_eq!(code, 0, "{value}");
    assert_eq!(value["left"], serde_json::json!(["volume_ratio_20", "cmf_20"]));
    assert!(place.path().join("EURUSD-features.parquet").exists());
    let words = text(&place.run(&["features", "EURUSD.csv", "--features", "basic"]).stdout);
    for part in ["no volume", "cmf_20", "from the cache", "Warm-up", "Labels", "more than a fifth", "above_sma_100"] {
        assert!(words.contains(part), "{part} is missing in\n{words}");
    }
    assert!(words.lines().all(|l| l.chars().count() <= 100), "{words}");
    assert_eq!(place.json(&["features", "EURUSD.csv", "--features", "cmf(20), mfi(14)"]).1, 3);
    let list = text(&place.run(&["features", "--list"]).stdout);
    assert!(list.lines().all(|l| l.chars().count() <= 100) && list.contains("Momentum"), "{list}");
    let said = text(&place.run(&["features", "EURUSD.csv", "--features", "rsi(14), smaa(20)"]).stderr);
    assert!(said.contains("    rsi(14), smaa(20)\n             ^^^^\n"), "{said}");
}

#[test]
fn audit_text_output() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    let output = place.run(&["data", "audit", "AAPL.csv"]);
    assert_eq!(code(&output), 0);
    let words = text(&output.stdout);
    assert!(words.lines().all(|l| l.chars().count() <= 100) && !words.contains('\u{1b}'), "{words}");
    for part in ["Recognised", "Symbols", "Gaps", "Repairs", "Instruments as used", "Verdict:", "rows/s"] {
        assert!(words.contains(part), "{part} is missing in\n{words}");
    }
}

/// One case of failure: the words, the exit code, the kind, and words the message and remedy must hold.
#[test]
fn each_failure_has_its_exit_code_and_json() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    place.write("bad.toml", "seed = 1\n[repair]\nordr = \"sort\"\n");
    place.write("type.toml", "threads = \"many\"\n");
    place.write("wrong.txt", "rsi(14)\nemaa(20)\n");
    place.write("nonsense.csv", "this is\nno table\nof bars\n");
    let cases: &[(&[&str], i32, &str, &[&str])] = &[
        (&[], 2, "usage", &[]),
        (&["data"], 2, "usage", &[]),
        (&["dat"], 2, "usage", &["data"]),
        (&["data", "audit"], 2, "usage", &["<DATA>"]),
        (&["data", "audit", "AAPL.csv", "--frm", "2024"], 2, "usage", &["--frm", "--from"]),
        (&["data", "audit", "AAPL.csv", "--from", "yesterday"], 2, "usage", &["--from", "yesterday"]),
        (&["data", "audit", "AAPL.csv", "--from", "2024-02-01", "--to", "2024-01-01"], 2, "usage", &["--from"]),
        (&["data", "audit", "AAPL.csv", "--stamp", "middle"], 2, "usage", &["--stamp", "start, end or auto"]),
        (&["data", "audit", "AAPL.csv", "--label", "end"], 2, "usage", &["--label is now called --stamp"]),
        (&["data", "audit", "AAPL.csv", "--memory", "lots"], 2, "usage", &["--memory lots", "8GiB"]),
        (&["data", "audit", "AAPL.csv", "--threads", "0"], 2, "usage", &["--threads 0"]),
        (&["data", "audit", "AAPL.csv", "--set", "repair.ordr=sort"], 2, "usage", &["repair.order"]),
        (&["data", "audit", "AAPL.csv", "--settings", "bad.toml"], 2, "usage", &["repair.ordr", "repair.order"]),
        (&["data", "audit", "AAPL.csv", "--settings", "type.toml"], 2, "usage", &["threads", "many"]),
        (&["data", "audit", "AAPL.csv", "--settings", "none.toml"], 2, "usage", &["settings"]),
        // A flag that would change nothing is not taken.
        (&["data", "audit", "AAPL.csv", "--seed", "2"], 2, "usage", &["--seed"]),
        (&["data", "list", "--threads", "2"], 2, "usage", &["--threads"]),
        (&["data", "synth", "--accuracy", "0.7"], 2, "usage", &["--plant"]),
        (&["data", "synth", "--bars", "10", "--years", "2"], 2, "usage", &["--years"]),
        (&["data", "synth", "--name", "../x"], 2, "usage", &["--name"]),
        (&["data", "audit", "NONE.csv"], 3, "input", &["data list"]),
        (&["data", "audit", "nonsense.csv"], 3, "input", &[]),
        (&["data", "audit", "AAPL.csv", "--set", "repair.duplicates=refuse"], 3, "input", &["repair.duplicates"]),
        (&["data", "audit", "AAPL.csv", "--membership", "none.csv"], 3, "input", &[]),
        (&["features"], 2, "usage", &["<DATA>"]),
        (&["features", "AAPL.csv", "--list"], 2, "usage", &["--list"]),
        (&["features", "AAPL.csv", "--features", "rsi(14), smaa(20)"], 2, "usage", &["smaa", "`sma`", "10"]),
        (&["features", "AAPL.csv", "--features", "ful"], 2, "usage", &["`full`"]),
        (&["features", "AAPL.csv", "--features", "close, rsi(14)"], 2, "usage", &["my_close = close"]),
        (&["features", "AAPL.csv", "--labels", "tripel(24)"], 2, "usage", &["--labels", "`triple(24)`"]),
        (&["features", "AAPL.csv", "--set", "label.rule=often"], 2, "usage", &["label.rule", "fixed(12)"]),
        (&["features", "AAPL.csv", "--features", "no/such/set.txt"], 3, "input", &["no/such/set.txt"]),
        (&["features", "AAPL.csv", "--features", "wrong.txt"], 3, "input", &["wrong.txt", "`ema`"]),
        (&["features", "AAPL.csv", "--features", "col(funding)"], 3, "input", &["funding"]),
        (&["features", "NONE.csv"], 3, "input", &["data list"]),
        (&["data", "synth", "--count", "100000", "--bars", "100000", "--memory", "64MiB"], 4, "machine", &["--memory"]),
    ];
    for (args, expected, kind, words) in cases {
        let (value, code) = place.json(args);
        assert_eq!(code, *expected, "{args:?} {value}");
        assert_eq!(
            (value["ok"].as_bool(), value["error"]["kind"].as_str()),
            (Some(false), Some(*kind)),
            "{args:?} {value}"
        );
        let fields: Vec<&String> = value["error"].as_object().expect("an object").keys().collect();
        assert_eq!(fields, ["kind", "message", "file", "line", "column", "remedy"]);
        let said = value["error"].to_string();
        for word in *words {
            assert!(said.contains(word), "{args:?}: {said} lacks {word}");
        }
        // The same in words: on standard error alone, with the same code.
        let output = place.run(args);
        assert_eq!(self::code(&output), *expected);
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
        assert!(!text(&output.stderr).contains("panicked"));
    }
    let (value, _) = place.json(&["data", "audit", "AAPL.csv", "--settings", "bad.toml"]);
    assert_eq!((value["error"]["line"].as_u64(), value["error"]["column"].as_u64()), (Some(3), Some(1)));
    assert!(
        text(&place.run(&["data", "audit", "AAPL.csv", "--settings", "bad.toml"]).stderr)
            .starts_with("error: bad.toml:3:1: ")
    );
}

#[test]
fn negative_verdict_exits_with_one() {
    let place = Place::new();
    // A file of which a third cannot be true.
    let absurd = |(i, line): (usize, &str)| if i % 3 == 1 { line.replacen(',', ",-", 1) } else { line.to_string() };
    place.write("AAPL.csv", &sample().lines().enumerate().map(absurd).collect::<Vec<_>>().join("\n"));
    let (value, code) = place.json(&["data", "audit", "AAPL.csv"]);
    assert_eq!((value["ok"].as_bool(), value["verdict"].as_str(), code), (Some(true), Some("refuse"), 1), "{value}");
    let (value, code) = place.json(&["data", "add", "AAPL.csv"]);
    assert_eq!((value["entries"].as_array().map(Vec::len), code), (Some(0), 1), "{value}");
    assert_eq!(place.json(&["data", "list"]).0["entries"].as_array().map(Vec::len), Some(0));
}

#[test]
fn help_and_version_respect_json() {
    let place = Place::new();
    let (value, code) = place.json(&["data", "audit", "--help"]);
    assert_eq!((value["schema"].as_str(), code), (Some("help/1"), 0));
    assert_eq!(place.json(&["--version"]).1, 0);
}

#[test]
fn flags_override_set_which_overrides_settings_files() {
    let place = Place::new();
    place.write("s.toml", "seed = 3\n[synth]\ncount = 2\nbars = 30\n");
    let seed = |more: &[&str]| {
        let name = format!("n{}", more.concat().replace(['=', '-'], ""));
        let args = [&["data", "synth", "--settings", "s.toml", "--name", &name], more].concat();
        let (value, code) = place.json(&args);
        assert_eq!(code, 0, "{value}");
        assert_eq!(value["symbols"], 2);
        value["seed"].clone()
    };
    assert_eq!(seed(&[]), 3);
    assert_eq!(seed(&["--set", "seed=4"]), 4);
    assert_eq!(seed(&["--set", "seed=4", "--seed", "5"]), 5);
}

#[test]
fn closed_pipe_exits_quietly() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    for args in
        [&["--help"][..], &["data", "audit", "AAPL.csv"], &["data", "audit", "AAPL.csv", "--json"], &["data", "list"]]
    {
        let mut child =
            place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 0, "{args:?} {}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_on_stdout_is_a_machine_error() {
    let place = Place::new();
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let status =
        place.command(&["data", "list"]).stdout(full).stderr(Stdio::null()).status().expect("the binary starts");
    assert_eq!(status.code(), Some(4));
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_stops_and_leaves_no_files() {
    // Bit 1 of the signals that are caught is SIGINT.
    let caught = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
    };
    let place = Place::new();
    for json in [&[][..], &["--json"]] {
        let args = [
            &[
                "data",
                "synth",
                "--kind",
                "crypto",
                "--timeframe",
                "1m",
                "--bars",
                "600000",
                "--count",
                "60",
                "--memory",
                "8GiB",
            ],
            json,
        ]
        .concat();
        let mut child =
            place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let pid = child.id();
        wait_for("a handler of signals", &mut child, || caught(pid));
        let sent = Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("kill");
        assert!(sent.success());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 130, "{}{}", text(&output.stdout), text(&output.stderr));
        if json.is_empty() {
            assert!(text(&output.stderr).starts_with("error: "), "{}", text(&output.stderr));
        } else {
            let value: Value = serde_json::from_str(&text(&output.stdout)).expect("one object");
            assert_eq!(value["error"]["kind"], "interrupted");
        }
        let left: Vec<_> = std::fs::read_dir(place.path().join("home/data")).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
