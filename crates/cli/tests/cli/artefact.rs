//! The model as a folder that is asked later, and what a training reads: nothing is computed, taken or left out in
//! silence.

#[path = "../../../learn/tests/ready/make.rs"]
mod make;

use super::train::probabilities;
use super::{Place, code, text};
use make::{f32s, f64s, i64s, npz, strings};
use serde_json::Value;
use std::collections::BTreeMap;

/// Numbers between 0 and 1, the same every time.
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// Bars of a quarter of an hour that walk: start in seconds, then open, high, low, close, volume.
fn walk(bars: i64, seed: u64) -> Vec<(i64, [f64; 5])> {
    let (mut draw, mut price) = (numbers(seed), 100.0f64);
    let bar = |i: i64| {
        let open = price;
        price *= 1.0 + 0.004 * (draw() - 0.5);
        (1_708_387_200 + 900 * i, [open, open.max(price) * 1.001, open.min(price) * 0.999, price, 50.0 + draw()])
    };
    (0..bars).map(bar).collect()
}

/// The same as text; stamps carry no zone, and prices are halved in the middle.
fn csv(bars: i64, seed: u64, volume: bool) -> String {
    let row = |(i, (start, mut v)): (usize, (i64, [f64; 5]))| {
        if i as i64 >= bars / 2 {
            v[..4].iter_mut().for_each(|p| *p /= 2.0);
        }
        let stamp = files::time::rfc3339(start * 1_000_000_000);
        let [open, high, low, close, vol] = v;
        let vol = if volume { format!(",{vol:.2}") } else { String::new() };
        format!("{} {},{open:.5},{high:.5},{low:.5},{close:.5}{vol}\n", &stamp[..10], &stamp[11..16])
    };
    let head = if volume { "Date,Open,High,Low,Close,Volume\n" } else { "Date,Open,High,Low,Close\n" };
    walk(bars, seed).into_iter().enumerate().map(row).fold(head.to_string(), |all, row| all + &row)
}

/// The arguments of a small training of these data.
fn small<'a>(data: &'a str, features: &'a str, out: &'a str) -> Vec<&'a str> {
    let mut args = vec!["train", data, "--learner", "mlp", "--features", features, "--labels", "fixed(1)"];
    args.extend(["--set", "label.cost_bp=0", "--folds", "2", "--seeds", "1", "--device", "cpu", "--threads", "2"]);
    args.extend(["--epochs", "2", "--batch-size", "128", "--out", out]);
    args
}

/// Changes a model, as one of a version that wrote no manifest.
fn change(place: &Place, run: &str, with: &dyn Fn(&mut Value)) {
    let folder = place.path().join(run).join("model");
    let mut model: Value = serde_json::from_slice(&std::fs::read(folder.join("model.json")).unwrap()).unwrap();
    model["format"] = 1.into();
    with(&mut model);
    std::fs::write(folder.join("model.json"), model.to_string()).unwrap();
    let _ = std::fs::remove_file(folder.join("MANIFEST"));
}

const CALENDAR: &str = "r = log_return(1), v = volatility(20), h = hour_sin, d = session_open_distance";

