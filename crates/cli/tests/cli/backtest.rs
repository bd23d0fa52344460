//! `fullbore backtest`: rules, policies and anybody's own positions become money.

use super::{Place, sample};

/// Hourly bars of a coin that rises by a tenth of a percent and falls by as much, a day each.
pub(super) fn waves() -> String {
    let mut text = String::from("time,open,high,low,close,volume\n");
    let mut price = 100.0f64;
    for hour in 0..24 * 120 {
        let (day, of_day) = (hour / 24, hour % 24);
        let (month, date) =
            [(1, 0), (2, 31), (3, 60), (4, 91)].into_iter().rev().find(|(_, from)| day >= *from).unwrap();
        let open = price;
        price *= if day % 2 == 0 { 1.001 } else { 1.0 / 1.001 };
        let (high, low) = (open.max(price), open.min(price));
        text +=
            &format!("2024-{month:02}-{:02}T{of_day:02}:00:00Z,{open},{high},{low},{price},1000000\n", day - date + 1);
    }
    text
}

#[test]
fn json_of_backtest() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    let args = ["backtest", "AAPL.csv", "--rule", "close > sma(5)", "--out", "b"];
    insta::assert_snapshot!(place.scrubbed(&args, 0));
    for file in ["returns.parquet", "trades.parquet", "positions.parquet", "backtest.json"] {
        assert!(place.path().join("b").join(file).exists(), "{file}");
    }
}

#[test]
fn a_rule_that_follows_waves_earns_and_every_cost_takes_from_it() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    let (value, code) = place.json(&["backtest", "BTCUSDT.csv", "--rule", "close > sma(3)"]);
    assert_eq!(code, 0, "{value}");
    let record = &value["backtest"];
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    let net = number(&record["net"]["total_return"]);
    assert!(net > 0.02 && net < number(&record["gross_return"]), "{record}");
    let multiples: Vec<f64> =
        record["multiples"].as_array().unwrap().iter().map(|m| number(&m["total_return"])).collect();
    assert!(multiples.windows(2).all(|pair| pair[1] < pair[0]), "{multiples:?}");
    assert!(number(&record["hold_return"]).abs() < 0.05 && number(&record["costs"]["fee"]) > 0.0, "{record}");
    // The end is held out, and stays so for whoever comes next.
    let locked = value["locked_from"].as_str().unwrap().to_string();
    assert!(record["to"].as_str().unwrap() < locked.as_str());
    assert_eq!(value["trials"], 1);
    let (again, _) = place.json(&["backtest", "BTCUSDT.csv", "--rule", "close > sma(4)", "--set", "split.holdout=0"]);
    assert_eq!((again["locked_from"].as_str(), &again["trials"]), (Some(&*locked), &2.into()), "{again}");
    // A policy in which nothing was chosen is no trial, and doing nothing costs nothing.
    let (flat, _) = place.json(&["backtest", "BTCUSDT.csv", "--policy", "flat"]);
    assert_eq!((&flat["trials"], &flat["backtest"]["net"]["total_return"]), (&serde_json::Value::Null, &0.0.into()));
    let (error, code) = place.json(&["backtest", "BTCUSDT.csv", "--policy", "flat", "--from", "2024-04-28"]);
    assert_eq!(code, 5, "{error}");
}

#[test]
fn positions_of_a_file_fill_at_the_next_open() {
    let place = Place::new();
    place.write("BTCUSDT.csv", &waves());
    // Long for the rising days, by the bars' own stamps: decided at the close of the first hour, as a rule would.
    let mut positions = String::from("time;target\n");
    for day in 1..=31 {
        positions += &format!("2024-01-{day:02}T00:00:00Z;{}\n", day % 2);
    }
    place.write("mine.csv", &positions);
    let args = ["backtest", "BTCUSDT.csv", "--positions", "mine.csv", "--set", "instrument.BTCUSDT.fee_bp=0"];
    let (value, code) = place.json(&args);
    assert_eq!(code, 0, "{value}");
    assert_eq!(value["backtest"]["net"]["round_trips"]["count"], 16, "{value}");
    let (late, _) = place.json(&["backtest", "BTCUSDT.csv", "--positions", "mine.csv"]);
    let net = |value: &serde_json::Value| value["backtest"]["net"]["total_return"].as_f64().unwrap();
    assert!(net(&value) > net(&late), "a fee takes from it");
    // Sixteen rises of 23 hours of a tenth of a percent; entered one bar late, left one bar late.
    assert!(net(&value) > 0.3, "{}", net(&value));
}

