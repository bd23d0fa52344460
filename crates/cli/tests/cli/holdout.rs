//! `fullbore holdout` and `fullbore refit`: the locked part of the data is opened through the ledger and counted, and
//! the recipe that was judged is trained on everything.

use super::Place;
use super::backtest::waves;
use serde_json::Value;

fn train(place: &Place, data: &str, out: &str, more: &[&str]) -> Value {
    let mut args = vec!["train", data, "--learner", "mlp", "--device", "cpu", "--out", out];
    let features = "r = log_return(1), s = log_return(24)";
    let usual =
        [("--features", features), ("--labels", "fixed(3)"), ("--seeds", "2"), ("--epochs", "3"), ("--folds", "3")];
    for (flag, value) in usual.into_iter().filter(|(flag, _)| !more.contains(flag)) {
        args.extend([flag, value]);
    }
    let (value, code) = place.json(&[&args[..], more].concat());
    assert_eq!(code, 0, "{value}");
    value
}

/// A market whose column `plant` is worth trading, as `planted` in the catalogue.
fn plant(place: &Place) {
    let args = ["data", "synth", "--count", "1", "--bars", "9000", "--timeframe", "5m", "--name", "planted", "--plant"];
    assert_eq!(place.json(&[&args[..], &["--stay", "0.9", "--cost-bp", "1"]].concat()).1, 0);
}

const PLANT: [&str; 4] = ["--features", "p = col(plant), r = log_return(1)", "--labels", "fixed(1)"];

#[test]
fn a_holdout_is_traded_with_the_last_folds_threshold() {
    let place = Place::new();
    plant(&place);
    let trained = train(&place, "planted", "a", &PLANT);
    let (opened, code) = place.json(&["holdout", "a"]);
    assert_eq!(code, 0, "{opened}");
    let number = |field: &str| opened[field].as_f64().unwrap_or_else(|| panic!("{field}: {opened}"));
    assert!(number("net_sharpe") > number("net_sharpe_2x") && number("net_sharpe_2x") > 0.0 && number("trades") > 30.0);
    // As good as on the test blocks, whose end is where it begins.
    let [held, tested] = [&opened["backtest"], &trained["backtest"]]
        .map(|b| (1.0 + b["net"]["total_return"].as_f64().unwrap()).ln() / b["steps"].as_f64().unwrap());
    assert!((held / tested - 1.0).abs() < 0.2, "{held} and {tested} a bar");
    assert!(opened["backtest"]["from"].as_str() >= trained["backtest"]["to"].as_str());
    let holdout = opened["evidence"]["criteria"].as_array().unwrap().iter().find(|c| c["name"] == "holdout").unwrap();
    assert_eq!(holdout["met"], true, "{holdout}");
}

#[test]
fn a_holdout_is_opened_once_whichever_run_opens_it() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    let trained = train(&place, "BTCUSDT.csv", "a", &[]);
    let held = trained["holdout_from"].as_str().unwrap();

    let (first, code) = place.json(&["holdout", "a"]);
    assert_eq!((code, first["schema"].as_str()), (0, Some("holdout/1")), "{first}");
    assert_eq!(
        (&first["opening"], &first["is_holdout"], first["from"].as_str()),
        (&1.into(), &true.into(), Some(held))
    );
    // Waves of a day are found, in validation and behind it; every bar of the holdout is walked.
    assert!(first["judged"]["mcc"].as_f64().is_some_and(|mcc| mcc > 0.5), "{first}");
    assert!(first["backtest"]["from"].as_str() > Some(held) && first["days"].as_u64().is_some_and(|days| days >= 18));
    for file in ["returns.parquet", "trades.parquet", "positions.parquet", "backtest.json"] {
        assert!(place.path().join("a/holdout").join(file).exists(), "{file}");
    }
    let shown = place.json(&["runs", "show", "a"]).0;
    assert_eq!((&shown["holdout"]["judged"], &shown["holdout"]["opening"]), (&first["judged"], &1.into()), "{shown}");

    // The same run again: the same figures, and no holdout any more. What the first opening showed stays.
    let (second, code) = place.json(&["holdout", "a"]);
    assert_eq!((code, &second["opening"], &second["is_holdout"]), (0, &2.into(), &false.into()));
    assert_eq!((&second["judged"], &second["backtest"]), (&first["judged"], &first["backtest"]));
    assert_eq!(place.json(&["runs", "show", "a"]).0["holdout"]["opening"], 1);

    // Another run on the same series under another name, with new bars behind it that came after its training.
    place.write("COIN.csv", &waves());
    train(&place, "COIN.csv", "b", &["--epochs", "2"]);
    let (third, _) = place.json(&["holdout", "b"]);
    assert_eq!((&third["opening"], &third["is_holdout"]), (&3.into(), &false.into()));
    let by: Vec<&str> = third["openings"].as_array().unwrap().iter().map(|o| o["run"].as_str().unwrap()).collect();
    assert!(by.len() == 3 && by[0].ends_with("a") && by[1].ends_with("a") && by[2].ends_with("b"), "{by:?}");
    let said = super::text(&place.run(&["holdout", "b"]).stdout);
    assert!(said.starts_with("No holdout any more, opened 4 times") && said.contains("opening 1: 2"), "{said}");

    // It stays closed to everything else, by what it is: `a` never saw the name COIN.
    let (told, _) = place.json(&["predict", "a", "COIN.csv"]);
    assert!(told["locked"].as_u64().is_some_and(|locked| locked > 400), "{told}");
    for args in [&["predict", "a", "COIN.csv"][..], &["backtest", "a"]] {
        let said = super::text(&place.run(args).stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("`fullbore holdout a` judges the run there, once"), "{said}");
    }
    let (refused, code) = place.json(&["backtest", "a", "--from", "2024-04-26"]);
    assert_eq!(code, 3, "{refused}");
    assert!(refused.to_string().contains("`fullbore holdout a` judges the run on its holdout"), "{refused}");
}