#[test]
fn predict_reads_bars_as_in_training() {
    let place = Place::new();
    let mut rows: Vec<String> = csv(2400, 3, true).lines().map(str::to_string).collect();
    // The same moment twice, with another volume.
    rows.insert(101, format!("{}9", rows[100]));
    place.write("PX.csv", &rows.join("\n"));
    place.write("f.csv", "symbol,date,factor\nPX,2024-02-28,0.9\n");
    let mut args = small("PX.csv", CALENDAR, "run");
    args.extend(["--factors", "f.csv", "--timezone", "America/New_York", "--stamp", "end"]);
    args.extend(["--set", "repair.duplicates=first", "--set", "features.max_hole=5"]);
    args.extend(["--set", "instrument.PX.trading_day=17:00 America/New_York"]);
    let (run, exit) = place.json(&args);
    assert_eq!(exit, 0, "{run}");

    // Asked from elsewhere, without a word about how to read: the same bits, and nothing to say.
    std::fs::create_dir(place.path().join("sub")).unwrap();
    let asked = |more: &[&str]| {
        let base = ["predict", "../run", "../PX.csv", "--members", "--device", "cpu", "--out", "p.parquet", "--json"];
        let output = place.command(&[&base[..], more].concat()).current_dir(place.path().join("sub")).output().unwrap();
        let value: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        (value, code(&output))
    };
    let said = || probabilities(&place.path().join("sub/p.parquet"));
    let then = probabilities(&place.path().join("run/predictions.parquet"));
    let same = |now: &BTreeMap<_, Vec<u32>>| then.iter().filter(|(key, p)| now.get(*key) == Some(*p)).count();
    let (now, exit) = asked(&[]);
    assert_eq!((exit, &now["notes"]), (0, &serde_json::json!([])), "{now}");
    assert!(then.len() > 500 && same(&said()) == then.len(), "{} of {}", same(&said()), then.len());

    // What is said wins, and is named.
    for (more, name) in [
        (["--timezone", "UTC"], "bars.timezone is UTC here and was America/New_York"),
        (["--stamp", "start"], "bars.stamp is start here and was end"),
        (["--set", "repair.duplicates=last"], "repair.duplicates is last here and was first"),
        (["--set", "features.max_hole=9"], "features.max_hole is 9 here and was 5"),
        (["--set", "universe.factors=auto"], "universe.factors is none here and was /"),
        (["--set", "instrument.PX.trading_day=auto"], "instrument.PX.trading_day is auto here and was 17:00"),
    ] {
        let (other, exit) = asked(&more);
        // Beside it stands what the audit found in bars that are read otherwise.
        let notes = other["notes"].as_array().unwrap().iter();
        let notes: Vec<&Value> = notes.filter(|n| n.as_str().unwrap().contains(" here and was ")).collect();
        assert!(exit == 0 && notes.len() == 1 && notes[0].as_str().unwrap().contains(name), "{more:?}: {other}");
    }
    asked(&["--timezone", "UTC"]);
    assert!(same(&said()) < then.len());
    // Said otherwise but read the same: nothing to say.
    std::fs::rename(place.path().join("f.csv"), place.path().join("g.csv")).unwrap();
    let (now, exit) = asked(&["--factors", "../g.csv"]);
    assert!(exit == 0 && now["notes"] == serde_json::json!([]) && same(&said()) == then.len(), "{now}");
    // The file of the training is gone.
    let (gone, exit) = asked(&[]);
    assert!(exit == 3 && gone.to_string().contains("--factors"), "{gone}");

    // A model of a version that kept nothing of it is asked all the same, and the doubt is said.
    change(&place, "run", &|model| drop(model.as_object_mut().unwrap().remove("reading")));
    let (old, exit) = asked(&[]);
    assert!(exit == 0 && old["notes"].to_string().contains("did not keep how its bars were read"), "{old}");
}

/// Bars that a model has nothing to say about are an error with the reason, and no file is left behind.
#[test]
fn nothing_to_predict_is_an_error_and_leaves_no_file() {
    let place = Place::new();
    let all = csv(2400, 3, true);
    let lines: Vec<&str> = all.lines().collect();
    place.write("PX.csv", &lines[..=2300].join("\n"));
    let (run, exit) = place.json(&small("PX.csv", "r = log_return(1), v = volatility(20)", "run"));
    assert_eq!(exit, 0, "{run}");
    let part = |name: &str, bars: std::ops::Range<usize>| {
        std::fs::create_dir_all(place.path().join(name)).unwrap();
        place.write(&format!("{name}/PX.csv"), &format!("{}\n{}", lines[0], lines[1..][bars].join("\n")));
    };
    // Before the first test, after the data without a history, and the same bars with one.
    part("early", 0..400);
    part("late", 2300..2318);
    part("long", 2200..2400);
    let holdout = run["holdout_from"].as_str().unwrap();
    for (data, from, reason) in [
        ("early/PX.csv", "2024-01-01", "from before its first test (20"),
        (
            "late/PX.csv",
            "2024-01-01",
            "18 bars without enough history before them (windows are of 1 row, and `v` settles",
        ),
        ("PX.csv", holdout, "bars of the locked holdout of its training"),
        ("PX.csv", "2030-01-01", "the last bar is of 2024-03-14T22:45:00Z, before 2030-01-01"),
    ] {
        let (value, exit) = place.json(&["predict", "run", data, "--from", from, "--out", "p.parquet"]);
        let error = &value["error"];
        assert!(exit == 3 && error["remedy"].is_string() && error.to_string().contains(reason), "{data}: {value}");
        assert!(error.to_string().contains("the model has nothing to predict here"), "{value}");
    }
    let (value, exit) = place.json(&["predict", "run", "early/PX.csv"]);
    assert_eq!(exit, 3, "{value}");
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".parquet")), "{left:?}");
    let (value, exit) = place.json(&["predict", "run", "long/PX.csv", "--out", "p.parquet"]);
    assert!(exit == 0 && value["bars"].as_u64().unwrap() >= 100, "{value}");
}

