//! Policies that learn by trying, as a user trains them.

use super::Place;

/// A market with a column that tells four of five next bars: the policy finds it, trades it and is told that it is too
/// good. The same seed gives the same result with other threads.
#[test]
fn a_policy_finds_what_a_market_hides() {
    let place = Place::new();
    let synth = ["data", "synth", "--plant", "--count", "1", "--kind", "crypto", "--bars", "6000"];
    let (made, exit) = place.json(&[&synth[..], &["--timeframe", "1h", "--name", "planted"]].concat());
    assert_eq!(exit, 0, "{made}");
    let train = |out: &str, threads: &str, more: &[&str]| {
        let set = ["--features", "p = col(plant), log_return(1), volatility(20)", "--folds", "3", "--seeds", "2"];
        let args = ["train", "planted", "--learner", "ppo", "--device", "cpu", "--timesteps", "100000"];
        let pace =
            ["--n-envs", "32", "--n-steps", "64", "--set", "train.rate=0.003", "--out", out, "--threads", threads];
        place.json(&[&args[..], &set, &pace, more].concat())
    };
    let (run, exit) = train("run", "2", &[]);
    assert_eq!(exit, 0, "{run}");
    let grown = run["judged"]["growth_bp"].as_f64().expect("growth");
    assert!(grown > 1.0, "{grown} bp a bar: {run}");
    assert!(run["backtest"].is_object(), "{run}");
    assert_eq!((&run["learner"], &run["label"]), (&"ppo".into(), &serde_json::Value::Null));
    assert_eq!(run["members"].as_array().map(Vec::len), Some(6));
    for file in ["result.json", "report.html", "backtest/returns.parquet", "policies.json"] {
        assert!(place.path().join("run").join(file).exists(), "{file}");
    }
    let (again, exit) = train("again", "1", &[]);
    assert_eq!(exit, 0, "{again}");
    for field in ["judged", "members", "backtest"] {
        assert_eq!(run[field], again[field], "{field}");
    }
    // What has no model says so, and what cannot be traded is refused.
    let (refused, exit) = place.json(&["predict", "run", "planted"]);
    assert!(exit != 0 && refused.to_string().contains("leave no model"), "{refused}");
    let (refused, exit) = train("around", "2", &["--split", "kfold"]);
    assert!(exit == 2 && refused.to_string().contains("walk forward"), "{exit} {refused}");
    let (refused, exit) = train("labels", "2", &["--labels", "fixed(3)"]);
    assert!(exit == 2 && refused.to_string().contains("not from labels"), "{exit} {refused}");
    let (refused, exit) = train("decay", "2", &["--try", "decay=0,0.1"]);
    assert!(exit == 2 && refused.to_string().contains("are of classifiers"), "{exit} {refused}");
    let (refused, exit) = train("net", "2", &["--net", "row:3 / 8 / direction:3"]);
    assert!(exit == 2 && refused.to_string().contains("a policy reads"), "{exit} {refused}");
}