/// A second look is no way around what the first one showed, and counts what was tried between them.
#[test]
fn a_holdout_that_failed_stays_failed() {
    let place = Place::new();
    let args = ["data", "synth", "--count", "1", "--bars", "4000", "--timeframe", "1h", "--name", "noise"];
    assert_eq!(place.json(&args).1, 0);
    let trained = train(&place, "noise", "a", &["--folds", "5"]);
    let trials = |value: &Value| value["evidence"]["findings"]["trials"].as_u64().unwrap();
    let opened = || {
        let (value, code) = place.json(&["holdout", "a"]);
        assert_eq!(code, 0, "{value}");
        let criteria = value["evidence"]["criteria"].as_array().unwrap();
        let met = criteria.iter().find(|c| c["name"] == "holdout").unwrap()["met"].clone();
        (value["opening"].as_u64().unwrap(), met, trials(&value))
    };
    let before = trials(&trained);
    assert_eq!(opened(), (1, false.into(), before));
    // Whoever looks at the run sees the verdict with it.
    let (shown, listed) = (place.json(&["runs", "show", "a"]).0, place.json(&["runs", "list", "."]).0);
    let holdout = |evidence: &Value| evidence["criteria"].as_array().unwrap().last().unwrap().clone();
    let on_page: Value = serde_json::from_slice(&std::fs::read(place.path().join("a/report.json")).unwrap()).unwrap();
    for evidence in [&shown["result"]["evidence"], &on_page["result"]["evidence"]] {
        assert_eq!((&holdout(evidence)["name"], &holdout(evidence)["met"]), (&"holdout".into(), &false.into()));
    }
    assert_eq!(listed["runs"][0]["verdict"], "no evidence");
    assert_eq!(place.json(&["backtest", "--rule", "sma(5) > sma(20)", "noise"]).1, 0);
    assert_eq!(opened(), (2, false.into(), before + 1));
}

#[test]
fn an_opening_that_was_killed_counts() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    train(&place, "BTCUSDT.csv", "a", &[]);
    place.abort(&["holdout", "a", "--json"], "holdout.json");
    assert!(!place.path().join("a/holdout.json").exists());
    let (value, code) = place.json(&["holdout", "a"]);
    assert_eq!((code, &value["opening"], &value["is_holdout"]), (0, &2.into(), &false.into()), "{value}");
    assert_eq!(place.json(&["runs", "show", "a"]).0["holdout"]["is_holdout"], false);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    train(&place, "BTCUSDT.csv", "none", &["--set", "split.holdout=0"]);
    let says = |args: &[&str], code: i32, words: &str| {
        let (value, got) = place.json(args);
        assert!(got == code && value.to_string().contains(words), "{args:?}: {got} {value}");
    };
    says(&["holdout", "none"], 5, "held nothing out");
    says(&["holdout", "nowhere"], 3, "there is no run here");
    says(&["holdout", "none", "--set", "split.holdout=0.2"], 2, "judged with its own settings");
    train(&place, "BTCUSDT.csv", "a", &["--set", "split.holdout=0.2"]);
    // Bars that came since are no part of it; bars that changed are another holdout.
    let more = waves() + "2024-04-30T00:00:00Z,100,101,99,100.5,1000000\n";
    place.write("BTCUSDT.csv", &more);
    assert_eq!(place.json(&["holdout", "a"]).1, 0);
    place.write("BTCUSDT.csv", &waves().replace(",100.1,", ",100.2,"));
    says(&["holdout", "a"], 5, "the data have changed since the run was trained");
}