/// `--from` says which bars are asked about; those before them warm the features up, so that nothing else changes.
#[test]
fn from_keeps_the_history_that_warms_up_features() {
    let place = Place::new();
    place.write("PX.csv", &csv(2400, 3, true));
    let (run, exit) = place.json(&small("PX.csv", "r = log_return(1), v = volatility(20), s = rsi(14)", "run"));
    assert_eq!(exit, 0, "{run}");
    let asked = |more: &[&str]| {
        let base = ["predict", "run", "PX.csv", "--members", "--device", "cpu", "--out", "p.parquet"];
        let (value, exit) = place.json(&[&base[..], more].concat());
        assert_eq!(exit, 0, "{value}");
        (probabilities(&place.path().join("p.parquet")), value)
    };
    let (mut all, _) = asked(&[]);
    let (some, value) = asked(&["--from", "2024-03-08"]);
    // A bar is known a quarter of an hour after its start.
    let first = files::time::parse(b"2024-03-08T00:15:00Z", files::time::Order::Ymd).unwrap().ns;
    all.retain(|key, _| key.1 >= first);
    assert!(all.len() > 100 && all == some, "{} and {}: {value}", all.len(), some.len());
    assert_eq!((some.keys().map(|key| key.1).min(), &value["left_out"]), (Some(first), &Value::from(0)), "{value}");
}

/// A member whose probabilities are not finite is named and left out; where none is left, that is an error.
#[test]
fn a_member_that_is_not_finite_is_left_out_of_predictions() {
    let place = Place::new();
    place.write("PX.csv", &csv(2400, 3, true));
    let mut args = small("PX.csv", "r = log_return(1), v = volatility(20)", "run");
    let at = args.iter().position(|a| *a == "--seeds").unwrap();
    args[at + 1] = "2";
    let (run, exit) = place.json(&args);
    assert_eq!(exit, 0, "{run}");
    change(&place, "run", &|_| {});
    let asked = |more: &[&str]| {
        let base = ["predict", "run", "PX.csv", "--device", "cpu", "--out", "p.parquet"];
        place.json(&[&base[..], more].concat())
    };
    let members = || probabilities(&place.path().join("p.parquet"));
    let (whole, exit) = asked(&["--members"]);
    assert!(exit == 0 && whole["members_left_out"] == serde_json::json!([]), "{whole}");
    let before = members();
    // Weights that are finite, as a file must have them, and too large for anything that is computed with them. The
    // last tensor, at the end of the file, has 8,192.
    let spoil = |name: &str| {
        let path = place.path().join("run/model").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - 4 * 8192;
        bytes[at..].chunks_exact_mut(4).for_each(|number| number.copy_from_slice(&f32::MAX.to_le_bytes()));
        std::fs::write(path, bytes).unwrap();
    };
    spoil("fold-2-seed-1.safetensors");
    let (value, exit) = asked(&["--members"]);
    assert_eq!((exit, &value["members_left_out"]), (0, &serde_json::json!(["fold 2, seed 1"])), "{value}");
    assert_eq!(value["bars"], whole["bars"]);
    let mut others = before.clone();
    others.retain(|key, _| (key.2, key.3) != (2, 1));
    assert!(others.len() < before.len() && members() == others, "the others say what they said");
    // The mean is that of the members that are left.
    let (value, exit) = asked(&[]);
    let said = "fold 2, seed 1: its probabilities are not finite, and it is left out";
    assert!(exit == 0 && value["notes"].to_string().contains(said), "{value}");
    assert!(value["guesses"].as_array().unwrap().iter().all(|share| share.as_f64().unwrap() < 1.0), "{value}");
    let shown = place.run(&["predict", "run", "PX.csv", "--device", "cpu", "--out", "p.parquet"]);
    assert!(code(&shown) == 0 && text(&shown.stdout).contains("fold 2, seed 1: its"), "{}", text(&shown.stdout));
    // A fold without members: its bars get no prediction, and that is counted and said.
    spoil("fold-2-seed-2.safetensors");
    let (value, exit) = asked(&[]);
    assert!(exit == 0 && value["notes"].to_string().contains("no member of their fold is left"), "{value}");
    let number = |value: &Value, name: &str| value[name].as_u64().unwrap();
    assert!(number(&value, "bars") < number(&whole, "bars"), "{value}");
    assert_eq!(
        number(&value, "bars") + number(&value, "left_out"),
        number(&whole, "bars") + number(&whole, "left_out")
    );
    for name in ["fold-1-seed-1.safetensors", "fold-1-seed-2.safetensors"] {
        spoil(name);
    }
    std::fs::remove_file(place.path().join("p.parquet")).unwrap();
    let (value, exit) = asked(&[]);
    assert!(exit == 3 && value.to_string().contains("no member can predict these bars"), "{exit} {value}");
    assert!(!place.path().join("p.parquet").exists());
}

