//! Runs by the names that the list shows: listed, shown, compared, removed; and data sets removed.

use super::train::{ROW, market, small};
use super::{Place, code, text};
use serde_json::{Value, json};

#[test]
fn runs_go_by_the_name_in_the_list() {
    let place = Place::new();
    market(&place, true, "4000");
    let set = format!("p = col(plant), {ROW}");
    for (out, rate) in [("runs/a", "1e-3"), ("runs/b", "3e-3")] {
        let mut args = small(&set, out, "2");
        let rate = format!("train.rate={rate}");
        args.extend(["--set", &rate]);
        let output = place.run(&args);
        let (said, progress) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(code(&output), 0, "{progress}");
        // The plan first, the result behind it, each once.
        let order = ["coin.parquet", "labels fixed(1)", "Walk forward", "Members", "Verdict", "Where the time went"];
        let places: Vec<usize> =
            order.iter().map(|word| said.find(word).unwrap_or_else(|| panic!("{word}: {said}"))).collect();
        assert!(places.is_sorted() && said.matches("Walk forward").count() == 1, "{places:?}: {said}");
        assert!(said.ends_with(&format!("{out}/report.html\n")), "{said}");
    }
    let (listed, exit) = place.json(&["runs", "list"]);
    let row = &listed["runs"][0];
    assert_eq!((exit, &row["name"], &row["data"]), (0, &json!("b"), &json!("coin")), "{listed}");
    assert_eq!((&row["learner"], &row["labels"]), (&json!("mlp"), &json!("fixed(1)")), "{listed}");
    // Two folds are too few: no figure sums them up, and the verdict says so.
    assert!(row["test_mcc"].is_null() && row["verdict"].is_string() && row["net_sharpe"].is_number(), "{row}");
    let shown = text(&place.run(&["runs", "list"]).stdout);
    assert!(shown.lines().all(|line| line.chars().count() <= 100) && shown.contains("net Sharpe"), "{shown}");
    let verdict = row["verdict"].as_str().unwrap();
    assert!(shown.contains(verdict), "{shown}");
    for verb in [&["runs", "show", "a"][..], &["monitor", "a", "--once"], &["report", "a"], &["predict", "a", "coin"]] {
        let output = place.run(verb);
        assert_eq!(code(&output), 0, "{verb:?}: {}", text(&output.stderr));
    }
    assert_eq!(code(&place.run(&["runs", "resume", "a"])), 5, "a finished run is found, and refused");

    let (compared, exit) = place.json(&["runs", "compare", "a", "b"]);
    assert_eq!((exit, &compared["runs"]), (0, &json!(["a", "b"])), "{compared}");
    let rate = json!({"what": "train.rate", "first": "0.001", "second": "0.003"});
    assert_eq!(compared["settings"], json!([rate]), "{compared}");
    let figures = compared["figures"].as_array().unwrap();
    let named = |what: &str| figures.iter().find(|f| f["what"] == what).unwrap_or_else(|| panic!("{what}: {compared}"));
    assert!(named("test MCC")["first"] != named("test MCC")["second"], "{compared}");
    assert!(named("net return")["first"].as_str().unwrap().ends_with(" %"), "{compared}");
    let shown = text(&place.run(&["runs", "compare", "a", "b"]).stdout);
    assert!(shown.contains("train.rate") && shown.contains("verdict"), "{shown}");
    let same = text(&place.run(&["runs", "compare", "a", "a"]).stdout);
    assert!(same.contains("Settings that differ\n  none"), "{same}");
}

#[test]
fn only_what_is_of_a_run_is_removed() {
    let place = Place::new();
    market(&place, false, "4000");
    let (run, exit) = place.json(&small(ROW, "runs/a", "1"));
    assert_eq!(exit, 0, "{run}");
    let trials = |place: &Place| place.json(&["trials"]).0["trials"].clone();
    assert_eq!(trials(&place), json!(1));
    let folder = place.path().join("runs/a");
    place.write("runs/a/mine.txt", "notes");
    // One that is at work stays whole.
    let lock = files::Lock::acquire(&folder).unwrap();
    let (refused, exit) = place.json(&["runs", "remove", "a"]);
    assert_eq!((exit, folder.join("run.json").exists()), (5, true), "{refused}");
    drop(lock);
    let (gone, exit) = place.json(&["runs", "remove", "a"]);
    assert_eq!((exit, &gone["left"]), (0, &json!(["mine.txt"])), "{gone}");
    assert!(gone["files"].as_u64().unwrap() > 10 && gone["bytes"].as_u64().unwrap() > 10_000, "{gone}");
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["mine.txt"]);
    // What is no run is refused, also where it was one; the trial still counts.
    let again = place.run(&["runs", "remove", "a"]);
    assert!(code(&again) == 2 && folder.join("mine.txt").exists(), "{}", text(&again.stderr));
    assert_eq!(trials(&place), json!(1));
    let (run, exit) = place.json(&small(ROW, "runs/b", "1"));
    assert_eq!(exit, 0, "{run}");
    // A refit tells what it will do, then what came of it; an opened holdout, the page of a report and what a killed
    // process left are of the run.
    let refit = place.run(&["refit", "b", "--out", "runs/c", "--device", "cpu"]);
    let said = text(&refit.stdout);
    let places = ["Everything is training", "Where the time went", "runs/c"].map(|word| said.rfind(word));
    assert!(code(&refit) == 0 && places[0].is_some() && places.is_sorted(), "{said}{}", text(&refit.stderr));
    assert_eq!(code(&place.run(&["holdout", "b"])), 0);
    assert!(place.path().join("runs/b/holdout.json").exists());
    place.write("runs/b/.result.json.1-2.fullbore.tmp", "{");
    let said = place.run(&["runs", "remove", "b"]);
    assert!(code(&said) == 0 && text(&said.stdout).contains("stay in the ledger"), "{}", text(&said.stderr));
    assert!(!place.path().join("runs/b").exists());

    let (listed, _) = place.json(&["data", "list"]);
    let file = place.path().join("home/data").join(listed["entries"][0]["file"].as_str().unwrap());
    assert!(file.exists());
    let (gone, exit) = place.json(&["data", "remove", "coin"]);
    assert_eq!((exit, &gone["schema"], &gone["entries"]), (0, &json!("remove/1"), &listed["entries"]), "{gone}");
    let (listed, _) = place.json(&["data", "list"]);
    assert!(!file.exists() && listed["entries"].as_array().is_some_and(Vec::is_empty), "{listed}");
    let (refused, exit) = place.json(&["data", "remove", "coin"]);
    assert_eq!((exit, &refused["ok"]), (2, &Value::from(false)), "{refused}");
}