/// Hourly bars that go on where [`waves`] end.
fn later(days: usize) -> String {
    let mut text = waves();
    let last: f64 = text.trim_end().rsplit('\n').next().unwrap().split(',').nth(4).unwrap().parse().unwrap();
    let mut price = last;
    for hour in 0..24 * days {
        let (day, of_day) = (hour / 24, hour % 24);
        let open = price;
        price *= if day % 2 == 0 { 1.001 } else { 1.0 / 1.001 };
        let (high, low) = (open.max(price), open.min(price));
        text += &format!("2024-05-{:02}T{of_day:02}:00:00Z,{open},{high},{low},{price},1000000\n", day + 1);
    }
    text
}

#[test]
fn a_refit_trains_on_everything_and_says_who_judged_it() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    let judged = train(&place, "BTCUSDT.csv", "a", &["--try", "rate=0.003,0.0001"]);
    // Before the holdout is opened it is left out, and its trial is in no family.
    let (locked, code) = place.json(&["refit", "a", "--out", "locked", "--device", "cpu"]);
    assert_eq!((code, locked["schema"].as_str()), (0, Some("train/1")), "{locked}");
    assert_eq!(locked["holdout_from"], judged["holdout_from"]);
    assert!(locked["folds"][0]["train_to"].as_str() < judged["holdout_from"].as_str(), "{locked}");
    let trials = |value: &Value| value["trials"].as_u64();
    let look = ["backtest", "BTCUSDT.csv", "--rule", "close > sma(9)", "--out", "rule"];
    assert_eq!(trials(&place.json(&look).0), Some(3), "two configs and the rule");

    assert_eq!(place.json(&["holdout", "a"]).1, 0);
    let (whole, code) = place.json(&["refit", "a", "--out", "whole", "--device", "cpu"]);
    assert_eq!(code, 0, "{whole}");
    assert!(whole["folds"][0]["train"].as_u64() > locked["folds"][0]["train"].as_u64(), "{whole}");
    assert_eq!(
        (&whole["judged"], &whole["backtest"], &whole["holdout_from"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    // One config of the two, both seeds, the median of their best epochs, whatever the most.
    let chosen =
        judged["configs"].as_array().unwrap().iter().position(|c| c["chosen"].to_string().contains('3')).unwrap();
    let members = judged["members"].as_array().unwrap();
    let mut best: Vec<u64> =
        members.iter().filter(|m| m["config"] == chosen + 1).map(|m| m["best_epoch"].as_u64().unwrap()).collect();
    best.sort_unstable();
    let median = (best[2] + best[3]).div_ceil(2);
    assert_eq!((whole["members"].as_array().unwrap().len(), &whole["epochs"]), (2, &median.into()), "{whole}");
    assert!(whole["members"].as_array().unwrap().iter().all(|m| m["epochs"] == median && m["best_epoch"] == median));
    assert_eq!(whole["rate"], judged["configs"][chosen]["rate"]);

    // The same again has the same bits.
    assert_eq!(place.json(&["refit", "a", "--out", "again", "--device", "cpu", "--threads", "1"]).1, 0);
    let file = |run: &str, name: &str| std::fs::read(place.path().join(run).join("model").join(name)).unwrap();
    for name in ["fold-1-seed-1.safetensors", "fold-1-seed-2.safetensors"] {
        assert!(file("whole", name) == file("again", name) && file("whole", name) != file("locked", name), "{name}");
    }
    let model: Value = serde_json::from_slice(&file("whole", "model.json")).unwrap();
    assert!(
        model["refit"]["run"].as_str().unwrap().ends_with("a") && model["folds"][0]["trading"].is_object(),
        "{model}"
    );
    let rule: Value = serde_json::from_slice(&file("a", "model.json")).unwrap();
    assert_eq!(model["folds"][0]["trading"], rule["folds"][2]["trading"]);

    // It is for bars that come later: its own are in its training.
    let says = |args: &[&str], code: i32, words: &str| {
        let (value, got) = place.json(args);
        assert!(got == code && value.to_string().contains(words), "{args:?}: {got} {value}");
    };
    says(&["backtest", "whole"], 3, "from before its first test");
    says(&["holdout", "whole"], 5, "a refit is not judged itself");
    says(&["refit", "whole"], 5, "this is a refit itself");
    place.write("later.csv", &later(20));
    let (told, code) = place.json(&["predict", "whole", "later.csv"]);
    assert_eq!((code, &told["locked"]), (0, &0.into()), "{told}");
    assert!(
        told["bars"].as_u64().is_some_and(|bars| bars >= 20 * 24)
            && told["notes"].to_string().contains("not judged itself")
    );
    let (traded, code) = place.json(&["backtest", "whole", "later.csv", "--out", "new"]);
    assert_eq!(code, 0, "{traded}");
    assert!(traded["backtest"]["from"].as_str() > Some("2024-04-2"), "{traded}");
    let listed = place.json(&["runs", "list", "."]).0;
    assert_eq!(listed["runs"].as_array().unwrap().len(), 4, "{listed}");
}

#[test]
fn a_refit_that_was_killed_resumes_to_the_same_bits() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    train(&place, "BTCUSDT.csv", "a", &["--epochs", "6", "--set", "train.checkpoint=1"]);
    assert_eq!(place.json(&["refit", "a", "--out", "whole", "--device", "cpu"]).1, 0);
    place.abort(&["refit", "a", "--out", "cut", "--device", "cpu"], "model.json");
    let (value, code) = place.json(&["runs", "resume", "cut"]);
    assert_eq!(code, 0, "{value}");
    assert!(value["refit"]["run"].is_string(), "{value}");
    let file = |run: &str| std::fs::read(place.path().join(run).join("model/fold-1-seed-2.safetensors")).unwrap();
    assert!(file("whole") == file("cut"));
}

#[test]
fn folds_around_their_tests_judge_and_leave_no_model() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    let value = train(&place, "BTCUSDT.csv", "k", &["--split", "kfold", "--folds", "5"]);
    assert_eq!((value["folds"].as_array().unwrap().len(), value["paths"]["paths"].as_array().unwrap().len()), (5, 1));
    assert!(value["backtest"].is_object() && value["judged"]["mcc"].as_f64() > Some(0.3), "{value}");
    let counted = |note: &Value| note.as_str().is_some_and(|note| note.starts_with("1 trial on these data so far"));
    assert!(value["evidence"].is_null() && value["notes"].as_array().unwrap().iter().any(counted), "{value}");
    // Every moment before the holdout is tested, and training lies behind it too.
    let first = &value["folds"][0];
    assert!(first["train_from"].as_str() > first["test_to"].as_str(), "{first}");
    let value = train(&place, "BTCUSDT.csv", "c", &["--split", "cpcv", "--seeds", "1", "--set", "split.groups=5"]);
    let paths = &value["paths"];
    assert_eq!(
        (&paths["splits"], &paths["groups"], paths["paths"].as_array().unwrap().len()),
        (&10.into(), &5.into(), 4)
    );
    assert!(value["backtest"].is_null() && paths["embargo"].as_u64() >= Some(25), "{paths}");
    let sharpe: Vec<f64> = paths["paths"].as_array().unwrap().iter().filter_map(|p| p["sharpe"].as_f64()).collect();
    let mean = sharpe.iter().sum::<f64>() / sharpe.len() as f64;
    assert!(
        sharpe.is_empty() && paths["sharpe_mean"].is_null()
            || (paths["sharpe_mean"].as_f64().unwrap() - mean).abs() < 1e-9
    );
    for run in ["k", "c"] {
        assert!(!place.path().join(run).join("model").exists());
        let (error, code) = place.json(&["predict", run, "BTCUSDT.csv"]);
        assert!(code == 3 && error.to_string().contains("leave no model"), "{error}");
    }
    let args = ["train", "BTCUSDT.csv", "--split", "kfold", "--test-days", "5", "--learner", "mlp", "--dry-run"];
    assert_eq!(place.json(&args).1, 2);
}

#[test]
fn the_last_days_are_one_fold() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    let value = train(&place, "BTCUSDT.csv", "days", &["--test-days", "10"]);
    let fold = &value["folds"][0];
    assert_eq!((value["folds"].as_array().unwrap().len(), &fold["test"]), (1, &(10 * 24 - 3).into()), "{fold}");
    let rolling = train(&place, "BTCUSDT.csv", "rolling", &["--split", "rolling"]);
    let lengths: Vec<u64> = rolling["folds"].as_array().unwrap().iter().map(|f| f["train"].as_u64().unwrap()).collect();
    assert!(lengths.iter().all(|n| n.abs_diff(lengths[0]) < 20), "{lengths:?}");
}

/// Three years of daily bars are enough for the defaults.
#[test]
fn three_years_of_daily_bars_train_by_default() {
    let place = Place::new();
    let args = ["data", "synth", "--count", "1", "--bars", "756", "--timeframe", "1d", "--name", "daily"];
    assert_eq!(place.json(&args).1, 0);
    let (value, code) = place.json(&["train", "daily", "--dry-run", "--device", "cpu"]);
    assert_eq!(code, 0, "{value}");
    assert!(value["folds"].as_array().unwrap().len() >= 3, "{value}");
}