#[test]
fn damaged_model_is_refused_and_a_subset_of_folds_works() {
    let place = Place::new();
    place.write("PX.csv", &csv(2400, 3, true));
    let (run, exit) = place.json(&small("PX.csv", "r = log_return(1), v = volatility(20)", "run"));
    assert_eq!(exit, 0, "{run}");
    let file = place.path().join("run/model/model.json");
    let whole = std::fs::read(&file).unwrap();
    let asked = || place.json(&["predict", "run", "PX.csv", "--members", "--device", "cpu", "--out", "p.parquet"]);
    type Change = fn(&mut Value);
    let wrong: [(Change, &str); 16] = [
        (|m| m["classes"] = 2.into(), "the model has 2 classes"),
        (|m| m["classes"] = 300.into(), "300 classes"),
        (|m| m["folds"] = serde_json::json!([]), "it cannot predict"),
        (|m| m["folds"].as_array_mut().unwrap().reverse(), "order of time"),
        (|m| m["folds"][1]["number"] = 5000.into(), "cannot be a member"),
        (|m| m["folds"][0]["seeds"] = serde_json::json!([99999]), "cannot be a member"),
        (|m| m["folds"][0]["seeds"] = serde_json::json!([0, 0]), "twice"),
        (|m| m["folds"][0]["scales"][0]["mean"] = serde_json::json!([]), "the scales of fold 1"),
        (|m| m["folds"][0]["fitted"]["data"] = "other".into(), "of the data other"),
        (|m| m["folds"][1]["fitted"]["split"] = "1".into(), "of the split 0000000000000001"),
        (|m| m["folds"][1]["fitted"]["to"] = i64::MAX.into(), "what is fitted reaches to"),
        (|m| m["inputs"] = serde_json::json!([]), "the inputs of the model"),
        (|m| m["holdout"] = serde_json::json!([5, 1]), "locked"),
        (|m| m["max_hole"] = u64::MAX.into(), "max_hole cannot be"),
        (|m| m["net"] = "row:2 / 128-64 / a:3 + b:3".into(), "has another number"),
        (|m| m["reading"]["keys"]["bars.stamp"] = "middle".into(), "its bars were read with"),
    ];
    for (with, part) in wrong {
        change(&place, "run", &with);
        let (value, exit) = asked();
        assert!(exit == 5 && value.to_string().contains(part), "{part}: {exit} {value}");
        let error = &value["error"];
        assert!(error.to_string().contains("model.json") && error["remedy"].is_string(), "{value}");
        std::fs::write(&file, &whole).unwrap();
    }
    // The newest fold alone says what it said.
    change(&place, "run", &|model| drop(model["folds"].as_array_mut().unwrap().remove(0)));
    let (value, exit) = asked();
    assert_eq!(exit, 0, "{value}");
    let now = probabilities(&place.path().join("p.parquet"));
    let mut then = probabilities(&place.path().join("run/predictions.parquet"));
    then.retain(|key, _| key.2 == 2);
    assert!(then.len() > 300 && then.iter().all(|(key, p)| now.get(key) == Some(p)));
    assert!(now.keys().all(|key| key.2 == 2));
}