#[test]
fn wrong_backtests_name_a_remedy() {
    let place = Place::new();
    place.write("AAPL.csv", &sample());
    place.write("bad.csv", "when,what\n2024-01-02,1\n");
    place.write("nan.csv", "time,target\n2024-01-02,up\n");
    place.write("stop.csv", "time,target,stop\n2024-01-02,1,0.02\n2024-01-03,1,182.5\n");
    for (args, code, says) in [
        (vec!["backtest", "AAPL.csv"], 2, "--rule"),
        (vec!["backtest", "nothing"], 3, "there is no run here"),
        (vec!["backtest", "AAPL.csv", "--rule", "sma(20)"], 2, "is not one comparison"),
        (vec!["backtest", "AAPL.csv", "--rule", "smma(20) > 1"], 2, "is not a rule"),
        (vec!["backtest", "AAPL.csv", "--policy", "buy-and-hodl"], 2, "did you mean `buy-and-hold`?"),
        (vec!["backtest", "AAPL.csv", "--policy", "flat", "--sizing", "all"], 2, "fraction(0.5)"),
        (vec!["backtest", "AAPL.csv", "--positions", "none.csv"], 3, "none.csv"),
        (vec!["backtest", "AAPL.csv", "--positions", "bad.csv"], 3, "need a column `time`"),
        (vec!["backtest", "AAPL.csv", "--positions", "nan.csv"], 3, "`up` is not a number"),
        (vec!["backtest", "AAPL.csv", "--positions", "stop.csv"], 3, "`stop` is 182.5, and should be"),
        (vec!["backtest", "AAPL.csv", "--policy", "flat", "--funding", "bad.csv"], 3, "funding rates need a column"),
    ] {
        let (value, got) = place.json(&args);
        assert!(got == code && value.to_string().contains(says), "{args:?}: {got} {value}");
    }
}