#[test]
fn changed_model_is_refused_and_the_part_is_named() {
    let place = Place::new();
    place.write("PX.csv", &csv(2400, 3, true));
    let (run, exit) = place.json(&small("PX.csv", "r = log_return(1), v = volatility(20)", "run"));
    assert_eq!(exit, 0, "{run}");
    let asked = || place.json(&["predict", "run", "PX.csv", "--device", "cpu", "--out", "p.parquet"]);
    let (whole, exit) = asked();
    assert!(exit == 0 && whole["notes"] == serde_json::json!([]), "{whole}");
    let folder = place.path().join("run/model");
    let refused = |part: &str| {
        let (value, exit) = asked();
        let error = &value["error"];
        assert!(exit == 5 && error["remedy"].is_string(), "{part}: {exit} {value}");
        assert!(error.to_string().contains(part) && error.to_string().contains("was changed"), "{part}: {value}");
    };
    let with = |name: &str, edit: &dyn Fn(&mut Vec<u8>)| {
        let (path, mut bytes) = (folder.join(name), std::fs::read(folder.join(name)).unwrap());
        let before = bytes.clone();
        edit(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        refused(name);
        std::fs::write(&path, before).unwrap();
    };
    let model = |edit: &dyn Fn(&mut Value)| {
        with("model.json", &|bytes| {
            let mut value: Value = serde_json::from_slice(bytes).unwrap();
            edit(&mut value);
            *bytes = serde_json::to_vec_pretty(&value).unwrap();
        });
    };
    let [first, second] = ["fold-1-seed-1.safetensors", "fold-2-seed-1.safetensors"];
    with(first, &|bytes| *bytes.last_mut().unwrap() ^= 1);
    with("MANIFEST", &|bytes| bytes[40] ^= 1);
    model(&|m| drop(m.as_object_mut().unwrap().remove("holdout")));
    model(&|m| m["folds"][0]["scales"][0]["mean"][0] = 0.5.into());
    with(second, &|bytes| *bytes = std::fs::read(folder.join(first)).unwrap());
    // Five gigabytes of weights are not read: their size is known.
    std::fs::File::options().write(true).open(folder.join(second)).unwrap().set_len(5 << 30).unwrap();
    let (value, exit) = asked();
    assert!(exit == 3 && value.to_string().contains("the file has 5.0 GiB"), "{exit} {value}");
    std::fs::copy(folder.join(first), folder.join(second)).unwrap();
    refused(second);

    // A model from elsewhere has its manifest alone; without one it was taken out.
    let (elsewhere, exit) = place.json(&small("PX.csv", "r = log_return(1), v = volatility(20)", "other"));
    assert_eq!(exit, 0, "{elsewhere}");
    std::fs::rename(place.path().join("home/ledger.sqlite"), place.path().join("away.sqlite")).unwrap();
    let asked = || place.json(&["predict", "other", "PX.csv", "--device", "cpu", "--out", "p.parquet"]);
    let (value, exit) = asked();
    assert!(exit == 0 && value["notes"].to_string().contains("not in the ledger here"), "{value}");
    std::fs::remove_file(place.path().join("other/model/MANIFEST")).unwrap();
    let (value, exit) = asked();
    assert!(exit == 5 && value.to_string().contains("its MANIFEST is missing"), "{value}");
}

/// The name that `runs list` prints is enough, wherever a run is meant.
#[test]
fn runs_are_found_by_name_in_every_verb() {
    let place = Place::new();
    place.write("PX.csv", &csv(2400, 3, true));
    let (run, exit) = place.json(&small("PX.csv", "r = log_return(1), v = volatility(20)", "runs/first"));
    assert_eq!(exit, 0, "{run}");
    let (list, _) = place.json(&["runs", "list"]);
    assert_eq!(list["runs"][0]["name"], "first", "{list}");
    for args in [
        &["runs", "show", "first"][..],
        &["monitor", "first", "--once"],
        &["predict", "first", "PX.csv", "--device", "cpu"],
        &["train", "PX.csv", "--settings", "first", "--features", "r = log_return(1)", "--dry-run", "--device", "cpu"],
    ] {
        let (value, exit) = place.json(args);
        assert_eq!(exit, 0, "{args:?}: {value}");
    }
    let (value, exit) = place.json(&["runs", "resume", "first"]);
    assert!(exit == 5 && value.to_string().contains("the run is finished"), "{value}");
    for verb in [&["runs", "show", "frist"][..], &["monitor", "frist", "--once"], &["predict", "frist", "PX.csv"]] {
        let (value, exit) = place.json(verb);
        assert!(exit == 3 && value.to_string().contains("did you mean `first`"), "{verb:?}: {exit} {value}");
    }
}

/// A device never ends and a pipe makes its reader wait: both are refused at once, wherever a file is expected.
#[test]
#[cfg(unix)]
fn devices_and_pipes_are_refused_at_once() {
    let place = Place::new();
    place.write("PX.csv", &csv(2400, 3, true));
    let (run, exit) = place.json(&small("PX.csv", "r = log_return(1), v = volatility(20)", "run"));
    assert_eq!(exit, 0, "{run}");
    assert!(std::process::Command::new("mkfifo").arg(place.path().join("pipe")).status().unwrap().success());
    for special in ["/dev/zero", "pipe"] {
        for args in [
            &["train", special, "--dry-run"][..],
            &["data", "audit", special],
            &["train", "PX.csv", "--settings", special, "--dry-run"],
            &["train", "PX.csv", "--membership", special, "--dry-run"],
            &["train", "PX.csv", "--factors", special, "--dry-run"],
        ] {
            let (value, exit) = place.json(args);
            let said = value["error"].to_string();
            assert!([2, 3].contains(&exit) && said.contains("not a regular file"), "{args:?}: {exit} {value}");
        }
        for part in ["model.json", "MANIFEST", "fold-1-seed-1.safetensors"] {
            let path = place.path().join("run/model").join(part);
            std::fs::rename(&path, place.path().join("aside")).unwrap();
            std::os::unix::fs::symlink(place.path().join(special), &path).unwrap();
            let (value, exit) = place.json(&["predict", "run", "PX.csv", "--device", "cpu"]);
            assert!(exit == 3 && value.to_string().contains("not a regular file"), "{part}: {exit} {value}");
            std::fs::remove_file(&path).unwrap();
            std::fs::rename(place.path().join("aside"), &path).unwrap();
        }
    }
}

#[test]
fn memory_limit_applies_to_the_chosen_device() {
    let place = Place::new();
    place.write("PX.csv", &csv(1500, 3, true));
    let mut args = small("PX.csv", "r = log_return(1), v = volatility(20)", "run");
    let at = args.iter().position(|a| *a == "--folds").unwrap();
    args[at + 1] = "1";
    // Four times 17 MB while it is asked.
    args.extend(["--net", "row:2 / 2048-2048 / way:3"]);
    let at = args.iter().position(|a| *a == "--epochs").unwrap();
    args[at + 1] = "1";
    let (run, exit) = place.json(&args);
    assert_eq!(exit, 0, "{run}");
    let (value, exit) = place.json(&["predict", "run", "PX.csv", "--device", "cpu", "--memory", "64MiB"]);
    let error = &value["error"];
    assert!(exit == 4 && error["message"].as_str().unwrap().contains("the budget is 4"), "{exit} {value}");
    let remedy = error["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("give more with --memory: bars, features and predictions take 1"), "{value}");
    let (value, exit) = place.json(&["predict", "run", "PX.csv", "--device", "cpu"]);
    assert_eq!(exit, 0, "{value}");
}

/// What `features`, `predict` and `backtest` take stays within `--memory`, a tenth and 48 MiB; the least is said before
/// the work.
#[test]
fn tables_predictions_and_walks_stay_within_the_memory_or_name_the_least() {
    let place = Place::new();
    place.write("PX.csv", &csv(2400, 3, true));
    let (run, exit) = place.json(&small("PX.csv", "full", "run"));
    assert_eq!(exit, 0, "{run}");
    place.write("long.csv", &csv(120_000, 3, true));
    let bars = ["--symbols", "PX", "--timezone", "UTC"];
    std::fs::create_dir(place.path().join("long")).unwrap();
    std::fs::rename(place.path().join("long.csv"), place.path().join("long/PX.csv")).unwrap();
    for verb in [
        &["predict", "run", "long/PX.csv", "--device", "cpu"][..],
        &["backtest", "run", "long/PX.csv", "--device", "cpu", "--out", "tested"],
        &["backtest", "--policy", "random", "long/PX.csv", "--out", "walked"],
        &["features", "long/PX.csv"],
    ] {
        let asked = |memory: &str| place.json(&[verb, &bars, &["--threads", "2", "--memory", memory]].concat());
        let (value, exit) = asked("64MiB");
        let remedy = value["error"]["remedy"].as_str().unwrap_or_default();
        let least = remedy.rsplit_once("raise --memory to ").and_then(|(_, least)| least.split_once("MiB"));
        assert!(exit == 4 && least.is_some(), "{exit} {value}");
        let least: u64 = least.unwrap().0.parse().unwrap();
        let (value, exit) = asked(&format!("{least}MiB"));
        assert_eq!(exit, 0, "{value}");
        if let Some(peak) = value["peak_memory_bytes"].as_u64() {
            assert!(peak >> 20 <= least * 11 / 10 + 48, "{} MiB of {least}: {verb:?}", peak >> 20);
        }
    }
}

/// Hundreds of symbols are many small pieces of memory, which an allocator does not give back by itself; and what was
/// learned is traded, which takes more than learning it.
#[test]
fn training_on_many_symbols_stays_within_the_memory() {
    let place = Place::new();
    let (made, exit) = place.json(&["data", "synth", "--count", "250", "--bars", "800", "--name", "many"]);
    assert_eq!(exit, 0, "{made}");
    let args = ["train", "many", "--learner", "mlp", "--device", "cpu", "--threads", "2", "--epochs", "1"];
    let asked = |memory: &str, out: &str| {
        let more = ["--folds", "2", "--seeds", "1", "--memory", memory, "--out", out];
        place.json(&[&args[..], &more].concat())
    };
    let (value, exit) = asked("64MiB", "none");
    let remedy = value["error"]["remedy"].as_str().unwrap_or_default();
    let least = remedy.rsplit_once("raise --memory to ").and_then(|(_, least)| least.split_once("MiB"));
    assert!(exit == 4 && least.is_some(), "{exit} {value}");
    let least: u64 = least.unwrap().0.parse().unwrap();
    let (value, exit) = asked(&format!("{least}MiB"), "run");
    assert_eq!(exit, 0, "{value}");
    assert!(value["backtest"].is_object(), "it was traded");
    if let Some(peak) = value["peak_memory_bytes"].as_u64() {
        assert!(peak >> 20 <= least * 11 / 10 + 48, "{} MiB of {least}", peak >> 20);
    }
}

/// 600 daily samples of each of two symbols, whose labels are known the day after.
fn arrays(more: bool) -> Vec<u8> {
    let (n, mut draw) = (1200usize, numbers(5));
    let day = |i: usize| 1_600_000_000 + (i as i64 / 2) * 86_400;
    let class: Vec<i64> = (0..n).map(|_| (draw() * 3.0) as i64 - 1).collect();
    let x: Vec<f32> = (0..n * 4).map(|i| draw() as f32 + class[i / 4] as f32).collect();
    let mut arrays = vec![("x_strategy", f32s(&[n, 4], x)), ("y", i64s(&class))];
    if more {
        arrays.push(("t0", i64s(&(0..n).map(day).collect::<Vec<_>>())));
        arrays.push(("t1", i64s(&(0..n).map(|i| day(i) + 86_400).collect::<Vec<_>>())));
        arrays.push(("symbol", strings(&(0..n).map(|i| ["AA", "BB"][i % 2]).collect::<Vec<_>>())));
    }
    npz(&arrays)
}

#[test]
fn ready_arrays_apply_selection_and_refuse_flags_without_effect() {
    let place = Place::new();
    std::fs::write(place.path().join("a.npz"), arrays(true)).unwrap();
    std::fs::write(place.path().join("bare.npz"), arrays(false)).unwrap();
    place.write("f.csv", "symbol,date,factor\nPX,2024-02-28,0.9\n");
    place.write("m.csv", "symbol,from,to\nAA,2020-01-01,2030-01-01\n");
    let args = |data, more: &[&'static str]| {
        let mut args = vec!["train", data, "--learner", "mlp", "--folds", "2", "--seeds", "1", "--device", "cpu"];
        args.extend(["--epochs", "1", "--batch-size", "64"]);
        args.extend(more);
        args
    };
    let samples = |more: &[&'static str]| {
        let (run, exit) = place.json(&args("a.npz", &[more, &["--dry-run"]].concat()));
        assert_eq!(exit, 0, "{run}");
        run["samples"].as_u64().unwrap()
    };
    let all = samples(&[]);
    assert_eq!(all, 1200);
    assert_eq!(samples(&["--symbols", "AA"]), 600);
    // The 500th day and what follows is kept aside, and no label tells of it.
    assert_eq!(samples(&["--to", "2022-01-26"]), 2 * 499);
    assert_eq!(samples(&["--from", "2022-01-26"]), 2 * 100);
    // So it is in what is trained, and in what the model and the split say of it.
    let (run, exit) = place.json(&args("a.npz", &["--symbols", "BB", "--to", "2022-01-26", "--out", "run"]));
    assert_eq!(exit, 0, "{run}");
    assert!(run["notes"].to_string().contains("samples are of other symbols and left out"), "{run}");
    let model: Value =
        serde_json::from_slice(&std::fs::read(place.path().join("run/model/model.json")).unwrap()).unwrap();
    assert_eq!(model["judged"], serde_json::json!(["BB"]));
    for more in [
        &["--features", "rsi(14)"][..],
        &["--labels", "fixed(3)"],
        &["--factors", "f.csv"],
        &["--membership", "m.csv"],
        &["--timezone", "America/New_York"],
        &["--stamp", "end"],
    ] {
        for verb in ["train", "tune"] {
            let (value, exit) = place.json(&[&[verb, "a.npz", "--learner", "mlp", "--device", "cpu"], more].concat());
            let said = value.to_string();
            assert!(exit == 2 && said.contains(more[0]) && said.contains("ready arrays"), "{verb} {more:?}: {value}");
        }
    }
    for (more, part) in [(["--to", "2022-01-01"], "no t0"), (["--symbols", "AA"], "no symbol")] {
        let (value, exit) = place.json(&args("bare.npz", &[&more[..], &["--label-horizon", "2"]].concat()));
        assert!(exit == 2 && value.to_string().contains(part), "{value}");
    }
    let (kept, exit) = place.json(&args("a.npz", &["--set", "repair.order=refuse", "--dry-run"]));
    assert!(exit == 0 && kept["notes"].to_string().contains("ignored"), "{kept}");
    assert!(kept["notes"].to_string().contains("repair.order"), "{kept}");
}

#[test]
fn npz_of_bars_is_labelled_like_bars() {
    let place = Place::new();
    let bars = walk(2400, 3);
    let column = |at: usize| f64s(&[bars.len()], bars.iter().map(|b| b.1[at]));
    let time = i64s(&bars.iter().map(|b| b.0).collect::<Vec<_>>());
    let fields =
        ["open", "high", "low", "close", "volume"].into_iter().enumerate().map(|(at, name)| (name, column(at)));
    let all: Vec<(&str, Vec<u8>)> = [("time", time)].into_iter().chain(fields).collect();
    std::fs::write(place.path().join("bars.npz"), npz(&all)).unwrap();
    let mut args = small("bars.npz", "r = log_return(1), v = volatility(20)", "run");
    let (run, exit) = place.json(&args);
    assert!(exit == 0 && run["label"]["rule"] == "fixed(1)", "{run}");
    let (asked, exit) = place.json(&["predict", "run", "bars.npz", "--device", "cpu"]);
    assert!(exit == 0 && asked["notes"] == serde_json::json!([]), "{asked}");
    // Ready arrays are no bars to ask about.
    std::fs::write(place.path().join("a.npz"), arrays(true)).unwrap();
    let (asked, exit) = place.json(&["predict", "run", "a.npz", "--device", "cpu"]);
    assert!(exit == 2 && asked.to_string().contains("ready arrays"), "{asked}");
    args.extend(["--label-horizon", "24"]);
    let (value, exit) = place.json(&args);
    assert_eq!(exit, 2, "{value}");
    assert!(value["error"]["remedy"].as_str().unwrap().contains("--labels \"triple(24)\""), "{value}");
}

#[test]
fn symbols_without_samples_are_reported_and_not_judged() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("many")).unwrap();
    for (at, name) in ["AAA", "BBB", "CCC"].into_iter().enumerate() {
        place.write(&format!("many/{name}.csv"), &csv(1500, at as u64 + 1, name != "CCC"));
    }
    let (run, exit) = place.json(&small("many", "r = log_return(1), w = volume/sma(volume, 10)", "run"));
    assert_eq!(exit, 0, "{run}");
    let notes = run["notes"].to_string();
    assert!(notes.contains("1 of 3 symbols have no volume") && notes.contains("missing: CCC"), "{notes}");
    assert!(notes.contains("1 of 3 symbols give no sample"), "{notes}");
    let model: Value =
        serde_json::from_slice(&std::fs::read(place.path().join("run/model/model.json")).unwrap()).unwrap();
    assert_eq!(model["judged"], serde_json::json!(["AAA", "BBB"]));
    assert_eq!(model["symbols"], serde_json::json!(["AAA", "BBB", "CCC"]));
}