/// A market with a planted signal is learned, traded and judged; a walk without drift is left alone.
#[test]
fn a_trained_model_trades_what_it_found_and_nothing_else() {
    let place = Place::new();
    let synth = |plant: &[&str], name: &str| {
        let args = ["data", "synth", "--count", "1", "--bars", "9000", "--timeframe", "5m", "--name", name];
        place.json(&[&args[..], plant].concat()).0
    };
    let made = synth(&["--plant", "--accuracy", "0.8", "--stay", "0.9", "--cost-bp", "1"], "planted");
    let optimum = made["planted"]["log_growth_bp"].as_f64().unwrap_or_else(|| panic!("{made}"));
    let train = |name: &str, set: &str| {
        let args = ["train", name, "--learner", "mlp", "--features", set, "--labels", "fixed(1)", "--device", "cpu"];
        let out = format!("run-{name}");
        let more = ["--seeds", "1", "--epochs", "4", "--folds", "5", "--out", &out];
        let (value, code) = place.json(&[&args[..], &more[..]].concat());
        assert_eq!(code, 0, "{value}");
        value
    };
    // An indicator that warms up: samples begin later than bars, and so does the share that is held out.
    let value = train("planted", "p = col(plant), r = log_return(1), m = close/sma(400) - 1");
    let record = &value["backtest"];
    let total = record["net"]["total_return"].as_f64().unwrap();
    let growth = 1e4 * (1.0 + total).ln() / record["steps"].as_f64().unwrap();
    assert!(growth >= 0.8 * optimum && growth <= 1.05 * optimum, "{growth} bp a bar of {optimum}");
    assert_eq!(record["folds"].as_array().unwrap().len(), 5);
    // Only the planted column is worth anything, and what is too good is called so.
    let worth = |column: &str| {
        let columns = value["importance"].as_array().unwrap();
        let found = columns.iter().find(|c| c["column"] == column).unwrap_or_else(|| panic!("{columns:?}"));
        (found["log_loss_added"].as_f64().unwrap(), found["error"].as_f64().unwrap())
    };
    let ((plant, error), (other, _)) = (worth("p"), worth("m"));
    assert!(plant > 4.0 * error && plant > 20.0 * other.abs(), "{plant} ± {error}, {other}");
    let evidence = &value["evidence"];
    assert_eq!(evidence["verdict"], "suspicious", "{evidence}");
    assert!(evidence["suspicions"].to_string().contains("trades won"), "{evidence}");
    // The model that was saved gives the same bits; another account, or other data, is another trial.
    let (again, code) = place.json(&["backtest", "run-planted", "--out", "again"]);
    assert_eq!((code, &again["trials"]), (0, &serde_json::Value::Null), "{again}");
    let read = |path: &str| std::fs::read(place.path().join(path)).unwrap();
    for file in ["backtest.json", "trades.parquet", "returns.parquet"] {
        assert!(read(&format!("again/{file}")) == read(&format!("run-planted/backtest/{file}")), "{file} differs");
    }
    // Fed bar by bar it decides the same, and so it does from a warm-up, but for what was signalled before a start.
    let (parity, code) = place.json(&["check", "parity", "run-planted", "--device", "cpu"]);
    assert_eq!((code, &parity["equal"], &parity["schema"]), (0, &true.into(), &"parity/1".into()), "{parity}");
    let compared: Vec<&serde_json::Value> = parity["compared"].as_array().unwrap().iter().collect();
    assert!(compared.len() == 6 && compared.iter().all(|c| c["compared"].as_u64().unwrap() > 100), "{parity}");
    assert!(parity["bars"].as_u64().is_some_and(|n| n < 8000) && parity["locked_from"].is_string(), "{parity}");
    let changed = |parity: &serde_json::Value, what: &str| -> u64 {
        parity["starts"].as_array().unwrap().iter().map(|start| start[what].as_u64().unwrap()).sum()
    };
    assert_eq!((parity["starts"].as_array().unwrap().len(), changed(&parity, "undecided")), (5, 0), "{parity}");
    assert!(changed(&parity, "changed_positions") < 10, "{parity}");
    let (short, code) = place.json(&["check", "parity", "run-planted", "--device", "cpu", "--warm-up", "9"]);
    assert!(code == 0 && changed(&short, "undecided") > 5 * 300, "{short}");
    assert!(changed(&short, "changed_positions") > 100, "{short}");

    let (half, _) = place.json(&["backtest", "run-planted", "--sizing", "fraction(0.5)", "--out", "half"]);
    assert_eq!(half["trials"], 2, "{half}");
    assert!(half["backtest"]["net"]["total_return"].as_f64().unwrap() < total);

    // What the model wants to hold, fed back as positions of a file, earns the same.
    let (told, code) = place.json(&["predict", "run-planted", "planted", "--positions", "--out", "p.parquet"]);
    assert_eq!((code, told["bars"].as_u64().is_some_and(|n| n > 3000)), (0, true), "{told}");
    let (own, code) = place.json(&["backtest", "planted", "--positions", "p.parquet", "--out", "own"]);
    assert_eq!(code, 0, "{own}");
    let same = own["backtest"]["net"]["total_return"].as_f64().unwrap();
    assert!((same / total - 1.0).abs() < 1e-9, "{same} and {total}");

    synth(&[], "plain");
    let value = train("plain", "r = log_return(1), s = log_return(5)");
    let net = &value["backtest"]["net"];
    let verdict = value["evidence"]["verdict"].as_str().unwrap();
    assert!(["no-evidence", "not-enough-data"].contains(&verdict), "{}", value["evidence"]);
    let above = |low: f64| low > 0.0;
    let low = net["sharpe_annual"].as_f64().zip(net["sharpe_annual_error"].as_f64());
    assert!(!low.is_some_and(|(sharpe, error)| above(sharpe - 1.96 * error)), "{net}");
}

/// Positions end at the barriers of their label where that is set: in training, from the model, from a file.
#[test]
fn positions_end_at_the_barriers_of_their_label() {
    let place = Place::new();
    let synth = |count: &str, name: &str| {
        let args = ["data", "synth", "--count", count, "--bars", "4000", "--timeframe", "5m", "--name", name];
        place.json(&[&args[..], &["--plant", "--accuracy", "0.9", "--stay", "0.9", "--cost-bp", "1"]].concat());
    };
    synth("1", "one");
    let train = |name: &str, label: &str| {
        let args = ["train", name, "--learner", "mlp", "--features", "p = col(plant)", "--labels", label];
        let more = ["--seeds", "1", "--epochs", "2", "--folds", "2", "--out", "run", "--device", "cpu"];
        place.json(&[&args[..], &more[..], &["--set", "trading.exit=label"]].concat())
    };
    let (value, code) = train("one", "fixed(2)");
    assert!(code == 2 && value.to_string().contains("the label fixed(2) has no barriers"), "{value}");
    let (value, code) = train("one", "triple(6)");
    assert_eq!(code, 0, "{value}");
    let closed = |value: &serde_json::Value, what: &str| {
        let all = value["backtest"]["incidents"].as_array().unwrap_or_else(|| panic!("{value}"));
        all.iter().find(|kind| kind["what"] == what).map_or(0, |kind| kind["count"].as_u64().unwrap())
    };
    let total = |value: &serde_json::Value| value["backtest"]["net"]["total_return"].as_f64().unwrap();
    assert!(closed(&value, "stop") + closed(&value, "limit") > 3, "{value}");
    // The model keeps it, and another exit is another trial.
    let (again, _) = place.json(&["backtest", "run", "--out", "again"]);
    assert_eq!((total(&again), &again["trials"]), (total(&value), &serde_json::Value::Null), "{again}");
    let (other, _) = place.json(&["backtest", "run", "--out", "other", "--set", "trading.exit=horizon"]);
    assert_eq!((closed(&other, "stop"), closed(&other, "limit"), &other["trials"]), (0, 0, &2.into()), "{other}");
    assert_ne!(total(&other), total(&value));
    let (parity, code) = place.json(&["check", "parity", "run", "--device", "cpu"]);
    assert_eq!((code, &parity["equal"]), (0, &true.into()), "{parity}");
    // What it wants to hold, with stops and limits, earns the same from a file.
    let (told, code) = place.json(&["predict", "run", "one", "--positions", "--out", "p.parquet"]);
    assert_eq!(code, 0, "{told}");
    let (own, code) = place.json(&["backtest", "one", "--positions", "p.parquet", "--out", "own"]);
    assert!(code == 0 && (total(&own) / total(&value) - 1.0).abs() < 1e-9, "{own}");
    assert_eq!(closed(&own, "limit"), closed(&value, "limit"));

    synth("3", "three");
    let (value, code) = train("three", "triple(6)");
    assert!(code == 2 && value.to_string().contains("is for one symbol, and there are 3"), "{value}");
}

/// A universe is fed bar by bar as one portfolio; features of the whole market are refused.
#[test]
fn a_universe_is_streamed_or_refused() {
    let place = Place::new();
    let (made, code) = place.json(&["data", "synth", "--count", "4", "--bars", "700", "--name", "many"]);
    assert_eq!(code, 0, "{made}");
    for (set, code, says) in [
        ("r = log_return(1), e = ema(20)/close - 1\n[slow @1w]\nr = log_return(1)", 0, "\"equal\":true"),
        ("r = log_return(1), m = market_return(1, 3)", 2, "cannot be streamed yet"),
    ] {
        let out = format!("run-{code}");
        let args = ["train", "many", "--learner", "mlp", "--features", set, "--labels", "fixed(2)", "--device", "cpu"];
        let more = ["--seeds", "1", "--epochs", "1", "--folds", "2", "--out", &out];
        let (value, trained) = place.json(&[&args[..], &more[..]].concat());
        assert_eq!(trained, 0, "{value}");
        let (value, got) = place.json(&["check", "parity", &out, "many", "--device", "cpu"]);
        assert!(got == code && value.to_string().contains(says), "{set}: {got} {value}");
    }
    let text = place.run(&["check", "parity", "run-0", "--device", "cpu"]);
    assert!(super::text(&text.stdout).contains("does what its backtest did, to the bit"), "{text:?}");
}
